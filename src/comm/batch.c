/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_issue_batch: many tensors, one collective. */
#include "comm/batch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"

static void batch_free(struct wi_batch *b)
{
    if (!b)
        return;
    for (int v = 0; v < 2; v++)
        wi_free(b->vector[v]);
    wi_free(b->parts);
    wi_free(b->tensors);
    wi_free(b);
}

void wi_batch_free(struct weft_request *req)
{
    batch_free(req->batch);
    req->batch = NULL;
}

/* ---- What goes where ---- */

static weft_status check_items(const weft_batch_item *items, size_t n)
{
    if (n && !items)
        return wi_fail(WEFT_EINVAL, "issue_batch: items is NULL");
    for (size_t i = 0; i < n; i++)
        if (items[i].count && (!items[i].src || !items[i].dst))
            return wi_fail(WEFT_EINVAL, "issue_batch: %s of item %zu is NULL", items[i].src ? "dst" : "src", i);
    return WEFT_SUCCESS;
}

/* Element `at` of which vector, and *elems, grow by it. 0: there are no such lengths. */
static int append(struct wi_batch *b, const weft_batch_item *item, int vector, size_t block, size_t place)
{
    size_t at = b->elems[vector], bytes;

    if (__builtin_add_overflow(at, block - 1, &at))
        return 0;
    at -= at % block;
    b->parts[place] = (struct wi_batch_part){item->src, item->dst, item->count, at, item->tensor, NULL};
    return !__builtin_add_overflow(at, item->count, &b->elems[vector]) &&
           !__builtin_mul_overflow(b->elems[vector], b->elem_bytes, &bytes) && bytes <= SIZE_MAX / 2;
}

static int is_coded(const struct weft_comm *comm, const weft_batch_item *item, const struct wi_codec_use *use,
                    size_t elem_bytes)
{
    /* Of one rank nothing is short: what more ranks owed is settled. */
    return item->count && use->on &&
           (comm->nranks == 1 || item->count >= (use->min_bytes + elem_bytes - 1) / elem_bytes);
}

/* Those that are coded, then the others: in the order of the call, so that all ranks agree. */
static weft_status distribute(const struct weft_comm *comm, const weft_batch_item *items, size_t n,
                              const struct wi_codec_use *use, struct wi_batch *b)
{
    for (int coded = 1; coded >= 0; coded--) {
        for (size_t i = 0; i < n; i++) {
            if (is_coded(comm, &items[i], use, b->elem_bytes) != coded || !items[i].count)
                continue;
            if (!append(b, &items[i], !coded && b->ncoded, coded ? use->codec.block : 1, b->n++))
                return wi_fail(WEFT_EINVAL, "issue_batch: the counts exceed the address space");
        }
        b->ncoded = coded ? b->n : b->ncoded;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t words[2] = {items[i].count, items[i].tensor};
        b->hash = wi_hash64(words, sizeof words, b->hash);
    }
    return WEFT_SUCCESS;
}

/* What lies between tensors is zeros: plain data may be summed over it. */
static weft_status gather(struct wi_batch *b)
{
    size_t at[2] = {0, 0};

    for (int v = 0; v < 2; v++)
        if (b->elems[v] && !(b->vector[v] = wi_aligned_alloc(64, b->elems[v] * b->elem_bytes)))
            return wi_fail(WEFT_ENOMEM, "a batch of %zu bytes", b->elems[v] * b->elem_bytes);
    for (size_t i = 0; i < b->n; i++) {
        const struct wi_batch_part *p = &b->parts[i];
        int v = i >= b->ncoded && b->ncoded;
        memset(b->vector[v] + at[v] * b->elem_bytes, 0, (p->at - at[v]) * b->elem_bytes);
        memcpy(b->vector[v] + p->at * b->elem_bytes, p->src, p->count * b->elem_bytes);
        at[v] = p->at + p->count;
    }
    for (size_t i = 0; i < b->ncoded; i++)
        b->tensors[i] = (struct wi_coding_tensor){.from = b->parts[i].at, .elems = b->parts[i].count, .gain = 1};
    return WEFT_SUCCESS;
}

static weft_status make(const struct weft_comm *comm, const struct wi_call *c, const weft_batch_item *items, size_t n,
                        const struct wi_codec_use *use, struct wi_batch **out)
{
    struct wi_batch *b = wi_calloc(1, sizeof *b);
    weft_status st = WEFT_SUCCESS;

    if (b) {
        b->elem_bytes = weft_dtype_bytes(c->dtype);
        b->parts = wi_calloc(n + 1, sizeof *b->parts);
        b->tensors = wi_calloc(n + 1, sizeof *b->tensors);
    }
    if (!b || !b->parts || !b->tensors)
        st = wi_fail(WEFT_ENOMEM, "a batch of %zu tensors", n);
    if (st >= 0)
        st = distribute(comm, items, n, use, b);
    if (st >= 0)
        st = gather(b);
    if (st < 0)
        batch_free(b);
    else
        *out = b;
    return st;
}

void wi_batch_store(const struct wi_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct wi_batch_part *p = &b->parts[i];
        int v = i >= b->ncoded && b->ncoded;
        memcpy(p->dst, b->vector[v] + p->at * b->elem_bytes, p->count * b->elem_bytes);
    }
}

/* ---- Issuing ---- */

weft_status wi_batch_issue(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                           const weft_batch_item *items, size_t n, weft_request **req)
{
    struct wi_call c = *call;
    struct wi_codec_use use;
    struct wi_batch *b;

    if (c.coll != WI_COLL_ALL_REDUCE)
        return wi_fail(WEFT_ENOTSUP, "issue_batch: %s has no batch form, only all_reduce has",
                       wi_coll_name((enum wi_coll)c.coll));
    if (c.src || c.dst || c.count)
        return wi_fail(WEFT_EINVAL, "issue_batch: the call has src, dst or count, which are each item's");
    WI_TRY(wi_call_check(comm, &c));
    WI_TRY(check_items(items, n));
    WI_TRY(wi_compress_use(comm, options, &c, &use));
    WI_TRY(make(comm, &c, items, n, &use, &b));
    c.src = c.dst = b->vector[0];
    c.count = b->elems[0];
    return wi_call_batch(comm, &c, options, b, req);
}
