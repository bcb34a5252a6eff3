/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.hpp"

namespace weft_torch
{

const std::shared_ptr<Pool> &Pool::get()
{
    static auto *pool =
        new std::shared_ptr<Pool>(std::make_shared<Pool>()); /* tensors may outlive static destruction */
    return *pool;
}

c10::DataPtr Pool::allocate(size_t bytes)
{
    void *p = nullptr;

    check_status(weft_mem_pool_alloc(context(), std::max<size_t>(bytes, 1), &p),
                 c10::str("memory for ", bytes, " bytes"));
    return {p, p, &give, c10::Device(c10::kCPU)};
}

void Pool::give(void *p)
{
    if (weft_context *owner = context(false))
        weft_mem_pool_free(owner, p);
}

at::Tensor empty(int64_t elems, at::TensorOptions options)
{
    TORCH_CHECK(options.device().is_cpu(), "weft: allocate_tensor: no device plugin for ", options.device());
    size_t bytes = static_cast<size_t>(elems) * options.dtype().itemsize();
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                         Pool::get()->allocate(bytes), Pool::get().get(), true);

    return at::empty({0}, options).set_(c10::Storage(storage), 0, {elems}, {1});
}

Registration::Registration(const at::Tensor &tensor) : tensor_(tensor), owner_(context())
{
    check_tensor(tensor, "register");
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "weft: register: the tensor has gaps or overlaps");
    check_status(weft_mem_register(owner_, tensor.mutable_data_ptr(), tensor.nbytes(), &mem_), "register");
}

Registration::~Registration()
{
    if (mem_ && context(false) == owner_ && weft_mem_deregister(mem_) < 0)
        new at::Tensor(tensor_); /* never freed: its pages are still the library's */
}

void Registration::release()
{
    if (mem_ && context(false) == owner_)
        check_status(weft_mem_deregister(mem_), "release of registered memory");
    mem_ = nullptr;
    tensor_.reset();
}

} // namespace weft_torch
