/* SPDX-License-Identifier: BSD-3-Clause */
/* NVLink, by NVIDIA's management library, which is loaded only where the kernel has the driver. NVML API reference: device
 * queries, NvLink methods. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "topology/read_internal.h"
#include "topology/typical.h"

#define MAX_GPUS 64
#define MAX_LINKS 18    /* NVML_NVLINK_MAX_LINKS */
#define REMOTE_SWITCH 2 /* NVML_NVLINK_DEVICE_TYPE_SWITCH */

/* nvmlPciInfo_t */
struct pci_info {
    char bus_legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

typedef void *gpu_handle;

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, gpu_handle *);
    int (*pci)(gpu_handle, struct pci_info *);
    int (*link_state)(gpu_handle, unsigned, unsigned *);
    int (*link_version)(gpu_handle, unsigned, unsigned *);
    int (*remote_pci)(gpu_handle, unsigned, struct pci_info *);
    int (*remote_type)(gpu_handle, unsigned, int *);
};

static int load(struct nvml *n)
{
    const struct {
        const char *name;
        void *function;
    } symbols[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlDeviceGetCount_v2", &n->count},
        {"nvmlDeviceGetHandleByIndex_v2", &n->handle},
        {"nvmlDeviceGetPciInfo_v3", &n->pci},
        {"nvmlDeviceGetNvLinkState", &n->link_state},
        {"nvmlDeviceGetNvLinkVersion", &n->link_version},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->remote_pci},
        {"nvmlDeviceGetNvLinkRemoteDeviceType", &n->remote_type},
    };

    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return 0;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(n->library, symbols[i].name);
        /* POSIX: a function's address comes as a data pointer. */
        memcpy(symbols[i].function, &symbol, sizeof(symbol));
        /* The type of the far end came last; without it all far ends are looked up by address. */
        if (!symbol && symbols[i].function != (void *)&n->remote_type)
            return 0;
    }
    return 1;
}

/* Per direction, in bytes per microsecond. */
static double link_rate(unsigned version)
{
    return version <= 1 ? 20000.0 : version <= 4 ? WI_TYPICAL_NVLINK_RATE : 50000.0;
}

static void bus_text(const struct pci_info *pci, char bus[16])
{
    snprintf(bus, 16, "%04x:%02x:%02x.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0x1f);
}

static struct wi_read_device *gpu_at(struct wi_reading *r, const struct pci_info *pci)
{
    char bus[16];

    bus_text(pci, bus);
    for (int i = 0; i < r->ndevices; i++)
        if (r->devices[i].kind == WI_TOPO_GPU && !strcmp(r->devices[i].bus, bus))
            return &r->devices[i];
    return NULL;
}

struct joined {
    double rate[MAX_GPUS]; /* to each GPU of devices[], by its number; all links together */
    double switched;       /* to switches */
};

static int device_number(const struct wi_reading *r, const struct wi_read_device *device)
{
    return (int)(device - r->devices);
}

static void read_links(struct wi_reading *r, const struct nvml *n, gpu_handle gpu, struct joined *joined)
{
    for (unsigned link = 0; link < MAX_LINKS; link++) {
        unsigned active = 0, version = 0;
        struct pci_info remote;
        int type = -1;
        if (n->link_state(gpu, link, &active) != 0 || !active || n->link_version(gpu, link, &version) != 0)
            continue;
        memset(&remote, 0, sizeof(remote));
        int known = n->remote_pci(gpu, link, &remote) == 0;
        struct wi_read_device *peer = known ? gpu_at(r, &remote) : NULL;
        if (n->remote_type && n->remote_type(gpu, link, &type) != 0)
            type = -1;
        if (peer && device_number(r, peer) < MAX_GPUS)
            joined->rate[device_number(r, peer)] += link_rate(version);
        else if (type == REMOTE_SWITCH || (type < 0 && known))
            joined->switched += link_rate(version);
    }
}

static void add_links(struct wi_reading *r, const struct joined *joined)
{
    int nvswitch = WI_TOPO_NONE;

    for (int i = 0; i < r->ndevices && i < MAX_GPUS; i++) {
        if (joined[i].switched > 0 && nvswitch == WI_TOPO_NONE) {
            struct wi_topo_object object = wi_topo_object_init(WI_TOPO_NVSWITCH, r->host, r->host);
            nvswitch = wi_topo_add(r->b, &object);
        }
        if (joined[i].switched > 0)
            wi_topo_connect(r->b, WI_TOPO_LINK_NVLINK, r->devices[i].object, nvswitch, joined[i].switched,
                            WI_TYPICAL_NVLINK_LATENCY, WI_TOPO_REPORTED);
        for (int k = i + 1; k < MAX_GPUS; k++)
            if (joined[i].rate[k] > 0)
                wi_topo_connect(r->b, WI_TOPO_LINK_NVLINK, r->devices[i].object, r->devices[k].object,
                                joined[i].rate[k], WI_TYPICAL_NVLINK_LATENCY, WI_TOPO_REPORTED);
    }
}

static void read_gpus(struct wi_reading *r, const struct nvml *n)
{
    struct joined joined[MAX_GPUS];
    unsigned count = 0;

    memset(joined, 0, sizeof(joined));
    if (n->count(&count) != 0)
        count = 0;
    for (unsigned i = 0; i < count && i < MAX_GPUS; i++) {
        gpu_handle gpu;
        struct pci_info pci;
        struct wi_read_device *device;
        memset(&pci, 0, sizeof(pci));
        if (n->handle(i, &gpu) != 0 || n->pci(gpu, &pci) != 0 || !(device = gpu_at(r, &pci)))
            continue;
        if (device->object != WI_TOPO_NONE && device_number(r, device) < MAX_GPUS)
            read_links(r, n, gpu, &joined[device_number(r, device)]);
    }
    add_links(r, joined);
}

void wi_read_nvlink(struct wi_reading *r)
{
    struct nvml n = {NULL};
    int ngpus = 0;

    for (int i = 0; i < r->ndevices; i++)
        ngpus += r->devices[i].kind == WI_TOPO_GPU && r->devices[i].object != WI_TOPO_NONE;
    if (!ngpus || access("/proc/driver/nvidia/version", F_OK) < 0)
        return;
    if (!load(&n))
        wi_topo_miss(r->b, "libnvidia-ml.so.1 cannot be used: NVLink between GPUs is not known");
    else if (n.init() != 0)
        wi_topo_miss(r->b, "NVML does not start: NVLink between GPUs is not known");
    else {
        read_gpus(r, &n);
        n.shutdown();
    }
    if (n.library)
        dlclose(n.library);
}
