/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of any strides as the contiguous buffers that the C API takes. What travels is the logical order of elements, so that
 * ranks may lay out the same tensor differently. */
#pragma once

#include "issue.hpp"
#include "runtime.hpp"

namespace weft_torch
{

using List = c10::ArrayRef<at::Tensor>;

/* The elements of one tensor, or of a list of them one after the other; in place where possible. Borrows the tensors, until
 * hand_to has made a Work keep them. */
class Flat
{
public:
    enum Use { Read, Write, ReadWrite };
    Flat() = default; /* nothing: of a rank that has no part */
    Flat(const at::Tensor &t, Use use, const char *operation) : tensors_(t), use_(use)
    {
        check_tensor(t, operation);
        Elems e = elems_of(t.scalar_type());
        dtype = e.dtype;
        count = static_cast<size_t>(t.numel()) * e.per;
        if (C10_LIKELY(t.is_contiguous() && !t.is_conj() && !t.is_neg()))
            data = address(t);
        else
            stage();
    }
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
    void *address(const at::Tensor &t) const
    {
        /* No mutable_data_ptr() for what is only read: it would copy lazily shared storage. */
        return use_ == Read ? const_cast<void *>(t.const_data_ptr()) : t.mutable_data_ptr();
    }
    bool adjacent() const;
    void stage();

    List tensors_;
    Use use_ = Read;
    at::Tensor staged_;
};

using Flats = c10::SmallVector<Flat, 2>;

/* Issue calls on buffers: fn(comm, the buffers of the i-th call, request). */
template <class F> c10::intrusive_ptr<c10d::Work> Backend::run_on(const Op &op, Flats flats, F fn)
{
    struct {
        size_t stride;
        Flats flats;
        F fn;
        weft_status operator()(weft_comm *comm, size_t i, weft_request **request) const
        {
            return fn(comm, flats.data() + i * stride, request);
        }
    } call{flats.size() / op.ncalls, std::move(flats), std::move(fn)};

    return run(op, call, [&](Work &work) {
        for (const Flat &flat : call.flats)
            flat.hand_to(work);
    });
}

inline const at::Tensor &only(const Tensors &tensors, const char *operation)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", operation, ": expects one tensor, got ", tensors.size());
    return tensors[0];
}

inline void same_type(const at::Tensor &a, const at::Tensor &b, const char *operation)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "weft: ", operation,
                ": output tensor must have the same type as input tensor (", a.scalar_type(), " and ", b.scalar_type(), ")");
}

} // namespace weft_torch
