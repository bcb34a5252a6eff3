/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up store's state: keys, the ranks that wait for them, how far each rank has come, and the verdict when the job cannot
 * start. No I/O: sessions are fed frames and leave answers in their `out` queue. One thread at a time. */
#ifndef WI_NET_STORE_H
#define WI_NET_STORE_H

#include "net/store_wire.h"

#define WI_STORE_MEMORY_MAX (64u << 20)
#define WI_STORE_SESSION_GETS 64 /* unanswered GETs of one session */

struct wi_store_entry;
struct wi_store_session {
    struct wi_store_session *next;
    int rank;
    int said_bye;
    int refused;               /* its verdict concerns it alone; close once `out` is sent */
    char name[80];             /* "rank 3 (node5, pid 4711)" */
    struct wi_store_buf out;
    struct wi_store_entry *gets[WI_STORE_SESSION_GETS];
    int ngets;
};
struct wi_store;

/* nranks 0: the first session says. */
struct wi_store *wi_store_create(int nranks);
void wi_store_destroy(struct wi_store *store);

/* An authenticated client has come. Contradictions (a rank twice, another nranks) leave a verdict in the session's
 * queue and set `refused`. WEFT_ENOMEM. */
weft_status wi_store_session_open(struct wi_store *store, int rank, int nranks, const char *host, int pid,
                                  struct wi_store_session **session);
/* The same, and what is sent to the session is sealed by `seal`, which must outlive it. */
weft_status wi_store_session_open_sealed(struct wi_store *store, int rank, int nranks, const char *host, int pid,
                                         struct wi_auth_stream *seal, struct wi_store_session **session);
/* The session ended. Without a BYE before, all other ranks are notified that this rank is gone. */
void wi_store_session_close(struct wi_store *store, struct wi_store_session *session);
/* Handle one frame. 0, or -1: break the session off. */
int wi_store_session_frame(struct wi_store *store, struct wi_store_session *session,
                           const struct wi_store_frame *frame);

/* The first verdict stands and goes to every session. */
void wi_store_judge(struct wi_store *store, const struct wi_store_verdict *verdict);
const struct wi_store_verdict *wi_store_verdict_of(const struct wi_store *store); /* NULL: none */
int wi_store_complete(const struct wi_store *store); /* every rank has joined */
int wi_store_nranks(const struct wi_store *store);
struct wi_store_session *wi_store_sessions(struct wi_store *store);
/* Say good-bye to all sessions; while ranks are missing, with a verdict before it: no start can come of them. */
void wi_store_farewell(struct wi_store *store);

#endif
