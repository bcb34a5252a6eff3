/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing tuning tables: sections apart, points in order, so that two files can be compared by eye. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/table.h"

struct sortable {
    struct wi_table_point point;
    const char *algo;
};

static int by_order(const void *va, const void *vb)
{
    const struct sortable *a = va, *b = vb;

    if (a->point.coll != b->point.coll)
        return a->point.coll < b->point.coll ? -1 : 1;
    if (a->point.shared != b->point.shared)
        return a->point.shared < b->point.shared ? -1 : 1;
    if (a->point.bytes != b->point.bytes)
        return a->point.bytes < b->point.bytes ? -1 : 1;
    return strcmp(a->algo, b->algo);
}

static void write_head(const struct wi_plan_table *t, FILE *out)
{
    fprintf(out, "weft-tuning %d\n", WI_TABLE_FORMAT);
    fprintf(out, "version %s\n", t->version[0] ? t->version : weft_version());
    if (t->made[0])
        fprintf(out, "made %s\n", t->made);
    fprintf(out, "machine %s\n", t->machine);
    for (int i = 0; i < t->nhosts; i++)
        fprintf(out, "host %s\n", t->hosts[i]);
}

static void write_rate(const char *op, const char *dtype, const float rate[WI_RATE_PLACES], FILE *out)
{
    if (rate[WI_RATE_CACHE] > 0)
        fprintf(out, "rate %s %s %.6g %.6g\n", op, dtype, (double)rate[WI_RATE_CACHE], (double)rate[WI_RATE_MEMORY]);
}

static void write_rates(const struct wi_rates *r, FILE *out)
{
    if (r->copy[WI_RATE_CACHE] > 0)
        fputs("# operator, data type, B/us of operands in cache and in memory\n", out);
    write_rate("copy", "bytes", r->copy, out);
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++)
        for (unsigned op = 0; op < WI_RATE_OPS; op++)
            write_rate(wi_rate_op_name(op), weft_dtype_name((weft_dtype)t), r->reduce[t][op], out);
}

static void write_section(const struct wi_plan_table *t, int section, FILE *out)
{
    static const char *const units[] = {
#define UNIT(member, name, unit) unit,
        WI_PLAN_LINK_PARAM_LIST(UNIT)
#undef UNIT
    };
    static const char *const names[] = {
#define NAME(member, name, unit) name,
        WI_PLAN_LINK_PARAM_LIST(NAME)
#undef NAME
    };
    const struct wi_table_section *s = &t->sections[section];

    fprintf(out, "\nlayout %d %d %s  # ranks, nodes, node x ranks\n", s->nranks, s->nnodes, s->map[0] ? s->map : "-");
    for (size_t i = 0; i < WI_PLAN_NUM_LINK_PARAMS; i++)
        if (s->has[i])
            fprintf(out, "parameter %s %.6g  # %s\n", names[i], ((const double *)&s->params)[i], units[i]);
    write_rates(&s->rates, out);
    for (int i = 0; i < t->nlinks; i++)
        if (t->links[i].section == section)
            fprintf(out, "link %d %d %.4g %.5g  # us, B/us\n", t->links[i].from, t->links[i].to, t->links[i].us,
                    t->links[i].rate);
}

static weft_status write_points(const struct wi_plan_table *t, int section, FILE *out)
{
    struct sortable *list = wi_calloc(t->npoints ? t->npoints : 1, sizeof *list);
    uint32_t n = 0;

    if (!list)
        return wi_fail(WEFT_ENOMEM, "%u points of a tuning table", t->npoints);
    for (uint32_t i = 0; i < t->npoints; i++)
        if (t->points[i].section == section)
            list[n++] = (struct sortable){t->points[i], t->names[t->points[i].algo]};
    qsort(list, n, sizeof *list, by_order);
    if (n)
        fputs("# collective ranks nodes bytes memory algorithm measured_us formula_us\n", out);
    for (uint32_t i = 0; i < n; i++) {
        const struct wi_table_point *p = &list[i].point;
        fprintf(out, "%s %d %d %" PRIu64 " %s %s %.5g %.5g", wi_coll_name((enum wi_coll)p->coll),
                t->sections[section].nranks, t->sections[section].nnodes, p->bytes, p->shared ? "mapped" : "private",
                list[i].algo, (double)p->measured_us, (double)p->predicted_us);
        if (p->noise > 0)
            fprintf(out, " noise=%.3g", (double)p->noise);
        if (p->chosen_us > 0)
            fprintf(out, " chosen=%.5g", (double)p->chosen_us);
        fputc('\n', out);
    }
    wi_free(list);
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_write(const struct wi_plan_table *t, FILE *out)
{
    write_head(t, out);
    for (int i = 0; i < t->nsections; i++) {
        write_section(t, i, out);
        WI_TRY(write_points(t, i, out));
    }
    return fflush(out) || ferror(out) ? wi_fail_errno(errno, "writing a tuning table") : WEFT_SUCCESS;
}

weft_status wi_plan_table_save(const struct wi_plan_table *t, const char *path)
{
    char next[4096];
    weft_status st;
    FILE *f;

    if (snprintf(next, sizeof next, "%s.new", path) >= (int)sizeof next)
        return wi_fail(WEFT_EINVAL, "%.60s...: the path is too long", path);
    f = fopen(next, "w");
    if (!f)
        return wi_fail_errno(errno, "%s", next);
    st = wi_plan_table_write(t, f);
    if (st >= 0 && fsync(fileno(f)) && errno != EINVAL)
        st = wi_fail_errno(errno, "%s", next);
    if (fclose(f) && st >= 0)
        st = wi_fail_errno(errno, "%s", next);
    if (st >= 0 && rename(next, path))
        st = wi_fail_errno(errno, "%s to %s", next, path);
    if (st < 0)
        unlink(next);
    return st;
}
