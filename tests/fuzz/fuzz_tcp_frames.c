/* fuzz_tcp_frames.c: what an authenticated but hostile peer may send: any stream of bytes, with receives and sends posted.
 * Nothing may be read or written out of bounds, hang, or leak.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The first byte chooses: raw bytes as they are, or records of 8 bytes each of which makes one header that passes the
 * decoder, so that the matching behind it is reached. clang -fsanitize=fuzzer,address.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/conform/tcp_host.h"
#include "tests/fuzz/require.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CHANS 2
#define POSTS 3
#define STREAM_MAX 200000

static const size_t posted[POSTS] = {40, 3000, 20000};
static uint32_t key = 1;
static struct weft_host host;
static struct wi_tcp_settings settings;
static void *endpoint;
static unsigned char blob[WEFT_ADDRESS_MAX], stream[STREAM_MAX];
static size_t blob_bytes;

static void start(void)
{
    wt_tcp_host_init(&host, &key);
    wt_tcp_defaults(&settings);
    settings.eager = WI_TCP_EAGER_MIN;
    require(!WT_TCP->open(&host, &settings, &endpoint) && !WT_TCP->address(endpoint, blob, sizeof blob, &blob_bytes));
}

static void sink(struct weft_xfer *x, size_t offset, const void *bytes_in, size_t n)
{
    static unsigned char at[20000];
    require(offset + n <= x->bytes && (n % x->granule == 0 || offset + n == x->bytes));
    memcpy(at + offset, bytes_in, n);
}

static size_t records(const uint8_t *data, size_t bytes)
{
    size_t at = 0;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        struct wi_tcp_frame f = {.type = data[0] % 8 ? WI_TCP_DATA : 1 + data[0] / 8 % 4,
                                 .chan = data[1] % CHANS,
                                 .flags = data[1] / CHANS % 2,
                                 .msg = data[2] % 5,
                                 .total = data[3] % 4 < POSTS ? posted[data[3] % 4] : data[3] * 100u,
                                 .info = {.kind = (uint8_t)(1 + (data[4] == 255))}};
        f.bytes = (uint32_t)(data[5] * 256u + data[6]) % (unsigned)(f.total + 1);
        f.offset = data[7] < 128 || f.total == f.bytes ? (data[7] % 4 ? f.total - f.bytes : 0)
                                                       : data[7] % (f.total - f.bytes + 1);
        if (f.type != WI_TCP_DATA)
            f.bytes = 0, f.offset = 0, f.flags = 0;
        if (at + WI_TCP_HEADER_BYTES + f.bytes > sizeof stream)
            break;
        wi_tcp_frame_encode(&f, stream + at);
        memset(stream + at + WI_TCP_HEADER_BYTES, data[6], f.bytes);
        at += WI_TCP_HEADER_BYTES + f.bytes;
    }
    return at;
}

static struct wi_tcp_peer *link_up(void *group, int fd[2])
{
    struct wi_tcp_group *g = group;
    struct wi_tcp_peer *p;
    require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) && !wi_tcp_peer_get(g, 1, &p));
    p->state = WI_TCP_LINKING;
    p->nconns = 1;
    p->eager = WI_TCP_EAGER_MIN;
    p->conns[0] = wi_tcp_conn_new(p, 0);
    require(p->conns[0] && !wi_tcp_conn_up(p->conns[0], fd[0], NULL, NULL, 0));
    return p;
}

static void post(void *group, struct weft_xfer *x, int n, unsigned char *buf)
{
    for (int i = 0; i < n; i++, buf += 20000) {
        x[i] = (struct weft_xfer){.bytes = posted[i / CHANS % POSTS],
                                  .peer = 1,
                                  .chan = (uint32_t)i % CHANS,
                                  .granule = 8,
                                  .info = {.kind = 1}};
        if (i % 3 == 1)
            x[i].sink = sink;
        else
            x[i].buf = buf;
        WT_TCP->recv(group, &x[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char buf[CHANS * POSTS * 20000];
    struct weft_xfer early[CHANS * 2], late[CHANS * POSTS], s = {.buf = buf, .bytes = 20000, .peer = 1};
    const unsigned char member[2] = {1, 1};
    struct weft_peer_failure failure;
    void *group;
    int fd[2];
    if (!endpoint)
        start();
    if (bytes < 2)
        return 0;
    const void *addresses[2] = {blob, blob};
    const size_t address_bytes[2] = {blob_bytes, blob_bytes};
    size_t n = data[0] % 4 == 0 ? bytes - 2 : records(data + 2, bytes - 2);
    const uint8_t *from = data[0] % 4 == 0 ? data + 2 : stream;
    struct weft_group_config c = {.bytes = sizeof c,
                                  .comm_id = {1, 1},
                                  .rank = 0,
                                  .nranks = 2,
                                  .addresses = addresses,
                                  .address_bytes = address_bytes,
                                  .member = member};
    require(!WT_TCP->group_create(endpoint, &c, &group));
    link_up(group, fd);
    post(group, early, CHANS * (data[0] / 4 % 3), buf);
    WT_TCP->send(group, &s);
    int full = 0; /* a gap that nobody fills stalls the socket for ever */
    for (size_t at = 0; at < n && full < 200;) {
        size_t step = 1 + data[1] * 97u;
        ssize_t w = send(fd[1], from + at, step < n - at ? step : n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w > 0)
            at += (size_t)w;
        if (WT_TCP->progress(group, &failure) < 0 || (w < 0 && errno != EAGAIN))
            break;
        full += w < 0;
    }
    post(group, late, CHANS * POSTS, buf);
    for (int i = 0; i < 4; i++)
        WT_TCP->progress(group, &failure);
    close(fd[1]); /* before destroy, or its socket would linger */
    WT_TCP->group_destroy(group, data[0] & 1);
    return 0;
}
