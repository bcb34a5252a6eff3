/* test_ncclnet.c: the library over network plugins of NCCL: what is refused, what fails, and what is then said.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "tests/fault/fault.h"

static char folder[600], build[500];

static void set_up(void)
{
    const char *dir = wt_plugin_dir("ncclnet"), *at = getenv("WEFT_BUILDDIR");

    snprintf(folder, sizeof folder, "PLUGIN_PATH=%s", dir ? dir : "/nowhere");
    snprintf(build, sizeof build, "%s/.libs", at ? at : ".");
}

/* What a rank is given. */
struct how {
    const char *plugin, *faults, *setting;
    const char *says; /* the failure */
};

static weft_status open_with(const struct how *how, weft_context **context)
{
    char plugin[700];
    const char *settings[] = {"TRANSPORTS=ncclnet", folder, plugin, how->setting, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    snprintf(plugin, sizeof plugin, "NCCLNET_PLUGIN=%s/%s", build,
             how->plugin ? how->plugin : "libnccl-net-weftsample.so");
    if (how->faults)
        setenv("NNSAMPLE_FAULTS", how->faults, 1);
    config.settings = settings;
    return weft_context_create(&config, context);
}

/* ---- What is refused when it is opened ---- */

static void is_refused(int rank, int nranks, void *arg)
{
    const struct how *how = arg;
    weft_context *context = NULL;
    weft_status st = open_with(how, &context);

    (void)rank, (void)nranks;
    if (st != WEFT_ECONFIG || !strstr(weft_thread_error(), how->says))
        wt_fail(__FILE__, __LINE__, "%s: %s, \"%s\" has not \"%s\"", how->faults ? how->faults : how->plugin,
                weft_status_name(st), weft_thread_error(), how->says);
}

static void refused(void)
{
    static const struct how all[] = {
        {"libnccl-net-weftnone.so", NULL, NULL, "has none of the symbols ncclNetPlugin_v12 to _v8"},
        {"libnccl-net-weftlacks.so", NULL, NULL, "ncclNetPlugin_v9 lacks the function isend"},
        {"libnccl-net-weftsample8.so", NULL, "NCCLNET_MAX_VERSION=7", "WEFT_NCCLNET_MAX_VERSION"},
        {"no-such-file.so", NULL, NULL, "no such file"},
        {NULL, "init_fails", NULL, "could not be initialised: ncclSystemError"},
        {NULL, "no_devices", NULL, "offers no device"},
        {NULL, "no_host", NULL, "device 0 (sample0) moves no memory of the host"},
        {NULL, "max_recvs=0", NULL, "maxRecvs"},
        {NULL, "small", NULL, "moves less than 1 MiB at a time"},
        {NULL, "", "NCCLNET_DEVICES=sample0,mlx5_0",
         "names \"mlx5_0\"; plugin WeftSample has 0 (sample0), 1 (sample1)"},
        {NULL, "null_names", "NCCLNET_DEVICES=sample0", "has 0 (no name)"},
        {NULL, "", "NCCLNET_REQUESTS=33", "WEFT_NCCLNET_REQUESTS"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CU_ASSERT_EQUAL(wt_run(1, is_refused, (void *)(uintptr_t)&all[i], 10000), 0);
}

/* ---- What fails later ---- */

static void open_ranks(struct ft_rank *f, const struct how *how, int rank, int nranks)
{
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(open_with(how, &f->context));
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(f->comm, 8000 * FT_MS));
}

enum { WORDS = 300000 };

static weft_status reduce(struct ft_rank *f, float *words)
{
    return weft_all_reduce(f->comm, words, words, WORDS, WEFT_FLOAT32, WEFT_SUM, NULL);
}

/* Rank 1 has the fault; each rank gets a failure, and a rank says what it was. */
static void fails(int rank, int nranks, void *arg)
{
    struct how how = *(const struct how *)arg;
    float *words = calloc(WORDS, sizeof *words);
    uint64_t began = wt_now_ms();
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    if (rank != 1)
        how.faults = "";
    open_ranks(&f, &how, rank, nranks);
    for (int i = 0; st == WEFT_SUCCESS && i < 20; i++)
        st = reduce(&f, words);
    WT_CHECK(st < 0 && st != WEFT_ETIMEDOUT);
    WT_CHECK(wt_now_ms() - began < wt_slow_ms(4000));
    if (rank == 1 && !strstr(ft_error(&f).message, how.says))
        wt_fail(__FILE__, __LINE__, "%s: \"%s\" has not \"%s\"", how.faults, ft_error(&f).message, how.says);
    ft_close(&f);
    free(words);
}

static void failing(void)
{
    static const struct how all[] = {
        {NULL, "listen_fails", NULL, "listen: ncclSystemError"},
        {NULL, "fail_connect", NULL, "connect: ncclRemoteError"},
        {NULL, "fail_test=7", NULL, "test of a "},
        {NULL, "max_comms=5", NULL, "bears 5 connections"},
        {NULL, "wrong_token", NULL, "does not prove to be rank"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CU_ASSERT_EQUAL(wt_run(3, fails, (void *)(uintptr_t)&all[i], 30000), 0);
}

/* ---- A rank that dies ---- */

/* Of all ranks: how many survivors have heard. One that ends earlier might be the one that is named. */
static _Atomic int *heard;

static void one_dies(int rank, int nranks, void *arg)
{
    static const struct how how = {NULL, "", NULL, NULL};
    float *words = calloc(WORDS, sizeof *words);
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;
    uint64_t began;
    char pid[32];

    (void)arg;
    WT_REQUIRE(words != NULL);
    open_ranks(&f, &how, rank, nranks);
    WT_REQUIRE_OK(reduce(&f, words));
    wt_sync();
    if (rank == nranks - 1)
        raise(SIGKILL);
    began = wt_now_ms();
    while (st == WEFT_SUCCESS)
        st = reduce(&f, words);
    WT_CHECK_STATUS(st, WEFT_EPEER);
    WT_CHECK(wt_now_ms() - began < wt_slow_ms(2000));
    ++*heard;
    while (*heard < nranks - 1 && wt_now_ms() - began < wt_slow_ms(5000))
        usleep(500);
    snprintf(pid, sizeof pid, "rank %d", nranks - 1);
    if (ft_error(&f).peer != nranks - 1 || !strstr(ft_error(&f).message, pid))
        wt_fail(__FILE__, __LINE__, "it names rank %d: %s", ft_error(&f).peer, ft_error(&f).message);
    weft_comm_destroy(f.comm);
    weft_context_destroy(f.context);
    free(words);
}

static void dies(void)
{
    struct wt_job *job;

    heard = mmap(NULL, sizeof *heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(heard != MAP_FAILED);
    job = wt_job_start(4, one_dies, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    wt_job_expect_signal(job, 3, SIGKILL);
    CU_ASSERT_EQUAL(wt_job_wait(job, 20000), 0);
}

/* ---- Communicators ---- */

/* Two at a time, in any order, over one plugin; each has a context of its own where the version has contexts. */
static void several(int rank, int nranks, void *arg)
{
    struct how how = {NULL, "late=2,refuse=2,slow_connect=3", arg, NULL};
    float *words = calloc(WORDS, sizeof *words);
    weft_comm *second;
    struct ft_rank f;

    WT_REQUIRE(words != NULL);
    setenv("NNSAMPLE_CLASS", "5", 1);
    open_ranks(&f, &how, rank, nranks);
    for (int i = 0; i < 5; i++) {
        WT_REQUIRE_OK(weft_comm_split(f.comm, rank % 2, rank, NULL, &second));
        for (int k = 0; k < WORDS; k++)
            words[k] = 1;
        WT_CHECK_OK(weft_all_reduce(second, words, words, WORDS, WEFT_FLOAT32, WEFT_SUM, NULL));
        WT_CHECK_OK(reduce(&f, words));
        WT_CHECK(words[0] == (float)(nranks * nranks / 2) && words[WORDS - 1] == words[0]);
        WT_CHECK_OK(weft_comm_destroy(second));
    }
    ft_close(&f);
    free(words);
}

static void communicators(void)
{
    CU_ASSERT_EQUAL(wt_run(4, several, (void *)(uintptr_t) "NCCLNET_TRAFFIC_CLASS=5", 60000), 0);
}

static const struct wt_case cases[] = {
    {"what cannot be used is refused, and why", refused},
    {"what fails is named", failing},
    {"a rank that dies is named", dies},
    {"communicators come and go", communicators},
};

int main(int argc, char **argv)
{
    set_up();
    return wt_unit_main("test_ncclnet", cases, sizeof cases / sizeof *cases, argc, argv);
}
