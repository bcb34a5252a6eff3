/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of hosts made of link parameters: what ranks of different hosts send passes the links of both hosts, which all
 * of their ranks share; what ranks of one host send passes the cores of both. */
#ifndef WI_TESTS_UNIT_HOSTS_MODEL_H
#define WI_TESTS_UNIT_HOSTS_MODEL_H

#include "plan/internal.h"

/* NULL: no memory. wi_model_destroy. */
struct wi_model *hosts_model_of(const struct wi_plan_facts *facts, const int32_t *node_of,
                                const struct wi_plan_link_params *params);

#endif
