/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of a program's operands, in one fragment of one operation. */
#ifndef WI_EXEC_ADDRESS_H
#define WI_EXEC_ADDRESS_H

#include "exec/exec.h"

static inline unsigned char *wi_slot(const struct wi_exec *exec, int rank, uint64_t epoch)
{
    return exec->map.ranks[rank].slots + (epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;
}

/* `skip`: bytes of each block that earlier slices cover. A slot holds one slice; ll lines only whole blocks. */
static inline unsigned char *wi_address(const struct wi_exec *exec, const struct wi_op *op, const struct wi_operand *o,
                                        uint64_t epoch, size_t skip)
{
    size_t at = o->at * op->bind.scale;

    if (o->mem <= WI_MEM_TMP)
        return op->bind.base[o->mem] + at + skip;
    if (o->mem == WI_MEM_PACK)
        return op->bind.base[WI_PACK] + wi_coding_bytes(&op->bind.coding, at + skip);
    if (o->mem == WI_MEM_SLOT)
        return wi_slot(exec, o->rank, epoch) + at;
    if (o->mem == WI_MEM_LL)
        return (unsigned char *)(uintptr_t)exec->ll_tmp[o->rank] + at;
    if (o->mem == WI_MEM_LL_OWN)
        return exec->ll_own + at;
    return op->bind.peer_base[o->mem - WI_MEM_PEER_SRC][o->rank] + at + skip;
}

/* Is there such a residual? */
static inline int wi_keeps(const struct wi_coding *c, uint32_t residual)
{
    return residual != WI_NO_RESIDUAL && (c->keeps || c->residual[residual]);
}

/* What `bytes` of the operand's block take where they lie. */
static inline size_t wi_stored_bytes(const struct wi_op *op, const struct wi_operand *o, size_t bytes)
{
    return o->mem == WI_MEM_PACK ? wi_coding_bytes(&op->bind.coding, bytes) : bytes;
}

/* Bytes of a unit that lie in a slice of a fragment, which begins *skip bytes into every block. */
static inline size_t wi_slice_bytes(const struct wi_op *op, const struct wi_fragment *f, const struct wi_unit *unit,
                                    uint32_t slice, size_t *skip)
{
    size_t bytes = unit->bytes, from = f->from, to = f->to;

    if (op->bind.scale != 1)
        bytes *= op->bind.scale;
    if (op->bind.nslices > 1) {
        from += slice * op->bind.slice_bytes;
        to = to - from < op->bind.slice_bytes ? to : from + op->bind.slice_bytes;
    }
    *skip = from;
    to = bytes < to ? bytes : to;
    return to > from ? to - from : 0;
}

#endif
