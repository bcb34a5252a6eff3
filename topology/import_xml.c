/* SPDX-License-Identifier: BSD-3-Clause */
/* XML by expat: a flat list of <object> and <link> in <weft-topology>. No entities are expanded that the file defines: a
 * document type is refused. */
#include <string.h>

#include "base/status.h"
#include "config.h"
#include "topology/graph_internal.h"

#ifdef HAVE_EXPAT
#include <expat.h>

struct reading {
    XML_Parser parser;
    struct wi_topo_builder *b;
    int depth, nobjects;
    weft_status status;
    char where[32];
};

static void stop(struct reading *r, weft_status status)
{
    if (r->status == WEFT_SUCCESS)
        r->status = status;
    XML_StopParser(r->parser, XML_FALSE);
}

static weft_status read_object(struct reading *r, const char **attributes)
{
    struct wi_topo_object x = wi_topo_object_init(WI_TOPO_NUM_KINDS, WI_TOPO_NONE, WI_TOPO_NONE);

    for (; attributes[0]; attributes += 2) {
        char number[16];
        snprintf(number, sizeof(number), "%d", r->nobjects);
        if (strcmp(attributes[0], "id"))
            WI_TRY(wi_topo_object_field(&x, r->where, attributes[0], attributes[1]));
        else if (strcmp(attributes[1], number))
            return wi_fail(WEFT_ECONFIG, "topology: %s: objects are numbered as they come: id %s is wanted", r->where,
                           number);
    }
    WI_TRY(wi_topo_object_complete(&x, r->where));
    x.host = wi_topo_builder_host(r->b, x.parent);
    wi_topo_add(r->b, &x);
    r->nobjects++;
    return wi_topo_builder_status(r->b);
}

static weft_status read_link(struct reading *r, const char **attributes)
{
    struct wi_topo_link x = wi_topo_link_init();

    for (; attributes[0]; attributes += 2)
        WI_TRY(wi_topo_link_field(&x, r->where, attributes[0], attributes[1]));
    WI_TRY(wi_topo_link_complete(&x, r->where));
    wi_topo_join(r->b, &x);
    return wi_topo_builder_status(r->b);
}

static weft_status refuse_hwloc(const struct reading *r)
{
    return wi_fail(WEFT_ECONFIG, "topology: %s: this is hwloc's XML; weft-topo --hwloc FILE reads it", r->where);
}

static weft_status read_root(struct reading *r, const char *name, const char **attributes)
{
    if (!strcmp(name, "topology"))
        return refuse_hwloc(r);
    if (strcmp(name, "weft-topology"))
        return wi_fail(WEFT_ECONFIG, "topology: %s: <%.40s> is not <weft-topology>", r->where, name);
    if (!attributes[0] || strcmp(attributes[0], "version") || strcmp(attributes[1], "1"))
        return wi_fail(WEFT_ECONFIG, "topology: %s: version=\"1\" is wanted", r->where);
    return WEFT_SUCCESS;
}

static weft_status read_missing(struct reading *r, const char **attributes)
{
    if (!attributes[0] || strcmp(attributes[0], "text") || attributes[2])
        return wi_fail(WEFT_ECONFIG, "topology: %s: <missing> has one attribute, text", r->where);
    wi_topo_miss(r->b, "%s", attributes[1]);
    return wi_topo_builder_status(r->b);
}

static void XMLCALL start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *r = arg;
    weft_status st;

    if (r->status != WEFT_SUCCESS)
        return;
    snprintf(r->where, sizeof(r->where), "line %lu", (unsigned long)XML_GetCurrentLineNumber(r->parser));
    if (r->depth++ == 0)
        st = read_root(r, name, attributes);
    else if (r->depth > 2)
        st = wi_fail(WEFT_ECONFIG, "topology: %s: <%.40s> stands inside another element", r->where, name);
    else if (!strcmp(name, "object"))
        st = read_object(r, attributes);
    else if (!strcmp(name, "link"))
        st = read_link(r, attributes);
    else if (!strcmp(name, "missing"))
        st = read_missing(r, attributes);
    else
        st = wi_fail(WEFT_ECONFIG, "topology: %s: there is no <%.40s>", r->where, name);
    if (st < 0)
        stop(r, st);
}

static void XMLCALL end(void *arg, const XML_Char *name)
{
    struct reading *r = arg;

    (void)name;
    r->depth--;
}

static void XMLCALL doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public, int inner)
{
    struct reading *r = arg;

    (void)system;
    (void)public;
    (void)inner;
    snprintf(r->where, sizeof(r->where), "line %lu", (unsigned long)XML_GetCurrentLineNumber(r->parser));
    stop(r, !strcmp(name, "topology") ? refuse_hwloc(r)
                                      : wi_fail(WEFT_ECONFIG, "topology: %s: a document type is not wanted", r->where));
}

static weft_status parse(struct reading *r, const char *text, size_t bytes)
{
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, start, end);
    XML_SetStartDoctypeDeclHandler(r->parser, doctype);
    if (bytes > WI_TOPO_MAX_FILE_BYTES)
        return wi_fail(WEFT_ECONFIG, "topology: %zu bytes of XML are too many", bytes);
    int ok = XML_Parse(r->parser, text, (int)bytes, 1) == XML_STATUS_OK;
    if (r->status < 0)
        return r->status;
    if (!ok)
        return wi_fail(
            WEFT_ECONFIG, "topology: line %lu, column %lu: %s", (unsigned long)XML_GetCurrentLineNumber(r->parser),
            (unsigned long)XML_GetCurrentColumnNumber(r->parser), XML_ErrorString(XML_GetErrorCode(r->parser)));
    return WEFT_SUCCESS;
}

weft_status wi_topo_parse_xml(const char *text, size_t bytes, struct wi_topo **topo)
{
    struct reading r = {.parser = XML_ParserCreate("UTF-8")};

    if (!r.parser)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to read XML");
    weft_status st = wi_topo_begin(&r.b);
    if (st == WEFT_SUCCESS)
        st = parse(&r, text, bytes);
    XML_ParserFree(r.parser);
    if (st == WEFT_SUCCESS)
        return wi_topo_seal(r.b, topo);
    wi_topo_abandon(r.b);
    return st;
}

#else

weft_status wi_topo_parse_xml(const char *text, size_t bytes, struct wi_topo **topo)
{
    (void)text;
    (void)bytes;
    (void)topo;
    return wi_fail(WEFT_ENOTSUP, "topology: this build reads no XML (expat was not there); JSON says the same");
}

#endif
