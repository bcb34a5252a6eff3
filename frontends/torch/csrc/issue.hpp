/* SPDX-License-Identifier: BSD-3-Clause */
/* Issuing an operation. One that its caller waits for anyway runs in the calling thread, without a request, when nothing else
 * is under way; others go through a request and are waited for later. */
#pragma once

#include <ATen/record_function.h>
#include <c10/util/irange.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include "tensors.hpp"

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
    int peer = -1; /* of messages, as the tag */
    int64_t tag = 0;
    const Tensors *all_in = nullptr; /* several, for the profiler */
    const Algorithms *algorithms = nullptr; /* of a batch: the thread's, when it was called */
    bool p2p() const { return peer >= 0; }
};

template <class O>
Op describe(OpType type, const char *name, const char *title, const O &opts, const at::Tensor &in, const at::Tensor &out)
{
    return Op{type, name, title, !opts.asyncOp, opts.timeout, &in, &out};
}

/* A call of the C API: the i-th of an operation; a NULL request blocks. */
using Call = std::function<weft_status(weft_comm *, size_t, weft_request **)>;

/* Operations of one thread and one group that are issued together, later. */
class Batch
{
public:
    struct Part {
        Op op;
        Call call;
        Record record;
    };

    explicit Batch(EnginePtr engine) : engine(std::move(engine)), block_(Block::here()) {}
    static void open(const EnginePtr &engine)
    {
        static thread_local Thread thread;
        thread.armed = true;
        newest_ = new Batch(engine, newest_);
    }
    static Batch *find(const Engine *engine)
    {
        for (Batch *batch = newest_; C10_UNLIKELY(batch != nullptr); batch = batch->older_)
            if (batch->engine.get() == engine)
                return batch;
        return nullptr;
    }
    /* Take it from the thread's batches; NULL: there is none. */
    static std::unique_ptr<Batch> close(const Engine *engine)
    {
        for (Batch **at = &newest_; *at; at = &(*at)->older_)
            if ((*at)->engine.get() == engine) {
                Batch *batch = *at;
                *at = batch->older_;
                return std::unique_ptr<Batch>(batch);
            }
        return nullptr;
    }
    /* An operation: what `one` has goes to the Work of the whole, which its caller gets. */
    WorkBase add(Op op, Call call, Work &one, Record record)
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
        op.algorithms = Algorithms::of_thread;
        record.stack = std::move(one.stack);
        (op.p2p() ? messages : collectives)++;
        op.in = op.out = nullptr; /* the caller's */
        op.all_in = nullptr;
        parts.push_back({op, std::move(call), std::move(record)});
        return work;
    }
    bool left() const { return block_ && block_->left(); }
    void drop(const char *why)
    {
        if (work)
            work->drop(why);
    }

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

class Issuer : public c10d::Backend
{
public:
    const EnginePtr &engine() const { return engine_; }
    uint64_t getSequenceNumberForGroup() override { return engine_->seq; }
    size_t operations_under_way() const { return engine_->under_way.count(); }

    /* Between them the operations of the calling thread are issued together, so that sends and receives in any order cannot wait
     * for each other. */
    void startCoalescing() override
    {
        engine_->check_own("startCoalescing");
        TORCH_CHECK(!open_batch(), "weft: a batch of operations of group ", engine_->name, " is open already in this thread");
        Batch::open(engine_);
    }
    WorkBase endCoalescing() override
    {
        std::unique_ptr<Batch> batch = Batch::close(engine_.get());
        TORCH_CHECK(batch, "weft: no batch of operations of group ", engine_->name, " is open in this thread");
        Op op{OpType::COALESCED, "coalesced", "weft:coalesced"};
        if (!batch->work) {
            WorkPtr work = make_work(op, false);
            work->complete_inline(WEFT_SUCCESS);
            return work;
        }
        auto call = [&](weft_comm *comm, size_t, weft_request **) {
            weft_group_start();
            for (auto &part : batch->parts)
                if (call_all(comm, part.op, part.call, batch->work.get()) < 0)
                    break; /* the group remembers it */
            return weft_group_end();
        };
        try {
            return issue(op, call, batch->work, batch.get());
        } catch (...) {
            batch->work->drop("the batch was refused");
            throw;
        }
    }

protected:
    Issuer(int rank, int size, c10::intrusive_ptr<WeftOptions> options)
        : c10d::Backend(rank, size), options_(std::move(options))
    {
    }

    /* Issue an operation: fill(work) sets its result, what must live meanwhile, and what is run when it has succeeded. */
    template <class F, class Fill> WorkBase run(const Op &op, F &&call, Fill &&fill)
    {
        Engine &e = *engine_;
        bool profiling = at::hasCallbacks();
        StackPtr stack = early_stack();
        Batch *batch = open_batch();
        std::unique_lock<std::mutex> held(e.lock);
        weft_comm *comm = e.open_comm(op.name);

        if (C10_LIKELY(!batch))
            reap();
        if (op.sync && !batch && e.under_way.empty())
            return run_here(op, call, fill, held, comm, stack, C10_UNLIKELY(profiling) ? make_work(op, true) : nullptr);
        held.unlock();
        WorkPtr work = make_work(op, profiling && !batch);
        work->stack = std::move(stack);
        fill(*work);
        return batch ? batch->add(op, Call(std::forward<F>(call)), *work, record_of(op))
                     : issue(op, call, std::move(work));
    }
    /* Calls on buffers: fn(comm, the buffers of the i-th call, request). */
    template <class F> WorkBase run_on(const Op &op, Flats flats, F fn)
    {
        struct {
            size_t stride;
            Flats flats;
            F fn;
            weft_status operator()(weft_comm *comm, size_t i, weft_request **request) const
            {
                return fn(comm, flats.data() + i * stride, request);
            }
        } call{flats.size() / op.ncalls, std::move(flats), std::move(fn)};

        return run(op, call, [&](Work &work) {
            for (const Flat &flat : call.flats)
                flat.hand_to(work);
        });
    }
    WorkPtr make_work(const Op &op, bool profiling)
    {
        if (C10_LIKELY(!profiling))
            return c10::make_intrusive<Work>(engine_, op.type, op.name);
        annotate(op, engine_->seq + 1);
        std::optional<Tensors> inputs;
        if (op.all_in)
            inputs = *op.all_in;
        else if (op.in)
            inputs = Tensors{*op.in};
        return c10::make_intrusive<Work>(engine_, op.type, op.name, op.title, inputs);
    }
    /* With the group's lock held: let operations that have completed know it. */
    void reap()
    {
        UnderWay &works = engine_->under_way;

        while (C10_UNLIKELY(!works.empty())) {
            WorkBase oldest = works.oldest();
            if (!oldest || !static_cast<Work *>(oldest.get())->poll(true))
                break;
        }
        if (C10_UNLIKELY(works.count() > 64)) /* behind one that takes long */
            for (auto &work : works.all())
                static_cast<Work *>(work.get())->poll(true);
    }
    /* Let what is under way finish, at most `patience`, then leave the group. */
    void close(milliseconds patience)
    {
        Engine &e = *engine_;
        if (e.inherited())
            return;
        auto until = steady_clock::now() + patience;
        std::unique_lock<std::mutex> held(e.lock, std::defer_lock);

        while (!held.try_lock()) { /* another thread is inside an operation */
            if (steady_clock::now() > until)
                e.abort("the group was shut down with an operation under way");
            std::this_thread::sleep_for(milliseconds(1));
        }
        for (reap(); !e.under_way.empty() && !e.aborted && steady_clock::now() < until; reap())
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        weft_comm *c = e.comm;
        if (!c)
            return;
        auto left = e.under_way.all();
        if (!left.empty())
            e.abort("the group was shut down with operations under way");
        /* Nobody may be about to look at a request when they go with the communicator. */
        for (auto &work : left)
            for (until = steady_clock::now() + milliseconds(2000); !work->isCompleted() && steady_clock::now() < until;)
                std::this_thread::sleep_for(milliseconds(1));
        e.comm = nullptr;
        while (weft_comm_destroy(c) == WEFT_EBUSY) /* a waiter is about to leave */
            std::this_thread::sleep_for(milliseconds(1));
        for (auto &work : left)
            static_cast<Work *>(work.get())->give_up();
    }

    /* Of this group and the calling thread; NULL: none is open. One that was left by an exception is forgotten. */
    Batch *open_batch() const
    {
        Batch *batch = Batch::find(engine_.get());

        if (C10_LIKELY(!batch) || !batch->left())
            return batch;
        Batch::close(engine_.get())->drop(Work::kLeft);
        return nullptr;
    }

    c10::intrusive_ptr<WeftOptions> options_;
    EnginePtr engine_;

private:
    /* For stacks of all operations: before the group's lock, as it takes the interpreter's. */
    static StackPtr early_stack() { return C10_UNLIKELY(stack_level() > 1) ? Stack::capture() : nullptr; }

    /* In this thread, with the group's lock held until the calls are done. */
    template <class F, class Fill>
    WorkBase run_here(const Op &op, F &call, Fill &fill, std::unique_lock<std::mutex> &held, weft_comm *comm,
                      const StackPtr &stack, WorkPtr work)
    {
        Ticket ticket = number(op, stack);
        weft_status st;
        {
            BlockingCall blocking(engine_.get());
            st = call_all(comm, op, call, nullptr);
        }
        if (C10_UNLIKELY(engine_->tells_choices && st >= 0))
            tell_choice(comm, op);
        held.unlock();
        if (!work)
            work = make_work(op, false);
        work->ticket = ticket;
        if (C10_LIKELY(st >= 0)) {
            fill(*work);
        } else {
            work->stack = stack_level() > 0 ? Stack::capture() : nullptr;
            check_signals();
        }
        work->complete_inline(st);
        if (C10_UNLIKELY(st < 0))
            work->wait(); /* throws */
        return work;
    }
    /* With requests: the work completes later. */
    template <class F> WorkBase issue(const Op &op, F &call, WorkPtr work, Batch *batch = nullptr)
    {
        if (!work->stack)
            work->stack = early_stack();
        std::unique_lock<std::mutex> held(engine_->lock);
        weft_comm *comm = engine_->open_comm(op.name);
        work->ticket = batch ? number_batch(*batch) : number(op, work->stack);
        work->issue_status = call_all(comm, op, call, work.get());
        if (C10_UNLIKELY(engine_->tells_choices && !batch && work->issue_status >= 0))
            tell_choice(comm, op);
        if (C10_UNLIKELY(work->issue_status < 0 && work->requests.empty())) {
            held.unlock();
            work->issued_here();
            work->complete_inline(work->issue_status);
            work->wait(); /* throws */
        }
        /* A short message is gone, or was there, when its call returns. */
        if (!op.p2p() || !work->succeeded_at_once())
            work->list();
        work->now_issued();
        held.unlock();
        work->issued_here();
        if (C10_UNLIKELY(at::hasCallbacks()))
            work->watch();
        return work;
    }
    /* Do the operation's calls: blocking ones when there is no work to keep their requests. */
    template <class F> weft_status call_all(weft_comm *comm, const Op &op, F &call, Work *work)
    {
        for (size_t i = 0; i < op.ncalls; i++) {
            weft_request *request = nullptr;
            next_call(comm, op);
            weft_status st = call(comm, i, work ? &request : nullptr);
            if (work && request)
                work->requests.push_back(request);
            if (C10_UNLIKELY(st < 0))
                return st;
        }
        return WEFT_SUCCESS;
    }
    /* The arguments of an operation that the library takes apart from its call. */
    void next_call(weft_comm *comm, const Op &op) const
    {
        bool usual = op.timeout == c10d::kUnsetTimeout || op.timeout == engine_->timeout || op.timeout.count() <= 0;

        const char *algorithm = named_algorithm(op);

        if (C10_LIKELY(usual && !op.tag && !algorithm))
            return;
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        options.algorithm = algorithm;
        options.timeout_ns = usual ? 0 : static_cast<uint64_t>(op.timeout.count()) * 1000000;
        options.tag = op.tag;
        weft_comm_next_call(comm, &options);
    }
    /* By the call, or else by the group; NULL: the library chooses. */
    const char *named_algorithm(const Op &op) const
    {
        const Algorithms *call = op.algorithms ? op.algorithms : Algorithms::of_thread;

        if (C10_LIKELY(!call && !engine_->algorithms.any))
            return nullptr;
        const char *name = call ? call->name(op.type) : nullptr;
        return name ? name : engine_->algorithms.name(op.type);
    }
    /* With the group's lock held, after the call. */
    void tell_choice(weft_comm *comm, const Op &op) const
    {
        size_t bytes = op.in ? op.in->nbytes() : op.out ? op.out->nbytes() : 0;

        if (engine_->tells_choices)
            engine_->choices.tell(comm, engine_->name, op.type, bytes);
    }
    /* Take the operation's number and write it down. The group's lock is held. */
    Ticket number(const Op &op, const StackPtr &stack)
    {
        Engine &e = *engine_;
        Ticket ticket;

        ticket.seq = next(op.p2p() ? e.p2p_seq : e.seq);
        if (Recorder::get().enabled())
            Recorder::get().add(&ticket, [&](Record &r) {
                fill_record(op, r);
                r.seq = e.seq.load(std::memory_order_relaxed);
                r.p2p_seq = e.p2p_seq.load(std::memory_order_relaxed);
                if (C10_UNLIKELY(stack || r.stack))
                    r.stack = stack;
            });
        return ticket;
    }
    /* Its operations and the record that ends them share one number, of collectives and one of messages: that of collectives is
     * the same on all ranks, whoever exchanges messages besides. Returns the ticket of the whole. */
    Ticket number_batch(Batch &batch)
    {
        Engine &e = *engine_;
        Op whole{OpType::COALESCED, "coalesced", nullptr};
        Ticket ticket;

        if (batch.collectives)
            ticket.seq = next(e.seq);
        if (batch.messages) {
            uint64_t number = next(e.p2p_seq);
            ticket.seq = batch.collectives ? ticket.seq : number;
        }
        if (!Recorder::get().enabled())
            return ticket;
        auto add = [&](Ticket &one, auto &&fill) {
            Recorder::get().add(&one, [&](Record &r) {
                fill(r);
                r.seq = e.seq.load(std::memory_order_relaxed);
                r.p2p_seq = e.p2p_seq.load(std::memory_order_relaxed);
            });
        };
        for (auto &part : batch.parts)
            add(batch.work->parts.emplace_back(), [&](Record &r) {
                uint64_t id = r.id;
                auto created = r.created;
                r = std::move(part.record);
                r.id = id;
                r.created = created;
            });
        add(ticket, [&](Record &r) {
            fill_record(whole, r);
            r.p2p = !batch.collectives;
            r.stack = batch.work->stack;
        });
        return ticket;
    }
    /* Plain stores: only the lock's holder counts. */
    static uint64_t next(std::atomic<uint64_t> &count)
    {
        uint64_t number = count.load(std::memory_order_relaxed) + 1;
        count.store(number, std::memory_order_relaxed);
        return number;
    }
    void fill_record(const Op &op, Record &r) const
    {
        r.group = engine_->recorded_group;
        r.name = op.name;
        r.peer = op.peer;
        r.p2p = op.p2p();
        r.timeout_ms = (op.timeout == c10d::kUnsetTimeout ? engine_->timeout : op.timeout).count();
        r.in.set(op.in, op.in_copies);
        r.out.set(op.out, op.out_copies);
    }
    Record record_of(const Op &op) const
    {
        Record r;
        fill_record(op, r);
        return r;
    }
    /* The record that profilers know collectives by: group, sizes, type. */
    void annotate(const Op &op, uint64_t seq) const
    {
        const at::Tensor *any = op.in ? op.in : op.out;
        const auto &ranks = options_->global_ranks_in_group;
        int start = ranks.empty() ? 0 : static_cast<int>(ranks[0]);
        int stride = ranks.size() > 1 ? static_cast<int>(ranks[1] - ranks[0]) : 1;
        auto one = [](const at::Tensor *t) { return t ? Tensors{*t} : Tensors(); };
        auto elems = [](const at::Tensor *t, int64_t copies) { return t ? t->numel() * std::max<int64_t>(copies, 1) : 0; };

        RECORD_PARAM_COMMS_DATA(
            std::make_tuple(static_cast<int64_t>(seq), op.p2p()), std::make_tuple(engine_->name, getGroupDesc()),
            one(op.in), one(op.out), op.p2p() ? op.peer : rank_, op.name, elems(op.in, op.in_copies),
            elems(op.out, op.out_copies), any ? any->scalar_type() : at::kByte, std::vector<int64_t>(),
            std::vector<int64_t>(), start, stride, size_);
    }
};

} // namespace weft_torch
