/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 3 with shards of parameters and of gradients in a file too: read before a unit is gathered, written when it was reduced or
 * updated. All pass through buffers of the file's, of one shard each. */
#ifndef WI_ZERO_SWAP_H
#define WI_ZERO_SWAP_H

#include "zero/zero.h"

weft_status wi_zero_swap_create(weft_zero *zero);
void wi_zero_swap_destroy(weft_zero *zero);
/* A parameter shard begins to be read; it is put into its place in the gathered buffer. */
weft_status wi_zero_swap_read(weft_zero *zero, struct wi_zero_flat *flat);
weft_status wi_zero_swap_place(weft_zero *zero, struct wi_zero_flat *flat);

/* The reduced gradients in `shard` are written, or added to those that are in the file. */
weft_status wi_zero_swap_gradients(weft_zero *zero, struct wi_zero_flat *flat, const void *shard, int add);

/* For an update: where this rank's gradients and parameters are in memory, from begin to end. The next flat is read ahead (NULL:
 * none). */
weft_status wi_zero_swap_update_begin(weft_zero *zero, struct wi_zero_flat *flat, struct wi_zero_flat *next, const char **grads,
                                      char **params);
weft_status wi_zero_swap_update_end(weft_zero *zero, struct wi_zero_flat *flat);

/* Elements of a shard of parameters, or of gradients, in their types. */
weft_status wi_zero_swap_get(weft_zero *zero, const struct wi_zero_flat *flat, int gradients, size_t at, size_t elems,
                             void *values);
weft_status wi_zero_swap_put(weft_zero *zero, const struct wi_zero_flat *flat, size_t at, size_t elems, const void *values);

/* Wait until nothing is being read or written. */
weft_status wi_zero_swap_settle(weft_zero *zero);
void wi_zero_swap_stats(const weft_zero *zero, weft_zero_stats *stats);

#endif
