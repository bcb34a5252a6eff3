/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical schedules: inside the groups, among them, inside again, each by an algorithm of its own.
 *
 *                     up (stage k .. 1)          stage 0         down (stage 1 .. k)
 *                     no leader       leader                     no leader     leader
 *     all_reduce      reduce_scatter  reduce     all_reduce      all_gather    broadcast
 *     reduce          reduce_scatter  reduce     reduce          gather*       -
 *     broadcast       scatter*        -          broadcast       all_gather    broadcast
 *     all_gather      -               gather     all_gather      all_gather    broadcast
 *     reduce_scatter  reduce_scatter  reduce     reduce_scatter  -             scatter
 *     all_to_all      (hier_alltoall.c, hier_packed.c)
 *     barrier         barrier         barrier    barrier         -             barrier      * in the root's groups only
 *
 * Bytes across a link of stage 0, n bytes, G groups: what the outer algorithm sends for n, whatever the size of the groups.
 * Scratch: none for most vector forms (partial results lie in DST); reduce_scatter a vector: pages of a block for each rank, so
 * that block t always holds share t mod P, and the executor knows its length in the v-form.
 *
 * 2 nodes {0, 2}, {1, 3}, all_reduce "node:ring", blocks 0..3 (shards 01, 23 of the local ranks):
 *   0, 2: reduce-scatter, 0 keeps 01, 2 keeps 23 | 0 and 1: all-reduce of 01, 2 and 3: of 23 | 0, 2: all-gather
 *
 * Karonis et al.: Exploiting hierarchy in parallel computer networks to optimize collective operation performance, 2000; Cho
 * et al.: BlueConnect, 2019 (the form without a leader).
 */
#include <string.h>

#include "algo/hier.h"
#include "algo/util.h"
#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

#define MAX_PER_SHARD 4096u

struct made {
    struct made *next;
    struct wi_part part;
    struct wi_shares shares;
    int after; /* of a mapped one: is it after the messages, or before? */
};

struct hier {
    const struct wi_algo_args *args;
    const struct wi_hier_shape *shape;
    const struct wi_hier_spec *spec;
    struct wi_hier_tree tree;
    uint32_t per_shard, chunk_items, chunks; /* vector collectives: blocks of a shard, of a chunk */
    struct wi_place held;                    /* where this rank's part of the data is */
    struct made *first, **tail;
    int packed; /* all_to_all_v */
};

/* One stage on the way up or down. */
struct phase {
    int stage, parent, second; /* second: on the way down */
    enum wi_coll coll;
    const struct wi_algo *algo;
    struct wi_place src, dst;
    uint32_t number;
};

static int is_vector(const struct hier *h)
{
    return wi_coll_is_vector(h->shape->coll);
}

/* ---- Which items a share is ---- */

/* Of per-rank data: the child that has, or is to have, the share of rank s at this phase; -1: not in the segment. */
static int child_with(const struct hier *h, const struct phase *p, uint32_t v0, uint32_t v1, int s)
{
    const struct wi_hier_tree *t = &h->tree;
    uint32_t v = t->home[s] / t->width[p->stage];
    int by_place = p->stage == 0 || p->coll == WI_COLL_GATHER || p->coll == WI_COLL_SCATTER;

    if (v < v0 || v >= v1 || (by_place && wi_hier_parent(t, p->stage, s) != p->parent))
        return -1;
    if (by_place)
        return t->child_of[p->stage][s];
    uint32_t part = t->home[s] / t->width[p->stage - 1] % t->d[p->stage];
    return (int)(part * (uint32_t)wi_hier_nchildren(t, p->stage, p->parent) / t->d[p->stage]);
}

static weft_status shares_of_ranks(const struct hier *h, const struct phase *p, uint32_t v0, uint32_t v1, uint32_t n,
                                   struct wi_shares *shares)
{
    int nranks = h->tree.nranks, cut = wi_coll_is_vector(p->coll);
    uint32_t total = 0, at = 0;

    for (int s = 0; s < nranks && cut; s++)
        total += h->tree.home[s] / h->tree.width[p->stage] - v0 < v1 - v0;
    for (uint32_t c = 0; c < n; c++) {
        uint32_t from = (uint32_t)((uint64_t)total * c / n), to = (uint32_t)((uint64_t)total * (c + 1) / n);
        wi_shares_next(shares);
        at = 0;
        for (int s = 0; s < nranks; s++) {
            int is_in = cut ? h->tree.home[s] / h->tree.width[p->stage] - v0 < v1 - v0 : 0;
            int take = cut ? is_in && at >= from && at < to : child_with(h, p, v0, v1, s) == (int)c;
            at += (uint32_t)is_in;
            if (take)
                WI_TRY(wi_shares_add(shares, (uint32_t)s, 1, 1));
        }
    }
    return WEFT_SUCCESS;
}

static weft_status shares_of_vector(const struct hier *h, const struct phase *p, uint32_t v0, uint32_t v1, uint32_t n,
                                    struct wi_shares *shares)
{
    const struct wi_hier_tree *t = &h->tree;
    uint32_t m = h->per_shard, width = t->width[p->stage], first = v0 * width * m, items = (v1 - v0) * width * m;

    for (uint32_t c = 0; c < n; c++) {
        wi_shares_next(shares);
        if (wi_coll_is_vector(p->coll)) {
            uint32_t from = (uint32_t)((uint64_t)items * c / n), to = (uint32_t)((uint64_t)items * (c + 1) / n);
            WI_TRY(wi_shares_add(shares, first + from, to - from, 1));
            continue;
        }
        uint32_t low = wi_hier_first_part(t, p->stage, p->parent, (int)c);
        uint32_t high = wi_hier_first_part(t, p->stage, p->parent, (int)c + 1), inner = t->width[p->stage - 1] * m;
        for (uint32_t v = v0; v < v1; v++)
            WI_TRY(wi_shares_add(shares, (v * t->d[p->stage] + low) * inner, (high - low) * inner, 1));
    }
    return WEFT_SUCCESS;
}

static weft_status make_shares(const struct hier *h, const struct phase *p, uint32_t v0, uint32_t v1, uint32_t n,
                               struct wi_shares *shares)
{
    WI_TRY(wi_shares_init(shares, n));
    if (p->coll == WI_COLL_BARRIER) {
        wi_shares_next(shares);
        return wi_shares_add(shares, 0, 1, 0);
    }
    return is_vector(h) ? shares_of_vector(h, p, v0, v1, n, shares) : shares_of_ranks(h, p, v0, v1, n, shares);
}

/* ---- Parts ---- */

static int same(struct wi_place a, struct wi_place b)
{
    return a.buf == b.buf && a.offset == b.offset;
}

static uint32_t nshares_of(const struct wi_sched *s)
{
    return wi_coll_is_vector(s->coll) ? s->nblocks : s->coll == WI_COLL_BARRIER ? 1 : (uint32_t)s->nranks;
}

/* Everything in flight is owned by the list. */
static weft_status add_part(struct hier *h, const struct phase *p, uint32_t v0, uint32_t v1)
{
    struct wi_hier_tree *t = &h->tree;
    int n = wi_hier_nchildren(t, p->stage, p->parent);
    int into_own = h->args->in_place && p->dst.buf == WI_DST && p->src.buf == WI_SRC;
    struct wi_algo_args args = {.rank = t->child_of[p->stage][t->rank],
                                .nranks = n,
                                .root = t->lead_child[p->stage][p->parent],
                                .in_place = same(p->src, p->dst) || into_own,
                                .radix = h->args->radix};
    int32_t *ranks = wi_hier_pool(t, (size_t)n * sizeof *ranks);
    struct made *m = wi_hier_pool(t, sizeof *m);

    if (!ranks || !m)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for a part of %d ranks", n);
    for (int c = 0; c < n; c++)
        ranks[c] = wi_hier_member(t, p->stage, p->parent, c, v0);
    WI_TRY(p->algo->build(&args, &m->part.sched));
    *h->tail = m;
    h->tail = &m->next;
    WI_TRY(make_shares(h, p, v0, v1, nshares_of(m->part.sched), &m->shares));
    m->after = p->second;
    m->part.ranks = ranks;
    m->part.src = m->part.dst = &m->shares;
    m->part.src_at = p->src;
    m->part.dst_at = p->dst;
    m->part.phase = p->number;
    m->part.chan = 2 * p->number;
    m->part.final = p->stage == 0 || t->ngroups[p->stage - 1] == 1;
    m->part.roomy = h->shape->coll != WI_COLL_REDUCE_SCATTER || p->dst.buf == WI_TMP;
    return WEFT_SUCCESS;
}

/* reduce_scatter: does this rank get nothing but its own share? Then it goes into DST. */
static int gets_own_only(const struct hier *h, const struct phase *p)
{
    const struct wi_hier_tree *t = &h->tree;
    uint32_t v0, v1 = 0;

    if (p->coll == WI_COLL_REDUCE)
        return 0;
    while (wi_hier_segment(t, p->stage, &v0, &v1)) {
        for (int s = 0; s < t->nranks; s++) {
            if (s != t->rank && child_with(h, p, v0, v1, s) == t->child_of[p->stage][t->rank])
                return 0;
        }
    }
    return 1;
}

static struct wi_place result_place(const struct hier *h, const struct phase *p)
{
    switch (h->shape->coll) {
    case WI_COLL_REDUCE:
        return (struct wi_place){h->tree.rank == h->tree.root ? WI_DST : WI_TMP, 0};
    case WI_COLL_REDUCE_SCATTER:
        return gets_own_only(h, p) ? (struct wi_place){WI_DST, -h->tree.rank} : (struct wi_place){WI_TMP, 0};
    default:
        return (struct wi_place){WI_DST, 0};
    }
}

static weft_status run_phase(struct hier *h, int stage, int direction, enum wi_coll coll, int at_root)
{
    struct wi_hier_tree *t = &h->tree;
    struct phase p = {.stage = stage, .coll = coll, .second = direction > 0};
    uint32_t v0, v1 = 0;
    int any = 0;

    p.parent = wi_hier_parent(t, stage, t->rank);
    p.number = (uint32_t)(t->k + direction * stage);
    if (coll == WI_HIER_NONE || wi_hier_nchildren(t, stage, p.parent) == 1 ||
        (at_root && wi_hier_parent(t, stage, t->root) != p.parent))
        return WEFT_SUCCESS;
    p.algo = p.second ? h->spec->down[stage] : h->spec->up[stage];
    p.src = h->held;
    p.dst = result_place(h, &p);
    for (; wi_hier_segment(t, stage, &v0, &v1); any = 1)
        WI_TRY(add_part(h, &p, v0, v1));
    /* What was sent to a leader stays where it was. */
    if (any && (coll != WI_COLL_GATHER || t->child_of[stage][t->rank] == t->lead_child[stage][p.parent]))
        h->held = p.dst;
    return WEFT_SUCCESS;
}

static weft_status run_phases(struct hier *h)
{
    const struct wi_hier_shape *s = h->shape;
    const int *has_leader = h->tree.has_leader;

    for (int i = h->tree.k; i >= 1; i--)
        WI_TRY(run_phase(h, i, -1, has_leader[i] ? s->up_leader : s->up, s->up_at_root));
    WI_TRY(run_phase(h, 0, 0, s->coll, 0));
    for (int i = 1; i <= h->tree.k; i++)
        WI_TRY(run_phase(h, i, 1, has_leader[i] ? s->down_leader : s->down, s->down_at_root));
    return WEFT_SUCCESS;
}

/* ---- The whole ---- */

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Blocks of a vector collective that goes over whole shards must come out even. */
static weft_status fit_blocks(struct hier *h, int stage, enum wi_coll coll, int second)
{
    struct wi_hier_tree *t = &h->tree;
    const struct wi_algo *algo;
    struct wi_sched *sched;
    int most = 1;

    if (coll == WI_HIER_NONE || !wi_coll_is_vector(coll))
        return WEFT_SUCCESS;
    for (int p = 0; p < (stage ? t->ngroups[stage - 1] : 1); p++) {
        int n = wi_hier_nchildren(t, stage, p);
        most = n > most ? n : most;
    }
    if (most == 1)
        return WEFT_SUCCESS;
    algo = second ? h->spec->down[stage] : h->spec->up[stage];
    WI_TRY(algo->build(&(struct wi_algo_args){.nranks = most, .radix = h->args->radix}, &sched));
    uint64_t lcm = (uint64_t)h->per_shard / gcd(h->per_shard, sched->nblocks) * sched->nblocks;
    if (lcm <= MAX_PER_SHARD || stage == 0)
        h->per_shard = (uint32_t)lcm;
    wi_sched_put(sched);
    return WEFT_SUCCESS;
}

static weft_status cut(struct hier *h)
{
    const struct wi_hier_shape *s = h->shape;
    uint64_t items;

    h->per_shard = h->chunks = 1;
    h->chunk_items = s->coll == WI_COLL_BARRIER ? 1 : (uint32_t)h->tree.nranks;
    if (!is_vector(h))
        return WEFT_SUCCESS;
    WI_TRY(fit_blocks(h, 0, s->coll, 0));
    for (int i = 1; i <= h->tree.k; i++) {
        WI_TRY(fit_blocks(h, i, h->tree.has_leader[i] ? s->up_leader : WI_HIER_NONE, 0));
        WI_TRY(fit_blocks(h, i, h->tree.has_leader[i] ? s->down_leader : WI_HIER_NONE, 1));
    }
    h->chunks =
        h->spec->nchunks && !h->spec->mapped ? (uint32_t)h->spec->nchunks : 1; /* stages have fragments instead */
    items = (uint64_t)h->tree.width[h->tree.k] * h->per_shard;
    if (items * h->chunks > WI_SCHED_MAX_BLOCKS)
        return wi_fail(WEFT_ENOTSUP, "%s %s: the vector would be cut into more than %u blocks", wi_coll_name(s->coll),
                       h->spec->text, WI_SCHED_MAX_BLOCKS);
    h->chunk_items = (uint32_t)items;
    return WEFT_SUCCESS;
}

static void find_held(struct hier *h)
{
    int root = h->tree.rank == h->tree.root, in_place = h->args->in_place;

    h->held = (struct wi_place){WI_SRC, 0};
    switch (h->shape->coll) {
    case WI_COLL_ALL_REDUCE:
        h->held.buf = in_place ? WI_DST : WI_SRC;
        break;
    case WI_COLL_REDUCE:
        h->held.buf = in_place && root ? WI_DST : WI_SRC;
        break;
    case WI_COLL_BROADCAST:
        h->held.buf = in_place || !root ? WI_DST : WI_SRC;
        break;
    case WI_COLL_ALL_GATHER:
        h->held = in_place ? (struct wi_place){WI_DST, 0} : (struct wi_place){WI_SRC, -h->tree.rank};
        break;
    default:
        break;
    }
}

/* ---- Stages ---- */

/* Items that the scratch of one way keeps in the slots of a group, on the rank where they are most. */
static weft_status slot_items(const struct hier *h, struct phase *p, uint64_t *items)
{
    struct wi_algo_args args = {.nranks = wi_hier_nchildren(&h->tree, p->stage, p->parent),
                                .root = h->tree.lead_child[p->stage][p->parent]};
    struct wi_shares shares = {0};
    struct wi_sched *sched;
    uint32_t most = 0;

    WI_TRY(p->algo->build(&args, &sched));
    weft_status st = make_shares(h, p, 0, 1, nshares_of(sched), &shares);
    for (uint32_t i = 0; i < shares.n && st >= 0; i++) {
        uint32_t n = wi_shares_items(&shares, i);
        most = n > most ? n : most;
    }
    *items += (uint64_t)most * sched->buf_blocks[WI_TMP];
    wi_shares_free(&shares);
    wi_sched_put(sched);
    return st;
}

/* All groups of the innermost level, as all ranks must cut alike. */
static weft_status most_slot_items(const struct hier *h, uint32_t *most, int *any)
{
    const struct wi_hier_shape *s = h->shape;
    const struct wi_hier_tree *t = &h->tree;
    int k = t->k, has_leader = t->has_leader[k];
    enum wi_coll colls[2] = {has_leader ? s->up_leader : s->up, has_leader ? s->down_leader : s->down};

    for (int parent = 0; parent < t->ngroups[k - 1]; parent++) {
        uint64_t items = 0;
        for (int way = 0; way < 2; way++) {
            struct phase p = {.stage = k, .coll = colls[way], .second = way, .parent = parent};
            if (p.coll == WI_HIER_NONE || wi_hier_nchildren(t, k, parent) == 1)
                continue;
            p.algo = way ? h->spec->down[k] : h->spec->up[k];
            if (!(p.algo->needs & WI_ALGO_MAPPED))
                continue;
            *any = 1;
            WI_TRY(slot_items(h, &p, &items));
        }
        if (items > WI_SCHED_MAX_BLOCKS)
            return wi_fail(WEFT_ENOTSUP, "%s %s: slots would have to hold more than %u blocks", wi_coll_name(s->coll),
                           h->spec->text, WI_SCHED_MAX_BLOCKS);
        *most = items > *most ? (uint32_t)items : *most;
    }
    return WEFT_SUCCESS;
}

static weft_status add_stages(struct hier *h, struct wi_sched *sched)
{
    struct wi_sched_stage *stage[2] = {NULL, NULL};
    weft_status st = WEFT_SUCCESS;
    uint32_t most = 0;
    int any = 0;

    for (struct made *m = h->first; m && st >= 0; m = m->next)
        if (m->part.sched->mapped)
            st = wi_hier_stage(&m->part, &stage[m->after]);
    if (st >= 0)
        st = most_slot_items(h, &most, &any);
    if (st >= 0 && any) {
        wi_sched_surround(sched, stage[0], stage[1], most);
        return WEFT_SUCCESS;
    }
    wi_sched_stage_free(stage[0]);
    wi_sched_stage_free(stage[1]);
    return st;
}

/* Only stage 0 codes. All ranks say how often, also those that have no part in it. */
static weft_status losses(const struct hier *h, uint32_t *lossy)
{
    const struct wi_algo *algo = h->spec->up[0];
    struct wi_sched *sched;

    *lossy = 0;
    if (!(algo->needs & WI_ALGO_CODED))
        return WEFT_SUCCESS;
    WI_TRY(algo->build(&(struct wi_algo_args){.nranks = wi_hier_nchildren(&h->tree, 0, 0)}, &sched));
    *lossy = sched->lossy;
    wi_sched_put(sched);
    return WEFT_SUCCESS;
}

static weft_status compose(struct hier *h, struct wi_compose *c, struct wi_sched **sched)
{
    struct wi_hier_size size = {.nblocks = is_vector(h) ? h->chunks * h->chunk_items : 0};
    struct wi_sched_builder *b;

    for (uint32_t i = 0; i < h->chunks; i++) {
        for (struct made *m = h->first; m; m = m->next) {
            if (m->part.sched->mapped)
                continue;
            m->part.chunk = i;
            m->part.shift = i * h->chunk_items;
            WI_TRY(wi_compose_add(c, &m->part));
        }
    }
    size.tmp_blocks = wi_compose_tmp_blocks(c);
    size.pack_blocks = wi_compose_pack_blocks(c);
    WI_TRY(losses(h, &size.lossy));
    WI_TRY(wi_hier_begin(h->args, h->shape->coll, size, &b));
    weft_status st = wi_compose_write(c, b);
    if (st < 0) {
        wi_sched_abandon(b);
        return st;
    }
    WI_TRY(wi_sched_seal(b, sched));
    st = add_stages(h, *sched);
    if (st < 0)
        wi_sched_put(*sched);
    return st;
}

/* A page of scratch is where reductions without a DST of that size keep their results. */
static uint32_t result_pages(const struct hier *h)
{
    enum wi_coll coll = h->shape->coll;

    return coll == WI_COLL_REDUCE_SCATTER || (coll == WI_COLL_REDUCE && h->tree.rank != h->tree.root);
}

static weft_status build_tree(struct hier *h, struct wi_sched **sched)
{
    struct wi_compose *c = NULL;
    weft_status st;

    if (h->shape->coll == WI_COLL_ALL_TO_ALL)
        return wi_hier_all_to_all(h->args, &h->tree, h->packed, sched);
    h->tail = &h->first;
    find_held(h);
    st = cut(h);
    if (st >= 0)
        st = run_phases(h);
    if (st >= 0)
        st = wi_compose_create(h->chunks * h->chunk_items, result_pages(h), &c);
    if (st >= 0)
        st = compose(h, c, sched);
    wi_compose_destroy(c);
    for (struct made *m = h->first; m; m = m->next) {
        wi_shares_free(&m->shares);
        wi_sched_put(m->part.sched);
    }
    return st;
}

weft_status wi_hier_begin(const struct wi_algo_args *args, enum wi_coll coll, struct wi_hier_size size,
                          struct wi_sched_builder **b)
{
    char text[WI_ALGO_SPEC_BYTES];
    struct wi_sched_spec spec = {
        .coll = coll,
        .algo = wi_algo_text(NULL, args->spec, text),
        .rank = args->rank,
        .nranks = args->nranks,
        .root = args->root,
        .in_place = args->in_place,
        .nblocks = size.nblocks,
        .tmp_blocks = size.tmp_blocks,
        .tmp_like_src = coll == WI_COLL_REDUCE_SCATTER,
        .pack_blocks = size.pack_blocks,
        .lossy = size.lossy,
    };

    return wi_sched_begin(&spec, b);
}

static weft_status alone(const struct wi_algo_args *args, enum wi_coll coll, struct wi_sched **sched)
{
    struct wi_sched_builder *b;

    WI_TRY(wi_hier_begin(args, coll, (struct wi_hier_size){.nblocks = 1}, &b));
    if (!args->in_place && coll != WI_COLL_BARRIER)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static weft_status build(const struct wi_algo_args *args, enum wi_coll coll, struct wi_sched **sched)
{
    struct hier h = {.args = args,
                     .spec = args->spec,
                     .shape = wi_hier_shape_of(wi_algo_family(coll)),
                     .packed = coll == WI_COLL_ALL_TO_ALL_V};

    if (!h.spec || !h.spec->nlevels)
        return wi_fail(WEFT_EINVAL, "%s: a hierarchical algorithm needs a spec", wi_coll_name(coll));
    if (args->nranks < 1 || args->rank < 0 || args->rank >= args->nranks || args->root < 0 ||
        args->root >= args->nranks)
        return wi_fail(WEFT_EINVAL, "%s %s: rank %d, root %d of %d ranks", wi_coll_name(coll), h.spec->text, args->rank,
                       args->root, args->nranks);
    if (args->nranks == 1)
        return alone(args, wi_algo_family(coll), sched);
    WI_TRY(wi_hier_tree_init(&h.tree, h.spec, args));
    weft_status st = build_tree(&h, sched);
    wi_hier_tree_fini(&h.tree);
    return st;
}

#define HIER_LIST(X)                                                                              \
    X(all_reduce, ALL_REDUCE, "all-reduce by levels: inside groups, among them, inside")          \
    X(reduce, REDUCE, "reduce by levels: inside groups, then among them")                         \
    X(broadcast, BROADCAST, "broadcast by levels: among groups, then inside")                     \
    X(all_gather, ALL_GATHER, "all-gather by levels: among groups, then inside")                  \
    X(reduce_scatter, REDUCE_SCATTER, "reduce-scatter by levels: inside groups, then among them") \
    X(all_to_all, ALL_TO_ALL, "all-to-all by levels: one message for all ranks of a group")       \
    X(all_to_all_v, ALL_TO_ALL_V, "all_to_all_v by levels: short parts travel together")          \
    X(barrier, BARRIER, "barrier by levels: inside groups, then among them")

#define HIER_DEFINE(stem, COLL, text)                                                              \
    static weft_status build_##stem(const struct wi_algo_args *args, struct wi_sched **sched)      \
    {                                                                                              \
        return build(args, WI_COLL_##COLL, sched);                                                 \
    }                                                                                              \
    static void cost_##stem(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c) \
    {                                                                                              \
        wi_hier_total_cost(args, WI_COLL_##COLL, bytes, c);                                        \
    }                                                                                              \
    static const struct wi_algo hier_##stem = {                                                    \
        .name = "hier",                                                                            \
        .coll = WI_COLL_##COLL,                                                                    \
        .summary = text,                                                                           \
        .build = build_##stem,                                                                     \
        .cost = cost_##stem,                                                                       \
    };
HIER_LIST(HIER_DEFINE)

const struct wi_algo *wi_algo_hier(enum wi_coll coll)
{
    switch (coll == WI_COLL_ALL_TO_ALL_V ? coll : wi_algo_family(coll)) {
#define HIER_CASE(stem, COLL, text) \
    case WI_COLL_##COLL:            \
        return &hier_##stem;
        HIER_LIST(HIER_CASE)
    default:
        return NULL;
    }
}
