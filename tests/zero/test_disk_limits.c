/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier where something is full, limited or forbidden. What changes the process happens in a child. */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/zero/disk_cases.h"

/* A file system of 4 MiB that only this process sees. */
static int mount_small(const char *folder)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=4m") == 0;
}

static int child_full(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk_extent extent = {8 << 20, 1, {NULL}};
    struct wi_disk *disk = NULL;

    CHILD_CHECK(mount_small(config.folder));
    CHILD_CHECK(wi_disk_create(&config, &extent, 1, &disk) == WEFT_ENOSPC);
    CHILD_CHECK(has("cannot allocate 8388608 bytes") && has(config.folder) && has("No space left on device"));
    CHILD_CHECK(!disk);
    /* What was allocated before it failed was given back. */
    extent.stream_bytes = 3 << 20;
    CHILD_CHECK(wi_disk_create(&config, &extent, 1, &disk) == WEFT_SUCCESS);
    CHILD_CHECK(wi_disk_destroy(disk) == WEFT_SUCCESS);
    return 0;
}

static int child_may_mount(void)
{
    return !mount_small(wt_disk_folder(0));
}

static void full(void)
{
    if (in_child(child_may_mount) != 0)
        wt_skip("this process may not mount a small file system, of which a full one would be made");
    else
        CU_ASSERT_EQUAL(in_child(child_full), 0);
}

static int child_limited(enum wi_disk_kind kind)
{
    struct wi_disk_config config = wt_disk_config(kind, 0);
    struct rlimit limit, small;
    struct wi_disk *disk = NULL;
    struct wt_model model;
    weft_status status;

    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 65536;
    setrlimit(RLIMIT_FSIZE, &small);
    CHILD_CHECK(wi_disk_create(&config, wt_extents, NEXTENTS, &disk) == WEFT_ESYS);
    CHILD_CHECK(has("File too large") && has("ulimit -f"));
    setrlimit(RLIMIT_FSIZE, &limit);
    status = wi_disk_create(&config, wt_extents, NEXTENTS, &disk);
    if (status == WEFT_ENOTSUP)
        return 0;
    CHILD_CHECK(status == WEFT_SUCCESS);
    wt_model_make(&model, 41);
    CHILD_CHECK(wt_model_put(&model, disk) == WEFT_SUCCESS);
    setrlimit(RLIMIT_FSIZE, &small);
    struct wt_pass pass = {0, 0};
    CHILD_CHECK(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, wt_compute, &pass, NULL) ==
                WEFT_ESYS);
    CHILD_CHECK(has("File too large") && has(disk->path));
    setrlimit(RLIMIT_FSIZE, &limit);
    pass.at = 0;
    CHILD_CHECK(wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, wt_compute, &pass, NULL) ==
                WEFT_SUCCESS);
    wt_model_compute(&model);
    CHILD_CHECK(wt_model_differs(&model, disk) == 0);
    CHILD_CHECK(wi_disk_destroy(disk) == WEFT_SUCCESS);
    wt_model_free(&model);
    return 0;
}

static int child_limited_uring(void)
{
    return child_limited(WI_DISK_URING);
}

static int child_limited_threads(void)
{
    return child_limited(WI_DISK_THREADS);
}

static void limited(void)
{
    CU_ASSERT_EQUAL(in_child(child_limited_uring), 0);
    CU_ASSERT_EQUAL(in_child(child_limited_threads), 0);
}

/* A step in a child that has lost some right; what the statistics say of it. */
static int child_step(const struct wi_disk_config *config, struct wi_disk_stats *stats)
{
    struct wi_disk *disk = NULL;
    struct wt_model model;

    CHILD_CHECK(wi_disk_create(config, wt_extents, NEXTENTS, &disk) == WEFT_SUCCESS);
    wt_model_make(&model, 51);
    CHILD_CHECK(wt_model_put(&model, disk) == WEFT_SUCCESS);
    CHILD_CHECK(step(disk) == WEFT_SUCCESS);
    wt_model_compute(&model);
    CHILD_CHECK(wt_model_differs(&model, disk) == 0);
    wi_disk_get_stats(disk, stats);
    CHILD_CHECK(wi_disk_destroy(disk) == WEFT_SUCCESS);
    wt_model_free(&model);
    return 0;
}

static int child_memlock(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct rlimit none = {0, 0};
    struct wi_disk_stats stats;
    int line;

    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    CHILD_CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    line = child_step(&config, &stats);
    CHILD_CHECK(strcmp(stats.backend, "threads") == 0 ||
                (!stats.fixed && stats.fixed_errno == ENOMEM && stats.requests_fixed == 0));
    CHILD_CHECK(stats.requests_plain > 0);
    return line;
}

/* How many threads of this process block SIGXFSZ and SIGTERM. */
static int threads_that_block(void)
{
    const unsigned long long both = 1ull << (SIGXFSZ - 1) | 1ull << (SIGTERM - 1);
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while (tasks && (entry = readdir(tasks))) {
        unsigned long long mask = 0;
        char path[300], line[256];
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "SigBlk: %llx", &mask) == 1)
                break;
        if (file)
            fclose(file);
        n += (mask & both) == both;
    }
    if (tasks)
        closedir(tasks);
    return n;
}

/* Enough for the slots, not for a large buffer. */
static int child_memlock_some(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct rlimit some = {1 << 20, 1 << 20};
    struct wi_disk *disk = NULL;
    struct wi_disk_stats stats;
    struct wi_disk_op *op;
    void *large, *small;

    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &some) == 0);
    CHILD_CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    CHILD_CHECK(wi_disk_create(&config, wt_extents, NEXTENTS, &disk) == WEFT_SUCCESS);
    wi_disk_get_stats(disk, &stats);
    if (strcmp(stats.backend, "threads") == 0 || !stats.fixed)
        return wi_disk_destroy(disk) == WEFT_SUCCESS ? 0 : __LINE__; /* an earlier kernel counts the rings, too */
    CHILD_CHECK(wi_disk_buffer_get(disk, 4 << 20, &large) == WEFT_SUCCESS);
    wi_disk_get_stats(disk, &stats);
    CHILD_CHECK(!stats.fixed && stats.fixed_errno == ENOMEM);
    CHILD_CHECK(wi_disk_buffer_get(disk, CHUNK, &small) == WEFT_SUCCESS);
    CHILD_CHECK(wi_disk_write(disk, 4, 0, 1, large, &op) == WEFT_SUCCESS &&
                wi_disk_wait(disk, op, UINT64_MAX) == WEFT_SUCCESS);
    wi_disk_get_stats(disk, &stats);
    CHILD_CHECK(stats.requests_fixed == 0 && stats.requests_plain > 0);
    CHILD_CHECK(wi_disk_write(disk, 4, 1, 1, small, &op) == WEFT_SUCCESS &&
                wi_disk_wait(disk, op, UINT64_MAX) == WEFT_SUCCESS);
    CHILD_CHECK(wi_disk_put(disk, 2, 0, 0, 1, "x") == WEFT_SUCCESS);
    wi_disk_get_stats(disk, &stats);
    CHILD_CHECK(stats.requests_fixed >= CHUNK / BLOCK + 1);
    CHILD_CHECK(wi_disk_destroy(disk) == WEFT_SUCCESS);
    return 0;
}

static void memlock(void)
{
    wt_disk_folder(0);
    if (geteuid() == 0)
        CU_ASSERT_EQUAL(chmod(wt_disk_folder(0), 0777), 0);
    CU_ASSERT_EQUAL(in_child(child_memlock), 0);
    CU_ASSERT_EQUAL(in_child(child_memlock_some), 0);
    CU_ASSERT_EQUAL(chmod(wt_disk_folder(0), 0755), 0);
}

/* Handlers of the program's signals do not run in the threads of the disk. */
static void signals(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_THREADS, 1);
    int before = threads_that_block(), during;
    struct wi_disk *disk = make(&config);

    CU_ASSERT_EQUAL(wi_disk_put(disk, 2, 0, 0, 1, "x"), WEFT_SUCCESS); /* one of them runs */
    during = threads_that_block();
    CU_ASSERT_EQUAL(during - before, (int)disk->threads);
    CU_ASSERT_EQUAL(wi_disk_destroy(disk), WEFT_SUCCESS);
}

static int child_unwritable(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk *disk = NULL;

    CHILD_CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    CHILD_CHECK(wi_disk_create(&config, wt_extents, NEXTENTS, &disk) == WEFT_ESYS);
    CHILD_CHECK(has(config.folder) && has("Permission denied"));
    return 0;
}

static void unwritable(void)
{
    CU_ASSERT_EQUAL(chmod(wt_disk_folder(0), 0555), 0);
    CU_ASSERT_EQUAL(in_child(child_unwritable), 0);
    CU_ASSERT_EQUAL(chmod(wt_disk_folder(0), 0755), 0);
}

/* The call of this number fails with EPERM from now on, as under a container's filter. */
static int forbid(long number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int child_forbidden(long number)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk_stats stats;
    struct wi_disk *disk = NULL;
    int line;

    CHILD_CHECK(forbid(number));
    line = child_step(&config, &stats);
    CHILD_CHECK(line || strcmp(stats.backend, "threads") == 0);
    CHILD_CHECK(line || stats.uring_errno != 0);
    config.kind = WI_DISK_URING;
    CHILD_CHECK(wi_disk_create(&config, wt_extents, NEXTENTS, &disk) == WEFT_ENOTSUP);
    CHILD_CHECK(has("io_uring"));
    return line;
}

static int child_no_setup(void)
{
    return child_forbidden(__NR_io_uring_setup);
}

static int child_no_enter(void)
{
    return child_forbidden(__NR_io_uring_enter);
}

static void forbidden(void)
{
    CU_ASSERT_EQUAL(in_child(child_no_setup), 0);
    CU_ASSERT_EQUAL(in_child(child_no_enter), 0);
}

static int child_no_fallocate(void)
{
    struct wi_disk_config config = wt_disk_config(WI_DISK_AUTO, 0);
    struct wi_disk_extent extent = {3 << 20, 1, {NULL}};
    struct wi_disk *disk = NULL;
    struct stat st;

    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHILD_CHECK(wi_disk_create(&config, &extent, 1, &disk) == WEFT_SUCCESS);
    CHILD_CHECK(fstat(disk->fd, &st) == 0 && st.st_size == 3 << 20);
    CHILD_CHECK(wi_disk_destroy(disk) == WEFT_SUCCESS);
    return 0;
}

static void no_fallocate(void)
{
    CU_ASSERT_EQUAL(in_child(child_no_fallocate), 0);
}

static const struct wt_case cases[] = {
    {"full file system", full},     {"limit of file sizes", limited},  {"memory may not be locked", memlock},
    {"signals", signals},           {"unwritable folder", unwritable}, {"io_uring is forbidden", forbidden},
    {"no fallocate", no_fallocate},
};

WT_UNIT_MAIN("disk_limits", cases)
