/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag matching: sends, receives, and the unexpected messages. The protocol is in match.h. */
#include "exec/match.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"
#include "exec/transfer.h"

#define EARLY_COST 128 /* bytes of an unexpected message besides its payload */

/* An unexpected message: no receive matches it yet. */
struct early {
    struct early *next;
    struct weft_op_info info;
    uint64_t arrival;
    unsigned char data[]; /* none of an RTS */
};

struct wi_match_peer {
    uint32_t sent;                    /* messages with a tag to this rank so far */
    struct early *early, **early_end; /* oldest first */
    size_t early_bytes;
    struct early *taking; /* the newest, while it comes; its receive: */
    struct wi_pend *taking_from;
    struct wi_op *awaiting_cts, **awaiting_cts_end; /* sends, oldest first */
};

static struct wi_match_peer *match_peer(struct wi_exec *exec, int peer)
{
    struct wi_match_peer **m = &exec->peers[peer].match;

    if (*m)
        return *m;
    *m = wi_calloc(1, sizeof **m);
    if (*m) {
        (*m)->early_end = &(*m)->early;
        (*m)->awaiting_cts_end = &(*m)->awaiting_cts;
    }
    return *m;
}

static size_t payload_bytes(const struct weft_op_info *info)
{
    return info->count * weft_dtype_bytes((weft_dtype)info->dtype);
}

/* ---- Transfers ---- */

static struct wi_pend *post(struct wi_exec *exec, struct wi_op *op, int sending, int peer, uint32_t chan, void *buf,
                            size_t bytes, const struct weft_op_info *info)
{
    struct wi_pend *p = wi_pend_get(exec);

    if (!p) {
        wi_exec_fail(exec, WEFT_ENOMEM, -1, op ? &op->info : info, "out of memory for a transfer");
        return NULL;
    }
    p->op = op;
    p->x.buf = buf;
    p->x.bytes = bytes;
    p->x.peer = peer;
    p->x.chan = chan;
    p->x.info = *info;
    p->x.granule = 1;
    p->x.state = WEFT_XFER_PENDING;
    wi_exec_use_peer(exec, peer);
    if (wi_pend_post(exec, p, sending) >= 0)
        return p;
    wi_pend_put(exec, p);
    return NULL;
}

/* The payload of `op`, whose head is `info`. 0: it could not be posted, and op has ended. */
static int post_payload(struct wi_exec *exec, struct wi_op *op, int peer, uint32_t chan,
                        const struct weft_op_info *info)
{
    void *buf = op->bind.base[op->match.sending ? WI_SRC : WI_DST];

    op->match.message = post(exec, op, op->match.sending, peer, chan, buf, op->bind.block_bytes, info);
    if (op->match.message)
        return 1;
    if (!exec->broken)
        wi_op_finish(exec, op, exec->error.status);
    return 0;
}

/* An empty message of this protocol: no operation waits for it. */
static void post_control(struct wi_exec *exec, int sending, int peer, uint32_t chan, const struct weft_op_info *info)
{
    struct wi_pend *p = post(exec, NULL, sending, peer, chan, NULL, 0, info);

    if (!p)
        return;
    p->next = exec->control;
    exec->control = p;
}

static int reap_control(struct wi_exec *exec)
{
    struct wi_pend **link = &exec->control, *p;
    int moved = 0;

    while ((p = *link) != NULL) {
        if (p->x.state == WEFT_XFER_PENDING) {
            link = &p->next;
            continue;
        }
        if (p->x.state < 0)
            wi_exec_fail(exec, p->x.state, p->x.peer, &p->x.info, "message with rank %d: %s", p->x.peer,
                         wi_fail_text());
        *link = p->next;
        wi_pend_put(exec, p);
        moved = 1;
    }
    return moved;
}

/* ---- Messages without a tag ---- */

/* Their receives are matched by the transport, in order. */
static void post_untagged(struct wi_exec *exec, struct wi_op *op)
{
    post_payload(exec, op, op->match.peer, op->match.internal ? WI_CHAN_INTERNAL : WI_CHAN_P2P, &op->info);
}

/* ---- Sending ---- */

static void send_message(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_match_peer *m = match_peer(exec, op->match.peer);

    if (!m) {
        wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for messages to rank %d", op->match.peer);
        return;
    }
    op->info.seq = ++m->sent;
    if (op->bind.block_bytes <= exec->eager_bytes) {
        post_payload(exec, op, op->match.peer, WI_CHAN_TAG, &op->info);
        return;
    }
    op->info.flags |= WI_INFO_RTS;
    post_control(exec, 1, op->match.peer, WI_CHAN_TAG, &op->info);
    op->match.next = NULL;
    *m->awaiting_cts_end = op;
    m->awaiting_cts_end = &op->match.next;
    exec->nawaiting_cts++;
}

static struct wi_op *take_awaiting_cts(struct wi_match_peer *m, uint32_t seq)
{
    for (struct wi_op **at = &m->awaiting_cts; *at; at = &(*at)->match.next) {
        struct wi_op *op = *at;
        if (op->info.seq != seq)
            continue;
        *at = op->match.next;
        if (m->awaiting_cts_end == &op->match.next)
            m->awaiting_cts_end = at;
        return op;
    }
    return NULL;
}

/* Which messages has the receiver cleared to send? */
static int look_cts(struct wi_exec *exec, int peer)
{
    struct wi_exec_peer *ep = &exec->peers[peer];
    struct weft_op_info info;
    size_t bytes;
    int r, moved = 0;

    while (!exec->broken && ep->match->awaiting_cts &&
           (r = ep->ops->peek(ep->group, peer, WI_CHAN_CTS, 1, &info, &bytes))) {
        struct wi_op *op = r > 0 && info.flags == WI_INFO_CTS && !bytes ? take_awaiting_cts(ep->match, info.seq) : NULL;
        if (r < 0) {
            op = take_awaiting_cts(ep->match, ep->match->awaiting_cts->info.seq);
            exec->nawaiting_cts--;
            wi_exec_fail(exec, (weft_status)r, peer, &op->info, "sending to rank %d: %s", peer,
                         r == WEFT_ENOTSUP ? "its transport cannot say what it wants" : wi_fail_text());
            if (!exec->broken)
                wi_op_finish(exec, op, (weft_status)r);
        } else if (!op) {
            wi_exec_fail(exec, WEFT_EPROTO, peer, NULL, "rank %d clears a message to send that was not announced",
                         peer);
        } else {
            exec->nawaiting_cts--;
            post_control(exec, 0, peer, WI_CHAN_CTS, &info);
            op->info.flags &= (uint8_t)~WI_INFO_RTS;
            if (!exec->broken)
                post_payload(exec, op, peer, WI_CHAN_RNDV, &op->info);
        }
        moved = 1;
    }
    return moved;
}

/* ---- Matching ---- */

static struct wi_op *find_wanting(const struct wi_exec *exec, int source, int64_t tag)
{
    struct wi_op *op = exec->wanting;

    while (op && !wi_match_takes(op->match.peer, op->match.tag, source, tag))
        op = op->match.next;
    return op;
}

static void unlink_wanting(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_op **at = &exec->wanting;

    while (*at != op)
        at = &(*at)->match.next;
    *at = op->match.next;
    if (exec->wanting_end == &op->match.next)
        exec->wanting_end = at;
}

int wi_match_wanted(const struct wi_exec *exec, int source)
{
    return find_wanting(exec, source, 0) != NULL;
}

struct wi_op *wi_match_self(struct wi_exec *exec, int64_t tag, uint64_t before)
{
    struct wi_op *op = find_wanting(exec, exec->rank, tag);

    if (!op || op->match.order > before)
        return NULL;
    unlink_wanting(exec, op);
    return op;
}

/* What arrived is not trusted. */
static int sound(struct wi_exec *exec, int peer, const struct weft_op_info *info, size_t bytes)
{
    int rts = info->flags & WI_INFO_RTS;

    if (info->kind == WI_COLL_SEND && info->dtype < WEFT_NUM_DTYPES && info->count <= SIZE_MAX / 16 &&
        bytes == (rts ? 0 : payload_bytes(info)) && (!(info->flags & WI_INFO_TAG) || wi_info_tag(info) > 0))
        return 1;
    wi_exec_fail(exec, WEFT_EPROTO, peer, NULL, "rank %d sent a message whose head is malformed", peer);
    return 0;
}

/* op gets that message: do both sides agree on type and length? */
static int agreed(struct wi_exec *exec, struct wi_op *op, int peer, const struct weft_op_info *info)
{
    struct weft_op_info ours = op->info;

    wi_exec_use_peer(exec, peer); /* what follows may be a failure that it must hear of */
    op->info.seq = info->seq;
    op->info.root = info->root;
    op->info.hash = info->hash;
    op->info.flags = info->flags & (uint8_t)~WI_INFO_RTS;
    op->match.got_source = peer;
    op->match.got_tag = wi_info_tag(info);
    if (op->record && op->record->serial == op->record_serial) {
        op->record->info = op->info;
        op->record->peer = peer;
    }
    if (info->dtype == ours.dtype && info->count == ours.count)
        return 1;
    wi_exec_disagree(exec, peer, &op->info, info);
    return 0;
}

/* The payload of a message that was announced: receive first, then clear it to send. */
static void clear_to_send(struct wi_exec *exec, struct wi_op *op, int peer)
{
    struct weft_op_info cts = {.seq = op->info.seq, .kind = WI_COLL_SEND, .flags = WI_INFO_CTS};

    if (post_payload(exec, op, peer, WI_CHAN_RNDV, &op->info))
        post_control(exec, 1, peer, WI_CHAN_CTS, &cts);
}

static void take_early(struct wi_exec *exec, struct wi_op *op, int peer, struct early *e)
{
    if (!agreed(exec, op, peer, &e->info))
        return;
    if (e->info.flags & WI_INFO_RTS) {
        clear_to_send(exec, op, peer);
        return;
    }
    memcpy(op->bind.base[WI_DST], e->data, op->bind.block_bytes);
    wi_op_finish(exec, op, WEFT_SUCCESS);
}

/* The link to the oldest unexpected message that a receive matches; of any source, the one that arrived first. */
static struct early **find_early(const struct wi_exec *exec, int source, int64_t tag, int *peer)
{
    struct early **found = NULL;
    int from = source == WEFT_ANY_SOURCE ? 0 : source, to = source == WEFT_ANY_SOURCE ? exec->nranks - 1 : source;

    for (int r = from; r <= to; r++) {
        struct wi_match_peer *m = exec->peers[r].match;
        struct early **at = m ? &m->early : NULL;
        while (at && *at && !wi_match_takes(source, tag, r, wi_info_tag(&(*at)->info)))
            at = &(*at)->next;
        if (!at || !*at || (found && (*found)->arrival < (*at)->arrival))
            continue;
        found = at;
        *peer = r;
    }
    return found;
}

static void drop_early(struct wi_match_peer *m, struct early **at)
{
    struct early *e = *at;

    *at = e->next;
    if (m->early_end == &e->next)
        m->early_end = at;
    m->early_bytes -= EARLY_COST + (e->info.flags & WI_INFO_RTS ? 0 : payload_bytes(&e->info));
    wi_free(e);
}

static void append_early(struct wi_match_peer *m, struct early *e)
{
    e->next = NULL;
    *m->early_end = e;
    m->early_end = &e->next;
}

/* ---- Reading channels ---- */

/* Receive the probed message in place. */
static void land(struct wi_exec *exec, struct wi_op *op, int peer, uint32_t chan, const struct weft_op_info *info)
{
    unlink_wanting(exec, op);
    if (!agreed(exec, op, peer, info))
        return;
    if (!(info->flags & WI_INFO_RTS)) {
        post_payload(exec, op, peer, chan, info);
        return;
    }
    post_control(exec, 0, peer, chan, info);
    if (!exec->broken)
        clear_to_send(exec, op, peer);
}

/* Put the probed message aside. 0: there is no room. */
static int put_aside(struct wi_exec *exec, int peer, const struct weft_op_info *info)
{
    struct wi_match_peer *m = exec->peers[peer].match;
    size_t bytes = info->flags & WI_INFO_RTS ? 0 : payload_bytes(info);
    struct early *e;

    if (m->early_bytes + EARLY_COST + bytes > exec->early_bytes)
        return 0;
    e = wi_malloc(sizeof *e + bytes);
    if (!e)
        return 0;
    e->info = *info;
    e->arrival = exec->arrivals++;
    m->early_bytes += EARLY_COST + bytes;
    if (bytes) {
        m->taking = e;
        m->taking_from = post(exec, NULL, 0, peer, WI_CHAN_TAG, e->data, bytes, info);
        return 1;
    }
    post_control(exec, 0, peer, WI_CHAN_TAG, info);
    append_early(m, e);
    return 1;
}

/* A message that is being put aside: has it arrived? A matching receive may have been issued meanwhile. */
static int end_taking(struct wi_exec *exec, int peer)
{
    struct wi_match_peer *m = exec->peers[peer].match;
    struct early *e = m->taking;
    struct wi_op *op;
    int state;

    if (!m->taking_from || m->taking_from->x.state == WEFT_XFER_PENDING)
        return 0;
    state = m->taking_from->x.state;
    wi_pend_put(exec, m->taking_from);
    m->taking_from = NULL;
    m->taking = NULL;
    append_early(m, e);
    if (state < 0) {
        wi_exec_fail(exec, (weft_status)state, peer, &e->info, "receiving from rank %d: %s", peer, wi_fail_text());
        return 0;
    }
    op = find_wanting(exec, peer, wi_info_tag(&e->info));
    if (op) {
        struct early **at = &m->early;
        while (*at != e)
            at = &(*at)->next;
        unlink_wanting(exec, op);
        take_early(exec, op, peer, e);
        drop_early(m, at);
    }
    return 1;
}

/* Read all messages with a tag that have arrived. 1: something moved; 0: nothing; < 0: why nothing will arrive any more. */
static int look_tagged(struct wi_exec *exec, int peer)
{
    struct wi_exec_peer *ep = &exec->peers[peer];
    struct wi_match_peer *m = match_peer(exec, peer);
    struct weft_op_info info;
    struct wi_op *op;
    size_t bytes;
    int r, moved = 0;

    if (!m)
        return WEFT_ENOMEM;
    while (!exec->broken) {
        if (m->taking && !end_taking(exec, peer))
            return moved;
        if (exec->broken)
            break;
        r = ep->ops->peek(ep->group, peer, WI_CHAN_TAG, 1, &info, &bytes);
        if (r <= 0)
            return moved ? moved : r;
        if (!sound(exec, peer, &info, bytes))
            break;
        op = find_wanting(exec, peer, wi_info_tag(&info));
        if (op)
            land(exec, op, peer, WI_CHAN_TAG, &info);
        else if (!put_aside(exec, peer, &info))
            return moved;
        moved = 1;
    }
    return moved;
}

/* One message without a tag, for a receive from any rank or with any tag, or one that was issued after such a one. */
static int look_untagged(struct wi_exec *exec, int peer, int connect)
{
    struct wi_exec_peer *ep = &exec->peers[peer];
    struct wi_op *op = find_wanting(exec, peer, 0);
    struct weft_op_info info;
    size_t bytes;
    int r;

    if (!op)
        return 0;
    r = ep->ops->peek(ep->group, peer, WI_CHAN_P2P, connect, &info, &bytes);
    if (r <= 0 || !sound(exec, peer, &info, bytes))
        return r < 0 ? r : 0;
    if (info.flags || info.seq != ep->recv_seq + 1) {
        wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info, "rank %d sent message #%u after #%u", peer, info.seq,
                     ep->recv_seq);
        return 1;
    }
    ep->recv_seq++;
    land(exec, op, peer, WI_CHAN_P2P, &info);
    return 1;
}

/* ---- Receives that nothing can match any more ---- */

struct looked {
    int tagged, untagged; /* what the looks at one rank said */
};

static int cannot_match(const struct wi_op *op, struct looked l)
{
    if (op->match.tag == 0)
        return l.untagged < 0 ? l.untagged : 0;
    if (op->match.tag == WEFT_ANY_TAG && l.untagged >= 0)
        return 0;
    return l.tagged < 0 ? l.tagged : 0;
}

/* Returns 1 when an operation ended or the communicator broke. */
static int give_up(struct wi_exec *exec, int peer, struct looked l)
{
    for (struct wi_op *op = exec->wanting; op; op = op->match.next) {
        int why = op->match.peer == peer || op->match.peer == WEFT_ANY_SOURCE ? cannot_match(op, l) : 0;
        if (why == WEFT_ENOTSUP) {
            unlink_wanting(exec, op);
            wi_exec_fail(exec, WEFT_ENOTSUP, peer, &op->info,
                         "the transport to rank %d has neither tags nor receives from any rank", peer);
            wi_op_finish(exec, op, WEFT_ENOTSUP);
            return 1;
        }
        if (why && op->match.peer == WEFT_ANY_SOURCE) { /* others may still send */
            if (++op->match.gone < exec->nranks - 1)
                continue;
        }
        if (why) {
            wi_exec_fail(exec, (weft_status)why, peer, &op->info, "receiving from rank %d: %s", peer, wi_fail_text());
            return 1;
        }
    }
    return 0;
}

/* ---- Progress ---- */

static int wants_tagged(const struct wi_exec *exec, int peer)
{
    const struct wi_op *op = exec->wanting;

    while (op && (op->match.tag == 0 || (op->match.peer != WEFT_ANY_SOURCE && op->match.peer != peer)))
        op = op->match.next;
    return op != NULL;
}

static int look_at(struct wi_exec *exec, int peer, int connect)
{
    struct looked l = {0, 0};

    if (!exec->peers[peer].group || peer == exec->rank)
        return 0;
    if (wants_tagged(exec, peer))
        l.tagged = look_tagged(exec, peer);
    if (!exec->broken)
        l.untagged = look_untagged(exec, peer, connect);
    if (exec->broken || l.tagged > 0 || l.untagged > 0)
        return 1;
    return l.tagged < 0 || l.untagged < 0 ? give_up(exec, peer, l) : 0;
}

static int look_around(struct wi_exec *exec)
{
    const struct wi_op *op;
    int moved = 0, any = 0, few = 0;
    int peers[8];

    for (struct wi_op *w = exec->wanting; w; w = w->match.next) {
        int known = 0;
        w->match.gone = 0;
        any |= w->match.peer == WEFT_ANY_SOURCE;
        for (int i = 0; i < few && !known; i++)
            known = peers[i] == w->match.peer;
        if (any || known)
            continue;
        if (few == (int)(sizeof peers / sizeof *peers))
            any = 1; /* counts as any source */
        else
            peers[few++] = w->match.peer;
    }
    for (int i = 0; !any && i < few && !exec->broken; i++)
        moved |= look_at(exec, peers[i], 1);
    for (int r = 0; any && r < exec->nranks && !exec->broken; r++) {
        for (op = exec->wanting; op && op->match.peer != r; op = op->match.next)
            ;
        moved |= look_at(exec, r, op != NULL);
    }
    return moved;
}

int wi_match_progress(struct wi_exec *exec)
{
    int moved = exec->control ? reap_control(exec) : 0;

    for (int r = 0; exec->nawaiting_cts && r < exec->nranks && !exec->broken; r++)
        if (exec->peers[r].match && exec->peers[r].match->awaiting_cts)
            moved |= look_cts(exec, r);
    if (exec->wanting && !exec->broken)
        moved |= look_around(exec);
    return moved;
}

void wi_match_issue(struct wi_exec *exec, struct wi_op *op)
{
    struct early **at;
    int peer;

    if (!op->match.by_tag) {
        post_untagged(exec, op);
        return;
    }
    if (op->match.sending) {
        send_message(exec, op);
        return;
    }
    at = find_early(exec, op->match.peer, op->match.tag, &peer);
    if (at) {
        struct early *e = *at;
        take_early(exec, op, peer, e);
        drop_early(exec->peers[peer].match, at);
        return;
    }
    if (op->match.peer == WEFT_ANY_SOURCE && wi_exec_take_self(exec, op))
        return;
    if (op->match.peer != WEFT_ANY_SOURCE)
        wi_exec_use_peer(exec, op->match.peer);
    op->match.next = NULL;
    *exec->wanting_end = op;
    exec->wanting_end = &op->match.next;
}

int wi_match_run(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_pend *p = op->match.message;

    if (!p || p->x.state == WEFT_XFER_PENDING)
        return 0;
    if (p->x.state >= 0) {
        wi_op_finish(exec, op, WEFT_SUCCESS);
        return 1;
    }
    if (op->match.sending)
        wi_exec_fail(exec, p->x.state, p->x.peer, &op->info, "sending to rank %d: %s", p->x.peer, wi_fail_text());
    else
        wi_recv_failed(exec, op, p);
    if (!exec->broken) /* it may live on: a message that is too long ends its own receive */
        wi_op_finish(exec, op, p->x.state);
    return 1;
}

/* ---- Probing ---- */

static int probe_channels(struct wi_exec *exec, int peer, int64_t tag, int connect, struct wi_match_found *found)
{
    struct wi_exec_peer *ep = &exec->peers[peer];
    struct looked l = {0, 0};
    size_t bytes;
    struct wi_op as = {.match.tag = tag};

    found->source = peer;
    if (tag != 0) { /* what is left in the channel found no room */
        l.tagged = ep->ops->peek(ep->group, peer, WI_CHAN_TAG, connect, &found->info, &bytes);
        if (l.tagged > 0 &&
            (!ep->match || ep->match->taking || !wi_match_takes(peer, tag, peer, wi_info_tag(&found->info))))
            l.tagged = 0;
    }
    if (l.tagged <= 0 && (tag == 0 || tag == WEFT_ANY_TAG) && !wi_match_wanted(exec, peer))
        l.untagged = ep->ops->peek(ep->group, peer, WI_CHAN_P2P, connect, &found->info, &bytes);
    found->tag = wi_info_tag(&found->info);
    return l.tagged > 0 || l.untagged > 0 ? 1 : cannot_match(&as, l);
}

int wi_match_probe(struct wi_exec *exec, int source, int64_t tag, struct wi_match_found *found)
{
    int from = source == WEFT_ANY_SOURCE ? 0 : source, to = source == WEFT_ANY_SOURCE ? exec->nranks - 1 : source;
    int failure = 0, failed = 0, peer, r;
    struct early **at;

    for (r = from; r <= to && tag != 0 && !exec->broken; r++)
        if (r != exec->rank && exec->peers[r].group)
            look_tagged(exec, r);
    if (exec->broken)
        return exec->broken;
    at = find_early(exec, source, tag, &peer);
    if (at) {
        *found = (struct wi_match_found){peer, wi_info_tag(&(*at)->info), (*at)->info};
        return 1;
    }
    for (const struct wi_op *op = exec->self_sends; op; op = op->next)
        if (wi_match_takes(source, tag, exec->rank, op->match.tag)) {
            *found = (struct wi_match_found){exec->rank, op->match.tag, op->info};
            return 1;
        }
    for (r = from; r <= to; r++) {
        int got = r != exec->rank && exec->peers[r].group
                      ? probe_channels(exec, r, tag, source != WEFT_ANY_SOURCE, found)
                      : 0;
        if (got > 0 && tag != 0) { /* it may have arrived since: then it has its place among those that did */
            look_tagged(exec, r);
            at = exec->broken ? NULL : find_early(exec, source, tag, &peer);
        }
        if (at)
            break;
        if (exec->broken)
            return exec->broken;
        if (got > 0)
            return sound(exec, r, &found->info, found->info.flags & WI_INFO_RTS ? 0 : payload_bytes(&found->info))
                       ? 1
                       : exec->broken;
        failure = got < 0 ? got : failure;
        failed += got < 0;
    }
    if (at) {
        *found = (struct wi_match_found){peer, wi_info_tag(&(*at)->info), (*at)->info};
        return 1;
    }
    return failed && failed == to - from + (source != WEFT_ANY_SOURCE) ? failure : 0;
}

/* ---- Words, and the end ---- */

void wi_match_text(const struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity)
{
    const struct wi_match_peer *m;
    int at = snprintf(text, capacity, "a message");

    if (op->match.sending || op->match.message || exec->wanting == NULL) {
        text[0] = '\0';
        return;
    }
    if (op->match.tag == WEFT_ANY_TAG)
        at += snprintf(text + at, capacity - (size_t)at, " with any tag");
    else
        at += snprintf(text + at, capacity - (size_t)at, " with tag %lld", (long long)op->match.tag);
    at += snprintf(text + at, capacity - (size_t)at, op->match.peer < 0 ? " from any rank" : " from");
    for (int r = 0; r < exec->nranks; r++) {
        m = exec->peers[r].match;
        if (m && (op->match.peer < 0 || op->match.peer == r) &&
            m->early_bytes + EARLY_COST + exec->eager_bytes > exec->early_bytes && (size_t)at < capacity)
            at += snprintf(text + at, capacity - (size_t)at,
                           " (%zu bytes that rank %d sent with other tags fill WEFT_COMM_EARLY_BYTES)", m->early_bytes,
                           r);
    }
}

void wi_match_free(struct wi_exec *exec)
{
    for (struct wi_pend *p = exec->control, *next; p; p = next) {
        next = p->next;
        wi_pend_put(exec, p);
    }
    for (int r = 0; exec->peers && r < exec->nranks; r++) {
        struct wi_match_peer *m = exec->peers[r].match;
        if (!m)
            continue;
        while (m->early)
            drop_early(m, &m->early);
        if (m->taking_from)
            wi_pend_put(exec, m->taking_from);
        wi_free(m->taking);
        wi_free(m);
    }
}
