/* SPDX-License-Identifier: BSD-3-Clause */
/* The c10d backend "weft": arguments of PyTorch in, calls of the C API out. */
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include "work.hpp"

namespace weft_torch
{

using c10d::OpType;
using std::chrono::milliseconds;

struct WeftOptions : c10d::Backend::Options {
    explicit WeftOptions(milliseconds timeout = kBackendDefaultTimeout) : c10d::Backend::Options("weft", timeout)
    {
    }
};

/* What an operation is, apart from the calls that do it. */
struct Op {
    OpType type;
    const char *name;  /* as PyTorch's flight recorder spells it */
    const char *title; /* in the profiler */
    bool sync;         /* the caller waits anyway */
    milliseconds timeout = c10d::kUnsetTimeout;
    int peer = -1;
    const at::Tensor *in = nullptr, *out = nullptr; /* the first ones, for the recorder and the profiler */
    int64_t in_copies = 0, out_copies = 0;
    size_t ncalls = 1;
    int64_t tag = 0; /* of messages */
    const Tensors *all_in = nullptr; /* several, for the profiler */
    bool p2p() const
    {
        return peer >= 0;
    }
};

class Flat;

class Backend final : public c10d::Backend
{
public:
    Backend(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, c10::intrusive_ptr<WeftOptions> options);
    ~Backend() override;

    const std::string getBackendName() const override
    {
        return "weft";
    }
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override
    {
        return options_;
    }
    bool supportsSplitting() const override
    {
        return true;
    }
    bool supportsCoalescing() const override
    {
        return true;
    }
    bool supportsTensorAlloc(c10::DeviceIndex) override
    {
        return true;
    }

    /* Life cycle (backend.cpp) */
    void setTimeout(milliseconds timeout) override;
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;
    void enableCollectivesTiming() override;
    void abort() override;
    void shutdown() override;
    c10d::ErrorType getError() override;
    c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options) override;
    c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &options, const int &rank,
                                            const int &size) override;
    std::shared_ptr<c10::Allocator> getMemAllocator() override;
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;
    const EnginePtr &engine() const
    {
        return engine_;
    }

    /* Collectives (collectives.cpp): on one tensor, or on one per call */
    c10::intrusive_ptr<c10d::Work> broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors &tensors,
                                                       const c10d::AllreduceCoalescedOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor &out, at::Tensor &in,
                                                   const c10d::AllgatherOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                                   const c10d::AllgatherOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor &out, at::Tensor &in,
                                                        const c10d::ReduceScatterOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(Tensors &outs, Tensors &ins,
                                                                   const c10d::ReduceScatterOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
                                                 std::vector<int64_t> &in_splits,
                                                 const c10d::AllToAllOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &opts) override;

    /* Collectives on lists with a tensor for each rank */
    c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors> &outs, Tensors &ins,
                                             const c10d::AllgatherOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<Tensors> &outs, Tensors &ins,
                                                       const c10d::AllgatherOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors> &outs, Tensors &ins,
                                          const c10d::GatherOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> scatter(Tensors &outs, std::vector<Tensors> &ins,
                                           const c10d::ScatterOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors &outs, std::vector<Tensors> &ins,
                                                  const c10d::ReduceScatterOptions &opts) override;
    c10::intrusive_ptr<c10d::Work> alltoall(Tensors &outs, Tensors &ins, const c10d::AllToAllOptions &opts) override;

    /* Messages (messages.cpp) */
    c10::intrusive_ptr<c10d::Work> send(Tensors &tensors, int peer, int tag) override;
    c10::intrusive_ptr<c10d::Work> recv(Tensors &tensors, int peer, int tag) override;
    c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors &tensors, int tag) override;
    void startCoalescing() override;
    c10::intrusive_ptr<c10d::Work> endCoalescing() override;

private:
    /* A call of the C API: the i-th of an operation; a NULL request blocks. */
    using Call = std::function<weft_status(weft_comm *, size_t, weft_request **)>;

    /* Issue an operation (issue.hpp). `outputs` is its result, `keep` what must live meanwhile, `unpack` is run when it has
     * succeeded; fill(work) sets them, and is called only when they are needed. */
    template <class F, class Fill> c10::intrusive_ptr<c10d::Work> run(const Op &op, F &&call, Fill &&fill);
    template <class F> c10::intrusive_ptr<c10d::Work> run_on(const Op &op, c10::SmallVector<Flat, 2> flats, F fn);
    template <class F> weft_status call_all(weft_comm *comm, const Op &op, F &call, Work *work);
    template <class F> c10::intrusive_ptr<c10d::Work> issue(const Op &op, F &call, WorkPtr work);
    void number(const Op &op, uint64_t *seq, Record **record, uint64_t *id);
    WorkPtr make_work(const Op &op, bool profiling);
    void annotate(const Op &op, uint64_t seq) const;
    c10::intrusive_ptr<c10d::Work> receive(const at::Tensor &tensor, int peer, int tag);
    c10::intrusive_ptr<c10d::Work> defer(const Op &op, Call call, WorkPtr work);
    void next_call(weft_comm *comm, const Op &op) const;

    c10::intrusive_ptr<c10d::Store> store_;
    c10::intrusive_ptr<WeftOptions> options_;
    EnginePtr engine_;
    uint64_t barriers_ = 0;

    struct Batch {
        bool open = false;
        std::vector<std::pair<Op, Call>> calls;
        WorkPtr work;
    } batch_;
};

/* Bootstrap (bootstrap.cpp): a communicator of the ranks that share the store. */
weft_comm *make_comm(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, const char *name,
                     milliseconds timeout);
/* Wait until every rank but `self` has set its key; "" or who has not by then: "Ranks 1, 3". `all`: else only the first. */
std::string missing_after(c10d::Store &store, const std::string &prefix, int size, int self, milliseconds timeout, bool all);

/* Memory (memory.cpp) */
std::shared_ptr<c10::Allocator> allocator();
at::Tensor empty(int64_t elems, at::TensorOptions options);
size_t allocator_reserved();
/* A tensor's memory made reachable for the other ranks of the host, as long as this lives. */
class Registration
{
public:
    explicit Registration(const at::Tensor &tensor);
    ~Registration();
    Registration(const Registration &) = delete;
    Registration &operator=(const Registration &) = delete;
    void release();

private:
    at::Tensor tensor_; /* its memory must not be freed before */
    weft_context *owner_;
    weft_mem *mem_ = nullptr;
};

} // namespace weft_torch
