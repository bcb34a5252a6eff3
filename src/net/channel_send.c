/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side of the channel layer: headers with short messages, payload in chunks, credits. */
#include "net/channel_group.h"

#include <string.h>

#include "base/status.h"

/* What a send needs of weft_xfer.priv. */
enum { PRIV_DONE, PRIV_LEASE };

static struct weft_xfer *raw_send(struct wi_piece *p, int rank, uint32_t chan, void *buf, size_t bytes, void *mem)
{
    p->raw = (struct weft_xfer){
        .buf = buf, .bytes = bytes, .peer = rank, .chan = chan, .granule = 1, .memory = WEFT_MEMORY_HOST, .mem = mem};
    return &p->raw;
}

static void send_end(struct wi_channel_group *g, struct weft_xfer *x, int state)
{
    wi_channel_lease_end(g, (struct wi_lease *)(uintptr_t)x->priv[PRIV_LEASE]);
    x->state = state;
}

/* ---- Headers ---- */

enum posted { POSTED, POST_LATER, POST_FAILED };

/* failures: the count before what has failed. */
static enum posted posting_failed(struct wi_channel_peer *p, struct wi_piece *piece, weft_status st, unsigned failures)
{
    if (piece)
        wi_channel_piece_put(p->group, piece);
    if (st == WEFT_EBUSY)
        return POST_LATER;
    wi_channel_peer_fail(p, st, 1, "%s", wi_fail_text_since(failures, st));
    return POST_FAILED;
}

static enum posted post_head(struct wi_channel *ch, const struct wi_channel_head *head, const void *data,
                             struct weft_xfer *user)
{
    struct wi_channel_peer *p = ch->peer;
    struct wi_channel_group *g = p->group;
    size_t bytes = head->kind == WI_CHANNEL_MESSAGE && head->bytes <= WI_CHANNEL_SHORT ? head->bytes : 0;
    unsigned failures = wi_fail_count();
    struct wi_piece *piece = wi_channel_piece_get(g);
    weft_status st = WEFT_ENOMEM;

    if (!piece)
        return posting_failed(p, NULL, st, failures);
    piece->raw.chan = WI_CHANNEL_HEADS;
    piece->staging = wi_channel_frame_get(g);
    if (!piece->staging)
        return posting_failed(p, piece, st, failures);
    memcpy(piece->staging->at, head, sizeof *head);
    if (bytes)
        memcpy(piece->staging->at + sizeof *head, data, bytes);
    raw_send(piece, p->rank, WI_CHANNEL_HEADS, piece->staging->at, sizeof *head + bytes, piece->staging->mem);
    piece->raw.imm = p->heads_sent & g->endpoint->imm_mask;
    piece->raw.background = head->kind == WI_CHANNEL_RETURN; /* a peer that has left needs no credit */
    piece->user = user;
    st = g->raw->send(g->group, &piece->raw);
    if (st == WEFT_EPEER && piece->raw.background) {
        wi_channel_piece_put(g, piece);
        return POSTED;
    }
    if (st < 0)
        return posting_failed(p, piece, st, failures);
    p->heads_sent++;
    wi_piece_queue_add(&p->heads_out, piece);
    return POSTED;
}

static enum posted return_credit(struct wi_channel *ch)
{
    struct wi_channel_head head = {
        .magic = WI_CHANNEL_MAGIC, .kind = WI_CHANNEL_RETURN, .chan = ch->chan, .consumed = ch->taken};
    enum posted posted = post_head(ch, &head, NULL, NULL);

    if (posted == POSTED) {
        ch->told = ch->taken;
        ch->credit_due = 0;
    }
    return posted;
}

/* ---- Chunks ---- */

/* Of a message in chunks, whose header is posted. 1: all are. */
static int post_chunks(struct wi_channel *ch)
{
    struct wi_channel_peer *p = ch->peer;
    struct wi_channel_group *g = p->group;
    struct weft_xfer *x = ch->sends.first;

    while (ch->posted < x->bytes && ch->chunks_out.count < WI_CHANNEL_CHUNKS) {
        size_t n = x->bytes - ch->posted < WI_CHANNEL_CHUNK ? x->bytes - ch->posted : WI_CHANNEL_CHUNK;
        unsigned failures = wi_fail_count();
        struct wi_piece *piece = wi_channel_piece_get(g);
        weft_status st = WEFT_ENOMEM;
        if (!piece)
            return posting_failed(p, NULL, st, failures) == POSTED;
        if (!ch->from.at)
            piece->staging = wi_channel_chunk_get(g);
        if (!ch->from.at && !piece->staging)
            return posting_failed(p, piece, st, failures) == POSTED;
        if (piece->staging)
            memcpy(piece->staging->at, (unsigned char *)x->buf + ch->posted, n);
        raw_send(piece, p->rank, ch->chan, piece->staging ? piece->staging->at : ch->from.at + ch->posted, n,
                 piece->staging ? piece->staging->mem : ch->from.mem);
        piece->raw.memory = piece->staging ? WEFT_MEMORY_HOST : x->memory;
        piece->raw.imm = ch->chunks_sent & g->endpoint->imm_mask;
        piece->user = x;
        st = g->raw->send(g->group, &piece->raw);
        if (st < 0) {
            posting_failed(p, piece, st, failures);
            return 0;
        }
        ch->chunks_sent++;
        ch->posted += n;
        wi_piece_queue_add(&ch->chunks_out, piece);
    }
    return ch->posted == x->bytes;
}

static void begin_chunks(struct wi_channel *ch)
{
    struct weft_xfer *x = ch->sends.first;

    ch->from = wi_channel_place(ch->peer->group, x, x->bytes);
    x->priv[PRIV_LEASE] = (uint64_t)(uintptr_t)ch->from.lease;
    ch->headed = 1;
    ch->posted = 0;
    wi_channel_busy(ch);
}

int wi_channel_chunks_out_step(struct wi_channel *ch)
{
    struct wi_channel_group *g = ch->peer->group;
    int events = 0;

    while (ch->chunks_out.first && ch->chunks_out.first->raw.state != WEFT_XFER_PENDING) {
        struct wi_piece *piece = wi_piece_queue_take(&ch->chunks_out);
        struct weft_xfer *x = piece->user;
        if (piece->raw.state < 0)
            wi_channel_piece_failed(ch->peer, piece);
        else if (x && (x->priv[PRIV_DONE] += piece->raw.bytes) == x->bytes)
            send_end(g, x, WEFT_SUCCESS);
        wi_channel_piece_put(g, piece);
        events++;
    }
    if (ch->headed && post_chunks(ch)) {
        wi_user_queue_take(&ch->sends);
        ch->headed = 0;
        wi_channel_ready(ch);
    }
    return events;
}

/* ---- What a channel has to say ---- */

/* 0: the transport takes no more headers now. */
static int speak(struct wi_channel *ch)
{
    enum posted posted;

    if (ch->credit_due) {
        posted = return_credit(ch);
        if (posted != POSTED)
            return posted == POST_FAILED;
    }
    while (ch->sends.first && !ch->headed && ch->sent - ch->consumed < WI_CHANNEL_CREDIT) {
        struct weft_xfer *x = ch->sends.first;
        struct wi_channel_head head = {.magic = WI_CHANNEL_MAGIC,
                                       .kind = WI_CHANNEL_MESSAGE,
                                       .chan = ch->chan,
                                       .bytes = x->bytes,
                                       .info = x->info};
        int is_short = x->bytes <= WI_CHANNEL_SHORT;
        posted = post_head(ch, &head, x->buf, is_short ? x : NULL);
        if (posted != POSTED)
            return posted == POST_FAILED;
        ch->sent++;
        if (!is_short)
            begin_chunks(ch);
        if (is_short || post_chunks(ch)) {
            if (ch->peer->state == WI_CHANNEL_FAILED)
                return 1;
            wi_user_queue_take(&ch->sends);
            ch->headed = 0;
        }
    }
    return 1;
}

int wi_channel_send_step(struct wi_channel_peer *p)
{
    struct wi_channel_group *g = p->group;
    int events = 0;

    while (p->heads_out.first && p->heads_out.first->raw.state != WEFT_XFER_PENDING) {
        struct wi_piece *piece = wi_piece_queue_take(&p->heads_out);
        if (piece->raw.state < 0)
            wi_channel_piece_failed(p, piece);
        else if (piece->user)
            send_end(g, piece->user, WEFT_SUCCESS);
        wi_channel_piece_put(g, piece);
        events++;
    }
    while (p->ready && p->state != WI_CHANNEL_FAILED) {
        struct wi_channel *ch = p->ready;
        if (!speak(ch))
            break;
        if (p->state == WI_CHANNEL_FAILED)
            break;
        p->ready = ch->next_ready;
        if (!p->ready)
            p->ready_last = &p->ready;
        ch->ready = 0;
    }
    return events;
}
