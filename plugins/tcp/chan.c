/* chan.c: the sending side of channels: from posted sends to frames, within what the receiver allows.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

static struct wi_tcp_out *out_get(struct wi_tcp_peer *p, uint32_t chan)
{
    struct wi_tcp_out *o = p->out[chan];
    if (o)
        return o;
    o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->chan = (uint8_t)chan;
    o->eager_limit = p->state == WI_TCP_LINKED ? p->eager : 0;
    return p->out[chan] = o;
}

static void make_ready(struct wi_tcp_peer *p, struct wi_tcp_out *o)
{
    if (o->queued || !o->head)
        return;
    o->queued = 1;
    o->next = NULL;
    *p->ready_end = o;
    p->ready_end = &o->next;
    wi_tcp_peer_want_out(p);
}

weft_status wi_tcp_out_post(struct wi_tcp_peer *p, struct weft_xfer *x)
{
    struct wi_tcp_out *o = out_get(p, x->chan);
    if (!o)
        return WEFT_ENOMEM;
    memset(x->priv, 0, sizeof x->priv);
    x->priv[WI_TCP_X_MSG] = o->next_msg++;
    x->next = NULL;
    x->state = WEFT_XFER_PENDING;
    if (o->head)
        o->tail->next = x;
    else
        o->head = x;
    o->tail = x;
    p->nsends++;
    make_ready(p, o);
    return WEFT_SUCCESS;
}

/* How many bytes of x may go next; 0 with *blocked when the window is used up. Slivers are not worth a frame: less than
 * a quarter of the window waits. The receiver never owes more than half of it, so this always ends. */
static size_t allowance(const struct wi_tcp_peer *p, const struct wi_tcp_out *o, const struct weft_xfer *x,
                        uint8_t *flags, int *blocked)
{
    size_t left = x->bytes - x->priv[WI_TCP_X_RESERVED], chunk = p->group->endpoint->settings->chunk;
    size_t n = left < chunk ? left : chunk;
    *blocked = 0;
    *flags = 0;
    if (x->priv[WI_TCP_X_MSG] < o->granted)
        return n;
    *flags = WI_TCP_EAGER_FLAG;
    uint64_t room = o->eager_limit - o->eager_sent;
    if (n + WI_TCP_EAGER_COST <= room)
        return n;
    if (n > 0 && room >= p->eager / 4 && room > WI_TCP_EAGER_COST)
        return (size_t)room - WI_TCP_EAGER_COST;
    *blocked = 1;
    return 0;
}

static int pull_data(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f)
{
    while (p->ready) {
        struct wi_tcp_out *o = p->ready;
        struct weft_xfer *x = o->head;
        uint8_t flags;
        int blocked;
        size_t n = allowance(p, o, x, &flags, &blocked);
        p->ready = o->next;
        if (!p->ready)
            p->ready_end = &p->ready;
        o->queued = 0;
        if (blocked)
            continue; /* until a grant comes */
        struct wi_tcp_frame frame = {.type = WI_TCP_DATA,
                                     .chan = o->chan,
                                     .flags = flags,
                                     .bytes = (uint32_t)n,
                                     .msg = x->priv[WI_TCP_X_MSG],
                                     .offset = x->priv[WI_TCP_X_RESERVED],
                                     .total = x->bytes,
                                     .info = x->info};
        wi_tcp_frame_encode(&frame, f->header);
        f->data = (const unsigned char *)x->buf + x->priv[WI_TCP_X_RESERVED];
        f->bytes = n;
        f->x = x;
        if (flags)
            o->eager_sent += n + WI_TCP_EAGER_COST;
        x->priv[WI_TCP_X_RESERVED] += n;
        if (x->priv[WI_TCP_X_RESERVED] == x->bytes)
            o->head = x->next;
        make_ready(p, o); /* at the end: channels take turns */
        return 1;
    }
    return 0;
}

int wi_tcp_out_pull(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f)
{
    return wi_tcp_in_grant(p, f) || pull_data(p, f);
}

int wi_tcp_out_wanted(const struct wi_tcp_peer *p)
{
    return p->ready || p->grants;
}

void wi_tcp_out_sent(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f)
{
    struct weft_xfer *x = f->x;
    if (!x)
        return;
    f->x = NULL;
    x->priv[WI_TCP_X_DONE] += f->bytes;
    if (x->priv[WI_TCP_X_DONE] < x->bytes)
        return;
    p->nsends--;
    x->state = WEFT_SUCCESS;
}

int wi_tcp_out_grant(struct wi_tcp_peer *p, const struct wi_tcp_frame *f, const char **wrong)
{
    struct wi_tcp_out *o = out_get(p, f->chan);
    if (!o) {
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "no memory for a channel with rank %d", p->rank);
        return -1;
    }
    if (f->total > o->eager_sent + WI_TCP_EAGER_MAX) {
        *wrong = "window beyond any bound";
        return -1;
    }
    /* Grants may overtake each other on several sockets. */
    if (f->msg > o->granted)
        o->granted = f->msg;
    if (f->total > o->eager_limit)
        o->eager_limit = f->total;
    make_ready(p, o);
    return 0;
}

void wi_tcp_out_start(struct wi_tcp_peer *p)
{
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        struct wi_tcp_out *o = p->out[i];
        if (!o)
            continue;
        o->eager_limit = p->eager;
        make_ready(p, o);
    }
    wi_tcp_peer_want_out(p);
}
