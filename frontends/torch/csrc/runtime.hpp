/* SPDX-License-Identifier: BSD-3-Clause */
/* What one process has once: the weft context, the type map, and the form of error messages. */
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <weft/weft.h>

namespace weft_torch
{

/* The context of this process; made at first use, again in a child of fork(). Throws when it cannot be made. */
weft_context *context();
/* Is `context` that of this process, or was it inherited through fork()? */
bool context_is_ours(const weft_context *context);

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
    weft_op get() const
    {
        return op_;
    }

private:
    weft_op op_ = WEFT_SUM;
    std::shared_ptr<void> made_;
};

/* Throw what weft says about a refused call: its arguments, or a resource. */
[[noreturn]] void throw_thread_error(const char *what, weft_status status);
/* Only strided tensors in host memory may travel, until a device plugin exists. */
void check_tensor(const at::Tensor &tensor, const char *operation);

/* In the main thread: let Python's signal handlers run, and throw what they raise. Cheap elsewhere. */
void check_signals();

/* The first failure of a process writes the flight recorder, if TORCH_FR_DUMP_TEMP_FILE asks for it. No lock may be held. */
void dump_on_failure();

/* Where in Python the caller is: "file.py:12 in step", without the frames of torch.distributed; "" if unknown. */
struct Stack;
std::shared_ptr<Stack> capture_stack();
std::string describe_stack(const std::shared_ptr<Stack> &stack);
/* All frames, innermost first, as (file, line, function). */
std::vector<std::tuple<std::string, int64_t, std::string>> frames_of(const std::shared_ptr<Stack> &stack);
/* 0: never, 1: asynchronous operations, 2: all; WEFT_TORCH_STACK, or from TORCH_DISTRIBUTED_DEBUG. */
int stack_level();

} // namespace weft_torch
