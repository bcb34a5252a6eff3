/* Average gradients in an eighth of the bytes, with and without error feedback:  weft-run -n 4 ./compressed_all_reduce
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <weft/weft_compress.h>
#include "check.h"

enum { COUNT = 20000, STEPS = 300 };

/* Rank r wants element i to be target(r, i); together they want the average, where each rank's own gradient is far from 0. */
static float target(int rank, int i)
{
    return sinf((float)(i * (rank + 1))) + (float)(i % 7 == 0 ? 40 * (rank % 2) : 0);
}

static void average(weft_comm *comm, float *gradient, const char *codec)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = WEFT_CALL_INIT;

    options.codec = codec;
    options.tensor = 1; /* whose residual: with ef=1, what is lost of a gradient is sent with the next one */
    call.kind = WEFT_KIND_ALL_REDUCE;
    call.src = call.dst = gradient;
    call.count = COUNT;
    call.dtype = WEFT_FLOAT32;
    call.op = WEFT_AVG;
    call.options = &options;
    CHECK(weft_issue(comm, &call, NULL));
}

/* Gradient descent from 0; how far from the optimum it ends, per element. */
static double descend(weft_comm *comm, int rank, int nranks, const char *codec)
{
    float *w = calloc(COUNT, sizeof *w), *gradient = malloc(COUNT * sizeof *gradient);
    double distance = 0;

    expect(w && gradient, "memory");
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++)
            gradient[i] = w[i] - target(rank, i);
        average(comm, gradient, codec);
        for (int i = 0; i < COUNT; i++)
            w[i] -= (step < STEPS / 2 ? 0.1f : 0.01f) * gradient[i];
    }
    for (int i = 0; i < COUNT; i++) {
        double best = 0;
        for (int r = 0; r < nranks; r++)
            best += (double)target(r, i) / nranks;
        distance += fabs(w[i] - best) / COUNT;
    }
    free(w);
    free(gradient);
    return distance;
}

int main(void)
{
    /* bypass=never: within one host plain data is faster, and would be sent. */
    static const char *const codecs[] = {"none", "int4:bypass=never", "int4:ef=1,bypass=never"};
    double distance[3];
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    int rank, nranks;
    size_t bytes;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));
    CHECK(weft_codec_bytes("int4", COUNT, &bytes));
    for (int i = 0; i < 3; i++) {
        distance[i] = descend(comm, rank, nranks, codecs[i]);
        if (rank == 0)
            printf("%-24s %.4f from the optimum\n", codecs[i], distance[i]);
    }
    if (rank == 0)
        printf("a vector has %zu bytes, its image %zu\n", COUNT * sizeof(float), bytes);
    if (nranks > 1)
        expect(distance[2] < 0.1 * distance[1], "error feedback");
    CHECK(weft_comm_residual_clear(comm, 0)); /* the next model's tensor 1 begins anew */
    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
