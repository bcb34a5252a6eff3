/* SPDX-License-Identifier: BSD-3-Clause */
/* From the program that a file tells to schedules that are proved; import_program.h says in which order. */
#include "import/import_lower.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

/* ---- Bounds on what the study will cost ---- */

static weft_status bound_work(const struct wi_imp_prog *prog)
{
    uint64_t words = ((uint64_t)prog->nranks + 63) / 64, work = 0, lanes = 0, waits = 0, longest = 0, cells = 0;

    for (int r = 0; r < prog->nranks; r++) {
        const struct wi_imp_rank *rank = &prog->ranks[r];
        lanes += rank->nlanes;
        cells +=
            rank->chunks[WI_TMP] + 2ull * prog->nblocks * (wi_coll_is_vector(prog->coll) ? 1 : (unsigned)prog->nranks);
        for (uint32_t i = 0; i < rank->nregions; i++)
            work += rank->regions[i].count;
        for (uint32_t l = 0; l < rank->nlanes; l++) {
            longest = rank->lanes[l].nops > longest ? rank->lanes[l].nops : longest;
            for (uint32_t k = 0; k < rank->lanes[l].nops; k++)
                waits += rank->lanes[l].ops[k].kind == WI_STEP_WAIT;
        }
    }
    if ((work + cells) * words > WI_IMPORT_MAX_WORK || lanes * prog->nops > 1ull << 30 || waits * longest > 1ull << 29)
        return wi_imp_fail(prog, WEFT_ENOTSUP, 0,
                           "too much to prove: %llu steps on %llu chunks in %llu thread blocks of %d ranks",
                           (unsigned long long)prog->nops, (unsigned long long)(work + cells),
                           (unsigned long long)lanes, prog->nranks);
    return WEFT_SUCCESS;
}

/* A step that receives, reduces and sends, and keeps nothing, gets scratch for what it sends. Shares are all equally long, so
 * a lane's steps may use the same; blocks of a vector are laid out later. */
static void invent_scratch(struct wi_imp_lower *lo, int rank)
{
    struct wi_imp_rank *r = &lo->prog->ranks[rank];
    int shared = !wi_coll_is_vector(lo->prog->coll);
    uint32_t next = r->chunks[WI_TMP];

    for (uint32_t l = 0; l < r->nlanes; l++) {
        uint32_t base = next, most = 0;
        for (uint32_t k = 0; k < r->lanes[l].nops; k++) {
            const struct wi_imp_op *op = &r->lanes[l].ops[k];
            if (!op->drops)
                continue;
            struct wi_region *dst = &r->regions[op->regions];
            dst->first = base;
            most = dst->count > most ? dst->count : most;
            next = base + most;
            if (!shared)
                base += dst->count, most = 0;
        }
        next = base + most > next ? base + most : next;
    }
    lo->tmp_chunks[rank] = next;
}

/* In place a copy of the input to where it lies is done already. */
static void drop_copies(struct wi_imp_prog *prog)
{
    struct wi_sched probe = {.coll = (uint8_t)prog->coll,
                             .nranks = prog->nranks,
                             .root = prog->root,
                             .nblocks = prog->nblocks,
                             .in_place = 1};

    for (int r = 0; r < prog->nranks; r++) {
        struct wi_imp_rank *rank = &prog->ranks[r];
        probe.rank = r;
        for (uint32_t l = 0; l < rank->nlanes; l++) {
            for (uint32_t k = 0; k < rank->lanes[l].nops; k++) {
                struct wi_imp_op *op = &rank->lanes[l].ops[k];
                if (op->kind != WI_STEP_COPY || op->ndst != 1)
                    continue;
                struct wi_region to = wi_sched_canonical(&probe, r, rank->regions[op->regions]);
                struct wi_region from = wi_sched_canonical(&probe, r, rank->regions[op->regions + 1]);
                if (to.buf != from.buf || to.first != from.first || to.rank != from.rank)
                    continue;
                op->kind = WI_STEP_NOP;
                op->ndst = op->nsrc = 0;
            }
        }
    }
}

/* ---- Building ---- */

struct emit {
    struct wi_imp_lower *lo;
    struct wi_imp_rank *rank;
    int number;
    struct wi_sched_builder *b;
    uint32_t step;     /* number in the notes */
    uint32_t *base;    /* per lane: where its ops' entries in `at` begin */
    uint32_t *at;      /* per op: its last step's index in the lane */
    uint32_t *ordinal; /* per op: of a SIGNAL; see fill_ordinals */
};

/* Of all ranks: a WAIT asks for another one's. */
struct signals {
    uint32_t **ordinal, **base;
};

static struct wi_region region_of(const struct emit *e, const struct wi_region *from, uint32_t part, uint32_t step)
{
    const struct wi_imp_lower *lo = e->lo;
    struct wi_region r = *from;

    if (lo->split) {
        r.first += part;
        r.count = 1;
    }
    if (lo->scratch && r.buf == WI_TMP && r.count)
        r.first = wi_imp_scratch_at(&lo->scratch[e->number], r.first, lo->notes.blocks[lo->notes.block_at[step]]);
    return r;
}

static void emit_part(struct emit *e, uint32_t lane, const struct wi_imp_op *op, uint32_t part, uint32_t number,
                      const struct signals *signals)
{
    struct wi_region local[64], *regions = local;
    uint32_t n = (uint32_t)op->ndst + op->nsrc;
    struct wi_step step = {
        .kind = op->kind, .ndst = op->ndst, .nsrc = op->nsrc, .dep_lane = WI_NO_DEP, .peer = WI_NO_PEER};

    if (n > 64 && !(regions = wi_malloc(n * sizeof(*regions)))) {
        e->b->status = WEFT_ENOMEM;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        regions[i] = region_of(e, &e->rank->regions[op->regions + i], part, number);
    if (!e->lo->draft && e->lo->notes.final[number])
        step.flags = WI_STEP_FINAL;
    if (op->kind == WI_STEP_WAIT) {
        step.peer = op->peer;
        step.lane = e->lo->merge ? 0 : (uint16_t)op->lane;
        step.ordinal = (uint16_t)signals->ordinal[op->peer][signals->base[op->peer][op->lane] + op->signal];
    }
    if (op->kind == WI_STEP_SIGNAL) {
        uint32_t ordinal = e->ordinal[e->base[lane] + (uint32_t)(op - e->rank->lanes[lane].ops)];
        if (ordinal == WI_NOWHERE) /* the one before publishes as much */
            step.kind = WI_STEP_NOP;
        else
            step.ordinal = ordinal < UINT16_MAX ? (uint16_t)ordinal : UINT16_MAX;
    }
    /* In one lane there is nothing to wait for. */
    if (!e->lo->merge || step.kind != WI_STEP_NOP)
        wi_sched_step_add(e->b, e->lo->merge ? 0 : lane, &step, regions, regions + op->ndst);
    if (regions != local)
        wi_free(regions);
}

static void emit_op(struct emit *e, uint32_t lane, uint32_t k, uint32_t number, const struct signals *signals)
{
    const struct wi_imp_op *op = &e->rank->lanes[lane].ops[k];
    uint32_t parts = wi_imp_parts(e->lo, e->rank, op);

    for (uint32_t part = 0; part < parts; part++) {
        emit_part(e, lane, op, part, number + part, signals);
        if (part == 0 && op->dep_lane != WI_NO_DEP && !e->lo->merge)
            wi_sched_after(e->b, lane, (uint32_t)op->dep_lane, e->at[e->base[op->dep_lane] + op->dep_op]);
    }
}

/* The order in which a run of the draft has done the steps of a rank. */
struct turn {
    uint32_t order, lane, op, number;
};

static int compare_turns(const void *a, const void *b)
{
    uint32_t x = ((const struct turn *)a)->order, y = ((const struct turn *)b)->order;

    return x < y ? -1 : x > y;
}

static uint32_t count_ops(const struct wi_imp_rank *rank)
{
    uint32_t n = 0;

    for (uint32_t l = 0; l < rank->nlanes; l++)
        n += rank->lanes[l].nops;
    return n;
}

/* All ops of a rank, lane by lane, or merged in the order of the run. The caller frees. */
static struct turn *turns_of(const struct wi_imp_lower *lo, int number)
{
    const struct wi_imp_rank *rank = &lo->prog->ranks[number];
    uint32_t n = 0, step = lo->notes.first ? lo->notes.first[number] : 0;
    struct turn *turns = wi_malloc((count_ops(rank) + 1) * sizeof(*turns));

    for (uint32_t l = 0; turns && l < rank->nlanes; l++) {
        for (uint32_t k = 0; k < rank->lanes[l].nops; k++) {
            turns[n] = (struct turn){lo->merge ? lo->order[number][n] : 0, l, k, step};
            n++;
            step += wi_imp_parts(lo, rank, &rank->lanes[l].ops[k]);
        }
    }
    if (turns && lo->merge)
        qsort(turns, n, sizeof(*turns), compare_turns);
    return turns;
}

/* Number a rank's signals, lane by lane. One that follows another with nothing in between is no signal of its own; it has
 * WI_NOWHERE in `own` and its forerunner's number in `ordinal`. */
static weft_status fill_ordinals(struct wi_imp_lower *lo, int number, const uint32_t *base, uint32_t *ordinal,
                                 uint32_t *own, uint32_t *most)
{
    const struct wi_imp_rank *rank = &lo->prog->ranks[number];
    struct turn *turns = turns_of(lo, number);
    uint32_t n = count_ops(rank), next = 0, lane = 0, fresh = 0;

    if (!turns)
        return wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory to order %u steps", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct wi_imp_op *op = &rank->lanes[turns[i].lane].ops[turns[i].op];
        uint32_t at = base[turns[i].lane] + turns[i].op;
        if (!lo->merge && turns[i].lane != lane)
            lane = turns[i].lane, next = fresh = 0;
        if (op->kind == WI_STEP_SIGNAL) {
            int joins = fresh && !lo->draft && (lo->merge || op->dep_lane == WI_NO_DEP);
            own[at] = joins ? WI_NOWHERE : next;
            next += !joins;
            ordinal[at] = next - 1;
            fresh = 1;
        } else if (op->kind != WI_STEP_NOP || (op->dep_lane != WI_NO_DEP && !lo->merge)) {
            fresh = 0;
        }
        *most = next > *most ? next : *most;
    }
    wi_free(turns);
    return WEFT_SUCCESS;
}

static void lay_out_lanes(struct emit *e)
{
    uint32_t next = 0;

    for (uint32_t l = 0; l < e->rank->nlanes; l++) {
        const struct wi_imp_lane *lane = &e->rank->lanes[l];
        uint32_t step = 0;
        e->base[l] = next;
        for (uint32_t k = 0; k < lane->nops; k++) {
            step += wi_imp_parts(e->lo, e->rank, &lane->ops[k]);
            e->at[next++] = step - 1;
        }
        if (!e->lo->merge)
            wi_sched_lane(e->b, lane->send_peer, lane->recv_peer, lane->chan);
    }
    if (e->lo->merge)
        wi_sched_lane(e->b, WI_NO_PEER, WI_NO_PEER, 0);
}

static weft_status begin(struct wi_imp_lower *lo, int number, struct wi_sched_builder **b)
{
    const struct wi_imp_prog *prog = lo->prog;
    struct wi_sched_spec spec = {.coll = prog->coll,
                                 .algo = prog->name,
                                 .rank = number,
                                 .nranks = prog->nranks,
                                 .root = prog->root,
                                 .in_place = prog->in_place,
                                 .nblocks = prog->nblocks,
                                 .share_blocks = prog->nblocks,
                                 .no_ll = 1};

    for (int r = prog->mapped ? 0 : number; r < (prog->mapped ? prog->nranks : number + 1); r++) {
        uint32_t blocks = lo->scratch ? lo->scratch[r].blocks : lo->tmp_chunks[r];
        spec.tmp_blocks = blocks > spec.tmp_blocks ? blocks : spec.tmp_blocks;
    }
    weft_status st = wi_sched_begin(&spec, b);
    if (st == WEFT_SUCCESS)
        (*b)->head.draft = (uint8_t)lo->draft;
    return st;
}

static weft_status refuse(const struct wi_imp_prog *prog, weft_status st, uint32_t number, uint32_t lane,
                          const struct wi_imp_op *op)
{
    char why[640], place[WI_IMP_PLACE_BYTES];
    int known = number < (uint32_t)prog->nranks;
    const struct wi_imp_lane *l = known && lane < prog->ranks[number].nlanes ? &prog->ranks[number].lanes[lane] : NULL;

    snprintf(why, sizeof(why), "%s", wi_fail_text());
    return wi_fail(st, "%s: refused: %s", wi_imp_place_text(prog, known ? (int)number : -1, l, l ? op : NULL, place),
                   why);
}

/* The op that step `step` of a draft's lane comes from. */
static const struct wi_imp_op *op_of(const struct wi_imp_lower *lo, uint32_t number, uint32_t lane, uint32_t step)
{
    if (number >= (uint32_t)lo->prog->nranks || lane >= lo->prog->ranks[number].nlanes)
        return NULL;
    const struct wi_imp_rank *rank = &lo->prog->ranks[number];
    for (uint32_t k = 0; k < rank->lanes[lane].nops; k++) {
        uint32_t parts = wi_imp_parts(lo, rank, &rank->lanes[lane].ops[k]);
        if (step < parts)
            return &rank->lanes[lane].ops[k];
        step -= parts;
    }
    return NULL;
}

static weft_status seal(struct emit *e, struct wi_sched **sched)
{
    struct wi_sched_place place;
    weft_status st = wi_sched_seal_at(e->b, sched, &place);

    if (st == WEFT_SUCCESS)
        return st;
    if (e->lo->merge)
        place.lane = WI_NOWHERE;
    return refuse(e->lo->prog, st, (uint32_t)e->number, place.lane,
                  op_of(e->lo, (uint32_t)e->number, place.lane, place.step));
}

static weft_status build_rank(struct wi_imp_lower *lo, int number, const struct signals *signals, uint32_t *own,
                              struct wi_sched **sched)
{
    struct wi_imp_rank *rank = &lo->prog->ranks[number];
    uint32_t nops = count_ops(rank);
    struct emit e = {.lo = lo, .rank = rank, .number = number, .base = signals->base[number], .ordinal = own};
    weft_status st = begin(lo, number, &e.b);
    struct turn *turns = turns_of(lo, number);

    e.at = wi_malloc((nops + 1) * sizeof(*e.at));
    if (st == WEFT_SUCCESS && (!e.at || !turns)) {
        wi_sched_abandon(e.b);
        st = wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory for %u steps", nops);
    }
    if (st == WEFT_SUCCESS) {
        lay_out_lanes(&e);
        for (uint32_t i = 0; i < nops; i++)
            emit_op(&e, turns[i].lane, turns[i].op, turns[i].number, signals);
        st = seal(&e, sched);
    }
    wi_free(turns);
    wi_free(e.at);
    return st;
}

static void free_signals(struct signals *s, uint32_t **own, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        wi_free(s->ordinal ? s->ordinal[r] : NULL);
        wi_free(s->base ? s->base[r] : NULL);
        wi_free(own ? own[r] : NULL);
    }
    wi_free(s->ordinal);
    wi_free(s->base);
    wi_free(own);
}

static weft_status number_signals(struct wi_imp_lower *lo, struct signals *s, uint32_t **own)
{
    uint32_t most = 0, lanes = 0;

    for (int r = 0; r < lo->prog->nranks; r++) {
        const struct wi_imp_rank *rank = &lo->prog->ranks[r];
        uint32_t n = count_ops(rank), next = 0;
        if (!s->ordinal[r]) {
            s->ordinal[r] = wi_malloc((n + 1) * sizeof(uint32_t));
            s->base[r] = wi_malloc((rank->nlanes + (size_t)1) * sizeof(uint32_t));
            own[r] = wi_malloc((n + 1) * sizeof(uint32_t));
        }
        if (!s->ordinal[r] || !s->base[r] || !own[r])
            return wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory for %u steps", n);
        for (uint32_t l = 0; l < rank->nlanes; l++) {
            s->base[r][l] = next;
            next += rank->lanes[l].nops;
        }
        WI_TRY(fill_ordinals(lo, r, s->base[r], s->ordinal[r], own[r], &most));
        lanes = rank->nlanes > lanes ? rank->nlanes : lanes;
    }
    if (lo->draft || lo->merge || !lo->prog->mapped ||
        (most <= WI_SCHED_MAX_SIGNALS && lanes <= WI_SCHED_MAX_MAPPED_LANES))
        return WEFT_SUCCESS;
    WI_TRY(wi_imp_order(lo));
    lo->merge = 1;
    return number_signals(lo, s, own);
}

static weft_status build_all(struct wi_imp_lower *lo, struct wi_sched **scheds)
{
    int n = lo->prog->nranks;
    struct signals s = {wi_calloc((size_t)n, sizeof(*s.ordinal)), wi_calloc((size_t)n, sizeof(*s.base))};
    uint32_t **own = wi_calloc((size_t)n, sizeof(*own));
    weft_status st = s.ordinal && s.base && own ? number_signals(lo, &s, own)
                                                : wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory for %d ranks", n);

    for (int r = 0; st == WEFT_SUCCESS && r < n; r++)
        st = build_rank(lo, r, &s, own[r], &scheds[r]);
    free_signals(&s, own, n);
    return st;
}

/* ---- Draft, study, final, check ---- */

static void put_all(struct wi_sched **scheds, int n)
{
    for (int r = 0; r < n; r++) {
        wi_sched_put(scheds[r]);
        scheds[r] = NULL;
    }
}

static weft_status study(struct wi_imp_lower *lo, struct wi_sched **scheds)
{
    lo->draft = 1;
    weft_status st = build_all(lo, scheds);
    if (st == WEFT_SUCCESS) {
        st = wi_sched_study((const struct wi_sched *const *)scheds, lo->prog->nranks, &lo->notes);
        if (st < 0)
            st = refuse(lo->prog, st, lo->notes.rank, lo->notes.lane,
                        op_of(lo, lo->notes.rank, lo->notes.lane, lo->notes.step));
    }
    put_all(scheds, lo->prog->nranks);
    lo->draft = 0;
    return st;
}

static weft_status finish(struct wi_imp_lower *lo, struct wi_sched **scheds, int *again)
{
    weft_status st = WEFT_SUCCESS;

    for (int r = 0; st == WEFT_SUCCESS && !*again && r < lo->prog->nranks; r++)
        *again = wi_imp_place_scratch(lo, r, &st);
    if (st < 0 || *again)
        return st;
    WI_TRY(build_all(lo, scheds));
    st = wi_sched_check((const struct wi_sched *const *)scheds, lo->prog->nranks, 0);
    if (st == WEFT_SUCCESS)
        return st;
    *again = !lo->split;
    return refuse(lo->prog, st, WI_NOWHERE, WI_NOWHERE, NULL);
}

static weft_status attempt(struct wi_imp_lower *lo, struct wi_sched **scheds, int *again)
{
    int n = lo->prog->nranks;

    lo->merge = 0;
    weft_status st = study(lo, scheds);
    if (st < 0)
        return st;
    lo->scratch = wi_calloc((size_t)n, sizeof(*lo->scratch));
    st = lo->scratch ? finish(lo, scheds, again) : wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory for %d ranks", n);
    for (int r = 0; lo->scratch && r < n; r++)
        wi_free(lo->scratch[r].uses);
    wi_free(lo->scratch);
    lo->scratch = NULL;
    wi_notes_fini(&lo->notes);
    wi_imp_order_free(lo);
    if (st < 0 || *again)
        put_all(scheds, n);
    return st;
}

static weft_status lower(struct wi_imp_lower *lo, struct wi_sched **scheds)
{
    int again = 0;

    for (int r = 0; r < lo->prog->nranks; r++)
        invent_scratch(lo, r);
    weft_status st = attempt(lo, scheds, &again);
    if (!again)
        return st;
    lo->split = 1;
    again = 0;
    return attempt(lo, scheds, &again);
}

weft_status wi_imp_lower(struct wi_imp_prog *prog, struct wi_import **out)
{
    struct wi_imp_lower lo = {.prog = prog};
    int n = prog->nranks;

    WI_TRY(wi_imp_shape(prog));
    WI_TRY(bound_work(prog));
    if (!prog->mapped) {
        if (prog->in_place)
            drop_copies(prog);
        WI_TRY(wi_imp_deepen(prog));
        WI_TRY(bound_work(prog));
    }
    struct wi_import *import = wi_calloc(1, sizeof(*import));
    struct wi_sched **scheds = wi_calloc((size_t)n, sizeof(*scheds));
    lo.tmp_chunks = wi_calloc((size_t)n, sizeof(*lo.tmp_chunks));
    weft_status st = import && scheds && lo.tmp_chunks ? lower(&lo, scheds)
                                                       : wi_imp_fail(prog, WEFT_ENOMEM, 0, "no memory for %d ranks", n);
    wi_free(lo.tmp_chunks);
    if (st < 0) {
        for (int r = 0; scheds && r < n; r++)
            wi_sched_put(scheds[r]);
        wi_free(scheds);
        wi_free(import);
        return st;
    }
    *import = (struct wi_import){.format = prog->format,
                                 .coll = prog->coll,
                                 .nranks = n,
                                 .root = prog->root,
                                 .in_place = prog->in_place,
                                 .min_bytes = prog->min_bytes,
                                 .max_bytes = prog->max_bytes,
                                 .scheds = scheds};
    memcpy(import->name, prog->name, sizeof(prog->name));
    *out = import;
    return WEFT_SUCCESS;
}
