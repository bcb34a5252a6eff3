/* SPDX-License-Identifier: BSD-3-Clause */
/* Saves that end at any system call, and system calls, writes and allocations that fail: what is loaded afterwards is the newest
 * complete version or the one before, and the next save succeeds and leaves nothing behind.
 *
 * The program is linked with wrappers of the calls that change or read files. TRIALS: kills of three ranks. STRIDE: every such
 * allocation fails. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ckpt_model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/unit.h"

#ifndef TRIALS
#define TRIALS 20
#define STRIDE 23
#endif

/* ---- Wrappers ---- */

static atomic_long calls;  /* since armed */
static long fault_at;      /* 0: none */
static int fault_errno;    /* 0: the process ends */
static long armed_for_pid; /* others of the program's processes are left alone */

static void arm(long at, int err)
{
    armed_for_pid = getpid();
    fault_errno = err;
    atomic_store(&calls, 0);
    fault_at = at;
}

static int is_hit(void)
{
    if (!fault_at || armed_for_pid != getpid() || atomic_fetch_add(&calls, 1) + 1 != fault_at)
        return 0;
    if (!fault_errno)
        raise(SIGKILL);
    errno = fault_errno;
    return 1;
}

#define WRAP(type, name, parameters, arguments)         \
    type __real_##name parameters;                      \
    type __wrap_##name parameters;                      \
    type __wrap_##name parameters                       \
    {                                                   \
        return is_hit() ? -1 : __real_##name arguments; \
    }
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, renameat, (int from, const char *old, int to, const char *new), (from, old, to, new))
WRAP(int, renameat2, (int from, const char *old, int to, const char *new, unsigned flags), (from, old, to, new, flags))
WRAP(int, linkat, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP(ssize_t, pread, (int fd, void *data, size_t bytes, off_t at), (fd, data, bytes, at))
WRAP(int, fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    if (flags & O_CREAT) {
        va_start(ap, flags);
        mode = (mode_t)va_arg(ap, int);
        va_end(ap);
    }
    return is_hit() ? -1 : __real_openat(dir, path, flags, mode);
}

/* Somebody else puts a file there at the first deletion; NULL: nobody does. */
static const char *put_at_unlink;

int __real_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_unlinkat(int dir, const char *path, int flags)
{
    if (put_at_unlink && !strncmp(path, "rank-", 5)) {
        close(__real_openat(dir, put_at_unlink, O_WRONLY | O_CREAT, 0600));
        put_at_unlink = NULL;
    }
    return is_hit() ? -1 : __real_unlinkat(dir, path, flags);
}

/* Before it fails or ends, a part has been written. */
ssize_t __real_pwrite(int fd, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    if (fault_at && armed_for_pid == getpid() && atomic_load(&calls) + 1 == fault_at && bytes > 1)
        (void)!__real_pwrite(fd, data, bytes / 2, at);
    return is_hit() ? -1 : __real_pwrite(fd, data, bytes, at);
}

/* ---- Helpers ---- */

static const char *new_folder(void)
{
    static char path[600];
    static int n;

    snprintf(path, sizeof(path), "%s/faults%d", wt_temp_dir(), n++);
    return path;
}

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

static const struct wi_ckpt_options chain = {.keep = 2, .incremental = 1, .replace = 1};

/* What a crash or a failure may have left: `before`, or the version after it. Returns which. */
static int newest(const char *folder, int before, long at)
{
    int got = cm_load(folder, NULL, 0, NULL, 0, 1, (uint64_t)at);

    if (got != before && got != before + 1)
        wt_fail(__FILE__, __LINE__, "after call %ld version %d is loaded, not %d or the next: %s", at, got, before,
                got < 0 ? weft_thread_error() : "");
    return got;
}

/* The next save succeeds whatever was left, and nothing of it stays. */
static void save_next(const char *folder, int version)
{
    WT_CHECK_OK(cm_save_alone(folder, version, chain, 1, NULL));
    WT_CHECK_INT(cm_load(folder, NULL, 0, NULL, 0, 1, 3), version);
    WT_CHECK_INT(count(folder, ".weft-tmp-"), 0);
    WT_CHECK(count(folder, "step") <= 2);
}

/* ---- A process ends before each of the calls of a save ---- */

/* Returns whether it was killed. */
static int killed_save(const char *folder, int version, long at)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        arm(at, 0);
        _exit(cm_save_alone(folder, version, chain, 1, NULL) == WEFT_SUCCESS ? 0 : 1);
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    CU_ASSERT((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
}

static void every_kill(void)
{
    const char *folder = new_folder();
    int version = 1, same = 0, next = 0;
    long at = 1;

    save_next(folder, version);
    save_next(folder, ++version);
    for (; killed_save(folder, version + 1, at) && at < 1000; at++) {
        int got = newest(folder, version, at);

        same += got == version;
        next += got == version + 1;
        version = got;
        if (at % 3 == 0) /* otherwise the next one begins among leftovers */
            save_next(folder, ++version);
    }
    printf("# %ld kills: %d times the version before, %d times the new one\n", at - 1, same, next);
    CU_ASSERT(at > 40 && same > 20 && next > 3);
}

/* The same while a version is replaced. */
static void every_kill_replacing(void)
{
    const char *folder = new_folder();
    long at = 1;

    save_next(folder, 1);
    save_next(folder, 2);
    for (; killed_save(folder, 2, at) && at < 1000; at++)
        WT_CHECK_INT(cm_load(folder, NULL, 0, NULL, 0, 1, (uint64_t)at), 2);
    CU_ASSERT(at > 40);
}

/* ---- What others have beside a save ---- */

/* Returns whether it was killed. */
static int killed_export(const char *folder, const char *out, long at)
{
    static const char *const kinds[] = {"weight"};
    pid_t child = fork();
    int status;

    if (child == 0) {
        arm(at, 0);
        wi_ckpt_export(folder, "step1", out, kinds, 1, 0);
        _exit(access(out, F_OK) == 0 ? 0 : 1); /* by this one, or by the one before, which ended behind its commit */
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    CU_ASSERT((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
}

/* An export that ends at any of its calls leaves nothing that a save takes for its own: it might still be going on. */
static void every_kill_of_an_export(void)
{
    const char *folder = new_folder();
    char out[700];
    int left;
    long at = 1;

    save_next(folder, 1);
    snprintf(out, sizeof(out), "%s/exported", folder);
    while (killed_export(folder, out, at) && at < 1000)
        at++;
    left = count(folder, ".weft-");
    CU_ASSERT(at > 10 && left > 3);
    save_next(folder, 2);
    CU_ASSERT_EQUAL(count(folder, ".weft-"), left);
}

/* A file that comes into a leftover while it is deleted stays. */
static void file_that_comes(void)
{
    const char *folder = new_folder();
    char path[700], file[800];

    save_next(folder, 1);
    snprintf(path, sizeof(path), "%s/.weft-tmp-0123456789abcdef0123456789abcdef", folder);
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
    snprintf(file, sizeof(file), "%s/rank-00000.index", path);
    close(open(file, O_WRONLY | O_CREAT, 0600));
    put_at_unlink = "thesis.txt";
    CU_ASSERT_EQUAL(cm_save_alone(folder, 2, chain, 1, NULL), WEFT_SUCCESS);
    CU_ASSERT_PTR_NULL(put_at_unlink);
    snprintf(file, sizeof(file), "%s/thesis.txt", path);
    CU_ASSERT_EQUAL(access(file, F_OK), 0);
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 3), 2);
}

/* ---- Each of the calls fails ---- */

static void every_failure_of(int err)
{
    const char *folder = new_folder();
    int version = 1, failed = 0, unsaid = 0;
    long at = 1;

    save_next(folder, version);
    save_next(folder, ++version);
    for (;; at++) {
        weft_status st;
        long made;
        int got;

        arm(at, err);
        st = cm_save_alone(folder, version + 1, chain, 1, NULL);
        made = atomic_load(&calls);
        arm(0, 0);
        unsaid += st < 0 && !strstr(weft_thread_error(), strerror(err));
        failed += st < 0;
        got = newest(folder, version, at);
        if (st >= 0)
            CU_ASSERT_EQUAL(got, version + 1);
        version = got;
        if (made < at)
            break;
        if (at % 3 == 0)
            save_next(folder, ++version);
    }
    printf("# %s: %d of %ld calls make a save fail\n", strerror(err), failed, at - 1);
    CU_ASSERT_EQUAL(unsaid, 0);
    CU_ASSERT(failed > 15);
    save_next(folder, ++version);
}

static void every_failure(void)
{
    every_failure_of(EIO);
    every_failure_of(ENOSPC);
}

/* Reads that fail: a load fails, and says so. */
static void every_read(void)
{
    const char *folder = new_folder();
    long at = 1;

    save_next(folder, 1);
    for (;; at++) {
        long made;
        int got;

        arm(at, EIO);
        got = cm_load(folder, "step1", 0, NULL, 0, 1, 5);
        made = atomic_load(&calls);
        arm(0, 0);
        if (made < at) {
            CU_ASSERT_EQUAL(got, 1);
            break;
        }
        CU_ASSERT(got < 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "Input/output error"));
    }
    CU_ASSERT(at > 20);
}

/* ---- A disk that is full ---- */

static void too_large(void)
{
    struct wi_ckpt_options options = {0};
    const char *folder = new_folder();
    struct rlimit before, small;

    save_next(folder, 1);
    CU_ASSERT_EQUAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 20000;
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
    CU_ASSERT_EQUAL(cm_save_alone(folder, 2, options, 1, NULL), WEFT_ESYS);
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), strerror(EFBIG)));
    CU_ASSERT_EQUAL(cm_load(folder, NULL, 0, NULL, 0, 1, 3), 1);
    save_next(folder, 2);
}

struct trial {
    const char *folder;
    int version, victim; /* rank; -1: all */
    long at;             /* a call; or, if negative, microseconds */
    int small;           /* a rank has a full disk */
    atomic_int *ready;   /* ranks that begin to save; in memory that all share */
};

static void save_ranks(int rank, int nranks, void *arg)
{
    const struct trial *t = arg;
    static struct cm_pieces pieces;
    struct cm_save save = {t->folder, t->version, 0, chain};
    struct wi_ckpt *ckpt;
    weft_context *context;
    weft_comm *comm;
    weft_status st;

    WT_REQUIRE_OK(weft_context_create(NULL, &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    WT_REQUIRE_OK(wi_ckpt_create(comm, 10ull * 1000000000, &ckpt));
    cm_cut(&pieces, rank, nranks, 7);
    save.options.incremental = !t->small;
    wt_sync();
    if (t->ready)
        atomic_fetch_add(t->ready, 1);
    if (rank == t->victim && t->at > 0)
        arm(t->at, t->small ? ENOSPC : 0);
    st = cm_save_pieces(ckpt, &save, &pieces, NULL);
    arm(0, 0);
    if (t->small) {
        WT_CHECK_STATUS(st, WEFT_ENOSPC);
        WT_CHECK(strstr(weft_thread_error(), strerror(ENOSPC)) != NULL);
        WT_CHECK(rank == 1 || !strncmp(weft_thread_error(), "rank 1: ", 8));
    } else if (t->victim == rank && t->at > 0) {
        raise(SIGKILL); /* it made fewer calls */
    }
    cm_free(&pieces);
    wi_ckpt_destroy(ckpt);
    weft_comm_destroy(comm);
    weft_context_destroy(context);
}

/* One rank's failure is everybody's. Its calls open the temporary folder; create, write and sync data and an index. */
static void one_rank_full(void)
{
    struct trial t = {.folder = new_folder(), .version = 2, .victim = 1, .small = 1};

    save_next(t.folder, 1);
    for (t.at = 1; t.at <= 8; t.at++) {
        CU_ASSERT_EQUAL(wt_run(3, save_ranks, &t, 30000), 0);
        CU_ASSERT_EQUAL(cm_load(t.folder, NULL, 0, NULL, 0, 1, 3), 1);
    }
    CU_ASSERT_EQUAL(count(t.folder, ".weft-tmp-"), 0);
}

/* A real one, of 160 kB: it holds two or three versions of 50 kB. */
static void full_disk(void)
{
    static const struct wi_ckpt_options all = {0};
    char folder[600];
    pid_t child;
    int status;

    snprintf(folder, sizeof(folder), "%s", new_folder());
    mkdir(folder, 0700);
    child = fork();
    if (child == 0) {
        int version = 0;
        weft_status st = WEFT_SUCCESS;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("weft", folder, "tmpfs", 0, "size=160k") < 0)
            _exit(77);
        while (st >= 0 && version < 10)
            st = cm_save_alone(folder, ++version, all, 1, NULL);
        _exit(st == WEFT_ENOSPC && strstr(weft_thread_error(), strerror(ENOSPC)) && version > 1 &&
                      cm_load(folder, NULL, 0, NULL, 0, 1, 4) == version - 1 && count(folder, ".weft-tmp-") == 0
                  ? 0
                  : 1);
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        wt_skip("no file system may be mounted here");
    else
        CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- Three ranks, some of which are killed ---- */

static int killed_ranks(struct trial *t)
{
    struct wt_job *job = wt_job_start(3, save_ranks, t);
    uint64_t now;

    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    if (t->at > 0) {
        wt_job_expect_signal(job, t->victim, SIGKILL);
        return wt_job_wait(job, 30000);
    }
    now = wt_now_ms();
    while (atomic_load(t->ready) < 3 && wt_now_ms() - now < wt_slow_ms(30000))
        usleep(100);
    usleep((useconds_t)-t->at);
    for (int r = 0; r < 3; r++)
        if (t->victim < 0 || t->victim == r)
            kill(wt_job_pid(job, r), SIGKILL);
    wt_job_wait(job, 30000); /* who was not killed may be done, or fail: what is left on the disk counts */
    return wt_now_ms() - now > wt_slow_ms(30000);
}

static void kills_of_ranks(void)
{
    struct trial t = {.folder = new_folder()};
    uint64_t seed = 2024;
    int version = 1;

    save_next(t.folder, version);
    save_next(t.folder, ++version);
    for (int i = 0; i < TRIALS; i++) {
        t.version = version + 1;
        t.victim = (int)(cm_random(&seed) % 3);
        t.at = 1 + (long)(cm_random(&seed) % (t.victim ? 30 : 60));
        CU_ASSERT_EQUAL(killed_ranks(&t), 0);
        version = newest(t.folder, version, i);
        if (i % 4 == 3)
            save_next(t.folder, ++version);
    }
}

/* Whenever it is: nothing that is checked depends on the moment. */
static void kills_at_any_time(void)
{
    struct trial t = {.folder = new_folder()};
    uint64_t seed = 77;
    int version = 1;

    t.ready = mmap(NULL, sizeof(*t.ready), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(t.ready != MAP_FAILED);
    wt_report_to("/dev/null"); /* ranks that fail because another one was killed are no news */
    save_next(t.folder, version);
    for (int i = 0; i < TRIALS / 2; i++) {
        t.version = version + 1;
        t.victim = (int)(cm_random(&seed) % 4) - 1;
        t.at = -(long)(1 + cm_random(&seed) % 40000);
        atomic_store(t.ready, 0);
        CU_ASSERT_EQUAL(killed_ranks(&t), 0);
        version = newest(t.folder, version, i);
        if (i % 4 == 3)
            save_next(t.folder, ++version);
    }
    wt_report_to(NULL);
    munmap(t.ready, sizeof(*t.ready));
}

/* ---- Each of the allocations fails, jansson's, too ---- */

static int one_export(const char *folder, const char *out)
{
    static const char *const kinds[] = {"weight"};

    return wi_ckpt_export(folder, "step1", out, kinds, 1, 20000);
}

static void every_allocation(void)
{
    char folder[700], other[720], out[800];
    long n, seen = 0;
    int version = 1, failed = 0, got;

    snprintf(folder, sizeof(folder), "%s", new_folder());
    snprintf(other, sizeof(other), "%s-other", folder);
    json_set_alloc_funcs(wi_malloc, wi_free);
    save_next(folder, version);
    for (n = 1;; n += STRIDE) {
        weft_status st;

        wi_alloc_fail_nth(n);
        st = cm_save_alone(folder, version + 1, chain, 1, NULL);
        seen = wi_alloc_fail_nth(0);
        failed += st < 0;
        got = newest(folder, version, n);
        CU_ASSERT(st < 0 || got == version + 1);
        version = got;
        if (seen < n)
            break;
        if (st >= 0) /* it could do without, but old versions may still be there */
            save_next(folder, ++version);
    }
    printf("# %d of %ld allocations make a save fail\n", failed, n / STRIDE);
    CU_ASSERT(failed > 100 / STRIDE);
    save_next(folder, ++version);
    CU_ASSERT_EQUAL(cm_save_alone(other, 1, chain, 1, NULL), WEFT_SUCCESS);
    for (n = 1;; n += STRIDE) {
        wi_alloc_fail_nth(n);
        got = cm_load(other, NULL, 0, NULL, 0, 1, 5);
        seen = wi_alloc_fail_nth(0);
        CU_ASSERT(got < 0 || got == 1);
        if (seen < n)
            break;
    }
    CU_ASSERT_EQUAL(got, 1);
    snprintf(out, sizeof(out), "%s/exported", other);
    for (n = 1;; n += STRIDE) {
        wi_alloc_fail_nth(n);
        got = one_export(other, out);
        seen = wi_alloc_fail_nth(0);
        CU_ASSERT_EQUAL(access(out, F_OK), got < 0 ? -1 : 0);
        CU_ASSERT_EQUAL(count(other, ".weft-tmp-"), 0);
        if (seen < n || got >= 0)
            break;
    }
    CU_ASSERT_EQUAL(got, WEFT_SUCCESS);
    json_set_alloc_funcs(malloc, free);
}

static const struct wt_case cases[] = {
    {"killed before every call", every_kill},
    {"killed while replacing", every_kill_replacing},
    {"an export that was killed", every_kill_of_an_export},
    {"a file that comes", file_that_comes},
    {"every call fails", every_failure},
    {"every read fails", every_read},
    {"a file too large", too_large},
    {"a full disk", full_disk},
    {"one rank's disk is full", one_rank_full},
    {"ranks killed at calls", kills_of_ranks},
    {"ranks killed at any time", kills_at_any_time},
    {"every allocation fails", every_allocation},
};

/* Thousands of saves, each of which syncs a dozen times: in memory, where there is a folder for it. */
int main(int argc, char **argv)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    return wt_unit_main("ckpt_faults", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
