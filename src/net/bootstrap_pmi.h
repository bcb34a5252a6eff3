/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap under launchers with PMI. */
#ifndef WI_NET_BOOTSTRAP_PMI_H
#define WI_NET_BOOTSTRAP_PMI_H

#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"
#include "net/env.h"

/* Where the store is and the job's key, into `config`; on rank 0 also what it listens at (the caller's, -1: none). A configured key
 * is mixed in. */
weft_status wi_boot_pmi_meet(const struct wi_bootstrap_settings *s, const struct wi_env *env, const struct wi_job_key *key,
                             uint64_t deadline_ns, struct wi_boot_config *config, int listen_fds[2]);

#endif
