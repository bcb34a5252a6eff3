/* What error feedback keeps: saved and loaded without a difference, re-sharded with nothing lost, rescaled, listed; and states that
 * are none.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "comm/comm.h"
#include "comm/residual.h"
#include "compress/feedback.h"
#include "tests/harness/says.h"

enum { MOST = 3000, STATE_MOST = 200 + 16 * MOST };

static float value(int rank, int step, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + i + 1) * 0x9e3779b97f4a7c15u;

    if (i % 11 == 5) /* signs of zeros count, too */
        return h >> 63 ? -0.0f : 0.0f;
    return ((float)(h >> 40) / 16777216.0f - 0.5f) * (i % 5 ? 1 : 30);
}

struct job {
    weft_comm *comm;
    int rank, nranks;
    weft_kind kind;
    weft_op op;
    size_t count; /* as in the call */
    weft_call_options options;
};

static size_t elems_of(const struct job *j)
{
    return j->kind == WEFT_KIND_REDUCE_SCATTER ? j->count * (size_t)j->nranks : j->count;
}

/* One call, of gradients `by` times those of the step. dst: receives the result. */
static void step_of(const struct job *j, int step, float by, float *dst)
{
    static float src[MOST];
    weft_call call = wt_call(j->kind, src, dst, j->count, WEFT_FLOAT32);

    for (size_t i = 0; i < elems_of(j); i++)
        src[i] = by * value(j->rank, step, i);
    call.op = j->op;
    call.options = &j->options;
    WT_REQUIRE_OK(weft_issue(j->comm, &call, NULL));
}

static size_t save(weft_comm *comm, uint64_t tensor, unsigned char *state)
{
    size_t bytes = 0, again = 0;

    WT_REQUIRE_OK(weft_comm_residual_save(comm, tensor, NULL, 0, &bytes));
    WT_REQUIRE(bytes <= STATE_MOST);
    WT_REQUIRE_OK(weft_comm_residual_save(comm, tensor, state, bytes, &again));
    WT_CHECK_INT(again, bytes);
    return bytes;
}

/* ---- Save, restore ---- */

static void interrupted(struct ft_rank *f, const char *codec, const char *algorithm, weft_op op)
{
    static float through[3][MOST], resumed[MOST];
    static unsigned char state[STATE_MOST], after[STATE_MOST];
    struct job j = {f->comm, f->rank, f->nranks, WEFT_KIND_ALL_REDUCE, op, 2999, WEFT_CALL_OPTIONS_INIT};
    size_t bytes, bytes_after;

    j.options.codec = codec;
    j.options.algorithm = algorithm;
    j.options.tensor = 5;
    for (int s = 0; s < 4; s++)
        step_of(&j, s, 1, through[0]);
    bytes = save(f->comm, 5, state);
    for (int s = 0; s < 3; s++)
        step_of(&j, 4 + s, 1, through[s]);
    bytes_after = save(f->comm, 5, after);
    WT_REQUIRE_OK(weft_comm_residual_clear(f->comm, 5));
    WT_REQUIRE_OK(weft_comm_residual_load(f->comm, 5, elems_of(&j), state, bytes, 1));
    for (int s = 0; s < 3; s++) {
        step_of(&j, 4 + s, 1, resumed);
        WT_CHECK(!memcmp(resumed, through[s], j.count * sizeof *resumed));
    }
    WT_CHECK_INT(save(f->comm, 5, state), bytes_after);
    WT_CHECK(!memcmp(state, after, bytes_after));
    WT_REQUIRE_OK(weft_comm_residual_clear(f->comm, 5));
}

static void restores(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    interrupted(&f, "int4:ef=1,bypass=never", "coded2", WEFT_AVG);
    interrupted(&f, "int2:ef=1,bypass=never,block=32", "coded", WEFT_SUM);
    interrupted(&f, "sign:ef=1,bypass=never", "coded2", WEFT_SUM);
    interrupted(&f, "int4:ef=loco,bypass=never", "coded2", WEFT_AVG);
    interrupted(&f, "int4:ef=ef21,bypass=never", "coded2", WEFT_AVG);
    interrupted(&f, "int4:ef=ef21,bypass=never", "coded", WEFT_SUM);
    interrupted(&f, "int4:ef=dgc,bypass=never", "coded2", WEFT_AVG);
    interrupted(&f, "int4:ef=dgc,bypass=never", "coded", WEFT_SUM);
    /* What is random follows from how often the tensor was sent, as does which rank leads. */
    interrupted(&f, "int4:round=stochastic,ef=1,bypass=never", "coded2", WEFT_AVG);
    interrupted(&f, "randomk:block=256,ratio=0.1,ef=1,bypass=never", NULL, WEFT_SUM);
    interrupted(&f, "randomk:block=256,ratio=0.1,ef=1,bypass=never", "coded2", WEFT_SUM);
    interrupted(&f, "sharedint:ef=1,bypass=never", NULL, WEFT_AVG);
    interrupted(&f, "sharedint:ef=loco,bypass=never", NULL, WEFT_SUM);
    interrupted(&f, "leaderk:block=256,ratio=0.1,ef=1,bypass=never", NULL, WEFT_SUM);
    ft_close(&f);
}

static void save_and_restore(void)
{
    CU_ASSERT_EQUAL(wt_run(3, restores, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(4, restores, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Another number of ranks ---- */

struct reshard {
    int from, to;
    weft_kind kind;
    weft_op op;
    const char *algorithm;
    size_t elems;
    double worker, owner; /* what is owed by all when it is saved: magnitudes, to see that there was something */
};

static weft_comm *first_ranks(struct ft_rank *f, int n)
{
    weft_comm *comm = NULL;

    WT_REQUIRE_OK(weft_comm_split(f->comm, f->rank < n ? 0 : WEFT_COLOR_NONE, 0, NULL, &comm));
    return comm;
}

static struct job job_of(weft_comm *comm, const struct ft_rank *f, int nranks, const struct reshard *s)
{
    struct job j = {comm, f->rank, nranks, s->kind, s->op, s->elems, WEFT_CALL_OPTIONS_INIT};

    if (s->kind == WEFT_KIND_REDUCE_SCATTER)
        j.count = s->elems / (size_t)nranks;
    j.options.codec = "int2:ef=1,bypass=never,block=32";
    j.options.algorithm = s->algorithm;
    j.options.tensor = 9;
    return j;
}

/* Add what a step gave to what all got so far. Every rank knows everything: of reduce_scatter, after a gather. */
static void account(const struct job *j, const float *dst, double *sent)
{
    static float all[MOST];
    const float *got = dst;

    if (j->kind == WEFT_KIND_REDUCE_SCATTER) {
        WT_REQUIRE_OK(weft_all_gather(j->comm, dst, all, j->count, WEFT_FLOAT32, NULL));
        got = all;
    }
    for (size_t i = 0; i < elems_of(j); i++)
        sent[i] += (double)got[i];
}

static void account_given(const struct job *j, int step, double *given)
{
    for (int r = 0; r < j->nranks; r++)
        for (size_t i = 0; i < elems_of(j); i++)
            given[i] += (double)value(r, step, i) / (j->op == WEFT_AVG ? j->nranks : 1);
}

/* What the saved state says is owed, in units of the result. */
static void read_state(const unsigned char *state, struct reshard *s)
{
    const unsigned char *at = state + 48 + 16 * WI_PLANES;

    for (int plane = 0; plane < 2; plane++)
        for (uint64_t n = wi_get64(state + 56 + 16 * plane); n; n--, at += 4) {
            uint32_t bits = wi_get32(at);
            float v;
            memcpy(&v, &bits, sizeof v);
            *(plane ? &s->owner : &s->worker) += fabs((double)v);
        }
}

static void load_old(struct job *j, const struct reshard *s, const unsigned char *states, const uint64_t *bytes)
{
    double factor = s->op == WEFT_AVG ? (double)s->to / s->from : 1;

    if (j->rank >= s->from)
        WT_REQUIRE_OK(weft_comm_residual_load(j->comm, 9, 0, states, bytes[0], 0));
    for (int r = j->rank; r < s->from; r += s->to)
        WT_REQUIRE_OK(weft_comm_residual_load(j->comm, 9, 0, states + (size_t)r * STATE_MOST, bytes[r], factor));
    if (s->from != s->to) /* the next call has to look at where everything is */
        WT_CHECK(wi_residual_look(j->comm, 9)->shape == 0);
}

/* What others owed here was moved to where it is added: no worker's of the own block, no owner's of others. */
static void check_places(const struct job *j, const struct reshard *s)
{
    static unsigned char state[STATE_MOST];
    size_t share = j->kind == WEFT_KIND_REDUCE_SCATTER ? j->count : (s->elems / (size_t)s->to + 32) / 32 * 32,
           own = share * (size_t)j->rank;
    const unsigned char *at = state + 48 + 16 * WI_PLANES;

    save(j->comm, 9, state);
    for (int plane = 0; plane < 2; plane++) {
        uint64_t from = wi_get64(state + 48 + 16 * plane), n = wi_get64(state + 56 + 16 * plane);
        for (uint64_t i = from; i < from + n; i++, at += 4) {
            int here = !strcmp(s->algorithm, "coded2") || j->kind == WEFT_KIND_REDUCE_SCATTER
                           ? (i >= own && i < own + share) == plane
                           : !plane;
            if (!here && wi_get32(at)) {
                wt_fail(__FILE__, __LINE__, "%d to %d ranks, %s: element %llu of plane %d stayed behind", s->from,
                        s->to, s->algorithm, (unsigned long long)i, plane);
                return;
            }
        }
    }
}

static void compare_sums(const struct reshard *s, const double *sent, const double *given)
{
    for (size_t i = 0; i < s->elems; i++)
        if (!(fabs(sent[i] - given[i]) <= 2e-4)) {
            wt_fail(__FILE__, __LINE__, "%d to %d ranks, %s, %s: element %zu: %.7g was sent of %.7g", s->from, s->to,
                    s->algorithm, s->op == WEFT_AVG ? "avg" : "sum", i, sent[i], given[i]);
            return;
        }
}

/* Steps of the old ranks, steps of the new ones, and at the end plain data, which settles what is owed: all was sent that was
 * given. */
static void reshards(struct ft_rank *f, struct reshard s)
{
    static unsigned char states[8 * STATE_MOST], own[STATE_MOST];
    static double sent[MOST], given[MOST];
    static float dst[MOST];
    uint64_t bytes[8] = {0}, mine = 0;
    weft_comm *comm = first_ranks(f, s.from);
    struct job j = job_of(comm, f, s.from, &s);

    memset(sent, 0, sizeof sent);
    memset(given, 0, sizeof given);
    for (int step = 0; step < 3; step++) {
        account_given(&j, step, given);
        if (comm)
            step_of(&j, step, 1, dst);
        if (comm)
            account(&j, dst, sent);
    }
    if (comm)
        mine = save(comm, 9, own);
    WT_REQUIRE_OK(weft_all_gather(f->comm, &mine, bytes, 1, WEFT_UINT64, NULL));
    WT_REQUIRE_OK(weft_all_gather(f->comm, own, states, STATE_MOST, WEFT_UINT8, NULL));
    WT_REQUIRE_OK(weft_broadcast(f->comm, sent, sent, MOST, WEFT_FLOAT64, 0, NULL));
    WT_CHECK_OK(weft_comm_destroy(comm));
    for (int r = 0; r < s.from; r++)
        read_state(states + (size_t)r * STATE_MOST, &s);
    WT_CHECK(s.worker > 1);
    WT_CHECK(!strcmp(s.algorithm, "coded2") == (s.owner > 1));
    comm = first_ranks(f, s.to);
    j = job_of(comm, f, s.to, &s);
    if (comm)
        load_old(&j, &s, states, bytes);
    for (int step = 3; step < 6; step++) {
        account_given(&j, step, given);
        if (step == 5) {
            j.options.codec = "int2:ef=1,block=32";
            j.options.algorithm = s.kind == WEFT_KIND_ALL_REDUCE ? "ring" : "pairwise";
        }
        if (comm)
            step_of(&j, step, 1, dst);
        if (comm)
            account(&j, dst, sent);
        if (comm && step == 3 && s.to > 1)
            check_places(&j, &s);
    }
    if (comm)
        compare_sums(&s, sent, given);
    WT_CHECK_OK(weft_comm_destroy(comm));
}

static void all_reshards(int rank, int nranks, void *arg)
{
    static const int sizes[][2] = {{4, 2}, {2, 4}, {3, 5}, {5, 3}, {4, 1}, {4, 4}};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int avg = 0; avg < 2; avg++) {
            weft_op op = avg ? WEFT_AVG : WEFT_SUM;
            int from = sizes[i][0], to = sizes[i][1];
            reshards(&f, (struct reshard){from, to, WEFT_KIND_ALL_REDUCE, op, "coded2", 2999, 0, 0});
            reshards(&f, (struct reshard){from, to, WEFT_KIND_ALL_REDUCE, op, "coded", 700, 0, 0});
            reshards(&f, (struct reshard){from, to, WEFT_KIND_REDUCE_SCATTER, op, "coded", 2880, 0, 0});
        }
    ft_close(&f);
}

static void resharding(void)
{
    CU_ASSERT_EQUAL(wt_run(5, all_reshards, (void *)(uintptr_t) "shm", 120000), 0);
}

/* An algorithm that keeps elsewhere: nothing is left behind. */
static void changing(int rank, int nranks, void *arg)
{
    static const char *const algorithms[] = {"coded2", "coded", "coded2", "coded", "coded2"};
    static double sent[MOST], given[MOST];
    static float dst[MOST];
    struct ft_rank f;
    struct reshard s = {3, 3, WEFT_KIND_ALL_REDUCE, WEFT_AVG, "changing", 2999, 0, 0};
    struct job j;

    ft_open(&f, arg, 20000, rank, nranks);
    j = job_of(f.comm, &f, nranks, &s);
    for (int step = 0; step < 6; step++) {
        j.options.algorithm = step < 5 ? algorithms[step] : "ring";
        j.options.codec = step < 5 ? "int2:ef=1,bypass=never" : "int2:ef=1";
        account_given(&j, step, given);
        step_of(&j, step, 1, dst);
        account(&j, dst, sent);
    }
    compare_sums(&s, sent, given);
    ft_close(&f);
}

/* What EF21 keeps means nothing to another algorithm: it begins anew, as a tensor that was never sent. */
static void changing_ef21(int rank, int nranks, void *arg)
{
    static float dst[MOST], anew[MOST];
    struct ft_rank f;
    struct job j;

    ft_open(&f, arg, 20000, rank, nranks);
    j = (struct job){f.comm, rank, nranks, WEFT_KIND_ALL_REDUCE, WEFT_SUM, 2999, WEFT_CALL_OPTIONS_INIT};
    j.options.codec = "int4:ef=ef21,bypass=never";
    for (int to = 0; to < 2; to++) {
        for (int step = 0; step < 3; step++) {
            j.options.algorithm = to ? "coded" : "coded2";
            j.options.tensor = 9;
            step_of(&j, step, 1, dst);
        }
        j.options.algorithm = to ? "coded2" : "coded";
        for (int step = 3; step < 5; step++) {
            j.options.tensor = 9;
            step_of(&j, step, 1, dst);
            j.options.tensor = 10;
            step_of(&j, step, 1, anew);
            WT_CHECK(!memcmp(dst, anew, j.count * sizeof *dst));
        }
        WT_CHECK_OK(weft_comm_residual_clear(f.comm, 0));
    }
    ft_close(&f);
}

static void changed_algorithms(void)
{
    CU_ASSERT_EQUAL(wt_run(3, changing, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, changing_ef21, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Bytes, lists, factors ---- */

static void rescaled(struct job *j)
{
    static float dst[MOST], scaled[MOST];
    static unsigned char state[STATE_MOST];
    size_t bytes;

    step_of(j, 0, 1, dst);
    bytes = save(j->comm, 9, state);
    WT_CHECK_OK(weft_comm_residual_scale(j->comm, 0, 0.25));
    step_of(j, 1, 0.25f, scaled);
    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 9));
    WT_CHECK_OK(weft_comm_residual_load(j->comm, 9, 0, state, bytes, 0.25));
    step_of(j, 1, 0.25f, dst);
    WT_CHECK(!memcmp(dst, scaled, j->count * sizeof *dst));
    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 9));
    WT_CHECK_OK(weft_comm_residual_load(j->comm, 9, 0, state, bytes, 0.125)); /* two halves */
    WT_CHECK_OK(weft_comm_residual_load(j->comm, 9, 0, state, bytes, 0.125));
    step_of(j, 1, 0.25f, dst);
    WT_CHECK(!memcmp(dst, scaled, j->count * sizeof *dst));
    SAYS(weft_comm_residual_scale(j->comm, 8, 2), WEFT_ENOTFOUND, "tensor 8 has no residual");
    SAYS(weft_comm_residual_scale(j->comm, 9, NAN), WEFT_EINVAL, "factor is nan");
    SAYS(weft_comm_residual_scale(j->comm, 9, 1e300), WEFT_EINVAL, "becomes infinite");
    SAYS(weft_comm_residual_scale(NULL, 9, 1), WEFT_EINVAL, "not a communicator");
}

static uint64_t steps_after(weft_comm *comm, const unsigned char *const states[], const size_t bytes[],
                            const double factors[], int n)
{
    static unsigned char state[STATE_MOST];

    WT_CHECK_OK(weft_comm_residual_clear(comm, 9));
    for (int i = 0; i < n; i++)
        WT_CHECK_OK(weft_comm_residual_load(comm, 9, 0, states[i], bytes[i], factors[i]));
    save(comm, 9, state);
    return wi_get64(state + 32);
}

/* Of several states the one that was sent most often counts, whatever is taken of it. */
static void counted(struct job *j)
{
    static unsigned char once[STATE_MOST], often[STATE_MOST];
    static float dst[MOST];
    size_t bytes_once, bytes_often;

    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 9));
    step_of(j, 0, 1, dst);
    bytes_once = save(j->comm, 9, once);
    for (int step = 1; step < 5; step++)
        step_of(j, step, 1, dst);
    bytes_often = save(j->comm, 9, often);
    WT_CHECK_INT(steps_after(j->comm, (const unsigned char *[]){once}, &bytes_once, (double[]){1}, 1), 1);
    WT_CHECK_INT(steps_after(j->comm, (const unsigned char *[]){often}, &bytes_often, (double[]){0}, 1), 5);
    for (int zero = 0; zero < 2; zero++) {
        WT_CHECK_INT(steps_after(j->comm, (const unsigned char *[]){once, often}, (size_t[]){bytes_once, bytes_often},
                                 (double[]){1, !zero}, 2),
                     5);
        WT_CHECK_INT(steps_after(j->comm, (const unsigned char *[]){often, once}, (size_t[]){bytes_often, bytes_once},
                                 (double[]){!zero, 1}, 2),
                     5);
    }
    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 9));
}

/* Rank 0 calls before the others do: till it is done nothing of its residual can be saved or changed. */
static void in_use(struct job *j, const char *codec, const char *algorithm)
{
    static unsigned char state[STATE_MOST], room[STATE_MOST];
    static float src[MOST], dst[MOST];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, j->count, WEFT_FLOAT32);
    weft_request *req = NULL;
    size_t bytes, n = 7;

    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 9));
    j->options.codec = codec;
    j->options.algorithm = algorithm;
    call.options = &j->options;
    step_of(j, 0, 1, dst);
    bytes = save(j->comm, 9, state);
    if (j->rank)
        wt_sync();
    WT_REQUIRE_OK(weft_issue(j->comm, &call, &req));
    if (!j->rank) {
        SAYS(weft_comm_residual_save(j->comm, 9, NULL, 0, &n), WEFT_EBUSY, "tensor 9: an operation that uses its");
        SAYS(weft_comm_residual_save(j->comm, 9, room, bytes, &n), WEFT_EBUSY, "tensor 9: an operation that uses its");
        WT_CHECK_INT(n, 7);
        SAYS(weft_comm_residual_load(j->comm, 9, 0, state, bytes, 1), WEFT_EBUSY,
             "tensor 9: an operation that uses its");
        SAYS(weft_comm_residual_scale(j->comm, 9, 0.5), WEFT_EBUSY, "uses the residual of tensor 9");
        SAYS(weft_comm_residual_scale(j->comm, 0, 0.5), WEFT_EBUSY, "uses the residual of tensor 9");
        SAYS(weft_comm_residual_clear(j->comm, 9), WEFT_EBUSY, "uses the residual of tensor 9");
        SAYS(weft_comm_residual_clear(j->comm, 0), WEFT_EBUSY, "uses the residual of tensor 9");
        wt_sync();
    }
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
    save(j->comm, 9, state);
    WT_CHECK_INT(wi_get64(state + 32), 2);
    WT_CHECK_OK(weft_comm_residual_scale(j->comm, 9, 0.5));
}

static void listed(struct job *j)
{
    static float dst[MOST];
    uint64_t tensors[3] = {1, 1, 1};
    size_t count = 7, bytes = 0;

    WT_CHECK_OK(weft_comm_residual_list(j->comm, NULL, 0, &count));
    WT_CHECK_INT(count, 0);
    for (int t = 0; t < 3; t++) {
        j->options.tensor = 70 - 20 * (uint64_t)t;
        step_of(j, t, 1, dst);
    }
    WT_CHECK_OK(
        weft_comm_residual_bytes(j->comm, &bytes)); /* blocks of 1024, in order; a rank loses nothing of its own */
    WT_CHECK_INT(bytes, 3 * 4 * (j->rank == 0 ? 2999 - 1024 + 1024 : j->rank == 1 ? 2999 + 1024 : 2048 + 951));
    WT_CHECK_OK(weft_comm_residual_list(j->comm, NULL, 0, &count));
    WT_CHECK_INT(count, 3);
    count = 7;
    SAYS(weft_comm_residual_list(j->comm, tensors, 2, &count), WEFT_ETRUNC, "3 tensors have residuals");
    WT_CHECK(count == 7 && tensors[0] == 1);
    WT_CHECK_OK(weft_comm_residual_list(j->comm, tensors, 3, &count));
    WT_CHECK(count == 3 && tensors[0] == 30 && tensors[1] == 50 && tensors[2] == 70);
    SAYS(weft_comm_residual_list(j->comm, tensors, 3, NULL), WEFT_EINVAL, "count is NULL");
    WT_CHECK_OK(weft_comm_residual_clear(j->comm, 0));
    j->options.tensor = 9;
}

/* ---- What is no state ---- */

static void set_check(unsigned char *state, size_t bytes)
{
    wi_put64(state + bytes - 8, wi_hash64(state, bytes - 8, 0));
}

/* It is refused with that text, once its checksum is right, and nothing has changed. */
static void refuse(const struct job *j, const unsigned char *state, size_t bytes, size_t at, uint64_t put, int width,
                   const char *text)
{
    static unsigned char bad[STATE_MOST], now[STATE_MOST];

    memcpy(bad, state, bytes);
    if (width == 8)
        wi_put64(bad + at, put);
    else
        wi_put32(bad + at, (uint32_t)put);
    set_check(bad, bytes);
    SAYS(weft_comm_residual_load(j->comm, 9, 0, bad, bytes, 1), WEFT_EINVAL, text);
    WT_CHECK_INT(save(j->comm, 9, now), bytes);
    WT_CHECK(!memcmp(now, state, bytes));
}

static void hostile(const struct job *j)
{
    static unsigned char state[STATE_MOST], bad[STATE_MOST];
    static float dst[MOST];
    size_t bytes, n = 0;

    step_of(j, 0, 1, dst);
    bytes = save(j->comm, 9, state);
    for (size_t cut = 0; cut < bytes; cut += cut < 200 ? 1 : 37) {
        memcpy(bad, state, cut);
        WT_CHECK_STATUS(weft_comm_residual_load(j->comm, 9, 0, bad, cut, 1), WEFT_EINVAL);
        if (cut > 120) {
            set_check(bad, cut);
            WT_CHECK_STATUS(weft_comm_residual_load(j->comm, 9, 0, bad, cut, 1), WEFT_EINVAL);
        }
    }
    for (size_t at = 0; at < bytes; at += at < 200 ? 1 : 41) {
        memcpy(bad, state, bytes);
        bad[at] ^= 0x10;
        SAYS(weft_comm_residual_load(j->comm, 9, 0, bad, bytes, 1), WEFT_EINVAL,
             at < 4   ? "no saved residual"
             : at < 8 ? "version"
                      : "checksum of its");
    }
    refuse(j, state, bytes, 8, 0, 4, "form 0");
    refuse(j, state, bytes, 8, 77, 4, "form 77");
    refuse(j, state, bytes, 12, 2, 4, "flags 2");
    refuse(j, state, bytes, 16, 0, 8, "of 0 elements");
    refuse(j, state, bytes, 16, 3001, 8, "is of 3001 elements, and that of tensor 9 of 2999");
    refuse(j, state, bytes, 16, UINT64_MAX, 8, "elements");
    refuse(j, state, bytes, 24, 3, 4, "rank 3 of 3");
    refuse(j, state, bytes, 28, 0, 4, "of 0");
    refuse(j, state, bytes, 48, UINT64_MAX, 8, "and the tensor has 2999");
    refuse(j, state, bytes, 56, UINT64_MAX, 8, "and the tensor has 2999");
    refuse(j, state, bytes, 56, 10, 8, "its elements end at");
    refuse(j, state, bytes, bytes - 16, 0x7fc00000, 4, "is not finite");
    refuse(j, state, bytes, bytes - 16, 0xff800000, 4, "is not finite");
    SAYS(weft_comm_residual_load(j->comm, 9, 0, state, bytes, 1e300), WEFT_EINVAL, "becomes infinite");
    SAYS(weft_comm_residual_load(j->comm, 9, 0, state, bytes, INFINITY), WEFT_EINVAL, "factor is inf");
    SAYS(weft_comm_residual_load(j->comm, 9, elems_of(j) + 1, state, bytes, 1), WEFT_EINVAL,
         "elements, and the tensor has");
    SAYS(weft_comm_residual_load(j->comm, 77, elems_of(j) + 1, state, bytes, 1), WEFT_EINVAL,
         "elements, and the tensor has");
    WT_CHECK_STATUS(weft_comm_residual_clear(j->comm, 77), WEFT_ENOTFOUND);
    SAYS(weft_comm_residual_load(j->comm, 0, 0, state, bytes, 1), WEFT_EINVAL, "tensor is 0");
    SAYS(weft_comm_residual_load(j->comm, 9, 0, NULL, bytes, 1), WEFT_EINVAL, "state is NULL");
    SAYS(weft_comm_residual_load(NULL, 9, 0, state, bytes, 1), WEFT_EINVAL, "not a communicator");
    SAYS(weft_comm_residual_load(j->comm, 12, 0, state, bytes, 1e300), WEFT_EINVAL, "becomes infinite");
    SAYS(weft_comm_residual_save(j->comm, 12, NULL, 0, &n), WEFT_ENOTFOUND, "tensor 12 has no residual");
    SAYS(weft_comm_residual_save(j->comm, 9, bad, bytes - 1, &n), WEFT_ETRUNC, "there is room for");
    SAYS(weft_comm_residual_save(j->comm, 9, bad, bytes, NULL), WEFT_EINVAL, "bytes is NULL");
    SAYS(weft_comm_residual_save(j->comm, 0, NULL, 0, &n), WEFT_EINVAL, "tensor is 0");
    WT_CHECK_INT(n, 0);
    WT_CHECK_INT(save(j->comm, 9, bad), bytes);
    WT_CHECK(!memcmp(bad, state, bytes));
}

static void of_the_program(int rank, int nranks, void *arg)
{
    struct reshard s = {3, 3, WEFT_KIND_ALL_REDUCE, WEFT_SUM, "coded2", 2999, 0, 0};
    struct ft_rank f;
    struct job j;

    ft_open(&f, arg, 20000, rank, nranks);
    j = job_of(f.comm, &f, nranks, &s);
    listed(&j);
    rescaled(&j);
    counted(&j);
    WT_CHECK_OK(weft_comm_residual_clear(f.comm, 0));
    hostile(&j);
    in_use(&j, "int4:ef=1,bypass=never", "coded2");
    in_use(&j, "sharedint:ef=1,bypass=never", NULL);
    ft_close(&f);
}

static void calls(void)
{
    CU_ASSERT_EQUAL(wt_run(3, of_the_program, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"saved and restored: the same bits", save_and_restore},
    {"re-sharded: nothing is lost", resharding},
    {"another algorithm", changed_algorithms},
    {"bytes, lists, factors, and states that are none", calls},
};
WT_UNIT_MAIN("residual", cases)
