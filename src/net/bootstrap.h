/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap: how ranks that know nothing of each other come to exchange a few bytes.
 *
 * A provider yields a struct wi_bootstrap: rank, nranks, a job key and an all-gather in O(log P) rounds per rank. It is
 * used at communicator creation only; derived communicators (split, dup) exchange over their parent.
 *
 * Providers
 *   env      who am I, from the first launcher found: WEFT_RANK/WEFT_NRANKS (weft-run), torchrun (RANK, WORLD_SIZE,
 *            LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID), a process manager that was loaded (PMIx; manager.h),
 *            Open MPI (OMPI_COMM_WORLD_*), PMI-1 (PMI_FD, PMI_RANK, PMI_SIZE: MPICH's hydra; the wire protocol itself is
 *            spoken), SLURM (SLURM_PROCID, SLURM_NTASKS, …). None: a job of one rank.
 *   id       128-byte unique id: listener address, port and a random secret; rank 0 (its creator) serves.
 *   file     a path on a shared filesystem.
 *   oob      the caller's all-gather.
 *   parent   a communicator.
 */
#ifndef WI_NET_BOOTSTRAP_H
#define WI_NET_BOOTSTRAP_H

#include <weft/weft.h>
#include <weft/weft_plugin.h>

#define WI_JOB_KEY_BYTES 32

struct wi_bootstrap {
    int rank, nranks;
    int local_rank, local_nranks;          /* -1 when the launcher does not say */
    unsigned char job_key[WI_JOB_KEY_BYTES];
    int has_secret;                        /* the key is secret; else (WEFT_INSECURE) made from the job's name */
    char job[64];                          /* name for messages: "torchrun:abc" */
    /* Gather in rank order; may block until deadline. On WEFT_ETIMEDOUT the text names the missing ranks where the
     * provider can know them. */
    weft_status (*all_gather)(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                              uint64_t deadline_ns);
    void (*destroy)(struct wi_bootstrap *b);
};

struct wi_bootstrap_settings {
    const char *store_addr;       /* WEFT_STORE_ADDR: host or address of rank 0 */
    int64_t store_port;           /* WEFT_STORE_PORT */
    const char *interfaces;       /* WEFT_STORE_INTERFACES */
    const char *job_key_file;     /* WEFT_JOB_KEY_FILE (0600) */
    int64_t job_key_fd;           /* WEFT_JOB_KEY_FD: inherited descriptor, -1 none */
    int require_key;              /* WEFT_REQUIRE_KEY: refuse to start without a configured key */
    const char *job_key;          /* WEFT_JOB_KEY: "set" or empty; the key itself is read where it stands */
    int insecure;                 /* WEFT_INSECURE: several hosts without a key */
    const char *job;              /* WEFT_JOB: a name that keeps jobs apart */
    const char *manager;          /* WEFT_MANAGER: auto, none, or a process manager's name */
    /* What weft-run says, as text; NULL: look into the environment. */
    const char *rank, *nranks, *local_rank, *local_nranks; /* WEFT_RANK, WEFT_NRANKS, WEFT_LOCAL_RANK, WEFT_LOCAL_NRANKS */
    const char *store_fd;         /* WEFT_STORE_FD: rank 0's inherited listening socket */
    const char *node_id;          /* WEFT_NODE_ID, for wi_node_id */
    const struct weft_host *host; /* no setting: for process managers; NULL without a context */
};
/* Rows without a module part: read them with module "". */
extern const struct weft_setting wi_bootstrap_setting_rows[];

weft_status wi_bootstrap_env(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_bootstrap **b);
weft_status wi_bootstrap_id(const struct wi_bootstrap_settings *s, const weft_unique_id *id, int rank, int nranks,
                            uint64_t deadline_ns, struct wi_bootstrap **b);
weft_status wi_bootstrap_file(const struct wi_bootstrap_settings *s, const char *path, int rank, int nranks,
                              uint64_t deadline_ns, struct wi_bootstrap **b);
weft_status wi_bootstrap_oob(const struct wi_bootstrap_settings *s, const weft_oob *oob, uint64_t deadline_ns,
                             struct wi_bootstrap **b);
/* Make an id; this process starts serving it (a background thread that ends when the id's communicator has been created or
 * after the start-up time-out). */
weft_status wi_unique_id_create(const struct wi_bootstrap_settings *s, weft_unique_id *id);

/* Which ranks share a node: an opaque, comparable identity of this host (boot id, host name, network and pid namespace;
 * WEFT_NODE_ID overrides), and its printable name. */
struct wi_node_id {
    uint64_t id[2];
    char name[64];
};
weft_status wi_node_id(const char *override, struct wi_node_id *node);

#endif
