/* identity.c: see identity.h.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "identity.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
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

/* Of the host, which is the same for every endpoint of the process. A host without: nothing is known of processes. */
static void (*_Atomic host_self)(struct weft_process *process);
static int (*_Atomic host_state)(const struct weft_process *process);
static _Atomic uint64_t space; /* where numbers of processes mean something; those of this node's ranks are all in it */

void wi_shm_processes_init(const struct weft_host *host)
{
    struct weft_process self;

    if (!WEFT_HOST_HAS(host, process_self) || !WEFT_HOST_HAS(host, process_state))
        return;
    host->process_self(&self);
    atomic_store_explicit(&space, self.space, memory_order_relaxed);
    atomic_store_explicit(&host_self, host->process_self, memory_order_relaxed);
    atomic_store_explicit(&host_state, host->process_state, memory_order_relaxed);
}

int wi_shm_process_state(const struct wi_shm_identity *identity)
{
    int (*state)(const struct weft_process *process) = atomic_load_explicit(&host_state, memory_order_relaxed);
    struct weft_process process = {.space = atomic_load_explicit(&space, memory_order_relaxed),
                                   .started = identity->start_ticks,
                                   .pid = (int32_t)identity->pid};

    return state ? state(&process) : '?';
}

void wi_shm_identity_read(struct wi_shm_identity *identity, const char *node_id)
{
    void (*tell)(struct weft_process *) = atomic_load_explicit(&host_self, memory_order_relaxed);
    struct weft_process self = {.started = 0};
    char text[64];

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
    if (tell)
        tell(&self);
    identity->start_ticks = self.started;
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
