/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical all-to-all: one message for all ranks of a group, distributed inside it.
 *
 * Stage 0: each rank sends to its counterpart in every group its data for all ranks of that group. Stage i, inside a group,
 * forwards what has arrived to the children that it is for. So P-1 messages across the slow links become G-1, each with the data
 * for a whole group.
 *
 *   sent across: (P - L)n, as without levels, in G-1 messages · inside: (L-1)Gn more (L ranks a group, n: one share) · scratch
 *     GLn for each stage but the last
 *
 * With leaders, and for all_to_all_v, hier_packed.c.
 *
 * A share in transit is (source, destination). Between stages a rank keeps, sorted, those of the sources whose shard it owns and
 * of the destinations inside its group.
 */
#include "algo/hier.h"
#include "algo/util.h"
#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

struct exchange {
    struct wi_hier_tree *tree;
    const struct wi_hier_spec *spec;
    struct wi_compose *compose;
    const struct wi_algo *algo;
    int stage, parent, mine;    /* mine: which child this rank is in */
    uint32_t base_in, base_out; /* first block of scratch */
    struct kept {
        struct kept *next;
        struct wi_shares src, dst;
        struct wi_sched *sched;
    } * kept;
};

/* Does this rank hold what source s sends, before stage i? At first it holds its own. */
static int holds(const struct exchange *x, int stage, int s)
{
    const struct wi_hier_tree *t = x->tree;
    uint32_t v;

    if (stage == 0)
        return s == t->rank;
    v = t->home[s] / t->width[stage - 1];
    return t->owner[stage - 1][(size_t)t->group[stage - 1][t->rank] * t->prefixes[stage - 1] + v] == t->rank;
}

static int in_parent(const struct exchange *x, int stage, int d)
{
    return wi_hier_parent(x->tree, stage, d) == wi_hier_parent(x->tree, stage, x->tree->rank);
}

/* Where the shares that are held before `stage` lie: sorted by source, then by destination. */
static uint32_t *positions(const struct exchange *x, int stage, int sources)
{
    uint32_t *at = wi_hier_pool(x->tree, (size_t)x->tree->nranks * sizeof *at), n = 0;

    for (int r = 0; at && r < x->tree->nranks; r++) {
        at[r] = n;
        n += (uint32_t)(sources ? holds(x, stage, r) : in_parent(x, stage, r));
    }
    return at;
}

static uint32_t count_sources(const struct exchange *x, int stage)
{
    uint32_t n = 0;
    for (int r = 0; r < x->tree->nranks; r++)
        n += (uint32_t)holds(x, stage, r);
    return n;
}

static uint32_t count_destinations(const struct exchange *x, int stage)
{
    uint32_t n = 0;
    for (int r = 0; r < x->tree->nranks; r++)
        n += (uint32_t)in_parent(x, stage, r);
    return n;
}

/* The runs of one share: sources in order, for each the destinations in order. Destinations that are neighbours in rank are
 * neighbours at both ends. */
static weft_status add_run(struct wi_shares *shares, const uint32_t *row, uint32_t width, const uint32_t *column, int s,
                           int d, int d_before)
{
    return wi_shares_add(shares, row[s] * width + column[d], 1, d_before == d - 1);
}

struct grid { /* where (s, d) lies: row[s] * width + column[d] */
    uint32_t *row, *column, width;
};

static weft_status fill(const struct exchange *x, uint32_t v0, uint32_t v1, int child, int sending,
                        const struct grid *grid, struct wi_shares *shares)
{
    const struct wi_hier_tree *t = x->tree;
    int to = sending ? child : x->mine, from = sending ? x->mine : child;

    for (int s = 0; s < t->nranks; s++) {
        uint32_t v = t->home[s] / t->width[x->stage];
        int32_t holder = from;
        if (v < v0 || v >= v1)
            continue;
        if (x->stage == 0)
            holder = t->child_of[0][s];
        else
            holder = (int32_t)(t->home[s] / t->width[x->stage - 1] % t->d[x->stage] *
                               (uint32_t)wi_hier_nchildren(t, x->stage, x->parent) / t->d[x->stage]);
        if (holder != from)
            continue;
        for (int d = 0, before = -2; d < t->nranks; d++) {
            if (wi_hier_parent(t, x->stage, d) != x->parent || t->child_of[x->stage][d] != to)
                continue;
            WI_TRY(add_run(shares, grid->row, grid->width, grid->column, s, d, before));
            before = d;
        }
    }
    return WEFT_SUCCESS;
}

static weft_status add_part(struct exchange *x, uint32_t v0, uint32_t v1, const struct grid *in, const struct grid *out)
{
    struct wi_hier_tree *t = x->tree;
    int n = wi_hier_nchildren(t, x->stage, x->parent), last = x->stage == t->k;
    int32_t *ranks = wi_hier_pool(t, (size_t)n * sizeof *ranks);
    struct kept *k = wi_hier_pool(t, sizeof *k);
    struct wi_algo_args args = {.rank = x->mine, .nranks = n};

    if (!ranks || !k)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for a part of %d ranks", n);
    k->next = x->kept;
    x->kept = k;
    WI_TRY(x->algo->build(&args, &k->sched));
    WI_TRY(wi_shares_init(&k->src, (uint32_t)n));
    WI_TRY(wi_shares_init(&k->dst, (uint32_t)n));
    for (int c = 0; c < n; c++) {
        ranks[c] = wi_hier_member(t, x->stage, x->parent, c, v0);
        wi_shares_next(&k->src);
        WI_TRY(fill(x, v0, v1, c, 1, in, &k->src));
        wi_shares_next(&k->dst);
        WI_TRY(fill(x, v0, v1, c, 0, out, &k->dst));
    }
    struct wi_part part = {.sched = k->sched,
                           .ranks = ranks,
                           .src = &k->src,
                           .dst = &k->dst,
                           .src_at = {x->stage ? WI_TMP : WI_SRC, x->base_in},
                           .dst_at = {last ? WI_DST : WI_TMP, x->base_out},
                           .phase = (uint32_t)x->stage,
                           .chan = 2 * (uint32_t)x->stage};
    return wi_compose_add(x->compose, &part);
}

/* One stage. A rank whose group has one child goes through it alone: its shares are copied from area to area. */
static weft_status run_stage(struct exchange *x, uint32_t *tmp_blocks)
{
    struct wi_hier_tree *t = x->tree;
    int last = x->stage == t->k;
    uint32_t v0, v1 = 0;

    x->parent = wi_hier_parent(t, x->stage, t->rank);
    x->mine = t->child_of[x->stage][t->rank];
    struct grid in = {positions(x, x->stage, 1), positions(x, x->stage, 0), count_destinations(x, x->stage)};
    struct grid out = in;
    x->base_out = 0;
    if (!last) {
        out = (struct grid){positions(x, x->stage + 1, 1), positions(x, x->stage + 1, 0),
                            count_destinations(x, x->stage + 1)};
        x->base_out = *tmp_blocks;
        *tmp_blocks += count_sources(x, x->stage + 1) * out.width;
    } else { /* DST: by source, one destination */
        out.row = wi_hier_pool(t, (size_t)t->nranks * sizeof *out.row);
        out.column = wi_hier_pool(t, (size_t)t->nranks * sizeof *out.column);
        out.width = 1;
        for (int r = 0; out.row && r < t->nranks; r++)
            out.row[r] = (uint32_t)r;
    }
    if (!in.row || !in.column || !out.row || !out.column)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for %d ranks", t->nranks);
    x->algo = x->stage ? x->spec->down[x->stage] : x->spec->up[0];
    while (wi_hier_segment(t, x->stage, &v0, &v1))
        WI_TRY(add_part(x, v0, v1, &in, &out));
    x->base_in = x->base_out;
    return WEFT_SUCCESS;
}

static weft_status refuse(const struct wi_algo_args *args, int *leaders)
{
    const struct wi_hier_spec *spec = args->spec;

    *leaders = 0;
    if (args->in_place)
        return wi_fail(WEFT_ENOTSUP, "all_to_all %s cannot work in place", spec->text);
    for (int i = 0; i <= spec->nlevels; i++) {
        if (i > 0 && spec->at[i - 1].has_leader) {
            *leaders = 1;
            continue;
        }
        const struct wi_algo *algo = i ? spec->down[i] : spec->up[i];
        if (algo->needs & WI_ALGO_UNIFORM)
            return wi_fail(WEFT_ENOTSUP, "all_to_all %s: \"%s\" needs equal shares, these differ by group", spec->text,
                           algo->name);
    }
    return WEFT_SUCCESS;
}

weft_status wi_hier_all_to_all(const struct wi_algo_args *args, struct wi_hier_tree *tree, int packed,
                               struct wi_sched **sched)
{
    struct exchange x = {.tree = tree, .spec = args->spec};
    struct wi_sched_builder *b = NULL;
    uint32_t tmp_blocks = 0;
    weft_status st;
    int leaders;

    WI_TRY(refuse(args, &leaders));
    if (packed || leaders)
        return wi_hier_packed(args, tree, sched);
    st = wi_compose_create((uint32_t)args->nranks, 0, &x.compose);
    for (x.stage = 0; x.stage <= tree->k && st >= 0; x.stage++)
        st = run_stage(&x, &tmp_blocks);
    if (st >= 0)
        st = wi_hier_begin(args, WI_COLL_ALL_TO_ALL, (struct wi_hier_size){.tmp_blocks = tmp_blocks}, &b);
    if (st >= 0) {
        st = wi_compose_write(x.compose, b);
        if (st >= 0)
            st = wi_sched_seal(b, sched);
        else
            wi_sched_abandon(b);
    }
    wi_compose_destroy(x.compose);
    for (struct kept *k = x.kept; k; k = k->next) {
        wi_shares_free(&k->src);
        wi_shares_free(&k->dst);
        wi_sched_put(k->sched);
    }
    return st;
}
