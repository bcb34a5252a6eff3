/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/zero/disk_common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

const struct wi_disk_extent wt_extents[NEXTENTS] = {
    {100001, 3, {NULL}},           {0, 2, {NULL}},         {4096, 1, {NULL}},  {1, 3, {NULL}},
    {5 * CHUNK + 4095, 1, {NULL}}, {2 * 16384, 3, {NULL}}, {77777, 2, {NULL}},
};

static char folders[2][128];

static void folders_remove(void)
{
    for (int i = 0; i < 2; i++)
        if (folders[i][0])
            rmdir(folders[i]);
}

const char *wt_disk_folder(int memory)
{
    const char *base = memory ? "/dev/shm" : getenv("TMPDIR");

    if (folders[memory][0])
        return folders[memory];
    if (!folders[!memory][0])
        atexit(folders_remove);
    snprintf(folders[memory], sizeof(folders[memory]), "%s/weft-disk-XXXXXX", base ? base : "/var/tmp");
    if (!mkdtemp(folders[memory]))
        snprintf(folders[memory], sizeof(folders[memory]), "/nonexistent");
    chmod(folders[memory], 0755);
    return folders[memory];
}

struct wi_disk_config wt_disk_config(enum wi_disk_kind kind, int memory)
{
    return (struct wi_disk_config){.folder = wt_disk_folder(memory),
                                   .name = "test",
                                   .kind = kind,
                                   .block_bytes = BLOCK,
                                   .depth = 4,
                                   .chunk_bytes = CHUNK,
                                   .timeout_ns = 60000000000ull};
}

/* ---- The model ---- */

void wt_model_make(struct wt_model *model, unsigned seed)
{
    uint32_t x = seed;

    for (size_t e = 0; e < NEXTENTS; e++)
        for (unsigned s = 0; s < wt_extents[e].nstreams; s++) {
            model->bytes[e][s] = malloc(wt_extents[e].stream_bytes + 1);
            for (uint64_t i = 0; i < wt_extents[e].stream_bytes; i++) {
                x = x * 1664525u + 1013904223u;
                model->bytes[e][s][i] = (unsigned char)(x >> 24);
            }
        }
}

void wt_model_free(struct wt_model *model)
{
    for (size_t e = 0; e < NEXTENTS; e++)
        for (unsigned s = 0; s < wt_extents[e].nstreams; s++)
            free(model->bytes[e][s]);
}

weft_status wt_model_put(const struct wt_model *model, struct wi_disk *disk)
{
    weft_status status = WEFT_SUCCESS;

    for (size_t e = 0; e < NEXTENTS; e++)
        for (unsigned s = 0; s < wt_extents[e].nstreams && status == WEFT_SUCCESS; s++)
            status = wi_disk_put(disk, e, s, 0, wt_extents[e].stream_bytes, model->bytes[e][s]);
    return status;
}

int wt_model_differs(const struct wt_model *model, struct wi_disk *disk)
{
    int differ = 0;

    for (size_t e = 0; e < NEXTENTS; e++)
        for (unsigned s = 0; s < wt_extents[e].nstreams; s++) {
            size_t bytes = wt_extents[e].stream_bytes;
            unsigned char *got = malloc(bytes + 1);
            differ +=
                wi_disk_get(disk, e, s, 0, bytes, got) != WEFT_SUCCESS || memcmp(got, model->bytes[e][s], bytes) != 0;
            free(got);
        }
    return differ;
}

static void compute(unsigned char *const *streams, unsigned nstreams, uint64_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        for (unsigned s = 0; s < nstreams; s++)
            streams[s][i] =
                (unsigned char)(streams[s][i] * 3 + streams[(s + 1) % nstreams][i] + (offset + i) % 251 + 1);
}

void wt_model_compute(struct wt_model *model)
{
    for (size_t e = 0; e < NEXTENTS; e++)
        compute(model->bytes[e], wt_extents[e].nstreams, 0, wt_extents[e].stream_bytes);
}

weft_status wt_compute(void *arg, const struct wi_disk_piece *piece)
{
    struct wt_pass *pass = arg;

    if (pass && pass->at++ < pass->done)
        return WEFT_SUCCESS;
    compute((unsigned char *const *)piece->streams, piece->nstreams, piece->offset, piece->bytes);
    if (pass)
        pass->done++;
    return WEFT_SUCCESS;
}

/* ---- Faults ---- */

struct wt_fault wt_fault;
static struct wi_disk_result ended[64], wedged[64];
static unsigned nended, nwedged;
static int broken;

static weft_status fault_start(struct wi_disk *disk)
{
    (void)disk;
    nended = nwedged = 0;
    broken = 0;
    return WEFT_SUCCESS;
}

static int64_t perform(const struct wi_disk *disk, const struct wi_disk_io *io, size_t bytes)
{
    ssize_t n = 0;

    if (io->what == WI_DISK_DO_READ)
        n = pread(disk->fd, io->data, bytes, (off_t)io->offset);
    else
        n = pwrite(disk->fd, io->data, bytes, (off_t)io->offset);
    return n < 0 ? -errno : n;
}

/* Whole pages are moved, as O_DIRECT demands; fewer bytes are told of. */
static int64_t perform_short(const struct wi_disk *disk, const struct wi_disk_io *io)
{
    size_t bytes = (wt_fault.short_bytes + WI_DISK_ALIGN - 1) / WI_DISK_ALIGN * WI_DISK_ALIGN;
    int64_t n = perform(disk, io, disk->direct && bytes < io->bytes ? bytes : io->bytes);

    return n < (int64_t)wt_fault.short_bytes ? n : (int64_t)wt_fault.short_bytes;
}

static void fault_submit(struct wi_disk *disk, unsigned index)
{
    const struct wi_disk_io *io = &disk->ios[index];
    int hit =
        io->what == wt_fault.what && ++wt_fault.seen >= wt_fault.nth && wt_fault.seen < wt_fault.nth + wt_fault.count;
    int64_t result = hit ? wt_fault.result : 0;

    if (hit && result == WT_FAULT_WEDGE) {
        wedged[nwedged++] = (struct wi_disk_result){index, 0};
        return;
    }
    if (hit && result == WT_FAULT_BROKEN) {
        broken = 1;
        return;
    }
    if (hit && result == WT_FAULT_SHORT)
        result = perform_short(disk, io);
    else if (!hit)
        result = perform(disk, io, io->bytes);
    ended[nended++] = (struct wi_disk_result){index, result};
}

/* What is in `wedged` is never there; the wait ends at the deadline. */
static int fault_reap(struct wi_disk *disk, struct wi_disk_result *results, unsigned max, uint64_t deadline_ns)
{
    unsigned n = nended < max ? nended : max;

    (void)disk;
    if (broken)
        return -EBADF;
    for (uint32_t round = 0; !n && deadline_ns && wi_now_ns() < deadline_ns; round++)
        wi_stand_by(round);
    memcpy(results, ended, n * sizeof(*results));
    nended -= n;
    memmove(ended, ended + n, nended * sizeof(*ended));
    return (int)n;
}

static void fault_stop(struct wi_disk *disk)
{
    (void)disk;
}

/* Wedged requests end: canceled. */
void wt_fault_release(void)
{
    for (unsigned i = 0; i < nwedged; i++)
        ended[nended++] = (struct wi_disk_result){wedged[i].io, -ECANCELED};
    nwedged = 0;
}

const struct wi_disk_backend wt_fault_backend = {"faults",   fault_start, fault_submit, NULL,
                                                 fault_reap, NULL,        fault_stop,   NULL};
