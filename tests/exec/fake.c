/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

#define GUARD 256 /* bytes behind an arena's areas */
#define GUARD_BYTE 0x5a

/* A message from its send's post until both sides are through with it. */
struct sent {
    struct sent *next; /* of the sender, in order */
    struct weft_xfer *x;
    int to;
    uint32_t chan;
    struct weft_op_info info;
    size_t bytes;
    unsigned char *data;      /* what was sent; the buffer must still hold it when the send is through */
    struct weft_xfer *meets;  /* the receive */
    size_t at;                /* bytes delivered */
    uint8_t taken, delivered; /* taken: the send is through as far as the transport is concerned */
};

struct arena {
    struct weft_signal *signals, *done;
    struct weft_ll_line *ll;
    unsigned char *slots;
    struct weft_board board;
    size_t ll_bytes, slots_bytes;
};

struct fake_rank {
    struct fake *fake;
    int rank;
    struct sent *sent, **sent_end;
    struct weft_xfer *recvs, **recvs_end; /* by weft_xfer.next */
    struct arena arena;
};

struct fake {
    int nranks;
    struct fake_knobs knobs;
    uint64_t rng;
    struct fake_rank *ranks;
    struct weft_mapped_rank *mapped;
    uint32_t sleepers;
    void (*sleep)(void *arg, int rank);
    void *sleep_arg;
    struct fake_seen seen;
    char wrong[256];
};

uint32_t fake_random(uint64_t *rng, uint32_t below)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return (uint32_t)((*rng >> 32) * below >> 32);
}

static int chance(struct fake *f, uint32_t of8)
{
    return fake_random(&f->rng, 8) < of8;
}

__attribute__((format(printf, 2, 3))) static void complain(struct fake *f, const char *format, ...)
{
    va_list ap;

    if (f->wrong[0])
        return;
    va_start(ap, format);
    vsnprintf(f->wrong, sizeof f->wrong, format, ap);
    va_end(ap);
}

/* ---- Arenas ---- */

static void *area(size_t bytes, int fill)
{
    unsigned char *p = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);

    if (!p)
        return NULL;
    memset(p, fill, bytes);
    memset(p + bytes, GUARD_BYTE, GUARD);
    return p;
}

static int create_arena(struct fake *f, int rank)
{
    struct arena *a = &f->ranks[rank].arena;

    a->ll_bytes = (size_t)f->knobs.ll_depth * f->knobs.ll_lines * sizeof *a->ll;
    a->slots_bytes = (size_t)f->knobs.depth * f->knobs.slot_bytes;
    a->signals = area(WI_SCHED_MAX_MAPPED_LANES * sizeof *a->signals, 0);
    a->done = area(sizeof *a->done, 0);
    a->ll = area(a->ll_bytes, 0);
    a->slots = area(a->slots_bytes, 0xa5); /* nothing may count on what a slot holds */
    if (!a->signals || !a->done || !a->ll || !a->slots)
        return 0;
    f->mapped[rank] = (struct weft_mapped_rank){a->signals, a->done, a->ll, a->slots, &a->board, NULL};
    return 1;
}

static void judge_guard(struct fake *f, int rank, const void *area, size_t bytes, const char *what)
{
    const unsigned char *guard = (const unsigned char *)area + bytes;

    for (int i = 0; i < GUARD; i++)
        if (guard[i] != GUARD_BYTE)
            complain(f, "somebody stored %d bytes behind the %s of rank %d", i, what, rank);
}

/* ---- Creation ---- */

struct fake *fake_create(int nranks, const struct fake_knobs *knobs)
{
    struct fake *f = calloc(1, sizeof *f);
    int ok;

    if (!f)
        return NULL;
    f->nranks = nranks;
    f->knobs = *knobs;
    f->rng = (knobs->seed + 1) * 0x9e3779b97f4a7c15ull | 1;
    f->ranks = calloc((size_t)nranks, sizeof *f->ranks);
    f->mapped = calloc((size_t)nranks, sizeof *f->mapped);
    ok = f->ranks && f->mapped;
    for (int r = 0; ok && r < nranks; r++) {
        f->ranks[r].fake = f;
        f->ranks[r].rank = r;
        f->ranks[r].sent_end = &f->ranks[r].sent;
        f->ranks[r].recvs_end = &f->ranks[r].recvs;
        ok = !knobs->mapped || create_arena(f, r);
    }
    if (ok)
        return f;
    fake_destroy(f);
    return NULL;
}

void fake_destroy(struct fake *f)
{
    for (int r = 0; f && f->ranks && r < f->nranks; r++) {
        struct fake_rank *k = &f->ranks[r];
        while (k->sent) {
            struct sent *s = k->sent;
            k->sent = s->next;
            free(s->data);
            free(s);
        }
        free(k->arena.signals);
        free(k->arena.done);
        free(k->arena.ll);
        free(k->arena.slots);
    }
    if (f) {
        free(f->ranks);
        free(f->mapped);
    }
    free(f);
}

void *fake_group(struct fake *f, int rank)
{
    return &f->ranks[rank];
}

void fake_on_sleep(struct fake *f, void (*sleep)(void *arg, int rank), void *arg)
{
    f->sleep = sleep;
    f->sleep_arg = arg;
}

const struct fake_seen *fake_seen(const struct fake *f)
{
    return &f->seen;
}

const char *fake_judge(struct fake *f, int ended)
{
    for (int r = 0; r < f->nranks; r++) {
        const struct fake_rank *k = &f->ranks[r];
        for (const struct sent *s = k->sent; s && ended; s = s->next)
            if (!s->delivered)
                complain(f, "a message of %zu bytes from rank %d to rank %d was not received", s->bytes, r, s->to);
        for (const struct weft_xfer *x = k->recvs; x && ended; x = x->next)
            if (!x->background)
                complain(f, "rank %d waits for a message of rank %d that was not sent", r, x->peer);
        if (!f->knobs.mapped)
            continue;
        judge_guard(f, r, k->arena.signals, WI_SCHED_MAX_MAPPED_LANES * sizeof *k->arena.signals, "signals");
        judge_guard(f, r, k->arena.done, sizeof *k->arena.done, "done word");
        judge_guard(f, r, k->arena.ll, k->arena.ll_bytes, "ll lines");
        judge_guard(f, r, k->arena.slots, k->arena.slots_bytes, "slots");
    }
    return f->wrong[0] ? f->wrong : NULL;
}

/* ---- Sending ---- */

static void judge_sent(struct fake *f, int rank, const struct sent *s)
{
    if (s->x && s->bytes && memcmp(s->x->buf, s->data, s->bytes) != 0)
        complain(f, "rank %d changed a buffer of %zu bytes while it was sent to rank %d", rank, s->bytes, s->to);
}

static void complete_send(struct fake *f, int rank, struct sent *s)
{
    judge_sent(f, rank, s);
    if (!s->x)
        return;
    s->x->state = WEFT_SUCCESS;
    s->x = NULL;
}

static weft_status fake_send(void *group, struct weft_xfer *x)
{
    struct fake_rank *k = group;
    struct fake *f = k->fake;
    struct sent *s = calloc(1, sizeof *s);

    if (!s)
        return WEFT_ENOMEM;
    *s = (struct sent){.x = x, .to = x->peer, .chan = x->chan, .info = x->info, .bytes = x->bytes};
    s->data = malloc(x->bytes + 1);
    if (!s->data) {
        free(s);
        return WEFT_ENOMEM;
    }
    if (x->bytes)
        memcpy(s->data, x->buf, x->bytes);
    *k->sent_end = s;
    k->sent_end = &s->next;
    f->seen.messages++;
    s->taken = fake_random(&f->rng, 4) < f->knobs.eager;
    if (s->taken && !chance(f, f->knobs.late))
        complete_send(f, k->rank, s);
    return WEFT_SUCCESS;
}

/* Sends that are through; what both sides are through with goes. */
static int complete_sends(struct fake_rank *k)
{
    struct fake *f = k->fake;
    int events = 0;

    for (struct sent **at = &k->sent, *s; (s = *at) != NULL;) {
        if (s->x && (s->taken || s->delivered)) {
            if (chance(f, f->knobs.late)) {
                f->seen.late++;
            } else {
                complete_send(f, k->rank, s);
                events++;
            }
        }
        if (s->x || !s->delivered) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        if (k->sent_end == &s->next)
            k->sent_end = at;
        free(s->data);
        free(s);
    }
    return events;
}

/* ---- Receiving ---- */

static weft_status fake_recv(void *group, struct weft_xfer *x)
{
    struct fake_rank *k = group;

    x->next = NULL;
    if (!x->sink && !x->background && x->bytes) /* until it is received the buffer is the transport's */
        memset(x->buf, 0xc3 ^ (int)(k->rank * 16), x->bytes);
    *k->recvs_end = x;
    k->recvs_end = &x->next;
    return WEFT_SUCCESS;
}

/* The oldest message of that channel that no receive before has. */
static struct sent *find_sent(struct fake_rank *from, int to, uint32_t chan, const struct weft_xfer *x)
{
    for (struct sent *s = from->sent; s; s = s->next)
        if (!s->delivered && s->to == to && s->chan == chan)
            return !s->meets || s->meets == x ? s : NULL;
    return NULL;
}

static int is_oldest(const struct fake_rank *k, const struct weft_xfer *x)
{
    const struct weft_xfer *o = k->recvs;

    while (o->peer != x->peer || o->chan != x->chan)
        o = o->next;
    return o == x;
}

static void unlink_recv(struct fake_rank *k, struct weft_xfer *x)
{
    struct weft_xfer **at = &k->recvs;

    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    if (k->recvs_end == &x->next)
        k->recvs_end = at;
}

static void end_recv(struct fake_rank *k, struct weft_xfer *x, struct sent *s, int state)
{
    s->delivered = 1;
    unlink_recv(k, x);
    x->state = state;
}

/* Is it as long as the receive wants, and does it mean the same? */
static int meet(struct fake_rank *k, struct weft_xfer *x, struct sent *s)
{
    struct fake *f = k->fake;

    s->meets = x;
    x->actual = s->bytes;
    f->seen.up_to += x->up_to && s->bytes < x->bytes;
    if (memcmp(&s->info, &x->info, sizeof s->info) != 0 || (s->bytes < x->bytes && !x->up_to)) {
        complain(f, "rank %d waits for %zu bytes of operation %u, rank %d sends %zu of %u", k->rank, x->bytes,
                 x->info.seq, x->peer, s->bytes, s->info.seq);
        x->peer_info = s->info;
        end_recv(k, x, s, WEFT_EMISMATCH);
    } else if (s->bytes > x->bytes) {
        complain(f, "rank %d has room for %zu bytes, rank %d sends %zu", k->rank, x->bytes, x->peer, s->bytes);
        end_recv(k, x, s, WEFT_ETRUNC);
    }
    return !s->delivered;
}

static size_t piece_of(struct fake *f, const struct weft_xfer *x, size_t left)
{
    size_t elems = left / x->granule, few = elems > 24 ? elems / 3 : 3;

    if (!f->knobs.pieces || elems < 2)
        return left;
    elems = 1 + fake_random(&f->rng, (uint32_t)few);
    return elems * x->granule < left ? elems * x->granule : left;
}

/* The sender's buffer is the transport's to read until all has been delivered. */
static void deliver(struct fake_rank *k, struct weft_xfer *x, struct sent *s)
{
    struct fake *f = k->fake;
    size_t n = piece_of(f, x, s->bytes - s->at);
    const unsigned char *from = s->taken ? s->data : s->x->buf;

    f->seen.pieces++;
    if (x->sink && s->bytes) {
        f->seen.sinks++;
        x->sink(x, s->at, from + s->at, n);
    } else if (n) {
        memcpy((unsigned char *)x->buf + s->at, from + s->at, n);
    }
    s->at += n;
    if (s->at < s->bytes)
        return;
    judge_sent(f, x->peer, s);
    if (!x->sink && s->bytes && memcmp(x->buf, s->data, s->bytes) != 0)
        complain(f, "rank %d changed a buffer of %zu bytes that it receives from rank %d into", k->rank, s->bytes,
                 x->peer);
    end_recv(k, x, s, WEFT_SUCCESS);
}

static int receive(struct fake_rank *k)
{
    struct fake *f = k->fake;
    int events = 0;

    for (struct weft_xfer *x = k->recvs, *next; x; x = next) {
        struct sent *s;
        next = x->next;
        if (x->background || !is_oldest(k, x))
            continue;
        s = find_sent(&f->ranks[x->peer], k->rank, x->chan, x);
        f->seen.waited += !s;
        if (!s || chance(f, f->knobs.lazy))
            continue;
        if (s->meets || meet(k, x, s))
            deliver(k, x, s);
        events++;
    }
    return events;
}

static int fake_progress(void *group, struct weft_peer_failure *failure)
{
    struct fake_rank *k = group;

    (void)failure;
    return receive(k) + complete_sends(k);
}

/* Other ranks' progress touches a rank's buffers: no more. */
static weft_status fake_quiesce(void *group, uint64_t deadline_ns)
{
    struct fake_rank *k = group;

    (void)deadline_ns;
    for (struct sent *s = k->sent; s; s = s->next) {
        s->taken = 1;
        if (s->x)
            s->x->state = WEFT_ECANCELED;
        s->x = NULL;
    }
    while (k->recvs) {
        struct weft_xfer *x = k->recvs;
        for (int r = 0; r < k->fake->nranks; r++)
            for (struct sent *s = k->fake->ranks[r].sent; s; s = s->next)
                s->delivered |= s->meets == x;
        unlink_recv(k, x);
        x->state = WEFT_ECANCELED;
    }
    return WEFT_SUCCESS;
}

/* ---- The rest ---- */

static int fake_poll_fd(void *group)
{
    (void)group;
    return -1;
}

static int fake_poll_arm(void *group)
{
    (void)group;
    return 0;
}

static weft_status fake_mapped(void *group, struct weft_mapped *mapped)
{
    struct fake *f = ((struct fake_rank *)group)->fake;

    *mapped = (struct weft_mapped){.nlanes = WI_SCHED_MAX_MAPPED_LANES,
                                   .depth = f->knobs.depth,
                                   .ll_depth = f->knobs.ll_depth,
                                   .ll_lines = f->knobs.ll_lines,
                                   .slot_bytes = f->knobs.slot_bytes,
                                   .ranks = f->mapped,
                                   .sleepers = &f->sleepers};
    return WEFT_SUCCESS;
}

static void fake_sleep(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns)
{
    struct fake_rank *k = group;

    (void)ready;
    (void)arg;
    (void)timeout_ns;
    k->fake->seen.sleeps++;
    if (!k->fake->sleep)
        complain(k->fake, "rank %d sleeps", k->rank);
    else /* also if it need not: a rank that waits for what never comes must not keep the others waiting */
        k->fake->sleep(k->fake->sleep_arg, k->rank);
}

static void fake_wake(void *group)
{
    (void)group;
}

/* Addresses are the same for all: one process. */
static weft_status fake_mem_get(void *group, int peer, uint64_t remote, void *local, size_t bytes)
{
    (void)peer;
    ((struct fake_rank *)group)->fake->seen.gets++;
    memcpy(local, (const void *)(uintptr_t)remote, bytes);
    return WEFT_SUCCESS;
}

static weft_status fake_mem_put(void *group, int peer, uint64_t remote, const void *local, size_t bytes)
{
    (void)peer;
    ((struct fake_rank *)group)->fake->seen.puts++;
    memcpy((void *)(uintptr_t)remote, local, bytes);
    return WEFT_SUCCESS;
}

static size_t fake_describe(void *group, int peer, char *text, size_t capacity)
{
    (void)group;
    (void)peer;
    (void)text;
    (void)capacity;
    return 0;
}

static int fake_peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    (void)group;
    (void)peer;
    (void)chan;
    (void)connect;
    (void)info;
    (void)bytes;
    return 0;
}

const struct weft_transport_ops fake_ops = {
    .bytes = sizeof fake_ops,
    .send = fake_send,
    .recv = fake_recv,
    .progress = fake_progress,
    .quiesce = fake_quiesce,
    .poll_fd = fake_poll_fd,
    .poll_arm = fake_poll_arm,
    .mapped = fake_mapped,
    .sleep = fake_sleep,
    .wake = fake_wake,
    .mem_get = fake_mem_get,
    .mem_put = fake_mem_put,
    .describe_peer = fake_describe,
    .peek = fake_peek,
};
