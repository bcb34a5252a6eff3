/* SPDX-License-Identifier: BSD-3-Clause */
/* Hashes (XXH3) and random bytes. */
#ifndef WI_BASE_HASH_H
#define WI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t wi_hash64(const void *data, size_t bytes, uint64_t seed);
void wi_hash128(const void *data, size_t bytes, uint64_t hash[2]); /* low half first */
/* Random bytes from the kernel (getrandom); 0 or -1. */
int wi_random(void *data, size_t bytes);

#endif
