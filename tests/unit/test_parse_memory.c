/* Parsers without memory: whichever allocation fails, the text is refused for that reason and nothing is read, written or freed
 * that was not there. The texts are the golden schedules and topologies and the fuzzers' corpora.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/table.h"
#include "import/import.h"
#include "sched/sched.h"
#include "topology/graph.h"
#include "unit.h"

#define MAX_TEXT 65536
#define MAX_ALLOCATIONS 400 /* of one text; of longer ones the first and every so many'th behind */

typedef weft_status (*parser)(const char *text, size_t bytes);

static int texts, trials;

static weft_status schedule(const char *text, size_t bytes)
{
    struct wi_sched *sched = NULL;
    weft_status st = wi_sched_parse(text, bytes, &sched);

    wi_sched_put(sched);
    return st;
}

static weft_status program(const char *text, size_t bytes)
{
    struct wi_import *import = NULL;
    weft_status st = wi_import_text("text", text, bytes, &import);

    wi_import_free(import);
    return st;
}

static weft_status table(const char *text, size_t bytes)
{
    struct wi_plan_table *t = NULL;
    weft_status st = wi_plan_table_parse(text, bytes, "text", &t);

    wi_plan_table_free(t);
    return st;
}

static weft_status topology(const char *text, size_t bytes)
{
    struct wi_topo *t = NULL;
    weft_status st = wi_topo_parse(text, bytes, &t);

    wi_topo_put(t);
    return st;
}

static weft_status packed(const char *text, size_t bytes)
{
    struct wi_topo *t = NULL;
    weft_status st = wi_topo_unpack(text, bytes, &t);

    wi_topo_put(t);
    return st;
}

static void parse_without_memory(const char *name, parser parse, const char *text, size_t bytes)
{
    long count, step;
    weft_status fed;

    wi_alloc_fail_nth(0);
    fed = parse(text, bytes);
    count = wi_alloc_fail_nth(0);
    step = 1 + count / MAX_ALLOCATIONS;
    texts++;
    for (long n = 1; n <= count; n += n < 100 ? 1 : step) {
        wi_alloc_fail_nth(n);
        weft_status st = parse(text, bytes);
        wi_alloc_fail_nth(0);
        trials++;
        if (st == WEFT_ENOMEM || (fed < 0 && st == fed))
            continue;
        printf("# %s: allocation %ld of %ld fails: %s (%s), with memory %s\n", name, n, count, weft_status_name(st),
               wi_fail_text(), weft_status_name(fed));
        CU_FAIL("a parser did without memory");
    }
}

/* `skip`: bytes at the start that are the fuzzer's. */
static void parse_without_memory_file(const char *path, size_t skip, parser parse)
{
    static char text[MAX_TEXT];
    FILE *f = fopen(path, "rb");
    size_t bytes;

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    bytes = fread(text, 1, sizeof(text), f);
    fclose(f);
    if (bytes > skip && bytes < sizeof(text))
        parse_without_memory(path, parse, text + skip, bytes - skip);
}

static void parse_without_memory_folder(const char *folder, size_t skip, parser parse)
{
    const char *top = getenv("WEFT_SRCDIR");
    struct dirent **entries;
    char path[1024];
    struct stat st;
    int n;

    texts = trials = 0;
    snprintf(path, sizeof(path), "%s/%s", top ? top : ".", folder);
    n = scandir(path, &entries, NULL, alphasort);
    CU_ASSERT_FATAL(n > 0);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", top ? top : ".", folder, entries[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && strcmp(entries[i]->d_name, "README"))
            parse_without_memory_file(path, skip, parse);
        free(entries[i]);
    }
    free(entries);
    printf("# %s: %d texts, %d times\n", folder, texts, trials);
    CU_ASSERT(texts > 0 && trials > texts);
}

/* Lanes that hold nothing: what is said of them is looked up in the builder afterwards. */
static void lanes_only(void)
{
    static const char head[] = "weft-schedule 1\n"
                               "coll barrier algo lanes rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n";
    char text[16384];
    int at;

    at = snprintf(text, sizeof(text), "%s", head);
    for (int i = 0; i < 40; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "lane %d send - recv - chan 0\n", i);
    at += snprintf(text + at, sizeof(text) - (size_t)at, "end\n");
    CU_ASSERT_EQUAL(schedule(text, (size_t)at), WEFT_SUCCESS);
    parse_without_memory("lanes", schedule, text, (size_t)at);
}

static void schedules(void)
{
    parse_without_memory_folder("tests/golden", 0, schedule);
    parse_without_memory_folder("tests/fuzz/corpus/fuzz_sched", 0, schedule);
}

static void programs(void)
{
    parse_without_memory_folder("tests/golden", 0, program);
}

static void tables(void)
{
    parse_without_memory_folder("tests/fuzz/corpus/fuzz_tuning", 0, table);
}

static void topologies(void)
{
    parse_without_memory_folder("tests/fuzz/corpus/fuzz_topo", 1, topology);
    parse_without_memory_folder("tests/fuzz/corpus/fuzz_topo", 1, packed);
}

static const struct wt_case cases[] = {
    {"lanes without steps", lanes_only}, {"schedules", schedules},   {"programs", programs},
    {"tuning tables", tables},           {"topologies", topologies},
};
WT_UNIT_MAIN("parse_memory", cases)
