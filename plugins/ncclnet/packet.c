/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of records: what is to be said is put into as few as there are, and of each connection only the oldest request is tested,
 * since plugins move bytes there. */
#include "ncclnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is to be said ---- */

static int ring_grow(struct nn_peer *p)
{
    unsigned capacity = p->said_capacity ? 2 * p->said_capacity : 32;
    struct nn_said *said = malloc(capacity * sizeof *said);

    if (!said)
        return 0;
    for (unsigned i = 0; i < p->said_count; i++)
        said[i] = p->said[(p->said_first + i) % p->said_capacity];
    free(p->said);
    p->said = said;
    p->said_first = 0;
    p->said_capacity = capacity;
    return 1;
}

weft_status nn_say(struct nn_peer *p, struct nn_record record, struct weft_xfer *x)
{
    if (p->said_count == p->said_capacity && !ring_grow(p))
        return WEFT_ENOMEM;
    p->said[(p->said_first + p->said_count++) % p->said_capacity] = (struct nn_said){record, x};
    return WEFT_SUCCESS;
}

static size_t payload_bytes(const struct nn_record *r)
{
    return r->kind == NN_EAGER ? NN_PADDED(r->bytes) : 0;
}

/* As many records as the slot has room for. */
static void pack(struct nn_peer *p, struct nn_slot *slot)
{
    struct weft_xfer **last = &slot->eager;

    slot->bytes = 0;
    slot->eager = NULL;
    while (p->said_count) {
        struct nn_said *said = &p->said[p->said_first];
        size_t payload = payload_bytes(&said->record);
        if (slot->bytes + sizeof said->record + payload > p->group->endpoint->packet_bytes)
            return;
        memcpy(slot->at + slot->bytes, &said->record, sizeof said->record);
        slot->bytes += sizeof said->record;
        if (payload) {
            memset(slot->at + slot->bytes + payload - 8, 0, 8);
            memcpy(slot->at + slot->bytes, said->x->buf, said->record.bytes);
            slot->bytes += payload;
        }
        if (said->x) {
            said->x->next = NULL;
            *last = said->x;
            last = &said->x->next;
        }
        p->said_first = (p->said_first + 1) % p->said_capacity;
        p->said_count--;
    }
}

static int post_packet(struct nn_peer *p, struct nn_slot *slot)
{
    struct nn_endpoint *e = p->group->endpoint;
    struct nn_link *link = &p->send[NN_PACKETS];
    void *handle;
    int result = nn_mem_on(e, p->mem, link, &handle);

    if (result == NN_SUCCESS)
        result = nn_isend(e->lib, link->comm, slot->at, slot->bytes, NN_PACKETS, handle, &slot->request);
    if (result != NN_SUCCESS)
        nn_broke(p, "isend", result);
    return result == NN_SUCCESS && slot->request;
}

/* A send of the caller's has ended with the packet that it went in; not when it was given up before. */
static void packet_through(struct nn_peer *p, struct nn_slot *slot)
{
    while (slot->eager) {
        struct weft_xfer *x = slot->eager;
        slot->eager = x->next;
        nn_xfer_end(p, x, NN_SENDS, WEFT_SUCCESS);
    }
    slot->request = NULL;
    slot->bytes = 0;
}

static int test_packets(struct nn_peer *p)
{
    int events = 0;

    while (p->out_posted) {
        struct nn_slot *slot = &p->out[p->out_first % NN_SLOTS];
        int done = 0, sizes[8] = {0};
        int result = p->group->endpoint->lib->test(slot->request, &done, sizes);
        if (result != NN_SUCCESS)
            nn_broke(p, "test of a send", result);
        if (result != NN_SUCCESS || !done)
            break;
        packet_through(p, slot);
        p->out_first++;
        p->out_used--;
        p->out_posted--;
        events++;
    }
    return events;
}

int nn_packets_out_step(struct nn_peer *p)
{
    int events;

    if (p->send[NN_PACKETS].greeted != 2 || !p->send[NN_PACKETS].comm || p->call_failed)
        return 0;
    events = test_packets(p);
    while (!p->call_failed) {
        struct nn_slot *slot = &p->out[(p->out_first + p->out_posted) % NN_SLOTS];
        if (p->out_posted == p->out_used) {
            if (p->out_used == NN_SLOTS || !p->said_count)
                break;
            pack(p, slot);
            p->out_used++;
        }
        if (!post_packet(p, slot))
            break;
        p->out_posted++;
        events++;
    }
    return events;
}

/* ---- What comes ---- */

static void malformed(struct nn_peer *p, const char *what)
{
    nn_fail(p, WEFT_EPROTO, "rank %d sent a malformed packet over ncclnet: %s", p->rank, what);
}

static void read_packet(struct nn_peer *p, const unsigned char *at, size_t bytes)
{
    while (bytes) {
        struct nn_record record;
        size_t payload;
        if (bytes < sizeof record) {
            malformed(p, "a record is cut off");
            return;
        }
        memcpy(&record, at, sizeof record);
        at += sizeof record;
        bytes -= sizeof record;
        if (record.kind == NN_EAGER && record.bytes > p->group->endpoint->settings->eager) {
            malformed(p, "a short message is too long");
            return;
        }
        payload = payload_bytes(&record);
        if (payload > bytes) {
            malformed(p, "a short message is cut off");
            return;
        }
        if (!nn_take_record(p, &record, at))
            return;
        at += payload;
        bytes -= payload;
    }
}

static int post_slot(struct nn_peer *p, struct nn_slot *slot)
{
    struct nn_endpoint *e = p->group->endpoint;
    struct nn_link *link = &p->recv[NN_PACKETS];
    void *handle;
    int result = nn_mem_on(e, p->mem, link, &handle);

    if (result == NN_SUCCESS)
        result = nn_irecv(e->lib, link->comm, slot->at, e->packet_bytes, NN_PACKETS, handle, &slot->request);
    if (result != NN_SUCCESS) {
        link->bad = 1;
        nn_broke(p, "irecv", result);
    }
    return result == NN_SUCCESS && slot->request;
}

static void post_slots(struct nn_peer *p)
{
    while (p->in_posted < NN_SLOTS && !p->recv[NN_PACKETS].bad &&
           post_slot(p, &p->in[(p->in_first + p->in_posted) % NN_SLOTS]))
        p->in_posted++;
}

/* 1: it was a packet. */
static int test_slot(struct nn_peer *p, struct nn_slot *slot)
{
    int done = 0, sizes[8] = {0};
    int result = p->group->endpoint->lib->test(slot->request, &done, sizes);

    if (result != NN_SUCCESS) {
        p->recv[NN_PACKETS].bad = 1;
        nn_broke(p, "test of a receive", result);
    }
    if (result != NN_SUCCESS || !done)
        return 0;
    slot->request = NULL;
    p->in_first++;
    p->in_posted--;
    if (sizes[0] < (int)sizeof(struct nn_record) || sizes[0] > (int)p->group->endpoint->packet_bytes)
        malformed(p, "its length");
    else
        read_packet(p, slot->at, (size_t)sizes[0]);
    return 1;
}

/* A connection that is broken one way may still hold what the peer said last. */
int nn_packets_in_step(struct nn_peer *p)
{
    int events = 0, one = 1;

    if (p->aborted)
        return 0;
    post_slots(p);
    while (one && p->in_posted && p->state == NN_UP && !p->aborted && !p->recv[NN_PACKETS].bad) {
        one = test_slot(p, &p->in[p->in_first % NN_SLOTS]);
        events += one;
        if (one && p->state == NN_UP)
            post_slots(p);
    }
    return events;
}
