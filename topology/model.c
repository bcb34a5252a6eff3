/* SPDX-License-Identifier: BSD-3-Clause */
/* What all models share, and the textbook's network: a message costs latency + bytes / rate, a rank sends and receives at
 * the same time, nothing else takes time but reducing. */
#include "topology/model.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"

/* Resource of a rank: 2 * rank sends, 2 * rank + 1 receives. */
struct uniform_model {
    struct wi_model model;
    double latency;
};

void wi_model_default_link_params(struct wi_model_link_params *params)
{
    /* One core of a server of 2020 or later, weft over its own shared memory and over TCP. */
    *params = (struct wi_model_link_params){
        .copy_rate = 10000,
        .reduce_rate = 7000,
        .local_send_us = 0.2,
        .local_recv_us = 0.2,
        .local_latency = 0.3,
        .net_send_us = 4,
        .net_recv_us = 4,
        .net_latency = 10,
        .mapped_us = 0.3,
        .net_efficiency = 0.94,
    };
}

void wi_model_destroy(struct wi_model *model)
{
    if (model)
        model->destroy(model);
}

static void uniform_path(const struct wi_model *m, int from, int to, struct wi_model_path *path)
{
    const struct uniform_model *u = (const struct uniform_model *)m;

    path->latency = u->latency;
    path->send_us = path->recv_us = 0;
    path->nresources = 2;
    path->resources[0] = 2 * (uint32_t)from;
    path->resources[1] = 2 * (uint32_t)to + 1;
}

static void uniform_destroy(struct wi_model *m)
{
    wi_free((void *)m->resources);
    wi_free((void *)m->ranks);
    wi_free(m);
}

static weft_status check_uniform(int nranks, double latency, double rate, double reduce_rate)
{
    if (nranks < 1 || nranks > WI_MODEL_MAX_RANKS)
        return wi_fail(WEFT_EINVAL, "model: %d ranks: must be 1 to %d", nranks, WI_MODEL_MAX_RANKS);
    if (!(latency >= 0) || !isfinite(latency))
        return wi_fail(WEFT_EINVAL, "model: latency %g us: must be 0 or more", latency);
    if (!(rate > 0) || !isfinite(rate))
        return wi_fail(WEFT_EINVAL, "model: rate %g bytes/us: must be above 0", rate);
    if (!(reduce_rate > 0))
        return wi_fail(WEFT_EINVAL, "model: reduce rate %g bytes/us: must be above 0", reduce_rate);
    return WEFT_SUCCESS;
}

weft_status wi_model_uniform(int nranks, double latency, double rate, double reduce_rate, struct wi_model **model)
{
    WI_TRY(check_uniform(nranks, latency, rate, reduce_rate));
    struct uniform_model *u = wi_calloc(1, sizeof(*u));
    struct wi_model_resource *resources = wi_calloc((size_t)nranks, 2 * sizeof(*resources));
    struct wi_model_rank *ranks = wi_calloc((size_t)nranks, sizeof(*ranks));

    if (!u || !resources || !ranks) {
        wi_free(u);
        wi_free(resources);
        wi_free(ranks);
        return wi_fail(WEFT_ENOMEM, "model: no memory for %d ranks", nranks);
    }
    for (int r = 0; r < nranks; r++) {
        snprintf(resources[2 * r].name, sizeof(resources->name), "rank%d out", r);
        snprintf(resources[2 * r + 1].name, sizeof(resources->name), "rank%d in", r);
        resources[2 * r].rate = resources[2 * r + 1].rate = rate;
        ranks[r] = (struct wi_model_rank){
            .copy_rate = INFINITY, .reduce_rate = reduce_rate, .memory = -1, .host = r, .engine = -1, .nic = -1};
    }
    u->latency = latency;
    u->model.nranks = nranks;
    u->model.nresources = 2 * (uint32_t)nranks;
    u->model.resources = resources;
    u->model.ranks = ranks;
    u->model.path = uniform_path;
    u->model.destroy = uniform_destroy;
    *model = &u->model;
    return WEFT_SUCCESS;
}
