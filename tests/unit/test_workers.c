/* The pool of threads that do long work: chunks of one work that end in any order.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/engine.h"
#include "exec/exec.h"
#include "tests/harness/harness.h"

#include "unit.h"

enum { CHUNK = 4096, CHUNKS = 4, ELEMS = CHUNK / 4 };

/* The operator of the tests: what is done of each chunk, and which chunk is held in the middle. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int held; /* chunk; -1: none */
    int begun[CHUNKS], done[CHUNKS], ndone;
    int told;
    float a[CHUNKS * ELEMS], b[CHUNKS * ELEMS];
} t = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void wait_until(const int *word, int least)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20 * (time_t)wt_slow_ms(1000) / 1000;
    while (*word < least)
        if (pthread_cond_timedwait(&t.moved, &t.lock, &until))
            break;
    CU_ASSERT_FATAL(*word >= least);
}

static void look(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    int chunk = (int)((float *)out - t.b) / ELEMS;

    (void)left;
    (void)right;
    (void)dtype;
    (void)arg;
    CU_ASSERT_EQUAL(count, ELEMS);
    pthread_mutex_lock(&t.lock);
    t.begun[chunk]++;
    pthread_cond_broadcast(&t.moved);
    while (t.held == chunk)
        pthread_cond_wait(&t.moved, &t.lock);
    t.done[chunk]++;
    t.ndone++;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

static void tell(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&t.lock);
    t.told++;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&t.lock);
    t.held = -1;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

struct job {
    struct wi_exec exec;
    struct wi_op op;
    struct wi_work work;
    struct wi_workers *pool;
};

/* Four chunks for `threads`, of which one is held. */
static struct job *give(int threads, int held)
{
    struct job *j = calloc(1, sizeof *j);

    CU_ASSERT_FATAL(j != NULL);
    t.held = held;
    t.ndone = t.told = 0;
    memset(t.begun, 0, sizeof t.begun);
    memset(t.done, 0, sizeof t.done);
    j->exec.tell = tell;
    j->exec.nudge_fd = -1;
    j->op.bind.redop =
        (struct wi_redop){.dtype = WEFT_FLOAT32, .user = 1, .commutative = 1, .elem_bytes = 4, .fn = look};
    j->work = (struct wi_work){
        .kind = WI_WORK_REDUCE, .op = &j->op, .ndst = 1, .nsrc = 2, .bytes = CHUNKS * CHUNK, .exec = &j->exec};
    j->work.dst[0] = t.b;
    j->work.src[0] = t.a;
    j->work.src[1] = t.b;
    j->pool = wi_workers_create(threads, CHUNK);
    CU_ASSERT_FATAL(j->pool != NULL && wi_workers_least(j->pool) == CHUNK);
    CU_ASSERT_EQUAL(wi_workers_give(j->pool, &j->work), 1);
    return j;
}

static void end(struct job *j)
{
    wi_workers_settle(j->pool);
    wi_workers_destroy(j->pool);
    free(j);
}

static void await(const int *word, int least)
{
    pthread_mutex_lock(&t.lock);
    wait_until(word, least);
    pthread_mutex_unlock(&t.lock);
}

/* The first chunk is held while the last one ends: it is not over before the first has ended too, and then is told once. */
static void ends_with_its_last_chunk(void)
{
    struct job *j = give(2, 0);

    await(&t.ndone, CHUNKS - 1);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.done[0], 0);
    CU_ASSERT_EQUAL(atomic_load(&j->work.over), 0);
    CU_ASSERT_EQUAL(atomic_load(&j->exec.worked), 0);
    let_go();
    await(&t.told, 1);
    CU_ASSERT_EQUAL(atomic_load(&j->work.over), 1);
    CU_ASSERT_EQUAL(atomic_load(&j->exec.worked), 1);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.told, 1);
    for (int i = 0; i < CHUNKS; i++)
        CU_ASSERT(t.begun[i] == 1 && t.done[i] == 1);
    end(j);
}

static void *let_go_later(void *arg)
{
    uint64_t until = wt_now_ms() + 100;

    (void)arg;
    while (wt_now_ms() < until)
        sched_yield();
    let_go();
    return NULL;
}

/* Work that is not wanted any more: what has not begun never does; who drains waits for what has, as long as it may. */
static void drains_what_has_begun(void)
{
    struct job *j = give(1, 1);
    pthread_t thread;

    await(&t.begun[1], 1);
    CU_ASSERT_EQUAL(wi_workers_drain(j->pool, &j->work, wi_deadline_ns(1000000)), 0);
    CU_ASSERT_EQUAL(t.done[1], 0);
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, let_go_later, NULL) == 0);
    CU_ASSERT_EQUAL(wi_workers_drain(j->pool, &j->work, wi_deadline_ns(20000000000ull)), 1);
    CU_ASSERT_EQUAL(t.done[1], 1);
    pthread_join(thread, NULL);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.begun[2] + t.begun[3], 0);
    end(j);
}

/* A chunk cannot be stored to a rank that has given up: the rest is left, the work is over and says why, and is told once. The
 * pool goes on with other work. */
static void ends_with_what_failed(void)
{
    static struct weft_board boards[2];
    static struct weft_mapped_rank ranks[2] = {{.board = &boards[0]}, {.board = &boards[1]}};
    static const struct wi_operand to = {.mem = WI_MEM_PEER_DST, .rank = 1};
    struct job *j = give(1, -1);
    struct wi_work w = {.kind = WI_WORK_COPY,
                        .to_peer = 1,
                        .op = &j->op,
                        .to = &to,
                        .ndst = 1,
                        .nsrc = 1,
                        .bytes = CHUNKS * CHUNK,
                        .exec = &j->exec};

    await(&t.told, 1); /* what came with the pool */
    j->exec.map.ranks = ranks;
    pthread_mutex_init(&j->exec.stores_lock, NULL);
    w.dst[0] = t.b;
    w.src[0] = t.a;
    for (int alive = 0; alive < 2; alive++) {
        t.a[0] = t.a[CHUNKS * ELEMS - 1] = 5;
        t.b[0] = t.b[CHUNKS * ELEMS - 1] = 7;
        t.told = 0;
        w.at = 0;
        w.status = WEFT_SUCCESS;
        atomic_store(&w.over, 0);
        boards[1].state = alive ? WEFT_BOARD_ALIVE : WEFT_BOARD_ABORTED;
        CU_ASSERT_EQUAL(wi_workers_give(j->pool, &w), 1);
        await(&t.told, 1);
        wi_workers_settle(j->pool);
        CU_ASSERT(atomic_load(&w.over) == 1 && t.told == 1);
        CU_ASSERT_EQUAL(w.status, alive ? WEFT_SUCCESS : WEFT_EPEER);
        CU_ASSERT(t.b[0] == (alive ? 5 : 7) && t.b[CHUNKS * ELEMS - 1] == (alive ? 5 : 7));
        CU_ASSERT_EQUAL(boards[0].stores_to, 0); /* it stores to nobody any more */
    }
    pthread_mutex_destroy(&j->exec.stores_lock);
    end(j);
}

/* What the host's engine does at once, or chunk by chunk, counts in the budget of the thread that progresses. */
static void counts_in_the_budget(void)
{
    struct job *j = give(1, -1);
    struct wi_work w = {.kind = WI_WORK_COPY, .op = &j->op, .ndst = 1, .nsrc = 1}, *holder = NULL;
    struct wi_exec *exec = &j->exec;
    unsigned char *bytes = calloc(2, 3 * WI_ENGINE_CHUNK);
    int moved, polls = 0;

    await(&t.told, 1);
    CU_ASSERT_FATAL(bytes != NULL);
    exec->engine = wi_engine_host(NULL);
    CU_ASSERT_FATAL(exec->engine != NULL);
    exec->has_budget = 1;
    w.dst[0] = bytes;
    w.src[0] = bytes + 3 * WI_ENGINE_CHUNK;
    w.bytes = 1000;
    for (size_t n = 1; n <= WI_ENGINE_CHUNK / 1000; n++) {
        CU_ASSERT_EQUAL(wi_work_begin(exec, &j->op, &w, &holder, &moved), 1);
        CU_ASSERT(exec->budget_used == n * 1000 && !wi_exec_budget_spent(exec));
    }
    CU_ASSERT_EQUAL(wi_work_begin(exec, &j->op, &w, &holder, &moved), 1);
    CU_ASSERT(wi_exec_budget_spent(exec));
    exec->budget_used = 0;
    w.bytes = 3 * WI_ENGINE_CHUNK;
    CU_ASSERT_EQUAL(wi_work_begin(exec, &j->op, &w, &holder, &moved), 0);
    do {
        CU_ASSERT(exec->budget_used == WI_ENGINE_CHUNK && wi_exec_budget_spent(exec));
        exec->budget_used = 0;
        polls++;
    } while (wi_work_poll(exec, &j->op, &holder, &moved) == 0);
    CU_ASSERT(polls == 2 && !holder && !exec->posted);
    wi_engine_destroy(exec);
    free(bytes);
    end(j);
}

/* ---- The host's engine with workers ---- */

static void engine_with(struct job *j)
{
    await(&t.told, 1); /* what came with the pool */
    j->exec.engine = wi_engine_host(j->pool);
    CU_ASSERT_FATAL(j->exec.engine != NULL);
}

static void whose(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)left;
    (void)right;
    (void)out;
    (void)dtype;
    CU_ASSERT(pthread_equal(pthread_self(), *(pthread_t *)arg));
    t.ndone += (int)count;
}

/* A function of the program's is called by the thread that has the communicator, however long the vector is. */
static void keeps_operators(void)
{
    struct job *j = give(2, -1);
    pthread_t self = pthread_self();
    struct wi_work w = j->work, *holder = NULL;
    int moved, done;

    engine_with(j);
    wi_workers_settle(j->pool);
    t.ndone = 0;
    j->op.bind.redop.fn = whose;
    j->op.bind.redop.arg = &self;
    for (done = wi_work_begin(&j->exec, &j->op, &w, &holder, &moved); done == 0;)
        done = wi_work_poll(&j->exec, &j->op, &holder, &moved);
    CU_ASSERT_EQUAL(done, 1);
    CU_ASSERT_EQUAL(t.ndone, CHUNKS * ELEMS);
    wi_engine_destroy(&j->exec);
    end(j);
}

/* Bytes that have been copied, in pages. */
static size_t copied(const unsigned char *dst, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && !dst[at])
        at += CHUNK;
    return at;
}

/* Memory that the engine has given back is not touched any more: a long copy is given up at once, and then the pool works off what
 * came after it. */
static void gives_memory_back(void)
{
    enum { BYTES = 32 << 20, TRIES = 10 };
    unsigned char *dst = malloc(BYTES), *src = calloc(1, BYTES);
    int cut = 0;

    CU_ASSERT_FATAL(dst && src);
    for (int i = 0; i < TRIES && !cut; i++) {
        struct job *j = give(1, -1);
        struct wi_work w = {.kind = WI_WORK_COPY, .op = &j->op, .ndst = 1, .nsrc = 1, .bytes = BYTES}, *holder = NULL;
        uint64_t until = wt_now_ms() + wt_slow_ms(20000);
        int moved;
        size_t before;
        memset(dst, 0x5a, BYTES);
        w.dst[0] = dst;
        w.src[0] = src;
        engine_with(j);
        CU_ASSERT_EQUAL(wi_work_begin(&j->exec, &j->op, &w, &holder, &moved), 0);
        CU_ASSERT_EQUAL(wi_engine_drain(&j->exec, NULL, NULL, wi_deadline_ns(20000000000ull)), 1);
        before = copied(dst, BYTES);
        cut = before < BYTES;
        j->work.at = 0;
        atomic_store(&j->work.over, 0);
        CU_ASSERT_EQUAL(wi_workers_give(j->pool, &j->work), 1);
        while (!atomic_load(&j->work.over) && wt_now_ms() < until)
            sched_yield();
        CU_ASSERT_EQUAL(atomic_load(&j->work.over), 1);
        CU_ASSERT_EQUAL(copied(dst, BYTES), before);
        CU_ASSERT(holder == NULL && j->exec.posted == NULL);
        wi_workers_settle(j->pool);
        wi_engine_destroy(&j->exec);
        end(j);
    }
    CU_ASSERT(cut);
    free(dst);
    free(src);
}

static const struct wt_case cases[] = {
    {"work is over when its last chunk is", ends_with_its_last_chunk},
    {"work that is given up is waited for, as far as it has begun", drains_what_has_begun},
    {"work of which a chunk fails is over", ends_with_what_failed},
    {"work counts in the budget", counts_in_the_budget},
    {"workers do not call the program's operators", keeps_operators},
    {"memory of work that is given up is not touched", gives_memory_back},
};
WT_UNIT_MAIN("workers", cases)
