/* A plugin of another ABI: must be refused by name, before anything else of it is read.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_plugin.h>

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {.abi = WEFT_PLUGIN_ABI + 41, .bytes = sizeof weft_plugin};
