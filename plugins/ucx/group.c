/* group.c: one communicator.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LEAVE_NS 1000000000ull /* for what is under way when a group is destroyed */
#define LOOKS 64        /* calls of progress between looks at the side channel, and at processes if nothing comes */
#define MORE_LOOKS 4096 /* at processes also while something comes */

/* ---- Making ---- */

static int add_to(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static weft_status open_files(struct wu_group *g)
{
    struct wu_endpoint *e = g->endpoint;

    g->epoll = e->host->fd_keep(epoll_create1(EPOLL_CLOEXEC));
    if (g->epoll < 0)
        return wu_explain_errno(e->host, "epoll_create1");
    g->event_fd = e->host->fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (g->event_fd < 0)
        return wu_explain_errno(e->host, "eventfd");
    int side = e->host->side_fd(g->side);
    if (add_to(g->epoll, g->event_fd) || add_to(g->epoll, e->worker_fd) || add_to(g->epoll, e->deaths) ||
        (side >= 0 && add_to(g->epoll, side)))
        return wu_explain_errno(e->host, "epoll_ctl");
    return WEFT_SUCCESS;
}

static weft_status read_addresses(struct wu_group *g, const struct weft_group_config *c)
{
    for (int i = 0; i < g->nranks; i++) {
        struct wu_address a;
        if (!g->member[i])
            continue;
        if (c->address_bytes[i] != sizeof a) {
            g->endpoint->host->explain(g->endpoint->host->impl, WEFT_EPROTO, "ucx: rank %d's address is malformed", i);
            return WEFT_EPROTO;
        }
        memcpy(&a, c->addresses[i], sizeof a);
        g->processes[i] = a.process;
        memcpy(g->uids[i], a.uid, sizeof a.uid);
    }
    return WEFT_SUCCESS;
}

static void group_free(struct wu_group *g)
{
    if (g->epoll >= 0)
        g->endpoint->host->fd_close(g->epoll);
    if (g->event_fd >= 0)
        g->endpoint->host->fd_close(g->event_fd);
    free(g->processes);
    free(g->uids);
    free(g->member);
    free(g->peers);
    free(g);
}

weft_status wu_group_create(void *endpoint, const struct weft_group_config *c, void **group)
{
    struct wu_endpoint *e = endpoint;
    struct wu_group *g = calloc(1, sizeof *g);
    size_t n = (size_t)c->nranks;
    weft_status st;

    if (!g)
        return WEFT_ENOMEM;
    g->endpoint = e;
    g->rank = c->rank;
    g->nranks = c->nranks;
    g->side = c->side;
    g->epoll = g->event_fd = -1;
    g->ready_last = &g->ready;
    g->done_last = &g->done;
    g->processes = calloc(n, sizeof *g->processes);
    g->uids = calloc(n, sizeof *g->uids);
    g->member = malloc(n);
    g->peers = calloc(n, sizeof *g->peers);
    if (!g->processes || !g->uids || !g->member || !g->peers) {
        group_free(g);
        e->host->explain(e->host->impl, WEFT_ENOMEM, "ucx: no memory for a group of %d", c->nranks);
        return WEFT_ENOMEM;
    }
    memcpy(g->member, c->member, n);
    st = read_addresses(g, c);
    if (st >= 0)
        st = open_files(g);
    if (st < 0) {
        group_free(g);
        return st;
    }
    wu_enter(e, g);
    g->next = e->groups;
    e->groups = g;
    g->breaks = e->breaks;
    wu_leave(e);
    *group = g;
    return WEFT_SUCCESS;
}

/* ---- Progress ---- */

static int take_done(struct wu_group *g)
{
    int events = 0;

    while (g->done) {
        struct weft_xfer *x = g->done;
        g->done = x->next;
        x->state = (int)(int64_t)x->priv[PRIV_STATE];
        events++;
    }
    g->done_last = &g->done;
    return events;
}

static int take_ready(struct wu_group *g)
{
    struct wu_channel *ch = g->ready;
    int events = 0;

    g->ready = NULL;
    g->ready_last = &g->ready;
    while (ch) {
        struct wu_channel *next = ch->next_ready;
        ch->ready = 0;
        events += wu_recv_step(ch) + 1;
        if (ch->peer->left)
            wu_peer_check_left(ch->peer);
        ch = next;
    }
    return events;
}

static void awake(struct wu_group *g)
{
    uint64_t count;

    if (!g->asleep)
        return;
    g->asleep = 0;
    g->endpoint->asleep--;
    g->looks = 0;
    g->endpoint->looked_ns = 0;
    if (read(g->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
}

static weft_status report(struct wu_group *g, struct weft_peer_failure *failure)
{
    for (int i = 0; i < g->nranks; i++) {
        struct wu_peer *p = g->peers[i];
        if (!p || p->state != WU_FAILED || p->reported)
            continue;
        p->reported = 1;
        g->unreported--;
        failure->peer = i;
        failure->status = p->status;
        snprintf(failure->text, sizeof failure->text, "%s", p->text);
        return p->status;
    }
    return WEFT_SUCCESS;
}

/* Now and then, what UCX does not tell. That a process has ended counts once what it has sent before was taken. */
static int look_around(struct wu_group *g, int events)
{
    unsigned looks = g->looks++;
    uint64_t now;

    if (looks % LOOKS == 0 || (g->connecting && !events))
        events += wu_connect_step(g);
    if ((looks % LOOKS == 0 && !events) || looks % MORE_LOOKS == 0) {
        now = g->endpoint->host->now_ns();
        wu_links_look(g->endpoint, now);
        if (g->breaks != g->endpoint->breaks || g->ngone)
            wu_peers_look(g, now);
    }
    return events;
}

int wu_progress(void *group, struct weft_peer_failure *failure)
{
    struct wu_group *g = group;
    struct wu_endpoint *e = g->endpoint;
    int events, status = 0;

    wu_enter(e, g);
    awake(g);
    e->in_progress = 1;
    events = wu_progress_worker(e);
    if (g->done)
        events += take_done(g);
    if (g->ready)
        events += take_ready(g);
    events = look_around(g, events);
    if (g->unreported)
        status = report(g, failure);
    e->in_progress = 0;
    wu_leave(e);
    return status < 0 ? status : events;
}

int wu_poll_fd(void *group)
{
    const struct wu_group *g = group;

    return g->epoll;
}

int wu_poll_arm(void *group)
{
    struct wu_group *g = group;
    struct wu_endpoint *e = g->endpoint;
    int again;

    wu_enter(e, g);
    again = g->done || g->ready || g->unreported || g->ngone || e->due || g->breaks != e->breaks ||
            wu_ucx.ucp_worker_arm(e->worker) == UCS_ERR_BUSY;
    if (!again && !g->asleep) {
        g->asleep = 1;
        e->asleep++;
    }
    wu_leave(e);
    return again;
}

/* ---- Ending ---- */

/* Segments of the group that UCX still has memory of. What a process that was killed has not taken stays with UCX, which does not
 * touch it: it would do so only at the process's request. */
static int under_way(const struct wu_group *g)
{
    for (int i = 0; i < g->nranks; i++) {
        const struct wu_peer *p = g->peers[i];
        if (p && (p->outs || p->ins) && !(p->link && p->link->watched && p->link->ended))
            return 1;
    }
    return 0;
}

static void cancel_sends(struct wu_group *g)
{
    for (int i = 0; i < g->nranks; i++) {
        struct wu_peer *p = g->peers[i];
        if (p && p->outs && p->link && !p->link->broken)
            wu_say(p, WU_CANCEL, 0, 0);
    }
}

/* Until nothing is under way. Returns 1, or 0 at the deadline. The lock is not held. */
static int settle(struct wu_group *g, uint64_t deadline_ns)
{
    struct wu_endpoint *e = g->endpoint;
    int left, idle = 0;

    do {
        wu_enter(e, g);
        idle = wu_progress_worker(e) ? 0 : idle + 1;
        wu_links_look(e, e->host->now_ns());
        left = under_way(g) || idle < 3;
        wu_leave(e);
        if (idle > 2 && left)
            sched_yield();
    } while (left && e->host->now_ns() < deadline_ns);
    return !left;
}

weft_status wu_quiesce(void *group, uint64_t deadline_ns)
{
    struct wu_group *g = group;
    int settled;

    wu_enter(g->endpoint, g);
    if (!g->quiet)
        cancel_sends(g);
    g->quiet = 1;
    for (int i = 0; i < g->nranks; i++)
        if (g->peers[i]) {
            wu_end_all(g->peers[i], WEFT_ECANCELED);
            wu_recv_drop(g->peers[i], 1);
        }
    take_done(g);
    wu_leave(g->endpoint);
    settled = settle(g, deadline_ns);
    if (!settled)
        g->endpoint->host->explain(g->endpoint->host->impl, WEFT_ETIMEDOUT,
                                   "ucx: a peer has not ended what it does with this rank's memory");
    return settled ? WEFT_SUCCESS : WEFT_ETIMEDOUT;
}

static void say_goodbye(struct wu_group *g, int aborted)
{
    for (int i = 0; i < g->nranks; i++) {
        struct wu_peer *p = g->peers[i];
        if (p && p->link && !p->link->broken && !p->left)
            wu_say(p, WU_LEAVE, aborted ? WU_ABORTED : 0, p->segments_sent);
    }
}

void wu_group_destroy(void *group, int aborted)
{
    struct wu_group *g = group;
    struct wu_endpoint *e = g->endpoint;
    struct wu_group **at = &e->groups;

    wu_enter(e, g);
    awake(g);
    if (!g->quiet)
        cancel_sends(g);
    g->quiet = 1;
    wu_connect_step(g); /* whoever has responded by now is to hear of it, too */
    say_goodbye(g, aborted);
    for (int i = 0; i < g->nranks; i++)
        if (g->peers[i]) {
            wu_end_all(g->peers[i], WEFT_ECANCELED);
            wu_recv_drop(g->peers[i], 1);
        }
    wu_leave(e);
    if (!settle(g, e->host->now_ns() + LEAVE_NS))
        e->host->log(e->host->impl, WEFT_LOG_WARN, "ucx.busy",
                     "a communicator ends while a peer may still read this rank's memory");
    wu_enter(e, g);
    for (int i = 0; i < g->nranks; i++)
        if (g->peers[i])
            wu_peer_free(g->peers[i]);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    wu_leave(e);
    group_free(g);
}

size_t wu_describe(void *group, int peer, char *text, size_t capacity)
{
    static const char *const states[] = {"not connected", "connecting", "connected", "failed"};
    struct wu_group *g = group;
    const struct wu_peer *p;
    int state, n;

    if (peer < 0 || peer >= g->nranks || !g->member[peer])
        return 0;
    wu_enter(g->endpoint, g);
    p = g->peers[peer];
    state = g->endpoint->host->process_state(&g->processes[peer]);
    n = snprintf(text, capacity, "ucx: %s; process %d %s", states[p ? p->state : WU_UNCONNECTED],
                 (int)g->processes[peer].pid,
                 state == 'T' || state == 't' ? "is stopped"
                 : state == 0                 ? "has ended"
                 : state == '?'               ? "is on another host"
                                              : "runs");
    wu_leave(g->endpoint);
    return n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}
