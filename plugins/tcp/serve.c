/* serve.c: the endpoint's thread. It answers whoever connects while no group makes progress, and closes what lingers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <signal.h>
#include <string.h>

#define EVENTS_MAX 64
#define STACK_BYTES (256u << 10)

/* Without the endpoint's lock, for that may take a while; this thread alone frees them. */
static void read_shared(const struct epoll_event *ev, int n)
{
    for (int i = 0; i < n; i++)
        if (ev[i].data.u64 & WI_TCP_TAG_MUX)
            wi_tcp_mux_event((struct wi_tcp_mux *)(uintptr_t)(ev[i].data.u64 & ~(uint64_t)WI_TCP_TAG_MUX),
                             ev[i].events);
}

/* Arrivals that events point to are freed by this thread only. */
static void *serve(void *arg)
{
    struct wi_tcp_endpoint *e = arg;
    struct epoll_event ev[EVENTS_MAX];
    int stop = 0;
    while (!stop) {
        int n = epoll_wait(e->epoll, ev, EVENTS_MAX, -1);
        read_shared(ev, n);
        pthread_mutex_lock(&e->lock);
        wi_tcp_endpoint_events(e, ev, n);
        wi_tcp_endpoint_arm(e);
        stop = e->stop;
        pthread_mutex_unlock(&e->lock);
    }
    return NULL;
}

/* Signals are the program's: none is handled here. */
weft_status wi_tcp_serve_start(struct wi_tcp_endpoint *e)
{
    const struct weft_host *h = e->host;
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_mutex_lock(&e->lock);
    int err = 0, start = !e->serving;
    if (start) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        err = pthread_create(&e->thread, &attr, serve, e);
        pthread_attr_destroy(&attr);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        e->serving = !err;
    }
    pthread_mutex_unlock(&e->lock);
    if (!err) {
        if (start)
            pthread_setname_np(e->thread, "weft-tcp");
        return WEFT_SUCCESS;
    }
    h->explain(h->impl, WEFT_ESYS, "tcp cannot start the thread that accepts connections: %s", strerror(err));
    return WEFT_ESYS;
}

void wi_tcp_serve_stop(struct wi_tcp_endpoint *e)
{
    pthread_mutex_lock(&e->lock);
    int serving = e->serving;
    e->stop = 1;
    e->serving = 0;
    wi_tcp_endpoint_arm(e);
    pthread_mutex_unlock(&e->lock);
    if (serving)
        pthread_join(e->thread, NULL);
}
