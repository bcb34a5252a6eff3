/* ucx.h: the state that the files of the UCX transport share.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoint (one per context): a UCP worker, links to other processes, a thread (keeper.c). Group: peers and their channels. One
 * lock, the endpoint's, guards all of it; whoever makes progress handles the messages of every group, so that communicators share
 * connections. What belongs to the group's own thread (states of transfers, sinks) waits for that: `done`, `ready`.
 *
 * A message travels in segments of at most WEFT_UCX_SEGMENT bytes, each of them one active message, numbered for each peer and
 * channel (UCX keeps no order between active messages). UCX chooses how a segment goes, eagerly or by rendezvous; what goes unasked
 * is bounded by a window for each peer, beyond which segments are sent by rendezvous, whose bytes wait at the sender.
 *
 *   sender                                  receiver
 *   MESSAGE (first: info, total)    -->     meets the oldest receive of the channel, or is held
 *   MESSAGE (more)                  -->     into the same receive
 *   CREDIT                          <--     charged bytes that were consumed (also in every MESSAGE of the other direction)
 *   CANCEL                          -->     the sender gives up: rendezvous that have not begun are declined
 *   LEAVE                           -->     after as many segments as it says
 *
 * Processes of one host that can watch each other have endpoints without UCX's error handling, as its shared memory needs (1.13
 * refuses it with), and are told of a death by the kernel. All others have it, and an open request on the side channel besides,
 * which ends when the process does. */
#ifndef WU_UCX_H
#define WU_UCX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <weft/weft_plugin.h>

#include "library.h"

struct wu_settings {
    const char *network;
    size_t segment, window;
};

#define WU_AM_ID 0x57u
#define WU_SEGMENTS 8           /* of one channel that are under way */
#define WU_FRAME_BYTES 64u      /* what a segment is charged beside its bytes */
#define WU_HELD_MAX (1u << 16)  /* segments of one peer that wait for receives */
#define WU_ADDRESS_MAX 3840u    /* bytes of a worker's address, so that a hello fits the side channel */

/* ---- What travels ---- */

/* In a rank's address: who it is. */
struct wu_address {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    unsigned char uid[16]; /* of the endpoint: random */
    struct weft_process process;
};
#define WU_MAGIC 0x77754358u
#define WU_VERSION 1

enum wu_hello_kind { WU_CONNECT = 1, WU_WATCH };

/* On the side channel, followed by the worker's address. */
struct wu_hello {
    uint32_t magic;
    uint16_t version;
    uint8_t kind;
    uint8_t shared_memory; /* its UCX may use shared memory */
    uint64_t token;        /* that messages to it bear */
    unsigned char uid[16];
    uint32_t address_bytes;
    uint32_t reserved;
};

enum wu_kind { WU_MESSAGE = 1, WU_CREDIT, WU_CANCEL, WU_LEAVE };
enum { WU_FIRST = 1, WU_CHARGED = 2, WU_ABORTED = 4 };

/* The header of an active message. */
struct wu_head {
    uint64_t token;
    uint8_t kind, chan, flags, reserved;
    uint32_t seq;      /* MESSAGE: of the segment in its channel. LEAVE: segments sent in all */
    uint32_t consumed; /* charges of the other direction that were consumed so far */
    uint32_t reserved2;
    uint64_t total;    /* bytes of the message */
    struct weft_op_info info;
};

/* ---- Endpoint ---- */

struct wu_group;
struct wu_peer;

struct wu_link {
    struct wu_link *next;
    struct wu_endpoint *endpoint;
    unsigned char uid[16];
    struct weft_process process;
    ucp_ep_h ep;
    int watched;       /* by the kernel: UCX does not handle its errors */
    int pidfd;         /* -1: none */
    int broken;        /* UCX says so, or the process ended */
    int ended;         /* the process has ended */
    int closed;        /* UCX has been told to end what is under way */
    int dirty;         /* something was sent since the last flush began */
    void *flush;       /* the request of a flush that is under way */
    unsigned users;    /* requests of UCX on it */
    char why[120];
};

/* A route: where messages with a token go to. */
struct wu_route {
    uint64_t token; /* 0: free */
    struct wu_peer *peer;
};

struct wu_endpoint {
    const struct weft_host *host;
    const struct wu_settings *settings;
    struct wu_address me;
    int shared_memory;         /* UCX may use it */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int worker_fd;
    int deaths;                /* an epoll of the links' pidfds */
    atomic_int locked;         /* the lock: of all below, and of all groups (endpoint.c) */
    struct wu_group *inside;   /* whose thread has the lock; NULL: the keeper's */
    int in_progress;
    struct wu_group *groups;
    struct wu_link *links;
    unsigned breaks;           /* links that broke */
    uint64_t looked_ns;        /* for deaths */
    struct wu_route *routes;
    uint32_t nroutes;
    unsigned asleep;           /* groups whose thread sleeps */
    struct wu_peer *due;       /* a credit is due, or sends wait for something */
    struct wu_out *free_outs;
    struct wu_out *orphan_outs; /* of groups that are gone: UCX has them still, for good where a process was killed */
    struct wu_in *orphan_ins;
    /* the keeper */
    pthread_t keeper;
    int keeping, stop, keeper_fd;
    unsigned progressed;       /* calls of other threads */
    int parked;                /* it sleeps until something is sent, or UCX has news */
};

/* ---- Group ---- */

/* A segment on its way out: what UCX needs until it is done with it. */
struct wu_out {
    struct wu_out *next, **link; /* of the peer */
    struct wu_peer *peer;        /* NULL: the group is gone */
    struct wu_link *way;
    struct weft_xfer *x;         /* NULL: its owner has it back, or there is none */
    struct wu_head head;
};

/* A segment that has come and waits: for its receive, for earlier ones. */
struct wu_held {
    struct wu_held *next;
    uint32_t seq;
    uint8_t flags, is_rndv, is_lost, is_copy;
    void *data;    /* UCX's, to be released, or behind this struct; NULL: no bytes */
    size_t bytes;
    uint64_t total;
    struct weft_op_info info;
    struct weft_xfer *local; /* of a message to oneself: the send */
};

/* A segment on its way in by rendezvous. */
struct wu_in {
    struct wu_in *next, **link;       /* of the peer */
    struct wu_in *behind;             /* of its channel, in order */
    struct wu_peer *peer;             /* NULL: the group is gone */
    struct wu_link *way;              /* NULL: there was none yet */
    struct wu_channel *channel;       /* NULL: nobody waits for it */
    unsigned char *staging;           /* for a sink; else NULL */
    size_t bytes;
    uint32_t charge;
    int done;
    ucs_status_t status;
};

/* Of weft_xfer.priv: segments of a send that UCX has; whether all were posted; how it ended while another thread made progress. */
enum { PRIV_UNDER_WAY, PRIV_POSTED, PRIV_STATE };

struct wu_queue {
    struct weft_xfer *first, **last;
};

struct wu_channel {
    struct wu_peer *peer;
    struct wu_channel *next_ready;
    uint8_t chan, ready;
    /* sending */
    struct wu_queue sends; /* not wholly posted */
    size_t posted;         /* bytes of the first of them */
    uint32_t sent;         /* segments */
    unsigned under_way;
    /* receiving */
    struct wu_queue recvs;
    struct wu_held *held;  /* by seq */
    uint32_t taken;        /* segments */
    int taking;            /* a message whose first segment was taken and whose last was not consumed */
    struct weft_xfer *to;  /* NULL: it failed, the rest is dropped */
    size_t total, asked, got;
    struct wu_in *ins, **ins_last;
};

enum wu_peer_state { WU_UNCONNECTED, WU_REQUESTED, WU_CONNECTED, WU_FAILED };

struct wu_peer {
    struct wu_group *group;
    int rank;
    enum wu_peer_state state;
    int left, aborted, reported, cancelled, watching;
    weft_status status; /* FAILED */
    char text[160];
    uint64_t token, their_token;
    uint32_t route;
    struct wu_link *link;
    struct wu_peer *next_asking; /* has a request on the side channel open */
    int asking;
    struct wu_peer *next_due;
    int due;
    uint64_t gone_ns;        /* since when the side channel has known that it is gone; 0: it has not */
    struct wu_channel *chans[WEFT_CHAN_MAX];
    uint32_t segments_sent, segments_got, segments_promised;
    uint32_t charged, consumed_there; /* by what was sent; as the peer said */
    uint32_t consumed, told;          /* of what came; as the peer was told */
    unsigned nheld;
    size_t held_bytes;
    struct wu_out *outs;
    struct wu_in *ins;
};

struct wu_group {
    struct wu_group *next;
    struct wu_endpoint *endpoint;
    void *side;
    int rank, nranks;
    struct weft_process *processes; /* [nranks], of their addresses */
    unsigned char (*uids)[16];
    unsigned char *member;
    struct wu_peer **peers; /* [nranks], made when first used */
    struct wu_peer *asking;
    int connecting;  /* some of these wait for a response; the others watch */
    unsigned ngone;  /* peers whose end the side channel told, and that may have left in good order */
    struct wu_channel *ready, **ready_last; /* have something for the group's own thread to do */
    struct weft_xfer *done, **done_last;    /* ended while another thread made progress */
    int quiet, asleep;
    int epoll, event_fd;
    unsigned breaks; /* of the endpoint's, that were looked at */
    unsigned looks;
    int unreported;
};

/* endpoint.c */
weft_status wu_open(const struct weft_host *host, const void *settings, void **endpoint);
void wu_close(void *endpoint);
weft_status wu_address(void *endpoint, void *buf, size_t capacity, size_t *bytes);
int wu_reachable(void *endpoint, const void *address, size_t bytes);
/* The lock, and everything that goes with it. `g`: whose thread this is; NULL: the keeper's. */
void wu_enter(struct wu_endpoint *e, struct wu_group *g);
void wu_leave(struct wu_endpoint *e);
weft_status wu_explain_errno(const struct weft_host *host, const char *what);
/* Under the lock. */
int wu_progress_worker(struct wu_endpoint *e);
weft_status wu_route_new(struct wu_endpoint *e, struct wu_peer *p);
void wu_route_free(struct wu_endpoint *e, struct wu_peer *p);

/* keeper.c */
weft_status wu_keeper_start(struct wu_endpoint *e);
void wu_keeper_stop(struct wu_endpoint *e);
void wu_keeper_wake(struct wu_endpoint *e); /* under the lock; something is sent, and may have to be seen through */

/* link.c */
struct wu_link *wu_link_get(struct wu_endpoint *e, const struct wu_hello *hello, const struct weft_process *process,
                            const void *address, weft_status *status);
void wu_link_break(struct wu_link *l, const char *why);
void wu_links_look(struct wu_endpoint *e, uint64_t now); /* for processes that ended */
int wu_links_flush(struct wu_endpoint *e);               /* 0: all that was sent has left this process */
void wu_links_close(struct wu_endpoint *e);

/* connect.c: under the lock */
void wu_connect(struct wu_peer *p);
int wu_connect_step(struct wu_group *g);

/* peer.c */
weft_status wu_peer_get(struct wu_group *g, int rank, struct wu_peer **peer);
struct wu_channel *wu_channel_get(struct wu_peer *p, uint32_t chan); /* NULL: no memory */
/* Of a transfer that is posted, if it may be. */
weft_status wu_channel_for(struct wu_group *g, const struct weft_xfer *x, struct wu_channel **channel);
void wu_channel_ready(struct wu_channel *ch);
void wu_peer_due(struct wu_peer *p);
void wu_due_step(struct wu_endpoint *e); /* of all groups */
void wu_peer_fail(struct wu_peer *p, weft_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
weft_status wu_refuse(const struct wu_group *g, weft_status status, const char *why);
weft_status wu_refuse_peer(const struct wu_peer *p); /* that failed */
void wu_end(struct wu_group *g, struct weft_xfer *x, int state);
void wu_end_all(struct wu_peer *p, int state);
void wu_peer_free(struct wu_peer *p);
void wu_wake(struct wu_group *g);
/* Fail a peer that has left if something still waits for it that does not come. */
void wu_peer_check_left(struct wu_peer *p);
/* Fail the peers whose link broke, or whose process ended, unless they have left in good order. */
void wu_peers_look(struct wu_group *g, uint64_t now);

static inline void wu_queue_init(struct wu_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}
static inline void wu_queue_add(struct wu_queue *q, struct weft_xfer *x)
{
    x->next = NULL;
    *q->last = x;
    q->last = &x->next;
}
static inline struct weft_xfer *wu_queue_take(struct wu_queue *q)
{
    struct weft_xfer *x = q->first;

    q->first = x->next;
    if (!q->first)
        q->last = &q->first;
    return x;
}

static inline void wu_out_link(struct wu_out **list, struct wu_out *o)
{
    o->next = *list;
    o->link = list;
    if (o->next)
        o->next->link = &o->next;
    *list = o;
}
static inline void wu_in_link(struct wu_in **list, struct wu_in *in)
{
    in->next = *list;
    in->link = list;
    if (in->next)
        in->next->link = &in->next;
    *list = in;
}

/* send.c */
weft_status wu_send(void *group, struct weft_xfer *x);
void wu_send_step(struct wu_peer *p); /* what waits in its channels, and credits */
void wu_say(struct wu_peer *p, enum wu_kind kind, unsigned flags, uint32_t seq);
struct wu_out *wu_out_get(struct wu_endpoint *e);
void wu_out_put(struct wu_endpoint *e, struct wu_out *o);

/* recv.c */
weft_status wu_recv(void *group, struct weft_xfer *x);
int wu_peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes);
ucs_status_t wu_came(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                     const ucp_am_recv_param_t *param);
weft_status wu_recv_local(struct wu_channel *ch, struct weft_xfer *send);
void wu_in_free(struct wu_in *in);
int wu_recv_step(struct wu_channel *ch); /* in the group's own thread */
void wu_recv_drop(struct wu_peer *p, int all); /* rendezvous that have not begun; all: everything held */

/* group.c */
weft_status wu_group_create(void *endpoint, const struct weft_group_config *config, void **group);
void wu_group_destroy(void *group, int aborted);
int wu_progress(void *group, struct weft_peer_failure *failure);
int wu_poll_fd(void *group);
int wu_poll_arm(void *group);
size_t wu_describe(void *group, int peer, char *text, size_t capacity);
weft_status wu_quiesce(void *group, uint64_t deadline_ns);

#endif
