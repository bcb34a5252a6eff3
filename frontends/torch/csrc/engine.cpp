/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator, what is under way on it, and the thread that watches for completion. */
#include "work.hpp"

#include <condition_variable>
#include <thread>

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>
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

/* ---- Envelopes ---- */

/* One that may never come: whoever wants it has a deadline of its own. */
static weft_status await_envelope(weft_comm *comm, int peer, Envelope *to, weft_request **request)
{
    weft_call_options patient = WEFT_CALL_OPTIONS_INIT;

    patient.timeout_ns = WEFT_TIMEOUT_NEVER;
    weft_comm_next_call(comm, &patient);
    return weft_recv(comm, to, sizeof *to, WEFT_UINT8, peer, request);
}

weft_status Engine::recv_envelope(weft_comm *comm, int peer, std::shared_ptr<Envelope> *envelope,
                                  weft_request **request)
{
    if (!standing.empty() && standing[peer].request) {
        *envelope = std::move(standing[peer].envelope);
        *request = standing[peer].request;
        standing[peer].request = nullptr;
        return WEFT_SUCCESS;
    }
    *envelope = std::make_shared<Envelope>();
    return weft_recv(comm, envelope->get(), sizeof(Envelope), WEFT_UINT8, peer, request);
}

int Engine::take_envelope(weft_comm *comm, int64_t tag, std::shared_ptr<Envelope> *envelope)
{
    standing.resize(size);
    for (int peer = 0; peer < size; peer++) {
        Standing &s = standing[peer];
        if (peer == rank)
            continue;
        if (!s.request) {
            s.envelope = std::make_shared<Envelope>();
            weft_status st = await_envelope(comm, peer, s.envelope.get(), &s.request);
            if (st < 0)
                throw_thread_error("recv from any rank", st);
        }
        weft_status st = weft_test(s.request);
        if (st == WEFT_INPROGRESS || (st >= 0 && s.envelope->tag != tag))
            continue;
        if (st < 0)
            C10_THROW_ERROR(DistBackendError, describe(st, "recv", p2p_seq, nullptr));
        release(s.request);
        s.request = nullptr;
        *envelope = std::move(s.envelope);
        return peer;
    }
    return -1;
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

/* ---- The watcher ---- */

namespace
{
struct Watcher {
    std::mutex lock;
    std::condition_variable more;
    std::vector<WorkPtr> works;
    pid_t owner = 0;
};

Watcher &watcher()
{
    static auto *w = new Watcher(); /* never destroyed: its thread outlives static destruction */
    return *w;
}

/* The library has no call-back at completion. Its own thread makes operations progress; this one looks whether they have
 * ended, seldom enough to leave the cores to the computation. */
void watch_main()
{
    Watcher &w = watcher();
    std::vector<WorkPtr> mine;

    c10::setThreadName("weft_watch");
    for (auto pause = std::chrono::microseconds(20);;) {
        {
            std::unique_lock<std::mutex> held(w.lock);
            if (mine.empty())
                w.more.wait(held, [&] { return !w.works.empty(); });
            mine.insert(mine.end(), w.works.begin(), w.works.end());
            w.works.clear();
        }
        size_t before = mine.size();
        mine.erase(std::remove_if(mine.begin(), mine.end(), [](const WorkPtr &work) { return work->poll(); }),
                   mine.end());
        pause = mine.size() < before ? std::chrono::microseconds(20)
                                     : std::min(pause * 3 / 2, std::chrono::microseconds(200));
        if (!mine.empty())
            std::this_thread::sleep_for(pause);
    }
}
} // namespace

void watch(WorkPtr work)
{
    Watcher &w = watcher();
    std::lock_guard<std::mutex> guard(w.lock);

    if (w.owner != getpid()) { /* first use, or a child of fork() without the thread */
        w.owner = getpid();
        w.works.clear();
        std::thread(watch_main).detach();
    }
    w.works.push_back(std::move(work));
    w.more.notify_one();
}

} // namespace weft_torch
