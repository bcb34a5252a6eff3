/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast cores reduce: measuring, agreeing, tables, and what it does to prices and choices. */
#include <math.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rates.h"
#include "base/reduce.h"
#include "base/status.h"
#include "plan/internal.h"

#define HEAD "weft-tuning 1\nmachine x\n"

static int32_t node_of[8];
static struct wi_algo_levels levels;

/* Ranks that reach each other by messages, on one node or several. */
static struct wi_planner *planner_of(int nranks, int nnodes, const char *table, const struct wi_rates *rates)
{
    struct wi_plan_facts facts = {.nranks = nranks, .nnodes = nnodes, .levels = &levels};
    struct wi_plan_table *t = NULL;
    struct wi_plan_config config = {.facts = &facts, .rates = rates};
    struct wi_planner *p = NULL;

    for (int r = 0; r < nranks; r++)
        node_of[r] = r / (nranks / nnodes);
    levels = (struct wi_algo_levels){1, {{"node", nnodes, node_of}}};
    if (table) {
        CU_ASSERT_FATAL(wi_plan_table_parse(table, strlen(table), "t", &t) == WEFT_SUCCESS);
        config.table = t;
    }
    CU_ASSERT_FATAL(wi_planner_create(&config, &p) == WEFT_SUCCESS);
    wi_plan_table_free(t); /* it holds no points: nothing of it is kept */
    return p;
}

static double price(struct wi_planner *p, enum wi_coll coll, size_t bytes, uint8_t work, const char *algo)
{
    struct wi_plan_query q = {.coll = coll, .bytes = bytes, .work = work};
    struct wi_plan_candidate *list;
    double us = -1;
    int n;

    CU_ASSERT_FATAL(wi_plan_candidates(p, &q, &list, &n) == WEFT_SUCCESS);
    for (int i = 0; i < n; i++)
        if (!list[i].choice.spec.nlevels && strcmp(list[i].choice.algo->name, algo) == 0)
            us = list[i].predicted_us;
    wi_free(list);
    CU_ASSERT_FATAL(us > 0);
    return us;
}

static void works_are_numbers(void)
{
    unsigned dtype, op;
    int wrong = 0;

    CU_ASSERT_EQUAL(wi_plan_work(WEFT_FLOAT32, WEFT_SUM), 0);
    for (unsigned d = 0; d < WEFT_NUM_DTYPES; d++)
        for (unsigned o = 0; o < WI_RATE_OPS; o++) {
            uint8_t work = wi_plan_work(d, o);
            wi_plan_work_of(work, &dtype, &op);
            wrong += work >= WI_PLAN_WORKS || dtype != d || op != o;
        }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* ---- Measuring ---- */

/* A rate is right within a factor where the kernel itself, run for longer, says so. The quick one takes less than a
 * millisecond of this thread, whatever else the machine does. */
static void measured_at_once(void)
{
    struct wi_rates r = {.copy = {0}}, again = {.copy = {0}};
    struct wi_rate_probe *probe;
    struct timespec began, ended;
    double ms;

    CU_ASSERT_FATAL(wi_isa_force("scalar") == 0); /* the slowest */
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
    CU_ASSERT_FATAL(wi_rates_here(&r) == WEFT_SUCCESS);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    ms = (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
    printf("# %s: measured in %.2f ms of its time: copy %.0f B/us, sum of float %.0f, f8e4m3 %.0f, user %.0f\n",
           wi_isa_name(), ms, (double)r.copy[0], (double)r.reduce[WEFT_FLOAT32][WEFT_SUM][0],
           (double)r.reduce[WEFT_FLOAT8E4M3][WEFT_SUM][0], (double)r.reduce[WEFT_FLOAT32][WI_RATE_USER][0]);
    CU_ASSERT(wi_rates_here(&again) == WEFT_SUCCESS && memcmp(&r, &again, sizeof r) == 0); /* kept */
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++)
        CU_ASSERT(r.reduce[t][WEFT_SUM][WI_RATE_CACHE] > 1 && r.reduce[t][WEFT_SUM][WI_RATE_CACHE] < 1e7f);
    CU_ASSERT_FATAL(wi_rate_probe_create(0, &probe) == WEFT_SUCCESS);
    double longer = wi_rate_reduce(probe, WEFT_FLOAT8E4M3, WEFT_SUM, WI_RATE_CACHE, 5000000);
    CU_ASSERT((double)r.reduce[WEFT_FLOAT8E4M3][WEFT_SUM][0] < 3 * longer &&
              (double)r.reduce[WEFT_FLOAT8E4M3][WEFT_SUM][0] > longer / 3);
    wi_rate_probe_destroy(probe);
    wi_isa_force(NULL);
}

static void scalar_f8_costs_more(void)
{
    uint8_t f8 = wi_plan_work(WEFT_FLOAT8E4M3, WEFT_SUM), half = wi_plan_work(WEFT_FLOAT16, WEFT_SUM);
    struct wi_planner *p, *constants = planner_of(4, 1, NULL, NULL);
    struct wi_rates r;

    CU_ASSERT_FATAL(wi_isa_force("scalar") == 0);
    CU_ASSERT_FATAL(wi_rates_here(&r) == WEFT_SUCCESS);
    wi_isa_force(NULL);
    /* A quarter where it is quiet. */
    CU_ASSERT(r.reduce[WEFT_FLOAT8E4M3][WEFT_SUM][0] < r.reduce[WEFT_FLOAT32][WEFT_SUM][0]);
    p = planner_of(4, 1, NULL, &r);
    CU_ASSERT_EQUAL(wi_planner_rate(p, f8)->origin, WI_ORIGIN_MEASURED);
    CU_ASSERT_EQUAL(wi_planner_rate(constants, f8)->origin, WI_ORIGIN_CONSTANT);
    for (size_t bytes = 4096; bytes <= 16 << 20; bytes *= 16) {
        double base = price(p, WI_COLL_ALL_REDUCE, bytes, 0, "ring");
        CU_ASSERT(price(p, WI_COLL_ALL_REDUCE, bytes, f8, "ring") > base);
        CU_ASSERT(price(p, WI_COLL_ALL_REDUCE, bytes, half, "ring") >= base);
        CU_ASSERT(price(constants, WI_COLL_ALL_REDUCE, bytes, f8, "ring") >
                  price(constants, WI_COLL_ALL_REDUCE, bytes, 0, "ring"));
        /* Rates of reductions do not matter where nothing is reduced. */
        CU_ASSERT(price(p, WI_COLL_ALL_GATHER, bytes, 0, "ring") > 0);
    }
    wi_planner_destroy(constants);
    wi_planner_destroy(p);
}

/* ---- On the wire ---- */

static void coded_in_a_byte(void)
{
    uint8_t coded[WI_RATES_CODED];
    struct wi_rates r = {.copy = {0}}, back;

    for (float rate = 1.5f; rate < 1e9f; rate *= 1.07f) {
        r.copy[0] = rate;
        wi_rates_encode(&r, coded);
        wi_rates_decode(coded, &back);
        CU_ASSERT(back.copy[0] <= rate && back.copy[0] > rate / 1.0906f);
        CU_ASSERT(back.reduce[WEFT_FLOAT32][WEFT_SUM][0] == 0);
    }
    for (int c = 1; c < 256; c++) {
        float last = back.copy[0] = 0;
        for (int i = 0; i < WI_RATES_CODED; i++)
            coded[i] = (uint8_t)(c - 1);
        wi_rates_decode(coded, &back);
        last = back.copy[0];
        memset(coded, c, sizeof coded);
        wi_rates_decode(coded, &back);
        CU_ASSERT(isfinite(back.copy[0]) && back.copy[0] > last);
    }
}

/* ---- Tables ---- */

/* Candidates without shared memory are priced by steps, bytes and the table's reduce rate; a low reduce rate makes another win. */
static void slow_reduction_decides(void)
{
    static const char table[] = HEAD "layout 4 1 0x4\nfigure reduce_rate 2\nfigure copy_rate 500\n";
    struct wi_planner *p = planner_of(4, 1, table, NULL), *usual = planner_of(4, 1, NULL, NULL);
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 512};
    const struct wi_plan_link_params *f = &p->params;
    struct wi_plan_candidate *list;
    struct wi_plan slow, before;
    const struct wi_algo *least = NULL;
    double best = INFINITY;
    int n;

    CU_ASSERT_FATAL(wi_plan_candidates(p, &q, &list, &n) == WEFT_SUCCESS);
    for (int i = 0; i < n; i++) {
        const struct wi_algo_cost *c = &list[i].cost;
        if (list[i].why_not)
            continue;
        double us = c->steps * f->local_us + c->sent / f->local_rate + c->reduced / 2 + c->copied / 500;
        CU_ASSERT_DOUBLE_EQUAL(list[i].predicted_us, us, 1e-6 * us);
        if (us < best) {
            best = us;
            least = list[i].choice.algo;
        }
    }
    CU_ASSERT(wi_plan(p, &q, NULL, &slow) == WEFT_SUCCESS && wi_plan(usual, &q, NULL, &before) == WEFT_SUCCESS);
    CU_ASSERT_PTR_EQUAL(slow.algo, least);
    printf("# %s, and with so slow a core %s\n", before.algo->name, slow.algo->name);
    CU_ASSERT_PTR_NOT_EQUAL(before.algo, slow.algo); /* fewest steps, most reductions; and fewest reductions */
    wi_free(list);
    wi_planner_destroy(usual);
    wi_planner_destroy(p);
}

/* Over messages, and where reductions read the other ranks' memory. */
static void slow_reduction_everywhere(void)
{
    static const char two[] = HEAD "layout 4 2 0x2+1x2\nrate sum f8e4m3 3 3\n";
    static const char one[] = HEAD "layout 4 1 0x4\nrate sum f8e4m3 3 3\n";
    uint8_t f8 = wi_plan_work(WEFT_FLOAT8E4M3, WEFT_SUM), max = wi_plan_work(WEFT_FLOAT8E4M3, WEFT_MAX);
    struct wi_plan_facts facts = {.nranks = 4, .nnodes = 1, .mapped = 1, .can_map = 1};
    struct wi_plan_config config = {.facts = &facts};
    struct wi_planner *p = planner_of(4, 2, two, NULL);
    double least = 0.9 * (3 << 18) / 3; /* three quarters of a MiB at that rate */
    struct wi_plan_table *t;

    CU_ASSERT(price(p, WI_COLL_ALL_REDUCE, 1 << 20, f8, "ring") >
              price(p, WI_COLL_ALL_REDUCE, 1 << 20, 0, "ring") + least);
    CU_ASSERT_DOUBLE_EQUAL(price(p, WI_COLL_ALL_REDUCE, 1 << 20, f8, "ring"),
                           price(p, WI_COLL_ALL_REDUCE, 1 << 20, max, "ring"), 1e-9); /* as slow as its type's sum */
    wi_planner_destroy(p);
    CU_ASSERT_FATAL(wi_plan_table_parse(one, strlen(one), "t", &t) == WEFT_SUCCESS);
    config.table = t;
    CU_ASSERT_FATAL(wi_planner_create(&config, &p) == WEFT_SUCCESS);
    CU_ASSERT(price(p, WI_COLL_ALL_REDUCE, 1 << 20, f8, "flat2") >
              price(p, WI_COLL_ALL_REDUCE, 1 << 20, 0, "flat2") + least);
    wi_planner_destroy(p);
    wi_plan_table_free(t);
}

/* A line for one operator counts for it alone, of a type's sum for the type, of the sum of floats for all. */
static void lines_of_a_table(void)
{
    struct wi_planner *p = planner_of(4, 1,
                                      HEAD "layout 4 1 0x4\nrate copy bytes 20000 9000\nrate sum float 40000 6000\n"
                                           "rate sum half 10000 5000\nrate max half 700 600\n",
                                      NULL);
    const struct wi_plan_rate *g = wi_planner_rate(p, 0);
    struct wi_plan_query q = {.coll = WI_COLL_ALL_REDUCE, .bytes = 4096};

    CU_ASSERT(g->rate[WI_RATE_CACHE] == 40000 && g->rate[WI_RATE_MEMORY] == 6000 && g->origin == WI_ORIGIN_TABLE);
    g = wi_planner_rate(p, wi_plan_work(WEFT_FLOAT16, WEFT_MIN));
    CU_ASSERT(g->rate[WI_RATE_CACHE] == 10000 && g->rate[WI_RATE_MEMORY] == 5000);
    g = wi_planner_rate(p, wi_plan_work(WEFT_FLOAT16, WEFT_MAX));
    CU_ASSERT(g->rate[WI_RATE_CACHE] == 700 && g->rate[WI_RATE_MEMORY] == 600);
    g = wi_planner_rate(p, wi_plan_work(WEFT_INT32, WEFT_SUM));
    CU_ASSERT(g->rate[WI_RATE_CACHE] == 40000);
    g = wi_planner_rate(p, wi_plan_work(WEFT_FLOAT8E4M3, WEFT_SUM));
    CU_ASSERT(g->rate[WI_RATE_CACHE] < 20000);
    CU_ASSERT(wi_plan_reduce_rate(p, &q) == 40000 && wi_plan_copy_rate(p, &q) == 20000);
    q.bytes = 64 << 20;
    CU_ASSERT_DOUBLE_EQUAL(wi_plan_reduce_rate(p, &q), 6000, 1e-6);
    q.bytes = 2 << 20; /* half of the octaves in between */
    CU_ASSERT_DOUBLE_EQUAL(wi_plan_reduce_rate(p, &q), 2 / (1 / 40000.0 + 1 / 6000.0), 1e-6);
    wi_planner_destroy(p);
}

static void round_trip(void)
{
    static const char text[] = HEAD "layout 4 1 0x4\nfigure reduce_rate 8000\nrate sum float 40000 6000.25\n"
                                    "rate user bool 12.5 12\nrate copy bytes 1e5 9000\n";
    struct wi_plan_table *t, *again;
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);

    CU_ASSERT_FATAL(wi_plan_table_parse(text, strlen(text), "t", &t) == WEFT_SUCCESS);
    CU_ASSERT_FATAL(f && wi_plan_table_write(t, f) == WEFT_SUCCESS);
    fclose(f);
    CU_ASSERT_FATAL(wi_plan_table_parse(out, n, "again", &again) == WEFT_SUCCESS);
    CU_ASSERT(memcmp(&t->sections[0], &again->sections[0], sizeof t->sections[0]) == 0);
    CU_ASSERT(strstr(out, "rate user bool 12.5 12\n") && strstr(out, "rate copy bytes 100000 9000\n"));
    CU_ASSERT(again->sections[0].rates.reduce[WEFT_BOOL][WI_RATE_USER][WI_RATE_MEMORY] == 12);
    wi_plan_table_free(again);
    wi_plan_table_free(t);
    free(out);
}

static void refused(const char *line, const char *says)
{
    struct wi_plan_table *t = NULL;
    char text[400];

    snprintf(text, sizeof text, HEAD "layout 4 1 0x4\n%s\n", line);
    CU_ASSERT(wi_plan_table_parse(text, strlen(text), "t.txt", &t) == WEFT_ECONFIG && !t);
    if (!strstr(wi_fail_text(), says))
        printf("# \"%s\" does not say \"%s\"\n", wi_fail_text(), says);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), says));
}

static void wrong_lines(void)
{
    struct wi_plan_table *t = NULL;
    static const char early[] = HEAD "rate sum float 1 1\n";

    refused("rate sum float 1", "t.txt, line 4: 4 words where 5 belong");
    refused("rate summ float 1 1", "t.txt, line 4: there is no operator \"summ\", nor is it copy");
    refused("rate sum flaot 1 1", "t.txt, line 4: there is no data type \"flaot\"");
    refused("rate copy float 1 1", "line 4: \"float\" is not what is copied");
    refused("rate band float 1 1", "line 4: operator band is undefined for float");
    refused("rate sum float 0 1", "t.txt, line 4, word 4: \"0\" is out of range");
    refused("rate sum float 1 -3", "t.txt, line 4, word 5: \"-3\" is out of range");
    refused("rate sum float nan 1", "word 4: \"nan\" is not a number");
    refused("rate sum float 1 1e30", "word 5: \"1e30\" is out of range");
    refused("rate sum float 1 1x", "word 5: \"1x\" is not a number");
    refused("rate sum float 1 1\nrate sum float 2 2", "line 5, word 3: \"float\" has been said");
    refused("rate copy bytes 1 1\nrate copy bytes 2 2", "line 5, word 3: \"bytes\" has been said");
    CU_ASSERT(wi_plan_table_parse(early, strlen(early), "t.txt", &t) == WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "\"rate\" comes before the first layout"));
}

/* Ranks that were told the same choose the same, whatever each was asked before, for every kind of reduction. */
static void alike_on_all_ranks(void)
{
    uint8_t coded[WI_RATES_CODED];
    struct wi_rates told;
    struct wi_planner *a, *b;
    struct wi_plan pa, pb;
    int differ = 0;

    for (int i = 0; i < WI_RATES_CODED; i++)
        coded[i] = (uint8_t)(60 + i * 37 % 60);
    wi_rates_decode(coded, &told);
    a = planner_of(8, 4, NULL, &told);
    b = planner_of(8, 4, NULL, &told);
    for (int i = 0; i < 300; i++) {
        struct wi_plan_query q = {.coll = i % 3 ? WI_COLL_ALL_REDUCE : WI_COLL_REDUCE_SCATTER,
                                  .bytes = (size_t)1 << i % 25,
                                  .work = (uint8_t)(i * 7 % WI_PLAN_WORKS)};
        struct wi_plan_query other = {.coll = WI_COLL_ALL_REDUCE, .bytes = q.bytes, .work = (uint8_t)(q.work / 2)};
        differ += wi_plan(b, &other, NULL, &pb) < 0 || wi_plan(a, &q, NULL, &pa) < 0 || wi_plan(b, &q, NULL, &pb) < 0;
        differ += pa.algo != pb.algo || !wi_hier_same(&pa.spec, &pb.spec) || pa.predicted_us != pb.predicted_us;
        differ += wi_plan(a, &q, NULL, &pb) < 0 || pa.algo != pb.algo; /* from the cache */
    }
    CU_ASSERT_EQUAL(differ, 0);
    wi_planner_destroy(a);
    wi_planner_destroy(b);
}

static const struct wt_case cases[] = {
    {"works are numbers", works_are_numbers},
    {"measured at once", measured_at_once},
    {"scalar f8 costs more", scalar_f8_costs_more},
    {"coded in a byte", coded_in_a_byte},
    {"slow reduction decides", slow_reduction_decides},
    {"slow reduction everywhere", slow_reduction_everywhere},
    {"lines of a table", lines_of_a_table},
    {"round trip", round_trip},
    {"wrong lines", wrong_lines},
    {"alike on all ranks", alike_on_all_ranks},
};
WT_UNIT_MAIN("plan_rates", cases)
