/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutual HMAC-SHA256 handshake.
 *
 *   client -> server  hello   head, client nonce, client claim, mac over "client hello", hello
 *   server -> client  reply   head, server nonce, server claim, mac over "server proof", hello, reply
 *   client -> server  proof   head, mac over "client proof", hello, reply (macs included)
 *
 * The three labels keep a message of one kind from passing for another (reflection); the fresh nonces of both sides
 * under the last two macs keep old ones out (replay). The hello's mac lets a server close strangers without a reply; a listener
 * that remembers nonces does not reply to a hello that is played back either.
 * Job and purpose are bound through the key, see wi_auth_derive. Keys of the session come from the same key by HKDF, with both
 * nonces as salt and hello and reply, claims included, as context: no other process has them, and no other connection has the
 * same. */
#include <string.h>
#include <openssl/crypto.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "net/auth.h"

#define AUTH_VERSION 2
#define AUTH_HEAD_BYTES 8
#define AUTH_NONCE_BYTES 32
#define AUTH_MAC_BYTES WI_AUTH_MAC_BYTES
#define AUTH_FULL_BYTES (AUTH_HEAD_BYTES + AUTH_NONCE_BYTES + WEFT_AUTH_CLAIM_MAX + AUTH_MAC_BYTES)
#define AUTH_PROOF_BYTES (AUTH_HEAD_BYTES + AUTH_MAC_BYTES)

enum auth_kind { AUTH_HELLO = 1, AUTH_REPLY = 2, AUTH_PROOF = 3 };
enum auth_state { AUTH_START, AUTH_WAIT_HELLO, AUTH_WAIT_REPLY, AUTH_WAIT_PROOF, AUTH_DONE, AUTH_FAILED };

static const unsigned char auth_magic[4] = {'W', 'F', 'T', 'A'};

struct weft_auth {
    unsigned char key[WI_AUTH_KEY_BYTES];
    int is_server;
    wi_auth_find_fn find; /* until the hello has come, when the key depends on it */
    void *find_arg;
    int (*wanted)(void *arg, const void *claim, size_t claim_bytes); /* NULL: every claim with the key is */
    void *wanted_arg;
    struct wi_auth_seen *seen; /* NULL: hellos are not remembered */
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

weft_status wi_auth_derive(const unsigned char *job_key, size_t job_key_bytes, const char *job, const char *purpose,
                           struct wi_auth_key *key)
{
    struct wi_auth_part secret = {job_key, job_key_bytes}, salt = {job, strlen(job)}, none = {NULL, 0};
    return wi_auth_expand(secret, salt, purpose, none, key->key, sizeof(key->key));
}

static int auth_mac_hello(const struct weft_auth *auth, unsigned char *mac)
{
    struct wi_auth_part part = {auth->hello, AUTH_FULL_BYTES - AUTH_MAC_BYTES};
    return wi_auth_mac(auth->key, "weft client hello", &part, 1, mac);
}

static int auth_mac_reply(const struct weft_auth *auth, unsigned char *mac)
{
    struct wi_auth_part parts[] = {{auth->hello, AUTH_FULL_BYTES}, {auth->reply, AUTH_FULL_BYTES - AUTH_MAC_BYTES}};
    return wi_auth_mac(auth->key, "weft server proof", parts, 2, mac);
}

static int auth_mac_proof(const struct weft_auth *auth, unsigned char *mac)
{
    struct wi_auth_part parts[] = {
        {auth->hello, AUTH_FULL_BYTES}, {auth->reply, AUTH_FULL_BYTES}, {auth->proof, AUTH_HEAD_BYTES}};
    return wi_auth_mac(auth->key, "weft client proof", parts, 3, mac);
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
    auth->is_server = is_server;
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

void wi_auth_remember(struct weft_auth *server, struct wi_auth_seen *seen)
{
    server->seen = seen;
}

void wi_auth_expect(struct weft_auth *server, int (*wanted)(void *arg, const void *claim, size_t claim_bytes),
                    void *arg)
{
    server->wanted = wanted;
    server->wanted_arg = arg;
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

int wi_auth_is_hello(const void *bytes, size_t n)
{
    const unsigned char *head = bytes;
    return n >= AUTH_HEAD_BYTES && !memcmp(head, auth_magic, sizeof(auth_magic)) && head[5] == AUTH_HELLO;
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
    if (auth_mac_hello(auth, mac) || !wi_auth_same(mac, auth->hello + AUTH_FULL_BYTES - AUTH_MAC_BYTES, AUTH_MAC_BYTES))
        return -1;
    auth_take_claim(auth, auth->hello);
    if (auth->wanted && !auth->wanted(auth->wanted_arg, auth->peer_claim, auth->peer_claim_bytes))
        return -1;
    if (auth->seen && wi_auth_seen_before(auth->seen, auth->hello + AUTH_HEAD_BYTES))
        return -1;
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
    if (auth_mac_reply(auth, mac) || !wi_auth_same(mac, auth->reply + AUTH_FULL_BYTES - AUTH_MAC_BYTES, AUTH_MAC_BYTES))
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
    if (auth_mac_proof(auth, mac) || !wi_auth_same(mac, auth->proof + AUTH_HEAD_BYTES, AUTH_MAC_BYTES))
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

weft_status wi_auth_session(struct weft_auth *auth, const char *label, void *key, size_t key_bytes)
{
    unsigned char nonces[2 * AUTH_NONCE_BYTES], said[2 * AUTH_FULL_BYTES];
    if (auth->state != AUTH_DONE)
        return wi_fail(WEFT_EINVAL, "session keys come after the handshake");
    if (!label || strlen(label) > WI_AUTH_LABEL_MAX || key_bytes > WI_AUTH_SESSION_MAX)
        return wi_fail(WEFT_EINVAL, "session key: no label, one of more than %d bytes, or more than %d bytes of key",
                       WI_AUTH_LABEL_MAX, WI_AUTH_SESSION_MAX);
    memcpy(nonces, auth->hello + AUTH_HEAD_BYTES, AUTH_NONCE_BYTES);
    memcpy(nonces + AUTH_NONCE_BYTES, auth->reply + AUTH_HEAD_BYTES, AUTH_NONCE_BYTES);
    memcpy(said, auth->hello, AUTH_FULL_BYTES);
    memcpy(said + AUTH_FULL_BYTES, auth->reply, AUTH_FULL_BYTES);
    struct wi_auth_part secret = {auth->key, sizeof(auth->key)}, salt = {nonces, sizeof(nonces)},
                        context = {said, sizeof(said)};
    return wi_auth_expand(secret, salt, label, context, key, key_bytes);
}

weft_status wi_auth_streams(struct weft_auth *auth, struct wi_auth_stream *out, struct wi_auth_stream *in)
{
    unsigned char keys[2][WI_AUTH_KEY_BYTES];
    weft_status st = wi_auth_session(auth, "weft client to server", keys[0], sizeof(keys[0]));
    if (st == WEFT_SUCCESS)
        st = wi_auth_session(auth, "weft server to client", keys[1], sizeof(keys[1]));
    if (st == WEFT_SUCCESS && out)
        st = wi_auth_stream_begin(out, keys[auth->is_server ? 1 : 0]);
    if (st == WEFT_SUCCESS && in)
        st = wi_auth_stream_begin(in, keys[auth->is_server ? 0 : 1]);
    OPENSSL_cleanse(keys, sizeof(keys));
    return st;
}
