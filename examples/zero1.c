/* Train a small perceptron with optimizer states sharded over the ranks:  weft-run -n 4 ./zero1 [STAGE]
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <weft/weft_zero.h>

enum { IN = 8, HIDDEN = 16, BATCH = 12, STEPS = 300 };

/* The same for the same seed on every rank. */
static float noise(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int)*seed / 2147483648.f;
}

/* y = w2 . tanh(w1 x); adds the gradients of (y - t)^2 / 2 and returns the loss. */
static float sample(const float *w1, const float *w2, const float x[IN], float t, float *g1, float *g2)
{
    float hidden[HIDDEN], y = 0;

    for (int h = 0; h < HIDDEN; h++) {
        hidden[h] = 0;
        for (int i = 0; i < IN; i++)
            hidden[h] += w1[h * IN + i] * x[i];
        y += w2[h] * (hidden[h] = tanhf(hidden[h]));
    }
    for (int h = 0; h < HIDDEN; h++) {
        float back = (y - t) * w2[h] * (1 - hidden[h] * hidden[h]);
        g2[h] += (y - t) * hidden[h];
        for (int i = 0; i < IN; i++)
            g1[h * IN + i] += back * x[i];
    }
    return (y - t) * (y - t) / 2;
}

static int add(weft_zero *zero, const weft_comm *comm, const char *name, size_t rows, size_t columns)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    size_t shape[2] = {rows, columns};
    int index;

    param.name = name, param.ndims = 2, param.shape = shape;
    CHECK(weft_zero_param_add(zero, &param, &index));
    return index;
}

int main(int argc, char **argv)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_zero *zero;
    unsigned weights = 7;
    float values[HIDDEN * IN], first = 0, mean = 0;
    int rank, layers;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    config.stage = argc > 1 ? atoi(argv[1]) : 1;
    hyper.lr = .01;
    CHECK(weft_zero_create(comm, &config, &zero));
    int w1 = add(zero, comm, "w1", HIDDEN, IN), w2 = add(zero, comm, "w2", 1, HIDDEN), params[] = {w1, w2};
    CHECK(weft_zero_unit_add(zero, "layers", params, 2, &layers));
    CHECK(weft_zero_seal(zero));
    for (int i = 0; i < HIDDEN * IN; i++)
        values[i] = noise(&weights) / 2;
    CHECK(weft_zero_param_set(zero, w1, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    CHECK(weft_zero_param_set(zero, w2, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    for (int step = 0; step < STEPS; step++) {
        float g1[HIDDEN * IN] = {0}, g2[HIDDEN] = {0}, x[IN], loss = 0;
        unsigned data = (unsigned)(step * 64 + rank); /* every rank has samples of its own */
        void *p1, *p2;

        CHECK(weft_zero_pre_forward(zero, layers));
        CHECK(weft_zero_param_data(zero, w1, &p1));
        CHECK(weft_zero_param_data(zero, w2, &p2));
        for (int s = 0; s < BATCH; s++) {
            for (int i = 0; i < IN; i++)
                x[i] = noise(&data);
            loss += sample(p1, p2, x, sinf(x[0] + x[1]) - x[2] * x[3], g1, g2) / BATCH;
        }
        CHECK(weft_zero_post_forward(zero, layers));
        CHECK(weft_zero_grad_add(zero, w1, g1, WEFT_FLOAT32));
        CHECK(weft_zero_grad_add(zero, w2, g2, WEFT_FLOAT32));
        CHECK(weft_zero_micro_batch_end(zero));
        CHECK(weft_zero_step(zero, &hyper, 1, NULL));
        CHECK(weft_all_reduce(comm, &loss, &mean, 1, WEFT_FLOAT32, WEFT_AVG, NULL));
        first = step ? first : mean;
    }
    if (!rank)
        printf("stage %d: loss %g, at first %g\n", config.stage, mean, first);
    expect(mean < first / 5, "training");
    CHECK(weft_zero_destroy(zero));
    CHECK(weft_comm_destroy(comm));
    return weft_context_destroy(context) < 0;
}
