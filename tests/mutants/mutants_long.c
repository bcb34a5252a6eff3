/* SPDX-License-Identifier: BSD-3-Clause */
/* All mutants of all registered algorithms, for MUTANTS_FROM to MUTANTS_TO ranks: each single change (mutate.h) to each rank's
 * schedule, judged by the checker and, where that accepts it, by 1,000 interleavings. Up to six ranks with the first and the
 * last root, in place and not; past that with one root, in place when the number of ranks is odd. One worker per core, or
 * WEFT_TEST_JOBS.
 *
 * Prints a table, and writes the survivors to a file beside the program: mutants that the checker accepts and in which nothing
 * wrong was shown, most of them right (a needless dependency; two steps that do not depend on each other change places). What
 * could not be done in time (WEFT_TEST_TIMEOUT) is said. */
#include "campaign.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS 1000
#define SEED 1
#define MAX_ITEMS 65536
#define MAX_ALGOS 128

struct item {
    uint16_t algo;
    uint8_t nranks, root, in_place, rank;
};

struct shared {
    atomic_uint next, done, wrong_forms;
    _Atomic uint64_t made[MAX_ALGOS], wrong[MAX_ALGOS], refused[MAX_ALGOS], survived[MAX_ALGOS], missed[MAX_ALGOS];
    _Atomic uint64_t kinds[NUM_MUTATIONS][4]; /* made, wrong, refused, survived */
};

static struct item items[MAX_ITEMS];
static unsigned nitems;
static struct shared *shared;
static double until;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtod(text, NULL) : otherwise;
}

/* ---- What there is to do ---- */

static void add_form(unsigned algo, int nranks, int root, int in_place)
{
    struct form f;

    if (form_build(&f, wi_algos[algo], nranks, root, in_place) <= 0)
        return;
    form_put(&f);
    for (int r = 0; r < nranks && nitems < MAX_ITEMS; r++)
        items[nitems++] = (struct item){(uint16_t)algo, (uint8_t)nranks, (uint8_t)root, (uint8_t)in_place, (uint8_t)r};
}

static void add_algo(unsigned algo, int nranks)
{
    int in_place = nranks % 2 && !(wi_algos[algo]->needs & WI_ALGO_NO_IN_PLACE), rooted = form_has_root(wi_algos[algo]);

    if (nranks > 6) {
        add_form(algo, nranks, rooted ? nranks / 2 : 0, in_place);
        return;
    }
    for (int root = 0; root < (rooted ? nranks : 1); root += nranks - 1) {
        add_form(algo, nranks, root, 0);
        add_form(algo, nranks, root, 1);
    }
}

/* ---- Workers ---- */

/* The schedules as they are, for every root. */
static void judge_right(const struct item *it)
{
    const struct wi_algo *algo = wi_algos[it->algo];
    struct form f;

    for (int root = 0; it->rank == 0 && root < (form_has_root(algo) ? it->nranks : 1); root++) {
        if (form_build(&f, algo, it->nranks, root, it->in_place) <= 0)
            continue;
        if (form_right(&f, RUNS, SEED))
            shared->wrong_forms++;
        form_put(&f);
    }
}

static void count(const struct item *it, const struct mutation *m, enum verdict v)
{
    int wrong = v == VERDICT_REFUSED_WRONG || v == VERDICT_MISSED;
    int refused = v == VERDICT_REFUSED || v == VERDICT_REFUSED_WRONG, survived = v == VERDICT_SURVIVED;

    shared->made[it->algo]++;
    shared->wrong[it->algo] += (unsigned)wrong;
    shared->refused[it->algo] += (unsigned)refused;
    shared->survived[it->algo] += (unsigned)survived;
    shared->missed[it->algo] += v == VERDICT_MISSED;
    shared->kinds[m->kind][0]++;
    shared->kinds[m->kind][1] += (unsigned)wrong;
    shared->kinds[m->kind][2] += (unsigned)refused;
    shared->kinds[m->kind][3] += (unsigned)survived;
}

static int judge_item(const struct item *it, FILE *survivors)
{
    struct form f;
    struct mutation m;
    char why[256];

    judge_right(it);
    if (form_build(&f, wi_algos[it->algo], it->nranks, it->root, it->in_place) <= 0)
        return 0;
    uint32_t n = mutation_count(f.scheds[it->rank]), k = 0;
    for (; k < n && now() < until; k++) {
        enum verdict v = form_judge(&f, it->rank, k, RUNS, SEED, &m, why);
        count(it, &m, v);
        if (v == VERDICT_SURVIVED)
            form_print(&f, it->rank, &m, "", "", survivors);
        if (v == VERDICT_MISSED)
            form_print(&f, it->rank, &m, "# shown wrong, but accepted: ", why, stdout);
    }
    form_put(&f);
    return k == n;
}

static int work(const char *path)
{
    FILE *survivors = fopen(path, "a");
    unsigned i;

    if (!survivors)
        return 1;
    setvbuf(survivors, NULL, _IOLBF, 1024); /* whole lines, workers in turn */
    while ((i = atomic_fetch_add(&shared->next, 1)) < nitems && now() < until)
        if (judge_item(&items[i], survivors))
            shared->done++;
    fclose(survivors);
    fflush(stdout);
    return 0;
}

static int run_workers(const char *path)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int jobs = (int)number("WEFT_TEST_JOBS", (double)(cores < 1 ? 1 : cores)), failed = 0, status;

    if (truncate(path, 0)) {
        /* there is none yet */
    }
    fflush(stdout);
    for (int i = 0; i < jobs; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(work(path));
        failed += pid < 0;
    }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed;
}

/* ---- The report ---- */

static uint64_t print_table(void)
{
    uint64_t sum[5] = {0};

    printf("# %-28s %9s %9s %9s %9s %7s\n", "algorithm", "made", "wrong", "refused", "survived", "missed");
    for (unsigned i = 0; wi_algos[i]; i++) {
        uint64_t row[5] = {shared->made[i], shared->wrong[i], shared->refused[i], shared->survived[i],
                           shared->missed[i]};
        char name[64];
        snprintf(name, sizeof name, "%s/%s", wi_coll_name(wi_algos[i]->coll), wi_algos[i]->name);
        printf("# %-28s %9llu %9llu %9llu %9llu %7llu\n", name, (unsigned long long)row[0], (unsigned long long)row[1],
               (unsigned long long)row[2], (unsigned long long)row[3], (unsigned long long)row[4]);
        for (int k = 0; k < 5; k++)
            sum[k] += row[k];
    }
    printf("# %-28s %9llu %9llu %9llu %9llu %7llu\n", "all", (unsigned long long)sum[0], (unsigned long long)sum[1],
           (unsigned long long)sum[2], (unsigned long long)sum[3], (unsigned long long)sum[4]);
    for (int k = 0; k < NUM_MUTATIONS; k++)
        printf("# %9llu made, %9llu wrong, %9llu refused, %8llu survived: %s\n",
               (unsigned long long)shared->kinds[k][0], (unsigned long long)shared->kinds[k][1],
               (unsigned long long)shared->kinds[k][2], (unsigned long long)shared->kinds[k][3],
               mutation_text((enum mutation_kind)k));
    return sum[4];
}

int main(int argc, char **argv)
{
    int from = argc > 1 ? atoi(argv[1]) : MUTANTS_FROM, to = argc > 2 ? atoi(argv[2]) : MUTANTS_TO;
    double start = now();
    char path[4096];

    snprintf(path, sizeof path, "%s.survivors", argv[0]);
    until = start + 0.9 * number("WEFT_TEST_TIMEOUT", 900) * number("WEFT_TEST_SLOW", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 99;
    for (int n = from; n <= to; n++)
        for (unsigned i = 0; wi_algos[i]; i++)
            add_algo(i, n);
    int failed = run_workers(path);
    uint64_t missed = print_table();
    printf("# %d to %d ranks, %u of %u schedules, %.0f s, survivors in %s\n", from, to, shared->done, nitems,
           now() - start, path);
    printf("%sok 1 - algorithms are right in %d interleavings\n", shared->wrong_forms || failed ? "not " : "", RUNS);
    printf("%sok 2 - mutants shown wrong are refused\n", missed || failed ? "not " : "");
    if (shared->done == nitems || failed || nitems == 0)
        printf("%sok 3 - every mutant was judged\n", failed || nitems == 0 ? "not " : "");
    else
        printf("ok 3 - every mutant was judged # SKIP %u of %u schedules within 0.9 WEFT_TEST_TIMEOUT\n", shared->done,
               nitems);
    printf("1..3\n");
    return failed || missed || shared->wrong_forms || nitems == 0;
}
