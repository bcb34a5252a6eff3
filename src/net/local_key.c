/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a job on one host, given over a local socket. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "base/trusted_path.h"
#include "net/local_key.h"
#include "net/rendezvous.h"

static const unsigned char magic[WI_LOCAL_KEY_ASK_BYTES] = {'W', 'F', 'T', 'K', 1};

int wi_local_peer_is_self(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    *uid = (uid_t)-1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) || bytes != sizeof(peer))
        return 0;
    *uid = peer.uid;
    if (peer.uid != geteuid())
        return 0;
    return peer.uid != WI_OVERFLOW_UID || wi_users_are_mapped();
}

int wi_local_key_asked(const unsigned char bytes[WI_LOCAL_KEY_ASK_BYTES])
{
    return !memcmp(bytes, magic, sizeof(magic));
}

int wi_local_key_give(int fd, const unsigned char key[WI_JOB_KEY_BYTES])
{
    unsigned char answer[sizeof(magic) + WI_JOB_KEY_BYTES];
    memcpy(answer, magic, sizeof(magic));
    memcpy(answer + sizeof(magic), key, WI_JOB_KEY_BYTES);
    /* The first bytes on this socket: there is room for them, or it is no rank of ours. */
    ssize_t sent = send(fd, answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    explicit_bzero(answer, sizeof(answer));
    return sent == (ssize_t)sizeof(answer) ? 0 : -1;
}

#define ANSWER_BYTES (sizeof(magic) + WI_JOB_KEY_BYTES)

static weft_status answer_read(int fd, unsigned char answer[ANSWER_BYTES], uint64_t deadline_ns)
{
    for (size_t held = 0; held < ANSWER_BYTES;) {
        ssize_t n = recv(fd, answer + held, ANSWER_BYTES - held, MSG_DONTWAIT);
        if (n == 0) /* it has read what it was asked */
            return wi_fail(WEFT_EAUTH, "gives no key: rank 0 was given a job key and this rank was not");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return wi_fail(WEFT_EPEER, "closed the connection: it ended, gave up, or has no memory");
        held += n > 0 ? (size_t)n : 0;
        if (n < 0 && !wi_socket_poll(fd, POLLIN, deadline_ns))
            return wi_fail(WEFT_ETIMEDOUT, "does not answer");
    }
    return memcmp(answer, magic, sizeof(magic)) ? wi_fail(WEFT_EAUTH, "is none of weft's") : WEFT_SUCCESS;
}

weft_status wi_local_key_ask(int fd, unsigned char key[WI_JOB_KEY_BYTES], uint64_t deadline_ns)
{
    unsigned char answer[ANSWER_BYTES];
    uid_t uid;
    if (!wi_local_peer_is_self(fd, &uid))
        return wi_fail(WEFT_EAUTH, "another user (uid %lld) listens there", uid == (uid_t)-1 ? -1ll : (long long)uid);
    if (send(fd, magic, sizeof(magic), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(magic))
        return wi_fail(WEFT_EPEER, "closed the connection: it ended, gave up, or has no memory");
    weft_status st = answer_read(fd, answer, deadline_ns);
    if (st == WEFT_SUCCESS)
        memcpy(key, answer + sizeof(magic), WI_JOB_KEY_BYTES);
    explicit_bzero(answer, sizeof(answer));
    return st;
}
