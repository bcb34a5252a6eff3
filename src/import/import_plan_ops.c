/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops of a MSCCL++ plan, one by one. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "import/import_plan.h"

#define MAX_BUFFERS 1024 /* of one op's list */

enum op_class { MOVE, MOVE_SIGNAL, REDUCE, SIGNAL, WAIT, BARRIER, RELEASE, ACQUIRE, NOTHING, PIPELINE, REFUSED };

static const struct {
    const char *name, *why;
    enum op_class what;
} names[] = {
    {"put", NULL, MOVE},
    {"get", NULL, MOVE},
    {"copy", NULL, MOVE},
    {"pws", NULL, MOVE_SIGNAL},
    {"pwsf", NULL, MOVE_SIGNAL},
    {"re", NULL, REDUCE},
    {"res", NULL, REDUCE},
    {"rre", NULL, REDUCE},
    {"rres", NULL, REDUCE},
    {"signal", NULL, SIGNAL},
    {"rlxsignal", NULL, SIGNAL},
    {"wait", NULL, WAIT},
    {"rlxwait", NULL, WAIT},
    {"barrier", NULL, BARRIER},
    {"sem_release", NULL, RELEASE},
    {"sem_acquire", NULL, ACQUIRE},
    {"nop", NULL, NOTHING},
    {"flush", NULL, NOTHING},
    {"pipeline", NULL, PIPELINE},
#define PACKETS "packets carry a flag with each word, which a schedule has no step for"
    {"ppkt", PACKETS, REFUSED},
    {"rppkt", PACKETS, REFUSED},
    {"respkt", PACKETS, REFUSED},
    {"cpkt", PACKETS, REFUSED},
    {"upkt", PACKETS, REFUSED},
    {"repkt", PACKETS, REFUSED},
    {"recpkt", PACKETS, REFUSED},
    {"recspkt", PACKETS, REFUSED},
#define MULTIMEM "it needs a switch that reduces or broadcasts (multimem)"
    {"glres", MULTIMEM, REFUSED},
    {"gstore", MULTIMEM, REFUSED},
    {"gstorepkt", MULTIMEM, REFUSED},
};

/* ---- Regions ---- */

/* The index-th entry of the thread block's own list of channels or remote buffers that go via memory or port. */
static weft_status own_list(const struct wi_plan_reader *r, const char *list_key, const char *type_key,
                            const char *ids_key, enum wi_plan_via via, long long index, uint32_t limit, uint32_t *id)
{
    const json_t *list, *ids;
    long long before = 0;

    WI_TRY(wi_plan_array(r, r->tb, list_key, 0, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        enum wi_plan_via of;
        WI_TRY(wi_plan_via(r, json_object_get(entry, type_key), &of));
        WI_TRY(wi_plan_array(r, entry, ids_key, 1, &ids));
        if (of != via)
            continue;
        long long n = (long long)json_array_size(ids);
        if (index >= before + n) {
            before += n;
            continue;
        }
        const json_t *value = json_array_get(ids, (size_t)(index - before));
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= limit)
            return wi_plan_bad(r, "the thread block's %s[%zu] names a number out of 0 to %lld", list_key, i,
                               (long long)limit - 1);
        *id = (uint32_t)json_integer_value(value);
        return WEFT_SUCCESS;
    }
    return wi_plan_bad(r, "out of bounds: number %lld of the thread block's %s, there are %lld", index, list_key,
                       before);
}

/* Of k remote buffers that go via `via`, which one of the gpu's is number `id`? MSCCL++ counts all of them. */
static weft_status remote_region(const struct wi_plan_reader *r, enum wi_plan_via via, const json_t *entry,
                                 struct wi_region *region)
{
    const struct wi_plan_gpu *g = &r->gpus[r->rank];
    long long index;
    uint32_t id;

    WI_TRY(wi_plan_number(r, entry, "buffer_id", 0, WI_IMPORT_MAX_CHUNKS, &index));
    WI_TRY(own_list(r, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids", via, index, g->nremotes, &id));
    if (!g->remotes[id].via[via])
        return wi_plan_bad(r, "remote buffer %u is not reached over this type of channel", id);
    region->buf = (uint8_t)g->remotes[id].buf;
    region->rank = g->remotes[id].rank;
    return WEFT_SUCCESS;
}

static weft_status region_of(const struct wi_plan_reader *r, enum wi_plan_via via, const json_t *entry,
                             struct wi_region *region)
{
    long long first, count;
    unsigned buf;

    if (json_object_get(entry, "switch_channel_id"))
        return wi_plan_bad(r, "a switch channel (multimem) is not expressible");
    WI_TRY(wi_plan_number(r, entry, "index", 0, WI_IMPORT_MAX_CHUNKS - 1, &first));
    WI_TRY(wi_plan_number(r, entry, "size", 1, WI_IMPORT_MAX_CHUNKS, &count));
    *region = wi_at(WI_SRC, (uint32_t)first, (uint32_t)count);
    if (json_object_get(entry, "buffer_id")) {
        WI_TRY(remote_region(r, via, entry, region));
    } else {
        WI_TRY(wi_plan_buffer(r, entry, "type", &buf));
        region->buf = (uint8_t)buf;
    }
    int owner = region->rank == WI_SELF ? r->rank : region->rank;
    uint32_t limit = r->prog.ranks[owner].chunks[region->buf];
    if (first + count > (long long)limit && (limit || region->buf == WI_TMP))
        return wi_plan_bad(r, "out of bounds: chunks %lld to %lld of %c of gpu %d, which has %u", first,
                           first + count - 1, "ios"[region->buf], owner, limit);
    return WEFT_SUCCESS;
}

static weft_status regions_of(const struct wi_plan_reader *r, const json_t *op, const char *key, enum wi_plan_via via,
                              struct wi_region **regions, size_t *n)
{
    const json_t *list;
    weft_status st = WEFT_SUCCESS;

    WI_TRY(wi_plan_array(r, op, key, 1, &list));
    *n = json_array_size(list);
    if (*n < 1 || *n > MAX_BUFFERS)
        return wi_plan_bad(r, "%zu buffers in \"%s\", must be 1 to %d", *n, key, MAX_BUFFERS);
    *regions = wi_malloc(*n * sizeof(**regions));
    if (!*regions)
        return wi_imp_fail(&r->prog, WEFT_ENOMEM, 0, "no memory for %zu buffers", *n);
    for (size_t i = 0; st == WEFT_SUCCESS && i < *n; i++)
        st = region_of(r, via, json_array_get(list, i), &(*regions)[i]);
    if (st < 0)
        wi_free(*regions);
    return st;
}

/* ---- Steps ---- */

static weft_status add(struct wi_plan_reader *r, unsigned kind, const struct wi_region *dst, size_t ndst,
                       const struct wi_region *src, size_t nsrc)
{
    struct wi_imp_op op = {.kind = (uint8_t)kind,
                           .ndst = (uint16_t)ndst,
                           .nsrc = (uint16_t)nsrc,
                           .dep_lane = WI_NO_DEP,
                           .peer = WI_NO_PEER,
                           .place = {0, r->op_at, r->inner_at}};

    return wi_imp_op_add(&r->prog, &r->prog.ranks[r->rank], r->lane, &op, dst, src);
}

static weft_status add_data(struct wi_plan_reader *r, enum op_class what, const struct wi_region *dst, size_t ndst,
                            const struct wi_region *src, size_t nsrc)
{
    if (what == REDUCE)
        return add(r, WI_STEP_REDUCE, dst, ndst, src, nsrc);
    if (ndst != nsrc)
        return wi_plan_bad(r, "%zu sources for %zu destinations", nsrc, ndst);
    for (size_t i = 0; i < ndst; i++)
        WI_TRY(add(r, WI_STEP_COPY, &dst[i], 1, &src[i], 1));
    return WEFT_SUCCESS;
}

static weft_status data(struct wi_plan_reader *r, const json_t *op, enum op_class what, enum wi_plan_via via)
{
    struct wi_region *dst, *src;
    size_t ndst, nsrc;
    const char *operator= json_string_value(json_object_get(op, "reduce_op"));

    if (what == REDUCE && operator&& strcmp(operator, "sum") && strcmp(operator, "min"))
        return wi_plan_bad(r, "reduce_op \"%.20s\" is not known", operator);
    WI_TRY(regions_of(r, op, "dst_buff", via, &dst, &ndst));
    weft_status st = regions_of(r, op, "src_buff", via, &src, &nsrc);
    if (st == WEFT_SUCCESS) {
        st = add_data(r, what, dst, ndst, src, nsrc);
        wi_free(src);
    }
    wi_free(dst);
    return st;
}

/* ---- Events ---- */

static weft_status note_spot(struct wi_plan_reader *r, struct wi_plan_list *list)
{
    WI_TRY(wi_plan_grow(r, (void **)&list->at, &list->capacity, list->n + 1, sizeof(*list->at)));
    list->at[list->n++] = (struct wi_plan_spot){r->lane->index, r->lane->nops - 1};
    return WEFT_SUCCESS;
}

static weft_status channels(struct wi_plan_reader *r, const json_t *op, enum op_class what, enum wi_plan_via via)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    const json_t *ids;
    uint32_t id;

    WI_TRY(wi_plan_array(r, op, "channel_ids", 1, &ids));
    if (json_array_size(ids) == 0)
        return wi_plan_bad(r, "\"channel_ids\" is empty");
    if (what == SIGNAL)
        WI_TRY(add(r, WI_STEP_SIGNAL, NULL, 0, NULL, 0));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *value = json_array_get(ids, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return wi_plan_bad(r, "\"channel_ids\" must be numbers");
        WI_TRY(own_list(r, "channels", "channel_type", "channel_ids", via, json_integer_value(value), g->nchans[via],
                        &id));
        if (what == WAIT)
            WI_TRY(add(r, WI_STEP_WAIT, NULL, 0, NULL, 0));
        WI_TRY(note_spot(r, what == SIGNAL ? &g->chans[via][id].signals : &g->chans[via][id].waits));
    }
    return WEFT_SUCCESS;
}

static uint32_t turns_before(const struct wi_plan_gpu *g, unsigned kind, uint32_t id, uint32_t lane)
{
    for (uint32_t i = g->nevents; i > 0; i--) {
        const struct wi_plan_event *e = &g->events[i - 1];
        if (e->lane != lane)
            break; /* lanes are read one after the other */
        if (e->kind == kind && e->id == id)
            return e->turn + 1;
    }
    return 0;
}

static weft_status note_event(struct wi_plan_reader *r, unsigned kind, uint32_t id, uint32_t members)
{
    struct wi_plan_gpu *g = &r->gpus[r->rank];
    uint32_t lane = r->lane->index;

    WI_TRY(wi_plan_grow(r, (void **)&g->events, &g->event_capacity, g->nevents + 1, sizeof(*g->events)));
    g->events[g->nevents] = (struct wi_plan_event){.id = id,
                                                   .turn = turns_before(g, kind, id, lane),
                                                   .lane = lane,
                                                   .op = r->lane->nops - 1,
                                                   .members = members,
                                                   .kind = (uint8_t)kind};
    g->nevents++;
    return WEFT_SUCCESS;
}

/* To arrive is a step for the others to depend on; to leave depends on each of them. */
static weft_status barrier(struct wi_plan_reader *r, const json_t *op)
{
    long long id, members;

    WI_TRY(wi_plan_number(r, op, "barrier_id", 0, WI_IMPORT_MAX_CHUNKS, &id));
    WI_TRY(wi_plan_number(r, op, "num_threadblocks", 1, WI_IMPORT_MAX_LANES, &members));
    WI_TRY(add(r, WI_STEP_NOP, NULL, 0, NULL, 0));
    WI_TRY(note_event(r, WI_PLAN_BARRIER, (uint32_t)id, (uint32_t)members));
    for (long long i = 1; i < members; i++)
        WI_TRY(add(r, WI_STEP_NOP, NULL, 0, NULL, 0));
    return WEFT_SUCCESS;
}

static weft_status semaphores(struct wi_plan_reader *r, const json_t *op, unsigned kind)
{
    const struct wi_plan_gpu *g = &r->gpus[r->rank];
    const json_t *ids;

    WI_TRY(wi_plan_array(r, op, "semaphore_ids", 1, &ids));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *value = json_array_get(ids, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= g->nsems)
            return wi_plan_bad(r, "out of bounds: semaphore %lld, gpu %d has %u", (long long)json_integer_value(value),
                               r->rank, g->nsems);
        WI_TRY(add(r, WI_STEP_NOP, NULL, 0, NULL, 0));
        WI_TRY(note_event(r, kind, (uint32_t)json_integer_value(value), 0));
    }
    return WEFT_SUCCESS;
}

/* A pipeline repeats its ops over pieces of every chunk. A schedule's slices do that by themselves. */
static weft_status pipeline(struct wi_plan_reader *r, const json_t *op)
{
    const json_t *ops;

    if (r->inner_at != WI_NOWHERE)
        return wi_plan_bad(r, "a pipeline within a pipeline");
    WI_TRY(wi_plan_array(r, op, "ops", 1, &ops));
    for (size_t i = 0; i < json_array_size(ops); i++) {
        r->inner_at = (uint32_t)i;
        WI_TRY(wi_plan_op(r, json_array_get(ops, i)));
    }
    r->inner_at = WI_NOWHERE;
    return WEFT_SUCCESS;
}

static weft_status one(struct wi_plan_reader *r, const json_t *op, enum op_class what, enum wi_plan_via via)
{
    switch (what) {
    case MOVE:
    case REDUCE:
        return data(r, op, what, via);
    case MOVE_SIGNAL:
        WI_TRY(data(r, op, MOVE, via));
        return channels(r, op, SIGNAL, via);
    case SIGNAL:
    case WAIT:
        return channels(r, op, what, via);
    case BARRIER:
        return barrier(r, op);
    case RELEASE:
        return semaphores(r, op, WI_PLAN_RELEASE);
    case ACQUIRE:
        return semaphores(r, op, WI_PLAN_ACQUIRE);
    case PIPELINE:
        return pipeline(r, op);
    default:
        return add(r, WI_STEP_NOP, NULL, 0, NULL, 0);
    }
}

weft_status wi_plan_op(struct wi_plan_reader *r, const json_t *op)
{
    const char *name = json_string_value(json_object_get(op, "name"));
    const json_t *type = json_object_get(op, "channel_type"), *group = json_object_get(op, "tbg_info");
    enum wi_plan_via via = WI_VIA_MEMORY;
    size_t i = 0, n = sizeof(names) / sizeof(names[0]);
    long long size;

    while (name && i < n && strcmp(names[i].name, name))
        i++;
    if (!name || i == n)
        return wi_plan_bad(r, "op \"%.40s\" of gpu %d, thread block %d is not known", name ? name : "", r->rank,
                           r->lane->id);
    if (names[i].what == REFUSED)
        return wi_plan_bad(r, "op \"%s\" of gpu %d, thread block %d, index %u is not expressible: %s", name, r->rank,
                           r->lane->id, r->op_at, names[i].why);
    if (group) {
        WI_TRY(wi_plan_number(r, group, "tbg_size", 1, WI_IMPORT_MAX_LANES, &size));
        if (size > 1)
            return wi_plan_bad(
                r, "op \"%s\" of gpu %d, thread block %d, index %u is not expressible: %lld thread blocks share it",
                name, r->rank, r->lane->id, r->op_at, size);
    }
    if (type && !(json_is_string(type) && !strcmp(json_string_value(type), "none")))
        WI_TRY(wi_plan_via(r, type, &via));
    return one(r, op, names[i].what, via);
}
