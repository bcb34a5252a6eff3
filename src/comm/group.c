/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: calls between start and end are issued together, so that sends and receives cannot wait for each other. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

__thread int wi_group_depth;

struct group {
    struct weft_request *head, **tail;
    weft_status error; /* the first, latched: the whole group is not issued */
    char text[256];
};
static __thread struct group group;

weft_status wi_group_refused(weft_status st)
{
    if (group.error >= 0) {
        group.error = st;
        strncpy(group.text, wi_fail_text(), sizeof group.text - 1);
    }
    return st;
}

static void append(struct weft_request *req)
{
    if (!group.head)
        group.tail = &group.head;
    req->queued = 1;
    req->next = NULL;
    *group.tail = req;
    group.tail = &req->next;
}

weft_status wi_group_add(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                         weft_request **out)
{
    struct weft_request *req;
    weft_status st = wi_call_check(comm, call);

    if (st >= 0)
        st = wi_call_options_check(comm, call, options);
    if (st < 0)
        return wi_group_refused(st);
    st = wi_comm_enter(comm);
    if (st < 0)
        return wi_group_refused(st);
    req = wi_request_get(comm);
    if (req) {
        req->call = *call;
        st = wi_request_options(req, options);
        req->owned_by_group = out == NULL;
    }
    if (req && st >= 0)
        append(req);
    else if (req)
        wi_request_put(req);
    else
        st = wi_fail(WEFT_ENOMEM, "request");
    wi_comm_leave(comm);
    if (st < 0)
        return wi_group_refused(st);
    if (out)
        *out = req;
    return WEFT_SUCCESS;
}

weft_status wi_group_add_request(struct weft_request *req)
{
    append(req);
    return WEFT_SUCCESS;
}

weft_status weft_group_start(void)
{
    if (wi_group_depth++ == 0)
        group = (struct group){.tail = &group.head};
    return WEFT_SUCCESS;
}

static weft_status issue_one(struct weft_request *req)
{
    weft_status st = wi_comm_enter(req->comm);

    if (st < 0)
        return st;
    st = wi_request_issue(req);
    if (st >= 0 && req->nops)
        wi_progress_kick(req->comm->ctx);
    wi_comm_leave(req->comm);
    return st;
}

static void put_back(struct weft_request *req)
{
    if (wi_comm_enter(req->comm) < 0)
        return; /* stays with the communicator */
    wi_request_put(req);
    wi_comm_leave(req->comm);
}

weft_status weft_group_end(void)
{
    struct weft_request *req, *next, *waiting = NULL, **tail = &waiting;
    weft_status st;

    if (wi_group_depth == 0)
        return wi_fail(WEFT_EINVAL, "group_end without group_start");
    if (--wi_group_depth > 0)
        return WEFT_SUCCESS;
    st = group.error;
    for (req = group.head; req; req = req->next) {
        if (req->magic == WI_FORKED_MAGIC) { /* what the parent's thread had begun is the parent's */
            group.head = NULL;
            return wi_fail(WEFT_EINVAL, "group_end: a call of the group is not this process's%s",
                           wi_forked_text(req->magic));
        }
    }
    for (req = group.head; req; req = req->next)
        wi_comm_guest_in(req->comm);
    for (req = group.head; req; req = next) {
        next = req->next;
        req->next = NULL;
        req->queued = 0;
        if (st >= 0)
            st = issue_one(req);
        if (st < 0) { /* not issued, or failed to: its request reports the failure */
            req->status = st;
            req->active = 0;
            wi_completion_tell(req);
        }
        if (req->owned_by_group) {
            *tail = req;
            tail = &req->next;
        } else {
            wi_comm_guest_out(req->comm);
        }
    }
    group.head = NULL;
    for (req = waiting; req; req = next) {
        weft_status one = req->active ? wi_request_wait(req, UINT64_MAX) : req->status;
        struct weft_comm *comm = req->comm;
        next = req->next;
        st = st < 0 ? st : one < 0 ? one : st;
        put_back(req);
        wi_comm_guest_out(comm);
    }
    return group.error < 0 ? wi_fail(group.error, "%s", group.text) : st;
}
