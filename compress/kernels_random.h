/* SPDX-License-Identifier: BSD-3-Clause */
/* Random bits as a function of seed, step, rank and place: Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1,
 * 2, 3, SC 2011). Part of each instruction set's source, behind kernels_blocks.h.
 *
 * Element i has word i % 64 / 16 of counter i / 64 * 16 + i % 16: sixteen counters side by side fill registers. */

#define PHILOX_LANES 16
#define PHILOX_GROUP (4 * PHILOX_LANES) /* elements that share them */

/* One round. c[w][lane]: word w of the counter. */
static INLINE void philox_round(uint32_t c[4][PHILOX_LANES], uint32_t k0, uint32_t k1, int lanes)
{
    for (int i = 0; i < lanes; i++) {
        uint64_t p0 = (uint64_t)c[0][i] * 0xd2511f53u, p1 = (uint64_t)c[2][i] * 0xcd9e8d57u;
        c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
        c[1][i] = (uint32_t)p1;
        c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
        c[3][i] = (uint32_t)p0;
    }
}

static INLINE void philox(uint32_t c[4][PHILOX_LANES], uint32_t k0, uint32_t k1, int lanes)
{
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u)
        philox_round(c, k0, k1, lanes);
}

/* Words of the elements from `group` * PHILOX_GROUP on, in their order. */
static inline void random_group(uint32_t seed, const struct weft_codec_site *site, uint64_t group, uint32_t *words)
{
    uint32_t c[4][PHILOX_LANES];

    for (uint32_t i = 0; i < PHILOX_LANES; i++) {
        uint64_t counter = group * PHILOX_LANES + i;
        c[0][i] = (uint32_t)counter;
        c[1][i] = (uint32_t)(counter >> 32);
        c[2][i] = (uint32_t)site->step;
        c[3][i] = site->rank << 1 | (site->sums & 1);
    }
    philox(c, seed, (uint32_t)(site->step >> 32), PHILOX_LANES);
    memcpy(words, c, sizeof c);
}

#define RANDOM_ROOM (WI_KERNELS_BLOCK_MAX + 2 * PHILOX_GROUP)

/* Words of n elements from `first` on: where they are in `room`. */
static INLINE const uint32_t *random_words(uint32_t seed, const struct weft_codec_site *site, uint64_t first, size_t n,
                                           uint32_t *room)
{
    uint64_t group = first / PHILOX_GROUP, end = (first + n + PHILOX_GROUP - 1) / PHILOX_GROUP;

    for (uint32_t *words = room; group < end; group++, words += PHILOX_GROUP)
        random_group(seed, site, group, words);
    return room + first % PHILOX_GROUP;
}
