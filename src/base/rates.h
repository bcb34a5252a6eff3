/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast this core copies and reduces: measured with the library's own kernels (reduce.h), by element type and operator,
 * with operands in cache and in memory. Rates are bytes of one operand per microsecond. */
#ifndef WI_BASE_RATES_H
#define WI_BASE_RATES_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_RATE_USER WEFT_NUM_OPS /* an operator of the user: a loop over the elements, behind a pointer */
#define WI_RATE_OPS (WEFT_NUM_OPS + 1)
const char *wi_rate_op_name(unsigned op);
/* Operators by name, "user" among them; -1: there is none. */
int wi_rate_op_parse(const char *name);
int wi_rate_dtype_parse(const char *name);

enum wi_rate_place { WI_RATE_CACHE, WI_RATE_MEMORY, WI_RATE_PLACES };

/* 0: not known. */
struct wi_rates {
    float copy[WI_RATE_PLACES];
    float reduce[WEFT_NUM_DTYPES][WI_RATE_OPS][WI_RATE_PLACES];
};

/* Is the operator defined for the type? */
int wi_rate_defined(unsigned dtype, unsigned op);

/* Buffers to measure with: 3 x memory_bytes, and as large as a part of a cache. */
struct wi_rate_probe;
weft_status wi_rate_probe_create(size_t memory_bytes, struct wi_rate_probe **probe);
void wi_rate_probe_destroy(struct wi_rate_probe *probe);
/* The best of several runs within about `ns`; of WI_RATE_MEMORY at least two runs. */
double wi_rate_copy(const struct wi_rate_probe *probe, enum wi_rate_place place, uint64_t ns);
double wi_rate_reduce(const struct wi_rate_probe *probe, unsigned dtype, unsigned op, enum wi_rate_place place,
                      uint64_t ns);

/* In cache only: copy, the sum of each type, the products of complex numbers, one operator of the user; in half a millisecond.
 * Measured by whoever asks first and kept for the process; another instruction set (WEFT_ISA) is measured anew. WEFT_ENOMEM. */
weft_status wi_rates_here(struct wi_rates *rates);

/* What wi_rates_here finds, a byte each in steps of an eighth of an octave; of two ranks' the lesser byte is the slower rate. Any
 * bytes can be decoded; 0: not known. */
#define WI_RATES_CODED (WEFT_NUM_DTYPES + 4)
void wi_rates_encode(const struct wi_rates *rates, uint8_t coded[WI_RATES_CODED]);
void wi_rates_decode(const uint8_t coded[WI_RATES_CODED], struct wi_rates *rates);

#endif
