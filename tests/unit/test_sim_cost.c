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
    CU_ASSERT(rates.alpha == ALPHA && rates.beta == BETA && rates.reduce_rate == GAMMA && isinf(rates.copy_rate));
    CU_ASSERT(wi_sim_rates(m, 1, &rates) >= 0);
    CU_ASSERT(rates.alpha == m->mapped_us && isinf(rates.beta));
    wi_model_destroy(m);
}

/* ---- Closed forms ---- */

static struct wi_algo_rates closed_rates(const struct wi_model *m, int mapped)
{
    struct wi_sim_rates r = {0};

    CU_ASSERT(wi_sim_rates(m, mapped, &r) >= 0);
    return (struct wi_algo_rates){r.alpha, r.beta, r.reduce_rate, r.copy_rate, 0, 0};
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

    if (a->coding) /* what coding takes the closed forms do not know: the planner prices it (test_plan) */
        return 0;
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

/* With sanitizers, which make this six times as long and look at memory, some numbers of ranks beyond 16 stand for all. */
static void forms_are_near(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");
    int few = sanitizer && strcmp(sanitizer, "no") != 0, compared = 0;

    for (int n = 2; n <= 64; n += few && n >= 16 ? 8 : 1)
        compared += compare_all(n, UINT32_MAX);
    CU_ASSERT(compared > (few ? 1000 : 3500));
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

/* ---- Hierarchical forms ----
 * Groups, two by two in racks. Those that are not within 5 % of the events are named, with what holds instead: the form as a share
 * of the events' time. Even: groups of one size, also where a stage folds. Ragged: groups of different sizes. */
#define CHUNKS "chunks in different stages meet on one link"
#define SCATTER "what the root scatters inside shares its link with what it sends on to other groups"
#define EARLY "a rank begins among the groups while others still send to it inside"
#define PARTS "small groups' ranks answer for several parts, which share lanes with some ranks and none with others"
#define LEADERS "leaders of small groups begin earlier or pass on sooner"
static const struct {
    enum wi_coll coll;
    const char *spec;
    double least, most; /* even */
    const char *why;
    double ragged_least, ragged_most;
    const char *ragged_why; /* NULL: there is a form */
} specs[] = {
    {WI_COLL_ALL_REDUCE, "node:ring", 1, 1, NULL, 0.30, 1.05, PARTS},
    {WI_COLL_ALL_REDUCE, "node:ring@leader", 1, 1, NULL, 0.90, 1.15, LEADERS},
    {WI_COLL_ALL_REDUCE, "node:rhalving", 1, 1, NULL, 0.30, 1.45, PARTS},
    {WI_COLL_ALL_REDUCE, "node:swing", 1, 1, NULL, 0.30, 1.45, PARTS},
    {WI_COLL_ALL_REDUCE, "node:rdouble", 1, 1, NULL, 0.65, 1.65, PARTS},
    {WI_COLL_ALL_REDUCE, "node:rdouble@leader", 1, 1, NULL, 0.88, 1.80, LEADERS},
    {WI_COLL_ALL_REDUCE, "node:rdouble/pairwise+ring", 1, 1, NULL, 0.88, 1.75, PARTS},
    {WI_COLL_ALL_REDUCE, "rack:ring/node:rdouble", 1, 1, NULL, 0.42, 1.05, PARTS},
    {WI_COLL_ALL_REDUCE, "node:ring*4", 0.75, 1.15, CHUNKS, 0.25, 1.20, CHUNKS},
    {WI_COLL_REDUCE, "node:knomial@leader", 1, 1, NULL, 1, 1, NULL},
    {WI_COLL_REDUCE, "node:rsgather", 1, 1, NULL, 0.70, 1.70, PARTS},
    {WI_COLL_ALL_GATHER, "node:ring", 1, 1, NULL, 0.45, 1.05, PARTS},
    {WI_COLL_ALL_GATHER, "node:rdouble", 1, 1, NULL, 0.45, 1.15, PARTS},
    {WI_COLL_ALL_GATHER, "node:linear@leader", 1, 1, NULL, 0.80, 1.05, LEADERS},
    {WI_COLL_ALL_GATHER, "rack:ring/node:ring", 1, 1, NULL, 0.42, 1.05, PARTS},
    {WI_COLL_REDUCE_SCATTER, "node:pairwise@leader", 1, 1, NULL, 0.80, 1.05, LEADERS},
    {WI_COLL_REDUCE_SCATTER, "node:ring", 0.95, 1.15, EARLY, 0.43, 1.05, PARTS},
    {WI_COLL_REDUCE_SCATTER, "node:rhalving", 0.95, 1.25, EARLY, 0.50, 1.70, PARTS},
    {WI_COLL_ALL_TO_ALL, "node:pairwise", 1, 1, NULL, 0.43, 0.80, PARTS},
    {WI_COLL_ALL_TO_ALL, "node:pairwise@leader", 1, 1, NULL, 0.62, 1.15, LEADERS},
    {WI_COLL_BARRIER, "node:dissem", 1, 1, NULL, 0.85, 1.05, PARTS},
    {WI_COLL_BARRIER, "node:dissem@leader", 1, 1, NULL, 1.00, 1.35, LEADERS},
    {WI_COLL_BROADCAST, "node:knomial@leader", 1, 1, NULL, 1, 1, NULL},
    {WI_COLL_BROADCAST, "node:knomial", 1, 1, NULL, 0.55, 1.90, SCATTER},
    {WI_COLL_BROADCAST, "node:scatter_ring", 0.48, 1.05, SCATTER, 0.65, 1.65, SCATTER},
};
#define NSPECS (sizeof specs / sizeof *specs)

struct two_levels {
    int nranks, ngroups;
    int32_t rack[64], node[64];
    struct wi_algo_levels levels;
};

static void lay_out(struct two_levels *l, int ngroups, const int *sizes)
{
    l->ngroups = ngroups;
    l->nranks = 0;
    for (int g = 0; g < ngroups; g++)
        for (int i = 0; i < sizes[g]; i++, l->nranks++) {
            l->node[l->nranks] = g;
            l->rack[l->nranks] = g / 2;
        }
    l->levels = (struct wi_algo_levels){2, {{"rack", (ngroups + 1) / 2, l->rack}, {"node", ngroups, l->node}}};
}

/* The form as a share of the events' time: the least and the most of all sizes. */
static void compare_spec(enum wi_coll coll, const char *spec, const struct two_levels *l, const struct wi_model *m,
                         double is[2])
{
    static const size_t sizes[] = {4096, 256 << 10, 16 << 20};
    struct wi_algo_rates rates = closed_rates(m, 0);
    struct wi_algo_choice choice;

    CU_ASSERT_FATAL(wi_algo_choose(coll, spec, &l->levels, l->nranks, &choice) >= 0);
    struct wi_algo_args args = {.nranks = l->nranks, .levels = &l->levels, .spec = &choice.spec};
    args.in_place = !(choice.needs & WI_ALGO_NO_IN_PLACE);
    sim_put();
    for (args.rank = 0; args.rank < l->nranks; args.rank++) {
        CU_ASSERT_FATAL(choice.algo->build(&args, &sim_scheds[args.rank]) >= 0);
        sim_nscheds++;
    }
    args.rank = 0;
    is[0] = INFINITY;
    is[1] = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = coll == WI_COLL_BARRIER ? 0 : sizes[i];
        if (sizes[i] / 4 < sim_scheds[0]->nblocks)
            continue;
        double us = by_events(spec, bytes, m, 0), form = 0;
        CU_ASSERT(wi_algo_level_closed(&args, coll, (double)bytes, &rates, &form) >= 0);
        CU_ASSERT(form == wi_algo_closed(choice.algo, &args, (double)bytes, 1, &rates));
        is[0] = fmin(is[0], form / us);
        is[1] = fmax(is[1], form / us);
    }
}

/* All specs; `seen`: the furthest from 1 of each. */
static void compare_specs(const struct two_levels *l, int ragged, double seen[NSPECS])
{
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(l->nranks, ALPHA, BETA, GAMMA, &m) >= 0);
    for (size_t i = 0; i < NSPECS; i++) {
        const char *why = ragged ? specs[i].ragged_why : specs[i].why;
        double least = why ? ragged ? specs[i].ragged_least : specs[i].least : 0.95;
        double most = why ? ragged ? specs[i].ragged_most : specs[i].most : 1.05, is[2];
        if (!ragged && strstr(specs[i].spec, "rack") && (l->ngroups < 4 || l->ngroups % 2))
            continue; /* racks of unequal size */
        compare_spec(specs[i].coll, specs[i].spec, l, m, is);
        seen[i] = fmax(seen[i], fmax(1 - is[0], is[1] - 1));
        if (is[0] >= least && is[1] <= most)
            continue;
        printf("# %s %s, %d groups of %d ranks: the form is %.3f to %.3f of the events\n", wi_coll_name(specs[i].coll),
               specs[i].spec, l->ngroups, l->nranks, is[0], is[1]);
        CU_FAIL("form");
    }
    sim_put();
    wi_model_destroy(m);
}

/* What has become exact is to leave the list. */
static void name_inexact(int ragged, const double seen[NSPECS])
{
    for (size_t i = 0; i < NSPECS; i++) {
        const char *why = ragged ? specs[i].ragged_why : specs[i].why;
        if (!why)
            continue;
        printf("# no form within 5 %%: %s %s, %s groups, off by up to %.0f %%: %s\n", wi_coll_name(specs[i].coll),
               specs[i].spec, ragged ? "ragged" : "even", 100 * seen[i], why);
        CU_ASSERT(seen[i] > 0.05);
    }
}

static void hierarchical_forms_are_near(void)
{
    double seen[NSPECS] = {0};
    struct two_levels l;

    for (int ngroups = 2; ngroups <= 8; ngroups++)
        for (int size = 1; size <= 8; size *= 2) {
            int sizes[8];
            for (int g = 0; g < ngroups; g++)
                sizes[g] = size;
            lay_out(&l, ngroups, sizes);
            compare_specs(&l, 0, seen);
        }
    name_inexact(0, seen);
}

static void ragged_forms_are_known(void)
{
    static const struct {
        int ngroups, sizes[6];
    } maps[] = {{3, {3, 1, 4}},    {4, {5, 2, 2, 1}},      {2, {1, 6}}, {2, {2, 3}}, {3, {4, 4, 3}},
                {4, {1, 1, 1, 7}}, {6, {6, 5, 4, 3, 2, 1}}};
    double seen[NSPECS] = {0};
    struct two_levels l;

    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        lay_out(&l, maps[i].ngroups, maps[i].sizes);
        compare_specs(&l, 1, seen);
    }
    name_inexact(1, seen);
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
    {"ragged forms are known", ragged_forms_are_known},
    {"forms know slices", forms_know_slices},
};
WT_UNIT_MAIN("sim_cost", cases)
