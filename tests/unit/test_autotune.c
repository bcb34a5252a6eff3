/* SPDX-License-Identifier: BSD-3-Clause */
/* Autotuning on a machine whose two variants cost what the test says. */
#include "exec/autotune.h"
#include "tests/unit/unit.h"

static struct wi_autotune store;
static unsigned tremor;

/* One operation on a machine where an ordinary one takes `cost[0]` ticks, a streamed one `cost[1]`, and the first on slots
 * last stored to in the other variant ten times as much. 1: it was streamed. */
static int operation(size_t bytes, const uint64_t cost[2], int *last, unsigned *settled)
{
    int timed, variant = wi_autotune_choose(&store, bytes, &timed);

    *settled = variant == *last ? *settled + 1 : 0;
    *last = variant;
    if (timed)
        wi_autotune_learn(&store, bytes, variant, cost[variant] * (*settled < 8 ? 10 : 1) + tremor++ % 5);
    return variant;
}

/* Streamed operations among `count`. */
static unsigned run(size_t bytes, uint64_t ordinary, uint64_t streamed, unsigned count)
{
    const uint64_t cost[2] = {ordinary, streamed};
    unsigned streams = 0, settled = 100;
    int last = 0;

    for (unsigned i = 0; i < count; i++)
        streams += (unsigned)operation(bytes, cost, &last, &settled);
    return streams;
}

static void faster_variant_is_found(void)
{
    memset(&store, 0, sizeof store);
    CU_ASSERT(run(4096, 1000, 400, 4000) > 3900);
    memset(&store, 0, sizeof store);
    CU_ASSERT(run(4096, 400, 1000, 4000) < 100); /* five trials */
}

static void change_is_noticed(void)
{
    memset(&store, 0, sizeof store);
    run(4096, 400, 1000, 10000);
    CU_ASSERT(run(4096, 1000, 400, 10000) > 5000);
    CU_ASSERT(run(4096, 400, 1000, 10000) < 5000);
}

static void equal_variants_do_not_alternate(void)
{
    unsigned streams;

    memset(&store, 0, sizeof store);
    run(4096, 400, 1000, 100);
    streams = run(4096, 1000, 980, 43520); /* ten periods */
    CU_ASSERT(streams < 400);              /* the trials */
}

static void small_sizes_are_never_streamed(void)
{
    memset(&store, 0, sizeof store);
    CU_ASSERT_EQUAL(run(WI_AUTOTUNE_MIN_BYTES - 1, 1000, 1, 10000), 0);
    CU_ASSERT_EQUAL(run(0, 1000, 1, 10), 0);
    CU_ASSERT(run(WI_AUTOTUNE_MIN_BYTES, 1000, 1, 10000) > 9000);
}

static void sizes_are_learnt_apart(void)
{
    memset(&store, 0, sizeof store);
    run(1024, 1000, 100, 4000);
    run((size_t)1 << 40, 100, 1000, 4000); /* the last class has no upper end */
    CU_ASSERT(run(1024, 1000, 100, 100) == 100);
    CU_ASSERT(run((size_t)1 << 40, 100, 1000, 4000) < 200);
}

static void one_interruption_does_not_mislead(void)
{
    const uint64_t cost[2] = {400, 1000};
    unsigned settled = 100, streams = 0, interrupted = 0;
    int last = 0, timed, variant;

    memset(&store, 0, sizeof store);
    for (int i = 0; i < 4000; i++) {
        variant = wi_autotune_choose(&store, 4096, &timed);
        settled = variant == last ? settled + 1 : 0;
        last = variant;
        streams += (unsigned)variant;
        if (timed)
            wi_autotune_learn(&store, 4096, variant, variant == 0 && !interrupted++ ? 1000000 : cost[variant]);
    }
    CU_ASSERT(interrupted > 0);
    CU_ASSERT(streams < 100);
}

static const struct wt_case cases[] = {
    {"the faster variant is found", faster_variant_is_found},
    {"a change of the machine is noticed", change_is_noticed},
    {"equal variants do not alternate", equal_variants_do_not_alternate},
    {"small sizes are never streamed", small_sizes_are_never_streamed},
    {"sizes are learnt apart", sizes_are_learnt_apart},
    {"one interruption does not mislead", one_interruption_does_not_mislead},
};
WT_UNIT_MAIN("autotune", cases)
