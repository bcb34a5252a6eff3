/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of the side channel as its thread sees them: which group a claim is for, which claims are admitted, what has arrived
 * and what has ended. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/side_exchange.h"

#define CLAIM_MAGIC 0x65646973u /* "side": no other handshake of this key has it there */
#define CLAIM_BYTES 44
_Static_assert(CLAIM_BYTES == 28 + sizeof(((struct wi_side_group *)0)->transport), "the name is the claim's end");

/* ---- Claims ---- */

size_t wi_side_claim(const struct wi_side_group *g, int to, unsigned char claim[WEFT_AUTH_CLAIM_MAX])
{
    memset(claim, 0, WEFT_AUTH_CLAIM_MAX);
    memcpy(claim, g->config.comm_id, 16);
    wi_put32(claim + 16, CLAIM_MAGIC);
    wi_put32(claim + 20, (uint32_t)g->config.rank);
    wi_put32(claim + 24, (uint32_t)to);
    memcpy(claim + 28, g->transport, sizeof g->transport);
    return CLAIM_BYTES;
}

struct claim {
    const unsigned char *comm_id, *transport;
    int from, to;
};

static int claim_read(const void *bytes, size_t n, struct claim *claim)
{
    const unsigned char *c = bytes;

    if (n != CLAIM_BYTES || wi_get32(c + 16) != CLAIM_MAGIC)
        return -1;
    *claim = (struct claim){c, c + 28, (int)wi_get32(c + 20), (int)wi_get32(c + 24)};
    return claim->from >= 0 && claim->to >= 0 && claim->from != claim->to ? 0 : -1;
}

static int is_for(const struct wi_side_group *g, const struct claim *claim)
{
    return memcmp(g->config.comm_id, claim->comm_id, sizeof g->config.comm_id) == 0 && g->config.rank == claim->to &&
           claim->from < g->config.nranks;
}

int wi_side_is_for_us(struct wi_side *side, const void *bytes, size_t n)
{
    struct claim claim;
    int found = 0;

    if (claim_read(bytes, n, &claim))
        return 0;
    pthread_mutex_lock(&side->lock);
    for (const struct wi_side_group *g = side->groups; g && !found; g = g->next)
        found = is_for(g, &claim);
    for (unsigned i = 0; i < side->ngone && i < WI_SIDE_GONE && !found; i++)
        found = memcmp(side->gone[i].comm_id, claim.comm_id, sizeof side->gone[i].comm_id) == 0 &&
                side->gone[i].rank == claim.to;
    pthread_mutex_unlock(&side->lock);
    return found;
}

/* ---- With the lock held ---- */

void wi_side_news(struct wi_side_group *g, int change)
{
    uint64_t n = 1;
    int before = atomic_fetch_add_explicit(&g->news, change, memory_order_relaxed);

    if (before == 0 && change > 0)
        (void)!write(g->event_fd, &n, sizeof n);
    else if (before > 0 && before + change == 0)
        (void)!read(g->event_fd, &n, sizeof n);
}

void wi_side_unlink(struct wi_side_exchange *x)
{
    struct wi_side_exchange **at;

    if (!x->group)
        return;
    at = &x->group->incoming;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    if (x->state == WI_SIDE_REQUESTED)
        wi_side_news(x->group, -1);
    x->group = NULL;
}

void wi_side_refuse(struct wi_side_exchange *x, weft_status status, const char *why)
{
    wi_side_unlink(x);
    x->state = WI_SIDE_ENDED;
    x->status = status;
    snprintf(x->why, sizeof x->why, "%s", why);
}

/* ---- Of the thread ---- */

static void admit(struct wi_side_group *g, int from, struct wi_side_exchange *x)
{
    struct wi_side_exchange **at = &g->incoming, *earlier;

    for (earlier = g->incoming; earlier && earlier->peer != from;)
        earlier = earlier->next;
    if (earlier) {
        wi_log(WEFT_LOG_DEBUG, "side.again", "transport %s: rank %d connects again; its earlier connection is closed",
               g->transport, from);
        wi_side_refuse(earlier, WEFT_EPEER, "has a newer request of this rank");
    }
    while (*at)
        at = &(*at)->next;
    *at = x;
    x->group = g;
    x->peer = from;
    x->timeout_ns = g->config.timeout_ns;
}

struct wi_side_exchange *wi_side_admit(struct wi_side *side, const void *bytes, size_t n, const char **why)
{
    struct wi_side_exchange *x = wi_calloc(1, sizeof *x);
    struct wi_side_group *g = NULL;
    struct claim claim;

    *why = x ? "has left, or has no such transport" : "has no memory for a request";
    pthread_mutex_lock(&side->lock);
    if (x && claim_read(bytes, n, &claim) == 0)
        for (g = side->groups; g && (!is_for(g, &claim) || memcmp(g->transport, claim.transport, sizeof g->transport));)
            g = g->next;
    if (g)
        admit(g, claim.from, x);
    pthread_mutex_unlock(&side->lock);
    if (g)
        return x;
    wi_free(x);
    return NULL;
}

int wi_side_deliver(struct wi_side *side, struct wi_side_exchange *x, const void *data, size_t bytes)
{
    int wanted;

    pthread_mutex_lock(&side->lock);
    wanted = x->state == WI_SIDE_OPEN;
    if (wanted) {
        x->bytes = bytes;
        if (bytes)
            memcpy(x->data, data, bytes);
        x->state = WI_SIDE_REQUESTED;
        wi_side_news(x->group, 1);
    }
    pthread_mutex_unlock(&side->lock);
    return wanted ? 0 : -1;
}

void wi_side_end(struct wi_side *side, struct wi_side_exchange *x, weft_status status, const char *why,
                 const void *data, size_t bytes)
{
    int wanted;

    pthread_mutex_lock(&side->lock);
    wanted = x->group != NULL;
    if (wanted) {
        x->status = status;
        snprintf(x->why, sizeof x->why, "%s", why);
        x->bytes = bytes;
        if (bytes)
            memcpy(x->data, data, bytes);
        x->state = WI_SIDE_ENDED;
        wi_side_news(x->group, 1);
    }
    pthread_mutex_unlock(&side->lock);
    if (!wanted)
        wi_free(x);
}

void wi_side_forget(struct wi_side *side, struct wi_side_exchange *x)
{
    pthread_mutex_lock(&side->lock);
    wi_side_unlink(x);
    pthread_mutex_unlock(&side->lock);
    wi_free(x);
}
