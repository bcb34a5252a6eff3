/* SPDX-License-Identifier: BSD-3-Clause */
/* Short names for what cases of the disk tier do again and again. Only for files that have a table of cases. */
#ifndef WT_DISK_CASES_H
#define WT_DISK_CASES_H

#include <errno.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "tests/unit/unit.h"
#include "tests/zero/disk_common.h"

static const size_t all[NEXTENTS] = {4, 0, 1, 2, 3, 6, 5};
static const enum wi_disk_kind kinds[2] __attribute__((unused)) = {WI_DISK_URING, WI_DISK_THREADS};

__attribute__((unused)) static int has(const char *word)
{
    if (!strstr(wi_fail_text(), word))
        printf("# \"%s\" has no \"%s\"\n", wi_fail_text(), word);
    return strstr(wi_fail_text(), word) != NULL;
}

/* NULL where io_uring is forbidden here; the case is skipped then. */
__attribute__((unused)) static struct wi_disk *make(const struct wi_disk_config *config)
{
    struct wi_disk *disk = NULL;
    weft_status status = wi_disk_create(config, wt_extents, NEXTENTS, &disk);

    if (status == WEFT_ENOTSUP && config->kind == WI_DISK_URING) {
        wt_skip("io_uring is not allowed here: %s", wi_fail_text());
        return NULL;
    }
    if (status != WEFT_SUCCESS)
        printf("# %s\n", wi_fail_text());
    CU_ASSERT_EQUAL_FATAL(status, WEFT_SUCCESS);
    return disk;
}

__attribute__((unused)) static weft_status step(struct wi_disk *disk)
{
    return wi_disk_stream(disk, all, NEXTENTS, WI_DISK_READ | WI_DISK_WRITE, wt_compute, NULL, NULL);
}

/* A function in a child, which may change limits and rights. 0: all was as it should be; else a line. */
__attribute__((unused)) static int in_child(int (*fn)(void))
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    wt_disk_folder(0); /* made here: the child does not remove it */
    wt_disk_folder(1);
    pid = fork();
    if (pid == 0) {
        int line = fn();
        if (line)
            printf("# line %d: %s\n", line, wi_fail_text());
        fflush(stdout);
        _exit(line ? 1 : 0);
    }
    CU_ASSERT_FATAL(pid > 0);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status))
        printf("# the child was ended by signal %d\n", WTERMSIG(status));
    return status;
}
#define CHILD_CHECK(condition) \
    do {                       \
        if (!(condition))      \
            return __LINE__;   \
    } while (0)

#endif
