/* identity.c: see identity.h.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x6d687377u /* "wshm" */
#define VERSION 1u

static size_t read_file(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    text[0] = '\0';
    if (fd < 0)
        return 0;
    got = read(fd, text, capacity - 1);
    close(fd);
    if (got < 0)
        got = 0;
    text[got] = '\0';
    return (size_t)got;
}

static uint64_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

int wi_shm_process_stat(uint32_t pid, char *state, uint64_t *start_ticks)
{
    char path[64], text[1024];
    unsigned long threads = 1;
    const char *at;

    /* That of the first thread: it says the same, and emulators of user programs make up the other one. */
    snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, pid);
    if (!read_file(path, text, sizeof(text)))
        return 0;
    at = strrchr(text, ')'); /* the name in parentheses may hold anything */
    if (!at || at[1] != ' ')
        return 0;
    at += 2;
    *state = *at;
    for (int field = 3; field < 22; field++) { /* start time is field 22 */
        at = strchr(at, ' ');
        if (!at)
            return 0;
        at++;
        if (field + 1 == 20) /* number of threads, the first one included */
            threads = strtoul(at, NULL, 10);
    }
    if (*state == 'Z' && threads > 1) /* the first thread has ended, and others go on */
        *state = 'S';
    *start_ticks = strtoull(at, NULL, 10);
    return 1;
}

void wi_shm_identity_read(struct wi_shm_identity *identity, const char *node_id)
{
    char state, text[64];

    memset(identity, 0, sizeof(*identity));
    identity->magic = MAGIC;
    identity->version = VERSION;
    identity->bytes = sizeof(*identity);
    read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    snprintf(identity->boot_id, sizeof(identity->boot_id), "%.39s", text);
    if (gethostname(identity->host, sizeof(identity->host) - 1) != 0)
        snprintf(identity->host, sizeof(identity->host), "?");
    if (node_id && node_id[0]) {
        snprintf(identity->node, sizeof(identity->node), "=%s", node_id);
    } else {
        memcpy(identity->node, identity->host, sizeof(identity->node));
        identity->net_ns = inode_of("/proc/self/ns/net");
    }
    identity->pid_ns = inode_of("/proc/self/ns/pid");
    identity->uid = (uint32_t)geteuid();
    identity->pid = (uint32_t)getpid();
    wi_shm_process_stat(identity->pid, &state, &identity->start_ticks);
}

int wi_shm_identity_parse(struct wi_shm_identity *identity, const void *address, size_t bytes)
{
    if (!address || bytes != sizeof(*identity))
        return 0;
    memcpy(identity, address, sizeof(*identity));
    identity->boot_id[sizeof(identity->boot_id) - 1] = '\0';
    identity->node[sizeof(identity->node) - 1] = '\0';
    identity->host[sizeof(identity->host) - 1] = '\0';
    for (char *c = identity->host; *c; c++) /* it ends up in messages */
        if (*c < ' ' || *c > '~')
            *c = '?';
    return identity->magic == MAGIC && identity->version == VERSION && identity->bytes == sizeof(*identity) &&
           identity->pid > 0 && identity->pid <= INT32_MAX;
}

int wi_shm_identity_same_node(const struct wi_shm_identity *a, const struct wi_shm_identity *b)
{
    return strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->node, b->node) == 0 && a->net_ns == b->net_ns &&
           a->pid_ns == b->pid_ns && a->uid == b->uid;
}

int wi_shm_identity_same_process(const struct wi_shm_identity *a, const struct wi_shm_identity *b)
{
    return wi_shm_identity_same_node(a, b) && a->pid == b->pid && a->start_ticks == b->start_ticks;
}
