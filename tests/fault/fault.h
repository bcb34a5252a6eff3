/* What the fault tests share: a communicator over a chosen transport, and stop-watches.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FT_FAULT_H
#define FT_FAULT_H

#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

#include "tests/harness/harness.h"

#define FT_MS 1000000ull

struct ft_rank {
    weft_context *context;
    weft_comm *comm;
    int rank, nranks;
};

__attribute__((unused)) static void ft_open(struct ft_rank *f, const char *transport, uint64_t timeout_ms, int rank,
                                            int nranks)
{
    char setting[64];
    const char *settings[] = {setting, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    int one = 1, sum = 0;

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", transport);
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(f->comm, timeout_ms * FT_MS));
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

__attribute__((unused)) static weft_error ft_error(const struct ft_rank *f)
{
    weft_error e = WEFT_ERROR_INIT;

    WT_REQUIRE_OK(weft_last_error(f->comm, &e));
    WT_CHECK(e.host && *e.host && e.operation && e.message && e.advice && *e.advice);
    WT_CHECK_INT(e.rank, f->rank);
    return e;
}

#endif
