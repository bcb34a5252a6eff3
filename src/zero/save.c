/* SPDX-License-Identifier: BSD-3-Clause */
/* What an engine saves: the pieces of tensors that a rank has, counters, and the loss scale. */
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/tensors.h"

static const struct wi_struct_rule save_rule =
    WI_STRUCT_RULE(weft_zero_save_options, "WEFT_ZERO_SAVE_OPTIONS_INIT", bytes);
static const struct wi_struct_rule save_info_rule =
    WI_STRUCT_RULE(weft_zero_save_info, "WEFT_ZERO_SAVE_INFO_INIT", bytes);

static const struct wi_struct_rule status_rule =
    WI_STRUCT_RULE(weft_zero_save_status, "WEFT_ZERO_SAVE_STATUS_INIT", bytes);

static weft_status engine_ckpt(weft_zero *zero)
{
    if (zero->saves.ckpt)
        return WEFT_SUCCESS;
    if (!zero->saves.through)
        zero->saves.through = wi_calloc((size_t)zero->nunits, sizeof *zero->saves.through);
    weft_status st = zero->saves.through ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: save: out of memory");

    st = wi_zero_agree(zero, st, "save");
    return st < 0 ? st : wi_ckpt_create(zero->world, 0, &zero->saves.ckpt);
}

/* ---- Save ---- */

/* What is saved is not in memory as it is saved. */
static int is_filed(const weft_zero *zero)
{
    return zero->offload.disk || zero->swap || zero->config.state_dtype;
}

static weft_status begin(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *given)
{
    char optimizers[WI_ZERO_OPTIMIZERS_BYTES];
    const struct wi_ckpt_scalar scalars[] = {
        {.name = "step", .type = WI_CKPT_INTEGER, .integer = (int64_t)zero->step},
        {.name = "good_steps", .type = WI_CKPT_INTEGER, .integer = zero->scale.good_steps},
        {.name = "hysteresis", .type = WI_CKPT_INTEGER, .integer = zero->scale.hysteresis},
        {.name = "loss_scale", .type = WI_CKPT_REAL, .real = zero->scale.value},
        {.name = "optimizers", .type = WI_CKPT_TEXT, .text = wi_zero_optimizers(zero, optimizers, sizeof optimizers)},
    };
    struct wi_ckpt_state state = {scalars, sizeof scalars / sizeof *scalars, given->client, given->client_bytes};
    int filed = is_filed(zero);
    struct wi_ckpt_options options = {.keep = given->keep,
                                      .replace = given->replace,
                                      .incremental = given->incremental,
                                      .in_place = filed,
                                      .keep_buffer = 1,
                                      .direct = given->direct,
                                      .progress = &zero->saves.progress};
    struct wi_zero_tensors list;
    weft_status st = wi_zero_tensors_create(zero, &list);

    /* Of several copies the first is saved. */
    list.through = zero->saves.through;
    if (st >= 0 && !zero->copy)
        wi_zero_tensors_list(zero, WI_ZERO_SAVED, WI_ZERO_KINDS, &list);
    if (st >= 0)
        st = wi_ckpt_begin(zero->saves.ckpt, folder, tag, list.pieces, list.n, &state, &options);
    /* Files of the engine's are read by one thread at a time, and a copy of what is in them may not fit into memory. */
    if (st >= 0 && filed)
        wi_ckpt_snapshot_wait(zero->saves.ckpt);
    wi_zero_tensors_free(&list);
    return st;
}

static weft_status prepare(weft_zero *zero)
{
    struct wi_zero_tensors list;

    WI_TRY(engine_ckpt(zero));
    if (is_filed(zero) || zero->copy)
        return WEFT_SUCCESS;
    weft_status st = wi_zero_tensors_create(zero, &list);

    if (st >= 0) {
        wi_zero_tensors_list(zero, WI_ZERO_SAVED, WI_ZERO_KINDS, &list);
        st = wi_ckpt_prepare(zero->saves.ckpt, list.pieces, list.n);
    }
    wi_zero_tensors_free(&list);
    return st;
}

weft_status weft_zero_save_prepare(weft_zero *zero)
{
    unsigned since;
    weft_status st = wi_zero_enter("save_prepare", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, prepare(zero));
}

/* The save before this one, of which some ranks have not asked how it ended. All ranks see it end at nearly the same time, but not
 * at the same: where one of them has, the others wait for the rest of it. Its failure is that of the save that comes next, once. */
static weft_status collect(weft_zero *zero)
{
    int32_t mine = (int32_t)wi_ckpt_newest(zero->saves.ckpt), *all = wi_calloc((size_t)zero->nranks, sizeof *all);
    int saving = 0, idle = 0;
    weft_status st = all ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: save: out of memory");

    st = wi_zero_agree(zero, st, "save");
    if (st >= 0)
        st = wi_zero_gather_bytes(zero, &mine, all, sizeof mine, "save: the one before");
    for (int r = 0; st >= 0 && r < zero->nranks; r++) {
        saving += all[r] == WI_CKPT_SAVING;
        idle += all[r] == WI_CKPT_IDLE;
    }
    wi_free(all);
    WI_TRY(st);
    if (idle == zero->nranks)
        return WEFT_SUCCESS;
    if (saving == zero->nranks)
        return wi_fail(
            WEFT_EBUSY,
            "zero: save: the one before is under way; weft_zero_save_wait (Python: wait_for_checkpoint) waits for it");
    if (mine != WI_CKPT_IDLE)
        st = wi_ckpt_wait(zero->saves.ckpt, NULL);
    if (st < 0) {
        char why[400];

        snprintf(why, sizeof why, "%s", wi_fail_text());
        st = wi_fail(st,
                     "zero: save: the one before, which was not waited for, has failed, and this one has not begun: %s",
                     why);
    }
    return wi_zero_agree(zero, st, "save");
}

static weft_status check_save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *given,
                              weft_zero_save_options *options)
{
    if (!folder || !tag)
        return wi_fail(WEFT_EINVAL, "zero: save: %s is NULL", folder ? "tag" : "folder");
    if (given)
        WI_TRY(wi_struct_read(&save_rule, "zero: save", given, options));
    return wi_zero_idle(zero, "save");
}

static weft_status save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *given)
{
    weft_zero_save_options options = WEFT_ZERO_SAVE_OPTIONS_INIT;

    /* A rank that cannot save tells the others, which would wait for it in the background; also those of other parts. */
    weft_status st = check_save(zero, folder, tag, given, &options);

    WI_TRY(wi_zero_agree(zero, wi_zero_parts_apart(zero, st, folder, "save"), "save"));
    WI_TRY(wi_zero_gather_finish_all(zero));
    WI_TRY(engine_ckpt(zero));
    WI_TRY(collect(zero));
    return begin(zero, folder, tag, &options);
}

weft_status weft_zero_save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *options)
{
    unsigned since;
    weft_status st = wi_zero_enter("save", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, save(zero, folder, tag, options));
}

struct help {
    struct wi_ckpt *ckpt;
    size_t npieces;
};

static void help(void *arg, void *cursor, size_t thread)
{
    const struct help *help = arg;

    (void)cursor;
    (void)thread;
    wi_ckpt_snapshot_help(help->ckpt, help->npieces);
}

/* The optimizer, which waits, copies with all its threads. */
static void wait_for(weft_zero *zero, size_t npieces)
{
    struct help args = {zero->saves.ckpt, npieces};

    if (!zero->saves.ckpt || wi_ckpt_snapshot_has(zero->saves.ckpt, npieces))
        return;
    uint64_t from = wi_now_ns();

    wi_optim_pool_run(zero->pool, help, &args, (size_t)zero->config.threads);
    wi_ckpt_snapshot_wait_first(zero->saves.ckpt, npieces);
    zero->stats.snapshot_wait_ns += wi_now_ns() - from;
}

void wi_zero_snapshot_wait(weft_zero *zero)
{
    wait_for(zero, SIZE_MAX);
}

void wi_zero_snapshot_wait_unit(weft_zero *zero, int unit)
{
    if (zero->saves.through)
        wait_for(zero, zero->saves.through[unit]);
}

/* The engine is not held while its thread waits: others train on. */
static weft_status look(weft_zero *zero, struct wi_ckpt_result *result)
{
    unsigned since;
    weft_status st = wi_zero_enter("save_wait", zero, 1, &since);

    if (st < 0)
        return st;
    return wi_zero_leave(zero, since, zero->saves.ckpt ? wi_ckpt_poll(zero->saves.ckpt, result) : WEFT_SUCCESS);
}

static weft_status save_wait(weft_zero *zero, uint64_t timeout_ns, struct wi_ckpt_result *result)
{
    uint64_t deadline = wi_deadline_ns(timeout_ns), pause_ns = 50000;
    weft_status st;

    while ((st = look(zero, result)) == WEFT_INPROGRESS && wi_now_ns() < deadline) {
        struct timespec pause = {0, (long)pause_ns};

        nanosleep(&pause, NULL);
        pause_ns = pause_ns < 5000000 ? 2 * pause_ns : pause_ns;
    }
    return st;
}

_Static_assert((int)WEFT_ZERO_SAVE_COPYING == WI_CKPT_COPYING && (int)WEFT_ZERO_SAVE_COMPARING == WI_CKPT_COMPARING &&
                   (int)WEFT_ZERO_SAVE_WRITING == WI_CKPT_WRITING &&
                   (int)WEFT_ZERO_SAVE_COMMITTING == WI_CKPT_COMMITTING &&
                   (int)WEFT_ZERO_SAVE_VERIFYING == WI_CKPT_VERIFYING && (int)WEFT_ZERO_SAVE_READING == WI_CKPT_READING,
               "phases are those of checkpoints");

/* Without the engine's lock, which a load holds. */
static weft_status progress(weft_zero *zero, weft_zero_save_status *out)
{
    weft_zero_save_status own = WEFT_ZERO_SAVE_STATUS_INIT;

    if (!zero || zero->magic != WI_ZERO_MAGIC)
        return wi_fail(WEFT_EINVAL, "zero: save_progress: %s", zero ? "not an engine" : "zero is NULL");
    WI_TRY(wi_struct_check(&status_rule, "zero: save_progress", out));
    own.phase = (weft_zero_save_phase)atomic_load_explicit(&zero->saves.progress.phase, memory_order_acquire);
    if (own.phase != WEFT_ZERO_SAVE_NOTHING) {
        own.total_bytes = atomic_load_explicit(&zero->saves.progress.total, memory_order_relaxed);
        own.done_bytes = atomic_load_explicit(&zero->saves.progress.done, memory_order_relaxed);
    }
    if (own.done_bytes > own.total_bytes) /* between two phases */
        own.done_bytes = own.total_bytes;
    wi_struct_write(&status_rule, &own, out);
    return WEFT_SUCCESS;
}

weft_status weft_zero_save_progress(weft_zero *zero, weft_zero_save_status *status)
{
    unsigned since = wi_fail_count();

    return wi_zero_publish(since, progress(zero, status));
}

weft_status weft_zero_save_wait(weft_zero *zero, uint64_t timeout_ns, weft_zero_save_info *info)
{
    unsigned since = wi_fail_count();
    weft_zero_save_info own = WEFT_ZERO_SAVE_INFO_INIT;
    struct wi_ckpt_result result = {0};
    weft_status st = info ? wi_struct_check(&save_info_rule, "zero: save_wait", info) : WEFT_SUCCESS;

    if (st < 0)
        return wi_zero_publish(since, st);
    st = save_wait(zero, timeout_ns, &result);
    if (st != WEFT_SUCCESS || !info)
        return st;
    own.state_bytes = result.bytes;
    own.written_bytes = result.written_bytes;
    own.snapshot_ns = result.snapshot_ns;
    own.total_ns = result.total_ns;
    wi_struct_write(&save_info_rule, &own, info);
    return WEFT_SUCCESS;
}
