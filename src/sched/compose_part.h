/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the composition share: one part, and how its regions become regions of the whole. */
#ifndef WI_SCHED_COMPOSE_PART_H
#define WI_SCHED_COMPOSE_PART_H

#include "sched/compose.h"
#include "sched/internal.h"

struct wi_part_state {
    struct wi_part part;
    uint32_t nshares;
    uint32_t *tmp_share;  /* [blocks of the part's TMP]: which share is kept there */
    int scratch_in_dst;   /* page 0 of the part's TMP is dst_at */
    uint32_t pages;       /* of scratch proper */
    uint32_t *pack_at;    /* [blocks of the part's PACK + 1]: its first image, from pack_first on */
    uint32_t pack_first;  /* of the whole's PACK */
};

weft_status wi_part_init(struct wi_part_state *state, const struct wi_part *part);
/* Blocks of the whole's PACK that it takes. */
uint32_t wi_part_images(const struct wi_part_state *state);
/* Say what its images are of, in a schedule of this collective. */
void wi_part_name_images(const struct wi_part_state *state, enum wi_coll whole, struct wi_sched_builder *b);
void wi_part_fini(struct wi_part_state *state);

/* The pieces of one step, each a set of regions of the whole: destinations, then sources. */
struct wi_pieces {
    uint32_t n, nregions, capacity;
    struct wi_region *region; /* [n * nregions] */
};
weft_status wi_part_pieces(const struct wi_part_state *state, const struct wi_step *step, uint32_t page_items,
                           uint32_t scratch_page, struct wi_pieces *pieces);

#endif
