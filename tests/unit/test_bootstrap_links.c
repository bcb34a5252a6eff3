/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody on the network at start-up: what is changed between two ranks, or between a rank and the store, is noticed and named;
 * strangers are read no further than they must be, hear nothing, and do not drive out ranks. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
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

/* ---- The man in the middle ---- */

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

static void store_frames(void)
{
    weft_unique_id *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(id != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(2, store_body, id, 120000), 0);
    munmap(id, sizeof(*id));
}

/* ---- Strangers ---- */

static struct wi_auth_key store_key;

/* Instead of the C library's, for everything that is linked with this test. */
static atomic_int refusals, accepts_failed; /* how many more are to fail; how many did */
static _Atomic uint64_t failed_ns[64];      /* when */

int accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    if (atomic_load(&refusals) > 0) {
        int i = atomic_fetch_add(&accepts_failed, 1);
        if (i < 64)
            failed_ns[i] = wi_now_ns();
        atomic_fetch_sub(&refusals, 1);
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, from, bytes, flags);
}

static struct wi_store_server *serve(int nranks, struct sockaddr_in *at)
{
    struct wi_store_server_config config = {
        .listen_fds = {-1, -1}, .nranks = nranks, .give_up_ns = wi_deadline_ns(600000 * MS)};
    struct wi_store_server *server = NULL;
    struct wi_sockaddr bind_to = {.bytes = sizeof(*at)};
    socklen_t n = sizeof(*at);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memcpy(&bind_to.ss, at, sizeof(*at));
    CU_ASSERT_EQUAL(wi_auth_derive((const unsigned char *)"key", 3, "job", WI_STORE_PURPOSE, &store_key), WEFT_SUCCESS);
    config.key = store_key;
    config.listen_fds[0] = wi_socket_listen(&bind_to, "test");
    CU_ASSERT_FATAL(config.listen_fds[0] >= 0);
    CU_ASSERT_EQUAL(getsockname(config.listen_fds[0], (struct sockaddr *)at, &n), 0);
    CU_ASSERT_EQUAL_FATAL(wi_store_server_create(&config, &server), WEFT_SUCCESS);
    return server;
}

static int dial_from(const struct sockaddr_in *at, uint32_t source)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)};
    struct timeval patience = {.tv_sec = (time_t)(wt_slow_ms(10000) / 1000)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    CU_ASSERT_EQUAL(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
    return fd;
}

static struct weft_auth *client_of(int rank, int nranks, unsigned char hello[HELLO_WIRE])
{
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    struct wi_store_claim mine;
    size_t consumed, n;
    wi_store_claim_self(&mine, rank, nranks);
    struct weft_auth *auth = wi_auth_create(&store_key, 0, claim, wi_store_claim_write(&mine, claim));
    CU_ASSERT_EQUAL(wi_auth_step(auth, NULL, 0, &consumed, hello, HELLO_WIRE, &n, NULL, NULL), WEFT_INPROGRESS);
    CU_ASSERT_EQUAL(n, HELLO_WIRE);
    return auth;
}

/* 257 bytes that begin as a hello does: closed with the last one unread, which resets the connection. */
static void read_no_further(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    unsigned char said[WEFT_AUTH_MESSAGE_MAX + 1], got[64];
    struct weft_auth *auth = client_of(1, 2, said);
    for (int again = 0; again < 2; again++) {
        for (size_t bytes = WEFT_AUTH_MESSAGE_MAX; bytes <= WEFT_AUTH_MESSAGE_MAX + 1; bytes++) {
            int fd = dial_from(&at, INADDR_LOOPBACK);
            memset(said + HELLO_WIRE, 0, sizeof(said) - HELLO_WIRE);
            said[HELLO_WIRE - 1] ^= 1; /* the MAC */
            CU_ASSERT_EQUAL(send(fd, said, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
            ssize_t n = recv(fd, got, sizeof(got), 0);
            CU_ASSERT(bytes == WEFT_AUTH_MESSAGE_MAX ? n == 0 : n < 0 && errno == ECONNRESET);
            said[HELLO_WIRE - 1] ^= 1;
            close(fd);
        }
    }
    wi_auth_destroy(auth);
    wi_store_server_destroy(server);
}

/* No descriptor for one more connection: tried again every 100 ms, not as fast as the processor can; then served. */
static void out_of_descriptors(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    unsigned char hello[HELLO_WIRE], got[HELLO_WIRE];
    struct weft_auth *auth = client_of(1, 2, hello);
    atomic_store(&refusals, 5);
    int fd = dial_from(&at, INADDR_LOOPBACK);
    CU_ASSERT_EQUAL(send(fd, hello, HELLO_WIRE, MSG_NOSIGNAL), HELLO_WIRE);
    CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), MSG_WAITALL), HELLO_WIRE);
    CU_ASSERT_EQUAL(atomic_load(&accepts_failed), 5);
    for (int i = 1; i < 5; i++)
        CU_ASSERT(failed_ns[i] - failed_ns[i - 1] >= 100 * MS);
    close(fd);
    wi_auth_destroy(auth);
    wi_store_server_destroy(server);
}

/* Who has said nothing gives its descriptor back before the next one is looked for; who has shown the key keeps his. */
static void silent_give_way(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    unsigned char hello[HELLO_WIRE], other[HELLO_WIRE], got[HELLO_WIRE];
    struct weft_auth *auth = client_of(1, 2, hello), *later = client_of(1, 2, other);
    int silent = dial_from(&at, INADDR_LOOPBACK), keyed = dial_from(&at, INADDR_LOOPBACK);

    CU_ASSERT_EQUAL(send(keyed, hello, HELLO_WIRE, MSG_NOSIGNAL), HELLO_WIRE);
    CU_ASSERT_EQUAL(recv(keyed, got, sizeof(got), MSG_WAITALL), HELLO_WIRE); /* both are accepted, in this order */
    atomic_store(&accepts_failed, 0);
    atomic_store(&refusals, 1);
    int next = dial_from(&at, INADDR_LOOPBACK);
    CU_ASSERT_EQUAL(send(next, other, HELLO_WIRE, MSG_NOSIGNAL), HELLO_WIRE);
    CU_ASSERT_EQUAL(recv(next, got, sizeof(got), MSG_WAITALL), HELLO_WIRE);
    CU_ASSERT_EQUAL(atomic_load(&accepts_failed), 1);
    CU_ASSERT_EQUAL(recv(silent, got, 1, MSG_DONTWAIT), 0);
    close(silent);
    close(keyed);
    close(next);
    wi_auth_destroy(auth);
    wi_auth_destroy(later);
    wi_store_server_destroy(server);
}

/* A local socket that only this user's processes may use, and another user at either end of it. */
#define NOBODY 65534

static void local_address(struct wi_sockaddr *at, const char *which)
{
    char name[60];
    snprintf(name, sizeof(name), "weft-test-%s-%d", which, (int)getpid());
    wi_sockaddr_local(at, name, 0);
}

static struct wi_store_server *serve_own_user(struct wi_sockaddr *at)
{
    struct wi_store_server_config config = {
        .listen_fds = {-1, -1}, .nranks = 2, .own_user = 1, .give_up_ns = wi_deadline_ns(600000 * MS)};
    struct wi_store_server *server = NULL;
    local_address(at, "own");
    CU_ASSERT_EQUAL(wi_auth_derive((const unsigned char *)"key", 3, "job", WI_STORE_PURPOSE, &store_key), WEFT_SUCCESS);
    config.key = store_key;
    config.listen_fds[0] = wi_socket_listen(at, "test");
    CU_ASSERT_FATAL(config.listen_fds[0] >= 0);
    CU_ASSERT_EQUAL_FATAL(wi_store_server_create(&config, &server), WEFT_SUCCESS);
    return server;
}

/* What the store answers to a hello with the key from this effective user: bytes. */
static ssize_t greet_locally(const struct wi_sockaddr *at)
{
    unsigned char hello[HELLO_WIRE], got[HELLO_WIRE];
    struct weft_auth *auth = client_of(1, 2, hello);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = (time_t)(wt_slow_ms(10000) / 1000)};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&at->ss, at->bytes) ||
        (send(fd, hello, HELLO_WIRE, MSG_NOSIGNAL) < 0 && errno != EPIPE))
        return -2;
    ssize_t n = recv(fd, got, sizeof(got), MSG_WAITALL);
    if (n < 0 && errno == ECONNRESET)
        n = 0;
    close(fd);
    wi_auth_destroy(auth);
    return n;
}

static void other_user_asks(void)
{
    struct wi_sockaddr at;
    int status = -1;
    if (geteuid() != 0) {
        wt_skip("only root can become another user");
        return;
    }
    struct wi_store_server *server = serve_own_user(&at);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(setresuid(NOBODY, NOBODY, NOBODY) ? 1 : greet_locally(&at) == 0 ? 0 : 2);
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    CU_ASSERT_EQUAL(greet_locally(&at), HELLO_WIRE);
    wi_store_server_destroy(server);
}

/* The other user has taken the name: the rank says whose it is, and sends nothing there. */
static void other_user_listens(void)
{
    struct wi_store_client client;
    struct wi_store_search search = {.job = "job", .rank = 1, .nranks = 2, .own_user = 1};
    int ready[2], status = -1;
    char c = 0;
    if (geteuid() != 0) {
        wt_skip("only root can become another user");
        return;
    }
    wi_rendezvous_init(&search.rendezvous);
    local_address(&search.rendezvous.fixed[search.rendezvous.nfixed++], "taken");
    CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int fd = setresuid(NOBODY, NOBODY, NOBODY) ? -1 : wi_socket_listen(&search.rendezvous.fixed[0], "test");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (fd < 0 || write(ready[1], &c, 1) != 1 || poll(&p, 1, (int)wt_slow_ms(10000)) != 1)
            _exit(1);
        p.fd = (int)syscall(SYS_accept4, fd, NULL, NULL, 0);
        _exit(p.fd >= 0 && recv(p.fd, &c, 1, 0) == 0 ? 0 : 2); /* closed without a word */
    }
    CU_ASSERT_EQUAL(read(ready[0], &c, 1), 1);
    CU_ASSERT_EQUAL(wi_store_client_connect(&client, &search, wi_deadline_ns(300 * MS)), WEFT_EAUTH);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "another user (uid 65534) listens there"));
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    wi_store_client_leave(&client, NULL);
    close(ready[0]);
    close(ready[1]);
}

/* The other ranks look for a port. */
static void given_a_local_socket(void)
{
    struct wi_rendezvous r;
    struct wi_sockaddr at, bound;
    int listening = -1;

    wi_rendezvous_init(&r);
    local_address(&at, "given");
    r.listen_fd = wi_socket_listen(&at, "test");
    CU_ASSERT_FATAL(r.listen_fd >= 0);
    CU_ASSERT_EQUAL(wi_rendezvous_listen(&r, wi_deadline_ns(1000 * MS), &listening, &bound), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "is no TCP socket"));
    CU_ASSERT_EQUAL(listening, -1);
    wi_socket_close(r.listen_fd);
}

/* Serve one connection after the other at `fd`: each is closed, after it was read or without. */
static _Noreturn void close_all_at(int fd, int after_reading)
{
    char hello[512];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)wt_slow_ms(10000)) != 1)
            _exit(1);
        p.fd = (int)syscall(SYS_accept4, fd, NULL, NULL, 0);
        if (poll(&p, 1, (int)wt_slow_ms(10000)) == 1 && after_reading && recv(p.fd, hello, sizeof(hello), 0) < 0)
            _exit(1);
        close(p.fd);
    }
}

/* A store that refuses a hello has read it. One that closes without having looked may have ended or lack memory: nothing is said
 * about keys. With and without asking it for the key. */
static void closed_without_a_word(void)
{
    static const char *const names[] = {"closing", "refusing"};
    for (int i = 0; i < 4; i++) {
        int refuses = i / 2, asks = i % 2, status;
        struct wi_store_client client;
        struct wi_store_search search = {.job = "job", .rank = 1, .nranks = 2, .own_user = 1, .ask_key = asks};
        wi_rendezvous_init(&search.rendezvous);
        local_address(&search.rendezvous.fixed[search.rendezvous.nfixed++], names[refuses]);
        int fd = wi_socket_listen(&search.rendezvous.fixed[0], "test"),
            childs = dup(fd); /* a fork closes the other one */
        CU_ASSERT_FATAL(fd >= 0 && childs >= 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            close_all_at(childs, refuses);
        wi_socket_close(fd);
        close(childs);
        CU_ASSERT_EQUAL(wi_store_client_connect(&client, &search, wi_deadline_ns(wt_slow_ms(300) * MS)),
                        refuses ? WEFT_EAUTH : WEFT_ETIMEDOUT);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), !refuses ? "it ended, gave up, or has no memory"
                                                      : asks   ? "rank 0 was given a job key and this rank was not"
                                                             : "refused the handshake: another job, another job key"));
        CU_ASSERT_EQUAL(!refuses && strstr(wi_fail_text(), "job key"), 0);
        kill(child, SIGKILL);
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        wi_store_client_leave(&client, NULL);
    }
}

/* A child has none of its parent's start-up sockets; what has got the number of one that was closed, it keeps. */
static void forked_child(void)
{
    struct wi_sockaddr at;
    int fds[4], pending, status = -1;
    local_address(&at, "fork");
    fds[0] = wi_socket_listen(&at, "test");
    fds[1] = wi_socket_connect(&at, &pending);
    fds[2] = wi_socket_accept(fds[0]);
    fds[3] = wi_socket_connect(&at, &pending);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_FATAL(fds[i] >= 0);
    wi_socket_close(fds[3]);
    CU_ASSERT_EQUAL(dup2(0, fds[3]), fds[3]);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int bad = 0;
        for (int i = 0; i < 4; i++)
            bad |= (fcntl(fds[i], F_GETFD) >= 0) == (i < 3) ? 1 << i : 0;
        _exit(bad);
    }
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(fcntl(fds[i], F_GETFD) >= 0); /* the parent's are its own */
        wi_socket_close(fds[i]);
    }
    close(fds[3]);
}

static void hello_again(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    unsigned char hello[HELLO_WIRE], got[HELLO_WIRE];
    struct weft_auth *auth = client_of(1, 2, hello);
    for (int i = 0; i < 3; i++) {
        int fd = dial_from(&at, INADDR_LOOPBACK);
        CU_ASSERT_EQUAL(send(fd, hello, HELLO_WIRE, MSG_NOSIGNAL), HELLO_WIRE);
        CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), MSG_WAITALL), i ? 0 : HELLO_WIRE); /* an answer, then none */
        close(fd);
    }
    wi_auth_destroy(auth);
    wi_store_server_destroy(server);
}

/* Of one job's next communicator: the same key, another store. */
static void hello_to_next_store(void)
{
    struct sockaddr_in at;
    unsigned char hello[HELLO_WIRE], got[HELLO_WIRE];
    struct weft_auth *auth = client_of(1, 2, hello);
    for (int i = 0; i < 2; i++) {
        struct wi_store_server *server = serve(2, &at);
        if (i == 0) {
            wi_auth_destroy(auth);
            auth = client_of(1, 2, hello); /* with the key that serve made */
        }
        int fd = dial_from(&at, INADDR_LOOPBACK);
        CU_ASSERT_EQUAL(send(fd, hello, HELLO_WIRE, MSG_NOSIGNAL), HELLO_WIRE);
        CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), MSG_WAITALL), i ? 0 : HELLO_WIRE);
        close(fd);
        wi_store_server_destroy(server);
    }
    wi_auth_destroy(auth);
}

/* The rest of a handshake whose hello is sent. */
static int finish(int fd, struct weft_auth *auth)
{
    unsigned char in[HELLO_WIRE], out[WEFT_AUTH_MESSAGE_MAX];
    size_t consumed, n;
    if (recv(fd, in, sizeof(in), MSG_WAITALL) != HELLO_WIRE ||
        wi_auth_step(auth, in, sizeof(in), &consumed, out, sizeof(out), &n, NULL, NULL) != WEFT_SUCCESS)
        return 0;
    return send(fd, out, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Is this connection a session of the store: does it answer? */
static int answers(int fd, struct weft_auth *auth)
{
    struct wi_auth_stream seal = {.next = 0};
    struct wi_store_opener opener = {.head_opened = 0};
    struct wi_store_frame frame;
    struct wi_store_buf out;
    unsigned char in[512], zero[8] = {0};
    size_t held = 0;
    long bytes = 0;
    wi_store_buf_init(&out, 4096);
    out.seal = &seal;
    if (wi_auth_streams(auth, &seal, &opener.stream) == WEFT_SUCCESS &&
        !wi_store_frame_append(&out, WI_STORE_WHO, NULL, zero, sizeof(zero)) && wi_store_buf_send(&out, fd) > 0)
        while (bytes == 0 && held < sizeof(in)) {
            ssize_t n = recv(fd, in + held, sizeof(in) - held, 0);
            if (n <= 0)
                break;
            held += (size_t)n;
            bytes = wi_store_frame_open(&opener, in, held, &frame);
        }
    wi_store_buf_fini(&out);
    wi_auth_stream_end(&seal);
    wi_auth_stream_end(&opener.stream);
    return bytes > 0 && frame.type == WI_STORE_MISSING;
}

#define FLOOD 300

/* One rank whose hello was verified and one that has sent none yet, then more silent connections from another address than there
 * is room for. 1: both are answered; 0: not; -1: it took longer than a handshake may, so that it says nothing. */
static int flooded(const struct sockaddr_in *at, int rank)
{
    uint64_t began = wi_now_ns();
    unsigned char hello[2][HELLO_WIRE], byte;
    struct weft_auth *auth[2] = {client_of(rank, 9, hello[0]), client_of(rank + 1, 9, hello[1])};
    int fd[2] = {dial_from(at, INADDR_LOOPBACK), dial_from(at, INADDR_LOOPBACK)}, flood[FLOOD];
    send(fd[0], hello[0], HELLO_WIRE, MSG_NOSIGNAL);
    struct pollfd replied = {.fd = fd[0], .events = POLLIN};
    poll(&replied, 1, (int)wt_slow_ms(2000));
    for (int i = 0; i < FLOOD; i++)
        flood[i] = dial_from(at, INADDR_LOOPBACK + 1);
    for (int i = 0; i < FLOOD - 40; i++) /* those are driven out: all of them have been accepted */
        CU_ASSERT(recv(flood[i], &byte, 1, 0) <= 0);
    send(fd[1], hello[1], HELLO_WIRE, MSG_NOSIGNAL);
    int both =
        finish(fd[0], auth[0]) + finish(fd[1], auth[1]) == 2 && answers(fd[0], auth[0]) && answers(fd[1], auth[1]);
    int late = wi_now_ns() - began > 1800 * MS;
    for (int i = 0; i < FLOOD; i++)
        close(flood[i]);
    for (int i = 0; i < 2; i++) {
        close(fd[i]);
        wi_auth_destroy(auth[i]);
    }
    return both ? 1 : late ? -1 : 0;
}

static void floods(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(9, &at);
    int verdict = -1;
    for (int i = 0; i < 20 && verdict < 0; i++)
        verdict = flooded(&at, 1);
    CU_ASSERT_EQUAL(verdict, 1);
    wi_store_server_destroy(server);
}

/* ---- Who gives way ---- */

static void give_way(void)
{
    struct wi_half_open all[8];
    void *who;
    for (int i = 0; i < 8; i++)
        all[i] = (struct wi_half_open){
            .source = (uint64_t)(i % 4), .since_ns = (uint64_t)(100 - i), .hello_verified = i < 2};
    struct wi_half_open_table t = {.source = 9, .capacity = 9};
    for (int i = 0; i < 8; i++)
        wi_half_open_look(&t, &all[i], &all[i]);
    CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), 0);
    CU_ASSERT_PTR_NULL(who); /* room */
    t.capacity = 8;
    CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), 0);
    CU_ASSERT_PTR_EQUAL(who, &all[7]); /* the oldest */
    t = (struct wi_half_open_table){.source = 2, .capacity = 4};
    for (int i = 0; i < 8; i++)
        wi_half_open_look(&t, &all[i], &all[i]);
    CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), 0);
    CU_ASSERT_PTR_EQUAL(who, &all[6]); /* the oldest of a source that has half of the table */
    t = (struct wi_half_open_table){.source = 5, .capacity = 2};
    wi_half_open_look(&t, &all[0], &all[0]);
    wi_half_open_look(&t, &all[1], &all[1]);
    CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), -1); /* all hellos are verified */
    CU_ASSERT_PTR_NULL(who);
    for (int of_source = 0; of_source < 2; of_source++) { /* and some have had time to go on */
        struct wi_half_open old[4];
        t = (struct wi_half_open_table){.source = 1, .capacity = 4, .now_ns = 1000 * MS};
        for (int i = 0; i < 4; i++) {
            old[i] = (struct wi_half_open){.source = (uint64_t)(i < 2 ? 3 : of_source),
                                           .since_ns = (700 + 10 * (uint64_t)i) * MS,
                                           .hello_verified = 1};
            wi_half_open_look(&t, &old[i], &old[i]);
        }
        CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), 0);
        CU_ASSERT_PTR_EQUAL(who, &old[2 * of_source]); /* the oldest, or that of a source with half of the table */
        t.now_ns = 890 * MS;
        CU_ASSERT_EQUAL(wi_half_open_decide(&t, &who), -1);
    }
    for (int capacity = 1; capacity < 300; capacity++)
        CU_ASSERT(wi_half_open_burst(capacity) >= 1 && (wi_half_open_burst(capacity) < capacity / 2 || capacity < 4));
}

static const struct wt_case cases[] = {
    {"who gives way when too many are half open", give_way},
    {"a stranger is read no further than 256 bytes", read_no_further},
    {"a hello that is played back gets no answer", hello_again},
    {"nor from the next store of the process", hello_to_next_store},
    {"a flood from one address drives out nobody else", floods},
    {"no descriptor left for a connection", out_of_descriptors},
    {"without descriptors, silent connections give way", silent_give_way},
    {"a forked child has no socket of start-up", forked_child},
    {"another user asks at this user's local socket", other_user_asks},
    {"another user listens at this user's local name", other_user_listens},
    {"a local socket in place of the store's is refused", given_a_local_socket},
    {"a store that closes is not one that refuses", closed_without_a_word},
    {"each changed byte between two ranks is noticed, and the rank named", gathers},
    {"changed bytes between a rank and the store are noticed, and the rank named", store_frames},
};

WT_UNIT_MAIN("bootstrap_links", cases)
