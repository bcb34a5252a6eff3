/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/offload.h"

#include <stdio.h>
#include <string.h>
#include <weft/weft_compress.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/place.h"
#include "zero/swap.h"

/* ---- Configuration ---- */

enum { DEPTH = 8, BLOCK_BYTES = 1 << 20 };

/* A page of each stream, at least. Whether weights are a stream of their own is known when there are parameters. */
static weft_status check_buffer(const char *call, const weft_zero_config *config, const struct wi_optim_ops *ops)
{
    int moments = wi_zero_ops_moments(config, ops);
    size_t least = (1 + (size_t)moments) * WI_DISK_ALIGN;
    size_t depth = config->offload_depth ? (size_t)config->offload_depth : DEPTH;
    size_t block = config->offload_block_bytes ? config->offload_block_bytes : BLOCK_BYTES;

    if (config->offload_block_bytes % WI_DISK_ALIGN || config->offload_block_bytes > 1 << 30)
        return wi_fail(WEFT_EINVAL, "zero: %s: offload_block_bytes is %zu, no multiple of %d up to 1 GiB", call,
                       config->offload_block_bytes, WI_DISK_ALIGN);
    if (config->offload_buffer_bytes % WI_DISK_ALIGN || config->offload_buffer_bytes > (size_t)1 << 40)
        return wi_fail(WEFT_EINVAL, "zero: %s: offload_buffer_bytes is %zu, no multiple of %d up to 1 TiB", call,
                       config->offload_buffer_bytes, WI_DISK_ALIGN);
    if (config->offload_buffer_bytes && config->offload_buffer_bytes < least)
        return wi_fail(WEFT_EINVAL,
                       "zero: %s: offload_buffer_bytes is %zu; %s with weights and %d moments needs at least %zu", call,
                       config->offload_buffer_bytes, wi_optim_name(ops->kind), moments, least);
    if (!config->offload_buffer_bytes && depth * block < least)
        return wi_fail(WEFT_EINVAL,
                       "zero: %s: offload_buffer_bytes is 0, and offload_depth x offload_block_bytes is %zu; %s "
                       "with weights and %d moments needs at least %zu",
                       call, depth * block, wi_optim_name(ops->kind), moments, least);
    return WEFT_SUCCESS;
}

const char *wi_zero_offload_codec(const weft_zero_config *config, weft_zero_what what)
{
    const char *codec = what == WEFT_ZERO_WEIGHT    ? config->offload_weight_codec
                        : what == WEFT_ZERO_MOMENT1 ? config->offload_moment1_codec
                                                    : config->offload_moment2_codec;

    return codec && *codec && strcmp(codec, "none") ? codec : NULL;
}

static const struct {
    weft_zero_what what;
    const char *field;
} coded[] = {{WEFT_ZERO_WEIGHT, "offload_weight_codec"},
             {WEFT_ZERO_MOMENT1, "offload_moment1_codec"},
             {WEFT_ZERO_MOMENT2, "offload_moment2_codec"}};
enum { CODED = sizeof coded / sizeof *coded };

static int is_codec(const char *codec, const char *name)
{
    return strcspn(codec, ":") == strlen(name) && !strncmp(codec, name, strlen(name));
}

int wi_zero_offload_exact(const weft_zero_config *config)
{
    for (int i = 0; i < CODED; i++) {
        const char *codec = wi_zero_offload_codec(config, coded[i].what);

        if (codec && !is_codec(codec, "lossless"))
            return 0;
    }
    return 1;
}

/* Of which the root divides. */
static int is_squares(const struct wi_optim_ops *ops, weft_zero_what what)
{
    return (what == WEFT_ZERO_MOMENT1 && ops->squares & 1) || (what == WEFT_ZERO_MOMENT2 && ops->squares & 2);
}

static weft_status check_codecs(const weft_zero_config *config)
{
    size_t bytes;

    for (int i = 0; i < CODED; i++) {
        const char *codec = wi_zero_offload_codec(config, coded[i].what);

        if (!codec)
            continue;
        if (!config->offload_folder)
            return wi_fail(WEFT_EINVAL, "zero: create: %s is set, and offload_folder is not", coded[i].field);
        if (weft_codec_bytes(codec, 1, &bytes) < 0)
            return wi_fail(WEFT_EINVAL, "zero: create: %s: %s", coded[i].field, weft_thread_error());
    }
    if (config->offload_memory_bytes && !config->offload_folder)
        return wi_fail(WEFT_EINVAL, "zero: create: offload_memory_bytes is set, and offload_folder is not");
    if (config->offload_memory_bytes && !wi_zero_offload_exact(config))
        return wi_fail(WEFT_EINVAL,
                       "zero: create: offload_memory_bytes is set, and a codec of the file loses something: "
                       "what is in memory does not, and results would depend on when it moved");
    return WEFT_SUCCESS;
}

weft_status wi_zero_offload_check(const weft_zero_config *config)
{
    if (config->offload_params && (config->stage < 3 || !config->offload_folder || config->shard_ranks))
        return wi_fail(WEFT_EINVAL, "zero: create: offload_params is set, and %s",
                       config->stage < 3 ? "stage is not 3"
                       : !config->offload_folder
                           ? "offload_folder is not"
                           : "shard_ranks is, too: gradients in a file are not added up over copies");
    WI_TRY(check_codecs(config));
    return wi_zero_offload_check_optimizer("create", config, wi_optim_find(config->optimizer));
}

weft_status wi_zero_offload_check_optimizer(const char *call, const weft_zero_config *config,
                                            const struct wi_optim_ops *ops)
{
    for (int i = 0; i < CODED; i++) {
        const char *codec = wi_zero_offload_codec(config, coded[i].what);

        if (codec && is_squares(ops, coded[i].what) && !is_codec(codec, "lossless") && !is_codec(codec, "bf16"))
            return wi_fail(WEFT_EINVAL,
                           "zero: %s: %s is \"%s\", of sums of squares of %s: it may make them 0 or negative; "
                           "\"bf16\" and \"lossless\" do not",
                           call, coded[i].field, codec, wi_optim_name(ops->kind));
    }
    return check_buffer(call, config, ops);
}

/* ---- The file ---- */

unsigned wi_zero_streams(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return (unsigned)flat->separate + (unsigned)wi_zero_moments(zero, flat);
}

size_t wi_zero_stream_bytes(const struct wi_zero_flat *flat)
{
    return 4 * flat->updated_elems;
}

/* What a flat would take in a file; 0: nothing of it goes there. */
static double weight_of(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return flat->trained && wi_zero_in_pieces(flat)
               ? (double)wi_zero_streams(zero, flat) * (double)wi_zero_stream_bytes(flat)
               : 0;
}

/* Units that are used last are updated last: what is in memory goes on its way meanwhile. */
weft_status wi_zero_offload_choose(weft_zero *zero)
{
    double all = 0, chosen = 0;

    for (int i = 0; i < zero->nflats; i++) {
        zero->flats[i].extent = -1;
        zero->flats[i].filed = 0;
        all += weight_of(zero, &zero->flats[i]);
    }
    if (!zero->config.offload_folder)
        return WEFT_SUCCESS;
    zero->offload.flats = wi_calloc((size_t)zero->nflats + 1, sizeof *zero->offload.flats);
    if (!zero->offload.flats)
        return wi_fail(WEFT_ENOMEM, "seal: out of memory");
    for (int u = zero->nunits - 1; u >= 0; u--) {
        struct wi_zero_unit *unit = &zero->units[u];

        /* Where parameters are in a file, the rest is, too. */
        if (chosen >= zero->config.offload_ratio * all && (unit->kept || !zero->config.offload_params))
            continue;

        for (int f = unit->first_flat; f < unit->first_flat + unit->nflats; f++) {
            if (weight_of(zero, &zero->flats[f]) == 0)
                continue;
            chosen += weight_of(zero, &zero->flats[f]);
            zero->flats[f].extent = zero->offload.nflats;
            zero->flats[f].filed = 1;
            zero->offload.flats[zero->offload.nflats++] = f;
        }
    }
    return WEFT_SUCCESS;
}

/* Memory of the stream is 0. */
static weft_status clear(void *arg, const struct wi_disk_piece *piece)
{
    (void)arg;
    for (unsigned s = 0; s < piece->nstreams; s++)
        memset(piece->streams[s], 0, piece->bytes);
    return WEFT_SUCCESS;
}

static size_t *all_extents(const weft_zero *zero)
{
    size_t *list = wi_calloc((size_t)zero->offload.nflats + 1, sizeof *list);

    for (int i = 0; list && i < zero->offload.nflats; i++)
        list[i] = (size_t)i;
    if (!list)
        wi_fail(WEFT_ENOMEM, "zero: out of memory");
    return list;
}

struct wi_disk_config wi_zero_offload_config(const weft_zero *zero, const char *name)
{
    const weft_zero_config *config = &zero->config;

    return (struct wi_disk_config){
        .folder = config->offload_folder,
        .name = name,
        .buffered = config->offload_buffered,
        .kind = config->offload_threads ? WI_DISK_THREADS : WI_DISK_AUTO,
        .block_bytes = config->offload_block_bytes,
        .depth = (unsigned)config->offload_depth,
        .chunk_bytes = config->offload_buffer_bytes,
    };
}

struct shared {
    void (*work)(void *arg, size_t unit);
    void *arg;
};

static void work_one(void *arg, void *cursor, size_t unit)
{
    const struct shared *shared = arg;

    (void)cursor;
    shared->work(shared->arg, unit);
}

/* By the optimizer's threads, which have nothing to do meanwhile. */
static void share(void *arg, void (*work)(void *work_arg, size_t unit), void *work_arg, size_t n)
{
    const weft_zero *zero = arg;
    struct shared shared = {work, work_arg};

    wi_optim_pool_run(zero->pool, work_one, &shared, n);
}

weft_status wi_zero_offload_create(weft_zero *zero)
{
    char name[64];
    struct wi_disk_config disk = wi_zero_offload_config(zero, name);

    if (!zero->offload.nflats)
        return WEFT_SUCCESS;
    disk.share = share;
    disk.share_arg = zero;
    snprintf(name, sizeof name, "weft-zero-rank%d", zero->rank);
    struct wi_disk_extent *extents = wi_calloc((size_t)zero->offload.nflats, sizeof *extents);
    size_t *list = all_extents(zero);

    for (int i = 0; extents && i < zero->offload.nflats; i++) {
        const struct wi_zero_flat *flat = &zero->flats[zero->offload.flats[i]];

        extents[i] = (struct wi_disk_extent){.stream_bytes = wi_zero_stream_bytes(flat),
                                             .nstreams = wi_zero_streams(zero, flat)};
        if (flat->separate)
            extents[i].codecs[0] = wi_zero_offload_codec(&zero->config, WEFT_ZERO_WEIGHT);
        for (int m = 0; m < wi_zero_moments(zero, flat); m++)
            extents[i].codecs[flat->separate + m] =
                wi_zero_offload_codec(&zero->config, m ? WEFT_ZERO_MOMENT2 : WEFT_ZERO_MOMENT1);
    }
    weft_status st = extents && list ? wi_disk_create(&disk, extents, (size_t)zero->offload.nflats, &zero->offload.disk)
                                     : wi_fail(WEFT_ENOMEM, "seal: out of memory");

    if (st >= 0)
        st = wi_disk_stream(zero->offload.disk, list, (size_t)zero->offload.nflats, WI_DISK_WRITE, clear, NULL, NULL);
    wi_free(extents);
    wi_free(list);
    return st;
}

void wi_zero_offload_destroy(weft_zero *zero)
{
    wi_disk_destroy(zero->offload.disk);
    wi_free(zero->offload.flats);
}

/* Streams are the weight, if it is not the parameter itself, and the moments. */
static unsigned stream_of(const struct wi_zero_flat *flat, weft_zero_what what)
{
    return what == WEFT_ZERO_WEIGHT ? 0 : (unsigned)flat->separate + (what == WEFT_ZERO_MOMENT2);
}

weft_status wi_zero_offload_get(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at,
                                size_t elems, float *values)
{
    return wi_disk_get(zero->offload.disk, (size_t)flat->extent, stream_of(flat, what), 4 * at, 4 * elems, values);
}

weft_status wi_zero_offload_put(weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at,
                                size_t elems, const float *values)
{
    return wi_disk_put(zero->offload.disk, (size_t)flat->extent, stream_of(flat, what), 4 * at, 4 * elems, values);
}

/* ---- Statistics ---- */

void wi_zero_offload_stats(const weft_zero *zero, weft_zero_stats *stats)
{
    struct wi_disk_stats disk;

    if (!zero->offload.disk)
        return;
    wi_disk_get_stats(zero->offload.disk, &disk);
    stats->disk_bytes = disk.file_bytes;
    stats->disk_buffer_bytes = disk.buffer_bytes;
    stats->disk_read_bytes = disk.bytes_read;
    stats->disk_written_bytes = disk.bytes_written;
    stats->disk_read_wait_ns += disk.read_wait_ns;
    stats->disk_write_wait_ns += disk.write_wait_ns;
    stats->disk_uring = disk.backend && !strcmp(disk.backend, "io_uring");
    stats->disk_direct = disk.direct;
    stats->disk_fixed = disk.fixed;
    stats->disk_raw_bytes = disk.bytes_raw;
    stats->disk_code_ns = disk.code_ns;
}
