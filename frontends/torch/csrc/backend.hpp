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
    Backend(const StorePtr &store, int rank, int size, const c10::intrusive_ptr<WeftOptions> &options)
        : Collectives(rank, size, options->copy()), store_(store)
    {
        TORCH_CHECK(size > 0 && rank >= 0 && rank < size, "weft: rank ", rank, " is not below the group's size ", size);
        TORCH_CHECK(store, "weft: no store to meet the other ranks in");
        std::string name = options_->group_name.empty() ? "weft" : options_->group_name;
        weft_comm *comm = Exchange(*store, rank, size, options_->algorithms.text()).make_comm(name.c_str(), options_->timeout);
        engine_ = std::make_shared<Engine>(comm, rank, size, name, options_->timeout);
        engine_->algorithms = options_->algorithms;
        engine_->tells_choices = rank == 0 && Choices::wanted();
        RecordedGroup group{name, options_->global_ranks_in_group, rank};
        for (int r = 0; options_->global_ranks_in_group.empty() && r < size; r++)
            group.ranks.push_back(r);
        engine_->recorded_group = Recorder::get().add_group(std::move(group));
        init();
    }
    /* At exit without destroy_process_group nobody waits for anything. */
    ~Backend() override
    {
        if (engine_)
            close(milliseconds(0));
    }

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

    void setTimeout(milliseconds timeout) override
    {
        std::lock_guard<std::mutex> held(engine_->lock);

        options_->timeout = engine_->timeout = timeout;
        weft_comm_set_timeout(engine_->open_comm("set_timeout"), static_cast<uint64_t>(timeout.count()) * 1000000);
    }
    c10d::ErrorType getError() override
    {
        weft_comm *comm = engine_->usable();
        weft_status st = comm ? weft_comm_status(comm) : WEFT_EABORTED;

        return st >= 0                ? c10d::ErrorType::SUCCESS
               : st == WEFT_ETIMEDOUT ? c10d::ErrorType::TIMEOUT
               : st == WEFT_EPEER     ? c10d::ErrorType::REMOTE_ERROR
                                      : c10d::ErrorType::COMM_ERROR;
    }

    /* ---- Further groups: their members meet in the store; the others need not take part ---- */

    c10::intrusive_ptr<c10d::Backend> split(const StorePtr &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options) override
    {
        auto it = std::find(ranks.begin(), ranks.end(), rank_);

        if (it == ranks.end())
            return nullptr;
        return merge(store, options, static_cast<int>(it - ranks.begin()), static_cast<int>(ranks.size()));
    }
    c10::intrusive_ptr<c10d::Backend> merge(const StorePtr &store,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options, const int &rank,
                                            const int &size) override
    {
        auto mine = c10::dynamic_intrusive_pointer_cast<WeftOptions>(options);

        if (!mine) {
            mine = c10::make_intrusive<WeftOptions>(options ? options->timeout : options_->timeout);
            if (options) {
                mine->group_name = options->group_name;
                mine->global_ranks_in_group = options->global_ranks_in_group;
            }
        }
        return c10::make_intrusive<Backend>(c10::make_intrusive<c10d::PrefixStore>("weft/", store), rank, size,
                                            std::move(mine));
    }
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override
    {
        milliseconds timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;

        monitored_barrier(*store_, "monitored_barrier/" + std::to_string(barriers_++) + "/",
                          c10::str("weft, group ", engine_->name, ": "), rank_, size_, timeout, wait_all_ranks);
    }

private:
    static constexpr milliseconds kPatience{5000}; /* of a shutdown, for operations under way */

    StorePtr store_;
    uint64_t barriers_ = 0;
};

} // namespace weft_torch
