/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks, from any rank, and batches of operations.
 *
 * A message is an envelope and a payload, which follow each other in the order that the library keeps between two ranks. Who
 * receives from any rank asks all of them for an envelope; an envelope that comes although it was not needed is that of the
 * next message from there. */
#include "tensors.hpp"

#include <thread>

namespace weft_torch
{

using WorkBase = c10::intrusive_ptr<c10d::Work>;

static void check_peer(int peer, int rank, int size, const char *operation)
{
    TORCH_CHECK(peer >= 0 && peer < size && peer != rank, "weft: ", operation, ": invalid peer rank: ", peer,
                " (this is rank ", rank, " of ", size, ")");
}

static void check_tag(const Envelope &envelope, int64_t tag, int peer)
{
    TORCH_CHECK(envelope.tag == tag, "weft: recv: rank ", peer, " sent a message with tag ", envelope.tag,
                ", this receive wants tag ", tag, "; messages between two ranks meet in the order of issue");
}

WorkBase Backend::send(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &t = only(tensors, "send");
    Flat flat(t, Flat::Read, "send");
    auto envelope = std::make_shared<Envelope>(Envelope{tag, t.nbytes()});

    check_peer(peer, rank_, size_, "send");
    Op op{OpType::SEND, "send", "weft:send", false, c10d::kUnsetTimeout, peer, &t, &t};
    op.ncalls = 2;
    return run(
        op,
        [p = flat.data, envelope, peer](weft_comm *comm, size_t i, weft_request **req) {
            return i == 0 ? weft_send(comm, envelope.get(), sizeof *envelope, WEFT_UINT8, peer, req)
                          : weft_send(comm, p, envelope->bytes, WEFT_UINT8, peer, req);
        },
        [&](Work &work) {
            flat.hand_to(work);
            work.arrays.push_back(envelope);
        });
}

WorkBase Backend::recv(Tensors &tensors, int peer, int tag)
{
    const at::Tensor &t = only(tensors, "recv");
    Flat flat(t, Flat::Write, "recv");
    auto mail = std::make_shared<std::shared_ptr<Envelope>>();

    check_peer(peer, rank_, size_, "recv");
    Op op{OpType::RECV, "recv", "weft:recv", false, c10d::kUnsetTimeout, peer, &t, &t};
    op.ncalls = 2;
    return run(
        op,
        [p = flat.data, bytes = t.nbytes(), mail, peer, e = engine_.get()](weft_comm *comm, size_t i,
                                                                           weft_request **req) {
            return i == 0 ? e->recv_envelope(comm, peer, mail.get(), req)
                          : weft_recv(comm, p, bytes, WEFT_UINT8, peer, req);
        },
        [&](Work &work) {
            flat.hand_to(work);
            work.source = peer;
            work.arrays.push_back(mail);
            work.unpack = [next = std::move(work.unpack), mail, tag, peer] {
                check_tag(**mail, tag, peer);
                if (next)
                    next();
            };
        });
}

WorkBase Backend::recvAnysource(Tensors &tensors, int tag)
{
    const at::Tensor &t = only(tensors, "recv");
    Flat flat(t, Flat::Write, "recv");
    auto until = std::chrono::steady_clock::now() + options_->timeout;

    TORCH_CHECK(size_ > 1, "weft: recv: there is no other rank to receive from");
    TORCH_CHECK(!batch_.open, "weft: recv: a receive from any rank cannot be part of a batch");
    Op op{OpType::RECVANYSOURCE, "recv", "weft:recvAnySource", false, c10d::kUnsetTimeout, rank_, &t, &t};
    op.ncalls = 0;
    return run(
        op, [](weft_comm *, size_t, weft_request **) { return WEFT_SUCCESS; },
        [&](Work &work) {
            flat.hand_to(work);
            work.stage = [e = engine_, tag, p = flat.data, bytes = t.nbytes(), until](Work &w, uint64_t wait_ns) {
                auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
                do {
                    std::unique_lock<std::mutex> held(e->lock, std::try_to_lock);
                    std::shared_ptr<Envelope> envelope;
                    weft_comm *comm = held.owns_lock() ? e->open_comm("recv") : nullptr;
                    int peer = comm ? e->take_envelope(comm, tag, &envelope) : -1;
                    if (peer >= 0) {
                        weft_request *request = nullptr;
                        w.issue_status = weft_recv(comm, p, bytes, WEFT_UINT8, peer, &request);
                        if (request)
                            w.requests.push_back(request);
                        w.source = peer;
                        if (w.record && w.record->id == w.record_id)
                            w.record->peer = peer;
                        return true;
                    }
                    if (comm)
                        held.unlock();
                    TORCH_CHECK(std::chrono::steady_clock::now() < until, "weft: recv from any rank of group ", e->name,
                                " on rank ", e->rank, ": no message with tag ", tag, " came within ",
                                e->timeout.count(), " ms");
                    if (wait_ns)
                        std::this_thread::sleep_for(std::chrono::microseconds(20));
                } while (wait_ns && std::chrono::steady_clock::now() < end);
                return false;
            };
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
