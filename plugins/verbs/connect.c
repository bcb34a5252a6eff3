/* connect.c: how two ranks connect, over the side channel, and how connections end.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank makes its queue pairs when it first needs the peer or is asked, and says their numbers in its request or its
 * response: both say the same. Whichever comes first, the peer's request or its response, connects. The one that asked knows
 * from the response that the other one's queue pairs can receive; the one that was asked knows it from the first message, which
 * always comes.
 */
#include "verbs.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOODBYE_NS 700000000ull /* from a peer whose side of the channel has ended */
#define ENDED_NS 200000000ull   /* ... and whose process has, as can be seen on its own host */

static struct vb_hello my_hello(const struct vb_peer *p)
{
    struct vb_hello h = {.magic = VB_HELLO_MAGIC, .rank = (uint32_t)p->group->rank, .nonce = p->group->endpoint->nonce};

    for (int i = 0; i < p->nrails; i++) {
        const struct vb_rail *rail = &p->rails[i];
        h.rails[i] = (struct vb_hello_rail){.message = rail->message.qp->qp_num,
                                            .rma = rail->rma.qp->qp_num,
                                            .target = rail->target->qp_num,
                                            .message_psn = rail->message.psn,
                                            .rma_psn = rail->rma.psn,
                                            .target_psn = rail->target_psn};
    }
    return h;
}

/* ---- Queue pairs ---- */

static weft_status make_rail(struct vb_peer *p, int i)
{
    struct vb_rail *rail = &p->rails[i];
    uint32_t depth = (uint32_t)p->group->endpoint->settings->depth;
    weft_status st = vb_queue_open(p, i, &rail->message, depth, 0);

    if (st >= 0)
        st = vb_queue_open(p, i, &rail->rma, VB_RMA_DEPTH, 1);
    if (st < 0)
        return st;
    rail->target = vb_qp_target(p, i);
    return rail->target ? WEFT_SUCCESS : WEFT_ESYS;
}

static weft_status make(struct vb_peer *p)
{
    p->rails = calloc(VB_RAILS_MAX, sizeof *p->rails);
    if (!p->rails)
        return VB_EXPLAIN(p->group->endpoint, WEFT_ENOMEM, "verbs: no memory for a connection with rank %d", p->rank);
    for (int i = 0; i < p->nrails; i++) {
        weft_status st = make_rail(p, i);
        if (st < 0) {
            vb_disconnect(p);
            return st;
        }
    }
    p->mine = my_hello(p);
    p->group->nconnected++;
    for (int i = 0; i < p->nrails; i++)
        vb_card_receives(p->group, i);
    return WEFT_SUCCESS;
}

void vb_disconnect(struct vb_peer *p)
{
    if (!p->rails)
        return;
    p->open = 0;
    for (int i = 0; i < p->nrails; i++) {
        struct vb_rail *rail = &p->rails[i];
        weft_status st = p->status < 0 ? p->status : WEFT_ECANCELED;
        vb_queue_close(p, i, &rail->message, st);
        vb_queue_close(p, i, &rail->rma, st);
        if (rail->target) {
            vb_card_number_remove(&p->group->cards[i], rail->target->qp_num);
            ibv_destroy_qp(rail->target);
        }
        rail->target = NULL;
    }
    free(p->rails);
    p->rails = NULL;
}

/* `theirs` is known: the queue pairs get ready. */
static weft_status establish(struct vb_peer *p)
{
    for (int i = 0; i < p->nrails; i++) {
        struct vb_rail *rail = &p->rails[i];
        const struct vb_hello_rail *far = &p->theirs.rails[i];
        weft_status st = vb_qp_connect(p, i, rail->message.qp, far->message, far->message_psn, rail->message.psn);
        if (st >= 0)
            st = vb_qp_connect(p, i, rail->rma.qp, far->target, far->target_psn, rail->rma.psn);
        if (st >= 0)
            st = vb_qp_connect(p, i, rail->target, far->rma, far->rma_psn, rail->target_psn);
        if (st < 0)
            return st;
        rail->target_of = far->rma;
        rail->message.ready = rail->rma.ready = 1;
    }
    p->state = VB_CONNECTED;
    return WEFT_SUCCESS;
}

static int is_hello(const struct vb_peer *p, const struct vb_hello *h, size_t bytes)
{
    if (bytes != sizeof *h || h->magic != VB_HELLO_MAGIC || h->rank != (uint32_t)p->rank ||
        h->nonce != p->address.nonce)
        return 0;
    for (int i = 0; i < p->nrails; i++)
        if ((h->rails[i].message | h->rails[i].rma | h->rails[i].target | h->rails[i].message_psn |
             h->rails[i].rma_psn | h->rails[i].target_psn) >>
            24)
            return 0;
    return 1;
}

/* ---- The side channel ---- */

weft_status vb_connect(struct vb_peer *p)
{
    struct vb_group *g = p->group;
    weft_status st;

    if (p->state != VB_IDLE || p->rank == g->rank || g->quiet)
        return WEFT_SUCCESS;
    st = make(p);
    if (st < 0)
        return st;
    st = g->endpoint->host->side_request(g->side, p->rank, &p->mine, sizeof p->mine);
    if (st < 0) {
        vb_disconnect(p);
        return st;
    }
    p->asked = 1;
    p->state = VB_ASKED;
    g->connecting++;
    return WEFT_SUCCESS;
}

static void watch(struct vb_peer *p)
{
    struct vb_group *g = p->group;

    if (!p->asked && vb_watch_begin(g->endpoint->host, g->side, p->rank) >= 0)
        p->asked = p->watched = 1;
}

/* The peer can receive. It learns the same of this rank by the message. */
void vb_opened(struct vb_peer *p)
{
    if (p->open)
        return;
    p->open = p->say_hello = 1;
    vb_message_push(p);
    vb_rma_push(p);
}

/* 0: the peer has failed. */
static int take_hello(struct vb_peer *p, const struct vb_hello *h, size_t bytes)
{
    weft_status st = WEFT_SUCCESS;

    if (!is_hello(p, h, bytes) || (p->state == VB_CONNECTED && memcmp(h, &p->theirs, sizeof *h) != 0)) {
        vb_peer_fail(p, WEFT_EPROTO, "its connection data is none of verbs, or other than before");
        return 0;
    }
    if (p->state == VB_IDLE)
        st = make(p);
    if (st >= 0 && p->state != VB_CONNECTED) {
        p->theirs = *h;
        st = establish(p);
    }
    if (st < 0)
        vb_peer_fail(p, st, "no connection could be made with it");
    return st >= 0;
}

static void take_request(struct vb_peer *p, const struct vb_hello *h, size_t bytes)
{
    struct vb_group *g = p->group;

    if (p->state == VB_LEFT || p->state == VB_FAILED || !take_hello(p, h, bytes))
        return;
    g->endpoint->host->side_respond(g->side, p->rank, &p->mine, sizeof p->mine);
    watch(p);
}

void vb_connect_requested(struct vb_group *g)
{
    struct vb_hello h;
    size_t bytes;
    int rank;

    while (g->endpoint->host->side_requested(g->side, &rank, &h, sizeof h, &bytes))
        if (rank >= 0 && rank < g->nranks && g->peers[rank].state != VB_ABSENT && !vb_watch_is(&h, bytes))
            take_request(&g->peers[rank], &h, bytes);
}

static void take_response(struct vb_peer *p)
{
    struct vb_group *g = p->group;
    char why[WEFT_SIDE_WHY_MAX] = "";
    struct vb_hello h;
    size_t bytes = 0;
    weft_status st = g->endpoint->host->side_response(g->side, p->rank, &h, sizeof h, &bytes, why);

    if (st == WEFT_INPROGRESS)
        return;
    p->asked = 0;
    g->connecting--;
    if (p->state == VB_LEFT || p->state == VB_FAILED)
        return;
    if (st < 0) {
        vb_peer_fail(p, st, "%s", why);
        return;
    }
    if (!take_hello(p, &h, bytes))
        return;
    watch(p);
    vb_opened(p);
}

/* The peer's process, or its side of the channel, has ended. Its good-bye may be on its way. */
static void take_watch(struct vb_peer *p)
{
    struct vb_group *g = p->group;
    char why[WEFT_SIDE_WHY_MAX] = "";
    weft_status st = vb_watch_look(g->endpoint->host, g->side, p->rank, why);

    if (st == WEFT_INPROGRESS)
        return;
    p->asked = 0;
    if (p->state != VB_CONNECTED)
        return;
    snprintf(p->text, sizeof p->text, "%s", why);
    vb_peer_gives_up(p, g->endpoint->host->process_state(&p->address.process) == 0 ? ENDED_NS : GOODBYE_NS);
}

void vb_connect_responses(struct vb_group *g)
{
    for (int r = 0; r < g->nranks; r++) {
        struct vb_peer *p = &g->peers[r];
        if (!p->asked)
            continue;
        if (!p->watched)
            take_response(p);
        else
            take_watch(p);
    }
}
