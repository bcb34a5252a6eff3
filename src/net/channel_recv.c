/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side of the channel layer: headers as they come, the receives that they meet, payload in chunks. */
#include "net/channel_group.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define MESSAGE_MAX (1ull << 48)

void wi_channel_recv_end(struct wi_channel *ch, struct weft_xfer *x, int state)
{
    ch->peer->earnest -= !x->background;
    x->state = state;
}

static void hand_over(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    if (!bytes)
        return;
    if (x->sink)
        x->sink(x, offset, data, bytes);
    else
        memcpy((unsigned char *)x->buf + offset, data, bytes);
}

/* ---- Payload in chunks ---- */

static void post_chunks(struct wi_channel *ch)
{
    struct wi_channel_peer *p = ch->peer;
    struct wi_channel_group *g = p->group;

    while (ch->asked < ch->total && ch->chunks_in.count < WI_CHANNEL_CHUNKS) {
        size_t n = ch->total - ch->asked < WI_CHANNEL_CHUNK ? ch->total - ch->asked : WI_CHANNEL_CHUNK;
        unsigned failures = wi_fail_count();
        struct wi_piece *piece = wi_channel_piece_get(g);
        weft_status st = piece ? WEFT_SUCCESS : WEFT_ENOMEM;
        if (piece && !ch->place.at && !(piece->staging = wi_channel_chunk_get(g)))
            st = WEFT_ENOMEM;
        if (st >= 0) {
            piece->offset = ch->asked;
            piece->raw = (struct weft_xfer){.buf = piece->staging ? piece->staging->at : ch->place.at + ch->asked,
                                            .bytes = n,
                                            .peer = p->rank,
                                            .chan = ch->chan,
                                            .granule = 1,
                                            .memory = piece->staging ? WEFT_MEMORY_HOST : ch->to->memory,
                                            .mem = piece->staging ? piece->staging->mem : ch->place.mem};
            st = g->raw->recv(g->group, &piece->raw);
        }
        if (st < 0) {
            if (piece)
                wi_channel_piece_put(g, piece);
            if (st != WEFT_EBUSY)
                wi_channel_peer_fail(p, st, 1, "%s", wi_fail_text_since(failures, st));
            return;
        }
        ch->asked += n;
        wi_piece_queue_add(&ch->chunks_in, piece);
    }
}

static void take_chunk(struct wi_channel *ch, struct wi_piece *piece)
{
    struct wi_channel_peer *p = ch->peer;

    if (piece->raw.state < 0) {
        if (piece->raw.state == WEFT_EMISMATCH || piece->raw.state == WEFT_ETRUNC)
            wi_channel_peer_fail(p, WEFT_EPROTO, 1, "rank %d sent %zu bytes where %zu belong", p->rank,
                                 piece->raw.actual, piece->raw.bytes);
        else
            wi_channel_piece_failed(p, piece);
        return;
    }
    if (!wi_channel_order(p, piece, ch->chunks_taken++))
        return;
    if (piece->staging && ch->to)
        hand_over(ch->to, piece->offset, piece->staging->at, piece->raw.bytes);
    ch->got += piece->raw.bytes;
}

static void end_message(struct wi_channel *ch)
{
    wi_channel_lease_end(ch->peer->group, ch->place.lease);
    ch->place = (struct wi_channel_place){NULL, NULL, NULL};
    ch->taking = 0;
    if (ch->to)
        wi_channel_recv_end(ch, ch->to, WEFT_SUCCESS);
    ch->to = NULL;
}

int wi_channel_chunks_in_step(struct wi_channel *ch)
{
    struct wi_channel_group *g = ch->peer->group;
    int events = 0;

    while (ch->chunks_in.first && ch->chunks_in.first->raw.state != WEFT_XFER_PENDING) {
        struct wi_piece *piece = wi_piece_queue_take(&ch->chunks_in);
        if (ch->peer->state != WI_CHANNEL_FAILED)
            take_chunk(ch, piece);
        wi_channel_piece_put(g, piece);
        events++;
    }
    if (ch->peer->state == WI_CHANNEL_FAILED)
        return events;
    if (ch->taking && ch->got == ch->total)
        end_message(ch);
    else if (ch->taking)
        post_chunks(ch);
    return events + wi_channel_meet(ch, 1);
}

/* ---- A header meets a receive ---- */

static void give_credit(struct wi_channel *ch)
{
    ch->taken++;
    if (ch->taken - ch->told < WI_CHANNEL_CREDIT / 2)
        return;
    ch->credit_due = 1;
    wi_channel_ready(ch);
}

static int judge(const struct weft_xfer *x, const struct wi_channel_head *head)
{
    if (memcmp(&x->info, &head->info, sizeof x->info) != 0)
        return WEFT_EMISMATCH;
    if (head->bytes > x->bytes)
        return WEFT_ETRUNC;
    return head->bytes < x->bytes && !x->up_to ? WEFT_EMISMATCH : WEFT_SUCCESS;
}

/* The oldest receive takes the message that this header begins. */
static void meet_one(struct wi_channel *ch, const struct wi_channel_head *head, const void *data)
{
    struct weft_xfer *x = wi_user_queue_take(&ch->recvs);
    int state = judge(x, head), is_short = head->bytes <= WI_CHANNEL_SHORT;

    x->actual = head->bytes;
    if (state < 0)
        x->peer_info = head->info;
    else if (is_short)
        hand_over(x, 0, data, head->bytes);
    if (!is_short) {
        ch->taking = 1;
        ch->to = state < 0 ? NULL : x;
        ch->total = head->bytes;
        ch->asked = ch->got = 0;
        if (ch->to)
            ch->place = wi_channel_place(ch->peer->group, x, head->bytes);
        wi_channel_busy(ch);
    }
    give_credit(ch);
    if (is_short || state < 0)
        wi_channel_recv_end(ch, x, state);
    if (ch->taking)
        post_chunks(ch);
}

int wi_channel_meet(struct wi_channel *ch, int sinks)
{
    int events = 0;

    while (!ch->taking && ch->early && ch->recvs.first && ch->peer->state != WI_CHANNEL_FAILED) {
        struct wi_early *e = ch->early;
        if (ch->recvs.first->sink && !sinks) {
            wi_channel_busy(ch);
            ch->peer->group->again = 1;
            return events;
        }
        ch->early = e->next;
        if (!ch->early)
            ch->early_last = &ch->early;
        ch->nearly--;
        meet_one(ch, &e->head, e->data);
        wi_free(e);
        events++;
    }
    return events;
}

/* ---- Headers as they come ---- */

static void malformed(struct wi_channel_peer *p, const char *what)
{
    wi_channel_peer_fail(p, WEFT_EPROTO, 1, "rank %d sent a malformed header over %s: %s", p->rank,
                         p->group->endpoint->plugin->name, what);
}

static void put_aside(struct wi_channel *ch, const struct wi_channel_head *head, const void *data)
{
    size_t bytes = head->bytes <= WI_CHANNEL_SHORT ? head->bytes : 0;
    struct wi_early *e = wi_malloc(sizeof *e + bytes);

    if (!e) {
        wi_channel_peer_fail(ch->peer, WEFT_ENOMEM, 1, "no memory for a message of rank %d", ch->peer->rank);
        return;
    }
    e->head = *head;
    e->next = NULL;
    if (bytes)
        memcpy(e->data, data, bytes);
    *ch->early_last = e;
    ch->early_last = &e->next;
    ch->nearly++;
}

static void take_head(struct wi_channel_peer *p, const struct wi_piece *piece)
{
    const unsigned char *data = piece->staging->at + sizeof(struct wi_channel_head);
    size_t came = piece->raw.actual;
    struct wi_channel_head head;
    struct wi_channel *ch;

    if (came < sizeof head || came > WI_CHANNEL_FRAME) {
        malformed(p, "its length");
        return;
    }
    memcpy(&head, piece->staging->at, sizeof head);
    if (head.magic != WI_CHANNEL_MAGIC || head.chan >= WEFT_CHAN_MAX || head.bytes > MESSAGE_MAX ||
        (head.kind != WI_CHANNEL_MESSAGE && head.kind != WI_CHANNEL_RETURN)) {
        malformed(p, "its kind or channel");
        return;
    }
    if (came - sizeof head != (head.bytes <= WI_CHANNEL_SHORT ? head.bytes : 0)) {
        malformed(p, "the length of its message");
        return;
    }
    ch = wi_channel_get(p, head.chan);
    if (!ch) {
        wi_channel_peer_fail(p, WEFT_ENOMEM, 1, "no memory for a channel with rank %d", p->rank);
    } else if (head.kind == WI_CHANNEL_RETURN) {
        if (head.consumed - ch->consumed > ch->sent - ch->consumed) {
            malformed(p, "more credit than was used");
            return;
        }
        ch->consumed = head.consumed;
        wi_channel_ready(ch);
    } else if (ch->nearly >= WI_CHANNEL_CREDIT) {
        malformed(p, "it is beyond the credit of its channel");
    } else if (!ch->early && !ch->taking && ch->recvs.first) {
        meet_one(ch, &head, data);
    } else {
        put_aside(ch, &head, data);
    }
}

/* A peer may leave or abort at any time, also before the receives for its headers are posted: that is the peer's failure, of which
 * the transport tells more in progress, and none of the caller's. */
static weft_status heads_refused(struct wi_channel_peer *p, weft_status st)
{
    if (st == WEFT_EBUSY)
        return WEFT_SUCCESS;
    if (st != WEFT_EPEER && st != WEFT_EABORTED)
        return st;
    wi_channel_peer_fail(p, st, 0,
                         "rank %d left or aborted the communicator: transport %s receives nothing more from it",
                         p->rank, p->group->endpoint->plugin->name);
    return WEFT_SUCCESS;
}

weft_status wi_channel_heads_post(struct wi_channel_peer *p)
{
    struct wi_channel_group *g = p->group;

    while (p->heads_in.count < WI_CHANNEL_AHEAD && p->state == WI_CHANNEL_ALIVE) {
        struct wi_piece *piece = wi_channel_piece_get(g);
        weft_status st = WEFT_ENOMEM;
        if (!piece)
            return st;
        piece->staging = wi_channel_frame_get(g);
        piece->raw.chan = WI_CHANNEL_HEADS;
        if (piece->staging) {
            piece->raw = (struct weft_xfer){.buf = piece->staging->at,
                                            .bytes = WI_CHANNEL_FRAME,
                                            .peer = p->rank,
                                            .chan = WI_CHANNEL_HEADS,
                                            .granule = 1,
                                            .background = 1,
                                            .up_to = 1,
                                            .memory = WEFT_MEMORY_HOST,
                                            .mem = piece->staging->mem};
            st = g->raw->recv(g->group, &piece->raw);
        }
        if (st < 0) {
            wi_channel_piece_put(g, piece);
            return heads_refused(p, st);
        }
        wi_piece_queue_add(&p->heads_in, piece);
    }
    return WEFT_SUCCESS;
}

int wi_channel_heads_step(struct wi_channel_peer *p)
{
    int events = 0;

    while (p->heads_in.first && p->heads_in.first->raw.state != WEFT_XFER_PENDING) {
        struct wi_piece *piece = wi_piece_queue_take(&p->heads_in);
        if (p->state != WI_CHANNEL_FAILED && piece->raw.state < 0)
            wi_channel_piece_failed(p, piece);
        else if (p->state != WI_CHANNEL_FAILED && wi_channel_order(p, piece, p->heads_taken++))
            take_head(p, piece);
        wi_channel_piece_put(p->group, piece);
        events++;
    }
    weft_status st = events ? wi_channel_heads_post(p) : WEFT_SUCCESS;
    if (st < 0)
        wi_channel_peer_fail(p, st, 1, "%s", wi_fail_text());
    return events;
}
