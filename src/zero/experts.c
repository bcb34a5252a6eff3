/* SPDX-License-Identifier: BSD-3-Clause */
/* Experts in checkpoints. Ranks of other groups of config.experts have other tensors under the same names, which are saved under
 * names of their own: the caller's, or with the number of the group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "zero/zero.h"

/* ---- Groups, numbered by their first ranks ---- */

static weft_status smallest(weft_zero *zero, int32_t *rank)
{
    weft_call_options options;
    weft_call call;

    wi_zero_call(&call, &options, WEFT_KIND_ALL_REDUCE, rank, rank, 1, WEFT_INT32, "first rank of a group of experts");
    call.op = WEFT_MIN;
    weft_status st = weft_issue(zero->domains[WI_ZERO_EXPERTS].reductions, &call, NULL);

    return st < 0 ? wi_zero_broke(zero, st, "create: first rank of a group of experts") : st;
}

weft_status wi_zero_find_places(weft_zero *zero)
{
    int32_t first = zero->rank;

    zero->places = wi_calloc((size_t)zero->nranks, sizeof *zero->places);
    int32_t *firsts = wi_calloc((size_t)zero->nranks, sizeof *firsts);
    weft_status st = zero->places && firsts ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: create: out of memory");

    if (st >= 0)
        st = smallest(zero, &first);
    if (st >= 0)
        st = wi_zero_gather_bytes(zero, &first, firsts, sizeof first, "create: groups of experts");
    for (int r = 0; st >= 0 && r < zero->nranks; r++)
        zero->places[r] = firsts[r] == r ? zero->nplaces++ : -1;
    for (int r = 0; st >= 0 && r < zero->nranks; r++) {
        int at = firsts[r];

        if (at < 0 || at > r || zero->places[at] < 0)
            st = wi_fail(WEFT_EINVAL, "zero: create: experts of rank %d is no communicator of ranks of comm", r);
        else
            zero->places[r] = zero->places[at];
    }
    wi_free(firsts);
    return st;
}

/* ---- Names ---- */

/* The name of a parameter, hashed: of parameter number `param`, on a rank of a group; -1: of all. */
struct named {
    uint64_t hash;
    int param, place;
};

static int by_hash(const void *a, const void *b)
{
    const struct named *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->place != y->place ? (x->place < y->place ? -1 : 1) : x->param - y->param;
}

static weft_status make_names(weft_zero *zero)
{
    for (int i = 0; i < zero->nparams; i++) {
        struct wi_zero_param *param = &zero->params[i];
        size_t bytes = strlen(param->name) + 16;

        if (param->saved || !(param->flags & WEFT_ZERO_EXPERT))
            continue;
        param->saved = wi_malloc(bytes);
        if (!param->saved)
            return wi_fail(WEFT_ENOMEM, "zero: seal: out of memory");
        snprintf(param->saved, bytes, "%s@%d", param->name, zero->places[zero->rank]);
    }
    return WEFT_SUCCESS;
}

static uint64_t hash_of(const struct wi_zero_param *param)
{
    const char *name = wi_zero_saved_name(param);

    return wi_hash64(name, strlen(name), 17);
}

/* Two names that are one, among sorted ones. All ranks have the same list of the groups' first ranks. */
static weft_status find_twice(const weft_zero *zero, const struct named *list, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const struct named *a = &list[i - 1], *b = &list[i];

        if (a->hash != b->hash)
            continue;
        if (a->place < 0 || a->place == b->place)
            return wi_fail(
                WEFT_EINVAL,
                "zero: seal: parameters \"%s\" and \"%s\" have one name in checkpoints; save_name gives another",
                zero->params[a->param].name, zero->params[b->param].name);
        return wi_fail(
            WEFT_EINVAL,
            "zero: seal: experts \"%s\" of group %d and \"%s\" of group %d have one name in checkpoints; each "
            "expert needs a save_name of its own, or none",
            zero->params[a->param].name, a->place, zero->params[b->param].name, b->place);
    }
    return WEFT_SUCCESS;
}

/* Names of all experts of all ranks, `nexperts` of each rank; those of a group are the same. */
static weft_status list_experts(const weft_zero *zero, const uint64_t *hashes, const int *numbers, int nexperts,
                                struct named *list, size_t *n)
{
    for (int r = 0; r < zero->nranks; r++) {
        int first = 0;

        while (zero->places[first] != zero->places[r])
            first++;
        for (int i = 0; i < nexperts; i++) {
            uint64_t hash = hashes[(size_t)r * (size_t)nexperts + (size_t)i];

            if (hash != hashes[(size_t)first * (size_t)nexperts + (size_t)i])
                return wi_fail(WEFT_EMISMATCH,
                               "zero: seal: ranks %d and %d keep the same experts, and have other save_names of \"%s\"",
                               first, r, zero->params[numbers[i]].name);
            if (first == r)
                list[(*n)++] = (struct named){hash, numbers[i], zero->places[r]};
        }
    }
    return WEFT_SUCCESS;
}

static weft_status check_names(weft_zero *zero, const int *numbers, int nexperts)
{
    size_t most = (size_t)zero->nparams + (size_t)nexperts * (size_t)zero->nplaces, n = 0;
    uint64_t *mine = wi_calloc((size_t)nexperts + 1, sizeof *mine);
    uint64_t *all = wi_calloc((size_t)nexperts * (size_t)zero->nranks + 1, sizeof *all);
    struct named *list = wi_calloc(most + 1, sizeof *list);
    weft_status st = mine && all && list ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: seal: out of memory");

    st = wi_zero_agree(zero, st, "seal: names of experts");
    for (int i = 0; st >= 0 && i < nexperts; i++)
        mine[i] = hash_of(&zero->params[numbers[i]]);
    if (st >= 0 && nexperts)
        st = wi_zero_gather_bytes(zero, mine, all, (size_t)nexperts * sizeof *mine, "seal: names of experts");
    if (st >= 0)
        st = list_experts(zero, all, numbers, nexperts, list, &n);
    for (int i = 0; st >= 0 && i < zero->nparams; i++)
        if (!(zero->params[i].flags & WEFT_ZERO_EXPERT))
            list[n++] = (struct named){hash_of(&zero->params[i]), i, -1};
    if (st >= 0) {
        qsort(list, n, sizeof *list, by_hash);
        st = find_twice(zero, list, n);
    }
    wi_free(mine);
    wi_free(all);
    wi_free(list);
    return st;
}

weft_status wi_zero_name_saved(weft_zero *zero)
{
    int *numbers = wi_calloc((size_t)zero->nparams + 1, sizeof *numbers), nexperts = 0, given = 0;
    weft_status st = numbers ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: seal: out of memory");

    for (int i = 0; st >= 0 && i < zero->nparams; i++) {
        given |= zero->params[i].saved != NULL;
        if (zero->params[i].flags & WEFT_ZERO_EXPERT)
            numbers[nexperts++] = i;
    }
    if (st >= 0)
        st = make_names(zero);
    st = wi_zero_agree(zero, st, "seal: names in checkpoints");
    /* The same on all ranks, which have compared their models. */
    if (st >= 0 && (given || nexperts))
        st = check_names(zero, numbers, nexperts);
    wi_free(numbers);
    return st;
}
