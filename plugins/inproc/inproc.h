/* inproc.h: the built-in transport between threads of one process.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_INPROC_INPROC_H
#define WI_INPROC_INPROC_H

#include <weft/weft_plugin.h>

extern const struct weft_plugin weft_plugin_inproc;

#endif
