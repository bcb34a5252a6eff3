/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in memory that the other ranks of the host reach without a copy: of the library's pool, or registered. */
#pragma once

#include <c10/core/Allocator.h>
#include "runtime.hpp"

namespace weft_torch
{

class Pool final : public c10::Allocator
{
public:
    static const std::shared_ptr<Pool> &get()
    {
        static auto *pool = new std::shared_ptr<Pool>(std::make_shared<Pool>()); /* tensors may outlive static destruction */
        return *pool;
    }
    c10::DataPtr allocate(size_t bytes) override
    {
        void *p = nullptr;

        check_status(weft_mem_take(context(), std::max<size_t>(bytes, 1), &p), c10::str("memory for ", bytes, " bytes"));
        return {p, p, &give, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give; }
    void copy_data(void *to, const void *from, size_t bytes) const override { default_copy_data(to, from, bytes); }

private:
    /* After fork() a child's context refuses what the parent has taken. */
    static void give(void *p)
    {
        if (weft_context *owner = context(false))
            weft_mem_give(owner, p);
    }
};

inline at::Tensor empty(int64_t elems, at::TensorOptions options)
{
    TORCH_CHECK(options.device().is_cpu(), "weft: allocate_tensor: no device plugin for ", options.device());
    size_t bytes = static_cast<size_t>(elems) * options.dtype().itemsize();
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                         Pool::get()->allocate(bytes), Pool::get().get(), true);

    return at::empty({0}, options).set_(c10::Storage(storage), 0, {elems}, {1});
}

/* A tensor's memory made reachable for the other ranks of the host, as long as this lives. */
class Registration
{
public:
    explicit Registration(const at::Tensor &tensor) : tensor_(tensor), owner_(context())
    {
        check_tensor(tensor, "register");
        TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "weft: register: the tensor has gaps or overlaps");
        check_status(weft_mem_register(owner_, tensor.mutable_data_ptr(), tensor.nbytes(), &mem_), "register");
    }
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
    ~Registration()
    {
        if (mem_ && context(false) == owner_ && weft_mem_deregister(mem_) < 0)
            new at::Tensor(tensor_); /* never freed: its pages are still the library's */
    }
    void release()
    {
        if (mem_ && context(false) == owner_)
            check_status(weft_mem_deregister(mem_), "release of registered memory");
        mem_ = nullptr;
        tensor_.reset();
    }

private:
    at::Tensor tensor_; /* its memory must not be freed before */
    weft_context *owner_;
    weft_mem *mem_ = nullptr;
};

} // namespace weft_torch
