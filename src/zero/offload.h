/* SPDX-License-Identifier: BSD-3-Clause */
/* Master weights and moments of flats that are kept in a file, and pass through memory when they are updated. */
#ifndef WI_ZERO_OFFLOAD_H
#define WI_ZERO_OFFLOAD_H

#include "zero/disk/disk.h"
#include "zero/zero.h"

/* How the engine's files are read and written; name: of the file, borrowed. */
struct wi_disk_config wi_zero_offload_config(const weft_zero *zero, const char *name);

/* Fields of a configuration that are of files; and what of them must suit an optimizer of a parameter's own. */
weft_status wi_zero_offload_check(const weft_zero_config *config);
weft_status wi_zero_offload_check_optimizer(const char *call, const weft_zero_config *config, const struct wi_optim_ops *ops);

/* The codec of a stream of a flat in the file; NULL: none. */
const char *wi_zero_offload_codec(const weft_zero_config *config, weft_zero_what what);
/* Whether what comes back from the file is what went there. */
int wi_zero_offload_exact(const weft_zero_config *config);

/* Choose flats, and make the file; before memory is allocated for the others. */
weft_status wi_zero_offload_choose(weft_zero *zero);
weft_status wi_zero_offload_create(weft_zero *zero);
void wi_zero_offload_destroy(weft_zero *zero);

/* Streams of a flat's extent: the weight, if it is not the parameter itself, and the moments; and bytes of each. */
unsigned wi_zero_streams(const weft_zero *zero, const struct wi_zero_flat *flat);
size_t wi_zero_stream_bytes(const struct wi_zero_flat *flat);

/* Of a flat in the file: elements of one of its streams, from `at` of what this rank updates on. what: WEFT_ZERO_WEIGHT or a
 * moment. */
weft_status wi_zero_offload_get(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at, size_t elems,
                                float *values);
weft_status wi_zero_offload_put(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at, size_t elems,
                                const float *values);

void wi_zero_offload_stats(const weft_zero *zero, weft_zero_stats *stats);

#endif
