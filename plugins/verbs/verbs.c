/* verbs.c: the plugin: settings and operations of the verbs transport, and its endpoint.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs.h"
#include "group.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static weft_status open_endpoint(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct vb_endpoint *e;
    weft_status st;

    if (!WEFT_HOST_HAS(host, side_request) || !WEFT_HOST_HAS(host, process_self) ||
        !WEFT_HOST_HAS(host, process_state) || !WEFT_HOST_HAS(host, fd_keep)) {
        host->explain(host->impl, WEFT_ENOTSUP, "verbs: this libweft has no side channel, which connects queue pairs");
        return WEFT_ENOTSUP;
    }
    e = calloc(1, sizeof *e);
    if (!e) {
        host->explain(host->impl, WEFT_ENOMEM, "verbs: no memory for an endpoint");
        return WEFT_ENOMEM;
    }
    e->host = host;
    e->settings = settings;
    pthread_mutex_init(&e->lock, NULL);
    host->process_self(&e->process);
    if (getrandom(&e->nonce, sizeof e->nonce, 0) != sizeof e->nonce)
        e->nonce = host->now_ns() ^ (uint64_t)(uintptr_t)e ^ (uint64_t)getpid() << 40;
    st = vb_ports_open(e);
    if (st < 0) {
        pthread_mutex_destroy(&e->lock);
        free(e);
        return st;
    }
    *endpoint = e;
    return WEFT_SUCCESS;
}

static void close_endpoint(void *endpoint)
{
    struct vb_endpoint *e = endpoint;

    vb_ports_close(e);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static weft_status address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    const struct vb_endpoint *e = endpoint;
    struct vb_address a = {.magic = VB_ADDRESS_MAGIC,
                           .version = VB_VERSION,
                           .nports = (uint8_t)e->nports,
                           .nonce = e->nonce,
                           .process = e->process};

    if (capacity < sizeof a)
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: an address needs %zu bytes", sizeof a);
    for (int i = 0; i < e->nports; i++) {
        memcpy(a.ports[i].gid, e->ports[i].gid.raw, sizeof a.ports[i].gid);
        a.ports[i].lid = e->ports[i].lid;
        a.ports[i].link_layer = e->ports[i].link_layer;
        a.ports[i].mtu = (uint8_t)e->ports[i].mtu;
    }
    memcpy(buf, &a, sizeof a);
    *bytes = sizeof a;
    return WEFT_SUCCESS;
}

/* Rail by rail, from the first: what one side has more of is not used. */
static int reachable(void *endpoint, const void *address, size_t bytes)
{
    const struct vb_endpoint *e = endpoint;
    struct vb_address a;

    if (bytes != sizeof a)
        return 0;
    memcpy(&a, address, sizeof a);
    if (a.magic != VB_ADDRESS_MAGIC || a.version != VB_VERSION || !a.nports || a.nports > VB_RAILS_MAX)
        return 0;
    return vb_port_reaches(&e->ports[0], &a.ports[0]);
}

/* ---- The one symbol ---- */

#define ROW(name, text, type, field, low, high, help)                                         \
    {                                                                                         \
        name, text, WEFT_SETTING_##type, offsetof(struct vb_settings, field), low, high, help \
    }

static const struct weft_setting rows[] = {
    ROW("DEVICES", "", WORD, devices, 0, 0,
        "RDMA devices to use, one rail each: comma list of names, or of name:port; empty: all that have an active port."),
    ROW("RAILS", "4", INT, rails, 1, VB_RAILS_MAX, "Rails at most, a number."),
    ROW("GID_INDEX", "-1", INT, gid_index, -1, 255,
        "Index of the GID to use on every port; -1: RoCEv2 before v1, IPv4 before global and link-local IPv6."),
    ROW("TRAFFIC_CLASS", "0", INT, traffic_class, 0, 255,
        "Traffic class of packets with a GRH (RoCE: DSCP << 2), a number."),
    ROW("SERVICE_LEVEL", "0", INT, service_level, 0, 15, "InfiniBand's service level, a number."),
    ROW("PKEY", "65535", INT, pkey, 0, 65535, "Partition key, of which the high bit does not count, a number."),
    ROW("TIMEOUT", "18", INT, timeout, 1, 31,
        "Time until a packet is sent again: 4.096 us * 2 to the power of this number."),
    ROW("RETRIES", "7", INT, retries, 0, 7,
        "Times that a packet is sent again before its connection is broken, a number."),
    ROW("RNR_TIMER", "12", INT, rnr_timer, 0, 31,
        "How long a peer that has no receive request is let be, as verbs encode it: 12 is 0.64 ms."),
    {"DEPTH", "16", WEFT_SETTING_INT | WEFT_SETTING_POWER_OF_TWO, offsetof(struct vb_settings, depth), 16, 1024,
     "Send requests of a connection that may be under way, a number."},
    ROW("INLINE", "220", BYTES, inline_bytes, 0, 1024,
        "Bytes up to which messages travel with their request, as far as the device can."),
    ROW("STRIPE", "128K", BYTES, stripe, 4096, INT64_MAX, "Bytes from which on a message goes over all rails at once."),
    ROW("REGISTER_MAX", "0", BYTES, register_max, 0, 0,
        "Bytes that may be registered at a time; 0: no limit of weft's own."),
    ROW("RELAXED_ORDERING", "y", BOOL, relaxed, 0, 0,
        "Let devices write to memory in any order, where they can: what a message is, is seen only after its completion."),
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = open_endpoint,
    .close = close_endpoint,
    .address = address,
    .reachable = reachable,
    .group_create = vb_group_create,
    .group_destroy = vb_group_destroy,
    .send = vb_send,
    .recv = vb_recv,
    .progress = vb_progress,
    .poll_fd = vb_poll_fd,
    .poll_arm = vb_poll_arm,
    .describe_peer = vb_describe,
    .mem_register = vb_register,
    .mem_deregister = vb_deregister,
    .mem_key = vb_key,
    .mem_import = vb_import,
    .mem_forget = vb_forget,
    .get = vb_get,
    .put = vb_put,
    .quiesce = vb_quiesce,
    .left = vb_left,
    .connect = vb_begin_to_connect,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "verbs",
    .summary = "InfiniBand and RoCE by libibverbs, several rails",
    .settings = rows,
    .settings_bytes = sizeof(struct vb_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_REGISTER | WEFT_CAP_GET | WEFT_CAP_PUT | WEFT_CAP_SIDE,
    .priority = 80,
    .ops = &ops,
    .info_bits = VB_INFO_BITS,
};
