/* SPDX-License-Identifier: BSD-3-Clause */
/* HMAC-SHA256 and HKDF-SHA256 of OpenSSL 3, and the tags that messages carry once their connection is authenticated. */
#ifndef WI_NET_AUTH_MAC_H
#define WI_NET_AUTH_MAC_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_AUTH_KEY_BYTES 32
#define WI_AUTH_MAC_BYTES 32

struct wi_auth_part {
    const void *data;
    size_t bytes;
};
/* Over the label with its NUL, then the parts. 0, or -1: OpenSSL has no memory. */
int wi_auth_mac(const unsigned char key[WI_AUTH_KEY_BYTES], const char *label, const struct wi_auth_part *parts,
                int nparts, unsigned char mac[WI_AUTH_MAC_BYTES]);
/* In a time that does not depend on where they differ. */
int wi_auth_same(const void *a, const void *b, size_t bytes);
/* HKDF; `label` without its NUL, then `info`, are the context. */
weft_status wi_auth_expand(struct wi_auth_part key, struct wi_auth_part salt, const char *label,
                           struct wi_auth_part info, void *out, size_t out_bytes);

/* One direction of an authenticated connection. A tag covers a counter, the length and the bytes, so that no message can be
 * changed, left out, repeated or moved; the direction is bound by the key. */
#define WI_AUTH_TAG_BYTES 16
struct wi_auth_stream {
    unsigned char key[WI_AUTH_KEY_BYTES];
    uint64_t next;
    struct evp_mac_ctx_st *mac; /* NULL: not begun */
};
weft_status wi_auth_stream_begin(struct wi_auth_stream *stream, const unsigned char key[WI_AUTH_KEY_BYTES]);
void wi_auth_stream_end(struct wi_auth_stream *stream); /* also of one that is all zero */
/* Both count: every message is sealed, and opened, once and in order. Without memory nothing is counted. 0, or -1: OpenSSL has no
 * memory. */
int wi_auth_seal(struct wi_auth_stream *stream, const void *data, size_t bytes, unsigned char tag[WI_AUTH_TAG_BYTES]);
/* WEFT_EAUTH: it is not what the other side sealed; WEFT_ENOMEM: it could not be checked. */
weft_status wi_auth_open(struct wi_auth_stream *stream, const void *data, size_t bytes,
                         const unsigned char tag[WI_AUTH_TAG_BYTES]);

#endif
