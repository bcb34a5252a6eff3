/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines save and load: other numbers of ranks and other stages have the same bits, training goes on as if it had not stopped, and
 * what cannot be loaded changes nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/zero/model.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "tests/harness/says.h"

enum { TOTAL = 3 * ZT_PARAMS * ZT_MOST };

/* What one job has for the next. */
static struct shared {
    char folder[256];
    float values[TOTAL];
    size_t n;
    double scale;
} * shared;

struct job {
    int stage, steps, loads, saves; /* steps after the load; tag of the version, 0: none */
    weft_dtype dtype;
    unsigned flags;
    int shard_ranks;
    int offload; /* 1: states in a file; 2: parameters, too */
};

static const weft_zero_hyper groups[2] = {
    {sizeof(weft_zero_hyper), 1e-2, .9, .99, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01},
    {sizeof(weft_zero_hyper), 3e-3, .8, .95, 1e-6, 0, 0, 0, 0, 0, 0, 10, .01},
};

static weft_zero_config config_of(const struct job *job)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;

    config.stage = job->stage;
    config.threads = 1;
    config.clip = .7;
    config.loss_scale = 0;
    config.loss_scale_initial = 16;
    config.loss_scale_window = 2;
    config.shard_ranks = job->shard_ranks;
    config.offload_folder = job->offload ? wt_temp_dir() : NULL;
    config.offload_params = job->offload == 2;
    return config;
}

static size_t everything(struct zt_engine *e, float *out)
{
    size_t n = zt_weights(e, WEFT_ZERO_WEIGHT, out);

    n += zt_weights(e, WEFT_ZERO_MOMENT1, out + n);
    return n + zt_weights(e, WEFT_ZERO_MOMENT2, out + n);
}

/* Steps are numbered from the first of all jobs on, so that gradients are other ones in each. */
static void train(struct zt_engine *e, int from, int steps)
{
    for (int s = from; s < from + steps; s++) {
        zt_micro_batch(e, s, 0, 0);
        WT_REQUIRE_OK(weft_zero_step(e->zero, groups, 2, NULL));
    }
}

static void save(struct zt_engine *e, int tag, int rank)
{
    weft_zero_save_options options = WEFT_ZERO_SAVE_OPTIONS_INIT;
    weft_zero_save_info info = WEFT_ZERO_SAVE_INFO_INIT;
    char name[16], client[32];

    snprintf(name, sizeof name, "v%d", tag);
    snprintf(client, sizeof client, "client of %d", tag);
    options.client = client;
    options.client_bytes = strlen(client) + 1;
    WT_REQUIRE_OK(weft_zero_save(e->zero, shared->folder, name, &options));
    WT_REQUIRE_OK(weft_zero_save_wait(e->zero, WEFT_TIMEOUT_NEVER, &info));
    WT_CHECK(info.state_bytes >= info.written_bytes && info.total_ns >= info.snapshot_ns);
    if (rank == 0)
        WT_CHECK(info.state_bytes > 0);
}

static void run(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    weft_zero_config config = config_of(job);
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    static float values[TOTAL];
    struct zt_engine e;
    struct ft_rank f;
    char name[16], client[32];
    double scale;
    void *data;
    size_t n;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, job->dtype);
    if (job->loads) {
        snprintf(name, sizeof name, "v%d", job->loads);
        snprintf(client, sizeof client, "client of %d", job->loads);
        WT_REQUIRE_OK(weft_zero_load(e.zero, shared->folder, job->loads > 1 ? NULL : name, job->flags, &info));
        WT_CHECK_STR(info.tag, name);
        WT_CHECK_STR((const char *)info.client, client);
        WT_CHECK_INT(info.client_bytes, strlen(client) + 1);
        WT_CHECK_OK(weft_zero_loss_scale(e.zero, &scale));
        WT_CHECK(scale == shared->scale);
        n = everything(&e, values);
        WT_CHECK_INT(n, shared->n);
        WT_CHECK_MEM(values, shared->values, n * sizeof *values);
        /* What programs see is what was loaded, rounded. */
        WT_REQUIRE_OK(weft_zero_pre_forward(e.zero, e.units[0]));
        WT_REQUIRE_OK(weft_zero_param_data(e.zero, e.params[0], &data));
        for (size_t i = 0; i < zt_elems(0); i++)
            WT_CHECK(fabsf(zt_load(data, job->dtype, i) - values[i]) <=
                     (job->dtype == WEFT_FLOAT32 ? 0 : fabsf(values[i]) / 256));
        WT_REQUIRE_OK(weft_zero_post_forward(e.zero, e.units[0]));
    }
    train(&e, (int)info.step, job->steps);
    n = everything(&e, values);
    if (job->saves)
        save(&e, job->saves, rank);
    WT_CHECK_OK(weft_zero_loss_scale(e.zero, &scale));
    wt_sync();
    if (rank == 0) {
        shared->n = n;
        shared->scale = scale;
        memcpy(shared->values, values, n * sizeof *values);
    }
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static int go(int nranks, struct job job)
{
    return wt_run(nranks, run, &job, 60000);
}

static void folder(const char *name)
{
    if (!shared)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(shared->folder, sizeof shared->folder, "%s/%s", wt_temp_dir(), name);
    CU_ASSERT_EQUAL(mkdir(shared->folder, 0700), 0);
}

static void resharded(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16};

    for (int d = 0; d < 2; d++) {
        weft_dtype t = dtypes[d];

        folder(d ? "half" : "float");
        CU_ASSERT_EQUAL(go(8, (struct job){3, 3, 0, 1, t, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(3, (struct job){1, 0, 1, 2, t, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(5, (struct job){2, 1, 2, 3, t, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(1, (struct job){0, 0, 3, 4, t, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(4, (struct job){3, 1, 4, 5, t, 0, 2, 0}), 0);
        CU_ASSERT_EQUAL(go(2, (struct job){0, 1, 5, 6, t, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(3, (struct job){3, 1, 6, 7, t, 0, 0, 2}), 0);
        CU_ASSERT_EQUAL(go(4, (struct job){0, 1, 7, 8, t, 0, 0, 1}), 0);
        CU_ASSERT_EQUAL(go(2, (struct job){3, 0, 8, 9, t, 0, 0, 1}), 0);
        CU_ASSERT_EQUAL(go(5, (struct job){3, 1, 9, 10, t, 0, 0, 2}), 0);
        CU_ASSERT_EQUAL(go(8, (struct job){2, 0, 10, 0, t, 0, 0, 0}), 0);
    }
}

/* Four steps, and two with a save and a load and two more. */
static void continued(void)
{
    static float whole[TOTAL];
    size_t n;

    for (int stage = 0; stage <= 3; stage++) {
        char name[16];

        snprintf(name, sizeof name, "on%d", stage);
        folder(name);
        CU_ASSERT_EQUAL(go(3, (struct job){stage, 5, 0, 0, WEFT_FLOAT32, 0, 0, 0}), 0);
        n = shared->n;
        memcpy(whole, shared->values, sizeof whole);
        CU_ASSERT_EQUAL(go(3, (struct job){stage, 2, 0, 1, WEFT_FLOAT32, 0, 0, 0}), 0);
        CU_ASSERT_EQUAL(go(3, (struct job){stage, 3, 1, 0, WEFT_FLOAT32, 0, 0, 0}), 0);
        CU_ASSERT(n == shared->n && memcmp(whole, shared->values, n * sizeof *whole) == 0);
    }
}

static void refusals(int rank, int nranks, void *arg)
{
    struct job job = {2, 0, 0, 0, WEFT_FLOAT32, 0, 0, 0};
    weft_zero_config config = config_of(&job);
    static float before[TOTAL], after[TOTAL];
    char path[600];
    struct zt_engine e;
    struct ft_rank f;
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    size_t n;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    train(&e, 0, 2);
    SAYS(weft_zero_save(e.zero, NULL, "a", NULL), WEFT_EINVAL, "folder is NULL");
    SAYS(weft_zero_save(e.zero, shared->folder, NULL, NULL), WEFT_EINVAL, "tag is NULL");
    SAYS(weft_zero_load(e.zero, NULL, NULL, 0, NULL), WEFT_EINVAL, "folder is NULL");
    SAYS(weft_zero_load(e.zero, shared->folder, NULL, 64, NULL), WEFT_EINVAL, "flags are 0x40");
    /* One rank's arguments are wrong, and all are told. */
    SAYS(weft_zero_load(e.zero, rank ? shared->folder : NULL, NULL, 0, NULL), WEFT_EINVAL, "folder is NULL");
    WT_CHECK_STATUS(weft_zero_load(e.zero, shared->folder, NULL, 0, NULL), WEFT_ENOTFOUND);
    zt_micro_batch(&e, 0, 0, 0);
    SAYS(weft_zero_save(e.zero, shared->folder, "a", NULL), WEFT_EBUSY, "gradients have come");
    SAYS(weft_zero_load(e.zero, shared->folder, "a", 0, NULL), WEFT_EBUSY, "gradients have come");
    WT_CHECK_OK(weft_zero_drop_gradients(e.zero));
    save(&e, 1, rank);
    train(&e, 2, 1);
    save(&e, 2, rank);
    n = everything(&e, before);
    wt_sync();
    if (rank == 0) {
        snprintf(path, sizeof path, "rm %s/v2/data-*-00000.bin", shared->folder);
        WT_CHECK_INT(system(path), 0);
    }
    wt_sync();
    train(&e, 3, 1);
    WT_CHECK_INT(everything(&e, before), n);
    /* Nothing is loaded in part. */
    SAYS(weft_zero_load(e.zero, shared->folder, NULL, 0, NULL), WEFT_ENOTFOUND, "v1");
    WT_CHECK_INT(everything(&e, after), n);
    WT_CHECK_MEM(after, before, n * sizeof *after);
    WT_CHECK_OK(weft_zero_load(e.zero, shared->folder, NULL, WEFT_ZERO_LOAD_OLDER, &info));
    WT_CHECK_STR(info.tag, "v1");
    WT_CHECK_INT(info.step, 2);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

/* A byte that changed within a rank's data is found when it is read: that version is not loaded in part, the one before it is. */
static void flipped(int rank, int nranks, void *arg)
{
    struct job job = {2, 0, 0, 0, WEFT_FLOAT32, 0, 0, 0};
    weft_zero_config config = config_of(&job);
    static float before[TOTAL], after[TOTAL];
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    char command[1400];
    struct zt_engine e;
    struct ft_rank f;
    size_t n = 0;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    for (int v = 1; v <= 3; v++) {
        train(&e, v - 1, 1);
        save(&e, v, rank);
        if (v == 1)
            n = everything(&e, before);
    }
    wt_sync();
    if (rank == 0) {
        /* Files that no other version has. */
        snprintf(command, sizeof command,
                 "for f in $(find %s/v2 %s/v3 -name 'data-*-00001.bin' -links 1); do printf xyz | "
                 "dd of=$f bs=1 seek=64 conv=notrunc 2>/dev/null; done",
                 shared->folder, shared->folder);
        WT_CHECK_INT(system(command), 0);
    }
    wt_sync();
    SAYS(weft_zero_load(e.zero, shared->folder, NULL, 0, NULL), WEFT_ECONFIG, "is damaged");
    SAYS(weft_zero_load(e.zero, shared->folder, "v3", WEFT_ZERO_LOAD_OLDER, NULL), WEFT_ECONFIG, "is damaged");
    WT_CHECK_OK(weft_zero_load(e.zero, shared->folder, NULL, WEFT_ZERO_LOAD_OLDER, &info));
    WT_CHECK_STR(info.tag, "v1");
    WT_CHECK_INT(info.step, 1);
    WT_CHECK_INT(everything(&e, after), n);
    WT_CHECK_MEM(after, before, n * sizeof *after);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

/* Of another optimizer weights alone are loaded; of another model nothing. */
static void others(int rank, int nranks, void *arg)
{
    struct job job = {2, 0, 0, 0, WEFT_FLOAT32, 0, 0, 0};
    weft_zero_config config = config_of(&job);
    static float weights[TOTAL], again[TOTAL];
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    size_t elems = 36, n;
    struct zt_engine e;
    struct ft_rank f;
    weft_zero *zero;
    int index, unit;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    train(&e, 0, 2);
    n = zt_weights(&e, WEFT_ZERO_WEIGHT, weights);
    save(&e, 1, rank);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    config.optimizer = WEFT_ZERO_LION;
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    WT_CHECK_STATUS(weft_zero_load(e.zero, shared->folder, NULL, 0, NULL), WEFT_EINVAL);
    WT_CHECK_OK(weft_zero_load(e.zero, shared->folder, NULL, WEFT_ZERO_LOAD_WEIGHTS, &info));
    WT_CHECK_INT(info.step, 2); /* the version's */
    WT_CHECK_INT(zt_weights(&e, WEFT_ZERO_WEIGHT, again), n);
    WT_CHECK_MEM(again, weights, n * sizeof *again);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.name = "embed.weight";
    param.ndims = 1;
    param.shape = &elems;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &index));
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", &index, 1, &unit));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    SAYS(weft_zero_load(zero, shared->folder, NULL, WEFT_ZERO_LOAD_WEIGHTS, NULL), WEFT_EINVAL, "embed.weight");
    WT_CHECK_OK(weft_zero_destroy(zero));
    ft_close(&f);
}

static void refused(void)
{
    folder("refused");
    CU_ASSERT_EQUAL(wt_run(3, refusals, NULL, 60000), 0);
    folder("flipped");
    CU_ASSERT_EQUAL(wt_run(2, flipped, NULL, 60000), 0);
    folder("others");
    CU_ASSERT_EQUAL(wt_run(2, others, NULL, 60000), 0);
}

/* ---- Steps beside a save ---- */

enum { BIG_UNITS = 10, BIG = 1 << 19 };

static void get_big(weft_zero *zero, const int *params, weft_zero_what what, float *out)
{
    for (int u = 0; u < BIG_UNITS; u++)
        WT_REQUIRE_OK(weft_zero_param_get(zero, params[u], what, out + (size_t)u * BIG, WEFT_FLOAT32));
}

struct watch {
    weft_zero *zero;
    atomic_int running, stop;
    atomic_uint seen; /* phases, as bits */
    int wrong;
};

static void look(struct watch *watch)
{
    weft_zero_save_status status = WEFT_ZERO_SAVE_STATUS_INIT;

    watch->wrong += weft_zero_save_progress(watch->zero, &status) != WEFT_SUCCESS;
    watch->wrong += status.done_bytes > status.total_bytes || (unsigned)status.phase > WEFT_ZERO_SAVE_READING;
    watch->seen |= status.total_bytes ? 1u << status.phase : 0;
}

static void *watcher(void *arg)
{
    struct watch *watch = arg;

    atomic_store(&watch->running, 1);
    while (!atomic_load(&watch->stop))
        look(watch);
    return NULL;
}

/* A load, and what another thread sees of it; once more where that thread had no core meanwhile, on any rank. */
static void watched_load(weft_zero *zero, weft_comm *comm, const char *tag)
{
    int tries = 0, seen = 0;
    struct watch watch = {.zero = zero};
    pthread_t thread;

    WT_REQUIRE(pthread_create(&thread, NULL, watcher, &watch) == 0);
    while (!atomic_load(&watch.running))
        ;
    for (; !seen && tries < 50; tries++) {
        WT_REQUIRE_OK(weft_zero_load(zero, shared->folder, tag, 0, NULL));
        seen = atomic_load(&watch.seen) != 0;
        WT_REQUIRE_OK(weft_all_reduce(comm, &seen, &seen, 1, WEFT_INT32, WEFT_MIN, NULL));
    }
    atomic_store(&watch.stop, 1);
    pthread_join(thread, NULL);
    WT_CHECK_INT(watch.wrong, 0);
    WT_CHECK_INT(watch.seen & ~(1u << WEFT_ZERO_SAVE_VERIFYING | 1u << WEFT_ZERO_SAVE_READING), 0);
    WT_CHECK(seen);
    watch.seen = 0;
    look(&watch);
    WT_CHECK_INT(watch.seen, 0);
}

/* The copy's thread runs when the calling one leaves it the core: without a wait a step would be through before it. */
static weft_status save_behind(weft_zero *zero, const char *tag, cpu_set_t *cpus)
{
    struct sched_param none = {0};
    cpu_set_t one;
    int cpu = 0;

    WT_REQUIRE(sched_getaffinity(0, sizeof *cpus, cpus) == 0);
    while (!CPU_ISSET(cpu, cpus))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    WT_REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0 && sched_setscheduler(0, SCHED_IDLE, &none) == 0);
    weft_status st = weft_zero_save(zero, shared->folder, tag, NULL);

    (void)sched_setscheduler(0, SCHED_OTHER, &none);
    return st;
}

/* A step that follows at once changes nothing of what is saved; with memory for the copy got ahead or not. */
static void beside(int rank, int nranks, void *arg)
{
    const int *kind = arg; /* stage, optimizer */
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    float *before = malloc(sizeof *before * BIG_UNITS * BIG), *after = malloc(sizeof *after * BIG_UNITS * BIG);
    float *grad = malloc(sizeof *grad * BIG);
    int params[BIG_UNITS], unit;
    size_t elems = BIG;
    weft_zero *zero;
    struct ft_rank f;
    cpu_set_t cpus;

    WT_REQUIRE(before && after && grad);
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.stage = kind[0];
    config.optimizer = (weft_zero_optimizer)kind[1];
    config.threads = 2;
    WT_REQUIRE_OK(weft_zero_create(f.comm, &config, &zero));
    param.ndims = 1;
    param.shape = &elems;
    for (int u = 0; u < BIG_UNITS; u++) {
        char name[16];

        snprintf(name, sizeof name, "w%d", u);
        param.name = name;
        WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &params[u]));
        WT_REQUIRE_OK(weft_zero_unit_add(zero, name, &params[u], 1, &unit));
    }
    WT_CHECK_STATUS(weft_zero_save_prepare(zero), WEFT_EINVAL);
    SAYS(weft_zero_save_progress(NULL, NULL), WEFT_EINVAL, "zero is NULL");
    SAYS(weft_zero_save_progress(zero, NULL), WEFT_EINVAL, "NULL");
    WT_REQUIRE_OK(weft_zero_seal(zero));
    for (size_t i = 0; i < BIG; i++)
        grad[i] = (float)(i % 1001) * .01f - 5;
    for (int u = 0; u < BIG_UNITS; u++)
        WT_REQUIRE_OK(weft_zero_param_set(zero, params[u], WEFT_ZERO_WEIGHT, grad, WEFT_FLOAT32));
    if (kind[0] == 1)
        WT_CHECK_OK(weft_zero_save_prepare(zero));
    for (int v = 0; v < 3; v++) {
        char tag[8];

        get_big(zero, params, WEFT_ZERO_WEIGHT, before);
        snprintf(tag, sizeof tag, "v%d", v);
        if (v < 2)
            WT_REQUIRE_OK(save_behind(zero, tag, &cpus));
        else
            WT_REQUIRE_OK(weft_zero_save(zero, shared->folder, tag, NULL));
        for (struct watch watch = {.zero = zero}; v == 2;) {
            unsigned before_seen = watch.seen;
            weft_zero_save_status status = WEFT_ZERO_SAVE_STATUS_INIT;

            look(&watch);
            WT_CHECK_INT(watch.wrong, 0);
            WT_CHECK(watch.seen < 1u << WEFT_ZERO_SAVE_VERIFYING && watch.seen >= before_seen);
            WT_CHECK_OK(weft_zero_save_progress(zero, &status));
            if (status.phase == WEFT_ZERO_SAVE_NOTHING) {
                WT_CHECK(watch.seen != 0); /* 30 MiB take their time */
                break;
            }
        }
        for (int u = 0; u < BIG_UNITS; u++)
            WT_REQUIRE_OK(weft_zero_grad_add(zero, params[u], grad, WEFT_FLOAT32));
        WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
        WT_REQUIRE_OK(weft_zero_step(zero, groups, 2, NULL));
        if (v < 2)
            WT_REQUIRE(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
        WT_REQUIRE_OK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL));
        get_big(zero, params, WEFT_ZERO_WEIGHT, after);
        WT_CHECK(memcmp(before, after, sizeof *before * BIG_UNITS * BIG) != 0);
        watched_load(zero, f.comm, tag);
        get_big(zero, params, WEFT_ZERO_WEIGHT, after);
        WT_CHECK(memcmp(before, after, sizeof *before * BIG_UNITS * BIG) == 0);
        if (v == 0) { /* no step was made yet */
            get_big(zero, params, WEFT_ZERO_MOMENT1, after);
            memset(before, 0, sizeof *before * BIG_UNITS * BIG);
            WT_CHECK(memcmp(before, after, sizeof *before * BIG_UNITS * BIG) == 0);
        }
        /* So that the next version has other weights. */
        for (int u = 0; u < BIG_UNITS; u++)
            WT_REQUIRE_OK(weft_zero_grad_add(zero, params[u], grad, WEFT_FLOAT32));
        WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
        WT_REQUIRE_OK(weft_zero_step(zero, groups, 2, NULL));
    }
    WT_CHECK_OK(weft_zero_destroy(zero));
    ft_close(&f);
    free(before);
    free(after);
    free(grad);
}

static void stepped(void)
{
    static const int kinds[][2] = {
        {0, WEFT_ZERO_ADAMW}, {1, WEFT_ZERO_ADAMW}, {2, WEFT_ZERO_LAMB}, {3, WEFT_ZERO_ADAMW}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[16];

        snprintf(name, sizeof name, "beside%zu", i);
        folder(name);
        CU_ASSERT_EQUAL(wt_run(2, beside, (void *)(uintptr_t)kinds[i], 60000), 0);
    }
}

/* ---- Saves that nobody has waited for ---- */

static void unwaited(int rank, int nranks, void *arg)
{
    struct job job = {2, 0, 0, 0, WEFT_FLOAT32, 0, 0, 0};
    weft_zero_config config = config_of(&job);
    weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
    char name[16];
    struct zt_engine e;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    zt_seal(&e, &f, &config, WEFT_FLOAT32);
    /* Until it is accepted: ranks are told the same each time. */
    for (int v = 0; v < 5; v++) {
        weft_status st;

        snprintf(name, sizeof name, "v%d", v);
        while ((st = weft_zero_save(e.zero, shared->folder, name, NULL)) == WEFT_EBUSY)
            if (!strstr(weft_thread_error(), "the one before is under way"))
                wt_fail(__FILE__, __LINE__, "%s", weft_thread_error());
        WT_REQUIRE_OK(st);
        if (v % 2 && rank == 1) /* others have not waited */
            WT_CHECK_OK(weft_zero_save_wait(e.zero, WEFT_TIMEOUT_NEVER, NULL));
    }
    /* What has failed is told by the next one, on all ranks, and the one behind it is as any other. */
    WT_CHECK_OK(weft_zero_save_wait(e.zero, WEFT_TIMEOUT_NEVER, NULL));
    WT_REQUIRE_OK(weft_zero_save(e.zero, shared->folder, "v3", NULL));
    wt_sync();
    weft_status st;

    while ((st = weft_zero_save(e.zero, shared->folder, "late", NULL)) == WEFT_EBUSY)
        ;
    WT_CHECK_INT(st, WEFT_EINVAL);
    if (!strstr(weft_thread_error(), "has not begun: ") ||
        !strstr(weft_thread_error(), "has a checkpoint \"v3\" already"))
        wt_fail(__FILE__, __LINE__, "%s", weft_thread_error());
    WT_CHECK_STATUS(weft_zero_load(e.zero, shared->folder, "late", 0, NULL), WEFT_ENOTFOUND);
    WT_REQUIRE_OK(weft_zero_save(e.zero, shared->folder, "later", NULL));
    /* A load does not lose it either. */
    while ((st = weft_zero_load(e.zero, shared->folder, NULL, 0, &info)) == WEFT_EBUSY)
        ;
    WT_CHECK_OK(st);
    WT_CHECK_STR(info.tag, "later");
    /* One rank's arguments are wrong, and all are told. */
    SAYS(weft_zero_save(e.zero, rank ? shared->folder : NULL, "x", NULL), WEFT_EINVAL, "folder is NULL");
    WT_CHECK_OK(weft_zero_save_wait(e.zero, WEFT_TIMEOUT_NEVER, NULL));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void collected(void)
{
    folder("unwaited");
    CU_ASSERT_EQUAL(wt_run(3, unwaited, NULL, 60000), 0);
}

static const struct wt_case cases[] = {
    {"other numbers of ranks and stages have the same bits", resharded},
    {"training goes on as if it had not stopped", continued},
    {"what cannot be loaded changes nothing", refused},
    {"a step beside a save", stepped},
    {"saves that nobody has waited for", collected},
};
WT_UNIT_MAIN("zero: save and load", cases)
