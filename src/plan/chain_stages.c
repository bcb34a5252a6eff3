/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a hierarchical candidate as a chain (chain.h), with the planner's rates: stages among groups by messages on the
 * links of their level, the innermost through mapped memory where that serves its groups. */
#include "plan/internal.h"
#include "sched/internal.h"

static int largest_group(const struct wi_planner *p, const struct wi_algo_level *l)
{
    int most = 1;

    for (int g = 0; g < l->ngroups; g++) {
        int n = 0;
        for (int r = 0; r < p->facts.nranks; r++)
            n += l->group[r] == g;
        most = n > most ? n : most;
    }
    return most;
}

struct wi_chain_stage wi_plan_mapped_stage(const struct wi_planner *p, const struct wi_plan_query *q,
                                           const struct wi_algo *a, int nranks)
{
    struct wi_algo_args args = {.nranks = nranks, .in_place = q->in_place};
    double share = wi_coll_is_vector(a->coll) ? 1 : 1.0 / nranks, none, one;
    struct wi_algo_cost cost;

    a->cost(&args, 0, &cost);
    none = wi_plan_mapped_us(p, q, a, &cost);
    a->cost(&args, WI_PLAN_SAMPLE * share, &cost);
    one = wi_plan_mapped_us(p, q, a, &cost);
    return (struct wi_chain_stage){
        .wait_us = none, .core_us_per_byte = (one - none) / WI_PLAN_SAMPLE, .link = WI_CHAIN_NO_LINK};
}

/* What it takes without bytes, and more for each. */
static struct wi_chain_stage message_stage(const struct wi_planner *p, const struct wi_plan_query *q,
                                           const struct wi_plan_hier *h, int i)
{
    const struct wi_plan_figures *f = &p->figures;
    const struct wi_algo_cost *none = &h->none.stage[i].cost, *one = &h->one.stage[i].cost;
    double core =
        (one->reduced - none->reduced) / wi_plan_gamma(p, q) + (one->copied - none->copied) / wi_plan_kappa(p, q);
    double sent = one->sent - none->sent;
    struct wi_chain_stage s = {.link = WI_CHAIN_NO_LINK};

    if (wi_plan_stage_is_far(p, h, i)) {
        s.wait_us = h->one.stage[i].chain * f->network_us;
        s.core_us = h->one.stage[i].messages * f->message_us;
        s.link = 0; /* of the node: what leaves it shares it, whatever the level */
        s.link_us_per_byte =
            wi_plan_stage_link_us(p, h, i, sent, h->one.stage[i].link_sent - h->none.stage[i].link_sent) /
            WI_PLAN_SAMPLE;
    } else {
        s.wait_us = (1 - WI_PLAN_LOCAL_CORE) * h->one.stage[i].chain * f->local_us;
        s.core_us = WI_PLAN_LOCAL_CORE * h->one.stage[i].messages * f->local_us;
        core += sent / f->local_rate;
    }
    s.core_us_per_byte = core / WI_PLAN_SAMPLE;
    return s;
}

int wi_plan_chain_stages(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                         const struct wi_algo *const mapped[2], struct wi_chain_stage stages[WI_PLAN_CHAIN_STAGES])
{
    int last = h->none.nstages - 1, n = 0;
    const struct wi_algo_level *inner = &p->facts.levels->level[h->none.stage[last - 1].level];
    int by_messages = !p->facts.inside[h->none.stage[last - 1].level].mapped;

    if (!wi_coll_is_vector(q->coll))
        return 0;
    for (int i = 0; i < last + by_messages; i++)
        stages[n++] = message_stage(p, q, h, i);
    for (int k = 0; k < 2 && !by_messages; k++)
        if (mapped[k])
            stages[n++] = wi_plan_mapped_stage(p, q, mapped[k], largest_group(p, inner));
    return n;
}
