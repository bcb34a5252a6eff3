/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan: one command per file, listed in weft_plan.c. */
#ifndef WEFT_PLAN_TOOL_H
#define WEFT_PLAN_TOOL_H

/* argv[0] is the command's name. Returns the exit status: 0, 1 (what was asked is not so), 2 (wrong use). */
int plan_check(int argc, char **argv);
int plan_explain(int argc, char **argv);

extern const char plan_check_help[], plan_explain_help[];

#endif
