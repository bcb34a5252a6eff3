/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/tensors.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"

/* Moments have the name of the optimizer that keeps them, so that they are not taken for another one's. Small letters. */
static const char *kind_of(const struct wi_zero_flat *flat, int kind)
{
#define MOMENTS(name, value, text) [name] = {text "_moment1", text "_moment2"},
    static const char *const moments[][2] = {WEFT_ZERO_OPTIMIZER_LIST(MOMENTS)};
#undef MOMENTS

    return kind ? moments[flat->ops->kind][kind - 1] : "weight";
}

const char *wi_zero_optimizers(const weft_zero *zero, char *text, size_t bytes)
{
    int n = 0;

    snprintf(text, bytes, "none");
#define ADD(name, value, word)                                                    \
    for (int f = 0; f < zero->nflats; f++)                                        \
        if (zero->flats[f].trained && zero->flats[f].ops->kind == (name)) {       \
            n += snprintf(text + n, bytes - (size_t)n, "%s" word, n ? ", " : ""); \
            break;                                                                \
        }
    WEFT_ZERO_OPTIMIZER_LIST(ADD)
#undef ADD
    return text;
}

static weft_status fetch(void *arg, size_t first, size_t elems, void *out)
{
    const struct wi_zero_source *source = arg;

    return wi_zero_place_get(source->zero, &source->place, first - source->place.begin, elems, out);
}

static size_t add(weft_zero *zero, const struct wi_zero_param *param, int kind, enum wi_zero_save_reach reach,
                  struct wi_zero_source *source, struct wi_ckpt_piece *piece)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    int what = (int)(weft_zero_what[]){WEFT_ZERO_WEIGHT, WEFT_ZERO_MOMENT1, WEFT_ZERO_MOMENT2}[kind];

    if (!wi_zero_has(zero, flat, what))
        return 0;
    const struct wi_zero_place place =
        wi_zero_place(zero, param, what, reach == WI_ZERO_SAVED ? WI_ZERO_OWN : WI_ZERO_HELD);

    if (!place.elems && !(reach == WI_ZERO_SAVED && !param->elems && wi_zero_domain(zero, flat)->rank == 0) &&
        reach != WI_ZERO_WHOLE)
        return 0;
    *piece = (struct wi_ckpt_piece){
        .name = wi_zero_saved_name(param),
        .kind = kind_of(flat, kind),
        .dtype = place.dtype,
        .ndims = param->ndims,
        .shape = param->shape,
        .begin = reach == WI_ZERO_WHOLE ? 0 : place.begin,
        .end = reach == WI_ZERO_WHOLE ? param->elems : place.begin + place.elems,
    };
    if (!place.elems || reach == WI_ZERO_WHOLE)
        return 1;
    piece->data = place.data;
    if (place.data)
        return 1;
    *source = (struct wi_zero_source){zero, place};
    piece->fetch = fetch;
    piece->arg = source;
    return 1;
}

static void list_unit(weft_zero *zero, int u, enum wi_zero_save_reach reach, int nkinds, struct wi_zero_tensors *list)
{
    const struct wi_zero_unit *unit = &zero->units[u];

    for (int i = 0; i < unit->nparams; i++)
        for (int kind = 0; kind < nkinds; kind++)
            list->n +=
                add(zero, &zero->params[unit->params[i]], kind, reach, &list->sources[list->n], &list->pieces[list->n]);
}

void wi_zero_tensors_list(weft_zero *zero, enum wi_zero_save_reach reach, int nkinds, struct wi_zero_tensors *list)
{
    list->n = 0;
    for (int i = zero->turns.norder - 1; i >= 0; i--) {
        list_unit(zero, zero->turns.order[i], reach, nkinds, list);
        if (list->through)
            list->through[zero->turns.order[i]] = list->n;
    }
    for (int u = 0; u < zero->nunits; u++)
        if (!zero->units[u].trained)
            list_unit(zero, u, reach, nkinds, list);
}

weft_status wi_zero_tensors_create(const weft_zero *zero, struct wi_zero_tensors *list)
{
    *list = (struct wi_zero_tensors){0};
    list->pieces = wi_calloc((size_t)zero->nparams * WI_ZERO_KINDS + 1, sizeof *list->pieces);
    list->sources = wi_calloc((size_t)zero->nparams * WI_ZERO_KINDS + 1, sizeof *list->sources);
    if (!list->pieces || !list->sources)
        return wi_fail(WEFT_ENOMEM, "zero: no memory for the list of %d tensors", zero->nparams * WI_ZERO_KINDS);
    return WEFT_SUCCESS;
}

void wi_zero_tensors_free(struct wi_zero_tensors *list)
{
    wi_free(list->pieces);
    wi_free(list->sources);
}

weft_status wi_zero_idle(const weft_zero *zero, const char *call)
{
    if (zero->micro.ended || zero->micro.begun)
        return wi_fail(
            WEFT_EBUSY,
            "zero: %s: gradients have come since the last step; weft_zero_step or _drop_gradients comes first", call);
    return WEFT_SUCCESS;
}
