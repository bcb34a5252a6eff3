/* verbs.h: what the files of the verbs transport share.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rank has a reliable connection (RC) with each peer that it has something for, on each rail (port of a device):
 *
 *   receiver                                        sender
 *   posts a receive: control message SLOTS  ----->  keeps the slots of each channel, in the order of their numbers
 *                                           <-----  RDMA write with immediate into the slot: channel, number, user's bits
 *
 * Nothing is copied on the way, and a sender never sends what there is no room for. The layer above (WEFT_CAP_REGISTER) always has
 * receives posted for the headers of messages; short messages travel with them, so that they go without waiting for a receive.
 * Control messages are sends; they and the immediates take their receive requests from one shared queue (SRQ) of the group.
 *
 * Gets and puts have connections of their own, one for each direction: a key that the peer does not honour puts its connection
 * into the error state, and nothing else may go down with it.
 */
#ifndef VB_VERBS_H
#define VB_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft/weft_plugin.h>

#define VB_RAILS_MAX 4
#define VB_SLOTS 8u           /* of one channel that a peer may know at a time */
#define VB_HEADS WEFT_CHAN_MAX /* the layer's channel, whose receives are always posted */
#define VB_CONTROL_MAX 256u   /* bytes of a control message */
#define VB_INFO_BITS 16u
#define VB_RMAS 16u           /* gets and puts with one peer */
#define VB_RMA_DEPTH 16u
#define VB_PIECE ((size_t)1 << 20) /* of a get or put: ports have a limit, which is 8 MiB for some */
#define VB_TICK_NS 1000000ull

struct vb_settings {
    const char *devices;
    int64_t gid_index, traffic_class, service_level, pkey, timeout, retries, rnr_timer, depth, rails;
    size_t inline_bytes, stripe, register_max;
    int relaxed;
};

/* ---- Of the process ---- */

/* A port of a device: what one rail of this process is. */
struct vb_port {
    struct ibv_context *context;
    struct ibv_pd *pd;
    char name[IBV_SYSFS_NAME_MAX + 8]; /* "mlx5_0:1" */
    uint8_t number, link_layer, gid_index, rd_atomic;
    enum ibv_mtu mtu;
    uint16_t lid, pkey_index;
    union ibv_gid gid;
    uint32_t max_srq_wr, max_cqe;
    atomic_int fatal; /* an asynchronous event after which nothing works any more: 1 + enum ibv_event_type */
    atomic_int down;  /* the port is */
};

struct vb_endpoint {
    const struct weft_host *host;
    const struct vb_settings *settings;
    struct vb_port ports[VB_RAILS_MAX];
    int nports;
    uint64_t nonce; /* tells this process's memory and connections from others' */
    struct weft_process process;
    pthread_mutex_t lock;
    size_t registered; /* bytes */
};

struct vb_mem {
    unsigned char *at;
    size_t bytes;
    struct ibv_mr *mr[VB_RAILS_MAX];
    int writable;
};

/* What others learn of this process (vb_address). Fixed size, checked before use. */
struct vb_address_port {
    uint8_t gid[16];
    uint16_t lid;
    uint8_t link_layer, mtu;
    uint32_t reserved;
};
struct vb_address {
    uint32_t magic;
    uint8_t version, nports, reserved[2];
    uint64_t nonce;
    struct weft_process process;
    struct vb_address_port ports[VB_RAILS_MAX];
};
#define VB_ADDRESS_MAGIC 0x76624144u
#define VB_VERSION 1

/* ---- Connection data, over the side channel ---- */

struct vb_hello_rail {
    uint32_t message, rma, target; /* numbers of queue pairs */
    uint32_t message_psn, rma_psn, target_psn;
};
struct vb_hello {
    uint32_t magic, rank;
    uint64_t nonce;
    struct vb_hello_rail rails[VB_RAILS_MAX];
};
#define VB_HELLO_MAGIC 0x76624845u

/* ---- Of a group ---- */

enum vb_what { VB_NOTHING, VB_DATA, VB_RMA, VB_CONTROL };

/* What a posted work request was for. */
struct vb_request {
    void *of; /* weft_xfer, weft_rma or vb_buffer */
    enum vb_what what;
};

/* The sending side of a queue pair. */
struct vb_queue {
    struct ibv_qp *qp;
    struct vb_request *ring; /* [depth], a power of two */
    uint32_t depth, posted, done, signalled; /* of which depth - 1 may be under way; numbers; the newest that was signalled */
    uint32_t inline_bytes, psn;
    uint16_t generation;
    int ready;
};

struct vb_buffer {
    struct vb_buffer *next;
    unsigned char *at;
};

struct vb_rail {
    struct vb_queue message, rma;
    struct ibv_qp *target; /* of the peer's gets and puts */
    uint32_t target_psn;
    int down; /* left for good; the others carry on */
    int bye_sent, bye_seen;
    int renew;             /* the peer is to be told of the new queue pair of gets and puts */
    uint32_t target_of;    /* the peer's queue pair that the target is connected to */
    int renewed;           /* a request of the peer's for that is to be answered */
};

struct vb_slot {
    uint64_t address;
    uint32_t bytes;
    uint32_t rkey[VB_RAILS_MAX];
};

/* A channel with a peer. Numbers count up; a place is the number % VB_SLOTS. */
struct vb_lane {
    struct weft_xfer *sends, **sends_last; /* wait for a slot or for room */
    struct weft_xfer *lost;                /* may have arrived over a rail that was lost: the peer is asked (rails.c) */
    uint32_t nsends;                       /* posted, in flight included */
    uint32_t sent;
    uint8_t given;                         /* places whose slot has come */
    struct vb_slot slots[VB_SLOTS];
    struct weft_xfer *recvs[VB_SLOTS];
    uint32_t posted, advertised;
    uint32_t asked[VB_SLOTS]; /* numbers that the peer asks whether they have come, at the places of due */
    uint8_t due;
    int repeat; /* what is advertised, too: it may not have come */
    uint8_t parts[VB_SLOTS];
    size_t got[VB_SLOTS];
};

enum vb_state { VB_ABSENT, VB_IDLE, VB_ASKED, VB_CONNECTED, VB_LEFT, VB_FAILED };

struct vb_remote;

struct vb_peer {
    struct vb_group *group;
    int rank;
    enum vb_state state;
    int asked;     /* a request of ours is open */
    int watched;   /* ... and is a watch */
    int open;      /* CONNECTED, and the peer is known to be ready to receive */
    int nrails;
    struct vb_rail *rails;
    struct vb_address address;
    struct vb_hello mine, theirs;
    struct vb_lane *lanes[WEFT_CHAN_MAX_LAYERED];
    uint64_t advertise[2];       /* channels that have receives to advertise */
    int say_hello;
    int tell_lost;               /* the peer is to be told of rails that are down */
    unsigned leave;              /* rails that are to be left, as bits */
    unsigned turn;               /* of rails, for short messages */
    struct weft_rma *rmas, **rmas_last; /* wait to be posted, or posted again */
    unsigned nrmas;
    struct vb_peer *next_blocked;
    int blocked;
    uint64_t broken_ns; /* it fails then, as text says: a connection broke, or its process ended; 0: neither */
    weft_status status;
    int unreported;
    char text[160];
};

/* Of a group, on one port. */
struct vb_card {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    uint32_t srq_size, srq_posted, cq_size, sends_out;
    unsigned char *memory; /* of receive requests, and of control messages that are sent */
    struct ibv_mr *mr;
    uint32_t *free_receives, nfree;
    struct vb_buffer *buffers, *free_buffers;
    int armed;
    uint64_t *by_number; /* open hash: number of a queue pair << 32 | rank + 1 */
    uint32_t hash_size;
};

struct vb_group {
    struct vb_endpoint *endpoint;
    void *side;
    int rank, nranks, nports, quiet, unreported, connecting, polling;
    uint32_t nchans, slots_out, heads_out, reserved_slots, nconnected;
    uint64_t comm_id[2];
    struct vb_peer *peers; /* [nranks] */
    struct vb_card cards[VB_RAILS_MAX];
    struct vb_peer *blocked;
    struct vb_remote *remotes;
    struct vb_self *self;
    int epoll_fd;
    uint64_t next_tick_ns;
    unsigned calls; /* of progress */
};

/* The immediate of a message. */
#define VB_IMM(chan, place, parts, user) \
    ((uint32_t)(chan) << 25 | (uint32_t)(place) << 22 | ((uint32_t)(parts)-1) << 20 | ((user)&0xffffu))
#define VB_IMM_CHAN(imm) ((imm) >> 25)
#define VB_IMM_PLACE(imm) ((imm) >> 22 & 7u)
#define VB_IMM_PARTS(imm) (((imm) >> 20 & 3u) + 1)

/* ---- Control messages ---- */

enum vb_control_kind {
    VB_SLOTS_GIVEN = 1,
    VB_TOO_LONG,
    VB_BYE,
    VB_RENEW,
    VB_RENEWED,
    VB_RAIL_LOST,
    VB_HAS_COME,
    VB_CAME,
    VB_NOT_COME
};
struct vb_control {
    uint16_t magic;
    uint8_t kind, count; /* of slots */
    uint8_t chan, rail;
    uint8_t lost, reserved; /* rails that the sender has given up, as bits */
    uint32_t number;        /* of the first slot, or of the message */
};
#define VB_CONTROL_MAGIC 0x7662u
struct vb_control_long { /* TOO_LONG */
    struct vb_control head;
    uint32_t imm;
    uint64_t bytes;
};
struct vb_control_renew { /* RENEW: the requester's new queue pair; RENEWED: also the responder's */
    struct vb_control head;
    uint32_t rma, rma_psn, target, target_psn;
};

/* ports.c */
weft_status vb_ports_open(struct vb_endpoint *e);
void vb_ports_close(struct vb_endpoint *e);
int vb_port_reaches(const struct vb_port *port, const struct vb_address_port *theirs);
struct ibv_ah_attr vb_port_route(const struct vb_endpoint *e, int rail, const struct vb_address_port *theirs);
/* Take asynchronous events of all ports, and note what they mean. */
void vb_ports_look(struct vb_endpoint *e);
/* gid.c: the index of the GID to use; < 0: there is none. */
int vb_gid_choose(struct vb_endpoint *e, struct vb_port *port, const struct ibv_port_attr *attr);

/* fork.c: descriptors of libibverbs, which closes them itself, that children made by fork() must not keep */
void vb_fork_keep(int fd);
void vb_fork_forget(int fd); /* before it is closed */

/* memory.c */
weft_status vb_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem);
void vb_deregister(void *endpoint, void *mem);
weft_status vb_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes);
int vb_covered(const struct vb_mem *mem, const void *at, size_t bytes);
/* Why memory could not be registered, with the limit that counts. */
void vb_explain_register(const struct vb_endpoint *e, int err, size_t bytes, const char *device);

/* cards.c */
weft_status vb_cards_open(struct vb_group *g);
void vb_cards_close(struct vb_group *g);
void vb_card_receives(struct vb_group *g, int rail); /* post as many as may be needed */
unsigned char *vb_card_receive(struct vb_card *card, uint32_t i);
struct vb_buffer *vb_card_buffer(struct vb_group *g, int rail);
void vb_card_buffer_put(struct vb_group *g, int rail, struct vb_buffer *b);
void vb_card_number_add(struct vb_card *card, uint32_t number, int rank);
void vb_card_number_remove(struct vb_card *card, uint32_t number);
int vb_card_number_find(const struct vb_card *card, uint32_t number); /* rank, or -1 */

/* connect.c */
weft_status vb_connect(struct vb_peer *p); /* begin to; nothing if it has begun */
void vb_connect_requested(struct vb_group *g);
void vb_connect_responses(struct vb_group *g);
void vb_opened(struct vb_peer *p);
void vb_disconnect(struct vb_peer *p); /* after this neither this card nor the peer touches memory by its connections */

/* queue.c */
weft_status vb_queue_open(struct vb_peer *p, int rail, struct vb_queue *q, uint32_t depth, int is_rma);
void vb_queue_close(struct vb_peer *p, int rail, struct vb_queue *q, weft_status st);
int vb_queue_room(const struct vb_peer *p, int rail, const struct vb_queue *q);
/* Post; `of` and `what` come back when it has ended. 0, or an errno. */
int vb_queue_post(struct vb_peer *p, int rail, struct vb_queue *q, struct ibv_send_wr *wr, void *of, enum vb_what what);
weft_status vb_qp_to_init(const struct vb_endpoint *e, int rail, struct ibv_qp *qp);
weft_status vb_qp_connect(struct vb_peer *p, int rail, struct ibv_qp *qp, uint32_t their_number, uint32_t their_psn,
                          uint32_t my_psn);
struct ibv_qp *vb_qp_target(struct vb_peer *p, int rail);

/* message.c */
weft_status vb_send(void *group, struct weft_xfer *x);
weft_status vb_recv(void *group, struct weft_xfer *x);
void vb_message_push(struct vb_peer *p); /* what waits, as far as there is room */
int vb_message_arrived(struct vb_peer *p, uint32_t imm, uint32_t bytes); /* 0: it cannot be */
void vb_message_sent(struct vb_peer *p, struct weft_xfer *x, weft_status st);
int vb_message_control(struct vb_peer *p, const unsigned char *at, size_t bytes);
int vb_control_send(struct vb_peer *p, int rail, const void *data, size_t bytes); /* 0: there is no room now */
void vb_blocked(struct vb_peer *p);
/* End what is posted with a peer. How many were no background receives. */
int vb_message_end(struct vb_peer *p, weft_status st, int background_too);
int vb_rail_up(const struct vb_peer *p); /* the first that is not down; -1 */

/* Where weft_xfer.priv of a send counts: parts under way; the message's number; may one have been lost; was the peer asked. */
enum { VB_SEND_PARTS, VB_SEND_NUMBER, VB_SEND_LOST, VB_SEND_ASKED };
int vb_message_write(struct vb_peer *p, uint32_t chan, struct vb_lane *lane, struct weft_xfer *x); /* 0: no room now */
void vb_message_again(struct vb_peer *p); /* what may have been advertised in vain is again */
/* A receive of that number that the peer was told of: its place, or -1. */
int vb_message_awaited(const struct vb_peer *p, uint32_t chan, uint32_t number);

/* rails.c: a rail that is lost is left, and nothing of what was under way on it */
void vb_rail_lost(struct vb_peer *p, int rail, const char *why); /* it is left soon */
void vb_rail_leave(struct vb_peer *p);                           /* now; not from inside vb_poll */
void vb_rail_push(struct vb_peer *p);
void vb_rail_sent(struct vb_peer *p, struct weft_xfer *x); /* all parts of a message have ended, and some may be lost */
int vb_rail_control(struct vb_peer *p, const struct vb_control *c);

/* rma.c */
void vb_rma_take_back(struct vb_peer *p, struct vb_queue *q);
weft_status vb_import(void *group, int peer, const void *key, size_t bytes, void **remote);
void vb_forget(void *group, void *remote);
weft_status vb_get(void *group, struct weft_rma *r);
weft_status vb_put(void *group, struct weft_rma *r);
void vb_rma_push(struct vb_peer *p);
void vb_rma_done(struct vb_peer *p, struct weft_rma *r, weft_status st);
void vb_rma_failed(struct vb_peer *p, int rail, uint32_t number, enum ibv_wc_status why);
int vb_rma_control(struct vb_peer *p, const struct vb_control_renew *c);
int vb_rma_end(struct vb_peer *p, weft_status st);
void vb_rma_forget_all(struct vb_group *g);

/* progress.c */
int vb_progress(void *group, struct weft_peer_failure *failure);
int vb_poll(struct vb_group *g);
int vb_poll_rail(struct vb_group *g, int rail);
void vb_push_blocked(struct vb_group *g);
int vb_poll_arm(void *group);
void vb_peer_fail(struct vb_peer *p, weft_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
void vb_peer_left(struct vb_peer *p);
void vb_peer_broken(struct vb_peer *p, int rail, const char *format, ...) __attribute__((format(printf, 3, 4)));

void vb_peer_gives_up(struct vb_peer *p, uint64_t wait_ns);

/* self.c: messages to oneself */
weft_status vb_self_post(struct vb_group *g, struct weft_xfer *x, int send);
void vb_self_end(struct vb_group *g, weft_status st);

#define VB_EXPLAIN(e, status, ...) ((e)->host->explain((e)->host->impl, (status), __VA_ARGS__), (status))
#define VB_LOG(e, level, event, ...) ((e)->host->log((e)->host->impl, WEFT_LOG_##level, event, __VA_ARGS__))

#endif
