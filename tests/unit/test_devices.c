/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: the kind of a pointer, and plugins that are refused. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "net/devices.h"
#include "tests/unit/unit.h"

static char device_memory[4096];
static int closed;

static weft_status open_device(const struct weft_host *host, const void *settings, void **device)
{
    (void)host;
    if (settings)
        return WEFT_ENOTSUP;
    *device = device_memory;
    return WEFT_SUCCESS;
}

static void close_device(void *device)
{
    closed += device == device_memory;
}

static uint32_t kinds(void *device)
{
    (void)device;
    return WEFT_MEMORY_SOFTDEV;
}

static uint32_t kind_of(void *device, const void *ptr)
{
    const char *p = ptr, *base = device;

    return p >= base && p < base + sizeof device_memory ? WEFT_MEMORY_SOFTDEV : 0;
}

static const struct weft_device_ops ops = {sizeof ops, open_device, close_device, kinds, kind_of};
static const struct weft_plugin plugin = {
    .abi = WEFT_PLUGIN_ABI, .bytes = sizeof plugin, .kind = WEFT_PLUGIN_DEVICE, .name = "testdev", .ops = &ops};

static void host_only(void)
{
    struct wi_devices none = {0};

    CU_ASSERT_EQUAL(wi_memory_kind(&none, device_memory), WEFT_MEMORY_HOST);
    CU_ASSERT_EQUAL(wi_memory_kind(&none, NULL), WEFT_MEMORY_HOST);
}

static void one_device(void)
{
    struct wi_devices d = {0};
    int on_stack;

    CU_ASSERT_EQUAL(wi_devices_add(&d, &plugin, NULL, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_memory_kind(&d, device_memory), WEFT_MEMORY_SOFTDEV);
    CU_ASSERT_EQUAL(wi_memory_kind(&d, device_memory + 4095), WEFT_MEMORY_SOFTDEV);
    CU_ASSERT_EQUAL(wi_memory_kind(&d, &on_stack), WEFT_MEMORY_HOST);
    CU_ASSERT_EQUAL(wi_memory_kind(&d, NULL), WEFT_MEMORY_HOST);
    closed = 0;
    wi_devices_close(&d);
    CU_ASSERT_EQUAL(closed, 1);
    CU_ASSERT_EQUAL(d.count, 0);
}

static void refused(void)
{
    struct weft_device_ops lacking = ops;
    struct weft_plugin wrong = plugin;
    struct wi_devices d = {0};
    int settings;

    lacking.kind_of = NULL;
    wrong.ops = &lacking;
    CU_ASSERT_EQUAL(wi_devices_add(&d, &wrong, NULL, NULL, NULL), WEFT_EPLUGIN);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "testdev"));
    lacking = ops;
    lacking.bytes = offsetof(struct weft_device_ops, kind_of); /* an older plugin that does not know the entry */
    CU_ASSERT_EQUAL(wi_devices_add(&d, &wrong, NULL, NULL, NULL), WEFT_EPLUGIN);
    CU_ASSERT_EQUAL(wi_devices_add(&d, &plugin, NULL, &settings, NULL), WEFT_ENOTSUP);
    CU_ASSERT_EQUAL(d.count, 0);
    for (int i = 0; i < WI_MAX_DEVICES; i++)
        CU_ASSERT_EQUAL(wi_devices_add(&d, &plugin, NULL, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_devices_add(&d, &plugin, NULL, NULL, NULL), WEFT_EPLUGIN);
    wi_devices_close(&d);
}

static const struct wt_case cases[] = {
    {"host memory", host_only},
    {"one device", one_device},
    {"refused", refused},
};
WT_UNIT_MAIN("devices", cases)
