/* rails.c: a rail that is lost is left, and nothing of what was under way on it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What had not been acknowledged on the rail may have arrived or not. To send it again at once would write to memory that its
 * receiver may have given back. So:
 *   - both sides destroy the rail's queue pairs: nothing that is late arrives over them any more
 *   - the sender asks for each such message, once its parts on other rails have ended; with the question goes which rails are down
 *   - the receiver, which has left these rails by then, says whether the message has come; if not, its receive is as if nothing had
 *     come of it, and the whole message is sent again
 *   - receives are advertised again; a peer takes none twice. Gets and puts are posted again: they may be done twice until they end
 */
#include "queue.h"

#include <string.h>

static uint8_t lost_rails(const struct vb_peer *p)
{
    uint8_t lost = 0;

    for (int i = 0; i < p->nrails; i++)
        lost |= (uint8_t)(p->rails[i].down << i);
    return lost;
}

static void add_lost(struct vb_peer *p, struct weft_xfer *x)
{
    struct vb_lane *lane = p->lanes[x->chan];

    x->priv[VB_SEND_ASKED] = 0;
    x->next = lane->lost;
    lane->lost = x;
    vb_blocked(p); /* the peer is asked for it */
}

void vb_rail_sent(struct vb_peer *p, struct weft_xfer *x)
{
    add_lost(p, x);
}

/* Parts of messages that were under way. */
static void take_back(struct vb_peer *p, struct vb_queue *q)
{
    for (uint32_t n = q->done; n != q->posted; n++) {
        struct vb_request *request = &q->ring[n & (q->depth - 1)];
        struct weft_xfer *x = request->of;
        if (request->what != VB_DATA)
            continue;
        request->what = VB_NOTHING;
        x->priv[VB_SEND_LOST] = 1;
        if (--x->priv[VB_SEND_PARTS] == 0)
            add_lost(p, x);
    }
}

/* What was asked for over a rail that is lost now is asked for again. */
static void ask_again(struct vb_peer *p)
{
    for (int chan = 0; chan < WEFT_CHAN_MAX_LAYERED; chan++)
        for (struct weft_xfer *x = p->lanes[chan] ? p->lanes[chan]->lost : NULL; x; x = x->next)
            x->priv[VB_SEND_ASKED] = 0;
}

void vb_rail_lost(struct vb_peer *p, int i, const char *why)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct vb_rail *rail = &p->rails[i];

    if (rail->down || p->leave >> i & 1)
        return;
    VB_LOG(p->group->endpoint, WARN, "verbs.rail", "rank %d: %s is left: %s", p->rank,
           p->group->endpoint->ports[i].name, why);
    p->leave |= 1u << i;
    rail->message.ready = rail->rma.ready = 0;
    ibv_modify_qp(rail->message.qp, &error, IBV_QP_STATE); /* nothing more is acknowledged that is not taken below */
    vb_blocked(p);
}

static void leave(struct vb_peer *p, int i)
{
    struct vb_rail *rail = &p->rails[i];

    rail->down = 1;
    take_back(p, &rail->message);
    vb_rma_take_back(p, &rail->rma);
    vb_queue_close(p, i, &rail->message, WEFT_ECANCELED);
    vb_queue_close(p, i, &rail->rma, WEFT_ECANCELED);
    vb_card_number_remove(&p->group->cards[i], rail->target->qp_num);
    ibv_destroy_qp(rail->target);
    rail->target = NULL;
}

void vb_rail_leave(struct vb_peer *p)
{
    for (int i = 0; i < p->nrails; i++)
        while (vb_poll_rail(p->group, i)) /* what has been acknowledged to the peer has been taken */
            continue;
    if (p->state != VB_CONNECTED)
        return;
    for (int i = 0; i < p->nrails; i++)
        if (p->leave >> i & 1 && !p->rails[i].down)
            leave(p, i);
    p->leave = 0;
    if (vb_rail_up(p) < 0) {
        vb_peer_fail(p, WEFT_EPEER, "all of its rails are lost");
        return;
    }
    for (int i = 0; i < p->nrails; i++) {
        struct vb_rail *other = &p->rails[i];
        other->renew = !other->down && !other->rma.ready;
    }
    p->tell_lost = p->say_hello = 1;
    ask_again(p);
    vb_message_again(p);
}

/* ---- What is said ---- */

static int say(struct vb_peer *p, enum vb_control_kind kind, uint32_t chan, uint32_t number)
{
    struct vb_control c = {.magic = VB_CONTROL_MAGIC,
                           .kind = (uint8_t)kind,
                           .chan = (uint8_t)chan,
                           .lost = lost_rails(p),
                           .number = number};
    int rail = vb_rail_up(p);

    return rail >= 0 && vb_control_send(p, rail, &c, sizeof c);
}

/* What arrived of a message that has not come as a whole counts no more. 0: there is no room to say so. */
static int answer(struct vb_peer *p, uint32_t chan, struct vb_lane *lane)
{
    for (uint32_t i = 0; i < VB_SLOTS; i++) {
        int place;
        if (!(lane->due >> i & 1))
            continue;
        place = vb_message_awaited(p, chan, lane->asked[i]);
        if (!say(p, place >= 0 ? VB_NOT_COME : VB_CAME, chan, lane->asked[i]))
            return 0;
        lane->due &= (uint8_t) ~(1u << i);
        if (place >= 0)
            lane->parts[place] = 0, lane->got[place] = 0;
    }
    return 1;
}

void vb_rail_push(struct vb_peer *p)
{
    if (p->tell_lost) {
        if (!say(p, VB_RAIL_LOST, 0, 0)) {
            vb_blocked(p);
            return;
        }
        p->tell_lost = 0;
    }
    for (uint32_t chan = 0; p->nrails > 1 && chan < WEFT_CHAN_MAX_LAYERED && p->open; chan++) {
        if (p->lanes[chan] && p->lanes[chan]->due && !p->group->polling && !answer(p, chan, p->lanes[chan])) {
            vb_blocked(p);
            return;
        }
        for (struct weft_xfer *x = p->lanes[chan] ? p->lanes[chan]->lost : NULL; x; x = x->next) {
            if (x->priv[VB_SEND_ASKED])
                continue;
            if (!say(p, VB_HAS_COME, chan, (uint32_t)x->priv[VB_SEND_NUMBER])) {
                vb_blocked(p);
                return;
            }
            x->priv[VB_SEND_ASKED] = 1;
        }
    }
}

/* ---- What comes ---- */

static int is_asked(struct vb_peer *p, const struct vb_control *c)
{
    struct vb_lane *lane = p->lanes[c->chan];
    uint32_t place = c->number % VB_SLOTS;

    lane->asked[place] = c->number;
    lane->due |= (uint8_t)(1u << place);
    vb_blocked(p); /* it is answered when all that had come is taken */
    return 1;
}

static int take_answer(struct vb_peer *p, const struct vb_control *c)
{
    struct vb_lane *lane = p->lanes[c->chan];
    struct weft_xfer **at = &lane->lost, *x;

    while (*at && (uint32_t)(*at)->priv[VB_SEND_NUMBER] != c->number)
        at = &(*at)->next;
    x = *at;
    if (!x || !x->priv[VB_SEND_ASKED])
        return 1; /* answered before */
    *at = x->next;
    x->priv[VB_SEND_LOST] = 0;
    if (c->kind == VB_CAME) {
        lane->nsends--;
        x->state = WEFT_SUCCESS;
    } else if (!vb_message_write(p, c->chan, lane, x)) {
        x->priv[VB_SEND_LOST] = 1; /* no room: it is asked again, and answered the same */
        add_lost(p, x);
    }
    return 1;
}

int vb_rail_control(struct vb_peer *p, const struct vb_control *c)
{
    if (p->nrails < 2 || c->lost >> p->nrails)
        return 0;
    for (int i = 0; i < p->nrails; i++)
        if (c->lost >> i & 1)
            vb_rail_lost(p, i, "the peer has left it");
    if (c->kind == VB_RAIL_LOST)
        return 1;
    if (c->chan >= p->group->nchans || !p->lanes[c->chan])
        return 0;
    return c->kind == VB_HAS_COME ? is_asked(p, c) : take_answer(p, c);
}
