/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: the command line. */
#include "codec_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "tool_plugins.h"

static const char usage[] = "Usage: weft-codec [option]... [CODEC]...\n"
                            "How fast codecs of gradient compression are, how long their images, and what\n"
                            "they lose. CODEC is such as int4:block=64; without any, all that there are.\n"
                            "  -n, --bytes SIZE      the vector of fp32 that is timed (64M; with K, M, G)\n"
                            "  -e, --elements N      of each kind of generated data (1048576)\n"
                            "  -f, --file FILE       errors on a .npy or safetensors file instead\n"
                            "      --tensor NAME     only this tensor of the file\n"
                            "  -r, --repeat N        timings of which the median counts (7)\n"
                            "  -t, --threads N       threads that share the vector (1)\n"
                            "      --seed N          of generated data (1)\n"
                            "      --only WHAT       speed, or errors\n"
                            "      --json            print all as JSON\n"
                            "      --plot FILE       draw errors over bits, and speeds, as SVG\n"
                            "  -l, --list            which codecs there are\n"
                            "  -h, --help  -V, --version\n"
                            "Exit status: 0; 1 a file or a codec cannot be used; 2 bad arguments.\n";

enum { OPTION_TENSOR = 256, OPTION_SEED, OPTION_ONLY, OPTION_JSON, OPTION_PLOT };

static const struct option long_options[] = {
    {"bytes", required_argument, NULL, 'n'},
    {"elements", required_argument, NULL, 'e'},
    {"file", required_argument, NULL, 'f'},
    {"tensor", required_argument, NULL, OPTION_TENSOR},
    {"repeat", required_argument, NULL, 'r'},
    {"threads", required_argument, NULL, 't'},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"only", required_argument, NULL, OPTION_ONLY},
    {"json", no_argument, NULL, OPTION_JSON},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"list", no_argument, NULL, 'l'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int bad(const char *what, const char *value)
{
    fprintf(stderr, "weft-codec: %s%s%s; see weft-codec --help\n", what, value ? ": " : "", value ? value : "");
    return 2;
}

/* With K, M or G behind the digits, if `units`. */
static int number(const char *text, int units, uint64_t least, uint64_t most, uint64_t *out)
{
    static const char letters[] = "KMG";
    char *end;

    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || text[0] < '0' || text[0] > '9')
        return -1;
    if (units && *end && strchr(letters, *end)) {
        unsigned shift = 10 * (unsigned)(strchr(letters, *end++) - letters + 1);
        if (v > most >> shift)
            return -1;
        v <<= shift;
    }
    if (*end || v < least || v > most)
        return -1;
    *out = v;
    return 0;
}

static int set_number(struct codec_options *o, int option, const char *value)
{
    uint64_t v;

    switch (option) {
    case 'n':
        if (number(value, 1, 4, (uint64_t)1 << 36, &v))
            return bad("--bytes takes 4 to 64G", value);
        o->bytes = v / 4 * 4;
        return -1;
    case 'e':
        if (number(value, 1, 1, (uint64_t)1 << 32, &v))
            return bad("--elements takes 1 to 4G", value);
        o->elems = v;
        return -1;
    case 'r':
        if (number(value, 0, 1, 10000, &v))
            return bad("--repeat takes 1 to 10000", value);
        o->repeat = (int)v;
        return -1;
    case 't':
        if (number(value, 0, 1, 1024, &v))
            return bad("--threads takes 1 to 1024", value);
        o->threads = (int)v;
        return -1;
    default:
        return number(value, 0, 0, UINT64_MAX, &o->seed) ? bad("--seed takes a number from 0", value) : -1;
    }
}

static int set_only(struct codec_options *o, const char *value)
{
    o->speed = !strcmp(value, "speed");
    o->errors = !strcmp(value, "errors");
    return o->speed || o->errors ? -1 : bad("--only takes speed or errors", value);
}

static void show(void *arg, const char *codec, const char *summary)
{
    fprintf(arg, "%-12s %s\n", codec, summary);
}

int codec_load_plugins(void)
{
    if (tool_load_plugins() >= 0)
        return 0;
    fprintf(stderr, "weft-codec: plugins: %s\n", weft_thread_error());
    return 1;
}

static int parse_option(struct codec_options *o, int option, const char *value)
{
    switch (option) {
    case 'f':
        o->file = value;
        return -1;
    case OPTION_TENSOR:
        o->tensor = value;
        return -1;
    case OPTION_ONLY:
        return set_only(o, value);
    case OPTION_JSON:
        o->json = 1;
        return -1;
    case OPTION_PLOT:
        o->plot = value;
        return -1;
    case 'l':
        return codec_load_plugins() || weft_codec_list(show, stdout) < 0;
    case 'h':
        fputs(usage, stdout);
        return 0;
    case 'V':
        printf("weft-codec (weft) %s\n", weft_version());
        return 0;
    default:
        return set_number(o, option, value);
    }
}

int codec_parse_options(struct codec_options *o, int argc, char **argv)
{
    int option, status;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":n:e:f:r:t:lhV", long_options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return tool_bad_option("weft-codec", option, argv);
        if ((status = parse_option(o, option, optarg)) >= 0)
            return status ? status : tool_output_lost("weft-codec");
    }
    if (o->tensor && !o->file)
        return bad("--tensor is of a --file", o->tensor);
    if (o->file && !o->errors)
        return bad("--only speed is not about a file", o->file);
    if (o->plot && !*o->plot)
        return bad("--plot takes a file", NULL);
    if (o->plot && (!o->speed || !o->errors))
        return bad("--plot draws both: leave out --only", o->plot);
    return -1;
}
