/* A transport whose name does not fit where ranks exchange it.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_plugin.h>

static const struct weft_transport_ops ops = {.bytes = sizeof ops};
WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "sixteen_letters_",
    .summary = "nothing",
    .ops = &ops,
};
