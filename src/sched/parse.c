/* SPDX-License-Identifier: BSD-3-Clause */
/* Text to schedule: the inverse of print.c. Strict: nothing unknown, nothing out of order, nothing past `end`. Every
 * count is bounded before it is used; the form check at seal does the rest. */
#include "sched/parse.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

/* ---- Head ---- */

/* What not every schedule has. */
static weft_status parse_head_tail(struct wi_parser *p, struct wi_sched_spec *spec)
{
    uint32_t like;

    WI_TRY(wi_parse_next_word(p));
    if (!strcmp(p->word, "tmp_like_src")) {
        WI_TRY(wi_parse_number(p, "tmp_like_src", 1, &like));
        spec->tmp_like_src = (int)like;
        WI_TRY(wi_parse_next_word(p));
    }
    if (!strcmp(p->word, "pack")) {
        WI_TRY(wi_parse_number(p, "pack", WI_SCHED_MAX_BLOCKS, &spec->pack_blocks));
        WI_TRY(wi_parse_named_number(p, "lossy", WI_SCHED_MAX_RANKS, &spec->lossy));
        WI_TRY(wi_parse_next_word(p));
    }
    return p->word[0] ? wi_parse_bad(p, "%s is too much", p->word) : WEFT_SUCCESS;
}

static weft_status parse_head(struct wi_parser *p)
{
    struct wi_sched_spec spec = {0};
    char algo[sizeof(((struct wi_sched *)0)->algo)];
    uint32_t rank, nranks, root, in_place, ll;

    if (!wi_parse_next_line(p))
        return wi_parse_bad(p, "\"coll\" expected, found the end of the text");
    WI_TRY(wi_parse_expect(p, "coll"));
    WI_TRY(wi_parse_next_word(p));
    if (wi_coll_parse(p->word, &spec.coll))
        return wi_parse_bad(p, "unknown collective %s", wi_parse_shown(p));
    WI_TRY(wi_parse_expect(p, "algo"));
    WI_TRY(wi_parse_next_word(p));
    _Static_assert(sizeof(algo) >= WI_PARSE_WORD_BYTES, "every word fits");
    strcpy(algo, p->word);
    WI_TRY(wi_parse_named_number(p, "rank", WI_SCHED_MAX_PARSE_RANKS, &rank));
    WI_TRY(wi_parse_named_number(p, "nranks", WI_SCHED_MAX_PARSE_RANKS, &nranks));
    WI_TRY(wi_parse_named_number(p, "root", WI_SCHED_MAX_PARSE_RANKS, &root));
    WI_TRY(wi_parse_named_number(p, "in_place", 1, &in_place));
    WI_TRY(wi_parse_named_number(p, "blocks", WI_SCHED_MAX_BLOCKS, &spec.nblocks));
    WI_TRY(wi_parse_named_number(p, "tmp", WI_SCHED_MAX_BLOCKS, &spec.tmp_blocks));
    WI_TRY(wi_parse_named_number(p, "ll", 1, &ll));
    WI_TRY(parse_head_tail(p, &spec));
    if (!wi_coll_is_vector(spec.coll) && (spec.nblocks < 1 || (spec.nblocks > 1 && spec.coll >= WI_COLL_BARRIER)))
        return wi_parse_bad(p, "blocks must be 1 for %s, found %u", wi_coll_name(spec.coll), spec.nblocks);
    spec.share_blocks = spec.nblocks;
    spec.algo = algo;
    spec.rank = (int)rank;
    spec.nranks = (int)nranks;
    spec.root = (int)root;
    spec.in_place = (int)in_place;
    spec.no_ll = !ll;
    p->ll = (int)ll;
    weft_status st = wi_sched_begin(&spec, &p->builder);
    if (st == WEFT_EINVAL) {
        char text[256];
        snprintf(text, sizeof(text), "%s", wi_fail_text());
        return wi_parse_bad(p, "%s", text);
    }
    return st;
}

/* ---- Lanes and steps ---- */

static weft_status remember_line(struct wi_parser *p)
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
static weft_status builder_status(const struct wi_parser *p)
{
    if (p->builder->status < 0)
        return wi_fail(p->builder->status, "schedule text line %u: %s", p->line, p->builder->error);
    return WEFT_SUCCESS;
}

static weft_status peer(struct wi_parser *p, const char *what, int *value)
{
    uint32_t v;

    WI_TRY(wi_parse_expect(p, what));
    WI_TRY(wi_parse_next_word(p));
    *value = WI_NO_PEER;
    if (!strcmp(p->word, "-"))
        return WEFT_SUCCESS;
    WI_TRY(wi_parse_word_number(p, what, WI_SCHED_MAX_PARSE_RANKS - 1, &v));
    *value = (int)v;
    return WEFT_SUCCESS;
}

/* "lane" has been read. */
static weft_status parse_lane(struct wi_parser *p)
{
    uint32_t index, chan;
    int send, recv;

    WI_TRY(wi_parse_number(p, "lane", WI_SCHED_MAX_LANES - 1, &index));
    if (index != p->nlanes)
        return wi_parse_bad(p, "lane %u out of turn, the next is %u", index, p->nlanes);
    WI_TRY(peer(p, "send", &send));
    WI_TRY(peer(p, "recv", &recv));
    WI_TRY(wi_parse_named_number(p, "chan", WI_SCHED_MAX_CHANS - 1, &chan));
    WI_TRY(wi_parse_line_end(p));
    WI_TRY(remember_line(p));
    p->nlanes++;
    p->lane_steps = 0;
    wi_sched_lane(p->builder, send, recv, chan);
    return builder_status(p);
}

/* "image" has been read: INDEX of BUF BLOCK [residual N]. */
static weft_status parse_image(struct wi_parser *p)
{
    uint32_t index, block, residual = WI_NO_RESIDUAL, npacks = p->builder->head.buf_blocks[WI_PACK];
    unsigned buf = WI_SRC;

    if (!npacks || p->nlanes)
        return wi_parse_bad(p, npacks ? "an image after the first lane" : "an image, and the head names no pack");
    WI_TRY(wi_parse_number(p, "image", npacks - 1, &index));
    WI_TRY(wi_parse_expect(p, "of"));
    WI_TRY(wi_parse_next_word(p));
    while (buf <= WI_DST && strcmp(p->word, wi_sched_buf_names[buf]))
        buf++;
    if (buf > WI_DST)
        return wi_parse_bad(p, "src or dst expected, found %s", wi_parse_shown(p));
    WI_TRY(wi_parse_number(p, "block", WI_SCHED_MAX_BLOCKS, &block));
    WI_TRY(wi_parse_next_word(p));
    if (!strcmp(p->word, "residual")) {
        WI_TRY(wi_parse_number(p, "residual", WI_SCHED_RESIDUALS - 1, &residual));
        WI_TRY(wi_parse_next_word(p));
    }
    if (p->word[0])
        return wi_parse_bad(p, "%s is not understood here", p->word);
    wi_sched_image(p->builder, index, (enum wi_buf)buf, block, residual);
    return builder_status(p);
}

/* buf[first:count] or buf@rank[first:count] */
static weft_status parse_region(const struct wi_parser *p, struct wi_region *r)
{
    const char *s = p->word;
    uint32_t rank;

    *r = (struct wi_region){.rank = WI_SELF};
    while (r->buf < WI_NUM_BUFS && strncmp(s, wi_sched_buf_names[r->buf], strlen(wi_sched_buf_names[r->buf])))
        r->buf++;
    if (r->buf == WI_NUM_BUFS)
        return wi_parse_bad(p, "a region of src, dst, tmp or pack expected, found %s", wi_parse_shown(p));
    s += strlen(wi_sched_buf_names[r->buf]);
    if (*s == '@') {
        s++;
        if (wi_parse_digits(&s, WI_SCHED_MAX_PARSE_RANKS - 1, &rank))
            return wi_parse_bad(p, "malformed rank in region %s", p->word);
        if ((int)rank == p->builder->head.rank)
            return wi_parse_bad(p, "region %s names its own rank", p->word);
        r->rank = (int)rank;
    }
    if (*s++ != '[' || wi_parse_digits(&s, UINT32_MAX, &r->first) || *s++ != ':' ||
        wi_parse_digits(&s, UINT32_MAX, &r->count) || *s++ != ']' || *s)
        return wi_parse_bad(p, "malformed region %s, must be like src[0:1]", p->word);
    return WEFT_SUCCESS;
}

static int at_region(const struct wi_parser *p)
{
    return strchr(p->word, '[') != NULL;
}

/* Regions up to a word that is none, which is left in p->word. */
static weft_status parse_regions(struct wi_parser *p, struct wi_region *regions, uint16_t *n)
{
    for (*n = 0;; ++*n) {
        WI_TRY(wi_parse_next_word(p));
        if (!at_region(p))
            return WEFT_SUCCESS;
        if (*n == WI_SCHED_MAX_OPERANDS)
            return wi_parse_bad(p, "more than %u regions in a row", WI_SCHED_MAX_OPERANDS);
        WI_TRY(parse_region(p, &regions[*n]));
    }
}

static weft_status parse_operands(struct wi_parser *p, struct wi_step *step)
{
    struct wi_region *dst = p->operands, *src = dst + WI_SCHED_MAX_OPERANDS;

    if (step->kind == WI_STEP_SEND)
        return parse_regions(p, src, &step->nsrc);
    WI_TRY(parse_regions(p, dst, &step->ndst));
    if (strcmp(p->word, "<-"))
        return WEFT_SUCCESS;
    WI_TRY(parse_regions(p, src, &step->nsrc));
    return step->nsrc ? WEFT_SUCCESS : wi_parse_bad(p, "a region expected after <-, found %s", wi_parse_shown(p));
}

static weft_status parse_signal(struct wi_parser *p, struct wi_step *step)
{
    uint32_t rank = 0, lane = 0, ordinal;

    if (step->kind == WI_STEP_WAIT) {
        WI_TRY(wi_parse_named_number(p, "rank", WI_SCHED_MAX_PARSE_RANKS - 1, &rank));
        WI_TRY(wi_parse_named_number(p, "lane", WI_SCHED_MAX_MAPPED_LANES - 1, &lane));
        WI_TRY(wi_parse_named_number(p, "signal", WI_SCHED_MAX_SIGNALS - 1, &ordinal));
        step->peer = (int)rank;
        step->lane = (uint16_t)lane;
    } else {
        WI_TRY(wi_parse_number(p, "signal", WI_SCHED_MAX_SIGNALS - 1, &ordinal));
    }
    step->ordinal = (uint16_t)ordinal;
    return wi_parse_next_word(p);
}

static weft_status parse_dependency(struct wi_parser *p, struct wi_step *step)
{
    uint32_t lane;
    const char *s;

    WI_TRY(wi_parse_next_word(p));
    s = p->word;
    if (wi_parse_digits(&s, WI_SCHED_MAX_LANES - 1, &lane) || *s++ != '.' ||
        wi_parse_digits(&s, WI_SCHED_MAX_STEPS - 1, &step->dep_step) || *s)
        return wi_parse_bad(p, "LANE.STEP expected after \"after\", found %s", wi_parse_shown(p));
    if (lane == p->nlanes - 1)
        return wi_parse_bad(p, "the step depends on its own lane %u", lane);
    step->dep_lane = (int32_t)lane;
    return wi_parse_next_word(p);
}

/* In this order: left, final, after L.S. The first word has been read. */
static weft_status parse_tail(struct wi_parser *p, struct wi_step *step)
{
    if (!strcmp(p->word, "left")) {
        step->flags |= WI_STEP_RECV_LEFT;
        WI_TRY(wi_parse_next_word(p));
    }
    if (!strcmp(p->word, "final")) {
        step->flags |= WI_STEP_FINAL;
        WI_TRY(wi_parse_next_word(p));
    }
    if (!strcmp(p->word, "after"))
        WI_TRY(parse_dependency(p, step));
    return p->word[0] ? wi_parse_bad(p, "%s is not understood here", p->word) : WEFT_SUCCESS;
}

/* The step's number has been read. */
static weft_status parse_step(struct wi_parser *p)
{
    struct wi_step step = {.dep_lane = WI_NO_DEP, .peer = WI_NO_PEER};
    uint32_t index;

    WI_TRY(wi_parse_word_number(p, "step", WI_SCHED_MAX_STEPS - 1, &index));
    if (p->nlanes == 0)
        return wi_parse_bad(p, "a step before the first lane");
    if (index != p->lane_steps)
        return wi_parse_bad(p, "step %u out of turn, the next is %u", index, p->lane_steps);
    WI_TRY(wi_parse_next_word(p));
    while (step.kind < WI_NUM_STEP_KINDS && strcmp(p->word, wi_sched_step_names[step.kind]))
        step.kind++;
    if (step.kind == WI_NUM_STEP_KINDS)
        return wi_parse_bad(p, "unknown step %s", wi_parse_shown(p));
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

/* Lanes, up to a line that begins with `end`. */
static weft_status parse_body(struct wi_parser *p, const char *end)
{
    while (wi_parse_next_line(p)) {
        WI_TRY(wi_parse_next_word(p));
        if (!strcmp(p->word, "lane"))
            WI_TRY(parse_lane(p));
        else if (!strcmp(p->word, "image"))
            WI_TRY(parse_image(p));
        else if (!strcmp(p->word, end))
            return WEFT_SUCCESS;
        else if (isdigit((unsigned char)p->word[0]))
            WI_TRY(parse_step(p));
        else
            return wi_parse_bad(p, "\"lane\", \"%s\" or a step's number expected, found %s", end, p->word);
    }
    return wi_parse_bad(p, "\"%s\" expected, found the end of the text", end);
}

/* ---- Seal ---- */

/* Lines were remembered lane by lane, each lane's own first. */
static uint32_t line_of(const struct wi_parser *p, const struct wi_sched_place *place, const uint32_t *nsteps)
{
    uint32_t at = 0;

    if (place->lane == WI_NOWHERE)
        return 0;
    for (uint32_t i = 0; i < place->lane; i++)
        at += 1 + nsteps[i];
    at += place->step == WI_NOWHERE ? 0 : 1 + place->step;
    return at < p->nlines ? p->lines[at] : 0;
}

static weft_status seal(struct wi_parser *p, struct wi_sched **sched)
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
        *sched = NULL;
        return wi_fail(WEFT_EINVAL, "schedule text: ll is 1, but the schedule is not fit for ll lines");
    }
    return st;
}

/* A schedule's form is looked at before its stages, which are read against it. */
static weft_status seal_and_stages(struct wi_parser *p, struct wi_sched **sched)
{
    WI_TRY(seal(p, sched));
    return wi_parse_stages(p, *sched);
}

/* ---- The whole ---- */

weft_status wi_parse_inner(struct wi_parser *p, const char *end, struct wi_sched **sched)
{
    struct wi_parser inner = {
        .at = p->at, .end = p->end, .line_end = p->line_end, .line = p->line, .operands = p->operands};
    weft_status st = parse_head(&inner);

    if (st == WEFT_SUCCESS)
        st = parse_body(&inner, end);
    if (st == WEFT_SUCCESS)
        st = wi_parse_line_end(&inner);
    if (st == WEFT_SUCCESS)
        st = seal(&inner, sched);
    wi_sched_abandon(inner.builder);
    wi_free(inner.lines);
    p->at = inner.at;
    p->line_end = inner.line_end;
    p->line = inner.line;
    return st;
}

static weft_status parse_text(struct wi_parser *p, struct wi_sched **sched)
{
    uint32_t version;

    if (!wi_parse_next_line(p))
        return wi_parse_bad(p, "the text is empty");
    WI_TRY(wi_parse_expect(p, "weft-schedule"));
    WI_TRY(wi_parse_number(p, "the version", UINT32_MAX, &version));
    if (version != 1 && version != 2)
        return wi_parse_bad(p, "version %u, must be 1, or 2 for one with stages", version);
    WI_TRY(wi_parse_line_end(p));
    if (version == 1) {
        WI_TRY(wi_parse_inner(p, "end", sched));
    } else {
        WI_TRY(parse_head(p));
        WI_TRY(parse_body(p, "slots"));
        WI_TRY(seal_and_stages(p, sched));
    }
    return wi_parse_next_line(p) ? wi_parse_bad(p, "text after \"end\"") : WEFT_SUCCESS;
}

weft_status wi_sched_parse(const char *text, size_t bytes, struct wi_sched **sched)
{
    struct wi_parser p = {.at = text, .end = text + bytes};
    struct wi_sched *parsed = NULL;
    weft_status st;

    if (!text)
        return wi_fail(WEFT_EINVAL, "schedule text: NULL");
    p.operands = wi_malloc(2 * WI_SCHED_MAX_OPERANDS * sizeof(*p.operands));
    if (!p.operands)
        return wi_fail(WEFT_ENOMEM, "schedule text: no memory");
    st = parse_text(&p, &parsed);
    wi_sched_abandon(p.builder);
    wi_free(p.lines);
    wi_free(p.operands);
    if (st == WEFT_SUCCESS)
        *sched = parsed;
    else
        wi_sched_put(parsed);
    return st;
}
