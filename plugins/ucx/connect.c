/* connect.c: how two ranks connect, over the side channel, and how each hears of the other's end there.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one that first has something for the other requests (CONNECT); both then know each other's worker and token. Where the kernel
 * does not tell of a death, both leave a request open (WATCH) that nobody responds to: it ends when the process does.
 */
#include "ucx.h"

#include <stdio.h>
#include <string.h>

struct letter {
    struct wu_hello hello;
    unsigned char address[WU_ADDRESS_MAX];
};

static size_t write_letter(const struct wu_peer *p, enum wu_hello_kind kind, struct letter *letter)
{
    const struct wu_endpoint *e = p->group->endpoint;

    letter->hello = (struct wu_hello){.magic = WU_MAGIC,
                                      .version = WU_VERSION,
                                      .kind = (uint8_t)kind,
                                      .shared_memory = (uint8_t)e->shared_memory,
                                      .token = p->token,
                                      .address_bytes = kind == WU_CONNECT ? (uint32_t)e->address_bytes : 0};
    memcpy(letter->hello.uid, e->me.uid, sizeof letter->hello.uid);
    memcpy(letter->address, e->address, letter->hello.address_bytes);
    return sizeof letter->hello + letter->hello.address_bytes;
}

/* NULL: it is one of that rank's. */
static const char *judge(const struct wu_group *g, int rank, const struct letter *letter, size_t bytes)
{
    const struct wu_hello *h = &letter->hello;

    if (bytes < sizeof *h || h->magic != WU_MAGIC || h->version != WU_VERSION)
        return "it is none of this version";
    if (h->kind != WU_CONNECT && h->kind != WU_WATCH)
        return "its kind";
    if (h->address_bytes != bytes - sizeof *h || (h->kind == WU_CONNECT && !h->address_bytes))
        return "its length";
    if (memcmp(h->uid, g->uids[rank], sizeof h->uid) != 0)
        return "it is another process's";
    return NULL;
}

static void ask(struct wu_peer *p, enum wu_hello_kind kind)
{
    struct wu_group *g = p->group;
    struct letter letter;
    size_t bytes = write_letter(p, kind, &letter);
    weft_status st;

    if (g->quiet) /* it ends */
        return;
    st = g->endpoint->host->side_request(g->side, p->rank, &letter, bytes);
    if (st < 0) {
        wu_peer_fail(p, st, "the side channel does not take a request (%zu bytes)", bytes);
        return;
    }
    p->watching = kind == WU_WATCH;
    g->connecting |= kind == WU_CONNECT;
    p->asking = 1;
    p->next_asking = g->asking;
    g->asking = p;
}

void wu_connect(struct wu_peer *p)
{
    if (p->state != WU_UNCONNECTED)
        return;
    p->state = WU_REQUESTED;
    ask(p, WU_CONNECT);
}

static void connected(struct wu_peer *p, const struct letter *letter)
{
    struct wu_group *g = p->group;
    weft_status st = WEFT_SUCCESS;

    if (p->state == WU_CONNECTED || p->state == WU_FAILED)
        return;
    p->link = wu_link_get(g->endpoint, &letter->hello, &g->processes[p->rank], letter->address, &st);
    if (!p->link) {
        wu_peer_fail(p, st, "UCX cannot connect to it");
        return;
    }
    p->their_token = letter->hello.token;
    p->state = WU_CONNECTED;
    wu_send_step(p);
}

/* ---- Requests of others ---- */

static void requested(struct wu_group *g, int rank, const struct letter *letter, size_t bytes)
{
    const struct weft_host *host = g->endpoint->host;
    const char *wrong;
    struct wu_peer *p;
    struct letter mine;

    if (wu_peer_get(g, rank, &p) < 0)
        return;
    wrong = judge(g, rank, letter, bytes);
    if (wrong) {
        wu_peer_fail(p, WEFT_EPROTO, "it wants to connect with a malformed hello: %s", wrong);
        return;
    }
    if (letter->hello.kind == WU_WATCH || p->state == WU_FAILED)
        return;
    host->side_respond(g->side, rank, &mine, write_letter(p, WU_CONNECT, &mine));
    connected(p, letter);
    if (p->link && !p->link->watched && !p->asking)
        ask(p, WU_WATCH);
}

/* ---- Responses ---- */

static void gone(struct wu_peer *p, const char *why)
{
    if (p->state == WU_CONNECTED) { /* its last messages may still be on their way */
        p->gone_ns = p->group->endpoint->host->now_ns();
        p->group->ngone++;
        snprintf(p->text, sizeof p->text, "%s", why);
    } else {
        wu_peer_fail(p, WEFT_EPEER, "%s", why);
    }
}

/* Returns 1 if the request goes on. */
static int look_at(struct wu_peer *p)
{
    struct wu_group *g = p->group;
    char why[WEFT_SIDE_WHY_MAX] = "";
    struct letter letter;
    size_t bytes = 0;
    weft_status st = g->endpoint->host->side_response(g->side, p->rank, &letter, sizeof letter, &bytes, why);
    const char *wrong;

    if (st == WEFT_INPROGRESS)
        return 1;
    if (p->state == WU_FAILED || st == WEFT_EINVAL) /* the group ends, and with it what was requested */
        return 0;
    if (st == WEFT_EPEER) {
        gone(p, why);
        return 0;
    }
    if (st < 0 && !(p->watching && st == WEFT_ETIMEDOUT)) {
        wu_peer_fail(p, st, "%s", why);
        return 0;
    }
    if (st >= 0 && !p->watching) {
        wrong = judge(g, p->rank, &letter, bytes);
        if (!wrong && letter.hello.kind != WU_CONNECT)
            wrong = "its kind";
        if (wrong) {
            wu_peer_fail(p, WEFT_EPROTO, "it has responded with a malformed hello: %s", wrong);
            return 0;
        }
        connected(p, &letter);
    }
    if (p->link && !p->link->watched && p->state == WU_CONNECTED && !p->left) {
        p->asking = 0;
        ask(p, WU_WATCH); /* which puts it at the head of the list */
        return 2;
    }
    return 0;
}

int wu_connect_step(struct wu_group *g)
{
    struct wu_peer *asked = g->asking, *next;
    struct letter letter;
    int rank = -1, events = 0;
    size_t bytes = 0;

    g->asking = NULL;
    g->connecting = 0;
    for (struct wu_peer *p = asked; p; p = next) {
        next = p->next_asking;
        int goes_on = look_at(p);
        events += goes_on != 1;
        if (goes_on == 1) {
            p->next_asking = g->asking;
            g->asking = p;
            g->connecting |= !p->watching;
        } else if (!goes_on) {
            p->asking = 0;
        }
    }
    while (g->endpoint->host->side_requested(g->side, &rank, &letter, sizeof letter, &bytes) == 1) {
        requested(g, rank, &letter, bytes);
        events++;
    }
    return events;
}
