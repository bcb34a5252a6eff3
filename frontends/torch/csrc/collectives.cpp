/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives: arguments checked and made buffers, and the call of the C API for each. */
#include "tensors.hpp"

#include <cstring>

#include <c10/util/irange.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace weft_torch
{

using c10d::OpType;
using WorkBase = c10::intrusive_ptr<c10d::Work>;

/* ---- Buffers ---- */

Flat::Flat(List list, Use use, const char *operation)
    : counts(std::make_shared<std::vector<size_t>>()), tensors_(list), use_(use)
{
    for (const at::Tensor &t : list) {
        check_tensor(t, operation);
        same_type(t, list[0], operation);
        Elems e = elems_of(t.scalar_type());
        dtype = e.dtype;
        counts->push_back(static_cast<size_t>(t.numel()) * e.per);
        even = even && counts->back() == counts->front();
        count += counts->back();
    }
    if (!adjacent())
        stage();
    else if (auto it = std::find_if(list.begin(), list.end(), [](auto &t) { return t.numel(); }); it != list.end())
        data = address(*it);
}

bool Flat::adjacent() const
{
    const char *next = nullptr;

    for (const at::Tensor &t : tensors_) {
        const char *p = static_cast<const char *>(t.const_data_ptr());
        if (!t.is_contiguous() || t.is_conj() || t.is_neg() || (next && t.numel() && p != next))
            return false;
        if (t.numel())
            next = p + t.nbytes();
    }
    return true;
}

static void each_part(const at::Tensor &staged, List tensors, void (*copy)(const at::Tensor &, const at::Tensor &))
{
    int64_t at = 0;

    for (const at::Tensor &t : tensors) {
        copy(t, staged.narrow(0, at, t.numel()).view(t.sizes()));
        at += t.numel();
    }
}

void Flat::stage()
{
    at::AutoDispatchBelowAutograd guard;
    int64_t total = 0;

    for (const at::Tensor &t : tensors_)
        total += t.numel();
    staged_ = at::empty({total}, tensors_[0].options().memory_format(at::MemoryFormat::Contiguous));
    data = staged_.mutable_data_ptr();
    if (use_ != Write)
        each_part(staged_, tensors_, [](const at::Tensor &t, const at::Tensor &part) { part.copy_(t); });
}

void Flat::hand_to(Work &work) const
{
    auto &kept = use_ == Read ? work.keep : work.outputs;

    kept.insert(kept.end(), tensors_.begin(), tensors_.end());
    if (counts)
        work.arrays.push_back(counts);
    if (C10_LIKELY(!staged_.defined()))
        return;
    work.keep.push_back(staged_);
    if (use_ != Read)
        work.unpack = [next = std::move(work.unpack), tensors = tensors_.vec(), from = staged_] {
            each_part(from, tensors, [](const at::Tensor &t, const at::Tensor &part) { t.copy_(part); });
            if (next)
                next();
        };
}

/* ---- Arguments ---- */

template <class O>
static Op describe(OpType type, const char *name, const char *title, const O &opts, const at::Tensor &in,
                   const at::Tensor &out)
{
    return Op{type, name, title, !opts.asyncOp, opts.timeout, -1, &in, &out};
}

static int root_rank(int64_t root, int size, const char *operation)
{
    TORCH_CHECK(root >= 0 && root < size, "weft: ", operation, ": invalid root rank: ", root, " (the group has ", size,
                ")");
    return static_cast<int>(root);
}

static const Tensors &one_list(const std::vector<Tensors> &lists, int size, const char *operation)
{
    TORCH_CHECK(lists.size() == 1, "weft: ", operation, ": expects one list of tensors, got ", lists.size());
    TORCH_CHECK(lists[0].size() == static_cast<size_t>(size), "weft: ", operation, ": expects a list of ", size,
                " tensors, one for each rank, got ", lists[0].size());
    return lists[0];
}

static void check_share(const Flat &list, int rank, const Flat &flat, const char *operation, bool must_be_even)
{
    TORCH_CHECK(list.dtype == flat.dtype, "weft: ", operation,
                ": the tensors of the list have another type than the other tensor");
    TORCH_CHECK((*list.counts)[rank] == flat.count, "weft: ", operation, ": tensor ", rank, " of the list has ",
                (*list.counts)[rank], " elements, the tensor of this rank has ", flat.count);
    TORCH_CHECK(list.even || !must_be_even, "weft: ", operation, ": the tensors of the list have different sizes");
}

static Flat reduced(const at::Tensor &t, Flat::Use use, const char *operation, const c10d::ReduceOp &op)
{
    Flat flat(t, use, operation);

    flat.op = Operator(op, t);
    return flat;
}

/* The buffers of calls that each have one tensor of `whole`, which is of all ranks, and one of `share`: in pairs. They gather,
 * or reduce and scatter. */
static Flats pairs(Op &op, List whole, List share, int size, const c10d::ReduceOp *reduce)
{
    Flats flats;

    op.ncalls = share.size();
    for (size_t i : c10::irange(share.size())) {
        same_type(reduce ? share[i] : whole[i], reduce ? whole[i] : share[i], op.name);
        TORCH_CHECK(whole[i].numel() == share[i].numel() * size, "weft: ", op.name, ": ",
                    reduce ? "input tensor must be the same size as output size times world size: "
                           : "output tensor size must be equal to world_size times input tensor size: ",
                    whole[i].numel(), " elements, and ", size, " times ", share[i].numel());
        flats.push_back(reduce ? reduced(whole[i], Flat::Read, op.name, *reduce)
                               : Flat(whole[i], Flat::Write, op.name));
        flats.emplace_back(share[i], reduce ? Flat::Write : Flat::Read, op.name);
    }
    return flats;
}

static weft_status reduce_all(weft_comm *comm, const Flat *b, weft_request **req)
{
    return weft_all_reduce(comm, b->data, b->data, b->count, b->dtype, b->op.get(), req);
}

static weft_status gather_pair(weft_comm *comm, const Flat *b, weft_request **req)
{
    return weft_all_gather(comm, b[1].data, b[0].data, b[1].count, b[1].dtype, req);
}

static weft_status reduce_scatter_pair(weft_comm *comm, const Flat *b, weft_request **req)
{
    return weft_reduce_scatter(comm, b[0].data, b[1].data, b[1].count, b[1].dtype, b[0].op.get(), req);
}

/* ---- One tensor, or several that are treated alike ---- */

WorkBase Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    const at::Tensor &t = only(tensors, "broadcast");
    int root = root_rank(opts.rootRank, size_, "broadcast");

    return run_on(describe(OpType::BROADCAST, "broadcast", "weft:broadcast", opts, t, t),
                  {Flat(t, rank_ == root ? Flat::ReadWrite : Flat::Write, "broadcast")},
                  [root](weft_comm *comm, const Flat *b, weft_request **req) {
                      return weft_broadcast(comm, b->data, b->data, b->count, b->dtype, root, req);
                  });
}

WorkBase Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "all_reduce");

    if (C10_UNLIKELY(t.layout() == at::kSparse))
        return allreduce_sparse(tensors, opts);
    return run_on(describe(OpType::ALLREDUCE, "all_reduce", "weft:all_reduce", opts, t, t),
                  {reduced(t, Flat::ReadWrite, "all_reduce", opts.reduceOp)}, reduce_all);
}

WorkBase Backend::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts)
{
    const char *what = "allreduce_coalesced";
    Flats flats;

    TORCH_CHECK(!tensors.empty(), "weft: ", what, ": no tensors");
    for (const at::Tensor &t : tensors)
        flats.push_back(reduced(t, Flat::ReadWrite, what, opts.reduceOp));
    Op op = describe(OpType::ALLREDUCE_COALESCED, what, "weft:all_reduce", opts, tensors[0], tensors[0]);
    op.ncalls = tensors.size();
    op.all_in = &tensors;
    return run_on(op, std::move(flats), reduce_all);
}

WorkBase Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    const at::Tensor &t = only(tensors, "reduce");
    int root = root_rank(opts.rootRank, size_, "reduce");
    bool mine = rank_ == root;

    return run_on(describe(OpType::REDUCE, "reduce", "weft:reduce", opts, t, t),
                  {reduced(t, Flat::ReadWrite, "reduce", opts.reduceOp)},
                  [root, mine](weft_comm *comm, const Flat *b, weft_request **req) {
                      void *to = mine ? b->data : nullptr;
                      return weft_reduce(comm, b->data, to, b->count, b->dtype, b->op.get(), root, req);
                  });
}

WorkBase Backend::_allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &opts)
{
    Op op = describe(OpType::_ALLGATHER_BASE, "_all_gather_base", "weft:_all_gather_base", opts, in, out);
    Flats flats = pairs(op, out, in, size_, nullptr);

    return run_on(op, std::move(flats), gather_pair);
}

WorkBase Backend::_reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &opts)
{
    Op op = describe(OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", "weft:_reduce_scatter_base", opts, in, out);
    Flats flats = pairs(op, in, out, size_, &opts.reduceOp);

    return run_on(op, std::move(flats), reduce_scatter_pair);
}

template <class O>
static Op describe_several(OpType type, const char *title, const O &opts, const Tensors &ins, const Tensors &outs)
{
    TORCH_CHECK(!ins.empty() && outs.size() == ins.size(), title, ": ", outs.size(), " outputs for ", ins.size(),
                " inputs");
    Op op = describe(type, title + strlen("weft:"), title, opts, ins[0], outs[0]);
    op.all_in = &ins;
    return op;
}

WorkBase Backend::allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    Op op = describe_several(OpType::COALESCED, "weft:all_gather_into_tensor_coalesced", opts, ins, outs);
    Flats flats = pairs(op, outs, ins, size_, nullptr);

    return run_on(op, std::move(flats), gather_pair);
}

WorkBase Backend::reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins, const c10d::ReduceScatterOptions &opts)
{
    Op op = describe_several(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "weft:reduce_scatter_tensor_coalesced", opts, ins,
                             outs);
    Flats flats = pairs(op, ins, outs, size_, &opts.reduceOp);

    return run_on(op, std::move(flats), reduce_scatter_pair);
}

WorkBase Backend::barrier(const c10d::BarrierOptions &opts)
{
    Op op{OpType::BARRIER, "barrier", "weft:barrier", !opts.asyncOp, opts.timeout};

    return run(
        op, [](weft_comm *comm, size_t, weft_request **req) { return weft_barrier(comm, req); }, [](Work &) {});
}

/* ---- A list with a tensor for each rank ---- */

WorkBase Backend::allgather(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    const at::Tensor &in = only(ins, "all_gather");
    Flat to(one_list(outs, size_, "all_gather"), Flat::Write, "all_gather"), from(in, Flat::Read, "all_gather");
    Op op = describe(OpType::ALLGATHER, "all_gather", "weft:all_gather", opts, in, in);

    check_share(to, rank_, from, op.name, false);
    op.out_copies = size_;
    return run_on(op, {to, from}, [](weft_comm *comm, const Flat *b, weft_request **req) {
        return b[0].even ? gather_pair(comm, b, req)
                         : weft_all_gather_v(comm, b[1].data, b[0].data, b[0].counts->data(), nullptr, b[0].dtype, req);
    });
}

/* outs[r][i] is what rank r has as ins[i]. */
WorkBase Backend::allgather_coalesced(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK(!ins.empty() && outs.size() == static_cast<size_t>(size_), "weft: allgather_coalesced: ", outs.size(),
                " output lists for ", size_, " ranks, ", ins.size(), " inputs");
    Op op = describe(OpType::ALLGATHER_COALESCED, "ALLGATHER_coalesced", "weft:all_gather", opts, ins[0], ins[0]);
    std::vector<Tensors> lists(ins.size());
    Flats flats;

    for (size_t i : c10::irange(ins.size())) {
        for (const Tensors &of_rank : outs) {
            TORCH_CHECK(of_rank.size() == ins.size(), "weft: allgather_coalesced: an output list has ", of_rank.size(),
                        " tensors, not ", ins.size());
            lists[i].push_back(of_rank[i]);
        }
        flats.emplace_back(List(lists[i]), Flat::Write, op.name);
        flats.emplace_back(ins[i], Flat::Read, op.name);
        check_share(flats[2 * i], rank_, flats[2 * i + 1], op.name, true);
    }
    op.out_copies = size_;
    op.ncalls = ins.size();
    op.all_in = &ins;
    return run_on(op, std::move(flats), gather_pair);
}

WorkBase Backend::gather(std::vector<Tensors> &outs, Tensors &ins, const c10d::GatherOptions &opts)
{
    const at::Tensor &in = only(ins, "gather");
    int root = root_rank(opts.rootRank, size_, "gather");
    Flat from(in, Flat::Read, "gather"), to;
    Op op = describe(OpType::GATHER, "gather", "weft:gather", opts, in, in);

    if (rank_ == root) {
        to = Flat(one_list(outs, size_, "gather"), Flat::Write, "gather");
        check_share(to, rank_, from, "gather", true);
        op.out_copies = size_;
    } else {
        TORCH_CHECK(outs.empty() || outs[0].empty(), "weft: gather: requires empty output on non-root");
    }
    return run_on(op, {to, from}, [root](weft_comm *comm, const Flat *b, weft_request **req) {
        return weft_gather(comm, b[1].data, b[0].data, b[1].count, b[1].dtype, root, req);
    });
}

WorkBase Backend::scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ScatterOptions &opts)
{
    const at::Tensor &out = only(outs, "scatter");
    int root = root_rank(opts.rootRank, size_, "scatter");
    Flat to(out, Flat::Write, "scatter"), from;
    Op op = describe(OpType::SCATTER, "scatter", "weft:scatter", opts, out, out);

    if (rank_ == root) {
        from = Flat(one_list(ins, size_, "scatter"), Flat::Read, "scatter");
        check_share(from, rank_, to, "scatter", true);
        op.in_copies = size_;
    } else {
        TORCH_CHECK(ins.empty() || ins[0].empty(), "weft: scatter: requires empty input on non-root");
    }
    return run_on(op, {to, from}, [root](weft_comm *comm, const Flat *b, weft_request **req) {
        return weft_scatter(comm, b[1].data, b[0].data, b[0].count, b[0].dtype, root, req);
    });
}

WorkBase Backend::reduce_scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ReduceScatterOptions &opts)
{
    const char *what = "reduce_scatter";
    const at::Tensor &out = only(outs, what);
    Flat to(out, Flat::Write, what), from(one_list(ins, size_, what), Flat::Read, what);
    Op op = describe(OpType::REDUCE_SCATTER, what, "weft:reduce_scatter", opts, out, out);

    check_share(from, rank_, to, what, false);
    from.op = Operator(opts.reduceOp, out);
    op.in_copies = size_;
    return run_on(op, {from, to}, [](weft_comm *comm, const Flat *b, weft_request **req) {
        return b[0].even ? reduce_scatter_pair(comm, b, req)
                         : weft_reduce_scatter_v(comm, b[0].data, b[1].data, b[0].counts->data(), b[1].dtype,
                                                 b[0].op.get(), req);
    });
}

static weft_status exchange(weft_comm *comm, const Flat *b, weft_request **req)
{
    return weft_all_to_all_v(comm, b[1].data, b[1].counts->data(), nullptr, b[0].data, b[0].counts->data(), nullptr,
                             b[0].dtype, req);
}

WorkBase Backend::alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &opts)
{
    TORCH_CHECK(ins.size() == static_cast<size_t>(size_) && outs.size() == ins.size(), "weft: all_to_all: ", ins.size(),
                " input and ", outs.size(), " output tensors for ", size_, " ranks");
    same_type(outs[0], ins[0], "all_to_all");
    return run_on(describe(OpType::ALLTOALL, "all_to_all", "weft:all_to_all", opts, ins[0], outs[0]),
                  {Flat(List(outs), Flat::Write, "all_to_all"), Flat(List(ins), Flat::Read, "all_to_all")}, exchange);
}

/* Elements for each rank: rows along the first dimension, or equal shares. */
static void split_rows(Flat &flat, const std::vector<int64_t> &splits, const at::Tensor &t, int size)
{
    size_t rows = t.dim() ? static_cast<size_t>(t.size(0)) : 1;

    flat.counts = std::make_shared<std::vector<size_t>>(size, flat.count / size);
    for (size_t i : c10::irange(splits.size()))
        (*flat.counts)[i] = rows ? static_cast<size_t>(splits[i]) * (flat.count / rows) : 0;
}

WorkBase Backend::alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
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
        return run_on(op, {to, from}, [n = from.count / size_](weft_comm *comm, const Flat *b, weft_request **req) {
            return weft_all_to_all(comm, b[1].data, b[0].data, n, b[0].dtype, req);
        });
    }
    split_rows(from, in_splits, in, size_);
    split_rows(to, out_splits, out, size_);
    return run_on(op, {to, from}, exchange);
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
