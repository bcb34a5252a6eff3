/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch of imported programs. A file's scratch chunks hold any block of the vector; weft's block t of TMP is as long as
 * block t mod nblocks of the vector. So each (chunk, block that it holds) gets a block of TMP that fits. The study of the
 * draft has shown that nothing races, so a chunk that holds one block after another may become several. Chunks that one step
 * names together stay together. */
#include "import/import_lower.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

static int compare_uses(const void *a, const void *b)
{
    const struct wi_imp_use *x = a, *y = b;

    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

uint32_t wi_imp_scratch_at(const struct wi_imp_scratch *scratch, uint32_t chunk, uint32_t block)
{
    struct wi_imp_use key = {chunk, block, 0};

    if (!scratch->uses)
        return chunk;
    const struct wi_imp_use *use = bsearch(&key, scratch->uses, scratch->nuses, sizeof(key), compare_uses);
    return use ? use->at : 0; /* every use was collected */
}

/* Call `fn` for every region of scratch of a rank, with its step's number in the notes and the part of it. */
static void each_scratch(const struct wi_imp_lower *lo, int rank,
                         void (*fn)(void *arg, const struct wi_region *region, const uint32_t *blocks), void *arg)
{
    const struct wi_imp_rank *r = &lo->prog->ranks[rank];
    uint32_t step = lo->notes.first[rank];

    for (uint32_t l = 0; l < r->nlanes; l++) {
        for (uint32_t k = 0; k < r->lanes[l].nops; k++) {
            const struct wi_imp_op *op = &r->lanes[l].ops[k];
            uint32_t parts = wi_imp_parts(lo, r, op);
            for (uint32_t part = 0; part < parts; part++, step++) {
                for (unsigned i = 0; i < (unsigned)op->ndst + op->nsrc; i++) {
                    struct wi_region region = r->regions[op->regions + i];
                    if (lo->split) {
                        region.first += part;
                        region.count = 1;
                    }
                    if (region.buf == WI_TMP)
                        fn(arg, &region, &lo->notes.blocks[lo->notes.block_at[step]]);
                }
            }
        }
    }
}

struct collect {
    struct wi_imp_use *uses;
    uint64_t n;
    uint8_t *joined; /* by chunk: a step names it and the next one */
};

static void count_uses(void *arg, const struct wi_region *region, const uint32_t *blocks)
{
    struct collect *c = arg;

    (void)blocks;
    c->n += region->count;
}

static void take_uses(void *arg, const struct wi_region *region, const uint32_t *blocks)
{
    struct collect *c = arg;

    for (uint32_t i = 0; i < region->count; i++) {
        c->uses[c->n++] = (struct wi_imp_use){region->first + i, blocks[i], 0};
        if (i + 1 < region->count)
            c->joined[region->first + i] = 1;
    }
}

static uint32_t distinct(struct wi_imp_use *uses, uint64_t n)
{
    uint32_t kept = 0;

    qsort(uses, n, sizeof(*uses), compare_uses);
    for (uint64_t i = 0; i < n; i++) {
        if (kept == 0 || compare_uses(&uses[kept - 1], &uses[i]))
            uses[kept++] = uses[i];
    }
    return kept;
}

/* End of the run of uses from `from` on that must stay together; 0: they cannot. */
static uint32_t run_end(const struct collect *c, uint32_t nuses, uint32_t from)
{
    uint32_t k = from;

    while (c->joined[c->uses[k].chunk]) {
        if (k + 1 == nuses || c->uses[k + 1].chunk != c->uses[k].chunk + 1 ||
            c->uses[k + 1].block != c->uses[k].block + 1)
            return 0;
        k++;
    }
    /* A chunk that ends a run may not hold another block, either: which of them the run means is not known here. */
    if (k > from && k + 1 < nuses && c->uses[k + 1].chunk == c->uses[k].chunk)
        return 0;
    return k + 1;
}

/* First fit: the lowest layer of nblocks in which the run's blocks are free. taken[layer * nblocks + block]. */
static int place_run(struct wi_imp_use *uses, uint32_t n, uint32_t nblocks, uint8_t *taken, uint32_t *lowest,
                     uint32_t *blocks)
{
    uint32_t layers = WI_SCHED_MAX_BLOCKS / nblocks, first = uses[0].block;

    for (uint32_t layer = lowest[first]; layer < layers; layer++) {
        uint8_t *at = taken + (size_t)layer * nblocks + first;
        if (memchr(at, 1, n))
            continue;
        memset(at, 1, n);
        for (uint32_t i = 0; i < n; i++) {
            uses[i].at = layer * nblocks + first + i;
            if (lowest[first + i] == layer)
                lowest[first + i]++;
        }
        if (uses[n - 1].at >= *blocks)
            *blocks = uses[n - 1].at + 1;
        return 0;
    }
    return -1;
}

static int place_all(struct wi_imp_lower *lo, struct collect *c, struct wi_imp_scratch *s, weft_status *status)
{
    uint32_t nblocks = lo->prog->nblocks;
    uint8_t *taken = wi_calloc(WI_SCHED_MAX_BLOCKS, 1);
    uint32_t *lowest = wi_calloc(nblocks, sizeof(*lowest));
    int again = 0;

    *status = taken && lowest ? WEFT_SUCCESS : wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory to lay out scratch");
    for (uint32_t k = 0; *status == WEFT_SUCCESS && !again && k < s->nuses;) {
        uint32_t end = run_end(c, s->nuses, k);
        again = end == 0;
        if (!again && place_run(&s->uses[k], end - k, nblocks, taken, lowest, &s->blocks))
            *status = wi_imp_fail(lo->prog, WEFT_ENOTSUP, 0, "more than %u blocks of scratch", WI_SCHED_MAX_BLOCKS);
        k = end;
    }
    wi_free(taken);
    wi_free(lowest);
    return again;
}

int wi_imp_place_scratch(struct wi_imp_lower *lo, int rank, weft_status *status)
{
    struct wi_imp_scratch *s = &lo->scratch[rank];
    struct collect c = {0};
    int again = 0;

    *status = WEFT_SUCCESS;
    s->blocks = lo->tmp_chunks[rank];
    if (lo->prog->mapped || !wi_coll_is_vector(lo->prog->coll) || lo->prog->nblocks == 1)
        return 0;
    each_scratch(lo, rank, count_uses, &c);
    s->blocks = 0;
    if (c.n == 0)
        return 0;
    c.uses = wi_malloc(c.n * sizeof(*c.uses));
    c.joined = wi_calloc((size_t)lo->tmp_chunks[rank] + 1, 1);
    c.n = 0;
    if (c.uses && c.joined) {
        each_scratch(lo, rank, take_uses, &c);
        s->uses = c.uses;
        s->nuses = distinct(c.uses, c.n);
        again = place_all(lo, &c, s, status);
    } else {
        wi_free(c.uses);
        *status = wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory to lay out scratch");
    }
    wi_free(c.joined);
    return again;
}
