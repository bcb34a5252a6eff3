/* fetch.c: the receiving side of a rendezvous: one copy, directly from the sender's memory.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The sender's memory is mapped if it is shareable, else read by cross-memory attach. When neither is possible the
 * answer asks for the message to be streamed through the ring.
 *
 * The receiver copies alone. Where ranks have a core each, private memory goes through the ring instead, which both ends copy at
 * once (send.c): a sender that wrote into the receiver's buffer would have to know that it has not been given back meanwhile.
 */
#include "chan.h"

#include <stdio.h>
#include <stdlib.h>

#define STEP_BYTES ((size_t)512 << 10) /* for one call of progress: others want their turn */

static void answer(struct wi_shm_channel_in *ch, int stream)
{
    ch->kind = WI_SHM_FETCH_NONE;
    ch->answered++;
    __atomic_store_n(&ch->r.ring.ctl->answer, 2 * ch->answered + (stream != 0), __ATOMIC_RELEASE);
}

static void choose(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    const struct wi_shm_settings *settings = group->endpoint->settings;
    void *ptr;

    ch->kind = WI_SHM_FETCH_NONE;
    if (ch->drop) {
        ch->kind = WI_SHM_FETCH_DROP;
    } else if (ch->desc.segment != 0 && settings->map &&
               wi_shm_mem_map(group, ch->peer->rank, &ch->desc, &ptr) == WEFT_SUCCESS) {
        ch->kind = WI_SHM_FETCH_MAP;
        ch->mapped = ptr;
    } else if (settings->cma && !group->endpoint->one_process) {
        ch->kind = WI_SHM_FETCH_CMA;
    }
}

void wi_shm_fetch_begin(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    choose(group, ch);
    if (ch->kind == WI_SHM_FETCH_NONE)
        answer(ch, 1);
}

static int fetch_failed(struct wi_shm_group *group, struct wi_shm_channel_in *ch, weft_status status)
{
    char text[160];

    if (ch->got == 0 && status != WEFT_EPEER) {
        answer(ch, 1); /* not permitted here: through the ring, then */
        return 1;
    }
    snprintf(text, sizeof(text), "the message of rank %d could not be read to its end (%s)", ch->peer->rank,
             weft_status_name(status));
    wi_shm_peer_fail(group, ch->peer, status, text);
    return 1;
}

static weft_status get_plain(struct wi_shm_group *group, struct wi_shm_channel_in *ch, size_t bytes)
{
    unsigned char *to = (unsigned char *)ch->queue.first->buf + ch->got;
    weft_status status = wi_shm_mem_get(group, ch->peer->rank, ch->desc.address + ch->got, to, bytes);

    if (status == WEFT_SUCCESS)
        ch->got += bytes;
    return status;
}

/* Through a buffer small enough that the sink finds its operand in the cache. */
static weft_status get_for_sink(struct wi_shm_group *group, struct wi_shm_channel_in *ch, size_t bytes)
{
    if (!group->bounce)
        group->bounce = aligned_alloc(WI_SHM_PAGE, WI_SHM_BOUNCE_BYTES);
    if (!group->bounce)
        return WEFT_ENOMEM;
    while (bytes > 0) {
        size_t some = bytes < WI_SHM_BOUNCE_BYTES ? bytes : WI_SHM_BOUNCE_BYTES;
        weft_status status = wi_shm_mem_get(group, ch->peer->rank, ch->desc.address + ch->got, group->bounce, some);
        if (status != WEFT_SUCCESS)
            return status;
        wi_shm_deliver(group, ch, group->bounce, some);
        bytes -= some;
    }
    return WEFT_SUCCESS;
}

/* Ranks of one process: the sender must not leave, and free the memory, during the copy. */
static weft_status copy_mapped(struct wi_shm_group *group, struct wi_shm_channel_in *ch, size_t bytes)
{
    pthread_mutex_t *leaving = group->leaving ? &group->leaving[ch->member] : NULL;
    weft_status status = WEFT_SUCCESS;

    if (!leaving) {
        wi_shm_deliver(group, ch, ch->mapped + ch->got, bytes);
        return WEFT_SUCCESS;
    }
    pthread_mutex_lock(leaving);
    if (__atomic_load_n(&group->arenas[ch->member].ctl->board.state, __ATOMIC_ACQUIRE) == WEFT_BOARD_ALIVE)
        wi_shm_deliver(group, ch, ch->mapped + ch->got, bytes);
    else
        status = WEFT_EPEER;
    pthread_mutex_unlock(leaving);
    return status;
}

/* Did the sender keep its buffer until all of it was copied? It says on its board that it gives up before the program gets the
 * buffer back; what was read before this load was read before that. */
static int was_there(const struct wi_shm_group *group, const struct wi_shm_channel_in *ch)
{
    if (ch->kind == WI_SHM_FETCH_DROP)
        return 1;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&group->arenas[ch->member].ctl->board.state, __ATOMIC_RELAXED) != WEFT_BOARD_ABORTED;
}

int wi_shm_fetch_step(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    size_t bytes = ch->total - ch->got;
    weft_status status = WEFT_SUCCESS;

    if (bytes > STEP_BYTES)
        bytes = STEP_BYTES;
    if (ch->kind == WI_SHM_FETCH_DROP)
        ch->got = ch->total;
    else if (ch->kind == WI_SHM_FETCH_MAP)
        status = copy_mapped(group, ch, bytes);
    else if (ch->queue.first->sink)
        status = get_for_sink(group, ch, bytes);
    else
        status = get_plain(group, ch, bytes);
    if (status == WEFT_SUCCESS && ch->got == ch->total && !was_there(group, ch))
        status = WEFT_EPEER;
    if (status != WEFT_SUCCESS)
        return fetch_failed(group, ch, status);
    if (ch->got == ch->total) {
        answer(ch, 0);
        wi_shm_message_end(ch);
    }
    return 1;
}
