/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of parameters and of what belongs to them: set, got, and where they are. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/place.h"

static const char *const whats[] = {NULL, "weight", "gradient", "first moment", "second moment"};

/* What this rank has of it. A frozen parameter that is kept whole is got from all ranks, as a trained one is. */
static struct wi_zero_place place_of(const weft_zero *zero, const struct wi_zero_param *param, weft_zero_what what)
{
    return wi_zero_place(zero, param, (int)what, zero->flats[param->flat].trained ? WI_ZERO_HELD : WI_ZERO_OWN);
}

static weft_status check(const char *call, const weft_zero *zero, int number, weft_zero_what what, weft_dtype dtype)
{
    WI_TRY(wi_zero_param_check(call, zero, number));
    const struct wi_zero_param *param = &zero->params[number];
    const struct wi_zero_flat *flat = &zero->flats[param->flat];

    if (what < WEFT_ZERO_WEIGHT || what > WEFT_ZERO_MOMENT2)
        return wi_fail(WEFT_EINVAL, "zero: %s: what is %d, which is nothing", call, (int)what);
    if (!wi_zero_has_dtype(dtype))
        return wi_fail(WEFT_EINVAL, "zero: %s: the dtype is %s, not float, bfloat16 or half", call,
                       weft_dtype_name(dtype));
    if (what != WEFT_ZERO_WEIGHT && !flat->trained)
        return wi_fail(WEFT_EINVAL, "zero: %s: parameter \"%s\" is frozen and has no %s", call, param->name,
                       whats[what]);
    if (!wi_zero_has(zero, flat, (int)what))
        return wi_fail(WEFT_EINVAL, "zero: %s: %s has no %s", call, wi_optim_name(flat->ops->kind), whats[what]);
    return WEFT_SUCCESS;
}

/* What this rank has of something becomes that of `values`, which are of the whole parameter. */
static weft_status store(weft_zero *zero, const struct wi_zero_param *param, int what, const void *values,
                         weft_dtype dtype)
{
    struct wi_zero_place place = wi_zero_place(zero, param, what, WI_ZERO_HELD);

    return wi_zero_place_store(zero, &place, (const char *)values + place.begin * wi_zero_width(dtype), dtype);
}

static weft_status set(weft_zero *zero, int number, weft_zero_what what, const void *values, weft_dtype dtype)
{
    WI_TRY(check("param_set", zero, number, what, dtype));
    const struct wi_zero_param *param = &zero->params[number];
    const struct wi_zero_unit *unit = &zero->units[param->unit];

    if (what == WEFT_ZERO_GRAD)
        return wi_fail(WEFT_EINVAL, "zero: param_set: gradients are set by weft_zero_grad_add");
    if (!values && param->elems)
        return wi_fail(WEFT_EINVAL, "zero: param_set: the values of \"%s\" are NULL", param->name);
    if (unit->passes)
        return wi_fail(WEFT_EBUSY, "zero: param_set: a pass of unit \"%s\" has not ended", unit->name);
    WI_TRY(wi_zero_gather_finish(zero, param->unit));
    wi_zero_snapshot_wait(zero);
    if (what == WEFT_ZERO_WEIGHT) {
        WI_TRY(wi_zero_release_all(zero));
        WI_TRY(store(zero, param, WI_ZERO_PARAMETER, values, dtype));
        if (!zero->flats[param->flat].separate)
            return WEFT_SUCCESS;
    }
    return store(zero, param, (int)what, values, dtype);
}

weft_status weft_zero_param_set(weft_zero *zero, int param, weft_zero_what what, const void *values, weft_dtype dtype)
{
    unsigned since;
    weft_status st = wi_zero_enter("param_set", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, set(zero, param, what, values, dtype));
}

/* Every rank's part, put into place. */
static weft_status exchange(weft_zero *zero, const struct wi_zero_param *param, weft_zero_what what, char *values,
                            weft_dtype dtype)
{
    const struct wi_zero_domain *domain = wi_zero_domain(zero, &zero->flats[param->flat]);
    size_t *counts = wi_calloc(2 * (size_t)domain->nranks, sizeof *counts), *displs = counts + domain->nranks;
    const struct wi_zero_place part = place_of(zero, param, what);
    weft_call_options options;
    weft_call call;
    char label[128];

    if (!counts)
        return wi_fail(WEFT_ENOMEM, "zero: param_get: out of memory");
    for (int r = 0; r < domain->nranks; r++)
        counts[r] = wi_zero_part(zero, param, r, &displs[r]);
    char *place = values + part.begin * wi_zero_width(dtype);
    weft_status st = wi_zero_place_load(zero, &part, place, dtype);

    if (st < 0) { /* the others wait for this rank */
        wi_free(counts);
        return wi_zero_final(zero, st);
    }
    snprintf(label, sizeof label, "get %s of %.40s", whats[what], param->name);
    wi_zero_call(&call, &options, WEFT_KIND_ALL_GATHER_V, part.elems ? place : values, values, 0, dtype, label);
    call.recv_counts = counts;
    call.recv_displs = displs;
    st = weft_issue(domain->gathers, &call, NULL);

    wi_free(counts);
    return st < 0 ? wi_zero_broke(zero, st, "%s", label) : st;
}

static weft_status get(weft_zero *zero, int number, weft_zero_what what, void *values, weft_dtype dtype)
{
    WI_TRY(check("param_get", zero, number, what, dtype));
    const struct wi_zero_param *param = &zero->params[number];
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    int there = flat->reduced || flat->reduce;

    /* Copies are added up at the end. */
    if (what == WEFT_ZERO_GRAD &&
        (zero->micro.begun || !there || (wi_zero_domain(zero, flat)->replicas && !zero->micro.last)))
        return wi_fail(
            WEFT_EINVAL,
            "zero: param_get: there is no gradient of \"%s\" that is reduced; it is from the last micro-batch's end "
            "to weft_zero_step",
            param->name);
    if (what == WEFT_ZERO_GRAD)
        WI_TRY(wi_zero_reduce_finish_all(zero));
    WI_TRY(wi_zero_gather_finish(zero, param->unit));
    if (!param->elems)
        return WEFT_SUCCESS;
    if (wi_zero_updates_all(zero) && flat->trained && what != WEFT_ZERO_GRAD) {
        const struct wi_zero_place all = place_of(zero, param, what);

        return values ? wi_zero_place_load(zero, &all, values, dtype) : WEFT_SUCCESS;
    }
    void *own = values ? NULL : wi_malloc(param->elems * wi_zero_width(dtype));

    if (!values && !own)
        return wi_fail(WEFT_ENOMEM, "zero: param_get: no memory for %zu elements", param->elems);
    weft_status st = exchange(zero, param, what, values ? values : own, dtype);

    wi_free(own);
    return st;
}

weft_status weft_zero_param_get(weft_zero *zero, int param, weft_zero_what what, void *values, weft_dtype dtype)
{
    unsigned since;
    weft_status st = wi_zero_enter("param_get", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, get(zero, param, what, values, dtype));
}

static weft_status data(weft_zero *zero, int number, void **out)
{
    WI_TRY(wi_zero_param_check("param_data", zero, number));
    if (!out)
        return wi_fail(WEFT_EINVAL, "zero: param_data: data is NULL");
    const struct wi_zero_param *param = &zero->params[number];
    const struct wi_zero_flat *flat = &zero->flats[param->flat];

    if (zero->units[param->unit].kept || zero->units[param->unit].passes)
        WI_TRY(wi_zero_gather_finish(zero, param->unit));
    *out = flat->full && !flat->gather ? flat->full + param->offset * wi_zero_width(flat->dtype) : NULL;
    return WEFT_SUCCESS;
}

weft_status weft_zero_param_data(weft_zero *zero, int param, void **out)
{
    unsigned since;
    weft_status st = wi_zero_enter("param_data", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, data(zero, param, out));
}
