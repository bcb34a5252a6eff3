/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which a ring visits its stops. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/placement.h"

#define MOST_IMPROVED 512
#define MOST_ROUNDS 64
/* What one microsecond of latency weighs against a byte's time: enough to decide between equals, no more. */
#define LATENCY_WEIGHT 1e-9
#define MOST_COST 1e6 /* of a hop: a model's rates may be as small as it likes */
#define NEVER 1e9

struct tour {
    int n;
    double *cost; /* [n][n] */
    int *stops;   /* the tour */
};

double wi_hop_cost(const struct wi_model *m, int from, int to)
{
    struct wi_model_path path;
    double cost = 0;

    if (from == to)
        return 0;
    m->path(m, from, to, &path);
    for (int i = 0; i < path.nresources; i++) {
        int32_t resource = (int32_t)path.resources[i];
        /* Whatever the order, each core copies once in and once out. */
        if (resource != m->ranks[from].engine && resource != m->ranks[to].engine)
            cost += 1 / m->resources[resource].rate;
    }
    return fmin(cost + LATENCY_WEIGHT * path.latency, MOST_COST);
}

static double tour_cost(const struct tour *t, const int *stops)
{
    double cost = 0;

    for (int i = 0; i < t->n; i++)
        cost += t->cost[stops[i] * t->n + stops[(i + 1) % t->n]];
    return cost;
}

/* Each stop is left by some hop and entered by some hop: the larger of the two sums of cheapest ones. */
static double lower_bound(const struct tour *t)
{
    double out = 0, in = 0;

    for (int i = 0; i < t->n && t->n > 1; i++) {
        double least_out = DBL_MAX, least_in = DBL_MAX;
        for (int k = 0; k < t->n; k++) {
            if (k == i)
                continue;
            least_out = fmin(least_out, t->cost[i * t->n + k]);
            least_in = fmin(least_in, t->cost[k * t->n + i]);
        }
        out += least_out;
        in += least_in;
    }
    return fmax(out, in);
}

/* ---- Exact ---- */

/* best[set][last]: the cheapest way from stop 0 through the set (of stops 1 …) that ends at `last`, which is in it. */
static void solve(struct tour *t)
{
    enum { SETS = 1 << (WI_RING_EXACT - 1) };
    double best[SETS][WI_RING_EXACT];
    int8_t before[SETS][WI_RING_EXACT];
    int others = t->n - 1, all = (1 << others) - 1, last = 0;

    for (int set = 1; set <= all; set++)
        for (int at = 0; at < others; at++) {
            best[set][at] = DBL_MAX;
            before[set][at] = -1;
            if (!(set & 1 << at))
                continue;
            int rest = set & ~(1 << at);
            if (!rest)
                best[set][at] = t->cost[at + 1];
            for (int from = 0; from < others; from++) {
                if (!(rest & 1 << from))
                    continue;
                double cost = best[rest][from] + t->cost[(from + 1) * t->n + at + 1];
                if (cost < best[set][at]) {
                    best[set][at] = cost;
                    before[set][at] = (int8_t)from;
                }
            }
        }
    for (int at = 1; at < others; at++)
        if (best[all][at] + t->cost[(at + 1) * t->n] < best[all][last] + t->cost[(last + 1) * t->n])
            last = at;
    t->stops[0] = 0;
    for (int set = all, i = others; i > 0; i--) {
        t->stops[i] = last + 1;
        int previous = before[set][last];
        set &= ~(1 << last);
        last = previous;
    }
}

/* ---- Heuristic ---- */

static void visit_nearest(const struct tour *t, int *stops, char *seen)
{
    memset(seen, 0, (size_t)t->n);
    stops[0] = 0;
    seen[0] = 1;
    for (int i = 1; i < t->n; i++) {
        int nearest = -1;
        const double *from = t->cost + (size_t)stops[i - 1] * (size_t)t->n;
        for (int k = 0; k < t->n; k++)
            if (!seen[k] && (nearest < 0 || from[k] < from[nearest]))
                nearest = k;
        stops[i] = nearest;
        seen[nearest] = 1;
    }
}

/* Gains below rounding are none, or rounds would not end. */
static int is_gain(double now, double then)
{
    return then < now * (1 - 1e-12);
}

static void turn(int *stops, int low, int high)
{
    for (; low < high; low++, high--) {
        int other = stops[low];
        stops[low] = stops[high];
        stops[high] = other;
    }
}

/* Costs may differ by direction, so a turned part is summed anew. */
static int two_opt(const struct tour *t, int *stops)
{
    int n = t->n, improved = 0;

    for (int i = 0; i + 2 < n; i++) {
        double forth = 0, back = 0;
        for (int k = i + 2; k < n; k++) {
            const double *c = t->cost;
            int a = stops[i], b = stops[i + 1], y = stops[k], z = stops[(k + 1) % n];
            if (k == i + 2) {
                forth = c[b * n + y];
                back = c[y * n + b];
            } else {
                forth += c[stops[k - 1] * n + y];
                back += c[y * n + stops[k - 1]];
            }
            if (!is_gain(c[a * n + b] + forth + c[y * n + z], c[a * n + y] + back + c[b * n + z]))
                continue;
            turn(stops, i + 1, k);
            improved = 1;
            break;
        }
    }
    return improved;
}

/* One stop elsewhere. */
static int move_one(const struct tour *t, int *stops)
{
    int n = t->n, improved = 0;
    const double *c = t->cost;

    for (int i = 1; i < n; i++) {
        int x = stops[i], a = stops[i - 1], b = stops[(i + 1) % n], best = -1;
        double gain = c[a * n + x] + c[x * n + b] - c[a * n + b], best_loss = gain * (1 - 1e-9);
        for (int k = 0; k < n; k++) {
            int from = stops[k], to = stops[(k + 1) % n];
            if (k == i || k == i - 1)
                continue;
            double loss = c[from * n + x] + c[x * n + to] - c[from * n + to];
            if (loss < best_loss) {
                best_loss = loss;
                best = k;
            }
        }
        if (best < 0)
            continue;
        /* Behind stops[best], which moves by one if it comes later. */
        if (best > i) {
            memmove(stops + i, stops + i + 1, (size_t)(best - i) * sizeof(*stops));
            stops[best] = x;
        } else {
            memmove(stops + best + 2, stops + best + 1, (size_t)(i - best - 1) * sizeof(*stops));
            stops[best + 1] = x;
        }
        improved = 1;
    }
    return improved;
}

static void improve(const struct tour *t, int *stops)
{
    for (int round = 0; round < MOST_ROUNDS; round++) {
        int turned = two_opt(t, stops), moved = move_one(t, stops);
        if (!turned && !moved)
            return;
    }
}

/* From the tour along the levels (the order in which the stops came) and from the nearest neighbours: the better one. */
static weft_status search(struct tour *t)
{
    int *other = wi_malloc((size_t)t->n * sizeof(*other));
    char *seen = wi_malloc((size_t)t->n);

    if (!other || !seen) {
        wi_free(other);
        wi_free(seen);
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a ring of %d", t->n);
    }
    visit_nearest(t, other, seen);
    improve(t, t->stops);
    improve(t, other);
    if (tour_cost(t, other) < tour_cost(t, t->stops))
        memcpy(t->stops, other, (size_t)t->n * sizeof(*other));
    wi_free(other);
    wi_free(seen);
    return WEFT_SUCCESS;
}

/* ---- Along the levels ---- */

struct key {
    const struct wi_model *m;
    int stop, rank;
};

static int by_level(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;

    for (int l = 0; l < a->m->nlevels; l++) {
        int ga = a->m->levels[l].group[a->rank], gb = a->m->levels[l].group[b->rank];
        if (ga != gb)
            return ga < gb ? -1 : 1;
    }
    if (a->m->ranks[a->rank].host != a->m->ranks[b->rank].host)
        return a->m->ranks[a->rank].host < a->m->ranks[b->rank].host ? -1 : 1;
    return (a->stop > b->stop) - (a->stop < b->stop);
}

/* Then turned so that stop 0 is first. */
static weft_status visit_levels(const struct wi_model *m, const int32_t *ranks, struct tour *t)
{
    struct key *keys = wi_malloc((size_t)t->n * sizeof(*keys));
    int first = 0;

    if (!keys)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a ring of %d", t->n);
    for (int i = 0; i < t->n; i++)
        keys[i] = (struct key){m, i, ranks ? ranks[i] : i};
    qsort(keys, (size_t)t->n, sizeof(*keys), by_level);
    while (keys[first].stop != 0)
        first++;
    for (int i = 0; i < t->n; i++)
        t->stops[i] = keys[(first + i) % t->n].stop;
    wi_free(keys);
    return WEFT_SUCCESS;
}

/* Of a tour and its reverse, if both cost the same, the one that begins by the smaller number. */
static void choose_direction(const struct tour *t)
{
    double cost = tour_cost(t, t->stops);

    if (t->n < 3 || t->stops[1] < t->stops[t->n - 1])
        return;
    turn(t->stops, 1, t->n - 1);
    if (is_gain(tour_cost(t, t->stops), cost))
        turn(t->stops, 1, t->n - 1);
}

static weft_status find_order(const struct wi_model *m, const int32_t *ranks, int last, int exact, struct tour *t,
                              struct wi_ring_cost *cost)
{
    size_t n = (size_t)t->n;

    t->cost = wi_malloc(n * n * sizeof(*t->cost));
    if (!t->cost)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a ring of %d", t->n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            t->cost[i * n + k] = wi_hop_cost(m, ranks ? ranks[i] : (int)i, ranks ? ranks[k] : (int)k);
    /* Nothing but `last` may close the ring. */
    for (size_t i = 1; last > 0 && i < n; i++)
        t->cost[i * n] = i == (size_t)last ? 0 : NEVER;
    exact = exact && t->n <= WI_RING_EXACT && t->n > 1;
    if (exact)
        solve(t);
    else
        WI_TRY(search(t));
    choose_direction(t);
    if (cost) {
        cost->cost = tour_cost(t, t->stops);
        cost->bound = exact || t->n < 2 ? cost->cost : lower_bound(t);
    }
    return WEFT_SUCCESS;
}

static weft_status ring_order(const struct wi_model *m, const int32_t *ranks, int n, int last, int exact,
                              int32_t *order, struct wi_ring_cost *cost)
{
    struct tour t = {.n = n};
    double sum = 0;

    if (n < 1)
        return wi_fail(WEFT_EINVAL, "topology: a ring of %d", n);
    for (int i = 0; ranks && i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= m->nranks)
            return wi_fail(WEFT_EINVAL, "topology: rank %d of %d in a ring", ranks[i], m->nranks);
    t.stops = wi_malloc((size_t)n * sizeof(*t.stops));
    if (!t.stops)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a ring of %d", n);
    weft_status st = visit_levels(m, ranks, &t);
    if (st == WEFT_SUCCESS && n <= MOST_IMPROVED)
        st = find_order(m, ranks, last, exact, &t, cost);
    for (int i = 0; i < n && st == WEFT_SUCCESS; i++)
        order[i] = ranks ? ranks[t.stops[i]] : t.stops[i];
    for (int i = 0; i < n && st == WEFT_SUCCESS && n > MOST_IMPROVED; i++)
        sum += wi_hop_cost(m, order[i], order[(i + 1) % n]);
    if (st == WEFT_SUCCESS && n > MOST_IMPROVED && cost)
        *cost = (struct wi_ring_cost){sum, 0};
    wi_free(t.cost);
    wi_free(t.stops);
    return st;
}

weft_status wi_ring_order(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order,
                          struct wi_ring_cost *cost)
{
    return ring_order(m, ranks, n, 0, 1, order, cost);
}

weft_status wi_ring_order_heuristic(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order,
                                    struct wi_ring_cost *cost)
{
    return ring_order(m, ranks, n, 0, 0, order, cost);
}

weft_status wi_chain_order(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order)
{
    if (n > MOST_IMPROVED || n < 3) {
        memcpy(order, ranks, (size_t)n * sizeof(*order));
        return WEFT_SUCCESS;
    }
    return ring_order(m, ranks, n, n - 1, 1, order, NULL);
}
