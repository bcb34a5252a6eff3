/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of collectives, steps, buffers and places. */
#include "sched/internal.h"

#include <string.h>

#include "base/status.h"

static const char *const coll_names[WI_NUM_COLLS] = {
#define WI_COLL_NAME(name, text) [WI_COLL_##name] = text,
    WI_COLL_LIST(WI_COLL_NAME)
#undef WI_COLL_NAME
};

const char *const wi_sched_step_names[WI_NUM_STEP_KINDS] = {
    [WI_STEP_NOP] = "nop",
    [WI_STEP_SEND] = "send",
    [WI_STEP_RECV] = "recv",
    [WI_STEP_RECV_REDUCE] = "recv_reduce",
    [WI_STEP_RECV_SEND] = "recv_send",
    [WI_STEP_RECV_REDUCE_SEND] = "recv_reduce_send",
    [WI_STEP_COPY] = "copy",
    [WI_STEP_REDUCE] = "reduce",
    [WI_STEP_SIGNAL] = "signal",
    [WI_STEP_WAIT] = "wait",
};

const char *const wi_sched_buf_names[WI_NUM_BUFS] = {"src", "dst", "tmp", "pack"};

const char *wi_coll_name(enum wi_coll coll)
{
    return (unsigned)coll < WI_NUM_COLLS ? coll_names[coll] : "?";
}

int wi_coll_parse(const char *name, enum wi_coll *coll)
{
    for (int i = 0; name && i < WI_NUM_COLLS; i++) {
        if (!strcmp(name, coll_names[i])) {
            *coll = (enum wi_coll)i;
            return 0;
        }
    }
    return -1;
}

int wi_sched_is_send(unsigned kind)
{
    return kind == WI_STEP_SEND || kind == WI_STEP_RECV_SEND || kind == WI_STEP_RECV_REDUCE_SEND;
}

int wi_sched_is_recv(unsigned kind)
{
    return kind >= WI_STEP_RECV && kind <= WI_STEP_RECV_REDUCE_SEND;
}

int wi_sched_is_reducing(unsigned kind)
{
    return kind == WI_STEP_RECV_REDUCE || kind == WI_STEP_RECV_REDUCE_SEND || kind == WI_STEP_REDUCE;
}

int wi_sched_names_images(const struct wi_sched *sched, const struct wi_step *step)
{
    for (unsigned i = 0; i < (unsigned)step->ndst + step->nsrc; i++)
        if (sched->regions[i < step->ndst ? step->dst + i : step->src + i - step->ndst].buf == WI_PACK)
            return 1;
    return 0;
}

int wi_sched_is_coded(const struct wi_sched *sched, const struct wi_step *step)
{
    return (step->kind == WI_STEP_COPY || step->kind == WI_STEP_REDUCE) && wi_sched_names_images(sched, step);
}

int wi_sched_is_mapped(const struct wi_sched *sched, const struct wi_step *step)
{
    if (step->kind == WI_STEP_SIGNAL || step->kind == WI_STEP_WAIT)
        return 1;
    for (unsigned i = 0; i < step->nsrc; i++) {
        if (sched->regions[step->src + i].rank != WI_SELF)
            return 1;
    }
    for (unsigned i = 0; i < step->ndst; i++) {
        if (sched->regions[step->dst + i].rank != WI_SELF)
            return 1;
    }
    return 0;
}

const char *wi_sched_region_text(const struct wi_region *region, char text[WI_REGION_TEXT_BYTES])
{
    const char *buf = region->buf < WI_NUM_BUFS ? wi_sched_buf_names[region->buf] : "?";

    if (region->rank == WI_SELF)
        snprintf(text, WI_REGION_TEXT_BYTES, "%s[%u:%u]", buf, region->first, region->count);
    else
        snprintf(text, WI_REGION_TEXT_BYTES, "%s@%d[%u:%u]", buf, region->rank, region->first, region->count);
    return text;
}

const char *wi_sched_place_text(const struct wi_sched *sched, uint32_t lane, uint32_t step,
                                char text[WI_PLACE_TEXT_BYTES])
{
    int n = snprintf(text, WI_PLACE_TEXT_BYTES, "schedule %s/%.23s of rank %d/%d", wi_coll_name(sched->coll),
                     sched->algo, sched->rank, sched->nranks);

    if (lane == WI_NOWHERE)
        return text;
    n += snprintf(text + n, WI_PLACE_TEXT_BYTES - (size_t)n, ": lane %u", lane);
    if (step == WI_NOWHERE || lane >= sched->nlanes || step >= sched->lanes[lane].nsteps)
        return text;
    unsigned kind = sched->steps[sched->lanes[lane].first_step + step].kind;
    snprintf(text + n, WI_PLACE_TEXT_BYTES - (size_t)n, " step %u (%s)", step,
             kind < WI_NUM_STEP_KINDS ? wi_sched_step_names[kind] : "?");
    return text;
}
