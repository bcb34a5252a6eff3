/* link.c: connections to other processes, which all communicators share.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_NS 1000000ull     /* between looks for processes that ended */
#define CLOSE_NS 1000000000ull /* until everything that was sent has left, at the end */

/* ---- Processes of this host ---- */

static void watch(struct wu_link *l)
{
    struct wu_endpoint *e = l->endpoint;
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = l}};

#ifdef SYS_pidfd_open
    l->pidfd = e->host->fd_keep((int)syscall(SYS_pidfd_open, (int)l->process.pid, 0));
#endif
    if (l->pidfd >= 0 && epoll_ctl(e->deaths, EPOLL_CTL_ADD, l->pidfd, &event) != 0) {
        e->host->fd_close(l->pidfd);
        l->pidfd = -1;
    }
}

static void look_at(struct wu_link *l)
{
    char why[80];

    if (l->ended || !l->watched || l->endpoint->host->process_state(&l->process) != 0)
        return;
    l->ended = 1;
    snprintf(why, sizeof why, "process %d has ended", (int)l->process.pid);
    wu_link_break(l, why);
}

/* UCX ends what is under way on it. Not from on_error, which UCX calls. */
static void force_close(struct wu_link *l)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request;

    if (l->watched || l->closed)
        return;
    l->closed = 1;
    request = wu_ucx.ucp_ep_close_nbx(l->ep, &param);
    if (UCS_PTR_IS_PTR(request))
        wu_ucx.ucp_request_free(request);
}

void wu_links_look(struct wu_endpoint *e, uint64_t now)
{
    struct epoll_event events[16];
    int n;

    if (now - e->looked_ns < LOOK_NS)
        return;
    e->looked_ns = now;
    n = epoll_wait(e->deaths, events, 16, 0);
    for (int i = 0; i < n; i++)
        look_at(events[i].data.ptr);
    for (struct wu_link *l = e->links; l; l = l->next) {
        if (l->watched && l->pidfd < 0)
            look_at(l);
        if (l->broken)
            force_close(l);
    }
}

/* ---- Making and breaking ---- */

void wu_link_break(struct wu_link *l, const char *why)
{
    struct wu_endpoint *e = l->endpoint;

    if (l->broken)
        return;
    l->broken = 1;
    snprintf(l->why, sizeof l->why, "%s", why);
    if (l->pidfd >= 0)
        epoll_ctl(e->deaths, EPOLL_CTL_DEL, l->pidfd, NULL);
    e->breaks++;
    for (struct wu_group *g = e->groups; g; g = g->next)
        wu_wake(g);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    char why[100];

    (void)ep;
    snprintf(why, sizeof why, "the connection broke: %s", wu_ucx.ucs_status_string(status));
    wu_link_break(arg, why);
}

static ucs_status_t make_endpoint(struct wu_link *l, const void *address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = address,
        .err_mode = l->watched ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
    };

    if (!l->watched) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_handler = (ucp_err_handler_t){on_error, l};
    }
    return wu_ucx.ucp_ep_create(l->endpoint->worker, &params, &l->ep);
}

struct wu_link *wu_link_get(struct wu_endpoint *e, const struct wu_hello *hello, const struct weft_process *process,
                            const void *address, weft_status *status)
{
    struct wu_link *l = e->links;
    ucs_status_t made;
    int state;

    while (l && (l->broken || memcmp(l->uid, hello->uid, sizeof l->uid) != 0))
        l = l->next;
    if (l)
        return l;
    l = calloc(1, sizeof *l);
    if (!l) {
        *status = WEFT_ENOMEM;
        return NULL;
    }
    l->endpoint = e;
    l->process = *process;
    l->pidfd = -1;
    memcpy(l->uid, hello->uid, sizeof l->uid);
    state = e->host->process_state(process);
    l->watched = e->shared_memory && hello->shared_memory && state != '?';
    made = make_endpoint(l, address);
    if (made != UCS_OK) {
        e->host->explain(e->host->impl, WEFT_EPEER, "ucx: no connection to process %d: %s", (int)process->pid,
                         wu_ucx.ucs_status_string(made));
        free(l);
        *status = WEFT_EPEER;
        return NULL;
    }
    if (l->watched)
        watch(l);
    l->next = e->links;
    e->links = l;
    return l;
}

/* ---- Seeing through ---- */

static void flushed(void *request, ucs_status_t status, void *arg)
{
    struct wu_link *l = arg;

    (void)status;
    l->flush = NULL;
    wu_ucx.ucp_request_free(request);
}

/* Returns 1 if something has not left yet. */
static int flush_one(struct wu_link *l)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb = {.send = flushed},
                                 .user_data = l};
    void *request;

    if (l->broken)
        return 0;
    if (l->flush || !l->dirty)
        return l->flush != NULL || l->users;
    l->dirty = 0;
    request = wu_ucx.ucp_ep_flush_nbx(l->ep, &param);
    if (UCS_PTR_IS_PTR(request))
        l->flush = request;
    return l->flush != NULL || l->users;
}

int wu_links_flush(struct wu_endpoint *e)
{
    int left = 0;

    for (struct wu_link *l = e->links; l; l = l->next)
        left |= flush_one(l);
    return left;
}

static void settle(struct wu_endpoint *e, uint64_t deadline)
{
    while (wu_links_flush(e) && e->host->now_ns() < deadline)
        wu_progress_worker(e);
}

/* An endpoint without error handling is closed by agreement only, which a peer that has ended cannot give: UCX frees it with the
 * worker. */
void wu_links_close(struct wu_endpoint *e)
{
    settle(e, e->host->now_ns() + CLOSE_NS);
    for (struct wu_link *l = e->links; l; l = l->next)
        force_close(l);
}
