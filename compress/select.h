/* SPDX-License-Identifier: BSD-3-Clause */
/* The k elements of largest magnitude of a block, exactly: of equal ones those in front. So the choice is unique, and does not
 * depend on the instruction set or on what was guessed. */
#ifndef WI_COMPRESS_SELECT_H
#define WI_COMPRESS_SELECT_H

#include <stddef.h>
#include <stdint.h>

#define WI_SELECT_SLACK 16 /* elements that may be written behind the n of an array: whole registers are stored */
#define WI_SELECT_LIMIT 0x7f000000u /* the bits of 2^127, above those of any magnitude that can be selected */

/* Memory for blocks of up to n elements, and what the last block has taught. */
struct wi_select {
    uint32_t *keys;   /* n */
    uint16_t *places; /* n + WI_SELECT_SLACK */
    uint32_t least;   /* a guess: the bits of a magnitude that somewhat more than k elements have; 0: none yet */
};

/* Of src[i], or of src[i] + residual[i], which are then stored in sum[i]. n is a multiple of 32, at most 65,536; k is from 1 to n.
 * index[k]: their places, ascending; may be s->places. Returns the bits of the largest magnitude; if that is WI_SELECT_LIMIT or
 * more, none was selected. */
uint32_t wi_select_top(struct wi_select *s, const float *src, const float *residual, float *sum, size_t n, size_t k,
                       uint16_t *index);

/* The same of s->keys, which are given: bits of magnitudes. */
void wi_select_keys(struct wi_select *s, size_t n, size_t k, uint16_t *index);

/* ---- For each instruction set ---- */

/* The places of all whose magnitude has bits of at least `least`, ascending, and the bits of the largest. */
typedef size_t wi_collect(const float *src, const float *residual, float *sum, size_t n, uint32_t least,
                          uint16_t *places, uint32_t *most);
wi_collect wi_collect_any, wi_collect_avx2, wi_collect_avx512;
wi_collect *wi_collect_of_this_cpu(void);

#endif
