/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded operations: steps that encode, decode and sum images. Programs count in bytes of what the images are of; only here and in
 * address.h do these become bytes of images. A slice, fragment or chunk of work begins at a whole block of the codec. */
#ifndef WI_EXEC_CODED_H
#define WI_EXEC_CODED_H

#include "base/reduce.h"
#include "compress/codec.h"

struct wi_work;

/* Of an operation. */
struct wi_coding {
    const struct weft_codec *codec; /* borrowed */
    uint32_t shift;                 /* a block of the codec is 1 << shift bytes of the vector */
    size_t image_bytes;             /* and so many of an image; 0: nothing is coded */
    float *residual[2];             /* borrowed; for each element of the vector; NULL: no error feedback */
    uint32_t rank;                  /* whose work it is: weft_codec_site */
};

/* For vectors of this type; the codec stays as long as the operation. WEFT_ENOTSUP with text: the codec does not take it. */
weft_status wi_coding_init(struct wi_coding *coding, const struct weft_codec *codec, weft_dtype dtype, int rank);
static inline size_t wi_coding_block(const struct wi_coding *c)
{
    return (size_t)1 << c->shift;
}
/* Of the image of so many bytes. */
static inline size_t wi_coding_bytes(const struct wi_coding *c, size_t bytes)
{
    return (bytes + wi_coding_block(c) - 1) / wi_coding_block(c) * c->image_bytes;
}

/* [at, at + bytes) of the work, at a whole block; from any thread. */
void wi_coded_do(const struct wi_work *work, size_t at, size_t bytes);

#endif
