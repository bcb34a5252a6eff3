/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines and files: states go through them in every way that can be configured; a save that is under way has what was there;
 * where shards are cut, and what else is refused. */
#include "tests/zero/layers.h"

#include <sys/stat.h>

#include "zero/place.h"
#include "zero/zero.h"
#include "tests/harness/says.h"

/* ---- Files ---- */

/* However states go through files, the bits are those without; and the statistics say how they went. */
static void files(int rank, int nranks, void *arg)
{
    static const struct {
        int params, buffered, threads, depth;
        size_t block, buffer;
        double ratio;
    } ways[] = {{0, 0, 0, 0, 0, 0, 1},    {0, 1, 1, 1, 4096, 12288, 1}, {1, 0, 1, 2, 4096, 16384, 1},
                {1, 1, 0, 3, 8192, 0, 1}, {0, 1, 1, 0, 0, 0, .5},       {0, 1, 1, 0, 0, 0, 0}};
    static float expected[TOTAL], found[TOTAL];
    weft_zero_config config = plain(3);
    size_t n, all = 0;
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    for (int s = 0; s < 3; s++) {
        micro_batch(&l, s, 0, 1);
        step(&l);
    }
    n = weights(&l, expected);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        weft_zero_stats s;

        config = plain(3);
        config.offload_folder = wt_temp_dir();
        config.offload_params = ways[k].params;
        config.offload_buffered = ways[k].buffered;
        config.offload_threads = ways[k].threads;
        config.offload_depth = ways[k].depth;
        config.offload_block_bytes = ways[k].block;
        config.offload_buffer_bytes = ways[k].buffer;
        config.offload_ratio = ways[k].ratio;
        open_layers(&l, &f, &config, WEFT_BFLOAT16);
        for (int i = 0; i < 3; i++) {
            micro_batch(&l, i, 0, 1);
            step(&l);
        }
        WT_CHECK_INT(weights(&l, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        s = stats_of(&l);
        all = k ? all : s.disk_bytes;
        WT_CHECK((s.disk_bytes > 0) == (ways[k].ratio > 0));
        WT_CHECK((s.state_bytes > 0) == (ways[k].ratio < 1));
        if (ways[k].ratio > 0 && ways[k].ratio < 1)
            WT_CHECK(s.disk_bytes < all && s.disk_read_bytes > 0 && s.disk_written_bytes > 0);
        if (ways[k].threads)
            WT_CHECK_INT(s.disk_uring, 0);
        if (ways[k].buffered)
            WT_CHECK_INT(s.disk_direct, 0);
        if (ways[k].buffer)
            WT_CHECK(s.disk_buffer_bytes > 0);
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void in_files(void)
{
    CU_ASSERT_EQUAL(wt_run(1, files, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, files, NULL, 60000), 0);
}

/* ---- A save that is under way ---- */

enum { LARGE = 1 << 21 };

static void large_open(weft_zero **zero, struct ft_rank *f, int *param)
{
    weft_zero_config config = plain(1);
    weft_zero_param one = WEFT_ZERO_PARAM_INIT;
    size_t elems = LARGE;
    int unit;

    WT_REQUIRE_OK(weft_zero_create(f->comm, &config, zero));
    one.name = "large";
    one.ndims = 1;
    one.shape = &elems;
    WT_REQUIRE_OK(weft_zero_param_add(*zero, &one, param));
    WT_REQUIRE_OK(weft_zero_unit_add(*zero, "large", param, 1, &unit));
    WT_REQUIRE_OK(weft_zero_seal(*zero));
}

/* Steps, and values that are set, right after a save has begun: the version has what was there when it began. */
static void saving(int rank, int nranks, void *arg)
{
    const char *folder = arg;
    float *values = malloc(LARGE * sizeof *values), *found = malloc(LARGE * sizeof *found);
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    struct ft_rank f;
    weft_zero *zero;
    char tag[16];
    int param;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    large_open(&zero, &f, &param);
    WT_REQUIRE(values && found);
    for (int k = 0; k < 6; k++) {
        weft_status loaded, saved;

        for (size_t i = 0; i < LARGE; i++)
            values[i] = (float)((int)(i % 1000) + k);
        WT_REQUIRE_OK(weft_zero_param_set(zero, param, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
        if (k % 2) /* else it would be handed in while the save copies */
            WT_REQUIRE_OK(weft_zero_grad_add(zero, param, values, WEFT_FLOAT32));
        if (k % 2)
            WT_REQUIRE_OK(weft_zero_drop_gradients(zero));
        snprintf(tag, sizeof tag, "v%d", k);
        WT_REQUIRE_OK(weft_zero_save(zero, folder, tag, NULL));
        if (k == 0) {
            int low, high;

            if (rank == 0 && nranks > 1) /* it knows that the save is complete, and others do not */
                WT_REQUIRE_OK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL));
            loaded = weft_zero_load(zero, folder, NULL, 0, NULL);
            saved = weft_zero_save_wait(zero, 0, NULL);
            WT_CHECK(loaded == WEFT_SUCCESS || loaded == WEFT_EBUSY);
            WT_CHECK(saved == WEFT_SUCCESS || saved == WEFT_INPROGRESS);
            if (saved == WEFT_INPROGRESS)
                WT_CHECK_STATUS(loaded, WEFT_EBUSY);
            low = high = (int)loaded;
            WT_REQUIRE_OK(weft_all_reduce(f.comm, &low, &low, 1, WEFT_INT32, WEFT_MIN, NULL));
            WT_REQUIRE_OK(weft_all_reduce(f.comm, &high, &high, 1, WEFT_INT32, WEFT_MAX, NULL));
            WT_CHECK_INT(low, high);
        }
        if (k % 2) {
            memset(found, 0, LARGE * sizeof *found);
            WT_REQUIRE_OK(weft_zero_param_set(zero, param, WEFT_ZERO_WEIGHT, found, WEFT_FLOAT32));
        } else {
            WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
            WT_REQUIRE_OK(weft_zero_step(zero, &hyper, 1, NULL)); /* it decays weights */
        }
        WT_REQUIRE_OK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL));
        WT_REQUIRE_OK(weft_zero_load(zero, folder, tag, 0, &info));
        WT_CHECK_INT(info.nranks, nranks);
        WT_CHECK_INT(info.client_bytes, 0);
        WT_REQUIRE_OK(weft_zero_param_get(zero, param, WEFT_ZERO_WEIGHT, found, WEFT_FLOAT32));
        WT_CHECK_MEM(found, values, LARGE * sizeof *found);
    }
    /* A pass that is open, a tag that is there, and one that may be replaced; the newest two stay. */
    weft_zero_save_options options = WEFT_ZERO_SAVE_OPTIONS_INIT;

    WT_REQUIRE_OK(weft_zero_pre_forward(zero, 0));
    WT_CHECK_STATUS(weft_zero_load(zero, folder, NULL, 0, NULL), WEFT_EBUSY);
    WT_CHECK(strstr(weft_thread_error(), "a pass of unit \"large\" has not ended"));
    WT_REQUIRE_OK(weft_zero_post_forward(zero, 0));
    WT_CHECK(weft_zero_save(zero, folder, "v5", NULL) < 0 || weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL) < 0);
    options.replace = 1;
    options.keep = 2;
    WT_REQUIRE_OK(weft_zero_save(zero, folder, "v5", &options));
    WT_REQUIRE_OK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL));
    WT_CHECK_STATUS(weft_zero_load(zero, folder, "v2", 0, NULL), WEFT_ENOTFOUND);
    WT_CHECK_OK(weft_zero_load(zero, folder, "v4", 0, NULL));
    WT_CHECK_OK(weft_zero_destroy(zero));
    free(values);
    free(found);
    ft_close(&f);
}

static void saves(void)
{
    for (int n = 1; n <= 2; n++) {
        char folder[300];

        snprintf(folder, sizeof folder, "%s/saves%d", wt_temp_dir(), n);
        CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
        CU_ASSERT_EQUAL(wt_run(n, saving, folder, 120000), 0);
    }
}

/* ---- Where shards are cut ---- */

static void cuts(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(1);
    struct zt_engine e;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    for (int p = 0; p < ZT_PARAMS; p++) {
        const struct wi_zero_param *param = &e.zero->params[e.params[p]];
        size_t all = 0;
        int owners = 0;

        WT_CHECK_INT(param->offset % 16, 0);
        for (int r = 0; r < nranks; r++) {
            size_t begin, elems = wi_zero_part(e.zero, param, r, &begin);

            all += elems;
            owners += elems > 0;
            if (elems && zt_specs[p].cut)
                WT_CHECK_INT(begin % zt_specs[p].cut, 0);
        }
        WT_CHECK_INT(all, zt_elems(p));
        if (zt_specs[p].flags & WEFT_ZERO_WHOLE)
            WT_CHECK_INT(owners, 1);
    }
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void cut(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        CU_ASSERT_EQUAL(wt_run(sizes[s], cuts, NULL, 60000), 0);
}

/* ---- What else is refused ---- */

static void wrong_create(struct ft_rank *f)
{
    weft_zero_config config = plain(2);
    weft_zero *zero = NULL;

    config.offload_params = 1;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_params is set, and stage is not 3");
    config.stage = 3;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_params is set, and offload_folder is not");
    config.offload_folder = wt_temp_dir();
    config.shard_ranks = 1;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_params is set, and shard_ranks is, too");
    config = plain(2);
    config.shard_ranks = 1;
    config.experts = f->comm;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "shard_ranks and experts are both set");
    config = plain(2);
    config.offload_ratio = 1.5;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_ratio is 1.5, not from 0 to 1");
    config.offload_ratio = 1;
    config.offload_depth = 1025;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_depth is 1025");
    config.offload_depth = 0;
    config.offload_buffered = 2;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_buffered is 2");
    config.offload_buffered = 0;
    config.offload_threads = -1;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_threads is -1");
    config.offload_threads = 0;
    config.offload_buffer_bytes = 8192;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL,
         "offload_buffer_bytes is 8192; adamw with weights and 2 moments needs at least 12288");
    config.offload_buffer_bytes = 12289;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_buffer_bytes is 12289, no multiple of 4096");
    config.offload_buffer_bytes = 0;
    config.offload_depth = 2;
    config.offload_block_bytes = 4096;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL,
         "offload_depth x offload_block_bytes is 8192; adamw with weights and 2 moments needs at least 12288");
    config.offload_block_bytes = 1000;
    SAYS(weft_zero_create(f->comm, &config, &zero), WEFT_EINVAL, "offload_block_bytes is 1000, no multiple of 4096");
    WT_CHECK(zero == NULL);
}

/* Cuts that no boundary suits, and a rank that has no place for its file: all ranks hear of it. */
static void wrong_seal(struct ft_rank *f)
{
    weft_zero_config config = plain(1);
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    size_t elems = 100, cut[2] = {4099, 4111};
    int params[2], unit;
    weft_zero *zero;

    param.ndims = 1;
    param.shape = &elems;
    for (int k = 0; k < 2; k++) {
        char folder[400];

        snprintf(folder, sizeof folder, "%s%s", wt_temp_dir(), f->rank == 1 ? "/is/not/there" : "");
        config.offload_folder = k ? folder : NULL;
        WT_REQUIRE_OK(weft_zero_create(f->comm, &config, &zero));
        for (int p = 0; p < 2; p++) {
            param.name = p ? "v" : "w";
            param.cut_elems = k ? 0 : cut[p];
            WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &params[p]));
        }
        WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", params, 2, &unit));
        if (k == 0) {
            SAYS(weft_zero_seal(zero), WEFT_EINVAL, "no shard boundary suits all parameters of unit \"u\"");
        } else {
            WT_CHECK(weft_zero_seal(zero) < 0);
            WT_CHECK(strstr(weft_thread_error(), "is/not/there"));
            WT_CHECK(f->rank == 1 || strstr(weft_thread_error(), "rank 1: "));
        }
        WT_CHECK(weft_zero_pre_forward(zero, unit) < 0);
        WT_CHECK_OK(weft_zero_destroy(zero));
    }
}

static void wrong_others(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(1);
    weft_zero_hyper hypers[2] = {WEFT_ZERO_HYPER_INIT, WEFT_ZERO_HYPER_INIT};
    float values[ELEMS] = {0};
    struct layers l;
    struct ft_rank f;
    double scale;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    wrong_create(&f);
    wrong_seal(&f);
    config.optimizer = WEFT_ZERO_LION;
    open_layers(&l, &f, &config, WEFT_FLOAT32);
    SAYS(weft_zero_pre_forward(NULL, 0), WEFT_EINVAL, "zero: pre_forward: the engine is NULL");
    SAYS(weft_zero_loss_scale(NULL, &scale), WEFT_EINVAL, "the engine is NULL");
    SAYS(weft_zero_param_get(l.zero, 0, WEFT_ZERO_MOMENT2, values, WEFT_FLOAT32), WEFT_EINVAL,
         "lion has no second moment");
    SAYS(weft_zero_param_set(l.zero, 0, WEFT_ZERO_WEIGHT, NULL, WEFT_FLOAT32), WEFT_EINVAL,
         "the values of \"a\" are NULL");
    micro_batch(&l, 0, 0, 1);
    SAYS(weft_zero_step(l.zero, hypers, 0, NULL), WEFT_EINVAL, "hypers is empty");
    hypers[1].bytes -= sizeof(double);
    SAYS(weft_zero_step(l.zero, hypers, 2, NULL), WEFT_EINVAL, "the bytes of group 1 differ from those of group 0");
    WT_CHECK_OK(weft_zero_step(l.zero, hypers, 1, NULL));
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void refused(void)
{
    CU_ASSERT_EQUAL(wt_run(2, wrong_others, NULL, 60000), 0);
}

static const struct wt_case cases[] = {
    {"files of every kind", in_files},
    {"a save that is under way has what was there", saves},
    {"shards are cut where parameters allow it", cut},
    {"what else is refused", refused},
};
WT_UNIT_MAIN("zero: files", cases)
