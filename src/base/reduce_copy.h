/* SPDX-License-Identifier: BSD-3-Clause */
/* Template: a copy with non-temporal stores in whole cache lines. Expects raw_copy_line(out, in), out aligned to 64. */

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
