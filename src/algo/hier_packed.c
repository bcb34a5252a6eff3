/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical all-to-all by packed messages: at each stage a rank sends everything for another rank in one message, packed before
 * and sorted afterwards.
 *
 * It serves all_to_all_v, where packing costs nothing (exec/packed.c), and all_to_all with leaders.
 *
 *                     up (stage k .. 1)     stage 0       down (stage 1 .. k)
 *     no leader       -                     all_to_all    all_to_all
 *     leader          gather                all_to_all    scatter
 *
 * The share from s to d is held, on the way up and before stage 0, by the owner of the shard of s in the group of s; after stage
 * 0, by the owner of that shard in the group of d; at the end, by d. So each owner sends one message to each other one: with
 * leaders one message for each pair of groups, without leaders one from each rank, whatever the sizes of the groups.
 *
 *   sent across: what is for other groups, once · inside: what came in, and with leaders all of it twice
 *
 * Areas of scratch, each stage: OUT, by receiver, and IN, by sender; inside sorted by (s, d). 2 nodes {0, 1}, {2, 3}, rank 0:
 *   OUT 00 01 02 03 | OUT[02 03] → 2, IN[20 21] <- 2 | OUT 00 20 01 21 | OUT[01 21] → 1, IN[10 30] <- 1 | DST 0 1 2 3 */
#include "algo/hier.h"
#include "algo/util.h"
#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

#define NOWHERE UINT32_MAX

struct made {
    struct made *next;
    struct wi_part part;
    struct wi_shares src, dst;
};

/* A share that this rank holds, and in which block. */
struct share {
    int32_t s, d;
    uint32_t block;
};

struct share_list {
    struct share *share;
    uint32_t n, capacity;
};

struct post {
    const struct wi_algo_args *args;
    struct wi_hier_tree *tree;
    struct made *first, **tail;
    struct share_list held, next; /* before and after the stage that is being written, sorted by (s, d) */
    int stage, second;            /* second: on the way down */
    uint32_t phase, tmp_blocks, most_items;
    enum wi_coll coll;
    const struct wi_algo *algo;
};

/* ---- Who holds what ---- */

/* The owner of the shard of s within the group of `place` of level i. */
static int32_t answers(const struct wi_hier_tree *t, int i, int s, int place)
{
    return t->owner[i][(size_t)t->group[i][place] * t->prefixes[i] + t->home[s] / t->width[i]];
}

static int32_t sender(const struct post *p, int s, int d)
{
    if (p->second)
        return answers(p->tree, p->stage - 1, s, d);
    return answers(p->tree, p->stage, s, s);
}

static int32_t receiver(const struct post *p, int s, int d)
{
    if (p->second || p->stage == 0)
        return answers(p->tree, p->stage, s, d);
    return answers(p->tree, p->stage - 1, s, s);
}

static weft_status put(struct share_list *list, int s, int d, uint32_t block)
{
    if (list->n == list->capacity) {
        uint32_t more = list->capacity ? 2 * list->capacity : 64;
        struct share *grown = wi_realloc(list->share, more * sizeof *grown);
        if (!grown)
            return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for %u shares", more);
        list->share = grown;
        list->capacity = more;
    }
    list->share[list->n++] = (struct share){s, d, block};
    return WEFT_SUCCESS;
}

/* What this rank holds after the stage: sources and destinations do not depend on each other. */
static weft_status find_next(struct post *p)
{
    const struct wi_hier_tree *t = p->tree;
    int rank = t->rank, by_destination = p->second || p->stage == 0;

    p->next.n = 0;
    for (int s = 0; s < t->nranks; s++) {
        if (receiver(p, s, by_destination ? rank : s) != rank)
            continue;
        for (int d = 0; d < t->nranks; d++) {
            if (!by_destination || t->group[p->stage][d] == t->group[p->stage][rank])
                WI_TRY(put(&p->next, s, d, NOWHERE));
        }
    }
    return WEFT_SUCCESS;
}

/* ---- Parts ---- */

static weft_status no_memory(const struct post *p)
{
    return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for the shares of %d ranks", p->tree->nranks);
}

static struct made *new_made(struct post *p)
{
    struct made *m = wi_hier_pool(p->tree, sizeof *m);

    if (m) {
        *p->tail = m;
        p->tail = &m->next;
    }
    return m;
}

static int in_segment(const struct wi_hier_tree *t, int stage, int s, uint32_t v0, uint32_t v1)
{
    return t->home[s] / t->width[stage] - v0 < v1 - v0;
}

/* Number the blocks, from *at on, of those shares of the list that go to (come from) `child`. */
static uint32_t place_shares(const struct post *p, struct share_list *list, int sending, int32_t peer, uint32_t v0,
                             uint32_t v1, uint32_t at)
{
    for (uint32_t i = 0; i < list->n; i++) {
        struct share *h = &list->share[i];
        int32_t other = sending ? receiver(p, h->s, h->d) : sender(p, h->s, h->d);
        if (other == peer && in_segment(p->tree, p->stage, h->s, v0, v1))
            h->block = at++;
    }
    return at;
}

/* Copy from where shares lie to where they are wanted: a part of one rank. */
static weft_status add_copies(struct post *p, struct made *m, const struct share_list *from, enum wi_buf src,
                              const uint32_t *to, enum wi_buf dst)
{
    struct wi_algo_args alone = {.nranks = 1};
    int32_t *self = wi_hier_pool(p->tree, sizeof *self);

    if (!from->n)
        return WEFT_SUCCESS;
    if (!self)
        return no_memory(p);
    *self = p->tree->rank;
    WI_TRY(wi_shares_init(&m->src, 1));
    WI_TRY(wi_shares_init(&m->dst, 1));
    WI_TRY(wi_algo_find(WI_COLL_ALL_TO_ALL, "linear")->build(&alone, &m->part.sched));
    wi_shares_next(&m->src);
    wi_shares_next(&m->dst);
    for (uint32_t i = 0; i < from->n; i++) { /* runs are cut alike */
        int grow = i && from->share[i].block == from->share[i - 1].block + 1 && to[i] == to[i - 1] + 1;
        WI_TRY(wi_shares_add(&m->src, from->share[i].block, 1, grow));
        WI_TRY(wi_shares_add(&m->dst, to[i], 1, grow));
    }
    m->part.ranks = self;
    m->part.src = &m->src;
    m->part.dst = &m->dst;
    m->part.src_at.buf = (uint8_t)src;
    m->part.dst_at.buf = (uint8_t)dst;
    m->part.phase = p->phase;
    return WEFT_SUCCESS;
}

/* How many shares a leader gets from a child, or gives to it. */
static uint32_t shares_of_child(const struct post *p, int parent, int c, uint32_t v0, uint32_t v1)
{
    const struct wi_hier_tree *t = p->tree;
    uint32_t sources = 0, own = 0, destinations = 0;

    for (int r = 0; r < t->nranks; r++) {
        int of_child = wi_hier_parent(t, p->stage, r) == parent && t->child_of[p->stage][r] == c;
        int is_in = in_segment(t, p->stage, r, v0, v1);
        sources += (uint32_t)is_in;
        own += (uint32_t)(is_in && of_child);
        destinations += (uint32_t)of_child;
    }
    return p->coll == WI_COLL_GATHER ? own * (uint32_t)t->nranks : sources * destinations;
}

/* Share c of the part, and where it lies here: `out` and `in` are the areas' next blocks. */
static weft_status fill(struct post *p, struct made *m, int n, const int32_t *ranks, uint32_t v0, uint32_t v1,
                        uint32_t *out, uint32_t *in)
{
    int32_t me = p->tree->rank;
    int parent = wi_hier_parent(p->tree, p->stage, me);
    uint32_t item = 0, first_out = *out, first_in = *in;

    for (int c = 0; c < n; c++) {
        uint32_t out_n, in_n, blocks = *out;
        wi_shares_next(&m->src);
        wi_shares_next(&m->dst);
        *out = place_shares(p, &p->held, 1, ranks[c], v0, v1, *out);
        out_n = *out - blocks;
        blocks = *in;
        *in = place_shares(p, &p->next, 0, ranks[c], v0, v1, *in);
        in_n = *in - blocks;
        if (p->coll == WI_COLL_ALL_TO_ALL) {
            WI_TRY(wi_shares_add(&m->src, *out - out_n - first_out, out_n, 1));
            WI_TRY(wi_shares_add(&m->dst, *in - in_n - first_in, in_n, 1));
            continue;
        }
        uint32_t shares = shares_of_child(p, parent, c, v0, v1);
        if (ranks[c] == me) { /* a leader's area holds all shares of the part, another rank's its own */
            m->part.src_at.offset = p->coll == WI_COLL_GATHER ? (int64_t)first_out - item : (int64_t)first_out;
            m->part.dst_at.offset = p->coll == WI_COLL_GATHER ? (int64_t)first_in : (int64_t)first_in - item;
        }
        WI_TRY(wi_shares_add(&m->src, item, shares, 1));
        item += shares;
    }
    if (p->coll == WI_COLL_ALL_TO_ALL) {
        m->part.src_at.offset = first_out;
        m->part.dst_at.offset = first_in;
        item = *out - first_out > *in - first_in ? *out - first_out : *in - first_in;
    }
    p->most_items = item > p->most_items ? item : p->most_items;
    return WEFT_SUCCESS;
}

static weft_status add_part(struct post *p, uint32_t v0, uint32_t v1, uint32_t *out, uint32_t *in)
{
    struct wi_hier_tree *t = p->tree;
    int parent = wi_hier_parent(t, p->stage, t->rank), n = wi_hier_nchildren(t, p->stage, parent);
    struct made *m = new_made(p);
    int32_t *ranks = wi_hier_pool(t, (size_t)n * sizeof *ranks);
    struct wi_algo_args args = {.rank = t->child_of[p->stage][t->rank],
                                .nranks = n,
                                .root = t->lead_child[p->stage][parent],
                                .radix = p->args->radix};

    if (!m || !ranks)
        return no_memory(p);
    for (int c = 0; c < n; c++)
        ranks[c] = wi_hier_member(t, p->stage, parent, c, v0);
    WI_TRY(wi_shares_init(&m->src, (uint32_t)n));
    WI_TRY(wi_shares_init(&m->dst, (uint32_t)n));
    WI_TRY(p->algo->build(&args, &m->part.sched));
    m->part.ranks = ranks;
    m->part.src = &m->src;
    m->part.dst = p->coll == WI_COLL_ALL_TO_ALL ? &m->dst : &m->src;
    m->part.src_at.buf = m->part.dst_at.buf = WI_TMP;
    m->part.phase = p->phase + 1;
    m->part.chan = 2 * (uint32_t)(p->second ? t->k + p->stage : t->k - p->stage);
    return fill(p, m, n, ranks, v0, v1, out, in);
}

/* ---- Stages ---- */

/* Blocks of OUT are given to what is held while the parts are made; then it is copied there, before them. */
static weft_status run_stage(struct post *p, int stage, int second, enum wi_coll coll)
{
    struct wi_hier_tree *t = p->tree;
    struct made *pack = new_made(p);
    uint32_t v0, v1 = 0, out = p->tmp_blocks, in = out + p->held.n;
    uint32_t *to = wi_hier_pool(t, ((size_t)p->held.n + 1) * sizeof *to);
    struct share_list swap;

    if (!pack || !to)
        return no_memory(p);
    p->stage = stage;
    p->second = second;
    p->coll = coll;
    p->algo = second ? p->args->spec->down[stage] : p->args->spec->up[stage];
    WI_TRY(find_next(p));
    for (uint32_t i = 0; i < p->held.n; i++)
        to[i] = p->held.share[i].block;
    p->tmp_blocks = in + p->next.n;
    while (wi_hier_segment(t, stage, &v0, &v1))
        WI_TRY(add_part(p, v0, v1, &out, &in));
    for (uint32_t i = 0; i < p->held.n; i++) {
        uint32_t was = to[i];
        to[i] = p->held.share[i].block;
        p->held.share[i].block = was;
    }
    WI_TRY(add_copies(p, pack, &p->held, p->phase ? WI_TMP : WI_SRC, to, WI_TMP));
    p->phase += 2;
    swap = p->held;
    p->held = p->next;
    p->next = swap;
    return WEFT_SUCCESS;
}

static weft_status run_stages(struct post *p)
{
    struct wi_hier_tree *t = p->tree;
    struct made *unpack;
    uint32_t *to;

    for (int d = 0; d < t->nranks; d++)
        WI_TRY(put(&p->held, t->rank, d, (uint32_t)d));
    for (int i = t->k; i >= 1; i--) {
        if (t->has_leader[i])
            WI_TRY(run_stage(p, i, 0, WI_COLL_GATHER));
    }
    WI_TRY(run_stage(p, 0, 0, WI_COLL_ALL_TO_ALL));
    for (int i = 1; i <= t->k; i++)
        WI_TRY(run_stage(p, i, 1, t->has_leader[i] ? WI_COLL_SCATTER : WI_COLL_ALL_TO_ALL));
    unpack = new_made(p);
    to = wi_hier_pool(t, ((size_t)p->held.n + 1) * sizeof *to);
    if (!unpack || !to)
        return no_memory(p);
    for (uint32_t i = 0; i < p->held.n; i++)
        to[i] = (uint32_t)p->held.share[i].s;
    return add_copies(p, unpack, &p->held, WI_TMP, to, WI_DST);
}

static weft_status write(const struct post *p, struct wi_sched **sched)
{
    uint32_t page = p->most_items ? p->most_items : 1, pages = (p->tmp_blocks + page - 1) / page, tmp;
    struct wi_sched_builder *b = NULL;
    struct wi_compose *c;
    weft_status st;

    WI_TRY(wi_compose_create(page, pages, &c));
    st = WEFT_SUCCESS;
    for (struct made *m = p->first; m && st >= 0; m = m->next)
        st = m->part.sched ? wi_compose_add(c, &m->part) : WEFT_SUCCESS;
    tmp = wi_compose_tmp_blocks(c);
    if (tmp == pages * page)
        tmp = p->tmp_blocks; /* no part has scratch of its own */
    if (st >= 0)
        st = wi_hier_begin(p->args, WI_COLL_ALL_TO_ALL, (struct wi_hier_size){.tmp_blocks = tmp}, &b);
    if (st >= 0) {
        st = wi_compose_write(c, b);
        if (st >= 0)
            st = wi_sched_seal(b, sched);
        else
            wi_sched_abandon(b);
    }
    wi_compose_destroy(c);
    return st;
}

weft_status wi_hier_packed(const struct wi_algo_args *args, struct wi_hier_tree *tree, struct wi_sched **sched)
{
    struct post p = {.args = args, .tree = tree};
    weft_status st;

    p.tail = &p.first;
    st = run_stages(&p);
    if (st >= 0)
        st = write(&p, sched);
    for (struct made *m = p.first; m; m = m->next) {
        wi_shares_free(&m->src);
        wi_shares_free(&m->dst);
        wi_sched_put(m->part.sched);
    }
    wi_free(p.held.share);
    wi_free(p.next.share);
    return st;
}
