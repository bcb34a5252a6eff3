/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a host as it is sent to others: little-endian, texts with their length before them. What arrives is not
 * trusted: counts are compared with the bytes that are there before anything is allocated. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"

#define MAGIC 0x31505457u /* "WTP1" */
#define OBJECT_BYTES (1 + 3 * 4 + 2 * 8 + 4)
#define LINK_BYTES (3 + 2 * 4 + 2 * 8)

/* ---- Writing ---- */

struct writer {
    unsigned char *data; /* NULL: only counts */
    size_t bytes;
};

static void put(struct writer *w, uint64_t value, int bytes)
{
    for (int i = 0; w->data && i < bytes; i++)
        w->data[w->bytes + (size_t)i] = (unsigned char)(value >> (8 * i));
    w->bytes += (size_t)bytes;
}

static void put_double(struct writer *w, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put(w, bits, 8);
}

static void put_text(struct writer *w, const char *text, int length_bytes)
{
    size_t n = strlen(text);

    put(w, n, length_bytes);
    if (w->data)
        memcpy(w->data + w->bytes, text, n);
    w->bytes += n;
}

static void put_graph(struct writer *w, const struct wi_topo *t)
{
    put(w, MAGIC, 4);
    put(w, (uint32_t)t->nobjects, 4);
    put(w, (uint32_t)t->nlinks, 4);
    put(w, (uint32_t)t->nmissing, 4);
    for (int o = 0; o < t->nobjects; o++) {
        const struct wi_topo_object *x = &t->objects[o];
        put(w, x->kind, 1);
        put(w, (uint32_t)x->parent, 4);
        put(w, (uint32_t)x->index, 4);
        put(w, (uint32_t)x->os_index, 4);
        put(w, x->bytes, 8);
        put_double(w, x->rate);
        put_text(w, x->name, 1);
        put_text(w, x->alias, 1);
        put_text(w, x->model, 1);
        put_text(w, x->bus, 1);
    }
    for (int l = 0; l < t->nlinks; l++) {
        const struct wi_topo_link *x = &t->links[l];
        put(w, x->kind, 1);
        put(w, (uint32_t)x->a, 4);
        put(w, (uint32_t)x->b, 4);
        put_double(w, x->rate);
        put_double(w, x->latency);
        put(w, x->half_duplex != 0, 1);
        put(w, x->origin, 1);
    }
    for (int i = 0; i < t->nmissing; i++)
        put_text(w, t->missing[i], 2);
}

weft_status wi_topo_pack(const struct wi_topo *topo, void **data, size_t *bytes)
{
    struct writer w = {NULL, 0};

    put_graph(&w, topo);
    w.data = wi_malloc(w.bytes);
    if (!w.data)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to pack %zu bytes", w.bytes);
    *bytes = w.bytes;
    w.bytes = 0;
    put_graph(&w, topo);
    *data = w.data;
    return WEFT_SUCCESS;
}

/* ---- Reading ---- */

struct reader {
    const unsigned char *data;
    size_t left;
    int is_short;
};

static uint64_t take(struct reader *r, int bytes)
{
    uint64_t value = 0;

    if (r->left < (size_t)bytes) {
        r->is_short = 1;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)r->data[i] << (8 * i);
    r->data += bytes;
    r->left -= (size_t)bytes;
    return value;
}

static double take_double(struct reader *r)
{
    uint64_t bits = take(r, 8);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rooms are of fixed size; a text that does not fit is as wrong as one that is cut off. */
static void take_text(struct reader *r, int length_bytes, char *text, size_t room)
{
    size_t n = take(r, length_bytes);

    if (n > r->left || n >= room) {
        r->is_short = 1;
        return;
    }
    memcpy(text, r->data, n);
    text[n] = '\0';
    r->data += n;
    r->left -= n;
}

static void take_object(struct reader *r, struct wi_topo_builder *b)
{
    struct wi_topo_object x = wi_topo_object_init((enum wi_topo_kind)take(r, 1), WI_TOPO_NONE, WI_TOPO_NONE);

    x.parent = (int32_t)take(r, 4);
    x.index = (int32_t)take(r, 4);
    x.os_index = (int32_t)take(r, 4);
    x.bytes = take(r, 8);
    x.rate = take_double(r);
    take_text(r, 1, x.name, sizeof(x.name));
    take_text(r, 1, x.alias, sizeof(x.alias));
    take_text(r, 1, x.model, sizeof(x.model));
    take_text(r, 1, x.bus, sizeof(x.bus));
    x.host = wi_topo_builder_host(b, x.parent);
    if (!r->is_short)
        wi_topo_add(b, &x);
}

static void take_link(struct reader *r, struct wi_topo_builder *b)
{
    struct wi_topo_link x = {.kind = (enum wi_topo_link_kind)take(r, 1)};

    x.a = (int32_t)take(r, 4);
    x.b = (int32_t)take(r, 4);
    x.rate = take_double(r);
    x.latency = take_double(r);
    x.half_duplex = take(r, 1) != 0;
    x.origin = (enum wi_topo_origin)take(r, 1);
    if (!r->is_short)
        wi_topo_join(b, &x);
}

static weft_status take_graph(struct reader *r, struct wi_topo_builder *b)
{
    uint64_t magic = take(r, 4), nobjects = take(r, 4), nlinks = take(r, 4), nmissing = take(r, 4);

    if (r->is_short || magic != MAGIC)
        return wi_fail(WEFT_EPROTO, "topology: a host's description is of another version or none");
    if (nobjects * OBJECT_BYTES + nlinks * LINK_BYTES + nmissing * 2 > r->left)
        return wi_fail(WEFT_EPROTO, "topology: a host's description announces more than its %zu bytes hold", r->left);
    for (uint64_t i = 0; i < nobjects && !r->is_short; i++)
        take_object(r, b);
    for (uint64_t i = 0; i < nlinks && !r->is_short; i++)
        take_link(r, b);
    for (uint64_t i = 0; i < nmissing && !r->is_short; i++) {
        char text[WI_TOPO_MAX_SENTENCE] = "";
        take_text(r, 2, text, sizeof(text));
        if (!r->is_short)
            wi_topo_miss(b, "%s", text);
    }
    if (r->is_short || r->left)
        return wi_fail(WEFT_EPROTO, "topology: a host's description is cut off or too long");
    return WEFT_SUCCESS;
}

weft_status wi_topo_unpack(const void *data, size_t bytes, struct wi_topo **topo)
{
    struct reader r = {data, bytes, 0};
    struct wi_topo_builder *b;

    WI_TRY(wi_topo_begin(&b));
    weft_status st = take_graph(&r, b);
    if (st == WEFT_SUCCESS)
        return wi_topo_seal(b, topo);
    wi_topo_abandon(b);
    return st;
}
