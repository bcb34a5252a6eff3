/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a call by which the caller names something that all ranks must name alike. They are part of the operation's hash
 * (weft_op_info.hash), which travels with its messages and stands on boards, so that a disagreement is found, and the error says
 * what each rank named. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "comm/comm.h"
#include "comm/plans.h"

/* An option on which ranks must agree gets a row. What the library has chosen itself is compared only behind a gate that all ranks
 * have (wi_plan_named): before ranks have exchanged what they know they may plan an operation differently. */
static const struct option {
    const char *what;
    size_t at; /* of a string in weft_call_options */
} options_named[] = {
    {"algorithm", offsetof(weft_call_options, algorithm)},
};

static uint32_t hash_of(const struct option *o, const char *name)
{
    return (uint32_t)wi_hash64(name, strlen(name), wi_hash64(o->what, strlen(o->what), 0)) | 1;
}

#define NAME_BITS 0xffffffu

uint32_t wi_call_named(const weft_call_options *options)
{
    uint32_t named = 0;

    for (size_t i = 0; i < sizeof options_named / sizeof options_named[0]; i++) {
        const char *name;
        memcpy(&name, (const char *)options + options_named[i].at, sizeof name);
        if (name)
            named ^= hash_of(&options_named[i], name);
    }
    return named;
}

uint32_t wi_plan_named(const char *algorithm, size_t slice_bytes)
{
    uint32_t slices = (uint32_t)wi_hash64(&slice_bytes, sizeof slice_bytes, 0);

    return (hash_of(&options_named[0], algorithm) & NAME_BITS) | (slices & ~NAME_BITS);
}

/* ---- From a hash back to a name: the other rank has sent no more ---- */

static int is_named(const char *name, uint32_t named)
{
    return ((hash_of(&options_named[0], name) ^ named) & NAME_BITS) == 0;
}

/* Hierarchical ones, as far as they are made of a level, an algorithm among its groups, and one inside them. */
static int find_spec(const char *level, const char *outer, uint32_t named, char spec[WI_ALGO_SPEC_BYTES])
{
    for (int leader = 0; leader < 2; leader++) {
        const char *at = leader ? "@leader" : "";
        snprintf(spec, WI_ALGO_SPEC_BYTES, "%s:%s%s", level, outer, at);
        if (is_named(spec, named))
            return 1;
        for (const struct wi_algo *const *inner = wi_algos; *inner; inner++) {
            snprintf(spec, WI_ALGO_SPEC_BYTES, "%s:%s%s/%s", level, outer, at, (*inner)->name);
            if (is_named(spec, named))
                return 1;
        }
    }
    return 0;
}

const char *wi_call_algorithm(int kind, uint32_t named)
{
    static __thread char specs[2][WI_ALGO_SPEC_BYTES]; /* one message names two ranks' algorithms */
    static __thread unsigned turn;
    enum wi_coll family = wi_algo_family((enum wi_coll)kind);
    const char *level;

    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        if ((*a)->coll == family && is_named((*a)->name, named))
            return (*a)->name;
    for (int l = 0; (level = wi_model_level_name(l)) != NULL; l++)
        for (const struct wi_algo *const *a = wi_algos; *a; a++)
            if ((*a)->coll == family && find_spec(level, (*a)->name, named, specs[turn % 2]))
                return specs[turn++ % 2];
    return NULL;
}

/* ---- Does the name that a call gives exist? ---- */

weft_status wi_call_algorithm_check(const struct weft_comm *comm, const struct wi_call *call,
                                    const weft_call_options *options)
{
    const char *name = options->algorithm;
    enum wi_coll coll = (enum wi_coll)call->coll;
    struct wi_algo_choice ignored;

    if (!name)
        return WEFT_SUCCESS;
    if (strncmp(name, "file:", 5) == 0)
        return wi_plans_exists(comm->ctx->plans, coll, name);
    /* One rank has no levels: of a hierarchical one only the words between them are known. */
    return wi_algo_choose(coll, name, comm->nranks > 1 ? &comm->levels : NULL, comm->nranks, &ignored);
}
