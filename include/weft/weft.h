/* weft: collective communication for distributed training.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Start here: weft_context_create, weft_comm_create_env, weft_all_reduce, weft_comm_destroy,
 * weft_context_destroy. Everything else is refinement.
 *
 * Conventions used by every function below
 *   Return     WEFT_SUCCESS (0), WEFT_INPROGRESS (> 0), or a failure (< 0). Outputs are written only on
 *              success. weft_last_error(comm) holds the details of a communicator's newest failure.
 *   Units      counts are elements of the dtype; sizes named *_bytes are bytes; times named *_ns are
 *              nanoseconds on a monotonic clock.
 *   Threads    communicators are independent of each other. Operations on one communicator must be issued
 *              in the same order on every rank, hence by one thread at a time: a second thread inside a
 *              call on the same communicator gets WEFT_EBUSY. Calls marked "any thread" are exempt.
 *   Blocking   a collective whose `req` argument is NULL blocks until the operation is complete on this
 *              rank, or fails; with a request it returns once the operation is queued.
 *   In place   allowed wherever MPI or NCCL allow it; each function says which pointers must be equal.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/* ---- Status ----------------------------------------------------------------------------------------- */

/* X(name, value, text): one list from which the enumeration, the names and the texts are made.
 * Grouped by what is still usable afterwards. */
#define WEFT_STATUS_LIST(X)                                                                        \
    X(WEFT_SUCCESS, 0, "success")                                                                  \
    X(WEFT_INPROGRESS, 1, "operation in progress")                                                 \
    /* argument: nothing happened, everything is usable */                                         \
    X(WEFT_EINVAL, -1, "invalid argument")                                                         \
    X(WEFT_ENOTSUP, -2, "not supported")                                                           \
    X(WEFT_EBUSY, -3, "object in use by another call")                                             \
    X(WEFT_ENOTFOUND, -4, "not found")                                                             \
    X(WEFT_ECONFIG, -5, "malformed configuration")                                                 \
    X(WEFT_EPLUGIN, -6, "plugin could not be loaded")                                              \
    /* request: this operation failed on this rank; the communicator is usable */                  \
    X(WEFT_ETRUNC, -10, "message longer than the receive buffer")                                  \
    X(WEFT_ECANCELED, -11, "operation canceled")                                                   \
    /* peer: a peer is gone; the communicator must be destroyed or aborted */                      \
    X(WEFT_EPEER, -20, "peer failed")                                                              \
    X(WEFT_EAUTH, -21, "peer failed to authenticate")                                              \
    /* communicator: it must be destroyed or aborted */                                            \
    X(WEFT_EMISMATCH, -30, "ranks called different operations")                                    \
    X(WEFT_ETIMEDOUT, -31, "deadline passed")                                                      \
    X(WEFT_EABORTED, -32, "communicator aborted")                                                  \
    X(WEFT_EPROTO, -33, "malformed data from a peer")                                              \
    /* process: a resource of this process or host ran out or misbehaved */                        \
    X(WEFT_ENOMEM, -40, "out of memory")                                                           \
    X(WEFT_ESYS, -41, "system call failed")                                                        \
    X(WEFT_ENOFILES, -42, "out of file descriptors")                                               \
    X(WEFT_ENOSPC, -43, "no space left for shared memory")                                         \
    X(WEFT_EINTERNAL, -44, "internal error")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, text) name = value,
    WEFT_STATUS_LIST(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* ---- Data types and operators ------------------------------------------------------------------------ */

/* X(name, value, bytes, text) */
#define WEFT_DTYPE_LIST(X)                                                                         \
    X(WEFT_INT8, 0, 1, "int8")                                                                     \
    X(WEFT_UINT8, 1, 1, "uint8")                                                                   \
    X(WEFT_INT16, 2, 2, "int16")                                                                   \
    X(WEFT_UINT16, 3, 2, "uint16")                                                                 \
    X(WEFT_INT32, 4, 4, "int32")                                                                   \
    X(WEFT_UINT32, 5, 4, "uint32")                                                                 \
    X(WEFT_INT64, 6, 8, "int64")                                                                   \
    X(WEFT_UINT64, 7, 8, "uint64")                                                                 \
    X(WEFT_FLOAT16, 8, 2, "half")                                                                  \
    X(WEFT_BFLOAT16, 9, 2, "bfloat16")                                                             \
    X(WEFT_FLOAT32, 10, 4, "float")                                                                \
    X(WEFT_FLOAT64, 11, 8, "double")                                                               \
    X(WEFT_FLOAT8E4M3, 12, 1, "f8e4m3")                                                            \
    X(WEFT_FLOAT8E5M2, 13, 1, "f8e5m2")                                                            \
    X(WEFT_BOOL, 14, 1, "bool")                                                                    \
    X(WEFT_COMPLEX64, 15, 8, "complex64")                                                          \
    X(WEFT_COMPLEX128, 16, 16, "complex128")

typedef enum weft_dtype {
#define WEFT_DTYPE_ENUM(name, value, bytes, text) name = value,
    WEFT_DTYPE_LIST(WEFT_DTYPE_ENUM)
#undef WEFT_DTYPE_ENUM
} weft_dtype;
#define WEFT_NUM_DTYPES 17

/* X(name, value, text). min and max are undefined for complex; bitwise operators for floating types and
 * complex. Logical operators treat any non-zero value as true and store 0 or 1. avg divides the sum by the
 * number of ranks (integers truncate toward zero). 16- and 8-bit floating types are accumulated in fp32. */
#define WEFT_OP_LIST(X)                                                                            \
    X(WEFT_SUM, 0, "sum")                                                                          \
    X(WEFT_PROD, 1, "prod")                                                                        \
    X(WEFT_MIN, 2, "min")                                                                          \
    X(WEFT_MAX, 3, "max")                                                                          \
    X(WEFT_AVG, 4, "avg")                                                                          \
    X(WEFT_BAND, 5, "band")                                                                        \
    X(WEFT_BOR, 6, "bor")                                                                          \
    X(WEFT_BXOR, 7, "bxor")                                                                        \
    X(WEFT_LAND, 8, "land")                                                                        \
    X(WEFT_LOR, 9, "lor")                                                                          \
    X(WEFT_LXOR, 10, "lxor")

/* Built-in operators are the constants below; weft_op_create* return further values. */
typedef uint32_t weft_op;
enum {
#define WEFT_OP_ENUM(name, value, text) name = value,
    WEFT_OP_LIST(WEFT_OP_ENUM)
#undef WEFT_OP_ENUM
};
#define WEFT_NUM_OPS 11

/* Combine `count` elements: out[i] = left[i] op right[i]. `out` may equal `left` or `right`. Called without
 * any lock held, from the thread that progresses the communicator; must not call weft. */
typedef void (*weft_op_fn)(const void *left, const void *right, void *out, size_t count,
                           weft_dtype dtype, void *arg);

/* ---- Handles ----------------------------------------------------------------------------------------- */

typedef struct weft_context weft_context; /* a process's attachment: settings, plugins, progress thread */
typedef struct weft_comm weft_comm;       /* an ordered group of ranks */
typedef struct weft_request weft_request; /* one operation, pending or persistent */
typedef struct weft_mem weft_mem;         /* one registration of memory */

#define WEFT_UNIQUE_ID_BYTES 128
typedef struct weft_unique_id {
    char bytes[WEFT_UNIQUE_ID_BYTES];
} weft_unique_id;

#define WEFT_TIMEOUT_DEFAULT ((uint64_t)0)           /* the communicator's setting */
#define WEFT_TIMEOUT_NEVER ((uint64_t)-1)

/* Structures that grow begin with `bytes`: set it with the initialisers below. */
typedef struct weft_context_config {
    size_t bytes;
    unsigned flags;           /* WEFT_CONTEXT_* */
    const char *config_file;  /* NULL: $WEFT_CONFIG_FILE, if set */
    const char *const *settings; /* NULL, or "NAME=value" strings ended by NULL; they outrank the environment */
} weft_context_config;
#define WEFT_CONTEXT_CONFIG_INIT { sizeof(weft_context_config), 0, NULL, NULL }
#define WEFT_CONTEXT_NO_PROGRESS_THREAD 1u /* operations advance only inside weft calls */

typedef struct weft_comm_config {
    size_t bytes;
    const char *name;         /* NULL, or a label for messages and traces; copied */
    uint64_t timeout_ns;      /* per operation; WEFT_TIMEOUT_DEFAULT: WEFT_COMM_TIMEOUT */
    uint64_t init_timeout_ns; /* for creation; WEFT_TIMEOUT_DEFAULT: WEFT_COMM_INIT_TIMEOUT */
} weft_comm_config;
#define WEFT_COMM_CONFIG_INIT { sizeof(weft_comm_config), NULL, 0, 0 }

/* What the next operation issued on a communicator does differently; see weft_comm_next_call. */
typedef struct weft_call_options {
    size_t bytes;
    uint64_t timeout_ns;  /* 0: the communicator's */
    const char *algorithm; /* NULL: the planner's choice; a name from weft_algorithm_list */
} weft_call_options;
#define WEFT_CALL_OPTIONS_INIT { sizeof(weft_call_options), 0, NULL }

/* Out-of-band exchange supplied by the caller: gather `bytes` from each rank, in rank order, into `all`
 * (nranks*bytes). Collective over the future communicator's ranks. Return 0, or non-zero to fail creation. */
typedef struct weft_oob {
    size_t bytes;
    int rank, nranks;
    int (*all_gather)(void *arg, const void *mine, size_t mine_bytes, void *all, uint64_t timeout_ns);
    void *arg;
} weft_oob;

/* Details of a failure. Strings are valid until the communicator's next failure or its destruction. */
typedef struct weft_error {
    size_t bytes;
    weft_status status;
    int rank;             /* this rank */
    int peer;             /* the culprit's rank, or -1 */
    uint64_t seq;         /* sequence number of the operation, 0 if none */
    const char *host;     /* the culprit's host when known, else this host */
    const char *operation; /* "all_reduce", … or "" */
    const char *message;  /* one line: what happened */
    const char *advice;   /* one line: what to do about it */
} weft_error;
#define WEFT_ERROR_INIT { sizeof(weft_error), WEFT_SUCCESS, 0, -1, 0, NULL, NULL, NULL, NULL }

/* ---- Library ----------------------------------------------------------------------------------------- */

WEFT_API const char *weft_version(void);
WEFT_API const char *weft_status_name(weft_status status);
WEFT_API const char *weft_status_text(weft_status status);
WEFT_API const char *weft_dtype_name(weft_dtype dtype);
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);
WEFT_API const char *weft_op_name(weft_op op);

/* ---- Context ----------------------------------------------------------------------------------------- */

WEFT_API weft_status weft_context_create(const weft_context_config *config, weft_context **context);
WEFT_API weft_status weft_context_destroy(weft_context *context);
/* Visit every setting. `origin` is "default", "file", "environment" or "call". */
typedef void (*weft_setting_fn)(void *arg, const char *name, const char *value, const char *default_value,
                                const char *origin, const char *help);
WEFT_API weft_status weft_context_settings(weft_context *context, weft_setting_fn fn, void *arg);
/* Visit every transport: built in or loaded from `path` (NULL if built in). */
typedef void (*weft_plugin_fn)(void *arg, const char *kind, const char *name, const char *path);
WEFT_API weft_status weft_context_plugins(weft_context *context, weft_plugin_fn fn, void *arg);

/* ---- Communicators ------------------------------------------------------------------------------------ */

WEFT_API weft_status weft_unique_id_create(weft_context *context, weft_unique_id *id);
WEFT_API weft_status weft_comm_create_env(weft_context *context, const weft_comm_config *config,
                                          weft_comm **comm);
WEFT_API weft_status weft_comm_create_id(weft_context *context, const weft_unique_id *id, int rank,
                                         int nranks, const weft_comm_config *config, weft_comm **comm);
WEFT_API weft_status weft_comm_create_file(weft_context *context, const char *path, int rank, int nranks,
                                           const weft_comm_config *config, weft_comm **comm);
WEFT_API weft_status weft_comm_create_oob(weft_context *context, const weft_oob *oob,
                                          const weft_comm_config *config, weft_comm **comm);
#define WEFT_COLOR_NONE (-1)
WEFT_API weft_status weft_comm_split(weft_comm *parent, int color, int key, const weft_comm_config *config,
                                     weft_comm **comm);
WEFT_API weft_status weft_comm_dup(weft_comm *parent, const weft_comm_config *config, weft_comm **comm);
WEFT_API weft_status weft_comm_destroy(weft_comm *comm);
WEFT_API weft_status weft_comm_abort(weft_comm *comm, const char *reason);

WEFT_API weft_status weft_comm_rank(const weft_comm *comm, int *rank);
WEFT_API weft_status weft_comm_size(const weft_comm *comm, int *nranks);
WEFT_API weft_status weft_comm_name(const weft_comm *comm, const char **name);
WEFT_API weft_status weft_comm_host(const weft_comm *comm, int rank, const char **host);
WEFT_API weft_status weft_comm_local(const weft_comm *comm, int *local_rank, int *local_nranks);
WEFT_API weft_status weft_comm_status(const weft_comm *comm);
WEFT_API weft_status weft_comm_set_timeout(weft_comm *comm, uint64_t timeout_ns);
WEFT_API weft_status weft_comm_next_call(weft_comm *comm, const weft_call_options *options);
WEFT_API weft_status weft_comm_dump(weft_comm *comm, const char *path);
WEFT_API weft_status weft_last_error(const weft_comm *comm, weft_error *error);
/* The newest failure of a call made by this thread that had no communicator (creation, context, memory). */
WEFT_API const char *weft_thread_error(void);

/* ---- Collectives --------------------------------------------------------------------------------------- */

WEFT_API weft_status weft_all_reduce(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_reduce(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, weft_op op, int root, weft_request **req);
WEFT_API weft_status weft_broadcast(weft_comm *comm, const void *src, void *dst, size_t count,
                                    weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_all_gather(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_all_gather_v(weft_comm *comm, const void *src, void *dst, const size_t counts[],
                                       const size_t displs[], weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_reduce_scatter(weft_comm *comm, const void *src, void *dst, size_t count,
                                         weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_reduce_scatter_v(weft_comm *comm, const void *src, void *dst,
                                           const size_t counts[], weft_dtype dtype, weft_op op,
                                           weft_request **req);
WEFT_API weft_status weft_reduce_scatter_block(weft_comm *comm, const void *src, void *dst, size_t count,
                                               weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_all_to_all(weft_comm *comm, const void *src, void *dst, size_t count,
                                     weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_all_to_all_v(weft_comm *comm, const void *src, const size_t send_counts[],
                                       const size_t send_displs[], void *dst, const size_t recv_counts[],
                                       const size_t recv_displs[], weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_gather(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_gather_v(weft_comm *comm, const void *src, size_t send_count, void *dst,
                                   const size_t counts[], const size_t displs[], weft_dtype dtype, int root,
                                   weft_request **req);
WEFT_API weft_status weft_scatter(weft_comm *comm, const void *src, void *dst, size_t count,
                                  weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_scatter_v(weft_comm *comm, const void *src, const size_t counts[],
                                    const size_t displs[], void *dst, size_t recv_count, weft_dtype dtype,
                                    int root, weft_request **req);
WEFT_API weft_status weft_scan(weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype,
                               weft_op op, weft_request **req);
WEFT_API weft_status weft_exscan(weft_comm *comm, const void *src, void *dst, size_t count,
                                 weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_barrier(weft_comm *comm, weft_request **req);

/* ---- Point to point ------------------------------------------------------------------------------------- */

WEFT_API weft_status weft_send(weft_comm *comm, const void *src, size_t count, weft_dtype dtype, int peer,
                               weft_request **req);
WEFT_API weft_status weft_recv(weft_comm *comm, void *dst, size_t count, weft_dtype dtype, int peer,
                               weft_request **req);
WEFT_API weft_status weft_send_recv(weft_comm *comm, const void *src, size_t send_count, int dst_peer,
                                    void *dst, size_t recv_count, int src_peer, weft_dtype dtype,
                                    weft_request **req);

/* ---- Persistent operations: weft_<operation>_init takes the same arguments and returns an idle request -- */

WEFT_API weft_status weft_all_reduce_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                          weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_reduce_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                      weft_dtype dtype, weft_op op, int root, weft_request **req);
WEFT_API weft_status weft_broadcast_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                         weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_all_gather_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                          weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_all_gather_v_init(weft_comm *comm, const void *src, void *dst,
                                            const size_t counts[], const size_t displs[], weft_dtype dtype,
                                            weft_request **req);
WEFT_API weft_status weft_reduce_scatter_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                              weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_reduce_scatter_v_init(weft_comm *comm, const void *src, void *dst,
                                                const size_t counts[], weft_dtype dtype, weft_op op,
                                                weft_request **req);
WEFT_API weft_status weft_reduce_scatter_block_init(weft_comm *comm, const void *src, void *dst,
                                                    size_t count, weft_dtype dtype, weft_op op,
                                                    weft_request **req);
WEFT_API weft_status weft_all_to_all_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                          weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_all_to_all_v_init(weft_comm *comm, const void *src, const size_t send_counts[],
                                            const size_t send_displs[], void *dst,
                                            const size_t recv_counts[], const size_t recv_displs[],
                                            weft_dtype dtype, weft_request **req);
WEFT_API weft_status weft_gather_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                      weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_gather_v_init(weft_comm *comm, const void *src, size_t send_count, void *dst,
                                        const size_t counts[], const size_t displs[], weft_dtype dtype,
                                        int root, weft_request **req);
WEFT_API weft_status weft_scatter_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                       weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_scatter_v_init(weft_comm *comm, const void *src, const size_t counts[],
                                         const size_t displs[], void *dst, size_t recv_count,
                                         weft_dtype dtype, int root, weft_request **req);
WEFT_API weft_status weft_scan_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                    weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_exscan_init(weft_comm *comm, const void *src, void *dst, size_t count,
                                      weft_dtype dtype, weft_op op, weft_request **req);
WEFT_API weft_status weft_barrier_init(weft_comm *comm, weft_request **req);
WEFT_API weft_status weft_send_init(weft_comm *comm, const void *src, size_t count, weft_dtype dtype,
                                    int peer, weft_request **req);
WEFT_API weft_status weft_recv_init(weft_comm *comm, void *dst, size_t count, weft_dtype dtype, int peer,
                                    weft_request **req);
WEFT_API weft_status weft_send_recv_init(weft_comm *comm, const void *src, size_t send_count, int dst_peer,
                                         void *dst, size_t recv_count, int src_peer, weft_dtype dtype,
                                         weft_request **req);

WEFT_API weft_status weft_start(weft_request *req);

/* ---- Completion ------------------------------------------------------------------------------------------ */

WEFT_API weft_status weft_test(weft_request *req);
WEFT_API weft_status weft_wait(weft_request *req);
WEFT_API weft_status weft_wait_for(weft_request *req, uint64_t timeout_ns);
WEFT_API weft_status weft_wait_any(weft_request *const reqs[], size_t nreqs, size_t *index);
WEFT_API weft_status weft_wait_all(weft_request *const reqs[], size_t nreqs);
WEFT_API weft_status weft_request_free(weft_request *req);

/* ---- Groups ------------------------------------------------------------------------------------------------ */

WEFT_API weft_status weft_group_start(void);
WEFT_API weft_status weft_group_end(void);

/* ---- Operators ----------------------------------------------------------------------------------------------- */

WEFT_API weft_status weft_op_create(weft_op_fn fn, void *arg, int commutative, weft_op *op);
WEFT_API weft_status weft_op_create_premul_sum(const void *scalar, weft_dtype dtype, weft_op *op);
WEFT_API weft_status weft_op_destroy(weft_op op);

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

WEFT_API weft_status weft_mem_alloc(weft_context *context, size_t bytes, void **ptr);
WEFT_API weft_status weft_mem_free(weft_context *context, void *ptr);
WEFT_API weft_status weft_mem_register(weft_context *context, void *ptr, size_t bytes, weft_mem **mem);
WEFT_API weft_status weft_mem_deregister(weft_mem *mem);

/* ---- Introspection --------------------------------------------------------------------------------------------- */

/* Visit every algorithm of every collective. */
typedef void (*weft_algorithm_fn)(void *arg, const char *collective, const char *algorithm,
                                  const char *summary);
WEFT_API weft_status weft_algorithm_list(weft_algorithm_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_H */
