/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a job's key comes from. */
#ifndef WI_NET_BOOTSTRAP_KEY_H
#define WI_NET_BOOTSTRAP_KEY_H

#include "net/bootstrap.h"

/* The key that the user configured, by WEFT_JOB_KEY_FD, else WEFT_JOB_KEY_FILE, else WEFT_JOB_KEY. To be wiped after use. */
struct wi_job_key {
    int configured; /* 0: there is none */
    unsigned char bytes[WI_JOB_KEY_BYTES];
};
/* MUST: fail without a key when WEFT_REQUIRE_KEY is set. MAY: never, as on one host, where the kernel
 * tells the other processes' users. */
enum wi_job_key_need { WI_JOB_KEY_MAY, WI_JOB_KEY_MUST };
/* Every way to start begins with this. Any thread; waits for a pipe's writer. WEFT_ECONFIG: it cannot be read, or there is none and
 * one is required, or WEFT_INSECURE contradicts that; WEFT_ETIMEDOUT. */
/* What a start of several ranks would find, without emptying a pipe; WEFT_KEY_REFUSED: wi_fail_text says why. */
weft_key_state wi_job_key_state(const struct wi_bootstrap_settings *s);
weft_status wi_job_key_read(const struct wi_bootstrap_settings *s, enum wi_job_key_need need, uint64_t deadline_ns,
                            struct wi_job_key *key);
/* `secret`: what the ranks share anyway. A configured key is mixed in, so that a process needs both to join. */
weft_status wi_job_key_mix(const struct wi_job_key *configured, unsigned char secret[WI_JOB_KEY_BYTES]);
/* Made from the job's name and the user: separates jobs, but keeps no process out. */
weft_status wi_job_key_derive(const char *job, unsigned char key[WI_JOB_KEY_BYTES]);

#endif
