/* verbs_ranks.c: ranks that sum until something happens, for tests/multi/verbs_inside.sh. The program sees weft.h only.
 *     verbs_ranks SECONDS BYTES [DIES_AFTER_MS FILE]
 * Rank 0 says after which round the time is up. The last rank kills itself after DIES_AFTER_MS and writes the time to FILE
 * before; the others say after how many milliseconds they were told, and what.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void die(const char *path)
{
    FILE *f = fopen(path, "w");

    if (f) {
        fprintf(f, "%.3f\n", now_ms());
        fclose(f);
    }
    raise(SIGKILL);
}

static double died_at(const char *path)
{
    FILE *f = fopen(path, "r");
    double at = 0;

    if (f && fscanf(f, "%lf", &at) != 1)
        at = 0;
    if (f)
        fclose(f);
    return at;
}

/* The same address in every round, and another mapping there: a registration of the round before would be of other pages. */
static float *fresh(void *at, size_t bytes)
{
    void *map = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    return map == MAP_FAILED ? NULL : map;
}

static size_t wrong(const float *sum, size_t count, int nranks, int round)
{
    size_t n = 0;

    for (size_t i = 1; i < count; i++)
        n += sum[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (round % 64)) + (float)(nranks * (int)(i % 32));
    return n;
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_comm *comm;
    int rank, nranks, round = 0, more = 1;
    size_t bad = 0, bytes = argc > 2 ? (size_t)atol(argv[2]) : 4096, count = bytes / sizeof(float);
    double began = now_ms(), until = began + 1e3 * (argc > 1 ? atof(argv[1]) : 1);
    double dies = argc > 4 ? began + atof(argv[3]) : 0;
    float *mine = fresh(NULL, bytes), *sum = fresh(NULL, bytes);
    weft_status st = WEFT_SUCCESS;

    if (!mine || !sum)
        return 2;
    if (weft_context_create(NULL, &context) < 0 || weft_comm_create_env(context, NULL, &comm) < 0)
        return printf("not created: %s\n", weft_thread_error()), 1;
    weft_comm_rank(comm, &rank);
    weft_comm_size(comm, &nranks);
    for (; st >= 0 && more; round++) {
        if (dies > 0 && rank == nranks - 1 && now_ms() > dies)
            die(argv[4]);
        mine = fresh(mine, bytes);
        sum = fresh(sum, bytes);
        if (!mine || !sum)
            return 2;
        mine[0] = rank == 0 && now_ms() > until;
        for (size_t i = 1; i < count; i++)
            mine[i] = (float)(rank + round % 64 + (int)(i % 32));
        st = weft_all_reduce(comm, mine, sum, count, WEFT_FLOAT32, WEFT_SUM, NULL);
        if (st < 0)
            break;
        bad += wrong(sum, count, nranks, round);
        more = sum[0] == 0;
    }
    if (st < 0) {
        printf("rank %d: told %s after %.0f ms: %s\n", rank, weft_status_name(st),
               now_ms() - died_at(argc > 4 ? argv[4] : "/"), weft_thread_error());
        weft_comm_abort(comm, "a peer is gone");
    } else {
        printf("rank %d: %d rounds, %zu wrong\n", rank, round, bad);
    }
    if (weft_comm_destroy(comm) < 0 || weft_context_destroy(context) < 0)
        printf("rank %d: the end: %s\n", rank, weft_thread_error());
    munmap(mine, bytes);
    munmap(sum, bytes);
    return st < 0 || bad != 0;
}
