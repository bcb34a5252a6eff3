/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator: what the library calls, under the endpoint's lock. */
#include "ncclnet.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life ---- */

static void peer_free(struct nn_peer *p)
{
    for (int kind = 0; kind < NN_KINDS; kind++)
        nn_links_close(p, kind);
    nn_listeners_close(p);
    nn_mem_free(p->group->endpoint, p->mem);
    free(p->memory);
    free(p->said);
    nn_chans_free(p);
}

static void group_free(struct nn_group *g)
{
    for (int r = 0; g->peers && r < g->nranks; r++)
        if (g->peers[r].group)
            peer_free(&g->peers[r]);
    nn_finalize(g->endpoint->lib, &g->context);
    free(g->peers);
    free(g);
}

static weft_status peer_init(struct nn_group *g, int rank, const struct weft_group_config *config)
{
    struct nn_peer *p = &g->peers[rank];

    p->group = g;
    p->rank = rank;
    p->state = NN_IDLE;
    nn_queue_init(&p->data_out);
    nn_queue_init(&p->data_in);
    p->chans = calloc(g->nchans, sizeof *p->chans);
    if (!p->chans)
        return nn_explain(g->endpoint, WEFT_ENOMEM, "no memory for %d peers", g->nranks);
    if (!nn_address_read(config->addresses[rank], config->address_bytes[rank], &p->address))
        return nn_explain(g->endpoint, WEFT_EPROTO, "the address of rank %d is none", rank);
    return WEFT_SUCCESS;
}

static weft_status group_fill(struct nn_group *g, const struct weft_group_config *config)
{
    struct nn_endpoint *e = g->endpoint;
    int result;

    if (!g->side || !WEFT_HOST_HAS(e->host, side_request))
        return nn_explain(e, WEFT_ENOTSUP, "this libweft has no side channel, over which ranks connect");
    g->context.config.traffic_class = (int)e->settings->traffic_class;
    result = nn_init(e->lib, config->comm_id[0] ^ config->comm_id[1], &g->context, nn_log, nn_profile);
    if (result != NN_SUCCESS)
        return nn_explain(e, WEFT_ESYS, "plugin %s could not be initialised for a communicator: %s",
                          nn_net_name(e->lib), nn_result_name(result));
    g->peers = calloc((size_t)g->nranks, sizeof *g->peers);
    if (!g->peers)
        return nn_explain(e, WEFT_ENOMEM, "no memory for %d peers", g->nranks);
    for (int r = 0; r < g->nranks; r++) {
        weft_status st = config->member[r] ? peer_init(g, r, config) : WEFT_SUCCESS;
        if (st < 0)
            return st;
    }
    return WEFT_SUCCESS;
}

weft_status nn_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct nn_endpoint *e = endpoint;
    struct nn_group *g = calloc(1, sizeof *g);
    weft_status st;

    if (!g)
        return nn_explain(e, WEFT_ENOMEM, "no memory for a communicator");
    g->endpoint = e;
    g->rank = config->rank;
    g->nranks = config->nranks;
    g->nchans = config->nchans;
    if (config->bytes >= offsetof(struct weft_group_config, side) + sizeof config->side)
        g->side = config->side;
    pthread_mutex_lock(&e->lock);
    st = group_fill(g, config);
    if (st < 0)
        group_free(g);
    pthread_mutex_unlock(&e->lock);
    if (st >= 0)
        *group = g;
    return st;
}

/* ---- Good-bye ---- */

static int can_speak(const struct nn_peer *p)
{
    return p->group && p->state != NN_FAILED && p->state != NN_GONE && !p->call_failed && p->send[NN_PACKETS].comm &&
           p->send[NN_PACKETS].greeted == 2;
}

/* Nothing comes behind it: announcements and calls for messages are void now. */
static void say_bye(struct nn_peer *p, int aborted)
{
    struct nn_record bye = {.kind = NN_BYE, .bytes = aborted != 0};

    if (p->said_bye || !can_speak(p))
        return;
    p->said_bye = nn_say(p, bye, NULL) >= 0;
    nn_packets_out_step(p);
}

static int speaks_still(struct nn_group *g)
{
    int still = 0;

    for (int r = 0; g->peers && r < g->nranks; r++) {
        struct nn_peer *p = &g->peers[r];
        if (!can_speak(p) || !p->said_bye)
            continue;
        nn_packets_out_step(p);
        still |= p->out_used > 0 || p->said_count > 0;
    }
    return still;
}

static int connects_still(struct nn_group *g)
{
    int still = 0;

    for (int r = 0; r < g->nranks; r++)
        if (g->peers[r].group)
            still |= nn_connects_end(&g->peers[r]);
    return still;
}

void nn_group_destroy(void *group, int aborted)
{
    struct nn_group *g = group;
    struct nn_endpoint *e = g->endpoint;
    uint64_t until = e->host->now_ns() + NN_GOODBYE_NS;

    pthread_mutex_lock(&e->lock);
    for (int r = 0; r < g->nranks; r++)
        if (r != g->rank)
            say_bye(&g->peers[r], aborted);
    while ((speaks_still(g) | connects_still(g)) && e->host->now_ns() < until)
        sched_yield();
    group_free(g);
    pthread_mutex_unlock(&e->lock);
}

/* No request can be taken back: their connections are closed. Packets lie in memory of the transport's own, and go on to say that
 * this rank gives up, before a receiver takes what is cut off for anything else. */
static int quiesce_peer(struct nn_peer *p)
{
    int failed;

    if (p->rank == p->group->rank) {
        nn_xfers_end(p, WEFT_ECANCELED);
        return 0;
    }
    nn_packets_out_step(p); /* why it gives up, perhaps */
    nn_sends_forget(p);
    say_bye(p, 1);
    failed = nn_links_close_failed(p, NN_DATA);
    if (!failed)
        nn_xfers_end(p, WEFT_ECANCELED);
    return failed;
}

weft_status nn_quiesce(void *group, uint64_t deadline_ns)
{
    struct nn_group *g = group;
    int failed = 0;

    (void)deadline_ns; /* closing does not wait */
    pthread_mutex_lock(&g->endpoint->lock);
    g->quiet = 1;
    for (int r = 0; r < g->nranks; r++)
        if (g->peers[r].group && g->peers[r].state != NN_FAILED)
            failed |= quiesce_peer(&g->peers[r]);
    pthread_mutex_unlock(&g->endpoint->lock);
    if (failed)
        return nn_explain(g->endpoint, WEFT_ETIMEDOUT,
                          "plugin %s failed to close a connection with transfers under way",
                          nn_net_name(g->endpoint->lib));
    return WEFT_SUCCESS;
}

/* ---- Posting ---- */

static int lies_in(const struct weft_xfer *x)
{
    const struct nn_mem *m = x->mem;
    const unsigned char *at = x->buf, *from = m ? m->ptr : NULL;

    return !x->bytes || (m && at >= from && x->bytes <= m->bytes && (size_t)(at - from) <= m->bytes - x->bytes);
}

static weft_status check(struct nn_group *g, const struct weft_xfer *x)
{
    struct nn_endpoint *e = g->endpoint;

    if (x->peer < 0 || x->peer >= g->nranks || !g->peers[x->peer].group || x->chan >= g->nchans)
        return nn_explain(e, WEFT_EINVAL, "rank %d, channel %u: there is no such channel", x->peer, x->chan);
    if (g->quiet)
        return nn_explain(e, WEFT_EINVAL, "a transfer is posted after quiesce");
    if (x->sink || x->memory > WEFT_MEMORY_HOST || !lies_in(x))
        return nn_explain(e, WEFT_EINVAL, "a transfer needs registered memory of the host, and no sink");
    if (x->bytes > e->devices[0].max_bytes)
        return nn_explain(e, WEFT_EINVAL, "a transfer of %zu bytes; plugin %s moves %zu at most", x->bytes,
                          nn_net_name(e->lib), e->devices[0].max_bytes);
    return WEFT_SUCCESS;
}

static weft_status post(struct nn_group *g, struct weft_xfer *x, int direction)
{
    struct nn_peer *p = &g->peers[x->peer];
    weft_status st;

    if (p->state == NN_FAILED)
        return nn_explain(g->endpoint, p->status, "%s", p->text);
    if (p->rank == g->rank)
        return nn_self_post(p, x, direction);
    if (p->state == NN_GONE && direction == NN_SENDS)
        return nn_explain(g->endpoint, WEFT_EPEER, "rank %d left the communicator", p->rank);
    if (direction == NN_SENDS || !x->background)
        nn_want_connection(p);
    if (p->state == NN_FAILED)
        return nn_explain(g->endpoint, p->status, "%s", p->text);
    st = direction == NN_SENDS ? nn_post_send(p, x) : nn_post_recv(p, x);
    if (st == WEFT_ENOMEM)
        nn_explain(g->endpoint, st, "no memory for a transfer with rank %d", p->rank);
    if (st >= 0 && direction == NN_SENDS && p->state == NN_UP)
        nn_packets_out_step(p);
    return st;
}

static weft_status post_locked(struct nn_group *g, struct weft_xfer *x, int direction)
{
    weft_status st;

    pthread_mutex_lock(&g->endpoint->lock);
    st = check(g, x);
    if (st >= 0)
        st = post(g, x, direction);
    pthread_mutex_unlock(&g->endpoint->lock);
    return st;
}

weft_status nn_send(void *group, struct weft_xfer *x)
{
    return post_locked(group, x, NN_SENDS);
}

weft_status nn_recv(void *group, struct weft_xfer *x)
{
    return post_locked(group, x, NN_RECVS);
}

void nn_group_connect(void *group, int peer)
{
    struct nn_group *g = group;

    pthread_mutex_lock(&g->endpoint->lock);
    if (peer >= 0 && peer < g->nranks)
        nn_want_connection(&g->peers[peer]);
    pthread_mutex_unlock(&g->endpoint->lock);
}

/* ---- Progress ---- */

static int peer_step(struct nn_peer *p, int look)
{
    int events = 0;

    if (look || p->asking == NN_ASKS_CONNECT || p->state == NN_CONNECTING)
        events += nn_pair_step(p);
    if (p->state == NN_UP)
        events += nn_packets_in_step(p);
    if (p->state == NN_UP || p->state == NN_GONE)
        events += nn_data_step(p);
    if (p->state == NN_UP)
        events += nn_packets_out_step(p);
    return events;
}

int nn_progress(void *group, struct weft_peer_failure *failure)
{
    struct nn_group *g = group;
    uint64_t now = g->endpoint->host->now_ns();
    int look = now - g->looked_ns >= NN_LOOK_NS, events = 0, failed;

    pthread_mutex_lock(&g->endpoint->lock);
    if (look)
        g->looked_ns = now;
    if (!g->quiet)
        events += nn_answer_requests(g);
    for (int r = 0; r < g->nranks && !g->quiet; r++) {
        struct nn_peer *p = &g->peers[r];
        if (r == g->rank || p->state <= NN_IDLE || p->state == NN_FAILED)
            continue;
        p->fresh = 0;
        events += peer_step(p, look);
        if (look || p->aborted || p->state == NN_GONE)
            nn_look(p, now);
    }
    failed = nn_report(g, failure);
    pthread_mutex_unlock(&g->endpoint->lock);
    return failed ? failed : events;
}

/* ---- What is said of a peer ---- */

int nn_left(void *group, int peer)
{
    struct nn_group *g = group;
    int left;

    pthread_mutex_lock(&g->endpoint->lock);
    left = g->peers[peer].state == NN_GONE && !g->peers[peer].data_in.first && !g->peers[peer].fresh;
    pthread_mutex_unlock(&g->endpoint->lock);
    return left;
}

static const char *what_it_does(const struct nn_peer *p)
{
    static const char *const texts[] = {
        [NN_NONE] = "not served",       [NN_IDLE] = "not connected", [NN_ASKED] = "asked to connect",
        [NN_CONNECTING] = "connecting", [NN_UP] = "connected",       [NN_GONE] = "has left",
        [NN_FAILED] = "failed",
    };

    return texts[p->state];
}

size_t nn_describe(void *group, int peer, char *text, size_t capacity)
{
    struct nn_group *g = group;
    const struct weft_host *host = g->endpoint->host;
    const struct nn_peer *p = &g->peers[peer];
    int state, n;

    if (peer < 0 || peer >= g->nranks || !p->group)
        return 0;
    pthread_mutex_lock(&g->endpoint->lock);
    state = WEFT_HOST_HAS(host, process_state) ? host->process_state(&p->address.process) : '?';
    n = snprintf(text, capacity, "ncclnet (%s, version %d): %s; process %d on host %s%s", nn_net_name(g->endpoint->lib),
                 g->endpoint->lib->version, what_it_does(p), (int)p->address.process.pid, p->address.host,
                 state == 'T' || state == 't' ? " is stopped"
                 : state == 0                 ? " has ended"
                                              : "");
    pthread_mutex_unlock(&g->endpoint->lock);
    return n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}
