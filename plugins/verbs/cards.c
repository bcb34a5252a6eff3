/* cards.c: what a group has on each port: completion queue, shared receive queue, buffers of control messages.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives: a slot that a peer knows can be written on any rail, so that as many receive requests as slots are posted on each, and
 * some for control messages. A peer that finds none is held by its card (RNR) until there is one again.
 * Completions: those of all receive requests, and of as many sends as sends_out may count, fit into the queue, so that it cannot
 * overrun, even when every connection breaks at once and each request ends with an error.
 */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SLOTS 256u  /* for what is no header: of all peers */
#define SPARE_RECEIVES 8u /* for control messages of each peer that is connected, and of all */
#define BUFFERS 64u       /* control messages that are sent and do not fit into a request */
#define RECEIVE_FLAG (1ull << 63)

/* ---- Sizes ---- */

static uint32_t count_members(const struct vb_group *g)
{
    uint32_t n = 0;

    for (int r = 0; r < g->nranks; r++)
        n += g->peers[r].state != VB_ABSENT && r != g->rank;
    return n;
}

static weft_status choose_sizes(struct vb_group *g, struct vb_card *card, const struct vb_port *port)
{
    uint64_t members = count_members(g), depth = (uint64_t)g->endpoint->settings->depth + VB_RMA_DEPTH;
    uint64_t wanted = members * (VB_SLOTS + SPARE_RECEIVES) + CHUNK_SLOTS + SPARE_RECEIVES;
    uint64_t least = members * VB_SLOTS + CHUNK_SLOTS / 4;

    card->srq_size = wanted < port->max_srq_wr ? (uint32_t)wanted : port->max_srq_wr;
    wanted = card->srq_size + members * depth + depth;
    card->cq_size = wanted < port->max_cqe ? (uint32_t)wanted : port->max_cqe;
    if (card->srq_size > card->cq_size / 2)
        card->srq_size = card->cq_size / 2;
    if (card->srq_size < least)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOTSUP,
                          "verbs: %s has room for %u receive requests; %u ranks in one communicator need %llu",
                          port->name, card->srq_size, (unsigned)members + 1, (unsigned long long)least);
    g->reserved_slots = (uint32_t)(members * VB_SLOTS);
    return WEFT_SUCCESS;
}

/* ---- Numbers of queue pairs ---- */

static uint32_t hash(const struct vb_card *card, uint32_t number)
{
    return (number * 2654435769u >> 7) & (card->hash_size - 1);
}

void vb_card_number_add(struct vb_card *card, uint32_t number, int rank)
{
    uint32_t i = hash(card, number);

    while (card->by_number[i])
        i = (i + 1) & (card->hash_size - 1);
    card->by_number[i] = (uint64_t)number << 32 | ((uint32_t)rank + 1);
}

int vb_card_number_find(const struct vb_card *card, uint32_t number)
{
    for (uint32_t i = hash(card, number); card->by_number[i]; i = (i + 1) & (card->hash_size - 1))
        if (card->by_number[i] >> 32 == number)
            return (int)(uint32_t)card->by_number[i] - 1;
    return -1;
}

/* Those behind it in a chain move up. */
void vb_card_number_remove(struct vb_card *card, uint32_t number)
{
    uint32_t mask = card->hash_size - 1, i = hash(card, number);

    while (card->by_number[i] && card->by_number[i] >> 32 != number)
        i = (i + 1) & mask;
    if (!card->by_number[i])
        return;
    card->by_number[i] = 0;
    for (i = (i + 1) & mask; card->by_number[i]; i = (i + 1) & mask) {
        uint64_t moved = card->by_number[i];
        card->by_number[i] = 0;
        vb_card_number_add(card, (uint32_t)(moved >> 32), (int)(uint32_t)moved - 1);
    }
}

/* ---- Life ---- */

static weft_status no(struct vb_group *g, const char *what, const struct vb_port *port)
{
    weft_status st = errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_ENOMEM;

    return VB_EXPLAIN(g->endpoint, st, "verbs: no %s on %s: %s", what, port->name, strerror(errno));
}

static weft_status open_memory(struct vb_group *g, struct vb_card *card, const struct vb_port *port)
{
    size_t bytes = ((size_t)card->srq_size + BUFFERS) * VB_CONTROL_MAX;

    card->memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    card->free_receives = calloc(card->srq_size, sizeof *card->free_receives);
    card->buffers = calloc(BUFFERS, sizeof *card->buffers);
    card->by_number = calloc(card->hash_size, sizeof *card->by_number);
    if (!card->memory || !card->free_receives || !card->buffers || !card->by_number)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for a communicator");
    memset(card->memory, 0, bytes);
    card->mr = ibv_reg_mr(port->pd, card->memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!card->mr) {
        vb_explain_register(g->endpoint, errno, bytes, port->name);
        return WEFT_ENOMEM;
    }
    for (uint32_t i = 0; i < card->srq_size; i++)
        card->free_receives[card->nfree++] = i;
    for (uint32_t i = 0; i < BUFFERS; i++) {
        card->buffers[i].at = card->memory + ((size_t)card->srq_size + i) * VB_CONTROL_MAX;
        card->buffers[i].next = card->free_buffers;
        card->free_buffers = &card->buffers[i];
    }
    return WEFT_SUCCESS;
}

static weft_status open_card(struct vb_group *g, struct vb_card *card, const struct vb_port *port)
{
    struct ibv_srq_init_attr srq = {0};
    weft_status st = choose_sizes(g, card, port);

    if (st < 0)
        return st;
    card->hash_size = 64;
    while (card->hash_size < 4 * count_members(g))
        card->hash_size *= 2;
    card->channel = ibv_create_comp_channel(port->context);
    if (!card->channel)
        return no(g, "completion channel", port);
    vb_fork_keep(card->channel->fd);
    fcntl(card->channel->fd, F_SETFL, fcntl(card->channel->fd, F_GETFL) | O_NONBLOCK);
    card->cq = ibv_create_cq(port->context, (int)card->cq_size, NULL, card->channel, 0);
    if (!card->cq)
        return no(g, "completion queue", port);
    srq.attr.max_wr = card->srq_size;
    srq.attr.max_sge = 1;
    card->srq = ibv_create_srq(port->pd, &srq);
    if (!card->srq)
        return no(g, "shared receive queue", port);
    return open_memory(g, card, port);
}

weft_status vb_cards_open(struct vb_group *g)
{
    for (int i = 0; i < g->nports; i++) {
        weft_status st = open_card(g, &g->cards[i], &g->endpoint->ports[i]);
        if (st < 0)
            return st;
    }
    return WEFT_SUCCESS;
}

/* All queue pairs are destroyed. */
void vb_cards_close(struct vb_group *g)
{
    for (int i = 0; i < g->nports; i++) {
        struct vb_card *card = &g->cards[i];
        if (card->srq)
            ibv_destroy_srq(card->srq);
        if (card->cq)
            ibv_destroy_cq(card->cq);
        if (card->channel) {
            vb_fork_forget(card->channel->fd);
            ibv_destroy_comp_channel(card->channel);
        }
        if (card->mr)
            ibv_dereg_mr(card->mr);
        free(card->memory);
        free(card->free_receives);
        free(card->buffers);
        free(card->by_number);
    }
}

/* ---- Buffers ---- */

unsigned char *vb_card_receive(struct vb_card *card, uint32_t i)
{
    return card->memory + (size_t)i * VB_CONTROL_MAX;
}

void vb_card_receives(struct vb_group *g, int rail)
{
    struct vb_card *card = &g->cards[rail];
    uint32_t wanted = g->slots_out + (g->nconnected + 1) * SPARE_RECEIVES;

    while (card->nfree && card->srq_posted < wanted) {
        uint32_t i = card->free_receives[card->nfree - 1];
        struct ibv_sge to = {(uint64_t)(uintptr_t)vb_card_receive(card, i), VB_CONTROL_MAX, card->mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = RECEIVE_FLAG | i, .sg_list = &to, .num_sge = 1}, *bad;
        if (ibv_post_srq_recv(card->srq, &wr, &bad))
            return;
        card->nfree--;
        card->srq_posted++;
    }
}

struct vb_buffer *vb_card_buffer(struct vb_group *g, int rail)
{
    struct vb_buffer *b = g->cards[rail].free_buffers;

    if (b)
        g->cards[rail].free_buffers = b->next;
    return b;
}

void vb_card_buffer_put(struct vb_group *g, int rail, struct vb_buffer *b)
{
    b->next = g->cards[rail].free_buffers;
    g->cards[rail].free_buffers = b;
}
