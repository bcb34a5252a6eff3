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
    int wanting = err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
    uint64_t now;

    if (!wanting && !(p->wanting_ns && (!err || err == EAGAIN)))
        return 0;
    now = wi_now_ns();
    if (!wanting) {
        wi_log(WEFT_LOG_WARN, event, "accepting connections again, after %.1f s", (double)(now - p->wanting_ns) / 1e9);
        p->wanting_ns = 0;
        return 0;
    }
    if (!p->wanting_ns) {
        p->wanting_ns = now;
        wi_log(WEFT_LOG_WARN, event, "cannot accept connections: %s; trying again every 100 ms (see ulimit -n)",
               strerror(err));
    }
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
