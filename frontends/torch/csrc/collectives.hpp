/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages: arguments checked and made buffers, and the call of the C API for each. */
#pragma once

#include <torch/csrc/distributed/c10d/Utils.hpp>
#include "issue.hpp"

namespace weft_torch
{

class Collectives : public Issuer
{
public:
    using Issuer::Issuer;

    /* ---- One tensor, or several that are treated alike ---- */

    WorkBase broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkBase allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkBase allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override;
    WorkBase reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    /* For hooks, without waiting: each part of `whole` is averaged in place, by a call of its own. unpack(): when all are. */
    WorkBase average_parts(const at::Tensor &whole, Tensors parts, CodingPtr coding, std::function<void()> unpack, bool bare);
    WorkBase barrier(const c10d::BarrierOptions &opts) override;

    /* ---- One tensor of all ranks, and one of this rank ---- */

    WorkBase _allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &opts) override;
    WorkBase allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &opts) override;
    WorkBase _reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &opts) override;
    WorkBase reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::ReduceScatterOptions &opts) override;

    /* ---- A list with a tensor for each rank, and one of this rank ---- */

    WorkBase allgather(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts) override;
    WorkBase reduce_scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ReduceScatterOptions &opts) override;
    WorkBase gather(std::vector<Tensors> &outs, Tensors &ins, const c10d::GatherOptions &opts) override;
    WorkBase scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ScatterOptions &opts) override;
    /* outs[r][i] is what rank r has as ins[i]. */
    WorkBase allgather_coalesced(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts) override;

    /* ---- Everybody to everybody ---- */

    WorkBase alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &opts) override;
    WorkBase alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
                           std::vector<int64_t> &in_splits, const c10d::AllToAllOptions &opts) override;

    /* ---- Sparse tensors: indices and values of all ranks are gathered, and added up here, as Gloo does ---- */

    WorkBase allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;

    /* ---- Messages: bytes, whose tags are PyTorch's ---- */

    WorkBase send(Tensors &tensors, int peer, int tag) override;
    WorkBase recv(Tensors &tensors, int peer, int tag) override;
    WorkBase recvAnysource(Tensors &tensors, int tag) override;

private:
    static constexpr int64_t kSparseDims = 16;

    int root_rank(int64_t root, const char *operation) const;
    void check_peer(int peer, const char *operation) const;
    static void require_even(const Flat &list, const char *operation);
    template <class O>
    static Op several(OpType type, const char *title, const O &opts, const Tensors &ins, const Tensors &outs)
    {
        TORCH_CHECK(!ins.empty() && outs.size() == ins.size(), title, ": ", outs.size(), " outputs for ", ins.size(),
                    " inputs");
        Op op = describe(type, title + strlen("weft:"), title, opts, ins[0], outs[0]);
        op.all_in = &ins;
        return op;
    }

    /* Calls that each have one tensor of `whole`, which is of all ranks, and one of `share`: they gather, or reduce and
     * scatter. */
    WorkBase pairs(Op op, List whole, List share, const c10d::ReduceOp *reduce);
    /* The list, where this rank is the root that has it, and the tensor of this rank. */
    std::pair<Flat, Flat> list_and_own(const std::vector<Tensors> &lists, const at::Tensor &own, Flat::Use use,
                                       const char *what, int root) const;
    /* Elements for each rank: rows along the first dimension, or equal shares. */
    void split_rows(Flat &flat, const std::vector<int64_t> &splits, const at::Tensor &t) const;
    /* Numbers of dimensions and of values, and the sizes. */
    static at::Tensor sparse_header(const at::Tensor &t);
    WorkBase message(const Tensors &tensors, OpType type, const char *name, const char *title, int peer, int tag,
                     weft_kind kind)
    {
        const at::Tensor &t = only(tensors, name);
        Flat flat(t, kind == WEFT_KIND_SEND ? Flat::Read : Flat::Write, name);
        Op op{type, name, title, false, c10d::kUnsetTimeout, &t, &t};

        TORCH_CHECK(tag >= 0, "weft: ", name, ": tag ", tag, " is below 0");
        op.peer = peer == WEFT_ANY_SOURCE ? rank_ : peer;
        weft_call call = call_of(kind, flat.data, flat.data, t.nbytes(), WEFT_UINT8);
        call.peer = peer;
        call.tag = tag;
        return run(
            op, [call](size_t) { return call; },
            [&](Work &work) {
                flat.hand_to(work);
                work.source = type == OpType::SEND ? -1 : peer;
            });
    }

    /* ---- Calls on buffers ---- */

    static weft_call reduce_all(const Flat *b);
    static weft_call gather_pair(const Flat *b);
    static weft_call reduce_scatter_pair(const Flat *b);
    static weft_call exchange(const Flat *b);
};

} // namespace weft_torch
