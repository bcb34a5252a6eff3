/* SPDX-License-Identifier: BSD-3-Clause */
/* A schedule: what one rank does in one collective. Pure data, symbolic, sealed before use.
 *
 * Blocks. The data of a collective is cut into blocks; a region is (buffer, rank, first block, block count).
 *   vector collectives (all_reduce, reduce, broadcast, scan, exscan): SRC and DST are one vector of `count` elements
 *     cut into nblocks equal blocks (ceil(count/nblocks) elements, rounded up to whole cache lines where that is 4 KiB or
 *     more; the last shorter or empty).
 *   per-rank collectives: a block is one rank's share. all_gather, gather: SRC has 1 block, DST nranks.
 *     reduce_scatter, scatter: SRC nranks, DST 1. all_to_all: both nranks. Blocks of the v-forms differ in size, and
 *     need not be adjacent. A schedule may cut every share into share_blocks equal blocks (imported ones do): then there
 *     are that many times as many, block b is part b % share_blocks of share b / share_blocks, and the schedule serves
 *     only shares that can be cut so, and no v-forms.
 *   TMP has tmp_blocks blocks, each with room for the largest block of the vector or share. In a two-sided schedule of
 *     a vector collective, TMP block t is exactly as long as vector block t mod nblocks, so what it holds must be such
 *     a block, and no region of TMP goes past a multiple of nblocks.
 * Coded data. PACK has pack_blocks blocks, each the coded image of one block of this rank's SRC or DST (wi_pack), and is scratch
 *   like TMP otherwise. A COPY or REDUCE whose destinations lie in PACK encodes what it makes, one that only reads PACK decodes;
 *   destinations of an encoding step that lie elsewhere get what the image holds. A COPY from PACK to PACK, SEND, RECV and
 *   RECV_SEND move images as they are; the other steps with messages, mapped schedules and other ranks know no images. Which
 *   codec it is, the schedule does not know. What is encoded has lost something each time: `lossy` is how often, at most, from a
 *   contribution to a result that holds it.
 * Slices. The executor may cut every block into slices and repeat the whole program for slice 0, 1, …; the schedule
 *   does not know. Regions of several blocks are then handled block by block.
 * Lanes run concurrently; steps of a lane in order. Two-sided matching is first in, first out per (peer, chan): the
 *   n-th send of rank a to rank b on chan c meets the n-th receive of b from a on c. No two lanes of a rank send to the
 *   same peer on one chan; the same for receives.
 * Mapped steps (SIGNAL, WAIT, and COPY/REDUCE with regions of another rank) need all ranks in one mapped group.
 *   A signal publishes everything the lane did before it in this slice, to all ranks. A schedule either has no
 *   mapped steps (two-sided) or no two-sided steps (mapped).
 *   TMP of a mapped schedule lies in the arena, has the same size on every rank, is private to the slice (contents do
 *   not survive into the next one), and is only reused when all ranks are done with the slice. SRC and DST of another
 *   rank may be used only after a signal of that rank, which must not end before it knows that they were used.
 * Buffers that a rank's caller does not give have no blocks: DST of reduce and gather, SRC of broadcast and scatter,
 *   on ranks other than the root. A barrier's SRC and DST have one empty block each, to be sent and received.
 */
#ifndef WI_SCHED_SCHED_H
#define WI_SCHED_SCHED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

/* X(name, text): operations. Values travel in weft_op_info.kind. */
#define WI_COLL_LIST(X)                                                                            \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(REDUCE, "reduce")                                                                            \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(ALL_GATHER_V, "all_gather_v")                                                                \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(REDUCE_SCATTER_V, "reduce_scatter_v")                                                        \
    X(ALL_TO_ALL, "all_to_all")                                                                    \
    X(ALL_TO_ALL_V, "all_to_all_v")                                                                \
    X(GATHER, "gather")                                                                            \
    X(GATHER_V, "gather_v")                                                                        \
    X(SCATTER, "scatter")                                                                          \
    X(SCATTER_V, "scatter_v")                                                                      \
    X(SCAN, "scan")                                                                                \
    X(EXSCAN, "exscan")                                                                            \
    X(BARRIER, "barrier")                                                                          \
    X(SEND, "send")                                                                                \
    X(RECV, "recv")                                                                                \
    X(SEND_RECV, "send_recv")

enum wi_coll {
#define WI_COLL_ENUM(name, text) WI_COLL_##name,
    WI_COLL_LIST(WI_COLL_ENUM)
#undef WI_COLL_ENUM
        WI_NUM_COLLS
};
const char *wi_coll_name(enum wi_coll coll); /* "?" when out of range */
int wi_coll_parse(const char *name, enum wi_coll *coll);
static inline int wi_coll_is_vector(unsigned c) /* its data is one vector, cut into nblocks; else a share for each rank */
{
    return c == WI_COLL_ALL_REDUCE || c == WI_COLL_REDUCE || c == WI_COLL_BROADCAST || c == WI_COLL_SCAN ||
           c == WI_COLL_EXSCAN;
}
static inline int wi_coll_is_reduction(unsigned c)
{
    return c == WI_COLL_ALL_REDUCE || c == WI_COLL_REDUCE || c == WI_COLL_REDUCE_SCATTER ||
           c == WI_COLL_REDUCE_SCATTER_V || c == WI_COLL_SCAN || c == WI_COLL_EXSCAN;
}
static inline int wi_coll_has_root(unsigned c)
{
    return c == WI_COLL_REDUCE || c == WI_COLL_BROADCAST || c == WI_COLL_GATHER || c == WI_COLL_GATHER_V ||
           c == WI_COLL_SCATTER || c == WI_COLL_SCATTER_V;
}

enum wi_buf { WI_SRC, WI_DST, WI_TMP, WI_PACK, WI_NUM_BUFS };

/* What a block of PACK is an image of: it holds as many elements as that block of SRC or DST. Whoever encodes it may keep what the
 * image lost, in the residual of this number, where that block lies in the vector; it is added the next time. */
#define WI_NO_RESIDUAL 255
#define WI_SCHED_RESIDUALS 2 /* of this rank's own data, and of sums that it makes for others */
struct wi_pack {
    uint8_t buf; /* WI_SRC, WI_DST */
    uint8_t residual;
    uint32_t block;
};

#define WI_SELF (-1)
struct wi_region {
    uint8_t buf;    /* enum wi_buf */
    int32_t rank;   /* WI_SELF, or another rank's buffer (mapped schedules) */
    uint32_t first; /* block */
    uint32_t count; /* blocks, >= 1 */
};

enum wi_step_kind {
    WI_STEP_NOP,               /* only waits for its dependency */
    WI_STEP_SEND,              /* src -> lane's send peer */
    WI_STEP_RECV,              /* dst <- lane's receive peer */
    WI_STEP_RECV_REDUCE,       /* dst = src op received (received op src with RECV_LEFT) */
    WI_STEP_RECV_SEND,         /* dst <- received; then dst -> send peer */
    WI_STEP_RECV_REDUCE_SEND,  /* dst = src op received; then dst -> send peer */
    WI_STEP_COPY,              /* dst = src; one source, one or more destinations */
    WI_STEP_REDUCE,            /* every dst = src0 op src1 op ...; in this order */
    WI_STEP_SIGNAL,            /* publish: the ordinal-th signal of this lane and slice */
    WI_STEP_WAIT,              /* until rank has given signal `ordinal` of lane `lane` in this slice */
    WI_NUM_STEP_KINDS
};

enum wi_step_flags {
    WI_STEP_FINAL = 1,     /* the stored elements hold every contribution: avg divides here, and only here */
    WI_STEP_RECV_LEFT = 2, /* the received operand is the left one */
    /* Found when a schedule is sealed: a copy, a signal, and a copy of the same source, in this order. The executor may fuse both
     * copies, reading the source once. */
    WI_STEP_FUSED_COPY = 4,
    WI_STEP_FUSED_COPY_SECOND = 8,
};

#define WI_NO_DEP (-1)
struct wi_step {
    uint8_t kind, flags;
    uint16_t nsrc, ndst;
    uint32_t src, dst;   /* index of the first region in sched->regions */
    int32_t dep_lane;    /* wait until step dep_step of lane dep_lane is complete in the same slice; WI_NO_DEP */
    uint32_t dep_step;
    int32_t peer;        /* WAIT: rank */
    uint16_t lane;       /* WAIT: the other rank's lane */
    uint16_t ordinal;    /* WAIT and SIGNAL, from 0 */
};

#define WI_NO_PEER (-1)
struct wi_lane {
    int32_t send_peer, recv_peer; /* WI_NO_PEER */
    uint32_t chan;
    uint32_t first_step, nsteps;  /* in sched->steps */
};

#define WI_SCHED_MAX_CHANS 8
#define WI_SCHED_MAX_MAPPED_LANES 4
#define WI_SCHED_MAX_SIGNALS 7 /* per lane and slice */
#define WI_OP_WINDOW 4         /* fragments of an operation that may send messages at the same time */

/* What a mapped schedule does before the first step of one of messages, or after its last: among some of its ranks, which are one
 * mapped group. The data of the whole is a row of items: the blocks of its vector, or one rank's share each. A share, which is
 * what the stage calls a block (of the vector, or a rank's), stands for some of them. */
struct wi_sched_stage {
    struct wi_sched *sched; /* counted */
    int32_t *ranks;         /* [sched->nranks]: its rank -> rank of the whole */
    uint32_t nshares, max_items; /* max_items: of the largest share */
    uint32_t *start, *item; /* share i is item[start[i]] to item[start[i + 1] - 1] */
    struct {
        uint8_t buf;
        int64_t offset;
    } at[2];                /* SRC, DST: item i lies in block i + offset of this buffer of the whole */
    uint8_t final;          /* its FINAL steps are the whole's; else they are not final */
};

struct wi_sched {
    uint32_t refs; /* atomic */
    uint8_t coll;  /* enum wi_coll */
    uint8_t in_place;
    uint8_t mapped;       /* has mapped steps */
    uint8_t peer_src, peer_dst; /* names another rank's SRC / DST: needs user memory that is mapped or can be got */
    uint8_t ll;           /* mapped, one lane, at most one signal and that before any wait, own TMP not written after and
                             never read, wholly a copy of one source only right before the signal, one destination per step,
                             other ranks' TMP only read and only after their wait, every wait followed by such a read,
                             no step names another rank's SRC/DST: may run over ll lines. The same on all ranks. */
    int32_t rank, nranks, root;
    char algo[64]; /* an algorithm's name, or the spec of a hierarchical one */
    uint8_t tmp_like_src; /* of a v-form scratch is cut like SRC, not into parts as long as the longest */
    uint8_t draft;        /* being studied by an importer: limits of the executor do not apply yet; never run */
    uint32_t nblocks;     /* vector collectives: blocks of the vector; else blocks per share, 1 if not said otherwise */
    uint32_t buf_blocks[WI_NUM_BUFS]; /* SRC, DST, TMP, PACK */
    uint32_t lossy;       /* encodings from a contribution to a result, at most; the same on all ranks. 0: no rank codes anything */
    uint32_t nlanes, nsteps, nregions, nchans;
    const struct wi_lane *lanes;
    const struct wi_step *steps;
    const struct wi_region *regions;
    const struct wi_pack *packs; /* of each block of PACK */
    /* What is done before the first step and after the last, by mapped schedules inside groups of ranks; NULL: nothing. */
    struct wi_sched_stage *before, *after;
    uint8_t staged;      /* on some rank there is such a stage */
    uint32_t slot_items; /* items that scratch of these stages keeps at once, on the rank where it is most */
};

/* ---- Building ---- */
struct wi_sched_builder;
struct wi_sched_spec {
    enum wi_coll coll;
    const char *algo;
    int rank, nranks, root, in_place;
    uint32_t nblocks;    /* vector collectives; ignored otherwise */
    uint32_t share_blocks; /* per-rank collectives, 0: 1; ignored otherwise */
    uint32_t tmp_blocks;
    int tmp_like_src;
    uint32_t pack_blocks, lossy; /* of coded schedules; wi_sched_image says what the blocks are */
    int no_ll; /* never set `ll`: for mapped algorithms of which only some ranks would qualify; all must agree */
};
weft_status wi_sched_begin(const struct wi_sched_spec *spec, struct wi_sched_builder **builder);
/* Returns the lane's index. Peers WI_NO_PEER for purely local or mapped lanes. Errors are latched and come out of seal,
 * so that algorithms need no error paths. */
uint32_t wi_sched_lane(struct wi_sched_builder *b, int send_peer, int recv_peer, uint32_t chan);

/* Block `index` of PACK is an image of that block of SRC or DST; `residual`: which takes what it loses, or WI_NO_RESIDUAL. */
void wi_sched_image(struct wi_sched_builder *b, uint32_t index, enum wi_buf buf, uint32_t block, unsigned residual);

static inline struct wi_region wi_at(enum wi_buf buf, uint32_t first, uint32_t count)
{
    return (struct wi_region){(uint8_t)buf, WI_SELF, first, count};
}
static inline struct wi_region wi_at_rank(enum wi_buf buf, int rank, uint32_t first, uint32_t count)
{
    return (struct wi_region){(uint8_t)buf, rank, first, count};
}

/* Each returns the step's index within its lane, for dependencies. */
uint32_t wi_sched_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region src);
uint32_t wi_sched_recv(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst);
uint32_t wi_sched_recv_reduce(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst, struct wi_region src,
                              unsigned flags);
uint32_t wi_sched_recv_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst);
uint32_t wi_sched_recv_reduce_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst,
                                   struct wi_region src, unsigned flags);
uint32_t wi_sched_copy(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst, struct wi_region src);
uint32_t wi_sched_copy_to(struct wi_sched_builder *b, uint32_t lane, const struct wi_region *dst, uint32_t ndst,
                          struct wi_region src);
uint32_t wi_sched_reduce(struct wi_sched_builder *b, uint32_t lane, const struct wi_region *dst, uint32_t ndst,
                         const struct wi_region *src, uint32_t nsrc, unsigned flags);
uint32_t wi_sched_signal(struct wi_sched_builder *b, uint32_t lane); /* ordinals count up by themselves */
uint32_t wi_sched_wait(struct wi_sched_builder *b, uint32_t lane, int rank, uint32_t rank_lane, uint32_t ordinal);
/* Make the newest step of `lane` wait for a step of another lane. A second call adds a NOP before it;
 * indices returned so far stay right. */
void wi_sched_after(struct wi_sched_builder *b, uint32_t lane, uint32_t dep_lane, uint32_t dep_step);

/* Check form (peers, blocks, ordinals in range; regions of a step equally long, destinations apart from each other and
 * from sources that are not the same; SRC not written; FIFO rule; no circle of dependencies), freeze, free the builder
 * even on failure. */
weft_status wi_sched_seal(struct wi_sched_builder *b, struct wi_sched **sched);
void wi_sched_abandon(struct wi_sched_builder *b);
struct wi_sched *wi_sched_get(struct wi_sched *sched);
void wi_sched_put(struct wi_sched *sched);
/* The schedule takes the stages; no other reference to it may exist yet. NULL: none. */
void wi_sched_surround(struct wi_sched *sched, struct wi_sched_stage *before, struct wi_sched_stage *after, uint32_t slot_items);
void wi_sched_stage_free(struct wi_sched_stage *stage);
/* The share that a block of SRC or DST of the stage stands for. */
uint32_t wi_sched_stage_share(const struct wi_sched_stage *stage, unsigned buf, uint32_t block);

/* ---- Text, JSON, DOT ---- */
weft_status wi_sched_print(const struct wi_sched *sched, FILE *out);
/* Inverse of print, bounded: at most 64 Ki steps, 1 Ki lanes. On failure the text names line and cause. */
weft_status wi_sched_parse(const char *text, size_t bytes, struct wi_sched **sched);
weft_status wi_sched_json(const struct wi_sched *sched, FILE *out);
weft_status wi_sched_dot(const struct wi_sched *const scheds[], int nranks, FILE *out);

/* Is it a copy or a reduction with a region of PACK? */
int wi_sched_is_coded(const struct wi_sched *sched, const struct wi_step *step);

/* Is every block of DST written by one step, which is final, reduces, has no other destination and sends nothing on; and never
 * read, nor named by another rank? Then what was there can be added to it (lower.h: WI_PROG_ADD). Of a schedule with stages: no. */
int wi_sched_completes_once(const struct wi_sched *sched);

/* ---- Facts for the cost model, in blocks ---- */
struct wi_sched_stats {
    uint32_t steps_critical;  /* longest chain of messages or waits through this rank's lanes */
    uint64_t blocks_sent, blocks_received, blocks_reduced, blocks_copied;
    uint64_t images_sent; /* of blocks_sent */
    uint64_t blocks_encoded, blocks_decoded; /* into PACK, and from there, also into sums */
};
void wi_sched_stats(const struct wi_sched *sched, struct wi_sched_stats *stats);

/* ---- The checker: all ranks of one collective at once ---- */
enum wi_sched_promise {
    WI_SCHED_ORDERED = 1, /* operands are combined in rank order: for operators that are not commutative */
    WI_SCHED_ALIKE = 2    /* all_reduce: all ranks group the operands alike, and so get the same bits where operators round. Which
                           * of two operands is on the left does not matter: a commutative operator gives the same bits
                           * in either order. Groupings are compared by hashes of 64 bits */
};
/* Proves: every send meets its receive and both name equally many blocks; no deadlock when every channel holds one
 * message, nor when what a message is sent from may only be overwritten once it has been received (and, for mapped
 * schedules, when signals are all there is); every element of every rank's result holds each
 * contribution it must, once, and as `promised`; FINAL marks exactly the steps that complete an element
 * that is part of the result; no value lies in a block of another length; no read of unwritten scratch or of
 * another rank's memory before a signal says so; no two lanes or ranks race; no rank returns while its memory is in
 * use; scratch within bounds; SRC is never written (unless in place, and then only where it is DST); images and plain data are
 * never taken for each other; each residual is used once; nothing loses more often than `lossy` says, and something so often.
 * WEFT_EINVAL with a text that names rank, lane, step and rule. */
weft_status wi_sched_check(const struct wi_sched *const scheds[], int nranks, int promised);

#endif
