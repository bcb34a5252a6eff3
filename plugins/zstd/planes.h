/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of floats as byte planes: byte 0 of every element, byte 1 of every element, and so on, the exponents by themselves in
 * the last one. Exponents of gradients need 2 to 3 of their 8 bits, signs and mantissas all of theirs: a general compressor gains
 * where they are apart, and next to nothing where they are mixed.
 *
 * A vector of fp32 whose elements are all values of bf16, or of fp16, has two planes instead of four. Every bit comes back. */
#ifndef WZ_PLANES_H
#define WZ_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* What the elements are, as in images. */
enum wz_form { WZ_F32 = 1, WZ_BF16 = 2, WZ_F16 = 3 };
#define WZ_PLANES_MAX 4

/* 0: no such form. */
int wz_planes_of(unsigned form);
/* The form with the fewest planes that holds every element exactly. */
enum wz_form wz_form_of(const float *src, size_t elems);
/* plane[p] has elems bytes. */
void wz_split(enum wz_form form, const float *src, size_t elems, uint8_t *const plane[]);
void wz_join(enum wz_form form, const uint8_t *const plane[], size_t elems, float *dst);

#endif
