/* SPDX-License-Identifier: BSD-3-Clause */
/* What error feedback keeps of tensors on this rank: asked for, forgotten, rescaled, saved and loaded. */
#pragma once

#include "backend.hpp"

namespace weft_torch
{

class Residuals
{
public:
    explicit Residuals(Backend &group) : group_(group) {}

    size_t bytes() const;
    /* Of a tensor that has none, nothing is done. */
    void clear(uint64_t tensor) const;
    void scale(uint64_t tensor, double factor) const;
    /* Bytes; nothing: it has none. */
    std::optional<at::Tensor> save(uint64_t tensor) const;
    /* Add what was saved, times the factor. elements: of the tensor; 0 or less: not known. */
    void load(uint64_t tensor, int64_t elements, const at::Tensor &saved, double factor) const;

private:
    /* fn(the communicator), with the group's lock held. */
    template <class F> weft_status ask(const char *what, F fn) const
    {
        const EnginePtr &engine = group_.engine();
        std::lock_guard<std::mutex> held(engine->lock);
        weft_status st = fn(engine->open_comm(what));
        TORCH_CHECK_VALUE(st != WEFT_EINVAL, "weft: ", what, ": ", weft_thread_error());
        if (st != WEFT_ENOTFOUND)
            check_status(st, what);
        return st;
    }

    Backend &group_;
};

} // namespace weft_torch
