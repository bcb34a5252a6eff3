/* tcp.c: the plugin: settings and operations of the tcp transport.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#define ROW(name, text, type, field, low, high, help)                                             \
    {                                                                                             \
        name, text, WEFT_SETTING_##type, offsetof(struct wi_tcp_settings, field), low, high, help \
    }

static const struct weft_setting rows[] = {
    ROW("INTERFACES", "", WORD, interfaces, 0, 0,
        "Interfaces to use: comma list of names or prefixes, a leading ^ excludes; empty: all that are up."),
    ROW("FAMILY", "auto", WORD, family, 0, 0, "IP version: auto, 4 or 6."),
    ROW("PORT", "", WORD, port, 0, 0, "Port or range (5000-5100) to listen on; empty: any free port."),
    ROW("SOCKETS", "0", INT, sockets, 0, WI_TCP_SOCKETS_MAX,
        "Sockets per peer, over which large messages are striped; 0: one, or one for each link where hosts have more links "
        "than ranks, and up to 4 where the link is fast."),
    ROW("SHARE", "auto", WORD, share, 0, 0,
        "Whether communicators share one connection to each process: always, never, or auto: those that are made once a quarter of "
        "the process's descriptors (ulimit -n) is in use."),
    ROW("CHUNK", "256K", BYTES, chunk, 64 << 10, WI_TCP_FRAME_MAX, "Bytes of one frame, the unit of striping."),
    ROW("EAGER", "256K", BYTES, eager, WI_TCP_EAGER_MIN, WI_TCP_EAGER_MAX,
        "Bytes per channel and peer that may be sent before their receive is posted."),
    ROW("SNDBUF", "0", BYTES, sndbuf, 0, 1 << 30, "Bytes of a socket's send buffer; 0: left to the kernel."),
    ROW("RCVBUF", "0", BYTES, rcvbuf, 0, 1 << 30, "Bytes of a socket's receive buffer; 0: left to the kernel."),
    ROW("UNSENT", "512K", BYTES, unsent, 0, 1 << 30,
        "Bytes that a socket may hold unsent: more would keep grants waiting behind data; 0: no limit."),
    ROW("FAST_RATE", "500M", BYTES, fast_rate, 1, SIZE_MAX,
        "Bytes per second that the kernel delivers to a peer from which on it gets more sockets, if SOCKETS is 0."),
    ROW("USER_TIMEOUT", "10s", TIME, user_timeout, 0, 0,
        "Time after which data that is not acknowledged means a dead peer; 0: the kernel's."),
    ROW("KEEPALIVE_IDLE", "5s", TIME, keepalive_idle, 0, 0, "Idle time before a socket is probed."),
    ROW("KEEPALIVE_INTERVAL", "2s", TIME, keepalive_interval, 0, 0, "Time between probes of an idle socket."),
    ROW("KEEPALIVE_COUNT", "3", INT, keepalive_count, 1, 127, "Probes without an answer that mean a dead peer."),
    ROW("CONNECT_TIMEOUT", "30s", TIME, connect_timeout, 0, 0, "Time to reach a peer by any of its addresses."),
    ROW("AUTH_TIMEOUT", "2s", TIME, auth_timeout, 0, 0, "Time an accepted connection has to authenticate."),
    ROW("HALF_OPEN", "256", INT, half_open, 1, 65536,
        "Accepted connections that may wait for authentication, half of them from one address; the oldest that has not shown "
        "the job's key gives way."),
    ROW("PARK_TIMEOUT", "1min", TIME, park_timeout, 0, 0,
        "Time an authenticated connection waits for its communicator to be created here."),
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = wi_tcp_endpoint_open,
    .close = wi_tcp_endpoint_close,
    .address = wi_tcp_endpoint_address,
    .reachable = wi_tcp_endpoint_reachable,
    .group_create = wi_tcp_group_create,
    .group_destroy = wi_tcp_group_destroy,
    .send = wi_tcp_group_send,
    .recv = wi_tcp_group_recv,
    .progress = wi_tcp_group_progress,
    .poll_fd = wi_tcp_group_poll_fd,
    .poll_arm = wi_tcp_group_poll_arm,
    .describe_peer = wi_tcp_peer_describe,
    .peek = wi_tcp_group_peek,
};

extern const struct weft_plugin weft_plugin_tcp;
const struct weft_plugin weft_plugin_tcp = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin_tcp,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "tcp",
    .summary = "TCP over IPv4 and IPv6, several sockets per peer",
    .settings = rows,
    .settings_bytes = sizeof(struct wi_tcp_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO,
    .priority = 10,
    .ops = &ops,
};
