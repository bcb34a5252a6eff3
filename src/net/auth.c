/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutual HMAC-SHA256 handshake.
 *
 *   client -> server  hello   head, client nonce, client claim, mac over "client hello", hello
 *   server -> client  reply   head, server nonce, server claim, mac over "server proof", hello, reply
 *   client -> server  proof   head, mac over "client proof", hello, reply (macs included)
 *
 * The three labels keep a message of one kind from passing for another (reflection); the fresh nonces of both sides
 * under the last two macs keep old ones out (replay). The hello's mac lets a server close strangers without a reply.
 * Job and purpose are bound through the key, see wi_auth_derive. */
#include <stdatomic.h>
#include <string.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "net/auth.h"

#define AUTH_VERSION 1
#define AUTH_HEAD_BYTES 8
#define AUTH_NONCE_BYTES 32
#define AUTH_MAC_BYTES 32
#define AUTH_FULL_BYTES (AUTH_HEAD_BYTES + AUTH_NONCE_BYTES + WEFT_AUTH_CLAIM_MAX + AUTH_MAC_BYTES)
#define AUTH_PROOF_BYTES (AUTH_HEAD_BYTES + AUTH_MAC_BYTES)

enum auth_kind { AUTH_HELLO = 1, AUTH_REPLY = 2, AUTH_PROOF = 3 };
enum auth_state { AUTH_START, AUTH_WAIT_HELLO, AUTH_WAIT_REPLY, AUTH_WAIT_PROOF, AUTH_DONE, AUTH_FAILED };

static const unsigned char auth_magic[4] = {'W', 'F', 'T', 'A'};

struct weft_auth {
    unsigned char key[32];
    wi_auth_find_fn find; /* until the hello has come, when the key depends on it */
    void *find_arg;
    enum auth_state state;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    size_t claim_bytes;
    unsigned char peer_claim[WEFT_AUTH_CLAIM_MAX];
    size_t peer_claim_bytes;
    unsigned char hello[AUTH_FULL_BYTES], reply[AUTH_FULL_BYTES], proof[AUTH_PROOF_BYTES];
    size_t in_bytes;          /* of the message being received */
    const unsigned char *out; /* message being sent */
    size_t out_bytes, out_sent;
};

_Static_assert(AUTH_FULL_BYTES <= WEFT_AUTH_MESSAGE_MAX, "handshake message too long");

/* An own library context: no configuration file is read and the host program's OpenSSL set-up is not disturbed. Made once
 * and kept: whoever loses the race frees his. */
static OSSL_LIB_CTX *auth_library(void)
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

weft_status wi_auth_derive(const unsigned char *job_key, size_t job_key_bytes, const char *job, const char *purpose,
                           struct wi_auth_key *key)
{
    EVP_KDF *kdf = EVP_KDF_fetch(auth_library(), "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)job_key, job_key_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)job, strlen(job)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)purpose, strlen(purpose)),
        OSSL_PARAM_construct_end(),
    };
    int ok = ctx && EVP_KDF_derive(ctx, key->key, sizeof(key->key), params) > 0;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok ? WEFT_SUCCESS : wi_fail(WEFT_EINTERNAL, "HKDF-SHA256 of the job key failed");
}

struct auth_part {
    const void *data;
    size_t bytes;
};

static int auth_mac(const struct weft_auth *auth, const char *label, const struct auth_part *parts, int nparts,
                    unsigned char mac[AUTH_MAC_BYTES])
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *hmac = EVP_MAC_fetch(auth_library(), "HMAC", NULL);
    EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    size_t bytes = 0;
    int ok = ctx && EVP_MAC_init(ctx, auth->key, sizeof(auth->key), params) &&
             EVP_MAC_update(ctx, (const unsigned char *)label, strlen(label) + 1);
    for (int i = 0; ok && i < nparts; i++)
        ok = EVP_MAC_update(ctx, parts[i].data, parts[i].bytes);
    ok = ok && EVP_MAC_final(ctx, mac, &bytes, AUTH_MAC_BYTES) && bytes == AUTH_MAC_BYTES;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(hmac);
    return ok ? 0 : -1;
}

static int auth_mac_hello(const struct weft_auth *auth, unsigned char *mac)
{
    struct auth_part part = {auth->hello, AUTH_FULL_BYTES - AUTH_MAC_BYTES};
    return auth_mac(auth, "weft client hello", &part, 1, mac);
}

static int auth_mac_reply(const struct weft_auth *auth, unsigned char *mac)
{
    struct auth_part parts[] = {{auth->hello, AUTH_FULL_BYTES}, {auth->reply, AUTH_FULL_BYTES - AUTH_MAC_BYTES}};
    return auth_mac(auth, "weft server proof", parts, 2, mac);
}

static int auth_mac_proof(const struct weft_auth *auth, unsigned char *mac)
{
    struct auth_part parts[] = {
        {auth->hello, AUTH_FULL_BYTES}, {auth->reply, AUTH_FULL_BYTES}, {auth->proof, AUTH_HEAD_BYTES}};
    return auth_mac(auth, "weft client proof", parts, 3, mac);
}

struct weft_auth *wi_auth_create(const struct wi_auth_key *key, int is_server, const void *claim, size_t claim_bytes)
{
    if (claim_bytes > WEFT_AUTH_CLAIM_MAX || (claim_bytes && !claim))
        return NULL;
    struct weft_auth *auth = wi_calloc(1, sizeof(*auth));
    if (!auth)
        return NULL;
    memcpy(auth->key, key->key, sizeof(auth->key));
    if (claim_bytes)
        memcpy(auth->claim, claim, claim_bytes);
    auth->claim_bytes = claim_bytes;
    auth->state = is_server ? AUTH_WAIT_HELLO : AUTH_START;
    return auth;
}

struct weft_auth *wi_auth_create_server(wi_auth_find_fn find, void *arg, const void *claim, size_t claim_bytes)
{
    static const struct wi_auth_key none;
    struct weft_auth *auth = wi_auth_create(&none, 1, claim, claim_bytes);
    if (!auth)
        return NULL;
    auth->find = find;
    auth->find_arg = arg;
    return auth;
}

/* The claim is not authenticated yet: it only says which key must fit. */
static int auth_find_key(struct weft_auth *auth)
{
    struct wi_auth_key key;
    int found = auth->find(auth->find_arg, auth->hello + AUTH_HEAD_BYTES + AUTH_NONCE_BYTES, auth->hello[6], &key);
    if (found)
        memcpy(auth->key, key.key, sizeof(auth->key));
    OPENSSL_cleanse(&key, sizeof(key));
    return found ? 0 : -1;
}

void wi_auth_destroy(struct weft_auth *auth)
{
    if (!auth)
        return;
    OPENSSL_cleanse(auth, sizeof(*auth));
    wi_free(auth);
}

static void auth_head(unsigned char *message, enum auth_kind kind, size_t claim_bytes)
{
    memcpy(message, auth_magic, 4);
    message[4] = AUTH_VERSION;
    message[5] = (unsigned char)kind;
    message[6] = (unsigned char)claim_bytes;
    message[7] = 0;
}

/* The first `bytes` of a message of `kind` may be right; whole heads are checked before a body is awaited. */
static int auth_head_valid(const unsigned char *message, size_t bytes, enum auth_kind kind)
{
    unsigned char want[AUTH_HEAD_BYTES];
    auth_head(want, kind, bytes > 6 ? message[6] : 0);
    if (memcmp(message, want, bytes < AUTH_HEAD_BYTES ? bytes : AUTH_HEAD_BYTES) != 0)
        return 0;
    return want[6] <= (kind == AUTH_PROOF ? 0 : WEFT_AUTH_CLAIM_MAX);
}

static int auth_fill(struct weft_auth *auth, unsigned char *message, enum auth_kind kind)
{
    auth_head(message, kind, auth->claim_bytes);
    memcpy(message + AUTH_HEAD_BYTES + AUTH_NONCE_BYTES, auth->claim, WEFT_AUTH_CLAIM_MAX);
    return wi_random(message + AUTH_HEAD_BYTES, AUTH_NONCE_BYTES);
}

static void auth_send(struct weft_auth *auth, const unsigned char *message, size_t bytes)
{
    auth->out = message;
    auth->out_bytes = bytes;
    auth->out_sent = 0;
}

static void auth_take_claim(struct weft_auth *auth, const unsigned char *message)
{
    auth->peer_claim_bytes = message[6];
    memcpy(auth->peer_claim, message + AUTH_HEAD_BYTES + AUTH_NONCE_BYTES, WEFT_AUTH_CLAIM_MAX);
}

static int auth_start(struct weft_auth *auth)
{
    if (auth_fill(auth, auth->hello, AUTH_HELLO) ||
        auth_mac_hello(auth, auth->hello + AUTH_FULL_BYTES - AUTH_MAC_BYTES))
        return -1;
    auth_send(auth, auth->hello, AUTH_FULL_BYTES);
    auth->state = AUTH_WAIT_REPLY;
    return 0;
}

static int auth_on_hello(struct weft_auth *auth)
{
    unsigned char mac[AUTH_MAC_BYTES];
    if (auth->find && auth_find_key(auth))
        return -1;
    if (auth_mac_hello(auth, mac) || CRYPTO_memcmp(mac, auth->hello + AUTH_FULL_BYTES - AUTH_MAC_BYTES, AUTH_MAC_BYTES))
        return -1;
    auth_take_claim(auth, auth->hello);
    if (auth_fill(auth, auth->reply, AUTH_REPLY) ||
        auth_mac_reply(auth, auth->reply + AUTH_FULL_BYTES - AUTH_MAC_BYTES))
        return -1;
    auth_send(auth, auth->reply, AUTH_FULL_BYTES);
    auth->state = AUTH_WAIT_PROOF;
    return 0;
}

static int auth_on_reply(struct weft_auth *auth)
{
    unsigned char mac[AUTH_MAC_BYTES];
    if (auth_mac_reply(auth, mac) || CRYPTO_memcmp(mac, auth->reply + AUTH_FULL_BYTES - AUTH_MAC_BYTES, AUTH_MAC_BYTES))
        return -1;
    auth_take_claim(auth, auth->reply);
    auth_head(auth->proof, AUTH_PROOF, 0);
    if (auth_mac_proof(auth, auth->proof + AUTH_HEAD_BYTES))
        return -1;
    auth_send(auth, auth->proof, AUTH_PROOF_BYTES);
    auth->state = AUTH_DONE;
    return 0;
}

static int auth_on_proof(struct weft_auth *auth)
{
    unsigned char mac[AUTH_MAC_BYTES];
    if (auth_mac_proof(auth, mac) || CRYPTO_memcmp(mac, auth->proof + AUTH_HEAD_BYTES, AUTH_MAC_BYTES))
        return -1;
    auth->state = AUTH_DONE;
    return 0;
}

/* Take what belongs to the awaited message; complete ones are acted on. */
static int auth_receive(struct weft_auth *auth, const unsigned char *in, size_t in_bytes, size_t *consumed)
{
    while (auth->state == AUTH_WAIT_HELLO || auth->state == AUTH_WAIT_REPLY || auth->state == AUTH_WAIT_PROOF) {
        enum auth_kind kind = (enum auth_kind)(auth->state - AUTH_WAIT_HELLO + AUTH_HELLO);
        unsigned char *message = kind == AUTH_HELLO ? auth->hello : kind == AUTH_REPLY ? auth->reply : auth->proof;
        size_t want = (kind == AUTH_PROOF ? AUTH_PROOF_BYTES : AUTH_FULL_BYTES) - auth->in_bytes;
        size_t got = in_bytes - *consumed < want ? in_bytes - *consumed : want;
        if (got)
            memcpy(message + auth->in_bytes, in + *consumed, got);
        auth->in_bytes += got;
        *consumed += got;
        if (!auth_head_valid(message, auth->in_bytes, kind))
            return -1;
        if (got < want)
            return 0;
        auth->in_bytes = 0;
        if (kind == AUTH_HELLO ? auth_on_hello(auth) : kind == AUTH_REPLY ? auth_on_reply(auth) : auth_on_proof(auth))
            return -1;
    }
    return 0;
}

static size_t auth_drain(struct weft_auth *auth, void *out, size_t out_capacity)
{
    size_t bytes = auth->out_bytes - auth->out_sent;
    bytes = bytes < out_capacity ? bytes : out_capacity;
    if (bytes)
        memcpy(out, auth->out + auth->out_sent, bytes);
    auth->out_sent += bytes;
    return bytes;
}

weft_status wi_auth_step(struct weft_auth *auth, const void *in, size_t in_bytes, size_t *consumed, void *out,
                         size_t out_capacity, size_t *out_bytes, void *peer_claim, size_t *peer_claim_bytes)
{
    *consumed = 0;
    *out_bytes = 0;
    if (auth->state == AUTH_FAILED)
        return WEFT_EAUTH;
    if ((auth->state == AUTH_START && auth_start(auth)) || auth_receive(auth, in, in_bytes, consumed)) {
        auth->state = AUTH_FAILED;
        OPENSSL_cleanse(auth->key, sizeof(auth->key));
        return WEFT_EAUTH;
    }
    *out_bytes = auth_drain(auth, out, out_capacity);
    if (auth->state != AUTH_DONE || auth->out_sent < auth->out_bytes)
        return WEFT_INPROGRESS;
    if (peer_claim)
        memcpy(peer_claim, auth->peer_claim, auth->peer_claim_bytes);
    if (peer_claim_bytes)
        *peer_claim_bytes = auth->peer_claim_bytes;
    return WEFT_SUCCESS;
}
