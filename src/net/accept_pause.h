/* SPDX-License-Identifier: BSD-3-Clause */
/* A listener for whose connections there is no descriptor left would be readable for ever: it is not looked at for a while. */
#ifndef WI_NET_ACCEPT_PAUSE_H
#define WI_NET_ACCEPT_PAUSE_H

#include <stdint.h>

/* A connection that did not prove the key gives its descriptor back, and the next stranger takes it: that accept has worked once
 * does not end a shortage. This long without a failure does. */
#define WI_ACCEPT_CALM_NS 10000000000ull

struct wi_accept_pause { /* zeros: accepting */
    uint64_t again_ns;   /* when to accept again; 0: now */
    uint64_t short_ns;   /* since when descriptors or memory have been short; 0: they are not */
    uint64_t failed_ns;  /* when accept last failed for that */
};

/* After accept: `err` is its errno, 0: it has worked. 1: there is nothing to accept with (a descriptor, memory), and a pause has
 * begun. The first of them is logged as `event`, and that there is enough again, but not what comes between. */
int wi_accept_result(struct wi_accept_pause *pause, int err, const char *event);
/* 1: a pause has ended by now, so that the listener is to be looked at again. */
int wi_accept_resumes(struct wi_accept_pause *pause);

#endif
