/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan: questions about algorithms and schedules, answered without a network. */
#include "weft_plan.h"

#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "tool.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"check", plan_check, plan_check_help},
    {"explain", plan_explain, plan_explain_help},
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static int usage(FILE *out)
{
    fputs("usage: weft-plan COMMAND [ARGUMENTS]\n\n", out);
    for (size_t i = 0; i < NCOMMANDS; i++)
        fprintf(out, "%s\n", commands[i].help);
    fputs("  --help     this text\n  --version  the version\n", out);
    return out == stderr ? 2 : tool_output_lost("weft-plan");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return usage(stderr);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return usage(stdout);
    if (!strcmp(argv[1], "--version")) {
        printf("weft-plan %d.%d.%d\n", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
        return tool_output_lost("weft-plan");
    }
    for (size_t i = 0; i < NCOMMANDS; i++) {
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "weft-plan: there is no command \"%s\"; weft-plan --help lists them\n", argv[1]);
    return 2;
}
