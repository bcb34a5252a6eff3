/* group.c: the group: how it begins, how it ends, and what is known of its peers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define LINGER_NS 1000000000ull /* that good-byes, and what was sent before them, have to arrive */

/* ---- Life ---- */

static void group_free(struct vb_group *g)
{
    for (int r = 0; g->peers && r < g->nranks; r++)
        for (int i = 0; i < WEFT_CHAN_MAX_LAYERED; i++)
            free(g->peers[r].lanes[i]);
    vb_rma_forget_all(g);
    if (g->epoll_fd >= 0)
        g->endpoint->host->fd_close(g->epoll_fd);
    vb_cards_close(g);
    free(g->peers);
    free(g);
}

static weft_status make_peers(struct vb_group *g, const struct weft_group_config *c)
{
    for (int r = 0; r < g->nranks; r++) {
        struct vb_peer *p = &g->peers[r];
        p->group = g;
        p->rank = r;
        p->rmas_last = &p->rmas;
        if (!c->member[r])
            continue;
        if (c->address_bytes[r] != sizeof p->address)
            return VB_EXPLAIN(g->endpoint, WEFT_EPROTO, "verbs: the address of rank %d is none", r);
        memcpy(&p->address, c->addresses[r], sizeof p->address);
        if (p->address.magic != VB_ADDRESS_MAGIC || !p->address.nports || p->address.nports > VB_RAILS_MAX)
            return VB_EXPLAIN(g->endpoint, WEFT_EPROTO, "verbs: the address of rank %d is none", r);
        while (p->nrails < g->nports && p->nrails < p->address.nports &&
               vb_port_reaches(&g->endpoint->ports[p->nrails], &p->address.ports[p->nrails]))
            p->nrails++;
        if (!p->nrails)
            return VB_EXPLAIN(g->endpoint, WEFT_EPROTO, "verbs: rank %d cannot be reached", r);
        p->state = VB_IDLE;
    }
    return WEFT_SUCCESS;
}

static int poll_add(const struct vb_group *g, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static weft_status make_epoll(struct vb_group *g)
{
    int bad;

    g->epoll_fd = g->endpoint->host->fd_keep(epoll_create1(EPOLL_CLOEXEC));
    bad = g->epoll_fd < 0 || poll_add(g, g->endpoint->host->side_fd(g->side));
    for (int i = 0; i < g->nports && !bad; i++)
        bad = poll_add(g, g->cards[i].channel->fd) || poll_add(g, g->endpoint->ports[i].context->async_fd);
    return bad ? VB_EXPLAIN(g->endpoint, errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_ESYS,
                            "verbs: no descriptor to wait with: %s", strerror(errno))
               : WEFT_SUCCESS;
}

weft_status vb_group_create(void *endpoint, const struct weft_group_config *c, void **group)
{
    struct vb_endpoint *e = endpoint;
    struct vb_group *g;
    weft_status st;

    if (c->bytes < offsetof(struct weft_group_config, side) + sizeof c->side || !c->side)
        return VB_EXPLAIN(e, WEFT_ENOTSUP, "verbs: there is no side channel to connect by");
    g = calloc(1, sizeof *g);
    if (!g)
        return VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: no memory for a communicator");
    g->endpoint = e;
    g->side = c->side;
    g->rank = c->rank;
    g->nranks = c->nranks;
    g->nports = e->nports;
    g->nchans = c->nchans < WEFT_CHAN_MAX_LAYERED ? c->nchans : WEFT_CHAN_MAX_LAYERED;
    g->epoll_fd = -1;
    memcpy(g->comm_id, c->comm_id, sizeof g->comm_id);
    g->peers = calloc((size_t)c->nranks, sizeof *g->peers);
    st = g->peers ? make_peers(g, c) : VB_EXPLAIN(e, WEFT_ENOMEM, "verbs: no memory for %d ranks", c->nranks);
    if (st >= 0)
        st = vb_cards_open(g);
    if (st >= 0)
        st = make_epoll(g);
    if (st < 0) {
        group_free(g);
        return st;
    }
    *group = g;
    return WEFT_SUCCESS;
}

/* ---- The end ---- */

/* 1: it has been told, or need not be. */
static int told(struct vb_peer *p)
{
    int all = 1;

    for (int i = 0; p->state == VB_CONNECTED && !p->broken_ns && p->rails && i < p->nrails; i++) {
        struct vb_rail *rail = &p->rails[i];
        struct vb_control bye = {.magic = VB_CONTROL_MAGIC, .kind = VB_BYE, .rail = (uint8_t)i};
        struct ibv_sge from = {(uint64_t)(uintptr_t)&bye, sizeof bye, 0};
        struct ibv_send_wr wr = {
            .opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1, .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
        struct vb_queue *q = &rail->message;
        if (rail->down || !rail->message.ready)
            continue;
        if (!rail->bye_sent && q->posted - q->done < q->depth - 1) { /* the last place is its */
            if (q->inline_bytes < sizeof bye)
                rail->bye_sent = vb_control_send(p, i, &bye, sizeof bye);
            else
                rail->bye_sent = vb_queue_post(p, i, q, &wr, NULL, VB_NOTHING) == 0;
        }
        all = all && rail->bye_sent && q->done == q->posted;
    }
    return all;
}

static void say_goodbye(struct vb_group *g)
{
    uint64_t until = g->endpoint->host->now_ns() + LINGER_NS;
    int all;

    do {
        all = 1;
        vb_poll(g);
        vb_connect_responses(g);
        vb_push_blocked(g);
        for (int r = 0; r < g->nranks; r++)
            all = told(&g->peers[r]) && all;
    } while (!all && g->endpoint->host->now_ns() < until);
}

static void end_all(struct vb_group *g, weft_status st)
{
    for (int r = 0; r < g->nranks; r++) {
        struct vb_peer *p = &g->peers[r];
        p->status = st;
        vb_disconnect(p);
        vb_message_end(p, st, 1);
        vb_rma_end(p, st);
    }
    vb_self_end(g, st);
}

weft_status vb_quiesce(void *group, uint64_t deadline_ns)
{
    struct vb_group *g = group;

    (void)deadline_ns; /* destroying queue pairs takes no time that others have a say in */
    end_all(g, WEFT_ECANCELED);
    g->quiet = 1;
    return WEFT_SUCCESS;
}

/* What is pending is its owner's to forget: nothing of it is written to here, where it may be gone already. */
static void forget_all(struct vb_group *g)
{
    for (int r = 0; r < g->nranks; r++)
        for (int i = 0; g->peers[r].rails && i < g->peers[r].nrails; i++) {
            struct vb_rail *rail = &g->peers[r].rails[i];
            for (struct vb_queue *q = &rail->message;; q = &rail->rma) {
                for (uint32_t n = 0; q->ring && n < q->depth; n++)
                    q->ring[n].what = q->ring[n].what == VB_CONTROL ? VB_CONTROL : VB_NOTHING;
                if (q == &rail->rma)
                    break;
            }
        }
    for (int r = 0; r < g->nranks; r++)
        vb_disconnect(&g->peers[r]);
    free(g->self);
}

void vb_group_destroy(void *group, int aborted)
{
    struct vb_group *g = group;

    if (!aborted && !g->quiet)
        say_goodbye(g);
    forget_all(g);
    group_free(g);
}

/* ---- Of peers ---- */

int vb_left(void *group, int peer)
{
    const struct vb_group *g = group;

    return peer >= 0 && peer < g->nranks && g->peers[peer].state == VB_LEFT;
}

void vb_begin_to_connect(void *group, int peer)
{
    struct vb_group *g = group;

    if (peer >= 0 && peer < g->nranks && vb_connect(&g->peers[peer]) < 0)
        vb_peer_fail(&g->peers[peer], WEFT_EPEER, "no connection could be made with it");
}

int vb_poll_fd(void *group)
{
    return ((struct vb_group *)group)->epoll_fd;
}

static const char *doing(const struct vb_peer *p)
{
    const struct weft_host *host = p->group->endpoint->host;

    switch (WEFT_HOST_HAS(host, process_state) ? host->process_state(&p->address.process) : '?') {
    case 0:
        return " has ended";
    case 'T':
        return " is stopped";
    case 't':
        return " is stopped by a debugger";
    default:
        return "";
    }
}

size_t vb_describe(void *group, int peer, char *text, size_t capacity)
{
    static const char *const states[] = {"not served", "not connected", "connection data requested",
                                         "connected",  "left",          "failed"};
    struct vb_group *g = group;
    const struct vb_peer *p = peer >= 0 && peer < g->nranks ? &g->peers[peer] : NULL;
    int n;

    if (!p || !capacity)
        return 0;
    n = snprintf(text, capacity, "verbs %s: %s, process %d%s", g->endpoint->ports[0].name, states[p->state],
                 (int)p->address.process.pid, doing(p));
    return n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}
