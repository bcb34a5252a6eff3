/* More ranks than one pass of the reduction kernels takes, and slots that have no room for a cache line of each rank's block: every
 * mapped algorithm runs, and its values are right.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "tests/conform/collect.h"
#include "tests/harness/harness.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const processes[] = {"TRANSPORTS=shm", "SHM_SLOT_BYTES=4K", NULL};
static const char *const threads[] = {"TRANSPORTS=inproc", "INPROC_SLOT_BYTES=4K", NULL};
static const struct cc_fixture fixtures[] = {{"shm", processes, 0, 1, 1, 0}, {"inproc", threads, 1, 0, 1, 0}};

struct job {
    const struct cc_fixture *fixture;
    const struct wi_algo *algo;
};

static int serves(const struct wi_algo *algo, enum cc_kind kind)
{
    return algo->needs & WI_ALGO_MAPPED && strcmp(cc_families[kind], wi_coll_name(algo->coll)) == 0;
}

/* Shorter than a line, longer than one, and of several slices. */
static void run_algorithm(struct cc_world *w, const struct wi_algo *algo, enum cc_kind kind, int shareable)
{
    static const size_t counts[] = {1, 75, 300};

    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        size_t most = kind == CC_all_reduce || kind == CC_reduce || kind == CC_broadcast ? 16 : 1;
        struct cc_call c = {.kind = kind,
                            .dtype = WEFT_INT32,
                            .op = WEFT_SUM,
                            .count = counts[i] * most,
                            .root = w->nranks - 1,
                            .memory = shareable && algo->needs & WI_ALGO_PEER_MEM ? CC_MEM_ALLOC : CC_MALLOC,
                            .algorithm = algo->name,
                            .seed = 3 * i};
        cc_run(w, &c);
    }
}

static void rank_main(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    unsigned long expected = 0;
    struct cc_world w;

    cc_world_open(&w, job->fixture, rank, nranks);
    for (int k = 0; k < CC_NUM_KINDS; k++)
        if (serves(job->algo, (enum cc_kind)k)) {
            run_algorithm(&w, job->algo, (enum cc_kind)k, job->fixture->shareable);
            expected++;
        }
    WT_CHECK(expected > 0);
    if (job->fixture->shareable) /* with v-forms that an algorithm may refuse there is one that it runs */
        WT_CHECK(w.calls > 0);
    cc_world_close(&w);
}

static int wanted(const char *title, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strstr(title, argv[i]))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    static const int numbers[] = {65, 66};
    int ran = 0, failed = 0;
    char title[128];

    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (size_t i = 0; i < COUNT_OF(numbers) && (*a)->needs & WI_ALGO_MAPPED; i++) {
            const struct cc_fixture *f = &fixtures[i];
            struct job job = {f, *a};
            uint64_t began = wt_now_ms();
            snprintf(title, sizeof title, "%s:%s over %s, %d ranks", wi_coll_name((*a)->coll), (*a)->name, f->name,
                     numbers[i]);
            if (!wanted(title, argc, argv))
                continue;
            int bad = f->threads ? wt_threads_apart(numbers[i], rank_main, &job, 60000)
                                 : wt_run(numbers[i], rank_main, &job, 60000);
            printf("%sok %d - %s # %llu ms\n", bad ? "not " : "", ++ran, title,
                   (unsigned long long)(wt_now_ms() - began));
            fflush(stdout);
            failed += bad != 0;
        }
    printf("1..%d\n", ran);
    return failed || ran == 0;
}
