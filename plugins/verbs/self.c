/* self.c: messages of a rank to itself, without a card.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

struct vb_self {
    /* Of a channel: sends, or receives, that have not met the other. */
    struct {
        struct weft_xfer *first, **last;
        unsigned count;
        int sends;
    } chans[WEFT_CHAN_MAX_LAYERED];
};

static void deliver(const struct weft_xfer *send, struct weft_xfer *recv)
{
    int state = WEFT_SUCCESS;

    recv->actual = send->bytes;
    recv->imm = send->imm & ((1u << VB_INFO_BITS) - 1);
    if (send->bytes > recv->bytes)
        state = WEFT_ETRUNC;
    else if (send->bytes < recv->bytes && !recv->up_to)
        state = WEFT_EMISMATCH;
    else if (send->bytes)
        memmove(recv->buf, send->buf, send->bytes);
    recv->state = state;
}

weft_status vb_self_post(struct vb_group *g, struct weft_xfer *x, int send)
{
    struct weft_xfer *other;

    if (!g->self)
        g->self = calloc(1, sizeof *g->self);
    if (!g->self)
        return VB_EXPLAIN(g->endpoint, WEFT_ENOMEM, "verbs: no memory for messages to oneself");
    other = g->self->chans[x->chan].first;
    if (other && g->self->chans[x->chan].sends != send) {
        g->self->chans[x->chan].first = other->next;
        g->self->chans[x->chan].count--;
        deliver(send ? x : other, send ? other : x);
        (send ? x : other)->state = WEFT_SUCCESS;
        return WEFT_SUCCESS;
    }
    if (g->self->chans[x->chan].count >= VB_SLOTS)
        return WEFT_EBUSY;
    if (!other)
        g->self->chans[x->chan].last = &g->self->chans[x->chan].first;
    x->state = WEFT_XFER_PENDING;
    x->next = NULL;
    *g->self->chans[x->chan].last = x;
    g->self->chans[x->chan].last = &x->next;
    g->self->chans[x->chan].sends = send;
    g->self->chans[x->chan].count++;
    return WEFT_SUCCESS;
}

void vb_self_end(struct vb_group *g, weft_status st)
{
    for (int i = 0; g->self && i < WEFT_CHAN_MAX_LAYERED; i++)
        for (struct weft_xfer *x = g->self->chans[i].first, *next; x; x = next) {
            next = x->next;
            x->state = st;
        }
    free(g->self);
    g->self = NULL;
}
