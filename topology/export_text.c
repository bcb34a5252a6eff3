/* SPDX-License-Identifier: BSD-3-Clause */
/* The tree of a graph as text, with what each object's links do. Cores that are alike and follow each other are one line. */
#include <string.h>

#include "base/status.h"
#include "topology/export_internal.h"

static void print_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    fprintf(out, " %.4g %s", value, units[unit]);
}

void wi_topo_rate_text(double rate, int as_bits, char text[32])
{
    if (as_bits)
        snprintf(text, 32, "%.4g Gb/s", rate * 8 / 1000);
    else
        snprintf(text, 32, "%.4g GB/s", rate / 1000);
}

static void print_links(const struct wi_topo *t, int object, FILE *out)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(t);

    for (uint32_t e = s->first[object]; e < s->first[object + 1]; e++) {
        const struct wi_topo_link *link = &t->links[s->edges[e] / 2];
        int end = wi_topo_edge_end(t, s->edges[e]);
        /* Each link once, at its first end. */
        if (s->edges[e] & 1)
            continue;
        char rate[32];
        wi_topo_rate_text(link->rate, link->kind == WI_TOPO_LINK_NETWORK, rate);
        fprintf(out, "  -- %s %s, %.4g us%s%s --> %s%s%s", wi_topo_link_name(link->kind), rate, link->latency,
                link->half_duplex ? ", half duplex" : "", link->origin == WI_TOPO_ASSUMED ? " (assumed)" : "",
                t->objects[end].host != t->objects[object].host && t->objects[end].host != WI_TOPO_NONE
                    ? t->objects[t->objects[end].host].name
                    : "",
                t->objects[end].host != t->objects[object].host && t->objects[end].host != WI_TOPO_NONE ? "/" : "",
                t->objects[end].name);
    }
}

static void print_object(const struct wi_topo *t, int object, int depth, FILE *out)
{
    const struct wi_topo_object *x = &t->objects[object];
    char rate[32];

    fprintf(out, "%*s%s", 2 * depth, "", wi_topo_kind_name(x->kind));
    if (strncmp(x->name, wi_topo_kind_name(x->kind), strlen(wi_topo_kind_name(x->kind))))
        fprintf(out, " %s", x->name);
    else
        fprintf(out, "%s", x->name + strlen(wi_topo_kind_name(x->kind)));
    if (x->alias[0])
        fprintf(out, " (%s)", x->alias);
    if (x->kind == WI_TOPO_CORE && x->os_index != WI_TOPO_NONE)
        fprintf(out, " #%d", x->os_index);
    if (x->bytes)
        print_bytes(out, x->bytes);
    if (x->rate > 0) {
        wi_topo_rate_text(x->rate, x->kind == WI_TOPO_NIC, rate);
        fprintf(out, " %s", rate);
    }
    if (x->model[0])
        fprintf(out, " \"%s\"", x->model);
    if (x->bus[0])
        fprintf(out, " %s", x->bus);
    print_links(t, object, out);
    putc('\n', out);
}

/* The one link of a core, if it has one and nothing stands in it. */
static const struct wi_topo_link *only_link(const struct wi_topo *t, int object)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(t);
    int n = (int)(s->first[object + 1] - s->first[object]);

    if (t->objects[object].kind != WI_TOPO_CORE || n != 1 || s->edges[s->first[object]] & 1)
        return NULL;
    return &t->links[s->edges[s->first[object]] / 2];
}

/* How many cores, from this one on, differ in nothing but their number. */
static int run_of(const struct wi_topo *t, const int *objects, int n)
{
    const struct wi_topo_link *first = only_link(t, objects[0]);
    int run = 1;

    for (; first && run < n; run++) {
        const struct wi_topo_link *x = only_link(t, objects[run]);
        if (!x || x->kind != first->kind || x->b != first->b || x->rate != first->rate ||
            x->latency != first->latency || x->origin != first->origin)
            break;
    }
    return run;
}

static void print_run(const struct wi_topo *t, const int *objects, int n, int depth, FILE *out)
{
    fprintf(out, "%*s%s to %s", 2 * depth, "", t->objects[objects[0]].name, t->objects[objects[n - 1]].name);
    for (int i = 0; i < n; i++) {
        int first = t->objects[objects[i]].os_index, last = first;
        if (first == WI_TOPO_NONE)
            continue;
        while (i + 1 < n && t->objects[objects[i + 1]].os_index == last + 1) {
            last++;
            i++;
        }
        fprintf(out, last > first ? "%s%d-%d" : "%s%d", i == last - first ? " #" : ",", first, last);
    }
    print_links(t, objects[0], out);
    putc('\n', out);
}

static void print_below(const struct wi_topo *t, const struct wi_topo_children *c, int from, int to, int depth,
                        FILE *out)
{
    for (int i = from; i < to; i++) {
        int o = c->child[i], run = run_of(t, &c->child[i], to - i);
        if (run > 2) {
            print_run(t, &c->child[i], run, depth, out);
            i += run - 1;
            continue;
        }
        print_object(t, o, depth, out);
        print_below(t, c, c->first[o + 1], c->first[o + 2], depth + 1, out);
    }
}

weft_status wi_topo_print(const struct wi_topo *topo, FILE *out)
{
    struct wi_topo_children c;

    WI_TRY(wi_topo_children_init(&c, topo));
    print_below(topo, &c, c.first[0], c.first[1], 0, out);
    for (int i = 0; i < topo->nmissing; i++)
        fprintf(out, "missing: %s\n", topo->missing[i]);
    wi_topo_children_fini(&c);
    return wi_topo_written(out, "text");
}
