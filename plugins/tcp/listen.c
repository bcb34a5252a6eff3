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
#define ACCEPT_CALM_NS 10000000000ull
#define SILENT_NS 500000000ull   /* after which its descriptor is given to others */
#define ROOM_PAUSE_NS 1000000ull /* all that are half open have shown the key: they will be done soon */
#define PARKED_MAX 4096

void wi_tcp_arrival_free(struct wi_tcp_arrival *a)
{
    if (a->fd >= 0)
        wi_tcp_fd_close(a->fd);
    if (a->stream)
        wi_tcp_stream_close(a->stream);
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

/* A stream: whoever opened it belongs to the job. Another communicator's key, or one that is long gone. */
static void drop_joining(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a, const char *why)
{
    e->host->log(e->host->impl, WEFT_LOG_INFO, "tcp.refuse", "%s: closed stream %u: %s", a->stream->mux->ends,
                 a->stream->id, why);
    take_out(&e->joining, a);
    wi_tcp_arrival_free(a);
}

static void drop_half_open(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a, const char *why)
{
    if (a->stream) {
        drop_joining(e, a, why);
        return;
    }
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    char text[WI_TCP_ADDR_TEXT] = "?";
    if (getpeername(a->fd, (struct sockaddr *)&sa, &n) == 0)
        wi_tcp_sockaddr_text(&sa, text);
    e->host->log(e->host->impl, WEFT_LOG_INFO, "tcp.refuse", "closed connection from %s: %s", text, why);
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, a->fd, NULL); /* a child that has not come to its exec may have it, too */
    take_out(&e->half_open, a);
    e->nhalf_open--;
    wi_tcp_arrival_free(a);
}

/* An IPv4 address; of IPv6 the network, for a host may have as many addresses in it as it likes. */
static uint64_t source_of(const struct sockaddr_storage *sa)
{
    uint64_t source = 0;
    uint32_t v4;
    if (sa->ss_family == AF_INET) {
        memcpy(&v4, &((const struct sockaddr_in *)sa)->sin_addr, sizeof v4);
        return v4;
    }
    if (sa->ss_family == AF_INET6)
        memcpy(&source, &((const struct sockaddr_in6 *)sa)->sin6_addr, sizeof source);
    return source | (uint64_t)1 << 63;
}

/* The rule of src/net/half_open.h. Connections that have proved the key are kept. The others of one source may have half of the
 * table: beyond that a newcomer takes the place of the oldest of its own source, so that a flood from one place only drives out
 * itself. 0: there is no room. */
static int make_room(struct wi_tcp_endpoint *e, uint64_t source)
{
    struct wi_tcp_arrival *oldest = NULL, *of_source = NULL;
    int64_t from_source = 0, most = e->settings->half_open > 1 ? e->settings->half_open / 2 : 1;
    for (struct wi_tcp_arrival *a = e->half_open; a; a = a->next) {
        if (a->hs.replied)
            continue;
        oldest = oldest ? oldest : a;
        if (a->source != source)
            continue;
        of_source = of_source ? of_source : a;
        from_source++;
    }
    if (from_source >= most)
        drop_half_open(e, of_source, "too many connections from there wait for authentication");
    else if (e->nhalf_open >= e->settings->half_open && oldest)
        drop_half_open(e, oldest, "too many connections wait for authentication");
    return e->nhalf_open < e->settings->half_open;
}

static int has_room(const struct wi_tcp_endpoint *e)
{
    const struct wi_tcp_arrival *a = e->half_open;
    while (a && a->hs.replied)
        a = a->next;
    return a || e->nhalf_open < e->settings->half_open;
}

/* The accepting side's first frame; 0 when the socket is broken. */
static int greet(struct wi_tcp_arrival *a, uint8_t type, weft_status reason)
{
    unsigned char out[WI_TCP_HEADER_BYTES];
    struct wi_tcp_frame f = {.type = type, .total = wi_tcp_reason_encode(reason)};
    wi_tcp_frame_encode(&f, out);
    return wi_tcp_io_say(a->fd, a->stream, out, sizeof out) == 0;
}

void wi_tcp_arrival_dismiss(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a, uint8_t type, weft_status reason)
{
    if (greet(a, type, reason) && !a->stream) {
        wi_tcp_linger_add(e, a->fd);
        a->fd = -1;
    }
    wi_tcp_arrival_free(a);
}

void wi_tcp_endpoint_refuse(struct wi_tcp_group *g, int rank, weft_status reason)
{
    struct wi_tcp_endpoint *e = g->endpoint;
    pthread_mutex_lock(&e->lock);
    g->refused[rank] = reason;
    for (struct wi_tcp_arrival **at = &g->inbox; *at;) {
        struct wi_tcp_arrival *a = *at;
        if (a->claim.from != (uint32_t)rank) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        wi_tcp_arrival_dismiss(e, a, WI_TCP_ABORT, reason);
    }
    wi_tcp_endpoint_arm(e);
    pthread_mutex_unlock(&e->lock);
}

static void deliver(struct wi_tcp_endpoint *e, struct wi_tcp_group *g, struct wi_tcp_arrival *a)
{
    uint64_t one = 1;
    if (!wi_tcp_claim_fits(g, &a->claim)) {
        wi_tcp_arrival_free(a);
        return;
    }
    if (g->refused[a->claim.from]) {
        wi_tcp_arrival_dismiss(e, a, WI_TCP_ABORT, g->refused[a->claim.from]);
        return;
    }
    unsigned char *link = &g->link[a->claim.from];
    if (*link == WI_TCP_LINK_DIALS && a->claim.from > (uint32_t)g->rank) {
        wi_tcp_arrival_dismiss(e, a, WI_TCP_CROSSED, WEFT_SUCCESS);
        return;
    }
    if (g->lean && !a->stream) {
        wi_tcp_arrival_dismiss(e, a, WI_TCP_SHARE, WEFT_SUCCESS);
        return;
    }
    if (!greet(a, WI_TCP_WELCOME, WEFT_SUCCESS)) {
        wi_tcp_arrival_free(a);
        return;
    }
    *link = WI_TCP_LINK_ACCEPTS;
    append(&g->inbox, a);
    atomic_fetch_add_explicit(&g->ninbox, 1, memory_order_release);
    if (g->lean)
        wi_tcp_group_stir(g);
    else if (write(g->event, &one, sizeof one) < 0)
        return; /* the counter is full: the reader is awake already */
}

/* The group was here and is gone: say so, the connecting side would wait for nothing. */
static int tell_gone(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    for (int i = 0; i < WI_TCP_GONE_MAX; i++) {
        const struct wi_tcp_gone *g = &e->gone[i];
        if (memcmp(g->comm_id, a->claim.comm_id, sizeof g->comm_id) || !(g->comm_id[0] | g->comm_id[1]))
            continue;
        wi_tcp_arrival_dismiss(e, a, g->aborted ? WI_TCP_ABORT : WI_TCP_BYE, g->reason);
        return 1;
    }
    return 0;
}

static void route(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    for (struct wi_tcp_group *g = e->groups; g; g = g->next) {
        if (memcmp(g->comm_id, a->claim.comm_id, sizeof g->comm_id) == 0 && a->claim.to == (uint32_t)g->rank) {
            deliver(e, g, a);
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

void wi_tcp_advance(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a)
{
    weft_status st = wi_tcp_handshake_step(&a->hs, a->fd, a->stream, &a->claim);
    if (st == WEFT_INPROGRESS)
        return;
    if (st < 0) {
        drop_half_open(e, a, st == WEFT_EAUTH ? "not a member of this job" : "closed before it was authenticated");
        return;
    }
    if (a->stream && (a->claim.shared || a->claim.process != a->stream->mux->process)) {
        drop_joining(e, a, "not what the connection is for");
        return;
    }
    if (a->stream) {
        take_out(&e->joining, a);
        wi_tcp_stream_arrive(a->stream, NULL);
    } else {
        epoll_ctl(e->epoll, EPOLL_CTL_DEL, a->fd, NULL);
        take_out(&e->half_open, a);
        e->nhalf_open--;
    }
    a->authenticated = 1;
    if (a->claim.shared)
        wi_tcp_share_accept(e, a);
    else
        route(e, a);
}

static weft_status admit(struct wi_tcp_endpoint *e, int fd, uint64_t source)
{
    struct wi_tcp_arrival *a = calloc(1, sizeof *a);
    struct wi_tcp_claim mine = {.eager = (uint32_t)e->settings->eager, .process = e->me.process};
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = a};
    if (!a) {
        wi_tcp_fd_close(fd);
        return WEFT_ENOMEM;
    }
    a->fd = fd;
    a->source = source;
    if (wi_tcp_handshake_init(&a->hs, e->host, 1, &mine) || epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev)) {
        wi_tcp_arrival_free(a);
        return WEFT_ENOMEM;
    }
    wi_tcp_socket_options(e->settings, fd);
    a->deadline_ns = e->host->now_ns() + e->settings->auth_timeout;
    if (!make_room(e, source)) {
        epoll_ctl(e->epoll, EPOLL_CTL_DEL, fd, NULL);
        wi_tcp_arrival_free(a);
        return WEFT_EBUSY;
    }
    append(&e->half_open, a);
    e->nhalf_open++;
    wi_tcp_advance(e, a);
    return WEFT_SUCCESS;
}

/* A descriptor for the next one that comes: as the store does it, of whoever has waited longest without showing the key. Not of one
 * that came just now, for accept fails for want of descriptors also where nobody else is there. */
static void give_descriptor_back(struct wi_tcp_endpoint *e)
{
    struct wi_tcp_arrival *a = e->half_open;
    while (a && a->hs.replied)
        a = a->next;
    if (a && a->deadline_ns - e->settings->auth_timeout + SILENT_NS <= e->host->now_ns())
        drop_half_open(e, a, "no descriptor is left for others");
}

static void pause_listening(struct wi_tcp_endpoint *e, uint64_t ns)
{
    if (e->listening)
        listen_set(e, 0);
    e->listen_again_ns = e->host->now_ns() + ns;
}

/* Fewer in one go than gives way to them, so that what was accepted first is read before it must go. */
static int burst_of(const struct wi_tcp_endpoint *e)
{
    int64_t burst = (e->settings->half_open / 2 - 1) / (e->me.count ? e->me.count : 1);
    return burst < 1 ? 1 : burst < ACCEPT_BURST ? (int)burst : ACCEPT_BURST;
}

/* Logged once, however often it is tried again, and once when it is over. As in src/net/accept_pause.c: strangers who connect
 * without an end take each descriptor that is given back, so it is over only after a while without a failure. */
static void note_shortage(struct wi_tcp_endpoint *e, int err)
{
    uint64_t now = e->host->now_ns();
    if (e->short_ns && now - e->accept_failed_ns >= ACCEPT_CALM_NS) {
        e->host->log(e->host->impl, WEFT_LOG_WARN, "tcp.accept",
                     "accepting connections again; the last failure was %.1f s after the first",
                     (double)(e->accept_failed_ns - e->short_ns) / 1e9);
        e->short_ns = 0;
    }
    if (!err)
        return;
    if (!e->short_ns) {
        e->short_ns = now;
        e->host->log(e->host->impl, WEFT_LOG_WARN, "tcp.accept",
                     "cannot accept connections: %s; trying again every 100 ms (see ulimit -n)", strerror(err));
    }
    e->accept_failed_ns = now;
}

static void accept_some(struct wi_tcp_endpoint *e)
{
    for (int i = 0; i < e->me.count; i++) {
        for (int burst = burst_of(e); burst > 0; burst--) {
            struct sockaddr_storage sa;
            socklen_t n = sizeof sa;
            if (!has_room(e)) {
                pause_listening(e, ROOM_PAUSE_NS);
                return;
            }
            memset(&sa, 0, sizeof sa);
            int fd = accept4(e->listeners[i], (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0 && errno == EMFILE && wi_tcp_spare_use(e))
                fd = accept4(e->listeners[i], (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (wi_tcp_fd_keep(fd) >= 0) {
                admit(e, fd, source_of(&sa));
                continue;
            }
            if (errno == EAGAIN) /* all are accepted: the kernel looks for a descriptor first */
                note_shortage(e, 0);
            if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
                break;
            note_shortage(e, errno);
            give_descriptor_back(e);
            pause_listening(e, ACCEPT_PAUSE_NS);
            return;
        }
    }
}

static void expire(struct wi_tcp_endpoint *e, uint64_t now)
{
    while (e->half_open && e->half_open->deadline_ns <= now)
        drop_half_open(e, e->half_open, "no authentication in time");
    while (e->joining && e->joining->deadline_ns <= now)
        drop_joining(e, e->joining, "no authentication in time");
    while (e->parked && e->parked->deadline_ns <= now) {
        struct wi_tcp_arrival *a = e->parked;
        e->parked = a->next;
        e->nparked--;
        wi_tcp_arrival_free(a);
    }
    if (!e->listening && e->listen_again_ns <= now) {
        if (has_room(e))
            listen_set(e, 1);
        else
            pause_listening(e, ROOM_PAUSE_NS);
    }
    if (e->lingering)
        wi_tcp_linger_serve(e, now);
    wi_tcp_wake_alarms(e, now);
    wi_tcp_share_reap(e);
}

void wi_tcp_endpoint_arm(struct wi_tcp_endpoint *e)
{
    uint64_t now = e->host->now_ns(), at = wi_tcp_wake_alarms(e, now);
    if (e->joining && e->joining->deadline_ns < at)
        at = e->joining->deadline_ns;
    if (e->half_open && e->half_open->deadline_ns < at)
        at = e->half_open->deadline_ns;
    if (e->parked && e->parked->deadline_ns < at)
        at = e->parked->deadline_ns;
    if (!e->listening && e->listen_again_ns < at)
        at = e->listen_again_ns;
    if (e->lingering && now + e->linger_pause_ns < at)
        at = now + e->linger_pause_ns;
    if (e->stop)
        at = now;
    uint64_t in = at == UINT64_MAX ? 0 : at > now ? at - now : 1;
    struct itimerspec t = {.it_value = {(time_t)(in / 1000000000ull), (long)(in % 1000000000ull)}};
    timerfd_settime(e->timer, 0, &t, NULL);
}

static void kicked(struct wi_tcp_endpoint *e)
{
    uint64_t times;
    if (read(e->kick, &times, sizeof times) < 0)
        return; /* it was read already */
}

void wi_tcp_endpoint_events(struct wi_tcp_endpoint *e, const struct epoll_event *events, int n)
{
    int knock = 0;
    uint64_t ticks;
    /* Arrivals first: accepting may free the oldest of them. */
    for (int i = 0; i < n; i++) {
        if (!events[i].data.ptr)
            knock = 1;
        else if (events[i].data.u64 & WI_TCP_TAG_MUX)
            continue; /* read before the lock was taken */
        else if (events[i].data.ptr == &e->kick)
            kicked(e);
        else if (events[i].data.ptr != &e->timer)
            wi_tcp_advance(e, events[i].data.ptr);
        else if (read(e->timer, &ticks, sizeof ticks) < 0)
            continue; /* set anew since */
    }
    wi_tcp_streams_serve(e);
    if (knock)
        accept_some(e);
    expire(e, e->host->now_ns());
    wi_tcp_spare_fill(e);
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
        deliver(e, group, a);
    }
    wi_tcp_endpoint_arm(e);
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
    gone->reason = aborted ? group->reason : WEFT_SUCCESS;
    while (group->inbox) {
        struct wi_tcp_arrival *a = group->inbox;
        group->inbox = a->next;
        if (!tell_gone(e, a))
            wi_tcp_arrival_free(a);
    }
    wi_tcp_endpoint_arm(e);
    pthread_mutex_unlock(&e->lock);
}
