/* SPDX-License-Identifier: BSD-3-Clause */
/* Probing for messages, and the status of received ones. */
#include <sched.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/comm.h"

static const struct wi_struct_rule message_rule = WI_STRUCT_RULE(weft_message, "WEFT_MESSAGE_INIT", bytes);

static void fill(weft_message *out, int source, int64_t tag, const struct weft_op_info *info)
{
    weft_message found = {.source = source, .dtype = (weft_dtype)info->dtype, .tag = tag, .count = info->count};

    wi_struct_write(&message_rule, &found, out);
}

/* Let other threads in first. On failure the communicator is being destroyed, and no longer held. */
static weft_status give_way(struct weft_comm *comm)
{
    wi_comm_guest_in(comm);
    wi_comm_leave(comm);
    sched_yield();
    weft_status st = wi_comm_enter(comm);
    wi_comm_guest_out(comm);
    return st;
}

/* Waiting without an operation: an operation that never runs counts the rounds. */
static weft_status look_until(struct weft_comm *comm, int peer, int64_t tag, uint64_t until_ns,
                              struct wi_match_found *found, int *held)
{
    struct wi_op idle = {.match = {.point_to_point = 1, .by_tag = 1, .peer = peer, .tag = tag},
                         .deadline_ns = UINT64_MAX};

    for (;;) {
        int moved, got;
        wi_exec_progress(comm->exec, NULL, &moved);
        if (comm->exec->broken)
            return comm->exec->broken;
        got = wi_match_probe(comm->exec, peer, tag, found);
        if (got)
            return got < 0 ? (weft_status)got : WEFT_SUCCESS;
        if (!until_ns || (until_ns != UINT64_MAX && wi_now_ns() >= until_ns))
            return WEFT_INPROGRESS;
        if (wi_comm_wanted(comm)) {
            weft_status st = give_way(comm);
            *held = st >= 0;
            WI_TRY(st);
        } else if (!moved) {
            wi_exec_pause(comm->exec, &idle);
        }
    }
}

weft_status weft_probe(weft_comm *comm, int peer, int64_t tag, uint64_t timeout_ns, weft_message *message)
{
    uint64_t until_ns = timeout_ns == WEFT_TIMEOUT_NEVER ? UINT64_MAX : timeout_ns ? wi_deadline_ns(timeout_ns) : 0;
    struct wi_match_found found = {0};
    weft_status st;
    int held = 1;

    WI_TRY(wi_comm_check(comm));
    WI_TRY(wi_struct_check(&message_rule, "probe", message));
    if (peer != WEFT_ANY_SOURCE && (peer < 0 || peer >= comm->nranks))
        return wi_fail(WEFT_EINVAL, "probe: peer %d is not a rank of this communicator (0 to %d)", peer,
                       comm->nranks - 1);
    if (tag < WEFT_ANY_TAG)
        return wi_fail(WEFT_EINVAL, "probe: tag %lld is below 0", (long long)tag);
    WI_TRY(wi_comm_enter(comm));
    if (comm->exec->broken)
        st = wi_fail(comm->exec->broken, "%s", comm->exec->error.message);
    else
        st = look_until(comm, peer, tag, until_ns, &found, &held);
    if (!held)
        return st;
    if (st == WEFT_SUCCESS)
        fill(message, found.source, found.tag, &found.info);
    else if (st == WEFT_ENOTSUP)
        wi_fail(st, "probe: the transport to rank %d cannot tell what has come", peer);
    if (comm->exec->broken)
        wi_comm_failed(comm);
    wi_comm_leave(comm);
    return st;
}

weft_status weft_request_message(weft_request *req, weft_message *message)
{
    const struct wi_op *op;

    WI_TRY(wi_request_check(req));
    WI_TRY(wi_struct_check(&message_rule, "request_message", message));
    if (req->call.coll != WI_COLL_RECV && req->call.coll != WI_COLL_SEND_RECV)
        return wi_fail(WEFT_EINVAL, "request_message: %s receives no message", wi_coll_name(req->call.coll));
    if (req->queued || !req->nops || atomic_load_explicit(&req->left, memory_order_acquire))
        return WEFT_INPROGRESS;
    if (req->status < 0)
        return req->status;
    op = &req->op[req->nops - 1];
    fill(message, op->match.got_source, op->match.got_tag, &op->info);
    return WEFT_SUCCESS;
}
