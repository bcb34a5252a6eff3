/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies from and to other ranks' private memory: one interface to transports that copy at once (mem_get, mem_put) and to those
 * that take posted transfers and complete them later (get, put). The former are done by any engine like other work, the latter by
 * the engine in rma.c. */
#ifndef WI_EXEC_RMA_H
#define WI_EXEC_RMA_H

#include "exec/engine.h"

extern const struct wi_engine_ops wi_rma_ops;

/* Is it a get or a put that the transport completes later? */
static inline int wi_rma_is_posted(const struct wi_work *w)
{
    return (w->kind == WI_WORK_GET || w->kind == WI_WORK_PUT) && w->op->bind.peer_remote[0];
}

/* Is any of them under way? Peers do not wake this rank when it ends. */
int wi_rma_is_pending(const struct wi_exec *exec);

#endif
