/* Add up a vector over all ranks:  weft-run -n 4 ./all_reduce
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

enum { COUNT = 1000 };

int main(void)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    int rank, nranks;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));

    float mine[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(rank + i);

    /* A NULL request: the call returns when the result is there. */
    CHECK(weft_all_reduce(comm, mine, sum, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (int i = 0; i < COUNT; i++)
        expect(sum[i] == (float)(nranks * (nranks - 1) / 2 + nranks * i), "all_reduce");

    /* In place: source and destination are the same vector. */
    CHECK(weft_all_reduce(comm, mine, mine, COUNT, WEFT_FLOAT32, WEFT_MAX, NULL));
    expect(mine[0] == (float)(nranks - 1), "all_reduce in place");

    if (rank == 0)
        printf("sum over %d ranks: %g ... %g\n", nranks, (double)sum[0], (double)sum[COUNT - 1]);
    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
