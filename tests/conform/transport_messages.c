/* transport_messages.c: two-sided transfers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "transport.h"

static const size_t sizes[] = {
    0, 1, 23, 24, 25, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 131072, 200003, (1u << 20) + 3, 9u << 20};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static void *buffer(size_t bytes)
{
    void *buf = malloc(bytes + 1);
    WT_REQUIRE(buf != NULL);
    return buf;
}

void tc_case_address(struct tc_rank *r)
{
    unsigned char bytes[WEFT_ADDRESS_MAX];
    size_t length = r->address_bytes[r->rank], written;
    uint32_t seed = 1;

    WT_CHECK(length > 0);
    for (int i = 0; i < r->nranks; i++)
        WT_CHECK_INT(r->ops->reachable(r->endpoint, r->addresses[i], r->address_bytes[i]), 1);
    WT_CHECK(r->ops->address(r->endpoint, bytes, 1, &written) != WEFT_SUCCESS);
    for (size_t cut = 0; cut < length; cut++) {
        void *exact = malloc(cut ? cut : 1); /* so that a sanitizer sees a read beyond */
        WT_REQUIRE(exact != NULL);
        memcpy(exact, r->addresses[0], cut);
        WT_CHECK_INT(r->ops->reachable(r->endpoint, exact, cut), 0);
        free(exact);
    }
    for (int round = 0; round < 1000; round++) {
        size_t some = tc_random(&seed) % sizeof(bytes);
        for (size_t i = 0; i < some; i++)
            bytes[i] = (unsigned char)tc_random(&seed);
        WT_CHECK_INT(r->ops->reachable(r->endpoint, bytes, some), 0);
    }
}

/* Descriptors open; sockets may outlive their group until the peer's side has everything, so wait for `expected` (-1: for
 * what stays the same for a while). */
static int settled_files(int expected)
{
    uint64_t until = wt_now_ms() + (expected < 0 ? 200 : wt_slow_ms(2500));
    int files = tc_open_files();

    while (files != expected && wt_now_ms() < until) {
        sched_yield();
        files = tc_open_files();
    }
    return files;
}

void tc_case_create_destroy(struct tc_rank *r)
{
    int files = 0;

    for (int round = 0; round < 20; round++) {
        char in[100], out[100];
        struct weft_xfer x[2];
        tc_group(r);
        tc_fill(out, sizeof(out), (uint32_t)(r->rank + round));
        tc_xfer(&x[0], (r->rank + 1) % r->nranks, 0, out, sizeof(out));
        tc_xfer(&x[1], (r->rank + r->nranks - 1) % r->nranks, 0, in, sizeof(in));
        tc_post_recv(r, &x[1]);
        tc_post_send(r, &x[0]);
        tc_wait(r, x, 2);
        WT_CHECK_INT(x[1].state, WEFT_SUCCESS);
        WT_CHECK(tc_filled(in, sizeof(in), (uint32_t)(x[1].peer + round)));
        wt_sync(); /* who is left while it still sends may be taken for a failure */
        tc_group_end(r, 0);
        wt_sync();
        if (r->fixture->threads)
            continue;
        if (round == 1)
            files = settled_files(-1);
        else if (round > 1)
            WT_CHECK_INT(settled_files(files), files);
        wt_sync(); /* a rank in the next round may connect already */
    }
}

/* Both ways at once, one size after the other. */
static void exchange(struct tc_rank *r, size_t bytes, int recv_first)
{
    unsigned char *out = buffer(bytes), *in = buffer(bytes);
    int peer = r->nranks - 1 - r->rank;
    struct weft_xfer x[2];

    tc_fill(out, bytes, (uint32_t)(bytes + (size_t)r->rank));
    memset(in, 0xee, bytes + 1);
    tc_xfer(&x[0], peer, 5, out, bytes);
    tc_xfer(&x[1], peer, 5, in, bytes);
    if (recv_first)
        tc_post_recv(r, &x[1]);
    tc_post_send(r, &x[0]);
    if (!recv_first)
        tc_post_recv(r, &x[1]);
    tc_wait(r, x, 2);
    WT_CHECK_INT(x[0].state, WEFT_SUCCESS);
    WT_CHECK_INT(x[1].state, WEFT_SUCCESS);
    WT_CHECK(tc_filled(in, bytes, (uint32_t)(bytes + (size_t)peer)));
    WT_CHECK_INT(in[bytes], 0xee);
    free(out);
    free(in);
}

void tc_case_sizes(struct tc_rank *r)
{
    tc_group(r);
    for (size_t i = 0; i < NSIZES; i++) {
        exchange(r, sizes[i], 1);
        exchange(r, sizes[i], (int)(i + (size_t)r->rank) % 2);
    }
    tc_sync(r);
}

void tc_case_self(struct tc_rank *r)
{
    tc_group(r);
    for (size_t i = 0; i < NSIZES; i++)
        exchange(r, sizes[i], i % 2 != 0);
}

#define FIFO_CHANS 4
#define FIFO_EACH 150

static size_t fifo_bytes(int chan, int n)
{
    return (size_t)(chan * 31 + n * 97) % 3000 + (n % 40 == 7 ? 150000u : 0u);
}

void tc_case_fifo(struct tc_rank *r)
{
    struct weft_xfer *x = calloc(FIFO_CHANS * FIFO_EACH, sizeof(*x));
    unsigned char **bufs = calloc(FIFO_CHANS * FIFO_EACH, sizeof(*bufs));

    WT_REQUIRE(x && bufs);
    tc_group(r);
    for (int i = 0; i < FIFO_CHANS * FIFO_EACH; i++) {
        int chan = i % FIFO_CHANS, n = i / FIFO_CHANS;
        size_t bytes = fifo_bytes(chan, n);
        bufs[i] = buffer(bytes);
        tc_xfer(&x[i], 1 - r->rank, (uint32_t)chan * 21, bufs[i], bytes);
        x[i].info.seq = (uint32_t)n;
        if (r->rank == 0) {
            tc_fill(bufs[i], bytes, (uint32_t)(chan * 1000 + n));
            tc_post_send(r, &x[i]);
        } else {
            tc_post_recv(r, &x[i]);
        }
    }
    tc_wait(r, x, FIFO_CHANS * FIFO_EACH);
    for (int i = 0; i < FIFO_CHANS * FIFO_EACH; i++) {
        int chan = i % FIFO_CHANS, n = i / FIFO_CHANS;
        WT_CHECK_INT(x[i].state, WEFT_SUCCESS);
        WT_CHECK(tc_filled(bufs[i], x[i].bytes, (uint32_t)(chan * 1000 + n)));
        free(bufs[i]);
    }
    free(bufs);
    free(x);
    tc_sync(r);
}

/* Small messages complete before anybody receives them; a receive posted long before is filled. */
void tc_case_early_late(struct tc_rank *r)
{
    unsigned char bufs[8][512];
    struct weft_xfer x[8];

    tc_group(r);
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < 8; i++)
            tc_xfer(&x[i], 1 - r->rank, 63, bufs[i], sizeof(bufs[i]));
        if (r->rank == late)
            wt_sync();
        for (int i = 0; i < 8; i++) {
            if (r->rank == 0) {
                tc_fill(bufs[i], sizeof(bufs[i]), (uint32_t)i);
                tc_post_send(r, &x[i]);
            } else {
                tc_post_recv(r, &x[i]);
            }
        }
        if (r->rank != late) {
            for (int i = 0; i < 1000; i++)
                tc_progress(r);
            wt_sync();
        }
        tc_wait(r, x, 8);
        for (int i = 0; i < 8; i++)
            WT_CHECK(tc_filled(bufs[i], sizeof(bufs[i]), (uint32_t)i));
        wt_sync();
    }
}

struct sunk {
    unsigned char *to;
    size_t next;
    int wrong, calls;
};

static void sink(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    struct sunk *s = x->sink_arg;

    s->calls++;
    s->wrong += offset != s->next || bytes == 0 || offset + bytes > x->actual;
    s->wrong += bytes % x->granule != 0 && offset + bytes != x->actual;
    if (offset + bytes <= x->bytes)
        memcpy(s->to + offset, data, bytes);
    s->next = offset + bytes;
}

static void sink_one(struct tc_rank *r, size_t bytes, uint32_t granule)
{
    unsigned char *buf = buffer(bytes);
    struct sunk s = {.to = buf};
    struct weft_xfer x;

    tc_xfer(&x, 1 - r->rank, 2, buf, bytes);
    if (r->rank == 0) {
        tc_fill(buf, bytes, granule);
        tc_post_send(r, &x);
    } else {
        x.buf = NULL;
        x.sink = sink;
        x.sink_arg = &s;
        x.granule = granule;
        tc_post_recv(r, &x);
    }
    tc_wait(r, &x, 1);
    WT_CHECK_INT(x.state, WEFT_SUCCESS);
    if (r->rank == 1) {
        WT_CHECK_INT(s.wrong, 0);
        WT_CHECK_INT(s.next, bytes);
        WT_CHECK_INT(s.calls > 0, bytes > 0);
        WT_CHECK(tc_filled(buf, bytes, granule));
    }
    free(buf);
}

void tc_case_sink(struct tc_rank *r)
{
    tc_group(r);
    for (uint32_t granule = 1; granule <= 16; granule *= 2)
        for (size_t i = 0; i < NSIZES; i++)
            sink_one(r, sizes[i] / granule * granule, granule);
    tc_sync(r);
}

/* One message of `sent` bytes, a receive with room for `capacity`. */
static void length_one(struct tc_rank *r, size_t sent, size_t capacity, int sunk, int late)
{
    int peer = r->nranks - 1 - r->rank, sends = r->rank == 0, receives = r->rank == r->nranks - 1;
    int state = sent > capacity ? WEFT_ETRUNC : WEFT_SUCCESS;
    unsigned char *out = buffer(sent), *in = buffer(capacity);
    struct sunk s = {.to = in};
    struct weft_xfer x[2];

    tc_xfer(&x[0], peer, 3, out, sent);
    tc_xfer(&x[1], peer, 3, in, capacity);
    x[1].info.count = sent;
    x[1].up_to = 1;
    x[1].actual = 4711;
    x[1].granule = 4;
    if (sunk) {
        x[1].buf = NULL;
        x[1].sink = sink;
        x[1].sink_arg = &s;
    }
    memset(in, 0xee, capacity + 1);
    tc_fill(out, sent, 9);
    if (receives && !late)
        tc_post_recv(r, &x[1]);
    if (sends)
        tc_post_send(r, &x[0]);
    if (receives && late)
        tc_post_recv(r, &x[1]);
    tc_wait(r, sends ? x : x + 1, (size_t)(sends + receives));
    if (sends)
        WT_CHECK_INT(x[0].state, WEFT_SUCCESS);
    if (receives) {
        WT_CHECK_INT(x[1].state, state);
        WT_CHECK_INT(x[1].actual, sent);
        WT_CHECK_INT(x[1].bytes, capacity);
        WT_CHECK_INT(s.wrong, 0);
        WT_CHECK_INT(s.next, sunk && !state ? sent : 0);
        if (!state)
            WT_CHECK(tc_filled(in, sent, 9));
        for (size_t i = state ? 0 : sent; i <= capacity; i++)
            if (in[i] != 0xee)
                wt_fail(__FILE__, __LINE__, "byte %zu of %zu was written by a message of %zu", i, capacity, sent);
    }
    free(out);
    free(in);
}

void tc_case_lengths(struct tc_rank *r)
{
    static const size_t capacities[] = {0, 4, 24, 64, 4096, 70000, 400000};

    tc_group(r);
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++)
        for (int how = 0; how < 4; how++) {
            size_t c = capacities[i], some[] = {0, c / 2 / 4 * 4, c / 3, c, c + 1, 3 * c + 4};
            for (size_t k = 0; k < sizeof(some) / sizeof(some[0]); k++)
                length_one(r, some[k], c, how & 1, how & 2);
        }
    exchange(r, 1000, 1);
    tc_sync(r);
}

void tc_case_lengths_self(struct tc_rank *r)
{
    tc_case_lengths(r);
}

/* The receiver has room for less; the next message on the channel arrives unharmed. */
void tc_case_truncated(struct tc_rank *r)
{
    static const size_t longer[] = {2, 100, 70000, 300000};

    tc_group(r);
    for (size_t i = 0; i < 4; i++) {
        unsigned char *buf = buffer(longer[i]), next[10];
        struct weft_xfer x[2];
        tc_xfer(&x[0], 1 - r->rank, 1, buf, r->rank == 0 ? longer[i] : longer[i] / 2);
        x[0].info.count = 5;
        tc_xfer(&x[1], 1 - r->rank, 1, next, sizeof(next));
        memset(buf, 0, longer[i]);
        tc_fill(next, sizeof(next), r->rank == 0 ? 77 : 1);
        for (int k = 0; k < 2; k++) {
            if (r->rank == 0)
                tc_post_send(r, &x[k]);
            else
                tc_post_recv(r, &x[k]);
        }
        tc_wait(r, x, 2);
        WT_CHECK_INT(x[0].state, r->rank == 0 ? WEFT_SUCCESS : WEFT_ETRUNC);
        WT_CHECK(r->rank == 0 || x[0].actual == longer[i]);
        WT_CHECK_INT(x[1].state, WEFT_SUCCESS);
        WT_CHECK(tc_filled(next, sizeof(next), 77));
        free(buf);
    }
    tc_sync(r);
}

static void mismatch_one(struct tc_rank *r, struct weft_op_info theirs, size_t sent, size_t posted)
{
    unsigned char *buf = buffer(sent + posted);
    struct weft_xfer x;

    memset(buf, 0, sent + posted);
    tc_xfer(&x, 1 - r->rank, 9, buf, r->rank == 0 ? sent : posted);
    x.info = (struct weft_op_info){.seq = 5, .kind = 1, .dtype = 10, .op = 0, .root = 3, .hash = 9, .count = 100};
    if (r->rank == 0) {
        x.info = theirs;
        tc_post_send(r, &x);
    } else {
        tc_post_recv(r, &x);
    }
    tc_wait(r, &x, 1);
    if (r->rank == 1) {
        WT_CHECK_INT(x.state, WEFT_EMISMATCH);
        WT_CHECK_INT(x.actual, sent);
        WT_CHECK_MEM(&x.peer_info, &theirs, sizeof(theirs));
    }
    free(buf);
    tc_sync(r);
}

void tc_case_mismatch(struct tc_rank *r)
{
    const struct weft_op_info same = {.seq = 5, .kind = 1, .dtype = 10, .op = 0, .root = 3, .hash = 9, .count = 100};
    struct weft_op_info theirs[7];

    tc_group(r);
    for (int i = 0; i < 7; i++)
        theirs[i] = same;
    theirs[0].seq++, theirs[1].kind++, theirs[2].dtype++, theirs[3].op = 255;
    theirs[4].root++, theirs[5].hash++, theirs[6].count++;
    for (int i = 0; i < 7; i++) {
        mismatch_one(r, theirs[i], 40, 40);
        mismatch_one(r, theirs[i], 400000, 400000);
    }
    mismatch_one(r, same, 30, 40); /* shorter than posted */
    mismatch_one(r, same, 300000, 400000);
    exchange(r, 1000, 1);
    tc_sync(r);
}

#define CROWD_ROUNDS 12

void tc_case_crowd(struct tc_rank *r)
{
    struct weft_xfer x[2 * 8];
    unsigned char *bufs[2 * 8];
    uint32_t seed = 4711;

    WT_REQUIRE(r->nranks <= 8);
    tc_group(r);
    for (uint32_t round = 0; round < CROWD_ROUNDS; round++) {
        size_t bytes = tc_random(&seed) % (round % 3 == 0 ? 300000 : 5000);
        for (int p = 0; p < r->nranks; p++) {
            bufs[2 * p] = buffer(bytes);
            bufs[2 * p + 1] = buffer(bytes);
            tc_fill(bufs[2 * p], bytes, round + (uint32_t)(r->rank * 16 + p));
            tc_xfer(&x[2 * p], p, round % 3, bufs[2 * p], bytes);
            tc_xfer(&x[2 * p + 1], p, round % 3, bufs[2 * p + 1], bytes);
            tc_post_send(r, &x[2 * p]);
            tc_post_recv(r, &x[2 * p + 1]);
        }
        tc_wait(r, x, 2 * (size_t)r->nranks);
        for (int p = 0; p < r->nranks; p++) {
            WT_CHECK_INT(x[2 * p + 1].state, WEFT_SUCCESS);
            WT_CHECK(tc_filled(bufs[2 * p + 1], bytes, round + (uint32_t)(p * 16 + r->rank)));
            free(bufs[2 * p]);
            free(bufs[2 * p + 1]);
        }
    }
    WT_CHECK_INT(r->failures, 0);
    tc_sync(r);
}

void tc_case_bad_posts(struct tc_rank *r)
{
    static const int peers[] = {-1, 2, 1000000, 0};
    static const uint32_t chans[] = {0, 0, 0, WEFT_CHAN_MAX};
    char byte = 0;

    tc_group(r);
    for (int i = 0; i < 4; i++) {
        struct weft_xfer x;
        tc_xfer(&x, peers[i], chans[i], &byte, 1);
        WT_CHECK_STATUS(r->ops->send(r->group, &x), WEFT_EINVAL);
        WT_CHECK_INT(x.state, 0);
        WT_CHECK_STATUS(r->ops->recv(r->group, &x), WEFT_EINVAL);
        WT_CHECK(tc_explained(r)[0] != '\0');
    }
    exchange(r, 10, 1);
    tc_sync(r);
}

/* Transfers that never end are forgotten, their buffers untouched afterwards. Both ranks have posted before one of them leaves or
 * aborts, since a transport may refuse what is posted after that. */
void tc_case_pending_destroy(struct tc_rank *r)
{
    size_t bytes = 3 << 20;
    unsigned char *buf = buffer(bytes);
    struct weft_xfer x;

    memset(buf, 1, bytes);
    for (int round = 0; round < 3; round++) {
        tc_group(r);
        tc_xfer(&x, 1 - r->rank, 0, buf, bytes);
        if (r->rank == 0)
            tc_post_send(r, &x);
        else if (round > 0)
            tc_post_recv(r, &x);
        wt_sync();
        for (int i = 0; i < round; i++)
            tc_progress(r);
        tc_group_end(r, round == 2);
        wt_sync();
    }
    free(buf);
}

/* Looking takes nothing; what a posted receive will take is not shown. */
void tc_case_peek(struct tc_rank *r)
{
    unsigned char bufs[2][40000];
    static const size_t lengths[] = {17, sizeof(bufs[0])};
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);
    struct weft_op_info info = {0};
    struct weft_xfer x[2];
    size_t bytes = 0;

    tc_group(r);
    for (int i = 0; i < 2; i++) {
        tc_xfer(&x[i], 1 - r->rank, 11, bufs[i], lengths[i]);
        x[i].info.seq = (uint32_t)(40 + i);
        tc_fill(bufs[i], lengths[i], (uint32_t)(r->rank ? 99 : i));
        if (r->rank == 0)
            tc_post_send(r, &x[i]);
    }
    for (int i = 0; r->rank && i < 2; i++) {
        int seen = 0;
        while ((seen = r->ops->peek(r->group, 0, 11, 1, &info, &bytes)) == 0 && wt_now_ms() < deadline)
            tc_progress(r);
        WT_REQUIRE(seen == 1);
        WT_CHECK_MEM(&info, &x[i].info, sizeof(info));
        WT_CHECK_INT(bytes, lengths[i]);
        WT_CHECK_INT(r->ops->peek(r->group, 0, 11, 1, &info, &bytes), 1);
        tc_post_recv(r, &x[i]);
        tc_wait(r, &x[i], 1);
        WT_CHECK_INT(x[i].state, WEFT_SUCCESS);
        WT_CHECK(tc_filled(bufs[i], lengths[i], (uint32_t)i));
    }
    if (r->rank == 0)
        tc_wait(r, x, 2);
    WT_CHECK_INT(r->ops->peek(r->group, 1 - r->rank, 12, 0, &info, &bytes), 0);
    tc_sync(r);
}
