/* Hierarchical algorithms: ranks on "hosts" of different sizes (names that WEFT_NODE_ID gives them), not in the order of the
 * hosts, so that shared memory serves those of one and TCP the others.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/harness.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* 3 + 1 + 4 of eight, 2 + 1 + 2 of five, 2 + 1 of three. */
static const int host_of[] = {0, 2, 0, 1, 2, 0, 2, 2};

static const struct {
    const char *family, *spec;
} specs[] = {
    {"all_reduce", "node:ring"},
    {"all_reduce", "node:rdouble*3/pairwise+rdouble"},
    {"all_reduce", "node:dbtree@leader*2/knomial"},
    {"all_reduce", "node:swing"},
    {"reduce", "node:rsgather"},
    {"reduce", "node:bine@leader*2"},
    {"broadcast", "node:scatter_ring*2"},
    {"broadcast", "node:knomial@leader"},
    {"all_gather", "node:ring/bruck"},
    {"all_gather", "node:pat@leader"},
    {"reduce_scatter", "node:ring"},
    {"reduce_scatter", "node:rhalving/ring"},
    {"reduce_scatter", "node:pairwise@leader"},
    {"all_to_all", "node:pairwise"},
    {"all_to_all", "node:linear"},
    {"all_to_all", "node:pairwise@leader/knomial+linear"},
    {"barrier", "node:dissem"},
    {"all_reduce", "rank:ring"},
    {"all_gather", "rank:ring"},
    {"broadcast", "rank:chain*2"},
    {"barrier", "node:dissem@leader"},
};

/* Types, operators, forms and roots in turn. */
static struct cc_call nth_call(const struct cc_world *w, uint64_t n)
{
    uint64_t h = cc_hash(n, 8, 9);
    struct cc_call c = {.kind = CC_all_reduce, .seed = n, .root = (int)(h % (uint64_t)w->nranks)};

    c.form = (enum cc_form)(n % CC_NUM_FORMS);
    c.dtype = (weft_dtype)((h >> 8) % WEFT_NUM_DTYPES);
    c.packed = (h >> 24) % 3 == 0;
    c.op = (int)((h >> 32) % CC_NUM_OPS);
    c.in_place = (int)((h >> 40) % 2);
    while (!cc_op_defined(c.dtype, c.op))
        c.op = (c.op + 1) % CC_NUM_OPS;
    return c;
}

/* Calls that the spec did, of all kinds that its family serves. */
static unsigned long run_spec(struct cc_world *w, const struct cc_job *job, size_t i, uint64_t *n)
{
    static const size_t counts[] = {0, 1, 5, 64, 1000, 4097, 50021};
    unsigned long before = w->calls, refused;

    for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
        if (strcmp(cc_families[kind], specs[i].family))
            continue;
        for (size_t k = 0; k < COUNT_OF(counts) - !job->full; k++) {
            struct cc_call c = nth_call(w, ++*n);
            c.kind = (enum cc_kind)kind;
            c.count = counts[k];
            c.algorithm = specs[i].spec;
            cc_run(w, &c);
            c.op = WEFT_SUM; /* that is never refused for the operator's sake */
            c.in_place = 0;
            refused = w->refused;
            cc_run(w, &c);
            if (w->refused != refused && (kind == CC_all_to_all_v || kind == CC_reduce_scatter_v))
                wt_fail(__FILE__, __LINE__, "%s %s was refused", cc_kind_names[kind], specs[i].spec);
        }
    }
    return w->calls - before;
}

void cc_case_levels(int rank, int nranks, void *arg)
{
    const struct cc_job *job = arg;
    struct cc_world w;
    uint64_t n = (uint64_t)nranks * 100;
    char host[16];

    snprintf(host, sizeof host, "host%d", host_of[rank]);
    if (!job->fixture->threads) /* these have one environment, and are on one host */
        setenv("WEFT_NODE_ID", host, 1);
    cc_world_open(&w, job->fixture, rank, nranks);
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        unsigned long done = run_spec(&w, job, i, &n);
        if (done < 5)
            wt_fail(__FILE__, __LINE__, "%s %s did %lu calls", specs[i].family, specs[i].spec, done);
    }
    if (rank == 0)
        fprintf(stderr, "%s, %d ranks, levels: %lu calls, %lu refused with a reason\n", job->fixture->name, nranks,
                w.calls, w.refused);
    cc_world_close(&w);
}
