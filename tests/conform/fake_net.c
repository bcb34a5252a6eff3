/* fake_net.c: TCP under another name and with more priority, in place of a fast network that not all ranks have, for tests.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Settings say how it misbehaves:
 *   FAKENET_OPEN   ok; absent: there is no device on this host; broken: there is one, and it fails
 *   FAKENET_REACH  all; up: only ranks with a greater FAKENET_ID; none; node: only those with the same FAKENET_ID
 *   FAKENET_GROUP  ok; fails: this rank cannot join the others; hangs: it never returns, nor do its threads
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/tcp/tcp.h"

extern const struct weft_plugin weft_plugin_tcp;

/* TCP asks for it, and tools that have all of weft within them export none. */
const char *weft_status_text(weft_status status)
{
    (void)status;
    return "a failure";
}

#define ROWS_MAX 64

struct settings {
    struct wi_tcp_settings tcp; /* first: the endpoint below reads it */
    const char *open, *reach, *group;
    int64_t id;
};

struct endpoint {
    const struct weft_host *host;
    const struct settings *settings;
    void *tcp;
};

static const struct weft_setting own_rows[] = {
    {"OPEN", "ok", WEFT_SETTING_WORD, offsetof(struct settings, open), 0, 0, "ok, absent or broken"},
    {"REACH", "all", WEFT_SETTING_WORD, offsetof(struct settings, reach), 0, 0, "all, up, none or node"},
    {"GROUP", "ok", WEFT_SETTING_WORD, offsetof(struct settings, group), 0, 0, "ok, fails or hangs"},
    {"ID", "0", WEFT_SETTING_INT, offsetof(struct settings, id), 0, 1 << 20, "for REACH"},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};
static struct weft_setting rows[ROWS_MAX];
static struct weft_transport_ops ops;

static const struct weft_transport_ops *tcp_ops(void)
{
    return weft_plugin_tcp.ops;
}

static weft_status fake_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    const struct settings *s = settings;
    struct endpoint *e;
    weft_status st;

    if (strcmp(s->open, "absent") == 0) {
        host->explain(host->impl, WEFT_ENOTSUP, "there is no device of the fake network's");
        return WEFT_ENOTSUP;
    }
    if (strcmp(s->open, "broken") == 0) {
        host->explain(host->impl, WEFT_ESYS, "the fake network's device does not answer");
        return WEFT_ESYS;
    }
    e = calloc(1, sizeof *e);
    if (!e)
        return WEFT_ENOMEM;
    e->host = host;
    e->settings = s;
    st = tcp_ops()->open(host, &s->tcp, &e->tcp);
    if (st < 0) {
        free(e);
        return st;
    }
    *endpoint = e;
    return WEFT_SUCCESS;
}

static void fake_close(void *endpoint)
{
    struct endpoint *e = endpoint;

    tcp_ops()->close(e->tcp);
    free(e);
}

/* TCP's, and the number behind it. */
static weft_status fake_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    struct endpoint *e = endpoint;
    weft_status st = tcp_ops()->address(e->tcp, buf, capacity - sizeof e->settings->id, bytes);

    if (st < 0)
        return st;
    memcpy((char *)buf + *bytes, &e->settings->id, sizeof e->settings->id);
    *bytes += sizeof e->settings->id;
    return WEFT_SUCCESS;
}

static int fake_reachable(void *endpoint, const void *address, size_t bytes)
{
    struct endpoint *e = endpoint;
    const char *reach = e->settings->reach;
    int64_t id;

    if (bytes < sizeof id || strcmp(reach, "none") == 0)
        return 0;
    memcpy(&id, (const char *)address + bytes - sizeof id, sizeof id);
    if ((strcmp(reach, "up") == 0 && id <= e->settings->id) || (strcmp(reach, "node") == 0 && id != e->settings->id))
        return 0;
    return tcp_ops()->reachable(e->tcp, address, bytes - sizeof id);
}

static weft_status fake_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct endpoint *e = endpoint;
    struct weft_group_config c = *config;
    size_t *bytes;
    weft_status st;

    if (strcmp(e->settings->group, "fails") == 0) {
        e->host->explain(e->host->impl, WEFT_ESYS, "the fake network has no room for a group");
        return WEFT_ESYS;
    }
    while (strcmp(e->settings->group, "hangs") == 0)
        sleep(1);
    bytes = calloc((size_t)c.nranks, sizeof *bytes);
    if (!bytes)
        return WEFT_ENOMEM;
    for (int r = 0; r < c.nranks; r++)
        bytes[r] = c.address_bytes[r] >= sizeof(int64_t) ? c.address_bytes[r] - sizeof(int64_t) : 0;
    c.address_bytes = bytes;
    st = tcp_ops()->group_create(e->tcp, &c, group);
    free(bytes);
    return st;
}

/* What TCP has, with what is different here. */
__attribute__((constructor)) static void fill(void)
{
    size_t n = 0;

    for (const struct weft_setting *row = weft_plugin_tcp.settings; row->name && n < ROWS_MAX - 8; row++)
        rows[n++] = *row;
    memcpy(rows + n, own_rows, sizeof own_rows);
    ops = *tcp_ops();
    ops.open = fake_open;
    ops.close = fake_close;
    ops.address = fake_address;
    ops.reachable = fake_reachable;
    ops.group_create = fake_group_create;
}

extern const struct weft_plugin weft_plugin;
__attribute__((visibility("default"))) const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "fakenet",
    .summary = "a fast network, for tests",
    .settings = rows,
    .settings_bytes = sizeof(struct settings),
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO,
    .priority = 80,
    .ops = &ops,
};
