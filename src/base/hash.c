/* SPDX-License-Identifier: BSD-3-Clause */
/* Hash and random bytes. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

#include <errno.h>
#include <sys/random.h>

uint64_t wi_hash64(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}

void wi_hash128(const void *data, size_t bytes, uint64_t hash[2])
{
    XXH128_hash_t h = XXH3_128bits(data, bytes);

    hash[0] = h.low64;
    hash[1] = h.high64;
}

int wi_random(void *data, size_t bytes)
{
    unsigned char *out = data;

    while (bytes > 0) {
        ssize_t got = getrandom(out, bytes, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        out += got;
        bytes -= (size_t)got;
    }
    return 0;
}
