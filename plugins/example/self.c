/* SPDX-License-Identifier: BSD-3-Clause */
/* The example transport: messages from a rank to itself. Copy this file to begin a transport of your own.
 *
 * It is complete: everything a transport must do is here, for the smallest possible network. What a real one adds
 * is said where it would stand. It sees weft_plugin.h and nothing else of weft. */
#include <weft/weft_plugin.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parsed from WEFT_SELF_* before `open`: one row per field, see `rows` below. */
struct self_settings {
    int64_t max_queued;
};

/* One process's attachment to the network: sockets, devices. */
struct self_endpoint {
    const struct weft_host *host;
    const struct self_settings *settings;
    uint64_t nonce; /* tells this process from another with the same number, in another namespace or at another time */
};

/* What peers learn of this process. Fixed size, no pointers, checked before use. */
struct self_address {
    uint64_t pid, nonce;
};

struct self_queue {
    struct weft_xfer *first, **last;
};

/* One communicator: what is posted and has not met its other side. On a channel only one of the queues is ever
 * non-empty. A real transport has this per peer. */
struct self_group {
    struct self_endpoint *endpoint;
    int rank;
    int64_t queued;
    struct self_queue sends[WEFT_CHAN_MAX], recvs[WEFT_CHAN_MAX];
};

/* ---- Endpoint ---- */

static weft_status self_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct self_endpoint *self = calloc(1, sizeof *self);

    if (!self) {
        host->explain(host->impl, WEFT_ENOMEM, "self: no memory for an endpoint");
        return WEFT_ENOMEM;
    }
    self->host = host;
    self->settings = settings;
    self->nonce = host->now_ns() ^ (uint64_t)(uintptr_t)self;
    *endpoint = self;
    return WEFT_SUCCESS;
}

static void self_close(void *endpoint)
{
    free(endpoint);
}

static weft_status self_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    const struct self_endpoint *self = endpoint;
    struct self_address address = {(uint64_t)getpid(), self->nonce};

    if (capacity < sizeof address)
        return WEFT_EINVAL;
    memcpy(buf, &address, sizeof address);
    *bytes = sizeof address;
    return WEFT_SUCCESS;
}

/* The address came over the network: its length is checked before a byte of it is read. */
static int self_reachable(void *endpoint, const void *address, size_t bytes)
{
    const struct self_endpoint *self = endpoint;
    struct self_address theirs;

    if (bytes != sizeof theirs)
        return 0;
    memcpy(&theirs, address, sizeof theirs);
    return theirs.pid == (uint64_t)getpid() && theirs.nonce == self->nonce;
}

/* ---- Group ---- */

static weft_status self_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct self_endpoint *self = endpoint;
    struct self_group *made = calloc(1, sizeof *made);

    if (!made) {
        self->host->explain(self->host->impl, WEFT_ENOMEM, "self: no memory for a group");
        return WEFT_ENOMEM;
    }
    made->endpoint = self;
    made->rank = config->rank;
    for (int chan = 0; chan < WEFT_CHAN_MAX; chan++) {
        made->sends[chan].last = &made->sends[chan].first;
        made->recvs[chan].last = &made->recvs[chan].first;
    }
    *group = made;
    return WEFT_SUCCESS;
}

/* Pending transfers belong to the caller and are forgotten. With `aborted` a real transport tells its peers. */
static void self_group_destroy(void *group, int aborted)
{
    (void)aborted;
    free(group);
}

/* ---- Messages ---- */

static void queue_push(struct self_queue *queue, struct weft_xfer *x)
{
    x->next = NULL;
    *queue->last = x;
    queue->last = &x->next;
}

static struct weft_xfer *queue_pop(struct self_queue *queue)
{
    struct weft_xfer *x = queue->first;

    queue->first = x->next;
    if (!queue->first)
        queue->last = &queue->first;
    return x;
}

/* A disagreement fails the receive; the sender has done its part. States are stored last: whoever sees one may reuse
 * the transfer at once. */
static void deliver(struct weft_xfer *send, struct weft_xfer *recv)
{
    int state = WEFT_SUCCESS;

    recv->actual = send->bytes;
    if (memcmp(&send->info, &recv->info, sizeof send->info) != 0 || (send->bytes < recv->bytes && !recv->up_to)) {
        recv->peer_info = send->info;
        state = WEFT_EMISMATCH;
    } else if (send->bytes > recv->bytes) {
        state = WEFT_ETRUNC;
    } else if (recv->sink && send->bytes) {
        recv->sink(recv, 0, send->buf, send->bytes);
    } else if (send->bytes) {
        memcpy(recv->buf, send->buf, send->bytes);
    }
    send->state = WEFT_SUCCESS;
    recv->state = state;
}

static weft_status check(struct self_group *group, const struct weft_xfer *x)
{
    const struct weft_host *host = group->endpoint->host;

    if (x->peer != group->rank || x->chan >= WEFT_CHAN_MAX) {
        host->explain(host->impl, WEFT_EINVAL, "self: rank %d channel %u is not served", x->peer, x->chan);
        return WEFT_EINVAL;
    }
    if (group->queued >= group->endpoint->settings->max_queued) {
        host->explain(host->impl, WEFT_ENOMEM, "self: %lld transfers are waiting (WEFT_SELF_MAX_QUEUED)",
                      (long long)group->queued);
        return WEFT_ENOMEM;
    }
    return WEFT_SUCCESS;
}

static weft_status self_send(void *arg, struct weft_xfer *x)
{
    struct self_group *group = arg;
    weft_status status = check(group, x);

    if (status < 0)
        return status;
    x->state = WEFT_XFER_PENDING;
    if (group->recvs[x->chan].first) {
        group->queued--;
        deliver(x, queue_pop(&group->recvs[x->chan]));
    } else {
        group->queued++;
        queue_push(&group->sends[x->chan], x);
    }
    return WEFT_SUCCESS;
}

static weft_status self_recv(void *arg, struct weft_xfer *x)
{
    struct self_group *group = arg;
    weft_status status = check(group, x);

    if (status < 0)
        return status;
    x->state = WEFT_XFER_PENDING;
    if (group->sends[x->chan].first) {
        group->queued--;
        deliver(queue_pop(&group->sends[x->chan]), x);
    } else {
        group->queued++;
        queue_push(&group->recvs[x->chan], x);
    }
    return WEFT_SUCCESS;
}

/* Nothing is ever under way: posting delivers. A real transport moves its bytes here, and notices dead peers. */
static int self_progress(void *group, struct weft_peer_failure *failure)
{
    (void)group, (void)failure;
    return 0;
}

/* The oldest message that no posted receive will take. */
static int self_peek(void *arg, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    struct self_group *group = arg;
    const struct weft_xfer *x = peer == group->rank && chan < WEFT_CHAN_MAX ? group->sends[chan].first : NULL;

    (void)connect;
    if (!x)
        return 0;
    *info = x->info;
    *bytes = x->bytes;
    return 1;
}

/* ---- The one symbol ---- */

static const struct weft_setting rows[] = {
    {"MAX_QUEUED", "4096", WEFT_SETTING_INT, offsetof(struct self_settings, max_queued), 1, 1 << 20,
     "Transfers of one communicator that may wait for their other side, a number."},
    {NULL, NULL, WEFT_SETTING_BOOL, 0, 0, 0, NULL},
};

/* Entries that are left out become stubs that return WEFT_ENOTSUP. */
static const struct weft_transport_ops ops = {
    .bytes = sizeof ops,
    .open = self_open,
    .close = self_close,
    .address = self_address,
    .reachable = self_reachable,
    .group_create = self_group_create,
    .group_destroy = self_group_destroy,
    .send = self_send,
    .recv = self_recv,
    .progress = self_progress,
    .peek = self_peek,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_TRANSPORT,
    .name = "self",
    .summary = "messages from a rank to itself; an example",
    .settings = rows,
    .settings_bytes = sizeof(struct self_settings),
    /* Without one of the last three the library would send a header before each message. */
    .caps = WEFT_CAP_TWO_SIDED | WEFT_CAP_SINK | WEFT_CAP_PEEK | WEFT_CAP_INFO,
    .priority = 1,
    .ops = &ops,
};
