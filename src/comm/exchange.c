/* SPDX-License-Identifier: BSD-3-Clause */
/* Large operations of a mapped communicator begin with a record from every rank to every rank: where its buffers are, how
 * large its share is, and which copy path it votes for. All ranks have the same records, so they come to the same result.
 *
 * The vote. Copies between ordinary buffers go through slots in shared memory, or by cross-memory attach. Slots move a share
 * three times, attach twice and by system calls. Which is faster depends on the distance of the cores, which is not known
 * (virtual machines even move them): 1 MiB all-to-all of two ranks took 83 us against 103 within one core complex, and 88
 * against 59 across two. So one rank, the same for all, measures both paths while it runs (autotune.h) and the others follow
 * its vote. Blocking calls with nothing else in flight are measured; other calls use the result. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include "exec/ll.h"

#define SHARE_MAX ((size_t)1 << 47)
#define RIVAL_FACTOR 3 /* paths whose predictions differ by more are not compared */

struct record {
    struct weft_mem_desc src, dst;
    uint64_t share;
    uint32_t vote; /* enum wi_plan_copy_path */
    uint32_t in_place;
};
_Static_assert(sizeof(struct record) <= WI_EXCHANGE_MAX, "a record fits");

/* Where transports get and put by keys, the keys of SRC and DST come behind it. */
struct keyed {
    struct record plain;
    struct {
        uint16_t bytes; /* 0: there is none, as it could not be registered */
        unsigned char key[WEFT_MEM_KEY_MAX];
    } of[2];
};
_Static_assert(sizeof(struct keyed) <= WI_MESH_KEYS_BYTES, "a record with keys fits");

/* What an operation has registered, and what it has imported. */
struct wi_exchanged {
    struct wi_transport *transport;
    struct keyed mine;
    void *mem[2];
    void **remote[2]; /* [nranks] */
    void *table[];
};

static int is_keyed(const struct weft_comm *comm)
{
    return comm->mesh->posts && comm->mesh->can_get;
}

/* ---- Memory ---- */

/* Which ranks' SRC and DST are read by others; put_to: which ranks' DST is written by algorithms that put. `a`: an algorithm from a
 * file, or NULL. */
static int touched(const struct weft_comm *comm, const struct wi_call *c, const struct wi_algo *a, int rank, int buf)
{
    int rooted = c->coll == WI_COLL_BROADCAST || c->coll == WI_COLL_SCATTER || c->coll == WI_COLL_SCATTER_V;

    if (a)
        return wi_plans_touches(comm->ctx->plans, a, rank, buf);
    if (buf == WI_SRC)
        return !rooted || rank == c->root;
    return c->coll == WI_COLL_ALL_REDUCE;
}

static int put_to(const struct wi_call *c, const struct wi_algo *a, int rank, int buf)
{
    return !a && buf == WI_DST && c->coll == WI_COLL_BROADCAST && rank != c->root;
}

static int lacks_key(const unsigned char *record, int buf)
{
    struct keyed k;

    memcpy(&k, record, sizeof k);
    return k.of[buf].bytes == 0 && (buf == WI_SRC ? k.plain.src.bytes : k.plain.dst.bytes) > 0;
}

/* Does any rank lack a key of memory that others would get from or put to? */
static int lack_keys(const struct weft_comm *comm, const struct wi_call *c, const struct wi_algo *a,
                     const unsigned char *records, size_t stride, const struct wi_plan_query *q)
{
    for (int r = 0; r < comm->nranks; r++)
        for (int buf = WI_SRC; buf <= WI_DST; buf++)
            if (((q->memory == WI_MEMORY_PRIVATE && touched(comm, c, a, r, buf)) ||
                 (q->memory_dst == WI_MEMORY_PRIVATE && put_to(c, a, r, buf))) &&
                lacks_key(records + (size_t)r * stride, buf))
                return 1;
    return 0;
}

static void memory_of(const struct weft_comm *comm, const struct wi_call *c, const struct wi_algo *a,
                      const unsigned char *records, size_t stride, struct wi_plan_query *q)
{
    q->memory = q->memory_dst = comm->mesh->can_map ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE;
    for (int r = 0; r < comm->nranks; r++) {
        struct record m;
        memcpy(&m, records + (size_t)r * stride, sizeof m);
        if ((touched(comm, c, a, r, WI_SRC) && !m.src.segment) || (touched(comm, c, a, r, WI_DST) && !m.dst.segment))
            q->memory = WI_MEMORY_PRIVATE;
        if (put_to(c, a, r, WI_DST) && !m.dst.segment)
            q->memory_dst = WI_MEMORY_PRIVATE;
    }
    if (is_keyed(comm) && lack_keys(comm, c, a, records, stride, q)) {
        q->memory = q->memory_dst = WI_MEMORY_UNKNOWN; /* no rank gets it then: all have the same records */
        q->copy_path = WI_COPY_PATH_SLOTS;
    }
}

static int names(const struct wi_sched *sched, int rank, int buf)
{
    for (uint32_t i = 0; i < sched->nregions; i++)
        if (sched->regions[i].rank == rank && sched->regions[i].buf == buf)
            return 1;
    return 0;
}

/* Of a file's algorithm, and of one that puts, only buffers that this rank uses: other ranks need not wait for this one, and may
 * have returned and freed theirs. */
static int wanted(const struct weft_comm *comm, const struct wi_op *op, const struct wi_call *c,
                  const struct wi_algo *a, int rank, int buf)
{
    if (rank == comm->rank)
        return 0;
    if (put_to(c, a, rank, buf))
        return names(op->bind.sched, rank, buf);
    return touched(comm, c, a, rank, buf) && (!a || names(op->bind.sched, rank, buf));
}

static weft_status import_key(struct weft_comm *comm, struct wi_exchanged *x, int rank, int buf,
                              const unsigned char *record)
{
    struct keyed k;

    memcpy(&k, record, sizeof k);
    if (k.of[buf].bytes > WEFT_MEM_KEY_MAX)
        return wi_fail(WEFT_EPROTO, "rank %d offers a key of %u bytes", rank, k.of[buf].bytes);
    if (!k.of[buf].bytes)
        return WEFT_SUCCESS; /* it has no such buffer */
    return comm->exec->map_ops->mem_import(comm->exec->map_group, rank, k.of[buf].key, k.of[buf].bytes,
                                           &x->remote[buf][rank]);
}

/* Memory that a rank offers begins at an address and does not wrap around. */
static weft_status check_address(int rank, const struct weft_mem_desc *d)
{
    if (!d->bytes || (d->address && d->bytes <= UINTPTR_MAX - d->address))
        return WEFT_SUCCESS;
    return wi_fail(WEFT_EPROTO, "rank %d offers %llu bytes of memory at address %#llx", rank,
                   (unsigned long long)d->bytes, (unsigned long long)d->address);
}

static weft_status map_peers(struct weft_comm *comm, struct wi_exchanged *x, struct wi_op *op, const struct wi_call *c,
                             const struct wi_algo *a, const unsigned char *records, size_t stride,
                             const struct wi_plan_query *q)
{
    const struct weft_transport_ops *ops = comm->exec->map_ops;
    size_t n = (size_t)comm->nranks;
    unsigned char **table = wi_calloc(2 * n, sizeof *table);

    if (!table)
        return wi_fail(WEFT_ENOMEM, "addresses of %zu ranks", n);
    op->owned[WI_OWNED_PEERS] = table;
    op->bind.peer_base[WI_SRC] = table;
    op->bind.peer_base[WI_DST] = table + n;
    op->bind.get = q->memory != WI_MEMORY_MAPPED;
    op->bind.put = q->memory_dst != WI_MEMORY_MAPPED;
    for (int buf = WI_SRC; buf <= WI_DST; buf++)
        op->bind.peer_remote[buf] = x ? x->remote[buf] : NULL;
    for (size_t r = 0; r < n; r++) {
        for (int buf = WI_SRC; buf <= WI_DST; buf++) {
            struct record m;
            const struct weft_mem_desc *d = buf == WI_SRC ? &m.src : &m.dst;
            void *p;
            memcpy(&m, records + r * stride, sizeof m);
            if (!wanted(comm, op, c, a, (int)r, buf))
                continue;
            p = (void *)(uintptr_t)d->address;
            WI_TRY(check_address((int)r, d));
            if (!(put_to(c, a, (int)r, buf) ? op->bind.put : op->bind.get))
                WI_TRY(ops->mem_map(comm->exec->map_group, (int)r, d, &p));
            else if (x)
                WI_TRY(import_key(comm, x, (int)r, buf, records + r * stride));
            table[(size_t)buf * n + r] = p;
        }
    }
    return WEFT_SUCCESS;
}

/* ---- The vote ---- */

/* Only copies: the order of a reduction must not depend on measurements. */
static struct wi_autotune *tuning_of(struct weft_comm *comm, enum wi_coll coll)
{
    return coll == WI_COLL_ALL_GATHER   ? &comm->copy_path_tuning[0]
           : coll == WI_COLL_ALL_TO_ALL ? &comm->copy_path_tuning[1]
           : coll == WI_COLL_BROADCAST  ? &comm->copy_path_tuning[2]
                                        : NULL;
}

/* A root finishes before the ranks that read from it. */
static int voter(const struct weft_comm *comm, const struct wi_call *c)
{
    return c->coll == WI_COLL_BROADCAST ? (c->root + 1) % comm->nranks : 0;
}

static enum wi_plan_copy_path vote(struct weft_request *req, const struct wi_call *c, size_t share)
{
    struct weft_comm *comm = req->comm;
    struct wi_autotune *tuning = tuning_of(comm, c->coll);
    int attach, timed = 0;

    if (!tuning || voter(comm, c) != comm->rank)
        return WI_COPY_PATH_ANY;
    attach = req->alone ? wi_autotune_choose(tuning, share, &timed) : wi_autotune_best(tuning, share);
    if (timed) {
        req->trial = attach ? WI_COPY_PATH_ATTACH : WI_COPY_PATH_SLOTS;
        req->trial_share = share;
        req->trial_since = wi_ticks();
    }
    return attach ? WI_COPY_PATH_ATTACH : WI_COPY_PATH_SLOTS;
}

void wi_exchange_learn(struct weft_request *req)
{
    if (req->trial && req->status >= 0)
        wi_autotune_learn(tuning_of(req->comm, (enum wi_coll)req->now.coll), req->trial_share,
                          req->trial == WI_COPY_PATH_ATTACH, wi_ticks() - req->trial_since);
    req->trial = WI_COPY_PATH_ANY;
}

/* The planner's choice; or, if the other path is predicted to be similarly fast and no algorithm was named, the path voted for. */
weft_status wi_exchange_plan(struct weft_request *req, struct wi_plan_query *q, struct wi_plan *plan)
{
    enum wi_plan_copy_path path = (enum wi_plan_copy_path)req->planning.copy_path;
    const char *forced = req->options.algorithm;
    struct weft_comm *comm = req->comm;
    struct wi_plan slots, attach;
    enum wi_plan_copy_path trial = (enum wi_plan_copy_path)req->trial;
    double factor;

    req->trial = WI_COPY_PATH_ANY; /* what is measured is what was voted for */
    if (forced || path == WI_COPY_PATH_ANY || q->memory != WI_MEMORY_PRIVATE || !comm->mesh->can_get ||
        wi_planner_has_rule(comm->planner, q->coll))
        return wi_plan(comm->planner, q, forced, plan);
    q->copy_path = WI_COPY_PATH_SLOTS;
    WI_TRY(wi_plan(comm->planner, q, NULL, &slots));
    q->copy_path = WI_COPY_PATH_ATTACH;
    WI_TRY(wi_plan(comm->planner, q, NULL, &attach));
    factor = attach.predicted_us / slots.predicted_us;
    if (factor > RIVAL_FACTOR)
        path = WI_COPY_PATH_SLOTS;
    else if (factor < 1.0 / RIVAL_FACTOR)
        path = WI_COPY_PATH_ATTACH;
    *plan = path == WI_COPY_PATH_ATTACH ? attach : slots;
    if (trial == path)
        req->trial = (uint8_t)trial;
    return WEFT_SUCCESS;
}

/* ---- The exchange ---- */

/* Where a region of a rank's buffer ends, in bytes from the buffer's start. */
static size_t region_end(const struct wi_op *op, const struct wi_region *r)
{
    size_t end = 0;

    for (size_t b = r->first; b < (size_t)r->first + r->count; b++) {
        struct wi_extent e = wi_block_extent(&op->bind.layout.blocks[r->buf], b);
        end = e.bytes && e.at + e.bytes > end ? e.at + e.bytes : end;
    }
    return end;
}

/* No rank's memory is accessed beyond what it has offered for this operation: behind the end of a mapping there is memory of
 * this rank. */
static weft_status check_offers(const struct weft_comm *comm, const struct wi_op *op, const unsigned char *records,
                                size_t stride)
{
    for (uint32_t i = 0; i < op->bind.sched->nregions; i++) {
        const struct wi_region *r = &op->bind.sched->regions[i];
        struct record m;
        size_t offered, end;
        if (r->rank == WI_SELF || r->rank == comm->rank || r->buf == WI_TMP)
            continue;
        memcpy(&m, records + (size_t)r->rank * stride, sizeof m);
        offered = r->buf == WI_SRC ? m.src.bytes : m.dst.bytes;
        end = region_end(op, r);
        if (end > offered)
            return wi_fail(WEFT_EPROTO, "rank %d offers %zu bytes of memory for an operation that touches %zu", r->rank,
                           offered, end);
    }
    return WEFT_SUCCESS;
}

/* Ranks that call the same have the same share; those of a v-form differ, but fit an address space. */
static weft_status check_share(const struct wi_call *c, int rank, size_t share, size_t own)
{
    int v_form = wi_algo_family(c->coll) != c->coll;

    if (v_form ? share <= SHARE_MAX : share == own)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_EPROTO, "rank %d says that its share has %zu bytes; this rank's has %zu", rank, share, own);
}

/* What the ranks have exchanged: the largest share, the memory, the copy path voted for. */
static weft_status read_records(struct weft_request *req, const unsigned char *records, size_t stride)
{
    struct wi_planning *p = &req->planning;
    struct weft_comm *comm = req->comm;
    const struct wi_call *c = &req->now;
    struct record own;
    size_t share = 0;

    p->copy_path = WI_COPY_PATH_ANY;
    memcpy(&own, records + (size_t)comm->rank * stride, sizeof own);
    for (int r = 0; r < comm->nranks; r++) {
        struct record m;
        memcpy(&m, records + (size_t)r * stride, sizeof m);
        WI_TRY(check_share(c, r, m.share, own.share));
        share = m.share > share ? m.share : share;
        if (c->coll == WI_COLL_BROADCAST && r == c->root)
            p->query.in_place = m.in_place != 0;
        if (r == voter(comm, c) && tuning_of(comm, c->coll))
            p->copy_path = m.vote == WI_COPY_PATH_ATTACH ? WI_COPY_PATH_ATTACH : WI_COPY_PATH_SLOTS;
    }
    p->query.bytes = p->share = share;
    p->file = wi_plan_file(comm->planner, &p->query, req->options.algorithm);
    memory_of(comm, c, p->file, records, stride, &p->query);
    return WEFT_SUCCESS;
}

static int poll_exchange(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    struct weft_request *req = op->gate.arg;
    int got = wi_ll_exchange(exec, op, &req->planning.exchange, moved);

    if (got <= 0)
        return got;
    WI_TRY(read_records(req, exec->ll_received, exec->ll_bytes));
    return 1;
}

static const struct wi_gate_ops gate = {.name = "the exchange of buffers", .agreed = 1, .poll = poll_exchange};

weft_status wi_exchange_map(struct weft_request *req, struct wi_op *op)
{
    const struct wi_exec *exec = req->comm->exec;
    const struct wi_planning *p = &req->planning;

    if (!op->bind.sched->peer_src && !op->bind.sched->peer_dst &&
        !(p->plan.algo->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)))
        return WEFT_SUCCESS;
    return map_peers(req->comm, req->exchanged, op, &req->now, p->file, exec->ll_received, exec->ll_bytes, &p->query);
}

weft_status wi_exchange_check(const struct weft_request *req, const struct wi_op *op)
{
    return check_offers(req->comm, op, req->comm->exec->ll_received, req->comm->exec->ll_bytes);
}

/* ---- Keys ---- */

/* So that others can get and put. What the program has registered is; else it is registered for the operation, and what is short of
 * resources is done without. */
static void offer(struct weft_comm *comm, struct wi_exchanged *x, int buf, const void *ptr, size_t bytes)
{
    struct wi_transport *tp = x->transport;
    uint32_t kind = wi_memory_kind(&comm->ctx->transports->devices, ptr);
    void *at = (void *)(uintptr_t)ptr, *mem;
    size_t key_bytes = 0;

    if (!bytes)
        return;
    wi_fail_clear();
    mem = wi_mem_handle(comm->ctx, tp, ptr, bytes);
    if (!mem && tp->ops.mem_register(tp->endpoint, at, bytes, kind, &mem) >= 0)
        x->mem[buf] = mem;
    if (mem && tp->ops.mem_key(tp->endpoint, mem, x->mine.of[buf].key, WEFT_MEM_KEY_MAX, &key_bytes) >= 0 &&
        key_bytes <= WEFT_MEM_KEY_MAX)
        x->mine.of[buf].bytes = (uint16_t)key_bytes;
    if (!key_bytes)
        wi_log(WEFT_LOG_INFO, "comm.offer", "%zu bytes are not offered to others over %s: %s", bytes, tp->plugin->name,
               wi_fail_text());
    wi_fail_clear();
}

static void begin_keyed(struct weft_request *req, const struct wi_call *c, const struct record *m)
{
    struct weft_comm *comm = req->comm;
    size_t n = (size_t)comm->nranks, src, dst, es = weft_dtype_bytes(c->dtype);
    struct wi_exchanged *x = req->exchanged;

    x->transport = comm->mesh->mapped_group->transport;
    x->mine.plain = *m;
    x->remote[WI_SRC] = x->table;
    x->remote[WI_DST] = x->table + n;
    wi_call_spans(comm, c, &src, &dst);
    offer(comm, x, WI_SRC, c->src, src * es);
    offer(comm, x, WI_DST, c->dst, dst * es);
    req->planning.exchange.longer = (const unsigned char *)&x->mine;
    req->planning.exchange.record_bytes = sizeof x->mine;
}

void wi_exchange_release(struct weft_request *req)
{
    struct wi_exchanged *x = req->exchanged;

    for (int buf = WI_SRC; x && buf <= WI_DST; buf++)
        if (x->mem[buf])
            x->transport->ops.mem_deregister(x->transport->endpoint, x->mem[buf]);
    req->exchanged = NULL;
    wi_free(x);
}

void wi_exchange_end(struct weft_request *req)
{
    struct weft_comm *comm = req->comm;
    struct wi_exchanged *x = req->exchanged;

    if (comm->exec->touched) /* it stays registered: the error says until when it is touched */
        return;
    for (size_t i = 0; i < 2 * (size_t)comm->nranks; i++)
        if (x->table[i])
            x->transport->ops.mem_forget(comm->exec->map_group, x->table[i]);
    wi_exchange_release(req);
}

weft_status wi_exchange_begin(struct weft_request *req, struct wi_op *op)
{
    const struct wi_call *c = &req->now;
    struct weft_comm *comm = req->comm;
    struct wi_transport *tp = comm->mesh->mapped_group->transport;
    size_t share = req->planning.share, src, dst, es = weft_dtype_bytes(c->dtype);
    struct record m = {.share = share, .vote = vote(req, c, share), .in_place = req->planning.query.own_in_place != 0};
    struct wi_exchange *x = &req->planning.exchange;

    wi_call_spans(comm, c, &src, &dst);
    if (src)
        tp->ops.mem_describe(tp->endpoint, c->src, src * es, &m.src);
    if (dst)
        tp->ops.mem_describe(tp->endpoint, c->dst, dst * es, &m.dst);
    memcpy(x->record, &m, sizeof m);
    x->record_bytes = sizeof m;
    x->longer = NULL;
    x->published = 0;
    if (is_keyed(comm)) {
        req->exchanged = wi_calloc(1, sizeof *req->exchanged + 2 * (size_t)comm->nranks * sizeof(void *));
        if (!req->exchanged)
            return wi_fail(WEFT_ENOMEM, "keys of %d ranks", comm->nranks);
        begin_keyed(req, c, &m);
    }
    wi_gate_close(comm->exec, op, &gate, req, 0);
    return WEFT_SUCCESS;
}
