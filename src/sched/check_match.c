/* SPDX-License-Identifier: BSD-3-Clause */
/* Before anything runs: the ranks mean the same collective, every send has its receive, every wait its signal. */
#include "sched/check_internal.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"

static weft_status differ(const struct wi_sched *s, const char *what, long long mine, long long first)
{
    char where[WI_PLACE_TEXT_BYTES];

    return wi_fail(WEFT_EINVAL, "%s: %s is %lld, on rank 0 it is %lld",
                   wi_sched_place_text(s, WI_NOWHERE, WI_NOWHERE, where), what, mine, first);
}

static weft_status agree(const struct wi_sched *s, const struct wi_sched *first)
{
    if (s->coll != first->coll)
        return differ(s, "the collective's number", s->coll, first->coll);
    if (s->nranks != first->nranks)
        return differ(s, "the number of ranks", s->nranks, first->nranks);
    if (wi_coll_has_root(s->coll) && s->root != first->root)
        return differ(s, "root", s->root, first->root);
    if (s->in_place != first->in_place)
        return differ(s, "in_place", s->in_place, first->in_place);
    if (s->nblocks != first->nblocks)
        return differ(s, "the number of blocks", s->nblocks, first->nblocks);
    if (s->lossy != first->lossy)
        return differ(s, "how often it encodes", s->lossy, first->lossy);
    return WEFT_SUCCESS;
}

/* Ranks that use each other's memory must be laid out and run alike; one that does nothing is of any kind. */
static weft_status agree_mapped(const struct wi_sched *const scheds[], int nranks)
{
    const struct wi_sched *model = NULL;
    char where[WI_PLACE_TEXT_BYTES];

    for (int r = 0; r < nranks && !model; r++)
        model = scheds[r]->mapped ? scheds[r] : NULL;
    for (int r = 0; model && r < nranks; r++) {
        const struct wi_sched *s = scheds[r];
        wi_sched_place_text(s, WI_NOWHERE, WI_NOWHERE, where);
        if (s->buf_blocks[WI_TMP] != model->buf_blocks[WI_TMP])
            return wi_fail(WEFT_EINVAL, "%s: tmp has %u blocks, that of rank %d has %u; mapped ranks must agree", where,
                           s->buf_blocks[WI_TMP], model->rank, model->buf_blocks[WI_TMP]);
        for (uint32_t i = 0; !s->mapped && i < s->nlanes; i++) {
            if (s->lanes[i].send_peer != WI_NO_PEER || s->lanes[i].recv_peer != WI_NO_PEER)
                return wi_fail(WEFT_EINVAL, "%s: is two-sided, but rank %d has mapped steps", where, model->rank);
        }
        if (s->mapped && s->ll != model->ll)
            return wi_fail(WEFT_EINVAL, "%s: %s for ll lines, rank %d %s; mapped ranks must agree (no_ll)", where,
                           s->ll ? "is fit" : "is not fit", model->rank, model->ll ? "is" : "is not");
    }
    return WEFT_SUCCESS;
}

weft_status wi_check_agreement(const struct wi_sched *const scheds[], int nranks)
{
    struct wi_sched_place place;

    if (nranks < 1)
        return wi_fail(WEFT_EINVAL, "schedule check: %d ranks", nranks);
    for (int r = 0; r < nranks; r++) {
        if (!scheds[r])
            return wi_fail(WEFT_EINVAL, "schedule check: no schedule for rank %d", r);
        if (scheds[r]->rank != r)
            return wi_fail(WEFT_EINVAL, "schedule check: entry %d is the schedule of rank %d", r, scheds[r]->rank);
        if (scheds[r]->nranks != nranks)
            return wi_fail(WEFT_EINVAL, "schedule check: rank %d is one of %d ranks, not of %d", r, scheds[r]->nranks,
                           nranks);
        WI_TRY(agree(scheds[r], scheds[0]));
        WI_TRY(wi_sched_form(scheds[r], &place));
    }
    unsigned coll = scheds[0]->coll;
    if (coll == WI_COLL_SEND || coll == WI_COLL_RECV || coll == WI_COLL_SEND_RECV)
        return wi_fail(WEFT_EINVAL, "schedule check: %s is not a collective", wi_coll_name((enum wi_coll)coll));
    return agree_mapped(scheds, nranks);
}

/* ---- Channels ---- */

/* The receiving end of a channel. */
struct end {
    uint32_t to, from, chan, lane;
};

static int compare_ends(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->chan < y->chan ? -1 : x->chan > y->chan;
}

static int is_half(const struct wi_step *step, int send)
{
    return send ? wi_sched_is_send(step->kind) : wi_sched_is_recv(step->kind);
}

/* The next step from `pos` on that sends (or receives); the lane's length if there is none. */
static uint32_t next_half(const struct wi_check_lane *l, uint32_t pos, int send)
{
    while (pos < l->def->nsteps && !is_half(&l->steps[pos], send))
        pos++;
    return pos;
}

static uint32_t message_blocks(const struct wi_check *c, const struct wi_check_lane *l, uint32_t pos)
{
    const struct wi_step *step = &l->steps[pos];

    return c->scheds[l->rank]->regions[step->ndst ? step->dst : step->src].count;
}

/* Walk both ends at once. A missing end has no steps. */
static weft_status pair(struct wi_check *c, uint32_t sender, uint32_t receiver)
{
    const struct wi_check_lane *a = sender == WI_NONE ? NULL : &c->lanes[sender];
    struct wi_check_lane *b = receiver == WI_NONE ? NULL : &c->lanes[receiver];
    char text[WI_PLACE_TEXT_BYTES];

    for (uint32_t i = 0, k = 0;; i++, k++) {
        i = a ? next_half(a, i, 1) : 0;
        k = b ? next_half(b, k, 0) : 0;
        int more_a = a && i < a->def->nsteps, more_b = b && k < b->def->nsteps;
        if (!more_a && !more_b)
            return WEFT_SUCCESS;
        if (!more_b)
            return wi_check_fail(c, sender, i, "rank %d never receives this on channel %u", a->def->send_peer,
                                 a->def->chan);
        if (!more_a)
            return wi_check_fail(c, receiver, k, "rank %d never sends this on channel %u", b->def->recv_peer,
                                 b->def->chan);
        uint32_t sent = message_blocks(c, a, i), received = message_blocks(c, b, k);
        if (sent != received)
            return wi_check_fail(c, sender, i, "sends %u blocks, but %s receives %u", sent,
                                 wi_check_step_text(c, receiver, k, text), received);
        if (sent > b->inbox.capacity)
            b->inbox.capacity = sent;
    }
}

static weft_status connect_lanes(struct wi_check *c, struct end *ends)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->nlanes; i++) {
        const struct wi_check_lane *l = &c->lanes[i];
        if (l->def->recv_peer != WI_NO_PEER)
            ends[n++] = (struct end){l->rank, (uint32_t)l->def->recv_peer, l->def->chan, i};
    }
    qsort(ends, n, sizeof(*ends), compare_ends);
    for (uint32_t i = 0; i < c->nlanes; i++) {
        struct wi_check_lane *l = &c->lanes[i];
        if (l->def->send_peer == WI_NO_PEER)
            continue;
        struct end key = {(uint32_t)l->def->send_peer, l->rank, l->def->chan, 0};
        const struct end *end = bsearch(&key, ends, n, sizeof(*ends), compare_ends);
        if (end) {
            l->to = end->lane;
            c->lanes[end->lane].from = i;
        }
        WI_TRY(pair(c, i, l->to));
    }
    for (uint32_t i = 0; i < c->nlanes; i++) {
        if (c->lanes[i].from == WI_NONE)
            WI_TRY(pair(c, WI_NONE, i));
    }
    return WEFT_SUCCESS;
}

/* ---- Signals and dependencies: whose clock will be asked for ---- */

static weft_status want_signal(struct wi_check *c, uint32_t lane, uint32_t pos)
{
    const struct wi_step *step = &c->lanes[lane].steps[pos];
    uint32_t first = c->rank_lanes[step->peer], n = c->rank_lanes[step->peer + 1] - first;

    if (step->lane >= n)
        return wi_check_fail(c, lane, pos, "waits for lane %u of rank %d, which has %u lanes", step->lane, step->peer,
                             n);
    const struct wi_check_lane *other = &c->lanes[first + step->lane];
    for (uint32_t k = 0; k < other->def->nsteps; k++) {
        if (other->steps[k].kind == WI_STEP_SIGNAL && other->steps[k].ordinal == step->ordinal) {
            c->saved[other->first + k].wanted = 1;
            return WEFT_SUCCESS;
        }
    }
    return wi_check_fail(c, lane, pos, "waits for signal %u of rank %d lane %u, which is never given", step->ordinal,
                         step->peer, step->lane);
}

weft_status wi_check_match(struct wi_check *c)
{
    struct end *ends = wi_malloc((c->nlanes + (size_t)1) * sizeof(*ends));
    if (!ends)
        return wi_check_nomem(c);
    weft_status st = connect_lanes(c, ends);
    wi_free(ends);
    WI_TRY(st);
    for (uint32_t i = 0; i < c->nlanes; i++) {
        const struct wi_check_lane *l = &c->lanes[i];
        for (uint32_t k = 0; k < l->def->nsteps; k++) {
            const struct wi_step *step = &l->steps[k];
            if (step->kind == WI_STEP_WAIT)
                WI_TRY(want_signal(c, i, k));
            if (step->dep_lane >= 0) {
                uint32_t dep = c->rank_lanes[l->rank] + (uint32_t)step->dep_lane;
                c->saved[c->lanes[dep].first + step->dep_step].wanted = 1;
            }
        }
    }
    return WEFT_SUCCESS;
}
