/* SPDX-License-Identifier: BSD-3-Clause */
/* What error feedback keeps of each tensor of a communicator, and how that is saved. */
#ifndef WI_COMM_RESIDUAL_H
#define WI_COMM_RESIDUAL_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "compress/feedback.h"

struct weft_comm;

/* Elements [from, to) of the tensor; the others are zeros, and take no memory. */
struct wi_plane {
    float *of; /* [to - from]; NULL: from == to */
    size_t from, to;
};

/* Of one tensor. */
struct wi_residual {
    struct wi_residual *next; /* of the bucket */
    uint64_t tensor;
    size_t elems;
    uint8_t form; /* enum wi_feedback_form */
    uint8_t avg;  /* the newest call was an average: OWNER is of that, and WORKER of what it divides */
    uint8_t busy; /* an operation that uses it is in flight */
    uint8_t loaded; /* since the newest call: its planes may lack what that had */
    uint64_t steps; /* calls that were compressed */
    uint64_t shape; /* a hash of where the newest of them kept what; 0: another one may have to be moved */
    struct wi_plane plane[WI_PLANES];
};

/* Of that element, which the plane need not have. */
static inline float wi_plane_at(const struct wi_plane *p, size_t i)
{
    return i >= p->from && i < p->to ? p->of[i - p->from] : 0;
}
/* Make it have [from, to), besides what it has. WEFT_ENOMEM with text; then it is as it was. */
weft_status wi_plane_reserve(struct wi_plane *plane, size_t from, size_t to);
void wi_plane_clear(struct wi_plane *plane); /* zeros; it has what it had */
void wi_planes_free(struct wi_residual *residual);

/* residual.c. Find the tensor's, or make it. WEFT_EINVAL: it has another length or form; WEFT_EBUSY: it is in use. */
weft_status wi_residual_get(struct weft_comm *comm, uint64_t tensor, size_t elems, unsigned form, struct wi_residual **out);
struct wi_residual *wi_residual_look(const struct weft_comm *comm, uint64_t tensor); /* NULL: it has none */
void wi_residuals_free(struct weft_comm *comm);

/* ---- Saved states: residual_state.c ----
 * Numbers are little-endian, lengths in bytes:
 *
 *     magic 4 | version 4 | form 4 | flags 4 | elements 8 | rank 4 | ranks 4 | steps 8 | shape 8 |
 *     for each plane: first element 8, elements 8 | the elements of all planes, fp32 | XXH3 of all before 8
 */
struct wi_saved {
    uint8_t form, avg;
    uint32_t rank, nranks;
    uint64_t steps, shape;
    size_t elems;
    struct {
        size_t from, to;
        const unsigned char *of;
    } plane[WI_PLANES];
};

size_t wi_saved_bytes(const struct wi_residual *residual); /* SIZE_MAX: there is no such length */
void wi_saved_write(const struct wi_residual *residual, int rank, int nranks, unsigned char *state);
/* WEFT_EINVAL with text. *saved borrows from the state. */
weft_status wi_saved_read(const void *state, size_t bytes, struct wi_saved *saved);
/* Add it, each plane times its factor. WEFT_EINVAL with text (it is of another tensor, a value becomes infinite), WEFT_ENOMEM; then
 * no value was changed. */
weft_status wi_saved_add(const struct wi_saved *saved, const double factor[WI_PLANES], struct wi_residual *residual);

#endif
