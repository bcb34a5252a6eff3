/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of weft.zero: tensors whose memory is libweft_zero's, while it is there.
 *
 * Each parameter has one StorageImpl for good, which is pointed to wherever its unit was gathered: autograd saves views of weights
 * in the forward pass (weight.t(), say), and they have to see the memory of the backward pass. In between, whoever reads it is
 * refused. */
#pragma once

#include <ATen/core/Tensor.h>
#include <string>
#include <vector>
#include <weft/weft_zero.h>

namespace weft_torch
{

/* What is called of libweft_zero, which the adapter is not linked with. In the order of the addresses that Python gives. */
struct ZeroCalls {
    decltype(&weft_zero_pre_forward) pre_forward, pre_backward, post_forward, post_backward;
    decltype(&weft_zero_param_data) param_data;
    decltype(&weft_zero_grad_add) grad_add;
};

/* A unit of an engine. Python has it called by one thread at a time. All return a weft_status. */
class ZeroUnit
{
  public:
    ZeroUnit(const std::vector<uintptr_t> &calls, uintptr_t engine, int unit);

    /* Make the tensor a view of the parameter's memory. After weft_zero_seal. refusal: what is said to who reads it when it is not
     * gathered. */
    int bind(int param, at::Tensor tensor, at::ScalarType dtype, std::string refusal);
    int pre_forward()
    {
        return begin(calls_.pre_forward);
    }
    int pre_backward()
    {
        return begin(calls_.pre_backward);
    }
    int post_forward()
    {
        return end(calls_.post_forward);
    }
    int post_backward()
    {
        return end(calls_.post_backward);
    }
    /* A pass that ends at once: parameters that have a place of their own stay visible. */
    int touch();
    int grad_add(int param, const at::Tensor &grad);
    /* Where parameters have a place of their own: they are on their way to it, as `why` says, until the next pass or wait(). */
    void hide(const std::string &why);
    int wait()
    {
        return show();
    }
    /* Let a parameter be seen elsewhere, in contiguous memory of its type, until restore(). */
    void lend(int param, const at::Tensor &memory);
    void restore(int param);

    bool kept() const
    {
        return kept_;
    }
    bool shown() const
    {
        return shown_;
    }
    int passes() const
    {
        return passes_;
    }

  private:
    struct Slot {
        int param;
        int64_t elems;
        bool empty;
        c10::Storage storage;
        std::string refusal;
        at::Tensor lent;
    };

    int begin(decltype(&weft_zero_pre_forward) call);
    int end(decltype(&weft_zero_post_forward) call);
    int show();
    void refuse(const std::string *why);
    Slot &slot(int param);

    ZeroCalls calls_;
    weft_zero *engine_;
    int unit_, passes_ = 0;
    bool kept_ = true, shown_ = false;
    std::vector<Slot> slots_;
};

} // namespace weft_torch
