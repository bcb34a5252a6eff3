/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules with mapped stages as text, JSON and DOT: hierarchical ones of two nodes with four ranks each. */
#include "unit.h"

#include <jansson.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/status.h"

#define NRANKS 8

static const int32_t node[NRANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
static const struct wi_algo_levels levels = {.nlevels = 1, .level = {{"node", 2, node}}};

static struct wi_sched *built(enum wi_coll coll, const char *text, int rank, int in_place)
{
    struct wi_hier_spec spec;
    struct wi_algo_args args = {
        .rank = rank, .nranks = NRANKS, .root = 5, .in_place = in_place, .levels = &levels, .spec = &spec};
    struct wi_sched *s = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_hier_parse(coll, text, &levels, &spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_algo_hier(coll)->build(&args, &s), WEFT_SUCCESS);
    return s;
}

static char *written(const struct wi_sched *s, weft_status (*write)(const struct wi_sched *, FILE *))
{
    size_t bytes;
    char *text = NULL;
    FILE *f = open_memstream(&text, &bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(write(s, f), WEFT_SUCCESS);
    fclose(f);
    return text;
}

static int count_text(const char *text, const char *what)
{
    int n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* ---- Text ---- */

static int same_stage(const struct wi_sched_stage *a, const struct wi_sched_stage *b)
{
    if (!a || !b)
        return a == b;
    return a->nshares == b->nshares && a->max_items == b->max_items && a->final == b->final &&
           memcmp(a->at, b->at, sizeof a->at) == 0 &&
           memcmp(a->ranks, b->ranks, (size_t)a->sched->nranks * sizeof *a->ranks) == 0 &&
           memcmp(a->start, b->start, (a->nshares + (size_t)1) * sizeof *a->start) == 0 &&
           memcmp(a->item, b->item, a->start[a->nshares] * sizeof *a->item) == 0 &&
           a->sched->nsteps == b->sched->nsteps && a->sched->ll == b->sched->ll &&
           memcmp(a->sched->steps, b->sched->steps, a->sched->nsteps * sizeof *a->sched->steps) == 0;
}

/* Returns how many stages it has. */
static int round_trip(enum wi_coll coll, const char *spec, int rank, int in_place)
{
    struct wi_sched *s = built(coll, spec, rank, in_place), *parsed = NULL;
    char *text = written(s, wi_sched_print), *again;
    int nstages = (s->before != NULL) + (s->after != NULL);
    weft_status st = wi_sched_parse(text, strlen(text), &parsed);

    if (st < 0)
        printf("# %s\n%s", wi_fail_text(), text);
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    CU_ASSERT(parsed->staged == s->staged && parsed->slot_items == s->slot_items);
    CU_ASSERT(same_stage(parsed->before, s->before) && same_stage(parsed->after, s->after));
    CU_ASSERT(parsed->nsteps == s->nsteps && memcmp(parsed->steps, s->steps, s->nsteps * sizeof *s->steps) == 0);
    again = written(parsed, wi_sched_print);
    CU_ASSERT_STRING_EQUAL(text, again);
    CU_ASSERT_EQUAL(count_text(text, "end_stage\n"), nstages);
    CU_ASSERT_EQUAL(strncmp(text, s->staged ? "weft-schedule 2\n" : "weft-schedule 1\n", 16), 0);
    wi_sched_put(s);
    wi_sched_put(parsed);
    free(text);
    free(again);
    return nstages;
}

static void stages_survive_the_round_trip(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_REDUCE,         WI_COLL_BROADCAST,
                                         WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER, WI_COLL_BARRIER};
    static const char *const outer[] = {"ring", "ring", "knomial", "ring", "ring", "dissem"};
    int nstages = 0;

    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        for (int rank = 0; rank < NRANKS; rank++)
            for (int form = 0; form < 4; form++) {
                char spec[WI_ALGO_SPEC_BYTES];
                snprintf(spec, sizeof spec, "node:%s%s/flat", outer[i], form & 1 ? "@leader" : "");
                if (wi_hier_parse(colls[i], spec, &levels, &(struct wi_hier_spec){0}) == WEFT_SUCCESS)
                    nstages += round_trip(colls[i], spec, rank, form >> 1 & (colls[i] != WI_COLL_BARRIER));
            }
    printf("# %d stages\n", nstages);
    CU_ASSERT(nstages > 200);
    CU_ASSERT_EQUAL(round_trip(WI_COLL_ALL_REDUCE, "node:ring/ring", 0, 0), 0); /* in messages: as it was */
}

static void text_says_groups_and_shares(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char *text = written(s, wi_sched_print);

    CU_ASSERT_PTR_NOT_NULL(strstr(text, "algo node:ring/flat rank 6 nranks 8"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nstage before src src 0 "));
    CU_ASSERT_EQUAL(count_text(text, "\nranks 4 5 6 7\n"), 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\ncoll reduce_scatter algo flat rank 2 nranks 4"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\ncoll all_gather algo flat rank 2 nranks 4"));
    CU_ASSERT_EQUAL(count_text(text, "\nshare "), 8);
    wi_sched_put(s);
    free(text);
}

/* The text with the first `from` after `after` changed into `to`. */
static char *changed(const char *text, const char *after, const char *from, const char *to)
{
    const char *at = strstr(strstr(text, after), from);
    char *now = NULL;

    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    CU_ASSERT_FATAL(asprintf(&now, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    return now;
}

static void text_refused(const char *text, const char *why)
{
    struct wi_sched *s = NULL;

    CU_ASSERT_EQUAL(wi_sched_parse(text, strlen(text), &s), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(s);
    if (!strstr(wi_fail_text(), why))
        printf("# wanted \"%s\", found \"%s\"\n", why, wi_fail_text());
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), why));
}

static void refused(const char *text, const char *after, const char *from, const char *to, const char *why)
{
    char *now = changed(text, after, from, to);

    text_refused(now, why);
    free(now);
}

static void parse_names_what_is_wrong(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char *text = written(s, wi_sched_print), *stage = strstr(text, "stage before");

    refused(text, "weft", "weft-schedule 2", "weft-schedule 1", "\"lane\", \"end\" or a step's number expected");
    refused(text, "weft", "slots ", "slots x", "must be a number");
    refused(text, "weft", "\nslots ", "\nslots 0 ", "is too much");
    refused(text, "stage before", "stage before", "stage among", "\"before\", then \"after\" expected");
    refused(text, "stage before", "stage before", "stage after", "each once");
    refused(text, "stage before", "src src 0", "src arc 0", "src, dst or tmp expected");
    refused(text, "stage before", "src src 0", "src src 1", "is src block");
    refused(text, "stage before", "src src 0", "src src -1", "is src block -1");
    refused(text, "stage before", "src src 0", "src src -0", "an offset");
    refused(text, "stage before", "final 0", "final 2", "from 0 to 1");
    refused(text, "stage before", "ranks 4 5 6 7", "ranks 4 5 7 6", "they must go up");
    refused(text, "stage before", "ranks 4 5 6 7", "ranks 4 5 6 8", "from 0 to 7");
    refused(text, "stage before", "ranks 4 5 6 7", "ranks 4 5 6", "is of 4 ranks, and 3 are named");
    refused(text, "stage before", "ranks 4 5 6 7", "ranks 3 4 5 6", "the schedule is rank 6's");
    refused(text, "stage before", "ranks 4 5 6 7", "ranks", "a stage of no ranks");
    refused(text, "stage before", "\nshare ", "\nshare 4000 ", "item 4000");
    refused(text, "stage before", "\nshare ", "\n#share ", "and there are 3");
    refused(text, "stage before", "end_stage", "end", "expected, found end");
    refused(text, "stage after", "end_stage\nend", "end_stage\n", "\"end\" expected");
    for (size_t n = (size_t)(stage - text); n + 1 < strlen(text); n++) {
        struct wi_sched *cut = NULL;
        CU_ASSERT_EQUAL(wi_sched_parse(text, n, &cut), WEFT_EINVAL);
        CU_ASSERT_PTR_NULL(cut);
    }
    wi_sched_put(s);
    free(text);
}

/* What is sound text, and no stage: the executor would store where it must not. */
static void stages_are_what_the_executor_trusts(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char *text = written(s, wi_sched_print), *before = strstr(text, "stage before"),
         *after = strstr(text, "stage after");
    char *ll, *other = NULL, *tmp = strstr(before, " tmp ");

    refused(text, "stage before", " dst dst ", " dst src ", "stores to src, which is the caller's");
    ll = changed(text, "stage before", " ll 1", " ll 0");
    refused(ll, "stage before", " tmp@0[", " src@0[", "names another rank's src or dst");
    CU_ASSERT_FATAL(before < tmp && tmp < after);
    CU_ASSERT_FATAL(asprintf(&other, "%.*s tmp 0 ll 0\nlane 0 send 1 recv - chan 0\n  0 send src[0:1]\nend_stage\n%s",
                             (int)(tmp - text), text, after) > 0);
    text_refused(other, "lane 0 of the stage sends or receives");
    free(other);
    CU_ASSERT_FATAL(asprintf(&other, "%.*s tmp 0 ll 0\nlane 0 send - recv 3 chan 0\n  0 recv dst[0:1]\nend_stage\n%s",
                             (int)(tmp - text), text, after) > 0);
    text_refused(other, "lane 0 of the stage sends or receives");
    free(other);
    CU_ASSERT_FATAL(asprintf(&other, "%.*s%.*s%.*send\n", (int)(before - text), text, (int)strlen(after) - 4, after,
                             (int)(after - before), before) > 0);
    text_refused(other, "\"before\", then \"after\" expected");
    free(other);
    free(ll);
    free(text);
    wi_sched_put(s);
}

static void slots_hold_what_stages_need(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char slots[32], fewer[32], *text = written(s, wi_sched_print);

    CU_ASSERT_FATAL(s->slot_items > 0);
    snprintf(slots, sizeof slots, "\nslots %u\n", s->slot_items);
    refused(text, "weft", slots, "\nslots 0\n", "slots of 0 items, and the stages need");
    snprintf(fewer, sizeof fewer, "\nslots %u\n", s->slot_items - 1);
    refused(text, "weft", slots, fewer, "items, and the stages need"); /* both together */
    wi_sched_put(s);
    free(text);
}

static void parse_may_run_out_of_memory(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char *text = written(s, wi_sched_print);
    weft_status st = WEFT_ENOMEM;
    long n = 0;

    while (st == WEFT_ENOMEM && n < 1000) {
        struct wi_sched *parsed = NULL;
        wi_alloc_fail_nth(++n);
        st = wi_sched_parse(text, strlen(text), &parsed);
        wi_alloc_fail_nth(0);
        CU_ASSERT_EQUAL(st == WEFT_SUCCESS, parsed != NULL);
        wi_sched_put(parsed);
    }
    CU_ASSERT_EQUAL(st, WEFT_SUCCESS);
    CU_ASSERT(n > 20);
    wi_sched_put(s);
    free(text);
}

/* ---- JSON and DOT ---- */

static void json_has_the_place(const json_t *stage, const char *name, const struct wi_sched_stage *s, unsigned buf)
{
    static const char *const names[] = {"src", "dst", "tmp"};
    json_t *place = json_object_get(stage, name);

    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(place, "buf")), names[s->at[buf].buf]);
    CU_ASSERT(json_is_integer(json_object_get(place, "offset")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(place, "offset")), s->at[buf].offset);
}

static void json_has_the_items(const json_t *stage, const struct wi_sched_stage *s)
{
    json_t *shares = json_object_get(stage, "shares"), *ranks = json_object_get(stage, "ranks");

    for (int r = 0; r < s->sched->nranks; r++)
        CU_ASSERT_EQUAL(json_integer_value(json_array_get(ranks, (size_t)r)), s->ranks[r]);
    CU_ASSERT_EQUAL(json_array_size(shares), s->nshares);
    for (uint32_t i = 0; i < s->nshares; i++) {
        json_t *share = json_array_get(shares, i);
        CU_ASSERT_EQUAL_FATAL(json_array_size(share), s->start[i + 1] - s->start[i]);
        for (uint32_t k = s->start[i]; k < s->start[i + 1]; k++)
            CU_ASSERT_EQUAL(json_integer_value(json_array_get(share, k - s->start[i])), s->item[k]);
    }
}

static void json_has_the_stages(void)
{
    struct wi_sched *s = built(WI_COLL_ALL_REDUCE, "node:ring/flat", 6, 0);
    char *text = written(s, wi_sched_json);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    if (!root)
        printf("# line %d: %s\n%s", error.line, error.text, text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "version")), 2);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "slot_items")), s->slot_items);
    for (int after = 0; after < 2; after++) {
        const struct wi_sched_stage *stage = after ? s->after : s->before;
        json_t *j = json_object_get(root, after ? "after" : "before"), *inner = json_object_get(j, "schedule");
        CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "ranks")), 4);
        CU_ASSERT_EQUAL(json_integer_value(json_array_get(json_object_get(j, "ranks"), 2)), 6);
        CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "shares")), stage->nshares);
        CU_ASSERT_EQUAL(json_is_true(json_object_get(j, "final")), stage->final);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(inner, "coll")),
                               after ? "all_gather" : "reduce_scatter");
        CU_ASSERT_EQUAL(json_array_size(json_object_get(inner, "lanes")), stage->sched->nlanes);
        CU_ASSERT(json_is_true(json_object_get(inner, "mapped")));
    }
    json_decref(root);
    free(text);
    wi_sched_put(s);
}

static void json_says_where_blocks_are(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER};
    int stages = 0;

    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        for (int rank = 0; rank < NRANKS; rank++) {
            struct wi_sched *s = built(colls[i], "node:ring/flat", rank, 0);
            char *text;
            json_t *root;
            if (s->before) /* others than they are, and different ones */
                s->before->at[WI_SRC].offset = -rank;
            if (s->after)
                s->after->at[WI_DST].offset = 3;
            text = written(s, wi_sched_json);
            root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
            CU_ASSERT_PTR_NOT_NULL_FATAL(root);
            for (int after = 0; after < 2; after++) {
                const struct wi_sched_stage *stage = after ? s->after : s->before;
                json_t *j = json_object_get(root, after ? "after" : "before");
                CU_ASSERT_EQUAL(json_is_null(j), !stage);
                if (!stage)
                    continue;
                json_has_the_place(j, "src", stage, WI_SRC);
                json_has_the_place(j, "dst", stage, WI_DST);
                json_has_the_items(j, stage);
                stages++;
            }
            json_decref(root);
            free(text);
            wi_sched_put(s);
        }
    CU_ASSERT_EQUAL(stages, 4 * NRANKS); /* all_gather has none before, reduce_scatter none after */
}

static void dot_has_the_stages(void)
{
    struct wi_sched *s[NRANKS];
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    for (int r = 0; r < NRANKS; r++)
        s[r] = built(WI_COLL_ALL_REDUCE, "node:ring/flat", r, 0);
    CU_ASSERT_EQUAL(wi_sched_dot((const struct wi_sched *const *)s, NRANKS, f), WEFT_SUCCESS);
    fclose(f);
    CU_ASSERT_EQUAL(count_text(text, "before: reduce_scatter/flat, ranks 0 1 2 3"), 4);
    CU_ASSERT_EQUAL(count_text(text, "after: all_gather/flat, ranks 4 5 6 7"), 4);
    CU_ASSERT_EQUAL(count_text(text, "{"), count_text(text, "}"));
    for (int r = 0; r < NRANKS; r++) { /* before the first steps of messages, after the last */
        char edge[64];
        CU_ASSERT_EQUAL_FATAL(s[r]->nlanes, 1);
        snprintf(edge, sizeof edge, "    r%d_before -> r%d_0_0;\n", r, r);
        CU_ASSERT_EQUAL(count_text(text, edge), 1);
        snprintf(edge, sizeof edge, "    r%d_0_%u -> r%d_after;\n", r, s[r]->lanes[0].nsteps - 1, r);
        CU_ASSERT_EQUAL(count_text(text, edge), 1);
    }
    free(text);
    for (int r = 0; r < NRANKS; r++)
        wi_sched_put(s[r]);
}

static const struct wt_case cases[] = {
    {"stages survive the round trip", stages_survive_the_round_trip},
    {"text says groups and shares", text_says_groups_and_shares},
    {"parse names what is wrong", parse_names_what_is_wrong},
    {"stages are what the executor trusts", stages_are_what_the_executor_trusts},
    {"slots hold what stages need", slots_hold_what_stages_need},
    {"parse may run out of memory", parse_may_run_out_of_memory},
    {"json has the stages", json_has_the_stages},
    {"json says where the blocks of stages are", json_says_where_blocks_are},
    {"dot has the stages", dot_has_the_stages},
};
WT_UNIT_MAIN("sched_stages", cases)
