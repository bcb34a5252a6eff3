/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket helpers of start-up. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/status.h"
#include "net/rendezvous.h"

#define LISTEN_BACKLOG 4096
#define LISTEN_AGAIN_MS 10
#define CHOSEN_TRIES 16

void wi_sockaddr_set_port(struct wi_sockaddr *address, uint16_t port)
{
    if (address->ss.ss_family == AF_INET)
        ((struct sockaddr_in *)&address->ss)->sin_port = htons(port);
    else if (address->ss.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->ss)->sin6_port = htons(port);
}

uint16_t wi_sockaddr_port(const struct wi_sockaddr *address)
{
    if (address->ss.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&address->ss)->sin_port);
    if (address->ss.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address->ss)->sin6_port);
    return 0;
}

int wi_sockaddr_loopback(const struct wi_sockaddr *address)
{
    if (address->ss.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&address->ss)->sin_addr.s_addr) >> 24 == 127;
    if (address->ss.ss_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)&address->ss)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return address->ss.ss_family == AF_UNIX;
}

void wi_sockaddr_text(const struct wi_sockaddr *address, char *text, size_t capacity)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss.ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)&address->ss;
        if (un->sun_path[0])
            snprintf(text, capacity, "local socket %.*s", (int)sizeof(un->sun_path), un->sun_path);
        else
            snprintf(text, capacity, "local socket @%.60s", un->sun_path + 1);
    } else if (address->ss.ss_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)&address->ss)->sin_addr, host, sizeof(host));
        snprintf(text, capacity, "%s:%u", host, wi_sockaddr_port(address));
    } else {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&address->ss)->sin6_addr, host, sizeof(host));
        snprintf(text, capacity, "[%s]:%u", host, wi_sockaddr_port(address));
    }
}

static int is_listed(const char *interfaces, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = interfaces; *at;) {
        size_t n = strcspn(at, ",");
        if (n == bytes && !strncmp(at, name, n))
            return 1;
        at += n + (at[n] == ',');
    }
    return 0;
}

/* IPv6 link-local addresses mean nothing on another host. */
static int usable(const struct ifaddrs *i, const char *interfaces)
{
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
        return 0;
    if (i->ifa_addr->sa_family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
        return 0;
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)
        return 0;
    return interfaces ? is_listed(interfaces, i->ifa_name) : !(i->ifa_flags & IFF_LOOPBACK);
}

/* What the kernel would send from to far away; nothing is sent. */
static int address_by_route(int family, const void *far, socklen_t far_bytes, struct wi_sockaddr *address)
{
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    memset(address, 0, sizeof(*address));
    address->bytes = sizeof(address->ss);
    int ok = !connect(fd, far, far_bytes) && !getsockname(fd, (struct sockaddr *)&address->ss, &address->bytes) &&
             !wi_sockaddr_loopback(address);
    close(fd);
    wi_sockaddr_set_port(address, 0);
    return ok ? 0 : -1;
}

static int default_address(struct wi_sockaddr *address)
{
    struct sockaddr_in far4 = {.sin_family = AF_INET, .sin_port = htons(9)}; /* addresses for documentation */
    struct sockaddr_in6 far6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    inet_pton(AF_INET, "192.0.2.1", &far4.sin_addr);
    inet_pton(AF_INET6, "2001:db8::1", &far6.sin6_addr);
    return address_by_route(AF_INET, &far4, sizeof(far4), address) &&
                   address_by_route(AF_INET6, &far6, sizeof(far6), address)
               ? -1
               : 0;
}

weft_status wi_interface_address(const char *interfaces, struct wi_sockaddr *address)
{
    struct ifaddrs *list, *best = NULL;
    if (!interfaces && !default_address(address))
        return WEFT_SUCCESS;
    if (getifaddrs(&list))
        return wi_fail_errno(errno, "list the network interfaces");
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!usable(i, interfaces))
            continue;
        if (!best || (best->ifa_addr->sa_family == AF_INET6 && i->ifa_addr->sa_family == AF_INET))
            best = i;
    }
    if (best) {
        memset(address, 0, sizeof(*address));
        address->bytes =
            best->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&address->ss, best->ifa_addr, address->bytes);
    }
    freeifaddrs(list);
    if (best)
        return WEFT_SUCCESS;
    if (interfaces)
        return wi_fail(WEFT_ECONFIG, "WEFT_STORE_INTERFACES: none of '%s' is up with an address", interfaces);
    return wi_fail(WEFT_ENOTFOUND, "no network interface but the loopback is up");
}

static void set_nodelay(int fd, int family)
{
    int one = 1;
    if (family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void set_reuse(int fd, int on)
{
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

/* Keep the port, listening or not. No other process can bind it without SO_REUSEADDR at both ends; SO_REUSEPORT admits sockets of
 * the same user that have it, too: what is left of this one's connections, when it listens again. It is never set before bind(2),
 * so two jobs of one user do not get the same port. */
static void hold_port(int fd)
{
    int one = 1;
    set_reuse(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
}

static int close_failed(int fd)
{
    int err = errno;
    wi_fd_close(fd);
    errno = err;
    return -1;
}

static int socket_bind(const struct wi_sockaddr *address)
{
    int zero = 0, family = address->ss.ss_family;
    int fd = wi_fd_keep(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    if (family != AF_UNIX)
        set_reuse(fd, 1);
    if (family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&address->ss)->sin6_addr))
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    return bind(fd, (const struct sockaddr *)&address->ss, address->bytes) ? close_failed(fd) : fd;
}

/* A port that the kernel chose is given back when its socket stops listening; one that was asked for is kept. So the one that
 * the kernel chose is asked for. */
static int socket_bind_chosen(const struct wi_sockaddr *address)
{
    struct wi_sockaddr bound = {.bytes = sizeof(bound.ss)};
    int fd = socket_bind(address);
    if (fd < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&bound.ss, &bound.bytes))
        return close_failed(fd);
    int kept = socket_bind(&bound), err = errno;
    wi_fd_close(fd);
    errno = err;
    if (kept >= 0)
        set_reuse(kept, 0); /* listen fails if another process has bound it meanwhile */
    return kept;
}

static int socket_listen(const struct wi_sockaddr *address)
{
    int chosen = address->ss.ss_family != AF_UNIX && !wi_sockaddr_port(address);
    for (int tries = 0;; tries++) {
        int fd = chosen ? socket_bind_chosen(address) : socket_bind(address);
        if (fd < 0)
            return -1;
        if (!listen(fd, LISTEN_BACKLOG)) {
            if (address->ss.ss_family != AF_UNIX)
                hold_port(fd);
            return fd;
        }
        close_failed(fd);
        if (errno != EADDRINUSE || !chosen || tries >= CHOSEN_TRIES)
            return -1;
    }
}

int wi_socket_listen(const struct wi_sockaddr *address, const char *what)
{
    struct wi_sockaddr bound = {.bytes = sizeof(bound.ss)};
    char text[160];
    int fd = socket_listen(address);
    if (fd < 0)
        return -1;
    getsockname(fd, (struct sockaddr *)&bound.ss, &bound.bytes);
    wi_sockaddr_text(&bound, text, sizeof(text));
    wi_log(WEFT_LOG_INFO, "bootstrap.listen", "%s at %s", what, text);
    return fd;
}

/* The socket of one that connects to a local socket has no name: its process tells more. */
void wi_socket_peer_text(int fd, char *text, size_t capacity)
{
    struct wi_sockaddr from = {.bytes = sizeof(from.ss)};
    struct ucred who;
    socklen_t who_bytes = sizeof(who);

    snprintf(text, capacity, "somewhere");
    if (getpeername(fd, (struct sockaddr *)&from.ss, &from.bytes))
        return;
    if (from.ss.ss_family != AF_UNIX)
        wi_sockaddr_text(&from, text, capacity);
    else if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes) && who.pid > 0)
        snprintf(text, capacity, "process %d of user %u on this host", (int)who.pid, (unsigned)who.uid);
    else
        snprintf(text, capacity, "a process on this host");
}

static int is_local(int fd)
{
    int domain = 0;
    socklen_t bytes = sizeof(domain);
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) && domain == AF_UNIX;
}

/* Connections of an earlier listener may still be closing, and some have no owner any more that the kernel could compare. */
static int listen_held(int fd)
{
    hold_port(fd);
    if (!listen(fd, LISTEN_BACKLOG))
        return 0;
    if (errno != EADDRINUSE)
        return -1;
    set_reuse(fd, 1);
    int failed = listen(fd, LISTEN_BACKLOG), err = errno;
    set_reuse(fd, 0);
    errno = err;
    return failed;
}

int wi_socket_listen_again(int fd, uint64_t deadline_ns)
{
    if (is_local(fd))
        return listen(fd, LISTEN_BACKLOG);
    while (listen_held(fd)) {
        if (errno != EADDRINUSE || wi_now_ns() >= deadline_ns)
            return -1;
        poll(NULL, 0, LISTEN_AGAIN_MS);
    }
    return 0;
}

void wi_socket_listen_no_more(int fd)
{
    if (!is_local(fd)) {
        hold_port(fd);
        shutdown(fd, SHUT_RDWR);
        return;
    }
    listen(fd, 0);
    for (int i = 0, queued; i <= LISTEN_BACKLOG && (queued = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++)
        close(queued);
}

int wi_socket_connect(const struct wi_sockaddr *address, int *pending)
{
    int fd = wi_fd_keep(socket(address->ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    set_nodelay(fd, address->ss.ss_family);
    *pending = 0;
    if (!connect(fd, (const struct sockaddr *)&address->ss, address->bytes))
        return fd;
    *pending = errno == EINPROGRESS;
    if (*pending)
        return fd;
    return close_failed(fd);
}

int wi_socket_accept(int listen_fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    int fd = wi_fd_keep(accept4(listen_fd, (struct sockaddr *)&peer, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd >= 0)
        set_nodelay(fd, peer.ss_family);
    if (fd >= 0 && peer.ss_family != AF_UNIX)
        set_reuse(fd, 1); /* what is left of it must not keep the next job from the port */
    return fd;
}

int wi_poll_ms(uint64_t deadline_ns)
{
    uint64_t now = wi_now_ns();
    if (deadline_ns == UINT64_MAX)
        return -1;
    if (deadline_ns <= now)
        return 0;
    uint64_t ms = (deadline_ns - now + 999999) / 1000000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int wi_socket_poll(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int ready = poll(&p, 1, wi_poll_ms(deadline_ns));
        if (ready > 0)
            return p.revents;
        if (ready == 0 && wi_now_ns() >= deadline_ns)
            return 0;
        if (ready < 0 && errno != EINTR)
            return 0;
    }
}
