/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier on real files: io_uring and threads, O_DIRECT and not, what is damaged or out of memory. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/zero/disk_cases.h"

/* ---- What should work ---- */

static void shapes(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_THREADS, 1);
    struct wi_disk *disk = make(&config);

    CU_ASSERT_EQUAL(wi_disk_chunks(disk, 0), 7); /* 100001 bytes in pieces of 16384 */
    CU_ASSERT_EQUAL(wi_disk_piece_bytes(disk, 0, 5), 16384);
    CU_ASSERT_EQUAL(wi_disk_piece_bytes(disk, 0, 6), 100001 - 6 * 16384);
    CU_ASSERT_EQUAL(wi_disk_piece_stride(disk, 0, 6), 4096);
    CU_ASSERT_EQUAL(wi_disk_range_bytes(disk, 0, 0, 7), 3 * (6 * 16384 + 4096));
    CU_ASSERT_EQUAL(wi_disk_chunks(disk, 1), 0);
    CU_ASSERT_EQUAL(wi_disk_chunks(disk, 3), 1);
    CU_ASSERT_EQUAL(wi_disk_piece_bytes(disk, 3, 0), 1);
    CU_ASSERT_EQUAL(wi_disk_chunks(disk, 6), 4); /* 24576 */
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_destroy(NULL), WEFT_SUCCESS);
}

static void stream_equals(const struct wi_disk_config *config)
{
    struct wi_disk *disk = make(config);
    struct wi_disk_stats before, stats;
    struct wt_model model;

    if (!disk)
        return;
    wt_model_make(&model, 11);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    wi_disk_get_stats(disk, &before);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(step(disk), WEFT_SUCCESS);
        wt_model_compute(&model);
    }
    wi_disk_get_stats(disk, &stats);
    CU_ASSERT_EQUAL(stats.bytes_read - before.bytes_read, 2 * stats.file_bytes);
    CU_ASSERT_EQUAL(stats.bytes_written - before.bytes_written, 2 * stats.file_bytes);
    CU_ASSERT(stats.compute_ns > 0 && stats.crc_ns > 0);
    CU_ASSERT_STRING_EQUAL(stats.backend, config->kind == WI_DISK_URING ? "io_uring" : "threads");
    CU_ASSERT(!config->buffered || !stats.direct);
    CU_ASSERT_EQUAL(stats.fixed, stats.requests_fixed > before.requests_fixed);
    CU_ASSERT(stats.fixed || stats.fixed_errno || config->kind == WI_DISK_THREADS);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static void streams_of(enum wi_disk_kind kind)
{
    for (int i = 0; i < 4; i++) {
        struct wi_disk_config config = wt_disk_config(kind, i / 2);
        config.buffered = i % 2;
        stream_equals(&config);
        config.slots = 5;
        config.depth = 1;
        stream_equals(&config);
        config.depth = 64;
        config.block_bytes = 4096;
        config.threads = 2;
        stream_equals(&config);
    }
}

static void streams_uring(void)
{
    streams_of(WI_DISK_URING);
}

static void streams_threads(void)
{
    streams_of(WI_DISK_THREADS);
}

static weft_status compute_set(void *arg, const struct wi_disk_piece *piece)
{
    for (unsigned s = 0; s < piece->nstreams; s++)
        memset(piece->streams[s], *(int *)arg + (int)s, piece->bytes);
    return WEFT_SUCCESS;
}

static weft_status compute_count(void *arg, const struct wi_disk_piece *piece)
{
    for (unsigned s = 0; s < piece->nstreams; s++)
        for (size_t i = 0; i < piece->bytes; i++)
            *(uint64_t *)arg += ((unsigned char *)piece->streams[s])[i];
    return WEFT_SUCCESS;
}

/* Only written, then only read; in part; what is not allowed. */
static void streams_one_way(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = make(&config);
    struct wi_disk_stats before, stats;
    uint64_t sum = 0, expected = 0;
    const size_t twice[] = {2, 4, 2}, beyond[] = {0, NEXTENTS};
    int value = 1;

    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ, compute_count, &sum, NULL), WEFT_EINVAL);
    CU_ASSERT(has("never written"));
    wi_disk_get_stats(disk, &before);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_WRITE, compute_set, &value, NULL), WEFT_SUCCESS);
    wi_disk_get_stats(disk, &stats);
    CU_ASSERT_EQUAL(stats.bytes_read, before.bytes_read);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ, compute_count, &sum, NULL), WEFT_SUCCESS);
    wi_disk_get_stats(disk, &before);
    CU_ASSERT_EQUAL(stats.bytes_written, before.bytes_written);
    for (size_t e = 0; e < NEXTENTS; e++)
        expected += wt_extents[e].stream_bytes * wt_extents[e].nstreams * (wt_extents[e].nstreams + 1) / 2;
    CU_ASSERT_EQUAL(sum, expected);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, twice, 3, WI_DISK_READ, compute_count, &sum, NULL), WEFT_EINVAL);
    CU_ASSERT(has("extent 2 is twice"));
    CU_ASSERT_EQUAL(wi_disk_stream(disk, beyond, 2, WI_DISK_READ, compute_count, &sum, NULL), WEFT_EINVAL);
    CU_ASSERT(has("extent 7 of 7"));
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, 1, 0, compute_count, &sum, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, 1, WI_DISK_READ, NULL, NULL, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, NULL, 0, WI_DISK_READ, compute_count, &sum, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

struct beside {
    struct wi_disk *disk;
    struct wt_pass pass;
    int left, calls, fails;
};

static weft_status compute_beside(void *arg, const struct wi_disk_piece *piece)
{
    return wt_compute(&((struct beside *)arg)->pass, piece);
}

static int idle(void *arg)
{
    struct beside *beside = arg;
    char byte;

    CU_ASSERT_EQUAL(wi_disk_get(beside->disk, 4, 0, 0, 1, &byte), WEFT_EBUSY);
    if (beside->calls++ == beside->fails)
        return wi_fail(WEFT_ECANCELED, "idle fails");
    return beside->left-- > 0;
}

/* All that there is to do beside is done, whether the file is quick or not, and what is streamed is as without. A failure ends the
 * stream. */
static void streams_beside(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_THREADS, 0);
    struct wi_disk *disk = make(&config);
    struct beside beside = {.disk = disk, .left = 1000, .fails = -1};
    struct wt_model model;

    wt_model_make(&model, 71);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute_beside, &beside, idle),
                    WEFT_SUCCESS);
    CU_ASSERT_EQUAL(beside.calls, 1001);
    wt_model_compute(&model);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    beside = (struct beside){.disk = disk, .left = 1000, .fails = 5};
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute_beside, &beside, idle),
                    WEFT_ECANCELED);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "idle fails");
    CU_ASSERT_EQUAL(beside.calls, 6);
    beside.pass.at = 0;
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute_beside, &beside, NULL),
                    WEFT_SUCCESS);
    wt_model_compute(&model);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static weft_status compute_calls(void *arg, const struct wi_disk_piece *piece)
{
    struct wi_disk *disk = arg;
    char byte;

    wi_disk_progress(disk);
    CU_ASSERT_EQUAL(wi_disk_get(disk, piece->extent, 0, 0, 1, &byte), WEFT_EBUSY);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, 1, WI_DISK_READ, compute_calls, disk, NULL), WEFT_EBUSY);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_EBUSY);
    return WEFT_SUCCESS;
}

/* Several operations at a time, in any order of waits, on memory that is registered and that is not. */
static void operations(enum wi_disk_kind kind)
{
    struct wi_disk_config config = wt_disk_config(kind, 0);
    struct wi_disk *disk = make(&config);
    struct wi_disk_op *write, *read[2];
    size_t bytes;
    unsigned char *out, *in, *plain;
    void *buffer;

    if (!disk)
        return;
    bytes = wi_disk_range_bytes(disk, 4, 0, wi_disk_chunks(disk, 4));
    CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, bytes, &buffer), WEFT_SUCCESS);
    out = buffer;
    CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, bytes, &buffer), WEFT_SUCCESS);
    in = buffer;
    plain = wi_aligned_alloc(WI_DISK_ALIGN, bytes);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 4096);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 1, in, &read[0]), WEFT_EINVAL);
    CU_ASSERT(has("never written"));
    CU_ASSERT_EQUAL(wi_disk_write(disk, 4, 0, wi_disk_chunks(disk, 4), out, &write), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 2, 1, in, &read[0]), WEFT_EBUSY);
    CU_ASSERT(has("being written"));
    CU_ASSERT_EQUAL(wi_disk_wait(disk, write, wi_deadline_ns(60000000000ull)), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, wi_disk_chunks(disk, 4), in, &read[0]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 1, 3, plain, &read[1]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, read[1], UINT64_MAX), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, read[0], UINT64_MAX), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(memcmp(in, out, wt_extents[4].stream_bytes), 0);
    CU_ASSERT_EQUAL(memcmp(plain, out + CHUNK, 3 * CHUNK), 0);
    /* No buffer that is not aligned, no chunks that are not. */
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 1, in + 512, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 1, NULL, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 6, 1, in, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 0, in, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 1, SIZE_MAX, in, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_read(disk, NEXTENTS, 0, 1, in, &read[0]), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_buffer_get(disk, 0, &buffer), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, all, 1, WI_DISK_READ, compute_calls, disk, NULL), WEFT_SUCCESS);
    wi_disk_buffer_put(disk, in);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS); /* with the other buffer */
    wi_free(plain);
}

static void operations_uring(void)
{
    operations(WI_DISK_URING);
}

static void operations_threads(void)
{
    operations(WI_DISK_THREADS);
}

/* As many as there may be, and one more. */
static void operations_most(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = make(&config);
    struct wi_disk_op *ops[WI_DISK_OPS_MAX + 1];
    void *buffer;

    CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, CHUNK, &buffer), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_write(disk, 4, 0, 1, buffer, &ops[0]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, ops[0], UINT64_MAX), WEFT_SUCCESS);
    for (int i = 0; i < WI_DISK_OPS_MAX; i++)
        CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 1, buffer, &ops[i]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 0, 1, buffer, &ops[WI_DISK_OPS_MAX]), WEFT_EBUSY);
    for (int i = WI_DISK_OPS_MAX - 1; i >= 0; i--)
        CU_ASSERT_EQUAL(wi_disk_wait(disk, ops[i], UINT64_MAX), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

/* Nothing is waited for: the end does it. */
static void destroyed_meanwhile(void)
{
    for (size_t k = 0; k < 2; k++)
        for (int round = 0; round < 5; round++) {
            struct wi_disk_config config = wt_disk_config(kinds[k], 0);
            struct wi_disk *disk = make(&config);
            struct wi_disk_op *op;
            void *buffer;
            if (!disk)
                continue;
            CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, 3 * CHUNK, &buffer), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(wi_disk_write(disk, 4, 0, 3, buffer, &op), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(wi_disk_write(disk, 0, 0, 2, buffer, &op), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
        }
}

static void spans(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = make(&config);
    static unsigned char model[100001], got[100001];

    for (int i = 0; i < 40; i++) {
        size_t offset = (size_t)i * 7919 % 100001, bytes = (size_t)(i + 1) * 50021 % (100001 - offset + 1);
        for (size_t b = 0; b < bytes; b++)
            model[offset + b] = (unsigned char)(i + b);
        CU_ASSERT_EQUAL(wi_disk_put(disk, 0, 1, offset, bytes, model + offset), WEFT_SUCCESS);
        if (i == 0)
            CU_ASSERT_EQUAL(wi_disk_put(disk, 0, 1, bytes, 100001 - bytes, model + bytes), WEFT_SUCCESS);
        memset(got, 0xee, sizeof(got));
        CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 1, 0, sizeof(got), got), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(memcmp(got, model, sizeof(got)), 0);
        CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 1, offset, bytes, got), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(memcmp(got, model + offset, bytes), 0);
    }
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 0, 0, 1, got), WEFT_EINVAL);
    CU_ASSERT(has("never written"));
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 3, 0, 1, got), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 1, 100001, 1, got), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 1, UINT64_MAX, 2, got), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 9, 0, 0, 1, got), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 0, 0, 0, 1, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 0, 0, 5, 1, "x"), WEFT_SUCCESS); /* the rest of the piece is 0 */
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 0, 4, 3, got), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(memcmp(got, "\0x", 3), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

struct beginner {
    struct wi_disk *disk;
    struct wi_disk_op *op;
    void *buffer;
    weft_status status;
};

static void *begin_write(void *arg)
{
    struct beginner *beginner = arg;

    beginner->status = wi_disk_write(beginner->disk, 4, 0, 5, beginner->buffer, &beginner->op);
    return NULL;
}

/* With io_uring, what a thread submitted may end as canceled when the thread ends. */
static void thread_that_ends(void)
{
    for (size_t k = 0; k < 2; k++) {
        struct wi_disk_config config = wt_disk_config(kinds[k], 0);
        struct beginner beginner = {.disk = make(&config)};
        pthread_t thread;
        if (!beginner.disk)
            continue;
        CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(beginner.disk, 5 * CHUNK, &beginner.buffer), WEFT_SUCCESS);
        memset(beginner.buffer, 5, 5 * CHUNK);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, begin_write, &beginner), 0);
        pthread_join(thread, NULL);
        CU_ASSERT_EQUAL_FATAL(beginner.status, WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_disk_wait(beginner.disk, beginner.op, UINT64_MAX), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_disk_read(beginner.disk, 4, 0, 5, beginner.buffer, &beginner.op), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_disk_wait(beginner.disk, beginner.op, UINT64_MAX), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_disk_destroy(beginner.disk), WEFT_SUCCESS);
    }
}

/* ---- The file ---- */

static void files(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = make(&config), *second = NULL;
    struct stat st;

    CU_ASSERT_EQUAL(strncmp(disk->path, config.folder, strlen(config.folder)), 0);
    CU_ASSERT(stat(disk->path, &st) != 0 && errno == ENOENT);
    CU_ASSERT_EQUAL(fstat(disk->fd, &st), 0);
    CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
    CU_ASSERT((uint64_t)st.st_blocks * 512 >= disk->stats.file_bytes);
    CU_ASSERT(fcntl(disk->fd, F_GETFD) & FD_CLOEXEC);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);

    config.folder = "/nonexistent/folder";
    CU_ASSERT_EQUAL(wi_disk_create(&config, wt_extents, NEXTENTS, &second), WEFT_ESYS);
    CU_ASSERT(has("/nonexistent/folder/test.") && has("No such file or directory"));
}

static void refuse(struct wi_disk_config *config, const char *word)
{
    struct wi_disk *disk = NULL;

    CU_ASSERT_EQUAL(wi_disk_create(config, wt_extents, NEXTENTS, &disk), WEFT_EINVAL);
    CU_ASSERT(has(word));
    CU_ASSERT(disk == NULL);
    *config = wt_disk_config(WI_DISK_AUTO, 0);
}

static void configurations(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk_extent extent = {1, 0, {NULL}};
    struct wi_disk *disk = NULL;

    config.folder = NULL;
    refuse(&config, "folder");
    config.name = "a/b";
    refuse(&config, "name");
    config.block_bytes = 1000;
    refuse(&config, "block_bytes 1000");
    config.depth = 5000;
    refuse(&config, "depth 5000");
    config.threads = 5000;
    refuse(&config, "threads 5000");
    config.slots = 2;
    refuse(&config, "slots 2");
    config.chunk_bytes = 100;
    refuse(&config, "chunk_bytes 100");
    config.chunk_bytes = 8192;
    refuse(&config, "too small");
    config.kind = (enum wi_disk_kind)9;
    refuse(&config, "kind 9");
    CU_ASSERT_EQUAL(wi_disk_create(&config, &extent, 1, &disk), WEFT_EINVAL);
    extent = (struct wi_disk_extent){UINT64_MAX, 1, {NULL}};
    CU_ASSERT_EQUAL(wi_disk_create(&config, &extent, 1, &disk), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_create(NULL, &extent, 1, &disk), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_create(&config, NULL, 1, &disk), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_create(&config, NULL, 0, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_create(&config, NULL, 0, &disk), WEFT_SUCCESS); /* nothing to keep */
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    config = (struct wi_disk_config){.folder = wt_disk_folder(0), .name = "defaults"};
    CU_ASSERT_EQUAL(wi_disk_create(&config, wt_extents, NEXTENTS, &disk), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

/* Behind the disk's back, which has the file open with O_DIRECT, perhaps. */
static void flip(const struct wi_disk *disk, off_t offset, int bit)
{
    unsigned char byte;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", disk->fd);
    int fd = open(path, O_RDWR);

    CU_ASSERT_EQUAL(pread(fd, &byte, 1, offset), 1);
    byte ^= (unsigned char)(1 << bit);
    CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, offset), 1);
    CU_ASSERT_EQUAL(fsync(fd), 0);
    close(fd);
}

/* Every flipped bit is found by whoever reads its piece; restored, all is as it was. */
static void bit_flips(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = make(&config);
    struct wt_model model;

    wt_model_make(&model, 21);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    for (int i = 0; i < 12; i++) {
        /* Chunk i / 2 of extent 0, some byte of its streams 0 or 2; of the last one's 1697 bytes, too. */
        unsigned s = i % 2 ? 2 : 0;
        size_t chunk = (size_t)i / 2 + 1, inside = i * 137 % wi_disk_piece_bytes(disk, 0, chunk);
        off_t offset =
            (off_t)(wi_disk_chunk_offset(disk, 0, chunk) + s * wi_disk_piece_stride(disk, 0, chunk) + inside);
        const size_t first = 0;
        unsigned char byte;
        struct wt_pass pass = {0, 0};
        flip(disk, offset, i % 8);
        CU_ASSERT_EQUAL(wi_disk_get(disk, 0, s, chunk * 16384, 1, &byte), WEFT_ESYS);
        CU_ASSERT(has(disk->path) && has("extent 0, stream ") && has("CRC32C is ") && has("should be "));
        CU_ASSERT_EQUAL(wi_disk_stream(disk, &first, 1, WI_DISK_READ, wt_compute, &pass, NULL), WEFT_ESYS);
        CU_ASSERT(has("CRC32C is "));
        CU_ASSERT_EQUAL(pass.done, (int)chunk);
        flip(disk, offset, i % 8);
    }
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

/* ---- Processes, memory ---- */

static struct wi_disk *parents;

static int child_inherits(void)
{
    char byte;

    CHILD_CHECK(wi_disk_get(parents, 2, 0, 0, 1, &byte) == WEFT_EINVAL);
    CHILD_CHECK(has("forked"));
    CHILD_CHECK(step(parents) == WEFT_EINVAL);
    CHILD_CHECK(wi_disk_destroy(parents) == WEFT_SUCCESS);
    CHILD_CHECK(fcntl(parents->fd, F_GETFD) < 0); /* closed already */
    return 0;
}

static void forked(void)
{
    for (size_t k = 0; k < 2; k++) {
        struct wi_disk_config config = wt_disk_config(kinds[k], 0);
        struct wt_model model;
        parents = make(&config);
        if (!parents)
            continue;
        wt_model_make(&model, 61);
        CU_ASSERT_EQUAL(wt_model_put(&model, parents), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(in_child(child_inherits), 0);
        CU_ASSERT_EQUAL(wt_model_differs(&model, parents), 0);
        CU_ASSERT_EQUAL(wi_disk_destroy(parents), WEFT_SUCCESS);
        wt_model_free(&model);
    }
}

/* Every allocation fails once: the call says so, or does without. */
static void allocations(void)
{
    for (size_t k = 0; k < 3; k++) {
        int refused = 0;
        for (long nth = 1;; nth++) {
            struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
            struct wi_disk *disk = NULL;
            weft_status status;
            uint64_t sum = 0;
            char byte = 0;
            const size_t one = 2;
            config.kind = k < 2 ? kinds[k] : WI_DISK_AUTO;
            wi_alloc_fail_nth(nth);
            status = wi_disk_create(&config, wt_extents, NEXTENTS, &disk);
            if (status == WEFT_SUCCESS)
                status = wi_disk_put(disk, 2, 0, 0, 1, "x");
            if (status == WEFT_SUCCESS)
                status = wi_disk_stream(disk, &one, 1, WI_DISK_READ, compute_count, &sum, NULL);
            if (status == WEFT_SUCCESS)
                status = wi_disk_get(disk, 2, 0, 0, 1, &byte);
            CU_ASSERT(status != WEFT_SUCCESS || (byte == 'x' && sum == 'x'));
            CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
            int over = wi_alloc_fail_nth(0) < nth;
            if (status == WEFT_ENOTSUP || over)
                break;
            CU_ASSERT(status == WEFT_SUCCESS || status == WEFT_ENOMEM);
            refused += status == WEFT_ENOMEM;
            CU_ASSERT_FATAL(nth < 1000);
        }
        CU_ASSERT(refused >= 10 || k == 0);
    }
}

static const struct wt_case cases[] = {
    {"shapes", shapes},
    {"streams over io_uring", streams_uring},
    {"streams over threads", streams_threads},
    {"streams of one direction", streams_one_way},
    {"something else beside streams", streams_beside},
    {"operations over io_uring", operations_uring},
    {"operations over threads", operations_threads},
    {"most operations", operations_most},
    {"destroyed meanwhile", destroyed_meanwhile},
    {"spans", spans},
    {"thread that ends", thread_that_ends},
    {"files", files},
    {"configurations", configurations},
    {"bit flips", bit_flips},
    {"forked children", forked},
    {"allocations fail", allocations},
};

WT_UNIT_MAIN("disk", cases)
