/* group.h: what group.c has for the table of operations.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VB_GROUP_H
#define VB_GROUP_H

#include "verbs.h"

weft_status vb_group_create(void *endpoint, const struct weft_group_config *config, void **group);
void vb_group_destroy(void *group, int aborted);
weft_status vb_quiesce(void *group, uint64_t deadline_ns);
int vb_left(void *group, int peer);
void vb_begin_to_connect(void *group, int peer);
int vb_poll_fd(void *group);
size_t vb_describe(void *group, int peer, char *text, size_t capacity);

#endif
