/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, communicators, requests: what stands behind the public handles. */
#ifndef WI_COMM_COMM_H
#define WI_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/settings.h"
#include "exec/exec.h"
#include "exec/label.h"
#include "net/bootstrap.h"
#include "net/mesh.h"
#include "net/transports.h"
#include "plan/plan.h"
#include "comm/plans.h"
#include "topology/graph.h"
#include "topology/model.h"

#define WI_CONTEXT_MAGIC 0x57465458u
#define WI_COMM_MAGIC 0x57464d43u
#define WI_REQUEST_MAGIC 0x57465251u
#define WI_FORKED_MAGIC 0x5746464bu /* of any of them, in a forked child */

/* ---- Settings ---- */

struct wi_library_settings { /* WEFT_<NAME> */
    const char *log, *transports, *plugin_path, *algo, *plans, *tuning_file, *topo_file;
    const char *topo_discover, *compress;
    int progress_thread, measure_rates;
    int64_t workers;
    size_t mem_pool_bytes, worker_bytes;
};

struct wi_comm_settings { /* WEFT_COMM_<NAME> */
    uint64_t timeout_ns, init_timeout_ns;
    int64_t spin, yields;
    size_t slice_bytes, nt_bytes, eager_bytes, early_bytes;
    int dump_on_error;
    const char *dump_path;
};

/* ---- Context ---- */

/* The progress thread advances operations whose owner is not in a weft call. It sleeps while there are none. */
struct wi_progress {
    pthread_t thread;
    _Atomic int running; /* set when the thread and event_fd are there; read without comms_lock */
    int event_fd;        /* kicks the thread */
    _Atomic int asleep, wanted, stop;
    _Atomic uint32_t kicks; /* operations queued for it */
    _Atomic uint32_t callbacks; /* queued, by any thread */
    struct weft_comm *at, *next; /* that it looks at now, and after that; comms_lock */
    struct weft_comm *urgent, *next_urgent; /* likewise, of those that come first; urgent is NULL between such looks */
};

/* Threads that call what weft_request_on_complete was given; see complete.c. */
struct wi_completion;
struct wi_callers {
    pthread_mutex_t lock; /* of all below; innermost */
    pthread_cond_t more, gone;
    struct wi_completion *head, **tail;
    int nqueued, nthreads, idle, stop;
};

/* Memory of weft_mem_pool_alloc; see pool.c. */
struct wi_pool_block;
struct wi_pool {
    pthread_mutex_t lock; /* of all below */
    struct wi_pool_block *blocks;
    size_t nblocks, capacity;
    size_t reserved, kept; /* bytes of all blocks, and of those not in use */
};

void wi_pool_init(struct wi_pool *pool);
void wi_pool_fini(struct wi_pool *pool);
void wi_mem_blocks_fini(struct weft_context *ctx); /* before the transports are closed */

/* Memory of weft_mem_alloc that transports have registered, or that none of them made; and all that they have registered for the
 * program. */
struct wi_mem_blocks {
    pthread_mutex_t lock;
    struct wi_mem_block *first;
    struct wi_mem_handles *handles;
};
/* What that transport of the context gave for memory that the program has registered, or allocated, and that holds these bytes;
 * NULL: there is none. Valid until the program takes it back, which it must not do while an operation uses it. */
void *wi_mem_handle(struct weft_context *ctx, const struct wi_transport *transport, const void *ptr, size_t bytes);

struct weft_context {
    uint32_t magic;
    struct weft_context *next; /* of all of the process; fork.c */
    struct wi_settings *settings;
    struct wi_library_settings lib;
    struct wi_comm_settings comm;
    struct wi_bootstrap_settings bootstrap;
    struct wi_codec_use codec; /* of calls that name none; lib.compress */
    char key_misspelt[200]; /* what resembles a setting about keys and is none; "": nothing */
    struct wi_transports *transports;
    struct wi_node_id node;
    struct wi_plans *plans;       /* algorithms from files */
    uint64_t settings_hash;       /* and of what the tuning table and the topology file hold */
    struct wi_plan_table *tuning; /* NULL: none */
    struct wi_topo *topo;         /* of WEFT_TOPO_FILE; NULL: none */
    pthread_mutex_t comms_lock;   /* of the list, progress.at and next; never taken before a communicator's lock */
    struct weft_comm *comms;      /* by priority, the largest first; of one priority the newest first */
    struct wi_progress progress;
    struct wi_callers callers;
    struct wi_workers *workers; /* of the engines; NULL: none are wanted */
    _Atomic int registrations;   /* live weft_mem handles */
    struct wi_mem_blocks blocks; /* of weft_mem_alloc: memory.c */
    struct wi_pool pool;
};

/* What to add to "this is no such handle". */
static inline const char *wi_forked_text(uint32_t magic)
{
    return magic == WI_FORKED_MAGIC ? ": it is the parent's, and this process was forked; a child may exec or exit"
                                    : "";
}
/* WEFT_EINVAL: NULL, no context, or one of the process that this one was forked from. `call` begins the text. */
weft_status wi_context_check(const struct weft_context *ctx, const char *call);
/* fork.c: from now on a forked child's calls refuse the context, and its communicators and requests. */
void wi_fork_watch(struct weft_context *ctx);
void wi_fork_unwatch(struct weft_context *ctx);

void wi_context_link(struct weft_context *ctx, struct weft_comm *comm);
void wi_context_unlink(struct weft_context *ctx, struct weft_comm *comm);
weft_status wi_progress_start(struct weft_context *ctx);
void wi_progress_stop(struct weft_context *ctx);
void wi_progress_kick(struct weft_context *ctx);
void wi_progress_want(struct weft_context *ctx);
void wi_callers_init(struct weft_context *ctx);
weft_status wi_callers_stop(struct weft_context *ctx); /* WEFT_EBUSY: a call-back does not return */

/* Turns of communicators with a larger priority, at most, before one with a smaller one has a turn (wi_exec_progress_budgeted). */
#define WI_URGENT_TURNS 16

/* ---- Calls ---- */

/* One call of an operation: its arguments. */
struct wi_call {
    uint8_t coll; /* enum wi_coll */
    weft_dtype dtype;
    weft_op op;
    int root; /* or the peer; -1 none */
    const void *src;
    void *dst;
    size_t count;          /* of the vector, or of one share; SEND_RECV, GATHER_V, SCATTER_V: of what is sent here */
    size_t recv_count;     /* SEND_RECV, SCATTER_V */
    int recv_peer;         /* SEND_RECV */
    int64_t tag, recv_tag; /* of messages; recv_tag: SEND_RECV */
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* ---- Requests ---- */

/* Of a collective: phases.c. What comes next: */
enum wi_phase { WI_PHASE_GATE, WI_PHASE_EXCHANGE, WI_PHASE_PLAN, WI_PHASE_LAY_OUT, WI_PHASE_RUN };

struct wi_planning {
    uint8_t phase;
    uint8_t exchanged; /* the ranks exchange where their buffers are: exchange.c */
    uint8_t agreed;    /* it was behind a gate that all ranks have */
    uint8_t copy_path; /* enum wi_plan_copy_path: voted for */
    size_t share;      /* the largest share that is known of */
    struct wi_plan_query query;
    const struct wi_algo *file; /* from a file; NULL: none */
    struct wi_plan plan;
    struct wi_prog **programs;
    struct wi_exchange exchange;
};

/* A gate of the caller's, before all of that; ops NULL: none. */
struct wi_given_gate {
    const struct wi_gate_ops *ops;
    void *arg;
    uint64_t timeout_ns; /* 0: the operation's */
};

struct wi_residual;
struct wi_linear;
struct wi_batch;
struct weft_batch_item;

struct weft_request {
    uint32_t magic;
    uint8_t persistent, active, queued, nops; /* queued: in an open group */
    uint8_t internal;                         /* the library's own messages */
    uint8_t owned_by_group;                   /* made by a grouped blocking call */
    struct weft_comm *comm;
    struct wi_call call;                        /* as the user gave it */
    struct wi_call now;                         /* of the running operation: the source may be a copy */
    struct wi_op op[2];                         /* two for SEND_RECV */
    _Atomic int left;                           /* operations not finished */
    _Atomic(struct wi_completion *) completion; /* to be called at the end; or a mark that it has come */
    weft_status status;
    struct wi_given_gate given;
    struct wi_planning planning;        /* of op[0] */
    weft_call_options options;          /* of this operation; 0: none */
    char algorithm[WI_ALGO_SPEC_BYTES]; /* what options.algorithm points to */
    char label[WI_LABEL_BYTES];         /* the beginning of options.label, and */
    uint32_t label_hash;                /* what is compared of it; 0: none */
    struct wi_codec_use codec;    /* what options.codec says, or the communicator's */
    struct weft_codec warm;       /* in a warm-up: what it is coded with instead */
    struct wi_residual *residual; /* of the running operation; NULL: none */
    struct wi_batch *batch;       /* owned; NULL: it is of one tensor */
    struct wi_linear *linear;     /* likewise; NULL: its codec, if it has one, is not linear */
    struct wi_op *prelude_of; /* of a codec's agreement: the operation that it is for, whose call errors name; else NULL */
    uint8_t blocking;                   /* the call waits for it */
    uint8_t alone;                      /* a blocking call with nothing else in flight */
    uint8_t trial; /* enum wi_plan_copy_path: it is measured, for trial_share bytes, since then (ticks) */
    size_t trial_share;
    uint64_t trial_since;
    struct wi_exchanged *exchanged; /* keys of the running operation; NULL: none */
    size_t *counts_copy;           /* persistent v-forms */
    struct weft_request *next;     /* free list, group list */
    struct weft_request *all_next; /* every request of the communicator */
};

struct weft_request *wi_request_get(struct weft_comm *comm);                         /* without options */
weft_status wi_request_options(struct weft_request *req, const weft_call_options *options); /* copied; NULL: none */
void wi_request_put(struct weft_request *req);
void wi_request_free_all(struct weft_comm *comm);
/* WEFT_EINVAL: NULL, freed, or of the process that this one was forked from. */
weft_status wi_request_check(const struct weft_request *req);
weft_status wi_request_wait(struct weft_request *req, uint64_t until_ns);
/* Before an operation begins; when it ends: what is to be queued once it has; then that. */
void wi_completion_begin(struct weft_request *req);
struct wi_completion *wi_completion_take(struct weft_request *req);
void wi_completion_queue(struct weft_comm *comm, struct wi_completion *call, weft_status status);
void wi_completion_tell(struct weft_request *req); /* it ended without operations */
/* Issue the request's call; the communicator is entered. */
weft_status wi_request_issue(struct weft_request *req);

/* ---- Communicators ---- */

enum wi_lock { WI_FREE, WI_HELD, WI_DESTROYING };

#define WI_CACHED_PROGRAMS WI_STAGES_MAX /* through slots or by messages, and over ll lines; or of each stage */
struct wi_cached_sched {
    const struct wi_algo *algo;
    struct wi_hier_spec spec; /* of a hierarchical one */
    int root, in_place;
    size_t least; /* of a coded one: bytes of a block of the codec, for which a slot of its stages has room */
    struct wi_sched *sched;
    struct wi_prog *programs[WI_CACHED_PROGRAMS]; /* the newest that were made of it; NULL: none */
};
#define WI_SCHED_CACHE 64

/* How a call like an earlier one runs without planning it again: the schedule and how it was laid out, as in struct wi_binding. */
struct wi_fast_call {
    struct wi_sched *sched; /* borrowed from the cache; NULL: empty */
    struct wi_prog *prog;   /* counted */
    size_t count;
    int root;
    uint32_t codec; /* wi_plan_codec_id and may_bypass; 0: the call has none. Of ll: of no importance */
    uint8_t in_place, dtype, op, nt;
    uint8_t ll, mapped, send_empty, has_scratch;
    uint32_t nfragments, nslices;
    size_t scale, slot_bytes; /* ll: for each byte of a share */
    size_t fragment_bytes, slice_bytes, block_bytes, slot_work;
};
#define WI_FAST_CALLS 8

/* Per collective. Over ll lines the size does not matter: one call serves all up to ll_max_bytes. */
struct wi_fast {
    struct wi_fast_call ll;
    size_t ll_max_bytes; /* 0: never */
    struct wi_fast_call calls[WI_FAST_CALLS];
};

struct weft_comm {
    uint32_t magic;
    _Atomic int lock;   /* enum wi_lock; a futex */
    _Atomic int asleep; /* threads that sleep until it is free */
    struct weft_context *ctx;
    struct wi_mesh *mesh;
    struct wi_exec *exec;
    struct wi_planner *planner;
    int priority; /* of weft_comm_config */
    struct wi_algo_levels levels; /* the locality of the ranks: groups of the mesh or of the model */
    int32_t *node_group, *level_memory;
    struct wi_model *model;            /* of the topology file; NULL: none */
    const struct wi_model *discovered_model; /* of the graph that the ranks have discovered; NULL: none */
    struct wi_comm_topology *topology; /* NULL: it was not asked for */
    int rank, nranks;
    struct wi_fast fast[WI_NUM_COLLS];
    struct wi_op fast_op; /* of the blocking call that fast.c runs, if there is one */
    struct {
        char text[64]; /* "": none was named yet */
        struct wi_codec_use use;
        char shown[WI_RECORDER_CODEC_TEXT]; /* in the recorder */
    } named_codec; /* the newest that a call named: programs name the same again and again */
    int fast_counted;     /* it has references of its own to its schedule and program, others having been let in */
    int runs_alone;       /* such calls may be run so */
    struct wi_cached_sched cache[WI_SCHED_CACHE];
    struct wi_autotune copy_path_tuning[3]; /* slots or attach: exchange.c */
    size_t nt_bytes;
    struct weft_request *free_requests, *all_requests;
    _Atomic(struct weft_request *) freed; /* while another thread was inside: not yet among free_requests */
    _Atomic int entering;     /* threads that want to issue and find another one inside; see lock_for_destroy */
    _Atomic uint32_t waiters; /* threads inside weft_wait and friends: they progress, the thread need not */
    _Atomic int guests;       /* threads inside calls that come and go without the lock: wi_comm_guest_in */
    _Atomic uint32_t watched; /* operations with a callback or a future that waits for their end */
    _Atomic int abort_called;
    int dumped;
    struct wi_residual **residuals; /* by tensor; NULL: none yet */
    char abort_reason[128];
    char name[64];
    uint64_t init_timeout_ns;
    unsigned char *job_key; /* [WI_JOB_KEY_BYTES], for derived communicators (base/secret.h) */
    char job[64];
    struct weft_comm *next; /* of the context */
};

/* locality.c: which ranks share which levels of the machine, the rates of their links, and the planner made from both. */
weft_status wi_locality_files(struct weft_context *ctx);
void wi_locality_files_free(struct weft_context *ctx);
weft_status wi_comm_locality(struct weft_comm *comm);
void wi_comm_locality_free(struct weft_comm *comm);
/* Take the levels from the model that the ranks have discovered (wi_comm_discover_model). */
weft_status wi_comm_levels_from(struct weft_comm *comm, const struct wi_model *model);
/* Link parameters that a graph does not hold: the planner's for this class of machine. */
void wi_comm_model_link_params(const struct weft_comm *comm, struct wi_model_link_params *params);
weft_status wi_comm_planner(struct weft_comm *comm, const struct wi_plan_facts *facts);
/* served.c: by whom: facts->all and ->inside, whose `mapped` is known. */
weft_status wi_comm_served(const struct weft_comm *comm, struct wi_plan_facts *facts);

/* topology.c: the ranks' machine, discovered when somebody asks for it, or for the planner. */
void wi_comm_topology_free(struct weft_comm *comm);
/* Discover the model of ranks on several nodes that no file describes. All ranks call it together, once messages can be sent. All
 * get NULL where there is none; failing to discover it does not fail the communicator. It lives as long as the communicator. */
weft_status wi_comm_discover_model(struct weft_comm *comm, const struct wi_model **model);

/* derive.c: between members (ranks; NULL: all n), in the same order on all of them, apart from the communicator's operations. It
 * is entered. A failure in mid-way breaks it. */
weft_status wi_comm_all_gather(struct weft_comm *comm, const int *members, int n, const void *mine, size_t bytes,
                               void *all, uint64_t deadline_ns);
/* From the first member. */
weft_status wi_comm_broadcast(struct weft_comm *comm, const int *members, int n, void *data, size_t bytes,
                              uint64_t deadline_ns);

/* Enter to issue. A thread that is inside is waited for: it leaves when its call is issued, when it has progressed once, or, if its
 * call blocks, when it sees that others want to enter. */
weft_status wi_comm_enter(struct weft_comm *comm);
/* With the communicator held: does another thread want to enter? */
static inline int wi_comm_wanted(const struct weft_comm *comm)
{
    return atomic_load_explicit(&comm->entering, memory_order_relaxed) != 0;
}
/* Enter to progress only. 0: another thread is inside. */
int wi_comm_try_progress(struct weft_comm *comm);
void wi_comm_leave(struct weft_comm *comm);
/* After leaving: let threads that want to enter do so first, for a while. `counted`: 1 if this thread is counted as
 * entering, too, else 0. */
void wi_comm_give_way(struct weft_comm *comm, int counted);

/* A call that uses the communicator, or its requests, without holding the lock all the time: destroying waits until it has gone
 * out. Going out comes last: the memory may be gone after it. */
static inline void wi_comm_guest_in(struct weft_comm *comm)
{
    atomic_fetch_add_explicit(&comm->guests, 1, memory_order_seq_cst);
}
static inline void wi_comm_guest_out(struct weft_comm *comm)
{
    atomic_fetch_sub_explicit(&comm->guests, 1, memory_order_release);
}
static inline int wi_comm_ending(struct weft_comm *comm)
{
    return atomic_load_explicit(&comm->lock, memory_order_seq_cst) == WI_DESTROYING;
}
/* What a call says that finds the communicator ending; or that would wait for a thread which may be its own. */
weft_status wi_comm_ended(void);
weft_status wi_comm_in_operator(void);

weft_status wi_comm_check(const struct weft_comm *comm);
/* One line: which transports serve how many pairs, and why better ones do not serve the others. */
void wi_comm_log_peers(const struct weft_comm *comm);
weft_status wi_comm_build(struct weft_context *ctx, struct wi_bootstrap *bootstrap, const weft_comm_config *config,
                          uint64_t deadline_ns, struct weft_comm **comm);
/* The caller's, or, if that is NULL, the defaults. */
weft_status wi_comm_config_read(const char *call, const weft_comm_config *given, weft_comm_config *own);
void wi_comm_failed(struct weft_comm *comm);
/* The status with which an operation ended. Of a failure the calling thread is told the text again: transports that went on after
 * it, or another thread that found it, have left this thread with none. */
weft_status wi_comm_outcome(struct weft_comm *comm, weft_status st);
weft_status wi_comm_dump_to(struct weft_comm *comm, const char *path);

/* ---- Issue ---- */

weft_status wi_call(struct weft_comm *comm, const struct wi_call *call, weft_request **req);
/* The same with options, which were checked; NULL: none. */
weft_status wi_call_with(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                         weft_request **req);
/* batch.c, call.c: the batch is taken, whatever comes of it. */
weft_status wi_batch_issue(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                           const struct weft_batch_item *items, size_t n, weft_request **req);
weft_status wi_call_batch(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                          struct wi_batch *batch, weft_request **req);
weft_status wi_call_persistent(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                               weft_request **req);
weft_status wi_call_check(const struct weft_comm *comm, const struct wi_call *call);
/* Of a call that was checked: may it have these options? NULL: none. */
weft_status wi_call_options_check(const struct weft_comm *comm, const struct wi_call *call,
                                  const weft_call_options *options);
/* Elements that src and dst span on this rank; SIZE_MAX on overflow. */
void wi_call_spans(const struct weft_comm *comm, const struct wi_call *call, size_t *src, size_t *dst);
size_t wi_v_span(const size_t *counts, const size_t *displs, int n);
/* fast.c: blocking calls of a mapped communicator with nothing else in flight; and calls that are laid out again. */
enum wi_fast_result {
    WI_FAST_NOT, /* it does not apply */
    WI_FAST_RAN,
    WI_FAST_LOST, /* the communicator is being destroyed, and this thread does not hold it any more, but is counted as entering */
};
weft_status wi_fast_init(struct weft_comm *comm, struct wi_plan_facts *facts);
/* codec: NULL, or what the call is coded with unless that is bypassed, of that tensor. */
enum wi_fast_result wi_fast_run(struct weft_comm *comm, const struct wi_call *call, const struct wi_codec_use *codec,
                                uint64_t tensor, weft_status *status);
/* As wi_exec.let_in: others want to enter, while `op` of wi_fast_run, which only this thread can advance, waits. */
weft_status wi_fast_let_in(void *comm, struct wi_op *op);
/* Of an operation without a named algorithm that is laid out and not issued yet: lay calls like it out alike from now on. */
void wi_fast_learn(struct weft_comm *comm, const struct wi_call *call, const struct wi_codec_use *codec, const struct wi_op *op);
/* Lay `op`, which wi_fast_learn has seen the like of, out again: 1; 0: it has not; < 0: no memory, with text. */
int wi_fast_recall(struct weft_comm *comm, const struct wi_call *call, const struct wi_codec_use *codec, struct wi_op *op);
void wi_fast_forget(struct weft_comm *comm, const struct wi_sched *sched); /* NULL: all */
weft_status wi_op_prepare(struct weft_comm *comm, struct weft_request *req);
struct wi_plan_query wi_op_query(const struct weft_comm *comm, const struct wi_call *call, const struct wi_op *op,
                                 size_t bytes);
/* layout.c. The schedule is known: cut the data and lower it. `share` is the largest share of any rank, for v-forms. */
weft_status wi_op_lay_out(struct weft_comm *comm, struct wi_op *op, const struct wi_call *call, size_t share,
                          size_t slice_bytes, struct wi_prog **programs);
/* The program that was kept for calls like this one, if it serves: 1. */
int wi_op_kept_program(const struct wi_op *op, struct wi_prog **kept, const struct wi_sched *sched,
                       const struct wi_layout *layout, struct wi_prog **prog);
/* Make it, and keep it if calls of the same size can use it. `kept`: NULL: nothing is kept. */
weft_status wi_op_lower(const struct weft_comm *comm, const struct wi_op *op, const struct wi_sched *sched,
                        const struct wi_layout *layout, struct wi_prog **kept, struct wi_prog **prog);
/* Into fragments, each with at most `slice` bytes of every block. */
void wi_op_cut(struct wi_op *op, size_t slice);
/* layout_stages.c: likewise, once the blocks are known, of a schedule in stages. */
weft_status wi_op_lay_out_stages(struct weft_comm *comm, struct wi_op *op, size_t slice_bytes, struct wi_prog **programs);
/* A new schedule with stages: if slots are too short for them, on whatever rank, it becomes the same in messages, on all.
 * `least`: bytes of a block of the codec, of which slots of coded ones hold one at least of each item. */
weft_status wi_fit_stages(const struct weft_comm *comm, struct wi_sched **sched, size_t least);
/* How much of a block is wanted at once: of stages as much as makes a fragment of the plan's. */
size_t wi_op_slice(const struct wi_op *op, const struct wi_plan *plan);
/* Scratch of op->bind.block_bytes a block, owned by the operation. */
weft_status wi_op_scratch(struct wi_op *op);
/* Likewise, of a v-form whose messages are packed. */
weft_status wi_op_lay_out_packed(struct weft_comm *comm, struct wi_op *op, const struct wi_call *call,
                                 struct wi_prog **programs);
/* Are the blocks of this v-form those that a program was made for? */
int wi_v_form_is_of(const struct weft_comm *comm, const struct wi_call *call, const struct wi_prog *prog);
/* phases.c: from a call to an operation that can run. Before issue: as far as the first gate. */
void wi_phases_begin(struct weft_request *req, size_t share);
weft_status wi_phases_run(struct weft_request *req, struct wi_op *op);
/* Of a request that is not issued yet, and each time it is: it waits at that gate before it is planned. */
void wi_request_gate(struct weft_request *req, const struct wi_gate_ops *ops, void *arg, uint64_t timeout_ns);
/* exchange.c: operations that begin with telling each other about memory, which is a gate. Behind it: the plan, what it needs of
 * other ranks' memory, whether they offer it. When the operation has ended: wi_exchange_end, if req->exchanged, and
 * wi_exchange_learn. */
weft_status wi_exchange_begin(struct weft_request *req, struct wi_op *op);
weft_status wi_exchange_plan(struct weft_request *req, struct wi_plan_query *query, struct wi_plan *plan);
weft_status wi_exchange_map(struct weft_request *req, struct wi_op *op);
weft_status wi_exchange_check(const struct weft_request *req, const struct wi_op *op);
void wi_exchange_end(struct weft_request *req);
void wi_exchange_release(struct weft_request *req); /* the transports' groups are gone: what is still registered for it */
void wi_exchange_learn(struct weft_request *req);
/* `spec`: of a hierarchical algorithm, else NULL or of no levels. Those of files are not in the cache, but last as long as the
 * context. */
weft_status wi_cached_schedule(struct weft_comm *comm, const struct wi_algo *algo, const struct wi_hier_spec *spec,
                               int root, int in_place, struct wi_sched **sched);
void wi_cached_free(struct wi_cached_sched *cached);
/* Give op its schedule. *programs: what was made of it before, for wi_op_lay_out; NULL: nothing is kept. */
weft_status wi_op_bind(struct weft_comm *comm, struct wi_op *op, const struct wi_algo *algo,
                       const struct wi_hier_spec *spec, int root, int in_place, struct wi_prog ***programs);
int wi_call_in_place(const struct weft_comm *comm, const struct wi_call *call);
/* In place these work on a copy of what they send. */
static inline int wi_call_copies_source(const struct wi_call *c)
{
    return c->src == c->dst && (c->coll == WI_COLL_ALL_TO_ALL || c->coll == WI_COLL_ALL_TO_ALL_V);
}
weft_status wi_call_redop(const struct weft_comm *comm, const struct wi_call *call, struct wi_redop *redop);
void wi_call_info(const struct weft_comm *comm, const struct wi_call *call, struct weft_op_info *info);
/* compress.c: the codec that the call has by WEFT_COMPRESS; NULL: none. */
const struct wi_codec_use *wi_compress_default(const struct weft_comm *comm, const struct wi_call *call);
/* For the fast path: a call whose options say no more than a codec, which keeps nothing, and which it may have. 1: *codec is that,
 * or NULL. The communicator is held. */
int wi_compress_named(struct weft_comm *comm, const weft_call_options *options, const struct wi_call *call,
                      const struct wi_codec_use **codec);
/* Ranks compare what a call's codec and tensor are by this, which their operations hold. */
uint32_t wi_compress_mark_of(const struct wi_codec_use *use, const struct weft_codec *codec, uint64_t tensor);
void wi_compress_mark(struct weft_op_info *info, uint32_t mark);
/* Before a call is planned: find its codec, and mark its info with it. */
weft_status wi_compress_begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, const struct wi_call *call);
weft_status wi_compress_use(const struct weft_comm *comm, const weft_call_options *options, const struct wi_call *call,
                            struct wi_codec_use *use); /* what it is coded with, if it is */
/* What the planner must know of the codec. */
void wi_compress_query(const struct weft_request *req, const struct wi_op *op, struct wi_plan_query *query);
/* Once it is planned: take its residuals; where plain data goes after all, add them. */
weft_status wi_compress_settle(struct weft_request *req, struct wi_op *op);
weft_status wi_compress_take(struct weft_request *req); /* its residuals, which no other operation may use till wi_compress_end */
/* residual_place.c, once it is laid out: which part of its residuals each step adds and renews. */
weft_status wi_compress_place(struct weft_request *req, struct wi_op *op);
/* The source where it may be changed: in place, or a copy, which holds the same if `fill`. NULL: no memory, with text. */
unsigned char *wi_compress_source(struct wi_op *op, struct wi_call *call, size_t bytes, int fill);
/* What a rank gives is multiplied by it, so that its norm is below the root of nranks-th part of `clip`. */
float wi_compress_gain(const struct wi_feedback *f, int nranks, weft_dtype dtype, const void *src, size_t elems);
/* The factor from the result's units, which an owner keeps, to those of a contribution: nranks for avg, else 1. */
float wi_compress_share(const struct wi_redop *redop);
/* With one rank: add residuals that were loaded from a larger job to the result. */
weft_status wi_compress_alone(struct weft_request *req);
void wi_compress_end(struct weft_request *req); /* the operation has ended: its residuals are free again */
/* What is sent plain after all has its residual added, where the program's buffer may not change. */
int wi_compress_copies_source(const struct weft_comm *comm, const struct weft_request *req, const struct wi_call *call);
void wi_residuals_free(struct weft_comm *comm);
/* names.c: a hash of the options that all ranks must name alike; 0: none was given. */
uint32_t wi_call_named(const weft_call_options *options);
/* Does the algorithm that options name, if any, exist for the call? WEFT_ENOTFOUND, or as wi_algo_choose; the planner may still
 * find that it cannot do a call (WEFT_ENOTSUP). */
weft_status wi_call_algorithm_check(const struct weft_comm *comm, const struct wi_call *call,
                                    const weft_call_options *options);
/* A hash of what was planned: of the algorithm in the low 24 bits, of the length of its slices in the others. */
uint32_t wi_plan_named(const char *algorithm, size_t slice_bytes);
/* The collective's algorithm whose name has this hash (wi_binding.named, .planned) in the low 24 bits; NULL: none that is known.
 * The text is valid until the thread's next call but one. */
const char *wi_call_algorithm(int kind, uint32_t named);

/* ---- Operators: a copy, so that a handle may be destroyed while operations run ---- */

struct wi_user_op {
    weft_op_fn fn;
    void *arg;
    int commutative;
    int premul;
    weft_dtype dtype;
    unsigned char scalar[16];
};
int wi_user_op_find(weft_op op, struct wi_user_op *out);

/* ---- Groups (thread local) ---- */

extern __thread int wi_group_depth;
weft_status wi_group_add(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                         weft_request **req);
weft_status wi_group_add_request(struct weft_request *req);
/* A call of the group is wrong before it is one: the group fails with st, which is returned. */
weft_status wi_group_refused(weft_status st);

#endif
