/* SPDX-License-Identifier: BSD-3-Clause */
/* The fields of weft_zero_config, each once: what values it may have, whether all ranks must have the same, and whether it is in
 * the text of a DeepSpeed configuration. tests/lint/ctypes_structs.py compares the list with the struct. */
#ifndef WI_ZERO_CONFIG_FIELDS_H
#define WI_ZERO_CONFIG_FIELDS_H

#include <stddef.h>
#include <weft/weft_zero.h>

enum {
    WI_ZERO_RANGED = 1,  /* from least to most; engine.c checks what depends on other fields */
    WI_ZERO_DYNAMIC = 2, /* its range counts only where the loss scale is dynamic */
    WI_ZERO_AGREED = 4,  /* equal on all ranks */
    WI_ZERO_FILED = 8,   /* without offload_folder it means nothing, and need not be equal */
    WI_ZERO_WRITTEN = 16 /* in the object "weft" of the text */
};

/* In the order of the struct, without `bytes`: name, flags, least, most. */
#define WI_ZERO_CONFIG_FIELDS(FIELD)                                              \
    FIELD(stage, RANGED | AGREED | WRITTEN, 0, 3)                                 \
    FIELD(optimizer, AGREED | WRITTEN, 0, 0)                                      \
    FIELD(micro_batches, RANGED | AGREED | WRITTEN, 1, 1 << 30)                   \
    FIELD(reduce, RANGED | AGREED, WEFT_ZERO_REDUCE_AUTO, WEFT_ZERO_REDUCE_EVERY) \
    FIELD(grad_fp32, RANGED | AGREED | WRITTEN, 0, 1)                             \
    FIELD(divisor, RANGED | AGREED | WRITTEN, 0, 1e300)                           \
    FIELD(clip, RANGED | AGREED | WRITTEN, 0, 1e300)                              \
    FIELD(loss_scale, RANGED | AGREED | WRITTEN, 0, 1e30)                         \
    FIELD(loss_scale_initial, RANGED | DYNAMIC | AGREED | WRITTEN, 0, 1e30)       \
    FIELD(loss_scale_window, RANGED | DYNAMIC | AGREED | WRITTEN, 1, 1 << 30)     \
    FIELD(loss_scale_hysteresis, RANGED | DYNAMIC | AGREED | WRITTEN, 1, 1 << 30) \
    FIELD(loss_scale_refill, RANGED | DYNAMIC | AGREED | WRITTEN, 0, 1)           \
    FIELD(loss_scale_min, RANGED | DYNAMIC | AGREED | WRITTEN, 1e-30, 1e30)       \
    FIELD(threads, RANGED, 0, 1024)                                               \
    FIELD(overlap, RANGED | AGREED | WRITTEN, 0, 1)                               \
    FIELD(live_elems, AGREED | WRITTEN, 0, 0)                                     \
    FIELD(prefetch_elems, AGREED | WRITTEN, 0, 0)                                 \
    FIELD(reuse_elems, AGREED | WRITTEN, 0, 0)                                    \
    FIELD(persistent_elems, AGREED | WRITTEN, 0, 0)                               \
    FIELD(gather_codec, AGREED | WRITTEN, 0, 0)                                   \
    FIELD(reduce_codec, AGREED | WRITTEN, 0, 0)                                   \
    FIELD(shard_ranks, AGREED, 0, 0)                                              \
    FIELD(experts, AGREED, 0, 0)                                                  \
    FIELD(model, AGREED, 0, 0)                                                    \
    FIELD(secondary_ranks, AGREED | WRITTEN, 0, 0)                                \
    FIELD(offload_folder, WRITTEN, 0, 0)                                          \
    FIELD(offload_params, RANGED | AGREED | WRITTEN, 0, 1)                        \
    FIELD(offload_ratio, RANGED | AGREED | FILED | WRITTEN, 0, 1)                 \
    FIELD(offload_block_bytes, WRITTEN, 0, 0)                                     \
    FIELD(offload_depth, RANGED | WRITTEN, 0, 1024)                               \
    FIELD(offload_buffer_bytes, 0, 0, 0)                                          \
    FIELD(offload_buffered, RANGED, 0, 1)                                         \
    FIELD(offload_threads, RANGED, 0, 1)                                          \
    FIELD(update, 0, 0, 0)                                                        \
    FIELD(update_arg, 0, 0, 0)                                                    \
    FIELD(update_moments, RANGED | AGREED, 0, 2)                                  \
    FIELD(state_dtype, RANGED | AGREED, 0, WEFT_ZERO_STATE_BLOCK8)                \
    FIELD(offload_memory_bytes, 0, 0, 0)                                          \
    FIELD(offload_weight_codec, AGREED | FILED, 0, 0)                             \
    FIELD(offload_moment1_codec, AGREED | FILED, 0, 0)                            \
    FIELD(offload_moment2_codec, AGREED | FILED, 0, 0)

enum {
#define WI_ZERO_FIELD_NUMBER(name, flags, least, most) WI_ZERO_FIELD_OF_##name,
    WI_ZERO_CONFIG_FIELDS(WI_ZERO_FIELD_NUMBER)
#undef WI_ZERO_FIELD_NUMBER
        WI_ZERO_NFIELDS
};

enum wi_zero_field_kind {
    WI_ZERO_FIELD_INT,  /* and enumerations */
    WI_ZERO_FIELD_BOOL, /* an int from 0 to 1 */
    WI_ZERO_FIELD_SIZE,
    WI_ZERO_FIELD_REAL,
    WI_ZERO_FIELD_TEXT,
    WI_ZERO_FIELD_HANDLE /* a pointer to something else */
};

struct wi_zero_field {
    const char *name;
    enum wi_zero_field_kind kind;
    unsigned flags;
    double least, most;
    size_t offset, bytes;
};
extern const struct wi_zero_field wi_zero_fields[WI_ZERO_NFIELDS];

/* Its value as a number, of texts a hash; of other pointers whether there is one. */
double wi_zero_field_number(const weft_zero_config *config, const struct wi_zero_field *field);
/* Of sizes and of texts only. */
size_t wi_zero_field_size(const weft_zero_config *config, const struct wi_zero_field *field);
const char *wi_zero_field_text(const weft_zero_config *config, const struct wi_zero_field *field);

#endif
