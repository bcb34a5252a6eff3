/* SPDX-License-Identifier: BSD-3-Clause */
/* Which process this is, for others to tell it from one that has its number later; and what another one is doing. */
#ifndef WI_BASE_PROCESS_H
#define WI_BASE_PROCESS_H

#include <weft/weft_plugin.h>

void wi_process_self(struct weft_process *process);
/* 'R', 'S', 'T', … as in /proc; 0: it has ended; '?': that cannot be known from here. A process whose first thread has ended goes
 * on with its others. */
int wi_process_state(const struct weft_process *process);

/* What tells one machine's boots and containers apart: the kernel's random id of this boot, "" if it cannot be read; the number of
 * this process's namespace of a kind ("net", "pid"), 0 likewise. */
#define WI_BOOT_ID_BYTES 64
void wi_process_boot_id(char id[WI_BOOT_ID_BYTES]);
uint64_t wi_process_namespace(const char *kind);

/* State letter and start time of any process; 0: they cannot be read, which without descriptors left says nothing of it. */
int wi_process_stat(int32_t pid, char *state, uint64_t *started);

#endif
