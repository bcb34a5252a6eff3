/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms from files (WEFT_PLANS): read and proved once for each context, found by their name, "file:" and what the program
 * calls itself. They have no build and no cost: the schedules of all ranks are here, and they run only when asked for. */
#ifndef WI_COMM_PLANS_H
#define WI_COMM_PLANS_H

#include "plan/plan.h"

struct wi_plans;
/* `paths`: comma list. WEFT_ECONFIG when a file cannot be read or is refused, or two programs cannot be told apart; the text
 * names the file. */
weft_status wi_plans_read(const char *paths, struct wi_plans **plans);
void wi_plans_free(struct wi_plans *plans);
/* Of what the files hold, in whatever order they are named; 0 without files. */
uint64_t wi_plans_hash(const struct wi_plans *plans);
/* As struct wi_plan_facts wants it; `plans` is the struct wi_plans. */
weft_status wi_plans_find(const void *plans, const struct wi_plan_query *query, int nranks, const char *name,
                          const struct wi_algo **algo);
/* Is a program of that name there, for whatever ranks and calls of the collective? WEFT_ENOTFOUND: no. `plans`: NULL without
 * files. */
weft_status wi_plans_exists(const struct wi_plans *plans, enum wi_coll coll, const char *name);
/* Borrowed; NULL: the algorithm is not from a file. */
struct wi_sched *wi_plans_schedule(const struct wi_plans *plans, const struct wi_algo *algo, int rank);
/* Does a rank that runs it use SRC (DST) of `rank`? */
int wi_plans_touches(const struct wi_plans *plans, const struct wi_algo *algo, int rank, int buf);

#endif
