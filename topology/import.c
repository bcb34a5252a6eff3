/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs from files: which format it is, and the fields that XML and JSON have in common. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "topology/graph_internal.h"

/* ---- Fields ---- */

static weft_status refuse(const char *where, const char *key, const char *value, const char *wanted)
{
    char shown[41];
    size_t n = 0;

    for (; value[n] && n < sizeof(shown) - 1; n++)
        shown[n] = value[n] < ' ' || value[n] > '~' ? '?' : value[n];
    shown[n] = '\0';
    return wi_fail(WEFT_ECONFIG, "topology: %s: %s=\"%s\": %s", where, key, shown, wanted);
}

static weft_status set_integer(int32_t *field, const char *where, const char *key, const char *value)
{
    char *end;

    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < 0 || number > INT32_MAX)
        return refuse(where, key, value, "a whole number, 0 to 2147483647, is wanted");
    *field = (int32_t)number;
    return WEFT_SUCCESS;
}

static weft_status set_number(double *field, const char *where, const char *key, const char *value)
{
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end)
        return refuse(where, key, value, "a number is wanted");
    *field = number;
    return WEFT_SUCCESS;
}

static weft_status set_text(char *field, size_t bytes, const char *where, const char *key, const char *value)
{
    if (strlen(value) >= bytes)
        return refuse(where, key, value, "this text is too long");
    memset(field, 0, bytes);
    memcpy(field, value, strlen(value));
    return WEFT_SUCCESS;
}

static weft_status set_kind(int *field, int (*parse)(const char *), const char *where, const char *key,
                            const char *value)
{
    int kind = parse(value);

    if (kind < 0)
        return refuse(where, key, value, "there is no such kind");
    *field = kind;
    return WEFT_SUCCESS;
}

weft_status wi_topo_object_field(struct wi_topo_object *x, const char *where, const char *key, const char *value)
{
    int kind = 0;

    if (!strcmp(key, "kind")) {
        WI_TRY(set_kind(&kind, wi_topo_kind_parse, where, key, value));
        x->kind = (enum wi_topo_kind)kind;
        return WEFT_SUCCESS;
    }
    if (!strcmp(key, "parent"))
        return set_integer(&x->parent, where, key, value);
    if (!strcmp(key, "index"))
        return set_integer(&x->index, where, key, value);
    if (!strcmp(key, "os_index"))
        return set_integer(&x->os_index, where, key, value);
    if (!strcmp(key, "rate"))
        return set_number(&x->rate, where, key, value);
    if (!strcmp(key, "name"))
        return set_text(x->name, sizeof(x->name), where, key, value);
    if (!strcmp(key, "alias"))
        return set_text(x->alias, sizeof(x->alias), where, key, value);
    if (!strcmp(key, "model"))
        return set_text(x->model, sizeof(x->model), where, key, value);
    if (!strcmp(key, "bus"))
        return set_text(x->bus, sizeof(x->bus), where, key, value);
    if (strcmp(key, "bytes"))
        return refuse(where, key, value, "an object has no such field");
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(value, &end, 10);
    if (end == value || *end || errno || value[0] == '-')
        return refuse(where, key, value, "a number of bytes is wanted");
    x->bytes = bytes;
    return WEFT_SUCCESS;
}

struct wi_topo_link wi_topo_link_init(void)
{
    return (struct wi_topo_link){
        .kind = WI_TOPO_NUM_LINK_KINDS, .a = WI_TOPO_UNSET, .b = WI_TOPO_UNSET, .latency = 0, .origin = WI_TOPO_GIVEN};
}

weft_status wi_topo_link_field(struct wi_topo_link *x, const char *where, const char *key, const char *value)
{
    int kind = 0;

    if (!strcmp(key, "kind")) {
        WI_TRY(set_kind(&kind, wi_topo_link_parse, where, key, value));
        x->kind = (enum wi_topo_link_kind)kind;
        return WEFT_SUCCESS;
    }
    if (!strcmp(key, "origin")) {
        WI_TRY(set_kind(&kind, wi_topo_origin_parse, where, key, value));
        x->origin = (enum wi_topo_origin)kind;
        return WEFT_SUCCESS;
    }
    if (!strcmp(key, "a"))
        return set_integer(&x->a, where, key, value);
    if (!strcmp(key, "b"))
        return set_integer(&x->b, where, key, value);
    if (!strcmp(key, "rate"))
        return set_number(&x->rate, where, key, value);
    if (!strcmp(key, "latency"))
        return set_number(&x->latency, where, key, value);
    if (strcmp(key, "half_duplex"))
        return refuse(where, key, value, "a link has no such field");
    if (strcmp(value, "0") && strcmp(value, "1"))
        return refuse(where, key, value, "0 or 1 is wanted");
    x->half_duplex = value[0] == '1';
    return WEFT_SUCCESS;
}

weft_status wi_topo_object_complete(const struct wi_topo_object *x, const char *where)
{
    if (x->kind == WI_TOPO_NUM_KINDS)
        return wi_fail(WEFT_ECONFIG, "topology: %s: an object without a kind", where);
    return WEFT_SUCCESS;
}

weft_status wi_topo_link_complete(const struct wi_topo_link *x, const char *where)
{
    if (x->kind == WI_TOPO_NUM_LINK_KINDS)
        return wi_fail(WEFT_ECONFIG, "topology: %s: a link without a kind", where);
    if (x->a == WI_TOPO_UNSET || x->b == WI_TOPO_UNSET)
        return wi_fail(WEFT_ECONFIG, "topology: %s: a link needs its ends, a and b", where);
    if (x->rate == 0)
        return wi_fail(WEFT_ECONFIG, "topology: %s: a link's rate must be given and above 0", where);
    return WEFT_SUCCESS;
}

/* ---- Which format ---- */

static weft_status parse_synthetic(const char *text, size_t bytes, struct wi_topo **topo)
{
    if (memchr(text, '\0', bytes))
        return wi_fail(WEFT_ECONFIG, "topology: neither XML nor JSON nor a description: there is a NUL byte in it");
    char *copy = wi_malloc(bytes + 1);
    if (!copy)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a description");
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    weft_status st = wi_topo_synthetic(copy, topo);
    wi_free(copy);
    return st;
}

weft_status wi_topo_parse(const char *text, size_t bytes, struct wi_topo **topo)
{
    size_t at = 0;
    void *locale = wi_topo_locale_enter();
    weft_status st;

    while (at < bytes && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    if (at == bytes)
        st = wi_fail(WEFT_ECONFIG, "topology: there is nothing in it");
    else if (text[at] == '<')
        st = wi_topo_parse_xml(text, bytes, topo);
    else if (text[at] == '{')
        st = wi_topo_parse_json(text, bytes, topo);
    else
        st = parse_synthetic(text, bytes, topo);
    wi_topo_locale_leave(locale);
    return st;
}

weft_status wi_topo_load(const char *path, struct wi_topo **topo)
{
    char *text;
    size_t bytes;
    weft_status st;

    WI_TRY(wi_file_read(path, "topology", WI_TOPO_MAX_FILE_BYTES, &text, &bytes));
    st = wi_topo_parse(text, bytes, topo);
    wi_free(text);
    if (st < 0 && !strstr(wi_fail_text(), path)) {
        char why[400];
        snprintf(why, sizeof(why), "%s", wi_fail_text());
        st = wi_fail(st, "%s: %s", path, why);
    }
    return st;
}
