/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to schedule: the inverse of print.c. Strict: nothing unknown, nothing out of order, nothing past `end`. Every
 * count is bounded before it is used; the form check at seal does the rest. */
#include "sched/internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define WORD_BYTES 64

struct parser {
    const char *at, *end; /* what is left */
    const char *line_end;
    uint32_t line;
    char word[WORD_BYTES]; /* the newest; "" at the end of the line */
    struct wi_sched_builder *builder;
    uint32_t nlanes, lane_steps;
    uint32_t *lines; /* of lanes and steps in file order */
    uint32_t nlines, line_capacity;
    struct wi_region *operands; /* 2 * WI_SCHED_MAX_OPERANDS: destinations, then sources */
    int ll;                     /* as the head says */
};

static weft_status bad(const struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static weft_status bad(const struct parser *p, const char *format, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return wi_fail(WEFT_EINVAL, "schedule text line %u: %s", p->line, text);
}

/* ---- Lines and words ---- */

static int is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r';
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->line_end && is_blank(*p->at))
        p->at++;
}

/* Go to the next line that says something; 0 when there is none. */
static int next_line(struct parser *p)
{
    if (p->line)
        p->at = p->line_end < p->end ? p->line_end + 1 : p->end;
    while (p->at < p->end) {
        const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
        p->line_end = nl ? nl : p->end;
        p->line++;
        skip_blanks(p);
        if (p->at < p->line_end && *p->at != '#')
            return 1;
        p->at = nl ? nl + 1 : p->end;
    }
    p->line++;
    p->line_end = p->end;
    return 0;
}

static weft_status next_word(struct parser *p)
{
    size_t n = 0;

    skip_blanks(p);
    while (p->at < p->line_end && !is_blank(*p->at)) {
        unsigned char ch = (unsigned char)*p->at++;
        if (!isgraph(ch) || ch > 126)
            return bad(p, "byte %#x in a word", ch);
        if (n == WORD_BYTES - 1)
            return bad(p, "a word of more than %d characters", WORD_BYTES - 1);
        p->word[n++] = (char)ch;
    }
    p->word[n] = '\0';
    return WEFT_SUCCESS;
}

static const char *shown(const struct parser *p)
{
    return p->word[0] ? p->word : "the end of the line";
}

static weft_status expect(struct parser *p, const char *word)
{
    WI_TRY(next_word(p));
    if (strcmp(p->word, word))
        return bad(p, "\"%s\" expected, found %s", word, shown(p));
    return WEFT_SUCCESS;
}

static weft_status expect_line_end(struct parser *p)
{
    WI_TRY(next_word(p));
    return p->word[0] ? bad(p, "%s is too much", p->word) : WEFT_SUCCESS;
}

/* Digits from *text on, at most max, no leading zero; moves *text past them. 0 or -1. */
static int read_digits(const char **text, uint32_t max, uint32_t *value)
{
    const char *s = *text;
    uint64_t v = 0;

    if (!isdigit((unsigned char)*s) || (*s == '0' && isdigit((unsigned char)s[1])))
        return -1;
    for (; isdigit((unsigned char)*s); s++) {
        v = v * 10 + (uint64_t)(*s - '0');
        if (v > max)
            return -1;
    }
    *text = s;
    *value = (uint32_t)v;
    return 0;
}

static weft_status word_number(const struct parser *p, const char *what, uint32_t max, uint32_t *value)
{
    const char *s = p->word;

    if (read_digits(&s, max, value) || *s)
        return bad(p, "%s must be a number from 0 to %u, found %s", what, max, shown(p));
    return WEFT_SUCCESS;
}

static weft_status number(struct parser *p, const char *what, uint32_t max, uint32_t *value)
{
    WI_TRY(next_word(p));
    return word_number(p, what, max, value);
}

static weft_status named_number(struct parser *p, const char *name, uint32_t max, uint32_t *value)
{
    WI_TRY(expect(p, name));
    return number(p, name, max, value);
}

/* ---- Head ---- */

static weft_status parse_head(struct parser *p)
{
    struct wi_sched_spec spec = {0};
    char algo[sizeof(((struct wi_sched *)0)->algo)];
    uint32_t rank, nranks, root, in_place, ll, like = 0;

    if (!next_line(p))
        return bad(p, "\"coll\" expected, found the end of the text");
    WI_TRY(expect(p, "coll"));
    WI_TRY(next_word(p));
    if (wi_coll_parse(p->word, &spec.coll))
        return bad(p, "unknown collective %s", shown(p));
    WI_TRY(expect(p, "algo"));
    WI_TRY(next_word(p));
    _Static_assert(sizeof(algo) >= WORD_BYTES, "every word fits");
    strcpy(algo, p->word);
    WI_TRY(named_number(p, "rank", WI_SCHED_MAX_PARSE_RANKS, &rank));
    WI_TRY(named_number(p, "nranks", WI_SCHED_MAX_PARSE_RANKS, &nranks));
    WI_TRY(named_number(p, "root", WI_SCHED_MAX_PARSE_RANKS, &root));
    WI_TRY(named_number(p, "in_place", 1, &in_place));
    WI_TRY(named_number(p, "blocks", WI_SCHED_MAX_BLOCKS, &spec.nblocks));
    WI_TRY(named_number(p, "tmp", WI_SCHED_MAX_BLOCKS, &spec.tmp_blocks));
    WI_TRY(named_number(p, "ll", 1, &ll));
    WI_TRY(next_word(p));
    if (p->word[0]) {
        if (strcmp(p->word, "tmp_like_src"))
            return bad(p, "%s is too much", p->word);
        WI_TRY(number(p, "tmp_like_src", 1, &like));
        WI_TRY(expect_line_end(p));
    }
    if (!wi_coll_is_vector(spec.coll) && (spec.nblocks < 1 || (spec.nblocks > 1 && spec.coll >= WI_COLL_BARRIER)))
        return bad(p, "blocks must be 1 for %s, found %u", wi_coll_name(spec.coll), spec.nblocks);
    spec.share_blocks = spec.nblocks;
    spec.algo = algo;
    spec.rank = (int)rank;
    spec.nranks = (int)nranks;
    spec.root = (int)root;
    spec.in_place = (int)in_place;
    spec.tmp_like_src = (int)like;
    spec.no_ll = !ll;
    p->ll = (int)ll;
    weft_status st = wi_sched_begin(&spec, &p->builder);
    if (st == WEFT_EINVAL) {
        char text[256];
        snprintf(text, sizeof(text), "%s", wi_fail_text());
        return bad(p, "%s", text);
    }
    return st;
}

/* ---- Lanes and steps ---- */

static weft_status remember_line(struct parser *p)
{
    if (p->nlines == p->line_capacity) {
        uint32_t capacity = p->line_capacity ? 2 * p->line_capacity : 64;
        uint32_t *more = wi_realloc(p->lines, capacity * sizeof(*more));
        if (!more)
            return wi_fail(WEFT_ENOMEM, "schedule text line %u: no memory", p->line);
        p->lines = more;
        p->line_capacity = capacity;
    }
    p->lines[p->nlines++] = p->line;
    return WEFT_SUCCESS;
}

/* What the builder did not take is not there to be asked for. */
static weft_status builder_status(const struct parser *p)
{
    if (p->builder->status < 0)
        return wi_fail(p->builder->status, "schedule text line %u: %s", p->line, p->builder->error);
    return WEFT_SUCCESS;
}

static weft_status peer(struct parser *p, const char *what, int *value)
{
    uint32_t v;

    WI_TRY(expect(p, what));
    WI_TRY(next_word(p));
    *value = WI_NO_PEER;
    if (!strcmp(p->word, "-"))
        return WEFT_SUCCESS;
    WI_TRY(word_number(p, what, WI_SCHED_MAX_PARSE_RANKS - 1, &v));
    *value = (int)v;
    return WEFT_SUCCESS;
}

/* "lane" has been read. */
static weft_status parse_lane(struct parser *p)
{
    uint32_t index, chan;
    int send, recv;

    WI_TRY(number(p, "lane", WI_SCHED_MAX_LANES - 1, &index));
    if (index != p->nlanes)
        return bad(p, "lane %u out of turn, the next is %u", index, p->nlanes);
    WI_TRY(peer(p, "send", &send));
    WI_TRY(peer(p, "recv", &recv));
    WI_TRY(named_number(p, "chan", WI_SCHED_MAX_CHANS - 1, &chan));
    WI_TRY(expect_line_end(p));
    WI_TRY(remember_line(p));
    p->nlanes++;
    p->lane_steps = 0;
    wi_sched_lane(p->builder, send, recv, chan);
    return builder_status(p);
}

/* buf[first:count] or buf@rank[first:count] */
static weft_status parse_region(const struct parser *p, struct wi_region *r)
{
    const char *s = p->word;
    uint32_t rank;

    *r = (struct wi_region){.rank = WI_SELF};
    while (r->buf < WI_NUM_BUFS && strncmp(s, wi_sched_buf_names[r->buf], 3))
        r->buf++;
    if (r->buf == WI_NUM_BUFS)
        return bad(p, "a region of src, dst or tmp expected, found %s", shown(p));
    s += 3;
    if (*s == '@') {
        s++;
        if (read_digits(&s, WI_SCHED_MAX_PARSE_RANKS - 1, &rank))
            return bad(p, "malformed rank in region %s", p->word);
        if ((int)rank == p->builder->head.rank)
            return bad(p, "region %s names its own rank", p->word);
        r->rank = (int)rank;
    }
    if (*s++ != '[' || read_digits(&s, UINT32_MAX, &r->first) || *s++ != ':' ||
        read_digits(&s, UINT32_MAX, &r->count) || *s++ != ']' || *s)
        return bad(p, "malformed region %s, must be like src[0:1]", p->word);
    return WEFT_SUCCESS;
}

static int at_region(const struct parser *p)
{
    return strchr(p->word, '[') != NULL;
}

/* Regions up to a word that is none, which is left in p->word. */
static weft_status parse_regions(struct parser *p, struct wi_region *regions, uint16_t *n)
{
    for (*n = 0;; ++*n) {
        WI_TRY(next_word(p));
        if (!at_region(p))
            return WEFT_SUCCESS;
        if (*n == WI_SCHED_MAX_OPERANDS)
            return bad(p, "more than %u regions in a row", WI_SCHED_MAX_OPERANDS);
        WI_TRY(parse_region(p, &regions[*n]));
    }
}

static weft_status parse_operands(struct parser *p, struct wi_step *step)
{
    struct wi_region *dst = p->operands, *src = dst + WI_SCHED_MAX_OPERANDS;

    if (step->kind == WI_STEP_SEND)
        return parse_regions(p, src, &step->nsrc);
    WI_TRY(parse_regions(p, dst, &step->ndst));
    if (strcmp(p->word, "<-"))
        return WEFT_SUCCESS;
    WI_TRY(parse_regions(p, src, &step->nsrc));
    return step->nsrc ? WEFT_SUCCESS : bad(p, "a region expected after <-, found %s", shown(p));
}

static weft_status parse_signal(struct parser *p, struct wi_step *step)
{
    uint32_t rank = 0, lane = 0, ordinal;

    if (step->kind == WI_STEP_WAIT) {
        WI_TRY(named_number(p, "rank", WI_SCHED_MAX_PARSE_RANKS - 1, &rank));
        WI_TRY(named_number(p, "lane", WI_SCHED_MAX_MAPPED_LANES - 1, &lane));
        WI_TRY(named_number(p, "signal", WI_SCHED_MAX_SIGNALS - 1, &ordinal));
        step->peer = (int)rank;
        step->lane = (uint16_t)lane;
    } else {
        WI_TRY(number(p, "signal", WI_SCHED_MAX_SIGNALS - 1, &ordinal));
    }
    step->ordinal = (uint16_t)ordinal;
    return next_word(p);
}

static weft_status parse_dependency(struct parser *p, struct wi_step *step)
{
    uint32_t lane;
    const char *s;

    WI_TRY(next_word(p));
    s = p->word;
    if (read_digits(&s, WI_SCHED_MAX_LANES - 1, &lane) || *s++ != '.' ||
        read_digits(&s, WI_SCHED_MAX_STEPS - 1, &step->dep_step) || *s)
        return bad(p, "LANE.STEP expected after \"after\", found %s", shown(p));
    if (lane == p->nlanes - 1)
        return bad(p, "the step depends on its own lane %u", lane);
    step->dep_lane = (int32_t)lane;
    return next_word(p);
}

/* In this order: left, final, after L.S. The first word has been read. */
static weft_status parse_tail(struct parser *p, struct wi_step *step)
{
    if (!strcmp(p->word, "left")) {
        step->flags |= WI_STEP_RECV_LEFT;
        WI_TRY(next_word(p));
    }
    if (!strcmp(p->word, "final")) {
        step->flags |= WI_STEP_FINAL;
        WI_TRY(next_word(p));
    }
    if (!strcmp(p->word, "after"))
        WI_TRY(parse_dependency(p, step));
    return p->word[0] ? bad(p, "%s is not understood here", p->word) : WEFT_SUCCESS;
}

/* The step's number has been read. */
static weft_status parse_step(struct parser *p)
{
    struct wi_step step = {.dep_lane = WI_NO_DEP, .peer = WI_NO_PEER};
    uint32_t index;

    WI_TRY(word_number(p, "step", WI_SCHED_MAX_STEPS - 1, &index));
    if (p->nlanes == 0)
        return bad(p, "a step before the first lane");
    if (index != p->lane_steps)
        return bad(p, "step %u out of turn, the next is %u", index, p->lane_steps);
    WI_TRY(next_word(p));
    while (step.kind < WI_NUM_STEP_KINDS && strcmp(p->word, wi_sched_step_names[step.kind]))
        step.kind++;
    if (step.kind == WI_NUM_STEP_KINDS)
        return bad(p, "unknown step %s", shown(p));
    if (step.kind == WI_STEP_SIGNAL || step.kind == WI_STEP_WAIT)
        WI_TRY(parse_signal(p, &step));
    else
        WI_TRY(parse_operands(p, &step));
    WI_TRY(parse_tail(p, &step));
    WI_TRY(remember_line(p));
    p->lane_steps++;
    wi_sched_step_add(p->builder, p->nlanes - 1, &step, p->operands, p->operands + WI_SCHED_MAX_OPERANDS);
    return builder_status(p);
}

static weft_status parse_body(struct parser *p)
{
    while (next_line(p)) {
        WI_TRY(next_word(p));
        if (!strcmp(p->word, "lane"))
            WI_TRY(parse_lane(p));
        else if (!strcmp(p->word, "end"))
            return expect_line_end(p);
        else if (isdigit((unsigned char)p->word[0]))
            WI_TRY(parse_step(p));
        else
            return bad(p, "\"lane\", \"end\" or a step's number expected, found %s", p->word);
    }
    return bad(p, "\"end\" expected, found the end of the text");
}

static weft_status parse_text(struct parser *p)
{
    uint32_t version;

    if (!next_line(p))
        return bad(p, "the text is empty");
    WI_TRY(expect(p, "weft-schedule"));
    WI_TRY(number(p, "the version", UINT32_MAX, &version));
    if (version != 1)
        return bad(p, "version %u, must be 1", version);
    WI_TRY(expect_line_end(p));
    WI_TRY(parse_head(p));
    WI_TRY(parse_body(p));
    return next_line(p) ? bad(p, "text after \"end\"") : WEFT_SUCCESS;
}

/* ---- Seal ---- */

/* Lines were remembered lane by lane, each lane's own first. */
static uint32_t line_of(const struct parser *p, const struct wi_sched_place *place, const uint32_t *nsteps)
{
    uint32_t at = 0;

    if (place->lane == WI_NOWHERE)
        return 0;
    for (uint32_t i = 0; i < place->lane; i++)
        at += 1 + nsteps[i];
    at += place->step == WI_NOWHERE ? 0 : 1 + place->step;
    return at < p->nlines ? p->lines[at] : 0;
}

static weft_status seal(struct parser *p, struct wi_sched **sched)
{
    struct wi_sched_place place;
    struct wi_sched_builder *b = p->builder;
    uint32_t *nsteps = wi_malloc((p->nlanes + (size_t)1) * sizeof(*nsteps));
    char text[512];

    if (!nsteps)
        return wi_fail(WEFT_ENOMEM, "schedule text: no memory for %u lanes", p->nlanes);
    for (uint32_t i = 0; i < p->nlanes; i++)
        nsteps[i] = b->lanes[i].nsteps;
    p->builder = NULL;
    weft_status st = wi_sched_seal_at(b, sched, &place);
    if (st == WEFT_EINVAL) {
        uint32_t line = line_of(p, &place, nsteps);
        snprintf(text, sizeof(text), "%s", wi_fail_text());
        if (line)
            wi_fail(st, "schedule text line %u: %s", line, text);
        else
            wi_fail(st, "schedule text: %s", text);
    }
    wi_free(nsteps);
    if (st == WEFT_SUCCESS && (*sched)->ll != p->ll) {
        wi_sched_put(*sched);
        return wi_fail(WEFT_EINVAL, "schedule text: ll is 1, but the schedule is not fit for ll lines");
    }
    return st;
}

weft_status wi_sched_parse(const char *text, size_t bytes, struct wi_sched **sched)
{
    struct parser p = {.at = text, .end = text + bytes};
    struct wi_sched *parsed = NULL;
    weft_status st;

    if (!text)
        return wi_fail(WEFT_EINVAL, "schedule text: NULL");
    p.operands = wi_malloc(2 * WI_SCHED_MAX_OPERANDS * sizeof(*p.operands));
    if (!p.operands)
        return wi_fail(WEFT_ENOMEM, "schedule text: no memory");
    st = parse_text(&p);
    if (st == WEFT_SUCCESS)
        st = seal(&p, &parsed);
    wi_sched_abandon(p.builder);
    wi_free(p.lines);
    wi_free(p.operands);
    if (st == WEFT_SUCCESS)
        *sched = parsed;
    return st;
}
