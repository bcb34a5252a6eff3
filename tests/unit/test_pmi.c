/* A process manager that goes away.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/pmi.h"
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
    CU_ASSERT_EQUAL(wi_pmi_init(&pmi, ends[1], wi_deadline_ns(1000000000)), WEFT_ENOTFOUND);
    close(ends[0]);
    close(ends[1]);
}

static const struct wt_case cases[] = {
    {"a process manager that has gone is named, without a signal", gone_before_it_is_asked},
    {"a pipe is no process manager", not_a_socket},
};
WT_UNIT_MAIN("pmi", cases)
