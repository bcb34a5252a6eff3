/* SPDX-License-Identifier: BSD-3-Clause */
/* Process managers: what has started the ranks tells them who they are, and carries where rank 0 listens and the job's secret. */
#ifndef WI_NET_MANAGER_H
#define WI_NET_MANAGER_H

#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"
#include "net/env.h"

/* PMI-1, which is built in (manager_pmi.c). */
extern const struct weft_plugin wi_manager_pmi;

/* A plugin, for all contexts and for good: its file stays loaded, and the first settings (wi_calloc'd, NULL: none) count.
 * WEFT_EPLUGIN: its ops are not complete, or too many are loaded. *added 0: it was there, and the settings are the caller's
 * still. */
weft_status wi_manager_add(const struct weft_plugin *plugin, void *settings, const char *path, int *added);
/* Visit those that were loaded. */
void wi_manager_visit(void (*fn)(void *arg, const struct weft_plugin *plugin, const char *path), void *arg);
/* The manager that has started this process, as WEFT_MANAGER allows, loaded ones before PMI-1; NULL: none. WEFT_ECONFIG: it names
 * one that has not. */
weft_status wi_manager_find(const struct wi_bootstrap_settings *s, const struct weft_plugin **manager);
/* Whether WEFT_MANAGER names one, or "none". */
int wi_manager_is_named(const struct wi_bootstrap_settings *s);
/* Whether rank 0's address and the key go through the manager: not where its keys are open and all ranks are on one host. */
int wi_manager_exchanges(const struct weft_manager_job *job);
/* Meet the manager and, through it, the other ranks: once in a process, the first time. Rank 0 publishes where it listens and a
 * secret. `job`: what the manager says. */
weft_status wi_manager_meet(const struct weft_plugin *manager, const struct wi_bootstrap_settings *s,
                            uint64_t deadline_ns, struct weft_manager_job *job);
/* After that: where the store is and the job's key, into `config`; on rank 0 also what it listens at (the caller's, -1: none). A
 * configured key is mixed in. */
weft_status wi_manager_config(const struct wi_bootstrap_settings *s, const struct wi_env *env,
                              const struct wi_job_key *key, uint64_t deadline_ns, struct wi_boot_config *config,
                              int listen_fds[2]);

#endif
