/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run: pass on output and signals, notice ends, end the rest. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weft_run.h"

#define PREFIX_MAX 16

struct watch {
    struct run_job *job;
    int code;                  /* of the first failure */
    int lost;                  /* output could not be written: the exit status says so when nothing else is wrong */
    int ending, killed, quiet; /* quiet: ranks end because they were told to */
    uint64_t kill_at_ms, timeout_at_ms;
    int signal_fd;
    struct pollfd *fds;
    struct run_stream **streams;
};

static uint64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void signal_ranks(const struct run_job *job, int signo)
{
    for (int i = 0; i < job->nranks; i++)
        if (job->ranks[i].pid > 0)
            kill(-job->ranks[i].pid, signo);
}

/* Stopped ranks must run to notice SIGTERM. */
static void end_ranks(struct watch *w, int signo)
{
    if (!w->ending)
        w->kill_at_ms = now_ms() + RUN_GRACE_MS;
    w->ending = 1;
    signal_ranks(w->job, signo);
    signal_ranks(w->job, SIGCONT);
}

static void kill_ranks(struct watch *w)
{
    w->killed = 1;
    signal_ranks(w->job, SIGKILL);
}

/* The reader of our output has gone: the job ends as a program in a pipe would. A full disk does not end it. */
static void output_failed(struct watch *w, int to)
{
    if (errno == EPIPE && !w->ending) {
        w->code = w->code ? w->code : 128 + SIGPIPE;
        w->quiet = 1;
        end_ranks(w, SIGTERM);
    }
    if (errno != EPIPE && !w->lost) {
        w->lost = 1;
        run_complain("what ranks print cannot be written to standard %s and is lost: %s",
                     to == STDOUT_FILENO ? "output" : "error", strerror(errno));
    }
}

static void write_out(struct watch *w, int to, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(to, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) { /* another process made it non-blocking */
            struct pollfd p = {.fd = to, .events = POLLOUT};
            poll(&p, 1, -1);
            continue;
        }
        if (n < 0) {
            output_failed(w, to);
            return;
        }
        text += n;
        bytes -= (size_t)n;
    }
}

/* Write `bytes` of the line buffer: whole lines, or a piece of one that is too long. */
static void stream_flush(struct watch *w, int rank, struct run_stream *stream, size_t bytes, int ends)
{
    char head[PREFIX_MAX];
    int prefix = 0;
    if (!w->job->options->no_prefix && !stream->mid_line)
        prefix = snprintf(head, sizeof(head), "[%d] ", rank);
    memcpy(stream->line - prefix, head, (size_t)prefix);
    write_out(w, stream->to, stream->line - prefix, bytes + (size_t)prefix);
    stream->mid_line = !ends;
    stream->line_bytes -= bytes;
    memmove(stream->line, stream->line + bytes, stream->line_bytes);
}

static void stream_end(struct watch *w, int rank, struct run_stream *stream)
{
    if (stream->line_bytes || stream->mid_line) {
        if (!w->job->options->no_prefix)
            stream->line[stream->line_bytes++] = '\n';
        stream_flush(w, rank, stream, stream->line_bytes, 1);
    }
    if (stream->line)
        free(stream->line - PREFIX_MAX);
    stream->line = NULL;
    close(stream->fd);
    stream->fd = -1;
}

/* Room for the prefix lies before the line, room for a newline behind it. */
static int stream_prepare(struct run_stream *stream)
{
    if (stream->line)
        return 0;
    char *memory = malloc(PREFIX_MAX + RUN_LINE_MAX + 1);
    if (!memory)
        return -1;
    stream->line = memory + PREFIX_MAX;
    return 0;
}

/* Returns 0 when there is nothing more to read for now. */
static int stream_read(struct watch *w, int rank, struct run_stream *stream)
{
    if (stream_prepare(stream))
        return 0;
    ssize_t n = read(stream->fd, stream->line + stream->line_bytes, RUN_LINE_MAX - stream->line_bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        stream_end(w, rank, stream);
        return 0;
    }
    stream->line_bytes += (size_t)n;
    for (char *end; (end = memchr(stream->line, '\n', stream->line_bytes)) != NULL;)
        stream_flush(w, rank, stream, (size_t)(end - stream->line) + 1, 1);
    if (stream->line_bytes == RUN_LINE_MAX)
        stream_flush(w, rank, stream, RUN_LINE_MAX, 0);
    return 1;
}

static void rank_drain(struct watch *w, struct run_rank *rank)
{
    for (int i = 0; i < 2; i++)
        while (rank->out[i].fd >= 0 && stream_read(w, rank->rank, &rank->out[i]))
            ;
}

static void rank_ended(struct watch *w, struct run_rank *rank, int status)
{
    int failed = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
    rank_drain(w, rank);
    if (failed && !w->code && !w->quiet) {
        w->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            run_complain("rank %d (pid %d) was ended by signal %d (%s)%s", rank->rank, (int)rank->pid, WTERMSIG(status),
                         strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
        else
            run_complain("rank %d (pid %d) exited with code %d", rank->rank, (int)rank->pid, WEXITSTATUS(status));
        rank->pid = 0;
        w->quiet = 1;
        if (!w->ending)
            end_ranks(w, SIGTERM);
    }
    rank->pid = 0;
    w->job->nalive--;
}

/* What a rank left running in its process group ends with it; the group must be told before its leader is reaped. */
static void reap(struct watch *w)
{
    for (int i = 0; i < w->job->nranks; i++) {
        struct run_rank *rank = &w->job->ranks[i];
        siginfo_t info = {.si_pid = 0};
        int status;
        if (rank->pid <= 0 || waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
            continue;
        kill(-rank->pid, SIGKILL);
        if (waitpid(rank->pid, &status, 0) == rank->pid)
            rank_ended(w, rank, status);
    }
}

/* A second request to end is meant. */
static void on_signal(struct watch *w, int signo)
{
    if (signo == SIGCHLD)
        return;
    if (signo == SIGUSR1 || signo == SIGUSR2) {
        signal_ranks(w->job, signo);
        return;
    }
    if (w->ending) {
        kill_ranks(w);
        return;
    }
    end_ranks(w, signo);
}

static void read_signals(struct watch *w)
{
    struct signalfd_siginfo info;
    while (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
        on_signal(w, (int)info.ssi_signo);
}

static void on_timeout(struct watch *w)
{
    w->timeout_at_ms = 0;
    if (w->ending)
        return;
    char list[200] = "";
    size_t at = 0;
    for (int i = 0; i < w->job->nranks && at + 16 < sizeof(list); i++)
        if (w->job->ranks[i].pid > 0)
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", at ? ", " : "", i);
    run_complain("the job ran longer than %.3g s; still running: %s %s", (double)w->job->options->timeout_ms / 1e3,
                 w->job->nalive == 1 ? "rank" : "ranks", list);
    w->code = RUN_EXIT_TIMEOUT;
    w->quiet = 1;
    end_ranks(w, SIGTERM);
}

static int poll_timeout(const struct watch *w)
{
    uint64_t now = now_ms(), at = UINT64_MAX;
    if (w->ending && !w->killed)
        at = w->kill_at_ms;
    if (w->timeout_at_ms && w->timeout_at_ms < at)
        at = w->timeout_at_ms;
    if (at == UINT64_MAX)
        return -1;
    return at <= now ? 0 : at - now > 1000000 ? 1000000 : (int)(at - now);
}

static void watch_round(struct watch *w)
{
    nfds_t n = 0;
    w->fds[n++] = (struct pollfd){.fd = w->signal_fd, .events = POLLIN};
    for (int i = 0; i < w->job->nranks; i++) {
        for (int k = 0; k < 2; k++) {
            if (w->job->ranks[i].out[k].fd < 0)
                continue;
            w->streams[n] = &w->job->ranks[i].out[k];
            w->fds[n] = (struct pollfd){.fd = w->job->ranks[i].out[k].fd, .events = POLLIN};
            n++;
        }
    }
    int ready = poll(w->fds, n, poll_timeout(w));
    for (nfds_t i = 1; ready > 0 && i < n; i++) {
        if (!w->fds[i].revents)
            continue;
        struct run_rank *rank = &w->job->ranks[0];
        while (w->streams[i] != &rank->out[0] && w->streams[i] != &rank->out[1])
            rank++;
        stream_read(w, rank->rank, w->streams[i]);
    }
    if (ready > 0 && w->fds[0].revents)
        read_signals(w);
    reap(w);
    uint64_t now = now_ms();
    if (w->ending && !w->killed && now >= w->kill_at_ms)
        kill_ranks(w);
    if (w->timeout_at_ms && now >= w->timeout_at_ms)
        on_timeout(w);
}

static int open_signals(void)
{
    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int run_watch(struct run_job *job, int started)
{
    struct watch w = {
        .job = job, .signal_fd = open_signals(), .quiet = !started, .ending = !started, .killed = !started};
    size_t slots = 2 * (size_t)job->nranks + 1;
    w.fds = calloc(slots, sizeof(*w.fds));
    w.streams = calloc(slots, sizeof(struct run_stream *));
    if (job->options->timeout_ms)
        w.timeout_at_ms = now_ms() + job->options->timeout_ms;
    if (w.signal_fd < 0 || !w.fds || !w.streams) {
        run_complain("cannot watch the ranks: %s", strerror(errno));
        signal_ranks(job, SIGKILL);
        w.code = 1;
    } else {
        while (job->nalive)
            watch_round(&w);
    }
    for (int i = 0; i < job->nranks; i++)
        for (int k = 0; k < 2; k++)
            if (job->ranks[i].out[k].fd >= 0)
                stream_end(&w, job->ranks[i].rank, &job->ranks[i].out[k]);
    free(w.fds);
    free(w.streams);
    if (w.signal_fd >= 0)
        close(w.signal_fd);
    return w.code ? w.code : w.lost;
}
