/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's communicator, what its failures are called, and how Ctrl-C ends a call on it. */
#pragma once

#include <list>
#include <thread>

#include "algorithms.hpp"
#include "recorder.hpp"

namespace weft_torch
{

/* Operations that have not completed, in the order of their issue. It holds a reference to each. */
class UnderWay
{
public:
    using Place = std::list<WorkBase>::iterator;

    bool empty() const { return count() == 0; }
    size_t count() const { return count_.load(std::memory_order_relaxed); }
    Place add(WorkBase work)
    {
        std::lock_guard<std::mutex> guard(lock_);
        count_.fetch_add(1, std::memory_order_relaxed);
        return works_.insert(works_.end(), std::move(work));
    }
    void remove(Place place)
    {
        std::list<WorkBase> gone; /* its reference goes when no lock is held */
        std::lock_guard<std::mutex> guard(lock_);
        count_.fetch_sub(1, std::memory_order_relaxed);
        gone.splice(gone.end(), works_, place);
    }
    WorkBase oldest()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return works_.empty() ? WorkBase() : works_.front();
    }
    std::vector<WorkBase> all()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return {works_.begin(), works_.end()};
    }

private:
    std::mutex lock_;
    std::list<WorkBase> works_;
    std::atomic<size_t> count_{0};
};

/* Outlives its backend as long as a Work refers to it. */
class Engine
{
public:
    Engine(weft_comm *comm, int rank, int size, std::string name, milliseconds timeout)
        : rank(rank), size(size), name(std::move(name)), timeout(timeout), comm(comm)
    {
    }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    /* Nothing is under way: every such operation holds a reference. */
    ~Engine()
    {
        if (weft_comm *c = usable())
            weft_comm_destroy(c);
    }

    /* A copy in a child of fork(). */
    bool inherited() const { return C10_UNLIKELY(generation_ != Fork::generation()); }
    /* NULL: the group was shut down, or is the parent's. */
    weft_comm *usable() const { return inherited() ? nullptr : comm.load(); }
    void check_own(const char *operation) const
    {
        TORCH_CHECK(!inherited(), "weft: ", operation, ": group ", name, " belongs to the process that this one was forked from, "
                    "and cannot be used here: make a group in this process, or start it with multiprocessing's \"spawn\"");
    }
    /* With `lock` held: throws after the group was shut down. */
    weft_comm *open_comm(const char *operation) const
    {
        weft_comm *c = comm.load(std::memory_order_relaxed);
        check_own(operation);
        TORCH_CHECK(c, "weft: ", operation, ": group ", name, " was shut down");
        return c;
    }
    void abort(const char *reason)
    {
        weft_comm *c = usable();

        if (c && !aborted.exchange(true))
            weft_comm_abort(c, reason);
    }
    std::string describe(weft_status status, const char *operation, uint64_t number, const StackPtr &stack)
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

    std::mutex lock; /* held while an operation is issued, or runs in the calling thread */
    const int rank, size;
    const std::string name;
    int recorded_group = -1;
    milliseconds timeout;
    std::atomic<weft_comm *> comm;
    std::atomic<bool> aborted{false};
    std::atomic<uint64_t> seq{0}, p2p_seq{0};
    UnderWay under_way;
    Algorithms algorithms;   /* of the group's options */
    Choices choices;         /* under `lock` */
    bool tells_choices = false;

private:
    const unsigned generation_ = Fork::generation();
};

using EnginePtr = std::shared_ptr<Engine>;

/* As long as it exists the calling thread is inside a call of the library. In the main thread weft/_signals.py hears of Ctrl-C
 * and calls interrupt(), which aborts the communicator; the call returns, and Python looks at its flag. */
class BlockingCall
{
public:
    explicit BlockingCall(Engine *engine) : counted_(main_thread())
    {
        if (!counted_)
            return;
        calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        running.store(engine, std::memory_order_release);
    }
    BlockingCall(const BlockingCall &) = delete;
    BlockingCall &operator=(const BlockingCall &) = delete;
    ~BlockingCall()
    {
        if (!counted_)
            return;
        running = nullptr; /* sequentially consistent, as `aborting`: one of the two threads sees the other */
        while (C10_UNLIKELY(aborting))
            std::this_thread::yield();
    }

    /* From another thread, without the interpreter's lock: end the main thread's call, unless it soon ends by itself. */
    static void interrupt()
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

    /* In a child of fork(): there is no such call. */
    static void forget()
    {
        running = nullptr;
        aborting = false;
    }

private:
    static constexpr milliseconds kGrace{50};
    static inline std::atomic<Engine *> running; /* of the main thread's call */
    static inline std::atomic<uint64_t> calls;   /* so that the next one is not taken for the one that was interrupted */
    static inline std::atomic<bool> aborting;
    const bool counted_;
};

} // namespace weft_torch
