/* share.c: connections that communicators share: which one a stream goes into, who makes it, who takes it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The first communicator that needs one makes it, as it would make a socket of its own, with its own key; the others wait for it. A
 * process that has accepted one uses it the other way, too; when both make one at once there are two.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

static struct wi_tcp_mux *find(const struct wi_tcp_endpoint *e, uint64_t process)
{
    struct wi_tcp_mux *m = e->muxes;
    while (m && (m->process != process || m->unfit || !wi_tcp_mux_is_usable(m)))
        m = m->next;
    return m;
}

static int is_being_made(const struct wi_tcp_endpoint *e, uint64_t process)
{
    const struct wi_tcp_dial *d = e->making;
    while (d && d->peer.process != process)
        d = d->next_making;
    return d != NULL;
}

int wi_tcp_share_join(struct wi_tcp_conn *c)
{
    struct wi_tcp_group *g = c->peer->group;
    struct wi_tcp_endpoint *e = g->endpoint;
    struct wi_tcp_dial *d = c->dial;
    wi_tcp_share_stop(c);
    pthread_mutex_lock(&e->lock);
    struct wi_tcp_mux *m = find(e, d->peer.process);
    int wait = !m && is_being_made(e, d->peer.process);
    if (m) {
        c->stream = wi_tcp_stream_open(m, g);
    } else if (!wait) {
        d->making = 1;
        d->next_making = e->making;
        e->making = d;
    }
    pthread_mutex_unlock(&e->lock);
    if (c->stream) /* either may end in the peer's failure */
        wi_tcp_dial_stream(c);
    else if (m || wait)
        wi_tcp_dial_later(c);
    return !m && !wait;
}

void wi_tcp_share_stop(struct wi_tcp_conn *c)
{
    struct wi_tcp_endpoint *e = c->peer->group->endpoint;
    struct wi_tcp_dial *d = c->dial;
    if (!d->making)
        return;
    pthread_mutex_lock(&e->lock);
    struct wi_tcp_dial **at = &e->making;
    while (*at != d)
        at = &(*at)->next_making;
    *at = d->next_making;
    pthread_mutex_unlock(&e->lock);
    d->making = 0;
}

static void add(struct wi_tcp_endpoint *e, struct wi_tcp_mux *m)
{
    m->next = e->muxes;
    e->muxes = m;
    e->host->log(e->host->impl, WEFT_LOG_INFO, "tcp.shared", "%s: %s for streams", m->ends,
                 m->accepted ? "accepted" : "made");
}

weft_status wi_tcp_share_made(struct wi_tcp_conn *c)
{
    struct wi_tcp_endpoint *e = c->peer->group->endpoint;
    const struct wi_tcp_handshake *h = &c->dial->hs;
    pthread_mutex_lock(&e->lock);
    struct wi_tcp_mux *m = wi_tcp_mux_create(e, c->fd, 0, c->dial->peer.process, c->dial->binding,
                                             h->in + WI_TCP_HEADER_BYTES, h->have - WI_TCP_HEADER_BYTES);
    if (m) {
        c->fd = -1;
        add(e, m);
    }
    pthread_mutex_unlock(&e->lock);
    return m ? WEFT_SUCCESS : WEFT_ENOMEM;
}

/* Whoever made an accepted one has proven one communicator's key, which tells nothing of others. */
void wi_tcp_share_distrust(struct wi_tcp_conn *c)
{
    struct wi_tcp_endpoint *e = c->peer->group->endpoint;
    pthread_mutex_lock(&e->lock);
    if (c->stream->mux->accepted)
        c->stream->mux->unfit = 1;
    pthread_mutex_unlock(&e->lock);
}

void wi_tcp_share_accept(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    unsigned char binding[WI_TCP_BINDING_BYTES], welcome[WI_TCP_HEADER_BYTES];
    struct wi_tcp_frame f = {.type = WI_TCP_WELCOME};
    struct wi_tcp_mux *m = NULL;
    wi_tcp_frame_encode(&f, welcome);
    if (!a->stream && wi_tcp_handshake_binding(&a->hs, binding) == WEFT_SUCCESS &&
        wi_tcp_io_say(a->fd, NULL, welcome, sizeof welcome) == 0)
        m = wi_tcp_mux_create(e, a->fd, 1, a->claim.process, binding, a->hs.in, a->hs.have);
    if (m) {
        a->fd = -1;
        add(e, m);
    }
    wi_tcp_arrival_free(a);
}

/* ---- Streams that peers open ---------------------------------------------------------------------------------------- */

static void admit(struct wi_tcp_endpoint *e, struct wi_tcp_mux *m, struct wi_tcp_stream *s)
{
    struct wi_tcp_arrival *a = calloc(1, sizeof *a);
    struct wi_tcp_claim mine = {.eager = (uint32_t)e->settings->eager, .process = e->me.process};
    memcpy(mine.binding, m->binding, sizeof mine.binding);
    if (!a || wi_tcp_handshake_init(&a->hs, e->host, 1, &mine)) {
        free(a);
        wi_tcp_stream_close(s);
        return;
    }
    a->fd = -1;
    a->stream = s;
    a->deadline_ns = e->host->now_ns() + e->settings->auth_timeout;
    wi_tcp_stream_arrive(s, a);
    struct wi_tcp_arrival **end = &e->joining;
    while (*end)
        end = &(*end)->next;
    *end = a;
    wi_tcp_advance(e, a);
}

void wi_tcp_streams_serve(struct wi_tcp_endpoint *e)
{
    struct wi_tcp_stream *s;
    for (struct wi_tcp_mux *m = e->muxes; m; m = m->next) {
        while ((s = wi_tcp_mux_todo(m)) != NULL) {
            if (s->arrival)
                wi_tcp_advance(e, s->arrival);
            else
                admit(e, m, s);
        }
    }
}

void wi_tcp_share_reap(struct wi_tcp_endpoint *e)
{
    for (struct wi_tcp_mux **at = &e->muxes; *at;) {
        struct wi_tcp_mux *m = *at;
        if (!wi_tcp_mux_is_idle(m)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        wi_tcp_mux_free(m);
    }
}

void wi_tcp_share_close(struct wi_tcp_endpoint *e, uint64_t deadline_ns)
{
    while (e->muxes) {
        struct wi_tcp_mux *m = e->muxes;
        e->muxes = m->next;
        wi_tcp_mux_finish(m, deadline_ns);
        wi_tcp_mux_free(m);
    }
}
