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

void wi_process_boot_id(char id[WI_BOOT_ID_BYTES])
{
    if (read_text("/proc/sys/kernel/random/boot_id", id, WI_BOOT_ID_BYTES) <= 0)
        id[0] = '\0';
    id[strcspn(id, "\n")] = '\0';
}

uint64_t wi_process_namespace(const char *kind)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Of the boot, the same for all processes: read once, to be known also when no descriptors are left. 0: it cannot be read. */
static uint64_t boot_hash(void)
{
    static _Atomic uint64_t known;
    uint64_t hash = atomic_load_explicit(&known, memory_order_relaxed); /* whoever reads it, it is the same */
    char boot[WI_BOOT_ID_BYTES];

    if (hash)
        return hash;
    wi_process_boot_id(boot);
    if (!boot[0])
        return 0;
    hash = wi_hash64(boot, strlen(boot), 0);
    hash = hash ? hash : 1;
    atomic_store_explicit(&known, hash, memory_order_relaxed);
    return hash;
}

/* This process's number in /proc; 0: that cannot be told. Where a namespace was made and /proc not mounted again, /proc has the
 * numbers of the outer one, among which a process of the inner one has another, usually larger number. */
static int32_t number_in_proc(void)
{
    char number[32];
    ssize_t n = readlink("/proc/self", number, sizeof number - 1);

    number[n > 0 ? n : 0] = '\0';
    return (int32_t)strtol(number, NULL, 10);
}

/* Boot and namespace, in which a number means one process. 0: that cannot be told. The namespace is asked for each time, without a
 * descriptor: a forked child may be in another one, and have the same number there as its parent. */
static uint64_t own_space(void)
{
    uint64_t boot = boot_hash(), pids = wi_process_namespace("pid"), space;

    if (!boot || !pids)
        return 0;
    space = wi_hash64(&pids, sizeof pids, boot);
    return space ? space : 1;
}

void wi_process_self(struct weft_process *process)
{
    char state;

    *process = (struct weft_process){.space = own_space(), .pid = (int32_t)getpid()};
    if (!wi_process_stat(number_in_proc(), &state, &process->started))
        process->space = 0; /* comparable with nobody's */
}

int wi_process_state(const struct weft_process *process)
{
    uint64_t started;
    char state;

    if (!process->space || process->pid <= 0 || process->space != own_space())
        return '?';
    if (number_in_proc() != (int32_t)getpid() || !wi_process_stat(process->pid, &state, &started))
        return kill(process->pid, 0) && errno == ESRCH ? 0 : '?';
    if (started != process->started)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : state;
}
