/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker: right schedules pass, any one change to them is noticed, ranks must mean the same. */
#include "unit.h"

#include "base/alloc.h"
#include "base/status.h"
#include "sched_samples.h"

#define MAX_RANKS 128

static weft_status check(struct wi_sched **scheds, int nranks, int ordered)
{
    return wi_sched_check((const struct wi_sched *const *)scheds, nranks, ordered);
}

/* ---- Right ones ---- */

static void check_sample(const struct sample *sample, int nranks, int root, int in_place)
{
    struct wi_sched *s[MAX_RANKS];
    weft_status st = sample_build_all(sample, nranks, root, in_place, s);

    if (st == WEFT_SUCCESS)
        st = check(s, nranks, !!(sample->flags & SAMPLE_ORDERED));
    if (st)
        printf("# %s of %d ranks, root %d%s: %s\n", sample->name, nranks, root, in_place ? ", in place" : "",
               wi_fail_text());
    CU_ASSERT_EQUAL(st, WEFT_SUCCESS);
    samples_put(s, nranks);
}

static void samples_pass(void)
{
    for (unsigned i = 0; i < nsamples; i++) {
        unsigned flags = samples[i].flags;
        for (int p = flags & SAMPLE_PAIRS ? 2 : 1; p <= 9; p++) {
            for (int root = 0; root < (flags & SAMPLE_ROOTS ? p : 1); root++) {
                for (int in_place = 0; in_place <= !!(flags & SAMPLE_IN_PLACE); in_place++)
                    check_sample(&samples[i], p, root, in_place);
            }
        }
    }
}

static void many_ranks_pass(void)
{
    static const char *const names[] = {"ring", "flat_all_to_all", "flat_reduce_scatter", "direct", "barrier"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_sample(sample_find(names[i]), 64, 0, 0);
        check_sample(sample_find(names[i]), 128, 0, 0);
    }
}

static void ring_does_not_keep_order(void)
{
    struct wi_sched *s[4];

    for (int p = 2; p <= 4; p++) {
        CU_ASSERT_EQUAL_FATAL(sample_build_all(sample_find("ring"), p, 0, 0, s), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(check(s, p, 1), WEFT_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "out of rank order"));
        samples_put(s, p);
    }
}

/* ---- Ranks that do not mean the same ---- */

static void ranks_must_agree(void)
{
    static const struct {
        const char *first, *second, *text;
    } pairs[] = {
        {"coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll scan algo a rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n", "the collective's number"},
        {"coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll all_reduce algo a rank 1 nranks 3 root 0 in_place 0 blocks 1 tmp 0 ll 0\n", "one of 3 ranks, not of 2"},
        {"coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "entry 1 is the schedule of rank 0"},
        {"coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll all_reduce algo a rank 1 nranks 2 root 0 in_place 0 blocks 2 tmp 0 ll 0\n",
         "number of blocks is 2, on rank 0 it is 1"},
        {"coll all_reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll all_reduce algo a rank 1 nranks 2 root 0 in_place 1 blocks 1 tmp 0 ll 0\n", "in_place is 1"},
        {"coll reduce algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll reduce algo a rank 1 nranks 2 root 1 in_place 0 blocks 1 tmp 0 ll 0\n", "root is 1"},
        {"coll barrier algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
         "lane 0 send - recv - chan 0\n0 signal 0\n",
         "coll barrier algo a rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 1 ll 0\n", "tmp has 1 blocks"},
        {"coll barrier algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
         "lane 0 send - recv - chan 0\n0 signal 0\n",
         "coll barrier algo a rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
         "lane 0 send 0 recv - chan 0\n",
         "is two-sided, but rank 0 has mapped steps"},
        {"coll barrier algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 1\n"
         "lane 0 send - recv - chan 0\n0 signal 0\n",
         "coll barrier algo a rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
         "lane 0 send - recv - chan 0\n0 signal 0\n",
         "is not fit for ll lines, rank 0 is"},
        {"coll send algo a rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n",
         "coll send algo a rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n", "send is not a collective"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct wi_sched *s[2] = {NULL, NULL};
        for (int r = 0; r < 2; r++) {
            char text[1024];
            int n = snprintf(text, sizeof(text), "weft-schedule 1\n%send\n", r ? pairs[i].second : pairs[i].first);
            CU_ASSERT_EQUAL_FATAL(wi_sched_parse(text, (size_t)n, &s[r]), WEFT_SUCCESS);
        }
        CU_ASSERT_EQUAL(check(s, 2, 0), WEFT_EINVAL);
        if (!strstr(wi_fail_text(), pairs[i].text))
            printf("# wanted \"%s\", found \"%s\"\n", pairs[i].text, wi_fail_text());
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), pairs[i].text));
        samples_put(s, 2);
    }
    struct wi_sched *none[2] = {NULL, NULL};
    CU_ASSERT_EQUAL(check(none, 2, 0), WEFT_EINVAL);
    CU_ASSERT_EQUAL(check(none, 0, 0), WEFT_EINVAL);
}

/* ---- Mutation: one change to one rank of a right collective must be noticed ---- */

struct copy {
    struct wi_sched sched;
    struct wi_step *steps;
    struct wi_region *regions;
};

static void copy_make(struct copy *c, const struct wi_sched *s)
{
    c->sched = *s;
    c->steps = malloc((s->nsteps + 1) * sizeof(*c->steps));
    c->regions = malloc((s->nregions + 1) * sizeof(*c->regions));
    memcpy(c->steps, s->steps, s->nsteps * sizeof(*c->steps));
    memcpy(c->regions, s->regions, s->nregions * sizeof(*c->regions));
    c->sched.steps = c->steps;
    c->sched.regions = c->regions;
}

enum mutation { DROP_STEP, DROP_DEPENDENCY, FLIP_FINAL, SHIFT_SOURCE, SHIFT_DESTINATION, NUM_MUTATIONS };

/* 0: does not apply to this step. */
static int mutate(struct copy *c, uint32_t i, enum mutation mutation)
{
    struct wi_step *step = &c->steps[i];
    unsigned is_reducing =
        step->kind == WI_STEP_RECV_REDUCE || step->kind == WI_STEP_RECV_REDUCE_SEND || step->kind == WI_STEP_REDUCE;

    switch (mutation) {
    case DROP_STEP:
        if (step->kind == WI_STEP_NOP)
            return 0;
        step->kind = WI_STEP_NOP;
        step->nsrc = step->ndst = step->flags = 0;
        return 1;
    case DROP_DEPENDENCY:
        if (step->dep_lane == WI_NO_DEP)
            return 0;
        step->dep_lane = WI_NO_DEP;
        return 1;
    case FLIP_FINAL:
        if (!is_reducing)
            return 0;
        step->flags ^= WI_STEP_FINAL;
        return 1;
    case SHIFT_SOURCE:
        if (!step->nsrc || c->sched.coll == WI_COLL_BARRIER)
            return 0;
        c->regions[step->src].first++;
        return 1;
    default:
        if (!step->ndst || c->sched.coll == WI_COLL_BARRIER)
            return 0;
        c->regions[step->dst].first++;
        return 1;
    }
}

static unsigned mutate_rank(const struct sample *sample, struct wi_sched **s, int nranks, int rank)
{
    unsigned tried = 0;
    const struct wi_sched *right = s[rank];

    for (uint32_t i = 0; i < right->nsteps; i++) {
        for (int m = 0; m < NUM_MUTATIONS; m++) {
            struct copy c;
            copy_make(&c, right);
            if (mutate(&c, i, (enum mutation)m)) {
                s[rank] = &c.sched;
                weft_status st = check(s, nranks, !!(sample->flags & SAMPLE_ORDERED));
                if (st != WEFT_EINVAL)
                    printf("# %s rank %d: mutation %d of step %u is not noticed\n", sample->name, rank, m, i);
                CU_ASSERT_EQUAL(st, WEFT_EINVAL);
                tried++;
            }
            free(c.steps);
            free(c.regions);
        }
    }
    s[rank] = (struct wi_sched *)right;
    return tried;
}

static void every_mutation_is_noticed(void)
{
    unsigned tried = 0;

    for (unsigned i = 0; i < nsamples; i++) {
        struct wi_sched *s[4];
        CU_ASSERT_EQUAL_FATAL(sample_build_all(&samples[i], 4, 0, 0, s), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(check(s, 4, !!(samples[i].flags & SAMPLE_ORDERED)), WEFT_SUCCESS);
        for (int r = 0; r < 4; r++)
            tried += mutate_rank(&samples[i], s, 4, r);
        samples_put(s, 4);
    }
    printf("# %u mutations\n", tried);
    CU_ASSERT(tried > 300);
}

static void check_may_run_out_of_memory(void)
{
    static const char *const names[] = {"flat_reduce", "direct", "barrier", "ring"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct wi_sched *s[3];
        CU_ASSERT_EQUAL_FATAL(sample_build_all(sample_find(names[i]), 3, 0, 0, s), WEFT_SUCCESS);
        long n = 0;
        weft_status st;
        do {
            CU_ASSERT_FATAL(++n < 10000);
            wi_alloc_fail_nth(n);
            st = check(s, 3, 0);
            wi_alloc_fail_nth(0);
            CU_ASSERT(st == WEFT_SUCCESS || st == WEFT_ENOMEM);
        } while (st != WEFT_SUCCESS);
        CU_ASSERT(n > 10);
        samples_put(s, 3);
    }
}

static const struct wt_case cases[] = {
    {"samples pass", samples_pass},
    {"many ranks pass", many_ranks_pass},
    {"ring does not keep order", ring_does_not_keep_order},
    {"ranks must agree", ranks_must_agree},
    {"every mutation is noticed", every_mutation_is_noticed},
    {"check may run out of memory", check_may_run_out_of_memory},
};
WT_UNIT_MAIN("sched_check", cases)
