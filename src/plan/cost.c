/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a candidate, by closed form.
 *
 * Mapped work is bounded by what passes through this core: every byte copied or reduced, once per pass. */
#include <math.h>

#include "algo/util.h"
#include "base/alloc.h"
#include "plan/internal.h"
#include "sched/sched.h"

/* Measured with two ranks on one node (doc/guide/shared-memory.md). */
#define PIPELINE_US 3.0  /* filling and draining the three lanes of a two-shot */
#define GET_SETUP_US 2.0 /* system calls of cross-memory attach */
#define GET_FACTOR 2.5   /* its copies walk page tables and cannot stream */
#define MISS_US 0.15     /* one more signal that is there already */

/* Of the waits of a mapped algorithm, those for data that all ranks publish at the same time cost a cache miss each. Only a new
 * round of publishing makes a rank wait for another one's work, which with more ranks than cores is a context switch. */
static double waits_us(const struct wi_algo *a, double steps, double alpha)
{
    double rounds = a->traits.one_shot ? 1 : 2;

    return steps <= rounds ? steps * alpha : rounds * alpha + (steps - rounds) * MISS_US;
}

int wi_plan_streams(const struct wi_planner *p, const struct wi_algo_choice *c)
{
    return c->traits.streams || (c->spec.nlevels ? p->facts.nnodes : p->facts.nranks) == 2;
}

static int is_tree(const struct wi_algo *a)
{
    return a->traits.shape == WI_SHAPE_KNOMIAL || a->traits.shape == WI_SHAPE_TREE;
}

/* Do ranks of different nodes meet at some multiple of a distance below `radix` times it? */
static int leaves_node(const struct wi_planner *p, int distance, int radix)
{
    for (int r = 0; r < p->facts.nranks; r += radix * distance)
        for (int digit = 1; digit < radix && r + digit * distance < p->facts.nranks; digit++)
            if (p->node_of[r] != p->node_of[r + digit * distance])
                return 1;
    return 0;
}

/* How many of a tree's levels leave a node, and of the binomial tree's edges. */
static void find_tree(struct wi_planner *p)
{
    static const int radix[2] = {2, 4};
    int n = p->facts.nranks, edges = 0;

    for (int i = 0; i < 2; i++) {
        int levels = 0, remote = 0;
        for (int64_t distance = 1; distance < n; distance *= radix[i], levels++)
            remote += leaves_node(p, (int)distance, radix[i]);
        p->tree_remote[i] = levels ? (double)remote / levels : 1;
    }
    for (int r = 1; r < n; r++)
        edges += p->node_of[r] != p->node_of[r & (r - 1)];
    p->edges_remote = n > 1 ? (double)edges / (n - 1) : 1;
}

/* In the ring, the most hops within a node that end or begin at one rank: they share its core. */
static int ring_hops(const struct wi_planner *p, int r)
{
    int n = p->facts.nranks, to = p->node_of[(r + 1) % n] == p->node_of[r];

    return to + (p->node_of[(r + n - 1) % n] == p->node_of[r]);
}

/* How many ranks of a node send into its link to the others at the same time. In a ring that is those whose successor is
 * elsewhere; in most others sooner or later all of them. */
void wi_plan_find_sharing(struct wi_planner *p)
{
    int n = p->facts.nranks, ring = 1, all = 1, remote = 0;
    int *counts;

    p->ring_local = 0;
    p->ring_sharing = p->all_sharing = p->ring_remote = p->tree_remote[0] = p->tree_remote[1] = p->edges_remote = 1;
    if (p->facts.nnodes == 1 || p->facts.nnodes == n || !p->node_of)
        return;
    counts = wi_calloc(2 * (size_t)p->facts.nnodes, sizeof *counts);
    if (!counts) /* all ranks agree: a rank without memory this early does not go on to make the communicator */
        return;
    for (int r = 0; r < n; r++) {
        int *c = &counts[2 * p->node_of[r]];
        remote += p->node_of[(r + 1) % n] != p->node_of[r];
        p->ring_local = fmax(p->ring_local, ring_hops(p, r));
        c[0] += p->node_of[(r + 1) % n] != p->node_of[r];
        c[1]++;
        ring = c[0] > ring ? c[0] : ring;
        all = c[1] > all ? c[1] : all;
    }
    wi_free(counts);
    p->ring_remote = (double)remote / n;
    find_tree(p);
    p->ring_sharing = ring;
    p->all_sharing = all;
}

double wi_plan_mapped_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                         const struct wi_algo_cost *c)
{
    double us = waits_us(a, c->steps, p->params.mapped_us) + (c->sent + c->copied) / p->params.mapped_rate +
                c->reduced / wi_plan_fused(p, q);

    if (q->memory != WI_MEMORY_MAPPED && a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) {
        double own = a->needs & WI_ALGO_PEER_PUT && !q->in_place ? (double)q->bytes : 0; /* the root's */
        us += GET_SETUP_US + (GET_FACTOR - 1) * (c->copied + c->reduced - own) / p->params.mapped_rate;
    }
    if (a->traits.pipelined && c->steps >= 2)
        us += PIPELINE_US;
    return us;
}

static double local_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_cost *c)
{
    return c->steps * p->params.local_us + c->sent / p->params.local_rate + c->reduced / wi_plan_reduce_rate(p, q) +
           c->copied / wi_plan_copy_rate(p, q);
}

double wi_plan_slices(const struct wi_planner *p, const struct wi_algo *a, double bytes)
{
    return wi_algo_nslices(a, p->facts.nranks, bytes, wi_plan_slice(p, a));
}

/* The work of a rank's core for the messages from and to all ranks of other nodes. Where they arrive together at the end, because
 * they shared a link, and are processed in order, it comes after `us`; else it overlaps. */
static double crowded_us(const struct wi_planner *p, const struct wi_algo *a, double us)
{
    double core = a->traits.peer_messages * (p->facts.nranks - p->all_sharing) * p->params.message_us / 2;

    if (!a->traits.peer_messages)
        return us;
    return a->traits.peers_last ? us + core : fmax(us, p->params.network_us + core);
}

/* A rank's part of its node's link. In rings that is shared by those whose successor is elsewhere; in exchanges by all ranks of
 * the node, except where they send to each other; down and up a tree ranks of a node send one after the other. */
static double sharing(const struct wi_planner *p, const struct wi_algo *a, double vectors, double slices)
{
    int rooted = wi_coll_has_root(a->coll);

    if (a->traits.shape ==
        WI_SHAPE_ROW) { /* so many hops at a time; exchanges cross at both ends, in every other round */
        double outer = a->traits.streams || a->traits.relays ? p->outer_ring : (1 + fmax(1, 2 * p->outer_ring)) / 2;
        return fmax(1, fmax(p->ring_sharing, outer) * (a->traits.relays ? fmin(1, slices / p->facts.nranks) : 1));
    }
    if (is_tree(a) && wi_coll_is_vector(a->coll)) {
        double trees = fmax(p->outer_tree, p->all_sharing * p->edges_remote);
        return fmax(1, rooted ? trees / fmax(1, vectors) : trees);
    }
    if (rooted || p->facts.nranks < 2)
        return 1;
    return fmax(fmax(1, p->outer_all), p->all_sharing * (p->facts.nranks - p->all_sharing) / (p->facts.nranks - 1));
}

/* Of a vector collective's sizes, `sent` tells how many whole vectors leave. */
static double network_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                         const struct wi_algo_args *args, const struct wi_algo_cost *c)
{
    const struct wi_plan_link_params *f = &p->params;
    double extra = q->coll == WI_COLL_ALL_REDUCE && q->bytes ? c->sent / (double)q->bytes - c->steps : 0;
    double refill = p->facts.nranks == 2 || a->traits.streams ? 1 : WI_PLAN_REFILL;
    double remote = a->traits.shape == WI_SHAPE_ROW ? p->ring_remote
                    : is_tree(a)                    ? p->tree_remote[a->traits.shape == WI_SHAPE_KNOMIAL]
                                                    : 1;
    double slices = wi_plan_slices(p, a, (double)q->bytes),
           vectors = q->bytes ? fmax(c->sent, c->reduced) / (double)q->bytes : 1;
    double rate = f->network_rate / (refill * sharing(p, a, vectors, slices));
    int relayed = a->traits.relays && slices <= 1;
    double local = f->local_rate;

    if (a->traits.shape == WI_SHAPE_ROW && !relayed && p->ring_local > 0)
        rate = fmin(rate, local / p->ring_local);
    if (is_tree(a) && remote < 1)
        rate = slices > 1 ? fmin(rate, local / 2) : 1 / (remote / rate + (1 - remote) / local);
    struct wi_algo_rates rates = {remote * (f->network_us + f->message_us) + (1 - remote) * f->local_us,
                                  relayed ? 1 / (remote / rate + (1 - remote) / f->local_rate) : rate,
                                  wi_plan_reduce_rate(p, q),
                                  wi_plan_copy_rate(p, q),
                                  0,
                                  0};

    return crowded_us(p, a, wi_plan_form_us(p, q, a, args, &rates)) + (extra > 0 ? extra * f->message_us : 0);
}

/* Rounds one after the other, each as long as its busiest link; slices overlap what links and the core do. */
static double pattern_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                         const struct wi_plan_pattern *pattern, const struct wi_algo_cost *c)
{
    const struct wi_plan_link_params *f = &p->params;
    double share = 1 / wi_plan_slices(p, a, (double)q->bytes);
    double link = pattern->us_per_byte * (double)q->bytes * WI_PLAN_REFILL;
    double core = c->reduced / wi_plan_reduce_rate(p, q) + c->copied / wi_plan_copy_rate(p, q);

    return pattern->remote * (f->network_us + f->message_us) + pattern->local * f->local_us + share * (link + core) +
           (1 - share) * fmax(link, core);
}

/* Images are of whole blocks of the codec. Of two shots it is the rank with the longest part that others wait for: as if all had
 * one as long. */
static double whole_bytes(const struct wi_plan_query *q, double steps, int nranks)
{
    double parts = steps > 1 ? nranks : 1, block = (double)q->codec.block;

    return q->bytes && block > 0 ? parts * ceil((double)q->bytes / parts / block) * block : (double)q->bytes;
}

double wi_plan_coding_us(const struct wi_plan_query *q, double encoded, double decoded)
{
    return q->codec.id ? q->codec.work * (encoded / q->codec.encode_rate + decoded / q->codec.decode_rate) : 0;
}

/* Of a coded algorithm: messages to others that leave at the same time each cost the core a little. */
static double beside(const struct wi_planner *p, const struct wi_algo *a, const struct wi_algo_args *args)
{
    if (a->traits.shape == WI_SHAPE_FAN)
        return p->facts.nranks - 2;
    return a->traits.shape == WI_SHAPE_KNOMIAL ? fmax(0, fmin(wi_algo_radix(args), p->facts.nranks) - 2) : 0;
}

/* The first slice takes the longest way, and has to be encoded and decoded; the others follow as fast as the link or the core lets
 * them. */
static double coded_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                       const struct wi_algo_args *args, struct wi_algo_cost *c)
{
    const struct wi_plan_link_params *f = &p->params;
    double bytes = whole_bytes(q, c->steps, p->facts.nranks);
    struct wi_algo_coding coding = a->coding(args, bytes);
    int network = p->facts.nnodes > 1;
    double slices = wi_plan_slices(p, a, bytes), vectors = q->bytes ? c->sent / (double)q->bytes : 1,
           alpha = network ? f->network_us + f->message_us : f->local_us;
    double rate = network ? f->network_rate / (WI_PLAN_REFILL * sharing(p, a, vectors, slices)) : f->local_rate;
    struct wi_algo_cost way;

    a->cost(args, bytes, c);
    way = *c;
    if (a->path)
        a->path(args, bytes, &way);
    double link = c->sent * q->codec.ratio / rate, first = way.sent * q->codec.ratio / rate,
           messages = c->steps * beside(p, a, args) * (network ? f->message_us : 0);
    double core = wi_plan_coding_us(q, coding.encoded, coding.decoded) + c->reduced / wi_plan_reduce_rate(p, q) +
                  c->copied / wi_plan_copy_rate(p, q);

    return c->steps * alpha + messages + (first + core) / slices + (1 - 1 / slices) * fmax(link, core);
}

double wi_plan_flat_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                       struct wi_algo_cost *cost)
{
    struct wi_algo_args args = {.rank = q->root, .nranks = p->facts.nranks, .root = q->root, .in_place = q->in_place};

    const struct wi_plan_pattern *pattern;

    *cost = (struct wi_algo_cost){0};
    a->cost(&args, (double)q->bytes, cost);
    if (a->needs & WI_ALGO_MAPPED)
        return wi_plan_mapped_us(p, q, a, cost);
    if (a->coding)
        return coded_us(p, q, a, &args, cost);
    if (p->facts.nnodes == 1)
        return local_us(p, q, cost);
    pattern = wi_plan_pattern_of(p, a);
    return pattern ? pattern_us(p, q, a, pattern, cost) : network_us(p, q, a, &args, cost);
}

/* ---- Hierarchical ---- */

static double at_bytes(double none, double one, double bytes)
{
    return none + (one - none) * (bytes / WI_PLAN_SAMPLE);
}

/* Of a stage whose messages are images: fewer bytes on the link, and work for the core, which overlap but for the first slice. */
static double images_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h, int i,
                        double link)
{
    const struct wi_algo_coding *a = &h->none.stage[i].coding, *b = &h->one.stage[i].coding;
    double bytes = (double)q->bytes, core = wi_plan_coding_us(q, at_bytes(a->encoded, b->encoded, bytes),
                                                              at_bytes(a->decoded, b->decoded, bytes));
    double slices = fmax(1, h->one.stage[i].cost.sent * (bytes / WI_PLAN_SAMPLE) / (double)p->slice_bytes);

    if (!b->encoded || !q->codec.id)
        return link;
    link *= q->codec.ratio;
    return fmax(link, core) + fmin(link, core) / slices;
}

/* Each stage with its own link. Chunks pass through the stages one behind the other, so that the slowest stage counts in full
 * and the others for one chunk. */
double wi_plan_hier_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                       int nchunks, struct wi_algo_cost *cost)
{
    const struct wi_plan_link_params *f = &p->params;
    double reduce_rate = wi_plan_reduce_rate(p, q), copy_rate = wi_plan_copy_rate(p, q), bytes = (double)q->bytes;
    double total = 0, most = 0;
    int levels = 0;

    *cost = (struct wi_algo_cost){0};
    for (int i = 0; i < h->none.nstages; i++) {
        levels += h->one.stage[i].chain > 0;
        const struct wi_algo_cost *a = &h->none.stage[i].cost, *b = &h->one.stage[i].cost;
        int network = wi_plan_stage_is_remote(p, h, i);
        double own = at_bytes(a->sent, b->sent, bytes), us = 0;
        double reduced = at_bytes(a->reduced, b->reduced, bytes), copied = at_bytes(a->copied, b->copied, bytes);
        if (network) {
            double all = at_bytes(h->none.stage[i].link_sent, h->one.stage[i].link_sent, bytes);
            us = wi_plan_stage_link_us(p, h, i, fmax(own, reduced), all) * /* what is reduced came in */
                 (wi_plan_streams(p, &h->choice) ? 1 : WI_PLAN_REFILL);
        } else {
            us = own / f->local_rate;
        }
        us = images_us(p, q, h, i, us);
        double chain = h->one.stage[i].chain, more = fmax(0, h->one.stage[i].messages - chain);
        us += nchunks * more *
              (network ? f->message_us : WI_PLAN_LOCAL_CORE * f->local_us); /* the core's part of a message */
        us += nchunks * chain * (network ? f->network_us + f->message_us : f->local_us) + reduced / reduce_rate +
              copied / copy_rate;
        total += us / nchunks;
        most = us > most ? us : most;
        cost->steps += a->steps;
        cost->sent += own;
        cost->reduced += reduced;
        cost->copied += copied;
    }
    return levels > 2 ? total * nchunks : total + most * (nchunks - 1) / nchunks;
}

int wi_plan_nchunks(const struct wi_algo_choice *c)
{
    return c->spec.nchunks ? c->spec.nchunks : 1;
}

/* The planner's candidate for this choice, or one made in *own; NULL: there is no memory. */
static const struct wi_plan_hier *find_hier(const struct wi_planner *p, const struct wi_plan_query *q,
                                            const struct wi_algo_choice *c, struct wi_plan_hier *own)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks,
                                .root = q->root < 0 ? 0 : q->root,
                                .in_place = q->in_place,
                                .levels = p->facts.levels,
                                .spec = &c->spec};
    int index = wi_plan_hier_index(p, c);

    if (index >= 0)
        return &p->hier[index];
    own->choice = *c;
    if (wi_algo_level_cost(&args, q->coll, 0, &own->none) < 0 ||
        wi_algo_level_cost(&args, q->coll, WI_PLAN_SAMPLE, &own->one) < 0)
        return NULL;
    return own;
}

struct wi_plan_pipeline wi_plan_pipeline_of(const struct wi_planner *p, const struct wi_plan_query *q,
                                            const struct wi_algo_choice *c)
{
    struct wi_plan_pipeline pipeline = {0};
    const struct wi_plan_hier *h;
    struct wi_plan_hier own;

    if (c->spec.mapped && (h = find_hier(p, q, c, &own)) != NULL)
        wi_plan_pipeline_us(p, q, h, c->spec.nchunks, &pipeline);
    return pipeline;
}

static double formula_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                         struct wi_algo_cost *cost)
{
    struct wi_plan_pipeline pipeline;
    const struct wi_plan_hier *h;
    struct wi_plan_hier own;
    double us;

    if (!c->spec.nlevels)
        return wi_plan_flat_us(p, q, c->algo, cost);
    *cost = (struct wi_algo_cost){0};
    h = find_hier(p, q, c, &own);
    if (!h)
        return NAN;
    us = wi_plan_hier_us(p, q, h, wi_plan_nchunks(c), cost);
    return c->spec.mapped ? wi_plan_pipeline_us(p, q, h, c->spec.nchunks, &pipeline) : us;
}

double wi_plan_price(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_algo_choice *c,
                     struct wi_algo_cost *cost)
{
    wi_algo_choice_for(c, (double)q->bytes);
    return formula_us(p, q, c, cost);
}

double wi_plan_choice_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                         struct wi_algo_cost *cost)
{
    struct wi_algo_choice choice = *c;

    return wi_plan_price(p, q, &choice, cost);
}
