/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints: any number of ranks before and after, versions that build on one another, and everything that is wrong with a file
 * or a call named. */
#include "ckpt_model.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "tests/harness/says.h"

static const char *new_folder(void)
{
    static char path[4][600];
    static int n;
    char *p = path[n++ % 4];

    snprintf(p, sizeof(path[0]), "%s/ckpt%d", wt_temp_dir(), n);
    return p;
}

/* ---- Ranks ---- */

struct ranks {
    weft_context *context;
    weft_comm *comm;
};

static void ranks_open(struct ranks *r)
{
    WT_REQUIRE_OK(weft_context_create(NULL, &r->context));
    WT_REQUIRE_OK(weft_comm_create_env(r->context, NULL, &r->comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(r->comm, 20ull * 1000000000));
}

static void ranks_close(struct ranks *r)
{
    WT_CHECK_OK(weft_comm_destroy(r->comm));
    WT_CHECK_OK(weft_context_destroy(r->context));
}

struct job {
    struct cm_save save;
    int saves; /* versions save.version, … */
    uint64_t seed;
    int expect; /* version of a load */
};

static void save_ranks(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    static struct cm_pieces pieces;
    struct cm_save save = job->save;
    struct wi_ckpt_result result = {0};
    struct wi_ckpt *ckpt;
    struct ranks r;

    ranks_open(&r);
    WT_REQUIRE_OK(wi_ckpt_create(r.comm, 0, &ckpt));
    cm_cut(&pieces, rank, nranks, job->seed);
    for (int i = 0; i < job->saves; i++, save.version++)
        WT_CHECK_OK(cm_save_pieces(ckpt, &save, &pieces, &result));
    cm_free(&pieces);
    WT_CHECK_OK(wi_ckpt_destroy(ckpt));
    ranks_close(&r);
}

static void load_ranks(int rank, int nranks, void *arg)
{
    const struct job *job = arg;
    struct ranks r;

    ranks_open(&r);
    WT_CHECK_INT(cm_load(job->save.folder, NULL, 0, r.comm, rank, nranks, job->seed), job->expect);
    ranks_close(&r);
}

static void other_ranks(void)
{
    static const int sizes[][2] = {{1, 1}, {1, 4}, {4, 3}, {3, 5}, {5, 1}, {8, 3}};
    struct job job = {.save = {.folder = new_folder()}, .saves = 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        job.save.version = job.expect = (int)i + 1;
        job.save.options.in_place = i % 2;
        job.save.options.direct = i % 3 == 1;
        job.save.options.incremental = i > 2;
        job.seed = i;
        CU_ASSERT_EQUAL(wt_run(sizes[i][0], save_ranks, &job, 30000), 0);
        for (uint64_t s = 0; s < 2; s++) {
            job.seed = 100 + 10 * i + s;
            CU_ASSERT_EQUAL(wt_run(sizes[i][1], load_ranks, &job, 30000), 0);
        }
    }
    CU_ASSERT_EQUAL(cm_load(job.save.folder, "step2", 0, NULL, 0, 1, 5), 2);
}

/* Who waits for the first pieces may change those at once, while the others are copied; with memory got ahead or not. */
static void in_order(void)
{
    enum { PIECES = 24, ELEMS = 1 << 19 };
    static float data[PIECES][ELEMS];
    const size_t shape = ELEMS;
    struct wi_ckpt_piece pieces[PIECES];
    char names[PIECES][8];
    struct wi_ckpt_options options = {.keep = 1, .keep_buffer = 1};
    const char *folder = new_folder();
    struct wi_ckpt_reader *reader;
    struct wi_ckpt *ckpt;

    CU_ASSERT_EQUAL_FATAL(wi_ckpt_create(NULL, 0, &ckpt), WEFT_SUCCESS);
    for (int p = 0; p < PIECES; p++) {
        snprintf(names[p], sizeof(names[p]), "w%d", p);
        pieces[p] = (struct wi_ckpt_piece){names[p], "weight", WEFT_FLOAT32, 1, &shape, 0, ELEMS, data[p], NULL, NULL};
    }
    CU_ASSERT_EQUAL(wi_ckpt_prepare(ckpt, pieces, PIECES), WEFT_SUCCESS);
    for (int v = 1; v <= 3; v++) {
        char tag[8];
        size_t wrong = 0;

        snprintf(tag, sizeof(tag), "v%d", v);
        for (int p = 0; p < PIECES; p++)
            for (size_t i = 0; i < ELEMS; i++)
                data[p][i] = (float)(v * 1000 + p);
        CU_ASSERT_EQUAL(wi_ckpt_begin(ckpt, folder, tag, pieces, PIECES, NULL, &options), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_ckpt_prepare(ckpt, pieces, PIECES), WEFT_SUCCESS); /* nothing to do meanwhile */
        for (size_t p = 0; p < PIECES; p++) {
            if (v == 2)
                wi_ckpt_snapshot_help(ckpt, p + 1);
            wi_ckpt_snapshot_wait_first(ckpt, p + 1);
            CU_ASSERT(wi_ckpt_snapshot_has(ckpt, p + 1));
            memset(data[p], 0, sizeof(data[p]));
        }
        CU_ASSERT_EQUAL(wi_ckpt_wait(ckpt, NULL), WEFT_SUCCESS);
        CU_ASSERT(wi_ckpt_snapshot_has(ckpt, PIECES));
        CU_ASSERT_EQUAL_FATAL(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_ckpt_read(reader, pieces, PIECES), WEFT_SUCCESS);
        wi_ckpt_close(reader);
        for (int p = 0; p < PIECES; p++)
            for (size_t i = 0; i < ELEMS; i++)
                wrong += data[p][i] != (float)(v * 1000 + p);
        CU_ASSERT_EQUAL(wrong, 0);
    }
    CU_ASSERT_EQUAL(wi_ckpt_destroy(ckpt), WEFT_SUCCESS);
}

/* ---- Versions ---- */

static int count(const char *folder, const char *start)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    while (dir && (entry = readdir(dir)))
        n += !strncmp(entry->d_name, start, strlen(start));
    if (dir)
        closedir(dir);
    return n;
}

static void versions(void)
{
    struct job job = {.save = {.folder = new_folder(), .version = 1}, .saves = 7, .seed = 3, .expect = 7};
    char path[700];

    job.save.options.keep = 2;
    job.save.options.incremental = 1;
    CU_ASSERT_EQUAL(wt_run(3, save_ranks, &job, 30000), 0);
    CU_ASSERT_EQUAL(count(job.save.folder, "step"), 2);
    CU_ASSERT_EQUAL(count(job.save.folder, ".weft-tmp-"), 0);
    CU_ASSERT_EQUAL(cm_load(job.save.folder, "step6", 0, NULL, 0, 1, 1), 6);
    /* A copy of a version is one, too. */
    snprintf(path, sizeof(path), "cp -r %s/step6 %s/best", job.save.folder, job.save.folder);
    CU_ASSERT_EQUAL(system(path), 0);
    CU_ASSERT_EQUAL(cm_load(job.save.folder, "best", 0, NULL, 0, 1, 1), 6);
    job.save.version = 8;
    job.saves = 3;
    CU_ASSERT_EQUAL(wt_run(2, save_ranks, &job, 30000), 0); /* other intervals */
    CU_ASSERT_EQUAL(count(job.save.folder, "step"), 2);
    CU_ASSERT_EQUAL(cm_load(job.save.folder, NULL, 0, NULL, 0, 1, 1), 10);
    CU_ASSERT_EQUAL(cm_load(job.save.folder, "best", 0, NULL, 0, 1, 1), 6);
}

static void incremental(void)
{
    const char *folder = new_folder();
    struct wi_ckpt_options full = {0}, part = {.incremental = 1, .keep = 1}, replace = {.incremental = 1, .replace = 1};
    struct wi_ckpt_result first, next;

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, full, 1, &first), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(first.written_bytes, first.bytes);
    for (int v = 2; v < 9; v++) {
        CU_ASSERT_EQUAL(cm_save_alone(folder, v, part, 1, &next), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(next.bytes, first.bytes);
        /* Two tensors of 8 and 16.4 of 49 kB do not change. They are half of the first file, and written once more. */
        CU_ASSERT(v == 2 || next.written_bytes < first.bytes * 6 / 10);
        CU_ASSERT(next.written_bytes > first.bytes * 4 / 10); /* and the others do */
        CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, (uint64_t)v), v);
        CU_ASSERT_EQUAL(count(folder, "step"), 1);
    }
    /* The same once more: nothing but the index. */
    CU_ASSERT_EQUAL(cm_save_alone(folder, 8, part, 1, &next), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "step8"));
    CU_ASSERT_EQUAL(cm_save_alone(folder, 8, replace, 1, &next), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(next.written_bytes, 0);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 77), 8);
    CU_ASSERT_EQUAL(count(folder, ".weft-tmp-"), 0);
    CU_ASSERT_EQUAL(count(folder, "step"), 1);
}

/* ---- Ranks that disagree ---- */

static void disagree(int rank, int nranks, void *arg)
{
    const char *folder = arg;
    struct wi_ckpt_options options = {0};
    struct wi_ckpt_scalar scalar = {"step", WI_CKPT_INTEGER, rank == 1, 0, NULL};
    struct wi_ckpt_state state = {&scalar, 1, NULL, 0};
    float data[9] = {0};
    const size_t shape = 8 * (size_t)nranks;
    struct wi_ckpt_piece piece = {"w",  "weight", WEFT_FLOAT32, 1, &shape, 8 * (size_t)rank, 8 * (size_t)rank + 8,
                                  data, NULL,     NULL};
    struct wi_ckpt_reader *reader;
    struct wi_ckpt *ckpt;
    struct ranks r;

    ranks_open(&r);
    WT_REQUIRE_OK(wi_ckpt_create(r.comm, 0, &ckpt));
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, rank == 2 ? "b" : "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EMISMATCH, "ranks save different tags: rank 0 \"a\", rank 2 \"b\"");
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, &state, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EMISMATCH, "rank 1 has other scalars");
    options.keep = rank;
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, &options));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EMISMATCH, "rank 1 has other options");
    /* Only one rank knows, and all hear of it. */
    piece.kind = rank == 1 ? "Weight!" : "weight";
    WT_CHECK_STATUS(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, NULL), rank == 1 ? WEFT_EINVAL : WEFT_SUCCESS);
    if (rank != 1)
        SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EINVAL, "rank 1: \"w\": a kind of tensor is");
    piece.kind = "weight";
    piece.end -= rank == 1;
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EINVAL, "weight of \"w\": element 15 of 24 is saved by no rank");
    piece.end += rank == 1;
    piece.begin -= rank == 2;
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EINVAL, "element 15 is saved by two pieces, the second of rank 2");
    piece.begin += rank == 2;
    piece.dtype = rank == 2 ? WEFT_INT32 : WEFT_FLOAT32;
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EINVAL, "another type or shape on rank 2 than on rank 0");
    piece.dtype = WEFT_FLOAT32;
    WT_CHECK_OK(wi_ckpt_begin(ckpt, rank == 2 ? "/proc" : folder, "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_ENOTFOUND, "the folder has to be the same one on all ranks");
    wt_sync(); /* rank 0 deletes what is temporary before its call returns, but after the others' may */
    WT_CHECK_INT(count(folder, ".weft-tmp-"), 0);
    WT_CHECK_INT(count(folder, "a"), 0);
    wt_sync();
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "a", &piece, 1, NULL, NULL));
    SAYS(wi_ckpt_begin(ckpt, folder, "b", &piece, 1, NULL, NULL), WEFT_EBUSY, "\"a\" has not been waited for");
    wi_ckpt_snapshot_wait(ckpt);
    while (wi_ckpt_poll(ckpt, NULL) == WEFT_INPROGRESS)
        usleep(100);
    WT_CHECK_OK(wi_ckpt_wait(ckpt, NULL));
    WT_CHECK_OK(wi_ckpt_destroy(ckpt));
    WT_CHECK_STATUS(wi_ckpt_open(folder, rank == 2 ? "b" : "a", 0, r.comm, &reader), WEFT_EMISMATCH);
    WT_REQUIRE_OK(wi_ckpt_open(folder, "a", 0, r.comm, &reader));
    WT_CHECK_INT(wi_ckpt_nranks(reader), nranks);
    wi_ckpt_close(reader);
    ranks_close(&r);
}

static void ranks_disagree(void)
{
    CU_ASSERT_EQUAL(wt_run(3, disagree, (void *)(uintptr_t)new_folder(), 30000), 0);
}

/* A rank that dies in the middle: the others fail, and the version before is as it was. */
static void die(int rank, int nranks, void *arg)
{
    struct job *job = arg;
    static struct cm_pieces pieces;
    struct wi_ckpt *ckpt;
    struct ranks r;

    ranks_open(&r);
    WT_REQUIRE_OK(wi_ckpt_create(r.comm, 0, &ckpt));
    cm_cut(&pieces, rank, nranks, job->seed);
    WT_CHECK_OK(cm_save_pieces(ckpt, &job->save, &pieces, NULL));
    wt_sync();
    if (rank == 1)
        kill(getpid(), SIGKILL);
    job->save.version++;
    WT_CHECK(cm_save_pieces(ckpt, &job->save, &pieces, NULL) <= WEFT_EPEER);
    cm_free(&pieces);
    wi_ckpt_destroy(ckpt);
    weft_comm_destroy(r.comm);
    weft_context_destroy(r.context);
}

static void rank_dies(void)
{
    struct job job = {.save = {.folder = new_folder(), .version = 1}, .seed = 3};
    struct wt_job *ranks = wt_job_start(3, die, &job);

    CU_ASSERT_PTR_NOT_NULL_FATAL(ranks);
    wt_job_expect_signal(ranks, 1, SIGKILL);
    CU_ASSERT_EQUAL(wt_job_wait(ranks, 30000), 0);
    CU_ASSERT_EQUAL(cm_load(job.save.folder, NULL, 0, NULL, 0, 1, 9), 1);
    CU_ASSERT_EQUAL(cm_save_alone(job.save.folder, 2, job.save.options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(count(job.save.folder, ".weft-tmp-"), 0);
}

/* ---- Damaged files ---- */

static unsigned char *slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    unsigned char *data;

    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    data = calloc(*bytes + 1, 1);
    if (fread(data, 1, *bytes, f) != *bytes)
        *bytes = 0;
    fclose(f);
    return data;
}

static void spew(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

static void overwrite(const char *path, size_t at, unsigned char byte)
{
    int fd = open(path, O_WRONLY);

    CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Flip bits of every stride-th byte of a file: a load fails each time. Returns how often it did not. */
static int flips(const char *folder, const char *path, size_t stride)
{
    size_t bytes;
    unsigned char *data = slurp(path, &bytes);
    int missed = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    for (size_t i = 0; i < bytes; i += stride) {
        static const unsigned char masks[] = {0x01, 0x20, 0x80, 0xff};

        for (size_t m = 0; m < sizeof(masks); m++) {
            overwrite(path, i, data[i] ^ masks[m]);
            if (cm_load(folder, "step2", 0, NULL, 0, 1, 1) >= 0) {
                printf("# byte %zu of %s, mask %02x\n", i, path, masks[m]);
                missed++;
            }
        }
        overwrite(path, i, data[i]);
    }
    free(data);
    return missed;
}

/* The first file of a version whose name begins so. */
static const char *file_of(const char *folder, const char *version, const char *start)
{
    static char path[2000];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/%s", folder, version);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)))
        if (!strncmp(entry->d_name, start, strlen(start))) {
            snprintf(path, sizeof(path), "%s/%s/%s", folder, version, entry->d_name);
            break;
        }
    if (dir)
        closedir(dir);
    return path;
}

static void two_versions(const char *folder)
{
    struct wi_ckpt_options options = {0};

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 2, options, 1, NULL), WEFT_SUCCESS);
}

static void every_flip(void)
{
    const char *folder = new_folder();
    char path[2000];

    two_versions(folder);
    snprintf(path, sizeof(path), "%s/step2/manifest.json", folder);
    CU_ASSERT_EQUAL(flips(folder, path, 1), 0);
    snprintf(path, sizeof(path), "%s/step2/rank-00000.index", folder);
    CU_ASSERT_EQUAL(flips(folder, path, 7), 0);
    snprintf(path, sizeof(path), "%s/step2/client.bin", folder);
    CU_ASSERT_EQUAL(flips(folder, path, 1), 0);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 2);
}

/* Bytes between chunks are nobody's: only those within count. */
static void data_flips(void)
{
    const char *folder = new_folder();
    char path[2000];
    size_t bytes, at = 0;
    unsigned char *data;
    int missed = 0, padding = 0, tried = 0;

    two_versions(folder);
    snprintf(path, sizeof(path), "%s", file_of(folder, "step2", "data-"));
    data = slurp(path, &bytes);
    for (; at < bytes; at += 61) {
        overwrite(path, at, data[at] ^ (unsigned char)(1 + at % 255));
        tried++;
        if (cm_load(folder, "step2", 0, NULL, 0, 1, at) >= 0) {
            missed++;
            padding += data[at] == 0; /* of zeros; values are 0, too, but one in 256 */
        } else if (!strstr(weft_thread_error(), "is damaged within") ||
                   !strstr(weft_thread_error(), "before it is \"step1\"")) {
            wt_fail(__FILE__, __LINE__, "the text is: %s", weft_thread_error());
        }
        overwrite(path, at, data[at]);
    }
    CU_ASSERT_EQUAL(missed, padding);
    CU_ASSERT(missed < tried / 20);
    free(data);
}

static void damage(void)
{
    const char *folder = new_folder();
    char path[2000], to[2100], *text;
    size_t bytes;
    struct wi_ckpt_reader *reader;

    two_versions(folder);
    snprintf(path, sizeof(path), "%s/step2/manifest.json", folder);
    text = (char *)slurp(path, &bytes);
    for (size_t n = 0; n < bytes; n += 1 + n / 9) {
        CU_ASSERT_EQUAL(truncate(path, (off_t)n), 0);
        SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG,
             n == 0 ? "manifest.json is empty" : "manifest.json");
        CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "version \"step1\" is complete"));
        spew(path, text, bytes);
    }
    CU_ASSERT_EQUAL(truncate(path, (off_t)bytes - 9), 0);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG, "is truncated");
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 1, NULL, 0, 1, 1), 1); /* the one before, if it may */
    spew(path, "{\"weft_checkpoint\": 2, \"new\": 1}\n", 33);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ENOTSUP,
         "has version 2 of the format; this library reads versions up to 1");
    spew(path, "{\"format\": \"pt\"}\n", 17);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG,
         "does not begin as the manifest of a checkpoint");
    unlink(path);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG,
         "is no complete checkpoint: it has no manifest.json");
    spew(path, text, bytes);
    free(text);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 2);
    /* Files that are missing, of other sizes, of other versions, links. */
    snprintf(path, sizeof(path), "%s", file_of(folder, "step2", "data-"));
    snprintf(to, sizeof(to), "%s/aside", folder);
    CU_ASSERT_EQUAL(rename(path, to), 0);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ENOTFOUND, "is missing");
    CU_ASSERT_EQUAL(symlink(to, path), 0);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG, "is a symbolic link");
    unlink(path);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG, "is no regular file");
    unlink(path);
    CU_ASSERT_EQUAL(rename(to, path), 0);
    text = (char *)slurp(path, &bytes);
    CU_ASSERT_EQUAL(truncate(path, (off_t)bytes - 1), 0);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG, "bytes, not the");
    spew(path, text, bytes);
    free(text);
    text = (char *)slurp(file_of(folder, "step1", "rank-"), &bytes);
    spew(file_of(folder, "step2", "rank-"), text, bytes);
    free(text);
    SAYS(wi_ckpt_open(folder, "step2", 0, NULL, &reader), WEFT_ECONFIG, "is damaged: its hash is another");
    /* What `latest` says. */
    snprintf(path, sizeof(path), "%s/latest", folder);
    spew(path, "../../etc\n", 10);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG,
         "latest has no tag of a checkpoint; version \"step1\" is complete");
    spew(path, "gone\n", 5);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ENOTFOUND, "gone does not exist");
    snprintf(to, sizeof(to), "%s/nothing", folder);
    SAYS(wi_ckpt_open(to, NULL, 0, NULL, &reader), WEFT_ENOTFOUND, "does not exist");
    CU_ASSERT_EQUAL(mkdir(to, 0700), 0);
    SAYS(wi_ckpt_open(to, NULL, 1, NULL, &reader), WEFT_ENOTFOUND, "has no complete checkpoint");
    snprintf(path, sizeof(path), "%s/nothing/elsewhere", folder);
    CU_ASSERT_EQUAL(symlink("../step1", path), 0);
    SAYS(wi_ckpt_open(to, "elsewhere", 0, NULL, &reader), WEFT_ECONFIG, "is no folder, or a symbolic link");
}

/* ---- Calls that are wrong ---- */

static void wrong_calls(void)
{
    static const struct {
        const char *tag, *text;
    } tags[] = {{"", "empty"}, {NULL, "empty"},          {"a/b", "slash"},  {"..", "dot"},
                {".x", "dot"}, {"latest", "the newest"}, {"a b", "spaces"}, {"a\n", "control"}};
    const char *folder = new_folder();
    size_t shape[] = {4, 2}, huge[] = {SIZE_MAX, 2};
    float data[8] = {1, 2, 3};
    struct wi_ckpt_piece good = {"w", "weight", WEFT_FLOAT32, 2, shape, 0, 8, data, NULL, NULL}, bad;
    struct wi_ckpt_scalar scalars[] = {{"a", WI_CKPT_INTEGER, 1, 0, NULL}, {"a", WI_CKPT_REAL, 0, 1, NULL}};
    struct wi_ckpt_state state = {scalars, 2, NULL, 0}, client = {NULL, 0, NULL, 5};
    struct wi_ckpt_options options = {.chunk_bytes = 100};
    char longer[200];
    struct wi_ckpt *ckpt;

    CU_ASSERT_EQUAL_FATAL(wi_ckpt_create(NULL, 0, &ckpt), WEFT_SUCCESS);
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        SAYS(wi_ckpt_begin(ckpt, folder, tags[i].tag, &good, 1, NULL, NULL), WEFT_EINVAL, tags[i].text);
    memset(longer, 'x', sizeof(longer));
    longer[128] = '\0';
    SAYS(wi_ckpt_begin(ckpt, folder, longer, &good, 1, NULL, NULL), WEFT_EINVAL, "at most 127");
    SAYS(wi_ckpt_begin(ckpt, NULL, "a", &good, 1, NULL, NULL), WEFT_EINVAL, "folder");
    SAYS(wi_ckpt_begin(ckpt, folder, "a", NULL, 1, NULL, NULL), WEFT_EINVAL, "NULL");
    SAYS(wi_ckpt_begin(ckpt, folder, "a", &good, 1, &state, NULL), WEFT_EINVAL, "\"a\" of a checkpoint is there twice");
    SAYS(wi_ckpt_begin(ckpt, folder, "a", &good, 1, &client, NULL), WEFT_EINVAL, "client's bytes");
    SAYS(wi_ckpt_begin(ckpt, folder, "a", &good, 1, NULL, &options), WEFT_EINVAL, "chunk_bytes is 100");
    options = (struct wi_ckpt_options){.keep = -1};
    SAYS(wi_ckpt_begin(ckpt, folder, "a", &good, 1, NULL, &options), WEFT_EINVAL, "keep is -1");
#define WITH(change, text)                                                              \
    do {                                                                                \
        bad = good;                                                                     \
        bad.change;                                                                     \
        SAYS(wi_ckpt_begin(ckpt, folder, "a", &bad, 1, NULL, NULL), WEFT_EINVAL, text); \
    } while (0)
    WITH(name = "", "has no name");
    WITH(name = "\xff", "no UTF-8");
    WITH(name = "a\nb", "control characters");
    WITH(kind = NULL, "a kind of tensor");
    WITH(dtype = (weft_dtype)99, "no valid type or shape");
    WITH(ndims = -1, "no valid type or shape");
    WITH(shape = huge, "no valid type or shape");
    WITH(end = 9, "elements 0 to 9 of 8 are no piece");
    WITH(begin = 9, "elements 9 to 8 of 8 are no piece");
    WITH(data = NULL, "has no data");
    CU_ASSERT_EQUAL(access(folder, F_OK), -1); /* nothing was made */
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_EINVAL, "has no data");
    snprintf(longer, sizeof(longer), "%.100s/a/b", folder);
    CU_ASSERT_EQUAL(wi_ckpt_begin(ckpt, "/proc/self/status", "a", &good, 1, NULL, NULL), WEFT_SUCCESS);
    SAYS(wi_ckpt_wait(ckpt, NULL), WEFT_ECONFIG, "/proc/self/status is no folder");
    CU_ASSERT_EQUAL(wi_ckpt_begin(ckpt, folder, "a", &good, 1, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_ckpt_wait(ckpt, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_ckpt_destroy(ckpt), WEFT_SUCCESS);
}

static void other_models(void)
{
    const char *folder = new_folder();
    struct wi_ckpt_options options = {0};
    struct wi_ckpt_piece model[CM_TENSORS];
    struct wi_ckpt_reader *reader;
    double scale = 0;
    int64_t step = 0;
    const char *text = "";

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_SUCCESS);
    for (size_t t = 0; t < CM_TENSORS; t++)
        model[t] = (struct wi_ckpt_piece){cm_tensors[t].name,
                                          cm_tensors[t].kind,
                                          cm_tensors[t].dtype,
                                          cm_tensors[t].ndims,
                                          cm_tensors[t].shape,
                                          0,
                                          0,
                                          NULL,
                                          NULL,
                                          NULL};
    CU_ASSERT_EQUAL(wi_ckpt_compare(reader, model, CM_TENSORS, 0), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_ckpt_compare(reader, model, CM_TENSORS - 1, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_ckpt_ntensors(reader), CM_TENSORS);
    SAYS(wi_ckpt_compare(reader, model, CM_TENSORS - 1, 0), WEFT_EINVAL,
         "it has weight of \"frozen\", which this one has not");
    model[0].ndims = 1;
    SAYS(wi_ckpt_compare(reader, model, CM_TENSORS, 0), WEFT_EINVAL,
         "weight of \"embed.weight\" has shape [61, 33] there, [61] here");
    SAYS(wi_ckpt_read(reader, model, CM_TENSORS), WEFT_EINVAL, "has shape [61, 33] there");
    model[0].ndims = 2;
    model[3].dtype = WEFT_FLOAT16;
    SAYS(wi_ckpt_compare(reader, model, CM_TENSORS, 0), WEFT_EINVAL, "\"layer.0/bias\" is bfloat16 there, half here");
    model[3].dtype = WEFT_BFLOAT16;
    model[3].name = "bias";
    SAYS(wi_ckpt_compare(reader, model, CM_TENSORS, 0), WEFT_EINVAL, "it has no weight of \"bias\"");
    model[0].end = 61 * 33 + 1;
    SAYS(wi_ckpt_read(reader, model, 1), WEFT_EINVAL, "elements 0 to 2014 of 2013 are no piece");
    CU_ASSERT_EQUAL(wi_ckpt_integer(reader, "step", &step), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(step, 1);
    CU_ASSERT_EQUAL(wi_ckpt_real(reader, "loss_scale", &scale), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(scale, 0.25);
    CU_ASSERT_EQUAL(wi_ckpt_text(reader, "optimizer", &text), WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(text, "adamw");
    SAYS(wi_ckpt_integer(reader, "loss_scale", &step), WEFT_ENOTFOUND, "no integer \"loss_scale\"");
    wi_ckpt_close(reader);
}

/* ---- Not ours ---- */

static void others_files(void)
{
    const char *folder = new_folder();
    const char *id = "0123456789abcdef0123456789abcdef";
    struct wi_ckpt_options options = {.keep = 1};
    char path[2000], to[2100];
    int fd;

    two_versions(folder);
    /* A leftover of a save, one with somebody's notes, a link to elsewhere, a file. */
    snprintf(path, sizeof(path), "%s/.weft-tmp-%s", folder, id);
    mkdir(path, 0700);
    snprintf(to, sizeof(to), "%s/rank-00000.index", path);
    spew(to, "x", 1);
    snprintf(path, sizeof(path), "%s/.weft-tmp-%.31s0", folder, id);
    mkdir(path, 0700);
    snprintf(to, sizeof(to), "%s/notes.txt", path);
    spew(to, "x", 1);
    snprintf(path, sizeof(path), "%s/.weft-tmp-%.31s1", folder, id);
    snprintf(to, sizeof(to), "%s/step2", folder);
    CU_ASSERT_EQUAL(symlink(to, path), 0);
    snprintf(path, sizeof(path), "%s/.weft-tmp-%.30s", folder, id);
    spew(path, "x", 1);
    /* A version with notes stays as well. */
    snprintf(path, sizeof(path), "%s/step1/notes.txt", folder);
    spew(path, "x", 1);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 3, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(count(folder, ".weft-tmp-"), 3);
    CU_ASSERT_EQUAL(cm_load(folder, "step1", 0, NULL, 0, 1, 1), 1);
    CU_ASSERT_EQUAL(count(folder, "step2"), 0);
    /* Somebody else is saving. */
    snprintf(path, sizeof(path), "%s/.weft-lock", folder);
    fd = open(path, O_RDWR);
    CU_ASSERT_EQUAL(flock(fd, LOCK_EX), 0);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 4, options, 1, NULL), WEFT_EBUSY);
    close(fd);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 4, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 4);
}

/* ---- Export ---- */

static size_t exported_wrong(const char *path, size_t *tensors)
{
    size_t bytes, wrong = 0, header_bytes;
    unsigned char *file = slurp(path, &bytes);
    json_t *header;
    const char *name;
    json_t *value;

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    memcpy(&header_bytes, file, 8);
    CU_ASSERT_EQUAL(header_bytes % 8, 0);
    header = json_loadb((char *)file + 8, header_bytes, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(header);
    json_object_foreach(header, name, value)
    {
        size_t begin = (size_t)json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 0));
        size_t end = (size_t)json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 1));

        for (size_t t = 0; t < CM_TENSORS; t++) {
            char want[64];

            snprintf(want, sizeof(want), "%s%s%s", cm_tensors[t].name, strcmp(cm_tensors[t].kind, "weight") ? "." : "",
                     strcmp(cm_tensors[t].kind, "weight") ? cm_tensors[t].kind : "");
            if (strcmp(want, name))
                continue;
            ++*tensors;
            wrong += end - begin != cm_elems(&cm_tensors[t]) * weft_dtype_bytes(cm_tensors[t].dtype);
            for (size_t b = 0; b < end - begin && 8 + header_bytes + begin + b < bytes; b++)
                wrong += file[8 + header_bytes + begin + b] != cm_byte(t, 4, b);
        }
    }
    json_decref(header);
    free(file);
    return wrong;
}

static void export(void)
{
    static const char *const kinds[] = {"weight", "moment2"}, *const none[] = {"moment7"};
    struct job job = {.save = {.folder = new_folder(), .version = 4}, .saves = 1, .seed = 8};
    char out[700], path[800];
    size_t tensors = 0, wrong = 0, files = 0;

    CU_ASSERT_EQUAL(wt_run(3, save_ranks, &job, 30000), 0);
    snprintf(out, sizeof(out), "%s/one", wt_temp_dir());
    CU_ASSERT_EQUAL(wi_ckpt_export(job.save.folder, NULL, out, kinds, 2, 0), WEFT_SUCCESS);
    snprintf(path, sizeof(path), "%s/model.safetensors", out);
    CU_ASSERT_EQUAL(exported_wrong(path, &tensors), 0);
    CU_ASSERT_EQUAL(tensors, CM_TENSORS - 1);
    SAYS(wi_ckpt_export(job.save.folder, NULL, out, kinds, 2, 0), WEFT_EINVAL, "exists already");
    snprintf(out, sizeof(out), "%s/several/", wt_temp_dir());
    SAYS(wi_ckpt_export(job.save.folder, "step9", out, kinds, 1, 0), WEFT_ENOTFOUND, "step9 does not exist");
    SAYS(wi_ckpt_export(job.save.folder, NULL, out, none, 1, 0), WEFT_ENOTFOUND, "has no tensor of the kinds");
    CU_ASSERT_EQUAL(wi_ckpt_export(job.save.folder, NULL, out, kinds, 1, 10000), WEFT_SUCCESS);
    for (tensors = 0; files < 9; files++) {
        snprintf(path, sizeof(path), "%smodel-%05zu-of-00003.safetensors", out, files + 1);
        if (access(path, F_OK) < 0)
            break;
        wrong += exported_wrong(path, &tensors);
    }
    CU_ASSERT_EQUAL(files, 3);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(tensors, CM_TENSORS - 2);
    snprintf(path, sizeof(path), "%smodel.safetensors.index.json", out);
    CU_ASSERT_EQUAL(access(path, F_OK), 0);
    /* Damaged data is not exported, and nothing is left. */
    overwrite(file_of(job.save.folder, "step4", "data-"), 0, 99);
    overwrite(file_of(job.save.folder, "step4", "data-"), 1, 98);
    snprintf(out, sizeof(out), "%s/damaged", wt_temp_dir());
    CU_ASSERT_EQUAL(wi_ckpt_export(job.save.folder, NULL, out, kinds, 2, 0), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(access(out, F_OK), -1);
    CU_ASSERT_EQUAL(count(wt_temp_dir(), ".weft-"), 0);
}

static const struct wt_case cases[] = {
    {"other numbers of ranks", other_ranks}, {"pieces in their order", in_order},
    {"versions that are kept", versions},    {"unchanged chunks", incremental},
    {"ranks that disagree", ranks_disagree}, {"a rank dies", rank_dies},
    {"every flip of metadata", every_flip},  {"flips of data", data_flips},
    {"damaged and foreign files", damage},   {"wrong calls", wrong_calls},
    {"other models", other_models},          {"what belongs to others", others_files},
    {"export to safetensors", export},
};
WT_UNIT_MAIN("ckpt", cases)
