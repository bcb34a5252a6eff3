/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a mesh is ordered as it is. */
#include "topology/grid.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/export_internal.h"

#define SHOWN 64 /* ranks of an order, and of an axis */
#define ALL_PAIRS 64

/* Within what a group is: a level of the model; or one host, or none, where no level says so. */
enum { ON_ONE_HOST = -1, ACROSS = -2 };

struct tally {
    int ngroups, at[WI_MODEL_MAX_LEVELS], on_one_host, across;
    int slowest; /* resource; -1: none */
};

static int same_group(const struct wi_model *m, int level, const int32_t *ranks, int n)
{
    const int32_t *group = level < 0 ? NULL : m->levels[level].group;

    for (int i = 1; i < n; i++)
        if (group ? group[ranks[i]] != group[ranks[0]] : m->ranks[ranks[i]].host != m->ranks[ranks[0]].host)
            return 0;
    return 1;
}

static int is_outside(const struct wi_model *m, int level)
{
    return !strcmp(m->levels[level].name, "rack") || !strcmp(m->levels[level].name, "nvlink");
}

static int scope_of(const struct wi_model *m, const int32_t *ranks, int n)
{
    int one_host = same_group(m, -1, ranks, n);

    for (int level = m->nlevels - 1; level >= 0; level--)
        if (same_group(m, level, ranks, n) && !(one_host && is_outside(m, level)))
            return level;
    return one_host ? ON_ONE_HOST : ACROSS;
}

static void note_slowest(const struct wi_model *m, int from, int to, struct tally *t)
{
    struct wi_model_path path;

    m->path(m, from, to, &path);
    for (int i = 0; i < path.nresources; i++) {
        int32_t r = (int32_t)path.resources[i];
        if (r != m->ranks[from].engine && r != m->ranks[to].engine &&
            (t->slowest < 0 || m->resources[r].rate < m->resources[t->slowest].rate))
            t->slowest = r;
    }
}

static void count(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, int axis, int32_t *group,
                  struct tally *t)
{
    int extent = grid->extent[axis], stride = 1;

    *t = (struct tally){.slowest = -1};
    for (int a = axis + 1; a < grid->naxes; a++)
        stride *= grid->extent[a];
    for (int p = 0; p < grid->nranks; p++) {
        if (p / stride % extent)
            continue;
        wi_grid_group(grid, order, axis, p, group);
        int scope = scope_of(m, group, extent), reach = extent <= ALL_PAIRS ? extent : 2;
        t->ngroups++;
        *(scope == ACROSS ? &t->across : scope == ON_ONE_HOST ? &t->on_one_host : &t->at[scope]) += 1;
        for (int i = 0; i < extent; i++)
            for (int k = i + 1; k < extent && k < i + reach; k++) {
                note_slowest(m, group[i], group[k], t);
                note_slowest(m, group[k], group[i], t);
            }
    }
}

/* ---- Words ---- */

static int has_racks(const struct wi_model *m)
{
    return m->nlevels > 0 && !strcmp(m->levels[0].name, "rack");
}

static void print_share(FILE *out, const char **before, int n, int all, const char *what, const char *name)
{
    if (!n)
        return;
    if (n == all)
        fprintf(out, "%s%s %s", *before, what, name);
    else
        fprintf(out, "%s%d of %d %s %s", *before, n, all, what, name);
    *before = ", ";
}

static void print_scopes(const struct wi_model *m, const struct tally *t, FILE *out)
{
    const char *before = "";

    for (int level = m->nlevels - 1; level >= 0; level--)
        print_share(out, &before, t->at[level], t->ngroups, "within one", m->levels[level].name);
    print_share(out, &before, t->on_one_host, t->ngroups, "within one", "node");
    print_share(out, &before, t->across, t->ngroups, "across", has_racks(m) ? "racks" : "nodes");
}

static int same_scopes(const struct tally *a, const struct tally *b)
{
    return !memcmp(a->at, b->at, sizeof(a->at)) && a->across == b->across;
}

static void print_axis(const struct wi_model *m, const struct wi_grid *grid, int axis, const struct tally *t,
                       const struct tally *plain, FILE *out)
{
    char rate[32];

    fprintf(out, "  %s: %d rank%s, traffic %g: ", grid->name[axis], grid->extent[axis],
            grid->extent[axis] == 1 ? "" : "s", grid->traffic[axis]);
    if (grid->extent[axis] == 1) {
        fprintf(out, "nothing to exchange\n");
        return;
    }
    print_scopes(m, t, out);
    if (t->slowest >= 0) {
        wi_topo_rate_text(m->resources[t->slowest].rate, 0, rate);
        fprintf(out, "; slowest link %s, %s", m->resources[t->slowest].name, rate);
    }
    if (!same_scopes(t, plain)) {
        fprintf(out, " (in the order of the ranks: ");
        print_scopes(m, plain, out);
        fprintf(out, ")");
    }
    fprintf(out, "\n");
}

static int is_plain(const int32_t *order, int n)
{
    for (int i = 0; i < n; i++)
        if (order[i] != i)
            return 0;
    return 1;
}

static weft_status print_order(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order,
                               const int32_t *plain, FILE *out)
{
    double cost, plain_cost;

    if (is_plain(order, grid->nranks)) {
        fprintf(out, "  order: as the ranks are numbered; no better one was found\n");
        return WEFT_SUCCESS;
    }
    fprintf(out, "  order:");
    for (int i = 0; i < grid->nranks && i < SHOWN; i++)
        fprintf(out, " %d", order[i]);
    WI_TRY(wi_grid_cost(m, grid, order, &cost));
    WI_TRY(wi_grid_cost(m, grid, plain, &plain_cost));
    fprintf(out, "%s; as the ranks are numbered it would cost %.3g times as much\n", grid->nranks > SHOWN ? " ..." : "",
            plain_cost / cost);
    return WEFT_SUCCESS;
}

static void print_machine(const struct wi_model *m, const struct wi_grid *grid, FILE *out)
{
    fprintf(out, "mesh");
    for (int a = 0; a < grid->naxes; a++)
        fprintf(out, "%s%s=%d", a ? " x " : " ", grid->name[a], grid->extent[a]);
    fprintf(out, ", %d ranks", grid->nranks);
    for (int level = 0; level < m->nlevels; level++)
        fprintf(out, "%s%d %s groups", level ? ", " : " in ", m->levels[level].ngroups, m->levels[level].name);
    fprintf(out, "%s\n", m->nlevels ? "" : ", all equally near");
}

weft_status wi_grid_explain(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, FILE *out)
{
    int32_t *plain = wi_malloc(2 * (size_t)grid->nranks * sizeof(*plain));
    struct tally chosen, numbered;

    if (!plain)
        return wi_fail(WEFT_ENOMEM, "mesh: no memory to explain %d ranks", grid->nranks);
    for (int i = 0; i < grid->nranks; i++)
        plain[i] = i;
    print_machine(m, grid, out);
    weft_status st = print_order(m, grid, order, plain, out);
    for (int a = 0; st == WEFT_SUCCESS && a < grid->naxes; a++) {
        count(m, grid, order, a, plain + grid->nranks, &chosen);
        count(m, grid, plain, a, plain + grid->nranks, &numbered);
        print_axis(m, grid, a, &chosen, &numbered, out);
    }
    wi_free(plain);
    return st;
}
