/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast as scatter and all-gather: block v goes to the v-th rank from the root, then the
 * blocks go round a ring.
 *
 * For large messages of few slices: the root sends each byte about twice instead of log2 P times.
 * Inner ranks of the scatter tree hold the blocks of their whole subtree: the ring does not send
 * those again, and nothing to the root.
 *
 *   steps: P · sent ≤ 2n(P-1)/P · no scratch
 *
 * P = 4, root 0:  scatter: 0 → 2: blocks 2,3 · 0 → 1: block 1 · 2 → 3: block 3
 *                 ring:    0 → 1: 0, 3, 2 · 1 → 2: 1, 0 · 2 → 3: 2, 1, 0
 *
 * van de Geijn et al.: On optimizing collective communication, 2004; pruned ring: Zhou et al.
 * 2015.
 */
#include "algo/util.h"

struct place {
    int n, v, root;
    struct wi_knomial tree;
    enum wi_buf held; /* SRC at the root, where every block is from the start */
    uint32_t from;    /* lane and step of the scatter's receive */
    uint32_t got;
};

static int rank_of(const struct place *p, int v)
{
    return wi_mod(v + p->root, p->n);
}

static void scatter(struct place *p, struct wi_sched_builder *b)
{
    int size = wi_knomial_size(p->v, p->n, 2);

    if (p->v > 0) {
        p->from = wi_sched_lane(b, WI_NO_PEER, rank_of(p, p->tree.parent), 0);
        p->got = wi_sched_recv(b, p->from, wi_at(WI_DST, (uint32_t)p->v, (uint32_t)size));
    }
    for (int i = p->tree.nchildren - 1; i >= 0; i--) {
        int child = wi_knomial_child(&p->tree, i);
        uint32_t lane = wi_sched_lane(b, rank_of(p, child), WI_NO_PEER, 0);
        wi_sched_send(b, lane, wi_at(p->held, (uint32_t)child, (uint32_t)wi_knomial_size(child, p->n, 2)));
        if (p->v > 0)
            wi_sched_after(b, lane, p->from, p->got);
    }
}

/* Blocks v, v-1, … pass from v to v+1, but for those that v+1 got from the scatter. */
static void ring(const struct place *p, struct wi_sched_builder *b)
{
    int n = p->n, v = p->v;
    int sends = v < n - 1 ? n - wi_knomial_size(v + 1, n, 2) : 0;
    int recvs = n - wi_knomial_size(v, n, 2);
    uint32_t lane =
        wi_sched_lane(b, sends ? rank_of(p, v + 1) : WI_NO_PEER, recvs ? rank_of(p, v - 1 + n) : WI_NO_PEER, 1);

    for (int k = 0; k <= recvs || k < sends; k++) {
        uint32_t block = (uint32_t)wi_mod(v - k, n);
        int receive = k > 0 && k <= recvs, send = k < sends;
        if (receive && send)
            wi_sched_recv_send(b, lane, wi_at(WI_DST, block, 1));
        else if (receive)
            wi_sched_recv(b, lane, wi_at(WI_DST, block, 1));
        else if (send)
            wi_sched_send(b, lane, wi_at(p->held, block, 1));
        if (send && !receive && k == 0 && v > 0)
            wi_sched_after(b, lane, p->from, p->got);
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, v = wi_mod(args->rank - args->root, n);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_scatter_ring, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_scatter_ring, (uint32_t)n, 0, &b));
    struct place p = {n, v, args->root, wi_knomial_of(v, n, 2), v ? WI_DST : WI_SRC, 0, 0};
    scatter(&p, b);
    ring(&p, b);
    if (v == 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, (uint32_t)n),
                      wi_at(WI_SRC, 0, (uint32_t)n));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){n > 2 ? n : n - 1, 2 * (n - 1) * bytes / n, 0, args->in_place ? 0 : bytes};
}

/* Down the tree and once round; the root's part of the ring shares its link with what it scatters. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    double blocks = wi_knomial_down(0, n, 2, 1).sent + (n - 1) + (n > 2 ? n - 2 : 0);
    *c = (struct wi_algo_cost){n > 2 ? n : n - 1, n > 1 ? blocks * bytes / n : 0, 0, 0};
}

const struct wi_algo wi_broadcast_scatter_ring = {
    .name = "scatter_ring",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .summary = "binomial scatter, then ring all-gather without what is there already",
    .build = build,
    .cost = cost,
    .path = path,
};
