/* SPDX-License-Identifier: BSD-3-Clause */
/* Of an engine's tensors, what a checkpoint saves and loads: pieces of weights and moments. */
#ifndef WI_ZERO_TENSORS_H
#define WI_ZERO_TENSORS_H

#include "zero/ckpt/ckpt.h"
#include "zero/place.h"

enum { WI_ZERO_KINDS = 3 }; /* weights and two moments; the first one is the weight */

enum wi_zero_save_reach {
    WI_ZERO_SAVED, /* what this rank alone saves */
    WI_ZERO_WIDE,  /* what it needs when it loads */
    WI_ZERO_WHOLE  /* all of every tensor: to compare models */
};

/* A piece that is not in memory as it is saved: where it is. */
struct wi_zero_source {
    weft_zero *zero;
    struct wi_zero_place place;
};

/* Pieces, and of those that are elsewhere where they are. */
struct wi_zero_tensors {
    struct wi_ckpt_piece *pieces;
    struct wi_zero_source *sources;
    size_t n;
    size_t *through; /* NULL, or room for the number of pieces up to each unit's */
};
weft_status wi_zero_tensors_create(const weft_zero *zero, struct wi_zero_tensors *list);
void wi_zero_tensors_free(struct wi_zero_tensors *list);
/* Units in the order in which they are updated, and those without gradients behind them. */
void wi_zero_tensors_list(weft_zero *zero, enum wi_zero_save_reach reach, int nkinds, struct wi_zero_tensors *list);

/* The optimizers of an engine's parameters, in the order of their numbers: "adamw, muon"; "none".
 * text: WI_ZERO_OPTIMIZERS_BYTES. */
enum { WI_ZERO_OPTIMIZERS_BYTES = 128 };
const char *wi_zero_optimizers(const weft_zero *zero, char *text, size_t bytes);

/* Before a save or a load: no gradients have come since the last step. */
weft_status wi_zero_idle(const weft_zero *zero, const char *call);
/* parts.c: with config.model, no other part of the model has the same folder. Among its ranks collective. */
weft_status wi_zero_parts_apart(weft_zero *zero, weft_status own, const char *folder, const char *call);

#endif
