/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and puts on memory that the program has not registered: it is registered until they have ended. */
#include "net/channel_group.h"

#include "base/alloc.h"
#include "base/status.h"

struct wi_channel_rma {
    struct wi_channel_rma *next;
    struct weft_rma raw;
    struct weft_rma *user; /* NULL: it has ended */
    struct wi_lease *lease;
};

static weft_status post(struct wi_channel_group *g, struct weft_rma *r, int get)
{
    return get ? g->raw->get(g->group, r) : g->raw->put(g->group, r);
}

weft_status wi_channel_rma_post(struct wi_channel_group *g, struct weft_rma *r, int get)
{
    struct wi_channel_rma *made;
    weft_status st;

    if (!(g->endpoint->plugin->caps & WEFT_CAP_REGISTER) || r->mem || !r->bytes)
        return post(g, r, get);
    made = wi_calloc(1, sizeof *made);
    if (!made)
        return wi_fail(WEFT_ENOMEM, "a transfer");
    made->raw = *r;
    made->raw.mem = wi_channel_registered(g->endpoint, r->local, r->bytes);
    if (!made->raw.mem) {
        wi_fail_clear();
        made->lease = wi_channel_lease(g, r->local, r->bytes, r->memory);
        if (!made->lease) {
            wi_free(made);
            return *wi_fail_text() ? WEFT_ENOMEM : wi_fail(WEFT_ENOMEM, "registering %zu bytes", r->bytes);
        }
        made->raw.mem = made->lease->mem;
    }
    st = post(g, &made->raw, get);
    if (st < 0) {
        wi_channel_lease_end(g, made->lease);
        wi_free(made);
        return st;
    }
    made->user = r;
    r->state = WEFT_XFER_PENDING;
    made->next = g->rmas;
    g->rmas = made;
    return WEFT_SUCCESS;
}

int wi_channel_rma_step(struct wi_channel_group *g)
{
    struct wi_channel_rma **at = &g->rmas, *r;
    int events = 0;

    while ((r = *at) != NULL) {
        if (r->raw.state == WEFT_XFER_PENDING) {
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
    return events;
}

void wi_channel_rma_cancel(struct wi_channel_group *g)
{
    for (struct wi_channel_rma *r = g->rmas; r; r = r->next) {
        if (r->user)
            r->user->state = WEFT_ECANCELED;
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
