/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers at start-up: they are read no further than they must be, hear nothing, and do not drive out ranks. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "tests/harness/harness.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_mesh.h"

#define MS 1000000ull
#define HELLO_WIRE 136

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

/* A rank that has another key or none; not who says anything else, or nothing, or does not go on. */
static void ranks_are_counted(void)
{
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    unsigned char hello[HELLO_WIRE], question[8] = {'W', 'F', 'T', 'K', 1}, rubbish[HELLO_WIRE], got[64];
    struct weft_auth *auth = client_of(1, 2, hello);
    const struct {
        const unsigned char *said;
        size_t bytes;
        long counted; /* with those before */
    } table[] = {{rubbish, sizeof(rubbish), 0},
                 {rubbish, 8, 0},
                 {hello, 0, 0},
                 {hello, 100, 0},
                 {question, 7, 0},
                 {question, 8, 1},
                 {hello, HELLO_WIRE, 2},
                 {rubbish, sizeof(rubbish), 2}};
    hello[HELLO_WIRE - 1] ^= 1;
    memset(rubbish, 'G', sizeof(rubbish));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int fd = dial_from(&at, INADDR_LOOPBACK);
        CU_ASSERT_EQUAL(send(fd, table[i].said, table[i].bytes, MSG_NOSIGNAL), (ssize_t)table[i].bytes);
        shutdown(fd, SHUT_WR);
        CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), 0), 0);
        CU_ASSERT_EQUAL(wi_store_server_refused(server), table[i].counted);
        close(fd);
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

/* A connection that has said nothing gives its descriptor back before one is missed; one that has shown the key keeps its own. */
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

static const unsigned char local_job_key[WI_JOB_KEY_BYTES] = "key";

static struct wi_store_server *serve_own_user(struct wi_sockaddr *at)
{
    struct wi_store_server_config config = {
        .listen_fds = {-1, -1}, .nranks = 2, .own_user = 1, .give_up_ns = wi_deadline_ns(600000 * MS)};
    struct wi_store_server *server = NULL;
    local_address(at, "own");
    CU_ASSERT_EQUAL(wi_auth_derive(local_job_key, sizeof(local_job_key), "job", WI_STORE_PURPOSE, &store_key),
                    WEFT_SUCCESS);
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

static struct wi_store_server *serve_locally(struct wi_rendezvous *r, struct wi_sockaddr *at)
{
    struct wi_store_server *server = serve_own_user(at);

    wi_rendezvous_init(r);
    r->fixed[r->nfixed++] = *at;
    return server;
}

/* No rank of this process is to be waited for: some seconds after the verdict it ends, though the one that was told stays. */
static void ends_after_verdict(void)
{
    const struct wi_store_verdict verdict = {.status = WEFT_EPEER, .culprit = 1, .text = "rank 1 had enough"};
    struct wi_store_search search = {.job = "job", .rank = 1, .nranks = 2, .own_user = 1};
    struct wi_store_client one, late;
    struct wi_sockaddr at;
    struct wi_store_server *server = serve_locally(&search.rendezvous, &at);
    uint64_t began = wi_now_ns();

    memcpy(search.job_key, local_job_key, sizeof(local_job_key));
    CU_ASSERT_EQUAL_FATAL(wi_store_client_connect(&one, &search, wi_deadline_ns(wt_slow_ms(10000) * MS)), WEFT_SUCCESS);
    wi_store_client_leave(&one, &verdict);
    search.rank = 0;
    CU_ASSERT_EQUAL_FATAL(wi_store_client_connect(&late, &search, wi_deadline_ns(wt_slow_ms(10000) * MS)),
                          WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_server_finished(server), 0);
    while (!wi_store_server_finished(server) && wi_now_ns() - began < wt_slow_ms(30000) * MS)
        usleep(50000);
    CU_ASSERT_EQUAL(wi_store_server_finished(server), 1);
    CU_ASSERT(wi_now_ns() - began > 3000 * MS);
    wi_store_client_leave(&late, NULL);
    wi_store_server_destroy(server);
}

/* A rank that is refused and then neither reads nor closes: the store closes after a while, and goes on for the others. */
static void refused_and_silent(void)
{
    struct wi_store_search search = {.job = "job", .rank = 1, .nranks = 3, .own_user = 1};
    struct wi_store_client refused, joins;
    struct wi_sockaddr at;
    struct wi_store_server *server = serve_locally(&search.rendezvous, &at);

    memcpy(search.job_key, local_job_key, sizeof(local_job_key));
    CU_ASSERT_EQUAL_FATAL(wi_store_client_connect(&refused, &search, wi_deadline_ns(wt_slow_ms(10000) * MS)),
                          WEFT_SUCCESS);
    struct pollfd p = {.fd = refused.fd, .events = 0};
    CU_ASSERT_EQUAL(poll(&p, 1, (int)wt_slow_ms(20000)), 1);
    CU_ASSERT(p.revents & POLLHUP); /* both directions: a shutdown of one does not say so */
    search.nranks = 2;
    CU_ASSERT_EQUAL(wi_store_client_connect(&joins, &search, wi_deadline_ns(wt_slow_ms(10000) * MS)), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_server_finished(server), 0);
    wi_store_client_leave(&joins, NULL);
    wi_store_client_leave(&refused, NULL);
    wi_store_server_destroy(server);
}

/* A child of this process that waits before its exec, in a thread of its own: it has copies of all sockets. */
struct spawned {
    char marker[256], fifo[256];
    pid_t child;
    int failed;
};

static void *spawn_blocked(void *arg)
{
    struct spawned *s = arg;
    char *argv[] = {"true", NULL}, *envp[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, s->marker, O_RDONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&actions, 0, s->fifo, O_RDONLY, 0);
    s->failed = posix_spawn(&s->child, "/bin/true", &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    return NULL;
}

static uint64_t process_cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Says eight bytes that no rank says, and waits until it is closed. */
static void refused_at(const struct sockaddr_in *at)
{
    char got[8];
    int fd = dial_from(at, INADDR_LOOPBACK);
    CU_ASSERT_EQUAL(send(fd, "rubbish!", 8, MSG_NOSIGNAL), 8);
    CU_ASSERT(recv(fd, got, sizeof(got), 0) <= 0);
    close(fd);
}

/* What the server closes stays open there, and what arrives for it must not wake the server with a connection that is freed. */
static void closed_but_copied(void)
{
    struct spawned s = {.failed = -1};
    struct sockaddr_in at;
    struct wi_store_server *server = serve(2, &at);
    uint64_t until = wi_deadline_ns(wt_slow_ms(20000) * MS);
    pthread_t thread;
    int status = -1;
    snprintf(s.marker, sizeof(s.marker), "%s/marker", wt_temp_dir());
    snprintf(s.fifo, sizeof(s.fifo), "%s/fifo", wt_temp_dir());
    CU_ASSERT_EQUAL_FATAL(mkfifo(s.fifo, 0600), 0);
    int fd = dial_from(&at, INADDR_LOOPBACK);
    refused_at(&at); /* the server has accepted both */
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, spawn_blocked, &s), 0);
    while (access(s.marker, F_OK) && wi_now_ns() < until)
        usleep(1000);
    CU_ASSERT_EQUAL(send(fd, "rubbish!", 8, MSG_NOSIGNAL), 8);
    refused_at(&at);
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(send(fd, "more", 4, MSG_NOSIGNAL), 4); /* the copy takes it */
        refused_at(&at);
    }
    uint64_t before = process_cpu_ns();
    usleep(400000);
    CU_ASSERT(process_cpu_ns() - before < 200 * MS); /* nothing that it cannot read wakes it again and again */
    int release = open(s.fifo, O_WRONLY | O_CLOEXEC);
    CU_ASSERT(release >= 0);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(s.failed, 0);
    CU_ASSERT(waitpid(s.child, &status, 0) == s.child && status == 0);
    close(release);
    close(fd);
    wi_store_server_destroy(server);
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
    wi_fd_close(r.listen_fd);
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
        wi_fd_close(fd);
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
    wi_fd_close(fds[3]);
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
        wi_fd_close(fds[i]);
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

/* ---- Which connection gives way ---- */

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
    {"ranks without the key are counted, other strangers are not", ranks_are_counted},
    {"a hello that is played back gets no answer", hello_again},
    {"nor from the next store of the process", hello_to_next_store},
    {"a flood from one address drives out nobody else", floods},
    {"no descriptor left for a connection", out_of_descriptors},
    {"without descriptors, silent connections give way", silent_give_way},
    {"a forked child has no socket of start-up", forked_child},
    {"another user asks at this user's local socket", other_user_asks},
    {"another user listens at this user's local name", other_user_listens},
    {"a local socket in place of the store's is refused", given_a_local_socket},
    {"a store ends some seconds after its verdict", ends_after_verdict},
    {"a refused rank that does not close is closed", refused_and_silent},
    {"a closed connection of which a child has a copy", closed_but_copied},
    {"a store that closes is not one that refuses", closed_without_a_word},
};

WT_UNIT_MAIN("bootstrap_links", cases)
