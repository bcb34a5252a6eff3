/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a process. */
#include "net/devices.h"

#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

weft_status wi_devices_add(struct wi_devices *devices, const struct weft_plugin *plugin, const struct weft_host *host,
                           void *settings, void *handle)
{
    const struct weft_device_ops *theirs = plugin->ops;
    struct wi_device *d = &devices->list[devices->count];
    weft_status st;

    if (devices->count == WI_MAX_DEVICES)
        return wi_fail(WEFT_EPLUGIN, "more than %d devices", WI_MAX_DEVICES);
    memset(d, 0, sizeof *d);
    memcpy(&d->ops, theirs, theirs->bytes < sizeof d->ops ? theirs->bytes : sizeof d->ops);
    if (!d->ops.open || !d->ops.close || !d->ops.kinds || !d->ops.kind_of)
        return wi_fail(WEFT_EPLUGIN, "device %s lacks a required entry (open, close, kinds, kind_of)", plugin->name);
    st = d->ops.open(host, settings, &d->device);
    if (st < 0)
        return st;
    d->plugin = plugin;
    d->settings = settings;
    d->handle = handle;
    devices->count++;
    return WEFT_SUCCESS;
}

void wi_devices_close(struct wi_devices *devices)
{
    for (int i = devices->count - 1; i >= 0; i--) {
        struct wi_device *d = &devices->list[i];
        d->ops.close(d->device);
        wi_free(d->settings);
        if (d->handle)
            dlclose(d->handle);
    }
    devices->count = 0;
}
