/* transport_mapped.c: groups whose ranks load and store each other's arena.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <sched.h>
#include <string.h>

#include "transport.h"

static void map(struct tc_rank *r, struct weft_mapped *m)
{
    tc_group(r);
    WT_REQUIRE_OK(r->ops->mapped(r->group, m));
}

static int all_zero(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

static void check_place(const void *memory, size_t align, size_t bytes)
{
    WT_REQUIRE(memory != NULL);
    WT_CHECK_INT((uintptr_t)memory % align, 0);
    WT_CHECK(all_zero(memory, bytes));
}

void tc_case_layout(struct tc_rank *r)
{
    struct weft_mapped m;

    map(r, &m);
    WT_REQUIRE(m.nlanes >= 4 && m.depth >= 2 && m.ll_depth >= 2 && m.ll_lines >= 1 && m.slot_bytes >= 4096 &&
               m.sleepers);
    WT_CHECK_INT(*m.sleepers, 0);
    for (int i = 0; i < r->nranks; i++) {
        check_place(m.ranks[i].signals, 128, m.nlanes * sizeof(struct weft_signal));
        check_place(m.ranks[i].done, 128, sizeof(struct weft_signal));
        check_place(m.ranks[i].board, 128, sizeof(struct weft_board));
        check_place(m.ranks[i].ll, 64, (size_t)m.ll_depth * m.ll_lines * sizeof(struct weft_ll_line));
        check_place(m.ranks[i].slots, 64, m.depth * m.slot_bytes);
    }
    wt_sync();
    tc_fill(m.ranks[r->rank].slots, m.depth * m.slot_bytes, (uint32_t)r->rank);
    memset(m.ranks[r->rank].ll, 0x10 + r->rank, (size_t)m.ll_depth * m.ll_lines * sizeof(struct weft_ll_line));
    m.ranks[r->rank].done->value = 100u + (uint64_t)r->rank;
    m.ranks[r->rank].board->info.seq = 200u + (uint32_t)r->rank;
    for (uint32_t lane = 0; lane < m.nlanes; lane++)
        m.ranks[r->rank].signals[lane].value = 300u + lane + (uint64_t)r->rank;
    wt_sync();
    for (int i = 0; i < r->nranks; i++) {
        const unsigned char *lines = (const unsigned char *)m.ranks[i].ll;
        WT_CHECK(tc_filled(m.ranks[i].slots, m.depth * m.slot_bytes, (uint32_t)i));
        WT_CHECK_INT(lines[(size_t)m.ll_depth * m.ll_lines * sizeof(struct weft_ll_line) - 1], 0x10 + i);
        WT_CHECK_INT(m.ranks[i].done->value, 100 + i);
        WT_CHECK_INT(m.ranks[i].board->info.seq, 200 + i);
        for (uint32_t lane = 0; lane < m.nlanes; lane++)
            WT_CHECK_INT(m.ranks[i].signals[lane].value, 300 + lane + (uint32_t)i);
    }
    wt_sync();
}

static int await(const uint64_t *word, uint64_t value)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        sched_yield();
        if (wt_now_ms() > deadline)
            return 0;
    }
    return 1;
}

void tc_case_signals(struct tc_rank *r)
{
    struct weft_mapped m;
    int peer = 1 - r->rank;

    map(r, &m);
    for (uint64_t n = 1; n <= 2000; n++) {
        uint32_t lane = (uint32_t)n % m.nlanes;
        size_t slot = (size_t)(n % m.depth) * m.slot_bytes;
        tc_fill(m.ranks[r->rank].slots + slot, 256, (uint32_t)n);
        __atomic_store_n(&m.ranks[r->rank].signals[lane].value, n, __ATOMIC_RELEASE);
        WT_REQUIRE(await(&m.ranks[peer].signals[lane].value, n));
        WT_REQUIRE(tc_filled(m.ranks[peer].slots + slot, 256, (uint32_t)n));
    }
    wt_sync();
}

void tc_case_lines(struct tc_rank *r)
{
    struct weft_mapped m;
    int peer = 1 - r->rank;

    map(r, &m);
    for (uint64_t epoch = 0; epoch < 5000; epoch++) {
        struct weft_ll_line *mine = &m.ranks[r->rank].ll[epoch % m.depth * m.ll_lines];
        struct weft_ll_line *theirs = &m.ranks[peer].ll[epoch % m.depth * m.ll_lines];
        tc_fill(mine->payload, sizeof(mine->payload), (uint32_t)epoch);
        __atomic_store_n(&mine->seq, epoch + 1, __ATOMIC_RELEASE);
        WT_REQUIRE(await(&theirs->seq, epoch + 1));
        WT_REQUIRE(tc_filled(theirs->payload, sizeof(theirs->payload), (uint32_t)epoch));
    }
    wt_sync();
}

struct wait_for {
    const uint64_t *word;
    uint64_t value;
};

static int reached(void *arg)
{
    const struct wait_for *w = arg;
    return __atomic_load_n(w->word, __ATOMIC_ACQUIRE) >= w->value;
}

static void publish(struct tc_rank *r, const struct weft_mapped *m, uint64_t value)
{
    __atomic_store_n(&m->ranks[r->rank].signals[0].value, value, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(m->sleepers, __ATOMIC_RELAXED))
        r->ops->wake(r->group);
}

/* The moment that matters, every time: the peer publishes and wakes after the sleeper has looked, and before it sleeps. */
enum { WINDOWS = 40, LONG_NAP_MS = 90 };

struct window {
    struct tc_rank *rank;
    const struct weft_mapped *map;
    uint64_t number;
    int looks;
};

static int looks_too_early(void *arg)
{
    struct window *w = arg;

    if (w->looks++)
        return 0;
    WT_CHECK(__atomic_load_n(w->map->sleepers, __ATOMIC_ACQUIRE) == 1); /* announced before the look */
    __atomic_store_n(tc_word(w->rank, 0), w->number, __ATOMIC_RELEASE);
    WT_CHECK(await(tc_word(w->rank, 1), w->number));
    return 0;
}

void tc_case_sleep_window(struct tc_rank *r)
{
    int long_naps = 0;
    struct weft_mapped m;

    map(r, &m);
    wt_sync();
    for (uint64_t n = 1; n <= WINDOWS; n++) {
        struct window w = {r, &m, n, 0};
        if (r->rank == 0) {
            r->ops->sleep(r->group, looks_too_early, &w, 1000000000ull);
            uint64_t woken = wt_now_ms(), published = __atomic_load_n(tc_word(r, 2), __ATOMIC_RELAXED);
            WT_REQUIRE(w.looks > 0);
            long_naps += woken - published >= LONG_NAP_MS;
        } else {
            WT_REQUIRE(await(tc_word(r, 0), n));
            publish(r, &m, n);
            __atomic_store_n(tc_word(r, 2), wt_now_ms(), __ATOMIC_RELAXED);
            __atomic_store_n(tc_word(r, 1), n, __ATOMIC_RELEASE);
        }
    }
    /* One that is lost costs the whole nap and is lost every time; stalls of the machine do not come every time. */
    WT_CHECK(long_naps < WINDOWS / 2);
    wt_sync();
}

/* Sleep until the word has the value. Returns the naps that took so long that a wake-up may have been lost. */
static int sleep_until(struct tc_rank *r, struct wait_for *w)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(15000);
    int long_naps = 0;

    while (!reached(w)) {
        uint64_t start = wt_now_ms();
        r->ops->sleep(r->group, reached, w, 1000000000ull);
        long_naps += wt_now_ms() - start >= LONG_NAP_MS;
        WT_REQUIRE(wt_now_ms() < deadline);
    }
    return long_naps;
}

/* A ring of ranks passes a number around; each waits a random while, so that the others are found awake, falling asleep
 * and asleep. A long nap may be a stall of the machine, too, which sanitizers and load make many: what is asserted here is
 * that nearly all passes get by without. Whether a wake-up can be lost at all is decided by tc_case_sleep_window. */
static void pass_around(struct tc_rank *r, uint64_t rounds)
{
    uint32_t seed = (uint32_t)r->rank * 77 + 1;
    int before = (r->rank + r->nranks - 1) % r->nranks, long_naps = 0;
    struct weft_mapped m;

    map(r, &m);
    wt_sync();
    for (uint64_t n = 1; n <= rounds; n++) {
        struct wait_for w = {&m.ranks[before].signals[0].value, r->rank == 0 ? n - 1 : n};
        volatile uint32_t busy = tc_random(&seed) % 8 == 0 ? 0 : tc_random(&seed) % 2000;
        long_naps += sleep_until(r, &w);
        while (busy)
            busy--;
        publish(r, &m, n);
    }
    WT_CHECK(long_naps <= (int)rounds / 200);
    WT_CHECK_INT(r->failures, 0);
    wt_sync();
    WT_CHECK_INT(__atomic_load_n(m.sleepers, __ATOMIC_ACQUIRE), 0);
    wt_sync();
}

void tc_case_sleep_wake(struct tc_rank *r)
{
    pass_around(r, 20000);
}

void tc_case_sleep_crowd(struct tc_rank *r)
{
    pass_around(r, 5000);
}

static int not_pending(void *arg)
{
    (void)arg; /* what moves messages is the transport's to see */
    return 0;
}

void tc_case_sleep_message(struct tc_rank *r)
{
    int long_naps = 0;

    tc_group(r);
    wt_sync();
    for (int n = 0; n < 5000; n++) {
        unsigned char byte = (unsigned char)n;
        struct weft_xfer x;
        tc_xfer(&x, 1 - r->rank, 0, &byte, 1);
        x.info.seq = (uint32_t)n;
        if (r->rank == n % 2) {
            tc_post_send(r, &x);
        } else {
            byte = 0;
            tc_post_recv(r, &x);
        }
        while (tc_progress(r), x.state == WEFT_XFER_PENDING) {
            uint64_t start = wt_now_ms();
            r->ops->sleep(r->group, not_pending, NULL, 1000000000);
            long_naps += wt_now_ms() - start >= LONG_NAP_MS;
        }
        WT_REQUIRE(x.state == WEFT_SUCCESS && byte == (unsigned char)n);
    }
    WT_CHECK(long_naps <= 5000 / 200);
    wt_sync();
}
