/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of a two-sided schedule whose messages are parcels.
 *
 * Where ranks pass on what is not theirs (all_to_all_v by level) they cannot know how long it is. So a message begins with the
 * length of each block of its region, 8 bytes each, and then holds those blocks that are shorter than `below`: both ends know
 * how many lengths there are, and the receiver looks how long the whole is before it makes room. Longer parts go from their
 * source to their destination as an operation of their own; their lengths are told here all the same, so that a destination
 * which expects another length finds out whoever carried it.
 *
 * Blocks of scratch are not memory but say where a part lies: in SRC, or in a parcel that came in, which is kept until the
 * operation ends. A part is stored twice on its way: into the parcels that it travels in, and into DST. Nothing is cut
 * into slices. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"

struct wi_parcel {
    struct wi_parcel *next;
    unsigned char data[];
};

struct item {
    const unsigned char *at;
    uint64_t bytes;
};

struct wi_parcels {
    size_t below;
    struct wi_parcel *kept;
    struct item tmp[];
};

weft_status wi_parcels_create(struct wi_op *op, size_t below)
{
    size_t n = op->sched->buf_blocks[WI_TMP];

    op->parcels = wi_calloc(1, sizeof *op->parcels + n * sizeof(struct item));
    if (!op->parcels)
        return wi_fail(WEFT_ENOMEM, "%zu parts on their way through this rank", n);
    op->parcels->below = below;
    return WEFT_SUCCESS;
}

void wi_parcels_free(struct wi_op *op)
{
    struct wi_parcel *next;

    if (!op->parcels)
        return;
    for (struct wi_parcel *p = op->parcels->kept; p; p = next) {
        next = p->next;
        wi_free(p);
    }
    wi_free(op->parcels);
    op->parcels = NULL;
}

/* ---- Parts ---- */

static struct item part_at(const struct wi_op *op, const struct wi_region *r, uint32_t i)
{
    size_t block = r->first + i;

    if (r->buf == WI_TMP)
        return op->parcels->tmp[block];
    return (struct item){op->base[r->buf] + op->v_offset[r->buf][block], op->v_bytes[r->buf][block]};
}

/* DST: block s is what rank s sends to this one. */
static weft_status store(struct wi_exec *exec, struct wi_op *op, const struct wi_region *r, uint32_t i,
                         struct item part)
{
    size_t block = r->first + i;

    if (r->buf == WI_TMP) {
        op->parcels->tmp[block] = part;
        return WEFT_SUCCESS;
    }
    if (part.bytes != op->v_bytes[WI_DST][block])
        return wi_exec_fail(exec, WEFT_EMISMATCH, (int)block, &op->info,
                            "rank %zu sends %llu bytes to rank %d, which expects %zu bytes from it", block,
                            (unsigned long long)part.bytes, exec->rank, op->v_bytes[WI_DST][block]);
    if (part.bytes && part.bytes < op->parcels->below)
        memcpy(op->base[WI_DST] + op->v_offset[WI_DST][block], part.at, part.bytes);
    return WEFT_SUCCESS;
}

static weft_status run_copy(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st)
{
    const struct wi_region *src = &op->sched->regions[st->src];

    for (uint32_t d = 0; d < st->ndst; d++)
        for (uint32_t i = 0; i < src->count; i++)
            WI_TRY(store(exec, op, &op->sched->regions[st->dst + d], i, part_at(op, src, i)));
    return WEFT_SUCCESS;
}

/* ---- Sending ---- */

static size_t carried(const struct wi_op *op, uint64_t bytes)
{
    return bytes < op->parcels->below ? (size_t)bytes : 0;
}

static void pack(const struct wi_op *op, const struct wi_region *r, unsigned char *to)
{
    unsigned char *at = to + r->count * sizeof(uint64_t);

    for (uint32_t i = 0; i < r->count; i++) {
        struct item part = part_at(op, r, i);
        size_t n = carried(op, part.bytes);
        memcpy(to + i * sizeof part.bytes, &part.bytes, sizeof part.bytes);
        if (n)
            memcpy(at, part.at, n);
        at += n;
    }
}

static weft_status post_parcel(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_region *r)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_pend *p = wi_pend_get(exec), **link;
    size_t bytes = r->count * sizeof(uint64_t);
    weft_status st;

    for (uint32_t i = 0; i < r->count; i++)
        bytes += carried(op, part_at(op, r, i).bytes);
    if (p)
        p->bounce = wi_malloc(bytes);
    if (!p || !p->bounce) {
        if (p)
            wi_pend_put(exec, p);
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a parcel of %zu bytes", bytes);
    }
    pack(op, r, p->bounce);
    st = wi_lane_fill_xfer(exec, op, p, ln->send_peer, op->chan_base + ln->chan, p->bounce, bytes);
    p->x.granule = 1;
    if (st >= 0) {
        st = exec->peers[ln->send_peer].ops->send(exec->peers[ln->send_peer].group, &p->x);
        if (st < 0)
            wi_exec_fail(exec, st, ln->send_peer, &op->info, "sending to rank %d: %s", ln->send_peer, wi_fail_text());
    }
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    for (link = &op->lanes[lane].sends; *link; link = &(*link)->next)
        ;
    *link = p;
    return WEFT_SUCCESS;
}

/* ---- Receiving ---- */

static weft_status post_recv(struct wi_exec *exec, struct wi_op *op, uint32_t lane, size_t bytes)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_parcel *parcel = wi_malloc(sizeof *parcel + bytes);
    struct wi_pend *p = parcel ? wi_pend_get(exec) : NULL;
    weft_status st;

    if (!p) {
        wi_free(parcel);
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a parcel of %zu bytes from rank %d",
                            bytes, ln->recv_peer);
    }
    p->bounce = (unsigned char *)parcel;
    st = wi_lane_fill_xfer(exec, op, p, ln->recv_peer, op->chan_base + ln->chan, parcel->data, bytes);
    p->x.granule = 1;
    if (st >= 0) {
        st = exec->peers[ln->recv_peer].ops->recv(exec->peers[ln->recv_peer].group, &p->x);
        if (st < 0)
            wi_exec_fail(exec, st, ln->recv_peer, &op->info, "receiving from rank %d: %s", ln->recv_peer,
                         wi_fail_text());
    }
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    op->lanes[lane].recvs = p;
    return WEFT_SUCCESS;
}

/* 1: a receive is posted; 0: nothing has come. The length is a peer's word: no more than such a parcel can hold. */
static int look(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_region *r)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_exec_peer *peer = &exec->peers[ln->recv_peer];
    size_t bytes = 0, least = r->count * sizeof(uint64_t), most = r->count * (sizeof(uint64_t) + op->parcels->below);
    struct weft_op_info info;
    int got;

    if (!peer->group)
        return wi_exec_fail(exec, WEFT_EINTERNAL, ln->recv_peer, &op->info, "no transport serves rank %d",
                            ln->recv_peer);
    wi_exec_use_peer(exec, ln->recv_peer);
    got = peer->ops->peek(peer->group, ln->recv_peer, op->chan_base + ln->chan, 1, &info, &bytes);
    if (got == 0)
        return 0;
    if (got < 0)
        return wi_exec_fail(
            exec, (weft_status)got, ln->recv_peer, &op->info, "receiving from rank %d: %s", ln->recv_peer,
            got == WEFT_ENOTSUP
                ? "its transport cannot say how long a message is (WEFT_ALGO=all_to_all_v:pairwise does without)"
                : wi_fail_text());
    if (memcmp(&info, &op->info, sizeof info) != 0) {
        wi_exec_disagree(exec, ln->recv_peer, &op->info, &info);
        return WEFT_EMISMATCH;
    }
    if (bytes < least || bytes > most)
        return wi_exec_fail(exec, WEFT_EPROTO, ln->recv_peer, &op->info,
                            "a parcel of %zu bytes from rank %d, of %u parts, each shorter than %zu", bytes,
                            ln->recv_peer, r->count, op->parcels->below);
    WI_TRY(post_recv(exec, op, lane, bytes));
    return 1;
}

static weft_status unpack(struct wi_exec *exec, struct wi_op *op, int peer, const struct wi_region *r,
                          const unsigned char *data, size_t bytes)
{
    size_t at = r->count * sizeof(uint64_t);

    for (uint32_t i = 0; i < r->count; i++) {
        struct item part = {data + at, 0};
        memcpy(&part.bytes, data + i * sizeof part.bytes, sizeof part.bytes);
        if (carried(op, part.bytes) > bytes - at)
            return wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info,
                                "a parcel from rank %d is shorter than the lengths in it say", peer);
        at += carried(op, part.bytes);
        WI_TRY(store(exec, op, r, i, part));
    }
    if (at != bytes)
        return wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info,
                            "a parcel from rank %d is longer than the lengths in it say", peer);
    return WEFT_SUCCESS;
}

/* 1: the parcel is here and unpacked; 0: it is not; < 0: failed. */
static int run_recv(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_region *r, int *moved)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    struct wi_parcel *parcel;
    struct wi_pend *p;
    size_t bytes;

    if (!ls->recvs) {
        int got = look(exec, op, lane, r);
        if (got <= 0)
            return got;
        *moved = 1;
    }
    p = ls->recvs;
    if (p->x.state == WEFT_XFER_PENDING)
        return 0;
    if (p->x.state < 0)
        return wi_lane_recv_failed(exec, op, p);
    parcel = (struct wi_parcel *)p->bounce;
    bytes = p->x.bytes;
    p->bounce = NULL;
    parcel->next = op->parcels->kept;
    op->parcels->kept = parcel;
    ls->recvs = NULL;
    wi_pend_put(exec, p);
    WI_TRY(unpack(exec, op, op->sched->lanes[lane].recv_peer, r, parcel->data, bytes));
    return 1;
}

/* ---- The lane ---- */

static const struct wi_step *step_at(const struct wi_op *op, uint32_t lane, uint32_t step)
{
    return &op->sched->steps[op->sched->lanes[lane].first_step + step];
}

static int run_step(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *st, int *moved)
{
    const struct wi_region *regions = op->sched->regions;
    int got = 1;

    switch (st->kind) {
    case WI_STEP_NOP:
        return 1;
    case WI_STEP_COPY:
        WI_TRY(run_copy(exec, op, st));
        return 1;
    case WI_STEP_SEND:
        WI_TRY(post_parcel(exec, op, lane, &regions[st->src]));
        return 1;
    case WI_STEP_RECV:
        return run_recv(exec, op, lane, &regions[st->dst], moved);
    case WI_STEP_RECV_SEND:
        got = run_recv(exec, op, lane, &regions[st->dst], moved);
        if (got > 0)
            WI_TRY(post_parcel(exec, op, lane, &regions[st->dst]));
        return got;
    default:
        return wi_exec_fail(exec, WEFT_EINTERNAL, -1, &op->info, "algorithm %s reduces parcels", op->sched->algo);
    }
}

int wi_parcels_awaited(const struct wi_op *op, uint32_t lane)
{
    const struct wi_lane_state *ls = &op->lanes[lane];
    const struct wi_step *st;

    if (ls->step >= op->sched->lanes[lane].nsteps)
        return WI_NO_PEER;
    st = step_at(op, lane, ls->step);
    if ((st->kind != WI_STEP_RECV && st->kind != WI_STEP_RECV_SEND) || !wi_lane_dep_met(op, st, 0))
        return WI_NO_PEER;
    return op->sched->lanes[lane].recv_peer;
}

int wi_lane_run_parcels(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    int moved = 0;

    wi_lane_reap_sends(exec, op, ls, &moved);
    while (!exec->broken && ls->step < op->sched->lanes[lane].nsteps) {
        const struct wi_step *st = step_at(op, lane, ls->step);
        if (!wi_lane_dep_met(op, st, 0) || run_step(exec, op, lane, st, &moved) <= 0)
            return exec->broken ? 1 : moved;
        ls->step++;
        moved = 1;
    }
    if (exec->broken)
        return 1;
    wi_lane_reap_sends(exec, op, ls, &moved);
    if (!ls->sends && !ls->done) {
        ls->done = 1;
        op->nlanes_left--;
        moved = 1;
    }
    return moved;
}
