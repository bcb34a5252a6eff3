/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of a context: its listener and its thread. */
#include "net/side.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/side_conn.h"

#define STRANGERS_MAX 64
#define CLAIM_MAGIC 0x65646973u /* "side": no other handshake of this key has it there */
#define CLAIM_BYTES 44

/* ---- Claims ---- */

size_t wi_side_claim(const struct wi_side_group *g, int from, int to, unsigned char claim[WEFT_AUTH_CLAIM_MAX])
{
    memset(claim, 0, WEFT_AUTH_CLAIM_MAX);
    memcpy(claim, g->config.comm_id, 16);
    wi_put32(claim + 16, CLAIM_MAGIC);
    wi_put32(claim + 20, (uint32_t)from);
    wi_put32(claim + 24, (uint32_t)to);
    memcpy(claim + 28, g->transport, sizeof g->transport);
    return CLAIM_BYTES;
}

struct wi_side_group *wi_side_group_of(struct wi_side *side, const void *claim, size_t bytes, int *from)
{
    const unsigned char *c = claim;

    if (bytes != CLAIM_BYTES || wi_get32(c + 16) != CLAIM_MAGIC)
        return NULL;
    *from = (int)wi_get32(c + 20);
    for (struct wi_side_group *g = side->groups; g; g = g->next)
        if (memcmp(g->config.comm_id, c, 16) == 0 && memcmp(g->transport, c + 28, sizeof g->transport) == 0 &&
            g->config.rank == (int)wi_get32(c + 24) && *from >= 0 && *from < g->config.nranks &&
            *from != g->config.rank)
            return g;
    return NULL;
}

/* ---- The thread ---- */

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

void wi_side_add(struct wi_side *side, struct wi_side_conn *c)
{
    struct wi_side_conn **at = &side->conns;

    while (*at)
        at = &(*at)->next;
    *at = c;
}

/* Room for one more that has not proven the key. */
static int make_room(struct wi_side *side, const struct wi_half_open *newcomer)
{
    struct wi_half_open_table table = {
        .source = newcomer->source, .capacity = STRANGERS_MAX, .now_ns = newcomer->since_ns};
    void *gives_way;
    int full;

    for (struct wi_side_conn *c = side->conns; c; c = c->next)
        if (!c->asks && !c->dead && c->state == WI_SIDE_PROVING)
            wi_half_open_look(&table, &c->half_open, c);
    full = wi_half_open_decide(&table, &gives_way);
    if (gives_way)
        ((struct wi_side_conn *)gives_way)->dead = 1;
    return !full;
}

static void accept_some(struct wi_side *side)
{
    for (int i = 0; i < wi_half_open_burst(STRANGERS_MAX); i++) {
        struct wi_side_conn *c;
        int fd = wi_socket_accept(side->listen_fd);
        if (fd < 0)
            return;
        c = wi_side_conn_accept(side, fd);
        if (!c || !make_room(side, &c->half_open)) {
            if (c)
                wi_side_conn_free(c);
            else
                wi_socket_close(fd);
            continue;
        }
        wi_side_add(side, c);
    }
}

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

/* What to poll: the listener, the wake-up, connections in the order of the list. *until: the first deadline. */
static size_t list_fds(struct wi_side *side, uint64_t *until)
{
    size_t n = 2;

    *until = UINT64_MAX;
    for (struct wi_side_conn *c = side->conns; c; c = c->next) {
        c->slot = 0;
        if (c->fd < 0 || !fds_room(side, n + 1)) /* without room it waits */
            continue;
        c->slot = n;
        side->fds[n++] = (struct pollfd){.fd = c->fd, .events = wi_side_conn_events(c)};
        *until = c->deadline_ns < *until ? c->deadline_ns : *until;
    }
    side->fds[0] = (struct pollfd){.fd = side->wake_fd, .events = POLLIN};
    side->fds[1] = (struct pollfd){.fd = side->listen_fd, .events = POLLIN};
    return n;
}

/* Those that came while nobody held the lock have no slot yet. */
static void serve(struct wi_side *side)
{
    uint64_t now = wi_now_ns();

    for (struct wi_side_conn *c = side->conns; c; c = c->next) {
        short revents = c->slot ? side->fds[c->slot].revents : 0;
        c->slot = 0;
        if (c->fd >= 0 && !c->dead && revents)
            wi_side_conn_ready(c, revents);
        if (c->fd >= 0 && !c->dead && now >= c->deadline_ns)
            wi_side_conn_late(c);
    }
    if (side->fds[1].revents)
        accept_some(side);
}

static void *run(void *arg)
{
    struct wi_side *side = arg;
    uint64_t until, times;

    pthread_mutex_lock(&side->lock);
    while (!side->stop) {
        size_t n = list_fds(side, &until);
        pthread_mutex_unlock(&side->lock);
        if (poll(side->fds, (nfds_t)n, wi_poll_ms(until)) < 0)
            for (size_t i = 0; i < n; i++)
                side->fds[i].revents = 0;
        if (side->fds[0].revents)
            (void)!read(side->wake_fd, &times, sizeof times);
        pthread_mutex_lock(&side->lock);
        serve(side);
        forget_dead(side);
    }
    pthread_mutex_unlock(&side->lock);
    return NULL;
}

/* ---- Of a context ---- */

static weft_status open_listener(struct wi_side *side)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    side->wake_fd = wi_socket_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (side->wake_fd < 0)
        return wi_fail_errno(errno, "a descriptor of the side channel");
    if (wi_interface_address(NULL, &side->at) < 0) { /* all ranks are on this host, then */
        wi_fail_clear();
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
    sigset_t all, before;
    int err;

    if (!fds_room(side, 16))
        return wi_fail(WEFT_ENOMEM, "the side channel");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&side->thread, NULL, run, side);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
    if (side->listen_fd >= 0)
        wi_rendezvous_close(side->listen_fd);
    if (side->wake_fd >= 0)
        wi_socket_close(side->wake_fd);
    pthread_mutex_destroy(&side->lock);
    wi_free(side->fds);
    wi_free(side);
}

size_t wi_side_address(const struct wi_side *side, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    if (side->at.bytes > WI_SIDE_ADDRESS_MAX)
        return 0;
    memcpy(address, &side->at.ss, side->at.bytes);
    return side->at.bytes;
}
