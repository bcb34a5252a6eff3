/* SPDX-License-Identifier: BSD-3-Clause */
/* What an authenticated but hostile peer may say of itself to the tcp transport: an address of any bytes, which must be refused or
 * be safe to compare, order and print; and a connection to the listener with a claim of any bytes, which must end with the
 * connection refused, kept for later, or given to the group that it names.
 *
 * First byte: 0 the rest is an address, else a claim; its first 16 bytes are made the group's where bit 1 is set, and the
 * listener's process where that is 0. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/conform/tcp_host.h"
#include "tests/fuzz/require.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 3
#define COMM 4711
#define LISTENER_AT 44 /* in a claim */

static uint32_t key = 1;
static struct weft_host host;
static struct wi_tcp_settings settings;
static void *endpoint, *group;
static unsigned char blob[WEFT_ADDRESS_MAX];
static size_t blob_bytes;
static struct wi_tcp_identity me;

static void start(void)
{
    wt_tcp_host_init(&host, &key);
    wt_tcp_defaults(&settings);
    settings.interfaces = "lo";
    settings.park_timeout = 1000000; /* what is kept for a group that never comes must not fill memory */
    require(WT_TCP->open(&host, &settings, &endpoint) == WEFT_SUCCESS);
    require(WT_TCP->address(endpoint, blob, sizeof blob, &blob_bytes) == WEFT_SUCCESS);
    require(wi_tcp_identity_decode(blob, blob_bytes, &me) == 0);
}

static void begin_group(void)
{
    const void *addresses[NRANKS] = {blob, blob, blob};
    const size_t address_bytes[NRANKS] = {blob_bytes, blob_bytes, blob_bytes};
    const unsigned char member[NRANKS] = {1, 1, 0};
    struct weft_group_config c = {.bytes = sizeof c,
                                  .comm_id = {COMM, COMM},
                                  .rank = 0,
                                  .nranks = NRANKS,
                                  .addresses = addresses,
                                  .address_bytes = address_bytes,
                                  .member = member};
    require(WT_TCP->group_create(endpoint, &c, &group) == WEFT_SUCCESS);
}

static void try_address(const uint8_t *data, size_t bytes)
{
    struct wi_tcp_identity id;
    unsigned char again[WEFT_ADDRESS_MAX];
    uint8_t order[WI_TCP_ADDRS_MAX];
    char text[WI_TCP_ADDR_TEXT];
    int rails;

    WT_TCP->reachable(endpoint, data, bytes);
    if (wi_tcp_identity_decode(data, bytes, &id))
        return;
    require(memchr(id.host, 0, sizeof id.host) != NULL && id.count >= 1 && id.count <= WI_TCP_ADDRS_MAX);
    for (int rail = 0; rail < 3; rail++) {
        int n = wi_tcp_identity_order(&me, &id, rail, order, &rails);
        require(n >= 0 && n <= id.count && rails <= n + !n);
        for (int i = 0; i < n; i++) {
            require(order[i] < id.count);
            wi_tcp_addr_text(&id.addrs[order[i]], text);
        }
    }
    require(wi_tcp_identity_reachable(&me, &id) == wi_tcp_identity_reachable(&id, &me));
    require(wi_tcp_identity_encode(&id, again, sizeof again) == bytes);
}

/* What the other side answers, or that it closes: one of the two must come. */
static ssize_t hear(int fd, unsigned char *answer, size_t bytes)
{
    struct weft_peer_failure failure;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (int tries = 0; tries < 5000; tries++) {
        WT_TCP->progress(group, &failure);
        if (poll(&p, 1, 1) > 0)
            return recv(fd, answer, bytes, MSG_WAITALL);
    }
    require(!"an answer, or the end, within 5 s");
    return -1;
}

/* Where the listener closes first, it keeps the two ports for a minute, so that an address has no port left after 28,000
 * connections: each thousand has an address of its own. */
static int connect_anew(const struct sockaddr *to, socklen_t to_bytes)
{
    static uint32_t n;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001 + (n++ / 1000 % 60000 << 8))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    require(fd >= 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    require(bind(fd, (const struct sockaddr *)&from, sizeof from) == 0);
    require(connect(fd, to, to_bytes) == 0);
    return fd;
}

/* The client's side of the tests' handshake (tcp_host.h): number, length, nonce, claim; then the number again. */
static void try_claim(const uint8_t *data, size_t bytes, int ours)
{
    struct weft_peer_failure failure;
    struct wi_tcp_claim known;
    unsigned char hello[WT_HELLO] = {0}, answer[WT_HELLO];
    struct sockaddr_storage to;
    uint32_t n = bytes < WEFT_AUTH_CLAIM_MAX ? (uint32_t)bytes : WEFT_AUTH_CLAIM_MAX;
    int which = 0;

    while (which < me.count && me.addrs[which].family != 4)
        which++;
    require(which < me.count);
    socklen_t to_bytes = wi_tcp_addr_to_sockaddr(&me.addrs[which], &to);
    memcpy(hello, &key, 4);
    memcpy(hello + 4, &n, 4);
    memcpy(hello + 16, data, n);
    if (ours) {
        const uint64_t id[2] = {COMM, COMM};
        memcpy(hello + 16, id, sizeof id);
        if (n < sizeof id)
            n = sizeof id, memcpy(hello + 4, &n, 4);
    }
    if (n == WI_TCP_CLAIM_BYTES && !wi_tcp_get(hello + 16 + LISTENER_AT, 8))
        wi_tcp_put(hello + 16 + LISTENER_AT, me.process, 8);
    int fits = !wi_tcp_claim_decode(hello + 16, n, &known);
    require(!fits || known.count <= WI_TCP_SOCKETS_MAX);
    begin_group();
    int fd = connect_anew((struct sockaddr *)&to, to_bytes);
    require(send(fd, hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
    if (hear(fd, answer, sizeof answer) == sizeof answer && send(fd, &key, sizeof key, MSG_NOSIGNAL) == sizeof key)
        hear(fd, answer, WI_TCP_HEADER_BYTES);
    struct linger reset = {.l_onoff = 1}; /* no port is left in TIME_WAIT */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    WT_TCP->progress(group, &failure);
    WT_TCP->group_destroy(group, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!endpoint)
        start();
    if (bytes < 2)
        return 0;
    if (data[0] & 1)
        try_claim(data + 1, bytes - 1, data[0] & 2);
    else
        try_address(data + 1, bytes - 1);
    return 0;
}
