/* Messages and operations that are pending while others end: their order, their memory, their deadlines, and who is named.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

/* ---- Messages that no receive has taken yet ---- */

/* Of messages from several ranks that wait for a receive the oldest is found first, whichever rank sent it. */
static void oldest_first(int rank, int nranks, void *arg)
{
    weft_message m = WEFT_MESSAGE_INIT;
    int64_t word = rank, got;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int first = 0; first < nranks - 1; first++) {
        for (int i = 0; i < nranks - 1; i++) {
            int from = (first + i) % (nranks - 1) + 1;
            if (rank == from)
                WT_CHECK_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 0, 5, NULL));
            if (rank == 0)
                WT_CHECK_OK(weft_probe(f.comm, from, 5, WEFT_TIMEOUT_NEVER, &m));
            wt_sync();
        }
        for (int i = 0; rank == 0 && i < nranks - 1; i++) {
            int from = (first + i) % (nranks - 1) + 1;
            WT_CHECK_OK(weft_probe(f.comm, WEFT_ANY_SOURCE, WEFT_ANY_TAG, 0, &m));
            WT_CHECK_INT(m.source, from);
            got = -1;
            WT_CHECK_OK(weft_recv(f.comm, &got, 1, WEFT_INT64, WEFT_ANY_SOURCE, 5, NULL));
            WT_CHECK_INT(got, from);
        }
        wt_sync();
    }
    ft_close(&f);
}

/* What is received gives back all of its memory: many times as many messages as there is memory for, a few at a time. */
static void given_back(int rank, int nranks, void *arg)
{
    enum { ROUNDS = 700, WORDS = 100 };
    int64_t words[WORDS] = {0}, last = 0;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < ROUNDS; i++) {
        size_t count = (size_t)(i % 2) * WORDS;
        if (rank == 0) {
            for (size_t k = 0; k < count; k++)
                words[k] = i + (int64_t)k;
            WT_REQUIRE_OK(weft_send(f.comm, words, count, WEFT_INT64, 1, 1, NULL));
            last = i;
            WT_REQUIRE_OK(weft_send(f.comm, &last, 1, WEFT_INT64, 1, 2, NULL));
        } else {
            WT_REQUIRE_OK(weft_recv(f.comm, &last, 1, WEFT_INT64, 0, 2, NULL));
            WT_CHECK_INT(last, i);
            WT_REQUIRE_OK(weft_recv(f.comm, words, count, WEFT_INT64, 0, 1, NULL));
            for (size_t k = 0; k < count; k++)
                WT_CHECK_INT(words[k], i + (int64_t)k);
        }
    }
    ft_close(&f);
}

/* ---- Receives that nothing has come for ---- */

static void count_one(weft_status status, void *arg)
{
    WT_CHECK_STATUS(status, WEFT_SUCCESS);
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Of many receives the last one ends first, and nobody waits for it. */
static void behind_many(int rank, int nranks, void *arg)
{
    enum { N = 300 };
    int64_t words[N];
    weft_request *r[N];
    atomic_int told = 0;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < N; i++) {
        words[i] = rank ? -1 : 1000 + i;
        if (rank)
            WT_REQUIRE_OK(weft_recv(f.comm, &words[i], 1, WEFT_INT64, 0, i + 1, &r[i]));
    }
    if (rank) {
        uint64_t until = wt_now_ms() + wt_slow_ms(5000);
        WT_CHECK_OK(weft_request_on_complete(r[N - 1], count_one, &told));
        wt_sync();
        while (!atomic_load(&told) && wt_now_ms() < until)
            usleep(500);
        WT_CHECK_INT(atomic_load(&told), 1);
        WT_CHECK_INT(words[N - 1], 1000 + N - 1);
        WT_CHECK_INT(words[0], -1);
    } else {
        wt_sync();
        WT_CHECK_OK(weft_send(f.comm, &words[N - 1], 1, WEFT_INT64, 1, N, NULL));
    }
    wt_sync();
    for (int i = 0; i < N; i++) {
        if (!rank && i < N - 1)
            WT_CHECK_OK(weft_send(f.comm, &words[i], 1, WEFT_INT64, 1, i + 1, NULL));
        if (!rank)
            continue;
        WT_CHECK_OK(weft_wait(r[i]));
        WT_CHECK_INT(words[i], 1000 + i);
        WT_CHECK_OK(weft_request_free(r[i]));
    }
    ft_close(&f);
}

/* ---- Deadlines ---- */

/* A root that only sends: the rank that does not take it is named. */
static void not_taken(int rank, int nranks, void *arg)
{
    enum { WORDS = 4 << 20 }; /* more than a socket or a channel holds */
    int64_t *words = calloc(WORDS, 8);
    struct ft_rank f;
    weft_error e;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    wt_sync();
    if (rank == 0) {
        WT_CHECK_OK(weft_comm_set_timeout(f.comm, 500 * FT_MS));
        WT_CHECK_STATUS(wt_issue(f.comm, wt_call(WEFT_KIND_BROADCAST, words, words, WORDS, WEFT_INT64), "chain", NULL),
                        WEFT_ETIMEDOUT);
        e = ft_error(&f);
        WT_CHECK_INT(e.peer, 1);
        WT_CHECK(strstr(e.message, "for rank 1 on host") != NULL);
    }
    wt_sync();
    free(words);
    ft_close(&f);
}

/* A deadline counts from the issue, also where nothing is called for most of that time. */
static void since_issue(int rank, int nranks, void *arg)
{
    uint64_t began, ended;
    weft_request *req;
    struct ft_rank f;
    int64_t word;

    ft_open(&f, arg, 20000, rank, nranks);
    wt_sync();
    if (rank == 0) {
        WT_CHECK_OK(weft_comm_set_timeout(f.comm, wt_slow_ms(1000) * FT_MS));
        began = wt_now_ms();
        WT_REQUIRE_OK(weft_recv(f.comm, &word, 1, WEFT_INT64, 1, 3, &req));
        while (wt_now_ms() - began < wt_slow_ms(900))
            usleep(10000);
        WT_CHECK_STATUS(weft_wait(req), WEFT_ETIMEDOUT);
        ended = wt_now_ms() - began;
        WT_CHECK(ended >= wt_slow_ms(1000) && ended < wt_slow_ms(1800));
    }
    wt_sync();
    ft_close(&f);
}

/* ---- The program ---- */

static void everywhere(int nranks, wt_rank_fn fn, const char *what)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(nranks, fn, what, 30000), 0);
}

static void run_oldest_first(void)
{
    everywhere(4, oldest_first, "oldest_first");
}

static void run_given_back(void)
{
    setenv("WEFT_COMM_EARLY_BYTES", "64K", 1);
    everywhere(2, given_back, "given_back");
    unsetenv("WEFT_COMM_EARLY_BYTES");
}

static void run_behind_many(void)
{
    everywhere(2, behind_many, "behind_many");
}

static void run_not_taken(void)
{
    everywhere(2, not_taken, "not_taken");
}

static void run_since_issue(void)
{
    setenv("WEFT_PROGRESS_THREAD", "n", 1); /* which looks at what nobody waits for */
    everywhere(2, since_issue, "since_issue");
    unsetenv("WEFT_PROGRESS_THREAD");
}

static const struct wt_case cases[] = {
    {"the oldest message from any rank comes first", run_oldest_first},
    {"memory of early messages is given back", run_given_back},
    {"a receive behind many that nothing has come for", run_behind_many},
    {"a root that only sends names who does not receive", run_not_taken},
    {"a deadline counts from the issue", run_since_issue},
};
WT_UNIT_MAIN("pending", cases)
