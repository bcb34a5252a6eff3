/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that are similar to one that does not exist. */
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/text.h"

const char *wi_algo_suggest(enum wi_coll coll, const char *name, char *text, size_t capacity)
{
    const char *similar = NULL;
    size_t best = 4, at = 0;

    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        if (wi_algo_find(coll, (*a)->name) == *a && wi_text_distance(name, (*a)->name) < best) {
            best = wi_text_distance(name, (*a)->name);
            similar = (*a)->name;
        }
    }
    at = (size_t)snprintf(text, capacity, "%s%s%s (there are: ", similar ? "; did you mean \"" : "",
                          similar ? similar : "", similar ? "\"?" : "");
    for (const struct wi_algo *const *a = wi_algos; *a && at + 32 < capacity; a++) {
        if (wi_algo_find(coll, (*a)->name) == *a)
            at += (size_t)snprintf(text + at, capacity - at, "%s%s", text[at - 1] == ' ' ? "" : ", ", (*a)->name);
    }
    if (at + 2 < capacity)
        strcpy(text + at, ")");
    return text;
}
