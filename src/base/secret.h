/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for keys that live long. Its pages are left out of core dumps, are empty in a forked child, and are kept out of
 * swap where the limit on locked memory allows. Fixed-size slots of shared pages: a key per communicator must not
 * cost a mapping each. */
#ifndef WI_BASE_SECRET_H
#define WI_BASE_SECRET_H

#include <stddef.h>

#define WI_SECRET_MAX 128

void *wi_secret_alloc(size_t bytes); /* zeroed; NULL: no memory, or more than WI_SECRET_MAX */
void wi_secret_free(void *secret);   /* wiped */

#endif
