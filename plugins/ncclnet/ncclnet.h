/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport ncclnet: weft's messages over a network plugin made for NCCL (doc/adr/0035-nccl-net-plugins.md).
 *
 * Two ranks have two connections for each direction, since those of NCCL go one way, match in the order of posts and stop at the
 * first receive that is not met. On the first go packets of records, always received: short messages, and announcements. On the
 * second go long messages, each posted on both sides once a send and a receive of one channel have met, in the receiver's order:
 *
 *   sender                         receiver
 *   EAGER, message          -->    copied to its receive, or put aside (NN_EAGER_AHEAD for each channel)
 *   RTS                     -->    waits for a receive of its channel;
 *   (next of its channel)   <--    then irecv of its length on the second connection, and CTS; or SKIP: nothing to move
 *   isend                   ==>
 */
#ifndef NN_NCCLNET_H
#define NN_NCCLNET_H

#include <pthread.h>
#include <weft/weft_plugin.h>

#include "abi.h"

#define NN_NAME_BYTES 48
#define NN_HOST_BYTES 64
#define NN_TOKEN_BYTES 16
#define NN_EAGER_AHEAD 8u    /* such of one channel that no receive has met */
#define NN_POSTS_MAX 16u     /* transfers of one channel and direction, then WEFT_EBUSY */
#define NN_PACKET_MORE 8192u /* of a packet, beyond the longest message that goes in one */
#define NN_SLOTS 8u          /* packets of one direction under way */
#define NN_DEVICES_MAX 32
#define NN_SETTLE_NS 300000000ull  /* from a connection that breaks to what is reported: its peer may say why */
#define NN_ENDED_NS 50000000ull    /* likewise, of a process that has ended: what it said before may still be on its way */
#define NN_DRAIN_NS 5000000000ull  /* from a good-bye to the last of what was sent before */
#define NN_LOOK_NS 1000000ull      /* between looks at whether peers are there */
#define NN_GOODBYE_NS 100000000ull /* that a group waits, at its end, until it has said so */

struct nn_settings {
    const char *plugin, *devices;
    int64_t requests, traffic_class, max_version;
    size_t eager; /* bytes of a message that goes in a packet, at most */
};

/* ---- A loaded plugin: load.c, adapt.c ---- */

/* One for each file, for the life of the process: plugins start threads, and those before version 11 are initialised once. */
struct nn_lib {
    struct nn_lib *next;
    void *file;
    char path[512];
    int version; /* of the interface that is used: the highest that both have */
    union {
        const void *raw;
        const struct nn_net_v8 *v8;
        const struct nn_net_v9 *v9;
        const struct nn_net_v10 *v10;
        const struct nn_net_v11 *v11;
        const struct nn_net_v12 *v12;
    };
    int initialised; /* of versions before 11 */
    int (*devices)(int *count);
    int (*accept)(void *listener, void **comm, void **device_handle);
    int (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **handle);
    int (*dereg_mr)(void *comm, void *handle);
    int (*test)(void *request, int *done, int *sizes);
    int (*close_send)(void *comm);
    int (*close_recv)(void *comm);
    int (*close_listen)(void *listener);
};

/* What getProperties says, of whatever version; strings are copied, "" where they are NULL. */
struct nn_device {
    int index;
    char name[NN_NAME_BYTES];
    int pointers, mbps, max_comms, max_recvs, offload;
    float latency_us;
    size_t max_bytes;
    int comms; /* that are open */
};

struct nn_context {
    void *context;           /* of version 11 and later */
    struct nn_config config; /* plugins may keep its address */
    int open;
};

const char *nn_result_name(int result);
const char *nn_net_name(const struct nn_lib *lib);
int nn_has_init(const struct nn_lib *lib);
/* After nn_init, in which some plugins fill their tables. 0, or -1: `missing` is a function that the plugin has not. */
int nn_bind(struct nn_lib *lib, const char **missing);
int nn_init(struct nn_lib *lib, uint64_t comm_id, struct nn_context *c, nn_log_fn *log, nn_profile_fn *profile);
void nn_finalize(struct nn_lib *lib, struct nn_context *c);
int nn_properties(const struct nn_lib *lib, int index, struct nn_device *device);
int nn_listen(const struct nn_lib *lib, const struct nn_context *c, int device, void *handle, void **listener);
int nn_connect(const struct nn_lib *lib, struct nn_context *c, int device, void *handle, void **comm);
int nn_isend(const struct nn_lib *lib, void *comm, void *data, size_t bytes, int tag, void *handle, void **request);
int nn_irecv(const struct nn_lib *lib, void *comm, void *data, size_t bytes, int tag, void *handle, void **request);

/* NULL: explained, *status says whether it is an error. */
struct nn_lib *nn_load(const struct weft_host *host, const struct nn_settings *settings, weft_status *status);
/* Where NCCL's log function writes to, the newest host that was added. */
void nn_log_add(const struct weft_host *host);
void nn_log_remove(const struct weft_host *host);
nn_log_fn nn_log;
nn_profile_fn nn_profile;

/* ---- Endpoint: endpoint.c, devices.c, memory.c ---- */

/* Memory on one connection. */
struct nn_registered {
    struct nn_link *link;
    void *handle;
};
struct nn_mem {
    struct nn_mem *next, **at;
    void *ptr;
    size_t bytes;
    struct nn_registered *on; /* [count], the last used first */
    unsigned count, capacity;
};

struct nn_endpoint {
    const struct weft_host *host;
    const struct nn_settings *settings;
    struct nn_lib *lib;
    struct nn_context context;
    pthread_mutex_t lock; /* around every call of the plugin, and of all below: plugins are not asked to bear two threads */
    struct nn_device devices[NN_DEVICES_MAX];
    int ndevices;
    size_t packet_bytes;
    struct nn_mem *mems;
};

#define NN_ADDRESS_MAGIC 0x7765667431766e6eull
struct nn_address {
    uint64_t magic;
    struct weft_process process;
    char net[NN_NAME_BYTES], host[NN_HOST_BYTES]; /* each ends with 0 */
};

weft_status nn_explain(struct nn_endpoint *e, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
weft_status nn_devices_choose(struct nn_endpoint *e);
int nn_address_read(const void *address, size_t bytes, struct nn_address *to); /* 1, or 0: it is none */

weft_status nn_mem_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem);
void nn_mem_deregister(void *endpoint, void *mem);
void *nn_memory_new(size_t bytes); /* whole pages, all zero; for free() */
/* With the lock held. */
struct nn_mem *nn_mem_new(struct nn_endpoint *e, void *ptr, size_t bytes);
void nn_mem_free(struct nn_endpoint *e, struct nn_mem *mem);
int nn_mem_on(struct nn_endpoint *e, struct nn_mem *mem, struct nn_link *link, void **handle); /* an nn_result */
void nn_mem_leave(struct nn_endpoint *e, struct nn_link *link); /* the connection ends */

/* ---- Group ---- */

enum { NN_PACKETS, NN_DATA, NN_KINDS };

/* One connection, one way. */
struct nn_link {
    void *comm; /* NULL: not there (yet) */
    struct nn_device *device;
    int begun;   /* connect was called, and is to be called again */
    void *hello; /* request */
    int greeted; /* 1: the hello is posted; 2: it is through */
    int bad;     /* a call on it has failed: no more are made but to close it */
};

enum nn_record_kind { NN_HELLO = 1, NN_EAGER, NN_RTS, NN_CTS, NN_SKIP, NN_CREDIT, NN_BYE };

/* As it travels; ranks of one job have one byte order. The payload of HELLO and EAGER follows, up to a multiple of 8. */
struct nn_record {
    uint16_t kind, chan;
    uint32_t imm;
    uint64_t bytes; /* CREDIT: short messages of the channel consumed so far; BYE: 1, it aborts */
};
#define NN_PADDED(bytes) (((bytes) + 7u) & ~(size_t)7u)
#define NN_HELLO_BYTES (sizeof(struct nn_record) + NN_TOKEN_BYTES)

/* To be packed. */
struct nn_said {
    struct nn_record record;
    struct weft_xfer *x; /* EAGER */
};

struct nn_slot {
    unsigned char *at;
    void *request;           /* NULL: not posted */
    size_t bytes;            /* of a packet to send; 0: it is free */
    struct weft_xfer *eager; /* the sends that it carries */
};

struct nn_queue {
    struct weft_xfer *first, **last;
    unsigned count;
};

/* A message that came before its receive. */
struct nn_arrival {
    struct nn_arrival *next;
    struct nn_record record;
    unsigned char data[];
};

struct nn_chan {
    struct nn_queue sends;  /* announced, and not called for yet */
    struct nn_queue recvs;  /* not met yet */
    struct nn_arrival *arrivals, **arrivals_last;
    unsigned announced;     /* arrivals that are RTS */
    unsigned put_aside;     /* arrivals that are EAGER */
    unsigned posted[2];     /* transfers that the caller has posted and not got back */
    unsigned longs;             /* sends announced and not through: what comes behind is announced, too */
    uint32_t sent, consumed;    /* short messages to the peer; of these, as it said */
    uint32_t taken, told;       /* from the peer; as it was told */
};

enum nn_state { NN_NONE, NN_IDLE, NN_ASKED, NN_CONNECTING, NN_UP, NN_GONE, NN_FAILED };
enum nn_asking { NN_ASKS_NOTHING, NN_ASKS_CONNECT, NN_ASKS_WATCH };
enum { NN_SENDS, NN_RECVS };

struct nn_peer {
    struct nn_group *group;
    int rank;
    enum nn_state state;     /* GONE: it has left in good order */
    enum nn_asking asking;   /* the request on the side channel that is open */
    weft_status status;      /* FAILED */
    int unreported;
    char text[160];
    struct nn_address address;
    struct nn_link send[NN_KINDS], recv[NN_KINDS];
    void *listener[NN_KINDS];
    _Alignas(16) unsigned char mine[NN_KINDS][NN_HANDLE_BYTES], theirs[NN_KINDS][NN_HANDLE_BYTES];
    unsigned char my_token[NN_TOKEN_BYTES], their_token[NN_TOKEN_BYTES];
    /* packets */
    unsigned char *memory;   /* of slots and hellos */
    struct nn_mem *mem;
    struct nn_slot out[NN_SLOTS], in[NN_SLOTS];
    unsigned out_first, out_used, out_posted, in_first, in_posted;
    struct nn_said *said;    /* ring */
    unsigned said_first, said_count, said_capacity;
    /* long messages, in the order of the connection: the first `..._posted` of them are posted to it */
    struct nn_queue data_out, data_in;
    unsigned data_out_posted, data_in_posted;
    struct nn_chan **chans;  /* [nchans], made when used */
    /* the end */
    int said_bye, watch_ended;
    int aborted;             /* it has said so; progress has been called so many times since, and one */
    int call_failed;         /* of the plugin, for this peer */
    uint64_t gone_ns; /* GONE: since when */
    int fresh;               /* receives have ended since progress began: the caller may not have seen it */
    int owed;                /* GONE: it has left with sends under way to it */
    uint64_t broken_ns;      /* since when something is wrong; 0: nothing is */
    char broken[160];
};

struct nn_group {
    struct nn_endpoint *endpoint;
    struct nn_context context;
    int rank, nranks, quiet;
    uint32_t nchans;
    void *side;
    uint64_t looked_ns;
    int unreported;
    struct nn_peer *peers; /* [nranks] */
};

enum { NN_PRIV_REQUEST, NN_PRIV_LONG }; /* of weft_xfer.priv */

static inline void nn_queue_init(struct nn_queue *q)
{
    q->first = NULL;
    q->last = &q->first;
    q->count = 0;
}
static inline void nn_queue_add(struct nn_queue *q, struct weft_xfer *x)
{
    x->next = NULL;
    *q->last = x;
    q->last = &x->next;
    q->count++;
}
static inline struct weft_xfer *nn_queue_take(struct nn_queue *q)
{
    struct weft_xfer *x = q->first;

    q->first = x->next;
    if (!q->first)
        q->last = &q->first;
    q->count--;
    return x;
}

/* group.c: the transport's functions, which take the lock */
weft_status nn_group_create(void *endpoint, const struct weft_group_config *config, void **group);
void nn_group_destroy(void *group, int aborted);
weft_status nn_send(void *group, struct weft_xfer *x);
weft_status nn_recv(void *group, struct weft_xfer *x);
int nn_progress(void *group, struct weft_peer_failure *failure);
weft_status nn_quiesce(void *group, uint64_t deadline_ns);
int nn_left(void *group, int peer);
void nn_group_connect(void *group, int peer);
size_t nn_describe(void *group, int peer, char *text, size_t capacity);

/* All below with the lock held. */

/* pair.c: connecting */
void nn_want_connection(struct nn_peer *p);
int nn_answer_requests(struct nn_group *g);
int nn_pair_step(struct nn_peer *p);
int nn_connects_end(struct nn_peer *p); /* at the end of the group; 1: call it again */
void nn_links_close(struct nn_peer *p, int kind); /* both directions of it */
int nn_links_close_failed(struct nn_peer *p, int kind); /* the same; 1: the plugin says that it could not */
void nn_listeners_close(struct nn_peer *p);

/* packet.c: packets of records */
weft_status nn_say(struct nn_peer *p, struct nn_record record, struct weft_xfer *x);
int nn_packets_out_step(struct nn_peer *p);
int nn_packets_in_step(struct nn_peer *p);

/* match.c: channels */
struct nn_chan *nn_chan_get(struct nn_peer *p, uint32_t chan); /* NULL: no memory */
weft_status nn_post_send(struct nn_peer *p, struct weft_xfer *x);
weft_status nn_post_recv(struct nn_peer *p, struct weft_xfer *x);
void nn_xfer_end(struct nn_peer *p, struct weft_xfer *x, int direction, int state);
/* A record that came, with its payload. 0: the peer was failed. */
int nn_take_record(struct nn_peer *p, const struct nn_record *record, const unsigned char *payload);
void nn_xfers_end(struct nn_peer *p, int state); /* all that are posted */
int nn_sends_end(struct nn_peer *p, int state);  /* sends only; 1: the peer was to receive some of them */
void nn_sends_forget(struct nn_peer *p); /* what is not packed yet; the transfers end later */
/* Is anything posted that the peer would have to do something for? Not what is `background`. */
int nn_sends_wait(const struct nn_peer *p);
int nn_recvs_wait(const struct nn_peer *p);
void nn_announced_drop(struct nn_peer *p);
void nn_chans_free(struct nn_peer *p);

weft_status nn_self_post(struct nn_peer *p, struct weft_xfer *x, int direction); /* the rank's own */

/* data.c: long messages */
int nn_data_step(struct nn_peer *p);

/* gone.c: the end of peers */
void nn_fail(struct nn_peer *p, weft_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A call of the plugin has failed: the peer may still say why. */
void nn_broke(struct nn_peer *p, const char *call, int result);
void nn_take_bye(struct nn_peer *p, int aborted);
void nn_look(struct nn_peer *p, uint64_t now);
int nn_report(struct nn_group *g, struct weft_peer_failure *failure); /* 0: there is none */

#endif
