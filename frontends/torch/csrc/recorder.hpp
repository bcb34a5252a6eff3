/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight recorder of the process: the newest operations of all groups with what PyTorch's analyzer wants to know. Always on:
 * an entry is a few stores into a ring. */
#pragma once

#include <atomic>

#include <c10/util/ApproximateClock.h>
#include "coding.hpp"
#include "python.hpp"

namespace weft_torch
{

enum class RecordState : uint8_t { Started, Completed, Failed };

struct Shape {
    int8_t dtype = -1; /* at::ScalarType; -1: no tensor */
    c10::DimVector dims;

    /* Of `copies` such tensors, stacked; 0: of the tensor alone. */
    void set(const at::Tensor *t, int64_t copies);
};

struct Record {
    uint64_t id = 0, seq = 0, p2p_seq = 0;
    const char *name = "";
    int group = -1, peer = -1;
    bool p2p = false;
    RecordState state = RecordState::Started;
    c10::approx_time_t created = 0, completed = 0;
    int64_t timeout_ms = 0;
    Shape in, out;
    StackPtr stack;
    CodingPtr coding; /* none: what the communicator does */
};

/* An operation's number, and that of its record, which is overwritten after so many further operations; 0: it has none. */
struct Ticket {
    uint64_t seq = 0, id = 0;
};

struct RecordedGroup {
    std::string name;
    std::vector<uint64_t> ranks; /* global */
    int rank = 0;                /* this process's, in the group */
};

class Recorder
{
public:
    static Recorder &get();
    bool enabled() const { return capacity_ > 0 && on_.load(std::memory_order_relaxed); }
    void set_enabled(bool on) { on_.store(on, std::memory_order_relaxed); }

    /* Groups come and go: one that is made again under its name takes its old place. */
    int add_group(RecordedGroup group);
    /* The entry of a new operation, filled by fill(record). */
    template <class F> void add(Ticket *ticket, F &&fill)
    {
        std::lock_guard<std::mutex> guard(Fork::lock(Fork::kRecorder));
        Record *r = &ring_[next_ % capacity_];

        r->id = ticket->id = next_++;
        r->state = RecordState::Started;
        r->completed = 0;
        r->created = c10::getApproximateTime();
        fill(*r);
    }
    /* fn(record), unless it was overwritten or forgotten. */
    template <class F> void update(const Ticket &ticket, F &&fn)
    {
        if (!ticket.id)
            return;
        std::lock_guard<std::mutex> guard(Fork::lock(Fork::kRecorder));
        Record *r = &ring_[ticket.id % capacity_];
        if (ticket.id >= first_ && r->id == ticket.id)
            fn(*r);
    }
    void finish(const Ticket &ticket, RecordState state);
    /* Everything, oldest first. */
    std::pair<std::vector<Record>, std::vector<RecordedGroup>> copy();
    void clear();
    /* From the times of entries to nanoseconds since 1970. */
    auto clock() { return converter_.makeConverter(); }

private:
    Recorder();

    uint64_t oldest() const { return next_ > capacity_ ? std::max(first_, next_ - capacity_) : first_; }

    std::atomic<bool> on_{true};
    uint64_t next_ = 1, first_ = 1, capacity_ = 0; /* numbers of entries, never used again; first_: the oldest since clear() */
    std::unique_ptr<Record[]> ring_;
    std::vector<RecordedGroup> groups_;
    c10::ApproximateClockToUnixTimeConverter converter_; /* knows the processor's clock the better the older it is */
};

} // namespace weft_torch
