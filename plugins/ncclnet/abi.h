/* SPDX-License-Identifier: BSD-3-Clause */
/* The binary interface of NCCL's network plugins, versions 8 to 12, as facts: which fields and functions stand where. (NCCL's
 * documentation of net plugins, and the layout of its headers net_v8 to net_v12.) tests/ncclnet/test_abi.c holds the offsets. */
#ifndef NN_ABI_H
#define NN_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NN_HANDLE_BYTES 128 /* of a listener, at most */
#define NN_REQUESTS_MAX 32  /* that a plugin bears on each connection */
#define NN_POINTER_HOST 1   /* `pointers`: it moves memory of the host */
#define NN_DEVICE_HOST 0    /* `offload`: the host posts and tests */
#define NN_CLASS_NONE (-1)
#define NN_VERSION_MIN 8
#define NN_VERSION_MAX 12
#define NN_SIZE_V8 ((size_t)1 << 30) /* NCCL's own limit for transfers of version 8, whose sizes are int */

/* What functions return. */
enum nn_result {
    NN_SUCCESS,
    NN_CUDA_ERROR,
    NN_SYSTEM_ERROR,
    NN_INTERNAL_ERROR,
    NN_INVALID_ARGUMENT,
    NN_INVALID_USAGE,
    NN_REMOTE_ERROR,
    NN_IN_PROGRESS,
};

/* NCCL's: 1 version, 2 warning, 3 info, 4 abort, 5 trace. */
typedef void nn_log_fn(int level, unsigned long flags, const char *file, int line, const char *format, ...);
typedef int nn_profile_fn(void **event, int type, void *parent, int64_t plugin, void *data);

struct nn_config { /* from 10 on */
    int traffic_class;
};

struct nn_properties_v8 {
    char *name, *pci_path; /* NULL is met in the wild */
    uint64_t guid;
    int pointers, registered_globally, mbps, port;
    float latency_us;
    int max_comms, max_recvs, offload, offload_version;
};

#define NN_PROPERTIES_BEGIN             \
    char *name, *pci_path;              \
    uint64_t guid;                      \
    int pointers, registered_globally;  \
    int force_flush;                    \
    int mbps, port;                     \
    float latency_us;                   \
    int max_comms, max_recvs;           \
    int offload, offload_version;       \
    int ndevs /* that are one virtual device */

struct nn_properties_v9 { /* and of 10 */
    NN_PROPERTIES_BEGIN, devs[4];
    size_t max_p2p_bytes, max_coll_bytes;
};
struct nn_properties_v11 {
    NN_PROPERTIES_BEGIN, devs[4];
    size_t max_p2p_bytes, max_coll_bytes;
    int max_multi_request;
};
struct nn_properties_v12 {
    NN_PROPERTIES_BEGIN, devs[8];
    size_t max_p2p_bytes, max_coll_bytes;
    int max_multi_request;
    int16_t rail, plane;
};

/* What all versions have alike, in two stretches. A device handle (offload) is never asked for: the pointer to it is NULL. */
#define NN_REGISTRATION                                                                                              \
    int (*accept)(void *listener, void **comm, void **device_handle);                                                \
    int (*reg_mr)(void *comm, void *data, size_t bytes, int type, void **handle);                                    \
    int (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd, void **handle);    \
    int (*dereg_mr)(void *comm, void *handle)
#define NN_COMPLETION                                                                                                \
    int (*iflush)(void *comm, int n, void **data, int *sizes, void **handles, void **request);                       \
    int (*test)(void *request, int *done, int *sizes);                                                               \
    int (*close_send)(void *comm);                                                                                   \
    int (*close_recv)(void *comm);                                                                                   \
    int (*close_listen)(void *listener);                                                                             \
    int (*device_mr)(void *comm, void *handle, void **device_handle);                                                \
    int (*irecv_consumed)(void *comm, int n, void *request)

struct nn_net_v8 {
    const char *name;
    int (*init)(nn_log_fn *log);
    int (*devices)(int *count);
    int (*properties)(int device, struct nn_properties_v8 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, void *handle, void **comm, void **device_handle);
    NN_REGISTRATION;
    int (*isend)(void *comm, void *data, int bytes, int tag, void *handle, void **request);
    int (*irecv)(void *comm, int n, void **data, int *sizes, int *tags, void **handles, void **request);
    NN_COMPLETION;
};

struct nn_net_v9 {
    const char *name;
    int (*init)(nn_log_fn *log);
    int (*devices)(int *count);
    int (*properties)(int device, struct nn_properties_v9 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, void *handle, void **comm, void **device_handle);
    NN_REGISTRATION;
    int (*isend)(void *comm, void *data, size_t bytes, int tag, void *handle, void **request);
    int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **handles, void **request);
    NN_COMPLETION;
    int (*make_vdevice)(int *device, void *parts);
};

struct nn_net_v10 {
    const char *name;
    int (*init)(nn_log_fn *log, nn_profile_fn *profile);
    int (*devices)(int *count);
    int (*properties)(int device, struct nn_properties_v9 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, struct nn_config *config, void *handle, void **comm, void **device_handle);
    NN_REGISTRATION;
    int (*isend)(void *comm, void *data, size_t bytes, int tag, void *handle, void *parent, void **request);
    int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **handles, void **parents,
                 void **request);
    NN_COMPLETION;
    int (*make_vdevice)(int *device, void *parts);
};

/* Contexts, one for each communicator. 12 differs from 11 in the properties only. */
#define NN_NET_WITH_CONTEXT(version)                                                                                 \
    struct nn_net_v##version {                                                                                       \
        const char *name;                                                                                            \
        int (*init)(void **context, uint64_t comm_id, struct nn_config *config, nn_log_fn *log,                      \
                    nn_profile_fn *profile);                                                                         \
        int (*devices)(int *count);                                                                                  \
        int (*properties)(int device, struct nn_properties_v##version *properties);                                  \
        int (*listen)(void *context, int device, void *handle, void **listener);                                     \
        int (*connect)(void *context, int device, void *handle, void **comm, void **device_handle);                  \
        NN_REGISTRATION;                                                                                             \
        int (*isend)(void *comm, void *data, size_t bytes, int tag, void *handle, void *parent, void **request);     \
        int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **handles, void **parents,       \
                     void **request);                                                                                \
        NN_COMPLETION;                                                                                               \
        int (*make_vdevice)(int *device, void *parts);                                                               \
        int (*finalize)(void *context);                                                                              \
        int (*set_attributes)(void *context, void *attributes);                                                      \
    }
NN_NET_WITH_CONTEXT(11);
NN_NET_WITH_CONTEXT(12);

#endif
