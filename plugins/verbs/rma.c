/* rma.c: gets and puts.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A key that the peer's card refuses puts the queue pair into the error state, with all that is behind it. These are posted
 * again on a new one: a get or put that has not ended may be done twice. The peer makes a new one as well, which it is asked for
 * by a message.
 */
#include "key.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum {
    RMA_PIECES,
    RMA_POSTED,
    RMA_GET,
    RMA_AGAIN
}; /* weft_rma.priv: pieces under way; bytes posted; 1: get; on a list already */

/* What was imported. */
struct vb_remote {
    struct vb_remote *next, **link;
    struct vb_key key;
    int peer, refused; /* the peer's card did */
};

/* ---- Keys ---- */

weft_status vb_import(void *group, int peer, const void *key, size_t bytes, void **remote)
{
    struct vb_group *g = group;
    struct vb_peer *p = peer >= 0 && peer < g->nranks ? &g->peers[peer] : NULL;
    struct vb_remote *r;
    struct vb_key k;

    if (!p || p->state == VB_ABSENT)
        return VB_EXPLAIN(g->endpoint, WEFT_EINVAL, "verbs: rank %d is not served", peer);
    if (bytes != sizeof k)
        return VB_EXPLAIN(g->endpoint, WEFT_EPROTO, "verbs: a key of rank %d has %zu bytes, not %zu", peer, bytes,
                          sizeof k);
    memcpy(&k, key, sizeof k);
    if (k.check != vb_key_check(&k) || k.bytes > UINT64_MAX - k.at)
        return VB_EXPLAIN(g->endpoint, WEFT_EPROTO, "verbs: a key of rank %d is spoilt", peer);
    if (k.nonce != p->address.nonce)
        return VB_EXPLAIN(g->endpoint, WEFT_EINVAL, "verbs: a key that rank %d has not given", peer);
    r = calloc(1, sizeof *r);
    if (!r)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for a key");
    r->key = k;
    r->peer = peer;
    r->next = g->remotes;
    r->link = &g->remotes;
    if (r->next)
        r->next->link = &r->next;
    g->remotes = r;
    *remote = r;
    return WEFT_SUCCESS;
}

void vb_forget(void *group, void *remote)
{
    struct vb_remote *r = remote;

    (void)group;
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    free(r);
}

void vb_rma_forget_all(struct vb_group *g)
{
    while (g->remotes)
        vb_forget(g, g->remotes);
}

static weft_status not_given(const struct vb_peer *p)
{
    return VB_EXPLAIN(p->group->endpoint, WEFT_EPROTO, "verbs: rank %d does not give that memory, or has taken it back",
                      p->rank);
}

/* ---- Posting ---- */

static weft_status check(struct vb_group *g, const struct weft_rma *r)
{
    struct vb_peer *p = r->peer >= 0 && r->peer < g->nranks ? &g->peers[r->peer] : NULL;
    const struct vb_remote *remote = r->remote;
    const struct vb_endpoint *e = g->endpoint;

    if (!p || p->state == VB_ABSENT || remote->peer != r->peer)
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: the key is not rank %d's", r->peer);
    if (r->remote_address < remote->key.at || r->bytes > remote->key.bytes ||
        r->remote_address - remote->key.at > remote->key.bytes - r->bytes)
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: %zu bytes outside of the memory of rank %d that was imported",
                          r->bytes, r->peer);
    if (g->quiet)
        return VB_EXPLAIN(e, WEFT_ECANCELED, "verbs: nothing is posted any more after quiesce");
    if (!vb_covered(r->mem, r->local, r->bytes))
        return VB_EXPLAIN(e, WEFT_EINVAL, "verbs: the memory of a get or put is not registered");
    if (p->state == VB_FAILED)
        return VB_EXPLAIN(e, p->status, "%s", p->text);
    if (p->state == VB_LEFT)
        return VB_EXPLAIN(e, WEFT_EPEER, "rank %d left the communicator", r->peer);
    return remote->refused ? not_given(p) : WEFT_SUCCESS;
}

static void queue_add(struct vb_peer *p, struct weft_rma *r)
{
    r->next = NULL;
    *p->rmas_last = r;
    p->rmas_last = &r->next;
}

static weft_status post(struct vb_group *g, struct weft_rma *r, int get)
{
    weft_status st = check(g, r);
    struct vb_peer *p;

    if (st < 0)
        return st;
    p = &g->peers[r->peer];
    if (p->nrmas >= VB_RMAS)
        return WEFT_EBUSY;
    if (r->peer == g->rank && r->bytes)
        memmove(get ? r->local : (void *)(uintptr_t)r->remote_address,
                get ? (void *)(uintptr_t)r->remote_address : r->local, r->bytes);
    if (r->peer == g->rank || !r->bytes) {
        r->state = WEFT_SUCCESS;
        return WEFT_SUCCESS;
    }
    st = vb_connect(p);
    if (st < 0)
        return st;
    memset(r->priv, 0, sizeof r->priv);
    r->priv[RMA_GET] = (uint64_t)get;
    r->state = WEFT_XFER_PENDING;
    queue_add(p, r);
    p->nrmas++;
    vb_rma_push(p);
    return WEFT_SUCCESS;
}

weft_status vb_get(void *group, struct weft_rma *r)
{
    return post(group, r, 1);
}

weft_status vb_put(void *group, struct weft_rma *r)
{
    return post(group, r, 0);
}

static int post_piece(struct vb_peer *p, int rail, struct weft_rma *r)
{
    const struct vb_remote *remote = r->remote;
    const struct vb_mem *mem = r->mem;
    uint64_t at = r->priv[RMA_POSTED], left = r->bytes - at, bytes = left < VB_PIECE ? left : VB_PIECE;
    struct ibv_sge local = {(uint64_t)(uintptr_t)r->local + at, (uint32_t)bytes, mem->mr[rail]->lkey};
    struct ibv_send_wr wr = {
        .opcode = r->priv[RMA_GET] ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, .sg_list = &local, .num_sge = 1};
    int err;

    wr.wr.rdma.remote_addr = r->remote_address + at;
    wr.wr.rdma.rkey = remote->key.rkey[rail];
    err = vb_queue_post(p, rail, &p->rails[rail].rma, &wr, r, VB_RMA);
    if (err)
        return 0;
    r->priv[RMA_PIECES]++;
    r->priv[RMA_POSTED] += bytes;
    return 1;
}

/* 0: there is no room now. */
static int tell_renewed(struct vb_peer *p, int i)
{
    struct vb_rail *rail = &p->rails[i];
    struct vb_control_renew c = {.head = {.magic = VB_CONTROL_MAGIC, .rail = (uint8_t)i}};

    if (rail->renew) {
        c.head.kind = VB_RENEW;
        c.rma = rail->rma.qp->qp_num;
        c.rma_psn = rail->rma.psn;
        if (!vb_control_send(p, vb_rail_up(p), &c, sizeof c))
            return 0;
        rail->renew = 0;
    }
    if (rail->renewed) {
        c.head.kind = VB_RENEWED;
        c.rma = rail->target_of;
        c.target = rail->target->qp_num;
        c.target_psn = rail->target_psn;
        if (!vb_control_send(p, vb_rail_up(p), &c, sizeof c))
            return 0;
        rail->renewed = 0;
    }
    return 1;
}

void vb_rma_push(struct vb_peer *p)
{
    int up = p->open ? vb_rail_up(p) : -1;

    for (int i = 0; up >= 0 && i < p->nrails; i++)
        if (!tell_renewed(p, i)) {
            vb_blocked(p);
            return;
        }
    while (up >= 0 && p->rmas && p->rails[up].rma.ready) {
        struct weft_rma *r = p->rmas;
        if (!vb_queue_room(p, up, &p->rails[up].rma) || !post_piece(p, up, r)) {
            vb_blocked(p);
            return;
        }
        if (r->priv[RMA_POSTED] == r->bytes) {
            p->rmas = r->next;
            if (!p->rmas)
                p->rmas_last = &p->rmas;
        }
    }
}

/* ---- How they end ---- */

void vb_rma_done(struct vb_peer *p, struct weft_rma *r, weft_status st)
{
    if (st >= 0 && (--r->priv[RMA_PIECES] || r->priv[RMA_POSTED] != r->bytes))
        return;
    p->nrmas -= p->nrmas > 0;
    r->state = st;
}

/* All that have not ended, in the order in which they were posted, as if they had not been. */
void vb_rma_take_back(struct vb_peer *p, struct vb_queue *q)
{
    struct weft_rma *rest = p->rmas, *partly = rest && rest->priv[RMA_POSTED] ? rest : NULL;

    p->rmas = NULL;
    p->rmas_last = &p->rmas;
    for (uint32_t n = q->done; n != q->posted; n++) {
        struct vb_request *request = &q->ring[n & (q->depth - 1)];
        struct weft_rma *r = request->of;
        if (request->what != VB_RMA)
            continue;
        request->what = VB_NOTHING;
        if (r == partly || r->priv[RMA_AGAIN])
            continue;
        r->priv[RMA_AGAIN] = 1;
        queue_add(p, r);
    }
    *p->rmas_last = rest;
    while (*p->rmas_last)
        p->rmas_last = &(*p->rmas_last)->next;
    for (struct weft_rma *r = p->rmas; r; r = r->next)
        r->priv[RMA_PIECES] = r->priv[RMA_POSTED] = r->priv[RMA_AGAIN] = 0;
}

static void end_refused(struct vb_peer *p, const struct weft_rma *culprit, weft_status st)
{
    const struct vb_remote *remote = culprit->remote;

    for (struct weft_rma **at = &p->rmas, *r; (r = *at) != NULL;) {
        if (r != culprit && !(((const struct vb_remote *)r->remote)->refused && r->remote == remote)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        p->nrmas -= p->nrmas > 0;
        r->state = st;
    }
    p->rmas_last = &p->rmas;
    while (*p->rmas_last)
        p->rmas_last = &(*p->rmas_last)->next;
}

static int is_refusal(enum ibv_wc_status why)
{
    return why == IBV_WC_REM_ACCESS_ERR || why == IBV_WC_REM_INV_REQ_ERR || why == IBV_WC_REM_OP_ERR;
}

void vb_rma_failed(struct vb_peer *p, int rail, uint32_t number, enum ibv_wc_status why)
{
    struct vb_queue *q = &p->rails[rail].rma;
    const struct weft_host *host = p->group->endpoint->host;
    struct weft_rma *culprit;
    weft_status st = WEFT_EINVAL;

    while (q->done != q->posted && (q->done & 0xffffff) != number)
        vb_queue_done(p, rail, q, q->done & 0xffffff);
    if (q->done == q->posted || (!is_refusal(why) && why != IBV_WC_LOC_PROT_ERR && why != IBV_WC_LOC_LEN_ERR)) {
        vb_peer_broken(p, rail, "a get or put: %s", ibv_wc_status_str(why));
        return;
    }
    culprit = q->ring[q->done & (q->depth - 1)].of;
    if (is_refusal(why)) {
        st = not_given(p);
        ((struct vb_remote *)culprit->remote)->refused = 1;
    } else {
        host->explain(host->impl, st, "verbs: the memory of a get or put with rank %d is not registered: %s", p->rank,
                      ibv_wc_status_str(why));
    }
    vb_rma_take_back(p, q);
    vb_queue_close(p, rail, q, WEFT_ECANCELED);
    end_refused(p, culprit, st);
    if (vb_queue_open(p, rail, q, VB_RMA_DEPTH, 1) < 0) {
        vb_peer_fail(p, WEFT_ENOMEM, "no queue pair could be made for gets and puts");
        return;
    }
    p->rails[rail].renew = 1;
    vb_rma_push(p);
}

/* ---- New queue pairs ---- */

static int renew_target(struct vb_peer *p, int i, const struct vb_control_renew *c)
{
    struct vb_rail *rail = &p->rails[i];

    if (rail->target_of == c->rma) { /* it asks again: the answer was lost with a rail */
        rail->renewed = 1;
        vb_rma_push(p);
        return 1;
    }
    vb_card_number_remove(&p->group->cards[i], rail->target->qp_num);
    ibv_destroy_qp(rail->target);
    rail->target = vb_qp_target(p, i);
    if (!rail->target || vb_qp_connect(p, i, rail->target, c->rma, c->rma_psn, rail->target_psn) < 0) {
        vb_peer_fail(p, WEFT_ENOMEM, "no queue pair could be made for its gets and puts");
        return 1;
    }
    rail->target_of = c->rma;
    rail->renewed = 1;
    vb_rma_push(p);
    return 1;
}

int vb_rma_control(struct vb_peer *p, const struct vb_control_renew *c)
{
    int i = c->head.rail;
    struct vb_queue *q = &p->rails[i].rma;

    if ((c->rma | c->rma_psn | c->target | c->target_psn) >> 24 || !c->rma)
        return 0;
    if (p->rails[i].down)
        return 1;
    if (c->head.kind == VB_RENEW)
        return renew_target(p, i, c);
    if (!q->qp || q->qp->qp_num != c->rma)
        return 0;
    if (q->ready)
        return p->nrails > 1; /* a second answer */
    if (vb_qp_connect(p, i, q->qp, c->target, c->target_psn, q->psn) < 0) {
        vb_peer_fail(p, WEFT_ESYS, "the new queue pair of gets and puts does not connect");
        return 1;
    }
    q->ready = 1;
    vb_rma_push(p);
    return 1;
}

int vb_rma_end(struct vb_peer *p, weft_status st)
{
    int ended = (int)p->nrmas;

    for (struct weft_rma *r = p->rmas, *next; r; r = next) {
        next = r->next;
        r->state = st;
    }
    p->rmas = NULL;
    p->rmas_last = &p->rmas;
    p->nrmas = 0;
    return ended;
}
