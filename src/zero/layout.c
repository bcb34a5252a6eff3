/* SPDX-License-Identifier: BSD-3-Clause */
/* Where parameters lie in flats, and flats in memory. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/offload.h"
#include "zero/place.h"
#include "zero/swap.h"
#include "zero/tier.h"

#define ALIGN_BYTES 64 /* of parameters and shards */
#define CUT_MOST WI_ZERO_CUT_MOST
/* Of all flats: what shards of whole parameters are rounded up to may be as often as there are ranks. */
#define FLATS_MOST ((size_t)1 << 54)

static size_t gcd(size_t a, size_t b)
{
    while (b) {
        size_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static size_t lcm(size_t a, size_t b)
{
    return a / gcd(a, b) * b;
}

/* ---- Parameters in a flat ---- */

/* Parameters follow each other; shards are what is left over the ranks, rounded so that cuts are where every parameter allows
 * them. */
static weft_status place_in_a_row(weft_zero *zero, struct wi_zero_flat *flat)
{
    size_t step = ALIGN_BYTES / wi_zero_width(flat->dtype), cut = step, at = 0;

    for (int i = 0; i < flat->nparams; i++) {
        struct wi_zero_param *param = &zero->params[flat->params[i]];
        size_t own = lcm(step, param->cut ? param->cut : 1);

        if (own > CUT_MOST || lcm(cut, own) > CUT_MOST)
            return wi_fail(
                WEFT_EINVAL,
                "seal: no shard boundary suits all parameters of unit \"%s\": with cut_elems %zu of \"%s\" the least "
                "common multiple is above %zu",
                zero->units[flat->unit].name, param->cut, param->name, CUT_MOST);
        cut = lcm(cut, own);
        at = wi_zero_round(at, own);
        param->offset = at;
        if (__builtin_add_overflow(at, param->elems, &at))
            return wi_fail(WEFT_EINVAL, "seal: unit \"%s\" has too many elements", zero->units[flat->unit].name);
    }
    size_t nranks = (size_t)wi_zero_domain(zero, flat)->nranks;

    flat->shard = wi_zero_round((at + nranks - 1) / nranks, cut);
    return WEFT_SUCCESS;
}

/* Each parameter to the rank that has least so far, the largest first. */
static weft_status place_whole(weft_zero *zero, struct wi_zero_flat *flat)
{
    int nranks = wi_zero_domain(zero, flat)->nranks;
    size_t step = ALIGN_BYTES / wi_zero_width(flat->dtype), *load = wi_calloc((size_t)nranks, sizeof *load);
    int *owner = wi_calloc((size_t)flat->nparams + 1, sizeof *owner); /* 1 + rank */

    for (int n = 0; load && owner && n < flat->nparams; n++) {
        int largest = -1, least = 0;

        for (int i = 0; i < flat->nparams; i++)
            if (!owner[i] &&
                (largest < 0 || zero->params[flat->params[i]].elems > zero->params[flat->params[largest]].elems))
                largest = i;
        for (int r = 1; r < nranks; r++)
            if (load[r] < load[least])
                least = r;
        struct wi_zero_param *param = &zero->params[flat->params[largest]];

        owner[largest] = 1 + least;
        param->offset = load[least];
        load[least] += wi_zero_round(param->elems, step);
    }
    for (int r = 0; load && r < nranks; r++)
        if (load[r] > flat->shard)
            flat->shard = load[r];
    for (int i = 0; load && owner && i < flat->nparams; i++)
        zero->params[flat->params[i]].offset += (size_t)(owner[i] - 1) * flat->shard;
    weft_status st = load && owner ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "seal: out of memory");

    wi_free(load);
    wi_free(owner);
    return st;
}

static int same_class(const struct wi_zero_flat *flat, const struct wi_zero_param *param)
{
    return flat->dtype == param->dtype && flat->trained == !(param->flags & WEFT_ZERO_FROZEN) &&
           flat->whole == !!(param->flags & WEFT_ZERO_WHOLE) && flat->domain == wi_zero_domain_of(param) &&
           flat->ops == param->ops;
}

/* By place, so that who walks over a shard meets its parameters in order. */
static void sort_by_place(const weft_zero *zero, struct wi_zero_flat *flat)
{
    for (int i = 1; i < flat->nparams; i++) {
        size_t param = flat->params[i];
        int k = i;

        for (; k > 0 && zero->params[flat->params[k - 1]].offset > zero->params[param].offset; k--)
            flat->params[k] = flat->params[k - 1];
        flat->params[k] = param;
    }
}

static weft_status fill_flat(weft_zero *zero, const struct wi_zero_unit *unit, struct wi_zero_flat *flat)
{
    int number = (int)(flat - zero->flats);

    for (int i = 0; i < unit->nparams; i++)
        flat->nparams += same_class(flat, &zero->params[unit->params[i]]);
    flat->params = wi_calloc((size_t)flat->nparams, sizeof *flat->params);
    if (!flat->params)
        return wi_fail(WEFT_ENOMEM, "seal: out of memory");
    flat->nparams = 0;
    for (int i = 0; i < unit->nparams; i++) {
        struct wi_zero_param *param = &zero->params[unit->params[i]];

        if (!same_class(flat, param))
            continue;
        param->flat = number;
        flat->params[flat->nparams++] = (size_t)unit->params[i];
    }
    WI_TRY(flat->whole ? place_whole(zero, flat) : place_in_a_row(zero, flat));
    sort_by_place(zero, flat);
    if (__builtin_mul_overflow(flat->shard, (size_t)wi_zero_domain(zero, flat)->nranks, &flat->elems) ||
        flat->elems > SIZE_MAX / 16)
        return wi_fail(WEFT_EINVAL, "seal: unit \"%s\" has too many elements", unit->name);
    return WEFT_SUCCESS;
}

weft_status wi_zero_lay_out(weft_zero *zero)
{
    size_t all = 0;

    /* Every parameter begins at most one flat. */
    zero->flats = wi_calloc((size_t)zero->nparams + 1, sizeof *zero->flats);
    if (!zero->flats)
        return wi_fail(WEFT_ENOMEM, "seal: out of memory");
    for (int u = 0; u < zero->nunits; u++) {
        struct wi_zero_unit *unit = &zero->units[u];

        unit->first_flat = zero->nflats;
        for (int i = 0; i < unit->nparams; i++) {
            const struct wi_zero_param *param = &zero->params[unit->params[i]];

            if (param->flat >= 0)
                continue;
            struct wi_zero_flat *flat = &zero->flats[zero->nflats++];

            flat->unit = u;
            flat->dtype = param->dtype;
            flat->trained = !(param->flags & WEFT_ZERO_FROZEN);
            flat->whole = !!(param->flags & WEFT_ZERO_WHOLE);
            flat->ops = param->ops;
            if (flat->trained && flat->ops->flags & WI_OPTIM_CODED)
                flat->state = zero->config.state_dtype;
            flat->domain = wi_zero_domain_of(param);
            flat->grad_dtype = zero->config.grad_fp32 ? WEFT_FLOAT32 : param->dtype;
            WI_TRY(fill_flat(zero, unit, flat));
            unit->trained |= flat->trained;
        }
        unit->nflats = zero->nflats - unit->first_flat;
        for (int i = 0; i < unit->nflats; i++)
            if (__builtin_add_overflow(all, zero->flats[unit->first_flat + i].elems, &all) || all > FLATS_MOST)
                return wi_fail(WEFT_EINVAL, "seal: with unit \"%s\" the shards have more than 2^54 elements",
                               unit->name);
        for (int i = 0; i < unit->nflats; i++)
            unit->elems += zero->flats[unit->first_flat + i].elems;
        unit->kept = zero->config.stage < 3 || unit->elems <= zero->config.persistent_elems;
    }
    return WEFT_SUCCESS;
}

/* ---- Flats in memory ---- */

/* Memory that other ranks of the host reach without a copy, or plain memory where there is none such. */
static weft_status allocate(weft_zero *zero, size_t bytes, const char *what, void **ptr)
{
    if (!bytes)
        return WEFT_SUCCESS;
    weft_status st = weft_mem_alloc(zero->context, bytes, ptr);

    if (st == WEFT_ENOTSUP) {
        zero->memory.plain = 1;
        *ptr = wi_aligned_alloc(ALIGN_BYTES, bytes);
        if (*ptr)
            memset(*ptr, 0, bytes);
        st = *ptr ? WEFT_SUCCESS : WEFT_ENOMEM;
    }
    return st < 0 ? wi_fail(st, "seal: %zu bytes for %s cannot be had: %s", bytes, what, weft_thread_error()) : st;
}

static void release(weft_zero *zero, void *ptr)
{
    if (zero->memory.plain)
        wi_free(ptr);
    else
        weft_mem_free(zero->context, ptr);
}

/* An image that is gathered into its place would be what is updated the next time, hence a separate weight. */
static void mark(weft_zero *zero)
{
    for (int i = 0; i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        int kept = zero->units[flat->unit].kept;

        flat->separate = flat->trained && (flat->dtype != WEFT_FLOAT32 ||
                                           (zero->config.gather_codec && !wi_zero_updates_all(zero) && kept));
        flat->swapped = zero->config.offload_params && !kept && flat->elems;
        wi_zero_mark_updated(zero, flat);
    }
}

/* How many bytes each class takes; when there is memory, also where each flat's part is. */
static void share_out(weft_zero *zero, int placed)
{
    int stage = zero->config.stage;
    size_t params = 0, grads = 0, state = 0;

    for (int i = 0; i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        size_t width = wi_zero_width(flat->dtype), grad_width = wi_zero_width(flat->grad_dtype);
        size_t first = wi_zero_first(zero, flat), n = flat->updated_elems;
        int kept = zero->units[flat->unit].kept;

        if (placed && kept) {
            flat->full = (char *)zero->memory.params.at + params;
            flat->own = flat->full + first * width;
        } else if (placed && !flat->swapped) {
            flat->own = (char *)zero->memory.params.at + params;
        }
        params += (kept ? flat->elems : flat->swapped ? 0 : flat->shard) * width;
        if (zero->second.comm && !kept && flat->domain == WI_ZERO_COMMON) {
            if (placed)
                flat->second = (char *)zero->memory.params.at + params;
            params += flat->elems / (size_t)zero->second.nranks * width;
        }
        if (!flat->trained)
            continue;
        if (placed && stage < 2) {
            flat->grad = (char *)zero->memory.grads.at + grads;
            flat->grad_own = flat->grad + first * grad_width;
        }
        grads += stage < 2 ? flat->elems * grad_width : 0;
        if (wi_zero_reduces_every(zero) && !flat->swapped) {
            if (placed)
                flat->grad_own = (char *)zero->memory.grads.at + grads;
            grads += flat->shard * grad_width;
        }
        wi_zero_mark_updated(zero, flat);
        if (!flat->separate)
            flat->weight = (float *)(void *)flat->updated_param;
        if (flat->filed)
            continue;
        if (placed && flat->separate)
            flat->weight = (float *)zero->memory.state.at + state / 4;
        state += flat->separate ? 4 * n : 0;
        for (int m = 0; flat->state && m < wi_zero_moments(zero, flat); m++) {
            state = wi_zero_round(state, ALIGN_BYTES);
            if (placed)
                flat->codes[m] = (char *)zero->memory.state.at + state;
            state += wi_zero_code_bytes(flat, n);
            if (placed && wi_zero_scale_bytes(flat, n))
                flat->scales[m] = (float *)(void *)((char *)zero->memory.state.at + state);
            state += wi_zero_scale_bytes(flat, n);
        }
        for (int m = 0; !flat->state && m < wi_zero_moments(zero, flat); m++, state += 4 * n)
            if (placed)
                flat->moment[m] = (float *)zero->memory.state.at + state / 4;
    }
    zero->memory.params.bytes = params;
    zero->memory.grads.bytes = grads;
    zero->memory.state.bytes = state;
}

struct two {
    size_t largest, second;
};

static void see(struct two *two, size_t bytes)
{
    if (bytes > two->largest) {
        two->second = two->largest;
        two->largest = bytes;
    } else if (bytes > two->second) {
        two->second = bytes;
    }
}

/* Buffers for two units at a time, one that is used and one on its way; for one, if nothing overlaps. */
static void size_buffers(weft_zero *zero)
{
    struct two params = {0, 0}, grads = {0, 0};
    size_t all = 0, widest = 2;

    for (int u = 0; u < zero->nunits; u++) {
        const struct wi_zero_unit *unit = &zero->units[u];
        size_t bytes = 0, grad_bytes = 0;

        for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
            const struct wi_zero_flat *flat = &zero->flats[i];
            size_t width = wi_zero_width(flat->dtype);

            widest = width > widest ? width : widest;
            bytes += flat->elems * width;
            grad_bytes += flat->trained ? flat->elems * wi_zero_width(flat->grad_dtype) : 0;
        }
        all += bytes;
        see(&params, unit->kept ? 0 : bytes);
        see(&grads, grad_bytes);
    }
    if (zero->config.stage == 3) {
        size_t limit = zero->config.live_elems > all / widest ? all : zero->config.live_elems * widest;

        zero->memory.gather.bytes = params.largest + (zero->config.overlap ? params.second : 0);
        zero->memory.gather.bytes = zero->memory.gather.bytes < limit ? limit : zero->memory.gather.bytes;
    }
    if (zero->config.stage >= 2)
        zero->memory.reduce.bytes = grads.largest + (zero->config.overlap ? grads.second : 0);
}

static weft_status allocate_state(weft_zero *zero)
{
    if (!zero->memory.state.bytes)
        return WEFT_SUCCESS;
    void *memory = mmap(NULL, zero->memory.state.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return wi_fail(WEFT_ENOMEM, "seal: %zu bytes for master weights and moments cannot be had",
                       zero->memory.state.bytes);
    /* Only a hint: fewer page faults and misses of the TLB. */
    (void)madvise(memory, zero->memory.state.bytes, MADV_HUGEPAGE);
    zero->memory.state.at = memory;
    return WEFT_SUCCESS;
}

/* What a flat's optimizer needs beside the states, for the largest of its matrices that this rank updates. */
static size_t scratch_of(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    size_t most = 0;

    if (flat->state)
        return wi_optim_coded_bytes(zero->config.threads);
    for (int i = 0; flat->ops->scratch_bytes && i < flat->nparams; i++) {
        const struct wi_zero_param *param = &zero->params[flat->params[i]];
        size_t begin, columns = param->ndims == 2 ? param->shape[1] : 1, bytes = 0;

        if (wi_zero_updated_part(zero, param, &begin))
            bytes = flat->ops->scratch_bytes(zero->config.threads, param->elems / columns, columns);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static weft_status allocate_scratch(weft_zero *zero)
{
    for (int i = 0; i < zero->nflats; i++) {
        size_t bytes = zero->flats[i].trained ? scratch_of(zero, &zero->flats[i]) : 0;

        zero->update.scratch_bytes = bytes > zero->update.scratch_bytes ? bytes : zero->update.scratch_bytes;
    }
    if (!zero->update.scratch_bytes)
        return WEFT_SUCCESS;
    zero->update.scratch = wi_aligned_alloc(ALIGN_BYTES, wi_zero_round(zero->update.scratch_bytes, ALIGN_BYTES));
    return zero->update.scratch
               ? WEFT_SUCCESS
               : wi_fail(WEFT_ENOMEM, "seal: %zu bytes for the optimizer cannot be had", zero->update.scratch_bytes);
}

/* Room for what a step lists and computes. */
static weft_status allocate_update(weft_zero *zero)
{
    struct wi_zero_update *update = &zero->update;
    size_t nparams = (size_t)zero->nparams + 1, nflats = (size_t)zero->nflats + 1;
    int most = 0;

    for (int i = 0; i < zero->nflats; i++) {
        const struct wi_zero_flat *flat = &zero->flats[i];
        int parts = flat->nparams + flat->updated_ranks; /* those of moments as codes are cut at shards */

        most = parts > most ? parts : most;
        update->two_passes |= flat->trained && flat->ops->flags & WI_OPTIM_TWO_PASSES;
    }
    for (int i = 0; i < zero->nparams; i++)
        if (zero->params[i].group >= update->nhypers)
            update->nhypers = zero->params[i].group + 1;
    most *= update->two_passes ? 3 : 1; /* stage 0: before, in and behind the own shard */
    update->pieces = wi_calloc((size_t)most + 1, sizeof *update->pieces);
    update->piece_codes = wi_calloc((size_t)most + 1, sizeof *update->piece_codes);
    update->piece_sums = wi_calloc((size_t)most + 1, sizeof(*update->piece_sums));
    update->hypers = wi_calloc((size_t)update->nhypers + 1, sizeof *update->hypers);
    update->optims = wi_calloc(nparams, sizeof *update->optims);
    update->squares = wi_calloc(2 * nparams, sizeof *update->squares);
    update->vectors = wi_calloc(nparams, sizeof *update->vectors);
    update->flats = wi_calloc(2 * nflats + (size_t)zero->nunits, sizeof *update->flats);
    update->extents = wi_calloc(nflats, sizeof *update->extents);
    if (update->two_passes)
        update->sums = wi_calloc(nparams, sizeof *update->sums);
    if (!update->pieces || !update->piece_codes || !update->piece_sums || !update->hypers || !update->optims ||
        !update->squares || !update->vectors || !update->flats || !update->extents ||
        !update->sums != !update->two_passes)
        return wi_fail(WEFT_ENOMEM, "seal: no memory for the updates of %d parameters", zero->nparams);
    return WEFT_SUCCESS;
}

static void free_update(struct wi_zero_update *update)
{
    wi_free(update->pieces);
    wi_free(update->piece_codes);
    wi_free(update->piece_sums);
    wi_free(update->hypers);
    wi_free(update->optims);
    wi_free(update->squares);
    wi_free(update->vectors);
    wi_free(update->flats);
    wi_free(update->extents);
    wi_free(update->sums);
    wi_free(update->scratch);
}

weft_status wi_zero_allocate(weft_zero *zero)
{
    mark(zero);
    WI_TRY(wi_zero_offload_choose(zero));
    share_out(zero, 0);
    size_buffers(zero);
    WI_TRY(allocate(zero, zero->memory.params.bytes, "parameters", &zero->memory.params.at));
    WI_TRY(allocate(zero, zero->memory.grads.bytes, "gradients", &zero->memory.grads.at));
    WI_TRY(allocate_state(zero));
    WI_TRY(allocate_scratch(zero));
    WI_TRY(allocate(zero, zero->memory.gather.bytes, "gathered parameters", &zero->memory.gather.at));
    WI_TRY(allocate(zero, zero->memory.reduce.bytes, "gradients of the units in use", &zero->memory.reduce.at));
    share_out(zero, 1);
    WI_TRY(wi_zero_offload_create(zero));
    WI_TRY(wi_zero_tier_create(zero));
    WI_TRY(wi_zero_swap_create(zero));
    wi_zero_arena_init(&zero->memory.gather_arena, zero->context, zero->memory.gather.at, zero->memory.gather.bytes);
    wi_zero_arena_init(&zero->memory.reduce_arena, zero->context, zero->memory.reduce.at, zero->memory.reduce.bytes);
    WI_TRY(allocate_update(zero));
    zero->turns.order = wi_calloc((size_t)zero->nunits, sizeof *zero->turns.order);
    zero->turns.completed = wi_calloc((size_t)zero->nunits, sizeof *zero->turns.completed);
    zero->gathers.first_used = wi_calloc((size_t)zero->nunits, sizeof *zero->gathers.first_used);
    zero->gathers.delayed = wi_calloc((size_t)zero->nunits, sizeof *zero->gathers.delayed);
    if (!zero->gathers.delayed || !zero->turns.order || !zero->turns.completed || !zero->gathers.first_used)
        return wi_fail(WEFT_ENOMEM, "seal: out of memory");
    return WEFT_SUCCESS;
}

void wi_zero_free_memory(weft_zero *zero)
{
    wi_zero_arena_fini(&zero->memory.gather_arena);
    wi_zero_arena_fini(&zero->memory.reduce_arena);
    release(zero, zero->memory.params.at);
    release(zero, zero->memory.grads.at);
    release(zero, zero->memory.gather.at);
    release(zero, zero->memory.reduce.at);
    if (zero->memory.state.at)
        munmap(zero->memory.state.at, zero->memory.state.bytes);
    for (int i = 0; i < zero->nflats; i++)
        wi_free(zero->flats[i].params);
    wi_free(zero->flats);
    free_update(&zero->update);
    wi_free(zero->turns.order);
    wi_free(zero->turns.completed);
    wi_free(zero->gathers.first_used);
    wi_free(zero->gathers.delayed);
}
