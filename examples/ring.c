/* Pass a token around a ring with send and receive:  weft-run -n 4 ./ring
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

int main(void)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    int rank, nranks;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;

    /* One token that everybody adds to: receive before sending, except rank 0, which starts it. */
    int64_t token = 0;
    if (nranks > 1 && rank == 0) {
        CHECK(weft_send(comm, &token, 1, WEFT_INT64, next, 0, NULL));
        CHECK(weft_recv(comm, &token, 1, WEFT_INT64, previous, 0, NULL));
        expect(token == (int64_t)nranks * (nranks - 1) / 2, "token");
        printf("the token has seen %d ranks and holds %lld\n", nranks, (long long)token);
    } else if (nranks > 1) {
        CHECK(weft_recv(comm, &token, 1, WEFT_INT64, previous, 0, NULL));
        token += rank;
        CHECK(weft_send(comm, &token, 1, WEFT_INT64, next, 0, NULL));
    }

    /* Everybody shifts at once: one call that cannot deadlock. */
    int32_t mine = rank, theirs = -1;
    CHECK(weft_send_recv(comm, &mine, 1, next, 0, &theirs, 1, previous, 0, WEFT_INT32, NULL));
    expect(theirs == previous, "send_recv");

    /* The same as a group: what is between start and end is issued together. */
    weft_request *reqs[2];
    theirs = -1;
    CHECK(weft_group_start());
    CHECK(weft_send(comm, &mine, 1, WEFT_INT32, previous, 0, &reqs[0]));
    CHECK(weft_recv(comm, &theirs, 1, WEFT_INT32, next, 0, &reqs[1]));
    CHECK(weft_group_end());
    CHECK(weft_wait_all(reqs, 2));
    expect(theirs == next, "group");
    CHECK(weft_request_free(reqs[0]));
    CHECK(weft_request_free(reqs[1]));

    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
