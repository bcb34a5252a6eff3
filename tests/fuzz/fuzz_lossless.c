/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of the codec lossless, which peers send. with: plugins/zstd/lossless.c plugins/zstd/planes.c
 *
 * The first two bytes say how many elements, the third one what the rest is: bit 0 set: their fp32 bits; else an image, of which
 * bit 1 says whether its length is made right, so that what lies behind it is looked at, too. An image is refused, or it is read
 * into as many elements as there should be; and what was read, or given, comes back to the bit when it is encoded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_plugin.h>

#include "base/bytes.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

extern const struct weft_plugin weft_plugin;

/* Of its parameters `block` and `level`. */
static struct weft_codec codec_of(int64_t level)
{
    struct weft_codec c = {.plugin = &weft_plugin, .ops = weft_plugin.ops};
    char why[100];

    c.value[0].integer = 32;
    c.value[1].integer = level;
    require(c.ops->configure(&c, why, sizeof why) == WEFT_SUCCESS);
    return c;
}

/* Memory of this length exactly, so that the sanitizer sees what is touched behind it. */
static void *exact(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);

    require(p != NULL);
    return p;
}

static void there_and_back(const float *v, size_t elems, int64_t level)
{
    struct weft_codec c = codec_of(level);
    size_t most = (elems + c.block - 1) / c.block * c.block_bytes, bytes;
    unsigned char *image = exact(most), *cut;
    float *back = exact(elems * sizeof *back);

    if (elems) {
        require(c.ops->encode(&c, NULL, v, NULL, elems, image, NULL) == 0);
        bytes = wi_get32(image);
        require(bytes <= most);
        cut = exact(bytes);
        memcpy(cut, image, bytes);
        require(c.ops->read(&c, cut, bytes, elems, back, NULL) == 0);
        require(!memcmp(back, v, elems * sizeof *v));
        free(cut);
    }
    free(image);
    free(back);
}

static void judge_image(const uint8_t *data, size_t bytes, size_t elems, int right)
{
    struct weft_codec c = codec_of(0);
    unsigned char *image = exact(bytes);
    float *v = exact(elems * sizeof *v);

    if (bytes)
        memcpy(image, data, bytes);
    if (right && bytes >= 4)
        wi_put32(image, (uint32_t)bytes);
    if (c.ops->read(&c, image, bytes, elems, v, NULL) == 0)
        there_and_back(v, elems, 0);
    free(image);
    free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t elems;

    if (bytes < 3)
        return 0;
    elems = ((size_t)data[0] | (size_t)data[1] << 8) % 5000;
    if (data[2] & 1) {
        float *v = exact(elems * sizeof *v);
        size_t given = bytes - 3 < elems * sizeof *v ? bytes - 3 : elems * sizeof *v;
        memset(v, 0, elems * sizeof *v);
        memcpy(v, data + 3, given);
        there_and_back(v, elems, data[2] >> 4);
        free(v);
    } else {
        judge_image(data + 3, bytes - 3, elems, data[2] >> 1 & 1);
    }
    return 0;
}
