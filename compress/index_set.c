/* SPDX-License-Identifier: BSD-3-Clause */
/* Elias, Efficient Storage and Retrieval by Content and Address of Static Files, JACM 1974; Fano, On the Number of Bits Required to
 * Implement an Associative Memory, 1971. */
#include "compress/index_set.h"

#include <string.h>

/* ---- Lengths ---- */

static unsigned low_bits(size_t n, size_t k)
{
    unsigned l = 0;

    while (k << (l + 1) <= n)
        l++;
    return l;
}

static size_t low_bytes(size_t n, size_t k)
{
    return (k * low_bits(n, k) + 7) / 8;
}

/* The j-th place has its bit at j + (place >> l). */
static size_t high_bytes(size_t n, size_t k)
{
    return (k + (n >> low_bits(n, k)) + 7) / 8;
}

static int is_bitmap(size_t n, size_t k)
{
    return (n + 7) / 8 <= low_bytes(n, k) + high_bytes(n, k);
}

size_t wi_index_bytes(enum wi_index_form form, size_t n, size_t k)
{
    if (form == WI_INDEX_U16)
        return 2 * k;
    return is_bitmap(n, k) ? (n + 7) / 8 : low_bytes(n, k) + high_bytes(n, k);
}

/* ---- Bits ---- */

/* Up to 8 bytes of the rest as one number. */
static uint64_t word_at(const uint8_t *from, size_t left)
{
    uint64_t word = 0;

    for (size_t i = 0; i < 8 && i < left; i++)
        word |= (uint64_t)from[i] << 8 * i;
    return word;
}

static void put_low(const uint16_t *index, size_t k, unsigned l, uint8_t *to)
{
    uint64_t word = 0;
    unsigned have = 0;

    for (size_t j = 0; j < k; j++) {
        word |= (uint64_t)(index[j] & ((1u << l) - 1)) << have;
        for (have += l; have >= 8; have -= 8, word >>= 8)
            *to++ = (uint8_t)word;
    }
    if (have)
        *to = (uint8_t)word;
}

static void get_low(const uint8_t *from, size_t k, unsigned l, uint16_t *index)
{
    uint64_t word = 0;
    unsigned have = 0;

    for (size_t j = 0; j < k; j++) {
        for (; have < l; have += 8)
            word |= (uint64_t)*from++ << have;
        index[j] = (uint16_t)(word & ((1u << l) - 1));
        word >>= l;
        have -= l;
    }
}

/* The places of the bits that are set, less their number: of the j-th it is the upper part of its place. */
static size_t get_high(const uint8_t *from, size_t bytes, size_t k, unsigned l, uint16_t *index)
{
    size_t j = 0;

    for (size_t at = 0; at < bytes; at += 8)
        for (uint64_t word = word_at(from + at, bytes - at); word && j < k; word &= word - 1, j++)
            index[j] |= (uint16_t)((at * 8 + (size_t)__builtin_ctzll(word) - j) << l);
    return j;
}

static size_t get_bitmap(const uint8_t *from, size_t bytes, size_t k, uint16_t *index)
{
    size_t j = 0;

    for (size_t at = 0; at < bytes; at += 8)
        for (uint64_t word = word_at(from + at, bytes - at); word && j < k; word &= word - 1)
            index[j++] = (uint16_t)(at * 8 + (size_t)__builtin_ctzll(word));
    return j;
}

/* ---- Both forms ---- */

static void put_packed(size_t n, size_t k, const uint16_t *index, uint8_t *to)
{
    unsigned l = low_bits(n, k);

    memset(to, 0, wi_index_bytes(WI_INDEX_PACKED, n, k));
    if (is_bitmap(n, k)) {
        for (size_t j = 0; j < k; j++)
            to[index[j] / 8] |= (uint8_t)(1u << index[j] % 8);
        return;
    }
    put_low(index, k, l, to);
    to += low_bytes(n, k);
    for (size_t j = 0; j < k; j++) {
        size_t bit = j + (size_t)(index[j] >> l);
        to[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

void wi_index_put(enum wi_index_form form, size_t n, size_t k, const uint16_t *index, uint8_t *to)
{
    if (form == WI_INDEX_PACKED) {
        put_packed(n, k, index, to);
        return;
    }
    for (size_t j = 0; j < k; j++) {
        to[2 * j] = (uint8_t)index[j];
        to[2 * j + 1] = (uint8_t)(index[j] >> 8);
    }
}

size_t wi_index_get(enum wi_index_form form, size_t n, size_t k, const uint8_t *from, uint16_t *index)
{
    unsigned l = low_bits(n, k);

    if (form == WI_INDEX_U16) {
        for (size_t j = 0; j < k; j++)
            index[j] = (uint16_t)(from[2 * j] | from[2 * j + 1] << 8);
        return k;
    }
    if (is_bitmap(n, k))
        return get_bitmap(from, (n + 7) / 8, k, index);
    get_low(from, k, l, index);
    return get_high(from + low_bytes(n, k), high_bytes(n, k), k, l, index);
}
