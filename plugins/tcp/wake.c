/* wake.c: waking a group from other threads: streams are read by whoever reads their connection.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A group with descriptors of its own is woken by its eventfd. Lean groups have none: all of an endpoint sleep on one eventfd,
 * which is readable as long as a group that may sleep has something to look at. So no wake-up is lost if one sleeper looks before
 * another has begun to; the others wake for nothing now and then.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void add(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is readable already */
}

static void drain(int fd)
{
    uint64_t times;
    if (read(fd, &times, sizeof times) < 0)
        return; /* there was nothing */
}

static void wake(struct wi_tcp_group *g)
{
    struct wi_tcp_endpoint *e = g->endpoint;
    if (!g->lean) {
        add(g->event);
        return;
    }
    pthread_mutex_lock(&e->wake_lock);
    if (!g->woken) {
        g->woken = 1;
        if (e->nwoken++ == 0)
            add(e->wake);
    }
    pthread_mutex_unlock(&e->wake_lock);
}

/* Either this sees that it is armed, or it sees that it is stirred: the order of the two on both sides is what matters. */
void wi_tcp_group_stir(struct wi_tcp_group *g)
{
    atomic_store_explicit(&g->stirred, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&g->armed, memory_order_seq_cst))
        wake(g);
}

int wi_tcp_wake_open(struct wi_tcp_endpoint *e)
{
    pthread_mutex_lock(&e->wake_lock);
    if (e->wake < 0)
        e->wake = wi_tcp_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    int made = e->wake >= 0;
    pthread_mutex_unlock(&e->wake_lock);
    return made ? 0 : -1;
}

int wi_tcp_wake_arm(struct wi_tcp_group *g, uint64_t at)
{
    struct wi_tcp_endpoint *e = g->endpoint;
    atomic_store_explicit(&g->armed, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&g->stirred, memory_order_seq_cst))
        return 1;
    if (!g->lean || at == WI_TCP_NEVER)
        return 0; /* an alarm that is over wakes for nothing, once */
    pthread_mutex_lock(&e->lock);
    g->alarm_ns = at;
    wi_tcp_endpoint_arm(e);
    pthread_mutex_unlock(&e->lock);
    return 0;
}

void wi_tcp_wake_disarm(struct wi_tcp_group *g)
{
    struct wi_tcp_endpoint *e = g->endpoint;
    atomic_store_explicit(&g->armed, 0, memory_order_relaxed);
    if (!g->lean)
        return;
    pthread_mutex_lock(&e->wake_lock);
    if (g->woken && --e->nwoken == 0)
        drain(e->wake);
    g->woken = 0;
    pthread_mutex_unlock(&e->wake_lock);
}

uint64_t wi_tcp_wake_alarms(struct wi_tcp_endpoint *e, uint64_t now)
{
    uint64_t next = WI_TCP_NEVER;
    for (struct wi_tcp_group *g = e->groups; g; g = g->next) {
        if (g->alarm_ns <= now) {
            g->alarm_ns = WI_TCP_NEVER;
            wi_tcp_group_stir(g);
        }
        next = g->alarm_ns < next ? g->alarm_ns : next;
    }
    return next;
}
