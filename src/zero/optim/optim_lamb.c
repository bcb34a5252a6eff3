/* SPDX-License-Identifier: BSD-3-Clause */
/* Lamb's first pass. A tensor's elements are summed up in blocks of one size, which begin where the tensor does; a piece may begin
 * or end within a block, whose sums are then kept for the next piece. */
#include <string.h>

#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

#define BLOCK_ELEMS 32768u
#define WAVE 32u /* blocks that are summed up at a time */

typedef double lanes[2][WI_OPTIM_SUM_LANES];

struct wave {
    const struct wi_optim_isa *isa;
    const struct wi_optim_piece *piece;
    enum wi_optim_type type;
    size_t from, to; /* of the piece */
    size_t into;     /* its first block began so many elements before `from` */
    lanes lanes[WAVE];
};

static void block(void *arg, void *cursor, size_t unit)
{
    struct wave *wave = arg;
    const struct wi_optim_piece *piece = wave->piece;
    size_t from = unit ? wave->from + unit * BLOCK_ELEMS - wave->into : wave->from;
    size_t to = wave->from + (unit + 1) * BLOCK_ELEMS - wave->into;

    (void)cursor;
    to = to < wave->to ? to : wave->to;
    wave->isa->lamb[wave->type](
        piece->optim, to - from, piece->weight + from, piece->moment1 + from, piece->moment2 + from,
        (const char *)piece->grad + (wave->type == WI_OPTIM_F32 ? 4 : 2) * from, wave->lanes[unit]);
}

/* A block has ended. */
static void fold(struct wi_optim_sums *sums, lanes block)
{
    for (int k = 0; k < 2; k++) {
        for (size_t width = WI_OPTIM_SUM_LANES / 2; width; width /= 2)
            for (size_t i = 0; i < width; i++)
                block[k][i] += block[k][i + width];
        sums->sum[k] += block[k][0];
    }
}

static void add_wave(struct wi_optim_pool *pool, struct wave *wave, struct wi_optim_sums *sums)
{
    size_t elems = wave->to - wave->from, nblocks = (wave->into + elems + BLOCK_ELEMS - 1) / BLOCK_ELEMS;

    memset(wave->lanes, 0, sizeof wave->lanes);
    memcpy(wave->lanes[0], sums->lanes, sizeof sums->lanes);
    wi_optim_pool_run(pool, block, wave, nblocks);
    memset(sums->lanes, 0, sizeof sums->lanes);
    for (size_t i = 0; i < nblocks; i++)
        if ((i + 1) * BLOCK_ELEMS <= wave->into + elems)
            fold(sums, wave->lanes[i]);
        else
            memcpy(sums->lanes, wave->lanes[i], sizeof sums->lanes);
    sums->elems += elems;
}

void wi_optim_lamb_moments(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces,
                           struct wi_optim_sums *const *sums, size_t npieces)
{
    struct wave wave = {.isa = wi_optim_isa_current()};

    for (size_t i = 0; i < npieces; i++) {
        struct wi_optim_sums unwanted = {.elems = 0}, *own = sums[i] ? sums[i] : &unwanted;

        wave.piece = &pieces[i];
        wave.type = wi_optim_type_of(pieces[i].grad_dtype);
        for (size_t at = 0; at < pieces[i].elems; at = wave.to) {
            size_t left = pieces[i].elems - at;

            wave.into = own->elems % BLOCK_ELEMS;
            wave.from = at;
            wave.to = left < WAVE * BLOCK_ELEMS - wave.into ? at + left : at + WAVE * BLOCK_ELEMS - wave.into;
            add_wave(pool, &wave, own);
        }
    }
}

void wi_optim_sums_end(struct wi_optim_sums *sums, double *weight, double *update)
{
    fold(sums, sums->lanes);
    memset(sums->lanes, 0, sizeof sums->lanes);
    *weight = sums->sum[0];
    *update = sums->sum[1];
}
