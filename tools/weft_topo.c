/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-topo: the machine, or a described one, as a tree, a picture or a file; where ranks go, and their rings. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/tool.h"
#include "tools/topo_tool.h"

static const char usage[] = "Usage: weft-topo [option]...\n"
                            "Print what weft knows of this machine, or of a described one: its objects, and\n"
                            "what the links between them do.\n"
                            "  -s, --synthetic TEXT   a machine in one line: \"nodes:4 core:8 nic:2@400Gb\"\n"
                            "  -f, --file FILE        a machine from a file (XML, JSON, or such lines);\n"
                            "                         several are merged\n"
                            "      --hwloc FILE       a machine from lstopo's XML\n"
                            "      --network FILE     the network between the machines that are merged\n"
                            "      --export FORMAT    print it as xml, json or dot instead of a tree\n"
                            "      --svg FILE         draw it, too (-: to standard output, without the tree)\n"
                            "  -n, --ranks N          place N ranks: where, by which NIC, which levels\n"
                            "  -r, --rings            the rings over those ranks (one rank for each GPU, or\n"
                            "                         each core, without --ranks)\n"
                            "  -h, --help  -V, --version\n"
                            "Exit status: 0; 1 the machine or the file cannot be read; 2 bad arguments.\n";

enum { OPTION_HWLOC = 256, OPTION_NETWORK, OPTION_EXPORT, OPTION_SVG };

static const struct option long_options[] = {
    {"synthetic", required_argument, NULL, 's'},
    {"file", required_argument, NULL, 'f'},
    {"hwloc", required_argument, NULL, OPTION_HWLOC},
    {"network", required_argument, NULL, OPTION_NETWORK},
    {"export", required_argument, NULL, OPTION_EXPORT},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"ranks", required_argument, NULL, 'n'},
    {"rings", no_argument, NULL, 'r'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static const struct format {
    const char *name;
    weft_status (*write)(const struct wi_topo *, FILE *);
} formats[] = {{"xml", wi_topo_xml}, {"json", wi_topo_json}, {"dot", wi_topo_dot}};

struct options {
    const char *svg;
    const struct format *format;
    int nranks, rings;
    struct topo_sources sources;
};

static int bad(const char *what, const char *value)
{
    fprintf(stderr, "weft-topo: %s%s%s; see weft-topo --help\n", what, value ? ": " : "", value ? value : "");
    return 2;
}

static int add_source(struct options *o, enum topo_source_kind kind, const char *text)
{
    if (o->sources.n == TOPO_MAX_SOURCES)
        return bad("too many machines", text);
    o->sources.list[o->sources.n++] = (struct topo_source){kind, text};
    return 0;
}

static int set_format(struct options *o, const char *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (!strcmp(formats[i].name, name)) {
            o->format = &formats[i];
            return 0;
        }
    return bad("--export takes xml, json or dot", name);
}

static int set_ranks(struct options *o, const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 1 || n > WI_MODEL_MAX_RANKS)
        return bad("--ranks takes 1 to 1048576", text);
    o->nranks = (int)n;
    return 0;
}

/* -1: go on; else the exit status. */
static int parse_option(struct options *o, int option, const char *value)
{
    switch (option) {
    case 's':
        return add_source(o, TOPO_SYNTHETIC, value) ? 2 : -1;
    case 'f':
        return add_source(o, TOPO_FILE, value) ? 2 : -1;
    case OPTION_HWLOC:
        return add_source(o, TOPO_HWLOC, value) ? 2 : -1;
    case OPTION_NETWORK:
        o->sources.network = value;
        return -1;
    case OPTION_EXPORT:
        return set_format(o, value) ? 2 : -1;
    case OPTION_SVG:
        o->svg = value;
        return -1;
    case 'n':
        return set_ranks(o, value) ? 2 : -1;
    case 'r':
        o->rings = 1;
        return -1;
    case 'h':
        fputs(usage, stdout);
        return 0;
    case 'V':
        printf("weft-topo (weft) %s\n", weft_version());
        return 0;
    default:
        return 2;
    }
}

static int write_svg(const struct wi_topo *topo, const char *path)
{
    FILE *out = strcmp(path, "-") ? fopen(path, "we") : stdout;

    if (!out) {
        fprintf(stderr, "weft-topo: %s: %s\n", path, strerror(errno));
        return 1;
    }
    weft_status st = wi_topo_svg(topo, out);
    if (out != stdout && fclose(out) && st == WEFT_SUCCESS)
        st = wi_fail_errno(errno, "%s", path);
    if (st < 0)
        fprintf(stderr, "weft-topo: %s: %s\n", path, wi_fail_text());
    return st < 0;
}

static int show(struct wi_topo *topo, const struct options *o)
{
    int only_svg = o->svg && !strcmp(o->svg, "-");

    if (o->svg && write_svg(topo, o->svg))
        return 1;
    weft_status st = WEFT_SUCCESS;
    if (!only_svg)
        st = o->format ? o->format->write(topo, stdout) : wi_topo_print(topo, stdout);
    if (st == WEFT_SUCCESS && (o->nranks || o->rings))
        st = topo_print_ranks(topo, o->nranks, o->rings, stdout);
    if (st < 0)
        fprintf(stderr, "weft-topo: %s\n", wi_fail_text());
    return st < 0;
}

int main(int argc, char **argv)
{
    struct options o = {NULL};
    struct wi_topo *topo;
    int option, status;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":s:f:n:rhV", long_options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return tool_bad_option("weft-topo", option, argv);
        if ((status = parse_option(&o, option, optarg)) >= 0)
            return status ? status : tool_output_lost("weft-topo");
    }
    if (optind < argc)
        return bad("no argument is wanted", argv[optind]);
    if (o.format && (o.nranks || o.rings))
        return bad("--export prints the machine only; leave out --ranks and --rings", NULL);
    if (topo_read_sources(&o.sources, &topo) < 0) {
        fprintf(stderr, "weft-topo: %s\n", wi_fail_text());
        return 1;
    }
    status = show(topo, &o);
    wi_topo_put(topo);
    return status ? status : tool_output_lost("weft-topo");
}
