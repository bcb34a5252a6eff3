/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero.hpp"
#include <ATen/TensorUtils.h>
#include <c10/core/TensorImpl.h>

namespace weft_torch
{

ZeroUnit::ZeroUnit(const std::vector<uintptr_t> &calls, uintptr_t engine, int unit)
    : engine_(reinterpret_cast<weft_zero *>(engine)), unit_(unit)
{
    TORCH_CHECK_VALUE(calls.size() == sizeof(ZeroCalls) / sizeof(uintptr_t), "weft.zero: ", calls.size(), " addresses");
    calls_ = {
        reinterpret_cast<decltype(calls_.pre_forward)>(calls[0]),
        reinterpret_cast<decltype(calls_.pre_backward)>(calls[1]),
        reinterpret_cast<decltype(calls_.post_forward)>(calls[2]),
        reinterpret_cast<decltype(calls_.post_backward)>(calls[3]),
        reinterpret_cast<decltype(calls_.param_data)>(calls[4]),
        reinterpret_cast<decltype(calls_.grad_add)>(calls[5]),
    };
}

static c10::StorageImpl *impl(const c10::Storage &storage)
{
    return storage.unsafeGetStorageImpl();
}

static void point(const c10::Storage &storage, void *data)
{
    impl(storage)->clear_data_ptr_access_error_msg_();
    impl(storage)->set_data_ptr_noswap(at::DataPtr(data, at::Device(at::kCPU)));
}

static void take_away(const c10::Storage &storage, const std::string &why)
{
    impl(storage)->set_data_ptr_noswap(at::DataPtr(nullptr, at::Device(at::kCPU)));
    impl(storage)->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

int ZeroUnit::bind(int param, at::Tensor tensor, at::ScalarType dtype, std::string refusal)
{
    void *data = nullptr;
    int status = calls_.param_data(engine_, param, &data);

    if (status < 0)
        return status;
    auto bytes = static_cast<int64_t>(tensor.numel() * c10::elementSize(dtype));
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(data, at::Device(at::kCPU)), nullptr,
                         false);
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));

    view.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.sizes());
    tensor.set_data(view);
    slots_.push_back({param, tensor.numel(), bytes == 0, std::move(storage), std::move(refusal), {}});
    if (bytes && !data) {
        kept_ = false;
        take_away(slots_.back().storage, slots_.back().refusal);
    }
    shown_ = kept_;
    return WEFT_SUCCESS;
}

int ZeroUnit::show()
{
    for (Slot &s : slots_) {
        void *data = nullptr;

        if (s.empty || s.lent.defined())
            continue;
        int status = calls_.param_data(engine_, s.param, &data);

        if (status < 0)
            return status;
        if (data)
            point(s.storage, data);
        else
            take_away(s.storage, s.refusal);
    }
    shown_ = true;
    return WEFT_SUCCESS;
}

void ZeroUnit::refuse(const std::string *why)
{
    for (Slot &s : slots_)
        if (!s.empty && !s.lent.defined())
            take_away(s.storage, why ? *why : s.refusal);
    shown_ = false;
}

int ZeroUnit::begin(decltype(&weft_zero_pre_forward) call)
{
    int status = call(engine_, unit_);

    if (status < 0)
        return status;
    passes_++;
    return shown_ ? status : show();
}

int ZeroUnit::end(decltype(&weft_zero_post_forward) call)
{
    /* Before the memory is another unit's. */
    if (passes_ == 1 && !kept_)
        refuse(nullptr);
    if (passes_ > 0)
        passes_--;
    return call(engine_, unit_);
}

int ZeroUnit::touch()
{
    int status = calls_.pre_forward(engine_, unit_);

    if (status >= 0)
        status = calls_.post_forward(engine_, unit_);
    return status < 0 || shown_ ? status : show();
}

static weft_dtype dtype_of(const at::Tensor &tensor)
{
    switch (tensor.scalar_type()) {
    case at::kBFloat16:
        return WEFT_BFLOAT16;
    case at::kHalf:
        return WEFT_FLOAT16;
    default:
        TORCH_CHECK_TYPE(tensor.scalar_type() == at::kFloat, "weft.zero: a gradient is of type ", tensor.scalar_type());
        return WEFT_FLOAT32;
    }
}

int ZeroUnit::grad_add(int param, const at::Tensor &grad)
{
    at::Tensor dense = (grad.is_sparse() ? grad.to_dense() : grad).contiguous();

    TORCH_CHECK_VALUE(dense.device().is_cpu() && dense.numel() == slot(param).elems, "weft.zero: a gradient of ",
                      dense.numel(), " elements on ", dense.device(), " for a parameter of ", slot(param).elems,
                      " on the CPU");
    return calls_.grad_add(engine_, param, dense.const_data_ptr(), dtype_of(dense));
}

void ZeroUnit::hide(const std::string &why)
{
    if (kept_)
        refuse(&why);
}

ZeroUnit::Slot &ZeroUnit::slot(int param)
{
    for (Slot &s : slots_)
        if (s.param == param)
            return s;
    TORCH_CHECK_INDEX(false, "weft.zero: parameter ", param, " is not of unit ", unit_);
}

void ZeroUnit::lend(int param, const at::Tensor &memory)
{
    Slot &s = slot(param);

    TORCH_CHECK_VALUE(memory.is_contiguous() && memory.nbytes() >= impl(s.storage)->nbytes(),
                      "weft.zero: lend: ", memory.nbytes(), " bytes");
    s.lent = memory;
    if (!s.empty)
        point(s.storage, memory.mutable_data_ptr());
}

void ZeroUnit::restore(int param)
{
    Slot &s = slot(param);

    s.lent = at::Tensor();
    if (s.empty)
        return;
    void *data = nullptr;

    if ((kept_ || passes_) && calls_.param_data(engine_, param, &data) >= 0 && data)
        point(s.storage, data);
    else
        take_away(s.storage, s.refusal);
}

} // namespace weft_torch
