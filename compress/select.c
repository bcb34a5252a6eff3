/* SPDX-License-Identifier: BSD-3-Clause */
/* One pass over the block collects the candidates, those above a guess of the k-th magnitude that the block before has taught; the
 * selection is among these. If there are fewer than k, the guess was too high: it is made anew from a sample of the block, and at
 * last all that are not zero are candidates. */
#include "compress/select.h"

#include <string.h>

#include "base/reduce.h"

enum { BINS = 1024, FEW = 24, SAMPLED = 16, SAMPLE_FROM = 2048 };

static uint32_t magnitude(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits & 0x7fffffffu;
}

/* ---- The k-th largest of m keys ---- */

struct rank {
    const uint32_t *keys;
    size_t m;
    uint32_t low, width; /* the key is one of low to low + width ... */
    size_t k;            /* ... the k-th largest of these */
    uint32_t hist[BINS + 1];
};

static unsigned bits_in(uint32_t v)
{
    return v ? 32u - (unsigned)__builtin_clz(v) : 0;
}

/* The width of a bin: about as many bins as there are keys, but not fewer than 64. */
static unsigned shift_of(const struct rank *r)
{
    unsigned bins = bits_in((uint32_t)r->m / 2), width = bits_in(r->width);

    bins = bins < 6 ? 6 : bins > 10 ? 10 : bins;
    return width > bins ? width - bins : 0;
}

static void count(struct rank *r, unsigned shift)
{
    memset(r->hist, 0, ((r->width >> shift) + 1) * sizeof *r->hist);
    for (size_t i = 0; i < r->m; i++) {
        uint32_t off = r->keys[i] - r->low;
        r->hist[off <= r->width ? off >> shift : BINS]++;
    }
}

/* From the top bin down to the one in which the k-th is. */
static uint32_t find_bin(const struct rank *r, unsigned shift, size_t k, size_t *above)
{
    uint32_t bin = r->width >> shift;

    for (*above = 0; bin && *above + r->hist[bin] < k; bin--)
        *above += r->hist[bin];
    return bin;
}

static void narrow(struct rank *r, unsigned shift, uint32_t bin, size_t above)
{
    uint32_t left = r->width - (bin << shift), width = shift ? (1u << shift) - 1 : 0;

    r->low += bin << shift;
    r->width = width < left ? width : left;
    r->k -= above;
}

/* Of few keys in the range: the one with fewer than k above it, and at least k that are not below it. */
static uint32_t find_among_few(struct rank *r)
{
    uint32_t few[FEW], larger, equal;
    uint32_t n = 0;

    for (size_t i = 0; i < r->m && n < FEW; i++)
        if (r->keys[i] - r->low <= r->width)
            few[n++] = r->keys[i];
    for (uint32_t i = 0; i < n; i++) {
        larger = equal = 0;
        for (uint32_t j = 0; j < n; j++) {
            larger += few[j] > few[i];
            equal += few[j] == few[i];
        }
        if (larger < r->k && larger + equal >= r->k) {
            r->k -= larger;
            return few[i];
        }
    }
    return r->low; /* not reached: there are k in the range */
}

/* Returns the key; r->k: how many that are equal to it are among the k. *next: a key that `target` keys are not below, if there are
 * so many. */
static uint32_t kth_largest(struct rank *r, size_t target, uint32_t *next)
{
    unsigned shift = shift_of(r);
    size_t above;
    uint32_t bin, first = r->low;

    count(r, shift);
    *next = first + (find_bin(r, shift, target, &above) << shift);
    for (;;) {
        bin = find_bin(r, shift, r->k, &above);
        narrow(r, shift, bin, above);
        if (!shift)
            return r->low;
        if (r->hist[bin] <= FEW)
            return find_among_few(r);
        shift = shift_of(r);
        count(r, shift);
    }
}

/* ---- Guesses ---- */

/* So many candidates are wanted: enough that the next block, whose elements are others, seldom has fewer than k. */
static size_t wanted(size_t k)
{
    return k + k / 4 + 16;
}

/* From each SAMPLED-th element. 1: all that are not zero. */
static uint32_t guess_from_sample(struct wi_select *s, const float *src, const float *residual, size_t n, size_t k)
{
    struct rank r = {.keys = s->keys, .k = 2 * k / SAMPLED + 4};
    uint32_t next, most = 0;

    if (n < SAMPLE_FROM || r.k > n / SAMPLED)
        return 1;
    for (size_t i = 0; i < n; i += SAMPLED) {
        uint32_t key = magnitude(residual ? src[i] + residual[i] : src[i]);
        s->keys[r.m++] = key;
        most = key > most ? key : most;
    }
    r.width = most;
    next = kth_largest(&r, r.k, &next);
    return next > 1 ? next : 1;
}

/* Where the candidates were not many, the next guess is as far below the k-th again as this one was. */
static uint32_t guess_from_block(uint32_t least, uint32_t kth, size_t m, size_t k, uint32_t next)
{
    uint32_t below = kth - least > 1u << 19 ? kth - least : 1u << 19;

    if (m < wanted(k))
        next = least > below ? least - below : 1;
    return next > 1 ? next : 1;
}

/* ---- Selection ---- */

wi_collect *wi_collect_of_this_cpu(void)
{
#if defined(__x86_64__)
    const char *isa = wi_isa_name();

    if (!strcmp(isa, "avx512"))
        return wi_collect_avx512;
    if (!strcmp(isa, "avx2"))
        return wi_collect_avx2;
#endif
    return wi_collect_any;
}

/* All m that are not zero, fewer than k, and zeros, those in front first. The candidates are moved, so that index may be places. */
static void take_zeros_too(struct wi_select *s, size_t m, size_t k, uint16_t *index)
{
    size_t zeros = k - m, at = 0, taken = 0;

    for (size_t i = 0; i < m; i++)
        s->keys[i] = s->places[i];
    for (uint32_t i = 0; taken < k; i++) {
        int is_candidate = at < m && s->keys[at] == i;
        if (is_candidate || zeros) {
            index[taken++] = (uint16_t)i;
            zeros -= !is_candidate;
        }
        at += (size_t)is_candidate;
    }
}

/* Among m candidates, at least k, with their keys. */
static void take_largest(struct wi_select *s, size_t m, uint32_t most, size_t k, uint16_t *index)
{
    struct rank r = {.keys = s->keys, .m = m, .low = s->least, .width = most - s->least, .k = k};
    uint32_t next, kth = kth_largest(&r, wanted(k), &next);
    size_t taken = 0;

    s->least = guess_from_block(s->least, kth, m, k, next);
    for (size_t i = 0; taken < k; i++) {
        uint32_t key = s->keys[i], tie = key == kth && r.k;
        index[taken] = s->places[i];
        r.k -= tie;
        taken += (key > kth) | tie;
    }
}

void wi_select_keys(struct wi_select *s, size_t n, size_t k, uint16_t *index)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        most = s->keys[i] > most ? s->keys[i] : most;
        s->places[i] = (uint16_t)i;
    }
    s->least = 0;
    take_largest(s, n, most, k, index);
}

uint32_t wi_select_top(struct wi_select *s, const float *src, const float *residual, float *sum, size_t n, size_t k,
                       uint16_t *index)
{
    wi_collect *collect = wi_collect_of_this_cpu();
    int guessed = !s->least;
    uint32_t most;
    size_t m;

    if (guessed)
        s->least = guess_from_sample(s, src, residual, n, k);
    m = collect(src, residual, sum, n, s->least, s->places, &most);
    src = residual ? sum : src;
    if (most < WI_SELECT_LIMIT && m < k && s->least > 1 && !guessed) {
        s->least = guess_from_sample(s, src, NULL, n, k);
        m = collect(src, NULL, NULL, n, s->least, s->places, &most);
    }
    if (most < WI_SELECT_LIMIT && m < k && s->least > 1) {
        s->least = 1;
        m = collect(src, NULL, NULL, n, 1, s->places, &most);
    }
    if (most >= WI_SELECT_LIMIT) {
        s->least = 0;
        return most;
    }
    if (m < k) {
        take_zeros_too(s, m, k, index);
        return most;
    }
    for (size_t i = 0; i < m; i++)
        s->keys[i] = magnitude(src[s->places[i]]);
    take_largest(s, m, most, k, index);
    return most;
}

/* ---- For any CPU ---- */

size_t wi_collect_any(const float *src, const float *residual, float *sum, size_t n, uint32_t least, uint16_t *places,
                      uint32_t *most)
{
    uint32_t largest = 0;
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        float c = src[i];
        uint32_t key;
        if (residual)
            sum[i] = c = src[i] + residual[i];
        key = magnitude(c);
        largest = key > largest ? key : largest;
        places[m] = (uint16_t)i;
        m += key >= least;
    }
    *most = largest;
    return m;
}
