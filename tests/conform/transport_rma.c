/* transport_rma.c: gets and puts.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport.h"

#define WINDOW ((size_t)192 << 10)
#define GUARD 64
#define FENCE 4096  /* bytes around a window that are nobody else's */
#define SECRET 0xa5 /* what they hold */
#define PUT 0x5a

/* Memory of every rank that the others get from and put to. */
struct window {
    unsigned char *at, *fenced;
    void *mem;
    struct {
        uint64_t address;
        uint32_t key_bytes;
        unsigned char key[WEFT_MEM_KEY_MAX];
    } told[TC_MAX_RANKS];
    void *remote[TC_MAX_RANKS];
};

static int all_are(const unsigned char *at, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return 0;
    return 1;
}

/* What tc_fill makes of the byte at `i`. */
static unsigned char tc_byte(size_t i, uint32_t seed)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

static void *reg(struct tc_rank *r, void *at, size_t bytes)
{
    void *mem = NULL;

    WT_REQUIRE_OK(r->ops->mem_register(r->endpoint, at, bytes, WEFT_MEMORY_HOST, &mem));
    return mem;
}

static struct window *window_new(struct tc_rank *r)
{
    struct window *w = calloc(1, sizeof *w);
    size_t bytes = 0;

    WT_REQUIRE(w != NULL);
    w->fenced = malloc(WINDOW + 2 * FENCE);
    WT_REQUIRE(w->fenced != NULL);
    memset(w->fenced, SECRET, WINDOW + 2 * FENCE);
    w->at = w->fenced + FENCE;
    tc_fill(w->at, WINDOW, (uint32_t)r->rank);
    w->mem = reg(r, w->at, WINDOW);
    w->told[r->rank].address = (uintptr_t)w->at;
    WT_REQUIRE_OK(r->ops->mem_key(r->endpoint, w->mem, w->told[r->rank].key, WEFT_MEM_KEY_MAX, &bytes));
    WT_REQUIRE(bytes && bytes <= WEFT_MEM_KEY_MAX);
    w->told[r->rank].key_bytes = (uint32_t)bytes;
    WT_REQUIRE_OK(tc_all_gather(r, &w->told[r->rank], sizeof w->told[0], w->told));
    for (int p = 0; p < r->nranks; p++)
        WT_REQUIRE_OK(r->ops->mem_import(r->group, p, w->told[p].key, w->told[p].key_bytes, &w->remote[p]));
    return w;
}

static void window_end(struct tc_rank *r, struct window *w)
{
    for (int p = 0; r->group && p < r->nranks; p++)
        r->ops->mem_forget(r->group, w->remote[p]);
    wt_sync();
    if (w->mem)
        r->ops->mem_deregister(r->endpoint, w->mem);
    WT_CHECK(all_are(w->fenced, FENCE, SECRET) && all_are(w->at + WINDOW, FENCE, SECRET));
    free(w->fenced);
    free(w);
}

static struct weft_rma to_peer(const struct window *w, int peer, void *local, void *mem, size_t at, size_t bytes)
{
    return (struct weft_rma){.local = local,
                             .mem = mem,
                             .bytes = bytes,
                             .peer = peer,
                             .memory = WEFT_MEMORY_HOST,
                             .remote = w->remote[peer],
                             .remote_address = w->told[peer].address + at};
}

/* What there is no room for is posted again after progress. */
static weft_status post(struct tc_rank *r, struct weft_rma *x, int get)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);
    weft_status st;

    while ((st = get ? r->ops->get(r->group, x) : r->ops->put(r->group, x)) == WEFT_EBUSY) {
        WT_CHECK(!r->fixture->channels); /* the layer waits instead */
        WT_REQUIRE(wt_now_ms() < deadline);
        tc_progress(r);
    }
    return st;
}

static void rma_wait(struct tc_rank *r, struct weft_rma *x, size_t count)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);

    for (size_t i = 0; i < count; i++) {
        while (x[i].state == WEFT_XFER_PENDING && wt_now_ms() < deadline)
            tc_progress(r);
        WT_REQUIRE(x[i].state != WEFT_XFER_PENDING);
    }
}

static void moved(struct tc_rank *r, struct weft_rma x, int get)
{
    weft_status st = post(r, &x, get);

    if (st < 0)
        wt_fail(__FILE__, __LINE__, "%s of %zu bytes: %s (%s)", get ? "get" : "put", x.bytes, weft_status_name(st),
                tc_explained(r));
    WT_REQUIRE(st >= 0);
    rma_wait(r, &x, 1);
    WT_CHECK_STATUS(x.state, WEFT_SUCCESS);
}

/* ---- What moves ---- */

static const size_t sizes[] = {0, 1, 3, 8, 63, 64, 65, 1000, 4095, 4096, 65535, 65536, 65537, WINDOW - 3 * GUARD};

/* Got to an odd place, put back to another one of the same rank, with untouched bytes around both. */
static void there_and_back(struct tc_rank *r, struct window *w, int peer, size_t bytes, int registered)
{
    unsigned char *local = malloc(WINDOW);
    void *mem = registered ? reg(r, local, WINDOW) : NULL;
    unsigned char *to = local + GUARD + bytes % 7;

    memset(local, 77, WINDOW);
    moved(r, to_peer(w, peer, to, mem, 5, bytes), 1);
    WT_CHECK(all_are(local, (size_t)(to - local), 77) && all_are(to + bytes, GUARD, 77));
    for (size_t i = 0; i < bytes; i++)
        WT_REQUIRE(to[i] == (unsigned char)((i + 5) * 7 + ((i + 5) >> 8) * 13 + (uint32_t)peer));
    wt_sync();
    memset(w->at, 33, WINDOW);
    wt_sync();
    moved(r, to_peer(w, peer, to, mem, GUARD + 9, bytes), 0);
    wt_sync();
    WT_CHECK(all_are(w->at, GUARD + 9, 33) && all_are(w->at + GUARD + 9 + bytes, GUARD - 9, 33));
    for (size_t i = 0; i < bytes; i++)
        WT_REQUIRE(w->at[GUARD + 9 + i] == (unsigned char)((i + 5) * 7 + ((i + 5) >> 8) * 13 + (uint32_t)r->rank));
    wt_sync();
    tc_fill(w->at, WINDOW, (uint32_t)r->rank);
    wt_sync();
    if (mem)
        r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

void tc_case_rma_sizes(struct tc_rank *r)
{
    int unregistered = r->fixture->channels || !(r->fixture->plugin->caps & WEFT_CAP_REGISTER);
    struct window *w;

    tc_group(r);
    w = window_new(r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        there_and_back(r, w, r->nranks - 1 - r->rank, sizes[i], 1);
        if (unregistered)
            there_and_back(r, w, r->nranks - 1 - r->rank, sizes[i], 0);
    }
    window_end(r, w);
}

#define MANY 96

/* More than there is room for, gets and puts in turn, to all at once. They may end in any order. */
void tc_case_rma_many(struct tc_rank *r)
{
    struct weft_rma x[MANY];
    unsigned char *local = malloc(WINDOW);
    size_t each = WINDOW / 4 / MANY, quarter = WINDOW / 4;
    struct window *w;
    void *mem;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW);
    memset(w->at + 2 * quarter, 0, 2 * quarter);
    tc_fill(local + quarter, quarter, 100 + (uint32_t)r->rank);
    wt_sync();
    for (size_t i = 0; i < MANY;
         i++) { /* gets: the first quarter of the next rank; puts: to that of ours in its second half */
        int peer = (r->rank + 1 + (int)i % (r->nranks - 1)) % r->nranks, get = i % 2 == 0;
        size_t at = i * each;
        x[i] = get ? to_peer(w, peer, local + at, mem, at, each)
                   : to_peer(w, peer, local + quarter + at, mem, 2 * quarter + at, each);
        x[i].state = 123;
        WT_REQUIRE_OK(post(r, &x[i], get));
    }
    rma_wait(r, x, MANY);
    for (size_t i = 0; i < MANY; i++) {
        WT_CHECK_STATUS(x[i].state, WEFT_SUCCESS);
        for (size_t k = i * each; i % 2 == 0 && k < (i + 1) * each; k++)
            WT_REQUIRE(local[k] == (unsigned char)(k * 7 + (k >> 8) * 13 + (uint32_t)x[i].peer));
    }
    wt_sync();
    for (size_t i = 1; i < MANY;
         i += 2) { /* every rank but this one put here when i said so; each stored the same place */
        int from = (r->rank + r->nranks - 1 - (int)i % (r->nranks - 1)) % r->nranks;
        for (size_t k = i * each; k < (i + 1) * each; k++)
            WT_REQUIRE(w->at[2 * quarter + k] == (unsigned char)(k * 7 + (k >> 8) * 13 + 100 + (uint32_t)from));
    }
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

/* A put that has completed is seen by who hears of it. */
void tc_case_rma_visible(struct tc_rank *r)
{
    unsigned char local[GUARD], word = 0;
    struct weft_xfer x;
    struct window *w;
    void *mem = NULL;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, sizeof local);
    for (int i = 1; i < 40; i++) {
        tc_xfer(&x, 1 - r->rank, 2, &word, 1);
        if (r->rank == 0) {
            memset(local, i, sizeof local);
            moved(r, to_peer(w, 1, local, mem, WINDOW - sizeof local, sizeof local), 0);
            tc_post_send(r, &x);
            tc_wait(r, &x, 1);
        } else {
            tc_post_recv(r, &x);
            tc_wait(r, &x, 1);
            WT_CHECK(all_are(w->at + WINDOW - sizeof local, sizeof local, (unsigned char)i));
        }
        tc_sync(r);
    }
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
}

/* ---- What is refused ---- */

static void refused(struct tc_rank *r, struct weft_rma x, weft_status expected)
{
    for (int get = 0; get < 2; get++) {
        weft_status st;
        x.state = 99;
        r->explained[0] = '\0';
        wi_fail_clear();
        st = post(r, &x, get);
        if (st >= 0) {
            rma_wait(r, &x, 1);
            st = x.state;
        } else {
            WT_CHECK_INT(x.state, 99); /* not owned */
        }
        WT_CHECK_STATUS(st, expected);
        WT_CHECK(*tc_explained(r) != '\0');
    }
}

void tc_case_rma_refused(struct tc_rank *r)
{
    unsigned char *local = malloc(WINDOW), key[WEFT_MEM_KEY_MAX + 1] = {0};
    int peer = 1 - r->rank;
    struct weft_rma x;
    struct window *w;
    void *mem, *remote;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW);
    memset(local, 77, WINDOW);
    refused(r, to_peer(w, peer, local, mem, (size_t)-1, 1), WEFT_EINVAL);
    refused(r, to_peer(w, peer, local, mem, WINDOW, 1), WEFT_EINVAL);
    refused(r, to_peer(w, peer, local, mem, WINDOW - 100, 101), WEFT_EINVAL);
    refused(r, to_peer(w, peer, local, mem, 1, WINDOW), WEFT_EINVAL);
    x = to_peer(w, peer, local, mem, 8, SIZE_MAX - 7); /* its end wraps around */
    refused(r, x, WEFT_EINVAL);
    x = to_peer(w, peer, local, mem, 0, 8);
    x.peer = r->nranks;
    refused(r, x, WEFT_EINVAL);
    x.peer = -1;
    refused(r, x, WEFT_EINVAL);
    if (!r->fixture->channels && r->fixture->plugin->caps & WEFT_CAP_REGISTER)
        refused(r, to_peer(w, peer, local, NULL, 0, 8), WEFT_EINVAL);
    memcpy(key, w->told[peer].key, w->told[peer].key_bytes);
    WT_CHECK_STATUS(r->ops->mem_import(r->group, peer, key, w->told[peer].key_bytes - 1, &remote), WEFT_EPROTO);
    WT_CHECK_STATUS(r->ops->mem_import(r->group, peer, key, w->told[peer].key_bytes + 1, &remote), WEFT_EPROTO);
    WT_CHECK_STATUS(r->ops->mem_import(r->group, peer, key, 0, &remote), WEFT_EPROTO);
    WT_CHECK(all_are(local, WINDOW, 77));
    wt_sync();
    WT_CHECK(tc_filled(w->at, WINDOW, (uint32_t)r->rank));
    wt_sync();
    moved(r, to_peer(w, peer, local, mem, 0, WINDOW), 1); /* nothing is spoilt */
    WT_CHECK(tc_filled(local, WINDOW, (uint32_t)peer));
    wt_sync();
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

/* ---- Keys that no rank gave ---- */

/* Stretches of the peer's memory, from the window's beginning: the first lies inside of it. */
static const struct {
    ptrdiff_t at;
    size_t bytes;
} stretches[] = {{8, 16}, {-8, 16}, {WINDOW - 8, 16}, {-FENCE, FENCE}, {WINDOW, FENCE}, {-1, WINDOW + 2}, {WINDOW, 1}};

/* One get or put by a key that is not the peer's. It ends well only inside of what the peer has registered, and then it moved just
 * that; else it is refused, and says why. */
static void by_forged(struct tc_rank *r, const struct window *w, int peer, void *remote, unsigned char *local,
                      void *mem, int get)
{
    for (size_t i = 0; i < sizeof stretches / sizeof *stretches; i++) {
        struct weft_rma x = to_peer(w, peer, local, mem, (size_t)stretches[i].at, stretches[i].bytes);
        weft_status st;
        x.remote = remote;
        x.state = 99;
        r->explained[0] = '\0';
        wi_fail_clear();
        memset(local, PUT, stretches[i].bytes);
        st = post(r, &x, get);
        if (st >= 0) {
            rma_wait(r, &x, 1);
            st = x.state;
        }
        for (size_t k = 0; get && k < stretches[i].bytes; k++)
            if (st >= 0)
                WT_REQUIRE(local[k] == tc_byte((size_t)stretches[i].at + k, (uint32_t)peer));
            else
                WT_REQUIRE(local[k] == PUT || local[k] == tc_byte((size_t)stretches[i].at + k, (uint32_t)peer));
        if (i == 0 && st >= 0)
            continue;
        if (st != WEFT_EINVAL && st != WEFT_EPROTO)
            wt_fail(__FILE__, __LINE__, "%zu bytes at %zd of a window: %s", stretches[i].bytes, stretches[i].at,
                    weft_status_name(st));
        WT_CHECK(*tc_explained(r) != '\0');
    }
}

static void by_key(struct tc_rank *r, const struct window *w, int peer, const unsigned char *key, size_t key_bytes,
                   unsigned char *local, void *mem, int get)
{
    void *remote = NULL;
    weft_status st;

    r->explained[0] = '\0';
    wi_fail_clear();
    st = r->ops->mem_import(r->group, peer, key, key_bytes, &remote);
    if (st < 0) {
        WT_CHECK(st == WEFT_EPROTO || st == WEFT_EINVAL);
        WT_CHECK(*tc_explained(r) != '\0');
        return;
    }
    by_forged(r, w, peer, remote, local, mem, get);
    r->ops->mem_forget(r->group, remote);
}

/* Each byte of a key changed, in some ways, and keys of nothing but random bytes. */
static void forge(struct tc_rank *r, const struct window *w, int peer, unsigned char *local, void *mem, int get)
{
    static const unsigned char flips[] = {0x01, 0x40, 0x80, 0xff};
    size_t bytes = w->told[peer].key_bytes;
    unsigned char key[WEFT_MEM_KEY_MAX];
    uint32_t seed = 5;

    for (size_t i = 0; i < bytes * sizeof flips; i++) {
        memcpy(key, w->told[peer].key, sizeof key);
        key[i / sizeof flips] ^= flips[i % sizeof flips];
        by_key(r, w, peer, key, bytes, local, mem, get);
    }
    for (int i = 0; i < 20; i++) {
        for (size_t k = 0; k < bytes; k++)
            key[k] = (unsigned char)tc_random(&seed);
        by_key(r, w, peer, key, bytes, local, mem, get);
    }
}

/* A key is what the peer gave: of any other no byte outside of what the peer has registered is read or written, and there it is
 * the peer's all the same. A key that this rank has given itself is not the peer's. */
void tc_case_rma_forged(struct tc_rank *r)
{
    unsigned char *local = malloc(WINDOW + 2 * FENCE);
    int peer = 1 - r->rank, puts = (r->fixture->plugin->caps & WEFT_CAP_PUT) != 0;
    struct weft_rma x;
    struct window *w;
    void *mem, *remote = NULL;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW + 2 * FENCE);
    forge(r, w, peer, local, mem, 1);
    tc_sync(r);
    if (puts)
        forge(r, w, peer, local, mem, 0);
    tc_sync(r);
    for (size_t k = 0; k < WINDOW; k++) /* of refused puts a part may have come where it was allowed to */
        WT_REQUIRE((k < 24 || k >= WINDOW - 8) ? w->at[k] == PUT || w->at[k] == tc_byte(k, (uint32_t)r->rank)
                                               : w->at[k] == tc_byte(k, (uint32_t)r->rank));
    tc_sync(r);
    if (r->ops->mem_import(r->group, peer, w->told[r->rank].key, w->told[r->rank].key_bytes, &remote) >= 0) {
        x = to_peer(w, peer, local, mem, 0, 16);
        x.remote = remote;
        x.remote_address = w->told[r->rank].address;
        refused(r, x, WEFT_EINVAL);
        r->ops->mem_forget(r->group, remote);
    }
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

/* The peer takes its memory back: what comes later is refused, what was on its way has come or is. */
void tc_case_rma_taken_back(struct tc_rank *r)
{
    struct weft_rma x[16];
    unsigned char *local = malloc(WINDOW);
    int peer = 1 - r->rank;
    struct window *w;
    void *mem;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW);
    for (size_t i = 0; r->rank == 0 && i < 16; i++) {
        x[i] = to_peer(w, peer, local + i * 1000, mem, i * 1000, 1000);
        WT_REQUIRE_OK(post(r, &x[i], 1));
    }
    wt_sync();
    if (r->rank == 1) {
        r->ops->mem_deregister(r->endpoint, w->mem);
        w->mem = NULL;
    }
    wt_sync();
    if (r->rank == 0) {
        rma_wait(r, x, 16);
        for (size_t i = 0; i < 16; i++)
            WT_CHECK(x[i].state == WEFT_SUCCESS || x[i].state == WEFT_EPROTO);
        refused(r, to_peer(w, peer, local, mem, 0, 8), WEFT_EPROTO);
        WT_CHECK(strstr(tc_explained(r), "rank 1") != NULL);
        WT_CHECK_INT(r->failures, 0);
    } else {
        moved(r, to_peer(w, peer, local, mem, 0, WINDOW), 1); /* the other way it goes on */
        WT_CHECK(tc_filled(local, WINDOW, 0));
    }
    wt_sync();
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

/* ---- What ends early ---- */

static void post_some(struct tc_rank *r, struct window *w, struct weft_rma *x, unsigned char *local, void *mem,
                      int peer)
{
    for (size_t i = 0; i < 8; i++) {
        x[i] = to_peer(w, peer, local + i * 4096, mem, i * 4096, 4096);
        WT_REQUIRE_OK(post(r, &x[i], i % 2 == 0));
    }
}

/* One rank gives up after some rounds. Neither what it gets to nor what others put to it is written after that. */
static void quiesce_one(struct tc_rank *r, int rounds, int quitter)
{
    unsigned char *local = malloc(WINDOW);
    struct weft_rma x[8];
    struct window *w;
    void *mem;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW);
    memset(local, 1, WINDOW);
    wt_sync();
    post_some(r, w, x, local, mem, 1 - r->rank);
    for (int i = 0; i < rounds; i++)
        tc_progress(r);
    wt_sync();
    if (r->rank == quitter) {
        WT_CHECK_OK(r->ops->quiesce(r->group, wi_deadline_ns(1000000000ull)));
        for (size_t i = 0; i < 8; i++)
            WT_CHECK(x[i].state == WEFT_SUCCESS || x[i].state == WEFT_ECANCELED);
        memset(local, 9, WINDOW);
        memset(w->at, 9, WINDOW);
    }
    wt_sync();
    for (int i = 0; r->rank != quitter && i < 300; i++)
        tc_progress(r);
    wt_sync();
    WT_CHECK(r->rank != quitter || (all_are(local, WINDOW, 9) && all_are(w->at, WINDOW, 9)));
    if (r->rank == quitter)
        tc_group_end(r, 1);
    wt_sync();
    if (r->rank != quitter) {
        rma_wait(r, x, 8);
        for (size_t i = 0; i < 8; i++) {
            WT_CHECK(x[i].state == WEFT_SUCCESS || x[i].state == WEFT_EPEER || x[i].state == WEFT_EABORTED);
            if (x[i].state == WEFT_SUCCESS && i % 2 == 0)
                for (size_t k = i * 4096; k < (i + 1) * 4096; k++) /* read in time */
                    WT_REQUIRE(local[k] == 1 || local[k] == (unsigned char)(k * 7 + (k >> 8) * 13 + (uint32_t)quitter));
        }
        tc_group_end(r, 1);
    }
    window_end(r, w);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

void tc_case_rma_quiesce(struct tc_rank *r)
{
    for (int rounds = 0; rounds < 12; rounds += rounds < 6 ? 1 : 3)
        quiesce_one(r, rounds, rounds % 2);
}

/* The group ends with gets and puts pending: their memory is not touched any more. */
void tc_case_rma_destroy(struct tc_rank *r)
{
    unsigned char *local = malloc(WINDOW);

    for (int round = 0; round < 6; round++) {
        struct weft_rma x[8];
        struct window *w;
        void *mem;
        tc_group(r);
        w = window_new(r);
        mem = round % 2 || !r->fixture->channels ? reg(r, local, WINDOW) : NULL;
        wt_sync();
        post_some(r, w, x, local, mem, 1 - r->rank);
        wt_sync();
        for (int i = 0; i < round; i++)
            tc_progress(r);
        tc_group_end(r, round % 3 == 0);
        memset(local, 9, WINDOW);
        wt_sync();
        memset(w->at, 9, WINDOW);
        wt_sync();
        WT_CHECK(all_are(local, WINDOW, 9) && all_are(w->at, WINDOW, 9));
        if (mem)
            r->ops->mem_deregister(r->endpoint, mem);
        window_end(r, w);
    }
    free(local);
}

/* A peer that is gone, in order or not: what is pending ends, and more is refused. */
static void gone(struct tc_rank *r, int aborted)
{
    unsigned char *local = malloc(WINDOW);
    struct weft_rma x[8], more;
    struct window *w;
    void *mem;

    tc_group(r);
    w = window_new(r);
    mem = reg(r, local, WINDOW);
    if (r->rank == 0)
        post_some(r, w, x, local, mem, 1);
    wt_sync();
    if (r->rank == 1)
        tc_group_end(r, aborted);
    wt_sync();
    if (r->rank == 0) {
        rma_wait(r, x, 8);
        for (size_t i = 0; i < 8; i++)
            WT_CHECK(x[i].state == WEFT_SUCCESS || x[i].state == WEFT_EPEER || x[i].state == WEFT_EABORTED);
        more = to_peer(w, 1, local, mem, 0, 8);
        refused(r, more, WEFT_EPEER);
    }
    wt_sync();
    window_end(r, w);
    if (r->group)
        tc_group_end(r, 0);
    r->ops->mem_deregister(r->endpoint, mem);
    free(local);
}

void tc_case_rma_gone(struct tc_rank *r)
{
    gone(r, 0);
    wt_sync();
    gone(r, 1);
}
