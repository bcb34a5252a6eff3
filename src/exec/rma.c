/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and puts that the mapped group's transport completes later. Polling one advances the transport: an operation that runs alone
 * does so nowhere else except in its slow checks. */
#include "exec/rma.h"

#include <sched.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/exec.h"

enum { RMA_TO_POST, RMA_POSTED, RMA_OVER };

/* Of a put to a rank that gives up just now nothing arrives once it has asked its transport to stop. */
static weft_status post(struct wi_work *w)
{
    const struct wi_exec *exec = w->exec;
    const struct weft_transport_ops *ops = exec->map_ops;
    int put = w->kind == WI_WORK_PUT;
    weft_status st;

    if (put && __atomic_load_n(&exec->map.ranks[w->rank].board->state, __ATOMIC_ACQUIRE) != WEFT_BOARD_ALIVE)
        return wi_fail(WEFT_EABORTED, "rank %d gave up", w->rank);
    st = put ? ops->put(exec->map_group, &w->rma) : ops->get(exec->map_group, &w->rma);
    if (st >= 0)
        w->running = RMA_POSTED;
    return st == WEFT_EBUSY ? WEFT_SUCCESS : st;
}

/* Has it ended? */
static int look(struct wi_work *w)
{
    if (w->running == RMA_POSTED && w->rma.state != WEFT_XFER_PENDING)
        w->running = RMA_OVER;
    return w->running == RMA_OVER;
}

static void advance(struct wi_work *w)
{
    struct weft_peer_failure failure = {.peer = -1};
    int n = w->exec->map_ops->progress(w->exec->map_group, &failure);

    if (n < 0)
        wi_exec_transport_failed(w->exec, n, &failure, &w->op->info);
}

/* Of what is pending when the executor breaks nothing is said here: it is drained. */
static int rma_poll(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    (void)engine;
    if (!look(w))
        advance(w);
    if (w->running == RMA_TO_POST && !w->exec->broken) {
        WI_TRY(post(w));
        *moved |= w->running == RMA_POSTED;
    }
    if (!look(w))
        return 0;
    *moved = 1;
    return w->rma.state < 0 ? w->rma.state : 1;
}

static int rma_post(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    int get = w->kind == WI_WORK_GET;
    uintptr_t remote = (uintptr_t)(get ? w->src[0] : w->dst[0]);

    (void)engine;
    w->rma = (struct weft_rma){
        .local = get ? w->dst[0] : (void *)(uintptr_t)w->src[0],
        .bytes = w->bytes,
        .peer = w->rank,
        .memory = WEFT_MEMORY_HOST, /* device memory is refused: wi_call_check */
        .remote = w->op->bind.peer_remote[w->peer_buf][w->rank],
        .remote_address = remote,
    };
    w->running = RMA_TO_POST;
    WI_TRY(post(w));
    *moved |= w->running == RMA_POSTED;
    if (!look(w))
        return 0;
    return w->rma.state < 0 ? w->rma.state : 1;
}

/* After quiesce nothing ends any more. */
static int rma_drain(struct wi_engine *engine, struct wi_work *w, uint64_t until_ns)
{
    struct wi_exec *exec = w->exec;

    (void)engine;
    if (w->running == RMA_TO_POST)
        w->running = RMA_OVER;
    while (!look(w)) {
        struct weft_peer_failure failure = {.peer = -1};
        if (exec->quiet || wi_now_ns() >= until_ns)
            return 0;
        if (exec->map_ops->progress(exec->map_group, &failure) <= 0)
            sched_yield();
    }
    return 1;
}

static void rma_destroy(struct wi_engine *engine)
{
    (void)engine;
}

int wi_rma_is_pending(const struct wi_exec *exec)
{
    for (const struct wi_work *w = exec->posted; w; w = w->next)
        if (w->by == &exec->rma)
            return 1;
    return 0;
}

const struct wi_engine_ops wi_rma_ops = {"of gets and puts", rma_post, rma_poll, rma_drain, rma_destroy};
