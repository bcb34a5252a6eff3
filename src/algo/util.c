/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of the algorithms. */
#include "algo/util.h"

#include "algo/swing.h"

weft_status wi_algo_begin(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks,
                          uint32_t tmp_blocks, struct wi_sched_builder **b)
{
    return wi_algo_begin_coded(args, algo, nblocks, tmp_blocks, 0, 0, b);
}

weft_status wi_algo_begin_coded(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t nblocks,
                                uint32_t tmp_blocks, uint32_t images, uint32_t lossy, struct wi_sched_builder **b)
{
    if (args->nranks < 1 || args->rank < 0 || args->rank >= args->nranks)
        return wi_fail(WEFT_EINVAL, "%s %s: rank %d of %d ranks", wi_coll_name(algo->coll), algo->name, args->rank,
                       args->nranks);
    if (args->root < 0 || args->root >= args->nranks)
        return wi_fail(WEFT_EINVAL, "%s %s: root %d of %d ranks", wi_coll_name(algo->coll), algo->name, args->root,
                       args->nranks);
    if (args->radix < 0 || args->radix == 1)
        return wi_fail(WEFT_EINVAL, "%s %s: radix %d is not 0 or at least 2", wi_coll_name(algo->coll), algo->name,
                       args->radix);
    if (args->in_place && (algo->needs & WI_ALGO_NO_IN_PLACE))
        return wi_fail(WEFT_ENOTSUP, "%s %s cannot work in place", wi_coll_name(algo->coll), algo->name);
    const char *ranks = wi_algo_ranks_needed(algo->needs, args->nranks);
    if (ranks)
        return wi_fail(WEFT_ENOTSUP, "%s %s needs %s, not %d", wi_coll_name(algo->coll), algo->name, ranks,
                       args->nranks);
    struct wi_sched_spec spec = {
        .coll = algo->coll,
        .algo = algo->name,
        .rank = args->rank,
        .nranks = args->nranks,
        .root = args->root,
        .in_place = args->in_place,
        .nblocks = nblocks,
        .tmp_blocks = tmp_blocks,
        .pack_blocks = images,
        .lossy = lossy,
        /* Past that, partial results go to TMP on some ranks and not on others. */
        .no_ll = args->nranks > WI_REDUCE_MAX_SRC,
    };
    return wi_sched_begin(&spec, b);
}

int wi_fold_round(const struct wi_algo_args *args, int k, int swings, int returns, int *to)
{
    struct wi_fold fold = wi_fold_of(args->rank, args->nranks);
    int steps = wi_log2_ceil(fold.pow2), rounds = returns ? 2 * steps : steps, folds = fold.partner >= 0;
    int step = k <= steps ? k - 1 : 2 * steps - k;

    *to = -1;
    if (k > rounds + 1)
        return WI_FOLD_OVER;
    if (k == 0 || k == rounds + 1) {
        *to = folds && (k == 0) == (fold.member < 0) ? fold.partner : -1;
        return k == 0 ? WI_FOLD_IN : WI_FOLD_OUT;
    }
    if (fold.member >= 0)
        *to = wi_fold_rank(&fold, swings ? wi_swing_peer(fold.member, step, fold.pow2) : fold.member ^ 1 << step);
    return step;
}

weft_status wi_algo_alone(const struct wi_algo_args *args, const struct wi_algo *algo, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    WI_TRY(wi_algo_begin(args, algo, 1, 0, &b));
    if (!args->in_place && algo->coll != WI_COLL_EXSCAN && algo->coll != WI_COLL_BARRIER)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

void wi_algo_copy_but(struct wi_sched_builder *b, uint32_t lane, enum wi_buf dst, enum wi_buf src, int nblocks,
                      int hole)
{
    uint32_t low = (uint32_t)hole, high = (uint32_t)(nblocks - hole - 1);
    if (low > 0)
        wi_sched_copy(b, lane, wi_at(dst, 0, low), wi_at(src, 0, low));
    if (high > 0)
        wi_sched_copy(b, lane, wi_at(dst, low + 1, high), wi_at(src, low + 1, high));
}

void wi_algo_wait_all(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, uint32_t other,
                      uint32_t ordinal)
{
    for (int i = 1; i < args->nranks; i++)
        wi_sched_wait(b, lane, wi_mod(args->rank + i, args->nranks), other, ordinal);
}

static struct wi_region operand(const struct wi_algo_args *args, const struct wi_operands *src, int rank)
{
    if (rank == args->rank)
        return src->own;
    if (src->local)
        return wi_at(src->buf, src->first + (uint32_t)rank, 1);
    return wi_at_rank(src->buf, rank, src->first, 1);
}

uint32_t wi_algo_reduce(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane,
                        const struct wi_region *dst, uint32_t ndst, const struct wi_operands *src, struct wi_region acc)
{
    struct wi_region part[WI_REDUCE_MAX_SRC];
    int next = src->from;

    for (;;) {
        uint32_t n = 0;
        if (next > src->from)
            part[n++] = acc;
        while (n < WI_REDUCE_MAX_SRC && next < src->to)
            part[n++] = operand(args, src, next++);
        if (next == src->to)
            return wi_sched_reduce(b, lane, dst, ndst, part, n, src->partial ? 0 : WI_STEP_FINAL);
        wi_sched_reduce(b, lane, &acc, 1, part, n, 0);
    }
}

/* Saturates: radix and nranks are ints, their product need not be one. */
static int scale(int span, int radix, int nranks)
{
    return span > (nranks - 1) / radix ? nranks : span * radix;
}

struct wi_knomial wi_knomial_of(int vrank, int nranks, int radix)
{
    struct wi_knomial t = {vrank, nranks, radix, 1, -1, 0};
    while (t.span < nranks) {
        int next = scale(t.span, radix, nranks);
        int rest = vrank % next;
        if (rest != 0) {
            t.parent = vrank - rest;
            break;
        }
        t.span = next;
    }
    while (wi_knomial_child(&t, t.nchildren) >= 0)
        t.nchildren++;
    return t;
}

int wi_knomial_child(const struct wi_knomial *t, int index)
{
    int step = 1;
    for (int level = index / (t->radix - 1); level > 0 && step < t->span; level--)
        step = scale(step, t->radix, t->nranks);
    if (step >= t->span)
        return -1;
    long child = t->vrank + (long)step * (1 + index % (t->radix - 1));
    return child < t->nranks ? (int)child : -1;
}

int wi_knomial_size(int vrank, int nranks, int radix)
{
    int span = wi_knomial_of(vrank, nranks, radix).span;
    return span < nranks - vrank ? span : nranks - vrank;
}

int wi_knomial_depth(int nranks, int radix)
{
    long deepest = 0; /* 1, 11, 111, ... in base radix: the first rank of each depth */
    int depth = 0;
    while (deepest * radix + 1 < nranks) {
        deepest = deepest * radix + 1;
        depth++;
    }
    return depth;
}

struct wi_knomial_shares wi_knomial_shares_of(const struct wi_algo_args *args)
{
    int n = args->nranks, radix = wi_algo_radix(args), inner = 0;
    struct wi_knomial tree = wi_knomial_of(0, n, radix);
    struct wi_knomial_shares s = {.copied = !args->in_place};

    for (int i = 0; i < tree.nchildren; i++) {
        int child = wi_knomial_child(&tree, i), size = wi_knomial_size(child, n, radix);
        s.largest = size > s.largest ? size : s.largest;
        inner |= size > 1;
        if (child + args->root < n && child + args->root + size > n)
            s.copied += size;
    }
    s.copied = s.copied > inner ? s.copied : inner;
    return s;
}

void wi_algo_ring_all_reduce(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, int dir,
                             uint32_t base)
{
    int n = args->nranks;
    for (int k = 0; k <= 2 * n - 2; k++) {
        uint32_t block = base + (uint32_t)wi_mod(args->rank - dir * k, n);
        struct wi_region src = wi_at(WI_SRC, block, 1), dst = wi_at(WI_DST, block, 1);
        if (k == 0)
            wi_sched_send(b, lane, src);
        else if (k < n)
            wi_sched_recv_reduce_send(b, lane, dst, src, k == n - 1 ? WI_STEP_FINAL : 0);
        else if (k < 2 * n - 2)
            wi_sched_recv_send(b, lane, dst);
        else
            wi_sched_recv(b, lane, dst);
    }
}

/* ---- Folding ---- */

weft_status wi_algo_folded(const struct wi_algo_args *args, const struct wi_algo *algo, uint32_t blocks,
                           wi_algo_exchange exchange, struct wi_sched **sched)
{
    struct wi_fold fold = wi_fold_of(args->rank, args->nranks);
    struct wi_region src = wi_at(WI_SRC, 0, blocks), dst = wi_at(WI_DST, 0, blocks);
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, algo, sched);
    WI_TRY(wi_algo_begin(args, algo, blocks, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    if (fold.partner < 0) {
        exchange(&fold, &seq, WI_SRC);
        return wi_sched_seal(b, sched);
    }
    /* In and out have lanes of their own, so that the next slice need not wait for the result of this one. */
    uint32_t out = wi_sched_lane(b, fold.partner, WI_NO_PEER, 0);
    uint32_t in = wi_sched_lane(b, WI_NO_PEER, fold.partner, 0);
    if (fold.member < 0) {
        wi_seq_send(&seq, out, src);
        wi_seq_recv(&seq, in, dst);
    } else {
        wi_seq_recv_reduce(&seq, in, dst, src, 0);
        exchange(&fold, &seq, WI_DST);
        wi_seq_send(&seq, out, dst);
    }
    return wi_sched_seal(b, sched);
}

void wi_algo_halving_cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double halvings = wi_log2_ceil(fold.pow2), odd = fold.rem > 0;
    double part = (fold.pow2 - 1) * bytes / fold.pow2;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){2 * halvings + 2 * odd, 2 * part + odd * bytes, part + odd * bytes, alone};
}
