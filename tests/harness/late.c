/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/harness/late.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"

#define LATE_MAX 7

struct wt_late wt_late;

struct late_engine {
    struct wi_engine engine;
    uint64_t rng;
};

static uint32_t draw(struct late_engine *e, uint32_t below)
{
    e->rng ^= e->rng << 13;
    e->rng ^= e->rng >> 7;
    e->rng ^= e->rng << 17;
    return (uint32_t)(e->rng >> 32) % below;
}

/* ---- What is seen of memory ---- */

static int overlaps_a_source(const struct wi_work *w, const unsigned char *dst, size_t bytes)
{
    for (uint32_t i = 0; i < w->nsrc; i++) {
        const unsigned char *src = w->src[i];
        if (src < dst + bytes && dst < src + wi_work_operand_bytes(w, w->ndst + i))
            return 1;
    }
    return 0;
}

/* A read that sees this comes too soon. */
static void spoil(const struct wi_work *w)
{
    const unsigned char *undo = w->kind == WI_WORK_CODE ? w->undo_of : NULL; /* read before it is written, in place */

    if (w->kind == WI_WORK_REDUCE && w->flags & WI_REDUCE_ADD) /* it is read */
        return;
    for (uint32_t i = 0; i < w->ndst && w->kind != WI_WORK_PUT && !w->to_peer; i++) {
        size_t bytes = wi_work_operand_bytes(w, i);
        if ((w->kind == WI_WORK_GET || !overlaps_a_source(w, w->dst[i], bytes)) && w->dst[i] != undo)
            memset(w->dst[i], 0x5c, bytes);
    }
}

static uint64_t print(const struct wi_work *w)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->nsrc && w->kind != WI_WORK_GET; i++) {
        const unsigned char *src = w->src[i];
        uint64_t word;
        size_t at = 0, bytes = wi_work_operand_bytes(w, w->ndst + i);
        for (; at + sizeof word <= bytes; at += sizeof word) {
            memcpy(&word, src + at, sizeof word);
            sum = (sum ^ word) * 0xff51afd7ed558ccdull;
        }
        for (; at < bytes; at++)
            sum = (sum ^ src[at]) * 0xff51afd7ed558ccdull;
    }
    return sum;
}

/* ---- The engine ---- */

static int part(struct late_engine *e, struct wi_work *w, int *moved)
{
    size_t grain = wi_work_grain(w), left = (w->bytes - w->at + grain - 1) / grain, n = left, bytes;

    if (!w->at && print(w) != w->print)
        return wi_fail(WEFT_EINTERNAL, "a source changed before it was read");
    if (left > 1 && draw(e, 3) == 0)
        n = 1 + draw(e, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX);
    bytes = n == left ? w->bytes - w->at : n * grain;
    WI_TRY(wi_work_do(w->exec, w, w->at, bytes));
    w->at += bytes;
    *moved = 1;
    atomic_fetch_add_explicit(&wt_late.parts, 1, memory_order_relaxed);
    return w->at == w->bytes;
}

static int post(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    struct late_engine *e = (struct late_engine *)engine;

    atomic_fetch_add_explicit(&wt_late.posted, 1, memory_order_relaxed);
    if (wt_late.fails)
        return wi_fail(WEFT_ESYS, "it was told to fail");
    w->late = draw(e, 4) ? (int)draw(e, LATE_MAX) : 0;
    w->print = print(w);
    spoil(w);
    *moved = 1;
    if (w->late || atomic_load(&wt_late.held))
        return 0;
    return part(e, w, moved);
}

static int poll(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    if (atomic_load(&wt_late.held) || w->late-- > 0) {
        atomic_fetch_add_explicit(&wt_late.late, 1, memory_order_relaxed);
        return 0;
    }
    w->late = 0;
    return part((struct late_engine *)engine, w, moved);
}

static int drain(struct wi_engine *engine, struct wi_work *w, uint64_t until_ns)
{
    (void)engine;
    (void)w;
    (void)until_ns;
    return wt_late.stuck > 0 ? --wt_late.stuck < 0 : 1;
}

static void destroy(struct wi_engine *engine)
{
    wi_free(engine);
}

static const struct wi_engine_ops late_ops = {"late", post, poll, drain, destroy};

struct wi_engine *wt_late_engine(struct wi_workers *workers)
{
    struct late_engine *e = wi_calloc(1, sizeof *e);
    uint64_t number = atomic_fetch_add(&wt_late.made, 1);

    (void)workers;
    if (!e)
        return NULL;
    e->engine.ops = &late_ops;
    e->rng = (wt_late.seed * 31 + number + 1) * 0x9e3779b97f4a7c15ull | 1;
    draw(e, 2);
    e->engine.receives_in_memory = draw(e, 2) != 0;
    return &e->engine;
}
