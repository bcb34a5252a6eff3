/* Running the cases over the fixtures: lines of TAP, one per fixture, number of ranks and case.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/engine.h"
#include "tests/harness/harness.h"
#include "tests/harness/late.h"

static char fake_path[1200] = "PLUGIN_PATH=", ucx_path[600] = "PLUGIN_PATH=", ncclnet_path[700], ncclnet_plugin[700];
static const char *const inproc[] = {"TRANSPORTS=inproc", NULL};
static const char *const shm[] = {"TRANSPORTS=shm", NULL};
static const char *const asleep[] = {"TRANSPORTS=shm", "COMM_SPIN=0", "COMM_YIELDS=0", NULL};
static const char *const tcp[] = {"TRANSPORTS=tcp", NULL};
static const char *const streamed[] = {"TRANSPORTS=shm", "SHM_MAP=n", "SHM_CMA=n", NULL};
static const char *const attached[] = {"TRANSPORTS=shm", "SHM_MAP=n", "SHM_RNDV_BYTES=4K", NULL};
static const char *const sliced[] = {"TRANSPORTS=shm", "COMM_SLICE_BYTES=192", NULL};
static const char *const fake[] = {"TRANSPORTS=fakerdma", fake_path, NULL};
static const char *const fake_late[] = {"TRANSPORTS=fakerdma",   fake_path, "FAKERDMA_LATE=12", "FAKERDMA_LARGEST=256K",
                                        "COMM_SLICE_BYTES=1000", NULL};
static const char *const card[] = {"TRANSPORTS=fakecard", fake_path, "COMM_SPIN=0", NULL};
static const char *const card_late[] = {"TRANSPORTS=fakecard", fake_path, "COMM_SPIN=0", "FAKECARD_LATE=12", NULL};
static const char *const ucx[] = {"TRANSPORTS=ucx", ucx_path, "UCX_NETWORK=any", NULL};
static const char *const ucx_sliced[] = {
    "TRANSPORTS=ucx", ucx_path, "UCX_NETWORK=any", "UCX_SEGMENT=4K", "UCX_WINDOW=64K", "COMM_SLICE_BYTES=1000",
    "COMM_SPIN=0",    NULL};
static const char *const hosts[] = {"TRANSPORTS=shm,tcp", NULL};
static const char *const tcp_sliced[] = {"TRANSPORTS=tcp", "COMM_SLICE_BYTES=1000", "TCP_SOCKETS=3", NULL};
static const char *const ncclnet[] = {"TRANSPORTS=ncclnet", ncclnet_path, ncclnet_plugin, NULL};
static const char *const ncclnet_v8[] = {"TRANSPORTS=ncclnet", ncclnet_path, ncclnet_plugin, "NCCLNET_MAX_VERSION=8",
                                         NULL};

static const char *const workers[] = {"TRANSPORTS=shm", "WORKERS=2", "WORKER_BYTES=1000", NULL};
static const char *const workers_tcp[] = {"TRANSPORTS=tcp", "WORKERS=2", "WORKER_BYTES=1000", NULL};

static const struct cc_fixture fixtures[] = {
    {"inproc", inproc, 1, 0, 0, 0},
    {"shm", shm, 0, 1, 0, 0},
    {"shm asleep", asleep, 0, 1, 0, 0},
    {"tcp", tcp, 0, 0, 0, 0},
    {"shm streamed", streamed, 0, 1, 0, 0},
    {"shm attached", attached, 0, 1, 0, 0},
    {"shm in small slices", sliced, 0, 1, 1, 0},
    {"tcp in small slices", tcp_sliced, 0, 0, 1, 0},
    {"tcp between threads", tcp, 1, 0, 1, 0},
    {"shm and tcp", hosts, 0, 0, 1, 0},
    {"fake card", fake, 1, 0, 1, 0},
    {"fake card, late", fake_late, 1, 0, 1, 0},
    {"fake card with arenas", card, 1, 0, 0, 0},
    {"fake card with arenas, late", card_late, 1, 0, 0, 0},
    {"ucx", ucx, 0, 0, 0, 0},
    {"ucx in small slices", ucx_sliced, 0, 0, 1, 0},
    {"shm, late engine", shm, 0, 1, 0, 1},
    {"tcp, late engine", tcp, 0, 0, 0, 1},
    {"inproc, late engine", inproc, 1, 0, 0, 1},
    {"shm, two workers", workers, 0, 1, 0, 0},
    {"tcp between threads, two workers", workers_tcp, 1, 0, 1, 0},
    {"ncclnet", ncclnet, 0, 0, 1, 0},
    {"ncclnet v8 between threads", ncclnet_v8, 1, 0, 1, 0},
};
enum { PLAIN_FIXTURES = 4 };

struct part {
    const char *name;
    wt_rank_fn fn;
    const char *fixture; /* of the sample; NULL: the first four */
    unsigned ranks;      /* of the sample: bit P */
};

#define P(n) (1u << (n))
static const struct part parts[] = {
    {"forms", cc_case_forms, "inproc", P(1) | P(2) | P(4) | P(5)},
    {"forms", cc_case_forms, "shm", P(1) | P(2) | P(3) | P(4) | P(5) | P(8)},
    {"forms", cc_case_forms, "shm asleep", P(2) | P(3) | P(5)},
    {"forms", cc_case_forms, "tcp", P(1) | P(2) | P(3) | P(5) | P(8)},
    {"forms", cc_case_forms, "shm streamed", P(3)},
    {"forms", cc_case_forms, "shm attached", P(3)},
    {"algorithms", cc_case_algorithms, "shm attached", P(3)},
    {"forms", cc_case_forms, "shm in small slices", P(3)},
    {"forms", cc_case_forms, "tcp in small slices", P(3)},
    {"forms", cc_case_forms, "tcp between threads", P(2) | P(4)},
    {"forms", cc_case_forms, "fake card", P(1) | P(2) | P(3) | P(5)},
    {"forms", cc_case_forms, "fake card, late", P(3)},
    {"algorithms", cc_case_algorithms, "fake card", P(2) | P(3) | P(4) | P(5)},
    {"algorithms", cc_case_algorithms, "fake card, late", P(3)},
    {"forms", cc_case_forms, "fake card with arenas", P(2)},
    {"forms", cc_case_forms, "fake card with arenas, late", P(3)},
    {"algorithms", cc_case_algorithms, "fake card with arenas", P(2) | P(4)},
    {"algorithms", cc_case_algorithms, "fake card with arenas, late", P(3)},
    {"forms", cc_case_forms, "ucx", P(1) | P(2) | P(3) | P(5)},
    {"forms", cc_case_forms, "ucx in small slices", P(3)},
    {"algorithms", cc_case_algorithms, "ucx", P(2) | P(3) | P(4)},
    {"forms", cc_case_forms, "shm, late engine", P(3) | P(5)},
    {"forms", cc_case_forms, "tcp, late engine", P(3)},
    {"forms", cc_case_forms, "inproc, late engine", P(3)},
    {"algorithms", cc_case_algorithms, "shm, late engine", P(3)},
    {"algorithms", cc_case_algorithms, "tcp, late engine", P(3)},
    {"forms", cc_case_forms, "shm, two workers", P(3)},
    {"forms", cc_case_forms, "tcp between threads, two workers", P(3)},
    {"algorithms", cc_case_algorithms, "shm, two workers", P(3)},
    {"operators", cc_case_operators, "shm, two workers", P(3)},
    {"types", cc_case_types, "shm", P(3)},
    {"types", cc_case_types, "tcp", P(2)},
    {"algorithms", cc_case_algorithms, NULL, P(2) | P(3)},
    {"algorithms", cc_case_algorithms, "shm", P(4) | P(5)},
    {"algorithms", cc_case_algorithms, "tcp", P(4)},
    {"algorithms", cc_case_algorithms, "tcp between threads", P(3)},
    {"operators", cc_case_operators, NULL, P(3) | P(4)},
    {"memory", cc_case_memory, "shm", P(2) | P(3)},
    {"copy paths", cc_case_copy_paths, "shm", P(2) | P(3)},
    {"bits", cc_case_bits, NULL, P(3)},
    {"bits", cc_case_bits, "inproc", P(8)},
    {"levels", cc_case_levels, "shm and tcp", P(3) | P(5) | P(8)},
    {"levels", cc_case_levels, "tcp", P(5)},
    {"levels", cc_case_levels, "inproc", P(4)},
    {"forms", cc_case_forms, "ncclnet", P(2) | P(4) | P(5)},
    {"algorithms", cc_case_algorithms, "ncclnet", P(3) | P(4)},
    {"types", cc_case_types, "ncclnet", P(2)},
    {"forms", cc_case_forms, "ncclnet v8 between threads", P(3)},
};

/* In full, every case runs once over every plain fixture, with all numbers of ranks; variants run the forms, with a few. */
static int taken(const struct part *part, const struct cc_fixture *fixture, int full)
{
    int plain = fixture - fixtures < PLAIN_FIXTURES;

    if (full)
        return (part == parts || part[-1].fn != part->fn) &&
               (plain || part->fn == cc_case_forms || part->fn == cc_case_levels) &&
               (part->fn != cc_case_memory || fixture->shareable) &&
               (part->fn != cc_case_levels || strcmp(fixture->name, part->fixture) == 0) &&
               (part->fn != cc_case_copy_paths || strcmp(fixture->name, part->fixture) == 0);
    return part->fixture ? strcmp(part->fixture, fixture->name) == 0 : plain;
}

static unsigned numbers_of_ranks(const struct part *part, const struct cc_fixture *fixture, int full)
{
    if (!full)
        return part->ranks;
    if (part->fn == cc_case_copy_paths) /* alone there is nothing to learn */
        return P(2) | P(3) | P(4) | P(5) | P(8);
    return P(2) | P(3) | P(4) | (fixture - fixtures < PLAIN_FIXTURES ? P(1) | P(5) | P(8) : 0);
}

static int wanted(const char *title, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strstr(title, argv[i]))
            return 0;
    return 1;
}

/* NULL: it can be had. */
static const char *missing(const struct cc_fixture *fixture)
{
    if (strncmp(fixture->name, "ucx", 3) == 0 && !strchr(ucx_path, '/'))
        return "built without UCX (Debian package libucx-dev)";
    return NULL;
}

static int run_one(const struct part *part, const struct cc_fixture *fixture, int nranks, int full, int number)
{
    struct cc_job job = {.fixture = fixture, .full = full};
    unsigned deadline_ms = full ? 900000 : 60000;
    uint64_t began = wt_now_ms();
    const char *why = missing(fixture);
    int failed;

    if (why) {
        printf("ok %d - %s over %s, %d ranks # SKIP %s\n", number, part->name, fixture->name, nranks, why);
        return 0;
    }
    wi_engine_of_tests = fixture->late ? wt_late_engine : NULL;
    wt_late.seed = (uint64_t)number;
    failed = fixture->threads ? wt_threads_apart(nranks, part->fn, &job, deadline_ms)
                              : wt_run(nranks, part->fn, &job, deadline_ms);

    printf("%sok %d - %s over %s, %d ranks # %llu ms\n", failed ? "not " : "", number, part->name, fixture->name,
           nranks, (unsigned long long)(wt_now_ms() - began));
    fflush(stdout);
    return failed != 0;
}

int cc_suite(const char *name, int full, int argc, char **argv)
{
    int ran = 0, failed = 0;
    const char *dir = wt_plugin_dir("fakerdma"), *dir2 = wt_plugin_dir("fakecard"), *dir3 = wt_plugin_dir("ucx");
    const char *dir4 = wt_plugin_dir("ncclnet"), *build = getenv("WEFT_BUILDDIR");
    char title[128];

    snprintf(fake_path, sizeof fake_path, "PLUGIN_PATH=%s:%s", dir ? dir : "/nowhere", dir2 ? dir2 : "/nowhere");
    if (dir3)
        snprintf(ucx_path, sizeof ucx_path, "PLUGIN_PATH=%s", dir3);
    snprintf(ncclnet_path, sizeof ncclnet_path, "PLUGIN_PATH=%s", dir4 ? dir4 : "/nowhere");
    snprintf(ncclnet_plugin, sizeof ncclnet_plugin, "NCCLNET_PLUGIN=%s/.libs/libnccl-net-weftsample.so",
             build ? build : ".");

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (size_t f = 0; f < sizeof fixtures / sizeof *fixtures; f++) {
            if (!taken(&parts[i], &fixtures[f], full))
                continue;
            for (int n = 1; n <= 8; n++) {
                snprintf(title, sizeof title, "%s over %s, %d ranks", parts[i].name, fixtures[f].name, n);
                if ((numbers_of_ranks(&parts[i], &fixtures[f], full) >> n & 1) && wanted(title, argc, argv))
                    failed += run_one(&parts[i], &fixtures[f], n, full, ++ran);
            }
        }
    }
    printf("1..%d\n", ran);
    if (ran == 0)
        fprintf(stderr, "%s: no case chosen\n", name);
    return failed || ran == 0;
}
