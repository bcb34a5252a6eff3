/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast network adapters are, and whether they work. Interfaces of this process's network namespace come from the kernel, not
 * from sysfs, which may show another one's. */
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "topology/read_internal.h"

#define MAX_INTERFACES 256

struct interface {
    char name[IFNAMSIZ];
    int is_up, is_loopback, is_reachable; /* has an address that others can reach */
};

static struct wi_read_device *find_nic(struct wi_reading *r, const char *name)
{
    for (int i = 0; i < r->ndevices; i++)
        if (r->devices[i].kind == WI_TOPO_NIC &&
            (!strcmp(r->devices[i].name, name) || (r->devices[i].alias[0] && !strcmp(r->devices[i].alias, name))))
            return &r->devices[i];
    return NULL;
}

/* The PCI address that sysfs's link to the device ends in, or "". */
static void read_bus(const struct wi_reading *r, const char *class, const char *name, char *bus, size_t bytes)
{
    char path[512], target[PATH_MAX];
    unsigned domain, number, device, function;

    bus[0] = '\0';
    if (snprintf(path, sizeof(path), "%s/class/%s/%s/device", r->source->sysfs, class, name) >= (int)sizeof(path))
        return;
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    const char *last = strrchr(target, '/');
    last = last ? last + 1 : target;
    if (sscanf(last, "%x:%x:%x.%x", &domain, &number, &device, &function) == 4)
        snprintf(bus, bytes, "%04x:%02x:%02x.%01x", domain & 0xffff, number & 0xff, device & 0x1f, function & 7);
}

/* ---- InfiniBand and RoCE ---- */

/* The fastest active port; -1 if all are down, 0 if sysfs does not say. */
static double fabric_rate(const struct wi_reading *r, const char *name)
{
    double best = 0;
    int seen = 0;

    for (int port = 1; port <= 4; port++) {
        char line[128];
        if (!wi_read_line(r, line, sizeof(line), "class/infiniband/%s/ports/%d/state", name, port))
            continue;
        seen = 1;
        /* "4: ACTIVE" */
        if (atoi(line) != 4)
            continue;
        double gigabits = 0;
        if (wi_read_line(r, line, sizeof(line), "class/infiniband/%s/ports/%d/rate", name, port))
            gigabits = strtod(line, NULL);
        if (gigabits > 0 && gigabits < 1e6 && gigabits * 125 > best)
            best = gigabits * 125;
        else if (best <= 0)
            seen = 2;
    }
    return best > 0 || seen != 1 ? best : -1;
}

static struct wi_read_device *nic_at(struct wi_reading *r, const char *bus)
{
    for (int i = 0; *bus && i < r->ndevices; i++)
        if (r->devices[i].kind == WI_TOPO_NIC && !strcmp(r->devices[i].bus, bus))
            return &r->devices[i];
    return NULL;
}

static void read_fabric(struct wi_reading *r, const char *name)
{
    char bus[16];

    read_bus(r, "infiniband", name, bus, sizeof(bus));
    struct wi_read_device *nic = find_nic(r, name);
    if (!nic)
        nic = nic_at(r, bus);
    if (!nic && !(nic = wi_read_device_add(r, WI_TOPO_NIC)))
        return;
    if (strcmp(nic->name, name)) {
        wi_read_text(nic->alias, sizeof(nic->alias), nic->name);
        wi_read_text(nic->name, sizeof(nic->name), name);
    }
    if (!nic->bus[0])
        memcpy(nic->bus, bus, sizeof(nic->bus));
    nic->is_fabric = 1;
    nic->rate = fabric_rate(r, name);
    if (nic->rate >= 0)
        return;
    nic->rate = 0;
    nic->is_down = 1;
    wi_topo_miss(r->b, "%s has no active port; it is left out", name);
}

static int plain_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strlen(entry->d_name) < 32;
}

static void read_fabrics(struct wi_reading *r)
{
    struct dirent **entries;
    char path[512];

    snprintf(path, sizeof(path), "%s/class/infiniband", r->source->sysfs);
    int n = scandir(path, &entries, plain_name, alphasort);
    for (int i = 0; i < n; i++) {
        read_fabric(r, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* ---- Interfaces ---- */

static struct interface *interface_of(struct interface *list, int *n, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    if (*n == MAX_INTERFACES || strlen(name) >= IFNAMSIZ)
        return NULL;
    struct interface *new = &list[(*n)++];
    memset(new, 0, sizeof(*new));
    wi_read_text(new->name, sizeof(new->name), name);
    return new;
}

static int is_reachable(const struct sockaddr *address)
{
    if (!address)
        return 0;
    if (address->sa_family == AF_INET)
        return 1;
    return address->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct interface *)a)->name, ((const struct interface *)b)->name);
}

static int list_live(struct wi_reading *r, struct interface *list)
{
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all) < 0) {
        wi_topo_miss(r->b, "the kernel does not list network interfaces");
        return 0;
    }
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct interface *x = interface_of(list, &n, a->ifa_name);
        if (!x)
            continue;
        x->is_up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
        x->is_loopback = (a->ifa_flags & IFF_LOOPBACK) != 0;
        x->is_reachable |= is_reachable(a->ifa_addr);
    }
    freeifaddrs(all);
    return n;
}

static int list_files(const struct wi_reading *r, struct interface *list)
{
    struct dirent **entries;
    char path[512], line[64];
    int n = 0;

    snprintf(path, sizeof(path), "%s/class/net", r->source->sysfs);
    int found = scandir(path, &entries, plain_name, alphasort);
    for (int i = 0; i < found; i++) {
        struct interface *x = interface_of(list, &n, entries[i]->d_name);
        if (x) {
            x->is_loopback = !strcmp(x->name, "lo");
            x->is_up = !wi_read_line(r, line, sizeof(line), "class/net/%s/operstate", x->name) || strcmp(line, "down");
            x->is_reachable = x->is_up;
        }
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
    return n;
}

static void read_interface(struct wi_reading *r, const struct interface *x, struct wi_read_device *nic)
{
    char line[64];
    double megabits = 0;

    if (wi_read_line(r, line, sizeof(line), "class/net/%s/speed", x->name))
        megabits = strtod(line, NULL);
    if (nic->rate <= 0 && megabits > 0 && megabits < 1e9)
        nic->rate = megabits / 8;
    /* A fabric's state is that of its port. */
    if (strcmp(nic->name, x->name) || x->is_up)
        return;
    nic->is_down = 1;
    wi_topo_miss(r->b, "%s is down; it is left out", x->name);
}

static int has_device(const struct wi_reading *r, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%.400s/class/net/%.32s/device", r->source->sysfs, name);
    return access(path, F_OK) == 0;
}

/* Adapters first. Where there is none, as in a container, other interfaces that can be reached serve. */
static void read_interfaces(struct wi_reading *r, const struct interface *list, int n)
{
    int usable = 0;

    for (int i = 0; i < n; i++) {
        struct wi_read_device *nic = find_nic(r, list[i].name);
        if (list[i].is_loopback || (!nic && !has_device(r, list[i].name)))
            continue;
        if (!nic && (nic = wi_read_device_add(r, WI_TOPO_NIC))) {
            wi_read_text(nic->name, sizeof(nic->name), list[i].name);
            read_bus(r, "net", list[i].name, nic->bus, sizeof(nic->bus));
        }
        if (nic)
            read_interface(r, &list[i], nic);
    }
    for (int i = 0; i < r->ndevices; i++)
        usable += r->devices[i].kind == WI_TOPO_NIC && !r->devices[i].is_down;
    for (int i = 0; !usable && i < n; i++) {
        if (list[i].is_loopback || !list[i].is_up || !list[i].is_reachable || find_nic(r, list[i].name))
            continue;
        struct wi_read_device *nic = wi_read_device_add(r, WI_TOPO_NIC);
        if (!nic)
            return;
        wi_read_text(nic->name, sizeof(nic->name), list[i].name);
        read_interface(r, &list[i], nic);
    }
}

/* Adapters that hwloc saw, whose interfaces are in another network namespace. */
static void leave_out_foreign(struct wi_reading *r, const struct interface *list, int n)
{
    for (int i = 0; r->is_live && i < r->ndevices; i++) {
        struct wi_read_device *nic = &r->devices[i];
        int known = nic->kind != WI_TOPO_NIC || nic->is_fabric;
        for (int k = 0; !known && k < n; k++)
            known = !strcmp(list[k].name, nic->name);
        if (known)
            continue;
        nic->is_down = 1;
        wi_topo_miss(r->b, "%s is not visible in this network namespace; it is left out", nic->name);
    }
}

void wi_read_network(struct wi_reading *r)
{
    static const struct interface none;
    struct interface list[MAX_INTERFACES] = {none};
    char path[512];

    if (!r->source->sysfs)
        return;
    snprintf(path, sizeof(path), "%s/class", r->source->sysfs);
    if (access(path, R_OK) < 0)
        wi_topo_miss(r->b, "%s cannot be read: rates of network adapters are not known", path);
    read_fabrics(r);
    int n = r->is_live ? list_live(r, list) : list_files(r, list);
    qsort(list, (size_t)n, sizeof(*list), by_name);
    leave_out_foreign(r, list, n);
    read_interfaces(r, list, n);
    for (int i = 0; i < r->ndevices; i++)
        if (r->devices[i].kind == WI_TOPO_NIC && !r->devices[i].is_down && r->devices[i].rate <= 0)
            wi_topo_miss(r->b, "the rate of %s is not known", r->devices[i].name);
}
