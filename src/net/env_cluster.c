/* SPDX-License-Identifier: BSD-3-Clause */
/* Launchers of clusters: Open MPI's mpirun and SLURM's srun. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/env.h"

/* "3245.0;tcp://10.0.0.1,192.168.1.1:4711;..." -> "10.0.0.1" */
static int hnp_host(const char *uri, char *host, size_t capacity)
{
    const char *at = strstr(uri, "tcp://");
    if (!at)
        return -1;
    at += strlen("tcp://");
    size_t n = *at == '[' ? strcspn(++at, "]") : strcspn(at, ",:;");
    if (!n || n >= capacity)
        return -1;
    memcpy(host, at, n);
    host[n] = '\0';
    return 0;
}

weft_status wi_env_openmpi(struct wi_env *env)
{
    const char *job = wi_env_get("PMIX_NAMESPACE"), *uri = wi_env_get("OMPI_MCA_orte_hnp_uri");
    WI_TRY(wi_env_ranks(env, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
    WI_TRY(wi_env_locals(env, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"));
    if (!job)
        job = wi_env_get("OMPI_MCA_ess_base_jobid");
    if (!job)
        return wi_fail(
            WEFT_ECONFIG,
            "OMPI_COMM_WORLD_RANK is set but neither PMIX_NAMESPACE nor OMPI_MCA_ess_base_jobid names the job");
    wi_env_job(env, "openmpi:%s", job);
    if (!env->one_host && uri && !hnp_host(uri, env->rendezvous.host, sizeof(env->rendezvous.host)))
        env->hint = "; if rank 0 does not run on mpirun's host, set WEFT_STORE_ADDR to the host of rank 0";
    return WEFT_SUCCESS;
}

int wi_env_first_host(const char *nodelist, char *host, size_t capacity)
{
    size_t prefix = strcspn(nodelist, "[,");
    const char *first = nodelist + prefix, *tail = "";
    size_t digits = 0, tail_bytes = 0;
    if (*first == '[') {
        first++;
        digits = strspn(first, "0123456789");
        tail = strchr(first, ']');
        if (!digits || !tail)
            return -1;
        tail++;
        tail_bytes = strcspn(tail, ",[");
        if (tail[tail_bytes] == '[')
            return -1;
    }
    if (prefix + digits + tail_bytes == 0 || prefix + digits + tail_bytes >= capacity)
        return -1;
    snprintf(host, capacity, "%.*s%.*s%.*s", (int)prefix, nodelist, (int)digits, first, (int)tail_bytes, tail);
    return 0;
}

int wi_env_tasks_of_node(const char *list, int node)
{
    for (const char *at = list; *at;) {
        char *end;
        long tasks = strtol(at, &end, 10), times = 1;
        if (end == at || tasks < 1 || tasks > 1 << 20)
            return -1;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (times < 1 || *end++ != ')')
                return -1;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)times;
        if (*end != ',' && *end)
            return -1;
        at = *end ? end + 1 : end;
    }
    return -1;
}

static const char *either(const char *a, const char *b)
{
    return wi_env_get(a) ? a : b;
}

static weft_status slurm_host(struct wi_env *env)
{
    const char *name = either("SLURM_STEP_NODELIST", either("SLURM_NODELIST", "SLURM_JOB_NODELIST"));
    const char *list = wi_env_get(name), *launch = wi_env_get("SLURM_LAUNCH_NODE_IPADDR");
    struct wi_rendezvous *r = &env->rendezvous;
    if (list && wi_env_first_host(list, r->host, sizeof(r->host)))
        return wi_fail(WEFT_ECONFIG, "%s='%.100s' is not a list of hosts", name, list);
    if (!list && launch)
        snprintf(r->host, sizeof(r->host), "%.255s", launch);
    return WEFT_SUCCESS;
}

weft_status wi_env_slurm(struct wi_env *env)
{
    const char *job = wi_env_get("SLURM_JOB_ID"), *step = wi_env_get("SLURM_STEP_ID");
    const char *tasks = wi_env_get(either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
    const char *nodes = wi_env_get(either("SLURM_STEP_NUM_NODES", "SLURM_NNODES"));
    int node;
    WI_TRY(wi_env_ranks(env, "SLURM_PROCID", either("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")));
    WI_TRY(wi_env_locals(env, "SLURM_LOCALID", "WEFT_LOCAL_NRANKS"));
    if (tasks && wi_env_get("SLURM_NODEID") && env->local_nranks < 0) {
        WI_TRY(wi_env_int("SLURM_NODEID", getenv("SLURM_NODEID"), 0, 1 << 20, &node));
        env->local_nranks = wi_env_tasks_of_node(tasks, node);
        if (env->local_nranks <= env->local_rank)
            env->local_nranks = -1;
    }
    env->one_host = env->local_nranks == env->nranks || (nodes && !strcmp(nodes, "1"));
    wi_env_job(env, "slurm:%s.%s", job ? job : "0", step ? step : "batch");
    if (!env->one_host)
        env->hint =
            "; if names of nodes do not resolve, set WEFT_STORE_ADDR to an address of rank 0's host, or start with srun "
            "--mpi=pmix or --mpi=pmi2";
    if (!step)
        env->hint = " (SLURM_STEP_ID is not set: was the program started by srun?)";
    return slurm_host(env);
}
