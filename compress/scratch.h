/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for work on blocks that are too long for a thread's stack. Taking some never fails, and waits only for threads that are at
 * such work: parsing a codec that needs it has seen to it that there is some (wi_scratch_reserve). */
#ifndef WI_COMPRESS_SCRATCH_H
#define WI_COMPRESS_SCRATCH_H

#include <stddef.h>
#include <weft/weft_plugin.h>

/* Whoever holds one of PARTS may take one of CODEC, and not the reverse: so no two threads wait for each other. */
enum wi_scratch_use { WI_SCRATCH_PARTS, WI_SCRATCH_CODEC, WI_SCRATCH_USES };

/* Each is of so many bytes; what is not touched of it takes no memory. 64 bytes aligned. */
#define WI_SCRATCH_BYTES (WEFT_CODEC_SCRATCH_MAX + 4 * (size_t)WEFT_CODEC_BLOCK_MAX * sizeof(float))

/* See to it that there is one of each use. WEFT_ENOMEM with text. */
weft_status wi_scratch_reserve(void);
void *wi_scratch_take(enum wi_scratch_use use);
void wi_scratch_give(enum wi_scratch_use use, void *scratch);

#endif
