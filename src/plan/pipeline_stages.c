/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a hierarchical candidate as a pipeline (pipeline.h), with the planner's rates: stages among groups by messages over
 * the links of their level, the innermost, where the spec says so, through mapped memory. */
#include <math.h>

#include "plan/internal.h"
#include "sched/sched.h"

#define UNIT 4096u         /* of fragments */
#define LEAST (256u << 10) /* shorter ones are overheads: wake-ups, system calls for short messages */

/* How many bytes an algorithm among n ranks of a group is called with, per byte of the operation. With per-rank data it is called
 * with the shares of all ranks, cut among its members; gather and scatter with its members' own shares. */
static double scale_of(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a, int n)
{
    int by_rank = a->coll == WI_COLL_GATHER || a->coll == WI_COLL_SCATTER;
    double whole = wi_coll_is_vector(q->coll) ? 1 : by_rank ? n : p->facts.nranks;

    return wi_coll_is_vector(a->coll) ? whole : whole / n;
}

/* A collective of n ranks through mapped memory. */
static struct wi_pipeline_stage mapped_stage(const struct wi_planner *p, const struct wi_plan_query *q,
                                             const struct wi_algo *a, int n)
{
    struct wi_algo_args args = {.nranks = n, .in_place = q->in_place};
    double none, one;
    struct wi_algo_cost cost;

    a->cost(&args, 0, &cost);
    none = wi_plan_mapped_us(p, q, a, &cost);
    a->cost(&args, WI_PLAN_SAMPLE * scale_of(p, q, a, n), &cost);
    one = wi_plan_mapped_us(p, q, a, &cost);
    return (struct wi_pipeline_stage){
        .wait_us = none, .core_us_per_byte = (one - none) / WI_PLAN_SAMPLE, .link = WI_PIPELINE_NO_LINK};
}

/* The fixed cost, and the cost per byte. */
static struct wi_pipeline_stage message_stage(const struct wi_planner *p, const struct wi_plan_query *q,
                                              const struct wi_plan_hier *h, int i)
{
    const struct wi_plan_link_params *f = &p->params;
    const struct wi_algo_cost *none = &h->none.stage[i].cost, *one = &h->one.stage[i].cost;
    double core = (one->reduced - none->reduced) / wi_plan_reduce_rate(p, q) +
                  (one->copied - none->copied) / wi_plan_copy_rate(p, q);
    const struct wi_algo_coding *coding = &h->one.stage[i].coding; /* of no bytes: nothing */
    double sent = one->sent - none->sent, ratio = q->codec.id && coding->encoded > 0 ? q->codec.ratio : 1;
    struct wi_pipeline_stage s = {.link = WI_PIPELINE_NO_LINK};

    core += wi_plan_coding_us(q, coding->encoded, coding->decoded);
    if (wi_plan_stage_is_remote(p, h, i)) {
        s.wait_us = h->one.stage[i].chain * f->network_us;
        s.core_us = h->one.stage[i].messages * f->message_us;
        s.link = 0; /* the node's: all levels share it */
        s.link_us_per_byte =
            ratio * wi_plan_stage_link_us(p, h, i, sent, h->one.stage[i].link_sent - h->none.stage[i].link_sent) *
            (wi_plan_streams(p, &h->choice) ? 1 : WI_PLAN_REFILL) / WI_PLAN_SAMPLE;
    } else {
        s.wait_us = (1 - WI_PLAN_LOCAL_CORE) * h->one.stage[i].chain * f->local_us;
        s.core_us = WI_PLAN_LOCAL_CORE * h->one.stage[i].messages * f->local_us;
        core += ratio * sent / f->local_rate;
    }
    s.core_us_per_byte = core / WI_PLAN_SAMPLE;
    return s;
}

int wi_plan_pipeline_stages(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                            struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES])
{
    const struct wi_hier_spec *s = &h->choice.spec;
    int last = s->nlevels, ranks = p->group_ranks[s->at[last - 1].level], n = 0;

    for (int i = 0; i < last + !s->mapped; i++)
        stages[n++] = message_stage(p, q, h, i);
    if (s->mapped && s->up[last])
        stages[n++] = mapped_stage(p, q, s->up[last], ranks);
    if (s->mapped && s->down[last])
        stages[n++] = mapped_stage(p, q, s->down[last], ranks);
    return n;
}

double wi_plan_pipeline_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                           int nfragments, struct wi_plan_pipeline *pipeline)
{
    const struct wi_plan_transport *inside = &p->facts.inside[h->choice.spec.at[h->choice.spec.nlevels - 1].level];
    struct wi_pipeline_limits limits = {.unit = UNIT, .min_bytes = LEAST, .max_bytes = inside->slot_bytes};
    struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES];
    struct wi_pipeline c = {.stage = stages, .window = inside->window ? (int)inside->window : 1};
    double bytes = (double)q->bytes, n, us;

    if (!wi_coll_is_vector(q->coll))
        limits.max_bytes /= (size_t)p->facts.nranks;
    c.nstages = wi_plan_pipeline_stages(p, q, h, stages);
    pipeline->window = (uint32_t)c.window;
    pipeline->fragment_bytes = wi_pipeline_best_fragment(&c, q->bytes, &limits, &us);
    n = pipeline->fragment_bytes ? ceil(bytes / (double)pipeline->fragment_bytes) : 1;
    if (nfragments) {
        n = fmin(nfragments, fmax(1, bytes));
        pipeline->fragment_bytes = (size_t)ceil(bytes / n);
        us = wi_pipeline_us(&c, bytes, n);
    }
    pipeline->bound = (uint8_t)wi_pipeline_bound(&c, bytes, n);
    pipeline->fragment_bytes += !pipeline->fragment_bytes; /* 0 is no pipeline */
    return us;
}
