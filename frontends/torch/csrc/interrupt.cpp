/* SPDX-License-Identifier: BSD-3-Clause */
/* Ctrl-C while the main thread is inside a blocking call of the library: weft/_signals.py hears of it and calls interrupt(),
 * which aborts the communicator; the call returns, and Python looks at its flag. */
#include "interrupt.hpp"

#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace weft_torch
{

namespace
{
constexpr auto kGrace = std::chrono::milliseconds(50); /* for a call that ends by itself */

std::atomic<Engine *> running; /* of the main thread's call */
std::atomic<uint64_t> calls;   /* so that the next call is not taken for the one that was interrupted */
std::atomic<bool> aborting;

bool main_thread()
{
    static thread_local const bool is = syscall(SYS_gettid) == getpid();
    return is;
}
} // namespace

void interrupt()
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

BlockingCall::BlockingCall(Engine *engine) : counted_(main_thread())
{
    if (!counted_)
        return;
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    running.store(engine, std::memory_order_release);
}

BlockingCall::~BlockingCall()
{
    if (!counted_)
        return;
    running = nullptr; /* sequentially consistent, as `aborting`: one of the two threads sees the other */
    while (C10_UNLIKELY(aborting))
        std::this_thread::yield();
}

} // namespace weft_torch
