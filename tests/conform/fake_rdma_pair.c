/* fake_rdma_pair.c: how two ranks of the fake card connect.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fake_rdma.h"

#include <stdio.h>
#include <string.h>

/* What two ranks must know of each other: as a card's queue pairs do. */
struct pair {
    uint32_t magic, rank;
    uint64_t endpoint;
};
#define PAIR_MAGIC 0x70616972u

static struct pair pair_of(const struct group *g)
{
    return (struct pair){PAIR_MAGIC, (uint32_t)g->rank, g->endpoint->id};
}

/* With the lock held. A rank that is to respond badly does not request. */
void fake_want_connection(struct group *g, int peer)
{
    struct pair mine = pair_of(g);

    if (strcmp(g->endpoint->settings->side, "good") == 0 && g->link[peer] == UNCONNECTED &&
        g->endpoint->host->side_request(g->side, peer, &mine, sizeof mine) >= 0)
        g->link[peer] = REQUESTED;
}

static void respond_to(struct group *g, int peer)
{
    const char *how = g->endpoint->settings->side;
    struct pair mine = pair_of(g);
    unsigned char large[WEFT_SIDE_MAX] = {0};

    if (strcmp(how, "wrong") == 0)
        mine.magic++;
    if (strcmp(how, "large") == 0)
        g->endpoint->host->side_respond(g->side, peer, large, sizeof large);
    else
        g->endpoint->host->side_respond(g->side, peer, &mine, sizeof mine);
}

static int is_pair(const struct pair *p, size_t bytes, int peer)
{
    return bytes == sizeof *p && p->magic == PAIR_MAGIC && p->rank == (uint32_t)peer;
}

int fake_respond(struct group *g)
{
    struct pair theirs;
    int peer, events = 0;
    size_t bytes;

    while (strcmp(g->endpoint->settings->side, "silent") != 0 &&
           g->endpoint->host->side_requested(g->side, &peer, &theirs, sizeof theirs, &bytes)) {
        if (is_pair(&theirs, bytes, peer)) {
            respond_to(g, peer);
            if (g->link[peer] == UNCONNECTED)
                g->link[peer] = CONNECTED;
        }
        events++;
    }
    return events;
}

int fake_connected(const struct group *g, const struct group *peer)
{
    return g->link[peer->rank] == CONNECTED && peer->link[g->rank] == CONNECTED;
}

/* What was requested of a peer: has it responded? */
int fake_take_response(struct group *g, int peer, struct weft_peer_failure *failure)
{
    char why[WEFT_SIDE_WHY_MAX];
    struct pair theirs;
    size_t bytes = 0;
    weft_status st;

    if (g->link[peer] != REQUESTED)
        return 0;
    st = g->endpoint->host->side_response(g->side, peer, &theirs, sizeof theirs, &bytes, why);
    if (st == WEFT_INPROGRESS)
        return 0;
    if (st >= 0 && is_pair(&theirs, bytes, peer)) {
        g->link[peer] = CONNECTED;
        return 1;
    }
    if (st >= 0) {
        st = WEFT_EPROTO;
        snprintf(why, sizeof why, "rank %d has responded to fakerdma with something else than a pair", peer);
    }
    fake_give_up(g, peer, st, 1, failure);
    snprintf(failure->text, sizeof failure->text, "%s", why);
    return st;
}
