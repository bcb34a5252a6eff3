/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tuning table must have in common with the machine that uses it. Read without hwloc: it costs nothing at start-up. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plan/table.h"

/* The value of the first line of /proc/cpuinfo that begins with `key`; spaces become one. */
static void cpuinfo(const char *text, const char *key, char *value, size_t capacity)
{
    const char *at = strstr(text, key);
    size_t n = 0;

    value[0] = '\0';
    if (!at)
        return;
    at += strcspn(at, ":\n");
    if (*at != ':')
        return;
    for (at++; *at && *at != '\n' && n + 1 < capacity; at++)
        if (*at != ' ' || (n && value[n - 1] != ' '))
            value[n++] = *at == '#' ? ' ' : *at;
    while (n && value[n - 1] == ' ')
        n--;
    value[n] = '\0';
}

void wi_plan_machine(char *text, size_t capacity)
{
    char info[8192] = "", model[96] = "", part[32] = "";
    FILE *f = fopen("/proc/cpuinfo", "r");
    struct utsname name = {0};

    if (f) {
        info[fread(info, 1, sizeof info - 1, f)] = '\0';
        fclose(f);
    }
    cpuinfo(info, "model name", model, sizeof model);
    if (!model[0]) { /* ARM */
        cpuinfo(info, "CPU implementer", model, sizeof model);
        cpuinfo(info, "CPU part", part, sizeof part);
    }
    uname(&name);
    snprintf(text, capacity, "%s, %ld processors, %s%s%s", name.machine, sysconf(_SC_NPROCESSORS_CONF),
             model[0] ? model : "unknown", part[0] ? " " : "", part);
}

void wi_plan_map(const int32_t *node_of, int nranks, char *map, size_t capacity)
{
    size_t at = 0;

    map[0] = '\0';
    for (int r = 0, run; r < nranks; r += run) {
        for (run = 1; r + run < nranks && node_of[r + run] == node_of[r];)
            run++;
        at += (size_t)snprintf(map + at, capacity - at, "%s%dx%d", r ? "+" : "", node_of[r], run);
        if (at >= capacity) {
            map[0] = '\0';
            return;
        }
    }
}
