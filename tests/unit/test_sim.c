/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator against the textbook, against sums by hand, and against itself.
 *
 * Uniform network: a message of b bytes takes α + b/β, reducing b bytes takes b/γ; n: bytes of the vector, P: ranks, k: log2 P. */
#include "base/alloc.h"
#include "tests/unit/sim_common.h"

#define ALPHA 3.0
#define BETA 1250.0
#define GAMMA 4000.0

static void expect_us(const char *what, int nranks, double is, double should)
{
    if (fabs(is - should) <= 1e-9 * should)
        return;
    printf("# %s, P = %d: %.12g us, the formula says %.12g\n", what, nranks, is, should);
    CU_FAIL("time");
}

/* ---- The textbook ---- */

/* Ring all-reduce: 2(P-1) (α + n/(Pβ)) + (P-1) n/(Pγ); its halves. */
static void ring_is_the_textbooks(void)
{
    static const int sizes[] = {2, 3, 4, 5, 8, 16, 33};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int p = sizes[i];
        double block = 64 * 1024, n = p * block;
        double us = sim_uniform(WI_COLL_ALL_REDUCE, "ring", p, (size_t)n, ALPHA, BETA, GAMMA, NULL);
        expect_us("ring", p, us, 2 * (p - 1) * (ALPHA + n / (p * BETA)) + (p - 1) * n / (p * GAMMA));
        us = sim_uniform(WI_COLL_ALL_GATHER, "ring", p, (size_t)block, ALPHA, BETA, GAMMA, NULL);
        expect_us("ring all_gather", p, us, (p - 1) * (ALPHA + block / BETA));
        us = sim_uniform(WI_COLL_REDUCE_SCATTER, "ring", p, (size_t)block, ALPHA, BETA, GAMMA, NULL);
        expect_us("ring reduce_scatter", p, us, (p - 1) * (ALPHA + block / BETA + block / GAMMA));
    }
}

/* Recursive doubling: k (α + n/β + n/γ). Halving and doubling: 2kα + (P-1)/P (2n/β + n/γ). */
static void exchanges_are_the_textbooks(void)
{
    double n = 1 << 20;

    for (int k = 1; k <= 6; k++) {
        int p = 1 << k;
        double part = n * (p - 1) / p;
        double us = sim_uniform(WI_COLL_ALL_REDUCE, "rdouble", p, (size_t)n, ALPHA, BETA, GAMMA, NULL);
        expect_us("rdouble", p, us, k * (ALPHA + n / BETA + n / GAMMA));
        us = sim_uniform(WI_COLL_ALL_REDUCE, "rhalving", p, (size_t)n, ALPHA, BETA, GAMMA, NULL);
        expect_us("rhalving", p, us, 2 * k * ALPHA + 2 * part / BETA + part / GAMMA);
    }
}

static double tree(enum wi_coll coll, int nranks, double n)
{
    struct wi_model *m = NULL;
    double us = NAN;

    CU_ASSERT_FATAL(wi_model_uniform(nranks, ALPHA, BETA, GAMMA, &m) >= 0);
    for (int r = 0; r < nranks; r++) {
        struct wi_algo_args args = {.rank = r, .nranks = nranks, .radix = 2, .in_place = 1};
        CU_ASSERT_FATAL(wi_algo_find(coll, "knomial")->build(&args, &sim_scheds[r]) >= 0);
        sim_nscheds = r + 1;
    }
    struct wi_sim_result *r = sim_run("binomial tree", (size_t)n, m, NULL);
    us = r ? r->finish_us : NAN;
    wi_sim_result_free(r);
    sim_put();
    wi_model_destroy(m);
    return us;
}

/* Binomial tree, up: k (α + n/β + n/γ). Down, a rank with i children posts i messages at once, which share its link, so that all
 * of them take α + in/β: kα + k(k+1)/2 n/β. All-reduce: the sum of both. */
static void trees_are_the_textbooks(void)
{
    double n = 1 << 20;

    for (int k = 1; k <= 6; k++) {
        int p = 1 << k;
        double up = k * (ALPHA + n / BETA + n / GAMMA), down = k * ALPHA + k * (k + 1) / 2 * n / BETA;
        expect_us("tree reduce", p, tree(WI_COLL_REDUCE, p, n), up);
        expect_us("tree broadcast", p, tree(WI_COLL_BROADCAST, p, n), down);
        expect_us("tree all_reduce", p, tree(WI_COLL_ALL_REDUCE, p, n), up + down);
    }
}

/* Pipelined chain of S slices of s bytes: (P-1) (α + s/β) + (S-1) s/β. */
static void slices_fill_the_pipe(void)
{
    struct wi_sim_options o = {.slice_bytes = 64 * 1024};
    double s = (double)o.slice_bytes;

    for (int p = 2; p <= 9; p++) {
        for (int slices = 1; slices <= 16; slices *= 4) {
            double us = sim_uniform(WI_COLL_BROADCAST, "chain", p, (size_t)(slices * s), ALPHA, BETA, GAMMA, &o);
            expect_us("chain", p, us, (p - 1) * (ALPHA + s / BETA) + (slices - 1) * s / BETA);
        }
    }
}

/* ---- Sharing, by hand ---- */

/* Ranks 0, 2, 4 send to 1, 3, 5. Links A and B: 0 uses both, 2 only A, 4 only B. */
static void three_path(const struct wi_model *m, int from, int to, struct wi_model_path *path)
{
    static const uint32_t use[3][2] = {{0, 1}, {0, 0}, {1, 0}};

    (void)m;
    (void)to;
    *path = (struct wi_model_path){.latency = 0, .nresources = from == 0 ? 2 : 1};
    memcpy(path->resources, use[from / 2], sizeof use[0]);
}

static struct wi_sim_result *three_flows(double a, double b, const uint32_t blocks[3], size_t bytes,
                                         const struct wi_sim_options *o)
{
    struct wi_model_resource links[2] = {{"A", a}, {"B", b}};
    struct wi_model_rank ranks[6];
    struct wi_model m = {.nranks = 6, .nresources = 2, .resources = links, .ranks = ranks, .path = three_path};

    for (int r = 0; r < 6; r++) {
        struct wi_sched_spec spec = {.coll = WI_COLL_ALL_TO_ALL, .algo = "three", .rank = r, .nranks = 6};
        struct wi_sched_builder *build;
        ranks[r] = (struct wi_model_rank){.copy_rate = INFINITY, .reduce_rate = INFINITY, .memory = -1, .host = r};
        CU_ASSERT_FATAL(wi_sched_begin(&spec, &build) >= 0);
        if (r % 2)
            wi_sched_recv(build, wi_sched_lane(build, WI_NO_PEER, r - 1, 0), wi_at(WI_DST, 0, blocks[r / 2]));
        else
            wi_sched_send(build, wi_sched_lane(build, r + 1, WI_NO_PEER, 0), wi_at(WI_SRC, 0, blocks[r / 2]));
        CU_ASSERT_FATAL(wi_sched_seal(build, &sim_scheds[r]) >= 0);
        sim_nscheds = r + 1;
    }
    struct wi_sim_result *result = sim_run("three flows", bytes, &m, o);
    sim_put();
    return result;
}

static void sharing_is_max_min(void)
{
    /* A's 10 are halved; 4 gets the 25 of B that 0 cannot use. 100 bytes each. */
    struct wi_sim_result *r = three_flows(10, 30, (const uint32_t[]){2, 2, 2}, 50, NULL);
    CU_ASSERT_FATAL(r != NULL);
    expect_us("A to itself and B", 3, r->rank_us[1], 20);
    expect_us("A alone", 3, r->rank_us[3], 20);
    expect_us("B alone", 3, r->rank_us[5], 4);
    CU_ASSERT_DOUBLE_EQUAL(r->use[0].bytes, 200, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(r->use[1].bytes, 200, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(r->use[1].busy_us, 20, 1e-9);
    wi_sim_result_free(r);
    /* 50 bytes over both, 100 over each: 5, 5, 7 until 10 us; then 10 and 12 for the 50 and 30 that are left. */
    r = three_flows(10, 12, (const uint32_t[]){1, 2, 2}, 50, NULL);
    CU_ASSERT_FATAL(r != NULL);
    expect_us("ends first", 3, r->rank_us[1], 10);
    expect_us("gets all of A", 3, r->rank_us[3], 15);
    expect_us("gets all of B", 3, r->rank_us[5], 12.5);
    wi_sim_result_free(r);
    /* Rank 2 begins 5 us later: 0 has had 10 of A since then, as B gives it 12/2 = 6. 6, -, 6; at 5 us 5, 5, 7. */
    double start[6] = {0, 0, 5, 0, 0, 0};
    struct wi_sim_options o = {.start_us = start};
    r = three_flows(10, 12, (const uint32_t[]){1, 2, 2}, 50, &o);
    CU_ASSERT_FATAL(r != NULL);
    expect_us("30 in 5 us, then 20 at 5", 3, r->rank_us[1], 9);
    expect_us("20 in 4 us, then 80 at 10", 3, r->rank_us[3], 17);
    expect_us("30 at 6, 28 at 7, 42 at 12", 3, r->rank_us[5], 12.5);
    wi_sim_result_free(r);
}

/* ---- Faults ---- */

static void slow_parts_slow_down(void)
{
    double n = 1 << 16, start[2] = {0, 100}, slow[2] = {1, 3}, half[4] = {0.5, 1, 1, 1};
    struct wi_sim_options late = {.start_us = start}, lame = {.core_factor = slow}, narrow = {.link_factor = half};
    double us = sim_uniform(WI_COLL_ALL_REDUCE, "rdouble", 2, (size_t)n, ALPHA, BETA, GAMMA, &late);

    expect_us("a rank that starts late", 2, us, 100 + ALPHA + n / BETA + n / GAMMA);
    us = sim_uniform(WI_COLL_ALL_REDUCE, "rdouble", 2, (size_t)n, ALPHA, BETA, GAMMA, &lame);
    expect_us("a slow core", 2, us, ALPHA + n / BETA + 3 * n / GAMMA);
    us = sim_uniform(WI_COLL_ALL_REDUCE, "rdouble", 2, (size_t)n, ALPHA, BETA, GAMMA, &narrow);
    expect_us("a degraded link", 2, us, ALPHA + 2 * n / BETA + n / GAMMA);
}

static void expect_failure(struct wi_sim_result *r, const char *const *words)
{
    CU_ASSERT_PTR_NULL(r);
    for (; *words; words++) {
        if (strstr(wi_fail_text(), *words))
            continue;
        printf("# \"%s\" lacks \"%s\"\n", wi_fail_text(), *words);
        CU_FAIL("failure text");
    }
}

static void a_failed_link_is_named(void)
{
    double factor[8] = {1, 1, 0, 1, 1, 1, 1, 1}; /* rank1 out */
    struct wi_sim_options o = {.link_factor = factor};
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(4, ALPHA, BETA, GAMMA, &m) >= 0);
    CU_ASSERT_FATAL(!sim_build(wi_algo_find(WI_COLL_BROADCAST, "chain"), 4, 0, 0));
    expect_failure(sim_try(4096, m, &o), (const char *const[]){"rank1 out", "1, 2, 3 cannot finish", NULL});
    factor[2] = -1;
    expect_failure(sim_try(4096, m, &o), (const char *const[]){"factor -1 of rank1 out", NULL});
    sim_put();
    wi_model_destroy(m);
}

/* Both ranks receive first. */
static void a_deadlock_is_named(void)
{
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(2, ALPHA, BETA, GAMMA, &m) >= 0);
    for (int r = 0; r < 2; r++) {
        struct wi_sched_spec spec = {.coll = WI_COLL_ALL_TO_ALL, .algo = "stuck", .rank = r, .nranks = 2};
        struct wi_sched_builder *b;
        CU_ASSERT_FATAL(wi_sched_begin(&spec, &b) >= 0);
        uint32_t lane = wi_sched_lane(b, 1 - r, 1 - r, 0);
        wi_sched_recv(b, lane, wi_at(WI_DST, 0, 1));
        wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
        CU_ASSERT_FATAL(wi_sched_seal(b, &sim_scheds[r]) >= 0);
        sim_nscheds = r + 1;
    }
    expect_failure(sim_try(64, m, NULL), (const char *const[]){"deadlock", "0, 1 cannot finish", "rank 0/2",
                                                               "lane 0 step 0", "from rank 1", NULL});
    sim_put();
    wi_model_destroy(m);
}

static void wrong_arguments_are_named(void)
{
    struct wi_model *m = NULL;

    CU_ASSERT_FATAL(wi_model_uniform(2, ALPHA, BETA, GAMMA, &m) >= 0);
    CU_ASSERT_FATAL(!sim_build(wi_algo_find(WI_COLL_BROADCAST, "chain"), 2, 0, 0));
    struct wi_sched *second = sim_scheds[1];
    sim_scheds[1] = sim_scheds[0];
    expect_failure(sim_try(64, m, NULL), (const char *const[]){"schedule 1 of 2 is of rank 0", NULL});
    sim_scheds[1] = second;
    struct wi_sim_options odd = {.elem_bytes = 8}, fine = {.slice_bytes = 64};
    expect_failure(sim_try(12, m, &odd), (const char *const[]){"12 bytes", "elements of 8", NULL});
    expect_failure(sim_try((size_t)1 << 40, m, &fine), (const char *const[]){"larger slices", NULL});
    sim_put();
    CU_ASSERT_FATAL(!sim_build(wi_algo_find(WI_COLL_BROADCAST, "chain"), 3, 0, 0));
    expect_failure(sim_try(64, m, NULL), (const char *const[]){"3 ranks with a model of 2", NULL});
    sim_put();
    wi_model_destroy(m);
}

/* ---- Mapped ---- */

static void no_path(const struct wi_model *m, int from, int to, struct wi_model_path *path)
{
    (void)m;
    (void)from;
    (void)to;
    memset(path, 0, sizeof *path);
}

/* Flat all-reduce: copy in n, signal and wait, reduce (P-1) n. With one memory of rate M: P times the bytes through it. */
static void mapped_schedules_run(void)
{
    struct wi_model_resource memory = {"memory", 100};
    struct wi_model_rank ranks[4];
    struct wi_model m = {
        .nranks = 4, .mapped_us = 0.5, .nresources = 1, .resources = &memory, .ranks = ranks, .path = no_path};
    double n = 16384;

    CU_ASSERT_FATAL(!sim_build(wi_algo_find(WI_COLL_ALL_REDUCE, "flat"), 4, 0, 0));
    for (int shared = 0; shared < 2; shared++) {
        for (int r = 0; r < 4; r++)
            ranks[r] = (struct wi_model_rank){.copy_rate = 1000, .reduce_rate = 500, .memory = shared ? 0 : -1};
        struct wi_sim_result *r = sim_run("flat", (size_t)n, &m, NULL);
        CU_ASSERT_FATAL(r != NULL);
        expect_us("flat", 4, r->finish_us, shared ? 4 * n / 100 + 0.5 + 12 * n / 100 : n / 1000 + 0.5 + 3 * n / 500);
        CU_ASSERT_DOUBLE_EQUAL(r->use[0].bytes, shared ? 16 * n : 0, 1e-6);
        wi_sim_result_free(r);
    }
    sim_put();
}

/* ---- Every algorithm ---- */

static int has_root(enum wi_coll coll)
{
    return coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_GATHER || coll == WI_COLL_SCATTER;
}

/* Each span begins when what it says was its cause ended. */
static void check_causes(const struct wi_algo *a, const struct wi_sim_result *r)
{
    for (uint32_t i = 0; i < r->nspans; i++) {
        const struct wi_sim_span *s = &r->spans[i], *c;
        if (s->cause == WI_SIM_NONE) {
            CU_ASSERT(s->start == 0);
            continue;
        }
        c = &r->spans[s->cause];
        if (fabs(c->end - s->start) > 1e-6 && fabs(c->drained - s->start) > 1e-6) {
            printf("# %s %s: span %u (%s) begins at %g, its cause %u (%s) ends at %g\n", wi_coll_name(a->coll), a->name,
                   i, wi_sim_span_name(s->kind), s->start, s->cause, wi_sim_span_name(c->kind), c->end);
            CU_FAIL("cause");
            return;
        }
    }
}

static void check_critical(const struct wi_sim_result *r)
{
    uint32_t path[1], n = wi_sim_critical(r, path, 1);

    CU_ASSERT((n > 0) == (r->finish_us > 0));
    if (n)
        CU_ASSERT(fabs(r->spans[path[0]].end - r->finish_us) < 1e-6 ||
                  fabs(r->spans[path[0]].drained - r->finish_us) < 1e-6);
}

/* What a rank sends passes its link, and what all send is received. Only where blocks are equally long. */
static void check_conservation(const struct wi_algo *a, const struct wi_sim_result *r, size_t bytes)
{
    double out = 0, in = 0, block = (double)bytes / sim_scheds[0]->nblocks;

    for (int i = 0; i < sim_nscheds; i++) {
        struct wi_sched_stats stats;
        wi_sched_stats(sim_scheds[i], &stats);
        double should = a->coll == WI_COLL_BARRIER ? 0 : (double)stats.blocks_sent * block;
        if (fabs(r->use[2 * i].bytes - should) > 1e-6 * should) {
            printf("# %s %s rank %d: %g bytes left, the schedule sends %g\n", wi_coll_name(a->coll), a->name, i,
                   r->use[2 * i].bytes, should);
            CU_FAIL("bytes");
        }
        out += r->use[2 * i].bytes;
        in += r->use[2 * i + 1].bytes;
    }
    CU_ASSERT_DOUBLE_EQUAL(out, in, 1e-6 * out);
}

static int same_spans(const struct wi_sim_result *a, const struct wi_sim_result *b)
{
    for (uint32_t i = 0; i < a->nspans; i++) {
        const struct wi_sim_span *x = &a->spans[i], *y = &b->spans[i];
        if (x->start != y->start || x->end != y->end || x->rank != y->rank || x->kind != y->kind ||
            x->cause != y->cause)
            return 0;
    }
    return 1;
}

static void run_twice(const struct wi_algo *a, const struct wi_model *m, size_t bytes, size_t slice)
{
    struct wi_sim_options o = {.slice_bytes = slice, .record = 1};
    struct wi_sim_result *r = sim_run(a->name, bytes, m, &o), *again = sim_run(a->name, bytes, m, &o);

    if (r && again) {
        check_causes(a, r);
        check_critical(r);
        if (bytes % ((size_t)sim_scheds[0]->nblocks * 64) == 0 && !sim_scheds[0]->mapped)
            check_conservation(a, r, bytes);
        CU_ASSERT(r->finish_us == again->finish_us && r->nevents == again->nevents && r->nspans == again->nspans);
        CU_ASSERT(memcmp(r->rank_us, again->rank_us, (size_t)r->nranks * sizeof *r->rank_us) == 0);
        CU_ASSERT(same_spans(r, again));
    }
    wi_sim_result_free(r);
    wi_sim_result_free(again);
}

static void every_algorithm_runs(void)
{
    static const struct {
        size_t bytes, slice;
    } sizes[] = {{0, 0}, {4, 0}, {40320 * 64, 0}, {40320 * 64, 65536}, {100004, 4096}};

    for (int p = 1; p <= 9; p++) {
        struct wi_model *m = NULL;
        CU_ASSERT_FATAL(wi_model_uniform(p, ALPHA, BETA, GAMMA, &m) >= 0);
        for (size_t i = 0; wi_algos[i]; i++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                if (!sim_suits(wi_algos[i], p, in_place) ||
                    sim_build(wi_algos[i], p, has_root(wi_algos[i]->coll) ? p / 2 : 0, in_place))
                    continue;
                for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                    run_twice(wi_algos[i], m, sizes[k].bytes, sizes[k].slice);
                sim_put();
            }
        }
        wi_model_destroy(m);
    }
}

/* 1,024 ranks by events. The formula holds for any number of ranks that is a power of two. */
static void a_thousand_ranks(void)
{
    double n = 16 << 20, part = n * 1023 / 1024;
    double us = sim_uniform(WI_COLL_ALL_REDUCE, "rhalving", 1024, (size_t)n, ALPHA, BETA, GAMMA, NULL);

    expect_us("rhalving", 1024, us, 20 * ALPHA + 2 * part / BETA + part / GAMMA);
}

static void no_memory_is_reported(void)
{
    struct wi_sim_options o = {.slice_bytes = 4096, .record = 1};
    struct wi_model *m = NULL;
    struct wi_sim_result *r = NULL;
    long n = 1;

    CU_ASSERT_FATAL(wi_model_uniform(4, ALPHA, BETA, GAMMA, &m) >= 0);
    CU_ASSERT_FATAL(!sim_build(wi_algo_find(WI_COLL_ALL_REDUCE, "dbtree"), 4, 0, 0));
    for (; n < 100 && !r; n++) {
        wi_alloc_fail_nth(n);
        r = sim_try(65536, m, &o);
        wi_alloc_fail_nth(0);
        CU_ASSERT(r || strstr(wi_fail_text(), "no memory"));
    }
    CU_ASSERT(r && n > 10);
    wi_sim_result_free(r);
    sim_put();
    wi_model_destroy(m);
}

static const struct wt_case cases[] = {
    {"the ring is the textbook's", ring_is_the_textbooks},
    {"exchanges are the textbook's", exchanges_are_the_textbooks},
    {"trees are the textbook's", trees_are_the_textbooks},
    {"slices fill the pipe", slices_fill_the_pipe},
    {"sharing is max-min fair", sharing_is_max_min},
    {"slow parts slow down", slow_parts_slow_down},
    {"a failed link is named", a_failed_link_is_named},
    {"a deadlock is named", a_deadlock_is_named},
    {"wrong arguments are named", wrong_arguments_are_named},
    {"mapped schedules run", mapped_schedules_run},
    {"every algorithm runs", every_algorithm_runs},
    {"a thousand ranks", a_thousand_ranks},
    {"no memory is reported", no_memory_is_reported},
};
WT_UNIT_MAIN("sim", cases)
