/* queue.c: queue pairs, and what is posted to them.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static struct ibv_qp *create(struct vb_peer *p, int rail, uint32_t depth, uint32_t *inline_bytes)
{
    struct vb_card *card = &p->group->cards[rail];
    struct ibv_qp_init_attr attr = {.send_cq = card->cq, .recv_cq = card->cq, .srq = card->srq, .qp_type = IBV_QPT_RC};
    uint32_t wanted = *inline_bytes;

    for (;;) { /* devices differ in what travels with a request */
        struct ibv_qp *qp;
        attr.cap = (struct ibv_qp_cap){.max_send_wr = depth, .max_send_sge = 1, .max_inline_data = wanted};
        qp = ibv_create_qp(p->group->endpoint->ports[rail].pd, &attr);
        if (qp) {
            *inline_bytes = wanted < attr.cap.max_inline_data ? wanted : attr.cap.max_inline_data;
            return qp;
        }
        if (!wanted)
            return NULL;
        wanted = wanted > 64 ? wanted / 2 : 0;
    }
}

static weft_status refused(const struct vb_peer *p, int rail, const char *what, int err)
{
    const struct vb_endpoint *e = p->group->endpoint;
    weft_status st = err == ENOMEM ? WEFT_ENOMEM : WEFT_ESYS;

    return VB_EXPLAIN(e, st, "verbs: a queue pair with rank %d on %s %s: %s", p->rank, e->ports[rail].name, what,
                      strerror(err));
}

static uint32_t random_psn(void)
{
    uint32_t psn = 0;

    (void)!getrandom(&psn, sizeof psn, GRND_NONBLOCK);
    return psn & 0xffffff;
}

weft_status vb_qp_to_init(const struct vb_endpoint *e, int rail, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = e->ports[rail].pkey_index,
                               .port_num = e->ports[rail].number,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
               ? WEFT_ESYS
               : WEFT_SUCCESS;
}

weft_status vb_queue_open(struct vb_peer *p, int rail, struct vb_queue *q, uint32_t depth, int is_rma)
{
    struct vb_group *g = p->group;

    q->depth = depth;
    q->posted = q->done = q->signalled = 0;
    q->ready = 0;
    q->generation++;
    q->psn = random_psn();
    q->inline_bytes = is_rma ? 0 : (uint32_t)g->endpoint->settings->inline_bytes;
    q->ring = calloc(depth, sizeof *q->ring);
    if (!q->ring)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for a queue pair");
    /* One less: drivers keep a place free, and double what would then not be a power of two. */
    q->qp = create(p, rail, depth - 1, &q->inline_bytes);
    if (!q->qp || vb_qp_to_init(g->endpoint, rail, q->qp) < 0) {
        weft_status st = refused(p, rail, q->qp ? "is not initialised" : "is not made", errno);
        vb_queue_close(p, rail, q, WEFT_ECANCELED);
        return st;
    }
    vb_card_number_add(&g->cards[rail], q->qp->qp_num, p->rank);
    return WEFT_SUCCESS;
}

struct ibv_qp *vb_qp_target(struct vb_peer *p, int rail)
{
    uint32_t none = 0;
    struct ibv_qp *qp = create(p, rail, 1, &none);

    if (!qp || vb_qp_to_init(p->group->endpoint, rail, qp) < 0) {
        refused(p, rail, qp ? "is not initialised" : "is not made", errno);
        if (qp)
            ibv_destroy_qp(qp);
        return NULL;
    }
    p->rails[rail].target_psn = random_psn();
    vb_card_number_add(&p->group->cards[rail], qp->qp_num, p->rank);
    return qp;
}

/* To ready to receive and to send. */
weft_status vb_qp_connect(struct vb_peer *p, int rail, struct ibv_qp *qp, uint32_t number, uint32_t their_psn,
                          uint32_t psn)
{
    const struct vb_endpoint *e = p->group->endpoint;
    const struct vb_address_port *theirs = &p->address.ports[rail];
    const struct vb_settings *s = e->settings;
    uint8_t reads = qp == p->rails[rail].message.qp ? 1 : e->ports[rail].rd_atomic; /* messages are only written */
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu =
                                  theirs->mtu < e->ports[rail].mtu ? (enum ibv_mtu)theirs->mtu : e->ports[rail].mtu,
                              .dest_qp_num = number,
                              .rq_psn = their_psn,
                              .max_dest_rd_atomic = e->ports[rail].rd_atomic,
                              .min_rnr_timer = (uint8_t)s->rnr_timer,
                              .ah_attr = vb_port_route(e, rail, theirs)};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = psn,
                              .timeout = (uint8_t)s->timeout,
                              .retry_cnt = (uint8_t)s->retries,
                              .rnr_retry = 7,
                              .max_rd_atomic = reads};

    if (ibv_modify_qp(qp, &rtr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return refused(p, rail, "does not get ready to receive", errno);
    if (ibv_modify_qp(qp, &rts,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC))
        return refused(p, rail, "does not get ready to send", errno);
    return WEFT_SUCCESS;
}

/* ---- What is posted ---- */

/* One is kept for the last word. */
int vb_queue_room(const struct vb_peer *p, int rail, const struct vb_queue *q)
{
    const struct vb_card *card = &p->group->cards[rail];

    return q->posted - q->done < q->depth - 2 && card->sends_out + 1 < card->cq_size - card->srq_size;
}

uint64_t vb_work_id(const struct vb_peer *p, int rail, const struct vb_queue *q, uint32_t number)
{
    return (uint64_t)(uint32_t)p->rank << 40 | (uint64_t)(rail * 2 + (q == &p->rails[rail].rma)) << 36 |
           (uint64_t)(q->generation & 0xfff) << 24 | (number & 0xffffff);
}

/* Of those that nobody waits for one in some is signalled; more often where the completion queue has little room left. */
static int is_to_signal(const struct vb_peer *p, int rail, const struct vb_queue *q)
{
    const struct vb_card *card = &p->group->cards[rail];

    return q->posted - q->signalled >= q->depth / 4 || card->sends_out >= (card->cq_size - card->srq_size) / 2;
}

int vb_queue_post(struct vb_peer *p, int rail, struct vb_queue *q, struct ibv_send_wr *wr, void *of, enum vb_what what)
{
    struct ibv_send_wr *bad;
    int err;

    wr->wr_id = vb_work_id(p, rail, q, q->posted);
    if (what != VB_NOTHING || is_to_signal(p, rail, q))
        wr->send_flags |= IBV_SEND_SIGNALED;
    err = ibv_post_send(q->qp, wr, &bad);
    if (err)
        return err;
    q->ring[q->posted & (q->depth - 1)] = (struct vb_request){of, what};
    if (wr->send_flags & IBV_SEND_SIGNALED)
        q->signalled = q->posted;
    q->posted++;
    p->group->cards[rail].sends_out++;
    return 0;
}

static void ended(struct vb_peer *p, int rail, const struct vb_request *request, weft_status st)
{
    if (request->what == VB_DATA)
        vb_message_sent(p, request->of, st);
    else if (request->what == VB_RMA)
        vb_rma_done(p, request->of, st);
    else if (request->what == VB_CONTROL)
        vb_card_buffer_put(p->group, rail, request->of);
}

int vb_queue_done(struct vb_peer *p, int rail, struct vb_queue *q, uint32_t number)
{
    int events = 0;

    /* What was posted before has ended as well: that of one queue pair does in order. */
    while (((number - q->done) & 0xffffff) < q->posted - q->done) {
        struct vb_request request = q->ring[q->done & (q->depth - 1)];
        uint32_t this = q->done++;
        p->group->cards[rail].sends_out--;
        ended(p, rail, &request, WEFT_SUCCESS);
        events++;
        if ((this & 0xffffff) == number)
            break;
    }
    return events;
}

void vb_queue_close(struct vb_peer *p, int rail, struct vb_queue *q, weft_status st)
{
    if (q->qp) {
        vb_card_number_remove(&p->group->cards[rail], q->qp->qp_num);
        ibv_destroy_qp(q->qp);
    }
    q->qp = NULL;
    q->ready = 0;
    for (; q->ring && q->done != q->posted; q->done++) {
        struct vb_request request = q->ring[q->done & (q->depth - 1)];
        p->group->cards[rail].sends_out--;
        ended(p, rail, &request, st);
    }
    free(q->ring);
    q->ring = NULL;
}
