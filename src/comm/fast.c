/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path: a blocking call of a mapped communicator with nothing else in flight needs no request, no queue and no
 * plan, if a call like it was made before. What it puts on the wire is exactly what the general path would: other ranks
 * may be on that. */
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

static size_t share_bytes(const struct wi_call *c)
{
    return c->coll == WI_COLL_BARRIER ? 0 : c->count * weft_dtype_bytes(c->dtype);
}

static struct wi_fast_call *slot_of(struct wi_fast *f, size_t count, weft_op op)
{
    return &f->calls[(count ^ count >> 3 ^ count >> 9 ^ count >> 15 ^ op) % WI_FAST_CALLS];
}

static int root_of(const struct wi_call *c)
{
    return c->root < 0 ? 0 : c->root;
}

/* Sizes at which every rank takes the flat schedule over ll lines, unless a rule says otherwise. */
weft_status wi_fast_init(struct weft_comm *comm, struct wi_plan_facts *facts)
{
    struct wi_sched *sched;

    for (int coll = 0; coll < WI_NUM_COLLS && comm->exec->map_group && comm->nranks <= WI_REDUCE_MAX_SRC; coll++) {
        const struct wi_algo *algo = wi_algo_find((enum wi_coll)coll, "flat");
        if (!algo || (int)algo->coll != coll)
            continue;
        WI_TRY(wi_cached_schedule(comm, algo, "", 0, 0, &sched));
        if (sched->ll)
            facts->ll_max[coll] = comm->exec->ll_bytes / (sched->buf_blocks[WI_TMP] ? sched->buf_blocks[WI_TMP] : 1);
    }
    return WEFT_SUCCESS;
}

void wi_fast_forget(struct weft_comm *comm, const struct wi_sched *sched)
{
    for (int c = 0; c < WI_NUM_COLLS; c++) {
        struct wi_fast *f = &comm->fast[c];
        if (!sched || f->ll == sched)
            f->ll = NULL;
        for (int i = 0; i < WI_FAST_CALLS; i++)
            if (!sched || f->calls[i].sched == sched) {
                wi_free(f->calls[i].straight);
                f->calls[i] = (struct wi_fast_call){0};
            }
    }
}

static void learn(struct weft_comm *comm, const struct wi_call *c, const struct wi_op *op)
{
    struct wi_fast *f = &comm->fast[c->coll];
    struct wi_fast_call *k = slot_of(f, c->count, c->op);

    /* What an exchange decided holds for that one operation. */
    if (!op->mapped || !op->sched || op->gate.record_bytes || op->v_bytes[WI_SRC] || op->v_bytes[WI_DST] ||
        op->base[WI_SRC] != c->src || (wi_coll_reduces(c->coll) && c->op >= WEFT_NUM_OPS) || comm->exec->broken)
        return;
    if (op->ll) {
        f->ll = op->sched;
        f->ll_root = root_of(c);
        f->ll_in_place = op->sched->in_place;
        return;
    }
    wi_free(k->straight);
    *k = (struct wi_fast_call){
        .sched = op->sched,
        .straight = wi_straight_make(comm->exec, op),
        .count = c->count,
        .root = root_of(c),
        .in_place = op->sched->in_place,
        .dtype = (uint8_t)c->dtype,
        .op = (uint8_t)c->op,
        .nt = op->nt,
        .nslices = op->nslices,
        .block_bytes = op->block_bytes,
        .total_bytes = op->total_bytes,
        .slice_bytes = op->slice_bytes,
        .tmp_stride = op->tmp_stride,
    };
}

/* An operation that ended while it was issued, as those do that wait for nobody, has given its schedule back; the cache, from which
 * the fast path borrows, still has it. */
void wi_fast_learn(struct weft_comm *comm, const struct wi_call *c, struct wi_op *op)
{
    struct wi_sched *sched = op->sched;

    if (op->state == WI_OP_DONE)
        op->sched = op->ran;
    learn(comm, c, op);
    op->sched = sched;
}

static int find(struct weft_comm *comm, const struct wi_call *c, struct wi_op *op, const struct wi_straight **straight)
{
    struct wi_fast *f = &comm->fast[c->coll];
    int in_place = wi_call_in_place(comm, c);
    size_t bytes = share_bytes(c);
    const struct wi_fast_call *k;

    if (bytes <= f->ll_max_bytes) {
        if (!f->ll || f->ll_root != root_of(c) || f->ll_in_place != in_place)
            return 0;
        op->sched = f->ll;
        op->block_bytes = op->tmp_stride = op->slice_bytes = bytes;
        op->total_bytes = wi_coll_is_vector(c->coll) ? bytes : 0;
        op->nslices = 1;
        op->ll = 1;
        op->nt = 0;
        *straight = NULL;
        return 1;
    }
    k = slot_of(f, c->count, c->op);
    if (!k->sched || k->count != c->count || k->root != root_of(c) || k->in_place != in_place || k->dtype != c->dtype ||
        k->op != c->op)
        return 0;
    op->sched = k->sched;
    op->block_bytes = k->block_bytes;
    op->total_bytes = k->total_bytes;
    op->slice_bytes = k->slice_bytes;
    op->tmp_stride = k->tmp_stride;
    op->nslices = k->nslices;
    op->ll = 0;
    op->nt = k->nt;
    *straight = k->straight;
    return 1;
}

static void fill(struct weft_comm *comm, const struct wi_call *c, struct wi_op *op)
{
    struct wi_exec *exec = comm->exec;
    struct wi_record *e = wi_recorder_add(&exec->recorder);

    op->base[WI_SRC] = (unsigned char *)(uintptr_t)c->src;
    op->base[WI_DST] = c->dst;
    op->v_bytes[0] = op->v_bytes[1] = NULL;
    op->mapped = 1;
    op->get = op->put = op->match.point_to_point = op->send_empty = op->match.by_tag = 0;
    op->lanes = NULL;
    op->slices_done = 0;
    op->timeout_ns = op->deadline_ns = 0;
    op->wait.rounds = 0;
    op->wait.word = NULL;
    op->link = NULL;
    op->alone = 1;
    op->state = WI_OP_RUNNING;
    op->status = WEFT_INPROGRESS;
    wi_call_info(comm, c, &op->info);
    wi_call_redop(comm, c, &op->redop);
    wi_exec_number(exec, &op->info);
    wi_exec_board(exec, &op->info);
    e->info = op->info;
    e->algo = op->sched->algo;
    e->ticks_issued = wi_ticks();
    e->ticks_done = 0;
    e->state = WI_RECORD_STARTED;
    op->record = e;
}

/* ---- Other threads' calls, while it waits ---- */

static void ended_by_another(struct wi_op *op, void *arg)
{
    (void)op;
    atomic_store_explicit((_Atomic int *)arg, 1, memory_order_release);
}

/* The operation is queued from then on, so that theirs come after it and its failures are found, but only this thread runs it. The
 * thread is counted as entering before it leaves, so that destroying waits for it. */
weft_status wi_fast_let_in(void *arg, struct wi_op *op)
{
    struct weft_comm *comm = arg;
    _Atomic int ended = 0;
    int held;

    if (!op->link)
        wi_exec_queue_alone(comm->exec, op);
    op->finished = ended_by_another;
    op->finished_arg = &ended;
    atomic_fetch_add_explicit(&comm->entering, 1, memory_order_seq_cst);
    wi_comm_leave(comm);
    do {
        sched_yield();
        held = WI_FREE;
        if (atomic_compare_exchange_strong(&comm->lock, &held, WI_HELD)) {
            atomic_fetch_sub_explicit(&comm->entering, 1, memory_order_release);
            op->finished = NULL;
            return comm->exec->broken;
        }
        wi_exec_nudge(comm->exec);
    } while (held != WI_DESTROYING || !atomic_load_explicit(&ended, memory_order_acquire));
    op->alone = 0; /* it is out of the queue, and the executor is not this thread's any more */
    return WEFT_EABORTED;
}

enum wi_fast_result wi_fast_run(struct weft_comm *comm, const struct wi_call *c, weft_status *st)
{
    struct wi_exec *exec = comm->exec;
    const struct wi_straight *straight;
    struct wi_op op;

    /* Nothing to exchange takes no number, on any rank. */
    if (!c->count && c->coll != WI_COLL_BARRIER)
        return WI_FAST_NOT;
    if (!exec->map_group || exec->nops || exec->broken || c->send_counts || c->recv_counts ||
        (c->op >= WEFT_NUM_OPS && wi_coll_reduces(c->coll)) || !find(comm, c, &op, &straight))
        return WI_FAST_NOT;
    fill(comm, c, &op);
    if (op.ll)
        *st = wi_exec_run_ll(exec, &op);
    else
        *st = straight ? wi_exec_run_straight(exec, &op, straight) : wi_exec_run_mapped(exec, &op);
    if (__builtin_expect(!op.alone, 0)) {
        *st = wi_comm_ended();
        atomic_fetch_sub_explicit(&comm->entering, 1, memory_order_release); /* destroying waits for it */
        return WI_FAST_LOST;
    }
    if (__builtin_expect(op.link != NULL, 0))
        wi_exec_unqueue(exec, &op);
    op.record->state = *st < 0 ? WI_RECORD_FAILED : WI_RECORD_DONE;
    return WI_FAST_RAN;
}
