/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of one transport in one communicator: what the transport calls. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "net/side_exchange.h"

/* ---- Life ---- */

weft_status wi_side_open(struct wi_side *side, const struct wi_side_group_config *config, struct wi_side_group **out)
{
    struct wi_side_group *g = wi_calloc(1, sizeof *g);

    if (!g)
        return wi_fail(WEFT_ENOMEM, "the side channel of a communicator");
    g->side = side;
    g->config = *config;
    strncpy(g->transport, config->transport, sizeof g->transport - 1);
    g->outgoing = wi_calloc((size_t)config->nranks, sizeof *g->outgoing);
    g->event_fd = g->outgoing ? wi_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) : -1;
    if (g->event_fd < 0) {
        weft_status st = g->outgoing ? wi_fail_errno(errno, "a descriptor of the side channel")
                                     : wi_fail(WEFT_ENOMEM, "the side channel of %d ranks", config->nranks);
        wi_free(g->outgoing);
        wi_free(g);
        return st;
    }
    pthread_mutex_lock(&side->lock);
    g->next = side->groups;
    side->groups = g;
    side->nranks += (size_t)config->nranks;
    pthread_mutex_unlock(&side->lock);
    *out = g;
    return WEFT_SUCCESS;
}

/* A rank that connects later is told that this one has left. */
static void note_gone(struct wi_side *side, const struct wi_side_group *g)
{
    unsigned i = side->ngone % WI_SIDE_GONE;

    memcpy(side->gone[i].comm_id, g->config.comm_id, sizeof side->gone[i].comm_id);
    side->gone[i].rank = g->config.rank;
    side->ngone = side->ngone + 1 < 2 * WI_SIDE_GONE ? side->ngone + 1 : WI_SIDE_GONE;
}

static void unlink_group(struct wi_side *side, struct wi_side_group *g)
{
    struct wi_side_group **at = &side->groups;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    side->nranks -= (size_t)g->config.nranks;
    note_gone(side, g);
}

void wi_side_close(struct wi_side_group *g)
{
    struct wi_side *side;

    if (!g)
        return;
    side = g->side;
    pthread_mutex_lock(&side->lock);
    unlink_group(side, g);
    while (g->incoming)
        wi_side_refuse(g->incoming, WEFT_EPEER, "has left");
    for (int r = 0; r < g->config.nranks; r++) {
        struct wi_side_exchange *x = g->outgoing[r];
        if (x && x->state == WI_SIDE_ENDED)
            wi_free(x);
        else if (x)
            x->group = NULL; /* the thread frees it */
    }
    pthread_mutex_unlock(&side->lock);
    wi_side_wake(side);
    wi_fd_close(g->event_fd);
    wi_free(g->outgoing);
    wi_free(g);
}

/* ---- Requests of this rank ---- */

static weft_status check(const struct wi_side_group *g, int peer, size_t bytes)
{
    if (peer < 0 || peer >= g->config.nranks || peer == g->config.rank)
        return wi_fail(WEFT_EINVAL, "transport %s: rank %d is no peer", g->transport, peer);
    if (bytes > WEFT_SIDE_MAX)
        return wi_fail(WEFT_EINVAL, "transport %s: %zu bytes of connection data for rank %d; at most %d are carried",
                       g->transport, bytes, peer, WEFT_SIDE_MAX);
    return WEFT_SUCCESS;
}

static struct wi_side_exchange *new_request(struct wi_side_group *g, int peer, const void *data, size_t bytes)
{
    struct wi_side_exchange *x = wi_calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->group = g;
    x->requests = 1;
    x->peer = peer;
    x->claim_bytes = wi_side_claim(g, peer, x->claim);
    x->timeout_ns = g->config.timeout_ns;
    x->deadline_ns = wi_deadline_ns(x->timeout_ns);
    x->bytes = bytes;
    if (bytes)
        memcpy(x->data, data, bytes);
    return x;
}

weft_status wi_side_request(void *arg, int peer, const void *data, size_t bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side *side = g->side;
    unsigned char address[WI_SIDE_ADDRESS_MAX];
    struct wi_side_exchange *x;

    WI_TRY(check(g, peer, bytes));
    if (g->outgoing[peer])
        return WEFT_EBUSY;
    x = g->outgoing[peer] = new_request(g, peer, data, bytes);
    if (!x)
        return wi_fail(WEFT_ENOMEM, "a request to rank %d", peer);
    if (wi_side_address_read(address, g->config.address_of(g->config.arg, peer, address), &x->at)) {
        wi_side_end(side, x, WEFT_ENOTSUP, "has no side channel", NULL, 0);
        return WEFT_SUCCESS;
    }
    pthread_mutex_lock(&side->lock);
    x->next = side->requested;
    side->requested = x;
    pthread_mutex_unlock(&side->lock);
    wi_side_wake(side);
    return WEFT_SUCCESS;
}

static weft_status take_response(const struct wi_side_group *g, struct wi_side_exchange *x, void *response,
                                 size_t capacity, size_t *bytes, char why[WEFT_SIDE_WHY_MAX])
{
    weft_status st = x->status < 0 ? x->status : x->bytes > capacity ? WEFT_EPROTO : WEFT_SUCCESS;

    if (st >= 0) {
        *bytes = x->bytes;
        if (x->bytes)
            memcpy(response, x->data, x->bytes);
        return st;
    }
    if (x->status >= 0)
        snprintf(x->why, sizeof x->why, "sent %u bytes, there is room for %u", (unsigned)x->bytes, (unsigned)capacity);
    snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d on host %.30s: %s (connection data of transport %s)", x->peer,
             g->config.host_of(g->config.arg, x->peer), x->why, g->transport);
    return wi_fail(st, "%s", why);
}

weft_status wi_side_response(void *arg, int peer, void *response, size_t capacity, size_t *bytes,
                             char why[WEFT_SIDE_WHY_MAX])
{
    struct wi_side_group *g = arg;
    struct wi_side_exchange *x;
    weft_status st;
    int ended;

    WI_TRY(check(g, peer, 0));
    x = g->outgoing[peer];
    if (!x)
        return wi_fail(WEFT_EINVAL, "transport %s has requested nothing of rank %d", g->transport, peer);
    if (!atomic_load_explicit(&g->news, memory_order_relaxed)) /* what it counts is read under the lock */
        return WEFT_INPROGRESS;
    pthread_mutex_lock(&g->side->lock);
    ended = x->state == WI_SIDE_ENDED;
    if (ended)
        wi_side_news(g, -1);
    pthread_mutex_unlock(&g->side->lock);
    if (!ended)
        return WEFT_INPROGRESS;
    g->outgoing[peer] = NULL;
    st = take_response(g, x, response, capacity, bytes, why);
    wi_free(x);
    return st;
}

/* ---- Requests of others ---- */

/* The oldest that was not seen; those for which there is no room are refused, and counted. */
static struct wi_side_exchange *next_request(struct wi_side_group *g, size_t capacity, int *refused)
{
    struct wi_side_exchange *next;
    char why[54];

    for (struct wi_side_exchange *x = g->incoming; x; x = next) {
        next = x->next;
        if (x->state != WI_SIDE_REQUESTED)
            continue;
        if (x->bytes <= capacity)
            return x;
        snprintf(why, sizeof why, "takes requests of at most %u bytes, not %u", (unsigned)capacity, (unsigned)x->bytes);
        wi_side_refuse(x, WEFT_EPROTO, why);
        ++*refused;
    }
    return NULL;
}

int wi_side_requested(void *arg, int *peer, void *request, size_t capacity, size_t *bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side_exchange *x;
    int refused = 0;

    if (!atomic_load_explicit(&g->news, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&g->side->lock);
    x = next_request(g, capacity, &refused);
    if (x) {
        *peer = x->peer;
        *bytes = x->bytes;
        if (x->bytes)
            memcpy(request, x->data, x->bytes);
        x->state = WI_SIDE_TAKEN;
        wi_side_news(g, -1);
    }
    pthread_mutex_unlock(&g->side->lock);
    if (refused)
        wi_side_wake(g->side);
    return x != NULL;
}

weft_status wi_side_respond(void *arg, int peer, const void *data, size_t bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side_exchange *x;

    WI_TRY(check(g, peer, bytes));
    pthread_mutex_lock(&g->side->lock);
    for (x = g->incoming; x && (x->state != WI_SIDE_TAKEN || x->peer != peer);)
        x = x->next;
    if (x) {
        wi_side_unlink(x);
        x->bytes = bytes;
        if (bytes)
            memcpy(x->data, data, bytes);
        x->state = WI_SIDE_ENDED;
    }
    pthread_mutex_unlock(&g->side->lock);
    if (!x)
        return wi_fail(WEFT_EPEER, "rank %d on host %s does not wait for connection data of transport %s", peer,
                       g->config.host_of(g->config.arg, peer), g->transport);
    wi_side_wake(g->side);
    return WEFT_SUCCESS;
}

int wi_side_fd(void *arg)
{
    const struct wi_side_group *g = arg;

    return g->event_fd;
}
