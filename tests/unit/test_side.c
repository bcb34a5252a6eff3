/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel between two contexts of one process, and what comes between them: peers that are silent, gone, strangers, and a
 * relay that changes bytes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/side.h"
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"

#define RANKS 2

struct world {
    struct wi_side *side[RANKS];
    struct wi_side_group *group[RANKS];
    struct wi_auth_seen *seen[RANKS];
    unsigned char address[RANKS][WI_SIDE_ADDRESS_MAX];
    size_t address_bytes[RANKS];
    int other_key; /* that rank has another one; -1 */
};

static struct world *world_of_rank[RANKS];

static int find_key(void *arg, const void *claim, size_t bytes, struct wi_auth_key *key)
{
    int rank = (int)(intptr_t)arg;

    (void)claim, (void)bytes;
    memset(key, world_of_rank[rank]->other_key == rank ? 8 : 7, sizeof *key);
    return 1;
}

static size_t address_of(void *arg, int rank, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    const struct world *w = arg;

    memcpy(address, w->address[rank], w->address_bytes[rank]);
    return w->address_bytes[rank];
}

static const char *host_of(void *arg, int rank)
{
    (void)arg;
    return rank ? "node-b" : "node-a";
}

static void open_group(struct world *w, int rank, const char *transport, uint64_t timeout_ns)
{
    struct wi_side_group_config config = {.transport = transport,
                                          .comm_id = {5, 6},
                                          .rank = rank,
                                          .nranks = RANKS,
                                          .timeout_ns = timeout_ns,
                                          .address_of = address_of,
                                          .host_of = host_of,
                                          .arg = w};

    CU_ASSERT_EQUAL_FATAL(wi_side_open(w->side[rank], &config, &w->group[rank]), WEFT_SUCCESS);
}

static void world_open(struct world *w, int other_key, uint64_t timeout_ns)
{
    memset(w, 0, sizeof *w);
    w->other_key = other_key;
    for (int r = 0; r < RANKS; r++) {
        struct wi_side_config config = {find_key, (void *)(intptr_t)r, w->seen[r] = wi_auth_seen_create()};
        world_of_rank[r] = w;
        CU_ASSERT_EQUAL_FATAL(wi_side_create(&config, &w->side[r]), WEFT_SUCCESS);
        w->address_bytes[r] = wi_side_address(w->side[r], w->address[r]);
        CU_ASSERT_FATAL(w->address_bytes[r] > 0);
        open_group(w, r, "card", timeout_ns);
    }
}

static void world_close(struct world *w)
{
    for (int r = 0; r < RANKS; r++) {
        wi_side_close(w->group[r]);
        wi_side_destroy(w->side[r]);
        wi_auth_seen_destroy(w->seen[r]);
    }
}

/* Until its descriptor says that there are news. */
static int news(const struct world *w, int rank)
{
    struct pollfd fd = {.fd = wi_side_fd(w->group[rank]), .events = POLLIN};

    return poll(&fd, 1, (int)wt_slow_ms(10000)) == 1;
}

struct told {
    weft_status status;
    size_t bytes;
    unsigned char data[WEFT_SIDE_MAX];
    char why[WEFT_SIDE_WHY_MAX];
};

static void hear(struct world *w, int rank, size_t capacity, struct told *t)
{
    memset(t, 0, sizeof *t);
    do {
        CU_ASSERT_FATAL(news(w, rank));
        t->status = wi_side_answer(w->group[rank], 1 - rank, t->data, capacity, &t->bytes, t->why);
    } while (t->status == WEFT_INPROGRESS);
}

/* Waits for a question and answers it with the same bytes. */
static void echo(struct world *w, int rank)
{
    unsigned char question[WEFT_SIDE_MAX];
    size_t bytes = 0;
    int peer = -1;

    while (!wi_side_asked(w->group[rank], &peer, question, sizeof question, &bytes))
        CU_ASSERT_FATAL(news(w, rank));
    CU_ASSERT_EQUAL(peer, 1 - rank);
    CU_ASSERT_EQUAL(wi_side_reply(w->group[rank], peer, question, bytes), WEFT_SUCCESS);
}

static void fails_with(struct told *t, weft_status status, const char *text)
{
    if (t->status != status || !strstr(t->why, text))
        printf("# %s: %s\n", weft_status_name(t->status), t->why);
    CU_ASSERT_EQUAL(t->status, status);
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, text));
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, "rank 1 on host node-b"));
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, "transport card"));
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), t->why);
}

/* ---- Cases ---- */

static void asks_and_answers(void)
{
    static const size_t sizes[] = {0, 1, 63, 1000, WEFT_SIDE_MAX};
    unsigned char data[WEFT_SIDE_MAX];
    struct world w;
    struct told t;

    world_open(&w, -1, 20000000000ull);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (unsigned char)(k * 3 + i);
        CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, data, sizes[i]), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, data, 1), WEFT_EBUSY);
        echo(&w, 1);
        hear(&w, 0, sizeof t.data, &t);
        CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(t.bytes, sizes[i]);
        CU_ASSERT(memcmp(t.data, data, sizes[i]) == 0);
    }
    world_close(&w);
}

/* Both ask each other at once. */
static void both_ask(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, 20000000000ull);
    for (int round = 0; round < 20; round++) {
        CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "a", 1), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_side_ask(w.group[1], 0, "b", 1), WEFT_SUCCESS);
        echo(&w, 0);
        echo(&w, 1);
        for (int r = 0; r < RANKS; r++) {
            hear(&w, r, 16, &t);
            CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 1 && t.data[0] == (r ? 'b' : 'a'));
        }
    }
    world_close(&w);
}

static void wrong_calls(void)
{
    unsigned char large[WEFT_SIDE_MAX + 1] = {0};
    char why[WEFT_SIDE_WHY_MAX];
    struct world w;
    size_t bytes;
    int peer;

    world_open(&w, -1, 20000000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, large, sizeof large), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "4097 bytes"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "at most 4096"));
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 2, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], -1, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 0, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_answer(w.group[0], 1, large, 1, &bytes, why), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_asked(w.group[0], &peer, large, sizeof large, &bytes), 0);
    CU_ASSERT_EQUAL(wi_side_reply(w.group[0], 1, large, 1), WEFT_EPEER);
    CU_ASSERT_EQUAL(wi_side_reply(w.group[0], 1, large, sizeof large), WEFT_EINVAL);
    world_close(&w);
}

static void answer_too_long(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, 20000000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "hello", 5), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPROTO, "5 bytes, there is room for 4");
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "hell", 4), WEFT_SUCCESS); /* again */
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    world_close(&w);
}

/* It is there, and nobody looks. */
static void silent_peer(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, 300000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ETIMEDOUT, "did not answer within 0.3 s (asked)");
    world_close(&w);
}

static void peer_that_left(void)
{
    struct world w;
    struct told t;
    unsigned char question[8];
    size_t bytes;
    int peer;

    world_open(&w, -1, 20000000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it leaves with the question open */
    while (!wi_side_asked(w.group[1], &peer, question, sizeof question, &bytes))
        CU_ASSERT_FATAL(news(&w, 1));
    wi_side_close(w.group[1]);
    w.group[1] = NULL;
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "has left");
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it has left before */
    hear(&w, 0, 4, &t);
    CU_ASSERT(t.status == WEFT_EPEER);
    wi_side_destroy(w.side[1]);
    w.side[1] = NULL;
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* its process has ended */
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "rank 1");
    w.address_bytes[1] = 0;
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it never had one */
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ENOTSUP, "has no side channel");
    world_close(&w);
}

static void other_transport_or_key(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, 20000000000ull);
    wi_side_close(w.group[1]);
    open_group(&w, 1, "cards", 20000000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "closed the connection");
    world_close(&w);
    world_open(&w, 0, 20000000000ull);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "closed the connection");
    world_close(&w);
}

/* ---- A relay between the two ---- */

struct relay {
    pthread_t thread;
    int listen_fd, to_server; /* which direction is changed */
    size_t at;                /* which byte; SIZE_MAX: it ends there */
    struct sockaddr_in target;
};

/* One direction after the other, a byte at a time, until either side closes. */
static void *relay_run(void *arg)
{
    struct relay *r = arg;
    size_t seen[2] = {0, 0};
    struct pollfd fds[2] = {{.fd = accept(r->listen_fd, NULL, NULL), .events = POLLIN},
                            {.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN}};
    int open = fds[0].fd >= 0 && connect(fds[1].fd, (struct sockaddr *)&r->target, sizeof r->target) == 0;

    while (open && poll(fds, 2, (int)wt_slow_ms(10000)) > 0)
        for (int i = 0; i < 2 && open; i++) {
            unsigned char byte;
            if (!fds[i].revents)
                continue;
            open = read(fds[i].fd, &byte, 1) == 1;
            if (open && i == !r->to_server && seen[i]++ == r->at)
                byte ^= 4;
            open = open && send(fds[1 - i].fd, &byte, 1, MSG_NOSIGNAL) == 1;
        }
    close(fds[0].fd);
    close(fds[1].fd);
    return NULL;
}

/* What was asked or answered through a relay that changes one byte. */
static void changed(int to_server, size_t at, struct told *t)
{
    struct relay r = {.to_server = to_server, .at = at};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof here;
    unsigned char question[WEFT_SIDE_MAX];
    uint64_t until = wt_now_ms() + wt_slow_ms(10000);
    struct world w;
    size_t n;
    int peer;

    world_open(&w, -1, 20000000000ull);
    memcpy(&r.target, w.address[1], sizeof r.target);
    r.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    CU_ASSERT_EQUAL_FATAL(bind(r.listen_fd, (struct sockaddr *)&here, sizeof here), 0);
    CU_ASSERT_EQUAL_FATAL(listen(r.listen_fd, 1), 0);
    CU_ASSERT_EQUAL_FATAL(getsockname(r.listen_fd, (struct sockaddr *)&here, &bytes), 0);
    memcpy(w.address[1], &here, sizeof here);
    w.address_bytes[1] = sizeof here;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&r.thread, NULL, relay_run, &r), 0);
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "secret", 6), WEFT_SUCCESS);
    memset(t, 0, sizeof *t);
    do {
        struct pollfd fds[2] = {{.fd = wi_side_fd(w.group[0]), .events = POLLIN},
                                {.fd = wi_side_fd(w.group[1]), .events = POLLIN}};
        poll(fds, 2, 1000);
        if (wi_side_asked(w.group[1], &peer, question, sizeof question, &n)) {
            CU_ASSERT(n == 6 && memcmp(question, "secret", 6) == 0); /* or it does not come */
            wi_side_reply(w.group[1], peer, "answer", 6);
        }
        t->status = wi_side_answer(w.group[0], 1, t->data, sizeof t->data, &t->bytes, t->why);
    } while (t->status == WEFT_INPROGRESS && wt_now_ms() < until);
    world_close(&w);
    pthread_join(r.thread, NULL);
    close(r.listen_fd);
}

static void relay_changes_bytes(void)
{
    struct told t;
    int answers = 0;

    changed(1, SIZE_MAX, &t);
    CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 6 && memcmp(t.data, "answer", 6) == 0);
    for (size_t at = 0; at < 300; at += 13) {
        changed(1, at, &t);
        answers += t.status == WEFT_SUCCESS;
        if (t.status == WEFT_SUCCESS) {
            CU_ASSERT(at > 200 && memcmp(t.data, "answer", 6) == 0); /* there are no more bytes than that */
            continue;
        }
        fails_with(&t, WEFT_EPEER, "closed the connection");
    }
    CU_ASSERT(answers > 0 && answers < 12);
    for (size_t at = 200; at < 260; at += 7) {
        changed(0, at, &t);
        if (t.status != WEFT_SUCCESS)
            fails_with(&t, t.status, t.status == WEFT_EAUTH ? "changed on its way" : "");
        else
            CU_ASSERT(memcmp(t.data, "answer", 6) == 0);
    }
}

/* ---- Strangers ---- */

/* They say nothing, or nonsense; who knows the key is served all the same. */
static void strangers(void)
{
    int fds[100];
    struct sockaddr_in at;
    struct world w;
    struct told t;

    world_open(&w, -1, 20000000000ull);
    memcpy(&at, w.address[1], sizeof at);
    for (int i = 0; i < 100; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        CU_ASSERT_EQUAL_FATAL(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
        if (i % 2)
            CU_ASSERT_EQUAL(send(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    }
    CU_ASSERT_EQUAL(wi_side_ask(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    world_close(&w);
}

/* ---- Hosts of before ---- */

static void older_host(void)
{
    struct weft_host h = {.bytes = offsetof(struct weft_host, side_ask), .side_ask = wi_side_ask};

    CU_ASSERT(!WEFT_HOST_HAS(&h, side_ask)); /* it ends before that: what stands there is something else */
    h.bytes += sizeof h.side_ask - 1;
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_ask));
    h.bytes++;
    CU_ASSERT(WEFT_HOST_HAS(&h, side_ask));
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_answer));
    h.side_ask = NULL;
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_ask));
}

static const struct wt_case cases[] = {
    {"a question and its answer", asks_and_answers},
    {"both ask at once", both_ask},
    {"wrong calls are named", wrong_calls},
    {"an answer for which there is no room", answer_too_long},
    {"a peer that never answers is named at the deadline", silent_peer},
    {"a peer that has left is named", peer_that_left},
    {"another transport, another key", other_transport_or_key},
    {"a relay that changes a byte", relay_changes_bytes},
    {"strangers", strangers},
    {"a host that does not know the side channel", older_host},
};
WT_UNIT_MAIN("side", cases)
