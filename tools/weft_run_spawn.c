/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run: make the ranks. The job key and the store's bound socket travel as inherited descriptors, so that neither
 * can be read from arguments or taken by another process. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "weft_run.h"

#define PORT_TRIES 16

/* Without SO_REUSEADDR, so that no other process can bind the port while it does not listen. */
static int bind_store(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!bind(fd, (const struct sockaddr *)at, sizeof(*at)))
        return fd;
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Rank 0 listens, and only while ranks join. The port is bound by number, for one that the kernel chose would be given back when it
 * stops. */
static int open_store(struct run_job *job)
{
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof(at);
        int first = bind_store(&at);
        if (first < 0 || getsockname(first, (struct sockaddr *)&at, &bytes))
            return -1;
        close(first);
        job->store_fd = bind_store(&at);
        job->store_port = ntohs(at.sin_port);
        if (job->store_fd >= 0 || errno != EADDRINUSE) /* another process took it meanwhile */
            break;
    }
    return job->store_fd < 0 ? -1 : 0;
}

static int open_key(struct run_job *job)
{
    unsigned char key[RUN_KEY_BYTES];
    uint32_t nonce;
    if (getrandom(key, sizeof(key), 0) != sizeof(key) || getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        return -1;
    job->key_fd = memfd_create("weft-job-key", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int ok = job->key_fd >= 0 && write(job->key_fd, key, sizeof(key)) == sizeof(key);
    explicit_bzero(key, sizeof(key));
    if (ok)
        fcntl(job->key_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    snprintf(job->name, sizeof(job->name), "weft-run:%d:%08x", (int)getpid(), nonce);
    return ok ? 0 : -1;
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

static void child_environment(const struct run_job *job, int rank)
{
    set_number("WEFT_RANK", rank);
    set_number("WEFT_NRANKS", job->nranks);
    set_number("WEFT_LOCAL_RANK", rank);
    set_number("WEFT_LOCAL_NRANKS", job->nranks);
    setenv("WEFT_STORE_ADDR", "127.0.0.1", 1);
    set_number("WEFT_STORE_PORT", job->store_port);
    setenv("WEFT_JOB", job->name, 1);
    set_number("WEFT_JOB_KEY_FD", job->key_fd);
    unsetenv("WEFT_JOB_KEY_FILE");
    unsetenv("WEFT_JOB_KEY");
    unsetenv("WEFT_STORE_FD");
    fcntl(job->key_fd, F_SETFD, 0);
    if (rank == 0) {
        set_number("WEFT_STORE_FD", job->store_fd);
        fcntl(job->store_fd, F_SETFD, 0);
    }
    for (int i = 0; i < job->options->nenv; i++)
        putenv(job->options->env[i]);
}

static void child_input(int rank)
{
    if (rank == 0 && !isatty(STDIN_FILENO))
        return;
    int fd = open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) {
        dup2(fd, STDIN_FILENO);
        close(fd);
    }
}

static void child_run(const struct run_job *job, int rank, pid_t parent, const int out[2], int report)
{
    sigset_t none;
    /* Its own process group, so that what it starts ends with it; and it ends when weft-run does. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(out[0], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    child_input(rank);
    child_environment(job, rank);
    run_bind_self(job, rank);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(job->options->program[0], job->options->program);
    int err = errno;
    if (write(report, &err, sizeof(err)) < 0)
        _exit(1);
    _exit(127);
}

static int spawn_rank(struct run_job *job, int rank, int report)
{
    struct run_rank *r = &job->ranks[rank];
    pid_t parent = getpid();
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    int ok = !pipe2(pipes[0], O_CLOEXEC) && !pipe2(pipes[1], O_CLOEXEC);
    pid_t pid = ok ? fork() : -1;
    if (pid == 0) {
        const int out[2] = {pipes[0][1], pipes[1][1]};
        child_run(job, rank, parent, out, report);
    }
    int err = errno;
    for (int i = 0; i < 2; i++) {
        if (pipes[i][1] >= 0)
            close(pipes[i][1]);
        if (pid < 0 && pipes[i][0] >= 0)
            close(pipes[i][0]);
        r->out[i] = (struct run_stream){.fd = pid < 0 ? -1 : pipes[i][0], .to = i + 1};
        if (pid > 0)
            fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    if (pid < 0) {
        run_complain("rank %d of %d cannot be started: %s", rank, job->nranks, strerror(err));
        return 1;
    }
    setpgid(pid, pid);
    r->rank = rank;
    r->pid = pid;
    job->nalive++;
    return 0;
}

static void kill_all(const struct run_job *job)
{
    for (int i = 0; i < job->nranks; i++)
        if (job->ranks[i].pid > 0)
            kill(-job->ranks[i].pid, SIGKILL);
}

/* The report pipe closes by itself in every rank that begins to run the program. */
static int wait_for_exec(const struct run_job *job, int report)
{
    int err;
    ssize_t n;
    while ((n = read(report, &err, sizeof(err))) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof(err))
        return 0;
    kill_all(job);
    run_complain("cannot run '%s': %s", job->options->program[0], strerror(err));
    return err == ENOENT ? 127 : 126;
}

int run_spawn(struct run_job *job)
{
    int report[2], code = 0;
    job->ranks = calloc((size_t)job->nranks, sizeof(*job->ranks));
    if (!job->ranks || open_store(job) || open_key(job) || pipe2(report, O_CLOEXEC)) {
        run_complain("cannot set the job up: %s", strerror(errno));
        return 1;
    }
    for (int rank = 0; rank < job->nranks && !code; rank++)
        code = spawn_rank(job, rank, report[1]);
    close(report[1]);
    if (code)
        kill_all(job);
    else
        code = wait_for_exec(job, report[0]);
    close(report[0]);
    close(job->store_fd);
    close(job->key_fd);
    return code;
}
