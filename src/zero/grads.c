/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients: where they come to, and their reduction, unit by unit, in one order on all ranks. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/place.h"
#include "zero/swap.h"

static int is_last(const weft_zero *zero)
{
    return zero->micro.more >= 0 ? !zero->micro.more : zero->micro.ended + 1 >= zero->config.micro_batches;
}

static int reduces_now(const weft_zero *zero)
{
    return wi_zero_reduces_every(zero) || is_last(zero);
}

static size_t grad_bytes(const struct wi_zero_flat *flat)
{
    return flat->elems * wi_zero_width(flat->grad_dtype);
}

static char *own_place(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return flat->grad + wi_zero_first(zero, flat) * wi_zero_width(flat->grad_dtype);
}

/* ---- Reductions ---- */

/* May a reduction add to the shard? Shards of 16 bits that are in files are rounded before they are added up, and so are all, for
 * the same bits in memory and in files. */
static int adds_up(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return !flat->swapped && !zero->config.reduce_codec && flat->grad_dtype == WEFT_FLOAT32;
}

static weft_status reduce_begin(weft_zero *zero, struct wi_zero_unit *unit)
{
    weft_call_options options;
    weft_call call;

    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        if (!flat->trained)
            continue;
        int adds = flat->reduced && adds_up(zero, flat);

        flat->to_buffer = flat->swapped || (flat->reduced && !adds);
        wi_zero_call(&call, &options, WEFT_KIND_REDUCE_SCATTER, flat->grad,
                     flat->to_buffer ? own_place(zero, flat) : flat->grad_own, flat->shard, flat->grad_dtype,
                     unit->reduce_label);
        options.accumulate = adds; /* to what earlier micro-batches left in the shard */
        options.codec = zero->config.reduce_codec;
        if (options.codec && strstr(options.codec, "ef="))
            options.tensor = (uint64_t)i + 1;
        weft_status st = weft_issue(wi_zero_domain(zero, flat)->reductions, &call, &flat->reduce);

        if (st < 0)
            return wi_zero_broke(zero, st, "%s", unit->reduce_label);
    }
    zero->stats.reductions++;
    return WEFT_SUCCESS;
}

/* Of each parameter of a flat what of it is in this rank's shard: padding does not count. */
static size_t list_vectors(const weft_zero *zero, const struct wi_zero_flat *flat, const void *shard,
                           struct wi_optim_vector *vectors)
{
    size_t width = wi_zero_width(flat->grad_dtype), n = 0;

    for (int i = 0; i < flat->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[flat->params[i]];
        size_t begin, elems = wi_zero_own_part(zero, param, &begin);
        size_t at = elems ? param->offset + begin - wi_zero_first(zero, flat) : 0;

        if (elems && !(param->flags & WEFT_ZERO_DUPLICATE))
            vectors[n++] = (struct wi_optim_vector){(const char *)shard + at * width, elems, flat->grad_dtype};
    }
    return n;
}

static double add_up(const double *sums, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += sums[i];
    return sum;
}

double wi_zero_flat_squares(const weft_zero *zero, const struct wi_zero_flat *flat, const void *shard)
{
    const struct wi_zero_update *update = &zero->update;
    size_t n = list_vectors(zero, flat, shard, update->vectors);

    wi_optim_squares(zero->pool, update->vectors, n, update->squares);
    return add_up(update->squares, n);
}

static weft_status wait_for(weft_zero *zero, const struct wi_zero_flat *flat, weft_request **req)
{
    uint64_t from = wi_now_ns();
    weft_status st = weft_wait(*req);

    zero->stats.reduce_wait_ns += wi_now_ns() - from;
    if (st < 0)
        st = wi_zero_broke(zero, st, "reduction of unit \"%s\"", zero->units[flat->unit].name);
    weft_request_free(*req);
    *req = NULL;
    return st;
}

static weft_status flat_finish(weft_zero *zero, struct wi_zero_flat *flat)
{
    if (!flat->reduce)
        return WEFT_SUCCESS;
    weft_status st = wait_for(zero, flat, &flat->reduce);

    if (st >= 0 && flat->swapped)
        st = wi_zero_final(zero, wi_zero_swap_gradients(zero, flat, own_place(zero, flat), flat->reduced));
    else if (st >= 0 && flat->to_buffer)
        wi_optim_convert(zero->pool, flat->grad_own, flat->grad_dtype, own_place(zero, flat), flat->grad_dtype,
                         flat->shard, 1);
    if (zero->config.stage >= 2) {
        wi_zero_arena_put(&zero->memory.reduce_arena, flat->grad, grad_bytes(flat));
        flat->grad = NULL;
    }
    flat->reduced = 1;
    return st;
}

/* The step's last reduction of the flat, which is finished, is added up over the copies. */
static weft_status replicate(weft_zero *zero, struct wi_zero_flat *flat)
{
    weft_comm *replicas = wi_zero_domain(zero, flat)->replicas;
    weft_call_options options;
    weft_call call;

    if (!replicas || !flat->trained)
        return WEFT_SUCCESS;
    wi_zero_call(&call, &options, WEFT_KIND_ALL_REDUCE, flat->grad_own, flat->grad_own, flat->shard, flat->grad_dtype,
                 zero->units[flat->unit].reduce_label);
    call.op = WEFT_SUM;
    weft_status st = weft_issue(replicas, &call, &flat->replicate);

    return st < 0 ? wi_zero_broke(zero, st, "%s", zero->units[flat->unit].reduce_label) : st;
}

static weft_status unit_finish(weft_zero *zero, struct wi_zero_unit *unit, int final)
{
    weft_status st = WEFT_SUCCESS;

    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        weft_status one = flat_finish(zero, &zero->flats[i]);

        if (one >= 0 && st >= 0 && final)
            one = replicate(zero, &zero->flats[i]);
        st = st < 0 ? st : one;
    }
    return st;
}

/* Finish the oldest reduction that is under way; 0: there is none. */
static int finish_oldest(weft_zero *zero, weft_status *st)
{
    uint64_t number = zero->turns.finished, norder = (uint64_t)zero->turns.norder;

    if (number >= zero->turns.begun)
        return 0;
    zero->turns.finished++;
    *st = unit_finish(zero, &zero->units[zero->turns.order[number % norder]],
                      zero->micro.final && number + norder >= zero->turns.due);
    return 1;
}

weft_status wi_zero_reduce_finish_all(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS, one;

    while (finish_oldest(zero, &one))
        st = st < 0 ? st : one;
    for (int i = 0; i < zero->nflats; i++) {
        if (!zero->flats[i].replicate)
            continue;
        one = wait_for(zero, &zero->flats[i], &zero->flats[i].replicate);
        st = st < 0 ? st : one;
    }
    return st;
}

/* One call for all that is in memory. A flat's parameters are added up first, as are those of one in a file. */
double wi_zero_squares(weft_zero *zero)
{
    uint64_t from = wi_now_ns();
    const struct wi_zero_update *update = &zero->update;
    size_t n = 0;
    double sum = 0;

    for (int i = 0; i < zero->nflats; i++)
        if (zero->flats[i].trained && !zero->flats[i].swapped)
            n += list_vectors(zero, &zero->flats[i], zero->flats[i].grad_own, update->vectors + n);
    wi_optim_squares(zero->pool, update->vectors, n, update->squares);
    n = 0;
    for (int i = 0; i < zero->nflats; i++) {
        const struct wi_zero_flat *flat = &zero->flats[i];

        if (flat->trained && !flat->swapped) {
            size_t own = list_vectors(zero, flat, flat->grad_own, update->vectors);

            sum += add_up(update->squares + n, own);
            n += own;
        } else if (flat->trained) {
            sum += flat->squares;
        }
    }
    zero->stats.norm_ns += wi_now_ns() - from;
    return sum;
}

/* Reduce the units whose turn it is and whose gradients are complete. */
static weft_status take_turns(weft_zero *zero)
{
    if (!reduces_now(zero))
        return WEFT_SUCCESS;
    while (zero->turns.begun < zero->turns.due) {
        struct wi_zero_unit *unit = &zero->units[zero->turns.order[zero->turns.begun % (uint64_t)zero->turns.norder]];

        if (!unit->complete)
            break;

        WI_TRY(reduce_begin(zero, unit));
        for (int i = 0; i < unit->nparams; i++)
            zero->params[unit->params[i]].written = 0;
        zero->turns.begun++;
        if (!zero->config.overlap)
            WI_TRY(wi_zero_reduce_finish_all(zero));
    }
    return WEFT_SUCCESS;
}

/* ---- Gradients that come ---- */

/* Padding is summed and coded with the rest. */
static void clear_padding(const weft_zero *zero, struct wi_zero_flat *flat)
{
    size_t width = wi_zero_width(flat->grad_dtype), at = 0;

    for (int i = 0; i < flat->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[flat->params[i]];

        memset(flat->grad + at * width, 0, (param->offset - at) * width);
        at = param->offset + param->elems;
    }
    memset(flat->grad + at * width, 0, (flat->elems - at) * width);
}

/* A buffer for the flat's gradients, from the second stage on. */
static weft_status open_flat(weft_zero *zero, struct wi_zero_flat *flat)
{
    weft_status st, finished = WEFT_SUCCESS;
    void *ptr;

    if (flat->grad)
        return WEFT_SUCCESS;
    while ((st = wi_zero_arena_get(&zero->memory.reduce_arena, grad_bytes(flat), 1, &ptr)) == WEFT_ENOTFOUND &&
           finish_oldest(zero, &finished))
        WI_TRY(finished);
    if (st == WEFT_ENOTFOUND)
        st = wi_zero_arena_get(&zero->memory.reduce_arena, grad_bytes(flat), 0, &ptr);
    WI_TRY(st);
    flat->grad = ptr;
    clear_padding(zero, flat);
    return WEFT_SUCCESS;
}

/* The order in which units were used first tells in which their gradients come, until it is known. */
static void guess_order(weft_zero *zero)
{
    int n = 0;

    for (int i = zero->gathers.nfirst_used - 1; i >= 0; i--)
        if (zero->units[zero->gathers.first_used[i]].trained)
            zero->turns.order[n++] = zero->gathers.first_used[i];
    for (int u = zero->nunits - 1; u >= 0; u--) {
        int known = !zero->units[u].trained;

        for (int i = 0; !known && i < n; i++)
            known = zero->turns.order[i] == u;
        if (!known)
            zero->turns.order[n++] = u;
    }
}

static void begin_micro_batch(weft_zero *zero)
{
    if (zero->micro.begun)
        return;
    zero->micro.begun = 1;
    zero->micro.final = is_last(zero);
    if (reduces_now(zero))
        zero->turns.due = zero->turns.begun + (uint64_t)zero->turns.norder;
    if (!zero->turns.agreed && zero->micro.ended == 0)
        guess_order(zero);
    if (is_last(zero))
        zero->turns.ncompleted = 0;
}

static weft_status check(const char *call, weft_zero *zero, int param)
{
    WI_TRY(wi_zero_param_check(call, zero, param));
    const struct wi_zero_param *p = &zero->params[param];

    if (p->flags & WEFT_ZERO_FROZEN)
        return wi_fail(WEFT_EINVAL, "zero: %s: parameter \"%s\" is frozen and has no gradient", call, p->name);
    if (zero->micro.last)
        return wi_fail(WEFT_EINVAL,
                       "zero: %s: gradient of \"%s\" after the step's last micro-batch; weft_zero_step was not called",
                       call, p->name);
    if (p->came)
        return wi_fail(WEFT_EINVAL, "zero: %s: the gradient of \"%s\" has come in this micro-batch already", call,
                       p->name);
    return WEFT_SUCCESS;
}

static char *place(const weft_zero *zero, const struct wi_zero_param *param)
{
    const struct wi_zero_flat *flat = &zero->flats[param->flat];

    return flat->grad + param->offset * wi_zero_width(flat->grad_dtype);
}

static weft_status open_place(weft_zero *zero, const struct wi_zero_param *param)
{
    struct wi_zero_flat *flat = &zero->flats[param->flat];

    begin_micro_batch(zero);
    WI_TRY(flat_finish(zero, flat)); /* an earlier micro-batch's reduction reads the buffer */
    return open_flat(zero, flat);
}

static weft_status complete(weft_zero *zero, struct wi_zero_unit *unit)
{
    if (unit->complete || !unit->trained)
        return WEFT_SUCCESS;
    unit->complete = 1;
    if (zero->turns.ncompleted < zero->nunits)
        zero->turns.completed[zero->turns.ncompleted++] = (int)(unit - zero->units);
    return take_turns(zero);
}

static weft_status came(weft_zero *zero, struct wi_zero_param *param)
{
    struct wi_zero_unit *unit = &zero->units[param->unit];

    param->came = param->written = 1;
    return --unit->missing == 0 ? complete(zero, unit) : WEFT_SUCCESS;
}

weft_status wi_zero_unit_ended(weft_zero *zero, int number)
{
    struct wi_zero_unit *unit = &zero->units[number];

    if (unit->complete || !unit->trained)
        return WEFT_SUCCESS;
    for (int i = 0; i < unit->nparams; i++) {
        struct wi_zero_param *param = &zero->params[unit->params[i]];

        if (param->came || (param->flags & WEFT_ZERO_FROZEN))
            continue;
        WI_TRY(open_place(zero, param));
        if (!param->written)
            memset(place(zero, param), 0, param->elems * wi_zero_width(zero->flats[param->flat].grad_dtype));
        WI_TRY(came(zero, param));
    }
    return complete(zero, unit);
}

static weft_status grad_add(weft_zero *zero, int number, const void *grad, weft_dtype dtype)
{
    WI_TRY(check("grad_add", zero, number));
    struct wi_zero_param *param = &zero->params[number];

    if (!grad && param->elems)
        return wi_fail(WEFT_EINVAL, "zero: grad_add: the gradient of \"%s\" is NULL", param->name);
    if (!wi_zero_has_dtype(dtype))
        return wi_fail(WEFT_EINVAL, "zero: grad_add: the dtype is %s, not float, bfloat16 or half",
                       weft_dtype_name(dtype));
    WI_TRY(open_place(zero, param));
    uint64_t from = wi_now_ns();

    wi_optim_convert(zero->pool, place(zero, param), zero->flats[param->flat].grad_dtype, grad, dtype, param->elems,
                     param->written);
    zero->stats.copy_ns += wi_now_ns() - from;
    return came(zero, param);
}

weft_status weft_zero_grad_add(weft_zero *zero, int param, const void *grad, weft_dtype dtype)
{
    unsigned since;
    weft_status st = wi_zero_enter("grad_add", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, grad_add(zero, param, grad, dtype));
}

static weft_status grad_buffer(weft_zero *zero, int number, void **grad, int *add)
{
    WI_TRY(check("grad_buffer", zero, number));
    if (!grad || !add)
        return wi_fail(WEFT_EINVAL, "zero: grad_buffer: %s is NULL", grad ? "add" : "grad");
    WI_TRY(open_place(zero, &zero->params[number]));
    *grad = place(zero, &zero->params[number]);
    *add = zero->params[number].written;
    zero->params[number].asked = 1;
    return WEFT_SUCCESS;
}

weft_status weft_zero_grad_buffer(weft_zero *zero, int param, void **grad, int *add)
{
    unsigned since;
    weft_status st = wi_zero_enter("grad_buffer", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, grad_buffer(zero, param, grad, add));
}

static weft_status grad_ready(weft_zero *zero, int number)
{
    WI_TRY(check("grad_ready", zero, number));
    struct wi_zero_param *param = &zero->params[number];

    if (!param->asked)
        return wi_fail(WEFT_EINVAL, "zero: grad_ready: the place of the gradient of \"%s\" was not asked for",
                       param->name);
    return came(zero, param);
}

weft_status weft_zero_grad_ready(weft_zero *zero, int param)
{
    unsigned since;
    weft_status st = wi_zero_enter("grad_ready", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, grad_ready(zero, param));
}

/* ---- Micro-batches ---- */

static void reset_micro_batch(weft_zero *zero)
{
    zero->micro.begun = 0;
    for (int u = 0; u < zero->nunits; u++) {
        struct wi_zero_unit *unit = &zero->units[u];

        unit->complete = unit->missing = unit->forwards = unit->backwards = 0;
        for (int i = 0; i < unit->nparams; i++) {
            struct wi_zero_param *param = &zero->params[unit->params[i]];

            param->came = param->asked = 0;
            unit->missing += !(param->flags & WEFT_ZERO_FROZEN);
        }
    }
}

void wi_zero_forget_gradients(weft_zero *zero)
{
    reset_micro_batch(zero);
    zero->micro.ended = zero->micro.last = 0;
    zero->turns.begun = zero->turns.due = zero->turns.finished = 0;
    zero->micro.more = -1;
    for (int i = 0; i < zero->nparams; i++)
        zero->params[i].written = 0;
    for (int i = 0; i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        flat->reduced = 0;
        /* Of a micro-batch that has not ended. */
        if (zero->config.stage >= 2 && flat->grad) {
            wi_zero_arena_put(&zero->memory.reduce_arena, flat->grad, grad_bytes(flat));
            flat->grad = NULL;
        }
    }
}

static weft_status micro_batch_end(weft_zero *zero)
{
    if (zero->micro.last)
        return wi_fail(WEFT_EINVAL,
                       "zero: micro_batch_end: the step has its %d micro-batches; weft_zero_step was not called",
                       zero->micro.ended);
    begin_micro_batch(zero);
    for (int i = 0; i < zero->turns.norder; i++)
        WI_TRY(wi_zero_unit_ended(zero, zero->turns.order[i]));
    zero->micro.last = is_last(zero);
    reset_micro_batch(zero);
    wi_zero_trace_end(&zero->gathers.trace);
    zero->micro.ended++;
    zero->micro.more = -1;
    return wi_zero_release_passed_over(zero, -1);
}

weft_status weft_zero_micro_batch_end(weft_zero *zero)
{
    unsigned since;
    weft_status st = wi_zero_enter("micro_batch_end", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, micro_batch_end(zero));
}

static weft_status accumulate(weft_zero *zero, int more)
{
    if (more < -1 || more > 1)
        return wi_fail(WEFT_EINVAL, "zero: accumulate: more is %d, not -1, 0 or 1", more);
    if (zero->micro.begun || zero->micro.last)
        return wi_fail(WEFT_EINVAL, "zero: accumulate: %s",
                       zero->micro.last ? "the last micro-batch has ended; weft_zero_step comes next"
                                        : "gradients of this micro-batch have come already");
    zero->micro.more = more;
    return WEFT_SUCCESS;
}

weft_status weft_zero_accumulate(weft_zero *zero, int more)
{
    unsigned since;
    weft_status st = wi_zero_enter("accumulate", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, accumulate(zero, more));
}

/* Ranks may be at different places when they find that the step is not to be made. What some have begun to reduce is
 * reduced by all, with what there is: micro-batches end until all ranks have as many. Who has one under way ends it first,
 * as others may be waiting for its reductions; who has none hears of it meanwhile. */
static weft_status catch_up(weft_zero *zero)
{
    int32_t mine = 2 * (zero->micro.ended + zero->micro.begun) +
                   (zero->micro.begun ? zero->micro.final : zero->micro.last),
            most = mine;
    weft_call_options options;
    weft_request *req;
    weft_call call;

    wi_zero_call(&call, &options, WEFT_KIND_ALL_REDUCE, &mine, &most, 1, WEFT_INT32, "gradients are dropped");
    call.op = WEFT_MAX;
    weft_status st = weft_issue(zero->world, &call, &req);

    if (st < 0)
        return wi_zero_broke(zero, st, "drop_gradients");
    weft_status ended = zero->micro.begun ? micro_batch_end(zero) : WEFT_SUCCESS;

    st = weft_wait(req);
    weft_request_free(req);
    if (st < 0)
        return wi_zero_broke(zero, st, "drop_gradients");
    while (ended >= 0 && zero->micro.ended < most / 2) {
        zero->micro.more = zero->micro.ended + 1 < most / 2 || !(most & 1);
        ended = micro_batch_end(zero);
    }
    return ended;
}

static weft_status drop(weft_zero *zero)
{
    WI_TRY(catch_up(zero));
    WI_TRY(wi_zero_reduce_finish_all(zero));
    wi_zero_forget_gradients(zero);
    return WEFT_SUCCESS;
}

weft_status weft_zero_drop_gradients(weft_zero *zero)
{
    unsigned since;
    weft_status st = wi_zero_enter("drop_gradients", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, drop(zero));
}
