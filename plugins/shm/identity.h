/* identity.h: which process this is, and whether another one is on the same machine, so that they can share memory.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_SHM_IDENTITY_H
#define WI_SHM_IDENTITY_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft_plugin.h>

/* The address blob, as it travels. Text fields are padded with zeros. */
struct wi_shm_identity {
    uint32_t magic;
    uint16_t version, bytes;
    char boot_id[40];
    char node[64];        /* host name, or what NODE_ID says */
    uint64_t net_ns;      /* inode; 0 when NODE_ID is set */
    uint64_t pid_ns;
    uint32_t uid, pid;
    uint64_t start_ticks; /* start time of the process: tells a recycled pid */
    char host[64];        /* for messages */
};

void wi_shm_identity_read(struct wi_shm_identity *identity, const char *node_id);
/* Check form; 0 when the bytes are no identity. */
int wi_shm_identity_parse(struct wi_shm_identity *identity, const void *address, size_t bytes);
int wi_shm_identity_same_node(const struct wi_shm_identity *a, const struct wi_shm_identity *b);
int wi_shm_identity_same_process(const struct wi_shm_identity *a, const struct wi_shm_identity *b);
/* To be called before any of the others: what the host knows of processes. */
void wi_shm_processes_init(const struct weft_host *host);
/* weft_host.process_state of a process of this node. */
int wi_shm_process_state(const struct wi_shm_identity *identity);

#endif
