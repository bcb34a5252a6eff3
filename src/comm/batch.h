/* SPDX-License-Identifier: BSD-3-Clause */
/* Many tensors in one all-reduce: they are gathered into one vector, those that are coded each from a whole block of the codec on,
 * and what is too short to be coded into another, which is reduced beside it. */
#ifndef WI_COMM_BATCH_H
#define WI_COMM_BATCH_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft_compress.h>

#include "exec/coded.h"

struct wi_residual;
struct wi_call;
struct weft_request;

struct wi_batch_part {
    const void *src;
    void *dst;
    size_t count, at; /* elements; of its vector */
    uint64_t tensor;
    struct wi_residual *residual; /* of the running operation; NULL: none */
};

/* Coded parts come first; where there are none, the first vector is plain, and there is no second. */
struct wi_batch {
    size_t n, ncoded;
    struct wi_batch_part *parts;
    struct wi_coding_tensor *tensors; /* [ncoded] */
    unsigned char *vector[2];
    size_t elems[2];
    size_t elem_bytes;
    uint64_t hash; /* of counts and tensors, in their order */
};

void wi_batch_free(struct weft_request *req);
/* The vectors are results: store them where they belong. */
void wi_batch_store(const struct wi_batch *batch);

#endif
