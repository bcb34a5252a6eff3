/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that the files of the channel layer share (channel.h says what it is). */
#ifndef WI_NET_CHANNEL_GROUP_H
#define WI_NET_CHANNEL_GROUP_H

#include <pthread.h>
#include <weft/weft_plugin.h>

#define WI_CHANNEL_FRAME 1024u          /* bytes of a header with a short message */
#define WI_CHANNEL_CHUNK ((size_t)256 << 10)
#define WI_CHANNEL_AHEAD 8              /* receives of headers that are posted for each peer */
#define WI_CHANNEL_CREDIT 8             /* headers of one channel that the peer has not consumed */
#define WI_CHANNEL_CHUNKS 3             /* of one channel and direction that are posted */
#define WI_CHANNEL_HEADS WEFT_CHAN_MAX  /* the raw channel of headers */

enum wi_channel_kind { WI_CHANNEL_MESSAGE = 1, WI_CHANNEL_RETURN };

/* What travels; ranks of one job have one byte order (mesh.c compares versions). */
struct wi_channel_head {
    uint16_t magic;
    uint8_t kind, chan;
    uint32_t consumed; /* RETURN: headers of the channel consumed so far */
    uint64_t bytes;    /* of the message; up to WI_CHANNEL_SHORT they follow the header */
    struct weft_op_info info;
};
#define WI_CHANNEL_MAGIC 0x5743u
#define WI_CHANNEL_SHORT (WI_CHANNEL_FRAME - sizeof(struct wi_channel_head))

struct wi_channel_group;
struct wi_channel_peer;

/* A staging buffer: memory of the library that is registered, for bytes of a program's memory that is not. */
struct wi_staging {
    struct wi_staging *next;
    unsigned char *at;
    void *mem;
};

/* What a transfer needs of a registration: one that was made for it alone, or one that others made, and that is kept as long. */
struct wi_lease {
    struct wi_lease *next, **link;
    void *mem;
    struct wi_registration *borrowed; /* others'; NULL: `mem` is its own */
};

/* One raw transfer. */
struct wi_piece {
    struct weft_xfer raw;
    struct wi_piece *next;
    struct weft_xfer *user; /* send: whose bytes they are */
    struct wi_staging *staging; /* NULL: from or to the program's memory */
    size_t offset;
};

struct wi_piece_queue {
    struct wi_piece *first, **last;
    unsigned count;
};

struct wi_user_queue {
    struct weft_xfer *first, **last;
};

/* A header that came before its receive. */
struct wi_early {
    struct wi_early *next;
    struct wi_channel_head head;
    unsigned char data[];
};

/* Where the bytes of a message lie, or go to. */
struct wi_channel_place {
    unsigned char *at; /* NULL: they are staged */
    void *mem;
    struct wi_lease *lease;
};

struct wi_channel {
    struct wi_channel *next_ready, *next_busy;
    struct wi_channel_peer *peer;
    uint8_t chan, ready, busy, credit_due;
    /* sending */
    struct wi_user_queue sends;   /* not wholly posted */
    struct wi_channel_place from; /* of the first of them, once its header is posted */
    size_t posted;
    int headed;
    uint32_t sent, consumed;      /* headers; of these, as the peer said */
    struct wi_piece_queue chunks_out;
    uint32_t chunks_sent;
    /* receiving */
    struct wi_user_queue recvs;
    struct wi_early *early, **early_last;
    unsigned nearly;
    uint32_t taken, told;         /* headers consumed; as the peer was told */
    int taking;                   /* a message in chunks: */
    struct weft_xfer *to;         /* its receive; NULL: it has failed, the rest is dropped */
    struct wi_channel_place place;
    size_t total, asked, got;
    struct wi_piece_queue chunks_in;
    uint32_t chunks_taken;
};

enum wi_channel_peer_state { WI_CHANNEL_NONE, WI_CHANNEL_ALIVE, WI_CHANNEL_LEFT, WI_CHANNEL_FAILED };

struct wi_channel_peer {
    struct wi_channel_group *group;
    int rank;
    enum wi_channel_peer_state state;
    weft_status status; /* FAILED: why */
    int reported;
    char text[160];
    unsigned earnest;   /* receives posted that are not background ones */
    struct wi_channel *chans[WEFT_CHAN_MAX];
    struct wi_channel *ready, **ready_last; /* have something to say, in turn */
    struct wi_piece_queue heads_out, heads_in;
    uint32_t heads_sent, heads_taken;
    unsigned rmas_waiting; /* gets and puts that the transport had no room for yet; as it said in step */
    uint64_t rmas_full;
};

/* Registered by the program, or by an operation for as long as it runs. It ends with the last lease on it, if it was deregistered
 * before. */
struct wi_registration {
    void *mem;
    unsigned leases;
    int deregistered;
};

/* The addresses of one that was not deregistered. */
struct wi_registered_range {
    unsigned char *from, *to;
    unsigned char *max_to; /* of the ranges up to here */
    struct wi_registration *registration;
};

struct wi_channel_endpoint {
    const struct weft_plugin *plugin;
    const struct weft_host *host;
    const struct weft_transport_ops *raw;
    void *endpoint;
    uint32_t imm_mask;
    pthread_mutex_t lock; /* of registrations: */
    struct wi_registered_range *ranges; /* by address */
    size_t nranges, ranges_capacity;
};

struct wi_channel_group {
    struct wi_channel_endpoint *endpoint;
    const struct weft_transport_ops *raw;
    void *group;
    int nranks, rank;
    struct wi_channel_peer *peers; /* [nranks] */
    struct wi_channel *busy;       /* have raw transfers of chunks posted, or a message to take */
    struct wi_piece *free_pieces;
    struct wi_staging *free_frames, *free_chunks;
    struct wi_slab *slabs;
    struct wi_lease *leases;
    struct wi_channel_rma *rmas, **rmas_last;
    uint64_t rma_step;             /* steps so far */
    int within;                    /* progress: posts only queue */
    int again;                     /* there is something for progress to do */
    int unreported;                /* peers that failed here */
};

/* channel_memory.c */
weft_status wi_channel_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem);
void wi_channel_deregister(void *endpoint, void *mem);
void wi_channel_registrations_fini(struct wi_channel_endpoint *e); /* the raw endpoint is closed */
/* Where to send x from, or to receive it to. Registers for this message what is worth it. */
struct wi_channel_place wi_channel_place(struct wi_channel_group *g, const struct weft_xfer *x, size_t bytes);
struct wi_lease *wi_channel_lease(struct wi_channel_group *g, void *ptr, size_t bytes, uint32_t memory);
/* On what is registered that holds [from, from + bytes). NULL: nothing is, or there is no memory. */
struct wi_lease *wi_channel_borrow(struct wi_channel_group *g, const unsigned char *from, size_t bytes);
void wi_channel_lease_end(struct wi_channel_group *g, struct wi_lease *l); /* NULL: nothing */
struct wi_staging *wi_channel_frame_get(struct wi_channel_group *g); /* NULL: explained */
struct wi_staging *wi_channel_chunk_get(struct wi_channel_group *g);
struct wi_piece *wi_channel_piece_get(struct wi_channel_group *g);
void wi_channel_piece_put(struct wi_channel_group *g, struct wi_piece *p);
void wi_channel_memory_fini(struct wi_channel_group *g); /* after the raw group is destroyed */

static inline void wi_piece_queue_init(struct wi_piece_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
    q->count = 0;
}
static inline void wi_piece_queue_add(struct wi_piece_queue *q, struct wi_piece *p)
{
    p->next = NULL;
    *q->last = p;
    q->last = &p->next;
    q->count++;
}
static inline struct wi_piece *wi_piece_queue_take(struct wi_piece_queue *q)
{
    struct wi_piece *p = q->first;

    q->first = p->next;
    if (!q->first)
        q->last = &q->first;
    q->count--;
    return p;
}
static inline void wi_user_queue_init(struct wi_user_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}
static inline void wi_user_queue_add(struct wi_user_queue *q, struct weft_xfer *x)
{
    x->next = NULL;
    *q->last = x;
    q->last = &x->next;
}
static inline struct weft_xfer *wi_user_queue_take(struct wi_user_queue *q)
{
    struct weft_xfer *x = q->first;

    q->first = x->next;
    if (!q->first)
        q->last = &q->first;
    return x;
}

/* channel_peer.c */
struct wi_channel *wi_channel_get(struct wi_channel_peer *p, uint32_t chan); /* NULL: explained */
void wi_channel_ready(struct wi_channel *ch);                                /* it has something to say */
void wi_channel_busy(struct wi_channel *ch);
/* Everything posted with the peer ends. `own`: progress is to report it, since the transport does not. */
void wi_channel_peer_fail(struct wi_channel_peer *p, weft_status status, int own, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void wi_channel_cancel(struct wi_channel_peer *p); /* everything posted with it ends with WEFT_ECANCELED */
/* A raw transfer with the peer ended in failure. */
void wi_channel_piece_failed(struct wi_channel_peer *p, const struct wi_piece *piece);
int wi_channel_order(struct wi_channel_peer *p, const struct wi_piece *piece, uint32_t number); /* 0: the peer was failed */

/* channel_rma.c */
weft_status wi_channel_rma_post(struct wi_channel_group *g, struct weft_rma *r, int get);
int wi_channel_rma_step(struct wi_channel_group *g);
void wi_channel_rma_end(struct wi_channel_group *g, int peer, int state); /* peer -1: all */
void wi_channel_rma_free(struct wi_channel_group *g); /* after the raw group is destroyed */

/* channel_send.c */
int wi_channel_send_step(struct wi_channel_peer *p);    /* headers and credits */
int wi_channel_chunks_out_step(struct wi_channel *ch);
/* channel_recv.c */
weft_status wi_channel_heads_post(struct wi_channel_peer *p);
int wi_channel_heads_step(struct wi_channel_peer *p);
int wi_channel_chunks_in_step(struct wi_channel *ch);
/* Let receives that wait meet messages that have come. `sinks`: it may call them. */
int wi_channel_meet(struct wi_channel *ch, int sinks);
void wi_channel_recv_end(struct wi_channel *ch, struct weft_xfer *x, int state);

#endif
