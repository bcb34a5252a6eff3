/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ports and GIDs verbs uses, and how it addresses peers, with a libibverbs of the test's own: soft-RoCE has no LIDs, no
 * partitions, no service levels, and GIDs of two kinds only. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/verbs/verbs.h"
#include "tests/unit/unit.h"

/* ---- The machine ---- */

#define GIDS 6

static struct machine {
    int link_layer, state, lid, nports;
    uint16_t pkeys[4]; /* in host order */
    struct {
        uint32_t type; /* -1: the entry is empty */
        uint8_t gid[16];
        int no_route;
    } gids[GIDS];
    struct ibv_async_event event;
    int events;
    int open; /* contexts and domains that were not given back */
} machine;

static struct ibv_device device = {.name = "card0"}, other = {.name = "card1"};
static struct ibv_device *list[] = {&device, &other, NULL};
static int no_devices;

int ibv_fork_init(void)
{
    return 0;
}

struct ibv_device **ibv_get_device_list(int *n)
{
    (void)n;
    return no_devices ? list + 2 : list;
}

void ibv_free_device_list(struct ibv_device **l)
{
    (void)l;
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    struct ibv_context *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->device = d;
    c->cmd_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    c->async_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    machine.open++;
    return c;
}

int ibv_close_device(struct ibv_context *c)
{
    close(c->cmd_fd);
    close(c->async_fd);
    free(c);
    machine.open--;
    return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    (void)c;
    *attr = (struct ibv_device_attr){.max_srq_wr = 100,
                                     .max_cqe = 1000,
                                     .max_qp_rd_atom = 8,
                                     .max_qp_init_rd_atom = 4,
                                     .phys_port_cnt = (uint8_t)machine.nports};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t number, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

    if (number > machine.nports)
        return EINVAL;
    attr->state = strcmp(c->device->name, "card1") == 0 ? IBV_PORT_DOWN : (enum ibv_port_state)machine.state;
    attr->active_mtu = IBV_MTU_2048;
    attr->lid = (uint16_t)machine.lid;
    attr->link_layer = (uint8_t)machine.link_layer;
    attr->gid_tbl_len = GIDS;
    attr->pkey_tbl_len = 4;
    return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t number, int i, __be16 *pkey)
{
    (void)c, (void)number;
    *pkey = htobe16(machine.pkeys[i]);
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t number, uint32_t i, struct ibv_gid_entry *entry, uint32_t flags,
                      size_t bytes)
{
    (void)c, (void)flags, (void)bytes;
    if (machine.gids[i].type == (uint32_t)-1)
        return ENODATA;
    *entry = (struct ibv_gid_entry){.gid_index = i, .port_num = number, .gid_type = machine.gids[i].type};
    memcpy(entry->gid.raw, machine.gids[i].gid, 16);
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);

    if (pd)
        pd->context = c;
    machine.open++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    machine.open--;
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (machine.gids[attr->grh.sgid_index].no_route)
        return NULL;
    return (struct ibv_ah *)(void *)pd;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    (void)ah;
    return 0;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
    (void)c;
    if (!machine.events)
        return -1;
    machine.events--;
    *event = machine.event;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

const char *ibv_port_state_str(enum ibv_port_state s)
{
    return s == IBV_PORT_DOWN ? "PORT_DOWN" : "?";
}

const char *ibv_event_type_str(enum ibv_event_type t)
{
    return t == IBV_EVENT_CQ_ERR ? "CQ error" : "event";
}

/* ---- The endpoint ---- */

static char said[256];

static void explain(void *impl, weft_status st, const char *format, ...)
{
    va_list ap;

    (void)impl, (void)st;
    va_start(ap, format);
    vsnprintf(said, sizeof said, format, ap);
    va_end(ap);
}

static void no_log(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
{
    (void)impl, (void)level, (void)event, (void)format;
}

static const struct weft_host host = {.bytes = sizeof host, .explain = explain, .log = no_log};
static struct vb_settings settings;
static struct vb_endpoint endpoint;

static void fresh(int link_layer)
{
    machine = (struct machine){
        .link_layer = link_layer, .state = IBV_PORT_ACTIVE, .lid = 7, .nports = 2, .pkeys = {0, 0x7fff, 0x8005, 0}};
    for (int i = 0; i < GIDS; i++)
        machine.gids[i].type = (uint32_t)-1;
    settings = (struct vb_settings){.devices = "card0", .gid_index = -1, .pkey = 0xffff, .rails = 4};
    endpoint = (struct vb_endpoint){.host = &host, .settings = &settings};
    pthread_mutex_init(&endpoint.lock, NULL);
    said[0] = '\0';
    no_devices = 0;
}

enum { LINK_LOCAL, GLOBAL, IPV4 };

static void gid(int i, uint32_t type, int kind)
{
    static const uint8_t gids[][16] = {
        {0xfe, 0x80, [15] = 1}, {0x20, 0x01, [15] = 1}, {[10] = 0xff, [11] = 0xff, 10, 1, 0, 1}};

    machine.gids[i].type = type;
    memcpy(machine.gids[i].gid, gids[kind], 16);
}

static weft_status open_ports(void)
{
    return vb_ports_open(&endpoint);
}

static void close_ports(void)
{
    vb_ports_close(&endpoint);
    CU_ASSERT_EQUAL(machine.open, 0);
}

static void refused(weft_status st, const char *text)
{
    CU_ASSERT_EQUAL(open_ports(), st);
    if (!strstr(said, text))
        printf("# it says: %s\n", said);
    CU_ASSERT_PTR_NOT_NULL(strstr(said, text));
    CU_ASSERT_EQUAL(machine.open, 0);
}

/* ---- Cases ---- */

/* All kinds; the best goes away each time. */
static void gids_in_order(void)
{
    static const struct {
        uint32_t type;
        int kind;
    } order[] = {{IBV_GID_TYPE_ROCE_V2, IPV4},
                 {IBV_GID_TYPE_ROCE_V2, GLOBAL},
                 {IBV_GID_TYPE_ROCE_V2, LINK_LOCAL},
                 {IBV_GID_TYPE_ROCE_V1, IPV4}};

    for (int gone = 0; gone < 4; gone++) {
        fresh(IBV_LINK_LAYER_ETHERNET);
        for (int i = gone; i < 4; i++)
            gid(4 - i, order[i].type, order[i].kind);
        CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(endpoint.ports[0].gid_index, 4 - gone);
        close_ports();
    }
}

static void gid_without_route(void)
{
    fresh(IBV_LINK_LAYER_ETHERNET);
    gid(0, IBV_GID_TYPE_ROCE_V2, LINK_LOCAL);
    gid(1, IBV_GID_TYPE_ROCE_V2, IPV4);
    machine.gids[1].no_route = 1;
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(endpoint.ports[0].gid_index, 0);
    close_ports();
    machine.gids[0].no_route = 1;
    refused(WEFT_ENOTSUP, "card0:1 has no GID that works");
}

static void gid_by_hand(void)
{
    fresh(IBV_LINK_LAYER_ETHERNET);
    gid(0, IBV_GID_TYPE_ROCE_V2, IPV4);
    gid(3, IBV_GID_TYPE_ROCE_V1, IPV4);
    settings.gid_index = 3;
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(endpoint.ports[0].gid_index, 3);
    close_ports();
    settings.gid_index = 2;
    refused(WEFT_ECONFIG, "WEFT_VERBS_GID_INDEX=2: card0:1 has no such GID");
}

static void partitions(void)
{
    fresh(IBV_LINK_LAYER_INFINIBAND);
    gid(0, IBV_GID_TYPE_IB, LINK_LOCAL);
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS); /* 0xffff, the default, has a member bit more than 0x7fff */
    CU_ASSERT_EQUAL(endpoint.ports[0].pkey_index, 1);
    close_ports();
    settings.pkey = 5;
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(endpoint.ports[0].pkey_index, 2);
    close_ports();
    settings.pkey = 0x8006;
    refused(WEFT_ECONFIG, "WEFT_VERBS_PKEY: card0:1 has no partition key 0x8006");
}

/* In one subnet by LID; between subnets, and on Ethernet, by GID. */
static void routes(void)
{
    struct vb_address_port theirs = {
        .lid = 9, .link_layer = IBV_LINK_LAYER_INFINIBAND, .mtu = IBV_MTU_4096, .gid = {0xfe, 0x80}};
    struct ibv_ah_attr to;

    fresh(IBV_LINK_LAYER_INFINIBAND);
    gid(0, IBV_GID_TYPE_IB, LINK_LOCAL);
    settings.service_level = 3;
    settings.traffic_class = 104;
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT(vb_port_reaches(&endpoint.ports[0], &theirs));
    to = vb_port_route(&endpoint, 0, &theirs);
    CU_ASSERT(to.dlid == 9 && to.sl == 3 && to.port_num == 1 && !to.is_global);
    theirs.gid[7] = 1; /* another subnet */
    to = vb_port_route(&endpoint, 0, &theirs);
    CU_ASSERT(to.is_global && to.grh.traffic_class == 104 && memcmp(to.grh.dgid.raw, theirs.gid, 16) == 0);
    theirs.link_layer = IBV_LINK_LAYER_ETHERNET;
    CU_ASSERT(!vb_port_reaches(&endpoint.ports[0], &theirs));
    theirs.link_layer = IBV_LINK_LAYER_INFINIBAND;
    theirs.mtu = 77;
    CU_ASSERT(!vb_port_reaches(&endpoint.ports[0], &theirs));
    close_ports();
}

static void families(void)
{
    struct vb_address_port v4 = {
        .link_layer = IBV_LINK_LAYER_ETHERNET, .mtu = IBV_MTU_1024, .gid = {[10] = 0xff, [11] = 0xff}};
    struct vb_address_port v6 = {.link_layer = IBV_LINK_LAYER_ETHERNET, .mtu = IBV_MTU_1024, .gid = {0x20, 1}};

    fresh(IBV_LINK_LAYER_ETHERNET);
    gid(0, IBV_GID_TYPE_ROCE_V2, IPV4);
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT(vb_port_reaches(&endpoint.ports[0], &v4) && !vb_port_reaches(&endpoint.ports[0], &v6));
    CU_ASSERT(vb_port_route(&endpoint, 0, &v4).is_global);
    close_ports();
}

static void names(void)
{
    fresh(IBV_LINK_LAYER_ETHERNET);
    gid(0, IBV_GID_TYPE_ROCE_V2, IPV4);
    settings.devices = "crad0";
    refused(WEFT_ECONFIG, "no RDMA device \"crad0\"; did you mean card0? (there are: card0, card1)");
    settings.devices = "something_else";
    refused(WEFT_ECONFIG, "no RDMA device \"something_else\" (there are: card0, card1)");
    settings.devices = "card0:3";
    refused(WEFT_ECONFIG, "card0 has no port 3");
    settings.devices = "card0,card1";
    refused(WEFT_ECONFIG, "card1:1 is not active but PORT_DOWN");
    settings.devices = "card0:1,card0:2";
    settings.rails = 1;
    refused(WEFT_ECONFIG, "WEFT_VERBS_RAILS=1");
    settings.rails = 2;
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(endpoint.nports, 2);
    close_ports();
    settings.devices = "";
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS); /* both of card0's; card1's are down */
    CU_ASSERT_EQUAL(endpoint.nports, 2);
    close_ports();
    no_devices = 1;
    refused(WEFT_ENOTSUP, "there is no RDMA device here");
    settings.devices = "card0";
    refused(WEFT_ECONFIG, "no RDMA device \"card0\" (there are: none)");
}

static void events(void)
{
    fresh(IBV_LINK_LAYER_ETHERNET);
    gid(0, IBV_GID_TYPE_ROCE_V2, IPV4);
    CU_ASSERT_EQUAL_FATAL(open_ports(), WEFT_SUCCESS);
    machine.event = (struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 2};
    machine.events = 1;
    vb_ports_look(&endpoint);
    CU_ASSERT_EQUAL(endpoint.ports[0].down, 0); /* another port's */
    machine.event.element.port_num = 1;
    machine.events = 1;
    vb_ports_look(&endpoint);
    CU_ASSERT_EQUAL(endpoint.ports[0].down, 1);
    machine.event.event_type = IBV_EVENT_PORT_ACTIVE;
    machine.events = 1;
    vb_ports_look(&endpoint);
    CU_ASSERT_EQUAL(endpoint.ports[0].down, 0);
    CU_ASSERT_EQUAL(endpoint.ports[0].fatal, 0);
    machine.event.event_type = IBV_EVENT_CQ_ERR;
    machine.events = 1;
    vb_ports_look(&endpoint);
    CU_ASSERT_EQUAL(endpoint.ports[0].fatal, 1 + IBV_EVENT_CQ_ERR);
    close_ports();
}

static const struct wt_case cases[] = {
    {"GIDs in order of preference", gids_in_order},
    {"a GID without a route is passed over", gid_without_route},
    {"a GID by hand", gid_by_hand},
    {"partition keys", partitions},
    {"InfiniBand's routes", routes},
    {"RoCE's families", families},
    {"names of devices and ports", names},
    {"asynchronous events", events},
};
WT_UNIT_MAIN("verbs_ports", cases)
