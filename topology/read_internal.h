/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a host: hwloc says what there is, sysfs how fast its adapters are, NVML which GPUs NVLink joins. */
#ifndef WI_TOPOLOGY_READ_INTERNAL_H
#define WI_TOPOLOGY_READ_INTERNAL_H

#include <hwloc.h>

#include "topology/graph_internal.h"

#define WI_READ_DEVICES 256

/* Where to read. Tests give files of other machines. */
struct wi_topo_source {
    const char *hwloc_xml;       /* what lstopo wrote; or */
    const char *hwloc_synthetic; /* hwloc's own grammar; or both NULL: this host */
    const char *sysfs;           /* "/sys", or a copy of some of it; NULL: none */
    const char *name;            /* of the host; NULL: its own */
};
weft_status wi_topo_read(const struct wi_topo_source *source, struct wi_topo **topo);

/* A NIC, GPU or disk that was found. */
struct wi_read_device {
    enum wi_topo_kind kind;
    int object;    /* in the graph; WI_TOPO_NONE: not yet */
    int is_down;   /* found, but of no use now */
    int is_fabric; /* OpenFabrics: `alias` is its network interface */
    double rate;   /* of a NIC's port; 0: not known */
    double pci_rate;
    hwloc_obj_t pci; /* NULL: not known to hwloc */
    char name[WI_TOPO_NAME], alias[16], bus[16], model[WI_TOPO_NAME];
};

struct wi_reading {
    const struct wi_topo_source *source;
    hwloc_topology_t hwloc;
    struct wi_topo_builder *b;
    int is_live; /* this host, not a file */
    int host, npackages, nnumas, ncores, npci, nhidden;
    int *packages, *numas;   /* objects, by hwloc's logical number */
    int *owners;             /* of a NUMA: do cores and caches stand in it? */
    int *hubs;               /* of a package: what traffic passes through: itself, or its memory */
    struct wi_read_device devices[WI_READ_DEVICES];
    int ndevices;
};

/* Packages, memories, caches, cores. */
weft_status wi_read_cores(struct wi_reading *r);
/* The object that a device stands in, if hwloc puts it beside `local`, and the one that its traffic enters by. */
int wi_read_container(const struct wi_reading *r, hwloc_obj_t local);
int wi_read_entry(const struct wi_reading *r, hwloc_obj_t local);
/* PCI devices: first collected, then, completed by sysfs, put into the graph. */
void wi_read_find_pci(struct wi_reading *r);
void wi_read_add_devices(struct wi_reading *r);
struct wi_read_device *wi_read_device_add(struct wi_reading *r, enum wi_topo_kind kind);
/* Rates and states of NICs; adapters that hwloc does not know. */
void wi_read_network(struct wi_reading *r);
/* NVLink between the GPUs of the graph. Does nothing where there is no NVIDIA driver. */
void wi_read_nvlink(struct wi_reading *r);

/* A file of sysfs (a path below its root) as one line without its end; 0 if it cannot be read. */
int wi_read_line(const struct wi_reading *r, char *line, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Printable ASCII, cut to size. */
void wi_read_text(char *to, size_t bytes, const char *from);

#endif
