/* recv.c: the receiving side of channels.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "chan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wi_shm_channel_in *channel(struct wi_shm_group *group, struct wi_shm_peer *peer, uint32_t chan)
{
    const struct wi_shm_layout *layout = &group->layout;
    struct wi_shm_channel_in *ch = peer->in[chan];
    uint32_t member = (uint32_t)(peer - group->peers);
    unsigned char *memory;

    if (ch)
        return ch;
    memory = wi_shm_arena_ring(&group->arenas[member], layout, group->self, chan);
    /* Reading a hole takes memory, too. Behind the first cell only what the sender has written is read. */
    if (group->may_fault && wi_shm_ring_back(memory, WI_SHM_RING_CTL + WI_SHM_PAGE) != WEFT_SUCCESS)
        return NULL;
    ch = calloc(1, sizeof(*ch));
    if (!ch)
        return NULL;
    ch->peer = peer;
    ch->member = member;
    wi_shm_queue_init(&ch->queue);
    wi_shm_ring_at(&ch->r.ring, memory, layout->ring_bytes);
    peer->in[chan] = ch;
    return ch;
}

void wi_shm_deliver(struct wi_shm_group *group, struct wi_shm_channel_in *ch, const void *data, size_t bytes)
{
    struct weft_xfer *x = ch->queue.first;
    size_t offset = ch->got;

    ch->got += bytes;
    if (ch->drop || bytes == 0)
        return;
    if (x->sink)
        x->sink(x, offset, data, bytes);
    else
        wi_shm_copy(group, (unsigned char *)x->buf + offset, data, bytes, 0);
}

void wi_shm_message_end(struct wi_shm_channel_in *ch)
{
    ch->open = 0;
    if (!ch->drop)
        wi_shm_queue_end(&ch->queue, WEFT_SUCCESS);
    ch->drop = 0;
}

static int malformed(struct wi_shm_group *group, struct wi_shm_channel_in *ch, const char *what)
{
    char text[160];

    snprintf(text, sizeof(text), "rank %d put a malformed message into shared memory: %s", ch->peer->rank, what);
    wi_shm_peer_fail(group, ch->peer, WEFT_EPROTO, text);
    return 1;
}

/* Does the message that begins here fit the receive that waits for it? If not the receive has failed. */
static void match(struct wi_shm_channel_in *ch, const struct wi_shm_cell *cell)
{
    struct weft_xfer *x = ch->queue.first;

    ch->open = 1;
    ch->total = cell->bytes;
    ch->got = 0;
    ch->drop = 1;
    x->actual = cell->bytes;
    if (memcmp(&cell->info, &x->info, sizeof(x->info)) != 0) {
        x->peer_info = cell->info;
        wi_shm_queue_end(&ch->queue, WEFT_EMISMATCH);
    } else if (cell->bytes == x->bytes || (cell->bytes < x->bytes && x->up_to)) {
        ch->drop = 0;
    } else {
        x->peer_info = cell->info;
        wi_shm_queue_end(&ch->queue, cell->bytes > x->bytes ? WEFT_ETRUNC : WEFT_EMISMATCH);
    }
}

/* A message to be fetched: the piece says where from. */
static int take_description(struct wi_shm_group *group, struct wi_shm_channel_in *ch, const struct wi_shm_cell *copy,
                            const unsigned char *piece)
{
    if (copy->piece == 0) {
        wi_shm_reader_advance(&ch->r, WI_SHM_CELL); /* the description begins the ring */
        return 1;
    }
    if (copy->piece != sizeof(ch->desc) || copy->bytes <= WI_SHM_INLINE)
        return malformed(group, ch, "a description of another length");
    memcpy(&ch->desc, piece, sizeof(ch->desc));
    if (ch->desc.bytes != copy->bytes)
        return malformed(group, ch, "a description of other memory");
    match(ch, copy);
    wi_shm_reader_advance(&ch->r, wi_shm_ring_span(copy->piece, 0));
    wi_shm_fetch_begin(group, ch);
    return 1;
}

/* Nothing fits behind the ring's last cell: only there may a piece of something be empty. Elsewhere cells that move nothing
 * would keep the reader going round for as long as their writer likes. */
static int empty_out_of_place(const struct wi_shm_channel_in *ch, uint32_t piece, uint64_t left)
{
    return piece == 0 && left != 0 && !wi_shm_reader_at_end(&ch->r);
}

static const char *piece_fault(const struct wi_shm_channel_in *ch, const struct wi_shm_cell *copy, uint32_t kind)
{
    uint64_t at = ch->r.position & (ch->r.ring.capacity - 1);
    uint64_t total = ch->open ? ch->total : copy->bytes, left = ch->open ? ch->total - ch->got : copy->bytes;

    if (kind > WI_SHM_CELL_RNDV)
        return "a piece of unknown kind";
    if ((kind == WI_SHM_CELL_MORE) != (ch->open != 0))
        return "pieces out of order";
    if (total > WI_SHM_INLINE && copy->piece > ch->r.ring.capacity - at - WI_SHM_CELL)
        return "a piece beyond the end of the ring";
    if (empty_out_of_place(ch, copy->piece, kind == WI_SHM_CELL_RNDV ? 1 : left))
        return "an empty piece before the end of the ring";
    if (kind == WI_SHM_CELL_RNDV)
        return NULL;
    if (copy->piece > left || (total <= WI_SHM_INLINE && copy->piece != total))
        return "a piece that does not fit its message";
    if (copy->piece % WI_SHM_CELL != 0 && copy->piece != left)
        return "a piece cut in an element";
    return NULL;
}

/* The sender's process may write anything at any time: decide on a private copy. */
static int take_piece(struct wi_shm_group *group, struct wi_shm_channel_in *ch, uint32_t kind)
{
    const unsigned char *memory = (const unsigned char *)wi_shm_ring_cell(&ch->r.ring, ch->r.position);
    _Alignas(16) unsigned char inside[WI_SHM_INLINE];
    struct wi_shm_cell copy;
    const char *fault;

    copy.kind = kind;
    memcpy((unsigned char *)&copy + sizeof(copy.kind), memory + sizeof(copy.kind), sizeof(copy) - sizeof(copy.kind));
    fault = piece_fault(ch, &copy, kind);
    if (fault)
        return malformed(group, ch, fault);
    if (kind == WI_SHM_CELL_RNDV)
        return take_description(group, ch, &copy, memory + WI_SHM_CELL);
    if (kind == WI_SHM_CELL_MESSAGE)
        match(ch, &copy);
    if (ch->total <= WI_SHM_INLINE) {
        memcpy(inside, copy.inside, sizeof(inside));
        wi_shm_deliver(group, ch, inside, copy.piece);
    } else {
        wi_shm_deliver(group, ch, memory + WI_SHM_CELL, copy.piece);
    }
    wi_shm_reader_advance(&ch->r, wi_shm_ring_span(copy.piece, ch->total <= WI_SHM_INLINE));
    if (ch->got == ch->total)
        wi_shm_message_end(ch);
    return 1;
}

int wi_shm_pull(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    uint64_t from = ch->r.position, told = ch->r.told, answered = ch->answered;
    int events = 0;

    /* A ring's worth at a time: other channels want their turn. */
    while (wi_shm_in_busy(ch) && ch->r.position - from < ch->r.ring.capacity) {
        uint32_t kind;
        if (ch->kind != WI_SHM_FETCH_NONE) {
            events += wi_shm_fetch_step(group, ch);
            break;
        }
        kind = wi_shm_reader_kind(&ch->r);
        if (kind == WI_SHM_CELL_NONE)
            break;
        events += take_piece(group, ch, kind);
    }
    if ((ch->r.told != told || ch->answered != answered) && wi_shm_bells_any(&group->bells))
        wi_shm_bells_wake_one(&group->bells, ch->member);
    return events;
}

/* Progress looks at it from now on. */
static void activate(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    if (ch->active)
        return;
    ch->active = 1;
    ch->next = group->active_in;
    group->active_in = ch;
}

weft_status wi_shm_recv(void *arg, struct weft_xfer *x)
{
    struct wi_shm_group *group = arg;
    const struct weft_host *host = group->endpoint->host;
    struct wi_shm_channel_in *ch;
    struct wi_shm_peer *peer;
    weft_status status = wi_shm_post_check(group, x, &peer);

    if (status != WEFT_SUCCESS)
        return status;
    ch = channel(group, peer, x->chan);
    if (!ch) {
        host->explain(host->impl, WEFT_ENOMEM, "no memory for channel %u from rank %d", x->chan, x->peer);
        return WEFT_ENOMEM;
    }
    x->state = WEFT_XFER_PENDING;
    wi_shm_queue_add(&ch->queue, x);
    if (ch->queue.first == x && !x->sink) /* sinks run in progress only */
        wi_shm_pull(group, ch);
    if (wi_shm_in_busy(ch))
        activate(group, ch);
    return WEFT_SUCCESS;
}

/* The kind of the cell that begins the next message. The one that only fills the ring's end is passed over. */
static uint32_t next_message(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    uint32_t kind = wi_shm_reader_kind(&ch->r);

    if (kind != WI_SHM_CELL_RNDV || !wi_shm_reader_at_end(&ch->r) ||
        __atomic_load_n(&wi_shm_ring_cell(&ch->r.ring, ch->r.position)->piece, __ATOMIC_RELAXED))
        return kind;
    if (wi_shm_reader_advance(&ch->r, WI_SHM_CELL) && wi_shm_bells_any(&group->bells))
        wi_shm_bells_wake_one(&group->bells, ch->member);
    return wi_shm_reader_kind(&ch->r);
}

/* What the cell says of the message that it begins; every byte is untrusted, but not the length of a piece. */
static const char *look(struct wi_shm_channel_in *ch, uint32_t kind, struct weft_op_info *info, size_t *bytes)
{
    const struct wi_shm_cell *cell = wi_shm_ring_cell(&ch->r.ring, ch->r.position);
    struct wi_shm_cell copy;
    const char *fault;

    memcpy(&copy, cell, sizeof(copy));
    copy.kind = kind;
    fault = piece_fault(ch, &copy, kind);
    if (!fault) {
        *info = copy.info;
        *bytes = copy.bytes;
    }
    return fault;
}

int wi_shm_peek(void *arg, int rank, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    struct wi_shm_group *group = arg;
    const struct weft_host *host = group->endpoint->host;
    struct weft_xfer x = {.peer = rank, .chan = chan};
    struct wi_shm_channel_in *ch;
    struct wi_shm_peer *peer;
    weft_status status = wi_shm_post_check(group, &x, &peer);
    uint32_t kind;

    (void)connect;
    if (status != WEFT_SUCCESS)
        return status;
    ch = channel(group, peer, chan);
    if (!ch)
        return WEFT_ENOMEM;
    if (wi_shm_in_busy(ch))
        return 0;
    kind = next_message(group, ch);
    if (kind != WI_SHM_CELL_NONE) {
        const char *fault = look(ch, kind, info, bytes);
        if (!fault)
            return 1;
        malformed(group, ch, fault);
        host->explain(host->impl, WEFT_EPROTO, "%s", peer->text);
        return WEFT_EPROTO;
    }
    if (peer->state == WI_SHM_PEER_LEFT) {
        host->explain(host->impl, WEFT_EPEER, "rank %d left the communicator", rank);
        return WEFT_EPEER;
    }
    ch->watched = 1;
    activate(group, ch);
    return 0;
}
