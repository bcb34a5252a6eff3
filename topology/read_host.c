/* SPDX-License-Identifier: BSD-3-Clause */
/* This host as a graph, or another one from a file of hwloc's. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "topology/read_internal.h"

void wi_read_text(char *to, size_t bytes, const char *from)
{
    size_t n = 0;

    for (; from && from[n] && n + 1 < bytes; n++)
        to[n] = from[n] < ' ' || from[n] > '~' ? '?' : from[n];
    to[n] = '\0';
}

int wi_read_line(const struct wi_reading *r, char *line, size_t bytes, const char *format, ...)
{
    char path[512];
    va_list ap;

    if (!r->source->sysfs)
        return 0;
    int at = snprintf(path, sizeof(path), "%s/", r->source->sysfs);
    va_start(ap, format);
    int more = at > 0 && (size_t)at < sizeof(path) ? vsnprintf(path + at, sizeof(path) - (size_t)at, format, ap) : -1;
    va_end(ap);
    if (more < 0 || (size_t)(at + more) >= sizeof(path))
        return 0;
    int fd, got;
    if (wi_file_open(path, "description of the machine", &fd) < 0) {
        wi_fail_clear();
        return 0;
    }
    got = (int)read(fd, line, bytes - 1);
    close(fd);
    if (got > 0)
        line[got] = '\0', line[strcspn(line, "\n")] = '\0';
    return got > 0;
}

static int sysfs_knows_caches(void)
{
    return access("/sys/devices/system/cpu/cpu0/cache/index0/size", R_OK) == 0;
}

/* Only what a graph holds is looked for; drivers of GPUs are left alone, and so is libpciaccess, which loses memory and says
 * nothing that sysfs does not. */
static void choose(hwloc_topology_t t)
{
    static const char *const others[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "pci"};

    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_L2CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    /* Groups say which PCI bus is near which memory. */
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, others[i]);
    /* Asking each core for its caches means to run on each, and to wait for those that are busy. */
    if (sysfs_knows_caches())
        (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
#if HWLOC_API_VERSION >= 0x00020800
    (void)hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                          HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
#endif
}

/* hwloc takes files and code (HWLOC_PLUGINS_PATH, HWLOC_XMLFILE, ...) from the environment, whoever's it is. */
static weft_status check_caller(void)
{
    static const char prefix[] = "HWLOC_";

    for (char **entry = environ; getauxval(AT_SECURE) && entry && *entry; entry++)
        if (strncmp(*entry, prefix, sizeof(prefix) - 1) == 0)
            return wi_fail(
                WEFT_ECONFIG,
                "topology: %.*s is set, and this program has more rights than its caller (set-uid or file "
                "capabilities): hwloc would take files and code from the caller; clear it before the program starts",
                (int)strcspn(*entry, "="), *entry);
    return WEFT_SUCCESS;
}

static weft_status load(const struct wi_topo_source *source, hwloc_topology_t *hwloc)
{
    hwloc_topology_t t;

    WI_TRY(check_caller());
    if (hwloc_topology_init(&t) < 0)
        return wi_fail(WEFT_ENOMEM, "topology: hwloc does not start");
    choose(t);
    if (source->hwloc_xml && hwloc_topology_set_xml(t, source->hwloc_xml) < 0) {
        weft_status st = wi_fail(WEFT_ECONFIG, "topology: %s: hwloc does not read it as XML: %s", source->hwloc_xml,
                                 strerror(errno));
        hwloc_topology_destroy(t);
        return st;
    }
    if (source->hwloc_synthetic && hwloc_topology_set_synthetic(t, source->hwloc_synthetic) < 0) {
        hwloc_topology_destroy(t);
        return wi_fail(WEFT_ECONFIG, "topology: hwloc does not read \"%s\"", source->hwloc_synthetic);
    }
    if (hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return wi_fail(WEFT_ESYS, "topology: hwloc cannot load %s",
                       source->hwloc_xml ? source->hwloc_xml : "this host's topology");
    }
    *hwloc = t;
    return WEFT_SUCCESS;
}

/* All memory that the kernel manages (MemTotal); 0: it does not say. */
static uint64_t memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

/* A NUMA node's memory is the kernel's number for that node. On virtual machines whose memory grew after they started the nodes may
 * hold less than the machine has. */
static void compare_memory(struct wi_reading *r)
{
    uint64_t machine = r->is_live ? memory_of_machine() : 0, nodes = 0;
    hwloc_obj_t numa = NULL;

    while ((numa = hwloc_get_next_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, numa)))
        nodes += numa->attr->numanode.local_memory;
    if (nodes && nodes < machine - machine / 10)
        wi_topo_miss(
            r->b,
            "the kernel counts %.4g GiB in its NUMA nodes (/sys/devices/system/node) and %.4g GiB in all (MemTotal)",
            (double)nodes / (1 << 30), (double)machine / (1 << 30));
}

static void add_host(struct wi_reading *r)
{
    struct wi_topo_object host = wi_topo_object_init(WI_TOPO_HOST, WI_TOPO_NONE, WI_TOPO_NONE);
    hwloc_obj_t root = hwloc_get_root_obj(r->hwloc);
    char name[256] = "";

    if (r->source->name)
        wi_read_text(host.name, sizeof(host.name), r->source->name);
    else if (r->is_live && gethostname(name, sizeof(name) - 1) == 0)
        wi_read_text(host.name, sizeof(host.name), name);
    else
        wi_read_text(host.name, sizeof(host.name), hwloc_obj_get_info_by_name(root, "HostName"));
    const char *product = hwloc_obj_get_info_by_name(root, "DMIProductName");
    wi_read_text(host.model, sizeof(host.model), product);
    host.bytes = r->is_live ? memory_of_machine() : 0;
    r->host = wi_topo_add(r->b, &host);
}

static void say_what_is_missing(struct wi_reading *r)
{
    int all = hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(r->hwloc));
    int allowed = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(r->hwloc));
    int nnics = 0;

    if (allowed >= 0 && all > allowed)
        wi_topo_miss(r->b, "%d of %d hardware threads may be used; the others are left out", allowed, all);
    compare_memory(r);
    if (!r->npci)
        wi_topo_miss(r->b, "no PCI devices are visible");
    if (r->nhidden)
        wi_topo_miss(r->b, "%d network adapter%s no interface that is visible here", r->nhidden,
                     r->nhidden == 1 ? " has" : "s have");
    for (int i = 0; i < r->ndevices; i++) {
        nnics += r->devices[i].kind == WI_TOPO_NIC && !r->devices[i].is_down;
    }
    if (!nnics)
        wi_topo_miss(r->b, "no network interface is known");
}

static weft_status convert(struct wi_reading *r, struct wi_topo **topo)
{
    WI_TRY(wi_topo_begin(&r->b));
    add_host(r);
    weft_status st = wi_read_cores(r);
    if (st < 0) {
        wi_topo_abandon(r->b);
        return st;
    }
    wi_read_find_pci(r);
    wi_read_network(r);
    wi_read_add_devices(r);
    if (r->is_live)
        wi_read_nvlink(r);
    say_what_is_missing(r);
    return wi_topo_seal(r->b, topo);
}

weft_status wi_topo_read(const struct wi_topo_source *source, struct wi_topo **topo)
{
    struct wi_reading *r = wi_calloc(1, sizeof(*r));

    if (!r)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to read a host");
    r->source = source;
    r->is_live = !source->hwloc_xml && !source->hwloc_synthetic;
    weft_status st = load(source, &r->hwloc);
    if (st == WEFT_SUCCESS) {
        st = convert(r, topo);
        hwloc_topology_destroy(r->hwloc);
    }
    wi_free(r->packages);
    wi_free(r->numas);
    wi_free(r->owners);
    wi_free(r->hubs);
    wi_free(r);
    return st;
}

weft_status wi_topo_read_hwloc_xml(const char *path, struct wi_topo **topo)
{
    struct wi_topo_source source = {.hwloc_xml = path};

    return wi_topo_read(&source, topo);
}

weft_status wi_topo_read_host(struct wi_topo **topo)
{
    /* What a process may use hardly changes while it runs; a failure is tried again. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct wi_topo *cached;
    const struct wi_topo_source source = {.sysfs = "/sys"};
    weft_status st = WEFT_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!cached)
        st = wi_topo_read(&source, &cached);
    if (st == WEFT_SUCCESS)
        *topo = wi_topo_get(cached);
    pthread_mutex_unlock(&lock);
    return st;
}
