/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped schedules over ll lines: payload and flag in one cache line. And the exchange of records before a schedule is
 * known, which goes the same way. */
#include <string.h>

#include "base/status.h"
#include "exec/exec.h"
#include "exec/signal.h"

#define CLAIM_AHEAD 8 /* epochs */
#define LL_PAYLOAD sizeof(((struct weft_ll_line *)0)->payload)

/* Low 40 bits: epoch + 1; high 24 bits: what is being done. */
static uint64_t ll_seq(uint64_t epoch, const struct weft_op_info *info)
{
    return ((epoch + 1) & WI_LL_EPOCH_MASK) | wi_fingerprint(info) << 40;
}

static struct weft_ll_line *ll_slot(const struct wi_exec *exec, int rank, uint64_t epoch)
{
    return exec->map.ranks[rank].ll + (epoch & (exec->map.ll_depth - 1)) * exec->map.ll_lines;
}

static void ll_publish(struct wi_exec *exec, uint64_t epoch, uint64_t seq, const unsigned char *data, size_t bytes)
{
    struct weft_ll_line *line = ll_slot(exec, exec->rank, epoch);

    for (; bytes > LL_PAYLOAD; bytes -= LL_PAYLOAD, data += LL_PAYLOAD, line++) {
        memcpy(line->payload, data, LL_PAYLOAD);
        wi_store(&line->seq, seq);
    }
    if (bytes == 8) /* the commonest length, without a call */
        memcpy(line->payload, data, 8);
    else
        memcpy(line->payload, data, bytes);
    wi_store(&line->seq, seq);
    wi_wake_sleepers(exec);
}

static weft_status ll_wrong(struct wi_exec *exec, struct wi_op *op, int rank)
{
    wi_exec_compare_boards(exec, &op->info);
    if (!exec->broken)
        wi_exec_fail(exec, WEFT_EMISMATCH, rank, &op->info, "rank %d called another operation here", rank);
    return exec->broken;
}

/* The payload of a rank's ll slot: in place when it is one line, else unpacked. NULL: not all of it is there; op->wait.word says
 * what is missing. */
static const unsigned char *ll_fetch(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq, size_t bytes)
{
    struct weft_ll_line *line = ll_slot(exec, rank, op->epoch);
    unsigned char *out = exec->ll_landing + (size_t)rank * exec->ll_bytes;
    size_t at = 0;

    do {
        uint64_t v = wi_load(&line->seq);
        if (__builtin_expect(v != seq, 0)) {
            if ((v & WI_LL_EPOCH_MASK) == (seq & WI_LL_EPOCH_MASK))
                ll_wrong(exec, op, rank);
            wi_block_on(op, &line->seq, seq & WI_LL_EPOCH_MASK, rank);
            op->wait.mask = WI_LL_EPOCH_MASK;
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

/* 1: done, 0: must wait (op->wait.word), < 0: failed */
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

/* Another rank may be in the next operation already: its line comes while this rank leaves the call and enters the next. If
 * it is not, the line is still here from when the slot was used last, and nothing is fetched. A rank that waits for nobody runs
 * ahead: the lines that it will store to soon are taken back from their readers, which are not near them yet. */
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
static void
look_ahead(const struct wi_exec *exec, const struct wi_op *op, size_t bytes)
{
    const struct wi_sched *sched = op->sched;
    const struct weft_ll_line *own;
    int waits = 0;

    for (uint32_t i = 0; i < sched->nsteps; i++)
        if (sched->steps[i].kind == WI_STEP_WAIT) {
            __builtin_prefetch(ll_slot(exec, sched->steps[i].peer, op->epoch + 1));
            waits = 1;
        }
    if (waits)
        return;
    own = ll_slot(exec, exec->rank, op->epoch + CLAIM_AHEAD);
    for (size_t at = 0; at < bytes; at += LL_PAYLOAD)
        __builtin_prefetch(own++, 1, 3);
}

/* A rank that ran ahead until all slots were used waits until half of them are free, and looks seldom: each look takes the line
 * of the reader that stores to it in every operation. */
static weft_status enter(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t depth = exec->map.ll_depth;
    uint64_t until = op->epoch;

    if (wi_exec_gate(exec, until, depth, op))
        return WEFT_SUCCESS;
    until += depth / 2 - 1;
    while (!wi_exec_gate(exec, until, depth, op))
        if (!wi_spin_seldom(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    return WEFT_SUCCESS;
}

weft_status wi_exec_run_ll(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_sched *sched = op->sched;
    size_t bytes = sched->buf_blocks[WI_TMP] * op->tmp_stride;
    uint64_t seq;

    exec->ll_publish = exec->ll_own;
    op->epoch = exec->next_epoch++;
    seq = ll_seq(op->epoch, &op->info);
    WI_TRY(enter(exec, op));
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        int done;
        while ((done = ll_step(exec, op, &sched->steps[i], seq, bytes)) == 0)
            if (!wi_spin_on_poll(exec, op))
                WI_TRY(wi_exec_pause(exec, op));
        if (done < 0)
            return exec->broken;
        op->wait.rounds = 0;
    }
    wi_epochs_done(exec, op->epoch + 1);
    look_ahead(exec, op, bytes);
    return WEFT_SUCCESS;
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
        if (!wi_exec_gate(exec, op->epoch, exec->map.ll_depth, op))
            return 0;
        exec->ll_publish = exec->ll_own;
    }
    for (; ls->step < sched->nsteps; ls->step++) {
        if (ll_step(exec, op, &sched->steps[ls->step], seq, bytes) <= 0)
            return moved;
        moved = 1;
    }
    wi_epochs_done(exec, op->epoch + 1);
    ls->done = 1;
    op->nlanes_left--;
    return 1;
}

/* ---- Exchange of records before the schedule is known ---- */

static int record_arrived(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq)
{
    unsigned char *out = exec->ll_landing + (size_t)rank * exec->ll_bytes;
    const unsigned char *from = ll_fetch(exec, op, rank, seq, op->gate.record_bytes);

    if (from && from != out)
        memcpy(out, from, op->gate.record_bytes);
    return from != NULL;
}

/* The operation is the oldest mapped one: its epochs begin now. */
int wi_op_exchange(struct wi_exec *exec, struct wi_op *op)
{
    uint64_t seq;
    weft_status st;
    int moved = 0;

    if (op->gate.state == WI_EXCHANGE_TO_PUBLISH) {
        if (op->epoch == 0)
            op->epoch = exec->next_epoch++;
        if (!wi_exec_gate(exec, op->epoch, exec->map.ll_depth, op))
            return 0;
        ll_publish(exec, op->epoch, ll_seq(op->epoch, &op->info), op->gate.record, op->gate.record_bytes);
        memcpy(exec->ll_landing + (size_t)exec->rank * exec->ll_bytes, op->gate.record, op->gate.record_bytes);
        op->gate.state = WI_EXCHANGE_LISTENING;
        op->gate.rank = 0;
        moved = 1;
    }
    seq = ll_seq(op->epoch, &op->info);
    while (op->gate.rank < exec->nranks) {
        if (op->gate.rank != exec->rank && !record_arrived(exec, op, op->gate.rank, seq))
            return moved;
        op->gate.rank++;
        moved = 1;
    }
    wi_epochs_done(exec, op->epoch + 1);
    op->gate.state = WI_EXCHANGE_NONE;
    op->wait.word = NULL;
    st = op->gate.open(exec, op, exec->ll_landing, exec->ll_bytes);
    if (st < 0)
        op->status = wi_exec_fail(exec, st, -1, &op->info, "%s", wi_fail_text());
    return 1;
}
