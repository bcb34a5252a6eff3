/* SPDX-License-Identifier: BSD-3-Clause */
/* Pauses of listeners. */
#include "net/accept_pause.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define PAUSE_NS 100000000ull

int wi_accept_result(struct wi_accept_pause *p, int err, const char *event)
{
    int is_short = err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
    uint64_t now;
    int calm;

    if (!is_short && !(p->short_ns && (!err || err == EAGAIN)))
        return 0;
    now = wi_now_ns();
    calm = p->short_ns && now - p->failed_ns >= WI_ACCEPT_CALM_NS;
    if (!is_short && !calm)
        return 0;
    if (calm) {
        wi_log(WEFT_LOG_WARN, event, "accepting connections again; the last failure was %.1f s after the first",
               (double)(p->failed_ns - p->short_ns) / 1e9);
        p->short_ns = 0;
    }
    if (!is_short)
        return 0;
    if (!p->short_ns) {
        p->short_ns = now;
        wi_log(WEFT_LOG_WARN, event, "cannot accept connections: %s; trying again every 100 ms (see ulimit -n)",
               strerror(err));
    }
    p->failed_ns = now;
    p->again_ns = now + PAUSE_NS;
    return 1;
}

int wi_accept_resumes(struct wi_accept_pause *p)
{
    if (!p->again_ns || wi_now_ns() < p->again_ns)
        return 0;
    p->again_ns = 0;
    return 1;
}
