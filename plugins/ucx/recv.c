/* recv.c: messages as they come, and the receives that they meet.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments of a channel are taken in order. One that cannot be taken yet is held: there is no receive for it, or an earlier one has
 * not come, or it goes to a sink, which only the group's own thread may call.
 */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX (1ull << 48)

/* What has come, wherever it lies. */
struct segment {
    uint8_t flags, is_rndv, is_lost;
    void *data; /* or UCX's descriptor of a rendezvous */
    size_t bytes;
    uint64_t total;
    const struct weft_op_info *info;
};

/* ---- Receives ---- */

static int sinks_allowed(const struct wu_group *g)
{
    return g->endpoint->inside == g && g->endpoint->in_progress;
}

static void consumed(struct wu_peer *p, uint32_t charge)
{
    p->consumed += charge;
    if (charge && p->consumed - p->told > p->group->endpoint->settings->window / 2)
        wu_peer_due(p);
}

static uint32_t charge_of(const struct segment *s)
{
    return s->flags & WU_CHARGED ? (uint32_t)s->bytes + WU_FRAME_BYTES : 0;
}

static void check_complete(struct wu_channel *ch)
{
    if (!ch->taking || ch->got < ch->total || ch->ins)
        return;
    ch->taking = 0;
    if (ch->to)
        wu_end(ch->peer->group, ch->to, WEFT_SUCCESS);
    ch->to = NULL;
}

/* ---- Rendezvous ---- */

void wu_in_free(struct wu_in *in)
{
    *in->link = in->next;
    if (in->next)
        in->next->link = in->link;
    if (in->way)
        in->way->users--;
    free(in->staging);
    free(in);
}

/* Those at the head that are done, in order: a sink gets its bytes so. */
static void take_done(struct wu_channel *ch)
{
    while (ch->ins && ch->ins->done) {
        struct wu_in *in = ch->ins;
        if (in->staging && ch->to && !sinks_allowed(ch->peer->group)) {
            wu_channel_ready(ch);
            return;
        }
        if (in->staging && ch->to)
            ch->to->sink(ch->to, ch->got, in->staging, in->bytes);
        ch->got += in->bytes;
        ch->ins = in->behind;
        if (!ch->ins)
            ch->ins_last = &ch->ins;
        consumed(ch->peer, in->charge);
        wu_in_free(in);
    }
    check_complete(ch);
}

static void in_done(struct wu_in *in, ucs_status_t status)
{
    struct wu_channel *ch = in->channel;
    char why[100];

    in->done = 1;
    if (ch && status != UCS_OK && status != UCS_ERR_CANCELED) {
        snprintf(why, sizeof why, "a receive failed: %s", wu_ucx.ucs_status_string(status));
        if (in->way)
            wu_link_break(in->way, why);
        else
            wu_peer_fail(in->peer, WEFT_EPEER, "%s", why);
    }
    if (!ch)
        wu_in_free(in);
    if (!ch || status != UCS_OK) /* its peer fails, which ends what waits for it */
        return;
    take_done(ch);
    if (ch->held)
        wu_recv_step(ch);
    if (ch->peer->left)
        wu_peer_check_left(ch->peer);
}

static void received(void *request, ucs_status_t status, size_t length, void *arg)
{
    (void)length;
    wu_ucx.ucp_request_free(request);
    in_done(arg, status);
}

static int begin_rndv(struct wu_channel *ch, const struct segment *s)
{
    struct wu_peer *p = ch->peer;
    struct wu_endpoint *e = p->group->endpoint;
    struct wu_in *in = calloc(1, sizeof *in);
    int sunk = ch->to->sink != NULL;
    void *request;

    if (in && sunk)
        in->staging = malloc(s->bytes);
    if (!in || (sunk && !in->staging)) {
        free(in);
        return 0;
    }
    in->peer = p;
    in->way = p->link; /* NULL: it knows this rank already, and not the other way round */
    if (in->way)
        in->way->users++;
    in->channel = ch;
    in->bytes = s->bytes;
    in->charge = charge_of(s);
    wu_in_link(&p->ins, in);
    *ch->ins_last = in;
    ch->ins_last = &in->behind;

    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb = {.recv_am = received},
                                 .user_data = in,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
    unsigned char *to = sunk ? in->staging : (unsigned char *)ch->to->buf + ch->asked;
    request = wu_ucx.ucp_am_recv_data_nbx(e->worker, s->data, to, s->bytes, &param);
    if (!request)
        in->done = 1;
    else if (UCS_PTR_IS_ERR(request))
        in_done(in, UCS_PTR_STATUS(request));
    return 1;
}

/* ---- A segment is taken ---- */

static int judge(const struct weft_xfer *x, const struct segment *s)
{
    if (memcmp(&x->info, s->info, sizeof x->info) != 0)
        return WEFT_EMISMATCH;
    if (s->total > x->bytes)
        return WEFT_ETRUNC;
    return s->total < x->bytes && !x->up_to ? WEFT_EMISMATCH : WEFT_SUCCESS;
}

static int can_take(struct wu_channel *ch, const struct segment *s)
{
    const struct weft_xfer *x = ch->taking ? ch->to : ch->recvs.first;
    unsigned under_way = 0;

    if (ch->taking ? ch->asked == ch->total
                   : !x) /* all of it is on its way: the next one's turn comes when it is here */
        return 0;
    if (x && x->sink && !sinks_allowed(ch->peer->group)) {
        wu_channel_ready(ch);
        return 0;
    }
    if (x && x->sink && ch->ins && !s->is_rndv)
        return 0;
    for (const struct wu_in *in = ch->ins; in; in = in->behind)
        under_way++;
    return under_way < WU_SEGMENTS;
}

static void meet(struct wu_channel *ch, const struct segment *s)
{
    struct weft_xfer *x = wu_queue_take(&ch->recvs);
    int state = judge(x, s);

    x->actual = s->total;
    ch->taking = 1;
    ch->total = s->total;
    ch->asked = ch->got = 0;
    ch->to = state < 0 ? NULL : x;
    if (state == WEFT_SUCCESS)
        return;
    x->peer_info = *s->info;
    wu_end(ch->peer->group, x, state);
}

enum taken { TAKEN, TAKEN_KEPT }; /* KEPT: UCX has the descriptor */

static enum taken take(struct wu_channel *ch, const struct segment *s)
{
    struct wu_peer *p = ch->peer;

    ch->taken++;
    if (!ch->taking != !!(s->flags & WU_FIRST) || (ch->taking && (s->total != ch->total))) {
        wu_peer_fail(p, WEFT_EPROTO, "it sent a segment of another message");
        return TAKEN;
    }
    if (!ch->taking)
        meet(ch, s);
    if (s->bytes > ch->total - ch->asked || (!s->bytes && ch->total)) {
        wu_peer_fail(p, WEFT_EPROTO, "it sent a segment of %zu bytes where %zu belong", s->bytes,
                     ch->total - ch->asked);
        return TAKEN;
    }
    if (s->is_lost) {
        wu_peer_fail(p, WEFT_EPEER, "it has given up its operations");
        return TAKEN;
    }
    if (s->is_rndv && ch->to) {
        if (!begin_rndv(ch, s)) {
            wu_peer_fail(p, WEFT_ENOMEM, "no memory for a segment");
            return TAKEN;
        }
        ch->asked += s->bytes;
        if (p->state != WU_FAILED)
            take_done(ch);
        return TAKEN_KEPT;
    }
    if (ch->to && ch->to->sink && s->bytes)
        ch->to->sink(ch->to, ch->got, s->data, s->bytes);
    else if (ch->to && s->bytes)
        memcpy((unsigned char *)ch->to->buf + ch->asked, s->data, s->bytes);
    ch->asked += s->bytes;
    ch->got += s->bytes;
    consumed(p, charge_of(s));
    check_complete(ch);
    return TAKEN;
}

/* ---- Held segments ---- */

static void held_free(struct wu_peer *p, struct wu_held *h, int ucx_has_it)
{
    if (h->data && !h->is_copy && !h->local && !ucx_has_it && !(h->is_rndv && h->is_lost))
        wu_ucx.ucp_am_data_release(p->group->endpoint->worker, h->data);
    p->nheld--;
    free(h);
}

static int take_held(struct wu_channel *ch)
{
    struct wu_held *h = ch->held;
    struct segment s = {h->flags, h->is_rndv, h->is_lost, h->data, h->bytes, h->total, &h->info};
    struct weft_xfer *local = h->local;
    struct wu_peer *p = ch->peer;
    enum taken taken;

    if (h->seq != ch->taken || !can_take(ch, &s))
        return 0;
    ch->held = h->next;
    taken = take(ch, &s);
    if (local)
        wu_end(p->group, local, WEFT_SUCCESS);
    held_free(p, h, taken == TAKEN_KEPT);
    return 1;
}

int wu_recv_step(struct wu_channel *ch)
{
    int events = 0;

    if (ch->ins)
        take_done(ch);
    while (ch->peer->state != WU_FAILED && ch->held && take_held(ch))
        events++;
    return events;
}

static void insert(struct wu_channel *ch, struct wu_held *h)
{
    struct wu_held **at = &ch->held;

    while (*at && (int32_t)((*at)->seq - h->seq) < 0)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
    ch->peer->nheld++;
}

/* Returns what the callback is to tell UCX. */
static ucs_status_t hold(struct wu_channel *ch, uint32_t seq, const struct segment *s, int persists)
{
    size_t copied = s->is_rndv || persists ? 0 : s->bytes;
    struct wu_held *h = malloc(sizeof *h + copied);

    if (!h) {
        wu_peer_fail(ch->peer, WEFT_ENOMEM, "no memory for a message");
        return UCS_OK;
    }
    *h = (struct wu_held){.seq = seq,
                          .flags = s->flags,
                          .is_rndv = s->is_rndv,
                          .is_lost = s->is_lost,
                          .is_copy = copied > 0,
                          .data = copied     ? (void *)(h + 1)
                                  : s->bytes ? s->data
                                             : NULL,
                          .bytes = s->bytes,
                          .total = s->total,
                          .info = *s->info};
    if (copied)
        memcpy(h + 1, s->data, copied);
    insert(ch, h);
    return h->data && !copied && !s->is_lost ? UCS_INPROGRESS : UCS_OK;
}

static void decline(struct wu_endpoint *e, struct wu_held *h)
{
    if (!h->is_rndv || h->is_lost)
        return;
    wu_ucx.ucp_am_data_release(e->worker, h->data);
    h->is_lost = 1;
}

void wu_recv_drop(struct wu_peer *p, int all)
{
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        struct wu_channel *ch = p->chans[i];
        for (struct wu_held *h = ch ? ch->held : NULL, *next; h; h = next) {
            next = h->next;
            decline(p->group->endpoint, h);
            if (all && h->local)
                wu_end(p->group, h->local, WEFT_ECANCELED);
            if (all)
                held_free(p, h, 0);
        }
        if (ch && all)
            ch->held = NULL;
    }
}

/* ---- As they come ---- */

static ucs_status_t came_segment(struct wu_peer *p, const struct wu_head *head, struct segment *s, int persists)
{
    struct wu_channel *ch = wu_channel_get(p, head->chan);
    ucs_status_t answer = UCS_OK;

    p->segments_got++;
    if (!ch) {
        wu_peer_fail(p, WEFT_ENOMEM, "no memory for a channel");
        return UCS_OK;
    }
    if (head->seq - ch->taken > WU_HELD_MAX || p->nheld > WU_HELD_MAX) {
        wu_peer_fail(p, WEFT_EPROTO, "it sent more than it may");
        return UCS_OK;
    }
    s->is_lost = s->is_rndv && p->cancelled;
    if (head->seq == ch->taken && can_take(ch, s)) {
        take(ch, s);
        if (ch->held)
            wu_recv_step(ch);
    } else {
        answer = hold(ch, head->seq, s, persists);
    }
    if (p->left)
        wu_peer_check_left(p);
    return answer;
}

static void came_credit(struct wu_peer *p, uint32_t consumed_there)
{
    uint32_t more = consumed_there - p->consumed_there;

    if (more <= p->charged - p->consumed_there) /* messages may overtake each other: an older one says less */
        p->consumed_there = consumed_there;
}

ucs_status_t wu_came(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                     const ucp_am_recv_param_t *param)
{
    struct wu_endpoint *e = arg;
    struct wu_head head;
    struct wu_peer *p;
    uint32_t place;

    if (header_bytes != sizeof head)
        return UCS_OK;
    memcpy(&head, header, sizeof head);
    place = (uint32_t)head.token;
    if (place >= e->nroutes || !head.token || e->routes[place].token != head.token)
        return UCS_OK; /* of a communicator that is gone, or a stranger's */
    p = e->routes[place].peer;
    if (p->state == WU_FAILED)
        return UCS_OK;
    came_credit(p, head.consumed);
    switch (head.kind) {
    case WU_MESSAGE:
        if (head.chan >= WEFT_CHAN_MAX || head.total > MESSAGE_MAX || bytes > head.total)
            break;
        if (p->group->quiet) {
            p->segments_got++;
            return UCS_OK;
        }
        struct segment s = {
            head.flags, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0, 0, data, bytes, head.total, &head.info};
        return came_segment(p, &head, &s, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
    case WU_CREDIT:
        return UCS_OK;
    case WU_CANCEL:
        p->cancelled = 1;
        wu_recv_drop(p, 0);
        return UCS_OK;
    case WU_LEAVE:
        p->left = 1;
        p->aborted = (head.flags & WU_ABORTED) != 0;
        p->segments_promised = head.seq;
        if (p->aborted)
            wu_peer_fail(p, WEFT_EPEER, "it aborted the communicator");
        else
            wu_peer_check_left(p);
        return UCS_OK;
    }
    wu_peer_fail(p, WEFT_EPROTO, "it sent a malformed header (kind %u, channel %u, %zu bytes)", head.kind, head.chan,
                 bytes);
    return UCS_OK;
}

weft_status wu_recv_local(struct wu_channel *ch, struct weft_xfer *send)
{
    struct wu_held *h = calloc(1, sizeof *h);

    if (!h)
        return WEFT_ENOMEM;
    *h = (struct wu_held){.seq = ch->sent++,
                          .flags = WU_FIRST,
                          .data = send->buf,
                          .bytes = send->bytes,
                          .total = send->bytes,
                          .info = send->info,
                          .local = send};
    insert(ch, h);
    wu_recv_step(ch);
    return WEFT_SUCCESS;
}

/* ---- Posting ---- */

static weft_status post(struct wu_group *g, struct weft_xfer *x)
{
    struct wu_channel *ch;
    struct wu_peer *p;
    weft_status st = wu_channel_for(g, x, &ch);

    if (st < 0)
        return st;
    p = ch->peer;
    x->state = WEFT_XFER_PENDING;
    wu_queue_add(&ch->recvs, x);
    if (!x->background)
        wu_connect(p);
    if (ch->held)
        wu_recv_step(ch);
    if (p->left)
        wu_peer_check_left(p);
    return WEFT_SUCCESS;
}

weft_status wu_recv(void *group, struct weft_xfer *x)
{
    struct wu_group *g = group;
    weft_status st;

    wu_enter(g->endpoint, g);
    st = post(g, x);
    wu_leave(g->endpoint);
    return st;
}

static int look(struct wu_group *g, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    const struct wu_channel *ch;
    struct wu_peer *p;
    weft_status st = wu_peer_get(g, peer, &p);

    if (st < 0)
        return st;
    if (chan >= WEFT_CHAN_MAX)
        return wu_refuse(g, WEFT_EINVAL, "no such channel");
    if (p->state == WU_FAILED)
        return wu_refuse_peer(p);
    if (connect)
        wu_connect(p);
    ch = p->chans[chan];
    if (!ch || ch->recvs.first || ch->taking || !ch->held || ch->held->seq != ch->taken)
        return p->left && p->segments_got == p->segments_promised && (!ch || !ch->held)
                   ? wu_refuse(g, WEFT_EPEER, "the peer has left the communicator")
                   : 0;
    *info = ch->held->info;
    *bytes = ch->held->total;
    return 1;
}

int wu_peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    struct wu_group *g = group;
    int seen;

    wu_enter(g->endpoint, g);
    seen = look(g, peer, chan, connect, info, bytes);
    wu_leave(g->endpoint);
    return seen;
}
