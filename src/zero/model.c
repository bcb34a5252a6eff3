/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters and units as the program describes them. */
#include <stdio.h>
#include <string.h>

#include <weft/weft_client.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "base/text.h"
#include "zero/offload.h"
#include "zero/zero.h"

static const struct wi_struct_rule param_rule = WI_STRUCT_RULE(weft_zero_param, "WEFT_ZERO_PARAM_INIT", name);

enum { ROOM = 64 };
#define FLAGS (WEFT_ZERO_FROZEN | WEFT_ZERO_WHOLE | WEFT_ZERO_EXPERT | WEFT_ZERO_DUPLICATE)

/* Room for one more behind `count` entries of `bytes`. */
static void *room(void *list, int count, size_t bytes)
{
    return count % ROOM ? list : wi_realloc(list, ((size_t)count + ROOM) * bytes);
}

/* The optimizer of a parameter; of a frozen one none. What config.optimizer cannot do at all was refused before. */
static weft_status find_ops(const weft_zero *zero, const weft_zero_param *param, const struct wi_optim_ops **ops)
{
    const weft_zero_config *config = &zero->config;
    int frozen = !!(param->flags & WEFT_ZERO_FROZEN);
    weft_zero_optimizer kind = param->optimizer ? param->optimizer : config->optimizer;
    const struct wi_optim_ops *found = wi_optim_find(kind);
    const char *why = NULL;

    *ops = NULL;
    if (!found)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the optimizer of \"%s\" is %d, which is none", param->name,
                       (int)kind);
    if (frozen && !param->optimizer)
        return WEFT_SUCCESS;
    if (frozen)
        why = "it is WEFT_ZERO_FROZEN";
    else if (found->flags & WI_OPTIM_MATRICES && param->ndims != 2)
        why = "it has not two dimensions; set `optimizer` of it to another one";
    else
        why = wi_zero_refuses(config, found);
    if (why)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the optimizer of \"%s\" is %s, and %s", param->name,
                       wi_optim_name(kind), why);
    if (found->kind != config->optimizer)
        WI_TRY(wi_zero_offload_check_optimizer("param_add", config, found));
    *ops = found;
    return WEFT_SUCCESS;
}

static weft_status check_param(const weft_zero *zero, const weft_zero_param *param, size_t *elems)
{
    if (!param->name || !*param->name)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the name is %s", param->name ? "empty" : "NULL");
    for (int i = 0; i < zero->nparams; i++)
        if (!strcmp(zero->params[i].name, param->name))
            return wi_fail(WEFT_EINVAL, "zero: param_add: there is a parameter \"%s\" already, number %d", param->name,
                           i);
    if (param->save_name && !*param->save_name)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the save_name of \"%s\" is empty", param->name);
    if (!wi_zero_has_dtype(param->dtype))
        return wi_fail(WEFT_EINVAL, "zero: param_add: the dtype of \"%s\" is %s, not float, bfloat16 or half",
                       param->name, weft_dtype_name(param->dtype));
    if (param->flags & ~FLAGS)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the flags of \"%s\" are 0x%x, of which 0x%x are none",
                       param->name, param->flags, param->flags & ~FLAGS);
    if (param->flags & WEFT_ZERO_EXPERT && !wi_zero_has_experts(zero))
        return wi_fail(WEFT_EINVAL, "zero: param_add: \"%s\" is an expert's, and config.experts was NULL", param->name);
    if (param->cut_elems > WI_ZERO_CUT_MOST)
        return wi_fail(WEFT_EINVAL, "zero: param_add: cut_elems of \"%s\" is %zu, above %zu", param->name,
                       param->cut_elems, WI_ZERO_CUT_MOST);
    if (param->group < 0 || param->group > 1 << 20)
        return wi_fail(WEFT_EINVAL, "zero: param_add: the group of \"%s\" is %d", param->name, param->group);
    if (param->ndims < 0 || param->ndims > WEFT_ZERO_DIMS_MAX || (param->ndims && !param->shape))
        return wi_fail(WEFT_EINVAL, "zero: param_add: the shape of \"%s\" has %d dimensions%s; 0 to %d are possible",
                       param->name, param->ndims, param->shape ? "" : " and is NULL", WEFT_ZERO_DIMS_MAX);
    *elems = 1;
    for (int i = 0; i < param->ndims; i++)
        if (__builtin_mul_overflow(*elems, param->shape[i], elems) || *elems > SIZE_MAX / 64)
            return wi_fail(WEFT_EINVAL, "zero: param_add: \"%s\" has too many elements", param->name);
    return WEFT_SUCCESS;
}

static weft_status param_add(weft_zero *zero, const weft_zero_param *given, int *index)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    const struct wi_optim_ops *ops;
    size_t elems = 0;

    if (!index)
        return wi_fail(WEFT_EINVAL, "zero: param_add: index is NULL");
    WI_TRY(wi_struct_read(&param_rule, "zero: param_add", given, &param));
    WI_TRY(check_param(zero, &param, &elems));
    WI_TRY(find_ops(zero, &param, &ops));
    if (ops && ops->flags & WI_OPTIM_MATRICES)
        param.flags |= WEFT_ZERO_WHOLE;
    void *params = room(zero->params, zero->nparams, sizeof *zero->params);
    char *name = wi_strdup(param.name), *saved = param.save_name ? wi_strdup(param.save_name) : NULL;

    if (params)
        zero->params = params;
    if (!params || !name || (param.save_name && !saved)) {
        wi_free(name);
        wi_free(saved);
        return wi_fail(WEFT_ENOMEM, "zero: param_add: out of memory");
    }
    struct wi_zero_param *own = &zero->params[zero->nparams];

    *own = (struct wi_zero_param){.name = name,
                                  .saved = saved,
                                  .dtype = param.dtype,
                                  .ndims = param.ndims,
                                  .elems = elems,
                                  .cut = param.cut_elems,
                                  .flags = param.flags,
                                  .ops = ops,
                                  .group = param.group,
                                  .unit = -1,
                                  .flat = -1};
    for (int i = 0; i < param.ndims; i++)
        own->shape[i] = param.shape[i];
    *index = zero->nparams++;
    return WEFT_SUCCESS;
}

weft_status weft_zero_param_add(weft_zero *zero, const weft_zero_param *param, int *index)
{
    unsigned since;
    weft_status st = wi_zero_enter("param_add", zero, 0, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, param_add(zero, param, index));
}

static weft_status check_unit(const weft_zero *zero, const char *name, const int *params, int nparams)
{
    if (!name || !*name)
        return wi_fail(WEFT_EINVAL, "zero: unit_add: the name is %s", name ? "empty" : "NULL");
    for (int u = 0; u < zero->nunits; u++)
        if (!strcmp(zero->units[u].name, name))
            return wi_fail(WEFT_EINVAL, "zero: unit_add: there is a unit \"%s\" already, number %d", name, u);
    if (nparams < 0 || (nparams && !params))
        return wi_fail(WEFT_EINVAL, "zero: unit_add: \"%s\" has %d parameters%s", name, nparams,
                       params ? "" : ", and params is NULL");
    for (int i = 0; i < nparams; i++) {
        WI_TRY(wi_zero_param_check("unit_add", zero, params[i]));
        const struct wi_zero_param *param = &zero->params[params[i]];

        if (param->unit >= 0)
            return wi_fail(WEFT_EINVAL, "zero: unit_add: parameter \"%s\" is in unit \"%s\" already", param->name,
                           zero->units[param->unit].name);
        for (int k = 0; k < i; k++)
            if (params[k] == params[i])
                return wi_fail(WEFT_EINVAL, "zero: unit_add: parameter \"%s\" is in \"%s\" twice", param->name, name);
    }
    return WEFT_SUCCESS;
}

static weft_status unit_add(weft_zero *zero, const char *name, const int *params, int nparams, int *unit)
{
    if (!unit)
        return wi_fail(WEFT_EINVAL, "zero: unit_add: unit is NULL");
    WI_TRY(check_unit(zero, name, params, nparams));
    void *units = room(zero->units, zero->nunits, sizeof *zero->units);
    char *text = wi_strdup(name);
    int *list = wi_calloc((size_t)nparams + 1, sizeof *list);

    if (units)
        zero->units = units;
    if (!units || !text || !list) {
        wi_free(text);
        wi_free(list);
        return wi_fail(WEFT_ENOMEM, "zero: unit_add: out of memory");
    }
    for (int i = 0; i < nparams; i++) {
        list[i] = params[i];
        zero->params[params[i]].unit = zero->nunits;
    }
    zero->units[zero->nunits] = (struct wi_zero_unit){.name = text, .params = list, .nparams = nparams};
    *unit = zero->nunits++;
    return WEFT_SUCCESS;
}

weft_status weft_zero_unit_add(weft_zero *zero, const char *name, const int *params, int nparams, int *unit)
{
    unsigned since;
    weft_status st = wi_zero_enter("unit_add", zero, 0, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, unit_add(zero, name, params, nparams, unit));
}

/* So that no sum of bytes overflows, with padding and over any number of ranks. */
#define ELEMS_MOST ((size_t)1 << 48)

static weft_status check_model(const weft_zero *zero)
{
    size_t elems = 0;

    if (!zero->nunits)
        return wi_fail(WEFT_EINVAL, "zero: seal: no unit is defined");
    for (int i = 0; i < zero->nparams; i++)
        if (zero->params[i].unit < 0)
            return wi_fail(WEFT_EINVAL, "zero: seal: parameter \"%s\" is in no unit", zero->params[i].name);
    for (int i = 0; i < zero->nparams; i++)
        if (__builtin_add_overflow(elems, zero->params[i].elems, &elems) || elems > ELEMS_MOST)
            return wi_fail(WEFT_EINVAL, "zero: seal: with parameter \"%s\" there are more than 2^48 elements",
                           zero->params[i].name);
    return WEFT_SUCCESS;
}

/* Collectives are labelled with their unit. Those of units that this rank has not used yet are known, too, so that ranks that go
 * through units in different orders are told of both. */
static weft_status label(weft_zero *zero)
{
    for (int u = 0; u < zero->nunits; u++) {
        struct wi_zero_unit *unit = &zero->units[u];

        snprintf(unit->gather_label, sizeof unit->gather_label, "gather of %.52s", unit->name);
        snprintf(unit->reduce_label, sizeof unit->reduce_label, "reduction of %.49s", unit->name);
        for (int d = 0; d < zero->ndomains; d++) {
            WI_TRY(weft_comm_label(zero->domains[d].gathers, unit->gather_label));
            WI_TRY(weft_comm_label(zero->domains[d].reductions, unit->reduce_label));
        }
    }
    return WEFT_SUCCESS;
}

static weft_status place(weft_zero *zero)
{
    WI_TRY(wi_zero_lay_out(zero));
    WI_TRY(wi_zero_allocate(zero));
    for (int i = 0; i < zero->nflats; i++) {
        zero->stats.shard_elems += zero->flats[i].trained ? zero->flats[i].shard : 0;
        for (int k = 0; k < zero->flats[i].nparams; k++)
            zero->stats.elems += zero->params[zero->flats[i].params[k]].elems;
    }
    return WEFT_SUCCESS;
}

static weft_status seal(weft_zero *zero)
{
    WI_TRY(check_model(zero));
    WI_TRY(wi_zero_compare_model(zero));
    WI_TRY(wi_zero_name_saved(zero));
    /* A rank that has no memory tells the others, which would wait for it in their first collective. */
    WI_TRY(wi_zero_agree(zero, place(zero), "seal"));
    for (int u = zero->nunits - 1; u >= 0; u--)
        if (zero->units[u].trained)
            zero->turns.order[zero->turns.norder++] = u;
    WI_TRY(label(zero));
    wi_zero_forget_gradients(zero);
    zero->sealed = 1;
    return WEFT_SUCCESS;
}

/* A model that was laid out in part is of no use: what failed is final. */
static weft_status seal_or_fail(weft_zero *zero)
{
    weft_status st = seal(zero);

    return zero->flats ? wi_zero_final(zero, st) : st;
}

weft_status weft_zero_seal(weft_zero *zero)
{
    unsigned since;
    weft_status st = wi_zero_enter("seal", zero, 0, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, seal_or_fail(zero));
}
