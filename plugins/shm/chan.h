/* chan.h: two-sided channels over rings. One for each peer, direction and channel number, made on first use.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_SHM_CHAN_H
#define WI_SHM_CHAN_H

#include "group.h"
#include "ring.h"

#include <string.h>

struct wi_shm_queue {
    struct weft_xfer *first, **last;
};

enum wi_shm_out_state {
    WI_SHM_OUT_START,  /* nothing of the first transfer is sent */
    WI_SHM_OUT_STREAM, /* some, through the ring */
    WI_SHM_OUT_ASKED,  /* the receiver is asked to fetch it */
};

struct wi_shm_channel_out {
    struct wi_shm_channel_out *next; /* active */
    int active;
    struct wi_shm_peer *peer;
    uint32_t member;
    struct wi_shm_writer w;
    struct wi_shm_queue queue;
    enum wi_shm_out_state state;
    size_t sent;    /* of the first transfer */
    uint64_t asked; /* rendezvous so far */
    int asked_map;  /* the newest was for mapped memory */
};

enum wi_shm_fetch_kind { WI_SHM_FETCH_NONE, WI_SHM_FETCH_DROP, WI_SHM_FETCH_MAP, WI_SHM_FETCH_CMA };

struct wi_shm_channel_in {
    struct wi_shm_channel_in *next; /* active */
    int active;
    struct wi_shm_peer *peer;
    uint32_t member;
    struct wi_shm_reader r;
    struct wi_shm_queue queue;
    int watched;         /* a probe found no message: report the next one as ready */
    int open;            /* inside a message */
    int drop;            /* whose receive has failed already */
    size_t total, got;   /* bytes of that message */
    enum wi_shm_fetch_kind kind;
    struct weft_mem_desc desc;
    const unsigned char *mapped;
    uint64_t answered;   /* rendezvous so far */
};

static inline void wi_shm_queue_init(struct wi_shm_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

static inline void wi_shm_queue_add(struct wi_shm_queue *queue, struct weft_xfer *x)
{
    x->next = NULL;
    *queue->last = x;
    queue->last = &x->next;
}

/* The first transfer ends; the caller may reuse it at once. */
static inline void wi_shm_queue_end(struct wi_shm_queue *queue, int state)
{
    struct weft_xfer *x = queue->first;

    queue->first = x->next;
    if (!queue->first)
        queue->last = &queue->first;
    x->state = state;
}

static inline int wi_shm_in_busy(const struct wi_shm_channel_in *ch)
{
    return ch->queue.first || ch->open;
}

/* Shorter copies gain nothing from leaving the C library's. */
#define WI_SHM_COPY_MIN 4096u

static inline void wi_shm_copy(const struct wi_shm_group *group, void *to, const void *from, size_t bytes, int stream)
{
    const struct weft_host *host = group->endpoint->host;

    if (bytes >= WI_SHM_COPY_MIN && host->copy)
        host->copy(to, from, bytes, stream);
    else
        memcpy(to, from, bytes);
}

/* Common checks of a posted transfer; explains what is wrong. */
weft_status wi_shm_post_check(struct wi_shm_group *group, const struct weft_xfer *x, struct wi_shm_peer **peer);
/* Advance one channel; returns events. */
int wi_shm_push(struct wi_shm_group *group, struct wi_shm_channel_out *ch);
int wi_shm_pull(struct wi_shm_group *group, struct wi_shm_channel_in *ch);
/* fetch.c: the receiving side of a rendezvous */
void wi_shm_fetch_begin(struct wi_shm_group *group, struct wi_shm_channel_in *ch);
int wi_shm_fetch_step(struct wi_shm_group *group, struct wi_shm_channel_in *ch);
/* Give payload to the first posted receive. */
void wi_shm_deliver(struct wi_shm_group *group, struct wi_shm_channel_in *ch, const void *data, size_t bytes);
/* The open message is complete. */
void wi_shm_message_end(struct wi_shm_channel_in *ch);

#endif
