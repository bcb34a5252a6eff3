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
    Place add(WorkBase work);
    void remove(Place place);
    WorkBase oldest();
    std::vector<WorkBase> all();

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
    ~Engine();

    /* A copy in a child of fork(). */
    bool inherited() const { return C10_UNLIKELY(generation_ != Fork::generation()); }
    /* NULL: the group was shut down, or is the parent's. */
    weft_comm *usable() const { return inherited() ? nullptr : comm.load(); }
    void check_own(const char *operation) const;
    /* With `lock` held: throws after the group was shut down. */
    weft_comm *open_comm(const char *operation) const;
    void abort(const char *reason);
    std::string describe(weft_status status, const char *operation, uint64_t number, const StackPtr &stack);

    /* As long as it exists the calling thread is in a call that blocks, and the communicator stays. Made with `lock` held. */
    class Blocked
    {
    public:
        explicit Blocked(Engine &engine) : engine_(engine) { engine_.blocked.fetch_add(1, std::memory_order_relaxed); }
        Blocked(const Blocked &) = delete;
        Blocked &operator=(const Blocked &) = delete;
        ~Blocked() { engine_.blocked.fetch_sub(1, std::memory_order_release); }

    private:
        Engine &engine_;
    };

    std::mutex lock; /* held while an operation gets its number, and while one with a request is issued */
    std::atomic<int> blocked{0};
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
    std::atomic<uint64_t> states{0}; /* of hooks: each has tensors of its own */

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
    static void interrupt();

    /* In a child of fork(): there is no such call. */
    static void forget();

private:
    static constexpr milliseconds kGrace{50};
    static inline std::atomic<Engine *> running; /* of the main thread's call */
    static inline std::atomic<uint64_t> calls;   /* so that the next one is not taken for the one that was interrupted */
    static inline std::atomic<bool> aborting;
    const bool counted_;
};

} // namespace weft_torch
