/* SPDX-License-Identifier: BSD-3-Clause */
/* An attacker in the middle at start-up: what is changed between two ranks, or between a rank and the store, is noticed and its
 * sender named. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/harness/harness.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_mesh.h"

#define MS 1000000ull
#define PAYLOAD 24
#define HEAD_WIRE 32 /* of a gather: head and tag */
#define ROUND_WIRE (HEAD_WIRE + PAYLOAD + 16)
#define HELLO_WIRE 136
#define PROOF_WIRE 40

static uint64_t in_ms(unsigned ms)
{
    return wi_deadline_ns(wt_slow_ms(ms) * MS);
}

static void says(const char *part)
{
    if (!strstr(wi_fail_text(), part))
        wt_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", wi_fail_text(), part);
}

/* Passes bytes on, one of them changed; or `again` bytes of the beginning once more in the place of those that follow. */
struct relay {
    int from, to;
    size_t at, again, seen;
    unsigned char kept[ROUND_WIRE];
    pthread_t thread;
};

static int send_all(int fd, const unsigned char *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, data + sent, bytes - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n < 0)
            poll(&p, 1, 1000);
        sent += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;
    unsigned char data[4096];
    for (;;) {
        struct pollfd p = {.fd = r->from, .events = POLLIN};
        ssize_t n = recv(r->from, data, sizeof(data), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            break;
        if (n < 0) {
            poll(&p, 1, 1000);
            continue;
        }
        for (ssize_t i = 0; i < n; i++, r->seen++) {
            if (r->again && r->seen < r->again)
                r->kept[r->seen] = data[i];
            if (r->again && r->seen >= r->again && r->seen < 2 * r->again)
                data[i] = r->kept[r->seen - r->again];
            if (!r->again && r->seen == r->at)
                data[i] ^= 0x10;
        }
        if (send_all(r->to, data, (size_t)n))
            break;
    }
    shutdown(r->to, SHUT_WR);
    return NULL;
}

/* Between a link's descriptor and who reads it. */
static void intercept(struct relay *r, int *fd)
{
    int pair[2];
    WT_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    r->from = *fd;
    r->to = pair[0];
    *fd = pair[1];
    WT_REQUIRE(pthread_create(&r->thread, NULL, relay_main, r) == 0);
}

static struct wi_bootstrap *begin(void)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1,
                                      .store_addr = getenv("WEFT_STORE_ADDR"),
                                      .store_port = atoi(getenv("WEFT_STORE_PORT")),
                                      .job = getenv("WEFT_JOB")};
    struct wi_bootstrap *b;
    WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    return b;
}

static void gather_once(int rank, size_t at, size_t again)
{
    struct wi_bootstrap *b = begin();
    struct relay r = {.at = at, .again = again, .from = -1};
    unsigned char mine[PAYLOAD] = {1}, all[2 * PAYLOAD];
    int good = (int)((again ? again : at) / ROUND_WIRE);
    if (rank == 1)
        intercept(&r, &((struct wi_boot *)b)->in[0].fd);
    for (int i = 0; i < good; i++)
        WT_CHECK_OK(b->all_gather(b, mine, sizeof(mine), all, in_ms(20000)));
    weft_status st = b->all_gather(b, mine, sizeof(mine), all, in_ms(20000));
    if (rank == 1) {
        WT_CHECK_STATUS(st, WEFT_EAUTH);
        says("what rank 0 sent to rank 1 in start-up exchange");
        b->destroy(b);
        pthread_join(r.thread, NULL);
        close(r.from);
        close(r.to);
    } else {
        /* It may have what it needs of this exchange; of the next one it hears why there is none. */
        if (st == WEFT_SUCCESS)
            st = b->all_gather(b, mine, sizeof(mine), all, in_ms(20000));
        WT_CHECK_STATUS(st, WEFT_EAUTH);
        says("changed on its way");
        b->destroy(b);
    }
    if (wt_failures())
        wt_fail(__FILE__, __LINE__, "byte %zu, again %zu", at, again);
    wt_sync();
}

static void gather_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    for (size_t at = 0; at < ROUND_WIRE; at += at < HEAD_WIRE ? 3 : 7)
        gather_once(rank, at, 0);
    for (size_t at = ROUND_WIRE; at < 2 * ROUND_WIRE; at += 19)
        gather_once(rank, at, 0);
    gather_once(rank, 0, ROUND_WIRE);
}

static void gathers(void)
{
    CU_ASSERT_EQUAL(wt_run(2, gather_body, NULL, 120000), 0);
}

/* ---- Between a rank and the store ---- */

struct proxy {
    int listen_fd;
    struct sockaddr_in real;
    struct relay up, down;
    pthread_t thread;
};

static void *proxy_main(void *arg)
{
    struct proxy *p = arg;
    int client = accept(p->listen_fd, NULL, NULL), server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client >= 0 && server >= 0 && connect(server, (struct sockaddr *)&p->real, sizeof(p->real)) == 0) {
        p->up.from = p->down.to = client;
        p->up.to = p->down.from = server;
        pthread_create(&p->down.thread, NULL, relay_main, &p->down);
        relay_main(&p->up);
        pthread_join(p->down.thread, NULL);
    }
    close(client);
    close(server);
    return NULL;
}

/* The id of another host at the proxy's port, so that this rank uses the network. */
static void proxy_begin(struct proxy *p, weft_unique_id *id)
{
    struct wi_id known;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    WT_REQUIRE_OK(wi_id_decode(id, &known));
    WT_REQUIRE(known.nat == 1 && known.at[0].ss.ss_family == AF_INET);
    memcpy(&p->real, &known.at[0].ss, sizeof(p->real));
    p->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    WT_REQUIRE(p->listen_fd >= 0 && bind(p->listen_fd, (struct sockaddr *)&at, n) == 0 && listen(p->listen_fd, 4) == 0);
    WT_REQUIRE(getsockname(p->listen_fd, (struct sockaddr *)&at, &n) == 0);
    memcpy(&known.at[0].ss, &at, sizeof(at));
    known.node.id[0] ^= 1;
    wi_id_encode(&known, id);
    WT_REQUIRE(pthread_create(&p->thread, NULL, proxy_main, p) == 0);
}

static void proxied_once(int rank, weft_unique_id *shared, size_t up_at, size_t down_at)
{
    static const struct wi_bootstrap_settings s = {.job_key_fd = -1, .interfaces = "lo"};
    struct proxy p = {.up = {.at = up_at}, .down = {.at = down_at}};
    struct wi_bootstrap *b = NULL;
    if (rank == 0)
        WT_REQUIRE_OK(wi_unique_id_create(&s, shared));
    wt_sync();
    weft_unique_id id = *shared;
    if (rank == 1)
        proxy_begin(&p, &id);
    weft_status st = wi_bootstrap_id(&s, &id, rank, 2, in_ms(20000), &b);
    if (up_at == SIZE_MAX && down_at == SIZE_MAX) {
        WT_CHECK_OK(st);
        if (b)
            b->destroy(b);
    } else {
        WT_CHECK_STATUS(st, WEFT_EAUTH);
        says("changed on its way");
        says(up_at != SIZE_MAX ? "what rank 1 (" : "what rank 0's start-up store sent");
    }
    if (rank == 1) {
        pthread_join(p.thread, NULL);
        close(p.listen_fd);
        if (up_at == SIZE_MAX && down_at == SIZE_MAX) { /* how much there is to change */
            memcpy(shared->bytes, &p.up.seen, sizeof(size_t));
            memcpy(shared->bytes + sizeof(size_t), &p.down.seen, sizeof(size_t));
        }
    }
    if (wt_failures())
        wt_fail(__FILE__, __LINE__, "byte %zu up, %zu down", up_at, down_at);
    wt_sync();
}

static void store_body(int rank, int nranks, void *arg)
{
    size_t up, down;
    (void)nranks;
    proxied_once(rank, arg, SIZE_MAX, SIZE_MAX);
    memcpy(&up, ((weft_unique_id *)arg)->bytes, sizeof(up));
    memcpy(&down, ((weft_unique_id *)arg)->bytes + sizeof(up), sizeof(down));
    wt_sync();
    up -= 8 + 16; /* BYE and its tag: then it has started */
    down = HELLO_WIRE + 110 + 43 < down ? HELLO_WIRE + 110 + 43 : down;
    WT_REQUIRE(up > HELLO_WIRE + PROOF_WIRE + 200 && down > HELLO_WIRE + 100);
    for (size_t at = HELLO_WIRE + PROOF_WIRE; at < up; at += 23)
        proxied_once(rank, arg, at, SIZE_MAX);
    for (size_t at = HELLO_WIRE; at < down; at += 23)
        proxied_once(rank, arg, SIZE_MAX, at);
}

static void run_with_id(wt_rank_fn body)
{
    weft_unique_id *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(id != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(2, body, id, 120000), 0);
    munmap(id, sizeof(*id));
}

static void store_frames(void)
{
    run_with_id(store_body);
}

/* Rank 0 comes when the other's message has been found changed, and is told at once, though the store is judged already. */
static void late_body(int rank, int nranks, void *arg)
{
    static const struct wi_bootstrap_settings s = {.job_key_fd = -1, .interfaces = "lo"};
    struct proxy p = {.up = {.at = HELLO_WIRE + PROOF_WIRE}, .down = {.at = SIZE_MAX}};
    struct wi_bootstrap *b = NULL;
    weft_unique_id *shared = arg;
    if (rank == 0)
        WT_REQUIRE_OK(wi_unique_id_create(&s, shared));
    for (int turn = nranks; turn >= 0; turn--) {
        wt_sync();
        if (turn != rank)
            continue;
        weft_unique_id id = *shared;
        if (rank == 1)
            proxy_begin(&p, &id);
        uint64_t begin = wi_now_ns();
        WT_CHECK_STATUS(wi_bootstrap_id(&s, &id, rank, 2, in_ms(20000), &b), WEFT_EAUTH);
        WT_CHECK(wi_now_ns() - begin < wt_slow_ms(10000) * MS);
        says("changed on its way");
        says("what rank 1 (");
        if (rank == 1) {
            pthread_join(p.thread, NULL);
            close(p.listen_fd);
        }
    }
    wt_sync();
}

static void late_for_verdict(void)
{
    run_with_id(late_body);
}

static const struct wt_case cases[] = {
    {"each changed byte between two ranks is noticed, and the rank named", gathers},
    {"changed bytes between a rank and the store are noticed, and the rank named", store_frames},
    {"a rank that comes after the store's verdict is told it", late_for_verdict},
};

WT_UNIT_MAIN("bootstrap_changed", cases)
