/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run: start N ranks of a program on this machine. */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_NRANKS_MAX 4096
#define RUN_LINE_MAX 65536
#define RUN_GRACE_MS 5000
#define RUN_KEY_BYTES 32
#define RUN_EXIT_USAGE 2
#define RUN_EXIT_TIMEOUT 124

enum run_bind { RUN_BIND_AUTO, RUN_BIND_CORE, RUN_BIND_NUMA, RUN_BIND_NONE };

struct run_options {
    int nranks;            /* 0: one per core */
    enum run_bind bind;
    uint64_t timeout_ms;   /* 0: none */
    int no_prefix;
    const char *make_key;  /* file to write a key to; NULL: run a program */
    char **env;            /* "NAME=value" */
    int nenv;
    char **program;
};

/* One of a rank's two output pipes. */
struct run_stream {
    int fd, to;            /* -1 once ended; 1 or 2 */
    char *line;            /* what has come of the current line */
    size_t line_bytes;
    int mid_line;          /* part of this line has been written already */
};

struct run_rank {
    int rank;
    pid_t pid;             /* 0 once reaped */
    struct run_stream out[2];
};

struct run_job {
    const struct run_options *options;
    struct run_rank *ranks;
    int nranks, nalive;
    int store_fd, store_port, key_fd;
    char name[48];
    void *topology;
};

/* weft_run_bind.c */
int run_topology_load(struct run_job *job);  /* number of cores, at least 1 */
void run_topology_unload(struct run_job *job);
void run_bind_self(const struct run_job *job, int rank);

/* weft_run_key.c: a new key into a new file ("-": standard output). Returns the exit code. */
int run_make_key(const char *path);

/* weft_run_spawn.c: 0, or the exit code after a message. */
int run_spawn(struct run_job *job);

/* weft_run_watch.c: until all have ended; returns the exit code. Signals to forward must be blocked. Without `started`
 * the ranks have been killed already and only need to be reaped. */
int run_watch(struct run_job *job, int started);

void run_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
