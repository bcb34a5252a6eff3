/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the disk tier: what is read and written in a second while extents of three streams are streamed; and of CRC32C.
 * Built with the tests, not run by them; disk_against_fio.sh runs it and fio in turn.
 *
 * bench_disk crc
 * bench_disk FOLDER [mib=1024] [block=1048576] [depth=8] [chunk=BLOCK*DEPTH] [slots=3] [seconds=5] [kind=auto|uring|threads]
 *            [threads=0] [direct=1] [compute=0|1] [quiet=0]   compute=1: each byte is read and written by the function, too */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/crc32c.h"
#include "zero/disk/disk.h"

#define EXTENTS 16

struct options {
    size_t mib, block, depth, chunk, slots, seconds, threads, direct, compute, quiet;
    enum wi_disk_kind kind;
};

static int options_read(struct options *o, int argc, char **argv)
{
    static const char *const names[] = {"mib",     "block",   "depth",  "chunk",   "slots",
                                        "seconds", "threads", "direct", "compute", "quiet"};
    size_t *const values[] = {&o->mib,     &o->block,   &o->depth,  &o->chunk,   &o->slots,
                              &o->seconds, &o->threads, &o->direct, &o->compute, &o->quiet};

    for (int i = 2; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        size_t n = 0;
        if (!equals)
            return -1;
        if (strncmp(argv[i], "kind=", 5) == 0) {
            o->kind = strcmp(equals, "=uring") == 0     ? WI_DISK_URING
                      : strcmp(equals, "=threads") == 0 ? WI_DISK_THREADS
                                                        : WI_DISK_AUTO;
            continue;
        }
        while (n < sizeof(names) / sizeof(names[0]) &&
               (strlen(names[n]) != (size_t)(equals - argv[i]) || strncmp(names[n], argv[i], strlen(names[n])) != 0))
            n++;
        if (n == sizeof(names) / sizeof(names[0]))
            return -1;
        *values[n] = strtoull(equals + 1, NULL, 10);
    }
    return 0;
}

static weft_status compute(void *arg, const struct wi_disk_piece *piece)
{
    const struct options *o = arg;

    for (unsigned s = 0; o->compute && s < piece->nstreams; s++) {
        uint32_t *words = piece->streams[s];
        for (size_t i = 0; i < piece->bytes / sizeof(*words); i++)
            words[i] = words[i] * 3 + 1;
    }
    return WEFT_SUCCESS;
}

/* What storage below cannot compress or leave out. */
static weft_status fill(void *arg, const struct wi_disk_piece *piece)
{
    uint64_t *x = arg;

    for (unsigned s = 0; s < piece->nstreams; s++)
        for (size_t i = 0; i < piece->bytes / sizeof(*x); i++) {
            *x ^= *x << 13;
            *x ^= *x >> 7;
            *x ^= *x << 17;
            ((uint64_t *)piece->streams[s])[i] = *x;
        }
    return WEFT_SUCCESS;
}

static int stream_run(const struct options *o, struct wi_disk *disk)
{
    size_t list[EXTENTS];
    struct wi_disk_stats first, last;
    uint64_t start, ns, random = 88172645463325252ull;
    weft_status status;

    for (size_t e = 0; e < EXTENTS; e++)
        list[e] = e;
    /* The first write of a block makes it a written one for the file system, which costs more. */
    status = wi_disk_stream(disk, list, EXTENTS, WI_DISK_WRITE, fill, &random, NULL);
    sync();
    wi_disk_get_stats(disk, &first);
    start = wi_now_ns();
    while (status == WEFT_SUCCESS && wi_now_ns() - start < o->seconds * 1000000000ull)
        status = wi_disk_stream(disk, list, EXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute, (void *)o, NULL);
    ns = wi_now_ns() - start;
    wi_disk_get_stats(disk, &last);
    if (status != WEFT_SUCCESS) {
        fprintf(stderr, "bench_disk: %s\n", wi_fail_text());
        return 1;
    }
    double bytes = (double)(last.bytes_read - first.bytes_read + last.bytes_written - first.bytes_written);
    if (o->quiet) {
        printf("%.1f\n", bytes * 1e3 / (double)ns);
        return 0;
    }
    printf(
        "%s, %s, buffers %s: %.1f MB/s read and written in %.1f s; waits for reads %.0f %%, for writes %.0f %%, computing %.0f %%, "
        "CRC %.0f %%\n",
        last.backend, last.direct ? "O_DIRECT" : "page cache", last.fixed ? "registered" : "not registered",
        bytes * 1e3 / (double)ns, (double)ns / 1e9,
        100. * (double)(last.read_wait_ns - first.read_wait_ns) / (double)ns,
        100. * (double)(last.write_wait_ns - first.write_wait_ns) / (double)ns,
        100. * (double)(last.compute_ns - first.compute_ns) / (double)ns,
        100. * (double)(last.crc_ns - first.crc_ns) / (double)ns);
    return 0;
}

static int stream_bench(const struct options *o, const char *folder)
{
    struct wi_disk_config config = {.folder = folder,
                                    .name = "bench_disk",
                                    .buffered = !o->direct,
                                    .kind = o->kind,
                                    .block_bytes = o->block,
                                    .depth = (unsigned)o->depth,
                                    .threads = (unsigned)o->threads,
                                    .chunk_bytes = o->chunk,
                                    .slots = (unsigned)o->slots};
    struct wi_disk_extent extents[EXTENTS];
    struct wi_disk *disk;
    int failed;

    for (size_t e = 0; e < EXTENTS; e++)
        extents[e] = (struct wi_disk_extent){(uint64_t)o->mib * 1048576 / EXTENTS / 3 / 4096 * 4096, 3, {NULL}};
    if (wi_disk_create(&config, extents, EXTENTS, &disk) != WEFT_SUCCESS) {
        fprintf(stderr, "bench_disk: %s\n", wi_fail_text());
        return 1;
    }
    failed = stream_run(o, disk);
    wi_disk_destroy(disk);
    return failed;
}

static int crc_bench(void)
{
    static const size_t sizes[] = {4096, 65536, 1 << 20, 8 << 20, 256 << 20};
    static const char *const names[] = {NULL, "table"};
    unsigned char *data = wi_malloc(256 << 20);

    if (!data)
        return 1;
    memset(data, 1, 256 << 20);
    for (int n = 0; n < 2; n++) {
        wi_crc32c_force(names[n]);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            uint64_t best = UINT64_MAX;
            volatile uint32_t crc = 0;
            size_t repeat = ((size_t)256 << 20) / sizes[i];
            for (int round = 0; round < 5; round++) {
                uint64_t start = wi_now_ns();
                for (size_t r = 0; r < repeat; r++)
                    crc = wi_crc32c(crc, data, sizes[i]);
                uint64_t ns = wi_now_ns() - start;
                best = ns < best ? ns : best;
            }
            printf("CRC32C by %s, %9zu bytes: %6.2f GB/s\n", wi_crc32c_name(), sizes[i],
                   (double)(repeat * sizes[i]) / (double)best);
        }
    }
    wi_free(data);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.mib = 1024, .block = 1 << 20, .depth = 8, .slots = 3, .seconds = 5, .direct = 1};

    if (argc == 2 && strcmp(argv[1], "crc") == 0)
        return crc_bench();
    if (argc < 2 || options_read(&o, argc, argv) != 0) {
        fprintf(stderr, "usage: bench_disk crc | bench_disk FOLDER [NAME=NUMBER...], names as in its source\n");
        return 2;
    }
    return stream_bench(&o, argv[1]);
}
