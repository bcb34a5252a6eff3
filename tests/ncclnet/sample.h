/* sample.h: what the files of the sample plugin share (sample.c says what it is).
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef NNT_SAMPLE_H
#define NNT_SAMPLE_H

#include "plugins/ncclnet/abi.h"

/* Read once, from NNSAMPLE_FAULTS: a list of NAME or NAME=NUMBER. */
struct sample_faults {
    int null_names;   /* no name, of the network and of its devices */
    int init_fails, listen_fails;
    int no_devices, no_host; /* it has no device; none that moves memory of the host */
    int refuse;       /* of each so many posts, all but one find no room */
    int late;         /* calls of test by which completions are late */
    int slow_connect; /* calls of connect and accept that do nothing yet */
    int fail_test;    /* the so-manieth test of a long message fails */
    int fail_connect;
    int max_recvs, max_comms, small; /* what the properties say; small: 64 KiB are moved at most */
    int wrong_token;  /* what the first message on a connection holds is changed on its way */
};
extern struct sample_faults sample_faults;

/* A plugin's own context: versions 11 and 12. */
struct sample_context {
    int alive, traffic_class;
};

int sample_begin(nn_log_fn *log, nn_profile_fn *profile);
int sample_devices(int *count);
/* In terms of version 12, of which the others have the beginning. */
int sample_properties(int device, struct nn_properties_v12 *properties);
int sample_listen(int device, void *handle, void **listener);
int sample_connect(int device, void *handle, void **comm, void **device_handle);
int sample_accept(void *listener, void **comm, void **device_handle);
int sample_reg_mr(void *comm, void *data, size_t bytes, int type, void **handle);
int sample_dereg_mr(void *comm, void *handle);
int sample_isend(void *comm, void *data, size_t bytes, int tag, void *handle, void **request);
int sample_irecv(void *comm, int n, void **data, const size_t *sizes, const int *tags, void **handles, void **request);
int sample_test(void *request, int *done, int *sizes);
int sample_close(void *comm);
int sample_close_listen(void *listener);
/* The caller of the plugin has done what NCCL does not do: say so, and end the process. */
_Noreturn void sample_misused(const char *what);

#endif
