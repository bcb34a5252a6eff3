/* match.c: the receiving side of channels: which receive a frame belongs to, and where its bytes go.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

static struct wi_tcp_in *in_get(struct wi_tcp_peer *p, uint32_t chan)
{
    struct wi_tcp_in *in = p->in[chan];
    if (in)
        return in;
    in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    in->chan = (uint8_t)chan;
    in->early_end = &in->early;
    return p->in[chan] = in;
}

static uint64_t window(const struct wi_tcp_peer *p)
{
    return p->group->endpoint->settings->eager;
}

static void want_grant(struct wi_tcp_peer *p, struct wi_tcp_in *in)
{
    if (in->grant_due)
        return;
    in->grant_due = 1;
    in->next_grant = p->grants;
    p->grants = in;
    wi_tcp_peer_want_out(p);
}

static void give_back(struct wi_tcp_peer *p, struct wi_tcp_in *in, const struct wi_tcp_frame *f)
{
    if (!(f->flags & WI_TCP_EAGER_FLAG))
        return;
    in->returned += f->bytes + WI_TCP_EAGER_COST;
    if (in->returned - in->returned_told >= window(p) / 2)
        want_grant(p, in);
}

int wi_tcp_in_grant(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f)
{
    struct wi_tcp_in *in = p->grants;
    if (!in)
        return 0;
    p->grants = in->next_grant;
    in->grant_due = 0;
    in->granted = in->posted;
    in->returned_told = in->returned;
    struct wi_tcp_frame frame = {
        .type = WI_TCP_GRANT, .chan = in->chan, .msg = in->posted, .total = in->returned + window(p)};
    wi_tcp_frame_encode(&frame, f->header);
    f->data = NULL;
    f->bytes = 0;
    f->x = NULL;
    return 1;
}

static struct weft_xfer *find(const struct wi_tcp_in *in, uint64_t msg)
{
    if (msg < in->oldest || msg >= in->posted)
        return NULL;
    return in->receives[msg & (in->nreceives - 1)];
}

/* A place for the next receive. 0: no memory. */
static int make_room(struct wi_tcp_in *in)
{
    uint64_t n = in->nreceives ? 2 * in->nreceives : 8;
    struct weft_xfer **wider;
    if (in->posted - in->oldest < in->nreceives)
        return 1;
    wider = calloc(n, sizeof *wider);
    if (!wider)
        return 0;
    for (uint64_t i = in->oldest; i < in->posted; i++)
        wider[i & (n - 1)] = in->receives[i & (in->nreceives - 1)];
    free(in->receives);
    in->receives = wider;
    in->nreceives = n;
    return 1;
}

static void finish(struct wi_tcp_peer *p, struct wi_tcp_in *in, struct weft_xfer *x, int state)
{
    in->receives[x->priv[WI_TCP_X_MSG] & (in->nreceives - 1)] = NULL;
    while (in->oldest < in->posted && !in->receives[in->oldest & (in->nreceives - 1)])
        in->oldest++;
    p->nrecvs -= !x->background;
    x->state = state;
}

void wi_tcp_in_end_all(struct wi_tcp_in *in, int state)
{
    for (; in->oldest < in->posted; in->oldest++) {
        struct weft_xfer *x = find(in, in->oldest);
        if (x)
            x->state = state;
    }
}

static struct wi_tcp_drain *drain_find(const struct wi_tcp_in *in, uint64_t msg)
{
    struct wi_tcp_drain *d = in->drains;
    while (d && d->msg != msg)
        d = d->next;
    return d;
}

static void drain_done(struct wi_tcp_in *in, struct wi_tcp_drain *d, size_t bytes)
{
    struct wi_tcp_drain **at = &in->drains;
    d->finished += bytes;
    if (d->finished < d->total)
        return;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    free(d);
}

/* The first frame of a message meets its receive: do both sides mean the same? If not the receive ends at once and
 * what is still to come is drained. 0: go on with x; 1: it ended; -1: the peer was failed. */
static int check_first(struct wi_tcp_peer *p, struct wi_tcp_in *in, struct weft_xfer *x, const struct wi_tcp_frame *f)
{
    if (x->priv[WI_TCP_X_STARTED])
        return 0;
    int state = !wi_tcp_info_equal(&x->info, &f->info) ? WEFT_EMISMATCH
                : f->total > x->bytes                  ? WEFT_ETRUNC
                : f->total < x->bytes && !x->up_to     ? WEFT_EMISMATCH
                                                       : WEFT_SUCCESS;
    x->actual = f->total;
    x->priv[WI_TCP_X_STARTED] = 1;
    if (state == WEFT_SUCCESS)
        return 0;
    struct wi_tcp_drain *d = calloc(1, sizeof *d);
    if (!d) {
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "no memory to receive from rank %d", p->rank);
        return -1;
    }
    d->msg = f->msg;
    d->total = f->total;
    d->next = in->drains;
    in->drains = d;
    if (state == WEFT_EMISMATCH)
        x->peer_info = f->info;
    finish(p, in, x, state);
    return 1;
}

/* ---- Sinks -------------------------------------------------------------------------------------------------------- */

void wi_tcp_in_feed(struct weft_xfer *x, unsigned char *data, size_t bytes)
{
    size_t carry = x->priv[WI_TCP_X_STARTED] >> 8, given = x->priv[WI_TCP_X_GIVEN];
    size_t granule = x->granule ? x->granule : 1;
    data -= carry;
    bytes += carry;
    if (carry)
        memcpy(data, &x->priv[WI_TCP_X_CARRY], carry);
    size_t rest = given + bytes == x->actual ? 0 : bytes % granule, n = bytes - rest;
    memcpy(&x->priv[WI_TCP_X_CARRY], data + n, rest);
    x->priv[WI_TCP_X_STARTED] = 1 | (uint64_t)rest << 8;
    x->priv[WI_TCP_X_GIVEN] = given + n;
    if (n)
        x->sink(x, given, data, n);
}

/* ---- Frames that came early ------------------------------------------------------------------------------------------ */

static void early_remove(struct wi_tcp_in *in, struct wi_tcp_early *e)
{
    struct wi_tcp_early **at = &in->early;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (in->early_end == &e->next)
        in->early_end = at;
    in->held -= e->frame.bytes + WI_TCP_EAGER_COST;
    free(e);
}

static uint64_t edge(uint64_t at)
{
    at = (at + 1) * 0x9e3779b97f4a7c15ull;
    return (at ^ at >> 29) * 0xbf58476d1ce4e5b9ull;
}

/* Account for the end of a frame of x. 0, or -1: failed.
 * Frames of several sockets come in any order. That they fill the buffer without overlap or gap is seen by their edges: where one
 * begins another ends, so that in the sum over all frames only the edges of the message are left. */
static int frame_done(struct wi_tcp_peer *p, struct wi_tcp_in *in, struct weft_xfer *x, const struct wi_tcp_frame *f)
{
    x->priv[WI_TCP_X_DONE] += f->bytes;
    if (x->sink) {
        x->priv[WI_TCP_X_SINK_AT] = f->offset + f->bytes;
        p->group->unread = 1; /* other sockets may have stalled on this */
    } else if (f->bytes < x->actual) {
        x->priv[WI_TCP_X_EDGES] += edge(f->offset) - edge(f->offset + f->bytes);
    }
    if (x->priv[WI_TCP_X_DONE] != x->actual)
        return 0;
    if (!x->sink && f->bytes < x->actual && x->priv[WI_TCP_X_EDGES] != edge(0) - edge(x->actual)) {
        wi_tcp_peer_fail(p, WEFT_EPROTO, "tcp: rank %d sent frames of one message that overlap", p->rank);
        return -1;
    }
    finish(p, in, x, WEFT_SUCCESS);
    return 0;
}

/* Hand one complete early frame to its receive. 1: done; 2: done, a sink's; 0: a sink must wait for what lies before;
 * -1: failed. */
static int early_place(struct wi_tcp_peer *p, struct wi_tcp_in *in, struct wi_tcp_early *e)
{
    struct wi_tcp_frame *f = &e->frame;
    struct weft_xfer *x = find(in, f->msg);
    struct wi_tcp_drain *d = NULL;
    int r = x ? check_first(p, in, x, f) : 1;
    if (r < 0)
        return -1;
    if (r > 0) {
        x = NULL;
        d = drain_find(in, f->msg);
    }
    uint64_t total = 0, *reserved = NULL;
    if (x) {
        total = x->actual;
        reserved = &x->priv[WI_TCP_X_RESERVED];
    } else if (d) {
        total = d->total;
        reserved = &d->reserved;
    }
    if (!reserved || f->total != total || *reserved + f->bytes > total) {
        wi_tcp_peer_fail(p, WEFT_EPROTO, "tcp: rank %d sent frames of one message that do not agree", p->rank);
        return -1;
    }
    if (x && x->sink && f->offset != x->priv[WI_TCP_X_SINK_AT])
        return 0;
    *reserved += f->bytes;
    if (x && x->sink && f->bytes)
        wi_tcp_in_feed(x, e->data, f->bytes);
    else if (x && f->bytes)
        memcpy((unsigned char *)x->buf + f->offset, e->data, f->bytes);
    give_back(p, in, f);
    if (f->bytes < f->total && f->msg >= in->granted)
        want_grant(p, in);
    r = x && x->sink ? 2 : 1;
    if (x && frame_done(p, in, x, f) < 0)
        return -1;
    if (!x)
        drain_done(in, d, f->bytes);
    early_remove(in, e);
    return r;
}

/* All complete early frames whose receives are posted. Returns events; the peer may have failed. */
static int early_place_all(struct wi_tcp_peer *p, struct wi_tcp_in *in)
{
    int events = 0;
    struct wi_tcp_early *e = in->early;
    while (e) {
        struct wi_tcp_early *next = e->next;
        if (e->frame.msg >= in->posted || !e->complete) {
            e = next;
            continue;
        }
        int r = early_place(p, in, e);
        if (r < 0)
            return events;
        events += r > 0;
        /* A sink goes on with the frame behind this one, which may stand before it in the list. */
        e = r == 2 ? in->early : next;
    }
    return events;
}

int wi_tcp_in_drain(struct wi_tcp_peer *p)
{
    int events = 0;
    while (p->drains && p->state != WI_TCP_FAILED) {
        struct wi_tcp_in *in = p->drains;
        p->drains = in->next_drain;
        in->drain_due = 0;
        events += early_place_all(p, in);
    }
    return events;
}

static void want_drain(struct wi_tcp_peer *p, struct wi_tcp_in *in)
{
    if (in->drain_due)
        return;
    in->drain_due = 1;
    in->next_drain = p->drains;
    p->drains = in;
}

weft_status wi_tcp_in_post(struct wi_tcp_peer *p, struct weft_xfer *x)
{
    struct wi_tcp_in *in = in_get(p, x->chan);
    if (!in || !make_room(in))
        return WEFT_ENOMEM;
    memset(x->priv, 0, sizeof x->priv);
    x->priv[WI_TCP_X_MSG] = in->posted;
    in->receives[in->posted++ & (in->nreceives - 1)] = x;
    x->state = WEFT_XFER_PENDING;
    p->nrecvs += !x->background;
    if (in->early) {
        /* Sinks are called from progress only, and may post. */
        if (x->sink || p->group->busy)
            want_drain(p, in);
        else
            early_place_all(p, in);
    }
    if (p->state != WI_TCP_FAILED && x->state == WEFT_XFER_PENDING && x->bytes > window(p) / 4)
        want_grant(p, in);
    return WEFT_SUCCESS;
}

const struct wi_tcp_frame *wi_tcp_in_peek(const struct wi_tcp_peer *p, uint32_t chan)
{
    const struct wi_tcp_in *in = p->in[chan];
    for (const struct wi_tcp_early *e = in ? in->early : NULL; e; e = e->next)
        if (e->frame.msg == in->posted && e->frame.offset == 0)
            return &e->frame;
    return NULL;
}

/* ---- Frames as they come ------------------------------------------------------------------------------------------------ */

static int refuse(struct wi_tcp_conn *c, const char *what)
{
    wi_tcp_peer_fail(c->peer, WEFT_EPROTO, "tcp %s: %s", c->ends, what);
    return -1;
}

static int begin_early(struct wi_tcp_conn *c, struct wi_tcp_in *in)
{
    const struct wi_tcp_frame *f = &c->in;
    uint64_t cost = f->bytes + WI_TCP_EAGER_COST;
    if (!(f->flags & WI_TCP_EAGER_FLAG) || in->held + cost > window(c->peer))
        return refuse(c, "data beyond what was granted");
    struct wi_tcp_early *e = malloc(sizeof *e + f->bytes);
    if (!e) {
        wi_tcp_peer_fail(c->peer, WEFT_ENOMEM, "no memory for unexpected data from rank %d", c->peer->rank);
        return -1;
    }
    e->next = NULL;
    e->frame = *f;
    e->complete = 0;
    *in->early_end = e;
    in->early_end = &e->next;
    in->held += cost;
    c->target = WI_TCP_TO_EARLY;
    c->in_early = e;
    c->in_at = e->data;
    return 0;
}

static int begin_drain(struct wi_tcp_conn *c, struct wi_tcp_in *in)
{
    const struct wi_tcp_frame *f = &c->in;
    struct wi_tcp_drain *d = drain_find(in, f->msg);
    if (!d || d->total != f->total || f->bytes > d->total - d->reserved)
        return refuse(c, "data of a message that is complete");
    d->reserved += f->bytes;
    c->in_drain = d;
    c->target = WI_TCP_TO_DRAIN;
    give_back(c->peer, in, f);
    return 0;
}

static int begin_posted(struct wi_tcp_conn *c, struct wi_tcp_in *in, struct weft_xfer *x)
{
    const struct wi_tcp_frame *f = &c->in;
    if (f->total != x->actual || f->bytes > x->actual - x->priv[WI_TCP_X_RESERVED])
        return refuse(c, "frames of one message do not agree");
    if (x->sink && f->offset != x->priv[WI_TCP_X_SINK_AT])
        return 1;
    x->priv[WI_TCP_X_RESERVED] += f->bytes;
    c->in_x = x;
    c->target = x->sink ? WI_TCP_TO_SINK : WI_TCP_TO_BUFFER;
    c->in_at = x->sink ? NULL : (unsigned char *)x->buf + f->offset;
    give_back(c->peer, in, f);
    return 0;
}

int wi_tcp_in_begin(struct wi_tcp_conn *c)
{
    struct wi_tcp_peer *p = c->peer;
    const struct wi_tcp_frame *f = &c->in;
    struct wi_tcp_in *in = in_get(p, f->chan);
    if (!in) {
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "no memory for a channel with rank %d", p->rank);
        return -1;
    }
    if (f->msg >= in->posted)
        return begin_early(c, in);
    if (!(f->flags & WI_TCP_EAGER_FLAG) && f->msg >= in->granted)
        return refuse(c, "data beyond what was granted");
    struct weft_xfer *x = find(in, f->msg);
    if (x && x->sink && in->early) {
        early_place_all(p, in);
        if (p->state == WI_TCP_FAILED)
            return -1;
        x = find(in, f->msg);
    }
    int r = x ? check_first(p, in, x, f) : 1;
    if (r < 0)
        return -1;
    if (f->msg >= in->granted && f->bytes < f->total)
        want_grant(p, in);
    return r ? begin_drain(c, in) : begin_posted(c, in, x);
}

void wi_tcp_in_end(struct wi_tcp_conn *c)
{
    struct wi_tcp_peer *p = c->peer;
    struct wi_tcp_in *in = p->in[c->in.chan];
    if (c->target == WI_TCP_TO_EARLY) {
        c->in_early->complete = 1;
        if (c->in.msg < in->posted)
            early_place_all(p, in);
        return;
    }
    if (c->target == WI_TCP_TO_DRAIN) {
        drain_done(in, c->in_drain, c->in.bytes);
        return;
    }
    int sink = c->in_x->sink != NULL;
    if (frame_done(p, in, c->in_x, &c->in) == 0 && sink && in->early)
        early_place_all(p, in);
}

void wi_tcp_in_free(struct wi_tcp_in *in)
{
    if (!in)
        return;
    while (in->early) {
        struct wi_tcp_early *e = in->early;
        in->early = e->next;
        free(e);
    }
    while (in->drains) {
        struct wi_tcp_drain *d = in->drains;
        in->drains = d->next;
        free(d);
    }
    free(in->receives);
    free(in);
}
