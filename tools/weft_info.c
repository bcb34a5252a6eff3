/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-info: version, plugins, machine, settings and algorithms, as text or JSON. */
#include <errno.h>
#include <getopt.h>
#include <hwloc.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "algo/algo.h"
#include "base/rates.h"
#include "base/reduce.h"
#include "base/settings.h"
#include "base/settings_given.h"
#include "base/text.h"
#include "info_peers.h"
#include "tool.h"

#define REFUSED_SHOWN 8 /* files that others may have put there */

struct options {
    int settings, algorithms, json, peers;
};

static const char usage[] = "Usage: weft-info [option]...\n"
                            "Print weft's version, transports and machine.\n"
                            "  -c, --config       also every setting: value, default, where the value came\n"
                            "                     from, what it does\n"
                            "  -a, --algorithms   also every algorithm of every collective\n"
                            "  -A, --all          both\n"
                            "  -p, --peers        of a job, instead: which transport serves which ranks, and\n"
                            "                     why no better one; start it with weft-run, mpirun, srun\n"
                            "  -j, --json         everything as JSON; with --peers that alone\n"
                            "  -h, --help  -V, --version\n"
                            "Settings are read from the environment (WEFT_...) and from the file named by\n"
                            "WEFT_CONFIG_FILE, as a program would.\n"
                            "Exit status: 0; 1 a setting is malformed or the machine cannot be read; 2 bad\n"
                            "arguments.\n";

/* ---- The machine ---- */

static const struct {
    const char *name;
    hwloc_obj_type_t type;
} levels[] = {
    {"packages", HWLOC_OBJ_PACKAGE},
    {"numa_nodes", HWLOC_OBJ_NUMANODE},
    {"cores", HWLOC_OBJ_CORE},
    {"hardware_threads", HWLOC_OBJ_PU},
};

static const struct {
    const char *name;
    hwloc_obj_type_t type;
} caches[] = {
    {"L3", HWLOC_OBJ_L3CACHE},
    {"L2", HWLOC_OBJ_L2CACHE},
    {"L1d", HWLOC_OBJ_L1CACHE},
};

/* Instruction sets that weft's kernels exist for. */
static json_t *isa_json(void)
{
    json_t *isa = json_array();

#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        json_array_append_new(isa, json_string("avx2"));
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        json_array_append_new(isa, json_string("avx512"));
#elif defined(__aarch64__)
    json_array_append_new(isa, json_string("neon"));
#endif
    json_array_append_new(isa, json_string("scalar"));
    return isa;
}

static json_t *caches_json(hwloc_topology_t topology)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof(caches) / sizeof(caches[0]); i++) {
        int n = hwloc_get_nbobjs_by_type(topology, caches[i].type);
        hwloc_obj_t first = n > 0 ? hwloc_get_obj_by_type(topology, caches[i].type, 0) : NULL;
        if (first)
            json_array_append_new(list, json_pack("{s:s, s:i, s:I, s:i}", "name", caches[i].name, "count", n, "bytes",
                                                  (json_int_t)first->attr->cache.size, "line_bytes",
                                                  (int)first->attr->cache.linesize));
    }
    return list;
}

static const char *model(hwloc_topology_t topology)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

    return name ? name : "";
}

/* NULL if hwloc cannot read the machine. */
static json_t *machine_json(void)
{
    char host[256] = "";
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    gethostname(host, sizeof(host) - 1);
    json_t *machine = json_pack("{s:s, s:s, s:I}", "host", host, "processor", model(topology), "memory_bytes",
                                (json_int_t)hwloc_get_root_obj(topology)->total_memory);
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        int n = hwloc_get_nbobjs_by_type(topology, levels[i].type);
        json_object_set_new(machine, levels[i].name, json_integer(n < 0 ? 0 : n));
    }
    json_object_set_new(machine, "caches", caches_json(topology));
    json_object_set_new(machine, "isa", isa_json());
    hwloc_topology_destroy(topology);
    return machine;
}

static const char *value_of(const json_t *settings, const char *name)
{
    const json_t *row;
    size_t i;

    json_array_foreach(settings, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
            return json_string_value(json_object_get(row, "value"));
    }
    return NULL;
}

/* What this process would tell the others with WEFT_MEASURE_RATES=y. */
static json_t *rates_json(const json_t *settings)
{
    json_t *all = json_object(), *sums = json_object();
    struct wi_rates rates;
    const char *used = value_of(settings, "WEFT_MEASURE_RATES");

    if (wi_rates_here(&rates) < 0)
        return all;
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++)
        json_object_set_new(sums, weft_dtype_name((weft_dtype)t),
                            json_real((double)rates.reduce[t][WEFT_SUM][WI_RATE_CACHE]));
    json_object_set_new(all, "origin", json_string("measured now, in cache"));
    json_object_set_new(all, "used", json_string(used));
    json_object_set_new(all, "isa", json_string(wi_isa_name()));
    json_object_set_new(all, "copy", json_real((double)rates.copy[WI_RATE_CACHE]));
    json_object_set_new(all, "sum", sums);
    json_object_set_new(all, "user", json_real((double)rates.reduce[WEFT_FLOAT32][WI_RATE_USER][WI_RATE_CACHE]));
    return all;
}

/* ---- The library ---- */

json_t *info_string(const char *text)
{
    char plain[4096];
    json_t *string = text ? json_string(text) : json_null();
    size_t n = 0;

    if (string)
        return string;
    for (; text[n] && n < sizeof(plain) - 1; n++)
        plain[n] = text[n] & 0x80 ? '?' : text[n];
    return json_stringn(plain, n);
}

static void add_setting(void *arg, const char *name, const char *value, const char *default_value, const char *origin,
                        const char *help)
{
    json_t *row = json_object();

    json_object_set_new(row, "name", info_string(name));
    json_object_set_new(row, "value", info_string(value));
    json_object_set_new(row, "default", info_string(default_value));
    json_object_set_new(row, "origin", info_string(origin));
    json_object_set_new(row, "help", info_string(help));
    json_array_append_new(arg, row);
}

static void add_plugin(void *arg, const weft_plugin_info *plugin)
{
    json_t *row = json_object();

    json_object_set_new(row, "kind", info_string(plugin->kind));
    json_object_set_new(row, "name", info_string(plugin->name));
    json_object_set_new(row, "path", info_string(plugin->path));
    json_object_set_new(row, "refusal", info_string(plugin->refusal));
    json_array_append_new(arg, row);
}

static void add_algorithm(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    json_t *row = json_object();

    json_object_set_new(row, "collective", info_string(collective));
    json_object_set_new(row, "name", info_string(algorithm));
    json_object_set_new(row, "summary", info_string(summary));
    json_array_append_new(arg, row);
}

static int complain(const char *what, weft_status status)
{
    const char *details = weft_thread_error();

    fprintf(stderr, "weft-info: %s: %s%s%s\n", what, weft_status_text(status), details && details[0] ? ": " : "",
            details ? details : "");
    return 1;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static const char *const key_states[] = {
    [WEFT_KEY_NONE] = "none",   [WEFT_KEY_INSECURE] = "insecure", [WEFT_KEY_CONFIGURED] = "key",
    [WEFT_KEY_UNREAD] = "pipe", [WEFT_KEY_REFUSED] = "refused",
};

static const char *nearest_setting(const json_t *settings, const char *name)
{
    const char *nearest = NULL, *longer = NULL;
    size_t best = strlen(name) / 3 + 1, i;
    int nlonger = 0;
    json_t *row;

    json_array_foreach(settings, i, row)
    {
        const char *known = json_string_value(json_object_get(row, "name"));
        size_t distance = known ? wi_text_distance(name, known) : best;

        if (distance == 0)
            return known;
        if (known && wi_setting_lacks_word(name, known)) {
            longer = known;
            nlonger++;
        }
        if (distance < best) {
            best = distance;
            nearest = known;
        }
    }
    return nlonger == 1 ? longer : nearest;
}

/* Names in the environment and in the file that are no settings: the library says so in its log only. */
static weft_status add_unknown(json_t *all, const json_t *settings, const char *file)
{
    static const char *const origins[] = {[WI_ORIGIN_FILE] = "file", [WI_ORIGIN_ENVIRONMENT] = "environment"};
    struct wi_given_list list = {NULL};
    json_t *unknown = json_array();
    weft_status status = file && *file ? wi_given_read_file(&list, file) : WEFT_SUCCESS;

    if (status >= 0)
        status = wi_given_read_environment(&list);
    for (const struct wi_given *g = list.first; status >= 0 && g; g = g->next) {
        const char *nearest = nearest_setting(settings, g->name);

        if (nearest && strcmp(nearest, g->name) == 0)
            continue;
        json_t *row = json_pack("{s:s}", "origin", origins[g->origin]);
        json_object_set_new(row, "name", info_string(g->name));
        json_object_set_new(row, "nearest", info_string(nearest));
        json_array_append_new(unknown, row);
    }
    wi_given_free(&list);
    json_object_set_new(all, "unknown", unknown);
    return status;
}

static weft_status add_security(weft_context *context, json_t *all)
{
    weft_security security = WEFT_SECURITY_INIT;
    weft_status status = weft_context_security(context, &security);

    if (status != WEFT_SUCCESS)
        return status;
    json_object_set_new(all, "security", json_string(key_states[security.key]));
    json_object_set_new(all, "security_text", info_string(security.text));
    if (security.key == WEFT_KEY_REFUSED)
        json_object_set_new(all, "refusal", info_string(security.text));
    if (security.misspelt)
        json_object_set_new(all, "misspelt", info_string(security.misspelt));
    return WEFT_SUCCESS;
}

static int collect(weft_context *context, json_t *all)
{
    json_t *settings = json_array(), *plugins = json_array(), *algorithms = json_array();
    json_t *machine = machine_json();
    weft_status status;

    json_object_set_new(all, "version", json_string(weft_version()));
    json_object_set_new(all, "plugins", plugins);
    json_object_set_new(all, "settings", settings);
    json_object_set_new(all, "algorithms", algorithms);
    if (!machine)
        return fprintf(stderr, "weft-info: hwloc cannot read this machine\n"), 1;
    json_object_set_new(all, "machine", machine);
    status = weft_context_settings(context, add_setting, settings);
    if (status == WEFT_SUCCESS)
        status = weft_context_plugins(context, add_plugin, plugins);
    if (status == WEFT_SUCCESS)
        status = weft_algorithm_list(add_algorithm, algorithms);
    json_object_set_new(all, "rates", rates_json(settings));
    if (status == WEFT_SUCCESS)
        status = add_unknown(all, settings, value_of(settings, "WEFT_CONFIG_FILE"));
    if (status == WEFT_SUCCESS)
        status = add_security(context, all);
    return status == WEFT_SUCCESS ? 0 : complain("library", status);
}

/* ---- Text ---- */

static long long int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void print_machine(const json_t *machine)
{
    const json_t *row;
    size_t i;

    printf("machine   %s: %s\n", text_of(machine, "host"), text_of(machine, "processor"));
    printf("          %lld packages, %lld NUMA nodes, %lld cores, %lld hardware threads, %.1f GiB\n",
           int_of(machine, "packages"), int_of(machine, "numa_nodes"), int_of(machine, "cores"),
           int_of(machine, "hardware_threads"), (double)int_of(machine, "memory_bytes") / (1 << 30));
    json_array_foreach(json_object_get(machine, "caches"), i, row)
    {
        printf("          %s %lld x %lld KiB, lines of %lld bytes\n", text_of(row, "name"), int_of(row, "count"),
               int_of(row, "bytes") / 1024, int_of(row, "line_bytes"));
    }
    printf("isa      ");
    json_array_foreach(json_object_get(machine, "isa"), i, row)
    {
        printf(" %s", json_string_value(row));
    }
    printf("\n");
}

void info_print(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text);
}

static void print_plugin(const json_t *row)
{
    const char *path = json_string_value(json_object_get(row, "path"));

    printf("plugin    ");
    if (*text_of(row, "refusal") && *text_of(row, "kind")) {
        printf("%s ", text_of(row, "kind"));
        info_print(text_of(row, "name"));
        printf(" is left out: ");
        info_print(text_of(row, "refusal"));
        printf("\n");
        return;
    }
    if (*text_of(row, "refusal")) {
        info_print(path ? path : "a file");
        printf(" is not loaded: ");
        info_print(text_of(row, "refusal"));
        printf("\n");
        return;
    }
    printf("%s ", text_of(row, "kind"));
    info_print(text_of(row, "name"));
    printf(" (");
    info_print(path ? path : "built in");
    printf(")\n");
}

static void print_plugins(const json_t *plugins)
{
    const json_t *row;
    int refused = 0;
    size_t i;

    json_array_foreach(plugins, i, row)
    {
        if (!*text_of(row, "refusal") || refused++ < REFUSED_SHOWN)
            print_plugin(row);
    }
    if (refused > REFUSED_SHOWN)
        printf("plugin    and %d more that are not loaded (--json has them all)\n", refused - REFUSED_SHOWN);
}

static double rate_of(const json_t *object, const char *key)
{
    return json_real_value(json_object_get(object, key)) / 1e3;
}

static void print_rates(const json_t *rates)
{
    const json_t *sum = json_object_get(rates, "sum");

    printf("rates     GB/s, %s, by %s: copy %.1f; sum of float %.1f, double %.1f, int32 %.1f,\n"
           "          half %.1f, bfloat16 %.1f, f8e4m3 %.1f; a user's loop over floats %.1f\n"
           "          (WEFT_MEASURE_RATES=%s: communicators %s)\n",
           text_of(rates, "origin"), text_of(rates, "isa"), rate_of(rates, "copy"), rate_of(sum, "float"),
           rate_of(sum, "double"), rate_of(sum, "int32"), rate_of(sum, "half"), rate_of(sum, "bfloat16"),
           rate_of(sum, "f8e4m3"), rate_of(rates, "user"), text_of(rates, "used"),
           text_of(rates, "used")[0] == 'y' ? "choose by their slowest rank's"
                                            : "choose by constants or a tuning table");
}

static void print_security(const json_t *all)
{
    printf("security  %s\n", text_of(all, "security_text"));
    if (json_object_get(all, "misspelt"))
        printf("          %s\n", text_of(all, "misspelt"));
}

/* But a name that resembles a key's, which stands with the keys. */
static void print_unknown(const json_t *all)
{
    const char *misspelt = text_of(all, "misspelt");
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(all, "unknown"), i, row)
    {
        const char *name = text_of(row, "name"), *nearest = text_of(row, "nearest");
        size_t len = strlen(name);

        if (strncmp(misspelt, name, len) == 0 && misspelt[len] == ' ')
            continue;
        printf("unknown   ");
        info_print(name);
        printf(" (%s) is not a setting%s%s%s\n", text_of(row, "origin"), *nearest ? "; did you mean " : "", nearest,
               *nearest ? "?" : "");
    }
}

/* Broken at blanks, for a terminal of 80 columns. */
static void print_indented(const char *text)
{
    static const char indent[] = "    ";
    int column = printf("%s", indent);

    for (const char *word = text; *word;) {
        int len = (int)strcspn(word, " ");
        if (column > 4 && column + 1 + len > 79)
            column = printf("\n%s", indent) - 1;
        if (column > 4)
            column += printf(" ");
        column += printf("%.*s", len, word);
        word += len + (int)strspn(word + len, " ");
    }
    printf("\n");
}

static void print_settings(const json_t *settings)
{
    const json_t *row;
    size_t i;

    json_array_foreach(settings, i, row)
    {
        printf("\n%s=%s\n", text_of(row, "name"), text_of(row, "value"));
        print_indented(text_of(row, "help"));
        printf("    default: %s, origin: %s\n", text_of(row, "default"), text_of(row, "origin"));
    }
}

static void print_algorithms(const json_t *algorithms)
{
    const char *last = "";
    const json_t *row;
    size_t i;

    json_array_foreach(algorithms, i, row)
    {
        if (strcmp(last, text_of(row, "collective")) != 0)
            printf("\n%s\n", text_of(row, "collective"));
        last = text_of(row, "collective");
        printf("    %-20s %s\n", text_of(row, "name"), text_of(row, "summary"));
    }
}

static int print(const json_t *all, const struct options *o)
{
    if (o->json) {
        json_dumpf(all, stdout, JSON_INDENT(1));
        printf("\n");
    } else {
        printf("weft      %s\n", text_of(all, "version"));
        print_plugins(json_object_get(all, "plugins"));
        print_machine(json_object_get(all, "machine"));
        print_rates(json_object_get(all, "rates"));
        print_security(all);
        print_unknown(all);
        if (o->settings)
            print_settings(json_object_get(all, "settings"));
        if (o->algorithms)
            print_algorithms(json_object_get(all, "algorithms"));
    }
    return tool_output_lost("weft-info") || strcmp(text_of(all, "security"), "refused") == 0;
}

static int show(weft_context *context, const struct options *o)
{
    json_t *all = json_object();
    int failed = collect(context, all);

    if (!failed)
        failed = print(all, o);
    json_decref(all);
    return failed;
}

/* ---- Peers ---- */

static int print_peers(const struct peers *peers, int json)
{
    struct peers_group *groups = NULL;
    int ngroups = 0, there = peers_groups(peers, &groups, &ngroups);
    json_t *all = there && json ? peers_json(peers, groups, ngroups) : NULL;

    if (there && json)
        there = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0 && putchar('\n') != EOF;
    else if (there)
        there = peers_print(peers, groups, ngroups);
    json_decref(all);
    peers_groups_free(groups, ngroups);
    if (!there && !ferror(stdout))
        return fprintf(stderr, "weft-info: no memory for the pairs of %d ranks\n", peers->nranks), 1;
    return tool_output_lost("weft-info");
}

/* Rank 0 shows what all say. The others wait until it has, so that a launcher does not end it before. */
static int show_peers(weft_context *context, int json)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = NULL;
    struct peers peers;
    int rank = 0, failed;
    weft_status st;

    config.name = "weft-info";
    st = weft_comm_create_env(context, &config, &comm);
    if (st < 0)
        return tool_after_rank_0(tool_launcher_rank()), complain("communicator", st);
    weft_comm_rank(comm, &rank);
    failed = peers_gather(context, comm, &peers);
    if (!failed && rank == 0)
        failed = print_peers(&peers, json);
    peers_free(&peers);
    st = weft_barrier(comm, NULL);
    if (st < 0 && !failed)
        failed = complain("barrier", st);
    weft_comm_destroy(comm);
    return failed;
}

/* ---- Command line ---- */

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        {"config", no_argument, NULL, 'c'},  {"algorithms", no_argument, NULL, 'a'},
        {"all", no_argument, NULL, 'A'},     {"peers", no_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},    {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0},
    };
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "caApjhV", names, NULL)) != -1) {
        switch (c) {
        case 'c':
        case 'a':
        case 'A':
            o->settings |= c != 'a';
            o->algorithms |= c != 'c';
            break;
        case 'p':
            o->peers = 1;
            break;
        case 'j':
            o->json = 1;
            break;
        case 'h':
            return fputs(usage, stdout), 0;
        case 'V':
            return printf("weft-info %s\n", weft_version()), 0;
        default:
            return fprintf(stderr, "weft-info: unknown option %s (--help lists them)\n", argv[optind - 1]), 2;
        }
    }
    if (optind < argc)
        return fprintf(stderr, "weft-info: unexpected argument '%s' (--help lists what is understood)\n", argv[optind]),
               2;
    if (o->peers && (o->settings || o->algorithms))
        return fprintf(stderr, "weft-info: --peers goes with --json only\n"), 2;
    return -1;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;
    int done = parse(argc, argv, &o);

    if (done >= 0)
        return done ? done : tool_output_lost("weft-info");
    config.flags = WEFT_CONTEXT_NO_PROGRESS_THREAD;
    weft_status status = weft_context_create(&config, &context);
    if (status != WEFT_SUCCESS)
        return complain("context", status);
    done = o.peers ? show_peers(context, o.json) : show(context, &o);
    weft_context_destroy(context);
    return done;
}
