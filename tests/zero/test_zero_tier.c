/* SPDX-License-Identifier: BSD-3-Clause */
/* States that move between memory and the file: the bits are those without a file, limits are kept, and checkpoints do not know. */
#include "tests/zero/layers.h"

#include <sys/stat.h>

#include "zero/tier.h"

enum { STEPS = 6, ALL = 3 * TOTAL };

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

static void train(struct layers *l, int from, int steps)
{
    for (int s = from; s < from + steps; s++) {
        micro_batch(l, s, 0, 1);
        step(l);
    }
}

static weft_zero_config filed(int stage)
{
    weft_zero_config config = plain(stage);

    config.offload_folder = wt_temp_dir();
    config.offload_buffer_bytes = 12288;
    config.offload_block_bytes = 4096;
    return config;
}

/* As a step does that waited for this part of its update. */
static void stalls(struct layers *l, uint64_t hundredths)
{
    WT_REQUIRE_OK(wi_zero_tier_follow(l->zero, 100, hundredths));
}

/* ---- Bits ---- */

/* Ranks have other states in memory, and other ones after each step. */
static void moving(int rank, int nranks, void *arg)
{
    static const struct {
        int stage, params;
        weft_dtype dtype;
        weft_zero_optimizer optimizer;
    } ways[] = {{0, 0, WEFT_FLOAT32, WEFT_ZERO_ADAMW},  {1, 0, WEFT_BFLOAT16, WEFT_ZERO_ADAMW},
                {2, 0, WEFT_FLOAT32, WEFT_ZERO_LAMB},   {3, 0, WEFT_BFLOAT16, WEFT_ZERO_ADAMW},
                {3, 1, WEFT_BFLOAT16, WEFT_ZERO_ADAMW}, {3, 1, WEFT_FLOAT32, WEFT_ZERO_ADAM}};
    static float expected[ALL], found[ALL];
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        weft_zero_config config = plain(ways[k].stage);
        weft_zero_stats s;
        size_t n;

        config.optimizer = ways[k].optimizer;
        open_layers(&l, &f, &config, ways[k].dtype);
        train(&l, 0, STEPS);
        n = everything(&l, expected);
        WT_CHECK_OK(weft_zero_destroy(l.zero));

        config = filed(ways[k].stage);
        config.optimizer = ways[k].optimizer;
        config.offload_params = ways[k].params;
        open_layers(&l, &f, &config, ways[k].dtype);
        for (int i = 0; i < STEPS; i++) {
            train(&l, i, 1);
            s = stats_of(&l);
            WT_REQUIRE_OK(weft_zero_offload_memory(l.zero, (i + rank) % 3 == 0 ? 0 : s.offload_bytes / 2));
            stalls(&l, rank ? 20 : 70);
            WT_CHECK(stats_of(&l).offload_held_bytes <= s.offload_bytes / 2);
            WT_CHECK(((i + rank) % 3 == 0) == (stats_of(&l).offload_held_bytes == 0));
        }
        WT_CHECK_INT(everything(&l, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        s = stats_of(&l);
        WT_CHECK(s.offload_taken > 0 && s.offload_given > 0 && s.offload_move_ns > 0);
        WT_CHECK_INT(s.state_bytes, s.offload_held_bytes);
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void bits(void)
{
    CU_ASSERT_EQUAL(wt_run(1, moving, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, moving, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, moving, NULL, 60000), 0);
}

/* ---- What moves ---- */

/* Layers of 256 elements have 3072 bytes, the first has half of that; 16,896 together. */
static void policy(int rank, int nranks, void *arg)
{
    weft_zero_config config = filed(1);
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    train(&l, 0, 2);
    WT_CHECK_INT(stats_of(&l).offload_bytes, 16896);
    stalls(&l, 100); /* no memory is granted */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 0);
    WT_REQUIRE_OK(weft_zero_offload_memory(l.zero, 16000));
    stalls(&l, 1); /* not worth it */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 0);
    stalls(&l, 18); /* 3042 bytes: the first layer, and the next */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 4608);
    WT_CHECK(l.zero->offload.tier->units[0].memory && l.zero->offload.tier->units[1].memory);
    stalls(&l, 50); /* 6145 of what is left */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 4608 + 3 * 3072);
    stalls(&l, 100); /* one more would be above the limit */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 4608 + 3 * 3072);
    WT_CHECK_INT(stats_of(&l).offload_taken, 5);
    WT_REQUIRE_OK(weft_zero_offload_memory(l.zero, 16896));
    stalls(&l, 100);
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 16896);
    train(&l, 2, 1); /* nothing is read or written */
    WT_CHECK_INT(stats_of(&l).step_stall_ns, 0);
    WT_REQUIRE_OK(weft_zero_offload_memory(l.zero, 5000)); /* of the first that are used, what fits */
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 4608);
    WT_CHECK(l.zero->offload.tier->units[0].memory && l.zero->offload.tier->units[1].memory);
    WT_CHECK_INT(stats_of(&l).offload_given, 4);
    WT_CHECK_OK(weft_zero_destroy(l.zero));

    config = plain(1);
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    WT_CHECK_STATUS(weft_zero_offload_memory(l.zero, 1), WEFT_EINVAL);
    WT_CHECK(strstr(weft_thread_error(), "offload_folder was not set"));
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void followed(void)
{
    CU_ASSERT_EQUAL(wt_run(1, policy, NULL, 60000), 0);
}

/* Steps that wait for the file, which they tell, take units by themselves. */
static void by_itself(int rank, int nranks, void *arg)
{
    weft_zero_config config = filed(1);
    struct layers l;
    struct ft_rank f;
    int s = 0;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.offload_memory_bytes = 10000;
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    do {
        train(&l, s++, 1);
        weft_zero_stats stats = stats_of(&l);
        WT_CHECK(stats.step_update_ns > 0 && stats.step_stall_ns <= stats.step_update_ns);
        WT_CHECK(stats.offload_held_bytes <= 10000);
    } while (!stats_of(&l).offload_held_bytes && s < 1000);
    WT_CHECK(stats_of(&l).offload_held_bytes > 0);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void real(void)
{
    CU_ASSERT_EQUAL(wt_run(2, by_itself, NULL, 60000), 0);
}

/* ---- Pressure ---- */

static void says(struct layers *l, const char *path, unsigned long long total)
{
    FILE *file = fopen(path, "w");

    WT_REQUIRE(file != NULL);
    fprintf(file, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%llu\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            total);
    fclose(file);
    free(l->zero->offload.tier->pressure);
    l->zero->offload.tier->pressure = strdup(path);
}

static void pressed(int rank, int nranks, void *arg)
{
    weft_zero_config config = filed(1);
    char path[300];
    struct layers l;
    struct ft_rank f;
    size_t all;

    (void)arg;
    snprintf(path, sizeof path, "%s/memory.pressure", wt_temp_dir());
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.offload_memory_bytes = (size_t)1 << 40;
    open_layers(&l, &f, &config, WEFT_BFLOAT16);
    all = stats_of(&l).offload_bytes;
    train(&l, 0, 1);
    says(&l, path, 1000000000000ull); /* that was before */
    l.zero->offload.tier->pressure_ns = 0;
    stalls(&l, 100);
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, all);
    says(&l, path, 1000000000001ull);
    stalls(&l, 100);
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, all);
    says(&l, path, 2000000000000ull);
    stalls(&l, 100);
    WT_CHECK(stats_of(&l).offload_held_bytes <= all / 2 && stats_of(&l).offload_held_bytes >= all / 4);
    for (int i = 0; i < 64; i++) {
        stalls(&l, 100);
        WT_CHECK(stats_of(&l).offload_held_bytes <= all / 2);
    }
    stalls(&l, 100);
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, all);
    for (int i = 3; i < 8; i++) {
        says(&l, path, i * 1000000000000ull);
        stalls(&l, 100);
    }
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, 0);
    free(l.zero->offload.tier->pressure);
    l.zero->offload.tier->pressure = strdup("/nowhere");
    l.zero->offload.tier->pause = 0;
    stalls(&l, 100);
    WT_CHECK_INT(stats_of(&l).offload_held_bytes, all);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void pressure(void)
{
    CU_ASSERT_EQUAL(wt_run(1, pressed, NULL, 60000), 0);
}

/* ---- Checkpoints ---- */

static void resumes(int rank, int nranks, void *arg)
{
    static float expected[ALL], found[ALL];
    const char *folder = arg;
    struct layers l;
    struct ft_rank f;
    size_t n = 0;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int k = 0; k < 4; k++) {
        weft_zero_config config = filed(2);

        config.offload_memory_bytes = k == 0 ? 7000 : k == 3 ? 1 << 20 : 0;
        if (k == 2)
            config.offload_folder = NULL;
        open_layers(&l, &f, &config, WEFT_BFLOAT16);
        if (k == 0) {
            train(&l, 0, 2);
            stalls(&l, 100);
            WT_CHECK(stats_of(&l).offload_held_bytes > 0 &&
                     stats_of(&l).offload_held_bytes < stats_of(&l).offload_bytes);
            WT_REQUIRE_OK(weft_zero_save(l.zero, folder, "half", NULL));
            WT_REQUIRE_OK(weft_zero_save_wait(l.zero, WEFT_TIMEOUT_NEVER, NULL));
        } else {
            if (k == 3) { /* all in memory, when it is loaded */
                train(&l, 9, 1);
                stalls(&l, 100);
                stalls(&l, 100);
                WT_CHECK_INT(stats_of(&l).offload_held_bytes, stats_of(&l).offload_bytes);
            }
            WT_REQUIRE_OK(weft_zero_load(l.zero, folder, "half", 0, NULL));
        }
        train(&l, 2, 2);
        WT_CHECK_INT((n = everything(&l, k ? found : expected)), ALL - 3 * SMALL);
        if (k)
            WT_CHECK_MEM(found, expected, n * sizeof *found);
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void checkpoints(void)
{
    char folder[300];

    snprintf(folder, sizeof folder, "%s/versions", wt_temp_dir());
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
    CU_ASSERT_EQUAL(wt_run(2, resumes, folder, 60000), 0);
}

static const struct wt_case cases[] = {
    {"bits are the same wherever states are", bits},
    {"what moves", followed},
    {"steps that wait move by themselves", real},
    {"memory is short", pressure},
    {"checkpoints", checkpoints},
};
WT_UNIT_MAIN("zero: tier", cases)
