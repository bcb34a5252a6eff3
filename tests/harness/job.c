/* Ranks as forked processes: environment, captured output, deadline, report.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/harness/harness.h"
#include "tests/harness/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_SHOWN_BYTES = 16384, MAX_EXIT_FAILURES = 100 };

struct wt_proc {
    pid_t pid;
    int pidfd;  /* -1: the kernel has none */
    int output; /* memfd */
    int expect_signal;
    int ended, stuck;
    int status;
    char where[128]; /* of a stuck rank */
};

struct wt_job {
    int nranks, started;
    int store_fd, store_port;
    char name[64];
    struct wt_shared *shared;
    _Atomic char *returned; /* [nranks], shared with the ranks: it has left its function as it should */
    struct pollfd *fds;     /* [nranks] */
    struct wt_proc procs[];
};

/* ---- The child ---- */

static _Atomic char *returned; /* this rank's */

void wt_rank_leaves(void)
{
    *returned = 1;
}

static void set_int(const char *name, long value)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

static void set_environment(const struct wt_job *job, int rank)
{
    static const char *const foreign[] = {"RANK",
                                          "WORLD_SIZE",
                                          "LOCAL_RANK",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "PMI_FD",
                                          "PMI_RANK",
                                          "PMI_SIZE",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "LOCAL_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        unsetenv(foreign[i]);
    set_int("WEFT_RANK", rank);
    set_int("WEFT_NRANKS", job->nranks);
    set_int("WEFT_LOCAL_RANK", rank);
    set_int("WEFT_LOCAL_NRANKS", job->nranks);
    setenv("WEFT_STORE_ADDR", "127.0.0.1", 1);
    set_int("WEFT_STORE_PORT", job->store_port);
    setenv("WEFT_JOB", job->name, 1);
    if (rank == 0)
        set_int("WEFT_STORE_FD", job->store_fd);
    else
        unsetenv("WEFT_STORE_FD");
}

static _Noreturn void play_rank(struct wt_job *job, int rank, wt_rank_fn fn, void *arg)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(job->procs[rank].output, STDOUT_FILENO);
    dup2(job->procs[rank].output, STDERR_FILENO);
    for (int r = 0; r < job->nranks; r++) {
        if (job->procs[r].output >= 0)
            close(job->procs[r].output);
        if (r < rank && job->procs[r].pidfd >= 0)
            close(job->procs[r].pidfd);
    }
    if (rank != 0)
        close(job->store_fd);
    set_environment(job, rank);
    wt_self = (struct wt_self){.rank = rank, .forked = 1, .shared = job->shared};
    wt_process_rank = rank;
    wt_process_failures = 0;
    returned = &job->returned[rank];
    if (setjmp(wt_self.end) == 0)
        fn(rank, job->nranks, arg);
    *returned = 1;
    int failures = wt_failures();
    fflush(NULL);
    exit(failures > MAX_EXIT_FAILURES ? MAX_EXIT_FAILURES : failures);
}

/* ---- Starting ---- */

static int store_bind(const struct sockaddr_in *addr)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)addr, sizeof *addr)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* As weft-run does: bound by number, so that it keeps its port when it stops listening. */
static int store_listen(int *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t addr_bytes = sizeof addr;
    int fd = -1, first = store_bind(&addr);
    if (first >= 0 && !getsockname(first, (struct sockaddr *)&addr, &addr_bytes))
        fd = store_bind(&addr);
    close(first);
    if (fd >= 0 && listen(fd, 1024)) {
        close(fd);
        fd = -1;
    }
    *port = ntohs(addr.sin_port);
    return fd;
}

static void *shared_zeroes(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static struct wt_shared *shared_create(int nranks)
{
    struct wt_shared *shared = shared_zeroes(sizeof *shared);
    if (!shared)
        return NULL;
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, (unsigned)nranks);
    pthread_barrierattr_destroy(&attr);
    return shared;
}

static void job_free(struct wt_job *job)
{
    for (int r = 0; r < job->nranks; r++) {
        if (job->procs[r].pidfd >= 0)
            close(job->procs[r].pidfd);
        if (job->procs[r].output >= 0)
            close(job->procs[r].output);
    }
    if (job->store_fd >= 0)
        close(job->store_fd);
    if (job->shared)
        munmap(job->shared, sizeof *job->shared);
    if (job->returned)
        munmap((void *)job->returned, (size_t)job->nranks);
    free(job->fds);
    free(job);
}

static struct wt_job *job_create(int nranks)
{
    static int count;
    struct wt_job *job = calloc(1, sizeof *job + (size_t)nranks * sizeof *job->procs);
    if (!job)
        return NULL;
    job->nranks = nranks;
    for (int r = 0; r < nranks; r++)
        job->procs[r].pidfd = job->procs[r].output = -1;
    snprintf(job->name, sizeof job->name, "test-%d-%d", (int)getpid(), ++count);
    job->store_fd = store_listen(&job->store_port);
    job->shared = shared_create(nranks);
    job->returned = shared_zeroes((size_t)nranks);
    job->fds = calloc((size_t)nranks, sizeof *job->fds);
    int good = job->store_fd >= 0 && job->shared && job->returned && job->fds;
    for (int r = 0; good && r < nranks; r++) {
        job->procs[r].output = memfd_create("weft-test-output", 0);
        good = job->procs[r].output >= 0 && fcntl(job->procs[r].output, F_SETFL, O_APPEND) == 0;
    }
    if (good)
        return job;
    job_free(job);
    return NULL;
}

static void kill_rank(struct wt_proc *proc)
{
    if (kill(-proc->pid, SIGKILL))
        kill(proc->pid, SIGKILL);
}

struct wt_job *wt_job_start(int nranks, wt_rank_fn fn, void *arg)
{
    struct wt_job *job = nranks > 0 ? job_create(nranks) : NULL;
    if (!job) {
        fprintf(stderr, "harness: cannot prepare %d ranks: %s\n", nranks, strerror(errno));
        return NULL;
    }
    for (int r = 0; r < nranks; r++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            play_rank(job, r, fn, arg);
        if (pid < 0) {
            fprintf(stderr, "harness: cannot fork rank %d: %s\n", r, strerror(errno));
            wt_job_wait(job, 0);
            return NULL;
        }
        setpgid(pid, pid); /* as the child does: the first of both counts */
        job->procs[r].pid = pid;
        job->procs[r].pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        job->started++;
    }
    return job;
}

pid_t wt_job_pid(const struct wt_job *job, int rank)
{
    return job->procs[rank].pid;
}

void wt_job_expect_signal(struct wt_job *job, int rank, int signum)
{
    job->procs[rank].expect_signal = signum;
}

/* ---- Waiting ---- */

/* The rank's process group is killed before the rank is reaped, while its number cannot belong to anybody else. */
static int reap_if_ended(struct wt_proc *proc)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)proc->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
        return 0;
    kill(-proc->pid, SIGKILL);
    waitpid(proc->pid, &proc->status, 0);
    proc->ended = 1;
    return 1;
}

/* Returns the number of ranks still running. */
static int wait_some(struct wt_job *job, int timeout_ms)
{
    int nfds = 0, running = 0;
    for (int r = 0; r < job->started; r++) {
        struct wt_proc *proc = &job->procs[r];
        if (proc->ended || reap_if_ended(proc))
            continue;
        running++;
        if (proc->pidfd >= 0)
            job->fds[nfds++] = (struct pollfd){.fd = proc->pidfd, .events = POLLIN};
    }
    if (running && timeout_ms > 0)
        poll(job->fds, (nfds_t)nfds, nfds == running ? timeout_ms : 5);
    return running;
}

static void note_where(struct wt_proc *proc)
{
    char path[64], line[96] = "";
    snprintf(path, sizeof path, "/proc/%d/wchan", (int)proc->pid);
    FILE *in = fopen(path, "r");
    if (in && !fgets(line, sizeof line, in))
        line[0] = '\0';
    if (in)
        fclose(in);
    snprintf(proc->where, sizeof proc->where, "%s%s", line[0] && line[0] != '0' ? " in " : "",
             line[0] != '0' ? line : "");
}

static void wait_for(struct wt_job *job, unsigned left)
{
    for (;;) {
        unsigned step = left < WT_STEP_MS ? left : WT_STEP_MS;
        uint64_t before = wt_now_ms();
        if (wait_some(job, (int)step) == 0)
            return;
        if (left == 0)
            break;
        uint64_t passed = wt_now_ms() - before;
        left -= passed < step ? (unsigned)passed : step;
    }
    for (int r = 0; r < job->started; r++) {
        struct wt_proc *proc = &job->procs[r];
        if (proc->ended)
            continue;
        proc->stuck = 1;
        note_where(proc);
    }
    for (int r = 0; r < job->started; r++)
        if (job->procs[r].stuck)
            kill_rank(&job->procs[r]);
    while (wait_some(job, 1000) > 0)
        ;
}

/* ---- Reporting ---- */

static int rank_failed(const struct wt_job *job, int rank)
{
    const struct wt_proc *proc = &job->procs[rank];
    if (proc->stuck)
        return 1;
    if (proc->expect_signal)
        return !WIFSIGNALED(proc->status) || WTERMSIG(proc->status) != proc->expect_signal;
    return proc->status != 0 || !job->returned[rank];
}

static void show_output(FILE *out, const struct wt_proc *proc, int rank)
{
    char buf[OUTPUT_SHOWN_BYTES + 1];
    off_t bytes = lseek(proc->output, 0, SEEK_END);
    off_t from = bytes > OUTPUT_SHOWN_BYTES ? bytes - OUTPUT_SHOWN_BYTES : 0;
    ssize_t got = pread(proc->output, buf, OUTPUT_SHOWN_BYTES, from);
    if (got <= 0)
        return;
    buf[got] = '\0';
    if (from > 0)
        fprintf(out, "rank %d | (%lld bytes before this)\n", rank, (long long)from);
    char *save = NULL;
    for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        fprintf(out, "rank %d | %s\n", rank, line);
}

static void report_rank(FILE *out, const struct wt_job *job, int rank)
{
    const struct wt_proc *proc = &job->procs[rank];
    int bad = rank_failed(job, rank);
    if (proc->stuck)
        fprintf(out, "rank %d: stuck at the deadline%s, killed\n", rank, proc->where);
    else if (WIFSIGNALED(proc->status) && bad)
        fprintf(out, "rank %d: ended by signal %d (%s)\n", rank, WTERMSIG(proc->status),
                strsignal(WTERMSIG(proc->status)));
    else if (proc->expect_signal && bad)
        fprintf(out, "rank %d: exit status %d instead of signal %d\n", rank, WEXITSTATUS(proc->status),
                proc->expect_signal);
    else if (bad)
        fprintf(out, "rank %d: exit status %d%s\n", rank, WEXITSTATUS(proc->status),
                job->returned[rank] ? "" : ", without having returned from its function");
}

int wt_job_wait(struct wt_job *job, unsigned deadline_ms)
{
    wait_for(job, wt_slow_ms(deadline_ms));
    int failed = 0;
    for (int r = 0; r < job->started; r++)
        failed += rank_failed(job, r);
    if (failed) {
        FILE *out = wt_report_open();
        fprintf(out, "%d of %d ranks failed:\n", failed, job->nranks);
        for (int r = 0; r < job->started; r++)
            report_rank(out, job, r);
        for (int r = 0; r < job->started; r++)
            show_output(out, &job->procs[r], r);
        wt_report_close(out);
    }
    job_free(job);
    return failed;
}

int wt_run(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms)
{
    struct wt_job *job = wt_job_start(nranks, fn, arg);
    return job ? wt_job_wait(job, deadline_ms) : -1;
}
