/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: what a codec loses of data. */
#include <math.h>
#include <stdlib.h>

#include "weft_codec.h"

static int said(const char *codec)
{
    fprintf(stderr, "weft-codec: %s: %s\n", codec, weft_thread_error());
    return -1;
}

static void compare(const struct codec_data *d, const float *held, struct codec_error *e)
{
    double lost = 0, all = 0;

    for (size_t i = 0; i < d->elems; i++) {
        double x = d->exact[i], away = fabs(held[i] - x);
        if (!isfinite(x))
            continue;
        e->max_value = fmax(e->max_value, fabs(x));
        if (!isfinite(held[i])) {
            e->lost++;
            continue;
        }
        e->max_error = fmax(e->max_error, away);
        lost += away * away;
        all += x * x;
    }
    e->nmse = lost == 0 ? 0 : all == 0 ? (double)NAN : lost / all;
}

int codec_measure_error(const char *codec, const struct codec_data *d, struct codec_error *error)
{
    size_t bytes, used;
    float *held;
    void *image;
    int status = -1;

    *error = (struct codec_error){0};
    if (weft_codec_bytes(codec, d->elems, &bytes) < 0)
        return said(codec);
    image = malloc(bytes ? bytes : 1);
    held = malloc(d->elems ? d->elems * sizeof *held : 1);
    if (!image || !held)
        fprintf(stderr, "weft-codec: out of memory, for %zu elements\n", d->elems);
    else if (weft_codec_encode(codec, d->dtype, d->values, NULL, d->elems, image, bytes) < 0 ||
             weft_codec_image_bytes(codec, image, d->elems, &used) < 0 ||
             weft_codec_decode(codec, image, used, WEFT_FLOAT32, held, d->elems) < 0)
        said(codec);
    else {
        compare(d, held, error);
        error->bits = used != bytes ? 8.0 * (double)used / (double)d->elems : 0;
        status = 0;
    }
    free(image);
    free(held);
    return status;
}
