/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on lists with a tensor for each rank. */
#include "tensors.hpp"

#include <c10/util/irange.h>

namespace weft_torch
{

using WorkBase = c10::intrusive_ptr<c10d::Work>;

/* ---- Shares ---- */

static bool adjacent(const Tensors &list)
{
    const char *next = nullptr;

    for (const at::Tensor &t : list) {
        const char *p = static_cast<const char *>(t.const_data_ptr());
        if (!is_plain(t) || (next && t.numel() && p != next))
            return false;
        if (t.numel())
            next = p + t.nbytes();
    }
    return true;
}

Shares::Shares(const Tensors &list, Flat::Use use, const char *operation) : list_(&list), use_(use)
{
    int64_t total = 0;

    for (const at::Tensor &t : list) {
        check_tensor(t, operation);
        same_type(t, list[0], operation);
        Elems e = elems_of(t.scalar_type());
        dtype = e.dtype;
        counts.push_back(static_cast<size_t>(t.numel()) * e.per);
        even = even && counts.back() == counts[0];
        total += t.numel();
    }
    if (list.empty())
        return;
    if (adjacent(list)) {
        for (const at::Tensor &t : list)
            if (!data && t.numel())
                data = use == Flat::Read ? const_cast<void *>(t.const_data_ptr()) : t.mutable_data_ptr();
        return;
    }
    at::AutoDispatchBelowAutograd guard;
    staged_ = at::empty({total}, list[0].options().memory_format(at::MemoryFormat::Contiguous));
    data = staged_.mutable_data_ptr();
    int64_t at = 0;
    for (const at::Tensor &t : list) {
        if (use == Flat::Read)
            staged_.narrow(0, at, t.numel()).view(t.sizes()).copy_(t);
        at += t.numel();
    }
}

void Shares::hand_to(Work &work) const
{
    auto &where = use_ == Flat::Read ? work.keep : work.outputs;

    if (staged_.defined() && use_ == Flat::Read) {
        where.push_back(staged_);
        return;
    }
    where.insert(where.end(), list_->begin(), list_->end());
    if (!staged_.defined())
        return;
    work.unpack = [next = std::move(work.unpack), list = *list_, from = staged_] {
        int64_t at = 0;
        for (const at::Tensor &t : list) {
            t.copy_(from.narrow(0, at, t.numel()).view(t.sizes()));
            at += t.numel();
        }
        if (next)
            next();
    };
}

static const Tensors &one_list(const std::vector<Tensors> &lists, int size, const char *operation)
{
    TORCH_CHECK(lists.size() == 1, "weft: ", operation, ": expects one list of tensors, got ", lists.size());
    TORCH_CHECK(lists[0].size() == static_cast<size_t>(size), "weft: ", operation, ": expects a list of ", size,
                " tensors, one for each rank, got ", lists[0].size());
    return lists[0];
}

static void check_share(const Shares &shares, int rank, const Flat &flat, const char *operation)
{
    TORCH_CHECK(shares.dtype == flat.dtype, "weft: ", operation,
                ": the tensors of the list have another type than the other tensor");
    TORCH_CHECK(shares.counts[rank] == flat.count, "weft: ", operation, ": tensor ", rank, " of the list has ",
                shares.counts[rank], " elements, the tensor of this rank has ", flat.count);
}

/* ---- Gathering ---- */

WorkBase Backend::allgather(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    const at::Tensor &in = only(ins, "all_gather");
    auto to = std::make_shared<Shares>(one_list(outs, size_, "all_gather"), Flat::Write, "all_gather");
    Flat from(in, Flat::Read, "all_gather");

    check_share(*to, rank_, from, "all_gather");
    Op op{OpType::ALLGATHER, "all_gather", "weft:all_gather", !opts.asyncOp, opts.timeout, -1, &in, &in};
    op.out_copies = size_;
    return run(
        op,
        [s = from.data, to, d = from.dtype, n = from.count](weft_comm *comm, size_t, weft_request **req) {
            return to->even ? weft_all_gather(comm, s, to->data, n, d, req)
                            : weft_all_gather_v(comm, s, to->data, to->counts.data(), nullptr, d, req);
        },
        [&](Work &work) {
            to->hand_to(work);
            from.hand_to(work);
            work.arrays.push_back(to);
        });
}

/* outs[r][i] is what rank r has as ins[i]. */
WorkBase Backend::allgather_coalesced(std::vector<Tensors> &outs, Tensors &ins, const c10d::AllgatherOptions &opts)
{
    const char *what = "allgather_coalesced";
    auto lists = std::make_shared<std::vector<Tensors>>(ins.size());
    std::vector<std::shared_ptr<Shares>> to;
    std::vector<Flat> from;

    TORCH_CHECK(!ins.empty() && outs.size() == static_cast<size_t>(size_), "weft: ", what, ": ", outs.size(),
                " output lists for ", size_, " ranks, ", ins.size(), " inputs");
    for (size_t i : c10::irange(ins.size())) {
        for (const Tensors &of_rank : outs) {
            TORCH_CHECK(of_rank.size() == ins.size(), "weft: ", what, ": an output list has ", of_rank.size(),
                        " tensors, not ", ins.size());
            (*lists)[i].push_back(of_rank[i]);
        }
        to.push_back(std::make_shared<Shares>((*lists)[i], Flat::Write, what));
        from.emplace_back(ins[i], Flat::Read, what);
        check_share(*to[i], rank_, from[i], what);
        TORCH_CHECK(to[i]->even, "weft: ", what, ": the outputs for input ", i, " have different sizes");
    }
    Op op{OpType::ALLGATHER_COALESCED,
          "ALLGATHER_coalesced",
          "weft:all_gather",
          !opts.asyncOp,
          opts.timeout,
          -1,
          &ins[0],
          &ins[0]};
    op.out_copies = size_;
    op.ncalls = ins.size();
    op.all_in = &ins;
    return run(
        op,
        [to, from](weft_comm *comm, size_t i, weft_request **req) {
            return weft_all_gather(comm, from[i].data, to[i]->data, from[i].count, from[i].dtype, req);
        },
        [&](Work &work) {
            work.arrays.push_back(lists);
            for (size_t i : c10::irange(ins.size())) {
                to[i]->hand_to(work);
                from[i].hand_to(work);
            }
        });
}

WorkBase Backend::gather(std::vector<Tensors> &outs, Tensors &ins, const c10d::GatherOptions &opts)
{
    const at::Tensor &in = only(ins, "gather");
    int root = root_rank(opts.rootRank, size_, "gather");
    Flat from(in, Flat::Read, "gather");
    std::shared_ptr<Shares> to;

    if (rank_ == root) {
        to = std::make_shared<Shares>(one_list(outs, size_, "gather"), Flat::Write, "gather");
        check_share(*to, rank_, from, "gather");
        TORCH_CHECK(to->even, "weft: gather: the output tensors have different sizes");
    } else {
        TORCH_CHECK(outs.empty() || outs[0].empty(), "weft: gather: requires empty output on non-root");
    }
    Op op{OpType::GATHER, "gather", "weft:gather", !opts.asyncOp, opts.timeout, -1, &in, &in};
    op.out_copies = rank_ == root ? size_ : 0;
    return run(
        op,
        [s = from.data, p = to ? to->data : nullptr, d = from.dtype, n = from.count,
         root](weft_comm *comm, size_t, weft_request **req) { return weft_gather(comm, s, p, n, d, root, req); },
        [&](Work &work) {
            if (to)
                to->hand_to(work);
            from.hand_to(work);
        });
}

/* ---- Scattering ---- */

WorkBase Backend::scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ScatterOptions &opts)
{
    const at::Tensor &out = only(outs, "scatter");
    int root = root_rank(opts.rootRank, size_, "scatter");
    Flat to(out, Flat::Write, "scatter");
    std::shared_ptr<Shares> from;

    if (rank_ == root) {
        from = std::make_shared<Shares>(one_list(ins, size_, "scatter"), Flat::Read, "scatter");
        check_share(*from, rank_, to, "scatter");
        TORCH_CHECK(from->even, "weft: scatter: the input tensors have different sizes");
    } else {
        TORCH_CHECK(ins.empty() || ins[0].empty(), "weft: scatter: requires empty input on non-root");
    }
    Op op{OpType::SCATTER, "scatter", "weft:scatter", !opts.asyncOp, opts.timeout, -1, &out, &out};
    op.in_copies = rank_ == root ? size_ : 0;
    return run(
        op,
        [s = from ? from->data : nullptr, p = to.data, d = to.dtype, n = to.count,
         root](weft_comm *comm, size_t, weft_request **req) { return weft_scatter(comm, s, p, n, d, root, req); },
        [&](Work &work) {
            to.hand_to(work);
            if (from)
                from->hand_to(work);
        });
}

WorkBase Backend::reduce_scatter(Tensors &outs, std::vector<Tensors> &ins, const c10d::ReduceScatterOptions &opts)
{
    const at::Tensor &out = only(outs, "reduce_scatter");
    Flat to(out, Flat::Write, "reduce_scatter");
    auto from = std::make_shared<Shares>(one_list(ins, size_, "reduce_scatter"), Flat::Read, "reduce_scatter");
    Operator operation(opts.reduceOp, out);

    check_share(*from, rank_, to, "reduce_scatter");
    Op op{OpType::REDUCE_SCATTER, "reduce_scatter", "weft:reduce_scatter", !opts.asyncOp, opts.timeout, -1, &out, &out};
    op.in_copies = size_;
    return run(
        op,
        [from, p = to.data, d = to.dtype, n = to.count, operation](weft_comm *comm, size_t, weft_request **req) {
            return from->even
                       ? weft_reduce_scatter(comm, from->data, p, n, d, operation.get(), req)
                       : weft_reduce_scatter_v(comm, from->data, p, from->counts.data(), d, operation.get(), req);
        },
        [&](Work &work) {
            to.hand_to(work);
            from->hand_to(work);
            work.arrays.push_back(from);
        });
}

WorkBase Backend::alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &opts)
{
    TORCH_CHECK(ins.size() == static_cast<size_t>(size_) && outs.size() == ins.size(), "weft: all_to_all: ", ins.size(),
                " input and ", outs.size(), " output tensors for ", size_, " ranks");
    auto to = std::make_shared<Shares>(outs, Flat::Write, "all_to_all"),
         from = std::make_shared<Shares>(ins, Flat::Read, "all_to_all");

    same_type(outs[0], ins[0], "all_to_all");
    return run(
        Op{OpType::ALLTOALL, "all_to_all", "weft:all_to_all", !opts.asyncOp, opts.timeout, -1, &ins[0], &outs[0]},
        [to, from](weft_comm *comm, size_t, weft_request **req) {
            return weft_all_to_all_v(comm, from->data, from->counts.data(), nullptr, to->data, to->counts.data(),
                                     nullptr, to->dtype, req);
        },
        [&](Work &work) {
            to->hand_to(work);
            from->hand_to(work);
            work.arrays.push_back(to);
            work.arrays.push_back(from);
        });
}

} // namespace weft_torch
