/* self.c: messages of a rank to itself: matched in order per channel, copied once, no socket.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#include <string.h>

/* Take the oldest transfer on `chan` out of a list. */
static struct weft_xfer *take(struct weft_xfer **list, struct weft_xfer ***end, uint32_t chan)
{
    for (struct weft_xfer **at = list; *at; at = &(*at)->next) {
        struct weft_xfer *x = *at;
        if (x->chan != chan)
            continue;
        *at = x->next;
        if (*end == &x->next)
            *end = at;
        return x;
    }
    return NULL;
}

static void put(struct weft_xfer ***end, struct weft_xfer *x)
{
    x->next = NULL;
    x->state = WEFT_XFER_PENDING;
    **end = x;
    *end = &x->next;
}

static void transfer(struct weft_xfer *s, struct weft_xfer *r)
{
    s->state = WEFT_SUCCESS;
    r->actual = s->bytes;
    if (!wi_tcp_info_equal(&s->info, &r->info) || (s->bytes < r->bytes && !r->up_to)) {
        r->peer_info = s->info;
        r->state = WEFT_EMISMATCH;
    } else if (s->bytes > r->bytes) {
        r->state = WEFT_ETRUNC;
    } else {
        if (r->sink && s->bytes)
            r->sink(r, 0, s->buf, s->bytes);
        else if (s->bytes && s->buf != r->buf)
            memmove(r->buf, s->buf, s->bytes);
        r->state = WEFT_SUCCESS;
    }
}

void wi_tcp_self_send(struct wi_tcp_group *g, struct weft_xfer *x)
{
    put(&g->self_sends_end, x);
}

void wi_tcp_self_recv(struct wi_tcp_group *g, struct weft_xfer *x)
{
    put(&g->self_recvs_end, x);
}

const struct weft_xfer *wi_tcp_self_peek(const struct wi_tcp_group *g, uint32_t chan)
{
    const struct weft_xfer *x;

    for (x = g->self_recvs; x; x = x->next)
        if (x->chan == chan)
            return NULL;
    for (x = g->self_sends; x && x->chan != chan; x = x->next)
        ;
    return x;
}

int wi_tcp_self_progress(struct wi_tcp_group *g)
{
    int events = 0;
    for (struct weft_xfer **at = &g->self_recvs; *at;) {
        struct weft_xfer *r = *at, *s = take(&g->self_sends, &g->self_sends_end, r->chan);
        if (!s) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        if (g->self_recvs_end == &r->next)
            g->self_recvs_end = at;
        transfer(s, r);
        events++;
    }
    return events;
}
