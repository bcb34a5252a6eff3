/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines with experts save and load: each expert once, at other numbers of ranks and in other stages, bit for bit; with names of
 * their own also where each rank has other numbers of them. And parts of a model save into folders of their own. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <weft/weft_zero.h>

#include "tests/fault/fault.h"
#include "tests/unit/unit.h"
#include "tests/harness/says.h"

enum { EXPERTS = 4, DENSE = 211, ELEMS = 137, SMALL = 3, TENSORS = 1 + 2 * EXPERTS, WHATS = 3 };

/* What one job has for the next: dense; of each expert the trained and the frozen parameter. */
static struct shared {
    char folder[256];
    float values[WHATS][TENSORS][DENSE];
} * shared;

struct job {
    int places, consecutive; /* groups of experts; ranks of one follow one another, or take turns */
    int named;               /* experts have names of their own */
    int stage, load, save;   /* versions; 0: none */
    int local;               /* experts of a rank; 0: all that there are, shared out */
};

struct model {
    weft_zero *zero;
    weft_comm *group;
    int dense, local, place, experts[EXPERTS], frozen[EXPERTS]; /* of this rank: `local` */
};

static const weft_zero_hyper hyper = {sizeof(weft_zero_hyper), .02, .9, .99, 1e-6, .01, 0, 0, 0, 0, 0, 10, .01};

static int add_param(weft_zero *zero, const char *name, const char *save_name, size_t elems, unsigned flags)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    int index = -1;

    param.name = name;
    param.save_name = save_name;
    param.ndims = 1;
    param.shape = &elems;
    param.flags = flags;
    WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &index));
    return index;
}

static void describe(struct model *m, struct ft_rank *f, const struct job *job, int rank, int nranks)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    char name[32], save_name[32];

    m->place = job->consecutive ? rank / (nranks / job->places) : rank % job->places;
    m->local = job->local ? job->local : EXPERTS / job->places;
    WT_REQUIRE_OK(weft_comm_split(f->comm, m->place, 0, NULL, &m->group));
    config.stage = job->stage;
    config.threads = 1;
    config.experts = m->group;
    WT_REQUIRE_OK(weft_zero_create(f->comm, &config, &m->zero));
    m->dense = add_param(m->zero, "dense", NULL, DENSE, 0);
    for (int l = 0; l < m->local; l++) {
        int expert = m->place * m->local + l;

        snprintf(name, sizeof name, "experts.%d.w", l);
        snprintf(save_name, sizeof save_name, "all.%d.w", expert);
        m->experts[l] = add_param(m->zero, name, job->named ? save_name : NULL, ELEMS, WEFT_ZERO_EXPERT);
        snprintf(name, sizeof name, "experts.%d.scale", l);
        snprintf(save_name, sizeof save_name, "all.%d.scale", expert);
        m->frozen[l] =
            add_param(m->zero, name, job->named ? save_name : NULL, SMALL, WEFT_ZERO_EXPERT | WEFT_ZERO_FROZEN);
    }
}

static void seal(struct model *m)
{
    float values[DENSE];
    int unit;

    WT_REQUIRE_OK(weft_zero_unit_add(m->zero, "dense", &m->dense, 1, &unit));
    for (int l = 0; l < m->local; l++) {
        char name[16];

        snprintf(name, sizeof name, "expert%d", l);
        WT_REQUIRE_OK(weft_zero_unit_add(m->zero, name, (int[]){m->experts[l], m->frozen[l]}, 2, &unit));
    }
    WT_REQUIRE_OK(weft_zero_seal(m->zero));
    for (int t = 0; t <= 2 * m->local; t++) {
        int l = (t - 1) / 2, odd = t ? 1 + m->place * m->local + l : 0;

        for (int i = 0; i < DENSE; i++)
            values[i] = sinf((float)(i * 7 + odd * 1000 + t % 2));
        WT_REQUIRE_OK(weft_zero_param_set(m->zero,
                                          t == 0  ? m->dense
                                          : t % 2 ? m->experts[l]
                                                  : m->frozen[l],
                                          WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    }
}

static void train(struct model *m, int rank, int steps)
{
    float grad[DENSE];

    for (int s = 0; s < steps; s++) {
        for (int l = -1; l < m->local; l++) {
            for (int i = 0; i < DENSE; i++)
                grad[i] = cosf((float)(i * 3 + s * 17 + rank * 5 + (l + 1) * 11));
            WT_REQUIRE_OK(weft_zero_grad_add(m->zero, l < 0 ? m->dense : m->experts[l], grad, WEFT_FLOAT32));
        }
        WT_REQUIRE_OK(weft_zero_micro_batch_end(m->zero));
        WT_REQUIRE_OK(weft_zero_step(m->zero, &hyper, 1, NULL));
    }
}

/* Compare with what the job before had, or keep it for the next one. */
static void exchange(const struct model *m, int compare, int first)
{
    static const weft_zero_what whats[WHATS] = {WEFT_ZERO_WEIGHT, WEFT_ZERO_MOMENT1, WEFT_ZERO_MOMENT2};

    for (int w = 0; w < WHATS; w++)
        for (int t = 0; t <= 2 * m->local; t++) {
            int l = (t - 1) / 2, global = t ? t + 2 * m->place * m->local : 0;
            size_t n = t == 0 ? DENSE : t % 2 ? ELEMS : SMALL;
            float values[DENSE];

            if (t && t % 2 == 0 && w)
                continue;
            WT_REQUIRE_OK(weft_zero_param_get(m->zero,
                                              t == 0  ? m->dense
                                              : t % 2 ? m->experts[l]
                                                      : m->frozen[l],
                                              whats[w], values, WEFT_FLOAT32));
            if (compare)
                WT_CHECK_MEM(values, shared->values[w][global], n * sizeof *values);
            else if (first)
                memcpy(shared->values[w][global], values, n * sizeof *values);
        }
}

static void save(struct model *m, int version)
{
    char tag[16];

    snprintf(tag, sizeof tag, "v%d", version);
    WT_REQUIRE_OK(weft_zero_save(m->zero, shared->folder, tag, NULL));
    WT_REQUIRE_OK(weft_zero_save_wait(m->zero, WEFT_TIMEOUT_NEVER, NULL));
}

static void close_model(struct model *m, struct ft_rank *f)
{
    WT_CHECK_OK(weft_zero_destroy(m->zero));
    WT_CHECK_OK(weft_comm_destroy(m->group));
    ft_close(f);
}

static void run(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    struct model m;
    struct ft_rank f;
    int nfirst;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    describe(&m, &f, job, rank, nranks);
    seal(&m);
    if (job->load) {
        weft_zero_load_info info = WEFT_ZERO_LOAD_INFO_INIT;
        char tag[16];

        snprintf(tag, sizeof tag, "v%d", job->load);
        WT_REQUIRE_OK(weft_zero_load(m.zero, shared->folder, tag, 0, &info));
        WT_CHECK(info.step > 0);
        exchange(&m, 1, 0);
        wt_sync();
    }
    train(&m, rank, 2);
    if (job->save)
        save(&m, job->save);
    WT_REQUIRE_OK(weft_comm_rank(m.group, &nfirst));
    exchange(&m, 0, nfirst == 0);
    close_model(&m, &f);
}

static void folder(const char *name)
{
    if (!shared)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(shared->folder, sizeof shared->folder, "%s/%s", wt_temp_dir(), name);
    CU_ASSERT_EQUAL(mkdir(shared->folder, 0700), 0);
}

static int go(int nranks, struct job job)
{
    return wt_run(nranks, run, &job, 60000);
}

/* Names of groups: the same groups, other numbers of ranks. */
static void numbered(void)
{
    folder("numbered");
    CU_ASSERT_EQUAL(go(4, (struct job){2, 0, 0, 1, 0, 1, 0}), 0);
    CU_ASSERT_EQUAL(go(6, (struct job){2, 0, 0, 2, 1, 2, 0}), 0);
    CU_ASSERT_EQUAL(go(2, (struct job){2, 1, 0, 3, 2, 3, 0}), 0);
    CU_ASSERT_EQUAL(go(4, (struct job){2, 1, 0, 3, 3, 4, 0}), 0);
    CU_ASSERT_EQUAL(go(6, (struct job){2, 1, 0, 0, 4, 0, 0}), 0);
}

/* Names of their own: other numbers of groups, too. */
static void named(void)
{
    folder("named");
    CU_ASSERT_EQUAL(go(4, (struct job){2, 0, 1, 3, 0, 1, 0}), 0);
    CU_ASSERT_EQUAL(go(8, (struct job){4, 1, 1, 2, 1, 2, 0}), 0);
    CU_ASSERT_EQUAL(go(3, (struct job){1, 0, 1, 1, 2, 3, 0}), 0);
    CU_ASSERT_EQUAL(go(4, (struct job){4, 0, 1, 3, 3, 4, 0}), 0);
    CU_ASSERT_EQUAL(go(1, (struct job){1, 0, 1, 0, 4, 0, 0}), 0);
}

/* A job on other ranks whose experts are not those of the version. */
static void other_set(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    struct model m;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    describe(&m, &f, job, rank, nranks);
    seal(&m);
    if (job->places == 1) /* more than the version has: the first that is missing */
        SAYS(weft_zero_load(m.zero, shared->folder, NULL, 0, NULL), WEFT_EINVAL,
             "it has no weight of \"experts.2.w@0\"");
    else
        SAYS(weft_zero_load(m.zero, shared->folder, NULL, 0, NULL), WEFT_EINVAL,
             "has 19 tensors, and all ranks of this model together have 11: it has other experts");
    close_model(&m, &f);
}

/* Names in checkpoints that are not one for each expert. */
static void wrong_names(int rank, int nranks, void *arg)
{
    struct job job = {2, 0, 0, 1, 0, 0, 0};
    int unit, kind = *(const int *)arg;
    const char *save_name = kind == 0 ? "one" : kind == 1 ? "dense" : rank < 2 ? "first" : "others";
    struct model m;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    describe(&m, &f, &job, rank, nranks);
    m.frozen[0] = add_param(m.zero, "named", save_name, 5, WEFT_ZERO_EXPERT);
    WT_REQUIRE_OK(
        weft_zero_unit_add(m.zero, "u", (int[]){m.dense, m.experts[0], m.experts[1], m.frozen[0], 2, 4}, 6, &unit));
    SAYS(weft_zero_seal(m.zero), kind == 2 ? WEFT_EMISMATCH : WEFT_EINVAL,
         kind == 0   ? "experts \"named\" of group 0 and \"named\" of group 1 have one name in checkpoints"
         : kind == 1 ? "parameters \"dense\" and \"named\" have one name in checkpoints"
                     : "ranks 0 and 2 keep the same experts, and have other save_names of \"named\"");
    close_model(&m, &f);
}

/* Two parts of a model, on two ranks each. */
static void parts(int rank, int nranks, void *arg)
{
    int part = rank / 2, index, unit;
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_comm *data, *model;
    float values[DENSE] = {0}, got[DENSE];
    char path[300];
    weft_zero *zero;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_split(f.comm, part, 0, NULL, &data));
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank % 2, 0, NULL, &model));
    config.stage = 1;
    config.threads = 1;
    config.model = model;
    WT_REQUIRE_OK(weft_zero_create(data, &config, &zero));
    index = add_param(zero, "w", NULL, DENSE, 0);
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "u", &index, 1, &unit));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    values[3] = (float)part + 1;
    WT_REQUIRE_OK(weft_zero_param_set(zero, index, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    SAYS(weft_zero_save(zero, shared->folder, "a", NULL), WEFT_EINVAL,
         "ranks 0 and 1 of config.model, which have different parts of it, save into one folder");
    SAYS(weft_zero_load(zero, shared->folder, "a", 0, NULL), WEFT_EINVAL, "load from one folder");
    /* What one rank refuses, those of all parts know at once. */
    snprintf(path, sizeof path, "%s/part%d", shared->folder, part);
    const char *given = rank == 3 ? NULL : path, *says = part ? "folder is NULL" : "another part of it, has failed";

    SAYS(weft_zero_save(zero, given, "a", NULL), WEFT_EINVAL, says);
    SAYS(weft_zero_load(zero, given, "a", 0, NULL), WEFT_EINVAL, says);
    WT_REQUIRE_OK(weft_zero_save(zero, path, "a", NULL));
    WT_REQUIRE_OK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL));
    values[3] = 7;
    WT_REQUIRE_OK(weft_zero_param_set(zero, index, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_load(zero, path, NULL, 0, NULL));
    WT_REQUIRE_OK(weft_zero_param_get(zero, index, WEFT_ZERO_WEIGHT, got, WEFT_FLOAT32));
    WT_CHECK(got[3] == (float)part + 1);
    WT_CHECK_OK(weft_zero_destroy(zero));
    WT_CHECK_OK(weft_comm_destroy(data));
    WT_CHECK_OK(weft_comm_destroy(model));
    ft_close(&f);
}

static void refused(void)
{
    struct job fewer = {2, 0, 0, 1, 0, 0, 1}, more = {1, 0, 0, 1, 0, 0, 0};
    int kinds[] = {0, 1, 2};

    folder("other");
    CU_ASSERT_EQUAL(go(2, (struct job){2, 0, 0, 1, 0, 1, 0}), 0);
    CU_ASSERT_EQUAL(wt_run(2, other_set, &more, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, other_set, &fewer, 60000), 0);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(wt_run(4, wrong_names, &kinds[i], 60000), 0);
}

static void apart(void)
{
    folder("parts");
    CU_ASSERT_EQUAL(wt_run(4, parts, NULL, 60000), 0);
}

static const struct wt_case cases[] = {
    {"experts by their group", numbered},
    {"experts with names of their own", named},
    {"other experts", refused},
    {"parts of a model", apart},
};
WT_UNIT_MAIN("zero: checkpoints of experts", cases)
