/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames and byte queues of the start-up store. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/store_wire.h"

#define BUF_STEP_BYTES 4096
#define CULPRIT_MAX (1u << 20) /* no job has more ranks */

/* Head: type, key bytes, two zero bytes, value bytes. 0 or -1. */
static int head_parse(const unsigned char *in, size_t *key_bytes, size_t *value_bytes)
{
    *key_bytes = in[1];
    *value_bytes = wi_get32(in + 4);
    return in[0] == 0 || in[0] >= WI_STORE_NTYPES || *key_bytes > WI_STORE_KEY_MAX || in[2] || in[3] ||
                   *value_bytes > WI_STORE_VALUE_MAX
               ? -1
               : 0;
}

static void frame_fill(struct wi_store_frame *frame, unsigned char type, const unsigned char *body, size_t key_bytes,
                       size_t value_bytes)
{
    frame->type = (enum wi_store_frame_type)type;
    memcpy(frame->key, body, key_bytes);
    frame->key[key_bytes] = '\0';
    frame->key_bytes = key_bytes;
    frame->value = body + key_bytes;
    frame->value_bytes = value_bytes;
}

long wi_store_frame_parse(const void *data, size_t bytes, struct wi_store_frame *frame)
{
    const unsigned char *in = data;
    size_t key_bytes, value_bytes;
    if (bytes >= 1 && (in[0] == 0 || in[0] >= WI_STORE_NTYPES))
        return -1;
    if (bytes < WI_STORE_HEAD_BYTES)
        return 0;
    if (head_parse(in, &key_bytes, &value_bytes))
        return -1;
    size_t total = WI_STORE_HEAD_BYTES + key_bytes + value_bytes;
    if (bytes < total)
        return 0;
    frame_fill(frame, in[0], in + WI_STORE_HEAD_BYTES, key_bytes, value_bytes);
    return (long)total;
}

long wi_store_frame_open(struct wi_store_opener *opener, const void *data, size_t bytes, struct wi_store_frame *frame)
{
    const unsigned char *in = data, *body = in + WI_STORE_HEAD_BYTES + WI_AUTH_TAG_BYTES;
    size_t key_bytes, value_bytes, total = WI_STORE_HEAD_BYTES + WI_AUTH_TAG_BYTES;
    if (bytes < total)
        return 0;
    weft_status st = WEFT_SUCCESS;
    if (!opener->head_opened)
        st = wi_auth_open(&opener->stream, in, WI_STORE_HEAD_BYTES, in + WI_STORE_HEAD_BYTES);
    if (st < 0)
        return st == WEFT_EAUTH ? -2 : -3;
    opener->head_opened = 1;
    if (head_parse(in, &key_bytes, &value_bytes))
        return -1;
    if (key_bytes + value_bytes) {
        total += key_bytes + value_bytes + WI_AUTH_TAG_BYTES;
        if (bytes < total)
            return 0;
        st = wi_auth_open(&opener->stream, body, key_bytes + value_bytes, body + key_bytes + value_bytes);
        if (st < 0)
            return st == WEFT_EAUTH ? -2 : -3;
    }
    opener->head_opened = 0;
    frame_fill(frame, in[0], body, key_bytes, value_bytes);
    return (long)total;
}

/* Whole or not at all: what is sent next is opened after what was sent last. */
static int frame_seal(struct wi_auth_stream *seal, unsigned char *head, unsigned char *body, size_t body_bytes)
{
    uint64_t next = seal->next;
    if (!wi_auth_seal(seal, head, WI_STORE_HEAD_BYTES, head + WI_STORE_HEAD_BYTES) &&
        (!body_bytes || !wi_auth_seal(seal, body, body_bytes, body + body_bytes)))
        return 0;
    seal->next = next;
    return -1;
}

int wi_store_frame_append(struct wi_store_buf *buf, enum wi_store_frame_type type, const char *key, const void *value,
                          size_t value_bytes)
{
    size_t key_bytes = key ? strlen(key) : 0, tag_bytes = buf->seal ? WI_AUTH_TAG_BYTES : 0;
    if (key_bytes > WI_STORE_KEY_MAX || value_bytes > WI_STORE_VALUE_MAX)
        return -1;
    size_t body_bytes = key_bytes + value_bytes;
    size_t total = WI_STORE_HEAD_BYTES + tag_bytes + body_bytes + (body_bytes ? tag_bytes : 0);
    unsigned char *out = wi_store_buf_reserve(buf, total);
    if (!out)
        return -1;
    unsigned char *body = out + WI_STORE_HEAD_BYTES + tag_bytes;
    out[0] = (unsigned char)type;
    out[1] = (unsigned char)key_bytes;
    out[2] = out[3] = 0;
    wi_put32(out + 4, (uint32_t)value_bytes);
    if (key_bytes)
        memcpy(body, key, key_bytes);
    if (value_bytes)
        memcpy(body + key_bytes, value, value_bytes);
    if (buf->seal && frame_seal(buf->seal, out, body, body_bytes))
        return -1;
    buf->end += total;
    return 0;
}

size_t wi_store_verdict_write(const struct wi_store_verdict *verdict, unsigned char *out)
{
    size_t text_bytes = strnlen(verdict->text, sizeof(verdict->text) - 1);
    wi_put32(out, (uint32_t)(int32_t)verdict->status);
    wi_put32(out + 4, (uint32_t)verdict->culprit);
    memcpy(out + 8, verdict->text, text_bytes);
    return 8 + text_bytes;
}

int wi_store_verdict_read(const unsigned char *in, size_t bytes, struct wi_store_verdict *verdict)
{
    if (bytes < 8 || bytes > WI_STORE_VERDICT_MAX)
        return -1;
    int32_t status = (int32_t)wi_get32(in);
    verdict->status = status == WEFT_ETIMEDOUT || status == WEFT_EMISMATCH || status == WEFT_EABORTED ||
                              status == WEFT_EPROTO || status == WEFT_EINVAL || status == WEFT_EAUTH
                          ? (weft_status)status
                          : WEFT_EPEER;
    verdict->culprit = (int32_t)wi_get32(in + 4) >= 0 && wi_get32(in + 4) < CULPRIT_MAX ? (int)wi_get32(in + 4) : -1;
    for (size_t i = 8; i < bytes; i++)
        verdict->text[i - 8] = in[i] >= 0x20 && in[i] < 0x7f ? (char)in[i] : '?';
    verdict->text[bytes - 8] = '\0';
    if (bytes == 8)
        snprintf(verdict->text, sizeof(verdict->text), "the store says no more than %s",
                 weft_status_name(verdict->status));
    return 0;
}

void wi_store_buf_init(struct wi_store_buf *buf, size_t limit)
{
    *buf = (struct wi_store_buf){.limit = limit};
}

void wi_store_buf_fini(struct wi_store_buf *buf)
{
    wi_free(buf->data);
    *buf = (struct wi_store_buf){.limit = buf->limit, .seal = buf->seal};
}

unsigned char *wi_store_buf_reserve(struct wi_store_buf *buf, size_t bytes)
{
    size_t held = wi_store_buf_bytes(buf);
    if (bytes > buf->limit || held > buf->limit - bytes)
        return NULL;
    if (buf->begin && buf->end + bytes > buf->capacity) {
        memmove(buf->data, buf->data + buf->begin, held);
        buf->begin = 0;
        buf->end = held;
    }
    if (buf->end + bytes > buf->capacity) {
        size_t capacity = buf->capacity ? buf->capacity : buf->limit < BUF_STEP_BYTES ? buf->limit : BUF_STEP_BYTES;
        while (capacity < held + bytes)
            capacity *= 2;
        unsigned char *data = wi_realloc(buf->data, capacity);
        if (!data)
            return NULL;
        buf->data = data;
        buf->capacity = capacity;
    }
    return buf->data + buf->end;
}

int wi_store_buf_append(struct wi_store_buf *buf, const void *data, size_t bytes)
{
    if (!bytes)
        return 0;
    unsigned char *out = wi_store_buf_reserve(buf, bytes);
    if (!out)
        return -1;
    memcpy(out, data, bytes);
    buf->end += bytes;
    return 0;
}

void wi_store_buf_consume(struct wi_store_buf *buf, size_t bytes)
{
    buf->begin += bytes;
    if (buf->begin == buf->end)
        buf->begin = buf->end = 0;
}

static int would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int wi_store_buf_send(struct wi_store_buf *buf, int fd)
{
    while (wi_store_buf_bytes(buf)) {
        ssize_t sent = send(fd, buf->data + buf->begin, wi_store_buf_bytes(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return would_block() ? 1 : -1;
        wi_store_buf_consume(buf, (size_t)sent);
    }
    return 1;
}

int wi_store_buf_recv(struct wi_store_buf *buf, int fd, size_t most)
{
    size_t room = buf->limit - wi_store_buf_bytes(buf);
    most = most < room ? most : room;
    most = most < BUF_STEP_BYTES ? most : BUF_STEP_BYTES;
    unsigned char *in = most ? wi_store_buf_reserve(buf, most) : NULL;
    if (!in) {
        errno = ENOBUFS;
        return -1;
    }
    ssize_t got = recv(fd, in, most, MSG_DONTWAIT);
    if (got < 0)
        return would_block() ? 1 : -1;
    buf->end += (size_t)got;
    return got > 0;
}
