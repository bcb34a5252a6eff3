/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: which units are gathered when, as limits and orders say, and what that takes. */
#include "tests/zero/layers.h"

/* ---- Limits of stage 3 ---- */

/* What one micro-batch and its step do, once the order of units is known. */
static const struct limit {
    const char *what;
    size_t live, prefetch, reuse, persistent;
    int overlap;
    unsigned gathers, prefetches;
    size_t bytes; /* the most that was gathered at a time */
} limits[] = {
    /* Twice each, but the last unit, whose backward pass follows its forward pass. */
    {"nothing ahead", 0, 0, 0, 0, 1, 2 * UNITS - 1, 0, 4 * ELEMS},
    /* All but the first are gathered beside the one before. */
    {"one ahead", 0, ELEMS, 0, 0, 1, 2 * UNITS - 1, 2 * UNITS - 2, 8 * ELEMS},
    {"too few elements for one", 0, SMALL - 1, 0, 0, 1, 2 * UNITS - 1, 0, 4 * ELEMS},
    {"no room for a second", 0, (size_t)-1, 0, 0, 1, 2 * UNITS - 1, 2 * UNITS - 2, 8 * ELEMS},
    {"room for four", 4 * ELEMS, (size_t)-1, 0, 0, 1, 2 * UNITS - 1, 2 * UNITS - 2, 16 * ELEMS},
    {"room for four, two ahead", 4 * ELEMS, 2 * ELEMS, 0, 0, 1, 2 * UNITS - 1, 2 * UNITS - 2, 12 * ELEMS},
    {"without overlap", 4 * ELEMS, (size_t)-1, 0, 0, 0, 2 * UNITS - 1, 0, 4 * ELEMS},
    /* The last unit but one is used again after 2 * ELEMS. */
    {"used again soon", 0, 0, 2 * ELEMS, 0, 1, 2 * UNITS - 2, 0, 8 * ELEMS},
    {"not so soon", 0, 0, 2 * ELEMS - 1, 0, 1, 2 * UNITS - 1, 0, 4 * ELEMS},
    {"used again, and room for it", 3 * ELEMS, 0, 4 * ELEMS, 0, 1, 2 * UNITS - 3, 0, 12 * ELEMS},
    {"used again, and no room", 0, 0, 4 * ELEMS, 0, 1, 2 * UNITS - 2, 0, 8 * ELEMS},
    /* The small unit is gathered by the step alone. */
    {"small units stay", 0, 0, 0, SMALL, 1, 2 * UNITS - 3 + 1, 0, 4 * ELEMS},
    {"not quite", 0, 0, 0, SMALL - 1, 1, 2 * UNITS - 1, 0, 4 * ELEMS},
    {"all stay", 0, (size_t)-1, 0, ELEMS, 1, UNITS, 0, 0},
};

static void limited(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        const struct limit *limit = &limits[k];
        weft_zero_config config = plain(3);
        weft_zero_stats from, to;
        struct layers l;

        config.live_elems = limit->live;
        config.prefetch_elems = limit->prefetch;
        config.reuse_elems = limit->reuse;
        config.persistent_elems = limit->persistent;
        config.overlap = limit->overlap;
        open_layers(&l, &f, &config, WEFT_FLOAT32);
        micro_batch(&l, 0, 0, 1);
        step(&l);
        for (int s = 1; s < 3; s++) {
            from = stats_of(&l);
            micro_batch(&l, s, 0, 1);
            step(&l);
            to = stats_of(&l);
            if (to.gathers - from.gathers != limit->gathers || to.prefetches - from.prefetches != limit->prefetches ||
                to.gather_bytes != limit->bytes)
                wt_fail(__FILE__, __LINE__, "%s: %llu gathers, %llu ahead, %zu bytes, not %u, %u, %zu", limit->what,
                        (unsigned long long)(to.gathers - from.gathers),
                        (unsigned long long)(to.prefetches - from.prefetches), to.gather_bytes, limit->gathers,
                        limit->prefetches, limit->bytes);
            WT_CHECK_INT(to.reductions - from.reductions, UNITS);
            WT_CHECK_INT(to.retraces, 0);
        }
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void limits_hold(void)
{
    CU_ASSERT_EQUAL(wt_run(2, limited, NULL, 60000), 0);
}

/* ---- Other orders ---- */

static void backwards(struct layers *l, int s, int from, int to)
{
    for (int u = from; u >= to; u--)
        backward(l, u, s, 0, 1);
}

static void retraced(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(3);
    weft_zero_stats from, to;
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.prefetch_elems = ELEMS;
    open_layers(&l, &f, &config, WEFT_FLOAT32);
    for (int s = 0; s < 2; s++) {
        micro_batch(&l, s, 0, 1);
        step(&l);
    }
    from = stats_of(&l);
    WT_CHECK_INT(from.retraces, 0);
    /* Forward passes alone begin anew, and are followed. */
    for (int k = 0; k < 2; k++)
        for (int u = 0; u < UNITS; u++)
            forward(&l, u);
    to = stats_of(&l);
    WT_CHECK_INT(to.retraces, 0);
    WT_CHECK(to.prefetches - from.prefetches >= UNITS);
    micro_batch(&l, 2, 0, 1);
    step(&l);
    WT_CHECK_INT(stats_of(&l).retraces, 0);
    /* Another order is recorded once, whatever it has in common with the first, and followed from then on. */
    for (int s = 3; s < 6; s++) {
        from = stats_of(&l);
        for (int u = 0; u < UNITS; u++)
            forward(&l, u == 2 ? 3 : u == 3 ? 2 : u);
        backwards(&l, s, UNITS - 1, 0);
        WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
        step(&l);
        to = stats_of(&l);
        WT_CHECK_INT(to.retraces, 1);
        if (s > 3)
            WT_CHECK_INT(to.prefetches - from.prefetches, 2 * UNITS - 2);
    }
    /* A backward pass in a forward pass's place is another order, too; a shorter one is cut. */
    for (int u = 0; u < UNITS; u++)
        if (u != 4)
            forward(&l, u == 2 ? 3 : u == 3 ? 2 : u);
        else
            backward(&l, u, 6, 0, 1);
    WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
    step(&l);
    WT_CHECK_INT(stats_of(&l).retraces, 2);
    forward(&l, 0);
    give(&l, 0, 7, 0, 1);
    WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
    step(&l);
    WT_CHECK_INT(stats_of(&l).retraces, 3);
    from = stats_of(&l);
    forward(&l, 0);
    WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
    step(&l);
    to = stats_of(&l);
    WT_CHECK_INT(to.prefetches, from.prefetches); /* nothing follows */
    WT_CHECK_INT(to.retraces, 3);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

/* Passes of evaluation over the first `to` units; how many were gathered ahead in the last of them. */
static uint64_t evaluate(struct layers *l, int passes, int to)
{
    uint64_t before = 0;

    for (int k = 0; k < passes; k++) {
        before = stats_of(l).prefetches;
        for (int u = 0; u < to; u++)
            forward(l, u);
    }
    return stats_of(l).prefetches - before;
}

/* Units that were gathered ahead for a pass that ended before them do not take the room of those that come. */
static void ended_early(int rank, int nranks, void *arg)
{
    weft_zero_config config = plain(3);
    weft_zero_stats from, to;
    struct layers l;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.prefetch_elems = 2 * ELEMS;
    config.live_elems = TOTAL;
    config.micro_batches = 2;
    open_layers(&l, &f, &config, WEFT_FLOAT32);
    for (int m = 0; m < 2; m++)
        micro_batch(&l, 0, m, 1);
    step(&l);
    /* Of units 0 to 2 the last two are gathered ahead, and the two that follow them. */
    for (int k = 1; k < 5; k++)
        WT_CHECK_INT(evaluate(&l, k, 3), 4);
    /* What is there and comes next stays: units 1 and 2 after the first pass of unit 0. */
    from = stats_of(&l);
    WT_CHECK_INT(evaluate(&l, 3, 1), 0);
    to = stats_of(&l);
    WT_CHECK_INT(to.prefetches - from.prefetches, 2);
    WT_CHECK_INT(to.gathers - from.gathers, 3 + 2);
    WT_CHECK_INT(to.retraces, 0);
    /* A micro-batch that ends early leaves nothing behind for the next one of the same step. */
    for (int m = 0; m < 2; m++) {
        from = stats_of(&l);
        for (int u = 0; u < 2; u++)
            forward(&l, u);
        give(&l, 1, 1, m, 1);
        WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
    }
    to = stats_of(&l);
    WT_CHECK_INT(to.prefetches - from.prefetches, 1); /* of unit 1, in the second of them */
    step(&l);
    WT_CHECK_OK(weft_zero_destroy(l.zero));
    ft_close(&f);
}

static void orders(void)
{
    CU_ASSERT_EQUAL(wt_run(2, retraced, NULL, 60000), 0);
}

static void early_ends(void)
{
    CU_ASSERT_EQUAL(wt_run(2, ended_early, NULL, 60000), 0);
}

/* ---- What it takes ---- */

/* The table of weft_zero.h for two ranks. Numbers of bytes for an element: of all, or of a half of them. */
static void memory(int rank, int nranks, void *arg)
{
    enum { PSI = TOTAL - SMALL };
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++)
        for (int kind = 0; kind < 6; kind++) {
            int wide = kind % 3 == 2, fp32 = kind % 3 == 1, overlap = kind < 3;
            weft_zero_config config = plain(stage);
            size_t width = wide ? 4 : 2, grad = wide || fp32 ? 4 : 2, state = wide ? 8 : 12;
            weft_zero_stats s;
            struct layers l;

            config.grad_fp32 = fp32;
            config.overlap = overlap;
            open_layers(&l, &f, &config, wide ? WEFT_FLOAT32 : WEFT_BFLOAT16);
            micro_batch(&l, 0, 0, 1);
            step(&l);
            s = stats_of(&l);
            WT_CHECK_INT(s.elems, PSI);
            WT_CHECK_INT(s.shard_elems, PSI / 2);
            WT_CHECK_INT(s.param_bytes, width * PSI / (stage == 3 ? 2 : 1));
            WT_CHECK_INT(s.grad_bytes, grad * PSI / (stage >= 2 ? 2 : 1));
            WT_CHECK_INT(s.state_bytes, state * PSI / (stage >= 1 ? 2 : 1));
            WT_CHECK_INT(s.gather_bytes, stage == 3 ? width * ELEMS : 0);
            WT_CHECK_INT(s.reduce_bytes, stage >= 2 ? grad * ELEMS * (overlap ? 2 : 1) : 0);
            WT_CHECK_INT(s.reductions, UNITS);
            if (stage == 1 || stage == 2)
                WT_CHECK_INT(s.gathers, UNITS);
            WT_CHECK_INT(s.disk_bytes, 0);
            WT_CHECK_OK(weft_zero_destroy(l.zero));
        }
    ft_close(&f);
}

static void takes(void)
{
    CU_ASSERT_EQUAL(wt_run(2, memory, NULL, 60000), 0);
}

static const struct wt_case cases[] = {
    {"limits of stage 3 are seen in what is gathered", limits_hold},
    {"another order of units is recorded and followed", orders},
    {"passes that end early leave room for others", early_ends},
    {"memory is what the table says", takes},
};
WT_UNIT_MAIN("zero: gathers", cases)
