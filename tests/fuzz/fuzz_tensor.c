/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as weft-codec's file of tensors, .npy or safetensors: refused with a reason, or tensors that lie within the bytes, each
 * with as many as its elements need.
 * with: tools/codec_file.c tools/codec_npy.c tools/codec_safetensors.c */
#include <string.h>

#include "tests/fuzz/require.h"
#include "tools/weft_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const struct codec_tensor *t, size_t bytes)
{
    require(t->name && memchr(t->type, 0, sizeof t->type));
    require(t->at <= bytes && t->bytes <= bytes - t->at);
    if (t->dtype == (weft_dtype)-1)
        require(t->elems <= t->bytes);
    else
        require(t->dtype == WEFT_FLOAT32 || t->dtype == WEFT_FLOAT16 || t->dtype == WEFT_BFLOAT16);
    if (t->dtype != (weft_dtype)-1)
        require(t->elems * weft_dtype_bytes(t->dtype) == t->bytes && t->elems <= bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct codec_file file;
    char why[CODEC_REASON] = "";

    if (codec_file_parse(data, bytes, &file, why) < 0) {
        require(why[0] && memchr(why, 0, sizeof why));
        require(!file.ntensors && !file.tensors);
        return 0;
    }
    for (size_t i = 0; i < file.ntensors; i++)
        check(&file.tensors[i], bytes);
    codec_file_free(&file);
    return 0;
}
