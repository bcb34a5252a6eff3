/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker's model: all ranks' lanes, run over channels that hold one message, on cells that hold symbolic values,
 * with a vector clock per lane.
 *
 *   value  which contributions a block holds: the origin block, and the set of ranks.
 *   cell   one block of one buffer of one rank: its value, its newest write, and the reads since.
 *   lane   an actor. Time in a lane: step k receives and works at 2k+1, sends and is complete at 2k+2.
 *
 * What is sent is read when it is sent, and may only be overwritten once it has been received.
 * The program is deterministic (lanes block only on what one other lane does), so one run shows every result, every
 * deadlock and, by the clocks, every pair of accesses that another run could reorder. */
#ifndef WI_SCHED_CHECK_INTERNAL_H
#define WI_SCHED_CHECK_INTERNAL_H

#include "sched/internal.h"

#define WI_NONE UINT32_MAX

/* ---- check_clock.c: what a lane knows of the others, sparse, shared, immutable ---- */
struct wi_tick {
    uint32_t lane, time;
};
struct wi_clock {
    uint32_t refs, n;
    struct wi_tick at[]; /* by lane */
};
struct wi_clock *wi_clock_get(struct wi_clock *clock); /* NULL: knows nothing */
void wi_clock_put(struct wi_clock *clock);
/* *clock learns what `other` knows, and that `lane` has reached `time`. -1: no memory. */
int wi_clock_join(struct wi_clock **clock, const struct wi_clock *other, uint32_t lane, uint32_t time);
uint32_t wi_clock_time(const struct wi_clock *clock, uint32_t lane);
/* Does it know anything of lanes [first, first + n)? */
int wi_clock_knows(const struct wi_clock *clock, uint32_t first, uint32_t n);

/* ---- check_value.c ---- */
struct wi_value {
    uint32_t block;   /* of the origin */
    uint32_t nranks;  /* contributions held; 0: undefined */
    uint32_t lowest;  /* ordered: they are [lowest, lowest + nranks) */
    uint32_t lane, step; /* that completed it */
    uint8_t final;
    uint8_t partial;     /* a step is combining it: not rounded yet */
    uint8_t coded;       /* it is an image */
    uint32_t losses;     /* encodings since a contribution was the caller's, at most */
    uint64_t grouping;   /* hash of the tree of sums that it is */
};

struct wi_message {
    uint8_t full;
    uint32_t count, capacity;
    uint32_t lane, time;    /* of the send */
    struct wi_region from;  /* canonical, of the sender */
    struct wi_clock *clock;
    struct wi_value *values;
    uint64_t *bits;
};

enum wi_lane_state {
    WI_LANE_READY,
    WI_LANE_DEP,
    WI_LANE_WAIT,
    WI_LANE_RECV,
    WI_LANE_SEND,
    WI_LANE_OVERWRITE, /* what the step stores to is still being sent */
    WI_LANE_DONE
};

struct wi_check_lane {
    uint32_t rank, index;
    const struct wi_lane *def;
    const struct wi_step *steps;
    uint32_t first;           /* of its steps, among those of all lanes */
    uint32_t pos;
    uint8_t received;         /* step `pos` has received and has yet to send */
    uint8_t state;            /* enum wi_lane_state */
    uint32_t blocker;         /* the lane that must move */
    uint32_t to, from;        /* lanes at the other ends; WI_NONE */
    uint32_t waiters, next;
    struct wi_clock *clock;
    struct wi_message inbox;
};

struct wi_read {
    uint32_t lane, time, next;
};

struct wi_cell {
    uint32_t write_lane, write_time; /* WI_NONE: as the caller gave it */
    uint32_t reads;                  /* list; WI_NONE */
};

struct wi_saved {
    struct wi_clock *clock;
    uint8_t wanted;
};

/* What a study of a draft learns, besides whether it is right. Steps are numbered through, rank by rank and lane by lane. */
struct wi_notes {
    uint32_t rank, lane, step; /* of the refusal; WI_NOWHERE: of no step */
    uint32_t nsteps;
    uint32_t *first;    /* step number of the first step of each rank */
    uint8_t *final;     /* [nsteps] completes what becomes a result */
    uint32_t *block_at; /* [nsteps] index into blocks */
    uint32_t *blocks;   /* per step and block of its regions: which block of the data that is */
};
/* wi_sched_check that does not ask for FINAL and for blocks of scratch that fit, and finds both out. */
weft_status wi_sched_study(const struct wi_sched *const scheds[], int nranks, struct wi_notes *notes);
void wi_notes_fini(struct wi_notes *notes);

struct wi_check {
    struct wi_notes *notes;    /* NULL unless this is a study */
    const struct wi_sched *const *scheds;
    uint32_t nranks, nlanes, nsteps;
    uint32_t words;            /* of a set of ranks */
    int ordered, alike, data, mapped; /* data: not a barrier */
    uint32_t *rank_lanes;      /* first lane of each rank; nranks + 1 */
    struct wi_check_lane *lanes;
    struct wi_saved *saved;    /* per step: clock when complete */

    uint64_t *rank_cells;      /* first cell of each rank */
    uint64_t ncells;
    struct wi_cell *cells;
    struct wi_value *values;
    uint64_t *bits;            /* words per cell */
    struct wi_value scratch;   /* a step's result */
    uint64_t *scratch_bits;

    struct wi_read *reads;
    uint32_t nreads, read_capacity, free_read;

    uint32_t *foreign;         /* [owner][lane]: newest access to another's SRC or DST; NULL: there is none */
    uint32_t *in_transit;      /* per rank: messages of its lanes that have not been received */
    struct wi_clock **ends;    /* per rank: what it knows when it returns; NULL: not needed */
    uint32_t ready, ready_tail;
    uint8_t *residuals;        /* [cell][residual]: used; NULL: nothing is coded */
    uint32_t lossy;            /* losses of results so far, at most */
};

weft_status wi_check_fail(const struct wi_check *c, uint32_t lane, uint32_t step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
weft_status wi_check_nomem(const struct wi_check *c);
/* "rank 1 lane 0 step 3 (recv)" */
const char *wi_check_step_text(const struct wi_check *c, uint32_t lane, uint32_t step,
                               char text[WI_PLACE_TEXT_BYTES]);

/* Give the caller's buffers their values. */
void wi_check_values_init(struct wi_check *c);
/* Begin a step's result with one operand; combine it with the next one, which goes on its right (or left). */
void wi_check_take(struct wi_check *c, const struct wi_value *v, const uint64_t *bits);
weft_status wi_check_combine(struct wi_check *c, uint32_t lane, uint32_t step, const struct wi_value *v,
                             const uint64_t *bits, int left);
/* Settle FINAL for the result of a reducing step. */
weft_status wi_check_finish(struct wi_check *c, uint32_t lane, uint32_t step, unsigned flags);
/* The step's result becomes an image, of block `i` of the region; what stays plain is what that holds. */
weft_status wi_check_encode(struct wi_check *c, uint32_t lane, uint32_t step, const struct wi_region *r, uint32_t i);
/* Every result as the collective defines it. */
weft_status wi_check_results(struct wi_check *c);

/* ---- check_access.c: cells, races ---- */
weft_status wi_check_access_init(struct wi_check *c);
/* The cell of block `first + i` of a region, for reading: defined, ordered after its write. */
weft_status wi_check_load(struct wi_check *c, uint32_t lane, uint32_t time, const struct wi_region *r,
                          uint32_t i, uint64_t *cell);
/* Put the step's result there: ordered after the newest write and all reads. */
weft_status wi_check_store(struct wi_check *c, uint32_t lane, uint32_t time, const struct wi_region *r,
                           uint32_t i);
/* No rank returns while others use its memory; no barrier lets anybody through early. */
weft_status wi_check_ends(struct wi_check *c);
uint64_t wi_check_cell(const struct wi_check *c, int owner, struct wi_region canonical);

/* ---- check_match.c: agreement and pairing ---- */
weft_status wi_check_agreement(const struct wi_sched *const scheds[], int nranks);
weft_status wi_check_match(struct wi_check *c);

/* ---- check_run.c ---- */
weft_status wi_check_run(struct wi_check *c);

#endif
