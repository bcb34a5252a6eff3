/* send.c: messages on their way out.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>

struct wu_out *wu_out_get(struct wu_endpoint *e)
{
    struct wu_out *o = e->free_outs;

    if (!o)
        return calloc(1, sizeof *o);
    e->free_outs = o->next;
    return o;
}

void wu_out_put(struct wu_endpoint *e, struct wu_out *o)
{
    o->next = e->free_outs;
    e->free_outs = o;
}

static void unlink_out(struct wu_out *o)
{
    *o->link = o->next;
    if (o->next)
        o->next->link = o->link;
}

/* UCX is done with a segment of x. */
static void segment_done(struct wu_group *g, struct weft_xfer *x)
{
    if (--x->priv[PRIV_UNDER_WAY] == 0 && x->priv[PRIV_POSTED])
        wu_end(g, x, WEFT_SUCCESS);
}

/* A peer that has left may have gone before the last credit came: that is no failure. */
static void send_failed(struct wu_out *o, ucs_status_t status)
{
    char why[100];

    snprintf(why, sizeof why, "a send failed: %s", wu_ucx.ucs_status_string(status));
    if (status != UCS_ERR_CANCELED)
        wu_link_break(o->way, why);
    if (o->peer && o->x)
        wu_peer_fail(o->peer, WEFT_EPEER, "%s", o->way->broken ? o->way->why : why); /* which ends x */
}

static void sent(void *request, ucs_status_t status, void *arg)
{
    struct wu_out *o = arg;
    struct wu_endpoint *e = o->way->endpoint;
    struct wu_peer *p = o->peer;

    wu_ucx.ucp_request_free(request);
    o->way->users--;
    if (status != UCS_OK)
        send_failed(o, status);
    unlink_out(o);
    if (p && o->head.kind == WU_MESSAGE) {
        p->chans[o->head.chan]->under_way--;
        wu_peer_due(p);
    }
    if (p && o->x)
        segment_done(p->group, o->x);
    wu_out_put(e, o);
}

/* Hand a header with bytes of x to UCX. Returns 0 if the peer failed. */
static int post(struct wu_peer *p, struct wu_out *o, struct weft_xfer *x, const void *data, size_t bytes,
                uint32_t flags)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .flags = flags,
                                 .cb = {.send = sent},
                                 .user_data = o,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
    struct wu_link *l = p->link;
    void *request;

    o->head.token = p->their_token;
    o->head.consumed = p->told = p->consumed;
    l->dirty = 1;
    if (p->group->endpoint->parked)
        wu_keeper_wake(p->group->endpoint);
    request = wu_ucx.ucp_am_send_nbx(l->ep, WU_AM_ID, &o->head, sizeof o->head, data, bytes, &param);
    if (!request) {
        wu_out_put(p->group->endpoint, o);
        return 1;
    }
    if (UCS_PTR_IS_ERR(request)) {
        char why[100];
        snprintf(why, sizeof why, "a send failed: %s", wu_ucx.ucs_status_string(UCS_PTR_STATUS(request)));
        wu_out_put(p->group->endpoint, o);
        wu_link_break(l, why);
        return 0;
    }
    o->peer = p;
    o->way = l;
    o->x = x;
    l->users++;
    if (x)
        x->priv[PRIV_UNDER_WAY]++;
    if (o->head.kind == WU_MESSAGE)
        p->chans[o->head.chan]->under_way++;
    wu_out_link(&p->outs, o);
    return 1;
}

void wu_say(struct wu_peer *p, enum wu_kind kind, unsigned flags, uint32_t seq)
{
    struct wu_out *o = wu_out_get(p->group->endpoint);

    if (!o) {
        wu_peer_fail(p, WEFT_ENOMEM, "no memory for a message");
        return;
    }
    o->head = (struct wu_head){.kind = (uint8_t)kind, .flags = (uint8_t)flags, .seq = seq};
    post(p, o, NULL, NULL, 0, UCP_AM_SEND_FLAG_EAGER);
}

/* The next segment of the channel's first send. Returns 0: not now. */
static int post_segment(struct wu_channel *ch)
{
    struct wu_peer *p = ch->peer;
    const struct wu_settings *s = p->group->endpoint->settings;
    struct weft_xfer *x = ch->sends.first;
    size_t left = x->bytes - ch->posted, n = left < s->segment ? left : s->segment;
    uint32_t charge = (uint32_t)n + WU_FRAME_BYTES, open = p->charged - p->consumed_there;
    int fits = open + charge <= s->window, first = !ch->posted;
    struct wu_out *o = wu_out_get(p->group->endpoint);

    if (!o) {
        wu_peer_fail(p, WEFT_ENOMEM, "no memory for a segment");
        return 0;
    }
    o->head = (struct wu_head){.kind = WU_MESSAGE,
                               .chan = ch->chan,
                               .flags = (uint8_t)((first ? WU_FIRST : 0) | (fits ? WU_CHARGED : 0)),
                               .seq = ch->sent,
                               .total = x->bytes,
                               .info = x->info};
    const void *data = n ? (const unsigned char *)x->buf + ch->posted : NULL;
    ch->sent++;
    p->segments_sent++;
    if (fits)
        p->charged += charge;
    ch->posted += n;
    if (ch->posted == x->bytes) { /* before UCX may end it */
        wu_queue_take(&ch->sends);
        ch->posted = 0;
        x->priv[PRIV_POSTED] = 1;
    }
    /* What goes beyond the window waits here until it is wanted, but for what has no bytes. */
    if (!post(p, o, x, data, n, fits || !n ? 0 : UCP_AM_SEND_FLAG_RNDV)) {
        if (x->priv[PRIV_POSTED])
            wu_end(p->group, x, WEFT_EPEER);
        return 0;
    }
    if (x->priv[PRIV_POSTED] && !x->priv[PRIV_UNDER_WAY])
        wu_end(p->group, x, WEFT_SUCCESS);
    return 1;
}

static void push(struct wu_channel *ch)
{
    while (ch->sends.first && ch->under_way < WU_SEGMENTS && ch->peer->state == WU_CONNECTED && !ch->peer->link->broken)
        if (!post_segment(ch))
            return;
}

void wu_send_step(struct wu_peer *p)
{
    if (p->state != WU_CONNECTED || !p->link || p->link->broken || p->group->quiet)
        return;
    for (int i = 0; i < WEFT_CHAN_MAX; i++)
        if (p->chans[i] && p->chans[i]->sends.first)
            push(p->chans[i]);
    if (p->consumed - p->told > p->group->endpoint->settings->window / 2 && !p->left)
        wu_say(p, WU_CREDIT, 0, 0);
}

static weft_status take(struct wu_group *g, struct weft_xfer *x)
{
    struct wu_channel *ch;
    struct wu_peer *p;
    weft_status st = wu_channel_for(g, x, &ch);

    if (st < 0)
        return st;
    p = ch->peer;
    if (p->left)
        return wu_refuse(g, WEFT_EPEER, "the peer has left the communicator");
    x->priv[PRIV_UNDER_WAY] = x->priv[PRIV_POSTED] = 0;
    x->state = WEFT_XFER_PENDING;
    if (p->rank == g->rank) {
        st = wu_recv_local(ch, x);
        return st < 0 ? wu_refuse(g, st, "no memory for a message") : st;
    }
    wu_queue_add(&ch->sends, x);
    if (p->state == WU_CONNECTED)
        push(ch);
    else
        wu_connect(p);
    return WEFT_SUCCESS;
}

weft_status wu_send(void *group, struct weft_xfer *x)
{
    struct wu_group *g = group;
    weft_status st;

    wu_enter(g->endpoint, g);
    st = take(g, x);
    wu_leave(g->endpoint);
    return st;
}
