/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up through a process manager that was loaded: which one is taken, what it says, and what becomes of its failures. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/manager.h"
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"

/* ---- A manager whose ranks are forked children with memory in common ---- */

static struct shared {
    pthread_barrier_t barrier;
    char value[4096];
    int left; /* sessions that were ended */
} * shared;

static struct {
    int is_started;
    struct weft_manager_job job;
    weft_status join, fence;
    int garbles; /* what it gives is not what was put */
} fake;

static int started(const struct weft_host *host)
{
    (void)host;
    return fake.is_started;
}

static weft_status join(const struct weft_host *host, const void *settings, uint64_t deadline_ns,
                        struct weft_manager_job *job, void **session)
{
    (void)host, (void)settings, (void)deadline_ns;
    if (fake.join < 0)
        return fake.join;
    *job = fake.job;
    *session = &fake;
    return WEFT_SUCCESS;
}

static weft_status put(void *session, const char *key, const char *value)
{
    (void)session;
    snprintf(shared->value, sizeof shared->value, "%s=%s", key, value);
    return WEFT_SUCCESS;
}

static weft_status fence(void *session, uint64_t deadline_ns)
{
    (void)session, (void)deadline_ns;
    if (fake.fence < 0)
        return wi_fail(fake.fence, "fake: some rank has not come");
    pthread_barrier_wait(&shared->barrier);
    return WEFT_SUCCESS;
}

static weft_status get(void *session, int rank, const char *key, uint64_t deadline_ns, char *value, size_t capacity)
{
    size_t length = strlen(key);

    (void)session, (void)deadline_ns;
    if (rank != 0 || strncmp(shared->value, key, length) || shared->value[length] != '=' ||
        strlen(shared->value + length + 1) >= capacity)
        return WEFT_EPROTO;
    strcpy(value, shared->value + length + 1);
    if (fake.garbles)
        value[0] = 'x';
    return WEFT_SUCCESS;
}

static void leave(void *session)
{
    (void)session;
    __atomic_fetch_add(&shared->left, 1, __ATOMIC_SEQ_CST);
}

static const struct weft_manager_ops ops = {sizeof ops, started, join, put, fence, get, leave};
static const struct weft_plugin plugin = {
    WEFT_PLUGIN_ABI, sizeof plugin, WEFT_PLUGIN_MANAGER, "fake", "", NULL, 0, 0, 0, &ops, 0};

static void add_fake(void)
{
    int added;

    CU_ASSERT_EQUAL_FATAL(wi_manager_add(&plugin, NULL, "/nowhere/fake.so", &added), WEFT_SUCCESS);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_NOT_EQUAL_FATAL(shared, MAP_FAILED);
}

/* ---- Which one ---- */

static void refused(const struct weft_plugin *p, const char *text)
{
    int added = 7;

    CU_ASSERT_EQUAL(wi_manager_add(p, NULL, "/nowhere/x.so", &added), WEFT_EPLUGIN);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), text));
    CU_ASSERT_EQUAL(added, 0);
}

static uint64_t soon(void)
{
    return wi_deadline_ns(wt_slow_ms(20000) * 1000000ull);
}

static void choice(void)
{
    static struct weft_manager_ops less;
    struct wi_bootstrap_settings s = {.job_key_fd = -1};
    const struct weft_plugin *found;
    static const char *const names[] = {"PMI_RANK",
                                        "PMI_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMIX_NAMESPACE"};
    struct weft_plugin other = plugin;
    struct wi_env env;
    int added;

    add_fake();
    less = ops;
    less.fence = NULL;
    other.ops = &less;
    refused(&other, "lacks operations");
    other.ops = &ops;
    refused(&other, "was loaded from /nowhere/fake.so");
    other.name = "PMI";
    refused(&other, "is built in");
    CU_ASSERT_EQUAL(wi_manager_add(&plugin, NULL, "/nowhere/fake.so", &added), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(added, 0); /* it was there */

    unsetenv("PMI_FD");
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == NULL);
    fake.is_started = 1;
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == &plugin);
    s.manager = "none";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == NULL);
    s.manager = "FAKE";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == &plugin);
    s.manager = "pmi";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_MANAGER=pmi, but no such process manager has started"));
    s.manager = "pmx";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_MANAGER=pmx is no process manager"));
    fake.is_started = 0;
    s.manager = "fake";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_ECONFIG);
    /* PMI-1 comes behind what is loaded. */
    setenv("PMI_FD", "9", 1);
    setenv("PMI_RANK", "0", 1);
    s.manager = "auto";
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == &wi_manager_pmi);
    /* And behind Open MPI's mpirun, unless it is named. */
    setenv("PMI_SIZE", "2", 1);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    setenv("PMIX_NAMESPACE", "7", 1);
    CU_ASSERT(wi_env_read(&s, soon(), &env) == WEFT_SUCCESS && env.launcher == WI_ENV_OPENMPI && env.nranks == 4);
    s.manager = "pmi";
    CU_ASSERT(wi_env_read(&s, soon(), &env) < 0 && strstr(wi_fail_text(), "PMI_FD=9 is not an open descriptor"));
    s.manager = "auto";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("PMI_FD", "9", 1);
    fake.is_started = 1;
    CU_ASSERT(wi_manager_find(&s, &found) == WEFT_SUCCESS && found == &plugin);
    unsetenv("PMI_FD");
}

/* ---- Meeting: each case in children, as a process meets once ---- */

enum { RANKS = 3 };

static int in_children(int (*fn)(int rank), int nranks)
{
    pid_t children[RANKS];
    int bad = 0;

    fflush(stdout);
    memset(shared, 0, sizeof *shared);
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, (unsigned)nranks);
    for (int r = 0; r < nranks; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            alarm((unsigned)(wt_slow_ms(30000) / 1000));
            int status = fn(r);
            fflush(stdout);
            _exit(status);
        }
    }
    for (int r = 0; r < nranks; r++) {
        int status = -1;

        waitpid(children[r], &status, 0);
        if (status)
            printf("# rank %d ended with %#x\n", r, status);
        bad |= status;
    }
    return bad;
}

#define NEED(what)                                                          \
    do {                                                                    \
        if (!(what)) {                                                      \
            printf("# line %d: %s: %s\n", __LINE__, #what, wi_fail_text()); \
            return 1;                                                       \
        }                                                                   \
    } while (0)

static int meets_twice(int rank)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;
    int all[RANKS];

    fake.is_started = 1;
    fake.job = (struct weft_manager_job){rank, RANKS, rank, RANKS, "fake:7", 0};
    for (int i = 0; i < 2; i++) {
        int mine = 100 * i + rank;

        NEED(wi_bootstrap_env(&s, soon(), &b) == WEFT_SUCCESS);
        NEED(b->rank == rank && b->nranks == RANKS && b->local_rank == rank && b->has_secret &&
             !strcmp(b->job, "fake:7"));
        NEED(b->all_gather(b, &mine, sizeof mine, all, soon()) == WEFT_SUCCESS);
        for (int r = 0; r < RANKS; r++)
            NEED(all[r] == 100 * i + r);
        b->destroy(b);
    }
    /* A child has no place of its own. */
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(wi_bootstrap_env(&s, soon(), &b) == WEFT_EINVAL && strstr(wi_fail_text(), "and forked this one") ? 0 : 1);
    NEED(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

/* Where others may read what is put, ranks of one host put nothing, and meet by the job's name. */
static int meets_unread(int rank)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;
    int mine = 7 * rank, all[RANKS];

    fake.is_started = 1;
    fake.job = (struct weft_manager_job){rank, RANKS, rank, RANKS, "fake:open", 1};
    snprintf(fake.job.name, sizeof fake.job.name, "fake:open:%d", (int)getppid());
    NEED(wi_bootstrap_env(&s, soon(), &b) == WEFT_SUCCESS);
    NEED(b->rank == rank && b->nranks == RANKS && b->has_secret && !strcmp(b->job, fake.job.name));
    NEED(b->all_gather(b, &mine, sizeof mine, all, soon()) == WEFT_SUCCESS);
    for (int r = 0; r < RANKS; r++)
        NEED(all[r] == 7 * r);
    b->destroy(b);
    return 0;
}

static void unread(void)
{
    shared->value[0] = '\0';
    CU_ASSERT_EQUAL(in_children(meets_unread, RANKS), 0);
    CU_ASSERT_EQUAL(shared->value[0], '\0');
}

static void meeting(void)
{
    CU_ASSERT_EQUAL(in_children(meets_twice, RANKS), 0);
    CU_ASSERT_EQUAL(shared->left, RANKS); /* once each, at once */
}

static int alone(int rank)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;

    fake.is_started = 1;
    fake.fence = WEFT_EPROTO; /* which is not called */
    fake.job = (struct weft_manager_job){rank, 1, 0, 1, "fake:8", 0};
    NEED(wi_bootstrap_env(&s, soon(), &b) == WEFT_SUCCESS && b->nranks == 1);
    b->destroy(b);
    return 0;
}

static int fails(weft_status status, const char *text)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;

    NEED(wi_bootstrap_env(&s, soon(), &b) == status);
    NEED(strstr(wi_fail_text(), text) != NULL);
    return 0;
}

static int failing(int rank)
{
    static const struct weft_manager_job wrong[] = {{2, 2, -1, -1, "a", 0},
                                                    {-1, 2, -1, -1, "a", 0},
                                                    {0, 0, -1, -1, "a", 0},
                                                    {0, 2, 0, 3, "a", 0},
                                                    {0, 2, 2, 2, "a", 0}};

    fake.is_started = 1;
    fake.join = WEFT_ETIMEDOUT; /* without a text of its own */
    NEED(fails(WEFT_ETIMEDOUT, "fake: ") == 0);
    fake.join = WEFT_SUCCESS;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fake.job = wrong[i];
        NEED(fails(WEFT_EPROTO, "fake: the process manager says rank") == 0);
    }
    fake.job = (struct weft_manager_job){rank, 1, 0, 1, {0}, 0};
    memset(fake.job.name, 'n', sizeof fake.job.name);
    NEED(fails(WEFT_EPROTO, "fake: the process manager says rank") == 0);
    fake.job = (struct weft_manager_job){rank, 2, -1, -1, "fake:9", 0};
    fake.fence = WEFT_ETIMEDOUT;
    NEED(fails(WEFT_ETIMEDOUT, "fake: some rank has not come") == 0);
    fake.fence = WEFT_SUCCESS;
    fake.garbles = 1;
    NEED(fails(WEFT_EPROTO, "fake: rank 0 published a malformed address") == 0);
    /* Every session was ended. */
    NEED(__atomic_load_n(&shared->left, __ATOMIC_SEQ_CST) == (int)(sizeof wrong / sizeof *wrong) + 3);
    return 0;
}

static void failures(void)
{
    CU_ASSERT_EQUAL(in_children(alone, 1), 0);
    CU_ASSERT_EQUAL(in_children(failing, 1), 0);
}

static const struct wt_case cases[] = {
    {"which process manager is taken", choice},
    {"ranks meet by a manager, once for all communicators", meeting},
    {"nothing is put where others may read it", unread},
    {"a job of one rank, and what a manager says wrong or not at all", failures},
};
WT_UNIT_MAIN("manager", cases)
