/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce-scatters that may add to what the destination holds: those of which every rank's schedule writes its result once. */
#include "algo/list.h"
#include "base/status.h"
#include "unit.h"

#define MAX_RANKS 66

/* On all ranks? */
static int completes_once(const struct wi_algo *algo, int nranks)
{
    int all = 1;

    for (int r = 0; r < nranks && all; r++) {
        struct wi_algo_args args = {.rank = r, .nranks = nranks};
        struct wi_sched *sched = NULL;

        CU_ASSERT_EQUAL_FATAL(algo->build(&args, &sched), WEFT_SUCCESS);
        all = wi_sched_completes_once(sched);
        wi_sched_put(sched);
    }
    return all;
}

/* Of whatever number of ranks, or of some it is not true. */
static void those_that_add(void)
{
    int adding = 0;

    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        int always = (*a)->coll == WI_COLL_REDUCE_SCATTER;

        for (int n = 2; n <= MAX_RANKS && always; n++)
            if (!wi_algo_ranks_needed((*a)->needs, n))
                always = completes_once(*a, n);
        if (always != (*a)->traits.adds)
            printf("# %s/%s writes the result %s\n", wi_coll_name((*a)->coll), (*a)->name,
                   always ? "once" : "more than once");
        CU_ASSERT_EQUAL(always, (*a)->traits.adds);
        adding += always;
    }
    CU_ASSERT(adding >= 6);
}

/* ---- What a schedule may not do ---- */

enum harm { NONE, TWICE, COPIED, READ, PART, NOT_FINAL, SENT_ON, TWO_PLACES };

static struct wi_sched *harmed(enum harm harm)
{
    struct wi_sched_spec spec = {
        .coll = WI_COLL_REDUCE_SCATTER, .algo = "harmed", .rank = 0, .nranks = 2, .share_blocks = 2, .tmp_blocks = 4};
    unsigned final = harm == NOT_FINAL ? 0 : WI_STEP_FINAL;
    struct wi_region src[2] = {wi_at(WI_SRC, 0, 2), wi_at(WI_TMP, 0, 2)},
                     dst[2] = {wi_at(WI_DST, 0, 2), wi_at(WI_TMP, 2, 2)};
    struct wi_sched_builder *b;
    struct wi_sched *sched = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_sched_begin(&spec, &b), WEFT_SUCCESS);
    uint32_t lane = wi_sched_lane(b, 1, 1, 0);
    wi_sched_recv(b, lane, src[1]);
    if (harm == PART)
        dst[0].count = src[0].count = src[1].count = 1;
    if (harm == COPIED)
        wi_sched_copy(b, lane, dst[0], src[1]);
    else if (harm == SENT_ON)
        wi_sched_recv_reduce_send(b, lane, dst[0], src[0], final);
    else
        wi_sched_reduce(b, lane, dst, harm == TWO_PLACES ? 2 : 1, src, 2, final);
    if (harm == TWICE)
        wi_sched_reduce(b, lane, &(struct wi_region){WI_DST, WI_SELF, 1, 1}, 1,
                        (struct wi_region[]){wi_at(WI_SRC, 0, 1), wi_at(WI_TMP, 0, 1)}, 2, final);
    if (harm == READ)
        wi_sched_send(b, lane, dst[0]);
    CU_ASSERT_EQUAL_FATAL(wi_sched_seal(b, &sched), WEFT_SUCCESS);
    return sched;
}

static void harms(void)
{
    for (int h = NONE; h <= TWO_PLACES; h++) {
        struct wi_sched *sched = harmed((enum harm)h);

        CU_ASSERT_EQUAL(wi_sched_completes_once(sched), h == NONE);
        wi_sched_put(sched);
    }
}

static const struct wt_case cases[] = {
    {"results are written once where a trait says so", those_that_add},
    {"what writes, reads or sends a result otherwise is found", harms},
};
WT_UNIT_MAIN("algo_adds", cases)
