/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread of a context.
 *
 * It starts with the first operation that nobody waits for, sleeps while there is none, and leaves a communicator alone
 * whose owner is inside a weft call. It progresses one communicator at a time, under the lock of that one alone and with a budget
 * (wi_exec_progress_budgeted), so that none waits long for another's work. It begins with a short pause: most operations are waited
 * for at once. Where that is so again and again, it sleeps with an exponential backoff instead of waiting to be woken by the next
 * operation: a wake-up costs the issuer a system call, and a core that the ranks may need. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/comm.h"

#define MAX_POLLED 32
#define FIRST_PAUSE_NS 20000
#define NAP_MIN_NS 20000ull
#define NAP_MAX_NS 2000000ull
#define NAP_WATCHED_NS 160000ull /* when a call-back or a future depends on this thread's looking */
#define MOST_VAIN 5              /* doublings of a doze */

enum { AWAKE, ASLEEP, DOZING };

struct round {
    int moved, pending;
    int mine;    /* an operation is pending whose owner is elsewhere */
    int posted;  /* an engine is at work, and tells when it is through */
    int blind;   /* something that cannot wake us is pending */
    int watched; /* somebody wants to be told */
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

static void look_at(struct round *rd, struct weft_comm *comm)
{
    struct wi_op *op;
    int moved = 0;

    if (atomic_load_explicit(&comm->waiters, memory_order_relaxed)) {
        rd->blind |= 1; /* its waiter may leave: look again */
        rd->pending |= 1;
        return;
    }
    if (!wi_comm_try_progress(comm)) { /* its issuer's kick may have come before this look: look again */
        rd->blind = rd->pending = 1;
        return;
    }
    if (comm->exec->nops) {
        wi_exec_progress_budgeted(comm->exec, NULL, &moved);
        op = moved ? NULL : wi_exec_oldest(comm->exec);
        if (op)
            wi_exec_check(comm->exec, op);
        if (comm->exec->broken) {
            wi_exec_progress(comm->exec, NULL, NULL); /* ends what was in flight */
            wi_comm_failed(comm);
        }
    }
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

static void look_around(struct weft_context *ctx, struct round *rd)
{
    struct weft_comm *comm;

    *rd = (struct round){.nfds = 1};
    rd->fds[0] = (struct pollfd){ctx->progress.event_fd, POLLIN, 0};
    pthread_mutex_lock(&ctx->comms_lock);
    ctx->progress.next = ctx->comms;
    pthread_mutex_unlock(&ctx->comms_lock);
    while ((comm = next_comm(ctx)) != NULL)
        look_at(rd, comm);
}

static void sleep_until(struct round *rd, uint64_t ns, int fd)
{
    struct timespec ts = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    uint64_t kicks;

    if (ppoll(rd->fds, rd->nfds, ns == UINT64_MAX ? NULL : &ts, NULL) > 0 && rd->fds[0].revents)
        (void)!read(fd, &kicks, sizeof kicks);
}

/* Announce first, look again, then sleep: a kick in between is seen by one of the two. */
static void sleep_till_kicked(struct weft_context *ctx, struct round *rd)
{
    struct wi_progress *p = &ctx->progress;
    struct timespec first = {0, FIRST_PAUSE_NS};

    atomic_store_explicit(&p->asleep, ASLEEP, memory_order_seq_cst);
    look_around(ctx, rd);
    if (!rd->pending && !rd->moved)
        sleep_until(rd, UINT64_MAX, p->event_fd);
    atomic_store_explicit(&p->asleep, AWAKE, memory_order_relaxed);
    nanosleep(&first, NULL);
}

/* Likewise, for one who wants to be told of an end. */
static void doze(struct wi_progress *p, struct round *rd, uint64_t ns)
{
    atomic_store_explicit(&p->asleep, DOZING, memory_order_seq_cst);
    if (!atomic_exchange_explicit(&p->wanted, 0, memory_order_seq_cst))
        sleep_until(rd, ns, p->event_fd);
    atomic_store_explicit(&p->asleep, AWAKE, memory_order_relaxed);
}

static void nap_while_pending(struct wi_progress *p, struct round *rd, uint64_t ns)
{
    if (rd->posted)
        doze(p, rd, ns);
    else
        sleep_until(rd, ns, p->event_fd);
}

static void *progress_main(void *arg)
{
    struct weft_context *ctx = arg;
    struct wi_progress *p = &ctx->progress;
    struct round rd;
    uint64_t nap = NAP_MIN_NS;
    uint32_t seen = 0, kicks, vain = 0, alone = 0;

    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        kicks = atomic_load_explicit(&p->kicks, memory_order_relaxed);
        look_around(ctx, &rd);
        alone = rd.mine || rd.moved ? alone + 1 : 0;
        if (alone > 1) /* once may be between an issue and its wait */
            vain = 0;
        else if (!alone && kicks != seen && vain < MOST_VAIN)
            vain++;
        if (rd.moved) {
            nap = NAP_MIN_NS;
        } else if (rd.pending) {
            if (!rd.mine && nap < NAP_MIN_NS << vain)
                nap = NAP_MIN_NS << vain;
            nap_while_pending(p, &rd, rd.blind ? nap : NAP_MAX_NS);
            nap = nap < NAP_MAX_NS ? 2 * nap : NAP_MAX_NS;
            if (rd.watched && nap > NAP_WATCHED_NS)
                nap = NAP_WATCHED_NS;
        } else if (kicks != seen) { /* operations came, and went without this thread */
            doze(p, &rd, NAP_MIN_NS << vain);
            nap = NAP_MIN_NS;
        } else {
            sleep_till_kicked(ctx, &rd);
            nap = NAP_MIN_NS;
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
    err = pthread_create(&p->thread, NULL, progress_main, ctx);
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

/* The lock holder has queued an operation that nobody is waiting for yet. Without a thread (none wanted, or none could be
 * made) it advances inside weft calls only. */
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
    if (atomic_load_explicit(&p->asleep, memory_order_seq_cst) == ASLEEP &&
        atomic_exchange_explicit(&p->asleep, AWAKE, memory_order_seq_cst) != AWAKE)
        (void)!write(p->event_fd, &one, sizeof one);
}

/* Somebody wants to be told of the end of an operation: end the doze. */
void wi_progress_want(struct weft_context *ctx)
{
    struct wi_progress *p = &ctx->progress;
    uint64_t one = 1;

    atomic_store_explicit(&p->wanted, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->asleep, memory_order_seq_cst) == DOZING &&
        atomic_exchange_explicit(&p->asleep, AWAKE, memory_order_seq_cst) != AWAKE)
        (void)!write(p->event_fd, &one, sizeof one);
}
