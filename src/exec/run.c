/* SPDX-License-Identifier: BSD-3-Clause */
/* Which operations are in flight, which begin, and which are looked at. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"
#include "exec/signal.h"

/* ---- Lists ---- */

void wi_op_list_init(struct wi_op_list *list)
{
    list->head = NULL;
    list->tail = &list->head;
}

void wi_op_link(struct wi_exec *exec, struct wi_op_list *list, struct wi_op *op)
{
    op->next = NULL;
    op->list = list;
    op->link = list->tail;
    *list->tail = op;
    list->tail = &op->next;
    __atomic_store_n(&exec->nops, exec->nops + 1, __ATOMIC_RELAXED);
}

void wi_op_unlink(struct wi_exec *exec, struct wi_op *op)
{
    if (!op->link)
        return;
    for (int i = 0; i < 2; i++)
        if (exec->upcoming[i] == op)
            exec->upcoming[i] = op->next;
    *op->link = op->next;
    if (op->next)
        op->next->link = op->link;
    else
        op->list->tail = op->link;
    op->link = NULL;
    __atomic_store_n(&exec->nops, exec->nops - 1, __ATOMIC_RELAXED);
}

struct wi_op *wi_exec_oldest(const struct wi_exec *exec)
{
    struct wi_op *collective = exec->running.head ? exec->running.head : exec->waiting.head;
    struct wi_op *message = exec->messages.head;

    if (!collective || !message)
        return collective ? collective : message;
    return collective->number < message->number ? collective : message;
}

static struct wi_op *numbered(const struct wi_op_list *list, uint32_t seq)
{
    struct wi_op *op = list->head;

    while (op && (op->info.seq != seq || op->prelude_of))
        op = op->next;
    return op;
}

struct wi_op *wi_exec_collective(const struct wi_exec *exec, uint32_t seq)
{
    struct wi_op *op = numbered(&exec->running, seq);

    return op ? op : numbered(&exec->waiting, seq);
}

struct wi_op *wi_exec_held_by(const struct wi_exec *exec, const struct wi_op *op)
{
    struct wi_op *first = exec->running.head;

    return first == op || op->match.point_to_point || (op->state != WI_OP_QUEUED && !wi_op_is_gated(op)) ? NULL : first;
}

void wi_exec_queue_alone(struct wi_exec *exec, struct wi_op *op)
{
    op->record_serial = op->record->serial;
    op->number = 0; /* there was nothing else when it began */
    wi_op_link(exec, &exec->running, op);
}

/* ---- Fragments ---- */

#define LANES_ROOM 4

static struct wi_fragment *fragment_get(struct wi_exec *exec, uint32_t nlanes)
{
    struct wi_fragment *f = exec->free_fragments;
    uint32_t room = nlanes < LANES_ROOM ? LANES_ROOM : nlanes;

    if (f && f->nlanes_room >= nlanes) {
        exec->free_fragments = f->next;
    } else {
        f = wi_malloc(sizeof *f + room * sizeof f->lane[0]);
        if (!f)
            return NULL;
        f->nlanes_room = room;
    }
    f->next = NULL;
    f->entered = 0;
    return f;
}

void wi_fragment_put(struct wi_exec *exec, struct wi_fragment *f)
{
    f->next = exec->free_fragments;
    exec->free_fragments = f;
}

/* ---- Stages ---- */

static void begin_stage(const struct wi_op *op, struct wi_fragment *f, uint32_t stage)
{
    f->stage = stage;
    f->prog = op->bind.stage[stage];
    f->nlanes_left = f->prog->nlanes;
    memset(f->lane, 0, f->prog->nlanes * sizeof f->lane[0]);
    for (uint32_t l = 0; l < f->prog->nlanes; l++)
        f->lane[l].recvs_tail = &f->lane[l].recvs;
}

/* Messages of a fragment have a window of channels for themselves, the next in turn, which must have been given back. All ranks
 * take them in the same order: of operations, and of their fragments. */
static int has_window(const struct wi_exec *exec, const struct wi_op *op)
{
    if (!op->bind.messages)
        return 1;
    for (const struct wi_op *older = exec->running.head; older; older = older->next)
        if (older->bind.messages && older->run.first)
            return exec->next_window - older->run.first->window < WI_OP_WINDOW;
    return 1;
}

static void take_window(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f)
{
    if (op->bind.messages) {
        f->window = exec->next_window++;
        f->chan_base = f->window % WI_OP_WINDOW * WI_SCHED_MAX_CHANS;
    }
}

static int admit(struct wi_exec *exec, struct wi_op *op)
{
    size_t each = op->bind.fragment_bytes;
    uint32_t nlanes = 0;
    struct wi_fragment *f;

    for (uint32_t i = 0; i < op->bind.nstages; i++)
        nlanes = op->bind.stage[i]->nlanes > nlanes ? op->bind.stage[i]->nlanes : nlanes;
    f = fragment_get(exec, nlanes);
    if (!f) {
        wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for %u lanes", nlanes);
        return 1;
    }
    f->from = op->bind.nfragments > 1 ? op->run.begun * each : 0;
    f->to = op->bind.nfragments > 1 ? f->from + each : SIZE_MAX;
    begin_stage(op, f, 0);
    take_window(exec, op, f);
    if (op->bind.mapped) {
        f->epoch = exec->next_epoch++;
        if (!op->run.first)
            op->run.epoch = f->epoch;
    }
    *op->run.last = f;
    op->run.last = &f->next;
    op->run.begun++;
    op->run.inflight++;
    return 1;
}

static int is_through(const struct wi_op *op, const struct wi_fragment *f)
{
    return !f->nlanes_left && f->stage + 1 == op->bind.nstages;
}

/* In order: epochs end one after the other. */
static void retire(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_fragment *f;

    while ((f = op->run.first) != NULL && is_through(op, f)) {
        op->run.first = f->next;
        if (!f->next)
            op->run.last = &op->run.first;
        op->run.inflight--;
        if (op->bind.mapped) {
            op->run.epoch = f->epoch + 1;
            wi_epochs_done(exec, f->epoch + 1);
        }
        wi_fragment_put(exec, f);
    }
}

int wi_exec_slot_free(struct wi_exec *exec, uint64_t epoch, uint32_t depth, struct wi_op *op)
{
    uint64_t seen = UINT64_MAX;

    if (exec->done_seen + depth > epoch)
        return 1;
    for (int i = 0; i < exec->nmapped; i++) {
        int r = exec->map_ranks[i];
        uint64_t d = wi_load(&exec->map.ranks[r].done->value);
        if (d + depth <= epoch) {
            wi_block_on(op, &exec->map.ranks[r].done->value, epoch - depth + 1, r);
            return 0;
        }
        seen = d < seen ? d : seen;
    }
    exec->done_seen = seen;
    return 1;
}

/* May the fragment use its slot? Asked once. */
static int enter(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f)
{
    f->entered =
        !op->bind.mapped || wi_exec_slot_free(exec, f->epoch, op->bind.ll ? exec->map.ll_depth : exec->map.depth, op);
    return f->entered;
}

/* Signals of a lane only grow: a mapped stage's lane begins with a fragment when it has given all signals of the one before. What
 * is left of that one waits for other ranks and reads what they have signalled. */
static int may_run(const struct wi_fragment *f, uint32_t lane, const struct wi_fragment *ahead)
{
    if (f->lane[lane].done)
        return 0;
    return !ahead || !f->prog->mapped || ahead->stage > f->stage ||
           (ahead->stage == f->stage && ahead->lane[lane].step >= f->prog->lanes[lane].signalled);
}

static int run_stage(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, const struct wi_fragment *ahead)
{
    int moved = 0;

    for (uint32_t l = 0; l < f->prog->nlanes && !exec->broken && op->status == WEFT_INPROGRESS; l++)
        if (may_run(f, l, ahead))
            moved |= wi_lane_run(exec, op, f, l);
    return moved;
}

static int run_fragment(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, const struct wi_fragment *ahead)
{
    int moved;

    if (!f->entered && !enter(exec, op, f))
        return 0;
    moved = run_stage(exec, op, f, ahead);
    while (!f->nlanes_left && f->stage + 1 < op->bind.nstages && !exec->broken && op->status == WEFT_INPROGRESS) {
        begin_stage(op, f, f->stage + 1);
        moved |= 1 | run_stage(exec, op, f, ahead);
    }
    return moved;
}

static int may_admit(const struct wi_exec *exec, const struct wi_op *op)
{
    if (op->run.begun == op->bind.nfragments || !has_window(exec, op))
        return 0;
    return !op->run.inflight || op->run.inflight < (op->bind.mapped ? exec->map.depth : WI_OP_WINDOW);
}

static int run_fragments(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_fragment *ahead = NULL;
    struct wi_op_wait oldest;
    int moved = 0;

    while (!exec->broken && may_admit(exec, op))
        moved |= admit(exec, op);
    for (struct wi_fragment *f = op->run.first; f && !exec->broken; f = f->next) {
        moved |= run_fragment(exec, op, f, ahead);
        if (!ahead)
            oldest = op->wait;
        if (!f->entered)
            break;
        ahead = f;
    }
    if (ahead && !moved) /* what the oldest one waits for comes first */
        op->wait = oldest;
    if (!exec->broken)
        retire(exec, op);
    return moved;
}

/* ---- One operation ---- */

void wi_op_begin(struct wi_exec *exec, struct wi_op *op)
{
    op->run.first = NULL;
    op->run.last = &op->run.first;
    op->run.begun = op->run.inflight = 0;
    if (op->bind.mapped && !op->bind.ll)
        wi_op_begin_stores(exec, op);
}

/* Lanes wait for each other: again while any moves. */
int wi_op_advance(struct wi_exec *exec, struct wi_op *op)
{
    int moved = 0, round;

    do {
        round = run_fragments(exec, op);
        moved |= round;
    } while (round && !exec->broken && op->status == WEFT_INPROGRESS && !wi_op_is_through(op));
    return moved;
}

static int run_op(struct wi_exec *exec, struct wi_op *op)
{
    int moved = 0;

    if (op->match.point_to_point)
        return wi_match_run(exec, op);
    if (op->gate.ops) {
        moved = wi_gate_poll(exec, op);
        if (!exec->broken && op->status < 0) { /* nothing suits what came through the gate */
            wi_op_finish(exec, op, op->status);
            return 1;
        }
        if (exec->broken || op->gate.ops)
            return moved;
    }
    if (op->state == WI_OP_QUEUED) {
        wi_op_begin(exec, op);
        op->state = WI_OP_RUNNING;
    }
    moved |= wi_op_advance(exec, op);
    if (exec->broken)
        return 1;
    if (op->status < 0) {
        wi_op_finish(exec, op, op->status);
        return 1;
    }
    if (wi_op_is_through(op)) {
        if (op->bind.mapped && !op->bind.ll)
            wi_op_end_stores(exec, op);
        wi_op_finish(exec, op, WEFT_SUCCESS);
        return 1;
    }
    if (moved)
        op->wait.rounds = 0;
    return moved;
}

/* ---- All of them ---- */

/* Have all of its fragments been admitted, so that they have their epochs and windows? These are numbered in the order of
 * operations. */
static int all_admitted(const struct wi_op *op)
{
    return !op->gate.ops && op->run.begun == op->bind.nfragments;
}

/* Collectives begin in order: each when all fragments of the one ahead are admitted; a mapped one when no older mapped one is
 * left. */
static int run_collectives(struct wi_exec *exec)
{
    int moved = 0, mapped_ahead = 0, ahead_admitted = 1;
    struct wi_op *op, *next;

    for (op = exec->running.head; op && !exec->broken; op = next) {
        next = op->next;
        exec->op_polls++;
        if (!op->run.alone)
            moved |= run_op(exec, op);
        if (op->state == WI_OP_DONE)
            continue;
        mapped_ahead |= op->bind.mapped;
        ahead_admitted = op->run.alone || all_admitted(op);
    }
    while ((op = exec->waiting.head) && !exec->broken && ahead_admitted) {
        if ((op->bind.mapped && mapped_ahead) || !has_window(exec, op))
            break;
        wi_op_unlink(exec, op);
        wi_op_link(exec, &exec->running, op);
        exec->op_polls++;
        moved |= run_op(exec, op);
        if (op->state == WI_OP_DONE)
            continue;
        mapped_ahead |= op->bind.mapped;
        ahead_admitted = all_admitted(op);
    }
    return moved;
}

#define LOOKS 64 /* at messages that have not moved, in one round */

/* Messages from `op` on, until LOOKS of them have not moved. The place after the last one is left in exec->upcoming[walk]. */
static int run_some(struct wi_exec *exec, struct wi_op *op, int walk)
{
    int moved = 0;

    for (int still = 0; op && still < LOOKS && !exec->broken; op = exec->upcoming[walk]) {
        int one;
        exec->upcoming[walk] = op->next;
        exec->op_polls++;
        one = run_op(exec, op);
        still += !one;
        moved |= one;
    }
    return moved;
}

/* Between two ranks messages complete in order, nearly always: the oldest are looked at in each round, and of the others some, in
 * turn. To look at all of very many would take time in the square of their number. */
static int run_messages(struct wi_exec *exec)
{
    int moved = run_some(exec, exec->messages.head, 0);

    if (exec->upcoming[0] && !exec->broken)
        moved |= run_some(exec, exec->upcoming[1] ? exec->upcoming[1] : exec->upcoming[0], 1);
    return moved;
}

int wi_exec_run(struct wi_exec *exec, struct wi_op *awaited)
{
    int moved = run_collectives(exec);

    if (!exec->broken)
        moved |= run_messages(exec);
    if (awaited && awaited->list == &exec->messages && awaited->link && !exec->broken && exec->upcoming[0]) {
        exec->op_polls++;
        moved |= run_op(exec, awaited);
    }
    return moved;
}

#define FEW_OPS 16

/* With many operations in flight an issue looks at the new one only, or all that are issued before one is waited for would take
 * time in the square of their number: a message is posted, a collective begins if it may. What has arrived is looked for once for
 * as many issues as there are operations. */
void wi_exec_begin_new(struct wi_exec *exec, struct wi_op *op)
{
    if (exec->nops <= FEW_OPS || ++exec->nunpolled >= exec->nops) {
        exec->nunpolled = 0;
        wi_exec_progress(exec, op, NULL);
        return;
    }
    if (!op->match.point_to_point)
        run_collectives(exec);
    if (exec->broken)
        wi_exec_progress(exec, NULL, NULL);
}
