/* sample_versions.c: what the sample plugin exports. SAMPLE_ONLY=N: version N and no other; 0: none.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#ifndef SAMPLE_ONLY
#define EXPORTS(version) 1
#else
#define EXPORTS(version) (SAMPLE_ONLY == (version))
#endif
#define EXPORT extern __attribute__((visibility("default"))) const

/* Nobody looks at what no version needs. */
__attribute__((unused)) static int initialised;

__attribute__((unused)) static int init_v8(nn_log_fn *log)
{
    if (initialised++)
        sample_misused("a plugin before version 11 is initialised twice");
    return sample_begin(log, NULL);
}

__attribute__((unused)) static int init_v10(nn_log_fn *log, nn_profile_fn *profile)
{
    if (initialised++)
        sample_misused("a plugin before version 11 is initialised twice");
    if (!profile)
        sample_misused("there is no function of the profiler");
    return sample_begin(log, profile);
}

__attribute__((unused)) static int init_v11(void **context, uint64_t comm_id, struct nn_config *config, nn_log_fn *log,
                                            nn_profile_fn *profile)
{
    struct sample_context *c = calloc(1, sizeof *c);
    int result = sample_begin(log, profile);

    (void)comm_id;
    if (result != NN_SUCCESS || !c) {
        free(c);
        return NN_SYSTEM_ERROR;
    }
    c->alive = 1;
    c->traffic_class = config->traffic_class;
    *context = c;
    return NN_SUCCESS;
}

__attribute__((unused)) static int finalize_v11(void *context)
{
    struct sample_context *c = context;

    if (!c || !c->alive)
        sample_misused("a context is finalised that is none");
    c->alive = 0;
    free(c);
    return NN_SUCCESS;
}

static void check_class(int traffic_class)
{
    const char *wanted = getenv("NNSAMPLE_CLASS");

    if (traffic_class != (wanted ? atoi(wanted) : NN_CLASS_NONE))
        sample_misused("the traffic class is not what was set");
}

/* ---- Properties ---- */

__attribute__((unused)) static int properties_v8(int device, struct nn_properties_v8 *p)
{
    struct nn_properties_v12 q;
    int result = sample_properties(device, &q);

    *p = (struct nn_properties_v8){.name = q.name,
                                   .guid = q.guid,
                                   .pointers = q.pointers,
                                   .mbps = q.mbps,
                                   .max_comms = q.max_comms,
                                   .max_recvs = q.max_recvs};
    return result;
}

#define PROPERTIES(version)                                                                                  \
    __attribute__((unused)) static int properties_v##version(int device, struct nn_properties_v##version *p) \
    {                                                                                                        \
        struct nn_properties_v12 q;                                                                          \
        int result = sample_properties(device, &q);                                                          \
        memset(p, 0, sizeof *p);                                                                             \
        p->name = q.name;                                                                                    \
        p->guid = q.guid;                                                                                    \
        p->pointers = q.pointers;                                                                            \
        p->mbps = q.mbps;                                                                                    \
        p->max_comms = q.max_comms;                                                                          \
        p->max_recvs = q.max_recvs;                                                                          \
        p->ndevs = 1;                                                                                        \
        p->devs[0] = device;                                                                                 \
        p->max_p2p_bytes = q.max_p2p_bytes;                                                                  \
        p->max_coll_bytes = q.max_coll_bytes;                                                                \
        return result;                                                                                       \
    }
PROPERTIES(9)
PROPERTIES(11)
PROPERTIES(12)

/* ---- What differs ---- */

__attribute__((unused)) static int isend_v8(void *comm, void *data, int bytes, int tag, void *handle, void **request)
{
    return bytes < 0 ? NN_INVALID_USAGE : sample_isend(comm, data, (size_t)bytes, tag, handle, request);
}

__attribute__((unused)) static int irecv_v8(void *comm, int n, void **data, int *sizes, int *tags, void **handles,
                                            void **request)
{
    size_t bytes = (size_t)sizes[0];

    return sizes[0] < 0 ? NN_INVALID_USAGE : sample_irecv(comm, n, data, &bytes, tags, handles, request);
}

__attribute__((unused)) static int irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **handles,
                                            void **request)
{
    return sample_irecv(comm, n, data, sizes, tags, handles, request);
}

__attribute__((unused)) static int isend_v10(void *comm, void *data, size_t bytes, int tag, void *handle, void *parent,
                                             void **request)
{
    if (parent)
        sample_misused("an event has a parent");
    return sample_isend(comm, data, bytes, tag, handle, request);
}

__attribute__((unused)) static int irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags, void **handles,
                                             void **parents, void **request)
{
    if (!parents || parents[0])
        sample_misused("an event has a parent, or there is no list of parents");
    return sample_irecv(comm, n, data, sizes, tags, handles, request);
}

__attribute__((unused)) static int connect_v10(int device, struct nn_config *config, void *handle, void **comm,
                                               void **device_handle)
{
    check_class(config->traffic_class);
    return sample_connect(device, handle, comm, device_handle);
}

static void check_context(void *context)
{
    struct sample_context *c = context;

    if (!c || c->alive != 1)
        sample_misused("there is no such context");
    check_class(c->traffic_class);
}

__attribute__((unused)) static int listen_v11(void *context, int device, void *handle, void **listener)
{
    check_context(context);
    return sample_listen(device, handle, listener);
}

__attribute__((unused)) static int connect_v11(void *context, int device, void *handle, void **comm,
                                               void **device_handle)
{
    check_context(context);
    return sample_connect(device, handle, comm, device_handle);
}

/* ---- The symbols ---- */

#define ALIKE                                                                                                 \
    .devices = sample_devices, .accept = sample_accept, .reg_mr = sample_reg_mr, .dereg_mr = sample_dereg_mr, \
    .test = sample_test, .close_send = sample_close, .close_recv = sample_close, .close_listen = sample_close_listen
#ifdef SAMPLE_UNNAMED
#define NAME NULL
#else
#define NAME "WeftSample"
#endif

/* As nccl-rdma-sharp-plugins does: a table that only has init, which fills it. */
#if EXPORTS(8)
extern __attribute__((visibility("default"))) struct nn_net_v8 ncclNetPlugin_v8;
static int init_and_fill(nn_log_fn *log)
{
    ncclNetPlugin_v8 = (struct nn_net_v8){NAME,
                                          .init = init_v8,
                                          .properties = properties_v8,
                                          .listen = sample_listen,
                                          .connect = sample_connect,
                                          .isend = isend_v8,
                                          .irecv = irecv_v8,
                                          ALIKE};
    return init_v8(log);
}
struct nn_net_v8 ncclNetPlugin_v8 = {NAME, .init = init_and_fill};
#endif
#if EXPORTS(9)
EXPORT struct nn_net_v9 ncclNetPlugin_v9;
const struct nn_net_v9 ncclNetPlugin_v9 = {NAME,
                                           .init = init_v8,
                                           .properties = properties_v9,
                                           .listen = sample_listen,
                                           .connect = sample_connect,
                                           .isend = sample_isend,
                                           .irecv = irecv_v9,
                                           ALIKE};
#endif
#if EXPORTS(10)
EXPORT struct nn_net_v10 ncclNetPlugin_v10;
const struct nn_net_v10 ncclNetPlugin_v10 = {NAME,
                                             .init = init_v10,
                                             .properties = properties_v9,
                                             .listen = sample_listen,
                                             .connect = connect_v10,
                                             .isend = isend_v10,
                                             .irecv = irecv_v10,
                                             ALIKE};
#endif
#if EXPORTS(11)
EXPORT struct nn_net_v11 ncclNetPlugin_v11;
const struct nn_net_v11 ncclNetPlugin_v11 = {NAME,
                                             .init = init_v11,
                                             .properties = properties_v11,
                                             .listen = listen_v11,
                                             .connect = connect_v11,
                                             .isend = isend_v10,
                                             .irecv = irecv_v10,
                                             .finalize = finalize_v11,
                                             ALIKE};
#endif
#if EXPORTS(12)
EXPORT struct nn_net_v12 ncclNetPlugin_v12;
const struct nn_net_v12 ncclNetPlugin_v12 = {NAME,
                                             .init = init_v11,
                                             .properties = properties_v12,
                                             .listen = listen_v11,
                                             .connect = connect_v11,
                                             .isend = isend_v10,
                                             .irecv = irecv_v10,
                                             .finalize = finalize_v11,
                                             ALIKE};
#endif
#ifdef SAMPLE_LACKS
/* A table with a hole. */
EXPORT struct nn_net_v9 ncclNetPlugin_v9;
const struct nn_net_v9 ncclNetPlugin_v9 = {NAME,
                                           .init = init_v8,
                                           .properties = properties_v9,
                                           .listen = sample_listen,
                                           .connect = sample_connect,
                                           .irecv = irecv_v9,
                                           ALIKE};
#endif
