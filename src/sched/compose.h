/* SPDX-License-Identifier: BSD-3-Clause */
/* Composition: schedules of collectives among some of the ranks become parts of one larger schedule.
 *
 * The data of the whole is a row of items: the blocks of the vector, or one rank's share each. A part is a sealed two-sided
 * schedule, written for a group of ranks as if they were alone; its blocks, here called shares, stand for runs of items.
 * Where an item lies (SRC, DST, scratch) is an affine place, so that both ends of a message cut a share into the same
 * messages: runs of consecutive items.
 *
 * Order. Parts are added in an order that all their ranks agree on: by chunk, then phase, then whatever else. A phase of a
 * chunk begins, slice by slice, when the phases before it in that chunk are complete on this rank; chunks only follow each
 * other where they use the same lane. So while one chunk is in a late phase, the next is in an earlier one, and the levels of
 * a network work at the same time.
 * Images. A part's block of PACK stands for one image of each item of its share: the images of a part follow each other in PACK of
 * the whole, and the images of a step are handled item by item, for an item is what a codec's blocks begin anew with.
 * Lanes. Parts that send to the same peer and receive from the same peer on a channel share a lane, in their order. Where
 * they would meet with only one of the two, the channel's steps are taken apart into sending and receiving lanes. */
#ifndef WI_SCHED_COMPOSE_H
#define WI_SCHED_COMPOSE_H

#include "sched/sched.h"

struct wi_run {
    uint32_t first, count; /* items */
};
/* Share i is the runs run[start[i]] .. run[start[i + 1] - 1]; it may have none. */
struct wi_shares {
    uint32_t n, begun, run_capacity;
    uint32_t *start; /* [n + 1] */
    struct wi_run *run;
};
/* Item i lies in block i + offset. */
struct wi_place {
    uint8_t buf;
    int64_t offset;
};

weft_status wi_shares_init(struct wi_shares *shares, uint32_t n);
/* Append items to the newest share; with `grow` the run before is continued where that is possible. */
weft_status wi_shares_add(struct wi_shares *shares, uint32_t first, uint32_t count, int grow);
/* Begin the next share: before the first item of each one. */
void wi_shares_next(struct wi_shares *shares);
uint32_t wi_shares_items(const struct wi_shares *shares, uint32_t share);
void wi_shares_free(struct wi_shares *shares);

struct wi_part {
    struct wi_sched *sched;            /* of this rank; a reference is taken */
    const int32_t *ranks;              /* the part's rank -> rank */
    const struct wi_shares *src, *dst; /* the same but for all_to_all, where they must be cut alike */
    struct wi_place src_at, dst_at;
    uint32_t shift;                    /* added to every item: the chunk's first */
    uint32_t chunk, phase, chan;       /* channel c of the part is chan + c of the whole */
    int as_is;                         /* its ranks and blocks, scratch too, are the whole's; `ranks` says so, and
                                          there are no shares and places */
    int final;                         /* its FINAL steps are the whole's; else they are not final */
    int roomy;                         /* dst_at has room for every item, and nothing else of these items lies there: scratch
                                          may go there where the part's steps allow it */
};

struct wi_compose;
/* `page_items`: items of the whole. `scratch_page`: the first page (page_items blocks) of scratch that parts may use for their
 * own scratch; places may use those below. */
weft_status wi_compose_create(uint32_t page_items, uint32_t scratch_page, struct wi_compose **compose);
/* Shares and ranks are borrowed until the composition is destroyed. */
weft_status wi_compose_add(struct wi_compose *compose, const struct wi_part *part);
/* Blocks of TMP that the parts added so far need. */
uint32_t wi_compose_tmp_blocks(const struct wi_compose *compose);
/* Likewise of PACK: for the head of the schedule. */
uint32_t wi_compose_pack_blocks(const struct wi_compose *compose);
/* Write all parts; errors are latched in the builder or returned. */
weft_status wi_compose_write(struct wi_compose *compose, struct wi_sched_builder *b);
void wi_compose_destroy(struct wi_compose *compose);

#endif
