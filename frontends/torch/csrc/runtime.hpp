/* SPDX-License-Identifier: BSD-3-Clause */
/* What one process has once: the weft context, the types, the words for errors, Python's signals. */
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
#include <torch/csrc/utils/pybind.h>
#include <weft/weft.h>

namespace weft_torch
{

namespace py = pybind11;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using List = c10::ArrayRef<at::Tensor>;
using WorkBase = c10::intrusive_ptr<c10d::Work>;

/* ---- Errors ---- */

/* Throw what weft says about a refused call: its arguments, or a resource. */
inline void check_status(weft_status status, const std::string &what)
{
    if (C10_LIKELY(status >= 0))
        return;
    const char *text = weft_thread_error();
    C10_THROW_ERROR(DistBackendError, c10::str("weft: ", what, ": ", *text ? text : weft_status_text(status), " (",
                                               weft_status_name(status), ")"));
}

/* Only strided tensors in host memory may travel, until a device plugin exists. */
inline void check_tensor(const at::Tensor &t, const char *operation)
{
    TORCH_CHECK(t.defined(), "weft: ", operation, ": a tensor is undefined");
    TORCH_CHECK(t.device().is_cpu(), "weft: ", operation, ": a tensor is on ", t.device(),
                ", and this weft has no device plugin: it moves tensors in host memory. For a mixed program use "
                "init_process_group(\"cpu:weft,cuda:nccl\")");
    TORCH_CHECK(t.layout() == at::kStrided, "weft: ", operation, ": a tensor has layout ", t.layout(),
                "; only all_reduce takes sparse tensors");
}

inline bool main_thread()
{
    static thread_local const bool is = syscall(SYS_gettid) == getpid();
    return is;
}

/* In the main thread: let Python's signal handlers run, and throw what they raise. Cheap elsewhere. */
inline void check_signals()
{
    if (!main_thread() || !Py_IsInitialized())
        return;
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() < 0)
        throw py::error_already_set();
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
    enum Lock { kRecorder, kStacks, kContext, kLocks };
    static std::mutex &lock(Lock which) { return locks_[which]; }
    /* The descriptor that Python's signal handler writes to for a thread of the parent's: a child's writes go nowhere. */
    static void set_wakeup_fd(int fd)
    {
        if (nowhere_ < 0)
            nowhere_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
        wakeup_fd_ = fd;
    }
    static inline void (*child_hook)() = nullptr;

private:
    static void before()
    {
        for (std::mutex &lock : locks_)
            lock.lock();
    }
    static void in_parent()
    {
        for (std::mutex &lock : locks_)
            lock.unlock();
    }
    static void in_child()
    {
        generation_.fetch_add(1, std::memory_order_relaxed);
        in_parent();
        int fd = wakeup_fd_.exchange(-1);
        if (fd >= 0 && nowhere_ >= 0)
            dup3(nowhere_, fd, O_CLOEXEC);
        if (child_hook)
            child_hook();
    }

    static inline std::atomic<int> wakeup_fd_{-1}, nowhere_{-1};
    static inline std::mutex locks_[kLocks];
    static inline std::atomic<unsigned> generation_{0};
};

/* ---- Context ---- */

/* The context of this process; made at first use, again in a child of fork(), as one that was inherited belongs to the parent.
 * `make` false: NULL where there is none. */
inline weft_context *context(bool make = true)
{
    static weft_context *made;
    static unsigned maker;
    std::lock_guard<std::mutex> guard(Fork::lock(Fork::kContext));

    if (made && maker == Fork::generation())
        return made;
    if (!make)
        return nullptr;
    weft_context *fresh = nullptr;
    TORCH_CHECK(weft_context_create(nullptr, &fresh) >= 0, "weft could not start in this process: ",
                weft_thread_error());
    maker = Fork::generation();
    return made = fresh;
}

/* ---- Types ---- */

/* Elements as weft counts them: a tensor of n elements is n * per of `dtype`. */
struct Elems {
    weft_dtype dtype;
    size_t per;
    bool exact; /* false: the type has no counterpart and travels as bytes */
};

inline Elems elems_of(at::ScalarType type)
{
    static constexpr std::pair<at::ScalarType, weft_dtype> known[] = {
        {at::kFloat, WEFT_FLOAT32}, {at::kDouble, WEFT_FLOAT64}, {at::kHalf, WEFT_FLOAT16},
        {at::kBFloat16, WEFT_BFLOAT16}, {at::kLong, WEFT_INT64}, {at::kInt, WEFT_INT32}, {at::kShort, WEFT_INT16},
        {at::kChar, WEFT_INT8}, {at::kByte, WEFT_UINT8}, {at::kUInt16, WEFT_UINT16}, {at::kUInt32, WEFT_UINT32},
        {at::kUInt64, WEFT_UINT64}, {at::kBool, WEFT_BOOL}, {at::kComplexFloat, WEFT_COMPLEX64},
        {at::kComplexDouble, WEFT_COMPLEX128}, {at::kFloat8_e4m3fn, WEFT_FLOAT8E4M3},
        {at::kFloat8_e5m2, WEFT_FLOAT8E5M2},
    };

    for (auto [torch, weft] : known)
        if (torch == type)
            return {weft, 1, true};
    return {WEFT_UINT8, c10::elementSize(type), false};
}

/* An operator; one that was made for a call lives as long as the copies of this object. */
class Operator
{
public:
    Operator() = default;
    Operator(const c10d::ReduceOp &op, const at::Tensor &tensor)
    {
        check_defined(op.op_, tensor.scalar_type());
        if (C10_UNLIKELY(op.op_ == RedOp::PREMUL_SUM))
            make_premul(op, tensor.scalar_type());
        else
            op_ = builtin(op.op_);
    }
    weft_op get() const { return op_; }

private:
    using RedOp = c10d::ReduceOp;

    static weft_op builtin(RedOp::RedOpType op)
    {
        static constexpr weft_op known[] = {WEFT_SUM, WEFT_AVG, WEFT_PROD, WEFT_MIN,
                                            WEFT_MAX, WEFT_BAND, WEFT_BOR, WEFT_BXOR};
        static_assert(RedOp::SUM == 0 && RedOp::AVG == 1 && RedOp::PRODUCT == 2 && RedOp::MIN == 3 &&
                      RedOp::MAX == 4 && RedOp::BAND == 5 && RedOp::BOR == 6 && RedOp::BXOR == 7);

        TORCH_CHECK(op < std::size(known), "weft: unknown reduction operator ", static_cast<int>(op));
        return known[op];
    }

    static void check_defined(RedOp::RedOpType op, at::ScalarType type)
    {
        bool bitwise = op == RedOp::BAND || op == RedOp::BOR || op == RedOp::BXOR;
        const char *name = op == RedOp::BAND ? "BAND" : op == RedOp::BOR ? "BOR" : "BXOR";

        TORCH_CHECK(elems_of(type).exact, "weft cannot reduce tensors of type ", type,
                    "; view them as a type with arithmetic");
        TORCH_CHECK(!bitwise || c10::isIntegralType(type, true), "Cannot use ReduceOp.", name,
                    " with non-integral dtype ", type);
        TORCH_CHECK((op != RedOp::MIN && op != RedOp::MAX) || !c10::isComplexType(type),
                    "Cannot use ReduceOp.MIN or MAX with complex dtype ", type);
    }

    void make_premul(const RedOp &op, at::ScalarType type)
    {
        auto *given = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());

        TORCH_CHECK(given, "weft: PREMUL_SUM needs its factor: make it with torch.distributed._make_nccl_premul_sum");
        at::Tensor factor = given->tensor_factor.defined() ? given->tensor_factor.detach().cpu().to(type).reshape({1})
                                                           : at::full({1}, given->double_factor, at::dtype(type));
        check_status(weft_op_create_premul_sum(factor.const_data_ptr(), elems_of(type).dtype, &op_), "PREMUL_SUM");
        made_ = std::shared_ptr<void>(nullptr, [made = op_](void *) { weft_op_destroy(made); });
    }

    weft_op op_ = WEFT_SUM;
    std::shared_ptr<void> made_;
};

} // namespace weft_torch
