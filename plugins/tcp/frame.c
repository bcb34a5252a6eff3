/* frame.c: encode, decode and check frame headers and handshake claims.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "frame.h"

#include <string.h>

#define WI_TCP_CLAIM_MAGIC 0x5743u
#define WI_TCP_CLAIM_VERSION 3u
#define SHARED_FLAG 1u
#define REASON_END 1000u /* statuses are above its negative */

void wi_tcp_frame_encode(const struct wi_tcp_frame *f, unsigned char out[WI_TCP_HEADER_BYTES])
{
    out[0] = f->type;
    out[1] = f->chan;
    out[2] = f->flags;
    out[3] = 0;
    wi_tcp_put(out + 4, f->bytes, 4);
    wi_tcp_put(out + 8, f->msg, 8);
    wi_tcp_put(out + 16, f->offset, 8);
    wi_tcp_put(out + 24, f->total, 8);
    wi_tcp_put(out + 32, f->info.seq, 4);
    out[36] = f->info.kind;
    out[37] = f->info.dtype;
    out[38] = f->info.op;
    out[39] = f->info.flags;
    wi_tcp_put(out + 40, f->info.root, 4);
    wi_tcp_put(out + 44, f->info.hash, 4);
    wi_tcp_put(out + 48, f->info.count, 8);
}

static const char *check_data(const struct wi_tcp_frame *f)
{
    if (f->flags & ~WI_TCP_EAGER_FLAG)
        return "unknown frame flags";
    if (f->bytes > WI_TCP_FRAME_MAX)
        return "frame too long";
    if (f->total > WI_TCP_MESSAGE_MAX)
        return "message too long";
    if (f->offset > f->total || f->bytes > f->total - f->offset)
        return "payload beyond the end of its message";
    if (f->bytes == 0 && f->total != 0)
        return "empty frame of a message that is not empty";
    return NULL;
}

const char *wi_tcp_frame_decode(const unsigned char in[WI_TCP_HEADER_BYTES], struct wi_tcp_frame *f)
{
    f->type = in[0];
    f->chan = in[1];
    f->flags = in[2];
    f->bytes = (uint32_t)wi_tcp_get(in + 4, 4);
    f->msg = wi_tcp_get(in + 8, 8);
    f->offset = wi_tcp_get(in + 16, 8);
    f->total = wi_tcp_get(in + 24, 8);
    f->info.seq = (uint32_t)wi_tcp_get(in + 32, 4);
    f->info.kind = in[36];
    f->info.dtype = in[37];
    f->info.op = in[38];
    f->info.flags = in[39];
    f->info.root = (uint32_t)wi_tcp_get(in + 40, 4);
    f->info.hash = (uint32_t)wi_tcp_get(in + 44, 4);
    f->info.count = wi_tcp_get(in + 48, 8);
    if (in[3])
        return "reserved header byte is not zero";
    if (f->chan >= WEFT_CHAN_MAX)
        return "channel number out of range";
    switch (f->type) {
    case WI_TCP_DATA:
        return check_data(f);
    case WI_TCP_GRANT:
    case WI_TCP_BYE:
    case WI_TCP_ABORT:
    case WI_TCP_WELCOME:
    case WI_TCP_CROSSED:
    case WI_TCP_SHARE:
        return f->bytes || f->flags || f->offset ? "control frame with payload" : NULL;
    default:
        return "unknown frame type";
    }
}

uint64_t wi_tcp_reason_encode(weft_status reason)
{
    return reason < 0 ? (uint64_t) - (int64_t)reason : 0;
}

weft_status wi_tcp_reason_decode(uint64_t total)
{
    return total < REASON_END ? (weft_status) - (int)total : WEFT_SUCCESS;
}

int wi_tcp_info_equal(const struct weft_op_info *a, const struct weft_op_info *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void wi_tcp_claim_encode(const struct wi_tcp_claim *c, unsigned char out[WI_TCP_CLAIM_BYTES])
{
    memcpy(out, c->comm_id, 16); /* first and as in memory: the host finds the key by it */
    wi_tcp_put(out + 16, WI_TCP_CLAIM_MAGIC, 2);
    out[18] = WI_TCP_CLAIM_VERSION;
    out[19] = c->shared ? SHARED_FLAG : 0;
    out[20] = c->index;
    out[21] = c->count;
    wi_tcp_put(out + 22, 0, 2);
    wi_tcp_put(out + 24, c->from, 4);
    wi_tcp_put(out + 28, c->to, 4);
    wi_tcp_put(out + 32, c->eager, 4);
    wi_tcp_put(out + 36, c->process, 8);
    wi_tcp_put(out + 44, c->listener, 8);
    memcpy(out + 52, c->binding, sizeof c->binding);
}

const char *wi_tcp_claim_decode(const void *bytes_in, size_t bytes, struct wi_tcp_claim *c)
{
    const unsigned char *in = bytes_in;
    if (bytes != WI_TCP_CLAIM_BYTES)
        return "claim of another length";
    if (wi_tcp_get(in + 16, 2) != WI_TCP_CLAIM_MAGIC || in[18] != WI_TCP_CLAIM_VERSION)
        return "claim of another version";
    if (in[19] & ~SHARED_FLAG)
        return "unknown flags";
    memcpy(c->comm_id, in, 16);
    c->shared = in[19] & SHARED_FLAG;
    c->index = in[20];
    c->count = in[21];
    c->from = (uint32_t)wi_tcp_get(in + 24, 4);
    c->to = (uint32_t)wi_tcp_get(in + 28, 4);
    c->eager = (uint32_t)wi_tcp_get(in + 32, 4);
    c->process = wi_tcp_get(in + 36, 8);
    c->listener = wi_tcp_get(in + 44, 8);
    memcpy(c->binding, in + 52, sizeof c->binding);
    if (c->count > WI_TCP_SOCKETS_MAX || (c->count && c->index >= c->count))
        return "socket index out of range";
    if (c->eager < WI_TCP_EAGER_MIN || c->eager > WI_TCP_EAGER_MAX)
        return "eager window out of range";
    return NULL;
}

void wi_tcp_mux_encode(const struct wi_tcp_mux_frame *f, unsigned char out[WI_TCP_MUX_HEADER_BYTES])
{
    wi_tcp_put(out, f->type, 4);
    wi_tcp_put(out + 4, f->stream, 4);
    wi_tcp_put(out + 8, f->value, 4);
}

const char *wi_tcp_mux_decode(const unsigned char in[WI_TCP_MUX_HEADER_BYTES], struct wi_tcp_mux_frame *f)
{
    f->type = in[0];
    f->stream = (uint32_t)wi_tcp_get(in + 4, 4);
    f->value = (uint32_t)wi_tcp_get(in + 8, 4);
    if (in[1] | in[2] | in[3])
        return "reserved bytes of a stream's frame are not zero";
    switch (f->type) {
    case WI_TCP_MUX_DATA:
        return f->value == 0 || f->value > WI_TCP_MUX_FRAME_MAX ? "stream data of a length out of range" : NULL;
    case WI_TCP_MUX_WINDOW:
        return f->value == 0 || f->value > WI_TCP_MUX_WINDOW_BYTES + WI_TCP_MUX_SLACK_BYTES
                   ? "stream window out of range"
                   : NULL;
    case WI_TCP_MUX_OPEN:
    case WI_TCP_MUX_CLOSE:
        return f->value ? "a stream's frame says more than it may" : NULL;
    default:
        return "unknown type of a stream's frame";
    }
}
