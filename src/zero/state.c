/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments that are kept in fewer bytes than four (config.state_dtype). Each parameter's part in each shard has blocks of its own,
 * also in stage 0, where a rank has all shards: the same blocks in all stages. Scales of part number i of a flat, of what this
 * rank updates, are from its first element / 256 + i on, which leaves room for those of the part before. */
#include "base/status.h"
#include "zero/place.h"

size_t wi_zero_code_bytes(const struct wi_zero_flat *flat, size_t elems)
{
    return wi_zero_round(flat->state == WEFT_ZERO_STATE_BLOCK8 ? elems : 2 * elems, 64);
}

size_t wi_zero_scale_bytes(const struct wi_zero_flat *flat, size_t elems)
{
    if (flat->state != WEFT_ZERO_STATE_BLOCK8)
        return 0;
    return wi_zero_round((elems / WI_OPTIM_BLOCK + (size_t)(flat->nparams + flat->updated_ranks)) * sizeof(float), 64);
}

int wi_zero_part_codes(const weft_zero *zero, const struct wi_zero_flat *flat, int index, int rank, size_t *begin,
                       size_t *elems, struct wi_optim_codes *codes)
{
    const struct wi_zero_param *param = &zero->params[flat->params[index]];
    size_t width = flat->state == WEFT_ZERO_STATE_BLOCK8 ? 1 : 2, at;

    *elems = wi_zero_part(zero, param, rank, begin);
    if (!*elems)
        return 0;
    at = param->offset + *begin - flat->updated_first;
    for (int m = 0; m < 2; m++) {
        size_t first = at / WI_OPTIM_BLOCK + (size_t)(index + rank - flat->updated_rank);

        codes->codes[m] = flat->codes[m] ? flat->codes[m] + at * width : NULL;
        codes->scales[m] = flat->codes[m] && flat->scales[m] ? flat->scales[m] + first : NULL;
    }
    return 1;
}

/* Of elements from `at` on, of what this rank updates: parts of a parameter each. */
static void walk(const weft_zero *zero, const struct wi_zero_flat *flat, int m, size_t at, size_t elems, float *out,
                 const float *in)
{
    for (int i = 0; i < flat->nparams; i++)
        for (int r = flat->updated_rank; r < flat->updated_rank + flat->updated_ranks; r++) {
            struct wi_optim_codes codes;
            size_t begin, n, first, from, to;

            if (!wi_zero_part_codes(zero, flat, i, r, &begin, &n, &codes))
                continue;
            first = zero->params[flat->params[i]].offset + begin - flat->updated_first;
            from = first > at ? first : at;
            to = first + n < at + elems ? first + n : at + elems;
            if (from < to && out)
                wi_optim_decode(&codes, m, from - first, to - from, out + (from - at));
            else if (from < to)
                wi_optim_encode(&codes, m, from - first, to - from, in + (from - at));
        }
}

void wi_zero_state_get(const weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at,
                       size_t elems, float *values)
{
    walk(zero, flat, what == WEFT_ZERO_MOMENT2, at, elems, values, NULL);
}

void wi_zero_state_put(const weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at,
                       size_t elems, const float *values)
{
    walk(zero, flat, what == WEFT_ZERO_MOMENT2, at, elems, NULL, values);
}
