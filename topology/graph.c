/* SPDX-License-Identifier: BSD-3-Clause */
/* Building a graph, and looking around in it. */
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"

struct wi_topo_builder {
    struct wi_topo_object *objects;
    struct wi_topo_link *links;
    char **missing;
    int nobjects, nlinks, nmissing;
    int objects_room, links_room, missing_room;
    weft_status status; /* the first failure */
    char why[256];
};

/* ---- Names ---- */

static const char *const kind_names[] = {
#define KIND_NAME(name, text) text,
    WI_TOPO_KIND_LIST(KIND_NAME)
#undef KIND_NAME
};
static const char *const link_names[] = {
#define LINK_NAME(name, text) text,
    WI_TOPO_LINK_LIST(LINK_NAME)
#undef LINK_NAME
};
const char *const wi_topo_origin_names[] = {"assumed", "reported", "measured", "given"};

const char *wi_topo_kind_name(enum wi_topo_kind kind)
{
    return (unsigned)kind < WI_TOPO_NUM_KINDS ? kind_names[kind] : "?";
}

const char *wi_topo_link_name(enum wi_topo_link_kind kind)
{
    return (unsigned)kind < WI_TOPO_NUM_LINK_KINDS ? link_names[kind] : "?";
}

int wi_topo_name_index(const char *const *names, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], text))
            return i;
    return -1;
}

int wi_topo_kind_parse(const char *text)
{
    return wi_topo_name_index(kind_names, WI_TOPO_NUM_KINDS, text);
}

int wi_topo_link_parse(const char *text)
{
    return wi_topo_name_index(link_names, WI_TOPO_NUM_LINK_KINDS, text);
}

int wi_topo_origin_parse(const char *text)
{
    return wi_topo_name_index(wi_topo_origin_names, 4, text);
}

void *wi_topo_locale_enter(void)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);

    return c ? (void *)uselocale(c) : NULL;
}

void wi_topo_locale_leave(void *locale)
{
    locale_t c = locale ? uselocale((locale_t)locale) : (locale_t)0;

    if (c)
        freelocale(c);
}

void wi_topo_number(double value, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

/* ---- Building ---- */

weft_status wi_topo_begin(struct wi_topo_builder **builder)
{
    struct wi_topo_builder *b = wi_calloc(1, sizeof(*b));

    if (!b)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a builder");
    *builder = b;
    return WEFT_SUCCESS;
}

void wi_topo_builder_fail(struct wi_topo_builder *b, weft_status status, const char *format, ...)
{
    va_list ap;

    if (b->status < 0)
        return;
    va_start(ap, format);
    vsnprintf(b->why, sizeof(b->why), format, ap);
    va_end(ap);
    b->status = status;
}

weft_status wi_topo_builder_status(const struct wi_topo_builder *b)
{
    return b->status < 0 ? wi_fail(b->status, "%s", b->why) : WEFT_SUCCESS;
}

/* Room for one more; NULL with the failure latched. */
static void *grow(struct wi_topo_builder *b, void *array, int used, int *room, size_t bytes, int most, const char *what)
{
    if (b->status < 0)
        return NULL;
    if (used < *room)
        return array;
    if (used >= most) {
        wi_topo_builder_fail(b, WEFT_ENOTSUP, "topology: more than %d %s", most, what);
        return NULL;
    }
    int more = *room ? 2 * *room : 64;
    void *bigger = wi_realloc(array, (size_t)more * bytes);
    if (!bigger) {
        wi_topo_builder_fail(b, WEFT_ENOMEM, "topology: no memory for %d %s", more, what);
        return NULL;
    }
    *room = more;
    return bigger;
}

struct wi_topo_object wi_topo_object_init(enum wi_topo_kind kind, int parent, int host)
{
    return (struct wi_topo_object){
        .kind = kind, .parent = parent, .host = host, .index = WI_TOPO_NONE, .os_index = WI_TOPO_NONE};
}

int wi_topo_add(struct wi_topo_builder *b, const struct wi_topo_object *object)
{
    struct wi_topo_object *objects =
        grow(b, b->objects, b->nobjects, &b->objects_room, sizeof(*objects), WI_TOPO_MAX_OBJECTS, "objects");

    if (!objects)
        return WI_TOPO_NONE;
    b->objects = objects;
    objects[b->nobjects] = *object;
    if (object->kind == WI_TOPO_HOST)
        objects[b->nobjects].host = b->nobjects;
    return b->nobjects++;
}

void wi_topo_join(struct wi_topo_builder *b, const struct wi_topo_link *link)
{
    struct wi_topo_link *links =
        grow(b, b->links, b->nlinks, &b->links_room, sizeof(*links), WI_TOPO_MAX_LINKS, "links");

    if (!links)
        return;
    b->links = links;
    links[b->nlinks++] = *link;
}

int wi_topo_builder_host(const struct wi_topo_builder *b, int object)
{
    return object < 0 || object >= b->nobjects ? WI_TOPO_NONE : b->objects[object].host;
}

void wi_topo_connect(struct wi_topo_builder *b, enum wi_topo_link_kind kind, int from, int to, double rate,
                     double latency, enum wi_topo_origin origin)
{
    struct wi_topo_link link = {.kind = kind, .a = from, .b = to, .rate = rate, .latency = latency, .origin = origin};

    wi_topo_join(b, &link);
}

void wi_topo_miss(struct wi_topo_builder *b, const char *format, ...)
{
    char text[WI_TOPO_MAX_SENTENCE];
    va_list ap;
    char **missing = grow(b, b->missing, b->nmissing, &b->missing_room, sizeof(*missing), WI_TOPO_MAX_MISSING, "notes");

    if (!missing)
        return;
    b->missing = missing;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    /* Texts of the system may hold anything; a graph holds what every format can carry. */
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    missing[b->nmissing] = wi_strdup(text);
    if (missing[b->nmissing])
        b->nmissing++;
    else
        wi_topo_builder_fail(b, WEFT_ENOMEM, "topology: no memory for a note");
}

static void free_missing(char **missing, int n)
{
    for (int i = 0; i < n; i++)
        wi_free(missing[i]);
    wi_free(missing);
}

void wi_topo_abandon(struct wi_topo_builder *b)
{
    if (!b)
        return;
    wi_free(b->objects);
    wi_free(b->links);
    free_missing(b->missing, b->nmissing);
    wi_free(b);
}

/* Edges by object: counted, summed, then filled in by rising number. */
static weft_status index_edges(struct wi_topo_sealed *s)
{
    const struct wi_topo *t = &s->topo;

    s->first = wi_calloc((size_t)t->nobjects + 2, sizeof(*s->first));
    s->edges = wi_calloc(2 * (size_t)t->nlinks + 1, sizeof(*s->edges));
    if (!s->first || !s->edges)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for %d links", t->nlinks);
    for (int l = 0; l < t->nlinks; l++) {
        s->first[t->links[l].a + 2]++;
        s->first[t->links[l].b + 2]++;
    }
    for (int o = 0; o < t->nobjects; o++)
        s->first[o + 2] += s->first[o + 1];
    for (int l = 0; l < t->nlinks; l++) {
        s->edges[s->first[t->links[l].a + 1]++] = 2 * (uint32_t)l;
        s->edges[s->first[t->links[l].b + 1]++] = 2 * (uint32_t)l + 1;
    }
    return WEFT_SUCCESS;
}

static void destroy(struct wi_topo_sealed *s)
{
    wi_free((void *)s->topo.objects);
    wi_free((void *)s->topo.links);
    free_missing(s->topo.missing, s->topo.nmissing);
    wi_free(s->first);
    wi_free(s->edges);
    wi_free(s);
}

weft_status wi_topo_seal(struct wi_topo_builder *b, struct wi_topo **topo)
{
    weft_status st = wi_topo_builder_status(b);
    struct wi_topo_sealed *s = NULL;

    if (st == WEFT_SUCCESS)
        st = wi_topo_check_objects(b->objects, b->nobjects);
    if (st == WEFT_SUCCESS)
        st = wi_topo_check_links(b->objects, b->nobjects, b->links, b->nlinks);
    if (st == WEFT_SUCCESS && !(s = wi_calloc(1, sizeof(*s))))
        st = wi_fail(WEFT_ENOMEM, "topology: no memory for a graph");
    if (st != WEFT_SUCCESS) {
        wi_topo_abandon(b);
        return st;
    }
    s->topo = (struct wi_topo){1, b->nobjects, b->nlinks, 0, b->objects, b->links, b->missing, b->nmissing};
    for (int o = 0; o < b->nobjects; o++)
        s->topo.nhosts += b->objects[o].kind == WI_TOPO_HOST;
    wi_free(b);
    st = index_edges(s);
    if (st != WEFT_SUCCESS) {
        destroy(s);
        return st;
    }
    *topo = &s->topo;
    return WEFT_SUCCESS;
}

struct wi_topo *wi_topo_get(struct wi_topo *topo)
{
    __atomic_fetch_add(&topo->refs, 1, __ATOMIC_RELAXED);
    return topo;
}

void wi_topo_put(struct wi_topo *topo)
{
    /* The last release must see what other threads did with the graph before they released it. */
    if (topo && __atomic_fetch_sub(&topo->refs, 1, __ATOMIC_ACQ_REL) == 1)
        destroy((struct wi_topo_sealed *)topo);
}

/* ---- Looking around ---- */

int wi_topo_find(const struct wi_topo *topo, enum wi_topo_kind kind, int host, const char *name)
{
    for (int o = 0; o < topo->nobjects; o++) {
        const struct wi_topo_object *object = &topo->objects[o];
        if (object->kind == kind && (host == WI_TOPO_NONE || object->host == host) &&
            (!strcmp(object->name, name) || (object->alias[0] && !strcmp(object->alias, name))))
            return o;
    }
    return WI_TOPO_NONE;
}

int wi_topo_ancestor(const struct wi_topo *topo, int object, enum wi_topo_kind kind)
{
    while (object != WI_TOPO_NONE && topo->objects[object].kind != kind)
        object = topo->objects[object].parent;
    return object;
}
