/* SPDX-License-Identifier: BSD-3-Clause */
/* The process: its context, its types, its errors, its signals. */
#include "runtime.hpp"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/syscall.h>
#include <unistd.h>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/csrc/utils/pybind.h>

namespace weft_torch
{

/* ---- Context ---- */

namespace
{
std::mutex context_lock;
weft_context *the_context;
pid_t context_owner;
} // namespace

weft_context *context()
{
    std::lock_guard<std::mutex> guard(context_lock);

    if (the_context && context_owner == getpid())
        return the_context;
    weft_context *made = nullptr;
    if (weft_context_create(nullptr, &made) < 0)
        TORCH_CHECK(false, "weft could not start in this process: ", weft_thread_error());
    the_context = made; /* one inherited through fork() is left alone: it belongs to the parent */
    context_owner = getpid();
    return made;
}

bool context_is_ours(const weft_context *context)
{
    std::lock_guard<std::mutex> guard(context_lock);

    return context == the_context && context_owner == getpid();
}

/* ---- Types ---- */

Elems elems_of(at::ScalarType type)
{
    switch (type) {
    case at::kFloat:
        return {WEFT_FLOAT32, 1, true};
    case at::kDouble:
        return {WEFT_FLOAT64, 1, true};
    case at::kHalf:
        return {WEFT_FLOAT16, 1, true};
    case at::kBFloat16:
        return {WEFT_BFLOAT16, 1, true};
    case at::kLong:
        return {WEFT_INT64, 1, true};
    case at::kInt:
        return {WEFT_INT32, 1, true};
    case at::kShort:
        return {WEFT_INT16, 1, true};
    case at::kChar:
        return {WEFT_INT8, 1, true};
    case at::kByte:
        return {WEFT_UINT8, 1, true};
    case at::kUInt16:
        return {WEFT_UINT16, 1, true};
    case at::kUInt32:
        return {WEFT_UINT32, 1, true};
    case at::kUInt64:
        return {WEFT_UINT64, 1, true};
    case at::kBool:
        return {WEFT_BOOL, 1, true};
    case at::kComplexFloat:
        return {WEFT_COMPLEX64, 1, true};
    case at::kComplexDouble:
        return {WEFT_COMPLEX128, 1, true};
    case at::kFloat8_e4m3fn:
        return {WEFT_FLOAT8E4M3, 1, true};
    case at::kFloat8_e5m2:
        return {WEFT_FLOAT8E5M2, 1, true};
    default:
        return {WEFT_UINT8, c10::elementSize(type), false};
    }
}

static weft_op builtin_op(c10d::ReduceOp::RedOpType op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
        return WEFT_SUM;
    case c10d::ReduceOp::AVG:
        return WEFT_AVG;
    case c10d::ReduceOp::PRODUCT:
        return WEFT_PROD;
    case c10d::ReduceOp::MIN:
        return WEFT_MIN;
    case c10d::ReduceOp::MAX:
        return WEFT_MAX;
    case c10d::ReduceOp::BAND:
        return WEFT_BAND;
    case c10d::ReduceOp::BOR:
        return WEFT_BOR;
    case c10d::ReduceOp::BXOR:
        return WEFT_BXOR;
    default:
        TORCH_CHECK(false, "weft: unknown reduction operator ", static_cast<int>(op));
    }
}

static void check_defined(c10d::ReduceOp::RedOpType op, at::ScalarType type)
{
    bool bitwise = op == c10d::ReduceOp::BAND || op == c10d::ReduceOp::BOR || op == c10d::ReduceOp::BXOR;
    bool order = op == c10d::ReduceOp::MIN || op == c10d::ReduceOp::MAX;
    const char *name = op == c10d::ReduceOp::BAND  ? "BAND"
                       : op == c10d::ReduceOp::BOR ? "BOR"
                       : bitwise                   ? "BXOR"
                       : order                     ? "MIN or MAX"
                                                   : "";

    TORCH_CHECK(elems_of(type).exact, "weft cannot reduce tensors of type ", type,
                "; view them as a type with arithmetic");
    TORCH_CHECK(!bitwise || c10::isIntegralType(type, true), "Cannot use ReduceOp.", name, " with non-integral dtype ",
                type);
    TORCH_CHECK(!order || !c10::isComplexType(type), "Cannot use ReduceOp.", name, " with complex dtype ", type);
}

Operator::Operator(const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    at::ScalarType type = tensor.scalar_type();

    check_defined(op.op_, type);
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM) {
        op_ = builtin_op(op.op_);
        return;
    }
    auto *given = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(given, "weft: PREMUL_SUM needs its factor: make it with torch.distributed._make_nccl_premul_sum");
    at::Tensor factor = given->tensor_factor.defined() ? given->tensor_factor.detach().cpu().to(type).reshape({1})
                                                       : at::full({1}, given->double_factor, at::dtype(type));
    weft_status st = weft_op_create_premul_sum(factor.const_data_ptr(), elems_of(type).dtype, &op_);
    if (st < 0)
        throw_thread_error("PREMUL_SUM", st);
    made_ = std::shared_ptr<void>(nullptr, [made = op_](void *) { weft_op_destroy(made); });
}

/* ---- Errors ---- */

void throw_thread_error(const char *what, weft_status status)
{
    const char *text = weft_thread_error();

    C10_THROW_ERROR(DistBackendError, c10::str("weft: ", what, ": ", *text ? text : weft_status_text(status), " (",
                                               weft_status_name(status), ")"));
}

void check_tensor(const at::Tensor &t, const char *operation)
{
    TORCH_CHECK(t.defined(), "weft: ", operation, ": a tensor is undefined");
    if (C10_LIKELY(t.device().is_cpu() && t.layout() == at::kStrided))
        return;
    TORCH_CHECK(t.device().is_cpu(), "weft: ", operation, ": a tensor is on ", t.device(),
                ", and this weft has no device plugin: it moves tensors in host memory. For a mixed program use "
                "init_process_group(\"cpu:weft,cuda:nccl\")");
    TORCH_CHECK(false, "weft: ", operation, ": a tensor has layout ", t.layout(),
                "; only all_reduce takes sparse tensors");
}

/* ---- Signals ---- */

void check_signals()
{
    if (syscall(SYS_gettid) != getpid() || !Py_IsInitialized())
        return;
    pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() < 0)
        throw pybind11::error_already_set();
}

/* ---- Stacks ---- */

int stack_level()
{
    static const int level = [] {
        const char *set = std::getenv("WEFT_TORCH_STACK");
        if (set && *set)
            return std::atoi(set);
        return c10d::debug_level() == c10d::DebugLevel::Off ? 1 : 2;
    }();
    return level;
}

} // namespace weft_torch
