/* SPDX-License-Identifier: BSD-3-Clause */
#include "campaign.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

#define RUNS_OF_REFUSED 40

int form_has_root(const struct wi_algo *algo)
{
    return algo->coll == WI_COLL_REDUCE || algo->coll == WI_COLL_BROADCAST || algo->coll == WI_COLL_GATHER ||
           algo->coll == WI_COLL_SCATTER;
}

int form_build(struct form *f, const struct wi_algo *algo, int nranks, int root, int in_place)
{
    *f = (struct form){.algo = algo,
                       .nranks = nranks,
                       .root = root,
                       .in_place = in_place,
                       .ordered = !(algo->needs & WI_ALGO_COMMUTATIVE)};
    if ((in_place && algo->needs & WI_ALGO_NO_IN_PLACE) || wi_algo_ranks_needed(algo->needs, nranks))
        return 0;
    for (int r = 0; r < nranks; r++) {
        struct wi_algo_args args = {.rank = r, .nranks = nranks, .root = root, .in_place = in_place};
        if (algo->build(&args, &f->scheds[r]) < 0) {
            printf("# %s/%s P=%d: %s\n", wi_coll_name(algo->coll), algo->name, nranks, wi_fail_text());
            form_put(f);
            return -1;
        }
    }
    return 1;
}

void form_put(struct form *f)
{
    for (int r = 0; r < f->nranks; r++) {
        wi_sched_put(f->scheds[r]);
        f->scheds[r] = NULL;
    }
}

static weft_status check(const struct form *f)
{
    int promised = (f->ordered ? WI_SCHED_ORDERED : 0) | (f->algo->needs & WI_ALGO_EXACT ? 0 : WI_SCHED_ALIKE);

    return wi_sched_check((const struct wi_sched *const *)f->scheds, f->nranks, promised);
}

/* Interleavings until one shows something; NULL: none did. */
static const char *interpret(const struct form *f, unsigned runs, uint64_t seed, char why[256])
{
    struct interp *m = interp_create((const struct wi_sched *const *)f->scheds, f->nranks, f->ordered);
    const char *wrong = m ? NULL : "no memory for the interpreter";

    for (unsigned i = 0; m && !wrong && i < runs; i++)
        wrong = interp_run(m, seed + i);
    snprintf(why, 256, "%s", wrong ? wrong : "");
    interp_destroy(m);
    return wrong ? why : NULL;
}

int form_right(const struct form *f, unsigned runs, uint64_t seed)
{
    char why[256];
    weft_status st = check(f);

    if (st == WEFT_SUCCESS && !interpret(f, runs, seed, why))
        return 0;
    printf("# %s/%s P=%d root %d%s: %s\n", wi_coll_name(f->algo->coll), f->algo->name, f->nranks, f->root,
           f->in_place ? " in place" : "", st < 0 ? wi_fail_text() : why);
    return -1;
}

enum verdict form_judge(struct form *f, int rank, uint32_t n, unsigned runs, uint64_t seed, struct mutation *m,
                        char why[256])
{
    struct wi_sched *right = f->scheds[rank], *mutant = mutation_make(right, n, m);
    enum verdict verdict;

    why[0] = '\0';
    if (!mutant)
        return VERDICT_REFUSED;
    f->scheds[rank] = mutant;
    if (check(f) == WEFT_SUCCESS)
        verdict = interpret(f, runs, seed, why) ? VERDICT_MISSED : VERDICT_SURVIVED;
    else if (m->kind == MUTATION_HEAD) /* ranks that disagree about what they do: nothing to interpret */
        verdict = VERDICT_REFUSED;
    else
        verdict = interpret(f, RUNS_OF_REFUSED, seed, why) ? VERDICT_REFUSED_WRONG : VERDICT_REFUSED;
    f->scheds[rank] = right;
    wi_sched_put(mutant);
    return verdict;
}

void tally_add(struct tally *t, enum verdict verdict)
{
    t->made++;
    t->wrong += verdict == VERDICT_REFUSED_WRONG || verdict == VERDICT_MISSED;
    t->refused += verdict == VERDICT_REFUSED || verdict == VERDICT_REFUSED_WRONG;
    t->survived += verdict == VERDICT_SURVIVED;
    t->missed += verdict == VERDICT_MISSED;
}

void form_print(const struct form *f, int rank, const struct mutation *m, const char *head, const char *why, FILE *out)
{
    fprintf(out, "%s%s/%s P=%d root %d%s rank %d: %s%s%s\n", head, wi_coll_name(f->algo->coll), f->algo->name,
            f->nranks, f->root, f->in_place ? " in place" : "", rank, m->what, why[0] ? ": " : "", why);
}
