/* SPDX-License-Identifier: BSD-3-Clause */
/* Eight tables of 256, eight bytes a step (Kounavis, Berry 2005). */
#include "zero/crc32c.h"

#include <pthread.h>

#include "base/bytes.h"

static uint32_t table[8][256];

static void fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

uint32_t wi_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *in = data;

    pthread_once(&once, fill);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, in += 8) {
        uint32_t a = crc ^ wi_get32(in), b = wi_get32(in + 4);

        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^ table[4][a >> 24] ^
              table[3][b & 255] ^ table[2][b >> 8 & 255] ^ table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; bytes > 0; bytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *in++) & 255];
    return ~crc;
}
