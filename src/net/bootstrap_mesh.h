/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that have met at the store: each keeps ceil(log2 P) authenticated links out and as many in, over which
 * all-gathers run in as many rounds (Bruck et al., IEEE TPDS 8(11), 1997) for the life of the bootstrap. */
#ifndef WI_NET_BOOTSTRAP_MESH_H
#define WI_NET_BOOTSTRAP_MESH_H

#include "net/accept_pause.h"
#include "net/bootstrap.h"
#include "net/half_open.h"
#include "net/store_client.h"
#include "net/store_server.h"

#define WI_BOOT_ROUNDS 20
#define WI_BOOT_HALF_OPEN (WI_BOOT_ROUNDS + 32)

/* One connection during its handshake, later only a descriptor. */
struct wi_boot_link {
    int fd;                     /* -1: not there (yet) */
    int peer, round;            /* -1 while a stranger */
    int connecting, ready;
    struct wi_half_open half_open; /* stranger */
    struct weft_auth *auth;
    struct wi_auth_stream stream;  /* once ready: seals what goes out, opens what comes in */
    struct wi_store_buf out;
    uint64_t deadline_ns;       /* stranger: until when; outgoing: when to try again */
    uint64_t pause_ns;
    struct wi_sockaddr at;      /* outgoing */
};

struct wi_boot {
    struct wi_bootstrap base;
    struct wi_store_server *server;     /* on rank 0 */
    struct wi_store_client store;
    struct wi_auth_key link_key;
    struct wi_auth_seen *seen;          /* while joining */
    int listen_fds[2];                  /* local, tcp; only while joining */
    struct wi_accept_pause pause;       /* of these */
    int nrounds, everybody, local_only;
    const char *interfaces;             /* borrowed while joining */
    struct wi_node_id node;
    struct wi_boot_link out[WI_BOOT_ROUNDS], in[WI_BOOT_ROUNDS], strangers[WI_BOOT_HALF_OPEN];
    uint32_t seq;
    struct wi_store_verdict refusal;    /* on a rank that may not join; no text: none is known */
    weft_status failed;
    struct wi_store_verdict verdict;    /* once failed */
};

struct wi_boot_config {
    int rank, nranks, local_rank, local_nranks;
    unsigned char job_key[WI_JOB_KEY_BYTES];
    int has_secret;
    int ask_key;                        /* the store gives the key to this user's ranks on this host */
    int own_user;                       /* the store is at a local socket, for this user's processes only */
    char job[64];
    struct wi_rendezvous rendezvous;
    int local_only;                     /* all ranks are on this host: no TCP listener */
    struct wi_store_server *server;     /* rank 0: taken on success */
    int (*refresh)(struct wi_store_search *search, void *arg); /* see wi_store_search */
    void *arg;
};
/* A rank alone: nothing is connected. */
weft_status wi_boot_single(const struct wi_boot_config *config, struct wi_bootstrap **b);
/* Find the store, publish this rank's address, connect the links, wait for all ranks. */
weft_status wi_boot_create(const struct wi_boot_config *config, uint64_t deadline_ns, struct wi_bootstrap **b);
weft_status wi_boot_all_gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                               uint64_t deadline_ns);
void wi_boot_destroy(struct wi_bootstrap *b);

/* The joining half (bootstrap_join.c). */
weft_status wi_boot_join(struct wi_boot *mesh, uint64_t deadline_ns);
void wi_boot_link_close(struct wi_boot_link *link);
/* Record why this bootstrap is over; the first reason stands. */
weft_status wi_boot_fail(struct wi_boot *mesh, weft_status status, int culprit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Pass on the store's verdict if there is one. */
weft_status wi_boot_store_pump(struct wi_boot *mesh,
                               void (*value)(void *arg, const struct wi_store_frame *frame));
/* "ranks 3, 7 (of 8)" from the store's answer. */
void wi_boot_missing_text(const struct wi_boot *mesh, char *text, size_t capacity);
void wi_boot_say_step(struct wi_boot *mesh, enum wi_store_frame_type type, uint64_t step);

/* Part of the time that is kept for asking which ranks are missing before a deadline. */
static inline uint64_t wi_boot_ask_ns(uint64_t begin_ns, uint64_t deadline_ns)
{
    uint64_t left = deadline_ns > begin_ns ? deadline_ns - begin_ns : 0;
    return deadline_ns - (left / 8 < 500000000ull ? left / 8 : 500000000ull);
}

/* The deadline of a question that is asked now: a process that was stopped past its time to ask still learns which ranks are
 * missing. */
static inline uint64_t wi_boot_answer_ns(uint64_t now, uint64_t ask_ns, uint64_t deadline_ns)
{
    uint64_t answered = now + (deadline_ns - ask_ns);
    return answered > deadline_ns ? answered : deadline_ns;
}

#endif
