/* SPDX-License-Identifier: BSD-3-Clause */
/* Communication hooks of DistributedDataParallel: gradients are averaged, coded, with what was lost of each parameter kept. */
#pragma once

#include <map>
#include <unordered_map>

#include <torch/csrc/distributed/c10d/comm.hpp>
#include "backend.hpp"

namespace weft_torch
{

/* Buckets in memory that the other ranks of the host reach. DDP lays them out anew after the first step. */
class BucketMemory
{
public:
    /* The bucket's memory is registered, if it is worth it and possible. What is not is warned of once. */
    void hold(size_t index, const at::Tensor &buffer);

private:
    static constexpr size_t kWorthIt = 65536; /* bytes of a bucket */
    struct Held {
        const void *address = nullptr;
        std::unique_ptr<Registration> registration; /* none: it was refused, and is not asked again for this memory */
    };
    std::map<size_t, Held> held_;
    bool warned_ = false;
};

/* What a model's hook knows from step to step. Parameters have numbers, the same on all ranks: tensors of the library, so that what
 * was lost of one is found again however DDP cuts its buckets. */
class HookState
{
public:
    struct Rules {
        int64_t min_elements; /* smaller parameters are sent as they are */
        bool vectors;         /* those of one dimension are coded too */
        bool transport_memory;
    };

    HookState(c10::intrusive_ptr<c10d::Backend> group, std::optional<std::string> codec, Rules rules);
    /* The parameter's number, from 0 on: the next one, if it is new. */
    uint64_t number(const at::Tensor &parameter);
    /* How many have one. */
    uint64_t parameters();
    /* Of the parameter; -1: none has this number yet. */
    int64_t elements(uint64_t number);
    /* As the library knows it. */
    uint64_t tensor(uint64_t number) const
    {
        TORCH_CHECK_VALUE(number < kTensorsOfState, "weft.hooks: a parameter's number is below 2**32, not ", number);
        return first_tensor_ + number;
    }
    /* Start to average the bucket's gradients, in place. */
    WorkBase average(c10d::GradBucket &bucket, bool bare);
    Backend &group() const { return *group_; }

private:
    using TensorRef = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    /* How a bucket is cut: found once for the parameters that it has. */
    struct Layout {
        std::vector<const c10::TensorImpl *> parameters;
        std::vector<size_t> coded, plain; /* of the parameters */
        bool plain_adjacent = true;
        CodingPtr coding;
    };

    bool is_coded(const at::Tensor &parameter) const
    {
        return parameter.numel() >= rules_.min_elements && (rules_.vectors || parameter.dim() > 1);
    }
    const Layout &layout(size_t index, const Tensors &parameters);
    Layout cut(const Tensors &parameters);

    const c10::intrusive_ptr<Backend> group_;
    const std::optional<std::string> codec_;
    const Rules rules_;
    const uint64_t first_tensor_;
    std::mutex lock_; /* of what follows: a model's backward pass may run in several threads, one after the other */
    std::unordered_map<const c10::TensorImpl *, std::pair<TensorRef, uint64_t>> numbers_;
    std::vector<int64_t> elements_; /* by number */
    std::map<size_t, Layout> layouts_;
    BucketMemory memory_;
};

/* Average a bucket whole, in one call. codec NULL: what the communicator does. */
WorkBase average_whole(Backend &group, c10d::GradBucket &bucket, const char *codec);

/* The group's weft backend. */
c10::intrusive_ptr<Backend> weft_of(const c10::intrusive_ptr<c10d::Backend> &backend);

/* The hook that DDP calls from C++, which does not touch the interpreter. */
class CommHook final : public c10d::CppCommHookInterface<std::shared_ptr<HookState>>
{
public:
    using CppCommHookInterface::CppCommHookInterface;
    c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket &bucket) override
    {
        return state_->average(bucket, true)->getFuture();
    }
};

} // namespace weft_torch
