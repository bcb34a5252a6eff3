/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread blocks merged: where a plan has more of them, or more signals in one, than a mapped schedule may have, every rank
 * gets one lane. Its order is that of one run of the whole plan, so it cannot deadlock; the study of the draft has shown that all
 * runs give the same. In that run a rank signals when it can do nothing else, so that signals come together and one stands
 * for all of them. */
#include "import/import_lower.h"

#include "base/alloc.h"
#include "base/status.h"

struct run {
    const struct wi_imp_prog *prog;
    uint32_t **pos;   /* [rank][lane]: ops done */
    uint32_t **order; /* [rank][op of the rank, lane by lane] */
    uint32_t next;
};

enum turn_class { DATA, SIGNALS, WAITS, NUM_TURNS };

static enum turn_class class_of(const struct wi_imp_op *op)
{
    return op->kind == WI_STEP_SIGNAL ? SIGNALS : op->kind == WI_STEP_WAIT ? WAITS : DATA;
}

static int is_ready(const struct run *run, int rank, const struct wi_imp_op *op)
{
    if (op->dep_lane != WI_NO_DEP && run->pos[rank][op->dep_lane] <= op->dep_op)
        return 0;
    return op->kind != WI_STEP_WAIT || run->pos[op->peer][op->lane] > op->signal;
}

/* All steps of one class that a rank can do now. */
static int take_class(struct run *run, int rank, enum turn_class class)
{
    const struct wi_imp_rank *r = &run->prog->ranks[rank];
    uint32_t base = 0, taken = 0;

    for (uint32_t l = 0; l < r->nlanes; base += r->lanes[l++].nops) {
        uint32_t *pos = &run->pos[rank][l];
        while (*pos < r->lanes[l].nops && class_of(&r->lanes[l].ops[*pos]) == class &&
               is_ready(run, rank, &r->lanes[l].ops[*pos])) {
            run->order[rank][base + (*pos)++] = run->next++;
            taken = 1;
        }
    }
    return taken != 0;
}

static int take_rank(struct run *run, int rank)
{
    int taken = 0, more = 1;

    while (more) {
        more = 0;
        for (enum turn_class c = DATA; !more && c < NUM_TURNS; c++)
            more = take_class(run, rank, c);
        taken |= more;
    }
    return taken;
}

static weft_status run_all(struct run *run)
{
    int moved = 1;

    while (moved) {
        moved = 0;
        for (int r = 0; r < run->prog->nranks; r++)
            moved |= take_rank(run, r);
    }
    if (run->next != run->prog->nops)
        return wi_imp_fail(run->prog, WEFT_EINVAL, 0, "deadlock: %llu of %llu steps can be done",
                           (unsigned long long)run->next, (unsigned long long)run->prog->nops);
    return WEFT_SUCCESS;
}

static int allocate(struct run *run, int rank)
{
    const struct wi_imp_rank *r = &run->prog->ranks[rank];
    size_t n = 1;

    for (uint32_t l = 0; l < r->nlanes; l++)
        n += r->lanes[l].nops;
    run->order[rank] = wi_calloc(n, sizeof(uint32_t));
    run->pos[rank] = wi_calloc(r->nlanes + (size_t)1, sizeof(uint32_t));
    return run->order[rank] && run->pos[rank] ? 0 : -1;
}

void wi_imp_order_free(struct wi_imp_lower *lo)
{
    for (int r = 0; lo->order && r < lo->prog->nranks; r++)
        wi_free(lo->order[r]);
    wi_free(lo->order);
    lo->order = NULL;
}

weft_status wi_imp_order(struct wi_imp_lower *lo)
{
    size_t n = (size_t)lo->prog->nranks;
    struct run run = {
        .prog = lo->prog, .pos = wi_calloc(n, sizeof(*run.pos)), .order = wi_calloc(n, sizeof(*run.order))};
    int failed = !run.pos || !run.order;

    for (int r = 0; !failed && r < lo->prog->nranks; r++)
        failed = allocate(&run, r);
    weft_status st = failed ? wi_imp_fail(lo->prog, WEFT_ENOMEM, 0, "no memory to order %llu steps",
                                          (unsigned long long)lo->prog->nops)
                            : run_all(&run);
    lo->order = run.order;
    for (int r = 0; run.pos && r < lo->prog->nranks; r++)
        wi_free(run.pos[r]);
    wi_free(run.pos);
    if (st < 0)
        wi_imp_order_free(lo);
    return st;
}
