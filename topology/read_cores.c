/* SPDX-License-Identifier: BSD-3-Clause */
/* Packages, memories, shared caches and cores, and what joins them. In hwloc's tree memories hang beside what is near them; here
 * cores stand in the memory that is theirs alone, so that a level of ranks is a level of the tree. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/read_internal.h"
#include "topology/typical.h"

static int contains(hwloc_obj_t outer, hwloc_obj_t inner)
{
    return outer->cpuset && inner->cpuset && !hwloc_bitmap_iszero(inner->cpuset) &&
           hwloc_bitmap_isincluded(inner->cpuset, outer->cpuset);
}

/* The number of the first object of a type that contains this one, or -1. */
static int container(const struct wi_reading *r, hwloc_obj_type_t type, hwloc_obj_t inner)
{
    hwloc_obj_t outer = NULL;

    while ((outer = hwloc_get_next_obj_by_type(r->hwloc, type, outer)))
        if (contains(outer, inner))
            return (int)outer->logical_index;
    return -1;
}

static int add(struct wi_reading *r, enum wi_topo_kind kind, int parent, hwloc_obj_t from, uint64_t bytes)
{
    struct wi_topo_object object = wi_topo_object_init(kind, parent, r->host);

    object.os_index = from->os_index == HWLOC_UNKNOWN_INDEX ? WI_TOPO_NONE : (int32_t)from->os_index;
    if (kind == WI_TOPO_CORE && from->cpuset)
        object.os_index = hwloc_bitmap_first(from->cpuset);
    object.bytes = bytes;
    if (kind == WI_TOPO_PACKAGE)
        wi_read_text(object.model, sizeof(object.model), hwloc_obj_get_info_by_name(from, "CPUModel"));
    else if (kind == WI_TOPO_CACHE)
        snprintf(object.model, sizeof(object.model), "L%u", from->attr->cache.depth);
    else if (kind == WI_TOPO_NUMA)
        object.rate =
            wi_typical_memory_rate(hwloc_get_nbobjs_inside_cpuset_by_type(r->hwloc, from->cpuset, HWLOC_OBJ_CORE));
    return wi_topo_add(r->b, &object);
}

/* ---- Packages and memories ---- */

static void add_packages(struct wi_reading *r)
{
    hwloc_obj_t package = NULL;

    while ((package = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_PACKAGE, package)))
        r->packages[package->logical_index] = add(r, WI_TOPO_PACKAGE, r->host, package, 0);
}

/* Is there an earlier memory for the same cores (fast and large memory side by side)? */
static int is_second(const struct wi_reading *r, hwloc_obj_t numa)
{
    for (hwloc_obj_t other = numa->prev_cousin; other; other = other->prev_cousin)
        if (r->owners[other->logical_index] && hwloc_bitmap_intersects(other->cpuset, numa->cpuset))
            return 1;
    return 0;
}

static void add_numas(struct wi_reading *r)
{
    hwloc_obj_t numa = NULL;

    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa))) {
        int n = (int)numa->logical_index, package = container(r, HWLOC_OBJ_PACKAGE, numa);
        r->owners[n] = !hwloc_bitmap_iszero(numa->cpuset) && !is_second(r, numa) && (package >= 0 || r->npackages == 0);
        r->numas[n] = add(r, WI_TOPO_NUMA, package >= 0 ? r->packages[package] : r->host, numa,
                          numa->attr->numanode.local_memory);
    }
}

/* The memory of these cores; their own first. */
static int memory_of(const struct wi_reading *r, hwloc_obj_t object)
{
    hwloc_obj_t numa = NULL;
    int found = -1;

    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa))) {
        if (!contains(numa, object))
            continue;
        if (r->owners[numa->logical_index])
            return (int)numa->logical_index;
        found = found < 0 ? (int)numa->logical_index : found;
    }
    return found < 0 ? 0 : found;
}

static int parent_of(const struct wi_reading *r, hwloc_obj_t object)
{
    int numa = memory_of(r, object), package = container(r, HWLOC_OBJ_PACKAGE, object);

    if (r->owners[numa])
        return r->numas[numa];
    return package >= 0 ? r->packages[package] : r->host;
}

/* Memories of one package are joined by the package, packages by each other; memories outside by the first hub. */
static void join_memories(struct wi_reading *r)
{
    hwloc_obj_t numa = NULL;
    int first = WI_TOPO_NONE;

    if (r->nnumas < 2)
        return;
    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa))) {
        int package = container(r, HWLOC_OBJ_PACKAGE, numa), object = r->numas[numa->logical_index];
        if (package >= 0) {
            r->hubs[package] = r->packages[package];
            wi_topo_connect(r->b, WI_TOPO_LINK_SOCKET, object, r->packages[package], WI_TYPICAL_INSIDE_RATE,
                            WI_TYPICAL_INSIDE_LATENCY, WI_TOPO_ASSUMED);
        }
    }
    for (int a = 0; a < r->npackages; a++)
        for (int b = a + 1; b < r->npackages; b++)
            if (r->hubs[a] != WI_TOPO_NONE && r->hubs[b] != WI_TOPO_NONE)
                wi_topo_connect(r->b, WI_TOPO_LINK_SOCKET, r->hubs[a], r->hubs[b], WI_TYPICAL_SOCKET_RATE,
                                WI_TYPICAL_SOCKET_LATENCY, WI_TOPO_ASSUMED);
    for (int p = r->npackages - 1; p >= 0; p--)
        first = r->hubs[p] == WI_TOPO_NONE ? first : r->hubs[p];
    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa))) {
        int object = r->numas[numa->logical_index];
        if (container(r, HWLOC_OBJ_PACKAGE, numa) >= 0)
            continue;
        if (first != WI_TOPO_NONE)
            wi_topo_connect(r->b, WI_TOPO_LINK_SOCKET, object, first, WI_TYPICAL_SOCKET_RATE, WI_TYPICAL_SOCKET_LATENCY,
                            WI_TOPO_ASSUMED);
        else
            first = object;
    }
}

/* ---- Caches and cores ---- */

static int cores_inside(const struct wi_reading *r, hwloc_obj_t object)
{
    return hwloc_get_nbobjs_inside_cpuset_by_type(r->hwloc, object->cpuset, HWLOC_OBJ_CORE);
}

/* The last level that several cores share; a third level counts even for one core. */
static hwloc_obj_type_t cache_type(const struct wi_reading *r)
{
    hwloc_obj_t second = NULL;

    if (hwloc_get_nbobjs_by_type(r->hwloc, HWLOC_OBJ_L3CACHE) > 0)
        return HWLOC_OBJ_L3CACHE;
    while ((second = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_L2CACHE, second)))
        if (cores_inside(r, second) > 1)
            return HWLOC_OBJ_L2CACHE;
    return HWLOC_OBJ_TYPE_MAX;
}

/* A cache of several memories is no group of the tree: the memories are nearer. */
static int add_cache(struct wi_reading *r, hwloc_obj_t cache, int ncaches)
{
    int numa = memory_of(r, cache);
    hwloc_obj_t memory = hwloc_get_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, (unsigned)numa);

    if (!contains(memory, cache))
        return WI_TOPO_NONE;
    int object = add(r, WI_TOPO_CACHE, parent_of(r, cache), cache, cache->attr->cache.size);
    double rate = wi_typical_memory_rate(cores_inside(r, memory));
    if (ncaches > r->nnumas && rate > WI_TYPICAL_CLUSTER_RATE)
        rate = WI_TYPICAL_CLUSTER_RATE;
    wi_topo_connect(r->b, WI_TOPO_LINK_MEMORY, object, r->numas[numa], rate, WI_TYPICAL_MEMORY_LATENCY,
                    WI_TOPO_ASSUMED);
    return object;
}

static void add_core(struct wi_reading *r, hwloc_obj_t core, int cache)
{
    int object = add(r, WI_TOPO_CORE, cache == WI_TOPO_NONE ? parent_of(r, core) : cache, core, 0);

    r->ncores++;
    if (cache != WI_TOPO_NONE)
        wi_topo_connect(r->b, WI_TOPO_LINK_CACHE, object, cache, WI_TYPICAL_CORE_RATE, WI_TYPICAL_CORE_LATENCY,
                        WI_TOPO_ASSUMED);
    else
        wi_topo_connect(r->b, WI_TOPO_LINK_MEMORY, object, r->numas[memory_of(r, core)], WI_TYPICAL_CORE_RATE,
                        WI_TYPICAL_MEMORY_LATENCY, WI_TOPO_ASSUMED);
}

/* Caches with their cores, then cores without; hardware threads stand for cores where the system says nothing of those. */
static void add_cores(struct wi_reading *r)
{
    hwloc_obj_type_t core_type = hwloc_get_nbobjs_by_type(r->hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    hwloc_obj_type_t shared = cache_type(r);
    hwloc_obj_t core = NULL, of = NULL;
    int cache = WI_TOPO_NONE;

    while ((core = hwloc_get_next_obj_by_type(r->hwloc, core_type, core))) {
        hwloc_obj_t mine = shared == HWLOC_OBJ_TYPE_MAX ? NULL : hwloc_get_ancestor_obj_by_type(r->hwloc, shared, core);
        if (mine && mine != of && (shared == HWLOC_OBJ_L3CACHE || cores_inside(r, mine) > 1))
            cache = add_cache(r, mine, hwloc_get_nbobjs_by_type(r->hwloc, shared));
        else if (mine != of)
            cache = WI_TOPO_NONE;
        of = mine;
        add_core(r, core, cache);
    }
}

weft_status wi_read_cores(struct wi_reading *r)
{
    int npackages = hwloc_get_nbobjs_by_type(r->hwloc, HWLOC_OBJ_PACKAGE);

    r->nnumas = hwloc_get_nbobjs_by_type(r->hwloc, HWLOC_OBJ_NUMANODE);
    r->npackages = npackages > 0 ? npackages : 0;
    if (r->nnumas < 1)
        return wi_fail(WEFT_ESYS, "topology: hwloc knows no memory");
    r->packages = wi_calloc((size_t)r->npackages + 1, sizeof(int));
    r->hubs = wi_malloc(((size_t)r->npackages + 1) * sizeof(int));
    r->numas = wi_calloc((size_t)r->nnumas, sizeof(int));
    r->owners = wi_calloc((size_t)r->nnumas, sizeof(int));
    if (!r->packages || !r->hubs || !r->numas || !r->owners)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for %d NUMA nodes", r->nnumas);
    memset(r->hubs, 0xff, ((size_t)r->npackages + 1) * sizeof(int));
    add_packages(r);
    add_numas(r);
    join_memories(r);
    add_cores(r);
    return wi_topo_builder_status(r->b);
}

/* ---- Where devices stand ---- */

/* The one memory near an object, or -1. */
static int nearest_memory(const struct wi_reading *r, hwloc_obj_t local)
{
    if (r->nnumas == 1)
        return 0;
    if (!local || !local->nodeset)
        return -1;
    hwloc_obj_t numa = NULL;
    int found = -1;
    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa)))
        if (r->owners[numa->logical_index] && hwloc_bitmap_isset(local->nodeset, numa->os_index)) {
            if (found >= 0)
                return -1;
            found = (int)numa->logical_index;
        }
    return found;
}

int wi_read_container(const struct wi_reading *r, hwloc_obj_t local)
{
    int numa = nearest_memory(r, local), package = -1;

    if (numa >= 0 && local)
        return r->numas[numa];
    for (hwloc_obj_t up = local; up && package < 0; up = up->parent)
        package = up->type == HWLOC_OBJ_PACKAGE ? (int)up->logical_index : -1;
    return package >= 0 ? r->packages[package] : r->host;
}

int wi_read_entry(const struct wi_reading *r, hwloc_obj_t local)
{
    int numa = nearest_memory(r, local), package = -1;

    if (numa >= 0)
        return r->numas[numa];
    for (hwloc_obj_t up = local; up && package < 0; up = up->parent)
        package = up->type == HWLOC_OBJ_PACKAGE ? (int)up->logical_index : -1;
    for (int p = package < 0 ? 0 : package; p < r->npackages; p++)
        if (r->hubs[p] != WI_TOPO_NONE)
            return r->hubs[p];
    return r->numas[0];
}
