/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine saves and loads: the pieces of tensors that a rank has, counters, and the loss scale. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/ckpt.h"
#include "zero/zero.h"

static const struct wi_struct_rule save_rule =
    WI_STRUCT_RULE(weft_zero_save_options, "WEFT_ZERO_SAVE_OPTIONS_INIT", client_bytes);
static const struct wi_struct_rule save_info_rule =
    WI_STRUCT_RULE(weft_zero_save_info, "WEFT_ZERO_SAVE_INFO_INIT", total_ns);
static const struct wi_struct_rule load_info_rule =
    WI_STRUCT_RULE(weft_zero_load_info, "WEFT_ZERO_LOAD_INFO_INIT", client_bytes);

static const char *const kinds[] = {"weight", "moment1", "moment2"};
enum { KINDS = 3 };

/* ---- Pieces ---- */

enum reach {
    OWN,  /* what this rank alone saves */
    WIDE, /* what it needs when it loads */
    WHOLE /* all of every tensor: to compare models */
};

/* The memory of a kind of a flat, and the element of the flat that it begins with. */
static void *memory_of(const weft_zero *zero, const struct wi_zero_flat *flat, int kind, size_t *first)
{
    int kept = zero->units[flat->unit].kept;

    *first = flat->trained ? (zero->config.stage ? wi_zero_first(zero, flat) : 0)
             : kept        ? 0
                           : wi_zero_first(zero, flat);
    if (kind > 0)
        return flat->moment[kind - 1];
    return flat->trained ? (void *)flat->weight : kept ? (void *)flat->full : (void *)flat->own;
}

static size_t add(const weft_zero *zero, const struct wi_zero_param *param, int kind, enum reach reach,
                  struct wi_ckpt_piece *piece)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];
    size_t first, begin = 0, elems;
    char *memory = memory_of(zero, flat, kind, &first);
    weft_dtype dtype = flat->trained ? WEFT_FLOAT32 : flat->dtype;

    if (!memory || (kind && !flat->trained))
        return 0;
    int all =
        reach == WHOLE || (reach == WIDE && (flat->trained ? zero->config.stage == 0 : zero->units[flat->unit].kept));

    elems = all ? param->elems : wi_zero_own_part(zero, param, &begin);
    if (!elems && !(reach == OWN && !param->elems && zero->rank == 0) && reach != WHOLE)
        return 0;
    *piece = (struct wi_ckpt_piece){
        .name = param->name,
        .kind = kinds[kind],
        .dtype = dtype,
        .ndims = param->ndims,
        .shape = param->shape,
        .begin = begin,
        .end = begin + elems,
        .data = elems && reach != WHOLE ? memory + (param->offset + begin - first) * wi_zero_width(dtype) : memory,
    };
    return 1;
}

static size_t list_pieces(const weft_zero *zero, enum reach reach, int nkinds, struct wi_ckpt_piece *pieces)
{
    size_t n = 0;

    for (int i = 0; i < zero->nparams; i++)
        for (int kind = 0; kind < nkinds; kind++)
            n += add(zero, &zero->params[i], kind, reach, &pieces[n]);
    return n;
}

static struct wi_ckpt_piece *room_for_pieces(const weft_zero *zero)
{
    struct wi_ckpt_piece *pieces = wi_calloc((size_t)zero->nparams * KINDS + 1, sizeof *pieces);

    if (!pieces)
        wi_fail(WEFT_ENOMEM, "zero: no memory for the list of %d tensors", zero->nparams * KINDS);
    return pieces;
}

static weft_status idle(const weft_zero *zero, const char *call)
{
    if (zero->micro || zero->begun)
        return wi_fail(
            WEFT_EBUSY,
            "zero: %s: gradients have come since the last step; weft_zero_step or _drop_gradients comes first", call);
    return WEFT_SUCCESS;
}

static weft_status engine_ckpt(weft_zero *zero)
{
    return zero->ckpt ? WEFT_SUCCESS : wi_ckpt_create(zero->world, 0, &zero->ckpt);
}

/* ---- Save ---- */

static weft_status begin(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *given)
{
    const struct wi_ckpt_scalar scalars[] = {
        {.name = "step", .type = WI_CKPT_INTEGER, .integer = (int64_t)zero->step},
        {.name = "good_steps", .type = WI_CKPT_INTEGER, .integer = zero->good_steps},
        {.name = "hysteresis", .type = WI_CKPT_INTEGER, .integer = zero->hysteresis},
        {.name = "loss_scale", .type = WI_CKPT_REAL, .real = zero->loss_scale},
        {.name = "optimizer", .type = WI_CKPT_TEXT, .text = wi_optim_name(zero->config.optimizer)},
    };
    struct wi_ckpt_state state = {scalars, sizeof scalars / sizeof *scalars, given->client, given->client_bytes};
    struct wi_ckpt_options options = {.keep = given->keep,
                                      .replace = given->replace,
                                      .incremental = given->incremental,
                                      .keep_buffer = 1,
                                      .direct = given->direct};
    struct wi_ckpt_piece *pieces = room_for_pieces(zero);

    if (!pieces)
        return WEFT_ENOMEM;
    /* Of several copies the first is saved. */
    size_t n = zero->copy ? 0 : list_pieces(zero, OWN, KINDS, pieces);
    weft_status st = wi_ckpt_begin(zero->ckpt, folder, tag, pieces, n, &state, &options);

    wi_free(pieces);
    return st;
}

static weft_status save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *given)
{
    weft_zero_save_options options = WEFT_ZERO_SAVE_OPTIONS_INIT;

    if (!folder || !tag)
        return wi_fail(WEFT_EINVAL, "zero: save: %s is NULL", folder ? "tag" : "folder");
    if (given)
        WI_TRY(wi_struct_read(&save_rule, "zero: save", given, &options));
    if (zero->domains[1].gathers)
        return wi_fail(WEFT_ENOTSUP, "zero: save: checkpoints of engines with experts are not implemented");
    WI_TRY(idle(zero, "save"));
    WI_TRY(wi_zero_gather_finish_all(zero));
    WI_TRY(engine_ckpt(zero));
    return begin(zero, folder, tag, &options);
}

weft_status weft_zero_save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *options)
{
    unsigned since;
    weft_status st = wi_zero_enter("save", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, save(zero, folder, tag, options));
}

void wi_zero_snapshot_wait(weft_zero *zero)
{
    if (!zero->ckpt)
        return;
    uint64_t from = wi_now_ns();

    wi_ckpt_snapshot_wait(zero->ckpt);
    zero->stats.snapshot_wait_ns += wi_now_ns() - from;
}

static weft_status save_wait(weft_zero *zero, uint64_t timeout_ns, weft_zero_save_info *info)
{
    weft_zero_save_info own = WEFT_ZERO_SAVE_INFO_INIT;
    struct wi_ckpt_result result = {0};
    uint64_t deadline = wi_deadline_ns(timeout_ns);
    weft_status st = WEFT_SUCCESS;

    if (info)
        WI_TRY(wi_struct_check(&save_info_rule, "zero: save_wait", info));
    if (zero->ckpt && timeout_ns == WEFT_TIMEOUT_NEVER)
        st = wi_ckpt_wait(zero->ckpt, &result);
    else if (zero->ckpt)
        while ((st = wi_ckpt_poll(zero->ckpt, &result)) == WEFT_INPROGRESS && wi_now_ns() < deadline)
            wi_stand_by(64);
    if (st != WEFT_SUCCESS)
        return st;
    own.state_bytes = result.bytes;
    own.written_bytes = result.written_bytes;
    own.snapshot_ns = result.snapshot_ns;
    own.total_ns = result.total_ns;
    if (info)
        wi_struct_write(&save_info_rule, &own, info);
    return WEFT_SUCCESS;
}

weft_status weft_zero_save_wait(weft_zero *zero, uint64_t timeout_ns, weft_zero_save_info *info)
{
    unsigned since;
    weft_status st = wi_zero_enter("save_wait", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, save_wait(zero, timeout_ns, info));
}

/* ---- Load ---- */

struct counters {
    int64_t step, good_steps, hysteresis;
    double loss_scale;
};

static weft_status read_counters(const weft_zero *zero, struct wi_ckpt_reader *reader, struct counters *c)
{
    const char *optimizer;

    WI_TRY(wi_ckpt_integer(reader, "step", &c->step));
    WI_TRY(wi_ckpt_integer(reader, "good_steps", &c->good_steps));
    WI_TRY(wi_ckpt_integer(reader, "hysteresis", &c->hysteresis));
    WI_TRY(wi_ckpt_real(reader, "loss_scale", &c->loss_scale));
    WI_TRY(wi_ckpt_text(reader, "optimizer", &optimizer));
    if (strcmp(optimizer, wi_optim_name(zero->config.optimizer)))
        return wi_fail(
            WEFT_EINVAL,
            "zero: load: version \"%s\" was saved with %s, and the engine has %s; WEFT_ZERO_LOAD_WEIGHTS loads weights alone",
            wi_ckpt_tag(reader), optimizer, wi_optim_name(zero->config.optimizer));
    if (c->step < 0 || !(c->loss_scale > 0))
        return wi_fail(WEFT_ECONFIG, "zero: load: version \"%s\" has step %lld and loss scale %g", wi_ckpt_tag(reader),
                       (long long)c->step, c->loss_scale);
    return WEFT_SUCCESS;
}

/* What the ranks updated becomes the parameter: rounded, where they differ, and gathered. */
static weft_status spread(weft_zero *zero)
{
    for (int i = 0; i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        if (!flat->trained || !flat->separate)
            continue;
        for (int k = 0; k < flat->nparams; k++) {
            const struct wi_zero_param *param = &zero->params[flat->params[k]];
            size_t begin = 0, elems = zero->config.stage ? wi_zero_own_part(zero, param, &begin) : param->elems;
            size_t at = param->offset + begin - (zero->config.stage ? wi_zero_first(zero, flat) : 0);

            if (elems)
                wi_optim_convert(zero->pool,
                                 (zero->config.stage ? flat->own : flat->full) + at * wi_zero_width(flat->dtype),
                                 flat->dtype, flat->weight + at, WEFT_FLOAT32, elems, 0);
        }
    }
    for (int u = 0; u < zero->nunits; u++)
        WI_TRY(wi_zero_gather_updated(zero, u));
    return wi_zero_gather_finish_all(zero);
}

static weft_status keep_client(weft_zero *zero, struct wi_ckpt_reader *reader)
{
    void *client = NULL;
    size_t bytes = 0;
    char *tag = wi_strdup(wi_ckpt_tag(reader));

    if (!tag)
        return wi_fail(WEFT_ENOMEM, "zero: load: out of memory");
    weft_status st = wi_ckpt_client(reader, &client, &bytes);

    if (st < 0) {
        wi_free(tag);
        return st;
    }
    wi_free(zero->loaded_tag);
    wi_free(zero->loaded_client);
    zero->loaded_tag = tag;
    zero->loaded_client = client;
    zero->loaded_client_bytes = bytes;
    return WEFT_SUCCESS;
}

static weft_status load_version(weft_zero *zero, struct wi_ckpt_reader *reader, unsigned flags, struct counters *c)
{
    int nkinds = flags & WEFT_ZERO_LOAD_WEIGHTS ? 1 : KINDS;
    struct wi_ckpt_piece *pieces = room_for_pieces(zero);
    weft_status st = pieces ? WEFT_SUCCESS : WEFT_ENOMEM;
    size_t n = 0;

    /* Whoever takes weights alone may leave tensors out. */
    if (st >= 0 && nkinds > 1)
        st = wi_ckpt_compare(reader, pieces, list_pieces(zero, WHOLE, nkinds, pieces));
    if (st >= 0 && nkinds > 1)
        st = read_counters(zero, reader, c);
    if (st >= 0) {
        n = list_pieces(zero, WIDE, nkinds, pieces);
        st = wi_ckpt_check(reader, pieces, n);
    }
    if (st >= 0)
        st = keep_client(zero, reader);
    /* From here on nothing fails but what was verified, and ranks have agreed that all have. */
    st = wi_zero_agree(zero, st, "load");
    if (st >= 0)
        st = wi_ckpt_read(reader, pieces, n);
    wi_free(pieces);
    WI_TRY(wi_zero_agree(zero, st, "load: read"));
    if (nkinds > 1) {
        zero->step = (uint64_t)c->step;
        zero->good_steps = (int)c->good_steps;
        zero->hysteresis = (int)c->hysteresis;
        if (zero->config.loss_scale == 0)
            zero->loss_scale = c->loss_scale;
    }
    return spread(zero);
}

static weft_status load(weft_zero *zero, const char *folder, const char *tag, unsigned flags, weft_zero_load_info *info)
{
    weft_zero_load_info own = WEFT_ZERO_LOAD_INFO_INIT;
    struct wi_ckpt_reader *reader;
    struct counters c = {0};

    if (!folder)
        return wi_fail(WEFT_EINVAL, "zero: load: folder is NULL");
    if (flags & ~(WEFT_ZERO_LOAD_OLDER | WEFT_ZERO_LOAD_WEIGHTS))
        return wi_fail(WEFT_EINVAL, "zero: load: flags are 0x%x", flags);
    if (info)
        WI_TRY(wi_struct_check(&load_info_rule, "zero: load", info));
    WI_TRY(idle(zero, "load"));
    for (int u = 0; u < zero->nunits; u++)
        if (zero->units[u].passes)
            return wi_fail(WEFT_EBUSY, "zero: load: a pass of unit \"%s\" has not ended", zero->units[u].name);
    if (zero->ckpt && wi_ckpt_poll(zero->ckpt, NULL) == WEFT_INPROGRESS)
        return wi_fail(WEFT_EBUSY, "zero: load: a save is under way");
    WI_TRY(wi_zero_gather_finish_all(zero));
    WI_TRY(wi_zero_release_all(zero));
    WI_TRY(wi_ckpt_open(folder, tag, !!(flags & WEFT_ZERO_LOAD_OLDER), zero->world, &reader));
    own.nranks = wi_ckpt_nranks(reader);
    weft_status st = load_version(zero, reader, flags, &c);

    wi_ckpt_close(reader);
    WI_TRY(st);
    own.tag = zero->loaded_tag;
    own.client = zero->loaded_client;
    own.client_bytes = zero->loaded_client_bytes;
    own.step = zero->step;
    if (info)
        wi_struct_write(&load_info_rule, &own, info);
    return WEFT_SUCCESS;
}

weft_status weft_zero_load(weft_zero *zero, const char *folder, const char *tag, unsigned flags,
                           weft_zero_load_info *info)
{
    unsigned since;
    weft_status st = wi_zero_enter("load", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, load(zero, folder, tag, flags, info));
}

weft_status weft_zero_export(const char *folder, const char *tag, const char *out, uint64_t shard_bytes)
{
    static const char *const weights[] = {"weight"};
    unsigned since = wi_fail_count();

    if (!folder || !out)
        return wi_zero_publish(since, wi_fail(WEFT_EINVAL, "zero: export: %s is NULL", folder ? "out" : "folder"));
    return wi_zero_publish(since, wi_ckpt_export(folder, tag, out, weights, 1, shard_bytes));
}
