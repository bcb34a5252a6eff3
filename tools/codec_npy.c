/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: .npy files of NumPy, versions 1.0 and 2.0. The header is a Python dictionary; only what NumPy writes is one here. */
#include <stdarg.h>
#include <string.h>

#include "weft_codec.h"

struct reader {
    const char *at, *end;
    char *why;
};

static int fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(char *why, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(why, CODEC_REASON, format, list);
    va_end(list);
    return -1;
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n'))
        r->at++;
}

static int take(struct reader *r, char wanted)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != wanted)
        return 0;
    r->at++;
    return 1;
}

static int expect(struct reader *r, char wanted)
{
    char found[64];

    if (take(r, wanted))
        return 0;
    if (r->at == r->end)
        return fail(r->why, "the header ends where '%c' should follow", wanted);
    return fail(r->why, "the header has '%s' where '%c' should stand", codec_clean(r->at, 1, found), wanted);
}

/* 'text', of at most 15 characters, without escapes. */
static int read_string(struct reader *r, char out[16])
{
    size_t n = 0;

    if (expect(r, '\''))
        return -1;
    while (r->at + n < r->end && r->at[n] != '\'' && r->at[n] != '\\' && n < 15)
        n++;
    if (r->at + n == r->end || r->at[n] != '\'')
        return fail(r->why, "the header has a text that is not closed, is longer than 15 characters or has escapes");
    memcpy(out, r->at, n);
    out[n] = '\0';
    r->at += n + 1;
    return 0;
}

static int read_number(struct reader *r, uint64_t *out)
{
    const char *begin;

    skip_blanks(r);
    *out = 0;
    for (begin = r->at; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (uint64_t)(*r->at - '0'), out))
            return fail(r->why, "the shape has a number above 2^64");
    return r->at == begin ? fail(r->why, "the shape is not a tuple of numbers from 0") : 0;
}

static int read_shape(struct reader *r, struct codec_tensor *t)
{
    uint64_t n;

    t->elems = 1;
    if (expect(r, '('))
        return -1;
    while (!take(r, ')')) {
        if (read_number(r, &n))
            return -1;
        if (codec_shape_times(&t->elems, n))
            return fail(r->why, "the shape has more elements than can be counted");
        if (!take(r, ',')) {
            if (expect(r, ')'))
                return -1;
            break;
        }
    }
    return 0;
}

static int read_boolean(struct reader *r)
{
    size_t left;

    skip_blanks(r);
    left = (size_t)(r->end - r->at);
    if (left >= 4 && !memcmp(r->at, "True", 4))
        r->at += 4;
    else if (left >= 5 && !memcmp(r->at, "False", 5))
        r->at += 5;
    else
        return fail(r->why, "fortran_order is neither True nor False");
    return 0;
}

/* Which of the three; each once. */
static int read_entry(struct reader *r, struct codec_tensor *t, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    int k = 0;

    if (read_string(r, key) || expect(r, ':'))
        return -1;
    while (k < 3 && strcmp(key, keys[k]) != 0)
        k++;
    if (k == 3)
        return fail(r->why, "the header has an unknown entry '%s'", codec_clean(key, strlen(key), (char[64]){0}));
    if (*seen & 1u << k)
        return fail(r->why, "the header has '%s' twice", key);
    *seen |= 1u << k;
    return k == 0 ? read_string(r, t->type) : k == 1 ? read_boolean(r) : read_shape(r, t);
}

static int read_dictionary(struct reader *r, struct codec_tensor *t)
{
    unsigned seen = 0;

    if (expect(r, '{'))
        return -1;
    while (!take(r, '}')) {
        if (read_entry(r, t, &seen))
            return -1;
        if (!take(r, ',')) {
            if (expect(r, '}'))
                return -1;
            break;
        }
    }
    skip_blanks(r);
    if (r->at != r->end)
        return fail(r->why, "the header goes on behind its dictionary");
    return seen == 7 ? 0 : fail(r->why, "the header lacks descr, fortran_order or shape");
}

/* Two bytes of no type are what NumPy writes of ml_dtypes' bfloat16. */
static int set_type(struct codec_tensor *t, char why[CODEC_REASON])
{
    static const struct {
        const char *text;
        weft_dtype dtype;
    } types[] = {{"<f4", WEFT_FLOAT32}, {"<f2", WEFT_FLOAT16}, {"<V2", WEFT_BFLOAT16}, {"|V2", WEFT_BFLOAT16}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(t->type, types[i].text)) {
            t->dtype = types[i].dtype;
            return 0;
        }
    return fail(why, "elements are of type '%s'; codecs take '<f4', '<f2' and bfloat16 ('<V2')",
                codec_clean(t->type, strlen(t->type), (char[64]){0}));
}

static int check_length(const struct codec_tensor *t, size_t there, char why[CODEC_REASON])
{
    size_t wanted;

    if (__builtin_mul_overflow(t->elems, weft_dtype_bytes(t->dtype), &wanted))
        return fail(why, "the shape has more bytes than can be counted");
    if (wanted != there)
        return fail(why, "%s: the shape is of %zu bytes, and %zu follow the header",
                    wanted > there ? "truncated" : "too long", wanted, there);
    return 0;
}

int codec_npy_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON])
{
    size_t begin = bytes >= 8 && data[6] == 2 ? 12 : 10, length;
    struct codec_tensor *t;
    struct reader r;

    if (bytes < begin)
        return fail(why, "truncated: %zu bytes are no .npy header", bytes);
    if ((data[6] != 1 && data[6] != 2) || data[7] != 0)
        return fail(why, "version %u.%u of the .npy format; 1.0 and 2.0 are read", data[6], data[7]);
    length = data[8] | (size_t)data[9] << 8;
    if (begin == 12)
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > bytes - begin)
        return fail(why, "truncated: the header says it has %zu bytes, and %zu follow", length, bytes - begin);
    if (!(t = codec_file_add(file, "array", why)))
        return -1;
    r = (struct reader){(const char *)data + begin, (const char *)data + begin + length, why};
    if (read_dictionary(&r, t) || set_type(t, why) || check_length(t, bytes - begin - length, why))
        return -1;
    t->at = begin + length;
    t->bytes = bytes - t->at;
    return 0;
}
