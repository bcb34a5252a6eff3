/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that are similar to one that does not exist. */
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"

size_t wi_algo_distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);

    if (n >= 31)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j], cost = diagonal + (a[i - 1] != b[j - 1]);
            cost = up + 1 < cost ? up + 1 : cost;
            row[j] = row[j - 1] + 1 < cost ? row[j - 1] + 1 : cost;
            diagonal = up;
        }
    }
    return row[n];
}

const char *wi_algo_suggest(enum wi_coll coll, const char *name, char *text, size_t capacity)
{
    const char *similar = NULL;
    size_t best = 4, at = 0;

    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        if (wi_algo_find(coll, (*a)->name) == *a && wi_algo_distance(name, (*a)->name) < best) {
            best = wi_algo_distance(name, (*a)->name);
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
