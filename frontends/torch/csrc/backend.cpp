/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a backend, and what all its operations have in common. */
#include "issue.hpp"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include "runtime.hpp"

namespace weft_torch
{

static constexpr milliseconds kPatience{5000}; /* of a shutdown, for operations under way */

static std::string label(const WeftOptions &options)
{
    return options.group_name.empty() ? "weft" : options.group_name;
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                 c10::intrusive_ptr<WeftOptions> options)
    : c10d::Backend(rank, size), store_(store), options_(std::move(options))
{
    TORCH_CHECK(size > 0 && rank >= 0 && rank < size, "weft: rank ", rank, " is not below the group's size ", size);
    std::string name = label(*options_);
    weft_comm *comm = make_comm(store_, rank, size, name.c_str(), options_->timeout);
    engine_ = std::make_shared<Engine>(comm, rank, size, name, options_->timeout);
    RecordedGroup group{name, options_->global_ranks_in_group, rank};
    if (group.ranks.empty())
        for (int r = 0; r < size; r++)
            group.ranks.push_back(r);
    engine_->recorded_group = Recorder::get().add_group(std::move(group));
    init();
}

/* At exit without destroy_process_group nobody waits for anything. */
Backend::~Backend()
{
    engine_->close(milliseconds(0));
}

void Backend::shutdown()
{
    engine_->close(std::min(options_->timeout, kPatience));
}

void Backend::abort()
{
    engine_->abort("the process group was aborted");
}

c10d::ErrorType Backend::getError()
{
    weft_comm *comm = engine_->comm;
    weft_status st = comm ? weft_comm_status(comm) : WEFT_EABORTED;

    return st >= 0                ? c10d::ErrorType::SUCCESS
           : st == WEFT_ETIMEDOUT ? c10d::ErrorType::TIMEOUT
           : st == WEFT_EPEER     ? c10d::ErrorType::REMOTE_ERROR
                                  : c10d::ErrorType::COMM_ERROR;
}

void Backend::setTimeout(milliseconds timeout)
{
    std::lock_guard<std::mutex> held(engine_->lock);

    options_->timeout = engine_->timeout = timeout;
    weft_comm_set_timeout(engine_->open_comm("set_timeout"), static_cast<uint64_t>(timeout.count()) * 1000000);
}

void Backend::setSequenceNumberForGroup()
{
    /* Counts from the group's creation, which is the same on all ranks. */
}

uint64_t Backend::getSequenceNumberForGroup()
{
    return engine_->seq;
}

void Backend::enableCollectivesTiming()
{
    /* Always on: the flight recorder has the times. */
}

/* ---- Further groups: their members meet in the store; the others need not take part ---- */

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options> &options)
{
    auto it = std::find(ranks.begin(), ranks.end(), rank_);

    if (it == ranks.end())
        return nullptr;
    return merge(store, options, static_cast<int>(it - ranks.begin()), static_cast<int>(ranks.size()));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store> &store,
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
    return c10::make_intrusive<weft_torch::Backend>(c10::make_intrusive<c10d::PrefixStore>("weft/", store), rank, size,
                                                    std::move(mine));
}

/* ---- Memory ---- */

std::shared_ptr<c10::Allocator> Backend::getMemAllocator()
{
    return allocator();
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    return empty(size, options);
}

/* ---- What all operations have in common ---- */

/* Take the operation's number and write it down. The group's lock is held. */
void Backend::number(const Op &op, uint64_t *seq, Record **record, uint64_t *id)
{
    Engine &e = *engine_;
    Recorder &recorder = Recorder::get();

    /* Plain stores: only the lock's holder counts. */
    std::atomic<uint64_t> &count = op.p2p() ? e.p2p_seq : e.seq;
    *seq = count.load(std::memory_order_relaxed) + 1;
    count.store(*seq, std::memory_order_relaxed);
    if (!recorder.enabled())
        return;
    Record *r = *record = recorder.add(e.recorded_group);
    *id = r->id;
    r->name = op.name;
    r->seq = e.seq.load(std::memory_order_relaxed);
    r->p2p_seq = e.p2p_seq.load(std::memory_order_relaxed);
    r->peer = op.peer;
    r->p2p = op.p2p();
    r->timeout_ms = (op.timeout == c10d::kUnsetTimeout ? e.timeout : op.timeout).count();
    if (op.in)
        r->in.set(*op.in, op.in_copies);
    if (op.out)
        r->out.set(*op.out, op.out_copies);
}

/* The one argument of an operation that the library takes apart from its call. */
void Backend::next_call(weft_comm *comm, const Op &op) const
{
    bool usual = op.timeout == c10d::kUnsetTimeout || op.timeout == engine_->timeout || op.timeout.count() <= 0;

    if (C10_LIKELY(usual && !op.tag))
        return;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    options.timeout_ns = usual ? 0 : static_cast<uint64_t>(op.timeout.count()) * 1000000;
    options.tag = op.tag;
    weft_comm_next_call(comm, &options);
}

WorkPtr Backend::make_work(const Op &op, bool profiling)
{
    if (C10_LIKELY(!profiling))
        return c10::make_intrusive<Work>(engine_, rank_, op.type, op.name, nullptr, std::nullopt);
    annotate(op, engine_->seq + 1);
    std::optional<Tensors> inputs;
    if (op.all_in)
        inputs = *op.all_in;
    else if (op.in)
        inputs = Tensors{*op.in};
    return c10::make_intrusive<Work>(engine_, rank_, op.type, op.name, op.title, inputs);
}

/* The record that profilers know collectives by: group, sizes, type. */
void Backend::annotate(const Op &op, uint64_t seq) const
{
    Tensors in, out;
    const at::Tensor *any = op.in ? op.in : op.out;

    if (op.in)
        in.push_back(*op.in);
    if (op.out)
        out.push_back(*op.out);
    const auto &ranks = options_->global_ranks_in_group;
    int start = ranks.empty() ? 0 : static_cast<int>(ranks[0]);
    int stride = ranks.size() > 1 ? static_cast<int>(ranks[1] - ranks[0]) : 1;
    RECORD_PARAM_COMMS_DATA(
        std::make_tuple(static_cast<int64_t>(seq), op.p2p()), std::make_tuple(engine_->name, getGroupDesc()), in, out,
        op.p2p() ? op.peer : rank_, op.name, op.in ? op.in->numel() * std::max<int64_t>(op.in_copies, 1) : 0,
        op.out ? op.out->numel() * std::max<int64_t>(op.out_copies, 1) : 0, any ? any->scalar_type() : at::kByte,
        std::vector<int64_t>(), std::vector<int64_t>(), start, stride, size_);
}

} // namespace weft_torch
