/* fake_rdma.c: a transport as strict as a network card, between threads of one process, for tests.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What it does, and what it refuses:
 *   - bytes move when a send and a receive of one channel are both posted, at a time of the card's own, in the progress of any
 *     rank: also into memory of a rank that makes none
 *   - completions come late, only in the owner's progress, in order within a channel and in no order between channels
 *   - memory must be registered; the handle is checked when a transfer is posted and again when its bytes move
 *   - no sink, no peek; 32 bits travel beside a message
 *   - few transfers of one channel may be posted (FAKERDMA_POSTS), then WEFT_EBUSY
 *   - reachability need not be symmetric (FAKERDMA_REACH)
 *   - two ranks connect when one first has something for the other, with data that goes over the library's side channel; nothing
 *     moves between them before (FAKERDMA_SIDE: how it misbehaves there)
 *   - gets and puts need a key of the peer's, which is checked when the bytes move; they complete late and in no order, few of
 *     them at a time (FAKERDMA_POSTS for each peer)
 */
#include "fake_rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t fake_card = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of every group's lanes */
static struct hub *hubs;
struct endpoint *fake_endpoints;
static uint64_t next_id = 1;

uint32_t fake_draw(struct endpoint *e, uint32_t below)
{
    e->seed = e->seed * 1664525u + 1013904223u;
    return below ? (e->seed >> 8) % below : 0;
}

weft_status fake_refuse(struct endpoint *e, weft_status status, const char *why)
{
    e->host->explain(e->host->impl, status, "fake_rdma: %s", why);
    return status;
}

/* ---- Endpoint and memory ---- */

static weft_status fake_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct endpoint *e = calloc(1, sizeof *e);

    if (!e)
        return WEFT_ENOMEM;
    e->host = host;
    e->settings = settings;
    pthread_mutex_lock(&fake_card);
    e->id = next_id++;
    e->seed = (uint32_t)e->id * 2654435761u;
    e->next = fake_endpoints;
    fake_endpoints = e;
    pthread_mutex_unlock(&fake_card);
    *endpoint = e;
    return WEFT_SUCCESS;
}

static void fake_close(void *endpoint)
{
    struct endpoint *e = endpoint, **at = &fake_endpoints;
    int left = 0;

    pthread_mutex_lock(&fake_card);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    pthread_mutex_unlock(&fake_card);
    while (e->regs) {
        struct reg *reg = e->regs;
        e->regs = reg->next;
        if (reg->alive)
            left++;
        free(reg);
    }
    if (left) {
        fprintf(stderr, "fake_rdma: %d stretches of memory are registered when the transport is closed\n", left);
        abort();
    }
    free(e);
}

static weft_status fake_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    struct endpoint *e = endpoint;
    struct address a = {REG_MAGIC, (uint64_t)getpid(), (uint64_t)(uintptr_t)&hubs, e->id};

    if (capacity < sizeof a)
        return WEFT_EINVAL;
    memcpy(buf, &a, sizeof a);
    *bytes = sizeof a;
    return WEFT_SUCCESS;
}

/* FAKERDMA_REACH: all; up: only who was opened later; none. */
static int fake_reachable(void *endpoint, const void *address, size_t bytes)
{
    struct endpoint *e = endpoint;
    const char *reach = e->settings->reach;
    struct address a;

    if (bytes != sizeof a)
        return 0;
    memcpy(&a, address, sizeof a);
    if (a.magic != REG_MAGIC || a.pid != (uint64_t)getpid() || a.where != (uint64_t)(uintptr_t)&hubs)
        return 0;
    if (strcmp(reach, "none") == 0)
        return 0;
    return strcmp(reach, "up") != 0 || a.id >= e->id;
}

static weft_status fake_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    struct endpoint *e = endpoint;
    struct reg *reg;
    weft_status st = WEFT_SUCCESS;

    if (memory > WEFT_MEMORY_HOST || !ptr || !bytes)
        return fake_refuse(e, WEFT_EINVAL, "registers memory of the host only");
    pthread_mutex_lock(&fake_card);
    reg = bytes <= e->settings->largest ? calloc(1, sizeof *reg) : NULL;
    if (reg) {
        *reg = (struct reg){REG_MAGIC, 1, e->regs, ptr, bytes, next_id++};
        e->regs = reg;
        *mem = reg;
    } else {
        st = WEFT_ENOMEM;
    }
    pthread_mutex_unlock(&fake_card);
    return st < 0 ? fake_refuse(e, st, "more than may be registered at once (FAKERDMA_LARGEST)") : st;
}

static void fake_deregister(void *endpoint, void *mem)
{
    struct reg *reg = mem;

    (void)endpoint;
    pthread_mutex_lock(&fake_card);
    if (!reg->alive) {
        fprintf(stderr, "fake_rdma: memory is deregistered twice\n");
        abort();
    }
    reg->alive = 0;
    pthread_mutex_unlock(&fake_card);
}

/* With the lock held. */
int fake_covered(const struct endpoint *e, const void *mem, const void *buf, size_t bytes)
{
    const unsigned char *at = buf;

    for (const struct reg *reg = e->regs; bytes && reg; reg = reg->next)
        if (reg == mem)
            return reg->alive && at >= reg->at && bytes <= reg->bytes && at - reg->at <= (long)(reg->bytes - bytes);
    return !bytes;
}

/* ---- Group ---- */

static struct lane *lane_of(struct group *g, int direction, int peer, uint32_t chan)
{
    return &g->lanes[((size_t)direction * (size_t)g->nranks + (size_t)peer) * g->nchans + chan];
}

static uint64_t *mask_of(struct group *g, int direction, int peer)
{
    return g->mask[direction * g->nranks + peer];
}

static struct hub *hub_join(const struct weft_group_config *c, struct group *g)
{
    struct hub *h = hubs;

    while (h && memcmp(h->comm_id, c->comm_id, sizeof h->comm_id) != 0)
        h = h->next;
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h)
            return NULL;
        memcpy(h->comm_id, c->comm_id, sizeof h->comm_id);
        h->nranks = c->nranks;
        h->groups = calloc((size_t)c->nranks, sizeof *h->groups);
        h->state = calloc((size_t)c->nranks, 1);
        if (!h->groups || !h->state) {
            free(h->groups);
            free(h->state);
            free(h);
            return NULL;
        }
        h->next = hubs;
        hubs = h;
    }
    h->groups[c->rank] = g;
    h->state[c->rank] = HERE;
    h->users++;
    return h;
}

static void group_free(struct group *g)
{
    fake_forget_all(g);
    free(g->lanes);
    free(g->mask);
    free(g->reported);
    free(g->member);
    free(g->link);
    free(g->mapped);
    free(g);
}

static void fake_group_destroy(void *group, int aborted);

static weft_status fake_group_create(void *endpoint, const struct weft_group_config *c, void **group)
{
    struct group *g = calloc(1, sizeof *g);
    size_t n = (size_t)c->nranks, lanes = 2 * n * c->nchans;

    if (!g)
        return WEFT_ENOMEM;
    g->endpoint = endpoint;
    g->rank = c->rank;
    g->nranks = c->nranks;
    g->nchans = c->nchans;
    g->lanes = calloc(lanes, sizeof *g->lanes);
    g->mask = calloc(2 * n, sizeof *g->mask);
    g->reported = calloc(n, 1);
    g->member = malloc(n);
    g->link = calloc(n, 1);
    if (c->bytes >= offsetof(struct weft_group_config, side) + sizeof c->side &&
        WEFT_HOST_HAS(g->endpoint->host, side_request))
        g->side = c->side;
    if (!g->link || !g->lanes || !g->mask || !g->reported || !g->member || c->nchans > WEFT_CHAN_MAX_LAYERED) {
        group_free(g);
        return fake_refuse(endpoint, WEFT_ENOMEM, "no memory for a group");
    }
    memcpy(g->member, c->member, n);
    memset(g->link, g->side ? UNCONNECTED : CONNECTED, n);
    g->link[g->rank] = CONNECTED;
    for (size_t i = 0; i < lanes; i++) {
        g->lanes[i].posted_last = &g->lanes[i].posted;
        g->lanes[i].done_last = &g->lanes[i].done;
    }
    pthread_mutex_lock(&fake_card);
    g->hub = hub_join(c, g);
#ifdef FAKE_MAPPED
    if (g->hub && !fake_arena_join(g)) {
        pthread_mutex_unlock(&fake_card);
        fake_group_destroy(g, 1);
        return fake_refuse(endpoint, WEFT_ENOMEM, "no memory for arenas");
    }
#endif
    pthread_mutex_unlock(&fake_card);
    if (!g->hub) {
        group_free(g);
        return WEFT_ENOMEM;
    }
    *group = g;
    return WEFT_SUCCESS;
}

static void fake_group_destroy(void *group, int aborted)
{
    struct group *g = group;
    struct hub *h = g->hub, **at = &hubs;

    pthread_mutex_lock(&fake_card);
    h->groups[g->rank] = NULL;
    h->state[g->rank] = aborted ? ABORTED : LEFT;
    if (--h->users == 0) {
        while (*at != h)
            at = &(*at)->next;
        *at = h->next;
        fake_arena_leave(h);
        free(h->groups);
        free(h->state);
        free(h);
    }
    pthread_mutex_unlock(&fake_card);
    group_free(g);
}

/* ---- Posting ---- */

static weft_status post(struct group *g, struct weft_xfer *x, int direction)
{
    struct endpoint *e = g->endpoint;
    struct lane *lane;
    int state;

    if (x->peer < 0 || x->peer >= g->nranks || !g->member[x->peer] || x->chan >= g->nchans)
        return fake_refuse(e, WEFT_EINVAL, "no such channel");
    if (x->sink)
        return fake_refuse(e, WEFT_EINVAL, "there are no sinks");
    if (g->quiet)
        return fake_refuse(e, WEFT_EINVAL, "a transfer is posted after quiesce");
    if (!fake_covered(e, x->mem, x->buf, x->bytes))
        return fake_refuse(e, WEFT_EINVAL, "the memory of a transfer is not registered");
    lane = lane_of(g, direction, x->peer, x->chan);
    if (lane->count >= (unsigned)e->settings->posts)
        return WEFT_EBUSY;
    state = g->hub->state[x->peer];
    if (state == ABORTED || (state == LEFT && direction == SENDS))
        return fake_refuse(e, WEFT_EPEER, "the peer has left");
    if (direction == SENDS || !x->background)
        fake_want_connection(g, x->peer);
    lane->count++;
    mask_of(g, direction, x->peer)[x->chan / 64] |= 1ull << (x->chan % 64);
    memset(x->priv, 0, sizeof x->priv);
    x->next = NULL;
    x->state = WEFT_XFER_PENDING;
    *lane->posted_last = x;
    lane->posted_last = &x->next;
    return WEFT_SUCCESS;
}

static weft_status fake_send(void *group, struct weft_xfer *x)
{
    pthread_mutex_lock(&fake_card);
    weft_status st = post(group, x, SENDS);
    pthread_mutex_unlock(&fake_card);
    return st;
}

static weft_status fake_recv(void *group, struct weft_xfer *x)
{
    pthread_mutex_lock(&fake_card);
    weft_status st = post(group, x, RECVS);
    pthread_mutex_unlock(&fake_card);
    return st;
}

/* ---- The card ---- */

static struct weft_xfer *take(struct weft_xfer **first, struct weft_xfer ***last)
{
    struct weft_xfer *x = *first;

    *first = x->next;
    if (!*first)
        *last = first;
    x->next = NULL;
    return x;
}

static void met(struct group *g, struct lane *lane, int state)
{
    struct weft_xfer *x = take(&lane->posted, &lane->posted_last);

    x->priv[PRIV_STATE] = (uint64_t)(int64_t)state;
    x->priv[PRIV_DELAY] = fake_draw(g->endpoint, (uint32_t)g->endpoint->settings->late + 1);
    *lane->done_last = x;
    lane->done_last = &x->next;
}

static void move(struct group *from, struct lane *out, struct group *to, struct lane *in)
{
    struct weft_xfer *s = out->posted, *r = in->posted;
    int state = WEFT_SUCCESS;

    r->actual = s->bytes;
    r->imm = s->imm;
    if (s->bytes > r->bytes)
        state = WEFT_ETRUNC;
    else if (s->bytes < r->bytes && !r->up_to)
        state = WEFT_EMISMATCH;
    if (!fake_covered(from->endpoint, s->mem, s->buf, s->bytes) ||
        !fake_covered(to->endpoint, r->mem, r->buf, r->bytes)) {
        met(from, out, WEFT_EINTERNAL);
        met(to, in, WEFT_EINTERNAL);
        return;
    }
    if (state == WEFT_SUCCESS && s->bytes)
        memcpy(r->buf, s->buf, s->bytes);
    met(from, out, WEFT_SUCCESS);
    met(to, in, state);
}

static int move_pair(struct group *from, struct group *to)
{
    uint64_t *out = mask_of(from, SENDS, to->rank), *in = mask_of(to, RECVS, from->rank);
    int events = 0;

    for (int w = 0; w < BITS; w++) {
        for (uint64_t both = out[w] & in[w]; both; both &= both - 1) {
            uint32_t chan = (uint32_t)(w * 64 + __builtin_ctzll(both));
            struct lane *o = lane_of(from, SENDS, to->rank, chan), *i = lane_of(to, RECVS, from->rank, chan);
            while (o->posted && i->posted && fake_draw(from->endpoint, 4)) {
                move(from, o, to, i);
                events++;
            }
        }
    }
    return events;
}

static int complete(struct group *g, int direction, int peer)
{
    uint64_t *mask = mask_of(g, direction, peer);
    int events = 0;

    for (int w = 0; w < BITS; w++) {
        for (uint64_t some = mask[w]; some; some &= some - 1) {
            uint32_t chan = (uint32_t)(w * 64 + __builtin_ctzll(some));
            struct lane *lane = lane_of(g, direction, peer, chan);
            while (lane->done && lane->done->priv[PRIV_DELAY]-- == 0) {
                struct weft_xfer *x = take(&lane->done, &lane->done_last);
                lane->count--;
                x->state = (int)(int64_t)x->priv[PRIV_STATE];
                events++;
            }
            if (!lane->count)
                mask[w] &= ~(1ull << (chan % 64));
        }
    }
    return events;
}

/* ---- Progress, and the end ---- */

static void end_lane(struct lane *lane, int state, int background_too)
{
    struct weft_xfer *kept = NULL, **last = &kept;

    while (lane->posted) {
        struct weft_xfer *x = take(&lane->posted, &lane->posted_last);
        if (x->background && !background_too) {
            *last = x;
            last = &x->next;
            continue;
        }
        lane->count--;
        x->state = state;
    }
    lane->posted = kept;
    lane->posted_last = kept ? last : &lane->posted;
}

static int wants(struct group *g, int peer)
{
    for (const struct weft_rma *r = g->rmas; r; r = r->next)
        if (r->peer == peer)
            return 1;
    for (uint32_t c = 0; c < g->nchans; c++) {
        for (const struct weft_xfer *x = lane_of(g, SENDS, peer, c)->posted; x; x = x->next)
            if (!x->background)
                return 1;
        for (const struct weft_xfer *x = lane_of(g, RECVS, peer, c)->posted; x; x = x->next)
            if (!x->background)
                return 1;
    }
    return 0;
}

void fake_give_up(struct group *g, int peer, int status, int background_too, struct weft_peer_failure *failure)
{
    g->reported[peer] = 1;
    for (uint32_t c = 0; c < g->nchans; c++) {
        end_lane(lane_of(g, SENDS, peer, c), status, 1);
        end_lane(lane_of(g, RECVS, peer, c), status, background_too);
    }
    fake_end_rmas(g, peer, status);
    failure->peer = peer;
    failure->status = (weft_status)status;
}

static int look_after(struct group *g, int peer, struct weft_peer_failure *failure)
{
    int state = g->hub->state[peer], aborted = state == ABORTED;

    if (g->reported[peer])
        return 0;
    if (state != ABORTED && (state != LEFT || !wants(g, peer)))
        return fake_take_response(g, peer, failure);
    fake_give_up(g, peer, WEFT_EPEER, aborted, failure);
    snprintf(failure->text, sizeof failure->text, "rank %d %s the communicator", peer, aborted ? "aborted" : "left");
    return failure->status;
}

static int fake_progress(void *group, struct weft_peer_failure *failure)
{
    struct group *g = group;
    int events = 0, failed = 0;

    pthread_mutex_lock(&fake_card);
    for (int p = 0; p < g->nranks; p++) {
        struct group *peer = g->hub->groups[p];
        if (!g->member[p])
            continue;
        if (peer && !peer->quiet && !g->quiet && fake_connected(g, peer))
            events += move_pair(g, peer) + (peer != g ? move_pair(peer, g) : 0);
        events += complete(g, SENDS, p) + complete(g, RECVS, p);
    }
    if (g->side && !g->quiet)
        events += fake_respond(g);
    for (int p = 0; p < g->nranks && !failed; p++) {
        int one = g->member[p] && p != g->rank ? look_after(g, p, failure) : 0;
        failed = one < 0 ? one : 0;
        events += one > 0;
    }
    events += g->rmas && !g->quiet ? fake_move_rmas(g) : 0;
    pthread_mutex_unlock(&fake_card);
    return failed ? failed : events;
}

static void fake_connect(void *group, int peer)
{
    struct group *g = group;

    pthread_mutex_lock(&fake_card);
    fake_want_connection(g, peer);
    pthread_mutex_unlock(&fake_card);
}

static size_t fake_describe(void *group, int peer, char *text, size_t capacity)
{
    static const char *const states[] = {"not connected", "connection data requested", "connected"};
    struct group *g = group;
    int n;

    pthread_mutex_lock(&fake_card);
    n = snprintf(text, capacity, NAME ": %s", states[g->link[peer]]);
    pthread_mutex_unlock(&fake_card);
    return n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}

static int fake_left(void *group, int peer)
{
    struct group *g = group;
    int left;

    pthread_mutex_lock(&fake_card);
    left = g->hub->state[peer] == LEFT;
    for (uint32_t c = 0; left && c < g->nchans; c++)
        left = !lane_of(g, RECVS, peer, c)->done; /* what has come and was not seen yet comes first */
    pthread_mutex_unlock(&fake_card);
    return left;
}

static weft_status fake_quiesce(void *group, uint64_t deadline_ns)
{
    struct group *g = group;

    (void)deadline_ns;
    pthread_mutex_lock(&fake_card);
    g->quiet = 1;
    for (int p = 0; p < g->nranks; p++)
        for (uint32_t c = 0; c < g->nchans; c++)
            for (int d = 0; d < 2; d++)
                end_lane(lane_of(g, d, p, c), WEFT_ECANCELED, 1);
    for (; g->rmas; g->rmas = g->rmas->next)
        g->rmas->state = WEFT_ECANCELED;
    pthread_mutex_unlock(&fake_card);
    return WEFT_SUCCESS;
}

/* ---- The one symbol ---- */

static const struct weft_setting rows[] = {
    {"POSTS", "4", WEFT_SETTING_INT, offsetof(struct fake_settings, posts), WEFT_POSTS_MIN, 1024,
     "Transfers of one channel and direction that may be posted, a number."},
    {"LATE", "2", WEFT_SETTING_INT, offsetof(struct fake_settings, late), 0, 1000,
     "Calls of progress by which completions are late at most, a number."},
    {"LARGEST", "1G", WEFT_SETTING_BYTES, offsetof(struct fake_settings, largest), 0, 0,
     "What may be registered in one piece at most, in bytes."},
    {"REACH", "all", WEFT_SETTING_WORD, offsetof(struct fake_settings, reach), 0, 0,
     "Who is reached: all, up (only who was opened later) or none, a word."},
    {"SIDE", "good", WEFT_SETTING_WORD, offsetof(struct fake_settings, side), 0, 0,
     "How this rank responds to others that want to connect: good, silent, wrong or large, a word."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .reachable = fake_reachable,
    .group_create = fake_group_create,
    .group_destroy = fake_group_destroy,
    .send = fake_send,
    .recv = fake_recv,
    .progress = fake_progress,
    .mem_register = fake_register,
    .mem_deregister = fake_deregister,
    .mem_key = fake_key,
    .mem_import = fake_import,
    .mem_forget = fake_forget,
    .get = fake_get,
    .put = fake_put,
    .quiesce = fake_quiesce,
    .left = fake_left,
#ifdef FAKE_MAPPED
    .mapped = fake_mapped,
    .sleep = fake_sleep,
#endif
    .connect = fake_connect,
    .describe_peer = fake_describe,
};

#define DESCRIBED                                                                                     \
    .abi = WEFT_PLUGIN_ABI, .bytes = sizeof weft_plugin, .kind = WEFT_PLUGIN_TRANSPORT, .name = NAME, \
    .summary = "a strict network card between threads; for tests", .settings = rows,                  \
    .settings_bytes = sizeof(struct fake_settings), .priority = 80, .ops = &ops, .info_bits = 32

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {DESCRIBED, .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_REGISTER | WEFT_CAP_GET |
                                                           WEFT_CAP_PUT | WEFT_CAP_SIDE | MORE};

/* For the suite of transports: what it does without the library's channels above it. */
extern const struct weft_plugin fake_rdma_alone;
const struct weft_plugin fake_rdma_alone = {DESCRIBED, .caps = WEFT_CAP_REGISTER | WEFT_CAP_GET | WEFT_CAP_PUT};
