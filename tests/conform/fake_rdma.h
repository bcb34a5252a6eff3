/* fake_rdma.h: what the files of the fake card share (fake_rdma.c says what it is).
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TC_FAKE_RDMA_H
#define TC_FAKE_RDMA_H

#include <weft/weft_plugin.h>

#include <pthread.h>

#ifdef FAKE_MAPPED
#define NAME "fakecard"
#define MORE WEFT_CAP_MAPPED
#else
#define NAME "fakerdma"
#define MORE 0
#endif

#define REG_MAGIC 0x72656731u
#define BITS (WEFT_CHAN_MAX_LAYERED + 63) / 64

struct fake_settings {
    int64_t posts, late;
    size_t largest;
    const char *reach, *side;
};

/* Registrations are kept when they have ended, so that a use of one is seen. */
struct reg {
    uint32_t magic;
    int alive;
    struct reg *next;
    unsigned char *at;
    size_t bytes;
    uint64_t id;
};

struct endpoint {
    const struct weft_host *host;
    const struct fake_settings *settings;
    uint64_t id;
    uint32_t seed;
    struct reg *regs;
    struct endpoint *next;
};

struct lane {
    struct weft_xfer *posted, **posted_last; /* not met yet */
    struct weft_xfer *done, **done_last;     /* met; the owner has not seen it yet */
    unsigned count;
};

struct group {
    struct endpoint *endpoint;
    struct hub *hub;
    int rank, nranks, quiet;
    uint32_t nchans;
    struct lane *lanes;     /* [2 directions][nranks][nchans] */
    uint64_t (*mask)[BITS]; /* [2][nranks]: channels with something posted or done */
    unsigned char *reported, *member;
    struct weft_rma *rmas;
    struct imported *imports;
    void *side;          /* NULL: all are connected, as there is no side channel */
    unsigned char *link; /* [nranks] */
    struct weft_mapped_rank *mapped; /* [nranks] */
};

enum { UNCONNECTED, REQUESTED, CONNECTED };

enum { ABSENT, HERE, LEFT, ABORTED };

/* The ranks of one communicator. */
struct hub {
    struct hub *next;
    uint64_t comm_id[2];
    int nranks, users;
    struct group **groups;
    unsigned char *state;
    unsigned char **arena; /* [nranks]; of the card with memory that all load and store */
    uint32_t sleepers;
};

struct address {
    uint64_t magic, pid, where, id;
};

enum { PRIV_STATE, PRIV_DELAY, PRIV_GET };
enum { SENDS, RECVS };

/* fake_rdma.c; a plugin with hidden names of its own */
extern pthread_mutex_t fake_card; /* of all below, and of every group's lanes */
extern struct endpoint *fake_endpoints;
uint32_t fake_draw(struct endpoint *e, uint32_t below);
weft_status fake_refuse(struct endpoint *e, weft_status status, const char *why);
/* These with the lock held. */
int fake_covered(const struct endpoint *e, const void *mem, const void *buf, size_t bytes);
void fake_give_up(struct group *g, int peer, int status, int background_too, struct weft_peer_failure *failure);

/* fake_rdma_arena.c: the memory that all ranks of a node load and store; 0: none is left */
int fake_arena_join(struct group *g);
void fake_arena_leave(struct hub *h); /* the last rank */
weft_status fake_mapped(void *group, struct weft_mapped *mapped);
void fake_sleep(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns);

/* fake_rdma_pair.c: connections */
void fake_want_connection(struct group *g, int peer);
int fake_respond(struct group *g);
int fake_connected(const struct group *g, const struct group *peer);
/* What was requested of a peer: has it responded? < 0: it is given up. */
int fake_take_response(struct group *g, int peer, struct weft_peer_failure *failure);

/* fake_rdma_get.c: gets and puts */
weft_status fake_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes);
weft_status fake_import(void *group, int peer, const void *key, size_t bytes, void **remote);
void fake_forget(void *group, void *remote);
void fake_forget_all(struct group *g);
weft_status fake_get(void *group, struct weft_rma *r);
weft_status fake_put(void *group, struct weft_rma *r);
int fake_move_rmas(struct group *g);
void fake_end_rmas(struct group *g, int peer, int status);

#endif
