/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that others wrote. */
#include "base/text.h"

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
