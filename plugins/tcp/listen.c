/* listen.c: listeners and what they accept: authenticate, then hand to the group that the socket is for.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ACCEPT_BURST 64
#define ACCEPT_PAUSE_NS 100000000ull
#define LINGER_LOOK_NS 10000000ull
#define PARKED_MAX 4096

void wi_tcp_arrival_free(struct wi_tcp_arrival *a)
{
    if (a->fd >= 0)
        close(a->fd);
    wi_tcp_handshake_fini(&a->hs);
    free(a);
}

static void listen_set(struct wi_tcp_endpoint *e, int on)
{
    for (int i = 0; i < e->me.count; i++) {
        struct epoll_event ev = {.events = EPOLLIN};
        epoll_ctl(e->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, e->listeners[i], &ev);
    }
    e->listening = on;
}

static void take_out(struct wi_tcp_arrival **list, struct wi_tcp_arrival *a)
{
    while (*list && *list != a)
        list = &(*list)->next;
    if (*list)
        *list = a->next;
    a->next = NULL;
}

static void append(struct wi_tcp_arrival **list, struct wi_tcp_arrival *a)
{
    while (*list)
        list = &(*list)->next;
    a->next = NULL;
    *list = a;
}

static void drop_half_open(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a, const char *why)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    char text[WI_TCP_ADDR_TEXT] = "?";
    if (getpeername(a->fd, (struct sockaddr *)&sa, &n) == 0)
        wi_tcp_sockaddr_text(&sa, text);
    e->host->log(e->host->impl, WEFT_LOG_INFO, "tcp.refuse", "closed connection from %s: %s", text, why);
    take_out(&e->half_open, a);
    e->nhalf_open--;
    wi_tcp_arrival_free(a);
}

static void deliver(struct wi_tcp_group *g, struct wi_tcp_arrival *a)
{
    append(&g->inbox, a);
    atomic_fetch_add_explicit(&g->ninbox, 1, memory_order_release);
    uint64_t one = 1;
    if (write(g->event, &one, sizeof one) < 0)
        return; /* the counter is full: the reader is awake already */
}

/* The group was here and is gone: say so, the connecting side would wait for nothing. */
static int tell_gone(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    for (int i = 0; i < WI_TCP_GONE_MAX; i++) {
        const struct wi_tcp_gone *g = &e->gone[i];
        if (memcmp(g->comm_id, a->claim.comm_id, sizeof g->comm_id) || !(g->comm_id[0] | g->comm_id[1]))
            continue;
        unsigned char out[WI_TCP_HEADER_BYTES];
        struct wi_tcp_frame f = {.type = g->aborted ? WI_TCP_ABORT : WI_TCP_BYE};
        wi_tcp_frame_encode(&f, out);
        if (send(a->fd, out, sizeof out, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof out) {
            wi_tcp_linger_add(e, a->fd);
            a->fd = -1;
        }
        wi_tcp_arrival_free(a);
        return 1;
    }
    return 0;
}

static void route(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    for (struct wi_tcp_group *g = e->groups; g; g = g->next) {
        if (memcmp(g->comm_id, a->claim.comm_id, sizeof g->comm_id) == 0 && a->claim.to == (uint32_t)g->rank) {
            deliver(g, a);
            return;
        }
    }
    if (tell_gone(e, a))
        return;
    if (e->nparked >= PARKED_MAX) {
        wi_tcp_arrival_free(a);
        return;
    }
    uint64_t now = e->host->now_ns(), wait = e->settings->park_timeout;
    a->deadline_ns = wait > UINT64_MAX - now ? UINT64_MAX : now + wait;
    append(&e->parked, a);
    e->nparked++;
}

static void advance(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    weft_status st = wi_tcp_handshake_step(&a->hs, a->fd, &a->claim);
    if (st == WEFT_INPROGRESS)
        return;
    if (st == WEFT_SUCCESS && a->claim.count == 0)
        st = WEFT_EAUTH;
    if (st < 0) {
        drop_half_open(e, a, st == WEFT_EAUTH ? "not a member of this job" : "closed before it was authenticated");
        return;
    }
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, a->fd, NULL);
    take_out(&e->half_open, a);
    e->nhalf_open--;
    a->authenticated = 1;
    route(e, a);
}

static weft_status admit(struct wi_tcp_endpoint *e, int fd)
{
    struct wi_tcp_arrival *a = calloc(1, sizeof *a);
    struct wi_tcp_claim mine = {.eager = (uint32_t)e->settings->eager, .process = e->me.process};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = a};
    if (!a) {
        close(fd);
        return WEFT_ENOMEM;
    }
    a->fd = fd;
    if (wi_tcp_handshake_init(&a->hs, e->host, 1, &mine) || epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev)) {
        wi_tcp_arrival_free(a);
        return WEFT_ENOMEM;
    }
    wi_tcp_socket_options(e->settings, fd);
    a->deadline_ns = e->host->now_ns() + e->settings->auth_timeout;
    if (e->nhalf_open >= e->settings->half_open)
        drop_half_open(e, e->half_open, "too many connections wait for authentication");
    append(&e->half_open, a);
    e->nhalf_open++;
    advance(e, a);
    return WEFT_SUCCESS;
}

static int accept_some(struct wi_tcp_endpoint *e)
{
    int events = 0;
    for (int i = 0; i < e->me.count; i++) {
        for (int burst = 0; burst < ACCEPT_BURST; burst++) {
            int fd = accept4(e->listeners[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd >= 0) {
                admit(e, fd);
                events++;
                continue;
            }
            if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
                break;
            e->host->log(e->host->impl, WEFT_LOG_WARN, "tcp.accept",
                         "cannot accept connections: %s; trying again every 100 ms (see ulimit -n)", strerror(errno));
            listen_set(e, 0);
            e->listen_again_ns = e->host->now_ns() + ACCEPT_PAUSE_NS;
            return events;
        }
    }
    return events;
}

static int expire(struct wi_tcp_endpoint *e, uint64_t now)
{
    int events = 0;
    while (e->half_open && e->half_open->deadline_ns <= now) {
        drop_half_open(e, e->half_open, "no authentication in time");
        events++;
    }
    while (e->parked && e->parked->deadline_ns <= now) {
        struct wi_tcp_arrival *a = e->parked;
        e->parked = a->next;
        e->nparked--;
        wi_tcp_arrival_free(a);
        events++;
    }
    if (!e->listening && e->listen_again_ns <= now)
        listen_set(e, 1);
    return events + wi_tcp_linger_serve(e, now);
}

static void arm_timer(struct wi_tcp_endpoint *e, uint64_t now)
{
    uint64_t at = UINT64_MAX;
    if (e->half_open && e->half_open->deadline_ns < at)
        at = e->half_open->deadline_ns;
    if (e->parked && e->parked->deadline_ns < at)
        at = e->parked->deadline_ns;
    if (!e->listening && e->listen_again_ns < at)
        at = e->listen_again_ns;
    if (e->lingering && now + LINGER_LOOK_NS < at)
        at = now + LINGER_LOOK_NS;
    uint64_t in = at == UINT64_MAX ? 0 : at > now ? at - now : 1;
    struct itimerspec t = {.it_value = {(time_t)(in / 1000000000ull), (long)(in % 1000000000ull)}};
    timerfd_settime(e->timer, 0, &t, NULL);
}

int wi_tcp_endpoint_serve(struct wi_tcp_endpoint *e)
{
    struct epoll_event ev[64];
    int events = 0, knock = 0;
    if (pthread_mutex_trylock(&e->lock))
        return 0;
    int n = epoll_wait(e->epoll, ev, 64, 0);
    /* Arrivals first: accepting may free the oldest of them. */
    for (int i = 0; i < n; i++) {
        uint64_t ticks;
        if (!ev[i].data.ptr)
            knock = 1;
        else if (ev[i].data.ptr == &e->timer)
            events += read(e->timer, &ticks, sizeof ticks) > 0;
        else
            advance(e, ev[i].data.ptr);
        events++;
    }
    if (knock)
        events += accept_some(e);
    uint64_t now = e->host->now_ns();
    events += expire(e, now);
    if (n > 0)
        arm_timer(e, now);
    pthread_mutex_unlock(&e->lock);
    return events;
}

void wi_tcp_endpoint_join(struct wi_tcp_endpoint *e, struct wi_tcp_group *group)
{
    pthread_mutex_lock(&e->lock);
    group->next = e->groups;
    e->groups = group;
    for (struct wi_tcp_arrival **at = &e->parked; *at;) {
        struct wi_tcp_arrival *a = *at;
        if (memcmp(a->claim.comm_id, group->comm_id, sizeof group->comm_id) || a->claim.to != (uint32_t)group->rank) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        e->nparked--;
        deliver(group, a);
    }
    pthread_mutex_unlock(&e->lock);
}

void wi_tcp_endpoint_leave(struct wi_tcp_endpoint *e, struct wi_tcp_group *group, int aborted)
{
    pthread_mutex_lock(&e->lock);
    for (struct wi_tcp_group **at = &e->groups; *at; at = &(*at)->next) {
        if (*at == group) {
            *at = group->next;
            break;
        }
    }
    struct wi_tcp_gone *gone = &e->gone[e->gone_next++ % WI_TCP_GONE_MAX];
    memcpy(gone->comm_id, group->comm_id, sizeof gone->comm_id);
    gone->aborted = aborted;
    while (group->inbox) {
        struct wi_tcp_arrival *a = group->inbox;
        group->inbox = a->next;
        if (!tell_gone(e, a))
            wi_tcp_arrival_free(a);
    }
    arm_timer(e, e->host->now_ns());
    pthread_mutex_unlock(&e->lock);
}
