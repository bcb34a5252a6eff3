/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace weft_torch
{

Backend::Backend(const StorePtr &store, int rank, int size, const c10::intrusive_ptr<WeftOptions> &options)
    : Collectives(rank, size, options->copy()), store_(store)
{
    TORCH_CHECK(size > 0 && rank >= 0 && rank < size, "weft: rank ", rank, " is not below the group's size ", size);
    TORCH_CHECK(store, "weft: no store to meet the other ranks in");
    std::string name = options_->group_name.empty() ? "weft" : options_->group_name;
    weft_comm *comm =
        Exchange(*store, rank, size, options_->algorithms.text()).make_comm(name.c_str(), options_->timeout);
    engine_ = std::make_shared<Engine>(comm, rank, size, name, options_->timeout);
    engine_->algorithms = options_->algorithms;
    engine_->tells_choices = rank == 0 && Choices::wanted();
    RecordedGroup group{name, options_->global_ranks_in_group, rank};
    for (int r = 0; options_->global_ranks_in_group.empty() && r < size; r++)
        group.ranks.push_back(r);
    engine_->recorded_group = Recorder::get().add_group(std::move(group));
    init();
}

Backend::~Backend()
{
    if (engine_)
        close(milliseconds(0));
}

void Backend::setTimeout(milliseconds timeout)
{
    std::lock_guard<std::mutex> held(engine_->lock);

    options_->timeout = engine_->timeout = timeout;
    weft_comm_set_timeout(engine_->open_comm("set_timeout"), static_cast<uint64_t>(timeout.count()) * 1000000);
}

c10d::ErrorType Backend::getError()
{
    weft_comm *comm = engine_->usable();
    weft_status st = comm ? weft_comm_status(comm) : WEFT_EABORTED;

    return st >= 0                ? c10d::ErrorType::SUCCESS
           : st == WEFT_ETIMEDOUT ? c10d::ErrorType::TIMEOUT
           : st == WEFT_EPEER     ? c10d::ErrorType::REMOTE_ERROR
                                  : c10d::ErrorType::COMM_ERROR;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const StorePtr &store, const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options> &options)
{
    auto it = std::find(ranks.begin(), ranks.end(), rank_);

    if (it == ranks.end())
        return nullptr;
    return merge(store, options, static_cast<int>(it - ranks.begin()), static_cast<int>(ranks.size()));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const StorePtr &store,
                                                 const c10::intrusive_ptr<c10d::Backend::Options> &options,
                                                 const int &rank, const int &size)
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

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks)
{
    milliseconds timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;

    monitored_barrier(*store_, "monitored_barrier/" + std::to_string(barriers_++) + "/",
                      c10::str("weft, group ", engine_->name, ": "), rank_, size_, timeout, wait_all_ranks);
}

} // namespace weft_torch
