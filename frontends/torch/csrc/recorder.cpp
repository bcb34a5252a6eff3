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

Record *Recorder::add(int group)
{
    std::lock_guard<std::mutex> guard(lock_);
    Record *r = &ring_[next_ % capacity_];

    r->id = next_++;
    r->group = group;
    r->state = RecordState::Started;
    r->completed = 0;
    r->created = c10::getApproximateTime();
    r->in.dtype = r->out.dtype = -1;
    r->peer = -1;
    if (C10_UNLIKELY(r->stack != nullptr))
        r->stack.reset();
    return r;
}

void Recorder::set_stack(Record *r, uint64_t id, std::shared_ptr<Stack> stack)
{
    std::lock_guard<std::mutex> guard(lock_);

    if (r && r->id == id)
        r->stack = std::move(stack);
}

void Recorder::finish(Record *r, uint64_t id, RecordState state)
{
    if (!r || r->id != id)
        return;
    std::atomic_ref(r->completed).store(c10::getApproximateTime(), std::memory_order_relaxed);
    std::atomic_ref(r->state).store(state, std::memory_order_release);
}

std::function<c10::time_t(c10::approx_time_t)> Recorder::clock()
{
    return converter_.makeConverter();
}

void Recorder::copy(std::vector<Record> *records, std::vector<RecordedGroup> *groups)
{
    std::lock_guard<std::mutex> guard(lock_);

    *groups = groups_;
    for (uint64_t id = next_ > capacity_ ? next_ - capacity_ : 0; id < next_; id++) {
        records->push_back(ring_[id % capacity_]);
        /* An operation may end meanwhile: its time is valid when its state says so. */
        records->back().state = std::atomic_ref(ring_[id % capacity_].state).load(std::memory_order_acquire);
        records->back().completed = std::atomic_ref(ring_[id % capacity_].completed).load(std::memory_order_relaxed);
    }
}

void Recorder::clear()
{
    std::lock_guard<std::mutex> guard(lock_);

    for (uint64_t i = 0; i < capacity_; i++)
        ring_[i].stack.reset();
    next_ = 0;
}

} // namespace weft_torch
