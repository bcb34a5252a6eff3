/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the side channel share.
 *
 * Connections are the thread's alone. What a transport and the thread hand each other, under the lock, is an exchange: a request
 * and its response. The lock is held to copy and to link, never over a handshake, a seal or a system call on a socket, so that a
 * transport's call does not wait for them. */
#ifndef WI_NET_SIDE_CONN_H
#define WI_NET_SIDE_CONN_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/accept_pause.h"
#include "net/half_open.h"
#include "net/rendezvous.h"
#include "net/side.h"
#include "net/store_wire.h"

#define WI_SIDE_GONE 64 /* groups that were closed last, whose requesters are told so */

enum wi_side_exchange_state {
    WI_SIDE_OPEN,      /* requester: until it has ended. Responder: the request is to come */
    WI_SIDE_REQUESTED, /* responder: it has come; the transport has not seen it */
    WI_SIDE_TAKEN,     /* responder: the transport has it, and owes a response */
    WI_SIDE_ENDED,     /* requester: for the transport to take. Responder: for the thread to send */
};

/* What is not constant once it is handed over is under the side's lock. A requester's belongs to the thread until it has ended,
 * then to the group; a responder's to its connection. */
struct wi_side_exchange {
    struct wi_side_exchange *next; /* requester: to be taken up by the thread. Responder: of its group, oldest first */
    struct wi_side_group *group;   /* NULL: no group here waits for it */
    int requests, peer;            /* constant, as is what the thread needs to request: */
    struct wi_sockaddr at;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    size_t claim_bytes;
    uint64_t timeout_ns, deadline_ns;
    enum wi_side_exchange_state state;
    weft_status status; /* of its end, and why */
    char why[54];
    size_t bytes;
    unsigned char data[WEFT_SIDE_MAX]; /* the request, then the response */
};

struct wi_side_group {
    struct wi_side_group *next;
    struct wi_side *side;
    struct wi_side_group_config config;
    char transport[WEFT_TRANSPORT_NAME_MAX + 1];
    int event_fd;
    struct wi_side_exchange **outgoing; /* [nranks], without the lock: the transport's calls do not overlap */
    struct wi_side_exchange *incoming;  /* one of each peer at most */
    atomic_int news;                    /* that the transport has not taken; while there are some event_fd is readable */
};

struct wi_side {
    struct wi_side_config config;
    struct wi_sockaddr at;
    pthread_t thread;
    int running, listen_fd, wake_fd;
    pthread_mutex_t lock; /* of these, and of groups and exchanges: */
    int stop;
    struct wi_side_group *groups;
    struct wi_side_exchange *requested; /* for the thread to take up, newest first */
    size_t nranks;                      /* of all groups */
    struct {
        uint64_t comm_id[2];
        int rank;
    } gone[WI_SIDE_GONE];
    unsigned ngone;
    /* The thread's: */
    struct wi_side_conn *conns; /* oldest first */
    struct wi_accept_pause pause;
    struct pollfd *fds;
    size_t fds_capacity;
};

/* ---- side_exchange.c: groups and exchanges, taking the lock ---- */

/* The claim of a connection: which rank requests of which, for which transport. */
size_t wi_side_claim(const struct wi_side_group *group, int to, unsigned char claim[WEFT_AUTH_CLAIM_MAX]);
/* Whether a claim is for a rank of this process, of a communicator that is or was here: others get no answer. */
int wi_side_is_for_us(struct wi_side *side, const void *claim, size_t bytes);
/* The exchange of a connection that has proven that claim; an earlier one of the same peer ends. NULL: why it is not wanted. */
struct wi_side_exchange *wi_side_admit(struct wi_side *side, const void *claim, size_t bytes, const char **why);
/* Responder: the request has come. 0, or -1: no group waits for it. */
int wi_side_deliver(struct wi_side *side, struct wi_side_exchange *x, const void *data, size_t bytes);
/* Requester: the response has come (status 0, data), or it failed (why). */
void wi_side_end(struct wi_side *side, struct wi_side_exchange *x, weft_status status, const char *why,
                 const void *data, size_t bytes);
/* Responder: its connection has ended. */
void wi_side_forget(struct wi_side *side, struct wi_side_exchange *x);
void wi_side_wake(struct wi_side *side);

/* ---- side_conn.c: one connection, in the thread ---- */

enum wi_side_state {
    WI_SIDE_CONNECTING, /* requester */
    WI_SIDE_PAUSED,     /* requester: cut off; connects again */
    WI_SIDE_PROVING,    /* the key */
    WI_SIDE_WAITING,    /* requester: for the response; responder: for the request, or for the transport's response */
    WI_SIDE_ENDING,     /* responder: last words, then the other side closes */
};

struct wi_side_conn {
    struct wi_side_conn *next;
    struct wi_side *side;
    struct wi_side_exchange *x; /* NULL: of a stranger, or over */
    int fd, requests, dead, attempts, delivered;
    int dropped, ended; /* seen under the lock: no caller waits for x; its response is there */
    enum wi_side_state state;
    struct weft_auth *auth;
    struct wi_auth_stream seal;
    struct wi_store_opener opener;
    struct wi_store_buf in, out;
    struct wi_half_open half_open;
    uint64_t deadline_ns, again_ns; /* again_ns: when PAUSED */
    size_t slot;                    /* in what is polled; 0: in none */
    char cut[24];                   /* how the last attempt ended */
};

/* Takes the exchange; NULL: no memory. */
struct wi_side_conn *wi_side_conn_request(struct wi_side *side, struct wi_side_exchange *x);
/* Takes the descriptor; NULL: no memory. */
struct wi_side_conn *wi_side_conn_accept(struct wi_side *side, int fd);
short wi_side_conn_events(const struct wi_side_conn *c);
void wi_side_conn_ready(struct wi_side_conn *c, short revents); /* may leave it dead */
void wi_side_conn_tick(struct wi_side_conn *c, uint64_t now);   /* its deadline, its next attempt, what the transport did */
uint64_t wi_side_conn_due(const struct wi_side_conn *c);        /* when it next has to be looked at */
int wi_side_conn_is_half_open(const struct wi_side_conn *c);    /* it holds no exchange: it may have to give way */
void wi_side_conn_free(struct wi_side_conn *c);

#endif
