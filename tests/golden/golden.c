/* SPDX-License-Identifier: BSD-3-Clause */
/* Golden schedules: the text of selected algorithms must be what tests/golden/<collective>_<algorithm>.txt says, so
 * that a change of what goes over the wire is seen in review. WEFT_TEST_GOLDEN_WRITE=1 writes the files instead. */
#include <errno.h>

#include "algo/algo.h"
#include "base/status.h"
#include "tests/unit/unit.h"

#define MAX_BYTES (1u << 20)

struct golden {
    enum wi_coll coll;
    const char *algo;
    int root, in_place;
    const char *spec; /* of a hierarchical one, whose file is named by `algo`; else NULL */
};

static const struct golden goldens[] = {
    {WI_COLL_ALL_REDUCE, "flat", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "flat2", 0, 1, NULL},
    {WI_COLL_ALL_REDUCE, "direct", 0, 1, NULL},
    {WI_COLL_ALL_REDUCE, "pull", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "ring", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "ring2", 0, 1, NULL},
    {WI_COLL_ALL_REDUCE, "rdouble", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "rhalving", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "swing", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "swing_short", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "dbtree", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "flat_send", 0, 1, NULL},
    {WI_COLL_ALL_REDUCE, "coded", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "coded2", 0, 1, NULL},
    {WI_COLL_REDUCE, "chain", 1, 0, NULL},
    {WI_COLL_REDUCE, "rsgather", 0, 1, NULL},
    {WI_COLL_REDUCE, "bine", 0, 0, NULL},
    {WI_COLL_BROADCAST, "knomial", 1, 0, NULL},
    {WI_COLL_BROADCAST, "coded", 1, 0, NULL},
    {WI_COLL_BROADCAST, "coded_chain", 0, 1, NULL},
    {WI_COLL_BROADCAST, "bine", 1, 0, NULL},
    {WI_COLL_BROADCAST, "scatter_ring", 0, 0, NULL},
    {WI_COLL_BROADCAST, "split", 1, 0, NULL},
    {WI_COLL_ALL_GATHER, "bruck", 0, 0, NULL},
    {WI_COLL_ALL_GATHER, "neighbor", 0, 0, NULL},
    {WI_COLL_ALL_GATHER, "bine", 0, 0, NULL},
    {WI_COLL_ALL_GATHER, "pat", 0, 0, NULL},
    {WI_COLL_ALL_GATHER, "coded", 0, 1, NULL},
    {WI_COLL_REDUCE_SCATTER, "coded", 0, 0, NULL},
    {WI_COLL_REDUCE_SCATTER, "rhalving", 0, 0, NULL},
    {WI_COLL_REDUCE_SCATTER, "bine", 0, 0, NULL},
    {WI_COLL_REDUCE_SCATTER, "pat", 0, 1, NULL},
    {WI_COLL_ALL_TO_ALL, "bruck", 0, 0, NULL},
    {WI_COLL_ALL_TO_ALL, "coded", 0, 0, NULL},
    {WI_COLL_GATHER, "knomial", 1, 0, NULL},
    {WI_COLL_SCAN, "rdouble", 0, 0, NULL},
    {WI_COLL_EXSCAN, "rdouble", 0, 1, NULL},
    {WI_COLL_BARRIER, "dissem", 0, 0, NULL},
    {WI_COLL_ALL_REDUCE, "node_ring", 0, 0, "node:ring*2/ring+rdouble"},
    {WI_COLL_ALL_REDUCE, "node_coded2", 0, 0, "node:coded2"},
    {WI_COLL_REDUCE_SCATTER, "node_coded", 0, 1, "node:coded"},
    {WI_COLL_BROADCAST, "node_leader", 1, 0, "node:knomial@leader"},
    {WI_COLL_ALL_GATHER, "node_bruck", 0, 1, "node:bruck/linear"},
    {WI_COLL_ALL_TO_ALL, "node_leader", 0, 0, "node:linear@leader"},
    {WI_COLL_ALL_TO_ALL_V, "node_pairwise", 0, 0, "node:pairwise"},
};

static void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void report(const char *format, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    CU_assertImplementation(CU_FALSE, __LINE__, text, __FILE__, "", CU_FALSE);
}

static int print_one(const struct wi_algo *algo, const struct wi_algo_args *args, FILE *out)
{
    struct wi_sched *sched;
    if (algo->build(args, &sched) != WEFT_SUCCESS) {
        report("P=%d rank %d: %s", args->nranks, args->rank, wi_fail_text());
        return -1;
    }
    weft_status st = wi_sched_print(sched, out);
    CU_ASSERT_EQUAL(st, WEFT_SUCCESS);
    wi_sched_put(sched);
    return 0;
}

/* The text of all ranks for P = 2..5; NULL after a failure. free it. */
static char *text_of(const struct golden *g, size_t *bytes)
{
    const struct wi_algo *algo = g->spec ? wi_algo_hier(g->coll) : wi_algo_find(g->coll, g->algo);
    static const int32_t node[] = {0, 1, 0, 1, 0}; /* two nodes, ranks dealt out */
    static const struct wi_algo_levels levels = {.nlevels = 1, .level = {{"node", 2, node}}};
    struct wi_hier_spec spec = {0};
    char *text = NULL;
    int bad = 0;

    if (!algo) {
        report("%s/%s: no such algorithm", wi_coll_name(g->coll), g->algo);
        return NULL;
    }
    if (g->spec)
        CU_ASSERT_EQUAL_FATAL(wi_hier_parse(g->coll, g->spec, &levels, &spec), WEFT_SUCCESS);
    FILE *out = open_memstream(&text, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    for (int n = 2; n <= 5 && !bad; n++) {
        if (wi_algo_ranks_needed(algo->needs, n))
            continue;
        for (int r = 0; r < n && !bad; r++) {
            struct wi_algo_args args = {r, n, g->root, g->in_place, 0, g->spec ? &levels : NULL, &spec};
            fprintf(out, "# P=%d rank=%d root=%d%s\n", n, r, g->root, g->in_place ? " in place" : "");
            bad = print_one(algo, &args, out);
        }
    }
    fclose(out);
    if (!bad)
        return text;
    free(text);
    return NULL;
}

static void path_of(const struct golden *g, char path[512])
{
    const char *top = getenv("WEFT_SRCDIR");
    snprintf(path, 512, "%s/tests/golden/%s_%s.txt", top && *top ? top : ".", wi_coll_name(g->coll), g->algo);
}

static void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *out = fopen(path, "w");
    if (!out || fwrite(text, 1, bytes, out) != bytes)
        report("%s: %s", path, strerror(errno));
    if (out && fclose(out) != 0)
        report("%s: %s", path, strerror(errno));
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *in = fopen(path, "r");
    char *text = calloc(1, MAX_BYTES + 1);
    if (!in || !text) {
        report("%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        *bytes = fread(text, 1, MAX_BYTES, in);
    }
    if (in)
        fclose(in);
    return text;
}

/* Names the first line that differs. */
static void compare(const char *path, const char *want, size_t want_bytes, const char *is, size_t is_bytes)
{
    size_t i = 0, line = 1, start = 0;
    while (i < want_bytes && i < is_bytes && want[i] == is[i]) {
        if (want[i++] == '\n') {
            line++;
            start = i;
        }
    }
    if (i == want_bytes && i == is_bytes)
        return;
    report("%s:%zu: expected \"%.*s\", the schedule says \"%.*s\"", path, line, (int)strcspn(want + start, "\n"),
           want + start, (int)strcspn(is + start, "\n"), is + start);
}

static void schedules_are_as_recorded(void)
{
    const char *write = getenv("WEFT_TEST_GOLDEN_WRITE");
    char path[512];

    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        size_t bytes = 0, want_bytes = 0;
        char *text = text_of(&goldens[i], &bytes), *want;
        if (!text)
            continue;
        path_of(&goldens[i], path);
        if (write && strcmp(write, "1") == 0) {
            write_file(path, text, bytes);
        } else if ((want = read_file(path, &want_bytes))) {
            compare(path, want, want_bytes, text, bytes);
            free(want);
        }
        free(text);
    }
}

static const struct wt_case cases[] = {
    {"schedules are as recorded", schedules_are_as_recorded},
};
WT_UNIT_MAIN("golden", cases)
