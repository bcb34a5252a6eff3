/* SPDX-License-Identifier: BSD-3-Clause */
/* Link parameters: what steps and bytes cost on each class of link, the constants of the cost model. */
#ifndef WI_PLAN_LINK_PARAMS_H
#define WI_PLAN_LINK_PARAMS_H

#include <weft/weft.h>

struct wi_model;
struct wi_plan_facts;

/* X(member, name in tables, unit). Rates are bytes per microsecond. */
#define WI_PLAN_LINK_PARAM_LIST(X)                                                                     \
    X(mapped_us, "mapped_us", "us")           /* signal and wait through mapped memory */          \
    X(mapped_rate, "mapped_rate", "B/us")     /* copies and reductions of mapped algorithms */     \
    X(local_us, "local_us", "us")             /* a message between ranks of a node */              \
    X(local_rate, "local_rate", "B/us")                                                            \
    X(network_us, "network_us", "us")         /* a message between nodes: latency */               \
    X(message_us, "message_us", "us")         /* between nodes: the processors' work for each */   \
    X(network_rate, "network_rate", "B/us")   /* of a node's link */                               \
    X(copy_rate, "copy_rate", "B/us")         /* a core's, in its own memory: of two-sided algorithms */ \
    X(reduce_rate, "reduce_rate", "B/us")     /* a core's, of floats that are added; other types by core_rates.c */

struct wi_plan_link_params {
#define WI_PLAN_LINK_PARAM_MEMBER(member, name, unit) double member;
    WI_PLAN_LINK_PARAM_LIST(WI_PLAN_LINK_PARAM_MEMBER)
#undef WI_PLAN_LINK_PARAM_MEMBER
};
#define WI_PLAN_NUM_LINK_PARAMS (sizeof(struct wi_plan_link_params) / sizeof(double))

/* Defaults for the class of link, not for a machine: they only have to order the candidates. */
void wi_plan_default_link_params(const struct wi_plan_facts *facts, struct wi_plan_link_params *params);
/* Take what a model of the ranks knows; the rest (one node only, one rank per node) stays. */
void wi_plan_model_link_params(const struct wi_model *model, struct wi_plan_link_params *params);
/* By name in tables; NULL if there is none. */
double *wi_plan_link_param(struct wi_plan_link_params *params, const char *name);

#endif
