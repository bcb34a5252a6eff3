/* Communicate and compute at the same time:  weft-run -n 2 ./overlap
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

enum { BUCKETS = 8, COUNT = 1 << 18 };

/* Stands for the backward pass of one layer. */
static void compute(float *gradient, int rank, int bucket)
{
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)(rank + bucket + i % 16);
}

int main(void)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_request *reqs[BUCKETS];
    int rank, nranks;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));

    float *gradients = malloc(sizeof(float) * BUCKETS * COUNT);
    expect(gradients != NULL, "malloc");

    /* As soon as a bucket is computed its sum is under way; the next is computed meanwhile. */
    for (int b = 0; b < BUCKETS; b++) {
        float *bucket = gradients + (size_t)b * COUNT;
        compute(bucket, rank, b);
        CHECK(weft_all_reduce(comm, bucket, bucket, COUNT, WEFT_FLOAT32, WEFT_SUM, &reqs[b]));
    }

    /* Use the buckets in the order in which they come. A request is freed when it is not needed any more. */
    CHECK(weft_wait(reqs[0]));
    expect(gradients[0] == (float)(nranks * (nranks - 1) / 2), "the first bucket");
    CHECK(weft_wait_all(reqs, BUCKETS));
    for (int b = 0; b < BUCKETS; b++) {
        float last = gradients[(size_t)b * COUNT + COUNT - 1];
        expect(last == (float)(nranks * (nranks - 1) / 2 + nranks * (b + 15)), "a bucket");
        CHECK(weft_request_free(reqs[b]));
    }

    if (rank == 0)
        printf("%d buckets of %d floats summed over %d ranks while computing\n", BUCKETS, COUNT, nranks);
    free(gradients);
    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
