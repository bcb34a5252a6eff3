/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed messages: sends and receives of a lane whose messages carry the lengths of their blocks.
 *
 * Ranks that forward other ranks' data (all_to_all_v by level) cannot know its length. So a message begins with the length of each
 * block of its region, 8 bytes each, followed by those blocks that are shorter than `below`. Both ends know how many lengths there
 * are, so a receive is posted with room for the longest possible message. Longer blocks go from their source to their destination
 * in an operation of their own; their lengths are in the packed messages too, so that a destination that expects another length
 * detects it, whichever operation carries the block.
 *
 * Blocks of scratch are not memory but references to where a block lies: in SRC, or in a received message, which is kept until the
 * operation ends. A block is copied twice: into the messages that it travels in, and into DST. Nothing is cut into slices, and the
 * program's lengths are numbers of blocks. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/transfer.h"

struct arrived {
    struct arrived *next;
    unsigned char data[];
};

struct item {
    const unsigned char *at;
    uint64_t bytes;
};

struct wi_packing {
    size_t below;
    struct arrived *kept;
    struct item tmp[];
};

/* Consecutive blocks of a buffer, which one message holds. */
struct blocks {
    uint32_t mem; /* enum wi_mem: SRC, DST or TMP */
    size_t first, count;
};

weft_status wi_packing_create(struct wi_op *op, size_t below)
{
    size_t n = op->bind.sched->buf_blocks[WI_TMP];

    op->bind.packing = wi_calloc(1, sizeof *op->bind.packing + n * sizeof(struct item));
    if (!op->bind.packing)
        return wi_fail(WEFT_ENOMEM, "%zu parts on their way through this rank", n);
    op->bind.packing->below = below;
    return WEFT_SUCCESS;
}

void wi_packing_free(struct wi_op *op)
{
    struct arrived *next;

    if (!op->bind.packing)
        return;
    for (struct arrived *a = op->bind.packing->kept; a; a = next) {
        next = a->next;
        wi_free(a);
    }
    wi_free(op->bind.packing);
    op->bind.packing = NULL;
}

/* ---- Blocks ---- */

static struct blocks operand(const struct wi_fragment *f, const struct wi_prog_step *st, uint32_t which)
{
    const struct wi_unit *unit = &f->prog->units[st->unit];
    const struct wi_operand *o = &f->prog->operands[unit->operand + which];

    return (struct blocks){o->mem, o->at, unit->bytes};
}

static struct item block_at(const struct wi_op *op, const struct blocks *b, size_t i)
{
    struct wi_extent e;

    if (b->mem == WI_MEM_TMP)
        return op->bind.packing->tmp[b->first + i];
    e = op->bind.layout.blocks[b->mem].extent[b->first + i];
    return (struct item){op->bind.base[b->mem] + e.at, e.bytes};
}

/* DST: block s is what rank s sends to this one. */
static weft_status store(struct wi_exec *exec, struct wi_op *op, const struct blocks *b, size_t i, struct item item)
{
    size_t block = b->first + i;
    struct wi_extent e;

    if (b->mem == WI_MEM_TMP) {
        op->bind.packing->tmp[block] = item;
        return WEFT_SUCCESS;
    }
    e = op->bind.layout.blocks[WI_DST].extent[block];
    if (item.bytes != e.bytes)
        return wi_exec_fail(exec, WEFT_EMISMATCH, (int)block, &op->info,
                            "rank %zu sends %llu bytes to rank %d, which expects %zu bytes from it", block,
                            (unsigned long long)item.bytes, exec->rank, e.bytes);
    if (item.bytes && item.bytes < op->bind.packing->below)
        memcpy(op->bind.base[WI_DST] + e.at, item.at, item.bytes);
    return WEFT_SUCCESS;
}

static weft_status copy(struct wi_exec *exec, struct wi_op *op, const struct wi_fragment *f,
                        const struct wi_prog_step *st)
{
    struct blocks src = operand(f, st, st->ndst);

    for (uint32_t d = 0; d < st->ndst; d++) {
        struct blocks dst = operand(f, st, d);
        for (size_t i = 0; i < src.count; i++)
            WI_TRY(store(exec, op, &dst, i, block_at(op, &src, i)));
    }
    return WEFT_SUCCESS;
}

/* ---- Sending ---- */

static size_t carried(const struct wi_op *op, uint64_t bytes)
{
    return bytes < op->bind.packing->below ? (size_t)bytes : 0;
}

static void pack(const struct wi_op *op, const struct blocks *b, unsigned char *to)
{
    unsigned char *at = to + b->count * sizeof(uint64_t);

    for (size_t i = 0; i < b->count; i++) {
        struct item item = block_at(op, b, i);
        size_t n = carried(op, item.bytes);
        memcpy(to + i * sizeof item.bytes, &item.bytes, sizeof item.bytes);
        if (n)
            memcpy(at, item.at, n);
        at += n;
    }
}

static weft_status send(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                        const struct blocks *b)
{
    struct wi_pend *p = wi_pend_get(exec);
    size_t bytes = b->count * sizeof(uint64_t);

    for (size_t i = 0; i < b->count; i++)
        bytes += carried(op, block_at(op, b, i).bytes);
    if (p)
        p->bounce = wi_malloc(bytes);
    if (!p || !p->bounce) {
        if (p)
            wi_pend_put(exec, p);
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a packed message of %zu bytes", bytes);
    }
    pack(op, b, p->bounce);
    return wi_lane_send(exec, op, f, lane, p, p->bounce, bytes);
}

/* ---- Receiving ---- */

static weft_status post(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                        const struct blocks *b)
{
    const struct wi_prog_lane *ln = &f->prog->lanes[lane];
    size_t most = b->count * (sizeof(uint64_t) + op->bind.packing->below);
    struct arrived *room = wi_malloc(sizeof *room + most);
    struct wi_pend *p = room ? wi_pend_get(exec) : NULL;
    weft_status st;

    if (!p) {
        wi_free(room);
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info,
                            "out of memory for a packed message of up to %zu bytes from rank %d", most, ln->recv_peer);
    }
    p->bounce = (unsigned char *)room;
    st = wi_lane_fill_xfer(exec, op, f, p, ln->recv_peer, ln->chan, room->data, most);
    p->x.up_to = 1;
    if (st >= 0)
        st = wi_pend_post(exec, p, 0);
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    f->lane[lane].recvs = p;
    return WEFT_SUCCESS;
}

static weft_status unpack(struct wi_exec *exec, struct wi_op *op, int peer, const struct blocks *b,
                          const unsigned char *data, size_t bytes)
{
    size_t at = b->count * sizeof(uint64_t);

    if (bytes < at)
        return wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info,
                            "a packed message of %zu bytes from rank %d, which has %zu lengths in it", bytes, peer,
                            b->count);
    for (size_t i = 0; i < b->count; i++) {
        struct item item = {data + at, 0};
        memcpy(&item.bytes, data + i * sizeof item.bytes, sizeof item.bytes);
        if (carried(op, item.bytes) > bytes - at)
            return wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info,
                                "a packed message from rank %d is shorter than the lengths in it say", peer);
        at += carried(op, item.bytes);
        WI_TRY(store(exec, op, b, i, item));
    }
    if (at != bytes)
        return wi_exec_fail(exec, WEFT_EPROTO, peer, &op->info,
                            "a packed message from rank %d is longer than the lengths in it say", peer);
    return WEFT_SUCCESS;
}

static weft_status failed(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p, const struct blocks *b)
{
    if (p->x.state != WEFT_ETRUNC)
        return wi_recv_failed(exec, op, p);
    return wi_exec_fail(exec, WEFT_EPROTO, p->x.peer, &op->info,
                        "a packed message from rank %d is longer than %zu parts can be, each shorter than %zu bytes",
                        p->x.peer, b->count, op->bind.packing->below);
}

/* What is kept takes no more than it needs: the room was for the longest. */
static struct arrived *keep(struct wi_op *op, struct wi_pend *p)
{
    struct arrived *room = (struct arrived *)p->bounce, *cut = wi_realloc(room, sizeof *room + p->x.actual);

    p->bounce = NULL;
    cut = cut ? cut : room;
    cut->next = op->bind.packing->kept;
    op->bind.packing->kept = cut;
    return cut;
}

/* 1: the message is here and unpacked; 0: it is not; < 0: failed. */
static int receive(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane, const struct blocks *b)
{
    struct wi_lane_state *ls = &f->lane[lane];
    struct arrived *data;
    struct wi_pend *p;
    size_t bytes;
    int peer;

    if (!ls->recvs)
        WI_TRY(post(exec, op, f, lane, b));
    p = ls->recvs;
    if (p->x.state == WEFT_XFER_PENDING)
        return 0;
    if (p->x.state < 0)
        return failed(exec, op, p, b);
    data = keep(op, p);
    bytes = p->x.actual;
    peer = p->x.peer;
    ls->recvs = NULL;
    wi_pend_put(exec, p);
    WI_TRY(unpack(exec, op, peer, b, data->data, bytes));
    return 1;
}

/* ---- Steps ---- */

int wi_packed_step(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                   const struct wi_prog_step *st)
{
    struct blocks b;
    int got;

    if (st->kind == WI_STEP_NOP)
        return 1;
    b = operand(f, st, 0);
    switch (st->kind) {
    case WI_STEP_COPY:
        WI_TRY(copy(exec, op, f, st));
        return 1;
    case WI_STEP_SEND:
        WI_TRY(send(exec, op, f, lane, &b));
        return 1;
    case WI_STEP_RECV:
        return receive(exec, op, f, lane, &b);
    case WI_STEP_RECV_SEND:
        got = receive(exec, op, f, lane, &b);
        if (got > 0)
            WI_TRY(send(exec, op, f, lane, &b));
        return got;
    default:
        return wi_exec_fail(exec, WEFT_EINTERNAL, -1, &op->info, "algorithm %s reduces packed messages",
                            op->bind.sched->algo);
    }
}
