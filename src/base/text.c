/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that others wrote. */
#include "base/text.h"

#include <string.h>

/* ASCII's, and those behind it (U+0080 to U+009F) as UTF-8 spells them. */
static size_t control_bytes(const char *at)
{
    unsigned char c = (unsigned char)at[0], next = (unsigned char)at[1];

    if (c < ' ' || c == 0x7f)
        return 1;
    return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

void wi_text_sanitize(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (char *at = text; *at; at++)
        for (size_t n = control_bytes(at); n; n--)
            at[n - 1] = ' ';
}

size_t wi_text_distance(const char *a, const char *b)
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
