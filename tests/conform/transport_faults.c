/* transport_faults.c: peers that die, leave, abort or stop, and processes that run out.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport.h"

/* The last rank sends one message and dies, with more promised. */
void tc_case_killed(struct tc_rank *r)
{
    int victim = r->nranks - 1;
    struct weft_xfer x[3], other[2];
    char bytes[3] = {1, 2, 3}, in, out = 9, expected[32];
    size_t length = 4 << 20;
    void *large = malloc(length);
    pid_t pid;

    WT_REQUIRE(large != NULL);
    memset(large, 1, length);
    tc_group(r);
    *tc_word(r, 0) = r->rank == victim ? (uint64_t)getpid() : *tc_word(r, 0);
    wt_sync();
    if (r->rank == victim) {
        for (int peer = 0; peer < victim; peer++) {
            tc_xfer(&x[peer], peer, 0, bytes, 1);
            tc_post_send(r, &x[peer]);
        }
        tc_wait(r, x, (size_t)victim); /* what is not done yet may die with it */
        tc_sync(r);
        raise(SIGKILL);
    }
    pid = (pid_t)*tc_word(r, 0);
    for (int i = 0; i < 2; i++) {
        tc_xfer(&x[i], victim, 0, &bytes[i], 1);
        tc_post_recv(r, &x[i]);
    }
    tc_xfer(&x[2], victim, 1, large, length);
    tc_post_send(r, &x[2]);
    tc_wait(r, &x[0], 1);
    WT_CHECK_INT(x[0].state, WEFT_SUCCESS);
    tc_sync(r);
    WT_CHECK(tc_wait_failure(r, 1000) <= wt_slow_ms(1000));
    WT_CHECK_INT(r->failure.peer, victim);
    WT_CHECK_INT(r->failure.status, WEFT_EPEER);
    snprintf(expected, sizeof(expected), "%d", (int)pid);
    WT_CHECK(strstr(r->failure.text, expected) != NULL);
    WT_CHECK_INT(x[1].state, WEFT_EPEER);
    WT_CHECK_INT(x[2].state, WEFT_EPEER);
    WT_CHECK_STATUS(r->ops->send(r->group, &x[2]), WEFT_EPEER);
    /* The survivors still reach each other. */
    tc_xfer(&other[0], 1 - r->rank, 0, &out, 1);
    tc_xfer(&other[1], 1 - r->rank, 0, &in, 1);
    tc_post_send(r, &other[0]);
    tc_post_recv(r, &other[1]);
    tc_wait(r, other, 2);
    WT_CHECK_INT(in, 9);
    WT_CHECK_INT(r->failures, 1);
    *(volatile uint64_t *)tc_word(r, 1 + r->rank) = 1;
    while (!*(volatile uint64_t *)tc_word(r, 2 - r->rank)) /* wt_sync would wait for the dead */
        tc_progress(r);
    tc_group_end(r, 1);
    free(large);
}

/* A transport that connects on first use cannot tell a peer that was killed from one that left before they ever met: they
 * meet first. What counts is that nothing is posted when it dies. */
void tc_case_killed_idle(struct tc_rank *r)
{
    char text[160];

    tc_group(r);
    if (!(r->fixture->plugin->caps & WEFT_CAP_MAPPED)) {
        struct weft_xfer x[2];
        char in, out = 1;
        tc_xfer(&x[0], 1 - r->rank, 0, &out, 1);
        tc_xfer(&x[1], 1 - r->rank, 0, &in, 1);
        tc_post_send(r, &x[0]);
        tc_post_recv(r, &x[1]);
        tc_wait(r, x, 2);
    }
    wt_sync();
    if (r->rank == 1)
        raise(SIGKILL);
    WT_CHECK(tc_wait_failure(r, 1000) <= wt_slow_ms(1000));
    WT_CHECK_INT(r->failure.peer, 1);
    WT_CHECK_INT(r->failure.status, WEFT_EPEER);
    if (r->ops->describe_peer)
        WT_CHECK(r->ops->describe_peer(r->group, 1, text, sizeof(text)) > 0);
    tc_group_end(r, 1);
}

/* What was sent before leaving arrives; what was not ends with an error. */
void tc_case_left(struct tc_rank *r)
{
    unsigned char bufs[4][20]; /* short enough to go without a receiver */
    struct weft_xfer x[4], idle;
    weft_status status;
    char byte;

    tc_group(r);
    for (int i = 0; i < 4; i++)
        tc_xfer(&x[i], 1 - r->rank, 3, bufs[i], sizeof(bufs[i]));
    if (r->rank == 1) {
        for (int i = 0; i < 3; i++) {
            tc_fill(bufs[i], sizeof(bufs[i]), (uint32_t)i);
            tc_post_send(r, &x[i]);
        }
        tc_wait(r, x, 3);
        tc_group_end(r, 0);
        __atomic_store_n(tc_word(r, 0), 1, __ATOMIC_SEQ_CST);
        wt_sync();
        wt_sync();
        return;
    }
    /* Who connects over the side channel needs the other one's progress for it; others do without. */
    while ((r->fixture->plugin->caps & WEFT_CAP_SIDE) && !__atomic_load_n(tc_word(r, 0), __ATOMIC_SEQ_CST))
        tc_progress(r);
    wt_sync(); /* it has left */
    for (int i = 0; i < 20000; i++)
        tc_progress(r);
    WT_CHECK_INT(r->failures, 0);
    for (int i = 0; i < 3; i++)
        tc_post_recv(r, &x[i]);
    tc_wait(r, x, 3);
    for (int i = 0; i < 3; i++) {
        WT_CHECK_INT(x[i].state, WEFT_SUCCESS);
        WT_CHECK(tc_filled(bufs[i], sizeof(bufs[i]), (uint32_t)i));
    }
    WT_CHECK_INT(r->failures, 0);
    tc_xfer(&idle, 1, 4, &byte, 1);
    idle.background = 1;
    if (r->ops->recv(r->group, &idle) == WEFT_SUCCESS) {
        uint64_t until = wt_now_ms() + 50; /* many looks at the peer */
        while (wt_now_ms() < until)
            tc_progress(r);
    }
    WT_CHECK_INT(r->failures, 0);
    status = r->ops->recv(r->group, &x[3]);
    if (status == WEFT_SUCCESS) {
        WT_CHECK(tc_wait_failure(r, 1000) <= wt_slow_ms(1000));
        WT_CHECK_INT(r->failure.peer, 1);
        status = x[3].state;
    }
    WT_CHECK_STATUS(status, WEFT_EPEER);
    wt_sync();
}

#define QUIESCE_BYTES ((size_t)3 << 20)

/* Each in turn, so that a round stops at another point of the transfer. */
static void some_progress(struct tc_rank *r, int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < 2; k++) {
            if (r->rank == k)
                tc_progress(r);
            wt_sync();
        }
}

static int all_are(const unsigned char *bytes, unsigned char value)
{
    for (size_t i = 0; i < QUIESCE_BYTES; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

static void quiesce_recv_one(struct tc_rank *r, int rounds)
{
    unsigned char *buf = malloc(QUIESCE_BYTES);
    struct weft_xfer x;

    WT_REQUIRE(buf != NULL);
    memset(buf, 1, QUIESCE_BYTES);
    tc_group(r);
    tc_xfer(&x, 1 - r->rank, 3, buf, QUIESCE_BYTES);
    if (r->rank)
        tc_post_recv(r, &x);
    else
        tc_post_send(r, &x);
    some_progress(r, rounds);
    if (r->rank) {
        WT_CHECK_OK(r->ops->quiesce(r->group, wi_deadline_ns(1000000000ull)));
        memset(buf, 9, QUIESCE_BYTES);
    }
    wt_sync();
    for (int i = 0; !r->rank && i < 300; i++)
        tc_progress(r);
    wt_sync();
    WT_CHECK(!r->rank || all_are(buf, 9));
    tc_group_end(r, 1);
    wt_sync();
    free(buf);
}

/* What the receiver gets is what was sent, or a failure. */
static void quiesce_send_one(struct tc_rank *r, int rounds)
{
    unsigned char *buf = malloc(QUIESCE_BYTES);
    uint64_t deadline = wt_now_ms() + wt_slow_ms(5000);
    struct weft_xfer x;

    WT_REQUIRE(buf != NULL);
    memset(buf, r->rank ? 7 : 1, QUIESCE_BYTES);
    tc_group(r);
    tc_xfer(&x, 1 - r->rank, 3, buf, QUIESCE_BYTES);
    if (r->rank == 0)
        tc_post_send(r, &x);
    wt_sync();
    if (r->rank)
        tc_post_recv(r, &x);
    some_progress(r, rounds);
    if (r->rank == 0) {
        WT_CHECK_OK(r->ops->quiesce(r->group, wi_deadline_ns(1000000000ull)));
        memset(buf, 9, QUIESCE_BYTES);
    }
    wt_sync();
    for (int i = 0; r->rank && x.state == WEFT_XFER_PENDING && i < 300; i++)
        tc_progress(r);
    wt_sync();
    if (r->rank == 0)
        tc_group_end(r, 1);
    while (r->rank && x.state == WEFT_XFER_PENDING && wt_now_ms() < deadline)
        tc_progress(r);
    WT_CHECK(x.state != WEFT_XFER_PENDING || !r->rank);
    WT_CHECK(x.state != WEFT_SUCCESS || !r->rank || all_are(buf, 1));
    if (r->rank)
        tc_group_end(r, 1);
    wt_sync();
    free(buf);
}

void tc_case_quiesce_recv(struct tc_rank *r)
{
    for (int rounds = 0; rounds < 12; rounds += rounds < 6 ? 1 : 3)
        quiesce_recv_one(r, rounds);
}

void tc_case_quiesce_send(struct tc_rank *r)
{
    for (int rounds = 0; rounds < 12; rounds += rounds < 6 ? 1 : 3)
        quiesce_send_one(r, rounds);
}

void tc_case_aborted(struct tc_rank *r)
{
    struct weft_xfer x;
    char byte;

    tc_group(r);
    tc_xfer(&x, 0, 0, &byte, 1);
    if (r->rank)
        tc_post_recv(r, &x);
    wt_sync(); /* what is posted after the abort may be refused */
    if (r->rank == 0) {
        tc_group_end(r, 1);
        wt_sync();
        return;
    }
    WT_CHECK(tc_wait_failure(r, 1000) <= wt_slow_ms(1000));
    WT_CHECK_INT(r->failure.peer, 0);
    WT_CHECK(r->failure.status == WEFT_EABORTED || r->failure.status == WEFT_EPEER);
    WT_CHECK_INT(x.state, r->failure.status);
    wt_sync();
}

/* One rank cannot open anything: it gets a failure that says so, and nobody hangs. Others may have succeeded, where creating
 * is local; they give up their group, as libweft has them do. Afterwards creation works. */
void tc_case_few_files(struct tc_rank *r)
{
    struct rlimit before, none;
    weft_status status;
    char byte = 1, in = 0;
    struct weft_xfer x[2];

    WT_REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    if (r->rank == 1)
        WT_REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    status = tc_group_try(r);
    if (r->rank == 1)
        setrlimit(RLIMIT_NOFILE, &before);
    *tc_word(r, r->rank) = status != WEFT_SUCCESS;
    wt_sync();
    if (status == WEFT_SUCCESS) {
        if (!*tc_word(r, 0) && !*tc_word(r, 1)) /* it needed none */
            return;
        tc_group_end(r, 0);
    } else {
        WT_CHECK_STATUS(status, WEFT_ENOFILES);
        WT_CHECK(r->explained[0] != '\0');
    }
    wt_sync();
    tc_group(r);
    tc_xfer(&x[0], 1 - r->rank, 0, &byte, 1);
    tc_xfer(&x[1], 1 - r->rank, 0, &in, 1);
    tc_post_send(r, &x[0]);
    tc_post_recv(r, &x[1]);
    tc_wait(r, x, 2);
    WT_CHECK_INT(in, 1);
    wt_sync();
}

void tc_case_stopped(struct tc_rank *r)
{
    char text[160] = "";
    uint64_t deadline;

    if (!r->ops->describe_peer)
        return;
    tc_group(r);
    *tc_word(r, r->rank) = (uint64_t)getpid();
    wt_sync();
    if (r->rank == 1) {
        raise(SIGSTOP);
    } else {
        pid_t pid = (pid_t)*tc_word(r, 1);
        deadline = wt_now_ms() + wt_slow_ms(2000);
        while (!strstr(text, "stopped") && wt_now_ms() < deadline)
            r->ops->describe_peer(r->group, 1, text, sizeof(text));
        WT_CHECK(strstr(text, "stopped") != NULL);
        for (int i = 0; i < 2000; i++)
            tc_progress(r);
        WT_CHECK_INT(r->failures, 0); /* slow is not dead */
        kill(pid, SIGCONT);
    }
    wt_sync();
}
