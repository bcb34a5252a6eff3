/* SPDX-License-Identifier: BSD-3-Clause */
/* What the writers of graphs share. */
#ifndef WI_TOPOLOGY_EXPORT_INTERNAL_H
#define WI_TOPOLOGY_EXPORT_INTERNAL_H

#include "topology/graph_internal.h"

/* Children by parent, by rising number: those of object o are child[first[o + 1]] … child[first[o + 2] - 1]; objects in
 * nothing come first. */
struct wi_topo_children {
    int *first, *child;
};
weft_status wi_topo_children_init(struct wi_topo_children *c, const struct wi_topo *topo);
void wi_topo_children_fini(struct wi_topo_children *c);

/* "12.5 GB/s" or "100 Gb/s" */
void wi_topo_rate_text(double rate, int as_bits, char text[32]);
/* Has all been written? */
weft_status wi_topo_written(FILE *out, const char *what);
/* The text with & < > " as XML wants them. */
void wi_topo_put_escaped(const char *text, FILE *out);

#endif
