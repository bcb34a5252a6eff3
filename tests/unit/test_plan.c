/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: rules, choices, agreement between ranks, tuning tables. */
#include <float.h>
#include <math.h>
#include <unistd.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "plan/plan.h"
#include "topology/model.h"

#define CHECK CU_ASSERT
#define REQUIRE CU_ASSERT_FATAL

/* ---- Made-up communicators ---- */

struct world {
    struct wi_plan_facts facts;
    struct wi_algo_levels levels;
    int32_t node[256], rack[256];
};

static void spread(struct world *w, int nnodes, int per_node, int interleaved)
{
    memset(w, 0, sizeof *w);
    w->facts = (struct wi_plan_facts){.nranks = nnodes * per_node, .nnodes = nnodes, .mapped = nnodes == 1};
    w->facts.can_map = w->facts.can_get = w->facts.can_put = nnodes == 1;
    for (int r = 0; r < w->facts.nranks; r++)
        w->node[r] = interleaved ? r % nnodes : r / per_node;
    w->levels = (struct wi_algo_levels){1, {{"node", nnodes, w->node}}};
    w->facts.levels = &w->levels;
}

static struct wi_planner *planner(const struct world *w, const char *rules, const struct wi_plan_table *table)
{
    struct wi_plan_config config = {.facts = &w->facts, .overrides = rules, .table = table};
    struct wi_planner *p = NULL;

    REQUIRE(wi_planner_create(&config, &p) == WEFT_SUCCESS);
    return p;
}

static const char *name_of(const struct wi_plan *plan)
{
    static char name[WI_ALGO_SPEC_BYTES];

    return wi_algo_text(plan->algo, &plan->spec, name);
}

static const char *pick(struct wi_planner *p, enum wi_coll coll, size_t bytes, enum wi_plan_memory memory)
{
    static struct wi_plan plan;
    struct wi_plan_query q = {.coll = coll, .bytes = bytes, .memory = memory};

    REQUIRE(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS);
    return name_of(&plan);
}

static void refused(const struct world *w, const char *rules, const char *says)
{
    struct wi_plan_config config = {.facts = &w->facts, .overrides = rules};
    struct wi_planner *p = NULL;

    CHECK(wi_planner_create(&config, &p) == WEFT_ECONFIG);
    CHECK(p == NULL);
    if (!strstr(wi_fail_text(), says))
        printf("# %s: \"%s\" does not say \"%s\"\n", rules, wi_fail_text(), says);
    CHECK(strstr(wi_fail_text(), says) != NULL);
}

/* ---- Calls with a codec ---- */

static const char *pick_coded(struct wi_planner *p, enum wi_coll coll, size_t bytes, int may_bypass)
{
    static struct wi_plan plan;
    struct wi_plan_query q = {.coll = coll, .bytes = bytes, .rounds = wi_coll_is_reduction(coll)};

    q.codec = (struct wi_plan_codec){
        .id = 1, .may_bypass = may_bypass != 0, .ratio = .13f, .encode_rate = 6000, .decode_rate = 7000, .work = 1};
    REQUIRE(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS);
    return name_of(&plan);
}

/* Where ranks share a node's link only that is coded; where they do not, or there is no link, there are no levels. */
static void codecs_by_place(void)
{
    struct wi_plan_link_params slow;
    struct world w;
    struct wi_planner *p;

    spread(&w, 4, 8, 0);
    wi_plan_default_link_params(&w.facts, &slow);
    slow.network_rate = 1200;
    struct wi_plan_config config = {.facts = &w.facts, .params = &slow};
    for (int mapped = 0; mapped < 2; mapped++) {
        w.facts.inside[0] = (struct wi_plan_transport){
            .mapped = mapped != 0, .slot_bytes = mapped ? 512 << 10 : 0, .window = mapped ? 4 : 0};
        REQUIRE(wi_planner_create(&config, &p) == WEFT_SUCCESS);
        /* Through slots, messages are short: of two shots there are twice as many. */
        CHECK(strstr(pick_coded(p, WI_COLL_ALL_REDUCE, 64 << 20, 1), mapped ? "node:coded" : "node:coded2") != NULL);
        CHECK((strstr(pick_coded(p, WI_COLL_ALL_REDUCE, 64 << 20, 0), "/flat") != NULL) == mapped);
        CHECK(strstr(pick_coded(p, WI_COLL_REDUCE_SCATTER, 4 << 20, 0), "node:coded") != NULL);
        CHECK(strstr(pick_coded(p, WI_COLL_ALL_GATHER, 4 << 20, 0), "node:coded") != NULL);
        CHECK(strstr(pick_coded(p, WI_COLL_BROADCAST, 64 << 20, 0), "coded") != NULL);
        CHECK(strstr(pick(p, WI_COLL_ALL_REDUCE, 64 << 20, WI_MEMORY_PRIVATE), "coded") == NULL);
        wi_planner_destroy(p);
    }
    slow.network_rate = 1e6; /* what is sent plain arrives sooner */
    REQUIRE(wi_planner_create(&config, &p) == WEFT_SUCCESS);
    CHECK(strstr(pick_coded(p, WI_COLL_ALL_REDUCE, 64 << 20, 1), "coded") == NULL);
    CHECK(strstr(pick_coded(p, WI_COLL_ALL_REDUCE, 64 << 20, 0), "coded") != NULL);
    wi_planner_destroy(p);
    spread(&w, 4, 1, 0);
    p = planner(&w, NULL, NULL);
    CHECK(strcmp(pick_coded(p, WI_COLL_ALL_REDUCE, 64 << 20, 0), "coded2") == 0);
    CHECK(strcmp(pick_coded(p, WI_COLL_BROADCAST, 64 << 20, 0), "coded_chain") == 0);
    CHECK(strcmp(pick_coded(p, WI_COLL_BROADCAST, 64, 0), "coded") == 0);
    wi_planner_destroy(p);
}

/* ---- Rules ---- */

static void rules_choose(void)
{
    struct world w;
    struct wi_planner *p;

    spread(&w, 2, 4, 0);
    p = planner(&w, "all_reduce:ring,all_reduce:64K-1M:node:rdouble@leader,broadcast:-4K:knomial,all_gather:ring",
                NULL);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 100, 0), "ring");
    CHECK(strncmp(pick(p, WI_COLL_ALL_REDUCE, 64 << 10, 0), "node:rdouble@leader", 19) == 0);
    CHECK(strncmp(pick(p, WI_COLL_ALL_REDUCE, 1 << 20, 0), "node:rdouble@leader", 19) == 0);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, (1 << 20) + 1, 0), "ring");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_BROADCAST, 4096, 0), "knomial");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_GATHER_V, 4096, 0), "ring");
    CHECK(wi_planner_has_rule(p, WI_COLL_BROADCAST) && !wi_planner_has_rule(p, WI_COLL_REDUCE));
    wi_planner_destroy(p);
}

/* A rule that cannot do a call is passed over; a name for the call is not. */
static void rules_that_do_not_fit(void)
{
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 100};
    struct wi_planner *p;
    struct wi_plan plan;
    struct world w;

    spread(&w, 2, 1, 0);
    p = planner(&w, "all_reduce:flat", NULL);
    CHECK(strcmp(pick(p, WI_COLL_ALL_REDUCE, 100, 0), "flat") != 0);
    CHECK(wi_plan(p, &q, "flat", &plan) == WEFT_ENOTSUP);
    CHECK(strstr(wi_fail_text(), "shared-memory group") != NULL);
    CHECK(wi_plan(p, &q, "rinng", &plan) == WEFT_ENOTFOUND);
    CHECK(strstr(wi_fail_text(), "did you mean \"ring\"") != NULL);
    CHECK(wi_plan(p, &q, "ring", &plan) == WEFT_SUCCESS && strcmp(plan.algo->name, "ring") == 0);
    wi_planner_destroy(p);
    spread(&w, 1, 4, 0); /* its level exists elsewhere */
    w.facts.levels = NULL;
    p = planner(&w, "all_reduce:rack:ring", NULL);
    pick(p, WI_COLL_ALL_REDUCE, 100, 0);
    wi_planner_destroy(p);
}

static void wrong_rules(void)
{
    struct world w;

    spread(&w, 2, 2, 0);
    refused(&w, "all_reduce", "\"all_reduce\" is not COLLECTIVE:[LOW-HIGH:]ALGORITHM");
    refused(&w, "all_reduce:", "is not COLLECTIVE");
    refused(&w, "all_reduce:1K-2K", "is not COLLECTIVE");
    refused(&w, "all_reduc:ring", "did you mean \"all_reduce\"");
    refused(&w, "all_reduce:rnig", "did you mean \"ring\"");
    refused(&w, "all_reduce:1M-64K:ring", "\"1M-64K\" is not a range");
    refused(&w, "all_reduce:1X-:ring", "\"1X-\" is not a range");
    refused(&w, "all_reduce:nod:ring", "did you mean \"node\"");
    refused(&w, "all_reduce:node:rnig", "did you mean \"ring\"");
    refused(&w, "all_reduce:node:ring/xyzzy", "xyzzy");
    refused(&w,
            "all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,"
            "all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,"
            "all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,"
            "all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,"
            "all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,all_reduce:ring,"
            "all_reduce:ring,all_reduce:ring,all_reduce:ring",
            "more than 32 rules");
}

/* ---- Choices ---- */

static int is_hier(const char *name)
{
    return strchr(name, ':') != NULL;
}

static void choices_by_place(void)
{
    struct wi_planner *p;
    struct world w;

    spread(&w, 2, 4, 0);
    p = planner(&w, NULL, NULL);
    CHECK(is_hier(pick(p, WI_COLL_ALL_REDUCE, 16 << 20, 0)));
    wi_planner_destroy(p);
    spread(&w, 4, 2, 1); /* interleaved: a flat ring would use each link twice */
    p = planner(&w, NULL, NULL);
    CHECK(is_hier(pick(p, WI_COLL_ALL_REDUCE, 16 << 20, 0)));
    wi_planner_destroy(p);
    spread(&w, 4, 1, 0); /* one rank per node: nothing to be hierarchical about */
    p = planner(&w, NULL, NULL);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 16 << 20, 0), "ring");
    CHECK(!is_hier(pick(p, WI_COLL_ALL_REDUCE, 8, 0)));
    wi_planner_destroy(p);
    spread(&w, 1, 4, 0);
    p = planner(&w, NULL, NULL);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 16 << 20, WI_MEMORY_MAPPED), "direct");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 8, 0), "flat");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_BARRIER, 0, 0), "flat");
    wi_planner_destroy(p);
}

static void candidates_have_reasons(void)
{
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 1 << 20, .ordered = 1};
    struct wi_plan_candidate *list;
    struct wi_planner *p;
    int n, able = 0, hier = 0;
    struct world w;

    spread(&w, 2, 3, 0);
    p = planner(&w, NULL, NULL);
    REQUIRE(wi_plan_candidates(p, &q, &list, &n) == WEFT_SUCCESS);
    for (int i = 0; i < n; i++) {
        able += !list[i].why_not;
        hier += list[i].choice.spec.nlevels != 0;
        CHECK(list[i].why_not || list[i].predicted_us > 0);
        if (!list[i].choice.spec.nlevels && strcmp(list[i].choice.algo->name, "ring") == 0)
            CHECK(list[i].why_not && strstr(list[i].why_not, "commutative"));
    }
    CHECK(able > 2 && hier >= 4);
    wi_free(list);
    wi_planner_destroy(p);
}

/* Where sums round, an algorithm whose ranks group them differently is none, by name or as part of another. */
static void ranks_get_the_same_bits(void)
{
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 64};
    struct wi_planner *p;
    struct wi_plan plan;
    struct world w;

    spread(&w, 2, 3, 0);
    p = planner(&w, NULL, NULL);
    for (q.rounds = 0; q.rounds < 2; q.rounds++) {
        const char *names[] = {"swing_short", "node:swing_short"};
        for (int i = 0; i < 2; i++) {
            wi_fail_clear();
            CHECK(wi_plan(p, &q, names[i], &plan) == (q.rounds ? WEFT_ENOTSUP : WEFT_SUCCESS));
            CHECK(!q.rounds || strstr(wi_fail_text(), "other bits"));
        }
        CHECK(wi_plan(p, &q, "node:rdouble", &plan) == WEFT_SUCCESS);
    }
    wi_planner_destroy(p);
}

/* A fast network inside, a slow one between: the model's parameters, not the constants, decide. */
static void params_from_a_model(void)
{
    struct wi_plan_link_params f, constants;
    struct wi_model *m;
    struct world w;

    spread(&w, 4, 1, 0);
    wi_plan_default_link_params(&w.facts, &constants);
    REQUIRE(wi_model_uniform(4, 3.0, 12500.0, 20000.0, &m) == WEFT_SUCCESS);
    f = constants;
    wi_plan_model_link_params(m, &f);
    CU_ASSERT_DOUBLE_EQUAL(f.network_us, 3.0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(f.network_rate, 12500.0, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(f.reduce_rate, 20000.0, 1e-9);
    wi_model_destroy(m);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Two planners made alike answer alike, whatever each was asked before. */
static void ranks_agree(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_BROADCAST,  WI_COLL_ALL_GATHER,
                                         WI_COLL_REDUCE,     WI_COLL_ALL_TO_ALL, WI_COLL_REDUCE_SCATTER};
    struct wi_planner *a, *b;
    struct wi_plan pa, pb;
    uint64_t state = 42;
    struct world w;
    int differ = 0;

    for (int shape = 0; shape < 4; shape++) {
        spread(&w, shape == 0 ? 1 : shape == 1 ? 2 : 4, shape == 3 ? 1 : 4, shape == 2);
        a = planner(&w, "all_reduce:3K-4K:rdouble", NULL);
        b = planner(&w, "all_reduce:3K-4K:rdouble", NULL);
        for (int i = 0; i < 250; i++) {
            struct wi_plan_query q = {.coll = colls[next(&state) % 6], .bytes = next(&state) >> next(&state) % 31};
            q.root = (int)(next(&state) % (uint64_t)w.facts.nranks);
            q.ordered = next(&state) % 4 == 0;
            q.memory = (enum wi_plan_memory)(next(&state) % 3);
            struct wi_plan_query other = {.coll = WI_COLL_ALL_REDUCE, .bytes = next(&state)};
            REQUIRE(wi_plan(b, &other, NULL, &pb) == WEFT_SUCCESS);
            REQUIRE(wi_plan(a, &q, NULL, &pa) == WEFT_SUCCESS && wi_plan(b, &q, NULL, &pb) == WEFT_SUCCESS);
            differ += strcmp(name_of(&pa), name_of(&pb)) != 0 || pa.slice_bytes != pb.slice_bytes;
            REQUIRE(wi_plan(a, &q, NULL, &pb) == WEFT_SUCCESS); /* from the cache */
            differ += strcmp(name_of(&pa), name_of(&pb)) != 0;
        }
        wi_planner_destroy(a);
        wi_planner_destroy(b);
    }
    CU_ASSERT_EQUAL(differ, 0);
}

/* Names for a call come from a cache, too: each call gets the one that it named, of its own size. */
static void named_calls_get_what_they_name(void)
{
    static const char *const names[] = {"ring", "rdouble", "ring2", "node:ring", "node:rdouble"};
    struct wi_planner *p;
    struct wi_plan plan, again;
    struct world w;

    spread(&w, 2, 4, 0);
    p = planner(&w, "", NULL);
    for (int i = 0; i < 60; i++) {
        struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = (size_t)4096 << i % 3};
        const char *name = names[i * 7 % 5];
        REQUIRE(wi_plan(p, &q, name, &plan) == WEFT_SUCCESS && wi_plan(p, &q, name, &again) == WEFT_SUCCESS);
        CU_ASSERT_EQUAL(strncmp(name_of(&plan), name, strlen(name)), 0);
        CU_ASSERT_STRING_EQUAL(name_of(&plan), name_of(&again));
        q.coll = WI_COLL_BARRIER;
        CU_ASSERT_EQUAL(wi_plan(p, &q, "ring", &plan), WEFT_ENOTFOUND);
    }
    wi_planner_destroy(p);
}

static void choosing_is_quick(void)
{
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 1 << 20};
    struct wi_planner *p;
    struct wi_plan plan;
    struct world w;
    uint64_t t0, t1, t2;
    int other = 0;

    spread(&w, 2, 4, 0);
    p = planner(&w, NULL, NULL);
    REQUIRE(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS);
    const struct wi_algo *first = plan.algo;
    t0 = wi_now_ns();
    for (int i = 0; i < 100000; i++) {
        other += wi_plan(p, &q, NULL, &plan) != WEFT_SUCCESS;
        other += plan.algo != first;
    }
    t1 = wi_now_ns();
    for (int i = 0; i < 1000; i++) {
        q.bytes++;
        other += wi_plan(p, &q, NULL, &plan) != WEFT_SUCCESS;
    }
    t2 = wi_now_ns();
    CU_ASSERT_EQUAL(other, 0);
    printf("# a choice: %.1f ns from the cache, %.0f ns anew\n", (double)(t1 - t0) / 1e5, (double)(t2 - t1) / 1e3);
    wi_planner_destroy(p);
}

/* ---- Tables ---- */

#define HEAD "weft-tuning 1\nversion 0.1.0\nmachine pdp-11, 1 processors, with all options that money can buy\nhost a\n"

static struct wi_plan_table *table_of(const char *text)
{
    struct wi_plan_table *t = NULL;

    if (wi_plan_table_parse(text, strlen(text), "t", &t) < 0)
        printf("# %s\n", wi_fail_text());
    REQUIRE(t != NULL);
    return t;
}

static void bad_table(const char *text, const char *says)
{
    struct wi_plan_table *t = NULL;

    CHECK(wi_plan_table_parse(text, strlen(text), "t.txt", &t) == WEFT_ECONFIG);
    CHECK(t == NULL);
    if (!strstr(wi_fail_text(), says))
        printf("# \"%s\" does not say \"%s\"\n", wi_fail_text(), says);
    CHECK(strstr(wi_fail_text(), says) != NULL);
}

static void bad_tables(void)
{
    bad_table("", "t.txt is empty");
    bad_table("hello\n", "line 1, word 1: \"hello\"");
    bad_table("weft-tuning 7\n", "line 1, word 2: \"7\" is a format");
    bad_table("weft-tuning 1\n", "does not say on which machine");
    bad_table("weft-tuning 1\nmachine\n", "line 2, word 1: \"machine\" stands alone");
    bad_table(HEAD "parameter local_us 3\n", "line 5, word 1: \"parameter\" comes before the first layout");
    bad_table(HEAD "layout 4 2\n", "line 5: 3 words where 4 belong");
    bad_table(HEAD "layout 4 5 0x4\n", "line 5, word 3: \"5\" is out of range");
    bad_table(HEAD "layout 4 2 0x4\n", "word 4: \"0x4\" is not a map");
    bad_table(HEAD "layout 4 2 0x2+2x2\n", "is not a map");
    bad_table(HEAD "layout 4 1 0x99999999999999999999\n", "is not a map");
    bad_table(HEAD "layout 4 1 0x4\nparameter warp 3\n", "line 6: there is no parameter \"warp\"");
    bad_table(HEAD "layout 4 1 0x4\nparameter local_us nan\n", "word 3: \"nan\" is not a number");
    bad_table(HEAD "layout 4 1 0x4\nfigure local_us -1\n", "\"-1\" is out of range");
    bad_table(HEAD "layout 4 1 0x4\nlink 0 4 1 1\n", "word 3: \"4\" is out of range");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 5 1 8 private ring 1 1\n", "word 2: \"5\" is not the number of ranks");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 privat ring 1 1\n", "word 5: \"privat\"");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private rinng 1 1\n", "line 6: no algorithm \"rinng\"");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8x private ring 1 1\n", "\"8x\" is not a whole number");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 0 1\n", "word 7: \"0\" is out of range");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring inf 1\n", "\"inf\" is not a number");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1\nall_reduce 4 1 8 private ring 2 1\n",
              "line 7, word 6: \"ring\" has been said");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1 1\n", "word 9: \"1\" is neither noise=SHARE nor");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1 noise=x\n", "\"noise=x\" has a value that is no");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1 chosen=-1\n", "out of range");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1 noise=1 noise=2\n", "before");
    bad_table(HEAD "layout 4 1 0x4\nall_reduce 4 1 8 private ring 1 1 noise=1 chosen=2 noise=1\n",
              "more than 10 words");
    bad_table(HEAD "all_reduc 4 1 8 private ring 1 1\n", "\"all_reduc\" is no collective");
    bad_table("weft-tuning 1\nmachine \x01\n", "is no text");
}

static void another_machine(void)
{
    struct wi_plan_table *t = table_of(HEAD);
    char here[160];

    wi_plan_machine(here, sizeof here);
    CHECK(strstr(here, "processors") != NULL);
    CHECK(wi_plan_table_check(t, "t.txt", here) == WEFT_ECONFIG);
    CHECK(strstr(wi_fail_text(), "pdp-11") && strstr(wi_fail_text(), here));
    CHECK(wi_plan_table_check(t, "t.txt", t->machine) == WEFT_SUCCESS);
    wi_plan_table_free(t);
}

static const char measured[] = HEAD "layout 4 1 0x4 # ranks nodes\n"
                                    "parameter local_us 2.5\n"
                                    "link 0 1 2.5 4000\n"
                                    "all_reduce 4 1 1024 private ring 10 8 noise=0.02 chosen=10.5\n"
                                    "all_reduce 4 1 1024 private rdouble 20 0\n"
                                    "all_reduce 4 1 1048576 private ring 900 700\n"
                                    "all_reduce 4 1 1048576 private rdouble 400 0\n";

static void tables_round_trip(void)
{
    struct wi_plan_table *t = table_of(measured), *again;
    char *first = NULL, *second = NULL, path[] = "/tmp/weft-test-plan-XXXXXX";
    size_t n, m;
    FILE *f = open_memstream(&first, &n);

    REQUIRE(f && wi_plan_table_write(t, f) == WEFT_SUCCESS);
    fclose(f);
    again = table_of(first);
    f = open_memstream(&second, &m);
    REQUIRE(f && wi_plan_table_write(again, f) == WEFT_SUCCESS);
    fclose(f);
    CHECK(n == m && memcmp(first, second, n) == 0);
    CHECK(strstr(first, " ring 10 8 noise=0.02 chosen=10.5\n") != NULL);
    wi_plan_table_free(again);
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    CHECK(wi_plan_table_save(t, path) == WEFT_SUCCESS);
    CHECK(wi_plan_table_load(path, &again) == WEFT_SUCCESS && again->npoints == 4 && again->nlinks == 1);
    wi_plan_table_free(again);
    unlink(path);
    CHECK(wi_plan_table_load(path, &again) < 0 && strstr(wi_fail_text(), path));
    free(first);
    free(second);
    wi_plan_table_free(t);
}

/* Tables from before the keyword was "parameter" are read, and written with it. */
static void older_keyword(void)
{
    struct wi_plan_table *t = table_of(HEAD "layout 4 1 0x4\nfigure local_us 2.5\n");
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    REQUIRE(f && wi_plan_table_write(t, f) == WEFT_SUCCESS);
    fclose(f);
    CHECK(strstr(text, "\nparameter local_us 2.5") && !strstr(text, "figure"));
    free(text);
    wi_plan_table_free(t);
}

static double predicted(struct wi_planner *p, size_t bytes, const char *algo)
{
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = bytes};
    struct wi_plan_candidate *list;
    double us = -1;
    int n;

    REQUIRE(wi_plan_candidates(p, &q, &list, &n) == WEFT_SUCCESS);
    for (int i = 0; i < n; i++)
        if (!list[i].choice.spec.nlevels && strcmp(list[i].choice.algo->name, algo) == 0)
            us = list[i].predicted_us;
    wi_free(list);
    return us;
}

static void measurements_decide(void)
{
    struct wi_plan_table *t = table_of(measured);
    struct wi_planner *p;
    struct world w;

    spread(&w, 1, 4, 0);
    p = planner(&w, NULL, t);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 1024, 0), "ring");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 1200, 0), "ring");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 1 << 20, 0), "rdouble");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 8 << 20, 0), "rdouble");
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 1 << 20, WI_MEMORY_MAPPED),
                           "direct"); /* nothing measured with such */
    CU_ASSERT_DOUBLE_EQUAL(predicted(p, 1024, "ring"), 10.0, 1e-4);
    CU_ASSERT_DOUBLE_EQUAL(predicted(p, 1 << 20, "rdouble"), 400.0, 1e-4);
    CHECK(predicted(p, 32768, "ring") > 10 && predicted(p, 32768, "ring") < 900);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_BROADCAST, 8, 0), pick(p, WI_COLL_BROADCAST, 8, 0));
    wi_planner_destroy(p);
    spread(&w, 1, 8, 0); /* of other ranks it says nothing */
    p = planner(&w, NULL, t);
    CU_ASSERT_STRING_EQUAL(pick(p, WI_COLL_ALL_REDUCE, 1024, 0), "flat");
    wi_planner_destroy(p);
    wi_plan_table_free(t);
}

/* The predictions of two copy paths, and that a path that is asked for is used. */
static void copy_paths(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_GATHER, WI_COLL_ALL_TO_ALL, WI_COLL_BROADCAST};
    struct wi_planner *p;
    struct wi_plan plan;
    struct world w;

    spread(&w, 1, 2, 0);
    p = planner(&w, NULL, NULL);
    for (int c = 0; c < 3; c++) {
        for (int path = WI_COPY_PATH_SLOTS; path <= WI_COPY_PATH_ATTACH; path++) {
            struct wi_plan_query q = {
                .coll = colls[c], .bytes = 1 << 20, .memory = WI_MEMORY_PRIVATE, .in_place = c == 2, .copy_path = path};
            REQUIRE(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS);
            CHECK(((plan.algo->needs & WI_ALGO_PEER_GET) != 0) == (path == WI_COPY_PATH_ATTACH));
            if (path == WI_COPY_PATH_ATTACH)
                CU_ASSERT_STRING_EQUAL(plan.algo->name, c == 2 ? "split" : "direct");
        }
    }
    wi_planner_destroy(p);
    w.facts.can_put = 0;
    p = planner(&w, NULL, NULL);
    struct wi_plan_query q = {.coll = WI_COLL_BROADCAST,
                              .bytes = 1 << 20,
                              .memory = WI_MEMORY_PRIVATE,
                              .memory_dst = WI_MEMORY_PRIVATE,
                              .in_place = 1,
                              .copy_path = WI_COPY_PATH_ATTACH};
    REQUIRE(wi_plan(p, &q, NULL, &plan) == WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(plan.algo->name, "direct");
    CHECK(wi_plan(p, &q, "split", &plan) == WEFT_ENOTSUP);
    CHECK(strstr(wi_fail_text(), "cannot be written") != NULL);
    q.memory_dst = WI_MEMORY_MAPPED; /* asked anew, not from the cache */
    CHECK(wi_plan(p, &q, "split", &plan) == WEFT_SUCCESS);
    wi_planner_destroy(p);
}

static void maps(void)
{
    static const int32_t nodes[] = {0, 0, 1, 0, 2, 2};
    char map[64], small[8];

    wi_plan_map(nodes, 6, map, sizeof map);
    CU_ASSERT_STRING_EQUAL(map, "0x2+1x1+0x1+2x2");
    wi_plan_map(nodes, 6, small, sizeof small);
    CU_ASSERT_STRING_EQUAL(small, "");
}

static void allocations_may_fail(void)
{
    struct wi_plan_table *t;
    struct wi_planner *p;
    struct world w;
    long n;

    spread(&w, 2, 2, 0);
    for (n = 1; n < 2000; n++) {
        struct wi_plan_config config = {.facts = &w.facts, .overrides = "all_reduce:ring"};
        weft_status st;
        wi_alloc_fail_nth(n);
        st = wi_plan_table_parse(measured, strlen(measured), "t", &t);
        if (st >= 0) {
            config.table = t;
            st = wi_planner_create(&config, &p);
            if (st >= 0)
                wi_planner_destroy(p);
            wi_plan_table_free(t);
        }
        long seen = wi_alloc_fail_nth(0);
        if (seen < n)
            break;
        (void)st;
    }
    CHECK(n > 5 && n < 2000);
}

static const struct wt_case cases[] = {
    {"rules choose by size, level and collective", rules_choose},
    {"rules that do not fit are passed over", rules_that_do_not_fit},
    {"wrong rules are named", wrong_rules},
    {"choices follow the placement", choices_by_place},
    {"every candidate has a price or a reason", candidates_have_reasons},
    {"all ranks get the same bits", ranks_get_the_same_bits},
    {"link parameters come from a model", params_from_a_model},
    {"ranks agree over 1,000 questions", ranks_agree},
    {"named calls get what they name", named_calls_get_what_they_name},
    {"choosing is quick", choosing_is_quick},
    {"bad tables are named", bad_tables},
    {"a table of another machine is refused", another_machine},
    {"tables are written as they are read", tables_round_trip},
    {"the older keyword of parameters is read", older_keyword},
    {"measurements decide", measurements_decide},
    {"two copy paths", copy_paths},
    {"maps of ranks", maps},
    {"codecs by place", codecs_by_place},
    {"allocations may fail", allocations_may_fail},
};
WT_UNIT_MAIN("plan", cases)
