/* SPDX-License-Identifier: BSD-3-Clause */
/* Spilled bytes: what is put is got again, from the file or from memory where that fails; places are used again; errors lose
 * nothing. */
#include "zero/spill.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/unit/unit.h"
#include "tests/zero/disk_common.h"
#include "zero/spill_runs.h"

#define ITEMS 40

static weft_zero_spill *make_on(const struct wi_disk_backend *backend, int memory, int threads, int buffers)
{
    weft_zero_spill_config config = WEFT_ZERO_SPILL_CONFIG_INIT;
    weft_zero_spill *spill = NULL;

    memset(&wt_fault, 0, sizeof(wt_fault));
    config.folder = wt_disk_folder(memory);
    config.block_bytes = 16 << 10;
    config.threads = threads;
    config.buffers = buffers;
    config.depth = 8;
    CU_ASSERT_EQUAL_FATAL(wi_spill_create(&config, backend, &spill), WEFT_SUCCESS);
    return spill;
}

static weft_zero_spill_stats stats_of(weft_zero_spill *spill)
{
    weft_zero_spill_stats stats = WEFT_ZERO_SPILL_STATS_INIT;

    CU_ASSERT_EQUAL(weft_zero_spill_get_stats(spill, &stats), WEFT_SUCCESS);
    return stats;
}

static size_t bytes_of(int i)
{
    static const size_t some[] = {0, 1, 4096, 65536, 65537, 200000, 300001};

    return some[i % (int)(sizeof(some) / sizeof(some[0]))];
}

static void fill(unsigned char *data, size_t bytes, int i)
{
    for (size_t k = 0; k < bytes; k++)
        data[k] = (unsigned char)(k * 7 + k / 251 + (size_t)i * 31);
}

static uint64_t put(weft_zero_spill *spill, int i)
{
    size_t bytes = bytes_of(i);
    unsigned char *data = malloc(bytes + 1);
    uint64_t id = 0;

    fill(data, bytes, i);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, data, bytes, &id), WEFT_SUCCESS);
    memset(data, 0xee, bytes); /* it is the caller's again */
    free(data);
    return id;
}

static weft_status get(weft_zero_spill *spill, uint64_t id, int i)
{
    size_t bytes = bytes_of(i);
    unsigned char *data = malloc(bytes + 1), *want = malloc(bytes + 1);
    weft_status st = weft_zero_spill_get(spill, id, data, bytes);

    fill(want, bytes, i);
    if (st == WEFT_SUCCESS)
        CU_ASSERT_EQUAL(memcmp(data, want, bytes), 0);
    free(data);
    free(want);
    return st;
}

/* As a training does: forwards, and backwards with each fetched one ahead. */
static void steps(weft_zero_spill *spill, int n)
{
    uint64_t ids[ITEMS];

    for (int step = 0; step < n; step++) {
        for (int i = 0; i < ITEMS; i++)
            ids[i] = put(spill, i);
        for (int i = ITEMS - 1; i >= 0; i--) {
            if (i)
                CU_ASSERT_EQUAL(weft_zero_spill_fetch(spill, ids[i - 1]), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(get(spill, ids[i], i), WEFT_SUCCESS);
            if (i % 3 == 0)
                CU_ASSERT_EQUAL(get(spill, ids[i], i), WEFT_SUCCESS); /* again */
            CU_ASSERT_EQUAL(weft_zero_spill_drop(spill, ids[i]), WEFT_SUCCESS);
        }
    }
}

static void whole(void)
{
    weft_zero_spill_stats first, last;

    for (int way = 0; way < 8; way++) {
        weft_zero_spill *spill = make_on(NULL, way & 1, way & 2, way & 4 ? 3 : 0);
        steps(spill, 1);
        first = stats_of(spill);
        steps(spill, 3);
        last = stats_of(spill);
        CU_ASSERT_EQUAL(last.file_bytes, first.file_bytes); /* places are used again */
        CU_ASSERT_EQUAL(last.items, 0);
        CU_ASSERT_EQUAL(last.item_bytes, 0);
        CU_ASSERT_EQUAL(last.written_bytes, 4 * first.written_bytes);
        CU_ASSERT(last.read_bytes >= first.read_bytes && first.read_bytes > 0);
        CU_ASSERT(last.buffer_bytes <= (way & 4 ? 3 : 4) * (size_t)(5 * WI_SPILL_CHUNK) + 4 * WI_SPILL_CHUNK);
        CU_ASSERT(!(way & 2) || !last.uring);
        CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    }
}

/* In any order, with many alive. */
static void any_order(void)
{
    weft_zero_spill *spill = make_on(NULL, 1, 0, 0);
    uint64_t ids[ITEMS];
    uint32_t x = 5;
    size_t bytes = 0, items = 0;
    int have[ITEMS] = {0};

    for (int round = 0; round < 2000; round++) {
        int i = (int)((x = x * 1664525u + 1013904223u) >> 16) % ITEMS, what = (int)(x >> 8) % 4;
        if (!have[i]) {
            ids[i] = put(spill, i);
            have[i] = 1;
            bytes += bytes_of(i);
            items++;
        } else if (what == 0) {
            CU_ASSERT_EQUAL(weft_zero_spill_drop(spill, ids[i]), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(get(spill, ids[i], i), WEFT_EINVAL);
            CU_ASSERT_EQUAL(weft_zero_spill_drop(spill, ids[i]), WEFT_EINVAL);
            have[i] = 0;
            bytes -= bytes_of(i);
            items--;
        } else if (what == 1) {
            CU_ASSERT_EQUAL(weft_zero_spill_fetch(spill, ids[i]), WEFT_SUCCESS);
        } else {
            CU_ASSERT_EQUAL(get(spill, ids[i], i), WEFT_SUCCESS);
        }
        if (round % 100 == 0) {
            CU_ASSERT_EQUAL(stats_of(spill).item_bytes, bytes);
            CU_ASSERT_EQUAL(stats_of(spill).items, items);
        }
    }
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
}

static void *train(void *spill)
{
    steps(spill, 3);
    return NULL;
}

static void threads_and_children(void)
{
    weft_zero_spill *spill = make_on(NULL, 1, 0, 0);
    pthread_t threads[3];
    uint64_t id;
    int status = -1;

    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, train, spill), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    id = put(spill, 5);
    if (fork() == 0) {
        char byte;
        int refused =
            weft_zero_spill_get(spill, id, &byte, 1) == WEFT_EINVAL && strstr(wi_fail_text(), "forked") != NULL;
        _exit(refused && weft_zero_spill_destroy(spill) == WEFT_SUCCESS ? 0 : 1);
    }
    wait(&status);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(get(spill, id, 5), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
}

/* Every write fails for a while: a put says so, all that was put is there, and goes to the file later. */
static void writes_fail(void)
{
    for (int error = 0; error < 2; error++) {
        weft_zero_spill *spill = make_on(&wt_fault_backend, 1, 0, 0);
        uint64_t ids[ITEMS] = {0}, other;
        char byte = 'x';
        int n = 3;
        weft_status st = WEFT_SUCCESS;
        for (int i = 0; i < n; i++)
            ids[i] = put(spill, i + 2);
        wt_fault =
            (struct wt_fault){.what = WI_DISK_DO_WRITE, .nth = 1, .count = 1000000, .result = error ? -ENOSPC : -EIO};
        while (n < ITEMS && st == WEFT_SUCCESS) {
            size_t bytes = bytes_of(n + 2);
            unsigned char *data = malloc(bytes + 1);
            fill(data, bytes, n + 2);
            st = weft_zero_spill_put(spill, data, bytes, &ids[n]);
            n += st == WEFT_SUCCESS;
            free(data);
        }
        CU_ASSERT_EQUAL(st, error ? WEFT_ENOSPC : WEFT_ESYS);
        CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), error ? "No space left on device" : "Input/output error"));
        CU_ASSERT(n > 3 && n < ITEMS);
        CU_ASSERT_EQUAL(weft_zero_spill_put(spill, &byte, 1, &other), st); /* and again */
        for (int round = 0; round < 2; round++) {
            for (int i = n - 1; i >= 0; i--)
                CU_ASSERT_EQUAL(get(spill, ids[i], i + 2), WEFT_SUCCESS);
            memset(&wt_fault, 0, sizeof(wt_fault));
            CU_ASSERT_EQUAL(weft_zero_spill_put(spill, &byte, 1, &other), WEFT_SUCCESS);
            steps(spill, 1);
        }
        CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    }
}

static void reads_fail(void)
{
    weft_zero_spill *spill = make_on(&wt_fault_backend, 1, 0, 3);
    uint64_t ids[ITEMS];
    struct wi_disk *disk = wi_spill_disk(spill);

    for (int i = 0; i < ITEMS; i++)
        ids[i] = put(spill, i);
    wt_fault = (struct wt_fault){.what = WI_DISK_DO_READ, .nth = 1, .count = 1, .result = -EIO};
    CU_ASSERT_EQUAL(get(spill, ids[6], 6), WEFT_ESYS);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "Input/output error"));
    CU_ASSERT_EQUAL(get(spill, ids[6], 6), WEFT_SUCCESS);
    wt_fault = (struct wt_fault){.what = WI_DISK_DO_READ, .nth = 1, .count = 1, .result = -EIO};
    CU_ASSERT_EQUAL(weft_zero_spill_fetch(spill, ids[6]),
                    WEFT_SUCCESS); /* of a hint nothing is told but where it is wanted */
    CU_ASSERT_EQUAL(get(spill, ids[6], 6), WEFT_ESYS);
    CU_ASSERT_EQUAL(get(spill, ids[6], 6), WEFT_SUCCESS);
    /* A byte of the file changes: of an item that nothing has in memory. */
    memset(&wt_fault, 0, sizeof(wt_fault));
    CU_ASSERT_EQUAL(get(spill, ids[12], 12), WEFT_SUCCESS);
    for (off_t at = 100; at < (off_t)stats_of(spill).file_bytes; at += (off_t)WI_SPILL_CHUNK)
        CU_ASSERT_EQUAL(pwrite(disk->fd, "\xff\xfe\xfd", 3, at), 3);
    CU_ASSERT_EQUAL(get(spill, ids[12], 12), WEFT_ESYS);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "CRC32C"));
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
}

/* The file cannot grow: what is there stays, and what is dropped makes room. */
static void full(void)
{
    weft_zero_spill *spill = make_on(NULL, 1, 0, 0);
    uint64_t ids[4], more = 77;
    char *large = calloc(1, (size_t)64 << 20);
    unsigned char zeros[300001];
    struct rlimit limit;

    for (int i = 0; i < 4; i++)
        ids[i] = put(spill, 6);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = stats_of(spill).file_bytes + 1;
    setrlimit(RLIMIT_FSIZE, &limit);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, large, (size_t)64 << 20, &more), WEFT_ESYS);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "ulimit -f"));
    CU_ASSERT_EQUAL(stats_of(spill).items, 4);
    CU_ASSERT_EQUAL(more, 77);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(get(spill, ids[i], 6), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_drop(spill, ids[1]), WEFT_SUCCESS);
    memset(zeros, 0, sizeof(zeros));
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, zeros, sizeof(zeros), &more), WEFT_SUCCESS);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, large, (size_t)64 << 20, &more), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_get(spill, more, large, (size_t)64 << 20), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    free(large);
}

/* Each allocation fails once. */
static void memory(void)
{
    for (long nth = 1, done = 0; !done; nth++) {
        weft_zero_spill_config config = WEFT_ZERO_SPILL_CONFIG_INIT;
        weft_zero_spill *spill = NULL;
        uint64_t id = 0;
        weft_status st;
        config.folder = wt_disk_folder(1);
        wi_alloc_fail_nth(nth);
        st = weft_zero_spill_create(&config, &spill);
        if (st == WEFT_SUCCESS)
            st = weft_zero_spill_put(spill, "abc", 3, &id);
        done = wi_alloc_fail_nth(0) < nth;
        CU_ASSERT(st == WEFT_SUCCESS || st == WEFT_ENOMEM);
        if (spill && st < 0)
            CU_ASSERT_EQUAL(weft_zero_spill_put(spill, "abc", 3, &id), WEFT_SUCCESS);
        if (spill) {
            char back[3];
            CU_ASSERT_EQUAL(weft_zero_spill_get(spill, id, back, 3), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(memcmp(back, "abc", 3), 0);
        }
        CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    }
}

static void refused(void)
{
    weft_zero_spill_config config = WEFT_ZERO_SPILL_CONFIG_INIT;
    weft_zero_spill *spill = NULL;
    uint64_t id;
    char byte = 0;

    CU_ASSERT_EQUAL(weft_zero_spill_create(NULL, &spill), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, &spill), WEFT_EINVAL);
    config.folder = "/nowhere";
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, &spill), WEFT_ESYS);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "/nowhere"));
    config.folder = wt_disk_folder(1);
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, NULL), WEFT_EINVAL);
    config.buffers = 2;
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, &spill), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "buffers is 2"));
    config.buffers = 0;
    config.depth = -1;
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, &spill), WEFT_EINVAL);
    config.depth = 0;
    config.block_bytes = 5;
    CU_ASSERT_EQUAL(weft_zero_spill_create(&config, &spill), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(spill);
    spill = make_on(NULL, 1, 0, 0);
    CU_ASSERT_EQUAL(weft_zero_spill_put(NULL, &byte, 1, &id), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, NULL, 1, &id), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, &byte, 1, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, &byte, SIZE_MAX, &id), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_get(spill, 0, &byte, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_fetch(spill, 12345), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, &byte, 1, &id), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_get(spill, id, &byte, 2), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_get(spill, id, NULL, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_get_stats(spill, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(NULL), WEFT_SUCCESS);
}

static void runs(void)
{
    struct wi_runs runs = {0};
    size_t first;

    CU_ASSERT_EQUAL_FATAL(wi_runs_reserve(&runs, 3), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_runs_take(&runs, 1, &first), 0);
    wi_runs_give(&runs, 0, 10);
    CU_ASSERT(wi_runs_take(&runs, 3, &first) == 1 && first == 0);
    CU_ASSERT(wi_runs_take(&runs, 3, &first) == 1 && first == 3);
    CU_ASSERT_EQUAL(wi_runs_before(&runs, 10), 4);
    wi_runs_give(&runs, 0, 3);
    CU_ASSERT_EQUAL(runs.n, 2);
    CU_ASSERT(wi_runs_take(&runs, 4, &first) == 1 && first == 6);
    CU_ASSERT_EQUAL(wi_runs_before(&runs, 10), 0);
    wi_runs_give(&runs, 6, 4);
    wi_runs_give(&runs, 3, 3);
    CU_ASSERT(runs.n == 1 && runs.runs[0].first == 0 && runs.runs[0].n == 10);
    wi_free(runs.runs);
}

static void others(void)
{
    static uint64_t memory[512];
    weft_zero_spill *spill = (weft_zero_spill *)(void *)memory;
    uint64_t id;

    CU_ASSERT_EQUAL(weft_zero_spill_put(spill, "x", 1, &id), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "put: not one, or it was destroyed"));
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "destroy: not one, or it was destroyed"));
}

static const struct wt_case cases[] = {
    {"runs", runs},
    {"what is put is got, and places are used again", whole},
    {"in any order", any_order},
    {"threads, and forked children", threads_and_children},
    {"writes that fail lose nothing", writes_fail},
    {"reads that fail, and damage", reads_fail},
    {"a file that cannot grow", full},
    {"every allocation fails", memory},
    {"wrong arguments", refused},
    {"not one", others},
};
WT_UNIT_MAIN("spill", cases)
