/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/transports_refused.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/status.h"

void wi_refused_free(struct wi_refused_plugin *list)
{
    while (list) {
        struct wi_refused_plugin *next = list->next;
        wi_free(list->path);
        wi_free(list->name);
        wi_free(list->why);
        wi_free(list);
        list = next;
    }
}

weft_status wi_refused_keep(struct wi_refused_plugin **list, const char *path, const char *name, weft_status status,
                            const char *why)
{
    struct wi_refused_plugin *refused = wi_calloc(1, sizeof *refused);
    const char *what = path ? path : name;

    if (!refused)
        return wi_fail(WEFT_ENOMEM, "plugin %s", what);
    refused->status = status;
    refused->path = path ? wi_strdup(path) : NULL;
    refused->why = wi_strdup(why);
    refused->name = name ? wi_strdup(name) : NULL;
    if ((path && !refused->path) || !refused->why || (name && !refused->name)) {
        wi_refused_free(refused);
        return wi_fail(WEFT_ENOMEM, "plugin %s", what);
    }
    while (*list)
        list = &(*list)->next;
    *list = refused;
    return WEFT_SUCCESS;
}

int wi_plugin_is_named(const char *name, const char *word, size_t len)
{
    return name && strncasecmp(name, word, len) == 0 && !name[len];
}

/* The transport of that name was refused, or the file PATH/NAME.so. */
static int is_refusal_of(const struct wi_refused_plugin *r, const char *word, size_t len)
{
    const char *slash = strrchr(r->path, '/'), *file = slash ? slash + 1 : r->path;

    return wi_plugin_is_named(r->name, word, len) ||
           (strncasecmp(file, word, len) == 0 && strcmp(file + len, ".so") == 0); /* equal up to there, it is as long */
}

weft_status wi_transport_not_found(const struct wi_transports *t, const char *built_in, const char *word, size_t len)
{
    const struct wi_refused_plugin *r = t->refused, *left_out = t->left_out;

    while (left_out && !wi_plugin_is_named(left_out->name, word, len))
        left_out = left_out->next;
    if (left_out)
        return wi_fail(left_out->status, "WEFT_TRANSPORTS names \"%s\", which cannot work here: %s", left_out->name,
                       left_out->why);
    while (r && !is_refusal_of(r, word, len))
        r = r->next;
    if (r)
        return wi_fail(r->status, "WEFT_TRANSPORTS names \"%.*s\", but %s is not loaded: %s", (int)len, word, r->path,
                       r->why);
    r = t->refused;
    return wi_fail(WEFT_ECONFIG, "WEFT_TRANSPORTS names \"%.*s\", which does not exist (built in are %s)%s%s%s%s",
                   (int)len, word, built_in, r ? "; " : "", r ? r->path : "", r ? " was not loaded: " : "",
                   r ? r->why : "");
}
