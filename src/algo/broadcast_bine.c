/* SPDX-License-Identifier: BSD-3-Clause */
/* Bine tree broadcast: a binomial tree whose edges lead to alternating sides of a rank.
 *
 * Fewest steps with shorter edges than a binomial tree's (at most P/3 ranks away instead of P/2, two thirds in
 * all), so that less crosses the upper links of an oversubscribed network. Far members hear
 * first. Virtual ranks count from the root; those beyond a power of two are leaves of their left neighbour.
 *
 *   steps: log2 P', P' the power of two below P, +1 if the deepest member has a leaf · sent at most n log2 P' (+n) · no
 *     scratch
 *
 * P = 8, root 0:   0 → 3 | 0 → 7, 3 → 4 | 0 → 1, 3 → 2, 7 → 6, 4 → 5
 *
 * De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication locality,
 * SC 2025.
 */
#include "algo/swing.h"

static void send_to(const struct wi_algo_args *args, struct wi_sched_builder *b, int vrank, uint32_t from)
{
    int root = args->rank == args->root;
    uint32_t lane = wi_sched_lane(b, wi_mod(vrank + args->root, args->nranks), WI_NO_PEER, 0);

    wi_sched_send(b, lane, wi_at(root ? WI_SRC : WI_DST, 0, 1));
    if (!root)
        wi_sched_after(b, lane, from, 0);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, vrank = wi_mod(args->rank - args->root, n);
    struct wi_fold fold = wi_fold_of(vrank, n);
    int steps = wi_log2_ceil(fold.pow2), told = steps;
    struct wi_sched_builder *b;
    uint32_t from = 0;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_bine, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_bine, 1, 0, &b));
    if (fold.member) {
        int parent = fold.partner;
        if (fold.member > 0) {
            told = wi_swing_recv_step(fold.member, steps);
            parent = wi_fold_rank(&fold, wi_swing_peer(fold.member, told, fold.pow2));
        }
        from = wi_sched_lane(b, WI_NO_PEER, wi_mod(parent + args->root, n), 0);
        wi_sched_recv(b, from, wi_at(WI_DST, 0, 1));
    }
    for (int k = told - 1; k >= 0 && fold.member >= 0; k--)
        send_to(args, b, wi_fold_rank(&fold, wi_swing_peer(fold.member, k, fold.pow2)), from);
    if (fold.member >= 0 && fold.partner >= 0)
        send_to(args, b, fold.partner, from);
    if (vrank == 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    int steps = wi_log2_ceil(fold.pow2), deepest = wi_swing_deepest(steps, fold.pow2);

    *c = (struct wi_algo_cost){steps + (deepest < fold.rem), (steps + (fold.rem > 0)) * bytes, 0,
                               args->in_place ? 0 : bytes};
}

/* The longest way down, from child to first child: what a rank sends to all its children shares its link. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    int member = 0, sent = 0, steps = wi_log2_ceil(fold.pow2);

    for (int k = steps; k > 0; k--) {
        sent += k + (member < fold.rem);
        member = wi_swing_peer(member, k - 1, fold.pow2);
    }
    *c = (struct wi_algo_cost){steps + (member < fold.rem), (sent + (member < fold.rem)) * bytes, 0, 0};
}

const struct wi_algo wi_broadcast_bine = {
    .name = "bine",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_TREE},
    .summary = "Bine tree: binomial with shorter edges",
    .build = build,
    .cost = cost,
    .path = path,
};
