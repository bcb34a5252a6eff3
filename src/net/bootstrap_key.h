/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a job's key comes from. */
#ifndef WI_NET_BOOTSTRAP_KEY_H
#define WI_NET_BOOTSTRAP_KEY_H

#include "net/bootstrap.h"

/* The key that the user configured, by WEFT_JOB_KEY_FD, else WEFT_JOB_KEY_FILE, else WEFT_JOB_KEY. *configured 0: there is
 * none, and `key` is untouched. */
weft_status wi_job_key_configured(const struct wi_bootstrap_settings *s, unsigned char key[WI_JOB_KEY_BYTES],
                                  int *configured);
/* WEFT_ECONFIG when WEFT_REQUIRE_KEY asks for a configured key and there is none, or one that cannot be read. */
weft_status wi_job_key_require(const struct wi_bootstrap_settings *s);
/* `key` holds a secret that the ranks share. A configured key is mixed in, so that who joins needs both. */
weft_status wi_job_key_mix(const struct wi_bootstrap_settings *s, unsigned char key[WI_JOB_KEY_BYTES]);
/* Made from the job's name and the user: keeps jobs apart and keeps nobody out. */
weft_status wi_job_key_derive(const char *job, unsigned char key[WI_JOB_KEY_BYTES]);

int wi_hex_decode(const char *text, size_t bytes, unsigned char *out); /* 0 or -1; text has 2*bytes digits */
void wi_hex_encode(const unsigned char *in, size_t bytes, char *text); /* with its NUL */

#endif
