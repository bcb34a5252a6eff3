/* Every allocation of creating contexts and communicators, and of a few operations, fails once. The ranks are threads of one
 * process, and a rank that fails tells the others at once, so that all allocations are tried in seconds: those that test_alloc's
 * sample leaves out. Each failure is WEFT_ENOMEM, and nothing is left of what was made before.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <sys/mman.h>

#include "../unit/unit.h"
#include "tests/fault/exhaust.h"

enum { RANKS = 2, VICTIM = 1, NEVER = 5000, RECORD = 4096 };

/* What the child of a case leaves to it. */
struct tried {
    const char *transports, *other; /* settings; other: NULL: none */
    int nranks;
    long nth; /* tried last */
};

/* ---- An exchange that ends when a rank will not come any more ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int nranks, arrived, gone;
    unsigned round;
    unsigned char given[2][RANKS][RECORD]; /* of this round and the one before, which a slow rank may still copy */
} meeting = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void leave_meeting(void)
{
    pthread_mutex_lock(&meeting.lock);
    meeting.gone = 1;
    pthread_cond_broadcast(&meeting.moved);
    pthread_mutex_unlock(&meeting.lock);
}

static int meet(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    int rank = *(const int *)arg, came;
    unsigned round;

    (void)timeout_ns; /* the case has a deadline */
    if (bytes > RECORD)
        return -1;
    pthread_mutex_lock(&meeting.lock);
    round = meeting.round;
    memcpy(meeting.given[round % 2][rank], mine, bytes);
    if (++meeting.arrived == meeting.nranks) {
        meeting.arrived = 0;
        meeting.round++;
        pthread_cond_broadcast(&meeting.moved);
    }
    while (meeting.round == round && !meeting.gone)
        pthread_cond_wait(&meeting.moved, &meeting.lock);
    came = meeting.round != round;
    for (int r = 0; came && r < meeting.nranks; r++)
        memcpy((char *)all + (size_t)r * bytes, meeting.given[round % 2][r], bytes);
    pthread_mutex_unlock(&meeting.lock);
    return came ? 0 : -1;
}

/* ---- One rank, as far as it comes ---- */

struct rank {
    const struct tried *t;
    int rank;
    long seen; /* allocations of the victim */
    weft_status st;
    const char *at; /* what ended so */
};

static weft_status add_up(weft_comm *comm, int nranks, int rank)
{
    int64_t one = rank + 1, sum = 0;
    weft_status st = weft_all_reduce(comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);

    WT_CHECK(st < 0 || sum == nranks * (nranks + 1) / 2);
    return st;
}

/* ---- Operations ---- */

enum { FEW = 5, MANY = 300 };
static const size_t counts[RANKS] = {FEW, MANY}, same[RANKS] = {7, 7};

static weft_status gather(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    weft_status st = weft_all_gather_v(comm, src, dst, counts, NULL, WEFT_INT64, NULL);

    (void)r;
    WT_CHECK(st < 0 || dst[FEW - 1] == FEW - 1);
    return st;
}

static weft_status reduce(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    weft_status st = weft_reduce_scatter_v(comm, src, dst, counts, WEFT_INT64, WEFT_MAX, NULL);

    WT_CHECK(st < 0 || dst[1] == r->rank * FEW + 1 + r->t->nranks - 1);
    return st;
}

static weft_status transpose(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    weft_status st = weft_all_to_all_v(comm, src, same, NULL, dst, same, NULL, WEFT_INT64, NULL);

    WT_CHECK(st < 0 || dst[0] == 7 * r->rank);
    return st;
}

static weft_status pass_on(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    int n = r->t->nranks, next = (r->rank + 1) % n, before = (r->rank + n - 1) % n;
    weft_status st = weft_send_recv(comm, src, MANY, next, 3, dst, MANY, before, 3, WEFT_INT64, NULL);

    WT_CHECK(st < 0 || dst[0] == before);
    return st;
}

static weft_status two_requests(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    weft_request *req[2] = {NULL, NULL};
    weft_status st = weft_all_gather(comm, src, dst, MANY, WEFT_INT64, &req[0]), end;

    if (st >= 0)
        st = weft_barrier(comm, &req[1]);
    for (int i = 0; i < 2; i++) {
        end = req[i] ? weft_wait(req[i]) : WEFT_SUCCESS;
        st = st < 0 ? st : end;
        WT_CHECK_OK(req[i] ? weft_request_free(req[i]) : WEFT_SUCCESS);
    }
    WT_CHECK(st < 0 || dst[(r->t->nranks - 1) * MANY] == r->t->nranks - 1);
    return st;
}

static weft_status split(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst)
{
    weft_comm *half = NULL;
    weft_status st = weft_comm_split(comm, r->rank % 2, 0, NULL, &half);

    (void)src, (void)dst;
    WT_CHECK_OK(weft_comm_destroy(half));
    return st;
}

static weft_status operate(struct rank *r, weft_comm *comm)
{
    static const struct {
        const char *name;
        weft_status (*call)(struct rank *r, weft_comm *comm, const int64_t *src, int64_t *dst);
    } ops[] = {{"all_gather_v", gather}, {"reduce_scatter_v", reduce},   {"all_to_all_v", transpose},
               {"send_recv", pass_on},   {"two requests", two_requests}, {"split", split}};
    int64_t src[RANKS * MANY], dst[RANKS * MANY];
    weft_status st = WEFT_SUCCESS;

    for (size_t i = 0; i < RANKS * MANY; i++)
        src[i] = (int64_t)i + r->rank;
    for (size_t k = 0; k < sizeof ops / sizeof *ops && st >= 0; k++) {
        memset(dst, -1, sizeof dst);
        r->at = ops[k].name;
        st = ops[k].call(r, comm, src, dst);
    }
    return st;
}

/* ---- All of it ---- */

static weft_status create(struct rank *r, weft_context **context, weft_comm **comm, weft_comm **dup)
{
    char joined[40], done[40];
    const char *settings[] = {r->t->transports, joined, done, r->t->other, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, r->rank, r->t->nranks, meet, &r->rank};
    weft_status st;

    snprintf(joined, sizeof joined, "COMM_INIT_TIMEOUT=%ums", wt_slow_ms(10000)); /* none waits that long */
    snprintf(done, sizeof done, "COMM_TIMEOUT=%ums", wt_slow_ms(10000));
    config.settings = settings;
    r->at = "context";
    st = weft_context_create(&config, context);
    if (st < 0)
        return st;
    r->at = "communicator";
    st = weft_comm_create_oob(*context, &oob, NULL, comm);
    if (st < 0)
        return st;
    r->at = "all_reduce";
    st = add_up(*comm, r->t->nranks, r->rank);
    if (st < 0)
        return st;
    r->at = "dup";
    st = weft_comm_dup(*comm, NULL, dup);
    if (st < 0)
        return st;
    r->at = "all_reduce of the duplicate";
    st = add_up(*dup, r->t->nranks, r->rank);
    return st < 0 ? st : operate(r, *comm);
}

static void *live(void *arg)
{
    struct rank *r = arg;
    weft_context *context = NULL;
    weft_comm *comm = NULL, *dup = NULL;
    int victim = r->rank == VICTIM % r->t->nranks;

    if (victim)
        ft_exhaust_here(r->t->nth);
    r->st = create(r, &context, &comm, &dup);
    if (victim)
        r->seen = ft_relieve();
    if (r->st < 0 && !*weft_thread_error())
        wt_fail(__FILE__, __LINE__, "allocation %ld, rank %d, %s: %s without a word", r->t->nth, r->rank, r->at,
                weft_status_name(r->st));
    if (r->st < 0)
        leave_meeting();
    WT_CHECK_OK(weft_comm_destroy(dup));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    return NULL;
}

/* All ranks, once. Returns whether the victim's nth allocation was made. */
static int once(const struct tried *t)
{
    struct rank ranks[RANKS];
    const struct rank *victim = &ranks[VICTIM % t->nranks];
    pthread_t threads[RANKS];
    long left;

    meeting.nranks = t->nranks;
    meeting.arrived = meeting.gone = 0;
    ft_track();
    for (int r = 0; r < t->nranks; r++) {
        ranks[r] = (struct rank){.t = t, .rank = r};
        WT_REQUIRE(__real_pthread_create(&threads[r], NULL, live, &ranks[r]) == 0);
    }
    for (int r = 0; r < t->nranks; r++)
        pthread_join(threads[r], NULL);
    left = ft_untrack();
    if (victim->st < 0 ? victim->st != WEFT_ENOMEM : victim->seen < t->nth && ranks[0].st < 0)
        wt_fail(__FILE__, __LINE__, "allocation %ld, %s: %s", t->nth, victim->at, weft_status_name(victim->st));
    if (left && t->nth < NEVER) /* but for what is made once in a process, which is there after the first round */
        wt_fail(__FILE__, __LINE__, "allocation %ld, %s: %ld blocks are left", t->nth, victim->at, left);
    return victim->seen >= t->nth;
}

static void each(int rank, int nranks, void *arg)
{
    struct tried *t = arg;

    (void)rank, (void)nranks;
    t->nth = NEVER;
    once(t);
    for (t->nth = 1; t->nth < NEVER && !wt_failures() && once(t);)
        t->nth++;
    if (wt_failures())
        ft_show_refusal();
    WT_CHECK(t->nth < NEVER);
}

static void try_each(const char *transports, const char *other, int nranks, long least)
{
    struct tried *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(t != MAP_FAILED);
    t->transports = transports;
    t->other = other;
    t->nranks = nranks;
    if (wt_run(1, each, t, 120000)) {
        printf("# allocation %ld of %d ranks with %s\n", t->nth, nranks, transports);
        CU_FAIL("an allocation that fails");
    }
    printf("# %d ranks with %s: %ld allocations failed one by one\n", nranks, transports, t->nth - 1);
    CU_ASSERT(t->nth > least);
    munmap(t, sizeof *t);
}

static void alone(void)
{
    try_each("TRANSPORTS=shm", NULL, 1, 100);
}

static void mapped(void)
{
    try_each("TRANSPORTS=inproc", NULL, 2, 100);
}

/* Ranks of which one alone has no model of the machine would choose differently. */
static void topology(void)
{
    try_each("TRANSPORTS=inproc", "TOPO_DISCOVER=always", 2, 300);
}

static void messages(void)
{
    try_each("TRANSPORTS=tcp", NULL, 2, 100);
}

static void channels(void)
{
    const char *dir = wt_plugin_dir("fakerdma");
    char path[600];

    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    snprintf(path, sizeof path, "PLUGIN_PATH=%s", dir);
    try_each("TRANSPORTS=fakerdma", path, 2, 100);
}

static const struct wt_case cases[] = {
    {"a rank alone", alone},
    {"two ranks of a process through memory", mapped},
    {"two ranks of a process that discover their topology", topology},
    {"two ranks of a process over tcp", messages},
    {"two ranks of a process over a card, through channels", channels},
};

int main(int argc, char **argv)
{
    return wt_unit_main("alloc_each", cases, sizeof cases / sizeof *cases, argc, argv);
}
