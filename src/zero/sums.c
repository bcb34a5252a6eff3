/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers that take two passes (lamb): the first one adds up sums of whole parameters, of which each rank has parts. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/zero.h"

static weft_status nothing(weft_zero *zero, int unit)
{
    (void)zero;
    (void)unit;
    return WEFT_SUCCESS;
}

/* All parameters' sums over a domain's ranks; all copies have the first one's, as groups may add in different orders. */
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

/* Whether a parameter of a domain has sums. */
static int has_sums(const weft_zero *zero, int param, int domain)
{
    const struct wi_zero_flat *flat = &zero->flats[zero->params[param].flat];

    return flat->domain == domain && flat->trained && flat->ops->flags & WI_OPTIM_TWO_PASSES;
}

static weft_status take_sums(weft_zero *zero)
{
    double *squares = zero->update.squares;

    for (int d = 0; d < zero->ndomains; d++) {
        memset(squares, 0, 2 * (size_t)zero->nparams * sizeof *squares);
        for (int i = 0; i < zero->nparams; i++)
            if (has_sums(zero, i, d))
                wi_optim_sums_end(&zero->update.sums[i], &squares[2 * i], &squares[2 * i + 1]);
        WI_TRY(add_up(zero, &zero->domains[d], squares));
        for (int i = 0; i < zero->nparams; i++)
            if (has_sums(zero, i, d))
                zero->params[i].ops->take_sums(&zero->update.optims[i], squares[2 * i], squares[2 * i + 1]);
    }
    return WEFT_SUCCESS;
}

weft_status wi_zero_first_pass(weft_zero *zero)
{
    memset(zero->update.sums, 0, (size_t)zero->nparams * sizeof *zero->update.sums);
    zero->update.first_pass = 1;
    weft_status st = wi_zero_update_all(zero, nothing);

    zero->update.first_pass = 0;
    return st < 0 ? st : take_sums(zero);
}
