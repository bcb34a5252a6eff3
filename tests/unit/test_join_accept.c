/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that cannot accept each other's start-up connections, for want of memory or of descriptors that strangers hold. */
#include "unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/bootstrap.h"
#include "tests/harness/harness.h"

#define MS 1000000ull

static uint64_t in_ms(unsigned ms)
{
    return wi_deadline_ns(wt_slow_ms(ms) * MS);
}

static atomic_int refusals, accepts_failed; /* how many more are to fail; how many did */
static int refused_with;
static _Atomic uint64_t failed_ns[8]; /* when */
/* 3: two strangers connect before the next accept, which works as does the one after it, but not the third. */
static atomic_int strangers_come;

static void refuse(int err, int n)
{
    refused_with = err;
    atomic_store(&accepts_failed, 0);
    atomic_store(&refusals, n);
}

static void let_strangers_connect(int listen_fd)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);
    WT_REQUIRE(getsockname(listen_fd, (struct sockaddr *)&at, &bytes) == 0);
    for (int i = 0; i < 2; i++) {
        int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        WT_REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&at, bytes) == 0);
    }
}

/* Instead of the C library's, for everything that is linked with this test. */
int accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    if (strangers_come == 3)
        let_strangers_connect(fd);
    if (strangers_come && --strangers_come == 0)
        atomic_store(&refusals, 1);
    if (atomic_load(&refusals) > 0) {
        int i = atomic_fetch_add(&accepts_failed, 1);
        if (i < 8)
            failed_ns[i] = wi_now_ns();
        atomic_fetch_sub(&refusals, 1);
        errno = refused_with;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, from, bytes, flags);
}

/* The kernel has no memory for the connection of another rank: it is tried again every 100 ms. */
static void out_of_memory_body(int rank, int nranks, void *arg)
{
    static const struct wi_bootstrap_settings s = {.job_key_fd = -1, .interfaces = "lo"};
    weft_unique_id *id = arg;
    struct wi_bootstrap *b = NULL;
    if (rank == 0)
        WT_REQUIRE_OK(wi_unique_id_create(&s, id));
    wt_sync();
    refuse(ENOMEM, rank == 1 ? 5 : 0); /* rank 0 has the store, too */
    WT_REQUIRE_OK(wi_bootstrap_id(&s, id, rank, nranks, in_ms(20000), &b));
    WT_CHECK(atomic_load(&accepts_failed) == (rank == 1 ? 5 : 0));
    for (int i = 1; rank == 1 && i < 5; i++)
        WT_CHECK(failed_ns[i] - failed_ns[i - 1] >= 100 * MS);
    b->destroy(b);
}

/* A stranger has the last descriptor of rank 1, and gives it back; without strangers the start fails, as a rank has too few. */
static void stranger_has_the_last_body(int rank, int nranks, void *arg)
{
    static const struct wi_bootstrap_settings s = {.job_key_fd = -1, .interfaces = "lo"};
    weft_unique_id *id = arg;
    struct wi_bootstrap *b = NULL;
    for (int strangers = 1; strangers >= 0; strangers--) {
        if (rank == 0)
            WT_REQUIRE_OK(wi_unique_id_create(&s, id));
        wt_sync();
        strangers_come = rank == 1 && strangers ? 3 : 0;
        refuse(EMFILE, rank == 1 && !strangers);
        weft_status st = wi_bootstrap_id(&s, id, rank, nranks, in_ms(20000), &b);
        if (strangers)
            WT_REQUIRE_OK(st);
        else if (rank == 1)
            WT_CHECK_STATUS(st, WEFT_ENOFILES);
        WT_CHECK(atomic_load(&accepts_failed) == (rank == 1));
        if (st == WEFT_SUCCESS)
            b->destroy(b);
        wt_sync();
    }
}

static void in_two_ranks(void (*body)(int rank, int nranks, void *arg))
{
    weft_unique_id *id = mmap(NULL, sizeof(*id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(id != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(2, body, id, 60000), 0);
    munmap(id, sizeof(*id));
}

static void out_of_memory(void)
{
    in_two_ranks(out_of_memory_body);
}

static void stranger_has_the_last(void)
{
    in_two_ranks(stranger_has_the_last_body);
}

static const struct wt_case cases[] = {
    {"no memory for a connection between ranks", out_of_memory},
    {"a stranger has a rank's last descriptor", stranger_has_the_last},
};

WT_UNIT_MAIN("join_accept", cases)
