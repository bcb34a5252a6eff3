/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes in a file until they are wanted again (weft_zero.h): what tests need beside it. */
#ifndef WI_ZERO_SPILL_H
#define WI_ZERO_SPILL_H

#include <weft/weft_zero.h>

#include "zero/disk/disk.h"

#define WI_SPILL_CHUNK ((size_t)64 << 10) /* room in the file is taken by so many bytes */

/* As weft_zero_spill_create. backend: NULL, or who performs requests (tests). */
weft_status wi_spill_create(const weft_zero_spill_config *config, const struct wi_disk_backend *backend, weft_zero_spill **spill);
struct wi_disk *wi_spill_disk(weft_zero_spill *spill);

#endif
