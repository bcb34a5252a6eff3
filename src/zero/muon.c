/* SPDX-License-Identifier: BSD-3-Clause */
/* Flats of matrices that Muon updates, one after the other. */
#include "zero/place.h"

/* Whether this rank updates a parameter. */
static int is_here(const weft_zero *zero, const struct wi_zero_param *param)
{
    size_t begin;

    return wi_zero_updated_part(zero, param, &begin) > 0;
}

size_t wi_zero_muon_bytes(const weft_zero *zero)
{
    size_t most = 0;

    for (int i = 0; i < zero->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[i];
        size_t bytes = param->flags & WEFT_ZERO_MUON && is_here(zero, param)
                           ? wi_optim_muon_bytes(param->shape[0], param->shape[1])
                           : 0;

        most = bytes > most ? bytes : most;
    }
    return most;
}

void wi_zero_muon_update(weft_zero *zero, const struct wi_zero_flat *flat, const struct wi_optim *optims,
                         const struct wi_zero_memory *memory)
{
    for (int i = 0; i < flat->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[flat->params[i]];
        const struct wi_optim *optim = &optims[param->group];
        size_t at = param->offset - flat->updated_first;

        if (!is_here(zero, param))
            continue;
        const struct wi_optim_muon muon = {
            .rows = param->shape[0],
            .columns = param->shape[1],
            .weight = memory->weight + at,
            .moment = memory->moment[0] + at,
            .grad = memory->grads + at * wi_zero_width(flat->grad_dtype),
            .grad_dtype = flat->grad_dtype,
            .out = flat->separate ? memory->out + at * wi_zero_width(flat->dtype) : NULL,
            .out_dtype = flat->dtype,
            .grad_scale = optim->grad_scale,
            .hyper = optim->hyper,
            .scratch = zero->update.scratch,
        };

        wi_optim_muon(zero->pool, &muon);
    }
}
