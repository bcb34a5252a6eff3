/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/alloc.h"
#include "hosts_model.h"

struct hosts_model {
    struct wi_model model;
    struct wi_plan_link_params params;
    int nnodes;
};

/* Resources: of node i, 2i out and 2i + 1 in; then one for each rank's core. */
static void path(const struct wi_model *m, int from, int to, struct wi_model_path *p)
{
    const struct hosts_model *h = (const struct hosts_model *)m;
    const struct wi_plan_link_params *f = &h->params;
    int out = m->ranks[from].host, in = m->ranks[to].host;

    p->nresources = 2;
    if (out == in) {
        p->latency = 0.4 * f->local_us;
        p->send_us = p->recv_us = 0.3 * f->local_us;
        p->resources[0] = (uint32_t)(2 * h->nnodes + from);
        p->resources[1] = (uint32_t)(2 * h->nnodes + to);
        return;
    }
    p->latency = f->network_us;
    p->send_us = p->recv_us = f->message_us / 2;
    p->resources[0] = 2 * (uint32_t)out;
    p->resources[1] = 2 * (uint32_t)in + 1;
}

static void destroy(struct wi_model *m)
{
    wi_free((void *)m->resources);
    wi_free((void *)m->ranks);
    wi_free(m);
}

struct wi_model *hosts_model_of(const struct wi_plan_facts *facts, const int32_t *node_of,
                                const struct wi_plan_link_params *f)
{
    size_t n = 2 * (size_t)facts->nnodes + (size_t)facts->nranks;
    struct hosts_model *h = wi_calloc(1, sizeof *h);
    struct wi_model_resource *resources = wi_calloc(n, sizeof *resources);
    struct wi_model_rank *ranks = wi_calloc((size_t)facts->nranks, sizeof *ranks);

    if (!h || !resources || !ranks) {
        wi_free(h);
        wi_free(resources);
        wi_free(ranks);
        return NULL;
    }
    for (int i = 0; i < 2 * facts->nnodes; i++) {
        snprintf(resources[i].name, sizeof resources[i].name, "node%d %s", i / 2, i % 2 ? "in" : "out");
        resources[i].rate = f->network_rate;
    }
    for (int r = 0; r < facts->nranks; r++) {
        struct wi_model_resource *core = &resources[2 * facts->nnodes + r];
        snprintf(core->name, sizeof core->name, "rank%d copies", r);
        core->rate = f->local_rate;
        ranks[r] = (struct wi_model_rank){.copy_rate = f->copy_rate,
                                          .reduce_rate = f->reduce_rate,
                                          .memory = -1,
                                          .host = node_of[r],
                                          .engine = -1,
                                          .nic = -1};
    }
    h->params = *f;
    h->nnodes = facts->nnodes;
    h->model = (struct wi_model){.nranks = facts->nranks,
                                 .nresources = (uint32_t)n,
                                 .mapped_us = f->mapped_us,
                                 .resources = resources,
                                 .ranks = ranks,
                                 .path = path,
                                 .destroy = destroy};
    return &h->model;
}
