/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting: spin, then yield, then sleep; and the checks that make every wait end.
 *
 * Spinning pays when the peer runs on another core and is about to answer. It costs when the peer needs this core, which a yield
 * gives to it. So an executor spins briefly only while yields show that others want its core. Spinning less after spinning without
 * result would be wrong: a yield takes longer than a small operation, so one late rank would make the others yield and be late
 * themselves, and all would stay so for thousands of operations.
 *
 * A sleep costs a wake-up: hundreds of microseconds where the idle core has to be woken too. With a core for each rank the executor
 * yields for as long before it sleeps. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/exec.h"
#include "exec/nudge.h"
#include "exec/rma.h"

#define CHECK_EVERY_NS 2000000ull
#define NAP_FIRST_NS 50000ull
#define NAP_MAX_NS 5000000ull
#define NUDGE_TRY_EVERY 4096 /* when there was no descriptor: connections need a freed one more than naps do */
#define CONTENDED_YIELD_NS 1500
#define CONTENDED_FOR 64
#define OTHER_PROCESS_NS \
    1000000 /* a yield that takes longer went to a process that is no rank: ranks give a core back sooner */

struct nap {
    struct wi_exec *exec;
    const struct wi_op *op;
};

static int poll_met(const struct wi_op *op)
{
    return op->wait.word && (__atomic_load_n(op->wait.word, __ATOMIC_ACQUIRE) & op->wait.mask) >= op->wait.least;
}

static int nap_over(void *arg)
{
    const struct nap *nap = arg;

    return atomic_load_explicit(&nap->exec->abort_requested, memory_order_acquire) ||
           atomic_load_explicit(&nap->exec->nudged, memory_order_seq_cst) || poll_met(nap->op);
}

/* Sleep by the function of the only group's transport. */
static void nap_in_group(struct wi_exec *exec, struct wi_op *op, uint64_t ns)
{
    struct wi_mesh_group *g = &exec->mesh->groups[0];
    struct nap nap = {exec, op};

    g->transport->ops.sleep(g->group, nap_over, &nap, ns);
}

static void nap_on_descriptors(struct wi_exec *exec, int nudge, uint64_t ns)
{
    struct pollfd fds[WI_MAX_TRANSPORTS + 1];
    struct timespec ts;
    uint64_t times;
    nfds_t n = 0;

    for (int i = 0; i < exec->mesh->ngroups; i++) {
        struct wi_mesh_group *g = &exec->mesh->groups[i];
        int fd = g->transport->ops.poll_fd(g->group);
        if (fd < 0) { /* this one cannot wake us: look again soon */
            ns = ns < NAP_FIRST_NS ? ns : NAP_FIRST_NS;
            continue;
        }
        if (g->transport->ops.poll_arm(g->group))
            return;
        fds[n++] = (struct pollfd){fd, POLLIN, 0};
    }
    if (nudge >= 0)
        fds[n++] = (struct pollfd){nudge, POLLIN, 0};
    else if (ns > NAP_FIRST_NS)
        ns = NAP_FIRST_NS; /* no event can end it */
    ts = (struct timespec){(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    if (!atomic_load_explicit(&exec->nudged, memory_order_seq_cst))
        ppoll(fds, n, &ts, NULL);
    if (nudge >= 0)
        (void)!read(nudge, &times, sizeof times);
}

/* Announce the sleep, check whether it is still needed, sleep: a nudge in between is seen by one of the two sides. */
static void nap(struct wi_exec *exec, struct wi_op *op, uint64_t ns)
{
    int nudge = wi_nudge_borrow(exec->nudge_tries % NUDGE_TRY_EVERY == 0);

    exec->nudge_tries = nudge < 0 ? exec->nudge_tries + 1 : 0;
    atomic_store_explicit(&exec->nudge_fd, nudge, memory_order_relaxed); /* before it is announced */
    atomic_store_explicit(&exec->nudged, 0, memory_order_relaxed);
    atomic_store_explicit(&exec->napping, 1, memory_order_seq_cst);
    if (exec->posted && atomic_exchange_explicit(&exec->worked, 0, memory_order_seq_cst))
        ; /* an engine has done something meanwhile */
    else if (exec->mesh->ngroups == 1 && exec->mesh->groups[0].transport->ops.sleep && exec->nops <= 1 && op &&
             op->wait.word && !wi_rma_is_pending(exec))
        nap_in_group(exec, op, ns);
    else
        nap_on_descriptors(exec, nudge, ns);
    atomic_store_explicit(&exec->napping, 0, memory_order_relaxed);
    atomic_store_explicit(&exec->nudge_fd, -1, memory_order_relaxed);
    wi_nudge_return(nudge);
}

void wi_exec_nudge(struct wi_exec *exec)
{
    uint64_t one = 1;

    if (!atomic_load_explicit(&exec->napping, memory_order_seq_cst) ||
        atomic_exchange_explicit(&exec->nudged, 1, memory_order_seq_cst))
        return;
    if (exec->map_group)
        exec->map_ops->wake(exec->map_group);
    int fd = atomic_load_explicit(&exec->nudge_fd, memory_order_relaxed);
    if (fd >= 0)
        (void)!write(fd, &one, sizeof one);
}

/* 1 if the awaited word came. */
static int spin(const struct wi_op *op, uint32_t polls)
{
    for (uint32_t i = 0; i < polls; i++) {
        if (poll_met(op))
            return 1;
        wi_cpu_relax();
    }
    return 0;
}

/* A yield that takes long let another process run: the peer may need this core, even if no rank of this host is known to share it
 * (ranks in other containers may), so spinning is skipped for a while. */
static uint64_t yield(struct wi_exec *exec)
{
    uint64_t before = wi_now_ns(), took;

    sched_yield();
    took = wi_now_ns() - before;
    if (took > CONTENDED_YIELD_NS)
        exec->contended = CONTENDED_FOR;
    else if (exec->contended)
        exec->contended--;
    return took;
}

/* The yields are used up: is it too early to sleep? */
static int keeps_yielding(const struct wi_exec *exec, uint32_t round)
{
    return exec->patience_ns && round >= exec->yields && wi_now_ns() - exec->waiting_since_ns < exec->patience_ns;
}

/* Has rank published what ranks wait for first in this operation? */
static int published(const struct wi_exec *exec, const struct wi_op *op, int rank)
{
    const struct weft_mapped_rank *r = &exec->map.ranks[rank];

    if (op->bind.ll)
        return (__atomic_load_n(&r->ll[(op->run.epoch & (exec->map.ll_depth - 1)) * exec->map.ll_lines].seq,
                                __ATOMIC_RELAXED) &
                WI_LL_EPOCH_MASK) >= ((op->run.epoch + 1) & WI_LL_EPOCH_MASK);
    return __atomic_load_n(&r->signals[0].value, __ATOMIC_RELAXED) > 8 * op->run.epoch;
}

/* More ranks than cores: is it a rank of this core that keeps the others waiting? Those of other cores run already, or need a
 * core that a yield here does not give them. Lines of ranks on this core are in its cache. */
static int core_is_needed(struct wi_exec *exec, const struct wi_op *op)
{
    uint32_t here = (uint32_t)sched_getcpu() + 1;

    if (__atomic_load_n(exec->map.ranks[exec->rank].processor, __ATOMIC_RELAXED) != here)
        __atomic_store_n(exec->map.ranks[exec->rank].processor, here, __ATOMIC_RELAXED);
    for (int i = 0; i < exec->nmapped; i++) {
        int r = exec->map_ranks[i];
        if (r != exec->rank && __atomic_load_n(exec->map.ranks[r].processor, __ATOMIC_RELAXED) == here &&
            !published(exec, op, r))
            return 1;
    }
    return 0;
}

/* ---- The slow checks ---- */

static size_t waited_by_fragment(const struct wi_fragment *f, unsigned char *seen, int *ranks, size_t n,
                                 size_t capacity)
{
    for (uint32_t l = 0; l < f->prog->nlanes; l++) {
        const struct wi_pend *lists[2] = {f->lane[l].recvs, f->lane[l].sends};
        for (int i = 0; i < 2; i++)
            for (const struct wi_pend *p = lists[i]; p && n < capacity; p = p->next)
                if (p->x.state == WEFT_XFER_PENDING && !seen[p->x.peer & 4095]++)
                    ranks[n++] = p->x.peer;
    }
    return n;
}

/* Ranks that op waits for, as far as this rank can know. */
size_t wi_exec_waiting_for(const struct wi_op *op, int *ranks, size_t capacity)
{
    unsigned char seen[4096] = {0};
    size_t n = 0;

    if (op->wait.word && capacity) {
        ranks[n++] = op->wait.peer;
        seen[op->wait.peer & 4095] = 1;
    }
    for (const struct wi_fragment *f = op->run.first; f; f = f->next)
        n = waited_by_fragment(f, seen, ranks, n, capacity);
    if (!n && op->match.point_to_point && op->match.peer >= 0 && capacity)
        ranks[n++] = op->match.peer;
    return n;
}

static uint64_t newest_signal(const struct wi_exec *exec, int rank)
{
    uint64_t newest = 0;

    for (uint32_t l = 0; l < exec->map.nlanes; l++) {
        uint64_t v = __atomic_load_n(&exec->map.ranks[rank].signals[l].value, __ATOMIC_ACQUIRE);
        newest = v > newest ? v : newest;
    }
    return newest;
}

/* The awaited rank may itself wait for another: of all ranks the one that has signalled least is behind it. */
static int hindmost(const struct wi_exec *exec, int awaited)
{
    int last = awaited;

    for (int i = 0; i < exec->nmapped; i++) {
        int r = exec->map_ranks[i];
        if (r != exec->rank && newest_signal(exec, r) < newest_signal(exec, last))
            last = r;
    }
    return last;
}

/* Whom an operation waits for, with what their transports know of them; returns the first, or -1. */
static int awaited_text(struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity)
{
    int ranks[16];
    size_t n = wi_exec_waiting_for(op, ranks, 16), at = 0;

    if (n && op->bind.mapped && !op->bind.ll && !wi_op_is_gated(op) && exec->map_group)
        ranks[0] = hindmost(exec, ranks[0]);
    for (size_t i = 0; i < n && at + 64 < capacity; i++) {
        const struct wi_exec_peer *peer = &exec->peers[ranks[i]];
        char what[160];
        size_t k = peer->group ? peer->ops->describe_peer(peer->group, ranks[i], what, sizeof what - 1) : 0;
        what[k < sizeof what ? k : sizeof what - 1] = '\0';
        at += (size_t)snprintf(text + at, capacity - at, "%srank %d on host %s%s%s%s", i ? ", " : "", ranks[i],
                               wi_mesh_host(exec->mesh, ranks[i]), k ? " (" : "", what, k ? ")" : "");
    }
    return n ? ranks[0] : -1;
}

/* What op itself waits for; returns the first rank of them, or -1. Empty: for nothing that is known. */
static int own_reason_text(struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity)
{
    char ranks[512] = "", message[256] = "";
    int first = -1;

    *text = '\0';
    if (wi_engine_text(exec, op, message, sizeof message, &first)) {
        snprintf(text, capacity, "for %s", message);
        return first;
    }
    first = awaited_text(exec, op, ranks, sizeof ranks);
    if (op->match.by_tag)
        wi_match_text(exec, op, message, sizeof message);
    if (wi_op_is_gated(op))
        snprintf(text, capacity, "at %s%s%s", op->gate.ops->name, first >= 0 ? ", for " : "", first >= 0 ? ranks : "");
    else if (first >= 0 || message[0])
        snprintf(text, capacity, "for %s%s%s", message, message[0] && first >= 0 ? " " : "", first >= 0 ? ranks : "");
    return first;
}

/* What op waits for, or what the one waits for that must be further before it begins. */
static int reason_text(struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity)
{
    const struct wi_op *older = wi_exec_held_by(exec, op);
    int first = own_reason_text(exec, op, text, capacity);
    char what[160], why[600] = "";

    if (first >= 0 || (!older && *text))
        return first;
    if (!older) {
        snprintf(text, capacity, "for an older operation");
        return first;
    }
    first = own_reason_text(exec, older, why, sizeof why);
    wi_op_info_text(&older->info, what, sizeof what);
    snprintf(text, capacity, "for %s%s%s", what, *why ? ", which waits " : "", why);
    return first;
}

static weft_status deadline_passed(struct wi_exec *exec, struct wi_op *op, uint64_t waited_ns)
{
    char text[800] = "";
    int first = reason_text(exec, op, text, sizeof text);

    return wi_exec_fail(exec, WEFT_ETIMEDOUT, first, &op->info, "waited %.3g s %s", (double)waited_ns / 1e9, text);
}

void wi_exec_blamed(struct wi_exec *exec, int peer, const char *operation)
{
    char text[800] = "";
    const struct wi_op *op = wi_exec_oldest(exec);
    int first = op ? reason_text(exec, op, text, sizeof text) : -1, own = op && (exec->posted || wi_op_is_gated(op));

    if ((first >= 0 && first != peer) || (first < 0 && own))
        wi_exec_fail(exec, WEFT_ETIMEDOUT, first, &op->info,
                     "rank %d gave up in %s: it waited for this rank, which waits %s", peer, operation, text);
    else
        wi_exec_fail(exec, WEFT_ETIMEDOUT, peer, op ? &op->info : NULL,
                     "rank %d gave up in %s: it waited for this rank", peer, operation);
}

static void set_deadline(struct wi_exec *exec, struct wi_op *op, uint64_t now)
{
    uint64_t from = op->record ? wi_ticks_to_ns(op->record->ticks_issued) : now;
    uint64_t timeout = op->timeout_ns ? op->timeout_ns : exec->timeout_ns;

    if (op->deadline_ns)
        return;
    op->timeout_ns = timeout;
    op->deadline_ns = timeout > UINT64_MAX - from ? UINT64_MAX : from + timeout;
}

weft_status wi_exec_check(struct wi_exec *exec, struct wi_op *op)
{
    uint64_t now = wi_now_ns();
    struct wi_op *older;

    if (exec->broken)
        return exec->broken;
    if (atomic_load_explicit(&exec->abort_requested, memory_order_acquire))
        return wi_exec_fail(exec, WEFT_EABORTED, -1, &op->info, "%s",
                            atomic_load_explicit(&exec->abort_reason, memory_order_acquire));
    older = wi_exec_held_by(exec, op);
    set_deadline(exec, op, now);
    if (older)
        set_deadline(exec, older, now);
    if (now - exec->last_check_ns >= CHECK_EVERY_NS) {
        struct weft_peer_failure failure = {.peer = -1};
        exec->last_check_ns = now;
        for (int i = 0; i < exec->mesh->ngroups && !exec->broken; i++) {
            struct wi_mesh_group *g = &exec->mesh->groups[i];
            int n = g->transport->ops.progress(g->group, &failure);
            if (n < 0)
                wi_exec_transport_failed(exec, n, &failure, &op->info);
        }
        if (!exec->broken && !op->match.point_to_point)
            wi_exec_compare_boards(exec, op->prelude_of ? &op->prelude_of->info : &op->info);
    }
    if (!exec->broken && older && now >= older->deadline_ns) /* it knows whom it waits for */
        deadline_passed(exec, older, older->timeout_ns);
    else if (!exec->broken && now >= op->deadline_ns)
        deadline_passed(exec, op, op->timeout_ns);
    else if (!exec->broken && wi_op_is_gated(op) && now >= op->gate.deadline_ns)
        deadline_passed(exec, op, op->gate.timeout_ns);
    return exec->broken;
}

/* ---- Waiting, and others that wait ---- */

/* Their threads come and go without being counted, and may find the executor held each time. */
static void check_queued(struct wi_exec *exec)
{
    struct wi_op *const heads[] = {exec->running.head, exec->waiting.head, exec->messages.head};
    uint64_t now = wi_now_ns();

    if (now - exec->last_check_queued_ns < CHECK_EVERY_NS)
        return;
    exec->last_check_queued_ns = now;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (struct wi_op *op = heads[i]; op && !exec->broken; op = op->next)
            wi_exec_check(exec, op);
}

/* A thread that wants the executor gets it; the operations that it has queued are advanced here, for it may have left again. */
static weft_status serve_others(struct wi_exec *exec, struct wi_op *op)
{
    if (exec->wanted && atomic_load_explicit(exec->wanted, memory_order_relaxed))
        WI_TRY(exec->let_in(exec->let_in_arg, op));
    if (op->link) {
        wi_exec_progress(exec, NULL, NULL);
        check_queued(exec);
    }
    return exec->broken;
}

weft_status wi_exec_pause(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t round = op->wait.rounds++;

    if (op->bind.messages)
        op->wait.word = NULL; /* messages may be what comes next */
    if (exec->spin_elsewhere && op->wait.word && op->bind.mapped && exec->map_group && !core_is_needed(exec, op) &&
        spin(op, exec->spin_elsewhere))
        return exec->broken;

    if (round == 0 && op->wait.word && spin(op, wi_exec_spins(exec)))
        return exec->broken;
    if (!op->wait.word && !exec->contended && round < exec->spin / 40) {
        wi_cpu_relax();
        return exec->broken;
    }
    if (round == 0 || round == exec->spin / 40)
        exec->waiting_since_ns = wi_now_ns();
    if (round < exec->yields || keeps_yielding(exec, round)) {
        op->wait.rounds -= round >= exec->yields; /* do not count rounds of patience */
        uint64_t took = yield(exec);
        if (poll_met(op))
            return exec->broken;
        if (took > OTHER_PROCESS_NS && round + 1 < exec->yields)
            op->wait.rounds = exec->yields;
    } else {
        uint64_t ns = NAP_FIRST_NS << (round - exec->yields < 7 ? round - exec->yields : 7);
        nap(exec, op, ns < NAP_MAX_NS ? ns : NAP_MAX_NS);
    }
    if (op->run.alone)
        WI_TRY(serve_others(exec, op));
    if (round % 16 == 15 || round >= exec->yields)
        return wi_exec_check(exec, op);
    return exec->broken;
}
