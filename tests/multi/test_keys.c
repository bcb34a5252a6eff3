/* SPDX-License-Identifier: BSD-3-Clause */
/* Where keys are in a running rank: in memory that is not dumped, and nowhere else; and what its children get. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/secret.h"
#include "base/status.h"
#include "comm/comm.h"
#include "net/auth.h"
#include "net/store_client.h"
#include "tests/harness/harness.h"

extern char **environ;

#define KEY WI_JOB_KEY_BYTES
#define MASK 0x5a
#define CHUNK ((size_t)1 << 20)

/* What is looked for, masked so that it is not found here. */
struct needle {
    const char *what;
    unsigned char masked[KEY];
};

struct region {
    uintptr_t begin, end;
    int dumped;
};

static int regions_read(struct region *list, int capacity)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512], mode[8];
    unsigned long begin, end;
    int n = 0;
    while (f && n < capacity && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3)
            list[n++] = (struct region){begin, end, mode[0] == 'r' && mode[1] == 'w'};
        else if (n && !strncmp(line, "VmFlags:", 8) && strstr(line, " dd"))
            list[n - 1].dumped = 0;
    }
    if (f)
        fclose(f);
    return n;
}

static int found_in(const unsigned char *data, size_t bytes, const struct needle *needle)
{
    for (size_t at = 0; at + KEY <= bytes; at++) {
        size_t i = 0;
        while (i < KEY && (data[at + i] ^ MASK) == needle->masked[i])
            i++;
        if (i == KEY)
            return 1;
    }
    return 0;
}

/* Every writable page that a core dump would hold, but that of `buffer`. Returns how often a needle was found; `where`
 * takes the last. */
static int memory_search(const struct needle *needles, int n, char where[160])
{
    static struct region regions[4096];
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), nregions;
    unsigned char *buffer = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t looked_at = 0;
    int found = 0;
    WT_REQUIRE(memory >= 0 && buffer != MAP_FAILED);
    madvise(buffer, CHUNK, MADV_DONTDUMP);
    nregions = regions_read(regions, 4096);
    WT_REQUIRE(nregions > 10 && nregions < 4096);
    for (int r = 0; r < nregions; r++) {
        for (uintptr_t at = regions[r].begin; regions[r].dumped && at < regions[r].end; at += CHUNK - KEY) {
            size_t want = regions[r].end - at < CHUNK ? regions[r].end - at : CHUNK;
            ssize_t got = pread(memory, buffer, want, (off_t)at);
            looked_at += got > 0 ? (size_t)got : 0;
            for (int i = 0; i < n && got > 0; i++)
                if (found_in(buffer, (size_t)got, &needles[i])) {
                    found++;
                    snprintf(where, 160, "the %s stands in memory that is dumped, %lx-%lx", needles[i].what,
                             (unsigned long)regions[r].begin, (unsigned long)regions[r].end);
                }
        }
    }
    WT_CHECK(looked_at > 100000);
    munmap(buffer, CHUNK);
    close(memory);
    return found;
}

static void memory_has_none(const struct needle *needles, int n)
{
    char where[160];
    if (memory_search(needles, n, where))
        wt_fail(__FILE__, __LINE__, "%s", where);
}

static void needle_set(struct needle *needle, const char *what, const unsigned char *key)
{
    needle->what = what;
    for (int i = 0; i < KEY; i++)
        needle->masked[i] = key[i] ^ MASK;
}

/* The job key and all that is made from it. Nothing of it is left on this stack. */
static __attribute__((noinline)) int needles_of(const struct weft_comm *comm, struct needle *needles)
{
    static const char *const purposes[] = {WI_STORE_PURPOSE, "weft start-up link", "transport"};
    struct wi_auth_key *derived = wi_secret_alloc(sizeof(*derived));
    int n = 0;
    needle_set(&needles[n++], "job key", comm->job_key);
    for (int i = 0; i < 3 && derived; i++) {
        WT_CHECK_OK(wi_auth_derive(comm->job_key, KEY, comm->job, purposes[i], derived));
        needle_set(&needles[n++], purposes[i], derived->key);
    }
    wi_secret_free(derived);
    return n;
}

static int key_fd(void)
{
    unsigned char key[KEY];
    int fd = memfd_create("weft-job-key", 0);
    for (int i = 0; i < KEY; i++)
        key[i] = (unsigned char)(3 * i + 100);
    int ok = write(fd, key, sizeof(key)) == sizeof(key);
    explicit_bzero(key, sizeof(key));
    return ok ? fd : -1;
}

enum origin { ORIGIN_NONE, ORIGIN_FD, ORIGIN_FILE, ORIGIN_ID };

static weft_status create(enum origin origin, weft_context *context, int rank, int nranks, weft_unique_id *id,
                          weft_comm **comm)
{
    weft_unique_id mine;
    if (origin != ORIGIN_ID)
        return weft_comm_create_env(context, NULL, comm);
    if (rank == 0)
        WT_CHECK_OK(weft_unique_id_create(context, id));
    wt_sync();
    mine = *id;
    wt_sync();
    if (rank == 0)
        explicit_bzero(id, sizeof(*id));
    weft_status st = weft_comm_create_id(context, &mine, rank, nranks, NULL, comm);
    explicit_bzero(&mine, sizeof(mine));
    return st;
}

struct origin_case {
    enum origin origin;
    weft_unique_id *id;
    char path[512];
};

static void memory_body(int rank, int nranks, void *arg)
{
    struct origin_case *c = arg;
    char text[32];
    weft_context *context;
    weft_comm *comm, *half;
    struct needle needles[8];
    int fd = c->origin == ORIGIN_FD ? key_fd() : -1;
    if (fd >= 0) {
        snprintf(text, sizeof(text), "%d", fd);
        setenv("WEFT_JOB_KEY_FD", text, 1);
    }
    if (c->origin == ORIGIN_FILE)
        setenv("WEFT_JOB_KEY_FILE", c->path, 1);
    setenv("WEFT_TRANSPORTS", "tcp", 1); /* so that the ranks' own connections are authenticated, too */
    WT_REQUIRE_OK(weft_context_create(NULL, &context));
    WT_REQUIRE_OK(create(c->origin, context, rank, nranks, c->id, &comm));
    WT_CHECK_OK(weft_barrier(comm, NULL));
    WT_REQUIRE_OK(weft_comm_split(comm, rank % 2, 0, NULL, &half));
    WT_CHECK_OK(weft_barrier(comm, NULL));
    int n = needles_of(comm, needles);
    WT_CHECK_INT(n, 4);
    memory_has_none(needles, n);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(half));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    memory_has_none(needles, n);
}

static void run_memory(enum origin origin)
{
    struct origin_case *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    weft_unique_id *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char key[KEY];
    c->origin = origin;
    c->id = id;
    snprintf(c->path, sizeof(c->path), "%s/key", wt_temp_dir());
    for (int i = 0; i < KEY; i++)
        key[i] = (unsigned char)(5 * i + 7);
    int fd = open(c->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CU_ASSERT(fd >= 0 && write(fd, key, sizeof(key)) == (ssize_t)sizeof(key));
    explicit_bzero(key, sizeof(key));
    close(fd);
    CU_ASSERT_EQUAL(wt_run(4, memory_body, c, 60000), 0);
    munmap(c, sizeof(*c));
    munmap(id, sizeof(*id));
}

static void memory_none(void)
{
    run_memory(ORIGIN_NONE);
}

static void memory_fd(void)
{
    run_memory(ORIGIN_FD);
}

static void memory_file(void)
{
    run_memory(ORIGIN_FILE);
}

static void memory_id(void)
{
    run_memory(ORIGIN_ID);
}

/* The search finds what is there. */
static void search_body(int rank, int nranks, void *arg)
{
    struct needle needle;
    unsigned char *key = malloc(KEY), *secret = wi_secret_alloc(KEY);
    char where[160];
    (void)rank, (void)nranks, (void)arg;
    WT_REQUIRE(key && secret);
    for (int i = 0; i < KEY; i++)
        secret[i] = (unsigned char)(7 * i + 1);
    needle_set(&needle, "test key", secret);
    memory_has_none(&needle, 1);
    memcpy(key, secret, KEY);
    WT_CHECK_INT(memory_search(&needle, 1, where), 1);
    explicit_bzero(key, KEY);
    free(key);
    wi_secret_free(secret);
}

static void search_finds(void)
{
    CU_ASSERT_EQUAL(wt_run(1, search_body, NULL, 20000), 0);
}

/* A program that a rank starts has neither the key's descriptor nor rank 0's listening socket. */
static void child_body(int rank, int nranks, void *arg)
{
    int fds[2] = {key_fd(), getenv("WEFT_STORE_FD") ? atoi(getenv("WEFT_STORE_FD")) : -1}, status;
    char text[96];
    char *words[] = {"sh", "-c", text, NULL};
    weft_context *context;
    weft_comm *comm, *again;
    pid_t child;
    (void)nranks, (void)arg;
    WT_REQUIRE(fds[0] >= 0 && (rank || fds[1] >= 0));
    snprintf(text, sizeof(text), "%d", fds[0]);
    setenv("WEFT_JOB_KEY_FD", text, 1);
    snprintf(text, sizeof(text), "test -e /proc/self/fd/%d || test -e /proc/self/fd/%d", fds[0], fds[1]);
    WT_REQUIRE(!posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ));
    WT_CHECK(waitpid(child, &status, 0) == child && status == 0); /* before: it has */
    WT_REQUIRE_OK(weft_context_create(NULL, &context));
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    WT_REQUIRE(!posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ));
    WT_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    WT_CHECK_OK(weft_comm_create_env(context, NULL, &again)); /* this process still has them */
    WT_CHECK_OK(weft_comm_destroy(again));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

static void children(void)
{
    CU_ASSERT_EQUAL(wt_run(2, child_body, NULL, 60000), 0);
}

/* ---- The memory itself ---- */

static int page_has(const void *address, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long begin, end;
    int here = 0, has = 0;
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            here = (uintptr_t)address >= begin && (uintptr_t)address < end;
        else if (here && !strncmp(line, "VmFlags:", 8))
            has = strstr(line, flag) != NULL;
    }
    if (f)
        fclose(f);
    return has;
}

static void secrets(void)
{
    enum { MANY = 20000 };
    static unsigned char *all[MANY];
    static const unsigned char zero[WI_SECRET_MAX];
    int status;
    CU_ASSERT_PTR_NULL(wi_secret_alloc(WI_SECRET_MAX + 1));
    wi_secret_free(NULL);
    for (int i = 0; i < MANY; i++) {
        all[i] = wi_secret_alloc(WI_SECRET_MAX);
        CU_ASSERT_PTR_NOT_NULL_FATAL(all[i]);
        if (memcmp(all[i], zero, WI_SECRET_MAX))
            CU_FAIL("not zeroed");
        memset(all[i], i & 255, WI_SECRET_MAX);
    }
    CU_ASSERT(page_has(all[0], " dd") && page_has(all[MANY - 1], " dd"));
    for (int i = 0; i < MANY; i += 3)
        wi_secret_free(all[i]);
    for (int i = 0; i < MANY; i++)
        if (i % 3 && (all[i][0] != (i & 255) || all[i][WI_SECRET_MAX - 1] != (i & 255)))
            CU_FAIL("two secrets in one place");
    for (int i = 0; i < MANY; i += 3)
        CU_ASSERT_PTR_NOT_NULL_FATAL(all[i] = wi_secret_alloc(1));
    pid_t child = fork();
    if (child == 0) { /* sees zeros, and may clean up */
        int bad = memcmp(all[1], zero, WI_SECRET_MAX) != 0;
        for (int i = 0; i < MANY; i++)
            wi_secret_free(all[i]);
        _exit(bad);
    }
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    CU_ASSERT_EQUAL(all[1][0], 1);
    for (int i = 0; i < MANY; i++)
        wi_secret_free(all[i]);
}

static const struct wt_case cases[] = {
    {"memory for keys", secrets},
    {"a search of the memory finds a key", search_finds},
    {"keys of a job on one host", memory_none},
    {"keys from a descriptor", memory_fd},
    {"keys from a file", memory_file},
    {"keys from a unique id", memory_id},
    {"a child has no descriptor of them", children},
};

WT_UNIT_MAIN("keys", cases)
