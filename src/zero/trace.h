/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order units are used in a micro-batch: recorded the first time, followed afterwards. */
#ifndef WI_ZERO_TRACE_H
#define WI_ZERO_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum wi_zero_event { WI_ZERO_FORWARD, WI_ZERO_BACKWARD };

struct wi_zero_use {
    int unit;
    enum wi_zero_event event;
};

struct wi_zero_trace {
    struct wi_zero_use *uses;
    size_t nuses, capacity;
    size_t at;         /* how many of them this micro-batch has had */
    int complete;      /* a whole micro-batch is recorded, and so far this one is like it */
    int recording;     /* from the beginning of this micro-batch on */
    int restarted;     /* the newest use was the first once more, though others were to come */
    uint64_t retraces; /* times that it was recorded anew */
};

void wi_zero_trace_fini(struct wi_zero_trace *trace);
/* A unit is used. WEFT_ENOMEM: it is not recorded, and nothing is followed in this micro-batch. */
weft_status wi_zero_trace_use(struct wi_zero_trace *trace, int unit, enum wi_zero_event event);
/* The micro-batch has ended. */
void wi_zero_trace_end(struct wi_zero_trace *trace);
/* The use `ahead` (from 0) after the newest one; NULL: unknown, or the micro-batch ends before. */
const struct wi_zero_use *wi_zero_trace_next(const struct wi_zero_trace *trace, size_t ahead);

#endif
