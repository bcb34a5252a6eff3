/* process.c: who a peer's process is, and what it is doing as far as this host can tell.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "addr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

/* Fields 3 and 22 of /proc/PID/stat; the second field may contain anything, so count from its closing parenthesis. 0: it cannot
 * be read, which without descriptors left, or without memory, says nothing of the process. */
static int read_stat(int32_t pid, char *state, uint64_t *started)
{
    char path[40], text[1024], *p;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (wi_tcp_read_text(path, text, sizeof text) <= 0 || !(p = strrchr(text, ')')) || p[1] != ' ')
        return 0;
    p += 2;
    *state = *p;
    for (int field = 3; field < 22; field++) {
        p = strchr(p, ' ');
        if (!p)
            return 0;
        p++;
    }
    *started = strtoull(p, NULL, 10);
    return 1;
}

void wi_tcp_process_identity(struct wi_tcp_identity *id)
{
    char text[64], state;
    struct stat st;
    ssize_t n = wi_tcp_read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    id->pid = (int32_t)getpid();
    id->pids = mix(0xcbf29ce484222325ull, text, n > 0 ? (size_t)n : 0);
    if (n <= 0 || stat("/proc/self/ns/pid", &st) || !read_stat(id->pid, &state, &id->started))
        id->pids = 0; /* comparable with nobody's */
    else
        id->pids = mix(id->pids, &st.st_ino, sizeof st.st_ino);
    if (gethostname(id->host, sizeof id->host - 1))
        id->host[0] = '\0';
    id->host[sizeof id->host - 1] = '\0';
}

char wi_tcp_process_state(const struct wi_tcp_identity *mine, const struct wi_tcp_identity *peer)
{
    uint64_t started;
    char state;
    if (!mine->pids || mine->pids != peer->pids || peer->pid <= 0)
        return '?';
    if (!read_stat(peer->pid, &state, &started))
        return kill(peer->pid, 0) && errno == ESRCH ? 0 : '?';
    if (started != peer->started)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : state;
}

size_t wi_tcp_process_text(const struct wi_tcp_identity *mine, const struct wi_tcp_identity *peer, char *text,
                           size_t capacity)
{
    char state = wi_tcp_process_state(mine, peer);
    int n = snprintf(text, capacity, "process %d on host %s%s", (int)peer->pid, peer->host[0] ? peer->host : "?",
                     state == 0     ? " has ended"
                     : state == 'T' ? " is stopped"
                     : state == 't' ? " is stopped by a debugger"
                                    : "");
    return n < 0 || !capacity ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}
