/* SPDX-License-Identifier: BSD-3-Clause */
/* LAMB: the norms of weights and updates are those of whole parameters, of which each rank has parts. */
#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "zero/zero.h"

static weft_status nothing(weft_zero *zero, int unit)
{
    (void)zero;
    (void)unit;
    return WEFT_SUCCESS;
}

/* All parameters' squares over a domain's ranks; all copies have the first one's, as groups may add in different orders. */
static weft_status add_up(weft_zero *zero, const struct wi_zero_domain *domain, double *squares)
{
    uint64_t from = wi_now_ns();
    size_t count = 2 * (size_t)zero->nparams;
    weft_status st =
        wi_zero_numbers(zero, domain->reductions, WEFT_KIND_ALL_REDUCE, squares, count, "norms of parameters");

    if (st >= 0 && domain->replicas)
        st = wi_zero_numbers(zero, domain->replicas, WEFT_KIND_BROADCAST, squares, count,
                             "norms of parameters, the first copy's");
    zero->stats.norm_ns += wi_now_ns() - from;
    return st;
}

static double ratio(const weft_zero_hyper *hyper, double weight, double update)
{
    if (weight == 0 || update == 0)
        return 1;
    double coeff = sqrt(weight) / sqrt(update);

    return coeff > hyper->max_coeff ? hyper->max_coeff : coeff < hyper->min_coeff ? hyper->min_coeff : coeff;
}

static weft_status scale(weft_zero *zero, struct wi_optim *optims, double *squares)
{
    for (int d = 0; d < zero->ndomains; d++) {
        for (int i = 0; i < zero->nparams; i++)
            squares[2 * i] = squares[2 * i + 1] = 0;
        for (int i = 0; i < zero->nparams; i++)
            if (zero->flats[zero->params[i].flat].domain == d)
                wi_optim_sums_end(&zero->update.sums[i], &squares[2 * i], &squares[2 * i + 1]);
        WI_TRY(add_up(zero, &zero->domains[d], squares));
        for (int i = 0; i < zero->nparams; i++)
            if (zero->flats[zero->params[i].flat].domain == d)
                optims[i].step_size *= ratio(optims[i].hyper, squares[2 * i], squares[2 * i + 1]);
    }
    return WEFT_SUCCESS;
}

weft_status wi_zero_lamb(weft_zero *zero, struct wi_optim *optims)
{
    double *squares = wi_calloc(2 * (size_t)zero->nparams + 1, sizeof *squares);

    zero->update.sums = wi_calloc((size_t)zero->nparams + 1, sizeof *zero->update.sums);
    weft_status st = squares && zero->update.sums
                         ? wi_zero_update_all(zero, optims, nothing)
                         : wi_fail(WEFT_ENOMEM, "zero: step: no memory for norms of %d parameters", zero->nparams);

    if (st >= 0)
        st = scale(zero, optims, squares);
    wi_free(squares);
    wi_free(zero->update.sums);
    zero->update.sums = NULL;
    return st;
}
