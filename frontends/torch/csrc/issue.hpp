/* SPDX-License-Identifier: BSD-3-Clause */
/* Issuing an operation. One that its caller waits for anyway runs in the calling thread, without a request, when nothing else
 * is under way; others go through a request and are waited for later. */
#pragma once

#include <ATen/record_function.h>
#include "backend.hpp"
#include "interrupt.hpp"

namespace weft_torch
{

/* Do the operation's calls: blocking ones when there is no work to keep their requests. */
template <class F> weft_status Backend::call_all(weft_comm *comm, const Op &op, F &call, Work *work)
{
    for (size_t i = 0; i < op.ncalls; i++) {
        weft_request *request = nullptr;
        next_call(comm, op);
        weft_status st = call(comm, i, work ? &request : nullptr);
        if (work && request)
            work->requests.push_back(request);
        if (C10_UNLIKELY(st < 0))
            return st;
    }
    return WEFT_SUCCESS;
}

template <class F, class Fill> c10::intrusive_ptr<c10d::Work> Backend::run(const Op &op, F &&call, Fill &&fill)
{
    Engine &e = *engine_;
    bool profiling = at::hasCallbacks();
    /* Before the group's lock: it takes the interpreter's. */
    std::shared_ptr<Stack> stack = C10_UNLIKELY(stack_level() > 1) ? capture_stack() : nullptr;
    std::unique_lock<std::mutex> held(e.lock);
    weft_comm *comm = e.open_comm(op.name);

    if (C10_UNLIKELY(batch_.open)) {
        held.unlock();
        WorkPtr work = make_work(op, false);
        fill(*work);
        return defer(op, Call(std::forward<F>(call)), std::move(work));
    }
    e.reap();
    if (op.sync && e.inflight.empty()) {
        WorkPtr work = C10_UNLIKELY(profiling) ? make_work(op, true) : nullptr;
        Record *record = nullptr;
        uint64_t seq, id = 0;
        number(op, &seq, &record, &id);
        if (C10_UNLIKELY(stack && record))
            record->stack = stack;
        weft_status st;
        {
            BlockingCall blocking(&e);
            st = call_all(comm, op, call, nullptr);
        }
        held.unlock();
        if (!work)
            work = make_work(op, false);
        work->seq = seq;
        work->record = record;
        work->record_id = id;
        if (C10_UNLIKELY(st < 0)) {
            work->stack = stack_level() > 0 ? capture_stack() : nullptr;
            check_signals();
        } else {
            fill(*work);
        }
        work->complete_inline(st);
        if (C10_UNLIKELY(st < 0))
            work->wait(kNoTimeout); /* throws */
        return work;
    }
    held.unlock();
    WorkPtr work = make_work(op, profiling);
    fill(*work);
    return issue(op, call, std::move(work));
}

/* With requests: the work completes later. */
template <class F> c10::intrusive_ptr<c10d::Work> Backend::issue(const Op &op, F &call, WorkPtr work)
{
    Engine &e = *engine_;

    if (C10_UNLIKELY(stack_level() > 1))
        work->stack = capture_stack();
    std::unique_lock<std::mutex> held(e.lock);
    weft_comm *comm = e.open_comm(op.name);
    number(op, &work->seq, &work->record, &work->record_id);
    weft_status st = call_all(comm, op, call, work.get());
    if (C10_UNLIKELY(st < 0)) {
        work->issue_status = st;
        if (work->requests.empty()) {
            held.unlock();
            work->issued_here();
            work->complete_inline(st);
            work->wait(kNoTimeout); /* throws */
        }
    }
    /* A short message is gone, or was there, when its call returns. */
    if (!op.p2p() || !work->succeeded_at_once())
        e.inflight.push_back(work);
    held.unlock();
    work->issued_here();
    if (C10_UNLIKELY(at::hasCallbacks()))
        work->watch();
    return work;
}

} // namespace weft_torch
