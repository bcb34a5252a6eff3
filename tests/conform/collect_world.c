/* Contexts and communicators of the suite's ranks.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collect.h"

#include "tests/harness/harness.h"

void cc_world_open(struct cc_world *w, const struct cc_fixture *fixture, int rank, int nranks)
{
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, rank, nranks, wt_exchange, NULL};
    weft_status st;

    *w = (struct cc_world){.fixture = fixture, .rank = rank, .nranks = nranks};
    config.settings = fixture->settings;
    WT_REQUIRE_OK(weft_context_create(&config, &w->context));
    wt_check_settings(w->context, config.settings);
    st = fixture->threads ? weft_comm_create_oob(w->context, &oob, NULL, &w->comm)
                          : weft_comm_create_env(w->context, NULL, &w->comm);
    if (st < 0) {
        wt_fail(__FILE__, __LINE__, "communicator over %s: %s: %s", fixture->name, weft_status_name(st),
                weft_thread_error());
        wt_rank_end();
    }
    WT_REQUIRE_OK(cc_make_ops(w));
}

void cc_world_close(struct cc_world *w)
{
    WT_CHECK_OK(weft_op_destroy(w->user[0]));
    WT_CHECK_OK(weft_op_destroy(w->user[1]));
    WT_CHECK_OK(weft_comm_destroy(w->comm));
    WT_CHECK_OK(weft_context_destroy(w->context));
}
