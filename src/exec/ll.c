/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped schedules over ll lines: payload and flag in one cache line. And the exchange of records before a schedule is
 * known, which uses the same lines. */
#include <string.h>

#include "base/status.h"
#include "exec/address.h"
#include "exec/ll.h"

void wi_ll_wrong(struct wi_exec *exec, const struct wi_op *op, int rank)
{
    wi_exec_differs(exec, op, rank);
}

/* ---- Steps of programs ---- */

void wi_ll_publish_step(struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st)
{
    const struct wi_unit *unit = &op->bind.stage[0]->units[st->unit];

    wi_ll_publish(exec, op->run.epoch, wi_ll_seq(op->run.epoch, &op->info),
                  wi_address(exec, op, &op->bind.stage[0]->operands[unit->operand], op->run.epoch, 0),
                  op->bind.slot_bytes);
}

int wi_ll_fetch_step(struct wi_exec *exec, struct wi_op *op, const struct wi_prog_step *st)
{
    exec->ll_tmp[st->peer] = wi_ll_fetch(exec, op, st->peer, wi_ll_seq(op->run.epoch, &op->info), op->bind.slot_bytes);
    return exec->ll_tmp[st->peer] ? 1 : (int)exec->broken;
}

/* ---- Exchange of records before the schedule is known ---- */

static int record_arrived(struct wi_exec *exec, struct wi_op *op, const struct wi_exchange *x, int rank, uint64_t seq)
{
    unsigned char *out = exec->ll_received + (size_t)rank * exec->ll_bytes;
    const unsigned char *from = wi_ll_fetch(exec, op, rank, seq, x->record_bytes);

    if (from && from != out)
        memcpy(out, from, x->record_bytes);
    return from != NULL;
}

int wi_ll_exchange(struct wi_exec *exec, struct wi_op *op, struct wi_exchange *x, int *moved)
{
    const unsigned char *record = x->longer ? x->longer : x->record;
    uint64_t seq;

    if (!x->published) {
        if (op->run.epoch == 0)
            op->run.epoch = exec->next_epoch++;
        if (!wi_exec_slot_free(exec, op->run.epoch, exec->map.ll_depth, op))
            return 0;
        wi_ll_publish(exec, op->run.epoch, wi_ll_seq(op->run.epoch, &op->info), record, x->record_bytes);
        memcpy(exec->ll_received + (size_t)exec->rank * exec->ll_bytes, record, x->record_bytes);
        x->published = 1;
        x->rank = 0;
        *moved = 1;
    }
    seq = wi_ll_seq(op->run.epoch, &op->info);
    while (x->rank < exec->nranks) {
        if (x->rank != exec->rank && !record_arrived(exec, op, x, x->rank, seq))
            return exec->broken;
        x->rank++;
        *moved = 1;
    }
    wi_epochs_done(exec, op->run.epoch + 1);
    op->wait.word = NULL;
    return 1;
}
