/* Harness for tests of several ranks: forked processes or threads, checks, deadlines, temporary things.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     static void body(int rank, int nranks, void *arg) { ... WT_CHECK(sum == 6); ... }
 *     CU_ASSERT_EQUAL(wt_run(4, body, NULL, 5000), 0);
 *
 * A rank fails when one of its checks fails, in whichever of its threads, when it exits with a status other than 0 or
 * without having returned from its function, is ended by a signal, or is still running at the deadline. What a rank
 * prints is kept, and shown only if something failed. Deadlines are multiplied by $WEFT_TEST_SLOW (sanitizers,
 * emulators).
 *
 * A forked rank finds in its environment what weft-run would give it: WEFT_RANK, WEFT_NRANKS, WEFT_LOCAL_RANK,
 * WEFT_LOCAL_NRANKS, WEFT_STORE_ADDR, WEFT_STORE_PORT, WEFT_JOB and, on rank 0, WEFT_STORE_FD: an inherited socket
 * that listens already, so that no port can be taken by somebody else in between. The variables of other launchers
 * are removed. */
#ifndef WT_HARNESS_H
#define WT_HARNESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef void (*wt_rank_fn)(int rank, int nranks, void *arg);

/* ---- Ranks as processes ---- */
/* Returns the number of ranks that failed; -1 if they could not be started. */
int wt_run(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms);

/* The same in pieces, for tests that kill, stop or watch ranks. */
struct wt_job;
struct wt_job *wt_job_start(int nranks, wt_rank_fn fn, void *arg); /* NULL: could not start */
pid_t wt_job_pid(const struct wt_job *job, int rank);
/* This rank is meant to end by signal `signum` (0: with exit status 0, as all do unless told otherwise). */
void wt_job_expect_signal(struct wt_job *job, int rank, int signum);
/* Wait for all ranks, kill those left at the deadline, report, free the job. Returns as wt_run. */
int wt_job_wait(struct wt_job *job, unsigned deadline_ms);
/* This rank will not return from its function: it is about to exit, or to become another program. */
void wt_rank_leaves(void);
/* Where reports go: stderr, unless the harness tests itself. NULL: stderr again. */
void wt_report_to(const char *path);

/* ---- Ranks as threads ---- */
/* Returns the number of ranks with failed checks, and one more if checks failed in threads that ranks started: nobody knows
 * whose these are. Threads cannot be killed: ranks stuck at the deadline are named and
 * the whole test program exits with status 1. */
int wt_threads(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms);
/* The same in a new process: stuck ranks end only that one, and what a sanitizer finds in one run is not inherited by
 * those after it. What the ranks write to memory is lost, but for what is shared. */
int wt_threads_apart(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms);
int wt_is_thread(void); /* is this rank one? */
/* Every thread rank gives `bytes` bytes and gets those of all, in rank order. As weft_oob wants it; returns 0. */
int wt_exchange(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns);
/* Wait until all ranks of the current wt_run or wt_threads are here: a barrier that does not need the library. */
void wt_sync(void);

/* ---- Checks, in ranks and anywhere else ---- */
/* Failed checks of this rank; of this process, in a thread that is none. */
int wt_failures(void);
__attribute__((format(printf, 3, 4))) void wt_fail(const char *file, int line, const char *format, ...);
_Noreturn void wt_rank_end(void); /* leave the rank now; its checks so far count */

#define WT_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            wt_fail(__FILE__, __LINE__, "%s", #condition);                                         \
    } while (0)
/* As WT_CHECK, and a failure ends the rank. */
#define WT_REQUIRE(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            wt_fail(__FILE__, __LINE__, "%s", #condition);                                         \
            wt_rank_end();                                                                         \
        }                                                                                          \
    } while (0)
#define WT_CHECK_INT(actual, expected)                                                             \
    do {                                                                                           \
        long long wt_a = (long long)(actual), wt_e = (long long)(expected);                        \
        if (wt_a != wt_e)                                                                          \
            wt_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #actual, wt_a, #expected, wt_e); \
    } while (0)
#define WT_CHECK_STR(actual, expected)                                                             \
    do {                                                                                           \
        const char *wt_a = (actual), *wt_e = (expected);                                           \
        if (!wt_a || !wt_e || __builtin_strcmp(wt_a, wt_e))                                        \
            wt_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #actual, wt_a ? wt_a : "(null)", \
                    wt_e ? wt_e : "(null)");                                                       \
    } while (0)
#define WT_CHECK_MEM(actual, expected, bytes)                                                      \
    wt_check_mem(__FILE__, __LINE__, #actual, (actual), (expected), (bytes))
/* For files that include weft.h. */
#define WT_CHECK_STATUS(expr, expected)                                                            \
    do {                                                                                           \
        weft_status wt_a = (expr), wt_e = (expected);                                              \
        if (wt_a != wt_e)                                                                          \
            wt_fail(__FILE__, __LINE__, "%s returned %s, not %s", #expr, weft_status_name(wt_a),   \
                    weft_status_name(wt_e));                                                       \
    } while (0)
#define WT_CHECK_OK(expr) WT_CHECK_STATUS(expr, WEFT_SUCCESS)
#define WT_REQUIRE_OK(expr)                                                                        \
    do {                                                                                           \
        weft_status wt_r = (expr);                                                                 \
        if (wt_r != WEFT_SUCCESS) {                                                                \
            wt_fail(__FILE__, __LINE__, "%s returned %s", #expr, weft_status_name(wt_r));          \
            wt_rank_end();                                                                         \
        }                                                                                          \
    } while (0)
void wt_check_mem(const char *file, int line, const char *what, const void *actual, const void *expected,
                  size_t bytes);

/* Fails where one of the settings that the context was given is none. For programs linked with the library. */
struct weft_context;
void wt_check_settings(struct weft_context *context, const char *const *settings);

/* ---- Temporary things ---- */
/* A new directory, removed with everything in it when this process exits. Never NULL: exits with a message. */
const char *wt_temp_dir(void);
/* A directory that holds this one module of the build, as a user's plugin directory would; NULL: it could not be made. */
const char *wt_plugin_dir(const char *module);
/* A TCP port of 127.0.0.1 that was free a moment ago; -1 if none. Prefer inherited sockets. */
int wt_free_port(void);
/* Milliseconds, multiplied by $WEFT_TEST_SLOW. */
unsigned wt_slow_ms(unsigned ms);
uint64_t wt_now_ms(void);

#endif
