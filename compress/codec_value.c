/* SPDX-License-Identifier: BSD-3-Clause */
#include "compress/codec_value.h"

#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "base/status.h"

/* ---- Numbers with a point: the same whatever the program's locale is ---- */

enum { DIGITS = 15 }; /* a decimal of so many is a double of its own, and comes back from it */

static const double powers[DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* 0: it is one. Both numbers are whole and below 2^53, so that the quotient is rounded once. */
static int parse_real(const char *text, double *value)
{
    int64_t all = 0;
    int digits = 0, behind = -1, minus = *text == '-';

    for (text += minus; *text; text++) {
        if (*text == '.' && behind < 0) {
            behind = 0;
            continue;
        }
        if (*text < '0' || *text > '9' || ++digits > DIGITS)
            return -1;
        all = all * 10 + (*text - '0');
        behind += behind >= 0;
    }
    if (!digits)
        return -1;
    *value = (minus ? -1.0 : 1.0) * (double)all / powers[behind > 0 ? behind : 0];
    return 0;
}

static void print_real(double value, char *text, size_t capacity)
{
    double magnitude = value < 0 ? -value : value;
    int64_t all = 0, unit;
    int behind = 0;

    for (; behind < DIGITS; behind++) {
        all = (int64_t)(magnitude * powers[behind] + 0.5);
        if ((double)all / powers[behind] == magnitude || magnitude * powers[behind + 1] > 9e14)
            break;
    }
    unit = (int64_t)powers[behind];
    if (behind)
        snprintf(text, capacity, "%s%lld.%0*lld", value < 0 ? "-" : "", (long long)(all / unit), behind,
                 (long long)(all % unit));
    else
        snprintf(text, capacity, "%s%lld", value < 0 ? "-" : "", (long long)all);
}

/* ---- Words ---- */

/* The place of a word among those of the row; -1: it is none of them. */
static int64_t find_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    int64_t i = 0;

    for (const char *p = words; *p; i++) {
        size_t len = strcspn(p, "|");
        if (len == n && !strncmp(p, word, n))
            return i;
        p += len + (p[len] == '|');
    }
    return -1;
}

static void list_words(const char *words, char *text, size_t capacity)
{
    size_t at = 0;

    for (const char *p = words; *p && at + 8 < capacity; p++)
        at += (size_t)snprintf(text + at, capacity - at, *p == '|' ? (strchr(p + 1, '|') ? ", " : " or ") : "%c", *p);
}

/* ---- By type ---- */

static weft_status parse_number(const char *spec, const struct weft_codec_parameter *row, const char *text, int64_t *n)
{
    int power = row->type == WEFT_CODEC_POWER_OF_TWO;

    if (wi_parse_int(text, n) || (double)*n < row->min || (double)*n > row->max ||
        (power && (*n < 1 || (*n & (*n - 1)))))
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is \"%s\", not a %s from %.0f to %.0f (%s)", spec, row->name,
                       text, power ? "power of two" : "whole number", row->min, row->max, row->help);
    return WEFT_SUCCESS;
}

weft_status wi_codec_value_parse(const char *spec, const struct weft_codec_parameter *row, const char *text,
                                 union weft_codec_value *value)
{
    char words[96] = "";
    int64_t n = 0;
    double r;

    if (row->type == WEFT_CODEC_REAL) {
        if (parse_real(text, &r) || r < row->min || r > row->max)
            return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is \"%s\", not a number from %g to %g (%s)", spec,
                           row->name, text, row->min, row->max, row->help);
        value->real = r;
        return WEFT_SUCCESS;
    }
    if (row->type != WEFT_CODEC_WORD)
        WI_TRY(parse_number(spec, row, text, &n));
    else if ((n = find_word(row->words, text)) < 0) {
        list_words(row->words, words, sizeof words);
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is \"%s\", not %s", spec, row->name, text, words);
    }
    value->integer = n;
    return WEFT_SUCCESS;
}

void wi_codec_value_print(const struct weft_codec_parameter *row, union weft_codec_value value, char *text,
                          size_t capacity)
{
    const char *word = row->words;

    if (row->type == WEFT_CODEC_REAL) {
        print_real(value.real, text, capacity);
        return;
    }
    if (row->type != WEFT_CODEC_WORD) {
        snprintf(text, capacity, "%lld", (long long)value.integer);
        return;
    }
    for (int64_t i = 0; i < value.integer; i++)
        word += strcspn(word, "|") + 1;
    snprintf(text, capacity, "%.*s", (int)strcspn(word, "|"), word);
}
