/* A process manager that goes away.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/bootstrap.h"
#include "net/pmi.h"
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"

/* Without a SIGPIPE, which would end the program: its action is the default one here. */
static void gone_before_it_is_asked(void)
{
    struct wi_pmi pmi;
    int pair[2];

    signal(SIGPIPE, SIG_DFL);
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    CU_ASSERT_EQUAL(wi_pmi_init(&pmi, pair[0], wi_deadline_ns(1000000000)), WEFT_EPEER);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "the process manager does not listen"));
    close(pair[0]);
}

static void not_a_socket(void)
{
    struct wi_pmi pmi;
    int ends[2];

    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT_EQUAL(wi_pmi_init(&pmi, ends[1], wi_deadline_ns(1000000000)), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "is no socket; it must be the socket that the process manager"));
    close(ends[0]);
    close(ends[1]);
    CU_ASSERT_EQUAL(wi_pmi_init(&pmi, ends[1], wi_deadline_ns(1000000000)), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "PMI_FD="));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "is not an open descriptor; it must be"));
}

static void *meet(void *arg)
{
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;

    *(weft_status *)arg = wi_bootstrap_env(&s, wi_deadline_ns(wt_slow_ms(20000) * 1000000), &b);
    return NULL;
}

/* A thread waits for the process manager and holds the lock of that. */
static void meanwhile(void)
{
    static const char *const names[] = {"PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
    const struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_bootstrap *b;
    weft_status met = WEFT_SUCCESS;
    pthread_t thread;
    char number[16], asked[64];
    int pair[2], status = -1;

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(number, sizeof number, "%d", pair[0]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        setenv(names[i], i == 0 ? number : i % 2 ? "1" : "2", 1);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, meet, &met), 0);
    CU_ASSERT(recv(pair[1], asked, sizeof asked, 0) > 0); /* cmd=init */
    CU_ASSERT_EQUAL(wi_bootstrap_env(&s, wi_deadline_ns(50000000), &b), WEFT_ETIMEDOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "meet by the process manager: another thread has been doing that"));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)(wt_slow_ms(10000) / 1000));
        _exit(wi_bootstrap_env(&s, wi_deadline_ns(50000000), &b) != WEFT_ETIMEDOUT);
    }
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    close(pair[1]);
    pthread_join(thread, NULL);
    CU_ASSERT(met < 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    close(pair[0]);
}

static const struct wt_case cases[] = {
    {"a process manager that has gone is named, without a signal", gone_before_it_is_asked},
    {"neither a pipe nor what is closed is a process manager", not_a_socket},
    {"a start beside another one ends at its own deadline, in a forked child too", meanwhile},
};
WT_UNIT_MAIN("pmi", cases)
