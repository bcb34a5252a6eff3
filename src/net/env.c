/* SPDX-License-Identifier: BSD-3-Clause */
/* Launchers: weft-run and torchrun, and the order in which all are looked for. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/env.h"
#include "net/manager.h"

#define CANDIDATE_PORTS 16
#define NRANKS_MAX (1 << 20)

const char *wi_env_get(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

weft_status wi_env_int(const char *name, const char *value, int64_t min, int64_t max, int *out)
{
    int64_t number;
    if (!value || !*value)
        return wi_fail(WEFT_ECONFIG, "%s is %s; it must be a number from %lld to %lld", name,
                       value ? "empty" : "not set", (long long)min, (long long)max);
    if (wi_parse_int(value, &number))
        return wi_fail(WEFT_ECONFIG, "%s='%.40s' is not a whole number", name, value);
    if (number < min || number > max)
        return wi_fail(WEFT_ECONFIG, "%s=%lld is not from %lld to %lld", name, (long long)number, (long long)min,
                       (long long)max);
    *out = (int)number;
    return WEFT_SUCCESS;
}

static weft_status env_ranks_of(struct wi_env *env, const char *rank_name, const char *rank, const char *nranks_name,
                                const char *nranks)
{
    WI_TRY(wi_env_int(nranks_name, nranks, 1, NRANKS_MAX, &env->nranks));
    WI_TRY(wi_env_int(rank_name, rank, 0, NRANKS_MAX, &env->rank));
    if (env->rank >= env->nranks)
        return wi_fail(WEFT_ECONFIG, "%s=%d is not below %s=%d", rank_name, env->rank, nranks_name, env->nranks);
    return WEFT_SUCCESS;
}

weft_status wi_env_ranks(struct wi_env *env, const char *rank_name, const char *nranks_name)
{
    return env_ranks_of(env, rank_name, getenv(rank_name), nranks_name, getenv(nranks_name));
}

static weft_status env_locals_of(struct wi_env *env, const char *rank_name, const char *rank, const char *nranks_name,
                                 const char *nranks)
{
    if (rank)
        WI_TRY(wi_env_int(rank_name, rank, 0, NRANKS_MAX, &env->local_rank));
    if (nranks)
        WI_TRY(wi_env_int(nranks_name, nranks, 1, NRANKS_MAX, &env->local_nranks));
    if (rank && nranks && env->local_rank >= env->local_nranks)
        return wi_fail(WEFT_ECONFIG, "%s=%d is not below %s=%d", rank_name, env->local_rank, nranks_name,
                       env->local_nranks);
    if (nranks && env->local_nranks > env->nranks)
        return wi_fail(WEFT_ECONFIG, "%s=%d is more than the job's %d ranks", nranks_name, env->local_nranks,
                       env->nranks);
    env->one_host = env->local_nranks == env->nranks;
    return WEFT_SUCCESS;
}

weft_status wi_env_locals(struct wi_env *env, const char *rank_name, const char *nranks_name)
{
    return env_locals_of(env, rank_name, getenv(rank_name), nranks_name, getenv(nranks_name));
}

/* Long names keep their beginning and get a hash, so that the name alone tells jobs apart. */
void wi_env_job(struct wi_env *env, const char *format, ...)
{
    char name[512];
    va_list ap;
    va_start(ap, format);
    int bytes = vsnprintf(name, sizeof(name), format, ap);
    va_end(ap);
    if (bytes < (int)sizeof(env->job))
        snprintf(env->job, sizeof(env->job), "%.63s", name);
    else
        snprintf(env->job, sizeof(env->job), "%.40s#%016llx", name,
                 (unsigned long long)wi_hash64(name, strlen(name), 0));
}

static weft_status env_host(struct wi_env *env, const char *name, const char *host)
{
    if (strlen(host) >= sizeof(env->rendezvous.host))
        return wi_fail(WEFT_ECONFIG, "%s is longer than a host name may be", name);
    snprintf(env->rendezvous.host, sizeof(env->rendezvous.host), "%s", host);
    return WEFT_SUCCESS;
}

static const char *given(const char *setting, const char *name)
{
    return setting ? setting : getenv(name);
}

/* Of the environment, but not of a caller with fewer rights than this program: a number of a descriptor. */
static const char *given_fd(const char *setting, const char *name)
{
    return setting ? setting : secure_getenv(name);
}

static weft_status env_weft(const struct wi_bootstrap_settings *s, struct wi_env *env)
{
    const char *store_fd = given_fd(s->store_fd, "WEFT_STORE_FD");
    WI_TRY(env_ranks_of(env, "WEFT_RANK", given(s->rank, "WEFT_RANK"), "WEFT_NRANKS", given(s->nranks, "WEFT_NRANKS")));
    WI_TRY(env_locals_of(env, "WEFT_LOCAL_RANK", given(s->local_rank, "WEFT_LOCAL_RANK"), "WEFT_LOCAL_NRANKS",
                         given(s->local_nranks, "WEFT_LOCAL_NRANKS")));
    if (store_fd && *store_fd && env->rank == 0)
        WI_TRY(wi_env_int("WEFT_STORE_FD", store_fd, 0, 1 << 20, &env->rendezvous.listen_fd));
    wi_env_job(env, "weft");
    if (!s->store_addr && env->nranks > 1)
        return wi_fail(WEFT_ECONFIG, "WEFT_RANK is set but WEFT_STORE_ADDR, the host of rank 0, is not");
    return WEFT_SUCCESS;
}

/* MASTER_PORT is where torchrun's own store listens, so weft's is beside it; without torchrun the port is free
 * for the first process that binds it. */
static weft_status env_torch(const struct wi_bootstrap_settings *s, struct wi_env *env)
{
    const char *addr = wi_env_get("MASTER_ADDR"), *run = wi_env_get("TORCHELASTIC_RUN_ID");
    const char *restart = wi_env_get("TORCHELASTIC_RESTART_COUNT");
    int port = 0;
    WI_TRY(wi_env_ranks(env, "RANK", "WORLD_SIZE"));
    WI_TRY(wi_env_locals(env, "LOCAL_RANK", "LOCAL_WORLD_SIZE"));
    if (getenv("MASTER_PORT") || (!s->store_port && !s->job && env->nranks > 1))
        WI_TRY(wi_env_int("MASTER_PORT", getenv("MASTER_PORT"), 1, 65535, &port));
    if (!addr && !s->store_addr && env->nranks > 1)
        return wi_fail(WEFT_ECONFIG, "RANK and WORLD_SIZE are set but MASTER_ADDR, the host of rank 0, is not");
    if (addr)
        WI_TRY(env_host(env, "MASTER_ADDR", addr));
    if (run) {
        wi_env_job(env, "torchrun:%s:%d:%s", run, port, restart ? restart : "0");
        return WEFT_SUCCESS;
    }
    wi_env_job(env, "torch:%d", port);
    if (port)
        env->rendezvous.ports[env->rendezvous.nports++] = (uint16_t)port;
    env->rendezvous.port_named = port ? "MASTER_PORT" : NULL;
    return WEFT_SUCCESS;
}

weft_status wi_env_pmi(struct wi_env *env)
{
    const char *job = wi_env_get("PMI_JOBID");
    WI_TRY(wi_env_ranks(env, "PMI_RANK", "PMI_SIZE"));
    WI_TRY(wi_env_locals(env, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"));
    wi_env_job(env, "pmi:%s", job ? job : "0");
    return wi_env_int("PMI_FD", secure_getenv("PMI_FD"), 0, 1 << 20, &env->pmi_fd);
}

/* Half of what a launcher says is refused: otherwise each process would silently run as a job of one rank. */
static weft_status env_half(void)
{
    int64_t ranks;
    if (getenv("RANK") || getenv("WORLD_SIZE"))
        return wi_fail(WEFT_ECONFIG, "%s is set and %s is not: set both, or neither for a job of one rank",
                       getenv("RANK") ? "RANK" : "WORLD_SIZE", getenv("RANK") ? "WORLD_SIZE" : "RANK");
    if (getenv("PMI_SIZE") && wi_parse_int(getenv("PMI_SIZE"), &ranks) == 0 && ranks > 1)
        return wi_fail(
            WEFT_ECONFIG,
            "PMI_SIZE says %lld ranks, and PMI_FD, through which they would meet, is not set: use a launcher "
            "with PMI-1 (MPICH's mpirun), or set WEFT_RANK, WEFT_NRANKS and WEFT_STORE_ADDR",
            (long long)ranks);
    return WEFT_SUCCESS;
}

static weft_status env_manager(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_env *env)
{
    struct weft_manager_job job;
    WI_TRY(wi_manager_meet(env->manager, s, deadline_ns, &job));
    env->rank = job.rank;
    env->nranks = job.nranks;
    env->local_rank = job.local_rank;
    env->local_nranks = job.local_nranks;
    env->one_host = job.local_nranks == job.nranks;
    if (!wi_manager_exchanges(&job))
        env->launcher = WI_ENV_NUMBERS;
    memcpy(env->job, job.name, sizeof(env->job));
    return WEFT_SUCCESS;
}

static weft_status env_launcher(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_env *env)
{
    if (given(s->rank, "WEFT_RANK") || given(s->nranks, "WEFT_NRANKS")) {
        env->launcher = WI_ENV_WEFT;
        return env_weft(s, env);
    }
    if (getenv("RANK") && getenv("WORLD_SIZE")) {
        env->launcher = WI_ENV_TORCH;
        return env_torch(s, env);
    }
    WI_TRY(wi_manager_find(s, &env->manager));
    /* Open MPI's mpirun may run below a manager that speaks PMI-1, whose ranks are mpirun's daemons: mpirun's count, unless
     * the manager is named. */
    if (env->manager && (env->manager != &wi_manager_pmi || wi_manager_is_named(s))) {
        env->launcher = WI_ENV_MANAGER;
        return env_manager(s, deadline_ns, env);
    }
    if (getenv("OMPI_COMM_WORLD_RANK") || getenv("OMPI_COMM_WORLD_SIZE")) {
        env->launcher = WI_ENV_OPENMPI;
        env->manager = NULL;
        return wi_env_openmpi(env);
    }
    if (env->manager) {
        env->launcher = WI_ENV_MANAGER;
        return wi_env_pmi(env);
    }
    if (getenv("SLURM_PROCID")) {
        env->launcher = WI_ENV_SLURM;
        return wi_env_slurm(env);
    }
    WI_TRY(env_half());
    env->nranks = 1;
    env->local_rank = 0;
    env->local_nranks = 1;
    env->one_host = 1;
    wi_env_job(env, "single");
    return WEFT_SUCCESS;
}

void wi_env_meet_locally(struct wi_env *env)
{
    struct wi_rendezvous *r = &env->rendezvous;
    char seed[96];
    if (r->local[0])
        return;
    snprintf(seed, sizeof(seed), "%s port %u", env->job, r->nports ? r->ports[0] : 0);
    wi_rendezvous_derive_local(r, seed);
    r->host[0] = '\0';
    r->nports = 0;
    r->listen_fd = -1;
}

/* What the user says about the store outranks what the launcher says; ranks on one host need no port. */
static weft_status env_store(const struct wi_bootstrap_settings *s, struct wi_env *env)
{
    struct wi_rendezvous *r = &env->rendezvous;
    if (s->store_port < 0 || s->store_port > 65535)
        return wi_fail(WEFT_ECONFIG, "WEFT_STORE_PORT=%lld is not from 1 to 65535", (long long)s->store_port);
    if (s->store_addr && *s->store_addr)
        WI_TRY(env_host(env, "WEFT_STORE_ADDR", s->store_addr));
    if (env->one_host && env->nranks > 1)
        env->hint =
            getenv("PMIX_NAMESPACE") && !env->manager
                ? "; all ranks were taken to be of one host and user, as the launcher says that all of them are "
                  "local, and to do without PMIx, as this one does (WEFT_MANAGER; or the plugin pmix is missing)"
                : "; all ranks were taken to be of one host and user, as the launcher says that all of them are "
                  "local";
    if (r->host[0] && wi_rendezvous_host_is_loopback(r->host)) {
        env->one_host = 1;
        env->hint =
            "; all ranks were taken to be of one host and user, as rank 0's address is a loopback address: if they "
            "are on several, name rank 0's host";
    }
    if (s->store_port) {
        r->nports = 0;
        r->ports[r->nports++] = (uint16_t)s->store_port;
        r->port_named = "WEFT_STORE_PORT";
        if (!r->host[0] && env->one_host)
            snprintf(r->host, sizeof(r->host), "127.0.0.1");
    } else if (env->one_host && (!s->store_addr || wi_rendezvous_host_is_loopback(r->host))) {
        wi_env_meet_locally(env);
    } else {
        wi_rendezvous_derive_ports(r, env->job, r->nports + CANDIDATE_PORTS);
    }
    if (env->nranks > 1 && env->launcher != WI_ENV_MANAGER && !r->host[0] && !r->local[0])
        return wi_fail(WEFT_ECONFIG, "the launcher does not say where rank 0 runs: set WEFT_STORE_ADDR to its host");
    return WEFT_SUCCESS;
}

weft_status wi_env_read(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_env *env)
{
    memset(env, 0, sizeof(*env));
    env->local_rank = env->local_nranks = env->pmi_fd = -1;
    env->hint = "";
    wi_rendezvous_init(&env->rendezvous);
    env->rendezvous.interfaces = s->interfaces && *s->interfaces ? s->interfaces : NULL;
    WI_TRY(env_launcher(s, deadline_ns, env));
    if (s->job && *s->job)
        wi_env_job(env, "%s", s->job);
    return env_store(s, env);
}

/* Where a launcher carries the environment to the other hosts a fresh key for each job is the shortest; else a file. */
weft_status wi_env_refuse(const struct wi_env *env)
{
    static const char file_first[] = "weft-run --make-key weft.key, then copy it to every host and ";
    const char *first = file_first, *line = "start every rank with WEFT_JOB_KEY_FILE=weft.key";
    if (env->launcher == WI_ENV_TORCH && wi_env_get("TORCHELASTIC_RUN_ID"))
        line = "on each type: WEFT_JOB_KEY_FILE=weft.key torchrun ...";
    if (env->launcher == WI_ENV_OPENMPI) {
        first = "";
        line = "WEFT_JOB_KEY=$(weft-run --make-key -) mpirun -x WEFT_JOB_KEY ...";
    }
    if (env->launcher == WI_ENV_SLURM) {
        first = "";
        line = "WEFT_JOB_KEY=$(weft-run --make-key -) srun ...";
    }
    return wi_fail(
        WEFT_ECONFIG,
        "the %d ranks of job %s may be on several hosts and have no key: anyone who reaches this network could "
        "join them. Type: %s%s. Or, where nobody else can, WEFT_INSECURE=1",
        env->nranks, env->job, first, line);
}
