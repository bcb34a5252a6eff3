/* endpoint.c: open and close the transport for a process; its listeners and its address.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define CLOSE_NS 2000000000ull
#define BACKLOG 1024

static void set_int(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value); /* each of these is a wish */
}

static int seconds(uint64_t ns)
{
    uint64_t s = (ns + 999999999ull) / 1000000000ull;
    return s < 1 ? 1 : s > 32767 ? 32767 : (int)s;
}

static void set_buffers(const struct wi_tcp_settings *s, int fd)
{
    if (s->sndbuf)
        set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)s->sndbuf);
    if (s->rcvbuf)
        set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)s->rcvbuf);
}

void wi_tcp_socket_options(const struct wi_tcp_settings *s, int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_buffers(s, fd);
    if (s->unsent)
        set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)s->unsent);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(s->keepalive_idle));
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds(s->keepalive_interval));
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)s->keepalive_count);
    if (s->user_timeout != UINT64_MAX && s->user_timeout / 1000000 < INT32_MAX)
        set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(s->user_timeout / 1000000));
}

/* "", "0": any; "5000": that one; "5000-5100": the first that is free. */
static int parse_ports(const char *text, long *low, long *high)
{
    char *end;
    *low = *high = 0;
    if (!*text)
        return 0;
    *low = *high = strtol(text, &end, 10);
    if (end == text)
        return -1;
    if (*end == '-') {
        const char *second = end + 1;
        *high = strtol(second, &end, 10);
        if (end == second)
            return -1;
    }
    return *end || *low < 0 || *high > 65535 || *low > *high || (*low == 0 && *high) ? -1 : 0;
}

static int listen_at(const struct wi_tcp_settings *s, struct wi_tcp_addr *a, long low, long high)
{
    struct sockaddr_storage sa;
    int fd = wi_tcp_fd_keep(socket(a->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (a->family == 6)
        set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (low)
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_buffers(s, fd); /* before listen: the window scale is chosen from them */
    for (long port = low; port <= high; port++) {
        a->port = (uint16_t)port;
        socklen_t n = wi_tcp_addr_to_sockaddr(a, &sa);
        if (bind(fd, (struct sockaddr *)&sa, n) || listen(fd, BACKLOG))
            continue;
        n = sizeof sa;
        if (getsockname(fd, (struct sockaddr *)&sa, &n))
            break;
        a->port = ntohs(a->family == 4 ? ((struct sockaddr_in *)(void *)&sa)->sin_port
                                       : ((struct sockaddr_in6 *)(void *)&sa)->sin6_port);
        return fd;
    }
    int err = errno;
    wi_tcp_fd_close(fd);
    errno = err;
    return -1;
}

static weft_status open_listeners(struct wi_tcp_endpoint *e)
{
    const struct wi_tcp_settings *s = e->settings;
    const struct weft_host *h = e->host;
    struct wi_tcp_addr found[WI_TCP_ADDRS_MAX];
    long low, high;
    int err = 0;
    if (parse_ports(s->port, &low, &high)) {
        h->explain(h->impl, WEFT_ECONFIG, "WEFT_TCP_PORT=%s: not a port or a range like 5000-5100", s->port);
        return WEFT_ECONFIG;
    }
    int n = wi_tcp_addrs_find(s->interfaces, e->family, found, WI_TCP_ADDRS_MAX);
    for (int i = 0; i < n; i++) {
        int fd = listen_at(s, &found[i], low, high);
        if (fd < 0) {
            err = errno;
            continue;
        }
        e->listeners[e->me.count] = fd;
        e->me.addrs[e->me.count++] = found[i];
    }
    if (e->me.count)
        return WEFT_SUCCESS;
    if (err) {
        weft_status st = err == EMFILE || err == ENFILE ? WEFT_ENOFILES : low ? WEFT_ECONFIG : WEFT_ESYS;
        h->explain(h->impl, st, "tcp cannot listen on any of %d addresses (ports %ld-%ld): %s", n, low, high,
                   strerror(err));
        return st;
    }
    if (!s->interfaces[0])
        return WEFT_ENOTSUP; /* no network at all */
    h->explain(h->impl, WEFT_ECONFIG, "WEFT_TCP_INTERFACES=%s: no interface that is up has a usable address",
               s->interfaces);
    return WEFT_ECONFIG;
}

static weft_status open_events(struct wi_tcp_endpoint *e)
{
    e->epoll = wi_tcp_fd_keep(epoll_create1(EPOLL_CLOEXEC));
    e->timer = wi_tcp_fd_keep(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    e->kick = wi_tcp_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &e->timer},
                       kick = {.events = EPOLLIN, .data.ptr = &e->kick};
    int bad = e->epoll < 0 || e->timer < 0 || e->kick < 0 || epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->timer, &ev) ||
              epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->kick, &kick);
    for (int i = 0; i < e->me.count && !bad; i++) {
        struct epoll_event on = {.events = EPOLLIN};
        bad = epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->listeners[i], &on);
    }
    if (bad) {
        weft_status st = errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_ESYS;
        e->host->explain(e->host->impl, st, "tcp cannot watch its listeners: %s", strerror(errno));
        return st;
    }
    e->listening = 1;
    wi_tcp_spare_fill(e);
    return WEFT_SUCCESS;
}

static weft_status check_settings(const struct weft_host *h, const struct wi_tcp_settings *s, int *family,
                                  enum wi_tcp_share *share)
{
    if (strcmp(s->family, "auto") == 0 || strcmp(s->family, "") == 0) {
        *family = 0;
    } else if (strcmp(s->family, "4") == 0 || strcmp(s->family, "6") == 0) {
        *family = s->family[0] - '0';
    } else {
        h->explain(h->impl, WEFT_ECONFIG, "WEFT_TCP_FAMILY=%s: must be auto, 4 or 6", s->family);
        return WEFT_ECONFIG;
    }
    *share = strcmp(s->share, "always") == 0  ? WI_TCP_SHARE_ALWAYS
             : strcmp(s->share, "never") == 0 ? WI_TCP_SHARE_NEVER
                                              : WI_TCP_SHARE_AUTO;
    if (*share == WI_TCP_SHARE_AUTO && s->share[0] && strcmp(s->share, "auto")) {
        h->explain(h->impl, WEFT_ECONFIG, "WEFT_TCP_SHARE=%s: must be auto, always or never", s->share);
        return WEFT_ECONFIG;
    }
    return WEFT_SUCCESS;
}

weft_status wi_tcp_endpoint_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    int family;
    enum wi_tcp_share share;
    weft_status st = check_settings(host, settings, &family, &share);
    if (st)
        return st;
    struct wi_tcp_endpoint *e = calloc(1, sizeof *e);
    if (!e)
        return WEFT_ENOMEM;
    e->host = host;
    e->settings = settings;
    e->family = family;
    e->share = share;
    e->epoll = e->timer = e->kick = e->wake = e->spare = -1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->wake_lock, NULL);
    wi_tcp_fds_init(host);
    wi_tcp_node_identity(e->me.node);
    wi_tcp_process_identity(host, &e->me);
    if (getrandom(&e->me.process, sizeof e->me.process, 0) != (ssize_t)sizeof e->me.process) {
        host->explain(host->impl, WEFT_ESYS, "tcp: getrandom: %s", strerror(errno));
        st = WEFT_ESYS;
    }
    if (!st)
        st = open_listeners(e);
    if (!st)
        st = open_events(e);
    if (st) {
        wi_tcp_endpoint_close(e);
        return st;
    }
    for (int i = 0; i < e->me.count; i++) {
        char text[WI_TCP_ADDR_TEXT];
        wi_tcp_addr_text(&e->me.addrs[i], text);
        host->log(host->impl, WEFT_LOG_INFO, "tcp.listen", "listening on %s", text);
    }
    *endpoint = e;
    return WEFT_SUCCESS;
}

void wi_tcp_endpoint_close(void *endpoint)
{
    struct wi_tcp_endpoint *e = endpoint;
    wi_tcp_serve_stop(e);
    for (int i = 0; i < e->me.count; i++)
        wi_tcp_fd_close(e->listeners[i]);
    while (e->half_open) {
        struct wi_tcp_arrival *a = e->half_open;
        e->half_open = a->next;
        wi_tcp_arrival_free(a);
    }
    while (e->joining) {
        struct wi_tcp_arrival *a = e->joining;
        e->joining = a->next;
        wi_tcp_arrival_free(a);
    }
    while (e->parked) {
        struct wi_tcp_arrival *a = e->parked;
        e->parked = a->next;
        wi_tcp_arrival_free(a);
    }
    uint64_t deadline_ns = e->host->now_ns() + CLOSE_NS;
    wi_tcp_share_close(e, deadline_ns);
    wi_tcp_linger_finish(e, deadline_ns);
    wi_tcp_spare_use(e);
    if (e->epoll >= 0)
        wi_tcp_fd_close(e->epoll);
    if (e->timer >= 0)
        wi_tcp_fd_close(e->timer);
    if (e->kick >= 0)
        wi_tcp_fd_close(e->kick);
    if (e->wake >= 0)
        wi_tcp_fd_close(e->wake);
    pthread_mutex_destroy(&e->wake_lock);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

weft_status wi_tcp_endpoint_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    struct wi_tcp_endpoint *e = endpoint;
    *bytes = wi_tcp_identity_encode(&e->me, buf, capacity);
    return *bytes ? WEFT_SUCCESS : WEFT_ENOSPC;
}

int wi_tcp_endpoint_reachable(void *endpoint, const void *address, size_t bytes)
{
    struct wi_tcp_endpoint *e = endpoint;
    struct wi_tcp_identity peer;
    return wi_tcp_identity_decode(address, bytes, &peer) == 0 && wi_tcp_identity_reachable(&e->me, &peer);
}
