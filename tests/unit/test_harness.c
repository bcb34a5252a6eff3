/* The harness must notice everything that can go wrong in a rank.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char report[65536];

/* Run ranks with the report in a file, then read it back. */
static int run_reported(int nranks, wt_rank_fn fn, unsigned deadline_ms, int expect_rank, int expect_signal)
{
    char path[512];
    snprintf(path, sizeof path, "%s/report", wt_temp_dir());
    wt_report_to(path);
    struct wt_job *job = wt_job_start(nranks, fn, NULL);
    if (job && expect_signal)
        wt_job_expect_signal(job, expect_rank, expect_signal);
    int failed = job ? wt_job_wait(job, deadline_ms) : -1;
    wt_report_to(NULL);
    FILE *in = fopen(path, "r");
    size_t got = in ? fread(report, 1, sizeof report - 1, in) : 0;
    report[got] = '\0';
    if (in)
        fclose(in);
    return failed;
}

static void good_body(int rank, int nranks, void *arg)
{
    (void)arg;
    printf("noise of rank %d\n", rank);
    WT_CHECK(rank >= 0 && rank < nranks);
    WT_CHECK_INT(nranks, 3);
    WT_CHECK_STR("a", "a");
    WT_CHECK_MEM("abc", "abc", 4);
}

static void reports_nothing_when_all_is_well(void)
{
    CU_ASSERT_EQUAL(run_reported(3, good_body, 5000, 0, 0), 0);
    CU_ASSERT_STRING_EQUAL(report, "");
}

static void failing_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    printf("rank %d says something\n", rank);
    if (rank == 1) {
        WT_CHECK_INT(rank + 1, 3);
        WT_CHECK_STR("left", "right");
        WT_CHECK_MEM("abcd", "abXd", 4);
        WT_CHECK(rank == 0);
    }
}

static void shows_failed_checks_and_output(void)
{
    CU_ASSERT_EQUAL(run_reported(2, failing_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "1 of 2 ranks failed"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: exit status 4"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank + 1 is 2, not 3 (3)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "is \"left\", not \"right\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "1 of 4 bytes differ, the first at 2: 0x63, not 0x58"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "test_harness.c:"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1 | rank 1 says something"));
}

static void requiring_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    WT_REQUIRE(rank == 0);
    if (rank != 0)
        printf("went on\n");
}

static void required_check_ends_the_rank(void)
{
    CU_ASSERT_EQUAL(run_reported(2, requiring_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "check failed: rank == 0"));
    CU_ASSERT_PTR_NULL(strstr(report, "went on"));
}

static void hanging_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    while (rank == 2)
        pause();
}

static void names_and_kills_stuck_ranks(void)
{
    uint64_t before = wt_now_ms();
    CU_ASSERT_EQUAL(run_reported(3, hanging_body, 300, 0, 0), 1);
    CU_ASSERT(wt_now_ms() - before < wt_slow_ms(5000));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 2: stuck at the deadline"));
    CU_ASSERT_PTR_NULL(strstr(report, "rank 1: stuck"));
}

static void crashing_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    if (rank == 0) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers catch it otherwise */
        raise(SIGSEGV);
    }
}

static void names_the_signal_of_a_crash(void)
{
    CU_ASSERT_EQUAL(run_reported(2, crashing_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 0: ended by signal 11"));
}

/* ---- Threads that a rank starts ---- */

static void *failing_thread(void *arg)
{
    WT_CHECK_INT((intptr_t)arg, 99);
    return NULL;
}

static void *requiring_thread(void *arg)
{
    WT_REQUIRE(arg == NULL);
    return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    WT_REQUIRE(pthread_create(&thread, NULL, fn, arg) == 0);
    pthread_join(thread, NULL);
}

static void threaded_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    if (rank == 1)
        in_thread(failing_thread, (void *)7);
    WT_CHECK_INT(wt_failures(), rank == 1);
}

static void requiring_threaded_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    in_thread(requiring_thread, (void *)(uintptr_t)(rank == 1));
}

static void around_threads_body(int rank, int nranks, void *arg)
{
    (void)rank, (void)nranks, (void)arg;
    fprintf(stderr, "%d thread ranks failed\n", wt_threads(2, threaded_body, NULL, 5000));
}

static void counts_checks_of_every_thread(void)
{
    CU_ASSERT_EQUAL(run_reported(2, threaded_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: exit status 1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: check failed: (intptr_t)arg is 7, not 99"));
    CU_ASSERT_EQUAL(run_reported(2, requiring_threaded_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: check failed: arg == NULL"));
    /* Ranks that are threads: their own check (of 0 failures) fails, too, in rank 1. */
    CU_ASSERT_EQUAL(run_reported(1, around_threads_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "2 thread ranks failed"));
}

/* A case of a unit test, outside ranks: this one, in another process of this program. */
static void counts_checks_of_cases(void)
{
    char self[512] = "", command[640];
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (getenv("WEFT_TEST_INNER")) {
        in_thread(failing_thread, (void *)7);
        return;
    }
    if (getenv("WEFT_EMULATED")) {
        wt_skip("this processor does not run the program by itself");
        return;
    }
    CU_ASSERT_FATAL(got > 0);
    snprintf(command, sizeof command, "WEFT_TEST_INNER=1 '%s' 'counts checks of cases' 2>&1", self);
    FILE *inner = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(inner);
    report[fread(report, 1, sizeof report - 1, inner)] = '\0';
    CU_ASSERT_EQUAL(WEXITSTATUS(pclose(inner)), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "\nnot ok 1 - counts checks of cases"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "arg is 7, not 99"));
}

static void leaving_early_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    if (rank == 1)
        exit(0);
    if (rank == 2) {
        wt_rank_leaves();
        execl("/bin/true", "true", (char *)NULL);
    }
}

static void notices_ranks_that_do_not_return(void)
{
    CU_ASSERT_EQUAL(run_reported(3, leaving_early_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: exit status 0, without having returned from its function"));
}

static void exiting_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    if (rank == 1)
        exit(7);
}

static void notices_an_exit_status(void)
{
    CU_ASSERT_EQUAL(run_reported(2, exiting_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 1: exit status 7"));
}

static void expected_deaths_are_fine_and_their_absence_is_not(void)
{
    CU_ASSERT_EQUAL(run_reported(2, crashing_body, 5000, 0, SIGSEGV), 0);
    CU_ASSERT_EQUAL(run_reported(2, crashing_body, 5000, 0, SIGKILL), 1);
    CU_ASSERT_EQUAL(run_reported(2, exiting_body, 5000, 0, SIGKILL), 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 0: exit status 0 instead of signal 9"));
}

static void environment_body(int rank, int nranks, void *arg)
{
    (void)arg;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    WT_CHECK_STR(getenv("WEFT_RANK"), text);
    WT_CHECK_STR(getenv("WEFT_LOCAL_RANK"), text);
    snprintf(text, sizeof text, "%d", nranks);
    WT_CHECK_STR(getenv("WEFT_NRANKS"), text);
    WT_CHECK_STR(getenv("WEFT_LOCAL_NRANKS"), text);
    WT_CHECK_STR(getenv("WEFT_STORE_ADDR"), "127.0.0.1");
    WT_CHECK(getenv("WEFT_JOB") != NULL);
    WT_CHECK(getenv("RANK") == NULL);
    WT_CHECK_INT(getenv("WEFT_STORE_FD") != NULL, rank == 0);
    int listening = 0;
    socklen_t bytes = sizeof listening;
    if (rank == 0) {
        WT_CHECK_INT(getsockopt(atoi(getenv("WEFT_STORE_FD")), SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes), 0);
        WT_CHECK_INT(listening, 1);
    }
}

static void gives_ranks_an_environment(void)
{
    setenv("RANK", "5", 1);
    CU_ASSERT_EQUAL(wt_run(3, environment_body, NULL, 5000), 0);
    unsetenv("RANK");
}

static void leaving_body(int rank, int nranks, void *arg)
{
    (void)rank, (void)nranks;
    const int *fds = arg;
    if (fork() == 0) { /* must be swept away with its rank */
        close(fds[0]);
        for (;;)
            pause();
    }
}

static void leaves_no_process_behind(void)
{
    int fds[2];
    CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
    CU_ASSERT_EQUAL(wt_run(2, leaving_body, fds, 5000), 0);
    close(fds[1]);
    char byte;
    CU_ASSERT_EQUAL(read(fds[0], &byte, 1), 0); /* end of file: nobody holds the other end */
    close(fds[0]);
}

static void until_allowed(int rank, int nranks, void *arg)
{
    _Atomic int *stage = arg;
    (void)rank, (void)nranks;
    *stage = 1;
    while (*stage == 1)
        usleep(1000);
}

static void impatient_body(int rank, int nranks, void *arg)
{
    (void)rank, (void)nranks;
    WT_CHECK_INT(wt_run(1, until_allowed, arg, 200), 0);
}

static void does_not_count_while_stopped(void)
{
    _Atomic int *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_NOT_EQUAL_FATAL((void *)stage, MAP_FAILED);
    struct wt_job *job = wt_job_start(1, impatient_body, (void *)stage);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    for (uint64_t until = wt_now_ms() + wt_slow_ms(5000); *stage == 0 && wt_now_ms() < until;)
        usleep(1000);
    kill(wt_job_pid(job, 0), SIGSTOP);
    usleep(1000 * (wt_slow_ms(200) + 100));
    kill(wt_job_pid(job, 0), SIGCONT);
    usleep(10000); /* it sees what time it is */
    *stage = 2;
    CU_ASSERT_EQUAL(wt_job_wait(job, 5000), 0);
    munmap((void *)stage, sizeof *stage);
}

static int thread_sum;
static void thread_body(int rank, int nranks, void *arg)
{
    (void)arg;
    __atomic_add_fetch(&thread_sum, rank + 1, __ATOMIC_RELAXED);
    wt_sync();
    WT_CHECK_INT(__atomic_load_n(&thread_sum, __ATOMIC_RELAXED), nranks * (nranks + 1) / 2);
}

static void runs_ranks_as_threads(void)
{
    thread_sum = 0;
    CU_ASSERT_EQUAL(wt_threads(4, thread_body, NULL, 5000), 0);
    CU_ASSERT_EQUAL(thread_sum, 10);
}

static void counts_failed_threads(void)
{
    wt_report_to("/dev/null");
    CU_ASSERT_EQUAL(wt_threads(3, requiring_body, NULL, 5000), 2);
    wt_report_to(NULL);
}

static void stuck_threads_body(int rank, int nranks, void *arg)
{
    (void)rank, (void)nranks, (void)arg;
    wt_threads(2, hanging_body, NULL, 100);
    wt_threads(3, hanging_body, NULL, 100);
}

static void stuck_threads_end_the_program(void)
{
    CU_ASSERT_EQUAL(run_reported(1, stuck_threads_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 2: stuck at the deadline"));
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "rank 0: exit status 1"));
}

static void exchange_body(int rank, int nranks, void *arg)
{
    int mine = rank * 7, all[4] = {0};
    (void)arg;
    for (int round = 0; round < 100; round++, mine++) {
        WT_CHECK_INT(wt_exchange(NULL, &mine, sizeof mine, all, 0), 0);
        for (int r = 0; r < nranks; r++)
            WT_CHECK_INT(all[r], r * 7 + round);
    }
    WT_CHECK(wt_is_thread());
}

static void threads_exchange(void)
{
    CU_ASSERT_EQUAL(wt_threads(4, exchange_body, NULL, 5000), 0);
    CU_ASSERT(!wt_is_thread());
    CU_ASSERT_EQUAL(wt_threads_apart(4, exchange_body, NULL, 5000), 0);
    wt_report_to("/dev/null");
    CU_ASSERT_EQUAL(wt_threads_apart(3, requiring_body, NULL, 5000), 1);
    wt_report_to(NULL);
}

static void *volatile lost;
static void leaking_body(int rank, int nranks, void *arg)
{
    (void)nranks, (void)arg;
    WT_CHECK(!wt_is_thread());
    lost = rank ? NULL : malloc(1000);
    lost = NULL;
}

/* Ranks end by exit, not _exit: that is where LeakSanitizer looks. */
static void sees_what_ranks_leak(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");
    if (!sanitizer || !strstr(sanitizer, "address")) {
        wt_skip("not built with the address sanitizer");
        return;
    }
    CU_ASSERT_EQUAL(run_reported(2, leaking_body, 5000, 0, 0), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(report, "1000 byte(s) leaked"));
}

static void makes_temporary_things(void)
{
    struct stat st;
    const char *dir = wt_temp_dir();
    CU_ASSERT_EQUAL(stat(dir, &st), 0);
    CU_ASSERT(S_ISDIR(st.st_mode));
    CU_ASSERT_STRING_NOT_EQUAL(dir, wt_temp_dir());
    int port = wt_free_port();
    CU_ASSERT(port > 0 && port < 65536);
}

static const struct wt_case cases[] = {
    {"reports nothing when all is well", reports_nothing_when_all_is_well},
    {"shows failed checks and output", shows_failed_checks_and_output},
    {"required check ends the rank", required_check_ends_the_rank},
    {"names and kills stuck ranks", names_and_kills_stuck_ranks},
    {"names the signal of a crash", names_the_signal_of_a_crash},
    {"counts checks of every thread", counts_checks_of_every_thread},
    {"counts checks of cases outside ranks", counts_checks_of_cases},
    {"notices ranks that do not return", notices_ranks_that_do_not_return},
    {"notices an exit status", notices_an_exit_status},
    {"expected deaths are fine and their absence is not", expected_deaths_are_fine_and_their_absence_is_not},
    {"gives ranks an environment", gives_ranks_an_environment},
    {"leaves no process behind", leaves_no_process_behind},
    {"does not count while stopped", does_not_count_while_stopped},
    {"runs ranks as threads", runs_ranks_as_threads},
    {"counts failed threads", counts_failed_threads},
    {"stuck threads end the program", stuck_threads_end_the_program},
    {"threads exchange what each gives", threads_exchange},
    {"sees what ranks leak", sees_what_ranks_leak},
    {"makes temporary things", makes_temporary_things},
};
WT_UNIT_MAIN("harness", cases)
