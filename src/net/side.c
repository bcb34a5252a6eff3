/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of a context: its listener and its thread. */
#include "net/side.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "base/thread.h"
#include "net/side_conn.h"

#define HALF_OPEN_SPARE 64

/* ---- Connections ---- */

void wi_side_wake(struct wi_side *side)
{
    uint64_t one = 1;

    (void)!write(side->wake_fd, &one, sizeof one);
}

static void forget_dead(struct wi_side *side)
{
    for (struct wi_side_conn **at = &side->conns, *c; (c = *at) != NULL;) {
        if (!c->dead) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        wi_side_conn_free(c);
    }
}

static void add(struct wi_side *side, struct wi_side_conn *c)
{
    struct wi_side_conn **at = &side->conns;

    while (*at)
        at = &(*at)->next;
    *at = c;
}

/* What transports have requested since. */
static void take_requests(struct wi_side *side)
{
    struct wi_side_exchange *x, *next;

    pthread_mutex_lock(&side->lock);
    x = side->requested;
    side->requested = NULL;
    pthread_mutex_unlock(&side->lock);
    for (; x; x = next) {
        struct wi_side_conn *c;
        next = x->next; /* x may be gone after the first attempt */
        c = wi_side_conn_request(side, x);
        if (c)
            add(side, c);
        else
            wi_side_end(side, x, WEFT_ENOMEM, "no memory for a connection", NULL, 0);
    }
}

/* What transports have done since with the exchanges of connections. */
static void look_at_exchanges(struct wi_side *side)
{
    pthread_mutex_lock(&side->lock);
    for (struct wi_side_conn *c = side->conns; c; c = c->next) {
        c->dropped = c->x && c->requests && !c->x->group;
        c->ended = c->x && !c->requests && c->x->state == WI_SIDE_ENDED;
    }
    pthread_mutex_unlock(&side->lock);
}

/* ---- The listener ---- */

/* Twice the ranks that may connect at once, for one source has half; and some for strangers. But no more than a quarter of the
 * process's descriptors, which are the program's. */
static int capacity_of(struct wi_side *side)
{
    size_t nranks, most = INT_MAX / 2, capacity;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 4 < most)
        most = files.rlim_cur / 4 > 2 ? files.rlim_cur / 4 : 2;

    pthread_mutex_lock(&side->lock);
    nranks = side->nranks;
    pthread_mutex_unlock(&side->lock);
    capacity = nranks < INT_MAX / 8 ? 2 * nranks + HALF_OPEN_SPARE : most;
    return (int)(capacity < most ? capacity : most);
}

/* Room for one more that has not proven the key, among `capacity` (-1: one fewer than there are). */
static int make_room(struct wi_side *side, const struct wi_half_open *newcomer, int capacity)
{
    struct wi_half_open_table table = {.source = newcomer->source, .now_ns = newcomer->since_ns};
    void *gives_way;
    int full;

    for (struct wi_side_conn *c = side->conns; c; c = c->next)
        if (wi_side_conn_is_half_open(c))
            wi_half_open_look(&table, &c->half_open, c);
    table.capacity = capacity < 0 ? table.held : capacity;
    full = wi_half_open_decide(&table, &gives_way);
    if (gives_way)
        ((struct wi_side_conn *)gives_way)->dead = 1;
    return !full;
}

/* A descriptor, or -1; without descriptors the listener is not looked at for a while. */
static int accept_one(struct wi_side *side)
{
    struct wi_half_open nobody = {.since_ns = wi_now_ns()};
    int fd = wi_socket_accept(side->listen_fd);

    if (wi_accept_result(&side->pause, fd < 0 ? errno : 0, "side.accept"))
        make_room(side, &nobody, -1); /* what has not shown the key gives its descriptor back */
    return fd;
}

static void accept_some(struct wi_side *side)
{
    int capacity = capacity_of(side);

    for (int i = 0; i < wi_half_open_burst(capacity); i++) {
        struct wi_side_conn *c;
        int fd = accept_one(side);
        if (fd < 0)
            return;
        c = wi_side_conn_accept(side, fd);
        if (!c)
            continue;
        if (!make_room(side, &c->half_open, capacity)) {
            wi_side_conn_free(c);
            continue;
        }
        add(side, c);
        wi_side_conn_ready(c, POLLIN); /* its hello has often come already */
    }
}

/* ---- The thread ---- */

static int fds_room(struct wi_side *side, size_t n)
{
    struct pollfd *more;

    if (n <= side->fds_capacity)
        return 1;
    more = wi_realloc(side->fds, 2 * n * sizeof *more);
    if (!more)
        return 0;
    side->fds = more;
    side->fds_capacity = 2 * n;
    return 1;
}

/* What to poll: the wake-up, the listener, connections in the order of the list. *until: when something is due. */
static size_t list_fds(struct wi_side *side, uint64_t *until)
{
    size_t n = 2;

    *until = side->pause.again_ns ? side->pause.again_ns : UINT64_MAX;
    for (struct wi_side_conn *c = side->conns; c; c = c->next) {
        uint64_t due = wi_side_conn_due(c);
        *until = due < *until ? due : *until;
        c->slot = 0;
        if (c->fd < 0 || !fds_room(side, n + 1)) /* without room it waits */
            continue;
        c->slot = n;
        side->fds[n++] = (struct pollfd){.fd = c->fd, .events = wi_side_conn_events(c)};
    }
    side->fds[0] = (struct pollfd){.fd = side->wake_fd, .events = POLLIN};
    side->fds[1] = (struct pollfd){.fd = side->pause.again_ns ? -1 : side->listen_fd, .events = POLLIN};
    return n;
}

static void serve(struct wi_side *side)
{
    uint64_t now = wi_now_ns();

    for (struct wi_side_conn *c = side->conns; c; c = c->next) {
        if (c->slot && !c->dead && side->fds[c->slot].revents)
            wi_side_conn_ready(c, side->fds[c->slot].revents);
        wi_side_conn_tick(c, now);
    }
    if (side->fds[1].revents || wi_accept_resumes(&side->pause))
        accept_some(side);
}

static int stopped(struct wi_side *side)
{
    int stop;

    pthread_mutex_lock(&side->lock);
    stop = side->stop;
    pthread_mutex_unlock(&side->lock);
    return stop;
}

/* Before it ends, the thread looks once more at what transports did, so that their responses and their leaving are sent. */
static void *run(void *arg)
{
    struct wi_side *side = arg;
    uint64_t until, times;
    int stop;

    do {
        stop = stopped(side);
        take_requests(side);
        size_t n = list_fds(side, &until);
        if (poll(side->fds, (nfds_t)n, stop ? 0 : wi_poll_ms(until)) < 0)
            for (size_t i = 0; i < n; i++)
                side->fds[i].revents = 0;
        if (side->fds[0].revents)
            (void)!read(side->wake_fd, &times, sizeof times);
        look_at_exchanges(side);
        serve(side);
        forget_dead(side);
    } while (!stop);
    return NULL;
}

/* ---- Of a context ---- */

static weft_status open_listener(struct wi_side *side)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    side->wake_fd = wi_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (side->wake_fd < 0)
        return wi_fail_errno(errno, "a descriptor of the side channel");
    if (wi_interface_address(side->config.interfaces, &side->at) < 0) {
        if (side->config.interfaces)
            return WEFT_ECONFIG;
        wi_fail_clear(); /* all ranks are on this host, then */
        memset(&side->at, 0, sizeof side->at);
        memcpy(&side->at.ss, &loopback, sizeof loopback);
        side->at.bytes = sizeof loopback;
    }
    side->listen_fd = wi_socket_listen(&side->at, "side channel of transports");
    side->at.bytes = sizeof side->at.ss;
    if (side->listen_fd < 0 || getsockname(side->listen_fd, (struct sockaddr *)&side->at.ss, &side->at.bytes))
        return wi_fail_errno(errno, "listen for the side channel of transports");
    return WEFT_SUCCESS;
}

static weft_status start(struct wi_side *side)
{
    int err;

    if (!fds_room(side, 16))
        return wi_fail(WEFT_ENOMEM, "the side channel");
    err = wi_thread_start(&side->thread, NULL, run, side);
    if (err)
        return wi_fail_errno(err, "start the thread of the side channel");
    side->running = 1;
    return WEFT_SUCCESS;
}

weft_status wi_side_create(const struct wi_side_config *config, struct wi_side **out)
{
    struct wi_side *side = wi_calloc(1, sizeof *side);
    weft_status st;

    if (!side)
        return wi_fail(WEFT_ENOMEM, "the side channel");
    side->config = *config;
    side->listen_fd = side->wake_fd = -1;
    pthread_mutex_init(&side->lock, NULL);
    st = open_listener(side);
    if (st >= 0)
        st = start(side);
    if (st < 0) {
        wi_side_destroy(side);
        return st;
    }
    *out = side;
    return WEFT_SUCCESS;
}

void wi_side_destroy(struct wi_side *side)
{
    if (!side)
        return;
    if (side->running) {
        pthread_mutex_lock(&side->lock);
        side->stop = 1;
        pthread_mutex_unlock(&side->lock);
        wi_side_wake(side);
        pthread_join(side->thread, NULL);
    }
    for (struct wi_side_conn *c = side->conns; c; c = c->next)
        c->dead = 1;
    forget_dead(side);
    for (struct wi_side_exchange *x = side->requested, *next; x; x = next) {
        next = x->next;
        wi_free(x);
    }
    if (side->listen_fd >= 0)
        wi_rendezvous_close(side->listen_fd);
    if (side->wake_fd >= 0)
        wi_fd_close(side->wake_fd);
    pthread_mutex_destroy(&side->lock);
    wi_free(side->fds);
    wi_free(side);
}
