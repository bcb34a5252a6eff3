/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on one tensor, or on several that are treated alike. */
#include "tensors.hpp"

#include <c10/util/irange.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace weft_torch
{

using c10d::OpType;
using WorkBase = c10::intrusive_ptr<c10d::Work>;

WorkBase Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    const at::Tensor &t = only(tensors, "broadcast");
    int root = root_rank(opts.rootRank, size_, "broadcast");
    Flat flat(t, rank_ == root ? Flat::ReadWrite : Flat::Write, "broadcast");

    return run(
        Op{OpType::BROADCAST, "broadcast", "weft:broadcast", !opts.asyncOp, opts.timeout, -1, &t, &t},
        [p = flat.data, n = flat.count, d = flat.dtype, root](weft_comm *comm, size_t, weft_request **req) {
            return weft_broadcast(comm, p, p, n, d, root, req);
        },
        [&](Work &work) { flat.hand_to(work); });
}

WorkBase Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "all_reduce");

    if (C10_UNLIKELY(t.layout() == at::kSparse))
        return allreduce_sparse(tensors, opts);
    Flat flat(t, Flat::ReadWrite, "all_reduce");
    Operator op(opts.reduceOp, t);
    return run(
        Op{OpType::ALLREDUCE, "all_reduce", "weft:all_reduce", !opts.asyncOp, opts.timeout, -1, &t, &t},
        [p = flat.data, n = flat.count, d = flat.dtype, op](weft_comm *comm, size_t, weft_request **req) {
            return weft_all_reduce(comm, p, p, n, d, op.get(), req);
        },
        [&](Work &work) { flat.hand_to(work); });
}

WorkBase Backend::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts)
{
    std::vector<Flat> flats;
    std::vector<std::tuple<void *, size_t, weft_dtype, Operator>> calls;

    TORCH_CHECK(!tensors.empty(), "weft: allreduce_coalesced: no tensors");
    for (const at::Tensor &t : tensors) {
        flats.emplace_back(t, Flat::ReadWrite, "allreduce_coalesced");
        calls.emplace_back(flats.back().data, flats.back().count, flats.back().dtype, Operator(opts.reduceOp, t));
    }
    Op op{OpType::ALLREDUCE_COALESCED,
          "allreduce_coalesced",
          "weft:all_reduce",
          !opts.asyncOp,
          opts.timeout,
          -1,
          &tensors[0],
          &tensors[0]};
    op.ncalls = tensors.size();
    op.all_in = &tensors;
    return run(
        op,
        [calls = std::move(calls)](weft_comm *comm, size_t i, weft_request **req) {
            const auto &[p, n, d, o] = calls[i];
            return weft_all_reduce(comm, p, p, n, d, o.get(), req);
        },
        [&](Work &work) {
            for (const Flat &flat : flats)
                flat.hand_to(work);
        });
}

WorkBase Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "reduce");
    int root = root_rank(opts.rootRank, size_, "reduce");
    Flat flat(t, rank_ == root ? Flat::ReadWrite : Flat::Read, "reduce");
    Operator op(opts.reduceOp, t);

    return run(
        Op{OpType::REDUCE, "reduce", "weft:reduce", !opts.asyncOp, opts.timeout, -1, &t, &t},
        [p = flat.data, n = flat.count, d = flat.dtype, op, root, mine = rank_ == root](weft_comm *comm, size_t,
                                                                                        weft_request **req) {
            return weft_reduce(comm, p, mine ? p : nullptr, n, d, op.get(), root, req);
        },
        [&](Work &work) {
            flat.hand_to(work);
            if (rank_ != root)
                work.outputs.push_back(t);
        });
}

WorkBase Backend::_allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &opts)
{
    same_type(out, in, "all_gather_into_tensor");
    TORCH_CHECK(
        out.numel() == in.numel() * size_,
        "weft: all_gather_into_tensor: output tensor size must be equal to world_size times input tensor size: ",
        out.numel(), " elements, and ", size_, " times ", in.numel());
    Flat to(out, Flat::Write, "all_gather_into_tensor"), from(in, Flat::Read, "all_gather_into_tensor");
    return run(
        Op{OpType::_ALLGATHER_BASE, "_all_gather_base", "weft:_all_gather_base", !opts.asyncOp, opts.timeout, -1, &in,
           &out},
        [s = from.data, p = to.data, n = from.count, d = to.dtype](weft_comm *comm, size_t, weft_request **req) {
            return weft_all_gather(comm, s, p, n, d, req);
        },
        [&](Work &work) {
            to.hand_to(work);
            from.hand_to(work);
        });
}

WorkBase Backend::_reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &opts)
{
    same_type(out, in, "reduce_scatter_tensor");
    TORCH_CHECK(in.numel() == out.numel() * size_,
                "weft: reduce_scatter_tensor: input tensor must be the same size as output size times world size: ",
                in.numel(), " elements, and ", size_, " times ", out.numel());
    Flat to(out, Flat::Write, "reduce_scatter_tensor"), from(in, Flat::Read, "reduce_scatter_tensor");
    Operator op(opts.reduceOp, in);
    return run(
        Op{OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", "weft:_reduce_scatter_base", !opts.asyncOp,
           opts.timeout, -1, &in, &out},
        [s = from.data, p = to.data, n = to.count, d = to.dtype, op](weft_comm *comm, size_t, weft_request **req) {
            return weft_reduce_scatter(comm, s, p, n, d, op.get(), req);
        },
        [&](Work &work) {
            to.hand_to(work);
            from.hand_to(work);
        });
}

/* ---- Several tensors ---- */

namespace
{
struct Pair {
    void *from, *to;
    size_t count;
    weft_dtype dtype;
};
} // namespace

static std::vector<Pair> pairs_of(Tensors &outs, Tensors &ins, std::vector<Flat> &flats, const char *what, bool gathers)
{
    std::vector<Pair> pairs;

    TORCH_CHECK(!ins.empty() && outs.size() == ins.size(), "weft: ", what, ": ", outs.size(), " outputs for ",
                ins.size(), " inputs");
    for (size_t i : c10::irange(ins.size())) {
        same_type(outs[i], ins[i], what);
        flats.emplace_back(outs[i], Flat::Write, what);
        flats.emplace_back(ins[i], Flat::Read, what);
        const Flat &to = flats[2 * i], &from = flats[2 * i + 1];
        pairs.push_back({from.data, to.data, gathers ? from.count : to.count, to.dtype});
    }
    return pairs;
}

WorkBase Backend::allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    const char *what = "all_gather_into_tensor_coalesced";
    std::vector<Flat> flats;
    auto pairs = pairs_of(outs, ins, flats, what, true);

    for (size_t i : c10::irange(ins.size()))
        TORCH_CHECK(outs[i].numel() == ins[i].numel() * size_, "weft: ", what, ": output ", i, " has ", outs[i].numel(),
                    " elements, not ", size_, " times ", ins[i].numel());
    Op op{OpType::COALESCED, what,    "weft:all_gather_into_tensor_coalesced", !opts.asyncOp, opts.timeout, -1,
          &ins[0],           &outs[0]};
    op.ncalls = ins.size();
    op.all_in = &ins;
    return run(
        op,
        [pairs = std::move(pairs)](weft_comm *comm, size_t i, weft_request **req) {
            return weft_all_gather(comm, pairs[i].from, pairs[i].to, pairs[i].count, pairs[i].dtype, req);
        },
        [&](Work &work) {
            for (const Flat &flat : flats)
                flat.hand_to(work);
        });
}

WorkBase Backend::reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::ReduceScatterOptions &opts)
{
    const char *what = "reduce_scatter_tensor_coalesced";
    std::vector<Flat> flats;
    std::vector<Operator> operators;
    auto pairs = pairs_of(outs, ins, flats, what, false);

    for (size_t i : c10::irange(ins.size())) {
        TORCH_CHECK(ins[i].numel() == outs[i].numel() * size_, "weft: ", what, ": input ", i, " has ", ins[i].numel(),
                    " elements, not ", size_, " times ", outs[i].numel());
        operators.emplace_back(opts.reduceOp, ins[i]);
    }
    Op op{OpType::REDUCE_SCATTER_TENSOR_COALESCED,
          what,
          "weft:reduce_scatter_tensor_coalesced",
          !opts.asyncOp,
          opts.timeout,
          -1,
          &ins[0],
          &outs[0]};
    op.ncalls = ins.size();
    op.all_in = &ins;
    return run(
        op,
        [pairs = std::move(pairs), operators = std::move(operators)](weft_comm *comm, size_t i, weft_request **req) {
            return weft_reduce_scatter(comm, pairs[i].from, pairs[i].to, pairs[i].count, pairs[i].dtype,
                                       operators[i].get(), req);
        },
        [&](Work &work) {
            for (const Flat &flat : flats)
                flat.hand_to(work);
        });
}

/* ---- All to all with splits ---- */

/* Elements for each rank, from rows along the first dimension. */
static std::vector<size_t> split_counts(const std::vector<int64_t> &splits, const at::Tensor &t, size_t per)
{
    int64_t rows = t.dim() ? t.size(0) : 1;
    size_t row = rows ? static_cast<size_t>(t.numel() / rows) * per : 0;
    std::vector<size_t> counts;

    for (int64_t s : splits)
        counts.push_back(static_cast<size_t>(s) * row);
    return counts;
}

WorkBase Backend::alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
                                std::vector<int64_t> &in_splits, const c10d::AllToAllOptions &opts)
{
    const char *what = "all_to_all_single";

    same_type(out, in, what);
    c10d::checkSplitSizes(in_splits, in, size_);
    c10d::checkSplitSizes(out_splits, out, size_);
    Flat to(out, Flat::Write, what), from(in, Flat::Read, what);
    auto fill = [&](Work &work) {
        to.hand_to(work);
        from.hand_to(work);
    };
    if (in_splits.empty() && out_splits.empty()) {
        TORCH_CHECK(out.numel() == in.numel(), "weft: ", what, ": ", out.numel(), " elements to receive and ",
                    in.numel(), " to send, with equal splits");
        return run(
            Op{OpType::ALLTOALL_BASE, "all_to_all", "weft:all_to_all", !opts.asyncOp, opts.timeout, -1, &in, &out},
            [s = from.data, p = to.data, n = from.count / size_, d = to.dtype](
                weft_comm *comm, size_t, weft_request **req) { return weft_all_to_all(comm, s, p, n, d, req); },
            fill);
    }
    size_t per = elems_of(in.scalar_type()).per;
    auto equal = [&](const Flat &flat) { return std::vector<size_t>(size_, flat.count / size_); };
    /* Shared: the library reads the arrays until the operation has completed. */
    auto counts = std::make_shared<std::array<std::vector<size_t>, 2>>();
    (*counts)[0] = in_splits.empty() ? equal(from) : split_counts(in_splits, in, per);
    (*counts)[1] = out_splits.empty() ? equal(to) : split_counts(out_splits, out, per);
    return run(
        Op{OpType::ALLTOALL_BASE, "all_to_all", "weft:all_to_all", !opts.asyncOp, opts.timeout, -1, &in, &out},
        [s = from.data, p = to.data, counts, d = to.dtype](weft_comm *comm, size_t, weft_request **req) {
            return weft_all_to_all_v(comm, s, (*counts)[0].data(), nullptr, p, (*counts)[1].data(), nullptr, d, req);
        },
        [&](Work &work) {
            fill(work);
            work.arrays.push_back(counts);
        });
}

WorkBase Backend::barrier(const c10d::BarrierOptions &opts)
{
    return run(
        Op{OpType::BARRIER, "barrier", "weft:barrier", !opts.asyncOp, opts.timeout},
        [](weft_comm *comm, size_t, weft_request **req) { return weft_barrier(comm, req); }, [](Work &) {});
}

/* ---- Sparse tensors: indices and values of all ranks are gathered, and added up here, as Gloo does ---- */

static constexpr int64_t kSparseDims = 16;

static at::Tensor sparse_header(const at::Tensor &t)
{
    at::Tensor header = at::zeros({3 + kSparseDims}, at::kLong);
    int64_t *h = header.data_ptr<int64_t>();

    TORCH_CHECK(t.dim() <= kSparseDims, "weft: all_reduce: a sparse tensor of ", t.dim(), " dimensions, at most ",
                kSparseDims);
    h[0] = t.sparse_dim();
    h[1] = t.dense_dim();
    h[2] = t._nnz();
    for (int64_t i : c10::irange(t.dim()))
        h[3 + i] = t.size(i);
    return header;
}

WorkBase Backend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "all_reduce");

    TORCH_CHECK(t.device().is_cpu() && t.layout() == at::kSparse, "weft: all_reduce: layout ", t.layout(), " on ",
                t.device(), " is not supported");
    TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM || opts.reduceOp == c10d::ReduceOp::AVG,
                "weft: all_reduce: unsupported reduction operation for sparse tensors, only SUM and AVG");
    at::AutoDispatchBelowAutograd guard;
    at::Tensor mine = t.coalesce(), header = sparse_header(mine);
    at::Tensor headers = at::empty({size_, header.numel()}, at::kLong);
    c10d::AllgatherOptions gather;
    gather.asyncOp = false;
    gather.timeout = opts.timeout;
    _allgather_base(headers, header, gather)->wait();

    Tensors indices, values;
    for (int r : c10::irange(size_)) {
        const int64_t *h = headers[r].const_data_ptr<int64_t>();
        TORCH_CHECK(h[0] == t.sparse_dim() && h[1] == t.dense_dim() &&
                        std::equal(h + 3, h + 3 + t.dim(), t.sizes().begin()),
                    "weft: all_reduce: the sparse tensor of rank ", r, " has another size than that of rank ", rank_);
        auto shape = mine._values().sizes().vec();
        shape[0] = h[2];
        indices.push_back(at::empty({h[0], h[2]}, at::kLong));
        values.push_back(at::empty(shape, mine._values().options()));
    }
    Tensors my_indices{mine._indices().contiguous()}, my_values{mine._values().contiguous()};
    std::vector<Tensors> all_indices{indices}, all_values{values};
    allgather(all_indices, my_indices, gather)->wait();
    allgather(all_values, my_values, gather)->wait();

    at::Tensor sum =
        at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values, 0), t.sizes(), t.options()).coalesce();
    if (opts.reduceOp == c10d::ReduceOp::AVG)
        sum.div_(size_);
    at::Tensor(t).copy_(sum);
    WorkPtr work = make_work(Op{OpType::_ALLREDUCE_SPARSE, "all_reduce", nullptr, true}, false);
    work->seq = engine_->seq;
    work->outputs = tensors;
    work->complete_inline(WEFT_SUCCESS);
    return work;
}

} // namespace weft_torch
