/* SPDX-License-Identifier: BSD-3-Clause */
/* What a candidate takes, by the simulator's events: where few ranks share the links of several hosts, who meets whom on which
 * link decides, and no short formula knows that.
 *
 * On a graph of the ranks if nothing was measured and it has links that figures cannot express, between racks or several of
 * a host; else on hosts whose links have the rate that the figures say.
 *
 * Prices are kept for powers of two of bytes, root 0, and lie on lines in between, so that a communicator pays for each
 * (candidate, power of two, kind of reduction) at most once. They depend on figures, levels and candidates only, which all ranks
 * have agreed on; the arithmetic is the same everywhere (the compiler may not contract it). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/internal.h"
#include "sched/internal.h"
#include "sim/cost.h"

#define MOST_RANKS 16
#define MOST_UNITS 2000u /* messages and local pieces of one run: about a millisecond */
#define FIRST_POWER 3    /* 8 bytes */
#define NPOWERS 32       /* to 16 GiB */
#define DEPTHS 3
/* More chunks are taken for that much: adapters say what they could do, and on a slower link chunks pay more. */
#define DEEPER 1.05

struct price {
    float us;  /* 0: not known yet; below 0: has none */
    int depth; /* hierarchical: chunks */
};

struct wi_plan_events {
    int starved; /* a price was not found for want of memory: the other ranks have it */
    const struct wi_model *model;
    struct wi_model *own;
    int nflat;
    struct price (*price[WI_PLAN_WORKS])
        [NPOWERS]; /* by price class; of wi_algos in their order, then of hierarchical candidates */
};

static int count_algos(void)
{
    int n = 0;

    while (wi_algos[n])
        n++;
    return n;
}

weft_status wi_plan_events_init(struct wi_planner *p)
{
    struct wi_plan_events *e;

    if (!p->node_of || p->facts.nnodes < 2 || p->facts.nranks > MOST_RANKS)
        return WEFT_SUCCESS;
    e = wi_calloc(1, sizeof *e);
    if (!e) /* formulas may choose otherwise than the other ranks' events */
        return wi_fail(WEFT_ENOMEM, "prices of algorithms");
    e->nflat = count_algos();
    e->price[0] = wi_calloc((size_t)(e->nflat + p->nhier), sizeof **e->price);
    e->own = p->graph ? NULL : wi_plan_hosts_model(&p->facts, p->node_of, &p->figures);
    e->model = p->graph ? p->graph : e->own;
    p->events = e;
    if (!e->price[0] || !e->model)
        return wi_fail(WEFT_ENOMEM, "prices of algorithms");
    return WEFT_SUCCESS;
}

weft_status wi_plan_events_starved(const struct wi_planner *p)
{
    if (!p->events || !p->events->starved)
        return WEFT_SUCCESS;
    p->events->starved = 0;
    return wi_fail(WEFT_ENOMEM, "price of an algorithm");
}

void wi_plan_events_fini(struct wi_planner *p)
{
    if (!p->events)
        return;
    wi_model_destroy(p->events->own);
    for (int i = 0; i < WI_PLAN_WORKS; i++)
        wi_free(p->events->price[i]);
    wi_free(p->events);
    p->events = NULL;
}

/* ---- One run ---- */

static weft_status build_all(const struct wi_planner *p, const struct wi_algo_choice *c,
                             struct wi_sched *scheds[MOST_RANKS])
{
    struct wi_algo_args args = {.nranks = p->facts.nranks, .levels = p->facts.levels, .spec = &c->spec};

    for (args.rank = 0; args.rank < p->facts.nranks; args.rank++)
        WI_TRY(c->algo->build(&args, &scheds[args.rank]));
    return WEFT_SUCCESS;
}

/* Shares that a schedule cuts are whole elements. */
static size_t whole(const struct wi_sched *sched, size_t bytes)
{
    size_t unit = wi_coll_is_vector(sched->coll) ? 4 : 4 * (size_t)sched->nblocks;

    return unit ? (bytes + unit - 1) / unit * unit : bytes;
}

/* Below 0: it has no price. */
static double run(const struct wi_planner *p, const struct wi_algo_choice *c, size_t bytes)
{
    struct wi_sched *scheds[MOST_RANKS] = {NULL};
    struct wi_sim_cost cost = {.us = -1};
    weft_status st = build_all(p, c, scheds);

    if (st >= 0)
        st = wi_sim_cost_within((const struct wi_sched *const *)scheds, p->facts.nranks, whole(scheds[0], bytes),
                                p->events->model, wi_plan_slice(p, c->algo), MOST_UNITS, &cost);
    for (int r = 0; r < p->facts.nranks; r++)
        wi_sched_put(scheds[r]);
    if (st >= 0)
        return cost.us;
    p->events->starved |= st == WEFT_ENOMEM;
    wi_fail_clear();
    return -1;
}

/* ---- Prices ---- */

/* Chunks worth a try, fewest first: each keeps a link busy for a while. Returns how many. */
static int depths_for(size_t bytes, int depths[DEPTHS])
{
    static const int few[DEPTHS] = {1, 2, 4}, some[DEPTHS] = {2, 4, 8}, many[DEPTHS] = {8, 16, 0};

    memcpy(depths, bytes >= 4 << 20 ? many : bytes >= 512 << 10 ? some : few, sizeof few);
    return bytes >= 4 << 20 ? 2 : bytes >= 64 << 10 ? DEPTHS : 1;
}

/* For all of a class. */
static uint8_t work_of(const struct wi_planner *p, const struct wi_plan_query *q)
{
    return p->gammas.first[p->gammas.reduce[q->work].price_class];
}

static void find_price(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                       int power, struct price *price)
{
    size_t bytes = (size_t)1 << (FIRST_POWER + power);
    struct wi_plan_query there = {.coll = q->coll, .bytes = bytes, .work = work_of(p, q)};
    int depths[DEPTHS], n;

    *price = (struct price){-1, 1};
    if (p->events->own) /* a graph has rates of its own */
        wi_plan_hosts_model_rates(p->events->own, wi_plan_kappa(p, &there), wi_plan_gamma(p, &there));
    n = wi_algo_has_depth(c) ? depths_for(bytes, depths) : 0;
    if (!n)
        price->us = (float)run(p, c, bytes);
    for (int i = 0; i < n; i++) {
        struct wi_algo_choice one = *c;
        wi_hier_cut(&one.spec, depths[i]);
        double us = run(p, &one, bytes);
        if (us >= 0 && (price->us < 0 || us < DEEPER * (double)price->us))
            *price = (struct price){(float)us, depths[i]};
    }
}

static int index_of(const struct wi_planner *p, const struct wi_algo_choice *c)
{
    int hier = c->spec.nlevels ? wi_plan_hier_index(p, c) : -1;

    if (c->spec.nlevels)
        return hier < 0 ? -1 : p->events->nflat + hier;
    for (int i = 0; i < p->events->nflat; i++)
        if (wi_algos[i] == c->algo)
            return i;
    return -1;
}

/* The price of this power; 0: it has none. Without memory to keep it, it is found each time: the same price. */
static int price_at(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                    int index, int power, struct price *price)
{
    struct wi_plan_events *e = p->events;
    int class = p->gammas.reduce[q->work].price_class;
    struct wi_algo_choice base = *c;

    if (!e->price[class])
        e->price[class] = wi_calloc((size_t)(e->nflat + p->nhier), sizeof **e->price);
    *price = e->price[class] ? e->price[class][index][power] : (struct price){0, 0};
    if (price->us == 0) {
        base.spec.depth = 0;
        find_price(p, q, &base, power, price);
        if (e->price[class] && !e->starved)
            e->price[class][index][power] = *price;
    }
    return price->us > 0;
}

static int power_below(size_t bytes)
{
    int power = 0;

    while (power + 2 < NPOWERS && ((size_t)1 << (FIRST_POWER + power + 1)) <= bytes)
        power++;
    return power;
}

double wi_plan_events_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                         int *depth)
{
    int index = p->events && !(c->needs & (WI_ALGO_MAPPED | WI_ALGO_CHAIN)) ? index_of(p, c) : -1,
        power = power_below(q->bytes);
    double low_bytes = (double)((size_t)1 << (FIRST_POWER + power));
    struct price low, high;

    if (index < 0 || !price_at(p, q, c, index, power, &low))
        return -1;
    *depth = low.depth;
    if ((double)q->bytes <= low_bytes)
        return (double)low.us;
    if (!price_at(p, q, c, index, power + 1, &high))
        return -1;
    return (double)low.us + ((double)high.us - (double)low.us) * ((double)q->bytes - low_bytes) / low_bytes;
}
