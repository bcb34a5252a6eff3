/* reserve.c: descriptors that are kept back, so that who runs out is told when a communicator is made and not in the middle of an
 * operation.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A group keeps one for each socket to its first two peers, which is what most algorithms use, and gives one up for each socket
 * that it gets. The endpoint keeps one more, to accept with: two ranks without any other that connect to each other at the
 * same time would else wait for one another.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/* Another name of something that is open: nothing else is taken. */
static int spare_of(int fd)
{
    return wi_tcp_fd_keep(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

unsigned long long wi_tcp_descriptor_limit(void)
{
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return (unsigned long long)limit.rlim_cur;
}

/* The kernel gives the lowest number that is free, so so many are in use. */
int wi_tcp_descriptors_are_scarce(int fd)
{
    return fd < 0 || (unsigned long long)fd >= wi_tcp_descriptor_limit() / 4;
}

weft_status wi_tcp_explain_descriptors(const struct wi_tcp_group *g, int err)
{
    const struct weft_host *h = g->endpoint->host;
    weft_status st = err == EMFILE || err == ENFILE ? WEFT_ENOFILES : WEFT_ESYS;
    struct rlimit limit = {0, 0};
    if (err != EMFILE) {
        h->explain(h->impl, st, "tcp cannot make a communicator's descriptors: %s", strerror(err));
        return st;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    h->explain(
        h->impl, st,
        "tcp has no descriptors left for another communicator: each takes 3, those of the sockets to two peers, and one for "
        "each other socket; this process may have %llu; raise that (ulimit -n, at most %llu here; LimitNOFILE= of a service)",
        (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    return st;
}

weft_status wi_tcp_reserve_init(struct wi_tcp_group *g)
{
    int peers = -1, sockets = g->endpoint->settings->sockets > 1 ? (int)g->endpoint->settings->sockets : 1, want;
    for (int r = 0; r < g->nranks; r++)
        peers += g->member[r] != 0;
    want = g->lean ? 0 : (peers < WI_TCP_RESERVE_PEERS ? peers : WI_TCP_RESERVE_PEERS) * sockets;
    while (g->nreserve < want) {
        int fd = spare_of(g->epoll);
        if (fd < 0)
            return wi_tcp_explain_descriptors(g, errno);
        g->reserve[g->nreserve++] = fd;
    }
    pthread_mutex_lock(&g->endpoint->lock);
    wi_tcp_spare_fill(g->endpoint);
    int err = g->endpoint->spare < 0 ? errno : 0;
    pthread_mutex_unlock(&g->endpoint->lock);
    return err ? wi_tcp_explain_descriptors(g, err) : WEFT_SUCCESS;
}

int wi_tcp_reserve_use(struct wi_tcp_group *g)
{
    if (g->nreserve == 0)
        return 0;
    wi_tcp_fd_close(g->reserve[--g->nreserve]);
    return 1;
}

/* The endpoint needs one to accept with. */
static int became_spare(struct wi_tcp_endpoint *e, int fd)
{
    pthread_mutex_lock(&e->lock);
    int needed = e->spare < 0;
    if (needed)
        e->spare = fd;
    pthread_mutex_unlock(&e->lock);
    return needed;
}

/* To accept with, first: the peer that this rank dials no more connects from the other side. */
int wi_tcp_reserve_return(struct wi_tcp_group *g, int fd)
{
    if (g->nreserve == (int)(sizeof g->reserve / sizeof g->reserve[0]))
        return 0;
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, fd, NULL); /* a child that has not come to its exec may have it, too */
    if (dup3(g->epoll, fd, O_CLOEXEC) != fd)
        return 0;
    if (!became_spare(g->endpoint, fd))
        g->reserve[g->nreserve++] = fd;
    return 1;
}

int wi_tcp_spare_use(struct wi_tcp_endpoint *e)
{
    if (e->spare < 0)
        return 0;
    wi_tcp_fd_close(e->spare);
    e->spare = -1;
    return 1;
}

void wi_tcp_spare_fill(struct wi_tcp_endpoint *e)
{
    if (e->spare < 0)
        e->spare = spare_of(e->epoll);
}
