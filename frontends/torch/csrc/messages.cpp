/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks, from any rank, and batches of operations. */
#include "tensors.hpp"

namespace weft_torch
{

using WorkBase = c10::intrusive_ptr<c10d::Work>;

static void check_peer(int peer, int rank, int size, const char *operation)
{
    TORCH_CHECK(peer >= 0 && peer < size && peer != rank, "weft: ", operation, ": invalid peer rank: ", peer,
                " (this is rank ", rank, " of ", size, ")");
}

/* PyTorch's tags are weft's. */
static int64_t checked_tag(int tag, const char *operation)
{
    TORCH_CHECK(tag >= 0, "weft: ", operation, ": tag ", tag, " is below 0");
    return tag;
}

WorkBase Backend::send(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &t = only(tensors, "send");
    Flat flat(t, Flat::Read, "send");

    check_peer(peer, rank_, size_, "send");
    Op op{OpType::SEND, "send", "weft:send", false, c10d::kUnsetTimeout, peer, &t, &t};
    op.tag = checked_tag(tag, "send");
    return run(
        op,
        [p = flat.data, bytes = t.nbytes(), peer](weft_comm *comm, size_t, weft_request **req) {
            return weft_send(comm, p, bytes, WEFT_UINT8, peer, req);
        },
        [&](Work &work) { flat.hand_to(work); });
}

WorkBase Backend::recv(Tensors &tensors, int peer, int tag)
{
    check_peer(peer, rank_, size_, "recv");
    return receive(only(tensors, "recv"), peer, tag);
}

WorkBase Backend::recvAnysource(Tensors &tensors, int tag)
{
    TORCH_CHECK(size_ > 1, "weft: recv: there is no other rank to receive from");
    TORCH_CHECK(!batch_.open, "weft: recv: a receive from any rank cannot be part of a batch");
    return receive(only(tensors, "recv"), WEFT_ANY_SOURCE, tag);
}

WorkBase Backend::receive(const at::Tensor &t, int peer, int tag)
{
    Flat flat(t, Flat::Write, "recv");
    bool any = peer == WEFT_ANY_SOURCE;
    Op op{any ? OpType::RECVANYSOURCE : OpType::RECV,
          "recv",
          any ? "weft:recvAnySource" : "weft:recv",
          false,
          c10d::kUnsetTimeout,
          any ? rank_ : peer,
          &t,
          &t};

    op.tag = checked_tag(tag, "recv");
    return run(
        op,
        [p = flat.data, bytes = t.nbytes(), peer](weft_comm *comm, size_t, weft_request **req) {
            return weft_recv(comm, p, bytes, WEFT_UINT8, peer, req);
        },
        [&](Work &work) {
            flat.hand_to(work);
            work.source = peer;
        });
}

/* ---- Batches: issued together, so that sends and receives in any order cannot wait for each other ---- */

void Backend::startCoalescing()
{
    std::lock_guard<std::mutex> held(engine_->lock);

    TORCH_CHECK(!batch_.open, "weft: a batch of operations is open already");
    batch_.open = true;
    batch_.calls.clear();
    batch_.work = nullptr;
}

WorkBase Backend::defer(const Op &op, Call call, WorkPtr one)
{
    std::lock_guard<std::mutex> held(engine_->lock);

    if (!batch_.work)
        batch_.work = make_work(Op{OpType::COALESCED, "coalesced", nullptr, false}, false);
    Work &all = *batch_.work;
    all.outputs.insert(all.outputs.end(), one->outputs.begin(), one->outputs.end());
    all.keep.insert(all.keep.end(), one->keep.begin(), one->keep.end());
    all.arrays.insert(all.arrays.end(), one->arrays.begin(), one->arrays.end());
    if (one->unpack)
        all.unpack = [first = std::move(all.unpack), then = std::move(one->unpack)] {
            if (first)
                first();
            then();
        };
    uint64_t seq, id = 0;
    Record *record = nullptr;
    number(op, &seq, &record, &id);
    all.records.emplace_back(record, id);
    batch_.calls.emplace_back(op, std::move(call));
    return batch_.work;
}

WorkBase Backend::endCoalescing()
{
    std::unique_lock<std::mutex> held(engine_->lock);
    TORCH_CHECK(batch_.open, "weft: no batch of operations is open");
    Batch batch = std::move(batch_);
    batch_ = Batch();
    held.unlock();
    Op op{OpType::COALESCED, "coalesced", "weft:coalesced", false};
    WorkPtr work = batch.work ? batch.work : make_work(op, false);
    if (batch.calls.empty()) {
        work->complete_inline(WEFT_SUCCESS);
        return work;
    }
    auto call = [&](weft_comm *comm, size_t, weft_request **) {
        weft_group_start();
        for (auto &[one, fn] : batch.calls)
            for (size_t i = 0; i < one.ncalls; i++) {
                weft_request *request = nullptr;
                next_call(comm, one);
                weft_status st = fn(comm, i, &request);
                if (request)
                    work->requests.push_back(request);
                if (st < 0)
                    break; /* the group remembers it */
            }
        return weft_group_end();
    };
    return issue(op, call, work);
}

} // namespace weft_torch
