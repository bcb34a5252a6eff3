/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of a communicator that keep something from call to call: found by their number, and weft_comm_residual_* of them. */
#include "comm/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_compress.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"

#define BUCKETS 1024

/* ---- Planes ---- */

weft_status wi_plane_reserve(struct wi_plane *p, size_t from, size_t to)
{
    size_t first = p->of && p->from < from ? p->from : from, end = p->of && p->to > to ? p->to : to;
    float *made;

    if (from >= to || (p->of && p->from <= from && p->to >= to))
        return WEFT_SUCCESS;
    made = wi_calloc(end - first, sizeof *made);
    if (!made)
        return wi_fail(WEFT_ENOMEM, "a residual of %zu elements", end - first);
    if (p->of)
        memcpy(made + (p->from - first), p->of, (p->to - p->from) * sizeof *made);
    wi_free(p->of);
    *p = (struct wi_plane){made, first, end};
    return WEFT_SUCCESS;
}

void wi_plane_clear(struct wi_plane *p)
{
    if (p->of)
        memset(p->of, 0, (p->to - p->from) * sizeof *p->of);
}

void wi_planes_free(struct wi_residual *r)
{
    for (int i = 0; i < WI_PLANES; i++)
        wi_free(r->plane[i].of);
    memset(r->plane, 0, sizeof r->plane);
}

/* ---- Tensors ---- */

static struct wi_residual **bucket_of(const struct weft_comm *comm, uint64_t tensor)
{
    return &comm->residuals[wi_hash64(&tensor, sizeof tensor, 0) % BUCKETS];
}

static void residual_free(struct wi_residual *r)
{
    wi_planes_free(r);
    wi_free(r);
}

void wi_residuals_free(struct weft_comm *comm)
{
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        while (comm->residuals[b]) {
            struct wi_residual *r = comm->residuals[b];
            comm->residuals[b] = r->next;
            residual_free(r);
        }
    wi_free(comm->residuals);
    comm->residuals = NULL;
}

struct wi_residual *wi_residual_look(const struct weft_comm *comm, uint64_t tensor)
{
    struct wi_residual *r = comm->residuals ? *bucket_of(comm, tensor) : NULL;

    while (r && r->tensor != tensor)
        r = r->next;
    return r;
}

static weft_status residual_make(struct weft_comm *comm, uint64_t tensor, size_t elems, unsigned form,
                                 struct wi_residual **out)
{
    struct wi_residual *r, **b;

    if (!comm->residuals && !(comm->residuals = wi_calloc(BUCKETS, sizeof *comm->residuals)))
        return wi_fail(WEFT_ENOMEM, "residuals");
    r = wi_calloc(1, sizeof *r);
    if (!r)
        return wi_fail(WEFT_ENOMEM, "the residual of tensor %llu", (unsigned long long)tensor);
    r->tensor = tensor;
    r->elems = elems;
    r->form = (uint8_t)form;
    b = bucket_of(comm, tensor);
    r->next = *b;
    *b = *out = r;
    return WEFT_SUCCESS;
}

static weft_status busy(const struct wi_residual *r)
{
    return wi_fail(WEFT_EBUSY, "tensor %llu: an operation that uses its residual is in flight",
                   (unsigned long long)r->tensor);
}

weft_status wi_residual_get(struct weft_comm *comm, uint64_t tensor, size_t elems, unsigned form,
                            struct wi_residual **out)
{
    struct wi_residual *r = wi_residual_look(comm, tensor);

    if (!r)
        return residual_make(comm, tensor, elems, form, out);
    if (r->elems != elems)
        return wi_fail(WEFT_EINVAL, "tensor %llu has a residual of %zu elements, and the call has %zu",
                       (unsigned long long)tensor, r->elems, elems);
    if (r->form != form)
        return wi_fail(WEFT_EINVAL, "tensor %llu has a residual of ef=%s, and the call has ef=%s",
                       (unsigned long long)tensor, wi_feedback_name(r->form), wi_feedback_name(form));
    if (r->busy)
        return busy(r);
    *out = r;
    return WEFT_SUCCESS;
}

/* ---- Of the program: all tensors, or one ---- */

static weft_status enter(weft_comm *comm)
{
    WI_TRY(wi_comm_check(comm));
    return wi_comm_enter(comm);
}

weft_status weft_comm_residual_bytes(weft_comm *comm, size_t *bytes)
{
    size_t sum = 0;

    if (!bytes)
        return wi_fail(WEFT_EINVAL, "comm_residual_bytes: bytes is NULL");
    WI_TRY(enter(comm));
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            for (int i = 0; i < WI_PLANES; i++)
                sum += (r->plane[i].to - r->plane[i].from) * sizeof *r->plane[i].of;
    wi_comm_leave(comm);
    *bytes = sum;
    return WEFT_SUCCESS;
}

static int is_meant(const struct wi_residual *r, uint64_t tensor)
{
    return !tensor || r->tensor == tensor;
}

/* The first that is busy of those that are meant; NULL: none is. */
static const struct wi_residual *find_busy(const struct weft_comm *comm, uint64_t tensor, size_t *count)
{
    const struct wi_residual *found = NULL;

    *count = 0;
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            if (is_meant(r, tensor)) {
                ++*count;
                found = r->busy ? r : found;
            }
    return found;
}

/* May these be changed? */
static weft_status check_meant(const struct weft_comm *comm, const char *function, uint64_t tensor)
{
    size_t count;
    const struct wi_residual *r = find_busy(comm, tensor, &count);

    if (r)
        return wi_fail(WEFT_EBUSY, "%s: an operation uses the residual of tensor %llu", function,
                       (unsigned long long)r->tensor);
    if (tensor && !count)
        return wi_fail(WEFT_ENOTFOUND, "%s: tensor %llu has no residual", function, (unsigned long long)tensor);
    return WEFT_SUCCESS;
}

static void clear(struct weft_comm *comm, uint64_t tensor)
{
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (struct wi_residual **at = &comm->residuals[b], *r; (r = *at) != NULL;) {
            if (!is_meant(r, tensor)) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            residual_free(r);
        }
}

weft_status weft_comm_residual_clear(weft_comm *comm, uint64_t tensor)
{
    weft_status st = enter(comm);

    if (st < 0)
        return st;
    st = check_meant(comm, "comm_residual_clear", tensor);
    if (st >= 0)
        clear(comm, tensor);
    wi_comm_leave(comm);
    return st;
}

static void scale(struct weft_comm *comm, uint64_t tensor, double factor)
{
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            for (int i = 0; is_meant(r, tensor) && i < WI_PLANES; i++)
                for (size_t e = 0; e < r->plane[i].to - r->plane[i].from; e++)
                    r->plane[i].of[e] = (float)(factor * (double)r->plane[i].of[e]);
}

/* Would a value become infinite? */
static weft_status check_scaled(const struct weft_comm *comm, uint64_t tensor, double factor)
{
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            for (int i = 0; is_meant(r, tensor) && i < WI_PLANES; i++)
                for (size_t e = 0; e < r->plane[i].to - r->plane[i].from; e++)
                    if (!isfinite((float)(factor * (double)r->plane[i].of[e])))
                        return wi_fail(WEFT_EINVAL,
                                       "comm_residual_scale: tensor %llu times %g: element %zu becomes infinite",
                                       (unsigned long long)r->tensor, factor, r->plane[i].from + e);
    return WEFT_SUCCESS;
}

weft_status weft_comm_residual_scale(weft_comm *comm, uint64_t tensor, double factor)
{
    weft_status st;

    if (!isfinite(factor))
        return wi_fail(WEFT_EINVAL, "comm_residual_scale: factor is %g", factor);
    WI_TRY(enter(comm));
    st = check_meant(comm, "comm_residual_scale", tensor);
    if (st >= 0)
        st = check_scaled(comm, tensor, factor);
    if (st >= 0)
        scale(comm, tensor, factor);
    wi_comm_leave(comm);
    return st;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static weft_status list(const struct weft_comm *comm, uint64_t *tensors, size_t capacity, size_t *count)
{
    size_t n = 0;

    find_busy(comm, 0, count);
    if (!tensors)
        return WEFT_SUCCESS;
    if (*count > capacity)
        return wi_fail(WEFT_ETRUNC, "comm_residual_list: %zu tensors have residuals, there is room for %zu", *count,
                       capacity);
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            tensors[n++] = r->tensor;
    if (n)
        qsort(tensors, n, sizeof *tensors, by_number);
    return WEFT_SUCCESS;
}

weft_status weft_comm_residual_list(weft_comm *comm, uint64_t *tensors, size_t capacity, size_t *count)
{
    weft_status st;
    size_t n = 0;

    if (!count)
        return wi_fail(WEFT_EINVAL, "comm_residual_list: count is NULL");
    WI_TRY(enter(comm));
    st = list(comm, tensors, capacity, &n);
    wi_comm_leave(comm);
    if (st >= 0)
        *count = n;
    return st;
}

/* ---- Saving and loading ---- */

static weft_status save(const struct weft_comm *comm, uint64_t tensor, void *state, size_t capacity, size_t *bytes)
{
    const struct wi_residual *r = wi_residual_look(comm, tensor);

    if (!r)
        return wi_fail(WEFT_ENOTFOUND, "comm_residual_save: tensor %llu has no residual", (unsigned long long)tensor);
    if (r->busy)
        return busy(r);
    *bytes = wi_saved_bytes(r);
    if (!state)
        return WEFT_SUCCESS;
    if (*bytes > capacity)
        return wi_fail(WEFT_ETRUNC, "comm_residual_save: the state has %zu bytes, there is room for %zu", *bytes,
                       capacity);
    wi_saved_write(r, comm->rank, comm->nranks, state);
    return WEFT_SUCCESS;
}

weft_status weft_comm_residual_save(weft_comm *comm, uint64_t tensor, void *state, size_t capacity, size_t *bytes)
{
    weft_status st;
    size_t n = 0;

    if (!bytes || !tensor)
        return wi_fail(WEFT_EINVAL, "comm_residual_save: %s", bytes ? "tensor is 0" : "bytes is NULL");
    WI_TRY(enter(comm));
    st = save(comm, tensor, state, capacity, &n);
    wi_comm_leave(comm);
    if (st >= 0)
        *bytes = n;
    return st;
}

/* EF21 has on each rank what all have, and what each has given to that. */
static weft_status check_ranks(const struct weft_comm *comm, const struct wi_saved *saved)
{
    if (saved->form == WI_FEEDBACK_EF21 &&
        (saved->nranks != (uint32_t)comm->nranks || saved->rank != (uint32_t)comm->rank))
        return wi_fail(
            WEFT_EINVAL,
            "a saved residual of ef=ef21 is for the same rank of as many: it is of rank %u of %u, and this is "
            "rank %d of %d; begin anew without it",
            saved->rank, saved->nranks, comm->rank, comm->nranks);
    return WEFT_SUCCESS;
}

/* What an owner kept of averages is in their units, and does not depend on how many ranks there are. */
static weft_status load(struct weft_comm *comm, uint64_t tensor, const struct wi_saved *saved, double factor)
{
    double by[WI_PLANES] = {factor, saved->avg ? factor * ((double)saved->nranks / comm->nranks) : factor, factor};
    struct wi_residual *r = wi_residual_look(comm, tensor);
    int made = !r;
    weft_status st;

    if (r && r->busy)
        return busy(r);
    WI_TRY(check_ranks(comm, saved));
    if (made)
        WI_TRY(residual_make(comm, tensor, saved->elems, saved->form, &r));
    st = wi_saved_add(saved, by, r);
    if (st < 0 && made)
        clear(comm, tensor);
    else if (st >= 0 && (saved->nranks != (uint32_t)comm->nranks || saved->rank != (uint32_t)comm->rank))
        r->shape = 0;
    return st;
}

weft_status weft_comm_residual_load(weft_comm *comm, uint64_t tensor, size_t elems, const void *state, size_t bytes,
                                    double factor)
{
    struct wi_saved saved;
    weft_status st;

    if (!state || !tensor)
        return wi_fail(WEFT_EINVAL, "comm_residual_load: %s", state ? "tensor is 0" : "state is NULL");
    if (!isfinite(factor))
        return wi_fail(WEFT_EINVAL, "comm_residual_load: factor is %g", factor);
    WI_TRY(wi_saved_read(state, bytes, &saved));
    if (elems && saved.elems != elems)
        return wi_fail(WEFT_EINVAL, "comm_residual_load: the saved residual is of %zu elements, and the tensor has %zu",
                       saved.elems, elems);
    WI_TRY(enter(comm));
    st = load(comm, tensor, &saved, factor);
    wi_comm_leave(comm);
    return st;
}
