/* SPDX-License-Identifier: BSD-3-Clause */
/* Lowering compiles a sealed schedule and a layout of the data into a program, in which the place and the length of every operand
 * are computed.
 *
 * A schedule names blocks. Which bytes they are depends on the call: equal blocks of a vector, one share of each rank, shares of
 * different lengths and places (v-forms), scratch. All of that is decided here, once, in one table of operands; to run a program
 * takes only a base address and the offset of a slice.
 *
 * A program's lengths may be in blocks instead of bytes (`scaled`): where all blocks are equally long and nothing is cut, one
 * program serves calls of every size. The caller then gives the bytes of a block (wi_binding.scale). */
#ifndef WI_EXEC_LOWER_H
#define WI_EXEC_LOWER_H

#include "base/reduce.h"
#include "sched/sched.h"

struct wi_extent {
    size_t at, bytes;
};

/* Where the blocks of a buffer are: block b begins at b * stride and has `stride` bytes, or what is left of `total` (0: no
 * end). `extent`: each block's own place and length; with `start` a block is several extents, extent[start[b]] to
 * extent[start[b + 1] - 1]. `like`: block b begins at b * stride and is as long as block b % modulo of that buffer. `pack`: as
 * long as the block of those of the layout that it is an image of. */
struct wi_blocks {
    size_t stride, total;
    const struct wi_extent *extent;
    const uint32_t *start;
    const struct wi_blocks *like;
    uint32_t modulo;
    const struct wi_pack *pack; /* of a coded schedule, for PACK */
    const struct wi_blocks *all; /* likewise: the layout's */
};
/* Of a block that is one extent. */
struct wi_extent wi_block_extent(const struct wi_blocks *blocks, size_t block);

/* A mapped stage of an operation: its ranks are some of the executor's, its blocks are extents of the operation's buffers, and it
 * shares slots and signals with another stage. */
struct wi_stage_layout {
    const int32_t *ranks; /* of the executor, by the schedule's */
    size_t slot_at;       /* where TMP begins in a slot */
    size_t slot_extent_bytes;    /* of an extent of a block, in a slot */
    uint16_t first_lane;  /* the signals that lane 0 of the schedule gives */
    uint8_t in[2];        /* SRC and DST of the schedule lie in these buffers (enum wi_buf) of the operation */
    uint8_t partial;      /* what its last reductions leave is no result: others follow */
};

/* How the data of one operation is cut. */
struct wi_layout {
    struct wi_blocks blocks[WI_NUM_BUFS]; /* TMP: of messages. PACK: in bytes of what the images are of */
    size_t slot_stride;                   /* mapped: of a block of TMP */
    const struct wi_stage_layout *stage;  /* NULL: the schedule is the whole operation's, or its messages */
    uint8_t mapped, ll;
    uint8_t read_again; /* what it leaves is read again soon: it stays in the caches */
    uint8_t packed;     /* lengths are numbers of blocks: packed.c */
    uint8_t adds;       /* the steps that complete DST add to what is there; the schedule completes it once */
    uint8_t sliced;     /* every block is cut into slices or fragments: regions are handled block by block */
    uint8_t coded;      /* so they are, too: images are whole blocks of the codec, each block's of the schedule for itself */
};

/* What memory an operand is in. */
enum wi_mem {
    WI_MEM_SRC, /* these four as enum wi_buf: this rank's own */
    WI_MEM_DST,
    WI_MEM_TMP,
    WI_MEM_PACK,     /* `at` is of what the image is of, as all places and lengths: coded.h */
    WI_MEM_RESIDUAL, /* likewise; number `rank`, which may be WI_NO_RESIDUAL */
    WI_MEM_SLOT,     /* the slot of `rank`, which may be this one: the same for every slice */
    WI_MEM_PEER_SRC, /* the buffer of `rank` */
    WI_MEM_PEER_DST,
    WI_MEM_LL,     /* what was fetched from the lines of `rank` */
    WI_MEM_LL_OWN, /* what is published next */
};

struct wi_operand {
    uint32_t mem; /* enum wi_mem */
    int32_t rank;
    size_t at;
};

/* What a step with images has besides its destinations and sources, as more operands behind them. */
enum wi_prog_extra {
    WI_EXTRA_NONE,
    WI_EXTRA_ENCODED, /* the residual of what is encoded, or where that would lie */
    /* Who decodes a result that is not finite takes back what its own residual got for that: the image that it made, of what, and
     * the residual. */
    WI_EXTRA_UNDO,
};
#define WI_EXTRA_OPERANDS(extra) ((extra) == WI_EXTRA_UNDO ? 3u : (uint32_t)(extra))

/* The same part of all operands of a step, as long as the shortest: destinations, then sources. */
struct wi_unit {
    uint32_t operand;
    size_t bytes; /* of all slices */
};

/* Kinds besides those of enum wi_step_kind: over ll lines a signal publishes its source, a wait fetches what a rank has. */
enum wi_prog_kind { WI_PROG_PUBLISH = WI_NUM_STEP_KINDS, WI_PROG_FETCH };

/* Beside enum wi_step_flags: what the destination holds is one more operand, which is added to the result (WI_REDUCE_ADD). */
#define WI_PROG_ADD 64

struct wi_prog_step {
    uint8_t kind, flags;        /* enum wi_step_flags, WI_PROG_ADD */
    uint8_t to_slot;            /* a destination is in a slot */
    uint8_t to_peer, from_peer; /* a destination, a source is another rank's buffer */
    uint8_t coded, extra;       /* a copy or a reduction with images; enum wi_prog_extra */
    uint16_t ndst, nsrc;
    uint16_t lane, ordinal; /* SIGNAL: whose signals are given; WAIT: of `peer`, awaited */
    int32_t peer;
    int32_t dep_lane;
    uint32_t dep_step;
    uint32_t unit, nunits;
};

static inline unsigned wi_reduce_flags(unsigned flags)
{
    return (flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0) | (flags & WI_PROG_ADD ? WI_REDUCE_ADD : 0);
}

struct wi_prog_lane {
    int32_t send_peer, recv_peer;
    uint32_t chan, first, nsteps;
    uint32_t signalled; /* steps up to the last one that signals, itself included */
};

struct wi_prog {
    uint32_t refs; /* counted with the executor held */
    uint8_t scaled;
    uint8_t alone; /* mapped, one lane, at most one unit a step, no other rank's buffers: see alone.c */
    uint32_t nlanes, nsteps, nunits;
    /* What it was made for, besides its schedule. */
    size_t stride, total, slot_stride, slot_extent_bytes;
    uint8_t sliced, ll, packed, mapped, stage, coded, adds;
    size_t pack_stride;
    uint8_t read_again;  /* as in the layout */
    uint8_t has_extents; /* its operands lie apart: nothing is posted ahead */
    const struct wi_extent *extent[2]; /* of SRC and DST, unless of a stage; NULL: those blocks had none */
    const struct wi_prog_lane *lanes;
    const struct wi_prog_step *steps;
    const struct wi_unit *units;
    const struct wi_operand *operands;
};

/* NULL: no memory. `rank` is this rank's. */
struct wi_prog *wi_lower(const struct wi_sched *sched, int rank, const struct wi_layout *layout);
/* Would wi_lower make this program again? prog NULL: no. Of a stage's layout only for the same stage of operations whose own
 * blocks have no extents: the stage's follow from their stride and total. */
int wi_prog_serves(const struct wi_prog *prog, const struct wi_sched *sched, const struct wi_layout *layout);
struct wi_prog *wi_prog_get(struct wi_prog *prog);
void wi_prog_put(struct wi_prog *prog);

#endif
