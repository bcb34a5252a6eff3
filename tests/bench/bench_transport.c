/* bench_transport.c: messages of one transport between two processes: half round trips, and a stream of messages.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     bench_transport PLUGIN.so lat|bw BYTES ITERATIONS [WEFT_NAME=VALUE without WEFT_]...
 *
 * What ucx_perftest's tag_lat and tag_bw, or ib_write_lat and ib_write_bw, do for their network: nothing of weft but the transport
 * (and the channels above it, where it needs them) takes part. Prints microseconds of half a round trip, or MB/s (10^6). Receives
 * are posted before the messages come, as a collective does it; `bw` keeps WINDOW of them posted.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "net/channel.h"
#include "tests/conform/transport.h"

#define WINDOW 32
#define CHAN 5

static struct tc_fixture fixture;
static int is_bw;
static size_t bytes;
static long iterations;

static double *result; /* seen by all processes: what ranks print is kept for their failures */
static struct weft_xfer *xfers;
static unsigned char *bufs[2];

static void post(struct tc_rank *r, struct weft_xfer *x, int is_send)
{
    tc_xfer(x, 1 - r->rank, CHAN, bufs[!is_send], bytes);
    if (is_send)
        tc_post_send(r, x);
    else
        tc_post_recv(r, x);
}

static void wait_for(struct tc_rank *r, const struct weft_xfer *x)
{
    struct weft_peer_failure failure;

    while (x->state == WEFT_XFER_PENDING)
        if (r->ops->progress(r->group, &failure) < 0)
            wt_fail(__FILE__, __LINE__, "%s", failure.text);
    WT_REQUIRE(x->state == WEFT_SUCCESS);
}

static void ping_pong(struct tc_rank *r, long count)
{
    struct weft_xfer send, recv;

    for (long i = 0; i < count; i++) {
        post(r, &recv, 0);
        if (r->rank == 0)
            post(r, &send, 1);
        wait_for(r, &recv);
        if (r->rank == 1)
            post(r, &send, 1);
        wait_for(r, &send);
    }
}

/* Rank 0 sends; a message of no bytes comes back at the end. */
static void stream(struct tc_rank *r, long count)
{
    struct weft_xfer last;
    char none;

    tc_xfer(&last, 1 - r->rank, CHAN + 1, &none, 0);
    if (r->rank == 0)
        tc_post_recv(r, &last);
    for (long i = 0; i < count + WINDOW; i++) {
        struct weft_xfer *x = &xfers[i % WINDOW];
        if (i >= WINDOW)
            wait_for(r, x);
        if (i < count)
            post(r, x, r->rank == 0);
        else
            x->state = WEFT_SUCCESS;
    }
    if (r->rank == 1)
        tc_post_send(r, &last);
    wait_for(r, &last);
}

static void run(struct tc_rank *r)
{
    void (*const part)(struct tc_rank *, long) = is_bw ? stream : ping_pong;
    long warm = iterations / 10 + 2 * WINDOW;

    tc_group(r);
    for (int i = 0; i < 2; i++) {
        bufs[i] = calloc(1, bytes + 64);
        WT_REQUIRE(bufs[i] != NULL);
    }
    xfers = calloc(WINDOW, sizeof *xfers);
    part(r, warm);
    tc_sync(r);
    uint64_t began = r->host.now_ns();
    part(r, iterations);
    double ns = (double)(r->host.now_ns() - began);
    if (r->rank == 0)
        *result = is_bw ? (double)bytes * (double)iterations / ns * 1e3 : ns / 2e3 / (double)iterations;
    tc_sync(r);
}

int main(int argc, char **argv)
{
    void *handle = argc < 5 ? NULL : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

    if (!handle || (fixture.plugin = dlsym(handle, WEFT_PLUGIN_SYMBOL)) == NULL) {
        fprintf(stderr, "usage: bench_transport PLUGIN.so lat|bw BYTES ITERATIONS [NAME=VALUE]...\n%s\n",
                argc < 5 ? "" : dlerror());
        return 2;
    }
    is_bw = strcmp(argv[2], "bw") == 0;
    bytes = strtoul(argv[3], NULL, 10);
    iterations = strtol(argv[4], NULL, 10);
    fixture.name = fixture.plugin->name;
    fixture.settings = (const char *const *)&argv[5];
    fixture.channels = wi_channel_needed(fixture.plugin->caps);
    result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED || tc_run(&fixture, run, 2, 300000) != 0)
        return 1;
    printf("%.4f\n", *result);
    return 0;
}
