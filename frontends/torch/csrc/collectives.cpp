/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives.hpp"

#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace weft_torch
{

static const c10d::ReduceOp kAverage(c10d::ReduceOp::AVG);

WorkBase Collectives::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    const at::Tensor &t = only(tensors, "broadcast");
    int root = root_rank(opts.rootRank, "broadcast");

    return run_on(describe(OpType::BROADCAST, "broadcast", "weft:broadcast", opts, t, t),
                  {Flat(t, rank_ == root ? Flat::ReadWrite : Flat::Write, "broadcast")}, [root](const Flat *b) {
                      weft_call call = call_of(WEFT_KIND_BROADCAST, b->data, b->data, b->count, b->dtype);
                      call.root = root;
                      return call;
                  });
}

WorkBase Collectives::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "all_reduce");

    if (C10_UNLIKELY(t.layout() == at::kSparse))
        return allreduce_sparse(tensors, opts);
    return run_on(describe(OpType::ALLREDUCE, "all_reduce", "weft:all_reduce", opts, t, t),
                  {Flat(t, Flat::ReadWrite, "all_reduce", &opts.reduceOp)}, reduce_all);
}

WorkBase Collectives::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts)
{
    const char *what = "allreduce_coalesced";
    Flats flats;

    TORCH_CHECK(!tensors.empty(), "weft: ", what, ": no tensors");
    for (const at::Tensor &t : tensors)
        flats.emplace_back(t, Flat::ReadWrite, what, &opts.reduceOp);
    Op op = describe(OpType::ALLREDUCE_COALESCED, what, "weft:all_reduce", opts, tensors[0], tensors[0]);
    op.ncalls = tensors.size();
    op.all_in = &tensors;
    return run_on(op, std::move(flats), reduce_all);
}

WorkBase Collectives::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "reduce");
    int root = root_rank(opts.rootRank, "reduce");
    bool mine = rank_ == root;

    return run_on(describe(OpType::REDUCE, "reduce", "weft:reduce", opts, t, t),
                  {Flat(t, Flat::ReadWrite, "reduce", &opts.reduceOp)}, [root, mine](const Flat *b) {
                      weft_call call = call_of(WEFT_KIND_REDUCE, b->data, mine ? b->data : nullptr, b->count, b->dtype);
                      call.op = b->op.get();
                      call.root = root;
                      return call;
                  });
}

WorkBase Collectives::average_parts(const at::Tensor &whole, Tensors parts, CodingPtr coding,
                                    std::function<void()> unpack, bool bare)
{
    Op op{OpType::ALLREDUCE, "all_reduce", "weft:all_reduce", false, c10d::kUnsetTimeout, &whole, &whole};
    Flats flats;

    for (const at::Tensor &part : parts)
        flats.emplace_back(part, Flat::ReadWrite, "all_reduce", &kAverage);
    op.ncalls = parts.size();
    op.coding = std::move(coding);
    op.bare = bare;
    return run(
        op, [flats = std::move(flats)](size_t i) { return reduce_all(&flats[i]); },
        [&](Work &work) {
            work.outputs = {whole};
            work.keep = std::move(parts);
            work.unpack = std::move(unpack);
        });
}

WorkBase Collectives::barrier(const c10d::BarrierOptions &opts)
{
    Op op{OpType::BARRIER, "barrier", "weft:barrier", !opts.asyncOp, opts.timeout};

    return run(
        op, [](size_t) { return call_of(WEFT_KIND_BARRIER, nullptr, nullptr, 0, WEFT_UINT8); }, [](Work &) {});
}

WorkBase Collectives::_allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &opts)
{
    return pairs(describe(OpType::_ALLGATHER_BASE, "_all_gather_base", "weft:_all_gather_base", opts, in, out), out, in,
                 nullptr);
}

WorkBase Collectives::allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    return pairs(several(OpType::COALESCED, "weft:all_gather_into_tensor_coalesced", opts, ins, outs), outs, ins,
                 nullptr);
}

WorkBase Collectives::_reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &opts)
{
    return pairs(
        describe(OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", "weft:_reduce_scatter_base", opts, in, out), in,
        out, &opts.reduceOp);
}

WorkBase Collectives::reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                      const c10d::ReduceScatterOptions &opts)
{
    return pairs(
        several(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "weft:reduce_scatter_tensor_coalesced", opts, ins, outs), ins,
        outs, &opts.reduceOp);
}

WorkBase Collectives::allgather(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    const at::Tensor &in = only(ins, "all_gather");
    auto [to, from] = list_and_own(outs, in, Flat::Write, "all_gather", rank_);
    Op op = describe(OpType::ALLGATHER, "all_gather", "weft:all_gather", opts, in, in);

    op.out_copies = size_;
    return run_on(op, {to, from}, [](const Flat *b) {
        weft_call call = gather_pair(b);
        if (!b->even) {
            call.kind = WEFT_KIND_ALL_GATHER_V;
            call.recv_counts = b->counts->data();
        }
        return call;
    });
}

WorkBase Collectives::reduce_scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ReduceScatterOptions &opts)
{
    const at::Tensor &out = only(outs, "reduce_scatter");
    auto [from, to] = list_and_own(ins, out, Flat::Read, "reduce_scatter", rank_);
    Op op = describe(OpType::REDUCE_SCATTER, "reduce_scatter", "weft:reduce_scatter", opts, out, out);

    from.op = Operator(opts.reduceOp, out);
    op.in_copies = size_;
    return run_on(op, {from, to}, [](const Flat *b) {
        weft_call call = reduce_scatter_pair(b);
        if (!b->even) {
            call.kind = WEFT_KIND_REDUCE_SCATTER_V;
            call.send_counts = b->counts->data();
        }
        return call;
    });
}

WorkBase Collectives::gather(std::vector<Tensors> &outs, Tensors &ins, const c10d::GatherOptions &opts)
{
    const at::Tensor &in = only(ins, "gather");
    int root = root_rank(opts.rootRank, "gather");
    auto [to, from] = list_and_own(outs, in, Flat::Write, "gather", root);
    Op op = describe(OpType::GATHER, "gather", "weft:gather", opts, in, in);

    require_even(to, "gather");
    op.out_copies = rank_ == root ? size_ : 0;
    return run_on(op, {to, from}, [root](const Flat *b) {
        weft_call call = call_of(WEFT_KIND_GATHER, b[1].data, b->data, b[1].count, b[1].dtype);
        call.root = root;
        return call;
    });
}

WorkBase Collectives::scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ScatterOptions &opts)
{
    const at::Tensor &out = only(outs, "scatter");
    int root = root_rank(opts.rootRank, "scatter");
    auto [from, to] = list_and_own(ins, out, Flat::Read, "scatter", root);
    Op op = describe(OpType::SCATTER, "scatter", "weft:scatter", opts, out, out);

    require_even(from, "scatter");
    op.in_copies = rank_ == root ? size_ : 0;
    return run_on(op, {from, to}, [root](const Flat *b) {
        weft_call call = call_of(WEFT_KIND_SCATTER, b->data, b[1].data, b[1].count, b[1].dtype);
        call.root = root;
        return call;
    });
}

WorkBase Collectives::allgather_coalesced(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK(!ins.empty() && outs.size() == static_cast<size_t>(size_), "weft: allgather_coalesced: ", outs.size(),
                " output lists for ", size_, " ranks, ", ins.size(), " inputs");
    Op op = describe(OpType::ALLGATHER_COALESCED, "ALLGATHER_coalesced", "weft:all_gather", opts, ins[0], ins[0]);
    std::vector<std::vector<Tensors>> lists(ins.size(), std::vector<Tensors>(1));
    Flats flats;

    for (size_t i : c10::irange(ins.size())) {
        for (const Tensors &of_rank : outs) {
            TORCH_CHECK(of_rank.size() == ins.size(), "weft: allgather_coalesced: an output list has ", of_rank.size(),
                        " tensors, not ", ins.size());
            lists[i][0].push_back(of_rank[i]);
        }
        auto [to, from] = list_and_own(lists[i], ins[i], Flat::Write, op.name, rank_);
        require_even(to, op.name);
        flats.append({to, from});
    }
    op.out_copies = size_;
    op.ncalls = ins.size();
    op.all_in = &ins;
    return run_on(op, std::move(flats), gather_pair);
}

WorkBase Collectives::alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &opts)
{
    TORCH_CHECK(ins.size() == static_cast<size_t>(size_) && outs.size() == ins.size(), "weft: all_to_all: ", ins.size(),
                " input and ", outs.size(), " output tensors for ", size_, " ranks");
    same_type(outs[0], ins[0], "all_to_all");
    return run_on(describe(OpType::ALLTOALL, "all_to_all", "weft:all_to_all", opts, ins[0], outs[0]),
                  {Flat(List(outs), Flat::Write, "all_to_all"), Flat(List(ins), Flat::Read, "all_to_all")}, exchange);
}

WorkBase Collectives::alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
                                    std::vector<int64_t> &in_splits, const c10d::AllToAllOptions &opts)
{
    const char *what = "all_to_all_single";
    Op op = describe(OpType::ALLTOALL_BASE, "all_to_all", "weft:all_to_all", opts, in, out);

    same_type(out, in, what);
    c10d::checkSplitSizes(in_splits, in, size_);
    c10d::checkSplitSizes(out_splits, out, size_);
    Flat to(out, Flat::Write, what), from(in, Flat::Read, what);
    if (in_splits.empty() && out_splits.empty()) {
        TORCH_CHECK(out.numel() == in.numel(), "weft: ", what, ": ", out.numel(), " elements to receive and ",
                    in.numel(), " to send, with equal splits");
        return run_on(op, {to, from}, [n = from.count / size_](const Flat *b) {
            return call_of(WEFT_KIND_ALL_TO_ALL, b[1].data, b->data, n, b->dtype);
        });
    }
    split_rows(from, in_splits, in);
    split_rows(to, out_splits, out);
    return run_on(op, {to, from}, exchange);
}

WorkBase Collectives::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "all_reduce");

    TORCH_CHECK(t.device().is_cpu() && t.layout() == at::kSparse, "weft: all_reduce: layout ", t.layout(), " on ",
                t.device(), " is not supported");
    TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM || opts.reduceOp == c10d::ReduceOp::AVG,
                "weft: all_reduce: unsupported reduction operation for sparse tensors, only SUM and AVG");
    TORCH_CHECK(!open_batch(),
                "weft: all_reduce: that of a sparse tensor, which is several operations one after the other, "
                "cannot be part of a batch");
    at::AutoDispatchBelowAutograd guard;
    at::Tensor mine = t.coalesce();
    c10d::AllgatherOptions wait;
    wait.asyncOp = false;
    wait.timeout = opts.timeout;
    auto gather_all = [&](at::Tensor own, std::vector<Tensors> all) {
        Tensors one{own.contiguous()};
        allgather(all, one, wait)->wait();
        return all[0];
    };

    Tensors headers = gather_all(sparse_header(mine), {at::empty({size_, 3 + kSparseDims}, at::kLong).unbind()});
    Tensors indices, values;
    for (int r : c10::irange(size_)) {
        const int64_t *h = headers[r].const_data_ptr<int64_t>();
        TORCH_CHECK(h[0] == t.sparse_dim() && h[1] == t.dense_dim() && at::IntArrayRef(h + 3, t.dim()) == t.sizes(),
                    "weft: all_reduce: the sparse tensor of rank ", r, " has another size than that of rank ", rank_);
        auto shape = mine._values().sizes().vec();
        shape[0] = h[2];
        indices.push_back(at::empty({h[0], h[2]}, at::kLong));
        values.push_back(at::empty(shape, mine._values().options()));
    }
    indices = gather_all(mine._indices(), {indices});
    values = gather_all(mine._values(), {values});
    at::Tensor sum =
        at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values, 0), t.sizes(), t.options()).coalesce();
    at::Tensor(t).copy_(opts.reduceOp == c10d::ReduceOp::AVG ? sum.div_(size_) : sum);
    WorkPtr work = make_work(Op{OpType::_ALLREDUCE_SPARSE, "all_reduce", nullptr}, false);
    work->ticket.seq = engine_->seq;
    work->outputs = tensors;
    work->complete_inline(WEFT_SUCCESS);
    return work;
}

WorkBase Collectives::send(Tensors &tensors, int peer, int tag)
{
    check_peer(peer, "send");
    return message(tensors, OpType::SEND, "send", "weft:send", peer, tag, WEFT_KIND_SEND);
}

WorkBase Collectives::recv(Tensors &tensors, int peer, int tag)
{
    check_peer(peer, "recv");
    return message(tensors, OpType::RECV, "recv", "weft:recv", peer, tag, WEFT_KIND_RECV);
}

WorkBase Collectives::recvAnysource(Tensors &tensors, int tag)
{
    TORCH_CHECK(size_ > 1, "weft: recv: there is no other rank to receive from");
    TORCH_CHECK(!open_batch(), "weft: recv: a receive from any rank cannot be part of a batch");
    return message(tensors, OpType::RECVANYSOURCE, "recv", "weft:recvAnySource", WEFT_ANY_SOURCE, tag, WEFT_KIND_RECV);
}

int Collectives::root_rank(int64_t root, const char *operation) const
{
    TORCH_CHECK(root >= 0 && root < size_, "weft: ", operation, ": invalid root rank: ", root, " (the group has ",
                size_, ")");
    return static_cast<int>(root);
}

void Collectives::check_peer(int peer, const char *operation) const
{
    TORCH_CHECK(peer >= 0 && peer < size_ && peer != rank_, "weft: ", operation, ": invalid peer rank: ", peer,
                " (this is rank ", rank_, " of ", size_, ")");
}

void Collectives::require_even(const Flat &list, const char *operation)
{
    TORCH_CHECK(list.even, "weft: ", operation, ": the tensors of the list have different sizes");
}

WorkBase Collectives::pairs(Op op, List whole, List share, const c10d::ReduceOp *reduce)
{
    Flats flats;

    op.ncalls = share.size();
    for (size_t i : c10::irange(share.size())) {
        same_type(reduce ? share[i] : whole[i], reduce ? whole[i] : share[i], op.name);
        TORCH_CHECK(whole[i].numel() == share[i].numel() * size_, "weft: ", op.name, ": ",
                    reduce ? "input tensor must be the same size as output size times world size: "
                           : "output tensor size must be equal to world_size times input tensor size: ",
                    whole[i].numel(), " elements, and ", size_, " times ", share[i].numel());
        flats.emplace_back(whole[i], reduce ? Flat::Read : Flat::Write, op.name, reduce);
        flats.emplace_back(share[i], reduce ? Flat::Write : Flat::Read, op.name);
    }
    return run_on(op, std::move(flats), reduce ? reduce_scatter_pair : gather_pair);
}

std::pair<Flat, Flat> Collectives::list_and_own(const std::vector<Tensors> &lists, const at::Tensor &own, Flat::Use use,
                                                const char *what, int root) const
{
    Flat mine(own, use == Flat::Read ? Flat::Write : Flat::Read, what);

    if (rank_ != root) {
        TORCH_CHECK(lists.empty() || lists[0].empty(), "weft: ", what, ": requires empty ",
                    use == Flat::Read ? "input" : "output", " on non-root");
        return {Flat(), mine};
    }
    TORCH_CHECK(lists.size() == 1, "weft: ", what, ": expects one list of tensors, got ", lists.size());
    TORCH_CHECK(lists[0].size() == static_cast<size_t>(size_), "weft: ", what, ": expects a list of ", size_,
                " tensors, one for each rank, got ", lists[0].size());
    Flat list(List(lists[0]), use, what);
    TORCH_CHECK(list.dtype == mine.dtype, "weft: ", what,
                ": the tensors of the list have another type than the other tensor");
    TORCH_CHECK((*list.counts)[rank_] == mine.count, "weft: ", what, ": tensor ", rank_, " of the list has ",
                (*list.counts)[rank_], " elements, the tensor of this rank has ", mine.count);
    return {list, mine};
}

void Collectives::split_rows(Flat &flat, const std::vector<int64_t> &splits, const at::Tensor &t) const
{
    size_t rows = t.dim() ? static_cast<size_t>(t.size(0)) : 1;

    flat.counts = std::make_shared<std::vector<size_t>>(size_, flat.count / size_);
    for (size_t i : c10::irange(splits.size()))
        (*flat.counts)[i] = rows ? static_cast<size_t>(splits[i]) * (flat.count / rows) : 0;
}

at::Tensor Collectives::sparse_header(const at::Tensor &t)
{
    at::Tensor header = at::zeros({3 + kSparseDims}, at::kLong);
    int64_t *h = header.data_ptr<int64_t>();

    TORCH_CHECK(t.dim() <= kSparseDims, "weft: all_reduce: a sparse tensor of ", t.dim(), " dimensions, at most ",
                kSparseDims);
    h[0] = t.sparse_dim();
    h[1] = t.dense_dim();
    h[2] = t._nnz();
    std::copy(t.sizes().begin(), t.sizes().end(), h + 3);
    return header;
}

weft_call Collectives::reduce_all(const Flat *b)
{
    weft_call call = call_of(WEFT_KIND_ALL_REDUCE, b->data, b->data, b->count, b->dtype);

    call.op = b->op.get();
    return call;
}

weft_call Collectives::gather_pair(const Flat *b)
{
    return call_of(WEFT_KIND_ALL_GATHER, b[1].data, b->data, b[1].count, b[1].dtype);
}

weft_call Collectives::reduce_scatter_pair(const Flat *b)
{
    weft_call call = call_of(WEFT_KIND_REDUCE_SCATTER, b->data, b[1].data, b[1].count, b[1].dtype);

    call.op = b->op.get();
    return call;
}

weft_call Collectives::exchange(const Flat *b)
{
    weft_call call = call_of(WEFT_KIND_ALL_TO_ALL_V, b[1].data, b->data, 0, b->dtype);

    call.send_counts = b[1].counts->data();
    call.recv_counts = b->counts->data();
    return call;
}

} // namespace weft_torch
