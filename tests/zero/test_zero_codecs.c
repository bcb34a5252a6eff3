/* SPDX-License-Identifier: BSD-3-Clause */
/* States in a file as images of codecs: lossless ones change nothing, others no more than they should, in all stages alike. */
#include "tests/zero/layers.h"

#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 5, ALL = 3 * TOTAL };

static weft_zero_config filed(int stage, const char *weight, const char *moment1, const char *moment2)
{
    weft_zero_config config = plain(stage);

    config.offload_folder = wt_temp_dir();
    config.offload_weight_codec = weight;
    config.offload_moment1_codec = moment1;
    config.offload_moment2_codec = moment2;
    return config;
}

static size_t everything(struct layers *l, float *out)
{
    size_t n = weights(l, out);

    for (int what = WEFT_ZERO_MOMENT1; what <= WEFT_ZERO_MOMENT2; what++)
        for (int u = 0; u < UNITS; u++) {
            WT_REQUIRE_OK(weft_zero_param_get(l->zero, l->params[u], (weft_zero_what)what, out + n, WEFT_FLOAT32));
            n += elems_of(u);
        }
    return n;
}

static size_t trained(struct ft_rank *f, const weft_zero_config *config, weft_dtype dtype, float *out)
{
    struct layers l;
    size_t n;

    open_layers(&l, f, config, dtype);
    for (int s = 0; s < STEPS; s++) {
        micro_batch(&l, s, 0, 1);
        step(&l);
    }
    n = everything(&l, out);
    if (config->offload_folder)
        WT_CHECK(stats_of(&l).disk_raw_bytes >= stats_of(&l).disk_read_bytes + stats_of(&l).disk_written_bytes);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    return n;
}

static int have_lossless(void)
{
    if (access(".libs/lossless.so", R_OK) == 0)
        return 1;
    wt_skip("there is no plugin lossless: it was built without libzstd");
    return 0;
}

static int run_ranks(int n, void (*fn)(int, int, void *), void *arg)
{
    setenv("WEFT_PLUGIN_PATH", wt_plugin_dir("lossless"), 1); /* it goes with the ranks that have run */
    int failed = wt_run(n, fn, arg, 60000);

    unsetenv("WEFT_PLUGIN_PATH");
    return failed;
}

/* ---- Lossless ---- */

static void lossless_bits(int rank, int nranks, void *arg)
{
    static float expected[ALL], found[ALL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int t = 0; t < 2; t++) {
        weft_dtype dtype = t ? WEFT_BFLOAT16 : WEFT_FLOAT32;

        for (int stage = 0; stage <= 4; stage++) {
            weft_zero_config config = plain(stage < 4 ? stage : 3);
            size_t n = trained(&f, &config, dtype, expected);

            config = filed(config.stage, "lossless", "lossless:level=1", "lossless");
            config.offload_params = stage == 4;
            config.offload_memory_bytes = stage == 2 ? 4000 : 0;
            WT_CHECK_INT(trained(&f, &config, dtype, found), n);
            WT_CHECK_MEM(found, expected, n * sizeof *found);
        }
    }
    ft_close(&f);
}

static void lossless(void)
{
    if (!have_lossless())
        return;
    CU_ASSERT_EQUAL(run_ranks(2, lossless_bits, NULL), 0);
}

/* ---- Others ---- */

/* Moments that are rounded when they go into the file are those that an engine rounds in memory; 16 bits round each by itself, so
 * that all stages have the same. */
static void rounded_bits(int rank, int nranks, void *arg)
{
    static float expected[ALL], found[ALL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++) {
        weft_zero_config config = plain(stage);

        config.state_dtype = WEFT_ZERO_STATE_BF16;
        size_t n = trained(&f, &config, WEFT_BFLOAT16, expected);

        config = filed(stage, NULL, "bf16", "bf16");
        WT_CHECK_INT(trained(&f, &config, WEFT_BFLOAT16, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
    }
    ft_close(&f);
}

static void rounded(void)
{
    CU_ASSERT_EQUAL(wt_run(2, rounded_bits, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, rounded_bits, NULL, 60000), 0);
}

/* Blocks begin where shards do: stages with the same shards have the same bits, near those without a codec. */
static void coarse_bits(int rank, int nranks, void *arg)
{
    static float exact[ALL], first[ALL], found[ALL];
    double worst = 0;
    size_t n = 0;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    weft_zero_config config = plain(1);

    trained(&f, &config, WEFT_FLOAT32, exact);
    for (int stage = 1; stage <= 3; stage++) {
        config = filed(stage, NULL, "int8:block=32", "bf16");
        n = trained(&f, &config, WEFT_FLOAT32, stage == 1 ? first : found);
        if (stage > 1)
            WT_CHECK_MEM(found, first, n * sizeof *found);
    }
    for (size_t i = 0; i < TOTAL - SMALL; i++)
        worst = fabs((double)first[i] - exact[i]) > worst ? fabs((double)first[i] - exact[i]) : worst;
    /* A step moves a weight by about lr; a 127th of the largest moment of a block is lost, and 1/256 of the second ones. */
    WT_CHECK(worst > 0 && worst < .1 * STEPS * hyper.lr);
    ft_close(&f);
}

static void coarse(void)
{
    CU_ASSERT_EQUAL(wt_run(2, coarse_bits, NULL, 60000), 0);
}

/* ---- Bytes ---- */

enum { LARGE = 1 << 20 };

static void fewer_bytes(int rank, int nranks, void *arg)
{
    static const char *const ways[][3] = {
        {NULL, NULL, NULL}, {NULL, "bf16", "bf16"}, {"bf16", "int8", "bf16"}, {"lossless", "lossless", "lossless"}};
    static const double least[] = {1, .66, .41, .3}, most[] = {1, .67, .43, .999};
    float *values = malloc(LARGE * sizeof *values);
    size_t elems = LARGE;
    struct ft_rank f;

    WT_REQUIRE(values != NULL);
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (size_t k = 0; k < (arg ? 4u : 3u); k++) {
        weft_zero_config config = filed(1, ways[k][0], ways[k][1], ways[k][2]);
        weft_zero_param param = WEFT_ZERO_PARAM_INIT;
        weft_zero_stats from = WEFT_ZERO_STATS_INIT, to = WEFT_ZERO_STATS_INIT;
        weft_zero *zero;
        int index, unit;

        param.name = "w";
        param.dtype = WEFT_BFLOAT16;
        param.ndims = 1;
        param.shape = &elems;
        WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
        WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &index));
        WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", &index, 1, &unit));
        WT_REQUIRE_OK(weft_zero_seal(zero));
        for (size_t i = 0; i < LARGE; i++)
            values[i] = number(rank, 1, 2, i);
        WT_REQUIRE_OK(weft_zero_param_set(zero, index, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
        for (int s = 0; s < 2; s++) {
            WT_REQUIRE_OK(weft_zero_get_stats(zero, &from));
            WT_REQUIRE_OK(weft_zero_grad_add(zero, index, values, WEFT_FLOAT32));
            WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
            WT_REQUIRE_OK(weft_zero_step(zero, &hyper, 1, NULL));
        }
        WT_REQUIRE_OK(weft_zero_get_stats(zero, &to));
        double raw = (double)(to.disk_raw_bytes - from.disk_raw_bytes);
        double moved =
            (double)(to.disk_read_bytes + to.disk_written_bytes - from.disk_read_bytes - from.disk_written_bytes);

        WT_CHECK_INT((long)raw, 2L * 12 * LARGE / nranks);
        if (moved / raw < least[k] || moved / raw > most[k])
            wt_fail(__FILE__, __LINE__, "way %zu: %.3f of the bytes", k, moved / raw);
        WT_CHECK((to.disk_code_ns > from.disk_code_ns) == (k > 0));
        WT_CHECK_OK(weft_zero_destroy(zero));
    }
    free(values);
    ft_close(&f);
}

static void bytes(void)
{
    int all = access(".libs/lossless.so", R_OK) == 0;

    CU_ASSERT_EQUAL(all ? run_ranks(2, fewer_bytes, "") : wt_run(2, fewer_bytes, NULL, 60000), 0);
}

/* ---- Checkpoints ---- */

/* A version has what the file has, in fp32; an engine without a file loads the same. */
static void saved(int rank, int nranks, void *arg)
{
    static float expected[ALL], found[ALL];
    weft_zero_config config = filed(2, NULL, "int8", "bf16");
    const char *folder = arg;
    struct layers l;
    struct ft_rank f;
    size_t n;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    for (int s = 0; s < STEPS; s++) {
        micro_batch(&l, s, 0, 1);
        step(&l);
    }
    n = everything(&l, expected);
    WT_REQUIRE_OK(weft_zero_save(l.zero, folder, "v", NULL));
    WT_REQUIRE_OK(weft_zero_save_wait(l.zero, WEFT_TIMEOUT_NEVER, NULL));
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    config = plain(1);
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    WT_REQUIRE_OK(weft_zero_load(l.zero, folder, "v", 0, NULL));
    WT_CHECK_INT(everything(&l, found), n);
    WT_CHECK_MEM(found, expected, n * sizeof *found);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void checkpoints(void)
{
    char folder[300];

    snprintf(folder, sizeof folder, "%s/versions", wt_temp_dir());
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
    CU_ASSERT_EQUAL(wt_run(2, saved, folder, 60000), 0);
}

/* ---- What is refused ---- */

static void says(struct ft_rank *f, const weft_zero_config *config, weft_status status, const char *text)
{
    weft_zero *zero = NULL;

    WT_CHECK_STATUS(weft_zero_create(f->comm, config, &zero), status);
    if (!strstr(weft_thread_error(), text))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", text, weft_thread_error());
    WT_CHECK(zero == NULL);
}

static void wrong(int rank, int nranks, void *arg)
{
    weft_zero_config config;
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config = filed(1, "int7", NULL, NULL);
    says(&f, &config, WEFT_EINVAL, "offload_weight_codec: ");
    config = filed(1, NULL, "int8:ef=1", NULL);
    says(&f, &config, WEFT_EINVAL, "offload_moment1_codec: ");
    config = filed(1, NULL, NULL, "int8");
    says(&f, &config, WEFT_EINVAL, "offload_moment2_codec is \"int8\", of sums of squares of adamw");
    config = filed(1, NULL, "e4m3", NULL);
    config.optimizer = WEFT_ZERO_ADAGRAD;
    says(&f, &config, WEFT_EINVAL, "offload_moment1_codec is \"e4m3\", of sums of squares of adagrad");
    config = filed(1, NULL, "bf16", NULL);
    config.offload_folder = NULL;
    says(&f, &config, WEFT_EINVAL, "offload_moment1_codec is set, and offload_folder is not");
    config = filed(1, NULL, "bf16", NULL);
    config.offload_memory_bytes = 1;
    says(&f, &config, WEFT_EINVAL, "offload_memory_bytes is set, and a codec of the file loses something");
    config = filed(1, NULL, rank ? "bf16" : "int8", NULL);
    says(&f, &config, WEFT_EMISMATCH, "offload_moment1_codec");
    config = filed(1, "none", "bf16", "");
    open_layers(&l, &f, &config, WEFT_FLOAT32);
    WT_CHECK_STATUS(weft_zero_offload_memory(l.zero, 1), WEFT_EINVAL);
    WT_CHECK(strstr(weft_thread_error(), "a codec of the file loses something"));
    WT_CHECK_OK(weft_zero_offload_memory(l.zero, 0));
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void refused(void)
{
    CU_ASSERT_EQUAL(wt_run(2, wrong, NULL, 60000), 0);
}

static const struct wt_case cases[] = {
    {"lossless bits", lossless}, {"moments of 16 bits", rounded}, {"moments of 8 bits", coarse},
    {"fewer bytes move", bytes}, {"checkpoints", checkpoints},    {"what is refused", refused},
};
WT_UNIT_MAIN("zero: codecs", cases)
