/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device a pointer belongs to. Host memory is what no device claims; a process without devices never asks. */
#ifndef WI_NET_DEVICES_H
#define WI_NET_DEVICES_H

#include <weft/weft_plugin.h>

#define WI_MAX_DEVICES 4

struct wi_device {
    const struct weft_plugin *plugin;
    struct weft_device_ops ops; /* complete */
    void *device, *settings, *handle;
};

struct wi_devices {
    int count; /* the host is not counted */
    struct wi_device list[WI_MAX_DEVICES];
};

/* Opens the device; takes settings and handle (of dlopen, or NULL) on success. WEFT_EPLUGIN when an entry is missing or there
 * are too many. */
weft_status wi_devices_add(struct wi_devices *devices, const struct weft_plugin *plugin, const struct weft_host *host,
                           void *settings, void *handle);
void wi_devices_close(struct wi_devices *devices);

/* The kind of the memory at ptr; NULL is host memory. */
static inline uint32_t wi_memory_kind(const struct wi_devices *devices, const void *ptr)
{
    for (int i = 0; __builtin_expect(i < devices->count, 0); i++) {
        uint32_t kind = ptr ? devices->list[i].ops.kind_of(devices->list[i].device, ptr) : 0;
        if (kind)
            return kind;
    }
    return WEFT_MEMORY_HOST;
}

#endif
