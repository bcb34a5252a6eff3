/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the interpreter share. */
#ifndef TESTS_INTERP_INTERNAL_H
#define TESTS_INTERP_INTERNAL_H

#include "interp.h"

#define MAX_BLOCK 3 /* elements */
#define MAX_SLICES 3
#define MAX_DEPTH 4

/* What an element holds. Nibbles 0..9: the contributing ranks, the rightmost operand lowest; then their number, flags,
 * and which element of SRC they contributed, plus one. 0: nothing was written. */
#define VALUE_RANKS 10u
#define VALUE_COUNT_AT 40
#define VALUE_DIVIDED (1ull << 44)
#define VALUE_BAD (1ull << 45)
#define VALUE_ORIGIN_AT 46

struct elem {
    uint64_t value;
    int32_t epoch; /* of scratch in slots; else -1 */
};

/* A piece of a region. */
struct span {
    struct elem *at;
    uint32_t n;
    int32_t epoch;
    int owner;
    uint8_t foreign; /* another rank's SRC or DST */
};

struct message {
    struct elem *from;
    uint32_t n;
    uint64_t *data;
    uint8_t taken;
};

struct receive {
    const struct wi_step *step;
    struct elem *dst, *src;
    uint32_t n;
    uint64_t *bounce;
    uint8_t landed;
};

#define MAX_AHEAD 8

struct lane {
    const struct wi_lane *def;
    const struct wi_step *steps;
    int rank, to, from; /* lanes at the other ends; -1 */
    uint32_t index;     /* within its rank */
    uint32_t step, slice, piece;
    uint32_t post_step, post_slice, post_piece;
    struct receive recvs[MAX_AHEAD];
    uint32_t nrecvs, nlanded;
    struct message *sent; /* [capacity] in order */
    uint32_t capacity, nsent, ntaken, ndelivered;
    uint64_t *temp; /* what a local step has read and not yet stored */
    uint32_t phase; /* of a local step: 0, or destinations stored + 1 */
    uint64_t signal;
    uint8_t gated, done;
};

enum rank_state { RANK_OUTSIDE, RANK_INSIDE, RANK_LEFT };

struct rank {
    const struct wi_sched *sched;
    struct elem *store[WI_NUM_BUFS]; /* memory of its own */
    uint64_t room[WI_NUM_BUFS];
    struct elem *base[WI_NUM_BUFS]; /* where the buffer is: in place, part of another one's store */
    uint32_t lanes_left;
    uint64_t slices_done;
    uint8_t state;
    /* ll */
    struct elem *own, *lines, *landing; /* own scratch; [depth] lines; [nranks] what was fetched */
    const struct wi_region *publish;    /* a source that stands for own scratch; NULL */
    uint64_t line_epoch[MAX_DEPTH];     /* + 1 */
    struct elem *fetched[INTERP_MAX_RANKS];
};

#define WAKE_RANK 1u /* the lanes of the acting rank */
#define WAKE_TO 2u   /* the lane that receives from this one */
#define WAKE_FROM 4u /* the rank that this lane receives from */
#define WAKE_ALL 8u

struct interp {
    struct rank ranks[INTERP_MAX_RANKS];
    int nranks, ordered, root, in_place, vector, mapped, can_ll;
    unsigned coll;
    uint32_t cut, nlanes;
    struct lane *lanes;
    uint32_t first_lane[INTERP_MAX_RANKS + 1];
    uint64_t *arena, arena_room, arena_used;
    uint32_t tmp_blocks; /* mapped: of every rank */
    /* Of this run. */
    uint64_t rng;
    uint32_t block, slice, nslices, depth, ahead;
    uint64_t total; /* elements of a vector */
    uint8_t strict; /* channels of one message */
    uint8_t early;  /* of 4: how readily transports take a message */
    uint8_t fused, ll, ll_in_place, split;
    uint8_t wake; /* who may go on after this action: WAKE_* */
    char wrong[256];
    /* Actors: lanes, then ranks; by priority. */
    uint32_t nactors, *actor_at, *place_of;
    uint8_t *idle; /* by place */
};

/* ---- interp_memory.c ---- */
int interp_memory_create(struct interp *m);
void interp_memory_destroy(struct interp *m);
void interp_memory_reset(struct interp *m);
struct span interp_span(struct interp *m, int rank, const struct wi_region *r, uint32_t slice, uint32_t piece);
uint32_t interp_pieces(const struct interp *m, const struct wi_region *r);
uint64_t interp_load(struct interp *m, const struct span *s, uint32_t i);
void interp_store(struct interp *m, const struct span *s, uint32_t i, uint64_t value);
/* SRC or DST of another rank, now? */
void interp_touch(struct interp *m, const struct span *s);
uint64_t interp_combine(uint64_t left, uint64_t right);
uint64_t interp_divide(const struct interp *m, uint64_t value);
void interp_results(struct interp *m);
int interp_reduces(unsigned coll);

/* ---- interp_two_sided.c, interp_mapped.c, interp_ll.c: 1 if the lane moved ---- */
int interp_two_sided(struct interp *m, struct lane *l);
int interp_mapped(struct interp *m, struct lane *l);
int interp_ll(struct interp *m, struct lane *l);
/* Read the sources of one piece of a COPY or REDUCE; the number of elements. */
uint32_t interp_gather(struct interp *m, struct lane *l, const struct wi_step *st);
uint32_t interp_least(struct interp *m, const struct lane *l, const struct wi_step *st);

/* ---- interp_run.c ---- */
uint32_t interp_random(struct interp *m, uint32_t below);
void interp_wrong(struct interp *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void interp_lane_done(struct interp *m, struct lane *l);

static inline int interp_next(const struct interp *m, uint32_t pieces, uint32_t *slice, uint32_t *piece)
{
    if (++*piece < pieces)
        return 1;
    *piece = 0;
    return ++*slice < m->nslices;
}

#endif
