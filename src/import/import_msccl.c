/* SPDX-License-Identifier: BSD-3-Clause */
/* MSCCL XML: <algo> of <gpu>s of <tb>s of <step>s. The step types and their operands are those that MSCCL's interpreter
 * gives them: the local operand of a receiving reduction is the step's source, `re` adds its source to its destination,
 * deps counts the steps of thread block depid. */
#include "config.h"

#include "import/import_program.h"

#ifdef HAVE_EXPAT
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum level { TOP, IN_ALGO, IN_GPU, IN_TB, IN_STEP };

struct reader {
    struct wi_imp_prog prog;
    XML_Parser parser;
    weft_status status;
    enum level level;
    int ngpus, seen_algo, gpu;
    int both;         /* for calls in place and others */
    uint32_t nchunks; /* nchunksperloop */
    struct wi_imp_lane *lane;
};

static uint32_t line_of(const struct reader *r)
{
    return (uint32_t)XML_GetCurrentLineNumber(r->parser);
}

static weft_status stop(struct reader *r, weft_status status)
{
    if (r->status == WEFT_SUCCESS) {
        r->status = status;
        XML_StopParser(r->parser, XML_FALSE);
    }
    return status;
}

#define BAD(r, ...) wi_imp_fail(&(r)->prog, WEFT_EINVAL, line_of(r), __VA_ARGS__)

static const char *attribute(const char **atts, const char *name)
{
    for (; *atts; atts += 2) {
        if (!strcmp(atts[0], name))
            return atts[1];
    }
    return NULL;
}

static weft_status text_of(struct reader *r, const char *element, const char **atts, const char *name,
                           const char **text)
{
    *text = attribute(atts, name);
    return *text ? WEFT_SUCCESS : BAD(r, "<%s> lacks %s", element, name);
}

static weft_status number_of(struct reader *r, const char *element, const char **atts, const char *name, long least,
                             long most, long *value)
{
    const char *text;
    char *end;

    WI_TRY(text_of(r, element, atts, name, &text));
    *value = strtol(text, &end, 10);
    if (end == text || *end || strlen(text) > 10 || *value < least || *value > most)
        return BAD(r, "<%s> %s must be a number from %ld to %ld, found \"%.40s\"", element, name, least, most, text);
    return WEFT_SUCCESS;
}

static weft_status flag_of(struct reader *r, const char **atts, const char *name, int otherwise, int *value)
{
    long number;

    *value = otherwise;
    if (!attribute(atts, name))
        return WEFT_SUCCESS;
    WI_TRY(number_of(r, "algo", atts, name, 0, 1, &number));
    *value = (int)number;
    return WEFT_SUCCESS;
}

static weft_status bytes_of(struct reader *r, const char **atts, const char *name, uint64_t *value)
{
    const char *text = attribute(atts, name);
    char *end;

    if (!text || !strcmp(text, "-1"))
        return WEFT_SUCCESS;
    *value = strtoull(text, &end, 10);
    if (end == text || *end || strlen(text) > 19 || *text == '-')
        return BAD(r, "<algo> %s must be a number of bytes, found \"%.40s\"", name, text);
    return WEFT_SUCCESS;
}

/* ---- Elements ---- */

static weft_status begin_algo(struct reader *r, const char **atts)
{
    const char *coll, *name = attribute(atts, "name");
    long ngpus, chunks, root;
    int in_place, out_of_place;

    WI_TRY(number_of(r, "algo", atts, "ngpus", 1, WI_IMPORT_MAX_RANKS, &ngpus));
    WI_TRY(number_of(r, "algo", atts, "nchunksperloop", 1, WI_IMPORT_MAX_CHUNKS, &chunks));
    WI_TRY(text_of(r, "algo", atts, "coll", &coll));
    if (wi_imp_coll(coll, &r->prog.coll))
        return BAD(r, "collective \"%.40s\" is not one that weft has", coll);
    WI_TRY(flag_of(r, atts, "inplace", 0, &in_place));
    WI_TRY(flag_of(r, atts, "outofplace", !in_place, &out_of_place));
    r->prog.in_place = in_place && !out_of_place;
    r->both = in_place && out_of_place;
    WI_TRY(bytes_of(r, atts, "minBytes", &r->prog.min_bytes));
    WI_TRY(bytes_of(r, atts, "maxBytes", &r->prog.max_bytes));
    r->prog.max_bytes = r->prog.max_bytes ? r->prog.max_bytes : UINT64_MAX;
    r->prog.root = -1;
    if (attribute(atts, "root")) {
        WI_TRY(number_of(r, "algo", atts, "root", 0, ngpus - 1, &root));
        r->prog.root = (int)root;
    }
    wi_imp_set_name(&r->prog, name ? name : "unnamed");
    r->nchunks = (uint32_t)chunks;
    return wi_imp_ranks(&r->prog, (int)ngpus);
}

static weft_status begin_gpu(struct reader *r, const char **atts)
{
    static const char *const names[WI_PACK] = {"i_chunks", "o_chunks", "s_chunks"};
    long id, chunks;

    WI_TRY(number_of(r, "gpu", atts, "id", 0, r->prog.nranks - 1, &id));
    if (r->prog.ranks[id].seen)
        return BAD(r, "gpu %ld stands in line %u already", id, r->prog.ranks[id].seen);
    r->prog.ranks[id].seen = line_of(r);
    r->gpu = (int)id;
    for (unsigned buf = 0; buf < WI_PACK; buf++) {
        WI_TRY(number_of(r, "gpu", atts, names[buf], 0, WI_IMPORT_MAX_CHUNKS, &chunks));
        r->prog.ranks[id].chunks[buf] = (uint32_t)chunks;
    }
    return WEFT_SUCCESS;
}

static weft_status begin_tb(struct reader *r, const char **atts)
{
    struct wi_imp_rank *rank = &r->prog.ranks[r->gpu];
    long id, send, recv, chan;

    WI_TRY(number_of(r, "tb", atts, "id", 0, WI_IMPORT_MAX_LANES - 1, &id));
    WI_TRY(number_of(r, "tb", atts, "send", -1, r->prog.nranks - 1, &send));
    WI_TRY(number_of(r, "tb", atts, "recv", -1, r->prog.nranks - 1, &recv));
    WI_TRY(number_of(r, "tb", atts, "chan", -1, 63, &chan));
    for (uint32_t l = 0; l < rank->nlanes; l++) {
        if (rank->lanes[l].id == id)
            return BAD(r, "thread block %ld of gpu %d stands in line %u already", id, r->gpu, rank->lanes[l].line);
    }
    if (send == r->gpu || recv == r->gpu)
        return BAD(r, "thread block %ld of gpu %d has its own gpu as a peer", id, r->gpu);
    WI_TRY(wi_imp_lane_add(&r->prog, rank, &r->lane));
    r->lane->id = (int)id;
    r->lane->line = line_of(r);
    r->lane->send_peer = (int32_t)send;
    r->lane->recv_peer = (int32_t)recv;
    r->lane->chan = chan < 0 ? 0 : (uint32_t)chan;
    return WEFT_SUCCESS;
}

/* Which operands each type has, as regions of the weft step. */
static const struct {
    const char *name;
    uint8_t kind, src, dst;
} types[] = {
    {"s", WI_STEP_SEND, 1, 0},          {"r", WI_STEP_RECV, 0, 1},
    {"rcs", WI_STEP_RECV_SEND, 0, 1},   {"rrs", WI_STEP_RECV_REDUCE_SEND, 1, 0},
    {"rrc", WI_STEP_RECV_REDUCE, 1, 1}, {"rrcs", WI_STEP_RECV_REDUCE_SEND, 1, 1},
    {"cpy", WI_STEP_COPY, 1, 1},        {"re", WI_STEP_REDUCE, 1, 1},
    {"nop", WI_STEP_NOP, 0, 0},
};

static weft_status operand(struct reader *r, const char **atts, const char *buf_name, const char *off_name, long count,
                           struct wi_region *region)
{
    static const char letters[] = "ios";
    const struct wi_imp_rank *rank = &r->prog.ranks[r->gpu];
    const char *letter, *at;
    long first;

    WI_TRY(text_of(r, "step", atts, buf_name, &letter));
    at = strlen(letter) == 1 ? strchr(letters, *letter) : NULL;
    if (!at)
        return BAD(r, "%s must be i, o or s, found \"%.40s\"", buf_name, letter);
    WI_TRY(number_of(r, "step", atts, off_name, 0, WI_IMPORT_MAX_CHUNKS - 1, &first));
    unsigned buf = (unsigned)(at - letters);
    uint32_t limit = rank->chunks[buf];
    if (first + count > (long)limit && (limit || buf == WI_TMP))
        return BAD(r, "out of bounds: chunks %ld to %ld of %s, gpu %d has %u", first, first + count - 1, letter, r->gpu,
                   limit);
    *region = wi_at((enum wi_buf)buf, (uint32_t)first, (uint32_t)count);
    return WEFT_SUCCESS;
}

static weft_status dependency(struct reader *r, const char **atts, struct wi_imp_op *op)
{
    long tb, step;

    WI_TRY(number_of(r, "step", atts, "depid", -1, WI_IMPORT_MAX_LANES - 1, &tb));
    WI_TRY(number_of(r, "step", atts, "deps", -1, WI_IMPORT_MAX_STEPS, &step));
    if ((tb < 0) != (step < 0))
        return BAD(r, "depid is %ld and deps is %ld: both or neither must be -1", tb, step);
    op->dep_lane = tb < 0 ? WI_NO_DEP : (int32_t)tb; /* a thread block's id until the gpu ends */
    op->dep_op = step < 0 ? 0 : (uint32_t)step;
    return WEFT_SUCCESS;
}

static weft_status begin_step(struct reader *r, const char **atts)
{
    struct wi_imp_op op = {.peer = WI_NO_PEER, .place = {line_of(r), 0, WI_NOWHERE}};
    struct wi_region dst = {0}, src[2] = {{0}};
    const char *type;
    size_t t = 0, ntypes = sizeof(types) / sizeof(types[0]);
    long number, count;

    WI_TRY(number_of(r, "step", atts, "s", 0, WI_IMPORT_MAX_STEPS, &number));
    if (number != (long)r->lane->nops)
        return BAD(r, "step s=\"%u\" expected, found %ld", r->lane->nops, number);
    WI_TRY(text_of(r, "step", atts, "type", &type));
    while (t < ntypes && strcmp(types[t].name, type))
        t++;
    if (t == ntypes)
        return BAD(r, "step type \"%.40s\" of gpu %d, thread block %d, step %ld is not expressible", type, r->gpu,
                   r->lane->id, number);
    WI_TRY(dependency(r, atts, &op));
    op.kind = types[t].kind;
    if (op.kind != WI_STEP_NOP)
        WI_TRY(number_of(r, "step", atts, "cnt", 1, WI_IMPORT_MAX_CHUNKS, &count));
    if (types[t].src)
        WI_TRY(operand(r, atts, "srcbuf", "srcoff", count, &src[op.nsrc++]));
    if (types[t].dst)
        WI_TRY(operand(r, atts, "dstbuf", "dstoff", count, &dst));
    op.ndst = types[t].dst;
    if (!strcmp(type, "rrs")) {
        dst = wi_at(WI_TMP, 0, (uint32_t)count);
        op.drops = op.ndst = 1;
    } else if (op.kind == WI_STEP_REDUCE) {
        src[1] = src[0];
        src[0] = dst;
        op.nsrc = 2;
    }
    return wi_imp_op_add(&r->prog, &r->prog.ranks[r->gpu], r->lane, &op, &dst, src);
}

/* Thread blocks' ids become lanes. */
static weft_status end_gpu(struct reader *r)
{
    struct wi_imp_rank *rank = &r->prog.ranks[r->gpu];
    int32_t lane_of[WI_IMPORT_MAX_LANES];

    memset(lane_of, -1, sizeof(lane_of));
    for (uint32_t l = 0; l < rank->nlanes; l++)
        lane_of[rank->lanes[l].id] = (int32_t)l;
    for (uint32_t l = 0; l < rank->nlanes; l++) {
        for (uint32_t k = 0; k < rank->lanes[l].nops; k++) {
            struct wi_imp_op *op = &rank->lanes[l].ops[k];
            if (op->dep_lane == WI_NO_DEP)
                continue;
            int32_t lane = lane_of[op->dep_lane];
            if (lane < 0 || op->dep_op >= rank->lanes[lane].nops)
                return wi_imp_fail(&r->prog, WEFT_EINVAL, op->place.line,
                                   "out of bounds: depends on step %u of thread block %d, which gpu %d does not have",
                                   op->dep_op, op->dep_lane, r->gpu);
            op->dep_lane = lane;
        }
    }
    return WEFT_SUCCESS;
}

/* ---- Parsing ---- */

static weft_status begin(struct reader *r, const char *element, const char **atts)
{
    static const char *const expected[] = {"algo", "gpu", "tb", "step", NULL};

    if (r->level == IN_STEP || strcmp(element, expected[r->level]))
        return BAD(r, "<%.40s> where %s%s%s belongs", element, r->level == IN_STEP ? "no element" : "<",
                   r->level == IN_STEP ? "" : expected[r->level], r->level == IN_STEP ? "" : ">");
    switch (r->level) {
    case TOP:
        return begin_algo(r, atts);
    case IN_ALGO:
        return begin_gpu(r, atts);
    case IN_GPU:
        return begin_tb(r, atts);
    default:
        return begin_step(r, atts);
    }
}

static void on_start(void *arg, const char *element, const char **atts)
{
    struct reader *r = arg;

    if (r->status < 0)
        return;
    weft_status st = begin(r, element, atts);
    if (st < 0)
        stop(r, st);
    r->level++;
}

static void on_end(void *arg, const char *element)
{
    struct reader *r = arg;

    (void)element;
    if (r->status < 0)
        return;
    if (r->level == IN_GPU) {
        weft_status st = end_gpu(r);
        if (st < 0)
            stop(r, st);
    }
    r->level--;
}

static void on_text(void *arg, const char *text, int n)
{
    struct reader *r = arg;

    for (int i = 0; i < n && r->status == WEFT_SUCCESS; i++) {
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            stop(r, BAD(r, "text between the elements"));
    }
}

/* No document type: it could define entities, which expand without bound. */
static void on_doctype(void *arg, const char *name, const char *system, const char *public, int internal)
{
    struct reader *r = arg;

    (void)name, (void)system, (void)public, (void)internal;
    stop(r, BAD(r, "a document type declaration; entities are not expanded"));
}

static weft_status finish(struct reader *r)
{
    struct wi_imp_prog *p = &r->prog;

    for (int i = 0; i < p->nranks; i++) {
        if (!p->ranks[i].seen)
            return wi_imp_fail(p, WEFT_EINVAL, 0, "ngpus is %d, but there is no gpu %d", p->nranks, i);
    }
    WI_TRY(wi_imp_shape(p));
    uint64_t want = (uint64_t)p->nblocks * (wi_coll_is_vector(p->coll) ? 1 : (unsigned)p->nranks);
    if (want != r->nchunks)
        return wi_imp_fail(p, WEFT_EINVAL, 0, "nchunksperloop is %u, the gpus' chunks mean %llu", r->nchunks,
                           (unsigned long long)want);
    return WEFT_SUCCESS;
}

static weft_status parse(struct reader *r, const char *text, size_t bytes)
{
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, on_start, on_end);
    XML_SetCharacterDataHandler(r->parser, on_text);
    XML_SetStartDoctypeDeclHandler(r->parser, on_doctype);
    if (XML_Parse(r->parser, text, (int)bytes, 1) == XML_STATUS_OK && r->status == WEFT_SUCCESS)
        return finish(r);
    if (r->status < 0)
        return r->status;
    return BAD(r, "%s", XML_ErrorString(XML_GetErrorCode(r->parser)));
}

/* Channels matter only in that they differ: number those in use from 0. */
static void pack_channels(struct wi_imp_prog *p)
{
    uint32_t number[64] = {0}, next = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->nranks; i++) {
            for (uint32_t l = 0; l < p->ranks[i].nlanes; l++) {
                struct wi_imp_lane *lane = &p->ranks[i].lanes[l];
                if (pass == 1)
                    lane->chan = number[lane->chan] - 1;
                else
                    number[lane->chan] = 1;
            }
        }
        for (unsigned c = 0; pass == 0 && c < 64; c++)
            number[c] = number[c] ? ++next : 0;
    }
}

/* `in_place`: of a file for both kinds of calls the one in place. */
static weft_status read_one(const char *name, const char *text, size_t bytes, int in_place, int *both,
                            struct wi_import **import)
{
    struct reader r = {.prog = {.file = name, .format = WI_IMPORT_MSCCL, .max_bytes = 0},
                       .parser = XML_ParserCreate("UTF-8")};

    if (!r.parser)
        return wi_fail(WEFT_ENOMEM, "%s: no memory for an XML parser", name);
    weft_status st = parse(&r, text, bytes);
    XML_ParserFree(r.parser);
    *both = r.both;
    if (st == WEFT_SUCCESS) {
        pack_channels(&r.prog);
        r.prog.in_place |= in_place;
        st = wi_imp_lower(&r.prog, import);
    }
    wi_imp_fini(&r.prog);
    return st;
}

/* A file for both kinds of calls: one program is enough; the import then says why there is no second one. */
static weft_status read_both(const char *name, const char *text, size_t bytes, weft_status first,
                             struct wi_import **import)
{
    char why[sizeof((*import)->variant_refused)];
    struct wi_import *found = first < 0 ? NULL : *import, *variant = NULL;
    int both;

    snprintf(why, sizeof(why), "%s", first < 0 ? wi_fail_text() : "");
    weft_status st = read_one(name, text, bytes, 1, &both, &variant);
    if (st < 0 && !found)
        return wi_fail(first, "%s", why);
    if (!found) {
        *import = variant;
        memcpy(variant->variant_refused, why, sizeof(why));
    } else if (variant) {
        found->in_place_variant = variant;
    } else {
        snprintf(found->variant_refused, sizeof(found->variant_refused), "%s", wi_fail_text());
    }
    wi_fail_clear();
    return WEFT_SUCCESS;
}

weft_status wi_import_msccl(const char *name, const char *text, size_t bytes, struct wi_import **import)
{
    struct wi_import *found = NULL;
    int both;
    weft_status st = read_one(name, text, bytes, 0, &both, &found);

    /* Where there is a root the other ranks do not know how it calls. */
    if (both && st != WEFT_ENOMEM && !(found && wi_coll_has_root(found->coll)))
        st = read_both(name, text, bytes, st, &found);
    if (st == WEFT_SUCCESS)
        *import = found;
    return st;
}

#else

#include "base/status.h"

weft_status wi_import_msccl(const char *name, const char *text, size_t bytes, struct wi_import **import)
{
    (void)text, (void)bytes, (void)import;
    return wi_fail(WEFT_ENOTSUP, "%s: is XML, and weft was built without expat", name);
}

#endif
