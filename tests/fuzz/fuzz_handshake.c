/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that knows the key: both sides of a handshake run with it, each with a claim out of the input, and what they send to
 * each other is cut into pieces and, where the input says so, changed. An unchanged talk must succeed on both sides and deliver
 * both claims; after a change no side that reads it may succeed. The claims go on to what reads claims.
 *
 * Bytes: size of pieces, length and bytes of the client's claim, of the server's; then pairs (where, xor) of changes, the
 * place counted over both directions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/auth.h"
#include "net/store_server.h"
#include "plugins/tcp/frame.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct side {
    struct weft_auth *auth;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX], peer[WEFT_AUTH_CLAIM_MAX];
    size_t claim_bytes, peer_bytes;
    unsigned char in[4 * WEFT_AUTH_MESSAGE_MAX];
    size_t in_bytes;
    weft_status status;
    int changed; /* it was given a byte that was not sent */
};

struct talk {
    size_t piece, sent; /* bytes of both directions so far */
    const uint8_t *changes;
    size_t nchanges;
};

static size_t take_claim(struct side *s, const uint8_t *data, size_t bytes)
{
    if (!bytes)
        return 0;
    s->claim_bytes = data[0] % (WEFT_AUTH_CLAIM_MAX + 1);
    if (s->claim_bytes > bytes - 1)
        s->claim_bytes = bytes - 1;
    memcpy(s->claim, data + 1, s->claim_bytes);
    return 1 + s->claim_bytes;
}

static void carry(struct talk *t, struct side *to, const unsigned char *out, size_t bytes)
{
    require(to->in_bytes + bytes <= sizeof to->in);
    for (size_t i = 0; i < bytes; i++, t->sent++) {
        unsigned char c = out[i];
        for (size_t k = 0; k < t->nchanges; k++)
            if (t->changes[2 * k] * 2u == (t->sent & 0x1fe))
                c ^= t->changes[2 * k + 1];
        to->changed |= c != out[i];
        to->in[to->in_bytes++] = c;
    }
}

/* One step; did anything move? */
static int step(struct talk *t, struct side *from, struct side *to)
{
    unsigned char out[WEFT_AUTH_MESSAGE_MAX];
    size_t consumed = 0, out_bytes = 0, n = from->in_bytes < t->piece ? from->in_bytes : t->piece;

    if (from->status != WEFT_INPROGRESS)
        return 0;
    from->status =
        wi_auth_step(from->auth, from->in, n, &consumed, out, sizeof out, &out_bytes, from->peer, &from->peer_bytes);
    require(consumed <= n && out_bytes <= sizeof out);
    memmove(from->in, from->in + consumed, from->in_bytes - consumed);
    from->in_bytes -= consumed;
    if (from->status < 0) {
        require(out_bytes == 0); /* not a word to a side that failed */
        return 1;
    }
    carry(t, to, out, out_bytes);
    return consumed || out_bytes || from->status == WEFT_SUCCESS;
}

static void read_claims(const struct side *s)
{
    struct wi_store_claim store;
    struct wi_tcp_claim tcp;

    if (wi_store_claim_read(s->peer, s->peer_bytes, &store) == 0)
        require(memchr(store.host, 0, sizeof store.host) != NULL);
    if (!wi_tcp_claim_decode(s->peer, s->peer_bytes, &tcp))
        require(tcp.count <= WI_TCP_SOCKETS_MAX && (!tcp.count || tcp.index < tcp.count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct wi_auth_key key = {.key = "a key of 32 bytes, known to both"};
    struct side client = {.status = WEFT_INPROGRESS}, server = {.status = WEFT_INPROGRESS};
    if (bytes < 1)
        return 0;
    struct talk t = {.piece = data[0] + 1u};
    size_t at = 1;
    at += take_claim(&client, data + at, bytes - at);
    at += take_claim(&server, data + at, bytes - at);
    t.changes = data + at;
    t.nchanges = (bytes - at) / 2;
    client.auth = wi_auth_create(&key, 0, client.claim, client.claim_bytes);
    server.auth = wi_auth_create(&key, 1, server.claim, server.claim_bytes);
    require(client.auth && server.auth);
    while (step(&t, &client, &server) | step(&t, &server, &client))
        ;
    require(!(client.changed && client.status == WEFT_SUCCESS) && !(server.changed && server.status == WEFT_SUCCESS));
    if (!client.changed && !server.changed) {
        require(client.status == WEFT_SUCCESS && server.status == WEFT_SUCCESS);
        require(client.peer_bytes == server.claim_bytes && !memcmp(client.peer, server.claim, server.claim_bytes));
        require(server.peer_bytes == client.claim_bytes && !memcmp(server.peer, client.claim, client.claim_bytes));
        read_claims(&client);
        read_claims(&server);
    }
    wi_auth_destroy(client.auth);
    wi_auth_destroy(server.auth);
    return 0;
}
