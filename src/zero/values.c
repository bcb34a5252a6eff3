/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of parameters and of what belongs to them: set, got, and where they are. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/offload.h"
#include "zero/swap.h"
#include "zero/zero.h"

static const char *const whats[] = {NULL, "weight", "gradient", "first moment", "second moment"};

/* This rank's part of something: `elems` of the parameter's elements, from `begin` on. */
struct part {
    char *data; /* NULL: in the file */
    weft_dtype dtype;
    size_t begin, elems, at; /* at: elements into what this rank updates */
};

static struct part find_part(const weft_zero *zero, const struct wi_zero_param *param, weft_zero_what what)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    int all = zero->config.stage == 0 && flat->trained && what != WEFT_ZERO_GRAD;
    struct part part = {NULL, WEFT_FLOAT32, 0, param->elems, 0};

    if (!all)
        part.elems = wi_zero_own_part(zero, param, &part.begin);
    part.at = part.elems ? param->offset + part.begin - (all ? 0 : wi_zero_first(zero, flat)) : 0;

    if (what == WEFT_ZERO_GRAD)
        part.dtype = flat->grad_dtype;
    else if (!flat->trained)
        part.dtype = flat->dtype;
    char *base = what == WEFT_ZERO_GRAD      ? flat->grad_own
                 : what == WEFT_ZERO_MOMENT1 ? (char *)flat->moment[0]
                 : what == WEFT_ZERO_MOMENT2 ? (char *)flat->moment[1]
                 : flat->trained             ? (char *)flat->weight
                                             : flat->own;

    part.data = base ? base + part.at * wi_zero_width(part.dtype) : NULL;
    return part;
}

static int has_moment(const weft_zero *zero, const struct wi_zero_flat *flat, int m)
{
    return flat->moment[m] || flat->codes[m] || (flat->extent >= 0 && m < wi_zero_moments(zero, flat));
}

/* Elements between a part and values of any type, by way of memory where the part is in the file. */
static weft_status load_part(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what,
                             const struct part *part, void *values, weft_dtype dtype)
{
    if (part->data || !part->elems) {
        if (part->elems)
            wi_optim_convert(zero->pool, values, dtype, part->data, part->dtype, part->elems, 0);
        return WEFT_SUCCESS;
    }
    float *own = wi_malloc(4 * part->elems);

    if (!own)
        return wi_fail(WEFT_ENOMEM, "zero: no memory for %zu elements", part->elems);
    if (what != WEFT_ZERO_GRAD && what != WEFT_ZERO_WEIGHT && flat->codes[0]) {
        wi_zero_state_get(zero, flat, what, part->at, part->elems, own);
        wi_optim_convert(zero->pool, values, dtype, own, WEFT_FLOAT32, part->elems, 0);
        wi_free(own);
        return WEFT_SUCCESS;
    }
    int swapped = flat->swapped && (what == WEFT_ZERO_GRAD || (what == WEFT_ZERO_WEIGHT && !flat->separate));
    weft_status st = swapped ? wi_zero_swap_get(zero, flat, what == WEFT_ZERO_GRAD, part->at, part->elems, own)
                             : wi_zero_offload_get(zero, flat, what, part->at, part->elems, own);

    if (st >= 0)
        wi_optim_convert(zero->pool, values, dtype, own, swapped ? part->dtype : WEFT_FLOAT32, part->elems, 0);
    wi_free(own);
    return st;
}

static weft_status store_part(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what,
                              const struct part *part, const void *values, weft_dtype dtype)
{
    if (part->data || !part->elems) {
        if (part->elems)
            wi_optim_convert(zero->pool, part->data, part->dtype, values, dtype, part->elems, 0);
        return WEFT_SUCCESS;
    }
    float *own = wi_malloc(4 * part->elems);

    if (!own)
        return wi_fail(WEFT_ENOMEM, "zero: no memory for %zu elements", part->elems);
    wi_optim_convert(zero->pool, own, WEFT_FLOAT32, values, dtype, part->elems, 0);
    weft_status st = WEFT_SUCCESS;

    if (flat->codes[0])
        wi_zero_state_put(zero, flat, what, part->at, part->elems, own);
    else
        st = wi_zero_offload_put(zero, flat, what, part->at, part->elems, own);

    wi_free(own);
    return st;
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
    if ((what == WEFT_ZERO_MOMENT1 && !has_moment(zero, flat, 0)) ||
        (what == WEFT_ZERO_MOMENT2 && !has_moment(zero, flat, 1)))
        return wi_fail(WEFT_EINVAL, "zero: %s: %s has no %s", call,
                       flat->muon ? "muon" : wi_optim_name(zero->config.optimizer), whats[what]);
    return WEFT_SUCCESS;
}

/* The shard of a parameter that is in a file. */
static weft_status store_swapped(weft_zero *zero, const struct wi_zero_param *param, const char *values,
                                 weft_dtype dtype)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    size_t begin, elems = wi_zero_own_part(zero, param, &begin);
    char *own = wi_malloc(elems * wi_zero_width(flat->dtype) + 1);

    if (!own)
        return wi_fail(WEFT_ENOMEM, "zero: no memory for %zu elements", elems);
    weft_status st = WEFT_SUCCESS;

    if (elems) {
        wi_optim_convert(zero->pool, own, flat->dtype, values + begin * wi_zero_width(dtype), dtype, elems, 0);
        st = wi_zero_swap_put(zero, flat, param->offset + begin - wi_zero_first(zero, flat), elems, own);
    }
    wi_free(own);
    return st;
}

/* The parameter itself, where programs see it. */
static weft_status set_parameter(weft_zero *zero, const struct wi_zero_param *param, const char *values,
                                 weft_dtype dtype)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    size_t width = wi_zero_width(flat->dtype), begin, elems;

    if (flat->swapped)
        return store_swapped(zero, param, values, dtype);
    if (zero->units[param->unit].kept) {
        wi_optim_convert(zero->pool, flat->full + param->offset * width, flat->dtype, values, dtype, param->elems, 0);
        return WEFT_SUCCESS;
    }
    elems = wi_zero_own_part(zero, param, &begin);
    if (elems)
        wi_optim_convert(zero->pool, flat->own + (param->offset + begin - wi_zero_first(zero, flat)) * width,
                         flat->dtype, values + begin * wi_zero_width(dtype), dtype, elems, 0);
    return WEFT_SUCCESS;
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
        WI_TRY(set_parameter(zero, param, values, dtype));
        if (!zero->flats[param->flat].separate)
            return WEFT_SUCCESS;
    }
    if (what == WEFT_ZERO_WEIGHT && !zero->flats[param->flat].trained)
        return WEFT_SUCCESS;
    struct part part = find_part(zero, param, what);

    return store_part(zero, &zero->flats[param->flat], what, &part,
                      (const char *)values + part.begin * wi_zero_width(dtype), dtype);
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
    struct part part = find_part(zero, param, what);
    weft_call_options options;
    weft_call call;
    char label[128];

    if (!counts)
        return wi_fail(WEFT_ENOMEM, "zero: param_get: out of memory");
    for (int r = 0; r < domain->nranks; r++)
        counts[r] = wi_zero_part(zero, param, r, &displs[r]);
    char *place = values + part.begin * wi_zero_width(dtype);
    weft_status st = load_part(zero, &zero->flats[param->flat], what, &part, place, dtype);

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
    struct part part = find_part(zero, param, what);

    int there = flat->reduced || flat->reduce;

    /* Copies are added up at the end. */
    if (what == WEFT_ZERO_GRAD && (zero->begun || !there || (wi_zero_domain(zero, flat)->replicas && !zero->last)))
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
    if (part.elems == param->elems && zero->config.stage == 0 && flat->trained && what != WEFT_ZERO_GRAD) {
        return values ? load_part(zero, flat, what, &part, values, dtype) : WEFT_SUCCESS;
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
