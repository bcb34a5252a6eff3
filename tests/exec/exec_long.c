/* SPDX-License-Identifier: BSD-3-Clause */
/* All forms of all algorithms through the executor, against a plain interpreter of their schedules: 2 to 9 and 16 ranks, every
 * root, in place and not, v-forms, each in many runs; and hierarchical algorithms of all outer and inner ones, for all shapes.
 * One worker per core, or WEFT_TEST_JOBS.
 *
 * Rounds follow each other, with other seeds, until 0.3 WEFT_TEST_TIMEOUT are used up. What the first one could not do in 0.8 of
 * it is said. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "algo/hier.h"
#include "cases.h"

#define RUNS 6 /* of a form in one round */
#define MAX_ROUNDS 64
#define ALGO_ITEMS 9 /* numbers of ranks */
#define FAILURES 20  /* enough of them */

struct shared {
    _Atomic unsigned next, done, failed;
    _Atomic uint64_t forms, runs, calls, messages;
};

static struct shared *shared;
static double until, give_up;

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

/* ---- What there is to do: items of a round ---- */

static unsigned nalgos(void)
{
    unsigned n = 0;

    while (wi_algos[n])
        n++;
    return n;
}

/* Algorithms of several collectives have the same name. */
static int is_new(const struct wi_algo *const *a)
{
    if ((*a)->needs & WI_ALGO_MAPPED)
        return 0;
    for (const struct wi_algo *const *before = wi_algos; before < a; before++)
        if (!((*before)->needs & WI_ALGO_MAPPED) && strcmp((*before)->name, (*a)->name) == 0)
            return 0;
    return 1;
}

/* An outer algorithm with every inner one, with leaders and without, whole and in chunks. What does not exist is left out. */
static void run_outer(struct campaign *c, const struct wi_algo *outer, enum wi_coll coll, const struct shape *shape)
{
    static const char *const forms[][2] = {{"node:", ""},       {"node:", "@leader"}, {"node:", "*3"},
                                           {"rack:", "/node:"}, {"node:", "/"},       {"node:", "@leader/"}};
    char spec[2 * WI_ALGO_SPEC_BYTES];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (const struct wi_algo *const *inner = wi_algos; *inner && shared->failed < FAILURES; inner++) {
            if (i >= 3 && !is_new(inner))
                continue;
            snprintf(spec, sizeof spec, "%s%s%s%s", forms[i][0], outer->name, forms[i][1], i < 3 ? "" : (*inner)->name);
            campaign_spec(c, spec, coll, shape);
            if (i < 3)
                break;
        }
    }
}

static void run_item(struct campaign *c, unsigned item)
{
    const struct wi_algo *a = wi_algos[item % nalgos()];
    unsigned what = item / nalgos();

    if (what < ALGO_ITEMS) {
        campaign_algo(c, a, what < 8 ? 2 + (int)what : MAX_RANKS);
        return;
    }
    for (int coll = 0; coll < WI_NUM_COLLS && !(a->needs & WI_ALGO_MAPPED); coll++)
        if (wi_algo_family((enum wi_coll)coll) == a->coll && wi_hier_shape_of(wi_algo_family((enum wi_coll)coll)))
            run_outer(c, a, (enum wi_coll)coll, &shapes[what - ALGO_ITEMS]);
}

/* ---- Workers ---- */

static int work(void)
{
    unsigned items = nalgos() * (ALGO_ITEMS + (unsigned)nshapes), i;

    while ((i = atomic_fetch_add(&shared->next, 1)) < items * MAX_ROUNDS && shared->failed < FAILURES &&
           now() < (i < items ? give_up : until)) {
        struct campaign c = {.all_roots = 1, .runs = RUNS, .seed = (uint64_t)i << 24};
        if (i % items / nalgos() >= ALGO_ITEMS) {
            c.all_roots = 0;
            c.runs = 2;
        }
        run_item(&c, i % items);
        shared->done += i < items;
        shared->failed += (unsigned)c.failed;
        shared->forms += c.forms;
        shared->runs += c.seen.runs;
        shared->calls += c.seen.calls;
        shared->messages += c.seen.fake.messages;
    }
    fflush(stdout);
    return 0;
}

int main(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int jobs = (int)number("WEFT_TEST_JOBS", (double)(cores < 1 ? 1 : cores)), failed = 0, status;
    unsigned items = nalgos() * (ALGO_ITEMS + (unsigned)nshapes);
    double start = now();

    give_up = start + 0.8 * number("WEFT_TEST_TIMEOUT", 900) * number("WEFT_TEST_SLOW", 1);
    until = start + 0.3 * number("WEFT_TEST_TIMEOUT", 900) * number("WEFT_TEST_SLOW", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 99;
    setvbuf(stdout, NULL, _IOLBF, 4096); /* whole lines, workers in turn */
    for (int i = 0; i < jobs; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(work());
        failed += pid < 0;
    }
    while (wait(&status) > 0)
        failed += status != 0;
    printf("# %llu forms, %llu runs of %llu calls, %llu messages, %u rounds, %.0f s\n",
           (unsigned long long)shared->forms, (unsigned long long)shared->runs, (unsigned long long)shared->calls,
           (unsigned long long)shared->messages, shared->next / items, now() - start);
    printf("%sok 1 - memory is what the plain interpreter says\n",
           shared->failed || failed || !shared->runs ? "not " : "");
    if (shared->done >= items || shared->failed)
        printf("%sok 2 - every form has run\n", shared->failed ? "not " : "");
    else
        printf("ok 2 - every form has run # SKIP %u of %u parts within 0.8 WEFT_TEST_TIMEOUT\n", shared->done, items);
    printf("1..2\n");
    return shared->failed || failed || !shared->runs;
}
