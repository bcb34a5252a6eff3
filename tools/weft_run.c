/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run: options. */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tool.h"
#include "weft_run.h"

static const char help[] = "usage: weft-run [options] [--] program [arguments...]\n"
                           "       weft-run --make-key FILE\n"
                           "Start N ranks of a program on this machine and wait for them, or make a key for\n"
                           "a job on several machines.\n"
                           "\n"
                           "  -n N                  number of ranks (default: one per core)\n"
                           "  --bind core|numa|none bind each rank to its share of the cores, or to a NUMA\n"
                           "                        node, in turn; with more ranks than cores, cores are\n"
                           "                        given out round robin (default: core)\n"
                           "  --timeout T           end the job after T: 90, 90s, 5min, 2h (exit code 124)\n"
                           "  --no-prefix           do not begin each line of output with \"[rank] \"\n"
                           "  --env NAME=VALUE      set a variable for the ranks; may be repeated\n"
                           "  --make-key FILE       write a new job key, for WEFT_JOB_KEY_FILE, to a new\n"
                           "                        file of mode 600; to standard output if FILE is -, as in\n"
                           "                        WEFT_JOB_KEY=$(weft-run --make-key -) srun program\n"
                           "  --help, --version\n\n"
                           "The exit code is that of the first rank that fails (128 + signal when a signal\n"
                           "ends it); the other ranks are then ended: SIGTERM, and SIGKILL five seconds\n"
                           "later. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all ranks.\n"
                           "Rank 0 reads standard input unless that is a terminal; the others read nothing.\n"
                           "On several machines use torchrun, mpirun or srun: weft programs run under them\n"
                           "as they are, with a job key.\n";

void run_complain(const char *format, ...)
{
    char text[512];
    va_list ap;
    int at = snprintf(text, sizeof(text), "weft-run: ");
    va_start(ap, format);
    at += vsnprintf(text + at, sizeof(text) - (size_t)at - 1, format, ap);
    va_end(ap);
    if (at > (int)sizeof(text) - 2)
        at = (int)sizeof(text) - 2;
    text[at++] = '\n';
    if (write(STDERR_FILENO, text, (size_t)at) < 0)
        return;
}

static int parse_count(const char *text, int *count)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > RUN_NRANKS_MAX)
        return -1;
    *count = (int)value;
    return 0;
}

static int parse_time(const char *text, uint64_t *ms)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {
        {"", 1e3}, {"s", 1e3}, {"ms", 1.0}, {"m", 6e4}, {"min", 6e4}, {"h", 36e5},
    };
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0) || value > 1e9)
        return -1;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].unit))
            continue;
        *ms = (uint64_t)(value * units[i].ms + 0.999);
        return 0;
    }
    return -1;
}

static int parse_bind(const char *text, enum run_bind *bind)
{
    if (!strcmp(text, "core"))
        *bind = RUN_BIND_CORE;
    else if (!strcmp(text, "numa"))
        *bind = RUN_BIND_NUMA;
    else if (!strcmp(text, "none"))
        *bind = RUN_BIND_NONE;
    else
        return -1;
    return 0;
}

static int parse_option(struct run_options *options, int option)
{
    switch (option) {
    case 'n':
        if (!parse_count(optarg, &options->nranks))
            return 0;
        run_complain("-n '%s': a number from 1 to %d is wanted", optarg, RUN_NRANKS_MAX);
        return -1;
    case 'b':
        if (!parse_bind(optarg, &options->bind))
            return 0;
        run_complain("--bind '%s': core, numa or none is wanted", optarg);
        return -1;
    case 't':
        if (!parse_time(optarg, &options->timeout_ms))
            return 0;
        run_complain("--timeout '%s': a time such as 90s or 5min is wanted", optarg);
        return -1;
    case 'e':
        options->env[options->nenv++] = optarg;
        if (strchr(optarg, '=') && optarg[0] != '=')
            return 0;
        run_complain("--env '%s': NAME=VALUE is wanted", optarg);
        return -1;
    case 'k':
        options->make_key = optarg;
        return 0;
    case 'P':
        options->no_prefix = 1;
        return 0;
    default:
        return -1;
    }
}

/* 0: run, 1: done, -1: bad. */
static int parse_options(int argc, char **argv, struct run_options *options)
{
    static const struct option longs[] = {
        {"bind", required_argument, NULL, 'b'}, {"timeout", required_argument, NULL, 't'},
        {"env", required_argument, NULL, 'e'},  {"make-key", required_argument, NULL, 'k'},
        {"no-prefix", no_argument, NULL, 'P'},  {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0},
    };
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:n:", longs, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout), 1;
        if (option == 'V')
            return printf("weft-run %d.%d.%d\n", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH), 1;
        if (option == '?' || option == ':') {
            run_complain(option == ':' ? "'%s' wants a value; see weft-run --help"
                                       : "'%s' is not an option; see weft-run --help",
                         argv[optind - 1]);
            return -1;
        }
        if (parse_option(options, option))
            return -1;
    }
    options->program = argv + optind;
    if (options->make_key && *options->program) {
        run_complain("--make-key runs nothing: '%s' is one argument too many", *options->program);
        return -1;
    }
    if (options->make_key || *options->program)
        return 0;
    run_complain("no program is named; see weft-run --help");
    return -1;
}

/* What is ignored already (nohup) stays so, here and in the ranks. */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
        struct sigaction old;
        if (!sigaction(forwarded[i], NULL, &old) && old.sa_handler == SIG_IGN && forwarded[i] != SIGCHLD)
            continue;
        sigaddset(&set, forwarded[i]);
    }
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
    struct run_options options = {.env = calloc((size_t)argc + 1, sizeof(char *))};
    struct run_job job = {.options = &options, .store_fd = -1, .key_fd = -1};
    int parsed = options.env ? parse_options(argc, argv, &options) : -1;
    if (parsed) {
        free(options.env);
        return parsed > 0 ? tool_output_lost("weft-run") : RUN_EXIT_USAGE;
    }
    if (options.make_key) {
        free(options.env);
        return run_make_key(options.make_key);
    }
    int cores = run_topology_load(&job);
    job.nranks = options.nranks ? options.nranks : cores;
    block_signals();
    int code = run_spawn(&job);
    if (job.nalive || !code) {
        int watched = run_watch(&job, !code);
        code = code ? code : watched;
    }
    run_topology_unload(&job);
    free(job.ranks);
    free(options.env);
    return code;
}
