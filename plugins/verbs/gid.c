/* gid.c: which GID a port uses.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs.h"

#include <string.h>

/* Less is better; 0: not to be used. On Ethernet RoCEv2, which is routed, goes before v1, and IPv4, which networks are mostly
 * set up for, before IPv6. */
enum rank { UNUSABLE, V2_IPV4, V2_GLOBAL, V2_LINK_LOCAL, V1, IB, RANKS };

static enum rank rank_of(const struct ibv_gid_entry *entry)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, zero[16];

    if (memcmp(entry->gid.raw, zero, sizeof zero) == 0)
        return UNUSABLE;
    switch (entry->gid_type) {
    case IBV_GID_TYPE_IB:
        return IB;
    case IBV_GID_TYPE_ROCE_V1:
        return V1;
    case IBV_GID_TYPE_ROCE_V2:
        if (memcmp(entry->gid.raw, mapped, sizeof mapped) == 0)
            return V2_IPV4;
        return entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80 ? V2_LINK_LOCAL : V2_GLOBAL;
    default:
        return UNUSABLE;
    }
}

/* Drivers list GIDs whose address the kernel has no route for, or whose interface is down: an address handle tells. */
static int works(const struct vb_port *port, const struct ibv_pd *pd, const struct ibv_gid_entry *entry)
{
    struct ibv_ah_attr to = {.port_num = port->number, .is_global = 1};
    struct ibv_ah *ah;

    to.grh.sgid_index = (uint8_t)entry->gid_index;
    to.grh.hop_limit = 64;
    to.grh.dgid = entry->gid;
    ah = ibv_create_ah((struct ibv_pd *)pd, &to);
    if (!ah)
        return 0;
    ibv_destroy_ah(ah);
    return 1;
}

static int take(struct vb_port *port, const struct ibv_gid_entry *entry)
{
    port->gid = entry->gid;
    return (int)entry->gid_index;
}

static int choose(struct vb_endpoint *e, struct vb_port *port, const struct ibv_port_attr *attr,
                  const struct ibv_pd *pd)
{
    struct ibv_gid_entry entry, best = {0};
    enum rank best_rank = RANKS;
    int wanted = (int)e->settings->gid_index;

    for (int i = 0; i < attr->gid_tbl_len && i < 256; i++) {
        enum rank rank;
        if (ibv_query_gid_ex(port->context, port->number, (uint32_t)i, &entry, 0))
            continue;
        rank = rank_of(&entry);
        if (i == wanted && rank != UNUSABLE)
            return take(port, &entry);
        if (wanted < 0 && rank != UNUSABLE && rank < best_rank && (rank == IB || works(port, pd, &entry))) {
            best_rank = rank;
            best = entry;
        }
    }
    if (wanted >= 0)
        return VB_EXPLAIN(e, WEFT_ECONFIG, "WEFT_VERBS_GID_INDEX=%d: %s has no such GID (show_gids, or rdma link)",
                          wanted, port->name);
    if (best_rank == RANKS)
        return VB_EXPLAIN(e, WEFT_ENOTSUP, "verbs: %s has no GID that works: its interface has no address", port->name);
    return take(port, &best);
}

int vb_gid_choose(struct vb_endpoint *e, struct vb_port *port, const struct ibv_port_attr *attr)
{
    struct ibv_pd *pd = ibv_alloc_pd(port->context);
    int index =
        pd ? choose(e, port, attr, pd) : VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: no protection domain on %s", port->name);

    if (pd)
        ibv_dealloc_pd(pd);
    return index;
}
