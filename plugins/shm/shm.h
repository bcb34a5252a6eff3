/* shm.h: the built-in shared-memory transport.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_SHM_SHM_H
#define WI_SHM_SHM_H

#include <weft/weft_plugin.h>

extern const struct weft_plugin weft_plugin_shm;

#endif
