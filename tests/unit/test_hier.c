/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical algorithms: every combination of an outer and an inner algorithm, in both forms, through the checker, for even,
 * ragged and interleaved groups; costs against schedules; specs that are wrong. */
#include <math.h>

#include "algo/hier.h"
#include "algo/list.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tests/unit/unit.h"

#define MAX_RANKS 64

/* ---- Which rank is where ---- */
struct map {
    const char *name;
    int nranks;
    int32_t node[MAX_RANKS], rack[MAX_RANKS];
    struct wi_algo_levels levels;
};

static void finish(struct map *m, const char *name, int nranks, int nnodes, int nracks)
{
    m->name = name;
    m->nranks = nranks;
    m->levels = (struct wi_algo_levels){.nlevels = 2, .level = {{"rack", nracks, m->rack}, {"node", nnodes, m->node}}};
}

/* sizes[]: ranks of each node, ended by 0; `spread`: dealt out like cards instead of one node after the other. */
static void map_sizes(struct map *m, const char *name, const int *sizes, int spread)
{
    int left[MAX_RANKS], nnodes = 0, n = 0, number[MAX_RANKS], seen = 0;

    memset(m, 0, sizeof *m);
    for (; sizes[nnodes]; nnodes++)
        left[nnodes] = sizes[nnodes], number[nnodes] = -1;
    for (int i = 0, total = 0; total < nnodes; i = spread ? (i + 1) % nnodes : i + (left[i] == 0)) {
        total = 0;
        for (int k = 0; k < nnodes; k++)
            total += left[k] == 0;
        if (total == nnodes || left[i] == 0)
            continue;
        if (number[i] < 0)
            number[i] = seen++;
        m->node[n++] = number[i];
        left[i]--;
    }
    finish(m, name, n, nnodes, 1);
}

/* Racks of nodes of different sizes. */
static void map_racks(struct map *m, const char *name, int racks, int spread)
{
    int n = 0, node = 0;

    memset(m, 0, sizeof *m);
    for (int r = 0; r < racks; r++) {
        for (int k = 0; k <= r % 3; k++, node++) {
            for (int i = 0; i <= (r + k) % 3; i++, n++) {
                m->rack[n] = r;
                m->node[n] = node;
            }
        }
    }
    for (int i = 0; i < n && spread; i++) { /* a fixed shuffle */
        int k = (i * 7 + 3) % n;
        int32_t t = m->rack[i];
        m->rack[i] = m->rack[k];
        m->rack[k] = t;
        t = m->node[i];
        m->node[i] = m->node[k];
        m->node[k] = t;
    }
    finish(m, name, n, node, racks);
}

static const int ragged[] = {3, 1, 4, 0}, even[] = {2, 2, 2, 2, 0}, two[] = {4, 4, 0}, ones[] = {1, 1, 1, 0},
                 one[] = {4, 0}, lone[] = {1, 0}, steep[] = {1, 5, 0}, many[] = {8, 8, 7, 8, 6, 8, 8, 8, 0};
#define NMAPS 12
static struct map maps[NMAPS];

static void make_maps(void)
{
    map_sizes(&maps[0], "3+1+4", ragged, 0);
    map_sizes(&maps[1], "3+1+4 dealt", ragged, 1);
    map_sizes(&maps[2], "2+2+2+2", even, 0);
    map_sizes(&maps[3], "2+2+2+2 dealt", even, 1);
    map_sizes(&maps[4], "4+4 dealt", two, 1);
    map_sizes(&maps[5], "1+1+1", ones, 0);
    map_sizes(&maps[6], "one node", one, 0);
    map_sizes(&maps[7], "one rank", lone, 0);
    map_sizes(&maps[8], "1+5", steep, 1);
    map_racks(&maps[9], "5 racks", 5, 0);
    map_racks(&maps[10], "5 racks shuffled", 5, 1);
    map_sizes(&maps[11], "8 nodes, 61 ranks", many, 1);
}

/* ---- Building and checking ---- */
static int has_root(enum wi_coll coll)
{
    return coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST;
}

static void complain(const char *spec, enum wi_coll coll, const struct map *m, int root, int in_place)
{
    static char text[1024];

    snprintf(text, sizeof text, "%s %s on %s root=%d%s: %s", wi_coll_name(coll), spec, m->name, root,
             in_place ? " in place" : "", wi_fail_text());
    CU_assertImplementation(CU_FALSE, __LINE__, text, __FILE__, "", CU_FALSE);
}

/* 1: all built; -1: failed. An algorithm among a number of ranks that it is not for has been refused before. */
static int build_all(const struct wi_algo_choice *choice, const struct map *m, int root, int in_place,
                     struct wi_sched **scheds)
{
    memset(scheds, 0, (size_t)m->nranks * sizeof *scheds);
    for (int r = 0; r < m->nranks; r++) {
        struct wi_algo_args args = {r, m->nranks, root, in_place, 0, &m->levels, &choice->spec};
        wi_fail_clear();
        weft_status st = choice->algo->build(&args, &scheds[r]);
        if (st < 0) {
            complain(choice->spec.text, choice->algo->coll, m, root, in_place);
            return -1;
        }
    }
    return 1;
}

static void put_all(struct wi_sched **scheds, int nranks)
{
    for (int r = 0; r < nranks; r++)
        wi_sched_put(scheds[r]);
}

static unsigned long checked, stages_checked;

/* ---- Stages ---- */

/* Some ranks may be in place and others not, which is an affair of each: then all of them are proved in both forms. */
static int proves(const struct wi_sched *const *group, int nranks, int promised)
{
    const struct wi_algo *algo = wi_algo_find((enum wi_coll)group[0]->coll, group[0]->algo);
    int in_place = 0, ok = 1;

    for (int i = 0; i < nranks; i++)
        in_place += group[i]->in_place;
    if (in_place == 0 || in_place == nranks)
        return wi_sched_check(group, nranks, promised) == WEFT_SUCCESS;
    for (int form = 0; form < 2 && ok; form++) {
        struct wi_sched *made[MAX_RANKS] = {NULL};
        for (int i = 0; i < nranks && ok; i++) {
            struct wi_algo_args args = {.rank = i, .nranks = nranks, .root = group[0]->root, .in_place = form};
            ok = algo->build(&args, &made[i]) == WEFT_SUCCESS;
        }
        ok = ok && wi_sched_check((const struct wi_sched *const *)made, nranks, promised) == WEFT_SUCCESS;
        put_all(made, nranks);
    }
    return ok;
}

/* All ranks of a group have the same one, each as its own rank, and together they do what they are for. */
static int check_group(struct wi_sched *const *scheds, int rank, int after, int promised)
{
    const struct wi_sched_stage *own = after ? scheds[rank]->after : scheds[rank]->before;
    const struct wi_sched *group[MAX_RANKS] = {NULL};

    for (int i = 0; i < own->sched->nranks; i++) {
        const struct wi_sched *s = scheds[own->ranks[i]];
        const struct wi_sched_stage *st = after ? s->after : s->before;
        if (!st || st->sched->rank != i || st->sched->nranks != own->sched->nranks || st->nshares != own->nshares ||
            memcmp(st->ranks, own->ranks, (size_t)own->sched->nranks * sizeof *own->ranks) != 0 ||
            memcmp(st->start, own->start, (own->nshares + (size_t)1) * sizeof *own->start) != 0 ||
            memcmp(st->item, own->item, own->start[own->nshares] * sizeof *own->item) != 0) {
            wi_fail(WEFT_EINVAL, "ranks %d and %d have different stages", rank, own->ranks[i]);
            return 0;
        }
        group[i] = st->sched;
    }
    stages_checked++;
    return proves(group, own->sched->nranks, promised & WI_SCHED_ORDERED);
}

/* What scratch keeps in a slot at once is not more than is said, which all ranks say alike. */
static int check_slot(const struct wi_sched *s, const struct wi_sched *first)
{
    uint64_t items = 0;

    if (s->before)
        items += (uint64_t)s->before->max_items * s->before->sched->buf_blocks[WI_TMP];
    if (s->after)
        items += (uint64_t)s->after->max_items * s->after->sched->buf_blocks[WI_TMP];
    if (items <= s->slot_items && s->slot_items == first->slot_items && s->staged == first->staged)
        return 1;
    wi_fail(WEFT_EINVAL, "rank %d: slots hold %u items, and stages need %u", s->rank, s->slot_items, (unsigned)items);
    return 0;
}

/* Schedules with stages become the same in messages, which the checker proves: what one stage leaves, the next one reads. */
static int check_stages(struct wi_sched **scheds, int nranks, int promised)
{
    for (int r = 0; r < nranks; r++) {
        if (!check_slot(scheds[r], scheds[0]) || (scheds[r]->before && !check_group(scheds, r, 0, promised)) ||
            (scheds[r]->after && !check_group(scheds, r, 1, promised)))
            return 0;
    }
    for (int r = 0; r < nranks; r++) {
        struct wi_sched *flat;
        if (wi_algo_flatten(scheds[r], &flat) < 0)
            return 0;
        wi_sched_put(scheds[r]);
        scheds[r] = flat;
    }
    return 1;
}

static int check_form(const struct wi_algo_choice *choice, const struct map *m, int root, int in_place)
{
    struct wi_sched *scheds[MAX_RANKS];
    int promised = (choice->needs & WI_ALGO_COMMUTATIVE ? 0 : WI_SCHED_ORDERED) |
                   (choice->needs & WI_ALGO_EXACT ? 0 : WI_SCHED_ALIKE);
    int ok = build_all(choice, m, root, in_place, scheds);

    if (ok == 1) {
        wi_fail_clear();
        checked++;
        if ((choice->spec.mapped && !check_stages(scheds, m->nranks, promised)) ||
            wi_sched_check((const struct wi_sched *const *)scheds, m->nranks, promised) != WEFT_SUCCESS) {
            complain(choice->spec.text, choice->algo->coll, m, root, in_place);
            ok = -1;
        }
    }
    put_all(scheds, m->nranks);
    return ok;
}

static void check_spec(enum wi_coll coll, const char *spec, const struct map *m, int all_roots)
{
    struct wi_algo_choice choice;

    weft_status st = wi_algo_choose(coll, spec, &m->levels, m->nranks, &choice);
    if (st < 0) {
        if (st != WEFT_ENOTSUP || (!strstr(wi_fail_text(), "even number") && !strstr(wi_fail_text(), "power of two")))
            complain(spec, coll, m, 0, 0);
        return;
    }
    for (int root = 0; root < (has_root(coll) ? m->nranks : 1); root++) {
        if (root > 1 && root != m->nranks - 1 && !all_roots)
            continue;
        for (int in_place = 0; in_place < (choice.needs & WI_ALGO_NO_IN_PLACE ? 1 : 2); in_place++)
            if (check_form(&choice, m, root, in_place) < 0)
                return;
    }
}

static int is_two_sided(const struct wi_algo *a, enum wi_coll coll)
{
    return a->coll == wi_algo_family(coll) && !(a->needs & (WI_ALGO_MAPPED | WI_ALGO_CODED));
}

/* Images are for the outermost level, and not for all_to_all. */
static int is_outer(const struct wi_algo *a, enum wi_coll coll)
{
    int is_coded = a->coll == coll && a->needs & WI_ALGO_CODED && coll != WI_COLL_ALL_TO_ALL;

    return is_coded || is_two_sided(a, coll);
}

/* Every algorithm of coll, and what is done inside by every pair that exists. */
static void each_inner(enum wi_coll coll, const char *outer, int leader, const struct map *m)
{
    const struct wi_hier_shape *shape = wi_hier_shape_of(wi_algo_family(coll));
    enum wi_coll up = leader ? shape->up_leader : shape->up, down = leader ? shape->down_leader : shape->down;
    char spec[128];

    for (size_t i = 0; wi_algos[i]; i++) {
        if (up != WI_HIER_NONE && !is_two_sided(wi_algos[i], up))
            continue;
        for (size_t k = 0; wi_algos[k]; k++) {
            if (down != WI_HIER_NONE && !is_two_sided(wi_algos[k], down))
                continue;
            if (up == WI_HIER_NONE || down == WI_HIER_NONE)
                snprintf(spec, sizeof spec, "node:%s%s/%s", outer, leader ? "@leader" : "",
                         up != WI_HIER_NONE ? wi_algos[i]->name : wi_algos[k]->name);
            else
                snprintf(spec, sizeof spec, "node:%s%s/%s+%s", outer, leader ? "@leader" : "", wi_algos[i]->name,
                         wi_algos[k]->name);
            if (!leader && wi_algo_family(coll) == WI_COLL_ALL_TO_ALL && strstr(spec, "bruck"))
                continue;
            check_spec(coll, spec, m, 0);
            if (down == WI_HIER_NONE)
                break;
        }
        if (up == WI_HIER_NONE)
            break;
    }
}

static void combine(enum wi_coll coll)
{
    unsigned before = CU_get_number_of_failure_records();

    make_maps();
    for (int m = 0; m < 9; m++) {
        for (size_t i = 0; wi_algos[i] && CU_get_number_of_failure_records() < before + 4; i++) {
            for (int leader = 0; leader < 2 && is_outer(wi_algos[i], coll); leader++) {
                if (wi_algo_family(coll) == WI_COLL_ALL_TO_ALL && strcmp(wi_algos[i]->name, "bruck") == 0)
                    continue;
                each_inner(coll, wi_algos[i]->name, leader, &maps[m]);
            }
        }
    }
}

#define COMBINE(stem, COLL)                  \
    static void combinations_of_##stem(void) \
    {                                        \
        combine(WI_COLL_##COLL);             \
    }
COMBINE(all_reduce, ALL_REDUCE)
COMBINE(reduce, REDUCE)
COMBINE(broadcast, BROADCAST)
COMBINE(all_gather, ALL_GATHER)
COMBINE(reduce_scatter, REDUCE_SCATTER)
COMBINE(all_to_all, ALL_TO_ALL)
COMBINE(all_to_all_v, ALL_TO_ALL_V)
COMBINE(barrier, BARRIER)

static const struct {
    enum wi_coll coll;
    const char *outer, *between;
} usual[] = {
    {WI_COLL_ALL_REDUCE, "ring", "rdouble"},     {WI_COLL_ALL_REDUCE, "rhalving", "linear"},
    {WI_COLL_REDUCE, "chain", "linear"},         {WI_COLL_BROADCAST, "scatter_ring", "knomial"},
    {WI_COLL_ALL_GATHER, "ring", "rdouble"},     {WI_COLL_REDUCE_SCATTER, "ring", "rhalving"},
    {WI_COLL_ALL_TO_ALL, "pairwise", "linear"},  {WI_COLL_BARRIER, "dissem", "dissem"},
    {WI_COLL_ALL_REDUCE, "flat_send", "linear"}, {WI_COLL_ALL_TO_ALL_V, "pairwise", "linear"},
    {WI_COLL_ALL_REDUCE, "coded", "rdouble"},    {WI_COLL_ALL_REDUCE, "coded2", "linear"},
    {WI_COLL_ALL_GATHER, "coded", "linear"},     {WI_COLL_REDUCE_SCATTER, "coded", "linear"},
};

static void every_root_and_chunks(void)
{
    char spec[128];

    make_maps();
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        for (int m = 0; m < NMAPS; m++) {
            for (int leader = 0; leader < 2; leader++) {
                snprintf(spec, sizeof spec, "node:%s%s*3", usual[i].outer, leader ? "@leader" : "");
                check_spec(usual[i].coll, spec, &maps[m], maps[m].nranks <= 8);
            }
        }
    }
}

static void two_levels(void)
{
    char spec[128];

    make_maps();
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        for (int m = 0; m < NMAPS; m++) {
            for (int leaders = 0; leaders < 4; leaders++) {
                snprintf(spec, sizeof spec, "rack:%s%s*2/node:%s%s", usual[i].outer, leaders & 1 ? "@leader" : "",
                         usual[i].between, leaders & 2 ? "@leader" : "");
                check_spec(usual[i].coll, spec, &maps[m], 0);
            }
        }
    }
}

/* Groups so uneven that some rank sends nothing of a message: what comes behind it in its lane still comes behind what it waited
 * for. */
static void empty_messages_keep_their_order(void)
{
    make_maps();
    check_spec(WI_COLL_REDUCE_SCATTER, "node:pat/linear", &maps[9], 0);
    check_spec(WI_COLL_REDUCE_SCATTER, "node:pat/linear", &maps[10], 0);
}

/* ---- Specs ---- */
static void wrong_specs_are_named(void)
{
    static const struct {
        enum wi_coll coll;
        const char *spec, *said;
    } wrong[] = {
        {WI_COLL_ALL_REDUCE, "node:rng", "did you mean \"ring\""},
        {WI_COLL_ALL_REDUCE, "nod:ring", "did you mean \"node\""},
        {WI_COLL_ALL_REDUCE, "node:ring/brock", "no algorithm \"brock\""},
        {WI_COLL_ALL_REDUCE, "node:ring/ring+brock", "no algorithm \"brock\""},
        {WI_COLL_ALL_REDUCE, "node:ring/coded", "reduce_scatter coded sends images, which only the outermost level"},
        {WI_COLL_ALL_REDUCE, "rack:coded2/node:ring/linear+coded", "all_gather coded sends images, which only the out"},
        {WI_COLL_ALL_REDUCE, "rack:ring/node:coded", "which only the outermost level of a hierarchy may"},
        {WI_COLL_ALL_REDUCE, "node:coded3", "did you mean \"coded\""},
        {WI_COLL_ALL_TO_ALL, "node:coded", "by levels all_to_all forwards plain data"},
        {WI_COLL_ALL_TO_ALL_V, "node:coded", "by levels all_to_all forwards plain data"},
        {WI_COLL_ALL_REDUCE, "node:flat", "flat goes through shared slots"},
        {WI_COLL_ALL_REDUCE, "node:ring/flat+ring", "flat goes through shared slots"},
        {WI_COLL_ALL_REDUCE, "node:ring/ring+flat", "flat goes through shared slots"},
        {WI_COLL_ALL_REDUCE, "node:ring/flat+brock", "no algorithm \"brock\""},
        {WI_COLL_ALL_REDUCE, "node:ring/direct", "cannot be part of a hierarchy"},
        {WI_COLL_ALL_REDUCE, "rack:ring/node:flat/flat", "flat goes through shared slots"},
        {WI_COLL_ALL_REDUCE, "node:ring@first", "\"@first\""},
        {WI_COLL_ALL_REDUCE, "node:ring*0", "number of chunks"},
        {WI_COLL_ALL_REDUCE, "node:ring*65", "number of chunks"},
        {WI_COLL_ALL_REDUCE, "node:ring*99999999999999999999", "number of chunks"},
        {WI_COLL_ALL_REDUCE, "node:ring/", "does not begin with"},
        {WI_COLL_ALL_REDUCE, ":ring", "does not begin with"},
        {WI_COLL_ALL_REDUCE, "node:", "does not begin with"},
        {WI_COLL_ALL_REDUCE, "node:ring ring", "must follow"},
        {WI_COLL_ALL_REDUCE, "node:ring/linear/linear", "nothing may follow"},
        {WI_COLL_ALL_REDUCE, "rack:ring/node:ring*2/linear", "number of chunks"},
        {WI_COLL_ALL_REDUCE, "a:b/a:b/a:b/a:b/a:b/a:b/a:b/a:b/a:b", "more than 8 levels"},
        {WI_COLL_ALL_REDUCE, "node:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "characters"},
        {WI_COLL_SCAN, "node:linear", "no hierarchical"},
    };
    struct wi_algo_choice choice;

    make_maps();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wi_fail_clear();
        weft_status st = wi_algo_choose(wrong[i].coll, wrong[i].spec, &maps[0].levels, maps[0].nranks, &choice);
        if (st >= 0 || !strstr(wi_fail_text(), wrong[i].said))
            complain(wrong[i].spec, wrong[i].coll, &maps[0], 0, 0);
    }
}

/* What its words mean is found when it is read; the number of chunks is no part of its text. */
static void specs_are_read_once(void)
{
    struct wi_hier_spec s, other;
    char text[WI_ALGO_SPEC_BYTES];

    make_maps();
    CU_ASSERT_EQUAL_FATAL(
        wi_hier_parse(WI_COLL_ALL_REDUCE, "rack:rdouble@leader*4/node:rsgather/ring+rdouble", &maps[9].levels, &s),
        WEFT_SUCCESS);
    CU_ASSERT(s.nlevels == 2 && s.nchunks == 4);
    CU_ASSERT(s.at[0].has_leader && !s.at[1].has_leader);
    CU_ASSERT_STRING_EQUAL(maps[9].levels.level[s.at[0].level].name, "rack");
    CU_ASSERT_STRING_EQUAL(maps[9].levels.level[s.at[1].level].name, "node");
    CU_ASSERT_PTR_EQUAL(s.up[0], wi_algo_find(WI_COLL_ALL_REDUCE, "rdouble"));
    CU_ASSERT_PTR_NULL(s.down[0]);
    CU_ASSERT_PTR_EQUAL(s.up[1], wi_algo_find(WI_COLL_REDUCE, "rsgather"));
    CU_ASSERT_PTR_EQUAL(s.down[1], wi_algo_find(WI_COLL_BROADCAST, "knomial")); /* the default */
    CU_ASSERT_PTR_EQUAL(s.up[2], wi_algo_find(WI_COLL_REDUCE_SCATTER, "ring"));
    CU_ASSERT_PTR_EQUAL(s.down[2], wi_algo_find(WI_COLL_ALL_GATHER, "rdouble"));
    CU_ASSERT_STRING_EQUAL(s.text, "rack:rdouble@leader/node:rsgather/ring+rdouble");
    CU_ASSERT_STRING_EQUAL(wi_algo_text(NULL, &s, text), "rack:rdouble@leader*4/node:rsgather/ring+rdouble");
    other = s;
    CU_ASSERT(wi_hier_same(&s, &other));
    wi_hier_cut(&other, 16);
    CU_ASSERT_STRING_EQUAL(wi_algo_text(NULL, &other, text), "rack:rdouble@leader*16/node:rsgather/ring+rdouble");
    CU_ASSERT(!wi_hier_same(&s, &other));
    memset(other.text, 'x', 61);
    other.text[61] = '\0';
    wi_hier_cut(&other, 8);
    CU_ASSERT_EQUAL(other.nchunks, 8);
    wi_hier_cut(&other, 16);
    CU_ASSERT_EQUAL(other.nchunks, 8); /* the text has no room for it */
}

/* Read with some levels, built with others. */
static void refuses_at_building(enum wi_coll coll, const char *text, const struct wi_algo_levels *read_with,
                                const struct wi_algo_levels *levels, const char *said)
{
    struct wi_hier_spec spec;
    struct wi_algo_args args = {.nranks = maps[0].nranks, .levels = levels, .spec = text ? &spec : NULL};
    struct wi_sched *sched = NULL;

    if (text)
        CU_ASSERT_EQUAL_FATAL(wi_hier_parse(coll, text, read_with, &spec), WEFT_SUCCESS);
    wi_fail_clear();
    if (wi_algo_hier(coll)->build(&args, &sched) >= 0 || !strstr(wi_fail_text(), said))
        complain(text, coll, &maps[0], 0, 0);
    wi_sched_put(sched);
}

/* Innermost, names may be of algorithms through slots: both directions then, and no schedule of one piece is made of it. */
static void mapped_innermost_is_a_chain(void)
{
    static const struct {
        enum wi_coll coll;
        const char *spec, *up, *down;
    } rows[] = {{WI_COLL_ALL_REDUCE, "node:ring/flat", "flat", "flat"},
                {WI_COLL_ALL_REDUCE, "node:ring@leader/flat2", "flat2", "flat"},
                {WI_COLL_ALL_REDUCE, "node:ring@leader*4/flat2+flat", "flat2", "flat"},
                {WI_COLL_ALL_REDUCE, "rack:ring/node:ring/flat", "flat", "flat"},
                {WI_COLL_REDUCE, "node:knomial@leader/flat2", "flat2", NULL},
                {WI_COLL_BROADCAST, "node:knomial@leader/flat", NULL, "flat"},
                {WI_COLL_ALL_GATHER, "node:ring/flat", NULL, "flat"},
                {WI_COLL_REDUCE_SCATTER, "node:ring/flat", "flat", NULL}};
    struct wi_algo_choice c;

    make_maps();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CU_ASSERT_EQUAL_FATAL(wi_algo_choose(rows[i].coll, rows[i].spec, &maps[9].levels, maps[9].nranks, &c), 0);
        const struct wi_algo *up = c.spec.up[c.spec.nlevels], *down = c.spec.down[c.spec.nlevels];
        CU_ASSERT(c.spec.mapped && c.needs & WI_ALGO_GROUP_MAPPED);
        CU_ASSERT(up ? rows[i].up && strcmp(up->name, rows[i].up) == 0 && up->needs == WI_ALGO_MAPPED : !rows[i].up);
        CU_ASSERT(down ? rows[i].down && strcmp(down->name, rows[i].down) == 0 : !rows[i].down);
    }
    CU_ASSERT_EQUAL(wi_algo_choose(WI_COLL_ALL_REDUCE, "node:ring/ring", &maps[9].levels, maps[9].nranks, &c), 0);
    CU_ASSERT(!c.spec.mapped && !(c.needs & WI_ALGO_GROUP_MAPPED));
}

static int is_slots(const struct wi_algo *a, enum wi_coll coll)
{
    return a->coll == coll && (a->needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) == WI_ALGO_MAPPED;
}

static void stages_with(enum wi_coll coll, const char *outer, int leader, const struct map *m)
{
    const struct wi_hier_shape *shape = wi_hier_shape_of(coll);
    enum wi_coll colls[2] = {leader ? shape->up_leader : shape->up, leader ? shape->down_leader : shape->down};
    char spec[64];

    for (size_t i = 0; wi_algos[i]; i++) {
        if ((colls[0] == WI_HIER_NONE || !is_slots(wi_algos[i], colls[0])) &&
            (colls[1] == WI_HIER_NONE || !is_slots(wi_algos[i], colls[1])))
            continue;
        snprintf(spec, sizeof spec, "node:%s%s/%s", outer, leader ? "@leader" : "", wi_algos[i]->name);
        check_spec(coll, spec, m, 0);
        snprintf(spec, sizeof spec, "rack:%s/node:linear%s/%s", outer, leader ? "@leader" : "", wi_algos[i]->name);
        if (coll != WI_COLL_BROADCAST && coll != WI_COLL_BARRIER)
            check_spec(coll, spec, m, 0);
    }
}

static void stages_are_proved(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_REDUCE,         WI_COLL_BROADCAST,
                                         WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER, WI_COLL_BARRIER};
    unsigned before = CU_get_number_of_failure_records();

    make_maps();
    stages_checked = 0;
    for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
        for (int m = 0; m < NMAPS - 1; m++)
            for (size_t i = 0; wi_algos[i] && CU_get_number_of_failure_records() < before + 4; i++)
                for (int leader = 0; leader < 2 && is_outer(wi_algos[i], colls[c]); leader++)
                    stages_with(colls[c], wi_algos[i]->name, leader, &maps[m]);
    printf("# %lu stages\n", stages_checked);
    CU_ASSERT(stages_checked > 10000);
}

static void stages_that_cannot_be_are_named(void)
{
    static const struct {
        enum wi_coll coll;
        const char *spec, *said;
    } rows[] = {
        {WI_COLL_ALL_REDUCE, "node:ring/direct", "cannot be part of a hierarchy"},
        {WI_COLL_ALL_TO_ALL, "node:pairwise/flat", "over messages only"},
        {WI_COLL_ALL_REDUCE, "node:ring/flat2", "for reduce_scatter there are flat, ring, "},
        {WI_COLL_ALL_REDUCE, "node:ring/flat2", "is reduce, which has it: \"node:ring@leader/flat2\""},
        {WI_COLL_ALL_REDUCE, "node:ring@leader/neighbor", "is all_gather, which has it: \"node:ring/neighbor\""},
        {WI_COLL_ALL_REDUCE, "node:ring/rnig", "did you mean \"ring\"?"},
        {WI_COLL_ALL_REDUCE, "node:ring/flat/flat", "nothing may follow"}};
    struct wi_algo_choice c;

    make_maps();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wi_fail_clear();
        CU_ASSERT(wi_algo_choose(rows[i].coll, rows[i].spec, &maps[0].levels, maps[0].nranks, &c) < 0);
        if (!strstr(wi_fail_text(), rows[i].said))
            complain(rows[i].spec, rows[i].coll, &maps[0], 0, 0);
    }
}

static void wrong_levels_are_named(void)
{
    struct wi_algo_levels swapped;

    make_maps();
    swapped = maps[9].levels;
    struct wi_hier_spec spec;
    CU_ASSERT_EQUAL(wi_hier_parse(WI_COLL_ALL_REDUCE, "cache:ring", &maps[0].levels, &spec), WEFT_ENOTFOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "no level \"cache\""));
    const struct wi_algo_levels *levels = &maps[0].levels;
    struct wi_algo_levels fewer = {.nlevels = 1, .level = {levels->level[0]}};
    refuses_at_building(WI_COLL_ALL_REDUCE, "node:ring/rack:ring", levels, levels, "not inside");
    refuses_at_building(WI_COLL_ALL_REDUCE, "node:ring", levels, NULL, "was read with other levels");
    refuses_at_building(WI_COLL_ALL_REDUCE, "node:ring", levels, &fewer, "was read with other levels");
    refuses_at_building(WI_COLL_ALL_REDUCE, "node:ring", NULL, levels, "was read with other levels");
    refuses_at_building(WI_COLL_ALL_REDUCE, NULL, NULL, levels, "needs a spec");
    refuses_at_building(WI_COLL_ALL_TO_ALL_V, "node:bruck", levels, levels, "needs equal shares");
    swapped.level[0] = maps[9].levels.level[1];
    swapped.level[0].name = "rack";
    swapped.level[1] = maps[9].levels.level[0];
    swapped.level[1].name = "node";
    refuses_at_building(WI_COLL_ALL_REDUCE, "rack:ring/node:ring", &swapped, &swapped, "does not lie within");
}

static void wrong_numbers_are_refused_early(void)
{
    static const struct {
        const char *spec, *text;
    } rows[] = {{"node:ring/ring+neighbor", "all_gather neighbor needs an even number of ranks, not 3 as inside"},
                {"node:ring/bine+ring", "reduce_scatter bine needs a power of two of ranks, not 3 as inside"}};
    struct wi_algo_choice c;

    make_maps();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CU_ASSERT_EQUAL(wi_algo_choose(WI_COLL_ALL_REDUCE, rows[i].spec, &maps[0].levels, 8, &c), WEFT_ENOTSUP);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), rows[i].text));
        CU_ASSERT_EQUAL(wi_algo_choose(WI_COLL_ALL_REDUCE, rows[i].spec, &maps[4].levels, 8, &c), WEFT_SUCCESS);
    }
    CU_ASSERT_EQUAL(wi_algo_choose(WI_COLL_ALL_GATHER, "node:bine", &maps[0].levels, 8, &c), WEFT_ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "not 3 as groups of level"));
}

/* Among so many PAT saves scratch, which composition cannot follow. */
static void compact_scratch_is_refused(void)
{
    static int32_t node[260];
    struct wi_algo_levels levels = {.nlevels = 1, .level = {{"node", 130, node}}};
    struct wi_hier_spec spec;
    struct wi_algo_args args = {.nranks = 260, .levels = &levels, .spec = &spec};
    struct wi_sched *sched = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_hier_parse(WI_COLL_ALL_GATHER, "node:pat", &levels, &spec), WEFT_SUCCESS);

    for (int r = 0; r < 260; r++)
        node[r] = r % 130;
    CU_ASSERT_EQUAL(wi_algo_hier(WI_COLL_ALL_GATHER)->build(&args, &sched), WEFT_ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "pat among 130 ranks cannot be part of a hierarchy"));
    wi_sched_put(sched);
}

static void chunks_go_by_size(void)
{
    char text[WI_ALGO_SPEC_BYTES];
    struct wi_algo_choice c;

    make_maps();
    CU_ASSERT_EQUAL_FATAL(wi_algo_choose(WI_COLL_ALL_REDUCE, "node:ring/linear", &maps[0].levels, 8, &c), WEFT_SUCCESS);
    wi_algo_choice_for(&c, 1e6);
    CU_ASSERT_STRING_EQUAL(wi_algo_text(c.algo, &c.spec, text), "node:ring*4/linear");
    wi_algo_choice_for(&c, 8);
    CU_ASSERT_STRING_EQUAL(wi_algo_text(c.algo, &c.spec, text), "node:ring*4/linear");
}

/* Bytes that stage 0 is said to send are those that cross between nodes in the schedules, from the node that sends most. */
static void cost_of_the_link_is_right(void)
{
    static const char *const specs[] = {"node:ring", "node:rhalving", "node:ring@leader", "node:rdouble*4"};
    struct wi_sched *scheds[MAX_RANKS];
    struct wi_algo_level_cost cost;
    struct wi_algo_choice c;
    double bytes = 840 * 1024;

    make_maps();
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int m = 0; m < 5; m++) {
            double crossed[MAX_RANKS] = {0}, most = 0;
            struct wi_algo_args args = {.nranks = maps[m].nranks, .levels = &maps[m].levels, .spec = &c.spec};
            CU_ASSERT_EQUAL_FATAL(wi_algo_choose(WI_COLL_ALL_REDUCE, specs[i], &maps[m].levels, maps[m].nranks, &c), 0);
            CU_ASSERT_EQUAL_FATAL(wi_algo_level_cost(&args, WI_COLL_ALL_REDUCE, bytes, &cost), WEFT_SUCCESS);
            CU_ASSERT_EQUAL_FATAL(build_all(&c, &maps[m], 0, 0, scheds), 1);
            for (int r = 0; r < maps[m].nranks; r++) {
                const struct wi_sched *s = scheds[r];
                for (uint32_t l = 0; l < s->nlanes; l++) {
                    for (uint32_t k = 0; k < s->lanes[l].nsteps; k++) {
                        const struct wi_step *step = &s->steps[s->lanes[l].first_step + k];
                        int sends = step->kind == WI_STEP_SEND || step->kind == WI_STEP_RECV_SEND ||
                                    step->kind == WI_STEP_RECV_REDUCE_SEND;
                        if (sends && maps[m].node[r] != maps[m].node[s->lanes[l].send_peer])
                            crossed[maps[m].node[r]] +=
                                s->regions[step->ndst ? step->dst : step->src].count * bytes / s->nblocks;
                    }
                }
            }
            for (int k = 0; k < MAX_RANKS; k++)
                most = crossed[k] > most ? crossed[k] : most;
            if (fabs(cost.stage[0].link_sent - most) > 0.05 * most) {
                wi_fail(WEFT_EINVAL, "cost says %g bytes cross, the schedules send %g", cost.stage[0].link_sent, most);
                complain(specs[i], WI_COLL_ALL_REDUCE, &maps[m], 0, 0);
            }
            put_all(scheds, maps[m].nranks);
        }
    }
}

static int crossings(const struct wi_sched *s, const struct map *m, int node)
{
    int n = 0;

    for (uint32_t l = 0; l < s->nlanes; l++)
        for (uint32_t k = 0; k < s->lanes[l].nsteps; k++)
            n += s->steps[s->lanes[l].first_step + k].kind == WI_STEP_SEND && m->node[s->lanes[l].send_peer] == node;
    return n;
}

/* One message from each rank to each other node, or, with leaders, from each node; none of them goes in pieces. */
static void packed_messages_cross_once(void)
{
    static const char *const specs[] = {"node:pairwise", "node:linear", "node:linear@leader/knomial+linear"};
    struct wi_sched *scheds[MAX_RANKS];
    struct wi_algo_choice c;

    make_maps();
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int m = 0; m < 9; m++) {
            int leaders = strstr(specs[i], "@leader") != NULL, from[MAX_RANKS][MAX_RANKS] = {{0}}, nnodes = 0;
            CU_ASSERT_EQUAL_FATAL(wi_algo_choose(WI_COLL_ALL_TO_ALL_V, specs[i], &maps[m].levels, maps[m].nranks, &c),
                                  0);
            CU_ASSERT_EQUAL_FATAL(build_all(&c, &maps[m], 0, 0, scheds), 1);
            nnodes = maps[m].levels.level[1].ngroups;
            for (int r = 0; r < maps[m].nranks; r++) {
                for (int node = 0; node < nnodes; node++) {
                    int n = node == maps[m].node[r] ? 0 : crossings(scheds[r], &maps[m], node);
                    CU_ASSERT(n <= 1 && (leaders || n == (node != maps[m].node[r])));
                    from[maps[m].node[r]][node] += n;
                }
            }
            for (int a = 0; a < nnodes; a++)
                for (int b = 0; b < nnodes && leaders; b++)
                    CU_ASSERT_EQUAL(from[a][b], a != b);
            put_all(scheds, maps[m].nranks);
        }
    }
}

static void no_memory_is_reported(void)
{
    make_maps();
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "node:%s", usual[i].outer);
        struct wi_hier_spec read;
        struct wi_algo_args args = {.rank = 4, .nranks = 8, .levels = &maps[1].levels, .spec = &read};
        CU_ASSERT_EQUAL_FATAL(wi_hier_parse(usual[i].coll, spec, &maps[1].levels, &read), WEFT_SUCCESS);
        weft_status st = WEFT_ENOMEM;
        long nth = 0;
        while (st != WEFT_SUCCESS && ++nth < 3000) {
            struct wi_sched *sched = NULL;
            wi_alloc_fail_nth(nth);
            st = wi_algo_hier(usual[i].coll)->build(&args, &sched);
            wi_alloc_fail_nth(0);
            CU_ASSERT(st == WEFT_SUCCESS ? sched != NULL : st == WEFT_ENOMEM && !sched);
            wi_sched_put(sched);
        }
        CU_ASSERT(nth > 1 && nth < 3000);
    }
}

static const struct wt_case cases[] = {
    {"combinations of all_reduce", combinations_of_all_reduce},
    {"combinations of reduce", combinations_of_reduce},
    {"combinations of broadcast", combinations_of_broadcast},
    {"combinations of all_gather", combinations_of_all_gather},
    {"combinations of reduce_scatter", combinations_of_reduce_scatter},
    {"combinations of all_to_all", combinations_of_all_to_all},
    {"combinations of all_to_all_v", combinations_of_all_to_all_v},
    {"combinations of barrier", combinations_of_barrier},
    {"every root, and chunks", every_root_and_chunks},
    {"two levels", two_levels},
    {"empty messages keep their order", empty_messages_keep_their_order},
    {"specs are read once", specs_are_read_once},
    {"mapped innermost is a chain", mapped_innermost_is_a_chain},
    {"stages are proved", stages_are_proved},
    {"stages that cannot be are named", stages_that_cannot_be_are_named},
    {"wrong specs are named", wrong_specs_are_named},
    {"wrong levels are named", wrong_levels_are_named},
    {"wrong numbers are refused early", wrong_numbers_are_refused_early},
    {"compact scratch is refused", compact_scratch_is_refused},
    {"chunks go by size", chunks_go_by_size},
    {"cost of the link is right", cost_of_the_link_is_right},
    {"packed messages cross once", packed_messages_cross_once},
    {"no memory is reported", no_memory_is_reported},
};
WT_UNIT_MAIN("hier", cases)
