/* SPDX-License-Identifier: BSD-3-Clause */
/* Ctrl-C while the main thread is inside a blocking call of the library.
 *
 * Python's own signal handler only sets a flag, which nobody looks at meanwhile; but it writes to a descriptor that
 * signal.set_wakeup_fd names. A thread reads from that and, when SIGINT would raise KeyboardInterrupt and the call does not
 * end by itself, aborts the communicator: the call returns, and the flag is looked at. A handler of the user's is left to run
 * when the call ends, as ever. */
#include "interrupt.hpp"

#include <csignal>
#include <fcntl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <c10/util/thread_name.h>
#include <torch/csrc/utils/pybind.h>

namespace weft_torch
{

namespace py = pybind11;

namespace
{
constexpr auto kGrace = std::chrono::milliseconds(50);

std::atomic<Engine *> running; /* of the main thread's call */
std::atomic<uint64_t> calls;   /* so that the next call is not taken for the one that was interrupted */
std::atomic<bool> aborting;

bool main_thread()
{
    static thread_local const bool is = syscall(SYS_gettid) == getpid();
    return is;
}

bool raises_keyboard_interrupt()
{
    py::gil_scoped_acquire gil;
    try {
        auto signal = py::module_::import("signal");
        return signal.attr("getsignal")(SIGINT).is(signal.attr("default_int_handler"));
    } catch (py::error_already_set &) {
        return false;
    }
}

void interrupt()
{
    uint64_t call = calls.load();

    if (!running.load() || !raises_keyboard_interrupt())
        return;
    std::this_thread::sleep_for(kGrace);
    /* The main thread leaves its call only after it has seen `aborting` down: `running` stays valid meanwhile. */
    aborting = true;
    Engine *engine = running;
    if (engine && calls == call)
        engine->abort("interrupted by SIGINT");
    aborting = false;
}

void listen(int fd)
{
    unsigned char signals[64];

    c10::setThreadName("weft_signals");
    for (;;) {
        ssize_t n = read(fd, signals, sizeof signals);
        if (n == 0 || (n < 0 && errno != EINTR))
            return;
        for (ssize_t i = 0; i < n; i++)
            if (signals[i] == SIGINT)
                interrupt();
    }
}
} // namespace

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

void watch_signals()
{
    static pid_t watched;
    int fds[2];

    if (!main_thread() || watched == getpid())
        return;
    watched = getpid();
    auto set = py::module_::import("signal").attr("set_wakeup_fd");
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    int before = set(fds[1], py::arg("warn_on_full_buffer") = false).cast<int>();
    if (before >= 0) { /* somebody else needs it, an event loop for one */
        set(before);
        close(fds[0]);
        close(fds[1]);
        return;
    }
    std::thread(listen, fds[0]).detach();
}

} // namespace weft_torch
