/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of what weft.h enumerates, and the version. */
#include <weft/weft.h>

#define NAMES_TEXT(x) #x
#define NAMES_STRING(x) NAMES_TEXT(x)

const char *weft_version(void)
{
    return NAMES_STRING(WEFT_VERSION_MAJOR) "." NAMES_STRING(WEFT_VERSION_MINOR) "." NAMES_STRING(WEFT_VERSION_PATCH);
}

unsigned weft_version_number(void)
{
    return WEFT_VERSION_NUMBER;
}

const char *weft_status_name(weft_status status)
{
    switch (status) {
#define NAMES_STATUS(name, value, text) \
    case name:                          \
        return #name;
        WEFT_STATUS_LIST(NAMES_STATUS)
#undef NAMES_STATUS
    }
    return "unknown";
}

const char *weft_status_text(weft_status status)
{
    switch (status) {
#define NAMES_STATUS(name, value, text) \
    case name:                          \
        return text;
        WEFT_STATUS_LIST(NAMES_STATUS)
#undef NAMES_STATUS
    }
    return "unknown status";
}

const char *weft_dtype_name(weft_dtype dtype)
{
    switch (dtype) {
#define NAMES_DTYPE(name, value, bytes, text) \
    case name:                                \
        return text;
        WEFT_DTYPE_LIST(NAMES_DTYPE)
#undef NAMES_DTYPE
    }
    return "unknown";
}

size_t weft_dtype_bytes(weft_dtype dtype)
{
    switch (dtype) {
#define NAMES_DTYPE(name, value, bytes, text) \
    case name:                                \
        return bytes;
        WEFT_DTYPE_LIST(NAMES_DTYPE)
#undef NAMES_DTYPE
    }
    return 0;
}

const char *weft_op_name(weft_op op)
{
    switch (op) {
#define NAMES_OP(name, value, text) \
    case name:                      \
        return text;
        WEFT_OP_LIST(NAMES_OP)
#undef NAMES_OP
    }
    return "user";
}
