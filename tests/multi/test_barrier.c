/* A barrier holds everybody until the last one has come, whichever algorithm and form of the call.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { MOST_RANKS = 8, ROUNDS = 24, FORMS = 4, LATE_US = 1500 };

/* Shared by the ranks, who tell here, not through the library, how far they are. */
struct shared {
    _Atomic int came[MOST_RANKS]; /* rounds begun */
};

struct cell {
    const char *transports, *algorithm; /* NULL: the planner's */
    int hosts;                          /* ranks are on so many, dealt out */
    struct shared *shared;
};

static weft_status once(weft_comm *comm, const char *algorithm, int form, weft_request **persistent)
{
    weft_call barrier = wt_call(WEFT_KIND_BARRIER, NULL, NULL, 0, WEFT_UINT8);
    weft_request *req = NULL;
    weft_status st, end;

    switch (form) {
    case 0:
        return wt_issue(comm, barrier, algorithm, NULL);
    case 1:
        st = wt_issue(comm, barrier, algorithm, &req);
        st = st < 0 ? st : weft_wait(req);
        break;
    case 2:
        st = *persistent ? WEFT_SUCCESS : wt_persistent(comm, barrier, algorithm, persistent);
        st = st < 0 ? st : weft_start(*persistent);
        return st < 0 ? st : weft_wait(*persistent);
    default:
        st = weft_group_start();
        st = st < 0 ? st : wt_issue(comm, barrier, algorithm, NULL);
        end = weft_group_end();
        return st < 0 ? st : end;
    }
    end = weft_request_free(req);
    return st < 0 ? st : end;
}

/* The late one writes last of all. A rank that passes before reads a round that has not begun. */
static void body(int rank, int nranks, void *arg)
{
    const struct cell *c = arg;
    weft_request *persistent = NULL;
    unsigned seed = (unsigned)rank * 71 + 5, shared_seed = 99;
    struct ft_rank f;
    char host[16];

    if (c->hosts > 1) {
        snprintf(host, sizeof host, "h%d", rank % c->hosts);
        setenv("WEFT_NODE_ID", host, 1);
    }
    ft_open(&f, c->transports, 20000, rank, nranks);
    for (int round = 1; round <= ROUNDS; round++) {
        int late = rand_r(&shared_seed) % nranks, form = round % FORMS;
        if (rank == late)
            usleep(LATE_US);
        else if (rand_r(&seed) % 2)
            usleep((useconds_t)(rand_r(&seed) % LATE_US));
        c->shared->came[rank] = round;
        WT_REQUIRE_OK(once(f.comm, c->algorithm, form, &persistent));
        for (int r = 0; r < nranks; r++) {
            int came = c->shared->came[r];
            if (came < round || came > round + 1)
                wt_fail(__FILE__, __LINE__, "form %d: out of barrier %d when rank %d was in round %d", form, round, r,
                        came);
        }
        WT_REQUIRE(wt_failures() == 0);
    }
    WT_CHECK_OK(weft_request_free(persistent));
    ft_close(&f);
}

static void run(struct cell *c, int nranks)
{
    memset(c->shared, 0, sizeof *c->shared);
    int failed = wt_run(nranks, body, c, 30000);
    if (failed)
        printf("# %s, %d ranks over %s on %d hosts: %d failed\n", c->algorithm ? c->algorithm : "chosen", nranks,
               c->transports, c->hosts, failed);
    CU_ASSERT_EQUAL(failed, 0);
}

static struct shared *shared_new(void)
{
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(map != MAP_FAILED);
    return map;
}

struct names {
    char list[32][32];
    int n;
};

static void note_name(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    struct names *names = arg;

    (void)summary;
    if (!strcmp(collective, "barrier") && names->n < 32)
        snprintf(names->list[names->n++], sizeof names->list[0], "%s", algorithm);
}

/* "flat" goes by the mapped arena. */
static void every_algorithm(const char *transport)
{
    static const int sizes[] = {2, 3, 5, 8};
    struct cell c = {.transports = transport, .hosts = 1, .shared = shared_new()};
    struct names names = {.n = 0};

    CU_ASSERT_EQUAL(weft_algorithm_list(note_name, &names), WEFT_SUCCESS);
    CU_ASSERT(names.n >= 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        c.algorithm = NULL;
        run(&c, sizes[i]);
        for (int a = 0; a < names.n; a++) {
            c.algorithm = names.list[a];
            if (strcmp(names.list[a], "flat") || !strcmp(transport, "shm"))
                run(&c, sizes[i]);
        }
    }
    munmap(c.shared, sizeof *c.shared);
}

static void over_shm(void)
{
    every_algorithm("shm");
}

static void over_tcp(void)
{
    every_algorithm("tcp");
}

static void over_hosts(void)
{
    static const char *const specs[] = {NULL, "node:dissem", "node:dissem@leader"};
    struct cell c = {.transports = "shm,tcp", .hosts = 2, .shared = shared_new()};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        for (int n = 3; n <= 5; n += 2) {
            c.algorithm = specs[i];
            run(&c, n);
        }
    }
    munmap(c.shared, sizeof *c.shared);
}

static const struct wt_case cases[] = {
    {"nobody leaves before all have come, over shm", over_shm},
    {"nobody leaves before all have come, over tcp", over_tcp},
    {"nobody leaves before all have come, on two hosts", over_hosts},
};
WT_UNIT_MAIN("barrier", cases)
