/* SPDX-License-Identifier: BSD-3-Clause */
/* MSCCL++ plan JSON: gpus with channels, remote buffers, semaphores, and thread blocks of ops. Puts and gets become copies
 * to and from other ranks' memory, signals and waits those of a mapped schedule: the plan's own model. */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "import/import_plan.h"

weft_status wi_plan_bad(const struct wi_plan_reader *r, const char *format, ...)
{
    char what[384], at[160] = "";
    int n = 0;
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    if (r->gpu_at != WI_NOWHERE)
        n += snprintf(at, sizeof(at), " gpus[%u]", r->gpu_at);
    if (r->tb_at != WI_NOWHERE)
        n += snprintf(at + n, sizeof(at) - (size_t)n, ".threadblocks[%u]", r->tb_at);
    if (r->op_at != WI_NOWHERE)
        n += snprintf(at + n, sizeof(at) - (size_t)n, ".ops[%u]", r->op_at);
    if (r->inner_at != WI_NOWHERE)
        n += snprintf(at + n, sizeof(at) - (size_t)n, ".ops[%u]", r->inner_at);
    return wi_fail(WEFT_EINVAL, "%s:%s%s %s", r->prog.file, at, n ? ":" : "", what);
}

weft_status wi_plan_number(const struct wi_plan_reader *r, const json_t *object, const char *key, long long least,
                           long long most, long long *value)
{
    const json_t *v = json_object_get(object, key);

    if (!v)
        return wi_plan_bad(r, "lacks \"%s\"", key);
    *value = json_integer_value(v);
    if (!json_is_integer(v) || *value < least || *value > most)
        return wi_plan_bad(r, "\"%s\" must be a number from %lld to %lld", key, least, most);
    return WEFT_SUCCESS;
}

weft_status wi_plan_array(const struct wi_plan_reader *r, const json_t *object, const char *key, int needed,
                          const json_t **array)
{
    *array = json_object_get(object, key);
    if (!*array && !needed)
        return WEFT_SUCCESS;
    if (!json_is_array(*array))
        return wi_plan_bad(r, *array ? "\"%s\" must be an array" : "lacks \"%s\"", key);
    return WEFT_SUCCESS;
}

weft_status wi_plan_buffer(const struct wi_plan_reader *r, const json_t *object, const char *key, unsigned *buf)
{
    static const char letters[] = "ios";
    const char *text = json_string_value(json_object_get(object, key));
    const char *at = text && strlen(text) == 1 ? strchr(letters, *text) : NULL;

    if (!at)
        return wi_plan_bad(r, "\"%s\" must be \"i\", \"o\" or \"s\", found \"%.40s\"", key, text ? text : "");
    *buf = (unsigned)(at - letters);
    return WEFT_SUCCESS;
}

weft_status wi_plan_via(const struct wi_plan_reader *r, const json_t *value, enum wi_plan_via *via)
{
    const char *text = json_string_value(value);

    if (text && !strcmp(text, "memory"))
        *via = WI_VIA_MEMORY;
    else if (text && !strcmp(text, "port"))
        *via = WI_VIA_PORT;
    else if (text && !strcmp(text, "switch"))
        return wi_plan_bad(r, "channels of type \"switch\" (multimem) are not expressible");
    else
        return wi_plan_bad(r, "channel type \"%.40s\" is not memory or port", text ? text : "");
    return WEFT_SUCCESS;
}

weft_status wi_plan_grow(const struct wi_plan_reader *r, void **array, uint32_t *capacity, uint32_t need,
                         size_t elem_bytes)
{
    uint32_t more = *capacity ? *capacity : 8;

    if (need <= *capacity)
        return WEFT_SUCCESS;
    while (more < need)
        more *= 2;
    void *p = wi_realloc(*array, more * elem_bytes);
    if (!p)
        return wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for %u entries", more);
    *array = p;
    *capacity = more;
    return WEFT_SUCCESS;
}

/* ---- A gpu's tables ---- */

static weft_status add_chan(struct wi_plan_reader *r, enum wi_plan_via via, const json_t *peer)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    long long rank = json_integer_value(peer);

    if (!json_is_integer(peer) || rank < 0 || rank >= r->prog.nranks || rank == r->rank)
        return wi_plan_bad(r, "\"connected_to\" must name other ranks of the %d", r->prog.nranks);
    g->chans[via][g->nchans[via]++] = (struct wi_plan_chan){.peer = (int)rank, .partner = WI_NOWHERE};
    return WEFT_SUCCESS;
}

static weft_status read_channels(struct wi_plan_reader *r, const json_t *gpu)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    const json_t *list, *peers;

    WI_TRY(wi_plan_array(r, gpu, "channels", 0, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        enum wi_plan_via via;
        WI_TRY(wi_plan_via(r, json_object_get(entry, "channel_type"), &via));
        WI_TRY(wi_plan_array(r, entry, "connected_to", 1, &peers));
        size_t n = g->nchans[via] + json_array_size(peers);
        if (n > WI_IMPORT_MAX_CHUNKS)
            return wi_plan_bad(r, "%zu channels, at most %d", n, WI_IMPORT_MAX_CHUNKS);
        void *more = wi_realloc(g->chans[via], (n + 1) * sizeof(*g->chans[via]));
        if (!more)
            return wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for %zu channels", n);
        g->chans[via] = more;
        for (size_t k = 0; k < json_array_size(peers); k++)
            WI_TRY(add_chan(r, via, json_array_get(peers, k)));
    }
    return WEFT_SUCCESS;
}

static weft_status read_remotes(struct wi_plan_reader *r, const json_t *gpu)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    const json_t *list, *types;

    WI_TRY(wi_plan_array(r, gpu, "remote_buffers", 0, &list));
    if (json_array_size(list) > WI_IMPORT_MAX_CHUNKS)
        return wi_plan_bad(r, "%zu remote buffers, at most %d", json_array_size(list), WI_IMPORT_MAX_CHUNKS);
    g->remotes = wi_calloc(json_array_size(list) + 1, sizeof(*g->remotes));
    if (!g->remotes)
        return wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for remote buffers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct wi_plan_remote *remote = &g->remotes[g->nremotes++];
        long long rank;
        enum wi_plan_via via;
        WI_TRY(wi_plan_number(r, entry, "rank", 0, r->prog.nranks - 1, &rank));
        WI_TRY(wi_plan_buffer(r, entry, "type", &remote->buf));
        WI_TRY(wi_plan_array(r, entry, "access_channel_types", 1, &types));
        remote->rank = (int)rank;
        for (size_t k = 0; k < json_array_size(types); k++) {
            WI_TRY(wi_plan_via(r, json_array_get(types, k), &via));
            remote->via[via] = 1;
        }
    }
    return WEFT_SUCCESS;
}

static weft_status read_semaphores(struct wi_plan_reader *r, const json_t *gpu)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    const json_t *list;
    long long value;

    WI_TRY(wi_plan_array(r, gpu, "semaphores", 0, &list));
    if (json_array_size(list) > WI_IMPORT_MAX_CHUNKS)
        return wi_plan_bad(r, "%zu semaphores, at most %d", json_array_size(list), WI_IMPORT_MAX_CHUNKS);
    g->sem_init = wi_calloc(json_array_size(list) + 1, sizeof(*g->sem_init));
    if (!g->sem_init)
        return wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for semaphores");
    for (; g->nsems < json_array_size(list); g->nsems++) {
        WI_TRY(wi_plan_number(r, json_array_get(list, g->nsems), "init_value", 0, 1 << 20, &value));
        g->sem_init[g->nsems] = (uint32_t)value;
    }
    return WEFT_SUCCESS;
}

static weft_status read_gpu(struct wi_plan_reader *r, const json_t *gpu)
{
    static const char *const names[WI_PACK] = {"input_chunks", "output_chunks", "scratch_chunks"};
    long long id, chunks;

    WI_TRY(wi_plan_number(r, gpu, "id", 0, r->prog.nranks - 1, &id));
    struct wi_imp_rank *rank = &r->prog.ranks[id];
    if (rank->seen)
        return wi_plan_bad(r, "gpu %lld is gpus[%u] already", id, rank->seen - 1);
    rank->seen = r->gpu_at + 1;
    r->rank = (int)id;
    for (unsigned buf = 0; buf < WI_PACK; buf++) {
        WI_TRY(wi_plan_number(r, gpu, names[buf], 0, WI_IMPORT_MAX_CHUNKS, &chunks));
        rank->chunks[buf] = (uint32_t)chunks;
    }
    WI_TRY(read_channels(r, gpu));
    WI_TRY(read_remotes(r, gpu));
    return read_semaphores(r, gpu);
}

/* ---- Thread blocks ---- */

static weft_status read_threadblock(struct wi_plan_reader *r, const json_t *tb)
{
    const json_t *ops;
    long long id;

    WI_TRY(wi_plan_number(r, tb, "id", 0, WI_IMPORT_MAX_CHUNKS, &id));
    WI_TRY(wi_plan_array(r, tb, "ops", 1, &ops));
    WI_TRY(wi_imp_lane_add(&r->prog, &r->prog.ranks[r->rank], &r->lane));
    r->lane->id = (int)id;
    r->tb = tb;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        r->op_at = (uint32_t)i;
        WI_TRY(wi_plan_op(r, json_array_get(ops, i)));
    }
    r->op_at = WI_NOWHERE;
    return WEFT_SUCCESS;
}

static weft_status read_threadblocks(struct wi_plan_reader *r, const json_t *gpu)
{
    const json_t *list;
    long long id;

    WI_TRY(wi_plan_number(r, gpu, "id", 0, r->prog.nranks - 1, &id));
    r->rank = (int)id;
    WI_TRY(wi_plan_array(r, gpu, "threadblocks", 1, &list));
    if (json_array_size(list) > WI_IMPORT_MAX_LANES)
        return wi_plan_bad(r, "%zu thread blocks, at most %d", json_array_size(list), WI_IMPORT_MAX_LANES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        r->tb_at = (uint32_t)i;
        WI_TRY(read_threadblock(r, json_array_get(list, i)));
    }
    r->tb_at = WI_NOWHERE;
    return WEFT_SUCCESS;
}

static weft_status read_head(struct wi_plan_reader *r, const json_t *plan)
{
    const char *coll = json_string_value(json_object_get(plan, "collective"));
    const char *name = json_string_value(json_object_get(plan, "name"));
    const json_t *gpus, *in_place = json_object_get(plan, "inplace");
    long long bytes;

    if (!coll || wi_imp_coll(coll, &r->prog.coll))
        return wi_plan_bad(r, "collective \"%.40s\" is not one that weft has", coll ? coll : "");
    if (in_place && !json_is_boolean(in_place))
        return wi_plan_bad(r, "\"inplace\" must be true or false");
    r->prog.in_place = json_is_true(in_place);
    r->prog.root = -1;
    wi_imp_set_name(&r->prog, name ? name : "unnamed");
    if (json_object_get(plan, "min_message_size")) {
        WI_TRY(wi_plan_number(r, plan, "min_message_size", 0, INT64_MAX, &bytes));
        r->prog.min_bytes = (uint64_t)bytes;
    }
    const json_t *most = json_object_get(plan, "max_message_size");
    r->prog.max_bytes =
        json_is_integer(most) && json_integer_value(most) > 0 ? (uint64_t)json_integer_value(most) : UINT64_MAX;
    WI_TRY(wi_plan_array(r, plan, "gpus", 1, &gpus));
    if (json_array_size(gpus) < 1 || json_array_size(gpus) > WI_IMPORT_MAX_RANKS)
        return wi_plan_bad(r, "%zu gpus, must be 1 to %d", json_array_size(gpus), WI_IMPORT_MAX_RANKS);
    WI_TRY(wi_imp_ranks(&r->prog, (int)json_array_size(gpus)));
    r->gpus = wi_calloc(json_array_size(gpus), sizeof(*r->gpus));
    return r->gpus ? WEFT_SUCCESS : wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for %d ranks", r->prog.nranks);
}

static weft_status read_plan(struct wi_plan_reader *r, const json_t *plan)
{
    WI_TRY(read_head(r, plan));
    const json_t *gpus = json_object_get(plan, "gpus");
    for (int i = 0; i < r->prog.nranks; i++) {
        r->gpu_at = (uint32_t)i;
        WI_TRY(read_gpu(r, json_array_get(gpus, (size_t)i)));
    }
    for (int i = 0; i < r->prog.nranks; i++) {
        r->gpu_at = (uint32_t)i;
        WI_TRY(read_threadblocks(r, json_array_get(gpus, (size_t)i)));
    }
    r->gpu_at = WI_NOWHERE;
    r->prog.mapped = 1;
    return wi_plan_resolve(r);
}

static void fini(struct wi_plan_reader *r)
{
    for (int i = 0; r->gpus && i < r->prog.nranks; i++) {
        struct wi_plan_gpu *g = &r->gpus[i];
        for (unsigned via = 0; via < WI_NUM_VIAS; via++) {
            for (uint32_t c = 0; c < g->nchans[via]; c++) {
                wi_free(g->chans[via][c].signals.at);
                wi_free(g->chans[via][c].waits.at);
            }
            wi_free(g->chans[via]);
        }
        wi_free(g->remotes);
        wi_free(g->sem_init);
        wi_free(g->events);
    }
    wi_free(r->gpus);
    wi_imp_fini(&r->prog);
}

weft_status wi_import_mscclpp(const char *name, const char *text, size_t bytes, struct wi_import **import)
{
    struct wi_plan_reader r = {.prog = {.file = name, .format = WI_IMPORT_MSCCLPP},
                               .gpu_at = WI_NOWHERE,
                               .tb_at = WI_NOWHERE,
                               .op_at = WI_NOWHERE,
                               .inner_at = WI_NOWHERE};
    json_error_t error;
    json_t *plan = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);

    if (!plan)
        return wi_fail(WEFT_EINVAL, "%s:%d: %s", name, error.line, error.text);
    weft_status st = read_plan(&r, plan);
    if (st == WEFT_SUCCESS)
        st = wi_imp_lower(&r.prog, import);
    fini(&r);
    json_decref(plan);
    return st;
}
