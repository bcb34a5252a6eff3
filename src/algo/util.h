/* SPDX-License-Identifier: BSD-3-Clause */
/* What many algorithms share: ring arithmetic, sequences of steps over lanes, long reductions, k-nomial trees. */
#ifndef WI_ALGO_UTIL_H
#define WI_ALGO_UTIL_H

#include "algo/algo.h"
#include "algo/list.h"
#include "base/reduce.h"
#include "base/status.h"

/* Mathematical remainder: always in [0, n). */
static inline int wi_mod(int a, int n)
{
    int r = a % n;
    return r < 0 ? r + n : r;
}

static inline int wi_pow2_floor(int n)
{
    return n < 2 ? 1 : 1 << (31 - __builtin_clz((unsigned)n));
}

static inline int wi_log2_ceil(int n)
{
    return n < 2 ? 0 : 32 - __builtin_clz((unsigned)n - 1);
}

/* Blocks of a buffer of `rank`, which may be this rank itself. */
static inline struct wi_region wi_region_of(const struct wi_algo_args *args, enum wi_buf buf, int rank, uint32_t first,
                                            uint32_t count)
{
    return rank == args->rank ? wi_at(buf, first, count) : wi_at_rank(buf, rank, first, count);
}

weft_status wi_algo_begin(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks,
                          uint32_t tmp_blocks, struct wi_sched_builder **b);
/* Of a coded schedule. */
weft_status wi_algo_begin_coded(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks, uint32_t tmp_blocks,
                                uint32_t images, uint32_t lossy, struct wi_sched_builder **b);
/* The whole schedule of a communicator of one rank: SRC to DST unless they are the same. */
weft_status wi_algo_alone(const struct wi_algo_args *args, const struct wi_algo *algo, struct wi_sched **sched);

/* Copy all of [0, nblocks) but block `hole`; nothing for an empty side. */
void wi_algo_copy_but(struct wi_sched_builder *b, uint32_t lane, enum wi_buf dst, enum wi_buf src, int nblocks,
                      int hole);
/* Wait for signal `ordinal` of lane `other` of every other rank, nearest successor first, so that the ranks do not
 * all poll the same line. */
void wi_algo_wait_all(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, uint32_t other,
                      uint32_t ordinal);

/* Operands of a reduction in rank order: ranks [from, to), block `first` of everybody's `buf`, or, when `local`, block
 * first + i of this rank's own. This rank's operand is `own`. */
struct wi_operands {
    enum wi_buf buf;
    uint32_t first;
    int local;
    int from, to;
    struct wi_region own;
    int partial; /* the result is not the collective's: scans have no FINAL steps */
};

/* One REDUCE, or, past WI_REDUCE_MAX_SRC operands, several that keep their partial result in `acc`, because `dst` may
 * alias an operand that is still to be read. Needs WI_ACC_BLOCKS(n) more blocks of scratch. Returns the last step. */
#define WI_ACC_BLOCKS(nsrc) ((nsrc) > WI_REDUCE_MAX_SRC ? 1u : 0u)
uint32_t wi_algo_reduce(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane,
                        const struct wi_region *dst, uint32_t ndst, const struct wi_operands *src,
                        struct wi_region acc);

/* ---- Coded algorithms ----
 * Images for other ranks are made, and theirs decoded, by a few lanes of their own, apart from those of messages: a slice is sent
 * when it is encoded, while the next one is. */
struct wi_coded {
    struct wi_sched_builder *b;
    int rank, nranks;
    uint32_t own;                       /* the lane of what this rank does for itself */
    uint32_t *message, *work; /* by peer: lanes */
    uint32_t *encoded, *received; /* likewise: the step that has made what is sent to it; for the algorithm's use */
};
/* `images`: blocks of PACK. NULL in *c->message: no memory; the builder is abandoned. */
weft_status wi_coded_begin(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks, uint32_t tmp_blocks,
                           uint32_t images, uint32_t lossy, struct wi_coded *c);
weft_status wi_coded_seal(struct wi_coded *c, struct wi_sched **sched);
/* Make an image for `peer`; send it the image `image`, which a lane's step has made; receive one, and decode it. The latter two
 * return the step. */
void wi_coded_encode(struct wi_coded *c, int peer, uint32_t image, struct wi_region src);
void wi_coded_send(struct wi_coded *c, int peer, uint32_t image, uint32_t after_lane, uint32_t after_step);
uint32_t wi_coded_recv(struct wi_coded *c, int peer, uint32_t image);
uint32_t wi_coded_decode(struct wi_coded *c, int peer, struct wi_region dst, uint32_t image, uint32_t received);
/* REDUCE of images first + r of all ranks in rank order, but for this rank's, which is `own`; after everything was received.
 * Returns the last step, of lane c->own. */
uint32_t wi_coded_sum(struct wi_coded *c, const struct wi_region *dst, uint32_t ndst, uint32_t first, struct wi_region own,
                      const uint32_t *received, struct wi_region acc);

/* One image that is the whole vector's, PACK[0], and is passed on as it is. Hold: make it of SRC, and give DST what it holds (peer
 * WI_NO_PEER: on the root), or receive it from `peer`. Then pass it on; release: decode it, if it was received, and seal. */
struct wi_coded_image {
    struct wi_sched_builder *b;
    uint32_t lane, step; /* that has it here */
    int received;
};
weft_status wi_coded_hold(const struct wi_algo_args *args, const struct wi_algo *algo, int peer, struct wi_coded_image *image);
void wi_coded_pass_on(struct wi_coded_image *image, int peer);
weft_status wi_coded_release(struct wi_coded_image *image, struct wi_sched **sched);

/* ---- Sequences: each step follows the one before, though lanes change with the peers ---- */
struct wi_seq {
    struct wi_sched_builder *b;
    uint32_t lane, step; /* the newest step */
    int started;
};

static inline struct wi_seq wi_seq_begin(struct wi_sched_builder *b)
{
    return (struct wi_seq){.b = b};
}

static inline void wi_seq_did(struct wi_seq *seq, uint32_t lane, uint32_t step)
{
    if (seq->started && seq->lane != lane)
        wi_sched_after(seq->b, lane, seq->lane, seq->step);
    *seq = (struct wi_seq){seq->b, lane, step, 1};
}

static inline void wi_seq_send(struct wi_seq *seq, uint32_t lane, struct wi_region src)
{
    wi_seq_did(seq, lane, wi_sched_send(seq->b, lane, src));
}

static inline void wi_seq_recv(struct wi_seq *seq, uint32_t lane, struct wi_region dst)
{
    wi_seq_did(seq, lane, wi_sched_recv(seq->b, lane, dst));
}

static inline void wi_seq_recv_reduce(struct wi_seq *seq, uint32_t lane, struct wi_region dst, struct wi_region src,
                                      unsigned flags)
{
    wi_seq_did(seq, lane, wi_sched_recv_reduce(seq->b, lane, dst, src, flags));
}

static inline void wi_seq_copy(struct wi_seq *seq, uint32_t lane, struct wi_region dst, struct wi_region src)
{
    wi_seq_did(seq, lane, wi_sched_copy(seq->b, lane, dst, src));
}

/* ---- Folding: ranks past a power of two pair up with a neighbour, so that rank order is kept ----
 * Ranks 2i and 2i+1, i < rem, are one member i; the even one acts. Others are member rank - rem. */
struct wi_fold {
    int pow2, rem;
    int member;  /* -1: folded into rank - 1 */
    int partner; /* rank folded into this one, or that acts for it; -1 */
};

static inline struct wi_fold wi_fold_of(int rank, int nranks)
{
    int pow2 = wi_pow2_floor(nranks), rem = nranks - pow2;
    if (rank >= 2 * rem)
        return (struct wi_fold){pow2, rem, rank - rem, -1};
    if (rank % 2)
        return (struct wi_fold){pow2, rem, -1, rank - 1};
    return (struct wi_fold){pow2, rem, rank / 2, rank + 1};
}

/* The acting rank of a member; of pow2 itself: nranks. Also the first rank a member stands for. */
static inline int wi_fold_rank(const struct wi_fold *fold, int member)
{
    return member < fold->rem ? 2 * member : member + fold->rem;
}

/* Messages that folding adds to the longest chain of log2 pow2 exchanges: two if a chain can begin and end with a
 * folded rank, which takes a pair of complementary members below rem. */
static inline int wi_fold_steps(const struct wi_fold *fold)
{
    return (fold->rem > 0) + (2 * fold->rem > fold->pow2);
}

/* Round k of the exchanges among the members of a fold, for wi_algo.round: whom this rank sends to. First who is folded sends to
 * its member, last gets it back; between there is a step for each power of two, and with `returns` the same backwards. Returns the
 * step, or one of these. */
enum { WI_FOLD_IN = -3, WI_FOLD_OUT, WI_FOLD_OVER };
int wi_fold_round(const struct wi_algo_args *args, int k, int swings, int returns, int *to);

/* ---- k-nomial trees over virtual ranks, root 0 ----
 * The subtree of v is [v, v + min(span, nranks - v)); the i-th child, in ascending order, is v + digit * k^level. */
struct wi_knomial {
    int vrank, nranks, radix;
    int span, parent; /* parent -1: root */
    int nchildren;
};
struct wi_knomial wi_knomial_of(int vrank, int nranks, int radix);
int wi_knomial_child(const struct wi_knomial *tree, int index);
/* Virtual ranks in the subtree of virtual rank v. */
int wi_knomial_size(int vrank, int nranks, int radix);
/* Messages from the deepest leaf to the root. */
int wi_knomial_depth(int nranks, int radix);
/* Of the trees that gather and scatter use, in shares: what the rank that copies most copies (its own share; the root also the
 * subtree of a child that wraps past the last rank), and the largest subtree of the root's children. */
struct wi_knomial_shares {
    int copied, largest;
};
struct wi_knomial_shares wi_knomial_shares_of(const struct wi_algo_args *args);
/* args->radix, or what suits most networks: flatter than binary, as a send costs less than a hop. */
static inline int wi_algo_radix(const struct wi_algo_args *args)
{
    return args->radix ? args->radix : 4;
}

/* The longest chain of one slice down a k-nomial tree, in vectors (or, sized: in shares; a subtree's are in one message),
 * where the messages to a rank's children share its link. */
struct wi_tree_chain {
    double sent, reduced;
};
struct wi_tree_chain wi_knomial_down(int vrank, int nranks, int radix, int sized);
/* When the subtree of vrank has come together there, one slice of `bytes` (sized: a share): what comes from a rank's children
 * shares its link, and is reduced one after the other. */
double wi_knomial_up_us(int vrank, int nranks, int radix, int sized, double bytes, const struct wi_algo_rates *rates);

/* ---- Closed forms ---- */
#define WI_ALGO_MAX_FAN 128 /* children of a tree's inner rank */
double wi_algo_over(double bytes, double rate); /* 0 for a rate of INFINITY */
/* Messages that are ready at ready[i] and need left[i] of a link that they share fairly: when each is through. */
void wi_algo_share_link(const double *ready, double *left, int n, double *done);
/* When a rank has received what n others send it from ready[i] on, and, if it reduces, has reduced them in order; its own part
 * is there at own_us. */
double wi_algo_fan_in(const struct wi_algo_rates *rates, const double *ready, const double *bytes, int n, int reduces,
                      double own_us);

/* Prefix doubling, in vectors: a rank that has its value sends to all ranks that wait for it at once. */
double wi_doubling_chain(int nranks);

/* ---- Rings ---- */
/* All-reduce of blocks [base, base + nranks) on a lane whose send peer is rank + dir (dir is 1 or -1). */
void wi_algo_ring_all_reduce(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, int dir,
                             uint32_t base);

/* An all_reduce by exchanges, of a vector in `blocks`, among the members of a fold: who is folded into another rank sends it its
 * vector first and gets the result last. `held`: where the member's vector is when they begin. */
typedef void (*wi_algo_exchange)(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held);
weft_status wi_algo_folded(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t blocks,
                           wi_algo_exchange exchange, struct wi_sched **sched);
/* Of folding, halving the vector and doubling it again. */
void wi_algo_halving_cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c);

#endif
