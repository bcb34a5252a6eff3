/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of any strides as the contiguous buffers that the C API takes. What travels is the logical order of elements, so that
 * ranks may lay out the same tensor differently. */
#pragma once

#include "work.hpp"

namespace weft_torch
{

const at::Tensor &only(const Tensors &tensors, const char *operation);

void same_type(const at::Tensor &out, const at::Tensor &in, const char *operation);

/* The elements of one tensor, or of a list of them one after the other; in place where possible. Borrows the tensors, until
 * hand_to has made a Work keep them. */
class Flat
{
public:
    enum Use { Read, Write, ReadWrite };

    Flat() = default; /* nothing: of a rank that has no part */
    Flat(const at::Tensor &t, Use use, const char *operation, const c10d::ReduceOp *reduce = nullptr);
    /* A tensor for each rank: all of one type. */
    Flat(List list, Use use, const char *operation);
    void hand_to(Work &work) const;

    void *data = nullptr;
    size_t count = 0; /* of all */
    weft_dtype dtype = WEFT_UINT8;
    /* For each rank, where they may differ; the library reads it until the operation has completed. */
    std::shared_ptr<std::vector<size_t>> counts;
    bool even = true; /* they do not */
    Operator op;      /* of a reduction */

private:
    static bool plain(const at::Tensor &t) { return t.is_contiguous() && !t.is_conj() && !t.is_neg(); }
    void *address(const at::Tensor &t) const
    {
        /* No mutable_data_ptr() for what is only read: it would copy lazily shared storage. */
        return use_ == Read ? const_cast<void *>(t.const_data_ptr()) : t.mutable_data_ptr();
    }
    bool adjacent() const;
    static void each_part(const at::Tensor &staged, List tensors, void (*copy)(const at::Tensor &, const at::Tensor &));
    void stage();

    List tensors_;
    Use use_ = Read;
    at::Tensor staged_;
};

using Flats = c10::SmallVector<Flat, 2>;

} // namespace weft_torch
