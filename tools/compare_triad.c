/* SPDX-License-Identifier: BSD-3-Clause */
/* The traffic bound of weft-compare: what a triad with non-temporal stores reaches when one process per core runs it.
 * a[i] = b[i] + s * c[i] on arrays of the given size: two streams read, one written past the caches. Memory traffic is
 * 3 * bytes per pass, without the read-for-ownership that ordinary stores would add. Prints the bandwidth of one
 * process in bytes per second: the least of all processes, each its best pass. Usage: compare_triad PROCESSES BYTES
 * [SECONDS] */
#define _GNU_SOURCE
#include "bench_rule.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef void (*triad_fn)(float *a, const float *b, const float *c, size_t n);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void triad_avx512(float *a, const float *b, const float *c, size_t n)
{
    __m512 s = _mm512_set1_ps(3.0f);

    for (size_t i = 0; i < n; i += 16)
        _mm512_stream_ps(a + i, _mm512_fmadd_ps(s, _mm512_load_ps(c + i), _mm512_load_ps(b + i)));
    _mm_sfence();
}

__attribute__((target("avx2,fma"))) static void triad_avx2(float *a, const float *b, const float *c, size_t n)
{
    __m256 s = _mm256_set1_ps(3.0f);

    for (size_t i = 0; i < n; i += 8)
        _mm256_stream_ps(a + i, _mm256_fmadd_ps(s, _mm256_load_ps(c + i), _mm256_load_ps(b + i)));
    _mm_sfence();
}

static void triad_sse2(float *a, const float *b, const float *c, size_t n)
{
    __m128 s = _mm_set1_ps(3.0f);

    for (size_t i = 0; i < n; i += 4)
        _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(s, _mm_load_ps(c + i))));
    _mm_sfence();
}
#else
static void triad_plain(float *a, const float *b, const float *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0f * c[i];
}
#endif

static triad_fn choose(const char **name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return *name = "avx512", triad_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return *name = "avx2", triad_avx2;
    return *name = "sse2", triad_sse2;
#else
    return *name = "plain stores", triad_plain;
#endif
}

struct shared {
    int ready;
    double best[256]; /* bytes per second */
};

static void pin(int process)
{
    cpu_set_t allowed, one;
    int seen = 0;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return;
    int wanted = process % CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != wanted)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static int child(struct shared *shared, int process, int processes, size_t bytes, double seconds)
{
    const char *name;
    triad_fn triad = choose(&name);
    size_t n = bytes / sizeof(float);
    float *a = aligned_alloc(64, bytes), *b = aligned_alloc(64, bytes), *c = aligned_alloc(64, bytes);

    if (!a || !b || !c)
        return 1;
    pin(process);
    memset(a, 0, bytes);
    memset(b, 1, bytes);
    memset(c, 1, bytes);
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
    double deadline = bench_now_ns() + 30e9;
    while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) < processes) {
        if (bench_now_ns() > deadline)
            return 1;
        sched_yield();
    }
    for (double start = bench_now_ns(); bench_now_ns() - start < seconds * 1e9;) {
        double pass = bench_now_ns();
        triad(a, b, c, n);
        double rate = 3.0 * (double)bytes / (bench_now_ns() - pass) * 1e9;
        shared->best[process] = rate > shared->best[process] ? rate : shared->best[process];
    }
    return 0;
}

int main(int argc, char **argv)
{
    int processes = argc > 2 ? atoi(argv[1]) : 0, status = 0, failed = 0;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) / 4096 * 4096 : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 0.5, least = 0;
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *name;

    if (processes < 1 || processes > 256 || bytes == 0 || shared == MAP_FAILED) {
        fprintf(stderr, "usage: compare_triad PROCESSES BYTES [SECONDS]\n");
        return 2;
    }
    for (int i = 0; i < processes; i++)
        if (fork() == 0)
            _exit(child(shared, i, processes, bytes, seconds));
    for (int i = 0; i < processes; i++) {
        wait(&status);
        failed |= status;
    }
    for (int i = 0; i < processes; i++)
        least = i == 0 || shared->best[i] < least ? shared->best[i] : least;
    choose(&name);
    printf("%.0f %s\n", least, name);
    return failed != 0;
}
