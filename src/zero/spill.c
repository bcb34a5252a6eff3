/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that are put into a file and got again, on the disk tier. Each item has a run of chunks of the file. Between the caller's
 * memory and the file there are a few buffers: an item has one while it is written, while it is read ahead, and for good if it
 * could not be written. */
#include "zero/spill.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/common/publish.h"
#include "zero/spill_runs.h"

#define BUFFERS_MAX 32
#define BUFFERS_DEFAULT 4
#define DEPTH_DEFAULT 64 /* of requests: whole items are under way while the caller computes and calls nothing */

enum buffer_state {
    BUFFER_FREE,
    BUFFER_WRITING,
    BUFFER_READING,
    BUFFER_READ, /* it was read, and compared */
    BUFFER_HELD, /* it could not be written, and is the only copy */
};

struct buffer {
    enum buffer_state state;
    char *data;
    size_t room;
    struct wi_disk_op *op;
    size_t item;
    uint64_t number; /* they were taken in this order */
};

struct item {
    int used, dropped; /* dropped: its buffer is under way still, and it has its chunks until that has ended */
    uint32_t generation;
    int buffer; /* -1: none */
    size_t bytes, first, nchunks;
    size_t next; /* that is free */
};

#define MAGIC 0x77736c6c69707321u

struct weft_zero_spill {
    uint64_t magic;
    pthread_mutex_t lock;
    pid_t pid; /* who made it */
    uint64_t timeout_ns;
    struct wi_disk *disk;
    size_t nchunks;
    struct item *items;
    size_t nitems, free_item; /* free_item: SIZE_MAX, none */
    struct wi_runs runs;      /* chunks that no item has */
    struct buffer buffers[BUFFERS_MAX];
    int nbuffers;
    uint64_t numbers;
    weft_zero_spill_stats stats;
};

static const struct wi_struct_rule config_rule =
    WI_STRUCT_RULE(weft_zero_spill_config, "WEFT_ZERO_SPILL_CONFIG_INIT", folder);
static const struct wi_struct_rule stats_rule =
    WI_STRUCT_RULE(weft_zero_spill_stats, "WEFT_ZERO_SPILL_STATS_INIT", bytes);

static size_t chunks_of(size_t bytes)
{
    return bytes / WI_SPILL_CHUNK + (bytes % WI_SPILL_CHUNK != 0);
}

/* ---- Room in the file ---- */

/* The file grows if there is no run that is long enough, by no more than what is missing at its end. */
static weft_status room_take(weft_zero_spill *spill, size_t n, size_t *first)
{
    size_t missing;

    if (wi_runs_take(&spill->runs, n, first))
        return WEFT_SUCCESS;
    missing = n - wi_runs_before(&spill->runs, spill->nchunks);
    WI_TRY(wi_disk_grow(spill->disk, missing));
    wi_runs_give(&spill->runs, spill->nchunks, missing);
    spill->nchunks += missing;
    wi_runs_take(&spill->runs, n, first);
    return WEFT_SUCCESS;
}

/* ---- Items ---- */

static weft_status items_grow(weft_zero_spill *spill)
{
    size_t n = spill->nitems ? 2 * spill->nitems : 64;
    struct item *items;

    if (n > UINT32_MAX)
        return wi_fail(WEFT_ENOMEM, "zero: spill: more than %u items", UINT32_MAX);
    items = wi_realloc(spill->items, n * sizeof(*items));
    if (!items)
        return wi_fail(WEFT_ENOMEM, "zero: spill: no memory for a table of %zu items", n);
    spill->items = items;
    for (size_t i = n; i-- > spill->nitems;) {
        items[i] = (struct item){.generation = 1, .buffer = -1, .next = spill->free_item};
        spill->free_item = i;
    }
    spill->nitems = n;
    return WEFT_SUCCESS;
}

static struct item *item_of(weft_zero_spill *spill, uint64_t id)
{
    size_t index = (size_t)(id & UINT32_MAX);
    struct item *item = index < spill->nitems ? &spill->items[index] : NULL;

    return item && item->used && !item->dropped && item->generation == id >> 32 ? item : NULL;
}

static weft_status no_item(const char *call, uint64_t id)
{
    return wi_fail(WEFT_EINVAL, "zero: spill: %s: there is no item %llu, or it was dropped", call,
                   (unsigned long long)id);
}

/* Nothing of it is under way. */
static void item_free(weft_zero_spill *spill, struct item *item)
{
    wi_runs_give(&spill->runs, item->first, item->nchunks);
    item->used = item->dropped = 0;
    item->generation++;
    item->next = spill->free_item;
    spill->free_item = (size_t)(item - spill->items);
}

/* ---- Buffers ---- */

static void buffer_free(weft_zero_spill *spill, struct buffer *buffer)
{
    struct item *item = &spill->items[buffer->item];

    buffer->state = BUFFER_FREE;
    item->buffer = -1;
    if (item->dropped)
        item_free(spill, item);
}

/* Wait for what is under way in it. *failed: why it could not be written or read. The result is another failure, where it has not
 * ended. */
static weft_status buffer_settle(weft_zero_spill *spill, struct buffer *buffer, weft_status *failed)
{
    int writing = buffer->state == BUFFER_WRITING;
    uint64_t begun = wi_now_ns();
    weft_status st;

    *failed = WEFT_SUCCESS;
    if (!writing && buffer->state != BUFFER_READING)
        return WEFT_SUCCESS;
    st = wi_disk_wait(spill->disk, buffer->op, wi_deadline_ns(spill->timeout_ns));
    *(writing ? &spill->stats.put_wait_ns : &spill->stats.get_wait_ns) += wi_now_ns() - begun;
    if (st == WEFT_ETIMEDOUT || (st < 0 && wi_disk_broken(spill->disk)))
        return st;
    *failed = st;
    if (writing && st < 0 && !spill->items[buffer->item].dropped)
        buffer->state = BUFFER_HELD;
    else if (!writing && st >= 0)
        buffer->state = BUFFER_READ;
    else
        buffer_free(spill, buffer);
    if (buffer->state == BUFFER_READ && spill->items[buffer->item].dropped)
        buffer_free(spill, buffer);
    return WEFT_SUCCESS;
}

/* The one that was taken first of those in this state. */
static struct buffer *buffer_oldest(weft_zero_spill *spill, enum buffer_state state)
{
    struct buffer *oldest = NULL;

    for (int i = 0; i < spill->nbuffers; i++) {
        struct buffer *b = &spill->buffers[i];
        if (b->state == state && (!oldest || b->number < oldest->number))
            oldest = b;
    }
    return oldest;
}

static int buffers_in(const weft_zero_spill *spill, enum buffer_state state)
{
    int n = 0;

    for (int i = 0; i < spill->nbuffers; i++)
        n += spill->buffers[i].state == state;
    return n;
}

/* See to writes that have ended, and wait until at most so many buffers have what is not in the file yet. The result is the first
 * failure of a write: its item keeps the buffer. */
static weft_status writes_settle(weft_zero_spill *spill, int most)
{
    weft_status st = WEFT_SUCCESS, failed;
    struct buffer *b;

    wi_disk_progress(spill->disk);
    for (int i = 0; i < spill->nbuffers; i++) {
        b = &spill->buffers[i];
        if (b->state != BUFFER_WRITING || !wi_disk_ended(b->op))
            continue;
        WI_TRY(buffer_settle(spill, b, &failed));
        st = st < 0 ? st : failed;
    }
    while (st >= 0 && buffers_in(spill, BUFFER_WRITING) + buffers_in(spill, BUFFER_HELD) > most &&
           (b = buffer_oldest(spill, BUFFER_WRITING))) {
        WI_TRY(buffer_settle(spill, b, &failed));
        st = failed;
    }
    return st;
}

static weft_status buffer_room(weft_zero_spill *spill, struct buffer *buffer, size_t bytes)
{
    void *data = NULL;

    if (buffer->room >= bytes)
        return WEFT_SUCCESS;
    WI_TRY(wi_disk_buffer_get(spill->disk, bytes, &data));
    if (buffer->data)
        wi_disk_buffer_put(spill->disk, buffer->data);
    buffer->data = data;
    buffer->room = bytes;
    return WEFT_SUCCESS;
}

/* A buffer with so much room. Writes leave one of them alone (writes_settle): that is free, or has what was read ahead, which is
 * read again where it is wanted later. */
static weft_status buffer_take(weft_zero_spill *spill, size_t bytes, struct buffer **taken)
{
    struct buffer *b;
    weft_status failed;

    while (!(b = buffer_oldest(spill, BUFFER_FREE))) {
        b = buffer_oldest(spill, BUFFER_READ);
        if (!b)
            b = buffer_oldest(spill, BUFFER_READING);
        if (!b)
            return wi_fail(WEFT_ESYS, "zero: spill: all %d buffers have what could not be written", spill->nbuffers);
        WI_TRY(buffer_settle(spill, b, &failed));
        if (b->state == BUFFER_READ)
            buffer_free(spill, b);
    }
    WI_TRY(buffer_room(spill, b, bytes));
    b->number = spill->numbers++;
    *taken = b;
    return WEFT_SUCCESS;
}

static weft_status buffer_write(weft_zero_spill *spill, struct buffer *buffer)
{
    const struct item *item = &spill->items[buffer->item];

    WI_TRY(wi_disk_write(spill->disk, 0, item->first, item->nchunks, buffer->data, &buffer->op));
    buffer->state = BUFFER_WRITING;
    return WEFT_SUCCESS;
}

static weft_status buffer_read(weft_zero_spill *spill, struct buffer *buffer, struct item *item)
{
    WI_TRY(wi_disk_read(spill->disk, 0, item->first, item->nchunks, buffer->data, &buffer->op));
    buffer->state = BUFFER_READING;
    buffer->item = (size_t)(item - spill->items);
    item->buffer = (int)(buffer - spill->buffers);
    spill->stats.read_bytes += item->bytes;
    return WEFT_SUCCESS;
}

/* What an earlier call could not write is tried again. */
static weft_status held_write(weft_zero_spill *spill)
{
    struct buffer *b;

    while ((b = buffer_oldest(spill, BUFFER_HELD)))
        WI_TRY(buffer_write(spill, b));
    return WEFT_SUCCESS;
}

/* ---- Calls ---- */

static weft_status enter(weft_zero_spill *spill, const char *call, unsigned *since)
{
    *since = wi_fail_count();
    if (!spill)
        return wi_zero_publish(*since, wi_fail(WEFT_EINVAL, "zero: spill: %s: spill is NULL", call));
    if (spill->magic != MAGIC)
        return wi_zero_publish(*since, wi_fail(WEFT_EINVAL, "zero: spill: %s: not one, or it was destroyed", call));
    if (spill->pid != getpid())
        return wi_zero_publish(*since,
                               wi_fail(WEFT_EINVAL, "zero: spill: %s: it belongs to process %d, which forked this one",
                                       call, (int)spill->pid));
    pthread_mutex_lock(&spill->lock);
    return WEFT_SUCCESS;
}

static weft_status leave(weft_zero_spill *spill, unsigned since, weft_status st)
{
    pthread_mutex_unlock(&spill->lock);
    return wi_zero_publish(since, st);
}

static weft_status put(weft_zero_spill *spill, const void *data, size_t bytes, uint64_t *id)
{
    size_t n = chunks_of(bytes), first;
    struct buffer *b = NULL;
    struct item *item;
    weft_status st;

    if (!id || (bytes && !data) || bytes > SIZE_MAX / 4)
        return wi_fail(WEFT_EINVAL, "zero: spill: put: data or id is NULL, or %zu bytes are too many", bytes);
    if (spill->free_item == SIZE_MAX)
        WI_TRY(items_grow(spill));
    WI_TRY(wi_runs_reserve(&spill->runs, spill->nitems + 1)); /* one before each item, and one behind them */
    WI_TRY(held_write(spill));
    if (bytes) {
        WI_TRY(writes_settle(spill, spill->nbuffers - 2));
        WI_TRY(buffer_take(spill, n * WI_SPILL_CHUNK, &b));
    }
    WI_TRY(room_take(spill, n, &first));
    item = &spill->items[spill->free_item];
    spill->free_item = item->next;
    *item = (struct item){
        .used = 1, .generation = item->generation, .buffer = -1, .bytes = bytes, .first = first, .nchunks = n};
    if (b) {
        memcpy(b->data, data, bytes);
        memset(b->data + bytes, 0, n * WI_SPILL_CHUNK - bytes);
        b->item = (size_t)(item - spill->items);
        st = buffer_write(spill, b);
        if (st < 0) {
            item_free(spill, item);
            return st;
        }
        item->buffer = (int)(b - spill->buffers);
    }
    spill->stats.items++;
    spill->stats.item_bytes += bytes;
    spill->stats.written_bytes += bytes;
    *id = (uint64_t)item->generation << 32 | (uint64_t)(item - spill->items);
    return WEFT_SUCCESS;
}

static weft_status fetch(weft_zero_spill *spill, uint64_t id)
{
    struct item *item = item_of(spill, id);
    struct buffer *b;

    if (!item)
        return no_item("fetch", id);
    if (item->buffer >= 0 || item->bytes == 0)
        return WEFT_SUCCESS;
    (void)writes_settle(spill, spill->nbuffers); /* what has failed the next put writes again, and tells */
    /* It is a hint: weft_zero_spill_get tells what cannot be done. */
    if (buffers_in(spill, BUFFER_FREE) && buffer_take(spill, item->nchunks * WI_SPILL_CHUNK, &b) >= 0)
        (void)buffer_read(spill, b, item);
    return WEFT_SUCCESS;
}

static weft_status get(weft_zero_spill *spill, uint64_t id, void *data, size_t bytes)
{
    struct item *item = item_of(spill, id);
    weft_status failed = WEFT_SUCCESS;
    struct buffer *b;

    if (!item)
        return no_item("get", id);
    if (item->bytes != bytes || (bytes && !data))
        return wi_fail(WEFT_EINVAL, "zero: spill: get: data is NULL, or item %llu has %zu bytes, not %zu",
                       (unsigned long long)id, item->bytes, bytes);
    if (bytes == 0)
        return WEFT_SUCCESS;
    (void)writes_settle(spill, spill->nbuffers);
    if (item->buffer < 0) {
        WI_TRY(buffer_take(spill, item->nchunks * WI_SPILL_CHUNK, &b));
        WI_TRY(buffer_read(spill, b, item));
    }
    b = &spill->buffers[item->buffer];
    if (b->state == BUFFER_READING) {
        WI_TRY(buffer_settle(spill, b, &failed));
        if (failed < 0)
            return failed;
    }
    memcpy(data, b->data, bytes);
    if (b->state == BUFFER_READ)
        buffer_free(spill, b);
    return WEFT_SUCCESS;
}

static weft_status drop(weft_zero_spill *spill, uint64_t id)
{
    struct item *item = item_of(spill, id);
    struct buffer *b;

    if (!item)
        return no_item("drop", id);
    spill->stats.items--;
    spill->stats.item_bytes -= item->bytes;
    b = item->buffer < 0 ? NULL : &spill->buffers[item->buffer];
    item->dropped = 1;
    if (!b)
        item_free(spill, item);
    else if (b->state == BUFFER_READ || b->state == BUFFER_HELD)
        buffer_free(spill, b);
    return WEFT_SUCCESS;
}

static weft_status stats(weft_zero_spill *spill, weft_zero_spill_stats *out)
{
    weft_zero_spill_stats own = spill->stats;
    struct wi_disk_stats disk;

    WI_TRY(wi_struct_check(&stats_rule, "zero: spill: get_stats", out));
    wi_disk_get_stats(spill->disk, &disk);
    own.file_bytes = disk.file_bytes;
    own.buffer_bytes = disk.buffer_bytes;
    own.uring = strcmp(disk.backend, "io_uring") == 0;
    own.direct = disk.direct;
    wi_struct_write(&stats_rule, &own, out);
    return WEFT_SUCCESS;
}

/* ---- Making, end ---- */

struct wi_disk *wi_spill_disk(weft_zero_spill *spill)
{
    return spill->disk;
}

weft_status wi_spill_create(const weft_zero_spill_config *given, const struct wi_disk_backend *backend,
                            weft_zero_spill **spill)
{
    weft_zero_spill_config config = WEFT_ZERO_SPILL_CONFIG_INIT;
    struct wi_disk_extent extent = {.stream_bytes = WI_SPILL_CHUNK, .nstreams = 1};
    struct wi_disk_config disk = {.name = "weft_spill", .chunk_bytes = WI_SPILL_CHUNK, .backend = backend};
    weft_zero_spill *mine;
    weft_status st;

    if (!spill)
        return wi_fail(WEFT_EINVAL, "zero: spill: create: spill is NULL");
    WI_TRY(wi_struct_read(&config_rule, "zero: spill: create", given, &config));
    if (config.buffers && (config.buffers < 3 || config.buffers > BUFFERS_MAX))
        return wi_fail(WEFT_EINVAL, "zero: spill: create: buffers is %d, and must be 0 or from 3 to %d", config.buffers,
                       BUFFERS_MAX);
    if (config.depth < 0)
        return wi_fail(WEFT_EINVAL, "zero: spill: create: depth is %d", config.depth);
    disk.folder = config.folder;
    disk.buffered = config.buffered;
    disk.kind = config.threads ? WI_DISK_THREADS : WI_DISK_AUTO;
    disk.block_bytes = config.block_bytes;
    disk.depth = config.depth ? (unsigned)config.depth : DEPTH_DEFAULT;
    disk.timeout_ns = config.timeout_ns;
    mine = wi_calloc(1, sizeof(*mine));
    if (!mine)
        return wi_fail(WEFT_ENOMEM, "zero: spill: create: no memory");
    st = wi_disk_create(&disk, &extent, 1, &mine->disk);
    if (st < 0) {
        wi_free(mine);
        return st;
    }
    pthread_mutex_init(&mine->lock, NULL);
    mine->magic = MAGIC;
    mine->pid = getpid();
    mine->timeout_ns = config.timeout_ns ? config.timeout_ns : 60000000000ull;
    mine->nbuffers = config.buffers ? config.buffers : BUFFERS_DEFAULT;
    mine->nchunks = 1;
    mine->free_item = SIZE_MAX;
    st = wi_runs_reserve(&mine->runs, 1);
    if (st < 0) {
        wi_disk_destroy(mine->disk);
        wi_free(mine);
        return st;
    }
    wi_runs_give(&mine->runs, 0, 1);
    *spill = mine;
    return WEFT_SUCCESS;
}

weft_status weft_zero_spill_create(const weft_zero_spill_config *config, weft_zero_spill **spill)
{
    unsigned since = wi_fail_count();

    return wi_zero_publish(since, wi_spill_create(config, NULL, spill));
}

weft_status weft_zero_spill_put(weft_zero_spill *spill, const void *data, size_t bytes, uint64_t *id)
{
    unsigned since;
    weft_status st = enter(spill, "put", &since);

    return st < 0 ? st : leave(spill, since, put(spill, data, bytes, id));
}

weft_status weft_zero_spill_fetch(weft_zero_spill *spill, uint64_t id)
{
    unsigned since;
    weft_status st = enter(spill, "fetch", &since);

    return st < 0 ? st : leave(spill, since, fetch(spill, id));
}

weft_status weft_zero_spill_get(weft_zero_spill *spill, uint64_t id, void *data, size_t bytes)
{
    unsigned since;
    weft_status st = enter(spill, "get", &since);

    return st < 0 ? st : leave(spill, since, get(spill, id, data, bytes));
}

weft_status weft_zero_spill_drop(weft_zero_spill *spill, uint64_t id)
{
    unsigned since;
    weft_status st = enter(spill, "drop", &since);

    return st < 0 ? st : leave(spill, since, drop(spill, id));
}

weft_status weft_zero_spill_get_stats(weft_zero_spill *spill, weft_zero_spill_stats *out)
{
    unsigned since;
    weft_status st = enter(spill, "get_stats", &since);

    return st < 0 ? st : leave(spill, since, stats(spill, out));
}

weft_status weft_zero_spill_destroy(weft_zero_spill *spill)
{
    unsigned since = wi_fail_count();
    weft_status st;

    if (!spill)
        return WEFT_SUCCESS;
    if (spill->magic != MAGIC)
        return wi_zero_publish(since, wi_fail(WEFT_EINVAL, "zero: spill: destroy: not one, or it was destroyed"));
    if (spill->pid != getpid())
        return WEFT_SUCCESS;
    st = wi_disk_destroy(spill->disk);
    if (st < 0)
        return wi_zero_publish(since, st);
    spill->magic = 0;
    pthread_mutex_destroy(&spill->lock);
    wi_free(spill->runs.runs);
    wi_free(spill->items);
    wi_free(spill);
    return WEFT_SUCCESS;
}
