/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: numbers on the command line. */
#include "weft_bench.h"

#include <errno.h>
#include <stdlib.h>

int bench_parse_bytes(const char *text, size_t *bytes)
{
    static const char suffixes[] = "KMGT";
    char *end;

    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno || !(v >= 0))
        return -1;
    for (int i = 0; *end && i < 4; i++) {
        if ((*end & ~0x20) != suffixes[i])
            continue;
        while (i-- >= 0)
            v *= 1024;
        end++;
        end += *end == 'i';
        break;
    }
    end += *end == 'B' || *end == 'b';
    if (*end || v > 1e15)
        return -1;
    *bytes = (size_t)v;
    return 0;
}

int bench_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;

    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno || text[0] == '-' || v < min || v > max)
        return -1;
    *value = v;
    return 0;
}
