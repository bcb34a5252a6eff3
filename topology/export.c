/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs as XML, JSON and DOT; what all writers share. */
#include <errno.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/export_internal.h"

weft_status wi_topo_children_init(struct wi_topo_children *c, const struct wi_topo *topo)
{
    size_t n = (size_t)topo->nobjects;

    c->first = wi_calloc(n + 3, sizeof(*c->first));
    c->child = wi_calloc(n + 1, sizeof(*c->child));
    if (!c->first || !c->child) {
        wi_topo_children_fini(c);
        return wi_fail(WEFT_ENOMEM, "topology: no memory to write %zu objects", n);
    }
    /* Counted, summed, filled in: as index_edges in graph.c. */
    for (size_t o = 0; o < n; o++)
        c->first[topo->objects[o].parent + 3]++;
    for (size_t k = 1; k < n + 3; k++)
        c->first[k] += c->first[k - 1];
    for (size_t o = 0; o < n; o++)
        c->child[c->first[topo->objects[o].parent + 2]++] = (int)o;
    return WEFT_SUCCESS;
}

void wi_topo_children_fini(struct wi_topo_children *c)
{
    wi_free(c->first);
    wi_free(c->child);
}

weft_status wi_topo_written(FILE *out, const char *what)
{
    if (fflush(out) || ferror(out))
        return wi_fail_errno(errno ? errno : EIO, "topology: the %s could not be written", what);
    return WEFT_SUCCESS;
}

void wi_topo_put_escaped(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* ---- XML and JSON: the same fields in the same order ---- */

struct format {
    void (*text)(const char *key, const char *text, FILE *out);
    void (*integer)(const char *key, long long value, FILE *out);
    void (*number)(const char *key, double value, FILE *out);
};

static void put_object(const struct format *f, const struct wi_topo_object *x, FILE *out)
{
    const struct {
        const char *key, *text;
    } texts[] = {{"name", x->name}, {"alias", x->alias}, {"model", x->model}, {"bus", x->bus}};

    f->text("kind", wi_topo_kind_name(x->kind), out);
    if (x->parent != WI_TOPO_NONE)
        f->integer("parent", x->parent, out);
    f->integer("index", x->index, out);
    if (x->os_index != WI_TOPO_NONE)
        f->integer("os_index", x->os_index, out);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text[0])
            f->text(texts[i].key, texts[i].text, out);
    if (x->bytes)
        f->integer("bytes", (long long)x->bytes, out);
    if (x->rate > 0)
        f->number("rate", x->rate, out);
}

static void put_ends(const struct format *f, const struct wi_topo_link *x, FILE *out)
{
    f->integer("a", x->a, out);
    f->integer("b", x->b, out);
    f->number("rate", x->rate, out);
    f->number("latency", x->latency, out);
    if (x->half_duplex)
        f->integer("half_duplex", 1, out);
    f->text("origin", wi_topo_origin_names[x->origin], out);
}

static void xml_text(const char *key, const char *text, FILE *out)
{
    fprintf(out, " %s=\"", key);
    wi_topo_put_escaped(text, out);
    putc('"', out);
}

static void xml_integer(const char *key, long long value, FILE *out)
{
    fprintf(out, " %s=\"%lld\"", key, value);
}

static void xml_number(const char *key, double value, FILE *out)
{
    char text[32];

    wi_topo_number(value, text);
    fprintf(out, " %s=\"%s\"", key, text);
}

weft_status wi_topo_xml(const struct wi_topo *topo, FILE *out)
{
    static const struct format xml = {xml_text, xml_integer, xml_number};
    void *locale = wi_topo_locale_enter();

    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<weft-topology version=\"%d\">\n", WI_TOPO_FILE_VERSION);
    for (int o = 0; o < topo->nobjects; o++) {
        fprintf(out, "  <object id=\"%d\"", o);
        put_object(&xml, &topo->objects[o], out);
        fputs("/>\n", out);
    }
    for (int l = 0; l < topo->nlinks; l++) {
        fprintf(out, "  <link kind=\"%s\"", wi_topo_link_name(topo->links[l].kind));
        put_ends(&xml, &topo->links[l], out);
        fputs("/>\n", out);
    }
    for (int i = 0; i < topo->nmissing; i++) {
        fputs("  <missing", out);
        xml_text("text", topo->missing[i], out);
        fputs("/>\n", out);
    }
    fputs("</weft-topology>\n", out);
    wi_topo_locale_leave(locale);
    return wi_topo_written(out, "XML");
}

static void json_text(const char *key, const char *text, FILE *out)
{
    fprintf(out, ", \"%s\": \"", key);
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putc('"', out);
}

static void json_integer(const char *key, long long value, FILE *out)
{
    fprintf(out, ", \"%s\": %lld", key, value);
}

static void json_number(const char *key, double value, FILE *out)
{
    char text[32];

    wi_topo_number(value, text);
    fprintf(out, ", \"%s\": %s", key, text);
}

weft_status wi_topo_json(const struct wi_topo *topo, FILE *out)
{
    static const struct format json = {json_text, json_integer, json_number};
    void *locale = wi_topo_locale_enter();

    fprintf(out, "{\n  \"weft_topology\": %d,\n  \"objects\": [\n", WI_TOPO_FILE_VERSION);
    for (int o = 0; o < topo->nobjects; o++) {
        fprintf(out, "%s    {\"id\": %d", o ? ",\n" : "", o);
        put_object(&json, &topo->objects[o], out);
        putc('}', out);
    }
    fputs("\n  ],\n  \"links\": [\n", out);
    for (int l = 0; l < topo->nlinks; l++) {
        fprintf(out, "%s    {\"kind\": \"%s\"", l ? ",\n" : "", wi_topo_link_name(topo->links[l].kind));
        put_ends(&json, &topo->links[l], out);
        putc('}', out);
    }
    fputs(topo->nlinks ? "\n  ],\n  \"missing\": [" : "  ],\n  \"missing\": [", out);
    for (int i = 0; i < topo->nmissing; i++) {
        fprintf(out, "%s{\"note\": %d", i ? ",\n    " : "\n    ", i);
        json_text("text", topo->missing[i], out);
        putc('}', out);
    }
    fputs(topo->nmissing ? "\n  ]\n}\n" : "]\n}\n", out);
    wi_topo_locale_leave(locale);
    return wi_topo_written(out, "JSON");
}

/* ---- DOT ---- */

static void dot_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void dot_below(const struct wi_topo *t, const struct wi_topo_children *c, int from, int to, int depth, FILE *out)
{
    for (int i = from; i < to; i++) {
        int o = c->child[i];
        const struct wi_topo_object *x = &t->objects[o];
        int inner = c->first[o + 2] > c->first[o + 1] || x->kind == WI_TOPO_HOST;
        if (inner) {
            fprintf(out, "%*ssubgraph cluster_%d {\n%*slabel=\"%s ", 2 * depth, "", o, 2 * depth + 2, "",
                    wi_topo_kind_name(x->kind));
            dot_text(x->name, out);
            fputs("\";\n", out);
        }
        fprintf(out, "%*so%d [label=\"", 2 * (depth + inner), "", o);
        dot_text(x->name, out);
        fprintf(out, "\", shape=%s];\n", x->kind == WI_TOPO_SWITCH || x->kind == WI_TOPO_NVSWITCH ? "ellipse" : "box");
        dot_below(t, c, c->first[o + 1], c->first[o + 2], depth + inner, out);
        if (inner)
            fprintf(out, "%*s}\n", 2 * depth, "");
    }
}

weft_status wi_topo_dot(const struct wi_topo *topo, FILE *out)
{
    struct wi_topo_children c;

    WI_TRY(wi_topo_children_init(&c, topo));
    fputs("graph weft {\n  node [fontsize=10];\n", out);
    dot_below(topo, &c, c.first[0], c.first[1], 1, out);
    for (int l = 0; l < topo->nlinks; l++) {
        const struct wi_topo_link *x = &topo->links[l];
        char rate[32];
        wi_topo_rate_text(x->rate, x->kind == WI_TOPO_LINK_NETWORK, rate);
        fprintf(out, "  o%d -- o%d [label=\"%s %s\"%s];\n", x->a, x->b, wi_topo_link_name(x->kind), rate,
                x->origin == WI_TOPO_ASSUMED ? ", style=dashed" : "");
    }
    fputs("}\n", out);
    wi_topo_children_fini(&c);
    return wi_topo_written(out, "DOT");
}
