/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls like one that was made before are not planned and laid out again: what a plan depends on, besides the arguments, does not
 * change while a communicator lives. What an exchange decided holds for one operation, and is not kept.
 *
 * The fast path: such a call of a mapped communicator that blocks, with nothing else in flight, needs no request and no queue
 * either. Its accesses to shared memory are exactly those of the general path, which other ranks may use for the same operation.
 *
 * Calls with a codec are kept likewise, each codec's for itself: what is sent in images, and what is sent plain after all. */
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

/* An operator of the program's: what it computes may change from call to call. */
static int has_user_op(const struct wi_call *c)
{
    return wi_coll_is_reduction(c->coll) && c->op >= WEFT_NUM_OPS;
}

static int root_of(const struct wi_call *c)
{
    return c->root < 0 ? 0 : c->root;
}

static uint32_t key_of(const struct wi_codec_use *codec)
{
    return codec ? (wi_plan_codec_id(codec) & ~2u) | (uint32_t)codec->may_bypass << 1 : 0;
}

/* What no call changes is set once. */
static void init_op(struct wi_op *op)
{
    op->bind.mapped = 1;
    op->bind.nstages = 1;
    op->bind.nslices = 1;
    op->run.alone = 1;
}

/* Sizes at which every rank takes the flat schedule over ll lines, unless a rule says otherwise. */
weft_status wi_fast_init(struct weft_comm *comm, struct wi_plan_facts *facts)
{
    struct wi_sched *sched;

    init_op(&comm->fast_op);
    comm->runs_alone = comm->exec->all_mapped && comm->exec->engine->inline_bytes; /* 0: nothing is done at once */
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

/* Calls of others that are let in may have other programs kept, and schedules dropped from the cache. */
static void count(struct weft_comm *comm)
{
    wi_sched_get(comm->fast_op.bind.sched);
    wi_prog_get(comm->fast_op.bind.stage[0]);
    comm->fast_counted = 1;
}

static void uncount(struct weft_comm *comm)
{
    struct wi_binding *b = &comm->fast_op.bind;

    comm->fast_counted = 0;
    wi_sched_put(b->sched);
    wi_prog_put(b->stage[0]);
}

static void forget(struct wi_fast_call *k, const struct wi_sched *sched)
{
    if (sched && k->sched != sched)
        return;
    wi_prog_put(k->prog);
    *k = (struct wi_fast_call){0};
}

void wi_fast_forget(struct weft_comm *comm, const struct wi_sched *sched)
{
    if (!sched && comm->fast_counted) /* its thread left when the communicator was destroyed */
        uncount(comm);
    for (int c = 0; c < WI_NUM_COLLS; c++) {
        struct wi_fast *f = &comm->fast[c];
        forget(&f->ll, sched);
        for (int i = 0; i < WI_FAST_CALLS; i++)
            forget(&f->calls[i], sched);
    }
}

void wi_fast_learn(struct weft_comm *comm, const struct wi_call *c, const struct wi_codec_use *codec,
                   const struct wi_op *op)
{
    struct wi_fast *f = &comm->fast[c->coll];
    const struct wi_binding *b = &op->bind;
    struct wi_fast_call *k = b->ll ? &f->ll : slot_of(f, c->count, c->op);

    if (!b->sched || b->nstages != 1 || b->packing || op->gate.ops || has_user_op(c) || comm->exec->broken)
        return;
    wi_prog_put(k->prog);
    *k = (struct wi_fast_call){
        .sched = b->sched,
        .prog = wi_prog_get(b->stage[0]),
        .count = c->count,
        .root = root_of(c),
        .in_place = wi_call_in_place(comm, c) != 0,
        .dtype = (uint8_t)c->dtype,
        .op = (uint8_t)c->op,
        .codec = b->ll ? 0 : key_of(codec),
        .nt = b->nt,
        .ll = b->ll,
        .mapped = b->mapped,
        .send_empty = b->send_empty,
        .has_scratch = op->owned[WI_OWNED_SCRATCH] != NULL,
        .nfragments = b->nfragments,
        .nslices = b->nslices,
        .scale = b->ll ? 1 : b->scale,
        .fragment_bytes = b->fragment_bytes,
        .slice_bytes = b->slice_bytes,
        .block_bytes = b->block_bytes,
        .slot_bytes = b->ll ? b->sched->buf_blocks[WI_TMP] : b->slot_bytes,
        .slot_work = b->slot_work,
    };
}

static int serves(struct weft_comm *comm, const struct wi_fast_call *k, const struct wi_call *c, uint32_t codec)
{
    return k->count == c->count && k->dtype == c->dtype && k->op == c->op && k->codec == codec &&
           (!k->prog->has_extents || wi_v_form_is_of(comm, c, k->prog));
}

/* NULL: there is none. Only lengths are compared where others will be, for all ranks take ll lines or none does: with a codec as
 * without, unless it may not be bypassed. */
static inline const struct wi_fast_call *find(struct weft_comm *comm, const struct wi_call *c,
                                              const struct wi_codec_use *codec, size_t bytes)
{
    struct wi_fast *f = &comm->fast[c->coll];
    int ll = f->ll_max_bytes && bytes <= f->ll_max_bytes && !(codec && !codec->may_bypass);
    const struct wi_fast_call *k = ll ? &f->ll : slot_of(f, c->count, c->op);

    if (!k->sched || k->root != root_of(c) || k->in_place != wi_call_in_place(comm, c) || has_user_op(c))
        return NULL;
    return ll || serves(comm, k, c, key_of(codec)) ? k : NULL;
}

static inline void bind(const struct wi_fast_call *k, size_t bytes, struct wi_binding *b)
{
    size_t unit = k->ll ? bytes : 1;

    b->sched = k->sched;
    b->stage[0] = k->prog;
    b->scale = k->scale * unit;
    b->slot_bytes = k->slot_bytes * unit;
    b->slot_work = k->slot_work;
    b->nfragments = k->nfragments;
    b->fragment_bytes = k->fragment_bytes;
    b->ll = k->ll;
    b->nt = k->nt;
}

/* What the fast path's operation says once for all that run there. */
static void bind_rest(const struct wi_fast_call *k, struct wi_binding *b)
{
    b->nstages = 1;
    b->mapped = k->mapped;
    b->messages = !k->mapped;
    b->send_empty = k->send_empty;
    b->nslices = k->nslices;
    b->slice_bytes = k->slice_bytes;
    b->block_bytes = k->block_bytes;
    b->layout.blocks[WI_PACK].stride = k->prog->pack_stride;
}

int wi_fast_recall(struct weft_comm *comm, const struct wi_call *c, const struct wi_codec_use *codec, struct wi_op *op)
{
    size_t bytes = share_bytes(c);
    const struct wi_fast_call *k = find(comm, c, codec, bytes);

    if (!k)
        return 0;
    bind(k, bytes, &op->bind);
    bind_rest(k, &op->bind);
    wi_sched_get(op->bind.sched);
    wi_prog_get(op->bind.stage[0]);
    if (k->has_scratch)
        WI_TRY(wi_op_scratch(op));
    return 1;
}

static void fill(struct weft_comm *comm, const struct wi_call *c, const struct wi_codec_use *codec, uint64_t tensor,
                 struct wi_op *op)
{
    struct wi_exec *exec = comm->exec;
    struct wi_record *e = wi_recorder_add(&exec->recorder);

    op->bind.base[WI_SRC] = (unsigned char *)(uintptr_t)c->src;
    op->bind.base[WI_DST] = c->dst;
    op->timeout_ns = op->deadline_ns = 0;
    op->wait.rounds = 0;
    op->wait.word = NULL;
    op->state = WI_OP_RUNNING;
    op->status = WEFT_INPROGRESS;
    wi_call_info(comm, c, &op->info);
    wi_call_redop(comm, c, &op->bind.redop);
    if (codec)
        wi_compress_mark(&op->info, wi_compress_mark_of(codec, &codec->codec, tensor));
    wi_exec_number(exec, &op->info);
    wi_exec_board(exec, &op->info);
    e->info = op->info;
    e->receives = 0;
    e->algo = op->bind.sched->algo;
    e->label = 0;
    /* Of the codec of WEFT_COMPRESS it is not told that it was bypassed. */
    e->has_codec = e->bypassed = codec == &comm->named_codec.use;
    if (__builtin_expect(e->has_codec, 0)) {
        e->tensor = tensor;
        strcpy(e->codec, comm->named_codec.shown);
    }
    e->bytes_sent = 0;
    e->ticks_issued = wi_ticks();
    e->ticks_done = 0;
    e->state = WI_RECORD_STARTED;
    op->record = e;
    op->record_serial = e->serial;
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
    uint32_t round = 0;
    int held;

    if (!op->link) {
        count(comm);
        wi_exec_queue_alone(comm->exec, op);
    }
    op->finished = ended_by_another;
    op->finished_arg = &ended;
    atomic_fetch_add_explicit(&comm->entering, 1, memory_order_seq_cst);
    wi_comm_leave(comm);
    do {
        wi_stand_by(round++);
        wi_comm_give_way(comm, 1);
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

enum wi_fast_result wi_fast_run(struct weft_comm *comm, const struct wi_call *c, const struct wi_codec_use *codec,
                                uint64_t tensor, weft_status *st)
{
    struct wi_exec *exec = comm->exec;
    struct wi_op *op = &comm->fast_op;
    const struct wi_fast_call *k;
    size_t bytes = share_bytes(c);

    /* Nothing to exchange takes no number, on any rank. */
    if (!c->count && c->coll != WI_COLL_BARRIER && wi_algo_family(c->coll) == c->coll)
        return WI_FAST_NOT;
    if (!comm->runs_alone || exec->nops || exec->broken || wi_call_copies_source(c))
        return WI_FAST_NOT;
    k = find(comm, c, codec, bytes);
    if (!k || !k->mapped)
        return WI_FAST_NOT;
    bind(k, bytes, &op->bind); /* without references, which it takes when others are let in */
    fill(comm, c, codec, tensor, op);
    *st = wi_exec_run_alone(exec, op);
    if (__builtin_expect(!op->run.alone, 0)) {
        *st = wi_comm_ended();
        atomic_fetch_sub_explicit(&comm->entering, 1, memory_order_release); /* destroying waits for it */
        return WI_FAST_LOST;
    }
    if (__builtin_expect(op->link != NULL, 0))
        wi_op_unlink(exec, op);
    if (op->record->serial == op->record_serial) /* others may have filled the recorder since */
        op->record->state = *st < 0 ? WI_RECORD_FAILED : WI_RECORD_DONE;
    if (__builtin_expect(comm->fast_counted, 0)) {
        wi_exec_keep_name(exec, op->bind.sched); /* it may have been dropped from the cache */
        uncount(comm);
    }
    if (__builtin_expect(*st < 0, 0))
        wi_comm_outcome(comm, *st);
    return WI_FAST_RAN;
}
