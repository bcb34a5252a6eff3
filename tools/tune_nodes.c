/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: which ranks share a node, and what the planner is to know of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/process.h"
#include "weft_tune.h"

/* As the library tells nodes apart: same boot, host name, network and process-id namespace. */
static uint64_t node_key(void)
{
    struct {
        char boot[WI_BOOT_ID_BYTES], host[65];
        uint64_t net, pid;
    } seen;
    const char *given = getenv("WEFT_NODE_ID");

    if (given && *given)
        return wi_hash64(given, strlen(given), 1);
    memset(&seen, 0, sizeof seen);
    gethostname(seen.host, sizeof seen.host - 1);
    wi_process_boot_id(seen.boot);
    seen.net = wi_process_namespace("net");
    seen.pid = wi_process_namespace("pid");
    return wi_hash64(&seen, sizeof seen, 1);
}

weft_status tune_find_nodes(struct tune *t)
{
    size_t n = (size_t)t->nranks;
    uint64_t mine = node_key(), *keys = calloc(n, sizeof *keys);
    weft_status st;

    t->node_of = calloc(n, sizeof *t->node_of);
    if (!keys || !t->node_of) {
        free(keys);
        return WEFT_ENOMEM;
    }
    st = weft_all_gather(t->comm, &mine, keys, 1, WEFT_UINT64, NULL);
    for (int r = 0; r < t->nranks && st >= 0; r++) {
        int first = 0;
        while (keys[first] != keys[r])
            first++;
        t->node_of[r] = first == r ? t->nnodes++ : t->node_of[first];
    }
    free(keys);
    wi_plan_map(t->node_of, t->nranks, t->map, sizeof t->map);
    struct wi_algo_level node = {"node", t->nnodes, t->node_of};
    return st < 0 ? st : wi_plan_levels(NULL, &node, t->nranks, &t->levels, &t->level_memory);
}

void tune_facts(struct wi_plan_facts *facts, const struct wi_algo_levels *levels, int nranks, int nnodes)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    *facts = (struct wi_plan_facts){.nranks = nranks,
                                    .nnodes = nnodes,
                                    .mapped = nnodes == 1,
                                    .can_map = nnodes == 1,
                                    .can_get = nnodes == 1,
                                    .can_put = nnodes == 1,
                                    .oversubscribed = (nranks + nnodes - 1) / nnodes > processors,
                                    .levels = levels};
}
