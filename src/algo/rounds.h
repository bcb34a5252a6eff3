/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed forms of exchanges in rounds: when ranks that are not in step finish, on a uniform network.
 *
 * In each round a rank sends a message, then waits for one, then works on it. Sends do not wait; messages that meet on a rank's
 * link, in or out, share it max-min fair, as in the simulator (sim/sim.h). This is an event simulation, since no formula knows
 * which messages meet; but it needs neither schedules nor a model, and ranks that behave alike are simulated once: an actor may
 * stand for many ranks, and then exchanges with itself what these exchange among themselves.
 *
 * Messages · log(messages) in time. */
#ifndef WI_ALGO_ROUNDS_H
#define WI_ALGO_ROUNDS_H

#include "algo/util.h"

#define WI_ROUNDS_MAX 64

/* What an actor does in a round. It sends before it waits; nothing is sent to, or waited for from, an actor below 0. */
struct wi_round {
    int to, from;
    double sent, reduced, copied; /* bytes: copied after the message that is waited for */
    double beside;                /* each of nbeside messages to others at the same time */
    int nbeside;
    int behind;                   /* the message is on the same channel as that of this round, and begins after it; -1 */
    int drains;                   /* what is received replaces what was sent in this round, and waits for that to leave; -1 */
};

struct wi_rounds {
    int nactors, nrounds;
    void (*round)(const void *context, int actor, int k, struct wi_round *round);
    const void *context;
};
/* When the last actor has ended its last round; below 0: no memory. Actors that exchange a message do so in the same round. */
double wi_rounds_us(const struct wi_rounds *rounds, const struct wi_algo_rates *rates);

/* ---- Folding ---- */

/* How the members of a fold, a power of two of them, exchange. Step k is with the partner 2^k away, or of step k in swing.h. */
struct wi_exchange {
    int swings, descending; /* descending: from the largest distance to the smallest */
    int returns;           /* the same steps backwards follow, without reductions; they replace what was sent before */
    int drains;            /* what is received replaces what is sent in the same step */
    /* Bytes that a member sends in a step; that it has to reduce (NULL: none). */
    double (*sent)(const struct wi_fold *fold, int member, int step, double bytes);
    double (*reduced)(const struct wi_fold *fold, int member, int step, double bytes);
    double in, out, copied; /* bytes from a folded rank to its member and back; copied in the end by who folds */
    int in_reduced;         /* what comes from a folded rank is reduced */
};
/* From the first message to the last, or NAN: no memory; bytes as in wi_algo.time. With descending and many ranks an actor stands
 * for a row of them: to 511 ranks there is no gap, past that a share of 0.003. */
double wi_rounds_fold(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates,
                      const struct wi_exchange *exchange);

/* Fewer ranks, with `members` members (a power of two) where there are more: of `row` neighbours, as many fold as do of a row of
 * all ranks; and of the rows about the same part. For forms of many ranks, to which the missing steps are added. */
int wi_rounds_fewer(int nranks, int members, int row);

/* All-reduces by exchanges of the whole vector, to 16383 ranks without a gap; by halving it, and doubling it again, to 511. Past
 * that a share of 0.03. */
double wi_rounds_whole(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates, int swings);
double wi_rounds_halving(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates, int swings);

#endif
