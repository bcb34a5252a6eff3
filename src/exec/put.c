/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores into another rank's buffers must not happen after that rank has given the operation up, for its caller may have freed the
 * memory by then.
 *
 * The writer announces on its board which rank it writes to, and then checks whether that rank is still alive. The rank that
 * gives up announces that on its own board, and then waits until no rank writes to it. Each stores before it loads, all in one
 * order (sequential consistency), so one of the two sees the other (Dekker). A writer that was stopped between the two is waited
 * for only for a while, because a call must end. Puts that the transport completes later are ended on both sides by its
 * quiesce. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "exec/exec.h"

#define PIECE_BYTES ((size_t)256 << 10) /* so that a rank that gives up waits for tens of microseconds */
#define WAIT_NS 200000000u
#define QUIESCE_NS 1000000000u

#define EVERYBODY UINT64_MAX /* weft_board.stores_to is this, a rank + 1, or 0: no rank */

/* Threads of an engine store too: the word is EVERYBODY as long as several stores are in flight. */
static void say(struct wi_exec *exec, uint64_t who)
{
    pthread_mutex_lock(&exec->stores_lock);
    __atomic_store_n(&exec->map.ranks[exec->rank].board->stores_to, exec->nstores++ ? EVERYBODY : who,
                     __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&exec->stores_lock);
}

void wi_exec_end_stores(struct wi_exec *exec)
{
    pthread_mutex_lock(&exec->stores_lock);
    if (--exec->nstores == 0)
        __atomic_store_n(&exec->map.ranks[exec->rank].board->stores_to, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&exec->stores_lock);
}

int wi_exec_gone(const struct wi_exec *exec, const struct wi_operand *dst, uint32_t ndst)
{
    for (uint32_t i = 0; i < ndst; i++)
        if ((dst[i].mem == WI_MEM_PEER_SRC || dst[i].mem == WI_MEM_PEER_DST) &&
            __atomic_load_n(&exec->map.ranks[dst[i].rank].board->state, __ATOMIC_SEQ_CST) != WEFT_BOARD_ALIVE)
            return dst[i].rank;
    return -1;
}

weft_status wi_exec_begin_stores(struct wi_exec *exec, const struct wi_operand *dst, uint32_t ndst)
{
    say(exec, EVERYBODY);
    return wi_exec_gone(exec, dst, ndst) < 0 ? WEFT_SUCCESS : WEFT_EPEER;
}

static weft_status put_piece(struct wi_exec *exec, int rank, uint64_t remote, const unsigned char *src, size_t bytes)
{
    weft_status st = WEFT_EABORTED;

    say(exec, (uint64_t)rank + 1);
    if (__atomic_load_n(&exec->map.ranks[rank].board->state, __ATOMIC_SEQ_CST) == WEFT_BOARD_ALIVE)
        st = exec->map_ops->mem_put(exec->map_group, rank, remote, src, bytes);
    wi_exec_end_stores(exec);
    return st;
}

weft_status wi_exec_copy_failed(struct wi_exec *exec, const struct wi_op *op, weft_status status, int rank,
                                const char *doing)
{
    int own = status > WEFT_EPEER || status <= WEFT_ENOMEM; /* no fault of the peer's */

    return wi_exec_fail(exec, status > WEFT_EPEER ? WEFT_ESYS : status, own ? -1 : rank, &op->info,
                        "%s memory of rank %d: %s", doing, rank, wi_fail_text());
}

weft_status wi_exec_put(struct wi_exec *exec, int rank, void *remote, const void *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t some = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        WI_TRY(put_piece(exec, rank, (uint64_t)(uintptr_t)remote + at, (const unsigned char *)src + at, some));
    }
    return WEFT_SUCCESS;
}

static int stores_here(const struct wi_exec *exec, int rank)
{
    uint64_t word = __atomic_load_n(&exec->map.ranks[rank].board->stores_to, __ATOMIC_SEQ_CST);

    return word == (uint64_t)exec->rank + 1 || word == EVERYBODY;
}

static void still_stores(struct wi_exec *exec, int rank)
{
    struct wi_error error;

    wi_exec_error(exec, &error);
    snprintf(
        error.advice, sizeof error.advice,
        "keep the buffers of operations in flight until the process of rank %d has ended: it was stopped while it stored "
        "to them; destroy this communicator",
        rank);
    wi_exec_error_set(exec, &error);
    wi_log(WEFT_LOG_WARN, "exec.put", "rank %d stopped while it wrote to memory of rank %d: %s", rank, exec->rank,
           error.advice);
}

void wi_exec_await_puts(struct wi_exec *exec)
{
    uint64_t until = 0;

    if (!exec->map_group)
        return;
    for (int i = 0; i < exec->nmapped; i++) {
        int r = exec->map_ranks[i];
        while (r != exec->rank && stores_here(exec, r)) {
            until = until ? until : wi_deadline_ns(WAIT_NS);
            if (wi_now_ns() >= until) {
                still_stores(exec, r);
                break;
            }
            sched_yield();
        }
    }
}

static void still_touched(struct wi_exec *exec, const char *kind, const char *name)
{
    struct wi_error error;

    exec->touched = 1;
    wi_exec_error(exec, &error);
    snprintf(error.advice, sizeof error.advice,
             "keep the buffers of operations in flight until this communicator is destroyed: %s %s may still read and "
             "write them",
             kind, name);
    wi_exec_error_set(exec, &error);
    wi_log(WEFT_LOG_WARN, "exec.quiesce", "%s %s did not stop touching memory: %s", kind, name, wi_fail_text());
}

void wi_exec_quiesce(struct wi_exec *exec)
{
    const struct wi_mesh *mesh = exec->mesh;
    uint64_t until;

    if (exec->quiet || exec->process != getpid())
        return;
    exec->quiet = 1;
    until = wi_deadline_ns(QUIESCE_NS);
    if (exec->posted && !wi_engine_drain(exec, exec->engine, NULL, until))
        still_touched(exec, "engine", exec->engine->ops->name);
    for (int i = 0; i < mesh->ngroups; i++) {
        const struct wi_mesh_group *g = &mesh->groups[i];
        if (g->transport->ops.quiesce(g->group, until) < 0)
            still_touched(exec, "transport", g->transport->plugin->name);
    }
    /* Gets and puts have ended with their transport, or it has said that they may not. */
    wi_engine_drain(exec, &exec->rma, NULL, until);
}

weft_status wi_exec_quiesce_op(struct wi_exec *exec, const struct wi_op *op)
{
    char text[192];
    int rank;

    if (!exec->posted || wi_engine_drain(exec, NULL, op, wi_deadline_ns(QUIESCE_NS)))
        return WEFT_SUCCESS;
    wi_engine_text(exec, op, text, sizeof text, &rank);
    wi_exec_fail(exec, WEFT_ESYS, rank, &op->info, "it had failed, and this did not stop: %s", text);
    if (rank >= 0)
        still_touched(exec, "transport", exec->mesh->mapped_group->transport->plugin->name);
    else
        still_touched(exec, "engine", exec->engine->ops->name);
    return exec->broken;
}

void wi_exec_leave(struct wi_exec *exec)
{
    if (exec->process != getpid()) /* a forked child: the arena is its parent's */
        return;
    wi_engine_leave(exec);
    if (exec->broken || !exec->nops)
        return;
    wi_exec_board_failed(exec, WEFT_SUCCESS, -1);
    wi_exec_await_puts(exec);
}
