/* group.c: a group's life, and looking after its peers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_EVERY_NS 1000000ull
#define WATCH_CALLS 16u /* progress calls between looks at the clock */

weft_status wi_shm_endpoint_new(const struct weft_host *host, const void *settings, int one_process,
                                struct wi_shm_endpoint **endpoint)
{
    struct wi_shm_endpoint *made = calloc(1, sizeof(*made));

    if (!made)
        return WEFT_ENOMEM;
    made->host = host;
    made->settings = settings;
    made->one_process = one_process;
    wi_shm_processes_init(host);
    wi_shm_identity_read(&made->identity, made->settings->node_id);
    made->membarrier = wi_shm_membarrier_register(one_process);
    if (!wi_shm_watches_init(&made->watches))
        goto free_made;
    if (wi_shm_segments_init(&made->segments) != WEFT_SUCCESS)
        goto fini_watches;
    if (pthread_mutex_init(&made->lock, NULL) != 0)
        goto fini_segments;
    *endpoint = made;
    return WEFT_SUCCESS;
fini_segments:
    wi_shm_segments_fini(&made->segments);
fini_watches:
    wi_shm_watches_fini(&made->watches);
free_made:
    free(made);
    return WEFT_ENOMEM;
}

void wi_shm_endpoint_close(void *arg)
{
    struct wi_shm_endpoint *endpoint = arg;

    pthread_mutex_destroy(&endpoint->lock);
    wi_shm_segments_fini(&endpoint->segments);
    wi_shm_watches_fini(&endpoint->watches);
    free(endpoint);
}

weft_status wi_shm_endpoint_address(void *arg, void *buf, size_t capacity, size_t *bytes)
{
    const struct wi_shm_endpoint *endpoint = arg;

    if (capacity < sizeof(endpoint->identity))
        return WEFT_EINVAL;
    memcpy(buf, &endpoint->identity, sizeof(endpoint->identity));
    *bytes = sizeof(endpoint->identity);
    return WEFT_SUCCESS;
}

static weft_status add_members(struct wi_shm_group *group, const struct weft_group_config *config)
{
    const struct weft_host *host = group->endpoint->host;
    uint32_t member = 0;

    for (int rank = 0; rank < config->nranks; rank++) {
        struct wi_shm_peer *peer = &group->peers[member];
        group->member_of[rank] = UINT32_MAX;
        if (!config->member[rank])
            continue;
        if (rank == config->rank)
            group->self = member;
        group->member_of[rank] = member++;
        peer->rank = rank;
        if (!wi_shm_identity_parse(&peer->identity, config->addresses[rank], config->address_bytes[rank])) {
            host->explain(host->impl, WEFT_EPROTO, "the shared-memory address of rank %d is malformed", rank);
            return WEFT_EPROTO;
        }
    }
    return WEFT_SUCCESS;
}

static weft_status watch_members(struct wi_shm_group *group)
{
    for (uint32_t i = 0; i < group->nmembers; i++) {
        struct wi_shm_peer *peer = &group->peers[i];
        if (wi_shm_identity_same_process(&peer->identity, &group->endpoint->identity))
            continue;
        peer->watch = wi_shm_watch_get(&group->endpoint->watches, &peer->identity);
        if (!peer->watch)
            return WEFT_ENOMEM;
    }
    return WEFT_SUCCESS;
}

static weft_status check_config(const struct weft_host *host, const struct weft_group_config *config,
                                uint32_t *nmembers)
{
    uint32_t count = 0;

    for (int rank = 0; rank < config->nranks; rank++)
        count += config->member[rank] != 0;
    if (config->rank < 0 || config->rank >= config->nranks || !config->member[config->rank])
        return WEFT_EINVAL;
    if (count > WI_SHM_MAX_MEMBERS) {
        host->explain(host->impl, WEFT_ENOTSUP, "%u ranks share this node, the shared-memory transports serve %u",
                      count, WI_SHM_MAX_MEMBERS);
        return WEFT_ENOTSUP;
    }
    *nmembers = count;
    return WEFT_SUCCESS;
}

weft_status wi_shm_group_new(struct wi_shm_endpoint *endpoint, const struct weft_group_config *config,
                             struct wi_shm_group **group)
{
    const struct wi_shm_settings *settings = endpoint->settings;
    struct wi_shm_group *made;
    uint32_t nmembers;
    weft_status status = check_config(endpoint->host, config, &nmembers);

    if (status != WEFT_SUCCESS)
        return status;
    made = calloc(1, sizeof(*made));
    if (!made)
        return WEFT_ENOMEM;
    made->endpoint = endpoint;
    memcpy(made->comm_id, config->comm_id, sizeof(made->comm_id));
    made->rank = config->rank;
    made->nranks = config->nranks;
    made->oversubscribed = config->oversubscribed;
    made->nmembers = nmembers;
    made->member_of = calloc((size_t)config->nranks, sizeof(*made->member_of));
    made->peers = calloc(nmembers, sizeof(*made->peers));
    made->arenas = calloc(nmembers, sizeof(*made->arenas));
    status = made->member_of && made->peers && made->arenas ? WEFT_SUCCESS : WEFT_ENOMEM;
    if (status == WEFT_SUCCESS)
        status =
            wi_shm_layout_init(&made->layout, nmembers, (uint32_t)settings->depth,
                               nmembers < (uint32_t)config->nranks ? settings->stage_slot_bytes : settings->slot_bytes,
                               settings->ring_bytes);
    if (status == WEFT_SUCCESS)
        status = add_members(made, config);
    if (status == WEFT_SUCCESS)
        status = watch_members(made);
    if (status != WEFT_SUCCESS) {
        wi_shm_group_free(made);
        return status;
    }
    *group = made;
    return WEFT_SUCCESS;
}

weft_status wi_shm_group_start(struct wi_shm_group *group, int membarrier)
{
    struct wi_shm_endpoint *endpoint = group->endpoint;
    weft_status status = wi_shm_bells_init(&group->bells, group->arenas, group->nmembers, group->self,
                                           endpoint->one_process, membarrier);

    if (status != WEFT_SUCCESS)
        return status;
    group->bells_ready = 1;
    pthread_mutex_lock(&endpoint->lock);
    group->next = endpoint->groups;
    if (group->next)
        group->next->prev = group;
    endpoint->groups = group;
    pthread_mutex_unlock(&endpoint->lock);
    return WEFT_SUCCESS;
}

static void say_on_board(struct wi_shm_group *group, uint32_t state)
{
    if (group->leaving)
        pthread_mutex_lock(&group->leaving[group->self]); /* until no peer copies from this rank's buffers */
    __atomic_store_n(&group->arenas[group->self].ctl->board.state, state, __ATOMIC_SEQ_CST);
    if (group->leaving)
        pthread_mutex_unlock(&group->leaving[group->self]);
    if (wi_shm_bells_any(&group->bells))
        wi_shm_bells_wake(&group->bells);
}

void wi_shm_group_leave(struct wi_shm_group *group, int aborted)
{
    struct wi_shm_endpoint *endpoint = group->endpoint;
    uint32_t state = aborted ? WEFT_BOARD_ABORTED : WEFT_BOARD_LEFT;

    pthread_mutex_lock(&endpoint->lock);
    if (group->prev)
        group->prev->next = group->next;
    else
        endpoint->groups = group->next;
    if (group->next)
        group->next->prev = group->prev;
    pthread_mutex_unlock(&endpoint->lock);
    if (endpoint->identity.pid != (uint32_t)getpid())
        return; /* a forked child: the arena is its parent's, and not mapped here */
    say_on_board(group, state);
}

/* Peers copy from this rank's buffers by themselves. After a copy they check this rank's board before they use the data
 * (fetch.c). */
weft_status wi_shm_group_quiesce(void *arg, uint64_t deadline_ns)
{
    struct wi_shm_group *group = arg;

    (void)deadline_ns;
    say_on_board(group, WEFT_BOARD_ABORTED);
    for (uint32_t i = 0; i < group->nmembers; i++)
        wi_shm_chan_fail(&group->peers[i], WEFT_ECANCELED);
    return WEFT_SUCCESS;
}

void wi_shm_group_free(struct wi_shm_group *group)
{
    wi_shm_chan_free(group);
    for (uint32_t i = 0; group->peers && i < group->nmembers; i++) {
        wi_shm_mappings_free(&group->peers[i]);
        wi_shm_watch_put(&group->endpoint->watches, group->peers[i].watch);
    }
    if (group->bells_ready)
        wi_shm_bells_fini(&group->bells);
    free(group->bounce);
    free(group->mapped);
    free(group->arenas);
    free(group->peers);
    free(group->member_of);
    free(group);
}

weft_status wi_shm_group_mapped(void *arg, struct weft_mapped *mapped)
{
    struct wi_shm_group *group = arg;

    if (!group->mapped) {
        group->mapped = calloc((size_t)group->nranks, sizeof(*group->mapped));
        if (!group->mapped)
            return WEFT_ENOMEM;
        for (uint32_t i = 0; i < group->nmembers; i++) {
            const struct wi_shm_arena *arena = &group->arenas[i];
            group->mapped[group->peers[i].rank] = (struct weft_mapped_rank){.signals = arena->ctl->signals,
                                                                            .done = &arena->ctl->done,
                                                                            .ll = wi_shm_arena_ll(arena),
                                                                            .slots = arena->bulk,
                                                                            .board = &arena->ctl->board,
                                                                            .processor = &arena->ctl->processor};
        }
    }
    *mapped = (struct weft_mapped){.nlanes = WI_SHM_LANES,
                                   .depth = group->layout.depth,
                                   .ll_depth = WI_SHM_LL_DEPTH,
                                   .ll_lines = WI_SHM_LL_LINES,
                                   .slot_bytes = group->layout.slot_bytes,
                                   .ranks = group->mapped,
                                   .sleepers = &group->arenas[0].ctl->sleepers};
    return WEFT_SUCCESS;
}

struct awaited {
    struct wi_shm_group *group;
    int (*ready)(void *arg);
    void *arg;
};

/* What the caller waits for, or a message that came after the last progress. */
static int awaited_ready(void *arg)
{
    const struct awaited *awaited = arg;
    return (awaited->ready && awaited->ready(awaited->arg)) || wi_shm_chan_ready(awaited->group);
}

void wi_shm_group_sleep(void *arg, int (*ready)(void *arg), void *ready_arg, uint64_t timeout_ns)
{
    struct wi_shm_group *group = arg;
    struct awaited awaited = {group, ready, ready_arg};

    wi_shm_bells_sleep(&group->bells, awaited_ready, &awaited, timeout_ns);
    __atomic_store_n(&group->calls, WATCH_CALLS, __ATOMIC_RELAXED); /* time has passed: look at the clock next */
}

void wi_shm_group_wake(void *arg)
{
    wi_shm_bells_wake(&((struct wi_shm_group *)arg)->bells);
}

/* Futexes do not poll: who waits for this transport alone uses sleep, who waits for several naps. */
int wi_shm_group_poll_fd(void *arg)
{
    (void)arg;
    return -1;
}

int wi_shm_group_poll_arm(void *arg)
{
    (void)arg;
    return 1;
}

void wi_shm_peer_fail(struct wi_shm_group *group, struct wi_shm_peer *peer, weft_status status, const char *text)
{
    if (peer->state == WI_SHM_PEER_FAILED)
        return;
    peer->state = WI_SHM_PEER_FAILED;
    peer->status = status;
    snprintf(peer->text, sizeof(peer->text), "%s", text);
    group->failures++;
    wi_shm_chan_fail(peer, status);
}

static void look_at_peer(struct wi_shm_group *group, struct wi_shm_peer *peer, uint32_t board)
{
    char text[sizeof(peer->text)];

    if (board == WEFT_BOARD_ABORTED) {
        snprintf(text, sizeof(text), "rank %d (process %u) aborted the communicator, or left it after a failure",
                 peer->rank, peer->identity.pid);
        wi_shm_peer_fail(group, peer, WEFT_EABORTED, text);
    } else if (board == WEFT_BOARD_LEFT) {
        peer->state = WI_SHM_PEER_LEFT;
        if (!wi_shm_chan_pending(group, peer))
            return;
        snprintf(text, sizeof(text), "rank %d (process %u) left the communicator", peer->rank, peer->identity.pid);
        wi_shm_peer_fail(group, peer, WEFT_EPEER, text);
    } else if (peer->watch && __atomic_load_n(&peer->watch->dead, __ATOMIC_RELAXED)) {
        wi_shm_watch_text(peer->watch, text, sizeof(text));
        wi_shm_peer_fail(group, peer, WEFT_EPEER, text);
    }
}

static void poll_watches(struct wi_shm_group *group)
{
    struct wi_shm_watch *some[64];

    for (uint32_t first = 0; first < group->nmembers; first += 64) {
        uint32_t count = group->nmembers - first < 64 ? group->nmembers - first : 64;
        for (uint32_t i = 0; i < count; i++)
            some[i] = group->peers[first + i].watch;
        wi_shm_watch_poll(&group->endpoint->watches, some, count);
    }
}

static void look_after_peers(struct wi_shm_group *group)
{
    poll_watches(group);
    for (uint32_t i = 0; i < group->nmembers; i++) {
        struct wi_shm_peer *peer = &group->peers[i];
        if (i == group->self || peer->state == WI_SHM_PEER_FAILED)
            continue;
        /* The board is read after the death: a process that left in good order may end at once. */
        look_at_peer(group, peer, __atomic_load_n(&group->arenas[i].ctl->board.state, __ATOMIC_ACQUIRE));
    }
}

static weft_status report(struct wi_shm_group *group, struct weft_peer_failure *failure)
{
    for (uint32_t i = 0; i < group->nmembers; i++) {
        struct wi_shm_peer *peer = &group->peers[i];
        if (peer->state != WI_SHM_PEER_FAILED || peer->reported)
            continue;
        peer->reported = 1;
        group->failures--;
        if (failure) {
            failure->peer = peer->rank;
            failure->status = peer->status;
            snprintf(failure->text, sizeof(failure->text), "%s", peer->text);
        }
        return peer->status;
    }
    return WEFT_EINTERNAL;
}

int wi_shm_group_progress(void *arg, struct weft_peer_failure *failure)
{
    struct wi_shm_group *group = arg;
    int events = 0;

    if (group->active_in || group->active_out)
        events = wi_shm_chan_progress(group);
    if (__atomic_load_n(&group->calls, __ATOMIC_RELAXED) >= WATCH_CALLS) {
        uint64_t now = group->endpoint->host->now_ns();
        __atomic_store_n(&group->calls, 0, __ATOMIC_RELAXED);
        if (now - group->watched_ns >= WATCH_EVERY_NS) {
            group->watched_ns = now;
            look_after_peers(group);
        }
    }
    __atomic_store_n(&group->calls, group->calls + 1, __ATOMIC_RELAXED);
    return group->failures ? report(group, failure) : events;
}
