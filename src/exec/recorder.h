/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight recorder: the newest operations of one communicator, always on. One writer (the communicator's lock holder). */
#ifndef WI_EXEC_RECORDER_H
#define WI_EXEC_RECORDER_H

#include <stdint.h>
#include <weft/weft_plugin.h>

#define WI_RECORDER_ENTRIES 256 /* a power of two */

#define WI_RECORDER_CODEC_TEXT 112 /* longer ones are cut */

enum wi_record_state { WI_RECORD_NONE, WI_RECORD_STARTED, WI_RECORD_DONE, WI_RECORD_FAILED };

struct wi_record {
    struct weft_op_info info;
    const char *algo; /* of a cached schedule, or, once that is gone, kept by the executor */
    uint64_t ticks_issued;
    uint64_t ticks_done; /* 0 for operations that never left the fast path: they ended before the next began */
    uint64_t
        bytes_sent; /* given to transports, without their headers; what ranks read of each other's memory is not in it */
    uint64_t tensor; /* of a codec */
    uint32_t serial;
    uint32_t label; /* 0: it has none */
    int peer; /* of a message; may be WEFT_ANY_SOURCE */
    uint8_t state, receives;
    uint8_t has_codec, bypassed;        /* the codec was asked for, and plain data is sent */
    char codec[WI_RECORDER_CODEC_TEXT]; /* if it has one: with its parameters */
};

struct wi_recorder {
    uint32_t next;
    struct wi_record ring[WI_RECORDER_ENTRIES];
};

static inline struct wi_record *wi_recorder_add(struct wi_recorder *r)
{
    struct wi_record *e = &r->ring[r->next & (WI_RECORDER_ENTRIES - 1)];

    e->serial = r->next++;
    return e;
}

#endif
