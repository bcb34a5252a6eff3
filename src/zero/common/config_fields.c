/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/common/config_fields.h"

#include <string.h>

#include "base/hash.h"

#define MEMBER(name) (((const weft_zero_config *)0)->name)
/* Enumerations are int or unsigned, as the compiler likes. */
#define KIND(name, least, most) \
    _Generic(MEMBER(name),                                                                                             \
        int: (least) == 0 && (most) == 1 ? WI_ZERO_FIELD_BOOL : WI_ZERO_FIELD_INT,                                     \
        unsigned: WI_ZERO_FIELD_INT,                                                                                   \
        size_t: WI_ZERO_FIELD_SIZE,                                                                                    \
        double: WI_ZERO_FIELD_REAL,                                                                                    \
        const char *: WI_ZERO_FIELD_TEXT,                                                                              \
        default: WI_ZERO_FIELD_HANDLE)

enum {
    RANGED = WI_ZERO_RANGED,
    DYNAMIC = WI_ZERO_DYNAMIC,
    AGREED = WI_ZERO_AGREED,
    FILED = WI_ZERO_FILED,
    WRITTEN = WI_ZERO_WRITTEN
};

const struct wi_zero_field wi_zero_fields[WI_ZERO_NFIELDS] = {
#define FIELD(name, flags, least, most) \
    {#name, KIND(name, least, most), flags, least, most, offsetof(weft_zero_config, name), sizeof MEMBER(name)},
    WI_ZERO_CONFIG_FIELDS(FIELD)
#undef FIELD
};

static const void *at(const weft_zero_config *config, const struct wi_zero_field *field)
{
    return (const char *)config + field->offset;
}

size_t wi_zero_field_size(const weft_zero_config *config, const struct wi_zero_field *field)
{
    return *(const size_t *)at(config, field);
}

const char *wi_zero_field_text(const weft_zero_config *config, const struct wi_zero_field *field)
{
    return *(const char *const *)at(config, field);
}

double wi_zero_field_number(const weft_zero_config *config, const struct wi_zero_field *field)
{
    static const char none[sizeof(void *)];
    const char *text;

    switch (field->kind) {
    case WI_ZERO_FIELD_INT:
    case WI_ZERO_FIELD_BOOL:
        return *(const int *)at(config, field);
    case WI_ZERO_FIELD_SIZE:
        return (double)wi_zero_field_size(config, field);
    case WI_ZERO_FIELD_REAL:
        return *(const double *)at(config, field);
    case WI_ZERO_FIELD_TEXT:
        text = wi_zero_field_text(config, field);
        return text ? (double)(wi_hash64(text, strlen(text), 1) >> 11) : 0;
    case WI_ZERO_FIELD_HANDLE:
        break;
    }
    return memcmp(at(config, field), none, field->bytes) != 0;
}
