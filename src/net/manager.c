/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting through a process manager. */
#include "net/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/status.h"
#include "net/bootstrap_id.h"

#define MOST_LOADED 4
#define STORE_KEY "weft-store"
#define STORE_TEXT_BYTES (2 * WEFT_UNIQUE_ID_BYTES + 1)

/* ---- Those that are loaded ---- */

static struct loaded {
    const struct weft_plugin *plugin;
    void *settings;
    char *path;
} loaded[MOST_LOADED];
static int nloaded;
static pthread_mutex_t loaded_lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status check_ops(const struct weft_plugin *plugin)
{
    const struct weft_manager_ops *ops = plugin->ops;

    if (ops->bytes < sizeof *ops || !ops->started || !ops->join || !ops->put || !ops->fence || !ops->get || !ops->leave)
        return wi_fail(WEFT_EPLUGIN, "process manager %s lacks operations", plugin->name);
    return WEFT_SUCCESS;
}

weft_status wi_manager_add(const struct weft_plugin *plugin, void *settings, const char *path, int *added)
{
    weft_status st = check_ops(plugin);
    int known = 0;

    *added = 0;
    pthread_mutex_lock(&loaded_lock);
    for (int i = 0; st >= 0 && i < nloaded; i++) {
        known |= loaded[i].plugin == plugin;
        if (loaded[i].plugin != plugin && strcasecmp(loaded[i].plugin->name, plugin->name) == 0)
            st = wi_fail(WEFT_EPLUGIN, "process manager %s was loaded from %s, and the first of a name counts",
                         plugin->name, loaded[i].path);
    }
    if (st >= 0 && !known && strcasecmp(plugin->name, wi_manager_pmi.name) == 0)
        st = wi_fail(WEFT_EPLUGIN, "process manager %s is built in, and the built-in one counts", plugin->name);
    if (st >= 0 && !known && nloaded == MOST_LOADED)
        st = wi_fail(WEFT_EPLUGIN, "more than %d process managers are loaded", MOST_LOADED);
    if (st >= 0 && !known) {
        loaded[nloaded].path = wi_strdup(path);
        if (loaded[nloaded].path) {
            loaded[nloaded].settings = settings;
            loaded[nloaded++].plugin = plugin;
            *added = 1;
        } else {
            st = wi_fail(WEFT_ENOMEM, "process manager %s", plugin->name);
        }
    }
    pthread_mutex_unlock(&loaded_lock);
    return st;
}

void wi_manager_visit(void (*fn)(void *arg, const struct weft_plugin *plugin, const char *path), void *arg)
{
    pthread_mutex_lock(&loaded_lock);
    int n = nloaded;
    pthread_mutex_unlock(&loaded_lock);
    for (int i = 0; i < n; i++) /* they are never taken away */
        fn(arg, loaded[i].plugin, loaded[i].path);
}

static const void *settings_of(const struct weft_plugin *manager)
{
    const void *found = NULL;

    pthread_mutex_lock(&loaded_lock);
    for (int i = 0; i < nloaded; i++)
        if (loaded[i].plugin == manager)
            found = loaded[i].settings;
    pthread_mutex_unlock(&loaded_lock);
    return found;
}

static int is_started(const struct weft_plugin *manager, const struct weft_host *host)
{
    return ((const struct weft_manager_ops *)manager->ops)->started(host);
}

int wi_manager_is_named(const struct wi_bootstrap_settings *s)
{
    return s->manager && *s->manager && strcasecmp(s->manager, "auto") != 0;
}

weft_status wi_manager_find(const struct wi_bootstrap_settings *s, const struct weft_plugin **manager)
{
    int any = !wi_manager_is_named(s), known = 0;

    *manager = NULL;
    if (!any && strcasecmp(s->manager, "none") == 0)
        return WEFT_SUCCESS;
    pthread_mutex_lock(&loaded_lock);
    for (int i = 0; i <= nloaded && !*manager; i++) {
        const struct weft_plugin *one = i < nloaded ? loaded[i].plugin : &wi_manager_pmi;
        int named = !any && strcasecmp(one->name, s->manager) == 0;

        known |= named;
        if ((any || named) && is_started(one, s->host))
            *manager = one;
    }
    pthread_mutex_unlock(&loaded_lock);
    if (any || *manager)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ECONFIG,
                   known
                       ? "WEFT_MANAGER=%s, but no such process manager has started this process"
                       : "WEFT_MANAGER=%s is no process manager that is built in (pmi) or was loaded (weft-info lists "
                         "plugins)",
                   s->manager);
}

/* ---- Meeting ---- */

/* The manager is met once per process: its fence and key space cannot be had again after an MPI library in the same process has
 * used them. Rank 0's sockets stay bound for later communicators, and listen while one is made. A forked child has
 * no place in the job of its own: it is refused. */
static struct {
    pthread_mutex_t lock;
    const struct weft_plugin *manager; /* NULL: not met yet */
    pid_t pid;                         /* who has met */
    struct weft_manager_job job;
    weft_unique_id *id; /* base/secret.h; NULL: a job of one rank */
    int listen_fds[2];
    int used; /* they have served a communicator */
} met = {.lock = PTHREAD_MUTEX_INITIALIZER, .listen_fds = {-1, -1}};

static weft_status publish(const struct weft_manager_ops *ops, void *session, const struct wi_bootstrap_settings *s,
                           int one_host, char text[STORE_TEXT_BYTES])
{
    struct wi_id id;
    weft_unique_id packed;

    WI_TRY(wi_id_listen(s, one_host, &id, met.listen_fds));
    wi_id_encode(&id, &packed);
    wi_hex_encode((const unsigned char *)packed.bytes, WEFT_UNIQUE_ID_BYTES, text);
    explicit_bzero(&packed, sizeof packed);
    explicit_bzero(&id, sizeof id);
    return ops->put(session, STORE_KEY, text);
}

static weft_status exchange(const struct weft_plugin *manager, void *session, const struct wi_bootstrap_settings *s,
                            const struct weft_manager_job *job, uint64_t deadline_ns, weft_unique_id *id)
{
    const struct weft_manager_ops *ops = manager->ops;
    char text[STORE_TEXT_BYTES] = "";
    weft_status st = WEFT_SUCCESS;

    if (job->rank == 0)
        st = publish(ops, session, s, job->local_nranks == job->nranks, text);
    if (st >= 0)
        st = ops->fence(session, deadline_ns);
    if (st >= 0)
        st = ops->get(session, 0, STORE_KEY, deadline_ns, text, sizeof text);
    if (st >= 0 &&
        (strlen(text) != sizeof text - 1 || wi_hex_decode(text, WEFT_UNIQUE_ID_BYTES, (unsigned char *)id->bytes)))
        st = wi_fail(WEFT_EPROTO, "%s: rank 0 published a malformed address", manager->name);
    explicit_bzero(text, sizeof text);
    return st;
}

/* What a manager says is checked like what a user says. */
static weft_status check_job(const struct weft_plugin *manager, const struct weft_manager_job *job)
{
    if (job->nranks < 1 || job->rank < 0 || job->rank >= job->nranks || job->local_nranks > job->nranks ||
        (job->local_nranks >= 0 && job->local_rank >= job->local_nranks) ||
        memchr(job->name, '\0', sizeof job->name) == NULL)
        return wi_fail(WEFT_EPROTO, "%s: the process manager says rank %d of %d, on this host %d of %d", manager->name,
                       job->rank, job->nranks, job->local_rank, job->local_nranks);
    return WEFT_SUCCESS;
}

static void stop_listening(void)
{
    for (int i = 0; i < 2; i++) {
        if (met.listen_fds[i] >= 0)
            wi_rendezvous_close(met.listen_fds[i]);
        met.listen_fds[i] = -1;
    }
}

static weft_status meet(const struct weft_plugin *manager, const struct wi_bootstrap_settings *s, uint64_t deadline_ns)
{
    const struct weft_manager_ops *ops = manager->ops;
    struct weft_manager_job job = {.local_rank = -1, .local_nranks = -1};
    weft_unique_id *id = wi_secret_alloc(sizeof *id);
    void *session = NULL;
    weft_status st = id ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "no memory for start-up");

    if (st >= 0) {
        wi_fail_clear();
        st = ops->join(s->host, settings_of(manager), deadline_ns, &job, &session);
        if (st < 0 && !*wi_fail_text())
            wi_fail(st, "%s: %s", manager->name, weft_status_text(st));
    }
    if (session) {
        if (st >= 0)
            st = check_job(manager, &job);
        if (st >= 0 && wi_manager_exchanges(&job))
            st = exchange(manager, session, s, &job, deadline_ns, id);
        ops->leave(session);
    }
    if (st < 0) {
        stop_listening();
        wi_secret_free(id);
        return st;
    }
    if (!wi_manager_exchanges(&job)) {
        wi_secret_free(id);
        id = NULL;
    }
    met.manager = manager;
    met.pid = getpid();
    met.job = job;
    met.id = id;
    wi_log(WEFT_LOG_INFO, "bootstrap.manager", "%s: rank %d of %d of job %s", manager->name, job.rank, job.nranks,
           job.name);
    return WEFT_SUCCESS;
}

int wi_manager_exchanges(const struct weft_manager_job *job)
{
    return job->nranks > 1 && !(job->keys_are_open && job->local_nranks == job->nranks);
}

static weft_status met_lock(uint64_t deadline_ns)
{
    return wi_start_lock(&met.lock, "meet by the process manager", deadline_ns);
}

weft_status wi_manager_meet(const struct weft_plugin *manager, const struct wi_bootstrap_settings *s,
                            uint64_t deadline_ns, struct weft_manager_job *job)
{
    weft_status st = WEFT_SUCCESS;

    WI_TRY(met_lock(deadline_ns));
    if (!met.manager)
        st = meet(manager, s, deadline_ns);
    else if (met.pid != getpid())
        st = wi_fail(WEFT_EINVAL, "process %d met by %s and forked this one, which has no place in the job of its own",
                     (int)met.pid, met.manager->name);
    else if (met.manager != manager)
        st = wi_fail(WEFT_ECONFIG, "this process has met by %s, and cannot by %s", met.manager->name, manager->name);
    *job = met.job;
    pthread_mutex_unlock(&met.lock);
    return st;
}

/* For a store, which closes them. */
static weft_status listeners_dup(int listen_fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (met.listen_fds[i] < 0)
            continue;
        listen_fds[i] = wi_fd_keep(fcntl(met.listen_fds[i], F_DUPFD_CLOEXEC, 3));
        if (listen_fds[i] >= 0)
            continue;
        weft_status st = wi_fail_errno(errno, "duplicate the store's listening socket");
        if (i > 0 && listen_fds[0] >= 0)
            wi_fd_close(listen_fds[0]);
        listen_fds[0] = listen_fds[1] = -1;
        return st;
    }
    return WEFT_SUCCESS;
}

weft_status wi_manager_config(const struct wi_bootstrap_settings *s, const struct wi_env *env,
                              const struct wi_job_key *key, uint64_t deadline_ns, struct wi_boot_config *config,
                              int listen_fds[2])
{
    struct weft_manager_job job;
    struct wi_id id;
    weft_status st;

    WI_TRY(wi_manager_meet(env->manager, s, deadline_ns, &job));
    if (job.rank != env->rank || job.nranks != env->nranks)
        return wi_fail(WEFT_ECONFIG, "%s: the process manager says rank %d of %d, the environment %d of %d",
                       env->manager->name, job.rank, job.nranks, env->rank, env->nranks);
    WI_TRY(met_lock(deadline_ns));
    st = wi_id_decode(met.id, &id);
    if (st == WEFT_SUCCESS && env->rank == 0 && met.used++)
        st = wi_id_listen_again(met.listen_fds, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = listeners_dup(listen_fds);
    pthread_mutex_unlock(&met.lock);
    WI_TRY(st);
    wi_id_rendezvous(&id, &config->rendezvous);
    config->rendezvous.interfaces = env->rendezvous.interfaces;
    memcpy(config->job_key, id.secret, sizeof config->job_key);
    explicit_bzero(&id, sizeof id);
    config->has_secret = 1;
    config->own_user = env->one_host;
    return wi_job_key_mix(key, config->job_key);
}
