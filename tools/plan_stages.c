/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan explain: the stages of what is chosen, how its data is cut, and what made it win. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "plan/pipeline.h"
#include "plan_explain.h"

/* In the order in which data passes them. */
struct stage {
    int inside; /* a group of the level; else among its groups */
    const char *level, *by;
    const struct wi_algo *algo;
};

static int list_stages(const struct explain *x, struct stage list[2 * WI_ALGO_MAX_LEVELS + 1])
{
    const struct wi_hier_spec *s = &x->plan.spec;
    int n = 0;

    for (int at = -s->nlevels; at <= s->nlevels && s->nlevels; at++) {
        int i = at < 0 ? -at : at;
        const struct wi_algo *algo = at <= 0 ? s->up[i] : s->down[i];
        if (algo)
            list[n++] = (struct stage){.inside = i > 0,
                                       .level = x->levels.level[s->at[i ? i - 1 : 0].level].name,
                                       .by = i == s->nlevels && s->mapped ? "mapped memory" : "messages",
                                       .algo = algo};
    }
    return n;
}

static const char *bound_of(const struct explain *x)
{
    switch ((enum wi_pipeline_bound)x->plan.pipeline.bound) {
    case WI_PIPELINE_CORE:
        return "a rank's core, busy with one after the other";
    case WI_PIPELINE_LINK:
        return "the link, busy with one after the other";
    case WI_PIPELINE_WINDOW:
        return "fragments that wait until others are over";
    default:
        return "the stages one after the other, for there is one fragment";
    }
}

static double nfragments(const struct explain *x)
{
    double n = ceil((double)x->query.bytes / (double)x->plan.pipeline.fragment_bytes);

    return n > 1 ? n : 1;
}

void explain_print_stages(const struct explain *x)
{
    struct stage list[2 * WI_ALGO_MAX_LEVELS + 1];
    int n = list_stages(x, list);

    for (int i = 0; i < n; i++)
        printf("%s %s %s: %s %s, %s\n", i ? "       " : "stages:", list[i].inside ? "inside each" : "among groups of",
               list[i].level, wi_coll_name(list[i].algo->coll), list[i].algo->name, list[i].by);
    if (x->plan.pipeline.fragment_bytes)
        printf("fragments: %.0f of %zu bytes, at most %u under way; what takes the time: %s\n", nfragments(x),
               x->plan.pipeline.fragment_bytes, x->plan.pipeline.window, bound_of(x));
    else if (x->plan.spec.nchunks)
        printf("chunks: %d, one behind the other through the stages\n", x->plan.spec.nchunks);
}

json_t *explain_stages_json(const struct explain *x)
{
    struct stage list[2 * WI_ALGO_MAX_LEVELS + 1];
    int n = list_stages(x, list);
    json_t *stages = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(stages,
                              json_pack("{s:s, s:s, s:s, s:s, s:s}", "where", list[i].inside ? "inside" : "among",
                                        "level", list[i].level, "collective", wi_coll_name(list[i].algo->coll),
                                        "algorithm", list[i].algo->name, "by", list[i].by));
    return stages;
}

json_t *explain_pipeline_json(const struct explain *x)
{
    return json_pack("{s:I, s:I, s:I, s:s}", "bytes", (json_int_t)x->plan.pipeline.fragment_bytes, "number",
                     (json_int_t)nfragments(x), "under_way", (json_int_t)x->plan.pipeline.window, "bound", bound_of(x));
}
