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
    static const std::shared_ptr<Pool> &get();
    c10::DataPtr allocate(size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return &give; }
    void copy_data(void *to, const void *from, size_t bytes) const override { default_copy_data(to, from, bytes); }

private:
    /* After fork() a child's context refuses what the parent has taken. */
    static void give(void *p);
};

at::Tensor empty(int64_t elems, at::TensorOptions options);

/* A tensor's memory made reachable for the other ranks of the host, as long as this lives. */
class Registration
{
public:
    explicit Registration(const at::Tensor &tensor);
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
    ~Registration();
    void release();

private:
    at::Tensor tensor_; /* its memory must not be freed before */
    weft_context *owner_;
    weft_mem *mem_ = nullptr;
};

} // namespace weft_torch
