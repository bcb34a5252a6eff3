/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of lowering share: how steps are cut, and where scratch goes. */
#ifndef WI_SCHED_IMPORT_LOWER_H
#define WI_SCHED_IMPORT_LOWER_H

#include "sched/check_internal.h"
#include "import/import_program.h"

/* One use of scratch: chunk of the file, block of the data in it, and block of TMP that it becomes. */
struct wi_imp_use {
    uint32_t chunk, block, at;
};

struct wi_imp_scratch {
    struct wi_imp_use *uses; /* by chunk, then block; NULL: chunks stay where they are */
    uint32_t nuses, blocks;  /* blocks: of TMP in all */
};

struct wi_imp_lower {
    struct wi_imp_prog *prog;
    int split;  /* every step handles one chunk */
    int merge;  /* one lane per rank */
    int draft;
    struct wi_notes notes;
    uint32_t **order; /* [rank][op, lane by lane] of a run, when merging */
    struct wi_imp_scratch *scratch; /* [nranks]; NULL: as the file says */
    uint32_t *tmp_chunks;           /* [nranks] with what dropping steps need */
};

/* Steps that an op becomes. */
static inline uint32_t wi_imp_parts(const struct wi_imp_lower *lo, const struct wi_imp_rank *rank,
                                    const struct wi_imp_op *op)
{
    return lo->split && op->ndst + op->nsrc ? rank->regions[op->regions].count : 1;
}

/* ---- import_scratch.c ---- */
/* Find a place for every chunk of scratch of `rank`. 1: only if steps are split. */
int wi_imp_place_scratch(struct wi_imp_lower *lo, int rank, weft_status *status);
uint32_t wi_imp_scratch_at(const struct wi_imp_scratch *scratch, uint32_t chunk, uint32_t block);

/* ---- import_merge.c ---- */
weft_status wi_imp_order(struct wi_imp_lower *lo);
void wi_imp_order_free(struct wi_imp_lower *lo);

#endif
