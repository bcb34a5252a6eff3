/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports of a process: built in and loaded, opened once per context. */
#ifndef WI_NET_TRANSPORTS_H
#define WI_NET_TRANSPORTS_H

#include <weft/weft_plugin.h>

#include "base/settings.h"
#include "net/auth.h"

#define WI_MAX_TRANSPORTS 8

struct wi_transport {
    const struct weft_plugin *plugin;
    struct weft_transport_ops ops; /* complete: gaps are stubs that return WEFT_ENOTSUP */
    void *endpoint;
    void *settings;
    char *path;                    /* NULL: built in */
    void *handle;                  /* dlopen */
};

struct wi_transports {
    struct weft_host host;
    struct wi_auth_key key;        /* for handshakes; set before the first group is made */
    int has_key;
    int count;
    struct wi_transport list[WI_MAX_TRANSPORTS];
};

/* Open every built-in and every plugin of `plugin_path` (directories, colon separated; NULL: none) that is named in
 * `wanted` (comma list; "" or "all": every one). A transport that cannot work here is left out with an info line; a name
 * in `wanted` that does not exist, or a plugin that cannot be loaded, is an error. */
weft_status wi_transports_open(struct wi_settings *settings, const char *wanted, const char *plugin_path,
                               struct wi_transports **transports);
void wi_transports_close(struct wi_transports *transports);
/* A job's key: handshakes of its communicators use it. */
weft_status wi_transports_add_key(struct wi_transports *transports, const unsigned char *job_key, size_t bytes,
                                  const char *job);
struct wi_transport *wi_transports_find(struct wi_transports *transports, const char *name);
/* The first transport with that capability, or NULL. */
struct wi_transport *wi_transports_with(struct wi_transports *transports, uint32_t cap);

#endif
