/* weft_plugin.h: contracts between libweft and its plugins.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A plugin is a shared object that exports one symbol, `weft_plugin`, a const struct weft_plugin whose
 * `abi` equals WEFT_PLUGIN_ABI. Built-in plugins (shm, tcp, inproc) are the same structs, linked in.
 * Ops structs only ever grow at their end; `bytes` tells how much of one the plugin knows. An entry that is
 * NULL or beyond `bytes` is replaced by a stub that returns WEFT_ENOTSUP.
 *
 * Threads: libweft makes all calls on one group under that group's lock, one at a time. Calls on the
 * endpoint and on different groups may run at the same time; state shared by them is the plugin's to guard.
 *
 * Fork: libweft refuses the handles that a forked child has from its parent, so nothing that the parent opened is called in
 * the child; close and group_destroy are not either. The plugin sees to it (weft_host.fd_keep, or pthread_atfork, in the child,
 * without taking a lock) that what it holds does not outlive the parent there: sockets and descriptors by which others notice
 * the parent's end are closed, memory shared with other ranks is not inherited (MADV_DONTFORK) or never written to, and no
 * destructor speaks for the parent. A child may open the plugin anew.
 */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include <stddef.h>
#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_PLUGIN_ABI 2u
#define WEFT_PLUGIN_SYMBOL "weft_plugin"
#define WEFT_LINE_BYTES 64

enum weft_plugin_kind { WEFT_PLUGIN_TRANSPORT = 1, WEFT_PLUGIN_DEVICE = 2, WEFT_PLUGIN_CODEC = 3, WEFT_PLUGIN_MANAGER = 4 };

enum weft_log_level { WEFT_LOG_ERROR = 1, WEFT_LOG_WARN, WEFT_LOG_INFO, WEFT_LOG_DEBUG, WEFT_LOG_TRACE };

/* ---- Settings ---------------------------------------------------------------------------------------- */

enum weft_setting_type {
    WEFT_SETTING_BOOL,   /* y/n/yes/no/on/off/true/false/1/0 -> int */
    WEFT_SETTING_INT,    /* -> int64_t */
    WEFT_SETTING_BYTES,  /* 64K, 1M, 2G, 100 -> size_t (K = 1024) */
    WEFT_SETTING_TIME,   /* 500us, 2s, 5min, inf; bare numbers are seconds -> uint64_t nanoseconds */
    WEFT_SETTING_STRING, /* -> const char *; may name files or code */
    WEFT_SETTING_WORD,   /* -> const char *; names neither a file nor a descriptor nor code */
    WEFT_SETTING_FD,     /* a descriptor of this process, -1 for none -> int64_t */
};

/* Joined to a type (WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL): all ranks of a communicator must have the same value; of a
 * transport's setting those that have the transport. It is checked when the communicator is made. */
#define WEFT_SETTING_EQUAL 0x100u
/* Joined to WEFT_SETTING_INT or WEFT_SETTING_BYTES: only powers of two. */
#define WEFT_SETTING_POWER_OF_TWO 0x200u

/* One row; a table ends with a row whose name is NULL. The full name is WEFT_<MODULE>_<NAME>. Values are
 * parsed into a struct of the module's own, at `offset`. A program with more rights than its caller (set-uid, file
 * capabilities) does not take STRING and FD from the environment. */
struct weft_setting {
    const char *name;          /* upper case, without the prefix */
    const char *default_value;
    unsigned type;             /* enum weft_setting_type, perhaps with the flags above */
    size_t offset;
    int64_t min, max;          /* inclusive range for INT, FD, BYTES and TIME when min < max */
    const char *help;          /* one sentence with the unit */
};

/* ---- What libweft offers a plugin --------------------------------------------------------------------- */

struct weft_auth; /* one side of one handshake */

/* Which process: fixed bytes, to be part of an address. */
struct weft_process {
    uint64_t space;   /* of boot and pid namespace, where `pid` means something; 0: not comparable */
    uint64_t started; /* in clock ticks since boot: tells processes with the same number apart */
    int32_t pid;
    uint32_t reserved;
};

#define WEFT_SIDE_MAX 4096    /* bytes of connection data: weft_host.side_request */
#define WEFT_SIDE_WHY_MAX 160

struct weft_host {
    size_t bytes;
    void *impl;
    void (*log)(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
    uint64_t (*now_ns)(void);
    /* Record why the current call is about to fail; the text reaches weft_last_error. */
    void (*explain)(void *impl, weft_status status, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

    /* Mutual HMAC-SHA256 handshake over the job key; fixed-size messages, at most 256 bytes each. `claim`
     * is bound into the transcript and delivered to the other side once authenticated; a client's claim begins with the
     * 16 bytes of its group's comm_id (as in memory), by which the server finds the key. Feed what arrives
     * with auth_step until it returns WEFT_SUCCESS (then `peer_claim` is filled), WEFT_INPROGRESS (send
     * `out`, or read more), or WEFT_EAUTH (close without a reply). On SUCCESS there may still be `out`
     * bytes to send. */
    struct weft_auth *(*auth_create)(void *impl, int is_server, const void *claim, size_t claim_bytes);
    weft_status (*auth_step)(struct weft_auth *auth, const void *in, size_t in_bytes, size_t *consumed,
                             void *out, size_t out_capacity, size_t *out_bytes, void *peer_claim,
                             size_t *peer_claim_bytes);
    void (*auth_destroy)(struct weft_auth *auth);

    /* memcpy that is fast for long copies whatever their alignment. `stream`: what is stored goes past the caches, for another
     * core to read next; it is ordered before whatever is stored after the call. */
    void (*copy)(void *dst, const void *src, size_t bytes, int stream);

    /* After auth_step has returned WEFT_SUCCESS and before auth_destroy: up to 1,024 bytes of key material that only the two
     * ends of this handshake have and that no other handshake has. Another `label` (at most 64 characters) gives other bytes.
     * For message authentication, encryption, or as a pre-shared key of TLS. */
    weft_status (*auth_session)(struct weft_auth *auth, const char *label, void *key, size_t key_bytes);

    /* Server, before the first auth_step: `wanted` judges the client's claim once its first message has proven the key, inside
     * auth_step. 0: the client is told nothing and auth_step returns WEFT_EAUTH, so that a message that was meant for another
     * listener of the job and is played back here gets no answer. */
    void (*auth_expect)(struct weft_auth *auth, int (*wanted)(void *arg, const void *claim, size_t claim_bytes), void *arg);

    /* The side channel, for a transport with WEFT_CAP_SIDE: connection data (addresses of endpoints, numbers of queue pairs) that
     * two ranks exchange when they first need each other. `side` is weft_group_config.side. None of these blocks; call them with
     * the group's lock held, as everything on the group is, from progress, say. One rank requests, the other one's transport sees
     * the request the next time it looks, and responds. Nothing is ordered but a request and its response; both ranks may request
     * of each other at once. What they say travels authenticated and unchanged or not at all, and may be read by others on the
     * network; the transport checks what it means. A connection that breaks is made again until the deadline, so that a request
     * may be seen twice; of one rank only the newest is open.
     *   side_request    WEFT_EINVAL: more than WEFT_SIDE_MAX bytes, or no such rank. WEFT_EBUSY: a request to that rank is open, or
     *                   its response was not taken.
     *   side_response   WEFT_INPROGRESS until the response is there; it is taken then. WEFT_ETIMEDOUT: none came within the
     *                   communicator's deadline for operations. WEFT_EPEER: the peer has left, or its process ended. WEFT_EAUTH:
     *                   the response was changed on its way. WEFT_EPROTO: it is none, or longer than `capacity`, or the request was
     *                   longer than the peer's. Of these, after which another request may be made, `why` names rank, host and
     *                   transport, for weft_peer_failure.text. WEFT_EINVAL: nothing was requested.
     *   side_requested  1: the oldest request that was not seen is *peer's, and is taken; 0: there is none. A request longer than
     *                   `capacity` is refused, and its sender told so.
     *   side_respond    to the request of that peer that was taken. WEFT_EPEER: the peer does not wait for it any more, which is no
     *                   failure of the group.
     *   side_fd         polls readable while side_response or side_requested has news; for poll_fd.
     * Before group_destroy is called, what is under way is dropped: requesters are told that this rank has left. */
    weft_status (*side_request)(void *side, int peer, const void *data, size_t bytes);
    weft_status (*side_response)(void *side, int peer, void *response, size_t capacity, size_t *bytes,
                                 char why[WEFT_SIDE_WHY_MAX]);
    int (*side_requested)(void *side, int *peer, void *request, size_t capacity, size_t *bytes);
    weft_status (*side_respond)(void *side, int peer, const void *data, size_t bytes);
    int (*side_fd)(void *side);

    /* Descriptors that a child made by fork() must not keep: a connection ends for the peer when the last process that has its
     * descriptor ends. fd_keep notes one, which children close from then on, and returns it; below 0: nothing. fd_close takes it
     * off the list and closes it, noted or not. One list for the process: any thread, no lock held or not. */
    int (*fd_keep)(int fd);
    void (*fd_close)(int fd);

    /* Processes of this host. process_self: which this one is, for its address. process_state: what another one, that said so, is
     * doing: 'R', 'S', 'T', … as in /proc; 0: it has ended (also where another process has its number now); '?': that cannot be
     * known from here, as it is on another host or in another pid namespace. Every byte of *process is untrusted. Some tens of
     * microseconds. A process whose first thread has ended, and others not, goes on. */
    void (*process_self)(struct weft_process *process);
    int (*process_state)(const struct weft_process *process);

    /* For a plugin that loads code itself. 1: this file or folder, and every folder and link on the way to it, belong to root, to
     * the user or to the owner of libweft, and no other user can write to them; libweft loads nothing else. 0: `why` names what
     * is wrong with which of them. */
    int (*path_trusted)(const char *path, char *why, size_t capacity);
    /* Would `log` write something of this level? For a plugin that makes its text beforehand. */
    int (*log_wanted)(void *impl, enum weft_log_level level);
};
#define WEFT_AUTH_MESSAGE_MAX 256
#define WEFT_AUTH_CLAIM_MAX 64

/* Does this host offer a function? Hosts only ever grow at the end; an older one ends before what it does not know. */
#define WEFT_HOST_HAS(host, member)                                                                                    \
    ((host)->bytes >= offsetof(struct weft_host, member) + sizeof((host)->member) && (host)->member != NULL)

/* ---- Two-sided transfers --------------------------------------------------------------------------------- */

/* What an operation is, carried with every message so that ranks that disagree find out. */
struct weft_op_info {
    uint32_t seq;   /* operation number in the communicator; for point to point, per direction and peer */
    uint8_t kind;   /* WEFT_COLL_* of the library; compared, printed, never used as an index */
    uint8_t dtype;
    uint8_t op;     /* 255: a user's operator */
    uint8_t flags;
    uint32_t root;  /* or peer */
    uint32_t hash;  /* of per-rank counts, for the v-forms; of the algorithm that was named; of earlier operations */
    uint64_t count;
};

enum weft_xfer_state { WEFT_XFER_PENDING = 1 }; /* otherwise a weft_status: 0 done, < 0 failed */

/* One posted send or receive. The caller owns it and fills all of it down to `state`, what it does not use with zero; from
 * post until `state` leaves PENDING the transport may read and write it, and the caller must keep `buf` untouched. No
 * callback: the caller polls `state`. */
struct weft_xfer {
    void *buf;            /* send: read only. recv: NULL when `sink` is set */
    size_t bytes;         /* send: length of the message; 0 is a real (empty) message. recv: capacity; a longer message ends
                             the receive with WEFT_ETRUNC, and is consumed */
    int peer;             /* rank in the group */
    uint32_t chan;        /* FIFO matching is per (peer, direction, chan); < WEFT_CHAN_MAX */
    struct weft_op_info info;
    /* recv only: consume the payload in order instead of storing it. Called from progress, each time with a
     * multiple of `granule` bytes except that the last call ends the message. `data` is valid only inside. */
    void (*sink)(struct weft_xfer *x, size_t offset, const void *data, size_t bytes);
    void *sink_arg;
    uint32_t granule;     /* bytes of one element: 1, 2, 4, 8, 16 */
    uint8_t background;   /* a receive that may never be met: the peer may leave without its counting as pending.
                             Likewise sends of the layer's to a peer that may not need them (WEFT_CHAN_MAX_LAYERED) */
    uint8_t up_to;        /* recv: a shorter message is received, too. 0: it ends the receive with WEFT_EMISMATCH */
    uint16_t reserved;
    uint32_t memory;      /* enum weft_memory_kind of `buf`; 0: the host's */
    int state;            /* only touched under the group's lock */
    void *mem;            /* what mem_register gave for memory that `buf` lies in; NULL: it is not known to lie in any. With
                             WEFT_CAP_REGISTER never NULL, unless there are no bytes */
    uint32_t imm;         /* of a transport without WEFT_CAP_INFO. send: travels with the message, as many of its low bits as
                             weft_plugin.info_bits. recv: what came with the message */
    uint32_t reserved2;
    size_t actual;        /* recv: length of the message, once one has met the receive (before its sink is called) */
    struct weft_op_info peer_info; /* set when state is WEFT_EMISMATCH */
    struct weft_xfer *next;        /* the transport's */
    uint64_t priv[8];              /* the transport's */
};
#define WEFT_CHAN_MAX 64
#define WEFT_POSTS_MIN 4           /* transfers of one peer, channel and direction that must find room */
#define WEFT_CHAN_MAX_LAYERED (WEFT_CHAN_MAX + 1) /* one more, for the layer's headers */

/* ---- Mapped groups: all ranks of the group can load and store each other's arena ------------------------- */

/* Protocol (the executor's; the transport only lays the memory out, zeroed, and wakes sleepers)
 *   Mapped work is numbered by epochs, one per slice of a mapped operation, the same on all ranks.
 *   signals[l].value: written by its owner only, monotonic: 8*epoch + ordinal of the signal + 1, lane l.
 *   ll: `ll_depth` slots of `ll_lines` cache lines; slot = epoch % ll_depth. A line is seq (= epoch + 1) and payload;
 *   payload is stored before seq, so that a reader that sees seq has the payload in the same cache miss.
 *   slots: `depth` scratch areas of slot_bytes; slot = epoch % depth. A slot has at least a line for each rank's block and one more
 *   (WEFT_SLOT_MIN_BYTES): operations are cut so that a slice's scratch fits, and not finer than lines.
 *   done: written by its owner only: all epochs < done are finished with, i.e. this rank reads no arena of
 *   those epochs any more. Epoch e may write its slot when every rank's done + depth > e; its ll slot when
 *   done + ll_depth > e. */
#define WEFT_SLOT_MIN_BYTES(nranks) (((size_t)(nranks) + 1) * WEFT_LINE_BYTES)
struct weft_signal {
    uint64_t value;
    uint64_t pad[15];
};
struct weft_ll_line {
    uint64_t seq;
    unsigned char payload[56];
};
/* The newest operation each rank has begun, for naming both sides of a disagreement; a seqlock: `version` is
 * odd while `info` is being written. */
struct weft_board {
    uint32_t version;
    uint32_t state;           /* enum weft_board_state */
    struct weft_op_info info;
    /* The library's, as are the others; a transport only makes room, all zero. */
    uint64_t failure;         /* of a rank that gave up: its status, and the rank that caused it in the low half */
    uint64_t stores_to;       /* into whose memory it writes just now; 0: nobody's */
    struct weft_op_info failed_in;
    uint64_t cause[23];       /* the beginning of the text, with its 0 */
};
enum weft_board_state { WEFT_BOARD_ALIVE = 0, WEFT_BOARD_LEFT = 1, WEFT_BOARD_ABORTED = 2 };

struct weft_mapped_rank {
    struct weft_signal *signals;  /* [nlanes] */
    struct weft_signal *done;     /* one */
    struct weft_ll_line *ll;      /* [ll_depth * ll_lines] */
    unsigned char *slots;         /* [depth * slot_bytes], 64-byte aligned */
    struct weft_board *board;
    uint32_t *processor;          /* that it waited on last, plus one; 0: never waited; on a line of its own, seldom
                                     written. NULL: the transport has none */
};

struct weft_mapped {
    uint32_t nlanes, depth, ll_depth, ll_lines; /* the depths are powers of two */
    size_t slot_bytes;                /* >= WEFT_SLOT_MIN_BYTES */
    struct weft_mapped_rank *ranks;   /* [nranks], all zero where a rank is no member; valid until group_destroy */
    const uint32_t *sleepers;         /* number of ranks asleep or falling asleep; after publishing, a rank that
                                         reads non-zero calls ops->wake */
};

/* Names memory of one process so that another can reach it. All zero: not reachable. */
struct weft_mem_desc {
    uint64_t segment;  /* the owner's number for a shareable segment, 0 when the memory is private */
    uint64_t offset;   /* within the segment */
    uint64_t address;  /* in the owner's address space, for mem_get */
    uint64_t bytes;
};

/* One posted get or put: owned like a weft_xfer. 0 bytes move nothing; `local` and `mem` may be NULL then. */
struct weft_rma {
    void *local;
    void *mem;          /* as in weft_xfer */
    size_t bytes;
    int peer;
    uint32_t memory;    /* as in weft_xfer */
    void *remote;       /* what mem_import gave */
    uint64_t remote_address; /* in the peer's address space, within what was imported */
    int state;          /* WEFT_XFER_PENDING, or how it ended */
    struct weft_rma *next; /* the transport's */
    uint64_t priv[8];      /* the transport's */
};
#define WEFT_MEM_KEY_MAX 256

/* ---- The transport contract --------------------------------------------------------------------------------- */

enum weft_transport_caps {
    WEFT_CAP_TWO_SIDED = 1u << 0, /* send, recv */
    WEFT_CAP_MAPPED = 1u << 1,    /* mapped() works. Of a group that not all ranks are members of it may say WEFT_ENOTSUP */
    WEFT_CAP_MEM_MAP = 1u << 2,   /* mem_describe/mem_map */
    WEFT_CAP_MEM_GET = 1u << 3,   /* mem_get */
    WEFT_CAP_MEM_PUT = 1u << 4,   /* mem_put */
    /* What the executor needs of messages. Where a transport lacks one of them, the library puts a layer above it that
     * sends a header before each message and stages short ones (src/net/channel.c): correct, with a copy and a message more. */
    WEFT_CAP_SINK = 1u << 5,      /* receives may have a `sink` */
    WEFT_CAP_PEEK = 1u << 6,      /* peek */
    WEFT_CAP_INFO = 1u << 7,      /* messages carry all of weft_op_info; receives compare it */
    WEFT_CAP_REGISTER = 1u << 8,  /* sends, receives, gets and puts need registered memory: weft_xfer.mem, weft_rma.mem. The layer
                                     sees to it: what the program has not registered is registered for the operation, or staged */
    WEFT_CAP_GET = 1u << 9,       /* get, mem_key, mem_import. With WEFT_CAP_MAPPED, and ll slots of 1 KiB or more: large operations
                                     between private buffers of the mapped ranks use it */
    WEFT_CAP_PUT = 1u << 10,      /* put, likewise */
    WEFT_CAP_MEM_ALL = 1u << 11,  /* mem_map reaches all memory of peers as it is: none need be allocated or adopted
                                     for it */
    WEFT_CAP_SIDE = 1u << 12,     /* it uses the side channel (weft_host.side_*), which is there for it only */
};

#define WEFT_ADDRESS_MAX 1024

struct weft_peer_failure {
    int peer;            /* rank in the group */
    weft_status status;  /* WEFT_EPEER, WEFT_EAUTH, WEFT_EPROTO, WEFT_EABORTED, … */
    char text[160];
};

struct weft_group_config {
    size_t bytes;
    uint64_t comm_id[2];          /* the same on all ranks, unique among live communicators of the job */
    int rank, nranks;             /* of the communicator */
    const void *const *addresses; /* [nranks] what each rank's `address` wrote; copied if needed */
    const size_t *address_bytes;  /* [nranks] */
    const unsigned char *member;  /* [nranks] non-zero: this transport serves that peer (self included) */
    int oversubscribed;           /* this node has more ranks than cores: never spin */
    uint64_t deadline_ns;         /* absolute, for group_create */
    /* Exchange among the member ranks only, in rank order, over the bootstrap. May block until deadline. */
    weft_status (*all_gather)(void *arg, const void *mine, size_t mine_bytes, void *all);
    void *all_gather_arg;
    /* Channels of transfers are below: WEFT_CHAN_MAX, or WEFT_CHAN_MAX_LAYERED for a transport that the layer is put above. */
    uint32_t nchans;
    void *side; /* of weft_host.side_*, until group_destroy; NULL without WEFT_CAP_SIDE */
};

struct weft_transport_ops {
    size_t bytes;

    /* Open the transport for this process. `settings` points to the module's parsed settings struct (see
     * weft_plugin.settings_bytes) and lives as long as the endpoint; so does `host`. Must not talk to peers.
     * WEFT_ENOTSUP: this host cannot (no error is shown, the transport is left out). */
    weft_status (*open)(const struct weft_host *host, const void *settings, void **endpoint);
    /* All groups are destroyed before. Must not fail; bounded. */
    void (*close)(void *endpoint);
    /* Write at most `capacity` (WEFT_ADDRESS_MAX) bytes by which peers can reach this process. */
    weft_status (*address)(void *endpoint, void *buf, size_t capacity, size_t *bytes);
    /* Can the process with that address be reached? Local knowledge only: must not block or talk. The
     * library tells all ranks what all said, and uses a transport for a pair that both sides reach by it. Every byte of the
     * address is untrusted. Returns 1 or 0. */
    int (*reachable)(void *endpoint, const void *address, size_t bytes);

    /* Join the group. Called by all members at about the same time; may use config->all_gather the same
     * number of times on every member. Must not connect (connections come on first use). After a failure
     * on any member the communicator is not created and the members that succeeded get group_destroy. */
    weft_status (*group_create)(void *endpoint, const struct weft_group_config *config, void **group);
    /* Local, bounded, allowed at any time, also after failures and with transfers pending (they are
     * forgotten, not completed; their memory is not touched any more when this returns). `aborted`: tell
     * peers, as far as possible without waiting, that this rank left in failure. */
    void (*group_destroy)(void *group, int aborted);

    /* Post. Must not block. A failure to post is reported by return value (then x is untouched and not
     * owned) or later in x->state. May complete x at once: check the state after return.
     * Of a transport without WEFT_CAP_INFO or WEFT_CAP_PEEK: WEFT_EBUSY, there is no room now, post it again after progress;
     * only while WEFT_POSTS_MIN others of the same peer, channel and direction are posted, so that channels never wait for one
     * another. A send may stay pending until its receive is posted. */
    weft_status (*send)(void *group, struct weft_xfer *x);
    weft_status (*recv)(void *group, struct weft_xfer *x);
    /* Advance everything that can be without blocking. Returns the number of events (0: nothing moved), or
     * a failure; for a peer's failure *failure is filled. Peer deaths must be noticed here even when no
     * transfer is posted. Posted transfers with a dead peer end with WEFT_EPEER. Cheap when idle: less
     * than a microsecond on average. */
    int (*progress)(void *group, struct weft_peer_failure *failure);
    /* A file descriptor (epoll-like) that polls readable when progress would do something; -1: none. */
    int (*poll_fd)(void *group);
    /* Before sleeping on poll_fd: make it so that anything that has happened since the last progress makes it
     * readable. Returns 1 if progress must be called again instead of sleeping. */
    int (*poll_arm)(void *group);

    /* Lay out the arena; only with WEFT_CAP_MAPPED. Memory appears when touched. */
    weft_status (*mapped)(void *group, struct weft_mapped *mapped);
    /* Sleep until wake() by a member or `timeout_ns`. `ready(arg)` is called after announcing the sleep and must
     * be re-evaluated before falling asleep so that no wake-up is lost. Spurious returns are fine. */
    void (*sleep)(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns);
    /* Wake sleeping members. Cheap. */
    void (*wake)(void *group);

    /* Shareable memory of this process. alloc returns page-aligned zeroed memory; adopt makes the page-aligned
     * interior of existing private memory shareable in place, contents kept (WEFT_ENOTSUP when it cannot); the
     * result describes [ptr, ptr+bytes) whole pages. Per endpoint, any thread. */
    weft_status (*mem_alloc)(void *endpoint, size_t bytes, void **ptr);
    weft_status (*mem_free)(void *endpoint, void *ptr);
    weft_status (*mem_adopt)(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes);
    weft_status (*mem_release)(void *endpoint, void *adopted); /* keeps contents, makes it private again */
    /* Fill desc for [ptr, ptr+bytes); segment 0 if it is not wholly in one shareable segment. O(log n), under
     * 100 ns: called for every large operation. */
    void (*mem_describe)(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc);
    /* Pointer through which this process reaches a peer's segment memory; cached until the group ends or the
     * peer frees the segment. */
    weft_status (*mem_map)(void *group, int peer, const struct weft_mem_desc *desc, void **ptr);
    /* Copy from a peer's private memory (cross-memory attach or RMA); may block for the copy's duration. */
    weft_status (*mem_get)(void *group, int peer, uint64_t remote_address, void *local, size_t bytes);

    /* Text for diagnosis: "tcp 10.0.0.1:4711 -> 10.0.0.2:33211, 3 sends pending", or what the peer's process is
     * doing ("process 4711 is stopped"). Returns bytes written, 0 if nothing is known. */
    size_t (*describe_peer)(void *group, int peer, char *text, size_t capacity);

    /* Look at the oldest message of a channel that no posted receive will take, without taking it. 1: *info and *bytes
     * are its, and a receive posted now meets it; 0: none yet, also while receives are pending, and its arrival counts
     * as an event of progress; < 0: none will come (WEFT_EPEER: the peer has left). Every byte of *info is untrusted.
     * `connect`: as a posted receive would; else a peer that was not used yet is let be. */
    int (*peek)(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes);

    /* Copy to a peer's private memory, the counterpart of mem_get. The peer sees the bytes once it has seen what this rank
     * signals afterwards. Of 0 bytes: would it be permitted, as far as can be told without writing? */
    weft_status (*mem_put)(void *group, int peer, uint64_t remote_address, const void *local, size_t bytes);

    /* Register memory for transfers; *mem stands for it until mem_deregister. `memory`: a weft_memory_kind. Registrations may
     * overlap. WEFT_ENOMEM: a limit is reached (explain which; the layer stages then). Per endpoint, any thread. Nothing is
     * posted on the memory any more when it is deregistered. */
    weft_status (*mem_register)(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem);
    void (*mem_deregister)(void *endpoint, void *mem);

    /* What a peer needs to get from, or put to, registered memory: at most WEFT_MEM_KEY_MAX bytes, that the library carries to
     * it; and what the peer makes of it, valid until mem_forget or group_destroy. Every byte of a key is untrusted. */
    weft_status (*mem_key)(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes);
    weft_status (*mem_import)(void *group, int peer, const void *key, size_t bytes, void **remote);
    void (*mem_forget)(void *group, void *remote);
    /* Post a one-sided transfer, with completion in r->state, under the rules of send and recv: WEFT_EBUSY, there is no room
     * now (WEFT_POSTS_MIN for each peer there is), post it again after progress. They end in any order. A put has completed when
     * the peer would see its bytes, also if it is told by a message of another channel. A range outside of the imported memory,
     * or of 0 bytes outside of it, ends with WEFT_EINVAL; a key that is another rank's likewise; one that the peer has taken
     * back, or never gave, with WEFT_EPROTO; explain which. With a peer that is gone, in good order or not: WEFT_EPEER. */
    weft_status (*get)(void *group, struct weft_rma *r);
    weft_status (*put)(void *group, struct weft_rma *r);

    /* Stop touching the memory of transfers, also of those that peers make here. Called when operations have failed, before
     * their buffers go back to the program; only group_destroy follows.
     * WEFT_SUCCESS: neither this process nor a device nor a peer reads or writes it any more, and no peer takes for sound
     * what it read too late; what is pending ends with WEFT_ECANCELED. WEFT_ETIMEDOUT: that could not be had by
     * the deadline; what may still be touched stays pending until group_destroy. May block until the deadline. NULL: memory is
     * touched only inside of calls on the group, and never by peers. */
    weft_status (*quiesce)(void *group, uint64_t deadline_ns);

    /* Of a transport without WEFT_CAP_INFO or WEFT_CAP_PEEK. 1: the peer has left in good order (group_destroy, not aborted), and
     * what it sent before has been received as far as receives were posted. NULL: peers that leave fail. */
    int (*left)(void *group, int peer);
    /* Likewise: begin to connect, as a posted send would; background receives do not. NULL: there is nothing to begin. */
    void (*connect)(void *group, int peer);
};

/* ---- The device contract ------------------------------------------------------------------------------------- */

/* Where memory is. Values are bits, so that sets of kinds fit a word. */
enum weft_memory_kind { WEFT_MEMORY_HOST = 1, WEFT_MEMORY_CUDA = 2, WEFT_MEMORY_SOFTDEV = 4 };

struct weft_device_ops {
    size_t bytes;

    /* Find the device; WEFT_ENOTSUP: there is none here (no error is shown). */
    weft_status (*open)(const struct weft_host *host, const void *settings, void **device);
    void (*close)(void *device);
    /* What the device's pointers are. */
    uint32_t (*kinds)(void *device);
    /* The kind of the memory at ptr, 0 if it is not this device's. Any thread; must not block; under 100 ns for
     * memory that is not the device's, since it is asked for every buffer of every call. */
    uint32_t (*kind_of)(void *device, const void *ptr);
};

/* ---- The codec contract -------------------------------------------------------------------------------------- */

/* A codec turns blocks of fp32 elements into images, which compressed collectives send, and images into elements. It is a plugin
 * whose name is what a program writes before the colon: "int4:block=64". Its name has at most WEFT_CODEC_NAME_MAX of the letters
 * a-z, 0-9 and _; its summary is one line of help; it has parameters instead of settings, and caps and priority are 0. What is
 * loaded once stays for the life of the process.
 *
 * Codecs are pure functions: of the same arguments the same bits, on every CPU, in any thread, several at once, without state.
 * None of them blocks, allocates, logs or fails, unless its comment says so. Vectors and images have no alignment but that of their
 * type. The image of a vector is its blocks' images one behind the other. The last block may have fewer elements; it is encoded as
 * if zeros followed, and its image is as long as the others'. Calls may have any number of whole blocks, and the last one: the same
 * blocks have the same images, however a vector is cut. */
#define WEFT_CODEC_NAME_MAX 23
#define WEFT_CODEC_PARAMETERS_MAX 8
#define WEFT_CODEC_BLOCK_MIN 32u
#define WEFT_CODEC_BLOCK_MAX 65536u
#define WEFT_CODEC_SCRATCH_MAX ((size_t)1 << 20)
#define WEFT_CODEC_HEAD_BYTES 4u

enum weft_codec_parameter_type {
    WEFT_CODEC_POWER_OF_TWO = 1, /* -> integer */
    WEFT_CODEC_INTEGER,          /* -> integer */
    WEFT_CODEC_REAL,             /* digits with a point, "2.5" -> real */
    WEFT_CODEC_WORD,             /* one of `words` -> integer, its place among them */
};

/* One row; a table ends with a row whose name is NULL. Names are as those of codecs; ef, bypass, min and what is added to
 * weft_compress.h for calls are taken. */
struct weft_codec_parameter {
    const char *name;
    const char *default_value;
    enum weft_codec_parameter_type type;
    double min, max;   /* inclusive, of numbers; of at most 2^53 */
    const char *words; /* of a WORD: "nearest|stochastic"; else NULL */
    const char *help;  /* one sentence with the unit */
};

union weft_codec_value {
    int64_t integer;
    double real;
};

enum weft_codec_traits {
    WEFT_CODEC_CONTRACTIVE = 1u << 0, /* the expected error is shorter than the vector: error feedback converges (ef=1) */
    WEFT_CODEC_UNBIASED = 1u << 1,    /* the expected value of what is decoded is the vector */
    WEFT_CODEC_VARIABLE = 1u << 2,    /* images are as long as their data needs: see `read` */
    WEFT_CODEC_LINEAR = 1u << 3,      /* what is coded can be summed without decoding it: see `linear` */
};

/* What the ranks agree on for each block before they encode, so that sums of what is coded are what is coded of sums. */
enum weft_codec_agreement {
    WEFT_CODEC_AGREE_NOTHING, /* no rank needs to be asked */
    WEFT_CODEC_AGREE_MAX,     /* the maximum over all ranks of what each of them proposes */
    WEFT_CODEC_AGREE_LEADER,  /* what one rank says, another one from call to call */
};

/* The plain vectors of a linear codec: so many elements, of a type that collectives sum, for each block. */
struct weft_codec_linear {
    weft_dtype dtype;        /* of what is summed */
    uint32_t elems;          /* at most the bytes of 2 fp32 for each element of the block, as images */
    uint32_t agreement;      /* enum weft_codec_agreement */
    weft_dtype agreed_dtype; /* of what is agreed on, unless that is nothing; likewise */
    uint32_t agreed_elems;
};

/* A codec with its parameters. libweft fills it down to `value`, and configure the rest. It grows at its end only. */
struct weft_codec {
    const struct weft_plugin *plugin;
    const struct weft_codec_ops *ops; /* complete: what a plugin does not know is NULL */
    union weft_codec_value value[WEFT_CODEC_PARAMETERS_MAX]; /* in the order of the table */
    uint64_t hash;          /* of name and values: the same on all ranks */
    uint32_t block;         /* elements: a power of two from WEFT_CODEC_BLOCK_MIN to WEFT_CODEC_BLOCK_MAX */
    uint32_t traits;        /* WEFT_CODEC_* */
    uint32_t lossy_limit;   /* times that an element may be encoded on its way from a contribution to a result; 0: any number */
    float limit;            /* a block with a magnitude of this or more is not finite */
    size_t block_bytes;     /* of a block's image */
    size_t scratch_bytes;   /* that its functions need, at most WEFT_CODEC_SCRATCH_MAX: what is too long for a thread's stack */
    float nmse;             /* ||decoded - x||^2 / ||x||^2 of Gaussian data, about */
    float encode_rate, decode_rate; /* bytes of fp32 per microsecond of one core, vectors in memory: constants, by which all ranks
                                       choose alike. Encoding: without a residual */
    uint64_t priv[6];       /* the codec's */
};

/* Where what is encoded comes from. Random bits are a function of the parameters and of this, so that runs repeat, ranks differ,
 * and neither cuts nor threads matter. */
struct weft_codec_site {
    uint64_t step;  /* the same on all ranks, another one in each call: the collective's number on its communicator; with error
                     * feedback a hash of the tensors and of how often each was compressed, which is saved with residuals */
    uint64_t first; /* the first element's place in the vector */
    uint32_t rank;
    uint32_t sums;  /* 0: the rank's own data; 1: a sum that it makes for others */
};

/* What is summed, in fp32, from the first to the last: images, but for plain[k] where that is not NULL. */
struct weft_codec_operands {
    int n; /* at least 1 */
    const void *const *images;
    const float *const *plain;
};

struct weft_codec_ops {
    size_t bytes;
    const struct weft_codec_parameter *parameters; /* NULL: none */

    /* Fill what is behind `hash`, which is all zero, from the values, each of which is in its range. WEFT_EINVAL: they do not go
     * together; write to `why` which, and what would be right ("levels=minmax needs a block of 64 or more"). */
    weft_status (*configure)(struct weft_codec *codec, char *why, size_t capacity);

    /* Encode. With a residual (of as many elements, or NULL) it is added first, and becomes what the image does not hold,
     * src + residual - decoded. A block with a NaN, an infinity, or a sum of `limit` or more is not finite: its image is marked,
     * all its elements decode to NaN, and its residual stays. Returns how many blocks are not finite. */
    size_t (*encode)(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src, float *residual,
                     size_t elems, void *image, void *scratch);
    /* Every byte of an image is untrusted: any bytes decode to something. */
    void (*decode)(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch);
    /* Is it not marked, this block's image? */
    int (*is_finite)(const struct weft_codec *codec, const void *image);

    /* In one pass what decode, additions and encode do; NULL: libweft does it with those, block by block, with the same bits.
     * `dst` may be a plain operand. */
    void (*sum)(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst,
                void *scratch);
    /* Encode the sum times `factor`. `dst`, NULL or as above, gets what the image holds. */
    size_t (*sum_encode)(const struct weft_codec *codec, const struct weft_codec_site *site,
                         const struct weft_codec_operands *operands, float factor, float *residual, size_t elems, void *image,
                         float *dst, void *scratch);

    /* Of WEFT_CODEC_VARIABLE, in place of decode. Such a codec makes one image of all elements of a call, which is read as a whole:
     * of at most block_bytes for each block or part of one, and at the beginning of each image stands its own length, in
     * WEFT_CODEC_HEAD_BYTES bytes, little-endian, these included. Marks (is_finite) are of all its elements. `bytes`: its length,
     * as it came. 0, or -1: it is no image of so many elements, and dst holds anything. It may allocate, and so may encode; if
     * there is no memory encode makes a longer image, and read fails. */
    int (*read)(const struct weft_codec *codec, const void *image, size_t bytes, size_t elems, float *dst, void *scratch);

    /* Of WEFT_CODEC_LINEAR, in all_reduce in place of images: the ranks agree on something about each block, a collective of its
     * own; each projects its vector, block by block, to a shorter one of plain elements; an ordinary all_reduce sums these;
     * what is expanded of that sum is the sum of what is expanded of each. Vectors are aligned as their types are, and begin at
     * whole blocks.
     *
     * linear: what these vectors are, of so many ranks. WEFT_ENOTSUP: it cannot be done; write to `why` which, and what to do. */
    weft_status (*linear)(const struct weft_codec *codec, int nranks, struct weft_codec_linear *linear, char *why,
                          size_t capacity);
    /* Propose what is agreed on; NULL: nothing is. A block that is not finite (see encode) has a proposal, too. */
    void (*propose)(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                    size_t elems, void *agreed, void *scratch);
    /* Every byte of `agreed`, and of sums, is untrusted. Both return how many blocks are not finite: project marks
     * those so that expand recognises them in any sum, and writes NaN to all their elements. */
    size_t (*project)(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                      const float *src, size_t elems, void *vector, void *scratch);
    size_t (*expand)(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                     const void *vector, size_t elems, float *dst, void *scratch);
};

#define WEFT_TRANSPORT_NAME_MAX 15 /* letters of a transport's name */

/* ---- Process managers --------------------------------------------------------------------------------------
 * A process manager (PMIx, PMI) has started the ranks of a job, knows who they are, and carries a few bytes between them before
 * they can reach each other: where rank 0 listens, and the job's secret. libweft loads a manager for the whole process, and uses it
 * once, for the first communicator that is made of the environment; calls come one at a time, from any thread. It must not keep the
 * job's other ranks from going on when one of them ends. */

/* What the manager knows of this process. */
struct weft_manager_job {
    int rank, nranks;
    int local_rank, local_nranks; /* on this host; -1: it does not say */
    char name[64];                /* of the job: the same on all ranks, another one for every other job of this manager */
    int keys_are_open;            /* 1: other users of a host may be able to read what is put. The ranks of a job that is on one
                                     host then meet by its name, at a socket that tells users apart, and nothing is put */
};

struct weft_manager_ops {
    size_t bytes;
    /* Was this process started by such a manager? A look at the environment, and no more; secure_getenv of what a program with more
     * rights than its caller must not follow. 1 or 0. */
    int (*started)(const struct weft_host *host);
    /* Meet the manager; `job` has been cleared. WEFT_ETIMEDOUT: it does not answer. */
    weft_status (*join)(const struct weft_host *host, const void *settings, uint64_t deadline_ns, struct weft_manager_job *job,
                        void **session);
    /* A text of this rank's, without spaces, for all to see after the fence. It may be a secret: it goes to the job's processes
     * only (but see keys_are_open), and is neither logged nor kept in a file that others can read. */
    weft_status (*put)(void *session, const char *key, const char *value);
    /* Until all ranks of the job have come here. WEFT_ETIMEDOUT: some have not. */
    weft_status (*fence)(void *session, uint64_t deadline_ns);
    /* What a rank has put; WEFT_EPROTO: nothing, or more than `capacity` bytes with the end. */
    weft_status (*get)(void *session, int rank, const char *key, uint64_t deadline_ns, char *value, size_t capacity);
    /* Bounded; after any failure, too. */
    void (*leave)(void *session);
};

struct weft_plugin {
    uint32_t abi;                 /* WEFT_PLUGIN_ABI */
    uint32_t bytes;               /* sizeof(struct weft_plugin) */
    enum weft_plugin_kind kind;
    const char *name;             /* "tcp"; of a transport at most WEFT_TRANSPORT_NAME_MAX letters */
    const char *summary;
    const struct weft_setting *settings; /* NULL or a table */
    size_t settings_bytes;
    uint32_t caps;                /* what open() may enable; WEFT_CAP_* */
    int priority;                 /* among transports that reach a peer the highest wins: shm 100, verbs 80, ucx 60, tcp 10 */
    const void *ops;              /* struct weft_transport_ops, _device_ops, _codec_ops or _manager_ops, by kind */
    uint32_t info_bits;           /* of weft_xfer.imm that travel: 0 to 32; a transport with WEFT_CAP_INFO need not say */
};

/* ---- From ABI 1 to ABI 2 ----------------------------------------------------------------------------------------
 * - weft_xfer.bytes of a receive is its capacity. Store the length of the message that meets it in `actual`. A message that is
 *   longer ends it with WEFT_ETRUNC; a shorter one is received when `up_to` is set, else it ends it with WEFT_EMISMATCH, as before.
 *   A sink gets `actual` bytes.
 * - sink, peek and weft_op_info are capabilities (WEFT_CAP_SINK, _PEEK, _INFO): a transport that has them says so. One that has not
 *   need not do any of it, and leaves weft_xfer.info alone.
 * - Memory that is touched outside of calls on the group, or by peers, must be given up in `quiesce`.
 * - weft_plugin.info_bits stands at the end of the description.
 * - weft_host goes on growing at its end; what an older library may lack is asked for with WEFT_HOST_HAS: auth_session,
 *   auth_expect, the side channel, fd_keep and fd_close, process_self and process_state, path_trusted and
 *   log_wanted.
 */

#ifdef __cplusplus
}
#endif
#endif /* WEFT_PLUGIN_H */
