/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of start-up, the providers that need no store, and the environment provider. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"
#include "net/env.h"
#include "net/pmi.h"

#define ROW(name, text, type, field, min, max, help)                                    \
    {                                                                                   \
        name, text, type, offsetof(struct wi_bootstrap_settings, field), min, max, help \
    }

const struct weft_setting wi_bootstrap_setting_rows[] = {
    ROW("STORE_ADDR", NULL, WEFT_SETTING_STRING, store_addr, 0, 0,
        "Host name or address of rank 0, where the start-up store listens."),
    ROW("STORE_PORT", "0", WEFT_SETTING_INT, store_port, 0, 65535,
        "Port of the start-up store; 0: a list made from the job's name."),
    ROW("STORE_INTERFACES", NULL, WEFT_SETTING_STRING, interfaces, 0, 0,
        "Network interfaces for start-up, in order, separated by commas; the first that is up is used."),
    ROW("JOB_KEY_FILE", NULL, WEFT_SETTING_STRING, job_key_file, 0, 0,
        "File with the job key (32 bytes or 64 hexadecimal digits), mode 0600."),
    ROW("JOB_KEY_FD", "-1", WEFT_SETTING_INT, job_key_fd, -1, 1 << 20,
        "Inherited descriptor that holds the job key; -1: none."),
    ROW("JOB_KEY", NULL, WEFT_SETTING_STRING, job_key, 0, 0,
        "Job key, 64 hexadecimal digits; in the environment only, and shown as \"set\"."),
    ROW("REQUIRE_KEY", "n", WEFT_SETTING_BOOL, require_key, 0, 0,
        "Whether communicators of several ranks are refused unless a job key is configured or the launcher says that all ranks "
        "are on one host."),
    ROW("INSECURE", "n", WEFT_SETTING_BOOL, insecure, 0, 0,
        "Whether ranks on several hosts may start without a job key; anyone who reaches the network can then join them."),
    ROW("JOB", NULL, WEFT_SETTING_STRING, job, 0, 0, "Name that keeps jobs apart; default: the launcher's."),
    ROW("RANK", NULL, WEFT_SETTING_STRING, rank, 0, 0, "Rank of this process, set by weft-run."),
    ROW("NRANKS", NULL, WEFT_SETTING_STRING, nranks, 0, 0, "Number of ranks of the job, set by weft-run."),
    ROW("LOCAL_RANK", NULL, WEFT_SETTING_STRING, local_rank, 0, 0,
        "Rank of this process on its host, set by weft-run."),
    ROW("LOCAL_NRANKS", NULL, WEFT_SETTING_STRING, local_nranks, 0, 0,
        "Number of ranks on this host, set by weft-run."),
    ROW("STORE_FD", NULL, WEFT_SETTING_STRING, store_fd, 0, 0,
        "Inherited listening socket for rank 0's start-up store, set by weft-run."),
    ROW("NODE_ID", NULL, WEFT_SETTING_STRING, node_id, 0, 0,
        "Identity of this host: ranks with the same one share memory; default: from the kernel."),
    {NULL, NULL, WEFT_SETTING_STRING, 0, 0, 0, NULL},
};

/* ---- One rank ---------------------------------------------------------------------------------------- */

static weft_status single_all_gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                                     uint64_t deadline_ns)
{
    (void)b, (void)deadline_ns;
    if (mine_bytes > WI_STORE_VALUE_MAX || (mine_bytes && (!mine || !all)))
        return wi_fail(WEFT_EINVAL, "a start-up exchange carries 0 to %d bytes per rank, not %zu", WI_STORE_VALUE_MAX,
                       mine_bytes);
    if (mine_bytes)
        memmove(all, mine, mine_bytes);
    return WEFT_SUCCESS;
}

static void plain_destroy(struct wi_bootstrap *b)
{
    explicit_bzero(b, sizeof(*b));
    wi_free(b);
}

static weft_status single_create(const struct wi_boot_config *config, struct wi_bootstrap **b)
{
    struct wi_bootstrap *single = wi_calloc(1, sizeof(*single));
    if (!single)
        return wi_fail(WEFT_ENOMEM, "no memory for start-up");
    single->nranks = single->local_nranks = 1;
    single->has_secret = config->has_secret;
    memcpy(single->job_key, config->job_key, sizeof(single->job_key));
    snprintf(single->job, sizeof(single->job), "%s", config->job);
    single->all_gather = single_all_gather;
    single->destroy = plain_destroy;
    *b = single;
    return WEFT_SUCCESS;
}

/* ---- PMI: the process manager carries the address and a secret ------------------------------------------- */

/* PMI is spoken once per process, for its barrier and key space cannot be had again after an MPI library in the same
 * process has used them; rank 0's sockets stay bound for later communicators, and listen while one is made. */
static struct {
    pthread_mutex_t lock;
    weft_unique_id *id; /* NULL: not known yet (base/secret.h) */
    int listen_fds[2];
    int used; /* they have served a communicator */
} pmi_meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .listen_fds = {-1, -1}};

#define PMI_TEXT_BYTES (2 * WEFT_UNIQUE_ID_BYTES + 1)

static weft_status pmi_publish(const struct wi_bootstrap_settings *s, const struct wi_env *env, struct wi_pmi *pmi,
                               char text[PMI_TEXT_BYTES])
{
    struct wi_id id;
    weft_unique_id packed;
    WI_TRY(wi_id_listen(s, env->one_host, &id, pmi_meeting.listen_fds));
    wi_id_encode(&id, &packed);
    wi_hex_encode((const unsigned char *)packed.bytes, WEFT_UNIQUE_ID_BYTES, text);
    explicit_bzero(&packed, sizeof(packed));
    explicit_bzero(&id, sizeof(id));
    return wi_pmi_put(pmi, "weft-store", text);
}

static weft_status pmi_talk(const struct wi_bootstrap_settings *s, const struct wi_env *env, struct wi_pmi *pmi,
                            char text[PMI_TEXT_BYTES], uint64_t deadline_ns)
{
    WI_TRY(wi_pmi_init(pmi, env->pmi_fd, deadline_ns));
    if (env->rank == 0)
        WI_TRY(pmi_publish(s, env, pmi, text));
    WI_TRY(wi_pmi_barrier(pmi));
    return wi_pmi_get(pmi, "weft-store", text, PMI_TEXT_BYTES);
}

static weft_status pmi_exchange(const struct wi_bootstrap_settings *s, const struct wi_env *env, uint64_t deadline_ns)
{
    struct wi_pmi pmi;
    char text[PMI_TEXT_BYTES] = "";
    weft_unique_id *id = wi_secret_alloc(sizeof(*id));
    weft_status st = id ? pmi_talk(s, env, &pmi, text, deadline_ns) : wi_fail(WEFT_ENOMEM, "no memory for start-up");
    if (st == WEFT_SUCCESS &&
        (strlen(text) != PMI_TEXT_BYTES - 1 || wi_hex_decode(text, WEFT_UNIQUE_ID_BYTES, (unsigned char *)id->bytes)))
        st = wi_fail(WEFT_EPROTO, "PMI: rank 0 published a malformed address");
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&pmi, sizeof(pmi));
    if (st == WEFT_SUCCESS)
        pmi_meeting.id = id;
    else
        wi_secret_free(id);
    return st;
}

static int listener_dup(int fd)
{
    return fd < 0 ? -1 : wi_socket_keep(fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

static weft_status pmi_meet(const struct wi_bootstrap_settings *s, const struct wi_env *env,
                            const struct wi_job_key *key, uint64_t deadline_ns, struct wi_boot_config *config,
                            int listen_fds[2])
{
    struct wi_id id;
    pthread_mutex_lock(&pmi_meeting.lock);
    weft_status st = pmi_meeting.id ? WEFT_SUCCESS : pmi_exchange(s, env, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = wi_id_decode(pmi_meeting.id, &id);
    if (st == WEFT_SUCCESS && env->rank == 0 && pmi_meeting.used++)
        st = wi_id_listen_again(&id, pmi_meeting.listen_fds);
    for (int i = 0; i < 2 && st == WEFT_SUCCESS; i++)
        listen_fds[i] = listener_dup(pmi_meeting.listen_fds[i]);
    pthread_mutex_unlock(&pmi_meeting.lock);
    WI_TRY(st);
    wi_id_rendezvous(&id, &config->rendezvous);
    config->rendezvous.interfaces = env->rendezvous.interfaces;
    memcpy(config->job_key, id.secret, sizeof(config->job_key));
    explicit_bzero(&id, sizeof(id));
    config->has_secret = 1;
    config->own_user = env->one_host;
    return wi_job_key_mix(key, config->job_key);
}

/* ---- The environment --------------------------------------------------------------------------------------- */

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
static weft_status env_listen(struct wi_boot_config *config, int *listen_fd)
{
    struct wi_rendezvous *r = &config->rendezvous;
    struct wi_sockaddr bound;
    WI_TRY(wi_rendezvous_listen(r, listen_fd, &bound));
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
    if (env->launcher == WI_ENV_PMI)
        WI_TRY(pmi_meet(s, env, key, deadline_ns, config, listen_fds));
    else if (env->rank == 0)
        WI_TRY(env_listen(config, &listen_fds[0]));
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

/* Where the key comes from when none is configured. PMI's process manager carries one. */
static weft_status env_key(const struct wi_bootstrap_settings *s, struct wi_env *env, struct wi_job_key *key,
                           struct wi_boot_config *config, uint64_t deadline_ns)
{
    int alone = env->nranks == 1;
    WI_TRY(wi_job_key_read(s, alone || env->one_host ? WI_JOB_KEY_MAY : WI_JOB_KEY_MUST, deadline_ns, key));
    memcpy(config->job_key, key->bytes, sizeof(config->job_key));
    config->has_secret = key->configured;
    if (config->has_secret || (env->launcher == WI_ENV_PMI && !alone))
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

weft_status wi_bootstrap_env(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_bootstrap **b)
{
    struct wi_env env;
    struct wi_job_key key;
    WI_TRY(wi_env_read(s, &env));
    struct wi_boot_config config = {.rank = env.rank,
                                    .nranks = env.nranks,
                                    .local_rank = env.local_rank,
                                    .local_nranks = env.local_nranks,
                                    .local_only = env.one_host};
    snprintf(config.job, sizeof(config.job), "%s", env.job);
    weft_status st = env_key(s, &env, &key, &config, deadline_ns);
    config.rendezvous = env.rendezvous;
    wi_log(WEFT_LOG_INFO, "bootstrap.env", "job %s: rank %d of %d", env.job, env.rank, env.nranks);
    if (st < 0) {
        ; /* nothing to end */
    } else if (env.nranks == 1) {
        st = single_create(&config, b);
    } else {
        st = env_meet(s, &env, &key, &config, deadline_ns);
        if (st == WEFT_SUCCESS)
            st = wi_boot_create(&config, deadline_ns, b);
        if (st < 0)
            wi_store_server_destroy(config.server);
    }
    if (st == WEFT_ETIMEDOUT && *env.hint) {
        char text[400];
        snprintf(text, sizeof(text), "%s", wi_fail_text());
        wi_fail(st, "%s%s", text, env.hint);
    }
    explicit_bzero(&key, sizeof(key));
    explicit_bzero(&config, sizeof(config));
    return st;
}
