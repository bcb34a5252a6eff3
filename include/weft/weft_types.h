/* weft: the constants and structs of weft.h, which includes this.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Statuses, data types and operators; handles; configurations; operations as data; what calls tell.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ----------------------------------------------------------------------------------------- */

/* X(name, value, text): one list from which the enumeration, the names and the texts are made. Grouped by
 * what is still usable afterwards. A broken communicator returns the failure that broke it from every later
 * operation; only weft_comm_destroy helps. */
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
    /* process: a resource of this process or host ran out or misbehaved; see weft_comm_status */  \
    X(WEFT_ENOMEM, -40, "out of memory")                                                           \
    X(WEFT_ESYS, -41, "system call failed")                                                        \
    X(WEFT_ENOFILES, -42, "out of file descriptors")                                               \
    X(WEFT_ENOSPC, -43, "no space left for a file or shared memory")                               \
    X(WEFT_EINTERNAL, -44, "internal error")

/* What a call returns. Test for failure with `< 0`: WEFT_INPROGRESS is none. */
typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, text) name = value,
    WEFT_STATUS_LIST(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* ---- Data types and operators ------------------------------------------------------------------------ */

/* X(name, value, bytes, text). Integers wrap modulo 2^bits. FLOAT8E4M3 is OCP's finite format (no
 * infinities, saturates at 448), FLOAT8E5M2 the IEEE-like one (overflows to infinity). A bool is a byte,
 * any value but 0 is true; reductions store 0 or 1, copies leave the byte as it is. Complex types are pairs
 * (real, imaginary). Buffers may have any alignment. */
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

/* Type of the elements of a buffer. */
typedef enum weft_dtype {
#define WEFT_DTYPE_ENUM(name, value, bytes, text) name = value,
    WEFT_DTYPE_LIST(WEFT_DTYPE_ENUM)
#undef WEFT_DTYPE_ENUM
} weft_dtype;
#define WEFT_NUM_DTYPES 17

/* X(name, value, text). min and max are undefined for complex; bitwise operators for floating types and
 * complex. Logical operators treat any non-zero value as true and store 0 or 1. avg divides the sum by the
 * number of ranks (integers truncate toward zero, after the sum has wrapped in its own type). 16- and 8-bit
 * floating types are accumulated in fp32 and rounded to nearest even when stored; a partial result that
 * travels to another rank is stored.
 * NaN: every operator but the logical ones gives the canonical quiet NaN when an operand is NaN, min and
 *     max too.
 * bool: sum, max, bor, lor are "or"; prod, min, avg, band, land are "and"; bxor, lxor are "exclusive or".
 * Same bits: all ranks get the same result, and so does every run with the same number of ranks per node,
 *     settings and kind of memory (weft_mem_alloc or not); instruction set, alignment and slicing do not
 *     matter. With one rank the result is the source as it is (times the scalar of a pre-multiplied sum). */
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

/* Combine elements for an operator of the user: out[i] = left[i] op right[i].
 *
 * Called for pieces of the vector in any order, from whatever thread advances the communicator, which is
 * inside a call meanwhile: the function must not call weft (on that communicator: WEFT_EBUSY), wait for other
 * ranks, or unwind past its caller.
 * @param left   count elements of the lower ranks (for a commutative operator: of either side)
 * @param right  count elements of the higher ranks
 * @param out    count elements to store; may equal `left` or `right`, never overlaps them in part
 * @param count  elements, at least 1
 * @param dtype  the operation's
 * @param arg    what weft_op_create was given
 * Threads: may be called from several threads at once, for different communicators. */
typedef void (*weft_op_fn)(const void *left, const void *right, void *out, size_t count,
                           weft_dtype dtype, void *arg);

/* ---- Handles ----------------------------------------------------------------------------------------- */

typedef struct weft_context weft_context; /* a process's attachment: settings, plugins, progress thread */
typedef struct weft_comm weft_comm;       /* an ordered group of ranks */
typedef struct weft_request weft_request; /* one operation, pending or persistent */
typedef struct weft_mem weft_mem;         /* one registration of memory */

/* Names a communicator yet to be made; holds a secret: hand it to its ranks only. See
 * weft_unique_id_create. */
#define WEFT_UNIQUE_ID_BYTES 128
typedef struct weft_unique_id {
    char bytes[WEFT_UNIQUE_ID_BYTES]; /* opaque; may be copied, sent and stored */
} weft_unique_id;

#define WEFT_TIMEOUT_DEFAULT ((uint64_t)0)           /* the communicator's setting */
#define WEFT_TIMEOUT_NEVER ((uint64_t)-1)

/* Structures that grow begin with `bytes`: set it with the initialisers below. A later version may add fields at
 * the end. A program that was compiled with an earlier one keeps working: what it lacks has its default, and of
 * results only what it knows is filled. A program that was compiled with a later version than the library's may leave
 * the new fields 0; if it sets one, the call fails with WEFT_ENOTSUP and the text names the structure. */

/* How a context is made. Strings are copied. */
typedef struct weft_context_config {
    size_t bytes;             /* sizeof, by WEFT_CONTEXT_CONFIG_INIT */
    unsigned flags;           /* WEFT_CONTEXT_* */
    const char *config_file;  /* NULL: $WEFT_CONFIG_FILE, if set */
    const char *const *settings; /* NULL, or "NAME=value" strings ended by NULL; outrank the environment */
} weft_context_config;
#define WEFT_CONTEXT_CONFIG_INIT { sizeof(weft_context_config), 0, NULL, NULL }
#define WEFT_CONTEXT_NO_PROGRESS_THREAD 1u /* operations advance only inside weft calls */

/* How a communicator is made. */
typedef struct weft_comm_config {
    size_t bytes;             /* sizeof, by WEFT_COMM_CONFIG_INIT */
    const char *name;         /* NULL, or a label for messages and traces; copied, cut after 63 bytes */
    uint64_t timeout_ns;      /* per operation; WEFT_TIMEOUT_DEFAULT: WEFT_COMM_TIMEOUT */
    uint64_t init_timeout_ns; /* for creation; WEFT_TIMEOUT_DEFAULT: WEFT_COMM_INIT_TIMEOUT, in split and
                                 dup the parent's */
    int priority;             /* -100 to 100, larger is more urgent: a thread that advances several communicators (the
                                 progress thread, weft_wait_any, weft_wait_all) first does what those of larger priority
                                 have to do, and between any two pieces of the others' work again; those go on all the
                                 same, at least once in 16 turns. Operations of one communicator keep their order. Only
                                 this rank is concerned: ranks may choose differently, but do best to agree. In split and
                                 dup the parent's is not taken */
    int reserved;             /* 0 */
} weft_comm_config;
#define WEFT_COMM_CONFIG_INIT { sizeof(weft_comm_config), NULL, 0, 0, 0, 0 }
#define WEFT_PRIORITY_MAX 100 /* of weft_comm_config.priority; the least is -WEFT_PRIORITY_MAX */

/* One axis of a mesh; see weft_comm_mesh. */
typedef struct weft_mesh_axis {
    size_t bytes;         /* sizeof, by WEFT_MESH_AXIS_INIT */
    const char *name;     /* for the reasons: "tp" */
    int extent;           /* ranks along it, 1 or more */
    double traffic;       /* what they exchange, compared with other axes; above 0 */
} weft_mesh_axis;
#define WEFT_MESH_AXIS_INIT { sizeof(weft_mesh_axis), NULL, 1, 1.0 }

/* X(name, value, text): the operations, for weft_call. No kind is 0: a call whose kind was not set is refused. */
#define WEFT_KIND_LIST(X)                                                                          \
    X(WEFT_KIND_ALL_REDUCE, 1, "all_reduce")                                                       \
    X(WEFT_KIND_REDUCE, 2, "reduce")                                                               \
    X(WEFT_KIND_BROADCAST, 3, "broadcast")                                                         \
    X(WEFT_KIND_ALL_GATHER, 4, "all_gather")                                                       \
    X(WEFT_KIND_ALL_GATHER_V, 5, "all_gather_v")                                                   \
    X(WEFT_KIND_REDUCE_SCATTER, 6, "reduce_scatter")                                               \
    X(WEFT_KIND_REDUCE_SCATTER_V, 7, "reduce_scatter_v")                                           \
    X(WEFT_KIND_ALL_TO_ALL, 8, "all_to_all")                                                       \
    X(WEFT_KIND_ALL_TO_ALL_V, 9, "all_to_all_v")                                                   \
    X(WEFT_KIND_GATHER, 10, "gather")                                                              \
    X(WEFT_KIND_GATHER_V, 11, "gather_v")                                                          \
    X(WEFT_KIND_SCATTER, 12, "scatter")                                                            \
    X(WEFT_KIND_SCATTER_V, 13, "scatter_v")                                                        \
    X(WEFT_KIND_SCAN, 14, "scan")                                                                  \
    X(WEFT_KIND_EXSCAN, 15, "exscan")                                                              \
    X(WEFT_KIND_BARRIER, 16, "barrier")                                                            \
    X(WEFT_KIND_SEND, 17, "send")                                                                  \
    X(WEFT_KIND_RECV, 18, "recv")                                                                  \
    X(WEFT_KIND_SEND_RECV, 19, "send_recv")

typedef enum weft_kind {
#define WEFT_KIND_ENUM(name, value, text) name = value,
    WEFT_KIND_LIST(WEFT_KIND_ENUM)
#undef WEFT_KIND_ENUM
} weft_kind;
#define WEFT_NUM_KINDS 19

/* What one operation does otherwise than its communicator. Copied by the call that it is given to. */
typedef struct weft_call_options {
    size_t bytes;         /* sizeof, by WEFT_CALL_OPTIONS_INIT */
    uint64_t timeout_ns;  /* WEFT_TIMEOUT_DEFAULT: the communicator's */
    const char *algorithm; /* NULL: the planner's choice; a name from weft_algorithm_list, the same on all ranks */
    const char *codec;    /* NULL: the communicator's (WEFT_COMPRESS); "none", or what is sent is coded: "int4:block=64,ef=1",
                             see weft_compress.h. The same on all ranks */
    uint64_t tensor;      /* with error feedback (ef=1): whose residual, the same on all ranks; 0: no tensor's */
    const char *label;    /* what the call is for, such as "layer3.weight"; NULL: the program does not say. Copied; errors and the
                             flight recorder have 63 bytes of it. The same on all ranks: calls of a collective that differ in
                             nothing else (two layers of one size, swapped on a rank) fail with WEFT_EMISMATCH */
    int accumulate;       /* reduce_scatter, reduce_scatter_v; 1: the result is added to what dst holds, as one more operand of
                             the reduction that completes it: of 16-bit types in fp32, rounded once. WEFT_SUM and WEFT_AVG of
                             real floating types; not in place, nor with a codec (that of WEFT_COMPRESS is not used). Runs
                             by algorithms that write the result once, of which those by level are none. The same on all
                             ranks. If the operation fails, dst may hold part of a sum */
    int reserved;         /* 0 */
} weft_call_options;
#define WEFT_CALL_OPTIONS_INIT { sizeof(weft_call_options), 0, NULL, NULL, 0, NULL, 0, 0 }

/* One operation with all its arguments; see weft_issue. What an operation does not have stays 0 or NULL; a root, peer,
 * tag or recv_count that it does not have is refused. */
typedef struct weft_call {
    size_t bytes;       /* sizeof, by WEFT_CALL_INIT */
    weft_kind kind;
    weft_dtype dtype;
    weft_op op;         /* of operations that reduce */
    int root;           /* reduce, broadcast, gather, scatter and their v-forms */
    int peer;           /* send, send_recv: the receiver; recv: the sender or WEFT_ANY_SOURCE */
    int recv_peer;      /* send_recv: the sender */
    int64_t tag;        /* send, recv; send_recv: of what is sent */
    int64_t recv_tag;   /* send_recv: of what is received */
    const void *src;
    void *dst;
    size_t count;       /* of the vector, or of one share; gather_v, send_recv: of what this rank sends */
    size_t recv_count;  /* scatter_v, send_recv: of what this rank receives */
    const size_t *send_counts; /* reduce_scatter_v, scatter_v, all_to_all_v: `counts` or `send_counts` */
    const size_t *send_displs; /* scatter_v, all_to_all_v: `displs` or `send_displs` */
    const size_t *recv_counts; /* all_gather_v, gather_v, all_to_all_v: `counts` or `recv_counts` */
    const size_t *recv_displs; /* likewise: `displs` or `recv_displs` */
    const weft_call_options *options; /* NULL: none */
} weft_call;
#define WEFT_CALL_INIT                                                                             \
    { sizeof(weft_call), (weft_kind)0, WEFT_UINT8, WEFT_SUM, 0, 0, 0, 0, 0, NULL, NULL, 0, 0,      \
      NULL, NULL, NULL, NULL, NULL }

#define WEFT_ANY_SOURCE (-2147483647) /* weft_recv, weft_probe: from whatever rank; no mistaken rank - 1 */
#define WEFT_ANY_TAG ((int64_t)-1)    /* likewise: with whatever tag */

/* What is known of a message; see weft_request_message and weft_probe. */
typedef struct weft_message {
    size_t bytes;     /* sizeof, by WEFT_MESSAGE_INIT */
    int source;       /* the sender's rank */
    weft_dtype dtype; /* of its elements */
    int64_t tag;
    size_t count;     /* elements */
} weft_message;
#define WEFT_MESSAGE_INIT { sizeof(weft_message), WEFT_ANY_SOURCE, WEFT_UINT8, WEFT_ANY_TAG, 0 }

/* Out-of-band exchange supplied by the caller; see weft_comm_create_oob. */
typedef struct weft_oob {
    size_t bytes;     /* sizeof(weft_oob) */
    int rank, nranks; /* this process's place in the communicator, and its size */
    /* Gather `mine_bytes` from each rank, the same number on all, into `all` (nranks * mine_bytes) in rank
     * order. Collective over the future communicator's ranks; may block up to timeout_ns
     * (WEFT_TIMEOUT_NEVER: for ever). Return 0, or non-zero to fail creation. */
    int (*all_gather)(void *arg, const void *mine, size_t mine_bytes, void *all, uint64_t timeout_ns);
    void *arg;        /* first argument of all_gather */
} weft_oob;

/* Details of a failure, filled by weft_last_error. Strings stay valid until the thread's next
 * weft_last_error, or its end. */
typedef struct weft_error {
    size_t bytes;         /* sizeof, by WEFT_ERROR_INIT */
    weft_status status;   /* WEFT_SUCCESS: nothing has failed */
    int rank;             /* this rank */
    int peer;             /* the culprit's rank, or -1 */
    uint64_t seq;         /* sequence number of the operation, 0 if none: collectives count from 1 in each
                             communicator, messages from 1 for each peer and direction */
    const char *host;     /* the culprit's host when known, else this host */
    const char *operation; /* "all_reduce", … or "" */
    const char *message;  /* one line: what happened */
    const char *advice;   /* one line: what to do about it */
} weft_error;
#define WEFT_ERROR_INIT { sizeof(weft_error), WEFT_SUCCESS, 0, -1, 0, NULL, NULL, NULL, NULL }

/* Whether a job key is there with which ranks of several hosts prove that they belong together. */
typedef enum weft_key_state {
    WEFT_KEY_NONE = 0,       /* none is configured: start-up on several hosts is refused, unless it brings one itself */
    WEFT_KEY_INSECURE = 1,   /* none, and WEFT_INSECURE has several hosts start without */
    WEFT_KEY_CONFIGURED = 2, /* one is configured, and is a key */
    WEFT_KEY_UNREAD = 3,     /* one should come from a pipe (WEFT_JOB_KEY_FD), which only a start may empty */
    WEFT_KEY_REFUSED = 4,    /* what is configured is no key, or settings contradict each other: nothing starts */
} weft_key_state;

/* How start-up is protected, filled by weft_context_security. Strings stay valid until the thread's next
 * weft_context_security, or its end. */
typedef struct weft_security {
    size_t bytes;         /* sizeof, by WEFT_SECURITY_INIT */
    weft_key_state key;
    int required;         /* WEFT_REQUIRE_KEY is set: several ranks do not start without a configured key */
    const char *text;     /* one line about key: what it means, or what is wrong */
    const char *misspelt; /* NULL, or one line: a setting about keys is spelt so that it is none */
} weft_security;
#define WEFT_SECURITY_INIT { sizeof(weft_security), WEFT_KEY_NONE, 0, NULL, NULL }

/* A collective, filled by weft_comm_newest_collective. Strings stay valid until the thread's next one, or its end. */
typedef struct weft_collective_info {
    size_t bytes;          /* sizeof, by WEFT_COLLECTIVE_INFO_INIT */
    const char *algorithm; /* as weft_comm_newest_algorithm has it */
    const char *codec;     /* with its parameters, cut after some hundred characters; "": what is sent is not compressed */
    uint64_t tensor;       /* of the codec */
    uint64_t bytes_sent;   /* given to transports so far, without headers; what ranks read of others' memory is not in it */
    int bypassed;          /* 1: there is a codec, and plain data is sent */
    int completed;         /* 1: on this rank; 0: it is under way, or has failed */
    const char *label;     /* of its options, as far as it is kept; "": it has none */
} weft_collective_info;
#define WEFT_COLLECTIVE_INFO_INIT { sizeof(weft_collective_info), NULL, NULL, 0, 0, 0, 0, NULL }

/* A plugin, as weft_context_plugins shows it. Strings are valid during the call. A refusal is, where kind is "", that another
 * user could have put the file there, or can change it, or that it is no plugin; where kind is "transport", why this host is
 * without it: there is no such device, or WEFT_TRANSPORTS does not name it. */
typedef struct weft_plugin_info {
    size_t bytes;        /* what the library has filled: look at it before fields that were added later */
    const char *kind;    /* "transport", "codec"; "" if it was refused: it was not looked into */
    const char *name;    /* "shm", "tcp", …; of what was refused, its file or folder without the path */
    const char *path;    /* of the file it was loaded from; NULL: built in */
    const char *refusal; /* NULL: it is open; else why not */
} weft_plugin_info;

/* Another rank of a communicator, as this one reaches it, filled by weft_comm_peer. Strings stay valid until the thread's next
 * weft_comm_peer, or its end; host as long as the communicator. */
typedef struct weft_peer_info {
    size_t bytes;          /* sizeof, by WEFT_PEER_INFO_INIT */
    int node;              /* nodes are numbered from 0, by their lowest rank */
    int same_node;         /* 1: it is on this rank's */
    const char *host;      /* its name */
    const char *transport; /* by which the two reach each other: "shm", "tcp", …; "": this rank itself, without one */
    const char *left_out;  /* better ones, and why they do not serve: "verbs: rank 3 on host b has none"; "": none */
    const char *state;     /* what the transport says of the peer now: its process, addresses, "not connected yet"; "": nothing */
} weft_peer_info;
#define WEFT_PEER_INFO_INIT { sizeof(weft_peer_info), 0, 0, NULL, NULL, NULL, NULL }

/* A transport between this rank and another, as weft_comm_routes shows it. Strings are valid during the call. */
typedef struct weft_route_info {
    size_t bytes;          /* what the library has filled: look at it before fields that were added later */
    const char *transport; /* its name */
    int priority;          /* the greatest serves, of those that reach both ways */
    int here, there;       /* 1: this rank has it; the peer has it */
    int reaches, reached;  /* 1: the peer is reached from here by it; this rank from there */
    int used;              /* 1: it serves this pair */
    int memory;            /* 0: it is a network; through memory, it ends where that does: 1: with the node, 2: with the process */
    int reserved;
} weft_route_info;

#ifdef __cplusplus
}
#endif
#endif /* WEFT_TYPES_H */
