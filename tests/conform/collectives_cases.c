/* What the ranks of one communicator do, case by case. All ranks make the same choices: they depend on seeds only.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/harness.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const size_t counts[] = {0, 1, 2, 3, 7, 17, 64, 1000, 4097, 300001};

static void finish(struct cc_world *w, const struct cc_job *job, const char *name)
{
    if (w->rank == 0)
        fprintf(stderr, "%s, %d ranks, %s: %lu calls, %lu refused with a reason\n", job->fixture->name, w->nranks, name,
                w->calls, w->refused);
    WT_CHECK(w->calls > 0);
    cc_world_close(w);
}

/* A call whose details follow from its number. */
static struct cc_call nth_call(const struct cc_world *w, uint64_t n)
{
    static const unsigned shifts[] = {0, 0, 1, 3, 4, 8, 17};
    uint64_t h = cc_hash(n, 5, 6);
    struct cc_call c = {.kind = CC_all_reduce, .seed = n, .root = (int)(h % (uint64_t)w->nranks)};

    c.form = (enum cc_form)(n % CC_NUM_FORMS);
    c.dtype = (weft_dtype)((h >> 8) % WEFT_NUM_DTYPES);
    c.shift = shifts[(h >> 16) % COUNT_OF(shifts)];
    c.packed = (h >> 24) % 3 == 0;
    c.op = (int)((h >> 32) % CC_NUM_OPS);
    return c;
}

static int makes_sense(const struct cc_call *c)
{
    int prefix = c->kind == CC_scan || c->kind == CC_exscan;

    return cc_op_defined(c->dtype, c->op) && !(prefix && c->op == WEFT_AVG);
}

static void settle_op(struct cc_call *c)
{
    while (!makes_sense(c))
        c->op = (c->op + 1) % CC_NUM_OPS;
}

/* ---- Every operation, count, form, in place and not ---- */

static void all_forms(struct cc_world *w, struct cc_call *c, uint64_t *n, int full)
{
    int forms = full ? CC_NUM_FORMS : 1;

    for (int f = 0; f < forms; f++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            enum cc_kind kind = c->kind;
            size_t count = c->count;
            *c = nth_call(w, ++*n);
            c->kind = kind;
            c->count = count;
            c->in_place = in_place;
            if (full)
                c->form = (enum cc_form)f;
            settle_op(c);
            cc_run(w, c);
        }
    }
}

void cc_case_forms(int rank, int nranks, void *arg)
{
    const struct cc_job *job = arg;
    struct cc_world w;
    uint64_t n = (uint64_t)nranks * 1000;

    cc_world_open(&w, job->fixture, rank, nranks);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
            struct cc_call c = {.kind = (enum cc_kind)kind, .count = counts[i]};
            int long_one = counts[i] > 100000;
            n++;
            /* Checking a long vector takes long: each kind at some numbers of ranks, in one form. */
            if (long_one && (job->fixture->small || kind % 3 != nranks % 3 || (!job->full && nranks > 3)))
                continue;
            all_forms(&w, &c, &n, job->full && !long_one);
        }
    }
    finish(&w, job, "forms");
}

/* ---- Every type with every operator ---- */

void cc_case_types(int rank, int nranks, void *arg)
{
    static const size_t few[] = {1, 19, 130};
    const struct cc_job *job = arg;
    struct cc_world w;
    uint64_t n = 0;

    cc_world_open(&w, job->fixture, rank, nranks);
    for (int dtype = 0; dtype < WEFT_NUM_DTYPES; dtype++) {
        for (int op = 0; op < CC_NUM_OPS; op++) {
            for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
                struct cc_call c = nth_call(&w, ++n);
                c.kind = (enum cc_kind)kind;
                c.dtype = (weft_dtype)dtype;
                c.op = op;
                c.count = few[n % 3];
                c.in_place = (int)(n / 3 % 2);
                if (makes_sense(&c) && (cc_reduces(c.kind) || op == 0))
                    cc_run(&w, &c);
            }
        }
    }
    finish(&w, job, "types");
}

/* ---- Every algorithm by its name ---- */

struct named {
    char collective[32], algorithm[32];
};
struct names {
    size_t n;
    struct named list[128];
};

static void note_name(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    struct names *names = arg;

    WT_CHECK(summary && *summary);
    if (names->n == COUNT_OF(names->list) || strncmp(algorithm, "coded", 5) == 0) /* multi/test_compress.c */
        return;
    snprintf(names->list[names->n].collective, sizeof names->list->collective, "%s", collective);
    snprintf(names->list[names->n++].algorithm, sizeof names->list->algorithm, "%s", algorithm);
}

static void one_algorithm(struct cc_world *w, const struct cc_job *job, const struct named *name, uint64_t *n)
{
    static const size_t sizes[] = {1, 5, 64, 1000, 4097, 50021, 300001};
    size_t most = job->full ? COUNT_OF(sizes) : w->nranks > 4 ? 4 : 5;

    for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
        if (strcmp(cc_families[kind], name->collective) != 0)
            continue;
        for (size_t i = 0; i < most; i++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                struct cc_call c = nth_call(w, ++*n);
                if (i > 4 && (job->fixture->small || ((unsigned)w->nranks + *n) % 8))
                    continue;
                c.kind = (enum cc_kind)kind;
                c.count = sizes[i];
                c.in_place = in_place;
                c.form = (enum cc_form)(*n % 2);
                c.memory = (enum cc_memory)(job->fixture->shareable && *n % 4 == 0 ? CC_MEM_ALLOC : CC_MALLOC);
                c.algorithm = name->algorithm;
                settle_op(&c);
                cc_run(w, &c);
            }
        }
    }
}

void cc_case_algorithms(int rank, int nranks, void *arg)
{
    const struct cc_job *job = arg;
    struct names names = {.n = 0};
    struct cc_world w;
    uint64_t n = 0;

    cc_world_open(&w, job->fixture, rank, nranks);
    WT_CHECK_OK(weft_algorithm_list(note_name, &names));
    WT_CHECK(names.n >= 20 && names.n < COUNT_OF(names.list));
    for (size_t i = 0; i < names.n; i++) {
        unsigned long before = w.calls;
        one_algorithm(&w, job, &names.list[i], &n);
        if (w.calls == before && rank == 0)
            fprintf(stderr, "%s, %d ranks: %s of %s always refused\n", job->fixture->name, nranks,
                    names.list[i].algorithm, names.list[i].collective);
    }
    finish(&w, job, "algorithms");
}

/* ---- Operators of the user ---- */

void cc_case_operators(int rank, int nranks, void *arg)
{
    static const int ops[] = {CC_OP_PLUS_ONE, CC_OP_AFFINE, CC_OP_PREMUL, WEFT_AVG};
    static const weft_dtype dtypes[] = {WEFT_INT64, WEFT_UINT64, WEFT_FLOAT32, WEFT_BFLOAT16};
    const struct cc_job *job = arg;
    struct cc_world w;
    uint64_t n = 40;

    cc_world_open(&w, job->fixture, rank, nranks);
    for (size_t o = 0; o < COUNT_OF(ops); o++) {
        for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
            for (size_t i = 1; i < COUNT_OF(counts) - !job->full; i++) {
                struct cc_call c = nth_call(&w, ++n);
                c.kind = (enum cc_kind)kind;
                c.op = ops[o];
                c.dtype = dtypes[o];
                c.count = counts[i];
                c.in_place = (int)(n / 4 % 2);
                if (counts[i] > 100000 && (job->fixture->small || kind % 3 != nranks % 3))
                    continue;
                if (cc_reduces(c.kind) && makes_sense(&c))
                    cc_run(&w, &c);
            }
        }
    }
    finish(&w, job, "operators");
}

/* ---- Kinds of memory, at sizes where they matter ---- */

static int has(const struct names *names, const char *collective, const char *algorithm)
{
    for (size_t i = 0; algorithm && i < names->n; i++)
        if (!strcmp(names->list[i].collective, collective) && !strcmp(names->list[i].algorithm, algorithm))
            return 1;
    return !algorithm;
}

void cc_case_memory(int rank, int nranks, void *arg)
{
    static const char *const names[] = {NULL, "direct", "pull", "flat2", "flat", "split"};
    static const size_t sizes[] = {300007, 1200011};
    const struct cc_job *job = arg;
    struct names list = {.n = 0};
    struct cc_world w;
    uint64_t n = 0;

    cc_world_open(&w, job->fixture, rank, nranks);
    WT_CHECK_OK(weft_algorithm_list(note_name, &list));
    for (int kind = 0; kind < CC_NUM_KINDS; kind++) {
        for (int memory = 0; memory < CC_NUM_MEMORIES; memory++) {
            for (size_t a = 0; a < COUNT_OF(names); a++) {
                struct cc_call c = nth_call(&w, ++n);
                c.kind = (enum cc_kind)kind;
                c.dtype = WEFT_INT32;
                c.op = WEFT_SUM;
                c.memory = (enum cc_memory)memory;
                c.count = kind == CC_all_reduce ? sizes[n % 2] : sizes[0] / (unsigned)nranks;
                c.in_place = (int)(n % 2);
                c.shift = n % 3 == 0 ? 4 : 0;
                c.form = CC_BLOCKING;
                c.algorithm = names[a];
                if (kind != CC_barrier && has(&list, cc_families[kind], names[a]) &&
                    (a < 2 || kind == CC_all_reduce || kind == CC_broadcast || job->full))
                    cc_run(&w, &c);
            }
        }
    }
    /* A rank's memory may be shareable and another's not. */
    for (int i = 0; i < 2 * CC_NUM_MEMORIES; i++) {
        struct cc_call c = nth_call(&w, ++n);
        c.kind = CC_broadcast;
        c.dtype = WEFT_INT32;
        c.op = WEFT_SUM;
        c.memory = (enum cc_memory)((i + rank) % CC_NUM_MEMORIES);
        c.count = sizes[0];
        c.in_place = i % 2;
        c.form = CC_BLOCKING;
        c.algorithm = i < CC_NUM_MEMORIES ? "split" : "direct";
        cc_run(&w, &c);
    }
    finish(&w, job, "memory");
}

/* ---- Two copy paths, of which one is learnt ---- */

/* Lines of this rank's flight recorder that name an algorithm. */
static int ran(struct cc_world *w, const char *algorithm)
{
    char path[64], line[1024], want[64];
    int seen = 0;
    FILE *in;

    snprintf(path, sizeof path, "copy-paths-%d-%d.json", (int)getpid(), w->rank);
    snprintf(want, sizeof want, "\"%s\"", algorithm);
    WT_REQUIRE_OK(weft_comm_dump(w->comm, path));
    in = fopen(path, "r");
    WT_REQUIRE(in != NULL);
    while (fgets(line, sizeof line, in))
        seen += strstr(line, want) != NULL;
    fclose(in);
    unlink(path);
    return seen;
}

/* Large copies between ordinary buffers go by slots or by attach, as one rank measures; others follow it, whatever form of the call
 * they use. In the first 32 calls of a size both have their trials. */
void cc_case_copy_paths(int rank, int nranks, void *arg)
{
    static const struct {
        enum cc_kind kind;
        const char *attach;
    } kinds[] = {{CC_all_gather, "direct"}, {CC_all_to_all, "direct"}, {CC_broadcast, NULL}};
    const struct cc_job *job = arg;
    struct cc_world w;
    uint64_t n = 0;

    cc_world_open(&w, job->fixture, rank, nranks);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        for (int i = 0; i < 40; i++) {
            struct cc_call c = nth_call(&w, ++n);
            c.kind = kinds[k].kind;
            c.dtype = WEFT_INT32;
            c.op = WEFT_SUM;
            c.count = 70001;
            c.in_place = 0;
            c.shift = 0;
            c.root = 0;
            c.form = rank && (i + rank) % 5 == 0 ? CC_REQUEST : CC_BLOCKING;
            cc_run(&w, &c);
        }
        WT_CHECK(ran(&w, "flat") >= 3);
        WT_CHECK(kinds[k].attach ? ran(&w, kinds[k].attach) >= 3 : ran(&w, "direct") + ran(&w, "split") >= 3);
    }
    finish(&w, job, "copy_paths");
}
