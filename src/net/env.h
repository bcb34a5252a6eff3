/* SPDX-License-Identifier: BSD-3-Clause */
/* This process's rank and job, as the launcher's environment says, or the process manager that the environment tells of. */
#ifndef WI_NET_ENV_H
#define WI_NET_ENV_H

#include "net/bootstrap.h"
#include "net/rendezvous.h"

enum wi_env_launcher {
    WI_ENV_SINGLE, WI_ENV_WEFT, WI_ENV_TORCH, WI_ENV_OPENMPI, WI_ENV_MANAGER, WI_ENV_SLURM,
    WI_ENV_NUMBERS /* a manager says who the ranks are; they meet as those of any launcher */
};

struct wi_env {
    enum wi_env_launcher launcher;
    int rank, nranks, local_rank, local_nranks; /* local: -1 unknown */
    int one_host;                  /* all ranks are on this host: the launcher, or a loopback address, says so */
    char job[64];
    struct wi_rendezvous rendezvous;
    const struct weft_plugin *manager; /* WI_ENV_MANAGER: which */
    int pmi_fd;                    /* of PMI-1 */
    const char *hint;              /* what to look at when ranks do not come */
};

/* The first launcher found. A loaded process manager is met here (net/manager.h); else nothing is opened. WEFT_ECONFIG names the
 * variable and its value. */
weft_status wi_env_read(const struct wi_bootstrap_settings *s, uint64_t deadline_ns, struct wi_env *env);
/* Meet at local sockets only, whatever port was named (it keeps jobs apart still). */
void wi_env_meet_locally(struct wi_env *env);
/* Several hosts and no key: WEFT_ECONFIG with what to type for the launcher. */
weft_status wi_env_refuse(const struct wi_env *env);

/* Parts. */
weft_status wi_env_int(const char *name, const char *value, int64_t min, int64_t max, int *out);
weft_status wi_env_ranks(struct wi_env *env, const char *rank_name, const char *nranks_name);
/* Optional variables: -1 where not set. */
weft_status wi_env_locals(struct wi_env *env, const char *rank_name, const char *nranks_name);
void wi_env_job(struct wi_env *env, const char *format, ...) __attribute__((format(printf, 2, 3)));
weft_status wi_env_openmpi(struct wi_env *env);
weft_status wi_env_pmi(struct wi_env *env);
weft_status wi_env_slurm(struct wi_env *env);
const char *wi_env_get(const char *name); /* NULL when unset or empty */

/* "node[03-07,9],gpu1" -> "node03"; "2(x3),1" at index 3 -> 1. 0 or -1. */
int wi_env_first_host(const char *nodelist, char *host, size_t capacity);
int wi_env_tasks_of_node(const char *list, int node);

#endif
