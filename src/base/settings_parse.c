/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to values: sizes, times, numbers, switches. Spaces around a value are ignored. */
#include "base/settings.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const char *skip_space(const char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits of `base`, at least one; moves *text behind them. */
static int parse_digits(const char **text, unsigned base, uint64_t *value)
{
    const char *p = *text;
    uint64_t sum = 0;

    for (;; p++) {
        unsigned digit;

        if (is_digit(*p))
            digit = (unsigned)(*p - '0');
        else if (base == 16 && ((*p | 32) >= 'a' && (*p | 32) <= 'f'))
            digit = (unsigned)((*p | 32) - 'a') + 10;
        else
            break;
        if (__builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return -1;
    }
    if (p == *text)
        return -1;
    *text = p;
    *value = sum;
    return 0;
}

/* The rest of `text` must be one of the units (without regard to case), or nothing: then `bare`. */
static int parse_unit(const char *text, const struct unit *units, uint64_t bare, uint64_t *factor)
{
    char word[8];
    size_t length = 0;

    text = skip_space(text);
    while (text[length] && text[length] != ' ' && text[length] != '\t') {
        if (length + 1 >= sizeof(word))
            return -1;
        word[length] = text[length];
        length++;
    }
    word[length] = '\0';
    if (*skip_space(text + length))
        return -1;
    if (length == 0) {
        *factor = bare;
        return 0;
    }
    for (; units->name; units++) {
        if (strcasecmp(units->name, word) == 0) {
            *factor = units->factor;
            return 0;
        }
    }
    return -1;
}

int wi_parse_bytes(const char *text, size_t *bytes)
{
    static const struct unit units[] = {
        {"b", 1},           {"k", 1ull << 10},   {"kb", 1ull << 10},  {"kib", 1ull << 10}, {"m", 1ull << 20},
        {"mb", 1ull << 20}, {"mib", 1ull << 20}, {"g", 1ull << 30},   {"gb", 1ull << 30},  {"gib", 1ull << 30},
        {"t", 1ull << 40},  {"tb", 1ull << 40},  {"tib", 1ull << 40}, {NULL, 0},
    };
    uint64_t value, factor;
    size_t result;

    text = skip_space(text);
    if (parse_digits(&text, 10, &value) || parse_unit(text, units, 1, &factor) ||
        __builtin_mul_overflow(value, factor, &result))
        return -1;
    *bytes = result;
    return 0;
}

/* Decimal fraction behind the point as billionths; digits past the ninth do not count. */
static int parse_fraction(const char **text, uint64_t *billionths)
{
    const char *p = *text;
    uint64_t value = 0, weight = 100000000;

    if (*p != '.')
        return 0;
    p++;
    if (!is_digit(*p))
        return -1;
    for (; is_digit(*p); p++) {
        value += (uint64_t)(*p - '0') * weight;
        weight /= 10;
    }
    *text = p;
    *billionths = value;
    return 0;
}

int wi_parse_time(const char *text, uint64_t *ns)
{
    static const struct unit units[] = {
        {"ns", 1},
        {"us", 1000},
        {"ms", 1000000},
        {"s", 1000000000ull},
        {"min", 60000000000ull},
        {"h", 3600000000000ull},
        {NULL, 0},
    };
    uint64_t whole, billionths = 0, factor, result;
    unsigned __int128 part;

    text = skip_space(text);
    if (strncasecmp(text, "inf", 3) == 0 && *skip_space(text + 3) == '\0') {
        *ns = UINT64_MAX;
        return 0;
    }
    if (parse_digits(&text, 10, &whole) || parse_fraction(&text, &billionths) ||
        parse_unit(text, units, 1000000000ull, &factor))
        return -1;
    part = (unsigned __int128)billionths * factor / 1000000000u;
    if (__builtin_mul_overflow(whole, factor, &result) || __builtin_add_overflow(result, (uint64_t)part, &result) ||
        result == UINT64_MAX)
        return -1;
    *ns = result;
    return 0;
}

int wi_parse_int(const char *text, int64_t *value)
{
    uint64_t magnitude;
    unsigned base = 10;
    int negative;

    text = skip_space(text);
    negative = *text == '-';
    if (*text == '-' || *text == '+')
        text++;
    if (text[0] == '0' && (text[1] | 32) == 'x') {
        base = 16;
        text += 2;
    }
    if (parse_digits(&text, base, &magnitude) || *skip_space(text))
        return -1;
    if (magnitude > (uint64_t)INT64_MAX + (unsigned)negative)
        return -1;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

int wi_parse_bool(const char *text, int *value)
{
    static const struct unit words[] = {
        {"y", 1},  {"yes", 1}, {"on", 1},    {"true", 1}, {"1", 1},  {"n", 0},
        {"no", 0}, {"off", 0}, {"false", 0}, {"0", 0},    {NULL, 0},
    };
    uint64_t result;

    if (!*skip_space(text) || parse_unit(text, words, 0, &result))
        return -1;
    *value = (int)result;
    return 0;
}
