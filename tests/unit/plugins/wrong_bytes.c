/* A plugin whose description ends before its ops.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_plugin.h>

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = 16,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "short",
};
