/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight recorder of the process: the newest operations of all groups with what PyTorch's analyzer wants to know. Always on:
 * an entry is a few stores into a ring. */
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/ApproximateClock.h>
#include "runtime.hpp"

namespace weft_torch
{

enum class RecordState : uint8_t { Started, Completed, Failed };

struct Shape {
    static constexpr size_t kDims = 5;
    uint8_t ndims = 0; /* of more than kDims the last ones are multiplied */
    int8_t dtype = -1; /* at::ScalarType; -1: no tensor */
    std::array<int64_t, kDims> dims;
    void set(const at::Tensor &t, int64_t copies = 0); /* copies > 0: as many, stacked */
};

struct Record {
    uint64_t id = 0, seq = 0, p2p_seq = 0;
    const char *name = "";
    int group = -1, peer = -1;
    bool p2p = false;
    RecordState state = RecordState::Started; /* state and completed: by std::atomic_ref, once others know of the entry */
    c10::approx_time_t created = 0, completed = 0;
    int64_t timeout_ms = 0;
    Shape in, out;
    std::shared_ptr<Stack> stack;
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
    bool enabled() const
    {
        return capacity_ > 0 && on_.load(std::memory_order_relaxed);
    }
    void set_enabled(bool on)
    {
        on_.store(on, std::memory_order_relaxed);
    }
    int add_group(RecordedGroup group);
    /* The entry of a new operation, to be filled by its issuer before anybody else looks; it is overwritten after capacity
     * further ones, so that its id tells whether it is still the same. */
    Record *add(int group);
    void set_stack(Record *record, uint64_t id, std::shared_ptr<Stack> stack);
    void finish(Record *record, uint64_t id, RecordState state);
    /* Everything, oldest first. */
    void copy(std::vector<Record> *records, std::vector<RecordedGroup> *groups);
    void clear();
    /* From the times of entries to nanoseconds since 1970. */
    std::function<c10::time_t(c10::approx_time_t)> clock();

private:
    Recorder();
    std::mutex lock_;
    std::atomic<bool> on_{true};
    uint64_t next_ = 0, capacity_ = 0;
    std::unique_ptr<Record[]> ring_;
    std::vector<RecordedGroup> groups_;
    c10::ApproximateClockToUnixTimeConverter converter_; /* knows the processor's clock the better the older it is */
};

} // namespace weft_torch
