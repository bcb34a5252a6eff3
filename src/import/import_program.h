/* SPDX-License-Identifier: BSD-3-Clause */
/* What the readers of foreign formats make of a file, before it is schedules: all ranks' thread blocks in the file's own
 * chunks, with the place of each step. import_lower.c does the rest:
 *
 *   draft    one lane per thread block, everything as the file says. Studied: refused here is refused in the file's words,
 *            and known afterwards are the steps that complete results, and which block of the data every chunk of scratch
 *            holds.
 *   final    FINAL marked; scratch moved to where blocks are as long as what they hold; steps over several chunks cut
 *            into single ones if scratch or FINAL demand it; thread blocks merged if there are more than a mapped schedule may
 *            have. Checked like any algorithm. */
#ifndef WI_SCHED_IMPORT_PROGRAM_H
#define WI_SCHED_IMPORT_PROGRAM_H

#include "import/import.h"
#include "sched/internal.h"

#define WI_IMPORT_MAX_LANES 256  /* thread blocks of a rank */
#define WI_IMPORT_MAX_CHUNKS 65536 /* of a buffer */
#define WI_IMPORT_MAX_WORK (1ull << 26)

/* Where an op stands in the file. */
struct wi_imp_place {
    uint32_t line;     /* XML; 0: JSON */
    uint32_t op, inner; /* JSON: index in the thread block's ops, and in a pipeline's; WI_NOWHERE */
};

struct wi_imp_op {
    uint8_t kind;         /* enum wi_step_kind */
    uint8_t drops;        /* RECV_REDUCE_SEND that keeps nothing: its destination is scratch to be found */
    uint16_t ndst, nsrc;
    uint32_t regions;     /* in the rank's: destinations, then sources; chunks */
    int32_t dep_lane;     /* WI_NO_DEP */
    uint32_t dep_op;      /* index of an op of that lane */
    int32_t peer;         /* WAIT: the rank, its lane, and its op that signals */
    uint32_t lane, signal;
    struct wi_imp_place place;
};

struct wi_imp_lane {
    int id; /* in the file */
    uint32_t index; /* in the file's list */
    uint32_t line;
    int32_t send_peer, recv_peer;
    uint32_t chan;
    struct wi_imp_op *ops;
    uint32_t nops, capacity;
};

struct wi_imp_rank {
    uint32_t seen;   /* line or index + 1; 0: the file has no such rank */
    uint32_t chunks[WI_NUM_BUFS]; /* as the file says */
    struct wi_imp_lane *lanes;
    uint32_t nlanes, lane_capacity;
    struct wi_region *regions;
    uint32_t nregions, region_capacity;
};

struct wi_imp_prog {
    const char *file;
    enum wi_import_format format;
    char name[24];
    enum wi_coll coll;
    int nranks, root, in_place;
    uint32_t nblocks; /* chunks of the vector, or of a share */
    int mapped;
    uint64_t min_bytes, max_bytes, nops;
    struct wi_imp_rank *ranks;
};

/* ---- import_program.c ---- */
weft_status wi_imp_fail(const struct wi_imp_prog *prog, weft_status status, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "FILE:LINE" or "FILE: gpus[1].threadblocks[0].ops[3]" */
#define WI_IMP_PLACE_BYTES 256
const char *wi_imp_place_text(const struct wi_imp_prog *prog, int rank, const struct wi_imp_lane *lane,
                              const struct wi_imp_op *op, char text[WI_IMP_PLACE_BYTES]);
void wi_imp_set_name(struct wi_imp_prog *prog, const char *name);
/* "allreduce", "all_reduce", "AllReduce"; 0 or -1 */
int wi_imp_coll(const char *name, enum wi_coll *coll);
weft_status wi_imp_ranks(struct wi_imp_prog *prog, int nranks);
weft_status wi_imp_lane_add(struct wi_imp_prog *prog, struct wi_imp_rank *rank, struct wi_imp_lane **lane);
/* Append; the op's regions are those given. */
weft_status wi_imp_op_add(struct wi_imp_prog *prog, struct wi_imp_rank *rank, struct wi_imp_lane *lane,
                          const struct wi_imp_op *op, const struct wi_region *dst, const struct wi_region *src);
/* How many chunks make a block structure of the collective: nblocks, from what the ranks' buffers have; and the root. */
weft_status wi_imp_shape(struct wi_imp_prog *prog);
void wi_imp_fini(struct wi_imp_prog *prog);

/* ---- import_deep.c ---- */
/* Thread blocks whose messages would not find room in channels that hold one get a second one, which takes them into scratch. */
weft_status wi_imp_deepen(struct wi_imp_prog *prog);

/* ---- import_lower.c ---- */
weft_status wi_imp_lower(struct wi_imp_prog *prog, struct wi_import **import);

/* ---- the formats ---- */
weft_status wi_import_msccl(const char *name, const char *text, size_t bytes, struct wi_import **import);
weft_status wi_import_mscclpp(const char *name, const char *text, size_t bytes, struct wi_import **import);
weft_status wi_import_own(const char *name, const char *text, size_t bytes, struct wi_import **import);

#endif
