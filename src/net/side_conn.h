/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the side channel share. */
#ifndef WI_NET_SIDE_CONN_H
#define WI_NET_SIDE_CONN_H

#include <poll.h>
#include <pthread.h>

#include "net/half_open.h"
#include "net/rendezvous.h"
#include "net/side.h"
#include "net/store_wire.h"

enum wi_side_state {
    WI_SIDE_CONNECTING,
    WI_SIDE_PROVING, /* the key */
    WI_SIDE_TALKING, /* asker: the question is on its way, or the answer; answerer: the question */
    WI_SIDE_ASKED,   /* answerer: the question has come; the transport has not looked */
    WI_SIDE_LOOKED,  /* it has, and owes an answer */
    WI_SIDE_TOLD,    /* the answer has come, or is on its way */
    WI_SIDE_FAILED,  /* asker: `status`, `why` */
};

struct wi_side_conn {
    struct wi_side_conn *next;
    struct wi_side *side;
    struct wi_side_group *group; /* NULL: a stranger, or its group is closed */
    int fd, asks, peer, dead;
    enum wi_side_state state;
    struct weft_auth *auth;
    struct wi_auth_stream seal;
    struct wi_store_opener opener;
    struct wi_store_buf in, out;
    struct wi_half_open half_open;
    uint64_t deadline_ns;
    size_t slot; /* in what is polled; 0: in none */
    weft_status status;
    char why[54];
    unsigned char data[WEFT_SIDE_MAX]; /* asker: question, then answer; answerer: question */
    size_t bytes;
};

struct wi_side_group {
    struct wi_side_group *next;
    struct wi_side *side;
    struct wi_side_group_config config;
    char transport[16];
    struct wi_side_conn **asking; /* [nranks]: what this rank asked; owned */
    int event_fd;
};

struct wi_side {
    struct wi_side_config config;
    pthread_mutex_t lock; /* of all below, and of groups and connections */
    pthread_t thread;
    int running, stop, listen_fd, wake_fd;
    struct wi_sockaddr at;
    struct wi_side_group *groups;
    struct wi_side_conn *conns; /* oldest first */
    struct pollfd *fds;
    size_t fds_capacity;
};

/* side_conn.c: one connection, with the lock held: handshake, question, answer. */
struct wi_side_conn *wi_side_conn_ask(struct wi_side_group *group, int peer, const void *data, size_t bytes);
struct wi_side_conn *wi_side_conn_accept(struct wi_side *side, int fd);
short wi_side_conn_events(const struct wi_side_conn *c);
void wi_side_conn_ready(struct wi_side_conn *c, short revents); /* may leave it dead */
void wi_side_conn_late(struct wi_side_conn *c);                 /* its deadline has passed */
int wi_side_conn_reply(struct wi_side_conn *c, const void *data, size_t bytes); /* 0 or -1: no memory */
void wi_side_conn_free(struct wi_side_conn *c);

/* side.c */
void wi_side_add(struct wi_side *side, struct wi_side_conn *c);
void wi_side_wake(struct wi_side *side);
/* The group that a claim is for; NULL: there is none here. */
struct wi_side_group *wi_side_group_of(struct wi_side *side, const void *claim, size_t bytes, int *from);
size_t wi_side_claim(const struct wi_side_group *group, int from, int to, unsigned char claim[WEFT_AUTH_CLAIM_MAX]);
/* side_group.c */
void wi_side_group_tell(struct wi_side_group *group); /* there is something to look at */

#endif
