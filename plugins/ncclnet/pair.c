/* SPDX-License-Identifier: BSD-3-Clause */
/* How two ranks connect: the handles of both ranks' listeners travel by the side channel, with a token that comes back as the first
 * message of each connection: what a plugin accepts is not authenticated. Then each rank connects twice and accepts twice, by calls
 * that never block and are repeated until they are done. */
#include "ncclnet.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define OFFER_MAGIC 0x6e6e6f66666572ull

enum { OFFER_CONNECT = 1, OFFER_WATCH };

struct offer {
    uint64_t magic;
    uint32_t what, from, to, reserved;
    unsigned char token[NN_TOKEN_BYTES];
    unsigned char handle[NN_KINDS][NN_HANDLE_BYTES];
};

static const char *const kind_names[NN_KINDS] = {"packets", "data"};

static struct nn_endpoint *endpoint_of(const struct nn_peer *p)
{
    return p->group->endpoint;
}

/* Both ranks of a pair come to the same place in their lists, so that rails meet where all hosts have them in one order. */
static struct nn_device *device_of(const struct nn_peer *p)
{
    struct nn_endpoint *e = endpoint_of(p);

    return &e->devices[(p->rank + p->group->rank) % e->ndevices];
}

/* ---- Listening ---- */

static int listen_for(struct nn_peer *p)
{
    struct nn_endpoint *e = endpoint_of(p);
    struct nn_device *d = device_of(p);

    if (getrandom(p->my_token, sizeof p->my_token, GRND_NONBLOCK) != (ssize_t)sizeof p->my_token) {
        nn_fail(p, WEFT_ENOTSUP, "no random numbers for a connection with rank %d", p->rank);
        return 0;
    }
    if (d->max_comms > 0 && d->comms + 2 * NN_KINDS > d->max_comms) {
        nn_fail(p, WEFT_ENOMEM, "device %s of plugin %s bears %d connections, and rank %d needs %d more", d->name,
                nn_net_name(e->lib), d->max_comms, p->rank, 2 * NN_KINDS);
        return 0;
    }
    for (int kind = 0; kind < NN_KINDS; kind++) {
        int result = nn_listen(e->lib, &p->group->context, d->index, p->mine[kind], &p->listener[kind]);
        if (result != NN_SUCCESS || !p->listener[kind]) {
            nn_fail(p, WEFT_ESYS, "plugin %s, device %s: listen: %s", nn_net_name(e->lib), d->name,
                    nn_result_name(result));
            return 0;
        }
    }
    d->comms += 2 * NN_KINDS;
    for (int kind = 0; kind < NN_KINDS; kind++)
        p->send[kind].device = p->recv[kind].device = d;
    return 1;
}

void nn_listeners_close(struct nn_peer *p)
{
    for (int kind = 0; kind < NN_KINDS; kind++)
        if (p->listener[kind]) {
            endpoint_of(p)->lib->close_listen(p->listener[kind]);
            p->listener[kind] = NULL;
        }
}

/* ---- Closing ---- */

static int close_link(struct nn_peer *p, struct nn_link *link, int (*close)(void *comm))
{
    int result = NN_SUCCESS;

    if (link->comm) {
        nn_mem_leave(endpoint_of(p), link);
        result = close(link->comm);
    }
    link->comm = NULL;
    if (link->device)
        link->device->comms--;
    link->device = NULL;
    link->hello = NULL;
    link->greeted = 0;
    return result;
}

int nn_links_close_failed(struct nn_peer *p, int kind)
{
    const struct nn_lib *lib = endpoint_of(p)->lib;
    int sends = close_link(p, &p->send[kind], lib->close_send), recvs = close_link(p, &p->recv[kind], lib->close_recv);

    return sends != NN_SUCCESS || recvs != NN_SUCCESS;
}

void nn_links_close(struct nn_peer *p, int kind)
{
    if (nn_links_close_failed(p, kind))
        endpoint_of(p)->host->log(endpoint_of(p)->host->impl, WEFT_LOG_WARN, "ncclnet.close",
                                  "plugin %s failed to close a connection with rank %d",
                                  nn_net_name(endpoint_of(p)->lib), p->rank);
}

/* ---- The side channel ---- */

static struct offer offer_to(const struct nn_peer *p, uint32_t what)
{
    struct offer o = {.magic = OFFER_MAGIC, .what = what, .from = (uint32_t)p->group->rank, .to = (uint32_t)p->rank};

    if (what == OFFER_CONNECT) {
        memcpy(o.token, p->my_token, sizeof o.token);
        memcpy(o.handle, p->mine, sizeof o.handle);
    }
    return o;
}

static int is_offer(const struct nn_peer *p, const struct offer *o, size_t bytes)
{
    return bytes == sizeof *o && o->magic == OFFER_MAGIC && (o->what == OFFER_CONNECT || o->what == OFFER_WATCH) &&
           o->from == (uint32_t)p->rank && o->to == (uint32_t)p->group->rank;
}

static void take_offer(struct nn_peer *p, const struct offer *o)
{
    memcpy(p->theirs, o->handle, sizeof p->theirs);
    memcpy(p->their_token, o->token, sizeof p->their_token);
    p->state = NN_CONNECTING;
}

static void ask(struct nn_peer *p, enum nn_asking asking)
{
    struct offer o = offer_to(p, asking == NN_ASKS_WATCH ? OFFER_WATCH : OFFER_CONNECT);
    weft_status st = endpoint_of(p)->host->side_request(p->group->side, p->rank, &o, sizeof o);

    if (st >= 0)
        p->asking = asking;
    else if (st != WEFT_EBUSY)
        nn_fail(p, st, "rank %d cannot be asked to connect (status %d of the side channel)", p->rank, (int)st);
}

void nn_want_connection(struct nn_peer *p)
{
    if (p->state != NN_IDLE || p->group->quiet || p->rank == p->group->rank || !listen_for(p))
        return;
    p->state = NN_ASKED;
    ask(p, NN_ASKS_CONNECT);
}

/* A request may be seen twice, and both ranks may ask at once: what is offered stays the same. */
static void answer(struct nn_peer *p, const struct offer *theirs)
{
    struct offer mine;

    if (theirs->what == OFFER_WATCH) /* it stays open: that ends when this process does */
        return;
    if (p->state == NN_IDLE && !listen_for(p))
        return;
    if (p->state == NN_GONE || p->state == NN_FAILED)
        return;
    mine = offer_to(p, OFFER_CONNECT);
    endpoint_of(p)->host->side_respond(p->group->side, p->rank, &mine, sizeof mine);
    if (p->state == NN_IDLE || p->state == NN_ASKED)
        take_offer(p, theirs);
}

int nn_answer_requests(struct nn_group *g)
{
    struct offer theirs;
    int rank, events = 0;
    size_t bytes;

    while (g->endpoint->host->side_requested(g->side, &rank, &theirs, sizeof theirs, &bytes)) {
        struct nn_peer *p = rank >= 0 && rank < g->nranks ? &g->peers[rank] : NULL;
        events++;
        if (!p || p->state == NN_NONE || rank == g->rank)
            continue;
        if (is_offer(p, &theirs, bytes))
            answer(p, &theirs);
        else
            nn_fail(p, WEFT_EPROTO, "rank %d offers something else than to connect", rank);
    }
    return events;
}

/* ---- What was asked ---- */

static void asked_in_vain(struct nn_peer *p, enum nn_asking asked, weft_status st, const char *why)
{
    if (p->state > NN_ASKED && st == WEFT_ETIMEDOUT) /* the peer is there; ask on */
        return;
    if (p->state > NN_ASKED) {
        p->watch_ended = asked == NN_ASKS_WATCH && st == WEFT_EPEER;
        if (!p->broken_ns)
            p->broken_ns = endpoint_of(p)->host->now_ns();
        snprintf(p->broken, sizeof p->broken, "%s", why);
    } else {
        nn_fail(p, st, "%s", why);
    }
}

static int take_response(struct nn_peer *p)
{
    enum nn_asking asked = p->asking;
    char why[WEFT_SIDE_WHY_MAX] = "";
    struct offer theirs;
    size_t bytes = 0;
    weft_status st;

    if (asked == NN_ASKS_NOTHING)
        return 0;
    st = endpoint_of(p)->host->side_response(p->group->side, p->rank, &theirs, sizeof theirs, &bytes, why);
    if (st == WEFT_INPROGRESS)
        return 0;
    p->asking = NN_ASKS_NOTHING;
    if (p->state == NN_FAILED || p->state == NN_GONE)
        return 1;
    if (st < 0)
        asked_in_vain(p, asked, st, why);
    else if (!is_offer(p, &theirs, bytes) || theirs.what != OFFER_CONNECT)
        nn_fail(p, WEFT_EPROTO, "rank %d has responded with something else than an offer to connect", p->rank);
    else if (p->state == NN_ASKED)
        take_offer(p, &theirs);
    return 1;
}

/* ---- Connecting ---- */

static unsigned char *hello_at(struct nn_peer *p, int kind, int direction)
{
    return p->memory + 2 * NN_SLOTS * endpoint_of(p)->packet_bytes + (size_t)(2 * kind + direction) * 64;
}

/* An nn_result. */
static int connect_send(struct nn_peer *p, int kind)
{
    struct nn_endpoint *e = endpoint_of(p);
    struct nn_link *link = &p->send[kind];
    int result = nn_connect(e->lib, &p->group->context, device_of(p)->index, p->theirs[kind], &link->comm);

    if (result != NN_SUCCESS)
        link->comm = NULL;
    link->begun = result == NN_SUCCESS && !link->comm;
    return result;
}

static int accept_recv(struct nn_peer *p, int kind)
{
    struct nn_link *link = &p->recv[kind];
    void *device_handle = NULL;
    int result = endpoint_of(p)->lib->accept(p->listener[kind], &link->comm, &device_handle);

    if (result != NN_SUCCESS)
        link->comm = NULL;
    return result;
}

static int connect_one(struct nn_peer *p, int kind)
{
    int sends = p->send[kind].comm ? NN_SUCCESS : connect_send(p, kind),
        recvs = p->recv[kind].comm ? NN_SUCCESS : accept_recv(p, kind);

    if (sends != NN_SUCCESS)
        nn_broke(p, "connect", sends);
    else if (recvs != NN_SUCCESS)
        nn_broke(p, "accept", recvs);
    return sends == NN_SUCCESS && recvs == NN_SUCCESS;
}

/* What connect has begun only connect can end: plugins keep it where nobody else gets at it. 1: it has not ended yet. */
int nn_connects_end(struct nn_peer *p)
{
    int under_way = 0;

    for (int kind = 0; kind < NN_KINDS; kind++) {
        if (p->send[kind].begun)
            connect_send(p, kind);
        under_way |= p->send[kind].begun;
    }
    return under_way;
}

static int post_hello(struct nn_peer *p, int kind, int direction)
{
    struct nn_link *link = direction == NN_SENDS ? &p->send[kind] : &p->recv[kind];
    unsigned char *at = hello_at(p, kind, direction);
    struct nn_record record = {.kind = NN_HELLO, .chan = (uint16_t)kind, .bytes = NN_TOKEN_BYTES};
    const struct nn_lib *lib = endpoint_of(p)->lib;
    void *handle;
    int result = nn_mem_on(endpoint_of(p), p->mem, link, &handle);

    if (result == NN_SUCCESS && direction == NN_SENDS) {
        memcpy(at, &record, sizeof record);
        memcpy(at + sizeof record, p->their_token, NN_TOKEN_BYTES);
        result = nn_isend(lib, link->comm, at, NN_HELLO_BYTES, kind, handle, &link->hello);
    } else if (result == NN_SUCCESS) {
        result = nn_irecv(lib, link->comm, at, NN_HELLO_BYTES, kind, handle, &link->hello);
    }
    if (result != NN_SUCCESS)
        nn_broke(p, "the first message", result);
    else if (link->hello)
        link->greeted = 1;
    return result == NN_SUCCESS;
}

/* Constant time is not called for: a token is used once. */
static int hello_is_right(struct nn_peer *p, int kind, int bytes)
{
    const unsigned char *at = hello_at(p, kind, NN_RECVS);
    struct nn_record record;

    memcpy(&record, at, sizeof record);
    return bytes == (int)NN_HELLO_BYTES && record.kind == NN_HELLO && record.chan == kind &&
           memcmp(at + sizeof record, p->my_token, NN_TOKEN_BYTES) == 0;
}

static int test_hello(struct nn_peer *p, int kind, int direction)
{
    struct nn_link *link = direction == NN_SENDS ? &p->send[kind] : &p->recv[kind];
    int done = 0, sizes[8] = {0};
    int result = endpoint_of(p)->lib->test(link->hello, &done, sizes);

    if (result != NN_SUCCESS) {
        nn_broke(p, "the first message", result);
        return 0;
    }
    if (!done)
        return 1;
    link->greeted = 2;
    link->hello = NULL;
    if (direction == NN_SENDS || hello_is_right(p, kind, sizes[0]))
        return 1;
    nn_fail(p, WEFT_EAUTH,
            "who has connected to this rank over %s does not prove to be rank %d: its first message on the "
            "connection for %s is wrong",
            nn_net_name(endpoint_of(p)->lib), p->rank, kind_names[kind]);
    return 0;
}

static int greet(struct nn_peer *p, int kind, int direction)
{
    struct nn_link *link = direction == NN_SENDS ? &p->send[kind] : &p->recv[kind];

    if (!link->comm || link->greeted == 2)
        return 1;
    return link->greeted ? test_hello(p, kind, direction) : post_hello(p, kind, direction);
}

static int make_memory(struct nn_peer *p)
{
    size_t packet = endpoint_of(p)->packet_bytes, bytes = 2 * NN_SLOTS * packet + 2 * NN_KINDS * 64;

    if (p->memory)
        return 1;
    p->memory = nn_memory_new(bytes);
    p->mem = p->memory ? nn_mem_new(endpoint_of(p), p->memory, bytes) : NULL;
    if (!p->mem) {
        nn_fail(p, WEFT_ENOMEM, "no memory for a connection with rank %d", p->rank);
        return 0;
    }
    for (unsigned i = 0; i < NN_SLOTS; i++) {
        p->out[i].at = p->memory + i * packet;
        p->in[i].at = p->memory + (NN_SLOTS + i) * packet;
    }
    return 1;
}

static int connect_step(struct nn_peer *p)
{
    int through = 0;

    if (!make_memory(p))
        return 0;
    for (int kind = 0; kind < NN_KINDS; kind++) {
        if (!connect_one(p, kind) || !greet(p, kind, NN_SENDS) || !greet(p, kind, NN_RECVS))
            return 0;
        through += (p->send[kind].greeted == 2) + (p->recv[kind].greeted == 2);
    }
    if (through < 2 * NN_KINDS)
        return 0;
    nn_listeners_close(p);
    p->state = NN_UP;
    return 1;
}

int nn_pair_step(struct nn_peer *p)
{
    int events = take_response(p);

    if (p->state == NN_CONNECTING && !p->call_failed)
        events += connect_step(p);
    if (p->state == NN_ASKED && p->asking == NN_ASKS_NOTHING)
        ask(p, NN_ASKS_CONNECT);
    if ((p->state == NN_CONNECTING || p->state == NN_UP) && p->asking == NN_ASKS_NOTHING && !p->broken_ns)
        ask(p, NN_ASKS_WATCH);
    return events;
}
