/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as data, for tests that name an algorithm or keep an operation. */
#ifndef WT_CALLS_H
#define WT_CALLS_H

#include <weft/weft.h>

/* Whose other arguments are 0: root 0, WEFT_SUM, tag 0. */
static inline weft_call wt_call(weft_kind kind, const void *src, void *dst, size_t count, weft_dtype dtype)
{
    weft_call call = WEFT_CALL_INIT;

    call.kind = kind;
    call.src = src;
    call.dst = dst;
    call.count = count;
    call.dtype = dtype;
    return call;
}

/* By the algorithm of that name; NULL: by the planner's. */
static inline weft_status wt_issue(weft_comm *comm, weft_call call, const char *algorithm, weft_request **req)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    options.algorithm = algorithm;
    call.options = &options;
    return weft_issue(comm, &call, req);
}

static inline weft_status wt_persistent(weft_comm *comm, weft_call call, const char *algorithm, weft_request **req)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    options.algorithm = algorithm;
    call.options = &options;
    return weft_persistent(comm, &call, req);
}

#endif
