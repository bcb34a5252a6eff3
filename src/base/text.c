/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that others wrote. */
#include "base/text.h"

#include <string.h>

/* How many bytes of UTF-8 (RFC 3629) begin here as one character that is to be shown. 0: a control character, or none that is
 * well formed, for readers that decode strictly throw the whole text away and a terminal takes a lone 0x9b for an escape. */
static size_t shown_bytes(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    size_t bytes = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

    if (bytes == 1)
        return c[0] >= ' ' && c[0] != 0x7f;
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if ((c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90))
        return 0;
    return bytes;
}

void wi_text_sanitize(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    for (char *at = text; *at;) {
        size_t bytes = shown_bytes(at);
        if (!bytes)
            *at = ' ';
        at += bytes ? bytes : 1;
    }
}

size_t wi_text_distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);

    if (n >= 63)
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
