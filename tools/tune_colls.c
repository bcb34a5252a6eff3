/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: every algorithm of the collectives at every size.
 *
 * An algorithm is measured as programs get it: by a communicator of its own whose WEFT_ALGO names it, with blocking calls.
 * Whatever else the machine does comes in bursts: algorithms take turns, whose median counts, and all sizes of a collective are
 * gone through several times, of which the best counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_tune.h"

#define TURNS 3
#define PASSES 3
#define MAX_CALLS 2000
#define MAPPED_LEAST (192u << 10) /* below, the library does not look at the kind of memory */

struct subject {
    char name[WI_ALGO_SPEC_BYTES];
    unsigned needs;
    weft_context *ctx;
    weft_comm *comm;
    int alive;
    double turn_us[TURNS];
};

/* What was found for a subject at a size. */
struct found {
    int calls; /* of a turn; 0: not measured */
    double us;
};

struct bench {
    struct tune *t;
    enum wi_coll coll;
    int shared; /* buffers from weft_mem_alloc: of this subject's context */
    size_t bytes, buffer_bytes;
    struct subject *subjects;
    int n;
    int pass;
    struct found *found; /* of the point */
};

int tune_is_vector(enum wi_coll coll)
{
    return coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_SCAN ||
           coll == WI_COLL_EXSCAN;
}

/* What the planner is asked with: the vector, or one rank's share of the size. Whole doubles. */
static size_t plan_bytes(const struct tune *t, enum wi_coll coll, size_t size)
{
    size_t n = tune_is_vector(coll) ? size : size / (size_t)t->nranks;

    if (coll == WI_COLL_BARRIER)
        return 0;
    return n < 8 ? 8 : n & ~(size_t)7;
}

static int sizes_of(const struct tune *t, enum wi_coll coll)
{
    return coll == WI_COLL_BARRIER ? 1 : t->o.nsizes;
}

static int repeats(const struct tune *t, enum wi_coll coll, int i)
{
    return i && plan_bytes(t, coll, t->o.sizes[i]) == plan_bytes(t, coll, t->o.sizes[i - 1]);
}

static int shared_wanted(const struct tune *t, size_t bytes, int shared)
{
    if (shared)
        return t->o.memory != TUNE_PRIVATE && t->nnodes == 1 && bytes >= MAPPED_LEAST;
    return t->o.memory != TUNE_MAPPED;
}

int tune_count(const struct tune *t)
{
    int n = 0;

    for (int c = 0; c < WI_NUM_COLLS; c++)
        for (int i = 0; t->o.colls[c] && i < sizes_of(t, (enum wi_coll)c); i++)
            for (int shared = 0; shared < 2 && !repeats(t, (enum wi_coll)c, i); shared++)
                n += PASSES * shared_wanted(t, plan_bytes(t, (enum wi_coll)c, t->o.sizes[i]), shared);
    return n;
}

/* ---- One call ---- */

static weft_status call(const struct bench *b, weft_comm *comm, const void *src, void *dst)
{
    size_t n = b->bytes / sizeof(double);

    switch (b->coll) {
    case WI_COLL_ALL_REDUCE:
        return weft_all_reduce(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_REDUCE:
        return weft_reduce(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, 0, NULL);
    case WI_COLL_BROADCAST:
        return weft_broadcast(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_ALL_GATHER:
        return weft_all_gather(comm, src, dst, n, WEFT_FLOAT64, NULL);
    case WI_COLL_REDUCE_SCATTER:
        return weft_reduce_scatter(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_ALL_TO_ALL:
        return weft_all_to_all(comm, src, dst, n, WEFT_FLOAT64, NULL);
    case WI_COLL_GATHER:
        return weft_gather(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_SCATTER:
        return weft_scatter(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_SCAN:
        return weft_scan(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_EXSCAN:
        return weft_exscan(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    default:
        return weft_barrier(comm, NULL);
    }
}

/* ---- Subjects ---- */

static int gather_for(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    const struct tune *t = arg;

    (void)timeout_ns;
    return weft_all_gather(t->comm, mine, all, bytes, WEFT_UINT8, NULL) != WEFT_SUCCESS;
}

/* A communicator of the same ranks whose choice is made. */
static weft_status open_subject(struct tune *t, enum wi_coll coll, struct subject *s)
{
    char rule[128];
    const char *settings[] = {rule, NULL};
    weft_context_config cc = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, t->rank, t->nranks, gather_for, t};

    snprintf(rule, sizeof rule, "WEFT_ALGO=%s:%s", wi_coll_name(coll), s->name);
    cc.flags = WEFT_CONTEXT_NO_PROGRESS_THREAD;
    cc.settings = settings;
    WI_TRY(weft_context_create(&cc, &s->ctx));
    WI_TRY(weft_comm_create_oob(s->ctx, &oob, NULL, &s->comm));
    s->alive = 1;
    return WEFT_SUCCESS;
}

static void close_subjects(struct bench *b)
{
    for (int i = 0; i < b->n; i++) {
        weft_comm_destroy(b->subjects[i].comm);
        weft_context_destroy(b->subjects[i].ctx);
    }
}

static void name_of(const struct wi_plan_candidate *c, char name[WI_ALGO_SPEC_BYTES])
{
    const char *star = strchr(c->choice.spec, '*');

    if (!c->choice.spec[0])
        snprintf(name, WI_ALGO_SPEC_BYTES, "%s", c->choice.algo->name);
    else if (!star)
        snprintf(name, WI_ALGO_SPEC_BYTES, "%s", c->choice.spec);
    else
        snprintf(name, WI_ALGO_SPEC_BYTES, "%.*s%s", (int)(star - c->choice.spec), c->choice.spec,
                 star + 1 + strspn(star + 1, "0123456789"));
}

/* All that could ever be chosen for this collective. Every rank opens the same ones in the same order. */
static weft_status open_subjects(struct bench *b)
{
    struct wi_plan_query q = {.coll = b->coll, .bytes = 1u << 20, .memory = WI_MEMORY_MAPPED};
    struct wi_plan_candidate *list;
    weft_status st = WEFT_SUCCESS;
    int n;

    WI_TRY(wi_plan_candidates(b->t->planner, &q, &list, &n));
    for (int i = 0; i < n && b->n < TUNE_MAX_ALGOS && st >= 0; i++) {
        struct subject *s = &b->subjects[b->n];
        if (list[i].why_not)
            continue;
        name_of(&list[i], s->name);
        s->needs = list[i].choice.needs;
        b->n++;
        st = open_subject(b->t, b->coll, s);
    }
    wi_free(list);
    return st;
}

/* ---- Timing ---- */

static weft_status timed(struct bench *b, struct subject *s, const void *src, void *dst, int calls, double *us)
{
    double begin;

    WI_TRY(weft_barrier(b->t->comm, NULL));
    begin = tune_now_us();
    for (int i = 0; i < calls; i++)
        WI_TRY(call(b, s->comm, src, dst));
    *us = (tune_now_us() - begin) / calls;
    return tune_max(b->t, us);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Can it do this at all? The library says so where the planner's facts do not know; all ranks hear the same. */
static weft_status probe(struct bench *b, struct subject *s, const void *src, void *dst, int *able)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_status st;
    double refused;

    options.algorithm = s->name;
    WI_TRY(weft_comm_next_call(s->comm, &options));
    st = call(b, s->comm, src, dst);
    refused = st == WEFT_ENOTSUP;
    if (st < 0 && !refused)
        return st;
    WI_TRY(tune_max(b->t, &refused));
    *able = refused == 0;
    if (refused != 0)
        s->alive = 0; /* whatever became of its communicator */
    return WEFT_SUCCESS;
}

struct buffers {
    void *src, *dst;
};

static weft_status get_buffers(const struct bench *b, const struct subject *s, struct buffers *m)
{
    if (b->shared) {
        WI_TRY(weft_mem_alloc(s->ctx, b->buffer_bytes, &m->src));
        WI_TRY(weft_mem_alloc(s->ctx, b->buffer_bytes, &m->dst));
    } else {
        m->src = aligned_alloc(64, b->buffer_bytes);
        m->dst = aligned_alloc(64, b->buffer_bytes);
        if (!m->src || !m->dst)
            return WEFT_ENOMEM;
    }
    memset(m->src, 0, b->buffer_bytes);
    memset(m->dst, 0, b->buffer_bytes);
    return WEFT_SUCCESS;
}

static void put_buffers(const struct bench *b, const struct subject *s, struct buffers *m)
{
    if (b->shared) {
        weft_mem_free(s->ctx, m->src);
        weft_mem_free(s->ctx, m->dst);
    } else {
        free(m->src);
        free(m->dst);
    }
}

static struct found *found_of(const struct bench *b, const struct subject *s)
{
    return &b->found[s - b->subjects];
}

/* How many calls make a turn; the first pass finds out. */
static weft_status prepare(struct bench *b, struct subject *s, const struct buffers *m)
{
    struct found *f = found_of(b, s);
    double us, want;

    WI_TRY(timed(b, s, m->src, m->dst, f->calls ? 1 : 2, &us));
    if (f->calls)
        return WEFT_SUCCESS;
    WI_TRY(timed(b, s, m->src, m->dst, 2, &us));
    want = b->t->o.point_ms * 1e3 / (TURNS * PASSES) / fmax(us, 0.05);
    f->calls = want < 1 ? 1 : want > MAX_CALLS ? MAX_CALLS : (int)want;
    f->us = INFINITY;
    return WEFT_SUCCESS;
}

/* Shared buffers belong to the subject's context, so each has its own; private ones serve all. */
static weft_status turns(struct bench *b, struct subject *const list[], struct buffers *m, int n)
{
    for (int i = 0; i < n; i++)
        WI_TRY(prepare(b, list[i], b->shared ? &m[i] : m));
    for (int k = 0; k < TURNS; k++) {
        for (int i = 0; i < n; i++) {
            struct buffers *at = b->shared ? &m[i] : m;
            WI_TRY(timed(b, list[i], at->src, at->dst, found_of(b, list[i])->calls, &list[i]->turn_us[k]));
        }
    }
    for (int i = 0; i < n; i++) {
        qsort(list[i]->turn_us, TURNS, sizeof(double), by_value);
        found_of(b, list[i])->us = fmin(found_of(b, list[i])->us, list[i]->turn_us[TURNS / 2]);
    }
    return WEFT_SUCCESS;
}

/* ---- Points ---- */

static double predicted(const struct bench *b, const char *name)
{
    struct wi_plan_query q = {
        .coll = b->coll, .bytes = b->bytes, .memory = b->shared ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE};
    struct wi_plan plan;

    return wi_plan(b->t->planner, &q, name, &plan) < 0 ? 0 : plan.predicted_us;
}

static weft_status store(struct bench *b)
{
    struct tune *t = b->t;

    for (int i = 0; i < b->n; i++) {
        struct wi_table_point p = {.bytes = b->bytes,
                                   .measured_us = (float)b->found[i].us,
                                   .predicted_us = (float)predicted(b, b->subjects[i].name),
                                   .section = (uint16_t)t->section,
                                   .coll = (uint8_t)b->coll,
                                   .shared = (uint8_t)b->shared};
        if (!b->found[i].calls)
            continue;
        WI_TRY(wi_plan_table_point(t->table, &p, b->subjects[i].name));
        t->measured++;
    }
    return WEFT_SUCCESS;
}

/* Subjects whose point is missing. With shared buffers only those that can make use of them. */
static int missing(const struct bench *b, struct subject *list[])
{
    int n = 0;

    for (int i = 0; i < b->n; i++) {
        struct subject *s = &b->subjects[i];
        unsigned peer = s->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET);
        if (!s->alive || (b->shared ? !peer : s->needs & WI_ALGO_PEER_MEM) ||
            (!b->shared && peer && b->bytes < MAPPED_LEAST))
            continue;
        if (wi_plan_table_find(b->t->table, b->t->section, b->coll, b->bytes, b->shared, s->name) == UINT32_MAX)
            list[n++] = s;
    }
    return n;
}

static weft_status measure_point(struct bench *b)
{
    struct subject *list[TUNE_MAX_ALGOS];
    struct buffers m[TUNE_MAX_ALGOS] = {{NULL, NULL}};
    size_t whole = tune_is_vector(b->coll) ? b->bytes : b->bytes * (size_t)b->t->nranks;
    int wanted = missing(b, list), n = 0, made = 0;
    weft_status st = WEFT_SUCCESS;

    b->buffer_bytes = (whole + 63) / 64 * 64 + 64;
    for (int i = 0; i < wanted && st >= 0; i++) {
        struct subject *s = list[i];
        int able = 0;
        if (b->shared || made == 0) {
            st = get_buffers(b, s, &m[made]);
            made++;
        }
        if (st >= 0)
            st = probe(b, s, m[made - 1].src, m[made - 1].dst, &able);
        if (st >= 0 && able)
            list[n++] = s;
        else if (b->shared)
            put_buffers(b, s, &m[--made]);
    }
    if (st >= 0)
        st = turns(b, list, m, n);
    for (int i = 0; i < made; i++)
        put_buffers(b, b->shared ? list[i] : &b->subjects[0], &m[i]);
    return st;
}

static weft_status out_of_time(struct tune *t, int *late)
{
    double mine = t->deadline_ns && tune_now_us() * 1e3 > (double)t->deadline_ns;

    WI_TRY(tune_max(t, &mine));
    *late = mine != 0;
    return WEFT_SUCCESS;
}

typedef weft_status point_fn(struct bench *b);

/* Every size with every kind of memory, as far as the first pass came before it was late. */
static weft_status each_point(struct bench *b, struct found *found, int *reached, int *late, point_fn *fn)
{
    struct tune *t = b->t;
    int point = 0;

    for (int i = 0; i < sizes_of(t, b->coll); i++) {
        b->bytes = plan_bytes(t, b->coll, t->o.sizes[i]);
        for (b->shared = 0; b->shared < 2 && !repeats(t, b->coll, i); b->shared++, point++) {
            b->found = found + (size_t)point * TUNE_MAX_ALGOS;
            if (!shared_wanted(t, b->bytes, b->shared) || (b->pass > 0 && point >= *reached))
                continue;
            if (b->pass == 0)
                WI_TRY(out_of_time(t, late));
            if (*late && b->pass == 0)
                return WEFT_SUCCESS;
            tune_progress(t, wi_coll_name(b->coll), b->bytes);
            WI_TRY(fn(b));
            if (b->pass == 0)
                *reached = point + 1;
            t->done += fn == measure_point;
        }
    }
    return WEFT_SUCCESS;
}

static weft_status measure_coll(struct bench *b, int *late)
{
    size_t npoints = 2 * (size_t)sizes_of(b->t, b->coll);
    struct found *found = calloc(npoints * TUNE_MAX_ALGOS, sizeof *found);
    weft_status st = found ? WEFT_SUCCESS : WEFT_ENOMEM;
    int reached = 0;

    for (b->pass = 0; b->pass < PASSES && st >= 0; b->pass++)
        st = each_point(b, found, &reached, late, measure_point);
    if (st >= 0)
        st = each_point(b, found, &reached, late, store);
    free(found);
    return st < 0 || b->t->rank ? st : wi_plan_table_save(b->t->table, b->t->o.output);
}

weft_status tune_measure_colls(struct tune *t)
{
    int late = 0;
    weft_status st = WEFT_SUCCESS;

    for (int c = 0; c < WI_NUM_COLLS && st >= 0 && !late; c++) {
        struct bench b = {.t = t, .coll = (enum wi_coll)c};
        if (!t->o.colls[c])
            continue;
        b.subjects = calloc(TUNE_MAX_ALGOS, sizeof *b.subjects);
        st = b.subjects ? open_subjects(&b) : WEFT_ENOMEM;
        if (st >= 0)
            st = measure_coll(&b, &late);
        if (st < 0)
            tune_fail(t, wi_coll_name(b.coll), st);
        if (b.subjects)
            close_subjects(&b);
        free(b.subjects);
    }
    if (late && t->rank == 0 && !t->o.quiet)
        fprintf(stderr, "%sweft-tune: out of time after %d of %d; the same command goes on\n", t->terminal ? "\n" : "",
                t->done, t->total);
    return st;
}
