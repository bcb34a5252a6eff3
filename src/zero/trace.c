/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/trace.h"

#include "base/alloc.h"
#include "base/status.h"

void wi_zero_trace_fini(struct wi_zero_trace *trace)
{
    wi_free(trace->uses);
    *trace = (struct wi_zero_trace){0};
}

enum { MOST = 1 << 20 };

static weft_status append(struct wi_zero_trace *trace, int unit, enum wi_zero_event event)
{
    if (trace->nuses == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : 64;
        void *uses = wi_realloc(trace->uses, capacity * sizeof *trace->uses);

        if (!uses) {
            trace->recording = 0;
            return wi_fail(WEFT_ENOMEM, "there is no memory to record the order of %zu uses of units", capacity);
        }
        trace->uses = uses;
        trace->capacity = capacity;
    }
    trace->uses[trace->nuses++] = (struct wi_zero_use){unit, event};
    trace->at = trace->nuses;
    return WEFT_SUCCESS;
}

static int is(const struct wi_zero_use *use, int unit, enum wi_zero_event event)
{
    return use->unit == unit && use->event == event;
}

weft_status wi_zero_trace_use(struct wi_zero_trace *trace, int unit, enum wi_zero_event event)
{
    trace->restarted = 0;
    if (trace->complete) {
        if (trace->at < trace->nuses && is(&trace->uses[trace->at], unit, event))
            return trace->at++, WEFT_SUCCESS;
        /* Passes of evaluation begin again without a backward pass. */
        if (is(&trace->uses[0], unit, event))
            return trace->at = trace->restarted = 1, WEFT_SUCCESS;
        /* Another order, on all ranks or else a collective tells. What was the same so far need not be recorded again. */
        trace->complete = 0;
        trace->recording = 1;
        trace->nuses = trace->at;
        trace->retraces++;
    }
    if (trace->nuses >= MOST) /* forward passes without end: nothing to follow */
        trace->nuses = 0;
    if (!trace->nuses)
        trace->recording = 1;
    return trace->recording ? append(trace, unit, event) : WEFT_SUCCESS;
}

void wi_zero_trace_end(struct wi_zero_trace *trace)
{
    if (trace->recording && trace->nuses) {
        trace->complete = 1;
    } else if (trace->complete && trace->at < trace->nuses) {
        trace->nuses = trace->at; /* it was shorter this time */
        trace->retraces++;
        trace->complete = trace->nuses > 0;
    } else if (!trace->complete) {
        trace->nuses = 0;
    }
    trace->recording = 0;
    trace->at = 0;
}

const struct wi_zero_use *wi_zero_trace_next(const struct wi_zero_trace *trace, size_t ahead)
{
    size_t at = trace->at + ahead;

    return trace->complete && at < trace->nuses ? &trace->uses[at] : NULL;
}
