/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation is, and batches of operations that a thread issues together. */
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include "coding.hpp"
#include "work.hpp"

namespace weft_torch
{

using c10d::OpType;

struct WeftOptions : c10d::Backend::Options {
    explicit WeftOptions(milliseconds timeout = kBackendDefaultTimeout) : c10d::Backend::Options("weft", timeout) {}
    Algorithms algorithms;
    bool timeout_given = false; /* it outranks that of the call which makes the group */
    /* Each group has its own: what belongs to one group, as its name, is nothing to others made with the same options. */
    c10::intrusive_ptr<WeftOptions> copy() const { return c10::make_intrusive<WeftOptions>(*this); }
};

/* What an operation is, apart from the calls that do it. */
struct Op {
    OpType type;
    const char *name;  /* as PyTorch's flight recorder spells it */
    const char *title; /* in the profiler */
    bool sync = false; /* the caller waits anyway */
    milliseconds timeout = c10d::kUnsetTimeout;
    const at::Tensor *in = nullptr, *out = nullptr; /* the first ones, for the recorder and the profiler */
    int64_t in_copies = 0, out_copies = 0;
    size_t ncalls = 1;
    int peer = -1; /* of messages */
    const Tensors *all_in = nullptr; /* several, for the profiler */
    AlgorithmsPtr algorithms; /* of a batch: the thread's, when it was called */
    CodingPtr coding;         /* of a hook, and likewise; else the thread's */
    bool bare = false; /* of a hook in C++: where in Python it was issued is not asked, which takes the interpreter's lock */
    bool p2p() const { return peer >= 0; }
};

template <class O>
Op describe(OpType type, const char *name, const char *title, const O &opts, const at::Tensor &in, const at::Tensor &out)
{
    return Op{type, name, title, !opts.asyncOp, opts.timeout, &in, &out};
}

/* A call of the C API, as data: the i-th of an operation. */
using Call = std::function<weft_call(size_t)>;

inline weft_call call_of(weft_kind kind, const void *src, void *dst, size_t count, weft_dtype dtype)
{
    weft_call call = WEFT_CALL_INIT;

    call.kind = kind;
    call.src = src;
    call.dst = dst;
    call.count = count;
    call.dtype = dtype;
    return call;
}

/* Operations of one thread and one group that are issued together, later. */
class Batch
{
public:
    struct Part {
        Op op;
        Call call;
        Record record;
    };

    explicit Batch(EnginePtr engine) : engine(std::move(engine)), block_(Block::here(this->engine->name)) {}
    static void open(const EnginePtr &engine);
    static Batch *find(const Engine *engine);
    /* Take it from the thread's batches; NULL: there is none. */
    static std::unique_ptr<Batch> close(const Engine *engine);
    /* An operation: what `one` has goes to the Work of the whole, which its caller gets. */
    WorkBase add(Op op, Call call, Work &one, Record record);
    bool left() const { return block_ && block_->left(); }
    void drop(const char *why);

    const EnginePtr engine;
    std::vector<Part> parts;
    WorkPtr work;
    size_t collectives = 0, messages = 0;

private:
    /* At the end of a thread. */
    struct Thread {
        bool armed = false;
        ~Thread()
        {
            while (Batch *batch = newest_) {
                newest_ = batch->older_;
                batch->drop("the thread that has opened its batch has ended");
                delete batch;
            }
        }
    };

    Batch(EnginePtr engine, Batch *older) : Batch(std::move(engine)) { older_ = older; }

    static inline constinit thread_local Batch *newest_ = nullptr;
    Batch *older_ = nullptr;
    BlockPtr block_;
};

} // namespace weft_torch
