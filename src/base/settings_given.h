/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user gave, before any table has been read: names, values and where they came from. */
#ifndef WI_BASE_SETTINGS_GIVEN_H
#define WI_BASE_SETTINGS_GIVEN_H

#include <stddef.h>
#include <weft/weft.h>

/* In rising precedence. */
enum wi_origin { WI_ORIGIN_DEFAULT, WI_ORIGIN_FILE, WI_ORIGIN_ENVIRONMENT, WI_ORIGIN_CALL };

struct wi_given {
    struct wi_given *next;
    enum wi_origin origin;
    int line; /* of the file, else 0 */
    const char *value;
    char name[]; /* complete, WEFT_…; the value follows its NUL */
};

struct wi_given_list {
    struct wi_given *first; /* newest first */
};

/* `name` may lack the prefix. WEFT_ENOMEM, or WEFT_ECONFIG for an absurdly long name. */
weft_status wi_given_add(struct wi_given_list *list, const char *name, size_t name_bytes,
                         const char *value, enum wi_origin origin, int line);
weft_status wi_given_read_file(struct wi_given_list *list, const char *path);
weft_status wi_given_read_environment(struct wi_given_list *list);
weft_status wi_given_read_calls(struct wi_given_list *list, const char *const *calls);
/* The newest of that origin, or NULL. `name` may lack the prefix. */
const struct wi_given *wi_given_find(const struct wi_given_list *list, const char *name,
                                     enum wi_origin origin);
void wi_given_free(struct wi_given_list *list);

#endif
