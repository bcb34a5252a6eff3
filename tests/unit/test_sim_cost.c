/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs without a record against the events, and the algorithms' formulas against them. */
#include "sim/cost.h"
#include "tests/unit/sim_common.h"

#define ALPHA 3.0
#define BETA 1250.0
#define GAMMA 4000.0

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

/* ---- Formulas ---- */

static double closed(const struct wi_algo *a, const struct wi_algo_args *args, size_t bytes, double nslices,
                     const struct wi_sim_rates *rates)
{
    struct wi_algo_cost c = {0}, p;

    a->cost(args, (double)bytes, &c);
    p = c;
    if (a->path)
        a->path(args, (double)bytes, &p);
    struct wi_sim_terms all = {c.steps, c.sent, c.reduced, c.copied}, path = {p.steps, p.sent, p.reduced, p.copied};
    return wi_sim_closed(&all, &path, nslices, rates);
}

/* Where ranks beyond a power of two are served apart, their messages collide in ways that no short formula has. */
static double tolerance(const struct wi_algo *a, int nranks)
{
    int collides = !strcmp(a->name, "rdouble") || !strcmp(a->name, "rhalving") || !strcmp(a->name, "dbtree") ||
                   !strncmp(a->name, "swing", 5);

    if (!strcmp(a->name, "scatter_ring")) /* exact where bytes or where latency rules, 1.42 times too long between */
        return 0.45;
    return collides && (nranks & (nranks - 1)) ? 0.18 : 0.05;
}

static void compare(const struct wi_algo *a, int nranks, const struct wi_model *m)
{
    static const size_t sizes[] = {8, 64 << 10, 16 << 20};
    int in_place = sim_suits(a, nranks, 1);
    struct wi_algo_args args = {.nranks = nranks, .in_place = in_place};
    struct wi_sim_rates rates;

    CU_ASSERT(wi_sim_rates(m, 0, &rates) >= 0);
    if (sim_build(a, nranks, 0, in_place))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] / 4 < sim_scheds[0]->nblocks)
            continue; /* empty blocks are not sent */
        size_t bytes = a->coll == WI_COLL_BARRIER ? 0 : sizes[i];
        char what[64];
        snprintf(what, sizeof what, "formula of %s %s", wi_coll_name(a->coll), a->name);
        expect_near(what, nranks, sizes[i], closed(a, &args, bytes, 1, &rates), by_events(what, sizes[i], m, 0),
                    tolerance(a, nranks));
    }
}

/* Every two-sided algorithm that needs no levels, unsliced, on a uniform network. */
static void formulas_are_near(void)
{
    static const int nranks[] = {2, 3, 4, 5, 7, 8, 16, 32};
    int compared = 0;

    for (size_t k = 0; k < sizeof nranks / sizeof *nranks; k++) {
        struct wi_model *m = NULL;
        CU_ASSERT_FATAL(wi_model_uniform(nranks[k], ALPHA, BETA, GAMMA, &m) >= 0);
        for (size_t i = 0; wi_algos[i]; i++) {
            const struct wi_algo *a = wi_algos[i];
            if (a->needs & WI_ALGO_MAPPED || (!sim_suits(a, nranks[k], 0) && !sim_suits(a, nranks[k], 1)))
                continue;
            compare(a, nranks[k], m);
            compared++;
        }
        sim_put();
        wi_model_destroy(m);
    }
    CU_ASSERT(compared > 200);
}

/* A pipeline of many slices keeps the busiest link or core. */
static void formulas_know_slices(void)
{
    static const struct {
        enum wi_coll coll;
        const char *name;
    } rows[] = {{WI_COLL_BROADCAST, "chain"},
                {WI_COLL_BROADCAST, "knomial"},
                {WI_COLL_REDUCE, "chain"},
                {WI_COLL_SCAN, "linear"}};
    struct wi_sim_rates rates;
    struct wi_model *m = NULL;
    size_t slice = 64 << 10;

    CU_ASSERT_FATAL(wi_model_uniform(16, ALPHA, BETA, GAMMA, &m) >= 0 && wi_sim_rates(m, 0, &rates) >= 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct wi_algo *a = wi_algo_find(rows[i].coll, rows[i].name);
        struct wi_algo_args args = {.nranks = 16, .in_place = 1};
        if (!sim_build(a, 16, 0, 1))
            expect_near(rows[i].name, 16, 64 * slice, closed(a, &args, 64 * slice, 64, &rates),
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
    {"formulas are near", formulas_are_near},
    {"formulas know slices", formulas_know_slices},
};
WT_UNIT_MAIN("sim_cost", cases)
