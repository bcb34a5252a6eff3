/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of one transport in one communicator: what the transport calls. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "net/side_conn.h"

/* ---- Life ---- */

void wi_side_group_tell(struct wi_side_group *g)
{
    uint64_t one = 1;

    (void)!write(g->event_fd, &one, sizeof one);
}

weft_status wi_side_open(struct wi_side *side, const struct wi_side_group_config *config, struct wi_side_group **out)
{
    struct wi_side_group *g = wi_calloc(1, sizeof *g);

    if (!g)
        return wi_fail(WEFT_ENOMEM, "the side channel of a communicator");
    g->side = side;
    g->config = *config;
    strncpy(g->transport, config->transport, sizeof g->transport - 1);
    g->asking = wi_calloc((size_t)config->nranks, sizeof *g->asking);
    g->event_fd = g->asking ? wi_socket_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) : -1;
    if (g->event_fd < 0) {
        weft_status st = g->asking ? wi_fail_errno(errno, "a descriptor of the side channel")
                                   : wi_fail(WEFT_ENOMEM, "the side channel of %d ranks", config->nranks);
        wi_free(g->asking);
        wi_free(g);
        return st;
    }
    pthread_mutex_lock(&side->lock);
    g->next = side->groups;
    side->groups = g;
    pthread_mutex_unlock(&side->lock);
    *out = g;
    return WEFT_SUCCESS;
}

/* The thread frees them: it may be polling them. */
void wi_side_close(struct wi_side_group *g)
{
    struct wi_side *side;

    if (!g)
        return;
    side = g->side;
    pthread_mutex_lock(&side->lock);
    for (struct wi_side_group **at = &side->groups; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    for (struct wi_side_conn *c = side->conns; c; c = c->next)
        if (c->group == g) {
            c->group = NULL;
            c->dead = 1;
        }
    pthread_mutex_unlock(&side->lock);
    wi_side_wake(side);
    wi_socket_close(g->event_fd);
    wi_free(g->asking);
    wi_free(g);
}

/* ---- What transports call ---- */

static weft_status check(const struct wi_side_group *g, int peer, size_t bytes)
{
    if (peer < 0 || peer >= g->config.nranks || peer == g->config.rank)
        return wi_fail(WEFT_EINVAL, "transport %s: rank %d is no peer", g->transport, peer);
    if (bytes > WEFT_SIDE_MAX)
        return wi_fail(WEFT_EINVAL, "transport %s: %zu bytes of connection data for rank %d; at most %d are carried",
                       g->transport, bytes, peer, WEFT_SIDE_MAX);
    return WEFT_SUCCESS;
}

weft_status wi_side_ask(void *arg, int peer, const void *data, size_t bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side_conn *c;
    weft_status st = WEFT_SUCCESS;

    WI_TRY(check(g, peer, bytes));
    pthread_mutex_lock(&g->side->lock);
    if (g->asking[peer]) {
        st = WEFT_EBUSY;
    } else {
        c = wi_side_conn_ask(g, peer, data, bytes);
        if (c)
            wi_side_add(g->side, g->asking[peer] = c);
        else
            st = wi_fail(WEFT_ENOMEM, "a question to rank %d", peer);
    }
    pthread_mutex_unlock(&g->side->lock);
    wi_side_wake(g->side);
    return st;
}

/* Every look takes the news; what is left of them is told again. */
static void take_news(struct wi_side_group *g)
{
    uint64_t times;

    (void)!read(g->event_fd, &times, sizeof times);
    for (struct wi_side_conn *c = g->side->conns; c; c = c->next)
        if (c->group == g && !c->dead && (c->asks ? c->state >= WI_SIDE_TOLD : c->state == WI_SIDE_ASKED)) {
            wi_side_group_tell(g);
            return;
        }
}

static weft_status answer_of(struct wi_side_group *g, struct wi_side_conn *c, void *answer, size_t capacity,
                             size_t *bytes, char why[WEFT_SIDE_WHY_MAX])
{
    weft_status st = c->state == WI_SIDE_FAILED ? c->status : c->bytes > capacity ? WEFT_EPROTO : WEFT_SUCCESS;

    if (st >= 0) {
        *bytes = c->bytes;
        if (c->bytes)
            memcpy(answer, c->data, c->bytes);
        return st;
    }
    if (c->state != WI_SIDE_FAILED)
        snprintf(c->why, sizeof c->why, "sent %u bytes, there is room for %u", (unsigned)c->bytes, (unsigned)capacity);
    snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d on host %.30s: %s (connection data of transport %s)", c->peer,
             g->config.host_of(g->config.arg, c->peer), c->why, g->transport);
    return wi_fail(st, "%s", why);
}

weft_status wi_side_answer(void *arg, int peer, void *answer, size_t capacity, size_t *bytes,
                           char why[WEFT_SIDE_WHY_MAX])
{
    struct wi_side_group *g = arg;
    struct wi_side_conn *c;
    weft_status st;

    WI_TRY(check(g, peer, 0));
    pthread_mutex_lock(&g->side->lock);
    c = g->asking[peer];
    if (!c) {
        st = wi_fail(WEFT_EINVAL, "transport %s has not asked rank %d", g->transport, peer);
    } else if (c->state < WI_SIDE_TOLD) {
        st = WEFT_INPROGRESS;
    } else {
        st = answer_of(g, c, answer, capacity, bytes, why);
        g->asking[peer] = NULL;
        c->dead = 1;
    }
    take_news(g);
    pthread_mutex_unlock(&g->side->lock);
    return st;
}

int wi_side_asked(void *arg, int *peer, void *question, size_t capacity, size_t *bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side_conn *c;

    pthread_mutex_lock(&g->side->lock);
    for (c = g->side->conns; c; c = c->next)
        if (c->group == g && !c->asks && !c->dead && c->state == WI_SIDE_ASKED && c->bytes <= capacity)
            break;
    if (c) {
        *peer = c->peer;
        *bytes = c->bytes;
        if (c->bytes)
            memcpy(question, c->data, c->bytes);
        c->state = WI_SIDE_LOOKED;
    }
    take_news(g);
    pthread_mutex_unlock(&g->side->lock);
    return c != NULL;
}

weft_status wi_side_reply(void *arg, int peer, const void *data, size_t bytes)
{
    struct wi_side_group *g = arg;
    struct wi_side_conn *c;
    weft_status st;

    WI_TRY(check(g, peer, bytes));
    pthread_mutex_lock(&g->side->lock);
    for (c = g->side->conns; c; c = c->next)
        if (c->group == g && !c->asks && !c->dead && c->state == WI_SIDE_LOOKED && c->peer == peer)
            break;
    st = c && wi_side_conn_reply(c, data, bytes) == 0
             ? WEFT_SUCCESS
             : wi_fail(WEFT_EPEER, "rank %d on host %s does not wait for connection data of transport %s", peer,
                       g->config.host_of(g->config.arg, peer), g->transport);
    pthread_mutex_unlock(&g->side->lock);
    wi_side_wake(g->side);
    return st;
}

int wi_side_fd(void *arg)
{
    const struct wi_side_group *g = arg;

    return g->event_fd;
}
