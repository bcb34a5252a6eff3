/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint of the transport ncclnet: a plugin that is loaded, its devices, and who can be reached by it. */
#include "ncclnet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weft_status nn_explain(struct nn_endpoint *e, weft_status status, const char *format, ...)
{
    char text[700];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    e->host->explain(e->host->impl, status, "ncclnet: %s", text);
    return status;
}

/* ---- Opening ---- */

static void endpoint_close(void *endpoint)
{
    struct nn_endpoint *e = endpoint;

    while (e->mems)
        nn_mem_free(e, e->mems);
    if (e->lib)
        nn_finalize(e->lib, &e->context);
    nn_log_remove(e->host);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* What is wrong with a plugin that was named to weft is an error of the settings (nn_load). */
static weft_status unusable(const struct nn_endpoint *e)
{
    return e->settings->plugin && *e->settings->plugin ? WEFT_ECONFIG : WEFT_EPLUGIN;
}

static weft_status begin(struct nn_endpoint *e)
{
    const char *missing;
    weft_status st;
    int result;

    e->lib = nn_load(e->host, e->settings, &st);
    if (!e->lib)
        return st;
    e->context.config.traffic_class = (int)e->settings->traffic_class;
    result = nn_init(e->lib, e->host->now_ns(), &e->context, nn_log, nn_profile);
    if (result != NN_SUCCESS)
        return nn_explain(e, unusable(e),
                          "%s (%s, version %d) could not be initialised: %s; WEFT_LOG=debug shows what it logs, and "
                          "WEFT_NCCLNET_PLUGIN=none does without it",
                          e->lib->path, nn_net_name(e->lib), e->lib->version, nn_result_name(result));
    if (nn_bind(e->lib, &missing))
        return nn_explain(e, unusable(e), "%s (%s): ncclNetPlugin_v%d lacks the function %s", e->lib->path,
                          nn_net_name(e->lib), e->lib->version, missing);
    st = nn_devices_choose(e);
    return st == WEFT_EPLUGIN ? unusable(e) : st;
}

static weft_status endpoint_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct nn_endpoint *e = calloc(1, sizeof *e);
    weft_status st;

    if (!e) {
        host->explain(host->impl, WEFT_ENOMEM, "ncclnet: no memory for an endpoint");
        return WEFT_ENOMEM;
    }
    e->host = host;
    e->settings = settings;
    e->packet_bytes = NN_PADDED(e->settings->eager) + NN_PACKET_MORE;
    pthread_mutex_init(&e->lock, NULL);
    nn_log_add(host);
    st = begin(e);
    if (st < 0) {
        endpoint_close(e);
        return st;
    }
    *endpoint = e;
    return WEFT_SUCCESS;
}

/* ---- Addresses ---- */

static weft_status endpoint_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    struct nn_endpoint *e = endpoint;
    struct nn_address a = {.magic = NN_ADDRESS_MAGIC};

    if (capacity < sizeof a)
        return nn_explain(e, WEFT_EINVAL, "an address has %zu bytes", sizeof a);
    if (WEFT_HOST_HAS(e->host, process_self))
        e->host->process_self(&a.process);
    snprintf(a.net, sizeof a.net, "%s", nn_net_name(e->lib));
    if (gethostname(a.host, sizeof a.host - 1) != 0)
        snprintf(a.host, sizeof a.host, "unknown");
    memcpy(buf, &a, sizeof a);
    *bytes = sizeof a;
    return WEFT_SUCCESS;
}

int nn_address_read(const void *address, size_t bytes, struct nn_address *to)
{
    if (bytes != sizeof *to)
        return 0;
    memcpy(to, address, sizeof *to);
    return to->magic == NN_ADDRESS_MAGIC && memchr(to->net, 0, sizeof to->net) && memchr(to->host, 0, sizeof to->host);
}

/* Whoever has loaded a plugin of the same name. Whether the networks of both are joined only connecting shows. */
static int endpoint_reachable(void *endpoint, const void *address, size_t bytes)
{
    const struct nn_endpoint *e = endpoint;
    char mine[NN_NAME_BYTES];
    struct nn_address a;

    if (!nn_address_read(address, bytes, &a))
        return 0;
    snprintf(mine, sizeof mine, "%s", nn_net_name(e->lib));
    return strcmp(a.net, mine) == 0;
}

/* ---- The one symbol ---- */

static const struct weft_setting rows[] = {
    {"PLUGIN", "", WEFT_SETTING_STRING, offsetof(struct nn_settings, plugin), 0, 0,
     "The network plugin of NCCL to use: a path, a library's name, X for libnccl-net-X.so, a list of these, or none; "
     "empty: what NCCL_NET_PLUGIN names, if it is set."},
    {"DEVICES", "", WEFT_SETTING_WORD, offsetof(struct nn_settings, devices), 0, 0,
     "Names or numbers of the plugin's devices, a list; pairs of ranks are spread over them. Empty: all that are as fast "
     "as the fastest."},
    {"REQUESTS", "16", WEFT_SETTING_INT, offsetof(struct nn_settings, requests), WEFT_POSTS_MIN, NN_REQUESTS_MAX,
     "Long messages that are posted to one connection at a time, a number."},
    {"EAGER", "8K", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, offsetof(struct nn_settings, eager), 1024, 256 << 10,
     "Messages of up to so many bytes are copied and sent at once; longer ones are announced first. Each connected rank "
     "costs 16 buffers of that and 8 KiB. In bytes."},
    {"TRAFFIC_CLASS", "-1", WEFT_SETTING_INT, offsetof(struct nn_settings, traffic_class), -1, 0x7fffffff,
     "Traffic class for plugins of version 10 and later, a number of the plugin's; -1: its default."},
    {"MAX_VERSION", "12", WEFT_SETTING_INT, offsetof(struct nn_settings, max_version), NN_VERSION_MIN, NN_VERSION_MAX,
     "The highest version of the plugin interface to use, a number."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = endpoint_open,
    .close = endpoint_close,
    .address = endpoint_address,
    .reachable = endpoint_reachable,
    .group_create = nn_group_create,
    .group_destroy = nn_group_destroy,
    .send = nn_send,
    .recv = nn_recv,
    .progress = nn_progress,
    .mem_register = nn_mem_register,
    .mem_deregister = nn_mem_deregister,
    .describe_peer = nn_describe,
    .quiesce = nn_quiesce,
    .left = nn_left,
    .connect = nn_group_connect,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "ncclnet",
    .summary = "network plugins of NCCL: libnccl-net-*.so",
    .settings = rows,
    .settings_bytes = sizeof(struct nn_settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_REGISTER | WEFT_CAP_SIDE,
    .priority = 50,
    .ops = &ops,
    .info_bits = 32,
};
