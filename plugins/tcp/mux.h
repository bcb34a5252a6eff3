/* mux.h: shared connections: one socket to a process, in which communicators have streams.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A stream is to a communicator what a socket of its own would be: bytes in order, both ways, an end, and no block. It begins with
 * the same handshake, over the communicator's own key, which is bound to the shared connection (`binding`); see
 * doc/adr/0036-shared-connections.md. A sender stops when its reader is a window behind, so whatever comes has a place, the socket
 * is always read on, and a communicator that does not receive holds nobody up.
 *
 * Threads: the endpoint's thread reads whenever something comes, so that streams move while none of their communicators makes
 * progress; a thread that makes progress reads, too, straight into the place of what it waits for. All under the connection's
 * lock, which is held for a system call or two, and taken after the endpoint's. Streams belong to one group, or to the endpoint
 * while they arrive. A connection is freed by the endpoint's thread only, or when that has ended.
 */
#ifndef WI_TCP_MUX_H
#define WI_TCP_MUX_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include "addr.h"
#include "frame.h"

struct wi_tcp_endpoint;
struct wi_tcp_group;
struct wi_tcp_arrival;
struct wi_tcp_mux;

struct wi_tcp_stream {
    struct wi_tcp_mux *mux;
    uint32_t id;
    /* Under the connection's lock: */
    struct wi_tcp_stream *next;         /* of its bucket */
    struct wi_tcp_stream *next_blocked; /* waits until its frame has gone */
    struct wi_tcp_stream *next_todo;
    struct wi_tcp_group *group;     /* whose it is; is told of what happens */
    struct wi_tcp_arrival *arrival; /* the endpoint's, not authenticated */
    uint8_t fresh;                  /* the endpoint has not seen it */
    uint8_t in_todo, blocked, starved; /* starved: waits for room in the window */
    uint8_t ended;                  /* the peer has closed it */
    unsigned char *buffer;          /* what came and was not taken */
    size_t capacity, at, bytes;
    uint32_t room;  /* that the peer has for what is sent */
    uint32_t taken; /* by the reader, and not told to the peer */
    uint64_t queued_to; /* where its newest frame ends in what was ever queued */
    atomic_int stirred; /* something happened: the group is to look */
};

#define WI_TCP_MUX_BUCKETS 1024u

struct wi_tcp_mux {
    struct wi_tcp_endpoint *endpoint;
    struct wi_tcp_mux *next; /* of the endpoint, under its lock, as is */
    int unfit;               /* for streams from here: a stream could not be authenticated */
    int accepted;            /* the peer made it */
    uint64_t process;        /* at the other end; of an accepted one: as a member of some communicator says */
    unsigned char binding[WI_TCP_BINDING_BYTES];
    char ends[2 * WI_TCP_ADDR_TEXT + 8];
    pthread_mutex_t lock; /* of all below */
    int fd;               /* -1: broken, */
    int error;            /* and why; 0: the peer has closed it */
    int watches_room;
    uint32_t next_id, peer_id; /* of the next stream that is opened here, and there */
    uint32_t nstreams, narriving;
    struct wi_tcp_stream *table[WI_TCP_MUX_BUCKETS];
    struct wi_tcp_stream *blocked, *todo;
    unsigned char *stage; /* what was read and not looked at */
    size_t stage_at, stage_end;
    struct wi_tcp_stream *in; /* whose frame is being read; NULL: nobody's any more */
    size_t in_left;
    unsigned char *out; /* what is to be written */
    size_t out_at, out_end, out_capacity;
    uint64_t appended; /* bytes that ever were */
};

/* Take an authenticated socket; `bytes` of it were read already. NULL: no memory; it is still the caller's. */
struct wi_tcp_mux *wi_tcp_mux_create(struct wi_tcp_endpoint *e, int fd, int accepted, uint64_t process,
                                     const unsigned char binding[WI_TCP_BINDING_BYTES], const void *data, size_t bytes);
void wi_tcp_mux_free(struct wi_tcp_mux *m);
/* The endpoint's thread: what epoll says of it. */
void wi_tcp_mux_event(struct wi_tcp_mux *m, uint32_t events);
/* A stream that the endpoint is to look at, or NULL. */
struct wi_tcp_stream *wi_tcp_mux_todo(struct wi_tcp_mux *m);
int wi_tcp_mux_is_idle(struct wi_tcp_mux *m);   /* broken, and without streams */
int wi_tcp_mux_is_usable(struct wi_tcp_mux *m); /* not broken */
/* Write what is to be written, at most until then, and close. */
void wi_tcp_mux_finish(struct wi_tcp_mux *m, uint64_t deadline_ns);

/* stream.c. NULL: broken, or no memory. */
struct wi_tcp_stream *wi_tcp_stream_open(struct wi_tcp_mux *m, struct wi_tcp_group *group);
void wi_tcp_stream_own(struct wi_tcp_stream *s, struct wi_tcp_group *group);
void wi_tcp_stream_arrive(struct wi_tcp_stream *s, struct wi_tcp_arrival *arrival); /* NULL: it has been authenticated */
/* As recvmsg and sendmsg without waiting. What is sent may be less than asked for; EAGAIN: the group will be told. */
ssize_t wi_tcp_stream_recv(struct wi_tcp_stream *s, const struct iovec *iov, int n);
ssize_t wi_tcp_stream_send(struct wi_tcp_stream *s, const struct iovec *iov, int n);
/* A few bytes that are not to wait for room: of a handshake, or the last. 0, or -1: broken, or no memory. */
int wi_tcp_stream_say(struct wi_tcp_stream *s, const void *data, size_t bytes);
/* What was sent before arrives. */
void wi_tcp_stream_close(struct wi_tcp_stream *s);

/* What the two files share; all need the lock. */
struct wi_tcp_stream *wi_tcp_stream_new(struct wi_tcp_mux *m, uint32_t id);
struct wi_tcp_stream *wi_tcp_stream_find(struct wi_tcp_mux *m, uint32_t id);
int wi_tcp_stream_put(struct wi_tcp_stream *s, const void *data, size_t bytes); /* -1: no memory */
void wi_tcp_stream_stir(struct wi_tcp_stream *s);
int wi_tcp_stream_is_queued(const struct wi_tcp_stream *s); /* a frame of it waits to be written */
/* Of `iov` what has room for `most` bytes; *sum: how many. Returns how many pieces. */
int wi_tcp_iov_clip(const struct iovec *iov, int n, size_t most, struct iovec *out, size_t *sum);
int wi_tcp_mux_say(struct wi_tcp_mux *m, uint8_t type, uint32_t stream, uint32_t value, const void *data, size_t bytes);
int wi_tcp_mux_append(struct wi_tcp_mux *m, const struct iovec *iov, int n, size_t skip); /* -1: no memory */
void wi_tcp_mux_flush(struct wi_tcp_mux *m);
void wi_tcp_mux_fail(struct wi_tcp_mux *m, int error);
/* One receive call. `direct`: where what comes of the current frame goes; else to its stream. Returns how much came; *placed of
 * it. */
size_t wi_tcp_mux_pull(struct wi_tcp_mux *m, const struct iovec *direct, int n, size_t *placed);

/* A socket, or where `s` is set a stream: as recv without waiting; all of a few bytes, or -1. */
ssize_t wi_tcp_io_recv(int fd, struct wi_tcp_stream *s, void *data, size_t bytes);
int wi_tcp_io_say(int fd, struct wi_tcp_stream *s, const void *data, size_t bytes);

#endif
