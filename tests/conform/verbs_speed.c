/* verbs_speed.c: latency and bandwidth of messages over verbs between two devices, as the library's channels have them. Prints
 *     latency BYTES MICROSECONDS      half a round trip, the median
 *     bandwidth BYTES MEGABYTES       per second, of messages one after the other with some under way
 * tests/multi/verbs_inside.sh compares with perftest's ib_write_lat and ib_write_bw on the same machine.
 *     verbs_speed DEVICE DEVICE [ROUNDS]
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "transport.h"

extern const struct weft_plugin weft_plugin;

static char *const *devices;
static int rounds = 1000;
static struct result {
    size_t bytes;
    double value;
} * results; /* of rank 0, shared with the process that prints them: latencies, bandwidths */

static void device_of_rank(struct weft_host *host)
{
    const char *rank = getenv("WEFT_RANK");

    (void)host;
    setenv("WEFT_VERBS_DEVICES", devices[rank && atoi(rank) == 1], 1);
}

static const struct tc_fixture fixture = {
    .name = "verbs", .plugin = &weft_plugin, .host = device_of_rank, .channels = 1};

static void spin(struct tc_rank *r, const struct weft_xfer *x)
{
    struct weft_peer_failure failure = {.text = ""};

    while (x->state == WEFT_XFER_PENDING) {
        int events = r->ops->progress(r->group, &failure);
        if (events < 0)
            wt_fail(__FILE__, __LINE__, "%s: %s", weft_status_name((weft_status)events), failure.text);
        WT_REQUIRE(events >= 0);
    }
    WT_REQUIRE(x->state == WEFT_SUCCESS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void latency(struct tc_rank *r, void *buf, size_t bytes, struct result *at)
{
    double *us = calloc((size_t)rounds, sizeof *us);
    struct weft_xfer out, in;

    WT_REQUIRE(us != NULL);
    for (int i = -rounds / 10; i < rounds; i++) {
        uint64_t began = wi_now_ns();
        tc_xfer(&in, 1 - r->rank, 1, buf, bytes);
        tc_xfer(&out, 1 - r->rank, 1, buf, bytes);
        tc_post_recv(r, &in);
        if (r->rank == 0)
            tc_post_send(r, &out);
        spin(r, &in);
        if (r->rank == 1)
            tc_post_send(r, &out);
        spin(r, &out);
        if (i >= 0)
            us[i] = (double)(wi_now_ns() - began) / 2e3;
    }
    qsort(us, (size_t)rounds, sizeof *us, by_value);
    if (r->rank == 0)
        *at = (struct result){bytes, us[rounds / 2]};
    free(us);
}

#define UNDER_WAY 8

static void bandwidth(struct tc_rank *r, unsigned char *buf, size_t bytes, struct result *at)
{
    int n = rounds / 5 < 20 ? 20 : rounds / 5;
    struct weft_xfer x[UNDER_WAY] = {{0}}, last;
    uint64_t began;
    char byte = 0;

    wt_sync();
    began = wi_now_ns();
    for (int i = 0; i < n; i++) {
        struct weft_xfer *this = &x[i % UNDER_WAY];
        spin(r, this);
        tc_xfer(this, 1 - r->rank, 2, buf, bytes);
        if (r->rank)
            tc_post_recv(r, this);
        else
            tc_post_send(r, this);
    }
    for (int i = 0; i < UNDER_WAY; i++)
        spin(r, &x[i]);
    tc_xfer(&last, 1 - r->rank, 3, &byte, 1);
    if (r->rank)
        tc_post_send(r, &last);
    else
        tc_post_recv(r, &last);
    spin(r, &last);
    if (r->rank == 0)
        *at = (struct result){bytes, (double)bytes * n / ((double)(wi_now_ns() - began) / 1e3)};
}

static void measure(struct tc_rank *r)
{
    static const size_t short_ones[] = {8, 512, 4096}, long_ones[] = {65536, 262144, 1048576};
    size_t most = long_ones[2];
    unsigned char *buf = aligned_alloc(4096, most);
    void *mem = NULL;

    WT_REQUIRE(buf != NULL);
    memset(buf, 1, most);
    tc_group(r);
    WT_REQUIRE_OK(r->ops->mem_register(r->endpoint, buf, most, WEFT_MEMORY_HOST, &mem));
    for (size_t i = 0; i < 3; i++)
        latency(r, buf, short_ones[i], &results[i]);
    for (size_t i = 0; i < 3; i++)
        bandwidth(r, buf, long_ones[i], &results[3 + i]);
    wt_sync();
    tc_group_end(r, 0);
    r->ops->mem_deregister(r->endpoint, mem);
    free(buf);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: verbs_speed DEVICE DEVICE [ROUNDS]\n"), 2;
    devices = argv + 1;
    if (argc > 3 && atoi(argv[3]) > 0)
        rounds = atoi(argv[3]);
    results = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED || tc_run(&fixture, measure, 2, 120000) != 0)
        return 1;
    for (int i = 0; i < 6; i++)
        printf("%s %zu %.2f\n", i < 3 ? "latency" : "bandwidth", results[i].bytes, results[i].value);
    return 0;
}
