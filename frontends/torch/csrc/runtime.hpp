/* SPDX-License-Identifier: BSD-3-Clause */
/* What one process has once: the weft context, the types, the words for errors, what fork() does to them. */
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <weft/weft.h>

namespace weft_torch
{

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using List = c10::ArrayRef<at::Tensor>;
using WorkBase = c10::intrusive_ptr<c10d::Work>;

/* ---- Errors ---- */

/* Throw what weft says about a refused call: its arguments, or a resource. */
void check_status(weft_status status, const std::string &what);

/* Only strided tensors in host memory may travel, until a device plugin exists. */
void check_tensor(const at::Tensor &t, const char *operation);

inline bool main_thread()
{
    static thread_local const bool is = syscall(SYS_gettid) == getpid();
    return is;
}

/* ---- fork() ---- */

/* A child of fork() has copies of its parent's groups, locks and descriptors, and may use none of them: what was made in another
 * generation belongs to the parent. Locks that a child may want are free in it. */
class Fork
{
public:
    static unsigned generation() { return generation_.load(std::memory_order_relaxed); }
    /* Once, when the adapter is loaded. */
    static void watch() { pthread_atfork(before, in_parent, in_child); }
    /* Locks that nobody holds while fork() runs; who holds one may take those after it. */
    enum Lock { kRecorder, kStacks, kLocks };
    static std::mutex &lock(Lock which) { return locks_[which]; }
    /* The descriptor that Python's signal handler writes to for a thread of the parent's: a child's writes go nowhere. */
    static void set_wakeup_fd(int fd);
    static inline void (*child_hook)() = nullptr;

private:
    static void before();
    static void in_parent();
    static void in_child();

    static inline std::atomic<int> wakeup_fd_{-1}, nowhere_{-1};
    static inline std::mutex locks_[kLocks];
    static inline std::atomic<unsigned> generation_{0};
};

/* ---- Context ---- */

/* The context of this process; made at first use, again in a child of fork(), as one that was inherited belongs to the parent.
 * `make` false: NULL where there is none. */
weft_context *context(bool make = true);

/* ---- Types ---- */

/* Elements as weft counts them: a tensor of n elements is n * per of `dtype`. */
struct Elems {
    weft_dtype dtype;
    size_t per;
    bool exact; /* false: the type has no counterpart and travels as bytes */
};

Elems elems_of(at::ScalarType type);

/* An operator; one that was made for a call lives as long as the copies of this object. */
class Operator
{
public:
    Operator() = default;
    Operator(const c10d::ReduceOp &op, const at::Tensor &tensor);
    weft_op get() const { return op_; }

private:
    using RedOp = c10d::ReduceOp;

    static weft_op builtin(RedOp::RedOpType op);

    static void check_defined(RedOp::RedOpType op, at::ScalarType type);

    void make_premul(const RedOp &op, at::ScalarType type);

    weft_op op_ = WEFT_SUM;
    std::shared_ptr<void> made_;
};

} // namespace weft_torch
