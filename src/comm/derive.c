/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made from communicators: the members exchange over the parent. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

struct over_parent {
    struct wi_bootstrap base;
    struct weft_comm *parent; /* entered by the deriving call */
    int *members;             /* [nranks] their ranks in the parent */
};

/* One message each way with other members (-1: not that way), on a channel of its own so that the user's messages are not
 * disturbed. */
static weft_status swap(struct weft_comm *comm, int to, const void *out, size_t out_bytes, int from, void *in,
                        size_t in_bytes, uint64_t deadline_ns)
{
    struct weft_request *req = wi_request_get(comm);
    uint64_t now = wi_now_ns();
    weft_status st;

    if (!req)
        return wi_fail(WEFT_ENOMEM, "request");
    req->options.timeout_ns = deadline_ns > now ? deadline_ns - now : 1;
    req->call = (struct wi_call){.coll = from < 0 ? WI_COLL_SEND
                                         : to < 0 ? WI_COLL_RECV
                                                  : WI_COLL_SEND_RECV,
                                 .dtype = WEFT_UINT8,
                                 .root = to < 0 ? from : to,
                                 .src = out,
                                 .dst = in,
                                 .count = to < 0 ? in_bytes : out_bytes,
                                 .recv_count = in_bytes,
                                 .recv_peer = from};
    req->internal = 1;
    st = wi_request_issue(req);
    for (int i = 0; st >= 0 && i < req->nops; i++)
        wi_exec_wait(comm->exec, &req->op[i]);
    st = st < 0 ? st : wi_comm_outcome(comm, req->status);
    wi_request_put(req);
    return st;
}

/* Dissemination: after round k every rank holds the records of 2^(k+1) ranks, its own first. */
static weft_status all_gather(struct wi_bootstrap *base, const void *mine, size_t bytes, void *all,
                              uint64_t deadline_ns)
{
    struct over_parent *b = (struct over_parent *)base;
    int n = base->nranks, rank = base->rank;
    unsigned char *held = wi_malloc((size_t)n * bytes), *out = all;
    weft_status st = WEFT_SUCCESS;

    if (!held)
        return wi_fail(WEFT_ENOMEM, "exchange of %d records", n);
    memcpy(held, mine, bytes);
    for (int have = 1; have < n && st >= 0; have *= 2) {
        int k = have < n - have ? have : n - have;
        st = swap(b->parent, b->members[(rank - have + n) % n], held, (size_t)k * bytes, b->members[(rank + have) % n],
                  held + (size_t)have * bytes, (size_t)k * bytes, deadline_ns);
    }
    for (int i = 0; i < n && st >= 0; i++)
        memcpy(out + (size_t)((rank + i) % n) * bytes, held + (size_t)i * bytes, bytes);
    wi_free(held);
    return st;
}

static void destroy(struct wi_bootstrap *base)
{
    wi_free(((struct over_parent *)base)->members);
    explicit_bzero(base->job_key, sizeof base->job_key);
    wi_free(base);
}

static weft_status bootstrap_over(struct weft_comm *parent, int *members, int rank, int nranks,
                                  struct wi_bootstrap **out)
{
    struct over_parent *b = wi_calloc(1, sizeof *b);

    if (!b) {
        wi_free(members);
        return wi_fail(WEFT_ENOMEM, "bootstrap");
    }
    b->base.rank = rank;
    b->base.nranks = nranks;
    b->base.local_rank = b->base.local_nranks = -1;
    memcpy(b->base.job_key, parent->job_key, sizeof b->base.job_key);
    b->base.has_secret = 1;
    memcpy(b->base.job, parent->job, sizeof b->base.job);
    b->base.all_gather = all_gather;
    b->base.destroy = destroy;
    b->parent = parent;
    b->members = members;
    *out = &b->base;
    return WEFT_SUCCESS;
}

/* ---- With the communicator entered ---- */

/* This rank's place among the members (NULL: all ranks), and the rank at a place. */
static int place_of(const struct weft_comm *comm, const int *members, int n)
{
    int place = comm->rank;

    for (int i = 0; members && i < n; i++)
        if (members[i] == comm->rank)
            place = i;
    return place;
}

weft_status wi_comm_all_gather(struct weft_comm *comm, const int *members, int n, const void *mine, size_t bytes,
                               void *all, uint64_t deadline_ns)
{
    int *copy = wi_malloc((size_t)n * sizeof *copy);
    struct over_parent b = {.base = {.rank = place_of(comm, members, n), .nranks = n}, .parent = comm, .members = copy};
    weft_status st;

    if (!copy)
        return wi_fail(WEFT_ENOMEM, "members");
    for (int i = 0; i < n; i++)
        copy[i] = members ? members[i] : i;
    st = all_gather(&b.base, mine, bytes, all, deadline_ns);
    wi_free(copy);
    return st;
}

/* A binomial tree: each rank that has the data forwards it, to the most distant rank first. */
weft_status wi_comm_broadcast(struct weft_comm *comm, const int *members, int n, void *data, size_t bytes,
                              uint64_t deadline_ns)
{
    int place = place_of(comm, members, n), step = 1;
    weft_status st = WEFT_SUCCESS;

    while (step < n && !(place & step))
        step *= 2;
    if (place > 0) {
        int from = place - step;
        st = swap(comm, -1, NULL, 0, members ? members[from] : from, data, bytes, deadline_ns);
    }
    for (step /= 2; step > 0 && st >= 0; step /= 2) {
        int to = place + step;
        if (to < n)
            st = swap(comm, members ? members[to] : to, data, bytes, -1, NULL, 0, deadline_ns);
    }
    return st;
}

/* ---- Split ---- */

struct vote {
    int color, key, rank;
};

static int by_key(const void *a, const void *b)
{
    const struct vote *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static weft_status join(struct weft_comm *parent, struct vote *votes, int color, const weft_comm_config *config,
                        uint64_t deadline_ns, weft_comm **comm)
{
    int n = 0, rank = -1, *members;
    struct wi_bootstrap *bs = NULL;
    weft_status st;

    for (int r = 0; r < parent->nranks; r++)
        if (votes[r].color == color)
            votes[n++] =
                (struct vote){color, votes[r].key, r}; /* whose it is shows where it stands, not what it says */
    qsort(votes, (size_t)n, sizeof *votes, by_key);
    members = wi_malloc((size_t)n * sizeof *members);
    if (!members)
        return wi_fail(WEFT_ENOMEM, "members");
    for (int i = 0; i < n; i++) {
        members[i] = votes[i].rank;
        if (votes[i].rank == parent->rank)
            rank = i;
    }
    WI_TRY(bootstrap_over(parent, members, rank, n, &bs));
    st = wi_comm_build(parent->ctx, bs, config, deadline_ns, comm);
    bs->destroy(bs);
    return st;
}

static weft_status derive(weft_comm *parent, const char *call, int color, int key, const weft_comm_config *config,
                          weft_comm **comm)
{
    struct vote mine = {color, key, parent->rank}, *votes;
    weft_comm_config ours; /* the parent's time-outs, where none is given */
    uint64_t deadline_ns;
    weft_status st;

    WI_TRY(wi_comm_config_read(call, config, &ours));
    ours.timeout_ns = ours.timeout_ns ? ours.timeout_ns : parent->exec->timeout_ns;
    ours.init_timeout_ns = ours.init_timeout_ns ? ours.init_timeout_ns : parent->init_timeout_ns;
    deadline_ns = wi_deadline_ns(ours.init_timeout_ns);
    votes = wi_malloc((size_t)parent->nranks * sizeof *votes);
    if (!votes)
        return wi_fail(WEFT_ENOMEM, "votes");
    st = wi_comm_enter(parent);
    if (st >= 0) {
        st = wi_comm_all_gather(parent, NULL, parent->nranks, &mine, sizeof mine, votes, deadline_ns);
        if (st >= 0 && color != WEFT_COLOR_NONE)
            st = join(parent, votes, color, &ours, deadline_ns, comm);
        else if (st >= 0)
            *comm = NULL;
        wi_comm_leave(parent);
    }
    wi_free(votes);
    return st;
}

weft_status weft_comm_split(weft_comm *parent, int color, int key, const weft_comm_config *config, weft_comm **comm)
{
    WI_TRY(wi_comm_check(parent));
    if (!comm || color < WEFT_COLOR_NONE)
        return wi_fail(WEFT_EINVAL, "comm_split: comm is NULL, or color %d is neither >= 0 nor WEFT_COLOR_NONE", color);
    return derive(parent, "comm_split", color, key, config, comm);
}

weft_status weft_comm_dup(weft_comm *parent, const weft_comm_config *config, weft_comm **comm)
{
    WI_TRY(wi_comm_check(parent));
    if (!comm)
        return wi_fail(WEFT_EINVAL, "comm_dup: comm is NULL");
    return derive(parent, "comm_dup", 0, parent->rank, config, comm);
}
