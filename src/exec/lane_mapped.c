/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of a mapped schedule, slice by slice; and the short form of it over ll lines.
 *
 * Orders that matter: a signal's release store comes after everything the lane wrote in this slice; a waiter's acquire load
 * makes it visible. `done` is stored with release after the last read of the epoch, and read with acquire before the
 * epoch's slot is written again. */
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "exec/exec.h"

static uint64_t load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static void wake_sleepers(struct wi_exec *exec)
{
    if (__builtin_expect(__atomic_load_n(exec->map.sleepers, __ATOMIC_RELAXED) != 0, 0))
        exec->map_ops->wake(exec->map_group);
}

/* A short print of what is being done; both sides of a signal compare it. */
static uint64_t fingerprint(const struct weft_op_info *info)
{
    uint64_t w[3];

    memcpy(w, info, sizeof w);
    w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull ^ w[2] * 0xc2b2ae3d27d4eb4full) * 0xff51afd7ed558ccdull;
    return w[0] ^ w[0] >> 32;
}

static void block_on(struct wi_op *op, const uint64_t *word, uint64_t least, int peer)
{
    op->poll = word;
    op->poll_least = least;
    op->poll_mask = UINT64_MAX;
    op->poll_peer = peer;
}

int wi_exec_gate(struct wi_exec *exec, uint64_t epoch, struct wi_op *op)
{
    uint64_t seen = UINT64_MAX;

    if (exec->done_seen + exec->map.depth > epoch)
        return 1;
    for (int r = 0; r < exec->nranks; r++) {
        uint64_t d = load(&exec->map.ranks[r].done->value);
        if (d + exec->map.depth <= epoch) {
            block_on(op, &exec->map.ranks[r].done->value, epoch - exec->map.depth + 1, r);
            return 0;
        }
        seen = d < seen ? d : seen;
    }
    exec->done_seen = seen;
    return 1;
}

/* ---- Slots and signals ---- */

static unsigned char *region_base(const struct wi_exec *exec, const struct wi_op *op, const struct wi_region *r,
                                  uint64_t epoch)
{
    int rank = r->rank == WI_SELF ? exec->rank : r->rank;

    if (r->buf == WI_TMP)
        return exec->map.ranks[rank].slots + (epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;
    if (rank == exec->rank)
        return op->base[r->buf];
    return op->peer_base[r->buf][rank];
}

static int dep_met(const struct wi_op *op, const struct wi_step *st, uint32_t slice)
{
    const struct wi_lane_state *other;

    if (st->dep_lane == WI_NO_DEP)
        return 1;
    other = &op->lanes[st->dep_lane];
    return other->done || other->slice > slice || (other->slice == slice && other->step > st->dep_step);
}

static weft_status got(struct wi_exec *exec, struct wi_op *op, int rank, void *dst, const void *remote, size_t bytes)
{
    weft_status st = exec->map_ops->mem_get(exec->map_group, rank, (uint64_t)(uintptr_t)remote, dst, bytes);

    return st >= 0 ? st
                   : wi_exec_fail(exec, st, rank, &op->info, "reading memory of rank %d: %s", rank, wi_fail_text());
}

/* Where stores go. Results stream past the caches when the operation is too large to stay in them; slots as slot_store.h
 * says. */
static void reduce_piece(const struct wi_op *op, const struct wi_step *st, const struct wi_region *dr, void *dst[],
                         const void *src[], size_t bytes)
{
    unsigned flags = st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0;
    size_t elems = bytes / op->redop.elem_bytes;
    uint32_t own = 0;

    while (own < st->ndst && dr[own].buf == WI_TMP)
        own++;
    if (op->nt || own == st->ndst || st->ndst == 1) {
        wi_reduce(&op->redop, dst, st->ndst, src, st->nsrc, elems,
                  flags | (op->nt || (dr[0].buf == WI_TMP && op->slot_nt) ? WI_REDUCE_NT : 0));
        return;
    }
    wi_reduce(&op->redop, &dst[own], 1, src, st->nsrc, elems, flags);
    for (uint32_t i = 0; i < st->ndst; i++)
        if (i != own)
            wi_copy(dst[i], dst[own], bytes, dr[i].buf == WI_TMP && op->slot_nt ? WI_REDUCE_NT : 0);
}

static weft_status local_piece(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, uint32_t slice,
                               uint32_t piece)
{
    const struct wi_region *dr = &op->sched->regions[st->dst], *sr = &op->sched->regions[st->src];
    uint64_t epoch = op->epoch + slice;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];
    size_t bytes = SIZE_MAX, n;

    for (uint32_t i = 0; i < st->ndst; i++) {
        dst[i] = wi_op_piece(op, &dr[i], slice, piece, region_base(exec, op, &dr[i], epoch), &n);
        bytes = n < bytes ? n : bytes;
    }
    for (uint32_t i = 0; i < st->nsrc; i++) {
        src[i] = wi_op_piece(op, &sr[i], slice, piece, region_base(exec, op, &sr[i], epoch), &n);
        bytes = n < bytes ? n : bytes;
    }
    if (!bytes)
        return WEFT_SUCCESS;
    if (st->kind == WI_STEP_REDUCE) {
        reduce_piece(op, st, dr, dst, src, bytes);
        return WEFT_SUCCESS;
    }
    if (op->get && sr[0].rank != WI_SELF && sr[0].rank != exec->rank && sr[0].buf != WI_TMP)
        return got(exec, op, sr[0].rank, dst[0], src[0], bytes);
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i] != src[0])
            wi_copy(dst[i], src[0], bytes, (dr[i].buf == WI_TMP ? op->slot_nt : op->nt) ? WI_REDUCE_NT : 0);
    return WEFT_SUCCESS;
}

/* While this rank waits for others: take the lines that it stores to next, in the ordinary way. */
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
static void
claim_next_slot(struct wi_exec *exec, const struct wi_op *op, uint64_t epoch)
{
    const unsigned char *slot =
        exec->map.ranks[exec->rank].slots + ((epoch + 1) & (exec->map.depth - 1)) * exec->map.slot_bytes;
    size_t bytes = op->sched->buf_blocks[WI_TMP] * op->tmp_stride;

    for (size_t at = 0; at < bytes; at += WEFT_LINE_BYTES)
        __builtin_prefetch(slot + at, 1, 3);
}

static void signal_lane(struct wi_exec *exec, struct wi_op *op, uint32_t lane, uint64_t epoch, const struct wi_step *st)
{
    struct weft_signal *s = &exec->map.ranks[exec->rank].signals[lane];

    __atomic_store_n(&s->pad[epoch & 1], fingerprint(&op->info), __ATOMIC_RELAXED);
    store(&s->value, 8 * epoch + st->ordinal + 1);
    wake_sleepers(exec);
    if (op->claim)
        claim_next_slot(exec, op, epoch);
}

static int signal_seen(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, uint64_t epoch)
{
    const struct weft_signal *s = &exec->map.ranks[st->peer].signals[st->lane];
    uint64_t want = 8 * epoch + st->ordinal + 1, value = load(&s->value);

    if (value < want) {
        block_on(op, &s->value, want, st->peer);
        return 0;
    }
    /* The print beside the signal belongs to this epoch as long as the signal does: the print of the next epoch goes to the
     * other place, and that of the one after it is stored only after the next epoch's signal. */
    if (__builtin_expect((value - 1) / 8 == epoch &&
                             __atomic_load_n(&s->pad[epoch & 1], __ATOMIC_ACQUIRE) != fingerprint(&op->info) &&
                             load(&s->value) == value,
                         0)) {
        wi_exec_compare_boards(exec, &op->info);
        if (!exec->broken)
            wi_exec_fail(exec, WEFT_EMISMATCH, st->peer, &op->info, "rank %d called another operation here", st->peer);
        return 0;
    }
    return 1;
}

static void slice_over(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t least = op->nslices;

    for (uint32_t l = 0; l < op->sched->nlanes; l++)
        if (!op->lanes[l].done && op->lanes[l].slice < least)
            least = op->lanes[l].slice;
    if (least > op->slices_done) {
        op->slices_done = least;
        store(&exec->map.ranks[exec->rank].done->value, op->epoch + least);
        wake_sleepers(exec);
    }
}

/* 1: step done, 0: wait, < 0: failed */
static int run_step(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *st, uint32_t slice)
{
    uint64_t epoch = op->epoch + slice;
    uint32_t pieces;

    if (!dep_met(op, st, slice))
        return 0;
    switch (st->kind) {
    case WI_STEP_SIGNAL:
        signal_lane(exec, op, lane, epoch, st);
        return 1;
    case WI_STEP_WAIT:
        return signal_seen(exec, op, st, epoch);
    case WI_STEP_COPY:
    case WI_STEP_REDUCE:
        pieces = wi_op_pieces(op, &op->sched->regions[st->dst]);
        for (uint32_t piece = 0; piece < pieces; piece++)
            WI_TRY(local_piece(exec, op, st, slice, piece));
        return 1;
    default:
        return 1; /* NOP */
    }
}

int wi_lane_run_mapped(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_lane_state *ls = &op->lanes[lane];
    int moved = 0;

    while (!exec->broken && ls->slice < op->nslices) {
        if (ls->step == 0 && !wi_exec_gate(exec, op->epoch + ls->slice, op))
            return moved;
        while (ls->step < ln->nsteps) {
            int done = run_step(exec, op, lane, &op->sched->steps[ln->first_step + ls->step], ls->slice);
            if (done <= 0)
                return moved | (done < 0);
            ls->step++;
            moved = 1;
        }
        ls->step = 0;
        ls->slice++;
        slice_over(exec, op);
    }
    if (!exec->broken && !ls->done) {
        ls->done = 1;
        op->nlanes_left--;
        slice_over(exec, op);
        moved = 1;
    }
    return moved;
}

/* ---- ll: payload and flag in one cache line ---- */

#define LL_PAYLOAD sizeof(((struct weft_ll_line *)0)->payload)
#define LL_EPOCH_MASK 0xffffffffffull

/* Low 40 bits: epoch + 1; high 24 bits: what is being done. */
static uint64_t ll_seq(uint64_t epoch, const struct weft_op_info *info)
{
    return ((epoch + 1) & LL_EPOCH_MASK) | fingerprint(info) << 40;
}

static struct weft_ll_line *ll_slot(const struct wi_exec *exec, int rank, uint64_t epoch)
{
    return exec->map.ranks[rank].ll + (epoch & (exec->map.depth - 1)) * exec->map.ll_lines;
}

static void ll_publish(struct wi_exec *exec, uint64_t epoch, uint64_t seq, const unsigned char *data, size_t bytes)
{
    struct weft_ll_line *line = ll_slot(exec, exec->rank, epoch);

    for (; bytes > LL_PAYLOAD; bytes -= LL_PAYLOAD, data += LL_PAYLOAD, line++) {
        memcpy(line->payload, data, LL_PAYLOAD);
        store(&line->seq, seq);
    }
    if (bytes == 8) /* the commonest length, without a call */
        memcpy(line->payload, data, 8);
    else
        memcpy(line->payload, data, bytes);
    store(&line->seq, seq);
    wake_sleepers(exec);
}

static weft_status ll_wrong(struct wi_exec *exec, struct wi_op *op, int rank)
{
    wi_exec_compare_boards(exec, &op->info);
    if (!exec->broken)
        wi_exec_fail(exec, WEFT_EMISMATCH, rank, &op->info, "rank %d called another operation here", rank);
    return exec->broken;
}

/* The payload of a rank's ll slot: in place when it is one line, else unpacked. NULL: not all of it is there; op->poll says
 * what is missing. */
static const unsigned char *ll_fetch(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq, size_t bytes)
{
    struct weft_ll_line *line = ll_slot(exec, rank, op->epoch);
    unsigned char *out = exec->ll_landing + (size_t)rank * exec->ll_bytes;
    size_t at = 0;

    do {
        uint64_t v = load(&line->seq);
        if (__builtin_expect(v != seq, 0)) {
            if ((v & LL_EPOCH_MASK) == (seq & LL_EPOCH_MASK))
                ll_wrong(exec, op, rank);
            block_on(op, &line->seq, seq & LL_EPOCH_MASK, rank);
            op->poll_mask = LL_EPOCH_MASK;
            return NULL;
        }
        if (bytes <= LL_PAYLOAD)
            return line->payload;
        memcpy(out + at, line->payload, bytes - at < LL_PAYLOAD ? bytes - at : LL_PAYLOAD);
        at += LL_PAYLOAD;
        line++;
    } while (at < bytes);
    return out;
}

/* Mapped operations run one at a time, so their scratch is the executor's: own TMP, and where the ranks' TMP was fetched to.
 * Own TMP that is wholly a copy of one source is not copied but pointed at. */
static unsigned char *ll_region(const struct wi_exec *exec, const struct wi_op *op, const struct wi_region *r,
                                size_t *bytes)
{
    const unsigned char *base = op->base[r->buf];

    if (r->buf == WI_TMP)
        base = r->rank == WI_SELF || r->rank == exec->rank ? exec->ll_own : exec->ll_tmp[r->rank];
    return wi_op_piece(op, r, 0, 0, (unsigned char *)(uintptr_t)base, bytes);
}

static void ll_local(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, size_t tmp_bytes)
{
    const struct wi_region *dr = &op->sched->regions[st->dst], *sr = &op->sched->regions[st->src];
    const void *src[WI_REDUCE_MAX_SRC];
    unsigned flags = st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0;
    size_t bytes, n;
    void *dst;

    dst = ll_region(exec, op, dr, &bytes);
    for (uint32_t i = 0; i < st->nsrc; i++) {
        src[i] = ll_region(exec, op, &sr[i], &n);
        bytes = n < bytes ? n : bytes;
    }
    if (st->kind == WI_STEP_COPY) {
        if (dst == exec->ll_own && bytes == tmp_bytes)
            exec->ll_publish = src[0];
        else if (dst != src[0])
            memcpy(dst, src[0], bytes);
    } else if (st->nsrc == 2) {
        wi_reduce2(&op->redop, dst, src[0], src[1], bytes / op->redop.elem_bytes, flags);
    } else {
        wi_reduce(&op->redop, &dst, 1, src, st->nsrc, bytes / op->redop.elem_bytes, flags);
    }
}

/* 1: done, 0: must wait (op->poll), < 0: failed */
static int ll_step(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, uint64_t seq, size_t bytes)
{
    if (st->kind == WI_STEP_SIGNAL) {
        ll_publish(exec, op->epoch, seq, exec->ll_publish, bytes);
    } else if (st->kind == WI_STEP_WAIT) {
        exec->ll_tmp[st->peer] = ll_fetch(exec, op, st->peer, seq, bytes);
        return exec->ll_tmp[st->peer] ? 1 : (int)exec->broken;
    } else if (st->kind != WI_STEP_NOP) {
        ll_local(exec, op, st, bytes);
    }
    return 1;
}

static void ll_done(struct wi_exec *exec, const struct wi_op *op)
{
    store(&exec->map.ranks[exec->rank].done->value, op->epoch + 1);
    wake_sleepers(exec);
}

/* The awaited word, with eyes on it and nothing else. */
static int ll_spin(const struct wi_exec *exec, const struct wi_op *op)
{
    for (uint32_t i = exec->spin >> exec->spin_failures; i > 0; i--) {
        if ((load(op->poll) & op->poll_mask) >= op->poll_least)
            return 1;
        wi_cpu_relax();
    }
    return 0;
}

weft_status wi_exec_run_ll(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_sched *sched = op->sched;
    size_t bytes = sched->buf_blocks[WI_TMP] * op->tmp_stride;
    uint64_t seq;

    exec->ll_publish = exec->ll_own;
    op->epoch = exec->next_epoch++;
    seq = ll_seq(op->epoch, &op->info);
    while (!wi_exec_gate(exec, op->epoch, op))
        WI_TRY(wi_exec_pause(exec, op));
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        int done;
        while ((done = ll_step(exec, op, &sched->steps[i], seq, bytes)) == 0)
            if (!ll_spin(exec, op))
                WI_TRY(wi_exec_pause(exec, op));
        if (done < 0)
            return exec->broken;
        op->rounds = 0;
    }
    ll_done(exec, op);
    return WEFT_SUCCESS;
}

static size_t slot_work(const struct wi_op *op)
{
    uint32_t src = op->sched->buf_blocks[WI_SRC], dst = op->sched->buf_blocks[WI_DST];

    return op->sched->buf_blocks[WI_TMP] ? op->block_bytes * (src > dst ? src : dst) : 0;
}

void wi_op_begin_stores(struct wi_exec *exec, struct wi_op *op)
{
    size_t work = slot_work(op);
    int timed;

    op->slot_nt = wi_slot_store_choose(&exec->slot_store, work, &timed) != 0;
    op->claim = !op->slot_nt && work >= WI_SLOT_ORDINARY_BYTES && op->nslices == 1;
    op->stores_since = timed ? wi_ticks() : 0;
}

void wi_op_end_stores(struct wi_exec *exec, struct wi_op *op)
{
    if (op->stores_since)
        wi_slot_store_learn(&exec->slot_store, slot_work(op), op->slot_nt, wi_ticks() - op->stores_since);
}

static weft_status run_to_end(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t nlanes = op->sched->nlanes;

    while (op->nlanes_left) {
        int moved = 0;
        for (uint32_t l = 0; l < nlanes && !exec->broken; l++)
            if (!op->lanes[l].done)
                moved |= wi_lane_run_mapped(exec, op, l);
        if (exec->broken)
            return exec->broken;
        if (moved)
            op->rounds = 0;
        else if (!ll_spin(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    return WEFT_SUCCESS;
}

weft_status wi_exec_run_mapped(struct wi_exec *exec, struct wi_op *op)
{
    weft_status st;

    wi_op_begin_stores(exec, op);
    memset(op->lanes_inline, 0, op->sched->nlanes * sizeof op->lanes_inline[0]);
    op->lanes = op->lanes_inline;
    op->nlanes_left = op->sched->nlanes;
    op->slices_done = 0;
    op->epoch = exec->next_epoch;
    exec->next_epoch += op->nslices;
    st = run_to_end(exec, op);
    if (st >= 0)
        wi_op_end_stores(exec, op);
    return st;
}

/* The same over ll lines from the queue, without blocking. */
int wi_lane_run_ll(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_sched *sched = op->sched;
    size_t bytes = sched->buf_blocks[WI_TMP] * op->tmp_stride;
    struct wi_lane_state *ls = &op->lanes[0];
    uint64_t seq = ll_seq(op->epoch, &op->info);
    int moved = 0;

    if (ls->step == 0) {
        if (!wi_exec_gate(exec, op->epoch, op))
            return 0;
        exec->ll_publish = exec->ll_own;
    }
    for (; ls->step < sched->nsteps; ls->step++) {
        if (ll_step(exec, op, &sched->steps[ls->step], seq, bytes) <= 0)
            return moved;
        moved = 1;
    }
    ll_done(exec, op);
    ls->done = 1;
    op->nlanes_left--;
    return 1;
}

/* ---- Exchange of records before the schedule is known ---- */

static int record_arrived(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq)
{
    unsigned char *out = exec->ll_landing + (size_t)rank * exec->ll_bytes;
    const unsigned char *from = ll_fetch(exec, op, rank, seq, op->record_bytes);

    if (from && from != out)
        memcpy(out, from, op->record_bytes);
    return from != NULL;
}

/* The operation is the oldest mapped one: its epochs begin now. */
int wi_op_exchange(struct wi_exec *exec, struct wi_op *op)
{
    uint64_t seq;
    weft_status st;
    int moved = 0;

    if (op->exchange == WI_EXCHANGE_TO_PUBLISH) {
        if (op->epoch == 0)
            op->epoch = exec->next_epoch++;
        if (!wi_exec_gate(exec, op->epoch, op))
            return 0;
        ll_publish(exec, op->epoch, ll_seq(op->epoch, &op->info), op->exchange_record, op->record_bytes);
        memcpy(exec->ll_landing + (size_t)exec->rank * exec->ll_bytes, op->exchange_record, op->record_bytes);
        op->exchange = WI_EXCHANGE_LISTENING;
        op->exchange_rank = 0;
        moved = 1;
    }
    seq = ll_seq(op->epoch, &op->info);
    while (op->exchange_rank < exec->nranks) {
        if (op->exchange_rank != exec->rank && !record_arrived(exec, op, op->exchange_rank, seq))
            return moved;
        op->exchange_rank++;
        moved = 1;
    }
    store(&exec->map.ranks[exec->rank].done->value, op->epoch + 1);
    wake_sleepers(exec);
    op->exchange = WI_EXCHANGE_NONE;
    op->poll = NULL;
    st = op->chosen(exec, op, exec->ll_landing, exec->ll_bytes);
    if (st < 0)
        op->status = wi_exec_fail(exec, st, -1, &op->info, "%s", wi_fail_text());
    return 1;
}
