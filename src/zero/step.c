/* SPDX-License-Identifier: BSD-3-Clause */
/* A step: the norm of all gradients, the loss scale, the update of this rank's shards, and the way of the new parameters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/offload.h"
#include "zero/place.h"
#include "zero/tier.h"

static const struct wi_struct_rule hyper_rule = WI_STRUCT_RULE(weft_zero_hyper, "WEFT_ZERO_HYPER_INIT", bytes);
static const struct wi_struct_rule info_rule = WI_STRUCT_RULE(weft_zero_step_info, "WEFT_ZERO_STEP_INFO_INIT", bytes);

/* ---- Hyper-parameters ---- */

static weft_status check_groups(const weft_zero *zero, int nhypers)
{
    for (int i = 0; i < zero->nparams; i++)
        if (zero->params[i].group >= nhypers)
            return wi_fail(WEFT_EINVAL,
                           "zero: step: parameter \"%s\" is in group %d, and there are hyper-parameters of %d",
                           zero->params[i].name, zero->params[i].group, nhypers);
    return WEFT_SUCCESS;
}

/* A program of another version has structs of another size in its array. Those of groups without parameters are compared, too. */
static weft_status read_hypers(weft_zero *zero, const weft_zero_hyper *given, int nhypers, uint64_t *hash)
{
    const weft_zero_hyper init = WEFT_ZERO_HYPER_INIT;
    weft_zero_hyper *own = zero->update.hypers;

    *hash = 5;
    for (int i = 0; i < nhypers; i++) {
        const weft_zero_hyper *one = (const void *)((const char *)given + (size_t)i * given->bytes);
        weft_zero_hyper hyper = init;

        if (one->bytes != given->bytes)
            return wi_fail(WEFT_EINVAL, "zero: step: the bytes of group %d differ from those of group 0", i);
        WI_TRY(wi_struct_read(&hyper_rule, "zero: step", one, &hyper));
        *hash = wi_hash64(&hyper, sizeof hyper, *hash);
        if (i < zero->update.nhypers)
            own[i] = hyper;
    }
    for (int i = 0; i < zero->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[i];
        weft_status st = param->ops ? param->ops->check(param->ops->kind, &own[param->group]) : WEFT_SUCCESS;

        if (st < 0)
            return wi_fail(st, "zero: step: group %d: %s", param->group, wi_fail_text());
    }
    return WEFT_SUCCESS;
}

static weft_status prepare(weft_zero *zero, double grad_scale)
{
    for (int i = 0; i < zero->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[i];

        if (param->ops)
            WI_TRY(wi_optim_prepare(&zero->update.optims[i], param->ops->kind, &zero->update.hypers[param->group],
                                    zero->step + 1, grad_scale));
    }
    return WEFT_SUCCESS;
}

/* ---- Norm and overflow ---- */

weft_status wi_zero_numbers(weft_zero *zero, weft_comm *comm, weft_kind kind, double *values, size_t count,
                            const char *label)
{
    weft_call_options options;
    weft_call call;

    wi_zero_call(&call, &options, kind, values, values, count, WEFT_FLOAT64, label);
    call.op = WEFT_SUM;
    weft_status st = weft_issue(comm, &call, NULL);

    return st < 0 ? wi_zero_broke(zero, st, "%s", label) : st;
}

static weft_status small(weft_zero *zero, weft_comm *comm, weft_kind kind, double *value, const char *label)
{
    return wi_zero_numbers(zero, comm, kind, value, 1, label);
}

/* The sum of squares over all ranks, a number that is not finite if any is not: one all-reduce finds norm and overflow. With other
 * parts of the model one among those goes before, and broadcasts follow: different groups may add in different orders, and all
 * ranks must have the same bits. */
static weft_status agree_on_squares(weft_zero *zero, double *squares, uint64_t hash)
{
    uint64_t from = wi_now_ns();
    weft_status st = WEFT_SUCCESS;
    char label[WI_ZERO_LABEL_BYTES];

    /* Ranks that ran another number of micro-batches, or are about to do something else, are told so here. Numbers of 20 digits
     * have room before the end would be cut, which tells of other hyper-parameters. */
    snprintf(label, sizeof label, "step %llu after %d micro-batches, hypers %08llx", (unsigned long long)zero->step + 1,
             zero->micro.ended, (unsigned long long)(hash & 0xffffffff));
    if (zero->model)
        st = small(zero, zero->model, WEFT_KIND_ALL_REDUCE, squares, "norm of the parts of the model");
    if (st >= 0)
        st = small(zero, zero->domains[WI_ZERO_COMMON].reductions, WEFT_KIND_ALL_REDUCE, squares, label);
    if (st >= 0 && zero->domains[WI_ZERO_COMMON].replicas)
        st =
            small(zero, zero->domains[WI_ZERO_COMMON].replicas, WEFT_KIND_BROADCAST, squares, "norm of the first copy");
    if (st >= 0 && zero->model)
        st = small(zero, zero->model, WEFT_KIND_BROADCAST, squares, "norm of the whole model");
    zero->stats.norm_ns += wi_now_ns() - from;
    return st;
}

/* As DeepSpeed's scaler: an overflow halves the scale once the hysteresis is used up; a window without one doubles it. */
static void rescale(weft_zero *zero, int overflow)
{
    const weft_zero_config *config = &zero->config;

    if (config->loss_scale != 0)
        return;
    if (overflow) {
        if (zero->scale.hysteresis <= 1)
            zero->scale.value = fmax(zero->scale.value / 2, config->loss_scale_min);
        else
            zero->scale.hysteresis--;
        zero->scale.good_steps = 0;
        return;
    }
    if (config->loss_scale_refill)
        zero->scale.hysteresis = config->loss_scale_hysteresis;
    if (++zero->scale.good_steps % config->loss_scale_window == 0) {
        zero->scale.hysteresis = config->loss_scale_hysteresis;
        zero->scale.value *= 2;
    }
}

/* ---- Where every rank updates all (stage 0), and needs all gradients ---- */

static weft_status gather_gradients(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS;
    char label[128];

    for (int i = 0; st >= 0 && i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        size_t width = wi_zero_width(flat->grad_dtype), bytes = flat->shard * width;
        char *place = flat->trained ? flat->grad + wi_zero_first(zero, flat) * width : NULL;
        weft_call_options options;
        weft_call call;

        if (!flat->trained)
            continue;
        if (flat->grad_own != place)
            memcpy(place, flat->grad_own, bytes);
        snprintf(label, sizeof label, "gradients %.40s, step %llu", zero->units[flat->unit].name,
                 (unsigned long long)zero->step);
        wi_zero_call(&call, &options, WEFT_KIND_ALL_GATHER, place, flat->grad, flat->shard, flat->grad_dtype, label);
        st = weft_issue(wi_zero_domain(zero, flat)->reductions, &call, &flat->reduce);
        if (st < 0)
            st = wi_zero_broke(zero, st, "%s", label);
    }
    for (int i = 0; i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        weft_status one = flat->reduce ? weft_wait(flat->reduce) : WEFT_SUCCESS;

        if (one < 0 && st >= 0)
            st = wi_zero_broke(zero, one, "gradients of unit \"%s\"", zero->units[flat->unit].name);
        weft_request_free(flat->reduce);
        flat->reduce = NULL;
    }
    return st;
}

/* ---- The update ---- */

/* Elements of a parameter that this rank updates: from `begin` on, of which those of its own shard count in norms. */
struct range {
    size_t begin, elems;
    int counts;
};

/* A rank that updates more than its shard adds up what is in its shard, as the others do. */
static int find_ranges(const weft_zero *zero, const struct wi_zero_param *param, struct range ranges[3])
{
    size_t begin, first, elems = wi_zero_own_part(zero, param, &begin), all = wi_zero_updated_part(zero, param, &first);

    if (!zero->update.first_pass || all == elems) {
        ranges[0] = (struct range){first, all, 1};
        return 1;
    }
    ranges[0] = (struct range){first, begin - first, 0};
    ranges[1] = (struct range){begin, elems, 1};
    ranges[2] = (struct range){begin + elems, first + all - begin - elems, 0};
    return 3;
}

static void run(weft_zero *zero, const struct wi_zero_flat *flat, size_t npieces)
{
    const struct wi_optim_call call = {
        .pool = zero->pool,
        .pieces = zero->update.pieces,
        .npieces = npieces,
        .codes = flat->state ? zero->update.piece_codes : NULL,
        .sums = zero->update.first_pass ? zero->update.piece_sums : NULL,
        .update = zero->config.update,
        .update_arg = zero->config.update_arg,
        .scratch = zero->update.scratch,
    };

    flat->ops->run(&call);
}

/* What of a range of a parameter is among `elems` elements, from `from` on, of what this rank updates of the flat. */
static size_t add_piece(weft_zero *zero, const struct wi_zero_flat *flat, int number, const struct range *range,
                        size_t from, size_t elems, const struct wi_zero_memory *memory, size_t npieces)
{
    const struct wi_zero_param *param = &zero->params[number];
    size_t width = wi_zero_width(flat->dtype), grad_width = wi_zero_width(flat->grad_dtype);
    size_t first = param->offset + range->begin - flat->updated_first, last = first + range->elems;

    first = first < from ? from : first;
    last = last > from + elems ? from + elems : last;
    if (!range->elems || first >= last)
        return npieces;
    zero->update.pieces[npieces] = (struct wi_optim_piece){
        .optim = &zero->update.optims[number],
        .elems = last - first,
        .weight = memory->weight + (first - from),
        .moment1 = memory->moment[0] ? memory->moment[0] + (first - from) : NULL,
        .moment2 = memory->moment[1] ? memory->moment[1] + (first - from) : NULL,
        .grad = memory->grads + first * grad_width,
        .grad_dtype = flat->grad_dtype,
        .out = flat->separate && flat->dtype != WEFT_FLOAT32 ? memory->out + first * width : NULL,
        .out_dtype = flat->dtype,
        .param = number,
        .first = first + flat->updated_first - param->offset,
        .rows = flat->ops->flags & WI_OPTIM_MATRICES ? param->shape[0] : 0,
    };
    if (zero->update.first_pass)
        zero->update.piece_sums[npieces] = range->counts ? &zero->update.sums[number] : NULL;
    return npieces + 1;
}

/* Moments that are codes are in memory, and so is all of the flat. */
static size_t add_coded(weft_zero *zero, const struct wi_zero_flat *flat, const struct wi_zero_memory *memory)
{
    size_t npieces = 0;

    for (int i = 0; i < flat->nparams; i++)
        for (int r = flat->updated_rank; r < flat->updated_rank + flat->updated_ranks; r++) {
            struct range range = {0, 0, 0};

            if (wi_zero_part_codes(zero, flat, i, r, &range.begin, &range.elems, &zero->update.piece_codes[npieces]))
                npieces = add_piece(zero, flat, (int)flat->params[i], &range, 0, flat->updated_elems, memory, npieces);
        }
    return npieces;
}

void wi_zero_update_part(weft_zero *zero, const struct wi_zero_flat *flat, size_t from, size_t elems,
                         const struct wi_zero_memory *memory)
{
    struct range ranges[3];
    size_t npieces = 0;

    if (flat->state)
        npieces = add_coded(zero, flat, memory);
    for (int i = 0; !flat->state && i < flat->nparams; i++) {
        int number = (int)flat->params[i], n = find_ranges(zero, &zero->params[number], ranges);

        for (int k = 0; k < n; k++)
            npieces = add_piece(zero, flat, number, &ranges[k], from, elems, memory, npieces);
    }
    run(zero, flat, npieces);
    if (flat->separate && flat->dtype == WEFT_FLOAT32 && !zero->update.first_pass)
        for (size_t i = 0; i < npieces; i++) {
            const struct wi_optim_piece *piece = &zero->update.pieces[i];

            memcpy(memory->out + (from + (size_t)(piece->weight - memory->weight)) * 4, piece->weight,
                   piece->elems * 4);
        }
}

/* Every unit with gradients, once. */
static int is_order(const weft_zero *zero, const int *order)
{
    for (int i = 0; i < zero->turns.norder; i++) {
        if (order[i] < 0 || order[i] >= zero->nunits || !zero->units[order[i]].trained)
            return 0;
        for (int k = 0; k < i; k++)
            if (order[k] == order[i])
                return 0;
    }
    return 1;
}

/* Rank 0's order of completion becomes all ranks' order of reductions: no buffer waits for one whose gradients come later. */
static weft_status learn_order(weft_zero *zero)
{
    weft_call_options options;
    weft_call call;

    if (zero->turns.agreed || !zero->turns.norder)
        return WEFT_SUCCESS;
    wi_zero_call(&call, &options, WEFT_KIND_BROADCAST, zero->turns.completed, zero->turns.completed,
                 (size_t)zero->turns.norder, WEFT_INT32, "order of reductions");
    weft_status st = weft_issue(zero->world, &call, NULL);

    if (st < 0)
        return wi_zero_broke(zero, st, "order of reductions");
    if (!is_order(zero, zero->turns.completed))
        return wi_zero_final(zero,
                             wi_fail(WEFT_EPROTO, "zero: step: what rank 0 says is no order of this model's units"));
    memcpy(zero->turns.order, zero->turns.completed, (size_t)zero->turns.norder * sizeof *zero->turns.order);
    zero->turns.agreed = 1;
    return WEFT_SUCCESS;
}

static weft_status apply(weft_zero *zero, uint64_t hash, weft_zero_step_info *info)
{
    double divisor = zero->config.divisor > 0 ? zero->config.divisor : (double)zero->nranks * zero->micro.ended;
    double scale = 1 / (divisor * zero->scale.value), squares = 0;
    weft_status st = wi_zero_reduce_finish_all(zero);

    if (st >= 0)
        squares = wi_zero_squares(zero);
    if (st >= 0)
        st = agree_on_squares(zero, &squares, hash);
    info->norm = sqrt(squares) * scale;
    info->skipped = !isfinite(squares);
    if (!info->skipped && zero->config.clip > 0 && info->norm + 1e-6 > zero->config.clip)
        info->factor = zero->config.clip / (info->norm + 1e-6);
    if (st >= 0)
        st = prepare(zero, scale * info->factor);
    if (st >= 0 && !info->skipped && wi_zero_updates_all(zero))
        st = gather_gradients(zero);
    if (st >= 0)
        st = learn_order(zero);
    /* What is about to change is not on its way any more, and what is gathered of it is old. */
    if (st >= 0)
        st = wi_zero_gather_finish_all(zero);
    if (st >= 0 && !info->skipped)
        st = wi_zero_release_all(zero);
    if (st >= 0 && !info->skipped) {
        st = zero->update.two_passes ? wi_zero_first_pass(zero) : WEFT_SUCCESS;
        if (st >= 0)
            st = wi_zero_update_all(zero, wi_zero_gather_updated);
        /* Some parameters have changed, and others have not. */
        wi_zero_final(zero, st);
    }
    return st;
}

static weft_status check_step(const weft_zero *zero, const weft_zero_hyper *given, int nhypers)
{
    if (!given || nhypers < 1)
        return wi_fail(WEFT_EINVAL, "zero: step: hypers is %s", given ? "empty" : "NULL");
    if (!zero->micro.last)
        return wi_fail(WEFT_EINVAL, "zero: step: %d of %d micro-batches have ended%s", zero->micro.ended,
                       zero->config.micro_batches,
                       zero->micro.begun ? ", and gradients of another have come without weft_zero_micro_batch_end"
                                         : "");
    for (int u = 0; u < zero->nunits; u++)
        if (zero->units[u].passes)
            return wi_fail(WEFT_EINVAL, "zero: step: a pass of unit \"%s\" has not ended", zero->units[u].name);
    return check_groups(zero, nhypers);
}

/* For how long files have been waited for. */
static uint64_t stalled(const weft_zero *zero)
{
    weft_zero_stats stats = {.disk_read_wait_ns = zero->stats.disk_read_wait_ns};

    wi_zero_offload_stats(zero, &stats);
    return stats.disk_read_wait_ns + stats.disk_write_wait_ns;
}

static weft_status step(weft_zero *zero, const weft_zero_hyper *given, int nhypers, weft_zero_step_info *out)
{
    weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;
    uint64_t update_ns = zero->stats.update_ns, stall_ns = stalled(zero), hash;

    WI_TRY(check_step(zero, given, nhypers));
    if (out)
        WI_TRY(wi_struct_check(&info_rule, "zero: step", out));
    WI_TRY(read_hypers(zero, given, nhypers, &hash));
    WI_TRY(apply(zero, hash, &info));
    zero->step += !info.skipped;
    zero->stats.step_update_ns = zero->stats.update_ns - update_ns;
    zero->stats.step_stall_ns = stalled(zero) - stall_ns;
    /* A unit that cannot be read is lost. */
    if (!info.skipped)
        WI_TRY(wi_zero_final(zero, wi_zero_tier_follow(zero, zero->stats.step_update_ns, zero->stats.step_stall_ns)));
    rescale(zero, info.skipped);
    wi_zero_forget_gradients(zero);
    info.loss_scale = zero->scale.value;
    info.step = zero->step;
    if (out)
        wi_struct_write(&info_rule, &info, out);
    return WEFT_SUCCESS;
}

static weft_status set_step(weft_zero *zero, uint64_t steps)
{
    if (zero->micro.begun || zero->micro.ended)
        return wi_fail(WEFT_EINVAL, "zero: set_step: gradients of step %llu have come",
                       (unsigned long long)zero->step + 1);
    zero->step = steps;
    return WEFT_SUCCESS;
}

weft_status weft_zero_set_step(weft_zero *zero, uint64_t steps)
{
    unsigned since;
    weft_status st = wi_zero_enter("set_step", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, set_step(zero, steps));
}

weft_status weft_zero_step(weft_zero *zero, const weft_zero_hyper *hypers, int nhypers, weft_zero_step_info *info)
{
    unsigned since;
    weft_status st = wi_zero_enter("step", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, step(zero, hypers, nhypers, info));
}
