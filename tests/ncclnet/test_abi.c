/* test_abi.c: where the fields of NCCL's structures stand, on machines with pointers of 8 bytes. The numbers are those of NCCL's
 * headers net_v8.h to net_v12.h (2.30), measured with a compiler; not of plugins/ncclnet/abi.h.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plugins/ncclnet/abi.h"

#include "../unit/unit.h"

#define AT(type, field, offset) CU_ASSERT_EQUAL(offsetof(struct type, field), offset)
#define IS(type, bytes) CU_ASSERT_EQUAL(sizeof(struct type), bytes)

/* Slots of 8 bytes: the name is slot 0. */
#define FUNCTIONS(type)              \
    do {                             \
        AT(type, name, 0);           \
        AT(type, init, 8);           \
        AT(type, devices, 16);       \
        AT(type, properties, 24);    \
        AT(type, listen, 32);        \
        AT(type, connect, 40);       \
        AT(type, accept, 48);        \
        AT(type, reg_mr, 56);        \
        AT(type, reg_mr_dmabuf, 64); \
        AT(type, dereg_mr, 72);      \
        AT(type, isend, 80);         \
        AT(type, irecv, 88);         \
        AT(type, iflush, 96);        \
        AT(type, test, 104);         \
        AT(type, close_send, 112);   \
        AT(type, close_recv, 120);   \
        AT(type, close_listen, 128); \
    } while (0)

static void functions(void)
{
    FUNCTIONS(nn_net_v8);
    FUNCTIONS(nn_net_v9);
    FUNCTIONS(nn_net_v10);
    FUNCTIONS(nn_net_v11);
    FUNCTIONS(nn_net_v12);
    IS(nn_net_v8, 152);
    IS(nn_net_v9, 160);
    IS(nn_net_v10, 160);
    IS(nn_net_v11, 176);
    IS(nn_net_v12, 176);
    AT(nn_net_v11, finalize, 160);
    AT(nn_net_v12, finalize, 160);
}

#define SINCE_9(type)                  \
    do {                               \
        AT(type, name, 0);             \
        AT(type, pointers, 24);        \
        AT(type, force_flush, 32);     \
        AT(type, mbps, 36);            \
        AT(type, port, 40);            \
        AT(type, latency_us, 44);      \
        AT(type, max_comms, 48);       \
        AT(type, max_recvs, 52);       \
        AT(type, offload, 56);         \
        AT(type, offload_version, 60); \
        AT(type, ndevs, 64);           \
        AT(type, devs, 68);            \
    } while (0)

static void properties(void)
{
    IS(nn_properties_v8, 64);
    AT(nn_properties_v8, pointers, 24);
    AT(nn_properties_v8, mbps, 32);
    AT(nn_properties_v8, latency_us, 40);
    AT(nn_properties_v8, max_comms, 44);
    AT(nn_properties_v8, max_recvs, 48);
    AT(nn_properties_v8, offload, 52);
    SINCE_9(nn_properties_v9);
    SINCE_9(nn_properties_v11);
    SINCE_9(nn_properties_v12);
    IS(nn_properties_v9, 104);
    IS(nn_properties_v11, 112);
    IS(nn_properties_v12, 128);
    AT(nn_properties_v9, max_p2p_bytes, 88);
    AT(nn_properties_v11, max_p2p_bytes, 88);
    AT(nn_properties_v11, max_multi_request, 104);
    AT(nn_properties_v12, max_p2p_bytes, 104);
    AT(nn_properties_v12, max_multi_request, 120);
    AT(nn_properties_v12, rail, 124);
    AT(nn_properties_v12, plane, 126);
}

static const struct wt_case cases[] = {
    {"functions stand where NCCL has them", functions},
    {"so do properties of devices", properties},
};
WT_UNIT_MAIN("test_abi", cases)
