/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules of up to four ranks written as text, and what the checker must say of them. */
#ifndef SCHED_PROGRAMS_H
#define SCHED_PROGRAMS_H

#include "base/status.h"
#include "sched_samples.h"
#include "unit.h"

static inline weft_status check(struct wi_sched **scheds, int nranks, int ordered)
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

static inline struct wi_sched *parse_rank(const struct program *p, int rank)
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

static inline void run_program(const struct program *p)
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

static inline void run_programs(const struct program *programs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_program(&programs[i]);
}
#define RUN(programs) run_programs(programs, sizeof(programs) / sizeof((programs)[0]))

#define PAIR0 "lane 0 send 1 recv 1 chan 0\n"
#define PAIR1 "lane 0 send 0 recv 0 chan 0\n"
#define TWO0 "lane 0 send 1 recv - chan 0\n"
#define TWO1 "lane 0 send - recv 0 chan 0\n"
#define WAIT1(n) " wait rank 1 lane 0 signal " #n "\n"
#define WAIT0(n) " wait rank 0 lane 0 signal " #n "\n"
#define LOCAL "lane 0 send - recv - chan 0\n"
#define SWAP0 PAIR0 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] final\n"
#define SWAP1 PAIR1 "0 send src[0:1]\n1 recv_reduce dst[0:1] <- src[0:1] left final\n"

#endif
