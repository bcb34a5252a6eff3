/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and puts: what the transport has no room for waits, in order, behind others with that peer only; memory that is not
 * registered is until they have ended; and they end with their peer. */
#include "net/channel_group.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

struct wi_channel_rma {
    struct wi_channel_rma *next;
    struct weft_rma raw;
    struct weft_rma *user; /* NULL: it has ended */
    struct wi_lease *lease;
    int get, posted;
};

static weft_status post(struct wi_channel_group *g, struct wi_channel_rma *made)
{
    weft_status st;

    made->raw.state = WEFT_XFER_PENDING;
    st = made->get ? g->raw->get(g->group, &made->raw) : g->raw->put(g->group, &made->raw);
    if (st == WEFT_EBUSY)
        return WEFT_SUCCESS;
    made->posted = 1;
    return st;
}

static weft_status take_memory(struct wi_channel_group *g, struct wi_channel_rma *made)
{
    struct weft_rma *raw = &made->raw;
    unsigned failures = wi_fail_count();

    if (!(g->endpoint->plugin->caps & WEFT_CAP_REGISTER) || raw->mem || !raw->bytes)
        return WEFT_SUCCESS;
    made->lease = wi_channel_borrow(g, raw->local, raw->bytes);
    if (!made->lease)
        made->lease = wi_channel_lease(g, raw->local, raw->bytes, raw->memory);
    if (!made->lease)
        return wi_fail_count() != failures ? WEFT_ENOMEM : wi_fail(WEFT_ENOMEM, "registering %zu bytes", raw->bytes);
    raw->mem = made->lease->mem;
    return WEFT_SUCCESS;
}

static weft_status check(struct wi_channel_group *g, const struct weft_rma *r)
{
    const struct wi_channel_peer *p = r->peer >= 0 && r->peer < g->nranks ? &g->peers[r->peer] : NULL;

    if (!p || p->state == WI_CHANNEL_NONE)
        return wi_fail(WEFT_EINVAL, "transport %s does not serve rank %d", g->endpoint->plugin->name, r->peer);
    if (p->state == WI_CHANNEL_FAILED)
        return wi_fail(p->status, "%s", p->text);
    return WEFT_SUCCESS;
}

weft_status wi_channel_rma_post(struct wi_channel_group *g, struct weft_rma *r, int get)
{
    struct wi_channel_rma *made;
    weft_status st;

    WI_TRY(check(g, r));
    made = wi_calloc(1, sizeof *made);
    if (!made)
        return wi_fail(WEFT_ENOMEM, "a transfer");
    made->raw = *r;
    made->get = get;
    st = take_memory(g, made);
    if (st >= 0 && !g->peers[r->peer].rmas_waiting)
        st = post(g, made);
    if (st < 0) {
        wi_channel_lease_end(g, made->lease);
        wi_free(made);
        return st;
    }
    r->state = WEFT_XFER_PENDING;
    made->user = r;
    g->peers[r->peer].rmas_waiting += !made->posted;
    *g->rmas_last = made;
    g->rmas_last = &made->next;
    return WEFT_SUCCESS;
}

/* One that waited; it may go on waiting, and those behind it do then. One that has ended meanwhile never reaches the transport. */
static void post_later(struct wi_channel_group *g, struct wi_channel_rma *r)
{
    struct wi_channel_peer *p = &g->peers[r->raw.peer];
    weft_status st = WEFT_ECANCELED;

    if (p->rmas_full == g->rma_step)
        return;
    if (r->user)
        st = post(g, r);
    if (st >= 0 && !r->posted) {
        p->rmas_full = g->rma_step;
        return;
    }
    r->posted = 1;
    if (st < 0)
        r->raw.state = st;
    p->rmas_waiting--;
}

int wi_channel_rma_step(struct wi_channel_group *g)
{
    struct wi_channel_rma **at = &g->rmas, *r;
    int events = 0;

    g->rma_step++;
    while ((r = *at) != NULL) {
        if (!r->posted)
            post_later(g, r);
        if (!r->posted || r->raw.state == WEFT_XFER_PENDING) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        wi_channel_lease_end(g, r->lease);
        if (r->user)
            r->user->state = r->raw.state;
        wi_free(r);
        events++;
    }
    g->rmas_last = at;
    return events;
}

void wi_channel_rma_end(struct wi_channel_group *g, int peer, int state)
{
    for (struct wi_channel_rma *r = g->rmas; r; r = r->next) {
        if (peer >= 0 && r->raw.peer != peer)
            continue;
        if (r->user)
            r->user->state = r->posted && r->raw.state != WEFT_XFER_PENDING ? r->raw.state : state;
        r->user = NULL;
    }
}

void wi_channel_rma_free(struct wi_channel_group *g)
{
    while (g->rmas) {
        struct wi_channel_rma *r = g->rmas;
        g->rmas = r->next;
        wi_free(r); /* its lease ends with the others */
    }
}
