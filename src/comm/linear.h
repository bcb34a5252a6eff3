/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce with a linear codec (weft_codec_ops.linear): a request of the library's own, by which the ranks agree on something
 * about each block; then the operation of the call, behind a gate until that has ended, an ordinary sum of what is projected.
 *
 *     issue:  c = src + residual, in fp32; propose; issue the agreement
 *     gate:   once they agree: project c, 256 KiB at a time
 *     run:    all_reduce of that, planned as any
 *     end:    expand the sum into dst, and the own part, whose difference from c is the new residual
 *
 * Where nothing needs to be agreed on there is no gate. */
#ifndef WI_COMM_LINEAR_H
#define WI_COMM_LINEAR_H

#include "comm/comm.h"

struct wi_linear;

/* Is the call's codec linear, and used as such? 1: op and *call are now those of the sum; 0: it goes on as any coded call, of plain
 * data if op->bind.coding.plain says so; below 0: failed, with text. */
int wi_linear_begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, struct wi_call *call);
/* The sum is there: store the result, and the residuals. */
void wi_linear_store(struct weft_request *req);
/* Free: the memory, and the agreement's request. Forget: memory only, after the executor is gone. */
void wi_linear_free(struct weft_request *req);
void wi_linear_forget(struct weft_request *req);

#endif
