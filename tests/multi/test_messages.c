/* Messages that meet by tag, receives from any rank, probes.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { LONG = 40000 }; /* words: far beyond what is sent unasked */

static weft_request *send_tagged(struct ft_rank *f, const int64_t *src, size_t count, int peer, int64_t tag)
{
    weft_request *req = NULL;

    WT_REQUIRE_OK(weft_send(f->comm, src, count, WEFT_INT64, peer, tag, &req));
    return req;
}

static weft_request *recv_tagged(struct ft_rank *f, int64_t *dst, size_t count, int peer, int64_t tag)
{
    weft_request *req = NULL;

    WT_REQUIRE_OK(weft_recv(f->comm, dst, count, WEFT_INT64, peer, tag, &req));
    return req;
}

static void done(weft_request *req)
{
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
}

static void fill_words(int64_t *words, size_t count, int64_t seed)
{
    for (size_t i = 0; i < count; i++)
        words[i] = seed * 1000003 + (int64_t)i;
}

static int filled(const int64_t *words, size_t count, int64_t seed)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != seed * 1000003 + (int64_t)i)
            return 0;
    return 1;
}

/* ---- Two tags in the other order, short and long, the long one first or last ---- */

static void crossed(int rank, int nranks, void *arg)
{
    static const size_t counts[][2] = {{1, 1}, {0, 3}, {3, 0}, {1000, LONG}, {LONG, 1000}, {LONG, LONG}, {LONG, 1}};
    int64_t *a = calloc(LONG, 8), *b = calloc(LONG, 8);
    weft_request *r[2];
    struct ft_rank f;

    WT_REQUIRE(a && b);
    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int early = 0; early < 2; early++) { /* the receives come long after, or long before the messages */
            const size_t *n = counts[i];
            fill_words(a, n[0], rank == 0 ? 5 : -1);
            fill_words(b, n[1], rank == 0 ? 3 : -1);
            if (early != rank)
                WT_CHECK_OK(weft_barrier(f.comm, NULL));
            if (rank == 0) {
                r[0] = send_tagged(&f, a, n[0], 1, 5);
                r[1] = send_tagged(&f, b, n[1], 1, (int64_t)1 << 40);
            } else {
                r[0] = recv_tagged(&f, b, n[1], 0, (int64_t)1 << 40);
                r[1] = recv_tagged(&f, a, n[0], 0, 5);
            }
            if (early == rank)
                WT_CHECK_OK(weft_barrier(f.comm, NULL));
            done(r[0]);
            done(r[1]);
            WT_CHECK(filled(a, n[0], 5));
            WT_CHECK(filled(b, n[1], 3));
        }
    free(a);
    free(b);
    ft_close(&f);
}

/* ---- Many messages between all pairs, oneself included: the order of receives is each rank's own ---- */

enum { MANY = 120, TAGS = 7 };

static size_t many_words(int from, int to, int n)
{
    uint64_t h = (uint64_t)((from * 31 + to) * 1009 + n) * 0x9e3779b97f4a7c15ull >> 32;

    return h % 13 == 0 ? 2500 + h % 4000 : h % 5 == 0 ? 0 : 1 + h % 40;
}

static int64_t many_tag(int n)
{
    return n * 5 % TAGS; /* 0 among them */
}

/* The order of receives from one rank: tag after tag, the tags turned round by `turn`. */
static int many_place(int k, int turn)
{
    for (int t = 0; t < TAGS; t++)
        for (int n = 0; n < MANY; n++)
            if (many_tag(n) == (t + turn) % TAGS && k-- == 0)
                return n;
    return -1;
}

static void storm(int rank, int nranks, void *arg)
{
    int64_t *out = calloc(7000, 8), **in = calloc((size_t)nranks * MANY, sizeof *in);
    weft_request **reqs = calloc((size_t)nranks * MANY * 2, sizeof *reqs);
    size_t nreqs = 0;
    struct ft_rank f;

    WT_REQUIRE(out && in && reqs);
    ft_open(&f, arg, 20000, rank, nranks);
    fill_words(out, 7000, rank);
    WT_CHECK_OK(weft_group_start());
    for (int k = 0; k < MANY; k++)
        for (int p = 0; p < nranks; p++) {
            int n = many_place(k, rank + p + 1);
            int64_t **at = &in[p * MANY + n];
            *at = malloc(7000 * 8);
            WT_REQUIRE(*at != NULL);
            reqs[nreqs++] = send_tagged(&f, out, many_words(rank, p, k), p, many_tag(k));
            reqs[nreqs++] = recv_tagged(&f, *at, many_words(p, rank, n), p, many_tag(n));
        }
    WT_CHECK_OK(weft_group_end());
    WT_CHECK_OK(weft_wait_all(reqs, nreqs));
    for (size_t i = 0; i < nreqs; i++)
        WT_CHECK_OK(weft_request_free(reqs[i]));
    for (int i = 0; i < nranks * MANY; i++) {
        WT_CHECK(filled(in[i], many_words(i / MANY, rank, i % MANY), i / MANY));
        free(in[i]);
    }
    free(in);
    free(out);
    free(reqs);
    ft_close(&f);
}

/* ---- From any rank, with any tag ---- */

static void anybody(int rank, int nranks, void *arg)
{
    int64_t word = 0, *words = calloc(LONG, 8);
    int seen[16] = {0};
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    for (int round = 0; round < 20; round++) {
        int64_t tag = round % 4 == 0 ? 0 : round % 4; /* 0: messages without */
        size_t count = round % 5 == 4 ? LONG : 3;
        if (rank) {
            fill_words(words, count, rank);
            done(send_tagged(&f, words, count, 0, tag));
            WT_CHECK_OK(weft_recv(f.comm, &word, 0, WEFT_INT64, 0, 0, NULL)); /* rounds do not mix */
            continue;
        }
        memset(seen, 0, sizeof seen);
        for (int i = 1; i < nranks; i++) {
            weft_message m = WEFT_MESSAGE_INIT;
            weft_request *r = recv_tagged(&f, words, count, WEFT_ANY_SOURCE, round % 2 ? WEFT_ANY_TAG : tag);
            WT_CHECK_OK(weft_wait(r));
            WT_CHECK_OK(weft_request_message(r, &m));
            WT_CHECK_OK(weft_request_free(r));
            WT_CHECK(m.source > 0 && m.source < nranks && !seen[m.source]++);
            WT_CHECK_INT((int)m.tag, (int)tag);
            WT_CHECK_INT((int)m.count, (int)count);
            WT_CHECK(filled(words, count, m.source));
        }
        for (int i = 1; i < nranks; i++)
            WT_CHECK_OK(weft_send(f.comm, &word, 0, WEFT_INT64, i, 0, NULL));
    }
    free(words);
    ft_close(&f);
}

/* A receive from any rank keeps its place before later ones, which name the rank. */
static void in_order(int rank, int nranks, void *arg)
{
    enum { N = 6 };
    weft_request *r[N];
    int64_t got[N] = {0};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int own = 0; own < 2; own++)
        for (int64_t tag = 0; tag < 2; tag++) {
            int from = own ? rank : 1 - rank;
            for (int i = 0; i < N; i++) /* a b * b * b */
                r[i] = recv_tagged(&f, &got[i], 1, i % 2 == 0 && i ? WEFT_ANY_SOURCE : from,
                                   i == 4 && own ? WEFT_ANY_TAG : tag);
            WT_CHECK_OK(weft_barrier(f.comm, NULL));
            for (int64_t i = 0; i < N; i++) {
                WT_CHECK_OK(weft_send(f.comm, &i, 1, WEFT_INT64, from, tag, NULL));
            }
            for (int i = 0; i < N; i++) {
                done(r[i]);
                WT_CHECK_INT((int)got[i], i);
            }
        }
    WT_CHECK_OK(weft_barrier(f.comm, NULL)); /* who has left sends nothing */
    ft_close(&f);
}

/* ---- More than there is memory for ---- */

static void flood(int rank, int nranks, void *arg)
{
    enum { N = 400, WORDS = 128 };
    int64_t(*words)[WORDS] = calloc(N, sizeof *words), last = rank ? 0 : 77;
    weft_request *r[N], *after;
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    if (rank == 0) {
        for (int i = 0; i < N; i++) {
            fill_words(words[i], WORDS, i);
            r[i] = send_tagged(&f, words[i], WORDS, 1, 1);
        }
        after = send_tagged(&f, &last, 1, 1, 2);
        for (int i = 0; i < N; i++)
            done(r[i]);
    } else {
        weft_status st;
        after = recv_tagged(&f, &last, 1, 0, 2);
        st = weft_wait_for(after, 50 * FT_MS);
        WT_CHECK(st == WEFT_INPROGRESS); /* 400 KiB do not fit 64 */
        for (int i = 0; i < N; i++) {
            done(recv_tagged(&f, words[i], WORDS, 0, 1));
            WT_CHECK(filled(words[i], WORDS, i));
        }
    }
    done(after);
    WT_CHECK_INT((int)last, 77);
    free(words);
    ft_close(&f);
}

/* Long messages are only announced: they fill nothing. */
static void offers(int rank, int nranks, void *arg)
{
    enum { N = 60 };
    int64_t *words = calloc(LONG, 8), last = 0;
    weft_request *r[N];
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    if (rank == 0) {
        fill_words(words, LONG, 9);
        for (int i = 0; i < N; i++)
            r[i] = send_tagged(&f, words, LONG - (size_t)i, 1, 10 + i);
        last = 5;
        done(send_tagged(&f, &last, 1, 1, 2));
        for (int i = 0; i < N; i++)
            done(r[i]);
    } else {
        done(recv_tagged(&f, &last, 1, 0, 2));
        WT_CHECK_INT((int)last, 5);
        for (int i = N - 1; i >= 0; i--) {
            done(recv_tagged(&f, words, LONG - (size_t)i, 0, 10 + i));
            WT_CHECK(filled(words, LONG - (size_t)i, 9));
        }
    }
    free(words);
    ft_close(&f);
}

static void memory_is_full(int rank, int nranks, void *arg)
{
    enum { N = 400, WORDS = 128 };
    int64_t *words = calloc(WORDS, 8), last = 0;
    struct ft_rank f;
    weft_error e;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    if (rank == 0) {
        for (int i = 0; i < N; i++)
            send_tagged(&f, words, WORDS, 1, 1);
        WT_CHECK(weft_wait(send_tagged(&f, &last, 1, 1, 2)) < 0);
    } else {
        weft_call_options o = WEFT_CALL_OPTIONS_INIT;
        weft_call call = wt_call(WEFT_KIND_RECV, NULL, &last, 1, WEFT_INT64);
        o.timeout_ns = 200 * FT_MS;
        call.tag = 2;
        call.options = &o;
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
        e = ft_error(&f);
        WT_CHECK(strstr(e.message, "WEFT_COMM_EARLY_BYTES") && strstr(e.message, "tag 2"));
    }
    free(words);
    ft_close(&f);
}

/* ---- Probes ---- */

static void probes(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(LONG, 8), one = 1;
    weft_message m = WEFT_MESSAGE_INIT;
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    WT_CHECK_STATUS(weft_probe(f.comm, WEFT_ANY_SOURCE, WEFT_ANY_TAG, 0, &m), WEFT_INPROGRESS);
    WT_CHECK_STATUS(weft_probe(f.comm, 1 - rank, 3, 20 * FT_MS, &m), WEFT_INPROGRESS);
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    if (rank == 0) {
        fill_words(words, LONG, 4);
        weft_request *r = send_tagged(&f, words, LONG, 1, 6);
        done(send_tagged(&f, words, 17, 1, 3));
        WT_CHECK_OK(weft_send(f.comm, &one, 1, WEFT_INT64, 1, 0, NULL));
        done(r);
    } else {
        WT_CHECK_OK(weft_probe(f.comm, 0, 0, WEFT_TIMEOUT_NEVER, &m));
        WT_CHECK(m.source == 0 && m.tag == 0 && m.count == 1 && m.dtype == WEFT_INT64);
        WT_CHECK_OK(weft_recv(f.comm, &one, 1, WEFT_INT64, 0, 0, NULL));
        WT_CHECK_OK(weft_probe(f.comm, WEFT_ANY_SOURCE, 3, WEFT_TIMEOUT_NEVER, &m));
        WT_CHECK(m.source == 0 && m.tag == 3 && m.count == 17);
        WT_CHECK_OK(weft_probe(f.comm, WEFT_ANY_SOURCE, WEFT_ANY_TAG, WEFT_TIMEOUT_NEVER, &m));
        WT_CHECK(m.source == 0 && m.tag == 6 && m.count == LONG); /* the older one */
        done(recv_tagged(&f, words, m.count, m.source, m.tag));
        WT_CHECK(filled(words, LONG, 4));
        done(recv_tagged(&f, words, 17, 0, 3));
        WT_CHECK(filled(words, 17, 4));
        WT_CHECK_STATUS(weft_probe(f.comm, 0, WEFT_ANY_TAG, 0, &m), WEFT_INPROGRESS);
    }
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    free(words);
    ft_close(&f);
}

/* ---- Persistent, exchanges, blocking ---- */

static void forms(int rank, int nranks, void *arg)
{
    weft_message m = WEFT_MESSAGE_INIT;
    int64_t out = rank, in = -1;
    weft_request *send, *recv, *self;
    weft_call call;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call = wt_call(WEFT_KIND_SEND, &out, NULL, 1, WEFT_INT64);
    call.tag = 4;
    call.peer = 1 - rank;
    WT_CHECK_OK(weft_persistent(f.comm, &call, &send));
    call = wt_call(WEFT_KIND_RECV, NULL, &in, 1, WEFT_INT64);
    call.tag = 4;
    call.peer = WEFT_ANY_SOURCE;
    WT_CHECK_OK(weft_persistent(f.comm, &call, &recv));
    for (int i = 0; i < 50; i++) {
        out = rank * 100 + i;
        WT_CHECK_OK(weft_start(recv));
        WT_CHECK_OK(weft_start(send));
        WT_CHECK_OK(weft_wait(send));
        WT_CHECK_OK(weft_wait(recv));
        WT_CHECK_INT((int)in, (1 - rank) * 100 + i);
    }
    WT_CHECK_OK(weft_request_free(send));
    WT_CHECK_OK(weft_request_free(recv));
    WT_CHECK_OK(weft_send_recv(f.comm, &out, 1, 1 - rank, 8, &in, 1, 1 - rank, 8, WEFT_INT64, NULL));
    WT_CHECK_INT((int)in, (1 - rank) * 100 + 49);
    /* Each half has a tag of its own. */
    in = -1;
    WT_CHECK_OK(weft_send_recv(f.comm, &out, 1, 1 - rank, 20 + rank, &in, 1, 1 - rank, 21 - rank, WEFT_INT64, NULL));
    WT_CHECK_INT((int)in, (1 - rank) * 100 + 49);
    in = -1;
    WT_CHECK_OK(
        weft_send_recv(f.comm, &out, 1, 1 - rank, 30 + rank, &in, 1, WEFT_ANY_SOURCE, WEFT_ANY_TAG, WEFT_INT64, &self));
    WT_CHECK_OK(weft_wait(self));
    WT_CHECK_OK(weft_request_message(self, &m));
    WT_CHECK(m.source == 1 - rank && m.tag == 31 - rank && in == (1 - rank) * 100 + 49);
    WT_CHECK_OK(weft_request_free(self));
    self = send_tagged(&f, &out, 1, rank, 12);
    WT_CHECK_OK(weft_recv(f.comm, &in, 1, WEFT_INT64, WEFT_ANY_SOURCE, 12, NULL));
    WT_CHECK(in == out);
    done(self);
    ft_close(&f);
}

/* A request that is used again knows nothing of the message before: it had a tag, this one has none. */
static void used_again(int rank, int nranks, void *arg)
{
    static const int64_t tags[] = {30, 0, 31, 0};
    weft_message m = WEFT_MESSAGE_INIT;
    int64_t out = rank, in = -1;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        WT_CHECK_OK(weft_send_recv(f.comm, &out, 1, 1 - rank, tags[i], &in, 1, 1 - rank, tags[i], WEFT_INT64, &req));
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_message(req, &m));
        WT_CHECK(m.source == 1 - rank && m.count == 1 && m.dtype == WEFT_INT64);
        WT_CHECK_INT(m.tag, tags[i]);
        WT_CHECK_OK(weft_request_free(req));
    }
    ft_close(&f);
}

/* Messages by which the library derives a communicator do not meet the program's receives. */
static void derived(int rank, int nranks, void *arg)
{
    int64_t in = -1, out = 40 + rank;
    weft_comm *dup = NULL;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    req = recv_tagged(&f, &in, 1, 1 - rank, 0);
    WT_CHECK_OK(weft_comm_dup(f.comm, NULL, &dup));
    WT_CHECK_OK(weft_send(f.comm, &out, 1, WEFT_INT64, 1 - rank, 0, NULL));
    done(req);
    WT_CHECK_INT(in, 41 - rank);
    WT_CHECK_OK(weft_comm_destroy(dup));
    ft_close(&f);
}

/* What a dump says of the messages is that no algorithm was chosen for them. */
static void recorded(int rank, int nranks, void *arg)
{
    char path[64], line[4096];
    int64_t out = rank, got = -1;
    int messages = 0;
    struct ft_rank f;
    FILE *in;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int64_t tag = 0; tag < 2; tag++)
        WT_CHECK_OK(weft_send_recv(f.comm, &out, 1, 1 - rank, tag, &got, 1, 1 - rank, tag, WEFT_INT64, NULL));
    snprintf(path, sizeof path, "/tmp/weft-messages-%d-%d.json", (int)getpid(), rank);
    WT_REQUIRE_OK(weft_comm_dump(f.comm, path));
    in = fopen(path, "r");
    WT_REQUIRE(in != NULL);
    while (fgets(line, sizeof line, in))
        messages += strstr(line, "\"algorithm\": \"p2p\"") && strstr(line, "\"state\": \"completed\"") &&
                    strstr(line, "\"count\": 1, \"dtype\": \"int64\"");
    fclose(in);
    unlink(path);
    WT_CHECK_INT(messages, 4);
    ft_close(&f);
}

/* ---- Disagreement, misuse, the dead ---- */

static void disagree(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(LONG + 1, 8);
    const char *said;
    char sent[64];
    struct ft_rank f;
    weft_error e;

    WT_REQUIRE(words != NULL);
    for (int i = 0; i < 8; i++) {
        size_t count = i & 1 ? LONG : 4, wanted = i & 2 ? count + 1 : count - 1;
        int64_t tag = i & 4 ? 5 : 0;
        ft_open(&f, arg, 20000, rank, nranks);
        if (rank == 0) {
            weft_status st = weft_send(f.comm, words, count, WEFT_INT64, 1, tag, NULL);
            WT_CHECK(st >= 0 ? !tag || count != LONG : st <= WEFT_EPEER);
        } else {
            WT_CHECK_STATUS(weft_recv(f.comm, words, wanted, WEFT_INT64, 0, tag, NULL), WEFT_EMISMATCH);
            e = ft_error(&f);
            WT_CHECK_INT(e.peer, 0);
            WT_CHECK_STR(e.operation, "recv");
            said = strstr(e.message, "rank 0 called send");
            snprintf(sent, sizeof sent, "(%zu int64%s", count, tag ? ", tag 5" : ")");
            if (!said || !strstr(said, sent))
                wt_fail(__FILE__, __LINE__, "no \"%s\": %s", sent, e.message);
        }
        wt_sync();
        ft_close(&f);
    }
    free(words);
}

/* A message whose time is up names the other rank, which does nothing: short or long, with a tag or without. */
static void unanswered(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(LONG, 8);
    struct ft_rank f;
    weft_error e;

    WT_REQUIRE(words != NULL);
    for (int i = 0; i < 4; i++) {
        int64_t tag = i & 1;
        int sending = i & 2;
        ft_open(&f, arg, 20000, rank, nranks);
        wt_sync();
        if (rank == 0) {
            WT_CHECK_OK(weft_comm_set_timeout(f.comm, 200 * FT_MS));
            WT_CHECK_STATUS(sending ? weft_send(f.comm, words, LONG, WEFT_INT64, 2, tag, NULL)
                                    : weft_recv(f.comm, words, 1, WEFT_INT64, 2, tag, NULL),
                            WEFT_ETIMEDOUT);
            e = ft_error(&f);
            WT_CHECK_INT(e.peer, 2);
            WT_CHECK_STR(e.operation, sending ? "send" : "recv");
            WT_CHECK(strstr(e.message, "rank 2 on host") != NULL);
        }
        wt_sync();
        ft_close(&f);
    }
    free(words);
}

/* Ranks that have only exchanged messages tell each other of failures: rank 0 gives up because of rank 2, rank 1 waits for rank 0
 * and hears of it at once. */
static void told(int rank, int nranks, void *arg)
{
    weft_request *req;
    struct ft_rank f;
    uint64_t began;
    int64_t word;

    ft_create(&f, arg, rank ? 20000 : 300, rank, nranks);
    wt_sync();
    if (rank == 0) {
        req = recv_tagged(&f, &word, 1, 1, 0);
        WT_CHECK_STATUS(weft_recv(f.comm, &word, 1, WEFT_INT64, 2, 0, NULL), WEFT_ETIMEDOUT);
        WT_CHECK_STATUS(weft_wait(req), WEFT_ETIMEDOUT);
    } else if (rank == 1) {
        began = wt_now_ms();
        WT_CHECK(weft_recv(f.comm, &word, 1, WEFT_INT64, 0, 0, NULL) < 0);
        WT_CHECK(wt_now_ms() - began < wt_slow_ms(5000));
        WT_CHECK(strstr(ft_error(&f).message, "gave up") != NULL);
    }
    wt_sync();
    ft_close(&f);
}

#define BAD(call, text)                                      \
    do {                                                     \
        WT_CHECK_STATUS(call, WEFT_EINVAL);                  \
        WT_CHECK(strstr(weft_thread_error(), text) != NULL); \
    } while (0)

static void misuse(int rank, int nranks, void *arg)
{
    weft_message m = WEFT_MESSAGE_INIT, short_one = {.bytes = 3};
    int64_t word = 3, sum;
    weft_call call;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    BAD(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, -2, NULL), "tag -2");
    BAD(weft_recv(f.comm, &word, 1, WEFT_INT64, 1 - rank, -2, NULL), "tag -2");
    BAD(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, WEFT_ANY_TAG, NULL), "ANY_TAG");
    BAD(weft_send_recv(f.comm, &word, 1, 1 - rank, WEFT_ANY_TAG, &sum, 1, 1 - rank, 0, WEFT_INT64, NULL), "ANY_TAG");
    BAD(weft_send_recv(f.comm, &word, 1, 1 - rank, 0, &sum, 1, 1 - rank, -3, WEFT_INT64, NULL), "tag -3");
    BAD(weft_send(f.comm, &word, 1, WEFT_INT64, WEFT_ANY_SOURCE, 0, NULL), "peer");
    BAD(weft_recv(f.comm, &word, 1, WEFT_INT64, -2, 0, NULL), "-2");
    BAD(weft_send_recv(f.comm, &word, 1, WEFT_ANY_SOURCE, 0, &sum, 1, 1 - rank, 0, WEFT_INT64, NULL), "dst_peer");
    BAD(weft_send_recv(f.comm, &word, 1, 1 - rank, 0, &sum, 1, -2, 0, WEFT_INT64, NULL), "src_peer");
    call = wt_call(WEFT_KIND_ALL_REDUCE, &word, &sum, 1, WEFT_INT64);
    call.tag = 3;
    BAD(weft_issue(f.comm, &call, NULL), "all_reduce has no tag");
    BAD(weft_probe(f.comm, nranks, 0, 0, &m), "rank");
    BAD(weft_probe(f.comm, 0, -2, 0, &m), "-2");
    BAD(weft_probe(f.comm, 0, 0, 0, NULL), "message");
    BAD(weft_probe(f.comm, 0, 0, 0, &short_one), "WEFT_MESSAGE_INIT");
    BAD(weft_probe(NULL, 0, 0, 0, &m), "communicator");
    BAD(weft_request_message(NULL, &m), "request");
    WT_CHECK_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, 0, &req));
    BAD(weft_request_message(req, &m), "send");
    WT_CHECK_OK(weft_recv(f.comm, &sum, 1, WEFT_INT64, 1 - rank, 0, NULL));
    done(req);
    req = recv_tagged(&f, &sum, 1, 1 - rank, 9);
    BAD(weft_request_message(req, &short_one), "WEFT_MESSAGE_INIT");
    WT_CHECK_STATUS(weft_request_message(req, &m), WEFT_INPROGRESS);
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    WT_CHECK_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, 9, NULL));
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_message(req, &m));
    WT_CHECK(m.source == 1 - rank && m.tag == 9 && m.count == 1);
    WT_CHECK_OK(weft_request_free(req));
    WT_CHECK_OK(weft_all_reduce(f.comm, &word, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
    ft_close(&f);
}

/* Rank 0 has sent what nobody wanted yet, short and long, and dies. */
static void orphans(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(LONG, 8);
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    ft_open(&f, arg, 20000, rank, nranks);
    if (rank == 0) {
        for (int i = 0; i < 50; i++)
            send_tagged(&f, words, i % 10 ? 20 : LONG, 1, 100 + i);
        done(send_tagged(&f, words, 1, 1, 7));
        WT_CHECK_OK(weft_recv(f.comm, words, 1, WEFT_INT64, 1, 0, NULL));
        raise(SIGKILL);
    } else {
        uint64_t began;
        WT_CHECK_OK(weft_recv(f.comm, words, 1, WEFT_INT64, 0, 7, NULL)); /* the others are put aside */
        WT_CHECK_OK(weft_send(f.comm, words, 1, WEFT_INT64, 0, 0, NULL));
        began = wt_now_ms();
        WT_CHECK_STATUS(weft_recv(f.comm, words, 1, WEFT_INT64, WEFT_ANY_SOURCE, 8, NULL), WEFT_EPEER);
        WT_CHECK(wt_now_ms() - began < wt_slow_ms(3000));
        WT_CHECK_INT(ft_error(&f).peer, 0);
    }
    free(words);
    ft_close(&f);
}

/* All others leave in good order: no rank is left that could send. */
static void deserted(int rank, int nranks, void *arg)
{
    int64_t word = 1;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    if (rank) {
        WT_CHECK_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 0, 3, NULL));
        ft_close(&f);
        return;
    }
    for (int i = 1; i < nranks; i++)
        WT_CHECK_OK(weft_recv(f.comm, &word, 1, WEFT_INT64, WEFT_ANY_SOURCE, 3, NULL));
    WT_CHECK_STATUS(weft_recv(f.comm, &word, 1, WEFT_INT64, WEFT_ANY_SOURCE, 3, NULL), WEFT_EPEER);
    ft_close(&f);
}

/* ---- The program ---- */

static void everywhere(int nranks, wt_rank_fn fn, const char *what)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(nranks, fn, what, 30000), 0);
}

static void with_little_memory(wt_rank_fn fn, const char *what)
{
    setenv("WEFT_COMM_EARLY_BYTES", "64K", 1);
    everywhere(2, fn, what);
    unsetenv("WEFT_COMM_EARLY_BYTES");
}

#define CASE(name, nranks)               \
    static void run_##name(void)         \
    {                                    \
        everywhere(nranks, name, #name); \
    }
CASE(crossed, 2)
CASE(storm, 3)
CASE(anybody, 4)
CASE(in_order, 2)
CASE(probes, 2)
CASE(forms, 2)
CASE(used_again, 2)
CASE(derived, 2)
CASE(recorded, 2)
CASE(disagree, 2)
CASE(unanswered, 3)
CASE(told, 3)
CASE(misuse, 2)
CASE(deserted, 3)

static void run_flood(void)
{
    with_little_memory(flood, "flood");
}

static void run_offers(void)
{
    with_little_memory(offers, "offers");
}

static void run_memory_is_full(void)
{
    with_little_memory(memory_is_full, "memory is full");
}

static void run_orphans(void)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int i = 0; i < 2; i++) {
        struct wt_job *job = wt_job_start(2, orphans, (void *)(uintptr_t)transports[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        wt_job_expect_signal(job, 0, SIGKILL);
        CU_ASSERT_EQUAL(wt_job_wait(job, 30000), 0);
    }
}

static const struct wt_case cases[] = {
    {"two tags in the other order", run_crossed},
    {"many tags between all pairs", run_storm},
    {"from any rank, with any tag", run_anybody},
    {"a receive from any rank keeps its place", run_in_order},
    {"more early messages than there is memory for", run_flood},
    {"long messages are only announced", run_offers},
    {"a receive behind full memory says so", run_memory_is_full},
    {"probes", run_probes},
    {"persistent, exchanged, to oneself", run_forms},
    {"a request that is used again", run_used_again},
    {"a receive while a communicator is derived", run_derived},
    {"messages in the flight recorder", run_recorded},
    {"counts that differ", run_disagree},
    {"the rank that does not answer is named", run_unanswered},
    {"ranks that only exchange messages hear of failures", run_told},
    {"wrong use", run_misuse},
    {"the sender of early messages dies", run_orphans},
    {"everybody else has left", run_deserted},
};
WT_UNIT_MAIN("messages", cases)
