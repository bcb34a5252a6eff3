/* SPDX-License-Identifier: BSD-3-Clause */
/* Double binary tree all-reduce: each half of the vector is reduced to the root of one tree and
 * sent back.
 *
 * Full bandwidth at logarithmic latency for messages of many slices: a rank that is inner in one
 * tree is a leaf in the other. The second tree is the mirror image of the first (P even) or
 * shifted by one (P odd).
 *
 *   steps: 2 depth, depth = 1 + floor(log2(P-1)) · sent ≤ 2n · reduced ≤ n · no scratch
 *
 * P = 4, first tree 0 ─ 2 ─ 1, 3;  second tree 3 ─ 1 ─ 2, 0
 *
 *   up:   1, 3 → 2 → 0 (block 0)   2, 0 → 1 → 3 (block 1)
 *   down: 0 → 2 → 1, 3             3 → 1 → 2, 0
 *
 * Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan,
 * 2009.
 */
#include "algo/util.h"

struct node {
    int parent, child[2]; /* -1: none */
};

/* In-order binary tree over positions 0..n-1 with root 0: position p with lowest set bit b has its left subtree in
 * (p - b, p) and its right one in (p, p + b). */
static struct node tree_node(int p, int n)
{
    struct node t = {-1, {-1, -1}};
    int bit = p ? p & -p : 2 * wi_pow2_floor(n);

    if (p) {
        int up = (p - bit) | (2 * bit);
        t.parent = up < n ? up : p - bit;
        if (bit > 1)
            t.child[0] = p - bit / 2;
    }
    for (int half = bit / 2; half > 0 && t.child[1] < 0; half /= 2) {
        if (p + half < n)
            t.child[1] = p + half;
    }
    return t;
}

/* Position of a rank in the second tree and back. */
static int position(int rank, int n, int second)
{
    if (!second)
        return rank;
    return n % 2 ? wi_mod(rank - 1, n) : n - 1 - rank;
}

static int rank_at(int pos, int n, int second)
{
    if (!second || pos < 0)
        return pos;
    return n % 2 ? wi_mod(pos + 1, n) : n - 1 - pos;
}

static void add_tree(const struct wi_algo_args *args, struct wi_sched_builder *b, int second)
{
    int n = args->nranks;
    uint32_t block = (uint32_t)second, chan = (uint32_t)second;
    struct node t = tree_node(position(args->rank, n, second), n);
    int parent = rank_at(t.parent, n, second), last = t.child[1] >= 0 ? 1 : 0;
    struct wi_region held = wi_at(WI_SRC, block, 1), dst = wi_at(WI_DST, block, 1);
    struct wi_seq seq = wi_seq_begin(b);

    for (int i = 0; i < 2; i++) {
        int child = rank_at(t.child[i], n, second);
        if (child < 0)
            continue;
        unsigned flags = (child < args->rank ? WI_STEP_RECV_LEFT : 0) | (parent < 0 && i == last ? WI_STEP_FINAL : 0);
        wi_seq_recv_reduce(&seq, wi_sched_lane(b, WI_NO_PEER, child, chan), dst, held, flags);
        held = dst;
    }
    if (parent >= 0) {
        wi_seq_send(&seq, wi_sched_lane(b, parent, WI_NO_PEER, chan), held);
        wi_seq_recv(&seq, wi_sched_lane(b, WI_NO_PEER, parent, chan), dst);
    }
    for (int i = 0; i < 2; i++) {
        int child = rank_at(t.child[i], n, second);
        if (child < 0)
            continue;
        uint32_t lane = wi_sched_lane(b, child, WI_NO_PEER, chan);
        wi_sched_send(b, lane, dst);
        wi_sched_after(b, lane, seq.lane, seq.step);
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_allreduce_dbtree, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_dbtree, 2, 0, &b));
    add_tree(args, b, 0);
    add_tree(args, b, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    double alone = n == 1 && !args->in_place ? bytes : 0;
    int depth = n == 1 ? 0 : 1 + wi_log2_ceil(wi_pow2_floor(n - 1));
    double sent = n == 1 ? 0 : n == 2 ? 1 : n == 3 ? 1.5 : 2;
    double reduced = n == 1 ? 0 : n == 2 ? 0.5 : 1;
    *c = (struct wi_algo_cost){2 * depth, sent * bytes, reduced * bytes, alone};
}

/* When half of the vector has come together at a position of one tree. */
static double up_us(int position, int n, double half, const struct wi_algo_rates *rates)
{
    struct node t = tree_node(position, n);
    double ready[2], sent[2] = {half, half};
    int children = 0;

    for (int i = 0; i < 2; i++)
        if (t.child[i] >= 0)
            ready[children++] = up_us(t.child[i], n, half, rates);
    return wi_algo_fan_in(rates, ready, sent, children, 1, 0);
}

/* The longest way down: what goes to two children shares a link. */
static double chain_down(int position, int n)
{
    struct node t = tree_node(position, n);
    double most = 0;
    int children = 0;

    for (int i = 0; i < 2; i++) {
        if (t.child[i] < 0)
            continue;
        double child = chain_down(t.child[i], n);
        most = child > most ? child : most;
        children++;
    }
    return most + children;
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    int n = args->nranks, depth = n == 1 ? 0 : 1 + wi_log2_ceil(wi_pow2_floor(n - 1));

    if (n == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);
    return up_us(0, n, bytes / 2, rates) + depth * rates->alpha +
           chain_down(0, n) * wi_algo_over(bytes / 2, rates->beta);
}

const struct wi_algo wi_allreduce_dbtree = {
    .name = "dbtree",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.shape = WI_SHAPE_TREE, .halves = 1},
    .summary = "two binary trees, half of the vector each, up and down",
    .build = build,
    .cost = cost,
    .time = time_of,
};
