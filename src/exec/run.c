/* SPDX-License-Identifier: BSD-3-Clause */
/* Which operations are in flight, which begin, and which are looked at. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"

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
    exec->nops++;
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
    exec->nops--;
}

struct wi_op *wi_exec_oldest(const struct wi_exec *exec)
{
    struct wi_op *collective = exec->running.head ? exec->running.head : exec->waiting.head;
    struct wi_op *message = exec->messages.head;

    if (!collective || !message)
        return collective ? collective : message;
    return collective->number < message->number ? collective : message;
}

struct wi_op *wi_exec_collective(const struct wi_exec *exec, uint32_t seq)
{
    struct wi_op *op = exec->running.head;

    while (op && op->info.seq != seq)
        op = op->next;
    if (!op)
        for (op = exec->waiting.head; op && op->info.seq != seq;)
            op = op->next;
    return op;
}

void wi_exec_queue_alone(struct wi_exec *exec, struct wi_op *op)
{
    op->record_serial = op->record->serial;
    op->number = 0; /* there was nothing else when it began */
    wi_op_link(exec, &exec->running, op);
}

void wi_exec_unqueue(struct wi_exec *exec, struct wi_op *op)
{
    wi_op_unlink(exec, op);
}

/* ---- One operation ---- */

static weft_status prepare_lanes(struct wi_op *op)
{
    uint32_t n = op->sched->nlanes;

    op->lanes = op->lanes_inline;
    if (n > WI_OP_LANES_INLINE) {
        op->lanes = wi_malloc(n * sizeof *op->lanes);
        if (!op->lanes)
            return wi_fail(WEFT_ENOMEM, "%u lanes", n);
    }
    memset(op->lanes, 0, n * sizeof *op->lanes);
    for (uint32_t l = 0; l < n; l++)
        op->lanes[l].recvs_tail = &op->lanes[l].recvs;
    op->nlanes_left = n;
    return WEFT_SUCCESS;
}

static int start_op(struct wi_exec *exec, struct wi_op *op)
{
    weft_status st;

    if (op->gate.state != WI_EXCHANGE_NONE)
        return 1;
    st = prepare_lanes(op);
    if (st < 0) {
        wi_exec_fail(exec, st, -1, &op->info, "%s", wi_fail_text());
        return 0;
    }
    if (op->mapped) {
        wi_op_begin_stores(exec, op, wi_op_slot_work(op));
        op->epoch = exec->next_epoch;
        exec->next_epoch += op->nslices;
    }
    op->state = WI_OP_RUNNING;
    return 1;
}

static int run_lane(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    if (op->mapped)
        return wi_lane_run_mapped(exec, op, lane);
    return op->parcels ? wi_lane_run_parcels(exec, op, lane) : wi_lane_run_two_sided(exec, op, lane);
}

static int run_op(struct wi_exec *exec, struct wi_op *op)
{
    int moved = 0, round;

    if (op->match.by_tag)
        return wi_match_run(exec, op);
    if (op->gate.state != WI_EXCHANGE_NONE) {
        moved = wi_op_exchange(exec, op);
        if (exec->broken || op->gate.state != WI_EXCHANGE_NONE)
            return moved;
        if (op->status < 0) { /* nothing suits what the ranks told each other */
            wi_op_finish(exec, op, op->status);
            return 1;
        }
    }
    if (op->state == WI_OP_QUEUED && !start_op(exec, op))
        return 1;
    do { /* lanes wait for each other: again while any moves */
        round = op->ll ? wi_lane_run_ll(exec, op) : 0;
        for (uint32_t l = 0; l < op->sched->nlanes && !op->ll && !exec->broken && op->status == WEFT_INPROGRESS; l++)
            if (!op->lanes[l].done)
                round |= run_lane(exec, op, l);
        moved |= round;
    } while (round && op->nlanes_left && !exec->broken && op->status == WEFT_INPROGRESS);
    if (exec->broken)
        return 1;
    if (op->status < 0 || !op->nlanes_left) {
        if (op->mapped && !op->ll && op->status >= 0)
            wi_op_end_stores(exec, op, wi_op_slot_work(op));
        wi_op_finish(exec, op, op->status < 0 ? op->status : WEFT_SUCCESS);
        return 1;
    }
    if (moved)
        op->wait.rounds = 0;
    return moved;
}

/* ---- All of them ---- */

/* Collectives begin in order: when a slot of the window is free, a mapped one when no older mapped one is left. */
static int run_collectives(struct wi_exec *exec)
{
    int moved = 0, mapped_ahead = 0;
    uint32_t oldest = 0;
    struct wi_op *op, *next;

    for (op = exec->running.head; op && !exec->broken; op = next) {
        next = op->next;
        exec->op_polls++;
        if (!op->alone)
            moved |= run_op(exec, op);
        if (op->state == WI_OP_DONE)
            continue;
        oldest = oldest ? oldest : op->info.seq;
        mapped_ahead |= op->mapped;
    }
    while ((op = exec->waiting.head) && !exec->broken) {
        oldest = oldest ? oldest : op->info.seq;
        if (op->info.seq - oldest >= WI_OP_WINDOW || (op->mapped && mapped_ahead))
            break;
        wi_op_unlink(exec, op);
        wi_op_link(exec, &exec->running, op);
        exec->op_polls++;
        moved |= run_op(exec, op);
        if (op->state == WI_OP_DONE && oldest == op->info.seq)
            oldest = 0;
        mapped_ahead |= op->state != WI_OP_DONE && op->mapped;
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
    if (!op->match.point_to_point) {
        run_collectives(exec);
    } else if (!op->match.by_tag) {
        exec->op_polls++;
        run_op(exec, op);
    }
    if (exec->broken)
        wi_exec_progress(exec, NULL, NULL);
}
