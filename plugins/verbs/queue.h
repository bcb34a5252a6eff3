/* queue.h: completions of what is posted.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VB_QUEUE_H
#define VB_QUEUE_H

#include "verbs.h"

/* The name of a request: rank, rail and kind of queue, generation of the queue pair, number. The highest bit is of receives. */
uint64_t vb_work_id(const struct vb_peer *p, int rail, const struct vb_queue *q, uint32_t number);
#define VB_WORK_RECEIVE(id) ((id) >> 63)
#define VB_WORK_RANK(id) ((int)((id) >> 40 & 0x7fffff))
#define VB_WORK_IS_RMA(id) ((int)((id) >> 36 & 1))
#define VB_WORK_GENERATION(id) ((uint16_t)((id) >> 24 & 0xfff))
#define VB_WORK_NUMBER(id) ((uint32_t)((id)&0xffffff))

/* The request with that number has ended well, and so have those before it. How many that were. */
int vb_queue_done(struct vb_peer *p, int rail, struct vb_queue *q, uint32_t number);

#endif
