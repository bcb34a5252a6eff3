/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli; RFC 3720, appendix B.4). */
#ifndef WI_CRC32C_H
#define WI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of, with `bytes` more behind it. Of nothing it is 0. */
uint32_t wi_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif
