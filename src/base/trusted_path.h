/* SPDX-License-Identifier: BSD-3-Clause */
/* May code be loaded from a path? Any user who can change the file, or a folder above it, decides what this process runs. */
#ifndef WI_BASE_TRUSTED_PATH_H
#define WI_BASE_TRUSTED_PATH_H

#include <stddef.h>

/* 1: the file or folder and every folder and symbolic link on the way to it belong to root, to the effective user or to the owner
 * of this library, and no other user can write to them. A sticky folder (/tmp) may be writable, since others cannot replace its
 * entries. 0: `why` names what is wrong with which of them. */
int wi_path_trusted(const char *path, char *why, size_t capacity);

/* Whether every user of the machine has a number here: not so in a container's user namespace, where those without one all look
 * like WI_OVERFLOW_UID. */
#define WI_OVERFLOW_UID 65534
int wi_users_are_mapped(void);

#endif
