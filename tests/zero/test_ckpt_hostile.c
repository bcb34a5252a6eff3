/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that somebody wrote on purpose, with digests that fit, and ranks that lie: what they say is refused by name, nothing
 * outside the version is read, linked, replaced or deleted, and the next save is one that loads. */
#include "ckpt_model.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "base/status.h"
#include "zero/ckpt/ckpt_impl.h"
#include "tests/harness/says.h"

#define ID "0123456789abcdef0123456789abcdef"
static const char *new_folder(void)
{
    static char path[600];
    static int n;

    snprintf(path, sizeof(path), "%s/hostile%d", wt_temp_dir(), n++);
    return path;
}

/* Good for the next few calls. */
static const char *in(const char *folder, const char *name)
{
    static char path[4][1300];
    static int n;
    char *p = path[n++ % 4], joined[sizeof(path[0])];

    snprintf(joined, sizeof(joined), "%s/%s", folder, name);
    return memcpy(p, joined, sizeof(joined));
}

static int count(const char *folder, const char *start)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    while (dir && (entry = readdir(dir)))
        n += !strncmp(entry->d_name, start, strlen(start)) && strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    if (dir)
        closedir(dir);
    return n;
}

static void spew(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* ---- Versions as their writers want them ---- */

static void version_read(const char *folder, const char *tag, struct wi_ckpt_manifest *manifest,
                         struct wi_ckpt_index *index)
{
    struct wi_ckpt_dir dir;
    size_t bytes;
    char *text;

    CU_ASSERT_EQUAL_FATAL(wi_ckpt_dir_open(&dir, in(folder, tag)), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_ckpt_file_load(&dir, WI_CKPT_MANIFEST, 1 << 20, &text, &bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_ckpt_manifest_decode(manifest, text, bytes, "manifest"), WEFT_SUCCESS);
    wi_free(text);
    CU_ASSERT_EQUAL_FATAL(wi_ckpt_rank_index_load(&dir, 0, &manifest->indexes[0], index), WEFT_SUCCESS);
    wi_ckpt_dir_close(&dir);
}

/* Write and free both, with the digests that they have then. */
static void version_write(const char *folder, const char *tag, struct wi_ckpt_manifest *manifest,
                          struct wi_ckpt_index *index)
{
    unsigned char *data;
    size_t bytes;
    char *text;

    CU_ASSERT_EQUAL_FATAL(wi_ckpt_index_encode(index, &data, &bytes), WEFT_SUCCESS);
    spew(in(in(folder, tag), "rank-00000.index"), data, bytes);
    manifest->indexes[0] = (struct wi_ckpt_digest){bytes, wi_ckpt_hash(data, bytes)};
    wi_free(data);
    CU_ASSERT_EQUAL_FATAL(wi_ckpt_manifest_encode(manifest, &text, &bytes), WEFT_SUCCESS);
    spew(in(in(folder, tag), WI_CKPT_MANIFEST), text, bytes);
    wi_free(text);
    wi_ckpt_index_fini(index);
    wi_ckpt_manifest_fini(manifest);
}

static void set_sequence(const char *folder, const char *tag, uint64_t sequence)
{
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_index index;

    version_read(folder, tag, &manifest, &index);
    manifest.sequence = sequence;
    version_write(folder, tag, &manifest, &index);
}

static void sequences(void)
{
    static const struct wi_ckpt_options options = {0};
    const char *folder = new_folder();
    struct wi_ckpt_reader *reader;

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    set_sequence(folder, "step1", INT64_MAX);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG, "malformed \"sequence\"");
    CU_ASSERT_EQUAL(cm_save_alone(folder, 2, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 2);
    /* The largest one loads, and nothing is saved behind it. */
    set_sequence(folder, "step2", WI_CKPT_SEQUENCE_MAX - 1);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 3, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 3);
    SAYS(cm_save_alone(folder, 4, options, 1, NULL), WEFT_ECONFIG, "step3 has the largest sequence number");
    CU_ASSERT_EQUAL(count(folder, "step4") + count(folder, ".weft-tmp-"), 0);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 3);
}

/* The data of a version has another name, and its index says so. */
static void rename_data(const char *folder, const char *tag, const char *name)
{
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_index index;
    char from[1400];

    version_read(folder, tag, &manifest, &index);
    snprintf(from, sizeof(from), "%s", in(in(folder, tag), index.files[0].name));
    CU_ASSERT_EQUAL(link(from, in(in(folder, tag), name)), 0);
    snprintf(index.files[0].name, sizeof(index.files[0].name), "%s", name);
    version_write(folder, tag, &manifest, &index);
}

static void names_of_data(void)
{
    static const char *const names[] = {
        "client2.bin",
        "rank-00001.index",
        ".weft-tmp-manifest.json",
        "data-" ID ".bin",
        "data-" ID "-00000.bin\n",
        "data-" ID "-00000.index",
        "data-" ID "-0.bin",
        "data-0123456789ABCDEF0123456789abcdef-00000.bin",
        "else-" ID "-00000.bin",
        "a\nweft ERROR forged \033[2J",
    };
    static const struct wi_ckpt_options options = {.incremental = 1};
    struct wi_ckpt_reader *reader;
    const char *folder;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        folder = new_folder();
        CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
        rename_data(folder, "step1", names[i]);
        SAYS(wi_ckpt_open(folder, "step1", 0, NULL, &reader), WEFT_ECONFIG, "a file's name is not one");
        CU_ASSERT_PTR_NULL(strpbrk(weft_thread_error(), "\n\033"));
        CU_ASSERT_EQUAL(cm_save_alone(folder, 2, options, 1, NULL), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(access(in(in(folder, "step2"), names[i]), F_OK), -1);
        CU_ASSERT_EQUAL(cm_load(folder, "step2", 0, NULL, 0, 1, 1), 2);
    }
    folder = new_folder(); /* a name that a save may give */
    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    rename_data(folder, "step1", "kept-" ID "-1234567890.bin");
    CU_ASSERT_EQUAL(cm_load(folder, "step1", 0, NULL, 0, 1, 1), 1);
}

static void manifest_as_data(void)
{
    static const struct wi_ckpt_options options = {.incremental = 1};
    const char *folder = new_folder();
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_reader *reader;
    struct wi_ckpt_index index;

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    version_read(folder, "step1", &manifest, &index);
    snprintf(index.files[0].name, sizeof(index.files[0].name), "%s", WI_CKPT_MANIFEST);
    version_write(folder, "step1", &manifest, &index);
    SAYS(wi_ckpt_open(folder, "step1", 0, NULL, &reader), WEFT_ECONFIG, "a file's name is not one");
    CU_ASSERT_EQUAL(cm_save_alone(folder, 2, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 2);
}

static void sizes(void)
{
    static const struct wi_ckpt_options options = {0};
    const char *folder = new_folder();
    struct wi_ckpt_state state = {NULL, 0, "x", WI_CKPT_CLIENT_MAX + 1}; /* refused before it is read */
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_reader *reader;
    struct wi_ckpt_index index;
    struct wi_ckpt *ckpt;

    CU_ASSERT_EQUAL_FATAL(wi_ckpt_create(NULL, 0, &ckpt), WEFT_SUCCESS);
    SAYS(wi_ckpt_begin(ckpt, folder, "a", NULL, 0, &state, NULL), WEFT_EINVAL,
         "are 1073741825; at most 1073741824 are possible");
    CU_ASSERT_EQUAL(wi_ckpt_destroy(ckpt), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    version_read(folder, "step1", &manifest, &index);
    manifest.client.bytes = WI_CKPT_CLIENT_MAX + 1;
    version_write(folder, "step1", &manifest, &index);
    CU_ASSERT_EQUAL(truncate(in(in(folder, "step1"), WI_CKPT_CLIENT), (off_t)WI_CKPT_CLIENT_MAX + 1), 0);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG,
         "the client has 1073741825 bytes; at most 1073741824 are possible");
    CU_ASSERT_EQUAL(truncate(in(in(folder, "step1"), WI_CKPT_MANIFEST), (off_t)WI_CKPT_MANIFEST_MAX + 1), 0);
    SAYS(wi_ckpt_open(folder, NULL, 0, NULL, &reader), WEFT_ECONFIG,
         "manifest.json has 268435457 bytes, more than the 268435456 that it may have");
}

/* ---- What `replace` may replace ---- */

static void replace(void)
{
    static const struct wi_ckpt_options options = {.replace = 1};
    const char *folder = new_folder();

    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    mkdir(in(folder, "step2"), 0700);
    SAYS(cm_save_alone(folder, 2, options, 1, NULL), WEFT_EINVAL, "step2 cannot be replaced");
    CU_ASSERT_EQUAL(count(in(folder, "step2"), ""), 0);
    spew(in(in(folder, "step2"), "thesis.txt"), "x", 1);
    SAYS(cm_save_alone(folder, 2, options, 1, NULL), WEFT_EINVAL, "step2 cannot be replaced");
    CU_ASSERT_EQUAL(access(in(in(folder, "step2"), "thesis.txt"), F_OK), 0);
    spew(in(folder, "step3"), "x", 1);
    SAYS(cm_save_alone(folder, 3, options, 1, NULL), WEFT_EINVAL, "step3 cannot be replaced");
    CU_ASSERT_EQUAL(symlink("step1", in(folder, "step4")), 0);
    SAYS(cm_save_alone(folder, 4, options, 1, NULL), WEFT_EINVAL, "step4 cannot be replaced");
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 1);
    /* Notes in a version make it somebody's. */
    spew(in(in(folder, "step1"), "notes.txt"), "x", 1);
    SAYS(cm_save_alone(folder, 1, options, 1, NULL), WEFT_EINVAL, "step1 cannot be replaced");
    CU_ASSERT_EQUAL(access(in(in(folder, "step1"), "notes.txt"), F_OK), 0);
    unlink(in(in(folder, "step1"), "notes.txt"));
    CU_ASSERT_EQUAL(truncate(in(in(folder, "step1"), WI_CKPT_MANIFEST), 5), 0); /* a damaged one is one, too */
    CU_ASSERT_EQUAL(cm_save_alone(folder, 1, options, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 1), 1);
    CU_ASSERT_EQUAL(count(folder, ".weft-tmp-"), 0);
}

/* ---- Ranks that lie ---- */

struct lie {
    const char *folder, *id, *parent;
    uint64_t sequence;
};

/* What a rank says that saves "v1" without scalars. */
static struct wi_ckpt_word word_of_save(void)
{
    struct wi_ckpt_word word = {.tag = "v1", .numbers = {[4] = WI_CKPT_CHUNK_BYTES}};
    json_t *none = json_object();
    char *text = wi_ckpt_json_text(none, JSON_SORT_KEYS | JSON_COMPACT);

    word.numbers[0] = wi_ckpt_hash(text, strlen(text)).half[0];
    wi_free(text);
    json_decref(none);
    return word;
}

static weft_comm *comm_open(weft_context **context)
{
    weft_comm *comm;

    WT_REQUIRE_OK(weft_context_create(NULL, context));
    WT_REQUIRE_OK(weft_comm_create_env(*context, NULL, &comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(comm, 20ull * 1000000000));
    return comm;
}

/* The communicator of an honest rank's wi_ckpt_create. */
static weft_comm *comm_dup(weft_comm *comm)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *dup;

    config.name = "zero.checkpoint";
    WT_REQUIRE_OK(weft_comm_dup(comm, &config, &dup));
    return dup;
}

static void honest_save(weft_comm *comm, const char *folder, weft_status expect, const char *text)
{
    struct wi_ckpt *ckpt;

    WT_REQUIRE_OK(wi_ckpt_create(comm, 0, &ckpt));
    WT_CHECK_OK(wi_ckpt_begin(ckpt, folder, "v1", NULL, 0, NULL, NULL));
    SAYS(wi_ckpt_wait(ckpt, NULL), expect, text);
    wi_ckpt_destroy(ckpt);
}

static void rank_0_lies(int rank, int nranks, void *arg)
{
    const struct lie *lie = arg;
    struct wi_ckpt_word word = word_of_save(), all[2] = {0};
    weft_context *context;
    weft_comm *comm = comm_open(&context), *dup;

    (void)nranks;
    if (rank == 1) {
        honest_save(comm, lie->folder, WEFT_EPROTO, "rank 0 names no possible checkpoint");
    } else {
        dup = comm_dup(comm);
        WT_REQUIRE_OK(weft_all_gather(dup, &word, all, sizeof(word), WEFT_UINT8, NULL));
        word = (struct wi_ckpt_word){.numbers = {lie->sequence}};
        snprintf(word.id, sizeof(word.id), "%s", lie->id);
        snprintf(word.tag, sizeof(word.tag), "%s", lie->parent);
        WT_REQUIRE_OK(weft_broadcast(dup, &word, &word, sizeof(word), WEFT_UINT8, 0, NULL));
        word = (struct wi_ckpt_word){0};
        WT_REQUIRE_OK(weft_all_gather(dup, &word, all, sizeof(word), WEFT_UINT8, NULL));
        WT_CHECK_INT((int)all[1].status, WEFT_EPROTO);
        WT_CHECK_OK(weft_comm_destroy(dup));
    }
    weft_comm_destroy(comm);
    weft_context_destroy(context);
}

static void ids(void)
{
    static const struct lie lies[] = {
        {NULL, "x/../../victim", "", 1}, {NULL, "", "", 1}, {NULL, "0123456789abcdef0123456789abcde/", "", 1},
        {NULL, ID, "../victim", 1},      {NULL, ID, "", 0}, {NULL, ID, "", WI_CKPT_SEQUENCE_MAX + 1},
    };

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        const char *base = new_folder();
        struct lie lie = lies[i];
        char folder[1300];

        mkdir(base, 0700);
        snprintf(folder, sizeof(folder), "%s", in(base, "ck"));
        lie.folder = folder;
        mkdir(lie.folder, 0700);
        mkdir(in(base, "victim"), 0700);
        mkdir(in(lie.folder, ".weft-tmp-x"), 0700);
        mkdir(in(lie.folder, ".weft-tmp-" ID), 0700);
        CU_ASSERT_EQUAL(wt_run(2, rank_0_lies, &lie, 30000), 0);
        CU_ASSERT_EQUAL(count(in(base, "victim"), ""), 0);
        CU_ASSERT_EQUAL(count(in(lie.folder, ".weft-tmp-" ID), ""), 0);
    }
}

/* An index that is well-formed by itself, but is of another size of chunks than the manifest will say. */
static void rank_1_lies(int rank, int nranks, void *arg)
{
    const char *folder = arg;
    struct wi_ckpt_word word = word_of_save(), all[2] = {0};
    struct wi_ckpt_index index = {.rank = 1, .chunk_bytes = 2048};
    weft_context *context;
    weft_comm *comm = comm_open(&context), *dup;
    struct wi_ckpt_dir dir;
    unsigned char *data;
    struct wi_ckpt_hash hash;
    size_t bytes;

    (void)nranks;
    if (rank == 0) {
        honest_save(comm, folder, WEFT_ECONFIG, "rank 1 has chunks of another size");
    } else {
        char name[sizeof(WI_CKPT_TEMP) + sizeof(word.id)];

        dup = comm_dup(comm);
        WT_REQUIRE_OK(weft_all_gather(dup, &word, all, sizeof(word), WEFT_UINT8, NULL));
        WT_REQUIRE_OK(weft_broadcast(dup, &word, &word, sizeof(word), WEFT_UINT8, 0, NULL));
        snprintf(name, sizeof(name), WI_CKPT_TEMP "%.39s", word.id);
        WT_REQUIRE_OK(wi_ckpt_dir_open(&dir, in(folder, name)));
        WT_REQUIRE_OK(wi_ckpt_index_encode(&index, &data, &bytes));
        WT_REQUIRE_OK(wi_ckpt_file_store(&dir, "rank-00001.index", data, bytes));
        wi_ckpt_dir_close(&dir);
        hash = wi_ckpt_hash(data, bytes);
        word = (struct wi_ckpt_word){.numbers = {bytes, hash.half[0], hash.half[1]}};
        wi_free(data);
        WT_REQUIRE_OK(weft_all_gather(dup, &word, all, sizeof(word), WEFT_UINT8, NULL));
        WT_REQUIRE_OK(weft_broadcast(dup, &word, &word, sizeof(word), WEFT_UINT8, 0, NULL));
        WT_CHECK_OK(weft_comm_destroy(dup));
    }
    weft_comm_destroy(comm);
    weft_context_destroy(context);
}

static void unloadable(void)
{
    const char *folder = new_folder();

    CU_ASSERT_EQUAL(wt_run(2, rank_1_lies, (void *)(uintptr_t)folder, 30000), 0);
    CU_ASSERT_EQUAL(count(folder, "v1") + count(folder, "latest") + count(folder, ".weft-tmp-"), 0);
}

static const struct wt_case cases[] = {
    {"sequence numbers", sequences},
    {"names of data files", names_of_data},
    {"the manifest as data", manifest_as_data},
    {"sizes", sizes},
    {"folders that replace leaves", replace},
    {"rank 0 lies", ids},
    {"rank 1 lies", unloadable},
};
WT_UNIT_MAIN("ckpt_hostile", cases)
