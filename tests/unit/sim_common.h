/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of simulator and cost share: schedules of all ranks, one run. */
#ifndef SIM_COMMON_H
#define SIM_COMMON_H

#include <math.h>

#include "algo/list.h"
#include "base/status.h"
#include "sim/sim.h"
#include "tests/unit/unit.h"

#define SIM_MAX_RANKS 1024

static struct wi_sched *sim_scheds[SIM_MAX_RANKS];
static int sim_nscheds;

static inline void sim_put(void)
{
    while (sim_nscheds > 0)
        wi_sched_put(sim_scheds[--sim_nscheds]);
}

static inline int sim_build(const struct wi_algo *algo, int nranks, int root, int in_place)
{
    struct wi_algo_args args = {.nranks = nranks, .root = root, .in_place = in_place};

    sim_put();
    for (int r = 0; r < nranks; r++) {
        args.rank = r;
        if (algo->build(&args, &sim_scheds[r]) < 0) {
            printf("# %s %s: %s\n", wi_coll_name(algo->coll), algo->name, wi_fail_text());
            CU_FAIL("build");
            return -1;
        }
        sim_nscheds++;
    }
    return 0;
}

static inline struct wi_sim_result *sim_try(size_t bytes, const struct wi_model *model, const struct wi_sim_options *o)
{
    struct wi_sim_result *r = NULL;

    wi_fail_clear();
    return wi_sim_run((const struct wi_sched *const *)sim_scheds, sim_nscheds, bytes, model, o, &r) < 0 ? NULL : r;
}

static inline struct wi_sim_result *sim_run(const char *what, size_t bytes, const struct wi_model *model,
                                            const struct wi_sim_options *o)
{
    struct wi_sim_result *r = sim_try(bytes, model, o);

    if (!r) {
        printf("# %s, P = %d: %s\n", what, sim_nscheds, wi_fail_text());
        CU_FAIL("simulation");
    }
    return r;
}

/* Finish time of an algorithm by name on a uniform network. */
static inline double sim_uniform(enum wi_coll coll, const char *name, int nranks, size_t bytes, double alpha,
                                 double beta, double gamma, const struct wi_sim_options *o)
{
    struct wi_model *m = NULL;
    double us = NAN;

    CU_ASSERT_FATAL(wi_model_uniform(nranks, alpha, beta, gamma, &m) >= 0);
    if (!sim_build(wi_algo_find(coll, name), nranks, 0, 1)) {
        struct wi_sim_result *r = sim_run(name, bytes, m, o);
        us = r ? r->finish_us : NAN;
        wi_sim_result_free(r);
    }
    sim_put();
    wi_model_destroy(m);
    return us;
}

static inline int sim_suits(const struct wi_algo *a, int nranks, int in_place)
{
    return !wi_algo_ranks_needed(a->needs, nranks) && !(a->needs & WI_ALGO_NO_IN_PLACE && in_place);
}

#endif
