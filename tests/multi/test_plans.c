/* Algorithms from files, run: every right file that tests/import/generate.py writes, over the transports, with the results that
 * the operation defines; and the errors for wrong names of files and algorithms.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "tests/conform/collect.h"
#include "tests/harness/calls.h"
#include "tests/harness/harness.h"
#include "tests/harness/says.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static char inputs[PATH_MAX / 2];

static int generate(void)
{
    const char *root = getenv("WEFT_SRCDIR"), *python = getenv("PYTHON");
    char command[2 * PATH_MAX];

    snprintf(inputs, sizeof inputs, "%s", wt_temp_dir());
    snprintf(command, sizeof command, "'%s' '%s/tests/import/generate.py' '%s' >/dev/null", python ? python : "python3",
             root ? root : ".", inputs);
    return system(command) == 0;
}

/* ---- Right ones ---- */

struct job {
    const char *const *settings; /* of the transport */
    int threads, shareable, by_rule;
    char path[PATH_MAX], name[80];
    const struct wi_import *import;
    int peers; /* uses other ranks' SRC or DST */
};

static enum cc_kind kind_of(enum wi_coll coll)
{
    for (int k = 0; k < CC_NUM_KINDS; k++)
        if (!strcmp(cc_kind_names[k], wi_coll_name(coll)))
            return (enum cc_kind)k;
    wt_fail(__FILE__, __LINE__, "no test for %s", wi_coll_name(coll));
    return CC_barrier;
}

static void open_world(struct cc_world *w, const struct job *job, int rank, int nranks)
{
    const char *settings[12] = {NULL};
    char plans[PATH_MAX + 16], algo[160];
    struct cc_fixture fixture = {"plans", settings, job->threads, job->shareable, 0, 0};
    int n = 0;

    snprintf(plans, sizeof plans, "PLANS=%s", job->path);
    snprintf(algo, sizeof algo, "ALGO=%s:0-1G:%s", wi_coll_name(job->import->coll), job->name);
    for (; job->settings[n]; n++)
        settings[n] = job->settings[n];
    settings[n++] = plans;
    if (job->by_rule)
        settings[n++] = algo;
    cc_world_open(w, &fixture, rank, nranks);
}

static void run_counts(struct cc_world *w, const struct job *job, struct cc_call call)
{
    static const size_t counts[] = {0, 1, 17, 1000, 20011};
    static const unsigned shifts[] = {0, 4, 1, 8, 17};
    uint32_t cut = call.kind == CC_all_reduce || call.kind == CC_broadcast || call.kind == CC_reduce
                       ? 1
                       : job->import->scheds[0]->nblocks;

    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        call.count = counts[i] * cut;
        call.shift = shifts[(i + (size_t)call.op) % COUNT_OF(shifts)];
        call.seed = i * 100 + (uint64_t)call.op + (uint64_t)call.dtype * 7;
        call.form = (enum cc_form)(call.seed % CC_NUM_FORMS);
        cc_run(w, &call);
    }
}

static void right_rank(int rank, int nranks, void *arg)
{
    static const weft_dtype types[] = {WEFT_INT32, WEFT_BFLOAT16, WEFT_FLOAT64};
    static const int ops[] = {WEFT_SUM, WEFT_AVG, WEFT_AVG};
    const struct job *job = arg;
    struct cc_world w;

    open_world(&w, job, rank, nranks);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct cc_call call = {.kind = kind_of(job->import->coll),
                               .dtype = types[i],
                               .op = ops[i],
                               .root = job->import->root,
                               .in_place = job->import->in_place,
                               .memory = job->peers ? CC_MEM_ALLOC : CC_MALLOC,
                               .algorithm = job->by_rule ? NULL : job->name};
        run_counts(&w, job, call);
    }
    WT_CHECK(w.calls > 0);
    WT_CHECK_INT(w.refused, 0);
    cc_world_close(&w);
}

static const char *const inproc[] = {"TRANSPORTS=inproc", NULL};
static const char *const shm[] = {"TRANSPORTS=shm", NULL};
static const char *const sliced[] = {"TRANSPORTS=shm", "COMM_SLICE_BYTES=1000", NULL};
static const char *const tcp[] = {"TRANSPORTS=tcp", "COMM_SLICE_BYTES=4000", NULL};
static const struct {
    const char *name;
    const char *const *settings;
    int threads, shareable, mapped, by_rule;
} fixtures[] = {
    {"inproc", inproc, 1, 0, 1, 0},
    {"shm, by WEFT_ALGO", shm, 0, 1, 1, 1},
    {"shm in small slices", sliced, 0, 1, 1, 0},
    {"tcp", tcp, 0, 0, 0, 0},
};

static int result(int failed, int number, const char *what, const char *where)
{
    static uint64_t before;
    uint64_t now = wt_now_ms();

    printf("%sok %d - %s%s%s # %llu ms\n", failed ? "not " : "", number, what, *where ? " over " : "", where,
           (unsigned long long)(before ? now - before : 0));
    before = now;
    fflush(stdout);
    return failed != 0;
}

static int run_program(const char *file, const struct wi_import *import, int *number)
{
    struct job job = {.import = import};
    int failed = 0;

    snprintf(job.path, sizeof job.path, "%s/right/%s", inputs, file);
    snprintf(job.name, sizeof job.name, "file:%s", import->name);
    for (int r = 0; r < import->nranks; r++)
        job.peers |= import->scheds[r]->peer_src | import->scheds[r]->peer_dst;
    for (size_t f = 0; f < COUNT_OF(fixtures); f++) {
        /* Without shared memory there is nothing to map. */
        if ((import->scheds[0]->mapped && !fixtures[f].mapped) || (job.peers && !fixtures[f].shareable))
            continue;
        job.settings = fixtures[f].settings;
        job.threads = fixtures[f].threads;
        job.shareable = fixtures[f].shareable;
        job.by_rule = fixtures[f].by_rule;
        failed += result(job.threads ? wt_threads_apart(import->nranks, right_rank, &job, 60000)
                                     : wt_run(import->nranks, right_rank, &job, 60000),
                         ++*number, file, fixtures[f].name);
    }
    return failed;
}

static int run_right(const char *file, int *number)
{
    char path[PATH_MAX];
    const char *paths[] = {path};
    struct wi_import *import;
    int failed;

    snprintf(path, sizeof path, "%s/right/%s", inputs, file);
    if (wi_import_files(paths, 1, &import) < 0)
        return result(1, ++*number, file, weft_thread_error());
    failed = run_program(file, import, number);
    if (import->in_place_variant)
        failed += run_program(file, import->in_place_variant, number);
    wi_import_free(import);
    return failed;
}

static int right_ones(const char *only, int *number)
{
    char path[PATH_MAX];
    struct dirent **entries;
    int failed = 0, n;

    snprintf(path, sizeof path, "%s/right", inputs);
    n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.' && (!only || strstr(entries[i]->d_name, only)))
            failed += run_right(entries[i]->d_name, number);
        free(entries[i]);
    }
    if (n > 0)
        free(entries);
    return failed + (n < 10);
}

/* ---- Wrong use ---- */

static weft_status make_context(const char *plans, const char *algo, weft_context **context)
{
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    char first[4 * PATH_MAX], second[160];
    const char *settings[] = {first, second, "TRANSPORTS=shm", NULL};

    snprintf(first, sizeof first, "PLANS=%s", plans);
    snprintf(second, sizeof second, "ALGO=%s", algo);
    config.settings = settings;
    return weft_context_create(&config, context);
}

/* The inputs of these names, as WEFT_PLANS wants them. */
static const char *in(char text[4 * PATH_MAX], const char *first, const char *second, const char *third)
{
    int n = snprintf(text, 4 * PATH_MAX, "%s/%s", inputs, first);

    if (second)
        n += snprintf(text + n, PATH_MAX, ",%s/%s", inputs, second);
    if (third)
        snprintf(text + n, PATH_MAX, ",%s/%s", inputs, third);
    return text;
}

static void refused_contexts(int rank, int nranks, void *arg)
{
    weft_context *context = NULL;
    char text[4 * PATH_MAX];

    (void)rank, (void)nranks, (void)arg;
    SAYS(make_context("/nonexistent/x.xml", "", &context), WEFT_ECONFIG,
         "WEFT_PLANS: algorithm file \"/nonexistent/x.xml\": No such file");
    SAYS(make_context(in(text, "right/all_to_all.xml", "wrong/deadlock.xml", NULL), "", &context), WEFT_ECONFIG,
         "wrong/deadlock.xml:4: refused: ");
    SAYS(make_context(in(text, "right/all_to_all.xml", "right/all_to_all.xml", NULL), "", &context), WEFT_ECONFIG,
         "both have a program");
    SAYS(make_context(in(text, "", NULL, NULL), "", &context), WEFT_ECONFIG, "directory");
    WT_CHECK(context == NULL);
}

static int32_t a[64], b[64];

static void keep(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)right, (void)arg;
    memmove(out, left, count * weft_dtype_bytes(dtype));
}

static void works(weft_comm *comm, int nranks)
{
    int32_t one = 1, sum = 0;

    WT_CHECK_OK(weft_all_reduce(comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
    WT_CHECK_INT(sum, nranks);
}

static void refused_calls(int rank, int nranks, void *arg)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL, *pair = NULL;
    char text[4 * PATH_MAX];
    weft_call call;
    weft_op op;

    (void)arg;
    WT_REQUIRE_OK(make_context(
        in(text, "right/all_reduce_ring_in_place.xml", "right/all_gather_ring_cut.xml", "right/all_reduce_pairs.json"),
        "", &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    WT_REQUIRE_OK(weft_comm_split(comm, rank / 2, rank, NULL, &pair));
    WT_CHECK_OK(weft_op_create(keep, NULL, 0, &op));
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, a, 8, WEFT_INT32);
    SAYS(wt_issue(comm, call, "file:nothing", NULL), WEFT_ENOTFOUND, "there are: file:ring, file:pairs");
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, b, 8, WEFT_INT32);
    SAYS(wt_issue(comm, call, "file:ring", NULL), WEFT_ENOTSUP, "it is for calls in place");
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, a, 8, WEFT_INT32);
    call.op = op;
    SAYS(wt_issue(comm, call, "file:ring", NULL), WEFT_ENOTSUP, "commutative");
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, a, 8, WEFT_INT32);
    SAYS(wt_issue(comm, call, "file:pairs", NULL), WEFT_ENOTSUP, "weft_mem_alloc");
    call = wt_call(WEFT_KIND_ALL_GATHER, a, b, 4, WEFT_INT32);
    SAYS(wt_issue(comm, call, "file:ring", NULL), WEFT_ENOTSUP, "no multiple");
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, a, 8, WEFT_INT32);
    SAYS(wt_issue(pair, call, "file:ring", NULL), WEFT_ENOTSUP, "it is for 4 ranks, and these are 2");
    works(comm, nranks);
    works(pair, 2);
    WT_CHECK_OK(weft_op_destroy(op));
    WT_CHECK_OK(weft_comm_destroy(pair));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

/* Ranks that group the operands otherwise get other bits where sums are rounded. */
static void whole_numbers_only(int rank, int nranks, void *arg)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    char text[4 * PATH_MAX];
    int32_t mine = rank + 1, sum = 0;
    float x = 1, y = 0;
    weft_call call;

    (void)arg;
    WT_REQUIRE_OK(make_context(in(text, "whole/rotated.xml", NULL, NULL), "", &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    call = wt_call(WEFT_KIND_ALL_REDUCE, &x, &y, 1, WEFT_FLOAT32);
    SAYS(wt_issue(comm, call, "file:rotated", NULL), WEFT_ENOTSUP, "that do not round");
    call = wt_call(WEFT_KIND_ALL_REDUCE, &mine, &sum, 1, WEFT_INT32);
    WT_CHECK_OK(wt_issue(comm, call, "file:rotated", NULL));
    WT_CHECK_INT(sum, nranks * (nranks + 1) / 2);
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

/* A rule of another number of ranks is passed over; one that no file has is a mistake. */
static void rules(int rank, int nranks, void *arg)
{
    weft_context *context = NULL, *wrong = NULL;
    weft_comm *comm = NULL, *none = NULL, *pair = NULL;
    char text[4 * PATH_MAX];

    (void)arg;
    WT_REQUIRE_OK(make_context(in(text, "right/all_reduce_ring.xml", NULL, NULL), "all_reduce:file:ring", &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    WT_REQUIRE_OK(weft_comm_split(comm, rank / 2, rank, NULL, &pair));
    works(comm, nranks);
    works(pair, 2);
    WT_CHECK_OK(weft_comm_destroy(pair));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    WT_REQUIRE_OK(make_context(in(text, "right/all_reduce_ring.xml", NULL, NULL), "all_reduce:file:rong", &wrong));
    SAYS(weft_comm_create_env(wrong, NULL, &none), WEFT_ECONFIG, "no program \"file:rong\" for all_reduce");
    WT_CHECK_OK(weft_context_destroy(wrong));
}

/* Rank 2 has another program under the same name. */
static void other_files(int rank, int nranks, void *arg)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    char text[4 * PATH_MAX];

    (void)nranks, (void)arg;
    WT_REQUIRE_OK(make_context(
        in(text, rank == 2 ? "right/all_reduce_rhd.xml" : "right/all_reduce_ring.xml", NULL, NULL), "", &context));
    SAYS(weft_comm_create_env(context, NULL, &comm), WEFT_EMISMATCH, rank == 2 ? "rank 0" : "rank 2");
    SAYS(WEFT_EMISMATCH, WEFT_EMISMATCH, "WEFT_PLANS");
    SAYS(WEFT_EMISMATCH, WEFT_EMISMATCH, "WEFT_COMM_SLICE_BYTES");
    SAYS(WEFT_EMISMATCH, WEFT_EMISMATCH, "compare weft-info -c");
    WT_CHECK(comm == NULL);
    WT_CHECK_OK(weft_context_destroy(context));
}

static int wrong_use(int *number)
{
    int failed = 0;

    failed += result(wt_run(1, refused_contexts, NULL, 20000), ++*number, "files that cannot be had", "");
    failed += result(wt_run(4, refused_calls, NULL, 20000), ++*number, "calls that a program does not serve", "");
    failed +=
        result(wt_run(4, whole_numbers_only, NULL, 20000), ++*number, "a program whose ranks group otherwise", "");
    failed += result(wt_run(4, rules, NULL, 20000), ++*number, "rules that name programs", "");
    failed += result(wt_run(4, other_files, NULL, 20000), ++*number, "ranks with different files", "");
    return failed;
}

/* An argument chooses files by a word of their names. */
int main(int argc, char **argv)
{
    int number = 0, failed;

    if (!generate()) {
        fprintf(stderr, "tests/import/generate.py failed\n");
        return 99;
    }
    failed = right_ones(argc > 1 ? argv[1] : NULL, &number) + wrong_use(&number);
    printf("1..%d\n", number);
    return failed != 0;
}
