/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks share a node. Two processes do when they see the same kernel boot, host name, network and process-id
 * namespace: only then can they map each other's memory and watch each other's processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/process.h"
#include "base/status.h"
#include "net/bootstrap.h"

static void node_hash(struct wi_node_id *node, const void *data, size_t bytes)
{
    node->id[0] = wi_hash64(data, bytes, 0x77656674u);
    node->id[1] = wi_hash64(data, bytes, 0x6e6f6465u);
}

weft_status wi_node_id(const char *override, struct wi_node_id *node)
{
    struct {
        char boot[WI_BOOT_ID_BYTES], host[65];
        uint64_t net, pid;
    } seen;
    memset(&seen, 0, sizeof(seen));
    memset(node, 0, sizeof(*node));

    if (!override || !*override)
        override = getenv("WEFT_NODE_ID");
    if (override && *override) {
        snprintf(node->name, sizeof(node->name), "%s", override);
        node_hash(node, override, strlen(override));
        return WEFT_SUCCESS;
    }
    if (gethostname(seen.host, sizeof(seen.host) - 1))
        return wi_fail(WEFT_ESYS, "the host has no name (gethostname); set WEFT_NODE_ID");
    wi_process_boot_id(seen.boot);
    seen.net = wi_process_namespace("net");
    seen.pid = wi_process_namespace("pid");
    snprintf(node->name, sizeof(node->name), "%.63s", seen.host);
    node_hash(node, &seen, sizeof(seen));
    return WEFT_SUCCESS;
}
