/* ring.h: a byte stream from one rank to another, in the sender's arena.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The stream is a sequence of 64-byte cells, each followed by its piece of payload, padded to 64. A cell is published
 * by its `kind`, the last thing stored: polling for a message fetches header and short payload with one cache
 * miss, and there is no tail to read. The cell after the newest one always has kind 0, so old payload is never taken
 * for a header. Positions count bytes for ever; head is what the receiver is done with.
 */
#ifndef WI_SHM_RING_H
#define WI_SHM_RING_H

#include <weft/weft_plugin.h>

#include "arena.h"

#define WI_SHM_CELL 64u
#define WI_SHM_INLINE 24u

enum wi_shm_cell_kind {
    WI_SHM_CELL_NONE,
    WI_SHM_CELL_MESSAGE, /* first piece of a message */
    WI_SHM_CELL_MORE,    /* a further piece of it */
    WI_SHM_CELL_RNDV,    /* a message whose payload is to be fetched; the piece is a weft_mem_desc */
};

struct wi_shm_cell {
    uint32_t kind;
    uint32_t piece;   /* payload bytes behind this cell, or inside */
    uint64_t bytes;   /* of the whole message */
    struct weft_op_info info;
    unsigned char inside[WI_SHM_INLINE];
};
_Static_assert(sizeof(struct wi_shm_cell) == WI_SHM_CELL, "a cell is a line");

/* Written by the receiver. */
struct wi_shm_ring_ctl {
    uint64_t head WI_SHM_ALIGNED;
    /* Rendezvous are answered in order: 2 * (number answered) + (1 if the newest must be streamed instead). */
    uint64_t answer WI_SHM_ALIGNED;
};

struct wi_shm_ring {
    struct wi_shm_ring_ctl *ctl;
    unsigned char *data;
    uint64_t capacity; /* a power of two */
};

static inline void wi_shm_ring_at(struct wi_shm_ring *ring, unsigned char *memory, size_t capacity)
{
    ring->ctl = (struct wi_shm_ring_ctl *)memory;
    ring->data = memory + WI_SHM_RING_CTL;
    ring->capacity = capacity;
}

static inline struct wi_shm_cell *wi_shm_ring_cell(const struct wi_shm_ring *ring, uint64_t position)
{
    return (struct wi_shm_cell *)(ring->data + (position & (ring->capacity - 1)));
}

/* Bytes of a piece, with its cell. */
static inline uint64_t wi_shm_ring_span(uint32_t piece, int inside)
{
    return inside ? WI_SHM_CELL : WI_SHM_CELL + ((uint64_t)piece + WI_SHM_CELL - 1) / WI_SHM_CELL * WI_SHM_CELL;
}

struct wi_shm_writer {
    struct wi_shm_ring ring;
    uint64_t position; /* of the next cell */
    uint64_t head;     /* the receiver's, as last seen */
    uint64_t cleared;  /* cells in [position, cleared) have kind 0 */
    size_t backed;     /* bytes of data that are sure to have memory */
    int ask;           /* ask for memory before touching it */
};
struct wi_shm_reader {
    struct wi_shm_ring ring;
    uint64_t position;
    uint64_t told; /* head as last published */
};

/* Room for a cell and `want` bytes (at most a quarter of the ring) behind it; 0: full. *room is what fits before the
 * ring's end: `want`, or a multiple of 64 below it, which may be 0. */
int wi_shm_writer_room(struct wi_shm_writer *w, size_t want, size_t *room);
/* Publish the cell at the position, whose fields but `kind` and whose piece are in place. */
void wi_shm_writer_publish(struct wi_shm_writer *w, uint32_t kind, uint64_t span);
/* Make sure that the next `span` bytes have memory. WEFT_ENOSPC. */
weft_status wi_shm_writer_back(struct wi_shm_writer *w, uint64_t span);
weft_status wi_shm_ring_back(void *memory, size_t bytes);

static inline uint32_t wi_shm_reader_kind(const struct wi_shm_reader *r)
{
    return __atomic_load_n(&wi_shm_ring_cell(&r->ring, r->position)->kind, __ATOMIC_ACQUIRE);
}
/* At the ring's last cell, behind which there is no room for a piece. */
static inline int wi_shm_reader_at_end(const struct wi_shm_reader *r)
{
    return ((r->position + WI_SHM_CELL) & (r->ring.capacity - 1)) == 0;
}
/* Done with `span` bytes. Returns whether the sender was told. */
static inline int wi_shm_reader_advance(struct wi_shm_reader *r, uint64_t span)
{
    r->position += span;
    if (r->position - r->told < r->ring.capacity / 8)
        return 0;
    r->told = r->position;
    __atomic_store_n(&r->ring.ctl->head, r->position, __ATOMIC_RELEASE);
    return 1;
}

#endif
