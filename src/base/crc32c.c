/* SPDX-License-Identifier: BSD-3-Clause */
/* The instruction takes 8 bytes and has a latency of three cycles, but one can begin in each cycle: three are under way at a time,
 * for three neighbouring blocks. The CRC of one block is then moved past the zeros of the next one's length, which is a linear
 * function of its 32 bits, by four look-ups, and added. (M. Adler, crc32c.c; V. Gopal et al., Fast CRC Computation for iSCSI
 * Polynomial Using CRC32 Instruction, Intel 2011.) Without the instruction: slicing by 8 (M. Kounavis, F. Berry, ISCC 2005). */
#include "base/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

#define POLYNOMIAL 0x82f63b78u /* reflected */
#define LONG_BYTES 8192
#define SHORT_BYTES 256

/* All functions of this type take and return the register, which is the inverted CRC. */
typedef uint32_t (*crc_fn)(uint32_t reg, const unsigned char *data, size_t bytes);

static uint32_t slices[8][256];
static uint32_t shift_long[4][256], shift_short[4][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static crc_fn current;
static const char *current_name;

static inline uint64_t load8(const unsigned char *data)
{
    uint64_t word;

    memcpy(&word, data, 8);
    return le64toh(word);
}

static uint32_t crc_table(uint32_t reg, const unsigned char *data, size_t bytes)
{
    for (; bytes >= 8; bytes -= 8, data += 8) {
        uint64_t word = load8(data) ^ reg;
        reg = 0;
        for (int i = 0; i < 8; i++)
            reg ^= slices[7 - i][word >> (8 * i) & 255];
    }
    for (; bytes; bytes--)
        reg = slices[0][(reg ^ *data++) & 255] ^ reg >> 8;
    return reg;
}

static inline uint32_t shifted(uint32_t table[4][256], uint32_t reg)
{
    return table[0][reg & 255] ^ table[1][reg >> 8 & 255] ^ table[2][reg >> 16 & 255] ^ table[3][reg >> 24];
}

#if defined(__x86_64__)
#define HARDWARE_NAME "sse4.2"
#define HARDWARE_TARGET __attribute__((target("sse4.2")))
#define STEP8(reg, word) ((reg) = _mm_crc32_u64((reg), (word)))
#define STEP1(reg, byte) ((reg) = _mm_crc32_u8((uint32_t)(reg), (byte)))
static int hardware_here(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__aarch64__)
#define HARDWARE_NAME "armv8"
#define HARDWARE_TARGET
#define STEP8(reg, word) __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(reg) : "r"(word))
#define STEP1(reg, byte) __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(reg) : "r"((uint32_t)(byte)))
static int hardware_here(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#endif

#ifdef HARDWARE_NAME
/* As many times three blocks of `block` bytes as there are; says in *used how many bytes. */
HARDWARE_TARGET static inline uint64_t crc_triples(uint64_t reg, const unsigned char *data, size_t bytes, size_t block,
                                                   uint32_t table[4][256], size_t *used)
{
    size_t done = 0;

    for (; bytes - done >= 3 * block; done += 3 * block) {
        const unsigned char *at = data + done;
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < block; i += 8) {
            STEP8(reg, load8(at + i));
            STEP8(second, load8(at + block + i));
            STEP8(third, load8(at + 2 * block + i));
        }
        reg = shifted(table, (uint32_t)reg) ^ second;
        reg = shifted(table, (uint32_t)reg) ^ third;
    }
    *used = done;
    return reg;
}

HARDWARE_TARGET static uint32_t crc_hardware(uint32_t start, const unsigned char *data, size_t bytes)
{
    uint64_t reg = start;
    size_t used;

    reg = crc_triples(reg, data, bytes, LONG_BYTES, shift_long, &used);
    data += used;
    bytes -= used;
    reg = crc_triples(reg, data, bytes, SHORT_BYTES, shift_short, &used);
    data += used;
    bytes -= used;
    for (; bytes >= 8; bytes -= 8, data += 8)
        STEP8(reg, load8(data));
    for (; bytes; bytes--, data++)
        STEP1(reg, *data);
    return (uint32_t)reg;
}
#endif

/* What the register becomes when `bytes` zeros pass it: computed for each bit, summed for each value of each byte. */
static void shift_table(uint32_t table[4][256], size_t bytes)
{
    static const unsigned char zeros[SHORT_BYTES];
    uint32_t bits[32];

    for (int b = 0; b < 32; b++) {
        bits[b] = 1u << b;
        for (size_t done = 0; done < bytes; done += sizeof(zeros))
            bits[b] = crc_table(bits[b], zeros, sizeof(zeros));
    }
    for (int byte = 0; byte < 4; byte++)
        for (unsigned value = 0; value < 256; value++) {
            table[byte][value] = 0;
            for (int b = 0; b < 8; b++)
                table[byte][value] ^= value >> b & 1 ? bits[8 * byte + b] : 0;
        }
}

static void choose_best(void)
{
    crc_fn best = crc_table;
    const char *name = "table";

#ifdef HARDWARE_NAME
    if (hardware_here()) {
        best = crc_hardware;
        name = HARDWARE_NAME;
    }
#endif
    __atomic_store_n(&current_name, name, __ATOMIC_RELAXED);
    __atomic_store_n(&current, best, __ATOMIC_RELAXED);
}

static void make_tables(void)
{
    for (unsigned value = 0; value < 256; value++) {
        uint32_t reg = value;
        for (int b = 0; b < 8; b++)
            reg = reg & 1 ? reg >> 1 ^ POLYNOMIAL : reg >> 1;
        slices[0][value] = reg;
    }
    for (int i = 1; i < 8; i++)
        for (unsigned value = 0; value < 256; value++)
            slices[i][value] = slices[0][slices[i - 1][value] & 255] ^ slices[i - 1][value] >> 8;
    shift_table(shift_long, LONG_BYTES);
    shift_table(shift_short, SHORT_BYTES);
    choose_best();
}

uint32_t wi_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    pthread_once(&tables_once, make_tables);
    return ~__atomic_load_n(&current, __ATOMIC_RELAXED)(~crc, data, bytes);
}

const char *wi_crc32c_name(void)
{
    pthread_once(&tables_once, make_tables);
    return __atomic_load_n(&current_name, __ATOMIC_RELAXED);
}

int wi_crc32c_force(const char *name)
{
    pthread_once(&tables_once, make_tables);
    choose_best();
    if (!name || strcmp(name, wi_crc32c_name()) == 0)
        return 0;
    if (strcmp(name, "table") != 0)
        return -1;
    __atomic_store_n(&current_name, "table", __ATOMIC_RELAXED);
    __atomic_store_n(&current, crc_table, __ATOMIC_RELAXED);
    return 0;
}
