/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli, polynomial 0x1edc6f41; RFC 3720, B.4): finds every burst error of up to 32 bits. */
#ifndef WI_BASE_CRC32C_H
#define WI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what `crc` was computed over, followed by these bytes. 0: of nothing. Any thread. */
uint32_t wi_crc32c(uint32_t crc, const void *data, size_t bytes);

/* What computes it: "sse4.2", "armv8" or "table". */
const char *wi_crc32c_name(void);
/* For tests: use this one; NULL: the best. -1: the processor does not have it. */
int wi_crc32c_force(const char *name);

#endif
