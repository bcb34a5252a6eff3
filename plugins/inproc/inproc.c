/* inproc.c: ranks as threads of one process. The protocols are those of plugins/shm, over the heap.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The arenas of a group live in a hub, found by communicator id in a table of this process, and go when the last
 * member has left: a member may look at the board of one that is gone.
 */
#include "inproc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../shm/group.h"

struct hub {
    struct hub *next;
    uint64_t comm_id[2];
    uint32_t nmembers, refs;
    struct wi_shm_layout layout;
    struct wi_shm_arena *arenas; /* [nmembers] */
    pthread_mutex_t *leaving;    /* [nmembers] */
};

static pthread_mutex_t hubs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hub *hubs;

static const struct weft_setting inproc_settings[] = {
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
    {"RNDV_BYTES", "32K", WEFT_SETTING_BYTES, offsetof(struct wi_shm_settings, rndv_bytes), 0, 0,
     "Messages at least this long are copied once, directly from the sender's memory, in bytes."},
    {"MAP", "y", WEFT_SETTING_BOOL, offsetof(struct wi_shm_settings, map), 0, 0,
     "Copy long messages directly from the sender's memory, yes or no."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static weft_status inproc_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct wi_shm_endpoint *made;
    weft_status status = wi_shm_endpoint_new(host, settings, 1, &made);

    if (status == WEFT_SUCCESS)
        *endpoint = made;
    return status;
}

static int inproc_reachable(void *arg, const void *address, size_t bytes)
{
    struct wi_shm_endpoint *endpoint = arg;
    struct wi_shm_identity peer;

    return wi_shm_identity_parse(&peer, address, bytes) && wi_shm_identity_same_process(&peer, &endpoint->identity);
}

static void hub_free(struct hub *hub)
{
    for (uint32_t i = 0; hub->arenas && i < hub->nmembers; i++)
        if (hub->arenas[i].ctl)
            munmap(hub->arenas[i].ctl, hub->layout.ctl_bytes + hub->layout.bulk_bytes);
    for (uint32_t i = 0; hub->leaving && i < hub->nmembers; i++)
        pthread_mutex_destroy(&hub->leaving[i]);
    free(hub->arenas);
    free(hub->leaving);
    free(hub);
}

static struct hub *hub_new(const struct wi_shm_group *group, const uint64_t comm_id[2])
{
    struct hub *hub = calloc(1, sizeof(*hub));

    if (!hub)
        return NULL;
    memcpy(hub->comm_id, comm_id, sizeof(hub->comm_id));
    hub->layout = group->layout;
    hub->arenas = calloc(group->nmembers, sizeof(*hub->arenas));
    hub->leaving = calloc(group->nmembers, sizeof(*hub->leaving));
    if (!hub->arenas || !hub->leaving) {
        hub_free(hub);
        return NULL;
    }
    hub->nmembers = group->nmembers;
    for (uint32_t i = 0; i < hub->nmembers; i++)
        pthread_mutex_init(&hub->leaving[i], NULL);
    return hub;
}

static struct hub *hub_get(const struct wi_shm_group *group, const uint64_t comm_id[2])
{
    struct hub *hub;

    pthread_mutex_lock(&hubs_lock);
    for (hub = hubs; hub; hub = hub->next)
        if (memcmp(hub->comm_id, comm_id, sizeof(hub->comm_id)) == 0)
            break;
    if (!hub) {
        hub = hub_new(group, comm_id);
        if (hub) {
            hub->next = hubs;
            hubs = hub;
        }
    }
    if (hub)
        hub->refs++;
    pthread_mutex_unlock(&hubs_lock);
    return hub;
}

static void hub_put(struct hub *hub)
{
    struct hub **link = &hubs;
    int last;

    if (!hub)
        return;
    pthread_mutex_lock(&hubs_lock);
    last = --hub->refs == 0;
    while (last && *link != hub)
        link = &(*link)->next;
    if (last)
        *link = hub->next;
    pthread_mutex_unlock(&hubs_lock);
    if (last)
        hub_free(hub);
}

/* WEFT_EPROTO: another group that claims to be this rank of this communicator came first. */
static weft_status put_into(struct hub *hub, const struct wi_shm_group *group, unsigned char *memory)
{
    struct wi_shm_arena *arena = &hub->arenas[group->self];
    int taken;

    pthread_mutex_lock(&hubs_lock);
    taken = arena->ctl != NULL;
    if (!taken)
        *arena = (struct wi_shm_arena){(struct wi_shm_ctl *)memory, memory + group->layout.ctl_bytes};
    pthread_mutex_unlock(&hubs_lock);
    return taken ? WEFT_EPROTO : WEFT_SUCCESS;
}

/* Put this rank's arena into the hub. */
static weft_status contribute(struct wi_shm_group *group, struct hub *hub)
{
    size_t bytes = group->layout.ctl_bytes + group->layout.bulk_bytes;
    const struct weft_host *host = group->endpoint->host;
    unsigned char *memory;

    if (memcmp(&hub->layout, &group->layout, sizeof(hub->layout)) != 0) {
        host->explain(host->impl, WEFT_ECONFIG, "ranks differ in WEFT_INPROC_DEPTH, _SLOT_BYTES or _RING_BYTES");
        return WEFT_ECONFIG;
    }
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return wi_shm_explain_errno(host, errno, "map an arena");
    if (put_into(hub, group, memory) == WEFT_SUCCESS)
        return WEFT_SUCCESS;
    munmap(memory, bytes);
    host->explain(host->impl, WEFT_EPROTO, "another communicator of this process has the same id");
    return WEFT_EPROTO;
}

/* A rank's address is its word; that it runs here shows in that its arena does. */
static weft_status all_here(const struct wi_shm_group *group, const struct hub *hub)
{
    const struct weft_host *host = group->endpoint->host;

    for (uint32_t i = 0; i < group->nmembers; i++)
        if (!hub->arenas[i].ctl) {
            host->explain(host->impl, WEFT_EPROTO, "rank %d says that it runs in this process (%u), and does not",
                          group->peers[i].rank, group->endpoint->identity.pid);
            return WEFT_EPROTO;
        }
    return WEFT_SUCCESS;
}

/* One round: are all arenas in the hub? The round orders their making before any use. */
static weft_status meet(struct wi_shm_group *group, const struct weft_group_config *config, weft_status status)
{
    const struct weft_host *host = group->endpoint->host;
    int32_t mine = status, *all = calloc(group->nmembers, sizeof(*all));

    if (!all)
        return WEFT_ENOMEM;
    status = config->all_gather(config->all_gather_arg, &mine, sizeof(mine), all);
    for (uint32_t i = 0; status == WEFT_SUCCESS && i < group->nmembers; i++) {
        status = all[i];
        if (status != WEFT_SUCCESS && i != group->self)
            host->explain(host->impl, status, "rank %d could not make its arena (%s)", group->peers[i].rank,
                          weft_status_name(status));
    }
    free(all);
    return status;
}

static weft_status inproc_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct wi_shm_group *made;
    struct hub *hub;
    weft_status status = wi_shm_group_new(endpoint, config, &made);

    if (status != WEFT_SUCCESS)
        return status;
    hub = hub_get(made, config->comm_id);
    status = meet(made, config, hub ? contribute(made, hub) : WEFT_ENOMEM);
    if (status == WEFT_SUCCESS)
        status = all_here(made, hub);
    if (status == WEFT_SUCCESS) {
        memcpy(made->arenas, hub->arenas, made->nmembers * sizeof(*made->arenas));
        made->leaving = hub->leaving;
        made->hub = hub;
        status = wi_shm_group_start(made, made->endpoint->membarrier);
    }
    if (status != WEFT_SUCCESS) {
        wi_shm_group_free(made);
        hub_put(hub);
        return status;
    }
    *group = made;
    return WEFT_SUCCESS;
}

static void inproc_group_destroy(void *arg, int aborted)
{
    struct wi_shm_group *group = arg;
    struct hub *hub = group->hub;

    wi_shm_group_leave(group, aborted);
    wi_shm_group_free(group);
    hub_put(hub);
}

static weft_status inproc_mem_get(void *group, int peer, uint64_t remote_address, void *local, size_t bytes)
{
    if (!wi_shm_peer_at(group, peer))
        return WEFT_EINVAL;
    memcpy(local, (const void *)(uintptr_t)remote_address, bytes);
    return WEFT_SUCCESS;
}

static weft_status inproc_mem_put(void *group, int peer, uint64_t remote_address, const void *local, size_t bytes)
{
    if (!wi_shm_peer_at(group, peer))
        return WEFT_EINVAL;
    if (bytes)
        memcpy((void *)(uintptr_t)remote_address, local, bytes);
    return WEFT_SUCCESS;
}

/* All memory is reachable already: adopting needs no work and changes nothing. */
static weft_status inproc_mem_adopt(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = ((uintptr_t)ptr + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)ptr + bytes) / page * page;

    (void)endpoint;
    if (!ptr || end <= start)
        return WEFT_ENOTSUP;
    *adopted = (void *)start;
    *adopted_bytes = end - start;
    return WEFT_SUCCESS;
}

static weft_status inproc_mem_release(void *endpoint, void *adopted)
{
    (void)endpoint;
    return adopted ? WEFT_SUCCESS : WEFT_EINVAL;
}

static const struct weft_transport_ops inproc_ops = {
    .bytes = sizeof(inproc_ops),
    .open = inproc_open,
    .close = wi_shm_endpoint_close,
    .address = wi_shm_endpoint_address,
    .reachable = inproc_reachable,
    .group_create = inproc_group_create,
    .group_destroy = inproc_group_destroy,
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
    .mem_adopt = inproc_mem_adopt,
    .mem_release = inproc_mem_release,
    .mem_describe = wi_shm_mem_describe,
    .mem_map = wi_shm_mem_map,
    .mem_get = inproc_mem_get,
    .mem_put = inproc_mem_put,
    .peek = wi_shm_peek,
    .quiesce = wi_shm_group_quiesce,
};

const struct weft_plugin weft_plugin_inproc = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof(struct weft_plugin),
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "inproc",
    .summary = "threads of one process",
    .settings = inproc_settings,
    .settings_bytes = sizeof(struct wi_shm_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO | WEFT_CAP_MAPPED | WEFT_CAP_MEM_MAP |
            WEFT_CAP_MEM_GET | WEFT_CAP_MEM_PUT | WEFT_CAP_MEM_ALL,
    .priority = 110,
    .ops = &inproc_ops,
};
