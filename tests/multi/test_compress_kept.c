/* Calls with a codec that are sent plain after all, the codec of calls that name none, and what calls keep for those like them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "compress_reference.h"

/* ---- Bypass, and the codec of calls that name none ---- */

/* What is sent plain takes what was lost before along: afterwards nothing is owed. */
static void bypassed_steps(int rank, int nranks, void *arg)
{
    enum { COUNT = 3000 };
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    double sent = 0, given = 0;
    struct reference r;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    reference_open(&r, "int2", nranks, COUNT, WEFT_FLOAT32);
    options.tensor = 3;
    for (int step = 0; step < 6; step++) {
        float *src = floats(COUNT), *dst = step % 2 ? src : floats(COUNT);
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_FLOAT32);
        call.options = &options;
        call.op = WEFT_AVG;
        options.codec = step % 3 == 2 ? "int2:ef=1" : "int2:ef=1,bypass=never";
        options.algorithm = step % 3 == 2 ? "ring" : "coded2";
        fill(&r, step);
        memcpy(src, r.given[rank], COUNT * sizeof *src);
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        for (size_t i = 0; i < COUNT; i++) {
            sent += (double)dst[i] * (double)((i & 7) + 1);
            for (int k = 0; k < nranks; k++)
                given += (double)r.given[k][i] / nranks * (double)((i & 7) + 1);
        }
        if (step % 3 == 2 && fabs(sent - given) > 1e-3)
            wt_fail(__FILE__, __LINE__, "after step %d %g was sent of %g", step, sent, given);
        if (step % 3 == 1)
            WT_CHECK(fabs(sent - given) > 1e-2);
        if (dst != src)
            free(dst);
        free(src);
    }
    reference_close(&r);
    ft_close(&f);
}

/* WEFT_COMPRESS is for sums of floats. */
static void unchanged_program(int rank, int nranks, void *arg)
{
    enum { COUNT = 5000 };
    struct reference r;
    struct ft_rank f;
    float *dst = floats(COUNT * 3), *src = floats(COUNT);
    int32_t word = rank, sum;

    setenv("WEFT_COMPRESS", "sign:block=64,bypass=never,min=1K", 1);
    setenv("WEFT_ALGO", "all_reduce:coded2", 1);
    ft_create(&f, arg, 20000, rank, nranks);
    reference_open(&r, "sign:block=64", nranks, COUNT, WEFT_FLOAT32);
    fill(&r, 1);
    memcpy(src, r.given[rank], COUNT * sizeof *src);
    for (int i = 0; i < 3; i++) {
        WT_CHECK_OK(weft_all_reduce(f.comm, src, dst, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
        all_reduce(&r, 2);
        expect_near_bits(&f, "all_reduce", dst, r.result, COUNT);
        WT_CHECK_OK(weft_all_reduce(f.comm, &word, &sum, 1, WEFT_INT32, WEFT_SUM, NULL));
        WT_CHECK_INT(sum, nranks * (nranks - 1) / 2);
        WT_CHECK_OK(weft_all_gather(f.comm, src, dst, COUNT, WEFT_FLOAT32, NULL));
        expect_near_bits(&f, "all_gather", dst + COUNT * (rank ? 0 : 1), r.given[rank ? 0 : 1], COUNT);
        WT_CHECK_OK(weft_all_reduce(f.comm, src, dst, 100, WEFT_FLOAT32, WEFT_MAX, NULL));
        for (size_t k = 0; k < 100; k++)
            WT_CHECK(dst[k] >= src[k]);
    }
    reference_close(&r);
    ft_close(&f);
    free(dst);
    free(src);
}

/* ---- Calls that are like earlier ones ---- */

/* By the algorithm that the planner chose; 0: plain. */
static int newest_shots(struct ft_rank *f)
{
    const char *name;

    WT_REQUIRE_OK(weft_comm_newest_algorithm(f->comm, &name));
    return !strcmp(name, "coded") ? 1 : !strcmp(name, "coded2") ? 2 : 0;
}

/* What the library keeps of a call serves calls of the same codec: several codecs, two tensors and none, in turn, of one length. */
static void codecs_in_turn(int rank, int nranks, void *arg)
{
    static const struct {
        const char *codec, *parsed;
        uint64_t tensor;
    } turns[] = {{"int8:bypass=never", "int8", 0},
                 {"int4:block=64,bypass=never", "int4:block=64", 0},
                 {"int8", "int8", 0}, /* which shared memory need not be spared */
                 {"int4:block=64,ef=1,bypass=never", "int4:block=64", 7},
                 {"none", "int8", 0},
                 {"int4:block=64,ef=1,bypass=never", "int4:block=64", 8}};
    enum { COUNT = 20000, TURNS = sizeof turns / sizeof *turns, STEPS = 4 };
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r[TURNS];
    struct ft_rank f;
    float *src = floats(COUNT), *dst = floats(COUNT), *plain = floats(COUNT);
    int coded = 0;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int t = 0; t < TURNS; t++) {
        reference_open(&r[t], turns[t].parsed, nranks, COUNT, WEFT_FLOAT32);
        r[t].feedback = turns[t].tensor != 0;
    }
    for (int step = 0; step < STEPS * TURNS; step++) {
        int t = step % TURNS, shots;
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_FLOAT32);
        weft_request *req;
        fill(&r[t], step);
        memcpy(src, r[t].given[rank], COUNT * sizeof *src);
        WT_CHECK_OK(weft_all_reduce(f.comm, src, plain, COUNT, WEFT_FLOAT32, WEFT_SUM, NULL));
        options.codec = turns[t].codec;
        options.tensor = turns[t].tensor;
        call.options = &options;
        if ((step / TURNS + rank) % 2) { /* some ranks wait in the call, others afterwards */
            WT_REQUIRE_OK(weft_issue(f.comm, &call, &req));
            WT_CHECK_OK(weft_wait(req));
        } else {
            WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        }
        shots = newest_shots(&f);
        WT_CHECK(shots || strstr(turns[t].codec, "never") == NULL);
        coded += shots != 0;
        if (shots)
            all_reduce(&r[t], shots);
        expect_near_bits(&f, turns[t].codec, dst, shots ? r[t].result : plain, COUNT);
    }
    WT_CHECK(coded >= 4 * STEPS);
    for (int t = 0; t < TURNS; t++)
        reference_close(&r[t]);
    ft_close(&f);
    free(src);
    free(dst);
    free(plain);
}

/* With WEFT_COMPRESS, where plain data is faster: ranks that take the fast path and ranks that do not. */
static void bypassed_program(int rank, int nranks, void *arg)
{
    static const size_t lengths[] = {1, 2, 100, 1000, 3000, 20000};
    enum { MOST_HERE = 20000, ROUNDS = 30 };
    float *src = floats(MOST_HERE), *dst = floats(MOST_HERE);
    struct ft_rank f;

    setenv("WEFT_COMPRESS", "int8:min=100", 1);
    ft_create(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = lengths[i % 6];
        weft_request *req;
        for (size_t k = 0; k < n; k++)
            src[k] = (float)(rank + i) + (float)(k % 100);
        if ((i / 6 + rank) % 3) {
            WT_CHECK_OK(weft_all_reduce(f.comm, src, dst, n, WEFT_FLOAT32, WEFT_SUM, NULL));
        } else {
            WT_REQUIRE_OK(weft_all_reduce(f.comm, src, dst, n, WEFT_FLOAT32, WEFT_SUM, &req));
            WT_CHECK_OK(weft_wait(req));
        }
        if (newest_shots(&f)) /* this machine's links need it */
            continue;
        for (size_t k = 0; k < n; k++)
            if (dst[k] != (float)(nranks * i + nranks * (nranks - 1) / 2) + (float)nranks * (float)(k % 100)) {
                wt_fail(__FILE__, __LINE__, "round %d, %zu elements: element %zu is %g", i, n, k, (double)dst[k]);
                break;
            }
    }
    ft_close(&f);
    free(src);
    free(dst);
}

/* ---- Blocking calls that name a codec, as if they named none ---- */

static weft_status named(struct ft_rank *f, const char *codec, uint64_t tensor, weft_op op, size_t n)
{
    static float src[5000], dst[5000];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    char text[100];
    weft_status st;

    snprintf(text, sizeof text, "%s", codec); /* another place each time would do, too */
    options.codec = text;
    options.tensor = tensor;
    call.op = op;
    call.options = &options;
    for (size_t i = 0; i < n; i++)
        src[i] = (float)(i % 5) + 1;
    st = weft_issue(f->comm, &call, NULL);
    if (st >= 0 && n && strcmp(codec, "none") != 0) { /* what the recorder says does not depend on how it was issued */
        WT_CHECK_OK(weft_comm_newest_collective(f->comm, &info));
        WT_CHECK_STR(info.codec, strncmp(codec, "sharedint", 9) ? "int8" : "sharedint");
        WT_CHECK_INT(info.bypassed, 1);
        WT_CHECK_INT((int)info.tensor, (int)tensor);
    }
    for (size_t i = 0; st >= 0 && i < n; i++)
        if (dst[i] != (float)f->nranks * src[i]) {
            wt_fail(__FILE__, __LINE__, "%s: element %zu of %zu is %g", codec, i, n, (double)dst[i]);
            break;
        }
    return st;
}

struct named {
    const char *transport, *codec[2];
    uint64_t tensor[2];
};

/* What was learnt is still compared, and what cannot be coded still refused. */
static void named_codecs(int rank, int nranks, void *arg)
{
    const struct named *n = arg;
    struct ft_rank f;

    ft_open(&f, n->transport, 20000, rank, nranks);
    for (int i = 0; i < 12; i++)
        WT_CHECK_OK(named(&f, n->codec[0], n->tensor[0], WEFT_SUM, i % 3 == 2 ? 5000 : i % 3 == 1 ? 300 : 2));
    WT_CHECK_STATUS(named(&f, n->codec[0], n->tensor[0], WEFT_MAX, 2), WEFT_ENOTSUP);
    WT_CHECK_STATUS(named(&f, "int8:blok=1", 0, WEFT_SUM, 2), WEFT_EINVAL);
    WT_CHECK_STATUS(named(&f, "int8:ef=1", 0, WEFT_SUM, 2), WEFT_EINVAL);
    WT_CHECK_OK(named(&f, "none", 0, WEFT_MAX, 0));
    WT_CHECK_OK(named(&f, n->codec[0], n->tensor[0], WEFT_SUM, 2));
    WT_CHECK_STATUS(named(&f, n->codec[rank], n->tensor[rank], WEFT_SUM, 2), WEFT_EMISMATCH);
    ft_close(&f);
}

static void named_calls(void)
{
    static const struct named cases[] = {{"shm", {"int8:min=0", "int4"}, {0, 0}},
                                         {"shm", {"int8", "int8:min=100"}, {0, 0}},
                                         {"shm", {"int8", "int8"}, {1, 2}},
                                         {"shm", {"int8", "none"}, {0, 0}},
                                         {"shm", {"sharedint", "int8"}, {3, 3}}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct named n = cases[i];
        CU_ASSERT_EQUAL(wt_run(2, named_codecs, &n, 60000), 0);
    }
}

static void kept_calls(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, codecs_in_turn, "codecs in turn", 60000), 0);
    CU_ASSERT_EQUAL(ft_run_everywhere(2, bypassed_program, "bypassed", 60000), 0);
}

static void bypass(void)
{
    CU_ASSERT_EQUAL(wt_run(3, bypassed_steps, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, bypassed_steps, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, unchanged_program, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, unchanged_program, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"plain after all, and a codec that no call names", bypass},
    {"calls that differ in their codec, or in their form", kept_calls},
    {"blocking calls that name a codec", named_calls},
};
WT_UNIT_MAIN("compress_kept", cases)
