/* A plugin of ABI 1: its author is told what to change.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_plugin.h>

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {.abi = 1, .bytes = sizeof weft_plugin, .name = "older"};
