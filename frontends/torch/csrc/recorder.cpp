/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight recorder: a ring of entries. */
#include "recorder.hpp"

#include <cstdlib>

namespace weft_torch
{

void Shape::set(const at::Tensor &t, int64_t copies)
{
    at::IntArrayRef sizes = t.sizes();
    size_t n = 0;

    dtype = static_cast<int8_t>(t.scalar_type());
    if (copies > 0)
        dims[n++] = copies;
    for (int64_t d : sizes) {
        if (n < kDims)
            dims[n++] = d;
        else
            dims[kDims - 1] *= d;
    }
    ndims = static_cast<uint8_t>(n);
}

Recorder &Recorder::get()
{
    static auto *recorder = new Recorder(); /* never destroyed: operations may end while the process exits */
    return *recorder;
}

Recorder::Recorder()
{
    const char *entries = std::getenv("TORCH_FR_BUFFER_SIZE");

    capacity_ = entries && *entries ? std::strtoull(entries, nullptr, 10) : 2000;
    if (capacity_ > 1000000)
        capacity_ = 1000000;
    if (capacity_)
        ring_ = std::make_unique<Record[]>(capacity_);
}

int Recorder::add_group(RecordedGroup group)
{
    std::lock_guard<std::mutex> guard(lock_);

    /* Groups come and go: one that is made again under its name takes its old place. */
    for (size_t i = 0; i < groups_.size(); i++)
        if (groups_[i].name == group.name) {
            groups_[i] = std::move(group);
            return static_cast<int>(i);
        }
    groups_.push_back(std::move(group));
    return static_cast<int>(groups_.size()) - 1;
}

void Recorder::describe_group(int group, const std::string &desc)
{
    std::lock_guard<std::mutex> guard(lock_);

    groups_.at(group).desc = desc;
}

Record *Recorder::add(int group)
{
    std::lock_guard<std::mutex> guard(lock_);
    Record *r = &ring_[next_ % capacity_];

    r->id = next_++;
    r->group = group;
    r->state.store(RecordState::Scheduled, std::memory_order_relaxed);
    r->completed.store(0, std::memory_order_relaxed);
    r->created = c10::getApproximateTime();
    r->in.dtype = r->out.dtype = -1;
    r->peer = -1;
    if (C10_UNLIKELY(r->stack != nullptr))
        r->stack.reset();
    return r;
}

void Recorder::finish(Record *r, uint64_t id, RecordState state)
{
    if (!r || r->id != id)
        return;
    r->completed.store(c10::getApproximateTime(), std::memory_order_relaxed);
    r->state.store(state, std::memory_order_release);
}

std::function<c10::time_t(c10::approx_time_t)> Recorder::clock()
{
    return converter_.makeConverter();
}

std::vector<RecordedGroup> Recorder::groups()
{
    std::lock_guard<std::mutex> guard(lock_);

    return groups_;
}

void Recorder::clear()
{
    std::lock_guard<std::mutex> guard(lock_);

    for (uint64_t i = 0; i < capacity_; i++)
        ring_[i].stack.reset();
    next_ = 0;
}

} // namespace weft_torch
