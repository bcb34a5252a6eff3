/* group.h: the state that the files of the shared-memory transports share. plugins/inproc uses the same.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_SHM_GROUP_H
#define WI_SHM_GROUP_H

#include <pthread.h>
#include <sys/types.h>
#include <weft/weft_plugin.h>

#include "arena.h"
#include "identity.h"
#include "segment.h"
#include "watch.h"

struct wi_shm_settings {
    int64_t depth;
    size_t slot_bytes, stage_slot_bytes, ring_bytes, rndv_bytes;
    int map, cma;
    const char *node_id, *arena;
};

#define WI_SHM_BOUNCE_BYTES ((size_t)64 << 10)

struct wi_shm_channel_in;
struct wi_shm_channel_out;
struct wi_shm_mapping;

struct wi_shm_endpoint {
    const struct weft_host *host;
    const struct wi_shm_settings *settings;
    int one_process; /* inproc */
    int membarrier;
    struct wi_shm_identity identity;
    struct wi_shm_segments segments;
    struct wi_shm_watches watches;
    pthread_mutex_t lock; /* of groups */
    struct wi_shm_group *groups;
};

enum wi_shm_peer_state { WI_SHM_PEER_ALIVE, WI_SHM_PEER_LEFT, WI_SHM_PEER_FAILED };

/* One member. Channels are made on first use. */
struct wi_shm_peer {
    int rank;
    enum wi_shm_peer_state state;
    int reported;
    weft_status status; /* FAILED: why */
    char text[160];
    struct wi_shm_identity identity; /* as it says; its process and machine are proved when the group is made */
    int here;                        /* in this process: known without its word */
    struct wi_shm_watch *watch; /* NULL: self, or ranks of one process */
    struct wi_shm_mapping *mappings;
    uint64_t mem_generation; /* of the peer, when mappings were last looked through */
    int no_map, no_cma;      /* what the peer refused to fetch from */
    struct wi_shm_channel_in *in[WEFT_CHAN_MAX];
    struct wi_shm_channel_out *out[WEFT_CHAN_MAX];
};

struct wi_shm_group {
    struct wi_shm_endpoint *endpoint;
    struct wi_shm_group *next, *prev; /* in the endpoint */
    struct wi_shm_group *here_next;   /* in prove.c's table */
    uint64_t comm_id[2];
    int rank, nranks;
    uint32_t self, nmembers;
    uint32_t *member_of; /* [nranks] index among members, UINT32_MAX for ranks served by others */
    struct wi_shm_peer *peers; /* [nmembers] */
    struct wi_shm_arena *arenas; /* [nmembers] */
    struct wi_shm_layout layout;
    struct wi_shm_bells bells;
    int bells_ready;
    unsigned char *ctl_map; /* control parts of all members, one after the other */
    struct weft_mapped_rank *mapped; /* NULL until asked for */
    int oversubscribed; /* this node has more ranks than cores */
    int may_fault; /* arenas live where space can run out: ask for pages before touching them */
    void *hub;     /* inproc */
    /* inproc: [nmembers]; a member's is held while another copies from its memory, and while it leaves */
    pthread_mutex_t *leaving;

    struct wi_shm_channel_in *active_in;
    struct wi_shm_channel_out *active_out;
    int failures;        /* peers FAILED and not yet reported */
    uint32_t calls;      /* of progress, to look at the clock rarely */
    uint64_t watched_ns; /* when peers were last looked after */
    unsigned char *bounce; /* for sinks fed by cross-memory attach: WI_SHM_BOUNCE_BYTES */
};

static inline struct wi_shm_peer *wi_shm_peer_at(struct wi_shm_group *group, int rank)
{
    if (rank < 0 || rank >= group->nranks || group->member_of[rank] == UINT32_MAX)
        return NULL;
    return &group->peers[group->member_of[rank]];
}

/* group.c */
/* Everything of a group that needs no memory shared yet. */
weft_status wi_shm_group_new(struct wi_shm_endpoint *endpoint, const struct weft_group_config *config,
                             struct wi_shm_group **group);
/* The arenas are there: start. */
weft_status wi_shm_group_start(struct wi_shm_group *group, int membarrier);
void wi_shm_group_leave(struct wi_shm_group *group, int aborted);
void wi_shm_group_free(struct wi_shm_group *group);
weft_status wi_shm_group_quiesce(void *group, uint64_t deadline_ns);
weft_status wi_shm_group_mapped(void *group, struct weft_mapped *mapped);
void wi_shm_group_sleep(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns);
void wi_shm_group_wake(void *group);
int wi_shm_group_poll_fd(void *group);
int wi_shm_group_poll_arm(void *group);
int wi_shm_group_progress(void *group, struct weft_peer_failure *failure);
/* Mark a peer and everything posted with it as failed. */
void wi_shm_peer_fail(struct wi_shm_group *group, struct wi_shm_peer *peer, weft_status status, const char *text);
weft_status wi_shm_endpoint_new(const struct weft_host *host, const void *settings, int one_process,
                                struct wi_shm_endpoint **endpoint);
void wi_shm_endpoint_close(void *endpoint);
weft_status wi_shm_endpoint_address(void *endpoint, void *buf, size_t capacity, size_t *bytes);

/* share.c: memfd arenas and how members find each other's */
weft_status wi_shm_share(struct wi_shm_group *group, const struct weft_group_config *config, int *membarrier);
void wi_shm_unshare(struct wi_shm_group *group);

/* send.c, recv.c, chan.c */
weft_status wi_shm_send(void *group, struct weft_xfer *x);
weft_status wi_shm_recv(void *group, struct weft_xfer *x);
int wi_shm_peek(void *group, int rank, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes);
int wi_shm_chan_progress(struct wi_shm_group *group);
void wi_shm_chan_fail(struct wi_shm_peer *peer, weft_status status);
/* The peer left in good order: what it sent before may still be received, all else fails. Returns whether a posted
 * transfer can never end. */
int wi_shm_chan_pending(struct wi_shm_group *group, struct wi_shm_peer *peer);
/* Would progress move something on a channel with posted transfers? */
int wi_shm_chan_ready(const struct wi_shm_group *group);
void wi_shm_chan_free(struct wi_shm_group *group);

/* remote.c: shareable memory, and reaching that of a peer */
weft_status wi_shm_mem_alloc(void *endpoint, size_t bytes, void **ptr);
weft_status wi_shm_mem_free(void *endpoint, void *ptr);
weft_status wi_shm_mem_adopt(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes);
weft_status wi_shm_mem_release(void *endpoint, void *adopted);
void wi_shm_mem_describe(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc);
weft_status wi_shm_mem_map(void *group, int peer, const struct weft_mem_desc *desc, void **ptr);
weft_status wi_shm_mem_get(void *group, int peer, uint64_t remote_address, void *local, size_t bytes);
weft_status wi_shm_mem_put(void *group, int peer, uint64_t remote_address, const void *local, size_t bytes);
void wi_shm_mappings_free(struct wi_shm_peer *peer);

#endif
