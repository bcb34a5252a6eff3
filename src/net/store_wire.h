/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the start-up store and of the links between ranks, and the byte queues they travel through. Everything a frame
 * says is bounded before it is used. Numbers are little-endian. */
#ifndef WI_NET_STORE_WIRE_H
#define WI_NET_STORE_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "base/bytes.h"
#include "net/auth_mac.h"

#define WI_STORE_KEY_MAX 64
#define WI_STORE_VALUE_MAX 65536
#define WI_STORE_HEAD_BYTES 8
#define WI_STORE_KEY_ALL "all"         /* the store has this key once every rank has joined */
#define WI_STORE_KEY_REFUSAL "refusal" /* and this one once a rank was refused: the newest verdict on such a rank */

enum wi_store_frame_type {
    WI_STORE_PUT = 1,  /* client: key, value */
    WI_STORE_GET,      /* client: key; answered by VALUE when there is one */
    WI_STORE_ENTER,    /* client: u64 step it waits in (0: it has joined) */
    WI_STORE_WHO,      /* client: u64 step; answered by MISSING */
    WI_STORE_FAIL,     /* client: verdict; forwarded to all ranks */
    WI_STORE_BYE,      /* client: leaves in good order */
    WI_STORE_VALUE,    /* server: key, value */
    WI_STORE_MISSING,  /* server: u64 step, u32 total, then u32 ranks that have not entered it */
    WI_STORE_VERDICT,  /* server: why the job cannot start */
    WI_STORE_CLOSING,  /* server: leaves in good order */
    WI_STORE_NTYPES
};

struct wi_store_frame {
    enum wi_store_frame_type type;
    char key[WI_STORE_KEY_MAX + 1];
    size_t key_bytes;
    const unsigned char *value; /* inside the parsed bytes */
    size_t value_bytes;
};

/* Parse the frame at the head of `data`. Returns its length, 0 if more bytes are needed, -1 if it is malformed. */
long wi_store_frame_parse(const void *data, size_t bytes, struct wi_store_frame *frame);

/* Frames between authenticated sides: the head, its tag, then key and value and their tag where there are any. The head is
 * believed first, so that a changed length does not make anybody wait. */
struct wi_store_opener {
    struct wi_auth_stream stream;
    int head_opened; /* of the frame that is being received */
};
/* As wi_store_frame_parse; -2: it is not as the other side sent it; -3: no memory to check. */
long wi_store_frame_open(struct wi_store_opener *opener, const void *data, size_t bytes, struct wi_store_frame *frame);

/* A verdict: status, the rank to blame (-1: none) and one line of text. */
struct wi_store_verdict {
    weft_status status;
    int culprit;
    char text[240];
};
#define WI_STORE_VERDICT_MAX (8 + 239)
size_t wi_store_verdict_write(const struct wi_store_verdict *verdict, unsigned char *out);
/* Text is made printable; an unknown status becomes WEFT_EPEER. Returns 0 or -1. */
int wi_store_verdict_read(const unsigned char *in, size_t bytes, struct wi_store_verdict *verdict);

/* A queue of bytes, bounded by `limit`. */
struct wi_store_buf {
    unsigned char *data;
    size_t begin, end, capacity, limit;
    struct wi_auth_stream *seal; /* borrowed; frames appended get tags. NULL: none */
};
void wi_store_buf_init(struct wi_store_buf *buf, size_t limit);
void wi_store_buf_fini(struct wi_store_buf *buf);
/* Room for `bytes` at the end; NULL when over the limit or out of memory. */
unsigned char *wi_store_buf_reserve(struct wi_store_buf *buf, size_t bytes);
int wi_store_buf_append(struct wi_store_buf *buf, const void *data, size_t bytes);
void wi_store_buf_consume(struct wi_store_buf *buf, size_t bytes);
static inline size_t wi_store_buf_bytes(const struct wi_store_buf *buf)
{
    return buf->end - buf->begin;
}
/* Append one frame; 0 or -1 (over the limit, no memory). */
int wi_store_frame_append(struct wi_store_buf *buf, enum wi_store_frame_type type, const char *key,
                          const void *value, size_t value_bytes);
/* Non-blocking. Return 1 (moved or would block), 0 (end of stream, recv only), -1 (errno). */
int wi_store_buf_send(struct wi_store_buf *buf, int fd);
int wi_store_buf_recv(struct wi_store_buf *buf, int fd, size_t most); /* at most so many bytes */

#endif
