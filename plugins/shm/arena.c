/* arena.c: layout of a rank's arena.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "arena.h"

#define ARENA_MAX_BYTES ((size_t)4 << 30)
#define RING_MIN_BYTES ((size_t)4096)

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static size_t power_of_two_below(size_t bytes)
{
    size_t power = RING_MIN_BYTES;
    while (power * 2 <= bytes)
        power *= 2;
    return power;
}

static size_t rings_bytes(uint32_t nmembers, size_t ring_bytes)
{
    return (size_t)nmembers * WEFT_CHAN_MAX * (WI_SHM_RING_CTL + ring_bytes);
}

weft_status wi_shm_layout_init(struct wi_shm_layout *layout, uint32_t nmembers, uint32_t depth, size_t slot_bytes,
                               size_t ring_bytes)
{
    if (nmembers == 0 || nmembers > WI_SHM_MAX_MEMBERS || depth == 0)
        return WEFT_ENOTSUP;
    layout->nmembers = nmembers;
    layout->depth = depth;
    if (slot_bytes < WEFT_SLOT_MIN_BYTES(nmembers))
        slot_bytes = WEFT_SLOT_MIN_BYTES(nmembers);
    layout->slot_bytes = round_up(slot_bytes, WI_SHM_PAGE);
    layout->ring_bytes = power_of_two_below(ring_bytes);
    layout->ctl_bytes =
        WI_SHM_PAGE + round_up(WI_SHM_LL_DEPTH * WI_SHM_LL_LINES * sizeof(struct weft_ll_line), WI_SHM_PAGE);
    layout->rings_at = (size_t)depth * layout->slot_bytes;
    while (layout->ring_bytes > RING_MIN_BYTES &&
           layout->rings_at + rings_bytes(nmembers, layout->ring_bytes) > ARENA_MAX_BYTES)
        layout->ring_bytes /= 2;
    layout->bulk_bytes = layout->rings_at + rings_bytes(nmembers, layout->ring_bytes);
    return WEFT_SUCCESS;
}

struct weft_ll_line *wi_shm_arena_ll(const struct wi_shm_arena *arena)
{
    return (struct weft_ll_line *)((unsigned char *)arena->ctl + WI_SHM_PAGE);
}

unsigned char *wi_shm_arena_ring(const struct wi_shm_arena *arena, const struct wi_shm_layout *layout,
                                 uint32_t receiver, uint32_t chan)
{
    size_t index = (size_t)receiver * WEFT_CHAN_MAX + chan;
    return arena->bulk + layout->rings_at + index * (WI_SHM_RING_CTL + layout->ring_bytes);
}
