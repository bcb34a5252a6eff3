/* What the fault tests share: a communicator over a chosen transport, and stop-watches.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FT_FAULT_H
#define FT_FAULT_H

#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/harness/calls.h"
#include "tests/harness/harness.h"

#define FT_MS 1000000ull

struct ft_rank {
    weft_context *context;
    weft_comm *comm;
    int rank, nranks;
};

/* "PLUGIN_PATH=…" once the fake network card is used: tests/conform/fake_rdma.c. */
__attribute__((unused)) static char ft_fake_path[600];

/* A communicator of which nothing has been called yet. */
__attribute__((unused)) static void ft_create(struct ft_rank *f, const char *transport, uint64_t timeout_ms, int rank,
                                              int nranks)
{
    char setting[64];
    const char *settings[] = {setting, ft_fake_path[0] ? ft_fake_path : NULL, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, rank, nranks, wt_exchange, NULL};

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", transport);
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    wt_check_settings(f->context, config.settings);
    WT_REQUIRE_OK(wt_is_thread() ? weft_comm_create_oob(f->context, &oob, NULL, &f->comm)
                                 : weft_comm_create_env(f->context, NULL, &f->comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(f->comm, timeout_ms * FT_MS));
}

__attribute__((unused)) static void ft_open(struct ft_rank *f, const char *transport, uint64_t timeout_ms, int rank,
                                            int nranks)
{
    int one = 1, sum = 0;

    ft_create(f, transport, timeout_ms, rank, nranks);
    WT_REQUIRE_OK(weft_all_reduce(f->comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL)); /* operation #1 */
    WT_CHECK_INT(sum, nranks);
}

/* Whatever happened before: within a second. */
__attribute__((unused)) static void ft_close(struct ft_rank *f)
{
    uint64_t began = wt_now_ms();

    WT_CHECK_OK(weft_comm_destroy(f->comm));
    WT_CHECK(wt_now_ms() - began <= wt_slow_ms(1000));
    WT_CHECK_OK(weft_context_destroy(f->context));
}

/* Run as processes over shm and tcp, and as threads over inproc, tcp and the fake network card, where ThreadSanitizer sees all
 * ranks at once. The argument of `fn` is the transport. Returns how many of the five failed. */
__attribute__((unused)) static int ft_run_everywhere(int nranks, wt_rank_fn fn, const char *what, unsigned deadline_ms)
{
    static const char *const transports[] = {"shm", "tcp", "inproc", "tcp", "fakerdma"};
    const char *dir;
    int all = 0;

    for (int i = 0; i < 5; i++) {
        void *arg = (void *)(uintptr_t)transports[i];
        if (i == 4 && !ft_fake_path[0]) {
            dir = wt_plugin_dir("fakerdma");
            snprintf(ft_fake_path, sizeof ft_fake_path, "PLUGIN_PATH=%s", dir ? dir : "/nowhere");
        }
        int t = i >= 2, failed = t ? wt_threads_apart(nranks, fn, arg, deadline_ms) : wt_run(nranks, fn, arg, deadline_ms);
        if (failed)
            printf("# %s over %s, ranks as %s: %d failed\n", what, transports[i], t ? "threads" : "processes", failed);
        all += failed != 0;
    }
    return all;
}

__attribute__((unused)) static weft_error ft_error(const struct ft_rank *f)
{
    weft_error e = WEFT_ERROR_INIT;

    WT_REQUIRE_OK(weft_last_error(f->comm, &e));
    WT_CHECK(e.host && *e.host && e.operation && e.message && e.advice && *e.advice);
    WT_CHECK_INT(e.rank, f->rank);
    return e;
}

#endif
