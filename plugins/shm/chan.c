/* chan.c: the channels of a group as a whole.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "chan.h"

#include <stdlib.h>

weft_status wi_shm_post_check(struct wi_shm_group *group, const struct weft_xfer *x, struct wi_shm_peer **peer)
{
    const struct weft_host *host = group->endpoint->host;

    *peer = wi_shm_peer_at(group, x->peer);
    if (!*peer || x->chan >= WEFT_CHAN_MAX) {
        host->explain(host->impl, WEFT_EINVAL, "rank %d, channel %u: no such channel of this transport", x->peer,
                      x->chan);
        return WEFT_EINVAL;
    }
    if ((*peer)->state == WI_SHM_PEER_FAILED) {
        host->explain(host->impl, (*peer)->status, "%s", (*peer)->text);
        return (*peer)->status;
    }
    return WEFT_SUCCESS;
}

static int push_all(struct wi_shm_group *group)
{
    struct wi_shm_channel_out **link = &group->active_out;
    int events = 0;

    while (*link) {
        struct wi_shm_channel_out *ch = *link;
        events += wi_shm_push(group, ch);
        if (ch->queue.first) {
            link = &ch->next;
        } else {
            ch->active = 0;
            *link = ch->next;
        }
    }
    return events;
}

static int pull_all(struct wi_shm_group *group)
{
    struct wi_shm_channel_in **link = &group->active_in;
    int events = 0;

    while (*link) {
        struct wi_shm_channel_in *ch = *link;
        events += wi_shm_pull(group, ch);
        if (ch->watched && !wi_shm_in_busy(ch) && wi_shm_reader_kind(&ch->r) != WI_SHM_CELL_NONE) {
            ch->watched = 0;
            events++;
        }
        if (wi_shm_in_busy(ch) || ch->watched) {
            link = &ch->next;
        } else {
            ch->active = 0;
            *link = ch->next;
        }
    }
    return events;
}

int wi_shm_chan_progress(struct wi_shm_group *group)
{
    int events = pull_all(group);
    return events + push_all(group);
}

static int out_ready(const struct wi_shm_channel_out *ch)
{
    const struct wi_shm_ring_ctl *ctl = ch->w.ring.ctl;

    if (ch->state == WI_SHM_OUT_ASKED)
        return __atomic_load_n(&ctl->answer, __ATOMIC_ACQUIRE) / 2 >= ch->asked;
    return __atomic_load_n(&ctl->head, __ATOMIC_ACQUIRE) != ch->w.head;
}

int wi_shm_chan_ready(const struct wi_shm_group *group)
{
    for (const struct wi_shm_channel_in *ch = group->active_in; ch; ch = ch->next)
        if ((wi_shm_in_busy(ch) || ch->watched) &&
            (ch->kind != WI_SHM_FETCH_NONE || wi_shm_reader_kind(&ch->r) != WI_SHM_CELL_NONE))
            return 1;
    for (const struct wi_shm_channel_out *ch = group->active_out; ch; ch = ch->next)
        if (ch->queue.first && out_ready(ch))
            return 1;
    return 0;
}

static void fail_all(struct wi_shm_queue *queue, weft_status status)
{
    while (queue->first)
        wi_shm_queue_end(queue, status);
}

void wi_shm_chan_fail(struct wi_shm_peer *peer, weft_status status)
{
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        struct wi_shm_channel_in *in = peer->in[i];
        struct wi_shm_channel_out *out = peer->out[i];
        if (in) {
            in->open = 0;
            in->kind = WI_SHM_FETCH_NONE;
            fail_all(&in->queue, status);
        }
        if (out)
            fail_all(&out->queue, status);
    }
}

/* Does the channel wait for data? Background receives do not count, for they may never get any; the rest of an open message does,
 * even if its receive has failed. */
static int awaits_data(const struct wi_shm_channel_in *ch)
{
    const struct weft_xfer *x = ch->queue.first;

    while (x && x->background)
        x = x->next;
    return ch->open || x;
}

/* Of a peer that has left: does a receive still wait once the ring is empty? A message to be fetched is lost, for the sender has
 * gone. Such a peer puts nothing more into the ring, so at most one ring's worth of bytes is left. */
static int in_pending(struct wi_shm_group *group, struct wi_shm_channel_in *ch)
{
    uint64_t from;
    int events;

    if (!ch || !wi_shm_in_busy(ch))
        return 0;
    from = ch->r.position;
    do {
        events = ch->kind == WI_SHM_FETCH_NONE ? wi_shm_pull(group, ch) : 0;
    } while (events && wi_shm_in_busy(ch) && ch->r.position - from < ch->r.ring.capacity);
    return awaits_data(ch);
}

static int out_pending(struct wi_shm_group *group, struct wi_shm_channel_out *ch)
{
    if (!ch || !ch->queue.first)
        return 0;
    wi_shm_push(group, ch);
    return ch->queue.first != NULL;
}

int wi_shm_chan_pending(struct wi_shm_group *group, struct wi_shm_peer *peer)
{
    int pending = 0;

    for (int i = 0; i < WEFT_CHAN_MAX; i++)
        pending |= in_pending(group, peer->in[i]) | out_pending(group, peer->out[i]);
    return pending;
}

void wi_shm_chan_free(struct wi_shm_group *group)
{
    for (uint32_t p = 0; group->peers && p < group->nmembers; p++) {
        for (int i = 0; i < WEFT_CHAN_MAX; i++) {
            free(group->peers[p].in[i]);
            free(group->peers[p].out[i]);
        }
    }
}
