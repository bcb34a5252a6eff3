/* SPDX-License-Identifier: BSD-3-Clause */
/* Random bits as a function of seed, step, rank and place: Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1,
 * 2, 3, SC 2011). Part of each instruction set's source, behind kernels_blocks.h.
 *
 * Element i has word i % 64 / 16 of counter i / 64 * 16 + i % 16: sixteen counters side by side fill registers. */

#define PHILOX_LANES 16
#define PHILOX_GROUP (4 * PHILOX_LANES) /* elements that share them */

/* Counters, each word of which is in the lower half of a lane; what is in the upper half does not matter, since products are of
 * lower halves. Lanes that are as long as a product need no other order of words in any round. Sets have longer vectors, and
 * MULTIPLY_LOWER where the compiler would not find the instruction. */
#ifndef PHILOX_BYTES
#define PHILOX_BYTES 16
#endif
#define PHILOX_SIDE (PHILOX_BYTES / 8) /* counters in a vector */
typedef uint64_t philox_vector __attribute__((vector_size(PHILOX_BYTES)));
#ifndef MULTIPLY_LOWER
#define MULTIPLY_LOWER(a, b) (((a)&0xffffffffu) * (b))
#endif

static INLINE void philox_round(philox_vector c[4], uint32_t k0, uint32_t k1)
{
    philox_vector zero = {0}, p0 = MULTIPLY_LOWER(c[0], zero + 0xd2511f53u), p1 = MULTIPLY_LOWER(c[2], zero + 0xcd9e8d57u);

    c[0] = p1 >> 32 ^ c[1] ^ k0;
    c[1] = p1;
    c[2] = p0 >> 32 ^ c[3] ^ k1;
    c[3] = p0;
}

/* Two vectors at a time, since each round of one waits for its products. */
static INLINE void philox(philox_vector even[4], philox_vector odd[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        philox_round(even, k0, k1);
        philox_round(odd, k0, k1);
    }
}

/* Words of the elements from `group` * PHILOX_GROUP on, in their order. */
static inline void random_group(uint32_t seed, const struct weft_codec_site *site, uint64_t group, uint32_t *words)
{
    const philox_vector zero = {0};

    for (size_t i = 0; i < PHILOX_LANES; i += 2 * PHILOX_SIDE) {
        philox_vector even[4], odd[4];
        uint64_t counters[PHILOX_SIDE];
        for (size_t k = 0; k < PHILOX_SIDE; k++)
            counters[k] = group * PHILOX_LANES + i + 2 * k;
        memcpy(&even[0], counters, sizeof counters);
        odd[0] = even[0] + 1;
        even[1] = odd[1] = even[0] >> 32; /* even numbers end in 0 */
        even[2] = odd[2] = zero + (uint32_t)site->step;
        even[3] = odd[3] = zero + (site->rank << 1 | (site->sums & 1));
        philox(even, odd, seed, (uint32_t)(site->step >> 32));
        for (size_t w = 0; w < 4; w++) {
            philox_vector both = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? (even[w] & 0xffffffffu) | odd[w] << 32
                                                                            : (odd[w] & 0xffffffffu) | even[w] << 32;
            memcpy(words + w * PHILOX_LANES + i, &both, sizeof both);
        }
    }
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
