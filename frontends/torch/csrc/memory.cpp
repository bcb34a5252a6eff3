/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in memory that the other ranks of the host reach without a copy. Freed blocks are kept for the next tensor of about
 * that size: new shared memory costs a page fault per page. */
#include "backend.hpp"

#include <cstdlib>
#include <map>

#include <c10/core/Allocator.h>
#include "runtime.hpp"

namespace weft_torch
{

namespace
{
constexpr size_t kPage = 4096;

class Pool final : public c10::Allocator
{
  public:
    Pool()
    {
        const char *set = std::getenv("WEFT_TORCH_POOL_BYTES");
        keep_most_ = set && *set ? std::strtoull(set, nullptr, 10) : size_t{256} << 20;
    }
    c10::DataPtr allocate(size_t bytes) override;
    c10::DeleterFnPtr raw_deleter() const override
    {
        return &Pool::free_block;
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }
    static void free_block(void *p);
    size_t reserved()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return reserved_;
    }

  private:
    struct Block {
        weft_context *owner;
        size_t bytes;
    };
    void *take(size_t rounded);
    void give(void *p);

    std::mutex lock_;
    std::map<void *, Block> blocks_;
    std::multimap<size_t, void *> free_;
    size_t kept_ = 0, keep_most_, reserved_ = 0;
};

/* Quarters of powers of two: at most a fifth is wasted. */
size_t round_up(size_t bytes)
{
    size_t step = kPage;

    while (step * 8 < bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

void *Pool::take(size_t rounded)
{
    std::lock_guard<std::mutex> guard(lock_);

    for (auto it = free_.lower_bound(rounded); it != free_.end() && it->first == rounded; ++it) {
        void *p = it->second;
        if (!context_is_ours(blocks_[p].owner))
            continue; /* from before a fork() */
        free_.erase(it);
        kept_ -= rounded;
        return p;
    }
    return nullptr;
}

c10::DataPtr Pool::allocate(size_t bytes)
{
    size_t rounded = round_up(bytes ? bytes : 1);
    weft_context *owner = context();
    void *p = take(rounded);

    if (!p) {
        weft_status st = weft_mem_alloc(owner, rounded, &p);
        if (st < 0)
            throw_thread_error(c10::str("memory for ", bytes, " bytes").c_str(), st);
        std::lock_guard<std::mutex> guard(lock_);
        blocks_[p] = {owner, rounded};
        reserved_ += rounded;
    }
    return {p, p, &Pool::free_block, c10::Device(c10::kCPU)};
}

void Pool::give(void *p)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto it = blocks_.find(p);

    if (it == blocks_.end())
        return;
    Block block = it->second;
    if (!context_is_ours(block.owner)) {
        blocks_.erase(it);
        return;
    }
    if (kept_ + block.bytes <= keep_most_) {
        free_.emplace(block.bytes, p);
        kept_ += block.bytes;
        return;
    }
    blocks_.erase(it);
    reserved_ -= block.bytes;
    weft_mem_free(block.owner, p);
}

std::shared_ptr<c10::Allocator> pool()
{
    static auto *p = new std::shared_ptr<Pool>(std::make_shared<Pool>()); /* tensors may outlive static destruction */
    return *p;
}

void Pool::free_block(void *p)
{
    static_cast<Pool *>(pool().get())->give(p);
}
} // namespace

std::shared_ptr<c10::Allocator> allocator()
{
    return pool();
}

size_t allocator_reserved()
{
    return static_cast<Pool *>(pool().get())->reserved();
}

at::Tensor empty(int64_t elems, at::TensorOptions options)
{
    TORCH_CHECK(options.device().is_cpu(), "weft: allocate_tensor: no device plugin for ", options.device());
    size_t bytes = static_cast<size_t>(elems) * options.dtype().itemsize();
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                         allocator()->allocate(bytes), allocator().get(), true);

    return at::empty({0}, options).set_(c10::Storage(storage), 0, {elems}, {1});
}

/* ---- Memory that torch has allocated ---- */

Registration::Registration(const at::Tensor &tensor) : tensor_(tensor), owner_(context())
{
    check_tensor(tensor, "register");
    TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "weft: register: the tensor has gaps or overlaps");
    weft_status st = weft_mem_register(owner_, tensor.mutable_data_ptr(), tensor.nbytes(), &mem_);
    if (st < 0)
        throw_thread_error("register", st);
}

void Registration::release()
{
    weft_mem *mem = std::exchange(mem_, nullptr);

    if (!mem || !context_is_ours(owner_))
        return;
    weft_status st = weft_mem_deregister(mem);
    if (st < 0) {
        mem_ = mem; /* the pages stay shared, the contents are intact */
        throw_thread_error("release of registered memory", st);
    }
    tensor_.reset();
}

Registration::~Registration()
{
    try {
        release();
    } catch (const std::exception &) {
        new at::Tensor(tensor_); /* never freed: its pages are still the library's */
    }
}

} // namespace weft_torch
