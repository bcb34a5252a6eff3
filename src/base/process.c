/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* Ended by NUL. Bytes, or -1. */
static ssize_t read_text(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, capacity - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

/* Of the first thread, which says of the whole process when that began and how many threads it has: the file of the process says
 * the same, and emulators of user programs make that one up. The second field may hold anything, so count from its closing
 * parenthesis. 0: it cannot be read, which without descriptors left, or without memory, says nothing of the process. */
int wi_process_stat(int32_t pid, char *state, uint64_t *started)
{
    char path[64], text[1024], *p;
    unsigned long threads = 1;

    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    if (read_text(path, text, sizeof text) <= 0 || !(p = strrchr(text, ')')) || p[1] != ' ')
        return 0;
    p += 2;
    *state = *p;
    for (int field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (!p)
            return 0;
        p++;
        if (field + 1 == 20)
            threads = strtoul(p, NULL, 10);
    }
    if (*state == 'Z' && threads > 1) /* the first thread has ended, and others go on */
        *state = 'S';
    *started = strtoull(p, NULL, 10);
    return 1;
}

/* Boot and namespace, in which a number means one process. 0: that cannot be told. */
static uint64_t read_space(void)
{
    char text[64];
    uint64_t space;
    struct stat st;
    ssize_t n = read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);

    if (n <= 0 || stat("/proc/self/ns/pid", &st))
        return 0;
    space = wi_hash64(&st.st_ino, sizeof st.st_ino, wi_hash64(text, (size_t)n, 0));
    return space ? space : 1;
}

/* Read once, to be known also when no descriptors are left; again in a forked child, which may live in another namespace. */
static uint64_t own_space(void)
{
    static _Atomic uint64_t known;
    static _Atomic int32_t of;
    uint64_t space;

    if (atomic_load_explicit(&of, memory_order_acquire) == (int32_t)getpid())
        return atomic_load_explicit(&known, memory_order_relaxed);
    space = read_space();
    if (space) {
        atomic_store_explicit(&known, space, memory_order_relaxed);
        atomic_store_explicit(&of, (int32_t)getpid(), memory_order_release);
    }
    return space;
}

void wi_process_self(struct weft_process *process)
{
    char state;

    *process = (struct weft_process){.space = own_space(), .pid = (int32_t)getpid()};
    if (!wi_process_stat(process->pid, &state, &process->started))
        process->space = 0; /* comparable with nobody's */
}

int wi_process_state(const struct weft_process *process)
{
    uint64_t started;
    char state;

    if (!process->space || process->pid <= 0 || process->space != own_space())
        return '?';
    if (!wi_process_stat(process->pid, &state, &started))
        return kill(process->pid, 0) && errno == ESRCH ? 0 : '?';
    if (started != process->started)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : state;
}
