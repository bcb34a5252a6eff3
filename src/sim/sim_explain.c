/* SPDX-License-Identifier: BSD-3-Clause */
/* Why ranks did not finish: a failed link, or a deadlock. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

#define NAMED 8

static void append(char *text, size_t capacity, const char *more)
{
    size_t at = strlen(text);

    snprintf(text + at, capacity - at, "%s", more);
}

/* "0, 3, 4 and 12 more" */
static void unfinished(const struct wi_sim *s, char *text, size_t capacity)
{
    uint32_t named = 0;
    char item[32];

    text[0] = '\0';
    for (int r = 0; r < s->nranks && named < NAMED; r++) {
        if (!s->ranks[r].nlanes_left)
            continue;
        snprintf(item, sizeof item, "%s%d", named++ ? ", " : "", r);
        append(text, capacity, item);
    }
    if (s->ranks_left > named) {
        snprintf(item, sizeof item, " and %u more", s->ranks_left - named);
        append(text, capacity, item);
    }
}

static int failed_links(const struct wi_sim *s, char *text, size_t capacity)
{
    int n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < s->nresources; i++) {
        if (s->resources[i].rate > 0 || !s->resources[i].nedges)
            continue;
        if (n++ < NAMED) {
            append(text, capacity, n > 1 ? ", " : "");
            append(text, capacity, s->model->resources[i].name);
        }
    }
    if (n > NAMED)
        append(text, capacity, " and more");
    return n;
}

static void why_lane(const struct wi_sim *s, const struct wi_sim_lane *l, char *text, size_t capacity)
{
    const struct wi_sched *sched = s->ranks[l->rank].sched;
    const struct wi_step *st = wi_sim_step(s, l);
    char place[WI_PLACE_TEXT_BYTES];

    if (!st) {
        snprintf(text, capacity, "rank %u lane %u: its last message does not leave", l->rank, l->index);
        return;
    }
    wi_sched_place_text(sched, l->index, l->step, place);
    if (l->block == WI_SIM_ON_LANE && st->kind == WI_STEP_WAIT && s->mapped)
        snprintf(text, capacity, "%s waits for signal %u of lane %u of rank %d", place, st->ordinal, st->lane,
                 st->peer);
    else if (l->block == WI_SIM_ON_LANE)
        snprintf(text, capacity, "%s waits for step %u of lane %d", place, st->dep_step, st->dep_lane);
    else if (l->block == WI_SIM_ON_INBOX)
        snprintf(text, capacity, "%s waits for a message from rank %d on channel %u", place,
                 sched->lanes[l->index].recv_peer, sched->lanes[l->index].chan);
    else if (l->block == WI_SIM_ON_DRAIN)
        snprintf(text, capacity, "%s waits for a send that still reads there", place);
    else if (l->block == WI_SIM_ON_GATE)
        snprintf(text, capacity, "%s waits for a slot that other ranks still use", place);
    else
        snprintf(text, capacity, "%s cannot go on", place);
}

/* The lane whose waiting does not come from another lane of its rank says most. */
static const struct wi_sim_lane *telling_lane(const struct wi_sim *s)
{
    const struct wi_sim_lane *any = NULL;

    for (uint32_t i = 0; i < s->nlanes; i++) {
        const struct wi_sim_lane *l = &s->lanes[i];
        if (l->block == WI_SIM_OVER)
            continue;
        any = any ? any : l;
        if (l->block == WI_SIM_ON_INBOX || (s->mapped && l->block == WI_SIM_ON_LANE))
            return l;
    }
    return any;
}

weft_status wi_sim_explain(const struct wi_sim *s)
{
    const struct wi_sim_lane *l = telling_lane(s);
    char ranks[128], links[512], why[320] = "";

    if (l)
        why_lane(s, l, why, sizeof why);
    unfinished(s, ranks, sizeof ranks);
    if (failed_links(s, links, sizeof links))
        return wi_fail(WEFT_EPEER, "failed link %s: rank%s %s cannot finish; %s", links, s->ranks_left > 1 ? "s" : "",
                       ranks, why);
    return wi_fail(WEFT_EINVAL, "deadlock: rank%s %s cannot finish; %s", s->ranks_left > 1 ? "s" : "", ranks, why);
}
