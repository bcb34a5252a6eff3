/* Shared memory that runs out: a /dev/shm of a few pages, in a mount namespace, and a limit on file sizes. Either all works, or a
 * failure says what is missing; never SIGBUS, never a file left behind.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { RANKS = 2, MOST = 1 << 17 };

struct world {
    const char *transports, *arena;
    const char *disk;  /* tmpfs's size= */
    size_t file_bytes; /* limit; 0: none */
    int streamed;      /* messages go through rings, which ask for their memory when they are used first */
    /* What the ranks tell. */
    _Atomic int created[RANKS], memory[RANKS]; /* statuses */
    char text[RANKS][512];
};
static struct world *w;

static int64_t src[MOST], dst[MOST];

static void use(weft_comm *comm, int rank, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        src[i] = (int64_t)i * 5 + rank + 1;
    WT_REQUIRE_OK(weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL));
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != (int64_t)i * 10 + 3;
    WT_CHECK_INT(wrong, 0);
}

static void swap(weft_comm *comm, int rank, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        src[i] = (int64_t)i * 5 + rank + 1;
    WT_REQUIRE_OK(weft_send_recv(comm, src, n, !rank, 0, dst, n, !rank, 0, WEFT_INT64, NULL));
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != (int64_t)i * 5 + !rank + 1;
    WT_CHECK_INT(wrong, 0);
}

static void try_memory(weft_context *context, int rank)
{
    unsigned char *memory;
    weft_status st = weft_mem_alloc(context, 8 << 20, (void **)&memory);

    w->memory[rank] = st;
    if (st < 0) {
        WT_CHECK(strlen(weft_thread_error()) > 10);
        return;
    }
    memset(memory, 7, 8 << 20); /* all of it is there */
    WT_CHECK_OK(weft_mem_free(context, memory));
}

static void inner(int rank, int nranks, void *arg)
{
    char transports[64], arena[64];
    const char *settings[] = {transports,  arena, "COMM_INIT_TIMEOUT=10s", w->streamed ? "SHM_CMA=n" : NULL,
                              "SHM_MAP=n", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_status st;

    (void)nranks, (void)arg;
    if (w->file_bytes) {
        struct rlimit limit = {w->file_bytes, w->file_bytes};
        WT_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    snprintf(transports, sizeof transports, "TRANSPORTS=%s", w->transports);
    snprintf(arena, sizeof arena, "SHM_ARENA=%s", w->arena);
    config.settings = settings;
    st = weft_context_create(&config, &context);
    st = st < 0 ? st : weft_comm_create_env(context, NULL, &comm);
    w->created[rank] = st;
    snprintf(w->text[rank], sizeof w->text[rank], "%s", st < 0 ? weft_thread_error() : "");
    if (st >= 0) {
        use(comm, rank, 1);
        use(comm, rank, 1000);
        use(comm, rank, MOST);
        swap(comm, rank, MOST);
        try_memory(context, rank);
        use(comm, rank, MOST);
    }
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

static int files_left(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    WT_REQUIRE(dir != NULL);
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        fprintf(stderr, "%s is left in %s\n", d->d_name, path);
        count++;
    }
    closedir(dir);
    return count;
}

static void outer(int rank, int nranks, void *arg)
{
    char options[64];

    (void)rank, (void)nranks, (void)arg;
    snprintf(options, sizeof options, "mode=1777,size=%s", w->disk);
    WT_REQUIRE(unshare(CLONE_NEWNS) == 0);
    WT_REQUIRE(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    WT_REQUIRE(mount("none", "/dev/shm", "tmpfs", 0, options) == 0);
    WT_CHECK_INT(wt_run(RANKS, inner, NULL, 25000), 0);
    WT_CHECK_INT(files_left("/dev/shm"), 0);
}

static int may_mount(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
              mount("none", "/dev/shm", "tmpfs", 0, "size=64k"));
    waitpid(pid, &status, 0);
    if (status)
        wt_skip("no mount namespaces here (needs root, or the right to make them)");
    return status == 0;
}

/* 1: it worked; 0: refused, on all ranks; -1: a check failed. */
static int try_world(const char *transports, const char *arena, const char *disk, size_t file_bytes, int streamed)
{
    if (!w)
        w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(w, 0, sizeof *w);
    *w = (struct world){
        .transports = transports, .arena = arena, .disk = disk, .file_bytes = file_bytes, .streamed = streamed};
    int failed = wt_run(1, outer, NULL, 60000);
    CU_ASSERT_EQUAL(failed, 0);
    printf("# %s, arenas %s, /dev/shm of %s, files to %zu: rank 0 %s, rank 1 %s, memory %s\n", transports, arena, disk,
           file_bytes, weft_status_name(w->created[0]), weft_status_name(w->created[1]),
           weft_status_name(w->memory[0]));
    for (int r = 0; r < RANKS; r++)
        if (w->text[r][0])
            printf("#   rank %d: %s\n", r, w->text[r]);
    if (failed)
        return -1;
    CU_ASSERT((w->created[0] < 0) == (w->created[1] < 0)); /* all or none */
    return w->created[0] >= 0;
}

/* One of them names what is missing; the other may only hear that the first gave up. */
static void check_named(weft_status status, const char *word)
{
    CU_ASSERT(w->created[0] == status || w->created[1] == status);
    if (!strstr(w->text[0], word) && !strstr(w->text[1], word))
        printf("# nobody says \"%s\"\n", word);
    CU_ASSERT(strstr(w->text[0], word) || strstr(w->text[1], word));
}

static void fill_disk(int streamed)
{
    static const char *const sizes[] = {"4k", "64k", "256k", "1m", "2m", "4m", "8m", "16m", "64m"};
    int worked = 0, refused = 0;

    if (!may_mount())
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int got = try_world("shm", "named", sizes[i], 0, streamed);
        if (got == 0)
            check_named(WEFT_ENOSPC, "/dev/shm");
        CU_ASSERT(!worked || got == 1); /* more room is not worse */
        worked += got == 1;
        refused += got == 0;
    }
    CU_ASSERT(worked > 0 && refused > 0);
}

static void full_disk(void)
{
    fill_disk(0);
}

static void full_disk_streamed(void)
{
    fill_disk(1);
}

static void elsewhere(void)
{
    if (!may_mount())
        return;
    CU_ASSERT_EQUAL(try_world("shm", "auto", "4k", 0, 0), 1); /* memory without a file needs none of it */
    CU_ASSERT_EQUAL(try_world("shm,tcp", "auto", "4k", 0, 0), 1);
    int got = try_world("shm,tcp", "named", "4k", 0, 0); /* another transport does, or it is said */
    if (got == 0)
        check_named(WEFT_ENOSPC, "/dev/shm");
}

static void limit_files(const char *arena)
{
    static const size_t limits[] = {4096, 64 << 10, 1 << 20, 4 << 20, 256 << 20};
    int worked = 0, refused = 0;

    if (!may_mount())
        return;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int got = try_world("shm", arena, "64m", limits[i], 0);
        if (got == 0)
            check_named(WEFT_ENOSPC, "ulimit -f");
        worked += got == 1;
        refused += got == 0;
    }
    CU_ASSERT(worked > 0 && refused > 0);
}

static void small_files(void)
{
    limit_files("auto");
}

static void small_named_files(void)
{
    limit_files("named");
}

static const struct wt_case cases[] = {
    {"a full /dev/shm is named", full_disk},
    {"memory that is not in /dev/shm", elsewhere},
    {"a full /dev/shm is named when rings are used", full_disk_streamed},
    {"a limit on file sizes is named", small_files},
    {"a limit on file sizes is named, arenas in /dev/shm", small_named_files},
};
WT_UNIT_MAIN("shm_full", cases)
