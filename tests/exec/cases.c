/* SPDX-License-Identifier: BSD-3-Clause */
#include "cases.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

const struct shape shapes[] = {
    {"2+2", 4, 2, 1, {0, 0, 1, 1}, {0}},
    {"3+2 dealt", 5, 2, 1, {0, 1, 0, 1, 0}, {0}},
    {"2+2+2 dealt", 6, 3, 1, {0, 1, 2, 0, 1, 2}, {0}},
    {"3+1+4", 8, 3, 1, {0, 0, 0, 1, 2, 2, 2, 2}, {0}},
    {"2+1, 3+3", 9, 4, 2, {0, 0, 1, 2, 2, 2, 3, 3, 3}, {0, 0, 0, 1, 1, 1, 1, 1, 1}},
    {"4 x 4 dealt",
     16,
     4,
     2,
     {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
     {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}},
};
const size_t nshapes = sizeof shapes / sizeof *shapes;

/* ---- Forms ---- */

int form_has_root(enum wi_coll coll)
{
    coll = wi_algo_family(coll);
    return coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_GATHER || coll == WI_COLL_SCATTER;
}

static int has_in_place(enum wi_coll coll)
{
    coll = wi_algo_family(coll);
    return coll != WI_COLL_ALL_TO_ALL && coll != WI_COLL_BARRIER;
}

enum wi_coll form_next_coll(const struct wi_algo *algo, enum wi_coll coll)
{
    if (coll == WI_NUM_COLLS)
        return algo->coll;
    for (int c = coll == algo->coll ? 0 : (int)coll + 1; c < WI_NUM_COLLS; c++)
        if (c != (int)algo->coll && wi_algo_family((enum wi_coll)c) == algo->coll && !(algo->needs & WI_ALGO_UNIFORM))
            return (enum wi_coll)c;
    return WI_NUM_COLLS;
}

/* As a rank calls it: only the root knows that a call with a root is in place. */
static int build_all(struct form *f, const struct wi_algo *algo, const struct wi_algo_levels *levels,
                     const struct wi_hier_spec *spec, struct wi_sched **scheds)
{
    for (int r = 0; r < f->nranks; r++) {
        struct wi_algo_args args = {.rank = r,
                                    .nranks = f->nranks,
                                    .root = f->root,
                                    .in_place = f->in_place && (!form_has_root(f->coll) || r == f->root),
                                    .levels = levels,
                                    .spec = spec};
        weft_status st = algo->build(&args, &scheds[r]);
        if (st == WEFT_ENOTSUP && spec) { /* what the spec combines does not fit together */
            form_put(f);
            return 0;
        }
        if (st < 0) {
            printf("# %s/%s P=%d: %s\n", wi_coll_name(f->coll), f->name, f->nranks, wi_fail_text());
            form_put(f);
            return -1;
        }
    }
    return 1;
}

int form_build(struct form *f, const struct wi_algo *algo, enum wi_coll coll, int nranks, int root, int in_place)
{
    *f = (struct form){.coll = coll, .needs = algo->needs, .nranks = nranks, .root = root, .in_place = in_place != 0};
    snprintf(f->name, sizeof f->name, "%s", algo->name);
    if ((in_place && (algo->needs & WI_ALGO_NO_IN_PLACE || !has_in_place(coll))) ||
        wi_algo_ranks_needed(algo->needs, nranks))
        return 0;
    return build_all(f, algo, NULL, NULL, f->sched);
}

int form_build_spec(struct form *f, const char *spec, enum wi_coll coll, const struct shape *shape, int root,
                    int in_place)
{
    struct wi_algo_levels levels = {
        .nlevels = 2, .level = {{"rack", shape->nracks, shape->rack}, {"node", shape->nnodes, shape->node}}};
    const struct wi_algo *beside = wi_algo_find(WI_COLL_ALL_TO_ALL, "pairwise");
    struct wi_algo_choice choice;

    *f = (struct form){.coll = coll, .nranks = shape->nranks, .root = root, .in_place = in_place != 0};
    if (wi_algo_choose(coll, spec, &levels, shape->nranks, &choice) < 0)
        return 0;
    wi_algo_text(choice.algo, &choice.spec, f->name);
    f->needs = choice.needs;
    f->packed = coll == WI_COLL_ALL_TO_ALL_V;
    memcpy(f->group, shape->node, sizeof f->group);
    if ((in_place && (choice.needs & WI_ALGO_NO_IN_PLACE || !has_in_place(coll))) ||
        (form_is_v(f) && choice.needs & WI_ALGO_UNIFORM))
        return 0;
    if (f->packed && (!beside || build_all(f, beside, NULL, NULL, f->beside) < 0))
        return -1;
    return build_all(f, choice.algo, &levels, &choice.spec, f->sched);
}

/* ---- What a run draws ---- */

static size_t draw_slice(enum size size, uint64_t *rng)
{
    static const size_t few[] = {1, 64, 128, 200, 256}, many[] = {512, 1024, 4096, 8192, SIZE_MAX};

    if (size >= SIZE_LONG)
        return size == SIZE_HUGE || fake_random(rng, 2) ? SIZE_MAX : 4096;
    return size >= SIZE_PAGE ? many[fake_random(rng, 5)] : few[fake_random(rng, 5)];
}

#define CODED_ITEM ((8 * 32u << 2) * sizeof(float)) /* the longest block of a codec that a call draws */

/* Slots: the least that there may be; some more; all of a block of 16 KiB for each rank. */
static void draw_arena(struct world_knobs *k, const struct form *f, enum size size, uint64_t *rng)
{
    int nranks = f->nranks;
    static const uint32_t lines[] = {1, 3, 8, 40};
    size_t least = WEFT_SLOT_MIN_BYTES(nranks);

    k->fake.depth = 2u << fake_random(rng, 3);
    k->fake.ll_depth = 2u << fake_random(rng, 3);
    k->fake.ll_lines = lines[fake_random(rng, 4)];
    k->fake.slot_bytes = fake_random(rng, 2) ? least : least + 64 * fake_random(rng, 64);
    if (size >= SIZE_PAGE && fake_random(rng, 4))
        k->fake.slot_bytes = (size_t)(nranks + 1) * (size >= SIZE_LONG ? 20u << 10 : 4096 + 64 * fake_random(rng, 40));
    if (form_is_staged(f)) { /* a line for each item, or all of a block for some of them */
        least = f->sched[0]->slot_items * (f->needs & WI_ALGO_CODED ? CODED_ITEM : (size_t)WEFT_LINE_BYTES);
        k->fake.slot_bytes = k->fake.slot_bytes < least ? least : k->fake.slot_bytes;
        return; /* ranks of other groups read no lines: gates are for one group of all */
    }
    if (k->drive == DRIVE_QUEUED && fake_random(rng, 3) == 0) {
        size_t most = k->fake.ll_lines * sizeof(((struct weft_ll_line *)0)->payload);
        k->gate = 1 + (int)fake_random(rng, (uint32_t)(most < WI_EXCHANGE_MAX ? most : WI_EXCHANGE_MAX));
    }
}

static void draw_knobs(struct world_knobs *k, const struct form *f, enum size size, uint64_t *rng)
{
    k->fake.mapped = form_is_mapped(f) || form_is_staged(f);
    k->fake.eager = (uint8_t)fake_random(rng, 5);
    k->fake.late = (uint8_t)(fake_random(rng, 2) * fake_random(rng, 8));
    k->fake.lazy = (uint8_t)(fake_random(rng, 2) * fake_random(rng, 8));
    k->fake.pieces = fake_random(rng, 2) != 0;
    k->gate_first = k->drive == DRIVE_QUEUED && !f->packed && fake_random(rng, 4) == 0;
    k->ncalls = 1 + (int)fake_random(rng, size <= SIZE_EVEN && fake_random(rng, 4) == 0 ? MAX_CALLS : 2);
    for (int i = 0; i < MAX_CALLS; i++)
        k->slice_bytes[i] = i && fake_random(rng, 2) ? k->slice_bytes[0] : draw_slice(size, rng);
    k->nt_bytes = fake_random(rng, 4) ? SIZE_MAX : 0;
    k->get = f->needs & WI_ALGO_PEER_GET && fake_random(rng, 2);
    k->put = f->needs & WI_ALGO_PEER_PUT && fake_random(rng, 2);
    k->stream = fake_random(rng, 3) == 0;
    k->keep_programs = fake_random(rng, 4) != 0;
    k->slow = fake_random(rng, 2) ? -1 : (int)fake_random(rng, (uint32_t)f->nranks);
    k->turns = fake_random(rng, 4) != 0;
    if (k->fake.mapped)
        draw_arena(k, f, size, rng);
}

int form_runs_alone(const struct form *f)
{
    return form_is_mapped(f) && !form_is_v(f) && !(f->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET | WI_ALGO_PEER_PUT));
}

int form_run(const struct form *f, enum size size, enum drive drive, enum engine engine, uint64_t seed,
             struct world_seen *seen)
{
    uint64_t rng = (seed + 1) * 0x9e3779b97f4a7c15ull | 1;
    struct world_knobs k = {.drive = drive, .engine = engine};
    struct call *calls[MAX_CALLS] = {NULL};
    const char *wrong = NULL;
    char text[160];

    for (int i = 0; i < 4; i++)
        fake_random(&rng, 2);
    draw_knobs(&k, f, size, &rng);
    k.seed = k.fake.seed = rng;
    for (int i = 0; i < k.ncalls && !wrong; i++) {
        calls[i] = call_create(f, i, fake_random(&rng, 4) ? size : (enum size)fake_random(&rng, size + 1),
                               i ? calls[i - 1] : NULL, &rng);
        wrong = calls[i] ? NULL : "no memory";
    }
    if (!wrong)
        wrong = world_run(f, &k, calls, seen);
    for (int i = 0; i < k.ncalls; i++)
        call_destroy(calls[i]);
    if (!wrong)
        return 0;
    form_text(f, text, sizeof text);
    printf(
        "# %s, size %d, %s, engine %d, seed %llu (%d calls, slices of %zu, slots %u of %zu, %u ll lines, gates %d, %d, get %d, put "
        "%d): %s\n",
        text, (int)size, drive == DRIVE_ALONE ? "alone" : "queued", (int)engine, (unsigned long long)seed, k.ncalls,
        k.slice_bytes[0], k.fake.depth, k.fake.slot_bytes, k.fake.ll_lines, k.gate_first, k.gate, k.get, k.put, wrong);
    return -1;
}

/* ---- Campaigns ---- */

/* 512 KiB for each rank: what is cut finer than that has long blocks in other runs. */
static enum size fitting(const struct form *f, uint64_t n)
{
    enum size size = (enum size)(n % NUM_SIZES);
    size_t blocks = (size_t)f->sched[0]->nblocks * (size_t)f->nranks;

    if (size == SIZE_LONG && blocks > 16)
        size = SIZE_PAGE;
    return size == SIZE_PAGE && blocks > 128 ? SIZE_LINES : size;
}

void campaign_form(struct campaign *c, struct form *f)
{
    c->forms++;
    for (int i = 0; i < c->runs; i++) {
        uint64_t seed = c->seed++;
        enum drive drive = form_runs_alone(f) && seed / NUM_SIZES % 2 == 0 ? DRIVE_ALONE : DRIVE_QUEUED;
        for (enum engine engine = ENGINE_HOST; engine <= (seed % 2 ? ENGINE_LATE : ENGINE_HOST); engine++)
            c->failed += form_run(f, fitting(f, seed), drive, engine, seed, &c->seen) != 0;
    }
    form_put(f);
}

/* The one root that is run; -1: all of them. */
static int draw_root(const struct campaign *c, enum wi_coll coll, int nranks)
{
    if (!form_has_root(coll))
        return 0;
    return c->all_roots ? -1 : (int)(c->seed / 3 % (uint64_t)nranks);
}

static void define_form(struct campaign *c, struct form *f)
{
    char text[160];

    c->forms++;
    form_text(f, text, sizeof text);
    for (int i = 0; i < c->runs; i++) {
        uint64_t seed = c->seed++, rng = (seed + 1) * 0x9e3779b97f4a7c15ull | 1;
        struct call *call = call_create(f, 0, fitting(f, seed), NULL, &rng);
        const char *wrong = call ? call_interpret(call) : "no memory";
        if (!wrong && call->op != PLAIN_MIX)
            wrong = call_defined(call);
        if (wrong)
            printf("# %s, seed %llu: %s\n", text, (unsigned long long)seed, wrong);
        c->failed += wrong != NULL;
        call_destroy(call);
    }
    form_put(f);
}

static void each_form(struct campaign *c, const struct wi_algo *algo, int nranks,
                      void (*what)(struct campaign *c, struct form *f))
{
    struct form f;

    for (enum wi_coll coll = form_next_coll(algo, WI_NUM_COLLS); coll != WI_NUM_COLLS;
         coll = form_next_coll(algo, coll)) {
        int one = draw_root(c, coll, nranks);
        for (int root = 0; root < nranks; root++)
            for (int in_place = 0; in_place < 2 && (one < 0 || root == one); in_place++) {
                int built = form_build(&f, algo, coll, nranks, root, in_place);
                c->failed += built < 0;
                if (built > 0)
                    what(c, &f);
            }
    }
}

void campaign_algo(struct campaign *c, const struct wi_algo *algo, int nranks)
{
    each_form(c, algo, nranks, campaign_form);
}

void campaign_defined(struct campaign *c, const struct wi_algo *algo, int nranks)
{
    each_form(c, algo, nranks, define_form);
}

static void each_form_of_spec(struct campaign *c, const char *spec, enum wi_coll coll, const struct shape *shape,
                              void (*what)(struct campaign *c, struct form *f))
{
    int one = draw_root(c, coll, shape->nranks);
    struct form f;

    for (int root = 0; root < shape->nranks; root++)
        for (int in_place = 0; in_place < 2 && (one < 0 || root == one); in_place++) {
            int built = form_build_spec(&f, spec, coll, shape, root, in_place);
            c->failed += built < 0;
            if (built > 0 && c->wide)
                memcpy(f.group, shape->rack, sizeof f.group);
            if (built > 0)
                what(c, &f);
        }
}

void campaign_spec(struct campaign *c, const char *spec, enum wi_coll coll, const struct shape *shape)
{
    each_form_of_spec(c, spec, coll, shape, campaign_form);
}

void campaign_spec_defined(struct campaign *c, const char *spec, enum wi_coll coll, const struct shape *shape)
{
    each_form_of_spec(c, spec, coll, shape, define_form);
}
