/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of the channel layer: their channels, which of these have something to send, and the end of everything that is posted
 * with a peer. */
#include "net/channel_group.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

struct wi_channel *wi_channel_get(struct wi_channel_peer *p, uint32_t chan)
{
    struct wi_channel *ch = p->chans[chan];

    if (ch)
        return ch;
    ch = wi_calloc(1, sizeof *ch);
    if (!ch) {
        wi_fail(WEFT_ENOMEM, "no memory for channel %u with rank %d", chan, p->rank);
        return NULL;
    }
    ch->peer = p;
    ch->chan = (uint8_t)chan;
    ch->early_last = &ch->early;
    wi_user_queue_init(&ch->sends);
    wi_user_queue_init(&ch->recvs);
    wi_piece_queue_init(&ch->chunks_out);
    wi_piece_queue_init(&ch->chunks_in);
    return p->chans[chan] = ch;
}

void wi_channel_ready(struct wi_channel *ch)
{
    struct wi_channel_peer *p = ch->peer;

    if (ch->ready)
        return;
    ch->ready = 1;
    ch->next_ready = NULL;
    *p->ready_last = ch;
    p->ready_last = &ch->next_ready;
}

void wi_channel_busy(struct wi_channel *ch)
{
    struct wi_channel_group *g = ch->peer->group;

    if (ch->busy)
        return;
    ch->busy = 1;
    ch->next_busy = g->busy;
    g->busy = ch;
}

/* The program gets its transfers back; what is posted below stays until it ends or the group does, and so does the
 * registration of its memory. */
static void end_channel(struct wi_channel *ch, int state)
{
    for (struct wi_piece *piece = ch->chunks_out.first; piece; piece = piece->next) {
        if (piece->user)
            piece->user->state = state;
        piece->user = NULL;
    }
    while (ch->sends.first)
        wi_user_queue_take(&ch->sends)->state = state;
    while (ch->recvs.first)
        wi_user_queue_take(&ch->recvs)->state = state;
    if (ch->to)
        ch->to->state = state;
    ch->to = NULL;
    ch->taking = ch->headed = ch->ready = 0;
}

static void end_peer(struct wi_channel_peer *p, int state)
{
    for (struct wi_piece *piece = p->heads_out.first; piece; piece = piece->next) {
        if (piece->user)
            piece->user->state = state;
        piece->user = NULL;
    }
    for (int i = 0; i < WEFT_CHAN_MAX; i++)
        if (p->chans[i])
            end_channel(p->chans[i], state);
    wi_channel_rma_end(p->group, p->rank, state);
    p->ready = NULL;
    p->ready_last = &p->ready;
    p->earnest = 0;
}

void wi_channel_peer_fail(struct wi_channel_peer *p, weft_status status, int own, const char *format, ...)
{
    va_list ap;

    if (p->state == WI_CHANNEL_FAILED)
        return;
    p->state = WI_CHANNEL_FAILED;
    p->status = status;
    va_start(ap, format);
    vsnprintf(p->text, sizeof p->text, format, ap);
    va_end(ap);
    wi_fail(status, "%s", p->text);
    p->reported = !own;
    p->group->unreported += own;
    end_peer(p, status);
}

void wi_channel_cancel(struct wi_channel_peer *p)
{
    end_peer(p, WEFT_ECANCELED);
}

void wi_channel_piece_failed(struct wi_channel_peer *p, const struct wi_piece *piece)
{
    weft_status status = (weft_status)piece->raw.state;

    if (p->state != WI_CHANNEL_ALIVE || (piece->raw.background && !piece->raw.up_to && status == WEFT_EPEER))
        return;
    /* The transport says of its own accord that a peer is gone, and more of it than is known here. */
    wi_channel_peer_fail(p, status, status != WEFT_EPEER && status != WEFT_EABORTED,
                         "a transfer with rank %d over %s failed: %s", p->rank, p->group->endpoint->plugin->name,
                         weft_status_text(status));
}

int wi_channel_order(struct wi_channel_peer *p, const struct wi_piece *piece, uint32_t number)
{
    if (((piece->raw.imm ^ number) & p->group->endpoint->imm_mask) == 0)
        return 1;
    wi_channel_peer_fail(p, WEFT_EPROTO, 1, "transport %s lost or reordered messages of rank %d",
                         p->group->endpoint->plugin->name, p->rank);
    return 0;
}
