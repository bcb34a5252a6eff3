/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates of all flats: those in the file as they come by, and those in memory while the file is waited for. What is computed when
 * depends on the disk; the order in which parameters go on their way does not. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/offload.h"
#include "zero/swap.h"
#include "zero/zero.h"

#define IDLE_ELEMS \
    ((size_t)1 << 19) /* of a flat in memory at a time, beside a stream: about as long as a block takes */

struct update {
    weft_zero *zero;
    wi_zero_updated_fn updated;
    int *filed, *kept;    /* flats in the order of use, -1 ends them */
    int *left;            /* of each unit: flats that are still to be updated */
    int cursor;           /* in zero->turns.order, downwards: the next unit that `updated` is called of */
    size_t at, from;      /* in `kept`, and which element of it is next */
    const char *grads[2]; /* of a flat whose parameters and gradients are in a file: of `filed`, of `kept` */
    char *params[2];
};

static struct wi_zero_flat *next_swapped(const struct update *update, const int *at)
{
    while (*++at >= 0)
        if (update->zero->flats[*at].swapped)
            return &update->zero->flats[*at];
    return NULL;
}

/* A flat is done: units whose turn it is go on their way. */
static weft_status done(struct update *update, const struct wi_zero_flat *flat)
{
    weft_zero *zero = update->zero;

    update->left[flat->unit]--;
    while (update->cursor >= 0 && !update->left[zero->turns.order[update->cursor]])
        WI_TRY(update->updated(zero, zero->turns.order[update->cursor--]));
    return WEFT_SUCCESS;
}

/* Elements of a flat, whose weight and moments are in `memory`. place: in `filed` or in `kept`. */
static weft_status update_some(struct update *update, const int *place, size_t from, size_t elems,
                               struct wi_zero_memory *memory)
{
    weft_zero *zero = update->zero;
    struct wi_zero_flat *flat = &zero->flats[*place];
    int list = !flat->filed, last = from + elems >= flat->updated_elems;

    if (from == 0)
        wi_zero_snapshot_wait_unit(zero, flat->unit);
    memory->grads = flat->updated_grad;
    memory->out = flat->updated_param;
    if (flat->swapped && from == 0)
        WI_TRY(wi_zero_swap_update_begin(zero, flat, next_swapped(update, place), &update->grads[list],
                                         &update->params[list]));
    if (flat->swapped) {
        memory->grads = update->grads[list];
        memory->out = update->params[list];
    }
    if (!flat->separate)
        memory->weight = (float *)(void *)memory->out + from;
    wi_zero_update_part(zero, flat, from, elems, memory);
    if (flat->swapped && last)
        WI_TRY(wi_zero_swap_update_end(zero, flat));
    return last ? done(update, flat) : WEFT_SUCCESS;
}

static weft_status compute(void *arg, const struct wi_disk_piece *piece)
{
    struct update *update = arg;
    const int *place = &update->filed[piece->index];
    const struct wi_zero_flat *flat = &update->zero->flats[*place];
    struct wi_zero_memory memory = {.weight = flat->separate ? piece->streams[0] : NULL};

    for (int m = 0; m < wi_zero_moments(update->zero, flat); m++)
        memory.moment[m] = piece->streams[flat->separate + m];
    return update_some(update, place, piece->offset / 4, piece->bytes / 4, &memory);
}

/* The next elements of the flats in memory, at most so many; 0: there are none left. Not all of them
 * come in pieces. */
static int update_kept(struct update *update, size_t most)
{
    const int *place = &update->kept[update->at];
    struct wi_zero_memory memory = {NULL, {NULL, NULL}, NULL, NULL};

    if (*place < 0)
        return 0;
    const struct wi_zero_flat *flat = &update->zero->flats[*place];
    size_t from = update->from, elems = flat->updated_elems - from;

    if (wi_zero_in_pieces(flat) && elems > most)
        elems = most;
    if (flat->separate)
        memory.weight = flat->weight + from;
    for (int m = 0; m < 2; m++)
        memory.moment[m] = flat->moment[m] ? flat->moment[m] + from : NULL;
    update->from += elems;
    if (update->from >= flat->updated_elems) {
        update->from = 0;
        update->at++;
    }
    weft_status st = update_some(update, place, from, elems, &memory);

    return st < 0 ? (int)st : 1;
}

static int idle(void *arg)
{
    return update_kept(arg, IDLE_ELEMS);
}

static void list_flats(struct update *update, size_t *extents, size_t *nextents)
{
    const weft_zero *zero = update->zero;
    size_t nkept = 0;

    *nextents = 0;
    for (int i = zero->turns.norder - 1; i >= 0; i--) {
        const struct wi_zero_unit *unit = &zero->units[zero->turns.order[i]];

        for (int f = unit->first_flat; f < unit->first_flat + unit->nflats; f++) {
            if (!zero->flats[f].trained ||
                (zero->update.first_pass && !(zero->flats[f].ops->flags & WI_OPTIM_TWO_PASSES)))
                continue;
            update->left[zero->turns.order[i]]++;
            if (zero->flats[f].filed) {
                update->filed[*nextents] = f;
                extents[(*nextents)++] = (size_t)zero->flats[f].extent;
            } else {
                update->kept[nkept++] = f;
            }
        }
    }
    update->filed[*nextents] = update->kept[nkept] = -1;
}

static weft_status update_lists(struct update *update, const size_t *extents, size_t nextents)
{
    int did = 1;

    if (nextents)
        WI_TRY(wi_disk_stream(update->zero->offload.disk, extents, nextents, WI_DISK_READ | WI_DISK_WRITE, compute,
                              update, idle));
    while (did > 0)
        did = update_kept(update, SIZE_MAX);
    return did < 0 ? (weft_status)did : WEFT_SUCCESS;
}

weft_status wi_zero_update_all(weft_zero *zero, wi_zero_updated_fn updated)
{
    uint64_t from = wi_now_ns();
    size_t n = (size_t)zero->nflats + 1, nextents;
    int *flats = zero->update.flats;
    struct update update = {.zero = zero,
                            .updated = updated,
                            .filed = flats,
                            .kept = flats + n,
                            .left = flats + 2 * n,
                            .cursor = zero->turns.norder - 1};

    memset(update.left, 0, (size_t)zero->nunits * sizeof *update.left);
    list_flats(&update, zero->update.extents, &nextents);
    weft_status st = update_lists(&update, zero->update.extents, nextents);

    zero->stats.update_ns += wi_now_ns() - from;
    return st;
}
