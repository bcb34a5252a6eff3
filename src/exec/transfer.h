/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers of a lane; transfer.c. A failure has been recorded (wi_exec_fail), and what was to be posted is freed. */
#ifndef WI_EXEC_TRANSFER_H
#define WI_EXEC_TRANSFER_H

#include "exec/exec.h"

/* Fill in a transfer of op with `peer`, on its channel `chan`. */
weft_status wi_lane_fill_xfer(struct wi_exec *exec, struct wi_op *op, const struct wi_fragment *fragment,
                              struct wi_pend *p, int peer, uint32_t chan, void *buf, size_t bytes);
/* Give it to the transport. It stays the caller's on failure. */
weft_status wi_pend_post(struct wi_exec *exec, struct wi_pend *p, int sending);
/* Fill in, post, and keep until it is reaped. */
weft_status wi_lane_send(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane,
                         struct wi_pend *p, void *buf, size_t bytes);
void wi_lane_reap_sends(struct wi_exec *exec, struct wi_op *op, struct wi_lane_state *ls, int *moved);
/* Does a pending send of the fragment still read [dst, dst + bytes)? */
int wi_being_sent(const struct wi_fragment *fragment, const unsigned char *dst, size_t bytes);
/* One slice of one unit of a step with at most one destination and one source. */
struct wi_message {
    unsigned char *dst, *src;
    size_t bytes;
    int image; /* it is moved as it is; what comes may be shorter */
};
/* Receive it. */
weft_status wi_lane_recv(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane,
                         const struct wi_prog_step *step, const struct wi_message *message);
weft_status wi_recv_failed(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p);
/* 1: the oldest receive has come and is where it belongs: it is *p, the caller's; 0: it has to wait; < 0: failed. */
int wi_lane_reap_recv(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane,
                      struct wi_pend **p, int *moved);

#endif
