/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run: which cores a rank may use. hwloc only shows those that this process itself may use. */
#include <errno.h>
#include <hwloc.h>
#include <string.h>

#include "weft_run.h"

static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

int run_topology_load(struct run_job *job)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology))
        return 1;
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return 1;
    }
    job->topology = topology;
    int cores = hwloc_get_nbobjs_by_type(topology, core_type(topology));
    return cores > 0 ? cores : 1;
}

void run_topology_unload(struct run_job *job)
{
    if (job->topology)
        hwloc_topology_destroy(job->topology);
    job->topology = NULL;
}

/* A rank's share is a run of neighbouring objects; with more ranks than objects they are given out in turn. */
static void share(hwloc_topology_t topology, hwloc_obj_type_t type, int nobjs, int rank, int nranks, hwloc_bitmap_t set)
{
    int first = nranks <= nobjs ? (int)((long)rank * nobjs / nranks) : rank % nobjs;
    int last = nranks <= nobjs ? (int)((long)(rank + 1) * nobjs / nranks) : first + 1;
    for (int i = first; i < last; i++)
        hwloc_bitmap_or(set, set, hwloc_get_obj_by_type(topology, type, (unsigned)i)->cpuset);
}

/* In the child. Ranks run unbound rather than not at all. */
void run_bind_self(const struct run_job *job, int rank)
{
    hwloc_topology_t topology = job->topology;
    if (!topology || job->options->bind == RUN_BIND_NONE)
        return;
    hwloc_obj_type_t type = job->options->bind == RUN_BIND_NUMA ? HWLOC_OBJ_NUMANODE : core_type(topology);
    int nobjs = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (nobjs > 0 && set) {
        share(topology, type, nobjs, rank, job->nranks, set);
        if (hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_PROCESS))
            run_complain("rank %d runs unbound: %s", rank, strerror(errno));
    }
    hwloc_bitmap_free(set);
}
