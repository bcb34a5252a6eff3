/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges in rounds, event by event. Times in microseconds; what a message has left is what it needs of a link alone. */
#include <math.h>

#include "algo/rounds.h"
#include "base/alloc.h"

#define NONE (-1)
#define BESIDE (-2) /* as a round */

enum event_kind { DRAINED, ARRIVED, WORKED };

struct event {
    double time;
    uint64_t order;
    uint32_t id;   /* DRAINED: message; ARRIVED, WORKED: actor */
    uint32_t what; /* ARRIVED: round; DRAINED: the message's count of rates: an older event does not count */
    enum event_kind kind;
};

struct message { /* on its way through two links */
    int32_t link[2], round;
    int32_t next[2];          /* on the same link; next[0] also of free ones */
    double left, rate, since; /* of each of `weight` messages alike */
    int32_t weight;
    uint32_t rates;
    uint8_t frozen;
};

struct link {
    int32_t first, n, left_n; /* messages; those whose rate is not known yet */
    double left;
    uint32_t mark;
};

struct actor {
    uint64_t arrived, left; /* bit for each round: what it waits for, what it sent and is in its link no more */
    int32_t k;
    uint8_t queued, waits_message, waits_drain, over;
    struct wi_round now;
};

struct net {
    const struct wi_rounds *p;
    const struct wi_algo_rates *rates;
    struct actor *actors;
    struct link *links; /* of actor a: 2a out, 2a + 1 in */
    struct message *messages;
    int32_t *component, *changed; /* links */
    int nchanged, nmessages, free_message;
    struct event *heap;
    uint32_t nheap, heap_capacity, mark;
    uint64_t order;
    double now, end; /* end: of the last actor that is over */
    int failed;
};

/* ---- Events ---- */

static int before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void event_add(struct net *n, double time, enum event_kind kind, int id, uint32_t what)
{
    struct event e = {time, n->order++, (uint32_t)id, what, kind};
    uint32_t at = n->nheap;

    if (at == n->heap_capacity) {
        struct event *more = wi_realloc(n->heap, 2 * (size_t)at * sizeof *more);
        if (!more) {
            n->failed = 1;
            return;
        }
        n->heap = more;
        n->heap_capacity = 2 * at;
    }
    for (n->nheap++; at && before(&e, &n->heap[(at - 1) / 2]); at = (at - 1) / 2)
        n->heap[at] = n->heap[(at - 1) / 2];
    n->heap[at] = e;
}

static struct event event_pop(struct net *n)
{
    struct event first = n->heap[0], e = n->heap[--n->nheap];
    uint32_t at = 0;

    for (uint32_t c = 1; c < n->nheap; c = 2 * at + 1) {
        c += c + 1 < n->nheap && before(&n->heap[c + 1], &n->heap[c]);
        if (!before(&n->heap[c], &e))
            break;
        n->heap[at] = n->heap[c];
        at = c;
    }
    n->heap[at] = e;
    return first;
}

/* ---- Links ---- */

static void touch(struct net *n, int link)
{
    n->changed[n->nchanged++] = link;
}

static void put_on(struct net *n, int m, int side, int link)
{
    n->messages[m].link[side] = link;
    n->messages[m].next[side] = n->links[link].first;
    n->links[link].first = m;
    n->links[link].n += n->messages[m].weight;
    touch(n, link);
}

static void take_off(struct net *n, int m, int side)
{
    struct link *l = &n->links[n->messages[m].link[side]];
    int32_t *at = &l->first;

    while (*at != m)
        at = &n->messages[*at].next[side];
    *at = n->messages[m].next[side];
    l->n -= n->messages[m].weight;
    touch(n, n->messages[m].link[side]);
}

static void set_rate(struct net *n, int m, double rate)
{
    struct message *f = &n->messages[m];

    f->frozen = 1;
    for (int side = 0; side < 2; side++) {
        struct link *l = &n->links[f->link[side]];
        l->left = fmax(0, l->left - rate * f->weight);
        l->left_n -= f->weight;
    }
    if (rate == f->rate)
        return;
    f->left = fmax(0, f->left - f->rate * (n->now - f->since));
    f->since = n->now;
    f->rate = rate;
    event_add(n, rate > 0 ? n->now + f->left / rate : INFINITY, DRAINED, m, ++f->rates);
}

/* The links that `link` is connected with by messages; returns how many. */
static int find_component(struct net *n, int link)
{
    int32_t *links = n->component;
    int nlinks = 0;

    n->links[link].mark = n->mark;
    links[nlinks++] = link;
    for (int i = 0; i < nlinks; i++) {
        struct link *l = &n->links[links[i]];
        l->left = 1;
        l->left_n = l->n;
        for (int m = l->first, side = links[i] % 2; m != NONE; m = n->messages[m].next[side]) {
            struct link *other = &n->links[n->messages[m].link[!side]];
            n->messages[m].frozen = 0;
            if (other->mark == n->mark)
                continue;
            other->mark = n->mark;
            links[nlinks++] = n->messages[m].link[!side];
        }
    }
    return nlinks;
}

/* Progressive filling: the link with the least share for each of its messages gives it to them, and so on with what is left. */
static void fill(struct net *n, int nlinks)
{
    for (;;) {
        int least = NONE;
        double share = INFINITY;
        for (int i = 0; i < nlinks; i++) {
            const struct link *l = &n->links[n->component[i]];
            if (l->left_n && l->left / l->left_n < share) {
                share = l->left / l->left_n;
                least = n->component[i];
            }
        }
        if (least == NONE)
            return;
        for (int m = n->links[least].first; m != NONE; m = n->messages[m].next[least % 2])
            if (!n->messages[m].frozen)
                set_rate(n, m, share);
    }
}

static void settle(struct net *n)
{
    uint32_t first = n->mark + 1;

    for (int i = 0; i < n->nchanged; i++) {
        const struct link *l = &n->links[n->changed[i]];
        if (!l->n || (l->mark >= first && l->mark <= n->mark))
            continue;
        if (l->n == 1 && n->links[n->messages[l->first].link[!(n->changed[i] % 2)]].n == 1) {
            set_rate(n, l->first, 1);
            continue;
        }
        n->mark++;
        fill(n, find_component(n, n->changed[i]));
    }
    n->nchanged = 0;
}

/* ---- Actors ---- */

static int has_left(const struct actor *x, int k)
{
    return k < 0 || x->left >> k & 1;
}

/* A message to a rank that is not followed has a link of its own at the other end. */
static void send_beside(struct net *n, int a, double us, int weight)
{
    int m = n->nmessages++;

    n->messages[m] = (struct message){.round = BESIDE, .weight = weight, .left = us, .since = n->now};
    put_on(n, m, 0, 2 * a);
    put_on(n, m, 1, 2 * (n->p->nactors + a) + 1);
}

static void send_message(struct net *n, int a)
{
    const struct wi_round *r = &n->actors[a].now;
    double us = wi_algo_over(r->sent, n->rates->beta);
    int m = n->free_message;

    n->actors[a].queued = !has_left(&n->actors[a], r->behind);
    if (n->actors[a].queued)
        return;
    if (us <= 0) {
        n->actors[a].left |= (uint64_t)1 << n->actors[a].k;
        event_add(n, n->now + n->rates->alpha, ARRIVED, r->to, (uint32_t)n->actors[a].k);
        return;
    }
    if (m == NONE)
        m = n->nmessages++;
    else
        n->free_message = n->messages[m].next[0];
    struct message *f = &n->messages[m];
    uint32_t rates = f->rates;
    *f = (struct message){.round = n->actors[a].k, .weight = 1, .left = us, .since = n->now, .rates = rates};
    put_on(n, m, 0, 2 * a);
    put_on(n, m, 1, 2 * r->to + 1);
}

static void enter(struct net *n, int a)
{
    struct actor *x = &n->actors[a];

    if (x->k == n->p->nrounds) {
        x->over = 1;
        n->end = n->now;
        return;
    }
    x->now = (struct wi_round){NONE, NONE, 0, 0, 0, 0, 0, NONE, NONE};
    n->p->round(n->p->context, a, x->k, &x->now);
    if (x->now.to >= 0)
        send_message(n, a);
    if (x->now.nbeside && x->now.beside > 0 && !isinf(n->rates->beta))
        send_beside(n, a, wi_algo_over(x->now.beside, n->rates->beta), x->now.nbeside);
    x->waits_message = x->now.from >= 0;
}

/* As far as it gets now. */
static void go_on(struct net *n, int a)
{
    struct actor *x = &n->actors[a];

    while (!x->over) {
        if (x->waits_message && !(x->arrived >> x->k & 1))
            return;
        x->waits_message = 0;
        x->waits_drain = !has_left(x, x->now.drains);
        if (x->waits_drain)
            return;
        double us =
            wi_algo_over(x->now.reduced, n->rates->reduce_rate) + wi_algo_over(x->now.copied, n->rates->copy_rate);
        if (us > 0) {
            event_add(n, n->now + us, WORKED, a, 0);
            return;
        }
        x->k++;
        enter(n, a);
    }
}

static void drained(struct net *n, int m)
{
    struct message *f = &n->messages[m];
    int from = f->link[0] / 2;

    take_off(n, m, 0);
    take_off(n, m, 1);
    if (f->round == BESIDE)
        return;
    n->actors[from].left |= (uint64_t)1 << f->round;
    event_add(n, n->now + n->rates->alpha, ARRIVED, f->link[1] / 2, (uint32_t)f->round);
    f->rates++; /* no event of it counts any more */
    f->next[0] = n->free_message;
    n->free_message = m;
    if (n->actors[from].queued)
        send_message(n, from);
    if (n->actors[from].waits_drain)
        go_on(n, from);
}

static void handle(struct net *n, const struct event *e)
{
    struct actor *x = &n->actors[e->id]; /* not of DRAINED */

    switch (e->kind) {
    case DRAINED:
        if (e->what == n->messages[e->id].rates)
            drained(n, (int)e->id);
        return;
    case ARRIVED:
        x->arrived |= (uint64_t)1 << e->what;
        if (x->waits_message && (uint32_t)x->k == e->what)
            go_on(n, (int)e->id);
        return;
    default:
        x->k++;
        enter(n, (int)e->id);
        go_on(n, (int)e->id);
    }
}

static double run(struct net *n)
{
    for (int a = 0; a < n->p->nactors; a++) {
        enter(n, a);
        go_on(n, a);
    }
    for (;;) {
        settle(n);
        if (!n->nheap || n->failed)
            break;
        n->now = n->heap[0].time;
        while (n->nheap && n->heap[0].time <= n->now * (1 + 1e-12)) {
            struct event e = event_pop(n);
            handle(n, &e);
        }
    }
    return n->failed ? -1 : n->end;
}

double wi_rounds_us(const struct wi_rounds *p, const struct wi_algo_rates *rates)
{
    size_t actors = (size_t)p->nactors, most = actors * ((size_t)p->nrounds + 1);
    struct net n = {.p = p, .rates = rates, .free_message = NONE, .heap_capacity = 4 * (uint32_t)actors};
    double us = -1;

    n.actors = wi_calloc(actors, sizeof *n.actors);
    n.links = wi_calloc(actors, 4 * sizeof *n.links);
    n.messages = wi_calloc(most, sizeof *n.messages);
    n.component = wi_calloc(actors, 4 * sizeof *n.component);
    n.changed = wi_calloc(4 * most + 2 * actors, sizeof *n.changed);
    n.heap = wi_malloc(n.heap_capacity * sizeof *n.heap);
    if (p->nrounds <= WI_ROUNDS_MAX && n.actors && n.links && n.messages && n.component && n.changed && n.heap) {
        for (size_t i = 0; i < 4 * actors; i++)
            n.links[i].first = NONE;
        us = run(&n);
    }
    wi_free(n.actors);
    wi_free(n.links);
    wi_free(n.messages);
    wi_free(n.component);
    wi_free(n.changed);
    wi_free(n.heap);
    return us;
}
