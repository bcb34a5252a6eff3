/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/sched share: bounds, cells, the form check. */
#ifndef WI_SCHED_INTERNAL_H
#define WI_SCHED_INTERNAL_H

#include "sched/sched.h"

#define WI_SCHED_MAX_LANES 1024u
#define WI_SCHED_MAX_STEPS 65536u
#define WI_SCHED_MAX_REGIONS (1u << 20)
#define WI_SCHED_MAX_OPERANDS 4096u /* sources, and destinations, of one step */
#define WI_SCHED_MAX_BLOCKS (1u << 20)
#define WI_SCHED_MAX_RANKS (1 << 20)
#define WI_SCHED_MAX_PARSE_RANKS 4096

/* What seal allocates: the schedule, its facts, then lanes, steps and regions. */
struct wi_sched_sealed {
    struct wi_sched sched;
    struct wi_sched_stats stats;
};

/* Where a form error is; WI_NOWHERE: not in a lane, not in a step. */
#define WI_NOWHERE UINT32_MAX
struct wi_sched_place {
    uint32_t lane, step;
};

/* ---- step_names.c ---- */
extern const char *const wi_sched_step_names[WI_NUM_STEP_KINDS];
extern const char *const wi_sched_buf_names[WI_NUM_BUFS];
int wi_sched_is_send(unsigned kind); /* the step has a send half */
int wi_sched_is_recv(unsigned kind);
int wi_sched_is_reducing(unsigned kind);
int wi_sched_names_images(const struct wi_sched *sched, const struct wi_step *step); /* a region of it is in PACK */
int wi_sched_is_mapped(const struct wi_sched *sched, const struct wi_step *step);
/* "dst@2[1:1]" */
#define WI_REGION_TEXT_BYTES 48
const char *wi_sched_region_text(const struct wi_region *region, char text[WI_REGION_TEXT_BYTES]);
/* "schedule all_reduce/ring of rank 0/4: lane 1 step 3 (recv)" */
#define WI_PLACE_TEXT_BYTES 160
const char *wi_sched_place_text(const struct wi_sched *sched, uint32_t lane, uint32_t step,
                                char text[WI_PLACE_TEXT_BYTES]);

/* ---- cells.c: which memory a region is ---- */
/* Blocks of SRC, DST and TMP on `owner`; 0 where the user gives no such buffer. */
uint32_t wi_sched_blocks(const struct wi_sched *sched, int owner, unsigned buf);
/* Rename a region of `owner` so that memory shared in place has one name. */
struct wi_region wi_sched_canonical(const struct wi_sched *sched, int owner, struct wi_region region);
/* May a step store into this canonical region of `owner`? */
int wi_sched_writable(const struct wi_sched *sched, int owner, struct wi_region canonical);
static inline int wi_sched_owner(const struct wi_sched *sched, const struct wi_region *region)
{
    return region->rank == WI_SELF ? sched->rank : region->rank;
}

/* Which of the shares (blocks of the vector, or one for each rank) a block of SRC or DST is. */
uint32_t wi_sched_share(const struct wi_sched *sched, unsigned buf, uint32_t block);

/* ---- build.c ---- */
/* A step with everything but its dependency; the parser's way in. */
uint32_t wi_sched_step_add(struct wi_sched_builder *b, uint32_t lane, const struct wi_step *step,
                           const struct wi_region *dst, const struct wi_region *src);
/* wi_sched_seal that says where a form error is. */
weft_status wi_sched_seal_at(struct wi_sched_builder *b, struct wi_sched **sched,
                             struct wi_sched_place *place);

struct wi_build_lane {
    int32_t send_peer, recv_peer;
    uint32_t chan;
    uint32_t nsteps, nreturned, capacity;
    struct wi_step *steps;   /* dependencies name returned indices until seal */
    uint32_t *position;      /* of the k-th returned step in steps: NOPs shift them */
    uint32_t nsignals;
};

struct wi_sched_builder {
    struct wi_sched head;    /* all but the arrays */
    struct wi_pack *packs;
    int no_ll;
    weft_status status;      /* latched */
    char error[256];
    struct wi_build_lane *lanes;
    uint32_t nlanes, lane_capacity;
    struct wi_region *regions;
    uint32_t nregions, region_capacity;
    uint32_t nsteps;
};

/* ---- form.c ---- */
weft_status wi_sched_form(const struct wi_sched *sched, struct wi_sched_place *place);
/* The steps (as index into sched->steps) in an order that respects lanes and dependencies; returns how many could be
 * ordered (fewer than nsteps: a cycle), or WEFT_ENOMEM. */
int64_t wi_sched_order(const struct wi_sched *sched, uint32_t *order);

/* ---- stats.c ---- */
weft_status wi_sched_measure(const struct wi_sched *sched, struct wi_sched_stats *stats);

#endif
