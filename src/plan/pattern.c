/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges whose partners are known (wi_algo.round), on nodes with several ranks: a round among ranks of a node takes no message
 * between nodes, and of one between nodes the bytes of all ranks of a node pass its link. That is linear in the bytes, and found
 * once for an algorithm: microseconds in the number of ranks and rounds. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/internal.h"

struct wi_plan_patterns {
    int nalgos, nlinks;
    double *load; /* [nlinks] of each link and direction: nodes, then groups of the levels outside of them */
    double *rate; /* [nlinks] */
    int first[WI_ALGO_MAX_LEVELS];   /* link of a level's first group */
    struct wi_plan_pattern *pattern; /* [nalgos] of wi_algos in their order; rounds 0: not known yet */
};

weft_status wi_plan_patterns_init(struct wi_planner *p)
{
    struct wi_plan_patterns *t;
    int nlinks = 2 * p->facts.nnodes;

    if (!p->node_of || p->facts.nnodes < 2 || (p->facts.nnodes == p->facts.nranks && p->outer_all <= 0))
        return WEFT_SUCCESS;
    p->patterns = t = wi_calloc(1, sizeof *t);
    for (int i = 0; t && i < p->node_level; i++) {
        t->first[i] = nlinks;
        nlinks += 2 * p->facts.levels->level[i].ngroups;
    }
    if (t) {
        while (wi_algos[t->nalgos])
            t->nalgos++;
        t->nlinks = nlinks;
        t->load = wi_calloc((size_t)nlinks, sizeof *t->load);
        t->rate = wi_calloc((size_t)nlinks, sizeof *t->rate);
        t->pattern = wi_calloc((size_t)t->nalgos, sizeof *t->pattern);
    }
    if (!t || !t->load || !t->rate || !t->pattern)
        return wi_fail(WEFT_ENOMEM, "patterns of algorithms");
    for (int i = 0; i < 2 * p->facts.nnodes; i++)
        t->rate[i] = p->params.network_rate;
    for (int i = 0; i < p->node_level; i++)
        for (int g = 0; g < 2 * p->facts.levels->level[i].ngroups; g++)
            t->rate[t->first[i] + g] = p->level_rate[i];
    return WEFT_SUCCESS;
}

void wi_plan_patterns_fini(struct wi_planner *p)
{
    if (!p->patterns)
        return;
    wi_free(p->patterns->load);
    wi_free(p->patterns->rate);
    wi_free(p->patterns->pattern);
    wi_free(p->patterns);
    p->patterns = NULL;
}

/* Add a message's load to the links; returns whether it leaves its node. */
static int add_message(const struct wi_planner *p, int from, int to, double part)
{
    struct wi_plan_patterns *t = p->patterns;

    if (p->node_of[from] == p->node_of[to])
        return 0;
    t->load[2 * p->node_of[from]] += part;
    t->load[2 * p->node_of[to] + 1] += part;
    for (int i = 0; i < p->node_level; i++) {
        const int32_t *group = p->facts.levels->level[i].group;
        if (group[from] == group[to])
            continue;
        t->load[t->first[i] + 2 * group[from]] += part;
        t->load[t->first[i] + 2 * group[to] + 1] += part;
    }
    return 1;
}

static void add_round(const struct wi_planner *p, const struct wi_algo *a, int k, struct wi_plan_pattern *pattern)
{
    struct wi_plan_patterns *t = p->patterns;
    struct wi_algo_args args = {.nranks = p->facts.nranks};
    int remote = 0, sends = 0;
    double most = 0, us = 0;

    memset(t->load, 0, (size_t)t->nlinks * sizeof *t->load);
    for (args.rank = 0; args.rank < args.nranks; args.rank++) {
        double part;
        int to;
        a->round(&args, k, &to, &part);
        if (to < 0)
            continue;
        sends = 1;
        remote |= add_message(p, args.rank, to, part);
        most = fmax(most, part);
    }
    for (int i = 0; i < t->nlinks && remote; i++)
        us = fmax(us, t->load[i] / t->rate[i]);
    pattern->remote += remote;
    pattern->local += sends && !remote;
    pattern->us_per_byte += remote ? us : most / p->params.local_rate;
}

/* The rounds back take as long as those out, for links have the same rate in both directions. */
static void add_rounds(const struct wi_planner *p, const struct wi_algo *a, struct wi_plan_pattern *pattern)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks};
    int rounds = 0, to;
    double part;

    while (a->round(&args, rounds, &to, &part))
        rounds++;
    for (int k = 0; k < (a->traits.returns ? rounds / 2 : rounds); k++)
        add_round(p, a, k, pattern);
    if (a->traits.returns)
        *pattern = (struct wi_plan_pattern){0, 2 * pattern->remote, 2 * pattern->local, 2 * pattern->us_per_byte};
    pattern->known = 1;
}

const struct wi_plan_pattern *wi_plan_pattern_of(const struct wi_planner *p, const struct wi_algo *a)
{
    struct wi_plan_patterns *t = p->patterns;
    struct wi_plan_pattern *pattern;
    int index = 0;

    while (t && a->round && index < t->nalgos && wi_algos[index] != a)
        index++;
    if (!t || !a->round || index == t->nalgos)
        return NULL;
    pattern = &t->pattern[index];
    if (!pattern->known)
        add_rounds(p, a, pattern);
    return pattern;
}
