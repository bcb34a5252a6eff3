/* SPDX-License-Identifier: BSD-3-Clause */
/* Bruck's all-to-all: a share that has to go d ranks up goes by the powers of two in d.
 *
 * Fewest messages; for small shares. Scratch: P shares by distance, then room to pack what leaves
 * and arrives in a step. The last step's shares lie side by side and need no packing.
 *
 *   steps: ceil(log2 P) · sent about P/2·n per step · copied about 2P + P·(log2 P - 1) shares ·
 *     scratch up to 2P shares
 *
 * P = 4, rank 1:  TMP = SRC[1] SRC[2] SRC[3] SRC[0] (distance 0..3)
 *                 step 1: distances 1, 3 → 2, from 0 | step 2: distances 2, 3 → 3, from 3
 *                 DST[1] DST[0] DST[3] DST[2] = TMP[0..3]
 *
 * Bruck et al. 1997.
 */
#include "algo/util.h"

/* How many distances below n have the bit; they come in runs of `bit`. */
static uint32_t marked(int n, int bit)
{
    int rest = n % (2 * bit);

    return (uint32_t)(n / (2 * bit) * bit + (rest > bit ? rest - bit : 0));
}

static uint32_t most_marked(int n)
{
    uint32_t most = 0;
    for (int bit = 1; 2 * bit < n; bit *= 2)
        most = marked(n, bit) > most ? marked(n, bit) : most;
    return most;
}

/* Between the distances with the bit and `room`, where they lie side by side. */
static void pack(struct wi_seq *seq, uint32_t lane, int n, int bit, uint32_t room, int unpack)
{
    for (int first = bit; first < n; first += 2 * bit) {
        uint32_t run = (uint32_t)(first + bit < n ? bit : n - first);
        struct wi_region apart = wi_at(WI_TMP, (uint32_t)first, run), packed = wi_at(WI_TMP, room, run);
        wi_seq_copy(seq, lane, unpack ? apart : packed, unpack ? packed : apart);
        room += run;
    }
}

static void exchange(const struct wi_algo_args *args, struct wi_seq *seq, uint32_t local, int bit)
{
    int n = args->nranks, last = 2 * bit >= n;
    uint32_t count = marked(n, bit), out = last ? (uint32_t)bit : (uint32_t)n;
    uint32_t in = last ? out : out + most_marked(n);
    uint32_t lane = wi_sched_lane(seq->b, wi_mod(args->rank + bit, n), wi_mod(args->rank - bit, n), 0);

    if (!last)
        pack(seq, local, n, bit, out, 0);
    wi_seq_send(seq, lane, wi_at(WI_TMP, out, count));
    wi_seq_recv(seq, lane, wi_at(WI_TMP, in, count));
    if (!last)
        pack(seq, local, n, bit, in, 1);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t low = (uint32_t)args->rank, high = (uint32_t)(n - args->rank);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_alltoall_bruck, sched);
    WI_TRY(wi_algo_begin(args, &wi_alltoall_bruck, 0, (uint32_t)n + 2 * most_marked(n), &b));
    struct wi_seq seq = wi_seq_begin(b);
    uint32_t local = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_seq_copy(&seq, local, wi_at(WI_TMP, 0, high), wi_at(WI_SRC, low, high));
    if (low > 0)
        wi_seq_copy(&seq, local, wi_at(WI_TMP, high, low), wi_at(WI_SRC, 0, low));
    for (int bit = 1; bit < n; bit *= 2)
        exchange(args, &seq, local, bit);
    for (int d = 0; d < n; d++)
        wi_seq_copy(&seq, local, wi_at(WI_DST, (uint32_t)wi_mod(args->rank - d, n), 1), wi_at(WI_TMP, (uint32_t)d, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    double sent = 0, copied = n > 1 ? 2 * n : 1;
    for (int bit = 1; bit < n; bit *= 2) {
        sent += marked(n, bit);
        copied += 2 * bit < n ? 2 * marked(n, bit) : 0;
    }
    *c = (struct wi_algo_cost){wi_log2_ceil(n), sent * bytes, 0, copied * bytes};
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int bit = 1 << (k < 30 ? k : 30);

    *to = wi_mod(args->rank + bit, args->nranks);
    *part = bit < args->nranks ? marked(args->nranks, bit) : 0;
    return bit < args->nranks;
}

const struct wi_algo wi_alltoall_bruck = {
    .name = "bruck",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_UNIFORM | WI_ALGO_NO_IN_PLACE,
    .traits = {.slices = WI_SLICES_NONE},
    .summary = "log2 P steps through scratch",
    .build = build,
    .cost = cost,
    .round = round_of,
};
