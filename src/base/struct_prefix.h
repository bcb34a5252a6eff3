/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of the public API that grow: who calls may have been compiled with an older, shorter weft.h, or with a newer one.
 *
 * Such a struct begins with `size_t bytes`, its size as the caller knows it. New fields are added at the end, never into padding,
 * and what they hold by default must be what the library did before there was the field.
 *   Shorter than the library's: the fields that are missing have their defaults; of results they are not stored.
 *   Longer: whatever is behind the library's last field must be 0, or it is refused: the caller wants something that this library
 *   cannot do. Of results nothing behind the library's last field is touched. */
#ifndef WI_BASE_STRUCT_PREFIX_H
#define WI_BASE_STRUCT_PREFIX_H

#include <stddef.h>
#include <weft/weft.h>

struct wi_struct_rule {
    const char *type;    /* "weft_comm_config" */
    const char *init;    /* how `bytes` is to be set: "WEFT_COMM_CONFIG_INIT" */
    size_t bytes, least; /* what the library's has; through the last field that has no default */
    size_t align;
};
/* `required`: the last field that has no default; `bytes` itself if all have. */
#define WI_STRUCT_RULE(type, init, required) \
    {#type, init, sizeof(type), offsetof(type, required) + sizeof(((type *)0)->required), _Alignof(type)}
#define WI_STRUCT_BYTES_MAX 4096 /* more is no struct, but memory that was never set */

/* Copy what the caller gave over the defaults in *own, whose bytes become the library's. `call` begins the text of a failure.
 * WEFT_EINVAL: given is NULL, or its bytes are no size of such a struct; WEFT_ENOTSUP: it sets a field that is not known here. */
weft_status wi_struct_read(const struct wi_struct_rule *rule, const char *call, const void *given, void *own);
/* The same of a result, before it is filled: WEFT_EINVAL. */
weft_status wi_struct_check(const struct wi_struct_rule *rule, const char *call, const void *given);
/* Fill a result that was checked; its bytes stay. */
void wi_struct_write(const struct wi_struct_rule *rule, const void *own, void *given);

#endif
