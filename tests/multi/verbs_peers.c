/* verbs_peers.c: what a peer costs that a rank is connected with, when nothing goes on.
 *     verbs_peers DEVICE PEERS
 * One process is a rank of so many. Each of its connections is to itself: the side channel of this program answers with what was
 * said. Prints the bytes for each peer, of the process and of the whole machine (which has the kernel's queues, too).
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/process.h"
#include "net/channel.h"
#include "net/transports.h"
#include "plugins/verbs/verbs.h"

extern const struct weft_plugin weft_plugin;

static int npeers;
static uint32_t open_requests;
static struct request {
    int open, is_hello;
    struct vb_hello hello;
} * requests; /* [npeers + 1] */

/* ---- The host ---- */

static void explain(void *impl, weft_status st, const char *format, ...)
{
    va_list ap;

    (void)impl;
    va_start(ap, format);
    fprintf(stderr, "%s: ", weft_status_name(st));
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static void no_log(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
{
    (void)impl, (void)level, (void)event, (void)format;
}

static uint64_t now(void)
{
    return wi_now_ns();
}

static weft_status side_request(void *side, int peer, const void *data, size_t bytes)
{
    struct request *r = &requests[peer];

    (void)side;
    if (r->open)
        return WEFT_EBUSY;
    r->open = 1;
    r->is_hello = bytes == sizeof r->hello;
    if (r->is_hello) {
        memcpy(&r->hello, data, bytes);
        open_requests++;
    }
    return WEFT_SUCCESS;
}

/* Gets and puts go to the target of the same peer. */
static weft_status side_response(void *side, int peer, void *response, size_t capacity, size_t *bytes, char *why)
{
    struct request *r = &requests[peer];

    (void)side, (void)why;
    if (!r->is_hello || capacity < sizeof r->hello)
        return WEFT_INPROGRESS;
    r->open = r->is_hello = 0;
    open_requests--;
    r->hello.rank = (uint32_t)peer;
    memcpy(response, &r->hello, sizeof r->hello);
    *bytes = sizeof r->hello;
    return WEFT_SUCCESS;
}

static int side_requested(void *side, int *peer, void *request, size_t capacity, size_t *bytes)
{
    (void)side, (void)peer, (void)request, (void)capacity, (void)bytes;
    return 0;
}

static weft_status side_respond(void *side, int peer, const void *data, size_t bytes)
{
    (void)side, (void)peer, (void)data, (void)bytes;
    return WEFT_SUCCESS;
}

static int side_fd(void *side)
{
    return *(int *)side;
}

static const struct weft_host host = {.bytes = sizeof host,
                                      .log = no_log,
                                      .now_ns = now,
                                      .explain = explain,
                                      .side_request = side_request,
                                      .side_response = side_response,
                                      .side_requested = side_requested,
                                      .side_respond = side_respond,
                                      .side_fd = side_fd,
                                      .fd_keep = wi_fd_keep,
                                      .fd_close = wi_fd_close,
                                      .process_self = wi_process_self,
                                      .process_state = wi_process_state};

/* ---- Memory ---- */

static long value(const char *path, const char *name)
{
    char line[128];
    FILE *f = fopen(path, "r");
    long kib = -1;

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atol(line + strlen(name));
    if (f)
        fclose(f);
    return kib;
}

static int fail(const char *what, weft_status st)
{
    fprintf(stderr, "%s: %s\n", what, weft_status_name(st));
    return 1;
}

static int measure(void *endpoint, const struct weft_group_config *config)
{
    long mine = value("/proc/self/status", "VmRSS:"), all = value("/proc/meminfo", "MemAvailable:");
    struct weft_xfer *x = calloc((size_t)npeers + 1, sizeof *x);
    uint64_t until = wi_now_ns() + 100000000000ull;
    struct weft_peer_failure failure;
    void *group;
    char byte[1];
    weft_status st = wi_channel_ops.group_create(endpoint, config, &group);

    if (st < 0 || !x)
        return fail("group_create", st);
    for (int p = 1; p <= npeers; p++) {
        x[p] = (struct weft_xfer){.buf = byte, .bytes = 1, .peer = p, .granule = 1};
        st = wi_channel_ops.recv(group, &x[p]);
        if (st < 0)
            return fail("recv", st);
    }
    for (int quiet = 0; quiet < 300 && wi_now_ns() < until;) {
        int events = wi_channel_ops.progress(group, &failure);
        if (events < 0)
            return fprintf(stderr, "rank %d: %s\n", failure.peer, failure.text), 1;
        quiet = events || open_requests ? 0 : quiet + 1;
    }
    mine = value("/proc/self/status", "VmRSS:") - mine;
    all -= value("/proc/meminfo", "MemAvailable:");
    printf("%d peers, bytes for each: %ld of the process, %ld of the machine\n", npeers, mine * 1024 / npeers,
           all * 1024 / npeers);
    wi_channel_ops.group_destroy(group, 1);
    free(x);
    return mine * 1024 / npeers > 65536 || all * 1024 / npeers > 65536;
}

int main(int argc, char **argv)
{
    struct vb_settings settings = {.devices = argc > 1 ? argv[1] : "",
                                   .gid_index = -1,
                                   .pkey = 65535,
                                   .timeout = 18,
                                   .retries = 7,
                                   .rnr_timer = 12,
                                   .depth = 16,
                                   .rails = 1,
                                   .inline_bytes = 220,
                                   .stripe = 1 << 17};
    struct weft_transport_ops raw;
    void *endpoint, *wrapped;
    unsigned char address[WEFT_ADDRESS_MAX], *member;
    const void **addresses;
    size_t bytes, *address_bytes;
    int fd = eventfd(0, EFD_CLOEXEC), failed;

    npeers = argc > 2 ? atoi(argv[2]) : 1000;
    if (npeers < 1 || npeers > 100000)
        return fprintf(stderr, "usage: verbs_peers DEVICE PEERS\n"), 2;
    requests = calloc((size_t)npeers + 1, sizeof *requests);
    addresses = calloc((size_t)npeers + 1, sizeof *addresses);
    address_bytes = calloc((size_t)npeers + 1, sizeof *address_bytes);
    member = malloc((size_t)npeers + 1);
    if (!requests || !addresses || !address_bytes || !member || wi_transport_complete(&weft_plugin, &raw) < 0)
        return 2;
    if (raw.open(&host, &settings, &endpoint) < 0 || raw.address(endpoint, address, sizeof address, &bytes) < 0 ||
        wi_channel_wrap(&weft_plugin, &host, &raw, endpoint, &wrapped) < 0)
        return 1;
    for (int r = 0; r <= npeers; r++) {
        addresses[r] = address;
        address_bytes[r] = bytes;
        member[r] = 1;
    }
    failed = measure(wrapped, &(struct weft_group_config){.bytes = sizeof(struct weft_group_config),
                                                          .comm_id = {1, 2},
                                                          .nranks = npeers + 1,
                                                          .addresses = addresses,
                                                          .address_bytes = address_bytes,
                                                          .member = member,
                                                          .nchans = WEFT_CHAN_MAX,
                                                          .side = &fd});
    wi_channel_ops.close(wrapped);
    free(requests);
    free(addresses);
    free(address_bytes);
    free(member);
    return failed;
}
