/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: copies. Expects raw_copy_line(out, in), which streams one line, out aligned to 64; raw_load_F, raw_store_F. */

#define COPY_VECTORS (256 / sizeof(raw_F))

/* At least 64 bytes, into the caches, with aligned stores. The C library's string instructions reach half of it or less
 * where source and destination are aligned differently. */
static void simd_copy(void *dst, const void *src, size_t bytes)
{
    size_t head = 64 - (uintptr_t)dst % 64;
    const char *in = src;
    char *out = dst;

    memcpy(out, in, 64); /* more than the head: the rest of it is written twice */
    out += head;
    in += head;
    for (bytes -= head; bytes >= 256; bytes -= 256) {
        raw_F v[COPY_VECTORS];

        for (size_t i = 0; i < COPY_VECTORS; i++)
            v[i] = raw_load_F(in + i * sizeof(raw_F));
        for (size_t i = 0; i < COPY_VECTORS; i++)
            raw_store_F(out + i * sizeof(raw_F), v[i]);
        in += 256;
        out += 256;
    }
    for (; bytes >= sizeof(raw_F); bytes -= sizeof(raw_F)) {
        raw_store_F(out, raw_load_F(in));
        in += sizeof(raw_F);
        out += sizeof(raw_F);
    }
    memcpy(out, in, bytes);
}


static void simd_copy_stream(void *dst, const void *src, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)dst) % 64;
    const char *in = src;
    char *out = dst;

    if (head > bytes)
        head = bytes;
    memcpy(out, in, head);
    out += head;
    in += head;
    for (bytes -= head; bytes >= 64; bytes -= 64) {
        raw_copy_line(out, in);
        out += 64;
        in += 64;
    }
    memcpy(out, in, bytes);
}
