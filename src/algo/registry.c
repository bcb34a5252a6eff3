/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of algorithms, and finding one by name. */
#include <string.h>

#include "algo/list.h"

const struct wi_algo *const wi_algos[] = {
#define WI_ALGO_ENTRY(stem) &wi_##stem,
    WI_ALGO_LIST(WI_ALGO_ENTRY)
#undef WI_ALGO_ENTRY
        NULL,
};

enum wi_coll wi_algo_family(enum wi_coll coll)
{
    switch (coll) {
    case WI_COLL_ALL_GATHER_V:
        return WI_COLL_ALL_GATHER;
    case WI_COLL_REDUCE_SCATTER_V:
        return WI_COLL_REDUCE_SCATTER;
    case WI_COLL_ALL_TO_ALL_V:
        return WI_COLL_ALL_TO_ALL;
    case WI_COLL_GATHER_V:
        return WI_COLL_GATHER;
    case WI_COLL_SCATTER_V:
        return WI_COLL_SCATTER;
    default:
        return coll;
    }
}

const struct wi_algo *wi_algo_find(enum wi_coll coll, const char *name)
{
    enum wi_coll family = wi_algo_family(coll);
    unsigned refused = family == coll ? 0 : WI_ALGO_UNIFORM;

    if (!name)
        return NULL;
    for (size_t i = 0; wi_algos[i]; i++) {
        const struct wi_algo *algo = wi_algos[i];
        if (algo->coll == family && !(algo->needs & refused) && strcmp(algo->name, name) == 0)
            return algo;
    }
    return NULL;
}

const struct wi_algo *wi_algo_ll(enum wi_coll coll)
{
    for (size_t i = 0; wi_algos[i]; i++)
        if (wi_algos[i]->coll == coll && wi_algos[i]->traits.ll)
            return wi_algos[i];
    return NULL;
}

const struct wi_algo_level *wi_algo_level_find(const struct wi_algo_levels *levels, const char *name)
{
    for (int i = 0; levels && i < levels->nlevels; i++)
        if (strcmp(levels->level[i].name, name) == 0)
            return &levels->level[i];
    return NULL;
}
