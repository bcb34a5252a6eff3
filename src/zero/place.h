/* SPDX-License-Identifier: BSD-3-Clause */
/* Where values are: which elements of a parameter, of its weight, gradient and moments this rank has, in which medium, and how they
 * are read and written there. Saving, loading, setting and getting ask here, and so does the update for what it works on. */
#ifndef WI_ZERO_PLACE_H
#define WI_ZERO_PLACE_H

#include "zero/zero.h"

/* Beside weft_zero_what: the parameter as programs see it, of which the weight of a trained one may be a finer copy. */
enum { WI_ZERO_PARAMETER = 0 };

enum wi_zero_medium {
    WI_ZERO_IN_MEMORY,
    WI_ZERO_IN_CODES,   /* in memory, in fewer bytes than floats (state.c) */
    WI_ZERO_IN_STREAM,  /* in the file of weights and moments (offload.c) */
    WI_ZERO_IN_SWAP     /* in the file of parameters and gradients (swap.c) */
};

enum wi_zero_reach {
    WI_ZERO_OWN,     /* what is in this rank's shard */
    WI_ZERO_UPDATED, /* what this rank updates: of a frozen parameter nothing */
    WI_ZERO_HELD     /* all that this rank has */
};

/* `elems` of a parameter's elements, from `begin` on. */
struct wi_zero_place {
    const struct wi_zero_flat *flat;
    int what; /* a weft_zero_what, or WI_ZERO_PARAMETER */
    enum wi_zero_medium medium;
    weft_dtype dtype; /* as they are read and written */
    size_t begin, elems;
    size_t at;        /* elements of the medium's that are before them */
    char *data;       /* in memory: the first; else NULL */
};

/* Whether parameters of a flat have it. */
int wi_zero_has(const weft_zero *zero, const struct wi_zero_flat *flat, int what);
struct wi_zero_place wi_zero_place(const weft_zero *zero, const struct wi_zero_param *param, int what,
                                   enum wi_zero_reach reach);

/* Elements of a place, from its element `first` on, in its type. put, of codes: whole parts of parameters. */
weft_status wi_zero_place_get(weft_zero *zero, const struct wi_zero_place *place, size_t first, size_t elems, void *values);
weft_status wi_zero_place_put(weft_zero *zero, const struct wi_zero_place *place, const void *values);
/* All of a place, in any type. */
weft_status wi_zero_place_load(weft_zero *zero, const struct wi_zero_place *place, void *values, weft_dtype dtype);
weft_status wi_zero_place_store(weft_zero *zero, const struct wi_zero_place *place, const void *values, weft_dtype dtype);
/* All of a place becomes what is in another one of as many elements. */
weft_status wi_zero_place_copy(weft_zero *zero, const struct wi_zero_place *to, const struct wi_zero_place *from);

/* The elements of a parameter that are in the shard of a rank of its domain: from `begin` (of the parameter) on; returns how
 * many. */
size_t wi_zero_part(const weft_zero *zero, const struct wi_zero_param *param, int rank, size_t *begin);
/* Those in this rank's shard, and those that it updates. */
size_t wi_zero_own_part(const weft_zero *zero, const struct wi_zero_param *param, size_t *begin);
size_t wi_zero_updated_part(const weft_zero *zero, const struct wi_zero_param *param, size_t *begin);

/* Which elements of a flat this rank updates; when there is memory, also where their gradients and parameters are. */
void wi_zero_mark_updated(const weft_zero *zero, struct wi_zero_flat *flat);

#endif
