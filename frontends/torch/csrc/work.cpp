/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.hpp"

namespace weft_torch
{

void Work::complete_inline(weft_status status)
{
    std::unique_lock<std::mutex> held(mutex_);
    finish(held, status);
}

void Work::now_issued()
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

void Work::drop(const char *why)
{
    std::unique_lock<std::mutex> held(mutex_);

    if (!is_done())
        finish(held, WEFT_ECANCELED, c10::str("weft: ", name, " of group ", engine_->name, " was not issued: ", why));
    cv_.notify_all();
}

void Work::list()
{
    place_ = engine_->under_way.add(WorkPtr::unsafe_reclaim_from_nonowning(this));
    listed_ = true;
}

bool Work::poll(bool quiet)
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

bool Work::succeeded_at_once()
{
    std::unique_lock<std::mutex> held(mutex_);

    if (!test(0) || status_ < 0)
        return false;
    finish(held, status_);
    return true;
}

void Work::issued_here()
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

void Work::watch()
{
    std::lock_guard<std::mutex> guard(future_lock_);

    if (watched_ || !is_issued() || requests.empty()) /* none: it is complete, or about to be */
        return;
    watched_ = true;
    auto *watch = new Watch{WorkPtr::unsafe_reclaim_from_nonowning(this), {requests.size()}};
    for (weft_request *r : requests)
        check_status(weft_request_on_complete(r, ended, watch), name);
}

void Work::give_up()
{
    std::unique_lock<std::mutex> held(mutex_);

    if (is_done())
        return;
    requests.clear(); /* they went with the communicator */
    finish(held, WEFT_EABORTED,
           c10::str("weft: ", name, " (sequence number ", ticket.seq, ") of group ", engine_->name,
                    " was under way when the group was shut down on this rank"));
}

float Work::getDuration() const
{
    auto to_ns = Recorder::get().clock();
    float ms = 0;
    Recorder::get().update(ticket, [&](const Record &r) {
        ms = r.completed ? static_cast<float>(to_ns(r.completed) - to_ns(r.created)) / 1e6f : 0;
    });
    return ms;
}

Tensors Work::result()
{
    TORCH_CHECK(isCompleted(), "weft: ", name, ": the result is asked for before the operation has completed");
    if (exception_)
        std::rethrow_exception(exception_);
    return outputs;
}

bool Work::wait(milliseconds timeout)
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

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
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

bool Work::in_open_batch()
{
    if (is_issued() || opener_ != std::this_thread::get_id())
        return false;
    if (!block || !block->left())
        return true;
    drop(kLeft);
    return false;
}

bool Work::has_future()
{
    std::lock_guard<std::mutex> guard(future_lock_);
    return future_ != nullptr;
}

uint64_t Work::slice_until(steady_clock::time_point until)
{
    auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - steady_clock::now()).count();
    return left <= 0 ? 1 : std::min<uint64_t>(kSliceNs, left);
}

bool Work::test(uint64_t wait_ns)
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

void Work::find_source()
{
    weft_message message = WEFT_MESSAGE_INIT;

    if (weft_request_message(requests.front(), &message) < 0)
        return;
    source = message.source;
    Recorder::get().update(ticket, [this](Record &r) { r.peer = source; });
}

void Work::finish(std::unique_lock<std::mutex> &held, weft_status status, const std::string &text)
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

void Work::fail(weft_status status, const std::string &text)
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

void Work::run_unpack()
{
    try {
        at::AutoDispatchBelowAutograd guard;
        unpack();
    } catch (...) {
        exception_ = std::current_exception();
    }
}

void Work::mark_future()
{
    if (exception_)
        future_->setErrorIfNeeded(exception_);
    else
        future_->markCompleted(c10::IValue(outputs));
}

void Work::ended(weft_status, void *arg) noexcept
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

} // namespace weft_torch
