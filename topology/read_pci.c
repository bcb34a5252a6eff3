/* SPDX-License-Identifier: BSD-3-Clause */
/* The PCI tree: adapters, GPUs, disks, and the switches that several of them share. Bridges with one device below them are
 * part of its link, which is as fast as the slowest of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topology/read_internal.h"
#include "topology/typical.h"

#define NVIDIA 0x10de
#define AMD 0x1002
#define INTEL 0x8086

struct wi_read_device *wi_read_device_add(struct wi_reading *r, enum wi_topo_kind kind)
{
    if (r->ndevices == WI_READ_DEVICES)
        return NULL;
    struct wi_read_device *device = &r->devices[r->ndevices++];
    *device = (struct wi_read_device){.kind = kind, .object = WI_TOPO_NONE};
    return device;
}

static hwloc_obj_t system_device(hwloc_obj_t pci, hwloc_obj_osdev_type_t type)
{
    for (hwloc_obj_t os = pci->io_first_child; os; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && os->attr->osdev.type == type)
            return os;
    return NULL;
}

/* Display adapters of server boards are none. */
static int is_gpu(hwloc_obj_t pci)
{
    unsigned class = pci->attr->pcidev.class_id, vendor = pci->attr->pcidev.vendor_id;

    if (system_device(pci, HWLOC_OBJ_OSDEV_COPROC))
        return 1;
    if (vendor == NVIDIA)
        return class == 0x0300 || class == 0x0302;
    if (vendor == AMD)
        return class == 0x0300 || class == 0x0302 || class == 0x0380 || class == 0x1200;
    return vendor == INTEL && (class == 0x0380 || class == 0x0302);
}

/* WI_TOPO_NUM_KINDS: of no interest. */
static enum wi_topo_kind kind_of(struct wi_reading *r, hwloc_obj_t pci)
{
    unsigned class = pci->attr->pcidev.class_id;

    if (system_device(pci, HWLOC_OBJ_OSDEV_OPENFABRICS) || system_device(pci, HWLOC_OBJ_OSDEV_NETWORK))
        return WI_TOPO_NIC;
    if (is_gpu(pci))
        return WI_TOPO_GPU;
    if (class >> 8 == 1 && system_device(pci, HWLOC_OBJ_OSDEV_BLOCK))
        return WI_TOPO_STORAGE;
    r->nhidden += class >> 8 == 2;
    return WI_TOPO_NUM_KINDS;
}

/* GT/s times lanes, less the line code, of what the slot can do: GPUs slow their link down while they idle. */
static double slot_rate(const struct wi_reading *r, const char *bus)
{
    char line[64];

    if (!wi_read_line(r, line, sizeof(line), "bus/pci/devices/%s/max_link_speed", bus))
        return 0;
    double speed = strtod(line, NULL);
    if (!wi_read_line(r, line, sizeof(line), "bus/pci/devices/%s/current_link_width", bus))
        return 0;
    double lanes = strtod(line, NULL);
    if (!(speed > 0 && speed < 1000 && lanes > 0 && lanes <= 32))
        return 0;
    return speed * lanes * 1000 / 8 * (speed < 8 ? 8.0 / 10 : speed < 64 ? 128.0 / 130 : 242.0 / 256);
}

static void name_device(struct wi_read_device *device, hwloc_obj_t pci)
{
    hwloc_obj_t fabric = system_device(pci, HWLOC_OBJ_OSDEV_OPENFABRICS),
                net = system_device(pci, HWLOC_OBJ_OSDEV_NETWORK);
    hwloc_obj_t block = system_device(pci, HWLOC_OBJ_OSDEV_BLOCK);

    if (device->kind == WI_TOPO_NIC) {
        device->is_fabric = fabric != NULL;
        wi_read_text(device->name, sizeof(device->name), fabric ? fabric->name : net->name);
        wi_read_text(device->alias, sizeof(device->alias), fabric && net ? net->name : NULL);
    } else if (device->kind == WI_TOPO_STORAGE) {
        wi_read_text(device->name, sizeof(device->name), block->name);
    }
    wi_read_text(device->model, sizeof(device->model),
                 pci->name ? pci->name : hwloc_obj_get_info_by_name(pci, "PCIDevice"));
    if (block && device->kind == WI_TOPO_STORAGE && hwloc_obj_get_info_by_name(block, "Model"))
        wi_read_text(device->model, sizeof(device->model), hwloc_obj_get_info_by_name(block, "Model"));
}

static void find_device(struct wi_reading *r, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    enum wi_topo_kind kind = kind_of(r, pci);
    struct wi_read_device *device;

    r->npci++;
    if (kind == WI_TOPO_NUM_KINDS || !(device = wi_read_device_add(r, kind)))
        return;
    device->pci = pci;
    snprintf(device->bus, sizeof(device->bus), "%04x:%02x:%02x.%01x", attr->domain & 0xffff, attr->bus, attr->dev,
             attr->func & 7);
    name_device(device, pci);
    device->pci_rate = attr->linkspeed * 1000.0;
    double slot = kind == WI_TOPO_GPU ? slot_rate(r, device->bus) : 0;
    if (slot > device->pci_rate)
        device->pci_rate = slot;
}

static void find_below(struct wi_reading *r, hwloc_obj_t io)
{
    for (; io; io = io->next_sibling) {
        if (io->type == HWLOC_OBJ_PCI_DEVICE)
            find_device(r, io);
        else if (io->type == HWLOC_OBJ_BRIDGE)
            find_below(r, io->io_first_child);
    }
}

static void find_from(struct wi_reading *r, hwloc_obj_t object)
{
    find_below(r, object->io_first_child);
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
        find_from(r, child);
}

void wi_read_find_pci(struct wi_reading *r)
{
    find_from(r, hwloc_get_root_obj(r->hwloc));
}

/* ---- Into the graph ---- */

static struct wi_read_device *device_of(struct wi_reading *r, hwloc_obj_t pci)
{
    for (int i = 0; i < r->ndevices; i++)
        if (r->devices[i].pci == pci && !r->devices[i].is_down)
            return &r->devices[i];
    return NULL;
}

static int count_devices(struct wi_reading *r, hwloc_obj_t io)
{
    int n = 0;

    for (; io; io = io->next_sibling)
        n += io->type == HWLOC_OBJ_PCI_DEVICE ? device_of(r, io) != NULL : count_devices(r, io->io_first_child);
    return n;
}

static double slower(double a, double b)
{
    if (a <= 0 || b <= 0)
        return a > 0 ? a : b;
    return a < b ? a : b;
}

static void join(struct wi_reading *r, int object, int to, double rate)
{
    wi_topo_connect(r->b, WI_TOPO_LINK_PCI, object, to, rate > 0 ? rate : WI_TYPICAL_PCI_RATE, WI_TYPICAL_PCI_LATENCY,
                    rate > 0 ? WI_TOPO_REPORTED : WI_TOPO_ASSUMED);
}

static void add_device(struct wi_reading *r, struct wi_read_device *device, int parent, int to, double rate)
{
    struct wi_topo_object object = wi_topo_object_init(device->kind, parent, r->host);

    memcpy(object.name, device->name, sizeof(object.name));
    memcpy(object.alias, device->alias, sizeof(object.alias));
    memcpy(object.model, device->model, sizeof(object.model));
    memcpy(object.bus, device->bus, sizeof(object.bus));
    object.rate = device->rate;
    device->object = wi_topo_add(r->b, &object);
    join(r, device->object, to, slower(rate, device->pci_rate));
}

/* Where a bridge's traffic divides: several devices, and not all below one bridge. */
static int divides(struct wi_reading *r, hwloc_obj_t bridge, int ndevices)
{
    for (hwloc_obj_t io = bridge->io_first_child; io; io = io->next_sibling)
        if (io->type == HWLOC_OBJ_BRIDGE && count_devices(r, io->io_first_child) == ndevices)
            return 0;
    return ndevices > 1;
}

/* rate: of the slowest bridge that was passed since `to`; 0: of none. */
static void add_below(struct wi_reading *r, hwloc_obj_t io, int parent, int to, double rate)
{
    for (; io; io = io->next_sibling) {
        struct wi_read_device *device = io->type == HWLOC_OBJ_PCI_DEVICE ? device_of(r, io) : NULL;
        if (device)
            add_device(r, device, parent, to, rate);
        if (io->type != HWLOC_OBJ_BRIDGE)
            continue;
        int n = count_devices(r, io->io_first_child);
        int is_switch = io->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
        double own = is_switch ? slower(rate, io->attr->bridge.upstream.pci.linkspeed * 1000.0) : rate;
        if (n == 0 || !is_switch || !divides(r, io, n)) {
            add_below(r, io->io_first_child, parent, to, own);
            continue;
        }
        struct wi_topo_object object = wi_topo_object_init(WI_TOPO_BRIDGE, parent, r->host);
        const struct hwloc_pcidev_attr_s *pci = &io->attr->bridge.upstream.pci;
        snprintf(object.bus, sizeof(object.bus), "%04x:%02x:%02x.%01x", pci->domain & 0xffff, pci->bus, pci->dev,
                 pci->func & 7);
        int bridge = wi_topo_add(r->b, &object);
        join(r, bridge, to, own);
        add_below(r, io->io_first_child, bridge, bridge, 0);
    }
}

static void add_from(struct wi_reading *r, hwloc_obj_t local)
{
    add_below(r, local->io_first_child, wi_read_container(r, local), wi_read_entry(r, local), 0);
    for (hwloc_obj_t child = local->first_child; child; child = child->next_sibling)
        add_from(r, child);
}

void wi_read_add_devices(struct wi_reading *r)
{
    add_from(r, hwloc_get_root_obj(r->hwloc));
    /* What sysfs knows and hwloc does not. */
    for (int i = 0; i < r->ndevices; i++)
        if (r->devices[i].object == WI_TOPO_NONE && !r->devices[i].pci && !r->devices[i].is_down)
            add_device(r, &r->devices[i], r->host, wi_read_entry(r, NULL), 0);
}
