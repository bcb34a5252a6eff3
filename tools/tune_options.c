/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: its command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "tool.h"
#include "weft_tune.h"

#define MAX_ROUNDS 1000

static const char help[] = "usage: LAUNCHER weft-tune -o FILE [OPTION]...\n"
                           "       weft-tune --check FILE [--table FILE] [--plot FILE]\n\n"
                           "Measure links and algorithms among the ranks that a launcher starts\n"
                           "(weft-run -n 4 weft-tune -o FILE), and write a table for WEFT_TUNING_FILE. What\n"
                           "FILE holds already is kept and not measured again.\n"
                           "\n"
                           "  -o, --output FILE     the table\n"
                           "  -s, --sizes MIN-MAX   bytes of the vector, or of all ranks' shares together\n"
                           "                        (8-64M)\n"
                           "  -f, --factor N        from one size to the next (4)\n"
                           "  -c, --colls LIST      collectives, by commas\n"
                           "                        (all_reduce,reduce,broadcast,all_gather,reduce_scatter,\n"
                           "                        all_to_all,gather,scatter,barrier), or all\n"
                           "  -m, --memory KIND     private (malloc), mapped (weft_mem_alloc) or both (both)\n"
                           "  -p, --point MS        for each algorithm at each size, all rounds together\n"
                           "                        (20)\n"
                           "  -r, --rounds N        through all points, one after the other (9)\n"
                           "  -t, --time SECONDS    begin nothing new after that; a second run goes on\n"
                           "      --no-links        do not measure pairs of ranks\n"
                           "      --no-rates        do not measure how fast cores copy and reduce\n"
                           "  -q, --quiet           no progress, no report\n"
                           "      --check FILE      judge choices and predictions by the measurements in\n"
                           "                        FILE; touches no network\n"
                           "      --table FILE      the table that chooses and predicts (that of --check);\n"
                           "                        with -o: measure what it chooses, too\n"
                           "      --all             with --check: print every choice, not only the bad ones\n"
                           "      --plot FILE       with --check: an SVG of predictions and regret\n"
                           "  -h, --help, -V, --version\n";

static int bad(int rank, const char *what, const char *value)
{
    tool_after_rank_0(rank);
    fprintf(stderr, value ? "weft-tune: %s \"%s\"; see weft-tune --help\n" : "weft-tune: %s; see weft-tune --help\n",
            what, value);
    return 2;
}

static int add_size(struct tune_options *o, size_t bytes)
{
    if (o->nsizes == TUNE_MAX_SIZES)
        return -1;
    o->sizes[o->nsizes++] = bytes;
    return 0;
}

static int parse_sizes(const char *text, double factor, struct tune_options *o)
{
    char low[32], *dash;
    size_t least, most;

    if (strlen(text) >= sizeof low)
        return -1;
    strcpy(low, text);
    dash = strchr(low, '-');
    if (dash)
        *dash = '\0';
    if (wi_parse_bytes(low, &least) || wi_parse_bytes(dash ? dash + 1 : low, &most) || least < 1 || least > most ||
        most > (size_t)16 << 30)
        return -1;
    for (double s = (double)least; s < (double)most; s *= factor)
        if (add_size(o, (size_t)s))
            return -1;
    return add_size(o, most);
}

static int parse_colls(const char *list, struct tune_options *o)
{
    char *copy = strdup(list), *save = NULL;
    int n = 0;

    for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w; w = strtok_r(NULL, ",", &save)) {
        enum wi_coll coll;
        if (strcmp(w, "all") == 0) {
            for (const struct wi_algo *const *a = wi_algos; *a; a++)
                o->colls[(*a)->coll] = 1;
            n++;
            continue;
        }
        if (wi_coll_parse(w, &coll) || wi_algo_family(coll) != coll || !wi_algo_find(coll, "flat")) {
            free(copy);
            return -1;
        }
        o->colls[coll] = 1;
        n++;
    }
    free(copy);
    return n ? 0 : -1;
}

static int parse_number(const char *text, double least, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return *end || end == text || !(*value >= least && *value <= most) ? -1 : 0;
}

static const struct option longs[] = {
    {"output", 1, NULL, 'o'},   {"sizes", 1, NULL, 's'},   {"factor", 1, NULL, 'f'}, {"colls", 1, NULL, 'c'},
    {"memory", 1, NULL, 'm'},   {"point", 1, NULL, 'p'},   {"time", 1, NULL, 't'},   {"no-links", 0, NULL, 'L'},
    {"no-rates", 0, NULL, 'R'}, {"quiet", 0, NULL, 'q'},   {"check", 1, NULL, 'K'},  {"table", 1, NULL, 'T'},
    {"help", 0, NULL, 'h'},     {"version", 0, NULL, 'V'}, {"rounds", 1, NULL, 'r'}, {"plot", 1, NULL, 'P'},
    {"all", 0, NULL, 'A'},      {NULL, 0, NULL, 0},
};

struct words {
    const char *sizes, *colls, *memory;
    double factor;
};

/* Options of --check. */
static int take_check(int c, struct tune_options *o)
{
    switch (c) {
    case 'K':
        o->check = optarg;
        return 1;
    case 'T':
        o->table = optarg;
        return 1;
    case 'P':
        o->plot = optarg;
        return 1;
    case 'A':
        o->all = 1;
        return 1;
    default:
        return 0;
    }
}

static int take(int c, struct tune_options *o, struct words *w, int rank)
{
    double rounds;

    if (take_check(c, o))
        return 0;
    switch (c) {
    case 'o':
        o->output = optarg;
        return 0;
    case 's':
        w->sizes = optarg;
        return 0;
    case 'f':
        return parse_number(optarg, 1.01, 1e6, &w->factor) ? bad(rank, "--factor: not a number above 1:", optarg) : 0;
    case 'c':
        w->colls = optarg;
        return 0;
    case 'm':
        w->memory = optarg;
        return 0;
    case 'p':
        return parse_number(optarg, 0.1, 1e5, &o->point_ms) ? bad(rank, "--point: not milliseconds:", optarg) : 0;
    case 't':
        return parse_number(optarg, 0.1, 1e6, &o->total_s) ? bad(rank, "--time: not seconds:", optarg) : 0;
    case 'L':
        o->links = 0;
        return 0;
    case 'R':
        o->rates = 0;
        return 0;
    case 'q':
        o->quiet = 1;
        return 0;
    case 'r':
        if (parse_number(optarg, 1, MAX_ROUNDS, &rounds) || rounds != (int)rounds)
            return bad(rank, "--rounds: not a whole number from 1 to 1000:", optarg);
        o->rounds = (int)rounds;
        return 0;
    case 'h':
        if (!rank)
            fputs(help, stdout);
        return 1;
    case 'V':
        if (!rank)
            printf("weft-tune %s\n", weft_version());
        return 1;
    default:
        return 2;
    }
}

static int settle(struct tune_options *o, const struct words *w, int rank)
{
    static const char *const kinds[] = {"private", "mapped", "both"};
    int kind;

    if (parse_sizes(w->sizes, w->factor, o))
        return bad(rank, "--sizes: not a range such as 8-64M:", w->sizes);
    if (parse_colls(w->colls, o))
        return bad(rank, "--colls: not names of collectives:", w->colls);
    for (kind = 0; kind < 3 && strcmp(kinds[kind], w->memory); kind++)
        ;
    if (kind == 3)
        return bad(rank, "--memory: not private, mapped or both:", w->memory);
    o->memory = (enum tune_memory)kind;
    if (o->check && o->output)
        return bad(rank, "--check measures nothing for -o:", o->output);
    if (!o->check && !o->output)
        return bad(rank, "no table is named: -o FILE", NULL);
    if (!o->check && (o->plot || o->all))
        return bad(rank, "needs --check FILE:", o->plot ? "--plot" : "--all");
    return 0;
}

int tune_options_parse(int argc, char **argv, int rank, struct tune_options *o)
{
    struct words w = {
        "8-64M", "all_reduce,reduce,broadcast,all_gather,reduce_scatter,all_to_all,gather,scatter,barrier", "both", 4};
    int c;

    *o = (struct tune_options){.point_ms = 20, .links = 1, .rates = 1, .rounds = 9};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:s:f:c:m:p:r:t:qhV", longs, NULL)) != -1) {
        if (c == '?' || c == ':') {
            tool_after_rank_0(rank);
            return tool_bad_option("weft-tune", c, argv);
        }
        int status = take(c, o, &w, rank);
        if (status)
            return status;
    }
    if (optind < argc)
        return bad(rank, "unexpected argument", argv[optind]);
    return settle(o, &w, rank);
}
