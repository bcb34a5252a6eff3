/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs as foreign files tell them: put together, bounded, measured against their collective. */
#include "import/import_program.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

weft_status wi_imp_fail(const struct wi_imp_prog *prog, weft_status status, uint32_t line, const char *format, ...)
{
    char what[512];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    if (line)
        return wi_fail(status, "%s:%u: %s", prog->file, line, what);
    return wi_fail(status, "%s: %s", prog->file, what);
}

const char *wi_imp_place_text(const struct wi_imp_prog *prog, int rank, const struct wi_imp_lane *lane,
                              const struct wi_imp_op *op, char text[WI_IMP_PLACE_BYTES])
{
    int n;

    if (op && op->place.line)
        snprintf(text, WI_IMP_PLACE_BYTES, "%.160s:%u", prog->file, op->place.line);
    else if (lane && lane->line)
        snprintf(text, WI_IMP_PLACE_BYTES, "%.160s:%u", prog->file, lane->line);
    else if (prog->format == WI_IMPORT_MSCCLPP && rank >= 0) {
        n = snprintf(text, WI_IMP_PLACE_BYTES, "%.160s: gpus[%u]", prog->file, prog->ranks[rank].seen - 1);
        if (lane)
            n += snprintf(text + n, WI_IMP_PLACE_BYTES - (size_t)n, ".threadblocks[%u]", lane->index);
        if (op)
            n += snprintf(text + n, WI_IMP_PLACE_BYTES - (size_t)n, ".ops[%u]", op->place.op);
        if (op && op->place.inner != WI_NOWHERE)
            snprintf(text + n, WI_IMP_PLACE_BYTES - (size_t)n, ".ops[%u]", op->place.inner);
    } else
        snprintf(text, WI_IMP_PLACE_BYTES, "%.160s", prog->file);
    return text;
}

void wi_imp_set_name(struct wi_imp_prog *prog, const char *name)
{
    size_t n = 0;

    for (; *name && n < sizeof(prog->name) - 1; name++)
        prog->name[n++] = isalnum((unsigned char)*name) || strchr("_.+-", *name) ? *name : '_';
    prog->name[n] = '\0';
    if (n == 0)
        strcpy(prog->name, "unnamed");
}

int wi_imp_coll(const char *name, enum wi_coll *coll)
{
    static const struct {
        const char *name;
        enum wi_coll coll;
    } list[] = {
        {"allreduce", WI_COLL_ALL_REDUCE}, {"allgather", WI_COLL_ALL_GATHER}, {"reducescatter", WI_COLL_REDUCE_SCATTER},
        {"alltoall", WI_COLL_ALL_TO_ALL},  {"broadcast", WI_COLL_BROADCAST},  {"reduce", WI_COLL_REDUCE},
        {"gather", WI_COLL_GATHER},        {"scatter", WI_COLL_SCATTER},
    };
    char plain[32];
    size_t n = 0;

    for (; *name && n < sizeof(plain) - 1; name++) {
        if (*name != '_' && *name != '-')
            plain[n++] = (char)tolower((unsigned char)*name);
    }
    plain[n] = '\0';
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        if (!*name && !strcmp(list[i].name, plain)) {
            *coll = list[i].coll;
            return 0;
        }
    }
    return -1;
}

weft_status wi_imp_ranks(struct wi_imp_prog *prog, int nranks)
{
    prog->ranks = wi_calloc((size_t)nranks, sizeof(*prog->ranks));
    if (!prog->ranks)
        return wi_imp_fail(prog, WEFT_ENOMEM, 0, "no memory for %d ranks", nranks);
    prog->nranks = nranks;
    return WEFT_SUCCESS;
}

static weft_status grow(struct wi_imp_prog *prog, void **array, uint32_t *capacity, uint64_t need, size_t elem_bytes)
{
    uint32_t more = *capacity ? *capacity : 8;

    if (need <= *capacity)
        return WEFT_SUCCESS;
    while (more < need)
        more *= 2;
    void *p = wi_realloc(*array, more * elem_bytes);
    if (!p)
        return wi_imp_fail(prog, WEFT_ENOMEM, 0, "no memory for %u entries", more);
    *array = p;
    *capacity = more;
    return WEFT_SUCCESS;
}

weft_status wi_imp_lane_add(struct wi_imp_prog *prog, struct wi_imp_rank *rank, struct wi_imp_lane **lane)
{
    WI_TRY(grow(prog, (void **)&rank->lanes, &rank->lane_capacity, rank->nlanes + 1ull, sizeof(*rank->lanes)));
    *lane = &rank->lanes[rank->nlanes];
    **lane = (struct wi_imp_lane){.index = rank->nlanes++, .send_peer = WI_NO_PEER, .recv_peer = WI_NO_PEER};
    return WEFT_SUCCESS;
}

weft_status wi_imp_op_add(struct wi_imp_prog *prog, struct wi_imp_rank *rank, struct wi_imp_lane *lane,
                          const struct wi_imp_op *op, const struct wi_region *dst, const struct wi_region *src)
{
    uint64_t n = (uint64_t)op->ndst + op->nsrc;

    if (++prog->nops > WI_IMPORT_MAX_STEPS)
        return wi_imp_fail(prog, WEFT_ENOTSUP, op->place.line, "more than %u steps", WI_IMPORT_MAX_STEPS);
    WI_TRY(grow(prog, (void **)&lane->ops, &lane->capacity, lane->nops + 1ull, sizeof(*lane->ops)));
    WI_TRY(grow(prog, (void **)&rank->regions, &rank->region_capacity, rank->nregions + n, sizeof(*rank->regions)));
    lane->ops[lane->nops] = *op;
    lane->ops[lane->nops++].regions = rank->nregions;
    for (unsigned i = 0; i < op->ndst; i++)
        rank->regions[rank->nregions++] = dst[i];
    for (unsigned i = 0; i < op->nsrc; i++)
        rank->regions[rank->nregions++] = src[i];
    return WEFT_SUCCESS;
}

/* ---- Shape ---- */

/* How many shares a buffer of the user has on a rank; 0: it is not there. */
static uint32_t shares(const struct wi_imp_prog *prog, int rank, unsigned buf)
{
    struct wi_sched probe = {
        .coll = (uint8_t)prog->coll, .nranks = prog->nranks, .root = prog->root, .rank = rank, .nblocks = 1};

    return wi_sched_blocks(&probe, rank, buf);
}

/* Every rank's i and o chunks must be the same number per share; 0 where the file leaves a buffer out. */
static weft_status one_cut(struct wi_imp_prog *prog, int rank, unsigned buf)
{
    uint32_t chunks = prog->ranks[rank].chunks[buf], n = shares(prog, rank, buf);
    const char *what = buf == WI_SRC ? "input" : "output";

    if (chunks == 0 || n == 0)
        return WEFT_SUCCESS;
    if (chunks % n)
        return wi_imp_fail(prog, WEFT_EINVAL, 0, "rank %d has %u %s chunks, %s of %d ranks wants a multiple of %u",
                           rank, chunks, what, wi_coll_name(prog->coll), prog->nranks, n);
    if (prog->nblocks && prog->nblocks != chunks / n)
        return wi_imp_fail(prog, WEFT_EINVAL, 0, "rank %d has %u %s chunks, others mean %u per %s", rank, chunks, what,
                           prog->nblocks, wi_coll_is_vector(prog->coll) ? "vector" : "share");
    prog->nblocks = chunks / n;
    return WEFT_SUCCESS;
}

/* The only rank that has what only the root uses: reads of the input (broadcast, scatter), writes of the output. */
static int uses(const struct wi_imp_rank *rank, unsigned buf, int written)
{
    for (uint32_t l = 0; l < rank->nlanes; l++) {
        for (uint32_t k = 0; k < rank->lanes[l].nops; k++) {
            const struct wi_imp_op *op = &rank->lanes[l].ops[k];
            const struct wi_region *r = &rank->regions[op->regions + (written ? 0 : op->ndst)];
            for (unsigned i = 0; i < (written ? op->ndst : op->nsrc); i++) {
                if (r[i].buf == buf)
                    return 1;
            }
        }
    }
    return 0;
}

static weft_status find_root(struct wi_imp_prog *prog)
{
    int to_root = prog->coll == WI_COLL_REDUCE || prog->coll == WI_COLL_GATHER;
    int found = -1;

    if (!wi_coll_has_root(prog->coll) || prog->root >= 0)
        return WEFT_SUCCESS;
    for (int r = 0; r < prog->nranks; r++) {
        if (!uses(&prog->ranks[r], to_root ? WI_DST : WI_SRC, to_root))
            continue;
        if (found >= 0)
            return wi_imp_fail(prog, WEFT_EINVAL, 0, "which rank is the root? Ranks %d and %d both %s", found, r,
                               to_root ? "write their output" : "read their input");
        found = r;
    }
    if (found < 0)
        return wi_imp_fail(prog, WEFT_EINVAL, 0, "which rank is the root? None %s",
                           to_root ? "writes its output" : "reads its input");
    prog->root = found;
    return WEFT_SUCCESS;
}

weft_status wi_imp_shape(struct wi_imp_prog *prog)
{
    WI_TRY(find_root(prog));
    if (prog->root < 0)
        prog->root = 0;
    prog->nblocks = 0;
    for (int r = 0; r < prog->nranks; r++) {
        WI_TRY(one_cut(prog, r, WI_SRC));
        WI_TRY(one_cut(prog, r, WI_DST));
    }
    if (prog->nblocks == 0)
        return wi_imp_fail(prog, WEFT_EINVAL, 0, "no rank has input or output chunks");
    if (prog->in_place && prog->coll == WI_COLL_ALL_TO_ALL)
        return wi_imp_fail(prog, WEFT_ENOTSUP, 0, "all_to_all in place is not expressible");
    return WEFT_SUCCESS;
}

void wi_imp_fini(struct wi_imp_prog *prog)
{
    for (int r = 0; prog->ranks && r < prog->nranks; r++) {
        for (uint32_t l = 0; l < prog->ranks[r].nlanes; l++)
            wi_free(prog->ranks[r].lanes[l].ops);
        wi_free(prog->ranks[r].lanes);
        wi_free(prog->ranks[r].regions);
    }
    wi_free(prog->ranks);
    prog->ranks = NULL;
}
