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

    void complete_inline(weft_status status)
    {
        std::unique_lock<std::mutex> held(mutex_);
        finish(held, status);
    }
    /* Of a batch: it will be issued later, by this thread. */
    void postpone()
    {
        opener_ = std::this_thread::get_id();
        issued_.store(false, std::memory_order_relaxed);
    }
    /* Others that know of this Work may look at its requests from now on. */
    void now_issued()
    {
        if (C10_LIKELY(issued_.load(std::memory_order_relaxed)))
            return;
        {
            std::lock_guard<std::mutex> held(mutex_);
            issued_.store(true, std::memory_order_release);
        }
        cv_.notify_all();
        if (has_future())
            watch();
    }
    /* Of a batch that will never be issued. */
    void drop(const char *why)
    {
        std::unique_lock<std::mutex> held(mutex_);

        if (!is_done())
            finish(held, WEFT_ECANCELED, c10::str("weft: ", name, " of group ", engine_->name, " was not issued: ", why));
        cv_.notify_all();
    }
    /* Once other threads may complete it. */
    void list()
    {
        place_ = engine_->under_way.add(WorkPtr::unsafe_reclaim_from_nonowning(this));
        listed_ = true;
    }
    /* Look, without blocking. True: it is complete. `quiet`: leave it to others to complete an operation with a future,
     * whose call-backs may do anything. */
    bool poll(bool quiet = false)
    {
        if (is_done())
            return true;
        std::unique_lock<std::mutex> held(mutex_, std::try_to_lock);
        if (!held.owns_lock() || is_done())
            return is_done();
        if ((quiet && has_future()) || !test(0))
            return false;
        finish(held, status_);
        return true;
    }
    /* A look right after the issue. A failure is left to be found later: its text says where the operation was issued. */
    bool succeeded_at_once()
    {
        std::unique_lock<std::mutex> held(mutex_);

        if (!test(0) || status_ < 0)
            return false;
        finish(held, status_);
        return true;
    }
    /* Unless it is complete: keep where in Python that was. After the issue, so that peers need not wait for it, and without
     * the group's lock, as it takes the interpreter's. */
    void issued_here()
    {
        if (C10_LIKELY(stack_level() < 2)) {
            if (is_done() || !stack_level())
                return;
            auto here = Stack::capture();
            std::lock_guard<std::mutex> guard(future_lock_);
            stack = std::move(here);
        }
        Recorder::get().update(ticket, [this](Record &r) { r.stack = stack; });
    }
    /* Complete it as soon as the library says so, though nobody waits. */
    void watch()
    {
        std::lock_guard<std::mutex> guard(future_lock_);

        if (watched_ || !is_issued() || requests.empty()) /* none: it is complete, or about to be */
            return;
        watched_ = true;
        auto *watch = new Watch{WorkPtr::unsafe_reclaim_from_nonowning(this), {requests.size()}};
        for (weft_request *r : requests)
            check_status(weft_request_on_complete(r, ended, watch), name);
    }
    /* The group is gone: what has not completed never will. */
    void give_up()
    {
        std::unique_lock<std::mutex> held(mutex_);

        if (is_done())
            return;
        requests.clear(); /* they went with the communicator */
        finish(held, WEFT_EABORTED,
               c10::str("weft: ", name, " (sequence number ", ticket.seq, ") of group ", engine_->name,
                        " was under way when the group was shut down on this rank"));
    }

    /* ---- What PyTorch calls ---- */

    bool isCompleted() override { return poll(); }
    bool isSuccess() const override { return is_done() && !exception_; }
    std::exception_ptr exception() const override { return is_done() ? exception_ : nullptr; }
    int sourceRank() const override { return source; }
    void synchronize() override { wait(kNoTimeout); }
    void abort() override { engine_->abort("Work.abort() was called"); }
    uint64_t getSequencenumber() const override { return ticket.seq; }
    float getDuration() const override
    {
        auto to_ns = Recorder::get().clock();
        float ms = 0;
        Recorder::get().update(ticket, [&](const Record &r) {
            ms = r.completed ? static_cast<float>(to_ns(r.completed) - to_ns(r.created)) / 1e6f : 0;
        });
        return ms;
    }
    Tensors result() override
    {
        TORCH_CHECK(isCompleted(), "weft: ", name, ": the result is asked for before the operation has completed");
        if (exception_)
            std::rethrow_exception(exception_);
        return outputs;
    }
    bool wait(milliseconds timeout = kNoTimeout) override
    {
        auto until = timeout == kNoTimeout ? steady_clock::time_point() : steady_clock::now() + timeout;

        while (!is_done()) {
            if (C10_UNLIKELY(in_open_batch()))
                return true;
            engine_->check_own(name);
            std::unique_lock<std::mutex> held(mutex_);
            if (is_done())
                break;
            uint64_t slice = timeout == kNoTimeout ? kSliceNs : slice_until(until);
            if (C10_UNLIKELY(!is_issued()))
                cv_.wait_for(held, std::chrono::nanoseconds(slice));
            else if (test(slice)) {
                finish(held, status_);
                break;
            }
            held.unlock();
            check_signals();
            TORCH_CHECK(timeout == kNoTimeout || steady_clock::now() < until, "Operation timed out! weft: ", name,
                        " (sequence number ", ticket.seq, ") of group ", engine_->name, " is not complete on rank ",
                        engine_->rank, " after ", timeout.count(), " ms; it goes on");
        }
        if (exception_)
            std::rethrow_exception(exception_);
        return true;
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            if (future_)
                return future_;
            future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
            if (is_done())
                mark_future();
        }
        watch();
        return future_;
    }

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
    bool in_open_batch()
    {
        if (is_issued() || opener_ != std::this_thread::get_id())
            return false;
        if (!block || !block->left())
            return true;
        drop(kLeft);
        return false;
    }
    bool is_issued() const { return issued_.load(std::memory_order_acquire); }
    bool is_done() const { return done_.load(std::memory_order_acquire); }
    bool has_future()
    {
        std::lock_guard<std::mutex> guard(future_lock_);
        return future_ != nullptr;
    }
    static uint64_t slice_until(steady_clock::time_point until)
    {
        auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - steady_clock::now()).count();
        return left <= 0 ? 1 : std::min<uint64_t>(kSliceNs, left);
    }

    /* Ask the library, with mutex_ held; requests before next_ are complete. */
    bool test(uint64_t wait_ns)
    {
        if (C10_UNLIKELY(!is_issued() || engine_->inherited()))
            return false;
        for (; next_ < requests.size(); next_++) {
            weft_status st = wait_ns ? weft_wait_for(requests[next_], wait_ns) : weft_test(requests[next_]);
            if (st == WEFT_INPROGRESS)
                return false;
            if (st < 0 && status_ >= 0)
                status_ = st;
        }
        if (C10_UNLIKELY(source == WEFT_ANY_SOURCE) && status_ >= 0 && !requests.empty())
            find_source();
        if (issue_status < 0 && status_ >= 0)
            status_ = issue_status;
        return true;
    }
    void find_source()
    {
        weft_message message = WEFT_MESSAGE_INIT;

        if (weft_request_message(requests.front(), &message) < 0)
            return;
        source = message.source;
        Recorder::get().update(ticket, [this](Record &r) { r.peer = source; });
    }

    void finish(std::unique_lock<std::mutex> &held, weft_status status, const std::string &text = "")
    {
        if (status < 0)
            fail(status, text);
        else if (unpack)
            run_unpack();
        auto state = exception_ ? RecordState::Failed : RecordState::Completed;
        Recorder::get().finish(ticket, state);
        for (const Ticket &part : parts)
            Recorder::get().finish(part, state);
        if (std::exchange(listed_, false)) /* the caller has another reference */
            engine_->under_way.remove(place_);
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            for (weft_request *r : requests)
                if (engine_->usable())
                    weft_request_free(r);
            requests.clear();
        }
        unpack = nullptr;
        keep.clear();
        arrays.clear();
        block.reset();
        if (recordFunctionEndCallback_)
            std::exchange(recordFunctionEndCallback_, nullptr)();
        completed_ = true;
        bool failed = exception_ != nullptr, watched;
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            done_.store(true, std::memory_order_release);
            watched = future_ != nullptr;
        }
        held.unlock();
        if (watched)
            mark_future();
        if (C10_UNLIKELY(failed))
            dump_on_failure();
    }
    void fail(weft_status status, const std::string &text)
    {
        StackPtr where;
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            where = stack;
        }
        status_ = status;
        exception_ = std::make_exception_ptr(
            c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                  text.empty() ? engine_->describe(status, name, ticket.seq, where) : text));
    }
    void run_unpack()
    {
        try {
            at::AutoDispatchBelowAutograd guard;
            unpack();
        } catch (...) {
            exception_ = std::current_exception();
        }
    }
    void mark_future()
    {
        if (exception_)
            future_->setErrorIfNeeded(exception_);
        else
            future_->markCompleted(c10::IValue(outputs));
    }

    /* On a thread of the library's, which may run whatever hangs on the future. The library is C: nothing is thrown through it. */
    static void ended(weft_status, void *arg) noexcept
    {
        auto *watch = static_cast<Watch *>(arg);

        if (--watch->left)
            return;
        WorkPtr work = std::move(watch->work);
        delete watch;
        try {
            std::unique_lock<std::mutex> held(work->mutex_);
            if (!work->is_done() && work->engine_->usable() && work->test(0))
                work->finish(held, work->status_);
        } catch (const std::exception &problem) {
            TORCH_WARN("weft: what hangs on the future of ", work->name, " has thrown: ", problem.what());
        } catch (...) {
            TORCH_WARN("weft: what hangs on the future of ", work->name, " has thrown");
        }
    }

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
