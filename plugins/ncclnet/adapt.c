/* SPDX-License-Identifier: BSD-3-Clause */
/* Five versions of NCCL's interface as one: what is alike is called directly, what differs here. */
#include "ncclnet.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *nn_result_name(int result)
{
    static const char *const names[] = {
        "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
        "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress",
    };

    return result >= 0 && result < (int)(sizeof names / sizeof *names) ? names[result] : "an unknown result";
}

const char *nn_net_name(const struct nn_lib *lib)
{
    const char *name = lib->v8->name; /* stands first in all versions */

    return name && *name ? name : "unnamed";
}

/* ---- Binding ---- */

#define NEED(function)        \
    if (!v->function) {       \
        *missing = #function; \
        return -1;            \
    }
#define BIND(member)                                   \
    do {                                               \
        const struct nn_net_##member *v = lib->member; \
        NEED(devices)                                  \
        NEED(properties)                               \
        NEED(listen)                                   \
        NEED(connect)                                  \
        NEED(accept)                                   \
        NEED(reg_mr)                                   \
        NEED(dereg_mr)                                 \
        NEED(isend)                                    \
        NEED(irecv)                                    \
        NEED(test)                                     \
        NEED(close_send)                               \
        NEED(close_recv)                               \
        NEED(close_listen)                             \
        lib->devices = v->devices;                     \
        lib->accept = v->accept;                       \
        lib->reg_mr = v->reg_mr;                       \
        lib->dereg_mr = v->dereg_mr;                   \
        lib->test = v->test;                           \
        lib->close_send = v->close_send;               \
        lib->close_recv = v->close_recv;               \
        lib->close_listen = v->close_listen;           \
    } while (0)

int nn_bind(struct nn_lib *lib, const char **missing)
{
    switch (lib->version) {
    case 8:
        BIND(v8);
        return 0;
    case 9:
        BIND(v9);
        return 0;
    case 10:
        BIND(v10);
        return 0;
    case 11:
        BIND(v11);
        return 0;
    default:
        BIND(v12);
        return 0;
    }
}

/* ---- Initialising ---- */

int nn_has_init(const struct nn_lib *lib)
{
    return lib->version == 8    ? lib->v8->init != NULL
           : lib->version == 9  ? lib->v9->init != NULL
           : lib->version == 10 ? lib->v10->init != NULL
           : lib->version == 11 ? lib->v11->init != NULL
                                : lib->v12->init != NULL;
}

static int init_once(struct nn_lib *lib, nn_log_fn *log, nn_profile_fn *profile)
{
    int result = NN_SUCCESS;

    if (!lib->initialised)
        result = lib->version == 8   ? lib->v8->init(log)
                 : lib->version == 9 ? lib->v9->init(log)
                                     : lib->v10->init(log, profile);
    lib->initialised |= result == NN_SUCCESS;
    return result;
}

int nn_init(struct nn_lib *lib, uint64_t comm_id, struct nn_context *c, nn_log_fn *log, nn_profile_fn *profile)
{
    int result;

    c->context = NULL;
    if (lib->version <= 10)
        result = init_once(lib, log, profile);
    else if (lib->version == 11)
        result = lib->v11->init(&c->context, comm_id, &c->config, log, profile);
    else
        result = lib->v12->init(&c->context, comm_id, &c->config, log, profile);
    c->open = result == NN_SUCCESS;
    return result;
}

void nn_finalize(struct nn_lib *lib, struct nn_context *c)
{
    if (c->open && lib->version == 11 && lib->v11->finalize)
        lib->v11->finalize(c->context);
    else if (c->open && lib->version >= 12 && lib->v12->finalize)
        lib->v12->finalize(c->context);
    c->open = 0;
}

/* ---- Devices ---- */

#define COMMON(p)                                                          \
    do {                                                                   \
        snprintf(d->name, sizeof d->name, "%s", (p).name ? (p).name : ""); \
        d->pointers = (p).pointers;                                        \
        d->mbps = (p).mbps;                                                \
        d->latency_us = (p).latency_us;                                    \
        d->max_comms = (p).max_comms;                                      \
        d->max_recvs = (p).max_recvs;                                      \
        d->offload = (p).offload;                                          \
    } while (0)

#define SINCE_9(type, call)             \
    do {                                \
        struct type p = {0};            \
        result = call(index, &p);       \
        COMMON(p);                      \
        d->max_bytes = p.max_p2p_bytes; \
    } while (0)

int nn_properties(const struct nn_lib *lib, int index, struct nn_device *d)
{
    int result;

    memset(d, 0, sizeof *d);
    d->index = index;
    if (lib->version == 8) {
        struct nn_properties_v8 p = {0};
        result = lib->v8->properties(index, &p);
        COMMON(p);
        d->max_bytes = NN_SIZE_V8;
    } else if (lib->version == 9) {
        SINCE_9(nn_properties_v9, lib->v9->properties);
    } else if (lib->version == 10) {
        SINCE_9(nn_properties_v9, lib->v10->properties);
    } else if (lib->version == 11) {
        SINCE_9(nn_properties_v11, lib->v11->properties);
    } else {
        SINCE_9(nn_properties_v12, lib->v12->properties);
    }
    if (d->max_bytes > INT_MAX) /* `test` gives lengths as int, in all versions */
        d->max_bytes = NN_SIZE_V8;
    return result;
}

/* ---- Connecting ---- */

int nn_listen(const struct nn_lib *lib, const struct nn_context *c, int device, void *handle, void **listener)
{
    switch (lib->version) {
    case 8:
        return lib->v8->listen(device, handle, listener);
    case 9:
        return lib->v9->listen(device, handle, listener);
    case 10:
        return lib->v10->listen(device, handle, listener);
    case 11:
        return lib->v11->listen(c->context, device, handle, listener);
    default:
        return lib->v12->listen(c->context, device, handle, listener);
    }
}

int nn_connect(const struct nn_lib *lib, struct nn_context *c, int device, void *handle, void **comm)
{
    void *device_handle = NULL;

    switch (lib->version) {
    case 8:
        return lib->v8->connect(device, handle, comm, &device_handle);
    case 9:
        return lib->v9->connect(device, handle, comm, &device_handle);
    case 10:
        return lib->v10->connect(device, &c->config, handle, comm, &device_handle);
    case 11:
        return lib->v11->connect(c->context, device, handle, comm, &device_handle);
    default:
        return lib->v12->connect(c->context, device, handle, comm, &device_handle);
    }
}

/* ---- Moving ---- */

int nn_isend(const struct nn_lib *lib, void *comm, void *data, size_t bytes, int tag, void *handle, void **request)
{
    *request = NULL;
    switch (lib->version) {
    case 8:
        return lib->v8->isend(comm, data, (int)bytes, tag, handle, request);
    case 9:
        return lib->v9->isend(comm, data, bytes, tag, handle, request);
    case 10:
        return lib->v10->isend(comm, data, bytes, tag, handle, NULL, request);
    case 11:
        return lib->v11->isend(comm, data, bytes, tag, handle, NULL, request);
    default:
        return lib->v12->isend(comm, data, bytes, tag, handle, NULL, request);
    }
}

/* One buffer: several would complete together, and a channel would wait for another. */
int nn_irecv(const struct nn_lib *lib, void *comm, void *data, size_t bytes, int tag, void *handle, void **request)
{
    void *parent = NULL;
    int bytes_v8 = (int)bytes;

    *request = NULL; /* what else it holds is a flag, from version 9 on */
    switch (lib->version) {
    case 8:
        return lib->v8->irecv(comm, 1, &data, &bytes_v8, &tag, &handle, request);
    case 9:
        return lib->v9->irecv(comm, 1, &data, &bytes, &tag, &handle, request);
    case 10:
        return lib->v10->irecv(comm, 1, &data, &bytes, &tag, &handle, &parent, request);
    case 11:
        return lib->v11->irecv(comm, 1, &data, &bytes, &tag, &handle, &parent, request);
    default:
        return lib->v12->irecv(comm, 1, &data, &bytes, &tag, &handle, &parent, request);
    }
}
