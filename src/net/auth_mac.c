/* SPDX-License-Identifier: BSD-3-Clause */
/* Message authentication codes and key derivation. */
#include <stdatomic.h>
#include <string.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/status.h"
#include "net/auth_mac.h"

#define INFO_MAX 1024 /* OpenSSL 3.0 takes no more */

/* An own library context: no configuration file is read and the host program's OpenSSL set-up is not disturbed. Made once
 * and kept: the thread that loses the race frees its own. */
static OSSL_LIB_CTX *mac_library(void)
{
    static _Atomic(OSSL_LIB_CTX *) library;
    OSSL_LIB_CTX *lib = atomic_load_explicit(&library, memory_order_acquire);
    if (lib)
        return lib;
    OSSL_LIB_CTX *fresh = OSSL_LIB_CTX_new();
    if (!fresh)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&library, &lib, fresh, memory_order_acq_rel, memory_order_acquire))
        return fresh;
    OSSL_LIB_CTX_free(fresh);
    return lib;
}

static EVP_MAC_CTX *mac_new(void)
{
    EVP_MAC *hmac = EVP_MAC_fetch(mac_library(), "HMAC", NULL);
    EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac);
    return ctx;
}

/* The key is given each time: before OpenSSL 3.0.3 a context without one is not begun anew. */
static int mac_begin(EVP_MAC_CTX *ctx, const unsigned char *key, int first)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_init(ctx, key, WI_AUTH_KEY_BYTES, first ? params : NULL);
}

static int mac_end(EVP_MAC_CTX *ctx, unsigned char mac[WI_AUTH_MAC_BYTES])
{
    size_t bytes = 0;
    return EVP_MAC_final(ctx, mac, &bytes, WI_AUTH_MAC_BYTES) && bytes == WI_AUTH_MAC_BYTES;
}

int wi_auth_mac(const unsigned char key[WI_AUTH_KEY_BYTES], const char *label, const struct wi_auth_part *parts,
                int nparts, unsigned char mac[WI_AUTH_MAC_BYTES])
{
    EVP_MAC_CTX *ctx = mac_new();
    int ok = ctx && mac_begin(ctx, key, 1) && EVP_MAC_update(ctx, (const unsigned char *)label, strlen(label) + 1);
    for (int i = 0; ok && i < nparts; i++)
        ok = EVP_MAC_update(ctx, parts[i].data, parts[i].bytes);
    ok = ok && mac_end(ctx, mac);
    EVP_MAC_CTX_free(ctx);
    return ok ? 0 : -1;
}

int wi_auth_same(const void *a, const void *b, size_t bytes)
{
    return CRYPTO_memcmp(a, b, bytes) == 0;
}

weft_status wi_auth_expand(struct wi_auth_part key, struct wi_auth_part salt, const char *label,
                           struct wi_auth_part info, void *out, size_t out_bytes)
{
    unsigned char context[INFO_MAX];
    size_t label_bytes = strlen(label);
    if (label_bytes + info.bytes > sizeof(context))
        return wi_fail(WEFT_EINTERNAL, "HKDF-SHA256: %zu bytes of context", label_bytes + info.bytes);
    memcpy(context, label, label_bytes);
    if (info.bytes)
        memcpy(context + label_bytes, info.data, info.bytes);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key.data, key.bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt.data, salt.bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, context, label_bytes + info.bytes),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(mac_library(), "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    int ok = ctx && EVP_KDF_derive(ctx, out, out_bytes, params) > 0;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok ? WEFT_SUCCESS : wi_fail(WEFT_EINTERNAL, "HKDF-SHA256 of the job key failed");
}

weft_status wi_auth_stream_begin(struct wi_auth_stream *stream, const unsigned char key[WI_AUTH_KEY_BYTES])
{
    wi_auth_stream_end(stream);
    memcpy(stream->key, key, WI_AUTH_KEY_BYTES);
    stream->mac = mac_new();
    if (stream->mac && mac_begin(stream->mac, stream->key, 1))
        return WEFT_SUCCESS;
    wi_auth_stream_end(stream);
    return wi_fail(WEFT_ENOMEM, "no memory for an authenticated connection");
}

void wi_auth_stream_end(struct wi_auth_stream *stream)
{
    EVP_MAC_CTX_free(stream->mac);
    OPENSSL_cleanse(stream, sizeof(*stream));
}

static int stream_mac(struct wi_auth_stream *stream, const void *data, size_t bytes, unsigned char *mac)
{
    unsigned char place[16];
    if (!stream->mac)
        return -1;
    for (int i = 0; i < 8; i++) {
        place[i] = (unsigned char)(stream->next >> (8 * i));
        place[8 + i] = (unsigned char)((uint64_t)bytes >> (8 * i));
    }
    int ok = mac_begin(stream->mac, stream->key, 0) && EVP_MAC_update(stream->mac, place, sizeof(place)) &&
             (!bytes || EVP_MAC_update(stream->mac, data, bytes)) && mac_end(stream->mac, mac);
    stream->next += ok != 0;
    return ok ? 0 : -1;
}

int wi_auth_seal(struct wi_auth_stream *stream, const void *data, size_t bytes, unsigned char tag[WI_AUTH_TAG_BYTES])
{
    unsigned char mac[WI_AUTH_MAC_BYTES];
    if (stream_mac(stream, data, bytes, mac))
        return -1;
    memcpy(tag, mac, WI_AUTH_TAG_BYTES);
    return 0;
}

weft_status wi_auth_open(struct wi_auth_stream *stream, const void *data, size_t bytes,
                         const unsigned char tag[WI_AUTH_TAG_BYTES])
{
    unsigned char mac[WI_AUTH_MAC_BYTES];
    if (stream_mac(stream, data, bytes, mac))
        return WEFT_ENOMEM;
    return wi_auth_same(mac, tag, WI_AUTH_TAG_BYTES) ? WEFT_SUCCESS : WEFT_EAUTH;
}
