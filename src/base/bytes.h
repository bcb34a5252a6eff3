/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and digits in bytes. Numbers are little endian, whatever the machine is. */
#ifndef WI_BASE_BYTES_H
#define WI_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void wi_put32(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static inline void wi_put64(unsigned char *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static inline uint32_t wi_get32(const unsigned char *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline uint64_t wi_get64(const unsigned char *in)
{
    return (uint64_t)wi_get32(in) | (uint64_t)wi_get32(in + 4) << 32;
}

int wi_hex_decode(const char *text, size_t bytes, unsigned char *out); /* 0 or -1; text has 2*bytes digits */
void wi_hex_encode(const unsigned char *in, size_t bytes, char *text); /* with its NUL */

#endif
