/* SPDX-License-Identifier: BSD-3-Clause */
/* The channel layer's endpoint and group, as a transport: what it does itself, and what it passes on. */
#include "net/channel.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "net/channel_group.h"

int wi_channel_needed(uint32_t caps)
{
    const uint32_t all = WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO;

    return caps & WEFT_CAP_TWO_SIDED && ((caps & all) != all || caps & WEFT_CAP_REGISTER);
}

/* ---- Endpoint ---- */

static uint32_t info_bits(const struct weft_plugin *plugin)
{
    size_t end = offsetof(struct weft_plugin, info_bits) + sizeof plugin->info_bits;

    return plugin->bytes < end ? 0 : plugin->info_bits < 32 ? plugin->info_bits : 32;
}

weft_status wi_channel_wrap(const struct weft_plugin *plugin, const struct weft_host *host,
                            const struct weft_transport_ops *raw, void *endpoint, void **wrapped)
{
    struct wi_channel_endpoint *e = wi_calloc(1, sizeof *e);
    uint32_t bits = info_bits(plugin);

    if (!e)
        return wi_fail(WEFT_ENOMEM, "the channels of transport %s", plugin->name);
    e->plugin = plugin;
    e->host = host;
    e->raw = raw;
    e->endpoint = endpoint;
    e->imm_mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1;
    pthread_mutex_init(&e->lock, NULL);
    *wrapped = e;
    return WEFT_SUCCESS;
}

static void close_endpoint(void *endpoint)
{
    struct wi_channel_endpoint *e = endpoint;

    e->raw->close(e->endpoint);
    pthread_mutex_destroy(&e->lock);
    wi_channel_registrations_fini(e);
    wi_free(e);
}

/* ---- Group ---- */

static void queue_free(struct wi_channel_group *g, struct wi_piece_queue *q)
{
    while (q->first)
        wi_channel_piece_put(g, wi_piece_queue_take(q));
}

static void channel_free(struct wi_channel_group *g, struct wi_channel *ch)
{
    if (!ch)
        return;
    queue_free(g, &ch->chunks_out);
    queue_free(g, &ch->chunks_in);
    while (ch->early) {
        struct wi_early *e = ch->early;
        ch->early = e->next;
        wi_free(e);
    }
    wi_free(ch);
}

/* After the raw group is gone, so that nothing touches what is freed. */
static void group_free(struct wi_channel_group *g)
{
    for (int r = 0; g->peers && r < g->nranks; r++) {
        struct wi_channel_peer *p = &g->peers[r];
        if (p->state == WI_CHANNEL_NONE)
            continue;
        queue_free(g, &p->heads_in);
        queue_free(g, &p->heads_out);
        for (int i = 0; i < WEFT_CHAN_MAX; i++)
            channel_free(g, p->chans[i]);
    }
    wi_channel_rma_free(g);
    wi_channel_memory_fini(g);
    wi_free(g->peers);
    wi_free(g);
}

static weft_status open_peers(struct wi_channel_group *g, const struct weft_group_config *config)
{
    for (int r = 0; r < g->nranks; r++) {
        struct wi_channel_peer *p = &g->peers[r];
        if (!config->member[r])
            continue;
        p->group = g;
        p->rank = r;
        p->state = WI_CHANNEL_ALIVE;
        p->ready_last = &p->ready;
        wi_piece_queue_init(&p->heads_in);
        wi_piece_queue_init(&p->heads_out);
    }
    for (int r = 0; r < g->nranks; r++)
        if (g->peers[r].state == WI_CHANNEL_ALIVE)
            WI_TRY(wi_channel_heads_post(&g->peers[r]));
    return WEFT_SUCCESS;
}

static weft_status group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct wi_channel_endpoint *e = endpoint;
    struct wi_channel_group *g = wi_calloc(1, sizeof *g);
    struct weft_group_config raw = *config;
    weft_status st;

    if (!g)
        return wi_fail(WEFT_ENOMEM, "the channels of a communicator");
    g->endpoint = e;
    g->raw = e->raw;
    g->rank = config->rank;
    g->rmas_last = &g->rmas;
    g->nranks = config->nranks;
    g->peers = wi_calloc((size_t)g->nranks, sizeof *g->peers);
    if (!g->peers) {
        st = wi_fail(WEFT_ENOMEM, "the channels of %d ranks", g->nranks);
        goto fail;
    }
    raw.nchans = WEFT_CHAN_MAX_LAYERED;
    st = e->raw->group_create(e->endpoint, &raw, &g->group);
    if (st < 0)
        goto fail;
    st = open_peers(g, config);
    if (st < 0) {
        e->raw->group_destroy(g->group, 1);
        goto fail;
    }
    *group = g;
    return WEFT_SUCCESS;
fail:
    group_free(g);
    return st;
}

static void group_destroy(void *group, int aborted)
{
    struct wi_channel_group *g = group;

    g->raw->group_destroy(g->group, aborted);
    group_free(g);
}

static weft_status quiesce(void *group, uint64_t deadline_ns)
{
    struct wi_channel_group *g = group;
    weft_status st = g->raw->quiesce(g->group, deadline_ns);

    if (st < 0)
        return st;
    wi_channel_rma_end(g, -1, WEFT_ECANCELED);
    for (int r = 0; r < g->nranks; r++)
        if (g->peers[r].state == WI_CHANNEL_ALIVE)
            wi_channel_cancel(&g->peers[r]);
    return WEFT_SUCCESS;
}

/* ---- Messages ---- */

static weft_status usable(struct wi_channel_group *g, int rank, uint32_t chan, struct wi_channel **ch)
{
    struct wi_channel_peer *p = rank >= 0 && rank < g->nranks ? &g->peers[rank] : NULL;

    if (!p || p->state == WI_CHANNEL_NONE || chan >= WEFT_CHAN_MAX)
        return wi_fail(WEFT_EINVAL, "rank %d, channel %u: no such channel of transport %s", rank, chan,
                       g->endpoint->plugin->name);
    if (p->state == WI_CHANNEL_FAILED)
        return wi_fail(p->status, "%s", p->text);
    *ch = wi_channel_get(p, chan);
    return *ch ? WEFT_SUCCESS : WEFT_ENOMEM;
}

static void begin_to_connect(struct wi_channel_group *g, int rank)
{
    if (g->raw->connect)
        g->raw->connect(g->group, rank);
}

static weft_status post_send(void *group, struct weft_xfer *x)
{
    struct wi_channel_group *g = group;
    struct wi_channel *ch;

    WI_TRY(usable(g, x->peer, x->chan, &ch));
    memset(x->priv, 0, sizeof x->priv);
    x->state = WEFT_XFER_PENDING;
    wi_user_queue_add(&ch->sends, x);
    wi_channel_ready(ch);
    if (g->within)
        g->again = 1;
    else
        wi_channel_send_step(ch->peer);
    return WEFT_SUCCESS;
}

static weft_status post_recv(void *group, struct weft_xfer *x)
{
    struct wi_channel_group *g = group;
    struct wi_channel *ch;

    WI_TRY(usable(g, x->peer, x->chan, &ch));
    memset(x->priv, 0, sizeof x->priv);
    x->state = WEFT_XFER_PENDING;
    wi_user_queue_add(&ch->recvs, x);
    if (!x->background) {
        ch->peer->earnest++;
        begin_to_connect(g, x->peer);
    }
    if (!ch->early)
        return WEFT_SUCCESS;
    if (!g->within) {
        wi_channel_meet(ch, 0);
    } else {
        wi_channel_busy(ch);
        g->again = 1;
    }
    return WEFT_SUCCESS;
}

static int has_come(const struct wi_channel_peer *p)
{
    return p->heads_in.first && p->heads_in.first->raw.state != WEFT_XFER_PENDING;
}

static int peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    struct wi_channel_group *g = group;
    struct wi_channel *ch;

    WI_TRY(usable(g, peer, chan, &ch));
    if (ch->recvs.first || ch->taking)
        return 0;
    if (ch->early) {
        *info = ch->early->head.info;
        *bytes = ch->early->head.bytes;
        return 1;
    }
    /* What has come and was not looked at is progress's. */
    if (g->raw->left && g->raw->left(g->group, peer) && !has_come(ch->peer))
        return wi_fail(WEFT_EPEER, "rank %d left the communicator", peer);
    if (connect)
        begin_to_connect(g, peer);
    return 0;
}

/* ---- Progress ---- */

static int busy_step(struct wi_channel_group *g)
{
    struct wi_channel *list = g->busy;
    int events = 0;

    g->busy = NULL;
    while (list) {
        struct wi_channel *ch = list;
        list = ch->next_busy;
        ch->busy = 0;
        events += wi_channel_chunks_in_step(ch) + wi_channel_chunks_out_step(ch);
        if (ch->taking || ch->headed || ch->chunks_in.first || ch->chunks_out.first)
            wi_channel_busy(ch);
    }
    return events;
}

/* Of a peer that left what it sent before may still be received; what waits for more has failed. */
static void look_whether_left(struct wi_channel_group *g, struct wi_channel_peer *p)
{
    if (g->raw->left(g->group, p->rank) && !wi_channel_heads_step(p) && !p->ready && p->earnest)
        wi_channel_peer_fail(p, WEFT_EPEER, 1, "rank %d left the communicator and did not send what is received",
                             p->rank);
}

static int report(struct wi_channel_group *g, struct weft_peer_failure *failure)
{
    for (int r = 0; r < g->nranks; r++) {
        struct wi_channel_peer *p = &g->peers[r];
        if (p->state != WI_CHANNEL_FAILED || p->reported)
            continue;
        p->reported = 1;
        g->unreported--;
        failure->peer = r;
        failure->status = p->status;
        snprintf(failure->text, sizeof failure->text, "%s", p->text);
        return p->status;
    }
    return WEFT_EINTERNAL;
}

/* The transport reports a failure: 0, it was told here before. */
static int pass_on(struct wi_channel_group *g, const struct weft_peer_failure *failure)
{
    struct wi_channel_peer *p = failure->peer >= 0 && failure->peer < g->nranks ? &g->peers[failure->peer] : NULL;

    if (!p || p->state == WI_CHANNEL_NONE)
        return 1;
    if (p->state == WI_CHANNEL_FAILED && p->status != WEFT_EPEER && p->status != WEFT_EABORTED && p->reported)
        return 0;
    wi_channel_peer_fail(p, failure->status, 0, "%s", failure->text);
    g->unreported -= !p->reported;
    p->reported = 1;
    return 1;
}

static int progress(void *group, struct weft_peer_failure *failure)
{
    struct wi_channel_group *g = group;
    int events = g->raw->progress(g->group, failure);

    if (events < 0 && pass_on(g, failure))
        return events;
    events = events > 0 ? events : 0;
    g->within = 1;
    g->again = 0;
    for (int r = 0; r < g->nranks; r++) {
        struct wi_channel_peer *p = &g->peers[r];
        if (p->state == WI_CHANNEL_NONE)
            continue;
        events += wi_channel_heads_step(p);
        events += wi_channel_send_step(p);
    }
    events += busy_step(g);
    if (g->rmas)
        events += wi_channel_rma_step(g);
    for (int r = 0; g->raw->left && r < g->nranks; r++)
        if (g->peers[r].earnest)
            look_whether_left(g, &g->peers[r]);
    g->within = 0;
    return g->unreported ? report(g, failure) : events;
}

static int poll_arm(void *group)
{
    struct wi_channel_group *g = group;

    return g->again || g->raw->poll_arm(g->group);
}

static weft_status post_get(void *group, struct weft_rma *r)
{
    return wi_channel_rma_post(group, r, 1);
}

static weft_status post_put(void *group, struct weft_rma *r)
{
    return wi_channel_rma_post(group, r, 0);
}

/* ---- What is passed on ---- */

#define ENDPOINT struct wi_channel_endpoint *e = endpoint
#define GROUP struct wi_channel_group *g = group

static weft_status address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    ENDPOINT;
    return e->raw->address(e->endpoint, buf, capacity, bytes);
}

static int reachable(void *endpoint, const void *theirs, size_t bytes)
{
    ENDPOINT;
    return e->raw->reachable(e->endpoint, theirs, bytes);
}

static int poll_fd(void *group)
{
    GROUP;
    return g->raw->poll_fd(g->group);
}

static weft_status mapped(void *group, struct weft_mapped *m)
{
    GROUP;
    return g->raw->mapped(g->group, m);
}

static void sleep_on(void *group, int (*ready)(void *arg), void *arg, uint64_t timeout_ns)
{
    GROUP;
    g->raw->sleep(g->group, ready, arg, timeout_ns);
}

static void wake(void *group)
{
    GROUP;
    g->raw->wake(g->group);
}

static weft_status mem_alloc(void *endpoint, size_t bytes, void **ptr)
{
    ENDPOINT;
    return e->raw->mem_alloc(e->endpoint, bytes, ptr);
}

static weft_status mem_free(void *endpoint, void *ptr)
{
    ENDPOINT;
    return e->raw->mem_free(e->endpoint, ptr);
}

static weft_status mem_adopt(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes)
{
    ENDPOINT;
    return e->raw->mem_adopt(e->endpoint, ptr, bytes, adopted, adopted_bytes);
}

static weft_status mem_release(void *endpoint, void *adopted)
{
    ENDPOINT;
    return e->raw->mem_release(e->endpoint, adopted);
}

static void mem_describe(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    ENDPOINT;
    e->raw->mem_describe(e->endpoint, ptr, bytes, desc);
}

static weft_status mem_map(void *group, int peer, const struct weft_mem_desc *desc, void **ptr)
{
    GROUP;
    return g->raw->mem_map(g->group, peer, desc, ptr);
}

static weft_status mem_get(void *group, int peer, uint64_t remote, void *local, size_t bytes)
{
    GROUP;
    return g->raw->mem_get(g->group, peer, remote, local, bytes);
}

static weft_status mem_put(void *group, int peer, uint64_t remote, const void *local, size_t bytes)
{
    GROUP;
    return g->raw->mem_put(g->group, peer, remote, local, bytes);
}

static size_t describe_peer(void *group, int peer, char *text, size_t capacity)
{
    GROUP;
    return g->raw->describe_peer(g->group, peer, text, capacity);
}

static weft_status mem_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    ENDPOINT;
    return e->raw->mem_key(e->endpoint, mem, key, capacity, bytes);
}

static weft_status mem_import(void *group, int peer, const void *key, size_t bytes, void **remote)
{
    GROUP;
    return g->raw->mem_import(g->group, peer, key, bytes, remote);
}

static void mem_forget(void *group, void *remote)
{
    GROUP;
    g->raw->mem_forget(g->group, remote);
}

/* `left` and `connect` are the layer's to call; `open` is done before it is put above. */
const struct weft_transport_ops wi_channel_ops = {
    .bytes = sizeof wi_channel_ops,
    .close = close_endpoint,
    .address = address,
    .reachable = reachable,
    .group_create = group_create,
    .group_destroy = group_destroy,
    .send = post_send,
    .recv = post_recv,
    .progress = progress,
    .poll_fd = poll_fd,
    .poll_arm = poll_arm,
    .mapped = mapped,
    .sleep = sleep_on,
    .wake = wake,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_adopt = mem_adopt,
    .mem_release = mem_release,
    .mem_describe = mem_describe,
    .mem_map = mem_map,
    .mem_get = mem_get,
    .mem_put = mem_put,
    .describe_peer = describe_peer,
    .peek = peek,
    .mem_register = wi_channel_register,
    .mem_deregister = wi_channel_deregister,
    .mem_key = mem_key,
    .mem_import = mem_import,
    .mem_forget = mem_forget,
    .get = post_get,
    .put = post_put,
    .quiesce = quiesce,
};
