/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker refuses each kind of wrong schedule by the rule that it breaks. */
#include "unit.h"

#include "base/status.h"
#include "sched_samples.h"

static weft_status check(struct wi_sched **scheds, int nranks, int ordered)
{
    return wi_sched_check((const struct wi_sched *const *)scheds, nranks, ordered);
}

struct program {
    const char *name;
    const char *head; /* "all_reduce", and if need be more: see fill */
    int nranks, blocks, tmp, in_place, ordered;
    const char *ranks[4]; /* lanes as text */
    const char *text;     /* of the refusal; NULL: right */
};

static struct wi_sched *parse_rank(const struct program *p, int rank)
{
    char text[4096];
    struct wi_sched *s = NULL;
    int n = snprintf(text, sizeof(text),
                     "weft-schedule 1\ncoll %s algo test rank %d nranks %d root 0 in_place %d blocks %d tmp %d ll 0\n"
                     "%send\n",
                     p->head, rank, p->nranks, p->in_place, p->blocks, p->tmp, p->ranks[rank]);
    weft_status st = wi_sched_parse(text, (size_t)n, &s);

    if (st)
        printf("# %s: %s\n", p->name, wi_fail_text());
    CU_ASSERT_EQUAL(st, WEFT_SUCCESS);
    return s;
}

static void run_program(const struct program *p)
{
    struct wi_sched *s[4] = {NULL};
    int parsed = 1;

    for (int r = 0; r < p->nranks; r++)
        parsed &= (s[r] = parse_rank(p, r)) != NULL;
    if (parsed) {
        wi_fail_clear();
        weft_status st = check(s, p->nranks, p->ordered);
        int as_wanted = p->text ? st == WEFT_EINVAL && strstr(wi_fail_text(), p->text) : st == WEFT_SUCCESS;
        if (!as_wanted)
            printf("# %s: wanted \"%s\", found %d \"%s\"\n", p->name, p->text ? p->text : "success", st,
                   wi_fail_text());
        CU_ASSERT(as_wanted);
    }
    samples_put(s, p->nranks);
}

static void run_programs(const struct program *programs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_program(&programs[i]);
}
#define RUN(programs) run_programs(programs, sizeof(programs) / sizeof((programs)[0]))

#define PAIR0 "lane 0 send 1 recv 1 chan 0\n"
#define PAIR1 "lane 0 send 0 recv 0 chan 0\n"
#define WAIT1(n) " wait rank 1 lane 0 signal " #n "\n"
#define WAIT0(n) " wait rank 0 lane 0 signal " #n "\n"
#define LOCAL "lane 0 send - recv - chan 0\n"
#define SWAP0 PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] final\n"
#define SWAP1 PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] left final\n"

static void contributions_are_counted(void)
{
    static const struct program programs[] = {
        {"swap", "all_reduce", 2, 1, 0, 0, 1, {SWAP0, SWAP1}, NULL},
        {"missing",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[0:1]\n", SWAP1},
         "rank 0/2: result dst[0] lacks the contribution of rank 0"},
        {"double",
         "all_reduce",
         2,
         1,
         1,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce tmp[0:1] <- src[0:1]\n2 reduce dst[0:1] <- tmp[0:1] src[0:1] final\n",
          SWAP1},
         "rank 0/2: lane 0 step 2 (reduce): block 0 gets the contribution of rank 0 twice"},
        {"never written", "all_reduce", 2, 2, 0, 0, 0, {SWAP0, SWAP1}, "rank 0/2: result dst[1] is never written"},
        {"two blocks mixed",
         "all_reduce",
         2,
         2,
         0,
         0,
         0,
         {PAIR0 "0 send src[1:1]\n1 recv dst[0:1]\n", PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1]\n"},
         "rank 1/2: lane 0 step 1 (recv_reduce): combines block 0 with block 1"},
        {"one rank too many",
         "scan",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1]\n",
          PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1]\n"},
         "rank 0/2: result dst[0] holds a contribution of rank 1 that it must not"},
        {"blocks exchanged",
         "all_to_all",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[1:1]\n2 copy dst[0:1] <- src[1:1]\n",
          PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n2 copy dst[1:1] <- src[1:1]\n"},
         "rank 0/2: result dst[0] holds block 1 of src instead of block 0"},
        {"ranks exchanged",
         "all_gather",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[0:1]\n2 copy dst[1:1] <- src[0:1]\n",
          PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n2 copy dst[1:1] <- src[0:1]\n"},
         "rank 0/2: result dst[0] lacks the contribution of rank 0"},
        {"reduces data",
         "all_gather",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[1:1] <- src[0:1]\n", PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n"},
         "lane 0 step 1 (recv_reduce): reduces, but the collective only moves data"},
        {"in place over its own source",
         "all_gather",
         2,
         1,
         0,
         1,
         0,
         {PAIR0 "0 recv dst[0:1]\n1 send src[0:1]\n", PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n"},
         "result dst[0] lacks the contribution of rank 0"},
        {"exscan, rank 0 written",
         "exscan",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 copy dst[0:1] <- src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"},
         "lane 0 step 1 (copy): writes dst of rank 0"},
        {"exscan, right", "exscan", 2, 1, 0, 0, 1, {PAIR0 "0 send src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"}, NULL},
        {"root left out",
         "broadcast",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"},
         "rank 0/2: result dst[0] is never written"},
        {"root in place", "broadcast", 2, 1, 0, 1, 0, {PAIR0 "0 send src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"}, NULL},
    };

    RUN(programs);
}

static void rank_order_is_kept_when_asked(void)
{
    struct program p = {"swap without left",
                        "all_reduce",
                        2,
                        1,
                        0,
                        0,
                        0,
                        {SWAP0, PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] final\n"},
                        NULL};
    run_program(&p);
    p.ordered = 1;
    p.text = "rank 1/2: lane 0 step 1 (recv_reduce): out of rank order: combines ranks 1 to 1 with ranks 0 to 0";
    run_program(&p);
    struct program q = {
        "reduce in the wrong order",
        "reduce",
        2,
        1,
        1,
        0,
        1,
        {PAIR0 "0 recv tmp[0:1]\n1 reduce dst[0:1] <- tmp[0:1] src[0:1] final\n", PAIR1 "0 send src[0:1]\n"},
        "rank 0/2: lane 0 step 1 (reduce): out of rank order"};
    run_program(&q);
    q.ordered = 0;
    q.text = NULL;
    run_program(&q);
}

static void final_marks_what_is_complete(void)
{
    static const struct program programs[] = {
        {"missing",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1]\n", SWAP1},
         "rank 0/2: lane 0 step 1 (recv_reduce): completes what becomes dst[0] of rank 0, but is not final"},
        {"missing where it was completed",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[0:1]\n", PAIR1 "0 recv_reduce_send dst[0:1] <- src[0:1]\n"},
         "rank 1/2: lane 0 step 0 (recv_reduce_send): completes what becomes dst[0] of rank 0, but is not final"},
        {"early",
         "reduce",
         2,
         1,
         1,
         0,
         0,
         {PAIR0 "0 reduce tmp[0:1] <- src[0:1] final\n1 recv_reduce dst[0:1] <- tmp[0:1] final\n",
          PAIR1 "0 send src[0:1]\n"},
         "rank 0/2: lane 0 step 0 (reduce): final, but block 0 holds 1 of 2 contributions"},
        {"twice",
         "reduce",
         2,
         1,
         1,
         0,
         0,
         {PAIR0 "0 recv_reduce tmp[0:1] <- src[0:1] final\n1 reduce dst[0:1] <- tmp[0:1] final\n",
          PAIR1 "0 send src[0:1]\n"},
         "rank 0/2: lane 0 step 1 (reduce): final, but block 0 is final already"},
        {"in a scan",
         "scan",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 copy dst[0:1] <- src[0:1]\n", PAIR1 "0 recv_reduce dst[0:1] <- src[0:1] final\n"},
         "rank 1/2: lane 0 step 0 (recv_reduce): final, but scan has no steps that are"},
        {"where data is moved",
         "all_gather",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[1:1]\n2 reduce dst[0:1] <- src[0:1] final\n",
          PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n2 copy dst[1:1] <- src[0:1]\n"},
         "rank 0/2: lane 0 step 2 (reduce): final, but all_gather has no steps that are"},
        {"arrives final",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[0:1]\n", PAIR1 "0 recv_reduce_send dst[0:1] <- src[0:1] final\n"},
         NULL},
        {"one rank needs none", "all_reduce", 1, 1, 0, 0, 0, {LOCAL "0 copy dst[0:1] <- src[0:1]\n"}, NULL},
        {"one rank may have it", "all_reduce", 1, 1, 0, 0, 0, {LOCAL "0 reduce dst[0:1] <- src[0:1] final\n"}, NULL},
        {"one rank in place does nothing", "all_reduce", 1, 1, 0, 1, 0, {""}, NULL},
    };

    RUN(programs);
}

static void messages_meet(void)
{
    static const struct program programs[] = {
        {"no receive",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {SWAP0, PAIR1 "0 send src[0:1]\n"},
         "rank 0/2: lane 0 step 0 (send): rank 1 never receives this on channel 0"},
        {"no send",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {SWAP0, PAIR1 "0 recv_reduce dst[0:1] <- src[0:1] final\n"},
         "rank 0/2: lane 0 step 1 (recv_reduce): rank 1 never sends this on channel 0"},
        {"no such lane to send to",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {PAIR0 "0 send src[0:1]\n", ""},
         "rank 0/2: lane 0 step 0 (send): rank 1 never receives this"},
        {"no such lane to receive from",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {"", PAIR1 "0 recv dst[0:1]\n"},
         "rank 1/2: lane 0 step 0 (recv): rank 0 never sends this"},
        {"another channel",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {PAIR0 "0 send src[0:1]\n", "lane 0 send - recv 0 chan 1\n0 recv dst[0:1]\n"},
         "rank 1 never receives this on channel 0"},
        {"unequal",
         "broadcast",
         2,
         2,
         0,
         1,
         0,
         {PAIR0 "0 send src[0:2]\n", PAIR1 "0 recv dst[0:1]\n1 recv dst[1:1]\n"},
         "rank 0/2: lane 0 step 0 (send): sends 2 blocks, but rank 1 lane 0 step 0 (recv) receives 1"},
    };

    RUN(programs);
}

static void deadlocks_are_found(void)
{
    static const struct program programs[] = {
        {"both receive first",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 recv_reduce dst[0:1] <- src[0:1] final\n1 send src[0:1]\n",
          PAIR1 "0 recv_reduce dst[0:1] <- src[0:1] final\n1 send src[0:1]\n"},
         "deadlock: waits for a message of"},
        {"two sends before two receives",
         "all_reduce",
         2,
         2,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 send src[1:1]\n2 recv_reduce dst[0:1] <- src[0:1] final\n"
                "3 recv_reduce dst[1:1] <- src[1:1] final\n",
          PAIR1 "0 send src[0:1]\n1 send src[1:1]\n2 recv_reduce dst[0:1] <- src[0:1] final\n"
                "3 recv_reduce dst[1:1] <- src[1:1] final\n"},
         "step 1 (send): deadlock: waits for room in the channel to"},
        {"in turn",
         "all_reduce",
         2,
         2,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] final\n2 send src[1:1]\n"
                "3 recv_reduce dst[1:1] <- src[1:1] final\n",
          PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] final\n2 send src[1:1]\n"
                "3 recv_reduce dst[1:1] <- src[1:1] final\n"},
         NULL},
        {"lanes crossed between ranks",
         "broadcast",
         2,
         2,
         0,
         1,
         0,
         {"lane 0 send 1 recv - chan 0\n0 send src[0:1]\n1 send src[0:1]\n"
          "lane 1 send 1 recv - chan 1\n0 send src[1:1] after 0.1\n",
          "lane 0 send - recv 0 chan 0\n0 recv dst[0:1]\n1 recv dst[0:1] after 1.0\n"
          "lane 1 send - recv 0 chan 1\n0 recv dst[1:1]\n"},
         NULL},
        {"lanes crossed between ranks, too far",
         "broadcast",
         2,
         2,
         0,
         1,
         0,
         {"lane 0 send 1 recv - chan 0\n0 send src[0:1]\n1 send src[0:1]\n2 send src[0:1]\n"
          "lane 1 send 1 recv - chan 1\n0 send src[1:1] after 0.2\n",
          "lane 0 send - recv 0 chan 0\n0 recv dst[0:1]\n1 recv dst[0:1] after 1.0\n2 recv dst[0:1]\n"
          "lane 1 send - recv 0 chan 1\n0 recv dst[1:1]\n"},
         "deadlock: waits for"},
        {"all wait first",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {LOCAL "0 wait rank 1 lane 0 signal 0\n1 signal 0\n", LOCAL "0 wait rank 0 lane 0 signal 0\n1 signal 0\n"},
         "deadlock: waits for a signal of"},
    };

    RUN(programs);
}

static void scratch_must_be_written(void)
{
    static const struct program programs[] = {
        {"tmp",
         "broadcast",
         2,
         1,
         2,
         1,
         0,
         {PAIR0 "0 send tmp[1:1]\n", PAIR1 "0 recv dst[0:1]\n"},
         "rank 0/2: lane 0 step 0 (send): reads block 1 of tmp[1:1], which nothing has written"},
        {"dst",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- dst[0:1] final\n", SWAP1},
         "rank 0/2: lane 0 step 1 (recv_reduce): reads block 0 of dst[0:1], which nothing has written"},
        {"half of it",
         "broadcast",
         2,
         2,
         2,
         1,
         0,
         {PAIR0 "0 copy tmp[0:1] <- src[0:1]\n1 send tmp[0:2]\n", PAIR1 "0 recv dst[0:2]\n"},
         "rank 0/2: lane 0 step 1 (send): reads block 1 of tmp[0:2]"},
    };

    RUN(programs);
}

#define TWO0 "lane 0 send 1 recv - chan 0\n"
#define TWO1 "lane 0 send - recv 0 chan 0\n"

static void values_lie_where_they_fit(void)
{
    static const struct program programs[] = {
        {"scratch cut like the vector",
         "broadcast",
         2,
         2,
         4,
         1,
         0,
         {PAIR0 "0 copy tmp[3:1] <- src[1:1]\n1 send src[0:1]\n2 send tmp[3:1]\n",
          PAIR1 "0 recv dst[0:1]\n1 recv dst[1:1]\n"},
         NULL},
        {"scratch of another block",
         "broadcast",
         2,
         2,
         4,
         1,
         0,
         {PAIR0 "0 copy tmp[2:1] <- src[1:1]\n1 send src[0:1]\n2 send tmp[2:1]\n",
          PAIR1 "0 recv dst[0:1]\n1 recv dst[1:1]\n"},
         "rank 0/2: lane 0 step 0 (copy): stores block 1 of the vector in tmp[2:1], which is as long as block 0"},
        {"another block of the result",
         "broadcast",
         2,
         2,
         0,
         1,
         0,
         {PAIR0 "0 send src[0:1]\n1 send src[0:2]\n", PAIR1 "0 recv dst[1:1]\n1 recv dst[0:2]\n"},
         "rank 1/2: lane 0 step 0 (recv): stores block 0 of the vector in dst[1:1], which is as long as block 1"},
        {"mapped scratch has room",
         "broadcast",
         2,
         2,
         1,
         1,
         0,
         {LOCAL "0 copy tmp[0:1] <- src[1:1]\n1 signal 0\n2" WAIT1(0),
          LOCAL "0" WAIT0(0) "1 copy dst[1:1] <- tmp@0[0:1]\n2 copy dst[0:1] <- src@0[0:1]\n3 signal 0\n"},
         NULL},
    };

    RUN(programs);
}

static void lanes_must_not_race(void)
{
    static const struct program programs[] = {
        {"write and read",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {"lane 0 send - recv - chan 0\n0 copy tmp[0:1] <- src[0:1]\nlane 1 send 1 recv - chan 0\n0 send tmp[0:1]\n",
          TWO1 "0 recv dst[0:1]\n"},
         "rank 0/2: lane 1 step 0 (send): race: reads tmp[0:1], and nothing orders that after rank 0 lane 0 step 0 "
         "(copy), which writes it"},
        {"write and read, ordered",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {"lane 0 send - recv - chan 0\n0 copy tmp[0:1] <- src[0:1]\n"
          "lane 1 send 1 recv - chan 0\n0 send tmp[0:1] after 0.0\n",
          TWO1 "0 recv dst[0:1]\n"},
         NULL},
        {"write and write",
         "broadcast",
         2,
         1,
         0,
         0,
         0,
         {TWO0 "0 send src[0:1]\n1 copy dst[0:1] <- src[0:1]\n"
               "lane 1 send - recv - chan 0\n0 copy dst[0:1] <- src[0:1]\n",
          TWO1 "0 recv dst[0:1]\n"},
         "race: writes dst[0:1]"},
        {"read and write",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {TWO0 "0 copy tmp[0:1] <- src[0:1]\n1 send tmp[0:1]\n"
               "lane 1 send - recv - chan 0\n0 copy tmp[0:1] <- src[0:1] after 0.0\n",
          TWO1 "0 recv dst[0:1]\n"},
         "race: "},
        {"in place, under another name",
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
         "race: "},
        {"out of place there is none",
         "all_reduce",
         2,
         1,
         0,
         0,
         0,
         {"lane 0 send 1 recv - chan 0\n0 send src[0:1]\n"
          "lane 1 send - recv 1 chan 0\n0 recv_reduce dst[0:1] <- src[0:1] final\n",
          "lane 0 send 0 recv - chan 0\n0 send src[0:1]\n"
          "lane 1 send - recv 0 chan 0\n0 recv_reduce dst[0:1] <- src[0:1] final\n"},
         NULL},
        {"ordered by the other rank's answer",
         "all_reduce",
         2,
         1,
         0,
         1,
         0,
         {"lane 0 send 1 recv - chan 0\n0 send src[0:1]\nlane 1 send - recv 1 chan 1\n0 recv dst[0:1]\n",
          "lane 0 send - recv 0 chan 0\n0 recv_reduce dst[0:1] <- src[0:1] final\n"
          "lane 1 send 0 recv - chan 1\n0 send dst[0:1] after 0.0\n"},
         NULL},
    };

    RUN(programs);
}

static void ranks_must_not_race(void)
{
    static const struct program programs[] = {
        {"right: pull",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- tmp@0[0:1]\n"},
         "ll"}, /* text has ll 0, see below */
        {"tmp read without a wait",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n", LOCAL "0 copy dst[0:1] <- tmp@0[0:1]\n"},
         "rank 1/2: lane 0 step 0 (copy): race: reads tmp@0[0:1]"},
        {"signal before the write",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {LOCAL "0 signal 0\n1 copy tmp[0:1] <- src[0:1]\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- tmp@0[0:1]\n"},
         "rank 1/2: lane 0 step 1 (copy): race: reads tmp@0[0:1]"},
        {"overwritten while it is read",
         "broadcast",
         2,
         1,
         1,
         1,
         0,
         {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n2 copy tmp[0:1] <- src[0:1]\n",
          LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- tmp@0[0:1]\n"},
         "race: "},
        {"src before its rank has begun",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {LOCAL "0" WAIT1(0), LOCAL "0 copy dst[0:1] <- src@0[0:1]\n1 signal 0\n"},
         "rank 1/2: lane 0 step 0 (copy): uses src@0[0:1], but no signal says that rank 0 has begun"},
        {"src after its rank has returned",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {LOCAL "0 signal 0\n", LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- src@0[0:1]\n2 signal 0\n"},
         "rank 1/2: lane 0 step 1 (copy): race: may use memory of rank 0 after that rank has returned"},
        {"src, right",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {LOCAL "0 signal 0\n1" WAIT1(0), LOCAL "0" WAIT0(0) "1 copy dst[0:1] <- src@0[0:1]\n2 signal 0\n"},
         NULL},
        {"dst written, owner reads too early",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {LOCAL "0" WAIT1(0) "1 copy dst@1[0:1] <- src[0:1]\n2 signal 0\n", LOCAL "0 signal 0\n"},
         "rank 0/2: lane 0 step 1 (copy): race: may use memory of rank 1 after that rank has returned"},
        {"dst written, right",
         "broadcast",
         2,
         1,
         0,
         1,
         0,
         {LOCAL "0" WAIT1(0) "1 copy dst@1[0:1] <- src[0:1]\n2 signal 0\n", LOCAL "0 signal 0\n1" WAIT0(0)},
         NULL},
        {"two ranks write one block",
         "reduce",
         3,
         1,
         1,
         1,
         0,
         {LOCAL "0 wait rank 1 lane 0 signal 0\n1 wait rank 2 lane 0 signal 0\n"
                "2 reduce dst[0:1] <- src[0:1] tmp[0:1] final\n",
          LOCAL "0 copy tmp@0[0:1] <- src[0:1]\n1 signal 0\n", LOCAL "0 copy tmp@0[0:1] <- src[0:1]\n1 signal 0\n"},
         "race: writes tmp@0[0:1], and nothing orders that after rank 1 lane 0 step 0 (copy), which writes it"},
        {"signal never given",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {LOCAL "0 signal 0\n1" WAIT1(1), LOCAL "0 signal 0\n1" WAIT0(0)},
         "rank 0/2: lane 0 step 1 (wait): waits for signal 1 of rank 1 lane 0, which is never given"},
        {"signal of a lane that is not",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {LOCAL "0 signal 0\n1 wait rank 1 lane 1 signal 0\n", LOCAL "0 signal 0\n1" WAIT0(0)},
         "waits for lane 1 of rank 1, which has 1 lanes"},
        {"word of a third rank is enough",
         "broadcast",
         3,
         1,
         1,
         1,
         0,
         {LOCAL "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n2 signal 1\n",
          LOCAL "0 wait rank 0 lane 0 signal 0\n1 copy dst[0:1] <- tmp@0[0:1]\n2 signal 0\n",
          LOCAL "0 wait rank 1 lane 0 signal 0\n1 copy dst[0:1] <- tmp@0[0:1]\n"},
         NULL},
    };

    for (size_t i = 1; i < sizeof(programs) / sizeof(programs[0]); i++)
        run_program(&programs[i]);
    struct program pull = programs[0];
    pull.text = NULL;
    run_program(&pull);
}

static void barriers_must_synchronise(void)
{
    static const struct program programs[] = {
        {"one way",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n", PAIR1 "0 recv dst[0:1]\n"},
         "rank 0/2: may leave the barrier before rank 1 has entered it"},
        {"nothing", "barrier", 2, 1, 0, 0, 0, {"", ""}, "rank 0/2: may leave the barrier before rank 1"},
        {"two ways",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {PAIR0 "0 send src[0:1]\n1 recv dst[0:1]\n", PAIR1 "0 send src[0:1]\n1 recv dst[0:1]\n"},
         NULL},
        {"neighbours only",
         "barrier",
         3,
         1,
         0,
         0,
         0,
         {"lane 0 send 1 recv 2 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n",
          "lane 0 send 2 recv 0 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n",
          "lane 0 send 0 recv 1 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n"},
         "rank 0/3: may leave the barrier before rank 1 has entered it"},
        {"a lane that does not wait for the other",
         "barrier",
         3,
         1,
         0,
         0,
         0,
         {"lane 0 send 1 recv 2 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n"
          "lane 1 send 1 recv 2 chan 1\n0 send src[0:1]\n1 recv dst[0:1]\n",
          "lane 0 send 2 recv 0 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n"
          "lane 1 send 2 recv 0 chan 1\n0 send src[0:1]\n1 recv dst[0:1]\n",
          "lane 0 send 0 recv 1 chan 0\n0 send src[0:1]\n1 recv dst[0:1]\n"
          "lane 1 send 0 recv 1 chan 1\n0 send src[0:1]\n1 recv dst[0:1]\n"},
         "may leave the barrier before"},
        {"mapped, one silent",
         "barrier",
         2,
         1,
         0,
         0,
         0,
         {LOCAL "0 signal 0\n", LOCAL "0" WAIT0(0)},
         "rank 0/2: may leave the barrier before rank 1"},
    };

    RUN(programs);
}

static const struct wt_case cases[] = {
    {"contributions are counted", contributions_are_counted},
    {"rank order is kept when asked", rank_order_is_kept_when_asked},
    {"final marks what is complete", final_marks_what_is_complete},
    {"messages meet", messages_meet},
    {"deadlocks are found", deadlocks_are_found},
    {"scratch must be written", scratch_must_be_written},
    {"values lie where they fit", values_lie_where_they_fit},
    {"lanes must not race", lanes_must_not_race},
    {"ranks must not race", ranks_must_not_race},
    {"barriers must synchronise", barriers_must_synchronise},
};
WT_UNIT_MAIN("sched_rules", cases)
