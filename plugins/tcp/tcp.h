/* tcp.h: the state that the files of the tcp transport share.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoint (one per process): listeners, handshakes of accepted sockets, sockets that linger after their group. Guarded
 * by `lock`; a thread serves it, so that peers are answered also while no group makes progress. It sleeps unless
 * somebody connects, authenticates, is late or lingers. Group: peers and their sockets, under the caller's lock.
 *
 * A pair of ranks shares a bundle of sockets, made by the rank that posts first. When both connect at once the lower
 * rank's attempt wins: the accepting side takes connections only from lower ranks once it is connecting itself
 * (`link`), and says so in its first frame; a connection carries data only after its WELCOME. Each message is cut into
 * frames; whichever socket is writable pulls the next one, and the receiver places it by (channel, message, offset).
 *
 * Flow control, per channel and direction: a frame of a message whose receive is not known to be posted is charged to
 * a window (eager); the receiver returns the charge when it has consumed the frame. A GRANT says up to which message
 * receives are posted: those need no window. So whatever arrives has a place, reading never stops, and nothing
 * deadlocks.
 */
#ifndef WI_TCP_H
#define WI_TCP_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <weft/weft_plugin.h>

#include "addr.h"
#include "fds.h"
#include "frame.h"
#include "mux.h"

struct wi_tcp_settings {
    const char *interfaces, *family, *port, *share;
    int64_t sockets, keepalive_count, half_open;
    size_t sndbuf, rcvbuf, chunk, eager, unsent, fast_rate;
    uint64_t user_timeout, keepalive_idle, keepalive_interval;
    uint64_t connect_timeout, auth_timeout, park_timeout;
};

#define WI_TCP_STAGE_BYTES 8192       /* per socket: headers and short payloads */
#define WI_TCP_STAGE_FRONT 16         /* room for a sink's carry before any data */
#define WI_TCP_SINK_BYTES (64u << 10) /* per group: cache-hot payload on its way to a sink */
#define WI_TCP_BUDGET (1u << 20)      /* bytes per socket, direction and progress call */
#define WI_TCP_BATCH 12               /* frames in one writev */
#define WI_TCP_NEVER UINT64_MAX
#define WI_TCP_RESERVE_PEERS 2
#define WI_TCP_TAG_MUX 1u /* low bit of what the endpoint's epoll returns: a shared connection; else see wi_tcp_endpoint_events */

/* ---- Handshake (handshake.c) -------------------------------------------------------------------------------- */

struct wi_tcp_handshake {
    struct weft_auth *auth;
    const struct weft_host *host;
    size_t have, total; /* bytes in `in`; bytes read in all, at most WEFT_AUTH_MESSAGE_MAX */
    int replied;        /* server: the client's hello was made with the key, for this process */
    int ended;          /* the other side closed and had read all; else WEFT_EPEER is a reset: it closed without having read */
    uint64_t process;   /* this side's */
    unsigned char binding[WI_TCP_BINDING_BYTES]; /* of a stream */
    unsigned char in[WEFT_AUTH_MESSAGE_MAX];
};
weft_status wi_tcp_handshake_init(struct wi_tcp_handshake *h, const struct weft_host *host, int is_server,
                                  const struct wi_tcp_claim *mine);
/* Advance without blocking, over a socket, or a stream where there is one. SUCCESS: *peer is filled, bytes left in h->in are what
 * follows. INPROGRESS, or a failure: WEFT_EAUTH the other side is not who it must be; WEFT_EPEER it closed or the socket failed. */
weft_status wi_tcp_handshake_step(struct wi_tcp_handshake *h, int fd, struct wi_tcp_stream *stream, struct wi_tcp_claim *peer);
/* After SUCCESS: what the streams of a shared connection are bound to. */
weft_status wi_tcp_handshake_binding(const struct wi_tcp_handshake *h, unsigned char binding[WI_TCP_BINDING_BYTES]);
void wi_tcp_handshake_fini(struct wi_tcp_handshake *h);

/* ---- Endpoint (listen.c, linger.c, serve.c) ---------------------------------------------------------------------------- */

struct wi_tcp_group;

/* An accepted socket or stream: first half-open, then parked or handed to its group. */
struct wi_tcp_arrival {
    struct wi_tcp_arrival *next;
    int fd;
    struct wi_tcp_stream *stream; /* NULL: a socket */
    int authenticated;
    uint64_t source;  /* a number for the address that it comes from */
    uint64_t deadline_ns;
    struct wi_tcp_handshake hs;
    struct wi_tcp_claim claim;
};

/* A socket whose group is gone, until the peer's kernel has everything. */
struct wi_tcp_linger {
    struct wi_tcp_linger *next;
    int fd;
    uint64_t deadline_ns;
};

struct wi_tcp_gone {
    uint64_t comm_id[2];
    int aborted;
    weft_status reason;
};
#define WI_TCP_GONE_MAX 64

enum wi_tcp_share { WI_TCP_SHARE_AUTO, WI_TCP_SHARE_ALWAYS, WI_TCP_SHARE_NEVER };

struct wi_tcp_endpoint {
    const struct weft_host *host;
    const struct wi_tcp_settings *settings;
    int family;               /* 0, 4, 6 */
    enum wi_tcp_share share;
    struct wi_tcp_identity me;
    int listeners[WI_TCP_ADDRS_MAX];
    int epoll, timer;
    int kick;                 /* eventfd: streams need the thread */
    int spare;                /* reserve.c; -1: in use */
    int wake;                 /* eventfd: wakes sleepers of all lean groups; -1: there was none yet */
    pthread_mutex_t wake_lock; /* of */
    int nwoken;               /* lean groups that are to look */
    pthread_t thread;
    pthread_mutex_t lock;     /* of all below */
    int serving, stop;        /* the thread runs; is to end */
    int listening;            /* listeners are in the epoll set */
    uint64_t listen_again_ns; /* after running out of descriptors */
    uint64_t short_ns;        /* since when descriptors or memory have been short; 0: they are not */
    uint64_t accept_failed_ns; /* when accept last failed for want of them */
    struct wi_tcp_arrival *half_open, *parked; /* oldest first */
    int nhalf_open, nparked;
    struct wi_tcp_arrival *joining; /* streams, half open */
    struct wi_tcp_mux *muxes;
    struct wi_tcp_dial *making;     /* of those that make a shared connection */
    struct wi_tcp_linger *lingering;
    uint64_t linger_pause_ns; /* until the next look at them */
    struct wi_tcp_group *groups;
    struct wi_tcp_gone gone[WI_TCP_GONE_MAX];
    unsigned gone_next;
};

weft_status wi_tcp_endpoint_open(const struct weft_host *host, const void *settings, void **endpoint);
void wi_tcp_endpoint_close(void *endpoint);
weft_status wi_tcp_endpoint_address(void *endpoint, void *buf, size_t capacity, size_t *bytes);
int wi_tcp_endpoint_reachable(void *endpoint, const void *address, size_t bytes);
/* Accept, authenticate, hand over, expire: what `n` events ask for. Needs the lock. Never blocks. */
void wi_tcp_endpoint_events(struct wi_tcp_endpoint *e, const struct epoll_event *events, int n);
/* Wake the thread when the next thing is due. Needs the lock. */
void wi_tcp_endpoint_arm(struct wi_tcp_endpoint *e);
weft_status wi_tcp_serve_start(struct wi_tcp_endpoint *e);
void wi_tcp_serve_stop(struct wi_tcp_endpoint *e);
void wi_tcp_endpoint_join(struct wi_tcp_endpoint *e, struct wi_tcp_group *group);
void wi_tcp_endpoint_leave(struct wi_tcp_endpoint *e, struct wi_tcp_group *group, int aborted);
void wi_tcp_arrival_free(struct wi_tcp_arrival *a);
/* Close the socket, once what is said over it has arrived: BYE, CROSSED, or ABORT, with the reason or 0. Needs the lock. */
void wi_tcp_arrival_dismiss(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a, uint8_t type, weft_status reason);
/* From now on that rank is told that this one has given up, and why. */
void wi_tcp_endpoint_refuse(struct wi_tcp_group *g, int rank, weft_status reason);
/* Look at the streams that came or say something. Needs the lock; the endpoint's thread. */
void wi_tcp_streams_serve(struct wi_tcp_endpoint *e);
void wi_tcp_advance(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a);
/* Options that every socket of the transport has. */
void wi_tcp_socket_options(const struct wi_tcp_settings *s, int fd);
/* Take fd: close it once what was written has reached the peer. Needs the lock. */
void wi_tcp_linger_add(struct wi_tcp_endpoint *e, int fd);
void wi_tcp_linger_serve(struct wi_tcp_endpoint *e, uint64_t now);
void wi_tcp_linger_finish(struct wi_tcp_endpoint *e, uint64_t deadline_ns); /* blocks until then at most */

/* ---- Group, peers, sockets ---------------------------------------------------------------------------------------- */

enum wi_tcp_conn_state {
    WI_TCP_CONNECTING,
    WI_TCP_AUTHENTICATING,
    WI_TCP_BACKOFF,
    WI_TCP_GREETING, /* authenticated, awaiting the peer's first frame */
    WI_TCP_UP,
    WI_TCP_CLOSED
};

struct wi_tcp_out_frame {
    unsigned char header[WI_TCP_HEADER_BYTES];
    const unsigned char *data;
    size_t bytes;
    struct weft_xfer *x; /* NULL: control */
};

/* Where the payload of the frame being read goes. */
enum wi_tcp_target { WI_TCP_TO_BUFFER, WI_TCP_TO_EARLY, WI_TCP_TO_SINK, WI_TCP_TO_DRAIN };

/* The state of a connection that this side is making; freed once it is up. */
struct wi_tcp_dial {
    struct wi_tcp_dial *next_making; /* of the endpoint, under its lock */
    uint8_t making;            /* the socket is to be a shared connection */
    uint64_t began_ns;         /* that attempt */
    unsigned char binding[WI_TCP_BINDING_BYTES]; /* of it */
    uint8_t order[WI_TCP_ADDRS_MAX];
    int norder, at, round;
    int refused, rejected;     /* in this round */
    uint64_t deadline_ns;      /* of it all */
    uint64_t attempt_ns;       /* deadline of this attempt, or end of the back-off */
    uint32_t crossed;          /* how often the peer said that it connects itself */
    struct wi_tcp_identity peer;
    struct wi_tcp_handshake hs;
    char last[120];            /* why the newest attempt failed */
    weft_status rejection;     /* of the newest that was rejected: what it comes to, and why */
    char rejected_text[120];
    const char *rejected_why;
};

struct wi_tcp_conn {
    struct wi_tcp_conn *next, **prev; /* of the group */
    struct wi_tcp_peer *peer;
    int fd;
    struct wi_tcp_stream *stream; /* in place of fd */
    enum wi_tcp_conn_state state;
    uint8_t index;
    uint8_t can_read, can_write;  /* as far as known; epoll is edge-triggered */
    uint8_t bye, write_dead, stalled;
    uint8_t from_reserve;         /* its descriptor is one that was kept back */
    uint32_t silent;              /* reads without result since something came */
    int write_errno;
    char ends[2 * WI_TCP_ADDR_TEXT + 8]; /* since it is up: of a socket that was reset the system no longer says the peer's */
    struct wi_tcp_dial *dial;
    /* reading */
    unsigned char *stage;
    size_t stage_at, stage_end;
    int in_frame;
    struct wi_tcp_frame in;
    size_t in_left;
    enum wi_tcp_target target;
    unsigned char *in_at;         /* TO_BUFFER, TO_EARLY */
    struct weft_xfer *in_x;       /* TO_BUFFER, TO_SINK */
    struct wi_tcp_early *in_early;
    struct wi_tcp_drain *in_drain;
    /* writing */
    struct wi_tcp_out_frame batch[WI_TCP_BATCH];
    int nbatch, batch_at;
    size_t batch_done;            /* of batch[batch_at], header included */
};

/* A frame that came before its receive. */
struct wi_tcp_early {
    struct wi_tcp_early *next;
    struct wi_tcp_frame frame;
    int complete;
    unsigned char front[WI_TCP_STAGE_FRONT];
    unsigned char data[];
};

/* The rest of a message whose receive has already failed. */
struct wi_tcp_drain {
    struct wi_tcp_drain *next;
    uint64_t msg, total, reserved, finished;
};

struct wi_tcp_out {
    uint8_t chan;
    uint8_t queued;                  /* in peer->ready */
    struct wi_tcp_out *next;
    struct weft_xfer *head, *tail;   /* not yet wholly in frames */
    uint64_t next_msg;               /* number of the next send posted */
    uint64_t granted;                /* messages below have receives */
    uint64_t eager_sent, eager_limit;
};

struct wi_tcp_in {
    uint8_t chan;
    uint8_t grant_due, drain_due;    /* queued in peer->grants, peer->drains */
    struct wi_tcp_in *next_grant, *next_drain;
    struct weft_xfer **receives;     /* posted: of message n the n % nreceives-th, NULL once it is complete */
    uint64_t nreceives;              /* places, a power of two; 0: none yet */
    uint64_t oldest;                 /* number of the first that is not complete, or posted */
    uint64_t posted;                 /* number of the next receive posted */
    uint64_t granted;                /* as told */
    uint64_t returned, returned_told;
    uint64_t held;                   /* eager cost of `early` */
    struct wi_tcp_early *early, **early_end;
    struct wi_tcp_drain *drains;
};

enum wi_tcp_peer_state { WI_TCP_IDLE, WI_TCP_LINKING, WI_TCP_LINKED, WI_TCP_LEFT, WI_TCP_FAILED };

struct wi_tcp_peer {
    struct wi_tcp_group *group;
    int rank;
    enum wi_tcp_peer_state state;
    weft_status status; /* FAILED: why */
    int reported;
    int nconns, nup, nbye;
    int shared;  /* it is reached by a stream */
    int striped; /* over several links from the first: nconns was above 1 */
    struct wi_tcp_conn *conns[WI_TCP_SOCKETS_MAX];
    int next_conn;
    uint8_t aborted;    /* it said so on some socket, */
    weft_status reason; /* and why */
    uint8_t wide, fast_looks; /* the link is fast: send over all sockets */
    size_t unlooked;    /* sent since that was last judged */
    uint32_t eager;     /* the peer's window */
    uint32_t nsends, nrecvs;
    struct wi_tcp_out *out[WEFT_CHAN_MAX];
    struct wi_tcp_in *in[WEFT_CHAN_MAX];
    struct wi_tcp_out *ready, **ready_end;
    struct wi_tcp_in *grants, *drains;
    struct wi_tcp_peer *next_out, *next_hot;
    uint8_t in_outs, in_hot;
    uint64_t ended_ns;  /* since when its process is known to have ended; 0: it is not */
    uint8_t peeked;     /* a probe looks for messages: read as if a receive were posted, once */
    char text[160];
};

/* Which rank of a pair connects: decided once, under the endpoint's lock. */
enum wi_tcp_link { WI_TCP_LINK_OPEN, WI_TCP_LINK_DIALS, WI_TCP_LINK_ACCEPTS };

struct wi_tcp_group {
    struct wi_tcp_endpoint *endpoint;
    struct wi_tcp_group *next; /* of the endpoint, under its lock */
    uint64_t comm_id[2];
    int rank, nranks;
    unsigned char *member;
    unsigned char *blobs;      /* the members' addresses, one after the other */
    uint32_t *blob_at;         /* [nranks + 1] */
    struct wi_tcp_peer **peers; /* [nranks], made at first use */
    int lean;                  /* no descriptors of its own: streams only */
    int epoll, event, timer;   /* unless it is lean */
    atomic_int stirred;        /* a stream has something for it */
    atomic_int armed;          /* it may sleep: to be woken */
    int woken;                 /* lean, under wake_lock: counted in the endpoint's nwoken */
    uint64_t alarm_ns;         /* lean, under the endpoint's lock: when it is to be woken; WI_TCP_NEVER */
    int reserve[WI_TCP_RESERVE_PEERS * WI_TCP_SOCKETS_MAX], nreserve; /* reserve.c */
    struct wi_tcp_arrival *inbox; /* under the endpoint's lock, as is */
    unsigned char *link;          /* [nranks], enum wi_tcp_link */
    weft_status *refused;         /* [nranks], 0: connections of that rank are taken */
    int *turn, *of_node;          /* [nranks]: which of its node's ranks, and how many these are */
    atomic_int ninbox;
    struct wi_tcp_conn *conns, *dead; /* dead: freed once no list is being walked */
    struct wi_tcp_peer *outs;  /* have something to write */
    struct wi_tcp_peer *hot;   /* have transfers pending */
    struct weft_xfer *self_sends, **self_sends_end, *self_recvs, **self_recvs_end;
    int busy;                  /* inside progress: posts only queue */
    int blocked;               /* sockets that wait for room to write */
    int unread;                /* some socket has more to read than was read */
    int dials;                 /* connections being made */
    int failures;              /* peers FAILED and not reported */
    weft_status reason;        /* what this rank lacks, for which it gives up; 0: nothing */
    uint32_t calls, watch_calls;
    uint64_t watched_ns;       /* when the processes of awaited peers were last looked at */
    int look;                  /* epoll has, or had, something */
    int timer_armed;
    unsigned char *sink_stage;
};

/* priv[] of a weft_xfer */
enum wi_tcp_xfer_priv {
    WI_TCP_X_MSG,      /* number of the message */
    WI_TCP_X_DONE,     /* bytes sent or received */
    WI_TCP_X_RESERVED, /* bytes that frames have been made, or begun, for */
    WI_TCP_X_STARTED,  /* recv: 1 once the first frame was checked; bytes of carry << 8 */
    WI_TCP_X_SINK_AT,  /* sink: end of the last whole frame fed */
    WI_TCP_X_EDGES = WI_TCP_X_SINK_AT, /* else: the sum that shows whether frames overlap */
    WI_TCP_X_GIVEN,    /* bytes given to the sink */
    WI_TCP_X_CARRY,    /* 16 bytes: less than a granule, waiting for more */
};

/* peer.c */
void wi_tcp_peer_identity(const struct wi_tcp_group *g, int rank, struct wi_tcp_identity *id);
weft_status wi_tcp_peer_get(struct wi_tcp_group *g, int rank, struct wi_tcp_peer **peer);
void wi_tcp_peer_fail(struct wi_tcp_peer *p, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* rails.c: the sockets of a pair that has `nrails` equally good links, and the link of each. */
weft_status wi_tcp_rails_init(struct wi_tcp_group *g, const struct weft_group_config *config);
int wi_tcp_rails_sockets(const struct wi_tcp_group *g, int rank, int nrails);
int wi_tcp_rail(const struct wi_tcp_group *g, int rank, int sockets, int index);
/* spread.c: tell what was sent; sockets to send over. */
void wi_tcp_spread_sent(struct wi_tcp_peer *p, size_t bytes);
int wi_tcp_spread(const struct wi_tcp_peer *p);
/* reserve.c: descriptors that are kept back. _use: give one up, 0: there was none. */
weft_status wi_tcp_reserve_init(struct wi_tcp_group *g);
int wi_tcp_reserve_use(struct wi_tcp_group *g);
/* Is it time to do without descriptors of one's own? `fd`: a new one. */
int wi_tcp_descriptors_are_scarce(int fd);
/* Close a socket and keep its descriptor, with no moment in between at which another thread could get its number. 0: not done. */
int wi_tcp_reserve_return(struct wi_tcp_group *g, int fd);
int wi_tcp_spare_use(struct wi_tcp_endpoint *e);
void wi_tcp_spare_fill(struct wi_tcp_endpoint *e);
weft_status wi_tcp_explain_descriptors(const struct wi_tcp_group *g, int err);
unsigned long long wi_tcp_descriptor_limit(void);
/* The peer has announced that it aborted. */
void wi_tcp_peer_aborted(struct wi_tcp_peer *p);
/* Remember what an ABORT gives as its reason. */
void wi_tcp_peer_reason(struct wi_tcp_peer *p, const struct wi_tcp_frame *abort);
/* The peer has left in good order: a failure if transfers are pending. */
void wi_tcp_peer_leave(struct wi_tcp_peer *p);
/* The BYE of one of `sockets` sockets came; when it is the last the peer has left. */
void wi_tcp_peer_bye(struct wi_tcp_conn *c, uint64_t sockets);
void wi_tcp_peer_want_out(struct wi_tcp_peer *p);
void wi_tcp_peer_want_hot(struct wi_tcp_peer *p);
void wi_tcp_peer_free(struct wi_tcp_peer *p);
size_t wi_tcp_peer_describe(void *group, int rank, char *text, size_t capacity);

/* dial.c: making connections */
weft_status wi_tcp_dial_peer(struct wi_tcp_peer *p);
/* The link turned out to be fast: more sockets, if this side dialled. What fails is done without. */
void wi_tcp_dial_more(struct wi_tcp_peer *p);
void wi_tcp_dial_free(struct wi_tcp_conn *c);
void wi_tcp_dial_event(struct wi_tcp_conn *c);
void wi_tcp_dial_stream(struct wi_tcp_conn *c); /* it has a stream: authenticate */
void wi_tcp_dial_later(struct wi_tcp_conn *c);  /* another communicator makes the connection: look again soon */
void wi_tcp_dial_tick(struct wi_tcp_group *g, uint64_t now);
uint64_t wi_tcp_dial_next_ns(const struct wi_tcp_group *g);
int wi_tcp_adopt(struct wi_tcp_group *g);
/* Is that rank's process the one whose address this group was given? */
int wi_tcp_claim_fits(const struct wi_tcp_group *g, const struct wi_tcp_claim *claim);

/* share.c: connections that communicators share */
/* Make the connection to this peer a stream. 1: a shared connection has to be made for that, by this one; 0: done, or waits, or
 * has failed. */
int wi_tcp_share_join(struct wi_tcp_conn *c);
void wi_tcp_share_stop(struct wi_tcp_conn *c); /* it does not make one any more */
/* The socket that was made is taken on the other side. */
weft_status wi_tcp_share_made(struct wi_tcp_conn *c);
/* What is said in this stream is not what a peer says: do not open others there. */
void wi_tcp_share_distrust(struct wi_tcp_conn *c);
/* An accepted socket is to be one. Needs the lock. */
void wi_tcp_share_accept(struct wi_tcp_endpoint *e, struct wi_tcp_arrival *a);
void wi_tcp_share_reap(struct wi_tcp_endpoint *e); /* Needs the lock; the endpoint's thread */
void wi_tcp_share_close(struct wi_tcp_endpoint *e, uint64_t deadline_ns);

/* wake.c: waking a group from other threads; sleepers of lean groups share a descriptor */
void wi_tcp_group_stir(struct wi_tcp_group *g);
int wi_tcp_wake_open(struct wi_tcp_endpoint *e); /* 0, or -1: errno */
/* Before sleeping; 1: something has happened. `at`: when to wake at the latest. */
int wi_tcp_wake_arm(struct wi_tcp_group *g, uint64_t at);
void wi_tcp_wake_disarm(struct wi_tcp_group *g);
/* Those whose time has come; returns when the next is due. Needs the lock. */
uint64_t wi_tcp_wake_alarms(struct wi_tcp_endpoint *e, uint64_t now);

/* conn.c: socket I/O */
struct wi_tcp_conn *wi_tcp_conn_new(struct wi_tcp_peer *p, int index);
/* The socket is authenticated; `bytes` of its stream were read already. */
weft_status wi_tcp_conn_up(struct wi_tcp_conn *c, int fd, struct wi_tcp_stream *stream, const void *data, size_t bytes);
/* "10.0.0.1:4711 -> 10.0.0.2:33211" */
void wi_tcp_ends(int fd, char *text, size_t capacity);
void wi_tcp_conn_close(struct wi_tcp_conn *c); /* freed later, by wi_tcp_conn_bury */
void wi_tcp_conn_bury(struct wi_tcp_group *g);
/* Read up to the budget; returns events. The peer may have failed afterwards. */
int wi_tcp_conn_read(struct wi_tcp_conn *c);
/* Parse and place what is in the stage. 0: go on; 1: stalled until another socket has caught up; -1: peer failed. */
int wi_tcp_conn_consume(struct wi_tcp_conn *c);
int wi_tcp_conn_write(struct wi_tcp_peer *p); /* all sockets of a peer; returns events */
int wi_tcp_conn_has_room(const struct wi_tcp_peer *p);
/* Send BYE or ABORT if that is possible now, then close without losing it. */
void wi_tcp_conn_farewell(struct wi_tcp_conn *c, uint8_t type);

/* chan.c: sending side */
weft_status wi_tcp_out_post(struct wi_tcp_peer *p, struct weft_xfer *x);
/* The next frame to send to this peer; 0: nothing may be sent now. */
int wi_tcp_out_pull(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f);
int wi_tcp_out_wanted(const struct wi_tcp_peer *p);
void wi_tcp_out_sent(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f);
/* 0; -1: the peer has failed, or, where *wrong is set, has sent what that says. */
int wi_tcp_out_grant(struct wi_tcp_peer *p, const struct wi_tcp_frame *f, const char **wrong);
void wi_tcp_out_start(struct wi_tcp_peer *p); /* the peer's window is known now */

/* match.c: receiving side */
void wi_tcp_in_end_all(struct wi_tcp_in *in, int state); /* all that are posted */
weft_status wi_tcp_in_post(struct wi_tcp_peer *p, struct weft_xfer *x);
/* The message that the next receive posted on the channel meets: its first frame, or NULL. */
const struct wi_tcp_frame *wi_tcp_in_peek(const struct wi_tcp_peer *p, uint32_t chan);
/* Choose the target of c->in. 0: go on; 1: not yet, ask again later; -1: the peer was failed. */
int wi_tcp_in_begin(struct wi_tcp_conn *c);
void wi_tcp_in_end(struct wi_tcp_conn *c);
void wi_tcp_in_feed(struct weft_xfer *x, unsigned char *data, size_t bytes);
int wi_tcp_in_drain(struct wi_tcp_peer *p); /* sinks that have early frames */
int wi_tcp_in_grant(struct wi_tcp_peer *p, struct wi_tcp_out_frame *f);
void wi_tcp_in_free(struct wi_tcp_in *in);

/* group.c */
weft_status wi_tcp_group_create(void *endpoint, const struct weft_group_config *config, void **group);
void wi_tcp_group_destroy(void *group, int aborted);
weft_status wi_tcp_group_send(void *group, struct weft_xfer *x);
weft_status wi_tcp_group_recv(void *group, struct weft_xfer *x);
int wi_tcp_group_peek(void *group, int rank, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes);
int wi_tcp_group_progress(void *group, struct weft_peer_failure *failure);
int wi_tcp_group_poll_fd(void *group);
int wi_tcp_group_poll_arm(void *group);

/* self.c: messages of a rank to itself; posts only queue, progress moves them */
int wi_tcp_self_progress(struct wi_tcp_group *g);
void wi_tcp_self_send(struct wi_tcp_group *g, struct weft_xfer *x);
void wi_tcp_self_recv(struct wi_tcp_group *g, struct weft_xfer *x);
const struct weft_xfer *wi_tcp_self_peek(const struct wi_tcp_group *g, uint32_t chan);

#endif
