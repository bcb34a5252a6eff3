/* SPDX-License-Identifier: BSD-3-Clause */
/* 64-bit hash (XXH3) and CRC-free helpers. */
#ifndef WI_BASE_HASH_H
#define WI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t wi_hash64(const void *data, size_t bytes, uint64_t seed);
/* Random bytes from the kernel (getrandom); 0 or -1. */
int wi_random(void *data, size_t bytes);

#endif
