/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker against an independent interpreter (interp.h): what it accepts is right in many interleavings, and single changes
 * that some interleaving shows wrong are refused. A sample; mutants_long.c takes all of them.
 *
 * WEFT_TEST_SEED chooses another sample. */
#include "campaign.h"
#include "tests/unit/sched_programs.h"

#define SAMPLE_MUTANTS 120 /* of each algorithm */
#define SAMPLE_RUNS 200

static uint64_t seed(void)
{
    const char *text = getenv("WEFT_TEST_SEED");

    return text ? strtoull(text, NULL, 0) : 20;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

/* ---- The interpreter is not blind ---- */

/* Schedules of two to four ranks; `text` is part of what some interleaving must show, NULL: nothing may be shown. */
static const struct program programs[] = {
    {"a swap", "all_reduce", 2, 1, 0, 0, 1, {SWAP0, SWAP1}, NULL},
    {"a swap in place", "all_reduce", 2, 1, 0, 1, 1, {SWAP0, SWAP1}, NULL},
    {"operands in the wrong order",
     "all_reduce",
     2,
     1,
     0,
     0,
     1,
     {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] left final\n", SWAP1},
     "of DST of rank 0 is wrong"},
    {"not divided",
     "all_reduce",
     2,
     1,
     0,
     0,
     1,
     {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1]\n", SWAP1},
     "of DST of rank 0 is wrong"},
    {"each receives before it sends",
     "all_reduce",
     2,
     1,
     0,
     0,
     1,
     {PAIR0 "0 recv_reduce dst[0:1] <- src[0:1] final\n1 send src[0:1]\n",
      PAIR1 "0 recv_reduce dst[0:1] <- src[0:1] left final\n1 send src[0:1]\n"},
     "no progress"},
    {"a message too many",
     "broadcast",
     2,
     1,
     0,
     1,
     0,
     {TWO0 "0 send src[0:1]\n1 send src[0:1]\n", TWO1 "0 recv dst[0:1]\n"},
     "never"},
    {"unwritten scratch is sent",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {TWO0 "0 send tmp[0:1]\n", TWO1 "0 recv dst[0:1]\n"},
     "sends memory that nothing has written"},
    {"lanes race for scratch",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {"lane 0 send - recv - chan 0\n0 copy tmp[0:1] <- src[0:1]\nlane 1 send 1 recv - chan 0\n0 send tmp[0:1]\n",
      TWO1 "0 recv dst[0:1]\n"},
     "nothing has written"},
    {"in place, sent by one lane while another one receives",
     "all_reduce",
     2,
     1,
     0,
     1,
     0,
     {"lane 0 send 1 recv - chan 0\n0 send src[0:1]\n"
      "lane 1 send - recv 1 chan 0\n0 recv_reduce dst[0:1] <- src[0:1] final\n",
      "lane 0 send 0 recv - chan 0\n0 send src[0:1]\n"
      "lane 1 send - recv 0 chan 0\n0 recv_reduce dst[0:1] <- src[0:1] final\n"},
     "is wrong"},
    {"a block of the vector where a shorter one belongs",
     "broadcast",
     2,
     2,
     2,
     1,
     0,
     {TWO0 "0 send src[0:1]\n1 send src[1:1]\n",
      TWO1 "0 recv tmp[1:1]\n1 recv tmp[0:1]\n2 copy dst[0:1] <- tmp[1:1]\n3 copy dst[1:1] <- tmp[0:1]\n"},
     ""},
    {"pulled",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- tmp@0[0:1]\n"},
     NULL},
    {"signalled too early",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {LOCAL "0 signal 0\n1 copy tmp[0:1] <- src[0:1]\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- tmp@0[0:1]\n"},
     "reads"},
    {"not waited for",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n", LOCAL "0 copy dst[0:1] <- tmp@0[0:1]\n"},
     "reads"},
    {"src used after its rank has left",
     "broadcast",
     2,
     1,
     0,
     1,
     0,
     {LOCAL "0 signal 0\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- src@0[0:1]\n2 signal 0\n"},
     "uses memory of rank 0, which has left"},
    {"src used before its rank has entered",
     "broadcast",
     2,
     1,
     0,
     1,
     0,
     {LOCAL "0" WAIT1(0), LOCAL "0 copy dst[0:1] <- src@0[0:1]\n1 signal 0\n"},
     "uses memory of rank 0, which has not entered"},
    {"a barrier one way",
     "barrier",
     2,
     1,
     0,
     0,
     0,
     {PAIR0 "0 send src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"},
     "leaves the barrier"},
    {"a barrier of neighbours",
     "barrier",
     3,
     1,
     0,
     0,
     0,
     {"lane 0 send 1 recv 2 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n",
      "lane 0 send 2 recv 0 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n",
      "lane 0 send 0 recv 1 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n"},
     "leaves the barrier"},
    {"reduces with one operand where there is no operator",
     "all_gather",
     2,
     1,
     0,
     0,
     0,
     {PAIR0 "0 send src[0:1]\n1 recv dst[1:1]\n2 reduce dst[0:1] <- src[0:1]\n",
      PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n2 copy dst[1:1] <- src[0:1]\n"},
     "reduces in a collective that does not"},
    {"overwrites what may be sent only later",
     "broadcast",
     2,
     1,
     1,
     1,
     0,
     {"lane 0 send 1 recv - chan 0\n0 copy tmp[0:1] <- src[0:1]\n1 send tmp[0:1]\n2 copy tmp[0:1] <- src[0:1]\n"
      "lane 1 send 1 recv - chan 1\n0 send tmp[0:1] after 0.2\n",
      "lane 0 send - recv 0 chan 0\n0 recv tmp[0:1] after 1.0\nlane 1 send - recv 0 chan 1\n0 recv dst[0:1]\n"},
     "no progress"},
};

static void try_program(const struct program *p)
{
    struct wi_sched *s[4] = {NULL};
    const char *wrong = NULL;
    int parsed = 1;

    for (int r = 0; r < p->nranks; r++)
        parsed &= (s[r] = parse_rank(p, r)) != NULL;
    struct interp *m = parsed ? interp_create((const struct wi_sched *const *)s, p->nranks, p->ordered) : NULL;
    CU_ASSERT_PTR_NOT_NULL(m);
    for (uint64_t i = 0; m && !wrong && i < 1000; i++)
        wrong = interp_run(m, i);
    int as_wanted = p->text ? wrong && strstr(wrong, p->text) : !wrong;
    if (m && !as_wanted)
        printf("# %s: wanted \"%s\", the interpreter shows \"%s\"\n", p->name, p->text ? p->text : "nothing wrong",
               wrong ? wrong : "nothing wrong");
    CU_ASSERT(as_wanted);
    /* What is wrong the checker refuses. */
    weft_status st = m ? check(s, p->nranks, p->ordered) : WEFT_EINVAL;
    if (st != (p->text ? WEFT_EINVAL : WEFT_SUCCESS))
        printf("# %s: the checker says %d \"%s\"\n", p->name, st, st < 0 ? wi_fail_text() : "right");
    CU_ASSERT_EQUAL(st, p->text ? WEFT_EINVAL : WEFT_SUCCESS);
    interp_destroy(m);
    samples_put(s, p->nranks);
}

static void interpreter_sees_what_is_wrong(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        try_program(&programs[i]);
}

/* ---- Registered algorithms ---- */

static void algorithms_are_right(void)
{
    for (size_t i = 0; wi_algos[i]; i++) {
        for (int n = 2; n <= INTERP_MAX_RANKS; n++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                struct form f;
                int root = form_has_root(wi_algos[i]) ? (int)(mix(seed() + i) % (unsigned)n) : 0;
                int built = form_build(&f, wi_algos[i], n, root, in_place);
                CU_ASSERT(built >= 0);
                if (built > 0) {
                    CU_ASSERT_EQUAL(form_right(&f, 20, seed()), 0);
                    form_put(&f);
                }
            }
        }
    }
}

/* One mutant, drawn. */
static enum verdict draw_mutant(const struct wi_algo *algo, uint64_t at, struct tally *t, unsigned made[NUM_MUTATIONS])
{
    int n = 2 + (int)(at % (INTERP_MAX_RANKS - 1)), in_place = (int)(at >> 8 & 1), root = (int)(at >> 16 & 255) % n;
    int rank = (int)(at >> 24 & 255) % n;
    enum verdict verdict = VERDICT_REFUSED;
    struct mutation m;
    struct form f;
    char why[256];

    if (form_build(&f, algo, n, form_has_root(algo) ? root : 0, in_place) <= 0)
        return verdict;
    verdict = form_judge(&f, rank, (uint32_t)((at >> 32) % mutation_count(f.scheds[rank])), SAMPLE_RUNS, at, &m, why);
    if (verdict == VERDICT_MISSED)
        form_print(&f, rank, &m, "# shown wrong, but accepted: ", why, stdout);
    tally_add(t, verdict);
    made[m.kind]++;
    form_put(&f);
    return verdict;
}

static void mutants_shown_wrong_are_refused(void)
{
    unsigned made[NUM_MUTATIONS] = {0};
    struct tally all = {0};

    printf("# WEFT_TEST_SEED=%llu\n", (unsigned long long)seed());
    for (size_t i = 0; wi_algos[i]; i++) {
        struct tally t = {0};
        for (unsigned k = 0; k < SAMPLE_MUTANTS; k++)
            draw_mutant(wi_algos[i], mix(mix(seed()) + 1000 * i + k), &t, made);
        if (!t.wrong)
            printf("# %s/%s: no mutant was shown wrong\n", wi_coll_name(wi_algos[i]->coll), wi_algos[i]->name);
        CU_ASSERT(t.wrong > 0);
        CU_ASSERT_EQUAL(t.missed, 0);
        all.made += t.made, all.wrong += t.wrong, all.refused += t.refused, all.survived += t.survived;
    }
    printf("# %llu mutants, %llu shown wrong, %llu refused, %llu survived\n", (unsigned long long)all.made,
           (unsigned long long)all.wrong, (unsigned long long)all.refused, (unsigned long long)all.survived);
    for (int k = 0; k < NUM_MUTATIONS; k++) {
        if (!made[k])
            printf("# none of: %s\n", mutation_text((enum mutation_kind)k));
        CU_ASSERT(made[k] > 0);
    }
}

static const struct wt_case cases[] = {
    {"the interpreter sees what is wrong", interpreter_sees_what_is_wrong},
    {"algorithms are right in many interleavings", algorithms_are_right},
    {"mutants shown wrong are refused", mutants_shown_wrong_are_refused},
};
WT_UNIT_MAIN("mutants", cases)
