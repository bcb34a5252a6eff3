/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON by jansson. */
#include <jansson.h>
#include <string.h>

#include "base/status.h"
#include "topology/graph_internal.h"

/* A field's value as the text that XML would have. */
static weft_status value_text(const char *where, const char *key, const json_t *value, char *text, size_t bytes)
{
    int n;

    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        n = snprintf(text, bytes, "%s", json_string_value(value));
    else if (json_is_integer(value))
        n = snprintf(text, bytes, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        n = snprintf(text, bytes, "%.17g", json_real_value(value));
    else
        return wi_fail(WEFT_ECONFIG, "topology: %s: %.40s is neither a text nor a number", where, key);
    if (n < 0 || (size_t)n >= bytes)
        return wi_fail(WEFT_ECONFIG, "topology: %s: %.40s is too long", where, key);
    return WEFT_SUCCESS;
}

static weft_status read_object(struct wi_topo_builder *b, json_t *from, const char *where, int number)
{
    struct wi_topo_object x = wi_topo_object_init(WI_TOPO_NUM_KINDS, WI_TOPO_NONE, WI_TOPO_NONE);
    char text[128];
    const char *key;
    json_t *value;

    json_object_foreach(from, key, value)
    {
        WI_TRY(value_text(where, key, value, text, sizeof(text)));
        if (strcmp(key, "id"))
            WI_TRY(wi_topo_object_field(&x, where, key, text));
        else if (!json_is_integer(value) || json_integer_value(value) != number)
            return wi_fail(WEFT_ECONFIG, "topology: %s: objects are numbered as they come: id %d is wanted", where,
                           number);
    }
    WI_TRY(wi_topo_object_complete(&x, where));
    x.host = wi_topo_builder_host(b, x.parent);
    wi_topo_add(b, &x);
    return WEFT_SUCCESS;
}

static weft_status read_link(struct wi_topo_builder *b, json_t *from, const char *where, int number)
{
    struct wi_topo_link x = wi_topo_link_init();
    char text[128];
    const char *key;
    json_t *value;

    (void)number;
    json_object_foreach(from, key, value)
    {
        WI_TRY(value_text(where, key, value, text, sizeof(text)));
        WI_TRY(wi_topo_link_field(&x, where, key, text));
    }
    WI_TRY(wi_topo_link_complete(&x, where));
    wi_topo_join(b, &x);
    return WEFT_SUCCESS;
}

static weft_status read_missing(struct wi_topo_builder *b, json_t *from, const char *where, int number)
{
    const char *text = json_string_value(json_object_get(from, "text"));

    (void)number;
    if (!text)
        return wi_fail(WEFT_ECONFIG, "topology: %s: a text is wanted", where);
    wi_topo_miss(b, "%s", text);
    return WEFT_SUCCESS;
}

static weft_status read_list(struct wi_topo_builder *b, const json_t *root, const char *name,
                             weft_status (*read)(struct wi_topo_builder *, json_t *, const char *, int))
{
    const json_t *list = json_object_get(root, name);
    char where[48];

    if (!list)
        return WEFT_SUCCESS;
    if (!json_is_array(list))
        return wi_fail(WEFT_ECONFIG, "topology: \"%s\" is not a list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *entry = json_array_get(list, i);
        snprintf(where, sizeof(where), "%s[%zu]", name, i);
        if (!json_is_object(entry))
            return wi_fail(WEFT_ECONFIG, "topology: %s is not an object", where);
        WI_TRY(read(b, entry, where, (int)i));
        WI_TRY(wi_topo_builder_status(b));
    }
    return WEFT_SUCCESS;
}

static weft_status read_root(struct wi_topo_builder *b, const json_t *root)
{
    static const char *const known[] = {"weft_topology", "objects", "links", "missing"};
    const json_t *version = json_object_get(root, "weft_topology");
    const char *key;
    json_t *value;

    if (!json_is_integer(version) || json_integer_value(version) != WI_TOPO_FILE_VERSION)
        return wi_fail(WEFT_ECONFIG, "topology: \"weft_topology\": %d is wanted", WI_TOPO_FILE_VERSION);
    json_object_foreach((json_t *)root, key, value)
    {
        if (wi_topo_name_index(known, 4, key) < 0)
            return wi_fail(WEFT_ECONFIG, "topology: there is no \"%.40s\"", key);
    }
    WI_TRY(read_list(b, root, "objects", read_object));
    WI_TRY(read_list(b, root, "links", read_link));
    return read_list(b, root, "missing", read_missing);
}

weft_status wi_topo_parse_json(const char *text, size_t bytes, struct wi_topo **topo)
{
    struct wi_topo_builder *b = NULL;
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);

    if (!root)
        return wi_fail(WEFT_ECONFIG, "topology: line %d, column %d: %s", error.line, error.column, error.text);
    weft_status st = wi_topo_begin(&b);
    if (st == WEFT_SUCCESS)
        st = read_root(b, root);
    json_decref(root);
    if (st == WEFT_SUCCESS)
        return wi_topo_seal(b, topo);
    wi_topo_abandon(b);
    return st;
}
