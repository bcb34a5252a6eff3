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
#include <math.h>

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

/* Ranks in ascending order: when each has its part of the scatter, and when each message of its part of the ring leaves, which
 * shares its link with what it scatters on. Of more than FOLLOWED ranks that is as if rows of them were one, with the row's
 * blocks and hops. */
#define FOLLOWED 128

struct timing {
    int n;
    double block_us, hop_us, alpha; /* hop: round the ring; alpha: of the scatter */
    double left[FOLLOWED];          /* when each message of the newest rank's ring has left it */
    int sends;                      /* how many these are */
    double finish;
};

struct link {         /* a rank's, out */
    double child[32]; /* what is still to be scattered */
    double done[32];
    int n, nleft;
    double now;
};

/* The link until `until`, or until all is scattered; with `ring` of a message (NULL: none is there), until that has left. */
static void share(struct link *l, double until, double *ring)
{
    while (l->nleft && l->now < until && (!ring || *ring > 0)) {
        double least = ring ? *ring : INFINITY, flows = l->nleft + (ring != NULL);
        for (int i = 0; i < l->n; i++)
            least = l->child[i] >= 0 ? fmin(least, l->child[i]) : least;
        least = fmin(least, (until - l->now) / flows);
        l->now = fmin(until, l->now + least * flows);
        for (int i = 0; i < l->n; i++) {
            if (l->child[i] < 0)
                continue;
            l->child[i] -= least;
            if (l->child[i] > 1e-9 * l->now)
                continue;
            l->child[i] = -1;
            l->done[i] = l->now;
            l->nleft--;
        }
        if (ring)
            *ring = *ring - least > 1e-9 * l->now ? *ring - least : 0;
    }
}

/* Message k goes when k have come from the rank before, but for the first, and for those that the scatter brought. */
static void ring_leaves(struct timing *t, int v, double ready, struct link *l)
{
    int sends = v < t->n - 1 ? t->n - wi_knomial_size(v + 1, t->n, 2) : 0;
    int comes = v > 0 ? t->n - wi_knomial_size(v, t->n, 2) : 0;
    double before = 0;

    for (int k = 0; k < sends; k++) {
        double more = t->block_us, may_go = k == 0 || k > comes ? ready : before + t->hop_us;
        before = t->left[k]; /* of the rank before, until it is written */
        share(l, may_go, NULL);
        l->now = fmax(l->now, may_go);
        share(l, INFINITY, &more);
        t->left[k] = l->now += more;
    }
    share(l, INFINITY, NULL);
    t->sends = sends;
}

static void scattered_to(struct timing *t, int v, double ready)
{
    struct wi_knomial tree = wi_knomial_of(v, t->n, 2);
    struct link l = {.n = tree.nchildren, .nleft = tree.nchildren, .now = ready};

    for (int i = 0; i < l.n; i++)
        l.child[i] = wi_knomial_size(wi_knomial_child(&tree, i), t->n, 2) * t->block_us;
    if (v > 0 && t->sends)
        t->finish = fmax(t->finish, t->left[t->sends - 1] + t->hop_us);
    t->finish = fmax(t->finish, ready);
    ring_leaves(t, v, ready, &l);
    for (int i = 0; i < l.n; i++)
        scattered_to(t, wi_knomial_child(&tree, i), l.done[i] + t->alpha);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    struct timing t = {.n = args->nranks};
    int n = args->nranks, row = 1;

    if (n == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);
    while ((n + row - 1) / row > FOLLOWED)
        row *= 2;
    t.n = (n + row - 1) / row;
    t.block_us = wi_algo_over(bytes / t.n, rates->beta);
    t.hop_us = rates->alpha * n / t.n;
    t.alpha = rates->alpha * wi_log2_ceil(n) / wi_log2_ceil(t.n);
    scattered_to(&t, 0, 0);
    return t.finish;
}

const struct wi_algo wi_broadcast_scatter_ring = {
    .name = "scatter_ring",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .streams = 1, .slices = WI_SLICES_OF_SHARES},
    .summary = "binomial scatter, then ring all-gather without what is there already",
    .build = build,
    .cost = cost,
    .time = time_of,
};
