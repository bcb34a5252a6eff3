/* The same operation many times: prepared once, started often:  weft-run -n 4 ./persistent
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

enum { COUNT = 4096, ROUNDS = 100 };

int main(void)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_request *step = NULL;
    double *values = NULL;
    void *memory = NULL;
    int rank, nranks;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));

    /* Memory that the other ranks of this host can reach without a copy. */
    CHECK(weft_mem_alloc(context, COUNT * sizeof *values, &memory));
    values = memory;

    weft_call call = WEFT_CALL_INIT;
    call.kind = WEFT_KIND_ALL_REDUCE;
    call.src = call.dst = values;
    call.count = COUNT;
    call.dtype = WEFT_FLOAT64;
    call.op = WEFT_AVG;
    CHECK(weft_persistent(comm, &call, &step));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = (double)(rank + round);
        CHECK(weft_start(step));
        CHECK(weft_wait(step));
        double mean = (double)(nranks - 1) / 2 + round, wrong = values[COUNT - 1] - mean;
        expect(wrong < 1e-9 && wrong > -1e-9, "the mean");
    }
    if (rank == 0)
        printf("%d rounds, the last mean is %g\n", ROUNDS, values[0]);

    CHECK(weft_request_free(step));
    CHECK(weft_mem_free(context, memory));
    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
