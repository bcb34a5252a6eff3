/* SPDX-License-Identifier: BSD-3-Clause */
/* Storing into another rank's buffers, and not after that rank has given the operation up: its caller may have freed
 * the memory by then.
 *
 * The writer says on its board whom it writes to, and then looks whether that rank is still there; the rank that gives up
 * says so on its own board, and then waits until nobody writes to it. Each stores before it loads, all in one order
 * (sequential consistency), so one of the two sees the other (Dekker). A writer that was stopped between the two is waited
 * for a while, no longer: a call must end. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "exec/exec.h"

#define PIECE_BYTES ((size_t)256 << 10) /* so that who gives up waits for tens of microseconds */
#define WAIT_NS 200000000u
#define QUIESCE_NS 1000000000u

#define EVERYBODY UINT64_MAX

/* Rank + 1, or EVERYBODY; 0: nobody. */
static uint64_t *writes_to(struct weft_board *board)
{
    return &board->pad[1];
}

static weft_status gave_up(struct wi_exec *exec, struct wi_op *op, int rank)
{
    wi_exec_end_stores(exec);
    wi_exec_compare_boards(exec, &op->info); /* what it said when it gave up */
    return wi_exec_fail(exec, WEFT_EPEER, rank, &op->info, "rank %d gave up", rank);
}

weft_status wi_exec_begin_stores(struct wi_exec *exec, struct wi_op *op, const struct wi_operand *dst, uint32_t ndst)
{
    uint64_t *word = writes_to(exec->map.ranks[exec->rank].board);

    __atomic_store_n(word, EVERYBODY, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < ndst; i++) {
        int rank = dst[i].rank;
        if (dst[i].mem != WI_MEM_PEER_SRC && dst[i].mem != WI_MEM_PEER_DST)
            continue;
        if (__atomic_load_n(&exec->map.ranks[rank].board->state, __ATOMIC_SEQ_CST) != WEFT_BOARD_ALIVE)
            return gave_up(exec, op, rank);
    }
    return WEFT_SUCCESS;
}

void wi_exec_end_stores(struct wi_exec *exec)
{
    __atomic_store_n(writes_to(exec->map.ranks[exec->rank].board), 0, __ATOMIC_RELEASE);
}

static weft_status put_piece(struct wi_exec *exec, int rank, uint64_t remote, const unsigned char *src, size_t bytes)
{
    struct weft_board *ours = exec->map.ranks[exec->rank].board;
    weft_status st = WEFT_EABORTED;

    __atomic_store_n(writes_to(ours), (uint64_t)rank + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&exec->map.ranks[rank].board->state, __ATOMIC_SEQ_CST) == WEFT_BOARD_ALIVE)
        st = exec->map_ops->mem_put(exec->map_group, rank, remote, src, bytes);
    __atomic_store_n(writes_to(ours), 0, __ATOMIC_RELEASE);
    return st;
}

weft_status wi_exec_copy_failed(struct wi_exec *exec, const struct wi_op *op, weft_status status, int rank,
                                const char *doing)
{
    int own = status > WEFT_EPEER || status <= WEFT_ENOMEM; /* no fault of the peer's */

    return wi_exec_fail(exec, status > WEFT_EPEER ? WEFT_ESYS : status, own ? -1 : rank, &op->info,
                        "%s memory of rank %d: %s", doing, rank, wi_fail_text());
}

weft_status wi_exec_put(struct wi_exec *exec, struct wi_op *op, int rank, void *remote, const void *src, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t some = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        weft_status st = put_piece(exec, rank, (uint64_t)(uintptr_t)remote + at, (const unsigned char *)src + at, some);
        if (st >= 0)
            continue;
        wi_exec_compare_boards(exec, &op->info); /* what it said when it gave up */
        return wi_exec_copy_failed(exec, op, st, rank, "writing");
    }
    return WEFT_SUCCESS;
}

static int stores_here(const struct wi_exec *exec, int rank)
{
    uint64_t word = __atomic_load_n(writes_to(exec->map.ranks[rank].board), __ATOMIC_SEQ_CST);

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

static void still_touched(struct wi_exec *exec, const char *transport)
{
    struct wi_error error;

    wi_exec_error(exec, &error);
    snprintf(
        error.advice, sizeof error.advice,
        "keep the buffers of operations in flight until this communicator is destroyed: transport %s may still read "
        "and write them",
        transport);
    wi_exec_error_set(exec, &error);
    wi_log(WEFT_LOG_WARN, "exec.quiesce", "transport %s did not stop touching memory: %s", transport, wi_fail_text());
}

void wi_exec_quiesce(struct wi_exec *exec)
{
    const struct wi_mesh *mesh = exec->mesh;
    uint64_t until;

    if (exec->quiet || exec->process != getpid())
        return;
    exec->quiet = 1;
    until = wi_deadline_ns(QUIESCE_NS);
    for (int i = 0; i < mesh->ngroups; i++) {
        const struct wi_mesh_group *g = &mesh->groups[i];
        if (g->transport->ops.quiesce(g->group, until) < 0)
            still_touched(exec, g->transport->plugin->name);
    }
}

void wi_exec_leave(struct wi_exec *exec)
{
    if (exec->broken || !exec->nops || exec->process != getpid()) /* a forked child: the arena is its parent's */
        return;
    wi_exec_board_failed(exec, WEFT_SUCCESS, -1);
    wi_exec_await_puts(exec);
}
