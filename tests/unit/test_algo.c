/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm: the checker on all its schedules, its cost against what the schedules do, text round trip, names.
 *
 * By default P = 1..24 and the powers of two and their neighbours up to 65, with few roots past 16; WEFT_TEST_LONG=1
 * runs every P from 1 to 66. */
#include <math.h>

#include "algo/list.h"
#include "algo/util.h"
#include "sched/internal.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tests/unit/unit.h"

#define MAX_RANKS 66

static int is_long(void)
{
    const char *text = getenv("WEFT_TEST_LONG");
    return text && strcmp(text, "0") != 0;
}

static int skipped_size(int nranks)
{
    if (is_long() || nranks <= 24)
        return 0;
    return nranks != 31 && nranks != 32 && nranks != 33 && nranks != 48 && nranks != 63 && nranks != 64 && nranks != 65;
}

static int has_root(enum wi_coll coll)
{
    return coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_GATHER || coll == WI_COLL_SCATTER;
}

static int suits(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    if (args->in_place && (algo->needs & WI_ALGO_NO_IN_PLACE))
        return 0;
    return !wi_algo_ranks_needed(algo->needs, args->nranks);
}

static const char *about(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    static char text[512];
    snprintf(text, sizeof text, "%s/%s P=%d root=%d radix=%d%s: %s", wi_coll_name(algo->coll), algo->name, args->nranks,
             args->root, args->radix, args->in_place ? " in place" : "", wi_fail_text());
    return text;
}

static void fail(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    CU_assertImplementation(CU_FALSE, __LINE__, about(algo, args), __FILE__, "", CU_FALSE);
}

static void put_all(struct wi_sched **scheds, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        wi_sched_put(scheds[r]);
        scheds[r] = NULL;
    }
}

static int build_all(const struct wi_algo *algo, struct wi_algo_args args, struct wi_sched **scheds)
{
    memset(scheds, 0, (size_t)args.nranks * sizeof *scheds);
    for (args.rank = 0; args.rank < args.nranks; args.rank++) {
        if (algo->build(&args, &scheds[args.rank]) != WEFT_SUCCESS) {
            fail(algo, &args);
            put_all(scheds, args.nranks);
            return -1;
        }
    }
    return 0;
}

static void check_one(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    struct wi_sched *scheds[MAX_RANKS];
    int promised =
        (algo->needs & WI_ALGO_COMMUTATIVE ? 0 : WI_SCHED_ORDERED) | (algo->needs & WI_ALGO_EXACT ? 0 : WI_SCHED_ALIKE);

    if (!suits(algo, args) || build_all(algo, *args, scheds))
        return;
    wi_fail_clear();
    if (wi_sched_check((const struct wi_sched *const *)scheds, args->nranks, promised) != WEFT_SUCCESS)
        fail(algo, args);
    put_all(scheds, args->nranks);
}

/* Calls fn for every root worth a try, in place and not. */
static void each_form(const struct wi_algo *algo, int nranks,
                      void (*fn)(const struct wi_algo *, const struct wi_algo_args *))
{
    for (int root = 0; root < nranks; root++) {
        if (root > 0 && !has_root(algo->coll))
            break;
        if (nranks > 16 && root != 1 && root != 0 && root != nranks / 2 && root != nranks - 1)
            continue;
        for (int in_place = 0; in_place < 2; in_place++)
            fn(algo, &(struct wi_algo_args){0, nranks, root, in_place, 0, NULL, NULL});
    }
}

static void schedules_are_right(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        unsigned before = CU_get_number_of_failure_records();
        for (int n = 1; n <= MAX_RANKS; n++) {
            if (!skipped_size(n) && CU_get_number_of_failure_records() < before + 3)
                each_form(wi_algos[i], n, check_one);
        }
    }
}

/* ---- Costs ----
 * Definitions, for one slice: `sent` counts the bytes of SEND halves of a rank; `reduced` what reductions read beyond
 * the first operand; `copied` what COPY steps write; each of the rank that does most. `steps` is the larger of two
 * chains: messages (or a signal and the wait for it) one after the other through all ranks, and receives, sends or
 * separate waits one after the other in one rank (steps_critical of wi_sched_stats). */
#define COST_RANKS 16
#define MAX_QUEUE 64

struct flow {
    struct wi_sched **scheds;
    int nranks;
    unsigned *depth[COST_RANKS]; /* per step: messages on the way to its end */
    unsigned char *done[COST_RANKS];
    unsigned queue[COST_RANKS][COST_RANKS][2][MAX_QUEUE]; /* from, to, chan */
    unsigned head[COST_RANKS][COST_RANKS][2], tail[COST_RANKS][COST_RANKS][2];
    unsigned deepest;
};

static int sends(unsigned kind)
{
    return kind == WI_STEP_SEND || kind == WI_STEP_RECV_SEND || kind == WI_STEP_RECV_REDUCE_SEND;
}

static int receives(unsigned kind)
{
    return kind >= WI_STEP_RECV && kind <= WI_STEP_RECV_REDUCE_SEND;
}

static const struct wi_step *find_signal(const struct wi_sched *sched, unsigned lane, unsigned ordinal)
{
    for (uint32_t k = 0; k < sched->lanes[lane].nsteps; k++) {
        const struct wi_step *step = &sched->steps[sched->lanes[lane].first_step + k];
        if (step->kind == WI_STEP_SIGNAL && step->ordinal == ordinal)
            return step;
    }
    return NULL;
}

static unsigned larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Depth of what the step waits for, or -1 if that has not happened yet. */
static int ready(struct flow *f, int rank, const struct wi_lane *lane, const struct wi_step *step)
{
    const struct wi_sched *sched = f->scheds[rank];
    unsigned depth = 0;

    if (step->dep_lane >= 0) {
        uint32_t dep = sched->lanes[step->dep_lane].first_step + step->dep_step;
        if (!f->done[rank][dep])
            return -1;
        depth = f->depth[rank][dep];
    }
    if (step->kind == WI_STEP_WAIT) {
        const struct wi_sched *other = f->scheds[step->peer];
        const struct wi_step *signal = find_signal(other, step->lane, step->ordinal);
        CU_ASSERT_PTR_NOT_NULL_FATAL(signal);
        if (!f->done[step->peer][signal - other->steps])
            return -1;
        depth = larger(depth, f->depth[step->peer][signal - other->steps] + 1);
    }
    if (receives(step->kind)) {
        int from = lane->recv_peer;
        if (f->head[from][rank][lane->chan] == f->tail[from][rank][lane->chan])
            return -1;
        depth = larger(depth, f->queue[from][rank][lane->chan][f->head[from][rank][lane->chan]++] + 1);
    }
    return (int)depth;
}

static int run_step(struct flow *f, int rank, const struct wi_lane *lane, uint32_t index)
{
    const struct wi_step *step = &f->scheds[rank]->steps[index];
    int waited = ready(f, rank, lane, step);

    if (waited < 0)
        return 0;
    unsigned depth = (unsigned)waited;
    if (index > lane->first_step)
        depth = larger(depth, f->depth[rank][index - 1]);
    f->depth[rank][index] = depth;
    f->done[rank][index] = 1;
    f->deepest = larger(f->deepest, depth);
    if (sends(step->kind)) {
        unsigned *tail = &f->tail[rank][lane->send_peer][lane->chan];
        CU_ASSERT_FATAL(*tail < MAX_QUEUE);
        f->queue[rank][lane->send_peer][lane->chan][(*tail)++] = depth;
    }
    return 1;
}

/* Steps of all ranks that still could run in this round. */
static int run_round(struct flow *f)
{
    int ran = 0;
    for (int r = 0; r < f->nranks; r++) {
        for (uint32_t i = 0; i < f->scheds[r]->nlanes; i++) {
            const struct wi_lane *lane = &f->scheds[r]->lanes[i];
            for (uint32_t k = lane->first_step; k < lane->first_step + lane->nsteps; k++) {
                if (f->done[r][k])
                    continue;
                if (!run_step(f, r, lane, k))
                    break;
                ran = 1;
            }
        }
    }
    return ran;
}

static unsigned longest_path(struct wi_sched **scheds, int nranks)
{
    static struct flow f;
    memset(&f, 0, sizeof f);
    f.scheds = scheds;
    f.nranks = nranks;
    for (int r = 0; r < nranks; r++) {
        f.depth[r] = calloc(scheds[r]->nsteps + 1, sizeof **f.depth);
        f.done[r] = calloc(scheds[r]->nsteps + 1, 1);
    }
    while (run_round(&f))
        ;
    for (int r = 0; r < nranks; r++) {
        for (uint32_t k = 0; k < scheds[r]->nsteps; k++)
            CU_ASSERT(f.done[r][k]);
        free(f.depth[r]);
        free(f.done[r]);
    }
    return f.deepest;
}

static void expect_near(const struct wi_algo *algo, const struct wi_algo_args *args, const char *what, double said,
                        double is)
{
    if (fabs(said - is) <= 0.05 * is + 1e-9)
        return;
    wi_fail(WEFT_EINVAL, "cost says %s %g, the schedules do %g", what, said, is);
    fail(algo, args);
}

static void compare_cost(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    struct wi_sched *scheds[MAX_RANKS];
    struct wi_sched_stats most = {0}, one;
    struct wi_algo_coding coding = {0};
    struct wi_algo_cost c;

    if (!suits(algo, args) || build_all(algo, *args, scheds))
        return;
    for (int r = 0; r < args->nranks; r++) {
        wi_sched_stats(scheds[r], &one);
        most.steps_critical = larger(most.steps_critical, one.steps_critical);
        most.blocks_sent = larger(most.blocks_sent, one.blocks_sent);
        most.blocks_reduced = larger(most.blocks_reduced, one.blocks_reduced);
        most.blocks_copied = larger(most.blocks_copied, one.blocks_copied);
        most.images_sent = larger(most.images_sent, one.images_sent);
        most.blocks_encoded = larger(most.blocks_encoded, one.blocks_encoded);
        most.blocks_decoded = larger(most.blocks_decoded, one.blocks_decoded);
    }
    double bytes = 720720, block = algo->coll == WI_COLL_BARRIER ? 0 : bytes / scheds[0]->nblocks;
    algo->cost(args, bytes, &c);
    expect_near(algo, args, "steps", c.steps, larger(most.steps_critical, longest_path(scheds, args->nranks)));
    expect_near(algo, args, "sent", c.sent, most.blocks_sent * block);
    expect_near(algo, args, "reduced", c.reduced, most.blocks_reduced * block);
    expect_near(algo, args, "copied", c.copied, most.blocks_copied * block);
    expect_near(algo, args, "sent in images", algo->coding ? c.sent : 0, most.images_sent * block);
    if (algo->coding)
        coding = algo->coding(args, bytes);
    expect_near(algo, args, "encoded", coding.encoded, most.blocks_encoded * block);
    expect_near(algo, args, "decoded", coding.decoded, most.blocks_decoded * block);
    put_all(scheds, args->nranks);
}

static void costs_are_right(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        for (int n = 1; n <= COST_RANKS; n++)
            each_form(wi_algos[i], n, compare_cost);
    }
}

/* ---- Radix, large communicators, text ---- */
static void any_radix_is_right(void)
{
    static const int radices[] = {2, 3, 5, 8, 64, 1 << 30};

    for (size_t i = 0; wi_algos[i]; i++) {
        if (strcmp(wi_algos[i]->name, "knomial") != 0)
            continue;
        for (size_t k = 0; k < sizeof radices / sizeof *radices; k++) {
            for (int n = 1; n <= 28; n++) {
                struct wi_algo_args args = {0,    n,   has_root(wi_algos[i]->coll) ? n / 3 : 0, n % 2, radices[k],
                                            NULL, NULL};
                check_one(wi_algos[i], &args);
                if (n <= COST_RANKS)
                    compare_cost(wi_algos[i], &args);
            }
        }
    }
}

/* The building of a few ranks of a communicator too large to check as a whole. */
static void large_communicators_build(void)
{
    static const int ranks[] = {0, 1, 499, 500, 998, 999};

    for (size_t i = 0; wi_algos[i]; i++) {
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
            int nranks = wi_algos[i]->needs & WI_ALGO_POW2_RANKS ? 1024 : 1000;
            struct wi_algo_args args = {ranks[k], nranks, has_root(wi_algos[i]->coll) ? 500 : 0, 0, 0, NULL, NULL};
            struct wi_sched *sched;
            wi_fail_clear();
            if (wi_algos[i]->build(&args, &sched) != WEFT_SUCCESS) {
                fail(wi_algos[i], &args);
                continue;
            }
            CU_ASSERT_EQUAL(sched->rank, ranks[k]);
            CU_ASSERT_EQUAL(sched->nranks, nranks);
            wi_sched_put(sched);
        }
    }
}

static char *print(const struct wi_sched *sched, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_EQUAL(wi_sched_print(sched, out), WEFT_SUCCESS);
    fclose(out);
    return text;
}

static void round_trip(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    struct wi_sched *scheds[MAX_RANKS], *again;

    if (!suits(algo, args) || build_all(algo, *args, scheds))
        return;
    for (int r = 0; r < args->nranks; r++) {
        size_t bytes, bytes2;
        char *text = print(scheds[r], &bytes);
        if (wi_sched_parse(text, bytes, &again) == WEFT_SUCCESS) {
            char *text2 = print(again, &bytes2);
            CU_ASSERT(bytes == bytes2 && memcmp(text, text2, bytes) == 0);
            CU_ASSERT_EQUAL(scheds[r]->ll, again->ll);
            CU_ASSERT_EQUAL(scheds[r]->mapped, again->mapped);
            free(text2);
            wi_sched_put(again);
        } else {
            fail(algo, args);
        }
        free(text);
    }
    put_all(scheds, args->nranks);
}

static void text_comes_back(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        each_form(wi_algos[i], 2, round_trip);
        each_form(wi_algos[i], 5, round_trip);
        each_form(wi_algos[i], 6, round_trip);
    }
}

/* ---- What the flags promise ---- */
static int is_reduction(enum wi_coll coll)
{
    return coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_REDUCE_SCATTER ||
           coll == WI_COLL_SCAN || coll == WI_COLL_EXSCAN;
}

static void compare_flags(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    struct wi_sched *scheds[MAX_RANKS];
    int peer_src = 0, peer_dst = 0, peer_write = 0, peer_put = 0;

    if (args->nranks < 2 || !suits(algo, args) || build_all(algo, *args, scheds))
        return;
    for (int r = 0; r < args->nranks; r++) {
        const struct wi_sched *s = scheds[r];
        CU_ASSERT_EQUAL(s->mapped, (algo->needs & WI_ALGO_MAPPED) != 0);
        CU_ASSERT_EQUAL(s->ll, scheds[0]->ll);
        CU_ASSERT_EQUAL(strcmp(s->algo, algo->name), 0);
        CU_ASSERT_EQUAL(s->coll, algo->coll);
        peer_src |= s->peer_src;
        peer_dst |= s->peer_dst;
        for (uint32_t i = 0; i < s->nsteps; i++) {
            int plain = s->steps[i].kind == WI_STEP_COPY && s->steps[i].ndst == 1;
            for (unsigned k = 0; k < s->steps[i].ndst; k++)
                *(plain ? &peer_put : &peer_write) |= s->regions[s->steps[i].dst + k].rank != WI_SELF;
            for (unsigned k = 0; k < s->steps[i].nsrc && s->steps[i].kind == WI_STEP_REDUCE; k++) {
                const struct wi_region *r2 = &s->regions[s->steps[i].src + k];
                peer_write |= r2->rank != WI_SELF && r2->buf != WI_TMP;
            }
        }
    }
    CU_ASSERT_EQUAL(peer_src || peer_dst, (algo->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) != 0);
    CU_ASSERT_EQUAL(peer_write, (algo->needs & WI_ALGO_PEER_MEM) != 0);
    CU_ASSERT(!peer_put || algo->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_PUT));
    CU_ASSERT(peer_put || !(algo->needs & WI_ALGO_PEER_PUT) || args->nranks > 8);
    /* The one-shot family may run over ll lines; a barrier has no data whose arrival could stand for a signal. */
    CU_ASSERT_EQUAL(scheds[0]->ll, strcmp(algo->name, "flat") == 0 && algo->coll != WI_COLL_BARRIER);
    put_all(scheds, args->nranks);
}

static void flags_are_right(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        for (int n = 2; n <= 9; n++)
            each_form(wi_algos[i], n, compare_flags);
    }
}

static void mixed_schedules_are_refused(void)
{
    struct wi_sched *ring[MAX_RANKS], *doubling[MAX_RANKS];
    struct wi_algo_args args = {0, 4, 0, 0, 0, NULL, NULL};

    CU_ASSERT_EQUAL_FATAL(build_all(&wi_allreduce_ring, args, ring), 0);
    CU_ASSERT_EQUAL_FATAL(build_all(&wi_allreduce_rdouble, args, doubling), 0);
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)ring, 4, 0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)ring, 4, 1), WEFT_EINVAL);
    struct wi_sched *kept = ring[2];
    ring[2] = doubling[2];
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)ring, 4, 0), WEFT_EINVAL);
    ring[2] = kept;
    put_all(ring, 4);
    put_all(doubling, 4);
}

/* Exchange operands `a` and `b` of the first step of a rank that has so many. */
static int swap_operands(struct wi_sched *s, unsigned a, unsigned b)
{
    for (uint32_t i = 0; i < s->nsteps; i++) {
        struct wi_region *src = (struct wi_region *)&s->regions[s->steps[i].src], kept = src[a];
        if (s->steps[i].kind != WI_STEP_REDUCE || s->steps[i].nsrc <= b)
            continue;
        src[a] = src[b];
        src[b] = kept;
        return 1;
    }
    return 0;
}

/* The sum of three in one rank, with two operands exchanged: a + b is b + a, but (a + b) + c is not (a + c) + b. */
static void check_swapped(unsigned a, unsigned b, weft_status expected)
{
    struct wi_sched *s[MAX_RANKS];
    struct wi_algo_args args = {.nranks = 3};

    CU_ASSERT_EQUAL_FATAL(build_all(&wi_allreduce_flat, args, s), 0);
    CU_ASSERT(swap_operands(s[1], a, b));
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)s, 3, 0), WEFT_SUCCESS);
    wi_fail_clear();
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)s, 3, WI_SCHED_ALIKE), expected);
    CU_ASSERT(expected >= 0 || strstr(wi_fail_text(), "of rank 1 groups the operands otherwise than that of rank 0"));
    put_all(s, 3);
}

static void other_groupings_are_refused(void)
{
    struct wi_sched *s[MAX_RANKS];
    struct wi_algo_args args = {.nranks = 8};

    check_swapped(0, 1, WEFT_SUCCESS);
    check_swapped(1, 2, WEFT_EINVAL);
    check_swapped(0, 2, WEFT_EINVAL);
    CU_ASSERT_EQUAL_FATAL(build_all(&wi_allreduce_swing_short, args, s), 0);
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)s, 8, 0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)s, 8, WI_SCHED_ALIKE), WEFT_EINVAL);
    CU_ASSERT(wi_allreduce_swing_short.needs & WI_ALGO_EXACT);
    put_all(s, 8);
}

/* ---- Registry ---- */
static const enum wi_coll v_forms[][2] = {
    {WI_COLL_ALL_GATHER_V, WI_COLL_ALL_GATHER}, {WI_COLL_REDUCE_SCATTER_V, WI_COLL_REDUCE_SCATTER},
    {WI_COLL_ALL_TO_ALL_V, WI_COLL_ALL_TO_ALL}, {WI_COLL_GATHER_V, WI_COLL_GATHER},
    {WI_COLL_SCATTER_V, WI_COLL_SCATTER},
};

static void names_are_found(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        CU_ASSERT_PTR_EQUAL(wi_algo_find(wi_algos[i]->coll, wi_algos[i]->name), wi_algos[i]);
        CU_ASSERT(wi_algos[i]->summary && strlen(wi_algos[i]->summary) > 8 && strlen(wi_algos[i]->summary) < 90);
        for (size_t k = 0; k < sizeof v_forms / sizeof *v_forms; k++) {
            if (v_forms[k][1] == wi_algos[i]->coll)
                CU_ASSERT_PTR_EQUAL(wi_algo_find(v_forms[k][0], wi_algos[i]->name),
                                    wi_algos[i]->needs & WI_ALGO_UNIFORM ? NULL : wi_algos[i]);
        }
    }
    char text[512];
    CU_ASSERT_PTR_NULL(strstr(wi_algo_suggest(WI_COLL_ALL_GATHER_V, "direct", text, sizeof text), "direct"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_algo_suggest(WI_COLL_ALL_GATHER, "dirct", text, sizeof text), "mean \"direct\"?"));
    CU_ASSERT_PTR_NULL(wi_algo_find(WI_COLL_ALL_REDUCE, "rin"));
    CU_ASSERT_PTR_NULL(wi_algo_find(WI_COLL_ALL_REDUCE, ""));
    CU_ASSERT_PTR_NULL(wi_algo_find(WI_COLL_ALL_REDUCE, NULL));
    CU_ASSERT_PTR_NULL(wi_algo_find(WI_COLL_BARRIER, "ring"));
    CU_ASSERT_PTR_NULL(wi_algo_find(WI_COLL_SEND, "linear"));
}

/* Is there one that runs over any transport with any number of ranks (in place unless the collective cannot)? */
static int has_general(enum wi_coll coll, unsigned refused)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        if (wi_algo_find(coll, wi_algos[i]->name) == wi_algos[i] &&
            !(wi_algos[i]->needs & (refused | WI_ALGO_MAPPED | WI_ALGO_EVEN_RANKS | WI_ALGO_POW2_RANKS)))
            return 1;
    }
    return 0;
}

static void nothing_is_missing(void)
{
    for (int coll = 0; coll <= WI_COLL_BARRIER; coll++) {
        int all_to_all = coll == WI_COLL_ALL_TO_ALL || coll == WI_COLL_ALL_TO_ALL_V;
        CU_ASSERT(has_general((enum wi_coll)coll, WI_ALGO_COMMUTATIVE | (all_to_all ? 0 : WI_ALGO_NO_IN_PLACE)));
    }
    for (size_t i = 0; wi_algos[i]; i++)
        CU_ASSERT(is_reduction(wi_algos[i]->coll) || !(wi_algos[i]->needs & WI_ALGO_COMMUTATIVE));
}

/* ---- Bad input, no memory ---- */
static void expect_refusal(const struct wi_algo *algo, struct wi_algo_args args, weft_status status, const char *text)
{
    struct wi_sched *sched = NULL;
    wi_fail_clear();
    if (algo->build(&args, &sched) == status && strstr(wi_fail_text(), text) && !sched)
        return;
    fail(algo, &args);
    wi_sched_put(sched);
}

static void bad_arguments_are_named(void)
{
    const struct wi_algo *ring = &wi_allreduce_ring;
    expect_refusal(ring, (struct wi_algo_args){4, 4, 0, 0, 0, NULL, NULL}, WEFT_EINVAL, "rank 4 of 4");
    expect_refusal(ring, (struct wi_algo_args){-1, 4, 0, 0, 0, NULL, NULL}, WEFT_EINVAL, "rank -1");
    expect_refusal(ring, (struct wi_algo_args){0, 0, 0, 0, 0, NULL, NULL}, WEFT_EINVAL, "of 0 ranks");
    expect_refusal(&wi_reduce_knomial, (struct wi_algo_args){0, 4, 4, 0, 0, NULL, NULL}, WEFT_EINVAL, "root 4");
    expect_refusal(&wi_reduce_knomial, (struct wi_algo_args){0, 4, 0, 0, 1, NULL, NULL}, WEFT_EINVAL, "radix 1");
    expect_refusal(&wi_allgather_neighbor, (struct wi_algo_args){0, 3, 0, 0, 0, NULL, NULL}, WEFT_ENOTSUP, "even");
    expect_refusal(&wi_allgather_bine, (struct wi_algo_args){0, 6, 0, 0, 0, NULL, NULL}, WEFT_ENOTSUP, "power of two");
    expect_refusal(&wi_alltoall_pairwise, (struct wi_algo_args){0, 3, 0, 1, 0, NULL, NULL}, WEFT_ENOTSUP, "in place");
}

static void build_without_memory(const struct wi_algo *algo, const struct wi_algo_args *args)
{
    weft_status st = WEFT_ENOMEM;
    long nth = 0;

    if (!suits(algo, args))
        return;
    while (st != WEFT_SUCCESS && ++nth < 1000) {
        struct wi_sched *sched = NULL;
        wi_alloc_fail_nth(nth);
        st = algo->build(args, &sched);
        wi_alloc_fail_nth(0);
        CU_ASSERT(st == WEFT_SUCCESS ? sched != NULL : st == WEFT_ENOMEM && !sched);
        wi_sched_put(sched);
    }
    CU_ASSERT(nth > 1 && nth < 1000);
}

static void no_memory_is_reported(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        each_form(wi_algos[i], 1, build_without_memory);
        each_form(wi_algos[i], 6, build_without_memory);
    }
}

/* ---- Traits ---- */

#define TRAIT_RANKS 16

struct traffic {
    double blocks[TRAIT_RANKS][TRAIT_RANKS]; /* from, to */
    uint32_t nlanes, nsignals;               /* the most of a rank, and of a lane */
    int ll;
};

static void add_traffic(const struct wi_sched *s, struct traffic *t)
{
    t->ll &= s->ll;
    t->nlanes = s->nlanes > t->nlanes ? s->nlanes : t->nlanes;
    for (uint32_t l = 0; l < s->nlanes; l++) {
        uint32_t nsignals = 0;
        for (uint32_t i = 0; i < s->lanes[l].nsteps; i++) {
            const struct wi_step *st = &s->steps[s->lanes[l].first_step + i];
            nsignals += st->kind == WI_STEP_SIGNAL;
            if (st->kind == WI_STEP_SEND)
                t->blocks[s->rank][s->lanes[l].send_peer] += s->regions[st->src].count;
            else if (st->kind == WI_STEP_RECV_SEND || st->kind == WI_STEP_RECV_REDUCE_SEND)
                t->blocks[s->rank][s->lanes[l].send_peer] += s->regions[st->dst].count;
        }
        t->nsignals = nsignals > t->nsignals ? nsignals : t->nsignals;
    }
}

/* Part of what is sent for which `of` says so. */
static double part(const struct traffic *t, int n, int (*of)(int from, int to, int n))
{
    double all = 0, some = 0;

    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            all += t->blocks[from][to];
            some += of(from, to, n) ? t->blocks[from][to] : 0;
        }
    return all > 0 ? some / all : 0;
}

static int is_neighbour(int from, int to, int n)
{
    return (from + 1) % n == to || (to + 1) % n == from;
}

static int is_power_apart(int from, int to, int n)
{
    int distance = abs(from - to);

    (void)n;
    return (distance & (distance - 1)) == 0;
}

/* The busiest peer of each rank, of all that is sent. */
static double streamed(const struct traffic *t, int n)
{
    double all = 0, most = 0;

    for (int from = 0; from < n; from++) {
        double peer = 0;
        for (int to = 0; to < n; to++) {
            all += t->blocks[from][to];
            peer = fmax(peer, t->blocks[from][to]);
        }
        most += peer;
    }
    return all > 0 ? most / all : 0;
}

static int pairs(const struct traffic *t, int n)
{
    int npairs = 0;

    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            npairs += t->blocks[from][to] > 0;
    return npairs;
}

static int peers_of(const struct traffic *t, int n)
{
    int most = 0;

    for (int r = 0; r < n; r++) {
        int to = 0, from = 0;
        for (int k = 0; k < n; k++) {
            to += t->blocks[r][k] > 0;
            from += t->blocks[k][r] > 0;
        }
        most = to > most ? to : most;
        most = from > most ? from : most;
    }
    return most;
}

static int shape_is_seen(const struct wi_algo *a, const struct traffic *t, int n)
{
    int both = a->coll == WI_COLL_ALL_REDUCE ? 2 : 1; /* up and down */

    switch (a->traits.shape) {
    case WI_SHAPE_ROW:
        return part(t, n, is_neighbour) >= 0.5;
    case WI_SHAPE_DOUBLING:
        return part(t, n, is_power_apart) == 1 && peers_of(t, n) == wi_log2_ceil(n);
    case WI_SHAPE_KNOMIAL:
        return pairs(t, n) == both * (n - 1) && peers_of(t, n) > 1 && peers_of(t, n) < n - 1;
    case WI_SHAPE_FAN:
        return peers_of(t, n) == n - 1 && t->nlanes >= (uint32_t)n - 1;
    default:
        return 1;
    }
}

/* What a file says of its algorithm is what its schedules do. */
static void traits_are_true(void)
{
    int n = TRAIT_RANKS, ll = 0;

    for (int i = 0; wi_algos[i]; i++) {
        const struct wi_algo *a = wi_algos[i];
        const struct wi_algo_traits *is = &a->traits;
        struct wi_algo_args args = {.nranks = n};
        struct traffic t = {.ll = 1};
        struct wi_sched *scheds[TRAIT_RANKS];
        if (build_all(a, args, scheds))
            continue;
        for (int r = 0; r < n; r++)
            add_traffic(scheds[r], &t);
        int mapped = scheds[0]->mapped, holds = shape_is_seen(a, &t, n);
        holds &= !is->streams || streamed(&t, n) >= 0.5;
        holds &= !is->peer_messages || is->shape == WI_SHAPE_FAN;
        holds &= is->one_shot ? mapped && t.nlanes == 1 && t.nsignals == 1 : 1;
        holds &= !is->pipelined || (mapped && t.nlanes > 1);
        holds &= !is->ll || t.ll;
        holds &= !is->halves || scheds[0]->nblocks == (is->slices == WI_SLICES_OF_SHARES ? 2 * (uint32_t)n : 2);
        if (!holds)
            fail(a, &args);
        CU_ASSERT(holds);
        if (is->ll)
            CU_ASSERT_EQUAL(wi_algo_ll(a->coll), a); /* one of a collective */
        ll += is->ll;
        put_all(scheds, n);
    }
    CU_ASSERT(ll > 8);
}

/* Rounds send to the same ranks as the schedules, and about as much to each. */
static void compare_rounds(const struct wi_algo *a, int n)
{
    struct wi_algo_args args = {.nranks = n};
    struct traffic t = {.ll = 1}, r = {.ll = 1};
    struct wi_sched *scheds[TRAIT_RANKS];
    double unit = 1, sent = 0, said = 0, part;
    int to, holds = 1;

    if (build_all(a, args, scheds))
        return;
    for (int i = 0; i < n; i++)
        add_traffic(scheds[i], &t);
    if (wi_coll_is_vector(a->coll))
        unit = 1.0 / scheds[0]->nblocks;
    for (args.rank = 0; args.rank < n; args.rank++)
        for (int k = 0; a->round(&args, k, &to, &part); k++)
            if (to >= 0)
                r.blocks[args.rank][to] += part > 0 ? part : 1e-9; /* a barrier's are empty */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            holds &= (t.blocks[i][k] > 0) == (r.blocks[i][k] > 0) || a->coll == WI_COLL_BARRIER;
            sent += unit * t.blocks[i][k];
            said += r.blocks[i][k];
        }
    holds &= a->coll == WI_COLL_BARRIER || fabs(said / sent - 1) < 0.25;
    if (!holds)
        printf("# %s %s, %d ranks: rounds send %.3f, the schedule %.3f\n", wi_coll_name(a->coll), a->name, n, said,
               sent);
    CU_ASSERT(holds);
    put_all(scheds, n);
}

static void rounds_are_the_schedules(void)
{
    int compared = 0;

    for (int i = 0; wi_algos[i]; i++)
        for (int n = 2; n <= TRAIT_RANKS && wi_algos[i]->round; n++, compared++)
            compare_rounds(wi_algos[i], n);
    CU_ASSERT(compared > 100);
}

static const struct wt_case cases[] = {
    {"rounds are the schedules'", rounds_are_the_schedules},
    {"traits are true", traits_are_true},
    {"schedules are right", schedules_are_right},
    {"costs are right", costs_are_right},
    {"any radix is right", any_radix_is_right},
    {"large communicators build", large_communicators_build},
    {"text comes back", text_comes_back},
    {"flags are right", flags_are_right},
    {"mixed schedules are refused", mixed_schedules_are_refused},
    {"ranks that group operands differently are refused", other_groupings_are_refused},
    {"names are found", names_are_found},
    {"nothing is missing", nothing_is_missing},
    {"bad arguments are named", bad_arguments_are_named},
    {"no memory is reported", no_memory_is_reported},
};
WT_UNIT_MAIN("algo", cases)
