/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of topology/ share. */
#ifndef WI_TOPOLOGY_GRAPH_INTERNAL_H
#define WI_TOPOLOGY_GRAPH_INTERNAL_H

#include "topology/graph.h"

/* Bounds of what is read from files and peers. */
#define WI_TOPO_MAX_OBJECTS (1 << 21)
#define WI_TOPO_MAX_LINKS (1 << 22)
#define WI_TOPO_MAX_MISSING 4096
#define WI_TOPO_MAX_DEPTH 32
/* Rates of links: 1 kB/s to 1 EB/s, so that sums of their inverses are numbers. */
#define WI_TOPO_LEAST_RATE 1e-3
#define WI_TOPO_MOST_RATE 1e12
#define WI_TOPO_MAX_SENTENCE 400
#define WI_TOPO_MAX_FILE_BYTES ((size_t)1 << 28)
#define WI_TOPO_FILE_VERSION 1

/* A sealed graph with its edges by object: those of object o are edges[first[o]] … edges[first[o + 1] - 1], each
 * 2 * link + direction, by rising number; direction 0 leads from a to b. */
struct wi_topo_sealed {
    struct wi_topo topo;
    uint32_t *first, *edges;
};

static inline const struct wi_topo_sealed *wi_topo_sealed(const struct wi_topo *topo)
{
    return (const struct wi_topo_sealed *)topo;
}

/* The object that the edge leads to. */
static inline int wi_topo_edge_end(const struct wi_topo *topo, uint32_t edge)
{
    const struct wi_topo_link *link = &topo->links[edge / 2];

    return edge & 1 ? link->a : link->b;
}

extern const char *const wi_topo_origin_names[];
/* The number of `text` in a list of n names, or -1. */
int wi_topo_name_index(const char *const *names, int n, const char *text);
int wi_topo_kind_parse(const char *text);
int wi_topo_link_parse(const char *text);
int wi_topo_origin_parse(const char *text);

/* An object with nothing known but what is said here. */
struct wi_topo_object wi_topo_object_init(enum wi_topo_kind kind, int parent, int host);
void wi_topo_connect(struct wi_topo_builder *b, enum wi_topo_link_kind kind, int from, int to, double rate,
                     double latency, enum wi_topo_origin origin);
/* The host of an object that was added; WI_TOPO_NONE for others. */
int wi_topo_builder_host(const struct wi_topo_builder *b, int object);
/* The first failure latched in the builder. */
weft_status wi_topo_builder_status(const struct wi_topo_builder *b);
void wi_topo_builder_fail(struct wi_topo_builder *b, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A comma is no decimal point here, whatever the program's locale says: numbers are read and written between these two.
 * Returns what `leave` wants. */
void *wi_topo_locale_enter(void);
void wi_topo_locale_leave(void *locale);
/* The shortest decimal text that reads back as the same number. */
void wi_topo_number(double value, char text[32]);

/* ---- Files ---- */

weft_status wi_topo_parse_xml(const char *text, size_t bytes, struct wi_topo **topo);
weft_status wi_topo_parse_json(const char *text, size_t bytes, struct wi_topo **topo);
/* Set a field of an object or link from its text; `where` ("line 12", "links[3]") begins the failure. */
weft_status wi_topo_object_field(struct wi_topo_object *x, const char *where, const char *key, const char *value);
weft_status wi_topo_link_field(struct wi_topo_link *x, const char *where, const char *key, const char *value);
/* Objects and links before their fields are set, and the failure if a needed one was not. */
#define WI_TOPO_UNSET (-1)
struct wi_topo_link wi_topo_link_init(void);
weft_status wi_topo_object_complete(const struct wi_topo_object *x, const char *where);
weft_status wi_topo_link_complete(const struct wi_topo_link *x, const char *where);

/* ---- Walks ---- */

#define WI_TOPO_UNREACHED UINT32_MAX
#define WI_TOPO_WALK_NETWORK (-2) /* a scope: NETWORK links only */

/* Cheapest routes from one object. Of each object o that was reached, back[o] is the edge by which; all others, and the
 * first, have WI_TOPO_UNREACHED. */
struct wi_topo_walker {
    const struct wi_topo *topo;
    uint32_t *back;
    uint64_t *cost; /* latency in units of 10^-6 us: sums are exact */
    double *rate;   /* of the slowest link */
    int *heap, *place, *touched;
    int nheap, ntouched;
};
weft_status wi_topo_walker_init(struct wi_topo_walker *w, const struct wi_topo *topo);
void wi_topo_walker_fini(struct wi_topo_walker *w);
/* scope: the host whose objects are walked, WI_TOPO_NONE for all, or WI_TOPO_WALK_NETWORK. Stops at `to` unless it is
 * WI_TOPO_NONE. */
void wi_topo_walk(struct wi_topo_walker *w, int from, int to, int scope);
/* The edges of the route to an object that the last walk reached, first one first; their number, or -1. */
int wi_topo_walked(const struct wi_topo_walker *w, int from, int to, uint32_t *path, int max);

/* ---- Invariants ---- */

/* Numbers and names for objects that have none; then what wi_topo_seal promises. */
weft_status wi_topo_check_objects(struct wi_topo_object *objects, int nobjects);
weft_status wi_topo_check_links(const struct wi_topo_object *objects, int nobjects, const struct wi_topo_link *links,
                                int nlinks);
int wi_topo_text_valid(const char *text, size_t bytes);

#endif
