/* SPDX-License-Identifier: BSD-3-Clause */
/* With other parallelism: data 2 x tensor 2 x pipeline 2 with stage 2 over the data group, and experts over a group of their own.
 * The losses are those of the whole model in one process, to the rounding of fp32. */
#include "tests/zero/model.h"

enum { WIDTH = 8, HIDDEN = 12, LAYERS = 2, BATCH = 3, STEPS = 12, HALF = HIDDEN / 2 };

/* A layer: x + b + down . tanh(up . x). */
struct layer {
    double up[HIDDEN][WIDTH], down[WIDTH][HIDDEN], b[WIDTH];
};

static double number(int a, int b, int c, int d)
{
    unsigned x =
        (unsigned)a * 73856093u ^ (unsigned)b * 19349663u ^ (unsigned)c * 83492791u ^ (unsigned)(d + 1) * 2654435u;

    x ^= x >> 13;
    x *= 1274126177u;
    x ^= x >> 16;
    return (double)(x % 2000) / 1000 - 1;
}

static void initial(struct layer *layer, int l)
{
    for (int h = 0; h < HIDDEN; h++)
        for (int i = 0; i < WIDTH; i++) {
            layer->up[h][i] = .4 * number(l, h, i, 1);
            layer->down[i][h] = .4 * number(l, h, i, 2);
        }
    for (int i = 0; i < WIDTH; i++)
        layer->b[i] = .1 * number(l, i, 0, 3);
}

static double input(int step, int replica, int sample, int i)
{
    return number(step, replica, sample, i + 10);
}

static double target(int step, int replica, int sample, int i)
{
    return .5 * number(step, replica, sample, (i + 3) % WIDTH + 10);
}

static const weft_zero_hyper hyper = {sizeof(weft_zero_hyper), .02, .9, .99, 1e-6, .01, 0, 0, 0, 0, 0, 10, .01};
static const double clip = .3;

/* ---- The whole model in double ---- */

static void adam_step(double *w, double g, double *m, double *v, int step)
{
    *m = hyper.beta1 * *m + (1 - hyper.beta1) * g;
    *v = hyper.beta2 * *v + (1 - hyper.beta2) * g * g;
    *w -= hyper.lr * hyper.weight_decay * *w;
    *w -= hyper.lr * *m / (1 - pow(hyper.beta1, step)) / (sqrt(*v / (1 - pow(hyper.beta2, step))) + hyper.eps);
}

static void whole_backward(const struct layer *layer, const double *x, const double *act, const double *dy,
                           struct layer *g, double *dx)
{
    double dz[HIDDEN];

    memcpy(dx, dy, WIDTH * sizeof *dx);
    for (int h = 0; h < HIDDEN; h++) {
        double da = 0;

        for (int i = 0; i < WIDTH; i++) {
            da += dy[i] * layer->down[i][h];
            g->down[i][h] += dy[i] * act[h];
        }
        dz[h] = da * (1 - act[h] * act[h]);
        for (int i = 0; i < WIDTH; i++) {
            g->up[h][i] += dz[h] * x[i];
            dx[i] += dz[h] * layer->up[h][i];
        }
    }
    for (int i = 0; i < WIDTH; i++)
        g->b[i] += dy[i];
}

static void whole_model(int replicas, double losses[STEPS])
{
    static struct layer layers[LAYERS], grads[LAYERS], m[LAYERS], v[LAYERS];
    enum { N = sizeof(struct layer) / sizeof(double) };

    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (int l = 0; l < LAYERS; l++)
        initial(&layers[l], l);
    for (int s = 0; s < STEPS; s++) {
        double squares = 0;

        losses[s] = 0;
        memset(grads, 0, sizeof grads);
        for (int r = 0; r < replicas; r++)
            for (int k = 0; k < BATCH; k++) {
                double x[LAYERS + 1][WIDTH], act[LAYERS][HIDDEN], d[WIDTH], dx[WIDTH];

                for (int i = 0; i < WIDTH; i++)
                    x[0][i] = input(s, r, k, i);
                for (int l = 0; l < LAYERS; l++) {
                    for (int i = 0; i < WIDTH; i++)
                        x[l + 1][i] = x[l][i] + layers[l].b[i];
                    for (int h = 0; h < HIDDEN; h++) {
                        double z = 0;

                        for (int i = 0; i < WIDTH; i++)
                            z += layers[l].up[h][i] * x[l][i];
                        act[l][h] = tanh(z);
                        for (int i = 0; i < WIDTH; i++)
                            x[l + 1][i] += layers[l].down[i][h] * act[l][h];
                    }
                }
                for (int i = 0; i < WIDTH; i++) {
                    d[i] = x[LAYERS][i] - target(s, r, k, i);
                    losses[s] += d[i] * d[i] / 2;
                }
                for (int l = LAYERS - 1; l >= 0; l--) {
                    whole_backward(&layers[l], x[l], act[l], d, &grads[l], dx);
                    memcpy(d, dx, sizeof d);
                }
            }
        losses[s] /= replicas;
        for (int l = 0; l < LAYERS; l++)
            for (int i = 0; i < N; i++) {
                double *g = (double *)&grads[l] + i;

                *g /= replicas;
                squares += *g * *g;
            }
        double norm = sqrt(squares), factor = norm + 1e-6 > clip ? clip / (norm + 1e-6) : 1;

        for (int l = 0; l < LAYERS; l++)
            for (int i = 0; i < N; i++)
                adam_step((double *)&layers[l] + i, factor * ((double *)&grads[l])[i], (double *)&m[l] + i,
                          (double *)&v[l] + i, s + 1);
    }
}

/* ---- One rank of eight: half of a layer's hidden units, for half of the samples ---- */

struct part {
    weft_zero *zero;
    weft_comm *all, *tensor;
    int rank, replica, half, stage, up, down, b, unit;
    int next; /* the rank with the other layer */
};

static int add_param(struct part *p, const char *name, size_t rows, size_t columns, unsigned flags)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    size_t shape[2] = {rows, columns};
    int index = -1;

    param.name = name;
    param.ndims = 2;
    param.shape = shape;
    param.flags = flags;
    WT_REQUIRE_OK(weft_zero_param_add(p->zero, &param, &index));
    return index;
}

static void set_part(const struct part *p)
{
    struct layer layer;
    float up[HALF * WIDTH], down[WIDTH * HALF], b[WIDTH];

    initial(&layer, p->stage);
    for (int h = 0; h < HALF; h++)
        for (int i = 0; i < WIDTH; i++) {
            up[h * WIDTH + i] = (float)layer.up[p->half * HALF + h][i];
            down[i * HALF + h] = (float)layer.down[i][p->half * HALF + h];
        }
    for (int i = 0; i < WIDTH; i++)
        b[i] = (float)layer.b[i];
    WT_REQUIRE_OK(weft_zero_param_set(p->zero, p->up, WEFT_ZERO_WEIGHT, up, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_param_set(p->zero, p->down, WEFT_ZERO_WEIGHT, down, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_param_set(p->zero, p->b, WEFT_ZERO_WEIGHT, b, WEFT_FLOAT32));
}

static float forward(const struct part *p, const float *x, float *act, float *y)
{
    float sum[WIDTH] = {0};
    void *up, *down, *b;

    WT_REQUIRE_OK(weft_zero_param_data(p->zero, p->up, &up));
    WT_REQUIRE_OK(weft_zero_param_data(p->zero, p->down, &down));
    WT_REQUIRE_OK(weft_zero_param_data(p->zero, p->b, &b));
    for (int h = 0; h < HALF; h++) {
        float z = 0;

        for (int i = 0; i < WIDTH; i++)
            z += ((float *)up)[h * WIDTH + i] * x[i];
        act[h] = tanhf(z);
        for (int i = 0; i < WIDTH; i++)
            sum[i] += ((float *)down)[i * HALF + h] * act[h];
    }
    WT_REQUIRE_OK(weft_all_reduce(p->tensor, sum, sum, WIDTH, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (int i = 0; i < WIDTH; i++)
        y[i] = x[i] + ((float *)b)[i] + sum[i];
    return 0;
}

struct grads {
    float up[HALF * WIDTH], down[WIDTH * HALF], b[WIDTH];
};

static void backward(const struct part *p, const float *x, const float *act, const float *dy, struct grads *g,
                     float *dx)
{
    float sum[WIDTH] = {0};
    void *up, *down;

    WT_REQUIRE_OK(weft_zero_param_data(p->zero, p->up, &up));
    WT_REQUIRE_OK(weft_zero_param_data(p->zero, p->down, &down));
    for (int h = 0; h < HALF; h++) {
        float da = 0, dz;

        for (int i = 0; i < WIDTH; i++) {
            da += dy[i] * ((float *)down)[i * HALF + h];
            g->down[i * HALF + h] += dy[i] * act[h];
        }
        dz = da * (1 - act[h] * act[h]);
        for (int i = 0; i < WIDTH; i++) {
            g->up[h * WIDTH + i] += dz * x[i];
            sum[i] += dz * ((float *)up)[h * WIDTH + i];
        }
    }
    WT_REQUIRE_OK(weft_all_reduce(p->tensor, sum, sum, WIDTH, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (int i = 0; i < WIDTH; i++) {
        dx[i] = dy[i] + sum[i];
        g->b[i] += dy[i];
    }
}

/* The loss of this replica, on the ranks of the second layer. */
static double parallel_step(const struct part *p, int step)
{
    struct grads g = {{0}, {0}, {0}};
    double loss = 0;

    WT_REQUIRE_OK(weft_zero_pre_forward(p->zero, p->unit));
    for (int k = 0; k < BATCH; k++) {
        float x[WIDTH], act[HALF], y[WIDTH], d[WIDTH], dx[WIDTH];

        for (int i = 0; i < WIDTH; i++)
            x[i] = (float)input(step, p->replica, k, i);
        if (p->stage == 1)
            WT_REQUIRE_OK(weft_recv(p->all, x, WIDTH, WEFT_FLOAT32, p->next, 0, NULL));
        forward(p, x, act, y);
        if (p->stage == 0) {
            WT_REQUIRE_OK(weft_send(p->all, y, WIDTH, WEFT_FLOAT32, p->next, 0, NULL));
            WT_REQUIRE_OK(weft_recv(p->all, d, WIDTH, WEFT_FLOAT32, p->next, 1, NULL));
        } else {
            for (int i = 0; i < WIDTH; i++) {
                d[i] = y[i] - (float)target(step, p->replica, k, i);
                loss += (double)d[i] * (double)d[i] / 2;
            }
        }
        backward(p, x, act, d, &g, dx);
        if (p->stage == 1)
            WT_REQUIRE_OK(weft_send(p->all, dx, WIDTH, WEFT_FLOAT32, p->next, 1, NULL));
    }
    WT_REQUIRE_OK(weft_zero_post_forward(p->zero, p->unit));
    WT_REQUIRE_OK(weft_zero_grad_add(p->zero, p->up, g.up, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_grad_add(p->zero, p->down, g.down, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_grad_add(p->zero, p->b, g.b, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_micro_batch_end(p->zero));
    return loss;
}

static void three_axes(int rank, int nranks, void *arg)
{
    struct part p = {.rank = rank, .half = rank & 1, .replica = rank >> 1 & 1, .stage = rank >> 2};
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    double expected[STEPS], loss, mean = 0;
    weft_comm *data, *model;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    p.all = f.comm;
    p.next = rank ^ 4;
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank >> 1, 0, NULL, &p.tensor));
    WT_REQUIRE_OK(weft_comm_split(f.comm, p.stage * 2 + p.half, 0, NULL, &data));
    WT_REQUIRE_OK(weft_comm_split(f.comm, p.replica, 0, NULL, &model));
    config.stage = *(const int *)arg;
    config.clip = clip;
    config.threads = 1;
    config.model = model;
    WT_REQUIRE_OK(weft_zero_create(data, &config, &p.zero));
    p.up = add_param(&p, "up", HALF, WIDTH, 0);
    p.down = add_param(&p, "down", WIDTH, HALF, 0);
    p.b = add_param(&p, "b", 1, WIDTH, p.half ? WEFT_ZERO_DUPLICATE : 0);
    WT_REQUIRE_OK(weft_zero_unit_add(p.zero, "layer", (int[]){p.up, p.down, p.b}, 3, &p.unit));
    WT_REQUIRE_OK(weft_zero_seal(p.zero));
    set_part(&p);
    whole_model(2, expected);
    for (int s = 0; s < STEPS; s++) {
        loss = parallel_step(&p, s);
        WT_REQUIRE_OK(weft_zero_step(p.zero, &hyper, 1, NULL));
        WT_REQUIRE_OK(weft_all_reduce(data, &loss, &mean, 1, WEFT_FLOAT64, WEFT_AVG, NULL));
        if (p.stage == 1 && fabs(mean - expected[s]) > 2e-5 * expected[s])
            wt_fail(__FILE__, __LINE__, "the loss of step %d is %.9g, not %.9g", s, mean, expected[s]);
    }
    WT_CHECK(expected[STEPS - 1] < expected[0]);
    WT_CHECK_OK(weft_zero_destroy(p.zero));
    WT_CHECK_OK(weft_comm_destroy(p.tensor));
    WT_CHECK_OK(weft_comm_destroy(data));
    WT_CHECK_OK(weft_comm_destroy(model));
    ft_close(&f);
}

/* ---- Experts: four ranks, all for data; two experts, each on two ranks; both are trained by all samples ---- */

static void experts(int rank, int nranks, void *arg)
{
    enum { ELEMS = 37 };
    int expert = rank & 1;
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;
    double weights[3][ELEMS], m[3][ELEMS] = {{0}}, v[3][ELEMS] = {{0}};
    float start[ELEMS], values[ELEMS], grad[ELEMS];
    size_t shape = ELEMS;
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    int dense, own, units[2];
    weft_comm *same_expert;
    weft_zero *zero;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_split(f.comm, expert, 0, NULL, &same_expert));
    config.stage = *(const int *)arg;
    config.experts = same_expert;
    config.clip = clip;
    config.threads = 1;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.ndims = 1;
    param.shape = &shape;
    param.name = "dense";
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &dense));
    param.name = "expert";
    param.flags = WEFT_ZERO_EXPERT;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &own));
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "dense", &dense, 1, &units[0]));
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "expert", &own, 1, &units[1]));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < ELEMS; i++)
            weights[t][i] = number(t, i, 0, 77);
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < ELEMS; i++)
            start[i] = (float)weights[t ? 1 + expert : 0][i];
        WT_REQUIRE_OK(weft_zero_param_set(zero, t ? own : dense, WEFT_ZERO_WEIGHT, start, WEFT_FLOAT32));
    }
    for (int s = 0; s < STEPS; s++) {
        double g[3][ELEMS] = {{0}}, squares = 0;

        for (int t = 0; t < 2; t++) {
            for (int i = 0; i < ELEMS; i++)
                grad[i] = (float)number(s, rank, i, t);
            WT_REQUIRE_OK(weft_zero_grad_add(zero, t ? own : dense, grad, WEFT_FLOAT32));
        }
        WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
        WT_REQUIRE_OK(weft_zero_step(zero, &hyper, 1, &info));
        for (int r = 0; r < nranks; r++)
            for (int i = 0; i < ELEMS; i++) {
                g[0][i] += number(s, r, i, 0) / nranks;
                g[1 + (r & 1)][i] += number(s, r, i, 1) / nranks;
            }
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < ELEMS; i++)
                squares += g[t][i] * g[t][i];
        WT_CHECK(fabs(info.norm - sqrt(squares)) < 1e-5 * sqrt(squares));
        double factor = sqrt(squares) + 1e-6 > clip ? clip / (sqrt(squares) + 1e-6) : 1;

        for (int t = 0; t < 3; t++)
            for (int i = 0; i < ELEMS; i++)
                adam_step(&weights[t][i], factor * g[t][i], &m[t][i], &v[t][i], s + 1);
    }
    for (int t = 0; t < 2; t++) {
        WT_REQUIRE_OK(weft_zero_param_get(zero, t ? own : dense, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
        for (int i = 0; i < ELEMS; i++)
            WT_CHECK(fabs((double)values[i] - weights[t ? 1 + expert : 0][i]) < 1e-5);
    }
    WT_CHECK_OK(weft_zero_destroy(zero));
    WT_CHECK_OK(weft_comm_destroy(same_expert));
    ft_close(&f);
}

static void axes(void)
{
    int stages[] = {1, 2, 3};

    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(wt_run(8, three_axes, &stages[i], 60000), 0);
}

static void with_experts(void)
{
    int stages[] = {0, 1, 2, 3};

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(wt_run(4, experts, &stages[i], 60000), 0);
}

static const struct wt_case cases[] = {
    {"data 2 x tensor 2 x pipeline 2", axes},
    {"experts over a group of their own", with_experts},
};
WT_UNIT_MAIN("zero: with other parallelism", cases)
