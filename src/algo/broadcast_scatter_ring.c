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
#include <string.h>

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

/* ---- Closed form ---- */

struct timing {
    int n;
    double block_us, alpha;
    double left[32], done[32]; /* of what the root scatters, by ascending size */
    int nleft;
    double latest; /* when a rank before can have begun its part of the ring, as if it were rank 0 */
    double finish;
};

/* When the root's ring has sent `count` blocks, one part of a link that it shares with what is still being scattered. */
static double root_sent(const struct timing *t, int count)
{
    double now = 0, sent = 0;

    for (int i = 0; i < t->nleft; i++) {
        double more = (t->done[i] - now) / (t->nleft - i + 1);
        if (sent + more >= count * t->block_us)
            return now + (count * t->block_us - sent) * (t->nleft - i + 1);
        sent += more;
        now = t->done[i];
    }
    return now + count * t->block_us - sent;
}

/* The last block that rank v gets round the ring left the root so that v hops end there; and no rank on the way can have sent
 * its own part later than that. */
static void arrive(struct timing *t, int v, double scattered, double held_up)
{
    int size = wi_knomial_size(v, t->n, 2);
    double by_root = root_sent(t, t->n - size - v + 1) + v * t->alpha + (v - 1) * t->block_us;
    double by_others = t->latest + (t->n - size) * t->block_us + v * t->alpha;
    double ring = by_root > by_others ? by_root : by_others, early = scattered + held_up - v * t->alpha;

    t->finish = ring > t->finish ? ring : t->finish;
    t->finish = scattered > t->finish ? scattered : t->finish;
    t->latest = early > t->latest ? early : t->latest;
}

/* Ranks in ascending order: a rank, then the subtrees of its children. */
static void scattered_to(struct timing *t, int v, double ready)
{
    struct wi_knomial tree = wi_knomial_of(v, t->n, 2);
    double begin[33], left[33], done[33], ring;
    int k = tree.nchildren;

    for (int i = 0; i < k; i++) {
        begin[i] = 0;
        left[i] = wi_knomial_size(wi_knomial_child(&tree, i), t->n, 2) * t->block_us;
    }
    begin[k] = 0;
    ring = v < t->n - 1 ? (t->n - wi_knomial_size(v + 1, t->n, 2)) * t->block_us : 0;
    left[k] = ring;
    wi_algo_share_link(begin, left, k + 1, done);
    if (v == 0) {
        memcpy(t->done, done, (size_t)k * sizeof *done);
        t->nleft = k;
        for (int i = k - 1; i > 0 && t->done[i] < t->done[i - 1];
             i--) { /* only the last child's subtree is cut short */
            double later = t->done[i - 1];
            t->done[i - 1] = t->done[i];
            t->done[i] = later;
        }
    } else {
        arrive(t, v, ready, done[k] - ring);
    }
    for (int i = 0; i < k; i++)
        scattered_to(t, wi_knomial_child(&tree, i), ready + done[i] + t->alpha);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    struct timing t = {.n = args->nranks, .alpha = rates->alpha};

    if (t.n == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->kappa);
    t.block_us = wi_algo_over(bytes / t.n, rates->beta);
    scattered_to(&t, 0, 0);
    return t.finish;
}

const struct wi_algo wi_broadcast_scatter_ring = {
    .name = "scatter_ring",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .summary = "binomial scatter, then ring all-gather without what is there already",
    .build = build,
    .cost = cost,
    .time = time_of,
};
