/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of weft-topo. */
#ifndef TOPO_TOOL_H
#define TOPO_TOOL_H

#include <stdio.h>

#include "topology/graph.h"
#include "topology/model.h"

#define TOPO_MAX_SOURCES 1024

enum topo_source_kind { TOPO_SYNTHETIC, TOPO_FILE, TOPO_HWLOC };

struct topo_source {
    enum topo_source_kind kind;
    const char *text;
};

struct topo_sources {
    const char *network; /* file, or NULL */
    int n;               /* 0: this machine */
    struct topo_source list[TOPO_MAX_SOURCES];
};

weft_status topo_read_sources(const struct topo_sources *sources, struct wi_topo **topo);
/* Places, adapters and levels of nranks ranks (0: one for each GPU or core), and their rings. */
weft_status topo_print_ranks(struct wi_topo *topo, int nranks, int rings, FILE *out);

#endif
