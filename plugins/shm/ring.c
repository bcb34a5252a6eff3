/* ring.c: the writing side of a ring.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ring.h"

#include <errno.h>
#include <sys/mman.h>

#define CLEAR_AHEAD 1024u /* cells are cleared this far ahead, so that the lines are here when needed */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

weft_status wi_shm_ring_back(void *memory, size_t bytes)
{
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return WEFT_SUCCESS; /* EINVAL: a kernel before 5.14 */
    return WEFT_ENOSPC;
}

/* Every line before head + capacity may be written; a cell needs the line after its piece, too. */
static uint64_t room_behind_cell(const struct wi_shm_writer *w)
{
    uint64_t room = w->head + w->ring.capacity - w->position;
    return room >= 2 * WI_SHM_CELL ? room - 2 * WI_SHM_CELL : UINT64_MAX;
}

int wi_shm_writer_room(struct wi_shm_writer *w, size_t want, size_t *room)
{
    uint64_t contiguous = w->ring.capacity - (w->position & (w->ring.capacity - 1)) - WI_SHM_CELL;
    uint64_t need = (want + WI_SHM_CELL - 1) / WI_SHM_CELL * WI_SHM_CELL;
    uint64_t behind = room_behind_cell(w);

    if (need > contiguous)
        need = contiguous;
    if (behind == UINT64_MAX || behind < need) {
        uint64_t head = __atomic_load_n(&w->ring.ctl->head, __ATOMIC_ACQUIRE);
        if (head > w->position || w->position - head > w->ring.capacity)
            return 0; /* nonsense from the peer never makes more room than there is */
        w->head = head;
        behind = room_behind_cell(w);
    }
    if (behind == UINT64_MAX || behind < need)
        return 0; /* many tiny pieces would cost more than the wait */
    *room = want < need ? want : (size_t)need;
    return 1;
}

static void clear_ahead(struct wi_shm_writer *w, uint64_t from, uint64_t until)
{
    uint64_t limit = w->head + w->ring.capacity;

    if (until > limit)
        until = limit;
    if (w->cleared > from)
        from = w->cleared;
    for (; from < until; from += WI_SHM_CELL)
        __atomic_store_n(&wi_shm_ring_cell(&w->ring, from)->kind, WI_SHM_CELL_NONE, __ATOMIC_RELAXED);
    w->cleared = from;
}

void wi_shm_writer_publish(struct wi_shm_writer *w, uint32_t kind, uint64_t span)
{
    uint64_t next = w->position + span;

    if (w->cleared < next + WI_SHM_CELL)
        clear_ahead(w, next, next + WI_SHM_CELL);
    __atomic_store_n(&wi_shm_ring_cell(&w->ring, w->position)->kind, kind, __ATOMIC_RELEASE);
    w->position = next;
    if (w->cleared < next + CLEAR_AHEAD / 2)
        clear_ahead(w, next, next + CLEAR_AHEAD);
}

weft_status wi_shm_writer_back(struct wi_shm_writer *w, uint64_t span)
{
    size_t step = 16384, until = (size_t)(w->position & (w->ring.capacity - 1)) + span + CLEAR_AHEAD;

    if (!w->ask || w->backed >= w->ring.capacity)
        return WEFT_SUCCESS;
    until = (until + step - 1) / step * step;
    if (until > w->ring.capacity)
        until = w->ring.capacity;
    if (w->backed >= until)
        return WEFT_SUCCESS;
    if (wi_shm_ring_back(w->ring.data + w->backed, until - w->backed) != WEFT_SUCCESS)
        return WEFT_ENOSPC;
    w->backed = until;
    return WEFT_SUCCESS;
}
