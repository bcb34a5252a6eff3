/* send.c: the sending side of channels.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "chan.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where ranks have a core each, both copy at once through the ring: 256 KiB that the sender has just written took 21 us within a
 * core complex and 24 across two, by cross-memory attach, a copy by the receiver alone in the kernel, 45 and 131. Ranks
 * that share a core would take turns, and a turn is a switch of processes for each ring. */
#define RNDV_BYTES (128u << 10)
/* From here on pieces go past the caches: lines that the receiver has read cost a round trip each to get back. 16 KiB and back:
 * across complexes 21 us with ordinary stores, within one 4.8 against 2.5 to 5. */
#define STREAM_BYTES (8u << 10)

static size_t piece_max(const struct wi_shm_channel_out *ch)
{
    return ch->w.ring.capacity / 4; /* so that copying in and copying out overlap */
}

static struct wi_shm_channel_out *channel(struct wi_shm_group *group, struct wi_shm_peer *peer, uint32_t chan)
{
    const struct wi_shm_layout *layout = &group->layout;
    struct wi_shm_channel_out *ch = peer->out[chan];
    uint32_t member = (uint32_t)(peer - group->peers);
    unsigned char *memory;

    if (ch)
        return ch;
    memory = wi_shm_arena_ring(&group->arenas[group->self], layout, member, chan);
    if (group->may_fault && wi_shm_ring_back(memory, WI_SHM_RING_CTL) != WEFT_SUCCESS)
        return NULL;
    ch = calloc(1, sizeof(*ch));
    if (!ch)
        return NULL;
    ch->peer = peer;
    ch->member = member;
    wi_shm_queue_init(&ch->queue);
    wi_shm_ring_at(&ch->w.ring, memory, layout->ring_bytes);
    ch->w.ask = group->may_fault;
    peer->out[chan] = ch;
    return ch;
}

static void end_first(struct wi_shm_channel_out *ch, int state)
{
    ch->state = WI_SHM_OUT_START;
    ch->sent = 0;
    wi_shm_queue_end(&ch->queue, state);
}

static int out_of_space(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    char text[160];

    snprintf(text, sizeof(text), "no space left in /dev/shm for the messages to rank %d", ch->peer->rank);
    wi_shm_peer_fail(group, ch->peer, WEFT_ENOSPC, text);
    return 1;
}

/* May the receiver need this core? Known of ranks that have waited; they seldom move. */
static int takes_turns(const struct wi_shm_group *group, const struct wi_shm_channel_out *ch)
{
    uint32_t theirs = __atomic_load_n(&group->arenas[ch->member].ctl->processor, __ATOMIC_RELAXED);

    return group->oversubscribed && (!theirs || theirs == (uint32_t)sched_getcpu() + 1);
}

/* Describe the buffer of a long message so that the receiver can fetch it. 0: stream it. */
static int describe(struct wi_shm_group *group, struct wi_shm_channel_out *ch, const struct weft_xfer *x,
                    struct weft_mem_desc *desc)
{
    const struct wi_shm_settings *settings = group->endpoint->settings;
    size_t least = settings->rndv_bytes ? settings->rndv_bytes : RNDV_BYTES;

    if (x->bytes < least || x->bytes <= WI_SHM_INLINE)
        return 0;
    wi_shm_mem_describe(group->endpoint, x->buf, x->bytes, desc);
    ch->asked_map = desc->segment != 0 && settings->map && !ch->peer->no_map;
    if (!ch->asked_map)
        desc->segment = 0;
    return ch->asked_map || (settings->cma && !ch->peer->no_cma && (settings->rndv_bytes || takes_turns(group, ch)));
}

/* Put the next cell and its piece into the ring. Returns 0 when there is no room. */
static int put_piece(struct wi_shm_group *group, struct wi_shm_channel_out *ch, const void *data, size_t want,
                     uint32_t kind)
{
    const struct weft_xfer *x = ch->queue.first;
    int inside = kind != WI_SHM_CELL_RNDV && x->bytes <= WI_SHM_INLINE;
    struct wi_shm_cell *cell = wi_shm_ring_cell(&ch->w.ring, ch->w.position);
    size_t room;
    uint64_t span;

    if (!wi_shm_writer_room(&ch->w, inside ? 0 : want, &room))
        return 0;
    if (kind == WI_SHM_CELL_RNDV && room < want)
        room = 0; /* a description is never cut: an empty one says that it comes next */
    if (inside)
        room = want;
    span = wi_shm_ring_span((uint32_t)room, inside);
    if (wi_shm_writer_back(&ch->w, span) != WEFT_SUCCESS)
        return out_of_space(group, ch);
    cell->piece = (uint32_t)room;
    cell->bytes = x->bytes;
    cell->info = x->info;
    if (room)
        wi_shm_copy(group, inside ? cell->inside : (unsigned char *)cell + WI_SHM_CELL, data, room,
                    x->bytes >= STREAM_BYTES && kind != WI_SHM_CELL_RNDV);
    wi_shm_writer_publish(&ch->w, kind, span);
    if (kind != WI_SHM_CELL_RNDV)
        ch->sent += room;
    else if (room)
        ch->state = WI_SHM_OUT_ASKED;
    return 1;
}

static int push_start(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    const struct weft_xfer *x = ch->queue.first;
    struct weft_mem_desc desc;
    size_t want = x->bytes < piece_max(ch) ? x->bytes : piece_max(ch);

    if (describe(group, ch, x, &desc)) {
        int put = put_piece(group, ch, &desc, sizeof(desc), WI_SHM_CELL_RNDV);
        if (ch->state == WI_SHM_OUT_ASKED)
            ch->asked++;
        return put;
    }
    if (!put_piece(group, ch, x->buf, want, WI_SHM_CELL_MESSAGE))
        return 0;
    ch->state = WI_SHM_OUT_STREAM;
    return 1;
}

static int push_stream(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    const struct weft_xfer *x = ch->queue.first;
    size_t want = x->bytes - ch->sent;

    if (want > piece_max(ch))
        want = piece_max(ch);
    return put_piece(group, ch, (const unsigned char *)x->buf + ch->sent, want, WI_SHM_CELL_MORE);
}

static int push_asked(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    uint64_t answer = __atomic_load_n(&ch->w.ring.ctl->answer, __ATOMIC_ACQUIRE);
    char text[160];

    if (answer / 2 < ch->asked)
        return 0;
    if (answer / 2 > ch->asked) {
        snprintf(text, sizeof(text), "rank %d answered a message that was never sent", ch->peer->rank);
        wi_shm_peer_fail(group, ch->peer, WEFT_EPROTO, text);
        return 1;
    }
    if (!(answer & 1)) {
        end_first(ch, WEFT_SUCCESS);
        return 1;
    }
    ch->peer->no_cma = 1;
    if (ch->asked_map)
        ch->peer->no_map = 1;
    ch->state = WI_SHM_OUT_STREAM;
    ch->sent = 0;
    return 1;
}

static int push_one(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    switch (ch->state) {
    case WI_SHM_OUT_START:
        return push_start(group, ch);
    case WI_SHM_OUT_STREAM:
        return push_stream(group, ch);
    case WI_SHM_OUT_ASKED:
        return push_asked(group, ch);
    }
    return 0;
}

int wi_shm_push(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    uint64_t from = ch->w.position;
    int events = 0;

    /* A ring's worth at a time: other channels want their turn. */
    while (ch->queue.first && ch->w.position - from < ch->w.ring.capacity) {
        if (!push_one(group, ch))
            break;
        events++;
        if (ch->queue.first && ch->state == WI_SHM_OUT_STREAM && ch->sent == ch->queue.first->bytes)
            end_first(ch, WEFT_SUCCESS);
    }
    if (ch->w.position != from && wi_shm_bells_any(&group->bells))
        wi_shm_bells_wake_one(&group->bells, ch->member);
    return events;
}

weft_status wi_shm_send(void *arg, struct weft_xfer *x)
{
    struct wi_shm_group *group = arg;
    const struct weft_host *host = group->endpoint->host;
    struct wi_shm_channel_out *ch;
    struct wi_shm_peer *peer;
    weft_status status = wi_shm_post_check(group, x, &peer);

    if (status != WEFT_SUCCESS)
        return status;
    if (peer->state == WI_SHM_PEER_LEFT) {
        host->explain(host->impl, WEFT_EPEER, "rank %d left the communicator", x->peer);
        return WEFT_EPEER;
    }
    ch = channel(group, peer, x->chan);
    if (!ch) {
        host->explain(host->impl, WEFT_ENOMEM, "no memory for channel %u to rank %d", x->chan, x->peer);
        return WEFT_ENOMEM;
    }
    x->state = WEFT_XFER_PENDING;
    wi_shm_queue_add(&ch->queue, x);
    if (ch->queue.first == x)
        wi_shm_push(group, ch);
    if (ch->queue.first && !ch->active) {
        ch->active = 1;
        ch->next = group->active_out;
        group->active_out = ch;
    }
    return WEFT_SUCCESS;
}
