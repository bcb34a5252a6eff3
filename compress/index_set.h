/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of k of n places, n a power of two, in a number of bytes that follows from k and n. */
#ifndef WI_COMPRESS_INDEX_SET_H
#define WI_COMPRESS_INDEX_SET_H

#include <stddef.h>
#include <stdint.h>

/* WI_INDEX_U16: 16 bits each. WI_INDEX_PACKED: the shorter of a bitmap and of Elias and Fano's code, whose length is fixed too: the
 * low l bits of each place as they are, the rest in unary, l = log2(n / k). It has at most 2 + l bits a place. */
enum wi_index_form { WI_INDEX_PACKED, WI_INDEX_U16 };

size_t wi_index_bytes(enum wi_index_form form, size_t n, size_t k);
/* index[k]: ascending. */
void wi_index_put(enum wi_index_form form, size_t n, size_t k, const uint16_t *index, uint8_t *to);
/* From any bytes. Returns how many there are, at most k; they may be n or more, and in any order. */
size_t wi_index_get(enum wi_index_form form, size_t n, size_t k, const uint8_t *from, uint16_t *index);

#endif
