/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines of fragments: the formula against a run of them, and the best fragment against all of them. */
#include <math.h>

#include "tests/unit/unit.h"

#include "base/alloc.h"
#include "base/status.h"
#include "plan/internal.h"

/* ---- A run: fragments enter in order, a core and links serve whoever asked first ---- */

#define MOST_FRAGMENTS 512
#define MOST_STAGES 8
#define SHORTEST 8192 /* shorter fragments are overheads only: what these hold up is chance */

struct work { /* of one fragment in one stage: waits, then the core, then the link */
    double ready;
    int stage, part;
};

/* When a piece of work on a resource ends that was asked for at `ready`. */
static double serve(double *busy_until, double ready, double us)
{
    double start = fmax(*busy_until, ready);

    *busy_until = us > 0 ? start + us : *busy_until;
    return us > 0 ? start + us : ready;
}

/* Those that are before it have left its stage, as far as that holds only so many. */
static int may_enter(const struct wi_pipeline *c, const struct work *at, int f)
{
    int window = c->stage[at[f].stage].window;

    return at[f].part || !window || f < window || at[f - window].stage > at[f].stage;
}

static double run(const struct wi_pipeline *c, double bytes, int n)
{
    static struct work at[MOST_FRAGMENTS];
    static double out_of[MOST_STAGES][MOST_FRAGMENTS], over[MOST_FRAGMENTS];
    double link[WI_PIPELINE_LINKS + MOST_STAGES] = {0}, core = 0, b = bytes / n;
    int entered = 0, done = 0;

    while (done < n) {
        int next = -1;
        while (entered < n && entered < done + c->window) {
            at[entered] = (struct work){entered >= c->window ? over[entered - c->window] : 0, 0, 0};
            entered++;
        }
        for (int f = 0; f < entered; f++)
            if (at[f].stage < c->nstages && may_enter(c, at, f) && (next < 0 || at[f].ready < at[next].ready))
                next = f;
        struct work *w = &at[next];
        const struct wi_pipeline_stage *s = &c->stage[w->stage];
        if (w->part == 0) {
            if (s->window && next >= s->window)
                w->ready = fmax(w->ready, out_of[w->stage][next - s->window]);
            w->ready += s->wait_us;
        } else if (w->part == 1) {
            w->ready = serve(&core, w->ready, s->core_us + s->core_us_per_byte * b);
        } else {
            int l = s->link >= 0 ? s->link : WI_PIPELINE_LINKS + w->stage;
            w->ready = serve(&link[l], w->ready, s->link_us_per_byte * b);
            out_of[w->stage][next] = w->ready;
        }
        if (++w->part == 3) {
            w->part = 0;
            w->stage++;
        }
        if (w->stage == c->nstages)
            over[next] = w->ready;
        while (done < entered && at[done].stage == c->nstages)
            done++;
    }
    double last = 0;
    for (int f = 0; f < n; f++)
        last = fmax(last, over[f]);
    return last;
}

/* ---- Pipelines ---- */

/* Two hosts of four ranks: reduce-scatter inside, all-reduce across, all-gather inside. */
static const struct wi_pipeline_stage mapped_inside[] = {
    {.wait_us = 1, .core_us_per_byte = 1.0 / 6000, .link = WI_PIPELINE_NO_LINK},
    {.wait_us = 30, .core_us = 6, .core_us_per_byte = 1.0 / 32000, .link_us_per_byte = 1.0 / 1250},
    {.wait_us = 1, .core_us_per_byte = 1.0 / 8000, .link = WI_PIPELINE_NO_LINK},
};
/* What the core does takes longer than the link. */
static const struct wi_pipeline_stage busy_core[] = {
    {.wait_us = 2, .core_us_per_byte = 1.0 / 3000, .link = WI_PIPELINE_NO_LINK},
    {.wait_us = 5, .core_us = 4, .core_us_per_byte = 1.0 / 8000, .link_us_per_byte = 1.0 / 12500},
    {.wait_us = 2, .core_us_per_byte = 1.0 / 4000, .link = WI_PIPELINE_NO_LINK},
};
/* Two levels by messages over the same link, and a stage that takes one fragment at a time. */
static const struct wi_pipeline_stage two_levels[] = {
    {.wait_us = 4, .core_us = 1, .core_us_per_byte = 1.0 / 9000, .link = WI_PIPELINE_NO_LINK, .window = 1},
    {.wait_us = 20, .core_us = 4, .link_us_per_byte = 1.0 / 2500},
    {.wait_us = 40, .core_us = 4, .link_us_per_byte = 1.0 / 5000},
};

static const struct wi_pipeline_stage *const pipelines[] = {mapped_inside, busy_core, two_levels};
#define NCHAINS 3
#define NSTAGES 3

static void formula_is_the_run(void)
{
    static const double bytes[] = {64 << 10, 1 << 20, 16 << 20};
    static const int windows[] = {1, 2, 4, 8}, numbers[] = {1, 2, 3, 8, 33, 128, 512};
    double sum = 0;
    int seen = 0;

    for (int k = 0; k < NCHAINS; k++)
        for (size_t w = 0; w < 4; w++)
            for (size_t i = 0; i < 3; i++)
                for (size_t n = 0; n < 7; n++) {
                    struct wi_pipeline c = {NSTAGES, pipelines[k], windows[w]};
                    if (bytes[i] / numbers[n] < SHORTEST)
                        continue;
                    double is = wi_pipeline_us(&c, bytes[i], numbers[n]), us = run(&c, bytes[i], numbers[n]);
                    if (is > 1.25 * us || is < 0.74 * us)
                        printf("# pipeline %d, window %d, %.0f bytes in %d: %.1f us, run %.1f\n", k, windows[w],
                               bytes[i], numbers[n], is, us);
                    CU_ASSERT(is <= 1.25 * us && is >= 0.74 * us);
                    if (numbers[n] == 1 || windows[w] == 1)
                        CU_ASSERT_DOUBLE_EQUAL(is, us, 1e-6 * us);
                    sum += fabs(is / us - 1);
                    seen++;
                }
    printf("# off by %.3f on average of %d\n", sum / seen, seen);
    CU_ASSERT(seen > 150 && sum / seen < 0.035);
}

/* One after the other; overlapped; not more than the core can do. */
static void overlap_is_what_resources_allow(void)
{
    struct wi_pipeline c = {NSTAGES, busy_core, 1};
    double n = 64, bytes = 16 << 20, core = 0, serial;

    for (int i = 0; i < NSTAGES; i++)
        core += busy_core[i].core_us * n + busy_core[i].core_us_per_byte * bytes;
    serial = wi_pipeline_us(&c, bytes, n);
    CU_ASSERT_DOUBLE_EQUAL(serial, n * wi_pipeline_us(&c, bytes / n, 1), 1e-6 * serial);
    c.window = 8;
    CU_ASSERT(wi_pipeline_us(&c, bytes, n) < 0.95 * serial);
    CU_ASSERT(wi_pipeline_us(&c, bytes, n) > core);
    CU_ASSERT(wi_pipeline_us(&c, bytes, n) < 1.05 * core);
}

static void links_are_shared_by_name(void)
{
    struct wi_pipeline_stage stages[2] = {{.link_us_per_byte = 0.001}, {.link_us_per_byte = 0.001}};
    struct wi_pipeline c = {2, stages, 4};
    double shared = wi_pipeline_us(&c, 1 << 20, 64);

    stages[1].link = 1;
    CU_ASSERT(wi_pipeline_us(&c, 1 << 20, 64) < 0.55 * shared);
    stages[0].link = stages[1].link = WI_PIPELINE_NO_LINK; /* each its own */
    CU_ASSERT(wi_pipeline_us(&c, 1 << 20, 64) < 0.55 * shared);
}

/* ---- The best fragment ---- */

static void best_is_the_longest_about_as_fast(void)
{
    static const size_t bytes[] = {4096, 100000, 1 << 20, 3000000, 16 << 20};
    struct wi_pipeline_limits limits = {.unit = 64, .min_bytes = 4096, .max_bytes = 1 << 20};

    for (int k = 0; k < NCHAINS; k++)
        for (int window = 1; window <= 8; window *= 2)
            for (size_t i = 0; i < 5; i++) {
                struct wi_pipeline c = {NSTAGES, pipelines[k], window};
                double us, best = INFINITY, longer = INFINITY;
                size_t fragment = wi_pipeline_best_fragment(&c, bytes[i], &limits, &us);
                CU_ASSERT(fragment % limits.unit == 0 || fragment == bytes[i]);
                CU_ASSERT(fragment >= limits.min_bytes && fragment <= limits.max_bytes);
                for (size_t f = limits.min_bytes; f <= limits.max_bytes; f += limits.unit) {
                    double n = ceil((double)bytes[i] / (double)f);
                    best = fmin(best, wi_pipeline_us(&c, (double)bytes[i], n));
                    if (n < floor((double)bytes[i] / (double)fragment))
                        longer = fmin(longer, wi_pipeline_us(&c, (double)bytes[i], n));
                }
                if (us > 1.015 * best || longer < 1.01 * best)
                    printf(
                        "# pipeline %d, window %d, %zu bytes: fragments of %zu take %.2f us, the best %.2f, longer %.2f\n",
                        k, window, bytes[i], fragment, us, best, longer);
                CU_ASSERT(us <= 1.015 * best);    /* lengths are rounded up */
                CU_ASSERT(longer >= 1.01 * best); /* it is the longest that is about as fast */
            }
}

static void limits_are_kept(void)
{
    struct wi_pipeline c = {NSTAGES, mapped_inside, 4};
    double us;

    CU_ASSERT(wi_pipeline_best_fragment(&c, 0, &(struct wi_pipeline_limits){0}, &us) == 0);
    CU_ASSERT_DOUBLE_EQUAL(us, wi_pipeline_us(&c, 0, 1), 1e-9);
    CU_ASSERT(wi_pipeline_best_fragment(&c, 100, &(struct wi_pipeline_limits){64, 4096, 0}, NULL) == 100);
    CU_ASSERT(wi_pipeline_best_fragment(&c, 100, &(struct wi_pipeline_limits){64, 4096, 64}, NULL) == 64);
    CU_ASSERT(wi_pipeline_best_fragment(&c, 1 << 20, &(struct wi_pipeline_limits){0, 0, 10000}, NULL) <= 10000);
    c.window = 1; /* nothing overlaps */
    CU_ASSERT(wi_pipeline_best_fragment(&c, 1 << 20, &(struct wi_pipeline_limits){64, 4096, 0}, NULL) == 1 << 20);
    CU_ASSERT(wi_pipeline_best_fragment(&c, 1 << 20, &(struct wi_pipeline_limits){64, 4096, 300000}, NULL) <= 300000);
}

/* ---- The planner's stages ---- */

static const int32_t node_of[8] = {0, 0, 0, 0, 1, 1, 1, 1};

static struct wi_planner *two_hosts(const struct wi_algo_levels *levels, int mapped)
{
    struct wi_plan_facts facts = {.nranks = 8, .nnodes = 2, .levels = levels};
    struct wi_plan_config config = {.facts = &facts};
    struct wi_planner *p = NULL;

    if (mapped)
        facts.inside[0] = (struct wi_plan_transport){.name = "shm", .mapped = 1, .window = 4, .slot_bytes = 1 << 20};
    CU_ASSERT_FATAL(wi_planner_create(&config, &p) >= 0);
    return p;
}

static const struct wi_plan_hier *candidate(const struct wi_planner *p, const char *spec)
{
    struct wi_algo_choice c;

    CU_ASSERT_FATAL(wi_algo_choose(WI_COLL_ALL_REDUCE, spec, p->facts.levels, p->facts.nranks, &c) >= 0);
    CU_ASSERT_FATAL(wi_plan_hier_index(p, &c) >= 0);
    return &p->hier[wi_plan_hier_index(p, &c)];
}

/* Where messages serve the inside, the pipeline is the candidate as it is; in one fragment it takes what its formula says. Of some
 * only a part of the messages depend on each other. */
static void pipeline_of_messages_is_the_candidate(void)
{
    struct wi_algo_levels levels = {1, {{"node", 2, node_of}}};
    struct wi_planner *p = two_hosts(&levels, 0);
    struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES];
    int seen = 0, parallel = 0;

    for (int i = 0; i < p->nhier; i++) {
        const struct wi_plan_hier *h = &p->hier[i];
        const struct wi_hier_spec *spec = &h->choice.spec;
        if (spec->nlevels != 1 || spec->mapped)
            continue;
        seen++;
        parallel += h->one.stage[0].messages > h->one.stage[0].chain;
        for (size_t bytes = 64; bytes <= 16 << 20; bytes *= 16) {
            struct wi_plan_query q = {.coll = (enum wi_coll)h->choice.algo->coll, .bytes = bytes};
            struct wi_algo_cost cost;
            int n = wi_plan_pipeline_stages(p, &q, h, stages);
            struct wi_pipeline c = {n, stages, 1};
            double us = wi_plan_hier_us(p, &q, h, 1, &cost), is = wi_pipeline_us(&c, (double)bytes, 1);
            CU_ASSERT_EQUAL(n, 2);
            if (fabs(is - us) > 0.01 * us)
                printf("# %s %s, %zu bytes: %.2f us, the pipeline %.2f\n", wi_coll_name(q.coll),
                       wi_algo_choice_name(&h->choice), bytes, us, is);
            CU_ASSERT_DOUBLE_EQUAL(is, us, 0.01 * us);
        }
    }
    printf("# %d candidates, %d with messages that do not wait for others\n", seen, parallel);
    CU_ASSERT(seen > 10 && parallel > 0);
    wi_planner_destroy(p);
}

static void mapped_stages_are_priced_by_their_group(void)
{
    struct wi_algo_levels levels = {1, {{"node", 2, node_of}}};
    struct wi_planner *p = two_hosts(&levels, 1);
    const struct wi_plan_hier *h = candidate(p, "node:ring/flat");
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 8 << 20};
    struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES];
    struct wi_plan_pipeline pipeline;
    struct wi_algo_cost cost;

    CU_ASSERT_EQUAL_FATAL(wi_plan_pipeline_stages(p, &q, h, stages), 3);
    CU_ASSERT(stages[0].link == 0 && stages[0].link_us_per_byte > 0);
    for (int k = 0; k < 2; k++) { /* what four ranks on one host would pay */
        struct wi_algo_args args = {.nranks = 4};
        const struct wi_algo *flat = wi_algo_find(k ? WI_COLL_ALL_GATHER : WI_COLL_REDUCE_SCATTER, "flat");
        flat->cost(&args, (double)q.bytes / 4, &cost);
        double us = wi_plan_mapped_us(p, &q, flat, &cost);
        CU_ASSERT(stages[1 + k].link == WI_PIPELINE_NO_LINK);
        CU_ASSERT_DOUBLE_EQUAL(stages[1 + k].wait_us + stages[1 + k].core_us_per_byte * (double)q.bytes, us, 1e-6 * us);
    }
    double link = stages[0].link_us_per_byte * (double)q.bytes, us = wi_plan_pipeline_us(p, &q, h, 0, &pipeline);
    CU_ASSERT(pipeline.fragment_bytes > 4096 && pipeline.fragment_bytes <= 1 << 20);
    CU_ASSERT(pipeline.window == 4 && pipeline.bound == WI_PIPELINE_LINK);
    CU_ASSERT(us > link && us < 1.25 * link); /* the link hides the inside */
    CU_ASSERT(us < wi_plan_hier_us(p, &q, candidate(p, "node:ring"), 8, &cost));
    CU_ASSERT(us <= wi_plan_pipeline_us(p, &q, h, 8, &pipeline) + 1e-9);
    CU_ASSERT(pipeline.fragment_bytes == 1 << 20);
    wi_planner_destroy(p);
}

/* ---- Pipelines among the candidates, with facts that are made up ---- */

/* depth 0: nothing is mapped. */
static struct wi_planner *hosts(struct wi_algo_levels *levels, const int32_t *node, int nnodes, uint32_t window)
{
    static struct wi_plan_facts facts;
    struct wi_plan_config config = {.facts = &facts};
    struct wi_planner *p = NULL;

    *levels = (struct wi_algo_levels){1, {{"node", nnodes, node}}};
    facts = (struct wi_plan_facts){.nranks = 8, .nnodes = nnodes, .levels = levels};
    facts.inside[0] = (struct wi_plan_transport){.mapped = window != 0, .window = window, .slot_bytes = 256 << 10};
    CU_ASSERT_FATAL(wi_planner_create(&config, &p) >= 0);
    return p;
}

static const int32_t four_nodes[8] = {0, 0, 1, 1, 2, 2, 3, 3};
static const struct {
    const int32_t *node;
    int nnodes;
} worlds[] = {{node_of, 2}, {four_nodes, 4}};

/* Every size: not less than a smaller one, and what a run of so many fragments takes. More fragments under way: not more. */
static void prices_are_those_of_runs(void)
{
    static const char *const specs[] = {"node:ring/flat", "node:rdouble/flat", "node:rdouble@leader/flat2"};

    for (size_t w = 0; w < 2; w++)
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
            for (uint32_t depth = 1; depth <= 8; depth *= 2) {
                struct wi_algo_levels levels;
                struct wi_planner *p = hosts(&levels, worlds[w].node, worlds[w].nnodes, depth);
                struct wi_planner *more = hosts(&levels, worlds[w].node, worlds[w].nnodes, 2 * depth);
                double before = 0;
                for (size_t bytes = 64; bytes <= 64 << 20; bytes *= 2) {
                    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = bytes};
                    struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES];
                    struct wi_plan_pipeline pipeline, other;
                    double us = wi_plan_pipeline_us(p, &q, candidate(p, specs[i]), 0, &pipeline);
                    struct wi_pipeline c = {wi_plan_pipeline_stages(p, &q, candidate(p, specs[i]), stages), stages,
                                            (int)depth};
                    int n = (int)ceil((double)bytes / (double)pipeline.fragment_bytes);
                    CU_ASSERT(us >= before && pipeline.window == depth && pipeline.fragment_bytes <= 256 << 10);
                    CU_ASSERT(wi_plan_pipeline_us(more, &q, candidate(more, specs[i]), 0, &other) <= us * (1 + 1e-9));
                    before = us;
                    if (n > MOST_FRAGMENTS)
                        continue;
                    double is = run(&c, (double)bytes, n);
                    if (us > 1.25 * is || us < 0.74 * is)
                        printf("# %s on %d nodes, %u under way, %zu bytes: %.1f us, run %.1f\n", specs[i],
                               worlds[w].nnodes, depth, bytes, us, is);
                    CU_ASSERT(us <= 1.25 * is && us >= 0.74 * is);
                }
                wi_planner_destroy(more);
                wi_planner_destroy(p);
            }
}

/* A slot holds a fragment of every rank's share. */
static void shares_fit_a_slot(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER, WI_COLL_ALL_REDUCE};

    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        for (size_t bytes = 1024; bytes <= 16 << 20; bytes *= 4) {
            struct wi_algo_levels levels;
            struct wi_planner *p = hosts(&levels, node_of, 2, 4);
            struct wi_plan_query q = {.coll = colls[i], .bytes = bytes};
            size_t blocks = wi_coll_is_vector(colls[i]) ? 1 : 8;
            struct wi_plan plan;
            CU_ASSERT_FATAL(wi_plan(p, &q, "node:ring/flat", &plan) >= 0);
            CU_ASSERT(plan.pipeline.fragment_bytes > 0);
            CU_ASSERT(plan.pipeline.fragment_bytes * blocks <= 256 << 10);
            if (bytes * blocks <= 256 << 10)
                CU_ASSERT_EQUAL(plan.pipeline.fragment_bytes, bytes);
            wi_planner_destroy(p);
        }
}

/* As the facts say; without them the list is what it was. */
static void pipelines_are_offered_where_they_run(void)
{
    for (size_t w = 0; w < 2; w++) {
        struct wi_algo_levels levels, other_levels;
        struct wi_planner *p = hosts(&levels, worlds[w].node, worlds[w].nnodes, 4);
        struct wi_planner *none = hosts(&other_levels, worlds[w].node, worlds[w].nnodes, 0);
        for (int coll = 0; coll < WI_NUM_COLLS; coll++) {
            struct wi_plan_query q = {.coll = (enum wi_coll)coll, .bytes = 4 << 20};
            struct wi_plan_candidate *with, *without;
            int n, m, k = 0, npipelines = 0;
            struct wi_plan a, b;
            if (coll == WI_COLL_SEND || coll == WI_COLL_RECV || coll == WI_COLL_SEND_RECV)
                continue;
            CU_ASSERT_FATAL(wi_plan_candidates(p, &q, &with, &n) >= 0 &&
                            wi_plan_candidates(none, &q, &without, &m) >= 0);
            for (int i = 0; i < n; i++) {
                if (with[i].choice.spec.mapped && with[i].choice.needs & WI_ALGO_CODED) {
                    CU_ASSERT(with[i].why_not && strstr(with[i].why_not, "for calls with a codec"));
                    continue;
                }
                if (with[i].choice.spec.mapped) {
                    CU_ASSERT(!with[i].why_not && with[i].predicted_us > 0 && with[i].pipeline.fragment_bytes > 0);
                    npipelines++;
                    continue;
                }
                CU_ASSERT_FATAL(k < m);
                CU_ASSERT_STRING_EQUAL(wi_algo_choice_name(&with[i].choice), wi_algo_choice_name(&without[k].choice));
                CU_ASSERT(with[i].predicted_us == without[k].predicted_us && !with[i].pipeline.fragment_bytes);
                k++;
            }
            CU_ASSERT(k == m && (npipelines > 0) == wi_algo_has_stages((enum wi_coll)coll));
            wi_free(with);
            wi_free(without);
            if (coll != WI_COLL_ALL_REDUCE)
                continue;
            CU_ASSERT_FATAL(wi_plan(p, &q, NULL, &a) >= 0 && wi_plan(none, &q, NULL, &b) >= 0);
            CU_ASSERT(a.spec.mapped && a.pipeline.fragment_bytes > 0 && a.pipeline.window == 4);
            CU_ASSERT(!b.spec.mapped && !b.pipeline.fragment_bytes && a.predicted_us < b.predicted_us);
            CU_ASSERT(wi_plan(p, &q, "node:ring*8/flat", &a) >= 0 && a.pipeline.fragment_bytes == q.bytes / 8);
            CU_ASSERT_EQUAL(wi_plan(none, &q, "node:ring/flat", &b), WEFT_ENOTSUP);
            CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "needs a shared-memory group inside each group"));
        }
        wi_planner_destroy(none);
        wi_planner_destroy(p);
    }
}

/* Also where none is considered: on one node, and with one rank on each. */
static void named_ones_have_a_price(void)
{
    static const int32_t one_node[8] = {0}, alone[8] = {0, 1, 2, 3, 4, 5, 6, 7},
                         two_nodes[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    static const struct {
        const int32_t *node;
        int nnodes;
    } jobs[] = {{one_node, 1}, {alone, 8}, {two_nodes, 2}};
    static const struct {
        enum wi_coll coll;
        const char *spec;
    } named[] = {{WI_COLL_ALL_REDUCE, "node:ring/flat"},     {WI_COLL_ALL_REDUCE, "node:rdouble@leader/flat2"},
                 {WI_COLL_REDUCE, "node:rsgather/flat"},     {WI_COLL_REDUCE, "node:knomial@leader/flat2"},
                 {WI_COLL_BROADCAST, "node:knomial/flat"},   {WI_COLL_ALL_GATHER, "node:ring/flat"},
                 {WI_COLL_REDUCE_SCATTER, "node:ring/flat"}, {WI_COLL_BARRIER, "node:dissem/flat"}};

    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        struct wi_algo_levels levels;
        struct wi_planner *p = hosts(&levels, jobs[j].node, jobs[j].nnodes, 4);
        for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
            struct wi_plan_query q = {.coll = named[i].coll, .bytes = 64 << 10};
            struct wi_plan plan;
            CU_ASSERT_EQUAL(wi_plan(p, &q, named[i].spec, &plan), WEFT_SUCCESS);
            CU_ASSERT(isfinite(plan.predicted_us) && plan.predicted_us >= 0 && plan.spec.mapped);
        }
        wi_planner_destroy(p);
    }
}

static const struct wt_case cases[] = {
    {"the formula is the run", formula_is_the_run},
    {"overlap is what resources allow", overlap_is_what_resources_allow},
    {"links are shared by name", links_are_shared_by_name},
    {"the best is the longest that is about as fast", best_is_the_longest_about_as_fast},
    {"limits are kept", limits_are_kept},
    {"a pipeline of messages is the candidate", pipeline_of_messages_is_the_candidate},
    {"mapped stages are priced by their group", mapped_stages_are_priced_by_their_group},
    {"prices are those of runs", prices_are_those_of_runs},
    {"a slot holds a fragment of each share", shares_fit_a_slot},
    {"pipelines are offered where they run", pipelines_are_offered_where_they_run},
    {"a pipeline that is named has a price", named_ones_have_a_price},
};
WT_UNIT_MAIN("pipeline", cases)
