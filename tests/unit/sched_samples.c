/* SPDX-License-Identifier: BSD-3-Clause */
/* Small schedules, right by construction. Not the algorithms of the library: simpler, and independent of them. */
#include "sched_samples.h"

#include <string.h>

#include "base/status.h"

#define NO WI_NO_PEER

static uint32_t one(int nranks)
{
    (void)nranks;
    return 1;
}

static uint32_t none(int nranks)
{
    (void)nranks;
    return 0;
}

static uint32_t ranks(int nranks)
{
    return (uint32_t)nranks;
}

static uint32_t three(int nranks)
{
    (void)nranks;
    return 3;
}

/* SRC of this rank, under the name that is right in place too. */
static struct wi_region src_all(const struct wi_sched_spec *s, uint32_t n)
{
    (void)s;
    return wi_at(WI_SRC, 0, n);
}

/* ---- Two-sided ---- */

/* Block b starts at rank b and is complete on rank b-1. */
static void ring(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, r = s->rank;

    if (p == 1) {
        uint32_t lane = wi_sched_lane(b, NO, NO, 0);
        if (!s->in_place)
            wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
        return;
    }
    uint32_t lane = wi_sched_lane(b, (r + 1) % p, (r + p - 1) % p, 0);
    wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)r, 1));
    for (int k = 1; k < p; k++) {
        uint32_t at = (uint32_t)((r - k + p) % p);
        wi_sched_recv_reduce_send(b, lane, wi_at(WI_DST, at, 1), wi_at(WI_SRC, at, 1), k == p - 1 ? WI_STEP_FINAL : 0);
    }
    for (int k = 0; k < p - 1; k++) {
        uint32_t at = (uint32_t)((r - k + p) % p);
        if (k < p - 2)
            wi_sched_recv_send(b, lane, wi_at(WI_DST, at, 1));
        else
            wi_sched_recv(b, lane, wi_at(WI_DST, at, 1));
    }
}

/* The prefix travels up in rank order, the result down; every rank two lanes. */
static void chain_reduce(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, r = s->rank;
    uint32_t n = s->nblocks;
    uint32_t up = wi_sched_lane(b, r + 1 < p ? r + 1 : NO, r > 0 ? r - 1 : NO, 0);
    uint32_t down = wi_sched_lane(b, r > 0 ? r - 1 : NO, r + 1 < p ? r + 1 : NO, 1);
    unsigned left = WI_STEP_RECV_LEFT;

    if (p == 1) {
        if (!s->in_place)
            wi_sched_copy(b, up, wi_at(WI_DST, 0, n), src_all(s, n));
        return;
    }
    if (r == 0) {
        wi_sched_send(b, up, src_all(s, n));
        wi_sched_recv(b, down, wi_at(WI_DST, 0, n));
    } else if (r < p - 1) {
        wi_sched_recv_reduce_send(b, up, wi_at(WI_TMP, 0, n), src_all(s, n), left);
        wi_sched_recv_send(b, down, wi_at(WI_DST, 0, n));
    } else {
        uint32_t k = wi_sched_recv_reduce(b, up, wi_at(WI_DST, 0, n), src_all(s, n), left | WI_STEP_FINAL);
        wi_sched_send(b, down, wi_at(WI_DST, 0, n));
        wi_sched_after(b, down, up, k);
    }
}

static void scan(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, r = s->rank;
    uint32_t n = s->nblocks;
    uint32_t lane = wi_sched_lane(b, r + 1 < p ? r + 1 : NO, r > 0 ? r - 1 : NO, 0);

    if (r == 0) {
        if (!s->in_place)
            wi_sched_copy(b, lane, wi_at(WI_DST, 0, n), src_all(s, n));
        if (p > 1)
            wi_sched_send(b, lane, src_all(s, n));
    } else if (r < p - 1) {
        wi_sched_recv_reduce_send(b, lane, wi_at(WI_DST, 0, n), src_all(s, n), WI_STEP_RECV_LEFT);
    } else {
        wi_sched_recv_reduce(b, lane, wi_at(WI_DST, 0, n), src_all(s, n), WI_STEP_RECV_LEFT);
    }
}

static void exscan(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, r = s->rank;
    uint32_t n = s->nblocks;
    uint32_t lane = wi_sched_lane(b, r + 1 < p ? r + 1 : NO, r > 0 ? r - 1 : NO, 0);
    struct wi_region in = wi_at(WI_TMP, 0, n), sum = wi_at(WI_TMP, n, n), operands[2] = {in, src_all(s, n)};

    if (r == 0 && p > 1) {
        wi_sched_send(b, lane, src_all(s, n));
    } else if (r > 0) {
        wi_sched_recv(b, lane, in);
        if (r < p - 1) {
            wi_sched_reduce(b, lane, &sum, 1, operands, 2, 0);
            wi_sched_send(b, lane, sum);
        }
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, n), in);
    }
}

/* The root takes from all, one lane each, and adds in rank order. */
static void flat_reduce(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    struct wi_region operands[64];
    uint32_t n = s->nblocks;

    if (s->rank != s->root) {
        wi_sched_send(b, wi_sched_lane(b, s->root, NO, 0), src_all(s, n));
        return;
    }
    uint32_t sum = wi_sched_lane(b, NO, NO, 0);
    for (int r = 0; r < s->nranks; r++)
        operands[r] = r == s->root ? src_all(s, n) : wi_at(WI_TMP, (uint32_t)r * n, n);
    struct wi_region dst = wi_at(WI_DST, 0, n);
    wi_sched_reduce(b, sum, &dst, 1, operands, (uint32_t)s->nranks, WI_STEP_FINAL);
    for (int r = 0; r < s->nranks; r++) {
        if (r == s->root)
            continue;
        uint32_t lane = wi_sched_lane(b, NO, r, 0);
        wi_sched_after(b, sum, lane, wi_sched_recv(b, lane, operands[r]));
    }
}

static uint32_t flat_reduce_tmp(int nranks)
{
    return 3 * (uint32_t)nranks;
}

/* Binomial, ranks counted from the root. */
static void tree_broadcast(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, v = (s->rank - s->root + p) % p, low = v ? v & -v : p;
    uint32_t n = s->nblocks, lane = 0, got = 0;

    if (v) {
        lane = wi_sched_lane(b, NO, (v - low + s->root) % p, 0);
        got = wi_sched_recv(b, lane, wi_at(WI_DST, 0, n));
    } else if (!s->in_place) {
        lane = wi_sched_lane(b, NO, NO, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, n), src_all(s, n));
    }
    for (int bit = 1; bit < low && v + bit < p; bit *= 2) {
        uint32_t out = wi_sched_lane(b, (v + bit + s->root) % p, NO, 0);
        wi_sched_send(b, out, wi_at(v ? WI_DST : WI_SRC, 0, n));
        if (v)
            wi_sched_after(b, out, lane, got);
    }
}

static void ring_all_gather(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, r = s->rank;
    uint32_t own = wi_sched_lane(b, NO, NO, 0);

    if (!s->in_place)
        wi_sched_copy(b, own, wi_at(WI_DST, (uint32_t)r, 1), wi_at(WI_SRC, 0, 1));
    if (p == 1)
        return;
    uint32_t lane = wi_sched_lane(b, (r + 1) % p, (r + p - 1) % p, 0);
    wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
    for (int k = 1; k < p; k++) {
        struct wi_region at = wi_at(WI_DST, (uint32_t)((r - k + p) % p), 1);
        if (k < p - 1)
            wi_sched_recv_send(b, lane, at);
        else
            wi_sched_recv(b, lane, at);
    }
}

/* A lane per peer; what is received lies in TMP until all of it is added in rank order. */
static void flat_reduce_scatter(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    struct wi_region operands[256], dst = wi_at(WI_DST, 0, 1);
    uint32_t sum = wi_sched_lane(b, NO, NO, 0);

    for (int r = 0; r < s->nranks; r++)
        operands[r] = wi_at(r == s->rank ? WI_SRC : WI_TMP, (uint32_t)r, 1);
    wi_sched_reduce(b, sum, &dst, 1, operands, (uint32_t)s->nranks, WI_STEP_FINAL);
    for (int r = 0; r < s->nranks; r++) {
        if (r == s->rank)
            continue;
        uint32_t lane = wi_sched_lane(b, r, r, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)r, 1));
        wi_sched_after(b, sum, lane, wi_sched_recv(b, lane, operands[r]));
    }
}

static void flat_all_to_all(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    for (int k = 0; k < s->nranks; k++) {
        uint32_t peer = (uint32_t)((s->rank + k) % s->nranks);
        uint32_t lane = wi_sched_lane(b, k ? (int)peer : NO, k ? (int)peer : NO, 0);
        if (k == 0) {
            wi_sched_copy(b, lane, wi_at(WI_DST, peer, 1), wi_at(WI_SRC, peer, 1));
            continue;
        }
        wi_sched_send(b, lane, wi_at(WI_SRC, peer, 1));
        wi_sched_recv(b, lane, wi_at(WI_DST, peer, 1));
    }
}

static void flat_gather(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    for (int r = 0; r < s->nranks; r++) {
        if (r == s->root && s->rank == s->root && !s->in_place)
            wi_sched_copy(b, wi_sched_lane(b, NO, NO, 0), wi_at(WI_DST, (uint32_t)r, 1), wi_at(WI_SRC, 0, 1));
        else if (r != s->root && s->rank == s->root)
            wi_sched_recv(b, wi_sched_lane(b, NO, r, 0), wi_at(WI_DST, (uint32_t)r, 1));
        else if (r != s->root && s->rank == r)
            wi_sched_send(b, wi_sched_lane(b, s->root, NO, 0), wi_at(WI_SRC, 0, 1));
    }
}

static void flat_scatter(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    for (int r = 0; r < s->nranks; r++) {
        if (r == s->root && s->rank == s->root && !s->in_place)
            wi_sched_copy(b, wi_sched_lane(b, NO, NO, 0), wi_at(WI_DST, 0, 1), wi_at(WI_SRC, (uint32_t)r, 1));
        else if (r != s->root && s->rank == s->root)
            wi_sched_send(b, wi_sched_lane(b, r, NO, 0), wi_at(WI_SRC, (uint32_t)r, 1));
        else if (r != s->root && s->rank == r)
            wi_sched_recv(b, wi_sched_lane(b, NO, s->root, 0), wi_at(WI_DST, 0, 1));
    }
}

/* Dissemination. A round's message goes out when the round before is complete. */
static void barrier(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks;
    uint32_t before = 0, got = 0;

    for (int hop = 1; hop < p; hop *= 2) {
        uint32_t lane = wi_sched_lane(b, (s->rank + hop) % p, (s->rank - hop + p) % p, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
        if (hop > 1)
            wi_sched_after(b, lane, before, got);
        got = wi_sched_recv(b, lane, wi_at(WI_DST, 0, 1));
        before = lane;
    }
}

/* ---- Mapped ---- */

static void wait_all(struct wi_sched_builder *b, uint32_t lane, const struct wi_sched_spec *s, uint32_t ordinal)
{
    for (int k = 1; k < s->nranks; k++)
        wi_sched_wait(b, lane, (s->rank + k) % s->nranks, 0, ordinal);
}

static void mapped_barrier(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    uint32_t lane = wi_sched_lane(b, NO, NO, 0);

    wi_sched_signal(b, lane);
    wait_all(b, lane, s, 0);
}

/* Everybody shows a copy, everybody adds all of them. */
static void one_shot(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    struct wi_region operands[64], dst = wi_at(WI_DST, 0, s->nblocks);
    uint32_t lane = wi_sched_lane(b, NO, NO, 0);

    wi_sched_copy(b, lane, wi_at(WI_TMP, 0, s->nblocks), src_all(s, s->nblocks));
    wi_sched_signal(b, lane);
    wait_all(b, lane, s, 0);
    for (int r = 0; r < s->nranks; r++)
        operands[r] = r == s->rank ? src_all(s, s->nblocks) : wi_at_rank(WI_TMP, r, 0, s->nblocks);
    wi_sched_reduce(b, lane, &dst, 1, operands, (uint32_t)s->nranks, WI_STEP_FINAL);
}

/* Rank r adds block r of all vectors and stores it in all results. */
static void direct(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    struct wi_region src[256], dst[256];
    uint32_t lane = wi_sched_lane(b, NO, NO, 0);

    wi_sched_signal(b, lane);
    wait_all(b, lane, s, 0);
    for (int r = 0; r < s->nranks; r++) {
        src[r] = wi_at_rank(WI_SRC, r, (uint32_t)s->rank, 1);
        dst[r] = wi_at_rank(WI_DST, r, (uint32_t)s->rank, 1);
    }
    wi_sched_reduce(b, lane, dst, (uint32_t)s->nranks, src, (uint32_t)s->nranks, WI_STEP_FINAL);
    wi_sched_signal(b, lane);
    wait_all(b, lane, s, 1);
}

/* The root's data is pushed into the scratch of the next rank, and so on. */
static void push_chain(struct wi_sched_builder *b, const struct wi_sched_spec *s)
{
    int p = s->nranks, v = (s->rank - s->root + p) % p;
    uint32_t n = s->nblocks, lane = wi_sched_lane(b, NO, NO, 0);

    if (v) {
        wi_sched_wait(b, lane, (s->rank - 1 + p) % p, 0, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, n), wi_at(WI_TMP, 0, n));
    } else if (!s->in_place) {
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, n), wi_at(WI_SRC, 0, n));
    }
    if (v < p - 1) {
        wi_sched_copy(b, lane, wi_at_rank(WI_TMP, (s->rank + 1) % p, 0, n), wi_at(v ? WI_TMP : WI_SRC, 0, n));
        wi_sched_signal(b, lane);
    }
}

const struct sample samples[] = {
    {"ring", WI_COLL_ALL_REDUCE, ring, ranks, none, SAMPLE_IN_PLACE},
    {"chain_reduce", WI_COLL_ALL_REDUCE, chain_reduce, three, three, SAMPLE_IN_PLACE | SAMPLE_ORDERED},
    {"scan", WI_COLL_SCAN, scan, three, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED},
    {"exscan", WI_COLL_EXSCAN, exscan, one, ranks, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_PAIRS},
    {"flat_reduce", WI_COLL_REDUCE, flat_reduce, three, flat_reduce_tmp,
     SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_ROOTS},
    {"tree_broadcast", WI_COLL_BROADCAST, tree_broadcast, three, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_ROOTS},
    {"ring_all_gather", WI_COLL_ALL_GATHER, ring_all_gather, one, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED},
    {"flat_reduce_scatter", WI_COLL_REDUCE_SCATTER, flat_reduce_scatter, one, ranks, SAMPLE_IN_PLACE | SAMPLE_ORDERED},
    {"flat_all_to_all", WI_COLL_ALL_TO_ALL, flat_all_to_all, one, none, SAMPLE_ORDERED},
    {"flat_gather", WI_COLL_GATHER, flat_gather, one, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_ROOTS},
    {"flat_scatter", WI_COLL_SCATTER, flat_scatter, one, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_ROOTS},
    {"barrier", WI_COLL_BARRIER, barrier, one, none, SAMPLE_ORDERED},
    {"mapped_barrier", WI_COLL_BARRIER, mapped_barrier, one, none, SAMPLE_ORDERED | SAMPLE_MAPPED},
    {"one_shot", WI_COLL_ALL_REDUCE, one_shot, three, three, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_MAPPED},
    {"direct", WI_COLL_ALL_REDUCE, direct, ranks, none, SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_MAPPED},
    {"push_chain", WI_COLL_BROADCAST, push_chain, three, three,
     SAMPLE_IN_PLACE | SAMPLE_ORDERED | SAMPLE_ROOTS | SAMPLE_MAPPED},
};
const unsigned nsamples = sizeof(samples) / sizeof(samples[0]);

const struct sample *sample_find(const char *name)
{
    for (unsigned i = 0; i < nsamples; i++) {
        if (!strcmp(samples[i].name, name))
            return &samples[i];
    }
    return NULL;
}

weft_status sample_build(const struct sample *sample, int rank, int nranks, int root, int in_place,
                         struct wi_sched **sched)
{
    struct wi_sched_spec spec = {.coll = sample->coll,
                                 .algo = sample->name,
                                 .rank = rank,
                                 .nranks = nranks,
                                 .root = root,
                                 .in_place = in_place,
                                 .nblocks = sample->nblocks(nranks),
                                 .tmp_blocks = sample->tmp_blocks(nranks)};
    struct wi_sched_builder *b;

    /* A prefix and its sum. */
    if (sample->coll == WI_COLL_EXSCAN)
        spec.tmp_blocks = 2;
    WI_TRY(wi_sched_begin(&spec, &b));
    sample->write(b, &spec);
    return wi_sched_seal(b, sched);
}

weft_status sample_build_all(const struct sample *sample, int nranks, int root, int in_place, struct wi_sched **scheds)
{
    memset(scheds, 0, (size_t)nranks * sizeof(*scheds));
    for (int r = 0; r < nranks; r++)
        WI_TRY(sample_build(sample, r, nranks, root, in_place, &scheds[r]));
    return WEFT_SUCCESS;
}

void samples_put(struct wi_sched **scheds, int nranks)
{
    for (int r = 0; r < nranks; r++)
        wi_sched_put(scheds[r]);
}
