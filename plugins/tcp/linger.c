/* linger.c: closing without losing what was written. A close with unread bytes makes the kernel drop its send queue, so
 * sockets are shut down for writing, drained, and closed once the peer's kernel has acknowledged everything.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINGER_NS 2000000000ull
#define PAUSE_NS 500000ull /* doubled each time */
#define PAUSE_MAX_NS 32000000ull

/* Returns 1 when the socket may be closed. */
static int drained(int fd)
{
    char waste[16384];
    for (int i = 0; i < 16; i++) {
        ssize_t n = recv(fd, waste, sizeof waste, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return 1;
        if (n < 0)
            break;
    }
    int unsent = 0;
    return ioctl(fd, SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

void wi_tcp_linger_add(struct wi_tcp_endpoint *e, int fd)
{
    shutdown(fd, SHUT_WR);
    struct wi_tcp_linger *l = drained(fd) ? NULL : malloc(sizeof *l);
    if (!l) {
        wi_tcp_fd_close(fd);
        return;
    }
    l->fd = fd;
    l->deadline_ns = e->host->now_ns() + LINGER_NS;
    l->next = e->lingering;
    e->lingering = l;
    e->linger_pause_ns = PAUSE_NS;
}

/* Acknowledgements make no event that epoll would see: look now and then. */
void wi_tcp_linger_serve(struct wi_tcp_endpoint *e, uint64_t now)
{
    if (e->linger_pause_ns < PAUSE_MAX_NS)
        e->linger_pause_ns *= 2;
    for (struct wi_tcp_linger **at = &e->lingering; *at;) {
        struct wi_tcp_linger *l = *at;
        if (now < l->deadline_ns && !drained(l->fd)) {
            at = &l->next;
            continue;
        }
        wi_tcp_fd_close(l->fd);
        *at = l->next;
        free(l);
    }
}

void wi_tcp_linger_finish(struct wi_tcp_endpoint *e, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = e->host->now_ns();
        if (now > deadline_ns)
            now = UINT64_MAX;
        wi_tcp_linger_serve(e, now);
        if (!e->lingering)
            return;
        poll(NULL, 0, 1);
    }
}
