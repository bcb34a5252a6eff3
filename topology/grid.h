/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks in a mesh of several axes (tensor, data, pipeline parallel, …), so that those who exchange most are nearest. Pure
 * functions of a model. */
#ifndef WI_TOPOLOGY_GRID_H
#define WI_TOPOLOGY_GRID_H

#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

#include "topology/model.h"

#define WI_GRID_MAX_AXES 16

struct wi_grid {
    int naxes, nranks;
    const char *name[WI_GRID_MAX_AXES];
    int extent[WI_GRID_MAX_AXES];     /* their product is nranks */
    double traffic[WI_GRID_MAX_AXES]; /* how much the ranks along it exchange, compared with the others; above 0 */
};

/* Are the axes a mesh of so many ranks? */
weft_status wi_grid_check(const struct wi_grid *grid, int nranks);

/* order[i]: the rank at position i of the grid, the last axis running fastest.
 *
 * Blocks of the axis with the most traffic are made first, within the smallest groups of near ranks that hold a whole block;
 * what is left over forms blocks in the next larger groups; then blocks of these blocks for the next axis, and so on. This is
 * done in the order of the ranks and in that of a ring over them; up to WI_GRID_SWAPS ranks the better of the two is improved
 * by exchanging ranks in pairs. The order 0, 1, 2, … is kept unless another one costs less. */
#define WI_GRID_SWAPS 32
weft_status wi_grid_order(const struct wi_model *m, const struct wi_grid *grid, int32_t *order);

/* What an order costs: over all groups of ranks along an axis, the traffic times the costliest hop between two of the group, the
 * mean of its hops deciding between equals. A hop counts four times as much for each level of the model that it leaves. Of
 * groups of more than 64, only hops to the next rank count. */
weft_status wi_grid_cost(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, double *cost);

/* The order and, for each axis, within what its groups stay, their slowest link, and what the order of the ranks would have
 * given. */
weft_status wi_grid_explain(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, FILE *out);

/* Members of the group along an axis that holds a position. group[extent]. */
void wi_grid_group(const struct wi_grid *grid, const int32_t *order, int axis, int position, int32_t *group);

#endif
