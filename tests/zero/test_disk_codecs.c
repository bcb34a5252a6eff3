/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier with streams that are images of codecs in the file: what comes back is what the codec leaves, whatever fails. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft_compress.h>

#include "base/status.h"
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"
#include "tests/zero/disk_common.h"

enum { EXTENTS = 4, STREAMS = 3, MOST = 3 * 4096 * 3 + 17 };

static const size_t elems[EXTENTS] = {30000, 1, 0, MOST}, list[EXTENTS] = {3, 0, 1, 2};
static const char *const lossy[STREAMS] = {NULL, "bf16", "int8:block=256"};
static const char *const lossless[STREAMS] = {"lossless", "lossless", NULL};
static int there; /* the codec lossless */
static float model[EXTENTS][STREAMS][MOST];

static int skipped(void)
{
    if (!there)
        wt_skip("there is no plugin lossless: it was built without libzstd");
    return !there;
}

static struct wi_disk *make(const char *const *codecs, struct wi_disk_config config)
{
    struct wi_disk_extent extents[EXTENTS];
    struct wi_disk *disk = NULL;

    for (size_t e = 0; e < EXTENTS; e++) {
        extents[e] = (struct wi_disk_extent){.stream_bytes = 4 * elems[e], .nstreams = STREAMS};
        memcpy(extents[e].codecs, codecs, sizeof extents[e].codecs[0] * STREAMS);
    }
    if (wi_disk_create(&config, extents, EXTENTS, &disk) != WEFT_SUCCESS)
        printf("# %s\n", wi_fail_text());
    CU_ASSERT_PTR_NOT_NULL_FATAL(disk);
    return disk;
}

/* What the file has of a stream of the model, piece by piece. */
static void model_round(const struct wi_disk *disk, const char *codec, size_t e, unsigned s)
{
    static unsigned char image[8 * MOST + 4096];
    size_t at = 0, bytes = 0;

    for (size_t c = 0; codec && c < wi_disk_chunks(disk, e); c++) {
        size_t n = wi_disk_piece_bytes(disk, e, c) / 4;

        CU_ASSERT_EQUAL_FATAL(weft_codec_encode(codec, WEFT_FLOAT32, model[e][s] + at, NULL, n, image, sizeof image),
                              WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(weft_codec_image_bytes(codec, image, n, &bytes), WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(weft_codec_decode(codec, image, bytes, WEFT_FLOAT32, model[e][s] + at, n), WEFT_SUCCESS);
        at += n;
    }
}

static void model_put(struct wi_disk *disk, const char *const *codecs)
{
    for (size_t e = 0; e < EXTENTS; e++)
        for (unsigned s = 0; s < STREAMS; s++) {
            for (size_t i = 0; i < elems[e]; i++)
                model[e][s][i] = (float)((i * 2654435761u + s) % 1000003) / 1000003 - .5f * (float)s;
            CU_ASSERT_EQUAL(wi_disk_put(disk, e, s, 0, 4 * elems[e], model[e][s]), WEFT_SUCCESS);
            model_round(disk, codecs[s], e, s);
        }
}

static int model_differs(struct wi_disk *disk)
{
    static float got[MOST];
    int differ = 0;

    for (size_t e = 0; e < EXTENTS; e++)
        for (unsigned s = 0; s < STREAMS; s++)
            differ += wi_disk_get(disk, e, s, 0, 4 * elems[e], got) != WEFT_SUCCESS ||
                      memcmp(got, model[e][s], 4 * elems[e]) != 0;
    return differ;
}

static void change(float *const *streams, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        streams[0][i] = .5f * streams[0][i] + .25f * streams[1][i] + (float)((first + i) % 97);
        streams[1][i] = .5f * streams[1][i] - .25f * streams[2][i];
        streams[2][i] = .5f * streams[2][i] + .125f * streams[0][i];
    }
}

static void model_change(const struct wi_disk *disk, const char *const *codecs)
{
    for (size_t e = 0; e < EXTENTS; e++) {
        change((float *[STREAMS]){model[e][0], model[e][1], model[e][2]}, 0, elems[e]);
        for (unsigned s = 0; s < STREAMS; s++)
            model_round(disk, codecs[s], e, s);
    }
}

static weft_status compute(void *arg, const struct wi_disk_piece *piece)
{
    struct wt_pass *pass = arg;

    if (pass->at++ < pass->done)
        return WEFT_SUCCESS;
    change((float *const *)piece->streams, piece->offset / 4, piece->bytes / 4);
    pass->done++;
    return WEFT_SUCCESS;
}

static weft_status stream(struct wi_disk *disk, struct wt_pass *pass)
{
    pass->at = 0;
    return wi_disk_stream(disk, list, EXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute, pass, NULL);
}

/* ---- What comes back ---- */

struct unit {
    void (*work)(void *arg, size_t unit);
    void *arg;
    size_t number;
};

static void *in_thread(void *arg)
{
    const struct unit *unit = arg;

    unit->work(unit->arg, unit->number);
    return NULL;
}

/* Each unit in a thread of its own. arg: counts calls. */
static void by_threads(void *arg, void (*work)(void *work_arg, size_t unit), void *work_arg, size_t n)
{
    struct unit units[STREAMS];
    pthread_t threads[STREAMS];

    ++*(int *)arg;
    for (size_t i = 0; i < n; i++) {
        units[i] = (struct unit){work, work_arg, i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, in_thread, &units[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void passes(const char *const *codecs, enum wi_disk_kind kind, int shared)
{
    int calls = 0;
    struct wi_disk_config config = wt_disk_config(kind, 0);
    struct wi_disk_stats before, stats;

    config.chunk_bytes = 4 * CHUNK; /* of a few pages nothing may be left out */
    config.share = shared ? by_threads : NULL;
    config.share_arg = &calls;
    struct wi_disk *disk = make(codecs, config);

    model_put(disk, codecs);
    CU_ASSERT_EQUAL(model_differs(disk), 0);
    wi_disk_get_stats(disk, &before);
    for (int i = 0; i < 3; i++) {
        struct wt_pass pass = {0, 0};

        CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
        model_change(disk, codecs);
    }
    wi_disk_get_stats(disk, &stats);
    CU_ASSERT_EQUAL(model_differs(disk), 0);
    uint64_t moved = stats.bytes_read + stats.bytes_written - before.bytes_read - before.bytes_written;

    CU_ASSERT(stats.code_ns > before.code_ns);
    CU_ASSERT((calls > 0) == shared);
    /* Of three streams one is as it is, one has half, and one a quarter; pages are not divided. */
    uint64_t raw = stats.bytes_raw - before.bytes_raw;

    CU_ASSERT(codecs == lossy ? moved * 10 > raw * 5 && moved * 10 < raw * 7 : moved < raw);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

static void rounded(void)
{
    passes(lossy, WI_DISK_AUTO, 0);
    passes(lossy, WI_DISK_THREADS, 1);
}

static void come_back(void)
{
    if (skipped())
        return;
    passes(lossless, WI_DISK_AUTO, 1);
    passes(lossless, WI_DISK_THREADS, 0);
}

/* Any elements, anywhere: what an image does not lose is kept. */
static void spans(void)
{
    float more[100], got[100];

    if (skipped())
        return;
    struct wi_disk *disk = make(lossless, wt_disk_config(WI_DISK_AUTO, 0));

    model_put(disk, lossless);
    for (size_t i = 0; i < 60; i++) {
        size_t first = i * 617 % (MOST - 100), n = 1 + i * 37 % 100;

        for (size_t k = 0; k < n; k++)
            model[3][1][first + k] = more[k] = (float)(i * 1000 + k);
        CU_ASSERT_EQUAL(wi_disk_put(disk, 3, 1, 4 * first, 4 * n, more), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_disk_get(disk, 3, 1, 4 * first, 4 * n, got), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(memcmp(got, more, 4 * n), 0);
    }
    CU_ASSERT_EQUAL(model_differs(disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    disk = make(lossy, wt_disk_config(WI_DISK_AUTO, 0)); /* what was never written is 0 */
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 2, 0, 4, got), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 0, 2, 4, 4, &(float){127}), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 2, 0, 12, got), WEFT_SUCCESS);
    CU_ASSERT(got[0] == 0 && got[1] == 127 && got[2] == 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

/* ---- What fails ---- */

/* Each request of a pass fails once, or is short: the next call goes on, and the end is the same. */
static void each_fails(const char *const *codecs, enum wi_disk_what what, int64_t result)
{
    int done = 0;

    for (long nth = 1; !done; nth += 5) {
        struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 1);
        struct wt_pass pass = {0, 0};

        memset(&wt_fault, 0, sizeof wt_fault);
        config.backend = &wt_fault_backend;
        struct wi_disk *disk = make(codecs, config);

        model_put(disk, codecs);
        wt_fault = (struct wt_fault){.what = what, .nth = nth, .count = 1, .result = result, .short_bytes = 4096};
        weft_status status = stream(disk, &pass);

        done = wt_fault.seen < nth;
        CU_ASSERT(done || (status != WEFT_SUCCESS) == (result != WT_FAULT_SHORT));
        wt_fault.count = 0;
        if (status != WEFT_SUCCESS)
            CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
        model_change(disk, codecs);
        CU_ASSERT_EQUAL(model_differs(disk), 0);
        CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    }
}

static void fails(void)
{
    if (skipped())
        return;
    for (int what = WI_DISK_DO_READ; what <= WI_DISK_DO_WRITE; what++) {
        each_fails(lossless, what, -EIO);
        each_fails(lossless, what, WT_FAULT_SHORT);
    }
    each_fails((const char *const[STREAMS]){"bf16", NULL, "lossless"}, WI_DISK_DO_WRITE, -ENOSPC);
}

/* While an image cannot be written it is read from memory. */
static void stays(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 1);
    struct wt_pass pass = {0, 0};
    static float before[4096], got[4096];

    if (skipped())
        return;
    memset(&wt_fault, 0, sizeof wt_fault);
    config.backend = &wt_fault_backend;
    struct wi_disk *disk = make(lossless, config);

    model_put(disk, lossless);
    memcpy(before, model[3][1], sizeof before);
    wt_fault = (struct wt_fault){.what = WI_DISK_DO_WRITE, .nth = 1, .count = 1000000, .result = -ENOSPC};
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ENOSPC);
    model_change(disk, lossless);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 3, 1, 0, sizeof got, got), WEFT_SUCCESS);
    CU_ASSERT(memcmp(got, before, sizeof got) != 0 && memcmp(got, model[3][1], sizeof got) == 0);
    wt_fault.count = 0;
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(model_differs(disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

static void flipped(void)
{
    size_t length = 0;
    char path[64];
    unsigned char byte;

    if (skipped())
        return;
    struct wi_disk *disk = make(lossless, wt_disk_config(WI_DISK_AUTO, 0));

    model_put(disk, lossless);
    snprintf(path, sizeof path, "/proc/self/fd/%d", disk->fd);
    int fd = open(path, O_RDWR);

    /* The last byte of the image of chunk 1 of stream 1. */
    length = disk->lengths[wi_disk_part(disk, 3, 1, 1)];
    CU_ASSERT(length > 0 && length < 4 * 4096);
    off_t at = (off_t)(wi_disk_chunk_offset(disk, 3, 1) + wi_disk_stream_offset(disk, 3, 1, 0, 1) + length - 1);

    CU_ASSERT_EQUAL(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
    CU_ASSERT_EQUAL(fsync(fd), 0);
    close(fd);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 3, 1, 4 * 4096, 4, &byte), WEFT_ESYS);
    CU_ASSERT(strstr(wi_fail_text(), "CRC32C is ") && strstr(wi_fail_text(), "extent 3, stream 1"));
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

static void refused(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk_extent extent = {6, 1, {"bf16"}};
    struct wi_disk *disk = NULL;
    struct wi_disk_op *op;
    void *buffer;

    CU_ASSERT_EQUAL(wi_disk_create(&config, &extent, 1, &disk), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "no fp32 numbers") != NULL);
    extent.stream_bytes = 8;
    extent.codecs[0] = "int7";
    CU_ASSERT_EQUAL(wi_disk_create(&config, &extent, 1, &disk), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "int7") != NULL);
    extent.codecs[0] = "bf16";
    config.slots = 64;
    extent.nstreams = 2;
    CU_ASSERT_EQUAL(wi_disk_create(&config, &extent, 1, &disk), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "slots 64 of 2 streams") != NULL);
    CU_ASSERT(disk == NULL);
    disk = make(lossy, wt_disk_config(WI_DISK_AUTO, 0));
    CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, CHUNK, &buffer), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_write(disk, 0, 0, 1, buffer, &op), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "have codecs") != NULL);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

/* Extents in front of the last one may have codecs: the table of their lengths does not grow. */
static void fixed(void)
{
    struct wi_disk_extent extents[2] = {{.stream_bytes = 8192, .nstreams = 1, .codecs = {"bf16"}},
                                        {.stream_bytes = 8192, .nstreams = 1}};
    struct wi_disk_config config = {.name = "fixed", .folder = wt_temp_dir(), .chunk_bytes = 4096};
    struct wi_disk *disk = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_disk_create(&config, extents, 2, &disk), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_grow(disk, 1), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "an extent has codecs"));
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

static const struct wt_case cases[] = {
    {"what is rounded", rounded},
    {"what comes back", come_back},
    {"spans", spans},
    {"each request fails", fails},
    {"writes fail", stays},
    {"a bit flips", flipped},
    {"a file of codecs does not grow", fixed},
    {"what is refused", refused},
};

/* Codec lossless is a plugin, which a context loads. */
int main(int argc, char **argv)
{
    static const char *const settings[] = {"TRANSPORTS=inproc", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;
    size_t bytes;

    setenv("WEFT_PLUGIN_PATH", wt_plugin_dir("lossless"), 1);
    config.settings = settings;
    if (weft_context_create(&config, &context) != WEFT_SUCCESS)
        printf("Bail out! %s\n", weft_thread_error());
    there = weft_codec_bytes("lossless", 1, &bytes) == WEFT_SUCCESS;
    int failed = !context || wt_unit_main("disk: codecs", cases, sizeof cases / sizeof *cases, argc, argv);

    weft_context_destroy(context);
    return failed;
}
