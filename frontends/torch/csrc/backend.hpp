/* SPDX-License-Identifier: BSD-3-Clause */
/* The c10d backend "weft": arguments of PyTorch in, calls of the C API out. Here is the life of a group. */
#pragma once

#include "bootstrap.hpp"
#include "collectives.hpp"
#include "memory.hpp"

namespace weft_torch
{

class Backend final : public Collectives
{
public:
    Backend(const StorePtr &store, int rank, int size, const c10::intrusive_ptr<WeftOptions> &options);
    /* At exit without destroy_process_group nobody waits for anything. */
    ~Backend() override;

    const std::string getBackendName() const override { return "weft"; }
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
    bool supportsSplitting() const override { return true; }
    bool supportsCoalescing() const override { return true; }
    bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
    std::shared_ptr<c10::Allocator> getMemAllocator() override { return Pool::get(); }
    at::Tensor allocateTensor(long size, at::TensorOptions options) override { return empty(size, options); }
    void setSequenceNumberForGroup() override {} /* counts from the group's creation, which is the same on all ranks */
    void enableCollectivesTiming() override {}   /* always on: the flight recorder has the times */
    void shutdown() override { close(std::min(options_->timeout, kPatience)); }
    void abort() override { engine_->abort("the process group was aborted"); }

    void setTimeout(milliseconds timeout) override;
    c10d::ErrorType getError() override;

    /* ---- Further groups: their members meet in the store; the others need not take part ---- */

    c10::intrusive_ptr<c10d::Backend> split(const StorePtr &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options) override;
    c10::intrusive_ptr<c10d::Backend> merge(const StorePtr &store,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options, const int &rank,
                                            const int &size) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

private:
    static constexpr milliseconds kPatience{5000}; /* of a shutdown, for operations under way */

    StorePtr store_;
    uint64_t barriers_ = 0;
};

} // namespace weft_torch
