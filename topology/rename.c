/* SPDX-License-Identifier: BSD-3-Clause */
/* A host under another name: hosts that call themselves the same must be told apart before they are merged. */
#include <stdio.h>

#include "base/status.h"
#include "topology/graph_internal.h"

weft_status wi_topo_rename_host(const struct wi_topo *topo, const char *name, struct wi_topo **renamed)
{
    struct wi_topo_builder *b;

    if (topo->nhosts != 1)
        return wi_fail(WEFT_EINVAL, "topology: of %d hosts none can be renamed", topo->nhosts);
    WI_TRY(wi_topo_begin(&b));
    for (int o = 0; o < topo->nobjects; o++) {
        struct wi_topo_object x = topo->objects[o];
        if (x.kind == WI_TOPO_HOST)
            snprintf(x.name, sizeof(x.name), "%s", name);
        wi_topo_add(b, &x);
    }
    for (int l = 0; l < topo->nlinks; l++)
        wi_topo_join(b, &topo->links[l]);
    for (int i = 0; i < topo->nmissing; i++)
        wi_topo_miss(b, "%s", topo->missing[i]);
    return wi_topo_seal(b, renamed);
}
