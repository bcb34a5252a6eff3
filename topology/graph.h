/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine as a graph: what there is on each host, and the links between it.
 *
 * Objects form one tree per host (containment: a core is in a cache, a cache in a package) plus what stands between hosts
 * (switches, racks). Links join two objects and have a rate and a latency for each direction; traffic is routed along links
 * only, containment carries none. Every number says where it comes from.
 *
 * Ownership: a graph owns its objects, links and texts. Building is single-threaded; a sealed graph is immutable and may
 * be read by any thread. Rates are bytes per microsecond (= MB/s of 10^6), latencies microseconds.
 */
#ifndef WI_TOPOLOGY_GRAPH_H
#define WI_TOPOLOGY_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

/* X(name, text) */
#define WI_TOPO_KIND_LIST(X)                                                                       \
    X(HOST, "host")                                                                                \
    X(PACKAGE, "package")                                                                          \
    X(NUMA, "numa")       /* a memory */                                                           \
    X(CACHE, "cache")     /* the last level that several cores share */                            \
    X(CORE, "core")                                                                                \
    X(BRIDGE, "bridge")   /* PCI host bridge or switch */                                          \
    X(NIC, "nic")                                                                                  \
    X(GPU, "gpu")                                                                                  \
    X(STORAGE, "storage")                                                                          \
    X(NVSWITCH, "nvswitch")                                                                        \
    X(SWITCH, "switch")   /* of the network */                                                     \
    X(RACK, "rack")

enum wi_topo_kind {
#define WI_TOPO_KIND_ENUM(name, text) WI_TOPO_##name,
    WI_TOPO_KIND_LIST(WI_TOPO_KIND_ENUM)
#undef WI_TOPO_KIND_ENUM
        WI_TOPO_NUM_KINDS
};

/* X(name, text) */
#define WI_TOPO_LINK_LIST(X)                                                                       \
    X(MEMORY, "memory")     /* core or cache to NUMA */                                            \
    X(CACHE, "cache")       /* core to its shared cache */                                         \
    X(SOCKET, "socket")     /* between packages or NUMA nodes */                                   \
    X(PCI, "pci")                                                                                  \
    X(NVLINK, "nvlink")                                                                            \
    X(NETWORK, "network")   /* NIC to switch, switch to switch, NIC to NIC */

enum wi_topo_link_kind {
#define WI_TOPO_LINK_ENUM(name, text) WI_TOPO_LINK_##name,
    WI_TOPO_LINK_LIST(WI_TOPO_LINK_ENUM)
#undef WI_TOPO_LINK_ENUM
        WI_TOPO_NUM_LINK_KINDS
};

/* How a number is known. */
enum wi_topo_origin {
    WI_TOPO_ASSUMED,  /* typical of its kind */
    WI_TOPO_REPORTED, /* by the kernel, the driver or hwloc */
    WI_TOPO_MEASURED, /* by weft-tune */
    WI_TOPO_GIVEN,    /* by a file or a synthetic description */
};

#define WI_TOPO_NONE (-1)
#define WI_TOPO_NAME 48

struct wi_topo_object {
    enum wi_topo_kind kind;
    int32_t parent;           /* object, or WI_TOPO_NONE */
    int32_t host;             /* object of kind HOST; WI_TOPO_NONE for what stands between hosts */
    int32_t index;            /* among its kind within the host; WI_TOPO_NONE: the next */
    int32_t os_index;         /* the system's number, a core's is that of its first hardware thread; WI_TOPO_NONE */
    uint64_t bytes;           /* memory, cache: size; else 0 */
    double rate;              /* NIC: of its port; memory: of reads and writes together; 0: not known */
    char name[WI_TOPO_NAME];  /* "eth0", "mlx5_2", "node17", "core3"; empty: kind and index */
    char alias[16];           /* NIC: network interface of the OpenFabrics device */
    char model[WI_TOPO_NAME]; /* "AMD EPYC 7742", "NVIDIA H100" */
    char bus[16];             /* PCI: "0000:3b:00.0" */
};

struct wi_topo_link {
    enum wi_topo_link_kind kind;
    int32_t a, b;             /* objects */
    double rate, latency;     /* per direction */
    int half_duplex;          /* both directions share the rate */
    enum wi_topo_origin origin;
};

struct wi_topo {
    uint32_t refs; /* atomic */
    int nobjects, nlinks, nhosts;
    const struct wi_topo_object *objects;
    const struct wi_topo_link *links;
    char **missing;           /* what could not be read, one sentence each */
    int nmissing;
};

struct wi_topo *wi_topo_get(struct wi_topo *topo);
void wi_topo_put(struct wi_topo *topo);
const char *wi_topo_kind_name(enum wi_topo_kind kind);
const char *wi_topo_link_name(enum wi_topo_link_kind kind);

/* ---- Building ---- */
struct wi_topo_builder;
weft_status wi_topo_begin(struct wi_topo_builder **builder);
/* Errors are latched and come out of seal. Returns the object's number. `host` of a HOST is ignored. */
int wi_topo_add(struct wi_topo_builder *b, const struct wi_topo_object *object);
void wi_topo_join(struct wi_topo_builder *b, const struct wi_topo_link *link);
void wi_topo_miss(struct wi_topo_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Check the invariants, freeze; frees the builder even on failure. A graph has at least one host. Parents come before their
 * children, are of a kind that can contain them, and are of the same host (a host's parent: none, or a rack); only network
 * and NVLink links join hosts. Rates of links are 0.001 to 1e12, latencies 0 to 1e9. Names and indices are unique within
 * kind and host. All cores, GPUs and memories, and hosts that have none of these, are in one piece. */
weft_status wi_topo_seal(struct wi_topo_builder *b, struct wi_topo **topo);
void wi_topo_abandon(struct wi_topo_builder *b);

/* ---- Where graphs come from ---- */
/* This host, by hwloc and sysfs: bounded by what the process may use. Cached for the process. What could not be read is
 * in `missing`; that hardly anything can be read is no failure. */
weft_status wi_topo_read_host(struct wi_topo **topo);
/* Another host, from what lstopo wrote (--of xml). */
weft_status wi_topo_read_hwloc_xml(const char *path, struct wi_topo **topo);
/* "nodes:4 pack:2 numa:1 core:8 gpu:4 nvlink:450 nic:2@400Gb", or a file of one of the formats below. The failure names
 * line or word. */
weft_status wi_topo_synthetic(const char *text, struct wi_topo **topo);
weft_status wi_topo_load(const char *path, struct wi_topo **topo);
/* XML, JSON or synthetic, by its first character. */
weft_status wi_topo_parse(const char *text, size_t bytes, struct wi_topo **topo);
/* Several hosts' graphs as one. Hosts are joined by a switch that is as fast as their NICs, unless `network` (may be NULL)
 * has objects of the same host names and says otherwise. */
weft_status wi_topo_merge(struct wi_topo *const hosts[], int nhosts, struct wi_topo *network, struct wi_topo **topo);

/* The same host by another name. */
weft_status wi_topo_rename_host(const struct wi_topo *topo, const char *name, struct wi_topo **renamed);

/* The description of a host for other ranks: compact, parsed with bounds. Ownership: free with wi_free. */
weft_status wi_topo_pack(const struct wi_topo *topo, void **data, size_t *bytes);
weft_status wi_topo_unpack(const void *data, size_t bytes, struct wi_topo **topo);

/* ---- Out ---- */
weft_status wi_topo_xml(const struct wi_topo *topo, FILE *out);
weft_status wi_topo_json(const struct wi_topo *topo, FILE *out);
weft_status wi_topo_dot(const struct wi_topo *topo, FILE *out);
weft_status wi_topo_svg(const struct wi_topo *topo, FILE *out);
weft_status wi_topo_print(const struct wi_topo *topo, FILE *out);

/* ---- Looking around ---- */
/* Object of that name (or alias) among a kind and a host (WI_TOPO_NONE: any), or WI_TOPO_NONE. */
int wi_topo_find(const struct wi_topo *topo, enum wi_topo_kind kind, int host, const char *name);
/* The object itself or the nearest one of that kind that contains it, or WI_TOPO_NONE. */
int wi_topo_ancestor(const struct wi_topo *topo, int object, enum wi_topo_kind kind);

/* ---- Routes ---- */
/* The links of the cheapest route (least latency, then highest rate, then lowest number: the same on every rank), each as
 * 2 * link + direction (0: from a to b). Returns their number, at most `max`; -1 when there is none. */
int wi_topo_route(const struct wi_topo *topo, int from, int to, uint32_t *path, int max);

#endif
