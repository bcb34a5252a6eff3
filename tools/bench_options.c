/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: the command line. Letters are those of nccl-tests where both programs have the option. */
#include "tool.h"
#include "weft_bench.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ALL_COLLS ((1u << BENCH_NUM_COLLS) - 1)
#define MIN_BYTES 8
#define MAX_BYTES (16u << 20)
#define NOT_GIVEN SIZE_MAX
#define DTYPE_NAMES_BYTES 256

enum long_option {
    OPT_DIRTY = 256,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_PERCENTILES,
    OPT_ALGO,
    OPT_CODEC,
    OPT_LIST,
    OPT_MEMORY,
    OPT_BLOCKING,
    OPT_REQUEST,
    OPT_PERSISTENT,
    OPT_TIMEOUT,
    OPT_OVERLAP,
    OPT_BESIDE,
    OPT_IDLE,
    OPT_STARTUP,
    OPT_AGAINST,
    OPT_OFFSET,
    OPT_PLACE,
    OPT_VERSION,
    OPT_CPU_TIME,
};

static const struct option long_options[] = {
    {"coll", required_argument, NULL, 'C'},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"warmup", required_argument, NULL, 'w'},
    {"agg_iters", required_argument, NULL, 'm'},
    {"run_cycles", required_argument, NULL, 'N'},
    {"check", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},
    {"datatype", required_argument, NULL, 'd'},
    {"root", required_argument, NULL, 'r'},
    {"blocking-mode", required_argument, NULL, 'z'},
    {"parallel_init", required_argument, NULL, 'p'},
    {"cudagraph", required_argument, NULL, 'G'},
    {"nthreads", required_argument, NULL, 't'},
    {"ngpus", required_argument, NULL, 'g'},
    {"average", required_argument, NULL, 'a'},
    {"stream_null", required_argument, NULL, 'y'},
    {"report_cputime", required_argument, NULL, OPT_CPU_TIME},
    {"output_file", required_argument, NULL, 'J'},
    {"timeout", required_argument, NULL, 'T'},
    {"help", no_argument, NULL, 'h'},
    {"dirty", required_argument, NULL, OPT_DIRTY},
    {"json", required_argument, NULL, OPT_JSON},
    {"csv", required_argument, NULL, OPT_CSV},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"percentiles", no_argument, NULL, OPT_PERCENTILES},
    {"algo", required_argument, NULL, OPT_ALGO},
    {"codec", required_argument, NULL, OPT_CODEC},
    {"list", no_argument, NULL, OPT_LIST},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"blocking", no_argument, NULL, OPT_BLOCKING},
    {"request", no_argument, NULL, OPT_REQUEST},
    {"persistent", no_argument, NULL, OPT_PERSISTENT},
    {"overlap", no_argument, NULL, OPT_OVERLAP},
    {"beside", no_argument, NULL, OPT_BESIDE},
    {"idle-memory", no_argument, NULL, OPT_IDLE},
    {"startup", no_argument, NULL, OPT_STARTUP},
    {"against", required_argument, NULL, OPT_AGAINST},
    {"offset", required_argument, NULL, OPT_OFFSET},
    {"place", required_argument, NULL, OPT_PLACE},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static int bad(const struct bench_options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int bad(const struct bench_options *o, const char *format, ...)
{
    va_list args;

    tool_after_rank_0(o->rank);
    va_start(args, format);
    fputs("weft-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (--help lists what is understood)\n", stderr);
    va_end(args);
    return 2;
}

static int count_option(const struct bench_options *o, const char *name, const char *text, uint64_t min, uint64_t max,
                        uint64_t *value)
{
    if (bench_parse_count(text, min, max, value) == 0)
        return 0;
    return bad(o, "%s wants a whole number from %llu to %llu, not '%s'", name, (unsigned long long)min,
               (unsigned long long)max, text);
}

static int bytes_option(const struct bench_options *o, const char *name, const char *text, size_t *value)
{
    if (bench_parse_bytes(text, value) == 0)
        return 0;
    return bad(o, "%s wants a size such as 8, 64K or 1G, not '%s'", name, text);
}

/* Index of text in names, or -1. */
static int one_of(const char *text, const char *const names[], int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

static const char *const memory_names[] = {"malloc", "alloc", "register"};
static const char *const form_names[] = {"blocking", "request", "persistent"};
static const char *const dirty_names[] = {"none", "batch", "each"};
static const char *const place_names[] = {"out", "in", "both"};

const char *bench_memory_name(enum bench_memory memory)
{
    return memory_names[memory];
}

const char *bench_form_name(enum bench_form form)
{
    return form_names[form];
}

const char *bench_dirty_name(enum bench_dirty dirty)
{
    return dirty_names[dirty];
}

/* `what`: "collective". */
static int bad_name(const struct bench_options *o, const char *what, const struct tool_similar *s)
{
    if (s->near)
        return bad(o, "no %s is called '%s'; did you mean '%s'?", what, s->name, s->near);
    return bad(o, "no %s is called '%s'", what, s->name);
}

static int bad_coll(const struct bench_options *o, const char *name)
{
    struct tool_similar similar = {.name = name};

    for (int c = 0; c < BENCH_NUM_COLLS; c++)
        tool_try(&similar, bench_coll_name((enum bench_coll)c));
    return bad_name(o, "collective", &similar);
}

static int parse_colls(struct bench_options *o, const char *text)
{
    char copy[512];
    unsigned colls = 0;

    snprintf(copy, sizeof(copy), "%s", text);
    for (char *save, *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        enum bench_coll coll;
        if (strcmp(name, "all") == 0)
            colls |= ALL_COLLS;
        else if (bench_coll_parse(name, &coll) == 0)
            colls |= 1u << coll;
        else
            return bad_coll(o, name);
    }
    if (!colls)
        return bad(o, "-C wants the name of a collective");
    o->colls = colls;
    return 0;
}

static const char *dtype_names(char names[DTYPE_NAMES_BYTES])
{
    size_t used = 0;

    for (int d = 0; d < WEFT_NUM_DTYPES && used < DTYPE_NAMES_BYTES; d++)
        used += (size_t)snprintf(names + used, DTYPE_NAMES_BYTES - used, "%s%s", d ? ", " : "",
                                 weft_dtype_name((weft_dtype)d));
    return names;
}

static int parse_dtypes(struct bench_options *o, const char *text)
{
    static const char *const aliases[][2] = {{"float16", "half"},    {"float32", "float"},  {"f32", "float"},
                                             {"fp32", "float"},      {"f16", "half"},       {"fp16", "half"},
                                             {"f64", "double"},      {"float64", "double"}, {"bf16", "bfloat16"},
                                             {"fp8_e4m3", "f8e4m3"}, {"fp8_e5m2", "f8e5m2"}};

    char names[DTYPE_NAMES_BYTES];

    if (strcmp(text, "all") == 0) {
        o->dtypes = (1u << WEFT_NUM_DTYPES) - 1;
        return 0;
    }
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(text, aliases[i][0]) == 0)
            text = aliases[i][1];
    for (int d = 0; d < WEFT_NUM_DTYPES; d++) {
        if (strcmp(text, weft_dtype_name((weft_dtype)d)) == 0) {
            o->dtypes = 1u << d;
            return 0;
        }
    }
    return bad(o, "no data type is called '%s'; there are %s", text, dtype_names(names));
}

static int parse_ops(struct bench_options *o, const char *text)
{
    struct tool_similar similar = {.name = text};

    if (strcmp(text, "all") == 0) {
        o->ops = (1u << WEFT_NUM_OPS) - 1;
        return 0;
    }
    for (weft_op op = 0; op < WEFT_NUM_OPS; op++) {
        if (strcmp(text, weft_op_name(op)) == 0) {
            o->ops = 1u << op;
            return 0;
        }
        tool_try(&similar, weft_op_name(op));
    }
    return bad_name(o, "operator", &similar);
}

static int parse_root(struct bench_options *o, const char *text)
{
    char *end;
    long root = strtol(text, &end, 10);

    if (strcmp(text, "all") == 0)
        root = -1;
    else if (end == text || *end || root < -1 || root > INT32_MAX)
        return bad(o, "-r wants a rank or 'all', not '%s'", text);
    o->root = (int)root;
    return 0;
}

static int parse_seconds(struct bench_options *o, const char *text)
{
    char *end;
    double s = strtod(text, &end);

    if (end == text || (*end && strcmp(end, "s") != 0) || !(s > 0) || s > 1e9)
        return bad(o, "--timeout wants seconds above 0, not '%s'", text);
    o->timeout_ns = (uint64_t)(s * 1e9);
    return 0;
}

static int parse_factor(struct bench_options *o, const char *text)
{
    char *end;
    double factor = strtod(text, &end);

    if (end == text || *end || !(factor > 1) || factor > 1e6)
        return bad(o, "-f wants a factor above 1, not '%s'", text);
    o->step_factor = factor;
    return 0;
}

static int choice_option(const struct bench_options *o, const char *name, const char *text, const char *const names[],
                         int n, int *value)
{
    *value = one_of(text, names, n);
    if (*value >= 0)
        return 0;
    char list[128] = "";
    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", names[i]);
    return bad(o, "%s is one of %s, not '%s'", name, list, text);
}

/* Options that nccl-tests has and that mean nothing for host memory: only their neutral value is accepted. */
static int neutral_option(const struct bench_options *o, int letter, const char *text, const char *neutral,
                          const char *why)
{
    if (strcmp(text, neutral) == 0)
        return 0;
    return bad(o, "-%c %s makes no sense here: %s; only %s is accepted", letter, text, why, neutral);
}

static int set_letter(struct bench_options *o, int letter, const char *arg)
{
    uint64_t v = 0;
    int status = 0;

    switch (letter) {
    case 'C':
        return parse_colls(o, arg);
    case 'b':
        return bytes_option(o, "-b", arg, &o->min_bytes);
    case 'e':
        return bytes_option(o, "-e", arg, &o->max_bytes);
    case 'i':
        o->step_factor = 0;
        return bytes_option(o, "-i", arg, &o->step_bytes);
    case 'f':
        return parse_factor(o, arg);
    case 'n':
        o->has_iters = 1;
        return count_option(o, "-n", arg, 1, 1000000000, &o->iters);
    case 'w':
        o->has_warmup = 1;
        return count_option(o, "-w", arg, 0, 1000000000, &o->warmup);
    case 'm':
        return count_option(o, "-m", arg, 1, 1024, &o->agg);
    case 'N':
        return count_option(o, "-N", arg, 1, 1000000, &o->runs);
    case 'c':
        return count_option(o, "-c", arg, 0, 1000000, &o->check);
    case 'o':
        return parse_ops(o, arg);
    case 'd':
        return parse_dtypes(o, arg);
    case 'r':
        return parse_root(o, arg);
    case 'z':
        status = count_option(o, "-z", arg, 0, 1, &v);
        o->form = v ? BENCH_BLOCKING : BENCH_REQUEST;
        return status;
    case 'a':
        status = count_option(o, "-a", arg, 0, 3, &v);
        o->average = (enum bench_average)v;
        return status;
    default:
        return -1;
    }
}

static int set_neutral(struct bench_options *o, int letter, const char *arg)
{
    switch (letter) {
    case 'p':
        return neutral_option(o, letter, arg, "0", "each process makes its own communicator");
    case 'G':
        return neutral_option(o, letter, arg, "0", "there are no CUDA graphs on host memory");
    case 'y':
        return neutral_option(o, letter, arg, "0", "there are no streams on host memory");
    case 't':
        return neutral_option(o, letter, arg, "1", "a rank is a process; start more of them");
    case 'g':
        return neutral_option(o, letter, arg, "1", "a rank is a process; start more of them");
    default:
        return -1;
    }
}

static int set_long(struct bench_options *o, int option, const char *arg)
{
    int v = 0, status = 0;
    uint64_t u = 0;

    switch (option) {
    case OPT_DIRTY:
        status = choice_option(o, "--dirty", arg, dirty_names, 3, &v);
        o->dirty = (enum bench_dirty)v;
        return status;
    case OPT_MEMORY:
        status = choice_option(o, "--memory", arg, memory_names, 3, &v);
        o->memory = (enum bench_memory)v;
        return status;
    case OPT_PLACE:
        status = choice_option(o, "--place", arg, place_names, 3, &v);
        o->out_of_place = v != 1;
        o->in_place = v != 0;
        return status;
    case OPT_AGAINST:
        if (strcmp(arg, "mpi") != 0)
            return bad(o, "--against knows only mpi, not '%s'", arg);
        o->against_mpi = 1;
        return 0;
    case OPT_OFFSET:
        return bytes_option(o, "--offset", arg, &o->offset);
    case OPT_CPU_TIME:
        status = count_option(o, "--report_cputime", arg, 0, 1, &u);
        o->cpu_time = (int)u;
        return status;
    case 'T':
        return parse_seconds(o, arg);
    default:
        return -1;
    }
}

static const char *long_name(int option)
{
    int i = 0;

    while (long_options[i].name && long_options[i].val != option)
        i++;
    return long_options[i].name;
}

static int set_mode(struct bench_options *o, int option)
{
    enum bench_mode mode = option == OPT_LIST ? BENCH_MODE_LIST : BENCH_MODE_OVERLAP + (unsigned)(option - OPT_OVERLAP);

    if (o->mode != BENCH_MODE_COLLS && o->mode != mode)
        return bad(o, "--%s and --%s are separate measurements; leave one of them out", long_name(o->mode_option),
                   long_name(option));
    o->mode = mode;
    o->mode_option = option;
    return 0;
}

static int set_plain(struct bench_options *o, int option, char *arg)
{
    switch (option) {
    case OPT_BLOCKING:
    case OPT_REQUEST:
    case OPT_PERSISTENT:
        o->form = (enum bench_form)(option - OPT_BLOCKING);
        return 0;
    case OPT_OVERLAP:
    case OPT_BESIDE:
    case OPT_IDLE:
    case OPT_STARTUP:
    case OPT_LIST:
        return set_mode(o, option);
    case OPT_PERCENTILES:
        o->percentiles = 1;
        return 0;
    case OPT_ALGO:
        o->algorithm = arg;
        return 0;
    case OPT_CODEC:
        o->codec = arg;
        return 0;
    case 'J':
    case OPT_JSON:
        o->json = arg;
        return 0;
    case OPT_CSV:
        o->csv = arg;
        return 0;
    case OPT_PLOT:
        o->plot = arg;
        return 0;
    default:
        return -1;
    }
}

/* A collective that would measure nothing, since the operator is undefined for all of the types. */
static int ops_check(const struct bench_options *o)
{
    for (int d = 0; d < WEFT_NUM_DTYPES; d++)
        for (weft_op op = 0; op < WEFT_NUM_OPS; op++)
            if (o->dtypes & 1u << d && o->ops & 1u << op && bench_op_fits((weft_dtype)d, op))
                return 0;
    for (int c = 0; c < BENCH_NUM_COLLS; c++)
        if (o->colls & 1u << c && bench_coll_reduces((enum bench_coll)c))
            return bad(o, "-o: undefined for this type (-d), so that %s measures nothing",
                       bench_coll_name((enum bench_coll)c));
    return 0;
}

/* One that was not given gives way to the other. */
static void settle_sizes(struct bench_options *o)
{
    if (o->min_bytes == NOT_GIVEN)
        o->min_bytes = o->max_bytes < MIN_BYTES ? o->max_bytes : MIN_BYTES;
    if (o->max_bytes == NOT_GIVEN)
        o->max_bytes = o->min_bytes > MAX_BYTES ? o->min_bytes : MAX_BYTES;
}

static int combine_check(struct bench_options *o)
{
    settle_sizes(o);
    if (o->min_bytes > o->max_bytes)
        return bad(o, "-b %zu is above -e %zu", o->min_bytes, o->max_bytes);
    if (o->step_factor == 0 && o->step_bytes == 0 && o->min_bytes < o->max_bytes)
        return bad(o, "-i 0 would repeat the first size for ever");
    if (o->agg > 1 && o->form == BENCH_PERSISTENT)
        return bad(o, "-m groups calls, which persistent operations cannot be; leave one of them out");
    if (o->agg > 1 && o->percentiles)
        return bad(o, "--percentiles times single calls, -m groups of them; leave one of them out");
    return ops_check(o);
}

/* --overlap and --beside time one all_reduce of floats, of -e bytes. */
static int mode_check(const struct bench_options *o, const int given[], int ngiven, const char *operand)
{
    static const int used[] = {'e', 'T', 'J', OPT_JSON, OPT_MEMORY, OPT_OFFSET, OPT_ALGO, OPT_OVERLAP, OPT_BESIDE};

    if (o->mode != BENCH_MODE_OVERLAP && o->mode != BENCH_MODE_BESIDE)
        return 0;
    if (operand)
        return bad(o, "--%s measures all_reduce only; leave out '%s'", long_name(o->mode_option), operand);
    for (int i = 0; i < ngiven; i++) {
        size_t k = 0;
        while (k < sizeof used / sizeof used[0] && used[k] != given[i])
            k++;
        if (k == sizeof used / sizeof used[0])
            return bad(o, "--%s does not use --%s: it takes -e, -T, --memory, --offset, --algo and --json",
                       long_name(o->mode_option), long_name(given[i]));
    }
    return 0;
}

/* Collectives may be named without -C. */
static int parse_operands(struct bench_options *o, int argc, char **argv)
{
    unsigned colls = 0;

    for (int i = optind; i < argc; i++) {
        int status = parse_colls(o, argv[i]);
        if (status)
            return status;
        colls |= o->colls;
    }
    o->colls = colls ? colls : o->colls;
    return combine_check(o);
}

int bench_options_parse(int argc, char **argv, struct bench_options *o)
{
    int c, rank = o->rank, given[64], ngiven = 0;

    *o = (struct bench_options){
        .colls = 1u << BENCH_ALL_REDUCE,
        .min_bytes = NOT_GIVEN,
        .max_bytes = NOT_GIVEN,
        .step_bytes = 1u << 20,
        .step_factor = 2,
        .agg = 1,
        .runs = 1,
        .check = 1,
        .ops = 1u << WEFT_SUM,
        .dtypes = 1u << WEFT_FLOAT32,
        .dirty = BENCH_DIRTY_BATCH,
        .average = BENCH_AVG_MEAN,
        .out_of_place = 1,
        .in_place = 1,
        .rank = rank,
    };
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":C:b:e:i:f:n:w:m:N:c:o:d:r:z:p:G:t:g:a:y:J:T:h", long_options, NULL)) != -1) {
        if (c == 'h' || c == OPT_VERSION) {
            if (!rank && c == 'h')
                bench_help(stdout);
            else if (!rank)
                printf("weft-bench %s\n", weft_version());
            return 1;
        }
        if (c == ':')
            return bad(o, "%s wants a value", argv[optind - 1]);
        if (c == '?')
            return bad(o, "unknown option %s", argv[optind - 1]);
        int status = set_letter(o, c, optarg);
        status = status < 0 ? set_neutral(o, c, optarg) : status;
        status = status < 0 ? set_long(o, c, optarg) : status;
        status = status < 0 ? set_plain(o, c, optarg) : status;
        if (status)
            return status;
        if (ngiven < (int)(sizeof given / sizeof given[0]))
            given[ngiven++] = c;
    }
    c = mode_check(o, given, ngiven, optind < argc ? argv[optind] : NULL);
    return c ? c : parse_operands(o, argc, argv);
}
