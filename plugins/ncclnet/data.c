/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages: a connection of their own, on which both sides post in the receiver's order. */
#include "ncclnet.h"

#include <stdio.h>

static struct weft_xfer *nth(const struct nn_queue *q, unsigned n)
{
    struct weft_xfer *x = q->first;

    while (n-- && x)
        x = x->next;
    return x;
}

/* 1: it is posted; 0: there is no room now, or the connection broke. The tag is the channel: plugins compare it. */
static int post(struct nn_peer *p, struct weft_xfer *x, int direction)
{
    struct nn_endpoint *e = p->group->endpoint;
    struct nn_link *link = direction == NN_SENDS ? &p->send[NN_DATA] : &p->recv[NN_DATA];
    void *handle, *request = NULL;
    int result = nn_mem_on(e, x->mem, link, &handle);

    if (result == NN_SUCCESS && direction == NN_SENDS)
        result = nn_isend(e->lib, link->comm, x->buf, x->bytes, (int)x->chan, handle, &request);
    else if (result == NN_SUCCESS)
        result = nn_irecv(e->lib, link->comm, x->buf, x->actual, (int)x->chan, handle, &request);
    if (result != NN_SUCCESS) {
        link->bad = 1;
        nn_broke(p, direction == NN_SENDS ? "isend" : "irecv", result);
        return 0;
    }
    x->priv[NN_PRIV_REQUEST] = (uint64_t)(uintptr_t)request;
    return request != NULL;
}

/* Of the oldest. 1: it is through, with *bytes. */
static int through(struct nn_peer *p, const struct weft_xfer *x, struct nn_link *link, const char *what, int *bytes)
{
    int done = 0, sizes[8] = {0};
    int result = p->group->endpoint->lib->test((void *)(uintptr_t)x->priv[NN_PRIV_REQUEST], &done, sizes);

    if (result != NN_SUCCESS) {
        link->bad = 1;
        nn_broke(p, what, result);
    }
    *bytes = sizes[0];
    return result == NN_SUCCESS && done;
}

static int send_step(struct nn_peer *p)
{
    unsigned room = (unsigned)p->group->endpoint->settings->requests;
    struct nn_link *link = &p->send[NN_DATA];
    struct weft_xfer *x = nth(&p->data_out, p->data_out_posted);
    int events = 0, bytes;

    for (; x && p->data_out_posted < room && !link->bad && post(p, x, NN_SENDS); x = x->next, events++)
        p->data_out_posted++;
    while (p->data_out_posted && !link->bad && through(p, p->data_out.first, link, "test of a send", &bytes)) {
        p->data_out_posted--;
        nn_xfer_end(p, nn_queue_take(&p->data_out), NN_SENDS, WEFT_SUCCESS);
        events++;
    }
    return events;
}

/* The sender is called only now, so that it finds the receive. */
static int post_recvs(struct nn_peer *p)
{
    unsigned room = (unsigned)p->group->endpoint->settings->requests;
    struct weft_xfer *x = nth(&p->data_in, p->data_in_posted);
    int events = 0;

    for (; x && p->data_in_posted < room && !p->recv[NN_DATA].bad && post(p, x, NN_RECVS); x = x->next, events++) {
        struct nn_record cts = {.kind = NN_CTS, .chan = (uint16_t)x->chan};
        p->data_in_posted++;
        if (nn_say(p, cts, NULL) < 0) {
            nn_fail(p, WEFT_ENOMEM, "no memory for what is to be said to rank %d", p->rank);
            return events;
        }
    }
    return events;
}

static int recv_step(struct nn_peer *p)
{
    struct nn_link *link = &p->recv[NN_DATA];
    int events = p->state == NN_UP ? post_recvs(p) : 0, bytes;

    while (p->state != NN_FAILED && p->data_in_posted && !link->bad &&
           through(p, p->data_in.first, link, "test of a receive", &bytes)) {
        struct weft_xfer *x = p->data_in.first;
        events++;
        if (bytes < 0 || (size_t)bytes != x->actual) {
            nn_fail(p, WEFT_EPROTO, "rank %d sent %d bytes where it had announced %zu", p->rank, bytes, x->actual);
            break;
        }
        p->data_in_posted--;
        nn_xfer_end(p, nn_queue_take(&p->data_in), NN_RECVS, WEFT_SUCCESS);
    }
    return events;
}

int nn_data_step(struct nn_peer *p)
{
    int events = 0;

    if (p->data_in.first)
        events += recv_step(p);
    if (p->data_out.first && p->state == NN_UP)
        events += send_step(p);
    return events;
}
