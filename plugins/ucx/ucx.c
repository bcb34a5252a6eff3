/* ucx.c: the plugin's description.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

static const struct weft_setting rows[] = {
    {"NETWORK", "auto", WEFT_SETTING_WORD, offsetof(struct wu_settings, network), 0, 0,
     "When UCX is used: auto (where there is an RDMA device) or any (also over TCP and shared memory alone), a word."},
    {"SEGMENT", "256K", WEFT_SETTING_BYTES, offsetof(struct wu_settings, segment), 4096, 1 << 30,
     "What is handed to UCX at once of a long message, in bytes."},
    {"WINDOW", "1M", WEFT_SETTING_BYTES, offsetof(struct wu_settings, window), 65536, 1 << 30,
     "What a rank sends to another one before that receives it, in bytes; more waits at the sender."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = wu_open,
    .close = wu_close,
    .address = wu_address,
    .reachable = wu_reachable,
    .group_create = wu_group_create,
    .group_destroy = wu_group_destroy,
    .send = wu_send,
    .recv = wu_recv,
    .progress = wu_progress,
    .poll_fd = wu_poll_fd,
    .poll_arm = wu_poll_arm,
    .describe_peer = wu_describe,
    .peek = wu_peek,
    .quiesce = wu_quiesce,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "ucx",
    .summary = "UCX: InfiniBand, RoCE and other fast networks",
    .settings = rows,
    .settings_bytes = sizeof(struct wu_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO | WEFT_CAP_SIDE,
    .priority = 60,
    .ops = &ops,
};
