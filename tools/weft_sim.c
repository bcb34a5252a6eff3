/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim: what collectives, and the communication of a training step, take on a machine that need not exist. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "tool.h"
#include "weft_sim.h"

static weft_status run(const struct sim_options *o)
{
    struct sim_world w = {0};
    struct wi_sim_result *r = NULL;
    struct sim_call call = {0};
    double us = 0;
    weft_status st = sim_world_make(o, &w);

    if (st >= 0 && o->step) {
        st = sim_step_run(o, &w);
    } else if (st >= 0 && o->algo && !strcmp(o->algo, "all")) {
        st = sim_compare(o, &w);
    } else if (st >= 0) {
        st = sim_choose(o, &w, o->coll, o->bytes, o->algo, &call);
        if (st >= 0)
            st = sim_call_run(o, &w, &call, w.start_us, o->timeline || o->critical || o->perfetto, &r, &us);
        if (st >= 0)
            st = sim_report(o, &w, &call, r, us);
    }
    wi_sim_result_free(r);
    sim_world_free(&w);
    return st;
}

int main(int argc, char **argv)
{
    struct sim_options o;
    int status = sim_options_parse(argc, argv, &o);

    if (status >= 0)
        return status ? status : tool_output_lost("weft-sim");
    if (run(&o) < 0) {
        fprintf(stderr, "weft-sim: %s\n", wi_fail_text());
        return 1;
    }
    return tool_output_lost("weft-sim");
}
