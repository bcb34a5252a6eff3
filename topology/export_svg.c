/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture: what contains is a box around what it contains; links between packages, GPUs and hosts are lines with their rate;
 * links inside (to caches, memories, PCI) are implied by the boxes, and their rate stands in them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/export_internal.h"

#define MOST_HOSTS 24
#define PAD 8.0
#define GAP 10.0
#define LINK_GAP 72.0 /* room for the rate of a link between neighbours */
#define HEAD 34.0
#define CHARACTER 6.3
#define LEGEND 24.0

struct box {
    double x, y, w, h; /* x, y: first within the parent, then absolute */
    int is_hidden;
};

struct picture {
    const struct wi_topo *t;
    struct wi_topo_children c;
    struct box *boxes;
    FILE *out;
    int hidden; /* hosts */
};

static const struct {
    const char *fill, *line;
} styles[WI_TOPO_NUM_KINDS] = {
    [WI_TOPO_HOST] = {"#f7f7f7", "#555555"},    [WI_TOPO_PACKAGE] = {"#e6edf7", "#4a6fa5"},
    [WI_TOPO_NUMA] = {"#e2f0e2", "#4e8a4e"},    [WI_TOPO_CACHE] = {"#fbf3d5", "#a88f2c"},
    [WI_TOPO_CORE] = {"#ffffff", "#888888"},    [WI_TOPO_BRIDGE] = {"#eeeeee", "#777777"},
    [WI_TOPO_NIC] = {"#cfe2f3", "#2f6f9f"},     [WI_TOPO_GPU] = {"#d5ecc2", "#4f8f1f"},
    [WI_TOPO_STORAGE] = {"#e6d9ec", "#7f4f9f"}, [WI_TOPO_NVSWITCH] = {"#b6d7a8", "#38761d"},
    [WI_TOPO_SWITCH] = {"#9fc5e8", "#0b5394"},  [WI_TOPO_RACK] = {"#fcfcfc", "#999999"},
};

/* ---- Texts ---- */

static const struct wi_topo_link *pci_link(const struct wi_topo *t, int object)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(t);

    for (uint32_t e = s->first[object]; e < s->first[object + 1]; e++)
        if (t->links[s->edges[e] / 2].kind == WI_TOPO_LINK_PCI && !(s->edges[e] & 1))
            return &t->links[s->edges[e] / 2];
    return NULL;
}

/* The second line of a box: size, rate, slot. */
static void detail(const struct wi_topo *t, int object, char text[112])
{
    const struct wi_topo_object *x = &t->objects[object];
    const struct wi_topo_link *pci = pci_link(t, object);
    char rate[32] = "", slot[32] = "", size[32] = "";

    if (x->rate > 0)
        wi_topo_rate_text(x->rate, x->kind == WI_TOPO_NIC, rate);
    if (pci)
        wi_topo_rate_text(pci->rate, 0, slot);
    if (x->bytes >= (uint64_t)1 << 30)
        snprintf(size, sizeof(size), "%.4g GiB", (double)x->bytes / (double)(1 << 30));
    else if (x->bytes)
        snprintf(size, sizeof(size), "%.4g MiB", (double)x->bytes / (double)(1 << 20));
    snprintf(text, 112, "%s%s%s%s%s%s", size, size[0] && rate[0] ? ", " : "", rate,
             (size[0] || rate[0]) && slot[0] ? ", " : "", slot[0] ? "PCI " : "", slot);
}

static double text_width(const struct wi_topo *t, int object)
{
    char text[112];

    detail(t, object, text);
    size_t name = strlen(t->objects[object].name), more = strlen(text);
    return CHARACTER * (double)(name > more ? name : more) + 2 * PAD;
}

/* ---- Sizes and places ---- */

/* Visible objects in a container (its number + 1; 0: nothing); of one kind, or of all (-1). */
static int count_children(const struct picture *p, int key, int kind)
{
    int count = 0;

    for (int i = p->c.first[key]; i < p->c.first[key + 1]; i++)
        count += !p->boxes[p->c.child[i]].is_hidden && (kind < 0 || (int)p->t->objects[p->c.child[i]].kind == kind);
    return count;
}

/* Switches are bars as wide as what they stand in, so that links to them are upright. */
static int is_bar(const struct picture *p, int object)
{
    enum wi_topo_kind kind = p->t->objects[object].kind;

    return kind == WI_TOPO_SWITCH || kind == WI_TOPO_NVSWITCH;
}

/* Is it joined to another one beside it by a link that is drawn, with its rate? */
static int has_socket_link(const struct picture *p, int object)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(p->t);

    for (uint32_t e = s->first[object]; e < s->first[object + 1]; e++) {
        const struct wi_topo_link *x = &p->t->links[s->edges[e] / 2];
        if (x->kind == WI_TOPO_LINK_SOCKET && p->t->objects[x->a].parent == p->t->objects[x->b].parent)
            return 1;
    }
    return 0;
}

/* How many of a kind stand side by side. */
static int columns_of(const struct picture *p, int object, int count)
{
    enum wi_topo_kind kind = p->t->objects[object].kind;

    if (is_bar(p, object))
        return 1;
    if (kind == WI_TOPO_CORE)
        return count <= 4 ? count : count <= 8 ? 4 : 8;
    if (has_socket_link(p, object)) /* no box between two others that a link joins */
        return (int)ceil(sqrt(count));
    if (kind == WI_TOPO_HOST || kind == WI_TOPO_RACK)
        return count <= 2 ? 1 : (int)ceil(sqrt(count));
    return count <= 4 ? count : 4;
}

/* Rows from left to right; a new one begins where the kind changes or the row is full. */
static void place_children(struct picture *p, int key, double top, double *w, double *h)
{
    double x = PAD, y = top, row = 0, widest = 0;
    int column = 0, columns = 0, before = -1, linked = 0;

    for (int i = p->c.first[key]; i < p->c.first[key + 1]; i++) {
        struct box *box = &p->boxes[p->c.child[i]];
        int kind = (int)p->t->objects[p->c.child[i]].kind;
        if (box->is_hidden)
            continue;
        if (kind != before)
            columns = columns_of(p, p->c.child[i], count_children(p, key, kind));
        if (column && (column >= columns || kind != before)) {
            x = PAD;
            y += row + (linked ? LINK_GAP / 2 : GAP);
            row = column = 0;
        }
        linked = has_socket_link(p, p->c.child[i]);
        box->x = x;
        box->y = y;
        widest = fmax(widest, x + box->w);
        x += box->w + (linked ? LINK_GAP : GAP);
        row = fmax(row, box->h);
        column++;
        before = kind;
    }
    *w = widest + PAD;
    *h = y + row + PAD;
}

/* Parents have smaller numbers than their children: from the end, all children have their size. */
static void measure(struct picture *p)
{
    for (int o = p->t->nobjects - 1; o >= 0; o--) {
        struct box *box = &p->boxes[o];
        enum wi_topo_kind kind = p->t->objects[o].kind;
        if (box->is_hidden)
            continue;
        double least = kind == WI_TOPO_CORE ? 46 : text_width(p->t, o);
        box->w = least;
        box->h = kind == WI_TOPO_CORE ? 20 : HEAD;
        if (count_children(p, o + 1, -1)) {
            place_children(p, o + 1, HEAD + 4, &box->w, &box->h);
            box->w = fmax(box->w, least);
        }
    }
}

static void settle(struct picture *p, double width)
{
    for (int o = 0; o < p->t->nobjects; o++) {
        int parent = p->t->objects[o].parent;
        if (is_bar(p, o))
            p->boxes[o].w = (parent == WI_TOPO_NONE ? width : p->boxes[parent].w) - 2 * PAD;
        if (parent == WI_TOPO_NONE || p->boxes[o].is_hidden)
            continue;
        p->boxes[o].x += p->boxes[parent].x;
        p->boxes[o].y += p->boxes[parent].y;
    }
}

/* Hosts beyond the first ones, and all in them. */
static void hide(struct picture *p)
{
    int shown = 0;

    for (int o = 0; o < p->t->nobjects; o++) {
        const struct wi_topo_object *x = &p->t->objects[o];
        if (x->kind == WI_TOPO_HOST) {
            p->boxes[o].is_hidden = ++shown > MOST_HOSTS;
            p->hidden += p->boxes[o].is_hidden;
        } else if (x->host != WI_TOPO_NONE) {
            p->boxes[o].is_hidden = p->boxes[x->host].is_hidden;
        }
    }
}

/* ---- Drawing ---- */

static void draw_text(FILE *out, double x, double y, const char *class, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    wi_topo_put_escaped(text, out);
    fputs("</text>\n", out);
}

/* Hosts and what stands in them, or what they stand in and beside. */
static void draw_boxes(const struct picture *p, int of_hosts)
{
    char text[112];

    for (int o = 0; o < p->t->nobjects; o++) {
        const struct wi_topo_object *x = &p->t->objects[o];
        const struct box *b = &p->boxes[o];
        if (b->is_hidden || (x->kind == WI_TOPO_HOST || x->host != WI_TOPO_NONE) != of_hosts)
            continue;
        fprintf(p->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" fill=\"%s\" stroke=\"%s\"%s>",
                b->x, b->y, b->w, b->h, is_bar(p, o) ? 14 : 3, styles[x->kind].fill, styles[x->kind].line,
                x->kind == WI_TOPO_RACK ? " stroke-dasharray=\"5 3\"" : "");
        fputs("<title>", p->out);
        wi_topo_put_escaped(wi_topo_kind_name(x->kind), p->out);
        fputs(" ", p->out);
        wi_topo_put_escaped(x->name, p->out);
        fputs(" ", p->out);
        wi_topo_put_escaped(x->model, p->out);
        fputs("</title></rect>\n", p->out);
        draw_text(p->out, b->x + 6, b->y + 14, x->kind == WI_TOPO_CORE ? "small" : "name", x->name);
        if (x->kind == WI_TOPO_CORE)
            continue;
        detail(p->t, o, text);
        draw_text(p->out, b->x + 6, b->y + 28, "small", text);
    }
}

/* From the edge of one box that looks at the other one. */
static void leave(const struct box *from, const struct box *to, double *x, double *y)
{
    double dx = to->x + to->w / 2 - (from->x + from->w / 2), dy = to->y + to->h / 2 - (from->y + from->h / 2);
    double scale_x = fabs(dx) > 0 ? from->w / 2 / fabs(dx) : HUGE_VAL;
    double scale_y = fabs(dy) > 0 ? from->h / 2 / fabs(dy) : HUGE_VAL, scale = fmin(fmin(scale_x, scale_y), 1);

    *x = from->x + from->w / 2 + dx * scale;
    *y = from->y + from->h / 2 + dy * scale;
}

/* To a bar: upright, to where it is above or below the box. */
static void find_ends(const struct picture *p, int a, int b, double end[4])
{
    struct box from = p->boxes[a], to = p->boxes[b];

    if (is_bar(p, b) && !is_bar(p, a))
        to.x = from.x + from.w / 2 - to.w / 2;
    else if (is_bar(p, a) && !is_bar(p, b))
        from.x = to.x + to.w / 2 - from.w / 2;
    else if (is_bar(p, a))
        to.x = from.x + from.w / 2 - to.w / 2;
    leave(&from, &to, &end[0], &end[1]);
    leave(&to, &from, &end[2], &end[3]);
}

/* Would a text lie on one of the boxes that stand beside this one? */
static int hits_neighbour(const struct picture *p, int object, double x, double y, double width)
{
    int parent = p->t->objects[object].parent;

    for (int i = p->c.first[parent + 1]; i < p->c.first[parent + 2]; i++) {
        const struct box *b = &p->boxes[p->c.child[i]];
        if (!b->is_hidden && x < b->x + b->w && x + width > b->x && y - 8 < b->y + b->h && y + 2 > b->y)
            return 1;
    }
    return 0;
}

static void draw_line(const struct picture *p, const struct wi_topo_link *x, const double end[4])
{
    fprintf(p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"%s/>\n", end[0], end[1], end[2],
            end[3], wi_topo_link_name(x->kind), x->origin == WI_TOPO_ASSUMED ? " stroke-dasharray=\"4 3\"" : "");
}

static int is_wire(const struct picture *p, const struct wi_topo_link *x)
{
    return x->kind == WI_TOPO_LINK_NETWORK && !p->boxes[x->a].is_hidden && !p->boxes[x->b].is_hidden;
}

/* The network lies behind the hosts, so that no wire seems to enter a host that it only passes. */
static void draw_wires(const struct picture *p)
{
    for (int l = 0; l < p->t->nlinks; l++) {
        double end[4];
        if (!is_wire(p, &p->t->links[l]))
            continue;
        find_ends(p, p->t->links[l].a, p->t->links[l].b, end);
        draw_line(p, &p->t->links[l], end);
    }
}

/* Cut what goes from a box in a host to where it leaves the host. */
static void cut_at_host(const struct box *host, double end[4])
{
    double dx = end[2] - end[0], dy = end[3] - end[1], part = 1;

    if (dx != 0)
        part = fmin(part, ((dx > 0 ? host->x + host->w : host->x) - end[0]) / dx);
    if (dy != 0)
        part = fmin(part, ((dy > 0 ? host->y + host->h : host->y) - end[1]) / dy);
    end[2] = end[0] + part * dx;
    end[3] = end[1] + part * dy;
}

/* In the hosts that they belong to, wires are seen: from their end there to the edge. */
static void draw_wire_ends(const struct picture *p)
{
    for (int l = 0; l < p->t->nlinks; l++) {
        const struct wi_topo_link *x = &p->t->links[l];
        double end[4], back[4];
        if (!is_wire(p, x))
            continue;
        find_ends(p, x->a, x->b, end);
        memcpy(back, (double[4]){end[2], end[3], end[0], end[1]}, sizeof(back));
        if (p->t->objects[x->a].host != WI_TOPO_NONE) {
            cut_at_host(&p->boxes[p->t->objects[x->a].host], end);
            draw_line(p, x, end);
        }
        if (p->t->objects[x->b].host != WI_TOPO_NONE) {
            cut_at_host(&p->boxes[p->t->objects[x->b].host], back);
            draw_line(p, x, back);
        }
    }
}

/* Many links that differ in one end only get one label; the last one that was written decides. */
static void draw_links(const struct picture *p)
{
    const struct wi_topo *t = p->t;
    int last_end = WI_TOPO_NONE;
    double last_rate = 0;

    for (int l = 0; l < t->nlinks; l++) {
        const struct wi_topo_link *x = &t->links[l];
        int drawn = x->kind == WI_TOPO_LINK_NETWORK || x->kind == WI_TOPO_LINK_NVLINK ||
                    (x->kind == WI_TOPO_LINK_SOCKET && t->objects[x->a].parent == t->objects[x->b].parent);
        if (!drawn || p->boxes[x->a].is_hidden || p->boxes[x->b].is_hidden)
            continue;
        double end[4];
        char rate[32];
        find_ends(p, x->a, x->b, end);
        if (x->kind != WI_TOPO_LINK_NETWORK)
            draw_line(p, x, end);
        wi_topo_rate_text(x->rate, x->kind == WI_TOPO_LINK_NETWORK, rate);
        if (x->kind != WI_TOPO_LINK_SOCKET && x->b == last_end && x->rate == last_rate)
            continue;
        last_end = x->b;
        last_rate = x->rate;
        double x_text = (end[0] + end[2]) / 2 + 4, y_text = (end[1] + end[3]) / 2 - 3;
        if (x->kind == WI_TOPO_LINK_SOCKET) { /* in the gap; where two cross, each on its own side */
            int upright = fabs(end[0] - end[2]) < fabs(end[1] - end[3]);
            double width = CHARACTER * (double)strlen(rate) * 0.85, at = upright || end[1] == end[3] ? 0.5 : 0.3;
            x_text = end[0] + at * (end[2] - end[0]) + (upright ? 5 : -width / 2);
            y_text = end[1] + at * (end[3] - end[1]) - (upright ? -3 : 4);
            if (hits_neighbour(p, x->a, x_text, y_text, width))
                continue; /* a crowd: those in the gaps say it */
        }
        /* Where many lines meet there is room. */
        if (is_bar(p, x->b))
            y_text = end[3] + (end[1] > end[3] ? 10 : -3);
        draw_text(p->out, x_text, y_text, "halo", rate);
        draw_text(p->out, x_text, y_text, "rate", rate);
    }
}

static void draw(struct picture *p, double w, double h)
{
    fprintf(p->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\">\n<style>"
            ".name{font-size:11px;font-weight:bold}.small{font-size:10px;fill:#444}.rate{font-size:10px;fill:#a00}"
            ".halo{font-size:10px;fill:#fff;stroke:#fff;stroke-width:3}line{stroke-opacity:0.55}"
            ".network{stroke:#0b5394;stroke-width:1.5}.nvlink{stroke:#38761d;stroke-width:2}"
            ".socket{stroke:#4a6fa5;stroke-width:3}"
            "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            w, h + LEGEND, w, h + LEGEND);
    draw_boxes(p, 0);
    draw_wires(p);
    draw_boxes(p, 1);
    draw_wire_ends(p);
    draw_links(p);
    char note[160];
    int at = snprintf(note, sizeof(note), "weft: %d host%s, %d objects; dashed lines: rates assumed", p->t->nhosts,
                      p->t->nhosts == 1 ? "" : "s", p->t->nobjects);
    if (p->hidden)
        snprintf(note + at, sizeof(note) - (size_t)at, "; %d more hosts are not drawn", p->hidden);
    draw_text(p->out, PAD, h + LEGEND - 8, "small", note);
    fputs("</svg>\n", p->out);
}

weft_status wi_topo_svg(const struct wi_topo *topo, FILE *out)
{
    struct picture p = {.t = topo, .out = out};
    double w, h;

    WI_TRY(wi_topo_children_init(&p.c, topo));
    p.boxes = wi_calloc((size_t)topo->nobjects, sizeof(*p.boxes));
    if (!p.boxes) {
        wi_topo_children_fini(&p.c);
        return wi_fail(WEFT_ENOMEM, "topology: no memory to draw %d objects", topo->nobjects);
    }
    void *locale = wi_topo_locale_enter();
    hide(&p);
    measure(&p);
    place_children(&p, 0, PAD, &w, &h);
    w = fmax(w, 420);
    settle(&p, w);
    draw(&p, w, h);
    wi_topo_locale_leave(locale);
    wi_free(p.boxes);
    wi_topo_children_fini(&p.c);
    return wi_topo_written(out, "SVG");
}
