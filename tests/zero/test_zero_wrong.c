/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: wrong use is named and changes nothing, ranks that diverge are told so by name, overflow skips a step, memory may run
 * out. */
#include "tests/zero/model.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/harness/says.h"

static const weft_zero_hyper groups[2] = {WEFT_ZERO_HYPER_INIT, WEFT_ZERO_HYPER_INIT};

/* ---- One rank: arguments ---- */

static void wrong_configs(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(1);
    weft_zero *zero = NULL;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    SAYS(weft_zero_create(NULL, &config, &zero), WEFT_EINVAL, "comm is NULL");
    SAYS(weft_zero_create(f.comm, &config, NULL), WEFT_EINVAL, "zero is NULL");
    config.bytes = 3;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "WEFT_ZERO_CONFIG_INIT");
#define WRONG(field, value, text) \
    config = plain(1);            \
    config.field = value;         \
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, text)
    WRONG(stage, 4, "stage is 4, not from 0 to 3");
    WRONG(stage, -1, "stage is -1");
    WRONG(optimizer, (weft_zero_optimizer)99, "optimizer is 99, which is none");
    WRONG(micro_batches, 0, "micro_batches is 0");
    WRONG(reduce, (weft_zero_reduce)7, "reduce is 7");
    WRONG(grad_fp32, 2, "grad_fp32 is 2");
    WRONG(divisor, -1, "divisor is -1");
    WRONG(clip, NAN, "clip is");
    WRONG(loss_scale, -2, "loss_scale is -2");
    WRONG(threads, -1, "threads is -1");
    WRONG(overlap, 3, "overlap is 3");
    WRONG(shard_ranks, 2, "shard_ranks is 2, no divisor of the 1 ranks");
    WRONG(secondary_ranks, 2, "secondary_ranks is set, and stage is not 3");
    WRONG(offload_params, 1, "offload_params is set, and stage is not 3");
    WRONG(shard_ranks, -7, "shard_ranks is -7");
    config = plain(1);
    config.loss_scale = 0;
    config.loss_scale_window = 0;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "loss_scale_window is 0");
    config.loss_scale_window = 10;
    config.loss_scale_initial = .5;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "loss_scale_initial is 0.5, not from 1");
    WT_CHECK(zero == NULL);
    WT_CHECK_OK(weft_zero_destroy(NULL));
    ft_close(&f);
}

static void wrong_models(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(1);
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    size_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
    int a = -1, b = -1, unit = -1;
    weft_zero *zero = NULL;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    SAYS(weft_zero_seal(zero), WEFT_EINVAL, "no unit is defined");
    SAYS(weft_zero_param_add(zero, NULL, &a), WEFT_EINVAL, "weft_zero_param is NULL");
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "name is NULL");
    param.name = "";
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "name is empty");
    param.name = "w";
    SAYS(weft_zero_param_add(zero, &param, NULL), WEFT_EINVAL, "index is NULL");
    param.dtype = WEFT_INT32;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "dtype of \"w\" is int32");
    param.dtype = WEFT_FLOAT32;
    param.ndims = 9;
    param.shape = shape;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "has 9 dimensions; 0 to 8");
    param.ndims = 2;
    param.shape = NULL;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "and is NULL");
    param.shape = shape;
    shape[0] = SIZE_MAX / 2;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "too many elements");
    shape[0] = 2;
    param.flags = 32;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "of which 0x20 are none");
    param.flags = WEFT_ZERO_EXPERT;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "\"w\" is an expert's, and config.experts was NULL");
    param.flags = 0;
    param.group = -1;
    SAYS(weft_zero_param_add(zero, &param, &a), WEFT_EINVAL, "group of \"w\" is -1");
    param.group = 0;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &a));
    SAYS(weft_zero_param_add(zero, &param, &b), WEFT_EINVAL, "a parameter \"w\" already, number 0");
    param.name = "v";
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &b));
    SAYS(weft_zero_unit_add(zero, "", &a, 1, &unit), WEFT_EINVAL, "name is empty");
    SAYS(weft_zero_unit_add(zero, "u", &a, 1, NULL), WEFT_EINVAL, "unit is NULL");
    SAYS(weft_zero_unit_add(zero, "u", NULL, 1, &unit), WEFT_EINVAL, "params is NULL");
    SAYS(weft_zero_unit_add(zero, "u", (int[]){5}, 1, &unit), WEFT_EINVAL, "no parameter 5; there are 2");
    SAYS(weft_zero_unit_add(zero, "u", (int[]){a, a}, 2, &unit), WEFT_EINVAL, "\"w\" is in \"u\" twice");
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", &a, 1, &unit));
    SAYS(weft_zero_unit_add(zero, "u", &b, 1, &unit), WEFT_EINVAL, "a unit \"u\" already");
    SAYS(weft_zero_unit_add(zero, "v", &a, 1, &unit), WEFT_EINVAL, "\"w\" is in unit \"u\" already");
    SAYS(weft_zero_seal(zero), WEFT_EINVAL, "parameter \"v\" is in no unit");
    SAYS(weft_zero_pre_forward(zero, 0), WEFT_EINVAL, "not sealed yet");
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "v", &b, 1, &unit));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    SAYS(weft_zero_seal(zero), WEFT_EINVAL, "sealed already");
    SAYS(weft_zero_param_add(zero, &param, &b), WEFT_EINVAL, "sealed already");
    WT_CHECK_OK(weft_zero_destroy(zero));
    ft_close(&f);
}

static void wrong_passes(int rank, int nranks, void *arg)
{
    int stage = *(const int *)arg, add;
    weft_zero_config config = plain(stage);
    weft_zero_hyper hyper[2] = {WEFT_ZERO_HYPER_INIT, WEFT_ZERO_HYPER_INIT};
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;
    float values[ZT_MOST] = {0};
    struct zt_engine e;
    struct ft_rank f;
    void *data;
    double scale;

    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    SAYS(weft_zero_pre_forward(e.zero, 17), WEFT_EINVAL, "no unit 17; there are 5");
    SAYS(weft_zero_post_forward(e.zero, 1), WEFT_EINVAL, "no pass of unit \"blocks.0\" has begun");
    SAYS(weft_zero_post_backward(e.zero, 1), WEFT_EINVAL, "no pass of unit \"blocks.0\" has begun");
    SAYS(weft_zero_param_data(e.zero, 99, &data), WEFT_EINVAL, "no parameter 99");
    SAYS(weft_zero_param_data(e.zero, 0, NULL), WEFT_EINVAL, "data is NULL");
    SAYS(weft_zero_grad_add(e.zero, 3, values, WEFT_FLOAT32), WEFT_EINVAL, "\"block0.scale\" is frozen");
    SAYS(weft_zero_grad_add(e.zero, 1, NULL, WEFT_FLOAT32), WEFT_EINVAL, "gradient of \"block0.weight\" is NULL");
    SAYS(weft_zero_grad_add(e.zero, 1, values, WEFT_INT8), WEFT_EINVAL, "dtype is int8");
    SAYS(weft_zero_grad_buffer(e.zero, 1, NULL, &add), WEFT_EINVAL, "grad is NULL");
    SAYS(weft_zero_grad_ready(e.zero, 0), WEFT_EINVAL,
         "the place of the gradient of \"embed.weight\" was not asked for");
    SAYS(weft_zero_step(e.zero, groups, 2, NULL), WEFT_EINVAL, "0 of 1 micro-batches have ended");
    SAYS(weft_zero_param_set(e.zero, 0, WEFT_ZERO_GRAD, values, WEFT_FLOAT32), WEFT_EINVAL, "weft_zero_grad_add");
    SAYS(weft_zero_param_set(e.zero, 0, (weft_zero_what)9, values, WEFT_FLOAT32), WEFT_EINVAL, "what is 9");
    SAYS(weft_zero_param_set(e.zero, 3, WEFT_ZERO_MOMENT1, values, WEFT_FLOAT32), WEFT_EINVAL, "has no first moment");
    SAYS(weft_zero_param_get(e.zero, 0, WEFT_ZERO_GRAD, values, WEFT_FLOAT32), WEFT_EINVAL,
         "no gradient of \"embed.weight\"");
    WT_REQUIRE_OK(weft_zero_pre_forward(e.zero, 1));
    SAYS(weft_zero_param_set(e.zero, 1, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32), WEFT_EBUSY,
         "a pass of unit \"blocks.0\"");
    WT_REQUIRE_OK(weft_zero_post_forward(e.zero, 1));
    WT_REQUIRE_OK(weft_zero_grad_add(e.zero, 1, values, WEFT_FLOAT32));
    SAYS(weft_zero_grad_add(e.zero, 1, values, WEFT_FLOAT32), WEFT_EINVAL, "has come in this micro-batch already");
    SAYS(weft_zero_accumulate(e.zero, 1), WEFT_EINVAL, "have come already");
    SAYS(weft_zero_accumulate(e.zero, 2), WEFT_EINVAL, "more is 2");
    SAYS(weft_zero_step(e.zero, groups, 2, NULL), WEFT_EINVAL, "without weft_zero_micro_batch_end");
    WT_REQUIRE_OK(weft_zero_micro_batch_end(e.zero));
    SAYS(weft_zero_micro_batch_end(e.zero), WEFT_EINVAL, "weft_zero_step was not called");
    SAYS(weft_zero_grad_add(e.zero, 1, values, WEFT_FLOAT32), WEFT_EINVAL, "after the step's last micro-batch");
    SAYS(weft_zero_step(e.zero, groups, 1, NULL), WEFT_EINVAL, "is in group 1, and there are hyper-parameters of 1");
    SAYS(weft_zero_step(e.zero, NULL, 2, NULL), WEFT_EINVAL, "hypers is NULL");
    hyper[1].lr = NAN;
    SAYS(weft_zero_step(e.zero, hyper, 2, NULL), WEFT_EINVAL, "group 1: ");
    SAYS(weft_zero_loss_scale(e.zero, NULL), WEFT_EINVAL, "scale is NULL");
    WT_CHECK_OK(weft_zero_loss_scale(e.zero, &scale));
    WT_CHECK(scale == 1);
    SAYS(weft_zero_get_stats(e.zero, NULL), WEFT_EINVAL, "weft_zero_stats is NULL");
    WT_CHECK_OK(weft_zero_get_stats(e.zero, &stats));
    /* After all this a step still works. */
    WT_CHECK_OK(weft_zero_step(e.zero, groups, 2, NULL));
    zt_micro_batch(&e, 0, 0, 0);
    WT_CHECK_OK(weft_zero_drop_gradients(e.zero));
    SAYS(weft_zero_step(e.zero, groups, 2, NULL), WEFT_EINVAL, "0 of 1 micro-batches have ended");
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

/* ---- Several ranks that mean different things ---- */

static void other_configs(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(2);
    weft_zero *zero = NULL;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.clip = rank == 1 ? 2 : 1;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EMISMATCH, "clip of rank 1 is not that of rank 0");
    config.clip = 1;
    config.reduce_codec = rank == 2 ? "int4" : NULL;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EMISMATCH, "reduce_codec of rank 2");
    config.reduce_codec = NULL;
    /* Of these it depends which communicators are made. */
    config.shard_ranks = rank == 1 ? 1 : 0;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EMISMATCH, "shard_ranks of rank 1");
    config.shard_ranks = 0;
    config.stage = 3;
    config.secondary_ranks = rank == 2 ? 3 : 0;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EMISMATCH, "secondary_ranks of rank 2");
    config.secondary_ranks = 0;
    config.model = rank == 0 ? f.comm : NULL;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EMISMATCH, "model (whether it is set) of rank 1");
    config.model = NULL;
    config.stage = 2;
    config.threads = 1 + rank; /* may differ */
    WT_CHECK_OK(weft_zero_create(f.comm, &config, &zero));
    WT_CHECK_OK(weft_zero_destroy(zero));
    ft_close(&f);
}

static void add_one(weft_zero *zero, const char *name, size_t elems, int *index)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;

    param.name = name;
    param.ndims = 1;
    param.shape = &elems;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, index));
}

static void other_models(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(2);
    weft_zero *zero;
    struct ft_rank f;
    int list[3], unit;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    add_one(zero, "a", 10, &list[0]);
    add_one(zero, "b", rank == 2 ? 21 : 20, &list[1]);
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", list, 2, &unit));
    SAYS(weft_zero_seal(zero), WEFT_EMISMATCH,
         "rank 2 has another model than rank 0: parameter 1, \"b\", float [21] in unit 0, adamw; rank 0: "
         "parameter 1, \"b\", float [20]");
    WT_CHECK_OK(weft_zero_destroy(zero));
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;

    param.name = "a";
    param.optimizer = rank == 1 ? WEFT_ZERO_LION : WEFT_ZERO_SGD;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &list[0]));
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", list, 1, &unit));
    SAYS(weft_zero_seal(zero), WEFT_EMISMATCH,
         "\"a\", float [] in unit 0, lion; rank 0: parameter 0, \"a\", float [] in unit 0, sgd");
    WT_CHECK_OK(weft_zero_destroy(zero));
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    add_one(zero, "a", 10, &list[0]);
    WT_REQUIRE_OK(weft_zero_unit_add(zero, rank == 1 ? "v" : "u", list, 1, &unit));
    SAYS(weft_zero_seal(zero), WEFT_EMISMATCH,
         "rank 1 has another model than rank 0: unit 0, \"v\"; rank 0: unit 0, \"u\"");
    WT_CHECK_OK(weft_zero_destroy(zero));
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    add_one(zero, "a", 10, &list[0]);
    if (rank == 1)
        add_one(zero, "c", 10, &list[1]);
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", list, 1 + (rank == 1), &unit));
    SAYS(weft_zero_seal(zero), WEFT_EMISMATCH, "rank 1 has 2 parameters in 1 units, rank 0 has 1 in 1");
    WT_CHECK_OK(weft_zero_destroy(zero));
    ft_close(&f);
}

/* One rank goes through the units of one size in another order, runs more micro-batches, or has other hyper-parameters, after so
 * many steps that labels are long: all ranks hear of it, by name. */
static void divergence(int rank, int nranks, void *arg)
{
    int kind = *(const int *)arg, list[2], units[2];
    weft_zero_config config = plain(kind == 0 ? 3 : 2);
    float grad[1000] = {0};
    weft_zero *zero;
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.micro_batches = kind == 1 ? 2 : 1;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    add_one(zero, "a", 1000, &list[0]);
    add_one(zero, "b", 1000, &list[1]);
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "first", &list[0], 1, &units[0]));
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "second", &list[1], 1, &units[1]));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    if (kind == 0) {
        for (int i = 0; i < 2 && st >= 0; i++) {
            int unit = units[rank == 1 ? 1 - i : i];

            st = weft_zero_pre_forward(zero, unit);
            if (st >= 0)
                st = weft_zero_post_forward(zero, unit);
        }
    } else if (kind == 2) {
        weft_zero_hyper other[2] = {groups[0], groups[1]};

        other[1].eps *= 1 + (rank == 1);
        WT_REQUIRE_OK(weft_zero_set_step(zero, 1000000000000));
        WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
        st = weft_zero_step(zero, other, 2, NULL);
    } else {
        /* Rank 1 has steps of one micro-batch. */
        for (int s = 0; s < 2 && st >= 0; s++) {
            if (rank == 1)
                st = weft_zero_accumulate(zero, 0);
            for (int i = 1; i >= 0 && st >= 0; i--)
                st = weft_zero_grad_add(zero, list[i], grad, WEFT_FLOAT32);
            if (st >= 0)
                st = weft_zero_micro_batch_end(zero);
            if (st >= 0 && (rank == 1 || s == 1))
                st = weft_zero_step(zero, groups, 2, NULL);
        }
    }
    WT_CHECK_STATUS(st, WEFT_EMISMATCH);
    if (kind == 0)
        WT_CHECK(strstr(weft_thread_error(), "gather of first") && strstr(weft_thread_error(), "gather of second"));
    else if (kind == 2)
        WT_CHECK(strstr(weft_thread_error(), "step 1000000000001 after 1 micro-batches, hypers ") &&
                 strstr(weft_thread_error(), "have other hyper-parameters"));
    else
        WT_CHECK(
            strstr(weft_thread_error(), rank == 1 ? "step 1 after 1 micro-batches" : "reduction of ") &&
            strstr(weft_thread_error(), rank == 1 ? "(step 1, after 1 micro-batches)" : "rank 1 called all_reduce") &&
            strstr(weft_thread_error(), "ran different numbers of micro-batches"));
    SAYS(weft_zero_pre_forward(zero, units[0]), WEFT_EMISMATCH, "the engine has failed before");
    WT_CHECK_OK(weft_zero_destroy(zero));
    weft_comm_destroy(f.comm);
    weft_context_destroy(f.context);
}

/* ---- Overflow ---- */

static void overflow(int rank, int nranks, void *arg)
{
    int stage = *(const int *)arg;
    weft_zero_config config = plain(stage);
    weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;
    static float before[ZT_PARAMS * ZT_MOST], after[ZT_PARAMS * ZT_MOST];
    /* Overflow?, and the scale afterwards: hysteresis 2 and a window of 3. */
    static const struct {
        int bad;
        double scale;
    } steps[] = {{0, 1024}, {1, 1024}, {1, 512}, {1, 256}, {0, 256}, {0, 256}, {0, 512}, {1, 512}, {1, 256}};
    struct zt_engine e;
    struct ft_rank f;
    size_t n;
    uint64_t done = 0;
    double scale;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.loss_scale = 0;
    config.loss_scale_initial = 1024;
    config.loss_scale_window = 3;
    config.clip = .25;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        float bad[ZT_MOST] = {0};

        n = zt_weights(&e, WEFT_ZERO_WEIGHT, before);
        bad[3] = rank == nranks - 1 && steps[s].bad ? (s % 2 ? INFINITY : NAN) : 1;
        WT_REQUIRE_OK(weft_zero_grad_add(e.zero, 1, bad, WEFT_FLOAT32));
        WT_REQUIRE_OK(weft_zero_micro_batch_end(e.zero));
        WT_REQUIRE_OK(weft_zero_step(e.zero, groups, 2, &info));
        done += !steps[s].bad;
        WT_CHECK_INT(info.skipped, steps[s].bad);
        WT_CHECK(info.factor == 1 || !steps[s].bad);
        WT_CHECK_INT(info.step, done);
        WT_CHECK(info.loss_scale == steps[s].scale);
        WT_CHECK(steps[s].bad ? !isfinite(info.norm) : isfinite(info.norm));
        WT_CHECK_OK(weft_zero_loss_scale(e.zero, &scale));
        WT_CHECK(scale == steps[s].scale);
        WT_CHECK_INT(zt_weights(&e, WEFT_ZERO_WEIGHT, after), n);
        WT_CHECK((memcmp(before, after, n * sizeof *before) == 0) == steps[s].bad);
    }
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

/* ---- Memory runs out ---- */

static void exhausted(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(3);
    struct ft_rank f;
    int ended = 0;

    (void)arg;
    ft_open(&f, "inproc", 20000, rank, nranks);
    for (long n = 1; !ended && n < 3000; n++) {
        weft_zero *zero = NULL;
        int list[2], unit[2];
        weft_status st;

        wi_alloc_fail_nth(n);
        st = weft_zero_create(f.comm, &config, &zero);
        for (int i = 0; i < 2 && st >= 0; i++) {
            weft_zero_param param = WEFT_ZERO_PARAM_INIT;
            size_t elems = 100;

            param.name = i ? "a" : "b";
            param.ndims = 1;
            param.shape = &elems;
            st = weft_zero_param_add(zero, &param, &list[i]);
            if (st >= 0)
                st = weft_zero_unit_add(zero, param.name, &list[i], 1, &unit[i]);
        }
        if (st >= 0)
            st = weft_zero_seal(zero);
        for (int i = 0; i < 4 && st >= 0; i++) {
            st = i < 2 ? weft_zero_pre_forward(zero, unit[i]) : weft_zero_pre_backward(zero, unit[3 - i]);
            if (st >= 0)
                st = i < 2 ? weft_zero_post_forward(zero, unit[i]) : weft_zero_post_backward(zero, unit[3 - i]);
        }
        if (st >= 0)
            st = weft_zero_micro_batch_end(zero);
        if (st >= 0)
            st = weft_zero_step(zero, groups, 1, NULL);
        ended = wi_alloc_fail_nth(0) < n;
        if (st < 0)
            WT_CHECK(st == WEFT_ENOMEM && *weft_thread_error());
        else
            WT_CHECK_OK(st);
        WT_CHECK_OK(weft_zero_destroy(zero));
        if (weft_comm_status(f.comm) < 0) {
            weft_comm_destroy(f.comm);
            weft_context_destroy(f.context);
            ft_open(&f, "inproc", 20000, rank, nranks);
        }
    }
    WT_CHECK(ended);
    ft_close(&f);
}

/* ---- A forked child, sizes that cannot be ---- */

static void forked(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(3);
    struct zt_engine e;
    struct ft_rank f;
    int status;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    pid_t child = fork();

    WT_REQUIRE(child >= 0);
    if (child == 0) {
        int good = weft_zero_pre_forward(e.zero, 0) == WEFT_EINVAL && strstr(weft_thread_error(), "was forked") &&
                   weft_zero_destroy(e.zero) == WEFT_EINVAL && strstr(weft_thread_error(), "was forked");

        _exit(good ? 0 : 1);
    }
    WT_CHECK(waitpid(child, &status, 0) == child && status == 0);
    zt_micro_batch(&e, 0, 0, 0);
    WT_CHECK_OK(weft_zero_step(e.zero, groups, 2, NULL));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

/* Sums of elements that would not fit into 64 bits are found before anything is placed. */
static void too_large(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(1);
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    for (int whole = 0; whole < 2; whole++) {
        weft_zero *zero;
        int list[64], unit;

        WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
        for (int i = 0; i < 64; i++) {
            weft_zero_param param = WEFT_ZERO_PARAM_INIT;
            size_t elems = ((size_t)1 << 58) - 1;
            char name[8];

            snprintf(name, sizeof name, "p%d", i);
            param.name = name;
            param.ndims = 1;
            param.shape = &elems;
            param.flags = whole ? WEFT_ZERO_WHOLE : 0;
            WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &list[i]));
            param.name = "cut";
            param.cut_elems = ((size_t)1 << 60) + 1;
            SAYS(weft_zero_param_add(zero, &param, &unit), WEFT_EINVAL, "cut_elems of \"cut\" is");
        }
        WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", list, 64, &unit));
        SAYS(weft_zero_seal(zero), WEFT_EINVAL, "with parameter \"p0\" there are more than 2^48 elements");
        WT_CHECK_OK(weft_zero_destroy(zero));
    }
    ft_close(&f);
}

static void arguments(void)
{
    int stages[] = {0, 1, 2, 3};

    CU_ASSERT_EQUAL(wt_run(1, wrong_configs, NULL, 20000), 0);
    CU_ASSERT_EQUAL(wt_run(1, wrong_models, NULL, 20000), 0);
    CU_ASSERT_EQUAL(wt_run(1, forked, NULL, 20000), 0);
    CU_ASSERT_EQUAL(wt_run(2, too_large, NULL, 20000), 0);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(wt_run(1, wrong_passes, &stages[i], 20000), 0);
        CU_ASSERT_EQUAL(wt_run(2, wrong_passes, &stages[i], 20000), 0);
    }
}

static void disagreement(void)
{
    int kinds[] = {0, 1, 2};

    CU_ASSERT_EQUAL(wt_run(3, other_configs, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, other_models, NULL, 60000), 0);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(wt_run(3, divergence, &kinds[i], 60000), 0);
}

static void overflows(void)
{
    int stages[] = {0, 1, 2, 3};

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(wt_run(3, overflow, &stages[i], 60000), 0);
}

static void allocations(void)
{
    CU_ASSERT_EQUAL(wt_run(1, exhausted, NULL, 120000), 0);
}

static const struct wt_case cases[] = {
    {"wrong use is named and changes nothing", arguments},
    {"ranks that mean different things are told so", disagreement},
    {"an overflow skips the step on all ranks", overflows},
    {"every allocation may fail", allocations},
};
WT_UNIT_MAIN("zero: wrong use", cases)
