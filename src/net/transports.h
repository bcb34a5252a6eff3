/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports of a process: built in and loaded, opened once per context. */
#ifndef WI_NET_TRANSPORTS_H
#define WI_NET_TRANSPORTS_H

#include <pthread.h>
#include <weft/weft_plugin.h>

#include "base/settings.h"
#include "net/auth.h"
#include "net/devices.h"
#include "net/side.h"

#define WI_MAX_TRANSPORTS 8

struct wi_transport {
    const struct weft_plugin *plugin;
    struct weft_transport_ops ops; /* complete: gaps are stubs that return WEFT_ENOTSUP */
    struct weft_transport_ops raw; /* the plugin's own, when `ops` is the channel layer above it (channel.h) */
    void *endpoint;
    void *settings;
    char module[WEFT_TRANSPORT_NAME_MAX + 1]; /* of its settings: the name in capitals */
    uint64_t settings_hash;        /* of those that must be equal on all ranks that have it */
    char *path;                    /* NULL: built in */
    void *handle;                  /* dlopen */
};

/* The key of one communicator's handshakes (base/secret.h). */
struct wi_comm_key {
    uint64_t comm_id[2];
    struct wi_auth_key key;
    struct wi_comm_key *next;
};

/* A plugin, or a folder of plugins, that others could have changed (status WEFT_ECONFIG); a file that is no plugin of this
 * library's, or has the name of an earlier one (WEFT_EPLUGIN). */
struct wi_refused_plugin {
    struct wi_refused_plugin *next;
    weft_status status;
    char *path, *why, *name; /* path NULL: built in; name: the plugin's, NULL: not known */
};

#define WI_GONE_KEYS 64

struct wi_transports {
    struct weft_host host;
    pthread_mutex_t keys_lock;
    struct wi_comm_key *keys;
    /* Of the communicators that were destroyed last: a late connection can still be authenticated, and gets the answer that its
     * communicator is gone. */
    struct wi_comm_key *gone[WI_GONE_KEYS];
    unsigned gone_next;
    struct wi_auth_seen *seen; /* hellos that were answered here */
    int count;
    struct wi_transport list[WI_MAX_TRANSPORTS];
    struct wi_devices devices;
    struct wi_side *side; /* NULL: no transport uses it */
    struct wi_refused_plugin *refused; /* in the order of loading */
    struct wi_refused_plugin *left_out; /* transports that cannot work here, or that are not wanted */
};

/* Open every built-in and every plugin of `plugin_path` (directories, colon separated; NULL: none) that is named in
 * `wanted` (comma list; "" or "all": every one). A transport that cannot work here is left out with an info line; a name
 * in `wanted` that does not exist is an error. A plugin that another user could have put there (base/trusted_path.h), a file
 * that is none or of another ABI, and the second of a name are not loaded: they are logged as warnings and stand in `refused`;
 * whoever names one gets the reason as the error. `interfaces`: WEFT_STORE_INTERFACES, at which the side channel listens, too;
 * NULL or "": none. */
weft_status wi_transports_open(struct wi_settings *settings, const char *wanted, const char *plugin_path,
                               const char *interfaces, struct wi_transports **transports);
void wi_transports_close(struct wi_transports *transports);
/* The plugin's ops, with stubs where it leaves something out. */
weft_status wi_transport_complete(const struct weft_plugin *plugin, struct weft_transport_ops *ops);
/* Before any group of that communicator is made, and after its last one is gone. */
weft_status wi_transports_add_key(struct wi_transports *transports, const uint64_t comm_id[2],
                                  const unsigned char *job_key, size_t bytes, const char *job);
void wi_transports_drop_key(struct wi_transports *transports, const uint64_t comm_id[2]);
struct wi_transport *wi_transports_find(struct wi_transports *transports, const char *name);
/* The first transport with that capability, or NULL. */
struct wi_transport *wi_transports_with(struct wi_transports *transports, uint32_t cap);

#endif
