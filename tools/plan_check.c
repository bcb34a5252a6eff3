/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan check: is the algorithm in this file right? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "import/import.h"
#include "tool.h"
#include "weft_plan.h"

const char plan_check_help[] = "  check [--print | --json | --dot] FILE...\n"
                               "      Prove the algorithms in MSCCL XML, MSCCL++ plan JSON, or weft's own\n"
                               "      schedule texts (those of all ranks in one file, or one rank per file), or\n"
                               "      say why they are refused.\n"
                               "      --print   the schedules of all ranks as text\n"
                               "      --json    verdicts and schedules as a JSON array\n"
                               "      --dot     the schedules as a graph for graphviz\n";

enum output { SUMMARY, PRINT, JSON, DOT };

struct totals {
    uint32_t lanes, steps, tmp; /* the most of any rank */
    uint64_t all_steps;
};

static struct totals count(const struct wi_import *import)
{
    struct totals t = {0};

    for (int r = 0; r < import->nranks; r++) {
        const struct wi_sched *s = import->scheds[r];
        t.lanes = s->nlanes > t.lanes ? s->nlanes : t.lanes;
        t.steps = s->nsteps > t.steps ? s->nsteps : t.steps;
        t.tmp = s->buf_blocks[WI_TMP] > t.tmp ? s->buf_blocks[WI_TMP] : t.tmp;
        t.all_steps += s->nsteps;
    }
    return t;
}

static void summary(const char *file, const struct wi_import *import)
{
    struct totals t = count(import);
    const struct wi_sched *s = import->scheds[0];

    printf("%s: %s \"%s\", %s%s", file, wi_import_format_name(import->format), import->name, wi_coll_name(import->coll),
           import->in_place ? " in place" : "");
    if (wi_coll_has_root(import->coll))
        printf(" root %d", import->root);
    printf(", %d ranks, %u blocks per %s, %u of scratch\n", import->nranks, s->nblocks,
           wi_coll_is_vector(import->coll) ? "vector" : "share", t.tmp);
    printf("  %s, at most %u lanes and %u steps per rank, %" PRIu64 " steps in all\n",
           s->mapped ? "mapped" : "two-sided", t.lanes, t.steps, t.all_steps);
    puts("  proved");
    if (import->in_place_variant)
        puts("  proved for calls in place, too");
    if (import->variant_refused[0])
        printf("  not for calls %s: %s\n", import->in_place ? "that are not in place" : "in place",
               import->variant_refused);
}

static void print_text(const struct wi_import *import)
{
    for (int r = 0; r < import->nranks; r++)
        wi_sched_print(import->scheds[r], stdout);
}

static void json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\')
            printf("\\%c", ch);
        else if (ch < 32)
            printf("\\u%04x", ch);
        else
            putchar(ch);
    }
    putchar('"');
}

static void print_json(const char *file, const struct wi_import *import)
{
    static int before;

    printf("%s{\"file\": ", before++ ? ",\n" : "");
    json_string(file);
    if (!import) {
        fputs(", \"verdict\": \"refused\", \"reason\": ", stdout);
        json_string(wi_fail_text());
        putchar('}');
        return;
    }
    struct totals t = count(import);
    printf(", \"verdict\": \"proved\", \"format\": \"%s\", \"name\": \"%s\", \"collective\": \"%s\", \"in_place\": %s, "
           "\"also_in_place\": %s, "
           "\"root\": %d, \"ranks\": %d, \"lanes\": %u, \"steps\": %" PRIu64
           ", \"blocks\": %u, \"scratch_blocks\": %u, "
           "\"schedules\": [\n",
           wi_import_format_name(import->format), import->name, wi_coll_name(import->coll),
           import->in_place ? "true" : "false", import->in_place_variant ? "true" : "false", import->root,
           import->nranks, t.lanes, t.all_steps, import->scheds[0]->nblocks, t.tmp);
    for (int r = 0; r < import->nranks; r++) {
        fputs(r ? ",\n" : "", stdout);
        wi_sched_json(import->scheds[r], stdout);
    }
    fputs("]}", stdout);
}

static void refused(const char *file)
{
    const char *why = wi_fail_text();

    if (strncmp(why, file, strlen(file)) == 0)
        printf("%s\n", why);
    else /* no verdict: the file could not be read */
        fprintf(stderr, "weft-plan check: %s\n", why);
}

static void show(enum output output, const char *file, const struct wi_import *import)
{
    if (output == JSON)
        print_json(file, import);
    else if (!import)
        refused(file);
    else if (output == PRINT)
        print_text(import);
    else if (output == DOT)
        wi_sched_dot((const struct wi_sched *const *)import->scheds, import->nranks, stdout);
    else
        summary(file, import);
}

/* Files that are neither XML nor JSON may be one schedule, of one rank each. */
static int is_own(const char *path)
{
    int ch, fd;
    FILE *f;

    if (wi_file_open(path, "algorithm file", &fd) < 0)
        return 0;
    f = fdopen(fd, "rb");
    if (!f) {
        close(fd);
        return 0;
    }
    do
        ch = fgetc(f);
    while (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n');
    fclose(f);
    return ch == 'w' || ch == '#';
}

static int check_one(enum output output, const char *file)
{
    struct wi_import *import = NULL;

    wi_fail_clear();
    weft_status st = wi_import_files(&file, 1, &import);
    show(output, file, import);
    wi_import_free(import);
    return st < 0;
}

static int check_all(enum output output, char **files, int n)
{
    const char *own[1024];
    int nown = 0, failed = 0, joined;
    struct wi_import *import = NULL;

    for (int i = 0; i < n; i++) {
        if (nown < 1024 && is_own(files[i]))
            own[nown++] = files[i];
    }
    joined = nown > 1 && wi_import_files(own, nown, &import) == WEFT_SUCCESS;
    if (joined)
        show(output, own[0], import);
    wi_import_free(import);
    for (int i = 0; i < n; i++) {
        int done = 0;
        for (int k = 0; joined && k < nown; k++)
            done |= own[k] == files[i];
        failed |= !done && check_one(output, files[i]);
    }
    return failed;
}

int plan_check(int argc, char **argv)
{
    enum output output = SUMMARY;
    int at = 1;

    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strcmp(argv[at], "--print"))
            output = PRINT;
        else if (!strcmp(argv[at], "--json"))
            output = JSON;
        else if (!strcmp(argv[at], "--dot"))
            output = DOT;
        else if (!strcmp(argv[at], "--help"))
            return printf("usage: weft-plan\n%s", plan_check_help), tool_output_lost("weft-plan check");
        else {
            fprintf(stderr, "weft-plan check: there is no option %s\n", argv[at]);
            return 2;
        }
    }
    if (at == argc) {
        fprintf(stderr, "weft-plan check: no files\nusage: weft-plan\n%s", plan_check_help);
        return 2;
    }
    if (output == JSON)
        putchar('[');
    int failed = check_all(output, argv + at, argc - at);
    if (output == JSON)
        puts("]");
    return tool_output_lost("weft-plan check") || failed;
}
