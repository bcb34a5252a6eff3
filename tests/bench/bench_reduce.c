/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the reduction kernels next to memcpy. Bytes count every source read and every destination written.
 * Built with the tests, not run by them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reduce.h"

#define BIG ((size_t)64 << 20)
#define MAX_NSRC 17

static unsigned char *buffer[MAX_NSRC + 1];

static struct wi_redop redop_make(unsigned dtype, unsigned op)
{
    return (struct wi_redop){.dtype = (uint8_t)dtype,
                             .op = (uint8_t)op,
                             .divisor = 3,
                             .elem_bytes = (uint32_t)weft_dtype_bytes((weft_dtype)dtype)};
}

static double best_seconds(void (*fn)(void *arg), void *arg, int repeat)
{
    double best = 1e9;

    for (int round = 0; round < 3; round++) {
        uint64_t start = wi_now_ns();

        for (int i = 0; i < repeat; i++)
            fn(arg);
        start = wi_now_ns() - start;
        if ((double)start / repeat < best)
            best = (double)start / repeat;
    }
    return best * 1e-9;
}

struct run {
    struct wi_redop redop;
    int nsrc;
    size_t bytes;
    unsigned flags;
};

static void run_reduce(void *arg)
{
    struct run *run = arg;
    void *dst = buffer[MAX_NSRC];

    wi_reduce(&run->redop, &dst, 1, (const void *const *)buffer, run->nsrc, run->bytes / run->redop.elem_bytes,
              run->flags);
}

static void run_copy(void *arg)
{
    struct run *run = arg;

    wi_copy(buffer[MAX_NSRC], buffer[0], run->bytes, run->flags);
}

static void run_memcpy(void *arg)
{
    memcpy(buffer[MAX_NSRC], buffer[0], ((struct run *)arg)->bytes);
}

static void run_two(void *arg)
{
    struct run *run = arg;

    for (int i = 0; i < 1000; i++) {
        wi_reduce2(&run->redop, buffer[MAX_NSRC], buffer[0], buffer[1], run->bytes, run->flags);
        __asm__ __volatile__("" ::: "memory");
    }
}

static void bench_small(void)
{
    static const size_t elems[] = {1, 2, 3, 4, 8, 15, 16, 17, 31, 64};

    for (unsigned dtype = WEFT_FLOAT32; dtype != WEFT_FLOAT16 + 2u; dtype = WEFT_BFLOAT16) {
        printf("%-9s ns:", weft_dtype_name((weft_dtype)dtype));
        for (size_t i = 0; i < sizeof(elems) / sizeof(elems[0]); i++) {
            struct run run = {redop_make(dtype, WEFT_SUM), 2, elems[i], 0};

            printf("  %zu: %.1f", elems[i], best_seconds(run_two, &run, 300) * 1e6);
        }
        printf("\n");
        if (dtype == WEFT_BFLOAT16)
            break;
    }
}

static void bench_copy(void)
{
    printf("copy GB/s (read + write)   memcpy  wi_copy  wi_copy NT\n");
    for (size_t bytes = 64 << 10; bytes <= BIG; bytes *= 4) {
        struct run run = {redop_make(WEFT_FLOAT32, WEFT_SUM), 1, bytes, 0};
        int repeat = (int)(BIG / bytes) * 2;
        double gb = 2e-9 * (double)bytes;

        printf("%10zu KiB            %8.1f", bytes >> 10, gb / best_seconds(run_memcpy, &run, repeat));
        printf(" %8.1f", gb / best_seconds(run_copy, &run, repeat));
        run.flags = WI_REDUCE_NT;
        printf(" %8.1f\n", gb / best_seconds(run_copy, &run, repeat));
    }
}

static void bench_large(size_t bytes)
{
    static const uint8_t dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT16,
                                     WEFT_INT32,   WEFT_INT64,   WEFT_INT8,     WEFT_FLOAT8E4M3};
    static const uint8_t ops[] = {WEFT_SUM, WEFT_AVG, WEFT_MIN, WEFT_PROD};
    static const int nsrcs[] = {2, 4, 8, 17};

    printf("%zu KiB vectors, GB/s:  nsrc 2    2 NT     4 NT     8 NT    17 NT\n", bytes >> 10);
    for (size_t t = 0; t < sizeof(dtypes); t++) {
        for (size_t o = 0; o < sizeof(ops); o++) {
            struct run run = {redop_make(dtypes[t], ops[o]), 2, bytes, WI_REDUCE_FINAL};
            int repeat = (int)(BIG / bytes);

            printf("%-9s %-5s  %12.1f", weft_dtype_name((weft_dtype)dtypes[t]), weft_op_name(ops[o]),
                   3e-9 * (double)bytes / best_seconds(run_reduce, &run, repeat));
            run.flags |= WI_REDUCE_NT;
            for (int n = 0; n < 4; n++) {
                run.nsrc = nsrcs[n];
                printf(" %8.1f", 1e-9 * (double)bytes * (nsrcs[n] + 1) / best_seconds(run_reduce, &run, repeat));
            }
            printf("\n");
            fflush(stdout);
        }
    }
}

int main(void)
{
    for (int i = 0; i <= MAX_NSRC; i++) {
        if (posix_memalign((void **)&buffer[i], 4096, BIG + 4096 * MAX_NSRC))
            return 1;
        memset(buffer[i], 0, BIG + 4096 * MAX_NSRC);
    }
    printf("instruction set: %s\n", wi_isa_name());
    bench_small();
    bench_copy();
    bench_large((size_t)128 << 10);
    bench_large((size_t)16 << 20);
    return 0;
}
