/* SPDX-License-Identifier: BSD-3-Clause */
/* The phases of a collective before it runs: it waits at the gate that it was given, exchanges its buffers with the other ranks, is
 * planned, is laid out. Without gates all of that is done when it is issued; at a gate the executor keeps it, numbered, and comes
 * back when it is open. */
#include "base/status.h"
#include "comm/comm.h"

void wi_request_gate(struct weft_request *req, const struct wi_gate_ops *ops, void *arg, uint64_t timeout_ns)
{
    req->given = (struct wi_given_gate){ops, arg, timeout_ns};
}

static weft_status opened(struct wi_exec *exec, struct wi_op *op)
{
    (void)exec;
    return wi_phases_run(op->finished_arg, op);
}

static void gate(struct weft_request *req, struct wi_op *op)
{
    const struct wi_given_gate *g = &req->given;

    op->gate.opened = opened;
    if (!g->ops)
        return;
    req->planning.agreed = g->ops->agreed;
    wi_gate_close(req->comm->exec, op, g->ops, g->arg, g->timeout_ns);
}

static weft_status exchange(struct weft_request *req, struct wi_op *op)
{
    struct wi_planning *p = &req->planning;

    p->query = wi_op_query(req->comm, &req->now, op, p->share);
    wi_compress_query(req, op, &p->query);
    p->exchanged = wi_plan_needs_exchange(req->comm->planner, &p->query, req->options.algorithm) != 0;
    if (!p->exchanged)
        return WEFT_SUCCESS;
    if (p->agreed)
        wi_exec_exchanges(req->comm->exec, op);
    p->agreed = 1;
    return wi_exchange_begin(req, op);
}

static weft_status plan(struct weft_request *req, struct wi_op *op)
{
    struct wi_planning *p = &req->planning;
    struct weft_comm *comm = req->comm;
    const struct wi_call *c = &req->now;

    if (p->exchanged)
        WI_TRY(wi_exchange_plan(req, &p->query, &p->plan));
    else
        WI_TRY(wi_plan(comm->planner, &p->query, req->options.algorithm, &p->plan));
    WI_TRY(wi_op_bind(comm, op, p->plan.algo, &p->plan.spec, c->root < 0 ? 0 : c->root, p->query.own_in_place,
                      &p->programs));
    return wi_compress_settle(req, op);
}

static weft_status lay_out(struct weft_request *req, struct wi_op *op)
{
    struct wi_planning *p = &req->planning;
    size_t slice;

    if (op->record) {
        op->record->algo = op->bind.sched->algo;
        op->record->bypassed = wi_coding_is_bypassed(&op->bind.coding);
    }
    if (p->exchanged)
        WI_TRY(wi_exchange_map(req, op));
    slice = wi_op_slice(op, &p->plan);
    WI_TRY(wi_op_lay_out(req->comm, op, &req->now, p->share, slice, p->programs));
    WI_TRY(wi_compress_place(req, op));
    if (p->exchanged)
        WI_TRY(wi_exchange_check(req, op));
    if (p->agreed)
        wi_exec_planned(req->comm->exec, op, wi_plan_named(op->bind.sched->algo, slice));
    return WEFT_SUCCESS;
}

void wi_phases_begin(struct weft_request *req, size_t share)
{
    struct wi_planning *p = &req->planning;

    p->phase = WI_PHASE_GATE;
    p->share = share;
    p->agreed = p->exchanged = 0;
    p->file = NULL;
}

weft_status wi_phases_run(struct weft_request *req, struct wi_op *op)
{
    while (req->planning.phase != WI_PHASE_RUN && !op->gate.ops) {
        switch (req->planning.phase++) {
        case WI_PHASE_GATE:
            gate(req, op);
            break;
        case WI_PHASE_EXCHANGE:
            WI_TRY(exchange(req, op));
            break;
        case WI_PHASE_PLAN:
            WI_TRY(plan(req, op));
            break;
        default:
            WI_TRY(lay_out(req, op));
        }
    }
    return WEFT_SUCCESS;
}
