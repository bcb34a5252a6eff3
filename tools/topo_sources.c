/* SPDX-License-Identifier: BSD-3-Clause */
/* From which machines weft-topo makes its graph. */
#include <stdlib.h>

#include "base/status.h"
#include "tools/topo_tool.h"

static weft_status read_one(const struct topo_source *source, struct wi_topo **topo)
{
    switch (source->kind) {
    case TOPO_SYNTHETIC:
        return wi_topo_synthetic(source->text, topo);
    case TOPO_HWLOC:
        return wi_topo_read_hwloc_xml(source->text, topo);
    default:
        return wi_topo_load(source->text, topo);
    }
}

static weft_status read_all(const struct topo_sources *sources, struct wi_topo **list)
{
    for (int i = 0; i < sources->n; i++)
        WI_TRY(read_one(&sources->list[i], &list[i]));
    return sources->n ? WEFT_SUCCESS : wi_topo_read_host(&list[0]);
}

weft_status topo_read_sources(const struct topo_sources *sources, struct wi_topo **topo)
{
    int n = sources->n ? sources->n : 1;
    struct wi_topo **list = calloc((size_t)n, sizeof(*list)), *network = NULL;

    if (!list)
        return wi_fail(WEFT_ENOMEM, "no memory for %d machines", n);
    weft_status st = read_all(sources, list);
    if (st == WEFT_SUCCESS && sources->network)
        st = wi_topo_load(sources->network, &network);
    if (st == WEFT_SUCCESS && (n > 1 || network))
        st = wi_topo_merge(list, n, network, topo);
    else if (st == WEFT_SUCCESS)
        *topo = wi_topo_get(list[0]);
    for (int i = 0; i < n; i++)
        wi_topo_put(list[i]);
    wi_topo_put(network);
    free(list);
    return st;
}
