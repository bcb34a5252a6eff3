/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of any strides as the contiguous buffers that the C API takes. What travels is the logical order of elements, so that
 * ranks may lay out the same tensor differently. */
#pragma once

#include "issue.hpp"
#include "runtime.hpp"

namespace weft_torch
{

/* Is memory what the tensor says: no gaps, row-major, no pending conjugation or negation? */
inline bool is_plain(const at::Tensor &t)
{
    return t.is_contiguous() && !t.is_conj() && !t.is_neg();
}

inline at::Tensor packed(const at::Tensor &t)
{
    at::AutoDispatchBelowAutograd guard;
    return t.resolve_conj().resolve_neg().contiguous();
}

inline at::Tensor room_for(const at::Tensor &t)
{
    at::AutoDispatchBelowAutograd guard;
    return at::empty(t.sizes(), t.options().memory_format(at::MemoryFormat::Contiguous));
}

/* The elements of one tensor, in place where possible. */
class Flat
{
public:
    enum Use { Read, Write, ReadWrite };
    Flat(const at::Tensor &t, Use use, const char *operation) : tensor_(&t), use_(use)
    {
        check_tensor(t, operation);
        if (C10_UNLIKELY(!is_plain(t)))
            staged_ = use == Write ? room_for(t) : packed(t);
        Elems e = elems_of(t.scalar_type());
        dtype = e.dtype;
        count = static_cast<size_t>(t.numel()) * e.per;
        /* No mutable_data_ptr() for what is only read: it would copy lazily shared storage. */
        data = use == Read ? const_cast<void *>(buffer().const_data_ptr()) : buffer().mutable_data_ptr();
    }
    const at::Tensor &buffer() const
    {
        return C10_UNLIKELY(staged_.defined()) ? staged_ : *tensor_;
    }
    /* Keep what the operation needs until it has completed. */
    void hand_to(Work &work) const
    {
        if (use_ == Read)
            work.keep.push_back(buffer());
        else
            work.outputs.push_back(*tensor_);
        if (C10_UNLIKELY(staged_.defined() && use_ != Read))
            work.unpack = [next = std::move(work.unpack), to = *tensor_, from = staged_] {
                to.copy_(from);
                if (next)
                    next();
            };
    }

    void *data;
    size_t count;
    weft_dtype dtype;

private:
    const at::Tensor *tensor_;
    Use use_;
    at::Tensor staged_;
};

/* A tensor for each rank, one after the other in memory; in place when they are that already. */
class Shares
{
public:
    Shares(const Tensors &list, Flat::Use use, const char *operation);
    void hand_to(Work &work) const;

    bool even = true;            /* all of one size */
    std::vector<size_t> counts;  /* elements of each */
    void *data = nullptr;
    weft_dtype dtype = WEFT_UINT8;

private:
    const Tensors *list_;
    Flat::Use use_;
    at::Tensor staged_;
};

inline const at::Tensor &only(const Tensors &tensors, const char *operation)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", operation, ": expects one tensor, got ", tensors.size());
    return tensors[0];
}

inline int root_rank(int64_t root, int size, const char *operation)
{
    TORCH_CHECK(root >= 0 && root < size, "weft: ", operation, ": invalid root rank: ", root, " (the group has ", size, ")");
    return static_cast<int>(root);
}

inline void same_type(const at::Tensor &a, const at::Tensor &b, const char *operation)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "weft: ", operation,
                ": output tensor must have the same type as input tensor (", a.scalar_type(), " and ", b.scalar_type(), ")");
}

} // namespace weft_torch
