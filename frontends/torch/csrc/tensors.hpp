/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of any strides as the contiguous buffers that the C API takes. What travels is the logical order of elements, so that
 * ranks may lay out the same tensor differently. */
#pragma once

#include "work.hpp"

namespace weft_torch
{

inline const at::Tensor &only(const Tensors &tensors, const char *operation)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", operation, ": expects one tensor, got ", tensors.size());
    return tensors[0];
}

inline void same_type(const at::Tensor &out, const at::Tensor &in, const char *operation)
{
    TORCH_CHECK(out.scalar_type() == in.scalar_type(), "weft: ", operation,
                ": output tensor must have the same type as input tensor (", out.scalar_type(), " and ",
                in.scalar_type(), ")");
}

/* The elements of one tensor, or of a list of them one after the other; in place where possible. Borrows the tensors, until
 * hand_to has made a Work keep them. */
class Flat
{
public:
    enum Use { Read, Write, ReadWrite };

    Flat() = default; /* nothing: of a rank that has no part */
    Flat(const at::Tensor &t, Use use, const char *operation, const c10d::ReduceOp *reduce = nullptr)
        : tensors_(t), use_(use)
    {
        check_tensor(t, operation);
        Elems e = elems_of(t.scalar_type());
        dtype = e.dtype;
        count = static_cast<size_t>(t.numel()) * e.per;
        if (C10_LIKELY(plain(t)))
            data = address(t);
        else
            stage();
        if (reduce)
            op = Operator(*reduce, t);
    }
    /* A tensor for each rank: all of one type. */
    Flat(List list, Use use, const char *operation)
        : counts(std::make_shared<std::vector<size_t>>()), tensors_(list), use_(use)
    {
        for (const at::Tensor &t : list) {
            check_tensor(t, operation);
            same_type(t, list[0], operation);
            Elems e = elems_of(t.scalar_type());
            dtype = e.dtype;
            counts->push_back(static_cast<size_t>(t.numel()) * e.per);
            even = even && counts->back() == counts->front();
            count += counts->back();
        }
        if (!adjacent())
            stage();
        else if (auto it = std::find_if(list.begin(), list.end(), [](auto &t) { return t.numel(); }); it != list.end())
            data = address(*it);
    }
    void hand_to(Work &work) const
    {
        auto &kept = use_ == Read ? work.keep : work.outputs;

        kept.insert(kept.end(), tensors_.begin(), tensors_.end());
        if (counts)
            work.arrays.push_back(counts);
        if (C10_LIKELY(!staged_.defined()))
            return;
        work.keep.push_back(staged_);
        if (use_ != Read)
            work.unpack = [next = std::move(work.unpack), tensors = tensors_.vec(), from = staged_] {
                each_part(from, tensors, [](const at::Tensor &t, const at::Tensor &part) { t.copy_(part); });
                if (next)
                    next();
            };
    }

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
    bool adjacent() const
    {
        const char *next = nullptr;

        for (const at::Tensor &t : tensors_) {
            const char *p = static_cast<const char *>(t.const_data_ptr());
            if (!plain(t) || (next && t.numel() && p != next))
                return false;
            if (t.numel())
                next = p + t.nbytes();
        }
        return true;
    }
    static void each_part(const at::Tensor &staged, List tensors, void (*copy)(const at::Tensor &, const at::Tensor &))
    {
        int64_t at = 0;

        for (const at::Tensor &t : tensors) {
            copy(t, staged.narrow(0, at, t.numel()).view(t.sizes()));
            at += t.numel();
        }
    }
    void stage()
    {
        at::AutoDispatchBelowAutograd guard;
        int64_t total = 0;

        for (const at::Tensor &t : tensors_)
            total += t.numel();
        staged_ = at::empty({total}, tensors_[0].options().memory_format(at::MemoryFormat::Contiguous));
        data = staged_.mutable_data_ptr();
        if (use_ != Write)
            each_part(staged_, tensors_, [](const at::Tensor &t, const at::Tensor &part) { part.copy_(t); });
    }

    List tensors_;
    Use use_ = Read;
    at::Tensor staged_;
};

using Flats = c10::SmallVector<Flat, 2>;

} // namespace weft_torch
