/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks meet: the addresses at which rank 0's store may listen, and the few socket helpers that start-up needs. */
#ifndef WI_NET_RENDEZVOUS_H
#define WI_NET_RENDEZVOUS_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <weft/weft.h>

#define WI_RENDEZVOUS_PORTS 17
#define WI_RENDEZVOUS_LOCAL 4  /* abstract socket names tried */
#define WI_RENDEZVOUS_DIRS 4   /* then sockets in directories of this user */
#define WI_RENDEZVOUS_FIXED 4
#define WI_RENDEZVOUS_MAX 64

struct wi_sockaddr {
    struct sockaddr_storage ss;
    socklen_t bytes;
};

/* Candidates are tried in order: local sockets of this host, fixed addresses, then host x ports. The server takes the
 * first that is free, never more than was named; clients walk the list until a handshake succeeds. */
struct wi_rendezvous {
    char local[64];            /* abstract name without its number; "" none */
    struct wi_sockaddr fixed[WI_RENDEZVOUS_FIXED];
    int nfixed;
    char host[256];            /* "" none */
    uint16_t ports[WI_RENDEZVOUS_PORTS];
    int nports;
    const char *port_named;    /* the variable that the first port is from; NULL: all are derived */
    int listen_fd;             /* borrowed listening socket of rank 0, -1 none */
    const char *interfaces;    /* bind to the first address of these ("eth0,ib0"); NULL: the host's own */
};

void wi_rendezvous_init(struct wi_rendezvous *r);
/* Ports below the ephemeral range made from `text`, appended until there are `want` of them. */
void wi_rendezvous_derive_ports(struct wi_rendezvous *r, const char *text, int want);
void wi_rendezvous_derive_local(struct wi_rendezvous *r, const char *text);
/* The candidates in directories that only this user can reach; `create`: make weft's own. Returns how many. */
int wi_rendezvous_files(const struct wi_rendezvous *r, int create, struct wi_sockaddr *at);
/* All candidates; names are resolved now. WEFT_ENOTFOUND when the host's name does not resolve (yet). A name that means a
 * loopback here but is none literally (Debian's 127.0.1.1) stands for this host's own address. */
weft_status wi_rendezvous_list(const struct wi_rendezvous *r, struct wi_sockaddr *at, int *nat);
/* Bind and listen on the first free candidate; `*fd` is the caller's, to be ended by wi_rendezvous_close. `bound` is where,
 * 0 bytes for an inherited socket, which need not listen yet. WEFT_EBUSY: all are taken; WEFT_ECONFIG: the host is not this one. */
weft_status wi_rendezvous_listen(const struct wi_rendezvous *r, uint64_t deadline_ns, int *fd, struct wi_sockaddr *bound);
void wi_rendezvous_close(int listen_fd); /* stops listening on every duplicate of the descriptor, too */
int wi_rendezvous_listen_file(const struct wi_sockaddr *at); /* also where a dead process left its socket */
/* "localhost", "127...." or "::1": all ranks are on this host. */
int wi_rendezvous_host_is_loopback(const char *host);
/* "node3 ports 29500 (MASTER_PORT), 20417, 20112, ... (17) derived from the job's name" */
void wi_rendezvous_text(const struct wi_rendezvous *r, char *text, size_t capacity);

/* Address of the first listed interface that is up; NULL: of the one that leads to other networks, else of the first that is
 * up and not a loopback. */
weft_status wi_interface_address(const char *interfaces, struct wi_sockaddr *address);
void wi_sockaddr_text(const struct wi_sockaddr *address, char *text, size_t capacity);
/* Who is at the other end of a connection: an address, or the process that connected to a local socket. */
void wi_socket_peer_text(int fd, char *text, size_t capacity);
void wi_sockaddr_set_port(struct wi_sockaddr *address, uint16_t port);
uint16_t wi_sockaddr_port(const struct wi_sockaddr *address);
int wi_sockaddr_loopback(const struct wi_sockaddr *address); /* or a local socket */
void wi_sockaddr_local(struct wi_sockaddr *address, const char *name, int number);

/* socket_fork.c: a forked child closes this descriptor, which the process was given, if it is still the same socket then. One at
 * most. */
void wi_socket_keep_given(int fd);
/* Of start-up: a thread may hold it for long, and a child that was forked meanwhile has it held for ever. WEFT_ETIMEDOUT: `what`
 * could not be done for that. */
weft_status wi_start_lock(pthread_mutex_t *lock, const char *what, uint64_t deadline_ns);

/* Non-blocking, close-on-exec, closed in forked children (base/fds.h). Returns a descriptor or -1 (errno). */
int wi_socket_listen(const struct wi_sockaddr *address, const char *what); /* `what` listens: logged with the address */
/* Stop listening without giving the name or port away, and listen again. A local socket cannot stop: one connection at most waits
 * there for the next time. */
void wi_socket_listen_no_more(int fd); /* non-blocking */
int wi_socket_listen_again(int fd, uint64_t deadline_ns); /* 0 or -1 (errno): EADDRINUSE until the deadline */
/* Start to connect; *pending tells whether it is still under way. */
int wi_socket_connect(const struct wi_sockaddr *address, int *pending);
int wi_socket_accept(int listen_fd);
/* Wait for `events` until the deadline. Returns revents, 0 on time-out. */
int wi_socket_poll(int fd, short events, uint64_t deadline_ns);
int wi_poll_ms(uint64_t deadline_ns); /* what is left, for poll(2), rounded up; -1 never */

#endif
