/* SPDX-License-Identifier: BSD-3-Clause */
/* Gates, at which operations wait before they are planned: op.h. */
#include "base/clock.h"
#include "base/status.h"
#include "exec/exec.h"

/* Until it is planned it may be a mapped one: those run one at a time, in order. */
void wi_gate_close(struct wi_exec *exec, struct wi_op *op, const struct wi_gate_ops *ops, void *arg,
                   uint64_t timeout_ns)
{
    op->gate.ops = ops;
    op->gate.arg = arg;
    op->gate.timeout_ns = timeout_ns;
    op->gate.deadline_ns = timeout_ns ? wi_deadline_ns(timeout_ns) : UINT64_MAX;
    op->bind.mapped = exec->map_group != NULL;
}

static weft_status open_gate(struct wi_exec *exec, struct wi_op *op)
{
    op->gate.ops = NULL;
    op->wait.word = NULL;
    return op->gate.opened(exec, op);
}

/* Behind a gate that only this rank has (`alone`) the other ranks do not fail, and would wait: so a failure that otherwise ends one
 * operation ends the communicator. */
static weft_status for_all(weft_status st, int alone)
{
    return alone && st > WEFT_EPEER ? WEFT_ESYS : st;
}

int wi_gate_poll(struct wi_exec *exec, struct wi_op *op)
{
    const char *name = op->gate.ops->name;
    int moved = 0, open = op->gate.ops->poll(exec, op, &moved), alone;
    weft_status st;

    if (exec->broken || open == 0)
        return moved;
    alone = !op->gate.ops->agreed;
    if (open < 0) {
        op->status =
            wi_exec_fail(exec, for_all((weft_status)open, alone), -1, &op->info, "%s: %s", name, wi_fail_text());
        op->gate.ops = NULL;
        return 1;
    }
    st = open_gate(exec, op);
    if (st < 0)
        op->status = wi_exec_fail(exec, for_all(st, alone), -1, &op->info, "%s", wi_fail_text());
    return 1;
}

/* The board holds the newest operation; later ones have been issued if that is not op. What is planned for a prelude is not what
 * is planned for its operation: ranks that are further would compare it with that. */
static void board_if_newest(struct wi_exec *exec, const struct wi_op *op)
{
    if (op->info.seq == exec->next_seq && !op->prelude_of)
        wi_exec_board(exec, &op->info);
}

void wi_exec_exchanges(struct wi_exec *exec, struct wi_op *op)
{
    op->info.flags |= WI_INFO_EXCHANGES;
    board_if_newest(exec, op);
}

void wi_exec_planned(struct wi_exec *exec, struct wi_op *op, uint32_t planned)
{
    op->bind.planned = planned;
    op->info.hash ^= planned;
    op->info.flags |= WI_INFO_PLANNED;
    board_if_newest(exec, op);
}
