/* SPDX-License-Identifier: BSD-3-Clause */
/* The defaults of link parameters, and those of a model. */
#include <math.h>
#include <string.h>

#include "plan/plan.h"
#include "topology/model.h"

/* Mapped algorithms have steps of a cache miss or two, two-sided ones of a message. With more ranks than cores a step is a
 * switch of processes. Between hosts half a round trip of TCP is about 27 us; most of that is the processors' work for each
 * message, which an algorithm that sends several at once pays several times. */
void wi_plan_default_link_params(const struct wi_plan_facts *facts, struct wi_plan_link_params *f)
{
    *f = (struct wi_plan_link_params){
        .mapped_us = facts->oversubscribed ? 2.0 : 0.15,
        .mapped_rate = 15e3,
        .local_us = facts->oversubscribed ? 4.0 : 0.6,
        .local_rate = 5e3,
        .network_us = 6.0,
        .message_us = 21.0,
        .network_rate = 1.1e3,
        .copy_rate = 8e3,
        .reduce_rate = 8e3,
    };
}

static double slowest(const struct wi_model *m, const struct wi_model_path *path)
{
    double rate = INFINITY;

    for (int i = 0; i < path->nresources; i++)
        rate = fmin(rate, m->resources[path->resources[i]].rate);
    return rate;
}

static void take_rates(const struct wi_model_rank *rank, struct wi_plan_link_params *f)
{
    if (isfinite(rank->reduce_rate) && rank->reduce_rate > 0)
        f->reduce_rate = rank->reduce_rate;
    if (isfinite(rank->copy_rate) && rank->copy_rate > 0)
        f->copy_rate = rank->copy_rate;
}

/* Taken from the first two neighbours in rank on one host, and the first two on different hosts. */
void wi_plan_model_link_params(const struct wi_model *m, struct wi_plan_link_params *f)
{
    int local = 0, network = 0;
    struct wi_model_path path;

    if (m->mapped_us > 0)
        f->mapped_us = m->mapped_us;
    if (isfinite(m->ranks[0].copy_rate) && m->ranks[0].copy_rate > 0)
        f->mapped_rate = m->ranks[0].copy_rate;
    if (m->ranks[0].engine < 0) /* not a core of a graph: of cores a graph knows no rates */
        take_rates(&m->ranks[0], f);
    for (int r = 0; r + 1 < m->nranks && !(local && network); r++) {
        int same = m->ranks[r].host == m->ranks[r + 1].host;
        if (same ? local : network)
            continue;
        m->path(m, r, r + 1, &path);
        double rate = slowest(m, &path);
        if (same) {
            f->local_us = path.latency + path.send_us + path.recv_us;
            f->local_rate = isfinite(rate) ? rate : f->local_rate;
            local = 1;
            continue;
        }
        f->network_us = path.latency;
        f->message_us = path.send_us + path.recv_us;
        f->network_rate = isfinite(rate) ? rate : f->network_rate;
        network = 1;
    }
}

double *wi_plan_link_param(struct wi_plan_link_params *params, const char *name)
{
#define FIND(member, text, unit) \
    if (strcmp(name, text) == 0) \
        return &params->member;
    WI_PLAN_LINK_PARAM_LIST(FIND)
#undef FIND
    return NULL;
}
