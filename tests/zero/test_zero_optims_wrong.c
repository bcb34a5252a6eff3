/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers of engines: combinations that are refused, with their texts; what they take in memory, and when. */
#include "base/alloc.h"
#include "tests/harness/says.h"
#include "tests/zero/model.h"

static const weft_zero_hyper groups[2] = {
    {sizeof(weft_zero_hyper), 1e-2, .9, .99, 1e-6, .1, .95, 0, 1, 0, 0, 10, .01},
    {sizeof(weft_zero_hyper), 3e-3, .8, .95, 1e-6, 0, .95, 0, 1, 0, 0, 10, .01},
};

static void own_update(void *arg, const weft_zero_update *piece)
{
    (void)arg;
    piece->weight[0] -= piece->grad[0];
}

static void wrong_callbacks(int rank, int nranks, void *arg)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;
    struct zt_engine e;
    weft_zero *zero = NULL;
    struct ft_rank f;
    size_t adamw;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    config.threads = 1;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    WT_CHECK_OK(weft_zero_get_stats(e.zero, &stats));
    adamw = stats.state_bytes;
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    config.optimizer = WEFT_ZERO_CALLBACK;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "the optimizer is callback, and update is NULL");
    config.update = own_update;
    config.update_moments = 3;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "update_moments is 3, not from 0 to 2");
    config.update_moments = 0;
    config.offload_folder = wt_temp_dir();
    config.offload_params = 1;
    config.stage = 3;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "update_moments is 0");
    config.offload_params = 0;
    config.update_moments = 2;
    config.optimizer = WEFT_ZERO_ADAM;
    config.update = NULL;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "update_moments is 2, not from 0 to 0");
    config.update_moments = 0;
    config.optimizer = WEFT_ZERO_LAMB;
    config.offload_params = 1;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "the optimizer is lamb, and offload_params is set");
    /* What it needs beside the states, for gradients in fp32, is counted, and bounded. */
    config = (weft_zero_config)WEFT_ZERO_CONFIG_INIT;
    config.threads = 1;
    config.optimizer = WEFT_ZERO_CALLBACK;
    config.update = own_update;
    config.update_moments = 2;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    WT_CHECK_OK(weft_zero_get_stats(e.zero, &stats));
    WT_CHECK(stats.state_bytes > adamw && stats.state_bytes <= adamw + 65536 * sizeof(float));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void wrong_muon(int rank, int nranks, void *arg)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_hyper hyper[2] = {groups[0], groups[1]};
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT, plain = WEFT_ZERO_STATS_INIT;
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    size_t shape[3] = {4, 5, 6};
    float values[20];
    struct zt_engine e;
    struct ft_rank f;
    weft_zero *zero;
    int number;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    config.threads = 1;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.name = "m";
    param.shape = shape;
    param.ndims = 2;
    param.optimizer = (weft_zero_optimizer)99;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "the optimizer of \"m\" is 99, which is none");
    param.optimizer = WEFT_ZERO_MUON;
    param.flags = WEFT_ZERO_FROZEN;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL,
         "the optimizer of \"m\" is muon, and it is WEFT_ZERO_FROZEN");
    param.flags = 0;
    param.ndims = 3;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "is muon, and it has not two dimensions");
    param.optimizer = WEFT_ZERO_CALLBACK;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "is callback, and update is NULL");
    WT_CHECK_OK(weft_zero_destroy(zero));
    param.ndims = 1;
    param.optimizer = (weft_zero_optimizer)0;
    config.optimizer = WEFT_ZERO_MUON;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "is muon, and it has not two dimensions");
    param.flags = WEFT_ZERO_FROZEN;
    WT_CHECK_OK(weft_zero_param_add(zero, &param, &number));
    WT_CHECK_OK(weft_zero_destroy(zero));
    param.flags = 0;
    param.ndims = 2;
    config.optimizer = WEFT_ZERO_ADAMW;
    config.stage = 3;
    config.offload_folder = wt_temp_dir();
    config.offload_params = 1;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.optimizer = WEFT_ZERO_MUON;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "is muon, and offload_params is set");
    param.optimizer = WEFT_ZERO_LAMB;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "is lamb, and offload_params is set");
    WT_CHECK_OK(weft_zero_destroy(zero));
    config.offload_params = 0;
    config.offload_moment1_codec = "int8:block=256";
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.optimizer = WEFT_ZERO_ADAGRAD;
    SAYS(weft_zero_param_add(zero, &param, &number), WEFT_EINVAL, "of sums of squares of adagrad");
    WT_CHECK_OK(weft_zero_destroy(zero));

    config = (weft_zero_config)WEFT_ZERO_CONFIG_INIT;
    config.threads = 1;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    WT_CHECK_OK(weft_zero_get_stats(e.zero, &plain));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    zt_whole_optimizer = WEFT_ZERO_MUON;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    WT_CHECK_OK(weft_zero_get_stats(e.zero, &stats));
    /* One moment less of 17 x 15 and 5 x 9 elements, padded to 16; scratch of 32 rows or columns for 15 and 17. */
    WT_CHECK_INT(stats.state_bytes + 4 * (256 + 48), plain.state_bytes + 4 * (2 * 17 * 32 + 2 * 16 * 32));
    SAYS(weft_zero_param_get(e.zero, e.params[4], WEFT_ZERO_MOMENT2, values, WEFT_FLOAT32), WEFT_EINVAL,
         "muon has no second moment");
    zt_micro_batch(&e, 0, 0, 0);
    hyper[0].momentum = 1;
    SAYS(weft_zero_step(e.zero, hyper, 2, NULL), WEFT_EINVAL, "group 0: muon: momentum is 1");
    hyper[0].momentum = 0;
    WT_CHECK_OK(weft_zero_step(e.zero, hyper, 2, NULL));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void wrong_states(int rank, int nranks, void *arg)
{
    static const weft_zero_optimizer refused[] = {WEFT_ZERO_ADAGRAD, WEFT_ZERO_LAMB, WEFT_ZERO_CALLBACK};
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    size_t bytes[3];
    struct zt_engine e;
    struct ft_rank f;
    weft_zero *zero;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    config.threads = 1;
    config.state_dtype = (weft_zero_state_dtype)7777;
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "state_dtype is 7777, not from 0 to 2");
    config.state_dtype = WEFT_ZERO_STATE_BLOCK8;
    for (int i = 0; i < 3; i++) {
        config.optimizer = refused[i];
        config.update = i == 2 ? own_update : NULL;
        SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "state_dtype is set, and the optimizer is");
    }
    config.update = NULL;
    config.optimizer = WEFT_ZERO_ADAMW;
    config.offload_folder = wt_temp_dir();
    SAYS(weft_zero_create(f.comm, &config, &zero), WEFT_EINVAL, "state_dtype and offload_folder are both set");
    config.offload_folder = NULL;
    for (int i = 0; i < 3; i++) {
        weft_zero_stats stats = WEFT_ZERO_STATS_INIT;

        config.state_dtype =
            (weft_zero_state_dtype[]){WEFT_ZERO_STATE_FP32, WEFT_ZERO_STATE_BF16, WEFT_ZERO_STATE_BLOCK8}[i];
        zt_seal(&e, &f, &config, WEFT_FLOAT32);
        WT_CHECK_OK(weft_zero_get_stats(e.zero, &stats));
        bytes[i] = stats.state_bytes;
        WT_CHECK_OK(weft_zero_destroy(e.zero));
    }
    /* Two moments of n elements, and what a thread needs; alignment and scales of the model's 5 flats are few. */
    size_t n = bytes[0] / 8, scratch = (size_t)2 * 33024 * 4;

    WT_CHECK(bytes[1] >= 4 * n + scratch && bytes[1] <= 4 * n + scratch + 10 * 64);
    WT_CHECK(bytes[2] >= 2 * n + scratch && bytes[2] <= 2 * n + scratch + 10 * 128);
    ft_close(&f);
}

/* A rank that has no memory in a step would keep the others waiting: the engine's own is had when it is sealed. */
static void no_memory(int rank, int nranks, void *arg)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    struct zt_engine e;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    config.stage = 0;
    config.threads = 1;
    config.optimizer = WEFT_ZERO_LAMB;
    zt_vector_optimizer = WEFT_ZERO_ADAMW;
    zt_whole_optimizer = WEFT_ZERO_MUON;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    for (int s = 0; s < 3; s++) { /* the third plans nothing anew */
        zt_micro_batch(&e, s, 0, 0);
        (void)wi_alloc_fail_nth(0);
        WT_REQUIRE_OK(weft_zero_step(e.zero, groups, 2, NULL));
    }
    WT_CHECK_INT(wi_alloc_fail_nth(0), 0);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void memory(void)
{
    CU_ASSERT_EQUAL(wt_run(1, no_memory, NULL, 20000), 0);
}

static void states(void)
{
    CU_ASSERT_EQUAL(wt_run(1, wrong_states, NULL, 20000), 0);
}

static void muon(void)
{
    CU_ASSERT_EQUAL(wt_run(1, wrong_muon, NULL, 20000), 0);
}

static void callbacks(void)
{
    CU_ASSERT_EQUAL(wt_run(1, wrong_callbacks, NULL, 20000), 0);
}

static const struct wt_case cases[] = {
    {"a step allocates nothing", memory},
    {"moments in fewer bytes", states},
    {"optimizers of parameters", muon},
    {"the program's optimizer", callbacks},
};
WT_UNIT_MAIN("zero_optims_wrong", cases)
