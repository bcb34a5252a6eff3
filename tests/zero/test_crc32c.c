/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C: the vectors of RFC 3720, B.4, every way to compute it against a bitwise reference, in one piece and in several. */
#include <stdint.h>

#include "tests/unit/unit.h"
#include "base/crc32c.h"

#define BYTES 60000

static const char *const forms[] = {"sse4.2", "armv8", "table"};
#define NFORMS (sizeof(forms) / sizeof(forms[0]))

static unsigned char data[BYTES + 16];

static uint32_t bitwise(uint32_t crc, const unsigned char *bytes, size_t nbytes)
{
    crc = ~crc;
    for (size_t i = 0; i < nbytes; i++) {
        crc ^= bytes[i];
        for (int b = 0; b < 8; b++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void fill(void)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < sizeof(data); i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)(x >> 24);
    }
}

/* Calls fn with each form that this processor has; at least the table. */
static void each_form(void (*fn)(void))
{
    int ran = 0;

    for (size_t i = 0; i < NFORMS; i++) {
        if (wi_crc32c_force(forms[i]) != 0)
            continue;
        CU_ASSERT_STRING_EQUAL(wi_crc32c_name(), forms[i]);
        fn();
        ran++;
    }
    CU_ASSERT(ran >= 1);
    CU_ASSERT_EQUAL(wi_crc32c_force(NULL), 0);
}

static void check_vectors(void)
{
    unsigned char bytes[32];

    CU_ASSERT_EQUAL(wi_crc32c(0, "", 0), 0);
    CU_ASSERT_EQUAL(wi_crc32c(0, "123456789", 9), 0xe3069283u);
    memset(bytes, 0, 32);
    CU_ASSERT_EQUAL(wi_crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    CU_ASSERT_EQUAL(wi_crc32c(0, bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    CU_ASSERT_EQUAL(wi_crc32c(0, bytes, 32), 0x46dd794eu);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    CU_ASSERT_EQUAL(wi_crc32c(0, bytes, 32), 0x113fdb5cu);
}

static void vectors(void)
{
    each_form(check_vectors);
}

/* Lengths around what is taken in one step, in three blocks, in three long blocks; all alignments. */
static void check_lengths(void)
{
    static const size_t lengths[] = {1,    7,    8,     9,     63,    255,   767,   768,   769,
                                     1535, 1537, 24575, 24576, 24577, 25344, 25345, 49152, BYTES};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (size_t offset = 0; offset < 8; offset += 3)
            CU_ASSERT_EQUAL(wi_crc32c(0, data + offset, lengths[i]), bitwise(0, data + offset, lengths[i]));
}

static void lengths_and_alignments(void)
{
    fill();
    each_form(check_lengths);
}

static void check_pieces(void)
{
    uint32_t whole = bitwise(0, data, BYTES);

    for (size_t cut = 1; cut < BYTES; cut += 4999) {
        uint32_t crc = wi_crc32c(0, data, cut);
        CU_ASSERT_EQUAL(wi_crc32c(crc, data + cut, BYTES - cut), whole);
    }
}

static void in_pieces(void)
{
    fill();
    each_form(check_pieces);
}

static void check_flips(void)
{
    uint32_t whole = wi_crc32c(0, data, BYTES);

    for (size_t bit = 0; bit < 8 * BYTES; bit += 7919) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CU_ASSERT_NOT_EQUAL(wi_crc32c(0, data, BYTES), whole);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void flips(void)
{
    fill();
    each_form(check_flips);
    CU_ASSERT_EQUAL(wi_crc32c_force("no such"), -1);
    CU_ASSERT_EQUAL(wi_crc32c_force(NULL), 0);
}

static const struct wt_case cases[] = {
    {"vectors of RFC 3720", vectors},
    {"lengths and alignments", lengths_and_alignments},
    {"in pieces", in_pieces},
    {"single bits", flips},
};

WT_UNIT_MAIN("crc32c", cases)
