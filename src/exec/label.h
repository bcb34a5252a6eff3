/* SPDX-License-Identifier: BSD-3-Clause */
/* Labels of calls: what the program says that a call is for. Operations, records and messages have a hash; the newest texts are
 * kept for errors and the flight recorder, so that a rank can say what a peer's hash means if it has used that label itself. */
#ifndef WI_EXEC_LABEL_H
#define WI_EXEC_LABEL_H

#include <stdint.h>

#define WI_LABEL_BYTES 64 /* of longer ones the beginning is kept; the hash is of all of it */

struct wi_exec;

/* As the program gave it; never 0. */
uint32_t wi_label_hash(const char *label);
/* The executor is held. `text`: at most WI_LABEL_BYTES with its end. Without memory it is not kept. */
void wi_label_keep(struct wi_exec *exec, uint32_t hash, const char *text);
const char *wi_label_text(const struct wi_exec *exec, uint32_t hash); /* NULL: it is not known (any more) */
void wi_labels_free(struct wi_exec *exec);

#endif
