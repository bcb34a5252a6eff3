/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine loads, from versions of any number of ranks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "base/text.h"
#include "zero/tensors.h"

static const struct wi_struct_rule load_info_rule =
    WI_STRUCT_RULE(weft_zero_load_info, "WEFT_ZERO_LOAD_INFO_INIT", bytes);

enum { COUNT_MOST = 1 << 30 };
#define STEP_MOST ((int64_t)1 << 53) /* what a double counts exactly */

struct counters {
    int64_t step, good_steps, hysteresis;
    double loss_scale;
};

static weft_status compare_optimizers(const weft_zero *zero, struct wi_ckpt_reader *reader)
{
    char mine[WI_ZERO_OPTIMIZERS_BYTES], theirs[WI_ZERO_OPTIMIZERS_BYTES];
    const char *saved;

    WI_TRY(wi_ckpt_text(reader, "optimizers", &saved));
    if (strcmp(saved, wi_zero_optimizers(zero, mine, sizeof mine))) {
        snprintf(theirs, sizeof theirs, "%s", saved);
        wi_text_sanitize(theirs, sizeof theirs);
        return wi_fail(
            WEFT_EINVAL,
            "zero: load: version \"%s\" was saved with %s, and the engine has %s; WEFT_ZERO_LOAD_WEIGHTS loads weights alone",
            wi_ckpt_tag(reader), theirs, mine);
    }
    return WEFT_SUCCESS;
}

static weft_status read_counters(struct wi_ckpt_reader *reader, struct counters *c)
{

    WI_TRY(wi_ckpt_integer(reader, "step", &c->step));
    WI_TRY(wi_ckpt_integer(reader, "good_steps", &c->good_steps));
    WI_TRY(wi_ckpt_integer(reader, "hysteresis", &c->hysteresis));
    WI_TRY(wi_ckpt_real(reader, "loss_scale", &c->loss_scale));
    if (c->step < 0 || c->step > STEP_MOST || !(c->loss_scale > 0 && c->loss_scale <= 1e30) || c->good_steps < 0 ||
        c->good_steps > COUNT_MOST || c->hysteresis < 0 || c->hysteresis > COUNT_MOST)
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
            const struct wi_zero_place from = wi_zero_place(zero, param, WEFT_ZERO_WEIGHT, WI_ZERO_UPDATED);
            const struct wi_zero_place to = wi_zero_place(zero, param, WI_ZERO_PARAMETER, WI_ZERO_UPDATED);

            WI_TRY(wi_zero_place_copy(zero, &to, &from));
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
    wi_free(zero->saves.loaded_tag);
    wi_free(zero->saves.loaded_client);
    zero->saves.loaded_tag = tag;
    zero->saves.loaded_client = client;
    zero->saves.loaded_client_bytes = bytes;
    return WEFT_SUCCESS;
}

/* Of one tensor at a time what goes into a file passes through memory. */
static weft_status read_list(struct wi_ckpt_reader *reader, const struct wi_zero_tensors *list)
{
    weft_status st = WEFT_SUCCESS;

    for (size_t i = 0; st >= 0 && i < list->n; i++) {
        struct wi_ckpt_piece piece = list->pieces[i];
        size_t elems = piece.end - piece.begin;

        if (piece.fetch) {
            piece.fetch = NULL;
            piece.data = wi_malloc(elems * weft_dtype_bytes(piece.dtype));
            if (!piece.data)
                return wi_fail(WEFT_ENOMEM, "zero: load: no memory for %zu elements of \"%s\"", elems, piece.name);
        }
        st = wi_ckpt_read(reader, &piece, 1);
        if (list->pieces[i].fetch) {
            if (st >= 0)
                st = wi_zero_place_put(list->sources[i].zero, &list->sources[i].place, piece.data);
            wi_free(piece.data);
        }
    }
    return st;
}

static uint64_t bytes_of(const struct wi_zero_tensors *list)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < list->n; i++)
        bytes += (list->pieces[i].end - list->pieces[i].begin) * weft_dtype_bytes(list->pieces[i].dtype);
    return bytes;
}

static weft_status verify(weft_zero *zero, struct wi_ckpt_reader *reader, int nkinds, struct wi_zero_tensors *list,
                          struct counters *c)
{
    /* Whoever takes weights alone may leave tensors out. */
    if (nkinds > 1) {
        WI_TRY(compare_optimizers(zero, reader));
        wi_zero_tensors_list(zero, WI_ZERO_WHOLE, nkinds, list);
        WI_TRY(wi_ckpt_compare(reader, list->pieces, list->n, wi_zero_has_experts(zero)));
        WI_TRY(read_counters(reader, c));
    } else {
        WI_TRY(wi_ckpt_integer(reader, "step", &c->step));
    }
    wi_zero_tensors_list(zero, WI_ZERO_WIDE, nkinds, list);
    wi_ckpt_progress_phase(&zero->saves.progress, WI_CKPT_VERIFYING, bytes_of(list));
    WI_TRY(wi_ckpt_check(reader, list->pieces, list->n));
    return keep_client(zero, reader);
}

/* Whether the version has more than all ranks have together: each of them has compared what it has, and no name is there twice. */
static weft_status count_tensors(weft_zero *zero, const struct wi_ckpt_reader *reader)
{
    double count = 0;

    for (int i = 0; i < zero->nparams; i++) {
        const struct wi_zero_flat *flat = &zero->flats[zero->params[i].flat];

        if (wi_zero_domain(zero, flat)->rank == 0)
            count += 1 + (flat->trained ? wi_zero_moments(zero, flat) : 0);
    }
    WI_TRY(wi_zero_numbers(zero, zero->world, WEFT_KIND_ALL_REDUCE, &count, 1, "load: tensors"));
    return count == (double)wi_ckpt_ntensors(reader)
               ? WEFT_SUCCESS
               : wi_fail(
                     WEFT_EINVAL,
                     "zero: load: checkpoint \"%s\" has %zu tensors, and all ranks of this model together have %.0f: "
                     "it has other experts",
                     wi_ckpt_tag(reader), wi_ckpt_ntensors(reader), count);
}

static weft_status load_version(weft_zero *zero, struct wi_ckpt_reader *reader, unsigned flags, struct counters *c)
{
    int nkinds = flags & WEFT_ZERO_LOAD_WEIGHTS ? 1 : WI_ZERO_KINDS;
    struct wi_zero_tensors list;
    weft_status st = wi_zero_tensors_create(zero, &list);

    wi_ckpt_report(reader, &zero->saves.progress);

    if (st >= 0)
        st = verify(zero, reader, nkinds, &list, c);
    /* From here on nothing fails but what was verified, and ranks have agreed that all have. */
    st = wi_zero_agree(zero, st, "load");
    if (st >= 0 && nkinds > 1 && wi_zero_has_experts(zero))
        st = count_tensors(zero, reader);
    if (st >= 0) {
        wi_ckpt_progress_phase(&zero->saves.progress, WI_CKPT_READING, bytes_of(&list));
        st = read_list(reader, &list);
        st = wi_zero_agree(zero, st < 0 ? st : WEFT_SUCCESS, "load: read");
        wi_zero_final(zero, st);
    }
    wi_zero_tensors_free(&list);
    WI_TRY(st);
    if (nkinds > 1) {
        zero->step = (uint64_t)c->step;
        zero->scale.good_steps = (int)c->good_steps;
        zero->scale.hysteresis = (int)c->hysteresis;
        if (zero->config.loss_scale == 0)
            zero->scale.value = c->loss_scale;
    }
    return spread(zero);
}

/* A version could not be loaded (st). If its bytes are not those that were saved the one before it is opened, on all ranks. */
static weft_status open_older(weft_zero *zero, const char *folder, weft_status st, struct wi_ckpt_reader **reader)
{
    char tag[WI_CKPT_TAG_MAX + 1] = "", why[512];

    snprintf(why, sizeof why, "%s", wi_fail_text());
    weft_status found = wi_zero_agree(zero, st == WEFT_ECONFIG ? wi_ckpt_before(*reader, tag) : st, "load");

    wi_ckpt_close(*reader);
    *reader = NULL;
    if (found < 0)
        return wi_fail(st, "%s", why);
    wi_log(WEFT_LOG_WARN, "zero.load.older", "%s: version \"%s\" is taken instead", why, tag);
    return wi_ckpt_open(folder, tag, 0, zero->world, reader);
}

static weft_status check_load(weft_zero *zero, const char *folder, unsigned flags, const weft_zero_load_info *info)
{
    if (!folder)
        return wi_fail(WEFT_EINVAL, "zero: load: folder is NULL");
    if (flags & ~(WEFT_ZERO_LOAD_OLDER | WEFT_ZERO_LOAD_WEIGHTS))
        return wi_fail(WEFT_EINVAL, "zero: load: flags are 0x%x", flags);
    if (info)
        WI_TRY(wi_struct_check(&load_info_rule, "zero: load", info));
    WI_TRY(wi_zero_idle(zero, "load"));
    for (int u = 0; u < zero->nunits; u++)
        if (zero->units[u].passes)
            return wi_fail(WEFT_EBUSY, "zero: load: a pass of unit \"%s\" has not ended", zero->units[u].name);
    /* Ranks see its end at different times. */
    if (zero->saves.ckpt && wi_ckpt_newest(zero->saves.ckpt) == WI_CKPT_SAVING)
        return wi_fail(WEFT_EBUSY, "zero: load: a save is under way");
    return WEFT_SUCCESS;
}

static weft_status load(weft_zero *zero, const char *folder, const char *tag, unsigned flags, weft_zero_load_info *info)
{
    weft_zero_load_info own = WEFT_ZERO_LOAD_INFO_INIT;
    struct wi_ckpt_reader *reader;
    struct counters c = {0};

    weft_status st = check_load(zero, folder, flags, info);

    if (!(flags & WEFT_ZERO_LOAD_WEIGHTS)) /* parts may take their weights from a version of the whole model */
        st = wi_zero_parts_apart(zero, st, folder, "load");
    /* A rank that refuses tells the others, which would wait for it. */
    WI_TRY(wi_zero_agree(zero, st, "load: may it begin"));
    WI_TRY(wi_zero_gather_finish_all(zero));
    WI_TRY(wi_zero_release_all(zero));
    WI_TRY(wi_ckpt_open(folder, tag, !!(flags & WEFT_ZERO_LOAD_OLDER), zero->world, &reader));
    st = load_version(zero, reader, flags, &c);
    while (st < 0 && !tag && flags & WEFT_ZERO_LOAD_OLDER && zero->failed == WEFT_SUCCESS) {
        WI_TRY(open_older(zero, folder, st, &reader));
        st = load_version(zero, reader, flags, &c);
    }
    own.nranks = wi_ckpt_nranks(reader);
    wi_ckpt_close(reader);
    WI_TRY(st);
    own.tag = zero->saves.loaded_tag;
    own.client = zero->saves.loaded_client;
    own.client_bytes = zero->saves.loaded_client_bytes;
    own.step = (uint64_t)c.step;
    if (info)
        wi_struct_write(&load_info_rule, &own, info);
    return WEFT_SUCCESS;
}

weft_status weft_zero_load(weft_zero *zero, const char *folder, const char *tag, unsigned flags,
                           weft_zero_load_info *info)
{
    unsigned since;
    weft_status st = wi_zero_enter("load", zero, 1, &since);

    if (st < 0)
        return st;
    st = load(zero, folder, tag, flags, info);
    /* A save that is under way has its own. */
    if (atomic_load_explicit(&zero->saves.progress.phase, memory_order_relaxed) >= WI_CKPT_VERIFYING)
        wi_ckpt_progress_phase(&zero->saves.progress, WI_CKPT_NOTHING, 0);
    return wi_zero_leave(zero, since, st);
}

weft_status weft_zero_export(const char *folder, const char *tag, const char *out, uint64_t shard_bytes)
{
    static const char *const weights[] = {"weight"};
    unsigned since = wi_fail_count();

    if (!folder || !out)
        return wi_zero_publish(since, wi_fail(WEFT_EINVAL, "zero: export: %s is NULL", folder ? "out" : "folder"));
    return wi_zero_publish(since, wi_ckpt_export(folder, tag, out, weights, 1, shard_bytes));
}
