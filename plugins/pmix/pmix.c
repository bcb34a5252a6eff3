/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up through PMIx: under Open MPI's mpirun, srun --mpi=pmix, PRRTE and others. (PMIx Standard 4.1.)
 *
 * The client is initialised for the exchange and finalised after it: a server takes the end of a process that has not been
 * finalised for a failure of the whole job, and its other ranks are ended, too. Where MPI, or another library, has initialised PMIx
 * before, it stays initialised until that one ends. Once finalised, libpmix cannot be initialised again (4.2): where MPI is in the
 * process and has not been initialised yet, the client stays until the process ends. */
#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft_plugin.h>

struct settings {
    const char *hold;
};

static const struct weft_setting rows[] = {
    {"HOLD", "auto", WEFT_SETTING_WORD, offsetof(struct settings, hold), 0, 0,
     "Whether PMIx stays initialised after start-up: y, n (ranks then go on when one ends), or auto: under Open "
     "MPI's mpirun and where MPI is loaded and not yet initialised, for it could not be any more."},
    {NULL, NULL, WEFT_SETTING_WORD, 0, 0, 0, NULL},
};

/* Calls of PMIx that wait for others (initialising, fences, keys of other ranks) do not have deadlines of their own that can be
 * relied on: they are made without blocking, or by a thread, and answer here. One that does not come in time is left behind with
 * its session, which its answer may still be written to. (PMIx_Get of what the server gave at the start is local; PMIx_Finalize
 * waits for the local server, for as long as libpmix does.) */
struct session {
    const struct weft_host *host;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int waiting;     /* an answer is outstanding */
    int held;        /* PMIx is initialised */
    int hold;        /* and is to stay so */
    int left_behind; /* an answer may come at any time from now on */
    pmix_status_t status;
    pmix_proc_t self;
    char *value; /* of a get */
    size_t capacity;
};

static int started(const struct weft_host *host)
{
    (void)host;
    return secure_getenv("PMIX_NAMESPACE") && secure_getenv("PMIX_RANK") &&
           (secure_getenv("PMIX_SERVER_URI2") || secure_getenv("PMIX_SERVER_URI21") ||
            secure_getenv("PMIX_SERVER_URI3") || secure_getenv("PMIX_SERVER_URI4") ||
            secure_getenv("PMIX_SERVER_URI41") || secure_getenv("PMIX_SERVER_URI5"));
}

/* ---- Answers ---- */

static void ask(struct session *s)
{
    pthread_mutex_lock(&s->lock);
    s->waiting = 1;
    pthread_mutex_unlock(&s->lock);
}

static void answered(pmix_status_t status, void *arg)
{
    struct session *s = arg;

    pthread_mutex_lock(&s->lock);
    s->status = status;
    s->waiting = 0;
    pthread_cond_signal(&s->came);
    pthread_mutex_unlock(&s->lock);
}

static weft_status fail(struct session *s, const char *what, pmix_status_t status)
{
    s->host->explain(s->host->impl, WEFT_EPROTO, "pmix: %s: %s", what, PMIx_Error_string(status));
    return WEFT_EPROTO;
}

/* `issued`: what the call that was to bring an answer returned. */
static weft_status wait_for(struct session *s, pmix_status_t issued, const char *what, uint64_t deadline_ns)
{
    struct timespec until = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    int late = 0;

    if (issued == PMIX_OPERATION_SUCCEEDED) { /* done, and no answer comes */
        s->waiting = 0;
        return WEFT_SUCCESS;
    }
    if (issued != PMIX_SUCCESS) {
        s->waiting = 0;
        return fail(s, what, issued);
    }
    pthread_mutex_lock(&s->lock);
    while (s->waiting && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&s->came, &s->lock, &until);
    late = s->waiting;
    s->left_behind |= late;
    pthread_mutex_unlock(&s->lock);
    if (!late)
        return s->status == PMIX_SUCCESS ? WEFT_SUCCESS : fail(s, what, s->status);
    s->host->explain(s->host->impl, WEFT_ETIMEDOUT, "pmix: %s: the server did not answer in time", what);
    return WEFT_ETIMEDOUT;
}

/* ---- Staying ---- */

static atomic_int finalize_at_exit;
static pid_t holder; /* not a child that was forked */

__attribute__((destructor)) static void leave_at_exit(void)
{
    if (holder == getpid() && atomic_exchange(&finalize_at_exit, 0))
        PMIx_Finalize(NULL, 0);
}

/* MPI is in the process, and has not initialised PMIx. */
static int mpi_may_follow(void)
{
    return (dlsym(RTLD_DEFAULT, "MPI_Init") || getenv("OMPI_COMM_WORLD_SIZE")) && !PMIx_Initialized();
}

/* ---- Joining ---- */

static void *initialise(void *arg)
{
    struct session *s = arg;
    pmix_proc_t self;
    pmix_status_t status = PMIx_Init(&self, NULL, 0);

    pthread_mutex_lock(&s->lock);
    if (!s->left_behind)
        s->self = self;
    pthread_mutex_unlock(&s->lock);
    answered(status, s);
    return NULL;
}

static weft_status start_client(struct session *s, uint64_t deadline_ns)
{
    sigset_t all, before;
    pthread_t thread;
    weft_status st;
    int err;

    /* Its threads inherit what it has blocked: handlers are for the program's. */
    ask(s);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, initialise, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        s->host->explain(s->host->impl, WEFT_ESYS, "pmix: a thread for PMIx_Init: %s", strerror(err));
        return WEFT_ESYS;
    }
    pthread_detach(thread);
    st = wait_for(s, PMIX_SUCCESS, "PMIx_Init (WEFT_MANAGER=none does without)", deadline_ns);
    s->held = st >= 0;
    return st;
}

/* A number that the server has given the job before it started it: it is known here. `otherwise`: what to take where it is not. */
static weft_status number(struct session *s, const pmix_proc_t *whose, const char *key, int otherwise, int *found)
{
    pmix_value_t *value = NULL;
    pmix_info_t known; /* a key that the server has not given is not asked for at other ranks, which would wait */
    bool yes = true;
    int64_t n = -1;

    PMIX_INFO_CONSTRUCT(&known);
    PMIX_INFO_LOAD(&known, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_Get(whose, key, &known, 1, &value);

    PMIX_INFO_DESTRUCT(&known);
    *found = otherwise;
    if (status != PMIX_SUCCESS)
        return otherwise >= -1 ? WEFT_SUCCESS : fail(s, key, status);
    switch (value->type) {
    case PMIX_UINT16:
        n = value->data.uint16;
        break;
    case PMIX_UINT32:
        n = value->data.uint32;
        break;
    case PMIX_INT:
        n = value->data.integer;
        break;
    case PMIX_INT32:
        n = value->data.int32;
        break;
    case PMIX_UINT64:
        n = value->data.uint64 <= INT32_MAX ? (int64_t)value->data.uint64 : -1;
        break;
    default:
        break;
    }
    PMIX_VALUE_RELEASE(value);
    if (n < 0 || n > INT32_MAX)
        return fail(s, key, PMIX_ERR_BAD_PARAM);
    *found = (int)n;
    return WEFT_SUCCESS;
}

#define MUST_BE_KNOWN (-2)

static weft_status describe(struct session *s, struct weft_manager_job *job)
{
    pmix_proc_t all;
    weft_status st;

    PMIX_PROC_LOAD(&all, s->self.nspace, PMIX_RANK_WILDCARD);
    job->rank = s->self.rank <= INT32_MAX ? (int)s->self.rank : -1;
    st = number(s, &all, PMIX_JOB_SIZE, MUST_BE_KNOWN, &job->nranks);
    if (st >= 0)
        st = number(s, &all, PMIX_LOCAL_SIZE, -1, &job->local_nranks);
    if (st >= 0)
        st = number(s, &s->self, PMIX_LOCAL_RANK, -1, &job->local_rank);
    /* What tells jobs apart is at the end of a long name. */
    size_t length = strlen(s->self.nspace), most = sizeof job->name - sizeof "pmix:";
    /* Servers take the user that a process says it is of where they have no better method (Open MPI's "native" over TCP). */
    job->keys_are_open = 1;
    snprintf(job->name, sizeof job->name, "pmix:%s", s->self.nspace + (length > most ? length - most : 0));
    return st;
}

static void leave(void *session)
{
    struct session *s = session;

    pthread_mutex_lock(&s->lock);
    int left_behind = s->left_behind;
    pthread_mutex_unlock(&s->lock);
    if (left_behind)
        return; /* the answer may still come; and the server, which does not answer, would not let us go either */
    if (s->held && s->hold)
        atomic_fetch_add(&finalize_at_exit, 1);
    else if (s->held)
        PMIx_Finalize(NULL, 0);
    pthread_cond_destroy(&s->came);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static weft_status join(const struct weft_host *host, const void *settings, uint64_t deadline_ns,
                        struct weft_manager_job *job, void **session)
{
    const char *hold = settings ? ((const struct settings *)settings)->hold : "auto";
    int is_auto = strcasecmp(hold, "auto") == 0;
    pthread_condattr_t monotonic;
    struct session *s;
    weft_status st;

    if (!is_auto && strcasecmp(hold, "y") && strcasecmp(hold, "n")) {
        host->explain(host->impl, WEFT_ECONFIG, "WEFT_PMIX_HOLD='%s' is not y, n or auto", hold);
        return WEFT_ECONFIG;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        return WEFT_ENOMEM;
    s->hold = is_auto ? mpi_may_follow() : strcasecmp(hold, "y") == 0;
    holder = getpid();
    s->host = host;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->came, &monotonic);
    pthread_condattr_destroy(&monotonic);
    st = start_client(s, deadline_ns);
    if (st >= 0)
        st = describe(s, job);
    if (st < 0) {
        leave(s);
        return st;
    }
    *session = s;
    return WEFT_SUCCESS;
}

/* ---- The exchange ---- */

static weft_status put(void *session, const char *key, const char *text)
{
    struct session *s = session;
    pmix_value_t value;
    pmix_status_t status;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_STRING;
    value.data.string = (char *)(uintptr_t)text; /* which it copies */
    status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return status == PMIX_SUCCESS ? WEFT_SUCCESS : fail(s, "put", status);
}

static weft_status fence(void *session, uint64_t deadline_ns)
{
    struct session *s = session;
    pmix_proc_t all;
    pmix_info_t info;
    bool yes = true;
    weft_status st;

    PMIX_PROC_LOAD(&all, s->self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    ask(s);
    st = wait_for(s, PMIx_Fence_nb(&all, 1, &info, 1, answered, s), "fence: some rank has not reached start-up",
                  deadline_ns);
    if (!s->left_behind)
        PMIX_INFO_DESTRUCT(&info);
    return st;
}

static void got(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct session *s = arg;

    pthread_mutex_lock(&s->lock);
    if (status == PMIX_SUCCESS &&
        (!value || value->type != PMIX_STRING || !value->data.string || strlen(value->data.string) >= s->capacity))
        status = PMIX_ERR_BAD_PARAM;
    if (status == PMIX_SUCCESS && !s->left_behind)
        strcpy(s->value, value->data.string);
    if (value && value->type == PMIX_STRING && value->data.string) /* libpmix frees it as it is */
        explicit_bzero(value->data.string, strlen(value->data.string));
    pthread_mutex_unlock(&s->lock);
    answered(status, s);
}

static weft_status get(void *session, int rank, const char *key, uint64_t deadline_ns, char *value, size_t capacity)
{
    struct session *s = session;
    pmix_proc_t whose;

    PMIX_PROC_LOAD(&whose, s->self.nspace, (pmix_rank_t)rank);
    s->value = value;
    s->capacity = capacity;
    ask(s);
    return wait_for(s, PMIx_Get_nb(&whose, key, NULL, 0, got, s), "get", deadline_ns);
}

static const struct weft_manager_ops ops = {sizeof ops, started, join, put, fence, get, leave};

__attribute__((visibility("default"))) const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_MANAGER,
    .name = "pmix",
    .summary = "start-up through PMIx (Open MPI's mpirun, srun --mpi=pmix)",
    .settings = rows,
    .settings_bytes = sizeof(struct settings),
    .ops = &ops,
};
