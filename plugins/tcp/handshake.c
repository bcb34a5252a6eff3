/* handshake.c: carry the host's authentication over a non-blocking socket.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#include <errno.h>
#include <string.h>

/* All that a side needs to be convinced. A stranger is not read any further. */
#define READ_MAX WEFT_AUTH_MESSAGE_MAX

/* A hello that was overheard on its way to another rank of the job and replayed must not occupy a place here. One that was said in
 * another shared connection, or in none, is not for this stream: who has that one would else stand between the two. */
static int meant_for_this_process(void *arg, const void *claim, size_t bytes)
{
    const struct wi_tcp_handshake *h = arg;
    struct wi_tcp_claim peer;
    return !wi_tcp_claim_decode(claim, bytes, &peer) && peer.count && peer.listener == h->process &&
           memcmp(peer.binding, h->binding, sizeof h->binding) == 0;
}

weft_status wi_tcp_handshake_init(struct wi_tcp_handshake *h, const struct weft_host *host, int is_server,
                                  const struct wi_tcp_claim *mine)
{
    unsigned char claim[WI_TCP_CLAIM_BYTES];
    wi_tcp_claim_encode(mine, claim);
    h->host = host;
    h->have = h->total = 0;
    h->replied = h->ended = 0;
    h->process = mine->process;
    memcpy(h->binding, mine->binding, sizeof h->binding);
    h->auth = host->auth_create(host->impl, is_server, claim, sizeof claim);
    if (h->auth && is_server)
        host->auth_expect(h->auth, meant_for_this_process, h);
    return h->auth ? WEFT_SUCCESS : WEFT_ENOMEM;
}

void wi_tcp_handshake_fini(struct wi_tcp_handshake *h)
{
    if (h->auth)
        h->host->auth_destroy(h->auth);
    h->auth = NULL;
}

/* One call of auth_step; *moved tells whether it consumed or produced anything. */
static weft_status step_once(struct wi_tcp_handshake *h, int fd, struct wi_tcp_stream *stream,
                             struct wi_tcp_claim *peer, int *moved)
{
    unsigned char out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t consumed = 0, out_bytes = 0, claim_bytes = sizeof claim;
    weft_status st =
        h->host->auth_step(h->auth, h->in, h->have, &consumed, out, sizeof out, &out_bytes, claim, &claim_bytes);
    if (st < 0 || consumed > h->have || out_bytes > sizeof out)
        return st < 0 ? st : WEFT_EINTERNAL;
    h->have -= consumed;
    memmove(h->in, h->in + consumed, h->have);
    if (out_bytes && wi_tcp_io_say(fd, stream, out, out_bytes))
        return WEFT_EPEER;
    *moved = consumed || out_bytes;
    h->replied |= out_bytes > 0;
    if (st == WEFT_SUCCESS &&
        (wi_tcp_claim_decode(claim, claim_bytes, peer) || memcmp(peer->binding, h->binding, sizeof h->binding) != 0))
        return WEFT_EAUTH;
    return st;
}

weft_status wi_tcp_handshake_step(struct wi_tcp_handshake *h, int fd, struct wi_tcp_stream *stream,
                                  struct wi_tcp_claim *peer)
{
    for (;;) {
        int moved = 0;
        weft_status st = step_once(h, fd, stream, peer, &moved);
        if (st != WEFT_INPROGRESS)
            return st;
        if (moved)
            continue;
        size_t room = sizeof h->in - h->have;
        if (room > READ_MAX - h->total)
            room = READ_MAX - h->total;
        if (room == 0)
            return WEFT_EAUTH;
        ssize_t n = wi_tcp_io_recv(fd, stream, h->in + h->have, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? WEFT_INPROGRESS : WEFT_EPEER;
        h->ended = n == 0;
        if (n == 0)
            return WEFT_EPEER;
        h->have += (size_t)n;
        h->total += (size_t)n;
    }
}

weft_status wi_tcp_handshake_binding(const struct wi_tcp_handshake *h, unsigned char binding[WI_TCP_BINDING_BYTES])
{
    return h->host->auth_session(h->auth, "weft tcp shared connection", binding, WI_TCP_BINDING_BYTES);
}
