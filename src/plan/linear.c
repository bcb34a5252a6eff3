/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with a linear codec: two ordinary collectives of short vectors, one after the other, against one of plain data. */
#include <weft/weft_plugin.h>

#include "base/reduce.h"
#include "base/status.h"
#include "plan/internal.h"
#include "sched/sched.h"

/* As wi_op_query makes it of the calls in comm/linear.c. */
static struct wi_plan_query query_of(enum wi_coll coll, weft_dtype dtype, weft_op op, size_t bytes, int in_place)
{
    int sums = wi_coll_is_reduction(coll);

    return (struct wi_plan_query){.coll = coll,
                                  .bytes = bytes,
                                  .rounds = sums && wi_dtype_rounds(dtype),
                                  .own_in_place = in_place,
                                  .work = sums ? wi_plan_work(dtype, op) : 0};
}

/* Who leads changes from call to call, and what it costs hardly does: that of rank 0. */
static weft_status plan_agreement(struct wi_planner *p, const struct weft_codec_linear *l, size_t blocks,
                                  struct wi_plan_linear *plan)
{
    int leads = l->agreement == WEFT_CODEC_AGREE_LEADER;
    struct wi_plan_query q;

    if (l->agreement == WEFT_CODEC_AGREE_NOTHING)
        return WEFT_SUCCESS;
    plan->agreed_bytes = blocks * l->agreed_elems * weft_dtype_bytes(l->agreed_dtype);
    q = query_of(leads ? WI_COLL_BROADCAST : WI_COLL_ALL_REDUCE, l->agreed_dtype, WEFT_MAX, plan->agreed_bytes, 1);
    return wi_plan(p, &q, NULL, &plan->agreed);
}

weft_status wi_plan_linear(struct wi_planner *p, const struct wi_plan_query *query, const struct weft_codec_linear *l,
                           const char *forced, struct wi_plan_linear *plan)
{
    size_t blocks = (size_t)(((double)query->bytes + (double)query->codec.block - 1) / (double)query->codec.block);
    struct wi_plan_query plain = *query, summed;
    struct wi_plan direct;

    *plan = (struct wi_plan_linear){0};
    plain.codec.plain = plain.codec.may_bypass = 1;
    plan->summed_bytes = blocks * l->elems * weft_dtype_bytes(l->dtype);
    summed = query_of(WI_COLL_ALL_REDUCE, l->dtype, WEFT_SUM, plan->summed_bytes, 0);
    WI_TRY(wi_plan(p, &plain, NULL, &direct));
    WI_TRY(plan_agreement(p, l, blocks, plan));
    WI_TRY(wi_plan(p, &summed, forced, &plan->summed));
    plan->plain_us = direct.predicted_us;
    plan->coded_us = plan->agreed.predicted_us + plan->summed.predicted_us +
                     wi_plan_coding_us(query, (double)query->bytes, (double)query->bytes);
    plan->is_new = wi_plan_is_new_linear(p, query);
    plan->used = !query->codec.may_bypass || plan->coded_us < plan->plain_us;
    return WEFT_SUCCESS;
}
