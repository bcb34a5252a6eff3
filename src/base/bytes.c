/* SPDX-License-Identifier: BSD-3-Clause */
/* See bytes.h. */
#include "base/bytes.h"

#include <ctype.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int wi_hex_decode(const char *text, size_t bytes, unsigned char *out)
{
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0)
            return -1;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return 0;
}

void wi_hex_encode(const unsigned char *in, size_t bytes, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes; i++) {
        text[2 * i] = digits[in[i] >> 4];
        text[2 * i + 1] = digits[in[i] & 15];
    }
    text[2 * bytes] = '\0';
}
