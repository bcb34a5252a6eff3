/* shm.c: the shared-memory transport's entry points.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "shm.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "group.h"

static const struct weft_setting shm_settings[] = {
    {"DEPTH", "8", WEFT_SETTING_INT | WEFT_SETTING_EQUAL | WEFT_SETTING_POWER_OF_TWO,
     offsetof(struct wi_shm_settings, depth), 2, 64,
     "Epochs of mapped operations that may be in flight at once, a power of two."},
    {"SLOT_BYTES", "128K", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, offsetof(struct wi_shm_settings, slot_bytes), 4096,
     64 << 20, "Scratch memory of one rank for one epoch, in bytes; more where 64 for each rank do not fit."},
    {"STAGE_SLOT_BYTES", "512K", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL,
     offsetof(struct wi_shm_settings, stage_slot_bytes), 4096, 64 << 20,
     "The same in communicators with ranks on other nodes, where a slot holds what goes through stages at once, in bytes."},
    {"RING_BYTES", "64K", WEFT_SETTING_BYTES, offsetof(struct wi_shm_settings, ring_bytes), 4096, 16 << 20,
     "Buffer between two ranks for one channel of messages, in bytes."},
    {"RNDV_BYTES", "0", WEFT_SETTING_BYTES, offsetof(struct wi_shm_settings, rndv_bytes), 0, 0,
     "Messages at least this long are copied once, directly from the sender's memory where possible, in bytes; 0: 128K, and "
     "private memory only between ranks that share a core."},
    {"MAP", "y", WEFT_SETTING_BOOL, offsetof(struct wi_shm_settings, map), 0, 0,
     "Map memory that peers have allocated or registered with weft, yes or no."},
    {"CMA", "y", WEFT_SETTING_BOOL, offsetof(struct wi_shm_settings, cma), 0, 0,
     "Read peers' private memory with process_vm_readv where the system permits, yes or no."},
    {"NODE_ID", "", WEFT_SETTING_WORD, offsetof(struct wi_shm_settings, node_id), 0, 0,
     "Text that names the node instead of host name and network namespace; equal text shares memory."},
    {"ARENA", "auto", WEFT_SETTING_WORD, offsetof(struct wi_shm_settings, arena), 0, 0,
     "Where control memory lives: auto (memfd, else named) or named (objects in /dev/shm), a word."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static weft_status shm_open_endpoint(const struct weft_host *host, const void *settings, void **endpoint)
{
    const char *arena = ((const struct wi_shm_settings *)settings)->arena;
    struct wi_shm_endpoint *made;
    weft_status status;

    if (arena && arena[0] && strcmp(arena, "auto") != 0 && strcmp(arena, "named") != 0) {
        host->explain(host->impl, WEFT_ECONFIG, "WEFT_SHM_ARENA is \"%s\", not auto or named", arena);
        return WEFT_ECONFIG;
    }
    status = wi_shm_endpoint_new(host, settings, 0, &made);
    if (status == WEFT_SUCCESS)
        *endpoint = made;
    return status;
}

static int shm_reachable(void *arg, const void *address, size_t bytes)
{
    struct wi_shm_endpoint *endpoint = arg;
    struct wi_shm_identity peer;

    return wi_shm_identity_parse(&peer, address, bytes) && wi_shm_identity_same_node(&peer, &endpoint->identity);
}

static weft_status shm_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct wi_shm_group *made;
    int membarrier = 0;
    weft_status status = wi_shm_group_new(endpoint, config, &made);

    if (status != WEFT_SUCCESS)
        return status;
    status = wi_shm_share(made, config, &membarrier);
    if (status != WEFT_SUCCESS)
        goto free_group;
    status = wi_shm_group_start(made, membarrier);
    if (status != WEFT_SUCCESS)
        goto unshare;
    *group = made;
    return WEFT_SUCCESS;
unshare:
    wi_shm_unshare(made);
free_group:
    wi_shm_group_free(made);
    return status;
}

static void shm_group_destroy(void *arg, int aborted)
{
    struct wi_shm_group *group = arg;

    wi_shm_group_leave(group, aborted);
    if (group->endpoint->identity.pid == (uint32_t)getpid())
        wi_shm_unshare(group);
    wi_shm_group_free(group);
}

static size_t shm_describe_peer(void *arg, int rank, char *text, size_t capacity)
{
    struct wi_shm_peer *peer = wi_shm_peer_at(arg, rank);

    return peer && peer->watch && capacity ? wi_shm_watch_text(peer->watch, text, capacity) : 0;
}

static const struct weft_transport_ops shm_ops = {
    .bytes = sizeof(shm_ops),
    .open = shm_open_endpoint,
    .close = wi_shm_endpoint_close,
    .address = wi_shm_endpoint_address,
    .reachable = shm_reachable,
    .group_create = shm_group_create,
    .group_destroy = shm_group_destroy,
    .send = wi_shm_send,
    .recv = wi_shm_recv,
    .progress = wi_shm_group_progress,
    .poll_fd = wi_shm_group_poll_fd,
    .poll_arm = wi_shm_group_poll_arm,
    .mapped = wi_shm_group_mapped,
    .sleep = wi_shm_group_sleep,
    .wake = wi_shm_group_wake,
    .mem_alloc = wi_shm_mem_alloc,
    .mem_free = wi_shm_mem_free,
    .mem_adopt = wi_shm_mem_adopt,
    .mem_release = wi_shm_mem_release,
    .mem_describe = wi_shm_mem_describe,
    .mem_map = wi_shm_mem_map,
    .mem_get = wi_shm_mem_get,
    .mem_put = wi_shm_mem_put,
    .describe_peer = shm_describe_peer,
    .peek = wi_shm_peek,
    .quiesce = wi_shm_group_quiesce,
};

const struct weft_plugin weft_plugin_shm = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof(struct weft_plugin),
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "shm",
    .summary = "shared memory between processes of one node",
    .settings = shm_settings,
    .settings_bytes = sizeof(struct wi_shm_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO | WEFT_CAP_MAPPED | WEFT_CAP_MEM_MAP |
            WEFT_CAP_MEM_GET | WEFT_CAP_MEM_PUT,
    .priority = 100,
    .ops = &shm_ops,
};
