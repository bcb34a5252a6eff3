/* tcp_refused.c: what a rank is told whose connections over tcp are not accepted.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/conform/tcp_world.h"

#include <netinet/in.h>
#include <unistd.h>

static struct weft_auth *no_memory_to_accept(void *impl, int is_server, const void *claim, size_t claim_bytes)
{
    return is_server ? NULL : wt_tcp_auth_create(impl, is_server, claim, claim_bytes);
}

/* Proves another key than that by which it let the client in. */
static weft_status prove_wrongly(struct weft_auth *a, const void *in, size_t in_bytes, size_t *consumed, void *out,
                                 size_t out_capacity, size_t *out_bytes, void *claim, size_t *claim_bytes)
{
    weft_status st = wt_tcp_auth_step(a, in, in_bytes, consumed, out, out_capacity, out_bytes, claim, claim_bytes);
    if (a->server && *out_bytes)
        *(unsigned char *)out ^= 1;
    return st;
}

/* A listener that never takes the connection, each for another reason. One that closes without a word may lack memory or have
 * another key; it has failed to authenticate only if what it says is wrong, and has the key if it closes later. */
static void never_taken(void)
{
    static const struct {
        weft_status status;
        const char *says[3];
    } want[] = {[1] = {WEFT_EPEER, {"closed during the handshake", "memory", "another job key?"}},
                [2] = {WEFT_EPEER, {"closed during the handshake", "memory"}},
                [3] = {WEFT_EAUTH, {"does not belong to this job", "another job key?"}},
                [4] = {WEFT_EPEER, {"closed before it was taken", "its communicator is long gone"}}};
    struct world w;
    char text[RANKS_MAX][sizeof w.failure[0].text] = {""};
    struct weft_xfer s[RANKS_MAX];
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    world_defaults(&w, 5);
    w.key[1] = 12;
    w.settings[4].park_timeout = 1;
    world_open(&w, 0);
    w.host[2].auth_create = no_memory_to_accept;
    w.host[3].auth_step = prove_wrongly;
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL_FATAL(group_make(&w, i, i == 4 ? 99 : 1), WEFT_SUCCESS);
    for (int i = 1; i < 5; i++) {
        s[i] = xfer(text[0], 8, i, 0, 0);
        CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &s[i]), 0);
    }
    while (w.failures[0] < 4 && wt_tcp_now() < until) {
        int before = w.failures[0];
        turn(&w);
        if (w.failures[0] > before)
            strcpy(text[w.failure[0].peer], w.failure[0].text);
    }
    for (int i = 1; i < 5; i++) {
        CU_ASSERT_EQUAL(s[i].state, want[i].status);
        for (int k = 0; k < 3 && want[i].says[k]; k++)
            CU_ASSERT_PTR_NOT_NULL(strstr(text[i], want[i].says[k]));
        CU_ASSERT_EQUAL(w.failures[i], 0);
    }
    CU_ASSERT_PTR_NULL(strstr(text[4], "key"));
    world_close(&w);
}

static struct weft_auth *no_memory_to_connect(void *impl, int is_server, const void *claim, size_t claim_bytes)
{
    return is_server ? wt_tcp_auth_create(impl, is_server, claim, claim_bytes) : NULL;
}

/* Rank 0 has given rank 1 up before that connects: it is told so, and why, when it does. */
static void given_up_before(void)
{
    struct world w;
    char text[8] = "";
    struct weft_xfer to = xfer(text, sizeof text, 1, 0, 0), from = xfer(text, sizeof text, 0, 0, 0);
    world_defaults(&w, 2);
    world_open(&w, 0);
    w.host[0].auth_create = no_memory_to_connect;
    CU_ASSERT_EQUAL_FATAL(group_make(&w, 0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &to), 0);
    CU_ASSERT(drive(&w, &to, 1));
    CU_ASSERT_EQUAL(to.state, WEFT_ENOMEM);
    CU_ASSERT_EQUAL_FATAL(group_make(&w, 1, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[1], &from), 0);
    CU_ASSERT(drive(&w, &from, 1));
    CU_ASSERT_EQUAL(from.state, WEFT_EPEER);
    CU_ASSERT_EQUAL(w.failures[1], 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(w.failure[1].text, "rank 0 gave up: it has no memory left"));
    world_close(&w);
}

/* A listener whose connections are not accepted. */
static int listener(struct wi_tcp_addr *at)
{
    struct sockaddr_storage sa;
    struct sockaddr_in *in = (struct sockaddr_in *)&sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *at = (struct wi_tcp_addr){.family = 4, .prefix = 8, .ip = {127, 0, 0, 1}};
    socklen_t n = wi_tcp_addr_to_sockaddr(at, &sa);
    CU_ASSERT_FATAL(fd >= 0 && bind(fd, (struct sockaddr *)&sa, n) == 0 && listen(fd, 4) == 0);
    CU_ASSERT_FATAL(getsockname(fd, (struct sockaddr *)&sa, &n) == 0);
    at->port = ntohs(in->sin_port);
    return fd;
}

/* At the first of three addresses of a peer the time for all of them runs out: no other is tried. */
static void silent_addresses(void)
{
    enum { SILENT = 3 };
    struct world w;
    struct wi_tcp_identity id;
    char text[8] = "";
    struct weft_xfer to = xfer(text, sizeof text, 1, 0, 0);
    int fds[SILENT], dialed = 0;
    world_defaults(&w, 2);
    w.settings[0].connect_timeout = 300000000ull;
    world_open(&w, 0);
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w.blob[1], w.blob_bytes[1], &id), 0);
    id.count = SILENT;
    for (int i = 0; i < SILENT; i++)
        fds[i] = listener(&id.addrs[i]);
    w.blob_bytes[1] = wi_tcp_identity_encode(&id, w.blob[1], sizeof w.blob[1]);
    CU_ASSERT_EQUAL_FATAL(group_make(&w, 0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &to), 0);
    CU_ASSERT(drive(&w, &to, 1));
    CU_ASSERT(to.state < 0);
    for (int i = 0; i < SILENT; i++) {
        int fd = accept(fds[i], NULL, NULL);
        dialed += fd >= 0;
        if (fd >= 0)
            close(fd);
        close(fds[i]);
    }
    CU_ASSERT_EQUAL(dialed, 1);
    world_close(&w);
}

static const struct wt_case cases[] = {
    {"the time for a peer is for all its addresses", silent_addresses},
    {"a rank that was given up before it connects is told why", given_up_before},
    {"connections that are never taken", never_taken},
};
WT_UNIT_MAIN("tcp_refused", cases)
