/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that need more than one message in flight between two thread blocks.
 *
 * MSCCL's channels hold several messages, weft's hold one, and that is what the proof allows. Where a program would get stuck
 * for want of room, the receiving thread block gets a second one, which takes every message as it comes into scratch of its own;
 * the first one works with what lies there, in the order that the file says:
 *
 *   r dst            second: recv s     first: copy dst <- s
 *   rcs dst          second: recv s     first: copy dst <- s, send dst
 *   rrc src dst      second: recv s     first: reduce dst <- src, s
 *   rrcs src dst     second: recv s     first: reduce dst <- src, s; send dst
 *   rrs src          second: recv s     first: reduce s <- src, s; send s
 *
 * Which thread blocks these are comes out of a run with one message per channel; what comes of them is proved like any other. */
#include "import/import_program.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

struct run_lane {
    const struct wi_imp_lane *lane;
    uint32_t rank, number;
    uint32_t to, from; /* lanes at the other ends; WI_NOWHERE */
    uint32_t pos, inbox;
    uint8_t received, deep, queued, wants_room;
};

struct run {
    struct wi_imp_prog *prog;
    uint32_t *first; /* [nranks]: a rank's first lane in `lanes` */
    struct run_lane *lanes;
    uint32_t nlanes;
    uint32_t *queue, head, length; /* a circle of nlanes */
};

/* ---- The run ---- */

static void enqueue(struct run *r, uint32_t lane)
{
    if (lane == WI_NOWHERE || r->lanes[lane].queued)
        return;
    r->lanes[lane].queued = 1;
    r->queue[(r->head + r->length++) % r->nlanes] = lane;
}

/* One op, or the first half of one that receives and sends; 0: it must wait. */
static int move(struct run *r, struct run_lane *l)
{
    const struct wi_imp_op *op = &l->lane->ops[l->pos];

    l->wants_room = 0;
    if (!l->received && op->dep_lane != WI_NO_DEP &&
        r->lanes[r->first[l->rank] + (uint32_t)op->dep_lane].pos <= op->dep_op)
        return 0;
    if (wi_sched_is_recv(op->kind) && !l->received) {
        if (l->from == WI_NOWHERE || !l->inbox)
            return 0;
        l->inbox--;
        l->received = 1;
        enqueue(r, l->from);
    }
    if (wi_sched_is_send(op->kind)) {
        struct run_lane *to = l->to == WI_NOWHERE ? NULL : &r->lanes[l->to];
        l->wants_room = to && to->inbox && !to->deep;
        if (!to || l->wants_room)
            return 0;
        to->inbox++;
        enqueue(r, l->to);
    }
    l->received = 0;
    l->pos++;
    return 1;
}

static void run_queue(struct run *r)
{
    while (r->length) {
        struct run_lane *l = &r->lanes[r->queue[r->head]];
        uint32_t before = l->pos;
        r->head = (r->head + 1) % r->nlanes;
        r->length--;
        l->queued = 0;
        while (l->pos < l->lane->nops && move(r, l))
            ;
        for (uint32_t i = 0; l->pos > before && i < r->prog->ranks[l->rank].nlanes; i++)
            enqueue(r, r->first[l->rank] + i);
    }
}

/* Those whose senders wait for room hold any number from now on. Returns how many there are. */
static uint32_t deepen(struct run *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->nlanes; i++) {
        struct run_lane *l = &r->lanes[i];
        if (l->pos >= l->lane->nops || !l->wants_room)
            continue;
        n += !r->lanes[l->to].deep;
        r->lanes[l->to].deep = 1;
        enqueue(r, i);
    }
    return n;
}

static int all_done(const struct run *r)
{
    for (uint32_t i = 0; i < r->nlanes; i++)
        if (r->lanes[i].pos < r->lanes[i].lane->nops)
            return 0;
    return 1;
}

static uint32_t receiver_of(const struct run *r, const struct run_lane *l)
{
    int peer = l->lane->send_peer;

    if (peer == WI_NO_PEER || peer >= r->prog->nranks)
        return WI_NOWHERE;
    for (uint32_t i = 0; i < r->prog->ranks[peer].nlanes; i++) {
        const struct wi_imp_lane *at = &r->prog->ranks[peer].lanes[i];
        if (at->recv_peer == (int)l->rank && at->chan == l->lane->chan)
            return r->first[peer] + i;
    }
    return WI_NOWHERE;
}

static weft_status begin_run(struct run *r)
{
    uint32_t n = 0;

    r->first = wi_malloc(((size_t)r->prog->nranks + 1) * sizeof *r->first);
    for (int k = 0; r->first && k < r->prog->nranks; k++) {
        r->first[k] = n;
        n += r->prog->ranks[k].nlanes;
    }
    r->lanes = wi_calloc((size_t)n + 1, sizeof *r->lanes);
    r->queue = wi_malloc(((size_t)n + 1) * sizeof *r->queue);
    if (!r->first || !r->lanes || !r->queue)
        return wi_imp_fail(r->prog, WEFT_ENOMEM, 0, "no memory for %u thread blocks", n);
    r->nlanes = n;
    for (int k = 0; k < r->prog->nranks; k++)
        for (uint32_t i = 0; i < r->prog->ranks[k].nlanes; i++)
            r->lanes[r->first[k] + i] = (struct run_lane){.lane = &r->prog->ranks[k].lanes[i],
                                                          .rank = (uint32_t)k,
                                                          .number = i,
                                                          .to = WI_NOWHERE,
                                                          .from = WI_NOWHERE};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = receiver_of(r, &r->lanes[i]);
        r->lanes[i].to = to;
        if (to != WI_NOWHERE)
            r->lanes[to].from = i;
        enqueue(r, i);
    }
    return WEFT_SUCCESS;
}

/* ---- The second thread block ---- */

struct split {
    struct wi_imp_prog *prog;
    struct wi_imp_rank *rank;
    struct wi_imp_lane fresh, taker; /* what the lane becomes; the new lane that takes its messages */
    uint32_t taker_number, stage;    /* next free chunk of scratch */
    uint32_t *last;                  /* per old op: the last op that it has become */
};

static weft_status add(struct split *t, struct wi_imp_lane *lane, struct wi_imp_op op, const struct wi_region *dst,
                       const struct wi_region *src)
{
    return wi_imp_op_add(t->prog, t->rank, lane, &op, dst, src);
}

static weft_status take_apart(struct split *t, const struct wi_imp_op *op)
{
    const struct wi_region *own = &t->rank->regions[op->regions];
    struct wi_region dst = own[0], src[2] = {{0}}, stage = wi_at(WI_TMP, t->stage, own[0].count);
    struct wi_imp_op plain = {.dep_lane = WI_NO_DEP, .peer = WI_NO_PEER, .place = op->place};
    struct wi_imp_op taken = plain, nop = *op, work = plain, sent = plain;

    if (op->nsrc)
        src[0] = own[op->ndst];
    if (t->stage + own[0].count > WI_IMPORT_MAX_CHUNKS)
        return wi_imp_fail(t->prog, WEFT_ENOTSUP, op->place.line,
                           "needs more than one message in flight, and its messages more than %u chunks of scratch",
                           WI_IMPORT_MAX_CHUNKS);
    t->stage += own[0].count;
    taken.kind = WI_STEP_RECV;
    taken.ndst = 1;
    work.dep_lane = (int32_t)t->taker_number;
    work.dep_op = t->taker.nops;
    WI_TRY(add(t, &t->taker, taken, &stage, NULL));
    nop.kind = WI_STEP_NOP;
    nop.ndst = nop.nsrc = nop.drops = 0;
    if (op->dep_lane != WI_NO_DEP)
        WI_TRY(add(t, &t->fresh, nop, NULL, NULL));
    work.kind = op->nsrc ? WI_STEP_REDUCE : WI_STEP_COPY;
    work.ndst = 1;
    work.nsrc = (uint16_t)(op->nsrc + 1);
    src[op->nsrc] = stage;
    if (op->drops)
        dst = stage;
    WI_TRY(add(t, &t->fresh, work, &dst, src));
    sent.kind = WI_STEP_SEND;
    sent.nsrc = 1;
    return wi_sched_is_send(op->kind) ? add(t, &t->fresh, sent, NULL, &dst) : WEFT_SUCCESS;
}

static weft_status keep(struct split *t, const struct wi_imp_op *op)
{
    struct wi_region regions[3] = {{0}};

    for (uint32_t i = 0; i < (uint32_t)op->ndst + op->nsrc && i < 3; i++)
        regions[i] = t->rank->regions[op->regions + i];
    return add(t, &t->fresh, *op, regions, regions + op->ndst);
}

/* Steps that depended on an op of the lane depend on the last op that it has become. */
static void redirect(const struct split *t, struct wi_imp_lane *lane, uint32_t number)
{
    for (uint32_t k = 0; k < lane->nops; k++)
        if (lane->ops[k].dep_lane == (int32_t)number)
            lane->ops[k].dep_op = t->last[lane->ops[k].dep_op];
}

static weft_status split_ops(struct split *t, uint32_t number)
{
    const struct wi_imp_lane *old = &t->rank->lanes[number];

    for (uint32_t k = 0; k < old->nops; k++) {
        WI_TRY(wi_sched_is_recv(old->ops[k].kind) ? take_apart(t, &old->ops[k]) : keep(t, &old->ops[k]));
        t->last[k] = t->fresh.nops - 1;
    }
    return WEFT_SUCCESS;
}

static weft_status split_lane(struct wi_imp_prog *prog, int rank, uint32_t number)
{
    struct wi_imp_rank *r = &prog->ranks[rank];
    struct wi_imp_lane *taker, *old;
    struct split t = {.prog = prog, .rank = r, .taker_number = r->nlanes, .stage = r->chunks[WI_TMP]};
    weft_status st;

    if (r->nlanes == WI_IMPORT_MAX_LANES)
        return wi_imp_fail(prog, WEFT_ENOTSUP, r->lanes[number].line,
                           "needs more than one message in flight, and there are %d thread blocks already",
                           WI_IMPORT_MAX_LANES);
    WI_TRY(wi_imp_lane_add(prog, r, &taker));
    old = &r->lanes[number];
    t.fresh = t.taker = *old;
    t.fresh.ops = t.taker.ops = NULL;
    t.fresh.nops = t.taker.nops = t.fresh.capacity = t.taker.capacity = 0;
    t.fresh.recv_peer = t.taker.send_peer = WI_NO_PEER;
    t.last = wi_malloc((old->nops + (size_t)1) * sizeof *t.last);
    st = t.last ? split_ops(&t, number) : wi_imp_fail(prog, WEFT_ENOMEM, 0, "no memory for %u steps", old->nops);
    if (st >= 0) {
        redirect(&t, &t.fresh, number);
        for (uint32_t l = 0; l < r->nlanes; l++)
            if (l != number)
                redirect(&t, &r->lanes[l], number);
        prog->nops -= old->nops;
        wi_free(old->ops);
        *old = t.fresh;
        *taker = t.taker;
        r->chunks[WI_TMP] = t.stage;
    } else {
        wi_free(t.fresh.ops);
        wi_free(t.taker.ops);
    }
    wi_free(t.last);
    return st;
}

weft_status wi_imp_deepen(struct wi_imp_prog *prog)
{
    struct run r = {.prog = prog};
    weft_status st = begin_run(&r);
    int done;

    if (st >= 0) {
        do
            run_queue(&r);
        while (deepen(&r));
    }
    done = st >= 0 && all_done(&r); /* else it is stuck all the same, and the study says where */
    for (uint32_t i = 0; st >= 0 && done && i < r.nlanes; i++)
        if (r.lanes[i].deep)
            st = split_lane(prog, (int)r.lanes[i].rank, r.lanes[i].number);
    wi_free(r.first);
    wi_free(r.lanes);
    wi_free(r.queue);
    return st;
}
