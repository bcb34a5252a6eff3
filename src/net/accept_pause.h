/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener for whose connections there is no descriptor left would be readable for ever: it is not looked at for a while. */
#ifndef WI_NET_ACCEPT_PAUSE_H
#define WI_NET_ACCEPT_PAUSE_H

#include <stdint.h>

struct wi_accept_pause { /* zeros: accepting */
    uint64_t again_ns;   /* when to accept again; 0: now */
    uint64_t wanting_ns; /* since when there has been nothing to accept with; 0: there is */
};

/* After accept: `err` is its errno, 0: it has worked. 1: there is nothing to accept with (a descriptor, memory), and a pause has
 * begun. That is logged as `event`, once, as is its end. */
int wi_accept_result(struct wi_accept_pause *pause, int err, const char *event);
/* 1: a pause has ended by now, so that the listener is to be looked at again. */
int wi_accept_resumes(struct wi_accept_pause *pause);

#endif
