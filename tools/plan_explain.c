/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan explain: which algorithm is chosen for a call, and why not another. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/reduce.h"
#include "base/settings.h"
#include "base/status.h"
#include "plan_explain.h"
#include "tool.h"
#include "tool_plugins.h"
#include "weft_plan.h"

const char plan_explain_help[] = "  explain COLLECTIVE -n BYTES -P RANKS [OPTION]...\n"
                                 "      Which algorithm is chosen, what each candidate would take, and why others\n"
                                 "      cannot do it.\n"
                                 "      BYTES is the vector's size or, where every rank has its own, one rank's\n"
                                 "      share.\n"
                                 "      --nodes N           the ranks are spread evenly over so many nodes (1)\n"
                                 "      --topo FILE         on the machine that weft-topo exported\n"
                                 "      --synthetic TEXT    on a machine in one line, \"nodes:2 core:4 nic:1@10Gb\"\n"
                                 "      --tuning FILE       with the measurements of weft-tune, as\n"
                                 "                          WEFT_TUNING_FILE (the environment's)\n"
                                 "      --rules TEXT        as WEFT_ALGO (the environment's)\n"
                                 "      --slot-bytes SIZE   as WEFT_SHM_STAGE_SLOT_BYTES (environment's or 512K)\n"
                                 "      --memory KIND       private (malloc) or mapped (weft_mem_alloc); private\n"
                                 "      --op OP             sum, max, ...; user: one that is not commutative\n"
                                 "      --dtype TYPE        float, bfloat16, f8e4m3, int32, ... (float)\n"
                                 "      --codec SPEC        compressed, as WEFT_COMPRESS has it: int8,\n"
                                 "                          int4:ef=1, ... (weft_compress.h; the environment's,\n"
                                 "                          for sums by all_reduce and reduce_scatter)\n"
                                 "      --measure           by how fast this machine's cores copy and reduce now,\n"
                                 "                          as with WEFT_MEASURE_RATES=y\n"
                                 "      --root R, --in-place\n"
                                 "      --no-stages         as if mapped memory served no node of several: by\n"
                                 "                          messages inside nodes, too\n"
                                 "      --no-schedules      formulas only\n"
                                 "      --json              one JSON object\n";

static int bad(const char *what, const char *value)
{
    fprintf(stderr, "weft-plan explain: %s \"%s\"; see weft-plan explain --help\n", what, value);
    return 2;
}

/* Those that there are in place of a name that there is not. */
struct names {
    struct tool_similar similar;
    char list[400];
};

static void add_name(struct names *names, const char *name)
{
    size_t used = strlen(names->list);

    tool_try(&names->similar, name);
    snprintf(names->list + used, sizeof names->list - used, "%s%s", used ? ", " : "", name);
}

static int unknown(const char *what, const struct names *names)
{
    const char *near = names->similar.near;

    if (near)
        fprintf(stderr, "weft-plan explain: %s \"%s\"; did you mean \"%s\"? (there are: %s)\n", what,
                names->similar.name, near, names->list);
    else
        fprintf(stderr, "weft-plan explain: %s \"%s\"; there are %s\n", what, names->similar.name, names->list);
    return 2;
}

static int no_collective(const char *value)
{
    struct names names = {.similar = {.name = value}};

    for (int c = 0; c < WI_NUM_COLLS; c++)
        if (wi_algo_find(wi_algo_family((enum wi_coll)c), "flat"))
            add_name(&names, wi_coll_name((enum wi_coll)c));
    return unknown("no collective", &names);
}

static int no_op(const char *value)
{
    struct names names = {.similar = {.name = value}};

    for (unsigned op = 0; op < WI_RATE_OPS; op++)
        add_name(&names, wi_rate_op_name(op));
    return unknown("--op: no operator", &names);
}

static int no_dtype(const char *value)
{
    struct names names = {.similar = {.name = value}};

    for (int d = 0; d < WEFT_NUM_DTYPES; d++)
        add_name(&names, weft_dtype_name((weft_dtype)d));
    return unknown("--dtype: no data type", &names);
}

static int no_codec(const char *option, const char *why)
{
    fprintf(stderr, "weft-plan explain: %s: %s\n", option, why);
    return 2;
}

static int missing(const char *what)
{
    fprintf(stderr, "weft-plan explain: %s; see weft-plan explain --help\n", what);
    return 2;
}

static int parse_int(const char *text, int least, int most, int *value)
{
    int64_t v;

    if (wi_parse_int(text, &v) || v < least || v > most)
        return -1;
    *value = (int)v;
    return 0;
}

static int parse_op(const char *text, struct explain *x)
{
    int op = wi_rate_op_parse(text);

    x->op = op < 0 ? 0 : (unsigned)op;
    x->query.ordered = op == WI_RATE_USER;
    return op < 0 ? -1 : 0;
}

static int parse_dtype(const char *text, struct explain *x)
{
    int dtype = wi_rate_dtype_parse(text);

    x->dtype = dtype < 0 ? 0 : (unsigned)dtype;
    return dtype < 0 ? -1 : 0;
}

/* Between the limits of the setting. */
static int parse_slot(const char *name, const char *text, struct explain *x)
{
    if (wi_parse_bytes(text, &x->slot_bytes) == 0 && x->slot_bytes >= 4096 && x->slot_bytes <= 64u << 20)
        return 0;
    fprintf(stderr, "weft-plan explain: %s: a size from 4K to 64M, not \"%s\"\n", name, text);
    return 2;
}

/* What a communicator would read; options go before. */
static int read_environment(struct explain *x)
{
    const char *slot = getenv("WEFT_SHM_STAGE_SLOT_BYTES");

    if (!x->rules)
        x->rules = getenv("WEFT_ALGO");
    x->tuning_is_setting = !x->tuning;
    if (!x->tuning)
        x->tuning = getenv("WEFT_TUNING_FILE");
    x->plans = getenv("WEFT_PLANS");
    if (!x->slot_bytes && slot && *slot)
        return parse_slot("WEFT_SHM_STAGE_SLOT_BYTES", slot, x);
    if (!x->slot_bytes)
        x->slot_bytes = 512u << 10;
    return 0;
}

static const struct option longs[] = {
    {"bytes", 1, NULL, 'n'},        {"ranks", 1, NULL, 'P'},     {"nodes", 1, NULL, 'N'},
    {"topo", 1, NULL, 't'},         {"synthetic", 1, NULL, 's'}, {"tuning", 1, NULL, 'T'},
    {"rules", 1, NULL, 'R'},        {"memory", 1, NULL, 'm'},    {"op", 1, NULL, 'o'},
    {"dtype", 1, NULL, 'd'},        {"measure", 0, NULL, 'M'},   {"root", 1, NULL, 'r'},
    {"in-place", 0, NULL, 'i'},     {"json", 0, NULL, 'j'},      {"help", 0, NULL, 'h'},
    {"no-schedules", 0, NULL, 'f'}, {"no-stages", 0, NULL, 'c'}, {"slot-bytes", 1, NULL, 'S'},
    {"codec", 1, NULL, 'C'},        {NULL, 0, NULL, 0},
};

static int take(int c, struct explain *x, int *has_bytes)
{
    switch (c) {
    case 'n':
        *has_bytes = 1;
        return wi_parse_bytes(optarg, &x->query.bytes) ? bad("-n: not a size such as 1M:", optarg) : 0;
    case 'P':
        return parse_int(optarg, 1, 1 << 20, &x->nranks) ? bad("-P: not a number from 1 to 1048576:", optarg) : 0;
    case 'N':
        return parse_int(optarg, 1, 1 << 20, &x->nnodes) ? bad("--nodes: not a number from 1 to 1048576:", optarg) : 0;
    case 'r':
        return parse_int(optarg, 0, 1 << 20, &x->query.root) ? bad("--root: not a rank:", optarg) : 0;
    case 'm':
        x->mapped_memory = strcmp(optarg, "mapped") == 0;
        return x->mapped_memory || !strcmp(optarg, "private") ? 0 : bad("--memory: not private or mapped:", optarg);
    case 'o':
        return parse_op(optarg, x) ? no_op(optarg) : 0;
    case 'd':
        return parse_dtype(optarg, x) ? no_dtype(optarg) : 0;
    case 'C':
        x->codec_text = optarg;
        return 0;
    case 'M':
        x->measure = 1;
        return 0;
    case 't':
        x->topo_file = optarg;
        return 0;
    case 's':
        x->synthetic = optarg;
        return 0;
    case 'T':
        x->tuning = optarg;
        return 0;
    case 'R':
        x->rules = optarg;
        return 0;
    case 'S':
        return parse_slot("--slot-bytes", optarg, x);
    case 'i':
        x->query.in_place = 1;
        return 0;
    case 'j':
        x->json = 1;
        return 0;
    case 'c':
        x->pipelines = 0;
        return 0;
    case 'f':
        x->simulate = 0;
        return 0;
    case 'h':
        printf("usage: weft-plan\n%s", plan_explain_help);
        return -1;
    default:
        return 2;
    }
}

/* By WEFT_COMPRESS, as src/comm/compress.c has it: sums of floats, and other calls stay as they are. */
static int read_default_codec(struct explain *x)
{
    const char *text = getenv("WEFT_COMPRESS");
    int sums = x->query.coll == WI_COLL_ALL_REDUCE || x->query.coll == WI_COLL_REDUCE_SCATTER;

    if (!text || !*text || !sums || x->op != WEFT_SUM || !wi_codec_takes((weft_dtype)x->dtype))
        return 0;
    if (tool_load_plugins() < 0 || wi_codec_parse_use(text, &x->codec) < 0)
        return no_codec("WEFT_COMPRESS", wi_fail_text());
    if (x->codec.feedback.form)
        return no_codec("WEFT_COMPRESS",
                        "ef needs a tensor's number, which only calls can name: as --codec it is explained");
    return 0;
}

/* As src/comm/compress.c checks calls. */
static int settle_codec(struct explain *x)
{
    enum wi_coll family = wi_algo_family(x->query.coll);
    int status = 0;

    if (!x->codec_text)
        status = read_default_codec(x);
    else if (tool_load_plugins() < 0 || wi_codec_parse_use(x->codec_text, &x->codec) < 0)
        status = no_codec("--codec", wi_fail_text());
    if (status || !x->codec.on)
        return status;
    if (!wi_codec_takes((weft_dtype)x->dtype))
        return bad("--codec: codecs take float, half and bfloat16, not", weft_dtype_name((weft_dtype)x->dtype));
    if (x->reduces && x->op != WEFT_SUM)
        return bad("--codec: codecs are for sums, not", wi_rate_op_name(x->op));
    if (family != WI_COLL_ALL_REDUCE && family != WI_COLL_REDUCE_SCATTER && family != WI_COLL_ALL_GATHER &&
        family != WI_COLL_ALL_TO_ALL && family != WI_COLL_BROADCAST)
        return bad("--codec: codecs are for all_reduce, reduce_scatter, all_gather, all_to_all and broadcast, not",
                   wi_coll_name(x->query.coll));
    if (x->query.bytes * (family == WI_COLL_ALL_REDUCE || family == WI_COLL_BROADCAST ? 1 : (size_t)x->nranks) <
        x->codec.min_bytes)
        return 0;
    x->query.codec = wi_plan_codec_of(&x->codec, (weft_dtype)x->dtype);
    if (x->query.coll == WI_COLL_ALL_TO_ALL_V)
        x->query.codec.may_bypass = 0;
    return 0;
}

static int settle(struct explain *x, int argc, char **argv, int has_bytes)
{
    if (optind == argc)
        return missing("which collective? explain COLLECTIVE");
    if (optind < argc - 1)
        return bad("unexpected argument", argv[optind + 1]);
    if (wi_coll_parse(argv[optind], &x->query.coll) || !wi_algo_find(wi_algo_family(x->query.coll), "flat"))
        return no_collective(argv[optind]);
    x->query.v_form = wi_algo_family(x->query.coll) != x->query.coll;
    x->query.packed = x->query.coll == WI_COLL_ALL_TO_ALL_V;
    if (!wi_rate_defined(x->dtype, x->op))
        return bad("--op: undefined for this data type:", wi_rate_op_name(x->op));
    x->reduces = wi_coll_is_reduction(x->query.coll);
    x->query.rounds = x->reduces && (x->op == WI_RATE_USER || wi_dtype_rounds((weft_dtype)x->dtype));
    x->query.work = x->reduces ? wi_plan_work(x->dtype, x->op) : 0;
    if (!has_bytes && x->query.coll != WI_COLL_BARRIER)
        return missing("how many bytes? -n BYTES");
    if (x->query.coll == WI_COLL_BARRIER)
        x->query.bytes = 0;
    if (!x->nranks)
        return missing("how many ranks? -P RANKS");
    if (x->query.root >= x->nranks)
        return fprintf(stderr, "weft-plan explain: --root %d: there are ranks 0 to %d\n", x->query.root, x->nranks - 1),
               2;
    if (x->topo_file && x->synthetic)
        return missing("--topo and --synthetic describe the same: leave one of them out");
    if (x->nnodes > x->nranks)
        return fprintf(stderr, "weft-plan explain: --nodes %d: there are only %d ranks (-P)\n", x->nnodes, x->nranks),
               2;
    return settle_codec(x);
}

/* Rules may name programs of WEFT_PLANS, which are not read here: explain() refuses the calls that such a rule decides. */
static weft_status any_file(const void *files, const struct wi_plan_query *query, int nranks, const char *name,
                            const struct wi_algo **algo)
{
    static const struct wi_algo unread = {.name = "file"};

    (void)files, (void)query, (void)nranks, (void)name;
    *algo = &unread;
    return WEFT_SUCCESS;
}

static weft_status check_rule(const struct explain *x)
{
    if (!x->rule || strncmp(x->rule, "file:", 5) != 0)
        return WEFT_SUCCESS;
    return wi_fail(
        WEFT_ENOTSUP,
        "a rule names %s for this call: a program of WEFT_PLANS, which explain does not read. It runs wherever "
        "it serves the ranks; weft-plan check proves its file, and --rules '' asks what runs without it",
        x->rule);
}

static weft_status make_planner(struct explain *x)
{
    struct wi_plan_link_params params;
    struct wi_rates rates;
    struct wi_plan_config config = {.facts = &x->facts,
                                    .overrides = x->rules,
                                    .params = &params,
                                    .rates = x->measure ? &rates : NULL,
                                    .table = x->table,
                                    .graph = x->model};

    x->facts.find_file = any_file;
    if (x->measure)
        WI_TRY(wi_rates_here(&rates));
    wi_plan_default_link_params(&x->facts, &params);
    if (!x->assumed)
        wi_plan_model_link_params(x->model, &params);
    return wi_planner_create(&config, &x->planner);
}

static weft_status load_table(struct explain *x)
{
    char why[512];
    weft_status status = x->tuning && *x->tuning ? wi_plan_table_load(x->tuning, &x->table) : WEFT_SUCCESS;

    if (status >= 0)
        return status;
    snprintf(why, sizeof why, "%s", wi_fail_text());
    return wi_fail(status, "%s: %s", x->tuning_is_setting ? "WEFT_TUNING_FILE" : "--tuning", why);
}

static weft_status plan_linear(struct explain *x)
{
    if (!x->query.codec.id || !(x->codec.codec.traits & WEFT_CODEC_LINEAR) || x->query.coll != WI_COLL_ALL_REDUCE)
        return WEFT_SUCCESS;
    WI_TRY(wi_codec_linear(&x->codec.codec, x->nranks, &x->linear_of));
    WI_TRY(wi_plan_linear(x->planner, &x->query, &x->linear_of, NULL, &x->linear));
    x->query.codec.plain = x->query.codec.may_bypass = 1;
    return WEFT_SUCCESS;
}

static weft_status explain(struct explain *x)
{
    WI_TRY(load_table(x));
    WI_TRY(explain_world(x));
    WI_TRY(make_planner(x));
    x->rule = wi_plan_rule(x->planner, &x->query);
    WI_TRY(check_rule(x));
    WI_TRY(plan_linear(x));
    if (wi_plan_needs_exchange(x->planner, &x->query, NULL))
        x->query.memory = x->mapped_memory ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE;
    WI_TRY(wi_plan(x->planner, &x->query, NULL, &x->plan));
    WI_TRY(wi_plan_candidates(x->planner, &x->query, &x->list, &x->n));
    x->sim = wi_calloc((size_t)x->n + 1, sizeof *x->sim);
    if (!x->sim)
        return wi_fail(WEFT_ENOMEM, "%d candidates", x->n);
    for (int i = 0; i < x->n && x->simulate && x->nranks <= EXPLAIN_SIM_RANKS; i++)
        if (!x->list[i].why_not && !(x->list[i].choice.needs & WI_ALGO_CODED)) /* the simulator has no codecs */
            explain_simulate(x, i);
    if (x->json)
        return explain_print_json(x);
    explain_print(x);
    return WEFT_SUCCESS;
}

int plan_explain(int argc, char **argv)
{
    struct explain x = {.simulate = 1, .pipelines = 1, .dtype = WEFT_FLOAT32, .op = WEFT_SUM};
    int c, has_bytes = 0, status;
    weft_status st;

    optind = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":n:P:h", longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return tool_bad_option("weft-plan explain", c, argv);
        status = take(c, &x, &has_bytes);
        if (status)
            return status < 0 ? tool_output_lost("weft-plan explain") : status;
    }
    status = settle(&x, argc, argv, has_bytes);
    if (!status)
        status = read_environment(&x);
    if (status)
        return status;
    st = explain(&x);
    if (st < 0)
        fprintf(stderr, "weft-plan explain: %s\n", wi_fail_text());
    explain_free(&x);
    return st < 0 || tool_output_lost("weft-plan explain");
}
