/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up with real processes: every provider, missing and dying ranks, wrong keys, strangers; and its parts. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "tests/harness/harness.h"
#include "net/bootstrap.h"
#include "net/bootstrap_key.h"
#include "net/env.h"

#define MS 1000000ull

static const struct wi_bootstrap_settings none = {.job_key_fd = -1};

/* As comm does: from the environment of the harness. */
static struct wi_bootstrap_settings launched(void)
{
    return (struct wi_bootstrap_settings){.job_key_fd = -1,
                                          .store_addr = getenv("WEFT_STORE_ADDR"),
                                          .store_port = atoi(getenv("WEFT_STORE_PORT")),
                                          .job = getenv("WEFT_JOB")};
}

static uint64_t in_ms(unsigned ms)
{
    return wi_deadline_ns(wt_slow_ms(ms) * MS);
}

static void check_gather(struct wi_bootstrap *b, size_t bytes, unsigned char salt)
{
    size_t nranks = (size_t)b->nranks;
    unsigned char *mine = malloc(bytes + 1), *all = calloc(nranks, bytes + 1);
    memset(mine, b->rank * 7 + salt, bytes);
    WT_CHECK_OK(b->all_gather(b, mine, bytes, all, in_ms(20000)));
    for (size_t r = 0; r < nranks; r++)
        for (size_t i = 0; i < bytes; i++)
            if (all[r * bytes + i] != (unsigned char)(r * 7 + salt)) {
                wt_fail(__FILE__, __LINE__, "wrong byte %zu of rank %zu, %zu bytes each", i, r, bytes);
                i = bytes, r = nranks;
            }
    free(mine);
    free(all);
}

static void env_body(int rank, int nranks, void *arg)
{
    (void)arg;
    for (int again = 0; again < 3; again++) {
        struct wi_bootstrap_settings s = launched();
        struct wi_bootstrap *b;
        WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
        WT_CHECK(b->rank == rank && b->nranks == nranks);
        check_gather(b, 8, (unsigned char)again);
        check_gather(b, 0, 0);
        check_gather(b, 1 + (size_t)again * 97, 3);
        if (nranks <= 8)
            check_gather(b, 65536, 9);
        WT_CHECK_STATUS(b->all_gather(b, "", 65537, NULL, in_ms(100)), WEFT_EINVAL);
        b->destroy(b);
    }
}

static void env_sizes(void)
{
    const int sizes[] = {1, 2, 3, 5, 8, 16, 64};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        CU_ASSERT_EQUAL(wt_run(sizes[i], env_body, NULL, 60000), 0);
}

static void says(const char *part)
{
    if (!strstr(wi_fail_text(), part))
        wt_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", wi_fail_text(), part);
}

/* ---- Ranks that do not come, or go ---- */

static void missing_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    (void)nranks;
    if (rank == 3 || rank == 7)
        return;
    WT_CHECK_STATUS(wi_bootstrap_env(&s, in_ms(*(unsigned *)arg), &b), WEFT_ETIMEDOUT);
    says("ranks 3, 7 (of 8) did not join within");
}

static void missing_ranks(void)
{
    unsigned ms = 1500;
    CU_ASSERT_EQUAL(wt_run(8, missing_body, &ms, 20000), 0);
    struct wt_job *job = wt_job_start(8, missing_body, &ms);
    for (int i = 0; job && i < 16; i++) { /* the ranks do not run when the deadline passes */
        usleep((i == 0 ? 700 : i == 8 ? wt_slow_ms(ms) : 0) * 1000);
        kill(wt_job_pid(job, i % 8), i < 8 ? SIGSTOP : SIGCONT);
    }
    CU_ASSERT(job && wt_job_wait(job, 20000) == 0);
}

static void leaderless_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    (void)nranks, (void)arg;
    if (rank == 0)
        return;
    WT_CHECK_STATUS(wi_bootstrap_env(&s, in_ms(500), &b), WEFT_ETIMEDOUT);
    says("rank 0 (of 3) did not join within");
    says(" s, or gave up before: no store at local socket @weft-");
}

static void missing_rank_0(void)
{
    CU_ASSERT_EQUAL(wt_run(3, leaderless_body, NULL, 20000), 0);
}

static void dying_body(int rank, int nranks, void *arg)
{
    int victim = *(int *)arg;
    char text[32];
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    int all[16];
    WT_REQUIRE(nranks <= 16);
    WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    wt_sync();
    if (rank == victim) {
        wt_rank_leaves();
        _exit(0);
    }
    uint64_t begin = wi_now_ns();
    WT_CHECK_STATUS(b->all_gather(b, &rank, sizeof(rank), all, in_ms(20000)), WEFT_EPEER);
    snprintf(text, sizeof(text), "rank %d ", victim);
    says(text);
    says("gone");
    WT_CHECK(wi_now_ns() - begin < wt_slow_ms(5000) * MS);
    WT_CHECK_STATUS(b->all_gather(b, &rank, sizeof(rank), all, in_ms(20000)), WEFT_EPEER);
    b->destroy(b);
}

static void dying_rank(void)
{
    const int victims[] = {5, 0, 1};
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(wt_run(8, dying_body, (void *)&victims[i], 40000), 0);
}

static void late_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    int all[8];
    (void)nranks, (void)arg;
    WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    check_gather(b, 4, 1);
    if (rank != 4) {
        WT_CHECK_STATUS(b->all_gather(b, &rank, sizeof(rank), all, in_ms(1500)), WEFT_ETIMEDOUT);
        says("rank 4 (of 6) did not take part in start-up exchange 2");
    }
    wt_sync();
    b->destroy(b);
}

static void late_rank(void)
{
    CU_ASSERT_EQUAL(wt_run(6, late_body, NULL, 40000), 0);
}

static void mismatch_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    char all[64];
    (void)nranks, (void)arg;
    WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    WT_CHECK_STATUS(b->all_gather(b, "12345678", rank == 1 ? 8 : 4, all, in_ms(20000)), WEFT_EMISMATCH);
    says("gathers");
    wt_sync();
    b->destroy(b);
}

static void different_sizes(void)
{
    CU_ASSERT_EQUAL(wt_run(2, mismatch_body, NULL, 40000), 0);
}

static void twin_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    (void)arg;
    if (rank == 2)
        setenv("WEFT_RANK", "1", 1);
    setenv("WEFT_NRANKS", nranks == 3 ? "3" : rank == 1 ? "3" : "2", 1);
    unsetenv("WEFT_LOCAL_RANK");
    unsetenv("WEFT_LOCAL_NRANKS");
    wt_sync();
    weft_status st = wi_bootstrap_env(&s, in_ms(nranks == 3 && rank == 0 ? 20000 : 1500), &b);
    WT_CHECK(st == WEFT_EINVAL || st == WEFT_ETIMEDOUT);
    if (st == WEFT_ETIMEDOUT)
        says("did not join"); /* in the words of rank 0, or of another one whose time is over first */
    says(nranks == 3 ? "same rank" : "says the job has 3 ranks, rank 0 says 2");
}

static void contradictions(void)
{
    CU_ASSERT_EQUAL(wt_run(3, twin_body, NULL, 40000), 0);
    CU_ASSERT_EQUAL(wt_run(2, twin_body, NULL, 40000), 0);
}

/* ---- Keys and strangers ---- */

static int key_fd(int fill)
{
    unsigned char key[32];
    int fd = memfd_create("key", 0);
    memset(key, fill, sizeof(key));
    return write(fd, key, sizeof(key)) == sizeof(key) ? fd : -1;
}

static void key_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    int same = *(int *)arg;
    (void)nranks;
    s.job_key_fd = key_fd(rank == 1 && !same ? 2 : 1);
    if (same) {
        WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
        WT_CHECK(b->has_secret && b->job_key[0] == 1 && b->job_key[31] == 1);
        check_gather(b, 16, 2);
        b->destroy(b);
        return;
    }
    WT_CHECK_STATUS(wi_bootstrap_env(&s, in_ms(1000), &b), rank == 1 ? WEFT_EAUTH : WEFT_ETIMEDOUT);
    says(rank == 1 ? "another job key" : "rank 1 (of 3) did not join");
}

static void job_keys(void)
{
    int same = 1;
    CU_ASSERT_EQUAL(wt_run(3, key_body, &same, 40000), 0);
    same = 0;
    CU_ASSERT_EQUAL(wt_run(3, key_body, &same, 40000), 0);
}

static atomic_int flood_stop;
static atomic_long flood_count;

/* Silent connections, junk, half a valid greeting: as a port scan would, but faster. */
static void *flood(void *arg)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t) * (int *)arg), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[64], n = 0;
    unsigned char junk[700] = "WFTA\1\1";
    while (!atomic_load(&flood_stop)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fd < 0 || (connect(fd, (struct sockaddr *)&at, sizeof(at)) && errno != EINPROGRESS)) {
            if (fd >= 0)
                close(fd);
            sched_yield();
            continue;
        }
        long i = atomic_fetch_add(&flood_count, 1);
        if (i % 3 == 1 && !wi_random(junk + 6, sizeof(junk) - 6))
            send(fd, junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i % 3 == 2)
            send(fd, junk, 50, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n == 64)
            close(fds[--n]);
        fds[n++] = fd;
    }
    while (n)
        close(fds[--n]);
    return NULL;
}

static void flooded_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = launched();
    struct wi_bootstrap *b;
    pthread_t thread;
    int port = (int)s.store_port;
    (void)nranks, (void)arg;
    s.job_key_fd = key_fd(3); /* without a key ranks of one host meet at local sockets */
    if (rank == 4) {
        /* The last rank comes once the flood is well under way, so that the store is under it all the while. */
        pthread_create(&thread, NULL, flood, &port);
        while (atomic_load(&flood_count) < 500)
            sched_yield();
    }
    WT_CHECK_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    atomic_store(&flood_stop, 1);
    if (rank == 4)
        pthread_join(thread, NULL);
    WT_REQUIRE(wt_failures() == 0);
    check_gather(b, 100, 5);
    b->destroy(b);
}

static void strangers(void)
{
    CU_ASSERT_EQUAL(wt_run(5, flooded_body, NULL, 60000), 0);
}

/* ---- Unique id, file, callbacks ---- */

static void id_body(int rank, int nranks, void *arg)
{
    weft_unique_id *id = arg;
    struct wi_bootstrap *b;
    if (rank == 0)
        WT_CHECK_OK(wi_unique_id_create(&none, id));
    wt_sync();
    WT_REQUIRE_OK(wi_bootstrap_id(&none, id, rank, nranks, in_ms(20000), &b));
    WT_CHECK(b->has_secret);
    check_gather(b, 24, 1);
    b->destroy(b);
}

static void unique_ids(void)
{
    weft_unique_id *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_EQUAL(wt_run(1, id_body, id, 40000), 0);
    CU_ASSERT_EQUAL(wt_run(5, id_body, id, 40000), 0);
    munmap(id, sizeof(*id));
}

static void damaged_body(int rank, int nranks, void *arg)
{
    weft_unique_id id, bad;
    struct wi_bootstrap *b;
    (void)rank, (void)nranks, (void)arg;
    WT_REQUIRE_OK(wi_unique_id_create(&none, &id));
    for (int i = 0; i < WEFT_UNIQUE_ID_BYTES; i++) {
        bad = id;
        bad.bytes[i] ^= 0x10;
        WT_CHECK_STATUS(wi_bootstrap_id(&none, &bad, 0, 1, in_ms(100), &b), WEFT_EINVAL);
    }
    memset(&bad, 0, sizeof(bad));
    WT_CHECK_STATUS(wi_bootstrap_id(&none, &bad, 0, 1, in_ms(100), &b), WEFT_EINVAL);
    WT_CHECK_STATUS(wi_bootstrap_id(&none, &id, 2, 2, in_ms(100), &b), WEFT_EINVAL);
}

static void damaged_ids(void)
{
    CU_ASSERT_EQUAL(wt_run(1, damaged_body, NULL, 20000), 0);
}

static void file_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap *b;
    const char *path = arg;
    struct stat st;
    WT_REQUIRE_OK(wi_bootstrap_file(&none, path, rank, nranks, in_ms(20000), &b));
    check_gather(b, 10, 4);
    wt_sync();
    WT_CHECK(stat(path, &st) != 0);
    b->destroy(b);
}

static int stale_file(const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    int ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

static void orphan_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap *b;
    (void)rank, (void)nranks;
    WT_CHECK_STATUS(wi_bootstrap_file(&none, arg, 0, 2, in_ms(300), &b), WEFT_ETIMEDOUT);
    WT_CHECK_STATUS(wi_bootstrap_file(&none, arg, 1, 2, in_ms(300), &b), WEFT_ETIMEDOUT); /* too late */
    says("rank 0 (of 2) did not join within");
    says(" s, or gave up before: bootstrap file \"");
    says("/meet\": No such file or directory");
}

static void files(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/meet", wt_temp_dir());
    CU_ASSERT_EQUAL(wt_run(4, file_body, path, 40000), 0);
    CU_ASSERT(stale_file(path, 0600, "rubbish of an earlier run"));
    CU_ASSERT_EQUAL(wt_run(4, file_body, path, 40000), 0);
    CU_ASSERT(stale_file(path, 0644, "rubbish that others could have written"));
    CU_ASSERT_EQUAL(wt_run(3, file_body, path, 40000), 0);
    CU_ASSERT_EQUAL(wt_run(1, orphan_body, path, 40000), 0);
    CU_ASSERT(access(path, F_OK) != 0);

    /* A well-formed file whose server is dead. */
    FILE *f = fopen(path, "w");
    fprintf(f, "weft-bootstrap 1 ");
    for (int i = 0; i < WEFT_UNIQUE_ID_BYTES; i++)
        fprintf(f, "00");
    fprintf(f, "\n");
    fclose(f);
    chmod(path, 0600);
    CU_ASSERT_EQUAL(wt_run(3, file_body, path, 40000), 0);
}

struct board {
    unsigned char slots[4][65536];
};

static int board_gather(void *arg, const void *mine, size_t mine_bytes, void *all, uint64_t timeout_ns)
{
    struct board *board = ((struct board **)arg)[0];
    int rank = *((int **)arg)[1];
    if (!timeout_ns)
        return 1;
    memcpy(board->slots[rank], mine, mine_bytes);
    wt_sync();
    for (int i = 0; i < 4; i++)
        memcpy((unsigned char *)all + (size_t)i * mine_bytes, board->slots[i], mine_bytes);
    wt_sync();
    return 0;
}

static int broken_gather(void *arg, const void *mine, size_t mine_bytes, void *all, uint64_t timeout_ns)
{
    (void)arg, (void)mine, (void)mine_bytes, (void)all, (void)timeout_ns;
    return 42;
}

static void oob_body(int rank, int nranks, void *arg)
{
    void *args[2] = {arg, &rank};
    weft_oob oob = {sizeof(oob), rank, nranks, board_gather, args}, bad = oob;
    struct wi_bootstrap *b;
    WT_REQUIRE_OK(wi_bootstrap_oob(&none, &oob, in_ms(20000), &b));
    WT_CHECK(b->has_secret);
    check_gather(b, 77, 6);
    check_gather(b, 65536, 8);
    b->destroy(b);
    bad.rank = nranks;
    WT_CHECK_STATUS(wi_bootstrap_oob(&none, &bad, in_ms(20000), &b), WEFT_EINVAL);
    bad = oob;
    bad.all_gather = broken_gather;
    WT_CHECK_STATUS(wi_bootstrap_oob(&none, &bad, in_ms(20000), &b), WEFT_EPEER);
    says("42");
}

static void callbacks(void)
{
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_EQUAL(wt_run(4, oob_body, board, 40000), 0);
    munmap(board, sizeof(*board));
}

/* ---- Environments ---- */

struct env_case {
    const char *vars[8]; /* "NAME=value", NULL-ended */
    weft_status status;
    const char *text; /* in the message; or the job's name */
    int rank, nranks, local_rank, local_nranks;
    const char *host; /* NULL: one host */
};

static const struct env_case env_cases[] = {
    {{NULL}, WEFT_SUCCESS, "single", 0, 1, 0, 1, NULL},
    {{"WEFT_RANK=1", "WEFT_NRANKS=2"}, WEFT_ECONFIG, "WEFT_STORE_ADDR", 0, 0, 0, 0, NULL},
    /* A loopback address says one host. */
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=5"}, WEFT_SUCCESS, "torch:5", 1, 2, -1, -1, NULL},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.2", "MASTER_PORT=5"}, WEFT_SUCCESS, "torch:5", 1, 2, -1, -1, NULL},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=5", "LOCAL_WORLD_SIZE=1"},
     WEFT_SUCCESS,
     "torch:5",
     1,
     2,
     -1,
     1,
     NULL},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=localhost.example", "MASTER_PORT=5"},
     WEFT_SUCCESS,
     "torch:5",
     1,
     2,
     -1,
     -1,
     "localhost.example"},
    {{"WEFT_RANK=2", "WEFT_NRANKS=2"}, WEFT_ECONFIG, "WEFT_RANK=2 is not below WEFT_NRANKS=2", 0, 0, 0, 0, NULL},
    {{"WEFT_RANK=", "WEFT_NRANKS=2"}, WEFT_ECONFIG, "WEFT_RANK is empty", 0, 0, 0, 0, NULL},
    {{"WEFT_RANK=0"}, WEFT_ECONFIG, "WEFT_NRANKS is not set", 0, 0, 0, 0, NULL},
    /* Half a launcher is none, and not a job of one rank. */
    {{"RANK=1"}, WEFT_ECONFIG, "RANK is set and WORLD_SIZE is not", 0, 0, 0, 0, NULL},
    {{"WORLD_SIZE=2"}, WEFT_ECONFIG, "WORLD_SIZE is set and RANK is not", 0, 0, 0, 0, NULL},
    {{"PMI_RANK=1", "PMI_SIZE=2"}, WEFT_ECONFIG, "PMI_FD", 0, 0, 0, 0, NULL},
    {{"PMI_RANK=0", "PMI_SIZE=1"}, WEFT_SUCCESS, "single", 0, 1, 0, 1, NULL},
    {{"RANK=0", "WORLD_SIZE=0", "MASTER_ADDR=a", "MASTER_PORT=1"}, WEFT_ECONFIG, "WORLD_SIZE=0", 0, 0, 0, 0, NULL},
    {{"RANK=one", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"}, WEFT_ECONFIG, "RANK='one'", 0, 0, 0, 0, NULL},
    {{"RANK=-1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"}, WEFT_ECONFIG, "RANK=-1", 0, 0, 0, 0, NULL},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1"}, WEFT_ECONFIG, "MASTER_ADDR", 0, 0, 0, 0, NULL},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a"}, WEFT_ECONFIG, "MASTER_PORT", 0, 0, 0, 0, NULL},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=70000"},
     WEFT_ECONFIG,
     "MASTER_PORT=70000",
     0,
     0,
     0,
     0,
     NULL},
    {{"RANK=3", "WORLD_SIZE=4", "MASTER_ADDR=n0", "MASTER_PORT=29500", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
      "TORCHELASTIC_RUN_ID=r"},
     WEFT_SUCCESS,
     "torchrun:r:29500:0",
     3,
     4,
     1,
     2,
     "n0"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=n0", "MASTER_PORT=5", "LOCAL_RANK=5", "LOCAL_WORLD_SIZE=2"},
     WEFT_ECONFIG,
     "LOCAL_RANK=5",
     0,
     0,
     0,
     0,
     NULL},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77"},
     WEFT_SUCCESS,
     "openmpi:77",
     1,
     2,
     1,
     2,
     NULL},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77"},
     WEFT_ECONFIG,
     "WEFT_STORE_ADDR",
     0,
     0,
     0,
     0,
     NULL},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77",
      "OMPI_MCA_orte_hnp_uri=77.0;tcp://10.1.2.3,10.2.2.3:4000"},
     WEFT_SUCCESS,
     "openmpi:77",
     1,
     4,
     -1,
     2,
     "10.1.2.3"},
    {{"OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=7"}, WEFT_ECONFIG, "OMPI_COMM_WORLD_SIZE", 0, 0, 0, 0, NULL},
    {{"PMI_FD=x", "PMI_RANK=0", "PMI_SIZE=2"}, WEFT_ECONFIG, "PMI_FD='x'", 0, 0, 0, 0, NULL},
    {{"PMI_FD=9", "PMI_RANK=2", "PMI_SIZE=2"}, WEFT_ECONFIG, "PMI_RANK=2", 0, 0, 0, 0, NULL},
    {{"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1", "SLURM_JOB_ID=9", "SLURM_STEP_ID=2",
      "SLURM_STEP_NODELIST=gpu[03-07,9],x1"},
     WEFT_SUCCESS,
     "slurm:9.2",
     3,
     4,
     1,
     -1,
     "gpu03"},
    {{"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=9", "SLURM_STEP_ID=2", "SLURM_NNODES=1",
      "SLURM_STEP_NODELIST=n1"},
     WEFT_SUCCESS,
     "slurm:9.2",
     1,
     2,
     -1,
     -1,
     NULL},
    {{"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=9", "SLURM_STEP_NODELIST=n["},
     WEFT_ECONFIG,
     "SLURM_STEP_NODELIST='n['",
     0,
     0,
     0,
     0,
     NULL},
    {{"SLURM_PROCID=5", "SLURM_NTASKS=2"}, WEFT_ECONFIG, "SLURM_PROCID=5", 0, 0, 0, 0, NULL},
    /* Two launchers: the first in the order. */
    {{"RANK=0", "WORLD_SIZE=1", "SLURM_PROCID=1", "SLURM_NTASKS=2", "MASTER_PORT=7"},
     WEFT_SUCCESS,
     "torch:7",
     0,
     1,
     -1,
     -1,
     ""},
};

static void env_case_body(int rank, int nranks, void *arg)
{
    const struct env_case *c = arg;
    struct wi_env env;
    (void)rank, (void)nranks;
    clearenv();
    for (int i = 0; i < 8 && c->vars[i]; i++)
        putenv((char *)c->vars[i]);
    WT_CHECK_STATUS(wi_env_read(&none, wi_deadline_ns(1000000000), &env), c->status);
    if (c->status < 0) {
        says(c->text);
        return;
    }
    WT_CHECK_STR(env.job, c->text);
    WT_CHECK_INT(env.rank, c->rank);
    WT_CHECK_INT(env.nranks, c->nranks);
    WT_CHECK_INT(env.local_rank, c->local_rank);
    WT_CHECK_INT(env.local_nranks, c->local_nranks);
    WT_CHECK_INT(env.one_host, c->host == NULL);
    if (env.one_host && env.nranks > 1)
        WT_CHECK(strstr(env.hint, "taken to be of one host") != NULL);
    if (c->host)
        WT_CHECK_STR(env.rendezvous.host, c->host);
}

static void environments(void)
{
    for (size_t i = 0; i < sizeof(env_cases) / sizeof(env_cases[0]); i++)
        CU_ASSERT_EQUAL(wt_run(1, env_case_body, (void *)&env_cases[i], 10000), 0);
}

static void slurm_lists(void)
{
    char host[16];
    CU_ASSERT(!wi_env_first_host("node[03-07,9]", host, sizeof(host)) && !strcmp(host, "node03"));
    CU_ASSERT(!wi_env_first_host("a1,b2", host, sizeof(host)) && !strcmp(host, "a1"));
    CU_ASSERT(!wi_env_first_host("r[1-2]n,b2", host, sizeof(host)) && !strcmp(host, "r1n"));
    CU_ASSERT(wi_env_first_host("", host, sizeof(host)));
    CU_ASSERT(wi_env_first_host("n[", host, sizeof(host)));
    CU_ASSERT(wi_env_first_host("n[1-2", host, sizeof(host)));
    CU_ASSERT(wi_env_first_host("much-too-long-a-name", host, sizeof(host)));
    CU_ASSERT_EQUAL(wi_env_tasks_of_node("2(x3),1", 2), 2);
    CU_ASSERT_EQUAL(wi_env_tasks_of_node("2(x3),1", 3), 1);
    CU_ASSERT_EQUAL(wi_env_tasks_of_node("2(x3),1", 4), -1);
    CU_ASSERT_EQUAL(wi_env_tasks_of_node("two", 0), -1);
}

static void node_ids(void)
{
    struct wi_node_id a, b, c;
    CU_ASSERT_EQUAL(wi_node_id(NULL, &a), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_node_id(NULL, &b), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_node_id("other", &c), WEFT_SUCCESS);
    CU_ASSERT(!memcmp(&a, &b, sizeof(a)) && a.name[0]);
    CU_ASSERT(memcmp(a.id, c.id, sizeof(a.id)) != 0);
    CU_ASSERT_STRING_EQUAL(c.name, "other");
}

static const struct wt_case cases[] = {
    {"node identities", node_ids},
    {"lists of SLURM", slurm_lists},
    {"environments of all launchers, good and malformed", environments},
    {"1 to 64 processes start and gather, three times", env_sizes},
    {"ranks that never come are named", missing_ranks},
    {"rank 0 that never comes is named", missing_rank_0},
    {"a rank that dies is named at once", dying_rank},
    {"a rank that stays away from an exchange is named", late_rank},
    {"exchanges of different sizes are told apart", different_sizes},
    {"two of one rank, and two sizes of a job", contradictions},
    {"one job key, and a wrong one", job_keys},
    {"strangers at the port do not disturb", strangers},
    {"unique ids", unique_ids},
    {"damaged unique ids are refused", damaged_ids},
    {"a shared file, and what an earlier run left there", files},
    {"the caller's all-gather", callbacks},
};

WT_UNIT_MAIN("bootstrap", cases)
