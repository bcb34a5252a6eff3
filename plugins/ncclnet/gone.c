/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of peers: they say so, their process ends, or a connection breaks. NCCL's interface has no word for the first two. A rank
 * says good-bye with its last packet; a request on the side channel that nobody answers ends when its process does. */
#include "ncclnet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void nn_fail(struct nn_peer *p, weft_status status, const char *format, ...)
{
    va_list ap;

    if (p->state == NN_FAILED)
        return;
    p->state = NN_FAILED;
    p->status = status;
    va_start(ap, format);
    vsnprintf(p->text, sizeof p->text, format, ap);
    va_end(ap);
    p->unreported = 1;
    p->group->unreported++;
    for (int kind = 0; kind < NN_KINDS; kind++) /* before buffers go back to their owner */
        nn_links_close(p, kind);
    nn_listeners_close(p);
    nn_xfers_end(p, status);
}

void nn_broke(struct nn_peer *p, const char *call, int result)
{
    struct nn_endpoint *e = p->group->endpoint;

    if (p->call_failed || p->state == NN_FAILED || p->state == NN_GONE)
        return;
    p->call_failed = 1;
    if (!p->broken_ns)
        p->broken_ns = e->host->now_ns();
    snprintf(p->broken, sizeof p->broken, "plugin %.40s: %s: %s", nn_net_name(e->lib), call, nn_result_name(result));
}

static int process_state(const struct nn_peer *p)
{
    const struct weft_host *host = p->group->endpoint->host;

    return WEFT_HOST_HAS(host, process_state) ? host->process_state(&p->address.process) : '?';
}

static void left(struct nn_peer *p)
{
    p->state = NN_GONE;
    p->gone_ns = p->group->endpoint->host->now_ns();
    p->owed = nn_sends_end(p, WEFT_EPEER);
    nn_announced_drop(p);
}

/* Who aborts has often said why before: that is received first, and the failure reported by the next call of progress. */
void nn_take_bye(struct nn_peer *p, int aborted)
{
    if (aborted)
        p->aborted = p->call_failed = 1;
    else
        left(p);
}

static void look_at_aborted(struct nn_peer *p)
{
    if (p->aborted++ > 1)
        nn_fail(p, WEFT_EABORTED,
                "rank %d (process %d on host %.40s) aborted the communicator, or left it after a failure", p->rank,
                (int)p->address.process.pid, p->address.host);
}

/* `now` is of the beginning of this call of progress. */
static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* What has come from a peer that left is received; who waits for more has failed. */
static void look_at_gone(struct nn_peer *p, uint64_t now)
{
    if (p->data_in_posted && !p->recv[NN_DATA].bad && since(p->gone_ns, now) < NN_DRAIN_NS)
        return;
    if (p->owed || p->data_in.first || nn_recvs_wait(p))
        nn_fail(p, WEFT_EPEER, "rank %d (process %d on host %.40s) left the communicator", p->rank,
                (int)p->address.process.pid, p->address.host);
}

static void look_at_broken(struct nn_peer *p, uint64_t now)
{
    int state;

    if (since(p->broken_ns, now) < NN_ENDED_NS)
        return;
    state = process_state(p);
    if (state == 0)
        nn_fail(p, WEFT_EPEER, "rank %d: process %d on host %.40s has ended", p->rank, (int)p->address.process.pid,
                p->address.host);
    else if (since(p->broken_ns, now) < NN_SETTLE_NS)
        return;
    else if (p->watch_ended && state != '?' && p->state == NN_UP)
        left(p); /* it goes on without this communicator, and its good-bye was lost */
    else
        nn_fail(p, WEFT_EPEER, "rank %d (process %d on host %.30s): %s", p->rank, (int)p->address.process.pid,
                p->address.host, p->broken);
}

void nn_look(struct nn_peer *p, uint64_t now)
{
    if (p->aborted && p->state != NN_FAILED)
        look_at_aborted(p);
    else if (p->state == NN_GONE)
        look_at_gone(p, now);
    else if (p->broken_ns && p->state != NN_FAILED)
        look_at_broken(p, now);
}

int nn_report(struct nn_group *g, struct weft_peer_failure *failure)
{
    for (int r = 0; g->unreported && r < g->nranks; r++) {
        struct nn_peer *p = &g->peers[r];
        if (!p->unreported)
            continue;
        p->unreported = 0;
        g->unreported--;
        failure->peer = r;
        failure->status = p->status;
        snprintf(failure->text, sizeof failure->text, "%s", p->text);
        return p->status;
    }
    return 0;
}
