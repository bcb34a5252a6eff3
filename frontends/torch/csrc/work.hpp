/* SPDX-License-Identifier: BSD-3-Clause */
/* One operation as PyTorch sees it, and the communicator that it runs on. */
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include <c10/util/SmallVector.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include "recorder.hpp"

namespace weft_torch
{

class Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;

/* What is known of a failure; filled once, on the operation that failed first. */
struct Failure {
    weft_status status = WEFT_SUCCESS;
    std::string text;
    std::exception_ptr exception() const;
};

/* A communicator and what is under way on it. Outlives its backend as long as a Work refers to it. */
class Engine
{
public:
    Engine(weft_comm *comm, int rank, int size, std::string name, std::chrono::milliseconds timeout);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    /* Let what is under way finish, at most `patience`, then leave the group. */
    void close(std::chrono::milliseconds patience);
    void abort(const char *reason);
    /* With `lock` held: forget operations that have completed. */
    void reap();
    /* With `lock` held: throws after close() and abort(). */
    weft_comm *open_comm(const char *operation) const;
    /* Any thread: free requests now or when the next operation is issued. */
    void release(c10::ArrayRef<weft_request *> requests);
    std::string describe(weft_status status, const char *operation, uint64_t seq, const std::shared_ptr<Stack> &stack);

    std::mutex lock; /* held while an operation is issued, or runs in the calling thread */
    std::deque<WorkPtr> inflight;
    const int rank, size;
    const std::string name;
    int recorded_group = -1;
    std::chrono::milliseconds timeout;
    std::atomic<weft_comm *> comm;
    std::atomic<bool> aborted{false};
    std::atomic<uint64_t> seq{0}, p2p_seq{0};

private:
    std::mutex garbage_lock;
    std::vector<weft_request *> garbage;
};

using EnginePtr = std::shared_ptr<Engine>;

class Work final : public c10d::Work
{
public:
    Work(EnginePtr engine, int rank, c10d::OpType type, const char *name, const char *profiling_title,
         const std::optional<Tensors> &profiled_inputs);
    ~Work() override;

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    Tensors result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    float getDuration() const override;
    uint64_t getSequencenumber() const override;

    /* The issuer's: before anybody else knows of this Work. */
    const char *name;
    uint64_t seq = 0;
    int source = -1;               /* of a message; WEFT_ANY_SOURCE until it is known */
    Tensors outputs;               /* the result; may be empty */
    Tensors keep;                  /* what the operation reads and writes besides */
    std::vector<std::shared_ptr<void>> arrays; /* likewise: what is no tensor */
    std::function<void()> unpack;  /* on success: from staging memory to the outputs */
    std::shared_ptr<Stack> stack;  /* once others know of this Work: under future_lock_ */
    Record *record = nullptr;
    uint64_t record_id = 0;
    std::vector<std::pair<Record *, uint64_t>> records; /* of a batch */
    c10::SmallVector<weft_request *, 2> requests;
    weft_status issue_status = WEFT_SUCCESS; /* of the first call that was refused */

    /* The operation was run by the issuing thread. */
    void complete_inline(weft_status status);
    /* Look, without blocking. True: it is complete. `quiet`: leave it to others to complete an operation with a future,
     * whose call-backs may do anything. */
    bool poll(bool quiet = false);
    /* Complete it as soon as the library says so, though nobody waits. */
    void watch();
    /* The issuer's look at a message. A failure is left to be found later: its text says where the message was issued. */
    bool succeeded_at_once();
    /* Unless it is complete: keep where in Python that was. After the issue, so that peers need not wait for it, and without
     * the group's lock, as it takes the interpreter's. */
    void issued_here();
    /* The group is gone: what has not completed never will. */
    void give_up(const std::string &why);

private:
    bool test(uint64_t wait_ns);     /* with mutex_ held */
    void finish(std::unique_lock<std::mutex> &held, weft_status status, const std::string &text);
    void mark_future();
    void find_source();
    static void ended(weft_status status, void *arg);
    bool has_future();

    bool watched_ = false;
    /* mutex_ (the base's) is held while the library is asked, and may be when the interpreter's lock is taken: nobody takes it
     * who has that. What Python asks without letting go of the interpreter is under future_lock_, which guards the future, and
     * the requests against being freed. */
    std::mutex future_lock_;
    EnginePtr engine_;
    std::atomic<bool> done_{false};
    size_t next_ = 0;                /* requests before it are complete */
    weft_status status_ = WEFT_SUCCESS;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace weft_torch
