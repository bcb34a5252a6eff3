/* message.c: sends and receives: slots that peers are given, and what is written into theirs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEADS_AT_ONCE (VB_SLOTS / 2) /* headers are advertised by so many, for the sake of messages that do it */

/* ---- Lanes ---- */

static struct vb_lane *lane_of(struct vb_peer *p, uint32_t chan)
{
    struct vb_lane *lane = p->lanes[chan];

    if (lane)
        return lane;
    lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->sends_last = &lane->sends;
    return p->lanes[chan] = lane;
}

void vb_blocked(struct vb_peer *p)
{
    if (p->blocked)
        return;
    p->blocked = 1;
    p->next_blocked = p->group->blocked;
    p->group->blocked = p;
}

int vb_rail_up(const struct vb_peer *p)
{
    for (int i = 0; p->rails && i < p->nrails; i++)
        if (!p->rails[i].down && p->rails[i].message.ready)
            return i;
    return -1;
}

/* ---- Control messages ---- */

int vb_control_send(struct vb_peer *p, int rail, const void *data, size_t bytes)
{
    struct vb_queue *q = &p->rails[rail].message;
    struct ibv_sge from = {(uint64_t)(uintptr_t)data, (uint32_t)bytes, 0};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1};
    struct vb_buffer *b = NULL;
    int err;

    if (!vb_queue_room(p, rail, q))
        return 0;
    if (bytes <= q->inline_bytes) {
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        b = vb_card_buffer(p->group, rail);
        if (!b)
            return 0;
        memcpy(b->at, data, bytes);
        from.addr = (uint64_t)(uintptr_t)b->at;
        from.lkey = p->group->cards[rail].mr->lkey;
    }
    err = vb_queue_post(p, rail, q, &wr, b, b ? VB_CONTROL : VB_NOTHING);
    if (!err)
        return 1;
    if (b)
        vb_card_buffer_put(p->group, rail, b);
    if (err != ENOMEM)
        vb_peer_broken(p, rail, "posting fails: %s", strerror(err));
    return 0;
}

/* ---- Receives are advertised ---- */

_Static_assert(sizeof(struct vb_control) + VB_SLOTS * (12 + 4 * VB_RAILS_MAX) <= VB_CONTROL_MAX, "slots fit");

/* A slot as it travels: without the keys of rails that there are not. */
static size_t pack(unsigned char *at, const struct weft_xfer *x, int nrails)
{
    const struct vb_mem *mem = x->mem;
    uint64_t address = (uint64_t)(uintptr_t)x->buf;
    uint32_t bytes = (uint32_t)x->bytes;

    memcpy(at, &address, 8);
    memcpy(at + 8, &bytes, 4);
    for (int i = 0; i < nrails; i++)
        memcpy(at + 12 + 4 * i, mem ? &mem->mr[i]->rkey : &(uint32_t){0}, 4);
    return 12 + 4 * (size_t)nrails;
}

static int may_advertise(const struct vb_group *g, uint32_t chan)
{
    uint32_t others = g->slots_out - g->heads_out;

    return chan == VB_HEADS || others < g->cards[0].srq_size - g->reserved_slots;
}

/* After a rail was lost what the peer was told may not have come: from the oldest that it has not written to. It takes none
 * twice, and what it has written to it had. */
static uint32_t first_to_advertise(const struct vb_peer *p, uint32_t chan, const struct vb_lane *lane)
{
    uint32_t n = lane->advertised;

    while (lane->repeat && lane->advertised - n < VB_SLOTS && vb_message_awaited(p, chan, n - 1) >= 0)
        n--;
    return n;
}

/* 0: there is no room for it now. */
static int advertise(struct vb_peer *p, uint32_t chan, struct vb_lane *lane)
{
    struct vb_group *g = p->group;
    unsigned char message[VB_CONTROL_MAX];
    struct vb_control head = {.magic = VB_CONTROL_MAGIC, .kind = VB_SLOTS_GIVEN, .chan = (uint8_t)chan};
    size_t bytes = sizeof head;
    int rail = vb_rail_up(p);
    uint32_t more = 0;

    if (rail < 0 || !vb_queue_room(p, rail, &p->rails[rail].message))
        return 0;
    head.number = first_to_advertise(p, chan, lane);
    for (uint32_t n = head.number; n != lane->posted && (n - lane->advertised >= 1u << 31 || may_advertise(g, chan));
         n++) {
        bytes += pack(message + bytes, lane->recvs[n % VB_SLOTS], p->nrails);
        head.count++;
        if (n - lane->advertised >= 1u << 31)
            continue;
        more++;
        g->slots_out++;
        g->heads_out += chan == VB_HEADS;
    }
    if (!head.count)
        return lane->advertised == lane->posted;
    memcpy(message, &head, sizeof head);
    for (int i = 0; i < g->nports; i++)
        vb_card_receives(g, i);
    if (vb_control_send(p, rail, message, bytes)) {
        if (!p->rails)
            return 1;
        lane->advertised += more;
        lane->repeat = 0;
        p->say_hello = 0; /* that was it */
        return lane->advertised == lane->posted;
    }
    g->slots_out -= more;
    g->heads_out -= chan == VB_HEADS ? more : 0;
    return 0;
}

static void advertise_all(struct vb_peer *p)
{
    for (int w = 0; w < 2; w++)
        for (uint64_t some = p->advertise[w]; some && p->open; some &= some - 1) {
            uint32_t chan = (uint32_t)(64 * w + __builtin_ctzll(some));
            if (advertise(p, chan, p->lanes[chan]))
                p->advertise[w] &= ~(1ull << (chan % 64));
            else
                vb_blocked(p);
        }
}

/* ---- Sends ---- */

static struct ibv_send_wr write_to(const struct vb_slot *slot, int rail, size_t offset, struct ibv_sge *from,
                                   uint32_t imm)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .sg_list = from,
                             .num_sge = from->length ? 1 : 0,
                             .imm_data = htobe32(imm)};

    wr.wr.rdma.remote_addr = slot->address + offset;
    wr.wr.rdma.rkey = slot->rkey[rail];
    return wr;
}

static int write_part(struct vb_peer *p, int rail, struct weft_xfer *x, const struct vb_slot *slot, size_t offset,
                      size_t bytes, uint32_t imm)
{
    struct vb_queue *q = &p->rails[rail].message;
    const struct vb_mem *mem = x->mem;
    struct ibv_sge from = {(uint64_t)(uintptr_t)x->buf + offset, (uint32_t)bytes, mem ? mem->mr[rail]->lkey : 0};
    struct ibv_send_wr wr = write_to(slot, rail, offset, &from, imm);
    /* What travels with the request is the device's at once. */
    int done = bytes <= q->inline_bytes && p->nrails == 1;
    int err;

    if (bytes <= q->inline_bytes)
        wr.send_flags = IBV_SEND_INLINE;
    x->priv[VB_SEND_PARTS]++;
    err = vb_queue_post(p, rail, q, &wr, done ? NULL : x, done ? VB_NOTHING : VB_DATA);
    if (err)
        x->priv[VB_SEND_PARTS]--;
    else if (done)
        vb_message_sent(p, x, WEFT_SUCCESS);
    return err;
}

/* The rails that a message takes: from the first in turn, as many as it has parts. 0: not all of them have room. */
static unsigned choose_rails(struct vb_peer *p, size_t bytes, int rails[VB_RAILS_MAX])
{
    unsigned up = 0, first;
    int all[VB_RAILS_MAX];

    for (int i = 0; i < p->nrails; i++)
        if (!p->rails[i].down && p->rails[i].message.ready)
            all[up++] = i;
    if (!up)
        return 0;
    first = p->turn % up;
    if (bytes <= p->group->endpoint->settings->stripe)
        rails[0] = all[first], up = 1;
    else
        memcpy(rails, all, sizeof all);
    for (unsigned i = 0; i < up; i++)
        if (!vb_queue_room(p, rails[i], &p->rails[rails[i]].message))
            return 0;
    p->turn++;
    return up;
}

static int say_too_long(struct vb_peer *p, int rail, uint32_t chan, struct weft_xfer *x)
{
    struct vb_queue *q = &p->rails[rail].message;
    struct vb_control_long c = {.head = {.magic = VB_CONTROL_MAGIC,
                                         .kind = VB_TOO_LONG,
                                         .chan = (uint8_t)chan,
                                         .number = (uint32_t)x->priv[VB_SEND_NUMBER]},
                                .bytes = x->bytes,
                                .imm = x->imm};
    struct ibv_sge from = {(uint64_t)(uintptr_t)&c, sizeof c, 0};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1, .send_flags = IBV_SEND_INLINE};

    x->priv[VB_SEND_PARTS] = 1;
    if (q->inline_bytes >= sizeof c) /* the send ends with it */
        return vb_queue_post(p, rail, q, &wr, x, VB_DATA) == 0;
    if (!vb_control_send(p, rail, &c, sizeof c))
        return 0;
    vb_message_sent(p, x, WEFT_SUCCESS);
    return 1;
}

int vb_message_write(struct vb_peer *p, uint32_t chan, struct vb_lane *lane, struct weft_xfer *x)
{
    uint32_t place = (uint32_t)x->priv[VB_SEND_NUMBER] % VB_SLOTS;
    const struct vb_slot *slot = &lane->slots[place];
    int rails[VB_RAILS_MAX];
    unsigned parts = choose_rails(p, x->bytes, rails);
    size_t each = parts ? ((x->bytes + parts - 1) / parts + 127) & ~(size_t)127 : 0;

    if (!parts)
        return 0;
    if (x->bytes > slot->bytes)
        return say_too_long(p, rails[0], chan, x);
    for (unsigned i = 0; i < parts; i++) {
        size_t offset = i * each < x->bytes ? i * each : x->bytes;
        size_t bytes = x->bytes - offset < each ? x->bytes - offset : each;
        int err = write_part(p, rails[i], x, slot, offset, bytes, VB_IMM(chan, place, parts, x->imm));
        if (!err)
            continue;
        if (err != ENOMEM || i > 0)
            vb_peer_broken(p, rails[i], "posting fails: %s", strerror(err));
        if (i == 0)
            return 0;
        x->priv[VB_SEND_LOST] = 1; /* it is sent again as a whole, when the parts before have ended */
        break;
    }
    return 1;
}

static void push_lane(struct vb_peer *p, uint32_t chan)
{
    struct vb_lane *lane = p->lanes[chan];

    while (p->open && lane->sends && lane->given >> (lane->sent % VB_SLOTS) & 1) {
        struct weft_xfer *x = lane->sends, *next = x->next;
        lane->sends = next; /* it may end, and be its owner's, inside */
        x->priv[VB_SEND_NUMBER] = lane->sent;
        if (!vb_message_write(p, chan, lane, x)) {
            lane->sends = x;
            vb_blocked(p);
            return;
        }
        if (!next)
            lane->sends_last = &lane->sends;
        lane->given &= (uint8_t) ~(1u << (lane->sent % VB_SLOTS));
        lane->sent++;
    }
}

void vb_message_again(struct vb_peer *p)
{
    for (uint32_t chan = 0; chan < WEFT_CHAN_MAX_LAYERED; chan++) {
        struct vb_lane *lane = p->lanes[chan];
        if (!lane || !lane->advertised)
            continue;
        lane->repeat = 1;
        p->advertise[chan / 64] |= 1ull << (chan % 64);
    }
}

void vb_message_push(struct vb_peer *p)
{
    if (!p->open)
        return;
    vb_rail_push(p);
    if (!p->open)
        return;
    advertise_all(p);
    if (p->say_hello && p->open) {
        struct vb_control hello = {.magic = VB_CONTROL_MAGIC, .kind = VB_SLOTS_GIVEN};
        int rail = vb_rail_up(p);
        if (rail >= 0 && vb_control_send(p, rail, &hello, sizeof hello))
            p->say_hello = 0;
        else
            vb_blocked(p);
    }
    for (uint32_t chan = 0; chan < WEFT_CHAN_MAX_LAYERED && p->open; chan++)
        if (p->lanes[chan] && p->lanes[chan]->sends)
            push_lane(p, chan);
}

void vb_message_sent(struct vb_peer *p, struct weft_xfer *x, weft_status st)
{
    if (st < 0)
        x->priv[VB_SEND_PARTS] = 0;
    else if (--x->priv[VB_SEND_PARTS])
        return;
    if (st >= 0 && x->priv[VB_SEND_LOST]) {
        vb_rail_sent(p, x);
        return;
    }
    if (p->lanes[x->chan])
        p->lanes[x->chan]->nsends--;
    x->state = st;
}

/* ---- What comes ---- */

static void end_recv(struct vb_group *g, struct vb_lane *lane, uint32_t chan, uint32_t place, int state)
{
    struct weft_xfer *x = lane->recvs[place];

    lane->recvs[place] = NULL;
    lane->parts[place] = 0;
    lane->got[place] = 0;
    g->slots_out--;
    g->heads_out -= chan == VB_HEADS;
    x->state = state;
}

/* The number of the receive at a place. */
static uint32_t number_at(const struct vb_lane *lane, uint32_t place)
{
    return lane->posted - 1 - (lane->posted - 1 - place) % VB_SLOTS;
}

/* Is there a receive that the peer was told of? */
static struct vb_lane *met(const struct vb_peer *p, uint32_t chan, uint32_t place)
{
    struct vb_lane *lane = chan < p->group->nchans ? p->lanes[chan] : NULL;

    if (!lane || place >= VB_SLOTS || !lane->recvs[place])
        return NULL;
    return number_at(lane, place) - lane->advertised >= 1u << 31 ? lane : NULL;
}

int vb_message_awaited(const struct vb_peer *p, uint32_t chan, uint32_t number)
{
    struct vb_lane *lane = met(p, chan, number % VB_SLOTS);

    return lane && number_at(lane, number % VB_SLOTS) == number ? (int)(number % VB_SLOTS) : -1;
}

int vb_message_arrived(struct vb_peer *p, uint32_t imm, uint32_t bytes)
{
    uint32_t chan = VB_IMM_CHAN(imm), place = VB_IMM_PLACE(imm);
    struct vb_lane *lane = met(p, chan, place);
    struct weft_xfer *x;

    if (!lane)
        return 0;
    x = lane->recvs[place];
    lane->got[place] += bytes;
    if (lane->got[place] > x->bytes || VB_IMM_PARTS(imm) > (unsigned)p->nrails)
        return 0;
    if (++lane->parts[place] < VB_IMM_PARTS(imm))
        return 1;
    x->actual = lane->got[place];
    x->imm = imm & ((1u << VB_INFO_BITS) - 1);
    end_recv(p->group, lane, chan, place, x->actual < x->bytes && !x->up_to ? WEFT_EMISMATCH : WEFT_SUCCESS);
    return 1;
}

static int take_too_long(struct vb_peer *p, const struct vb_control_long *c)
{
    int place = vb_message_awaited(p, c->head.chan, c->head.number);
    struct vb_lane *lane = place < 0 ? NULL : p->lanes[c->head.chan];
    struct weft_xfer *x = lane ? lane->recvs[place] : NULL;

    if (!x || c->bytes <= x->bytes)
        return 0;
    x->actual = c->bytes;
    x->imm = c->imm & ((1u << VB_INFO_BITS) - 1);
    end_recv(p->group, lane, c->head.chan, (uint32_t)place, WEFT_ETRUNC);
    return 1;
}

/* A slot may come twice, after a rail was lost: the first time it has come, or was used. */
static int take_slot(const struct vb_peer *p, struct vb_lane *lane, uint32_t number, const unsigned char *at)
{
    uint32_t place = number % VB_SLOTS, ahead = number - lane->sent;
    struct vb_slot *slot = &lane->slots[place];

    if (ahead >= VB_SLOTS)
        return ahead >= -VB_SLOTS && p->nrails > 1;
    if (lane->given >> place & 1)
        return p->nrails > 1;
    memcpy(&slot->address, at, 8);
    memcpy(&slot->bytes, at + 8, 4);
    memcpy(slot->rkey, at + 12, 4 * (size_t)p->nrails);
    lane->given |= (uint8_t)(1u << place);
    return 1;
}

static int take_slots(struct vb_peer *p, const struct vb_control *c, const unsigned char *at, size_t bytes)
{
    size_t each = 12 + 4 * (size_t)p->nrails;
    struct vb_lane *lane;

    if (c->chan >= p->group->nchans || c->count > VB_SLOTS || bytes != c->count * each)
        return 0;
    if (!c->count)
        return 1;
    lane = lane_of(p, c->chan);
    if (!lane) {
        vb_peer_fail(p, WEFT_ENOMEM, "there is no memory for a channel with it");
        return 1;
    }
    for (uint32_t i = 0; i < c->count; i++)
        if (!take_slot(p, lane, c->number + i, at + i * each))
            return 0;
    push_lane(p, c->chan);
    return 1;
}

int vb_message_control(struct vb_peer *p, const unsigned char *at, size_t bytes)
{
    struct vb_control c;
    struct vb_control_long too_long;
    struct vb_control_renew renew;

    if (bytes < sizeof c)
        return 0;
    memcpy(&c, at, sizeof c);
    if (c.magic != VB_CONTROL_MAGIC || c.rail >= p->nrails)
        return 0;
    switch (c.kind) {
    case VB_SLOTS_GIVEN:
        return take_slots(p, &c, at + sizeof c, bytes - sizeof c);
    case VB_TOO_LONG:
        if (bytes != sizeof too_long)
            return 0;
        memcpy(&too_long, at, sizeof too_long);
        return take_too_long(p, &too_long);
    case VB_RENEW:
    case VB_RENEWED:
        if (bytes != sizeof renew)
            return 0;
        memcpy(&renew, at, sizeof renew);
        return vb_rma_control(p, &renew);
    case VB_BYE:
        p->rails[c.rail].bye_seen = 1;
        for (int i = 0; i < p->nrails; i++)
            if (!p->rails[i].bye_seen && !p->rails[i].down)
                return 1;
        vb_peer_left(p);
        return 1;
    case VB_RAIL_LOST:
    case VB_HAS_COME:
    case VB_CAME:
    case VB_NOT_COME:
        return bytes == sizeof c && vb_rail_control(p, &c);
    default:
        return 0;
    }
}

/* ---- Posting ---- */

static weft_status check(struct vb_group *g, const struct weft_xfer *x, int send)
{
    struct vb_peer *p = x->peer >= 0 && x->peer < g->nranks ? &g->peers[x->peer] : NULL;
    const struct vb_mem *mem = x->mem;

    if (!p || p->state == VB_ABSENT || x->chan >= g->nchans)
        return VB_EXPLAIN(g->endpoint, WEFT_EINVAL, "verbs: rank %d, channel %u: there is no such channel", x->peer,
                          x->chan);
    if (x->sink || x->bytes > UINT32_MAX / 2)
        return VB_EXPLAIN(g->endpoint, WEFT_EINVAL, "verbs: no sinks, and at most 2 GiB in a message");
    if (g->quiet)
        return VB_EXPLAIN(g->endpoint, WEFT_ECANCELED, "verbs: nothing is posted any more after quiesce");
    if (!vb_covered(mem, x->buf, x->bytes) || (mem && x->bytes && !send && !mem->writable))
        return VB_EXPLAIN(g->endpoint, WEFT_EINVAL, "verbs: the memory of a transfer is not registered for it");
    if (p->state == VB_FAILED)
        return VB_EXPLAIN(g->endpoint, p->status, "%s", p->text);
    if (p->state == VB_LEFT && (send || !x->background))
        return VB_EXPLAIN(g->endpoint, WEFT_EPEER, "rank %d left the communicator", x->peer);
    return WEFT_SUCCESS;
}

weft_status vb_send(void *group, struct weft_xfer *x)
{
    struct vb_group *g = group;
    struct vb_lane *lane;
    struct vb_peer *p;
    weft_status st = check(g, x, 1);

    if (st < 0)
        return st;
    p = &g->peers[x->peer];
    if (x->peer == g->rank)
        return vb_self_post(g, x, 1);
    lane = lane_of(p, x->chan);
    if (!lane)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for a channel with rank %d", x->peer);
    if (lane->nsends >= VB_SLOTS)
        return WEFT_EBUSY;
    st = vb_connect(p);
    if (st < 0)
        return st;
    memset(x->priv, 0, sizeof x->priv);
    x->next = NULL;
    x->state = WEFT_XFER_PENDING;
    *lane->sends_last = x;
    lane->sends_last = &x->next;
    lane->nsends++;
    push_lane(p, x->chan);
    return WEFT_SUCCESS;
}

static void want_to_advertise(struct vb_peer *p, uint32_t chan, const struct vb_lane *lane)
{
    /* A batch of headers. Those that the peer has are at least as many. */
    if (chan == VB_HEADS && lane->advertised && lane->posted - lane->advertised < HEADS_AT_ONCE)
        return;
    p->advertise[chan / 64] |= 1ull << (chan % 64);
    if (p->open)
        advertise_all(p);
}

weft_status vb_recv(void *group, struct weft_xfer *x)
{
    struct vb_group *g = group;
    struct vb_lane *lane;
    struct vb_peer *p;
    weft_status st = check(g, x, 0);

    if (st < 0)
        return st;
    p = &g->peers[x->peer];
    if (x->peer == g->rank)
        return vb_self_post(g, x, 0);
    lane = lane_of(p, x->chan);
    if (!lane)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for a channel with rank %d", x->peer);
    if (lane->recvs[lane->posted % VB_SLOTS])
        return WEFT_EBUSY;
    st = x->background ? WEFT_SUCCESS : vb_connect(p);
    if (st < 0)
        return st;
    x->state = WEFT_XFER_PENDING;
    lane->recvs[lane->posted % VB_SLOTS] = x;
    lane->posted++;
    if (p->state != VB_LEFT)
        want_to_advertise(p, x->chan, lane);
    return WEFT_SUCCESS;
}

/* ---- The end ---- */

static int end_sends(struct weft_xfer *list, weft_status st)
{
    int ended = 0;

    for (struct weft_xfer *x = list, *next; x; x = next) {
        next = x->next;
        ended += !x->background;
        x->state = st;
    }
    return ended;
}

int vb_message_end(struct vb_peer *p, weft_status st, int background_too)
{
    struct vb_group *g = p->group;
    int ended = 0;

    for (uint32_t chan = 0; chan < WEFT_CHAN_MAX_LAYERED; chan++) {
        struct vb_lane *lane = p->lanes[chan];
        if (!lane)
            continue;
        ended += end_sends(lane->sends, st) + end_sends(lane->lost, st);
        lane->lost = NULL;
        lane->sends = NULL;
        lane->sends_last = &lane->sends;
        for (uint32_t place = 0; place < VB_SLOTS; place++) {
            struct weft_xfer *x = lane->recvs[place];
            if (!x || (x->background && !background_too))
                continue;
            if (met(p, chan, place)) {
                g->slots_out--;
                g->heads_out -= chan == VB_HEADS;
            }
            ended += !x->background;
            lane->recvs[place] = NULL;
            x->state = st;
        }
    }
    p->advertise[0] = p->advertise[1] = 0;
    return ended;
}
