/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs: each block of fp32 elements becomes one image of so many bytes, whatever its values are, so that coded data is cut,
 * sent and moved as blocks of a data type are. What a codec is, weft_plugin.h says (struct weft_codec_ops); here is how the
 * library calls one, whether it is built in or loaded.
 *
 * Results do not depend on the instruction set (base/reduce.h: wi_isa_force), on alignment, or on how a vector is cut at blocks. */
#ifndef WI_COMPRESS_CODEC_H
#define WI_COMPRESS_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft_plugin.h>

#include "compress/feedback.h"

/* ---- Which there are (codec_list.c) ---- */

/* The i-th: those that are built in, then those that were loaded, in that order. NULL: there are not so many. Any thread. */
const struct weft_plugin *wi_codec_at(size_t i);
const struct weft_plugin *wi_codec_find(const char *name);
/* The file it was loaded from; NULL: built in. */
const char *wi_codec_path(const struct weft_plugin *plugin);
/* Its parameters and ops, complete. */
const struct weft_codec_ops *wi_codec_ops(const struct weft_plugin *plugin);
/* A plugin of kind codec joins them, for good: its file must stay loaded. *added: 0 where it was there already. WEFT_EPLUGIN with
 * text: what is wrong with it. */
weft_status wi_codec_add(const struct weft_plugin *plugin, const char *path, int *added);
/* Where plugins are looked for from now on, for messages. Any thread. */
void wi_codec_looked_in(const char *plugin_path);
/* 1: the library has a codec of that name as a plugin, and `why` says why it may not be there. */
int wi_codec_is_missing(const char *name, char *why, size_t capacity);
/* What wi_codec_add asks of a plugin's rows and ops. */
weft_status wi_codec_check_plugin(const struct weft_plugin *plugin, const struct weft_codec_ops *ops);

/* ---- Codecs as text (codec_spec.c) ---- */

/* From "int8" or "int4:block=64". WEFT_EINVAL with text (the nearest name, the range), and *codec stays as it was; WEFT_ENOMEM: no
 * scratch. */
weft_status wi_codec_parse(const char *spec, struct weft_codec *codec);
/* How a call uses a codec. */
struct wi_codec_use {
    struct weft_codec codec;
    uint8_t on;         /* 0: not at all */
    uint8_t may_bypass; /* plain data is sent where that is faster */
    size_t min_bytes;   /* shorter vectors are sent as they are */
    struct wi_feedback feedback; /* form WI_FEEDBACK_NONE, which is 0: nothing is kept */
};
/* The same with ef=0|1|loco|ef21|dgc (0) and what belongs to these (call_parameters.h), bypass=auto|never (auto)
 * and min=BYTES (0; with K, M, G) among the parameters. "", "none": not at all. */
weft_status wi_codec_parse_use(const char *spec, struct wi_codec_use *use);
/* The codec that keeps more of each block, where its parameter "ratio" is below `ratio`; else as it is. WEFT_EINVAL: it cannot. */
weft_status wi_codec_with_ratio(const struct weft_codec *codec, double ratio, struct weft_codec *wider);
/* Into text, which wi_codec_parse reads: the same for the same codec; parameters that are as by default are left out. Returns
 * text. */
#define WI_CODEC_TEXT_MAX 256
const char *wi_codec_text(const struct weft_codec *codec, char *text, size_t capacity);

/* ---- What they do (codec.c) ---- */

/* From plugin, ops and value: what configure says, checked. WEFT_EINVAL with text. */
weft_status wi_codec_configure(struct weft_codec *codec);
static inline const char *wi_codec_name(const struct weft_codec *codec)
{
    return codec->plugin->name;
}
/* Of the image of `elems` elements, at most where the rate is variable; SIZE_MAX if there is no such length. */
size_t wi_codec_bytes(const struct weft_codec *codec, size_t elems);
/* Is it finite, block `block` of an image? */
int wi_codec_is_finite(const struct weft_codec *codec, const void *image, size_t block);

/* As in weft_codec_ops, which see; scratch is found for them. `site` NULL: all zero. */
size_t wi_codec_encode_at(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                          float *residual, size_t elems, void *image);
static inline size_t wi_codec_encode(const struct weft_codec *codec, const float *src, float *residual, size_t elems,
                                     void *image)
{
    return wi_codec_encode_at(codec, NULL, src, residual, elems, image);
}
/* Of what is encoded there: wi_codec_bytes, unless the rate is variable. 0: it says that it is longer, or nothing. */
size_t wi_codec_image_bytes(const struct weft_codec *codec, const void *image, size_t elems);
/* -1: it is none; only where the rate is variable. */
int wi_codec_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst);
/* Of a variable rate only plain operands: what images hold is made plain before. */
void wi_codec_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst);
size_t wi_codec_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                           const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                           void *image, float *dst);

/* Of linear codecs, as in weft_codec_ops. WEFT_ENOTSUP, WEFT_EINVAL with text. */
weft_status wi_codec_linear(const struct weft_codec *codec, int nranks, struct weft_codec_linear *linear);
void wi_codec_propose(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                      size_t elems, void *agreed);
size_t wi_codec_project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                        const float *src, size_t elems, void *vector);
size_t wi_codec_expand(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                       const void *vector, size_t elems, float *dst);

/* ---- Types of vectors (convert.c) ---- */

/* Vectors that are not of fp32 are converted: of fp16 and bf16, rounded to nearest even. */
int wi_codec_takes(weft_dtype dtype);
void wi_codec_widen(weft_dtype dtype, const void *src, float *dst, size_t elems);
void wi_codec_narrow(weft_dtype dtype, const float *src, void *dst, size_t elems);

#endif
