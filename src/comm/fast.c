/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path: a blocking call of a mapped communicator with nothing else in flight needs no request, no queue and no
 * plan, if a call like it was made before. Its accesses to shared memory are exactly those of the general path, which other ranks
 * may use for the same operation. */
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

    for (int coll = 0; coll < WI_NUM_COLLS && comm->exec->all_mapped && comm->nranks <= WI_REDUCE_MAX_SRC; coll++) {
        const struct wi_algo *algo = wi_algo_find((enum wi_coll)coll, "flat");
        if (!algo || (int)algo->coll != coll)
            continue;
        WI_TRY(wi_cached_schedule(comm, algo, NULL, 0, 0, &sched));
        if (sched->ll)
            facts->ll_max[coll] = comm->exec->ll_bytes / (sched->buf_blocks[WI_TMP] ? sched->buf_blocks[WI_TMP] : 1);
    }
    return WEFT_SUCCESS;
}

void wi_fast_forget(struct weft_comm *comm, const struct wi_sched *sched)
{
    for (int c = 0; c < WI_NUM_COLLS; c++) {
        struct wi_fast *f = &comm->fast[c];
        if (!sched || f->ll == sched) {
            f->ll = NULL;
            wi_prog_put(f->ll_prog);
            f->ll_prog = NULL;
        }
        for (int i = 0; i < WI_FAST_CALLS; i++)
            if (!sched || f->calls[i].sched == sched) {
                wi_prog_put(f->calls[i].prog);
                f->calls[i] = (struct wi_fast_call){0};
            }
    }
}

void wi_fast_learn(struct weft_comm *comm, const struct wi_call *c, const struct wi_op *op)
{
    struct wi_fast *f = &comm->fast[c->coll];
    struct wi_fast_call *k = slot_of(f, c->count, c->op);

    if (!comm->exec->engine->inline_bytes) /* nothing is done at once here */
        return;
    /* What an exchange decided holds for that one operation. */
    if (!op->bind.mapped || op->bind.messages || !op->bind.sched || op->gate.ops || op->bind.stage[0]->has_extents ||
        op->bind.base[WI_SRC] != c->src || (wi_coll_is_reduction(c->coll) && c->op >= WEFT_NUM_OPS) ||
        comm->exec->broken)
        return;
    if (op->bind.ll) {
        wi_prog_put(f->ll_prog);
        f->ll = op->bind.sched;
        f->ll_prog = wi_prog_get(op->bind.stage[0]);
        f->ll_root = root_of(c);
        f->ll_in_place = op->bind.sched->in_place;
        return;
    }
    wi_prog_put(k->prog);
    *k = (struct wi_fast_call){
        .sched = op->bind.sched,
        .prog = wi_prog_get(op->bind.stage[0]),
        .count = c->count,
        .root = root_of(c),
        .in_place = op->bind.sched->in_place,
        .dtype = (uint8_t)c->dtype,
        .op = (uint8_t)c->op,
        .nt = op->bind.nt,
        .nfragments = op->bind.nfragments,
        .scale = op->bind.scale,
        .fragment_bytes = op->bind.fragment_bytes,
        .slot_bytes = op->bind.slot_bytes,
        .slot_work = op->bind.slot_work,
    };
}

static int find(struct weft_comm *comm, const struct wi_call *c, struct wi_op *op)
{
    struct wi_fast *f = &comm->fast[c->coll];
    int in_place = wi_call_in_place(comm, c);
    size_t bytes = share_bytes(c);
    const struct wi_fast_call *k;

    if (bytes <= f->ll_max_bytes) {
        if (!f->ll || f->ll_root != root_of(c) || f->ll_in_place != in_place)
            return 0;
        op->bind.sched = f->ll;
        op->bind.stage[0] = f->ll_prog;
        op->bind.scale = bytes;
        op->bind.slot_bytes = f->ll->buf_blocks[WI_TMP] * bytes;
        op->bind.nfragments = 1;
        op->bind.ll = 1;
        op->bind.nt = 0;
        return 1;
    }
    k = slot_of(f, c->count, c->op);
    if (!k->sched || k->count != c->count || k->root != root_of(c) || k->in_place != in_place || k->dtype != c->dtype ||
        k->op != c->op)
        return 0;
    op->bind.sched = k->sched;
    op->bind.stage[0] = k->prog;
    op->bind.scale = k->scale;
    op->bind.slot_bytes = k->slot_bytes;
    op->bind.slot_work = k->slot_work;
    op->bind.nfragments = k->nfragments;
    op->bind.fragment_bytes = k->fragment_bytes;
    op->bind.ll = 0;
    op->bind.nt = k->nt;
    return 1;
}

static void fill(struct weft_comm *comm, const struct wi_call *c, struct wi_op *op)
{
    struct wi_exec *exec = comm->exec;
    struct wi_record *e = wi_recorder_add(&exec->recorder);

    op->bind.base[WI_SRC] = (unsigned char *)(uintptr_t)c->src;
    op->bind.base[WI_DST] = c->dst;
    op->bind.mapped = 1;
    op->bind.messages = 0;
    op->bind.nstages = 1;
    op->run.first = NULL;
    op->bind.nslices = 1;
    op->bind.packing = NULL;
    op->bind.get = op->bind.put = op->match.point_to_point = op->bind.send_empty = op->match.by_tag = 0;
    op->timeout_ns = op->deadline_ns = 0;
    op->wait.rounds = 0;
    op->wait.word = NULL;
    op->link = NULL;
    op->run.alone = 1;
    op->state = WI_OP_RUNNING;
    op->status = WEFT_INPROGRESS;
    wi_call_info(comm, c, &op->info);
    wi_call_redop(comm, c, &op->bind.redop);
    wi_exec_number(exec, &op->info);
    wi_exec_board(exec, &op->info);
    e->info = op->info;
    e->algo = op->bind.sched->algo;
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

    if (!op->link) {
        op->bind.named = 0; /* it was not computed so far */
        wi_exec_queue_alone(comm->exec, op);
    }
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
    op->run.alone = 0; /* it is out of the queue, and the executor is not this thread's any more */
    return WEFT_EABORTED;
}

enum wi_fast_result wi_fast_run(struct weft_comm *comm, const struct wi_call *c, weft_status *st)
{
    struct wi_exec *exec = comm->exec;
    struct wi_op op;

    /* Nothing to exchange takes no number, on any rank. */
    if (!c->count && c->coll != WI_COLL_BARRIER)
        return WI_FAST_NOT;
    if (!exec->all_mapped || exec->nops || exec->broken || c->send_counts || c->recv_counts ||
        (c->op >= WEFT_NUM_OPS && wi_coll_is_reduction(c->coll)) || !find(comm, c, &op))
        return WI_FAST_NOT;
    fill(comm, c, &op);
    *st = wi_exec_run_alone(exec, &op);
    if (__builtin_expect(!op.run.alone, 0)) {
        *st = wi_comm_ended();
        atomic_fetch_sub_explicit(&comm->entering, 1, memory_order_release); /* destroying waits for it */
        return WI_FAST_LOST;
    }
    if (__builtin_expect(op.link != NULL, 0))
        wi_op_unlink(exec, &op);
    op.record->state = *st < 0 ? WI_RECORD_FAILED : WI_RECORD_DONE;
    return WI_FAST_RAN;
}
