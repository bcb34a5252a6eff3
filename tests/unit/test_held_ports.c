/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and ports that a process keeps while it does not listen there: no other process gets them. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/rendezvous.h"
#include "tests/harness/harness.h"

#define MS 1000000ull
#define NOBODY 65534

/* ---- Instead of the C library's, for everything that is linked with this test ---- */

static const struct sockaddr_in *coveted; /* another user tries to get it before each of these calls and after it */
static int captured;                      /* how often that went well */
static int listens_to_fail;

static int bind_as(const struct sockaddr_in *at, int option)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || (option && setsockopt(fd, SOL_SOCKET, option, &one, sizeof(one))))
        return -1;
    if (!bind(fd, (const struct sockaddr *)at, sizeof(*at)))
        return fd;
    close(fd);
    return -1;
}

/* Of the kernel itself: the C library would change the user of all threads. */
static void try_to_capture(void)
{
    static const int options[] = {0, SO_REUSEADDR, SO_REUSEPORT};
    if (!coveted || syscall(SYS_setresuid, -1, NOBODY, -1))
        return;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        int fd = bind_as(coveted, options[i]);
        if (fd < 0)
            continue;
        captured += !syscall(SYS_listen, fd, 1);
        close(fd);
    }
    CU_ASSERT_EQUAL(syscall(SYS_setresuid, -1, 0, -1), 0);
}

int listen(int fd, int backlog)
{
    if (listens_to_fail > 0) {
        listens_to_fail--;
        errno = EADDRINUSE;
        return -1;
    }
    try_to_capture();
    int failed = (int)syscall(SYS_listen, fd, backlog), err = errno;
    try_to_capture();
    errno = err;
    return failed;
}

int shutdown(int fd, int how)
{
    try_to_capture();
    int failed = (int)syscall(SYS_shutdown, fd, how), err = errno;
    try_to_capture();
    errno = err;
    return failed;
}

/* ---- Ports ---- */

static uint64_t in_ms(unsigned ms)
{
    return wi_deadline_ns(wt_slow_ms(ms) * MS);
}

static int serve_at(struct sockaddr_in *at)
{
    struct wi_sockaddr address = {.bytes = sizeof(*at)};
    socklen_t bytes = sizeof(*at);
    memcpy(&address.ss, at, sizeof(*at));
    int fd = wi_socket_listen(&address, "test");
    if (fd >= 0)
        CU_ASSERT_EQUAL(getsockname(fd, (struct sockaddr *)at, &bytes), 0);
    return fd;
}

static int serve(struct sockaddr_in *at)
{
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = serve_at(at);
    CU_ASSERT_FATAL(fd >= 0);
    return fd;
}

static int dial(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
    return fd;
}

/* One connection; the server ends it first, so that what is left of it (TIME_WAIT) is at the server's port. */
static void serve_once(int fd, const struct sockaddr_in *at)
{
    char c;
    int client = dial(at), served;
    CU_ASSERT(wi_socket_poll(fd, POLLIN, in_ms(10000)) != 0);
    served = wi_socket_accept(fd);
    CU_ASSERT_FATAL(served >= 0);
    wi_fd_close(served);
    CU_ASSERT_EQUAL(recv(client, &c, 1, 0), 0);
    close(client);
}

static void other_users(void)
{
    struct sockaddr_in at;
    if (geteuid() != 0) {
        wt_skip("only root can become another user");
        return;
    }
    int fd = serve(&at);
    captured = 0;
    coveted = &at;
    for (int again = 0; again < 3; again++) {
        serve_once(fd, &at);
        wi_socket_listen_no_more(fd);
        try_to_capture();
        CU_ASSERT_EQUAL(wi_socket_listen_again(fd, in_ms(10000)), 0);
    }
    coveted = NULL;
    CU_ASSERT_EQUAL(captured, 0);
    wi_fd_close(fd);
}

static void same_user(void)
{
    struct wi_rendezvous r;
    struct wi_sockaddr bound[2];
    struct sockaddr_in at;
    int fds[2] = {-1, -1}, fd = serve(&at);
    CU_ASSERT_EQUAL(serve_at(&at), -1);
    CU_ASSERT_EQUAL(errno, EADDRINUSE);
    wi_socket_listen_no_more(fd);
    CU_ASSERT_EQUAL(serve_at(&at), -1);
    CU_ASSERT_EQUAL(errno, EADDRINUSE);
    wi_fd_close(fd);
    /* two jobs that look for the same ports */
    wi_rendezvous_init(&r);
    snprintf(r.host, sizeof(r.host), "127.0.0.1");
    wi_rendezvous_derive_ports(&r, "two jobs of one name", 8);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(wi_rendezvous_listen(&r, in_ms(1000), &fds[i], &bound[i]), WEFT_SUCCESS);
        wi_socket_listen_no_more(fds[i]);
    }
    CU_ASSERT_NOT_EQUAL(wi_sockaddr_port(&bound[0]), wi_sockaddr_port(&bound[1]));
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(wi_socket_listen_again(fds[i], in_ms(1000)), 0);
        wi_fd_close(fds[i]);
    }
}

/* The next job gets the port at once, whatever is left of this one's connections. */
static void just_used(void)
{
    struct sockaddr_in at;
    int fd = serve(&at);
    for (int job = 0; job < 3; job++) {
        serve_once(fd, &at);
        wi_fd_close(fd);
        fd = serve_at(&at);
        CU_ASSERT_FATAL(fd >= 0);
    }
    wi_fd_close(fd);
}

static void in_use_for_a_while(void)
{
    struct sockaddr_in at;
    int fd = serve(&at);
    wi_socket_listen_no_more(fd);
    listens_to_fail = 5;
    CU_ASSERT_EQUAL(wi_socket_listen_again(fd, in_ms(10000)), 0);
    CU_ASSERT_EQUAL(listens_to_fail, 0);
    serve_once(fd, &at);
    wi_socket_listen_no_more(fd);
    listens_to_fail = 1 << 30;
    CU_ASSERT_EQUAL(wi_socket_listen_again(fd, wi_deadline_ns(30 * MS)), -1);
    CU_ASSERT_EQUAL(errno, EADDRINUSE);
    listens_to_fail = 0;
    wi_fd_close(fd);
}

/* What weft-run hands to rank 0. A child has it no more, unless its number is another file's by now. */
static void given_socket(void)
{
    for (int reused = 0; reused < 2; reused++) {
        struct wi_rendezvous r;
        struct wi_sockaddr bound;
        struct sockaddr_in at;
        int fd, given, status = -1;
        wi_fd_close(serve(&at));
        given = bind_as(&at, 0);
        CU_ASSERT_FATAL(given >= 0);
        wi_rendezvous_init(&r);
        r.listen_fd = given;
        CU_ASSERT_EQUAL_FATAL(wi_rendezvous_listen(&r, in_ms(1000), &fd, &bound), WEFT_SUCCESS);
        if (reused)
            CU_ASSERT_EQUAL(dup2(STDIN_FILENO, given), given);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit((fcntl(given, F_GETFD) >= 0) != reused || fcntl(fd, F_GETFD) >= 0);
        CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
        wi_fd_close(fd);
        close(given);
    }
}

/* ---- Local names ---- */

static void local_name(void)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_id id;
    struct wi_rendezvous r;
    struct stat before, after;
    int fds[2], pending, early, late;
    CU_ASSERT_EQUAL_FATAL(wi_id_listen(&s, 1, &id, fds), WEFT_SUCCESS);
    wi_id_rendezvous(&id, &r);
    CU_ASSERT_EQUAL_FATAL(r.nfixed, 1);
    CU_ASSERT_EQUAL(fstat(fds[0], &before), 0);
    wi_rendezvous_close(wi_fd_keep(dup(fds[0]))); /* as a store ends */
    CU_ASSERT_EQUAL(wi_socket_listen(&r.fixed[0], "test"), -1);
    CU_ASSERT_EQUAL(errno, EADDRINUSE);
    early = wi_socket_connect(&r.fixed[0], &pending); /* waits */
    CU_ASSERT(early >= 0);
    CU_ASSERT_EQUAL(wi_socket_connect(&r.fixed[0], &pending), -1);
    CU_ASSERT_EQUAL(errno, EAGAIN);
    CU_ASSERT_EQUAL(wi_id_listen_again(fds, in_ms(1000)), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(fstat(fds[0], &after), 0);
    CU_ASSERT_EQUAL(before.st_ino, after.st_ino); /* the name was not given away and bound anew */
    late = wi_socket_connect(&r.fixed[0], &pending);
    CU_ASSERT(late >= 0);
    for (int i = 0; i < 2; i++) {
        int served = wi_socket_accept(fds[0]);
        CU_ASSERT(served >= 0);
        wi_fd_close(served);
    }
    wi_fd_close(early);
    wi_fd_close(late);
    wi_fd_close(fds[0]);
}

static const struct wt_case cases[] = {
    {"another user cannot take a port that does not listen", other_users},
    {"nor another job of the same user", same_user},
    {"the next job has the port at once", just_used},
    {"a port in use is waited for until the deadline", in_use_for_a_while},
    {"a local name is not given away", local_name},
    {"a forked child has not the socket that was given", given_socket},
};
WT_UNIT_MAIN("held_ports", cases)
