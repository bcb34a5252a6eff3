/* SPDX-License-Identifier: BSD-3-Clause */
/* Issuing an operation. One that its caller waits for anyway runs in the calling thread, without a request, when nothing else
 * is under way; others go through a request and are waited for later. */
#pragma once

#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include "batch.hpp"
#include "tensors.hpp"

namespace weft_torch
{

class Issuer : public c10d::Backend
{
public:
    const EnginePtr &engine() const { return engine_; }
    uint64_t getSequenceNumberForGroup() override { return engine_->seq; }
    size_t operations_under_way() const { return engine_->under_way.count(); }

    /* Between them the operations of the calling thread are issued together, so that sends and receives in any order cannot wait
     * for each other. */
    void startCoalescing() override;
    WorkBase endCoalescing() override;

protected:
    Issuer(int rank, int size, c10::intrusive_ptr<WeftOptions> options)
        : c10d::Backend(rank, size), options_(std::move(options))
    {
    }

    /* Issue an operation: fill(work) sets its result, what must live meanwhile, and what is run when it has succeeded. */
    template <class F, class Fill> WorkBase run(const Op &op, F &&call, Fill &&fill)
    {
        Batch *batch = open_batch();

        return C10_LIKELY(!batch) ? run_now(op, call, fill) : add_to(*batch, op, Call(std::forward<F>(call)), fill);
    }
    /* Calls on buffers: fn(the buffers of the i-th call). */
    template <class F> WorkBase run_on(const Op &op, Flats flats, F fn)
    {
        struct {
            size_t stride;
            Flats flats;
            F fn;
            weft_call operator()(size_t i) const { return fn(flats.data() + i * stride); }
        } call{flats.size() / op.ncalls, std::move(flats), std::move(fn)};

        return run(op, call, [&](Work &work) {
            for (const Flat &flat : call.flats)
                flat.hand_to(work);
        });
    }
    WorkPtr make_work(const Op &op, bool profiling);
    /* With the group's lock held: let operations that have completed know it. */
    void reap();
    /* Let what is under way finish, at most `patience`, then leave the group. */
    void close(milliseconds patience);

    /* Of this group and the calling thread; NULL: none is open. One that was left by an exception is forgotten. */
    Batch *open_batch() const;

    c10::intrusive_ptr<WeftOptions> options_;
    EnginePtr engine_;

private:
    using CallRef = c10::function_ref<weft_call(size_t)>;
    using IssueRef = c10::function_ref<weft_status(weft_comm *, Work *)>;
    using FillRef = c10::function_ref<void(Work &)>;

    /* For stacks of all operations: before the group's lock, as it takes the interpreter's. */
    static StackPtr early_stack() { return C10_UNLIKELY(stack_level() > 1) ? Stack::capture() : nullptr; }

    WorkBase run_now(const Op &op, CallRef call, FillRef fill);
    WorkBase add_to(Batch &batch, const Op &op, Call call, FillRef fill);
    /* In this thread. The group's lock, which is held, is given up once the operation has its number. */
    WorkBase run_here(const Op &op, CallRef call, FillRef fill, std::unique_lock<std::mutex> &held, weft_comm *comm,
                      const StackPtr &stack, WorkPtr work);
    /* With requests: the work completes later. */
    WorkBase issue(const Op &op, IssueRef calls, WorkPtr work, Batch *batch = nullptr);
    /* Do the operation's calls: blocking ones when there is no work to keep their requests. */
    weft_status call_all(weft_comm *comm, const Op &op, CallRef call, Work *work);
    /* What the operation does otherwise than its group; NULL: nothing. What calls differ in is `coding`. What this returns points
     * into `algorithms`. */
    const weft_call_options *options_of(const Op &op, const Coding *coding, const Algorithms *algorithms,
                                        weft_call_options &room) const;
    /* By the call, NULL if by none, or else by the group; NULL: the library chooses. */
    const char *named_algorithm(const Op &op, const Algorithms *call) const;
    /* With the group's lock held, after the call. */
    void tell_choice(weft_comm *comm, const Op &op) const;
    /* Take the operation's number and write it down. The group's lock is held. */
    Ticket number(const Op &op, const StackPtr &stack);
    /* Its operations and the record that ends them share one number, of collectives and one of messages: that of collectives is
     * the same on all ranks, whoever exchanges messages besides. Returns the ticket of the whole. */
    Ticket number_batch(Batch &batch);
    /* Plain stores: only the lock's holder counts. */
    static uint64_t next(std::atomic<uint64_t> &count)
    {
        uint64_t number = count.load(std::memory_order_relaxed) + 1;
        count.store(number, std::memory_order_relaxed);
        return number;
    }
    void fill_record(const Op &op, Record &r) const;
    Record record_of(const Op &op) const;
    /* The record that profilers know collectives by: group, sizes, type. */
    void annotate(const Op &op, uint64_t seq) const;
};

} // namespace weft_torch
