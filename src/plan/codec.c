/* SPDX-License-Identifier: BSD-3-Clause */
/* What the planner knows of a codec: lengths and rates, from its descriptor, which all ranks have alike. */
#include "compress/codec.h"
#include "plan/plan.h"

#define FEEDBACK 0.6f /* encoding with a residual is slower by this */

uint32_t wi_plan_codec_id(const struct wi_codec_use *use)
{
    return ((uint32_t)(use->codec.hash >> 32) & 0x3fffffff) | (uint32_t)(use->feedback.form != 0) << 31 |
           (uint32_t)wi_feedback_has_state(&use->feedback) << 30 | 1;
}

struct wi_plan_codec wi_plan_codec_of(const struct wi_codec_use *use, weft_dtype dtype)
{
    const struct weft_codec *c = &use->codec;
    float elem = (float)weft_dtype_bytes(dtype);

    return (struct wi_plan_codec){
        .id = wi_plan_codec_id(use),
        .may_bypass = use->may_bypass,
        .feedback = use->feedback.form != 0,
        .keeps_state = wi_feedback_has_state(&use->feedback),
        .ratio = (float)c->block_bytes / ((float)c->block * elem),
        .block = (float)c->block * elem,
        .encode_rate = c->encode_rate * (use->feedback.form ? FEEDBACK : 1),
        .decode_rate = c->decode_rate,
        .work = (float)sizeof(float) / elem,
    };
}
