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

static constexpr auto kTypes = [] {
    std::array<int, static_cast<size_t>(at::ScalarType::NumOptions)> types{};
    constexpr std::pair<at::ScalarType, weft_dtype> known[] = {
        {at::kFloat, WEFT_FLOAT32},
        {at::kDouble, WEFT_FLOAT64},
        {at::kHalf, WEFT_FLOAT16},
        {at::kBFloat16, WEFT_BFLOAT16},
        {at::kLong, WEFT_INT64},
        {at::kInt, WEFT_INT32},
        {at::kShort, WEFT_INT16},
        {at::kChar, WEFT_INT8},
        {at::kByte, WEFT_UINT8},
        {at::kUInt16, WEFT_UINT16},
        {at::kUInt32, WEFT_UINT32},
        {at::kUInt64, WEFT_UINT64},
        {at::kBool, WEFT_BOOL},
        {at::kComplexFloat, WEFT_COMPLEX64},
        {at::kComplexDouble, WEFT_COMPLEX128},
        {at::kFloat8_e4m3fn, WEFT_FLOAT8E4M3},
        {at::kFloat8_e5m2, WEFT_FLOAT8E5M2},
    };
    for (int &t : types)
        t = -1;
    for (auto [torch, weft] : known)
        types[static_cast<size_t>(torch)] = weft;
    return types;
}();

Elems elems_of(at::ScalarType type)
{
    int known = kTypes[static_cast<size_t>(type)];

    if (C10_LIKELY(known >= 0))
        return {static_cast<weft_dtype>(known), 1, true};
    return {WEFT_UINT8, c10::elementSize(type), false};
}

using RedOp = c10d::ReduceOp;

static weft_op builtin_op(RedOp::RedOpType op)
{
    static constexpr weft_op known[] = {WEFT_SUM, WEFT_AVG,  WEFT_PROD, WEFT_MIN,
                                        WEFT_MAX, WEFT_BAND, WEFT_BOR,  WEFT_BXOR};

    static_assert(RedOp::SUM == 0 && RedOp::AVG == 1 && RedOp::PRODUCT == 2 && RedOp::MIN == 3 && RedOp::MAX == 4 &&
                  RedOp::BAND == 5 && RedOp::BOR == 6 && RedOp::BXOR == 7);
    TORCH_CHECK(op < std::size(known), "weft: unknown reduction operator ", static_cast<int>(op));
    return known[op];
}

static void check_defined(RedOp::RedOpType op, at::ScalarType type)
{
    bool bitwise = op == RedOp::BAND || op == RedOp::BOR || op == RedOp::BXOR;
    const char *name = op == RedOp::BAND ? "BAND" : op == RedOp::BOR ? "BOR" : "BXOR";

    TORCH_CHECK(elems_of(type).exact, "weft cannot reduce tensors of type ", type,
                "; view them as a type with arithmetic");
    TORCH_CHECK(!bitwise || c10::isIntegralType(type, true), "Cannot use ReduceOp.", name, " with non-integral dtype ",
                type);
    TORCH_CHECK((op != RedOp::MIN && op != RedOp::MAX) || !c10::isComplexType(type),
                "Cannot use ReduceOp.MIN or MAX with complex dtype ", type);
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
