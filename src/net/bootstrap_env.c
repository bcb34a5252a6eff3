/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a launcher as a bootstrap: which key, where to meet, and rank 0's store. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/trusted_path.h"
#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"
#include "net/env.h"
#include "net/manager.h"

static weft_status env_server(const struct wi_boot_config *config, int listen_fds[2], struct wi_store_server **server)
{
    struct wi_store_server_config store = {.listen_fds = {listen_fds[0], listen_fds[1]},
                                           .nranks = config->nranks,
                                           .job_key = config->ask_key ? config->job_key : NULL,
                                           .own_user = config->own_user,
                                           .give_up_ns = UINT64_MAX};
    weft_status st =
        wi_auth_derive(config->job_key, sizeof(config->job_key), config->job, WI_STORE_PURPOSE, &store.key);
    if (st == WEFT_SUCCESS) {
        st = wi_store_server_create(&store, server);
        explicit_bzero(&store.key, sizeof(store.key));
        return st;
    }
    for (int i = 0; i < 2; i++)
        if (listen_fds[i] >= 0)
            wi_rendezvous_close(listen_fds[i]);
    return st;
}

/* Rank 0 looks for its own store only where it is. */
static weft_status env_listen(struct wi_boot_config *config, uint64_t deadline_ns, int *listen_fd)
{
    struct wi_rendezvous *r = &config->rendezvous;
    struct wi_sockaddr bound;
    WI_TRY(wi_rendezvous_listen(r, deadline_ns, listen_fd, &bound));
    if (!bound.bytes)
        return WEFT_SUCCESS;
    r->local[0] = r->host[0] = '\0';
    r->nfixed = 1;
    r->fixed[0] = bound;
    return WEFT_SUCCESS;
}

static weft_status env_meet(const struct wi_bootstrap_settings *s, const struct wi_env *env,
                            const struct wi_job_key *key, struct wi_boot_config *config, uint64_t deadline_ns)
{
    int listen_fds[2] = {-1, -1};
    if (env->launcher == WI_ENV_MANAGER)
        WI_TRY(wi_manager_config(s, env, key, deadline_ns, config, listen_fds));
    else if (env->rank == 0)
        WI_TRY(env_listen(config, deadline_ns, &listen_fds[0]));
    return env->rank == 0 ? env_server(config, listen_fds, &config->server) : WEFT_SUCCESS;
}

/* Once per job, however many communicators it makes. */
static void insecure_warn(const struct wi_env *env)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (env->rank == 0 && !atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
        wi_log(
            WEFT_LOG_WARN, "bootstrap.insecure",
            "job %s: WEFT_INSECURE is set and there is no job key: anyone who reaches this network can join the ranks, read "
            "what they send and change it",
            env->job);
}

/* Where the key comes from when none is configured. A process manager carries one. */
static weft_status env_key(const struct wi_bootstrap_settings *s, struct wi_env *env, struct wi_job_key *key,
                           struct wi_boot_config *config, uint64_t deadline_ns)
{
    int alone = env->nranks == 1;
    WI_TRY(wi_job_key_read(s, alone || env->one_host ? WI_JOB_KEY_MAY : WI_JOB_KEY_MUST, deadline_ns, key));
    memcpy(config->job_key, key->bytes, sizeof(config->job_key));
    config->has_secret = key->configured;
    if (config->has_secret || (env->launcher == WI_ENV_MANAGER && !alone))
        return WEFT_SUCCESS;
    if (alone || env->one_host) {
        config->has_secret = 1;
        config->ask_key = !alone;
        if (!alone)
            wi_env_meet_locally(env);
        return wi_random(config->job_key, sizeof(config->job_key)) ? wi_fail(WEFT_ESYS, "no random bytes")
                                                                   : WEFT_SUCCESS;
    }
    if (!s->insecure)
        return wi_env_refuse(env);
    insecure_warn(env);
    return wi_job_key_derive(config->job, config->job_key);
}

/* At a local socket the kernel tells whose process the other end is, and the ranks are of one user. Not where users cannot be told
 * apart: a container's user that has no number outside looks like every other of its kind. */
static int env_is_own_user(const struct wi_env *env)
{
    return env->rendezvous.local[0] && (geteuid() != WI_OVERFLOW_UID || wi_users_are_mapped());
}

weft_status wi_bootstrap_env(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_bootstrap **b)
{
    struct wi_env env;
    struct wi_job_key key;
    WI_TRY(wi_env_read(s, deadline_ns, &env));
    struct wi_boot_config config = {.rank = env.rank,
                                    .nranks = env.nranks,
                                    .local_rank = env.local_rank,
                                    .local_nranks = env.local_nranks,
                                    .local_only = env.one_host};
    snprintf(config.job, sizeof(config.job), "%s", env.job);
    weft_status st = env_key(s, &env, &key, &config, deadline_ns);
    config.rendezvous = env.rendezvous;
    config.own_user = env_is_own_user(&env);
    wi_log(WEFT_LOG_INFO, "bootstrap.env", "job %s: rank %d of %d", env.job, env.rank, env.nranks);
    if (st < 0) {
        ; /* nothing to end */
    } else if (env.nranks == 1) {
        st = wi_boot_single(&config, b);
    } else {
        st = env_meet(s, &env, &key, &config, deadline_ns);
        if (st == WEFT_SUCCESS)
            st = wi_boot_create(&config, deadline_ns, b);
        if (st < 0)
            wi_store_server_destroy(config.server);
    }
    if ((st == WEFT_ETIMEDOUT || st == WEFT_ENOTFOUND) && *env.hint) {
        char text[400];
        snprintf(text, sizeof(text), "%s", wi_fail_text());
        wi_fail(st, "%s%s", text, env.hint);
    }
    explicit_bzero(&key, sizeof(key));
    explicit_bzero(&config, sizeof(config));
    return st;
}
