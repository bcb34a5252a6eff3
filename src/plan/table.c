/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning tables in memory: building, finding, comparing with this machine. */
#include "plan/table.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

/* Room for one more of `item` bytes, at most `most`. */
static weft_status grow(void **list, size_t *cap, size_t n, size_t item, size_t most, const char *what)
{
    size_t want = *cap ? 2 * *cap : 16;
    void *p;

    if (n < *cap)
        return WEFT_SUCCESS;
    if (n >= most)
        return wi_fail(WEFT_ECONFIG, "more than %zu %s in a tuning table", most, what);
    p = wi_realloc(*list, (want > most ? most : want) * item);
    if (!p)
        return wi_fail(WEFT_ENOMEM, "%zu %s of a tuning table", want, what);
    *list = p;
    *cap = want > most ? most : want;
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_create(const char *machine, struct wi_plan_table **table)
{
    struct wi_plan_table *t = wi_calloc(1, sizeof *t);

    if (!t)
        return wi_fail(WEFT_ENOMEM, "tuning table");
    snprintf(t->version, sizeof t->version, "%s", weft_version());
    snprintf(t->machine, sizeof t->machine, "%s", machine);
    *table = t;
    return WEFT_SUCCESS;
}

void wi_plan_table_free(struct wi_plan_table *t)
{
    if (!t)
        return;
    wi_free(t->sections);
    wi_free(t->names);
    wi_free(t->hosts);
    wi_free(t->links);
    wi_free(t->points);
    wi_free(t);
}

weft_status wi_plan_table_host(struct wi_plan_table *t, const char *host)
{
    for (int i = 0; i < t->nhosts; i++)
        if (strcmp(t->hosts[i], host) == 0)
            return WEFT_SUCCESS;
    if (strlen(host) >= sizeof *t->hosts)
        return wi_fail(WEFT_ECONFIG, "host name \"%.40s...\" is longer than %zu characters", host,
                       sizeof *t->hosts - 1);
    WI_TRY(grow((void **)&t->hosts, &t->cap_hosts, (size_t)t->nhosts, sizeof *t->hosts, WI_TABLE_MAX_HOSTS, "hosts"));
    strcpy(t->hosts[t->nhosts++], host);
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_section(struct wi_plan_table *t, int nranks, int nnodes, const char *map, int *section)
{
    struct wi_table_section *s;

    *section = wi_plan_table_match(t, nranks, nnodes, map);
    if (*section >= 0)
        return WEFT_SUCCESS;
    if (strlen(map) >= sizeof s->map)
        return wi_fail(WEFT_ECONFIG, "the map of %d ranks is longer than %zu characters", nranks, sizeof s->map - 1);
    WI_TRY(grow((void **)&t->sections, &t->cap_sections, (size_t)t->nsections, sizeof *s, WI_TABLE_MAX_SECTIONS,
                "sections"));
    s = &t->sections[t->nsections];
    *s = (struct wi_table_section){.nranks = nranks, .nnodes = nnodes};
    strcpy(s->map, map);
    *section = t->nsections++;
    return WEFT_SUCCESS;
}

int wi_plan_table_match(const struct wi_plan_table *t, int nranks, int nnodes, const char *map)
{
    for (int i = 0; i < t->nsections; i++)
        if (t->sections[i].nranks == nranks && t->sections[i].nnodes == nnodes && strcmp(t->sections[i].map, map) == 0)
            return i;
    return -1;
}

weft_status wi_plan_table_param(struct wi_plan_table *t, int section, const char *name, double value)
{
    struct wi_table_section *s = &t->sections[section];
    double *at = wi_plan_link_param(&s->params, name);

    if (!at)
        return wi_fail(WEFT_ECONFIG, "there is no parameter \"%s\"", name);
    *at = value;
    s->has[at - (double *)&s->params] = 1;
    return WEFT_SUCCESS;
}

const double *wi_plan_section_param(const struct wi_table_section *s, const char *name)
{
    const double *at = wi_plan_link_param((struct wi_plan_link_params *)&s->params, name);

    return at && s->has[at - (const double *)&s->params] ? at : NULL;
}

weft_status wi_plan_table_rate(struct wi_plan_table *t, int section, const char *op, const char *dtype,
                               float (**rate)[WI_RATE_PLACES])
{
    struct wi_rates *r = &t->sections[section].rates;
    int o = wi_rate_op_parse(op), d = wi_rate_dtype_parse(dtype);

    if (strcmp(op, "copy") == 0) {
        if (strcmp(dtype, "bytes") != 0)
            return wi_fail(WEFT_ECONFIG, "\"%.40s\" is not what is copied: bytes", dtype);
        *rate = &r->copy;
    } else if (o < 0) {
        return wi_fail(WEFT_ECONFIG, "there is no operator \"%.40s\", nor is it copy", op);
    } else if (d < 0) {
        return wi_fail(WEFT_ECONFIG, "there is no data type \"%.40s\"", dtype);
    } else if (!wi_rate_defined((unsigned)d, (unsigned)o)) {
        return wi_fail(WEFT_ECONFIG, "operator %s is undefined for %s", op, dtype);
    } else {
        *rate = &r->reduce[d][o];
    }
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_link(struct wi_plan_table *t, const struct wi_table_link *link)
{
    for (int i = 0; i < t->nlinks; i++) {
        struct wi_table_link *l = &t->links[i];
        if (l->section == link->section && l->from == link->from && l->to == link->to) {
            *l = *link;
            return WEFT_SUCCESS;
        }
    }
    WI_TRY(grow((void **)&t->links, &t->cap_links, (size_t)t->nlinks, sizeof *t->links, 65536, "links"));
    t->links[t->nlinks++] = *link;
    return WEFT_SUCCESS;
}

static weft_status intern(struct wi_plan_table *t, const char *name, uint16_t *number)
{
    for (int i = 0; i < t->nnames; i++) {
        if (strcmp(t->names[i], name) == 0) {
            *number = (uint16_t)i;
            return WEFT_SUCCESS;
        }
    }
    if (strlen(name) >= sizeof *t->names)
        return wi_fail(WEFT_ECONFIG, "algorithm \"%.40s...\" is longer than %zu characters", name,
                       sizeof *t->names - 1);
    WI_TRY(grow((void **)&t->names, &t->cap_names, (size_t)t->nnames, sizeof *t->names, WI_TABLE_MAX_NAMES,
                "names of algorithms"));
    strcpy(t->names[t->nnames], name);
    *number = (uint16_t)t->nnames++;
    return WEFT_SUCCESS;
}

/* Files are in order of section, collective, memory and bytes; the newest points are looked at first. */
uint32_t wi_plan_table_find(const struct wi_plan_table *t, int section, enum wi_coll coll, uint64_t bytes, int shared,
                            const char *algo)
{
    for (uint32_t i = t->npoints; i-- > 0;) {
        const struct wi_table_point *p = &t->points[i];
        if (p->section == section && p->coll == coll && p->bytes == bytes && p->shared == shared &&
            strcmp(t->names[p->algo], algo) == 0)
            return i;
    }
    return UINT32_MAX;
}

weft_status wi_plan_table_point(struct wi_plan_table *t, const struct wi_table_point *point, const char *algo)
{
    uint16_t name = 0;

    WI_TRY(intern(t, algo, &name));
    WI_TRY(grow((void **)&t->points, &t->cap_points, t->npoints, sizeof *t->points, WI_TABLE_MAX_POINTS, "points"));
    t->points[t->npoints] = *point;
    t->points[t->npoints++].algo = name;
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_check(const struct wi_plan_table *t, const char *name, const char *machine)
{
    if (strcmp(t->machine, machine) == 0)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ECONFIG,
                   "%s is a tuning table of another machine: it was made on \"%s\"%s%s, this is \"%s\"; run weft-tune "
                   "here, or unset WEFT_TUNING_FILE",
                   name, t->machine, t->nhosts ? ", host " : "", t->nhosts ? t->hosts[0] : "", machine);
}
