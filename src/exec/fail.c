/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures: what is recorded, which peers are notified, and how ranks that disagree find out.
 *
 * Over a mapped group every rank reads the others' boards. Elsewhere a failing rank sends a notice to every peer that it has
 * exchanged data with, so that no rank waits for its deadline when the cause is known. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/exec.h"
#include "exec/label.h"

#define NOTICE_KIND 255
#define CAUSE_BYTES sizeof(((struct weft_board *)0)->cause)

static int is_message(const struct weft_op_info *info)
{
    return info->kind == WI_COLL_SEND || info->kind == WI_COLL_RECV;
}

void wi_op_info_text(const struct weft_op_info *info, char *text, size_t capacity)
{
    const char *op = info->op == 255           ? "user's operator"
                     : info->op == 253         ? "pre-multiplied sum"
                     : info->op < WEFT_NUM_OPS ? weft_op_name(info->op)
                                               : "";
    const char *dtype = info->dtype < WEFT_NUM_DTYPES ? weft_dtype_name((weft_dtype)info->dtype) : "?";
    const char *coll = wi_coll_name((enum wi_coll)info->kind);
    char root[40] = "", number[16] = "";

    if (info->seq || !is_message(info)) /* a receive has none before it has a message */
        snprintf(number, sizeof number, " #%u", info->seq);
    if (is_message(info) && info->flags & WI_INFO_TAG)
        snprintf(root, sizeof root, wi_info_tag(info) < 0 ? ", any tag" : ", tag %lld", (long long)wi_info_tag(info));
    else if (info->root != UINT32_MAX && !is_message(info))
        snprintf(root, sizeof root, ", root %u", info->root);
    if (info->kind == WI_COLL_BARRIER)
        snprintf(text, capacity, "%s #%u", coll, info->seq);
    else
        snprintf(text, capacity, "%s%s (%s%s%llu %s%s%s)", coll, number, info->flags & 1 ? op : "",
                 info->flags & 1 ? " of " : "", (unsigned long long)info->count, dtype, root,
                 info->flags & WI_INFO_CODED ? ", compressed" : "");
}

static const char *advice_for(weft_status status)
{
    switch (status) {
    case WEFT_EMISMATCH:
        return "make all ranks call the same operations with the same arguments in the same order";
    case WEFT_ETIMEDOUT:
        return "find out why the named rank is late (its log, a debugger), or raise the time-out (WEFT_COMM_TIMEOUT)";
    case WEFT_EPEER:
        return "look at the named rank's output for the cause; destroy this communicator and create one without it";
    case WEFT_EABORTED:
        return "destroy this communicator";
    case WEFT_EAUTH:
        return "give all ranks the same job key";
    case WEFT_ETRUNC:
        return "receive with at least as many elements as are sent";
    case WEFT_EPROTO:
        return "check that all ranks run the same version of weft and that nothing else writes to its ports";
    case WEFT_EINVAL:
    case WEFT_ENOTSUP:
    case WEFT_ENOTFOUND:
        return "correct the call; the communicator is usable";
    default:
        return "destroy this communicator; see the message";
    }
}

void wi_exec_error(struct wi_exec *exec, struct wi_error *copy)
{
    pthread_mutex_lock(&exec->error_lock);
    *copy = exec->error;
    pthread_mutex_unlock(&exec->error_lock);
}

void wi_exec_error_set(struct wi_exec *exec, const struct wi_error *error)
{
    pthread_mutex_lock(&exec->error_lock);
    exec->error = *error;
    pthread_mutex_unlock(&exec->error_lock);
}

/* This rank lacks a resource. The peer that it was needed for is not to blame, and must not be named to the others. */
static int lacks(weft_status status)
{
    return status == WEFT_ENOFILES || status == WEFT_ENOMEM || status == WEFT_ENOSPC;
}

static int among(const struct wi_op *op, const struct weft_op_info *info)
{
    while (op && &op->info != info)
        op = op->next;
    return op && op->match.point_to_point && !op->match.sending;
}

/* A receive is compared with what is sent, so that its info says it is a send. What people and other ranks read says what it is. */
static struct weft_op_info as_called(const struct wi_exec *exec, const struct weft_op_info *info)
{
    struct weft_op_info called = *info;

    if (info->kind == WI_COLL_SEND && (among(exec->messages.head, info) || among(exec->self_recvs, info)))
        called.kind = WI_COLL_RECV;
    return called;
}

/* Between a board and this rank's own memory. Others read the board while it is written, word by word. */
static inline void store_words(void *board, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        uint64_t word;
        memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
        __atomic_store_n((uint64_t *)board + i, word, __ATOMIC_RELAXED);
    }
}

static inline void load_words(const void *board, void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        uint64_t word = __atomic_load_n((const uint64_t *)board + i, __ATOMIC_RELAXED);
        memcpy((char *)to + i * sizeof word, &word, sizeof word);
    }
}

#define NO_KIND 254 /* of an operation that failed: none did */

/* Behind what wi_op_info_text says of it: what the caller says that it is for. */
static void label_text(const struct wi_exec *exec, const struct weft_op_info *info, char *text, size_t capacity)
{
    const struct wi_op *op = is_message(info) ? NULL : wi_exec_collective(exec, info->seq);
    const char *label = op ? wi_label_text(exec, op->bind.label) : NULL;
    size_t at = strlen(text);

    if (label)
        snprintf(text + at, capacity - at, " for \"%s\"", label);
}

/* What a rank says it failed in, as it goes to others. */
static struct weft_op_info info_or_none(const struct weft_op_info *info)
{
    return info ? *info : (struct weft_op_info){.kind = NO_KIND};
}

static void failed_in_text(const struct weft_op_info *info, char *text, size_t capacity)
{
    if (info->kind < WI_NUM_COLLS)
        wi_op_info_text(info, text, capacity);
    else
        snprintf(text, capacity, "an operation");
}

/* Before the failure is on the board. The operation need not be the newest collective, which is on the board anyway. */
static void write_cause(struct wi_exec *exec, const struct weft_op_info *info, const char *cause)
{
    const struct weft_op_info failed_in = info_or_none(info);
    char text[CAUSE_BYTES] = "";
    struct weft_board *b;

    if (!exec->map_group)
        return;
    b = exec->map.ranks[exec->rank].board;
    store_words(&b->failed_in, &failed_in, sizeof failed_in);
    if ((size_t)snprintf(text, CAUSE_BYTES, "%s", cause) >= CAUSE_BYTES)
        memcpy(text + CAUSE_BYTES - 4, "...", 4);
    store_words(b->cause, text, sizeof text);
}

/* `origin`: the cause as the rank said that found it, of a failure that another rank has reported; else NULL. */
static weft_status fail_for(struct wi_exec *exec, weft_status status, int peer, const struct weft_op_info *info,
                            const char *origin, const char *cause)
{
    struct weft_op_info called;
    struct wi_error made = {.status = status}, *e = &made;
    char what[160 + WI_LABEL_BYTES] = "", other[40] = "";

    if (exec->broken)
        return exec->broken;
    if (lacks(status))
        peer = -1;
    e->peer = peer;
    if (info) {
        called = as_called(exec, info);
        info = &called;
        wi_op_info_text(info, what, sizeof what);
        label_text(exec, info, what, sizeof what);
    }
    e->seq = info ? info->seq : 0;
    e->operation = info ? wi_coll_name((enum wi_coll)info->kind) : "";
    snprintf(e->host, sizeof e->host, "%s", wi_mesh_host(exec->mesh, peer >= 0 ? peer : exec->rank));
    if (peer >= 0 && peer != exec->rank)
        snprintf(other, sizeof other, ", peer rank %d on host ", peer);
    snprintf(e->message, sizeof e->message, "%s%s%s on rank %d of %d (host %s)%s%s: %s: %s", what, what[0] ? " " : "",
             exec->name[0] ? exec->name : "communicator", exec->rank, exec->nranks,
             wi_mesh_host(exec->mesh, exec->rank), other, other[0] ? wi_mesh_host(exec->mesh, peer) : "",
             weft_status_text(status), cause);
    snprintf(e->advice, sizeof e->advice, "%s", advice_for(status));
    wi_exec_error_set(exec, &made);
    wi_fail(status, "%s", e->message);
    if (status > WEFT_EPEER)
        return status; /* an argument's or a request's failure: the communicator stays usable */
    wi_log(WEFT_LOG_ERROR, "comm.failed", "%s", e->message);
    wi_exec_announce(exec, status, peer, info, origin != NULL, cause);
    exec->broken = status;
    write_cause(exec, info, origin ? origin : cause);
    wi_exec_board_failed(exec, status, peer);
    wi_exec_await_puts(exec);
    return status;
}

weft_status wi_exec_fail(struct wi_exec *exec, weft_status status, int peer, const struct weft_op_info *info,
                         const char *format, ...)
{
    char cause[512];
    va_list ap;

    va_start(ap, format);
    vsnprintf(cause, sizeof cause, format, ap);
    va_end(ap);
    return fail_for(exec, status, peer, info, NULL, cause);
}

/* A failure that another rank has reported. Peers that receive it from here relay the text unchanged: it names the first cause. */
__attribute__((format(printf, 6, 7))) static void fail_relayed(struct wi_exec *exec, weft_status status, int peer,
                                                               const struct weft_op_info *info, const char *origin,
                                                               const char *format, ...)
{
    char cause[512];
    va_list ap;

    va_start(ap, format);
    vsnprintf(cause, sizeof cause, format, ap);
    va_end(ap);
    fail_for(exec, status, peer, info, origin, cause);
}

void wi_exec_cancel(struct wi_exec *exec, const char *reason)
{
    struct wi_error made = {.status = WEFT_EABORTED, .peer = -1, .operation = ""};

    if (!exec->broken) {
        snprintf(made.host, sizeof made.host, "%s", wi_mesh_host(exec->mesh, exec->rank));
        snprintf(made.message, sizeof made.message, "%s on rank %d of %d (host %s): %s: %s",
                 exec->name[0] ? exec->name : "communicator", exec->rank, exec->nranks, made.host,
                 weft_status_text(WEFT_EABORTED), reason);
        snprintf(made.advice, sizeof made.advice, "%s", advice_for(WEFT_EABORTED));
        wi_exec_error_set(exec, &made);
        exec->broken = WEFT_EABORTED;
    }
    wi_exec_progress(exec, NULL, NULL);
}

/* Two calls differ in their hash only. If that is because of what their callers say that they are for, both are known here. */
static int labels_differ(const struct wi_exec *exec, const struct weft_op_info *ours, const struct weft_op_info *theirs,
                         const char **here, const char **there)
{
    const struct wi_op *op = wi_exec_collective(exec, ours->seq);
    uint32_t label = op ? op->bind.label : 0, other = label ^ ours->hash ^ theirs->hash;

    *here = label ? wi_label_text(exec, label) : "";
    *there = other ? wi_label_text(exec, other) : "";
    return ours->hash != theirs->hash && *here && *there;
}

/* If that is because of the algorithms that their callers named, say which. */
static int algorithms_differ(struct wi_exec *exec, const struct weft_op_info *ours, const struct weft_op_info *theirs,
                             const char **here, const char **there)
{
    const struct wi_op *op = wi_exec_collective(exec, ours->seq);
    uint32_t named = op ? op->bind.named : 0;

    if (!exec->algorithm_named || ours->hash == theirs->hash)
        return 0;
    *here = named ? exec->algorithm_named(ours->kind, named) : "no algorithm";
    named ^= ours->hash ^ theirs->hash;
    *there = named ? exec->algorithm_named(ours->kind, named) : "no algorithm";
    return *here && *there;
}

#define DECIDED (WI_INFO_PLANNED | WI_INFO_EXCHANGES)

/* What is planned behind a gate is not known where a rank waits there, and of an exchange it is not known before its end: as long
 * as one of the two does not know, only the call is compared. But an exchange needs both. */
static int differ(const struct wi_exec *exec, const struct weft_op_info *ours, const struct weft_op_info *theirs)
{
    const struct wi_op *op = wi_exec_collective(exec, ours->seq);
    struct weft_op_info mine = *ours;

    if (ours->flags & DECIDED && theirs->flags & DECIDED && (ours->flags ^ theirs->flags) & WI_INFO_EXCHANGES)
        return 1;
    mine.flags = (uint8_t)((ours->flags & ~DECIDED) | (theirs->flags & DECIDED));
    if (theirs->flags & ~ours->flags & WI_INFO_PLANNED)
        mine.hash = theirs->hash;
    else if (ours->flags & ~theirs->flags & WI_INFO_PLANNED)
        mine.hash ^= op ? op->bind.planned : 0;
    return memcmp(&mine, theirs, sizeof mine) != 0;
}

void wi_exec_differs(struct wi_exec *exec, const struct wi_op *op, int rank)
{
    wi_exec_compare_boards(exec, &op->info);
    if (!exec->broken)
        wi_exec_fail(exec, WEFT_EMISMATCH, rank, &op->info, "rank %d %s another %s here", rank,
                     op->info.flags & WI_INFO_PLANNED ? "planned" : "called",
                     op->info.flags & WI_INFO_PLANNED ? "algorithm" : "operation");
}

static const char *plan_text(const struct wi_exec *exec, const struct weft_op_info *info, uint32_t planned,
                             const char *unknown)
{
    const char *name = NULL;

    if (!(info->flags & WI_INFO_PLANNED))
        return "an algorithm that begins with an exchange of buffers";
    if (exec->algorithm_named)
        name = exec->algorithm_named(info->kind, planned);
    return name ? name : unknown;
}

/* The same call, but another plan behind a gate. */
static int planned_otherwise(struct wi_exec *exec, int peer, const struct weft_op_info *ours,
                             const struct weft_op_info *theirs, const char *text)
{
    const struct wi_op *op = wi_exec_collective(exec, ours->seq);
    const char *here, *there;

    if (!op || !(ours->flags & DECIDED) || !(theirs->flags & DECIDED))
        return 0;
    here = plan_text(exec, ours, op->bind.planned, op->bind.sched ? op->bind.sched->algo : "");
    there = plan_text(exec, theirs, op->bind.planned ^ ours->hash ^ theirs->hash, "something else");
    wi_exec_fail(exec, WEFT_EMISMATCH, peer, ours,
                 "rank %d called %s here too, but planned %s for it, and this rank %s", peer, text, there, here);
    return 1;
}

void wi_exec_disagree(struct wi_exec *exec, int peer, const struct weft_op_info *ours,
                      const struct weft_op_info *theirs)
{
    struct weft_op_info alike = *theirs;
    const char *here, *there;
    char text[160];

    alike.hash = ours->hash;
    alike.flags = (uint8_t)((theirs->flags & ~DECIDED) | (ours->flags & DECIDED));
    wi_op_info_text(theirs, text, sizeof text);
    if (memcmp(&alike, ours, sizeof alike) == 0 && planned_otherwise(exec, peer, ours, theirs, text))
        return;
    if (memcmp(&alike, ours, sizeof alike) == 0 && ours->kind != WI_COLL_SEND &&
        labels_differ(exec, ours, theirs, &here, &there))
        wi_exec_fail(exec, WEFT_EMISMATCH, peer, ours,
                     "rank %d called %s here too, but there it is for \"%s\", and here for \"%s\"", peer, text, there,
                     here);
    else if (memcmp(&alike, ours, sizeof alike) == 0 && ours->kind != WI_COLL_SEND &&
             algorithms_differ(exec, ours, theirs, &here, &there))
        wi_exec_fail(exec, WEFT_EMISMATCH, peer, ours, "rank %d called %s here too, but there it names %s, and here %s",
                     peer, text, there, here);
    else if (memcmp(&alike, ours, sizeof alike) == 0 && ours->kind != WI_COLL_SEND)
        wi_exec_fail(
            exec, WEFT_EMISMATCH, peer, ours,
            "rank %d called %s here too, but with other per-rank counts, another algorithm, codec, tensor or label named, "
            "accumulate set otherwise, a residual of another age, or after an earlier operation that differed (kind, count, type, "
            "operator, root or algorithm)",
            peer, text);
    else
        wi_exec_fail(exec, WEFT_EMISMATCH, peer, ours, "rank %d called %s here", peer, text);
}

/* ---- Boards ---- */

void wi_exec_board(struct wi_exec *exec, const struct weft_op_info *info)
{
    struct weft_board *b;

    if (!exec->map_group)
        return;
    b = exec->map.ranks[exec->rank].board;
    __atomic_store_n(&b->version, b->version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    store_words(&b->info, info, sizeof *info);
    __atomic_store_n(&b->version, b->version + 1, __ATOMIC_RELEASE);
}

static void read_cause(const struct weft_board *b, struct weft_op_info *info, char text[CAUSE_BYTES])
{
    load_words(&b->failed_in, info, sizeof *info);
    load_words(b->cause, text, CAUSE_BYTES);
    wi_text_sanitize(text, CAUSE_BYTES);
}

void wi_exec_board_failed(struct wi_exec *exec, weft_status status, int culprit)
{
    struct weft_board *b;

    if (!exec->map_group)
        return;
    b = exec->map.ranks[exec->rank].board;
    __atomic_store_n(&b->failure, (uint64_t)(uint32_t)status << 32 | (uint32_t)culprit, __ATOMIC_RELAXED);
    __atomic_store_n(&b->state, WEFT_BOARD_ABORTED, __ATOMIC_SEQ_CST);
    exec->map_ops->wake(exec->map_group);
}

/* 0: the board was being written throughout. */
static int read_board(const struct weft_board *b, struct weft_op_info *info)
{
    struct weft_op_info read;

    for (int tries = 0; tries < 100; tries++) {
        uint32_t v = __atomic_load_n(&b->version, __ATOMIC_ACQUIRE);
        load_words(&b->info, &read, sizeof read);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(v & 1) && v == __atomic_load_n(&b->version, __ATOMIC_RELAXED)) {
            *info = read;
            return 1;
        }
    }
    return 0;
}

/* The status here of rank r's failure: its own status if the cause concerns all ranks alike, else that a peer is gone. */
static weft_status passed_on(weft_status status)
{
    return status == WEFT_ETIMEDOUT || status == WEFT_EMISMATCH ? status : WEFT_EPEER;
}

static void peer_gave_up(struct wi_exec *exec, int r, const struct weft_board *b, const struct weft_op_info *info)
{
    uint64_t word = __atomic_load_n(&b->failure, __ATOMIC_RELAXED);
    weft_status status = (weft_status)(int32_t)(word >> 32);
    const char *why = status < 0 ? weft_status_text(status) : "its communicator was destroyed in the middle";
    int culprit = (int32_t)word;
    struct weft_op_info theirs;
    char text[160], cause[CAUSE_BYTES], first[CAUSE_BYTES + 64];
    const char *colon;

    read_cause(b, &theirs, cause);
    colon = *cause ? ": " : "";
    failed_in_text(&theirs, text, sizeof text);
    if (culprit == exec->rank && status == WEFT_EMISMATCH && !is_message(&theirs))
        wi_exec_fail(exec, WEFT_EMISMATCH, r, info, "rank %d called %s here", r, text);
    else if (culprit == exec->rank && status == WEFT_EMISMATCH)
        fail_relayed(exec, status, r, info, cause, "rank %d gave up in %s: %s", r, text, cause);
    else if (culprit == exec->rank && status == WEFT_ETIMEDOUT)
        wi_exec_blamed(exec, r, text);
    else if (culprit < 0 || culprit >= exec->nranks || culprit == exec->rank) {
        snprintf(first, sizeof first, "%s%s%s", why, colon, cause); /* its status is told to nobody further on */
        fail_relayed(exec, WEFT_EPEER, r, info, first, "rank %d gave up in %s: %s", r, text, first);
    } else
        fail_relayed(exec, passed_on(status), culprit, info, cause, "rank %d gave up in %s because of rank %d: %s%s%s",
                     r, text, culprit, weft_status_text(status), colon, cause);
}

weft_status wi_exec_compare_boards(struct wi_exec *exec, const struct weft_op_info *info)
{
    struct weft_op_info theirs;
    int message = info->kind == WI_COLL_SEND; /* their numbers have nothing to do with those on boards */

    if (!exec->map_group || exec->broken)
        return exec->broken;
    for (int i = 0; i < exec->nmapped && !exec->broken && !message; i++) {
        int r = exec->map_ranks[i];
        if (r == exec->rank || !read_board(exec->map.ranks[r].board, &theirs))
            continue;
        if (theirs.seq == info->seq && differ(exec, info, &theirs)) {
            wi_exec_disagree(exec, r, info, &theirs);
        }
    }
    for (int i = 0; i < exec->nmapped && !exec->broken; i++) {
        int r = exec->map_ranks[i];
        const struct weft_board *b = exec->map.ranks[r].board;
        uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
        if (r == exec->rank || state == WEFT_BOARD_ALIVE)
            continue;
        if (state == WEFT_BOARD_ABORTED)
            peer_gave_up(exec, r, b, info);
        else if (!message && read_board(b, &theirs) && theirs.seq < info->seq)
            wi_exec_fail(exec, WEFT_EPEER, r, info, "rank %d destroyed its communicator after operation #%u", r,
                         theirs.seq);
    }
    return exec->broken;
}

/* ---- Notices ---- */

static struct weft_op_info notice_info(void)
{
    return (struct weft_op_info){.kind = NOTICE_KIND, .count = sizeof(struct wi_notice)};
}

/* Listen for a peer's failure from the first time it is used. Without memory for that the deadline still holds. */
void wi_exec_use_peer(struct wi_exec *exec, int peer)
{
    struct wi_exec_peer *ep = &exec->peers[peer];

    if (__builtin_expect(ep->notice != NULL, 1) || ep->group == exec->map_group || peer == exec->rank)
        return;
    if (!ep->notice_buf) /* it may be left from a try that had no memory for the rest */
        ep->notice_buf = wi_calloc(1, sizeof *ep->notice_buf);
    ep->notice = ep->notice_buf ? wi_pend_get(exec) : NULL;
    if (!ep->notice)
        return;
    ep->notice->x = (struct weft_xfer){
        .buf = ep->notice_buf,
        .bytes = sizeof *ep->notice_buf,
        .peer = peer,
        .chan = WI_CHAN_NOTICE,
        .info = notice_info(),
        .granule = 1,
        .background = 1,
        .state = WEFT_XFER_PENDING,
    };
    if (ep->ops->recv(ep->group, &ep->notice->x) < 0)
        ep->notice->x.state = WEFT_ECANCELED;
}

void wi_exec_announce(struct wi_exec *exec, weft_status status, int culprit, const struct weft_op_info *info,
                      int relayed, const char *cause)
{
    struct weft_peer_failure ignored;
    int told = 0;

    for (int r = 0; r < exec->nranks; r++) {
        struct wi_exec_peer *ep = &exec->peers[r];
        struct wi_notice *n;
        struct wi_pend *p;
        if (!ep->notice || (r == culprit && status != WEFT_EMISMATCH && status != WEFT_ETIMEDOUT))
            continue;
        p = wi_pend_get(exec);
        n = p ? wi_calloc(1, sizeof *n) : NULL;
        if (!n) {
            if (p)
                wi_pend_put(exec, p);
            continue;
        }
        n->status = status;
        n->culprit = culprit;
        n->info = info_or_none(info);
        n->relayed = relayed != 0;
        snprintf(n->text, sizeof n->text, "%s", cause);
        p->bounce = (unsigned char *)n;
        p->x = (struct weft_xfer){.buf = n,
                                  .bytes = sizeof *n,
                                  .peer = r,
                                  .chan = WI_CHAN_NOTICE,
                                  .info = notice_info(),
                                  .granule = 1,
                                  .state = WEFT_XFER_PENDING};
        if (ep->ops->send(ep->group, &p->x) < 0) {
            wi_pend_put(exec, p);
            continue;
        }
        p->next = exec->notices_out;
        exec->notices_out = p;
        told = 1;
    }
    for (int i = 0; told && i < 100; i++)
        for (int g = 0; g < exec->mesh->ngroups; g++)
            exec->mesh->groups[g].transport->ops.progress(exec->mesh->groups[g].group, &ignored);
}

static void heard(struct wi_exec *exec, int peer, const struct wi_notice *notice)
{
    struct wi_notice n = *notice;
    weft_status status = passed_on((weft_status)n.status);
    const struct wi_op *oldest = wi_exec_oldest(exec);
    const struct weft_op_info *own = oldest ? &oldest->info : NULL;
    int names_another = n.culprit >= 0 && n.culprit < exec->nranks && n.culprit != exec->rank;
    const struct wi_op *op =
        is_message(&n.info) ? NULL : wi_exec_collective(exec, n.info.seq); /* messages are numbered apart */
    char text[160], first[sizeof n.text + 64];

    wi_text_sanitize(n.text, sizeof n.text);
    failed_in_text(&n.info, text, sizeof text);
    if (n.status == WEFT_EMISMATCH && op && differ(exec, &op->info, &n.info))
        wi_exec_disagree(exec, peer, &op->info, &n.info);
    else if (n.status == WEFT_ETIMEDOUT && n.culprit == exec->rank)
        wi_exec_blamed(exec, peer, text);
    else if (names_another && status == WEFT_EPEER && n.relayed)
        fail_relayed(exec, status, n.culprit, own, n.text, "%s", n.text);
    else if (names_another)
        fail_relayed(exec, status, n.culprit, own, n.text, "rank %d gave up in %s because of rank %d: %s", peer, text,
                     n.culprit, n.text);
    else if (n.status == WEFT_EABORTED) {
        snprintf(first, sizeof first, "%s: %s", weft_status_text(WEFT_EABORTED), n.text);
        fail_relayed(exec, WEFT_EPEER, peer, own, first, "rank %d gave up in %s: %s", peer, text, first);
    } else
        fail_relayed(exec, n.status == WEFT_EMISMATCH ? WEFT_EMISMATCH : WEFT_EPEER, peer, own, n.text,
                     "rank %d gave up in %s: %s", peer, text, n.text);
}

void wi_exec_read_notices(struct wi_exec *exec)
{
    if (exec->all_mapped)
        return;
    for (int r = 0; r < exec->nranks && !exec->broken; r++) {
        struct wi_pend *p = exec->peers[r].notice;
        if (p && p->x.state == WEFT_SUCCESS)
            heard(exec, r, exec->peers[r].notice_buf);
    }
}

/* The peer may have said why before it left. */
void wi_exec_transport_failed(struct wi_exec *exec, int status, const struct weft_peer_failure *failure,
                              const struct weft_op_info *info)
{
    wi_exec_read_notices(exec);
    if (!exec->broken && info && (failure->status == WEFT_EABORTED || status == WEFT_EABORTED))
        wi_exec_compare_boards(exec, info);
    if (failure->status < 0)
        status = failure->status;
    wi_exec_fail(exec, (weft_status)status, failure->peer, info, "%s",
                 failure->peer >= 0 ? failure->text : wi_fail_text());
}
