/* SPDX-License-Identifier: BSD-3-Clause */
/* Where on its host this process runs, by what it is bound to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include <sched.h>
#include <stdio.h>

#include "topology/graph_internal.h"
#include "topology/placement.h"

#define MOST_PROCESSORS (1 << 16)

/* The first hardware thread of the core that a thread belongs to: by that number graphs know cores. */
static int first_thread(int thread)
{
    char path[96];
    int first = thread;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return thread;
    if (fscanf(file, "%d", &first) != 1 || first < 0)
        first = thread;
    fclose(file);
    return first;
}

static int core_of(const struct wi_topo *topo, int host, int thread)
{
    int first = first_thread(thread);

    for (int o = 0; o < topo->nobjects; o++)
        if (topo->objects[o].kind == WI_TOPO_CORE && topo->objects[o].host == host &&
            topo->objects[o].os_index == first)
            return o;
    return WI_TOPO_NONE;
}

static int contains(const struct wi_topo *topo, int outer, int object)
{
    while (object != WI_TOPO_NONE && object != outer)
        object = topo->objects[object].parent;
    return object == outer;
}

/* The smallest object that contains both. */
static int join(const struct wi_topo *topo, int a, int b)
{
    while (!contains(topo, a, b))
        a = topo->objects[a].parent;
    return a;
}

/* Of the threads in the set; the host, if one of them is of no core that the graph has. */
static int smallest_around(const struct wi_topo *topo, int host, const cpu_set_t *set, int nthreads)
{
    int place = WI_TOPO_NONE;

    for (int t = 0; t < nthreads && place != host; t++) {
        if (!CPU_ISSET_S((size_t)t, CPU_ALLOC_SIZE(nthreads), set))
            continue;
        int core = core_of(topo, host, t);
        if (core == WI_TOPO_NONE)
            return host;
        place = place == WI_TOPO_NONE ? core : join(topo, place, core);
    }
    return place == WI_TOPO_NONE ? host : place;
}

static int binding(const struct wi_topo *topo, int host)
{
    int place = host;

    for (int n = 1024; n <= MOST_PROCESSORS; n *= 4) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set)
            return host;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) == 0) {
            place = smallest_around(topo, host, set, n);
            n = MOST_PROCESSORS;
        }
        CPU_FREE(set);
    }
    return place;
}

int wi_topo_here(const struct wi_topo *topo, int host, int local_rank, int local_nranks)
{
    int ngpus = 0;

    for (int o = 0; o < topo->nobjects; o++)
        ngpus += topo->objects[o].kind == WI_TOPO_GPU && topo->objects[o].host == host;
    for (int o = 0, seen = 0; o < topo->nobjects && local_nranks <= ngpus; o++)
        if (topo->objects[o].kind == WI_TOPO_GPU && topo->objects[o].host == host && seen++ == local_rank)
            return o;
    int place = binding(topo, host);
    enum wi_topo_kind kind = topo->objects[place].kind;
    int runs_ranks = kind == WI_TOPO_CORE || kind == WI_TOPO_CACHE || kind == WI_TOPO_NUMA || kind == WI_TOPO_PACKAGE;
    return runs_ranks ? place : host;
}
