/* SPDX-License-Identifier: BSD-3-Clause */
/* Collecting what file, environment and call say. */
#include "base/settings_given.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define PREFIX "WEFT_"
#define PREFIX_BYTES (sizeof(PREFIX) - 1)
#define NAME_MAX_BYTES 128

extern char **environ;

/* Settings that hold a secret: the registry knows that they are set, their reader looks into the environment. */
static const char *const secrets[] = {"WEFT_JOB_KEY"};

static int is_secret(const char *name, size_t name_bytes)
{
    size_t skip = name_bytes > PREFIX_BYTES && memcmp(name, PREFIX, PREFIX_BYTES) == 0 ? 0 : PREFIX_BYTES;

    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
        if (strlen(secrets[i] + skip) == name_bytes && memcmp(secrets[i] + skip, name, name_bytes) == 0)
            return 1;
    return 0;
}

weft_status wi_given_add(struct wi_given_list *list, const char *name, size_t name_bytes, const char *value,
                         enum wi_origin origin, int line)
{
    size_t prefix = PREFIX_BYTES, value_bytes = strlen(value) + 1;
    struct wi_given *given;

    if (name_bytes > NAME_MAX_BYTES)
        return wi_fail(WEFT_ECONFIG, "setting \"%.32s…\": name longer than %d bytes", name, NAME_MAX_BYTES);
    if (is_secret(name, name_bytes)) {
        if (origin != WI_ORIGIN_ENVIRONMENT)
            return wi_fail(WEFT_ECONFIG,
                           "%.*s is read from the environment only; name a file of mode 600 with %.*s_FILE",
                           (int)name_bytes, name, (int)name_bytes, name);
        value = *value ? "set" : "";
        value_bytes = strlen(value) + 1;
    }
    if (name_bytes > PREFIX_BYTES && memcmp(name, PREFIX, PREFIX_BYTES) == 0)
        prefix = 0;
    given = wi_malloc(sizeof(*given) + prefix + name_bytes + 1 + value_bytes);
    if (!given)
        return wi_fail(WEFT_ENOMEM, "settings: out of memory");
    memcpy(given->name, PREFIX, prefix);
    memcpy(given->name + prefix, name, name_bytes);
    given->name[prefix + name_bytes] = '\0';
    given->value = memcpy(given->name + prefix + name_bytes + 1, value, value_bytes);
    given->origin = origin;
    given->line = line;
    given->next = list->first;
    list->first = given;
    return WEFT_SUCCESS;
}

weft_status wi_given_read_environment(struct wi_given_list *list)
{
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals;

        if (strncmp(*entry, PREFIX, PREFIX_BYTES) != 0)
            continue;
        equals = strchr(*entry, '=');
        if (!equals || equals == *entry + PREFIX_BYTES)
            continue;
        WI_TRY(wi_given_add(list, *entry, (size_t)(equals - *entry), equals + 1, WI_ORIGIN_ENVIRONMENT, 0));
    }
    return WEFT_SUCCESS;
}

weft_status wi_given_read_calls(struct wi_given_list *list, const char *const *calls)
{
    for (int i = 0; calls && calls[i]; i++) {
        const char *equals = strchr(calls[i], '=');

        if (!equals || equals == calls[i])
            return wi_fail(WEFT_ECONFIG, "setting %d of the call, \"%.64s\": expected NAME=value", i + 1, calls[i]);
        WI_TRY(wi_given_add(list, calls[i], (size_t)(equals - calls[i]), equals + 1, WI_ORIGIN_CALL, 0));
    }
    return WEFT_SUCCESS;
}

static const char *name_tail(const char *name)
{
    return strncmp(name, PREFIX, PREFIX_BYTES) == 0 && name[PREFIX_BYTES] ? name + PREFIX_BYTES : name;
}

const struct wi_given *wi_given_find(const struct wi_given_list *list, const char *name, enum wi_origin origin)
{
    for (const struct wi_given *g = list->first; g; g = g->next) {
        if (g->origin == origin && strcmp(name_tail(g->name), name_tail(name)) == 0)
            return g;
    }
    return NULL;
}

void wi_given_free(struct wi_given_list *list)
{
    while (list->first) {
        struct wi_given *given = list->first;

        list->first = given->next;
        wi_free(given);
    }
}
