/* Compressed collectives of ranks on several nodes: only what nodes send each other is coded. What every rank gets, bit for bit,
 * against a reference that follows the definition with whole vectors: the nodes' sums, coded as if each node were a rank.
 * Nodes are names that WEFT_NODE_ID gives, as in test_levels.sh.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "compress/codec.h"

enum { NODES = 2, MAX_RANKS = 8, STEPS = 4 };
static const size_t counts[] = {1, 100, 5000, 70001};

static float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

/* A node's sum has the same bits in any order. */
static float value(int rank, int step, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + i + 1) * 0x9e3779b97f4a7c15u;

    return ((float)(h >> 50) - 8192.0f) / 1024.0f * (i % 5 ? 1 : 16);
}

/* One rank's. */
static void give(float *v, int rank, int step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = value(rank, step, i);
    if (step == 2 && rank == 1 && n > 70)
        v[70] = NAN;
}

/* ---- The reference ---- */

struct reference {
    struct weft_codec codec;
    int locals, feedback, avg;
    size_t count;
    float *sum[NODES];      /* of each node's ranks */
    float *residual[NODES]; /* of whoever in the node encodes an element: it is always the same rank */
    float *owed, *result;
};

static void open_reference(struct reference *r, const char *codec, int locals, size_t count)
{
    *r = (struct reference){.locals = locals, .count = count, .owed = floats(count), .result = floats(count)};
    WT_REQUIRE_OK(wi_codec_parse(codec, &r->codec));
    for (int k = 0; k < NODES; k++) {
        r->sum[k] = floats(count);
        r->residual[k] = floats(count);
    }
}

static void close_reference(struct reference *r)
{
    for (int k = 0; k < NODES; k++) {
        free(r->sum[k]);
        free(r->residual[k]);
    }
    free(r->owed);
    free(r->result);
}

static void sum_nodes(struct reference *r, int step)
{
    float *one = floats(r->count);

    for (int rank = 0; rank < NODES * r->locals; rank++) {
        float *sum = r->sum[rank / r->locals];
        give(one, rank, step, r->count);
        for (size_t i = 0; i < r->count; i++)
            sum[i] = rank % r->locals ? sum[i] + one[i] : one[i];
    }
    free(one);
}

static void pass(const struct reference *r, const float *of, float *residual, size_t n, float *held)
{
    void *image = malloc(wi_codec_bytes(&r->codec, n) + 1);

    WT_REQUIRE(image != NULL);
    wi_codec_encode(&r->codec, of, r->feedback ? residual : NULL, n, image);
    wi_codec_decode(&r->codec, image, n, held);
    free(image);
}

/* Elements [at, at + n), whose sum a rank of node `owner` makes from its node's exact one and from images, and sends as an image
 * (`again`: of reduce_scatter it keeps it). -1: all make it from the images of all. */
static void sum_range(struct reference *r, size_t at, size_t n, int owner, int again)
{
    float *held[NODES], *out = r->result + at;

    for (int k = 0; k < NODES; k++) {
        held[k] = floats(n);
        if (k == owner)
            memcpy(held[k], r->sum[k] + at, n * sizeof **held);
        else
            pass(r, r->sum[k] + at, r->residual[k] + at, n, held[k]);
        for (size_t i = 0; i < n; i++)
            out[i] = k ? out[i] + held[k][i] : held[k][i];
    }
    for (size_t i = 0; r->avg && i < n; i++)
        out[i] *= 1.0f / (float)(NODES * r->locals);
    if (again)
        pass(r, out, r->owed + at, n, out);
    for (int k = 0; k < NODES; k++) { /* what is not finite was not sent: all but reduce_scatter take it back */
        for (size_t i = 0; i < n && r->feedback && k != owner && (again || owner < 0); i++)
            if (isnan(out[i]) && !isnan(held[k][i]))
                r->residual[k][at + i] = r->residual[k][at + i] + held[k][i] - r->sum[k][at + i];
        free(held[k]);
    }
}

/* The vector is cut into a shard for each local rank, and in two shots each of those into a block for each node. */
static void reduce_all(struct reference *r, int shots, int shards)
{
    size_t items = (size_t)shards * (shots == 2 ? NODES : 1), each = r->codec.block,
           block = ((r->count + items - 1) / items + each - 1) / each * each;

    for (size_t i = 0; i < items && i * block < r->count; i++) {
        size_t left = r->count - i * block;
        sum_range(r, i * block, left < block ? left : block, shots == 2 ? (int)(i % NODES) : -1, shots == 2);
    }
}

/* ---- Calls ---- */

static void expect_bits(const char *what, int rank, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i]))) {
            wt_fail(__FILE__, __LINE__, "%s, rank %d of %zu elements: element %zu is %g instead of %g", what, rank, n,
                    i, (double)got[i], (double)want[i]);
            return;
        }
}

static uint64_t tensors;

static void all_reduces_by(struct ft_rank *f, const char *spec, int shots, int leader, size_t count)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int locals = f->nranks / NODES;
    struct reference r;

    open_reference(&r, "int4:block=64", locals, count);
    options.codec = "int4:block=64,ef=1,bypass=never";
    options.algorithm = spec;
    options.tensor = ++tensors;
    r.feedback = 1;
    for (int step = 0; step < STEPS; step++) {
        float *src = floats(count), *dst = step % 2 ? src : floats(count);
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, count, WEFT_FLOAT32);
        call.op = tensors % 2 ? WEFT_AVG : WEFT_SUM;
        call.options = &options;
        r.avg = tensors % 2;
        give(src, f->rank, step, count);
        sum_nodes(&r, step);
        reduce_all(&r, shots, leader ? 1 : locals);
        WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
        expect_bits(spec, f->rank, dst, r.result, count);
        if (dst != src)
            free(dst);
        free(src);
    }
    close_reference(&r);
}

/* Shares may differ in length (`v`). The owner's node has its sum exact. */
static void reduce_scatters_by(struct ft_rank *f, const char *spec, int v, size_t share)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int locals = f->nranks / NODES;
    size_t shares[MAX_RANKS], at[MAX_RANKS + 1] = {0};
    struct reference r;

    for (int k = 0; k < f->nranks; k++) {
        shares[k] = v ? share * (size_t)(k % 3) + (size_t)k : share;
        at[k + 1] = at[k] + shares[k];
    }
    open_reference(&r, "int8", locals, at[f->nranks]);
    options.codec = "int8:ef=1,bypass=never";
    options.algorithm = spec;
    options.tensor = ++tensors;
    r.feedback = 1;
    for (int step = 0; step < 2; step++) {
        float *src = floats(at[f->nranks]), *dst = floats(shares[f->rank]);
        weft_call call =
            wt_call(v ? WEFT_KIND_REDUCE_SCATTER_V : WEFT_KIND_REDUCE_SCATTER, src, dst, v ? 0 : share, WEFT_FLOAT32);
        call.options = &options;
        call.send_counts = v ? shares : NULL;
        give(src, f->rank, step, at[f->nranks]);
        sum_nodes(&r, step);
        for (int k = 0; k < f->nranks; k++)
            sum_range(&r, at[k], shares[k], k / locals, 0);
        WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
        expect_bits(spec, f->rank, dst, r.result + at[f->rank], shares[f->rank]);
        free(dst);
        free(src);
    }
    close_reference(&r);
}

/* All have what the image of a share holds. */
static void all_gathers_by(struct ft_rank *f, const char *spec, int v, size_t share)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    size_t shares[MAX_RANKS], at[MAX_RANKS + 1] = {0};
    float *src, *dst, *want;
    struct reference r;
    weft_call call;

    for (int k = 0; k < f->nranks; k++) {
        shares[k] = v ? share * (size_t)(k % 3) + (size_t)k : share;
        at[k + 1] = at[k] + shares[k];
    }
    open_reference(&r, "int6", 1, 1);
    src = floats(share * 3 + MAX_RANKS);
    dst = floats(at[f->nranks]);
    want = floats(at[f->nranks]);
    for (int k = 0; k < f->nranks; k++) {
        give(src, k, 0, shares[k]);
        pass(&r, src, NULL, shares[k], want + at[k]);
    }
    give(src, f->rank, 0, shares[f->rank]);
    options.codec = "int6:bypass=never";
    options.algorithm = spec;
    call = wt_call(v ? WEFT_KIND_ALL_GATHER_V : WEFT_KIND_ALL_GATHER, src, dst, v ? 0 : share, WEFT_FLOAT32);
    call.options = &options;
    call.recv_counts = v ? shares : NULL;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    expect_bits(spec ? spec : "all_gather", f->rank, dst, want, at[f->nranks]);
    free(src);
    free(dst);
    free(want);
    close_reference(&r);
}

/* What a rank sends itself is exact; the others get what images hold, of lengths that only both ends know. */
static void exchanges_v(struct ft_rank *f)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    size_t send[MAX_RANKS], recv[MAX_RANKS], out = 0, in = 0;
    float *src, *dst, *want;
    struct reference r;
    weft_call call;

    for (int k = 0; k < f->nranks; k++) {
        send[k] = (size_t)(f->rank * 700 + k * 31) * (size_t)((f->rank + k) % 3);
        recv[k] = (size_t)(k * 700 + f->rank * 31) * (size_t)((f->rank + k) % 3);
        out += send[k];
        in += recv[k];
    }
    open_reference(&r, "int8", 1, 1);
    src = floats(out);
    dst = floats(in);
    want = floats(in);
    in = out = 0;
    for (int k = 0; k < f->nranks; k++) {
        float *one = floats(recv[k]);
        give(one, k, f->rank, recv[k]);
        give(src + out, f->rank, k, send[k]);
        if (k == f->rank)
            memcpy(want + in, one, recv[k] * sizeof *one);
        else
            pass(&r, one, NULL, recv[k], want + in);
        in += recv[k];
        out += send[k];
        free(one);
    }
    options.codec = "int8:min=1G"; /* no rank knows how long the longest call is: it is coded */
    call = wt_call(WEFT_KIND_ALL_TO_ALL_V, src, dst, 0, WEFT_FLOAT32);
    call.options = &options;
    call.send_counts = send;
    call.recv_counts = recv;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    expect_bits("all_to_all_v", f->rank, dst, want, in);
    free(src);
    free(dst);
    free(want);
    close_reference(&r);
}

/* All have what the root's image holds, the root too. */
static void broadcasts_by(struct ft_rank *f, const char *spec, size_t count)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r;

    open_reference(&r, "int4", 1, 1);
    options.codec = "int4:bypass=never";
    options.algorithm = spec;
    for (int root = 0; root < f->nranks; root++) {
        float *src = floats(count), *dst = root % 2 && f->rank == root ? src : floats(count), *want = floats(count);
        weft_call call = wt_call(WEFT_KIND_BROADCAST, src, dst, count, WEFT_FLOAT32);
        call.options = &options;
        call.root = root;
        give(src, root, 3, count);
        pass(&r, src, NULL, count, want);
        WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
        expect_bits(spec ? spec : "broadcast", f->rank, dst, want, count);
        free(want);
        if (dst != src)
            free(dst);
        free(src);
    }
    close_reference(&r);
}

static void on_nodes(int rank, int nranks, void *arg)
{
    const char *node = rank < nranks / NODES ? "one" : "two";
    struct ft_rank f;

    setenv("WEFT_NODE_ID", node, 1);
    setenv("WEFT_SHM_NODE_ID", node, 1);
    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        all_reduces_by(&f, "node:coded/linear", 1, 0, counts[i]);
        all_reduces_by(&f, "node:coded2/linear", 2, 0, counts[i]);
        all_reduces_by(&f, "node:coded2@leader/linear+knomial", 2, 1, counts[i]);
        all_reduces_by(&f, "node:coded2/flat", 2, 0, counts[i]);
        all_reduces_by(&f, "node:coded/flat", 1, 0, counts[i]);
        for (int v = 0; v < 2; v++) {
            reduce_scatters_by(&f, "node:coded/linear", v, counts[i] / 7 + 1);
            reduce_scatters_by(&f, "node:coded/flat", v, counts[i] / 7 + 1);
            all_gathers_by(&f, "node:coded", v, counts[i] / 7 + 1);
            all_gathers_by(&f, "node:coded/flat", v, counts[i] / 7 + 1);
            all_gathers_by(&f, NULL, v, counts[i] / 7 + 1);
        }
        broadcasts_by(&f, "coded", counts[i]);
        broadcasts_by(&f, "coded_chain", counts[i]);
        broadcasts_by(&f, "node:coded@leader/flat", counts[i]);
        broadcasts_by(&f, NULL, counts[i]);
    }
    exchanges_v(&f);
    ft_close(&f);
}

static void nodes(void)
{
    for (int locals = 2; locals <= MAX_RANKS / NODES; locals++)
        CU_ASSERT_EQUAL(wt_run(NODES * locals, on_nodes, (void *)(uintptr_t) "shm,tcp", 120000), 0);
}

static const struct wt_case cases[] = {{"of two nodes of 2, 3 and 4 ranks", nodes}};
WT_UNIT_MAIN("compress_nodes", cases)
