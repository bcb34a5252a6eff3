/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier when requests are short, interrupted, refused, or never end: nothing is lost, and errors say what failed. */
#include <errno.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/unit/unit.h"
#include "tests/zero/disk_common.h"

static const size_t all[NEXTENTS] = {4, 0, 1, 2, 3, 6, 5};

/* In memory where the file system does not matter: it is faster. */
static struct wi_disk *make_in(int memory, int buffered, uint64_t timeout_ns)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, memory);
    struct wi_disk *disk = NULL;

    memset(&wt_fault, 0, sizeof(wt_fault));
    config.backend = &wt_fault_backend;
    config.buffered = buffered;
    config.timeout_ns = timeout_ns;
    CU_ASSERT_EQUAL_FATAL(wi_disk_create(&config, wt_extents, NEXTENTS, &disk), WEFT_SUCCESS);
    return disk;
}

static struct wi_disk *make(uint64_t timeout_ns)
{
    return make_in(1, 0, timeout_ns);
}

/* A pass over all extents, or what is left of it. */
static weft_status stream(struct wi_disk *disk, struct wt_pass *pass)
{
    pass->at = 0;
    return wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, wt_compute, pass, NULL);
}

static void arm(enum wi_disk_what what, long nth, long count, int64_t result)
{
    wt_fault = (struct wt_fault){
        .what = what, .nth = nth, .count = count, .result = result, .short_bytes = wt_fault.short_bytes};
}

static void text_has(struct wi_disk *disk, const char *const *words)
{
    CU_ASSERT(strstr(wi_fail_text(), disk->path) != NULL);
    for (; *words; words++) {
        if (!strstr(wi_fail_text(), *words))
            printf("# \"%s\" has no \"%s\"\n", wi_fail_text(), *words);
        CU_ASSERT(strstr(wi_fail_text(), *words) != NULL);
    }
}
#define TEXT_HAS(disk, ...) text_has((disk), (const char *const[]){__VA_ARGS__, NULL})

/* A whole step in which requests have this fault, which does not show. */
static void passes(int buffered, enum wi_disk_what what, long nth, long count, int64_t result, size_t short_bytes)
{
    struct wi_disk *disk = make_in(0, buffered, 60000000000ull);
    struct wi_disk_stats stats;
    struct wt_model model;
    struct wt_pass pass = {0, 0};

    wt_model_make(&model, 1);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    wt_fault.short_bytes = short_bytes;
    arm(what, nth, count, result);
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
    wt_model_compute(&model);
    CU_ASSERT(pass.done > NEXTENTS);
    CU_ASSERT(wt_fault.seen >= nth);
    wi_disk_get_stats(disk, &stats);
    CU_ASSERT(stats.requests_again > 0);
    arm(what, 0, 0, 0);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static void short_transfers(void)
{
    for (int what = WI_DISK_DO_READ; what <= WI_DISK_DO_WRITE; what++) {
        passes(0, what, 1, 1000000, WT_FAULT_SHORT, 4096);
        passes(0, what, 1, 1000000, WT_FAULT_SHORT, 5000); /* the rest begins where O_DIRECT allows it */
        passes(1, what, 1, 1000000, WT_FAULT_SHORT, 777);
        passes(1, what, 1, 1000000, WT_FAULT_SHORT, 8191);
    }
}

static void interrupted(void)
{
    static const int errors[] = {EINTR, EAGAIN, EBUSY, ECANCELED};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        for (int what = WI_DISK_DO_READ; what <= WI_DISK_DO_WRITE; what++) {
            passes(0, what, 1, 7, -errors[i], 0);
            passes(0, what, 5, 3, -errors[i], 0);
        }
    passes(0, WI_DISK_DO_WRITE, 3, 4, 0, 0); /* no byte was accepted, four times */
}

/* What goes on forever ends as an error. */
static void no_progress(void)
{
    struct wi_disk *disk = make(60000000000ull);
    struct wt_model model;
    char byte;

    wt_model_make(&model, 2);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    arm(WI_DISK_DO_READ, 1, 1000000, -EAGAIN);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 2, 0, 0, 1, &byte), WEFT_ESYS);
    TEXT_HAS(disk, "read of extent 2", "Resource temporarily unavailable");
    arm(WI_DISK_DO_READ, 1, 1, 0);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 2, 0, 0, 1, &byte), WEFT_ESYS);
    TEXT_HAS(disk, "read of extent 2", "the file ends there");
    arm(WI_DISK_DO_READ, 1, 1, 1 << 20);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 2, 0, 0, 1, &byte), WEFT_ESYS);
    arm(WI_DISK_DO_READ, 0, 0, 0);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 2, 0, 0, 1, &byte), WEFT_SUCCESS);
    arm(WI_DISK_DO_WRITE, 1, 1000000, 0);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 2, 0, 0, 1, "x"), WEFT_ESYS);
    TEXT_HAS(disk, "write of extent 2", "accepts no bytes");
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

/* Each request of a step fails once; the step goes on from where it was, and has the same result. */
static void each_fails(enum wi_disk_what what, int error, weft_status expected, const char *word, const char *reason)
{
    struct wt_model model;
    int done = 0;

    for (long nth = 1; !done; nth += 3) {
        struct wi_disk *disk = make(60000000000ull);
        struct wt_pass pass = {0, 0};
        weft_status status;
        wt_model_make(&model, 3);
        CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
        arm(what, nth, 1, -error);
        status = stream(disk, &pass);
        done = status == WEFT_SUCCESS;
        if (!done) {
            CU_ASSERT_EQUAL(status, expected);
            TEXT_HAS(disk, word, " at offset ", reason);
            CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
        }
        arm(what, 0, 0, 0);
        wt_model_compute(&model);
        CU_ASSERT_EQUAL(pass.at, pass.done);
        CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
        CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
        wt_model_free(&model);
        CU_ASSERT_FATAL(nth < 10000);
        CU_ASSERT(nth > 1 || !done);
    }
}

static void each_read_fails(void)
{
    each_fails(WI_DISK_DO_READ, EIO, WEFT_ESYS, "read of extent ", "Input/output error");
}

static void each_write_fails(void)
{
    each_fails(WI_DISK_DO_WRITE, EIO, WEFT_ESYS, "write of extent ", "Input/output error");
    each_fails(WI_DISK_DO_WRITE, ENOSPC, WEFT_ENOSPC, "write of extent ", "No space left on device");
}

/* While a chunk cannot be written, it is in memory; nothing else begins before it is written. */
static void write_fails_for_long(void)
{
    struct wi_disk *disk = make(60000000000ull);
    struct wt_pass pass = {0, 0};
    struct wt_model model, after;
    unsigned char *got = malloc(wt_extents[4].stream_bytes);
    size_t computed;
    int pieces;

    wt_model_make(&model, 4);
    wt_model_make(&after, 4);
    wt_model_compute(&after);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    arm(WI_DISK_DO_WRITE, 1, 1000000, -ENOSPC);
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ENOSPC);
    pieces = pass.done;
    CU_ASSERT(pieces >= 1 && pieces <= 3);
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ENOSPC);
    CU_ASSERT(pass.at == 0 && pass.done == pieces);
    CU_ASSERT_EQUAL(wi_disk_put(disk, 2, 0, 0, 1, "x"), WEFT_ENOSPC);
    /* Extent 4 is the first of the list: what was computed of it has the new values, the rest the old ones. */
    computed = (size_t)pieces * CHUNK;
    CU_ASSERT_EQUAL(wi_disk_get(disk, 4, 0, 0, wt_extents[4].stream_bytes, got), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(memcmp(got, after.bytes[4][0], computed), 0);
    CU_ASSERT_EQUAL(memcmp(got + computed, model.bytes[4][0] + computed, wt_extents[4].stream_bytes - computed), 0);
    arm(WI_DISK_DO_WRITE, 0, 0, 0);
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wt_model_differs(&after, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
    wt_model_free(&after);
    free(got);
}

static weft_status nothing(void *arg, const struct wi_disk_piece *piece)
{
    (void)arg;
    (void)piece;
    return WEFT_SUCCESS;
}

/* What could not be written is not tried again where the caller has it elsewhere; it is read once it was written as a whole. */
static void forgotten(void)
{
    struct wi_disk *disk = make(60000000000ull);
    const size_t lost[] = {4}, others[] = {1, 2};
    struct wt_model model;
    char byte;

    wt_model_make(&model, 4);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    arm(WI_DISK_DO_WRITE, 1, 1000000, -ENOSPC);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, lost, 1, WI_DISK_WRITE, nothing, NULL, NULL), WEFT_ENOSPC);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, others, 2, WI_DISK_READ, nothing, NULL, NULL), WEFT_ENOSPC);
    wi_disk_forget(disk, others, 2);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, others, 2, WI_DISK_READ, nothing, NULL, NULL), WEFT_ENOSPC);
    wi_disk_forget(disk, lost, 1);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, others, 2, WI_DISK_READ, nothing, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 4, 0, 0, 1, &byte), WEFT_EINVAL);
    arm(WI_DISK_DO_WRITE, 0, 0, 0);
    CU_ASSERT_EQUAL(wi_disk_stream(disk, lost, 1, WI_DISK_WRITE, nothing, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_get(disk, 4, 0, 0, 1, &byte), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static void own_write_fails(void)
{
    struct wi_disk *disk = make(60000000000ull);
    size_t bytes = wi_disk_range_bytes(disk, 4, 0, 2);
    struct wi_disk_op *op;
    void *buffer = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_disk_buffer_get(disk, bytes, &buffer), WEFT_SUCCESS);
    memset(buffer, 7, bytes);
    arm(WI_DISK_DO_WRITE, 2, 1, -EIO);
    CU_ASSERT_EQUAL(wi_disk_write(disk, 4, 0, 2, buffer, &op), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, op, UINT64_MAX), WEFT_ESYS);
    TEXT_HAS(disk, "write of extent 4 at offset ", "Input/output error");
    CU_ASSERT(((char *)buffer)[0] == 7 && ((char *)buffer)[bytes - 1] == 7);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 1, 1, buffer, &op), WEFT_EINVAL);
    TEXT_HAS(disk, "chunk 1 of extent 4", "its last write failed");
    CU_ASSERT_EQUAL(wi_disk_write(disk, 4, 0, 2, buffer, &op), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, op, UINT64_MAX), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_read(disk, 4, 1, 1, buffer, &op), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_disk_wait(disk, op, UINT64_MAX), WEFT_SUCCESS);
    wi_disk_buffer_put(disk, buffer);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

struct failing {
    struct wt_pass pass;
    int countdown;
};

/* What the call that fails has computed is not written. */
static weft_status compute_failing(void *arg, const struct wi_disk_piece *piece)
{
    struct failing *failing = arg;

    if (--failing->countdown)
        return wt_compute(&failing->pass, piece);
    wt_compute(NULL, piece);
    return wi_fail(WEFT_ECANCELED, "enough");
}

static void compute_fails(void)
{
    for (int nth = 1; nth < 12; nth++) {
        struct wi_disk *disk = make(60000000000ull);
        struct failing failing = {{0, 0}, nth};
        struct wt_model model;
        wt_model_make(&model, 5);
        CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(
            wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, compute_failing, &failing, NULL),
            WEFT_ECANCELED);
        CU_ASSERT_STRING_EQUAL(wi_fail_text(), "enough");
        CU_ASSERT_EQUAL(failing.pass.done, nth - 1);
        CU_ASSERT_EQUAL(stream(disk, &failing.pass), WEFT_SUCCESS);
        wt_model_compute(&model);
        CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
        CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
        wt_model_free(&model);
    }
}

/* A request that never ends costs the time-out, not more, and its memory stays until it has ended. */
static void wedged(void)
{
    for (int what = WI_DISK_DO_READ; what <= WI_DISK_DO_WRITE; what++) {
        struct wi_disk *disk = make(30000000);
        struct wt_pass pass = {0, 0};
        struct wt_model model;
        wt_model_make(&model, 6);
        CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
        arm(what, 4, 1, WT_FAULT_WEDGE);
        CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ETIMEDOUT);
        TEXT_HAS(disk, what == WI_DISK_DO_READ ? "read of" : "write of", "of extent 4", "has not ended");
        CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ETIMEDOUT);
        /* It ends after all: canceled, and so submitted again. */
        wt_fault_release();
        CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_SUCCESS);
        wt_model_compute(&model);
        CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
        arm(what, 1, 1, WT_FAULT_WEDGE);
        pass = (struct wt_pass){0, 0};
        CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ETIMEDOUT);
        CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_ETIMEDOUT);
        TEXT_HAS(disk, "1 of 1 requests have not ended", "stays allocated");
        wt_fault_release();
        CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
        wt_model_free(&model);
    }
}

/* Blocking reads that timed out give their places back once they have ended. */
static void timed_out_places(void)
{
    struct wi_disk *disk = make(1000000);
    struct wt_model model;
    char byte;

    wt_model_make(&model, 7);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    for (int i = 0; i < 2 * WI_DISK_OPS_MAX; i++) {
        arm(WI_DISK_DO_READ, 1, 1, WT_FAULT_WEDGE);
        CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 0, 0, 1, &byte), WEFT_ETIMEDOUT);
        wt_fault_release();
    }
    wi_disk_progress(disk);
    CU_ASSERT_EQUAL(wt_model_differs(&model, disk), 0);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static void broken(void)
{
    struct wi_disk *disk = make(60000000000ull);
    struct wt_pass pass = {0, 0};
    struct wt_model model;
    char byte;

    wt_model_make(&model, 8);
    CU_ASSERT_EQUAL(wt_model_put(&model, disk), WEFT_SUCCESS);
    arm(WI_DISK_DO_READ, 3, 1, WT_FAULT_BROKEN);
    CU_ASSERT_EQUAL(stream(disk, &pass), WEFT_ESYS);
    TEXT_HAS(disk, "faults", "Bad file descriptor");
    CU_ASSERT_EQUAL(wi_disk_get(disk, 0, 0, 0, 1, &byte), WEFT_ESYS);
    /* As what it has under way is not known, its memory stays; the test gives it back what it then frees. */
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_ETIMEDOUT);
    for (unsigned i = 0; i < disk->depth; i++)
        disk->ios[i].op = NULL;
    disk->inflight = 0;
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
    wt_model_free(&model);
}

static const struct wt_case cases[] = {
    {"short transfers", short_transfers},
    {"interrupted", interrupted},
    {"no progress", no_progress},
    {"each read fails", each_read_fails},
    {"each write fails", each_write_fails},
    {"write fails for long", write_fails_for_long},
    {"what is forgotten", forgotten},
    {"the caller's write fails", own_write_fails},
    {"compute fails", compute_fails},
    {"wedged", wedged},
    {"places of operations that timed out", timed_out_places},
    {"broken back end", broken},
};

WT_UNIT_MAIN("disk_faults", cases)
