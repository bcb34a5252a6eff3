/* More than most programs ask for: vectors beyond 2^31 elements and 4 GiB, ten thousand communicators.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "../unit/unit.h"

/* Elements and bytes that fit in no 32 bits, and no multiple of anything. */
#define ELEMS ((1ull << 32) + 1237)
#define NEEDED_MIB 11000

static unsigned char part(uint64_t i, int rank)
{
    return (unsigned char)((i * 0x9e3779b97f4a7c15ull) >> 57) +
           (unsigned char)(rank * 3); /* below 131: two add up to a byte */
}

static long memory_available_mib(void)
{
    FILE *in = fopen("/proc/meminfo", "r");
    char line[128];
    long kib = 0;

    while (in && fgets(line, sizeof line, in))
        if (sscanf(line, "MemAvailable: %ld", &kib) == 1)
            break;
    if (in)
        fclose(in);
    return kib / 1024;
}

static void all_reduced(int rank, int nranks, void *arg)
{
    unsigned char *data = malloc(ELEMS);
    uint64_t wrong = 0, first = 0;
    struct ft_rank f;

    WT_REQUIRE(data != NULL);
    for (uint64_t i = 0; i < ELEMS; i++)
        data[i] = part(i, rank);
    ft_open(&f, arg, 300000, rank, nranks);
    WT_CHECK_OK(weft_all_reduce(f.comm, data, data, ELEMS, WEFT_UINT8, WEFT_SUM, NULL));
    for (uint64_t i = ELEMS; i-- > 0;)
        if (data[i] != (unsigned char)(part(i, 0) + part(i, 1))) {
            wrong++;
            first = i;
        }
    if (wrong)
        wt_fail(__FILE__, __LINE__, "%llu of %llu elements are wrong, the first is #%llu", (unsigned long long)wrong,
                ELEMS, (unsigned long long)first);
    ft_close(&f);
    free(data);
}

static void over(const char *transport)
{
    long mib = memory_available_mib();

    if (mib < NEEDED_MIB)
        wt_skip("two ranks need %d MiB of memory, %ld are available", NEEDED_MIB, mib);
    else
        CU_ASSERT_EQUAL(wt_run(2, all_reduced, (void *)(uintptr_t)transport, 240000), 0);
}

static void over_shm(void)
{
    over("shm");
}

static void over_tcp(void)
{
    over("tcp");
}

/* ---- Communicators ---- */

enum { COMMS = 10000 };

static void many_comms(int rank, int nranks, void *arg)
{
    static weft_comm *made[COMMS];
    int64_t sum;
    struct ft_rank f;

    ft_open(&f, arg, 60000, rank, nranks);
    for (int i = 0; i < COMMS; i++)
        WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &made[i]));
    for (int i = 0; i < COMMS; i++) {
        int64_t mine = i + rank;
        sum = 0;
        WT_REQUIRE_OK(weft_all_reduce(made[i], &mine, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
        WT_REQUIRE(sum == 2 * i + 1);
    }
    for (int i = 0; i < COMMS; i++)
        WT_REQUIRE_OK(weft_comm_destroy(made[i]));
    ft_close(&f);
}

static void communicators(void)
{
    FILE *in = fopen("/proc/sys/vm/max_map_count", "r");
    long maps = 0;

    if (in && fscanf(in, "%ld", &maps) != 1)
        maps = 0;
    if (in)
        fclose(in);
    if (maps < 5 * COMMS || memory_available_mib() < 4000)
        wt_skip("%d communicators need %d mappings and 4000 MiB; vm.max_map_count is %ld, %ld MiB are available", COMMS,
                5 * COMMS, maps, memory_available_mib());
    else
        CU_ASSERT_EQUAL(wt_run(2, many_comms, (void *)(uintptr_t) "shm", 240000), 0);
}

static const struct wt_case cases[] = {
    {"ten thousand communicators over shared memory", communicators},
    {"2^32 elements and more over shared memory", over_shm},
    {"2^32 elements and more over tcp", over_tcp},
};
WT_UNIT_MAIN("huge", cases)
