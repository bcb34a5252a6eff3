/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a topology: the first byte says whether as a file (XML, JSON, a description) or as what a peer packed. Each is
 * refused with a reason, or survives every writer and comes back the same; ranks are placed on it if it is small. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/placement.h"

#define SMALL 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_topo: %s: %s\n", what, wi_fail_text());
    abort();
}

static char *print(const struct wi_topo *topo, weft_status (*write)(const struct wi_topo *, FILE *), size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    require(f && write(topo, f) == WEFT_SUCCESS, "print");
    fclose(f);
    return text;
}

static void round_trip(const struct wi_topo *topo, weft_status (*write)(const struct wi_topo *, FILE *))
{
    size_t first_bytes, second_bytes;
    struct wi_topo *again = NULL;
    char *first = print(topo, write, &first_bytes);

    require(wi_topo_parse(first, first_bytes, &again) == WEFT_SUCCESS, "its own text");
    char *second = print(again, write, &second_bytes);
    require(first_bytes == second_bytes && !memcmp(first, second, first_bytes), "round trip");
    free(first);
    free(second);
    wi_topo_put(again);
}

static void place(struct wi_topo *topo)
{
    int32_t places[8], order[8];
    struct wi_model *m;
    struct wi_model_path path;
    struct wi_rings *rings;

    require(wi_place_ranks(topo, 8, places) == WEFT_SUCCESS, "places");
    wi_fail_clear();
    if (wi_model_of_topo(topo, places, 8, NULL, &m) < 0) {
        require(wi_fail_text()[0] != '\0', "a refusal without a reason");
        return;
    }
    for (int from = 0; from < 8; from++)
        for (int to = 0; to < 8; to++) {
            if (from == to)
                continue;
            m->path(m, from, to, &path);
            for (int i = 0; i < path.nresources; i++)
                require(path.resources[i] < m->nresources && m->resources[path.resources[i]].rate > 0, "resources");
        }
    require(wi_ring_order(m, NULL, 8, order, NULL) == WEFT_SUCCESS, "ring");
    require(wi_rings_create(m, 4, &rings) == WEFT_SUCCESS, "rings");
    wi_rings_destroy(rings);
    wi_model_destroy(m);
}

static void use(struct wi_topo *topo)
{
    weft_status (*const writers[])(const struct wi_topo *, FILE *) = {wi_topo_dot, wi_topo_svg, wi_topo_print};
    struct wi_topo *again = NULL;
    void *packed;
    size_t bytes;

    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
        free(print(topo, writers[i], &bytes));
    round_trip(topo, wi_topo_json);
    round_trip(topo, wi_topo_xml);
    require(wi_topo_pack(topo, &packed, &bytes) == WEFT_SUCCESS, "pack");
    require(wi_topo_unpack(packed, bytes, &again) == WEFT_SUCCESS, "unpack");
    wi_topo_put(again);
    wi_free(packed);
    place(topo);
}

/* "nodes:60000" is refused or made as "nodes:600" is, but takes a second. */
static int is_large(const uint8_t *data, size_t bytes)
{
    int digits = 0;

    for (size_t i = 0; i < bytes && data[0] != '<' && data[0] != '{'; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        if (digits > 2)
            return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_topo *topo = NULL;

    if (bytes < 1 || (!(data[0] & 1) && is_large(data + 1, bytes - 1)))
        return 0;
    wi_fail_clear();
    weft_status st = data[0] & 1 ? wi_topo_unpack(data + 1, bytes - 1, &topo)
                                 : wi_topo_parse((const char *)data + 1, bytes - 1, &topo);
    require((st < 0) == !topo && (st == WEFT_SUCCESS || wi_fail_text()[0]), "a refusal without a reason");
    if (topo && topo->nobjects <= SMALL)
        use(topo);
    wi_topo_put(topo);
    return 0;
}
