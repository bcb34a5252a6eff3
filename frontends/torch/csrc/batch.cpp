/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.hpp"

namespace weft_torch
{

void Batch::open(const EnginePtr &engine)
{
    static thread_local Thread thread;
    thread.armed = true;
    newest_ = new Batch(engine, newest_);
}

Batch *Batch::find(const Engine *engine)
{
    for (Batch *batch = newest_; C10_UNLIKELY(batch != nullptr); batch = batch->older_)
        if (batch->engine.get() == engine)
            return batch;
    return nullptr;
}

std::unique_ptr<Batch> Batch::close(const Engine *engine)
{
    for (Batch **at = &newest_; *at; at = &(*at)->older_)
        if ((*at)->engine.get() == engine) {
            Batch *batch = *at;
            *at = batch->older_;
            return std::unique_ptr<Batch>(batch);
        }
    return nullptr;
}

WorkBase Batch::add(Op op, Call call, Work &one, Record record)
{
    if (!work) {
        work = c10::make_intrusive<Work>(engine, OpType::COALESCED, "coalesced");
        work->block = block_;
        work->postpone();
    }
    work->outputs.insert(work->outputs.end(), one.outputs.begin(), one.outputs.end());
    work->keep.insert(work->keep.end(), one.keep.begin(), one.keep.end());
    work->arrays.insert(work->arrays.end(), one.arrays.begin(), one.arrays.end());
    if (one.unpack)
        work->unpack = [first = std::move(work->unpack), then = std::move(one.unpack)] {
            if (first)
                first();
            then();
        };
    op.algorithms = AlgorithmsScope::of_thread();
    if (!op.coding)
        op.coding = CodingScope::of_thread();
    if (!op.coding)
        op.coding = Coding::nothing();
    record.stack = std::move(one.stack);
    (op.p2p() ? messages : collectives)++;
    op.in = op.out = nullptr; /* the caller's */
    op.all_in = nullptr;
    parts.push_back({op, std::move(call), std::move(record)});
    return work;
}

void Batch::drop(const char *why)
{
    if (work)
        work->drop(why);
}

} // namespace weft_torch
