/* SPDX-License-Identifier: BSD-3-Clause */
#include "recorder.hpp"

namespace weft_torch
{

void Shape::set(const at::Tensor *t, int64_t copies)
{
    dtype = t ? static_cast<int8_t>(t->scalar_type()) : -1;
    dims.clear();
    if (copies > 0)
        dims.push_back(copies);
    if (t)
        dims.append(t->sizes().begin(), t->sizes().end());
}

Recorder &Recorder::get()
{
    static auto *recorder = new Recorder(); /* never destroyed: operations may end while the process exits */
    return *recorder;
}

int Recorder::add_group(RecordedGroup group)
{
    std::lock_guard<std::mutex> guard(Fork::lock(Fork::kRecorder));
    auto it = std::find_if(groups_.begin(), groups_.end(), [&](auto &g) { return g.name == group.name; });

    if (it == groups_.end())
        it = groups_.emplace(it);
    *it = std::move(group);
    return static_cast<int>(it - groups_.begin());
}

void Recorder::finish(const Ticket &ticket, RecordState state)
{
    update(ticket, [state](Record &r) {
        r.completed = c10::getApproximateTime();
        r.state = state;
    });
}

std::pair<std::vector<Record>, std::vector<RecordedGroup>> Recorder::copy()
{
    std::lock_guard<std::mutex> guard(Fork::lock(Fork::kRecorder));
    std::vector<Record> records;

    for (uint64_t id = oldest(); id < next_; id++)
        records.push_back(ring_[id % capacity_]);
    return {std::move(records), groups_};
}

void Recorder::clear()
{
    std::lock_guard<std::mutex> guard(Fork::lock(Fork::kRecorder));

    for (uint64_t id = oldest(); id < next_; id++)
        ring_[id % capacity_].stack.reset();
    first_ = next_;
}

Recorder::Recorder()
{
    const char *entries = std::getenv("TORCH_FR_BUFFER_SIZE");

    capacity_ = entries && *entries ? std::strtoull(entries, nullptr, 10) : 2000;
    capacity_ = std::min<uint64_t>(capacity_, 1000000);
    if (capacity_)
        ring_ = std::make_unique<Record[]>(capacity_);
}

} // namespace weft_torch
