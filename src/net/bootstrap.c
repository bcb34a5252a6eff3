/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of start-up, and the bootstrap of a rank alone. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "net/bootstrap_mesh.h"

#define ROW(name, text, type, field, min, max, help)                                    \
    {                                                                                   \
        name, text, type, offsetof(struct wi_bootstrap_settings, field), min, max, help \
    }

const struct weft_setting wi_bootstrap_setting_rows[] = {
    ROW("STORE_ADDR", NULL, WEFT_SETTING_WORD, store_addr, 0, 0,
        "Host name or address of rank 0, where the start-up store listens."),
    ROW("STORE_PORT", "0", WEFT_SETTING_INT, store_port, 0, 65535,
        "Port of the start-up store; 0: a list made from the job's name."),
    ROW("STORE_INTERFACES", NULL, WEFT_SETTING_WORD, interfaces, 0, 0,
        "Network interfaces for start-up and plugins' side channel, in order, separated by commas; the first that is up is used."),
    ROW("JOB_KEY_FILE", NULL, WEFT_SETTING_STRING, job_key_file, 0, 0,
        "File with the job key (32 bytes or 64 hexadecimal digits), mode 0600."),
    ROW("JOB_KEY_FD", "-1", WEFT_SETTING_FD, job_key_fd, -1, 1 << 20,
        "Inherited descriptor that holds the job key; -1: none."),
    ROW("JOB_KEY", NULL, WEFT_SETTING_WORD, job_key, 0, 0,
        "Job key, 64 hexadecimal digits; in the environment only, and shown as \"set\"."),
    ROW("REQUIRE_KEY", "n", WEFT_SETTING_BOOL, require_key, 0, 0,
        "Whether communicators of several ranks are refused unless a job key is configured or the launcher says that all ranks "
        "are on one host."),
    ROW("INSECURE", "n", WEFT_SETTING_BOOL, insecure, 0, 0,
        "Whether ranks on several hosts may start without a job key; anyone who reaches the network can then join them."),
    ROW("JOB", NULL, WEFT_SETTING_WORD, job, 0, 0, "Name that keeps jobs apart; default: the launcher's."),
    ROW("MANAGER", "auto", WEFT_SETTING_WORD, manager, 0, 0,
        "Process manager through which ranks meet: auto (the one that has started them, if any), none, or a name: pmi "
        "(built in) or that of a plugin (pmix, where weft was built with libpmix; its setting is WEFT_PMIX_HOLD)."),
    ROW("RANK", NULL, WEFT_SETTING_WORD, rank, 0, 0, "Rank of this process, set by weft-run."),
    ROW("NRANKS", NULL, WEFT_SETTING_WORD, nranks, 0, 0, "Number of ranks of the job, set by weft-run."),
    ROW("LOCAL_RANK", NULL, WEFT_SETTING_WORD, local_rank, 0, 0, "Rank of this process on its host, set by weft-run."),
    ROW("LOCAL_NRANKS", NULL, WEFT_SETTING_WORD, local_nranks, 0, 0, "Number of ranks on this host, set by weft-run."),
    ROW("STORE_FD", NULL, WEFT_SETTING_STRING, store_fd, 0, 0,
        "Inherited listening socket for rank 0's start-up store, set by weft-run."),
    ROW("NODE_ID", NULL, WEFT_SETTING_WORD, node_id, 0, 0,
        "Identity of this host: ranks with the same one share memory; default: from the kernel."),
    {NULL, NULL, WEFT_SETTING_STRING, 0, 0, 0, NULL},
};

/* ---- One rank ---------------------------------------------------------------------------------------- */

static weft_status single_all_gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                                     uint64_t deadline_ns)
{
    (void)b, (void)deadline_ns;
    if (mine_bytes > WI_STORE_VALUE_MAX || (mine_bytes && (!mine || !all)))
        return wi_fail(WEFT_EINVAL, "a start-up exchange carries 0 to %d bytes per rank, not %zu", WI_STORE_VALUE_MAX,
                       mine_bytes);
    if (mine_bytes)
        memmove(all, mine, mine_bytes);
    return WEFT_SUCCESS;
}

static void plain_destroy(struct wi_bootstrap *b)
{
    explicit_bzero(b, sizeof(*b));
    wi_free(b);
}

weft_status wi_boot_single(const struct wi_boot_config *config, struct wi_bootstrap **b)
{
    struct wi_bootstrap *single = wi_calloc(1, sizeof(*single));
    if (!single)
        return wi_fail(WEFT_ENOMEM, "no memory for start-up");
    single->nranks = single->local_nranks = 1;
    single->has_secret = config->has_secret;
    memcpy(single->job_key, config->job_key, sizeof(single->job_key));
    snprintf(single->job, sizeof(single->job), "%s", config->job);
    single->all_gather = single_all_gather;
    single->destroy = plain_destroy;
    *b = single;
    return WEFT_SUCCESS;
}
