/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime.hpp"

namespace weft_torch
{

void check_status(weft_status status, const std::string &what)
{
    if (C10_LIKELY(status >= 0))
        return;
    const char *text = weft_thread_error();
    C10_THROW_ERROR(DistBackendError, c10::str("weft: ", what, ": ", *text ? text : weft_status_text(status), " (",
                                               weft_status_name(status), ")"));
}

void check_tensor(const at::Tensor &t, const char *operation)
{
    TORCH_CHECK(t.defined(), "weft: ", operation, ": a tensor is undefined");
    TORCH_CHECK(t.device().is_cpu(), "weft: ", operation, ": a tensor is on ", t.device(),
                ", and this weft has no device plugin: it moves tensors in host memory. For a mixed program use "
                "init_process_group(\"cpu:weft,cuda:nccl\")");
    TORCH_CHECK(t.layout() == at::kStrided, "weft: ", operation, ": a tensor has layout ", t.layout(),
                "; only all_reduce takes sparse tensors");
}

void Fork::set_wakeup_fd(int fd)
{
    if (nowhere_ < 0)
        nowhere_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
    wakeup_fd_ = fd;
}

void Fork::before()
{
    for (std::mutex &lock : locks_)
        lock.lock();
}

void Fork::in_parent()
{
    for (std::mutex &lock : locks_)
        lock.unlock();
}

void Fork::in_child()
{
    generation_.fetch_add(1, std::memory_order_relaxed);
    in_parent();
    int fd = wakeup_fd_.exchange(-1);
    if (fd >= 0 && nowhere_ >= 0)
        dup3(nowhere_, fd, O_CLOEXEC);
    if (child_hook)
        child_hook();
}

weft_context *context(bool make)
{
    static std::atomic<weft_context *> made; /* no lock, which a child of fork() might find taken */
    weft_context *known = made, *fresh = nullptr;

    if (known && weft_context_check(known) >= 0) /* it may be of the process that this one was forked from */
        return known;
    if (!make)
        return nullptr;
    TORCH_CHECK(weft_context_create(nullptr, &fresh) >= 0,
                "weft could not start in this process: ", weft_thread_error());
    if (made.compare_exchange_strong(known, fresh))
        return fresh;
    weft_context_destroy(fresh); /* another thread was first */
    return known;
}

Elems elems_of(at::ScalarType type)
{
    static constexpr std::pair<at::ScalarType, weft_dtype> known[] = {
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

    for (auto [torch, weft] : known)
        if (torch == type)
            return {weft, 1, true};
    return {WEFT_UINT8, c10::elementSize(type), false};
}

Operator::Operator(const c10d::ReduceOp &op, const at::Tensor &tensor)
{
    check_defined(op.op_, tensor.scalar_type());
    if (C10_UNLIKELY(op.op_ == RedOp::PREMUL_SUM))
        make_premul(op, tensor.scalar_type());
    else
        op_ = builtin(op.op_);
}

weft_op Operator::builtin(RedOp::RedOpType op)
{
    static constexpr weft_op known[] = {WEFT_SUM, WEFT_AVG,  WEFT_PROD, WEFT_MIN,
                                        WEFT_MAX, WEFT_BAND, WEFT_BOR,  WEFT_BXOR};
    static_assert(RedOp::SUM == 0 && RedOp::AVG == 1 && RedOp::PRODUCT == 2 && RedOp::MIN == 3 && RedOp::MAX == 4 &&
                  RedOp::BAND == 5 && RedOp::BOR == 6 && RedOp::BXOR == 7);

    TORCH_CHECK(op < std::size(known), "weft: unknown reduction operator ", static_cast<int>(op));
    return known[op];
}

void Operator::check_defined(RedOp::RedOpType op, at::ScalarType type)
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

void Operator::make_premul(const RedOp &op, at::ScalarType type)
{
    auto *given = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());

    TORCH_CHECK(given, "weft: PREMUL_SUM needs its factor: make it with torch.distributed._make_nccl_premul_sum");
    at::Tensor factor = given->tensor_factor.defined() ? given->tensor_factor.detach().cpu().to(type).reshape({1})
                                                       : at::full({1}, given->double_factor, at::dtype(type));
    check_status(weft_op_create_premul_sum(factor.const_data_ptr(), elems_of(type).dtype, &op_), "PREMUL_SUM");
    made_ = std::shared_ptr<void>(nullptr, [made = op_](void *) { weft_op_destroy(made); });
}

} // namespace weft_torch
