/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator and what is under way on it. */
#include "work.hpp"

#include <thread>

#include <c10/util/Exception.h>
#include "runtime.hpp"

namespace weft_torch
{

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Engine::Engine(weft_comm *comm, int rank, int size, std::string name, milliseconds timeout)
    : rank(rank), size(size), name(std::move(name)), timeout(timeout), comm(comm)
{
}

/* Nothing is under way: every such operation holds a reference. */
Engine::~Engine()
{
    weft_comm *c = comm.exchange(nullptr);

    if (c)
        weft_comm_destroy(c);
}

weft_comm *Engine::open_comm(const char *operation) const
{
    weft_comm *c = comm.load(std::memory_order_relaxed);

    TORCH_CHECK(c, "weft: ", operation, ": group ", name, " was shut down");
    return c;
}

void Engine::reap()
{
    while (!inflight.empty() && inflight.front()->poll(true))
        inflight.pop_front();
    if (C10_UNLIKELY(inflight.size() > 64)) /* behind one that takes long */
        inflight.erase(
            std::remove_if(inflight.begin(), inflight.end(), [](const WorkPtr &work) { return work->poll(true); }),
            inflight.end());
    if (C10_UNLIKELY(!garbage.empty())) {
        std::lock_guard<std::mutex> guard(garbage_lock);
        for (weft_request *r : garbage)
            weft_request_free(r);
        garbage.clear();
    }
}

void Engine::release(c10::ArrayRef<weft_request *> requests)
{
    std::lock_guard<std::mutex> guard(garbage_lock);

    for (weft_request *r : requests)
        if (comm.load() && weft_request_free(r) < 0) /* another thread is inside a call on the communicator */
            garbage.push_back(r);
}

/* ---- The end ---- */

void Engine::abort(const char *reason)
{
    weft_comm *c = comm.load();

    if (c && !aborted.exchange(true))
        weft_comm_abort(c, reason);
}

void Engine::close(milliseconds patience)
{
    auto until = steady_clock::now() + patience;
    std::unique_lock<std::mutex> held(lock, std::defer_lock);

    while (!held.try_lock()) { /* another thread is inside an operation */
        if (steady_clock::now() > until)
            abort("the group was shut down with an operation under way");
        std::this_thread::sleep_for(milliseconds(1));
    }
    for (reap(); !inflight.empty() && !aborted && steady_clock::now() < until; reap())
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    weft_comm *c = comm;
    if (!c)
        return;
    auto left = std::move(inflight);
    inflight.clear();
    if (!left.empty() && !aborted.exchange(true))
        weft_comm_abort(c, "the group was shut down with operations under way");
    /* Nobody may be about to look at a request when they go with the communicator. */
    for (auto &work : left)
        for (until = steady_clock::now() + milliseconds(2000); !work->poll() && steady_clock::now() < until;)
            std::this_thread::sleep_for(milliseconds(1));
    comm = nullptr;
    while (weft_comm_destroy(c) == WEFT_EBUSY) /* a waiter is about to leave */
        std::this_thread::sleep_for(milliseconds(1));
    for (auto &work : left)
        work->give_up(c10::str("weft: ", work->name, " (sequence number ", work->seq, ") of group ", name,
                               " was under way when the group was shut down on this rank"));
}

/* ---- Words for a failure ---- */

std::string Engine::describe(weft_status status, const char *operation, uint64_t number,
                             const std::shared_ptr<Stack> &stack)
{
    weft_error e = WEFT_ERROR_INIT;
    weft_comm *c = comm.load();
    bool known = c && weft_last_error(c, &e) >= 0 && e.status == status;
    std::string where = stack ? describe_stack(stack) : "";
    std::string text = c10::str("weft: ", operation, " (sequence number ", known && e.seq ? e.seq : number,
                                status == WEFT_ETIMEDOUT ? ") Timed out : " : ") failed: ");

    if (known && e.message && *e.message)
        text += e.message; /* has the group and the ranks */
    else
        text += c10::str("group ", name, ", rank ", rank, " of ", size, ": ",
                         *weft_thread_error() ? weft_thread_error() : weft_status_text(status));
    if (known && e.peer >= 0)
        text += c10::str("; culprit: rank ", e.peer, e.host ? " on host " : "", e.host ? e.host : "");
    if (known && e.operation && *e.operation && std::string(e.operation) != operation)
        text += c10::str("; noticed in ", e.operation);
    if (known && e.advice && *e.advice)
        text += c10::str("; ", e.advice);
    if (!where.empty())
        text += c10::str("; issued at ", where);
    return text + c10::str(" (", weft_status_name(status), ")");
}

} // namespace weft_torch
