/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation as PyTorch sees it: waiting, polling, futures. It is completed exactly once, by whoever sees it first. */
#pragma once

#include <functional>

#include "engine.hpp"

namespace weft_torch
{

class Work;
using WorkPtr = c10::intrusive_ptr<Work>;

class Work final : public c10d::Work
{
public:
    Work(EnginePtr engine, c10d::OpType type, const char *name, const char *profiling_title = nullptr,
         const std::optional<Tensors> &profiled_inputs = std::nullopt)
        : c10d::Work(engine->rank, type, profiling_title, profiled_inputs), name(name), engine_(std::move(engine))
    {
    }

    /* The issuer's: before anybody else knows of this Work. */
    const char *name;
    Ticket ticket;
    int source = -1;                           /* of a message; WEFT_ANY_SOURCE until it is known */
    Tensors outputs;                           /* the result; may be empty */
    Tensors keep;                              /* what the operation reads and writes besides */
    std::vector<std::shared_ptr<void>> arrays; /* likewise: what is no tensor */
    std::function<void()> unpack;              /* on success: from staging memory to the outputs */
    StackPtr stack;                            /* once others know of this Work: under future_lock_ */
    std::vector<Ticket> parts;                 /* of a batch */
    c10::SmallVector<weft_request *, 2> requests;
    weft_status issue_status = WEFT_SUCCESS; /* of the first call that was refused */
    BlockPtr block;                          /* of a batch: where it was opened */

    /* ---- The issuer's ---- */

    void complete_inline(weft_status status);
    /* Of a batch: it will be issued later, by this thread. */
    void postpone()
    {
        opener_ = std::this_thread::get_id();
        issued_.store(false, std::memory_order_relaxed);
    }
    /* Others that know of this Work may look at its requests from now on. */
    void now_issued();
    /* Of a batch that will never be issued. */
    void drop(const char *why);
    /* Once other threads may complete it. */
    void list();
    /* Look, without blocking. True: it is complete. `quiet`: leave it to others to complete an operation with a future,
     * whose call-backs may do anything. */
    bool poll(bool quiet = false);
    /* A look right after the issue. A failure is left to be found later: its text says where the operation was issued. */
    bool succeeded_at_once();
    /* Unless it is complete: keep where in Python that was. After the issue, so that peers need not wait for it, and without
     * the group's lock, as it takes the interpreter's. */
    void issued_here();
    /* Complete it as soon as the library says so, though nobody waits. */
    void watch();
    /* The group is gone: what has not completed never will. */
    void give_up();

    /* ---- What PyTorch calls ---- */

    bool isCompleted() override { return poll(); }
    bool isSuccess() const override { return is_done() && !exception_; }
    std::exception_ptr exception() const override { return is_done() ? exception_ : nullptr; }
    int sourceRank() const override { return source; }
    void synchronize() override { wait(kNoTimeout); }
    void abort() override { engine_->abort("Work.abort() was called"); }
    uint64_t getSequencenumber() const override { return ticket.seq; }
    float getDuration() const override;
    Tensors result() override;
    bool wait(milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

    static constexpr char kLeft[] = "the batch that it belongs to was left without its end, by an exception";

private:
    static constexpr uint64_t kSliceNs = 50000000; /* how long a waiter leaves signals unseen */

    /* One for all requests of a work; the last that ends completes it. */
    struct Watch {
        WorkPtr work;
        std::atomic<size_t> left;
    };

    /* Waiting for an operation of a batch inside of it would be for ever, as torch's coalescing manager does with an operation
     * that is not asynchronous: it is complete when the batch is. Unless the batch was left without its end. */
    bool in_open_batch();
    bool is_issued() const { return issued_.load(std::memory_order_acquire); }
    bool is_done() const { return done_.load(std::memory_order_acquire); }
    bool has_future();
    static uint64_t slice_until(steady_clock::time_point until);

    /* Ask the library, with mutex_ held; requests before next_ are complete. */
    bool test(uint64_t wait_ns);
    void find_source();

    void finish(std::unique_lock<std::mutex> &held, weft_status status, const std::string &text = "");
    void fail(weft_status status, const std::string &text);
    void run_unpack();
    void mark_future();

    /* On a thread of the library's, which may run whatever hangs on the future. The library is C: nothing is thrown through it. */
    static void ended(weft_status, void *arg) noexcept;

    /* mutex_ (the base's) is held while the library is asked, and may be when the interpreter's lock is taken: nobody takes it
     * who has that. What Python asks without letting go of the interpreter is under future_lock_, which guards the future, and
     * the requests against being freed. */
    std::mutex future_lock_;
    EnginePtr engine_;
    std::atomic<bool> done_{false}, issued_{true};
    std::thread::id opener_;
    bool watched_ = false, listed_ = false;
    UnderWay::Place place_;
    size_t next_ = 0;
    weft_status status_ = WEFT_SUCCESS;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace weft_torch
