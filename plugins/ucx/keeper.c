/* keeper.c: the thread that sees through what is under way while no other one calls.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A send is done, for its owner, when its buffer may be used again; UCX may still hold a copy, or wait for the receiver to begin a
 * rendezvous. If the owner then computes, or has destroyed its communicator, somebody has to go on. The keeper looks every TICK: if
 * another thread has made progress since, it does nothing; else it makes progress itself, until everything has left and nothing has
 * happened for QUIET. Then it sleeps at UCX's descriptor.
 */
#include "ucx.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS 10
#define QUIET_NS 1000000000ull

/* Returns 1 if something is left to see through. */
static int keep(struct wu_endpoint *e, int *events)
{
    int n, left, rounds = 0;

    wu_enter(e, NULL);
    do {
        n = wu_progress_worker(e);
        *events += n;
    } while (n && ++rounds < 64);
    left = wu_links_flush(e);
    wu_links_look(e, e->host->now_ns());
    wu_leave(e);
    return left || n;
}

/* Arm UCX's descriptor; 0: something has happened already. */
static int arm(struct wu_endpoint *e)
{
    int armed;

    wu_enter(e, NULL);
    armed = wu_ucx.ucp_worker_arm(e->worker) != UCS_ERR_BUSY;
    wu_leave(e);
    return armed;
}

static void doze(struct wu_endpoint *e, int with_worker, int timeout_ms)
{
    struct pollfd fds[2] = {{e->keeper_fd, POLLIN, 0}, {e->worker_fd, POLLIN, 0}};
    uint64_t count;

    if (poll(fds, with_worker ? 2 : 1, timeout_ms) > 0 && (fds[0].revents & POLLIN) &&
        read(e->keeper_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
}

static int stopped(struct wu_endpoint *e)
{
    pthread_mutex_lock(&e->lock);
    int stop = e->stop;
    pthread_mutex_unlock(&e->lock);
    return stop;
}

static void *run(void *arg)
{
    struct wu_endpoint *e = arg;
    unsigned seen = atomic_load(&e->progressed);
    uint64_t quiet_since = e->host->now_ns();

    while (!stopped(e)) {
        unsigned now = atomic_load(&e->progressed);
        int events = 0, left = 1, armed = 0;
        if (now == seen) { /* nobody else has looked */
            left = keep(e, &events);
            armed = arm(e);
        }
        seen = now;
        if (left || events)
            quiet_since = e->host->now_ns();
        if (!left && armed && e->host->now_ns() - quiet_since > QUIET_NS) {
            atomic_store(&e->parked, 1);
            /* What was sent before `parked` could be seen has been counted, or is seen through in the next round. */
            if (atomic_load(&e->progressed) == now)
                doze(e, 1, -1);
            atomic_store(&e->parked, 0);
            quiet_since = e->host->now_ns();
        } else {
            doze(e, armed, TICK_MS);
        }
    }
    return NULL;
}

void wu_keeper_wake(struct wu_endpoint *e)
{
    uint64_t one = 1;

    if (atomic_load_explicit(&e->parked, memory_order_relaxed) && atomic_exchange(&e->parked, 0) &&
        write(e->keeper_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

weft_status wu_keeper_start(struct wu_endpoint *e)
{
    sigset_t all, before;
    int err;

    e->keeper_fd = e->host->fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (e->keeper_fd < 0) {
        weft_status st = errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_ESYS;
        e->host->explain(e->host->impl, st, "ucx: eventfd: %s", strerror(errno));
        return st;
    }
    /* Handlers are for the program's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&e->keeper, NULL, run, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        e->host->explain(e->host->impl, WEFT_ESYS, "ucx: a thread: %s", strerror(err));
        e->host->fd_close(e->keeper_fd);
        return WEFT_ESYS;
    }
    e->keeping = 1;
    return WEFT_SUCCESS;
}

void wu_keeper_stop(struct wu_endpoint *e)
{
    uint64_t one = 1;

    pthread_mutex_lock(&e->lock);
    e->stop = 1;
    pthread_mutex_unlock(&e->lock);
    if (write(e->keeper_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        return;
    pthread_join(e->keeper, NULL);
    e->host->fd_close(e->keeper_fd);
    e->keeping = 0;
}
