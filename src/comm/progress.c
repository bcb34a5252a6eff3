/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread of a context.
 *
 * It starts with the first operation that nobody waits for, sleeps while there is none, and leaves a communicator alone
 * whose owner is inside a weft call. It progresses one communicator at a time, under the lock of that one alone and with a budget
 * (wi_exec_progress_budgeted), so that none waits long for another's work. It begins with a short pause: most operations are waited
 * for at once. Where that is so again and again, it sleeps with an exponential backoff instead of waiting to be woken by the next
 * operation: a wake-up costs the issuer a system call, and a core that the ranks may need.
 *
 * Communicators have their turns by priority. Before one has its turn, those with larger priorities have turns as long as any of
 * them moves, but WI_URGENT_TURNS each at most, so that it goes on at least that often. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"
#include "comm/comm.h"

#define MAX_POLLED 32
#define FIRST_PAUSE_NS 20000
#define SLEEP_MIN_NS 20000ull
#define SLEEP_MAX_NS 2000000ull
#define SLEEP_WATCHED_NS 160000ull /* while a callback or a future depends on this thread */
#define CALLBACK_PAUSE_NS 20000    /* after a callback was queued */
#define MAX_BACKOFF 5              /* doublings of SLEEP_MIN_NS while no operation is left to this thread */

enum { AWAKE, UNTIL_KICKED, UNTIL_WANTED }; /* ctx->progress.asleep */

struct round {
    int moved, pending;
    int mine;    /* an operation is pending whose owner is elsewhere */
    int posted;  /* an engine is at work, and wakes this thread when it is done */
    int blind;   /* something that cannot wake this thread is pending */
    int watched; /* a callback or a future waits for an operation's end */
    struct pollfd fds[MAX_POLLED];
    nfds_t nfds;
};

static void collect_fds(struct round *rd, struct weft_comm *comm)
{
    struct wi_mesh *mesh = comm->mesh;

    for (int i = 0; i < mesh->ngroups; i++) {
        struct wi_mesh_group *g = &mesh->groups[i];
        int fd = g->transport->ops.poll_fd(g->group);
        if (fd < 0 || rd->nfds == MAX_POLLED || g->transport->ops.poll_arm(g->group))
            rd->blind = 1;
        else
            rd->fds[rd->nfds++] = (struct pollfd){fd, POLLIN, 0};
    }
}

/* Of a communicator that is held: did anything move? */
static int turn(struct weft_comm *comm)
{
    struct wi_op *op;
    int moved = 0;

    if (!comm->exec->nops)
        return 0;
    wi_exec_progress_budgeted(comm->exec, NULL, &moved);
    op = moved ? NULL : wi_exec_oldest(comm->exec);
    if (op)
        wi_exec_check(comm->exec, op);
    if (comm->exec->broken) {
        wi_exec_progress(comm->exec, NULL, NULL); /* ends what was in flight */
        wi_comm_failed(comm);
    }
    return moved;
}

/* A communicator without operations is not entered, for its owner may be about to. Before this thread sleeps (`to_sleep`) it is: an
 * operation that is issued meanwhile is found by one of the two sides. */
static void look_at(struct round *rd, struct weft_comm *comm, int to_sleep)
{
    int moved;

    if (!to_sleep && wi_exec_is_idle(comm->exec))
        return;
    if (atomic_load_explicit(&comm->waiters, memory_order_relaxed)) {
        rd->blind |= 1; /* its waiter may leave: look again */
        rd->pending |= 1;
        return;
    }
    if (!wi_comm_try_progress(comm)) { /* its issuer's kick may have come before this look: look again */
        rd->blind = rd->pending = 1;
        return;
    }
    moved = turn(comm);
    rd->moved |= moved;
    if (comm->exec->nops) {
        rd->pending = rd->mine = 1;
        rd->posted |= comm->exec->posted != NULL;
        rd->watched |= atomic_load_explicit(&comm->watched, memory_order_relaxed) != 0;
        if (!moved)
            collect_fds(rd, comm);
    }
    wi_comm_leave(comm);
}

/* The communicator that comes next in the list, which is not freed before the next call or the end: wi_context_unlink. */
static struct weft_comm *next_comm(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;

    pthread_mutex_lock(&ctx->comms_lock);
    p->at = p->next;
    p->next = p->at ? p->at->next : NULL;
    pthread_mutex_unlock(&ctx->comms_lock);
    return p->at;
}

/* Likewise of those with a priority above `below`; comm NULL: the first one. */
static struct weft_comm *next_urgent(struct weft_context *ctx, struct weft_comm *comm, int below)
{
    struct wi_progress *p = &ctx->progress;

    pthread_mutex_lock(&ctx->comms_lock);
    p->urgent = comm ? p->next_urgent : ctx->comms;
    if (p->urgent && p->urgent->priority <= below)
        p->urgent = NULL;
    p->next_urgent = p->urgent ? p->urgent->next : NULL;
    pthread_mutex_unlock(&ctx->comms_lock);
    return p->urgent;
}

/* A turn between those of others, which says nothing about sleeping: each is looked at for itself, too. */
static int urgent_turn(struct weft_comm *comm)
{
    int moved;

    if (wi_exec_is_idle(comm->exec))
        return 0;
    if (atomic_load_explicit(&comm->waiters, memory_order_relaxed)) {
        sched_yield(); /* its waiter may need this core */
        return 0;
    }
    if (!wi_comm_try_progress(comm))
        return 0;
    moved = turn(comm);
    wi_comm_leave(comm);
    return moved;
}

static void urgent_turns(struct weft_context *ctx, struct round *rd, int below)
{
    int moved = 1;

    for (int i = 0; moved && i < WI_URGENT_TURNS; i++) {
        moved = 0;
        for (struct weft_comm *comm = NULL; (comm = next_urgent(ctx, comm, below)) != NULL;)
            moved |= urgent_turn(comm);
        rd->moved |= moved;
    }
}

static void look_around(struct weft_context *ctx, struct round *rd, int to_sleep)
{
    struct weft_comm *comm;

    *rd = (struct round){.nfds = 1};
    rd->fds[0] = (struct pollfd){ctx->progress.event_fd, POLLIN, 0};
    pthread_mutex_lock(&ctx->comms_lock);
    ctx->progress.next = ctx->comms;
    pthread_mutex_unlock(&ctx->comms_lock);
    while ((comm = next_comm(ctx)) != NULL) {
        urgent_turns(ctx, rd, comm->priority);
        look_at(rd, comm, to_sleep);
    }
}

static void sleep_until(struct round *rd, uint64_t ns, int fd)
{
    struct timespec ts = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    uint64_t kicks;

    if (ppoll(rd->fds, rd->nfds, ns == UINT64_MAX ? NULL : &ts, NULL) > 0 && rd->fds[0].revents)
        (void)!read(fd, &kicks, sizeof kicks);
}

/* Announce first, poll again, then sleep: a kick in between is seen by one of the two sides. */
static void sleep_till_kicked(struct weft_context *ctx, struct round *rd)
{
    struct wi_progress *p = &ctx->progress;
    struct timespec first = {0, FIRST_PAUSE_NS};

    atomic_store_explicit(&p->asleep, UNTIL_KICKED, memory_order_seq_cst);
    look_around(ctx, rd, 1);
    if (!rd->pending && !rd->moved)
        sleep_until(rd, UINT64_MAX, p->event_fd);
    atomic_store_explicit(&p->asleep, AWAKE, memory_order_relaxed);
    nanosleep(&first, NULL);
}

/* Likewise, but woken only by wi_progress_want, and by time. */
static void sleep_until_wanted(struct wi_progress *p, struct round *rd, uint64_t ns)
{
    atomic_store_explicit(&p->asleep, UNTIL_WANTED, memory_order_seq_cst);
    if (!atomic_exchange_explicit(&p->wanted, 0, memory_order_seq_cst))
        sleep_until(rd, ns, p->event_fd);
    atomic_store_explicit(&p->asleep, AWAKE, memory_order_relaxed);
}

static void sleep_while_pending(struct wi_progress *p, struct round *rd, uint64_t ns)
{
    if (rd->posted)
        sleep_until_wanted(p, rd, ns);
    else
        sleep_until(rd, ns, p->event_fd);
}

/* A round that has moved something is followed by the next one at once, unless callbacks were queued in it. Threads of the program
 * are then about to run, perhaps on this core, where they would wait until this thread's slice has ended. */
static void after_moving(struct wi_progress *p, uint32_t callbacks)
{
    const struct timespec pause = {0, CALLBACK_PAUSE_NS};

    if (atomic_load_explicit(&p->callbacks, memory_order_relaxed) != callbacks)
        nanosleep(&pause, NULL);
}

static void *progress_main(void *arg)
{
    struct weft_context *ctx = arg;
    struct wi_progress *p = &ctx->progress;
    struct round rd;
    uint64_t sleep_ns = SLEEP_MIN_NS;
    uint32_t seen = 0, kicks, callbacks, backoff = 0, alone = 0;

    wi_thread_prompt();
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        kicks = atomic_load_explicit(&p->kicks, memory_order_relaxed);
        callbacks = atomic_load_explicit(&p->callbacks, memory_order_relaxed);
        look_around(ctx, &rd, 0);
        alone = rd.mine || rd.moved ? alone + 1 : 0;
        if (alone > 1) /* once may be between an issue and its wait */
            backoff = 0;
        else if (!alone && kicks != seen && backoff < MAX_BACKOFF)
            backoff++;
        if (rd.moved) {
            after_moving(p, callbacks);
            sleep_ns = SLEEP_MIN_NS;
        } else if (rd.pending) {
            if (!rd.mine && sleep_ns < SLEEP_MIN_NS << backoff)
                sleep_ns = SLEEP_MIN_NS << backoff;
            sleep_while_pending(p, &rd, rd.blind ? sleep_ns : SLEEP_MAX_NS);
            sleep_ns = sleep_ns < SLEEP_MAX_NS ? 2 * sleep_ns : SLEEP_MAX_NS;
            if (rd.watched && sleep_ns > SLEEP_WATCHED_NS)
                sleep_ns = SLEEP_WATCHED_NS;
        } else if (kicks != seen) { /* operations were issued, and completed without this thread */
            sleep_until_wanted(p, &rd, SLEEP_MIN_NS << backoff);
            sleep_ns = SLEEP_MIN_NS;
        } else {
            sleep_till_kicked(ctx, &rd);
            sleep_ns = SLEEP_MIN_NS;
        }
        seen = kicks;
    }
    return NULL;
}

weft_status wi_progress_start(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;
    int err;

    p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->event_fd < 0)
        return wi_fail_errno(errno, "eventfd of the progress thread");
    err = wi_thread_start(&p->thread, NULL, progress_main, ctx);
    if (err) {
        close(p->event_fd);
        p->event_fd = -1;
        return wi_fail_errno(err, "progress thread");
    }
    atomic_store_explicit(&p->running, 1, memory_order_release);
    return WEFT_SUCCESS;
}

void wi_progress_stop(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;
    uint64_t one = 1;

    if (p->running) {
        atomic_store_explicit(&p->stop, 1, memory_order_release);
        (void)!write(p->event_fd, &one, sizeof one);
        pthread_join(p->thread, NULL);
        p->running = 0;
    }
    if (p->event_fd >= 0)
        close(p->event_fd);
    p->event_fd = -1;
}

/* The lock holder has queued an operation that no thread waits for yet. Without a progress thread (not wanted, or it could not be
 * created) the operation advances only inside weft calls. */
void wi_progress_kick(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;
    uint64_t one = 1;

    if (!ctx->lib.progress_thread)
        return;
    if (__builtin_expect(!atomic_load_explicit(&p->running, memory_order_acquire), 0)) {
        pthread_mutex_lock(&ctx->comms_lock);
        if (!p->running && wi_progress_start(ctx) < 0)
            ctx->lib.progress_thread = 0;
        pthread_mutex_unlock(&ctx->comms_lock);
    }
    /* Issuers of several communicators may lose counts, not changes. */
    atomic_store_explicit(&p->kicks, atomic_load_explicit(&p->kicks, memory_order_relaxed) + 1, memory_order_relaxed);
    if (atomic_load_explicit(&p->asleep, memory_order_seq_cst) == UNTIL_KICKED &&
        atomic_exchange_explicit(&p->asleep, AWAKE, memory_order_seq_cst) != AWAKE)
        (void)!write(p->event_fd, &one, sizeof one);
}

/* Work of an engine has ended, or a callback or a future waits for an operation: wake the thread, unless it waits to be kicked. */
void wi_progress_want(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;
    uint64_t one = 1;

    atomic_store_explicit(&p->wanted, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->asleep, memory_order_seq_cst) == UNTIL_WANTED &&
        atomic_exchange_explicit(&p->asleep, AWAKE, memory_order_seq_cst) != AWAKE)
        (void)!write(p->event_fd, &one, sizeof one);
}
