/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as schedule texts, one per rank, with NUL between them. Each is refused with a reason, or prints itself as a
 * text that parses to the same; all together are exported and judged by the checker. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/sched.h"

#define MAX_RANKS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_sched: %s: %s\n", what, wi_fail_text());
    abort();
}

static char *print(const struct wi_sched *sched, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    require(f && wi_sched_print(sched, f) == WEFT_SUCCESS, "print");
    fclose(f);
    return text;
}

static void round_trip(const struct wi_sched *sched)
{
    size_t first_bytes, second_bytes;
    struct wi_sched *again = NULL;
    char *first = print(sched, &first_bytes);

    require(wi_sched_parse(first, first_bytes, &again) == WEFT_SUCCESS, "its own text");
    char *second = print(again, &second_bytes);
    require(first_bytes == second_bytes && !memcmp(first, second, first_bytes), "round trip");
    free(first);
    free(second);
    wi_sched_put(again);
}

static void judge(struct wi_sched *const *list, int n)
{
    const struct wi_sched *const *scheds = (const struct wi_sched *const *)list;
    static FILE *null;

    if (!null)
        null = fopen("/dev/null", "w");
    require(null != NULL, "/dev/null");
    for (int i = 0; i < n; i++)
        require(wi_sched_json(scheds[i], null) == WEFT_SUCCESS, "json");
    require(wi_sched_dot(scheds, n, null) == WEFT_SUCCESS, "dot");
    for (int promised = 0; promised < 4; promised++) {
        wi_fail_clear();
        weft_status st = wi_sched_check(scheds, n, promised);
        require(st == WEFT_SUCCESS || wi_fail_text()[0], "a refusal without a reason");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_sched *scheds[MAX_RANKS] = {NULL};
    const char *at = (const char *)data, *end = at + bytes;
    int n = 0;

    while (at < end && n < MAX_RANKS) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        size_t part = (size_t)((nul ? nul : end) - at);
        wi_fail_clear();
        if (wi_sched_parse(at, part, &scheds[n]) == WEFT_SUCCESS)
            round_trip(scheds[n++]);
        else
            require(!scheds[n] && wi_fail_text()[0], "a refusal without a reason");
        at = nul ? nul + 1 : end;
    }
    if (n)
        judge(scheds, n);
    while (n > 0)
        wi_sched_put(scheds[--n]);
    return 0;
}
