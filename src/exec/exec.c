/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: creation, issue, progress, end of operations. */
#include "exec/exec.h"
#include "exec/nudge.h"
#include "exec/label.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "exec/rma.h"

struct wi_kept_name {
    struct wi_kept_name *next;
    char text[sizeof((struct wi_sched *)0)->algo];
};

/* ---- Creation ---- */

#define SPIN_ELSEWHERE 300u
#define PATIENCE_NS 400000

/* Transports need not know where their ranks run. */
static int knows_processors(const struct wi_exec *exec)
{
    for (int i = 0; i < exec->nmapped; i++)
        if (!exec->map.ranks[exec->map_ranks[i]].processor)
            return 0;
    return 1;
}

static int power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

static weft_status init_mapped(struct wi_exec *exec)
{
    struct wi_mesh *mesh = exec->mesh;

    if (!mesh->mapped_group)
        return WEFT_SUCCESS;
    exec->map = mesh->mapped;
    exec->map_ops = &mesh->mapped_group->transport->ops;
    exec->map_group = mesh->mapped_group->group;
    exec->map_ranks = mesh->map_ranks;
    exec->nmapped = mesh->nmapped;
    exec->all_mapped = mesh->all_mapped;
    exec->ll_bytes = exec->map.ll_lines * sizeof(((struct weft_ll_line *)0)->payload);
    if (!power_of_two(exec->map.depth) || !power_of_two(exec->map.ll_depth))
        return wi_fail(WEFT_EPLUGIN, "transport %s offers %u slots and %u of ll lines, which must be powers of two",
                       mesh->mapped_group->transport->plugin->name, exec->map.depth, exec->map.ll_depth);
    if (exec->map.slot_bytes < WEFT_SLOT_MIN_BYTES(exec->nmapped))
        return wi_fail(WEFT_EPLUGIN, "transport %s offers slots of %zu bytes; %d ranks need %zu",
                       mesh->mapped_group->transport->plugin->name, exec->map.slot_bytes, exec->nmapped,
                       WEFT_SLOT_MIN_BYTES(exec->nmapped));
    if (!knows_processors(exec))
        exec->spin_elsewhere = 0;
    exec->ll_received = wi_aligned_alloc(64, (size_t)(exec->nranks + 1) * exec->ll_bytes);
    exec->ll_own = exec->ll_received + (size_t)exec->nranks * exec->ll_bytes;
    return exec->ll_received ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "area for received ll lines");
}

weft_status wi_exec_create(struct wi_mesh *mesh, const struct wi_exec_config *config, struct wi_exec **out)
{
    struct wi_exec *exec = wi_calloc(1, sizeof *exec);
    weft_status st;

    if (!exec) {
        if (config->engine)
            config->engine->ops->destroy(config->engine);
        return wi_fail(WEFT_ENOMEM, "executor");
    }
    exec->mesh = mesh;
    exec->engine = config->engine;
    exec->rma.ops = &wi_rma_ops;
    exec->tell = config->tell;
    exec->tell_arg = config->tell_arg;
    exec->rank = mesh->rank;
    exec->process = getpid();
    pthread_mutex_init(&exec->error_lock, NULL);
    pthread_mutex_init(&exec->stores_lock, NULL);
    exec->nranks = mesh->nranks;
    wi_op_list_init(&exec->running);
    wi_op_list_init(&exec->waiting);
    wi_op_list_init(&exec->messages);
    exec->nudge_fd = -1;
    wi_nudge_hold();
    exec->wanting_end = &exec->wanting;
    exec->algorithm_named = config->algorithm_named;
    exec->wanted = config->wanted;
    exec->let_in = config->let_in;
    exec->let_in_arg = config->let_in_arg;
    exec->early_bytes = config->early_bytes;
    exec->eager_bytes = config->eager_bytes < config->early_bytes / 4 ? config->eager_bytes : config->early_bytes / 4;
    exec->timeout_ns = config->timeout_ns;
    exec->spin = config->spin >= 0 ? (uint32_t)config->spin : mesh->oversubscribed ? 0 : 2000;
    exec->spin_elsewhere = config->spin < 0 && mesh->oversubscribed ? SPIN_ELSEWHERE : 0;
    exec->yields = config->yields >= 0 ? (uint32_t)config->yields : mesh->oversubscribed ? 200 : 100;
    exec->patience_ns = config->yields < 0 && !mesh->oversubscribed ? PATIENCE_NS : 0;
    exec->next_epoch = 1; /* untouched arenas hold 0 */
    exec->done_seen = 0;
    strncpy(exec->name, config->name, sizeof exec->name - 1);
    exec->peers = wi_calloc((size_t)exec->nranks, sizeof *exec->peers);
    st = exec->peers && exec->engine ? init_mapped(exec) : wi_fail(WEFT_ENOMEM, "executor");
    if (st < 0) {
        wi_exec_destroy(exec);
        return st;
    }
    for (int r = 0; r < exec->nranks; r++) {
        exec->peers[r].ops = mesh->links[r].ops;
        exec->peers[r].group = mesh->links[r].group;
    }
    *out = exec;
    return WEFT_SUCCESS;
}

void wi_exec_destroy(struct wi_exec *exec)
{
    struct wi_pend *p, *next;

    if (!exec)
        return;
    wi_engine_leave(exec);
    if (exec->posted) /* what touches memory still refers to all of it */
        return;
    wi_engine_destroy(exec);
    for (int r = 0; exec->peers && r < exec->nranks; r++) {
        if (exec->peers[r].notice)
            wi_pend_put(exec, exec->peers[r].notice);
        wi_free(exec->peers[r].notice_buf);
    }
    wi_match_free(exec);
    for (p = exec->notices_out; p; p = next) {
        next = p->next;
        wi_pend_put(exec, p);
    }
    for (p = exec->free_pends; p; p = next) {
        next = p->next;
        wi_free(p);
    }
    for (p = exec->kept_pends; p; p = next) {
        next = p->next;
        wi_free(p->bounce);
        wi_free(p);
    }
    while (exec->free_fragments) {
        struct wi_fragment *f = exec->free_fragments;
        exec->free_fragments = f->next;
        wi_free(f);
    }
    wi_nudge_release();
    while (exec->names) {
        struct wi_kept_name *name = exec->names;
        exec->names = name->next;
        wi_free(name);
    }
    wi_labels_free(exec);
    wi_free(exec->peers);
    wi_free(exec->ll_received);
    wi_free(exec);
}

/* ---- The end of an operation ---- */

static void put_pends(struct wi_exec *exec, struct wi_pend *p)
{
    for (struct wi_pend *next; p; p = next) {
        next = p->next;
        wi_pend_put(exec, p);
    }
}

static void release_fragments(struct wi_exec *exec, struct wi_op *op)
{
    for (struct wi_fragment *f = op->run.first, *next; f; f = next) {
        next = f->next;
        for (uint32_t l = 0; l < f->prog->nlanes; l++) {
            put_pends(exec, f->lane[l].sends);
            put_pends(exec, f->lane[l].recvs);
        }
        wi_fragment_put(exec, f);
    }
    op->run.first = NULL;
}

void wi_op_release(struct wi_exec *exec, struct wi_op *op)
{
    release_fragments(exec, op);
    if (op->match.message)
        wi_pend_put(exec, op->match.message);
    op->match.message = NULL;
    wi_packing_free(op);
    if (op->bind.sched &&
        __atomic_load_n(&op->bind.sched->refs, __ATOMIC_RELAXED) == 1) /* it was dropped from the cache meanwhile */
        wi_exec_keep_name(exec, op->bind.sched);
    wi_sched_put(op->bind.sched);
    op->bind.sched = NULL;
    for (uint32_t i = 0; i < op->bind.nstages; i++) {
        wi_prog_put(op->bind.stage[i]);
        op->bind.stage[i] = NULL;
    }
    op->bind.nstages = 0;
    for (size_t i = 0; i < sizeof op->owned / sizeof *op->owned; i++) {
        wi_free(op->owned[i]);
        op->owned[i] = NULL;
    }
}

void wi_op_finish(struct wi_exec *exec, struct wi_op *op, weft_status status)
{
    if (op->state == WI_OP_DONE)
        return;
    if (exec->broken)
        wi_exec_quiesce(exec);
    else if (status < 0 && wi_exec_quiesce_op(exec, op) < 0)
        status = exec->broken;
    wi_op_unlink(exec, op);
    op->status = status;
    if (op->record && op->record->serial == op->record_serial && !op->prelude_of) {
        op->record->ticks_done = wi_ticks();
        op->record->state = status < 0 ? WI_RECORD_FAILED : WI_RECORD_DONE;
    }
    if (!exec->broken && status >= 0)
        wi_op_release(exec, op);
    op->state = WI_OP_DONE;
    if (op->finished)
        op->finished(op, op->finished_arg);
}

static void finish_all(struct wi_exec *exec)
{
    for (struct wi_op *op; (op = wi_exec_oldest(exec));)
        wi_op_finish(exec, op, exec->broken);
    while (exec->self_sends) {
        struct wi_op *op = exec->self_sends;
        exec->self_sends = op->next;
        wi_op_finish(exec, op, exec->broken);
    }
    while (exec->self_recvs) {
        struct wi_op *op = exec->self_recvs;
        exec->self_recvs = op->next;
        wi_op_finish(exec, op, exec->broken);
    }
}

/* ---- Messages of a rank to itself ---- */

static void match_self(struct wi_exec *exec, struct wi_op *send, struct wi_op *recv)
{
    struct weft_op_info called = recv->info;
    weft_status st = WEFT_SUCCESS;

    called.kind = WI_COLL_RECV;
    recv->match.got_source = exec->rank;
    recv->match.got_tag = send->match.tag;
    if (send->bind.total_bytes > recv->bind.total_bytes)
        st = wi_exec_fail(exec, WEFT_ETRUNC, exec->rank, &called, "the message is longer (%zu bytes) than the buffer",
                          send->bind.total_bytes);
    else
        memmove(recv->bind.base[WI_DST], send->bind.base[WI_SRC], send->bind.total_bytes);
    wi_op_finish(exec, send, WEFT_SUCCESS);
    wi_op_finish(exec, recv, st);
}

/* Take the oldest match of op off the other side's list. */
static struct wi_op *take_self(struct wi_exec *exec, const struct wi_op *op)
{
    for (struct wi_op **at = op->match.sending ? &exec->self_recvs : &exec->self_sends; *at; at = &(*at)->next) {
        struct wi_op *other = *at, *wild;
        const struct wi_op *recv = op->match.sending ? other : op, *send = op->match.sending ? op : other;
        if (!wi_match_takes(exec->rank, recv->match.tag, exec->rank, send->match.tag))
            continue;
        wild = op->match.sending ? wi_match_self(exec, op->match.tag, other->match.order) : NULL;
        if (wild)
            return wild;
        *at = other->next;
        return other;
    }
    return op->match.sending ? wi_match_self(exec, op->match.tag, UINT64_MAX) : NULL;
}

int wi_exec_take_self(struct wi_exec *exec, struct wi_op *recv)
{
    struct wi_op *send = take_self(exec, recv);

    if (send)
        match_self(exec, send, recv);
    return send != NULL;
}

static void issue_self(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_op **mine = op->match.sending ? &exec->self_sends : &exec->self_recvs, *other = take_self(exec, op);

    op->state = WI_OP_RUNNING;
    if (other) {
        match_self(exec, op->match.sending ? op : other, op->match.sending ? other : op);
        return;
    }
    while (*mine)
        mine = &(*mine)->next;
    op->next = NULL;
    *mine = op;
}

/* ---- Issue ---- */

/* Of a call that is not coded after all, the codec is still known. */
static void record_codec(const struct wi_coding *coding, struct wi_record *e)
{
    char text[WI_CODEC_TEXT_MAX];

    e->has_codec = coding->codec != NULL;
    e->tensor = coding->tensor;
    e->bypassed = wi_coding_is_bypassed(coding);
    if (coding->codec)
        snprintf(e->codec, sizeof e->codec, "%s", wi_codec_text(coding->codec, text, sizeof text));
}

/* What a prelude has made is its operation's, too. */
static void share_with_prelude(struct wi_op *op)
{
    if (!op->prelude_of)
        return;
    op->prelude_of->has_prelude = 1;
    op->prelude_of->info = op->info;
    op->prelude_of->record = op->record;
    op->prelude_of->record_serial = op->record_serial;
}

static void record_issue(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_record *e = op->has_prelude ? op->record : wi_recorder_add(&exec->recorder);

    e->info = op->info;
    e->peer = op->match.point_to_point ? op->match.peer : -1;
    e->receives = op->match.point_to_point && !op->match.sending;
    e->label = op->bind.label;
    e->algo = op->bind.sched ? op->bind.sched->algo : op->match.point_to_point ? "p2p" : "";
    if (!op->has_prelude) {
        e->ticks_issued = wi_ticks();
        e->bytes_sent = 0;
    }
    e->ticks_done = 0;
    e->state = WI_RECORD_STARTED;
    record_codec(&op->bind.coding, e);
    op->record = e;
    op->record_serial = e->serial;
    share_with_prelude(op);
}

static const char *kept_name(struct wi_exec *exec, const char *text)
{
    struct wi_kept_name *name = exec->names;

    while (name && strcmp(name->text, text) != 0)
        name = name->next;
    if (name)
        return name->text;
    name = wi_malloc(sizeof *name);
    if (!name)
        return "";
    memcpy(name->text, text, sizeof name->text);
    name->next = exec->names;
    exec->names = name;
    return name->text;
}

void wi_exec_keep_name(struct wi_exec *exec, const struct wi_sched *sched)
{
    const char *kept = NULL;

    for (uint32_t i = 0; i < WI_RECORDER_ENTRIES; i++) {
        struct wi_record *e = &exec->recorder.ring[i];
        if (e->algo != sched->algo)
            continue;
        kept = kept ? kept : kept_name(exec, sched->algo);
        e->algo = kept;
    }
}

static void number_op(struct wi_exec *exec, struct wi_op *op)
{
    if (op->match.point_to_point) {
        struct wi_exec_peer *peer = &exec->peers[op->match.peer];
        op->info.kind = WI_COLL_SEND;
        op->info.root = 0;
        op->match.order = exec->orders++;
        if (op->match.by_tag) {
            op->info.flags = op->match.tag ? WI_INFO_TAG : 0;
            op->info.root = (uint32_t)op->match.tag;
            op->info.hash = (uint32_t)((uint64_t)op->match.tag >> 32);
            return;
        }
        op->info.seq = op->match.internal ? 0 : ++*(op->match.sending ? &peer->send_seq : &peer->recv_seq);
        return;
    }
    if (!op->has_prelude)
        wi_exec_number(exec, &op->info);
    wi_exec_board(exec, &op->info);
}

/* ---- Progress ---- */

static int progress_groups(struct wi_exec *exec)
{
    struct wi_mesh *mesh = exec->mesh;
    int moved = 0;

    for (int i = 0; i < mesh->ngroups && !exec->broken; i++) {
        struct weft_peer_failure failure = {.peer = -1};
        int n = mesh->groups[i].transport->ops.progress(mesh->groups[i].group, &failure);
        if (n < 0) {
            const struct wi_op *op = wi_exec_oldest(exec);
            wi_exec_transport_failed(exec, n, &failure, op ? &op->info : NULL);
            return 1;
        }
        moved |= n > 0;
    }
    return moved;
}

uint32_t wi_exec_progress(struct wi_exec *exec, struct wi_op *awaited, int *moved)
{
    int any = 0;

    if (!exec->broken) {
        any |= progress_groups(exec);
        if (!exec->broken)
            wi_exec_read_notices(exec);
        if (!exec->broken && (exec->wanting || exec->nawaiting_cts || exec->control))
            any |= wi_match_progress(exec);
        any |= wi_exec_run(exec, awaited);
    }
    if (exec->broken && (exec->nops || exec->self_sends || exec->self_recvs)) {
        finish_all(exec);
        any = 1;
    }
    if (moved)
        *moved = any;
    return exec->nops;
}

uint32_t wi_exec_progress_budgeted(struct wi_exec *exec, struct wi_op *awaited, int *moved)
{
    uint32_t left;

    exec->has_budget = 1;
    exec->budget_used = 0;
    left = wi_exec_progress(exec, awaited, moved);
    exec->has_budget = 0;
    return left;
}

weft_status wi_exec_issue(struct wi_exec *exec, struct wi_op *op)
{
    int to_self = op->match.point_to_point && op->match.peer == exec->rank;

    op->status = WEFT_INPROGRESS;
    op->wait.word = NULL;
    op->wait.rounds = 0;
    op->deadline_ns = 0;
    op->run.epoch = 0;
    op->run.first = NULL;
    if (!op->has_prelude)
        op->record = NULL;
    op->number = ++exec->nissued;
    if (exec->broken) {
        op->state = WI_OP_QUEUED;
        wi_op_finish(exec, op, exec->broken);
        return exec->broken;
    }
    if (!op->timeout_ns)
        op->timeout_ns = exec->timeout_ns;
    /* A receive issued after one that may match the same message must not be posted where it would match first. */
    if (op->match.point_to_point && !op->match.sending && !op->match.by_tag && !to_self && !op->match.internal &&
        exec->wanting && wi_match_wanted(exec, op->match.peer))
        op->match.by_tag = 1;
    number_op(exec, op);
    record_issue(exec, op);
    if (to_self) {
        issue_self(exec, op);
        return WEFT_SUCCESS;
    }
    op->state = op->match.point_to_point ? WI_OP_RUNNING : WI_OP_QUEUED;
    wi_op_link(exec, op->match.point_to_point ? &exec->messages : &exec->waiting, op);
    if (op->match.point_to_point)
        wi_match_issue(exec, op);
    wi_exec_begin_new(exec, op);
    return WEFT_SUCCESS;
}

static int wait_for(struct wi_exec *exec, struct wi_op *op, const _Atomic int *wanted)
{
    int moved;

    op->wait.rounds = 0;
    while (op->state != WI_OP_DONE) {
        wi_exec_progress(exec, op, &moved);
        if (op->state == WI_OP_DONE)
            break;
        if (wanted && atomic_load_explicit(wanted, memory_order_relaxed))
            return 0;
        if (moved)
            op->wait.rounds = 0; /* parts of a long message, too: who yields or sleeps between them is late for each */
        else
            wi_exec_pause(exec, op);
    }
    return 1;
}

weft_status wi_exec_wait(struct wi_exec *exec, struct wi_op *op)
{
    wait_for(exec, op, NULL);
    return op->status;
}

int wi_exec_wait_unless_wanted(struct wi_exec *exec, struct wi_op *op)
{
    return wait_for(exec, op, exec->wanted);
}

void wi_exec_abort(struct wi_exec *exec, const char *reason)
{
    const char *none = NULL;

    atomic_compare_exchange_strong_explicit(&exec->abort_reason, &none, reason, memory_order_release,
                                            memory_order_relaxed);
    atomic_store_explicit(&exec->abort_requested, 1, memory_order_release);
    if (exec->map_group)
        exec->map_ops->wake(exec->map_group);
}
