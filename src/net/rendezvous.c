/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidate addresses of rank 0's store. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fds.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "net/rendezvous.h"

#define PORT_FIRST 20000u
#define PORT_COUNT 12000u /* ends below 32768, where ports for outgoing connections begin */

void wi_rendezvous_init(struct wi_rendezvous *r)
{
    memset(r, 0, sizeof(*r));
    r->listen_fd = -1;
}

static int has_port(const struct wi_rendezvous *r, uint16_t port)
{
    for (int i = 0; i < r->nports; i++)
        if (r->ports[i] == port)
            return 1;
    return 0;
}

void wi_rendezvous_derive_ports(struct wi_rendezvous *r, const char *text, int want)
{
    for (uint64_t seed = 1; r->nports < want && r->nports < WI_RENDEZVOUS_PORTS; seed++) {
        uint16_t port = (uint16_t)(PORT_FIRST + wi_hash64(text, strlen(text), seed) % PORT_COUNT);
        if (!has_port(r, port))
            r->ports[r->nports++] = port;
    }
}

static weft_status resolve(const char *host, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int err = getaddrinfo(host, NULL, &hints, list);
    if (err)
        return wi_fail(WEFT_ENOTFOUND, "the store's host '%s' cannot be resolved: %s", host, gai_strerror(err));
    return WEFT_SUCCESS;
}

int wi_rendezvous_host_is_loopback(const char *host)
{
    struct in_addr four;
    return !strcasecmp(host, "localhost") || !strcmp(host, "::1") ||
           (inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
}

/* A name may mean a loopback on rank 0's own host but something else elsewhere: rank 0 and its neighbours then use the
 * address that this host has for others. */
static void host_address(const struct wi_rendezvous *r, struct wi_sockaddr *at)
{
    struct wi_sockaddr own;
    if (wi_sockaddr_loopback(at) && !wi_rendezvous_host_is_loopback(r->host) &&
        wi_interface_address(r->interfaces, &own) == WEFT_SUCCESS)
        *at = own;
}

static int host_candidates(const struct wi_rendezvous *r, const struct addrinfo *list, struct wi_sockaddr *at, int nat)
{
    for (int p = 0; p < r->nports; p++) {
        for (const struct addrinfo *a = list; a && nat < WI_RENDEZVOUS_MAX; a = a->ai_next) {
            if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > sizeof(at[nat].ss))
                continue;
            memset(&at[nat], 0, sizeof(at[nat]));
            memcpy(&at[nat].ss, a->ai_addr, a->ai_addrlen);
            at[nat].bytes = a->ai_addrlen;
            host_address(r, &at[nat]);
            wi_sockaddr_set_port(&at[nat++], r->ports[p]);
        }
    }
    return nat;
}

weft_status wi_rendezvous_list(const struct wi_rendezvous *r, struct wi_sockaddr *at, int *nat)
{
    int n = 0;
    for (int i = 0; r->local[0] && i < WI_RENDEZVOUS_LOCAL; i++)
        wi_sockaddr_local(&at[n++], r->local, i);
    if (r->local[0])
        n += wi_rendezvous_files(r, 0, at + n);
    for (int i = 0; i < r->nfixed; i++)
        at[n++] = r->fixed[i];
    if (r->host[0]) {
        struct addrinfo *list;
        WI_TRY(resolve(r->host, &list));
        n = host_candidates(r, list, at, n);
        freeaddrinfo(list);
    }
    *nat = n;
    return WEFT_SUCCESS;
}

/* The parent process has bound the socket, so that no other process can take the port; it listens while ranks join. */
static weft_status listen_inherited(int given_fd, uint64_t deadline_ns, int *fd)
{
    struct wi_sockaddr at = {.bytes = sizeof(at.ss)};
    int type = 0;
    char text[160];
    socklen_t bytes = sizeof(type);
    if (getsockopt(given_fd, SOL_SOCKET, SO_TYPE, &type, &bytes) || type != SOCK_STREAM ||
        getsockname(given_fd, (struct sockaddr *)&at.ss, &at.bytes))
        return wi_fail(WEFT_ECONFIG, "WEFT_STORE_FD: descriptor %d is not a stream socket", given_fd);
    if (at.ss.ss_family != AF_INET && at.ss.ss_family != AF_INET6)
        return wi_fail(
            WEFT_ECONFIG,
            "WEFT_STORE_FD: descriptor %d is no TCP socket (a local one is not found by the other ranks): give one "
            "that is bound to WEFT_STORE_PORT",
            given_fd);
    if (!wi_sockaddr_port(&at))
        return wi_fail(
            WEFT_ECONFIG,
            "WEFT_STORE_FD: descriptor %d has no port (one that the kernel chose is given back when the first "
            "communicator is made: bind it by number)",
            given_fd);
    if (wi_socket_listen_again(given_fd, deadline_ns))
        return wi_fail_errno(errno, "WEFT_STORE_FD: listen at descriptor %d", given_fd);
    *fd = wi_fd_keep(fcntl(given_fd, F_DUPFD_CLOEXEC, 3));
    if (*fd < 0)
        return wi_fail_errno(errno, "duplicate the store's listening socket");
    fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) | O_NONBLOCK);
    wi_socket_keep_given(given_fd);
    fcntl(given_fd, F_SETFD, FD_CLOEXEC); /* for this process's communicators, not for what it starts */
    wi_sockaddr_text(&at, text, sizeof(text));
    wi_log(WEFT_LOG_INFO, "bootstrap.listen", "start-up store at %s, by WEFT_STORE_FD", text);
    return WEFT_SUCCESS;
}

/* The first of `at` that can be had. A taken name or port, and an address that is not this host's, leave the others; any
 * error of a local socket too (some sandboxes have no abstract names). Returns a descriptor, or -1 with the most telling
 * error. */
static int listen_first(const struct wi_sockaddr *at, int nat, struct wi_sockaddr *bound)
{
    int err = 0;
    for (int i = 0; i < nat; i++) {
        int fd = wi_rendezvous_listen_file(&at[i]);
        if (fd >= 0) {
            *bound = at[i];
            return fd;
        }
        if (!err || err == EADDRNOTAVAIL)
            err = errno;
        if (at[i].ss.ss_family != AF_UNIX && errno != EADDRINUSE && errno != EADDRNOTAVAIL)
            break;
    }
    errno = err ? err : EADDRINUSE;
    return -1;
}

static weft_status listen_failed(const struct wi_rendezvous *r, const struct wi_sockaddr *at, int nat, int err)
{
    char text[200], first[80] = "no address";
    wi_rendezvous_text(r, text, sizeof(text));
    if (nat)
        wi_sockaddr_text(&at[nat - 1], first, sizeof(first));
    if (err == EADDRNOTAVAIL)
        return wi_fail(WEFT_ECONFIG,
                       "rank 0 cannot listen at '%s' (%s): that is no address of this host. Name the host of rank 0 "
                       "(MASTER_ADDR, WEFT_STORE_ADDR), or, if others reach it by that address all the same, the "
                       "interface to listen on (WEFT_STORE_INTERFACES)",
                       r->host, first);
    if (err == EADDRINUSE)
        return wi_fail(WEFT_EBUSY, "rank 0 cannot listen: %s: all in use%s", text,
                       r->local[0] ? ", and no directory is this user's alone; set XDG_RUNTIME_DIR to one" : "");
    return wi_fail_errno(err, "rank 0 cannot listen at %s", text);
}

weft_status wi_rendezvous_listen(const struct wi_rendezvous *r, uint64_t deadline_ns, int *fd,
                                 struct wi_sockaddr *bound)
{
    struct wi_sockaddr at[WI_RENDEZVOUS_MAX], own;
    int nat;
    memset(bound, 0, sizeof(*bound));
    if (r->listen_fd >= 0)
        return listen_inherited(r->listen_fd, deadline_ns, fd);
    WI_TRY(wi_rendezvous_list(r, at, &nat));
    if (r->interfaces && r->host[0])
        WI_TRY(wi_interface_address(r->interfaces, &own));
    for (int i = 0; i < nat && r->interfaces && r->host[0]; i++)
        if (at[i].ss.ss_family != AF_UNIX) {
            wi_sockaddr_set_port(&own, wi_sockaddr_port(&at[i]));
            at[i] = own;
        }
    *fd = listen_first(at, nat, bound);
    if (*fd < 0 && r->local[0]) { /* weft's own directories are made only when they are needed */
        nat = wi_rendezvous_files(r, 1, at);
        *fd = listen_first(at, nat, bound);
    }
    return *fd < 0 ? listen_failed(r, at, nat, errno) : WEFT_SUCCESS;
}

void wi_rendezvous_text(const struct wi_rendezvous *r, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    if (r->local[0])
        used = (size_t)snprintf(text, capacity, "local socket @%s-0", r->local);
    for (int i = 0; i < r->nfixed && used < capacity; i++) {
        char one[80];
        wi_sockaddr_text(&r->fixed[i], one, sizeof(one));
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", one);
    }
    if (!r->host[0] || used >= capacity)
        return;
    used += (size_t)snprintf(text + used, capacity - used, "%s%.64s port%s", used ? ", " : "", r->host,
                             r->nports == 1 ? "" : "s");
    for (int i = 0; i < r->nports && i < 3 && used < capacity; i++)
        used += i == 0 && r->port_named
                    ? (size_t)snprintf(text + used, capacity - used, " %u (%s)", r->ports[i], r->port_named)
                    : (size_t)snprintf(text + used, capacity - used, "%s %u", i ? "," : "", r->ports[i]);
    if (r->nports > 3 && used < capacity)
        used += (size_t)snprintf(text + used, capacity - used, ", ... (%d)", r->nports);
    if (r->nports > (r->port_named != NULL) && used < capacity)
        snprintf(text + used, capacity - used, " derived from the job's name%s",
                 r->port_named ? "" : " (WEFT_STORE_PORT names one)");
}
