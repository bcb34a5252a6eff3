/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor of one communicator: runs sealed schedules over the mesh.
 *
 * Threads: functions are called with the communicator's lock held. Exceptions, which any thread may call without it: wi_exec_nudge,
 * wi_exec_abort, wi_exec_error; and wi_exec_begin_stores, wi_exec_end_stores, wi_exec_put (threads of an engine).
 *
 * An operation runs in fragments, each a slice of every block from the first step to the last, through one program or a pipeline of
 * them (op.h). Steps with messages are cut into slices that stream; sends are posted without waiting, and what would overwrite
 * what a pending send still reads lands in a bounce buffer first. Several operations may be in flight: each fragment that sends
 * messages has a window of channels, of WI_OP_WINDOW the next in turn. A fragment of an operation with mapped
 * programs is one epoch (weft_plugin.h); mapped operations run one at a time, in order.
 */
#ifndef WI_EXEC_EXEC_H
#define WI_EXEC_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/engine.h"
#include "exec/match.h"
#include "exec/op.h"
#include "exec/autotune.h"
#include "net/mesh.h"

#define WI_CHAN_P2P (WI_OP_WINDOW * WI_SCHED_MAX_CHANS)
#define WI_CHAN_INTERNAL (WI_CHAN_P2P + 1) /* derived communicators exchange here */
#define WI_CHAN_NOTICE (WI_CHAN_P2P + 2)   /* failures are announced here */
#define WI_CHAN_TAG (WI_CHAN_P2P + 3)      /* messages with tags; see match.h */
#define WI_CHAN_CTS (WI_CHAN_P2P + 4)
#define WI_CHAN_RNDV (WI_CHAN_P2P + 5)
#define WI_RECV_AHEAD 8
#define WI_FUSED_COPY_MIN_BYTES (16u << 10) /* below, an earlier signal is worth more than one pass */

#define WI_LL_EPOCH_MASK 0xffffffffffull /* of weft_ll_line.seq: epoch + 1; above it, what is being done */

/* Shorter parts travel in packed messages (packed.c), others directly to their destination. */
#define WI_PACK_BELOW (16u << 10)

/* The newest failure of a communicator. */
struct wi_error {
    weft_status status;
    int peer;
    uint64_t seq;
    const char *operation;
    char host[64];
    char message[768];
    char advice[192];
};

struct wi_notice {
    int32_t status, culprit;
    struct weft_op_info info;
    char text[184];
    uint32_t relayed; /* the text is what the sender received itself: it names the rank that gave up first */
    uint32_t reserved;
};

struct wi_exec_peer {
    const struct weft_transport_ops *ops;
    void *group;
    uint32_t send_seq, recv_seq; /* of point-to-point messages without a tag */
    struct wi_match_peer *match; /* of those with one; NULL: there was none yet */
    struct wi_pend *notice;      /* posted receive, once the peer is used over a transport with no board */
    struct wi_notice *notice_buf;
};

struct wi_exec {
    struct wi_mesh *mesh; /* borrowed */
    int rank, nranks;
    pid_t process; /* that made it */
    /* Fast path, mapped groups. */
    struct weft_mapped map;   /* copy; ranks NULL if not mapped */
    const int32_t *map_ranks; /* [nmapped]: who is in the group, this rank too; of the mesh */
    int nmapped, all_mapped;
    const struct weft_transport_ops *map_ops;
    void *map_group;
    uint64_t next_epoch, done_seen;                 /* every rank's done is at least done_seen */
    unsigned char *ll_received;                      /* [nranks * ll_bytes] */
    unsigned char *ll_own;                          /* [ll_bytes] */
    const unsigned char *ll_tmp[WI_REDUCE_MAX_SRC]; /* by rank: what was fetched in this operation */
    size_t ll_bytes;                                /* payload of one rank's ll slot */
    uint32_t spin;                                  /* polls before the first yield; 0 when oversubscribed */
    uint32_t spin_elsewhere;                        /* when oversubscribed: polls while only other cores are awaited */
    uint32_t yields;                                /* before the first sleep */
    uint64_t patience_ns;                           /* least time before it, however many yields that takes */
    uint64_t waiting_since_ns;                      /* of the newest wait */
    /* Operations in flight, each list oldest first: collectives that have begun and those that have not, messages. */
    struct wi_op_list running, waiting, messages;
    struct wi_op *upcoming[2]; /* messages that two walks over the list come to next: run.c */
    uint32_t nops; /* stored to with the executor held; others may look: wi_exec_is_idle */
    uint32_t next_window; /* of channels, to be taken */
    uint64_t nissued;
    uint32_t nunpolled;         /* issued since all were polled */
    uint64_t op_polls;          /* of operations, all or one at a time: tests count work by it */
    uint32_t next_seq;          /* of collectives */
    uint32_t digest;            /* of all collectives so far; part of the next one's hash, see wi_exec_number */
    struct wi_exec_peer *peers; /* [nranks] */
    struct wi_pend *free_pends, *kept_pends;
    struct wi_fragment *free_fragments;
    struct wi_engine *engine;           /* owned */
    struct wi_work *posted, *free_works; /* newest first */
    size_t budget_used;                 /* bytes of local work in this call of wi_exec_progress_budgeted */
    int has_budget;                     /* inside of it */
    _Atomic int worked;          /* since the last nap work has ended elsewhere */
    pthread_mutex_t stores_lock; /* innermost: of nstores, and this rank's word of it: put.c */
    uint32_t nstores;
    void (*tell)(void *arg); /* of the configuration */
    void *tell_arg;
    struct wi_op *self_sends, *self_recvs; /* to this rank itself, oldest first */
    struct wi_pend *notices_out;
    /* Messages with tags (match.c): receives that wait for theirs, in order of issue; sends that wait for a CTS; empty
     * messages under way; what was counted. */
    struct wi_op *wanting, **wanting_end;
    uint32_t nawaiting_cts;
    struct wi_pend *control;
    uint64_t arrivals, orders;
    size_t eager_bytes, early_bytes;
    struct wi_recorder recorder;
    struct wi_kept_name *names; /* of schedules that are gone, for the recorder */
    struct wi_label *labels;    /* of calls; NULL: there was none */
    struct wi_autotune store_tuning;
    const char *(*algorithm_named)(int kind, uint32_t named); /* of the configuration */
    uint64_t timeout_ns;
    _Atomic int napping; /* the lock's holder sleeps, or is about to */
    _Atomic int nudged;  /* it should not: another thread wants the lock */
    _Atomic int nudge_fd; /* readable when nudged; -1: nobody sleeps on one (nudge.h) */
    uint32_t nudge_tries;
    _Atomic int abort_requested;
    _Atomic(const char *) abort_reason; /* the first one; set before abort_requested */
    weft_status broken;                 /* < 0: the communicator can only be destroyed */
    int quiet;                          /* since then the transports have been asked to leave memory alone, and */
    int touched;                        /* one of them could not */
    struct wi_error error; /* the comm's lock and this one are held to write it: either will do to read it */
    pthread_mutex_t error_lock;
    uint64_t last_check_ns, last_check_queued_ns;
    uint32_t contended; /* others wanted this core lately: yields until that is forgotten */
    char name[64];
    const _Atomic int *wanted; /* these three: of the configuration */
    weft_status (*let_in)(void *arg, struct wi_op *op);
    void *let_in_arg;
    struct wi_engine rma;           /* of gets and puts that transports complete later: rma.h */
    struct wi_work *left_works;     /* of these: pending when this rank left; the transports' until their groups are destroyed */
};

struct wi_exec_config {
    const char *name;
    uint64_t timeout_ns;
    int64_t spin, yields;            /* -1: by the machine */
    size_t eager_bytes, early_bytes; /* of messages with tags: sent at once; put aside for each sender */
    const char *(*algorithm_named)(int kind,
                                   uint32_t named); /* the name of a hash, NULL: none that is known. May be NULL */
    /* While an operation that runs alone waits: how many threads want the executor, and how to let them have it. If it comes back
     * with a failure the executor may be used only as far as that call says. NULL: the executor is not shared. */
    const _Atomic int *wanted;
    weft_status (*let_in)(void *arg, struct wi_op *op);
    void *let_in_arg;
    struct wi_engine *engine; /* owned by the executor, also when creating that fails; NULL: there was no memory */
    /* From any thread: work has ended elsewhere; wake threads that sleep until the executor moves. NULL: there are none. */
    void (*tell)(void *arg);
    void *tell_arg;
};

weft_status wi_exec_create(struct wi_mesh *mesh, const struct wi_exec_config *config, struct wi_exec **exec);
/* Pending operations end with WEFT_ECANCELED. */
void wi_exec_destroy(struct wi_exec *exec);

/* Before issue, of an operation whose schedule is known, two-sided and without reductions, and whose blocks have extents: its
 * messages are packed, with what is shorter than `below` bytes in them. */
weft_status wi_packing_create(struct wi_op *op, size_t below);
/* Begin. On failure to begin the operation is not taken, except that a broken executor completes it with its status. Fills
 * info.seq. The op must stay where it is until its state is DONE. */
weft_status wi_exec_issue(struct wi_exec *exec, struct wi_op *op);
/* Advance everything, of very many messages only some, but `awaited` (NULL: none) in any case. Returns the number of operations
 * that are still in flight; *moved (NULL: not asked for) tells whether anything did. */
uint32_t wi_exec_progress(struct wi_exec *exec, struct wi_op *awaited, int *moved);
/* Likewise, with a budget of local work (WI_ENGINE_CHUNK), after which it returns: other executors may wait for this thread. */
uint32_t wi_exec_progress_budgeted(struct wi_exec *exec, struct wi_op *awaited, int *moved);
struct wi_op *wi_exec_oldest(const struct wi_exec *exec);                   /* NULL: none is in flight */
struct wi_op *wi_exec_collective(const struct wi_exec *exec, uint32_t seq); /* in flight; NULL: there is none */
/* Of the collectives that must be further before op begins, the oldest; NULL: it waits for none. */
struct wi_op *wi_exec_held_by(const struct wi_exec *exec, const struct wi_op *op);
/* Block until op is done; its status. */
weft_status wi_exec_wait(struct wi_exec *exec, struct wi_op *op);
/* Likewise, but another thread that wants the executor comes first: 0, and op may be unfinished. */
int wi_exec_wait_unless_wanted(struct wi_exec *exec, struct wi_op *op);
/* A schedule may be freed now: what the recorder says of it is kept. */
void wi_exec_keep_name(struct wi_exec *exec, const struct wi_sched *sched);
/* One round of waiting for an operation that did not move: spin, then yield, then sleep, with the slow checks. Returns the
 * executor's status. */
weft_status wi_exec_pause(struct wi_exec *exec, struct wi_op *op);
/* Polls before the first yield. */
static inline uint32_t wi_exec_spins(const struct wi_exec *exec)
{
    return exec->contended ? exec->spin >> 6 : exec->spin;
}

/* An operation that runs alone is not queued, unless others let in while it waits must find it: between these. */
void wi_exec_queue_alone(struct wi_exec *exec, struct wi_op *op);

/* A mapped operation with nothing else in flight, start to end; op is not queued. */
weft_status wi_exec_run_alone(struct wi_exec *exec, struct wi_op *op);

/* From any thread, no lock: a thread that sleeps with the lock returns from its pause. */
void wi_exec_nudge(struct wi_exec *exec);

/* From any thread, no lock: the next look at the flag breaks the executor. */
void wi_exec_abort(struct wi_exec *exec, const char *reason); /* the reason outlives the executor */

/* The newest failure: read it from any thread; replace it with the communicator's lock held. */
void wi_exec_error(struct wi_exec *exec, struct wi_error *copy);
void wi_exec_error_set(struct wi_exec *exec, const struct wi_error *error);
/* Record a failure and, when it concerns the communicator, break it: all operations end, peers are notified. */
weft_status wi_exec_fail(struct wi_exec *exec, weft_status status, int peer, const struct weft_op_info *info,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "all_reduce #12 (sum of 1048576 float, root 0)". */
void wi_op_info_text(const struct weft_op_info *info, char *text, size_t capacity);
void wi_op_finish(struct wi_exec *exec, struct wi_op *op, weft_status status);
/* Free what a finished operation still holds. In a broken executor that is only allowed once the mesh is destroyed, because
 * transports may still refer to its transfers. */
void wi_op_release(struct wi_exec *exec, struct wi_op *op);

/* Inside the executor. */
void wi_op_list_init(struct wi_op_list *list);
void wi_op_link(struct wi_exec *exec, struct wi_op_list *list, struct wi_op *op);
void wi_op_unlink(struct wi_exec *exec, struct wi_op *op);
int wi_exec_run(struct wi_exec *exec, struct wi_op *awaited); /* moved? */
void wi_exec_begin_new(struct wi_exec *exec, struct wi_op *op);
int wi_exec_take_self(struct wi_exec *exec, struct wi_op *recv); /* from a send to itself: 1, and both are done */
void wi_fragment_put(struct wi_exec *exec, struct wi_fragment *fragment);
/* Begin op: nothing of it runs yet. Advance it; moved? It has ended when no fragment is in flight or to come. */
void wi_op_begin(struct wi_exec *exec, struct wi_op *op);
int wi_op_advance(struct wi_exec *exec, struct wi_op *op);
static inline int wi_op_is_through(const struct wi_op *op)
{
    return !op->run.first && op->run.begun == op->bind.nfragments;
}
/* lane.c: one lane of a fragment; moved? */
int wi_lane_run(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane);
/* Is the step's dependency met, in this slice? */
static inline int wi_lane_dep_met(const struct wi_fragment *f, int32_t lane, uint32_t step, uint32_t slice)
{
    const struct wi_lane_state *other;

    if (lane == WI_NO_DEP)
        return 1;
    other = &f->lane[lane];
    return other->done || other->step > step || (other->step == step && other->slice > slice);
}
/* For threads that do not hold the executor: it has, or had a moment ago, no operation. */
static inline int wi_exec_is_idle(const struct wi_exec *exec)
{
    return __atomic_load_n(&exec->nops, __ATOMIC_RELAXED) == 0;
}
/* Is the budget of wi_exec_progress_budgeted spent? Then something has been done. */
static inline int wi_exec_budget_spent(const struct wi_exec *exec)
{
    return exec->has_budget && exec->budget_used >= WI_ENGINE_CHUNK;
}
/* local.c: copy or reduce the slice of the unit that a lane is at. 1: done, 0: it must wait, for an engine or for a pending send
 * that still reads where it would go, < 0: failed. */
int wi_local_run(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane,
                 const struct wi_prog_step *step, int *moved);
/* packed.c: one step of a lane. 1: done, 0: must wait, < 0: failed. */
int wi_packed_step(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *fragment, uint32_t lane,
                   const struct wi_prog_step *step);
void wi_packing_free(struct wi_op *op);
void wi_op_begin_stores(struct wi_exec *exec, struct wi_op *op);
void wi_op_end_stores(struct wi_exec *exec, struct wi_op *op);
/* Are both copies of a fused copy (WI_STEP_FUSED_COPY) made in one pass? The answer is the same at both steps. */
static inline int wi_op_fuses_copies(const struct wi_op *op, size_t bytes)
{
    return !op->run.slot_nt && !op->bind.nt && !op->bind.get && bytes >= WI_FUSED_COPY_MIN_BYTES;
}
void wi_claim_slot(const struct wi_exec *exec, uint64_t epoch, size_t bytes);
/* 1: the epoch's slot, in a ring of `depth` slots, is free: every rank has finished the epoch that used it before */
int wi_exec_slot_free(struct wi_exec *exec, uint64_t epoch, uint32_t depth, struct wi_op *op);
/* gate.c. Close a gate before op is issued, or when the last one has opened; `timeout_ns`: from now on, 0: the operation's. */
void wi_gate_close(struct wi_exec *exec, struct wi_op *op, const struct wi_gate_ops *ops, void *arg, uint64_t timeout_ns);
int wi_gate_poll(struct wi_exec *exec, struct wi_op *op); /* of a closed gate; moved? */
/* An operation that runs alone has none, and says nothing of it. */
static inline int wi_op_is_gated(const struct wi_op *op)
{
    return !op->run.alone && op->gate.ops;
}
/* Behind a gate that all ranks have: this is what was planned (wi_plan_named), which is compared from now on. */
void wi_exec_planned(struct wi_exec *exec, struct wi_op *op, uint32_t planned);
/* Behind such a gate, before that: what will be planned needs an exchange of buffers, for which all ranks must come. */
void wi_exec_exchanges(struct wi_exec *exec, struct wi_op *op);
weft_status wi_exec_check(struct wi_exec *exec, struct wi_op *op); /* slow path: abort, peers, deadline, boards */
/* Fail because a peer called something else; both sides are named. */
void wi_exec_disagree(struct wi_exec *exec, int peer, const struct weft_op_info *ours,
                      const struct weft_op_info *theirs);
/* What a rank of the mapped group does at op's place is not what this one does. */
void wi_exec_differs(struct wi_exec *exec, const struct wi_op *op, int rank);
/* A peer's deadline passed while it waited for this rank: say whom this one waits for. */
void wi_exec_blamed(struct wi_exec *exec, int peer, const char *operation);
weft_status wi_exec_compare_boards(struct wi_exec *exec, const struct weft_op_info *info);
/* put.c: store into a peer's private memory; once this rank's board says that it gave up, wait until no peer stores here. */
weft_status wi_exec_put(struct wi_exec *exec, int rank, void *remote, const void *src, size_t bytes);
void wi_exec_await_puts(struct wi_exec *exec);
/* A broken executor, before buffers go back: until no transport touches them any more, or the error says that one may. */
void wi_exec_quiesce(struct wi_exec *exec);
/* The same for one operation that has failed by itself. An engine that does not stop breaks the executor: its status. */
weft_status wi_exec_quiesce_op(struct wi_exec *exec, const struct wi_op *op);
/* Around stores to mapped buffers of other ranks, of the operands dst, likewise, in any thread. WEFT_EPEER: one of them gave up. */
weft_status wi_exec_begin_stores(struct wi_exec *exec, const struct wi_operand *dst, uint32_t ndst);
void wi_exec_end_stores(struct wi_exec *exec);
int wi_exec_gone(const struct wi_exec *exec, const struct wi_operand *dst, uint32_t ndst); /* which; -1: none */
/* A transport could not copy from or to a peer's memory in the middle of an operation, which other ranks wait for: whatever the
 * reason, that is the end of the communicator. */
weft_status wi_exec_copy_failed(struct wi_exec *exec, const struct wi_op *op, weft_status status, int rank,
                                const char *doing);
void wi_exec_leave(struct wi_exec *exec); /* the communicator is destroyed, perhaps with operations in flight */
void wi_exec_cancel(struct wi_exec *exec,
                    const char *reason); /* end these, for those who wait for them; peers know already */
void wi_exec_board_failed(struct wi_exec *exec, weft_status status, int culprit);
void wi_exec_board(struct wi_exec *exec, const struct weft_op_info *info);
struct wi_pend *wi_pend_get(struct wi_exec *exec);
void wi_pend_put(struct wi_exec *exec, struct wi_pend *p);
void wi_exec_use_peer(struct wi_exec *exec, int peer);
void wi_exec_announce(struct wi_exec *exec, weft_status status, int culprit, const struct weft_op_info *info,
                      int relayed, const char *cause);
void wi_exec_read_notices(struct wi_exec *exec);
/* A transport's progress failed; `info` NULL: no operation is running. */
void wi_exec_transport_failed(struct wi_exec *exec, int status, const struct weft_peer_failure *failure,
                              const struct weft_op_info *info);
size_t wi_exec_waiting_for(const struct wi_op *op, int *ranks, size_t capacity);

/* Give a collective its number. Its hash also covers every earlier collective: an operation in which some ranks wait for
 * no other (a broadcast's root) cannot notice that ranks disagreed about it, but the next one that exchanges anything does. */
static inline void wi_exec_number(struct wi_exec *exec, struct weft_op_info *info)
{
    uint64_t w[3];

    info->seq = ++exec->next_seq;
    __builtin_memcpy(w, info, sizeof w);
    info->hash ^= exec->digest;
    w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull ^ w[2] * 0xc2b2ae3d27d4eb4full) * 0xff51afd7ed558ccdull;
    exec->digest = exec->digest * 31 + (uint32_t)(w[0] >> 32);
}

#endif
