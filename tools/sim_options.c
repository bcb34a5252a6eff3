/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim's command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "tool.h"
#include "weft_sim.h"

static const char usage[] = "Usage: weft-sim [option]... COLLECTIVE\n"
                            "       weft-sim [option]... --step FILE\n"
                            "Predict what a collective, or the communication of a training step, takes.\n"
                            "The machine:\n"
                            "  -t, --topo FILE            a graph: XML, JSON or a synthetic description\n"
                            "  -s, --synthetic TEXT       \"nodes:4 pack:2 core:8 gpu:4 nic:2@400Gb\"\n"
                            "  -u, --uniform RATE,LATENCY[,REDUCE]  all ranks alike: \"100Gb,2us,7GB\"\n"
                            "  -P, --ranks RANKS          default: one for each GPU, or for each core where\n"
                            "                             there are none\n"
                            "      --place HOW            even (as the library does), by-core (fill host\n"
                            "                             after host), round-robin (neighbours on different\n"
                            "                             hosts)\n"
                            "The operation:\n"
                            "  -n, --bytes BYTES          of the vector, or of one rank's share: 64K, 16M\n"
                            "                             (default 1M)\n"
                            "  -a, --algo NAME            or \"all\": compare them (default: the fastest)\n"
                            "      --slice BYTES          cut blocks like this, 0: not at all (default: as\n"
                            "                             the library does)\n"
                            "      --root RANK  --in-place  --radix K\n"
                            "      --step FILE            a list of collectives and compute\n"
                            "      --method HOW           events, formula (default: events up to 16384 ranks)\n"
                            "Faults:\n"
                            "  -f, --fail LINK            it carries nothing\n"
                            "      --slow LINK=FACTOR     it has this share of its rate\n"
                            "      --straggler RANK=FACTOR or RANK=+TIME\n"
                            "                             its core takes FACTOR times as long, or it begins\n"
                            "                             later\n"
                            "Output:\n"
                            "  -l, --links  -c, --critical  --timeline text|perfetto=FILE  -j, --json\n"
                            "  -h, --help  -V, --version\n"
                            "Exit status: 0; 1 it cannot be simulated: a machine, rank, link, algorithm or\n"
                            "file that there is not, a failed link; 2 bad options.\n";

enum { PLACE = 256, SLICE, ROOT, IN_PLACE, RADIX, STEP, METHOD, SLOW, STRAGGLER, TIMELINE };

static const struct option longs[] = {
    {"topo", 1, NULL, 't'},
    {"synthetic", 1, NULL, 's'},
    {"uniform", 1, NULL, 'u'},
    {"ranks", 1, NULL, 'P'},
    {"place", 1, NULL, PLACE},
    {"bytes", 1, NULL, 'n'},
    {"algo", 1, NULL, 'a'},
    {"slice", 1, NULL, SLICE},
    {"root", 1, NULL, ROOT},
    {"in-place", 0, NULL, IN_PLACE},
    {"radix", 1, NULL, RADIX},
    {"step", 1, NULL, STEP},
    {"method", 1, NULL, METHOD},
    {"fail", 1, NULL, 'f'},
    {"slow", 1, NULL, SLOW},
    {"straggler", 1, NULL, STRAGGLER},
    {"timeline", 1, NULL, TIMELINE},
    {"links", 0, NULL, 'l'},
    {"critical", 0, NULL, 'c'},
    {"json", 0, NULL, 'j'},
    {"help", 0, NULL, 'h'},
    {"version", 0, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int refuse(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "weft-sim: %s \"%s\": %s; see weft-sim --help\n", option, value, wanted);
    return 2;
}

static int number(const char *option, const char *text, int64_t least, int64_t most, int *value)
{
    char wanted[96];
    int64_t v;

    snprintf(wanted, sizeof wanted, "must be a number from %lld to %lld", (long long)least, (long long)most);
    if (wi_parse_int(text, &v) || v < least || v > most)
        return refuse(option, text, wanted);
    *value = (int)v;
    return -1;
}

static int choice(const char *option, const char *text, const char *const *names, int *value)
{
    char wanted[128] = "must be one of";

    for (int i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) {
            *value = i;
            return -1;
        }
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " %s", names[i]);
    }
    return refuse(option, text, wanted);
}

static int listed(const char *option, const char *text, const char **list, int *n)
{
    if (*n == SIM_MAX_FAULTS)
        return refuse(option, text, "too many faults");
    list[(*n)++] = text;
    return -1;
}

static int timeline(const char *text, struct sim_options *o)
{
    if (!strcmp(text, "text"))
        o->timeline = 1;
    else if (!strncmp(text, "perfetto=", 9) && text[9])
        o->perfetto = text + 9;
    else
        return refuse("--timeline", text, "must be text or perfetto=FILE");
    return -1;
}

static int option_machine(int c, struct sim_options *o)
{
    static const char *const places[] = {"even", "by-core", "round-robin", NULL};
    int value, status = -1;

    switch (c) {
    case 't':
        o->topo = optarg;
        break;
    case 's':
        o->synthetic = optarg;
        break;
    case 'u':
        o->uniform = optarg;
        break;
    case 'P':
        return number("-P", optarg, 1, WI_MODEL_MAX_RANKS, &o->nranks);
    case PLACE:
        status = choice("--place", optarg, places, &value);
        if (status < 0)
            o->place = (enum sim_place)value;
        break;
    case 'f':
        return listed("--fail", optarg, o->fail, &o->nfail);
    case SLOW:
        return listed("--slow", optarg, o->slow, &o->nslow);
    case STRAGGLER:
        return listed("--straggler", optarg, o->straggler, &o->nstraggler);
    default:
        return -2;
    }
    return status;
}

static int option_operation(int c, struct sim_options *o)
{
    static const char *const methods[] = {"auto", "events", "formula", NULL};
    int value, status = -1;

    switch (c) {
    case 'n':
        return wi_parse_bytes(optarg, &o->bytes) ? refuse("-n", optarg, "must be bytes, like 64K or 16M") : -1;
    case 'a':
        o->algo = optarg;
        break;
    case SLICE:
        o->slice_given = 1;
        return wi_parse_bytes(optarg, &o->slice) ? refuse("--slice", optarg, "must be bytes, like 256K") : -1;
    case ROOT:
        return number("--root", optarg, 0, WI_MODEL_MAX_RANKS, &o->root);
    case RADIX:
        return number("--radix", optarg, 2, WI_MODEL_MAX_RANKS, &o->radix);
    case IN_PLACE:
        o->in_place = 1;
        break;
    case STEP:
        o->step = optarg;
        break;
    case METHOD:
        status = choice("--method", optarg, methods, &value);
        if (status < 0)
            o->method = (enum sim_method)value;
        break;
    default:
        return -2;
    }
    return status;
}

static int option_output(int c, struct sim_options *o)
{
    switch (c) {
    case 'l':
        o->links = 1;
        return -1;
    case 'c':
        o->critical = 1;
        return -1;
    case 'j':
        o->json = 1;
        return -1;
    case TIMELINE:
        return timeline(optarg, o);
    case 'h':
        fputs(usage, stdout);
        return 0;
    case 'V':
        printf("weft-sim %s\n", weft_version());
        return 0;
    default:
        return 2;
    }
}

static int check(struct sim_options *o, int argc, char **argv)
{
    int machines = !!o->topo + !!o->synthetic + !!o->uniform;

    if (machines != 1) {
        fprintf(stderr,
                "weft-sim: one of --topo, --synthetic and --uniform must describe the machine; see weft-sim --help\n");
        return 2;
    }
    if (o->step && optind < argc)
        return refuse("argument", argv[optind], "a step file says which collectives there are");
    if (o->step && (o->timeline || o->critical || o->perfetto || o->links))
        return refuse("--step", o->step, "has no --timeline, --critical or --links: they are of one collective");
    if (o->step)
        return -1;
    if (optind == argc) {
        fprintf(stderr, "weft-sim: a collective is wanted, like all_reduce (or --step FILE); see weft-sim --help\n");
        return 2;
    }
    if (optind + 1 < argc)
        return refuse("argument", argv[optind + 1], "one collective only");
    if (wi_coll_parse(argv[optind], &o->coll) || o->coll >= WI_COLL_SEND || wi_algo_family(o->coll) != o->coll)
        return refuse("collective", argv[optind],
                      "must be all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter, "
                      "scan, exscan or barrier");
    o->has_coll = 1;
    return -1;
}

int sim_options_parse(int argc, char **argv, struct sim_options *o)
{
    int c;

    *o = (struct sim_options){.bytes = 1u << 20};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":t:s:u:P:n:a:f:lcjhV", longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return tool_bad_option("weft-sim", c, argv);
        int status = option_machine(c, o);
        if (status == -2)
            status = option_operation(c, o);
        if (status == -2)
            status = option_output(c, o);
        if (status >= 0)
            return status;
    }
    return check(o, argc, argv);
}
