/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of hierarchical algorithms, stage by stage: the closed forms of their parts, for the data and the ranks of each
 * stage. */
#include <math.h>
#include <string.h>

#include "algo/hier.h"
#include "algo/util.h"
#include "base/status.h"
#include "sched/internal.h"

struct price {
    struct wi_hier_tree *tree;
    const struct wi_hier_spec *spec;
    const struct wi_hier_shape *shape;
    double bytes;
    const struct wi_algo_rates *rates; /* NULL: no times */
    double beside; /* each message sent inside as soon as a rank has its part of the outermost stage */
    int nbeside;
    struct wi_algo_cost all[2]; /* of two ranks */
    double us;                  /* of all that was priced, one after the other */
};

/* Shares of ranks that belong to prefixes [v0, v1) of a stage: all, or those of the parent's own ranks. */
static double count_homes(const struct wi_hier_tree *t, int stage, uint32_t v0, uint32_t v1, int parent)
{
    double n = 0;

    for (int s = 0; s < t->nranks; s++) {
        uint32_t v = t->home[s] / t->width[stage];
        n += v >= v0 && v < v1 && (parent < 0 || wi_hier_parent(t, stage, s) == parent);
    }
    return n;
}

/* all_to_all: the shares that this rank holds before a stage, or its children together, of sources that belong to prefixes
 * [v0, v1) of it. On the way up it gathers those of its group, for everybody; on the way down what it holds is for its group. */
static double shares_held(const struct wi_hier_tree *t, int stage, uint32_t v0, uint32_t v1, int up)
{
    int level = stage ? stage - 1 : 0, parent = wi_hier_parent(t, stage, t->rank);
    double sources = 0, destinations = 0;

    if (up)
        return count_homes(t, stage, v0, v1, parent) * t->nranks;
    for (int r = 0; r < t->nranks; r++) {
        size_t of = (size_t)t->group[level][t->rank] * t->prefixes[level] + t->home[r] / t->width[level];
        int is_local = stage > 0 || t->group[0][r] == t->group[0][t->rank];
        sources += is_local && t->home[r] / t->width[stage] - v0 < v1 - v0 && t->owner[level][of] == t->rank;
        destinations += wi_hier_parent(t, stage, r) == parent;
    }
    return sources * destinations;
}

/* The bytes with which the part's algorithm is called: its vector, or one of its shares. */
static double part_bytes(const struct price *p, int stage, enum wi_coll coll, uint32_t v0, uint32_t v1)
{
    const struct wi_hier_tree *t = p->tree;
    int parent = wi_hier_parent(t, stage, t->rank), n = wi_hier_nchildren(t, stage, parent);
    double whole;

    if (coll == WI_COLL_BARRIER)
        return 0;
    if (wi_coll_is_vector(p->shape->coll))
        whole = p->bytes * (v1 - v0) / t->prefixes[stage];
    else if (p->shape->coll == WI_COLL_ALL_TO_ALL)
        whole = p->bytes * shares_held(t, stage, v0, v1, coll == WI_COLL_GATHER);
    else
        whole =
            p->bytes * count_homes(t, stage, v0, v1, coll == WI_COLL_GATHER || coll == WI_COLL_SCATTER ? parent : -1);
    return wi_coll_is_vector(coll) ? whole : whole / n;
}

static void add(struct wi_algo_cost *to, const struct wi_algo_cost *c)
{
    to->steps = c->steps > to->steps ? c->steps : to->steps;
    to->sent += c->sent;
    to->reduced += c->reduced;
    to->copied += c->copied;
}

static void keep_larger(struct wi_algo_cost *to, const struct wi_algo_cost *c)
{
    to->steps = c->steps > to->steps ? c->steps : to->steps;
    to->sent = c->sent > to->sent ? c->sent : to->sent;
    to->reduced = c->reduced > to->reduced ? c->reduced : to->reduced;
    to->copied = c->copied > to->copied ? c->copied : to->copied;
}

/* Ranks of tree->rank's child that take part in a stage: each owns a run of prefixes. */
static int count_owners(const struct wi_hier_tree *t, int stage)
{
    const int32_t *owner = t->owner[stage] + (size_t)t->group[stage][t->rank] * t->prefixes[stage];
    int n = 1;

    for (uint32_t v = 1; v < t->prefixes[stage]; v++)
        n += owner[v] != owner[v - 1];
    return n;
}

static double closed_part(const struct price *p, int stage, const struct wi_algo *algo, const struct wi_algo_args *args,
                          double bytes, double alpha)
{
    struct wi_algo_rates rates = *p->rates;

    rates.beside = p->beside;
    rates.nbeside = stage == 0 ? p->nbeside : 0;
    rates.alpha = alpha;
    return wi_algo_closed(algo, args, bytes, 1, &rates);
}

/* Messages for each block that an algorithm passes, on average, alone and among many: shares of a vector lie together, those of
 * ranks where neighbours in rank are in the same child, or in one that takes part. all_to_all: for each source that is held. */
struct runs {
    double alone, among;
};

static struct runs runs_of(const struct price *p, int stage, enum wi_coll coll, uint32_t v0, uint32_t v1)
{
    const struct wi_hier_tree *t = p->tree;
    int parent = wi_hier_parent(t, stage, t->rank), n = wi_hier_nchildren(t, stage, parent), before = -1, members = 0;
    int exchange = p->shape->coll == WI_COLL_ALL_TO_ALL;
    double sources, alone = 0, among = 0;

    if (wi_coll_is_vector(p->shape->coll) || coll == WI_COLL_BARRIER)
        return (struct runs){1, 0};
    for (int r = 0; r < t->nranks; r++) {
        uint32_t v = t->home[r] / t->width[stage];
        int of_shard = exchange || (v >= v0 && v < v1), child = t->child_of[stage][r];
        int in = of_shard && wi_hier_parent(t, stage, r) == parent;
        alone += in && child != before;
        among += in && before < 0;
        members += wi_hier_parent(t, stage, r) == parent;
        before = in ? child : -1;
    }
    sources = exchange ? shares_held(t, stage, v0, v1, coll == WI_COLL_GATHER) / fmax(1, members) : 1;
    return (struct runs){fmax(1, sources * alone / n), among > 1 ? sources * among / n : 0};
}

static double chain_of(const struct wi_algo *algo, const struct wi_algo_cost *c, const struct wi_algo_args *args)
{
    return algo->traits.shape == WI_SHAPE_KNOMIAL ? wi_knomial_depth(args->nranks, wi_algo_radix(args)) : c->steps;
}

static double messages_of(const struct wi_algo *algo, const struct wi_algo_cost *c, const struct wi_algo_args *args,
                          double block, struct runs runs)
{
    double chain = chain_of(algo, c, args), peers = chain + (c->steps - chain) / 2;

    if (algo->traits.shape == WI_SHAPE_FAN)
        peers = (args->nranks - 1) * (algo->coding ? c->steps : 1); /* coded2 sends to all twice */
    return fmax(peers * runs.alone, block > 0 ? c->sent / block * runs.among : 0);
}

struct counts {
    double chain, messages;
    struct wi_algo_coding coding;
};

static void count_coding(struct counts *counts, const struct wi_algo *algo, const struct wi_algo_args *args,
                         double bytes)
{
    struct wi_algo_coding one = algo->coding ? algo->coding(args, bytes) : (struct wi_algo_coding){0, 0};

    counts->coding.encoded += one.encoded;
    counts->coding.decoded += one.decoded;
}

/* What one direction of a stage costs tree->rank, and all ranks of its child together. */
static weft_status price_direction(struct price *p, int stage, enum wi_coll coll, int second, struct wi_algo_cost *cost,
                                   double *link_sent, struct counts *counts)
{
    const struct wi_hier_tree *t = p->tree;
    int parent = wi_hier_parent(t, stage, t->rank), n = wi_hier_nchildren(t, stage, parent);
    struct wi_algo_args args = {.nranks = n, .root = t->lead_child[stage][parent], .in_place = 1};
    struct wi_algo_cost one;
    const struct wi_algo *algo;
    uint32_t v0, v1 = 0;
    double waits = 0, chain = 0;

    *cost = (struct wi_algo_cost){0};
    *link_sent = 0;
    if (coll == WI_HIER_NONE || n == 1)
        return WEFT_SUCCESS;
    algo = second ? p->spec->down[stage] : p->spec->up[stage];
    args.rank = args.root;
    while (wi_hier_segment(t, stage, &v0, &v1)) {
        uint32_t next0, next1 = v1;
        int alone = waits == 0 && !wi_hier_segment(t, stage, &next0, &next1);
        double bytes = part_bytes(p, stage, coll, v0, v1), us;
        algo->cost(&args, bytes, &one);
        add(cost, &one);
        count_coding(counts, algo, &args, bytes);
        chain = fmax(chain, chain_of(algo, &one, &args));
        counts->messages +=
            messages_of(algo, &one, &args, wi_coll_is_vector(coll) ? 0 : bytes, runs_of(p, stage, coll, v0, v1));
        if (!p->rates)
            continue;
        us = alone ? 0 : closed_part(p, stage, algo, &args, bytes, 0);
        waits = fmax(waits, closed_part(p, stage, algo, &args, bytes, p->rates->alpha) - us);
        p->us += us;
    }
    counts->chain += chain;
    p->us += waits; /* with other ranks, at the same time */
    algo->cost(&args, part_bytes(p, stage, coll, 0, t->prefixes[stage]), &one);
    *link_sent = one.sent * (coll == WI_COLL_ALL_TO_ALL ? count_owners(t, stage) : 1); /* that was one rank's own */
    return WEFT_SUCCESS;
}

static weft_status price_stage(struct price *p, int stage, struct wi_algo_cost *cost, double *link_sent,
                               struct counts *counts)
{
    int has_leader = stage > 0 && p->tree->has_leader[stage];
    const struct wi_hier_shape *s = p->shape;
    enum wi_coll up = stage == 0 ? s->coll : has_leader ? s->up_leader : s->up;
    enum wi_coll down = stage == 0 ? WI_HIER_NONE : has_leader ? s->down_leader : s->down;
    struct wi_algo_cost back;
    double more;

    *counts = (struct counts){0, 0, {0, 0}};
    WI_TRY(price_direction(p, stage, up, 0, cost, link_sent, counts));
    WI_TRY(price_direction(p, stage, down, 1, &back, &more, counts));
    cost->steps += back.steps;
    back.steps = 0;
    add(cost, &back);
    *link_sent += more;
    return WEFT_SUCCESS;
}

/* The first rank of the largest and of the smallest innermost group: they have the most to do, inside and across. */
static void extremes(const struct wi_hier_tree *t, int rank[2])
{
    int most = 0, least = t->nranks + 1;

    rank[0] = rank[1] = 0;
    for (int r = 0; r < t->nranks; r++) {
        int n = wi_hier_nchildren(t, t->k, wi_hier_parent(t, t->k, r));
        if (t->child_of[t->k][r] != t->lead_child[t->k][wi_hier_parent(t, t->k, r)])
            continue;
        if (n > most) {
            most = n;
            rank[0] = r;
        }
        if (n < least) {
            least = n;
            rank[1] = r;
        }
    }
}

/* Trees and fans send to all children at once, rings to the next rank. */
static weft_status find_beside(struct price *p)
{
    const struct wi_hier_tree *t = p->tree;
    enum wi_coll coll = t->has_leader[1] ? p->shape->down_leader : p->shape->down;
    int parent = wi_hier_parent(t, 1, t->rank), n = wi_hier_nchildren(t, 1, parent);
    struct wi_algo_args args = {
        .nranks = n, .rank = t->lead_child[1][parent], .root = t->lead_child[1][parent], .in_place = 1};
    const struct wi_algo *algo;
    struct wi_algo_cost cost;

    p->nbeside = 0;
    if (coll == WI_HIER_NONE || coll == WI_COLL_BARRIER || n == 1)
        return WEFT_SUCCESS;
    algo = p->spec->down[1];
    p->beside = part_bytes(p, 1, coll, 0, t->prefixes[1]);
    algo->cost(&args, p->beside, &cost);
    if (algo->traits.shape != WI_SHAPE_KNOMIAL && algo->traits.shape != WI_SHAPE_FAN)
        p->nbeside = 1;
    else
        p->nbeside = (int)lrint(cost.sent / p->beside);
    return WEFT_SUCCESS;
}

/* One chunk through all stages, each as fast as the slower of two ranks, for the others wait for it; and the other chunks behind
 * it, as fast as the slowest stage lets them, or the link and the core that all stages have in common. */
static weft_status time_of_ranks(struct price *p, const int rank[2], int nstages, int nchunks, double *us)
{
    double slowest = 0, first = 0, link_sent;
    struct counts counts;

    p->bytes /= nchunks;
    for (int i = 0; i < nstages; i++) {
        double stage_us = 0;
        for (int k = 0; k < 2; k++) {
            struct wi_algo_cost cost;
            p->tree->rank = rank[k];
            p->us = 0;
            WI_TRY(find_beside(p));
            WI_TRY(price_stage(p, i, &cost, &link_sent, &counts));
            add(&p->all[k], &cost);
            stage_us = fmax(stage_us, p->us);
        }
        first += stage_us;
        slowest = fmax(slowest, stage_us);
    }
    for (int k = 0; k < 2; k++) {
        slowest = fmax(slowest, wi_algo_over(p->all[k].sent, p->rates->beta));
        slowest = fmax(slowest, wi_algo_over(p->all[k].reduced, p->rates->reduce_rate) +
                                    wi_algo_over(p->all[k].copied, p->rates->copy_rate));
    }
    *us = first + (nchunks - 1) * slowest;
    return WEFT_SUCCESS;
}

weft_status wi_algo_level_closed(const struct wi_algo_args *args, enum wi_coll coll, double bytes,
                                 const struct wi_algo_rates *rates, double *us)
{
    const struct wi_hier_spec *spec = args->spec;
    struct wi_hier_tree tree;
    struct price p = {
        .tree = &tree, .spec = spec, .shape = wi_hier_shape_of(wi_algo_family(coll)), .bytes = bytes, .rates = rates};
    weft_status st = WEFT_SUCCESS;
    double one = 0;
    int rank[2];

    if (!p.shape || !spec || !spec->nlevels)
        return wi_fail(WEFT_EINVAL, "%s: no hierarchical algorithm is named", wi_coll_name(coll));
    WI_TRY(wi_hier_tree_init(&tree, spec, args));
    if (wi_hier_trees_us(&tree, spec, p.shape->coll, args->radix, bytes, rates, us)) {
        wi_hier_tree_fini(&tree);
        return WEFT_SUCCESS;
    }
    extremes(&tree, rank);
    st = time_of_ranks(&p, rank, spec->nlevels + 1, spec->nchunks ? spec->nchunks : 1, &one);
    wi_hier_tree_fini(&tree);
    if (st >= 0)
        *us = one;
    return st;
}

weft_status wi_algo_level_cost(const struct wi_algo_args *args, enum wi_coll coll, double bytes,
                               struct wi_algo_level_cost *cost)
{
    const struct wi_hier_spec *spec = args->spec;
    struct wi_hier_tree tree;
    struct price p = {
        .tree = &tree, .spec = spec, .shape = wi_hier_shape_of(wi_algo_family(coll)), .bytes = bytes, .rates = NULL};
    weft_status st = WEFT_SUCCESS;
    int rank[2];

    if (!p.shape || !spec || !spec->nlevels)
        return wi_fail(WEFT_EINVAL, "%s: no hierarchical algorithm is named", wi_coll_name(coll));
    WI_TRY(wi_hier_tree_init(&tree, spec, args));
    *cost = (struct wi_algo_level_cost){.nchunks = spec->nchunks ? spec->nchunks : 1, .nstages = spec->nlevels + 1};
    extremes(&tree, rank);
    for (int i = 0; i < cost->nstages && st >= 0; i++) {
        cost->stage[i].level = i < spec->nlevels ? spec->at[i].level : WI_ALGO_MAX_LEVELS;
        for (int k = 0; k < 2 && st >= 0; k++) {
            struct wi_algo_cost one;
            struct counts counts;
            double link_sent;
            tree.rank = rank[k];
            st = price_stage(&p, i, &one, &link_sent, &counts);
            if (st < 0)
                break;
            keep_larger(&cost->stage[i].cost, &one);
            cost->stage[i].chain = fmax(cost->stage[i].chain, counts.chain);
            cost->stage[i].messages = fmax(cost->stage[i].messages, counts.messages);
            cost->stage[i].coding.encoded = fmax(cost->stage[i].coding.encoded, counts.coding.encoded);
            cost->stage[i].coding.decoded = fmax(cost->stage[i].coding.decoded, counts.coding.decoded);
            if (link_sent > cost->stage[i].link_sent)
                cost->stage[i].link_sent = link_sent;
        }
    }
    wi_hier_tree_fini(&tree);
    return st;
}

void wi_hier_total_cost(const struct wi_algo_args *args, enum wi_coll coll, double bytes, struct wi_algo_cost *total)
{
    struct wi_algo_level_cost c;

    *total = (struct wi_algo_cost){0};
    if (wi_algo_level_cost(args, coll, bytes, &c) < 0)
        return;
    for (int i = 0; i < c.nstages; i++) {
        double steps = total->steps + c.stage[i].cost.steps;
        add(total, &c.stage[i].cost);
        total->steps = steps;
    }
}
