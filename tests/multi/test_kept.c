/* Calls one after the other that differ in one thing: a length of a v-form, a place, a data type, the root. What the library keeps
 * of a call (a program with the places of its blocks, the choice of the fast path) serves calls that are like it, and no others.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { RANKS = 3, SCALE = 1700, ROOM = 64, GAP = -7 };
enum kind { GATHER_ALL, SCATTER_SUM, EXCHANGE, GATHER, SCATTER, KINDS };
static const char *const kind_names[] = {"all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v"};

/* In units of `scale` elements. Most leave rank 0's own length as it is; displs NULL: one behind the other. */
static const struct variant {
    size_t counts[RANKS];
    const size_t *displs;
    weft_dtype dtype;
    int root;
} variants[] = {
    {{3, 5, 2}, NULL, WEFT_INT32, 0},
    {{3, 5, 4}, NULL, WEFT_INT32, 0},                       /* the last one is longer: all begin where they did */
    {{3, 2, 5}, NULL, WEFT_INT32, 0},                       /* as many in all */
    {{3, 5, 2}, (const size_t[]){10, 0, 5}, WEFT_INT32, 0}, /* in another order */
    {{3, 5, 2}, (const size_t[]){0, 3, 9}, WEFT_INT32, 0},  /* only the last one elsewhere */
    {{3, 0, 2}, NULL, WEFT_INT32, 0},
    {{0, 5, 2}, NULL, WEFT_INT32, 0},
    {{3, 5, 2}, NULL, WEFT_INT64, 0},
    {{3, 5, 2}, NULL, WEFT_INT32, 1},
    {{0, 0, 0}, NULL, WEFT_INT32, 0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* What a call is given must stay as it is until it is complete. */
struct buffers {
    int64_t src[ROOM * SCALE], dst[ROOM * SCALE];
    size_t counts[RANKS], displs[RANKS], mine[RANKS], places[RANKS];
};

/* One behind the other. */
static size_t packed(const struct variant *v, int block, size_t scale)
{
    size_t at = 0;

    for (int i = 0; i < block; i++)
        at += v->counts[i];
    return at * scale;
}

static size_t place(const struct variant *v, int block, size_t scale)
{
    return v->displs ? v->displs[block] * scale : packed(v, block, scale);
}

static void put(const struct variant *v, void *buf, size_t at, int64_t value)
{
    if (v->dtype == WEFT_INT64)
        ((int64_t *)buf)[at] = value;
    else
        ((int32_t *)buf)[at] = (int32_t)value;
}

static int64_t get(const struct variant *v, const void *buf, size_t at)
{
    return v->dtype == WEFT_INT64 ? ((const int64_t *)buf)[at] : ((const int32_t *)buf)[at];
}

/* Element i of the block that `from` gives to `to`. */
static int64_t element(int from, int to, size_t i)
{
    return from * 100000000 + to * 10000000 + (int64_t)i;
}

/* Rank `rank` sends block `to` with variant's length `to`, so that all_to_all_v's lengths are the variant's, by destination. */
static void fill(const struct variant *v, enum kind kind, int rank, size_t scale, struct buffers *b)
{
    for (size_t i = 0; i < ROOM * scale; i++) {
        put(v, b->src, i, GAP);
        put(v, b->dst, i, GAP);
    }
    for (int to = 0; to < RANKS; to++) {
        int whole = kind == GATHER_ALL || kind == GATHER, spread = kind == EXCHANGE || kind == SCATTER;
        size_t at = whole ? 0 : spread ? place(v, to, scale) : packed(v, to, scale);
        for (size_t i = 0; i < v->counts[whole ? rank : to] * scale; i++)
            put(v, b->src, at + i, element(rank, whole ? 0 : to, i));
    }
}

static weft_status issue(const struct variant *v, enum kind kind, struct ft_rank *f, size_t scale, struct buffers *b,
                         weft_request **req)
{
    size_t *counts = b->counts, *apart = v->displs ? b->displs : NULL;
    int rank = f->rank;

    for (int r = 0; r < RANKS; r++) {
        counts[r] = v->counts[r] * scale;
        b->displs[r] = place(v, r, scale);
        b->mine[r] = v->counts[rank] * scale;
        b->places[r] = (size_t)(RANKS - 1 - r) * b->mine[r];
    }
    switch (kind) {
    case GATHER_ALL:
        return weft_all_gather_v(f->comm, b->src, b->dst, counts, apart, v->dtype, req);
    case SCATTER_SUM:
        return weft_reduce_scatter_v(f->comm, b->src, b->dst, counts, v->dtype, WEFT_SUM, req);
    case EXCHANGE:
        return weft_all_to_all_v(f->comm, b->src, counts, apart, b->dst, b->mine, b->places, v->dtype, req);
    case GATHER:
        return weft_gather_v(f->comm, b->src, counts[rank], b->dst, counts, apart, v->dtype, v->root, req);
    default:
        return weft_scatter_v(f->comm, b->src, counts, apart, b->dst, counts[rank], v->dtype, v->root, req);
    }
}

/* The element that belongs at `at` of the destination; GAP: none does. */
static int64_t expected(const struct variant *v, enum kind kind, int rank, size_t scale, size_t at)
{
    size_t own = v->counts[rank] * scale;

    if (kind == GATHER_ALL || (kind == GATHER && rank == v->root)) {
        for (int from = 0; from < RANKS; from++)
            if (at >= place(v, from, scale) && at - place(v, from, scale) < v->counts[from] * scale)
                return element(from, 0, at - place(v, from, scale));
        return GAP;
    }
    if (kind == EXCHANGE)
        return own && at < RANKS * own ? element(RANKS - 1 - (int)(at / own), rank, at % own) : GAP;
    if (kind == GATHER || at >= own)
        return GAP;
    return kind == SCATTER ? element(v->root, rank, at)
                           : element(0, rank, at) + element(1, rank, at) + element(2, rank, at);
}

static void once(struct ft_rank *f, enum kind kind, int which, size_t scale, struct buffers *b, int blocking)
{
    const struct variant *v = &variants[which];
    weft_request *req = NULL;

    fill(v, kind, f->rank, scale, b);
    WT_CHECK_OK(issue(v, kind, f, scale, b, blocking ? NULL : &req));
    if (req) {
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
    }
    for (size_t at = 0; at < ROOM * scale; at++)
        if (get(v, b->dst, at) != expected(v, kind, f->rank, scale, at)) {
            wt_fail(__FILE__, __LINE__, "%s, variant %d, %zu elements a unit: element %zu is %lld, not %lld",
                    kind_names[kind], which, scale, at, (long long)get(v, b->dst, at),
                    (long long)expected(v, kind, f->rank, scale, at));
            return;
        }
}

/* Each behind each other one, which was called twice: the second time as it is kept. */
static void in_turn(int rank, int nranks, void *arg)
{
    struct buffers *b = malloc(sizeof *b);
    struct ft_rank f;

    WT_REQUIRE(b != NULL);
    ft_open(&f, arg, 30000, rank, nranks);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t scale = 1; scale <= SCALE; scale *= SCALE)
            for (int i = 0; i < VARIANTS; i++)
                for (int j = 0; j < VARIANTS && !wt_failures(); j += scale == 1 ? 1 : 3) {
                    once(&f, (enum kind)kind, i, scale, b, 1);
                    once(&f, (enum kind)kind, i, scale, b, 1);
                    once(&f, (enum kind)kind, j, scale, b, (i + j + rank) % 4 != 0); /* others block */
                }
    ft_close(&f);
    free(b);
}

static void alternating(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, in_turn, "v-forms in turn", 60000), 0);
}

/* ---- Roots ---- */

enum { MANY = 3000 };

static int32_t rooted_element(int from, int to, size_t i)
{
    return from * 1000000 + to * 100000 + (int32_t)i;
}

/* Broadcast, reduce, gather and scatter of a share of n elements; returns whether the result is right. */
static int rooted(struct ft_rank *f, int kind, int root, size_t n, int32_t *src, int32_t *dst)
{
    int rank = f->rank, wrong = 0;
    weft_status st;

    for (size_t i = 0; i < RANKS * n; i++) {
        src[i] = rooted_element(rank, (int)(i / n), i % n);
        dst[i] = GAP;
    }
    st = kind == 0   ? weft_broadcast(f->comm, src, dst, n, WEFT_INT32, root, NULL)
         : kind == 1 ? weft_reduce(f->comm, src, dst, n, WEFT_INT32, WEFT_MAX, root, NULL)
         : kind == 2 ? weft_gather(f->comm, src, dst, n, WEFT_INT32, root, NULL)
                     : weft_scatter(f->comm, src, dst, n, WEFT_INT32, root, NULL);
    for (size_t i = 0; i < n; i++)
        wrong += kind == 0   ? dst[i] != rooted_element(root, 0, i)
                 : kind == 1 ? rank == root && dst[i] != rooted_element(RANKS - 1, 0, i)
                 : kind == 2 ? rank == root && dst[n + i] != rooted_element(1, 0, i)
                             : dst[i] != rooted_element(root, rank, i);
    return st >= 0 && !wrong;
}

/* The same call with one root after the other, each twice. */
static void roots_in_turn(int rank, int nranks, void *arg)
{
    static const char *const names[] = {"broadcast", "reduce", "gather", "scatter"};
    int32_t *src = malloc(RANKS * MANY * 4), *dst = malloc(RANKS * MANY * 4);
    struct ft_rank f;

    WT_REQUIRE(src && dst);
    ft_open(&f, arg, 30000, rank, nranks);
    for (int kind = 0; kind < 4; kind++)
        for (size_t n = 1; n <= MANY; n *= MANY)
            for (int turn = 0; turn < 4 * RANKS && !wt_failures(); turn++)
                if (!rooted(&f, kind, turn / 2 % RANKS, n, src, dst))
                    wt_fail(__FILE__, __LINE__, "%s of %zu elements, turn %d", names[kind], n, turn);
    ft_close(&f);
    free(src);
    free(dst);
}

static void roots(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, roots_in_turn, "roots in turn", 60000), 0);
}

/* ---- Operators, data types, places ---- */

/* As variants above, of collectives whose blocks are of one length. */
static const struct form {
    weft_dtype dtype;
    weft_op op;
    int in_place;
    size_t n; /* elements of a block */
} forms[] = {
    {WEFT_INT32, WEFT_SUM, 0, 5},     {WEFT_INT32, WEFT_MAX, 0, 5},    {WEFT_INT64, WEFT_SUM, 0, 5},
    {WEFT_INT32, WEFT_LAND, 0, 5}, /* kept where the first one is, as is the next */
    {WEFT_INT32, WEFT_SUM, 0, 12},    {WEFT_INT32, WEFT_SUM, 1, 5},    {WEFT_INT32, WEFT_SUM, 0, MANY},
    {WEFT_INT32, WEFT_LAND, 0, MANY}, {WEFT_INT64, WEFT_SUM, 0, MANY}, {WEFT_INT32, WEFT_SUM, 1, MANY},
    {WEFT_INT64, WEFT_MAX, 1, MANY},
};
enum { FORMS = sizeof forms / sizeof *forms, EVEN = 4 };
static const char *const even_names[EVEN] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};

static void even_put(const struct form *m, void *buf, size_t at, int64_t value)
{
    put(&(struct variant){.dtype = m->dtype}, buf, at, value);
}

static int64_t even_get(const struct form *m, const void *buf, size_t at)
{
    return get(&(struct variant){.dtype = m->dtype}, buf, at);
}

static weft_status even_issue(const struct form *m, int kind, struct ft_rank *f, void *src, void *dst,
                              weft_request **req)
{
    switch (kind) {
    case 0:
        return weft_all_reduce(f->comm, src, dst, m->n, m->dtype, m->op, req);
    case 1:
        return weft_reduce_scatter(f->comm, src, dst, m->n, m->dtype, m->op, req);
    case 2:
        return weft_all_gather(f->comm, src, dst, m->n, m->dtype, req);
    default:
        return weft_all_to_all(f->comm, src, dst, m->n, m->dtype, req);
    }
}

/* Element i of what `rank` holds after the call. */
static int64_t even_expected(const struct form *m, int kind, int rank, size_t i)
{
    int from = (int)(i / m->n);
    int64_t each[RANKS];

    if (kind == 2)
        return rooted_element(from, 0, i % m->n);
    if (kind == 3)
        return rooted_element(from, rank, i % m->n);
    if (kind == 1)
        i += (size_t)rank * m->n;
    from = (int)(i / m->n);
    for (int r = 0; r < RANKS; r++)
        each[r] = rooted_element(r, from, i % m->n);
    return m->op == WEFT_MAX    ? each[RANKS - 1]
           : m->op == WEFT_LAND ? each[0] && each[1] && each[2]
                                : each[0] + each[1] + each[2];
}

/* all_reduce's vector is one block here. In place: as weft.h says, a block of the longer buffer, or the same. */
static void even_once(struct ft_rank *f, int kind, int which, struct buffers *b, int blocking)
{
    const struct form *m = &forms[which];
    size_t es = m->dtype == WEFT_INT64 ? 8 : 4, own = (size_t)f->rank * m->n * es;
    size_t in = kind == 1 || kind == 3 ? RANKS * m->n : m->n, out = kind == 2 || kind == 3 ? RANKS * m->n : m->n;
    char *src = (char *)b->src, *dst = (char *)b->dst;
    weft_request *req = NULL;

    if (m->in_place) {
        dst = kind == 1 ? src + own : kind == 2 ? dst : src;
        src = kind == 2 ? dst + own : src;
    }
    for (size_t i = 0; i < out; i++)
        even_put(m, dst, i, GAP);
    for (size_t i = 0; i < in; i++)
        even_put(m, src, i, rooted_element(f->rank, (int)(i / m->n), i % m->n));
    WT_CHECK_OK(even_issue(m, kind, f, src, dst, blocking ? NULL : &req));
    if (req) {
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
    }
    for (size_t i = 0; i < out && !wt_failures(); i++)
        if (even_get(m, dst, i) != even_expected(m, kind, f->rank, i))
            wt_fail(__FILE__, __LINE__, "%s, form %d: element %zu is %lld, not %lld", even_names[kind], which, i,
                    (long long)even_get(m, dst, i), (long long)even_expected(m, kind, f->rank, i));
}

static void forms_in_turn(int rank, int nranks, void *arg)
{
    struct buffers *b = malloc(sizeof *b);
    struct ft_rank f;

    WT_REQUIRE(b != NULL);
    ft_open(&f, arg, 30000, rank, nranks);
    for (int kind = 0; kind < EVEN; kind++)
        for (int i = 0; i < FORMS; i++)
            for (int j = 0; j < FORMS && !wt_failures(); j++) {
                even_once(&f, kind, i, b, (i + j + rank) % 2);
                even_once(&f, kind, i, b, (i + rank) % 3 != 0);
                even_once(&f, kind, j, b, (i + j + rank) % 4 != 0); /* others block */
            }
    ft_close(&f);
    free(b);
}

static void even(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, forms_in_turn, "forms in turn", 60000), 0);
}

/* ---- Operators of the program's ---- */

/* The lowest rank's. */
static void first(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)right, (void)dtype, (void)arg;
    memmove(out, left, count * sizeof(int32_t));
}

/* What an all_reduce of rank + 1 on each rank makes. */
static int32_t own_expected(int which)
{
    return which == 0 ? 1 + 2 + 3 : which == 1 ? 5 * (1 + 2 + 3) : 1;
}

/* Behind sums that are kept, and before them: a sum, one of what was multiplied first, one by a function. */
static void operators_in_turn(int rank, int nranks, void *arg)
{
    int32_t in[MANY], out[MANY];
    const int32_t five = 5;
    weft_op ops[3] = {WEFT_SUM};
    struct ft_rank f;

    ft_open(&f, arg, 30000, rank, nranks);
    WT_REQUIRE_OK(weft_op_create_premul_sum(&five, WEFT_INT32, &ops[1]));
    WT_REQUIRE_OK(weft_op_create(first, NULL, 0, &ops[2]));
    for (size_t n = 1; n <= MANY; n *= MANY)
        for (int turn = 0; turn < 36 && !wt_failures(); turn++) {
            int which = turn % 2 ? turn / 2 % 3 : turn / 6 % 3;
            for (size_t i = 0; i < n; i++)
                in[i] = rank + 1;
            WT_CHECK_OK(weft_all_reduce(f.comm, in, out, n, WEFT_INT32, ops[which], NULL));
            for (size_t i = 0; i < n && !wt_failures(); i++)
                if (out[i] != own_expected(which) || in[i] != rank + 1)
                    wt_fail(__FILE__, __LINE__, "turn %d, operator %d, element %zu of %zu is %d, not %d", turn, which,
                            i, n, out[i], own_expected(which));
        }
    WT_CHECK_OK(weft_op_destroy(ops[1]));
    WT_CHECK_OK(weft_op_destroy(ops[2]));
    ft_close(&f);
}

static void own_operators(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, operators_in_turn, "operators in turn", 60000), 0);
}

/* ---- By messages, where memory is mapped ---- */

/* The fast path is for schedules of mapped memory. One of messages is kept, too. */
static void by_messages(int rank, int nranks, void *arg)
{
    static int32_t in[MANY], out[MANY];
    struct ft_rank f;

    setenv("WEFT_ALGO", "all_reduce:1K-1G:ring", 1);
    ft_open(&f, arg, 30000, rank, nranks);
    for (int turn = 0; turn < 6; turn++) {
        int wrong = 0;
        for (size_t i = 0; i < MANY; i++)
            in[i] = rooted_element(rank, turn, i);
        WT_CHECK_OK(weft_all_reduce(f.comm, in, out, MANY, WEFT_INT32, WEFT_SUM, NULL));
        for (size_t i = 0; i < MANY; i++)
            wrong += out[i] != rooted_element(0, turn, i) + rooted_element(1, turn, i) + rooted_element(2, turn, i);
        WT_CHECK_INT(wrong, 0);
        WT_CHECK_OK(weft_all_reduce(f.comm, in, out, 5, WEFT_INT32, WEFT_MAX, NULL));
        WT_CHECK_INT(out[4], rooted_element(RANKS - 1, turn, 4));
    }
    ft_close(&f);
}

static void messages_over_mapped(void)
{
    CU_ASSERT_EQUAL(wt_run(RANKS, by_messages, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- In place, step by step ---- */

/* A schedule that reads its source again when it has written to its destination. */
static void write_stepwise(const char *path)
{
    FILE *out = fopen(path, "w");

    WT_REQUIRE(out != NULL);
    for (int r = 0; r < RANKS; r++) {
        fprintf(
            out,
            "weft-schedule 1\ncoll all_to_all algo stepwise rank %d nranks %d root 0 in_place 0 blocks 1 tmp %d ll 0\n",
            r, RANKS, RANKS);
        fprintf(out, "lane 0 send - recv - chan 0\n");
        int n = 0;
        for (int step = 1; step < RANKS; step++) {
            int to = (r + step) % RANKS, from = (r + RANKS - step) % RANKS;
            fprintf(out, "%d copy tmp[%d:1] <- src[%d:1]\n", n++, to, to);
            fprintf(out, "%d signal %d\n", n++, step - 1);
            fprintf(out, "%d wait rank %d lane 0 signal %d\n", n++, from, step - 1);
            fprintf(out, "%d copy dst[%d:1] <- tmp@%d[%d:1]\n", n++, from, from, r);
        }
        fprintf(out, "%d copy dst[%d:1] <- src[%d:1]\nend\n", n, r, r);
    }
    WT_REQUIRE(fclose(out) == 0);
}

/* In place it works on a copy of the source, also when what is kept of a call that was not in place would serve. */
static void stepwise(int rank, int nranks, void *arg)
{
    enum { N = 700 };
    static const int in_place[] = {1, 0, 0, 1, 1, 0, 1};
    static int32_t src[RANKS * N], dst[RANKS * N];
    struct ft_rank f;

    setenv("WEFT_PLANS", arg, 1);
    setenv("WEFT_ALGO", "all_to_all:0-1G:file:stepwise", 1);
    ft_open(&f, "shm", 30000, rank, nranks);
    for (size_t turn = 0; turn < sizeof in_place / sizeof *in_place && !wt_failures(); turn++) {
        int32_t *from = in_place[turn] ? dst : src;
        for (size_t i = 0; i < RANKS * N; i++) {
            dst[i] = GAP;
            from[i] = rooted_element(rank, (int)(i / N), i % N);
        }
        WT_CHECK_OK(weft_all_to_all(f.comm, from, dst, N, WEFT_INT32, NULL));
        for (size_t i = 0; i < RANKS * N && !wt_failures(); i++)
            if (dst[i] != rooted_element((int)(i / N), rank, i % N))
                wt_fail(__FILE__, __LINE__, "turn %zu: element %zu is %d", turn, i, dst[i]);
    }
    ft_close(&f);
}

static void in_place_by_steps(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/stepwise.txt", wt_temp_dir());
    write_stepwise(path);
    CU_ASSERT_EQUAL(wt_run(RANKS, stepwise, path, 60000), 0);
}

/* ---- Nothing to do ---- */

/* No elements: no number is taken, whichever form of the call a rank uses, and whatever it called before. */
static void empty_calls(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    int32_t in = rank, out = -1;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int round = 0; round < 6; round++) {
        weft_request *req = NULL;
        int blocking = (round + rank) % 2;
        WT_CHECK_OK(weft_all_reduce(f.comm, &in, &out, 0, WEFT_INT32, WEFT_SUM, blocking ? NULL : &req));
        WT_CHECK_OK(req ? weft_wait(req) : WEFT_SUCCESS);
        WT_CHECK_OK(req ? weft_request_free(req) : WEFT_SUCCESS);
        WT_CHECK_INT(out, round ? nranks * (nranks - 1) / 2 : -1);
        WT_CHECK_OK(weft_all_reduce(f.comm, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL));
        WT_CHECK_INT(out, nranks * (nranks - 1) / 2);
    }
    ft_close(&f);
}

static void empty(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, empty_calls, "calls without elements", 60000), 0);
}

/* ---- Time-outs ---- */

/* Each call has its own time: rank 1 is late for several, which together take longer than one may. */
static void late_calls(int rank, int nranks, void *arg)
{
    enum { LATE_MS = 100 };
    int32_t in[MANY] = {0}, out[MANY];
    unsigned timeout_ms = wt_slow_ms(2000);
    struct ft_rank f;

    ft_open(&f, arg, timeout_ms, rank, nranks);
    for (int i = 0; i < 2; i++) /* that those below are kept */
        WT_CHECK_OK(weft_all_reduce(f.comm, in, out, MANY, WEFT_INT32, WEFT_SUM, NULL));
    for (int i = 0; i < 2; i++) {
        for (size_t n = 1; n <= MANY; n *= MANY) {
            wt_sync();
            usleep(rank ? LATE_MS * 1000 : 0);
            WT_CHECK_OK(weft_all_reduce(f.comm, in, out, n, WEFT_INT32, WEFT_SUM, NULL));
        }
        usleep(i ? 0 : timeout_ms * 1000);
    }
    ft_close(&f);
}

static void late(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, late_calls, "calls that wait for a late rank", 60000), 0);
}

static const struct wt_case cases[] = {
    {"calls that differ in one thing", alternating},
    {"calls that differ in their root", roots},
    {"calls that differ in their operator, data type, place or length", even},
    {"operators of the program's", own_operators},
    {"by messages where memory is mapped", messages_over_mapped},
    {"all_to_all in place behind one that is not", in_place_by_steps},
    {"calls without elements, in different forms", empty},
    {"calls that wait longer than one may, together", late},
};
WT_UNIT_MAIN("kept", cases)
