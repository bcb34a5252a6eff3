/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion: waiting, polling, futures. */
#include "work.hpp"

#include <c10/util/Exception.h>
#include "runtime.hpp"

namespace weft_torch
{

using std::chrono::milliseconds;

static constexpr uint64_t kSliceNs = 50000000; /* how long a waiter leaves signals unseen */

Work::Work(EnginePtr engine, int rank, c10d::OpType type, const char *name, const char *profiling_title,
           const std::optional<Tensors> &profiled_inputs)
    : c10d::Work(rank, type, profiling_title, profiled_inputs), name(name), engine_(std::move(engine))
{
}

Work::~Work() = default;

/* ---- Completion: exactly once, by whoever sees it first ---- */

void Work::finish(std::unique_lock<std::mutex> &held, weft_status status, const std::string &text)
{
    if (status >= 0 && unpack) {
        try {
            at::AutoDispatchBelowAutograd guard;
            unpack();
        } catch (...) {
            exception_ = std::current_exception();
        }
    }
    if (C10_UNLIKELY(status < 0)) {
        std::shared_ptr<Stack> where;
        {
            std::lock_guard<std::mutex> guard(future_lock_);
            where = stack;
        }
        status_ = status;
        exception_ = std::make_exception_ptr(
            c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                  text.empty() ? engine_->describe(status, name, seq, where) : text));
    }
    auto state = exception_ ? RecordState::Failed : RecordState::Completed;
    Recorder::get().finish(record, record_id, state);
    for (const auto &[one, id] : records)
        Recorder::get().finish(one, id, state);
    {
        std::lock_guard<std::mutex> guard(future_lock_);
        if (!requests.empty())
            engine_->release(requests);
        requests.clear();
    }
    unpack = nullptr;
    keep.clear();
    arrays.clear();
    if (recordFunctionEndCallback_) {
        recordFunctionEndCallback_();
        recordFunctionEndCallback_ = nullptr;
    }
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

void Work::mark_future()
{
    if (exception_)
        future_->setErrorIfNeeded(exception_);
    else
        future_->markCompleted(c10::IValue(outputs));
}

bool Work::has_future()
{
    std::lock_guard<std::mutex> guard(future_lock_);

    return future_ != nullptr;
}

void Work::complete_inline(weft_status status)
{
    std::unique_lock<std::mutex> held(mutex_);

    finish(held, status, "");
}

bool Work::test(uint64_t wait_ns)
{
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

void Work::find_source()
{
    weft_message message = WEFT_MESSAGE_INIT;

    if (weft_request_message(requests.front(), &message) < 0)
        return;
    source = message.source;
    if (record && record->id == record_id)
        record->peer = source;
}

bool Work::poll(bool quiet)
{
    if (done_.load(std::memory_order_acquire))
        return true;
    std::unique_lock<std::mutex> held(mutex_, std::try_to_lock);
    if (!held.owns_lock() || done_.load(std::memory_order_acquire))
        return done_.load(std::memory_order_acquire);
    if (quiet && has_future())
        return false;
    if (!test(0))
        return false;
    finish(held, status_, "");
    return true;
}

/* ---- Told by the library ---- */

namespace
{
/* One for all requests of a work; the last that ends completes it. */
struct Watch {
    WorkPtr work;
    std::atomic<size_t> left;
};
} // namespace

/* On a thread of the library's, which may run whatever hangs on the future. */
void Work::ended(weft_status, void *arg)
{
    auto *watch = static_cast<Watch *>(arg);

    if (--watch->left)
        return;
    WorkPtr work = std::move(watch->work);
    delete watch;
    std::unique_lock<std::mutex> held(work->mutex_);
    if (!work->done_.load(std::memory_order_acquire) && work->engine_->comm.load() && work->test(0))
        work->finish(held, work->status_, "");
}

void Work::watch()
{
    std::lock_guard<std::mutex> guard(future_lock_);

    if (watched_ || requests.empty()) /* none: it is complete, or about to be */
        return;
    watched_ = true;
    auto *watch = new Watch{c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this), {requests.size()}};
    for (weft_request *r : requests)
        if (weft_request_on_complete(r, ended, watch) < 0)
            throw_thread_error(name, WEFT_ENOMEM);
}

bool Work::succeeded_at_once()
{
    std::unique_lock<std::mutex> held(mutex_);

    if (!test(0) || status_ < 0)
        return false;
    finish(held, status_, "");
    return true;
}

void Work::issued_here()
{
    if (C10_LIKELY(stack_level() < 2)) {
        if (done_.load(std::memory_order_acquire) || !stack_level())
            return;
        auto here = capture_stack();
        std::lock_guard<std::mutex> guard(future_lock_);
        stack = std::move(here);
    }
    Recorder::get().set_stack(record, record_id, stack);
}

void Work::give_up(const std::string &why)
{
    std::unique_lock<std::mutex> held(mutex_);

    if (done_.load(std::memory_order_acquire))
        return;
    requests.clear(); /* they went with the communicator */
    finish(held, WEFT_EABORTED, why);
}

/* ---- What PyTorch calls ---- */

bool Work::isCompleted()
{
    return poll();
}

bool Work::isSuccess() const
{
    return done_.load(std::memory_order_acquire) && !exception_;
}

std::exception_ptr Work::exception() const
{
    return done_.load(std::memory_order_acquire) ? exception_ : nullptr;
}

int Work::sourceRank() const
{
    return source;
}

Tensors Work::result()
{
    TORCH_CHECK(isCompleted(), "weft: ", name, ": the result is asked for before the operation has completed");
    if (exception_)
        std::rethrow_exception(exception_);
    return outputs;
}

void Work::synchronize()
{
    wait(kNoTimeout);
}

bool Work::wait(milliseconds timeout)
{
    if (!done_.load(std::memory_order_acquire)) {
        auto until = std::chrono::steady_clock::now() + timeout;
        for (;;) {
            std::unique_lock<std::mutex> held(mutex_);
            if (done_.load(std::memory_order_acquire))
                break;
            uint64_t slice = kSliceNs;
            if (timeout != kNoTimeout) {
                auto left =
                    std::chrono::duration_cast<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now());
                slice = left.count() <= 0 ? 1 : std::min<uint64_t>(slice, left.count());
            }
            if (test(slice)) {
                finish(held, status_, "");
                break;
            }
            held.unlock();
            check_signals();
            TORCH_CHECK(timeout == kNoTimeout || std::chrono::steady_clock::now() < until,
                        "Operation timed out! weft: ", name, " (sequence number ", seq, ") of group ", engine_->name,
                        " is not complete on rank ", engine_->rank, " after ", timeout.count(), " ms; it goes on");
        }
    }
    if (exception_)
        std::rethrow_exception(exception_);
    return true;
}

void Work::abort()
{
    engine_->abort("Work.abort() was called");
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    bool pending;
    {
        std::lock_guard<std::mutex> guard(future_lock_);
        if (future_)
            return future_;
        future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
        pending = !done_.load(std::memory_order_acquire);
    }
    if (pending)
        watch();
    else
        mark_future();
    return future_;
}

float Work::getDuration() const
{
    if (!record || record->id != record_id || !record->completed)
        return 0;
    auto to_ns = Recorder::get().clock();
    return static_cast<float>(to_ns(record->completed) - to_ns(record->created)) / 1e6f;
}

uint64_t Work::getSequencenumber() const
{
    return seq;
}

} // namespace weft_torch
