/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs without a record against the events, and the algorithms' closed forms against them. */
#include "sched/internal.h"
#include "sim/cost.h"
#include "tests/unit/sim_common.h"

#define ALPHA 3.0
#define BETA 1250.0
#define GAMMA 4000.0
#define KAPPA 10000.0
#define MAPPED 0.3

static double by_events(const char *what, size_t bytes, const struct wi_model *m, size_t slice)
{
    struct wi_sim_options o = {.slice_bytes = slice};
    struct wi_sim_result *r = sim_run(what, bytes, m, &o);
    double us = r ? r->finish_us : NAN;

    wi_sim_result_free(r);
    return us;
}

static struct wi_sim_cost cost_of(const char *what, size_t bytes, const struct wi_model *m, size_t slice)
{
    struct wi_sim_cost c = {.us = NAN};

    wi_fail_clear();
    if (wi_sim_cost((const struct wi_sched *const *)sim_scheds, sim_nscheds, bytes, m, slice, &c) < 0) {
        printf("# %s: %s\n", what, wi_fail_text());
        CU_FAIL("cost");
    }
    return c;
}

static void expect_near(const char *what, int nranks, size_t bytes, double is, double should, double tolerance)
{
    if (fabs(is - should) <= tolerance * should)
        return;
    printf("# %s, P = %d, %zu bytes: %.6g us, not %.6g (%.3f)\n", what, nranks, bytes, is, should, is / should);
    CU_FAIL("cost");
}

/* Few units: the events themselves. */
static void small_ones_are_simulated(void)
{
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(8, ALPHA, BETA, GAMMA, &m) >= 0);
    for (size_t i = 0; wi_algos[i]; i++) {
        if (!sim_suits(wi_algos[i], 8, 0) || sim_build(wi_algos[i], 8, 0, 0))
            continue;
        struct wi_sim_cost c = cost_of(wi_algos[i]->name, 65536, m, 4096);
        CU_ASSERT(c.by_events);
        CU_ASSERT(c.us == by_events(wi_algos[i]->name, 65536, m, 4096));
    }
    sim_put();
    wi_model_destroy(m);
}

/* Many slices: two coarser cuts and a line through them. */
static void many_slices_are_extrapolated(void)
{
    static const char *const names[] = {"dbtree", "knomial", "rdouble", "rhalving", "ring"};
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(8, ALPHA, BETA, GAMMA, &m) >= 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (sim_build(wi_algo_find(WI_COLL_ALL_REDUCE, names[i]), 8, 0, 0))
            continue;
        size_t bytes = 32 << 20, slice = 16384;
        expect_near(names[i], 8, bytes, cost_of(names[i], bytes, m, slice).us, by_events(names[i], bytes, m, slice),
                    0.03);
    }
    sim_put();
    wi_model_destroy(m);
}

/* Many ranks in a ring, or all with all: loads. */
static void loads_are_near(void)
{
    static const struct {
        enum wi_coll coll;
        const char *name;
        int nranks;
    } rows[] = {
        {WI_COLL_ALL_REDUCE, "ring", 256}, {WI_COLL_ALL_TO_ALL, "pairwise", 240}, {WI_COLL_ALL_TO_ALL, "linear", 60}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wi_model *m = NULL;
        CU_ASSERT_FATAL(wi_model_uniform(rows[i].nranks, ALPHA, BETA, GAMMA, &m) >= 0);
        if (!sim_build(wi_algo_find(rows[i].coll, rows[i].name), rows[i].nranks, 0, 0)) {
            size_t bytes = rows[i].coll == WI_COLL_ALL_REDUCE ? (size_t)rows[i].nranks << 16 : 1 << 16;
            struct wi_sim_cost c = cost_of(rows[i].name, bytes, m, 0);
            CU_ASSERT(!c.by_events);
            expect_near(rows[i].name, rows[i].nranks, bytes, c.us, by_events(rows[i].name, bytes, m, 0), 0.05);
        }
        sim_put();
        wi_model_destroy(m);
    }
}

static void rates_are_the_models(void)
{
    struct wi_sim_rates rates;
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(5, ALPHA, BETA, GAMMA, &m) >= 0);
    CU_ASSERT(wi_sim_rates(m, 0, &rates) >= 0);
    CU_ASSERT(rates.alpha == ALPHA && rates.beta == BETA && rates.gamma == GAMMA && isinf(rates.kappa));
    CU_ASSERT(wi_sim_rates(m, 1, &rates) >= 0);
    CU_ASSERT(rates.alpha == m->mapped_us && isinf(rates.beta));
    wi_model_destroy(m);
}

/* ---- Closed forms ---- */

static struct wi_algo_rates closed_rates(const struct wi_model *m, int mapped)
{
    struct wi_sim_rates r = {0};

    CU_ASSERT(wi_sim_rates(m, mapped, &r) >= 0);
    return (struct wi_algo_rates){r.alpha, r.beta, r.gamma, r.kappa};
}

static void compare_size(const struct wi_algo *a, int nranks, size_t bytes, const struct wi_model *m)
{
    struct wi_algo_args args = {.nranks = nranks, .in_place = sim_suits(a, nranks, 1)};
    struct wi_algo_rates rates = closed_rates(m, (a->needs & WI_ALGO_MAPPED) != 0);
    struct wi_sim_options o = {.slot_bytes = 1u << 30};
    char what[64];

    snprintf(what, sizeof what, "closed form of %s %s", wi_coll_name(a->coll), a->name);
    struct wi_sim_result *r = sim_run(what, bytes, m, &o);
    if (!r)
        return;
    expect_near(what, nranks, bytes, wi_algo_closed(a, &args, (double)bytes, 1, &rates), r->finish_us, 0.05);
    wi_sim_result_free(r);
}

/* Returns whether there was something to compare: `most` steps of all ranks together at most. */
static int compare(const struct wi_algo *a, int nranks, const struct wi_model *m, uint32_t most)
{
    static const size_t sizes[] = {4096, 256 << 10, 16 << 20};
    uint32_t nsteps = 0;

    if (sim_build(a, nranks, 0, sim_suits(a, nranks, 1)))
        return 0;
    for (int r = 0; r < nranks; r++)
        nsteps += sim_scheds[r]->nsteps;
    if (nsteps > most)
        return 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t unit = 4 * (wi_coll_is_vector(a->coll) ? 1 : sim_scheds[0]->nblocks);
        if (sizes[i] / 4 < sim_scheds[0]->nblocks)
            continue; /* empty blocks are not sent */
        compare_size(a, nranks, a->coll == WI_COLL_BARRIER ? 0 : sizes[i] / unit * unit, m);
    }
    return 1;
}

/* Every algorithm but the hierarchical ones, two-sided and mapped, unsliced, on a uniform network whose copies take time where
 * they are mapped. */
static int compare_all(int nranks, uint32_t most)
{
    struct wi_model *m = NULL;
    struct wi_model_rank *ranks;
    int compared = 0;

    CU_ASSERT_FATAL(wi_model_uniform(nranks, ALPHA, BETA, GAMMA, &m) >= 0);
    ranks = (struct wi_model_rank *)m->ranks;
    for (size_t i = 0; wi_algos[i]; i++) {
        const struct wi_algo *a = wi_algos[i];
        int mapped = (a->needs & WI_ALGO_MAPPED) != 0;
        if (!sim_suits(a, nranks, 0) && !sim_suits(a, nranks, 1))
            continue;
        m->mapped_us = mapped ? MAPPED : 0;
        for (int r = 0; r < nranks; r++)
            ranks[r].copy_rate = mapped ? KAPPA : INFINITY;
        compared += compare(a, nranks, m, most);
    }
    sim_put();
    wi_model_destroy(m);
    return compared;
}

static void forms_are_near(void)
{
    int compared = 0;

    for (int n = 2; n <= 64; n++)
        compared += compare_all(n, UINT32_MAX);
    CU_ASSERT(compared > 3500);
}

/* Where events are fast: exchanges, trees, fans, but not rings and all with all. */
static void forms_of_more_ranks_are_near(void)
{
    static const int nranks[] = {96, 100, 127, 200};

    for (size_t i = 0; i < sizeof nranks / sizeof *nranks; i++)
        CU_ASSERT(compare_all(nranks[i], 6000) > 20);
}

/* Where the forms of exchanges follow fewer ranks than there are: just past a power of two, before the next, in between, and the
 * one that leaves the same ranks waiting in every round. */
static void forms_of_many_ranks_are_near(void)
{
    static const struct {
        enum wi_coll coll;
        const char *name;
    } rows[] = {{WI_COLL_ALL_REDUCE, "rhalving"},     {WI_COLL_ALL_REDUCE, "swing"},
                {WI_COLL_REDUCE_SCATTER, "rhalving"}, {WI_COLL_ALL_REDUCE, "rdouble"},
                {WI_COLL_ALL_REDUCE, "swing_short"},  {WI_COLL_ALL_GATHER, "rdouble"}};
    static const int nranks[] = {513, 767, 900, 1023};

    for (size_t n = 0; n < sizeof nranks / sizeof *nranks; n++) {
        struct wi_model *m = NULL;
        CU_ASSERT_FATAL(wi_model_uniform(nranks[n], ALPHA, BETA, GAMMA, &m) >= 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (!sim_build(wi_algo_find(rows[i].coll, rows[i].name), nranks[n], 0, 1))
                compare_size(wi_algo_find(rows[i].coll, rows[i].name), nranks[n], 1 << 20, m);
        sim_put();
        wi_model_destroy(m);
    }
}

/* Hierarchical: groups of L ranks, G of them, two by two in racks. */
#define CHUNKS "chunks in different stages meet on one link"
#define BROADCAST "what a leader sends inside shares its link with what it sends on to other groups"
static const struct {
    enum wi_coll coll;
    const char *spec;
    const char *why_not; /* NULL: there is a form */
} specs[] = {
    {WI_COLL_ALL_REDUCE, "node:ring", NULL},
    {WI_COLL_ALL_REDUCE, "node:ring@leader", NULL},
    {WI_COLL_ALL_REDUCE, "node:rhalving", NULL},
    {WI_COLL_ALL_REDUCE, "node:rdouble@leader", NULL},
    {WI_COLL_ALL_REDUCE, "node:rdouble/pairwise+ring", NULL},
    {WI_COLL_ALL_REDUCE, "rack:ring/node:rdouble", NULL},
    {WI_COLL_ALL_REDUCE, "node:ring*4", CHUNKS},
    {WI_COLL_REDUCE, "node:knomial@leader", NULL},
    {WI_COLL_REDUCE, "node:rsgather", NULL},
    {WI_COLL_ALL_GATHER, "node:ring", NULL},
    {WI_COLL_ALL_GATHER, "node:rdouble", NULL},
    {WI_COLL_ALL_GATHER, "node:linear@leader", NULL},
    {WI_COLL_ALL_GATHER, "rack:ring/node:ring", NULL},
    {WI_COLL_REDUCE_SCATTER, "node:pairwise@leader", NULL},
    {WI_COLL_REDUCE_SCATTER, "node:ring", "a rank begins among the groups while others still send to it inside"},
    {WI_COLL_ALL_TO_ALL, "node:pairwise", NULL},
    {WI_COLL_BARRIER, "node:dissem", NULL},
    {WI_COLL_BARRIER, "node:dissem@leader", NULL},
    {WI_COLL_BROADCAST, "node:knomial@leader", BROADCAST},
    {WI_COLL_BROADCAST, "node:scatter_ring", BROADCAST},
};

struct two_levels {
    int32_t rack[64], node[64];
    struct wi_algo_levels levels;
};

static void lay_out(struct two_levels *l, int groups, int size)
{
    for (int r = 0; r < groups * size; r++) {
        l->node[r] = r / size;
        l->rack[r] = r / size / 2;
    }
    l->levels = (struct wi_algo_levels){2, {{"rack", (groups + 1) / 2, l->rack}, {"node", groups, l->node}}};
}

/* Returns the worst of all sizes, as a share that the form is off by; -1: not for these groups. */
static double spec_off(enum wi_coll coll, const char *spec, const struct two_levels *l, int nranks,
                       const struct wi_model *m)
{
    static const size_t sizes[] = {4096, 256 << 10, 16 << 20};
    struct wi_algo_rates rates = closed_rates(m, 0);
    struct wi_algo_choice choice;
    double worst = 0;

    CU_ASSERT_FATAL(wi_algo_choose(coll, spec, &l->levels, nranks, &choice) >= 0);
    struct wi_algo_args args = {.nranks = nranks, .levels = &l->levels, .spec = choice.spec};
    args.in_place = !(choice.needs & WI_ALGO_NO_IN_PLACE);
    sim_put();
    for (args.rank = 0; args.rank < nranks; args.rank++) {
        CU_ASSERT_FATAL(choice.algo->build(&args, &sim_scheds[args.rank]) >= 0);
        sim_nscheds++;
    }
    args.rank = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = coll == WI_COLL_BARRIER ? 0 : sizes[i];
        double us = 0, is = by_events(spec, bytes, m, 0);
        if (sizes[i] / 4 < sim_scheds[0]->nblocks)
            continue;
        CU_ASSERT(wi_algo_level_closed(&args, coll, (double)bytes, &rates, &us) >= 0);
        worst = fmax(worst, fabs(us / is - 1));
    }
    return worst;
}

/* Does a stage of this spec fold among that many groups? */
static int spec_folds(const char *spec, int groups)
{
    int racks = strstr(spec, "rack") != NULL, n = racks ? 2 : groups;

    return (strstr(spec, "rdouble") || strstr(spec, "rhalving")) && (n & (n - 1));
}

static void hierarchical_forms_are_near(void)
{
    double off[sizeof specs / sizeof *specs] = {0};
    struct two_levels l;
    int compared = 0;

    for (int groups = 2; groups <= 8; groups++)
        for (int size = 1; size <= 8; size *= 2) {
            struct wi_model *m = NULL;
            CU_ASSERT_FATAL(wi_model_uniform(groups * size, ALPHA, BETA, GAMMA, &m) >= 0);
            lay_out(&l, groups, size);
            for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
                if ((strstr(specs[i].spec, "rack") && (groups < 4 || groups % 2)) || spec_folds(specs[i].spec, groups))
                    continue; /* racks of unequal size; folds, which have no form by themselves */
                double is = spec_off(specs[i].coll, specs[i].spec, &l, groups * size, m);
                off[i] = fmax(off[i], is);
                compared++;
                if (specs[i].why_not || is <= 0.05)
                    continue;
                printf("# %s %s, %d groups of %d: off by %.3f\n", wi_coll_name(specs[i].coll), specs[i].spec, groups,
                       size, is);
                CU_FAIL("form");
            }
            sim_put();
            wi_model_destroy(m);
        }
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (specs[i].why_not) {
            printf("# no form within 5 %%: %s %s, off by up to %.0f %%: %s\n", wi_coll_name(specs[i].coll),
                   specs[i].spec, 100 * off[i], specs[i].why_not);
            CU_ASSERT(off[i] > 0.05);
        }
    CU_ASSERT(compared > 400);
}

/* A pipeline of many slices keeps the busiest link or core. */
static void forms_know_slices(void)
{
    static const struct {
        enum wi_coll coll;
        const char *name;
    } rows[] = {{WI_COLL_BROADCAST, "chain"},
                {WI_COLL_BROADCAST, "knomial"},
                {WI_COLL_REDUCE, "chain"},
                {WI_COLL_SCAN, "linear"}};
    struct wi_model *m = NULL;
    size_t slice = 64 << 10;

    CU_ASSERT_FATAL(wi_model_uniform(16, ALPHA, BETA, GAMMA, &m) >= 0);
    struct wi_algo_rates rates = closed_rates(m, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct wi_algo *a = wi_algo_find(rows[i].coll, rows[i].name);
        struct wi_algo_args args = {.nranks = 16, .in_place = 1};
        if (!sim_build(a, 16, 0, 1))
            expect_near(rows[i].name, 16, 64 * slice, wi_algo_closed(a, &args, 64 * (double)slice, 64, &rates),
                        by_events(rows[i].name, 64 * slice, m, slice), 0.05);
    }
    sim_put();
    wi_model_destroy(m);
}

static const struct wt_case cases[] = {
    {"small ones are simulated", small_ones_are_simulated},
    {"many slices are extrapolated", many_slices_are_extrapolated},
    {"loads are near", loads_are_near},
    {"rates are the model's", rates_are_the_models},
    {"forms are near", forms_are_near},
    {"forms of more ranks are near", forms_of_more_ranks_are_near},
    {"forms of many ranks are near", forms_of_many_ranks_are_near},
    {"hierarchical forms are near", hierarchical_forms_are_near},
    {"forms know slices", forms_know_slices},
};
WT_UNIT_MAIN("sim_cost", cases)
