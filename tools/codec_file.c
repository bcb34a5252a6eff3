/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: files with tensors. */
#include <stdlib.h>
#include <string.h>

#include "weft_codec.h"

const char *codec_clean(const char *text, size_t bytes, char out[64])
{
    size_t n = bytes < 63 ? bytes : 63;

    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
    out[n] = '\0';
    return out;
}

int codec_shape_times(size_t *elems, uint64_t dimension)
{
    return __builtin_mul_overflow(*elems, dimension, elems) ? -1 : 0;
}

struct codec_tensor *codec_file_add(struct codec_file *file, const char *name, char why[CODEC_REASON])
{
    struct codec_tensor *grown = realloc(file->tensors, (file->ntensors + 1) * sizeof *grown), *t;

    if (grown)
        file->tensors = grown;
    t = grown ? &grown[file->ntensors] : NULL;
    if (t) {
        memset(t, 0, sizeof *t);
        t->name = strdup(name);
    }
    if (!t || !t->name) {
        snprintf(why, CODEC_REASON, "out of memory");
        return NULL;
    }
    file->ntensors++;
    return t;
}

void codec_file_free(struct codec_file *file)
{
    for (size_t i = 0; i < file->ntensors; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    *file = (struct codec_file){NULL, 0};
}

int codec_file_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON])
{
    int status;

    *file = (struct codec_file){NULL, 0};
    if (bytes >= 6 && !memcmp(data, "\x93NUMPY", 6))
        status = codec_npy_parse(data, bytes, file, why);
    else if (bytes >= 9 && data[8] == '{')
        status = codec_safetensors_parse(data, bytes, file, why);
    else {
        snprintf(why, CODEC_REASON,
                 "neither a .npy file (\\x93NUMPY) nor safetensors (8 bytes of length, then a JSON object)");
        status = -1;
    }
    if (status)
        codec_file_free(file);
    return status;
}
