/* SPDX-License-Identifier: BSD-3-Clause */
#include "residuals.hpp"

#include <weft/weft_compress.h>

namespace weft_torch
{

size_t Residuals::bytes() const
{
    size_t bytes = 0;

    ask("residual_bytes", [&](weft_comm *comm) { return weft_comm_residual_bytes(comm, &bytes); });
    return bytes;
}

void Residuals::clear(uint64_t tensor) const
{
    ask("clear_residual", [&](weft_comm *comm) { return weft_comm_residual_clear(comm, tensor); });
}

void Residuals::scale(uint64_t tensor, double factor) const
{
    ask("scale_residual", [&](weft_comm *comm) { return weft_comm_residual_scale(comm, tensor, factor); });
}

std::optional<at::Tensor> Residuals::save(uint64_t tensor) const
{
    at::Tensor saved;

    weft_status st = ask("save_residual", [&](weft_comm *comm) {
        size_t bytes = 0;
        weft_status st = weft_comm_residual_save(comm, tensor, nullptr, 0, &bytes);
        if (st < 0)
            return st;
        saved = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
        return weft_comm_residual_save(comm, tensor, saved.mutable_data_ptr(), bytes, &bytes);
    });
    return st < 0 ? std::nullopt : std::optional(saved);
}

void Residuals::load(uint64_t tensor, int64_t elements, const at::Tensor &saved, double factor) const
{
    TORCH_CHECK_VALUE(saved.scalar_type() == at::kByte && saved.device().is_cpu(),
                      "weft: a saved residual is bytes on the CPU (torch.uint8), not ", saved.scalar_type(), " on ",
                      saved.device());
    at::Tensor bytes = saved.contiguous();
    ask("load_residual", [&](weft_comm *comm) {
        return weft_comm_residual_load(comm, tensor, elements > 0 ? static_cast<size_t>(elements) : 0,
                                       bytes.const_data_ptr(), bytes.nbytes(), factor);
    });
}

} // namespace weft_torch
