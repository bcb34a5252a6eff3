/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/struct_prefix.h"

#include <string.h>

#include "base/status.h"

static size_t bytes_of(const void *given)
{
    size_t bytes;

    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

weft_status wi_struct_check(const struct wi_struct_rule *rule, const char *call, const void *given)
{
    size_t bytes, least = (rule->least + rule->align - 1) / rule->align * rule->align;

    if (!given)
        return wi_fail(WEFT_EINVAL, "%s: the %s is NULL", call, rule->type);
    bytes = bytes_of(given);
    if (bytes < least || bytes > WI_STRUCT_BYTES_MAX || bytes % rule->align)
        return wi_fail(WEFT_EINVAL,
                       "%s: bytes of the %s is %zu, which is no size of it (here it has %zu); set it with %s", call,
                       rule->type, bytes, rule->bytes, rule->init);
    return WEFT_SUCCESS;
}

weft_status wi_struct_read(const struct wi_struct_rule *rule, const char *call, const void *given, void *own)
{
    const unsigned char *all = given;
    size_t bytes;

    WI_TRY(wi_struct_check(rule, call, given));
    bytes = bytes_of(given);
    for (size_t i = rule->bytes; i < bytes; i++)
        if (all[i])
            return wi_fail(
                WEFT_ENOTSUP,
                "%s: the %s has %zu bytes and sets a field at %zu, and weft %s knows %zu: leave the field 0, "
                "or run with the library that the program was compiled for",
                call, rule->type, bytes, i, weft_version(), rule->bytes);
    memcpy(own, given, smaller(bytes, rule->bytes));
    memcpy(own, &rule->bytes, sizeof rule->bytes);
    return WEFT_SUCCESS;
}

void wi_struct_write(const struct wi_struct_rule *rule, const void *own, void *given)
{
    size_t bytes = smaller(bytes_of(given), rule->bytes);

    memcpy((unsigned char *)given + sizeof bytes, (const unsigned char *)own + sizeof bytes, bytes - sizeof bytes);
}
