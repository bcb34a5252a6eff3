/* frame.h: the wire format of the tcp transport. Pure: bytes in, struct out, nothing else.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_TCP_FRAME_H
#define WI_TCP_FRAME_H

#include <weft/weft_plugin.h>

#define WI_TCP_HEADER_BYTES 56
#define WI_TCP_FRAME_MAX (16u << 20)        /* payload of one frame */
#define WI_TCP_MESSAGE_MAX (1ull << 48)     /* bytes of one message */
#define WI_TCP_EAGER_COST 128u              /* what a frame costs beyond its payload in the eager window */
#define WI_TCP_EAGER_MIN 8192u
#define WI_TCP_EAGER_MAX (64u << 20)
#define WI_TCP_SOCKETS_MAX 16

enum wi_tcp_frame_type {
    WI_TCP_DATA = 1,  /* payload of a message */
    WI_TCP_GRANT = 2, /* messages below `msg` have receives; eager bytes may reach `total` */
    WI_TCP_BYE = 3,   /* the last frame of this socket: the rank left in good order */
    WI_TCP_ABORT = 4, /* the rank left in failure; `total`: why, see wi_tcp_reason_encode */
    /* The accepting side's first frame is one of these, or BYE or ABORT: */
    WI_TCP_WELCOME = 5, /* the connection is taken */
    WI_TCP_CROSSED = 6, /* it is not: this side is connecting, too, and its rank is lower */
    WI_TCP_SHARE = 7,   /* it is not: this side has no descriptor for it; come as a stream of a shared connection */
};

#define WI_TCP_EAGER_FLAG 1u /* DATA sent before its receive was known to be posted: charged to the window */

/* One frame's header; little endian on the wire in this order. */
struct wi_tcp_frame {
    uint8_t type, chan, flags;
    uint32_t bytes;  /* of payload that follow the header */
    uint64_t msg;    /* number of the message in its channel and direction */
    uint64_t offset; /* of the payload in the message */
    uint64_t total;  /* bytes of the message */
    struct weft_op_info info;
};

void wi_tcp_frame_encode(const struct wi_tcp_frame *frame, unsigned char out[WI_TCP_HEADER_BYTES]);
/* NULL, or what is wrong with the header: then *frame must not be used. */
const char *wi_tcp_frame_decode(const unsigned char in[WI_TCP_HEADER_BYTES], struct wi_tcp_frame *frame);
/* ABORT's `total`: why, 0 where nothing is said. Whatever the network brings is decoded to a failure or to 0. */
uint64_t wi_tcp_reason_encode(weft_status reason);
weft_status wi_tcp_reason_decode(uint64_t total);
int wi_tcp_info_equal(const struct weft_op_info *a, const struct weft_op_info *b);

#define WI_TCP_BINDING_BYTES 12

/* What both ends of a connection claim in the handshake; at most WEFT_AUTH_CLAIM_MAX bytes. */
struct wi_tcp_claim {
    uint8_t shared;       /* the connection is to carry streams, and is no communicator's; 0 from the accepting side */
    uint8_t index, count; /* of the socket in its bundle; 0, 0 from the accepting side */
    uint32_t from, to;    /* ranks; 0, 0 from the accepting side */
    uint32_t eager;       /* window that the claimant offers per channel */
    uint64_t comm_id[2];
    uint64_t process;     /* the claimant's */
    uint64_t listener;    /* the process that is meant; 0 from the accepting side */
    unsigned char binding[WI_TCP_BINDING_BYTES]; /* of a stream: to the shared connection that it is in; else 0 */
};
#define WI_TCP_CLAIM_BYTES 64

void wi_tcp_claim_encode(const struct wi_tcp_claim *claim, unsigned char out[WI_TCP_CLAIM_BYTES]);
const char *wi_tcp_claim_decode(const void *in, size_t bytes, struct wi_tcp_claim *claim);

/* ---- Shared connections (mux.h): frames of streams -------------------------------------------------------------- */

enum wi_tcp_mux_type {
    WI_TCP_MUX_OPEN = 1,   /* a new stream */
    WI_TCP_MUX_DATA = 2,   /* `value` bytes of it follow */
    WI_TCP_MUX_WINDOW = 3, /* `value` bytes more may be sent in it */
    WI_TCP_MUX_CLOSE = 4,  /* the sender sends no more in it, and wants no more of it */
};

#define WI_TCP_MUX_HEADER_BYTES 12
#define WI_TCP_MUX_FRAME_MAX (64u << 10)
#define WI_TCP_MUX_WINDOW_BYTES (1u << 20) /* of each stream and direction: sent and not taken by its reader */
#define WI_TCP_MUX_SLACK_BYTES 64u         /* beyond it: the last frame of a communicator is not held up */

struct wi_tcp_mux_frame {
    uint8_t type;
    uint32_t stream; /* even: opened by the side that made the connection; numbers rise */
    uint32_t value;
};
void wi_tcp_mux_encode(const struct wi_tcp_mux_frame *frame, unsigned char out[WI_TCP_MUX_HEADER_BYTES]);
/* NULL, or what is wrong with it. */
const char *wi_tcp_mux_decode(const unsigned char in[WI_TCP_MUX_HEADER_BYTES], struct wi_tcp_mux_frame *frame);

/* Little-endian scalars, any alignment. */
static inline void wi_tcp_put(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}
static inline uint64_t wi_tcp_get(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

#endif
