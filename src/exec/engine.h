/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines do the local work of the executor's lanes: copies and reductions. Work is posted, and polled until it is done; a lane
 * does nothing else meanwhile, and no other step touches what the work reads or writes.
 *
 * The host's engine does short work when it is posted. Longer work is done a chunk at a time, each time it is polled, so that the
 * thread that holds the executor returns soon; or by the threads of a pool (workers.c).
 *
 * Threads: an engine's functions are called with the executor held. What an engine does elsewhere must need no lock of a
 * communicator: it may be done while the communicator is destroyed, which waits for it (wi_engine_drain). */
#ifndef WI_EXEC_ENGINE_H
#define WI_EXEC_ENGINE_H

#include <stdatomic.h>

#include "exec/op.h"

struct wi_exec;
struct wi_workers;

/* Work is cut here, and never inside an element. A rank that gives up waits for one chunk of another's stores: put.c. Of 64 KiB
 * to 1 MiB this was the fastest for reductions of 2 MiB to 16 MiB from other ranks' buffers. */
#define WI_ENGINE_CHUNK ((size_t)256 << 10)
/* Copies, where no other executor waits for the thread: whole, up to here, those of 1 to 4 MiB are some 5 % faster. */
#define WI_ENGINE_COPY_CHUNK ((size_t)16 << 20)

enum wi_work_kind { WI_WORK_COPY, WI_WORK_COPY_TWICE, WI_WORK_REDUCE, WI_WORK_GET, WI_WORK_PUT, WI_WORK_CODE };

struct wi_work {
    /* What is to be done. */
    uint8_t kind;    /* enum wi_work_kind */
    uint8_t flags;   /* of the reduction: WI_REDUCE_FINAL, WI_REDUCE_ADD, with which the destination is read, too */
    uint8_t to_peer; /* a destination is another rank's mapped memory */
    uint8_t nt;      /* what does not go to slots is stored past the caches */
    uint32_t ndst, nsrc;
    const struct wi_op *op;
    const struct wi_operand *to; /* the destinations'; NULL: this rank's own memory, which is not streamed to */
    int rank;                    /* GET, PUT: whose memory, and */
    uint8_t peer_buf;            /* of SRC or DST */
    size_t bytes;
    uint32_t lane, step; /* for messages */
    /* CODE: `bytes` are of the vector; which operands are images `to` says. What is behind its operands in the program: */
    uint8_t kept;           /* the residual of what is encoded or taken back; WI_NO_RESIDUAL: none */
    uint8_t placed;         /* `first` is known: */
    uint64_t first;         /* the place in its vector of the first element that is encoded, or taken back */
    uint32_t sums;          /* what is encoded is a sum for others */
    const void *undo_image; /* NULL: nothing to take back */
    const void *undo_of;
    /* The executor's: where it is posted; NULL: it is not. */
    struct wi_work *next, **link;
    struct wi_work **holder; /* who polls it */
    struct wi_engine *by;
    /* The engine's. */
    struct wi_exec *exec;
    struct wi_work *queued;
    size_t at;        /* bytes that are done, or being done */
    int running;      /* threads that are at it */
    _Atomic int over; /* done or failed, and no worker is at it */
    int late;         /* of the host's: a worker has it */
    uint64_t print;   /* tests' */
    weft_status status;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];
    struct weft_rma rma; /* rma.c */
};

struct wi_engine;
struct wi_engine_ops {
    const char *name;
    /* Begin. 1: it is done; 0: it is posted, and *work stays where it is until poll says otherwise; < 0: failed, with text.
     * *moved: something was done. */
    int (*post)(struct wi_engine *engine, struct wi_work *work, int *moved);
    /* Likewise. */
    int (*poll)(struct wi_engine *engine, struct wi_work *work, int *moved);
    /* The work was given up. 1: the engine no longer touches any of its memory; 0: at `until_ns` it still may. May be called
     * again. */
    int (*drain)(struct wi_engine *engine, struct wi_work *work, uint64_t until_ns);
    /* No work is posted, or what could not be drained is left alone for good. */
    void (*destroy)(struct wi_engine *engine);
};

struct wi_engine {
    const struct wi_engine_ops *ops;
    size_t inline_bytes;  /* shorter work need not be posted: the executor does it at once */
    uint8_t receives_in_memory; /* data to be reduced is received into memory, and reduced by the engine instead of the transport */
    struct wi_workers *workers; /* of the host's; NULL: none */
};

/* `workers`: borrowed, NULL: none. NULL: no memory. */
struct wi_engine *wi_engine_host(struct wi_workers *workers);
/* Tests set it before there are contexts: makes the engine of each communicator. A forked child has its parent's. */
extern struct wi_engine *(*wi_engine_of_tests)(struct wi_workers *workers);

/* ---- For lanes ---- */

/* Do it, or post a copy of it and keep that in *holder. 1: done; 0: posted; < 0: failed, which is recorded. */
int wi_work_begin(struct wi_exec *exec, struct wi_op *op, const struct wi_work *work, struct wi_work **holder,
                  int *moved);
/* Of what *holder keeps: likewise; unless it is 0, *holder is NULL then. */
int wi_work_poll(struct wi_exec *exec, struct wi_op *op, struct wi_work **holder, int *moved);
/* Give up everything that is posted, of one engine (NULL: all) and of one operation (NULL: all). 0: some of it still touches
 * memory. */
int wi_engine_drain(struct wi_exec *exec, const struct wi_engine *by, const struct wi_op *op, uint64_t until_ns);
/* "engine host: reduction of 4194304 bytes, step 3 of lane 0 of ring"; what has been posted for longest. 0: nothing is. *rank: of
 * a get or put, with whom; else -1. */
int wi_engine_text(struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity, int *rank);
/* Before the memory that transports made goes: nothing is wanted any more. What is posted then still touches memory. */
void wi_engine_leave(struct wi_exec *exec);
void wi_engine_destroy(struct wi_exec *exec);

/* ---- For engines ---- */

/* Do [at, at + bytes) of it, from any thread. A failure is not recorded, and has a text only in the calling thread. */
weft_status wi_work_do(struct wi_exec *exec, const struct wi_work *work, size_t at, size_t bytes);
/* Of a destination, or a source behind those: where it lies. And what work may not be cut inside of. */
size_t wi_work_operand_bytes(const struct wi_work *work, uint32_t operand);
size_t wi_work_grain(const struct wi_work *work);
/* From any thread: work of this executor is over; wake a thread that waits, so that it polls. */
void wi_engine_tell(struct wi_exec *exec);

/* ---- Workers ---- */

/* A pool of threads, made when there is first work for them; of a context. They take no signals, and hold no lock while they work.
 * A forked child has none of them, and never uses the pool: its handles are refused (comm/fork.c). */
struct wi_workers *wi_workers_create(int nthreads, size_t least_bytes); /* NULL: no memory */
size_t wi_workers_least(const struct wi_workers *workers); /* shorter work is not given to them */
/* 0: there is no thread, and none can be made. */
int wi_workers_give(struct wi_workers *workers, struct wi_work *work);
int wi_workers_drain(struct wi_workers *workers, struct wi_work *work, uint64_t until_ns);
/* Wait until no worker notifies this executor any more. Its work is over. */
void wi_workers_settle(struct wi_workers *workers);
void wi_workers_destroy(struct wi_workers *workers); /* joins them. NULL: nothing */

#endif
