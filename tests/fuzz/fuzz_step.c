/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as weft-sim's file of a training step: refused with a reason that names the file, or a list of instructions that can
 * be walked: repeats and ends belong to each other, times and counts are within bounds.
 * with: tools/sim_script.c tools/sim_world.c */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tools/sim_script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_step: %s: %s\n", what, wi_fail_text());
    abort();
}

static void check_line(const struct sim_script *s, int i, int *depth)
{
    const struct sim_line *l = &s->lines[i];

    require(l->number > (i ? s->lines[i - 1].number : 0), "line numbers");
    if (l->kind == SIM_COMPUTE)
        require(isfinite(l->us) && l->us >= 0, "a time");
    if (l->kind == SIM_COLLECTIVE)
        require(l->coll < WI_COLL_SEND && memchr(l->algo, 0, sizeof l->algo) != NULL, "a collective");
    if (l->kind == SIM_REPEAT) {
        require(l->count >= 1 && l->count <= SIM_MAX_RUN, "a count");
        require(l->match > i && l->match < s->nlines && s->lines[l->match].kind == SIM_END, "its end");
        require(s->lines[l->match].match == i && ++*depth <= SIM_MAX_DEPTH, "nesting");
    }
    if (l->kind == SIM_END)
        require(l->match >= 0 && l->match < i && s->lines[l->match].match == i && --*depth >= 0, "its repeat");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sim_script s = {.path = NULL};
    FILE *in = bytes ? fmemopen((void *)(uintptr_t)data, bytes, "r") : NULL;
    int depth = 0;

    if (!in)
        return 0;
    wi_fail_clear();
    if (sim_script_read("input", in, &s) == WEFT_SUCCESS) {
        require(s.nlines > 0 && s.nlines <= SIM_MAX_LINES, "instructions");
        for (int i = 0; i < s.nlines; i++)
            check_line(&s, i, &depth);
        require(depth == 0, "open repeats");
    } else {
        require(strncmp(wi_fail_text(), "input", 5) == 0, "a reason that names the file");
    }
    wi_free(s.lines);
    fclose(in);
    return 0;
}
