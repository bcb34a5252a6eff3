/* SPDX-License-Identifier: BSD-3-Clause */
/* mxfp8, mxfp6, mxfp4: OCP Microscaling Formats (MX) Specification 1.0, 2023.
 *
 *     image of a block of 32 = scale, 2^(e - 127) as e (E8M0) | elements of 8, 6 or 4 bits, one little-endian number
 *
 * The scale is the power of two of the largest element over that of the format's largest, as the specification has it; what is
 * above the format's largest then (6 to 8 of e2m1) becomes that. e is at least 1. A block that is not finite has the scale NaN,
 * 255. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { ELEMENT };
static const struct weft_codec_parameter fp8_rows[] = {
    {"element", "e4m3", WEFT_CODEC_WORD, 0, 0, "e4m3|e5m2", "format of the elements"}, WI_LAST_ROW};
static const struct weft_codec_parameter fp6_rows[] = {
    {"element", "e2m3", WEFT_CODEC_WORD, 0, 0, "e2m3|e3m2", "format of the elements"}, WI_LAST_ROW};

static weft_status configure(struct weft_codec *c, uint32_t bits, uint32_t kernels, float nmse)
{
    c->block = 32;
    c->block_bytes = 1 + 32 * bits / 8;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->lossy_limit = bits < 8 ? 2 : 0;
    c->limit = 0x1p127f;
    c->nmse = nmse;
    c->encode_rate = 3500;
    c->decode_rate = 4000;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = kernels});
    return WEFT_SUCCESS;
}

static weft_status configure_fp8(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return c->value[ELEMENT].integer ? configure(c, 8, WI_KERNELS_MX_E5M2, 2.6e-3f)
                                     : configure(c, 8, WI_KERNELS_MX_E4M3, 7e-4f);
}

static weft_status configure_fp6(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return c->value[ELEMENT].integer ? configure(c, 6, WI_KERNELS_MX_E3M2, 2.6e-3f)
                                     : configure(c, 6, WI_KERNELS_MX_E2M3, 9e-4f);
}

static weft_status configure_fp4(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return configure(c, 4, WI_KERNELS_MX_E2M1, .013f);
}

static int is_finite(const struct weft_codec *c, const void *image)
{
    (void)c;
    return *(const uint8_t *)image != 0xff;
}

static const struct weft_codec_ops mxfp8 = {WI_KERNELS_OPS, .parameters = fp8_rows, .configure = configure_fp8,
                                            .is_finite = is_finite};
static const struct weft_codec_ops mxfp6 = {WI_KERNELS_OPS, .parameters = fp6_rows, .configure = configure_fp6,
                                            .is_finite = is_finite};
static const struct weft_codec_ops mxfp4 = {WI_KERNELS_OPS, .configure = configure_fp4, .is_finite = is_finite};
const struct weft_plugin wi_codec_mxfp8 =
    WI_CODEC_PLUGIN("mxfp8", "OCP MX: 32 floats of 8 bits and a power of two", &mxfp8);
const struct weft_plugin wi_codec_mxfp6 =
    WI_CODEC_PLUGIN("mxfp6", "OCP MX: 32 floats of 6 bits and a power of two", &mxfp6);
const struct weft_plugin wi_codec_mxfp4 =
    WI_CODEC_PLUGIN("mxfp4", "OCP MX: 32 floats of 4 bits and a power of two", &mxfp4);
