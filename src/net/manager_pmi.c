/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI-1, as MPICH's hydra and Slurm's mpi/pmi2 have it, as a process manager. The environment says who this process is. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "net/manager.h"
#include "net/pmi.h"

static int started(const struct weft_host *host)
{
    (void)host;
    return secure_getenv("PMI_FD") && (getenv("PMI_RANK") || getenv("PMI_SIZE"));
}

static weft_status join(const struct weft_host *host, const void *settings, uint64_t deadline_ns,
                        struct weft_manager_job *job, void **session)
{
    struct wi_env env;
    struct wi_pmi *pmi;

    (void)host, (void)settings;
    memset(&env, 0, sizeof env);
    env.local_rank = env.local_nranks = -1;
    WI_TRY(wi_env_pmi(&env));
    pmi = wi_calloc(1, sizeof *pmi);
    if (!pmi)
        return wi_fail(WEFT_ENOMEM, "no memory for start-up");
    weft_status st = env.nranks > 1 ? wi_pmi_init(pmi, env.pmi_fd, deadline_ns) : WEFT_SUCCESS;
    if (st < 0) {
        wi_free(pmi);
        return st;
    }
    job->rank = env.rank;
    job->nranks = env.nranks;
    job->local_rank = env.local_rank;
    job->local_nranks = env.local_nranks;
    memcpy(job->name, env.job, sizeof job->name);
    *session = pmi;
    return WEFT_SUCCESS;
}

static weft_status put(void *session, const char *key, const char *value)
{
    return wi_pmi_put(session, key, value);
}

static weft_status fence(void *session, uint64_t deadline_ns)
{
    struct wi_pmi *pmi = session;

    pmi->deadline_ns = deadline_ns;
    return wi_pmi_barrier(pmi);
}

static weft_status get(void *session, int rank, const char *key, uint64_t deadline_ns, char *value, size_t capacity)
{
    struct wi_pmi *pmi = session;

    (void)rank; /* one key space for all */
    pmi->deadline_ns = deadline_ns;
    return wi_pmi_get(pmi, key, value, capacity);
}

static void leave(void *session)
{
    explicit_bzero(session, sizeof(struct wi_pmi)); /* it had the secret in its lines */
    wi_free(session);
}

static const struct weft_manager_ops ops = {sizeof ops, started, join, put, fence, get, leave};

const struct weft_plugin wi_manager_pmi = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof wi_manager_pmi,
    .kind = WEFT_PLUGIN_MANAGER,
    .name = "pmi",
    .summary = "start-up through a process manager that speaks PMI-1",
    .ops = &ops,
};
