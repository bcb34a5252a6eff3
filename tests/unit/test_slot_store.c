/* SPDX-License-Identifier: BSD-3-Clause */
/* How slots are stored to, learnt: against a machine whose two ways cost what the test says. */
#include "exec/slot_store.h"
#include "tests/unit/unit.h"

static struct wi_slot_store store;
static unsigned tremor;

/* One operation on a machine where an ordinary one takes `cost[0]` ticks, a streamed one `cost[1]`, and the first on slots
 * last stored to in the other way ten times as much. 1: it was streamed. */
static int operation(size_t bytes, const uint64_t cost[2], int *last, unsigned *settled)
{
    int timed, way = wi_slot_store_choose(&store, bytes, &timed);

    *settled = way == *last ? *settled + 1 : 0;
    *last = way;
    if (timed)
        wi_slot_store_learn(&store, bytes, way, cost[way] * (*settled < 8 ? 10 : 1) + tremor++ % 5);
    return way;
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

static void faster_way_is_found(void)
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

static void equal_ways_do_not_alternate(void)
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
    CU_ASSERT_EQUAL(run(WI_SLOT_ORDINARY_BYTES - 1, 1000, 1, 10000), 0);
    CU_ASSERT_EQUAL(run(0, 1000, 1, 10), 0);
    CU_ASSERT(run(WI_SLOT_ORDINARY_BYTES, 1000, 1, 10000) > 9000);
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
    int last = 0, timed, way;

    memset(&store, 0, sizeof store);
    for (int i = 0; i < 4000; i++) {
        way = wi_slot_store_choose(&store, 4096, &timed);
        settled = way == last ? settled + 1 : 0;
        last = way;
        streams += (unsigned)way;
        if (timed)
            wi_slot_store_learn(&store, 4096, way, way == 0 && !interrupted++ ? 1000000 : cost[way]);
    }
    CU_ASSERT(interrupted > 0);
    CU_ASSERT(streams < 100);
}

static const struct wt_case cases[] = {
    {"the faster way is found", faster_way_is_found},
    {"a change of the machine is noticed", change_is_noticed},
    {"equal ways do not alternate", equal_ways_do_not_alternate},
    {"small sizes are never streamed", small_sizes_are_never_streamed},
    {"sizes are learnt apart", sizes_are_learnt_apart},
    {"one interruption does not mislead", one_interruption_does_not_mislead},
};
WT_UNIT_MAIN("slot_store", cases)
