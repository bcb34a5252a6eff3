/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels: which message meets which receive. A channel never waits for another: short messages that no receive waits for are put
 * aside, eight of each channel; long ones are announced, and stay with their sender. */
#include "ncclnet.h"

#include <stdlib.h>
#include <string.h>

struct nn_chan *nn_chan_get(struct nn_peer *p, uint32_t chan)
{
    struct nn_chan *ch = p->chans[chan];

    if (ch)
        return ch;
    ch = calloc(1, sizeof *ch);
    if (!ch)
        return NULL;
    nn_queue_init(&ch->sends);
    nn_queue_init(&ch->recvs);
    ch->arrivals_last = &ch->arrivals;
    return p->chans[chan] = ch;
}

void nn_xfer_end(struct nn_peer *p, struct weft_xfer *x, int direction, int state)
{
    struct nn_chan *ch = p->chans[x->chan];

    ch->posted[direction]--;
    if (direction == NN_SENDS)
        ch->longs -= x->priv[NN_PRIV_LONG] != 0;
    else
        p->fresh = 1;
    x->state = state;
}

/* ---- Meeting ---- */

static int say(struct nn_peer *p, enum nn_record_kind kind, uint32_t chan, uint64_t bytes)
{
    struct nn_record record = {.kind = (uint16_t)kind, .chan = (uint16_t)chan, .bytes = bytes};

    if (nn_say(p, record, NULL) >= 0)
        return 1;
    nn_fail(p, WEFT_ENOMEM, "no memory for what is to be said to rank %d", p->rank);
    return 0;
}

static int judge(const struct weft_xfer *x, size_t bytes)
{
    if (bytes > x->bytes)
        return WEFT_ETRUNC;
    return bytes < x->bytes && !x->up_to ? WEFT_EMISMATCH : WEFT_SUCCESS;
}

/* Half of what may be put aside is credited at once. */
static int give_credit(struct nn_peer *p, struct nn_chan *ch, uint32_t chan)
{
    ch->taken++;
    if (ch->taken - ch->told < NN_EAGER_AHEAD / 2 || p->state != NN_UP)
        return 1;
    ch->told = ch->taken;
    return say(p, NN_CREDIT, chan, ch->taken);
}

/* The oldest receive takes the message. 0: the peer was failed. */
static int meet(struct nn_peer *p, struct nn_chan *ch, const struct nn_record *r, const unsigned char *data)
{
    struct weft_xfer *x = nn_queue_take(&ch->recvs);
    int state = judge(x, r->bytes);

    x->actual = r->bytes;
    x->imm = r->imm;
    if (r->kind == NN_RTS && state == WEFT_SUCCESS && r->bytes) {
        nn_queue_add(&p->data_in, x);
        return 1;
    }
    if (r->kind == NN_EAGER && state == WEFT_SUCCESS && r->bytes)
        memcpy(x->buf, data, r->bytes);
    nn_xfer_end(p, x, NN_RECVS, state);
    return r->kind == NN_EAGER ? give_credit(p, ch, r->chan) : say(p, NN_SKIP, r->chan, 0);
}

static int put_aside(struct nn_peer *p, struct nn_chan *ch, const struct nn_record *r, const unsigned char *data)
{
    size_t bytes = r->kind == NN_EAGER ? r->bytes : 0;
    struct nn_arrival *a = malloc(sizeof *a + bytes);

    if (!a) {
        nn_fail(p, WEFT_ENOMEM, "no memory for a message of rank %d", p->rank);
        return 0;
    }
    a->next = NULL;
    a->record = *r;
    if (bytes)
        memcpy(a->data, data, bytes);
    *ch->arrivals_last = a;
    ch->arrivals_last = &a->next;
    ch->announced += r->kind == NN_RTS;
    ch->put_aside += r->kind == NN_EAGER;
    return 1;
}

static struct nn_arrival *take_arrival(struct nn_chan *ch)
{
    struct nn_arrival *a = ch->arrivals;

    ch->arrivals = a->next;
    if (!ch->arrivals)
        ch->arrivals_last = &ch->arrivals;
    ch->announced -= a->record.kind == NN_RTS;
    ch->put_aside -= a->record.kind == NN_EAGER;
    return a;
}

/* ---- Posting ---- */

weft_status nn_post_send(struct nn_peer *p, struct weft_xfer *x)
{
    struct nn_chan *ch = nn_chan_get(p, x->chan);
    struct nn_record record = {.kind = NN_RTS, .chan = (uint16_t)x->chan, .imm = x->imm, .bytes = x->bytes};
    weft_status st;

    if (!ch)
        return WEFT_ENOMEM;
    if (ch->posted[NN_SENDS] == NN_POSTS_MAX)
        return WEFT_EBUSY;
    if (!ch->longs && x->bytes <= p->group->endpoint->settings->eager && ch->sent - ch->consumed < NN_EAGER_AHEAD)
        record.kind = NN_EAGER;
    st = nn_say(p, record, record.kind == NN_EAGER ? x : NULL);
    if (st < 0)
        return st;
    memset(x->priv, 0, sizeof x->priv);
    x->state = WEFT_XFER_PENDING;
    ch->posted[NN_SENDS]++;
    ch->sent += record.kind == NN_EAGER;
    if (record.kind == NN_RTS) {
        x->priv[NN_PRIV_LONG] = 1;
        ch->longs++;
        nn_queue_add(&ch->sends, x);
    }
    return WEFT_SUCCESS;
}

weft_status nn_post_recv(struct nn_peer *p, struct weft_xfer *x)
{
    struct nn_chan *ch = nn_chan_get(p, x->chan);

    if (!ch)
        return WEFT_ENOMEM;
    if (ch->posted[NN_RECVS] == NN_POSTS_MAX)
        return WEFT_EBUSY;
    memset(x->priv, 0, sizeof x->priv);
    x->state = WEFT_XFER_PENDING;
    ch->posted[NN_RECVS]++;
    nn_queue_add(&ch->recvs, x);
    if (ch->arrivals && ch->recvs.first == x) {
        struct nn_arrival *a = take_arrival(ch);
        meet(p, ch, &a->record, a->data);
        free(a);
    }
    return WEFT_SUCCESS;
}

/* ---- Records of the peer ---- */

static int malformed(struct nn_peer *p, const char *what)
{
    nn_fail(p, WEFT_EPROTO, "rank %d sent a malformed record over ncclnet: %s", p->rank, what);
    return 0;
}

static int take_message(struct nn_peer *p, struct nn_chan *ch, const struct nn_record *r, const unsigned char *payload)
{
    if (r->kind == NN_EAGER && ch->put_aside == NN_EAGER_AHEAD)
        return malformed(p, "more short messages than a channel puts aside");
    if (r->kind == NN_RTS && (ch->announced == NN_POSTS_MAX || r->bytes > p->recv[NN_DATA].device->max_bytes))
        return malformed(p, "more is announced than may be");
    if (ch->recvs.first && !ch->arrivals)
        return meet(p, ch, r, payload);
    return put_aside(p, ch, r, payload);
}

static int take_answer(struct nn_peer *p, struct nn_chan *ch, const struct nn_record *r)
{
    struct weft_xfer *x;

    if (!ch->sends.first)
        return malformed(p, "it calls for a message that was not announced");
    x = nn_queue_take(&ch->sends);
    if (r->kind == NN_SKIP)
        nn_xfer_end(p, x, NN_SENDS, WEFT_SUCCESS);
    else if (x->bytes)
        nn_queue_add(&p->data_out, x);
    else
        return malformed(p, "it calls for an empty message");
    return 1;
}

static int take_credit(struct nn_peer *p, struct nn_chan *ch, const struct nn_record *r)
{
    uint32_t consumed = (uint32_t)r->bytes;

    if (consumed - ch->consumed > ch->sent - ch->consumed)
        return malformed(p, "more credit than was used");
    ch->consumed = consumed;
    return 1;
}

int nn_take_record(struct nn_peer *p, const struct nn_record *r, const unsigned char *payload)
{
    struct nn_chan *ch;

    if (r->kind == NN_BYE) {
        nn_take_bye(p, r->bytes != 0);
        return 0;
    }
    if (r->chan >= p->group->nchans)
        return malformed(p, "there is no such channel");
    ch = nn_chan_get(p, r->chan);
    if (!ch) {
        nn_fail(p, WEFT_ENOMEM, "no memory for a channel with rank %d", p->rank);
        return 0;
    }
    switch (r->kind) {
    case NN_EAGER:
    case NN_RTS:
        return take_message(p, ch, r, payload);
    case NN_CTS:
    case NN_SKIP:
        return take_answer(p, ch, r);
    case NN_CREDIT:
        return take_credit(p, ch, r);
    default:
        return malformed(p, "it is of no known kind");
    }
}

/* ---- The end ---- */

static void end_queue(struct nn_peer *p, struct nn_queue *q, int direction, int state)
{
    while (q->first)
        nn_xfer_end(p, nn_queue_take(q), direction, state);
}

void nn_sends_forget(struct nn_peer *p)
{
    for (unsigned i = 0; i < p->said_count; i++) {
        struct weft_xfer *x = p->said[(p->said_first + i) % p->said_capacity].x;
        if (x)
            nn_queue_add(&p->data_out, x); /* behind those that are posted: it ends with them */
    }
    p->said_count = 0;
}

int nn_sends_end(struct nn_peer *p, int state)
{
    int owed = nn_sends_wait(p);

    for (; p->said_count; p->said_count--) {
        struct weft_xfer *x = p->said[p->said_first].x;
        p->said_first = (p->said_first + 1) % p->said_capacity;
        if (x)
            nn_xfer_end(p, x, NN_SENDS, state);
    }
    for (unsigned i = 0; i < NN_SLOTS; i++) {
        struct weft_xfer *next;
        for (struct weft_xfer *x = p->out[i].eager; x; x = next) {
            next = x->next;
            nn_xfer_end(p, x, NN_SENDS, state);
        }
        p->out[i].eager = NULL;
    }
    for (uint32_t c = 0; c < p->group->nchans; c++)
        if (p->chans[c])
            end_queue(p, &p->chans[c]->sends, NN_SENDS, state);
    end_queue(p, &p->data_out, NN_SENDS, state);
    p->data_out_posted = 0;
    return owed;
}

void nn_xfers_end(struct nn_peer *p, int state)
{
    nn_sends_end(p, state);
    for (uint32_t c = 0; c < p->group->nchans; c++)
        if (p->chans[c])
            end_queue(p, &p->chans[c]->recvs, NN_RECVS, state);
    end_queue(p, &p->data_in, NN_RECVS, state);
    p->data_in_posted = 0;
}

static int any_earnest(const struct weft_xfer *x)
{
    while (x && x->background)
        x = x->next;
    return x != NULL;
}

int nn_sends_wait(const struct nn_peer *p)
{
    int wait = any_earnest(p->data_out.first);

    for (unsigned i = 0; i < p->said_count; i++) {
        const struct weft_xfer *x = p->said[(p->said_first + i) % p->said_capacity].x;
        wait |= x && !x->background;
    }
    for (unsigned i = 0; i < NN_SLOTS; i++)
        wait |= any_earnest(p->out[i].eager);
    for (uint32_t c = 0; c < p->group->nchans; c++)
        wait |= p->chans[c] && any_earnest(p->chans[c]->sends.first);
    return wait;
}

int nn_recvs_wait(const struct nn_peer *p)
{
    for (uint32_t c = 0; c < p->group->nchans; c++)
        if (p->chans[c] && any_earnest(p->chans[c]->recvs.first))
            return 1;
    return 0;
}

/* A peer that has left sends nothing of what it had announced only. */
void nn_announced_drop(struct nn_peer *p)
{
    for (uint32_t c = 0; c < p->group->nchans; c++) {
        struct nn_chan *ch = p->chans[c];
        struct nn_arrival **at = ch ? &ch->arrivals : NULL, *rest;
        while (at && *at && (*at)->record.kind != NN_RTS)
            at = &(*at)->next;
        rest = at ? *at : NULL;
        if (!rest)
            continue;
        *at = NULL;
        ch->arrivals_last = at;
        for (struct nn_arrival *next; rest; rest = next) {
            next = rest->next;
            ch->announced -= rest->record.kind == NN_RTS;
            ch->put_aside -= rest->record.kind == NN_EAGER;
            free(rest);
        }
    }
}

void nn_chans_free(struct nn_peer *p)
{
    for (uint32_t c = 0; p->chans && c < p->group->nchans; c++) {
        struct nn_chan *ch = p->chans[c];
        while (ch && ch->arrivals)
            free(take_arrival(ch));
        free(ch);
    }
    free(p->chans);
    p->chans = NULL;
}

/* ---- The rank's own messages ---- */

static void deliver(struct nn_peer *p, struct weft_xfer *send, struct weft_xfer *recv)
{
    int state = judge(recv, send->bytes);

    recv->actual = send->bytes;
    recv->imm = send->imm;
    if (state == WEFT_SUCCESS && send->bytes)
        memmove(recv->buf, send->buf, send->bytes);
    nn_xfer_end(p, send, NN_SENDS, WEFT_SUCCESS);
    nn_xfer_end(p, recv, NN_RECVS, state);
}

weft_status nn_self_post(struct nn_peer *p, struct weft_xfer *x, int direction)
{
    struct nn_chan *ch = nn_chan_get(p, x->chan);

    if (!ch)
        return WEFT_ENOMEM;
    if (ch->posted[direction] == NN_POSTS_MAX)
        return WEFT_EBUSY;
    memset(x->priv, 0, sizeof x->priv);
    x->state = WEFT_XFER_PENDING;
    ch->posted[direction]++;
    nn_queue_add(direction == NN_SENDS ? &ch->sends : &ch->recvs, x);
    while (ch->sends.first && ch->recvs.first)
        deliver(p, nn_queue_take(&ch->sends), nn_queue_take(&ch->recvs));
    return WEFT_SUCCESS;
}
