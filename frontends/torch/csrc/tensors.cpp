/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensors.hpp"

namespace weft_torch
{

const at::Tensor &only(const Tensors &tensors, const char *operation)
{
    TORCH_CHECK(tensors.size() == 1, "weft: ", operation, ": expects one tensor, got ", tensors.size());
    return tensors[0];
}

void same_type(const at::Tensor &out, const at::Tensor &in, const char *operation)
{
    TORCH_CHECK(out.scalar_type() == in.scalar_type(), "weft: ", operation,
                ": output tensor must have the same type as input tensor (", out.scalar_type(), " and ",
                in.scalar_type(), ")");
}

Flat::Flat(const at::Tensor &t, Use use, const char *operation, const c10d::ReduceOp *reduce) : tensors_(t), use_(use)
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

Flat::Flat(List list, Use use, const char *operation)
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

void Flat::hand_to(Work &work) const
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

bool Flat::adjacent() const
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

void Flat::each_part(const at::Tensor &staged, List tensors, void (*copy)(const at::Tensor &, const at::Tensor &))
{
    int64_t at = 0;

    for (const at::Tensor &t : tensors) {
        copy(t, staged.narrow(0, at, t.numel()).view(t.sizes()));
        at += t.numel();
    }
}

void Flat::stage()
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

} // namespace weft_torch
