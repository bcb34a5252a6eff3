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
#define ROUNDS 64 /* of progress, before others may have the lock */
#define QUIET_NS 1000000000ull

struct look {
    unsigned seen; /* calls of others, at the last look */
    uint64_t quiet_since;
    int armed, park;
};

static void make_progress(struct wu_endpoint *e, struct look *look)
{
    int events, rounds = 0, left;

    do {
        events = wu_progress_worker(e);
        if (events)
            look->quiet_since = e->host->now_ns();
    } while (events && ++rounds < ROUNDS);
    wu_links_look(e, e->host->now_ns());
    left = wu_links_flush(e);
    if (left)
        look->quiet_since = e->host->now_ns();
    look->armed = wu_ucx.ucp_worker_arm(e->worker) != UCS_ERR_BUSY;
    look->park = look->armed && !left && e->host->now_ns() - look->quiet_since > QUIET_NS;
}

/* Returns 0: the thread is to end. */
static int look_after(struct wu_endpoint *e, struct look *look)
{
    int go_on;

    wu_enter(e, NULL);
    look->armed = look->park = 0;
    if (e->progressed == look->seen)
        make_progress(e, look);
    else
        look->quiet_since = e->host->now_ns();
    look->seen = e->progressed;
    e->parked = look->park; /* who sends from now on wakes it */
    go_on = !e->stop;
    wu_leave(e);
    return go_on;
}

static void doze(struct wu_endpoint *e, const struct look *look)
{
    struct pollfd fds[2] = {{e->keeper_fd, POLLIN, 0}, {e->worker_fd, POLLIN, 0}};
    uint64_t count;

    if (poll(fds, look->armed ? 2 : 1, look->park ? -1 : TICK_MS) > 0 && (fds[0].revents & POLLIN) &&
        read(e->keeper_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
}

static void *run(void *arg)
{
    struct wu_endpoint *e = arg;
    struct look look = {.quiet_since = e->host->now_ns()};

    while (look_after(e, &look))
        doze(e, &look);
    return NULL;
}

void wu_keeper_wake(struct wu_endpoint *e)
{
    uint64_t one = 1;

    e->parked = 0;
    if (write(e->keeper_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

weft_status wu_keeper_start(struct wu_endpoint *e)
{
    sigset_t all, before;
    int err;

    e->keeper_fd = e->host->fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (e->keeper_fd < 0)
        return wu_explain_errno(e->host, "eventfd");
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

    wu_enter(e, NULL);
    e->stop = 1;
    wu_leave(e);
    if (write(e->keeper_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        return;
    pthread_join(e->keeper, NULL);
    e->host->fd_close(e->keeper_fd);
    e->keeping = 0;
}
