/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages in the text of a schedule: mapped schedules before and after its messages. What they name must lie in the whole, for an
 * executor trusts it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/parse.h"

/* Numbers to the end of the line. */
struct numbers {
    uint32_t *list, n, capacity;
};

static weft_status add_number(const struct wi_parser *p, struct numbers *l, uint32_t value)
{
    if (l->n == WI_SCHED_MAX_BLOCKS)
        return wi_parse_bad(p, "more than %u items", WI_SCHED_MAX_BLOCKS);
    if (l->n == l->capacity) {
        uint32_t capacity = l->capacity ? 2 * l->capacity : 16, *more = wi_realloc(l->list, capacity * sizeof *more);
        if (!more)
            return wi_fail(WEFT_ENOMEM, "schedule text line %u: no memory", p->line);
        l->list = more;
        l->capacity = capacity;
    }
    l->list[l->n++] = value;
    return WEFT_SUCCESS;
}

static weft_status numbers(struct wi_parser *p, const char *what, uint32_t max, struct numbers *l)
{
    uint32_t value;

    for (;;) {
        WI_TRY(wi_parse_next_word(p));
        if (!p->word[0])
            return WEFT_SUCCESS;
        WI_TRY(wi_parse_word_number(p, what, max, &value));
        WI_TRY(add_number(p, l, value));
    }
}

/* ---- A stage ---- */

/* src or dst of the stage: the buffer of the whole, and what is added to an item. */
static weft_status place(struct wi_parser *p, const struct wi_sched *whole, unsigned buf, struct wi_sched_stage *s)
{
    const char *digits;
    uint32_t value;
    uint8_t in = 0;

    WI_TRY(wi_parse_expect(p, wi_sched_buf_names[buf]));
    WI_TRY(wi_parse_next_word(p));
    while (in < WI_PACK && strcmp(p->word, wi_sched_buf_names[in]))
        in++;
    if (in == WI_PACK)
        return wi_parse_bad(p, "src, dst or tmp expected, found %s", wi_parse_shown(p));
    if (buf == WI_DST && in == WI_SRC && !whole->in_place)
        return wi_parse_bad(p, "a stage that stores to src, which is the caller's");
    WI_TRY(wi_parse_next_word(p));
    digits = p->word + (p->word[0] == '-');
    if (wi_parse_digits(&digits, WI_SCHED_MAX_BLOCKS, &value) || *digits || (p->word[0] == '-' && !value))
        return wi_parse_bad(p, "an offset from -%u to %u expected, found %s", WI_SCHED_MAX_BLOCKS, WI_SCHED_MAX_BLOCKS,
                            wi_parse_shown(p));
    s->at[buf].buf = in;
    s->at[buf].offset = p->word[0] == '-' ? -(int64_t)value : (int64_t)value;
    return WEFT_SUCCESS;
}

static weft_status parse_ranks(struct wi_parser *p, const struct wi_sched *whole, struct wi_sched_stage *s,
                               uint32_t *nranks)
{
    struct numbers l = {0};
    weft_status st = WEFT_SUCCESS;

    if (!wi_parse_next_line(p))
        return wi_parse_bad(p, "\"ranks\" expected, found the end of the text");
    st = wi_parse_expect(p, "ranks");
    if (st == WEFT_SUCCESS)
        st = numbers(p, "a rank", (uint32_t)whole->nranks - 1, &l);
    for (uint32_t i = 1; st == WEFT_SUCCESS && i < l.n; i++)
        if (l.list[i] <= l.list[i - 1])
            st = wi_parse_bad(p, "rank %u after rank %u: they must go up", l.list[i], l.list[i - 1]);
    if (st == WEFT_SUCCESS && !l.n)
        st = wi_parse_bad(p, "a stage of no ranks");
    s->ranks = (int32_t *)l.list; /* each is below 2^31 */
    *nranks = l.n;
    return st;
}

/* Lines "share ITEM...", up to one that begins with something else, which is left to be read. */
static weft_status parse_shares(struct wi_parser *p, struct wi_sched_stage *s)
{
    struct numbers start = {0}, items = {0};
    struct wi_parser before = *p;
    weft_status st = add_number(p, &start, 0);

    while (st == WEFT_SUCCESS && wi_parse_next_line(p)) {
        st = wi_parse_next_word(p);
        if (st < 0 || strcmp(p->word, "share"))
            break;
        st = numbers(p, "an item", WI_SCHED_MAX_BLOCKS - 1, &items);
        if (st == WEFT_SUCCESS)
            st = add_number(p, &start, items.n);
        before = *p;
    }
    p->at = before.at;
    p->line_end = before.line_end;
    p->line = before.line;
    s->start = start.list;
    s->item = items.list ? items.list : wi_calloc(1, sizeof *s->item);
    s->nshares = start.n ? start.n - 1 : 0;
    if (st == WEFT_SUCCESS && !s->item)
        st = wi_fail(WEFT_ENOMEM, "schedule text line %u: no memory", p->line);
    for (uint32_t i = 0; st == WEFT_SUCCESS && i < s->nshares; i++)
        if (s->start[i + 1] - s->start[i] > s->max_items)
            s->max_items = s->start[i + 1] - s->start[i];
    return st;
}

/* Every block of the stage's buffer is a share whose items are blocks of the whole's. */
static weft_status check_place(const struct wi_parser *p, const struct wi_sched *whole, const struct wi_sched_stage *s,
                               unsigned buf)
{
    uint32_t there = whole->buf_blocks[s->at[buf].buf], checked = UINT32_MAX;

    for (uint32_t b = 0; b < s->sched->buf_blocks[buf]; b++) {
        uint32_t share = wi_sched_stage_share(s, buf, b);
        if (share >= s->nshares)
            return wi_parse_bad(p, "%s block %u of the stage is share %u, and there are %u", wi_sched_buf_names[buf], b,
                                share, s->nshares);
        if (share == checked) /* all blocks may be one rank's share */
            continue;
        checked = share;
        for (uint32_t i = s->start[share]; i < s->start[share + 1]; i++) {
            int64_t at = (int64_t)s->item[i] + s->at[buf].offset;
            if (at < 0 || at >= there)
                return wi_parse_bad(p, "item %u of share %u is %s block %lld, and there are %u", s->item[i], share,
                                    wi_sched_buf_names[s->at[buf].buf], (long long)at, there);
        }
    }
    return WEFT_SUCCESS;
}

static weft_status check_stage(const struct wi_parser *p, const struct wi_sched *whole, const struct wi_sched_stage *s,
                               uint32_t nranks)
{
    if ((uint32_t)s->sched->nranks != nranks)
        return wi_parse_bad(p, "the stage's schedule is of %d ranks, and %u are named", s->sched->nranks, nranks);
    if (s->ranks[s->sched->rank] != whole->rank)
        return wi_parse_bad(p, "rank %d of the stage is rank %d, and the schedule is rank %d's", s->sched->rank,
                            s->ranks[s->sched->rank], whole->rank);
    for (uint32_t i = 0; i < s->sched->nlanes; i++)
        if (s->sched->lanes[i].send_peer != WI_NO_PEER || s->sched->lanes[i].recv_peer != WI_NO_PEER)
            return wi_parse_bad(p, "lane %u of the stage sends or receives: stages are mapped", i);
    if (s->sched->peer_src || s->sched->peer_dst)
        return wi_parse_bad(p, "the stage names another rank's src or dst; only tmp is in slots");
    WI_TRY(check_place(p, whole, s, WI_SRC));
    return check_place(p, whole, s, WI_DST);
}

/* "stage before" or "stage after" has been read. The caller owns *stage, also when this fails. */
static weft_status parse_stage(struct wi_parser *p, const struct wi_sched *whole, struct wi_sched_stage **stage)
{
    struct wi_sched_stage *s = *stage = wi_calloc(1, sizeof *s);
    uint32_t final, nranks = 0;

    if (!s)
        return wi_fail(WEFT_ENOMEM, "schedule text line %u: no memory", p->line);
    WI_TRY(place(p, whole, WI_SRC, s));
    WI_TRY(place(p, whole, WI_DST, s));
    WI_TRY(wi_parse_named_number(p, "final", 1, &final));
    WI_TRY(wi_parse_line_end(p));
    s->final = (uint8_t) final;
    WI_TRY(parse_ranks(p, whole, s, &nranks));
    WI_TRY(parse_shares(p, s));
    WI_TRY(wi_parse_inner(p, "end_stage", &s->sched));
    return check_stage(p, whole, s, nranks);
}

/* ---- All of them ---- */

static weft_status parse_all(struct wi_parser *p, const struct wi_sched *whole, struct wi_sched_stage *stage[2])
{
    while (wi_parse_next_line(p)) {
        WI_TRY(wi_parse_next_word(p));
        if (!strcmp(p->word, "end"))
            return wi_parse_line_end(p);
        if (strcmp(p->word, "stage"))
            return wi_parse_bad(p, "\"stage\" or \"end\" expected, found %s", p->word);
        WI_TRY(wi_parse_next_word(p));
        int after = !strcmp(p->word, "after");
        if ((!after && strcmp(p->word, "before")) || stage[after] || (!after && stage[1]))
            return wi_parse_bad(p, "\"before\", then \"after\" expected, each once, found %s", wi_parse_shown(p));
        WI_TRY(parse_stage(p, whole, &stage[after]));
    }
    return wi_parse_bad(p, "\"end\" expected, found the end of the text");
}

weft_status wi_parse_stages(struct wi_parser *p, struct wi_sched *sched)
{
    struct wi_sched_stage *stage[2] = {NULL, NULL};
    uint64_t items = 0;
    uint32_t slots;

    WI_TRY(wi_parse_number(p, "slots", WI_SCHED_MAX_BLOCKS, &slots));
    WI_TRY(wi_parse_line_end(p));
    weft_status st = parse_all(p, sched, stage);
    for (int i = 0; i < 2 && st == WEFT_SUCCESS; i++)
        items += stage[i] ? (uint64_t)stage[i]->max_items * stage[i]->sched->buf_blocks[WI_TMP] : 0;
    if (st == WEFT_SUCCESS && items > slots)
        st = wi_parse_bad(p, "slots of %u items, and the stages need %llu", slots, (unsigned long long)items);
    wi_sched_surround(sched, stage[0], stage[1], slots); /* which frees them with it */
    return st;
}
