/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a tuning table: refused with a reason that names the file, or written as a table that reads the same; and
 * whatever it says, a planner made from it answers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_tuning: %s: %s\n", what, wi_fail_text());
    abort();
}

static char *write_table(const struct wi_plan_table *t, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    require(f && wi_plan_table_write(t, f) == WEFT_SUCCESS, "write");
    fclose(f);
    return text;
}

static void round_trip(const struct wi_plan_table *t)
{
    struct wi_plan_table *again = NULL;
    size_t n, m;
    char *first = write_table(t, &n), *second;

    require(wi_plan_table_parse(first, n, "again", &again) == WEFT_SUCCESS, "its own text");
    second = write_table(again, &m);
    require(n == m && !memcmp(first, second, n), "round trip");
    free(first);
    free(second);
    wi_plan_table_free(again);
}

static void plan_with(const struct wi_plan_table *t, int nranks, int nnodes)
{
    static const size_t sizes[] = {0, 8, 1000, 65536, 1u << 20, 1u << 30};
    int32_t node[16];
    struct wi_algo_levels levels = {1, {{"node", nnodes, node}}};
    struct wi_plan_facts facts = {.nranks = nranks, .nnodes = nnodes, .mapped = nnodes == 1, .levels = &levels};
    struct wi_plan_config config = {.facts = &facts, .table = t};
    struct wi_planner *p;
    struct wi_plan plan;

    for (int r = 0; r < nranks; r++)
        node[r] = r / (nranks / nnodes);
    require(wi_planner_create(&config, &p) == WEFT_SUCCESS, "planner");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE,
                                  .bytes = sizes[i],
                                  .memory = (enum wi_plan_memory)(i % 3),
                                  .work = (uint8_t)(i * 37 % WI_PLAN_WORKS)};
        require(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS && plan.algo && plan.algo->coll == WI_COLL_ALL_REDUCE,
                "plan");
    }
    wi_planner_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_plan_table *t = NULL;

    wi_fail_clear();
    if (wi_plan_table_parse((const char *)data, bytes, "input", &t) < 0) {
        require(strncmp(wi_fail_text(), "input", 5) == 0, "a reason that names the file");
        return 0;
    }
    round_trip(t);
    plan_with(t, 4, 1);
    plan_with(t, 4, 2);
    wi_plan_table_free(t);
    return 0;
}
