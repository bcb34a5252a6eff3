/* fake_rdma_get.c: gets and puts of the fake card.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fake_rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct key {
    uint64_t endpoint, id;
    uint64_t at, bytes;
};

struct imported {
    struct imported *next, **link; /* of the group, which frees what is left */
    struct key key;
    int peer;
};

weft_status fake_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    struct endpoint *e = endpoint;
    struct reg *reg = mem;
    struct key k = {e->id, reg->id, (uint64_t)(uintptr_t)reg->at, reg->bytes};

    if (capacity < sizeof k)
        return fake_refuse(e, WEFT_EINVAL, "no room for a key");
    memcpy(key, &k, sizeof k);
    *bytes = sizeof k;
    return WEFT_SUCCESS;
}

static int is_member(const struct group *g, int peer)
{
    return peer >= 0 && peer < g->nranks && g->member[peer];
}

weft_status fake_import(void *group, int peer, const void *key, size_t bytes, void **remote)
{
    struct group *g = group;
    struct imported *i;

    if (!is_member(g, peer))
        return fake_refuse(g->endpoint, WEFT_EINVAL, "a key of a rank that is no member");
    if (bytes != sizeof i->key)
        return fake_refuse(g->endpoint, WEFT_EPROTO, "a key of another length");
    i = malloc(sizeof *i);
    if (!i)
        return fake_refuse(g->endpoint, WEFT_ENOMEM, "no memory for a key");
    memcpy(&i->key, key, sizeof i->key);
    i->peer = peer;
    i->next = g->imports;
    i->link = &g->imports;
    if (i->next)
        i->next->link = &i->next;
    g->imports = i;
    *remote = i;
    return WEFT_SUCCESS;
}

void fake_forget(void *group, void *remote)
{
    struct imported *i = remote;

    (void)group;
    *i->link = i->next;
    if (i->next)
        i->next->link = i->link;
    free(i);
}

void fake_forget_all(struct group *g)
{
    while (g->imports)
        fake_forget(g, g->imports);
}

static int within(uint64_t at, uint64_t bytes, uint64_t from, uint64_t length)
{
    return at >= from && bytes <= length && at - from <= length - bytes;
}

/* With the lock held. */
static weft_status take_rma(struct group *g, struct weft_rma *r, int get)
{
    struct endpoint *e = g->endpoint;
    unsigned count = 0;

    if (g->quiet)
        return fake_refuse(e, WEFT_EINVAL, "a get or put is posted after quiesce");
    if (!fake_covered(e, r->mem, r->local, r->bytes))
        return fake_refuse(e, WEFT_EINVAL, "the memory of a get or put is not registered");
    if (g->hub->state[r->peer] == LEFT || g->hub->state[r->peer] == ABORTED)
        return fake_refuse(e, WEFT_EPEER, "the peer has left");
    for (const struct weft_rma *other = g->rmas; other; other = other->next)
        count += other->peer == r->peer;
    if (count >= (unsigned)e->settings->posts)
        return WEFT_EBUSY;
    fake_want_connection(g, r->peer);
    memset(r->priv, 0, sizeof r->priv);
    r->priv[PRIV_GET] = (uint64_t)get;
    r->priv[PRIV_DELAY] = fake_draw(e, (uint32_t)e->settings->late + 1) + 1;
    r->state = WEFT_XFER_PENDING;
    r->next = g->rmas;
    g->rmas = r;
    return WEFT_SUCCESS;
}

static weft_status post_rma(struct group *g, struct weft_rma *r, int get)
{
    const struct imported *i = r->remote;
    weft_status st;

    if (!is_member(g, r->peer) || i->peer != r->peer)
        return fake_refuse(g->endpoint, WEFT_EINVAL, "the key is not that rank's");
    if (!within(r->remote_address, r->bytes, i->key.at, i->key.bytes))
        return fake_refuse(g->endpoint, WEFT_EINVAL, "outside of the imported memory");
    pthread_mutex_lock(&fake_card);
    st = take_rma(g, r, get);
    pthread_mutex_unlock(&fake_card);
    return st;
}

weft_status fake_get(void *group, struct weft_rma *r)
{
    return post_rma(group, r, 1);
}

weft_status fake_put(void *group, struct weft_rma *r)
{
    return post_rma(group, r, 0);
}

/* What a key says is believed only as far as the card knows it itself. */
static int key_holds(const struct key *k, uint64_t at, uint64_t bytes)
{
    for (const struct endpoint *e = fake_endpoints; e; e = e->next)
        for (const struct reg *reg = e->id == k->endpoint ? e->regs : NULL; reg; reg = reg->next)
            if (reg->id == k->id)
                return reg->alive && within(at, bytes, (uint64_t)(uintptr_t)reg->at, reg->bytes);
    return 0;
}

static int carry_out(struct group *g, const struct group *peer, struct weft_rma *r)
{
    const struct imported *i = r->remote;
    void *far = (void *)(uintptr_t)r->remote_address;
    char why[96];

    if (!fake_covered(g->endpoint, r->mem, r->local, r->bytes))
        return fake_refuse(g->endpoint, WEFT_EINTERNAL, "memory is deregistered under a get or put");
    if (i->key.endpoint != peer->endpoint->id) {
        snprintf(why, sizeof why, "the key is not rank %d's", r->peer);
        return fake_refuse(g->endpoint, WEFT_EINVAL, why);
    }
    if (!key_holds(&i->key, r->remote_address, r->bytes)) {
        snprintf(why, sizeof why, "rank %d does not give that memory, or has taken it back", r->peer);
        return fake_refuse(g->endpoint, WEFT_EPROTO, why);
    }
    if (r->bytes)
        memcpy(r->priv[PRIV_GET] ? r->local : far, r->priv[PRIV_GET] ? far : r->local, r->bytes);
    return WEFT_SUCCESS;
}

int fake_move_rmas(struct group *g)
{
    struct weft_rma **at = &g->rmas, *r;
    int events = 0;

    while ((r = *at) != NULL) {
        const struct group *peer = g->hub->groups[r->peer];
        int gone = g->hub->state[r->peer] == LEFT || g->hub->state[r->peer] == ABORTED;
        if (!gone && (!peer || peer->quiet || !fake_connected(g, peer) || --r->priv[PRIV_DELAY])) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->state = gone ? WEFT_EPEER : carry_out(g, peer, r);
        events++;
    }
    return events;
}

void fake_end_rmas(struct group *g, int peer, int status)
{
    for (struct weft_rma **at = &g->rmas, *r; (r = *at) != NULL;) {
        if (r->peer != peer) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        r->state = status;
    }
}
