/* transport.h: one suite of cases that every transport passes.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A test program names its fixtures and includes transport_main.h. Each case runs on all ranks of a fresh group.
 * To add a transport: copy transport_inproc.c, name the plugin, say how it differs.
 */
#ifndef TC_TRANSPORT_H
#define TC_TRANSPORT_H

#include <weft/weft_plugin.h>

#include "../harness/harness.h"

#define TC_MAX_RANKS 64

struct tc_fixture {
    const char *name;
    const struct weft_plugin *plugin;
    const char *const *settings; /* NULL or "NAME=value", ended by NULL */
    int threads;                 /* ranks are threads, not processes */
    /* Fill in what the transport needs of the library (authentication); NULL: nothing. */
    void (*host)(struct weft_host *host);
    int channels;                /* the library's channels stand above it (net/channel.h) */
};

struct tc_shared;
struct tc_side;
struct tc_rank {
    const struct tc_fixture *fixture;
    const struct weft_transport_ops *ops;
    struct tc_shared *shared;
    int rank, nranks;
    struct weft_host host;
    struct wi_settings *read; /* what `settings` points into */
    void *settings;
    void *endpoint, *group;
    struct weft_transport_ops raw; /* below the channels */
    struct weft_group_config config;
    struct tc_side *side; /* NULL: the transport uses none */
    const void *addresses[TC_MAX_RANKS];
    size_t address_bytes[TC_MAX_RANKS];
    unsigned char member[TC_MAX_RANKS];
    uint64_t groups_made;
    weft_status explained_status;
    char explained[256];
    struct weft_peer_failure failure; /* the newest; status 0: none */
    int failures;
    /* A hostile rank changes what it says in the exchanges of group_create; round counts from 0. NULL: an honest one. */
    void (*tamper)(struct tc_rank *r, int round, void *mine, size_t bytes);
    int rounds;
};

typedef void (*tc_case_fn)(struct tc_rank *r);

/* Run one case; the ranks have an endpoint and know all addresses, but no group yet. Returns ranks that failed. */
int tc_run(const struct tc_fixture *fixture, tc_case_fn fn, int nranks, unsigned deadline_ms);
/* The same, and ranks >= `first` end by a signal. */
int tc_run_killed(const struct tc_fixture *fixture, tc_case_fn fn, int nranks, int first, int signum,
                  unsigned deadline_ms);

weft_status tc_group_try(struct tc_rank *r);
void tc_group(struct tc_rank *r); /* requires success */
/* What group_create is given: `arg` is the rank. */
weft_status tc_all_gather(void *arg, const void *mine, size_t mine_bytes, void *all);
void tc_group_end(struct tc_rank *r, int aborted);
/* Why the newest call failed. */
const char *tc_explained(const struct tc_rank *r);
/* A word that all ranks see. */
uint64_t *tc_word(struct tc_rank *r, int index);

/* As wt_sync, making progress meanwhile. */
void tc_sync(struct tc_rank *r);

void tc_xfer(struct weft_xfer *x, int peer, uint32_t chan, void *buf, size_t bytes);
void tc_post_send(struct tc_rank *r, struct weft_xfer *x);
void tc_post_recv(struct tc_rank *r, struct weft_xfer *x);
void tc_progress(struct tc_rank *r);
/* Progress until none of them is pending; a check fails at the deadline. */
void tc_wait(struct tc_rank *r, struct weft_xfer *x, size_t count);
/* Progress until a failure is reported; the milliseconds it took, or UINT64_MAX. */
uint64_t tc_wait_failure(struct tc_rank *r, unsigned deadline_ms);

/* Bytes that depend on position and seed. */
void tc_fill(void *buf, size_t bytes, uint32_t seed);
int tc_filled(const void *buf, size_t bytes, uint32_t seed);
uint32_t tc_random(uint32_t *state);
int tc_open_files(void);

/* X(function, ranks, title, capabilities, processes only) */
#define TC_CASES(X)                                                                                                    \
    X(address, 2, "addresses are checked", 0, 0)                                                                       \
    X(create_destroy, 3, "groups come and go without leaks", WEFT_CAP_TWO_SIDED, 0)                                    \
    X(sizes, 2, "messages of all sizes", WEFT_CAP_TWO_SIDED, 0)                                                        \
    X(self, 1, "messages to oneself", WEFT_CAP_TWO_SIDED, 0)                                                           \
    X(fifo, 2, "channels keep order", WEFT_CAP_TWO_SIDED, 0)                                                           \
    X(early_late, 2, "sends before receives and the reverse", WEFT_CAP_TWO_SIDED, 0)                                   \
    X(sink, 2, "sinks get whole elements in order", WEFT_CAP_TWO_SIDED, 0)                                             \
    X(lengths, 2, "a receive learns how long its message was", WEFT_CAP_TWO_SIDED, 0)                                  \
    X(lengths_self, 1, "so does one from oneself", WEFT_CAP_TWO_SIDED, 0)                                              \
    X(truncated, 2, "a longer message is refused", WEFT_CAP_TWO_SIDED, 0)                                              \
    X(mismatch, 2, "another operation is named", WEFT_CAP_TWO_SIDED, 0)                                                \
    X(crowd, 6, "everybody to everybody", WEFT_CAP_TWO_SIDED, 0)                                                       \
    X(bad_posts, 2, "impossible transfers are refused", WEFT_CAP_TWO_SIDED, 0)                                         \
    X(pending_destroy, 2, "a group ends with transfers pending", WEFT_CAP_TWO_SIDED, 0)                                \
    X(left, 2, "a peer that left is no failure until needed", WEFT_CAP_TWO_SIDED, 0)                                   \
    X(quiesce_recv, 2, "a receive that was given up is not written to", WEFT_CAP_TWO_SIDED, 0)                         \
    X(quiesce_send, 2, "a send that was given up is not taken for sound", WEFT_CAP_TWO_SIDED, 0)                       \
    X(peek, 2, "the oldest message is looked at", WEFT_CAP_TWO_SIDED, 0)                                               \
    X(aborted, 3, "an abort reaches the others", WEFT_CAP_TWO_SIDED, 0)                                                \
    X(layout, 3, "the mapped arena is laid out", WEFT_CAP_MAPPED, 0)                                                   \
    X(signals, 2, "signals carry what was stored before", WEFT_CAP_MAPPED, 0)                                          \
    X(lines, 2, "lines carry their payload", WEFT_CAP_MAPPED, 0)                                                       \
    X(sleep_window, 2, "no wake-up is lost while falling asleep", WEFT_CAP_MAPPED, 0)                                  \
    X(sleep_wake, 2, "no wake-up is lost", WEFT_CAP_MAPPED, 0)                                                         \
    X(sleep_crowd, 4, "no wake-up is lost among many", WEFT_CAP_MAPPED, 0)                                             \
    X(sleep_message, 2, "a message wakes its receiver", WEFT_CAP_MAPPED | WEFT_CAP_TWO_SIDED, 0)                       \
    X(mem_alloc, 2, "allocated memory is mapped by peers", WEFT_CAP_MEM_MAP, 0)                                        \
    X(mem_adopt, 2, "adopted memory keeps its contents", WEFT_CAP_MEM_MAP, 0)                                          \
    X(mem_stale, 2, "freed segments are noticed", WEFT_CAP_MEM_MAP, 1)                                                 \
    X(mem_get, 2, "private memory is read", WEFT_CAP_MEM_GET, 0)                                                       \
    X(mem_put, 2, "private memory is written", WEFT_CAP_MEM_PUT, 0)                                                    \
    X(mem_refused, 1, "wrong memory is refused", WEFT_CAP_MEM_MAP, 1)                                                  \
    X(rma_sizes, 2, "gets and puts of all sizes", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                                      \
    X(rma_many, 3, "more gets and puts than there is room for", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                        \
    X(rma_visible, 2, "a put comes before its message", WEFT_CAP_PUT | WEFT_CAP_TWO_SIDED, 0)                          \
    X(rma_refused, 2, "impossible gets and puts are refused", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                          \
    X(rma_forged, 2, "a forged key reaches nothing else", WEFT_CAP_GET, 0)                                             \
    X(rma_taken_back, 2, "memory that was taken back is named", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                        \
    X(rma_quiesce, 2, "gets and puts that were given up touch nothing", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                \
    X(rma_destroy, 2, "a group ends with gets and puts pending", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                       \
    X(rma_gone, 2, "gets and puts end with their peer", WEFT_CAP_GET | WEFT_CAP_PUT, 0)                                \
    X(few_files, 2, "no descriptors left is said so", 0, 1)                                                            \
    X(stopped, 2, "a stopped peer is described", 0, 1)
#define TC_DECLARE(fn, nranks, title, caps, processes) void tc_case_##fn(struct tc_rank *r);
TC_CASES(TC_DECLARE)
#undef TC_DECLARE
void tc_case_killed(struct tc_rank *r);
void tc_case_killed_idle(struct tc_rank *r);

#endif
