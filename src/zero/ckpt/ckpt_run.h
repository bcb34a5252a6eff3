/* SPDX-License-Identifier: BSD-3-Clause */
/* What a save needs, taken from the caller's arguments. */
#ifndef WI_CKPT_RUN_H
#define WI_CKPT_RUN_H

#include "zero/ckpt/ckpt_buffer.h"
#include "zero/ckpt/ckpt_impl.h"

/* A run that is filled, or could not be: wi_ckpt_run_fini either way. */
weft_status wi_ckpt_run_fill(struct wi_ckpt_run *run, struct wi_ckpt_buffer *buffer, const char *folder, const char *tag,
                             const struct wi_ckpt_piece *pieces, size_t npieces, const struct wi_ckpt_state *state,
                             const struct wi_ckpt_options *options);
/* Bytes that a copy of valid pieces in chunks of WI_CKPT_CHUNK_BYTES takes at most. */
size_t wi_ckpt_run_room(const struct wi_ckpt_piece *pieces, size_t npieces);
void wi_ckpt_run_fini(struct wi_ckpt_run *run);
uint64_t wi_ckpt_run_scalars_hash(const struct wi_ckpt_run *run);

#endif
