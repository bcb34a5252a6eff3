/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/place.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/offload.h"
#include "zero/swap.h"

/* ---- Elements ---- */

/* Elements of a parameter that are among `elems` of its flat, from `from` on. */
static size_t part_of(const struct wi_zero_param *param, size_t from, size_t elems, size_t *begin)
{
    size_t to = from + elems;
    size_t first = param->offset > from ? param->offset : from;
    size_t last = param->offset + param->elems < to ? param->offset + param->elems : to;

    *begin = 0;
    if (first >= last)
        return 0;
    *begin = first - param->offset;
    return last - first;
}

size_t wi_zero_part(const weft_zero *zero, const struct wi_zero_param *param, int rank, size_t *begin)
{
    size_t shard = zero->flats[param->flat].shard;

    return part_of(param, shard * (size_t)rank, shard, begin);
}

size_t wi_zero_own_part(const weft_zero *zero, const struct wi_zero_param *param, size_t *begin)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];

    return part_of(param, wi_zero_first(zero, flat), flat->shard, begin);
}

size_t wi_zero_updated_part(const weft_zero *zero, const struct wi_zero_param *param, size_t *begin)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];

    return part_of(param, flat->updated_first, flat->updated_elems, begin);
}

void wi_zero_mark_updated(const weft_zero *zero, struct wi_zero_flat *flat)
{
    const struct wi_zero_domain *domain = wi_zero_domain(zero, flat);
    int all = wi_zero_updates_all(zero);

    if (!flat->trained)
        return;
    flat->updated_rank = all ? 0 : domain->rank;
    flat->updated_ranks = all ? domain->nranks : 1;
    flat->updated_first = (size_t)flat->updated_rank * flat->shard;
    flat->updated_elems = (size_t)flat->updated_ranks * flat->shard;
    flat->updated_grad = all ? flat->grad : flat->grad_own;
    flat->updated_param = all ? flat->full : flat->own;
}

/* ---- Places ---- */

static int moment_of(int what)
{
    return what == WEFT_ZERO_MOMENT1 ? 0 : what == WEFT_ZERO_MOMENT2 ? 1 : -1;
}

/* A weight that is the parameter itself. */
static int is_parameter(const struct wi_zero_flat *flat, int what)
{
    return what == WI_ZERO_PARAMETER || (what == WEFT_ZERO_WEIGHT && !flat->separate);
}

int wi_zero_has(const weft_zero *zero, const struct wi_zero_flat *flat, int what)
{
    int m = moment_of(what);

    if (what == WI_ZERO_PARAMETER || what == WEFT_ZERO_WEIGHT)
        return 1;
    return flat->trained && (m < 0 || m < wi_zero_moments(zero, flat));
}

static enum wi_zero_medium medium_of(const struct wi_zero_flat *flat, int what)
{
    int m = moment_of(what);

    if (is_parameter(flat, what) || what == WEFT_ZERO_GRAD)
        return flat->swapped ? WI_ZERO_IN_SWAP : WI_ZERO_IN_MEMORY;
    if (m >= 0 && flat->codes[m])
        return WI_ZERO_IN_CODES;
    return flat->filed ? WI_ZERO_IN_STREAM : WI_ZERO_IN_MEMORY;
}

/* What a rank has of a flat: in memory `base` has element `first` of the flat. */
struct region {
    char *base;
    size_t first, elems;
    weft_dtype dtype;
};

static struct region region_of(const weft_zero *zero, const struct wi_zero_flat *flat, int what)
{
    int m = moment_of(what);

    if (what == WEFT_ZERO_GRAD)
        return (struct region){flat->grad_own, wi_zero_first(zero, flat), flat->shard, flat->grad_dtype};
    if (what == WI_ZERO_PARAMETER || !flat->trained) {
        if (zero->units[flat->unit].kept)
            return (struct region){flat->full, 0, flat->elems, flat->dtype};
        return (struct region){flat->own, wi_zero_first(zero, flat), flat->shard, flat->dtype};
    }
    return (struct region){(char *)(m >= 0 ? flat->moment[m] : flat->weight), flat->updated_first, flat->updated_elems,
                           WEFT_FLOAT32};
}

struct wi_zero_place wi_zero_place(const weft_zero *zero, const struct wi_zero_param *param, int what,
                                   enum wi_zero_reach reach)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    const struct region region = region_of(zero, flat, what);
    struct wi_zero_place place = {.flat = flat, .what = what, .medium = medium_of(flat, what), .dtype = region.dtype};

    place.elems = reach == WI_ZERO_OWN       ? wi_zero_own_part(zero, param, &place.begin)
                  : reach == WI_ZERO_UPDATED ? wi_zero_updated_part(zero, param, &place.begin)
                                             : part_of(param, region.first, region.elems, &place.begin);
    if (!place.elems)
        return place;
    place.at = param->offset + place.begin - region.first;
    if (place.medium == WI_ZERO_IN_MEMORY)
        place.data = region.base + place.at * wi_zero_width(region.dtype);
    return place;
}

/* ---- Values ---- */

weft_status wi_zero_place_get(weft_zero *zero, const struct wi_zero_place *place, size_t first, size_t elems,
                              void *values)
{
    size_t at = place->at + first, width = wi_zero_width(place->dtype);
    int what = place->what;

    switch (place->medium) {
    case WI_ZERO_IN_CODES:
        wi_zero_state_get(zero, place->flat, (weft_zero_what)what, at, elems, values);
        return WEFT_SUCCESS;
    case WI_ZERO_IN_STREAM:
        return wi_zero_offload_get(zero, place->flat, (weft_zero_what)what, at, elems, values);
    case WI_ZERO_IN_SWAP:
        return wi_zero_swap_get(zero, place->flat, what == WEFT_ZERO_GRAD, at, elems, values);
    case WI_ZERO_IN_MEMORY:
        break;
    }
    if (elems)
        memcpy(values, place->data + first * width, elems * width);
    return WEFT_SUCCESS;
}

weft_status wi_zero_place_put(weft_zero *zero, const struct wi_zero_place *place, const void *values)
{
    int what = place->what;

    switch (place->medium) {
    case WI_ZERO_IN_CODES:
        wi_zero_state_put(zero, place->flat, (weft_zero_what)what, place->at, place->elems, values);
        return WEFT_SUCCESS;
    case WI_ZERO_IN_STREAM:
        return wi_zero_offload_put(zero, place->flat, (weft_zero_what)what, place->at, place->elems, values);
    case WI_ZERO_IN_SWAP:
        return wi_zero_swap_put(zero, place->flat, place->at, place->elems, values);
    case WI_ZERO_IN_MEMORY:
        break;
    }
    if (place->elems)
        memcpy(place->data, values, place->elems * wi_zero_width(place->dtype));
    return WEFT_SUCCESS;
}

/* Memory for all of a place, in its type. */
static weft_status make_room(const struct wi_zero_place *place, void **room)
{
    *room = wi_malloc(place->elems * wi_zero_width(place->dtype));
    return *room ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: no memory for %zu elements", place->elems);
}

weft_status wi_zero_place_load(weft_zero *zero, const struct wi_zero_place *place, void *values, weft_dtype dtype)
{
    void *own;

    if (!place->elems)
        return WEFT_SUCCESS;
    if (place->data) {
        wi_optim_convert(zero->pool, values, dtype, place->data, place->dtype, place->elems, 0);
        return WEFT_SUCCESS;
    }
    if (dtype == place->dtype)
        return wi_zero_place_get(zero, place, 0, place->elems, values);
    WI_TRY(make_room(place, &own));
    weft_status st = wi_zero_place_get(zero, place, 0, place->elems, own);

    if (st >= 0)
        wi_optim_convert(zero->pool, values, dtype, own, place->dtype, place->elems, 0);
    wi_free(own);
    return st;
}

weft_status wi_zero_place_store(weft_zero *zero, const struct wi_zero_place *place, const void *values,
                                weft_dtype dtype)
{
    void *own;

    if (!place->elems)
        return WEFT_SUCCESS;
    if (place->data) {
        wi_optim_convert(zero->pool, place->data, place->dtype, values, dtype, place->elems, 0);
        return WEFT_SUCCESS;
    }
    if (dtype == place->dtype)
        return wi_zero_place_put(zero, place, values);
    WI_TRY(make_room(place, &own));
    wi_optim_convert(zero->pool, own, place->dtype, values, dtype, place->elems, 0);
    weft_status st = wi_zero_place_put(zero, place, own);

    wi_free(own);
    return st;
}

weft_status wi_zero_place_copy(weft_zero *zero, const struct wi_zero_place *to, const struct wi_zero_place *from)
{
    void *own;

    if (!from->elems || from->data)
        return wi_zero_place_store(zero, to, from->data, from->dtype);
    WI_TRY(make_room(from, &own));
    weft_status st = wi_zero_place_get(zero, from, 0, from->elems, own);

    if (st >= 0)
        st = wi_zero_place_store(zero, to, own, from->dtype);
    wi_free(own);
    return st;
}
