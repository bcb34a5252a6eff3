/* ports.c: the ports of RDMA devices that are rails of this process, and what happens to them.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which ---- */

/* How many letters are to be changed, added or left out, at most 9. */
static int distance(const char *a, size_t n, const char *b)
{
    int row[64], m = (int)strlen(b);

    if (n > 60 || m > 60)
        return 9;
    for (int k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (int k = 1; k <= m; k++) {
            int best = diagonal + (a[i - 1] != b[k - 1]);
            diagonal = row[k];
            best = row[k] + 1 < best ? row[k] + 1 : best;
            row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
        }
    }
    return row[m] < 9 ? row[m] : 9;
}

static weft_status no_such_device(struct vb_endpoint *e, struct ibv_device **list, const char *name, size_t n)
{
    char there[160] = "";
    const char *nearest = NULL;
    int best = 4;

    for (int i = 0; list[i]; i++) {
        const char *other = ibv_get_device_name(list[i]);
        int d = distance(name, n, other);
        size_t used = strlen(there);
        if (d < best) {
            best = d;
            nearest = other;
        }
        snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "", other);
    }
    if (nearest)
        return VB_EXPLAIN(e, WEFT_ECONFIG,
                          "WEFT_VERBS_DEVICES: no RDMA device \"%.*s\"; did you mean %s? (there are: %s)", (int)n, name,
                          nearest, there);
    return VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_DEVICES: no RDMA device \"%.*s\" (there are: %s)", (int)n, name,
                      *there ? there : "none");
}

/* ---- One port ---- */

static int find_pkey(struct vb_endpoint *e, struct vb_port *port, const struct ibv_port_attr *attr)
{
    uint16_t wanted = (uint16_t)(e->settings->pkey & 0x7fff), pkey;

    for (int i = 0; i < attr->pkey_tbl_len; i++)
        if (ibv_query_pkey(port->context, port->number, i, &pkey) == 0 && (be16toh(pkey) & 0x7fff) == wanted) {
            port->pkey_index = (uint16_t)i;
            return 1;
        }
    return 0;
}

static weft_status describe_port(struct vb_endpoint *e, struct vb_port *port, const struct ibv_port_attr *attr)
{
    struct ibv_device_attr device;
    int index;

    port->link_layer =
        attr->link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    port->mtu = attr->active_mtu;
    port->lid = attr->lid;
    if (ibv_query_device(port->context, &device))
        return VB_EXPLAIN(e, WEFT_ESYS, "verbs: %s does not say what it can do: %s", port->name, strerror(errno));
    port->max_srq_wr = (uint32_t)device.max_srq_wr;
    port->max_cqe = (uint32_t)device.max_cqe;
    port->rd_atomic = (uint8_t)(device.max_qp_rd_atom < 8 ? device.max_qp_rd_atom : 8);
    if (device.max_qp_init_rd_atom < port->rd_atomic)
        port->rd_atomic = (uint8_t)device.max_qp_init_rd_atom;
    if (!find_pkey(e, port, attr))
        return VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_PKEY: %s has no partition key 0x%04x", port->name,
                          (unsigned)e->settings->pkey);
    index = vb_gid_choose(e, port, attr);
    if (index < 0)
        return (weft_status)index;
    port->gid_index = (uint8_t)index;
    return WEFT_SUCCESS;
}

/* `wanted`: what does not work is an error; else WEFT_ENOTSUP. */
static weft_status open_port(struct vb_endpoint *e, struct ibv_device *device, int number, int wanted)
{
    struct vb_port *port = &e->ports[e->nports];
    struct ibv_port_attr attr;
    weft_status st = WEFT_ENOTSUP;

    memset(port, 0, sizeof *port);
    snprintf(port->name, sizeof port->name, "%s:%d", ibv_get_device_name(device), number);
    port->number = (uint8_t)number;
    port->context = ibv_open_device(device);
    if (!port->context)
        return wanted ? VB_EXPLAIN(e, WEFT_ESYS, "verbs: %s cannot be opened: %s", port->name, strerror(errno))
                      : WEFT_ENOTSUP;
    if (ibv_query_port(port->context, port->number, &attr)) {
        st = VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_DEVICES: %s has no port %d", ibv_get_device_name(device), number);
        goto close;
    }
    if (attr.state != IBV_PORT_ACTIVE) {
        if (wanted)
            st = VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_DEVICES: %s is not active but %s", port->name,
                            ibv_port_state_str(attr.state));
        goto close;
    }
    st = describe_port(e, port, &attr);
    if (st < 0)
        goto close;
    port->pd = ibv_alloc_pd(port->context);
    if (!port->pd) {
        st = VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: no protection domain on %s: %s", port->name, strerror(errno));
        goto close;
    }
    fcntl(port->context->async_fd, F_SETFL, fcntl(port->context->async_fd, F_GETFL) | O_NONBLOCK);
    vb_fork_keep(port->context->cmd_fd);
    vb_fork_keep(port->context->async_fd);
    VB_LOG(e, INFO, "verbs.port", "%s: %s, GID index %d, MTU %d", port->name,
           port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand", port->gid_index, 128 << port->mtu);
    e->nports++;
    return WEFT_SUCCESS;
close:
    ibv_close_device(port->context);
    return st;
}

static int ports_of(struct ibv_device *device)
{
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr;
    int n = 0;

    if (!context)
        return 0;
    if (ibv_query_device(context, &attr) == 0)
        n = attr.phys_port_cnt;
    ibv_close_device(context);
    return n;
}

static weft_status open_named(struct vb_endpoint *e, struct ibv_device **list)
{
    const char *at = e->settings->devices;

    while (*at) {
        size_t n = strcspn(at, ","), name = strcspn(at, ":,");
        char *end = NULL;
        long number = name < n ? strtol(at + name + 1, &end, 10) : 1;
        int i = 0;
        weft_status st;
        if (name < n && (end != at + n || number < 1 || number > 255))
            return VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_DEVICES: \"%.*s\" does not end in the number of a port",
                              (int)n, at);
        while (list[i] &&
               (strlen(ibv_get_device_name(list[i])) != name || strncmp(ibv_get_device_name(list[i]), at, name) != 0))
            i++;
        if (!list[i])
            return no_such_device(e, list, at, name);
        if (e->nports == e->settings->rails)
            return VB_EXPLAIN(e, WEFT_ECONFIG,
                              "WEFT_VERBS_DEVICES names more ports than there are rails (WEFT_VERBS_RAILS=%d)",
                              (int)e->settings->rails);
        st = open_port(e, list[i], (int)number, 1);
        if (st < 0)
            return st;
        at += n + (at[n] == ',');
    }
    return WEFT_SUCCESS;
}

/* All that are active. The first that is wrong in another way is named if there is no other. */
static weft_status open_all(struct vb_endpoint *e, struct ibv_device **list)
{
    weft_status first = WEFT_ENOTSUP;

    for (int i = 0; list[i]; i++) {
        int n = ports_of(list[i]);
        for (int port = 1; port <= n && e->nports < e->settings->rails; port++) {
            weft_status st = open_port(e, list[i], port, 0);
            if (st < 0 && first == WEFT_ENOTSUP)
                first = st;
        }
    }
    return e->nports ? WEFT_SUCCESS : first;
}

weft_status vb_ports_open(struct vb_endpoint *e)
{
    struct ibv_device **list;
    weft_status st;

    /* Before anything is registered. Where the kernel copies pinned pages when a process forks it does nothing. */
    if (ibv_fork_init())
        VB_LOG(e, WARN, "verbs.fork", "memory was registered before: forked children may see what devices write");
    list = ibv_get_device_list(NULL);
    if (!list || !list[0]) {
        st = *e->settings->devices && list
                 ? no_such_device(e, list, e->settings->devices, strcspn(e->settings->devices, ",:"))
                 : VB_EXPLAIN(e, WEFT_ENOTSUP, "verbs: there is no RDMA device here");
    } else {
        st = *e->settings->devices ? open_named(e, list) : open_all(e, list);
    }
    if (list)
        ibv_free_device_list(list);
    if (st < 0)
        vb_ports_close(e);
    return st;
}

void vb_ports_close(struct vb_endpoint *e)
{
    for (int i = 0; i < e->nports; i++) {
        struct vb_port *port = &e->ports[i];
        ibv_dealloc_pd(port->pd);
        vb_fork_forget(port->context->cmd_fd);
        vb_fork_forget(port->context->async_fd);
        ibv_close_device(port->context);
    }
    e->nports = 0;
}

/* ---- Peers ---- */

static int is_v4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, mapped, sizeof mapped) == 0;
}

int vb_port_reaches(const struct vb_port *port, const struct vb_address_port *theirs)
{
    if (theirs->link_layer != port->link_layer || theirs->mtu < IBV_MTU_256 || theirs->mtu > IBV_MTU_4096)
        return 0;
    if (port->link_layer == IBV_LINK_LAYER_ETHERNET)
        return is_v4(theirs->gid) == is_v4(port->gid.raw);
    return theirs->lid != 0 || memcmp(theirs->gid, port->gid.raw, 8) != 0;
}

struct ibv_ah_attr vb_port_route(const struct vb_endpoint *e, int rail, const struct vb_address_port *theirs)
{
    const struct vb_port *port = &e->ports[rail];
    struct ibv_ah_attr to = {.port_num = port->number, .sl = (uint8_t)e->settings->service_level, .dlid = theirs->lid};

    /* InfiniBand needs the global header between subnets only. */
    if (port->link_layer == IBV_LINK_LAYER_ETHERNET || memcmp(theirs->gid, port->gid.raw, 8) != 0) {
        to.is_global = 1;
        memcpy(to.grh.dgid.raw, theirs->gid, sizeof to.grh.dgid.raw);
        to.grh.sgid_index = port->gid_index;
        to.grh.hop_limit = 64;
        to.grh.traffic_class = (uint8_t)e->settings->traffic_class;
    }
    return to;
}

/* ---- Events ---- */

static void take_event(struct vb_endpoint *e, struct vb_port *port, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_SRQ_ERR:
        atomic_store(&port->fatal, 1 + (int)event->event_type);
        VB_LOG(e, ERROR, "verbs.event", "%s: %s", port->name, ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        if (event->element.port_num == port->number)
            atomic_store(&port->down, event->event_type == IBV_EVENT_PORT_ERR);
        VB_LOG(e, WARN, "verbs.event", "%s: %s", port->name, ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
        VB_LOG(e, WARN, "verbs.event", "%s: %s", port->name, ibv_event_type_str(event->event_type));
        break;
    default:
        break;
    }
}

void vb_ports_look(struct vb_endpoint *e)
{
    struct ibv_async_event event;

    if (pthread_mutex_trylock(&e->lock)) /* another group looks */
        return;
    for (int i = 0; i < e->nports; i++)
        while (ibv_get_async_event(e->ports[i].context, &event) == 0) {
            take_event(e, &e->ports[i], &event);
            ibv_ack_async_event(&event);
        }
    pthread_mutex_unlock(&e->lock);
}
