/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.hpp"

namespace weft_torch
{

UnderWay::Place UnderWay::add(WorkBase work)
{
    std::lock_guard<std::mutex> guard(lock_);
    count_.fetch_add(1, std::memory_order_relaxed);
    return works_.insert(works_.end(), std::move(work));
}

void UnderWay::remove(Place place)
{
    std::list<WorkBase> gone; /* its reference goes when no lock is held */
    std::lock_guard<std::mutex> guard(lock_);
    count_.fetch_sub(1, std::memory_order_relaxed);
    gone.splice(gone.end(), works_, place);
}

WorkBase UnderWay::oldest()
{
    std::lock_guard<std::mutex> guard(lock_);
    return works_.empty() ? WorkBase() : works_.front();
}

std::vector<WorkBase> UnderWay::all()
{
    std::lock_guard<std::mutex> guard(lock_);
    return {works_.begin(), works_.end()};
}

Engine::~Engine()
{
    if (weft_comm *c = usable())
        weft_comm_destroy(c);
}

void Engine::check_own(const char *operation) const
{
    TORCH_CHECK(!inherited(), "weft: ", operation, ": group ", name,
                " belongs to the process that this one was forked from, "
                "and cannot be used here: make a group in this process, or start it with multiprocessing's \"spawn\"");
}

weft_comm *Engine::open_comm(const char *operation) const
{
    weft_comm *c = comm.load(std::memory_order_relaxed);
    check_own(operation);
    TORCH_CHECK(c, "weft: ", operation, ": group ", name, " was shut down");
    return c;
}

void Engine::abort(const char *reason)
{
    weft_comm *c = usable();

    if (c && !aborted.exchange(true))
        weft_comm_abort(c, reason);
}

std::string Engine::describe(weft_status status, const char *operation, uint64_t number, const StackPtr &stack)
{
    weft_error e = WEFT_ERROR_INIT;
    weft_comm *c = usable();
    bool known = c && weft_last_error(c, &e) >= 0 && e.status == status;
    std::string where = Stack::describe(stack);
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

void BlockingCall::interrupt()
{
    uint64_t call = calls.load();

    if (!running.load())
        return;
    std::this_thread::sleep_for(kGrace);
    /* The main thread leaves its call only after it has seen `aborting` down: `running` stays valid meanwhile. */
    aborting = true;
    Engine *engine = running;
    if (engine && calls == call)
        engine->abort("interrupted by SIGINT");
    aborting = false;
}

void BlockingCall::forget()
{
    running = nullptr;
    aborting = false;
}

} // namespace weft_torch
