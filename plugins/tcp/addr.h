/* addr.h: which addresses this process can be reached by, and which of a peer's to try first.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_TCP_ADDR_H
#define WI_TCP_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <weft/weft_plugin.h>

#define WI_TCP_ADDRS_MAX 12
#define WI_TCP_ADDR_TEXT 64
#define WI_TCP_HOST_MAX 40

struct wi_tcp_addr {
    uint8_t family;  /* 4 or 6 */
    uint8_t prefix;  /* bits of the subnet */
    uint16_t port;
    uint8_t is_numa_local; /* its adapter is on the NUMA node to which the process is bound */
    uint32_t mbps;   /* link speed, 0 unknown */
    unsigned char ip[16];
};

/* The identity of a process and its addresses: the contents of the address blob. */
struct wi_tcp_identity {
    uint64_t node[2];  /* boot, network namespace and host name, hashed */
    uint64_t process;  /* random */
    uint64_t pids;     /* boot and pid namespace, hashed: where `pid` means something */
    uint64_t started;  /* clock ticks since boot: tells processes with the same pid apart */
    int32_t pid;
    char host[WI_TCP_HOST_MAX];
    int count;
    struct wi_tcp_addr addrs[WI_TCP_ADDRS_MAX];
};

/* The interfaces' addresses that `interfaces` and `family` (0, 4, 6) choose; ports are 0. 0 when nothing fits, else
 * how many; -1: errno. */
int wi_tcp_addrs_find(const char *interfaces, int family, struct wi_tcp_addr *addrs, int capacity);
/* Does an interface pass the list "eth,ib" or "^docker,lo"? `wanted` "" passes everything. */
int wi_tcp_interface_passes(const char *wanted, const char *name);
/* A file of a line or two, ended by NUL. As read(2); -1 also when it cannot be opened. */
ssize_t wi_tcp_read_text(const char *path, char *text, size_t capacity);
/* Is a number in a list such as "0-3,8"? */
int wi_tcp_list_holds(const char *list, int number);
int wi_tcp_addr_is_loopback(const struct wi_tcp_addr *addr);
int wi_tcp_node_identity(uint64_t node[2]);

/* Fill pids, started, pid and host. */
void wi_tcp_process_identity(const struct weft_host *host, struct wi_tcp_identity *id);
/* 'R', 'S', 'T', … as in /proc; 0: it has ended; '?': that cannot be known from here. */
int wi_tcp_process_state(const struct weft_host *host, const struct wi_tcp_identity *peer);
/* "process 4711 on host n2", and what it is doing if that can be known and is worth a word. Returns bytes. */
size_t wi_tcp_process_text(const struct weft_host *host, const struct wi_tcp_identity *peer, char *text,
                           size_t capacity);

size_t wi_tcp_identity_encode(const struct wi_tcp_identity *id, void *buf, size_t capacity); /* 0: no room */
int wi_tcp_identity_decode(const void *buf, size_t bytes, struct wi_tcp_identity *id);       /* 0, or -1: malformed */

/* Symmetric: can these two processes connect, as far as addresses tell? */
int wi_tcp_identity_reachable(const struct wi_tcp_identity *a, const struct wi_tcp_identity *b);
/* Indices of the peer's addresses in the order to try them; `rail` rotates among equally good ones. Returns how many; *nrails, if
 * asked for: how many are equal to the best. */
int wi_tcp_identity_order(const struct wi_tcp_identity *mine, const struct wi_tcp_identity *peer, int rail,
                          uint8_t order[WI_TCP_ADDRS_MAX], int *nrails);

socklen_t wi_tcp_addr_to_sockaddr(const struct wi_tcp_addr *addr, struct sockaddr_storage *sa);
/* "10.0.0.1:4711", "[fe80::1]:4711" */
void wi_tcp_sockaddr_text(const struct sockaddr_storage *sa, char text[WI_TCP_ADDR_TEXT]);
void wi_tcp_addr_text(const struct wi_tcp_addr *addr, char text[WI_TCP_ADDR_TEXT]);

#endif
