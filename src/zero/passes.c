/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs say of units: forward and backward passes that begin and end. */
#include "base/status.h"
#include "zero/zero.h"

static weft_status pre(weft_zero *zero, const char *call, int unit, enum wi_zero_event event)
{
    WI_TRY(wi_zero_unit_check(call, zero, unit));
    WI_TRY(wi_zero_used(zero, unit, event));
    if (event == WI_ZERO_FORWARD)
        zero->units[unit].forwards++;
    return WEFT_SUCCESS;
}

static weft_status post(weft_zero *zero, const char *call, int number)
{
    WI_TRY(wi_zero_unit_check(call, zero, number));
    if (!zero->units[number].passes)
        return wi_fail(WEFT_EINVAL, "zero: %s: no pass of unit \"%s\" has begun", call, zero->units[number].name);
    wi_zero_done(zero, number);
    return WEFT_SUCCESS;
}

static weft_status post_backward(weft_zero *zero, int number)
{
    WI_TRY(post(zero, "post_backward", number));
    struct wi_zero_unit *unit = &zero->units[number];

    /* Of a unit with several forward passes gradients may come until the last backward pass. */
    if (++unit->backwards < unit->forwards || zero->micro.last)
        return WEFT_SUCCESS;
    return wi_zero_unit_ended(zero, number);
}

weft_status weft_zero_pre_forward(weft_zero *zero, int unit)
{
    unsigned since;
    weft_status st = wi_zero_enter("pre_forward", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, pre(zero, "pre_forward", unit, WI_ZERO_FORWARD));
}

weft_status weft_zero_pre_backward(weft_zero *zero, int unit)
{
    unsigned since;
    weft_status st = wi_zero_enter("pre_backward", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, pre(zero, "pre_backward", unit, WI_ZERO_BACKWARD));
}

weft_status weft_zero_post_forward(weft_zero *zero, int unit)
{
    unsigned since;
    weft_status st = wi_zero_enter("post_forward", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, post(zero, "post_forward", unit));
}

weft_status weft_zero_post_backward(weft_zero *zero, int unit)
{
    unsigned since;
    weft_status st = wi_zero_enter("post_backward", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, post_backward(zero, unit));
}
